/* SPDX-License-Identifier: MIT */
/* The intake from within: who waits for whom, and what is timed. */
#include "replay/replay.h"
#include "support/replay_fixture.h"
#include "test.h"

#include <pthread.h>
#include <time.h>

enum { CALLS = 100 * GPUR_CLOCK_EVERY };

/* Every small call is stood for once, whoever made it: a new writer's first call is no more likely to be timed. */
TEST(timed_appends_stand_for_all)
{
    const gpur_replay_config config = replay_fixture_plain_config(300, 20, 100, GPUR_FLUSH_AUTO);
    int64_t weight = 0;
    replay_fixture s;
    CHECK(replay_fixture_open(&s, test_device(), &config, 1));
    gpur_ingest *const ingest = &s.replay->ingest;
    for (int i = 0; i < CALLS; i++)
        weight += gpur_append_clock_begin(ingest, 1).weight;
    CHECK_EQUAL(weight, CALLS);
    CHECK_EQUAL(gpur_append_clock_begin(ingest, 1000000).weight, 1);
    replay_fixture_close(&s);
}

static void wait_for_sleepers(gpur_replay *replay, int32_t wanted)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    for (int32_t sleepers = -1; sleepers != wanted; nanosleep(&pause, NULL)) {
        gpur_window_lock(replay);
        sleepers = replay->window_lock.waiters;
        gpur_window_unlock(replay);
    }
}

static void *seal(void *context)
{
    gpur_window_lock(context);
    if (gpur_ingest_flush(context) != GPUR_OK)
        test_fail(__FILE__, __LINE__);
    gpur_window_unlock(context);
    return NULL;
}

static atomic_int claimed;

static void *claim_one(void *context)
{
    gpur_claim claim;
    gpur_window_lock(context);
    const gpur_status status = gpur_ingest_claim(context, 1, 1, &claim);
    atomic_store(&claimed, 1);
    if (status != GPUR_OK || gpur_ingest_commit(context, &claim) != GPUR_OK)
        test_fail(__FILE__, __LINE__);
    gpur_window_unlock(context);
    return NULL;
}

/* Else writers that never pause between two claims would keep a draw waiting for ever. */
TEST(a_claim_waits_for_a_sealing_that_waits_for_claims)
{
    const gpur_replay_config config = replay_fixture_plain_config(300, 20, 100, GPUR_FLUSH_AUTO);
    pthread_t sealer, writer;
    gpur_claim claim;
    replay_fixture s;
    CHECK(replay_fixture_open(&s, test_device(), &config, 1));
    gpur_ingest *const ingest = &s.replay->ingest;
    atomic_store(&claimed, 0);
    gpur_window_lock(s.replay);
    CHECK_OK(gpur_ingest_claim(s.replay, 1, 1, &claim));
    gpur_window_unlock(s.replay);
    CHECK(pthread_create(&sealer, NULL, seal, s.replay) == 0);
    wait_for_sleepers(s.replay, 1);
    CHECK(pthread_create(&writer, NULL, claim_one, s.replay) == 0);
    wait_for_sleepers(s.replay, 2);
    CHECK_EQUAL(atomic_load(&claimed), 0);
    gpur_window_lock(s.replay);
    CHECK(!gpur_ingest_claim_committed(ingest, 1));
    CHECK_OK(gpur_ingest_commit(s.replay, &claim));
    gpur_window_unlock(s.replay);
    pthread_join(sealer, NULL);
    pthread_join(writer, NULL);
    CHECK_EQUAL(atomic_load(&claimed), 1);
    CHECK(ingest->wait_seconds > 0 && ingest->waits == 0);
    replay_fixture_close(&s);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(timed_appends_stand_for_all);
    RUN(a_claim_waits_for_a_sealing_that_waits_for_claims);
    return test_main_end();
}
