/* SPDX-License-Identifier: MIT */
#include "replay/writer/frame_history.h"

#include "base/numbers.h"
#include "gpureplay/writer.h"
#include "replay/writer/env_state.h"

#include <inttypes.h>
#include <string.h>

void gpur_frame_history_plan(gpur_frame_history *history, const gpur_ring_layout *layout, int32_t num_envs,
                             int32_t observations, int32_t n_step)
{
    const gpur_frame_layout *const frame_layout = &layout->frame_layout;
    if (frame_layout->stack == 0)
        return;
    history->layout = frame_layout;
    history->num_envs = num_envs;
    history->observations = observations;
    history->room = gpur_power_above(frame_layout->stack + n_step - 1);
    history->input_bytes =
        frame_layout->frame_bytes * (observations == GPUR_OBSERVATIONS_FRAMES ? 1 : frame_layout->stack);
}

gpur_status gpur_frame_history_build(gpur_frame_history *history, gpur_device *device, const gpur_ring_layout *layout,
                                     int32_t num_envs, int32_t observations, int32_t n_step)
{
    gpur_frame_history_plan(history, layout, num_envs, observations, n_step);
    if (history->room == 0)
        return GPUR_OK;
    history->device = device;
    const gpur_frame_layout *const frame_layout = history->layout;
    const int64_t all = num_envs * history->room;
    const int64_t last = gpur_round_up(num_envs * (int64_t)sizeof *history->last, 64);
    const int64_t entries = gpur_round_up(all * (int64_t)sizeof *history->entries, 64);
    history->bytes = (size_t)(last + entries + all * frame_layout->frame_bytes);
    unsigned char *const memory = gpur_host_alloc(device, history->bytes);
    if (!memory)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for the last frames of %d environments, %zu bytes",
                         (int)num_envs, history->bytes);
    history->last = (int64_t *)(void *)memory;
    history->entries = (gpur_frame_entry *)(void *)(memory + last);
    history->frames = memory + last + entries;
    return GPUR_OK;
}

void gpur_frame_history_destroy(gpur_frame_history *history)
{
    if (history->last)
        gpur_host_free(history->device, history->last, history->bytes);
}

void gpur_frame_history_invalidate(gpur_frame_history *history)
{
    for (int64_t i = 0; i < history->num_envs * history->room; i++)
        history->entries[i].id = -1;
}

void gpur_frame_history_renumber(gpur_frame_history *history, const uint32_t *numbers)
{
    for (int64_t i = 0; i < history->num_envs * history->room; i++) {
        gpur_frame_entry *const entry = &history->entries[i];
        entry->link = entry->id < 0 ? 0 : numbers[entry->id];
        entry->id = (int64_t)entry->link - 1;
    }
}

static gpur_frame_entry *entry_of(const gpur_frame_history *h, int64_t env, int64_t frame)
{
    return &h->entries[env * h->room + (frame & (h->room - 1))];
}

static unsigned char *frame_of(const gpur_frame_history *h, int64_t env, int64_t frame)
{
    return h->frames + (env * h->room + (frame & (h->room - 1))) * h->layout->frame_bytes;
}

/* Copies frame j of a caller's observation to `to`. */
static void read_stack_frame(const gpur_frame_history *h, unsigned char *to, const unsigned char *obs, int64_t j)
{
    const gpur_frame_layout *const l = h->layout;
    const int64_t step = l->stack * l->element;
    if (h->observations == GPUR_OBSERVATIONS_FRAMES || !l->stack_is_last) {
        memcpy(to, obs + (h->observations == GPUR_OBSERVATIONS_FRAMES ? 0 : j * l->frame_bytes),
               (size_t)l->frame_bytes);
        return;
    }
    for (int64_t at = 0; at < l->frame_bytes; at += l->element)
        memcpy(to + at, obs + at / l->element * step + j * l->element, (size_t)l->element);
}

static int is_zero(const unsigned char *bytes, int64_t count)
{
    return bytes[0] == 0 && memcmp(bytes, bytes + 1, (size_t)(count - 1)) == 0;
}

static void set_entry(const gpur_frame_history *h, int64_t env, int64_t frame, int64_t alias)
{
    const gpur_frame_entry entry = {alias, -1, 0};
    *entry_of(h, env, frame) = entry;
}

/* Takes the padding from the stack that the caller gave: a frame of zeros is no frame, and a copy of the first real
 * frame is an alias of it. Any other frame is stored as it is. */
static void pad_as_given(gpur_frame_history *h, int64_t env, const unsigned char *obs, int64_t first)
{
    const size_t bytes = (size_t)h->layout->frame_bytes;
    for (int64_t frame = 0; frame < first; frame++) {
        unsigned char *const here = frame_of(h, env, frame);
        read_stack_frame(h, here, obs, frame);
        const int alias = memcmp(here, frame_of(h, env, first), bytes) == 0;
        set_entry(h, env, frame, is_zero(here, (int64_t)bytes) ? GPUR_FRAME_NONE : alias ? first : frame);
    }
}

void gpur_frame_history_begin(gpur_frame_history *h, int64_t env, const unsigned char *obs)
{
    const int64_t first = h->layout->stack - 1;
    h->last[env] = first;
    set_entry(h, env, first, first);
    read_stack_frame(h, frame_of(h, env, first), obs, first);
    if (h->observations == GPUR_OBSERVATIONS_STACKS)
        pad_as_given(h, env, obs, first);
    else
        for (int64_t frame = 0; frame < first; frame++)
            set_entry(h, env, frame, h->layout->pad_repeats ? first : GPUR_FRAME_NONE);
}

void gpur_frame_history_add(gpur_frame_history *h, int64_t env, const unsigned char *obs)
{
    const int64_t frame = ++h->last[env];
    set_entry(h, env, frame, frame);
    read_stack_frame(h, frame_of(h, env, frame), obs, h->layout->stack - 1);
}

/* 1 if two numbers are the same bit for bit, or both are zero: -0.0 is 0.0. */
static int equals_number(const gpur_frame_layout *l, const unsigned char *one, const unsigned char *other)
{
    const size_t bytes = (size_t)l->element;
    uint32_t a = 0, b = 0;
    if (memcmp(one, other, bytes) == 0)
        return 1;
    if (!l->has_floats)
        return 0;
    memcpy(&a, one, bytes), memcpy(&b, other, bytes);
    return (a | b) << (33 - 8 * bytes) == 0; /* without their signs */
}

/* 1 if frame j of the caller's stack equals `frame`; NULL is a frame of zeros. */
static int equals_stack_frame(const gpur_frame_history *h, const unsigned char *obs, int64_t j,
                              const unsigned char *frame)
{
    static const unsigned char zero[sizeof(int64_t)];
    const gpur_frame_layout *const l = h->layout;
    const int64_t step = l->stack_is_last ? l->stack * l->element : l->element;
    const unsigned char *number = obs + j * (l->stack_is_last ? l->element : l->frame_bytes);
    if (!l->stack_is_last &&
        (frame ? memcmp(number, frame, (size_t)l->frame_bytes) == 0 : is_zero(number, l->frame_bytes)))
        return 1;
    for (int64_t at = 0; at < l->frame_bytes; at += l->element, number += step)
        if (!equals_number(l, number, frame ? frame + at : zero))
            return 0;
    return 1;
}

/* The frame of an entry, with aliases resolved; NULL if it stands for no frame. */
static const unsigned char *find_frame(const gpur_frame_history *h, int64_t env, int64_t frame)
{
    const int64_t alias = entry_of(h, env, frame)->alias_of;
    return alias == GPUR_FRAME_NONE ? NULL : frame_of(h, env, alias);
}

gpur_status gpur_frame_history_check(const gpur_frame_history *h, int64_t env, const unsigned char *obs,
                                     const char *what)
{
    const int64_t older = h->layout->stack - 1, first = h->last[env] - older + 1;
    if (h->observations == GPUR_OBSERVATIONS_FRAMES)
        return GPUR_OK;
    for (int64_t j = 0; j < older; j++)
        GPUR_REQUIRE(equals_stack_frame(h, obs, j, find_frame(h, env, first + j)),
                     "%s of environment %" PRId64 " has a frame %" PRId64 " of its stack, the oldest being 0, that is "
                     "not frame %" PRId64 " of the stack before; only the newest may be new",
                     what, env, j, j + 1);
    return GPUR_OK;
}

/* Writes frame j of a stack in the caller's form; NULL is a frame of zeros. */
static void write_stack_frame(const gpur_frame_layout *l, unsigned char *obs, int64_t j, const unsigned char *frame)
{
    const int64_t each = l->stack_is_last ? l->element : l->frame_bytes, step = l->stack_is_last ? l->stack * each : 0;
    unsigned char *to = obs + j * each;
    for (int64_t at = 0; at < l->frame_bytes; at += each, to += step)
        if (frame)
            memcpy(to, frame + at, (size_t)each);
        else
            memset(to, 0, (size_t)each);
}

void gpur_frame_history_get(const gpur_frame_history *h, int64_t env, unsigned char *obs)
{
    const int64_t stack = h->layout->stack, last = h->last[env];
    if (h->observations == GPUR_OBSERVATIONS_FRAMES)
        memcpy(obs, frame_of(h, env, last), (size_t)h->layout->frame_bytes);
    else
        for (int64_t j = 0; j < stack; j++)
            write_stack_frame(h->layout, obs, j, find_frame(h, env, last - stack + 1 + j));
}

/* The state while the links of one row are built. */
typedef struct link_builder {
    gpur_frame_history *history;
    const gpur_frame_store *store;
    int64_t env, oldest;
} link_builder;

static uint32_t link_of(link_builder *l, int64_t frame)
{
    const gpur_frame_store *const store = l->store;
    const int64_t alias = entry_of(l->history, l->env, frame)->alias_of;
    if (alias == GPUR_FRAME_NONE)
        return 0;
    gpur_frame_entry *const entry = entry_of(l->history, l->env, alias);
    if (entry->id < 0 || store->head - entry->id > store->reach) {
        unsigned char *const to = store->claim(store, &entry->id);
        memcpy(to, frame_of(l->history, l->env, alias), (size_t)l->history->layout->frame_bytes);
        entry->link = (uint32_t)(entry->id % store->slots) + 1;
    }
    l->oldest = entry->id < l->oldest ? entry->id : l->oldest;
    return entry->link;
}

int64_t gpur_frame_history_link(gpur_frame_history *h, const gpur_frame_store *store, int64_t env, int64_t steps,
                                uint32_t *links)
{
    const int64_t stack = h->layout->stack, next = h->last[env] - stack + 1;
    link_builder l = {h, store, env, store->head};
    for (int64_t j = 0; j < stack; j++)
        links[j] = link_of(&l, next - steps + j);
    for (int64_t j = 0; j < stack; j++)
        links[stack + j] = link_of(&l, next + j);
    return l.oldest;
}
