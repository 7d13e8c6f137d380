/* SPDX-License-Identifier: MIT */
/* The intake from within: who waits for whom, and what is timed. */
#include "replay/storage/ingest.h"
#include "replay/replay.h"
#include "support/replay_kit.h"
#include "test.h"

#include <pthread.h>
#include <time.h>

enum { CALLS = 100 * GPUR_CLOCK_EVERY };

/* Every small call is stood for once, whoever made it: a new writer's first call is no more likely to be timed. */
TEST(timed_appends_stand_for_all)
{
    const gpur_replay_config config = kit_plain_config(300, 20, 100, GPUR_FLUSH_AUTO);
    int64_t weight = 0;
    kit_scene s;
    CHECK(kit_open(&s, test_device(), &config, 1));
    gpur_intake *const intake = &s.replay->intake;
    for (int i = 0; i < CALLS; i++)
        weight += gpur_append_clock_begin(intake, 1).weight;
    CHECK_EQUAL(weight, CALLS);
    CHECK_EQUAL(gpur_append_clock_begin(intake, 1000000).weight, 1);
    kit_close(&s);
}

static void wait_for_sleepers(gpur_intake *intake, int32_t wanted)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    for (int32_t sleepers = -1; sleepers != wanted; nanosleep(&pause, NULL)) {
        gpur_intake_lock(intake);
        sleepers = intake->lock.sleepers;
        gpur_intake_unlock(intake);
    }
}

static void *seal(void *context)
{
    gpur_intake_lock(context);
    if (gpur_intake_seal(context) != GPUR_OK)
        test_fail(__FILE__, __LINE__);
    gpur_intake_unlock(context);
    return NULL;
}

static atomic_int claimed;

static void *claim_one(void *context)
{
    gpur_claim claim;
    gpur_intake_lock(context);
    const gpur_status status = gpur_intake_claim(context, 1, gpur_intake_waits(context), &claim);
    atomic_store(&claimed, 1);
    if (status != GPUR_OK || gpur_intake_commit(context, &claim) != GPUR_OK)
        test_fail(__FILE__, __LINE__);
    gpur_intake_unlock(context);
    return NULL;
}

/* Else writers that never pause between two claims would keep a draw waiting for ever. */
TEST(a_claim_waits_for_a_sealing_that_waits_for_claims)
{
    const gpur_replay_config config = kit_plain_config(300, 20, 100, GPUR_FLUSH_AUTO);
    pthread_t sealer, writer;
    gpur_claim claim;
    kit_scene s;
    CHECK(kit_open(&s, test_device(), &config, 1));
    gpur_intake *const intake = &s.replay->intake;
    atomic_store(&claimed, 0);
    gpur_intake_lock(intake);
    CHECK_OK(gpur_intake_claim(intake, 1, 1, &claim));
    gpur_intake_unlock(intake);
    CHECK(pthread_create(&sealer, NULL, seal, intake) == 0);
    wait_for_sleepers(intake, 1);
    CHECK(pthread_create(&writer, NULL, claim_one, intake) == 0);
    wait_for_sleepers(intake, 2);
    CHECK_EQUAL(atomic_load(&claimed), 0);
    gpur_intake_lock(intake);
    CHECK(!gpur_intake_take(intake, 1));
    CHECK_OK(gpur_intake_commit(intake, &claim));
    gpur_intake_unlock(intake);
    pthread_join(sealer, NULL);
    pthread_join(writer, NULL);
    CHECK_EQUAL(atomic_load(&claimed), 1);
    CHECK(intake->wait_seconds > 0 && intake->waits == 0);
    kit_close(&s);
}

/* A block that is full is closed, and may be fed: that is for a commit to do. */
TEST(rows_are_taken_at_once_where_they_leave_the_block_open)
{
    enum { BLOCK = 20 };
    const gpur_replay_config config = kit_plain_config(300, BLOCK, 100, GPUR_FLUSH_AUTO);
    kit_scene s;
    CHECK(kit_open(&s, test_device(), &config, 1));
    CHECK_OK(kit_append_next(&s, 3));
    gpur_intake *const intake = &s.replay->intake;
    const gpur_block *const block = intake->staging.open;
    gpur_intake_lock(intake);
    CHECK(!gpur_intake_take(intake, BLOCK - 3));
    CHECK(!gpur_intake_take(intake, INT64_MAX));
    CHECK_EQUAL(intake->ids, 3);
    CHECK(gpur_intake_take(intake, BLOCK - 4) == block->rows + 3 * intake->staging.pitch);
    CHECK(!gpur_intake_take(intake, 1));
    CHECK_EQUAL(intake->ids, BLOCK - 1);
    CHECK_EQUAL(block->filled, BLOCK - 1);
    CHECK_EQUAL(intake->staged, BLOCK - 1);
    gpur_intake_unlock(intake);
    CHECK(s.replay->intake.appended == BLOCK - 1 && intake->writing == 0);
    kit_close(&s);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(timed_appends_stand_for_all);
    RUN(rows_are_taken_at_once_where_they_leave_the_block_open);
    RUN(a_claim_waits_for_a_sealing_that_waits_for_claims);
    return test_main_end();
}
