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

static double slice_seconds(const training_curve *curve, int32_t point)
{
    return curve->seconds[point] - curve->seconds[point - 1];
}

bench_summary training_slices_faster(const training_contest *contest, int32_t contestant)
{
    double percent[TRAINING_POINTS];
    const training_curve *const base = &contest->curves[TRAINING_BASE], *const other = &contest->curves[contestant];
    for (int32_t i = 1; i < contest->points; i++)
        percent[i - 1] = 100.0 * (slice_seconds(base, i) / slice_seconds(other, i) - 1.0);
    return contest->points > 1 ? bench_summarise(percent, contest->points - 1) : (bench_summary){.runs = 0};
}

/* "+12.3% (+10.1 to +14.0)", or "-" where there are too few slices to say. */
static const char *faster_text(const training_contest *contest, int32_t contestant, char text[48])
{
    const bench_summary slices = training_slices_faster(contest, contestant);
    if (slices.runs < BENCH_FEWEST_ROUNDS || contestant == TRAINING_BASE)
        snprintf(text, 48, "-");
    else
        snprintf(text, 48, "%+.1f%% (%+.1f to %+.1f)", slices.median, slices.low, slices.high);
    return text;
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
    const double steps = fmax((double)curve->train_steps[last], 1.0);
    char faster[48];
    printf("%-26s %12lld %10.1f %14.1f %26s %12.2f\n", curve->contestant, (long long)curve->train_steps[last],
           curve->seconds[last], 1e6 * curve->seconds[last] / steps, faster_text(contest, contestant, faster),
           late_return(curve, contest->points));
}

void training_print_totals(const training_contest *contest)
{
    printf("\n%-26s %12s %10s %14s %26s %12s\n", "", "train steps", "seconds", "us/train step", "faster",
           "late return");
    for (int32_t i = 0; i < TRAINING_CONTESTANTS; i++)
        print_total(contest, i);
    printf("faster: than %s, slice by slice of this one training: median (95%% interval); -: fewer than %d slices\n"
           "late return: mean of the curve's last quarter. seconds: of play and training\n\n",
           contest->curves[TRAINING_BASE].contestant, BENCH_FEWEST_ROUNDS);
}
