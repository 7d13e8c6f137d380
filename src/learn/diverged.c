/* SPDX-License-Identifier: MIT */
/* The message of a learner that has diverged. */
#include "learn/diverged.h"

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

gpur_status gpur_diverged(const gpur_divergence *d)
{
    char loss[64] = "", clip[64] = "", numbers[128] = "";
    add_number(numbers, sizeof numbers, "loss", d->loss);
    add_number(numbers, sizeof numbers, d->value_name, d->mean_value);
    add_number(numbers, sizeof numbers, "gradient norm", d->gradient_norm);
    if (!isnan(d->loss_before))
        snprintf(loss, sizeof loss, ", and the loss before was %g", d->loss_before);
    if (d->reward_clip)
        snprintf(clip, sizeof clip, " by reward_clip, now %g%s", (double)*d->reward_clip,
                 *d->reward_clip > 0.0f ? "" : " (none)");
    return gpur_fail(GPUR_INVALID_ARGUMENT,
                     "%s%sthe learner has diverged: after train step %" PRId64 " its numbers are not finite (%s)%s. It "
                     "helps most often to lower learning_rate, now %g, to limit the gradient by clip_norm, now %g%s, "
                     "or to scale rewards or clip them%s",
                     d->network, d->network[0] ? ": " : "", d->step, numbers[0] ? numbers : "weights", loss,
                     d->learning_rate, (double)d->optimizer->clip_norm, d->optimizer->clip_norm > 0.0f ? "" : " (none)",
                     clip);
}
