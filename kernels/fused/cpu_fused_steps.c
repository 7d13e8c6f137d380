/* SPDX-License-Identifier: MIT */
/* Entry file of fused_train_steps on the CPU, compiled as often as cpu.c: see kernels/fused/cpu_fused_steps.h. */
#pragma GCC diagnostic ignored "-Wunused-function" /* the entries of the included kernels */
#include "kernels/fused/fused_train_steps.h"
#include "kernels/fused/cpu_fused_steps.h"

#ifdef GPUR_RACE_CHECK
void gpur_fused_train_steps_race(gpur_thread at, const void *args)
{
    gpur_fused_train_steps_race_entry(at, args);
}
#else
/* flatten inlines all bodies: a body that is not inlined does not know that a block is one thread. */
__attribute__((flatten)) void GPUR_CPU_FUSED_STEPS(int64_t block, int64_t blocks, const void *args)
{
    GPUR_CPU_ENTRY(fused_train_steps)(block, blocks, args);
}
#endif
