/* SPDX-License-Identifier: MIT */
/* The two locks, contended by several threads. Window lock: one thread at a time holds it. Consumer lock: sampling and
 * training get it in the order in which they ask. No thread that waits for either is forgotten, or the test would hang.
 * The tests count turns and never measure time: each makes sure that one thread waits for the lock before the other
 * asks again, so the order is certain, however the threads are scheduled. */
#include "base/mutex.h"
#include "replay/sampler/consumer.h"
#include "replay/replay.h"
#include "support/learner_fixture.h"
#include "test.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <time.h>

enum { THREADS = 6, TURNS = 20000, CHANGES = 2000, ROUNDS = 200 };

typedef struct counted {
    gpur_mutex lock;
    int64_t count; /* protected by the lock */
} counted;

typedef struct runner {
    counted *c;
    int64_t number;
} runner;

/* Thread 0 only tries the lock, the others wait for it. */
static void *take_turns(void *context)
{
    const runner *const r = context;
    for (int i = 0; i < TURNS; i++) {
        if (r->number > 0)
            gpur_mutex_lock(&r->c->lock);
        while (r->number == 0 && !gpur_mutex_try_lock(&r->c->lock))
            sched_yield();
        const int64_t before = r->c->count;
        if (before % 64 == 0)
            sched_yield(); /* so that other threads find the lock held, even on a single core */
        r->c->count = before + 1;
        gpur_mutex_unlock(&r->c->lock);
    }
    return NULL;
}

/* Each thread waits until the count modulo THREADS is its number, increments the count and notifies the others, one of
 * which then continues. */
static void *pass_on(void *context)
{
    const runner *const r = context;
    counted *const c = r->c;
    gpur_mutex_lock(&c->lock);
    for (int i = 0; i < CHANGES; i++) {
        while (c->count % THREADS != r->number)
            gpur_mutex_wait(&c->lock);
        c->count++;
        gpur_mutex_notify_all(&c->lock);
    }
    gpur_mutex_unlock(&c->lock);
    return NULL;
}

static void check_turns(void *(*work)(void *), int64_t wanted)
{
    counted c = {.count = 0};
    runner runners[THREADS];
    pthread_t threads[THREADS];
    CHECK_OK(gpur_mutex_open(&c.lock, "a test"));
    for (int i = 0; i < THREADS; i++) {
        runners[i] = (runner){&c, i};
        CHECK(pthread_create(&threads[i], NULL, work, &runners[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQUAL(c.count, wanted);
    CHECK_EQUAL(c.lock.waiters, 0);
    CHECK(gpur_mutex_try_lock(&c.lock));
    CHECK(!gpur_mutex_try_lock(&c.lock));
    gpur_mutex_unlock(&c.lock);
    gpur_mutex_close(&c.lock);
}

TEST(one_thread_at_a_time_has_the_lock_and_each_is_woken_by_every_change)
{
    check_turns(take_turns, THREADS * TURNS);
    check_turns(pass_on, THREADS * CHANGES);
}

static void await_users(gpur_ticket_lock *lock, int64_t users)
{
    while (gpur_ticket_lock_users(lock) < users)
        sched_yield();
}

static atomic_int running;

static void rest(int signal)
{
    const struct timespec time = {0, 20000};
    (void)signal;
    nanosleep(&time, NULL);
}

/* A thread that asks while the lock is being released may fall asleep or be served at once. If its wake-up were lost,
 * both threads would wait forever. That takes a thread that stops between two instructions for as long as the other
 * needs to fall asleep, so signals stop them now and then. */
static void *lock_and_unlock(void *lock)
{
    for (uint64_t i = test_rounds(4000000); i > 0; i--) {
        gpur_ticket_lock_lock(lock);
        gpur_ticket_lock_unlock(lock);
        for (volatile uint64_t k = 0; k < (i & 31); k++) {
        }
    }
    atomic_fetch_sub(&running, 1);
    return NULL;
}

TEST(two_threads_that_share_a_ticket_lock_lose_no_wake_up)
{
    const struct sigaction yielding = {.sa_handler = rest, .sa_flags = SA_RESTART};
    const struct timespec pause = {0, 50000};
    struct sigaction before;
    gpur_ticket_lock lock;
    pthread_t threads[2];
    CHECK_OK(gpur_ticket_lock_open(&lock, "a test"));
    CHECK(sigaction(SIGUSR1, &yielding, &before) == 0);
    atomic_store(&running, 2);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, lock_and_unlock, &lock) == 0);
    while (atomic_load(&running) > 0) {
        for (int i = 0; i < 2; i++)
            pthread_kill(threads[i], SIGUSR1);
        nanosleep(&pause, NULL);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    sigaction(SIGUSR1, &before, NULL);
    CHECK_EQUAL(gpur_ticket_lock_users(&lock), 0);
    gpur_ticket_lock_close(&lock);
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
    learner_fixture fixture;
    gpur_learner *learner;
    atomic_int is_training;
} rivals;

static void *sample_in_a_loop(void *context)
{
    rivals *const r = context;
    gpur_status status = GPUR_OK;
    while (atomic_load(&r->is_training) && status == GPUR_OK) {
        gpur_batch *batch = NULL;
        status = gpur_replay_sample(r->fixture.replay, 16, NULL, &batch);
        gpur_batch_release(batch);
    }
    return NULL;
}

static int64_t samples_of(rivals *r)
{
    gpur_replay_stats stats = {.size = sizeof stats};
    return gpur_replay_get_stats(r->fixture.replay, &stats) == GPUR_OK ? stats.sampled : -1;
}

/* Holds the consumer lock until the sampler waits for it, then releases it and trains at once. A plain mutex would let
 * the training go first; here the sampler must have sampled its 16 rows when the training returns. */
static void train_in_a_loop(rivals *r)
{
    const int rounds = test_on_cuda() ? ROUNDS / 10 : ROUNDS; /* on CUDA each round waits for the device many times */
    for (int i = 0; i < rounds; i++) {
        gpur_stream *stream = NULL;
        CHECK_OK(gpur_consumer_begin(r->fixture.replay, gpur_consumer_without_publishing, &stream));
        await_users(&r->fixture.replay->consumer.lock, 2);
        const int64_t before = samples_of(r);
        CHECK_OK(gpur_consumer_end(r->fixture.replay, GPUR_OK));
        CHECK_OK(gpur_learner_train(r->learner, 1));
        CHECK(samples_of(r) >= before + 16);
    }
}

TEST(a_sampler_beside_a_training_loop_gets_its_turns)
{
    static rivals r;
    const gpur_dqn_config config = learner_fixture_config(GPUR_HEAD_Q, 1);
    pthread_t sampler;
    gpur_device *const device = test_device();
    CHECK_OK(learner_fixture_open(&r.fixture, device, FIXTURE_ROWS));
    CHECK_OK(gpur_dqn_create(r.fixture.replay, &config, &r.learner));
    atomic_store(&r.is_training, 1);
    CHECK(pthread_create(&sampler, NULL, sample_in_a_loop, &r) == 0);
    train_in_a_loop(&r);
    atomic_store(&r.is_training, 0);
    pthread_join(sampler, NULL);
    gpur_learner_destroy(r.learner);
    learner_fixture_close(&r.fixture);
    gpur_device_close(device);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    if (!test_on_cuda()) {
        RUN(one_thread_at_a_time_has_the_lock_and_each_is_woken_by_every_change);
        RUN(two_threads_that_share_a_ticket_lock_lose_no_wake_up);
        RUN(the_lock_serves_in_the_order_of_asking);
    }
    RUN(a_sampler_beside_a_training_loop_gets_its_turns);
    return test_main_end();
}
