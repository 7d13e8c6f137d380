/* SPDX-License-Identifier: MIT */
/* Steps all environment slots of a run at once, as one vector environment. */
#include "run/fast_dqn/handle.h"

#include "base/arena.h"
#include "base/numbers.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Places the arrays of a step in memory. */
static int64_t assign(gpur_vector *vector, void *memory, int64_t frames, int32_t slots)
{
    gpur_arena arena = {memory, 0};
    gpur_vector_result *const r = &vector->result;
    r->next_obs = gpur_arena_alloc(&arena, frames);
    r->final_obs = gpur_arena_alloc(&arena, frames);
    r->reward = gpur_arena_alloc(&arena, slots * (int64_t)sizeof(float));
    r->terminated = gpur_arena_alloc(&arena, slots);
    r->truncated = gpur_arena_alloc(&arena, slots);
    r->continues = gpur_arena_alloc(&arena, slots);
    return arena.used;
}

gpur_status gpur_vector_open(gpur_fast_dqn *run)
{
    gpur_vector *const vector = &run->vector;
    const int32_t slots = run->shape.envs;
    const int64_t frames = slots * run->obs_shape.frame_bytes, bytes = assign(vector, NULL, frames, slots);
    vector->memory = aligned_alloc(256, (size_t)gpur_round_up(bytes, 256));
    if (!vector->memory)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for %" PRId64 " bytes of observations", bytes);
    assign(vector, vector->memory, frames, slots);
    return GPUR_OK;
}

void gpur_vector_close_env(gpur_vector *vector)
{
    if (vector->env)
        vector->type->close(vector->env);
    vector->env = NULL;
}

void gpur_vector_close(gpur_vector *vector)
{
    gpur_vector_close_env(vector);
    free(vector->memory);
    *vector = (gpur_vector){0};
}

static void take_frame(gpur_env_slot *slot, const void *frames)
{
    const int64_t bytes = slot->runner.shape->frame_bytes;
    memcpy(slot->runner.frame, (const unsigned char *)frames + slot->index * bytes, (size_t)bytes);
}

static gpur_status begin(const gpur_fast_dqn *run, gpur_env_slot *slot, int64_t step)
{
    take_frame(slot, run->vector.result.next_obs);
    return gpur_env_slot_note_beginning(slot, step);
}

gpur_status gpur_vector_begin(gpur_fast_dqn *run)
{
    gpur_vector *const vector = &run->vector;
    GPUR_TRY(gpur_prefix_error(gpur_env_error(vector->type->reset(vector->env, vector->result.next_obs)),
                               "%s, step %" PRId64, vector->type->name, run->step));
    for (int32_t i = 0; i < run->shape.envs; i++)
        GPUR_TRY(gpur_env_slot_name_error(&run->slots[i], run->step, begin(run, &run->slots[i], run->step)));
    return GPUR_OK;
}

/* In GPUR_AUTORESET_NEXT_STEP the step after an episode's last one only begins the next episode. */
static gpur_status note(const gpur_fast_dqn *run, gpur_env_slot *slot, int64_t step)
{
    const gpur_vector_result *const r = &run->vector.result;
    const int32_t i = slot->index;
    const gpur_env_result result = {r->reward[i], r->terminated[i], r->truncated[i], r->continues[i], 0};
    const int is_over = result.terminated || result.truncated;
    const int has_begun = is_over && run->vector.type->autoreset == GPUR_AUTORESET_SAME_STEP;
    if (slot->awaits_reset)
        return begin(run, slot, step);
    take_frame(slot, has_begun ? r->final_obs : r->next_obs);
    GPUR_TRY(gpur_env_slot_note_step(slot, step, &result));
    slot->awaits_reset = is_over && !has_begun;
    return has_begun ? begin(run, slot, step) : GPUR_OK;
}

gpur_status gpur_vector_step(gpur_fast_dqn *run, int64_t step, int64_t *transitions, int *ended)
{
    const gpur_vector *const vector = &run->vector;
    const gpur_vector_result *const r = &vector->result;
    const int32_t count = run->shape.envs;
    memset(r->continues, 0, (size_t)count);
    GPUR_TRY(gpur_prefix_error(gpur_env_error(vector->type->step(vector->env, gpur_fast_dqn_env_action(run, 0), r)),
                               "%s, steps %" PRId64 " to %" PRId64, vector->type->name, step, step + count - 1));
    *ended = 0;
    *transitions = 0;
    for (int32_t i = 0; i < count; i++) {
        gpur_env_slot *const slot = &run->slots[i];
        *transitions += !slot->awaits_reset;
        *ended |= !slot->awaits_reset && (r->terminated[i] || r->truncated[i]) && !r->continues[i];
        GPUR_TRY(gpur_env_slot_name_error(slot, step + i, note(run, slot, step + i)));
    }
    return GPUR_OK;
}
