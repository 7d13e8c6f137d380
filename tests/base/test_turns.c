/* SPDX-License-Identifier: MIT */
/*
 * The consumer lock is a ticket lock: sampling and training get it in the order in which they ask. The tests count
 * turns and never measure time: each makes sure that one thread waits for the lock before the other asks again, and so
 * knows which must be served next, however the threads are scheduled.
 */
#include "support/learner_fixture.h"
#include "replay/sampler/consumer.h"
#include "replay/replay.h"
#include "test.h"

#include <pthread.h>
#include <sched.h>

enum { WAITERS = 6, ROUNDS = 200 };

static void await_users(gpur_fair_lock *lock, int64_t users)
{
    while (gpur_fair_lock_users(lock) < users)
        sched_yield();
}

typedef struct queue {
    gpur_fair_lock lock;
    int order[WAITERS], served;
    atomic_int asked;
} queue;

static void *ask(void *context)
{
    queue *const q = context;
    const int number = atomic_fetch_add(&q->asked, 1);
    gpur_fair_lock_take(&q->lock);
    q->order[q->served++] = number;
    gpur_fair_lock_give(&q->lock);
    return NULL;
}

TEST(the_lock_serves_in_the_order_of_asking)
{
    queue q = {.served = 0};
    pthread_t threads[WAITERS];
    CHECK_OK(gpur_fair_lock_open(&q.lock, "a test"));
    gpur_fair_lock_take(&q.lock);
    for (int i = 0; i < WAITERS; i++) {
        CHECK(pthread_create(&threads[i], NULL, ask, &q) == 0);
        await_users(&q.lock, i + 2);
    }
    gpur_fair_lock_give(&q.lock);
    for (int i = 0; i < WAITERS; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQUAL(q.served, WAITERS);
    for (int i = 0; i < WAITERS; i++)
        CHECK_EQUAL(q.order[i], i);
    CHECK_EQUAL(gpur_fair_lock_users(&q.lock), 0);
    gpur_fair_lock_close(&q.lock);
}

typedef struct rivals {
    learn_world world;
    gpur_learner *learner;
    atomic_int training;
} rivals;

static void draw_once(rivals *r)
{
    gpur_batch *batch = NULL;
    CHECK_OK(gpur_replay_sample(r->world.replay, 16, NULL, &batch));
    gpur_batch_release(batch);
}

static void *draw_in_a_loop(void *context)
{
    rivals *const r = context;
    while (atomic_load(&r->training))
        draw_once(r);
    return NULL;
}

static int64_t draws_of(rivals *r)
{
    gpur_replay_stats stats = {.size = sizeof stats};
    return gpur_replay_get_stats(r->world.replay, &stats) == GPUR_OK ? stats.draws : -1;
}

/* Holds the consumer lock until the sampler waits for it, then releases it and trains at once. A plain mutex would let
 * the training go first; here the sampler must have drawn its 16 rows when the training returns. */
static void train_in_a_loop(rivals *r)
{
    const int rounds = test_on_cuda() ? ROUNDS / 10 : ROUNDS; /* on CUDA each round waits for the device many times */
    for (int i = 0; i < rounds; i++) {
        gpur_stream *stream = NULL;
        CHECK_OK(gpur_consumer_begin(r->world.replay, gpur_consumer_unpublished, &stream));
        await_users(&r->world.replay->consumer.lock, 2);
        const int64_t before = draws_of(r);
        CHECK_OK(gpur_consumer_end(r->world.replay, GPUR_OK));
        CHECK_OK(gpur_learner_train(r->learner, 1));
        CHECK(draws_of(r) >= before + 16);
    }
}

TEST(a_sampler_beside_a_training_loop_gets_its_turns)
{
    static rivals r;
    const gpur_learner_config config = world_config(GPUR_HEAD_Q, 1);
    pthread_t sampler;
    gpur_device *const device = test_device();
    CHECK_OK(world_open(&r.world, device, WORLD_ROWS));
    CHECK_OK(gpur_learner_create(r.world.replay, &config, &r.learner));
    atomic_store(&r.training, 1);
    CHECK(pthread_create(&sampler, NULL, draw_in_a_loop, &r) == 0);
    train_in_a_loop(&r);
    atomic_store(&r.training, 0);
    pthread_join(sampler, NULL);
    gpur_learner_destroy(r.learner);
    world_close(&r.world);
    gpur_device_close(device);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(the_lock_serves_in_the_order_of_asking);
    RUN(a_sampler_beside_a_training_loop_gets_its_turns);
    return test_main_end();
}
