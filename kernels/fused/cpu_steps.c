/* SPDX-License-Identifier: MIT */
/* Entry file of learn_steps on the CPU, compiled as often as cpu.c: see kernels/fused/cpu_steps.h. */
#pragma GCC diagnostic ignored "-Wunused-function" /* the entries of the included kernels */
#include "kernels/fused/learn_steps.h"
#include "kernels/fused/cpu_steps.h"

#ifdef GPUR_RACE_CHECK
void gpur_learn_steps_race(gpur_place at, const void *args)
{
    gpur_learn_steps_race_entry(at, args);
}
#else
/* flatten inlines all bodies: a body that is not inlined does not know that a block is one thread. */
__attribute__((flatten)) void GPUR_CPU_STEPS(int64_t block, int64_t blocks, const void *args)
{
    GPUR_CPU_ENTRY(learn_steps)(block, blocks, args);
}
#endif
