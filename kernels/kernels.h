/* SPDX-License-Identifier: MIT */
/*
 * The interface between kernels/ and src/: the kernels' argument structs and the list of all kernels.
 *
 * To add a kernel NAME, write its header NAME.h, its struct gpur_NAME_args with the shape of every array, one line
 * X(NAME) in the list beside that struct, and an #include in kernels/all.h. The list generates the kernel's launch
 * function, its identifier and its entry in every target's table.
 */
#pragma once

#include "kernels/args_conv.h"
#include "kernels/args_frames.h"
#include "kernels/args_hindsight.h"
#include "kernels/args_lanes.h"
#include "kernels/args_learn.h"
#include "kernels/args_priority.h"
#include "kernels/args_replay.h"
#include "kernels/args_returns.h"
#include "kernels/args_sequences.h"

#define GPUR_KERNEL_LIST(X)                                                                                            \
    GPUR_REPLAY_KERNEL_LIST(X)                                                                                         \
    GPUR_FRAMES_KERNEL_LIST(X)                                                                                         \
    GPUR_LANES_KERNEL_LIST(X)                                                                                          \
    GPUR_PRIORITY_KERNEL_LIST(X)                                                                                       \
    GPUR_SEQUENCES_KERNEL_LIST(X)                                                                                      \
    GPUR_LEARN_KERNEL_LIST(X)                                                                                          \
    GPUR_RETURNS_KERNEL_LIST(X)                                                                                        \
    GPUR_CONV_KERNEL_LIST(X)                                                                                           \
    GPUR_HINDSIGHT_KERNEL_LIST(X)

/* Kernels that call gpur_grid_sync. They are opened by GPUR_KERNEL_COOPERATIVE, and every launch of them is
 * cooperative. */
#define GPUR_COOPERATIVE_KERNEL_LIST(X) X(grid_sync_probe) X(fused_train_steps)

#define GPUR_KERNEL_ID_LINE(name) GPUR_KERNEL_ID_##name,
enum { GPUR_KERNEL_LIST(GPUR_KERNEL_ID_LINE) GPUR_KERNEL_COUNT };
#undef GPUR_KERNEL_ID_LINE

/* Largest argument struct in bytes: the limit of kernel parameters that holds on every GPU. */
enum { GPUR_MAX_ARGS = 4096 };

/* 1 if this kernel needs cooperative launches, else 0. */
static inline int gpur_kernel_is_cooperative(int kernel)
{
#define GPUR_IS_KERNEL(name) kernel == GPUR_KERNEL_ID_##name ||
    return GPUR_COOPERATIVE_KERNEL_LIST(GPUR_IS_KERNEL) 0;
#undef GPUR_IS_KERNEL
}
