/* SPDX-License-Identifier: MIT */
/* Predictors: one forward pass for all requests that wait. */
#pragma once

#include "run/ga3c/handle.h"

/* The thread; its context is a gpur_ga3c_thread. */
void *gpur_ga3c_predictor(void *context);

gpur_status gpur_prediction_batch_open(const gpur_ga3c *run, gpur_prediction_batch *batch);
void gpur_prediction_batch_close(gpur_prediction_batch *batch); /* accepts a zeroed one */

/* Computes the replies of the first `count` requests of the thread's batch, without waking the agents. */
gpur_status gpur_ga3c_predict(gpur_ga3c_thread *thread, int64_t count);
