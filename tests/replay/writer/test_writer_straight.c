/* SPDX-License-Identifier: MIT */
/* Appends that wait for nobody, and rows that need no staging. */
#include "replay/replay.h"
#include "support/replay_kit.h"
#include "test.h"

static const gpur_field full[] = {{"obs", GPUR_FLOAT32, {3}},     {"action", GPUR_INT32, {0}},
                                  {"reward", GPUR_FLOAT32, {0}},  {"next_obs", GPUR_FLOAT32, {3}},
                                  {"terminated", GPUR_BOOL, {0}}, {"truncated", GPUR_UINT8, {0}},
                                  {"extra", GPUR_INT32, {0}}};

static int64_t appended(kit_scene *s)
{
    gpur_replay_stats stats = {.size = sizeof stats};
    return gpur_replay_get_stats(s->replay, &stats) == GPUR_OK ? stats.appended : -1;
}

/* Rows `first` to first + count - 1 of the kit. `waits` 0: by the call that never does. */
static gpur_status append_rows(kit_scene *s, const kit *k, int64_t first, int64_t count, int waits)
{
    void *arrays[GPUR_MAX_FIELDS];
    kit_arrays(k, first, count, arrays);
    const void *const *const fields = (const void *const *)arrays;
    const gpur_status status = waits ? gpur_writer_append_fields(s->writer, count, fields, NULL, NULL)
                                     : gpur_writer_try_append_fields(s->writer, count, fields);
    for (int32_t f = 0; f < k->count; f++)
        free(arrays[f]);
    return status;
}

static int64_t wrong_bytes(kit_scene *s, const kit *k, int64_t count)
{
    int64_t ids[64], wrong = -1;
    gpur_batch *batch = NULL;
    for (int64_t b = 0; b < count; b++)
        ids[b] = b;
    if (gpur_replay_gather(s->replay, count, ids, NULL, &batch) == GPUR_OK)
        wrong = kit_wrong_bytes(k, batch, NULL);
    gpur_batch_release(batch);
    return wrong;
}

TEST(an_append_that_waits_for_nobody_takes_all_or_none)
{
    for (int32_t feed = GPUR_FEED_COPY; feed <= GPUR_FEED_SCATTER; feed++) {
        gpur_replay_config config = kit_config(full, 7, 200, 6, 64);
        config.feed = feed, config.staging_blocks = 3;
        kit_scene s;
        CHECK(kit_open(&s, test_device(), &config, 1));
        const kit k = kit_of(s.replay, config.gamma);
        CHECK_OK(append_rows(&s, &k, 0, 5, 0));
        gpur_window_lock(s.replay);
        CHECK_STATUS(append_rows(&s, &k, 5, 1, 0), GPUR_WOULD_BLOCK);
        CHECK_MESSAGE("1 transitions would have to wait; call again later, or gpur_writer_append_fields");
        gpur_window_unlock(s.replay);
        s.replay->ingest.flushing++;
        CHECK_STATUS(append_rows(&s, &k, 5, 1, 0), GPUR_WOULD_BLOCK);
        s.replay->ingest.flushing--;
        s.replay->ingest.staging.open->filled += 1; /* as if a row had been claimed */
        s.replay->ingest.staging.spare.count = 1;   /* and another block were in use */
        CHECK_STATUS(append_rows(&s, &k, 5, 2 * 6, 0), GPUR_WOULD_BLOCK);
        s.replay->ingest.staging.open->filled -= 1;
        s.replay->ingest.staging.spare.count = 2;
        CHECK_EQUAL(appended(&s), 5);
        CHECK_OK(append_rows(&s, &k, 5, 8, 0));
        CHECK_OK(append_rows(&s, &k, 13, 0, 0));
        CHECK_EQUAL(appended(&s), 13);
        CHECK_EQUAL(wrong_bytes(&s, &k, 13), 0);
        kit_close(&s);
    }
}

TEST(an_append_that_waits_for_nobody_refuses_what_the_other_does)
{
    gpur_replay_config config = kit_config(full, 7, 100, 7, 8);
    static const float numbers[3] = {1, 2, 3};
    const void *fields[] = {numbers, numbers, NULL, numbers, numbers, numbers, numbers};
    kit_scene s;
    CHECK(kit_open(&s, test_device(), &config, 1));
    CHECK_STATUS(gpur_writer_try_append_fields(NULL, 1, fields), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(gpur_writer_try_append_fields(s.writer, -1, fields), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("count is -1; it must be 0 or more");
    CHECK_STATUS(gpur_writer_try_append_fields(s.writer, 1, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("fields is NULL; it must be 7 pointers");
    CHECK_STATUS(gpur_writer_try_append_fields(s.writer, 1, fields), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("fields[2], \"reward\", is NULL");
    CHECK_EQUAL(appended(&s), 0);
    kit_close(&s);
}

/* No room can come for them, so it is no GPUR_WOULD_BLOCK; the most that is told does fit. */
TEST(more_than_ever_fits_at_once_is_refused)
{
    static const gpur_field field = {"x", GPUR_FLOAT32, {0}};
    static const int64_t too_many[] = {22, INT64_MAX / 64, INT64_MAX};
    static const float x[21];
    gpur_replay_config config = kit_config(&field, 1, 100, 7, 8);
    kit_scene s;
    config.flush = GPUR_FLUSH_MANUAL;
    CHECK(kit_open(&s, test_device(), &config, 1));
    for (int i = 0; i < 3; i++) {
        CHECK_STATUS(gpur_writer_try_append_fields(s.writer, too_many[i], (const void *[]){x}), GPUR_INVALID_ARGUMENT);
        CHECK_MESSAGE("at once it must be at most (staging_blocks - 1) x update_size = 21; gpur_writer_append");
    }
    CHECK_EQUAL(appended(&s), 0);
    CHECK_OK(gpur_writer_try_append_fields(s.writer, 21, (const void *[]){x}));
    CHECK_EQUAL(appended(&s), 21);
    kit_close(&s);
}

/* All that `s` was given is drawn, and nothing of it before it is to be. */
static void check_straight(kit_scene *s, int by_ones, int large)
{
    const kit k = kit_of(s->replay, s->replay->config.gamma);
    const int manual = s->replay->config.flush == GPUR_FLUSH_MANUAL;
    for (int64_t id = 0; id < 64; id += by_ones ? 1 : 64)
        CHECK_OK(append_rows(s, &k, id, by_ones ? 1 : 64, 1));
    if (manual && !large)
        CHECK_EQUAL(gpur_replay_size(s->replay), 0);
    if (!manual && gpur_device_works_at_once(s->device) && (large || !by_ones))
        CHECK_EQUAL(s->replay->ingest.staged, 0);
    CHECK_OK(gpur_writer_flush(s->writer));
    CHECK_EQUAL(gpur_replay_size(s->replay), 64);
    CHECK_EQUAL(wrong_bytes(s, &k, 64), 0);
}

/* Rows that are longer than a tile, in a ring that is written past the caches, and many short ones, which need no
 * staging if the next draw is to see them anyway. */
TEST(rows_that_go_straight_are_what_was_given)
{
    static const gpur_field long_row[] = {{"flag", GPUR_BOOL, {0}},
                                          {"obs", GPUR_UINT8, {60001}},
                                          {"reward", GPUR_FLOAT32, {0}},
                                          {"n", GPUR_UINT8, {700}}};
    static const gpur_field row[] = {{"x", GPUR_FLOAT32, {50}}, {"reward", GPUR_FLOAT32, {0}}, {"n", GPUR_BOOL, {0}}};
    for (int way = 0; way < 8; way++) {
        const int large = way & 1;
        gpur_replay_config config = large ? kit_config(long_row, 4, 160, 16, 64) : kit_config(row, 3, 50000, 500, 64);
        config.flush = way & 2 ? GPUR_FLUSH_MANUAL : GPUR_FLUSH_AUTO;
        kit_scene s;
        CHECK(kit_open(&s, test_device(), &config, 1));
        check_straight(&s, way & 4, large);
        kit_close(&s);
    }
}

TEST(rewards_of_long_rows_are_clipped_on_the_way_past_the_caches)
{
    enum { OBS_BYTES = 60001, REWARDS = 7 };
    static const float given[REWARDS] = {2.5f, -3, 0.25f, -0.5f, 1e30f, -INFINITY, NAN};
    static const gpur_field fields[] = {{"obs", GPUR_UINT8, {OBS_BYTES}}, {"reward", GPUR_FLOAT32, {0}}};
    static const float want[REWARDS] = {1, -1, 0.25f, -0.5f, 1, -1, NAN};
    static unsigned char obs[REWARDS * OBS_BYTES], got_obs[sizeof obs];
    gpur_replay_config config = kit_config(fields, 2, 160, 16, 64);
    float got[REWARDS];
    gpur_batch *batch = NULL;
    kit_scene s;
    config.reward_clip = 1;
    for (size_t i = 0; i < sizeof obs; i++)
        obs[i] = (unsigned char)(i * 2654435761u >> 20);
    CHECK(kit_open(&s, test_device(), &config, 1));
    CHECK_OK(gpur_writer_append_fields(s.writer, REWARDS, (const void *[]){obs, given}, NULL, NULL));
    CHECK_OK(gpur_replay_gather(s.replay, REWARDS, (const int64_t[]){0, 1, 2, 3, 4, 5, 6}, NULL, &batch));
    CHECK_OK(gpur_batch_read(batch, "reward", got, sizeof got));
    CHECK_OK(gpur_batch_read(batch, "obs", got_obs, sizeof got_obs));
    gpur_batch_release(batch);
    for (int i = 0; i < REWARDS; i++)
        CHECK(i == 6 ? isnan(got[i]) : got[i] == want[i]);
    CHECK(memcmp(obs, got_obs, sizeof obs) == 0);
    kit_close(&s);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(more_than_ever_fits_at_once_is_refused);
    RUN(an_append_that_waits_for_nobody_takes_all_or_none);
    RUN(an_append_that_waits_for_nobody_refuses_what_the_other_does);
    RUN(rows_that_go_straight_are_what_was_given);
    RUN(rewards_of_long_rows_are_clipped_on_the_way_past_the_caches);
    return test_main_end();
}
