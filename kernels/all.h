/* SPDX-License-Identifier: MIT */
/* Every kernel, for the entry files. */
#include "kernels.h"

#include "bias_activation.h"
#include "channel_backward.h"
#include "collective_probe.h"
#include "explore.h"
#include "finish_step.h"
#include "fold_back.h"
#include "gather.h"
#include "gather_frames.h"
#include "gather_observed.h"
#include "gradient_norm.h"
#include "head.h"
#include "layer_backward.h"
#include "meet_probe.h"
#include "observe.h"
#include "round_bf16.h"
#include "priority_draw.h"
#include "priority_range.h"
#include "priority_rebuild.h"
#include "priority_survey.h"
#include "priority_update.h"
#include "priority_weights.h"
#include "td_error.h"
#include "unfold.h"
#include "update.h"
#include "widen_bf16.h"
#include "scatter.h"
#include "window_set.h"

/* Made of other kernels' bodies. */
#ifdef __CUDACC__
#include "learn_steps.h"
#else
#include "cpu_steps.h"
#endif

/* Does not compile when a kernel of the list of those that meet was opened by another macro. */
#define GPUR_MEETS_LINE(name) gpur_##name##_meets +
enum { GPUR_MEETING_KERNELS = GPUR_MEETING_KERNEL_LIST(GPUR_MEETS_LINE) 0 };
#undef GPUR_MEETS_LINE
