/* SPDX-License-Identifier: MIT */
/* Queues: order, what happens without room, threads that stop waiting, and how many updates an item can wait. */
#include "run/ga3c/queue.h"
#include "gpureplay/ga3c.h"
#include "test.h"

#include <pthread.h>

enum { ROOM = 5, THREADS = 6, ITEMS = 400 };

static const _Atomic int goes_on = 0;
static int items[64];

static int64_t take(gpur_queue *queue, void **taken, int64_t most)
{
    return gpur_queue_take(queue, taken, most, &goes_on, 1);
}

TEST(a_full_queue_refuses_or_drops_the_oldest)
{
    void *taken[16];
    for (int32_t when_full = GPUR_QUEUE_REFUSE; when_full <= GPUR_QUEUE_DROP_OLDEST; when_full++) {
        gpur_queue queue = {0};
        CHECK_OK(gpur_queue_open(&queue, ROOM, 0, when_full, NULL));
        for (int i = 0; i < ROOM; i++)
            CHECK(gpur_queue_put(&queue, &items[i], NULL) == NULL);
        for (int i = ROOM; i < ROOM + 3; i++) {
            const int *const dropped = gpur_queue_put(&queue, &items[i], NULL);
            CHECK_EQUAL(dropped - items, when_full == GPUR_QUEUE_REFUSE ? i : i - ROOM);
        }
        gpur_queue_flush(&queue, 1);
        CHECK_EQUAL(take(&queue, taken, 2), 2);
        CHECK_EQUAL(take(&queue, taken + 2, 16), ROOM - 2);
        CHECK_EQUAL(take(&queue, taken, 16), 0);
        for (int i = 0; i < ROOM; i++)
            if (i >= 2)
                CHECK_EQUAL((int *)taken[i] - items, when_full == GPUR_QUEUE_REFUSE ? i : i + 3);
        CHECK_NEAR(gpur_queue_read(&queue).mean_length, 0.5 * (ROOM + ROOM - 2), 1e-12);
        gpur_queue_close(&queue);
    }
}

/* An item behind the room belongs to its thread until it moves up. */
TEST(an_item_that_waits_can_be_taken_back_and_others_keep_their_order)
{
    enum { WAITING = 5 };
    gpur_queue queue = {0};
    gpur_queue_waiter waiters[WAITING] = {0}, first = {0};
    const _Atomic int must_end = 1;
    void *taken[16];
    CHECK_OK(gpur_queue_open(&queue, 2, WAITING, GPUR_QUEUE_WAIT, NULL));
    sem_init(&first.admitted, 0, 0);
    for (int i = 0; i < WAITING; i++)
        sem_init(&waiters[i].admitted, 0, 0);
    for (int i = 0; i < 2; i++)
        CHECK(gpur_queue_put(&queue, &items[i], &first) == NULL);
    CHECK(gpur_queue_wait(&queue, &first, &goes_on) == NULL);
    for (int i = 0; i < WAITING; i++)
        CHECK(gpur_queue_put(&queue, &items[2 + i], &waiters[i]) == NULL);
    CHECK(gpur_queue_wait(&queue, &waiters[1], &must_end) == &items[3]);
    CHECK_EQUAL(take(&queue, taken, 1), 1);
    CHECK(gpur_queue_wait(&queue, &waiters[0], &must_end) == NULL);
    CHECK(gpur_queue_wait(&queue, &waiters[4], &must_end) == &items[6]);
    gpur_queue_flush(&queue, 1);
    CHECK_EQUAL(take(&queue, taken + 1, 8), 4);
    CHECK(taken[0] == &items[0] && taken[1] == &items[1] && taken[2] == &items[2]);
    CHECK(taken[3] == &items[4] && taken[4] == &items[5]);
    for (int i = 0; i < WAITING; i++)
        sem_destroy(&waiters[i].admitted);
    sem_destroy(&first.admitted);
    gpur_queue_close(&queue);
}

/* Many threads on both sides. */

static gpur_queue shared;
static _Atomic int64_t updates, received[THREADS * ITEMS];
static _Atomic int is_over;
static int tokens[THREADS * ITEMS];

static void *put_many(void *context)
{
    const int64_t thread = *(const int *)context;
    gpur_queue_waiter waiter = {0};
    sem_init(&waiter.admitted, 0, 0);
    for (int64_t i = 0; i < ITEMS; i++) {
        (void)gpur_queue_put(&shared, &tokens[thread * ITEMS + i], &waiter);
        (void)gpur_queue_wait(&shared, &waiter, &goes_on);
    }
    sem_destroy(&waiter.admitted);
    return NULL;
}

/* Takes one or more, and counts an update for each time. */
static void *take_many(void *context)
{
    const int most = *(const int *)context;
    void *taken[8];
    for (;;) {
        const int64_t count = gpur_queue_take(&shared, taken, most, &is_over, 0);
        for (int64_t i = 0; i < count; i++)
            atomic_fetch_add(&received[(int *)taken[i] - tokens], 1);
        if (count == 0)
            return NULL;
        atomic_fetch_add(&updates, 1);
    }
}

TEST(each_item_arrives_once_and_waits_for_no_more_updates_than_there_can_be)
{
    static const int most[3] = {1, 1, 8};
    static int numbers[THREADS];
    pthread_t putting[THREADS], taking[3];
    CHECK_OK(gpur_queue_open(&shared, ROOM, THREADS, GPUR_QUEUE_WAIT, &updates));
    for (int i = 0; i < 3; i++)
        CHECK(pthread_create(&taking[i], NULL, take_many, (void *)(intptr_t)&most[i]) == 0);
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        CHECK(pthread_create(&putting[i], NULL, put_many, &numbers[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(putting[i], NULL);
    for (int64_t i = 0; i < THREADS * ITEMS; i++)
        while (atomic_load(&received[i]) == 0)
            sched_yield();
    atomic_store(&is_over, 1);
    gpur_queue_wake(&shared);
    for (int i = 0; i < 3; i++)
        pthread_join(taking[i], NULL);
    for (int64_t i = 0; i < THREADS * ITEMS; i++)
        CHECK_EQUAL(atomic_load(&received[i]), 1);
    CHECK(gpur_queue_read(&shared).longest <= ROOM + THREADS + 3);
    CHECK(gpur_queue_read(&shared).mean_length <= ROOM);
    gpur_queue_close(&shared);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(a_full_queue_refuses_or_drops_the_oldest);
    RUN(an_item_that_waits_can_be_taken_back_and_others_keep_their_order);
    RUN(each_item_arrives_once_and_waits_for_no_more_updates_than_there_can_be);
    return test_main_end();
}
