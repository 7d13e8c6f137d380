/* SPDX-License-Identifier: MIT */
/* Which weights act, after which launch; and acting beside training on another thread. */
#include "test.h"
#include "support/learn_rig.h"

#include <pthread.h>

static gpur_device *device;
static learn_world world;

static const float obs[WORLD_FEATURES] = {0.3f, -0.2f, 0.9f, 0.1f, -0.5f};

/* Q of one observation after each of four launches of one step, as the given mode sees it. */
static gpur_status watch(int32_t mode, float q[5][WORLD_ACTIONS])
{
    gpur_learner_config config = world_config(GPUR_HEAD_Q, 1);
    config.act = mode;
    config.target_period = 2;
    gpur_learner *const learner = rig_open_learner(&world, device, config);
    gpur_status status = learner ? GPUR_OK : GPUR_DEVICE_ERROR;
    for (int launch = 0; launch < 5 && status == GPUR_OK; launch++) {
        status = gpur_learner_q_values(learner, 1, obs, q[launch], NULL);
        if (status == GPUR_OK)
            status = gpur_learner_train(learner, 1);
    }
    rig_close_learner(&world, learner);
    return status;
}

TEST(the_mode_names_the_weights_that_act)
{
    const size_t row = sizeof(float) * WORLD_ACTIONS;
    float latest[5][WORLD_ACTIONS], previous[5][WORLD_ACTIONS], target[5][WORLD_ACTIONS];
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
static gpur_status watch_call(int32_t mode, int64_t steps, float q[WORLD_ACTIONS])
{
    gpur_learner_config config = world_config(GPUR_HEAD_Q, 1);
    config.act = mode;
    config.target_period = 200;
    gpur_learner *const learner = rig_open_learner(&world, device, config);
    gpur_status status = learner ? gpur_learner_train(learner, steps) : GPUR_DEVICE_ERROR;
    if (status == GPUR_OK)
        status = gpur_learner_q_values(learner, 1, obs, q, NULL);
    rig_close_learner(&world, learner);
    return status;
}

TEST(a_call_is_carried_out_in_launches_of_at_most_256_steps)
{
    const size_t row = sizeof(float) * WORLD_ACTIONS;
    float first[WORLD_ACTIONS], copied[WORLD_ACTIONS], full[WORLD_ACTIONS], q[WORLD_ACTIONS];
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
        gpur_learner_config config = world_config(GPUR_HEAD_Q, 1);
        config.act = mode;
        gpur_learner *const learner = rig_open_learner(&world, device, config);
        CHECK(learner);
        for (int32_t k = 0; k < WORLD_ACTIONS; k++) {
            float bias[WORLD_ACTIONS] = {0};
            int32_t action = -1;
            bias[k] = 1e3f;
            CHECK_OK(gpur_learner_write_weights(learner, which, "q.out.bias", bias, WORLD_ACTIONS));
            CHECK_OK(gpur_learner_act(learner, 1, obs, 0.0f, &action, NULL));
            CHECK_EQUAL(action, k);
            CHECK_OK(gpur_learner_train(learner, 1));
        }
        rig_close_learner(&world, learner);
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
    const float some[8 * WORLD_FEATURES] = {0};
    int32_t actions[8];
    gpur_learner_stats stats = {.size = sizeof stats};
    do {
        a->status = gpur_learner_act(a->learner, 8, some, 0.1f, actions, NULL);
        if (a->status == GPUR_OK)
            a->status = gpur_learner_get_stats(a->learner, &stats);
        for (int i = 0; i < 8 && a->status == GPUR_OK; i++)
            if (actions[i] < 0 || actions[i] >= WORLD_ACTIONS)
                a->status = GPUR_DEVICE_ERROR;
        a->acts++;
    } while (a->status == GPUR_OK && !atomic_load(&a->stop));
    return NULL;
}

/* Under ThreadSanitizer: no copy of the weights is overwritten while it is read. */
static void check_beside_training(int32_t mode)
{
    float bias[WORLD_ACTIONS] = {0};
    pthread_t thread;
    gpur_learner_config config = world_config(GPUR_HEAD_DUELING, 1);
    config.act = mode;
    config.target_period = 5;
    acting a = {.learner = rig_open_learner(&world, device, config)};
    CHECK(a.learner);
    CHECK(pthread_create(&thread, NULL, act_on, &a) == 0);
    gpur_status status = GPUR_OK;
    for (int i = 0; i < 30 && status == GPUR_OK; i++) {
        status = gpur_learner_train(a.learner, 3);
        if (status == GPUR_OK)
            status = gpur_writer_append(world.writer, 7, world.rows, NULL);
        if (status == GPUR_OK && i % 10 == 9)
            status = gpur_learner_write_weights(a.learner, GPUR_WEIGHTS_ONLINE, "value.out.bias", bias, 1);
    }
    atomic_store(&a.stop, 1);
    pthread_join(thread, NULL);
    CHECK_OK(status);
    CHECK_OK(a.status);
    CHECK(a.acts > 0);
    rig_close_learner(&world, a.learner);
}

TEST(acting_goes_on_beside_training)
{
    check_beside_training(GPUR_ACT_LATEST);
    check_beside_training(GPUR_ACT_PREVIOUS);
    check_beside_training(GPUR_ACT_TARGET);
}

/* What one of several threads asks, and how often it was told wrong. */
typedef struct asking {
    gpur_learner *learner;
    int index; /* of the thread: it asks about a different observation, so many of them at once */
    float q[WORLD_ACTIONS];
    int32_t best;
    int wrong;
    pthread_t thread;
} asking;

static void *ask(void *argument)
{
    asking *const a = argument;
    float some[8 * WORLD_FEATURES], q[8 * WORLD_ACTIONS];
    int32_t actions[8];
    const int count = 1 + a->index * 2;
    for (int i = 0; i < 8 * WORLD_FEATURES; i++)
        some[i] = obs[i % WORLD_FEATURES] * (float)(a->index + 1);
    for (int round = 0; round < (test_is_long() ? 20000 : 500); round++) {
        a->wrong += gpur_learner_q_values(a->learner, count, some, q, NULL) != GPUR_OK;
        a->wrong += gpur_learner_act(a->learner, count, some, 0.0f, actions, NULL) != GPUR_OK;
        for (int i = 0; i < count; i++) {
            for (int k = 0; k < WORLD_ACTIONS; k++)
                a->wrong += fabsf(q[i * WORLD_ACTIONS + k] - a->q[k]) > 1e-5f;
            a->wrong += actions[i] != a->best;
        }
    }
    return NULL;
}

TEST(any_number_of_threads_act_and_ask_at_once)
{
    enum { THREADS = 4 };
    asking all[THREADS];
    gpur_learner *const learner = rig_open_learner(&world, device, world_config(GPUR_HEAD_Q, 1));
    gpur_learner_stats stats = {.size = sizeof stats};
    CHECK(learner);
    for (int i = 0; i < THREADS; i++) {
        float some[WORLD_FEATURES];
        for (int f = 0; f < WORLD_FEATURES; f++)
            some[f] = obs[f] * (float)(i + 1);
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
    CHECK_EQUAL(stats.acts, THREADS + (test_is_long() ? 20000 : 500) * (1 + 3 + 5 + 7));
    rig_close_learner(&world, learner);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
    RUN(the_mode_names_the_weights_that_act);
    RUN(a_call_is_carried_out_in_launches_of_at_most_256_steps);
    RUN(written_weights_are_acted_on_at_once);
    RUN(acting_goes_on_beside_training);
    RUN(any_number_of_threads_act_and_ask_at_once);
    gpur_device_close(device);
    return test_main_end();
}
