/* SPDX-License-Identifier: MIT */
/* Which rows a launch sees: the paper's own cases of blocks, refusals, burn-in. Appends while launches are held back or
 * half enqueued: nothing that is still to be read is overwritten, and whoever waits waits for the right thing.
 * test_replay_model compares what is visible after any calls with a reference; test_stress checks that each gather gets
 * the rows of its own ids beside other gathers and appends. */
#include "support/stream_gate.h"
#include "replay/sampler/consumer.h"
#include "replay/sampler/gather.h"
#include "replay/replay.h"
#include "support/replay_fixture.h"
#include "test.h"

#include <pthread.h>
#include <time.h>

static replay_fixture s;
static gate g; /* in front of one of its streams */

/* Elsewhere nothing waits in a stream that a test could hold back. */
static int can_hold(void)
{
    return !test_on_cuda() && test_executor() == GPUR_EXECUTOR_THREAD;
}

/* A replay with this many rows. */
static int open_fixture(const gpur_replay_config *config, int64_t rows)
{
    gate_init(&g);
    return replay_fixture_open(&s, test_device(), config, 1) && replay_fixture_append(&s, rows) == GPUR_OK;
}

static void close_fixture(void)
{
    replay_fixture_close(&s);
    gate_destroy(&g);
}

static void pause_shortly(void)
{
    const struct timespec pause = {.tv_nsec = 50000000};
    nanosleep(&pause, NULL);
}

static void append_singly(int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        CHECK_OK(replay_fixture_append(&s, 1));
}

/* [bparr/gpu-experience-replay, its unit tests]: capacity 6, update 2; after rows 0 ... 8, and after 0 ... 34. */
TEST(the_papers_blocks_fall_where_its_tests_say)
{
    const gpur_replay_config config = replay_fixture_plain_config(6, 2, 4, GPUR_FLUSH_MANUAL);
    CHECK(open_fixture(&config, 0));
    append_singly(9);
    CHECK_EQUAL(gpur_replay_size(s.replay), 6);
    CHECK_OK(replay_fixture_gather(&s, 3, (const int64_t[]){2, 3, 4}));
    CHECK_OK(replay_fixture_gather(&s, 4, (const int64_t[]){5, 7, 6, 7}));
    CHECK_STATUS(replay_fixture_gather(&s, 1, (const int64_t[]){8}), GPUR_INVALID_ARGUMENT); /* staged */
    CHECK_MESSAGE("ids[0] is 8; the visible transitions are 2 to 7");
    CHECK_STATUS(replay_fixture_gather(&s, 2, (const int64_t[]){2, 1}), GPUR_EVICTED);
    CHECK_MESSAGE("ids[1] is 1, and has been overwritten; the visible transitions are 2 to 7");
    CHECK_STATUS(replay_fixture_gather(&s, 1, (const int64_t[]){-1}), GPUR_INVALID_ARGUMENT);
    append_singly(26);
    CHECK_OK(replay_fixture_sample(&s, 1, NULL));
    CHECK_OK(replay_fixture_sample(&s, 1, NULL));
    CHECK_OK(replay_fixture_gather(&s, 4, (const int64_t[]){28, 33, 30, 31}));
    CHECK_OK(replay_fixture_gather(&s, 2, (const int64_t[]){29, 32}));
    CHECK_STATUS(replay_fixture_gather(&s, 1, (const int64_t[]){34}), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(replay_fixture_gather(&s, 1, (const int64_t[]){27}), GPUR_EVICTED);
    CHECK_OK(gpur_writer_flush(s.writer));
    CHECK_OK(replay_fixture_gather(&s, 1, (const int64_t[]){34}));
    close_fixture();
}

TEST(burn_in_counts_what_has_become_visible)
{
    gpur_replay_config config = replay_fixture_plain_config(20, 4, 4, GPUR_FLUSH_MANUAL);
    gpur_batch *batch = NULL;
    config.min_size = 8;
    CHECK(open_fixture(&config, 0));
    CHECK_EQUAL(gpur_replay_can_sample(s.replay), 0);
    CHECK_FAILS(gpur_replay_sample(s.replay, 1, NULL, &batch), GPUR_TOO_FEW, "the replay is empty");
    CHECK_STATUS(replay_fixture_gather(&s, 1, (const int64_t[]){0}), GPUR_TOO_FEW);
    const gpur_replay_stats stats = replay_fixture_stats(s.replay);
    CHECK(batch == NULL && stats.sampled == 0 && stats.batches_made == 0 && stats.batches_alive == 0);
    CHECK_OK(replay_fixture_append(&s, 7));
    CHECK_EQUAL(gpur_replay_can_sample(s.replay), 0);
    CHECK_STATUS(replay_fixture_sample(&s, 1, NULL), GPUR_TOO_FEW);
    CHECK_MESSAGE("4 transitions have become visible so far; samples wait for min_size = 8");
    CHECK_OK(replay_fixture_gather(&s, 2, (const int64_t[]){3, 0})); /* not a sample */
    CHECK_OK(replay_fixture_append(&s, 1));
    CHECK_EQUAL(gpur_replay_can_sample(s.replay), 1);
    CHECK_OK(gpur_replay_sample(s.replay, 1, NULL, &batch));
    CHECK_OK(gpur_replay_sample_into(s.replay, NULL, batch));
    gpur_batch_release(batch);
    CHECK_OK(replay_fixture_append(&s, 100));
    CHECK_EQUAL(gpur_replay_can_sample(s.replay), 1);
    close_fixture();
}

TEST(a_soft_capacity_overwrites_nothing_between_two_trims)
{
    const gpur_replay_config config = replay_fixture_plain_config(30, 5, 4, GPUR_FLUSH_AUTO);
    CHECK(open_fixture(&config, 0));
    CHECK_FAILS(gpur_replay_trim(NULL, 4), GPUR_INVALID_ARGUMENT, "replay is NULL");
    CHECK_FAILS(gpur_replay_trim(s.replay, -1), GPUR_INVALID_ARGUMENT, "keep is -1; it must be 0 to capacity = 30");
    CHECK_FAILS(gpur_replay_trim(s.replay, 31), GPUR_INVALID_ARGUMENT, "keep is 31; it must be 0 to capacity = 30");
    CHECK_OK(gpur_replay_trim(s.replay, 4)); /* of an empty replay */
    for (int64_t rows = 20; rows < 200; rows += 10) {
        CHECK_OK(replay_fixture_append(&s, rows == 20 ? 20 : 10));
        CHECK_EQUAL(gpur_replay_size(s.replay), rows == 20 ? 20 : 30);
        CHECK_EQUAL(replay_fixture_stats(s.replay).evicted, rows == 20 ? 0 : rows - 30);
        CHECK_OK(gpur_replay_trim(s.replay, 20));
        CHECK_EQUAL(gpur_replay_size(s.replay), 20);
        CHECK_STATUS(replay_fixture_gather(&s, 1, (const int64_t[]){rows - 21}),
                     rows == 20 ? GPUR_INVALID_ARGUMENT : GPUR_EVICTED);
        CHECK_OK(replay_fixture_gather(&s, 2, (const int64_t[]){rows - 20, rows - 1}));
    }
    CHECK_OK(gpur_replay_trim(s.replay, 0));
    CHECK_EQUAL(gpur_replay_size(s.replay), 0);
    CHECK_STATUS(replay_fixture_sample(&s, 1, NULL), GPUR_TOO_FEW);
    CHECK_OK(replay_fixture_append(&s, 3));
    CHECK_EQUAL(gpur_replay_size(s.replay), 3);
    CHECK_EQUAL(replay_fixture_stats(s.replay).first_id, 190);
    CHECK_OK(replay_fixture_gather(&s, 2, (const int64_t[]){190, 192}));
    CHECK_STATUS(replay_fixture_gather(&s, 1, (const int64_t[]){189}), GPUR_EVICTED);
    close_fixture();
}

TEST(a_sample_of_distinct_rows_needs_as_many)
{
    gpur_replay_config config = replay_fixture_plain_config(100, 10, 16, GPUR_FLUSH_AUTO);
    int64_t ids[16];
    config.index_source = GPUR_UNIFORM_DISTINCT;
    CHECK(open_fixture(&config, 0));
    CHECK_OK(replay_fixture_append(&s, 15));
    CHECK_EQUAL(gpur_replay_can_sample(s.replay), 1); /* min_size alone counts: no batch is asked for */
    CHECK_FAILS(replay_fixture_sample(&s, 16, ids), GPUR_TOO_FEW, "15 transitions are visible; this sample needs 16");
    CHECK_OK(replay_fixture_sample(&s, 15, ids));
    CHECK_OK(replay_fixture_append(&s, 1));
    CHECK_FAILS(replay_fixture_sample(&s, 17, ids), GPUR_INVALID_ARGUMENT,
                "count is 17; it must be 1 to max_batch = 16");
    CHECK_STATUS(replay_fixture_sample(&s, 0, ids), GPUR_INVALID_ARGUMENT);
    close_fixture();
}

/* One thread, no launch, every mode, blocks of every size: the appends themselves must keep the uploads going. */
TEST(burn_in_never_waits_for_a_launch)
{
    for (int mode = 0; mode < 8; mode++) {
        const int32_t flush = mode & 1 ? GPUR_FLUSH_MANUAL : GPUR_FLUSH_AUTO;
        gpur_replay_config config = replay_fixture_plain_config(64, 1 + 5 * (mode % 3), 8, flush);
        config.upload = mode & 2 ? GPUR_UPLOAD_SCATTER : GPUR_UPLOAD_COPY;
        config.staging_blocks = 2;
        CHECK(open_fixture(&config, 0));
        if (mode & 4)
            append_singly(1000);
        else
            CHECK_OK(replay_fixture_append(&s, 1000));
        CHECK_OK(replay_fixture_append(&s, 777));
        CHECK_OK(gpur_writer_flush(s.writer));
        CHECK_EQUAL(gpur_replay_size(s.replay), 64);
        CHECK_OK(replay_fixture_gather(&s, 2, (const int64_t[]){s.next - 1, s.next - 64}));
        close_fixture();
    }
}

/* Rows that a waiting launch will read must not be overwritten before it has. */
TEST(an_append_overwrites_nothing_that_an_enqueued_gather_reads)
{
    for (int mode = 0; mode < 4; mode++) {
        gpur_replay_config config =
            replay_fixture_plain_config(12, 4, 8, mode & 1 ? GPUR_FLUSH_MANUAL : GPUR_FLUSH_AUTO);
        gpur_batch *batch = NULL;
        config.upload = mode & 2 ? GPUR_UPLOAD_SCATTER : GPUR_UPLOAD_COPY;
        CHECK(open_fixture(&config, 12));
        CHECK_OK(gate_close(&g, s.replay->consumer.stream));
        CHECK_OK(gpur_replay_gather(s.replay, 3, (const int64_t[]){0, 1, 11}, NULL, &batch));
        CHECK_OK(replay_fixture_append(&s, 8));
        gate_open(&g);
        CHECK_EQUAL(count_wrong_bytes(&s.row_tags, batch, NULL), 0);
        gpur_batch_release(batch);
        CHECK_OK(gpur_writer_flush(s.writer));
        CHECK_OK(replay_fixture_gather(&s, 2, (const int64_t[]){8, 19}));
        close_fixture();
    }
}

static gpur_status no_work(void *context)
{
    (void)context;
    return GPUR_OK;
}

/* A launch of two gathers, as a learner's are, and an append between them: the second must not see what leaves. */
TEST(rows_evicted_in_the_midst_of_a_launch_are_gone_for_its_rest)
{
    enum { COUNT = 12 };
    const gpur_replay_config config = replay_fixture_plain_config(COUNT, 4, 4, GPUR_FLUSH_AUTO);
    int64_t wanted[COUNT], got[2][COUNT];
    gpur_stream *stream = NULL;
    gpur_gather_args args;
    CHECK(open_fixture(&config, COUNT));
    for (int64_t i = 0; i < COUNT; i++)
        wanted[i] = i;
    int64_t *const ids = upload_to_device(s.device, wanted, sizeof wanted), *const id =
                                                                                upload_to_device(s.device, wanted, 96);
    const gpur_gather_request request = {.source = GPUR_GATHER_IDS, .rows = 4, .ids = ids, .id = id};
    CHECK_OK(gpur_consumer_begin(s.replay, (gpur_consumer_launch){GPUR_LAUNCH_SAMPLE, 4, 0}, &stream));
    CHECK_OK(gpur_gather_prepare(s.replay, &request, &args));
    args.batch = COUNT;
    for (int i = 0; i < 2; i++) {
        CHECK_OK(gpur_launch_gather(stream, gpur_gather_grid(s.replay, &args), &args));
        CHECK_OK(gpur_copy(stream, got[i], id, sizeof *got));
        if (i == 0)
            CHECK_OK(replay_fixture_append(&s, 5));
    }
    CHECK_OK(gpur_stream_sync(stream));
    CHECK_STATUS(gpur_with_ids_locked(s.replay, COUNT, wanted, no_work, NULL), GPUR_EVICTED);
    CHECK_MESSAGE("ids[0] is 0, and has been overwritten; the visible transitions are 4 to 11");
    CHECK_OK(gpur_consumer_end(s.replay, GPUR_OK));
    for (int64_t i = 0; i < COUNT; i++)
        CHECK(got[0][i] == i && got[1][i] == (i < 4 ? -1 : i));
    gpur_device_free(s.device, ids);
    gpur_device_free(s.device, id);
    close_fixture();
}

static atomic_int opened;

static void *open_later(void *context)
{
    (void)context;
    pause_shortly();
    atomic_store(&opened, 1);
    gate_open(&g);
    return NULL;
}

TEST(no_more_than_two_launches_are_in_flight)
{
    const gpur_replay_config config = replay_fixture_plain_config(12, 4, 8, GPUR_FLUSH_AUTO);
    gpur_batch *batches[3] = {NULL};
    pthread_t thread;
    atomic_store(&opened, 0);
    CHECK(open_fixture(&config, 12));
    CHECK_OK(gate_close(&g, s.replay->consumer.stream));
    CHECK_OK(gpur_replay_sample(s.replay, 8, NULL, &batches[0]));
    CHECK_OK(gpur_replay_sample(s.replay, 8, NULL, &batches[1]));
    CHECK(pthread_create(&thread, NULL, open_later, NULL) == 0);
    CHECK_OK(gpur_replay_sample(s.replay, 8, NULL, &batches[2]));
    CHECK_EQUAL(atomic_load(&opened), 1);
    pthread_join(thread, NULL);
    for (int i = 0; i < 3; i++) {
        CHECK_EQUAL(count_wrong_bytes(&s.row_tags, batches[i], NULL), 0);
        gpur_batch_release(batches[i]);
    }
    close_fixture();
}

TEST(an_append_without_a_free_block_waits_for_the_oldest_copy)
{
    const gpur_replay_config config = replay_fixture_plain_config(100, 5, 8, GPUR_FLUSH_AUTO);
    pthread_t thread;
    atomic_store(&opened, 0);
    CHECK(open_fixture(&config, 0));
    CHECK_OK(gate_close(&g, s.replay->copy_stream));
    CHECK_OK(replay_fixture_append(&s, 20)); /* four blocks of five: no copy is waited for yet */
    CHECK_EQUAL(replay_fixture_stats(s.replay).waits, 0);
    CHECK(pthread_create(&thread, NULL, open_later, NULL) == 0);
    CHECK_OK(replay_fixture_append(&s, 1));
    CHECK_EQUAL(atomic_load(&opened), 1);
    pthread_join(thread, NULL);
    const gpur_replay_stats stats = replay_fixture_stats(s.replay);
    CHECK_EQUAL(stats.waits, 1);
    CHECK(stats.wait_seconds > 0.01 && stats.append_seconds >= stats.wait_seconds);
    CHECK_OK(replay_fixture_gather(&s, 3, (const int64_t[]){0, 19, 20}));
    close_fixture();
}

enum { CALLS = 100 * GPUR_CLOCK_EVERY };

/* One small call of several is timed, and counts as often; whose call it is does not matter. */
TEST(timed_appends_count_for_all)
{
    const gpur_replay_config config = replay_fixture_plain_config(300, 20, 100, GPUR_FLUSH_AUTO);
    int64_t weight = 0;
    CHECK(open_fixture(&config, 0));
    gpur_ingest *const ingest = &s.replay->ingest;
    for (int i = 0; i < CALLS; i++)
        weight += gpur_append_clock_begin(ingest, 1).weight;
    CHECK_EQUAL(weight, CALLS);
    CHECK_EQUAL(gpur_append_clock_begin(ingest, 1000000).weight, 1);
    close_fixture();
}

static void wait_for_waiters(int32_t wanted)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    for (int32_t waiters = -1; waiters != wanted; nanosleep(&pause, NULL)) {
        gpur_window_lock(s.replay);
        waiters = s.replay->window_lock.waiters;
        gpur_window_unlock(s.replay);
    }
}

static void *flush(void *status)
{
    gpur_window_lock(s.replay);
    *(gpur_status *)status = gpur_ingest_flush(&s.replay->ingest);
    gpur_window_unlock(s.replay);
    return NULL;
}

static atomic_int claimed;

static void *claim_one(void *status)
{
    gpur_claim claim;
    gpur_window_lock(s.replay);
    *(gpur_status *)status = gpur_ingest_claim(&s.replay->ingest, 1, 1, &claim);
    atomic_store(&claimed, 1);
    if (*(gpur_status *)status == GPUR_OK)
        *(gpur_status *)status = gpur_ingest_commit(&s.replay->ingest, &claim);
    gpur_window_unlock(s.replay);
    return NULL;
}

/* Else writers that never pause between two claims would keep a sample waiting for ever. */
TEST(a_claim_waits_for_a_flush_that_waits_for_claims)
{
    const gpur_replay_config config = replay_fixture_plain_config(300, 20, 100, GPUR_FLUSH_AUTO);
    pthread_t threads[2];
    gpur_status flushed = GPUR_DEVICE_ERROR, added = GPUR_DEVICE_ERROR;
    gpur_claim claim;
    CHECK(open_fixture(&config, 0));
    gpur_ingest *const ingest = &s.replay->ingest;
    atomic_store(&claimed, 0);
    gpur_window_lock(s.replay);
    CHECK_OK(gpur_ingest_claim(&s.replay->ingest, 1, 1, &claim));
    gpur_window_unlock(s.replay);
    CHECK(pthread_create(&threads[0], NULL, flush, &flushed) == 0);
    wait_for_waiters(1);
    CHECK(pthread_create(&threads[1], NULL, claim_one, &added) == 0);
    wait_for_waiters(2);
    CHECK_EQUAL(atomic_load(&claimed), 0);
    gpur_window_lock(s.replay);
    CHECK(!gpur_ingest_claim_under_lock(ingest, 1));
    CHECK_OK(gpur_ingest_commit(&s.replay->ingest, &claim));
    gpur_window_unlock(s.replay);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    CHECK_OK(flushed);
    CHECK_OK(added);
    CHECK_EQUAL(atomic_load(&claimed), 1);
    CHECK(ingest->wait_seconds > 0 && ingest->waits == 0);
    close_fixture();
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(the_papers_blocks_fall_where_its_tests_say);
    RUN(burn_in_counts_what_has_become_visible);
    RUN(a_soft_capacity_overwrites_nothing_between_two_trims);
    RUN(a_sample_of_distinct_rows_needs_as_many);
    RUN(burn_in_never_waits_for_a_launch);
    RUN(rows_evicted_in_the_midst_of_a_launch_are_gone_for_its_rest);
    RUN(timed_appends_count_for_all);
    RUN(a_claim_waits_for_a_flush_that_waits_for_claims);
    if (can_hold()) {
        RUN(an_append_overwrites_nothing_that_an_enqueued_gather_reads);
        RUN(no_more_than_two_launches_are_in_flight);
        RUN(an_append_without_a_free_block_waits_for_the_oldest_copy);
    }
    return test_main_end();
}
