/* SPDX-License-Identifier: MIT */
#include "bench/training/training.h"

#include <math.h>

double training_percent_faster(const training_contest *contest, int32_t contestant)
{
    const int32_t last = contest->points - 1;
    if (last < 1)
        return NAN;
    return 100.0 * (contest->curves[TRAINING_BASE].seconds[last] / contest->curves[contestant].seconds[last] - 1.0);
}

/* Mean of a curve's last quarter, which swings less than its last point. */
static double late_return(const training_curve *curve, int32_t points)
{
    const int32_t count = points < 4 ? 1 : points / 4;
    double sum = 0.0;
    for (int32_t i = points - count; i < points; i++)
        sum += curve->returns[i];
    return sum / count;
}

static void print_total(const training_contest *contest, int32_t contestant)
{
    const training_curve *const curve = &contest->curves[contestant];
    const int32_t last = contest->points - 1;
    const double percent = training_percent_faster(contest, contestant);
    const double steps = fmax((double)curve->train_steps[last], 1.0);
    char faster[32] = "-";
    if (!isnan(percent) && contestant != TRAINING_BASE)
        snprintf(faster, sizeof faster, "%+.1f%%", percent);
    printf("%-26s %12lld %10.1f %14.1f %10s %12.2f\n", curve->contestant, (long long)curve->train_steps[last],
           curve->seconds[last], 1e6 * curve->seconds[last] / steps, faster, late_return(curve, contest->points));
}

void training_print_totals(const training_contest *contest)
{
    printf("\n%-26s %12s %10s %14s %10s %12s\n", "", "train steps", "seconds", "us/train step", "faster",
           "late return");
    for (int32_t i = 0; i < TRAINING_CONTESTANTS; i++)
        print_total(contest, i);
    printf("faster: than %s. late return: mean of the curve's last quarter. seconds: of play and training\n\n",
           contest->curves[TRAINING_BASE].contestant);
}
