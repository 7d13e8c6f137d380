/* SPDX-License-Identifier: MIT */
/* Acting: Q values against the reference, greedy and random actions, the weights of each mode, and acting on several
 * threads during training. */
#include "test.h"
#include "support/learner_fixture.h"

#include <pthread.h>

enum { ACTS = 64 };

static gpur_device *device;
static learner_fixture fixture;

static int best_of(const float *q)
{
    int best = 0;
    for (int k = 1; k < FIXTURE_ACTIONS; k++)
        best = q[k] > q[best] ? k : best;
    return best;
}

/* Calls of several sizes, with observations in host memory and in device memory: Q values are the reference's whatever
 * the other rows of the call, and the greedy action has the largest. */
static void check_acting(int kind, const gpur_learner_config *config)
{
    static const int64_t counts[] = {1, 6, 11, ACTS, 2, 200, 66};
    static _Alignas(64) unsigned char obs[200 * MOST_ROW_BYTES];
    static float q[200 * FIXTURE_ACTIONS], again[200 * FIXTURE_ACTIONS];
    static int32_t actions[200];
    static ref_tape tape;
    const int64_t bytes = kind == WORLD_PLAIN ? FIXTURE_FEATURES * 4 : IMAGE_PIXELS;
    gpur_learner *learner = NULL;
    CHECK_OK(world_open_kind(&fixture, device, kind, world_rows_of(kind), WORLD_UNIFORM));
    CHECK_OK(gpur_learner_create(fixture.replay, config, &learner));
    for (int round = 0; round < 7; round++) {
        const int64_t count = counts[round];
        ref_net *const net = learner_fixture_net(&fixture, learner, config);
        CHECK(net);
        for (int64_t i = 0; i < count; i++) {
            const int64_t id = (3 * i + round) % world_rows_of(kind);
            const void *const row = kind == WORLD_PLAIN ? (const void *)fixture.rows[id].obs : conv_rows[id].obs;
            memcpy(obs + i * bytes, row, (size_t)bytes);
        }
        void *const there = device_copy_of(device, obs, count * bytes);
        CHECK(there);
        CHECK_OK(gpur_learner_q_values(learner, count, obs, q, NULL));
        CHECK_OK(gpur_learner_q_values(learner, count, there, again, NULL));
        CHECK_OK(gpur_learner_act(learner, count, round % 2 ? there : obs, 0.0f, actions, NULL));
        gpur_device_free(device, there);
        CHECK(memcmp(q, again, (size_t)count * FIXTURE_ACTIONS * sizeof *q) == 0);
        for (int64_t i = 0; i < count; i++) {
            ref_forward(net, 0, learner_fixture_reference(&fixture, (3 * i + round) % world_rows_of(kind)).obs, &tape);
            for (int k = 0; k < FIXTURE_ACTIONS; k++)
                CHECK_NEAR(q[i * FIXTURE_ACTIONS + k], tape.y[k], 1e-5 * (1 + fabs(tape.y[k])));
            CHECK_EQUAL(actions[i], best_of(q + i * FIXTURE_ACTIONS));
        }
        ref_net_destroy(net);
        CHECK_OK(gpur_learner_train(learner, 10));
    }
    gpur_learner_destroy(learner);
    learner_fixture_close(&fixture);
}

TEST(q_values_agree_with_the_reference_and_greedy_acting_takes_the_best)
{
    gpur_learner_config config = learner_fixture_config(GPUR_HEAD_DUELING, 1);
    check_acting(WORLD_PLAIN, &config);
    config = conv_config(GPUR_CHW), check_acting(WORLD_PLANES, &config);
    config.network.trunk_count = 0, check_acting(WORLD_PLANES, &config); /* bytes, flattened and scaled */
    config = conv_config(GPUR_HWC), check_acting(WORLD_PIXELS, &config);
}

/* A call of more than max_act_batch observations allocates memory. */
TEST(a_larger_call_grows_the_buffers_and_counts_its_acts)
{
    enum { LIMIT = 3000 };
    static float obs[LIMIT * FIXTURE_FEATURES], q[LIMIT * FIXTURE_ACTIONS], alone[FIXTURE_ACTIONS];
    static int32_t actions[LIMIT];
    gpur_learner *const learner =
        learner_fixture_open_learner(&fixture, device, learner_fixture_config(GPUR_HEAD_DUELING, 1));
    CHECK(learner);
    random_floats(4, obs, LIMIT * FIXTURE_FEATURES);
    const gpur_learner_stats before = learner_fixture_stats(learner);
    CHECK_OK(gpur_learner_q_values(learner, LIMIT, obs, q, NULL));
    CHECK_OK(gpur_learner_act(learner, LIMIT, obs, 0.0f, actions, NULL));
    for (int64_t i = 0; i < LIMIT; i += 1 + LIMIT / 7) {
        CHECK_OK(gpur_learner_q_values(learner, 1, obs + i * FIXTURE_FEATURES, alone, NULL));
        for (int k = 0; k < FIXTURE_ACTIONS; k++)
            CHECK_NEAR(q[i * FIXTURE_ACTIONS + k], alone[k], 1e-5 * (1 + fabsf(alone[k])));
        CHECK_EQUAL(actions[i], best_of(q + i * FIXTURE_ACTIONS));
    }
    const gpur_learner_stats after = learner_fixture_stats(learner);
    CHECK(after.pinned_bytes > before.pinned_bytes && after.device_bytes > before.device_bytes);
    CHECK_EQUAL(after.actions, LIMIT);
    learner_fixture_close_learner(&fixture, learner);
}

/* Counts how often each action is chosen for one observation. */
static gpur_status count_actions(gpur_learner *learner, float epsilon, int rounds, int counts[FIXTURE_ACTIONS])
{
    float obs[ACTS * FIXTURE_FEATURES] = {0};
    int32_t actions[ACTS];
    for (int i = 0; i < rounds; i++) {
        const gpur_status status = gpur_learner_act(learner, ACTS, obs, epsilon, actions, NULL);
        if (status != GPUR_OK)
            return status;
        for (int j = 0; j < ACTS; j++)
            counts[actions[j]]++;
    }
    return GPUR_OK;
}

TEST(epsilon_is_the_share_of_uniformly_random_actions)
{
    enum { ROUNDS = 500 };
    static const double epsilons[] = {0.3, 1.0};
    int greedy[FIXTURE_ACTIONS] = {0}, best = 0;
    gpur_learner *const learner =
        learner_fixture_open_learner(&fixture, device, learner_fixture_config(GPUR_HEAD_Q, 1));
    CHECK(learner);
    CHECK_OK(count_actions(learner, 0.0f, 1, greedy));
    for (int k = 0; k < FIXTURE_ACTIONS; k++)
        best = greedy[k] > greedy[best] ? k : best;
    CHECK_EQUAL(greedy[best], ACTS);
    for (int i = 0; i < 2; i++) {
        int counts[FIXTURE_ACTIONS] = {0};
        CHECK_OK(count_actions(learner, (float)epsilons[i], ROUNDS, counts));
        for (int k = 0; k < FIXTURE_ACTIONS; k++) {
            const double n = (double)ROUNDS * ACTS, random = epsilons[i] / FIXTURE_ACTIONS;
            const double p = k == best ? 1 - (FIXTURE_ACTIONS - 1) * random : random;
            CHECK_NEAR(counts[k], n * p, 5 * sqrt(n * p * (1 - p))); /* 5 sigma: once in 1,700,000 */
        }
    }
    learner_fixture_close_learner(&fixture, learner);
}

TEST(exploration_follows_the_seed_alone)
{
    float obs[ACTS * FIXTURE_FEATURES] = {0};
    int32_t actions[3][ACTS];
    for (int i = 0; i < 3; i++) {
        gpur_learner_config config = learner_fixture_config(GPUR_HEAD_Q, 1);
        config.seed = i < 2 ? 5 : 6;
        gpur_learner *const learner = learner_fixture_open_learner(&fixture, device, config);
        CHECK(learner);
        CHECK_OK(gpur_learner_act(learner, ACTS, obs, 1.0f, actions[i], NULL));
        CHECK_OK(gpur_learner_act(learner, ACTS, obs, 1.0f, actions[i], NULL));
        learner_fixture_close_learner(&fixture, learner);
    }
    CHECK(memcmp(actions[0], actions[1], sizeof actions[0]) == 0);
    CHECK(memcmp(actions[0], actions[2], sizeof actions[0]) != 0);
}

TEST(the_first_of_equal_actions_is_taken)
{
    const float obs[FIXTURE_FEATURES] = {0.5f}, zero[12 * FIXTURE_ACTIONS] = {0};
    int32_t action = -1;
    gpur_learner *const learner =
        learner_fixture_open_learner(&fixture, device, learner_fixture_config(GPUR_HEAD_Q, 1));
    CHECK(learner);
    CHECK_OK(gpur_learner_write_weights(learner, GPUR_WEIGHTS_ONLINE, "q.out.weight", zero, 12 * FIXTURE_ACTIONS));
    CHECK_OK(gpur_learner_write_weights(learner, GPUR_WEIGHTS_ONLINE, "q.out.bias", zero, FIXTURE_ACTIONS));
    CHECK_OK(gpur_learner_act(learner, 1, obs, 0.0f, &action, NULL));
    CHECK_EQUAL(action, 0);
    learner_fixture_close_learner(&fixture, learner);
}

static const float one_obs[FIXTURE_FEATURES] = {0.3f, -0.2f, 0.9f, 0.1f, -0.5f};

/* The Q values that this mode gives before and after each of four launches of one step. */
static gpur_status watch(int32_t mode, float q[5][FIXTURE_ACTIONS])
{
    gpur_learner_config config = learner_fixture_config(GPUR_HEAD_Q, 1);
    config.act = mode;
    config.target_period = 2;
    gpur_learner *const learner = learner_fixture_open_learner(&fixture, device, config);
    gpur_status status = learner ? GPUR_OK : GPUR_DEVICE_ERROR;
    for (int launch = 0; launch < 5 && status == GPUR_OK; launch++) {
        status = gpur_learner_q_values(learner, 1, one_obs, q[launch], NULL);
        if (status == GPUR_OK)
            status = gpur_learner_train(learner, 1);
    }
    learner_fixture_close_learner(&fixture, learner);
    return status;
}

TEST(the_mode_names_the_weights_that_act)
{
    const size_t row = sizeof(float) * FIXTURE_ACTIONS;
    float latest[5][FIXTURE_ACTIONS], previous[5][FIXTURE_ACTIONS], target[5][FIXTURE_ACTIONS];
    CHECK_OK(watch(GPUR_ACT_LATEST, latest));
    CHECK_OK(watch(GPUR_ACT_PREVIOUS, previous));
    CHECK_OK(watch(GPUR_ACT_TARGET, target));
    CHECK(memcmp(latest[0], latest[1], row) != 0);
    CHECK(memcmp(previous[0], latest[0], row) == 0);
    for (int launch = 1; launch < 5; launch++)
        CHECK(memcmp(previous[launch], latest[launch - 1], row) == 0);
    /* Copied at the end of steps 2 and 4; an act sees it when the next launch has been enqueued. */
    CHECK(memcmp(target[0], latest[0], row) == 0);
    CHECK(memcmp(target[2], latest[0], row) == 0);
    CHECK(memcmp(target[3], latest[2], row) == 0);
    CHECK(memcmp(target[4], latest[2], row) == 0);
}

/* Q after one call of so many steps; the target is copied after step 200. */
static gpur_status watch_call(int32_t mode, int64_t steps, float q[FIXTURE_ACTIONS])
{
    gpur_learner_config config = learner_fixture_config(GPUR_HEAD_Q, 1);
    config.act = mode;
    config.target_period = 200;
    gpur_learner *const learner = learner_fixture_open_learner(&fixture, device, config);
    gpur_status status = learner ? gpur_learner_train(learner, steps) : GPUR_DEVICE_ERROR;
    if (status == GPUR_OK)
        status = gpur_learner_q_values(learner, 1, one_obs, q, NULL);
    learner_fixture_close_learner(&fixture, learner);
    return status;
}

TEST(a_call_is_carried_out_in_launches_of_at_most_256_steps)
{
    const size_t row = sizeof(float) * FIXTURE_ACTIONS;
    float first[FIXTURE_ACTIONS], copied[FIXTURE_ACTIONS], full[FIXTURE_ACTIONS], q[FIXTURE_ACTIONS];
    CHECK_EQUAL(GPUR_LAUNCH_STEPS, 256);
    CHECK_OK(watch_call(GPUR_ACT_LATEST, 0, first));
    CHECK_OK(watch_call(GPUR_ACT_LATEST, 200, copied));
    CHECK_OK(watch_call(GPUR_ACT_LATEST, 256, full));
    CHECK(memcmp(first, copied, row) != 0 && memcmp(copied, full, row) != 0);
    CHECK_OK(watch_call(GPUR_ACT_PREVIOUS, 256, q)); /* one launch: before it */
    CHECK(memcmp(q, first, row) == 0);
    CHECK_OK(watch_call(GPUR_ACT_PREVIOUS, 257, q)); /* two: between them */
    CHECK(memcmp(q, full, row) == 0);
    CHECK_OK(watch_call(GPUR_ACT_TARGET, 256, q));
    CHECK(memcmp(q, first, row) == 0);
    CHECK_OK(watch_call(GPUR_ACT_TARGET, 257, q));
    CHECK(memcmp(q, copied, row) == 0);
}

TEST(written_weights_are_acted_on_at_once)
{
    for (int32_t mode = GPUR_ACT_LATEST; mode <= GPUR_ACT_TARGET; mode++) {
        const int32_t which = mode == GPUR_ACT_TARGET ? GPUR_WEIGHTS_TARGET : GPUR_WEIGHTS_ONLINE;
        gpur_learner_config config = learner_fixture_config(GPUR_HEAD_Q, 1);
        config.act = mode;
        gpur_learner *const learner = learner_fixture_open_learner(&fixture, device, config);
        CHECK(learner);
        for (int32_t k = 0; k < FIXTURE_ACTIONS; k++) {
            float bias[FIXTURE_ACTIONS] = {0};
            int32_t action = -1;
            bias[k] = 1e3f;
            CHECK_OK(gpur_learner_write_weights(learner, which, "q.out.bias", bias, FIXTURE_ACTIONS));
            CHECK_OK(gpur_learner_act(learner, 1, one_obs, 0.0f, &action, NULL));
            CHECK_EQUAL(action, k);
            CHECK_OK(gpur_learner_train(learner, 1));
        }
        learner_fixture_close_learner(&fixture, learner);
    }
}

typedef struct acting {
    gpur_learner *learner;
    atomic_int stop;
    int acts;
    gpur_status status;
} acting;

static void *act_on(void *argument)
{
    acting *const a = argument;
    const float some[8 * FIXTURE_FEATURES] = {0};
    int32_t actions[8];
    gpur_learner_stats stats = {.size = sizeof stats};
    do {
        a->status = gpur_learner_act(a->learner, 8, some, 0.1f, actions, NULL);
        if (a->status == GPUR_OK)
            a->status = gpur_learner_get_stats(a->learner, &stats);
        for (int i = 0; i < 8 && a->status == GPUR_OK; i++)
            if (actions[i] < 0 || actions[i] >= FIXTURE_ACTIONS)
                a->status = GPUR_DEVICE_ERROR;
        a->acts++;
    } while (a->status == GPUR_OK && !atomic_load(&a->stop));
    return NULL;
}

/* Under ThreadSanitizer: no copy of the weights is overwritten while it is read. */
static void check_beside_training(int32_t mode)
{
    float bias[FIXTURE_ACTIONS] = {0};
    pthread_t thread;
    gpur_learner_config config = learner_fixture_config(GPUR_HEAD_DUELING, 1);
    config.act = mode;
    config.target_period = 5;
    acting a = {.learner = learner_fixture_open_learner(&fixture, device, config)};
    CHECK(a.learner);
    CHECK(pthread_create(&thread, NULL, act_on, &a) == 0);
    gpur_status status = GPUR_OK;
    for (int i = 0; i < 30 && status == GPUR_OK; i++) {
        status = gpur_learner_train(a.learner, 3);
        if (status == GPUR_OK)
            status = gpur_writer_append(fixture.writer, 7, fixture.rows, NULL);
        if (status == GPUR_OK && i % 10 == 9)
            status = gpur_learner_write_weights(a.learner, GPUR_WEIGHTS_ONLINE, "value.out.bias", bias, 1);
    }
    atomic_store(&a.stop, 1);
    pthread_join(thread, NULL);
    CHECK_OK(status);
    CHECK_OK(a.status);
    CHECK(a.acts > 0);
    learner_fixture_close_learner(&fixture, a.learner);
}

TEST(acting_goes_on_beside_training)
{
    check_beside_training(GPUR_ACT_LATEST);
    check_beside_training(GPUR_ACT_PREVIOUS);
    check_beside_training(GPUR_ACT_TARGET);
}

/* One of several threads, and how many wrong answers it got. */
typedef struct asking {
    gpur_learner *learner;
    int index; /* of the thread: selects its observation and the size of its calls */
    float q[FIXTURE_ACTIONS];
    int32_t best;
    int wrong;
    pthread_t thread;
} asking;

static void *ask(void *argument)
{
    asking *const a = argument;
    float some[8 * FIXTURE_FEATURES], q[8 * FIXTURE_ACTIONS];
    int32_t actions[8];
    const int count = 1 + a->index * 2;
    for (int i = 0; i < 8 * FIXTURE_FEATURES; i++)
        some[i] = one_obs[i % FIXTURE_FEATURES] * (float)(a->index + 1);
    for (int round = 0; round < (test_is_long() ? 20000 : 500); round++) {
        a->wrong += gpur_learner_q_values(a->learner, count, some, q, NULL) != GPUR_OK;
        a->wrong += gpur_learner_act(a->learner, count, some, 0.0f, actions, NULL) != GPUR_OK;
        for (int i = 0; i < count; i++) {
            for (int k = 0; k < FIXTURE_ACTIONS; k++)
                a->wrong += fabsf(q[i * FIXTURE_ACTIONS + k] - a->q[k]) > 1e-5f;
            a->wrong += actions[i] != a->best;
        }
    }
    return NULL;
}

TEST(any_number_of_threads_act_and_ask_at_once)
{
    enum { THREADS = 4 };
    asking all[THREADS];
    gpur_learner *const learner =
        learner_fixture_open_learner(&fixture, device, learner_fixture_config(GPUR_HEAD_Q, 1));
    gpur_learner_stats stats = {.size = sizeof stats};
    CHECK(learner);
    for (int i = 0; i < THREADS; i++) {
        float some[FIXTURE_FEATURES];
        for (int f = 0; f < FIXTURE_FEATURES; f++)
            some[f] = one_obs[f] * (float)(i + 1);
        all[i] = (asking){.learner = learner, .index = i};
        CHECK_OK(gpur_learner_q_values(learner, 1, some, all[i].q, NULL));
        CHECK_OK(gpur_learner_act(learner, 1, some, 0.0f, &all[i].best, NULL));
    }
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&all[i].thread, NULL, ask, &all[i]) == 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(all[i].thread, NULL);
        CHECK_EQUAL(all[i].wrong, 0);
    }
    CHECK_OK(gpur_learner_get_stats(learner, &stats));
    CHECK_EQUAL(stats.actions, THREADS + (test_is_long() ? 20000 : 500) * (1 + 3 + 5 + 7));
    learner_fixture_close_learner(&fixture, learner);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
    RUN(q_values_agree_with_the_reference_and_greedy_acting_takes_the_best);
    RUN(a_larger_call_grows_the_buffers_and_counts_its_acts);
    RUN(epsilon_is_the_share_of_uniformly_random_actions);
    RUN(exploration_follows_the_seed_alone);
    RUN(the_first_of_equal_actions_is_taken);
    if (!IN_RACE_CHECK) {
        RUN(the_mode_names_the_weights_that_act);
        RUN(a_call_is_carried_out_in_launches_of_at_most_256_steps);
        RUN(written_weights_are_acted_on_at_once);
        RUN(acting_goes_on_beside_training);
        RUN(any_number_of_threads_act_and_ask_at_once);
    }
    gpur_device_close(device);
    return test_main_end();
}
