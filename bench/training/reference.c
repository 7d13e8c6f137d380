/* SPDX-License-Identifier: MIT */
/* What to hold a learning curve against: play by chance, and by a hand-made policy. */
#include "bench/setup.h"
#include "bench/training/training.h"
#include "examples/dodge.h"
#include "examples/env_random.h"
#include "examples/vec_env.h"

enum { GAMES = 8, FINISHED = 200 };

/* Mean return of the first FINISHED episodes; by chance where `random` is not NULL. */
static double mean_return(vec_env *envs, uint64_t *random)
{
    double sum = 0.0;
    int finished = 0;
    while (finished < FINISHED) {
        int32_t actions[GAMES];
        for (int32_t i = 0; i < GAMES; i++)
            actions[i] =
                random ? (int32_t)(env_random_bits(random) % DODGE_ACTIONS) : dodge_by_hand(vec_env_obs(envs, i));
        vec_env_step(envs, actions);
        for (int32_t i = 0; i < GAMES; i++)
            if (vec_env_ended(envs, i))
                sum += (double)envs->episode_return[i], finished++;
    }
    return sum / finished;
}

training_reference training_measure_reference(uint64_t seed)
{
    vec_env envs;
    uint64_t random = seed;
    if (vec_env_open(&envs, &dodge_kind, GAMES, seed) != 0)
        bench_must(GPUR_OUT_OF_MEMORY, "environments");
    training_reference found;
    found.chance = mean_return(&envs, &random);
    vec_env_reset(&envs);
    found.hand = mean_return(&envs, NULL);
    vec_env_close(&envs);
    return found;
}
