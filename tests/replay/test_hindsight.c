/* SPDX-License-Identifier: MIT */
/*
 * Hindsight beside a model that keeps every episode whole: each row of a batch is what was stored, or has a goal that
 * its strategy allows, and then the reward, discount and terminated that follow from it by the definition, in double.
 * And the distribution of new goals: every chi-square must have a tail of at least 1e-6; the seeds are fixed.
 */
#include "gpureplay/dqn.h"
#include "gpureplay/hindsight.h"
#include "learn/learner.h"
#include "learn/train_step.h"
#include "support/file_utils.h"
#include "support/replay_fixture.h"
#include "test.h"

enum { OBS = 5, ENVS = 3, MAX_STEPS = 64, MAX_EPISODES = 4000, MAX_TAGS = 40000, BATCH = 64 };
enum { ACHIEVED = 1, DESIRED = 3, TAG = 0 }; /* where numbers are in an observation */
static const double alarm = 1e-6;

/* An episode: goals[t] is what is achieved before step t, goals[steps] after the last one. */
typedef struct episode {
    float goals[MAX_STEPS + 1][2], desired[2], rewards[MAX_STEPS];
    int64_t first_tag; /* of its first step */
    int steps, is_over, is_terminated;
} episode;

typedef struct model {
    gpur_replay_config config;
    gpur_hindsight_config hindsight;
    gpur_field fields[8];
    gpur_device *device;
    gpur_replay *replay;
    gpur_writer *writer;
    episode episodes[MAX_EPISODES];
    int32_t of_tag[MAX_TAGS]; /* the episode of a step */
    int64_t step_of_tag[MAX_TAGS], tags;
    int32_t open[ENVS], count, envs, goals_differ; /* goals_differ: no goal is achieved twice */
    int64_t ends_in, cut_in; /* an episode ends, or is cut by a reset, with probability 1 / this */
    uint64_t random;
} model;

static void observe(const episode *e, int64_t tag, int t, float *obs)
{
    obs[TAG] = (float)tag;
    memcpy(obs + ACHIEVED, e->goals[t], sizeof e->goals[t]);
    memcpy(obs + DESIRED, e->desired, sizeof e->desired);
}

static void set_goal(model *m, episode *e, int t)
{
    if (m->goals_differ) {
        e->goals[t][0] = (float)(e - m->episodes), e->goals[t][1] = (float)t;
        return;
    }
    for (int i = 0; i < 2; i++)
        e->goals[t][i] = (t > 0 ? e->goals[t - 1][i] : 0) + (float)(xorshift_below(&m->random, 3) - 1);
}

static gpur_status begin_episode(model *m, int env)
{
    float obs[OBS];
    episode *const e = &m->episodes[m->count];
    *e = (episode){.first_tag = -1};
    m->open[env] = m->count++;
    set_goal(m, e, 0);
    e->desired[0] = (float)xorshift_below(&m->random, 5) + 0.5f, e->desired[1] = -7.25f;
    observe(e, 0, 0, obs); /* the tag is that of the first step, which a reset does not know: it is set below */
    obs[TAG] = (float)(m->tags + env);
    return gpur_writer_reset(m->writer, env, obs);
}

/* One step of all environments; those that ended begin a new episode first. Episodes of environment 0 are cut by a
 * reset now and then. */
static gpur_status step(model *m)
{
    float next[ENVS][OBS], rewards[ENVS];
    int32_t actions[ENVS];
    uint8_t terminated[ENVS] = {0}, truncated[ENVS] = {0};
    for (int env = 0; env < m->envs; env++) {
        episode *const e = &m->episodes[m->open[env]];
        const int is_cut = !e->is_over && e->steps > 0 && xorshift_below(&m->random, m->cut_in) == 0;
        e->is_over |= is_cut;
        if (e->is_over)
            GPUR_TRY(begin_episode(m, env));
    }
    for (int env = 0; env < m->envs; env++) {
        episode *const e = &m->episodes[m->open[env]];
        m->of_tag[m->tags] = m->open[env], m->step_of_tag[m->tags] = e->steps;
        m->tags++;
        set_goal(m, e, e->steps + 1);
        rewards[env] = 10.0f + (float)xorshift_below(&m->random, 8);
        e->rewards[e->steps] = m->config.reward_clip > 0 ? fminf(rewards[env], m->config.reward_clip) : rewards[env];
        actions[env] = 1;
        e->steps++;
        if (xorshift_below(&m->random, m->ends_in) == 0 || e->steps == MAX_STEPS) {
            e->is_over = 1, e->is_terminated = (int)xorshift_below(&m->random, 2);
            terminated[env] = (uint8_t)e->is_terminated, truncated[env] = (uint8_t)!e->is_terminated;
        }
        observe(e, m->tags - 1 + m->envs, e->steps, next[env]);
    }
    return gpur_writer_step(m->writer, actions, rewards, next, terminated, truncated);
}

static int open_replay(model *m)
{
    if (gpur_replay_create(m->device, &m->config, &m->replay) != GPUR_OK ||
        gpur_writer_create(m->replay, m->envs, &m->writer) != GPUR_OK) {
        fprintf(stderr, "%s\n", gpur_last_error());
        return 0;
    }
    return 1;
}

/* The settings of a replay of these goals; the test may change them before open_model. */
static void set_model(model *m, int32_t n_step, int64_t capacity)
{
    const gpur_field fields[8] = {{"obs", GPUR_FLOAT32, {OBS}},   {"action", GPUR_INT32, {0}},
                                  {"reward", GPUR_FLOAT32, {0}},  {"next_obs", GPUR_FLOAT32, {OBS}},
                                  {"terminated", GPUR_BOOL, {0}}, {"truncated", GPUR_BOOL, {0}},
                                  {"previous", GPUR_INT64, {0}},  {"discount", GPUR_FLOAT32, {0}}};
    memset(m, 0, sizeof *m);
    memcpy(m->fields, fields, sizeof fields);
    gpur_hindsight_config_init(&m->hindsight, sizeof m->hindsight);
    m->hindsight.achieved_at = ACHIEVED, m->hindsight.desired_at = DESIRED, m->hindsight.goal_size = 2;
    m->config = replay_fixture_config(m->fields, n_step > 1 ? 8 : 7, capacity, 7, BATCH);
    m->config.hindsight = &m->hindsight;
    m->config.n_step = n_step, m->config.gamma = 0.5f;
    m->envs = ENVS, m->ends_in = 12, m->cut_in = 40, m->random = 99;
}

static int open_model(model *m)
{
    m->device = test_device();
    if (!m->device || !open_replay(m))
        return 0;
    for (int env = 0; env < m->envs; env++)
        if (begin_episode(m, env) != GPUR_OK)
            return 0;
    return 1;
}

static void close_model(model *m)
{
    gpur_writer_destroy(m->writer);
    gpur_replay_destroy(m->replay);
    gpur_device_close(m->device);
}

/* A batch on the host. */
typedef struct rows {
    float obs[BATCH][OBS], next_obs[BATCH][OBS], reward[BATCH], discount[BATCH];
    uint8_t terminated[BATCH], truncated[BATCH], relabeled[BATCH];
    int64_t id[BATCH];
} rows;

static gpur_status read_rows_of(gpur_batch *batch, rows *r)
{
    const int64_t n = gpur_batch_count(batch);
    GPUR_TRY(gpur_batch_read(batch, "obs", r->obs, n * OBS * 4));
    GPUR_TRY(gpur_batch_read(batch, "next_obs", r->next_obs, n * OBS * 4));
    GPUR_TRY(gpur_batch_read(batch, "reward", r->reward, n * 4));
    GPUR_TRY(gpur_batch_read(batch, "discount", r->discount, n * 4));
    GPUR_TRY(gpur_batch_read(batch, "terminated", r->terminated, n));
    GPUR_TRY(gpur_batch_read(batch, "truncated", r->truncated, n));
    GPUR_TRY(gpur_batch_read(batch, "relabeled", r->relabeled, n));
    return gpur_batch_read(batch, "id", r->id, n * 8);
}

static gpur_status draw(model *m, const int64_t *ids, rows *r)
{
    gpur_batch *batch = NULL;
    GPUR_TRY(ids ? gpur_replay_gather(m->replay, BATCH, ids, NULL, &batch)
                 : gpur_replay_sample(m->replay, BATCH, NULL, &batch));
    const gpur_status status = read_rows_of(batch, r);
    gpur_batch_release(batch);
    return status;
}

static double distance(const float *a, const float *b)
{
    const double x = (double)a[0] - (double)b[0], y = (double)a[1] - (double)b[1];
    return sqrt(x * x + y * y);
}

static double reward_of(const model *m, const float *achieved, const float *goal)
{
    const gpur_hindsight_config *const h = &m->hindsight;
    const double d = distance(achieved, goal), clip = (double)m->config.reward_clip;
    double reward = (double)(d <= (double)h->threshold ? h->reward_reached : h->reward_missed);
    if (h->reward == GPUR_GOAL_REWARD_DISTANCE)
        reward = -d;
    if (h->reward == GPUR_GOAL_REWARD_NEARNESS)
        reward = exp(-d);
    reward = clip > 0 && fabs(reward) > clip ? copysign(clip, reward) : reward;
    return (double)(float)reward;
}

/* What a row must be, if it has this goal; NULL: as it is stored. */
typedef struct outcome {
    double reward, discount;
    int terminated, truncated;
} outcome;

static outcome outcome_of(const model *m, const episode *e, int t, const float *goal)
{
    const int left = e->steps - t, n = m->config.n_step < left ? m->config.n_step : left;
    const int is_last = e->is_over && t + n == e->steps;
    outcome o = {.discount = 1, .terminated = is_last && e->is_terminated};
    int is_cut = 0;
    for (int i = 0; i < n && !is_cut; i++) {
        const float *const achieved = e->goals[t + i + 1];
        o.reward += o.discount * (goal ? reward_of(m, achieved, goal) : (double)e->rewards[t + i]);
        o.discount *= (double)m->config.gamma;
        is_cut = goal && m->hindsight.ends_at_goal && distance(achieved, goal) <= (double)m->hindsight.threshold;
    }
    if (goal && m->hindsight.ends_at_goal)
        o.terminated = is_cut;
    if (o.terminated)
        o.discount = 0;
    if (m->hindsight.reward == GPUR_GOAL_REWARD_UNCHANGED)
        o.reward = (double)e->rewards[t];
    return o;
}

/* 1: the strategy allows the goal that is achieved after step g, of a row of step t. oldest: the first step whose row
 * is in the window. */
static int is_allowed(const model *m, const episode *e, int t, int g, int oldest)
{
    if (m->hindsight.strategy == GPUR_HINDSIGHT_FINAL)
        return g == e->steps - 1;
    return g >= (m->hindsight.strategy == GPUR_HINDSIGHT_FUTURE ? t : oldest);
}

/* The ids of the window's oldest row, and of the steps of an episode, follow from the tags that are drawn: `oldest_tag`
 * is the lowest that can be in the window. */
static void check_row(model *m, const rows *r, int64_t b, int64_t oldest_tag)
{
    const int64_t tag = (int64_t)r->obs[b][TAG];
    CHECK(tag >= 0 && tag < m->tags);
    const episode *const e = &m->episodes[m->of_tag[tag]];
    const int t = (int)m->step_of_tag[tag];
    const float *const goal = &r->obs[b][DESIRED];
    const int n = e->steps - t < m->config.n_step ? e->steps - t : m->config.n_step;
    const outcome want = outcome_of(m, e, t, r->relabeled[b] ? goal : NULL);
    CHECK(memcmp(&r->obs[b][ACHIEVED], e->goals[t], sizeof e->goals[t]) == 0);
    CHECK(memcmp(&r->next_obs[b][ACHIEVED], e->goals[t + n], sizeof e->goals[t]) == 0);
    CHECK(memcmp(&r->next_obs[b][DESIRED], goal, 2 * sizeof *goal) == 0);
    CHECK_NEAR(r->reward[b], (float)want.reward, m->hindsight.reward == GPUR_GOAL_REWARD_NEARNESS ? 1e-6 : 0);
    CHECK_EQUAL(r->terminated[b], want.terminated);
    CHECK_NEAR(r->discount[b], (float)want.discount, 0);
    if (!r->relabeled[b]) {
        CHECK(memcmp(goal, e->desired, sizeof e->desired) == 0);
        return;
    }
    int found = 0, oldest = e->steps;
    for (int64_t at = m->tags - 1; at >= oldest_tag; at--)
        oldest = m->of_tag[at] == m->of_tag[tag] ? (int)m->step_of_tag[at] : oldest;
    for (int g = 0; g < e->steps; g++)
        found |= is_allowed(m, e, t, g, oldest) && memcmp(goal, e->goals[g + 1], sizeof e->goals[g]) == 0;
    CHECK(e->is_over && found);
}

/* With several steps a row comes only when its last step does, so its id may be up to that many rows late. */
static int64_t oldest_tag_of(const model *m)
{
    const gpur_replay_stats stats = replay_fixture_stats(m->replay);
    const int64_t slack = m->config.n_step > 1 ? (int64_t)(2 * MAX_STEPS) : 0;
    return stats.first_id > slack ? stats.first_id - slack : 0;
}

/* Random steps and draws; returns how many rows had new goals, or -1. */
static int64_t play(model *m, int rounds)
{
    int64_t relabeled = 0;
    rows r;
    for (int round = 0; round < rounds; round++) {
        for (int64_t steps = 1 + xorshift_below(&m->random, 8); steps > 0; steps--)
            if (m->count < MAX_EPISODES - ENVS && step(m) != GPUR_OK)
                return -1;
        if (replay_fixture_stats(m->replay).visible < 1)
            continue;
        if (draw(m, NULL, &r) != GPUR_OK)
            return -1;
        for (int64_t b = 0; b < BATCH; b++) {
            check_row(m, &r, b, oldest_tag_of(m));
            relabeled += r.relabeled[b];
        }
        if (atomic_load(&test_state.failures) > 0)
            return -1;
    }
    return relabeled;
}

TEST(rows_are_as_stored_or_as_their_new_goals_say)
{
    static model m;
    const int kinds = IN_RACE_CHECK ? 6 : 48;
    for (int kind = 0; kind < kinds; kind++) {
        set_model(&m, kind % 4 < 2 ? 1 : 1 + kind % 5, kind % 3 == 0 ? 2000 : 150);
        m.random = 1000 + (uint64_t)kind;
        m.hindsight.strategy = kind % 3;
        m.hindsight.ends_at_goal = kind / 3 % 2;
        m.hindsight.reward = kind / 6 % 3;
        m.hindsight.threshold = (float)(kind % 2);
        m.hindsight.reward_reached = (float)(kind % 5);
        m.config.reward_clip = kind % 7 == 0 ? 1.5f : 0.0f;
        m.config.prioritized = kind % 4 == 1;
        m.ends_in = 3 + kind;
        CHECK(open_model(&m));
        const int64_t relabeled = play(&m, IN_RACE_CHECK ? 20 : 60);
        close_model(&m);
        CHECK(relabeled > 100);
    }
}

TEST(gathers_by_id_and_sequences_return_what_was_stored)
{
    static model m;
    rows r;
    int64_t ids[BATCH];
    set_model(&m, 1, 500);
    m.hindsight.n_sampled_goal = 1000000;
    CHECK(open_model(&m));
    CHECK(play(&m, 40) > 0);
    const gpur_replay_stats stats = replay_fixture_stats(m.replay);
    for (int64_t b = 0; b < BATCH; b++)
        ids[b] = stats.first_id + b;
    CHECK_OK(draw(&m, ids, &r));
    for (int64_t b = 0; b < BATCH; b++) {
        CHECK_EQUAL(r.relabeled[b], 0);
        check_row(&m, &r, b, 0);
    }
    gpur_sequence_config config;
    gpur_batch *batch = NULL;
    gpur_sequence_config_init(&config, sizeof config);
    config.batch = 8, config.length = 8;
    CHECK_OK(gpur_replay_sample_sequences(m.replay, &config, NULL, &batch));
    CHECK_FAILS(gpur_batch_read(batch, "relabeled", ids, 64), GPUR_INVALID_ARGUMENT, "relabeled");
    CHECK_OK(gpur_batch_read(batch, "reward", r.reward, sizeof r.reward));
    for (int64_t b = 0; b < BATCH; b++)
        CHECK(r.reward[b] >= 10); /* rewards of new goals are below */
    gpur_batch_release(batch);
    close_model(&m);
}

/* Episodes of fixed lengths, whose goals all differ, and a count for each pair of a step and its new goal. */
static void check_goals(int32_t strategy, int32_t n_step, int32_t k)
{
    enum { LENGTH = 9 };
    static model m;
    static int64_t counts[LENGTH][LENGTH];
    int64_t drawn = 0, relabeled = 0, freedom = 0;
    double statistic = 0;
    rows r;
    memset(counts, 0, sizeof counts);
    set_model(&m, n_step, 2000);
    m.hindsight.strategy = strategy, m.hindsight.n_sampled_goal = k;
    m.goals_differ = 1, m.envs = 1, m.ends_in = m.cut_in = INT32_MAX;
    CHECK(open_model(&m));
    for (int i = 0; i < 6 * LENGTH + n_step; i++) { /* the last episode stays open */
        episode *const e = &m.episodes[m.open[0]];
        if (e->steps == LENGTH) {
            e->is_over = 1;
            CHECK_OK(begin_episode(&m, 0));
        }
        const int before = m.count;
        CHECK_OK(step(&m));
        CHECK(m.count == before || m.count == before + 1);
    }
    for (int round = 0; round < (IN_RACE_CHECK ? 40 : 1500); round++) {
        CHECK_OK(draw(&m, NULL, &r));
        for (int64_t b = 0; b < BATCH; b++) {
            const int64_t tag = (int64_t)r.obs[b][TAG];
            const episode *const e = &m.episodes[m.of_tag[tag]];
            check_row(&m, &r, b, 0);
            drawn += e->is_over;
            relabeled += r.relabeled[b];
            if (r.relabeled[b] && e->steps == LENGTH)
                counts[m.step_of_tag[tag]][(int)r.obs[b][DESIRED + 1] - 1]++;
        }
    }
    close_model(&m);
    const double share = k / (k + 1.0), spread = sqrt(share * (1 - share) * (double)drawn);
    CHECK_NEAR(relabeled, share * (double)drawn, 5 * spread + 1e-3 * (double)drawn);
    for (int t = 0; t < LENGTH; t++) {
        const int first = strategy == GPUR_HINDSIGHT_FINAL ? LENGTH - 1 : strategy == GPUR_HINDSIGHT_FUTURE ? t : 0;
        for (int g = 0; g < first; g++)
            CHECK_EQUAL(counts[t][g], 0);
        if (LENGTH - first > 1)
            statistic += chi_square_statistic(counts[t] + first, LENGTH - first);
        freedom += LENGTH - first - 1;
    }
    if (freedom > 0 && k > 0)
        TEST_REQUIRE(chi_square_tail(statistic, freedom) >= alarm, "chi-square %g of %d, strategy %d", statistic,
                     (int)freedom, (int)strategy);
}

TEST(new_goals_are_as_likely_as_the_strategy_says)
{
    for (int32_t strategy = GPUR_HINDSIGHT_FUTURE; strategy <= GPUR_HINDSIGHT_EPISODE; strategy++) {
        check_goals(strategy, 1, 4);
        check_goals(strategy, 3, 1);
    }
    check_goals(GPUR_HINDSIGHT_FUTURE, 1, 0);
}

TEST(a_loaded_replay_finds_the_episodes_again)
{
    static model m;
    const char *const path = test_file_path("replay.gpur");
    set_model(&m, 1, 300);
    m.hindsight.strategy = GPUR_HINDSIGHT_EPISODE;
    CHECK(open_model(&m));
    CHECK(play(&m, 60) > 0);
    CHECK_OK(gpur_replay_save(m.replay, path, NULL));
    gpur_writer_destroy(m.writer);
    gpur_replay_destroy(m.replay);
    CHECK(open_replay(&m));
    CHECK_OK(gpur_replay_load(m.replay, path, NULL));
    CHECK(play(&m, 60) > 60 * BATCH / 3);
    close_model(&m);
    test_remove_folder();
}

/* The rows of the learner's last train step. A row has a new goal if its goal is not that of its episode, which is
 * never achieved. */
static gpur_status read_trained(const model *m, const gpur_learner *learner, rows *r)
{
    const gpur_train_batch *const batch = &learner->step->batch;
    for (int64_t b = 0; b < BATCH; b++) {
        GPUR_TRY(gpur_device_copy(m->device, r->obs[b], batch->x + b * batch->x_pitch, sizeof r->obs[b]));
        GPUR_TRY(gpur_device_copy(m->device, r->next_obs[b], batch->next_x + b * batch->x_pitch, sizeof r->obs[b]));
    }
    GPUR_TRY(gpur_device_copy(m->device, r->reward, batch->reward, sizeof r->reward));
    GPUR_TRY(gpur_device_copy(m->device, r->discount, batch->discount, sizeof r->discount));
    for (int64_t b = 0; b < BATCH; b++) {
        const int64_t tag = (int64_t)r->obs[b][TAG];
        const episode *const e = &m->episodes[tag >= 0 && tag < m->tags ? m->of_tag[tag] : 0];
        r->terminated[b] = r->discount[b] == 0;
        r->relabeled[b] = memcmp(&r->obs[b][DESIRED], e->desired, sizeof e->desired) != 0;
    }
    return GPUR_OK;
}

TEST(train_steps_learn_from_new_goals)
{
    static model m;
    rows r;
    for (int kind = 0; kind < 4; kind++) {
        int64_t relabeled = 0;
        gpur_dqn_config config;
        gpur_learner *learner = NULL;
        set_model(&m, kind % 2 ? 3 : 1, 400);
        m.config.prioritized = kind / 2;
        m.hindsight.ends_at_goal = 1;
        CHECK(open_model(&m));
        CHECK(play(&m, 40) > 0);
        CHECK_OK(gpur_dqn_config_init(&config, sizeof config));
        config.network.num_actions = 2, config.batch_size = BATCH;
        CHECK_OK(gpur_dqn_create(m.replay, &config, &learner));
        for (int i = 0; i < 5 && learner; i++) {
            CHECK_OK(gpur_learner_train(learner, 1));
            CHECK_OK(gpur_learner_sync(learner));
            CHECK_OK(read_trained(&m, learner, &r));
            for (int64_t b = 0; b < BATCH; b++) {
                check_row(&m, &r, b, oldest_tag_of(&m));
                relabeled += r.relabeled[b];
            }
        }
        CHECK(relabeled > 5 * BATCH / 2);
        gpur_learner_destroy(learner);
        close_model(&m);
    }
}

static void check_refusal(model *m, const char *message)
{
    gpur_replay *replay = NULL;
    CHECK_FAILS(gpur_replay_create(m->device, &m->config, &replay), GPUR_INVALID_ARGUMENT, message);
    CHECK(!replay);
    gpur_device *const device = m->device;
    set_model(m, 1, 100);
    m->device = device;
}

TEST(bad_settings_are_refused)
{
    static model m;
    set_model(&m, 1, 100);
    m.device = test_device();
    m.hindsight.strategy = 3;
    check_refusal(&m,
                  "gpur_hindsight_config.strategy is 3; it must be GPUR_HINDSIGHT_FUTURE, FINAL or EPISODE (0 to 2)");
    m.hindsight.reward = 4;
    check_refusal(&m, "gpur_hindsight_config.reward is 4");
    m.hindsight.n_sampled_goal = -1;
    check_refusal(&m, "gpur_hindsight_config.n_sampled_goal is -1; it must be 0 to 1000000");
    m.hindsight.threshold = NAN;
    check_refusal(&m, "gpur_hindsight_config.threshold is nan");
    m.hindsight.ends_at_goal = 2;
    check_refusal(&m, "gpur_hindsight_config.ends_at_goal is 2; it must be 0 or 1");
    m.hindsight.reward = GPUR_GOAL_REWARD_UNCHANGED, m.hindsight.ends_at_goal = 1;
    check_refusal(&m, "gpur_hindsight_config.reward is GPUR_GOAL_REWARD_UNCHANGED (3), ends_at_goal 1");
    m.hindsight.goal_size = 0;
    check_refusal(&m, "gpur_hindsight_config.goal_size is 0, and both goals lie in field \"obs\"");
    m.hindsight.desired_at = 2;
    check_refusal(&m, "the goals must not overlap");
    m.hindsight.desired_at = 4;
    check_refusal(&m, "gpur_hindsight_config.desired_at is 4 and the goal has 2 numbers; the field has 5");
    m.hindsight.achieved_field = "goal";
    check_refusal(&m, "gpur_hindsight_config.achieved_field: the schema has no field \"goal\"");
    m.hindsight.desired_field = "terminated";
    check_refusal(&m, "gpur_hindsight_config.desired_field: field \"terminated\" is bool; goals must be float32");
    m.fields[6].name = "link";
    check_refusal(&m, "the schema has no field \"previous\" of one int64");
    m.fields[6].name = "relabeled";
    check_refusal(&m, "no field \"previous\"");
    m.fields[2].dtype = GPUR_INT32;
    check_refusal(&m, "no field \"reward\" of one float32");
    m.config.layout = GPUR_LAYOUT_FRAMES, m.fields[0].dtype = m.fields[3].dtype = GPUR_UINT8;
    check_refusal(&m, "hindsight needs GPUR_LAYOUT_ROWS (0)");
    gpur_device_close(m.device);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(rows_are_as_stored_or_as_their_new_goals_say);
    RUN(gathers_by_id_and_sequences_return_what_was_stored);
    RUN(new_goals_are_as_likely_as_the_strategy_says);
    RUN(a_loaded_replay_finds_the_episodes_again);
    RUN(train_steps_learn_from_new_goals);
    RUN(bad_settings_are_refused);
    return test_main_end();
}
