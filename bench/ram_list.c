/* SPDX-License-Identifier: MIT */
#include "ram_list.h"
#include "ram_random.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 4096, MARKS = 4 * MOST }; /* of a sample, and of the table that finds duplicates: a power of two */

struct ram_list {
    melee_row **transition; /* (capacity) in a ring */
    int64_t capacity, first, size;
    uint64_t random;
    int64_t mark[MARKS]; /* places drawn + 1; 0: none, as everywhere between two samples */
    int64_t place[MOST];
    uint64_t spot[MOST]; /* of their marks */
};

ram_list *ram_list_create(int64_t capacity)
{
    ram_list *const list = calloc(1, sizeof *list);
    if (!list)
        return NULL;
    list->capacity = capacity;
    list->transition = calloc((size_t)capacity, sizeof *list->transition);
    if (list->transition)
        return list;
    free(list);
    return NULL;
}

void ram_list_destroy(ram_list *list)
{
    if (!list)
        return;
    for (int64_t i = 0; i < list->capacity; i++)
        free(list->transition[i]);
    free(list->transition);
    free(list);
}

/* The place `i` behind the oldest. */
static int64_t slot(const ram_list *list, int64_t i)
{
    const int64_t at = list->first + i;
    return at < list->capacity ? at : at - list->capacity;
}

void ram_list_append(ram_list *list, const melee_row *transition)
{
    melee_row *const copy = malloc(sizeof *copy);
    if (!copy)
        bench_must(GPUR_OUT_OF_MEMORY, "a transition of the list");
    *copy = *transition;
    if (list->size < list->capacity) {
        list->transition[slot(list, list->size++)] = copy;
        return;
    }
    free(list->transition[list->first]);
    list->transition[list->first] = copy;
    list->first = slot(list, 1);
}

int64_t ram_list_size(const ram_list *list)
{
    return list->size;
}

int64_t ram_list_bytes(const ram_list *list)
{
    const int64_t header = sizeof(size_t); /* of an allocation */
    int64_t bytes = (int64_t)sizeof *list + list->capacity * (int64_t)sizeof *list->transition;
    for (int64_t i = 0; i < list->size; i++)
        bytes += (int64_t)malloc_usable_size(list->transition[slot(list, i)]) + header;
    return bytes;
}

/* Draws until it is one that was not drawn before, as random.sample() of Python does for samples that are small. */
static int64_t draw_new(ram_list *list, uint64_t *spot)
{
    for (;;) {
        const int64_t place = ram_random_below(&list->random, list->size);
        uint64_t at = (uint64_t)place * 0x9e3779b97f4a7c15u >> 50;
        while (list->mark[at] != 0 && list->mark[at] != place + 1)
            at = (at + 1) % MARKS;
        if (list->mark[at] == 0) {
            list->mark[at] = place + 1;
            *spot = at;
            return place;
        }
    }
}

void ram_list_sample(ram_list *list, int64_t count, melee_row *batch)
{
    if (count > MOST || count > list->size)
        bench_must(GPUR_INVALID_ARGUMENT, "a sample of the list");
    for (int64_t b = 0; b < count; b++)
        list->place[b] = draw_new(list, &list->spot[b]);
    for (int64_t b = 0; b < count; b++)
        list->mark[list->spot[b]] = 0;
    ram_list_gather(list, count, list->place, batch);
}

/* One pass a field, as a list of tuples is taken apart. */
void ram_list_gather(const ram_list *list, int64_t count, const int64_t *places, melee_row *batch)
{
    for (int64_t b = 0; b < count; b++)
        memcpy(batch[b].obs, list->transition[slot(list, places[b])]->obs, sizeof batch->obs);
    for (int64_t b = 0; b < count; b++)
        batch[b].action = list->transition[slot(list, places[b])]->action;
    for (int64_t b = 0; b < count; b++)
        batch[b].reward = list->transition[slot(list, places[b])]->reward;
    for (int64_t b = 0; b < count; b++)
        memcpy(batch[b].next_obs, list->transition[slot(list, places[b])]->next_obs, sizeof batch->next_obs);
    for (int64_t b = 0; b < count; b++)
        batch[b].terminated = list->transition[slot(list, places[b])]->terminated;
}
