/* SPDX-License-Identifier: MIT */
#include "replay/writer/frame_history.h"

#include "gpureplay/writer.h"
#include "replay/writer/env_state.h"

#include <inttypes.h>
#include <string.h>

static int64_t round_up(int64_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

void gpur_history_plan(gpur_history *history, const gpur_storage *storage, int32_t num_envs, int32_t input,
                       int32_t n_step)
{
    const gpur_linking *const linking = &storage->linking;
    if (linking->stack == 0)
        return;
    history->linking = linking;
    history->num_envs = num_envs;
    history->input = input;
    history->room = gpur_power_above(linking->stack + n_step - 1);
    history->input_bytes = linking->frame_bytes * (input == GPUR_INPUT_FRAMES ? 1 : linking->stack);
}

gpur_status gpur_history_build(gpur_history *history, gpur_device *device, const gpur_storage *storage,
                               int32_t num_envs, int32_t input, int32_t n_step)
{
    gpur_history_plan(history, storage, num_envs, input, n_step);
    if (history->room == 0)
        return GPUR_OK;
    history->device = device;
    const gpur_linking *const linking = history->linking;
    const int64_t all = num_envs * history->room;
    const int64_t newest = round_up(num_envs * (int64_t)sizeof *history->newest);
    const int64_t places = round_up(all * (int64_t)sizeof *history->places);
    history->bytes = (size_t)(newest + places + all * linking->frame_bytes);
    unsigned char *const memory = gpur_host_alloc(device, history->bytes);
    if (!memory)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for the last frames of %d environments, %zu bytes",
                         (int)num_envs, history->bytes);
    history->newest = (int64_t *)(void *)memory;
    history->places = (gpur_frame_place *)(void *)(memory + newest);
    history->frames = memory + newest + places;
    return GPUR_OK;
}

void gpur_history_destroy(gpur_history *history)
{
    if (history->newest)
        gpur_host_free(history->device, history->newest, history->bytes);
}

void gpur_history_forget(gpur_history *history)
{
    for (int64_t i = 0; i < history->num_envs * history->room; i++)
        history->places[i].id = -1;
}

static gpur_frame_place *place_of(const gpur_history *h, int64_t env, int64_t frame)
{
    return &h->places[env * h->room + (frame & (h->room - 1))];
}

static unsigned char *frame_of(const gpur_history *h, int64_t env, int64_t frame)
{
    return h->frames + (env * h->room + (frame & (h->room - 1))) * h->linking->frame_bytes;
}

/* Copies frame j of a caller's observation to `to`. */
static void copy_given(const gpur_history *h, unsigned char *to, const unsigned char *obs, int64_t j)
{
    const gpur_linking *const l = h->linking;
    const int64_t step = l->stack * l->element;
    if (h->input == GPUR_INPUT_FRAMES || !l->is_last) {
        memcpy(to, obs + (h->input == GPUR_INPUT_FRAMES ? 0 : j * l->frame_bytes), (size_t)l->frame_bytes);
        return;
    }
    for (int64_t at = 0; at < l->frame_bytes; at += l->element)
        memcpy(to + at, obs + at / l->element * step + j * l->element, (size_t)l->element);
}

static int is_zero(const unsigned char *bytes, int64_t count)
{
    return bytes[0] == 0 && memcmp(bytes, bytes + 1, (size_t)(count - 1)) == 0;
}

static void set(const gpur_history *h, int64_t env, int64_t frame, int64_t same)
{
    const gpur_frame_place place = {same, -1, 0};
    *place_of(h, env, frame) = place;
}

/* Takes the padding from the stack that the caller gave: a frame of zeros is no frame, and a copy of the first real
 * frame is an alias of it. Any other frame is stored as it is. */
static void pad_as_given(gpur_history *h, int64_t env, const unsigned char *obs, int64_t first)
{
    const size_t bytes = (size_t)h->linking->frame_bytes;
    for (int64_t frame = 0; frame < first; frame++) {
        unsigned char *const here = frame_of(h, env, frame);
        copy_given(h, here, obs, frame);
        const int same = memcmp(here, frame_of(h, env, first), bytes) == 0;
        set(h, env, frame, is_zero(here, (int64_t)bytes) ? GPUR_FRAME_NONE : same ? first : frame);
    }
}

void gpur_history_begin(gpur_history *h, int64_t env, const unsigned char *obs)
{
    const int64_t first = h->linking->stack - 1;
    h->newest[env] = first;
    set(h, env, first, first);
    copy_given(h, frame_of(h, env, first), obs, first);
    if (h->input == GPUR_INPUT_STACKS)
        pad_as_given(h, env, obs, first);
    else
        for (int64_t frame = 0; frame < first; frame++)
            set(h, env, frame, h->linking->repeats ? first : GPUR_FRAME_NONE);
}

void gpur_history_add(gpur_history *h, int64_t env, const unsigned char *obs)
{
    const int64_t frame = ++h->newest[env];
    set(h, env, frame, frame);
    copy_given(h, frame_of(h, env, frame), obs, h->linking->stack - 1);
}

/* 1 if frame j of the caller's stack equals `frame`; NULL is a frame of zeros. */
static int is_given(const gpur_history *h, const unsigned char *obs, int64_t j, const unsigned char *frame)
{
    const gpur_linking *const l = h->linking;
    if (!l->is_last)
        return frame ? memcmp(obs + j * l->frame_bytes, frame, (size_t)l->frame_bytes) == 0
                     : is_zero(obs + j * l->frame_bytes, l->frame_bytes);
    for (int64_t at = 0; at < l->frame_bytes; at++) {
        const int64_t number = at / l->element, byte = at % l->element;
        if (obs[(number * l->stack + j) * l->element + byte] != (frame ? frame[at] : 0))
            return 0;
    }
    return 1;
}

/* The frame of an entry, with aliases resolved; NULL if it stands for no frame. */
static const unsigned char *look_up(const gpur_history *h, int64_t env, int64_t frame)
{
    const int64_t same = place_of(h, env, frame)->same;
    return same == GPUR_FRAME_NONE ? NULL : frame_of(h, env, same);
}

gpur_status gpur_history_check(const gpur_history *h, int64_t env, const unsigned char *obs, const char *what)
{
    const int64_t older = h->linking->stack - 1, first = h->newest[env] - older + 1;
    if (h->input == GPUR_INPUT_FRAMES)
        return GPUR_OK;
    for (int64_t j = 0; j < older; j++)
        GPUR_REQUIRE(is_given(h, obs, j, look_up(h, env, first + j)),
                     "%s of environment %" PRId64 " has a frame %" PRId64 " of its stack, the oldest being 0, that is "
                     "not frame %" PRId64 " of the stack before; only the newest may be new",
                     what, env, j, j + 1);
    return GPUR_OK;
}

/* Writes frame j of a stack in the caller's form; NULL is a frame of zeros. */
static void put_given(const gpur_linking *l, unsigned char *obs, int64_t j, const unsigned char *frame)
{
    const int64_t each = l->is_last ? l->element : l->frame_bytes, step = l->is_last ? l->stack * each : 0;
    unsigned char *to = obs + j * each;
    for (int64_t at = 0; at < l->frame_bytes; at += each, to += step)
        if (frame)
            memcpy(to, frame + at, (size_t)each);
        else
            memset(to, 0, (size_t)each);
}

void gpur_history_get(const gpur_history *h, int64_t env, unsigned char *obs)
{
    const int64_t stack = h->linking->stack, newest = h->newest[env];
    if (h->input == GPUR_INPUT_FRAMES)
        memcpy(obs, frame_of(h, env, newest), (size_t)h->linking->frame_bytes);
    else
        for (int64_t j = 0; j < stack; j++)
            put_given(h->linking, obs, j, look_up(h, env, newest - stack + 1 + j));
}

/* The state while the links of one row are built. */
typedef struct linker {
    gpur_history *history;
    gpur_replay *replay;
    const gpur_claim *claim;
    int64_t env, head, oldest;
} linker;

static uint32_t link_of(linker *l, int64_t frame)
{
    const gpur_linking *const linking = l->history->linking;
    const int64_t same = place_of(l->history, l->env, frame)->same;
    if (same == GPUR_FRAME_NONE)
        return 0;
    gpur_frame_place *const place = place_of(l->history, l->env, same);
    if (place->id < 0 || l->head - place->id > linking->reach) {
        unsigned char *const to = gpur_ingest_claim_frame(l->replay, l->claim, &place->id);
        memcpy(to, frame_of(l->history, l->env, same), (size_t)linking->frame_bytes);
        place->link = (uint32_t)(place->id % linking->frames) + 1;
    }
    l->oldest = place->id < l->oldest ? place->id : l->oldest;
    return place->link;
}

void gpur_history_link(gpur_history *h, gpur_replay *replay, const gpur_claim *claim, int64_t env, int64_t steps,
                       uint32_t *links)
{
    const int64_t head = replay->frame_index.head, stack = h->linking->stack, next = h->newest[env] - stack + 1;
    linker l = {h, replay, claim, env, head, head};
    for (int64_t j = 0; j < stack; j++)
        links[j] = link_of(&l, next - steps + j);
    for (int64_t j = 0; j < stack; j++)
        links[stack + j] = link_of(&l, next + j);
    gpur_frame_log_note(&replay->frame_index, head, l.oldest);
}
