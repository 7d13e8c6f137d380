/* SPDX-License-Identifier: MIT */
/* What other threads see beside a train step and beside an act; acting when memory is short; a batch with fewer inputs
 * than DQN wants. */
#include "test.h"
#include "base/clock.h"
#include "learn/learner.h"
#include "replay/sampler/consumer.h"
#include "support/learner_fixture.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

static gpur_device *device;
static learner_fixture world;

/* A thread that appends without waiting, and when it succeeded. */
typedef struct appending {
    const void *fields[6];
    atomic_int stop;
    atomic_int count;
    double at[4096]; /* (count) seconds */
    gpur_status status;
} appending;

/* A row each half a millisecond, so that the staging blocks do not fill up during a step. */
static void *append_rows(void *argument)
{
    appending *const a = argument;
    for (; !atomic_load(&a->stop); nanosleep(&(const struct timespec){.tv_nsec = 500000}, NULL)) {
        const gpur_status status = gpur_writer_try_append_fields(world.writer, 1, a->fields);
        const int n = atomic_load(&a->count);
        if (status == GPUR_OK && n < 4096) {
            a->at[n] = gpur_clock_seconds();
            atomic_store(&a->count, n + 1);
        } else if (status != GPUR_OK && status != GPUR_WOULD_BLOCK) {
            a->status = status;
            return NULL;
        }
    }
    return NULL;
}

/* Appends in the middle half of one step. The gather, at its beginning, takes far less than a quarter of it. */
static void count_appends_within_a_step(gpur_learner *learner, appending *a, int *within)
{
    int64_t ids[256];
    pthread_t thread;
    gpur_replay_stats stats = {.size = sizeof stats};
    CHECK_OK(gpur_replay_get_stats(world.replay, &stats));
    for (int i = 0; i < 256; i++)
        ids[i] = stats.first_id + stats.visible - 1 - i % 64;
    atomic_store(&a->stop, 0), atomic_store(&a->count, 0);
    CHECK(pthread_create(&thread, NULL, append_rows, a) == 0);
    const double begin = gpur_clock_seconds();
    const gpur_status status = gpur_learner_train_ids(learner, ids);
    const double end = gpur_clock_seconds();
    atomic_store(&a->stop, 1);
    pthread_join(thread, NULL);
    CHECK_OK(status);
    CHECK_OK(a->status);
    for (int i = 0; i < atomic_load(&a->count); i++)
        *within += a->at[i] > begin + 0.25 * (end - begin) && a->at[i] < end - 0.25 * (end - begin);
}

TEST(writers_go_on_while_a_step_on_given_ids_is_carried_out)
{
    static appending a;
    static const learner_fixture_row row = {.action = 1};
    gpur_learner_config config = learner_fixture_config(GPUR_HEAD_Q, 1);
    config.network = network_fixture_config(512, 512, GPUR_RELU, GPUR_HEAD_Q, 0, FIXTURE_ACTIONS);
    config.batch_size = 200;
    gpur_learner *const learner = learner_fixture_open_learner(&world, device, config);
    int within = 0;
    CHECK(learner);
    if (!gpur_device_get_traits(device)->is_synchronous) { /* the step has only been enqueued when the call returns */
        learner_fixture_close_learner(&world, learner);
        return;
    }
    const void *const fields[6] = {row.obs, &row.action, &row.reward, row.next_obs, &row.terminated, &row.truncated};
    memcpy(a.fields, fields, sizeof fields);
    for (int attempt = 0; attempt < 20 && within == 0; attempt++) /* the other thread may get no core */
        count_appends_within_a_step(learner, &a, &within);
    CHECK(within > 0);
    learner_fixture_close_learner(&world, learner);
}

typedef struct acting {
    gpur_learner *learner;
    atomic_int *stop;
    gpur_status status;
    pthread_t thread;
} acting;

static void *act_on(void *argument)
{
    acting *const a = argument;
    const float obs[8 * FIXTURE_FEATURES] = {0};
    int32_t actions[8];
    while (a->status == GPUR_OK && !atomic_load(a->stop))
        a->status = gpur_learner_act(a->learner, 8, obs, 0.1f, actions, NULL);
    return NULL;
}

/* A save reads both beside acts of other threads. */
TEST(the_counters_of_acting_belong_together)
{
    atomic_int stop = 0;
    int apart = 0;
    gpur_learner *const learner = learner_fixture_open_learner(&world, device, learner_fixture_config(GPUR_HEAD_Q, 1));
    acting all[2] = {{.learner = learner, .stop = &stop}, {.learner = learner, .stop = &stop}};
    CHECK(learner);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&all[i].thread, NULL, act_on, &all[i]) == 0);
    for (int i = 0; i < 20000; i++) {
        uint64_t counter = 0;
        int64_t chosen = 0;
        gpur_actor_get_counters(&learner->actor, &counter, &chosen);
        apart += chosen != 8 * (int64_t)counter;
    }
    atomic_store(&stop, 1);
    for (int i = 0; i < 2; i++)
        pthread_join(all[i].thread, NULL);
    for (int i = 0; i < 2; i++)
        CHECK_OK(all[i].status);
    CHECK_EQUAL(apart, 0);
    learner_fixture_close_learner(&world, learner);
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

TEST(an_act_that_fits_is_not_refused_for_lack_of_twice_the_memory)
{
    enum { COUNT = 70 }; /* twice the present size would be 128 */
    static const float obs[COUNT * FIXTURE_FEATURES];
    int32_t actions[COUNT];
    gpur_device *own = NULL;
    gpur_device_config config = test_device_config();
    config.alloc = take_memory, config.release = release_memory;
    CHECK_OK(gpur_device_open(test_device_name(), &config, &own));
    gpur_learner *const learner = learner_fixture_open_learner(&world, own, learner_fixture_config(GPUR_HEAD_Q, 1));
    CHECK(learner);
    atomic_store(&fails_once, 1);
    CHECK_OK(gpur_learner_act(learner, COUNT, obs, 0.0f, actions, NULL));
    CHECK_EQUAL(atomic_load(&fails_once), 0);
    CHECK_EQUAL(learner->actor.buffers.capacity, COUNT);
    learner_fixture_close_learner(&world, learner);
    gpur_device_close(own);
}

static gpur_status gather(gpur_learner *learner, gpur_train_step *step, const int64_t *ids)
{
    gpur_stream *stream = NULL;
    GPUR_TRY(gpur_consumer_begin(world.replay, (gpur_consumer_launch){GPUR_LAUNCH_SAMPLE, 1, 0}, &stream));
    gpur_status status = gpur_copy(stream, learner->step.ids, ids, 4 * (int64_t)sizeof *ids);
    if (status == GPUR_OK)
        status = gpur_batch_source_gather(&step->by_ids, stream);
    if (status == GPUR_OK)
        status = gpur_train_batch_preprocess(&step->batch, stream);
    const gpur_status done = gpur_stream_sync(stream);
    return gpur_consumer_end(learner->replay, status == GPUR_OK ? done : status);
}

/* As an algorithm that is given its targets would want it: no next_obs, no reward, no discount, no weights. */
TEST(a_batch_has_only_the_inputs_that_are_wanted)
{
    static const int64_t ids[4] = {7, 3, 3, 400};
    gpur_learner_config config = learner_fixture_config(GPUR_HEAD_Q, 1);
    config.batch_size = 4;
    config.network.input_scale = 2.0f; /* observations are gathered as they are, and then converted */
    gpur_learner *const learner = learner_fixture_open_learner(&world, device, config);
    gpur_train_step step = {0};
    gpur_arena arena = {NULL, 0};
    float x[4][8];
    int32_t action[4];
    CHECK(learner);
    gpur_train_batch_open(&step.batch, device, world.replay, &learner->network, &config, &learner->step.batch.fields,
                          GPUR_WANTS_OBS | GPUR_WANTS_ACTION);
    gpur_train_batch_assign(&step.batch, &arena);
    void *memory = NULL;
    CHECK_OK(gpur_device_alloc(device, arena.used, &memory));
    arena = (gpur_arena){memory, 0};
    gpur_train_batch_assign(&step.batch, &arena);
    CHECK(!step.batch.next_x && !step.batch.reward && !step.batch.discount && !step.batch.weight);
    CHECK_EQUAL(step.batch.x_pitch, 8);
    CHECK_OK(gpur_batch_source_of_ids(&step.by_ids, &step, learner->step.ids));
    CHECK_OK(gather(learner, &step, ids));
    CHECK_OK(gpur_device_copy(device, x, step.batch.x, sizeof x));
    CHECK_OK(gpur_device_copy(device, action, step.batch.action, sizeof action));
    for (int b = 0; b < 4; b++) {
        CHECK_EQUAL(action[b], world.rows[ids[b]].action);
        for (int f = 0; f < FIXTURE_FEATURES; f++)
            CHECK_NEAR(x[b][f], 2.0f * world.rows[ids[b]].obs[f], 0);
    }
    gpur_device_free(device, memory);
    learner_fixture_close_learner(&world, learner);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
    RUN(writers_go_on_while_a_step_on_given_ids_is_carried_out);
    RUN(the_counters_of_acting_belong_together);
    RUN(an_act_that_fits_is_not_refused_for_lack_of_twice_the_memory);
    RUN(a_batch_has_only_the_inputs_that_are_wanted);
    gpur_device_close(device);
    return test_main_end();
}
