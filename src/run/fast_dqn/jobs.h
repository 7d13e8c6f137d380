/* SPDX-License-Identifier: MIT */
/* The jobs of a run's threads: steps of environments, train steps, and evaluations. */
#pragma once

#include "run/fast_dqn/handle.h"

/* As gpur_jobs; the context is the gpur_env_thread, and for the other two the run. */
gpur_status gpur_env_jobs(void *context, int64_t first, int64_t last, int64_t *done);
gpur_status gpur_train_jobs(void *context, int64_t first, int64_t last, int64_t *done);
gpur_status gpur_evaluation_jobs(void *context, int64_t first, int64_t last, int64_t *done);

/* Actions of `count` observations. Any environment thread, and the one that advances. */
gpur_status gpur_fast_dqn_infer(gpur_fast_dqn *run, int64_t count, const unsigned char *obs, int32_t *actions);

/* A random step before step 1: of slot 0, or of a whole vector. *taken: the transitions that it made. */
gpur_status gpur_fast_dqn_random_step(gpur_fast_dqn *run, int64_t step, int64_t *taken, int *ended);
