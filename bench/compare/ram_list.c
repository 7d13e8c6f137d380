/* SPDX-License-Identifier: MIT */
/*
 * In-RAM, as in the paper [Parr 2018, sections 4 and 5]: a list of transitions, each allocated for itself, the oldest
 * dropped when it is full. A sample takes distinct ones and copies them into one batch, field by field. Each step
 * samples, copies its batch up and is waited for, as one run of a TensorFlow session is.
 */
#include "backend.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_BATCH = 4096, MARKS = 4 * MAX_BATCH }; /* MARKS: a power of two */

typedef struct list {
    melee_row **transition; /* (capacity) in a ring */
    int64_t capacity, first, size;
    uint64_t random;
    int64_t mark[MARKS]; /* open-addressing set of sampled positions + 1; 0: free, as everywhere between two samples */
    int64_t position[MAX_BATCH];
    uint64_t slot[MAX_BATCH]; /* of their marks */
    melee_row batch[MAX_BATCH];
} list;

static void *open_list(int64_t capacity)
{
    list *const l = bench_allocate(sizeof *l);
    l->capacity = capacity;
    l->transition = bench_allocate((size_t)capacity * sizeof *l->transition);
    return l;
}

static void close_list(void *store)
{
    list *const l = store;
    for (int64_t i = 0; i < l->capacity; i++)
        free(l->transition[i]);
    free(l->transition);
    free(l);
}

/* The index in the ring of position i, 0 being the oldest. */
static int64_t index_of(const list *l, int64_t i)
{
    const int64_t at = l->first + i;
    return at < l->capacity ? at : at - l->capacity;
}

static void append_one(list *l, const melee_row *transition)
{
    melee_row *const copy = malloc(sizeof *copy);
    if (!copy)
        bench_must(GPUR_OUT_OF_MEMORY, "a transition of the list");
    *copy = *transition;
    if (l->size < l->capacity) {
        l->transition[index_of(l, l->size++)] = copy;
        return;
    }
    free(l->transition[l->first]);
    l->transition[l->first] = copy;
    l->first = index_of(l, 1);
}

static void append(backend *b, gpur_writer *writer, int64_t count, const melee_row *rows)
{
    list *const l = b->store;
    (void)writer;
    for (int64_t i = 0; i < count; i++)
        append_one(l, &rows[i]);
}

/* Samples until the position is new, as Python's random.sample() does for small samples. */
static int64_t draw_new(list *l, uint64_t *slot)
{
    for (;;) {
        const int64_t position = bench_random_below(&l->random, l->size);
        uint64_t at = (uint64_t)position * 0x9e3779b97f4a7c15u >> 50;
        while (l->mark[at] != 0 && l->mark[at] != position + 1)
            at = (at + 1) % MARKS;
        if (l->mark[at] == 0) {
            l->mark[at] = position + 1;
            *slot = at;
            return position;
        }
    }
}

/* One pass a field, as a list of tuples is taken apart. */
static void gather(list *l, int64_t count, const int64_t *positions)
{
    melee_row *const batch = l->batch;
    for (int64_t b = 0; b < count; b++)
        memcpy(batch[b].obs, l->transition[index_of(l, positions[b])]->obs, sizeof batch->obs);
    for (int64_t b = 0; b < count; b++)
        batch[b].action = l->transition[index_of(l, positions[b])]->action;
    for (int64_t b = 0; b < count; b++)
        batch[b].reward = l->transition[index_of(l, positions[b])]->reward;
    for (int64_t b = 0; b < count; b++)
        memcpy(batch[b].next_obs, l->transition[index_of(l, positions[b])]->next_obs, sizeof batch->next_obs);
    for (int64_t b = 0; b < count; b++)
        batch[b].terminated = l->transition[index_of(l, positions[b])]->terminated;
}

static void sample(list *l, int64_t count)
{
    if (count > MAX_BATCH || count > l->size)
        bench_must(GPUR_INVALID_ARGUMENT, "a sample of the list");
    for (int64_t b = 0; b < count; b++)
        l->position[b] = draw_new(l, &l->slot[b]);
    for (int64_t b = 0; b < count; b++)
        l->mark[l->slot[b]] = 0;
    gather(l, count, l->position);
}

static void train_batch(const backend *b)
{
    const list *const l = b->store;
    bench_must(gpur_learner_train_host_batch(b->learner, l->batch), "train on rows");
    bench_must(gpur_learner_sync(b->learner), "sync");
}

static void train(backend *b, int64_t steps)
{
    list *const l = b->store;
    for (int64_t i = 0; i < steps; i++) {
        sample(l, b->batch);
        train_batch(b);
    }
}

static void train_on(backend *b, const int64_t *positions)
{
    gather(b->store, b->batch, positions);
    train_batch(b);
}

const backend_kind ram_list = {.name = "in-RAM, as in the paper",
                               .host_batches = 1,
                               .is_in_ram = 1,
                               .open = open_list,
                               .close = close_list,
                               .append = append,
                               .train = train,
                               .train_on = train_on};
