/* SPDX-License-Identifier: MIT */
/* Runs: the same bits whatever the timing of threads, what they do against a run written out step by step, and errors.
 * Threads are made by pthread_create in the library. */
#include "support/run_fixture.h"

#include "kernels/lib/random.h"
#include "learn/dqn/dqn.h"
#include "run/fast_dqn/handle.h"
#include "run/single_env.h"
#include "support/learner_fixture.h"
#include "support/run_envs.h"
#include "test.h"

#include <math.h>
#include <pthread.h>
#include <time.h>

enum { STEPS = 240 };

static run_fixture fixture;

typedef struct variant {
    int32_t num_envs, concurrent, synchronized;
} variant;

/* The 14 of the paper's table 3. */
static const variant variants[] = {{1, 0, 0}, {2, 0, 0}, {4, 0, 0}, {8, 0, 0}, {1, 1, 0}, {2, 1, 0}, {4, 1, 0},
                                   {8, 1, 0}, {2, 0, 1}, {4, 0, 1}, {8, 0, 1}, {2, 1, 1}, {4, 1, 1}, {8, 1, 1}};
enum { VARIANTS = sizeof variants / sizeof *variants };

static const gpur_vector_env_type *vector; /* of the runs that are opened; NULL: environments of their own */

static gpur_status open_run(const run_settings *config)
{
    const gpur_device_config device = test_device_config();
    return run_fixture_open(&fixture, &device, test_device_name(), config, vector);
}

static void check_hashes(const char *what, run_hashes got, run_hashes want)
{
    TEST_REQUIRE(run_hashes_agree(got, want),
                 "%s: events, replay and weights are %llx, %llx, %llx; wanted %llx, %llx, %llx", what,
                 (unsigned long long)got.events, (unsigned long long)got.replay, (unsigned long long)got.weights,
                 (unsigned long long)want.events, (unsigned long long)want.replay, (unsigned long long)want.weights);
}

/* A run of STEPS steps in calls of these sizes, under a schedule of delays. */
static run_hashes hashes_of(const run_settings *config, uint64_t schedule, int64_t slice)
{
    run_hashes hashes = {0};
    gpur_status status = open_run(config);
    if (status == GPUR_OK)
        run_fixture_delay(&fixture, schedule);
    for (int64_t done = 0; status == GPUR_OK && done < STEPS; done += slice)
        status = gpur_run_advance(fixture.run, slice, 0);
    if (status == GPUR_OK)
        status = gpur_run_evaluate(fixture.run, 0, 0, NULL);
    if (status == GPUR_OK && fixture.episodes > 5 && fixture.evaluations == 3)
        hashes = run_fixture_hashes(&fixture);
    else
        fprintf(stderr, "%s; %d episodes, %d evaluations\n", gpur_last_error(), (int)fixture.episodes,
                (int)fixture.evaluations);
    run_fixture_close(&fixture);
    return hashes;
}

/* Where the device's work has a thread of its own, each variant has one of the three schedules, by turns. */
static void check_variant(const run_settings *config)
{
    static uint64_t variants_so_far;
    char what[96];
    const uint64_t turn = variants_so_far++ % 3 + 1;
    const run_hashes want = hashes_of(config, 0, STEPS);
    CHECK(want.replay != 0);
    for (uint64_t schedule = 1; schedule <= 3; schedule++) {
        if (test_executor() == GPUR_EXECUTOR_THREAD && !test_is_long() && schedule != turn)
            continue;
        snprintf(what, sizeof what, "W %d, concurrent %d, synchronized %d, schedule %d", (int)config->run.num_envs,
                 (int)config->run.concurrent, (int)config->run.synchronized, (int)schedule);
        check_hashes(what, hashes_of(config, schedule, schedule > 1 ? STEPS : vector ? 40 : 30), want);
    }
}

TEST(every_variant_gives_the_same_bits_under_delays)
{
    for (int v = 0; v < VARIANTS; v++) {
        const run_settings config =
            run_fixture_config(variants[v].num_envs, variants[v].concurrent, variants[v].synchronized);
        check_variant(&config);
    }
}

TEST(frames_lives_whole_episodes_and_fewer_threads_give_the_same_bits)
{
    run_settings config = run_fixture_config(4, 1, 1);
    config.all.env_options = "frames,lives";
    check_variant(&config);
    config = run_fixture_config(8, 1, 0);
    config.run.whole_episodes = 1;
    config.run.threads = 3;
    check_variant(&config);
    config = run_fixture_config(4, 0, 1);
    config.run.act = GPUR_ACT_TARGET;
    check_variant(&config);
}

/* A burst, and each order of work with a cache of returns. */
static const variant with_cache[] = {{1, 0, 0}, {4, 0, 1}, {3, 1, 0}, {4, 1, 1}};

static run_settings config_with_cache(const variant *v, int burst)
{
    run_settings config = run_fixture_config(v->num_envs, v->concurrent, v->synchronized);
    config.run.burst = burst;
    config.all.env_options = "cache";
    return config;
}

TEST(bursts_and_caches_give_the_same_bits_under_delays)
{
    for (size_t v = 0; v < sizeof with_cache / sizeof *with_cache; v++) {
        run_settings config = config_with_cache(&with_cache[v], !with_cache[v].concurrent);
        check_variant(&config);
        config.all.env_options = config.run.burst ? NULL : config.all.env_options, config.run.concurrent = 0;
        if (v % 3 == 0)
            check_variant(&config); /* a burst without a cache; a cache without bursts */
    }
    run_settings config = config_with_cache(&with_cache[1], 1);
    config.all.env_options = "frames,lives,cache";
    check_variant(&config);
}

/*
 * Algorithm 1 and the variants written out in one thread, with the library's learner, replay and writers, and without
 * its runs: what a run of the fixture's environment must leave behind.
 */
typedef struct oracle {
    run_settings config;
    void *env[8];
    float obs[8][RUN_FEATURES];
    int has_vectors;
    uint64_t steps[8];
    int awaits_reset[8]; /* in GPUR_AUTORESET_NEXT_STEP */
    gpur_writer *writer[8];
    gpur_policy *policy;
    int ended;
    struct logged {
        float obs[RUN_FEATURES];
        int32_t action;
        float vector[RUN_NUMBERS];
        gpur_env_result result;
        int is_reset;
    } log[8][400];
    int32_t logged[8];
} oracle;

static int32_t random_action(const oracle *o, int lane, uint64_t step, float epsilon)
{
    const gpur_u32x4 bits = gpur_random_bits(o->config.all.seed, GPUR_RANDOM_RUN_EXPLORE, step, (uint32_t)lane);
    return gpur_random_uniform(bits.v[2]) < epsilon ? (int32_t)gpur_random_below(bits, RUN_ACTIONS) : -1;
}

static void note(oracle *o, int lane, const struct logged *entry)
{
    o->log[lane][o->logged[lane]++] = *entry;
}

static void oracle_reset(oracle *o, int lane)
{
    struct logged entry = {.is_reset = 1};
    run_fixture_env.reset(o->env[lane], o->obs[lane]);
    memcpy(entry.obs, o->obs[lane], sizeof entry.obs);
    note(o, lane, &entry);
}

/* Each component is uniform over [-1, 1). */
static void random_vector(const oracle *o, int lane, float numbers[RUN_NUMBERS])
{
    const gpur_u32x4 bits =
        gpur_random_bits(o->config.all.seed, GPUR_RANDOM_RUN_EXPLORE, o->steps[lane], (uint32_t)lane);
    for (int k = 0; k < RUN_NUMBERS; k++)
        numbers[k] = -1.0f + 2.0f * gpur_random_uniform(bits.v[k]);
}

/* `vector`: the action of an environment that takes vectors. */
static void oracle_step(oracle *o, int lane, int32_t action, const float vector_action[RUN_NUMBERS])
{
    struct logged entry = {.action = action};
    float scaled[RUN_NUMBERS];
    for (int k = 0; o->has_vectors && k < RUN_NUMBERS; k++) {
        const double low = (double)run_fixture_lows[k], high = (double)run_fixture_highs[k];
        entry.vector[k] = vector_action[k];
        scaled[k] = (float)(low + (high - low) * ((double)vector_action[k] + 1.0) / 2.0);
    }
    o->ended = 0;
    if (o->awaits_reset[lane]) {
        o->awaits_reset[lane] = 0;
        oracle_reset(o, lane);
        return;
    }
    o->steps[lane]++;
    const char *const error = run_fixture_env.step(o->env[lane], o->has_vectors ? (const void *)scaled : &action,
                                                   o->obs[lane], &entry.result);
    CHECK(!error);
    memcpy(entry.obs, o->obs[lane], sizeof entry.obs);
    note(o, lane, &entry);
    o->ended = entry.result.terminated || entry.result.truncated;
    if (o->ended && vector == &run_fixture_next_step)
        o->awaits_reset[lane] = 1;
    else if (o->ended)
        oracle_reset(o, lane);
}

static void oracle_prepopulate(oracle *o)
{
    const int32_t lanes = vector ? o->config.run.num_envs : 1;
    int ended = 0;
    for (int64_t i = 0; i < o->config.run.prepopulation || !ended;) {
        ended = 0;
        for (int lane = 0; lane < lanes; lane++) {
            i += !o->awaits_reset[lane];
            float random[RUN_NUMBERS];
            random_vector(o, lane, random);
            oracle_step(o, lane, random_action(o, lane, o->steps[lane], 1.0f), random);
            ended |= o->ended;
        }
    }
}

/* With whole episodes those that have ended, which is seen when the next one begins. */
static int32_t count_ready(const oracle *o, int lane)
{
    int32_t ready = o->logged[lane];
    if (o->config.run.whole_episodes)
        while (ready > 0 && !o->log[lane][--ready].is_reset)
            ;
    return ready;
}

static gpur_status oracle_publish(oracle *o)
{
    for (int lane = 0; lane < o->config.run.num_envs; lane++) {
        const int32_t ready = count_ready(o, lane);
        for (int i = 0; i < ready; i++) {
            const struct logged *const e = &o->log[lane][i];
            const int64_t action = e->action;
            const gpur_status status =
                e->is_reset ? gpur_writer_reset(o->writer[lane], 0, e->obs)
                            : gpur_writer_step(o->writer[lane], o->has_vectors ? (const void *)e->vector : &action,
                                               &e->result.reward, e->obs, &e->result.terminated, &e->result.truncated);
            if (status != GPUR_OK)
                return status;
        }
        o->logged[lane] -= ready;
        memmove(o->log[lane], o->log[lane] + ready, (size_t)o->logged[lane] * sizeof *o->log[lane]);
    }
    return GPUR_OK;
}

static gpur_status oracle_act(oracle *o, int64_t count, const float *obs, int32_t *actions)
{
    const gpur_policy_input input = {.size = sizeof input, .count = count, .obs = obs};
    const gpur_policy_output output = {.size = sizeof output, .actions = actions};
    return gpur_policy_act(o->policy, &input, &output);
}

/* Vectors of `count` lanes from `first` on, with noise. */
static gpur_status oracle_act_by_vectors(oracle *o, int first, int64_t count, float vectors[][RUN_NUMBERS])
{
    float sigmas[8];
    uint32_t lanes[8];
    for (int i = 0; i < count; i++)
        sigmas[i] = o->config.run.sigma, lanes[i] = (uint32_t)(first + i);
    const gpur_policy_input input = {.size = sizeof input,
                                     .count = count,
                                     .obs = o->obs[first],
                                     .sigma = sigmas,
                                     .lane = lanes,
                                     .step = o->steps + first};
    const gpur_policy_output output = {.size = sizeof output, .action_vectors = vectors[0]};
    return gpur_policy_act(o->policy, &input, &output);
}

static gpur_status oracle_run(oracle *o, gpur_learner *learner)
{
    const run_settings *const c = &o->config;
    const int has_cache = !o->has_vectors && gpur_dqn_of(learner)->config.returns.cache_size > 0;
    const int is_target = !o->has_vectors && ((c->run.concurrent && !has_cache) || c->run.act == GPUR_ACT_TARGET);
    const int64_t of_period = c->run.target_period / c->run.train_period * c->run.train_steps;
    int32_t greedy[8];
    float vectors[8][RUN_NUMBERS] = {{0}};
    gpur_status status = GPUR_OK;
    for (int lane = 0; lane < c->run.num_envs; lane++)
        oracle_reset(o, lane);
    oracle_prepopulate(o);
    status = oracle_publish(o);
    for (int64_t t = 1; t <= STEPS && status == GPUR_OK; t++) {
        const int lane = (int)((t - 1) % c->run.num_envs);
        const int begins = (t - 1) % c->run.target_period == 0;
        const int trains = c->run.burst ? begins : !c->run.concurrent && (t - 1) % c->run.train_period == 0;
        const int64_t steps = c->run.burst ? of_period : c->run.train_steps;
        if (begins || trains)
            status = oracle_publish(o);
        if (begins && (is_target || c->run.concurrent) && status == GPUR_OK)
            status = gpur_policy_pull(o->policy, learner, is_target ? GPUR_WEIGHTS_TARGET : GPUR_WEIGHTS_ONLINE);
        if (begins && has_cache && status == GPUR_OK)
            status = gpur_learner_refresh(learner);
        if (begins && c->run.concurrent && status == GPUR_OK)
            status = gpur_learner_train(learner, of_period);
        if (trains && status == GPUR_OK)
            status = gpur_learner_train(learner, steps);
        if (trains && !is_target && status == GPUR_OK)
            status = gpur_policy_pull(o->policy, learner, GPUR_WEIGHTS_ONLINE);
        if (c->run.synchronized && lane == 0 && status == GPUR_OK)
            status = o->has_vectors ? oracle_act_by_vectors(o, 0, c->run.num_envs, vectors)
                                    : oracle_act(o, c->run.num_envs, o->obs[0], greedy);
        if (o->has_vectors && !c->run.synchronized && status == GPUR_OK)
            status = oracle_act_by_vectors(o, lane, 1, &vectors[lane]);
        int32_t action = o->has_vectors ? 0 : random_action(o, lane, o->steps[lane], gpur_learner_epsilon(learner, t));
        if (action < 0 && c->run.synchronized)
            action = greedy[lane];
        else if (action < 0 && status == GPUR_OK)
            status = oracle_act(o, 1, o->obs[lane], &action);
        if (status == GPUR_OK)
            oracle_step(o, lane, action, vectors[lane]);
    }
    return status == GPUR_OK ? oracle_publish(o) : status;
}

static gpur_status oracle_open(oracle *o, const run_settings *config, run_fixture *f)
{
    gpur_env_info info = {.size = sizeof info};
    gpur_policy_config policy;
    memset(o, 0, sizeof *o);
    o->config = *config;
    o->has_vectors = config->all.env_options && strstr(config->all.env_options, "vectors");
    for (int lane = 0; lane < config->run.num_envs; lane++) {
        run_fixture_env.init(o->has_vectors ? "vectors" : "", gpur_run_env_seed(config->all.seed, lane, 0), &info,
                             &o->env[lane]);
        const gpur_status status = gpur_writer_create(f->replay, 1, &o->writer[lane]);
        if (status != GPUR_OK)
            return status;
    }
    (void)gpur_policy_config_init(&policy, sizeof policy);
    policy.network = *f->learner->networks[0].config;
    policy.seed = config->all.seed;
    policy.obs = (gpur_field){"obs", GPUR_FLOAT32, {RUN_FEATURES}};
    return gpur_policy_create(f->device, &policy, &o->policy);
}

static void oracle_close(oracle *o)
{
    for (int lane = 0; lane < o->config.run.num_envs; lane++) {
        gpur_writer_destroy(o->writer[lane]);
        run_fixture_env.close(o->env[lane]);
    }
    gpur_policy_destroy(o->policy);
}

/* The hashes of replay and weights after the oracle's run. */
static run_hashes oracle_hashes(const run_settings *config)
{
    static oracle o;
    run_hashes hashes = {0};
    gpur_status status = open_run(config);
    gpur_run_destroy(fixture.run);
    fixture.run = NULL;
    if (status == GPUR_OK)
        status = oracle_open(&o, config, &fixture);
    if (status == GPUR_OK)
        status = oracle_run(&o, fixture.learner);
    if (status == GPUR_OK)
        hashes = run_fixture_hashes(&fixture);
    else
        fprintf(stderr, "%s\n", gpur_last_error());
    oracle_close(&o);
    run_fixture_close(&fixture);
    return hashes;
}

/* The hashes after a run, with all of its steps published. */
static run_hashes run_to_end(const run_settings *config)
{
    run_hashes hashes = {0};
    if (open_run(config) == GPUR_OK && gpur_run_advance(fixture.run, STEPS, 0) == GPUR_OK &&
        gpur_fast_dqn_flush(gpur_fast_dqn_of(fixture.run)) == GPUR_OK)
        hashes = run_fixture_hashes(&fixture);
    run_fixture_close(&fixture);
    return hashes;
}

static void check_against_algorithm(const run_settings *config)
{
    const run_hashes want = oracle_hashes(config), got = run_to_end(config);
    CHECK(want.replay != 0);
    TEST_REQUIRE(got.replay == want.replay && got.weights == want.weights,
                 "W %d, concurrent %d, synchronized %d, burst %d, act %d, whole_episodes %d, autoreset %d, options "
                 "\"%s\": replay and weights differ from those of the algorithm",
                 (int)config->run.num_envs, (int)config->run.concurrent, (int)config->run.synchronized,
                 (int)config->run.burst, (int)config->run.act, (int)config->run.whole_episodes,
                 vector ? (int)vector->autoreset : -1, config->all.env_options ? config->all.env_options : "");
}

TEST(runs_do_what_the_algorithm_written_out_does)
{
    for (int v = 0; v < VARIANTS; v++)
        for (int32_t act = GPUR_ACT_LATEST; act <= GPUR_ACT_TARGET; act += 2) {
            run_settings config =
                run_fixture_config(variants[v].num_envs, variants[v].concurrent, variants[v].synchronized);
            config.run.act = act;
            check_against_algorithm(&config);
            config.run.whole_episodes = 1;
            check_against_algorithm(&config);
        }
}

TEST(bursts_and_caches_do_what_the_algorithm_written_out_does)
{
    for (size_t v = 0; v < sizeof with_cache / sizeof *with_cache; v++)
        for (int burst = 0; burst <= !with_cache[v].concurrent; burst++) {
            run_settings config = config_with_cache(&with_cache[v], burst);
            check_against_algorithm(&config);
            config.run.whole_episodes = 1;
            check_against_algorithm(&config);
            config.all.env_options = NULL;
            check_against_algorithm(&config);
        }
}

/* Continuous actions, and several train steps at a time. A run of each variant, under delays and by the algorithm. */
TEST(runs_by_action_vectors_do_what_the_algorithm_written_out_does)
{
    for (int v = 0; v < VARIANTS; v++) {
        run_settings config =
            run_fixture_config(variants[v].num_envs, variants[v].concurrent, variants[v].synchronized);
        config.all.env_options = "vectors";
        config.run.train_steps = v % 3 + 1;
        config.run.whole_episodes = v % 2;
        check_against_algorithm(&config);
        if (v % 4 == 1 || test_is_long())
            check_variant(&config);
    }
    run_settings config = run_fixture_config(4, 0, 1);
    config.all.env_options = "vectors", config.run.sigma = 0.4f;
    vector = &run_fixture_next_step;
    check_against_algorithm(&config);
    vector = &run_fixture_same_step;
    check_against_algorithm(&config);
    vector = NULL;
}

TEST(several_train_steps_at_a_time_do_what_the_algorithm_written_out_does)
{
    for (int v = 0; v < VARIANTS; v += 3) {
        run_settings config =
            run_fixture_config(variants[v].num_envs, variants[v].concurrent, variants[v].synchronized);
        config.run.train_steps = 3;
        check_against_algorithm(&config);
        config.run.burst = !config.run.concurrent;
        check_against_algorithm(&config);
    }
}

/* With concurrent training, and with bursts, it may be wider than the train period. */
TEST(a_vector_environment_does_what_its_environments_do)
{
    static const struct {
        int num_envs, concurrent, burst;
    } orders[] = {{4, 0, 0}, {8, 1, 0}, {8, 0, 1}};
    static const gpur_vector_env_type *const types[] = {&run_fixture_same_step, &run_fixture_next_step};
    for (int i = 0; i < 2; i++)
        for (size_t k = 0; k < sizeof orders / sizeof *orders; k++) {
            run_settings config = run_fixture_config(orders[k].num_envs, orders[k].concurrent, 1);
            config.run.burst = orders[k].burst;
            vector = types[i];
            check_variant(&config);
            check_against_algorithm(&config);
            config.run.whole_episodes = 1,
            config.run.prepopulation = 200; /* of all lanes: most are in the middle of one */
            check_against_algorithm(&config);
            vector = NULL;
        }
}

TEST(a_vector_of_one_shows_what_its_environment_does)
{
    static const gpur_vector_env_type *const types[] = {&run_fixture_same_step, &run_fixture_next_step};
    for (int i = 0; i < 2; i++) {
        gpur_env_info info;
        void *vector_env = NULL, *env = NULL;
        unsigned char got[RUN_FRAME] = {0}, want[RUN_FRAME] = {0};
        int ends = 0;
        CHECK(!gpur_single_env_init(types[i], "frames,lives", 0, &info, &vector_env));
        CHECK(!run_fixture_env.init("frames,lives", 0, &info, &env));
        CHECK(!gpur_single_env.reset(vector_env, got) && !run_fixture_env.reset(env, want));
        for (int32_t n = 0; n < 200; n++) {
            gpur_env_result one = {0}, other = {0};
            const int32_t action = n % RUN_ACTIONS;
            CHECK(!gpur_single_env.step(vector_env, &action, got, &one));
            CHECK(!run_fixture_env.step(env, &action, want, &other));
            CHECK(memcmp(&one, &other, sizeof one) == 0 && memcmp(got, want, sizeof got) == 0);
            if (one.terminated || one.truncated) {
                CHECK(!gpur_single_env.reset(vector_env, got) && !run_fixture_env.reset(env, want));
                CHECK(memcmp(got, want, sizeof got) == 0);
                ends++;
            }
        }
        CHECK(ends > 5);
        gpur_single_env.close(vector_env);
        run_fixture_env.close(env);
    }
}

typedef struct evaluations {
    int count;
    double mean[8], deviation[8];
    int64_t length[8];
} evaluations;

static void note_evaluation(void *user, const gpur_run_event *event)
{
    evaluations *const e = user;
    if (event->kind != GPUR_RUN_EVALUATION || e->count == 8)
        return;
    e->mean[e->count] = event->mean_return;
    e->deviation[e->count] = event->return_deviation;
    e->length[e->count++] = event->length;
}

static void evaluate_in(const gpur_vector_env_type *lanes, const gpur_env_type *eval_type, evaluations *found)
{
    run_settings config = run_fixture_config(4, 1, 1);
    *found = (evaluations){0};
    config.all.env_options = "frames,lives";
    CHECK_OK(open_run(&config));
    gpur_run_destroy(fixture.run);
    config.all.on_event = note_evaluation;
    config.all.user = found;
    config.all.eval_episodes = 10;
    CHECK_OK(run_fixture_create(fixture.learner, eval_type, lanes, &config, &fixture.run));
    CHECK_OK(gpur_run_advance(fixture.run, STEPS, 0));
    CHECK_OK(gpur_run_evaluate(fixture.run, 0, 0, NULL));
    run_fixture_close(&fixture);
}

TEST(without_a_type_for_it_an_evaluation_acts_in_a_vector_of_one)
{
    static const gpur_vector_env_type *const types[] = {&run_fixture_same_step, &run_fixture_next_step};
    evaluations want, got;
    for (int i = 0; i < 2; i++) {
        evaluate_in(types[i], &run_fixture_env, &want);
        evaluate_in(types[i], NULL, &got);
        CHECK(want.count > 1 && want.length[0] > 20 && memcmp(&got, &want, sizeof want) == 0);
    }
}

/* The stacks of which the actions of steps 1, 2, ... were inferred. */
enum { STACK_BYTES = RUN_STACK * RUN_FRAME };
static unsigned char seen[STEPS][STACK_BYTES];
static int64_t seen_count;

static gpur_status record(gpur_policy *policy, int64_t count, const unsigned char *obs, int32_t *actions)
{
    (void)policy;
    for (int64_t i = 0; i < count && seen_count < STEPS; i++, seen_count++) {
        memcpy(seen[seen_count], obs + i * STACK_BYTES, STACK_BYTES);
        actions[i] = 1;
    }
    return GPUR_OK;
}

static gpur_status no_copy(gpur_policy *policy, gpur_learner *learner, int32_t weights)
{
    (void)policy, (void)learner, (void)weights;
    return GPUR_OK;
}

static gpur_status no_refresh(gpur_learner *learner)
{
    (void)learner;
    return gpur_fail(GPUR_DEVICE_ERROR, "the refresh failed");
}

static gpur_status no_training(gpur_learner *learner, int64_t steps)
{
    (void)learner, (void)steps;
    return GPUR_OK;
}

/* Without concurrent training and with F = W, the steps are flushed in their order. */
static void check_stacks(const char *options)
{
    static const gpur_fast_dqn_work work = {.infer = record, .pull = no_copy, .train = no_training};
    run_settings config = run_fixture_config(4, 0, 1);
    gpur_replay_stats before = {.size = sizeof before};
    unsigned char obs[STACK_BYTES];
    config.all.env_options = options;
    config.all.eval_period = 0, config.all.eval_episodes = 0;
    CHECK_OK(open_run(&config));
    gpur_fast_dqn_of(fixture.run)->work = work;
    CHECK_OK(gpur_run_advance(fixture.run, 0, 0));
    CHECK_OK(gpur_replay_get_stats(fixture.replay, &before));
    seen_count = 0;
    CHECK_OK(gpur_run_advance(fixture.run, 144, 0));
    CHECK_EQUAL(seen_count, 144);
    for (int64_t i = 0; i < seen_count; i++) {
        const int64_t id = before.appended + i;
        gpur_batch *batch = NULL;
        CHECK_OK(gpur_replay_gather(fixture.replay, 1, &id, NULL, &batch));
        CHECK_OK(gpur_batch_read(batch, "obs", obs, sizeof obs));
        gpur_batch_release(batch);
        TEST_REQUIRE(memcmp(obs, seen[i], sizeof obs) == 0, "%s: the stack of step %d is not the replay's", options,
                     (int)i + 1);
    }
    run_fixture_close(&fixture);
}

TEST(stacks_are_acted_on_as_the_replay_rebuilds_them)
{
    check_stacks("frames");
    check_stacks("frames,last");
    check_stacks("frames,repeat");
    check_stacks("frames,last,repeat");
    check_stacks("frames,lives");
    check_stacks("frames,lives,repeat");
}

/* An environment fails in its step 66, which is one of the run. Returns the number of the run's step, if each of its
 * steps is one of all lanes, or one of lane 0. */
static int64_t failing_step(run_settings *config)
{
    config->all.env_options = "fail=65";
    config->all.eval_period = 0, config->all.eval_episodes = 0;
    config->run.prepopulation = 50;
    return open_run(config) == GPUR_OK && gpur_run_advance(fixture.run, 0, 0) == GPUR_OK
               ? 1 + (65 - (int64_t)gpur_fast_dqn_of(fixture.run)->slots[0].steps) * config->run.num_envs
               : -1;
}

TEST(an_error_of_an_environment_ends_the_run_and_names_the_lane)
{
    run_settings config = run_fixture_config(4, 1, 1);
    char message[96];
    config.all.env_options = "fail=20";
    config.all.eval_period = 0, config.all.eval_episodes = 0;
    config.run.prepopulation = 50;
    CHECK_OK(open_run(&config));
    CHECK_FAILS(gpur_run_advance(fixture.run, STEPS, 0), GPUR_INVALID_ARGUMENT,
                "a random step before training: environment 0, step -29: the motor is broken");
    CHECK_FAILS(gpur_run_advance(fixture.run, 1, 0), GPUR_INVALID_ARGUMENT, "the run has ended");
    run_fixture_close(&fixture);
    int64_t step = failing_step(&config);
    CHECK(step > 0);
    snprintf(message, sizeof message, "environment 0, step %d: the motor is broken", (int)step);
    CHECK_FAILS(gpur_run_advance(fixture.run, 1000, 0), GPUR_INVALID_ARGUMENT, message);
    CHECK_OK(gpur_learner_train(fixture.learner, 1)); /* the learner stays usable */
    run_fixture_close(&fixture);
    vector = &run_fixture_same_step;
    step = failing_step(&config);
    vector = NULL;
    CHECK(step > 0);
    snprintf(message, sizeof message, "vector of hashes, steps %d to %d: the motor is broken", (int)step,
             (int)step + 3);
    CHECK_FAILS(gpur_run_advance(fixture.run, 1000, 0), GPUR_INVALID_ARGUMENT, message);
    run_fixture_close(&fixture);
}

/* Work of which only the inferences of one observation fail. */
static gpur_status no_inference(gpur_policy *policy, int64_t count, const unsigned char *obs, int32_t *actions)
{
    (void)policy, (void)count, (void)obs, (void)actions;
    return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for the layers");
}

TEST(an_error_of_an_inference_in_a_lanes_thread_names_the_lane)
{
    static const gpur_fast_dqn_work work = {.infer = no_inference, .pull = no_copy, .train = no_training};
    run_settings config = run_fixture_config(4, 1, 0);
    config.all.eval_period = 0, config.all.eval_episodes = 0;
    CHECK_OK(open_run(&config));
    gpur_fast_dqn_of(fixture.run)->work = work;
    CHECK_FAILS(gpur_run_advance(fixture.run, STEPS, 0), GPUR_OUT_OF_MEMORY, ": no memory for the layers");
    CHECK(strncmp(gpur_last_error(), "environment ", 12) == 0 && strstr(gpur_last_error(), ", step "));
    run_fixture_close(&fixture);
}

TEST(an_error_of_a_refresh_ends_the_run)
{
    static const gpur_fast_dqn_work work = {
        .infer = record, .pull = no_copy, .train = no_training, .refresh = no_refresh};
    run_settings config = config_with_cache(&with_cache[1], 1);
    config.all.eval_period = 0, config.all.eval_episodes = 0;
    CHECK_OK(open_run(&config));
    gpur_fast_dqn_of(fixture.run)->work = work;
    CHECK_FAILS(gpur_run_advance(fixture.run, STEPS, 0), GPUR_DEVICE_ERROR, "the refresh failed");
    CHECK_FAILS(gpur_run_advance(fixture.run, 1, 0), GPUR_INVALID_ARGUMENT, "the run has ended");
    run_fixture_close(&fixture);
}

static void sleep_in_training(void *context, gpur_run_phase part, int64_t step)
{
    const struct timespec time = {0, 100000000};
    (void)context, (void)step;
    if (part == GPUR_PHASE_TRAIN)
        nanosleep(&time, NULL);
}

static int64_t count_train_steps(void)
{
    gpur_run_stats stats = {.size = sizeof stats};
    return gpur_run_get_stats(fixture.run, &stats) == GPUR_OK ? stats.train_steps : -1;
}

TEST(after_an_error_no_thread_of_the_run_works)
{
    run_settings config = run_fixture_config(4, 1, 1);
    CHECK(failing_step(&config) > 0);
    gpur_fast_dqn_of(fixture.run)->delay = sleep_in_training;
    CHECK_FAILS(gpur_run_advance(fixture.run, 1000, 0), GPUR_INVALID_ARGUMENT, ": the motor is broken");
    const int64_t trained = count_train_steps();
    sleep_in_training(NULL, GPUR_PHASE_TRAIN, 0);
    sleep_in_training(NULL, GPUR_PHASE_TRAIN, 0);
    CHECK_EQUAL(count_train_steps(), trained);
    run_fixture_close(&fixture);
}

/* Standard DQN waits for its lanes every 4 steps, which half of them have none of. */
TEST(only_threads_that_have_a_step_are_woken)
{
    static const int64_t done[][2] = {{4, 0}, {4, 8}, {12, 8}}; /* as the first and the last four threads know */
    const run_settings config = run_fixture_config(8, 0, 0);
    CHECK_OK(open_run(&config));
    for (int time = 0; time < 3; time++) {
        CHECK_OK(gpur_run_advance(fixture.run, 4, 0));
        for (int i = 0; i < 8; i++)
            CHECK_EQUAL(gpur_fast_dqn_of(fixture.run)->env_threads[i].jobs.done, done[time][i / 4]);
    }
    run_fixture_close(&fixture);
}

static void *stop(void *context)
{
    const struct timespec time = {0, 20000000};
    nanosleep(&time, NULL);
    gpur_run_stop(context);
    return NULL;
}

TEST(a_run_can_be_stopped_from_any_thread)
{
    pthread_t thread;
    gpur_run_stats stats = {.size = sizeof stats};
    const run_settings config = run_fixture_config(4, 1, 0);
    CHECK_OK(open_run(&config));
    CHECK(pthread_create(&thread, NULL, stop, fixture.run) == 0);
    CHECK_FAILS(gpur_run_advance(fixture.run, INT64_C(1) << 40, 0), GPUR_INTERRUPTED, "the run was stopped after");
    pthread_join(thread, NULL);
    CHECK_OK(gpur_run_get_stats(fixture.run, &stats));
    CHECK(stats.episodes > 0 && fixture.episodes == stats.episodes); /* all have been told */
    run_fixture_close(&fixture);
    CHECK_OK(open_run(&config));
    gpur_run_stop(fixture.run);
    CHECK_FAILS(gpur_run_evaluate(fixture.run, 0, 0, NULL), GPUR_INTERRUPTED,
                "the run was stopped after 0 environment steps");
    CHECK_OK(gpur_run_get_stats(fixture.run, &stats));
    CHECK(fixture.evaluations == 0 && stats.evaluations == 0 && isnan(stats.evaluated_return));
    run_fixture_close(&fixture);
}

/* Stops the run when the evaluation has played an episode, whose time is counted. A later one has no end. */
static void *stop_in_evaluation(void *context)
{
    gpur_run_stats *const stats = context;
    const struct timespec time = {0, 1000000};
    for (int looks = 0; looks < 10000 && stats->eval_episode < 2; looks++) {
        nanosleep(&time, NULL);
        (void)gpur_run_get_stats(fixture.run, stats);
    }
    gpur_run_stop(fixture.run);
    return NULL;
}

TEST(an_evaluation_without_end_shows_its_episode_and_can_be_stopped)
{
    run_settings config = run_fixture_config(4, 1, 1);
    gpur_run_stats stats = {.size = sizeof stats};
    pthread_t thread;
    config.all.eval_period = 0, config.all.eval_episodes = 100, config.all.env_options = "endless=100";
    CHECK_OK(open_run(&config));
    CHECK(pthread_create(&thread, NULL, stop_in_evaluation, &stats) == 0);
    CHECK_FAILS(gpur_run_evaluate(fixture.run, 0, 0, NULL), GPUR_INTERRUPTED,
                "the run was stopped after 0 environment steps");
    pthread_join(thread, NULL);
    CHECK(stats.eval_episode > 1 && stats.eval_episode < 100 && stats.eval_seconds > 0.0);
    CHECK_OK(gpur_run_get_stats(fixture.run, &stats));
    CHECK(stats.eval_episode == 0 && stats.evaluations == 0 && fixture.evaluations == 0);
    run_fixture_close(&fixture);
}

/* An environment that loses a life with its third step after a reset, and never ends by itself. */
static const char *reset_life(void *env, void *obs)
{
    *(int32_t *)env = 0;
    *(float *)obs = 0.0f;
    return NULL;
}

static const char *step_life(void *env, const void *action, void *obs, gpur_env_result *result)
{
    int32_t *const steps = env;
    (void)action;
    ++*steps;
    *result = (gpur_env_result){.reward = 1.0f, .terminated = *steps == 3, .continues = *steps == 3};
    *(float *)obs = 0.0f;
    return NULL;
}

static void close_life(void *env)
{
    (void)env;
}

static gpur_status choose_nothing(void *context, int64_t count, const unsigned char *obs, const uint32_t *streams,
                                  const uint64_t *steps, int32_t greedy, void *actions)
{
    (void)context, (void)obs, (void)streams, (void)steps, (void)greedy;
    memset(actions, 0, (size_t)count * sizeof(int32_t));
    return GPUR_OK;
}

static int counts_down(void *context)
{
    int *const left = context;
    return (*left)-- == 0;
}

/* The games that were given up have lost a life: neither their steps, which max_steps limits, nor their rewards go into
 * the next evaluation. */
TEST(the_next_evaluation_has_nothing_of_the_games_that_were_given_up)
{
    static const gpur_env_type type = {
        .size = sizeof type, .name = "life", .reset = reset_life, .step = step_life, .close = close_life};
    const gpur_obs_shape shape = {.frame_bytes = 4, .element_bytes = 4, .dtype = GPUR_FLOAT32, .stack = 1};
    const gpur_env_info info = {.size = sizeof info, .max_steps = 5};
    gpur_evaluator e = {0};
    gpur_run_event event = {0};
    int32_t envs[2];
    int three = 3, enough = 100;
    CHECK_OK(gpur_evaluator_alloc(&e, 2, &type, sizeof(int32_t), 0));
    for (int i = 0; i < 2; i++)
        CHECK_OK(gpur_env_runner_take_env(&e.runners[i], &envs[i], &info));
    CHECK_OK(gpur_evaluator_open(&e, &shape, 1));
    gpur_evaluator_begin(&e, 2, 0);
    CHECK_OK(gpur_evaluator_play(&e, choose_nothing, &three, counts_down));
    CHECK(!gpur_evaluator_is_over(&e) && e.games[0].is_reset && e.games[1].is_reset && e.length == 6);
    gpur_evaluator_abandon(&e);
    gpur_evaluator_begin(&e, 2, 0);
    CHECK_OK(gpur_evaluator_play(&e, choose_nothing, &enough, counts_down));
    CHECK(gpur_evaluator_is_over(&e));
    gpur_evaluator_fill_event(&e, &event);
    CHECK(event.length == 10 && event.episodes == 2 && event.mean_return > 4.9 && event.mean_return < 5.1);
    gpur_evaluator_close(&e);
}

/* Stops the run in its fifth step, when eight are dispatched. */
static void stop_at_step_5(void *context, gpur_run_phase part, int64_t step)
{
    (void)context;
    if (part == GPUR_PHASE_ENV && step == 5)
        gpur_run_stop(fixture.run);
}

TEST(a_stopped_run_says_how_many_steps_it_took)
{
    run_settings config = run_fixture_config(8, 1, 1);
    config.run.threads = 1;
    CHECK_OK(open_run(&config));
    gpur_fast_dqn_of(fixture.run)->delay = stop_at_step_5;
    CHECK_FAILS(gpur_run_advance(fixture.run, 100, 0), GPUR_INTERRUPTED,
                "the run was stopped after 5 environment steps");
    run_fixture_close(&fixture);
}

/* Stops the run again and again while a task of it is carried out, as a hash of part and step says. */
static void stop_often(void *context, gpur_run_phase part, int64_t step)
{
    static _Atomic uint64_t calls;
    const uint64_t hash =
        (atomic_fetch_add(&calls, 1) * 31 + (uint64_t)part * 7 + (uint64_t)step) * 0x9e3779b97f4a7c15u;
    (void)context;
    if (hash >> 60 == 0)
        gpur_run_stop(fixture.run);
}

/* As hashes_of, with stops; each is followed by a call for the steps that are left. Evaluations that were paused go on,
 * and each episode is told once. */
static run_hashes hashes_with_stops(const run_settings *config, int *stops)
{
    run_hashes hashes = {0};
    gpur_run_stats stats = {.size = sizeof stats};
    gpur_status status = open_run(config);
    if (status == GPUR_OK)
        gpur_fast_dqn_of(fixture.run)->delay = stop_often;
    do {
        if (status == GPUR_OK)
            status = gpur_run_get_stats(fixture.run, &stats);
        if (status == GPUR_OK)
            status = gpur_run_advance(fixture.run, STEPS - stats.env_steps, 0);
        *stops += status == GPUR_INTERRUPTED;
        status = status == GPUR_INTERRUPTED ? GPUR_OK : status == GPUR_OK ? GPUR_TOO_FEW : status;
    } while (status == GPUR_OK);
    gpur_fast_dqn_of(fixture.run)->delay = NULL;
    while ((status = gpur_run_evaluate(fixture.run, 0, 0, NULL)) == GPUR_INTERRUPTED)
        ;
    (void)gpur_run_get_stats(fixture.run, &stats);
    if (status == GPUR_OK && stats.env_steps == STEPS && stats.episodes == fixture.episodes)
        hashes = run_fixture_hashes(&fixture);
    else
        fprintf(stderr, "%s; %d steps\n", gpur_last_error(), (int)stats.env_steps);
    run_fixture_close(&fixture);
    return hashes;
}

/* The same transitions in the same order, weights, and evaluations; episodes of a period that was stopped are told
 * earlier, so that the order of their events is another. */
static void check_stops(const run_settings *config)
{
    int stops = 0;
    const int64_t slice = STEPS;
    const run_hashes want = hashes_of(config, 0, slice);
    for (int i = 0; i < 3; i++) {
        const run_hashes got = hashes_with_stops(config, &stops);
        TEST_REQUIRE(got.replay == want.replay && got.weights == want.weights && got.replay,
                     "W %d, concurrent %d, synchronized %d: a run that was stopped leaves other bits",
                     (int)config->run.num_envs, (int)config->run.concurrent, (int)config->run.synchronized);
    }
    CHECK(stops > 3);
}

TEST(a_run_goes_on_after_stops_with_the_same_bits)
{
    for (int v = 0; v < VARIANTS; v++) {
        run_settings config =
            run_fixture_config(variants[v].num_envs, variants[v].concurrent, variants[v].synchronized);
        config.run.whole_episodes = v % 2;
        check_stops(&config);
    }
    for (size_t v = 0; v < sizeof with_cache / sizeof *with_cache; v++) {
        const run_settings config = config_with_cache(&with_cache[v], !with_cache[v].concurrent);
        check_stops(&config);
    }
    vector = &run_fixture_next_step;
    run_settings config = run_fixture_config(8, 1, 1);
    check_stops(&config);
    vector = NULL;
}

/* Three evaluations are due, the last one after the last step. */
TEST(each_evaluation_is_delivered_by_the_end_of_the_call_in_which_it_was_due)
{
    run_settings config = run_fixture_config(4, 1, 1);
    gpur_run_stats stats = {.size = sizeof stats};
    for (int32_t count = 1; count <= 8; count *= 2) {
        config.all.eval_envs = count;
        config.all.eval_episodes = 11;
        CHECK_OK(open_run(&config));
        CHECK_OK(gpur_run_advance(fixture.run, 192, 0));
        CHECK_EQUAL(fixture.evaluations, 2);
        CHECK_OK(gpur_run_advance(fixture.run, 0, 0));
        CHECK_EQUAL(fixture.evaluations, 2);
        CHECK_OK(gpur_run_advance(fixture.run, 96, 0));
        CHECK_EQUAL(fixture.evaluations, 3);
        CHECK_OK(gpur_run_get_stats(fixture.run, &stats));
        CHECK(stats.evaluations == 3 && stats.evaluated_steps == 288 && stats.eval_episode == 0);
        run_fixture_close(&fixture);
    }
}

/* Keeps the weights of the first evaluation, and says what they were. */
static struct {
    int64_t version, train_steps, env_steps, bytes;
    unsigned char weights[400000];
} kept;

static void keep_weights(void *user, const gpur_run_event *event)
{
    (void)user;
    if (event->kind != GPUR_RUN_EVALUATION || kept.bytes > 0)
        return;
    kept.version = event->version, kept.train_steps = event->train_steps, kept.env_steps = event->env_steps;
    kept.bytes = gpur_policy_weights_bytes(event->policy);
    CHECK(kept.bytes <= (int64_t)sizeof kept.weights && event->run == fixture.run);
    CHECK_OK(gpur_policy_get_weights(event->policy, kept.weights, kept.bytes));
}

/* The evaluation after 96 steps has the weights of a run that was advanced as far, whatever was trained meanwhile. */
TEST(an_evaluation_names_its_weights_and_they_can_be_kept)
{
    run_settings config = run_fixture_config(4, 1, 1);
    static unsigned char weights[sizeof kept.weights];
    kept.bytes = 0;
    CHECK_OK(open_run(&config));
    gpur_fast_dqn_of(fixture.run)->core.config.on_event = keep_weights;
    CHECK_OK(gpur_run_advance(fixture.run, STEPS, 0));
    CHECK(kept.env_steps == 96 && kept.train_steps == 24 && kept.version == 24 && kept.bytes > 0);
    run_fixture_close(&fixture);
    config.all.eval_period = 0;
    CHECK_OK(open_run(&config));
    CHECK_OK(gpur_run_advance(fixture.run, 96, 0));
    CHECK_OK(gpur_run_evaluate(fixture.run, 1, 1, NULL));
    gpur_policy *const policy = gpur_fast_dqn_of(fixture.run)->evaluating;
    CHECK_OK(gpur_policy_get_weights(policy, weights, kept.bytes));
    CHECK(memcmp(weights, kept.weights, (size_t)kept.bytes) == 0);
    run_fixture_close(&fixture);
}

/* Games of 10 steps in several environments: each is played to its end, and counted once. */
TEST(an_evaluation_in_several_environments_plays_whole_games)
{
    for (int32_t count = 1; count <= 5; count++) {
        run_settings config = run_fixture_config(2, 1, 1);
        gpur_run_event result = {0};
        config.all.env_options = "endless=0,limit=10", config.all.eval_envs = count, config.all.eval_period = 0;
        CHECK_OK(open_run(&config));
        CHECK_OK(gpur_run_evaluate(fixture.run, 7, 0, &result));
        CHECK(result.episodes == 7 && result.length == 70 && result.kind == GPUR_RUN_EVALUATION && !result.policy);
        CHECK_OK(gpur_run_evaluate(fixture.run, 3, 1, &result));
        CHECK(result.episodes == 3 && result.length == 30 && result.env_steps == 0);
        run_fixture_close(&fixture);
    }
}

static void check_refused(run_settings config, const char *message)
{
    CHECK_FAILS(open_run(&config), GPUR_INVALID_ARGUMENT, message);
    run_fixture_close(&fixture);
}

TEST(settings_that_do_not_go_together_are_refused)
{
    run_settings c = run_fixture_config(4, 1, 1);
    c.run.num_envs = 1, check_refused(c, "synchronized is 1 and num_envs is 1");
    c = run_fixture_config(5, 1, 1), check_refused(c, "target_period is 48 and num_envs is 5");
    c = run_fixture_config(4, 1, 1), c.run.train_period = 5,
    check_refused(c, "target_period is 48 and train_period is 5");
    c = run_fixture_config(4, 1, 1), c.run.train_period = 6,
    check_refused(c, "the learner's target_period is 12 train steps; it must be target_period / train_period = 48 / 6");
    c = run_fixture_config(4, 1, 1), c.run.threads = 5, check_refused(c, "threads is 5 and num_envs is 4");
    c = run_fixture_config(4, 1, 1), c.run.act = 1, check_refused(c, "act is 1");
    c = run_fixture_config(4, 1, 1), c.all.env_options = "vectors", c.run.train_steps = 0;
    check_refused(c, "train_steps is 0; it must be 1 to 65536");
    c = run_fixture_config(4, 1, 1), c.all.env_options = "vectors", c.run.act = GPUR_ACT_TARGET;
    check_refused(c, "act is GPUR_ACT_TARGET (2) and the learner is one of continuous actions");
    c = run_fixture_config(4, 1, 1), c.all.env_options = "vectors", c.run.sigma = -0.5f;
    check_refused(c, "sigma is -0.5; it must be 0 or more");
    c = run_fixture_config(4, 1, 1), c.run.prepopulation = 40, check_refused(c, "prepopulation is 40");
    c = run_fixture_config(4, 1, 1), c.all.eval_period = 50, check_refused(c, "eval_period is 50");
    c = run_fixture_config(4, 1, 1), c.all.eval_episodes = -1, check_refused(c, "eval_episodes is -1");
    c = run_fixture_config(4, 1, 1), c.all.eval_epsilon = 2, check_refused(c, "eval_epsilon is 2");
    c = run_fixture_config(4, 1, 1), c.run.concurrent = 7, check_refused(c, "concurrent is 7; it must be 0 or 1");
    c = run_fixture_config(4, 1, 1), c.run.synchronized = 7, check_refused(c, "synchronized is 7; it must be 0 or 1");
    c = run_fixture_config(4, 1, 1), c.run.whole_episodes = 7,
    check_refused(c, "whole_episodes is 7; it must be 0 or 1");
    c = run_fixture_config(4, 1, 1), c.run.burst = 7, check_refused(c, "burst is 7; it must be 0 or 1");
    c = run_fixture_config(4, 1, 1), c.run.burst = 1, check_refused(c, "burst is 1 and concurrent is 1");
    c = config_with_cache(&with_cache[1], 1), c.all.env_options = NULL, c.run.act = GPUR_ACT_TARGET;
    check_refused(c, "burst is 1 and act is \"target\"; it must be \"latest\"");
    c = config_with_cache(&with_cache[1], 0), c.run.act = GPUR_ACT_TARGET;
    check_refused(c, "act is \"target\" and the learner has a cache of returns");
    c = config_with_cache(&with_cache[1], 1), c.all.env_options = "cache=60";
    check_refused(c, "prepopulation is 60, the steps of 1 environment, and the learner's returns.block_length is 60");
    c = config_with_cache(&with_cache[1], 1), c.all.env_options = "cache=32"; /* of 31 two blocks have room */
    check_refused(c,
                  "the replay's capacity is 250 and num_envs is 4, which is 62 transitions of each environment; with "
                  "a cache of returns it must be at least 2 x block_length = 64 of each");
    c = run_fixture_config(80, 1, 0), c.run.threads = 70,
    check_refused(c, "threads is 70 and synchronized is 0; without `synchronized` the first must be at most 64");
    vector = &run_fixture_same_step;
    c = run_fixture_config(4, 1, 0), check_refused(c, "synchronized is 0; a vector environment");
    c = run_fixture_config(8, 0, 1), check_refused(c, "train_period is 4 and num_envs is 8; for a vector environment");
    vector = NULL;
}

/* Training begins right after the prepopulation, and would find no transitions. */
TEST(a_prepopulation_that_leaves_too_few_transitions_is_an_error)
{
    run_settings config = run_fixture_config(4, 1, 1);
    config.run.whole_episodes = 1, config.all.env_options = "endless=0";
    config.all.eval_period = config.all.eval_episodes = 0;
    CHECK_OK(open_run(&config));
    CHECK_FAILS(
        gpur_run_advance(fixture.run, STEPS, 0), GPUR_TOO_FEW,
        "after 120 steps at random (prepopulation is 60) the replay has 0 transitions; training needs min_size, "
        "50");
    CHECK_MESSAGE("whole_episodes is 1");
    CHECK_FAILS(gpur_run_advance(fixture.run, 1, 0), GPUR_INVALID_ARGUMENT, "the run has ended");
    run_fixture_close(&fixture);
    config.run.whole_episodes = 0;
    CHECK_OK(open_run(&config));
    CHECK_OK(gpur_run_advance(fixture.run, STEPS, 0));
    run_fixture_close(&fixture);
}

TEST(a_run_that_ends_inside_a_target_period_does_all_its_train_steps)
{
    for (int burst = 0; burst <= 1; burst++) {
        run_settings config = run_fixture_config(4, !burst, 1);
        config.run.burst = burst;
        CHECK_OK(open_run(&config));
        CHECK_OK(gpur_run_advance(fixture.run, config.run.target_period + 4, 0));
        CHECK_EQUAL(count_train_steps(), 2 * config.run.target_period / config.run.train_period);
        run_fixture_close(&fixture);
    }
}

/* When the run has done something. */
static void *stop_soon(void *context)
{
    const struct timespec time = {0, 1000000};
    gpur_run_stats stats = {.size = sizeof stats};
    for (int looks = 0; looks < 10000 && (stats.env_steps == 0 || stats.train_steps == 0); looks++) {
        nanosleep(&time, NULL);
        (void)gpur_run_get_stats(context, &stats);
    }
    gpur_run_stop(context);
    return NULL;
}

TEST(a_burst_can_be_stopped)
{
    run_settings config = config_with_cache(&with_cache[0], 1);
    gpur_run_stats stats = {.size = sizeof stats};
    pthread_t thread;
    CHECK_OK(open_run(&config));
    CHECK(pthread_create(&thread, NULL, stop_soon, fixture.run) == 0);
    CHECK_FAILS(gpur_run_advance(fixture.run, INT64_C(1) << 40, 0), GPUR_INTERRUPTED, "the run was stopped after");
    pthread_join(thread, NULL);
    CHECK_OK(gpur_run_get_stats(fixture.run, &stats));
    CHECK(stats.env_steps > 0 && stats.train_steps > 0);
    run_fixture_close(&fixture);
}

TEST(a_learner_in_the_middle_of_a_target_period_is_refused)
{
    const run_settings config = run_fixture_config(4, 1, 1);
    gpur_run *run = NULL;
    CHECK_OK(open_run(&config));
    CHECK_OK(gpur_run_advance(fixture.run, 0, 0));
    CHECK_OK(gpur_learner_train(fixture.learner, 5));
    CHECK_FAILS(run_fixture_create(fixture.learner, &run_fixture_env, NULL, &config, &run), GPUR_INVALID_ARGUMENT,
                "the learner has done 5 train steps and its target_period is 12");
    CHECK_OK(gpur_learner_train(fixture.learner, 7));
    CHECK_OK(run_fixture_create(fixture.learner, &run_fixture_env, NULL, &config, &run));
    gpur_run_destroy(run);
    run_fixture_close(&fixture);
}

static int64_t save_bytes; /* that init_with_bytes reports */

static const char *init_with_bytes(const char *options, uint64_t seed, gpur_env_info *info, void **env)
{
    const char *const error = run_fixture_env.init(options, seed, info, env);
    info->save_bytes = save_bytes;
    return error;
}

static const char *init_nothing(const char *options, uint64_t seed, gpur_env_info *info, void **env)
{
    (void)options, (void)seed, (void)info;
    *env = NULL;
    return NULL;
}

static void check_type_refused(const gpur_env_type *type, const char *message)
{
    const run_settings config = run_fixture_config(4, 1, 1);
    gpur_run *run = NULL;
    CHECK_FAILS(run_fixture_create(fixture.learner, type, NULL, &config, &run), GPUR_INVALID_ARGUMENT, message);
    CHECK(!run);
}

TEST(a_callers_type_without_what_it_must_have_is_refused)
{
    const run_settings config = run_fixture_config(4, 1, 1);
    gpur_vector_env_type steps_many = run_fixture_same_step;
    gpur_env_type type = run_fixture_env;
    gpur_run *run = NULL;
    CHECK_OK(open_run(&config));
    type.step = NULL;
    check_type_refused(&type, "the type has no function step; only save and load may be NULL");
    type = run_fixture_env, type.load = NULL;
    check_type_refused(&type, "the type hashes has save and no load");
    type.save = NULL, type.init = init_with_bytes, save_bytes = 8;
    check_type_refused(&type, "environment 0: save_bytes of hashes is 8 and it has no functions save and load");
    type = run_fixture_env, type.init = init_with_bytes, save_bytes = -8;
    check_type_refused(&type, "environment 0: save_bytes of hashes is -8; it must be 0 or more");
    type.init = init_nothing;
    check_type_refused(&type, "environment 0: init of hashes returned no environment");
    steps_many.reset = NULL;
    CHECK_FAILS(run_fixture_create(fixture.learner, &run_fixture_env, &steps_many, &config, &run),
                GPUR_INVALID_ARGUMENT, "the type has no function reset");
    run_fixture_close(&fixture);
}

/* Of every fifth environment, which is that of the evaluation of a run with 4 lanes. The others have the run's. */
static const char *fifth_options;

static const char *init_unlike(const char *options, uint64_t seed, gpur_env_info *info, void **env)
{
    static int made;
    return run_fixture_env.init(++made % 5 == 0 ? fifth_options : options, seed, info, env);
}

static void sleep_in_steps(void *context, gpur_run_phase part, int64_t step)
{
    const struct timespec time = {0, 10000000};
    (void)context;
    if (part == GPUR_PHASE_ENV && step > 96)
        nanosleep(&time, NULL);
}

/* The evaluation begins at step 97, and its first step is refused. The next evaluation would be at step 193. */
TEST(an_error_of_the_evaluation_ends_the_run_at_once)
{
    const run_settings config = run_fixture_config(4, 1, 1);
    gpur_run_stats stats = {.size = sizeof stats};
    gpur_env_type unlike = run_fixture_env;
    unlike.init = init_unlike;
    fifth_options = "fail=0";
    CHECK_OK(open_run(&config));
    gpur_run_destroy(fixture.run);
    CHECK_OK(run_fixture_create(fixture.learner, &unlike, NULL, &config, &fixture.run));
    gpur_fast_dqn_of(fixture.run)->delay = sleep_in_steps;
    CHECK_FAILS(gpur_run_advance(fixture.run, 1000, 0), GPUR_INVALID_ARGUMENT, "the evaluation: the motor is broken");
    CHECK_OK(gpur_run_get_stats(fixture.run, &stats));
    CHECK(stats.env_steps >= 96 && stats.env_steps < 192);
    run_fixture_close(&fixture);
}

TEST(environments_that_differ_are_refused)
{
    run_settings config = run_fixture_config(4, 1, 1);
    gpur_env_type unlike = run_fixture_env;
    gpur_run *run = NULL;
    unlike.init = init_unlike;
    fifth_options = "frames";
    CHECK_OK(open_run(&config));
    CHECK_FAILS(
        run_fixture_create(fixture.learner, &unlike, NULL, &config, &run), GPUR_INVALID_ARGUMENT,
        "environment 4 (4 and above are the evaluation's) has other observations or actions than environment 0");
    CHECK(!run);
    config.all.eval_period = config.all.eval_episodes = 0;
    CHECK_OK(run_fixture_create(fixture.learner, &unlike, NULL, &config, &run)); /* environments 6 to 9 */
    gpur_run_destroy(run);
    CHECK_FAILS(run_fixture_create(fixture.learner, &unlike, NULL, &config, &run), GPUR_INVALID_ARGUMENT,
                "has other observations or actions than environment 0");
    run_fixture_close(&fixture);
}

/* The environment never ends an episode, and tells that one has 10 steps. */
TEST(the_library_truncates_where_an_environment_tells_its_steps)
{
    run_settings config = run_fixture_config(2, 1, 1);
    gpur_run_event last;
    config.all.env_options = "endless=0,limit=10";
    CHECK_OK(open_run(&config));
    CHECK_OK(gpur_run_advance(fixture.run, STEPS, 0));
    CHECK_OK(gpur_run_evaluate(fixture.run, 0, 0, &last));
    CHECK_EQUAL(last.length, 10 * config.all.eval_episodes);
    CHECK_EQUAL(fixture.episodes, STEPS / 10 + config.run.prepopulation / 10);
    run_fixture_close(&fixture);
    config.all.env_options = "limit=-1";
    CHECK_FAILS(open_run(&config), GPUR_INVALID_ARGUMENT, "max_steps of hashes is -1; it must be 0 or more");
    run_fixture_close(&fixture);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(every_variant_gives_the_same_bits_under_delays);
    RUN(frames_lives_whole_episodes_and_fewer_threads_give_the_same_bits);
    RUN(bursts_and_caches_give_the_same_bits_under_delays);
    RUN(runs_do_what_the_algorithm_written_out_does);
    RUN(runs_by_action_vectors_do_what_the_algorithm_written_out_does);
    RUN(several_train_steps_at_a_time_do_what_the_algorithm_written_out_does);
    RUN(bursts_and_caches_do_what_the_algorithm_written_out_does);
    RUN(a_vector_environment_does_what_its_environments_do);
    RUN(stacks_are_acted_on_as_the_replay_rebuilds_them);
    RUN(a_vector_of_one_shows_what_its_environment_does);
    RUN(without_a_type_for_it_an_evaluation_acts_in_a_vector_of_one);
    RUN(an_error_of_an_environment_ends_the_run_and_names_the_lane);
    RUN(an_error_of_an_inference_in_a_lanes_thread_names_the_lane);
    RUN(an_error_of_a_refresh_ends_the_run);
    RUN(after_an_error_no_thread_of_the_run_works);
    RUN(an_error_of_the_evaluation_ends_the_run_at_once);
    RUN(only_threads_that_have_a_step_are_woken);
    RUN(a_run_can_be_stopped_from_any_thread);
    RUN(a_stopped_run_says_how_many_steps_it_took);
    RUN(a_run_goes_on_after_stops_with_the_same_bits);
    RUN(each_evaluation_is_delivered_by_the_end_of_the_call_in_which_it_was_due);
    RUN(an_evaluation_names_its_weights_and_they_can_be_kept);
    RUN(an_evaluation_in_several_environments_plays_whole_games);
    RUN(a_prepopulation_that_leaves_too_few_transitions_is_an_error);
    RUN(a_run_that_ends_inside_a_target_period_does_all_its_train_steps);
    RUN(a_burst_can_be_stopped);
    RUN(an_evaluation_without_end_shows_its_episode_and_can_be_stopped);
    RUN(the_next_evaluation_has_nothing_of_the_games_that_were_given_up);
    RUN(settings_that_do_not_go_together_are_refused);
    RUN(a_learner_in_the_middle_of_a_target_period_is_refused);
    RUN(a_callers_type_without_what_it_must_have_is_refused);
    RUN(environments_that_differ_are_refused);
    RUN(the_library_truncates_where_an_environment_tells_its_steps);
    return test_main_end();
}
