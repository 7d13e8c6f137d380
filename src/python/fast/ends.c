/* SPDX-License-Identifier: MIT */
/* Steps of environments that reset themselves, as the package's _episodes.py describes them. A last observation that
 * comes beside the step is left to that. */
#include "rows.h"
#include <string.h>

static char has_ended(const fast_rows *self, const fast_block *block, int64_t env)
{
    int found = 0;
    for (int at = 0; at < self->flag_count && !found; at++) {
        const int flag = self->flags[at];
        found = fast_column_is_set(&self->columns[flag], &block->places[flag], env);
    }
    return (char)found;
}

static int has_any_ended(const fast_rows *self, const fast_block *block)
{
    for (int64_t env = 0; env < block->count; env++)
        if (has_ended(self, block, env))
            return 1;
    return 0;
}

/* One bool an environment, of the package's own. */
static const fast_array *ends_of(PyObject *object, int64_t count)
{
    const fast_array *array = fast_array_of(object);
    const fast_dtype *const dtype = array ? fast_dtype_of(array->descr) : NULL;
    const int fits = dtype && dtype->number.kind == 'b' && array->nd == 1 && array->dimensions[0] == count &&
                     (array->flags & FAST_READABLE) == FAST_READABLE;
    return fits ? array : NULL;
}

/* The rows of environments that were not reset in this step, in the scratch; 0: there is no room. */
static int keep_column(const fast_column *column, fast_place *place, const char *was_reset, int64_t kept,
                       fast_scratch *scratch)
{
    const int64_t each = column->size * column->number.bytes;
    const unsigned char *const rows = (const unsigned char *)place->memory;
    unsigned char *const out = (unsigned char *)fast_scratch_take(scratch, kept, each);
    unsigned char *to = out;
    for (int64_t env = 0; out && env < place->count; env++)
        if (!was_reset[env]) {
            memcpy(to, rows + env * each, (size_t)each);
            to += each;
        }
    place->memory = out, place->count = kept;
    return out != NULL;
}

static int keep_rows(fast_rows *self, fast_block *block, const char *was_reset, int64_t kept)
{
    for (int at = 0; at < self->count; at++) {
        if (!keep_column(&self->columns[at], &block->places[at], was_reset, kept, &self->scratch))
            return 0;
        block->memories[at] = block->places[at].memory;
    }
    block->count = kept;
    return 1;
}

/* Under "next_step": who ended in the step before was only reset in this one, and whoever ends in this one comes after.
 * 0 also where none of the rows is kept. */
static int settle(fast_rows *self, fast_block *block, const char *was_reset)
{
    const int64_t count = block->count;
    int64_t kept = 0;
    block->ended = (char *)fast_scratch_take(&self->scratch, count, 1);
    for (int64_t env = 0; block->ended && env < count; env++) {
        block->ended[env] = !was_reset[env] && has_ended(self, block, env);
        kept += !was_reset[env];
    }
    return block->ended && kept && (kept == count || keep_rows(self, block, was_reset, kept));
}

static int remember(fast_rows *self, fast_block *block)
{
    block->before = PyObject_GetAttr(self->resets, fast_used.ended);
    const fast_array *const before = block->before ? ends_of(block->before, block->count) : NULL;
    if (!before)
        return block->before ? 0 : -1;
    return settle(self, block, before->data);
}

int fast_ends_begin(fast_rows *self, fast_block *block)
{
    block->before = NULL, block->ended = NULL;
    if (self->flag_count == 0)
        return 1;
    return self->resets == Py_None ? !has_any_ended(self, block) : remember(self, block);
}

void fast_ends_finish(fast_block *block, int is_in)
{
    const fast_array *const before = is_in && block->ended ? fast_array_of(block->before) : NULL;
    if (before)
        memcpy(before->data, block->ended, (size_t)before->dimensions[0]);
    Py_CLEAR(block->before);
}
