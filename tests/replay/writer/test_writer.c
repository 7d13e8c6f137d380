/* SPDX-License-Identifier: MIT */
/*
 * Steps: what writers refuse, published n-step returns, rewards that are no numbers, and notes of ended episodes. What
 * writers make of random episodes is in test_replay_model.c.
 */
#include "support/episode_fixture.h"
#include "test.h"

enum { OBS = 3, ENVS = 2, ALL = 8 };

static const gpur_field full[ALL] = {{"obs", GPUR_FLOAT32, {OBS}},    {"action", GPUR_INT32, {0}},
                                     {"reward", GPUR_FLOAT32, {0}},   {"next_obs", GPUR_FLOAT32, {OBS}},
                                     {"terminated", GPUR_BOOL, {0}},  {"truncated", GPUR_UINT8, {0}},
                                     {"discount", GPUR_FLOAT32, {0}}, {"extra", GPUR_INT32, {0}}};
static const float zeros[ENVS * OBS];

#define CHECK_REFUSED(call, message)                                                                                   \
    do {                                                                                                               \
        CHECK_STATUS(call, GPUR_INVALID_ARGUMENT);                                                                     \
        CHECK_MESSAGE(message);                                                                                        \
    } while (0)

/* A replay with a writer of this mode for two environments, none of which has been reset. */
static int open_steps(replay_fixture *s, const gpur_replay_config *config, int32_t autoreset)
{
    const gpur_writer_config writer = {.size = sizeof writer, .num_envs = ENVS, .autoreset = autoreset};
    memset(s, 0, sizeof *s);
    s->device = test_device();
    return gpur_replay_create(s->device, config, &s->replay) == GPUR_OK &&
           gpur_writer_open(s->replay, &writer, &s->writer) == GPUR_OK;
}

/* Arrays of a good step, which a case changes. */
typedef struct step {
    float next_obs[ENVS * OBS], final_obs[ENVS * OBS], reward[ENVS];
    int32_t action[ENVS], extra[ENVS];
    uint8_t terminated[ENVS], truncated[ENVS];
    const void *extras[ALL];
    gpur_step_input in;
} step;

static void fill_step(step *t)
{
    memset(t, 0, sizeof *t);
    t->extras[ALL - 1] = t->extra;
    t->in = (gpur_step_input){.size = sizeof t->in,
                              .action = t->action,
                              .reward = t->reward,
                              .next_obs = t->next_obs,
                              .terminated = t->terminated,
                              .truncated = t->truncated,
                              .final_obs = t->final_obs,
                              .extras = t->extras};
}

static void refuse_step(replay_fixture *s, const step *t, const char *message)
{
    const int64_t before = rows_appended(s->replay);
    CHECK_REFUSED(gpur_writer_step_ex(s->writer, &t->in), message);
    CHECK_EQUAL(rows_appended(s->replay), before);
}

/* A step with one change. */
#define REFUSED(change, message)                                                                                       \
    do {                                                                                                               \
        step t;                                                                                                        \
        fill_step(&t);                                                                                                 \
        change;                                                                                                        \
        refuse_step(&s, &t, message);                                                                                  \
    } while (0)

TEST(refused_steps_and_resets_take_nothing)
{
    gpur_replay_config config = replay_fixture_config(full, ALL, 100, 7, 8);
    replay_fixture s;
    step good;
    CHECK(open_steps(&s, &config, GPUR_AUTORESET_NEXT_STEP));
    fill_step(&good);
    CHECK_REFUSED(gpur_writer_reset(s.writer, 2, zeros), "");
    CHECK_MESSAGE("env is 2; it must be 0 to 1, or -1 for all");
    CHECK_REFUSED(gpur_writer_reset(s.writer, -2, zeros), "");
    CHECK_REFUSED(gpur_writer_reset(s.writer, 0, NULL), "");
    CHECK_OK(gpur_writer_reset(s.writer, 1, zeros));
    REFUSED((void)0, "environment 0 has no open episode");
    CHECK_OK(gpur_writer_reset(s.writer, -1, zeros));
    REFUSED(t.terminated[1] = 2, "terminated[1] is 2; it must be 0 or 1");
    REFUSED(t.truncated[0] = 255, "truncated[0] is 255; it must be 0 or 1");
    REFUSED(t.in.action = NULL, "action is NULL");
    REFUSED(t.in.reward = NULL, "reward is NULL");
    REFUSED(t.in.next_obs = NULL, "next_obs is NULL");
    REFUSED(t.in.terminated = NULL, "terminated is NULL");
    REFUSED(t.extras[ALL - 1] = NULL, "extras[7], field \"extra\", is NULL");
    REFUSED(t.in.extras = NULL, "field \"extra\" is none that a step fills in");
    REFUSED(t.in.size = 3, "size is 3");
    CHECK_REFUSED(gpur_writer_step_ex(NULL, &good.in), "");
    CHECK_REFUSED(gpur_writer_step_ex(s.writer, NULL), "");
    CHECK_REFUSED(gpur_writer_step(NULL, zeros, zeros, zeros, good.terminated, NULL), "");
    good.terminated[0] = 1;
    CHECK_OK(gpur_writer_step_ex(s.writer, &good.in));
    REFUSED(t.truncated[0] = 1, "environment 0 ended in the step before");
    good.terminated[0] = 0, good.in.truncated = NULL;
    CHECK_OK(gpur_writer_step_ex(s.writer, &good.in));
    CHECK_EQUAL(rows_appended(s.replay), 3);
    replay_fixture_close(&s);
    CHECK(open_steps(&s, &config, GPUR_AUTORESET_SAME_STEP));
    CHECK_OK(gpur_writer_reset(s.writer, -1, zeros));
    REFUSED((t.truncated[1] = 1, t.in.final_obs = NULL), "final_obs is NULL and environment 1 ended");
    replay_fixture_close(&s);
}

/* By the same rule in all bools of a step: observations, actions and extras. */
TEST(bools_that_are_not_0_or_1_are_refused)
{
    static const gpur_field fields[] = {{"obs", GPUR_BOOL, {3}},        {"action", GPUR_BOOL, {2}},
                                        {"reward", GPUR_FLOAT32, {0}},  {"next_obs", GPUR_BOOL, {3}},
                                        {"terminated", GPUR_BOOL, {0}}, {"mask", GPUR_BOOL, {2}}};
    const gpur_replay_config config = replay_fixture_config(fields, 6, 100, 7, 8);
    uint8_t obs[ENVS * 3] = {0, 1, 9}, values[4][ENVS * 3] = {{0}};
    const struct {
        int array, at, terminated;
        const char *message;
    } cases[] = {{0, 3, 0, "next_obs of environment 1 has 7 among its bools; they must be 0 or 1"},
                 {1, 1, 0, "action of environment 0 has 7"},
                 {2, 3, 0, "mask of environment 1 has 7"},
                 {3, 4, 1, "final_obs of environment 1 has 7"},
                 {3, 4, 0, NULL}}; /* a step that does not end: final_obs is not read */
    replay_fixture s;
    CHECK(open_steps(&s, &config, GPUR_AUTORESET_SAME_STEP));
    CHECK_REFUSED(gpur_writer_reset(s.writer, -1, obs), "");
    CHECK_MESSAGE("obs of environment 0 has 9 among its bools; they must be 0 or 1");
    CHECK_OK(gpur_writer_reset(s.writer, -1, values[0]));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const uint8_t ends[ENVS] = {0, (uint8_t)cases[i].terminated};
        const void *const extras[6] = {[5] = values[2]};
        const gpur_step_input in = {.size = sizeof in,
                                    .action = values[1],
                                    .reward = zeros,
                                    .next_obs = values[0],
                                    .terminated = ends,
                                    .final_obs = values[3],
                                    .extras = extras};
        values[cases[i].array][cases[i].at] = 7;
        CHECK_STATUS(gpur_writer_step_ex(s.writer, &in), cases[i].message ? GPUR_INVALID_ARGUMENT : GPUR_OK);
        if (cases[i].message)
            CHECK_MESSAGE(cases[i].message);
        values[cases[i].array][cases[i].at] = 0;
    }
    CHECK_EQUAL(rows_appended(s.replay), ENVS);
    replay_fixture_close(&s);
}

TEST(steps_need_a_schema_made_for_them)
{
    static const struct {
        int from, count, changed; /* fields[changed] gets this type and length */
        int32_t dtype, length;
        const char *message;
    } cases[] = {
        {0, 4, 0, GPUR_FLOAT32, OBS, "no field \"terminated\""},
        {1, 6, 1, GPUR_INT32, 0, "no field \"obs\""},
        {0, 7, 3, GPUR_FLOAT32, OBS + 1, "\"obs\" and \"next_obs\" differ"},
        {0, 7, 2, GPUR_INT32, 0, "\"reward\" is int32 of 4 bytes"},
        {0, 7, 5, GPUR_FLOAT32, 0, "\"truncated\" has 4 bytes"},
        {0, 8, 7, GPUR_INT32, 0, "field \"previous\" is int32 of 4 bytes; gpur_writer_step needs one int64"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gpur_field fields[ALL];
        memcpy(fields, full, sizeof fields);
        fields[7].name = "previous";
        fields[cases[i].changed].dtype = cases[i].dtype, fields[cases[i].changed].shape[0] = cases[i].length;
        const gpur_replay_config config = replay_fixture_config(fields + cases[i].from, cases[i].count, 100, 7, 8);
        gpur_episode_info info = {.size = sizeof info};
        float obs[OBS];
        replay_fixture s;
        step t;
        fill_step(&t);
        CHECK(open_steps(&s, &config, GPUR_AUTORESET_DISABLED));
        CHECK_REFUSED(gpur_writer_reset(s.writer, -1, zeros), cases[i].message);
        CHECK_STATUS(gpur_writer_step(s.writer, t.action, t.reward, t.next_obs, t.terminated, NULL),
                     GPUR_INVALID_ARGUMENT);
        CHECK_MESSAGE(cases[i].message);
        CHECK_REFUSED(gpur_writer_get_episode(s.writer, 0, &info, obs), cases[i].message);
        replay_fixture_close(&s);
    }
}

/* Ranges are those of test_settings.c. */
TEST(settings_that_do_not_go_together_are_refused)
{
    static const gpur_writer_config frames = {sizeof frames, 1, 0, GPUR_OBSERVATIONS_FRAMES, 0}, small = {.size = 3};
    gpur_replay_config config = replay_fixture_config(full, 6, 100, 7, 8); /* without a discount */
    gpur_writer *writer = NULL;
    gpur_replay *replay = NULL;
    gpur_writer_config fresh;
    replay_fixture s;
    CHECK_OK(gpur_writer_config_init(&fresh, sizeof fresh));
    CHECK(fresh.num_envs == 1 && fresh.autoreset == GPUR_AUTORESET_DISABLED &&
          fresh.observations == GPUR_OBSERVATIONS_STACKS);
    CHECK(open_steps(&s, &config, GPUR_AUTORESET_DISABLED));
    CHECK_REFUSED(gpur_writer_open(s.replay, &frames, &writer),
                  "stacks are made of frames by the layout GPUR_LAYOUT_FRAMES alone");
    CHECK_REFUSED(gpur_writer_open(s.replay, &small, &writer), "gpur_writer_config.size is 3");
    CHECK_REFUSED(gpur_writer_open(NULL, &fresh, &writer), "");
    CHECK_REFUSED(gpur_writer_open(s.replay, &fresh, NULL), "");
    CHECK_REFUSED(gpur_writer_create(s.replay, 0, &writer), "");
    CHECK_MESSAGE("num_envs is 0; it must be 1 to 1048576");
    CHECK(writer == NULL);
    config.n_step = 3;
    CHECK_REFUSED(gpur_replay_create(s.device, &config, &replay), "");
    CHECK_MESSAGE("n_step is 3, and the schema has no field \"discount\"; add one");
    gpur_writer_destroy(NULL);
    replay_fixture_close(&s);
}

/* The ten steps of dqnl's own test [Daley & Amato 2019]: blocks of three, each of which the table ends with a
 * bootstrap; done at the third and the eighth step. */
static const float table_rewards[] = {10, -10, 20, -20, 30, -30, 40, -40, 50};
static const float table_max_q[] = {100, 200, 300, 400, 300, 200, 100, 200, 300, 400};
static const double table_returns[] = {17.2, 8, 20, 55.6, 84, 60, 4, -40, 410};

TEST(three_step_returns_are_those_of_the_published_table)
{
    const gpur_field fields[] = {
        {"obs", GPUR_FLOAT32, {0}}, full[1], full[2], {"next_obs", GPUR_FLOAT32, {0}}, full[4], full[5], full[6]};
    gpur_replay_config config = replay_fixture_config(fields, 7, 100, 7, 32);
    float obs[9], next_obs[9], reward[9], discount[9];
    replay_fixture s;
    config.n_step = 3, config.gamma = 0.9f;
    CHECK(replay_fixture_open(&s, test_device(), &config, 1));
    for (int32_t t = 0; t < 9; t++) {
        const float now = (float)t, then = (float)(t + 1);
        const uint8_t terminated = t == 2 || t == 7, truncated = t == 5 || t == 8;
        if (t % 3 == 0 || t == 8)
            CHECK_OK(gpur_writer_reset(s.writer, 0, &now));
        CHECK_OK(gpur_writer_step(s.writer, &t, &table_rewards[t], &then, &terminated, &truncated));
    }
    CHECK_EQUAL(rows_appended(s.replay), 9);
    CHECK_OK(read_rows(s.replay, "obs", 0, 9, obs, 4));
    CHECK_OK(read_rows(s.replay, "next_obs", 0, 9, next_obs, 4));
    CHECK_OK(read_rows(s.replay, "reward", 0, 9, reward, 4));
    CHECK_OK(read_rows(s.replay, "discount", 0, 9, discount, 4));
    for (int i = 0; i < 9; i++) {
        CHECK(obs[i] == (float)i);
        CHECK_NEAR(reward[i] + discount[i] * table_max_q[(int)next_obs[i]], table_returns[i], 1e-4);
    }
    replay_fixture_close(&s);
}

TEST(rewards_are_clipped_when_asked_and_nan_passes)
{
    enum { COUNT = 8 };
    static const float given[COUNT] = {3, -3, 0.5f, NAN, -INFINITY, INFINITY, -0.0f, 1e-45f};
    static const float clipped[COUNT] = {1, -1, 0.5f, NAN, -1, 1, -0.0f, 1e-45f};
    for (int clips = 0; clips < 2; clips++) {
        gpur_replay_config config = replay_fixture_config(full, 6, 100, 7, 8);
        const float *const want = clips ? clipped : given;
        float got[COUNT];
        replay_fixture s;
        config.reward_clip = (float)clips;
        CHECK(open_steps(&s, &config, GPUR_AUTORESET_DISABLED));
        CHECK_OK(gpur_writer_reset(s.writer, -1, zeros));
        for (int i = 0; i < COUNT; i += ENVS)
            CHECK_OK(gpur_writer_step(s.writer, zeros, given + i, zeros, (const uint8_t[]){0, 0}, NULL));
        CHECK_OK(read_rows(s.replay, "reward", 0, COUNT, got, 4));
        for (int i = 0; i < COUNT; i++)
            CHECK(isnan(want[i]) ? isnan(got[i]) : memcmp(&got[i], &want[i], 4) == 0);
        replay_fixture_close(&s);
    }
}

TEST(bad_questions_about_an_environment_are_refused)
{
    const gpur_replay_config config = replay_fixture_config(full, 6, 100, 7, 8);
    gpur_episode_info info = {.size = sizeof info}, small = {.size = 3};
    float obs[OBS] = {-1};
    replay_fixture s;
    CHECK(open_steps(&s, &config, GPUR_AUTORESET_DISABLED));
    CHECK_REFUSED(gpur_writer_get_episode(NULL, 0, &info, obs), "");
    CHECK_REFUSED(gpur_writer_get_episode(s.writer, 0, NULL, obs), "");
    CHECK_REFUSED(gpur_writer_get_episode(s.writer, ENVS, &info, obs), "");
    CHECK_MESSAGE("env is 2; it must be 0 to 1");
    CHECK_REFUSED(gpur_writer_get_episode(s.writer, -1, &info, obs), "");
    CHECK_MESSAGE("env is -1; it must be 0 to 1");
    CHECK_REFUSED(gpur_writer_get_episode(s.writer, 0, &small, obs), "gpur_episode_info.size is 3");
    CHECK(obs[0] == -1);
    replay_fixture_close(&s);
}

/* 1: the environments' states are these. */
static int states_are(const replay_fixture *s, int32_t first, int32_t second)
{
    gpur_episode_info info[ENVS] = {{.size = sizeof info[0]}, {.size = sizeof info[0]}};
    return gpur_writer_get_episode(s->writer, 0, &info[0], NULL) == GPUR_OK && info[0].state == first &&
           gpur_writer_get_episode(s->writer, 1, &info[1], NULL) == GPUR_OK && info[1].state == second;
}

static const uint8_t second_ended[ENVS] = {0, 1};

/* The notes are in the file, for a writer that is there and for one that comes later. */
static void check_saved_notes(const replay_fixture *s, const gpur_replay_config *config)
{
#ifdef GPUR_HAS_FILES
    char path[] = "/tmp/gpur_ended_XXXXXX";
    CHECK(mkstemp(path) >= 0);
    CHECK_OK(gpur_replay_save(s->replay, path, NULL));
    for (int is_late = 0; is_late < 2; is_late++) {
        replay_fixture to;
        gpur_writer_config writer = {.size = sizeof writer, .num_envs = ENVS, .autoreset = GPUR_AUTORESET_NEXT_STEP};
        CHECK(open_steps(&to, config, GPUR_AUTORESET_NEXT_STEP));
        if (is_late)
            gpur_writer_destroy(to.writer);
        CHECK_OK(gpur_replay_load(to.replay, path, NULL));
        if (is_late)
            CHECK_OK(gpur_writer_open(to.replay, &writer, &to.writer));
        CHECK(states_are(&to, GPUR_EPISODE_NONE, GPUR_EPISODE_ENDED));
        replay_fixture_close(&to);
    }
    remove(path);
#else
    (void)s, (void)config;
#endif
}

/* Rows alone, of two environments of which one has ended: the note goes with the file, and to a writer that comes. */
TEST(who_appends_rows_notes_what_has_ended)
{
    const gpur_replay_config config = replay_fixture_config(full, 7, 100, 7, 8);
    const uint8_t wrong[ENVS] = {0, 2};
    replay_fixture s;
    CHECK(open_steps(&s, &config, GPUR_AUTORESET_NEXT_STEP));
    s.row_tags = row_tags_of(s.replay, config.gamma);
    CHECK_REFUSED(gpur_writer_set_ended(s.writer, NULL), "");
    CHECK_REFUSED(gpur_writer_set_ended(NULL, second_ended), "");
    CHECK_OK(gpur_writer_set_ended(s.writer, second_ended));
    CHECK_REFUSED(gpur_writer_set_ended(s.writer, wrong), "");
    CHECK_MESSAGE("ended[1] is 2; it must be 0 or 1");
    CHECK(states_are(&s, GPUR_EPISODE_NONE, GPUR_EPISODE_ENDED));
    CHECK_OK(replay_fixture_append(&s, 6));
    check_saved_notes(&s, &config);
    CHECK_OK(gpur_writer_reset(s.writer, 0, zeros)); /* a writer that is given steps notes it by itself */
    CHECK_REFUSED(gpur_writer_set_ended(s.writer, second_ended), "environment 0 has an open episode");
    CHECK(states_are(&s, GPUR_EPISODE_OPEN, GPUR_EPISODE_ENDED));
    replay_fixture_close(&s);
}

/* Environments that have had no step have no frames either. */
TEST(notes_of_what_has_ended_are_saved_with_frames)
{
    static const gpur_field fields[] = {{"obs", GPUR_UINT8, {2, OBS}},
                                        {"action", GPUR_INT32, {0}},
                                        {"reward", GPUR_FLOAT32, {0}},
                                        {"next_obs", GPUR_UINT8, {2, OBS}},
                                        {"terminated", GPUR_BOOL, {0}}};
    gpur_replay_config config;
    replay_fixture s;
    CHECK_OK(gpur_replay_config_init(&config, sizeof config));
    config.capacity = 100, config.fields = fields, config.field_count = sizeof fields / sizeof *fields;
    config.layout = GPUR_LAYOUT_FRAMES, config.frame_stack = 2;
    CHECK(open_steps(&s, &config, GPUR_AUTORESET_NEXT_STEP));
    CHECK_OK(gpur_writer_set_ended(s.writer, second_ended));
    check_saved_notes(&s, &config);
    replay_fixture_close(&s);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(refused_steps_and_resets_take_nothing);
    RUN(bools_that_are_not_0_or_1_are_refused);
    RUN(steps_need_a_schema_made_for_them);
    RUN(settings_that_do_not_go_together_are_refused);
    RUN(three_step_returns_are_those_of_the_published_table);
    RUN(rewards_are_clipped_when_asked_and_nan_passes);
    RUN(bad_questions_about_an_environment_are_refused);
    RUN(who_appends_rows_notes_what_has_ended);
    RUN(notes_of_what_has_ended_are_saved_with_frames);
    return test_main_end();
}
