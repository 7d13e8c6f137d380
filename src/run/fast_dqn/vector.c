/* SPDX-License-Identifier: MIT */
/* Steps all environment slots of a run at once, as one vector environment. */
#include "run/fast_dqn/vector.h"

#include "base/arena.h"
#include "base/numbers.h"
#include "base/status.h"

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

gpur_status gpur_vector_open(gpur_vector *vector, const gpur_obs_shape *shape, int32_t slots)
{
    const int64_t frames = slots * shape->frame_bytes, bytes = assign(vector, NULL, frames, slots);
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

static const unsigned char *frame_of(const gpur_env_slot *slots, const void *frames, int32_t slot)
{
    return (const unsigned char *)frames + slot * slots->runner.shape->frame_bytes;
}

gpur_status gpur_vector_begin(gpur_vector *vector, gpur_env_slot *slots, int32_t count, int64_t step)
{
    void *const obs = vector->result.next_obs;
    GPUR_TRY(gpur_prefix_error(gpur_env_error(vector->type->reset(vector->env, obs)), "%s, step %" PRId64,
                               vector->type->name, step));
    for (int32_t i = 0; i < count; i++)
        GPUR_TRY(gpur_env_slot_name_error(&slots[i], step,
                                          gpur_env_slot_note_beginning(&slots[i], step, frame_of(slots, obs, i))));
    return GPUR_OK;
}

/* In GPUR_AUTORESET_NEXT_STEP the step after an episode's last one only begins the next episode. */
static gpur_status note(gpur_vector *vector, gpur_env_slot *slot, const unsigned char *next, const unsigned char *final,
                        int64_t step, int32_t action)
{
    const gpur_vector_result *const r = &vector->result;
    const int32_t i = slot->index;
    const gpur_env_result result = {r->reward[i], r->terminated[i], r->truncated[i], r->continues[i], 0};
    const int is_over = result.terminated || result.truncated;
    const int same_step = vector->type->autoreset == GPUR_AUTORESET_SAME_STEP;
    if (slot->awaits_reset)
        return gpur_env_slot_note_beginning(slot, step, next);
    GPUR_TRY(gpur_env_slot_note_step(slot, step, action, &result, is_over && same_step ? final : next));
    slot->awaits_reset = is_over && !same_step;
    return is_over && same_step ? gpur_env_slot_note_beginning(slot, step, next) : GPUR_OK;
}

gpur_status gpur_vector_step(gpur_vector *vector, gpur_env_slot *slots, int32_t count, int64_t step,
                             const int32_t *actions, int64_t *transitions, int *ended)
{
    const gpur_vector_result *const r = &vector->result;
    memset(r->continues, 0, (size_t)count);
    GPUR_TRY(gpur_prefix_error(gpur_env_error(vector->type->step(vector->env, actions, r)),
                               "%s, steps %" PRId64 " to %" PRId64, vector->type->name, step, step + count - 1));
    *ended = 0;
    *transitions = 0;
    for (int32_t i = 0; i < count; i++) {
        *transitions += !slots[i].awaits_reset;
        *ended |= !slots[i].awaits_reset && (r->terminated[i] || r->truncated[i]) && !r->continues[i];
        GPUR_TRY(gpur_env_slot_name_error(&slots[i], step + i,
                                          note(vector, &slots[i], frame_of(slots, r->next_obs, i),
                                               frame_of(slots, r->final_obs, i), step + i, actions[i])));
    }
    return GPUR_OK;
}
