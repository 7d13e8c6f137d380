/* SPDX-License-Identifier: MIT */
/* The transitions and initial priorities of an actor, against a slow model of them in double: the episodes played again
 * with the policy alone, and each transition written out from its definition [Horgan et al. 2018, section 3]. */
#include "kernels/lib/random.h"
#include "support/apex_fixture.h"
#include "support/run_fixture.h"
#include "test.h"

#include <math.h>

enum { MAX_STEPS = 700, BLOCKS = 30, MAX_EPISODES = 200 };

static apex_settings settings;
static gpur_device *device;
static gpur_replay *replay;
static gpur_writer *writer;
static gpur_block_format *format;
static gpur_policy *policy;
static gpur_shared shared;
static unsigned char weights[1 << 20];

/* The actor's side: blocks go straight to a replay. */

static int64_t blocks, rows, episodes;
static int64_t version = 5; /* of the weights that act */
static int publishes;       /* 1: each block is followed by other weights */
static gpur_actor_episode games[MAX_EPISODES];

static gpur_status take_block(void *context, const void *block, int64_t bytes, int64_t steps)
{
    const gpur_actor_settings *const s = context;
    gpur_block_info info = {.size = sizeof info};
    GPUR_TRY(gpur_writer_append_block(writer, block, bytes, &info));
    if (info.actor != s->actor || info.incarnation != s->incarnation || info.sequence != blocks ||
        info.first_step != rows || info.version != version || info.rows > s->block_rows)
        return gpur_fail(GPUR_INVALID_ARGUMENT, "block %d is of another actor", (int)blocks);
    if (steps < rows + info.rows || steps > rows + info.rows + settings.replay.n_step)
        return gpur_fail(GPUR_INVALID_ARGUMENT, "block %d comes after %d steps", (int)blocks, (int)steps);
    rows += info.rows;
    if (++blocks >= BLOCKS) {
        atomic_store(&gpur_shared_counts(&shared, s->actor)->is_asked, 1);
    } else if (publishes) {
        version += s->waits;                            /* one that does not wait takes them later */
        memcpy(weights + 24, &version, sizeof version); /* in the header of 64 bytes */
        gpur_shared_broadcast(&shared, weights);
    }
    return GPUR_OK;
}

static gpur_status take_episode(void *context, const gpur_actor_episode *episode, int64_t steps)
{
    (void)context, (void)steps;
    games[episodes++ % MAX_EPISODES] = *episode;
    return GPUR_OK;
}

static int64_t pulled; /* the broadcast whose weights the actor has */

static gpur_status pull(void *context, gpur_actor_policies *to, unsigned char *room, int *is_newer)
{
    (void)context;
    return gpur_shared_pull(&shared, to, room, &pulled, is_newer);
}

/* The model: everything that happened, and then one transition at a time. */

typedef struct happened {
    double obs[RUN_FEATURES], next_obs[RUN_FEATURES], q[RUN_ACTIONS], next_q[RUN_ACTIONS], reward;
    int32_t action;
    int terminated, truncated;
} happened;

static happened history[MAX_STEPS];

static void widen(double *to, const float *from, int count)
{
    for (int i = 0; i < count; i++)
        to[i] = (double)from[i];
}

static gpur_status play(const gpur_actor_settings *s, int64_t steps)
{
    const gpur_u32x4 bits =
        gpur_random_bits(s->seed, GPUR_RANDOM_APEX_ACTOR, (uint64_t)s->incarnation, (uint32_t)s->actor);
    const uint32_t lane = (uint32_t)s->actor;
    gpur_env_info info = {.size = sizeof info};
    float obs[RUN_FEATURES], q[RUN_ACTIONS];
    void *env;
    int64_t length = 0;
    run_fixture_env.init(settings.run.env_options, (uint64_t)bits.v[1] << 32 | bits.v[0], &info, &env);
    run_fixture_env.reset(env, obs);
    for (int64_t t = 0; t < steps; t++) {
        happened *const h = &history[t];
        const uint64_t step = (uint64_t)t;
        const gpur_policy_input input = {
            .size = sizeof input, .count = 1, .obs = obs, .epsilon = &s->epsilon, .lane = &lane, .step = &step};
        const gpur_policy_input after = {.size = sizeof after, .count = 1, .obs = obs};
        const gpur_policy_output output = {.size = sizeof output, .actions = &h->action, .q = q};
        const gpur_policy_output values = {.size = sizeof values, .q = q};
        gpur_env_result result = {0};
        widen(h->obs, obs, RUN_FEATURES);
        GPUR_TRY(gpur_policy_act(policy, &input, &output));
        widen(h->q, q, RUN_ACTIONS);
        run_fixture_env.step(env, &h->action, obs, &result);
        length++;
        if (s->max_episode_steps > 0 && length >= s->max_episode_steps && !result.terminated)
            result.truncated = 1, result.continues = 0;
        h->reward = (double)result.reward;
        h->terminated = result.terminated, h->truncated = result.truncated;
        widen(h->next_obs, obs, RUN_FEATURES);
        GPUR_TRY(gpur_policy_act(policy, &after, &values));
        widen(h->next_q, q, RUN_ACTIONS);
        if (result.terminated || result.truncated)
            run_fixture_env.reset(env, obs);
        if ((result.terminated || result.truncated) && !result.continues)
            length = 0;
    }
    run_fixture_env.close(env);
    return GPUR_OK;
}

static double largest(const double *q)
{
    double most = q[0];
    for (int i = 1; i < RUN_ACTIONS; i++)
        most = fmax(most, q[i]);
    return most;
}

static void check_floats(gpur_batch *batch, const char *name, const double *want, int count, double tolerance)
{
    float got[RUN_FEATURES];
    CHECK_OK(gpur_batch_read(batch, name, got, count * (int64_t)sizeof *got));
    for (int i = 0; i < count; i++)
        TEST_REQUIRE(fabs((double)got[i] - want[i]) <= tolerance || (isnan(got[i]) && isnan(want[i])),
                     "%s[%d] is %.8g; wanted %.8g", name, i, (double)got[i], want[i]);
}

static void check_byte(gpur_batch *batch, const char *name, int want)
{
    unsigned char got;
    CHECK_OK(gpur_batch_read(batch, name, &got, 1));
    CHECK_EQUAL(got, want);
}

/* The transition that begins at step t, if `with_priorities` with its priority. */
static void check_row(gpur_batch *batch, int64_t t, int with_priorities)
{
    const double gamma = (double)settings.replay.gamma;
    double reward = 0.0, discount = 1.0;
    int64_t last = t - 1;
    int32_t action;
    do {
        last++;
        reward += discount * history[last].reward;
        discount *= gamma;
    } while (last + 1 < t + settings.replay.n_step && !history[last].terminated && !history[last].truncated);
    if (history[last].terminated)
        discount = 0.0;
    const double error = reward + discount * largest(history[last].next_q) - history[t].q[history[t].action];
    const double priority = with_priorities ? fabs(error) : (double)NAN;
    CHECK_OK(gpur_batch_read(batch, "action", &action, sizeof action));
    CHECK_EQUAL(action, history[t].action);
    check_floats(batch, "obs", history[t].obs, RUN_FEATURES, 0.0);
    check_floats(batch, "next_obs", history[last].next_obs, RUN_FEATURES, 0.0);
    check_floats(batch, "reward", &reward, 1, 1e-5);
    check_floats(batch, "discount", &discount, 1, 1e-6);
    check_floats(batch, "priority", &priority, 1, 1e-4);
    check_byte(batch, "terminated", history[last].terminated);
    check_byte(batch, "truncated", history[last].truncated);
}

static void check_rows(int64_t count, int with_priorities)
{
    const int failures = atomic_load(&test_state.failures);
    for (int64_t id = 0; id < count && atomic_load(&test_state.failures) == failures; id++) {
        gpur_batch *batch = NULL;
        CHECK_OK(gpur_replay_gather(replay, 1, &id, NULL, &batch));
        check_row(batch, id, with_priorities);
        gpur_batch_release(batch);
    }
}

static void open_all(const char *name)
{
    gpur_policy_config config;
    CHECK_OK(apex_fixture_settings(name, &settings));
    CHECK_OK(gpur_device_open("cpu", NULL, &device));
    CHECK_OK(gpur_replay_create(device, &settings.replay, &replay));
    CHECK_OK(gpur_writer_create(replay, 1, &writer));
    CHECK_OK(gpur_block_format_create(&settings.replay, &format));
    CHECK_OK(gpur_policy_config_init(&config, sizeof config));
    config.network = settings.learner.network;
    config.obs = settings.fields[0];
    const gpur_u32x4 bits = gpur_random_bits(3, GPUR_RANDOM_APEX_ACTOR, 2, 1);
    config.seed = (uint64_t)bits.v[3] << 32 | bits.v[2];
    CHECK_OK(gpur_policy_create(device, &config, &policy));
    const int64_t bytes = gpur_policy_weights_bytes(policy);
    version = 5;
    CHECK(bytes <= (int64_t)sizeof weights);
    CHECK_OK(gpur_policy_get_weights(policy, weights, bytes));
    memcpy(weights + 24, &version, sizeof version);
    CHECK_OK(gpur_shared_create(&shared, bytes));
    gpur_shared_broadcast(&shared, weights);
    blocks = rows = episodes = 0;
}

static void close_all(void)
{
    gpur_policy_destroy(policy);
    gpur_block_format_destroy(format);
    gpur_writer_destroy(writer);
    gpur_replay_destroy(replay);
    gpur_device_close(device);
    gpur_shared_close(&shared);
}

static gpur_actor_evaluation evaluations[2];
static int64_t evaluated;

/* The first one is followed by another, and the second by the end. */
static gpur_status take_evaluation(void *context, const gpur_actor_evaluation *evaluation)
{
    const gpur_actor_settings *const s = context;
    gpur_actor_counts *const counts = gpur_shared_counts(&shared, s->actor);
    evaluations[evaluated] = *evaluation;
    atomic_store(&counts->eval_episodes, 2);
    if (++evaluated < 2)
        atomic_store(&counts->evaluation, 8);
    else
        atomic_store(&counts->is_asked, 1);
    return GPUR_OK;
}

static gpur_status act(gpur_actor_settings *s)
{
    const gpur_actor_transport transport = {s, take_block, take_episode, pull, take_evaluation, NULL};
    const gpur_actor_context context = {settings.run.type,
                                        settings.run.env_options,
                                        device,
                                        format,
                                        {sizeof(gpur_apex_networks), &settings.learner.network, NULL, 0, 0},
                                        gpur_shared_counts(&shared, s->actor),
                                        &shared};
    pulled = 0;
    return gpur_actor_run(&context, s, &transport);
}

static gpur_actor_settings settings_of_actor(void)
{
    return (gpur_actor_settings){.actor = 1,
                                 .epsilon = 0.5f,
                                 .incarnation = 2,
                                 .seed = 3,
                                 .pull_period = 7,
                                 .block_rows = 16,
                                 .initial_priorities = 1};
}

/* The last transitions of an actor that was asked to end have no Q(s'), so they are not compared. */
static void check_actor(const char *name, int64_t max_episode_steps, int32_t initial_priorities)
{
    gpur_actor_settings s = settings_of_actor();
    s.max_episode_steps = max_episode_steps;
    s.initial_priorities = initial_priorities;
    open_all(name);
    CHECK_OK(act(&s));
    const int64_t steps = atomic_load(&gpur_shared_counts(&shared, 1)->steps);
    CHECK(rows == steps && steps < MAX_STEPS && steps >= BLOCKS * s.block_rows);
    CHECK_EQUAL(atomic_load(&gpur_shared_counts(&shared, 1)->blocks), blocks);
    CHECK_EQUAL(atomic_load(&gpur_shared_counts(&shared, 1)->pulls), 1);
    CHECK_OK(play(&s, steps));
    check_rows(steps - settings.replay.n_step - 1, initial_priorities);
    CHECK(episodes > 3);
    close_all();
}

TEST(transitions_and_priorities_are_those_of_their_definition)
{
    check_actor("numbers", 0, 1);
    check_actor("numbers:lives", 0, 1);
}

TEST(long_episodes_are_cut_off_and_bootstrap_from_their_last_observation)
{
    check_actor("numbers:endless=0", 11, 1);
    check_actor("numbers:endless=100", 2, 1);
    check_actor("numbers:lives", 5, 1);
}

TEST(without_initial_priorities_the_field_has_none)
{
    check_actor("numbers", 0, 0);
}

/* Blocks say by which weights they were acted, and this file's take_block compares. */
TEST(an_actor_that_waits_takes_the_newest_weights_after_each_block)
{
    for (int waits = 0; waits < 2; waits++) {
        gpur_actor_settings s = settings_of_actor();
        s.waits = waits;
        s.pull_period = 100000;
        open_all("numbers");
        publishes = 1;
        CHECK_OK(act(&s));
        CHECK_EQUAL(atomic_load(&gpur_shared_counts(&shared, 1)->pulls), waits ? BLOCKS : 1);
        publishes = 0;
        close_all();
    }
}

/* The number of the incarnation, as each other part of the key, changes what an actor does. */
TEST(actors_and_incarnations_act_differently)
{
    static happened first[50];
    gpur_actor_settings s = settings_of_actor();
    open_all("numbers");
    CHECK_OK(play(&s, 50));
    memcpy(first, history, sizeof first);
    CHECK_OK(play(&s, 50));
    CHECK(memcmp(first, history, sizeof first) == 0);
    s.incarnation++;
    CHECK_OK(play(&s, 50));
    CHECK(memcmp(first, history, sizeof first) != 0);
    close_all();
}

/* Games have 1 to 9 steps, as the fixture's environment says; its motor breaks with the 300th step of one of them. */
TEST(an_actor_that_evaluates_sends_results_alone)
{
    gpur_actor_settings s = settings_of_actor();
    open_all("numbers:fail=300");
    gpur_actor_counts *const counts = gpur_shared_counts(&shared, GPUR_APEX_EVALUATOR);
    s.actor = GPUR_APEX_EVALUATOR;
    s.eval_envs = 4;
    gpur_shared_set_evaluated(&shared, weights, gpur_policy_weights_bytes(policy));
    atomic_store(&counts->eval_episodes, 6);
    atomic_store(&counts->evaluation, 7);
    CHECK_OK(act(&s));
    CHECK(blocks == 0 && episodes == 0 && evaluated == 2);
    CHECK(evaluations[0].number == 7 && evaluations[0].episodes == 6 && evaluations[0].length >= 6);
    CHECK(evaluations[1].number == 8 && evaluations[1].episodes == 2 && evaluations[1].length >= 2);
    CHECK_EQUAL(atomic_load(&counts->steps), evaluations[0].length + evaluations[1].length);
    atomic_store(&counts->is_asked, 0);
    atomic_store(&counts->eval_episodes, 1000);
    atomic_store(&counts->evaluation, 9);
    CHECK_FAILS(act(&s), GPUR_INVALID_ARGUMENT, "the motor is broken");
    close_all();
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(transitions_and_priorities_are_those_of_their_definition);
    RUN(long_episodes_are_cut_off_and_bootstrap_from_their_last_observation);
    RUN(without_initial_priorities_the_field_has_none);
    RUN(an_actor_that_waits_takes_the_newest_weights_after_each_block);
    RUN(actors_and_incarnations_act_differently);
    RUN(an_actor_that_evaluates_sends_results_alone);
    return test_main_end();
}
