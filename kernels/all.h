/* SPDX-License-Identifier: MIT */
/* Includes every kernel, for the entry files. */
#include "kernels/kernels.h"

#include "kernels/learn/action_gradient.h"
#include "kernels/learn/actor_critic_loss.h"
#include "kernels/learn/bias_activation.h"
#include "kernels/conv/conv_bias_backward.h"
#include "kernels/collective_probe.h"
#include "kernels/learn/critic_distribution_error.h"
#include "kernels/learn/distribution_error.h"
#include "kernels/learn/distribution_greedy.h"
#include "kernels/learn/distribution_slope.h"
#include "kernels/learn/epsilon_greedy.h"
#include "kernels/learn/finish_step.h"
#include "kernels/conv/col2im.h"
#include "kernels/replay/gather.h"
#include "kernels/replay/gather_frames.h"
#include "kernels/replay/gather_preprocessed.h"
#include "kernels/learn/gradient_norm.h"
#include "kernels/learn/head.h"
#include "kernels/hindsight/hindsight_find.h"
#include "kernels/hindsight/hindsight_relabel.h"
#include "kernels/learn/layer_backward.h"
#include "kernels/learn/layer_norm.h"
#include "kernels/grid_sync_probe.h"
#include "kernels/lanes/lanes_add.h"
#include "kernels/lanes/lanes_advance.h"
#include "kernels/lanes/lanes_gather.h"
#include "kernels/lanes/lanes_reset.h"
#include "kernels/lanes/lanes_stack.h"
#include "kernels/conv/preprocess.h"
#include "kernels/conv/round_bf16.h"
#include "kernels/learn/noisy_action.h"
#include "kernels/learn/soft_value.h"
#include "kernels/learn/softmax_choice.h"
#include "kernels/learn/squashed_gaussian.h"
#include "kernels/learn/target_action.h"
#include "kernels/priority/priority_sample.h"
#include "kernels/priority/priority_evict.h"
#include "kernels/replay/priority_gather.h"
#include "kernels/priority/priority_insert_evict.h"
#include "kernels/priority/priority_rebuild.h"
#include "kernels/priority/priority_settle.h"
#include "kernels/priority/priority_validate.h"
#include "kernels/priority/priority_update.h"
#include "kernels/priority/priority_weights.h"
#include "kernels/learn/critic_error.h"
#include "kernels/learn/td_error.h"
#include "kernels/conv/im2col.h"
#include "kernels/learn/weight_update.h"
#include "kernels/conv/widen_bf16.h"
#include "kernels/returns/cache_advance.h"
#include "kernels/returns/cache_copy.h"
#include "kernels/returns/cache_draw.h"
#include "kernels/returns/cache_median.h"
#include "kernels/returns/cache_returns.h"
#include "kernels/returns/cache_values.h"
#include "kernels/replay/rebuild_frames.h"
#include "kernels/replay/scatter.h"
#include "kernels/replay/sequences.h"
#include "kernels/replay/window_set.h"
#include "kernels/replay/write_field.h"

/* fused_train_steps calls the bodies of other kernels. A CPU compiles it as a file of its own: see
 * kernels/fused/cpu_fused_steps.h. */
#ifdef __CUDACC__
#include "kernels/fused/fused_train_steps.h"
#else
#include "kernels/fused/cpu_fused_steps.h"
#endif

/* Checks at compile time that GPUR_KERNEL_COOPERATIVE opened every kernel of GPUR_COOPERATIVE_KERNEL_LIST: the other
 * macros do not define the constant that is used here. */
#define GPUR_COOPERATIVE_LINE(name) gpur_##name##_is_cooperative +
enum { GPUR_COOPERATIVE_KERNEL_CHECK = GPUR_COOPERATIVE_KERNEL_LIST(GPUR_COOPERATIVE_LINE) 0 };
#undef GPUR_COOPERATIVE_LINE
