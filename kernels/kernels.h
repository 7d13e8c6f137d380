/* SPDX-License-Identifier: MIT */
/*
 * All that src/ may see of kernels/: the argument structs and the list of kernels.
 *
 * To add a kernel NAME: its header NAME.h, its struct gpur_NAME_args with shapes, one line in a list below. The list
 * makes its launch function, its table entries on every target, and its place in the tests of launch shapes.
 */
#ifndef GPUR_KERNELS_H
#define GPUR_KERNELS_H

#include "kernels/args_conv.h"
#include "kernels/args_frames.h"
#include "kernels/args_learn.h"
#include "kernels/args_priority.h"
#include "kernels/args_replay.h"

#define GPUR_KERNEL_LIST(X)                                                                                            \
    GPUR_REPLAY_KERNEL_LIST(X)                                                                                         \
    GPUR_FRAMES_KERNEL_LIST(X)                                                                                         \
    GPUR_PRIORITY_KERNEL_LIST(X)                                                                                       \
    GPUR_LEARN_KERNEL_LIST(X)                                                                                          \
    GPUR_CONV_KERNEL_LIST(X)

/* Those of them whose blocks meet, opened by GPUR_KERNEL_TOGETHER: they are launched together and never otherwise. */
#define GPUR_MEETING_KERNEL_LIST(X) X(meet_probe) X(learn_steps)

#define GPUR_KERNEL_ID_LINE(name) GPUR_KERNEL_ID_##name,
enum { GPUR_KERNEL_LIST(GPUR_KERNEL_ID_LINE) GPUR_KERNEL_COUNT };
#undef GPUR_KERNEL_ID_LINE

/* The largest argument struct: what CUDA takes on every GPU. */
enum { GPUR_MAX_ARGS = 4096 };

static inline int gpur_kernel_meets(int kernel)
{
#define GPUR_IS_KERNEL(name) kernel == GPUR_KERNEL_ID_##name ||
    return GPUR_MEETING_KERNEL_LIST(GPUR_IS_KERNEL) 0;
#undef GPUR_IS_KERNEL
}

#endif
