/* SPDX-License-Identifier: MIT */
/* DQN's forward passes, loss and backward pass of a batch. */
#include "learn/dqn/dqn_step.h"

#include "base/numbers.h"
#include "learn/returns/return_cache.h"

/* Given returns need no target, and so no action for it. */
static int is_double(const gpur_train_step *step)
{
    return gpur_dqn_step_of(step)->config->double_dqn && !step->cache;
}

static gpur_status open(gpur_train_step *step)
{
    gpur_dqn_step *const dqn = gpur_dqn_step_of(step);
    const int64_t rows = step->batch.rows;
    GPUR_TRY(gpur_step_open_pass(step, &dqn->online, step->network, is_double(step) ? 2 * rows : rows));
    if (step->cache) /* refreshes have the workspace, too */
        step->workspace_bytes = gpur_max(step->workspace_bytes, step->cache->values.workspace);
    else
        GPUR_TRY(gpur_step_open_pass(step, &dqn->target, step->network, rows));
    return gpur_step_open_backward(step, &dqn->backward, &dqn->online, 0);
}

static void assign(gpur_train_step *step, gpur_arena *arena)
{
    gpur_dqn_step *const dqn = gpur_dqn_step_of(step);
    const struct gpur_return_cache *const cache = step->cache;
    const gpur_train_batch *const batch = &step->batch;
    gpur_td_error_args *const td = &dqn->td;
    gpur_step_assign_td_error(step, arena, &dqn->online, cache ? NULL : &dqn->target, &dqn->backward, td);
    if (cache) {
        td->reward = cache->drawn_value;
        td->id = batch->id;
        td->missing = gpur_arena_floats(arena, batch->rows);
    }
    td->action = batch->action, td->action_is_int64 = batch->fields.action_is_int64;
    td->double_dqn = is_double(step);
    td->loss_kind = dqn->config->loss == GPUR_LOSS_SQUARED, td->huber_delta = dqn->config->huber_delta;
    dqn->online.activations[0] = batch->x;
    dqn->target.activations[0] = batch->next_x;
}

/* The target network's pass, if there is one, and beside it the online network's. */
static gpur_status forward(const gpur_train_step *step, const gpur_track *track)
{
    const gpur_dqn_step *const dqn = gpur_dqn_step_of(step);
    const gpur_optimizer *const o = &step->optimizer;
    gpur_track beside;
    GPUR_TRY(gpur_side_fork(&step->side, track, &beside));
    if (!step->cache)
        GPUR_TRY(gpur_pass_forward(&dqn->target, beside.stream, step->batch.rows, o->target, beside.workspace));
    GPUR_TRY(gpur_pass_forward(&dqn->online, track->stream, dqn->online.rows, o->weights, track->workspace));
    return gpur_side_join(&step->side, track->stream);
}

static gpur_status train(const gpur_train_step *step, gpur_stream *stream, const int64_t *drawable)
{
    const gpur_dqn_step *const dqn = gpur_dqn_step_of(step);
    const int64_t rows = step->batch.rows;
    const gpur_train_step_results results = {dqn->td.loss, dqn->td.q_taken, dqn->td.invalid, dqn->td.missing, rows};
    const gpur_track track = {stream, step->workspace};
    gpur_optimizer optimizer = step->optimizer;
    optimizer.drawable = drawable;
    GPUR_TRY(forward(step, &track));
    GPUR_TRY(gpur_launch_td_error(stream, gpur_td_error_grid(step->device, rows), &dqn->td));
    GPUR_TRY(gpur_backward_run(&dqn->backward, &track, &step->side, optimizer.weights, optimizer.gradient));
    return gpur_optimizer_step(&optimizer, stream, &results);
}

static const float *errors(const gpur_train_step *step)
{
    return gpur_dqn_step_of(step)->td.td;
}

const gpur_step_algorithm gpur_dqn_step_algorithm = {
    .open = open,
    .assign = assign,
    .train = train,
    .errors = errors,
};
