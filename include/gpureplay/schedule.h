/* SPDX-License-Identifier: MIT */
/* Schedules: settings that change during training, such as learning rates, exploration and importance weights. */
#ifndef GPUREPLAY_SCHEDULE_H
#define GPUREPLAY_SCHEDULE_H

#include "gpureplay/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A value that changes linearly from `first` at step `begin` to `last` at step begin + steps. It is `first` before that
 * and `last` after it. With steps = 0 it is always `first`. What a step is depends on the setting: a train step, an
 * environment step, or a call of gpur_replay_sample.
 *
 * Structs that are members of a config (gpur_schedule, gpur_layer, gpur_network_config, gpur_optimizer_config) have no
 * `size` member. They have reserved words instead, which later versions may use for new settings with 0 as the
 * default. Set them to 0, as the init functions do; other values are refused with GPUR_INVALID_ARGUMENT.
 */
typedef struct gpur_schedule {
    float first;         /* the value up to step `begin` */
    float last;          /* the value from step begin + steps on */
    int64_t begin;       /* 0 or more */
    int64_t steps;       /* 0 or more */
    int64_t reserved[2]; /* 0 */
} gpur_schedule;

/*
 * Returns the schedule's value at `step`, 0 for NULL. Any thread.
 *
 *     const gpur_schedule epsilon = {.first = 1, .last = 0.1f, .steps = 1000000};
 *     printf("%.2f\n", gpur_schedule_at(&epsilon, 500000)); // 0.55
 */
GPUR_API float gpur_schedule_at(const gpur_schedule *schedule, int64_t step);

#ifdef __cplusplus
}
#endif
#endif
