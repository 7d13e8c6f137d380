/* SPDX-License-Identifier: MIT */
#include "learn/diverged.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

gpur_status gpur_diverged(const gpur_divergence *d)
{
    char loss[64] = "", clip[64] = "", number[64] = "weights";
    if (strcmp(d->what, "weights") != 0)
        snprintf(number, sizeof number, "%s is %g", d->what, d->value);
    if (!isnan(d->loss))
        snprintf(loss, sizeof loss, ", and the loss before was %g", d->loss);
    if (d->reward_clip)
        snprintf(clip, sizeof clip, " by reward_clip, now %g%s", (double)*d->reward_clip,
                 *d->reward_clip > 0.0f ? "" : " (none)");
    return gpur_fail(GPUR_INVALID_ARGUMENT,
                     "%sthe learner has diverged: after train step %" PRId64 " its numbers are not finite (%s)%s. It "
                     "helps most often to lower learning_rate, now %g, to limit the gradient by clip_norm, now %g%s, "
                     "or to scale rewards or clip them%s",
                     d->network, d->step, number, loss, d->learning_rate, (double)d->optimizer->clip_norm,
                     d->optimizer->clip_norm > 0.0f ? "" : " (none)", clip);
}
