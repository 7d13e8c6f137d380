/* SPDX-License-Identifier: MIT */
/* The kernels' names, in the order of their numbers, for messages and tests. */
#include "kernels/entries.h"

#define NAME(name) #name,
const char *const gpur_kernel_names[GPUR_KERNEL_COUNT] = {GPUR_KERNEL_LIST(NAME)};
