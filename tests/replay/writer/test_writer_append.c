/* SPDX-License-Identifier: MIT */
/* Finished rows: by rows and by fields, through both feeds, with and without waiting. */
#include "support/gate_cpu.h"
#include "replay/replay.h"
#include "support/replay_kit.h"
#include "test.h"

enum { OBS = 3, ENVS = 2 };

static const gpur_field full[] = {{"obs", GPUR_FLOAT32, {OBS}},   {"action", GPUR_INT32, {0}},
                                  {"reward", GPUR_FLOAT32, {0}},  {"next_obs", GPUR_FLOAT32, {OBS}},
                                  {"terminated", GPUR_BOOL, {0}}, {"truncated", GPUR_UINT8, {0}},
                                  {"extra", GPUR_INT32, {0}}};

static int open_scene(kit_scene *s, const gpur_replay_config *config, int32_t num_envs)
{
    return kit_open(s, test_device(), config, num_envs);
}

static int64_t appended(kit_scene *s)
{
    gpur_replay_stats stats = {.size = sizeof stats};
    return gpur_replay_get_stats(s->replay, &stats) == GPUR_OK ? stats.appended : -1;
}

static const float numbers[ENVS * OBS] = {1, 2, 3, 4, 5, 6};

TEST(bad_writers_and_appends_are_refused)
{
    gpur_replay_config config = kit_config(full, 6, 100, 7, 8);
    gpur_writer *writer = NULL;
    int64_t taken = 7;
    kit_scene s;
    CHECK(open_scene(&s, &config, ENVS));
    CHECK_STATUS(gpur_writer_create(s.replay, 0, &writer), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("num_envs is 0; it must be 1 to 1048576");
    CHECK_STATUS(gpur_writer_create(NULL, 1, &writer), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(gpur_writer_create(s.replay, 1, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(gpur_writer_append(s.writer, -1, numbers, &taken), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("count is -1; it must be 0 or more");
    CHECK_STATUS(gpur_writer_append(s.writer, 2, NULL, &taken), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("rows is NULL; it must be 2 packed rows");
    CHECK_EQUAL(taken, 0);
    CHECK_STATUS(gpur_writer_append(NULL, 1, numbers, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_OK(gpur_writer_append(s.writer, 0, NULL, &taken));
    const void *fields[] = {numbers, numbers, NULL, numbers, numbers, numbers};
    CHECK_STATUS(gpur_writer_append_fields(s.writer, 1, NULL, NULL, &taken), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(gpur_writer_append_fields(s.writer, 1, fields, NULL, &taken), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("fields[2], \"reward\", is NULL");
    CHECK_EQUAL(appended(&s), 0);
    CHECK_STATUS(gpur_writer_flush(NULL), GPUR_INVALID_ARGUMENT);
    kit_close(&s);
}

/* Both feeds and both kinds of append must leave the same bytes in the ring. */
static gpur_status feed_a_ring(int32_t feed, int by_fields, unsigned char *ring, size_t bytes)
{
    gpur_replay_config config = kit_config(full, 7, 40, 6, 8);
    kit_scene s;
    config.feed = feed;
    if (!open_scene(&s, &config, 1))
        return -100;
    const kit k = kit_of(s.replay, config.gamma);
    gpur_status status = GPUR_OK;
    for (int64_t i = 0; i < 20 && status == GPUR_OK; i++) {
        void *arrays[GPUR_MAX_FIELDS];
        kit_arrays(&k, 5 * i, 5, arrays);
        status = by_fields ? gpur_writer_append_fields(s.writer, 5, (const void *const *)arrays, NULL, NULL)
                           : kit_append(&k, s.writer, 5 * i, 5);
        for (int32_t f = 0; f < k.count; f++)
            free(arrays[f]);
    }
    if (status == GPUR_OK)
        status = gpur_writer_flush(s.writer);
    if (status == GPUR_OK)
        status = gpur_device_copy(s.device, ring, s.replay->ring.rows, (int64_t)bytes);
    kit_close(&s);
    return status;
}

TEST(both_feeds_and_both_appends_leave_the_same_ring)
{
    enum { BYTES = 40 * 64 };
    static unsigned char rings[4][BYTES];
    for (int i = 0; i < 4; i++)
        CHECK_OK(feed_a_ring(i / 2, i % 2, rings[i], BYTES));
    for (int i = 1; i < 4; i++)
        CHECK(memcmp(rings[0], rings[i], BYTES) == 0);
    CHECK(rings[0][0] != 0 || rings[0][1] != 0 || rings[0][2] != 0);
}

typedef struct rewarded {
    float reward;
    uint8_t terminated;
    float other;
} rewarded;

enum { REWARDS = 7 };
static const float given[REWARDS] = {2.5f, -3, 0.25f, -0.5f, 1e30f, -INFINITY, NAN};

/* Appends both ways to a replay with this limit, by blocks of so many rows, and compares what it holds: ids 0 to 6 are
 * rows, 7 to 13 arrays. The array of rewards lies `slip` bytes off its type's alignment. */
static void check_clip_by(int64_t block, int32_t feed, float limit, const float *want, int slip)
{
    static const gpur_field fields[] = {
        {"reward", GPUR_FLOAT32, {0}}, {"terminated", GPUR_BOOL, {0}}, {"other", GPUR_FLOAT32, {0}}};
    gpur_replay_config config = kit_config(fields, 3, 100, block, 20);
    unsigned char rewards[sizeof given + 4], ends[REWARDS] = {0};
    rewarded rows[REWARDS] = {{0}};
    float got[2 * REWARDS], other[2 * REWARDS];
    int64_t ids[2 * REWARDS];
    gpur_batch *batch = NULL;
    kit_scene s;
    config.reward_clip = limit, config.feed = feed;
    CHECK(open_scene(&s, &config, 1));
    for (int i = 0; i < REWARDS; i++)
        rows[i].reward = rows[i].other = given[i], ids[i] = i, ids[REWARDS + i] = REWARDS + i;
    memcpy(rewards + slip, given, sizeof given);
    CHECK_OK(gpur_writer_append(s.writer, REWARDS, rows, NULL));
    CHECK_OK(gpur_writer_append_fields(s.writer, REWARDS, (const void *[]){rewards + slip, ends, given}, NULL, NULL));
    CHECK_OK(gpur_replay_gather(s.replay, 2 * REWARDS, ids, NULL, &batch));
    CHECK_OK(gpur_batch_read(batch, "reward", got, sizeof got));
    CHECK_OK(gpur_batch_read(batch, "other", other, sizeof other));
    gpur_batch_release(batch);
    for (int i = 0; i < 2 * REWARDS; i++) {
        CHECK(i % REWARDS == 6 ? isnan(got[i]) : got[i] == want[i % REWARDS]);
        CHECK(i % REWARDS == 6 ? isnan(other[i]) : other[i] == given[i % REWARDS]);
    }
    kit_close(&s);
}

/* In parts, and as few rows that have room in a block. */
static void check_clip(int32_t feed, float limit, const float *want, int slip)
{
    check_clip_by(3, feed, limit, want, slip);
    check_clip_by(20, feed, limit, want, slip);
}

TEST(rewards_of_rows_and_arrays_are_clipped_when_asked)
{
    static const float clipped[REWARDS] = {1, -1, 0.25f, -0.5f, 1, -1, NAN};
    for (int32_t feed = GPUR_FEED_COPY; feed <= GPUR_FEED_SCATTER; feed++)
        for (int slip = 0; slip < 4; slip++) {
            check_clip(feed, 1, clipped, slip);
            check_clip(feed, 0, given, slip);
        }
}

TEST(a_limit_for_a_reward_that_is_not_one_float32_is_refused)
{
    static const struct {
        gpur_field field;
        const char *message;
    } cases[] = {
        {{"reward", GPUR_FLOAT32, {2}}, "reward_clip is 1 and field \"reward\" is float32 of 8 bytes; only one"},
        {{"reward", GPUR_INT32, {0}}, "reward_clip is 1 and field \"reward\" is int32 of 4 bytes; only one"},
        {{"score", GPUR_FLOAT32, {0}}, "reward_clip is 1 and the schema has no field \"reward\"; it must be 0"},
    };
    gpur_device *const device = test_device();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gpur_replay_config config = kit_config(&cases[i].field, 1, 100, 3, 20);
        gpur_replay *replay = NULL;
        config.reward_clip = 1;
        CHECK_STATUS(gpur_replay_create(device, &config, &replay), GPUR_INVALID_ARGUMENT);
        CHECK_MESSAGE(cases[i].message);
        config.reward_clip = 0;
        CHECK_OK(gpur_replay_create(device, &config, &replay));
        gpur_replay_destroy(replay);
    }
    gpur_device_close(device);
}

/* As the header says: they count as device arrays on the CPU, and are blocks of their own. */
TEST(scattered_arrays_are_published_at_once_with_what_is_staged)
{
    for (int32_t feed = GPUR_FEED_COPY; feed <= GPUR_FEED_SCATTER; feed++) {
        static const gpur_field number = {"x", GPUR_INT64, {0}};
        static const int64_t x[3] = {1, 2, 3};
        gpur_replay_config config = kit_config(&number, 1, 100, 10, 20);
        config.flush = GPUR_FLUSH_MANUAL, config.feed = feed;
        kit_scene s;
        CHECK(open_scene(&s, &config, 1));
        CHECK_OK(gpur_writer_append(s.writer, 2, x, NULL));
        CHECK_EQUAL(gpur_replay_size(s.replay), 0);
        CHECK_OK(gpur_writer_append_fields(s.writer, 1, (const void *[]){x + 2}, NULL, NULL));
        CHECK_EQUAL(gpur_replay_size(s.replay), feed == GPUR_FEED_SCATTER && !test_on_cuda() ? 3 : 0);
        kit_close(&s);
    }
}

TEST(an_append_that_may_not_wait_leaves_exactly_the_rest)
{
    enum { ROWS = 100, UPDATE = 6, BLOCKS = 3 };
    gpur_replay_config config = kit_config(full, 7, 200, UPDATE, 64);
    const int held = !test_on_cuda() && test_executor() == GPUR_EXECUTOR_THREAD;
    int64_t taken = 0, done = 0, ids[50];
    kit_scene s;
    gate g;
    config.when_full = GPUR_WHEN_FULL_ERROR;
    config.staging_blocks = BLOCKS;
    gate_init(&g);
    CHECK(open_scene(&s, &config, 1));
    const kit k = kit_of(s.replay, config.gamma);
    unsigned char *const rows = kit_rows(&k, 0, ROWS);
    if (held) { /* copies stand still: three blocks fill up */
        CHECK_OK(gate_close(&g, s.replay->ring.copy_stream));
        CHECK_STATUS(gpur_writer_append(s.writer, ROWS, rows, &taken), GPUR_WOULD_BLOCK);
        CHECK_MESSAGE("all 3 staging blocks of 6 rows are in use");
        CHECK_EQUAL(taken, BLOCKS * UPDATE);
        CHECK_EQUAL(appended(&s), BLOCKS * UPDATE);
        gate_open(&g);
        done = taken;
    }
    while (done < ROWS) {
        const gpur_status status = gpur_writer_append(s.writer, ROWS - done, rows + done * k.row_bytes, &taken);
        CHECK(status == GPUR_OK || status == GPUR_WOULD_BLOCK);
        CHECK((status == GPUR_OK) == (taken == ROWS - done));
        done += taken;
    }
    for (int half = 0; half < 2; half++) {
        gpur_batch *batch = NULL;
        for (int64_t b = 0; b < 50; b++)
            ids[b] = 50 * half + b;
        CHECK_OK(gpur_replay_gather(s.replay, 50, ids, NULL, &batch));
        CHECK_EQUAL(kit_wrong_bytes(&k, batch, NULL), 0);
        gpur_batch_release(batch);
    }
    free(rows);
    kit_close(&s);
    gate_destroy(&g);
}

enum { FLAG_ROWS = 600, MASK = 37 };

/* Rows with fields of bools in their midst, at an odd place and at the end, as callers pack them. */
typedef struct flagged {
    int32_t a;
    uint8_t terminated, truncated, mask[MASK];
    int32_t b;
    uint8_t last;
} flagged;

static const gpur_field flagged_fields[] = {{"a", GPUR_INT32, {0}},         {"terminated", GPUR_BOOL, {0}},
                                            {"truncated", GPUR_UINT8, {0}}, {"mask", GPUR_BOOL, {MASK}},
                                            {"b", GPUR_INT32, {0}},         {"last", GPUR_BOOL, {0}}};

static gpur_status append_flagged(kit_scene *s, int way, int64_t first, int64_t count, const flagged *rows,
                                  const void *const *columns)
{
    static const int64_t bytes[] = {4, 1, 1, MASK, 4, 1};
    const void *from[6];
    for (int f = 0; f < 6; f++)
        from[f] = (const unsigned char *)columns[f] + first * bytes[f];
    if (way == 0)
        return gpur_writer_append(s->writer, count, rows + first, NULL);
    return way == 1 ? gpur_writer_append_fields(s->writer, count, from, NULL, NULL)
                    : gpur_writer_try_append_fields(s->writer, count, from);
}

static void compare_flags(kit_scene *s, const flagged *rows)
{
    static uint8_t ends[FLAG_ROWS], cuts[FLAG_ROWS], masks[FLAG_ROWS][MASK], lasts[FLAG_ROWS];
    static int32_t b[FLAG_ROWS];
    int64_t ids[FLAG_ROWS], wrong = 0;
    gpur_batch *batch = NULL;
    for (int64_t i = 0; i < FLAG_ROWS; i++)
        ids[i] = i;
    CHECK_OK(gpur_replay_gather(s->replay, FLAG_ROWS, ids, NULL, &batch));
    CHECK_OK(gpur_batch_read(batch, "terminated", ends, sizeof ends));
    CHECK_OK(gpur_batch_read(batch, "truncated", cuts, sizeof cuts));
    CHECK_OK(gpur_batch_read(batch, "mask", masks, sizeof masks));
    CHECK_OK(gpur_batch_read(batch, "last", lasts, sizeof lasts));
    CHECK_OK(gpur_batch_read(batch, "b", b, sizeof b));
    gpur_batch_release(batch);
    for (int64_t i = 0; i < FLAG_ROWS; i++) {
        wrong += (ends[i] != (rows[i].terminated != 0)) + (cuts[i] != (rows[i].truncated != 0)) + (b[i] != rows[i].b);
        wrong += lasts[i] != (rows[i].last != 0);
        for (int m = 0; m < MASK; m++)
            wrong += masks[i][m] != (rows[i].mask[m] != 0);
    }
    CHECK_EQUAL(wrong, 0);
}

/* By `part` rows at a time: few rows go to the block at hand, many straight to the ring, into a small one and, past the
 * caches, into a large one. */
static void check_flags(int way, int32_t feed, int64_t capacity, int64_t part)
{
    static flagged rows[FLAG_ROWS];
    static uint8_t ends[FLAG_ROWS], cuts[FLAG_ROWS], masks[FLAG_ROWS][MASK], lasts[FLAG_ROWS];
    static int32_t a[FLAG_ROWS], b[FLAG_ROWS];
    gpur_replay_config config = kit_config(flagged_fields, 6, capacity, 600, FLAG_ROWS);
    uint64_t random = 7;
    kit_scene s;
    config.feed = feed;
    for (int64_t i = 0; i < FLAG_ROWS; i++) {
        unsigned char *const bytes = (unsigned char *)&rows[i];
        for (size_t j = 0; j < sizeof rows[i]; j++)
            bytes[j] = kit_random(&random) % 3 == 0 ? 0 : (unsigned char)(kit_random(&random) >> 20);
        a[i] = rows[i].a, b[i] = rows[i].b, ends[i] = rows[i].terminated, cuts[i] = rows[i].truncated;
        memcpy(masks[i], rows[i].mask, MASK);
        lasts[i] = rows[i].last;
    }
    CHECK(open_scene(&s, &config, 1));
    for (int64_t i = 0; i < FLAG_ROWS; i += part)
        CHECK_OK(append_flagged(&s, way, i, FLAG_ROWS - i < part ? FLAG_ROWS - i : part, rows,
                                (const void *[]){a, ends, cuts, masks, b, lasts}));
    compare_flags(&s, rows);
    kit_close(&s);
}

TEST(every_flag_but_0_becomes_1_by_every_way_in)
{
    for (int way = 0; way < 3; way++)
        for (int32_t feed = GPUR_FEED_COPY; feed <= GPUR_FEED_SCATTER; feed++) {
            check_flags(way, feed, 2000, 3);
            check_flags(way, feed, 2000, 590);
            check_flags(way, feed, 200000, 600);
        }
}

/* A row that no tile holds, with bools that are long values by themselves. */
TEST(long_values_of_flags_become_0_and_1)
{
    enum { LONG = 5000 };
    static const gpur_field field = {"mask", GPUR_BOOL, {LONG}};
    static uint8_t mask[LONG], got[LONG];
    const gpur_replay_config config = kit_config(&field, 1, 2000, 4, 4);
    gpur_batch *batch = NULL;
    kit_scene s;
    for (int i = 0; i < LONG; i++)
        mask[i] = (uint8_t)(i % 7 == 0 ? 0 : i);
    CHECK(open_scene(&s, &config, 1));
    CHECK_OK(gpur_writer_append_fields(s.writer, 1, (const void *[]){mask}, NULL, NULL));
    CHECK_OK(gpur_writer_append(s.writer, 1, mask, NULL));
    for (int64_t id = 0; id < 2; id++) {
        int wrong = 0;
        CHECK_OK(gpur_replay_gather(s.replay, 1, &id, NULL, &batch));
        CHECK_OK(gpur_batch_read(batch, "mask", got, sizeof got));
        gpur_batch_release(batch);
        for (int i = 0; i < LONG; i++)
            wrong += got[i] != (mask[i] != 0);
        CHECK_EQUAL(wrong, 0);
    }
    kit_close(&s);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(bad_writers_and_appends_are_refused);
    RUN(both_feeds_and_both_appends_leave_the_same_ring);
    RUN(rewards_of_rows_and_arrays_are_clipped_when_asked);
    RUN(every_flag_but_0_becomes_1_by_every_way_in);
    RUN(long_values_of_flags_become_0_and_1);
    RUN(a_limit_for_a_reward_that_is_not_one_float32_is_refused);
    RUN(scattered_arrays_are_published_at_once_with_what_is_staged);
    RUN(an_append_that_may_not_wait_leaves_exactly_the_rest);
    return test_main_end();
}
