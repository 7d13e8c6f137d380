/* SPDX-License-Identifier: MIT */
/* What writers make of steps, and what they refuse. */
#include "support/gate_cpu.h"
#include "replay/replay.h"
#include "support/replay_kit.h"
#include "test.h"

#include <math.h>

enum { OBS = 3, ENVS = 2 };

static const gpur_field full[] = {{"obs", GPUR_FLOAT32, {OBS}},   {"action", GPUR_INT32, {0}},
                                  {"reward", GPUR_FLOAT32, {0}},  {"next_obs", GPUR_FLOAT32, {OBS}},
                                  {"terminated", GPUR_BOOL, {0}}, {"truncated", GPUR_UINT8, {0}},
                                  {"extra", GPUR_INT32, {0}}};

static int64_t appended(kit_scene *s)
{
    gpur_replay_stats stats = {.size = sizeof stats, .appended = -1};
    gpur_replay_get_stats(s->replay, &stats);
    return stats.appended;
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

static gpur_status take(kit_scene *s, const step *t)
{
    return gpur_writer_step(s->writer, t->action, t->reward, t->next_obs, t->terminated, t->truncated);
}

/* One field of the rows of these ids. */
static gpur_status read_field(kit_scene *s, const char *name, int64_t count, const int64_t *ids, void *values,
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
    kit_scene s;
    CHECK(kit_open(&s, test_device(), &config, ENVS));
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
    kit_close(&s);
}

TEST(termination_ends_the_bootstrap_and_truncation_does_not)
{
    static const int64_t ids[] = {0, 1};
    gpur_replay_config config = kit_config(full, 6, 100, 7, 8);
    float discount[2];
    uint8_t terminated[2], truncated[2];
    kit_scene s;
    config.gamma = 0.75f;
    CHECK(kit_open(&s, test_device(), &config, ENVS));
    CHECK_OK(gpur_writer_reset(s.writer, -1, first_obs));
    step t = step_of(1);
    t.terminated[0] = 1, t.truncated[1] = 1;
    CHECK_OK(take(&s, &t));
    CHECK_OK(read_field(&s, "discount", 2, ids, discount, sizeof *discount));
    CHECK_OK(read_field(&s, "terminated", 2, ids, terminated, 1));
    CHECK_OK(read_field(&s, "truncated", 2, ids, truncated, 1));
    CHECK(discount[0] == 0.0f && discount[1] == 0.75f);
    CHECK(terminated[0] == 1 && terminated[1] == 0 && truncated[0] == 0 && truncated[1] == 1);
    kit_close(&s);
}

TEST(an_ended_environment_must_be_reset_before_its_next_step)
{
    static const int64_t ids[] = {2, 3};
    gpur_replay_config config = kit_config(full, 6, 100, 7, 8);
    float obs[2][OBS];
    kit_scene s;
    CHECK(kit_open(&s, test_device(), &config, ENVS));
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
    kit_close(&s);
}

TEST(rewards_are_clipped_when_asked_and_nan_passes)
{
    static const int64_t ids[] = {0, 1, 2, 3, 4, 5};
    gpur_replay_config config = kit_config(full, 6, 100, 7, 8);
    float reward[6];
    kit_scene s;
    config.reward_clip = 1.0f;
    CHECK(kit_open(&s, test_device(), &config, ENVS));
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
    kit_close(&s);
}

/* A step is refused by the same rule in all its bools: observations, actions and extras. */
TEST(bools_of_a_step_that_are_not_0_or_1_are_refused)
{
    static const gpur_field fields[] = {{"obs", GPUR_BOOL, {3}},        {"action", GPUR_BOOL, {2}},
                                        {"reward", GPUR_FLOAT32, {0}},  {"next_obs", GPUR_BOOL, {3}},
                                        {"terminated", GPUR_BOOL, {0}}, {"mask", GPUR_BOOL, {2}}};
    const gpur_replay_config config = kit_config(fields, 6, 100, 7, 8);
    uint8_t obs[] = {0, 1, 0}, action[] = {1, 0}, mask[] = {0, 1}, last[] = {1, 1, 1}, ends = 0;
    const float reward = 1;
    const void *const extras[] = {NULL, NULL, NULL, NULL, NULL, mask};
    gpur_writer_config writer_config = {.size = sizeof writer_config, .num_envs = 1};
    writer_config.autoreset = GPUR_AUTORESET_SAME_STEP;
    const gpur_step_input in = {.size = sizeof in,
                                .action = action,
                                .reward = &reward,
                                .next_obs = obs,
                                .terminated = &ends,
                                .final_obs = last,
                                .extras = extras};
    gpur_writer *writer = NULL;
    kit_scene s;
    CHECK(kit_open(&s, test_device(), &config, 1));
    CHECK_OK(gpur_writer_open(s.replay, &writer_config, &writer));
    obs[2] = 9;
    CHECK_STATUS(gpur_writer_reset(writer, 0, obs), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("obs of environment 0 has 9 among its bools; they must be 0 or 1");
    obs[2] = 1;
    CHECK_OK(gpur_writer_reset(writer, 0, obs));
    CHECK_OK(gpur_writer_step_with(writer, &in));
    obs[0] = 2;
    CHECK_STATUS(gpur_writer_step_with(writer, &in), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("next_obs of environment 0 has 2");
    obs[0] = 0, action[1] = 3;
    CHECK_STATUS(gpur_writer_step_with(writer, &in), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("action of environment 0 has 3");
    action[1] = 1, mask[0] = 255;
    CHECK_STATUS(gpur_writer_step_with(writer, &in), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("mask of environment 0 has 255");
    mask[0] = 1, last[1] = 4;
    CHECK_OK(gpur_writer_step_with(writer, &in)); /* which does not end: final_obs is not read */
    ends = 1;
    CHECK_STATUS(gpur_writer_step_with(writer, &in), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("final_obs of environment 0 has 4");
    CHECK_EQUAL(appended(&s), 2);
    gpur_writer_destroy(writer);
    kit_close(&s);
}

TEST(refused_steps_take_nothing)
{
    gpur_replay_config config = kit_config(full, 6, 100, 7, 8);
    kit_scene s;
    CHECK(kit_open(&s, test_device(), &config, ENVS));
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
    kit_close(&s);
}

/* A schema, and what a step says of it. */
static void check_schema(const gpur_field *fields, int32_t count, const char *message)
{
    gpur_replay_config config = kit_config(fields, count, 100, 7, 8);
    kit_scene s;
    CHECK(kit_open(&s, test_device(), &config, ENVS));
    const step t = step_of(1);
    CHECK_STATUS(gpur_writer_reset(s.writer, -1, first_obs), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE(message);
    CHECK_STATUS(take(&s, &t), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE(message);
    kit_close(&s);
}

TEST(steps_need_a_schema_made_for_them)
{
    gpur_field fields[7];
    memcpy(fields, full, sizeof fields);
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
    kit_scene s;
    CHECK(kit_open(&s, test_device(), &config, ENVS));
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
    kit_close(&s);
}

TEST(a_step_may_be_larger_than_a_block)
{
    enum { MANY = 23 };
    gpur_replay_config config = kit_config(full, 6, 64, 4, 8);
    float obs[MANY * OBS], reward[MANY];
    int32_t action[MANY], got[8];
    uint8_t terminated[MANY] = {0};
    kit_scene s;
    config.staging_blocks = 2;
    CHECK(kit_open(&s, test_device(), &config, MANY));
    for (int i = 0; i < MANY; i++)
        action[i] = i, reward[i] = 0, obs[i * OBS] = obs[i * OBS + 1] = obs[i * OBS + 2] = (float)i;
    CHECK_OK(gpur_writer_reset(s.writer, -1, obs));
    for (int i = 0; i < 10; i++)
        CHECK_OK(gpur_writer_step(s.writer, action, reward, obs, terminated, NULL));
    CHECK_OK(read_field(&s, "action", 8, (const int64_t[]){229, 228, 227, 207, 206, 184, 183, 166}, got, 4));
    CHECK(got[0] == 22 && got[1] == 21 && got[2] == 20 && got[3] == 0 && got[4] == 22 && got[5] == 0);
    CHECK(got[6] == 22 && got[7] == 5);
    kit_close(&s);
}

TEST(a_step_that_may_not_wait_takes_all_rows_or_none)
{
    enum { UPDATE = 3, BLOCKS = 3 };
    gpur_replay_config config = kit_config(full, 6, 200, UPDATE, 64);
    gpur_writer *wide = NULL;
    int32_t action[2];
    kit_scene s;
    gate g;
    config.when_full = GPUR_WHEN_FULL_ERROR;
    config.staging_blocks = BLOCKS;
    gate_init(&g);
    CHECK(kit_open(&s, test_device(), &config, ENVS));
    CHECK_STATUS(gpur_writer_create(s.replay, 7, &wide), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("num_envs is 7; under GPUR_WHEN_FULL_ERROR a step of all must fit in 6 rows");
    CHECK_OK(gpur_writer_reset(s.writer, -1, first_obs));
    if (!test_on_cuda() && test_executor() == GPUR_EXECUTOR_THREAD) {
        CHECK_OK(gate_close(&g, s.replay->ring.copy_stream));
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
    kit_close(&s);
    gate_destroy(&g);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(a_step_makes_one_row_of_each_environment);
    RUN(termination_ends_the_bootstrap_and_truncation_does_not);
    RUN(an_ended_environment_must_be_reset_before_its_next_step);
    RUN(rewards_are_clipped_when_asked_and_nan_passes);
    RUN(bools_of_a_step_that_are_not_0_or_1_are_refused);
    RUN(refused_steps_take_nothing);
    RUN(steps_need_a_schema_made_for_them);
    RUN(episodes_still_open_at_the_end_are_counted_as_cut);
    RUN(a_step_may_be_larger_than_a_block);
    RUN(a_step_that_may_not_wait_takes_all_rows_or_none);
    return test_main_end();
}
