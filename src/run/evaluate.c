/* SPDX-License-Identifier: MIT */
/* The evaluator of all runs. */
#include "run/evaluate.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

gpur_status gpur_evaluator_alloc(gpur_evaluator *e, int32_t count, const gpur_env_type *type, int64_t action_bytes,
                                 uint32_t first_stream)
{
    const size_t n = (size_t)count;
    e->first_stream = first_stream;
    e->runners = calloc(n, sizeof *e->runners);
    e->taken = calloc(n, sizeof *e->taken);
    e->games = calloc(n, sizeof *e->games);
    e->streams = calloc(n, sizeof *e->streams);
    e->steps = calloc(n, sizeof *e->steps);
    e->actions = calloc(n, (size_t)action_bytes);
    e->action_bytes = action_bytes;
    e->env = calloc(n, sizeof *e->env);
    if (!e->runners || !e->taken || !e->games || !e->streams || !e->steps || !e->actions || !e->env)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for an evaluation in %d environments", (int)count);
    e->count = count;
    for (int32_t i = 0; i < count; i++)
        e->runners[i] = (gpur_env_runner){.type = type, .evaluates = 1};
    return GPUR_OK;
}

gpur_status gpur_evaluator_open(gpur_evaluator *e, const gpur_obs_shape *shape, int32_t check_finite)
{
    const int64_t bytes = gpur_obs_bytes(shape);
    e->rows = calloc((size_t)e->count, (size_t)bytes);
    if (!e->rows)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for %d observations of %" PRId64 " bytes", (int)e->count,
                         bytes);
    for (int32_t i = 0; i < e->count; i++)
        GPUR_TRY(gpur_env_runner_open(&e->runners[i], shape, NULL, check_finite));
    return GPUR_OK;
}

void gpur_evaluator_close(gpur_evaluator *e)
{
    for (int32_t i = 0; i < e->count; i++)
        gpur_env_runner_close(&e->runners[i]);
    free(e->runners);
    free(e->taken);
    free(e->games);
    free(e->streams);
    free(e->steps);
    free(e->actions);
    free(e->env);
    free(e->rows);
    *e = (gpur_evaluator){0};
}

void gpur_evaluator_abandon(gpur_evaluator *e)
{
    for (int32_t i = 0; i < e->count; i++) {
        e->games[i] = (gpur_evaluation_game){0};
        e->runners[i].goes_on = 0;
    }
    e->episodes = e->begun = e->ended = 0;
    atomic_store(&e->episode, 0);
}

void gpur_evaluator_begin(gpur_evaluator *e, int64_t episodes, int32_t greedy)
{
    e->episodes = episodes;
    e->greedy = greedy;
    e->begun = e->ended = e->length = 0;
    e->sum = e->squares = 0.0;
    atomic_store(&e->episode, 1);
}

/* Begins games where there is room for them, and lists the environments that take a step. */
static gpur_status find_rows(gpur_evaluator *e, int64_t *count)
{
    *count = 0;
    for (int32_t i = 0; i < e->count; i++) {
        gpur_evaluation_game *const game = &e->games[i];
        if (!game->is_open && e->begun == e->episodes)
            continue;
        if (!game->is_open || game->is_reset)
            GPUR_TRY(gpur_env_runner_reset(&e->runners[i]));
        if (!game->is_open) {
            *game = (gpur_evaluation_game){.is_open = 1};
            e->begun++;
        }
        game->is_reset = 0;
        e->env[(*count)++] = i;
    }
    return GPUR_OK;
}

static void fill_rows(gpur_evaluator *e, int64_t count)
{
    const int64_t bytes = gpur_obs_bytes(e->runners[0].shape);
    for (int64_t row = 0; row < count; row++) {
        const int32_t i = e->env[row];
        memcpy(e->rows + row * bytes, e->runners[i].obs, (size_t)bytes);
        e->streams[row] = e->first_stream + (uint32_t)i;
        e->steps[row] = e->taken[i]++;
    }
}

static void end_game(gpur_evaluator *e, gpur_evaluation_game *game)
{
    game->is_open = 0;
    e->sum += game->sum;
    e->squares += game->sum * game->sum;
    e->ended++;
    if (e->on_game)
        e->on_game(e->listener, game);
    atomic_store(&e->episode, gpur_evaluator_is_over(e) ? 0 : e->ended + 1);
}

/* The loss of a life does not end a game. */
static gpur_status step(gpur_evaluator *e, int32_t i, const void *action)
{
    gpur_evaluation_game *const game = &e->games[i];
    gpur_env_runner *const runner = &e->runners[i];
    gpur_env_result result;
    const int64_t cut = runner->cut;
    GPUR_TRY(gpur_env_runner_step(runner, action, &result));
    game->sum += (double)result.reward;
    game->length++;
    e->length++;
    game->is_reset = (result.terminated || result.truncated) && result.continues;
    if ((result.terminated || result.truncated) && !result.continues)
        end_game(e, game);
    atomic_fetch_add(&e->cut, runner->cut - cut);
    return GPUR_OK;
}

static gpur_status play(gpur_evaluator *e, gpur_evaluation_choose choose, void *context,
                        int (*is_stopping)(void *context))
{
    while (!gpur_evaluator_is_over(e) && !is_stopping(context)) {
        int64_t count;
        const double begin = gpur_clock_seconds();
        GPUR_TRY(find_rows(e, &count));
        fill_rows(e, count);
        GPUR_TRY(choose(context, count, e->rows, e->streams, e->steps, e->greedy, e->actions));
        for (int64_t row = 0; row < count; row++)
            GPUR_TRY(step(e, e->env[row], e->actions + row * e->action_bytes));
        atomic_fetch_add(&e->nanoseconds, (int64_t)((gpur_clock_seconds() - begin) * 1e9));
    }
    return GPUR_OK;
}

gpur_status gpur_evaluator_play(gpur_evaluator *e, gpur_evaluation_choose choose, void *context,
                                int (*is_stopping)(void *context))
{
    const gpur_status status = play(e, choose, context, is_stopping);
    if (status != GPUR_OK)
        atomic_store(&e->episode, 0);
    return status;
}

void gpur_evaluator_fill_stats(const gpur_evaluator *e, gpur_run_stats *stats)
{
    stats->eval_episode = atomic_load(&e->episode);
    stats->eval_cut += atomic_load(&e->cut);
    stats->eval_seconds += 1e-9 * (double)atomic_load(&e->nanoseconds);
}

void gpur_evaluator_fill_event(const gpur_evaluator *e, gpur_run_event *event)
{
    const double mean = e->sum / (double)e->episodes;
    const double variance = e->squares / (double)e->episodes - mean * mean;
    event->length = e->length;
    event->episodes = e->episodes;
    event->mean_return = mean;
    event->return_deviation = variance > 0.0 ? sqrt(variance) : 0.0;
}
