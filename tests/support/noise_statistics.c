/* SPDX-License-Identifier: MIT */
#include "support/noise_statistics.h"

#include "support/replay_fixture.h"
#include "test.h"

#include <math.h>
#include <stddef.h>

/* Of equal cells of the normal distribution the one with x. */
static int cell_of(double x, int cells)
{
    const int cell = (int)(0.5 * erfc(-x / sqrt(2)) * cells);
    return cell < cells ? cell : cells - 1;
}

void noise_statistics_add(noise_statistics *s, const double *now, const double *before, int rows, int size)
{
    for (int i = 0; i < rows * size; i++) {
        const int pair = cell_of(now[i], NOISE_PAIRS) * NOISE_PAIRS;
        s->sum += now[i], s->squares += now[i] * now[i], s->count++;
        s->cells[cell_of(now[i], NOISE_CELLS)]++;
        if (i % size % 2 == 0) /* sine and cosine of one radius, which must be independent all the same */
            s->by_component[pair + cell_of(now[i + 1], NOISE_PAIRS)]++;
        if (i / size % 2 == 0)
            s->by_row[pair + cell_of(now[i + size], NOISE_PAIRS)]++;
        if (before)
            s->by_step[pair + cell_of(before[i], NOISE_PAIRS)]++;
    }
}

static void check_even(const int64_t *cells, int count)
{
    CHECK(chi_square_tail(chi_square_statistic(cells, count), count - 1) > 1e-6);
}

void noise_statistics_check(const noise_statistics *s)
{
    const double n = (double)s->count;
    CHECK_NEAR(s->sum / n, 0, 5 / sqrt(n));
    CHECK_NEAR(s->squares / n, 1, 5 * sqrt(2 / n));
    check_even(s->cells, NOISE_CELLS);
    check_even(s->by_component, NOISE_PAIRS * NOISE_PAIRS);
    check_even(s->by_row, NOISE_PAIRS * NOISE_PAIRS);
    check_even(s->by_step, NOISE_PAIRS * NOISE_PAIRS);
}
