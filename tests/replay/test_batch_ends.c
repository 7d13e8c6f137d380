/* SPDX-License-Identifier: MIT */
/* Batches that are given back by many threads at once, when the replay and the device handle have gone or are going.
 * The sanitizers say what was used after its end; without them most wrong orders crash. */
#include "support/replay_kit.h"
#include "test.h"

#include <pthread.h>

enum { THREADS = 4, COUNT = 100, HELD = 40 };

typedef struct dropper {
    gpur_batch *batch;
    atomic_int *ready;
    int threads;
} dropper;

static void meet(atomic_int *ready, int threads)
{
    atomic_fetch_add(ready, 1);
    while (atomic_load(ready) < threads)
        ;
}

static void *drop(void *context)
{
    dropper *const d = context;
    meet(d->ready, d->threads);
    gpur_batch_release(d->batch);
    return NULL;
}

static int open_scene(kit_scene *s)
{
    const gpur_replay_config config = kit_plain_config(300, 20, 130, GPUR_FLUSH_AUTO);
    return kit_open(s, test_device(), &config, 1) && kit_append_next(s, 300) == GPUR_OK;
}

static int rounds(void)
{
    return test_is_long() ? 4000 : 300;
}

TEST(the_last_batches_may_be_released_all_at_once)
{
    for (int round = 0; round < rounds(); round++) {
        dropper droppers[THREADS];
        pthread_t threads[THREADS];
        atomic_int ready = 0;
        kit_scene s;
        CHECK(open_scene(&s));
        for (int i = 0; i < THREADS; i++) {
            droppers[i] = (dropper){NULL, &ready, THREADS};
            CHECK_OK(gpur_replay_sample(s.replay, COUNT, NULL, &droppers[i].batch));
        }
        kit_close(&s);
        for (int i = 0; i < THREADS; i++)
            CHECK(pthread_create(&threads[i], NULL, drop, &droppers[i]) == 0);
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
    }
}

TEST(a_batch_may_be_released_while_its_replay_goes)
{
    for (int round = 0; round < rounds(); round++) {
        gpur_batch *held[HELD];
        atomic_int ready = 0;
        pthread_t thread;
        kit_scene s;
        CHECK(open_scene(&s));
        for (int i = 0; i < HELD; i++)
            CHECK_OK(gpur_replay_sample(s.replay, COUNT, NULL, &held[i]));
        for (int i = 1; i < HELD; i++) /* idle: the replay has them to destroy */
            gpur_batch_release(held[i]);
        dropper d = {held[0], &ready, 2};
        CHECK(pthread_create(&thread, NULL, drop, &d) == 0);
        meet(&ready, 2);
        kit_close(&s);
        pthread_join(thread, NULL);
    }
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(the_last_batches_may_be_released_all_at_once);
    RUN(a_batch_may_be_released_while_its_replay_goes);
    return test_main_end();
}
