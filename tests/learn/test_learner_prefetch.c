/* SPDX-License-Identifier: MIT */
/* One thread fills buffers for batches in RAM while another trains on them: the bits of doing it in turn. */
#include "test.h"
#include "support/learn_world.h"

#include <pthread.h>
#include <sched.h>

enum { BATCH = 16, BUFFERS = 3, MOST = 4096 };

static gpur_device *device;
static learn_world world;

static gpur_learner *open_learner(int32_t host_batches)
{
    gpur_learner_config config = world_config(GPUR_HEAD_Q, 0);
    gpur_learner *learner = NULL;
    config.host_batches = host_batches;
    if (world_open(&world, device, 0) != GPUR_OK || gpur_learner_create(world.replay, &config, &learner) != GPUR_OK)
        fprintf(stderr, "no learner: %s\n", gpur_last_error());
    return learner;
}

static void close_learner(gpur_learner *learner)
{
    gpur_learner_destroy(learner);
    world_close(&world);
}

/* A bounded queue of buffers between the thread that fills them and the one that trains. */
typedef struct belt {
    gpur_learner *learner;
    pthread_mutex_t mutex;
    pthread_cond_t moved;
    void *waiting[BUFFERS];
    int64_t filled, trained, steps;
    int asks_again; /* instead of waiting until a buffer is sure to be free */
} belt;

static void wait_for_room(belt *b)
{
    pthread_mutex_lock(&b->mutex);
    while (b->filled - b->trained >= BUFFERS && !b->asks_again)
        pthread_cond_wait(&b->moved, &b->mutex);
    pthread_mutex_unlock(&b->mutex);
}

static void put(belt *b, void *rows)
{
    pthread_mutex_lock(&b->mutex);
    b->waiting[b->filled++ % BUFFERS] = rows;
    pthread_cond_broadcast(&b->moved);
    pthread_mutex_unlock(&b->mutex);
}

static void *wait_for_rows(belt *b)
{
    pthread_mutex_lock(&b->mutex);
    while (b->filled == b->trained)
        pthread_cond_wait(&b->moved, &b->mutex);
    void *const rows = b->waiting[b->trained % BUFFERS];
    pthread_mutex_unlock(&b->mutex);
    return rows;
}

static void count_trained(belt *b)
{
    pthread_mutex_lock(&b->mutex);
    b->trained++;
    pthread_cond_broadcast(&b->moved);
    pthread_mutex_unlock(&b->mutex);
}

static void fill(int64_t t, world_row *rows)
{
    memset(rows, 0xff, BATCH * sizeof *rows);
    for (int64_t i = 0; i < BATCH; i++)
        rows[i] = world.rows[(t * 31 + i * 17) % WORLD_ROWS];
}

static void *prefetch(void *context)
{
    belt *const b = context;
    for (int64_t t = 0; t < b->steps; t++) {
        void *rows = NULL;
        wait_for_room(b);
        gpur_status status = gpur_learner_get_rows(b->learner, &rows);
        for (; b->asks_again && status == GPUR_WOULD_BLOCK; status = gpur_learner_get_rows(b->learner, &rows))
            sched_yield();
        if (status == GPUR_OK)
            fill(t, rows);
        else
            test_fail(__FILE__, __LINE__);
        put(b, rows);
    }
    return NULL;
}

static int64_t weights_alone(int64_t steps, float *values)
{
    gpur_learner *const learner = open_learner(1);
    gpur_status status = learner ? GPUR_OK : GPUR_INVALID_ARGUMENT;
    for (int64_t t = 0; t < steps && status == GPUR_OK; t++) {
        world_row rows[BATCH];
        fill(t, rows);
        status = gpur_learner_train_rows(learner, rows);
    }
    const int64_t count = status == GPUR_OK ? world_weights(learner, GPUR_WEIGHTS_ONLINE, values, MOST) : -1;
    close_learner(learner);
    return count;
}

static void check_prefetching(int asks_again)
{
    static float alone[MOST], together[MOST];
    const int64_t steps = test_is_long() ? 20000 : 500, count = weights_alone(steps, alone);
    belt b = {.mutex = PTHREAD_MUTEX_INITIALIZER,
              .moved = PTHREAD_COND_INITIALIZER,
              .steps = steps,
              .asks_again = asks_again};
    pthread_t thread;
    CHECK((b.learner = open_learner(BUFFERS)));
    CHECK(pthread_create(&thread, NULL, prefetch, &b) == 0);
    int64_t failed = 0;
    for (int64_t t = 0; t < steps; t++) {
        failed += gpur_learner_train_rows(b.learner, wait_for_rows(&b)) != GPUR_OK;
        count_trained(&b);
    }
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK_EQUAL(failed, 0);
    CHECK_EQUAL(world_weights(b.learner, GPUR_WEIGHTS_ONLINE, together, MOST), count);
    CHECK(count > 0 && memcmp(alone, together, (size_t)count * sizeof *alone) == 0);
    close_learner(b.learner);
}

TEST(one_thread_prefetches_while_another_trains)
{
    check_prefetching(0);
}

TEST(a_thread_that_finds_all_buffers_out_may_ask_again)
{
    check_prefetching(1);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
    RUN(one_thread_prefetches_while_another_trains);
    RUN(a_thread_that_finds_all_buffers_out_may_ask_again);
    gpur_device_close(device);
    return test_main_end();
}
