/* SPDX-License-Identifier: MIT */
/* Acting: Q values against the reference, greedy and random actions, the weights of each mode, and acting on several
 * threads during training. */
#include "support/replay_fixture.h"
#include "test.h"
#include "learn/dqn/dqn.h"
#include "support/learner_fixture.h"

#include <pthread.h>

enum { ACTS = 64, MAX_ACTS = 3000, COUNT = 70, LAUNCHES = 5 };

static gpur_device *device;
static learner_fixture fixture;

static int best_of(const float *q)
{
    int best = 0;
    for (int k = 1; k < FIXTURE_ACTIONS; k++)
        best = q[k] > q[best] ? k : best;
    return best;
}

/* Calls of several sizes, some of more observations than there is room for at first, with observations in host memory
 * and in device memory: Q values are the reference's whatever the other rows of the call, and the greedy action has the
 * largest. */
static void check_acting(int kind, const gpur_dqn_config *config)
{
    static const int64_t counts[] = {1, 6, 11, ACTS, 2, 200, 66, MAX_ACTS};
    static _Alignas(64) unsigned char obs[MAX_ACTS * MAX_ROW_BYTES];
    static float q[MAX_ACTS * FIXTURE_ACTIONS], again[MAX_ACTS * FIXTURE_ACTIONS];
    static int32_t actions[MAX_ACTS];
    static ref_tape tape;
    const int64_t bytes = kind == ROWS_PLAIN ? FIXTURE_FEATURES * 4 : IMAGE_PIXELS;
    int64_t acts = 0;
    gpur_learner *learner = NULL;
    CHECK_OK(learner_fixture_open_kind(&fixture, device, kind, rows_of_kind(kind), NOT_PRIORITIZED));
    CHECK_OK(gpur_dqn_create(fixture.replay, config, &learner));
    const gpur_learner_stats before = learner_fixture_stats(learner);
    for (int round = 0; round < (kind == ROWS_PLAIN ? 8 : 7); round++) {
        const int64_t count = counts[round];
        ref_net *const net = learner_fixture_net(&fixture, learner, config);
        CHECK(net);
        for (int64_t i = 0; i < count; i++) {
            const int64_t id = (3 * i + round) % rows_of_kind(kind);
            const void *const row = kind == ROWS_PLAIN ? (const void *)fixture.rows[id].obs : conv_rows[id].obs;
            memcpy(obs + i * bytes, row, (size_t)bytes);
        }
        void *const there = upload_to_device(device, obs, count * bytes);
        CHECK(there);
        CHECK_OK(gpur_learner_q_values(learner, count, obs, q, NULL));
        CHECK_OK(gpur_learner_q_values(learner, count, there, again, NULL));
        CHECK_OK(gpur_learner_act(learner, count, round % 2 ? there : obs, 0.0f, actions, NULL));
        gpur_device_free(device, there);
        CHECK(memcmp(q, again, (size_t)count * FIXTURE_ACTIONS * sizeof *q) == 0);
        for (int64_t i = 0; i < count; i++) {
            ref_forward(net, 0, learner_fixture_reference(&fixture, (3 * i + round) % rows_of_kind(kind)).obs, &tape);
            for (int k = 0; k < FIXTURE_ACTIONS; k++)
                CHECK_NEAR(q[i * FIXTURE_ACTIONS + k], tape.y[k], 1e-5 * (1 + fabs(tape.y[k])));
            CHECK_EQUAL(actions[i], best_of(q + i * FIXTURE_ACTIONS));
        }
        ref_net_destroy(net);
        acts += count;
        CHECK_OK(gpur_learner_train(learner, 10));
    }
    const gpur_learner_stats after = learner_fixture_stats(learner);
    CHECK(after.pinned_bytes > before.pinned_bytes && after.device_bytes > before.device_bytes);
    CHECK_EQUAL(after.actions, acts);
    learner_fixture_close_learner(&fixture, learner);
}

TEST(q_values_agree_with_the_reference_and_greedy_acting_takes_the_best)
{
    gpur_dqn_config config = learner_fixture_config(GPUR_HEAD_DUELING, 1);
    check_acting(ROWS_PLAIN, &config);
    config = conv_config(GPUR_CHW), check_acting(ROWS_PLANES, &config);
    config.network.trunk_count = 0, check_acting(ROWS_PLANES, &config); /* bytes, flattened and scaled */
    config = conv_config(GPUR_HWC), check_acting(ROWS_PIXELS, &config);
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
        gpur_dqn_config config = learner_fixture_config(GPUR_HEAD_Q, 1);
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

/* The Q values of a new learner in this mode after each of `launches` calls of so many steps, the first after none. */
static gpur_status act_between(int32_t mode, int64_t period, int launches, int64_t steps,
                               float q[LAUNCHES][FIXTURE_ACTIONS])
{
    gpur_dqn_config config = learner_fixture_config(GPUR_HEAD_Q, 1);
    config.act = mode;
    config.target_period = period;
    gpur_learner *const learner = learner_fixture_open_learner(&fixture, device, config);
    gpur_status status = learner ? GPUR_OK : GPUR_DEVICE_ERROR;
    for (int launch = 0; launch < launches && status == GPUR_OK; launch++) {
        status = launch ? gpur_learner_train(learner, steps) : GPUR_OK;
        if (status == GPUR_OK)
            status = gpur_learner_q_values(learner, 1, one_obs, q[launch], NULL);
    }
    learner_fixture_close_learner(&fixture, learner);
    return status;
}

TEST(the_mode_names_the_weights_that_act)
{
    const size_t row = sizeof(float) * FIXTURE_ACTIONS;
    float latest[LAUNCHES][FIXTURE_ACTIONS], previous[LAUNCHES][FIXTURE_ACTIONS], target[LAUNCHES][FIXTURE_ACTIONS];
    CHECK_OK(act_between(GPUR_ACT_LATEST, 2, LAUNCHES, 1, latest));
    CHECK_OK(act_between(GPUR_ACT_PREVIOUS, 2, LAUNCHES, 1, previous));
    CHECK_OK(act_between(GPUR_ACT_TARGET, 2, LAUNCHES, 1, target));
    CHECK(memcmp(latest[0], latest[1], row) != 0);
    CHECK(memcmp(previous[0], latest[0], row) == 0);
    for (int launch = 1; launch < LAUNCHES; launch++)
        CHECK(memcmp(previous[launch], latest[launch - 1], row) == 0);
    /* Copied at the end of steps 2 and 4; an act sees it when the next launch has been enqueued. */
    CHECK(memcmp(target[0], latest[0], row) == 0);
    CHECK(memcmp(target[2], latest[0], row) == 0);
    CHECK(memcmp(target[3], latest[2], row) == 0);
    CHECK(memcmp(target[4], latest[2], row) == 0);
}

/* The target is copied after step 200. */
TEST(a_call_is_carried_out_in_launches_of_at_most_256_steps)
{
    static const struct {
        int32_t mode;
        int64_t steps, like;                    /* the Q values are those of the latest weights after `like` steps */
    } cases[] = {{GPUR_ACT_PREVIOUS, 0, 0},     /* no launch: the first weights */
                 {GPUR_ACT_PREVIOUS, 256, 0},   /* one launch: before it */
                 {GPUR_ACT_PREVIOUS, 257, 256}, /* two: between them */
                 {GPUR_ACT_TARGET, 256, 0},
                 {GPUR_ACT_TARGET, 257, 200}};
    float got[LAUNCHES][FIXTURE_ACTIONS], want[LAUNCHES][FIXTURE_ACTIONS];
    CHECK_EQUAL(GPUR_LAUNCH_STEPS, 256);
    for (int i = 0; i < 5; i++) {
        CHECK_OK(act_between(cases[i].mode, 200, 2, cases[i].steps, got));
        CHECK_OK(act_between(GPUR_ACT_LATEST, 200, 2, cases[i].like, want));
        TEST_REQUIRE(memcmp(got[1], want[1], sizeof got[1]) == 0, "mode %d after %d steps acts with other weights",
                     cases[i].mode, (int)cases[i].steps);
        CHECK(cases[i].like == 0 || memcmp(got[1], got[0], sizeof got[1]) != 0);
    }
}

TEST(written_weights_are_acted_on_at_once)
{
    for (int32_t mode = GPUR_ACT_LATEST; mode <= GPUR_ACT_TARGET; mode++) {
        const int32_t which = mode == GPUR_ACT_TARGET ? GPUR_WEIGHTS_TARGET : GPUR_WEIGHTS_ONLINE;
        gpur_dqn_config config = learner_fixture_config(GPUR_HEAD_Q, 1);
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

enum { ACTORS = 2, ACTS_A_CALL = 8 };

typedef struct acting {
    gpur_learner *learner;
    atomic_int *stop;
    int acts;
    gpur_status status;
    pthread_t thread;
} acting;

static void *act_on(void *argument)
{
    acting *const a = argument;
    const float some[ACTS_A_CALL * FIXTURE_FEATURES] = {0};
    int32_t actions[ACTS_A_CALL];
    gpur_learner_stats stats = {.size = sizeof stats};
    do {
        a->status = gpur_learner_act(a->learner, ACTS_A_CALL, some, 0.1f, actions, NULL);
        if (a->status == GPUR_OK)
            a->status = gpur_learner_get_stats(a->learner, &stats);
        for (int i = 0; i < ACTS_A_CALL && a->status == GPUR_OK; i++)
            if (actions[i] < 0 || actions[i] >= FIXTURE_ACTIONS)
                a->status = GPUR_DEVICE_ERROR;
        a->acts++;
    } while (a->status == GPUR_OK && !atomic_load(a->stop));
    return NULL;
}

static gpur_status train_and_append(gpur_learner *learner, int i)
{
    const float bias = 0;
    GPUR_TRY(gpur_learner_train(learner, 3));
    GPUR_TRY(gpur_writer_append(fixture.writer, 7, fixture.rows, NULL));
    return i % 10 == 9 ? gpur_learner_write_weights(learner, GPUR_WEIGHTS_ONLINE, "value.out.bias", &bias, 1) : GPUR_OK;
}

/* How often the two counters that a save reads did not belong to the same acts. */
static int count_torn_counters(gpur_learner *learner)
{
    int torn = 0;
    for (int i = 0; i < 7000; i++) {
        uint64_t counter = 0;
        int64_t chosen = 0;
        gpur_policy_get_counters(learner->acting, &counter, &chosen);
        torn += chosen != ACTS_A_CALL * (int64_t)counter;
    }
    return torn;
}

/* Under ThreadSanitizer: no copy of the weights is overwritten while it is read. */
TEST(acting_goes_on_beside_training)
{
    for (int32_t mode = GPUR_ACT_LATEST; mode <= GPUR_ACT_TARGET; mode++) {
        atomic_int stop = 0;
        acting actors[ACTORS];
        gpur_dqn_config config = learner_fixture_config(GPUR_HEAD_DUELING, 1);
        config.act = mode;
        config.target_period = 5;
        gpur_learner *const learner = learner_fixture_open_learner(&fixture, device, config);
        CHECK(learner);
        for (int i = 0; i < ACTORS; i++) {
            actors[i] = (acting){.learner = learner, .stop = &stop};
            CHECK(pthread_create(&actors[i].thread, NULL, act_on, &actors[i]) == 0);
        }
        gpur_status status = GPUR_OK;
        for (int i = 0; i < 30 && status == GPUR_OK; i++)
            status = train_and_append(learner, i);
        const int torn = count_torn_counters(learner);
        atomic_store(&stop, 1);
        for (int i = 0; i < ACTORS; i++)
            pthread_join(actors[i].thread, NULL);
        for (int i = 0; i < ACTORS; i++) {
            CHECK_OK(actors[i].status);
            CHECK(actors[i].acts > 0);
        }
        CHECK_OK(status);
        CHECK_EQUAL(torn, 0);
        learner_fixture_close_learner(&fixture, learner);
    }
}

/* One of several threads, and how many wrong answers it got. */
typedef struct asking {
    gpur_learner *learner;
    int index; /* of the thread: selects its observation and the size of its calls */
    float q[FIXTURE_ACTIONS];
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
            a->wrong += actions[i] != best_of(a->q);
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
    }
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&all[i].thread, NULL, ask, &all[i]) == 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(all[i].thread, NULL);
        CHECK_EQUAL(all[i].wrong, 0);
    }
    CHECK_OK(gpur_learner_get_stats(learner, &stats));
    CHECK_EQUAL(stats.actions, (test_is_long() ? 20000 : 500) * (1 + 3 + 5 + 7));
    learner_fixture_close_learner(&fixture, learner);
}

/* An allocator of which one call fails. */
static atomic_int fails_once;

static void *take_memory(void *user, size_t bytes)
{
    void *memory = NULL;
    (void)user;
    if (atomic_exchange(&fails_once, 0))
        return NULL;
    return posix_memalign(&memory, 64, bytes) == 0 ? memory : NULL;
}

static void release_memory(void *user, void *memory, size_t bytes)
{
    (void)user, (void)bytes;
    free(memory);
}

/* Twice the present capacity would be 128. */
TEST(an_act_that_fits_is_not_refused_for_lack_of_twice_the_memory)
{
    static const float obs[COUNT * FIXTURE_FEATURES];
    int32_t actions[COUNT];
    gpur_device *own = NULL;
    gpur_device_config config = test_device_config();
    config.alloc = take_memory, config.release = release_memory;
    CHECK_OK(gpur_device_open(test_device_name(), &config, &own));
    gpur_learner *const learner = learner_fixture_open_learner(&fixture, own, learner_fixture_config(GPUR_HEAD_Q, 1));
    CHECK(learner);
    atomic_store(&fails_once, 1);
    CHECK_OK(gpur_learner_act(learner, COUNT, obs, 0.0f, actions, NULL));
    CHECK_EQUAL(atomic_load(&fails_once), 0);
    CHECK_EQUAL(learner->acting->inferences[0].buffers.capacity, COUNT);
    learner_fixture_close_learner(&fixture, learner);
    gpur_device_close(own);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
    RUN(q_values_agree_with_the_reference_and_greedy_acting_takes_the_best);
    RUN(epsilon_is_the_share_of_uniformly_random_actions);
    RUN(exploration_follows_the_seed_alone);
    RUN(the_first_of_equal_actions_is_taken);
    if (!IN_RACE_CHECK) {
        RUN(the_mode_names_the_weights_that_act);
        RUN(a_call_is_carried_out_in_launches_of_at_most_256_steps);
        RUN(written_weights_are_acted_on_at_once);
        RUN(acting_goes_on_beside_training);
        RUN(any_number_of_threads_act_and_ask_at_once);
        RUN(an_act_that_fits_is_not_refused_for_lack_of_twice_the_memory);
    }
    gpur_device_close(device);
    return test_main_end();
}
