/* SPDX-License-Identifier: MIT */
/* Every kernel, for the three entry files. */
#include "kernels.h"

#include "bias_activation.h"
#include "collective_probe.h"
#include "window_set.h"
