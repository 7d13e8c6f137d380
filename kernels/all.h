/* SPDX-License-Identifier: MIT */
/* Includes every kernel, for the entry files. */
#include "kernels/kernels.h"

#include "kernels/learn/bias_activation.h"
#include "kernels/conv/conv_bias_backward.h"
#include "kernels/collective_probe.h"
#include "kernels/learn/epsilon_greedy.h"
#include "kernels/learn/finish_step.h"
#include "kernels/conv/col2im.h"
#include "kernels/replay/gather.h"
#include "kernels/replay/gather_frames.h"
#include "kernels/replay/gather_preprocessed.h"
#include "kernels/learn/gradient_norm.h"
#include "kernels/learn/head.h"
#include "kernels/learn/layer_backward.h"
#include "kernels/meet_probe.h"
#include "kernels/conv/preprocess.h"
#include "kernels/conv/round_bf16.h"
#include "kernels/priority/priority_draw.h"
#include "kernels/priority/priority_range.h"
#include "kernels/priority/priority_rebuild.h"
#include "kernels/priority/priority_validate.h"
#include "kernels/priority/priority_update.h"
#include "kernels/priority/priority_weights.h"
#include "kernels/learn/td_error.h"
#include "kernels/conv/im2col.h"
#include "kernels/learn/update.h"
#include "kernels/conv/widen_bf16.h"
#include "kernels/replay/scatter.h"
#include "kernels/replay/window_set.h"

/* learn_steps calls the bodies of other kernels. A CPU compiles it as a file of its own: see
 * kernels/fused/cpu_steps.h. */
#ifdef __CUDACC__
#include "kernels/fused/learn_steps.h"
#else
#include "kernels/fused/cpu_steps.h"
#endif

/* Checks at compile time that GPUR_KERNEL_TOGETHER opened every kernel of GPUR_MEETING_KERNEL_LIST: the other macros
 * do not define the constant that is used here. */
#define GPUR_MEETS_LINE(name) gpur_##name##_meets +
enum { GPUR_MEETING_KERNELS = GPUR_MEETING_KERNEL_LIST(GPUR_MEETS_LINE) 0 };
#undef GPUR_MEETS_LINE
