/* SPDX-License-Identifier: MIT */
/*
 * learn_steps for the tables of cpu.c. It is compiled in cpu_steps.c: it calls the bodies of other kernels, and where
 * such a body has a second caller a host compiler no longer takes it whole into its own entry, with all that is
 * constant there.
 */
#ifndef GPUR_KERNELS_FUSED_CPU_STEPS_H
#define GPUR_KERNELS_FUSED_CPU_STEPS_H

#include "kernels/target/thread.h"

#ifdef GPUR_RACE_CHECK
void gpur_learn_steps_race(gpur_place at, const void *args);
#else
#define GPUR_CPU_STEPS GPUR_GLUE3(gpur_learn_steps_, GPUR_VARIANT, )
void GPUR_CPU_STEPS(int64_t block, int64_t blocks, const void *args);
#endif

#ifndef GPUR_KERNELS_FUSED_LEARN_STEPS_H
enum { gpur_learn_steps_meets = 1 };
#ifdef GPUR_RACE_CHECK
static void gpur_learn_steps_race_entry(gpur_place at, const void *args)
{
    gpur_learn_steps_race(at, args);
}
#else
static void GPUR_CPU_ENTRY(learn_steps)(int64_t block, int64_t blocks, const void *args)
{
    GPUR_CPU_STEPS(block, blocks, args);
}
#endif
#endif

#endif
