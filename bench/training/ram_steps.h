/* SPDX-License-Identifier: MIT */
/* Makes rows of the steps that environments take: what gpur_writer_step does, for the replays in RAM. */
#ifndef BENCH_TRAINING_RAM_STEPS_H
#define BENCH_TRAINING_RAM_STEPS_H

#include "bench/setup.h"
#include "bench/training/training.h"
#include "examples/vec_env.h"

typedef struct ram_steps {
    float obs[TRAINING_ENVS][MELEE_OBS]; /* that the next step begins with */
    melee_row row[TRAINING_ENVS];        /* of the last step */
} ram_steps;

/* Takes the observations that `envs` waits with. */
void ram_steps_begin(ram_steps *steps, const vec_env *envs);

/* The rows (TRAINING_ENVS) of the step that `envs` last took; valid until the next. */
const melee_row *ram_steps_take(ram_steps *steps, const int32_t *actions, const vec_env *envs);

#endif
