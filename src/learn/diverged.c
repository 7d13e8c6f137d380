/* SPDX-License-Identifier: MIT */
/* Learners whose network is spoiled: they have diverged, and nothing but a saved state brings them back. */
#include "base/numbers.h"
#include "learn/learner.h"
#include "learn/weights_file.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Appends the number if it is not finite. Of a NaN the sign means nothing. */
static void add_number(char *numbers, size_t size, const char *name, double value)
{
    const size_t used = strlen(numbers);
    if (!isfinite(value))
        snprintf(numbers + used, size - used, "%s%s is %g", used > 0 ? ", " : "", name,
                 isnan(value) ? fabs(value) : value);
}

/* Fails: network i was spoiled by train step `step`, which left `state`; if its numbers are finite, a check of the
 * weights found that. The message has the settings that are the most frequent cause. */
static gpur_status refuse(const gpur_learner *learner, int i, int64_t step, const gpur_train_state *state,
                          const float *reward_clip)
{
    const gpur_trained *const n = &learner->networks[i];
    const float clip_norm = n->optimizer->config.clip_norm;
    char loss[64] = "", clip[64] = "", numbers[128] = "";
    add_number(numbers, sizeof numbers, "loss", (double)state->loss);
    add_number(numbers, sizeof numbers, n->value_name, (double)state->mean_q);
    add_number(numbers, sizeof numbers, "gradient norm", (double)state->gradient_norm);
    if (!isnan(state->finite_loss))
        snprintf(loss, sizeof loss, ", and the loss before was %g", (double)state->finite_loss);
    if (!reward_clip && learner->replay)
        reward_clip = &gpur_replay_settings(learner->replay)->reward_clip;
    if (reward_clip)
        snprintf(clip, sizeof clip, " by reward_clip, now %g%s", (double)*reward_clip,
                 *reward_clip > 0.0f ? "" : " (none)");
    return gpur_fail(GPUR_INVALID_ARGUMENT,
                     "%s%sthe learner has diverged: after train step %" PRId64 " its numbers are not finite (%s)%s. It "
                     "helps most often to lower learning_rate, now %g, to limit the gradient by clip_norm, now %g%s, "
                     "or to scale rewards or clip them%s",
                     n->name, n->name[0] ? ": " : "", step, numbers[0] ? numbers : "weights", loss,
                     (double)state->learning_rate, (double)clip_norm, clip_norm > 0.0f ? "" : " (none)", clip);
}

/* A network that is not trained in each step counts those that train it. */
int64_t gpur_learner_spoiled_at(const gpur_learner *learner, int i, const gpur_train_state *state)
{
    return (int64_t)state->diverged_at * (1 + learner->networks[i].pause);
}

/* Networks spoil each other; in the same step `main` is trained first. */
int gpur_learner_first_spoiled(const gpur_learner *learner, const gpur_train_state *states)
{
    int first = learner->main;
    for (int i = 0; i < learner->network_count; i++) {
        if (learner->networks[i].shares_weights) /* it has no state of its own */
            continue;
        const int64_t at = gpur_learner_spoiled_at(learner, i, &states[i]);
        const int64_t before = gpur_learner_spoiled_at(learner, first, &states[first]);
        if (at > 0 && (before == 0 || at < before))
            first = i;
    }
    return first;
}

gpur_status gpur_learner_check_finite(gpur_learner *learner)
{
    gpur_train_state states[GPUR_MAX_NETWORKS];
    for (int i = 0; i < learner->network_count; i++)
        if (!learner->networks[i].shares_weights)
            states[i] = gpur_train_stats_newest(&learner->stats[i]);
    const int i = gpur_learner_first_spoiled(learner, states);
    const int64_t step = gpur_learner_spoiled_at(learner, i, &states[i]);
    return step == 0 ? GPUR_OK : refuse(learner, i, step, &states[i], NULL);
}

gpur_status gpur_learner_weights_diverged(gpur_learner *learner, int i, int64_t step, const float *reward_clip)
{
    gpur_train_state state = gpur_train_stats_newest(&learner->stats[i]);
    const gpur_schedule *const rate = &learner->networks[i].optimizer->config.learning_rate;
    state.loss = state.mean_q = state.gradient_norm = 0.0f; /* finite */
    state.learning_rate = gpur_schedule_at(rate, gpur_max(step - 1, 0) / (1 + learner->networks[i].pause));
    return refuse(learner, i, step, &state, reward_clip);
}

/* A weight that is not finite is of the last step: an earlier one would have spoiled a loss. */
static gpur_status check_weights(gpur_learner *learner, int i, const float *reward_clip)
{
    const gpur_params *const params = &learner->networks[i].network->params;
    float *weights = NULL;
    int64_t steps = 0;
    GPUR_TRY(gpur_weights_alloc(learner->device, params, &weights));
    const gpur_status status = gpur_learner_download(learner, i, weights, &steps);
    const int are_finite =
        status != GPUR_OK || gpur_params_check_numbers(params, "", weights, GPUR_INVALID_ARGUMENT) == GPUR_OK;
    gpur_weights_free(learner->device, params, weights);
    GPUR_TRY(status);
    const int64_t last = (int64_t)gpur_train_stats_newest(&learner->stats[learner->main]).step;
    return are_finite ? GPUR_OK : gpur_learner_weights_diverged(learner, i, last, reward_clip);
}

gpur_status gpur_learner_check_weights(gpur_learner *learner, const float *reward_clip)
{
    GPUR_TRY(gpur_learner_sync(learner));
    for (int i = 0; i < learner->network_count; i++)
        if (!learner->networks[i].shares_weights)
            GPUR_TRY(check_weights(learner, i, reward_clip));
    return GPUR_OK;
}
