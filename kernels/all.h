/* SPDX-License-Identifier: MIT */
/* Every kernel, for the three entry files. */
#include "kernels.h"

#include "bias_activation.h"
#include "collective_probe.h"
#include "explore.h"
#include "finish_step.h"
#include "gather.h"
#include "gradient_norm.h"
#include "head.h"
#include "layer_backward.h"
#include "td_error.h"
#include "update.h"
#include "scatter.h"
#include "window_set.h"
