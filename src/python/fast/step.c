/* SPDX-License-Identifier: MIT */
/* A step of environments whose episodes the library follows: whether it is ordinary, giving it, and where everyone
 * stands then. */
#include "steps.h"
#include <string.h>

static int has_ended(const fast_steps *self, const fast_block *given, int64_t env)
{
    const int terminated = self->at.terminated, truncated = self->at.truncated;
    return fast_column_is_set(&self->rows->columns[terminated], &given->places[terminated], env) ||
           fast_column_is_set(&self->rows->columns[truncated], &given->places[truncated], env);
}

static int stands(const fast_steps *self, int how)
{
    return memchr(self->standing, how, (size_t)self->num_envs) != NULL;
}

/* An episode goes on from the observation that was given last, to the last bit. */
static int follows(const fast_steps *self, const unsigned char *obs)
{
    const size_t each = (size_t)self->obs_bytes;
    if (memcmp(obs, self->last, (size_t)self->num_envs * each) == 0)
        return 1;
    for (int64_t env = 0; env < self->num_envs; env++) {
        const int64_t at = env * self->obs_bytes;
        if (self->standing[env] == FAST_OPEN && memcmp(obs + at, self->last + at, each) != 0)
            return 0;
    }
    return 1;
}

/* Under "same_step" an episode's last observation comes beside the step where one ended. */
static int wants_final(const fast_steps *self, const fast_block *given)
{
    for (int64_t env = 0; self->after == FAST_OPEN && env < self->num_envs; env++)
        if (has_ended(self, given, env))
            return 1;
    return 0;
}

/* Where no episode begins, `obs` was looked for NaN when it was next_obs. */
int fast_steps_are_ordinary(const fast_steps *self, const fast_block *given)
{
    return !stands(self, FAST_UNKNOWN) && !wants_final(self, given) &&
           !fast_rows_have_nan(self->rows, given, stands(self, FAST_NEW) ? -1 : self->at.obs) &&
           follows(self, (const unsigned char *)given->memories[self->at.obs]);
}

/* Should the step be refused, these are begun again; to an episode without a step that does nothing. */
static gpur_status begin(const fast_steps *self, gpur_writer *writer, const unsigned char *obs)
{
    gpur_status status = GPUR_OK;
    for (int64_t env = 0; env < self->num_envs && status == GPUR_OK; env++)
        if (self->standing[env] == FAST_NEW)
            status = fast_used.reset(writer, (int32_t)env, obs + env * self->obs_bytes);
    return status;
}

gpur_status fast_steps_give(const fast_steps *self, gpur_writer *writer, const fast_block *given)
{
    const void *const *const memories = given->memories, *extras[GPUR_MAX_FIELDS];
    for (int field = 0; field < self->extra_count; field++)
        extras[field] = self->extras[field] < 0 ? NULL : memories[self->extras[field]];
    const gpur_step_input input = {
        .size = sizeof input,
        .action = memories[self->at.action],
        .reward = (const float *)memories[self->at.reward],
        .next_obs = memories[self->at.next_obs],
        .terminated = (const uint8_t *)memories[self->at.terminated],
        .truncated = (const uint8_t *)memories[self->at.truncated],
        .extras = extras,
    };
    const gpur_status status = begin(self, writer, (const unsigned char *)memories[self->at.obs]);
    return status == GPUR_OK ? fast_used.step(writer, &input) : status;
}

int64_t fast_steps_move(fast_steps *self, const fast_block *given)
{
    int64_t completed = 0;
    for (int64_t env = 0; env < self->num_envs; env++) {
        const int ended = has_ended(self, given, env);
        const int64_t pending = self->pending[env] + (self->standing[env] != FAST_ENDED);
        const int64_t due = ended ? pending : pending >= self->n_step;
        self->pending[env] = pending - due;
        self->standing[env] = (unsigned char)(ended ? self->after : FAST_OPEN);
        completed += due;
    }
    memcpy(self->last, given->memories[self->at.next_obs], (size_t)(self->num_envs * self->obs_bytes));
    return completed;
}
