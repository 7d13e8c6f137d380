/* SPDX-License-Identifier: MIT */
#include "games.h"

#include "examples/env_random.h"

#include <stdlib.h>
#include <string.h>

void games_open(games *g, int32_t count, uint64_t seed)
{
    const size_t n = (size_t)count;
    *g = (games){.count = count};
    g->state = bench_allocate(n * sizeof *g->state);
    g->obs = bench_allocate(n * DODGE_OBS * sizeof *g->obs);
    g->next_obs = bench_allocate(n * DODGE_OBS * sizeof *g->next_obs);
    g->reward = bench_allocate(n * sizeof *g->reward);
    g->terminated = bench_allocate(n);
    g->truncated = bench_allocate(n);
    g->episode_return = bench_allocate(n * sizeof *g->episode_return);
    for (int32_t i = 0; i < count; i++)
        if (dodge_kind.init(&g->state[i], env_random_bits(&seed)) != 0)
            bench_must(GPUR_OUT_OF_MEMORY, "a game");
    games_reset(g);
}

void games_close(games *g)
{
    free(g->state);
    free(g->obs);
    free(g->next_obs);
    free(g->reward);
    free(g->terminated);
    free(g->truncated);
    free(g->episode_return);
}

void games_reset(games *g)
{
    for (int32_t i = 0; i < g->count; i++) {
        dodge_kind.reset(&g->state[i], g->obs + i * DODGE_OBS);
        g->terminated[i] = g->truncated[i] = 0;
        g->episode_return[i] = 0.0f;
    }
}

int games_ended(const games *g, int32_t index)
{
    return g->terminated[index] || g->truncated[index];
}

void games_step(games *g, const int32_t *actions)
{
    for (int32_t i = 0; i < g->count; i++) {
        float *const next = g->next_obs + i * DODGE_OBS;
        if (games_ended(g, i))
            g->episode_return[i] = 0.0f;
        const env_outcome outcome = dodge_kind.step(&g->state[i], &actions[i], next);
        g->reward[i] = outcome.reward;
        g->terminated[i] = outcome.terminated;
        g->truncated[i] = outcome.truncated;
        g->episode_return[i] += outcome.reward;
        if (games_ended(g, i))
            dodge_kind.reset(&g->state[i], g->obs + i * DODGE_OBS);
        else
            memcpy(g->obs + i * DODGE_OBS, next, DODGE_OBS * sizeof *next);
    }
}

/* A copy whose episode ended plays on, and is no longer counted. */
double games_evaluate(games *g, gpur_learner *learner)
{
    int32_t *const actions = bench_allocate((size_t)g->count * sizeof *actions);
    uint8_t *const done = bench_allocate((size_t)g->count);
    double sum = 0.0;
    games_reset(g);
    for (int32_t left = g->count; left > 0;) {
        bench_must(gpur_learner_act(learner, g->count, g->obs, 0.0f, actions, NULL), "act");
        games_step(g, actions);
        for (int32_t i = 0; i < g->count; i++)
            if (!done[i] && games_ended(g, i)) {
                done[i] = 1;
                sum += (double)g->episode_return[i];
                left--;
            }
    }
    free(actions);
    free(done);
    return sum / g->count;
}

double games_baseline(uint64_t seed, int is_random)
{
    enum { COPIES = 8, EPISODES = 200 };
    games g;
    uint64_t random = seed;
    double sum = 0.0;
    int episodes = 0;
    games_open(&g, COPIES, seed);
    while (episodes < EPISODES) {
        int32_t actions[COPIES];
        for (int32_t i = 0; i < COPIES; i++)
            actions[i] =
                is_random ? (int32_t)(env_random_bits(&random) % DODGE_ACTIONS) : dodge_by_hand(g.obs + i * DODGE_OBS);
        games_step(&g, actions);
        for (int32_t i = 0; i < COPIES; i++)
            if (games_ended(&g, i))
                sum += (double)g.episode_return[i], episodes++;
    }
    games_close(&g);
    return sum / episodes;
}
