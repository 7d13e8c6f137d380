/* SPDX-License-Identifier: MIT */
/*
 * The two locks, contended by several threads. Ingest lock: one thread at a time holds it, and no thread that waits for
 * it or for a notification is forgotten; a forgotten thread would never end, and the test would hang. Consumer lock:
 * sampling and training get it in the order in which they ask. The tests count turns and never measure time: each makes
 * sure that one thread waits for the lock before the other asks again, and so knows which must be served next, however
 * the threads are scheduled.
 */
#include "base/mutex.h"
#include "replay/sampler/consumer.h"
#include "replay/replay.h"
#include "support/learner_fixture.h"
#include "test.h"

#include <pthread.h>
#include <sched.h>

enum { THREADS = 6, TURNS = 20000, CHANGES = 2000, ROUNDS = 200 };

/* Runs `work` on THREADS threads, each with its element of `contexts`. */
static int run_threads(void *(*work)(void *), void *contexts, size_t bytes)
{
    pthread_t threads[THREADS];
    int started = 0;
    for (char *context = contexts; started < THREADS; started++, context += bytes)
        if (pthread_create(&threads[started], NULL, work, context) != 0)
            break;
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    return started == THREADS;
}

typedef struct world {
    gpur_mutex lock;
    int64_t count; /* protected by the lock */
} world;

static void count_up(world *w)
{
    const int64_t before = w->count;
    if (before % 64 == 0)
        sched_yield(); /* so that other threads find the lock held, even on a single core */
    w->count = before + 1;
    gpur_mutex_unlock(&w->lock);
}

typedef struct runner {
    world *w;
    int64_t number;
} runner;

static void *take_turns(void *context)
{
    const runner *const r = context;
    for (int i = 0; i < TURNS;) {
        if (r->number > 0) {
            gpur_mutex_lock(&r->w->lock);
        } else if (!gpur_mutex_try_lock(&r->w->lock)) {
            sched_yield();
            continue;
        }
        count_up(r->w);
        i++;
    }
    return NULL;
}

/* Each thread waits until the count modulo THREADS is its number, increments the count and notifies the others, one of
 * which then continues. */
static void *pass_on(void *context)
{
    const runner *const r = context;
    world *const w = r->w;
    gpur_mutex_lock(&w->lock);
    for (int i = 0; i < CHANGES; i++) {
        while (w->count % THREADS != r->number)
            gpur_mutex_wait(&w->lock);
        w->count++;
        gpur_mutex_notify_all(&w->lock);
    }
    gpur_mutex_unlock(&w->lock);
    return NULL;
}

static void check_turns(void *(*work)(void *), int64_t wanted)
{
    world w = {.count = 0};
    runner runners[THREADS];
    CHECK_OK(gpur_mutex_open(&w.lock, "a test"));
    for (int i = 0; i < THREADS; i++)
        runners[i] = (runner){&w, i};
    CHECK(run_threads(work, runners, sizeof *runners));
    CHECK_EQUAL(w.count, wanted);
    CHECK_EQUAL(w.lock.waiters, 0);
    CHECK(gpur_mutex_try_lock(&w.lock));
    CHECK(!gpur_mutex_try_lock(&w.lock));
    gpur_mutex_unlock(&w.lock);
    gpur_mutex_close(&w.lock);
}

TEST(one_thread_at_a_time_has_the_lock)
{
    check_turns(take_turns, THREADS * TURNS);
}

TEST(threads_that_sleep_hear_of_every_change)
{
    check_turns(pass_on, THREADS * CHANGES);
}

static void await_users(gpur_ticket_lock *lock, int64_t users)
{
    while (gpur_ticket_lock_users(lock) < users)
        sched_yield();
}

typedef struct queue {
    gpur_ticket_lock lock;
    int order[THREADS], served;
    atomic_int asked;
} queue;

static void *ask(void *context)
{
    queue *const q = context;
    const int number = atomic_fetch_add(&q->asked, 1);
    gpur_ticket_lock_lock(&q->lock);
    q->order[q->served++] = number;
    gpur_ticket_lock_unlock(&q->lock);
    return NULL;
}

TEST(the_lock_serves_in_the_order_of_asking)
{
    queue q = {.served = 0};
    pthread_t threads[THREADS];
    CHECK_OK(gpur_ticket_lock_open(&q.lock, "a test"));
    gpur_ticket_lock_lock(&q.lock);
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_create(&threads[i], NULL, ask, &q) == 0);
        await_users(&q.lock, i + 2);
    }
    gpur_ticket_lock_unlock(&q.lock);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQUAL(q.served, THREADS);
    for (int i = 0; i < THREADS; i++)
        CHECK_EQUAL(q.order[i], i);
    CHECK_EQUAL(gpur_ticket_lock_users(&q.lock), 0);
    gpur_ticket_lock_close(&q.lock);
}

typedef struct rivals {
    learner_fixture world;
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
    return gpur_replay_get_stats(r->world.replay, &stats) == GPUR_OK ? stats.sampled : -1;
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
    const gpur_learner_config config = learner_fixture_config(GPUR_HEAD_Q, 1);
    pthread_t sampler;
    gpur_device *const device = test_device();
    CHECK_OK(learner_fixture_open(&r.world, device, FIXTURE_ROWS));
    CHECK_OK(gpur_learner_create(r.world.replay, &config, &r.learner));
    atomic_store(&r.training, 1);
    CHECK(pthread_create(&sampler, NULL, draw_in_a_loop, &r) == 0);
    train_in_a_loop(&r);
    atomic_store(&r.training, 0);
    pthread_join(sampler, NULL);
    gpur_learner_destroy(r.learner);
    learner_fixture_close(&r.world);
    gpur_device_close(device);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    if (!test_on_cuda()) {
        RUN(one_thread_at_a_time_has_the_lock);
        RUN(threads_that_sleep_hear_of_every_change);
        RUN(the_lock_serves_in_the_order_of_asking);
    }
    RUN(a_sampler_beside_a_training_loop_gets_its_turns);
    return test_main_end();
}
