/* SPDX-License-Identifier: MIT */
/*
 * In-RAM, done well: one block of packed rows in a ring, appended to by memcpy, sampled with the next rows
 * prefetched. Batches go into pinned buffers, and from there to the device while the step before runs; training waits
 * only for a free buffer. The buffers are filled by a thread of its own or by the thread that trains: which is faster
 * depends on the machine.
 */
#include "backend.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { MAX_BATCH = 4096, AHEAD = 12, LINE = 64, HUGE_PAGE = 2 << 20, BUFFERS = 4 };

/* The thread that fills buffers. */
typedef struct filler {
    pthread_t thread;
    sem_t free_buffers, filled;
    atomic_int stopping;
    void *queue[BUFFERS];
    int64_t put, taken; /* put is the filler's own, taken the training thread's */
} filler;

typedef struct row_store {
    melee_row *row; /* (capacity) in a ring */
    int64_t capacity, first, size;
    uint64_t random;
    int64_t position[MAX_BATCH];
    pthread_mutex_t mutex; /* between appending and the filler */
    int has_filler;
    filler filler;
} row_store;

static void *open_store(int64_t capacity)
{
    row_store *const s = bench_allocate(sizeof *s);
    const size_t bytes = (size_t)capacity * sizeof *s->row;
    void *memory = NULL;
    if (posix_memalign(&memory, HUGE_PAGE, bytes) != 0)
        bench_must(GPUR_OUT_OF_MEMORY, "the rows in RAM");
    madvise(memory, bytes, MADV_HUGEPAGE); /* fewer page walks; without it everything is slower */
    s->row = memory;
    s->capacity = capacity;
    pthread_mutex_init(&s->mutex, NULL);
    return s;
}

static void close_store(void *store)
{
    row_store *const s = store;
    pthread_mutex_destroy(&s->mutex);
    free(s->row);
    free(s);
}

/* The index in the ring of position i, 0 being the oldest. */
static int64_t index_of(const row_store *s, int64_t i)
{
    const int64_t at = s->first + i;
    return at < s->capacity ? at : at - s->capacity;
}

/* Of at most as many rows as there are to the end of the ring. */
static void append_part(row_store *s, int64_t count, const melee_row *rows)
{
    const int64_t room = s->capacity - s->size;
    memcpy(s->row + index_of(s, room > 0 ? s->size : 0), rows, (size_t)count * sizeof *rows);
    s->size += count < room ? count : room;
    s->first = index_of(s, count < room ? 0 : count - room);
}

static void append(backend *b, gpur_writer *writer, int64_t count, const melee_row *rows)
{
    row_store *const s = b->store;
    (void)writer;
    if (s->has_filler)
        pthread_mutex_lock(&s->mutex);
    const int64_t to_end = s->capacity - index_of(s, s->size < s->capacity ? s->size : 0);
    const int64_t head = count < to_end ? count : to_end;
    append_part(s, head, rows);
    if (head < count)
        append_part(s, count - head, rows + head);
    if (s->has_filler)
        pthread_mutex_unlock(&s->mutex);
}

static void prefetch(const row_store *s, int64_t position)
{
    const char *const at = (const char *)(s->row + index_of(s, position));
    for (size_t byte = 0; byte < sizeof *s->row; byte += LINE)
        __builtin_prefetch(at + byte);
    __builtin_prefetch(at + sizeof *s->row - 1); /* a row of 228 bytes may reach into a fifth line */
}

static void gather(const row_store *s, int64_t count, const int64_t *positions, melee_row *batch)
{
    for (int64_t b = 0; b < AHEAD && b < count; b++)
        prefetch(s, positions[b]);
    for (int64_t b = 0; b < count; b++) {
        if (b + AHEAD < count)
            prefetch(s, positions[b + AHEAD]);
        batch[b] = s->row[index_of(s, positions[b])];
    }
}

static void sample(row_store *s, int64_t count, melee_row *batch)
{
    if (count > MAX_BATCH || s->size == 0)
        bench_must(GPUR_INVALID_ARGUMENT, "a sample of the rows");
    pthread_mutex_lock(&s->mutex);
    for (int64_t b = 0; b < count; b++)
        s->position[b] = bench_random_below(&s->random, s->size);
    gather(s, count, s->position, batch);
    pthread_mutex_unlock(&s->mutex);
}

static void *fill_buffers(void *context)
{
    backend *const b = context;
    row_store *const s = b->store;
    filler *const f = &s->filler;
    for (;;) {
        void *batch = NULL;
        sem_wait(&f->free_buffers);
        if (atomic_load(&f->stopping))
            return NULL;
        bench_must(gpur_learner_acquire_host_batch(b->learner, &batch), "a buffer");
        sample(s, b->batch, batch);
        f->queue[f->put++ % BUFFERS] = batch;
        sem_post(&f->filled);
    }
}

static void start_filler(backend *b)
{
    filler *const f = &((row_store *)b->store)->filler;
    *f = (filler){.put = 0};
    sem_init(&f->free_buffers, 0, BUFFERS);
    sem_init(&f->filled, 0, 0);
    if (pthread_create(&f->thread, NULL, fill_buffers, b) != 0)
        bench_must(GPUR_OUT_OF_MEMORY, "a thread that fills buffers");
}

static void stop_filler(backend *b)
{
    filler *const f = &((row_store *)b->store)->filler;
    atomic_store(&f->stopping, 1);
    sem_post(&f->free_buffers);
    pthread_join(f->thread, NULL);
    while (f->taken < f->put)
        bench_must(gpur_learner_release_host_batch(b->learner, f->queue[f->taken++ % BUFFERS]), "a buffer");
    sem_destroy(&f->free_buffers);
    sem_destroy(&f->filled);
}

static void use_thread(backend *b, int on)
{
    row_store *const s = b->store;
    if (on && !s->has_filler)
        start_filler(b);
    if (!on && s->has_filler)
        stop_filler(b);
    s->has_filler = on;
}

static void train(backend *b, int64_t steps)
{
    row_store *const s = b->store;
    filler *const f = &s->filler;
    for (int64_t i = 0; i < steps; i++) {
        void *batch = NULL;
        if (s->has_filler) {
            sem_wait(&f->filled);
            bench_must(gpur_learner_train_host_batch(b->learner, f->queue[f->taken++ % BUFFERS]), "train on rows");
            sem_post(&f->free_buffers);
            continue;
        }
        bench_must(gpur_learner_acquire_host_batch(b->learner, &batch), "a buffer");
        sample(s, b->batch, batch);
        bench_must(gpur_learner_train_host_batch(b->learner, batch), "train on rows");
    }
}

static void train_on(backend *b, const int64_t *positions)
{
    void *batch = NULL;
    bench_must(gpur_learner_acquire_host_batch(b->learner, &batch), "a buffer");
    gather(b->store, b->batch, positions, batch);
    bench_must(gpur_learner_train_host_batch(b->learner, batch), "train on rows");
}

const backend_kind ram_rows = {.name = "in-RAM, done well",
                               .host_batches = BUFFERS,
                               .is_in_ram = 1,
                               .open = open_store,
                               .close = close_store,
                               .append = append,
                               .train = train,
                               .train_on = train_on,
                               .use_thread = use_thread};
