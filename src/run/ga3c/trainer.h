/* SPDX-License-Identifier: MIT */
/* Trainers: train steps on rollouts that are joined to batches. */
#pragma once

#include "run/ga3c/handle.h"

/* The thread; its context is a gpur_ga3c_thread. */
void *gpur_ga3c_trainer(void *context);

gpur_status gpur_training_batch_open(const gpur_ga3c *run, gpur_training_batch *batch);
void gpur_training_batch_close(gpur_training_batch *batch); /* accepts a zeroed one */

/* Trains on the rollouts of a batch, with the shared model, or with `local` if it is not NULL, and returns them to the
 * pool. In a run that has failed it only returns them. */
void gpur_ga3c_train(gpur_ga3c *run, gpur_training_batch *batch, gpur_local_model *local);
