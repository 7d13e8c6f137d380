/* SPDX-License-Identifier: MIT */
/* The ingest lock, contended by several threads: one thread at a time holds it, and no thread that waits for the lock
 * or for a notification is forgotten. A forgotten thread would never end, and the test would hang. */
#include "base/mutex.h"
#include "test.h"

#include <pthread.h>
#include <sched.h>

enum { THREADS = 6, TURNS = 20000, CHANGES = 2000 };

typedef struct world {
    gpur_quick_lock lock;
    int64_t count; /* protected by the lock */
} world;

static void count_up(world *w)
{
    const int64_t before = w->count;
    if (before % 64 == 0)
        sched_yield(); /* so that other threads find the lock held, even on a single core */
    w->count = before + 1;
    gpur_quick_lock_give(&w->lock);
}

static void *take_turns(void *context)
{
    world *const w = context;
    for (int i = 0; i < TURNS; i++) {
        gpur_quick_lock_take(&w->lock);
        count_up(w);
    }
    return NULL;
}

static void *try_turns(void *context)
{
    world *const w = context;
    for (int i = 0; i < TURNS;)
        if (gpur_quick_lock_try(&w->lock)) {
            count_up(w);
            i++;
        } else {
            sched_yield();
        }
    return NULL;
}

TEST(one_thread_at_a_time_has_the_lock)
{
    world w = {.count = 0};
    pthread_t threads[THREADS];
    CHECK_OK(gpur_quick_lock_open(&w.lock, "a test"));
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, i == 0 ? try_turns : take_turns, &w) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQUAL(w.count, THREADS * TURNS);
    CHECK(gpur_quick_lock_try(&w.lock));
    CHECK(!gpur_quick_lock_try(&w.lock));
    gpur_quick_lock_give(&w.lock);
    gpur_quick_lock_close(&w.lock);
}

/* Each thread waits until the count modulo THREADS is its number, increments the count and notifies the others, one of
 * which then continues. */
typedef struct runner {
    world *w;
    int64_t number;
} runner;

static void *pass_on(void *context)
{
    const runner *const r = context;
    world *const w = r->w;
    gpur_quick_lock_take(&w->lock);
    for (int i = 0; i < CHANGES; i++) {
        while (w->count % THREADS != r->number)
            gpur_quick_lock_sleep(&w->lock);
        w->count++;
        gpur_quick_lock_tell(&w->lock);
    }
    gpur_quick_lock_give(&w->lock);
    return NULL;
}

TEST(those_who_sleep_hear_of_every_change)
{
    world w = {.count = 0};
    runner runners[THREADS];
    pthread_t threads[THREADS];
    CHECK_OK(gpur_quick_lock_open(&w.lock, "a test"));
    for (int i = 0; i < THREADS; i++) {
        runners[i] = (runner){&w, i};
        CHECK(pthread_create(&threads[i], NULL, pass_on, &runners[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQUAL(w.count, THREADS * CHANGES);
    CHECK_EQUAL(w.lock.sleepers, 0);
    gpur_quick_lock_close(&w.lock);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(one_thread_at_a_time_has_the_lock);
    RUN(those_who_sleep_hear_of_every_change);
    return test_main_end();
}
