/* SPDX-License-Identifier: MIT */
/* Counts and times of the phases of a run's work. Any thread adds to them and reads them. */
#pragma once

#include "base/clock.h"

#include <stdatomic.h>
#include <stdint.h>

typedef enum gpur_run_phase {
    GPUR_PHASE_ENV,   /* items: steps of environments */
    GPUR_PHASE_INFER, /* items: observations */
    GPUR_PHASE_TRAIN, /* items: train steps */
    GPUR_PHASE_FLUSH, /* items: logs */
    GPUR_PHASE_COPY,  /* items: copies of the weights */
    GPUR_PHASES
} gpur_run_phase;

typedef struct gpur_meter {
    _Atomic int64_t calls[GPUR_PHASES], items[GPUR_PHASES], nanoseconds[GPUR_PHASES];
} gpur_meter;

static inline void gpur_meter_add(gpur_meter *meter, gpur_run_phase part, int64_t items, double begin)
{
    const int64_t spent = (int64_t)((gpur_clock_seconds() - begin) * 1e9);
    atomic_fetch_add_explicit(&meter->calls[part], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&meter->items[part], items, memory_order_relaxed);
    atomic_fetch_add_explicit(&meter->nanoseconds[part], spent, memory_order_relaxed);
}

static inline double gpur_meter_seconds(const gpur_meter *meter, gpur_run_phase part)
{
    return 1e-9 * (double)atomic_load(&meter->nanoseconds[part]);
}
