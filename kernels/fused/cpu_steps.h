/* SPDX-License-Identifier: MIT */
/*
 * Defines the entry of learn_steps for the tables of cpu.c. The kernel itself is compiled in
 * kernels/fused/cpu_steps.c, because it calls the bodies of other kernels: with a second caller in the same file, a
 * host compiler would no longer inline such a body into the entry of its own kernel, where many of its values are
 * constants.
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
