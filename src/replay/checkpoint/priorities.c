/* SPDX-License-Identifier: MIT */
#include "replay/checkpoint/priorities.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

void gpur_priority_copy_read(const gpur_replay *replay, gpur_priority_copy *copy)
{
    const gpur_priorities *const priorities = &replay->priorities;
    copy->beta = replay->config.beta;
    if (!priorities->device)
        return;
    const gpur_priority_state *const now = priorities->host_state;
    copy->alpha = now->alpha;
    memcpy(&copy->most, &now->ever, sizeof copy->most);
    copy->octave = now->octave;
    copy->evict_octave = priorities->host_evict_state->octave;
    copy->updates = now->updates;
    copy->stale = now->stale;
    copy->invalid = now->invalid;
}

void gpur_priority_copy_list(gpur_priority_copy *copy, gpur_scalar *scalars)
{
    const gpur_scalar all[] = {
        {"updates", GPUR_SCALAR_I64, &copy->updates},
        {"stale", GPUR_SCALAR_I64, &copy->stale},
        {"invalid", GPUR_SCALAR_I64, &copy->invalid},
        {"alpha", GPUR_SCALAR_F32, &copy->alpha},
        {"most", GPUR_SCALAR_F32, &copy->most},
        {"beta_first", GPUR_SCALAR_F32, &copy->beta.first},
        {"beta_last", GPUR_SCALAR_F32, &copy->beta.last},
        {"beta_begin", GPUR_SCALAR_I64, &copy->beta.begin},
        {"beta_steps", GPUR_SCALAR_I64, &copy->beta.steps},
    };
    _Static_assert(sizeof all / sizeof *all == GPUR_PRIORITY_SCALARS, "so many");
    memcpy(scalars, all, sizeof all);
}

gpur_status gpur_priority_copy_write_octaves(const gpur_priority_copy *copy, gpur_tensors *tensors)
{
    GPUR_TRY(gpur_tensors_add_metadata(tensors, "octave", "%" PRId64, copy->octave));
    return gpur_tensors_add_metadata(tensors, "evict_octave", "%" PRId64, copy->evict_octave);
}

void gpur_priority_copy_read_octaves(gpur_priority_copy *copy, const gpur_tensors *tensors)
{
    copy->octave = gpur_metadata_number(tensors, "octave", GPUR_OCTAVE_OF_LARGEST);
    copy->evict_octave = gpur_metadata_number(tensors, "evict_octave", GPUR_OCTAVE_OF_LARGEST);
}

static int is_octave(int64_t octave)
{
    return octave == GPUR_OCTAVE_OF_LARGEST || (octave >= -GPUR_MAX_OCTAVE && octave <= GPUR_MAX_OCTAVE);
}

static gpur_status check_reals(const gpur_priority_copy *copy)
{
    const float reals[] = {copy->alpha, copy->most, copy->beta.first, copy->beta.last};
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++)
        if (!(reals[i] >= 0.0f && reals[i] < INFINITY))
            return gpur_fail(GPUR_FILE_ERROR, "the file has an alpha, beta or priority of %g; it must be 0 or more",
                             (double)reals[i]);
    if (copy->beta.begin < 0 || copy->beta.steps < 0)
        return gpur_fail(GPUR_FILE_ERROR, "the file has a schedule of beta that begins before 0");
    return GPUR_OK;
}

gpur_status gpur_file_count_check(int64_t count)
{
    if (count < 0 || count > INT64_MAX / 4)
        return gpur_fail(GPUR_FILE_ERROR, "the file has a count of %" PRId64 "; it must be 0 to 2^61", count);
    return GPUR_OK;
}

gpur_status gpur_file_priority_check(float priority, int64_t at)
{
    if (!(priority >= 0.0f && priority < INFINITY))
        return gpur_fail(GPUR_FILE_ERROR,
                         "number %" PRId64 " of its priorities is %g; it must be finite, and 0 or more", at,
                         (double)priority);
    return GPUR_OK;
}

gpur_status gpur_priority_copy_check(const gpur_priority_copy *copy)
{
    const int64_t counts[] = {copy->updates, copy->stale, copy->invalid};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        GPUR_TRY(gpur_file_count_check(counts[i]));
    if (!is_octave(copy->octave) || !is_octave(copy->evict_octave))
        return gpur_fail(GPUR_FILE_ERROR,
                         "the file has priorities of a scale of 2^%" PRId64 "; it must be 2^-%d to 2^%d",
                         is_octave(copy->octave) ? copy->evict_octave : copy->octave, GPUR_MAX_OCTAVE, GPUR_MAX_OCTAVE);
    return check_reals(copy);
}

void gpur_priority_copy_set(gpur_replay *replay, const gpur_priority_copy *copy)
{
    const gpur_priorities *const priorities = &replay->priorities;
    replay->config.beta = copy->beta;
    if (!priorities->device)
        return;
    gpur_priority_state *const to = priorities->host_state;
    memset(to, 0, sizeof *to);
    to->alpha = copy->alpha;
    memcpy(&to->ever, &copy->most, sizeof to->ever);
    to->octave = (int32_t)copy->octave;
    priorities->host_evict_state->octave = (int32_t)copy->evict_octave;
    to->updates = copy->updates;
    to->stale = copy->stale;
    to->invalid = copy->invalid;
}
