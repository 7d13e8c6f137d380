/* SPDX-License-Identifier: MIT */
/* Appends of device arrays beside other writers. On the CPU the scatter feed reads any arrays where they lie. */
#include "support/gate_cpu.h"
#include "replay/replay.h"
#include "support/replay_kit.h"
#include "test.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <time.h>

static int64_t appended(kit_scene *s)
{
    gpur_replay_stats stats = {.size = sizeof stats};
    return gpur_replay_get_stats(s->replay, &stats) == GPUR_OK ? stats.appended : -1;
}

/* Somebody at a closed gate, and somebody who opens it when told to, or after ten seconds without a word. */
typedef struct hold {
    kit_scene *scene;
    gate copies;
    sem_t enough;
    atomic_int opened, returned;
    gpur_status status;
} hold;

static void *append_three_arrays(void *context)
{
    hold *const h = context;
    void *arrays[GPUR_MAX_FIELDS];
    gpur_writer *writer = NULL;
    kit_arrays(&h->scene->kit, 0, 3, arrays);
    h->status = gpur_writer_create(h->scene->replay, 1, &writer);
    if (h->status == GPUR_OK)
        h->status = gpur_writer_append_fields(writer, 3, (const void *const *)arrays, NULL, NULL);
    atomic_store(&h->returned, 1);
    for (int32_t f = 0; f < h->scene->kit.count; f++)
        free(arrays[f]);
    gpur_writer_destroy(writer);
    return NULL;
}

static void *open_when_told(void *context)
{
    hold *const h = context;
    struct timespec limit;
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += 600;
    while (sem_timedwait(&h->enough, &limit) != 0 && errno == EINTR)
        ;
    atomic_store(&h->opened, 1);
    gate_open(&h->copies);
    return NULL;
}

/* While the arrays are not read, their own append waits, and nobody else. */
static void check_others_go_on(hold *h)
{
    while (appended(h->scene) < 3)
        sched_yield();
    CHECK_OK(kit_append(&h->scene->kit, h->scene->writer, 3, 5));
    CHECK_EQUAL(appended(h->scene), 8);
    CHECK(!atomic_load(&h->returned));
    CHECK(!atomic_load(&h->opened));
}

TEST(an_append_that_waits_for_its_arrays_to_be_read_lets_others_go_on)
{
    gpur_replay_config config = kit_plain_config(100, 10, 20, GPUR_FLUSH_AUTO);
    pthread_t threads[2];
    kit_scene s;
    hold h = {.scene = &s};
    if (test_on_cuda() || test_executor() == GPUR_EXECUTOR_INLINE)
        return; /* nothing waits there */
    config.feed = GPUR_FEED_SCATTER;
    gate_init(&h.copies);
    sem_init(&h.enough, 0, 0);
    CHECK(kit_open(&s, test_device(), &config, 1));
    CHECK_OK(gate_close(&h.copies, s.replay->ring.copy_stream));
    CHECK(pthread_create(&threads[0], NULL, append_three_arrays, &h) == 0);
    CHECK(pthread_create(&threads[1], NULL, open_when_told, &h) == 0);
    check_others_go_on(&h);
    sem_post(&h.enough);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    CHECK_OK(h.status);
    CHECK_OK(kit_gather(&s, 8, (const int64_t[]){0, 1, 2, 3, 4, 5, 6, 7}));
    kit_close(&s);
    sem_destroy(&h.enough);
    gate_destroy(&h.copies);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(an_append_that_waits_for_its_arrays_to_be_read_lets_others_go_on);
    return test_main_end();
}
