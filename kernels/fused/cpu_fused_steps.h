/* SPDX-License-Identifier: MIT */
/*
 * Defines the entry of fused_train_steps for the tables of cpu.c. The kernel itself is compiled in
 * kernels/fused/cpu_fused_steps.c, because it calls the bodies of other kernels: with a second caller in the same file,
 * a host compiler would no longer inline such a body into the entry of its own kernel, where many of its values are
 * constants.
 */
#pragma once

#include "kernels/target/thread.h"

#ifdef GPUR_RACE_CHECK
void gpur_fused_train_steps_race(gpur_thread at, const void *args);
#else
#define GPUR_CPU_FUSED_STEPS GPUR_GLUE3(gpur_fused_train_steps_, GPUR_VARIANT, )
void GPUR_CPU_FUSED_STEPS(int64_t block, int64_t blocks, const void *args);
#endif

#ifndef GPUR_KERNELS_FUSED_FUSED_TRAIN_STEPS_H
enum { gpur_fused_train_steps_is_cooperative = 1 };
#ifdef GPUR_RACE_CHECK
static void gpur_fused_train_steps_race_entry(gpur_thread at, const void *args)
{
    gpur_fused_train_steps_race(at, args);
}
#else
static void GPUR_CPU_ENTRY(fused_train_steps)(int64_t block, int64_t blocks, const void *args)
{
    GPUR_CPU_FUSED_STEPS(block, blocks, args);
}
#endif
#endif
