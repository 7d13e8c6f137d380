/* SPDX-License-Identifier: MIT */
/* What writers make of steps, and what they refuse. */
#include "gate_cpu.h"
#include "replay/replay.h"
#include "replay_kit.h"
#include "test.h"

#include <math.h>

enum { OBS = 3, ENVS = 2 };

static const gpur_field full[] = {{"obs", GPUR_FLOAT32, {OBS}},      {"action", GPUR_INT32, {0}},
                                  {"reward", GPUR_FLOAT32, {0}},     {"next_obs", GPUR_FLOAT32, {OBS}},
                                  {"terminated", GPUR_BOOL, {0}},    {"truncated", GPUR_UINT8, {0}},
                                  {"extra", GPUR_INT32, {0}}};

typedef struct scene {
    gpur_device *device;
    gpur_replay *replay;
    gpur_writer *writer;
} scene;

static int open_scene(scene *s, gpur_replay_config *config, int32_t num_envs)
{
    memset(s, 0, sizeof *s);
    s->device = test_device();
    return gpur_replay_create(s->device, config, &s->replay) == GPUR_OK &&
           gpur_writer_create(s->replay, num_envs, &s->writer) == GPUR_OK;
}

static void close_scene(scene *s)
{
    gpur_writer_destroy(s->writer);
    gpur_replay_destroy(s->replay);
    gpur_device_close(s->device);
}

static int64_t appended(scene *s)
{
    gpur_replay_stats stats = {.size = sizeof stats};
    return gpur_replay_get_stats(s->replay, &stats) == GPUR_OK ? stats.appended : -1;
}

/* One step of two environments: every number a multiple of `base`, so that rows can be told apart. */
typedef struct step {
    float next_obs[ENVS * OBS], reward[ENVS];
    int32_t action[ENVS];
    uint8_t terminated[ENVS], truncated[ENVS];
} step;

static step step_of(int base)
{
    step t = {.reward = {(float)base, (float)-base}, .action = {base, base + 1}};
    for (int i = 0; i < ENVS * OBS; i++)
        t.next_obs[i] = (float)(100 * base + i);
    return t;
}

static gpur_status take(scene *s, const step *t)
{
    return gpur_writer_step(s->writer, t->action, t->reward, t->next_obs, t->terminated, t->truncated);
}

/* One field of the rows of these ids. */
static gpur_status read_field(scene *s, const char *name, int64_t count, const int64_t *ids, void *values,
                              int64_t bytes)
{
    gpur_batch *batch = NULL;
    gpur_status status = gpur_replay_gather(s->replay, count, ids, NULL, &batch);
    if (status == GPUR_OK)
        status = gpur_batch_read(batch, name, values, count * bytes);
    gpur_batch_release(batch);
    return status;
}

static const float first_obs[ENVS * OBS] = {1, 2, 3, 4, 5, 6};

TEST(a_step_makes_one_row_of_each_environment)
{
    static const int64_t ids[] = {0, 1, 2, 3};
    gpur_replay_config config = kit_config(full, 6, 100, 7, 8);
    float obs[4][OBS], next[4][OBS], reward[4];
    int32_t action[4];
    scene s;
    CHECK(open_scene(&s, &config, ENVS));
    CHECK_OK(gpur_writer_reset(s.writer, -1, first_obs));
    const step one = step_of(1), two = step_of(2);
    CHECK_OK(take(&s, &one));
    CHECK_OK(take(&s, &two));
    CHECK_OK(read_field(&s, "obs", 4, ids, obs, sizeof *obs));
    CHECK_OK(read_field(&s, "next_obs", 4, ids, next, sizeof *next));
    CHECK_OK(read_field(&s, "reward", 4, ids, reward, sizeof *reward));
    CHECK_OK(read_field(&s, "action", 4, ids, action, sizeof *action));
    CHECK(memcmp(obs[0], first_obs, sizeof first_obs) == 0);
    CHECK(memcmp(next[0], one.next_obs, sizeof one.next_obs) == 0);
    CHECK(memcmp(obs[2], one.next_obs, sizeof one.next_obs) == 0);
    CHECK(memcmp(next[2], two.next_obs, sizeof two.next_obs) == 0);
    CHECK(reward[0] == 1 && reward[1] == -1 && reward[2] == 2 && reward[3] == -2);
    CHECK(action[0] == 1 && action[1] == 2 && action[2] == 2 && action[3] == 3);
    close_scene(&s);
}

TEST(termination_ends_the_bootstrap_and_truncation_does_not)
{
    static const int64_t ids[] = {0, 1};
    gpur_replay_config config = kit_config(full, 6, 100, 7, 8);
    float discount[2];
    uint8_t terminated[2], truncated[2];
    scene s;
    config.gamma = 0.75f;
    CHECK(open_scene(&s, &config, ENVS));
    CHECK_OK(gpur_writer_reset(s.writer, -1, first_obs));
    step t = step_of(1);
    t.terminated[0] = 1, t.truncated[1] = 1;
    CHECK_OK(take(&s, &t));
    CHECK_OK(read_field(&s, "discount", 2, ids, discount, sizeof *discount));
    CHECK_OK(read_field(&s, "terminated", 2, ids, terminated, 1));
    CHECK_OK(read_field(&s, "truncated", 2, ids, truncated, 1));
    CHECK(discount[0] == 0.0f && discount[1] == 0.75f);
    CHECK(terminated[0] == 1 && terminated[1] == 0 && truncated[0] == 0 && truncated[1] == 1);
    close_scene(&s);
}

TEST(an_ended_environment_must_be_reset_before_its_next_step)
{
    static const int64_t ids[] = {2, 3};
    gpur_replay_config config = kit_config(full, 6, 100, 7, 8);
    float obs[2][OBS];
    scene s;
    CHECK(open_scene(&s, &config, ENVS));
    step t = step_of(1);
    CHECK_STATUS(take(&s, &t), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("environment 0 has no open episode");
    CHECK_OK(gpur_writer_reset(s.writer, -1, first_obs));
    t.truncated[1] = 1;
    CHECK_OK(take(&s, &t));
    CHECK_STATUS(take(&s, &t), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("environment 1 has no open episode");
    CHECK_EQUAL(appended(&s), 2);
    CHECK_OK(gpur_writer_reset(s.writer, 1, first_obs));
    t.truncated[1] = 0;
    CHECK_OK(take(&s, &t));
    CHECK_OK(read_field(&s, "obs", 2, ids, obs, sizeof *obs));
    CHECK(memcmp(obs[0], t.next_obs, sizeof obs[0]) == 0);
    CHECK(memcmp(obs[1], first_obs, sizeof obs[1]) == 0);
    close_scene(&s);
}

TEST(rewards_are_clipped_when_asked_and_nan_passes)
{
    static const int64_t ids[] = {0, 1, 2, 3, 4, 5};
    gpur_replay_config config = kit_config(full, 6, 100, 7, 8);
    float reward[6];
    scene s;
    config.reward_clip = 1.0f;
    CHECK(open_scene(&s, &config, ENVS));
    CHECK_OK(gpur_writer_reset(s.writer, -1, first_obs));
    step t = step_of(3);
    CHECK_OK(take(&s, &t));
    t.reward[0] = 0.5f, t.reward[1] = NAN;
    CHECK_OK(take(&s, &t));
    t.reward[0] = -INFINITY, t.reward[1] = INFINITY;
    CHECK_OK(take(&s, &t));
    CHECK_OK(read_field(&s, "reward", 6, ids, reward, sizeof *reward));
    CHECK(reward[0] == 1.0f && reward[1] == -1.0f && reward[2] == 0.5f && isnan(reward[3]));
    CHECK(reward[4] == -1.0f && reward[5] == 1.0f);
    close_scene(&s);
}

TEST(refused_steps_take_nothing)
{
    gpur_replay_config config = kit_config(full, 6, 100, 7, 8);
    scene s;
    CHECK(open_scene(&s, &config, ENVS));
    CHECK_OK(gpur_writer_reset(s.writer, -1, first_obs));
    step t = step_of(1);
    t.terminated[1] = 2;
    CHECK_STATUS(take(&s, &t), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("terminated[1] is 2; it must be 0 or 1");
    t.terminated[1] = 0, t.truncated[0] = 255;
    CHECK_STATUS(take(&s, &t), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("truncated[0] is 255; it must be 0 or 1");
    t.truncated[0] = 0;
    CHECK_STATUS(gpur_writer_step(s.writer, NULL, t.reward, t.next_obs, t.terminated, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("action is NULL");
    CHECK_STATUS(gpur_writer_step(s.writer, t.action, t.reward, t.next_obs, NULL, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("terminated is NULL");
    CHECK_STATUS(gpur_writer_step(NULL, t.action, t.reward, t.next_obs, t.terminated, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(gpur_writer_reset(s.writer, 2, first_obs), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("env is 2; it must be 0 to 1, or -1 for all");
    CHECK_STATUS(gpur_writer_reset(s.writer, -2, first_obs), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(gpur_writer_reset(s.writer, 0, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_EQUAL(appended(&s), 0);
    CHECK_OK(gpur_writer_step(s.writer, t.action, t.reward, t.next_obs, t.terminated, NULL));
    CHECK_EQUAL(appended(&s), 2);
    close_scene(&s);
}

/* A schema, and what a step says of it. */
static void check_schema(const gpur_field *fields, int32_t count, const char *message)
{
    gpur_replay_config config = kit_config(fields, count, 100, 7, 8);
    scene s;
    CHECK(open_scene(&s, &config, ENVS));
    const step t = step_of(1);
    CHECK_STATUS(gpur_writer_reset(s.writer, -1, first_obs), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE(message);
    CHECK_STATUS(take(&s, &t), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE(message);
    close_scene(&s);
}

TEST(steps_need_a_schema_made_for_them)
{
    gpur_field fields[7];
    memcpy(fields, full, sizeof fields);
    check_schema(fields, 7, "the schema has 7 fields; gpur_writer_step fills in 6 of them");
    check_schema(fields, 4, "no field \"terminated\"");
    check_schema(fields + 1, 5, "no field \"obs\"");
    fields[3].shape[0] = OBS + 1;
    check_schema(fields, 6, "\"obs\" and \"next_obs\" differ");
    fields[3].shape[0] = OBS, fields[2].dtype = GPUR_INT32;
    check_schema(fields, 6, "\"reward\" is int32 of 4 bytes");
    fields[2].dtype = GPUR_FLOAT32, fields[5].dtype = GPUR_FLOAT32;
    check_schema(fields, 6, "\"truncated\" has 4 bytes");
}

TEST(episodes_still_open_at_the_end_are_counted_as_cut)
{
    gpur_replay_config config = kit_config(full, 6, 100, 7, 8);
    gpur_replay_stats stats = {.size = sizeof stats};
    scene s;
    CHECK(open_scene(&s, &config, ENVS));
    CHECK_OK(gpur_writer_reset(s.writer, -1, first_obs));
    step t = step_of(1);
    t.terminated[0] = 1;
    CHECK_OK(take(&s, &t));
    gpur_writer_destroy(s.writer);
    s.writer = NULL;
    CHECK_OK(gpur_replay_get_stats(s.replay, &stats));
    CHECK_EQUAL(stats.episodes_cut, 1);
    CHECK_EQUAL(gpur_replay_size(s.replay), 2);
    gpur_writer_destroy(NULL);
    close_scene(&s);
}

TEST(a_step_may_be_larger_than_a_block)
{
    enum { MANY = 23 };
    gpur_replay_config config = kit_config(full, 6, 64, 4, 8);
    float obs[MANY * OBS], reward[MANY];
    int32_t action[MANY], got[8];
    uint8_t terminated[MANY] = {0};
    scene s;
    config.staging_blocks = 2;
    CHECK(open_scene(&s, &config, MANY));
    for (int i = 0; i < MANY; i++)
        action[i] = i, reward[i] = 0, obs[i * OBS] = obs[i * OBS + 1] = obs[i * OBS + 2] = (float)i;
    CHECK_OK(gpur_writer_reset(s.writer, -1, obs));
    for (int i = 0; i < 10; i++)
        CHECK_OK(gpur_writer_step(s.writer, action, reward, obs, terminated, NULL));
    CHECK_OK(read_field(&s, "action", 8, (const int64_t[]){229, 228, 227, 207, 206, 184, 183, 166}, got, 4));
    CHECK(got[0] == 22 && got[1] == 21 && got[2] == 20 && got[3] == 0 && got[4] == 22 && got[5] == 0 && got[6] == 22);
    CHECK_EQUAL(got[7], 5);
    close_scene(&s);
}

TEST(bad_writers_and_appends_are_refused)
{
    gpur_replay_config config = kit_config(full, 6, 100, 7, 8);
    gpur_writer *writer = NULL;
    int64_t taken = 7;
    scene s;
    CHECK(open_scene(&s, &config, ENVS));
    CHECK_STATUS(gpur_writer_create(s.replay, 0, &writer), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("num_envs is 0; it must be 1 or more");
    CHECK_STATUS(gpur_writer_create(NULL, 1, &writer), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(gpur_writer_create(s.replay, 1, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(gpur_writer_append(s.writer, -1, first_obs, &taken), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("count is -1; it must be 0 or more");
    CHECK_STATUS(gpur_writer_append(s.writer, 2, NULL, &taken), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("rows is NULL; it must be 2 packed rows");
    CHECK_EQUAL(taken, 0);
    CHECK_STATUS(gpur_writer_append(NULL, 1, first_obs, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_OK(gpur_writer_append(s.writer, 0, NULL, &taken));
    const void *fields[] = {first_obs, first_obs, NULL, first_obs, first_obs, first_obs};
    CHECK_STATUS(gpur_writer_append_fields(s.writer, 1, NULL, NULL, &taken), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(gpur_writer_append_fields(s.writer, 1, fields, NULL, &taken), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("fields[2], \"reward\", is NULL");
    CHECK_EQUAL(appended(&s), 0);
    CHECK_STATUS(gpur_writer_flush(NULL), GPUR_INVALID_ARGUMENT);
    close_scene(&s);
}

/* Both feeds and both kinds of append must leave the same bytes in the ring. */
static gpur_status feed_a_ring(int32_t feed, int by_fields, unsigned char *ring, size_t bytes)
{
    gpur_replay_config config = kit_config(full, 7, 40, 6, 8);
    scene s;
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
        status = gpur_device_copy(s.device, ring, s.replay->intake.feed.ring, (int64_t)bytes);
    close_scene(&s);
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

TEST(an_append_that_may_not_wait_leaves_exactly_the_rest)
{
    enum { ROWS = 100, UPDATE = 6, BLOCKS = 3 };
    gpur_replay_config config = kit_config(full, 7, 200, UPDATE, 64);
    const int held = !test_on_cuda() && test_executor() == GPUR_EXECUTOR_THREAD;
    int64_t taken = 0, done = 0, ids[50];
    scene s;
    gate g;
    config.when_full = GPUR_WHEN_FULL_ERROR;
    config.staging_blocks = BLOCKS;
    gate_init(&g);
    CHECK(open_scene(&s, &config, 1));
    const kit k = kit_of(s.replay, config.gamma);
    unsigned char *const rows = kit_rows(&k, 0, ROWS);
    if (held) { /* copies stand still: three blocks fill up */
        CHECK_OK(gate_close(&g, s.replay->intake.feed.copier));
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
    close_scene(&s);
    gate_destroy(&g);
}

TEST(a_step_that_may_not_wait_takes_all_rows_or_none)
{
    enum { UPDATE = 3, BLOCKS = 3 };
    gpur_replay_config config = kit_config(full, 6, 200, UPDATE, 64);
    gpur_writer *wide = NULL;
    int32_t action[2];
    scene s;
    gate g;
    config.when_full = GPUR_WHEN_FULL_ERROR;
    config.staging_blocks = BLOCKS;
    gate_init(&g);
    CHECK(open_scene(&s, &config, ENVS));
    CHECK_STATUS(gpur_writer_create(s.replay, 7, &wide), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("num_envs is 7; under GPUR_WHEN_FULL_ERROR a step of all must fit in 6 rows");
    CHECK_OK(gpur_writer_reset(s.writer, -1, first_obs));
    if (!test_on_cuda() && test_executor() == GPUR_EXECUTOR_THREAD) {
        CHECK_OK(gate_close(&g, s.replay->intake.feed.copier));
        for (int i = 0; i < 4; i++) {
            const step t = step_of(i);
            CHECK_OK(take(&s, &t));
        }
        const step fifth = step_of(4);
        CHECK_STATUS(take(&s, &fifth), GPUR_WOULD_BLOCK); /* one row is free, two are wanted */
        CHECK_MESSAGE("there is room for 1 rows in the staging blocks; a step needs 2");
        CHECK_EQUAL(appended(&s), 8);
        gate_open(&g);
        gpur_status status = GPUR_WOULD_BLOCK;
        while (status == GPUR_WOULD_BLOCK)
            status = take(&s, &fifth);
        CHECK_OK(status);
        CHECK_OK(read_field(&s, "action", 2, (const int64_t[]){8, 9}, action, 4));
        CHECK(action[0] == 4 && action[1] == 5);
    }
    close_scene(&s);
    gate_destroy(&g);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(a_step_makes_one_row_of_each_environment);
    RUN(termination_ends_the_bootstrap_and_truncation_does_not);
    RUN(an_ended_environment_must_be_reset_before_its_next_step);
    RUN(rewards_are_clipped_when_asked_and_nan_passes);
    RUN(refused_steps_take_nothing);
    RUN(steps_need_a_schema_made_for_them);
    RUN(episodes_still_open_at_the_end_are_counted_as_cut);
    RUN(a_step_may_be_larger_than_a_block);
    RUN(bad_writers_and_appends_are_refused);
    RUN(both_feeds_and_both_appends_leave_the_same_ring);
    RUN(an_append_that_may_not_wait_leaves_exactly_the_rest);
    RUN(a_step_that_may_not_wait_takes_all_rows_or_none);
    return test_main_end();
}
