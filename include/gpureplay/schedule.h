/* SPDX-License-Identifier: MIT */
/* What changes while training goes on: learning rates, exploration, importance weights. */
#ifndef GPUREPLAY_SCHEDULE_H
#define GPUREPLAY_SCHEDULE_H

#include "gpureplay/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Moves linearly from `first` to `last` over steps begin ... begin + steps, and stays. steps = 0: always `first`.
 *
 * Structs that are members of others by value (this one, gpur_layer, gpur_network_config, gpur_optimizer_config) have
 * no `size` of their own. They end in reserved words, which later versions may turn into settings; 0 will then mean the
 * default. A config with any other value there is refused.
 */
typedef struct gpur_schedule {
    float first;   /* value up to step `begin` */
    float last;    /* value from step begin + steps on */
    int64_t begin; /* 0 or more */
    int64_t steps; /* 0 or more */
    int64_t reserved[2]; /* 0 */
} gpur_schedule;

/* The schedule's value at `step`. Any thread. NULL gives 0. */
GPUR_API float gpur_schedule_at(const gpur_schedule *schedule, int64_t step);

#ifdef __cplusplus
}
#endif
#endif
