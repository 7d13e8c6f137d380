/* SPDX-License-Identifier: MIT */
/* The random walk on the numbers of threads. */
#include "run/ga3c/tuner.h"

#include "gpureplay/ga3c.h"
#include "kernels/lib/random.h"

/* The largest relative drop of the rate at which a change is still accepted. Rates of equal numbers differ from window
 * to window; and one more trainer, say, costs a little as long as there are no more agents for it. With 0 the rule of
 * one change at a time stays there (test_ga3c_tuner.c has such rates). */
static const double allowance = 0.05;

/* After so many rejected changes in a row the accepted numbers are measured again: the load may have changed, or their
 * rate was a chance. */
enum { REJECTED_IN_A_ROW = 4 };

void gpur_tuner_begin(gpur_tuner *tuner, int32_t kind, uint64_t seed, gpur_ga3c_numbers most)
{
    *tuner = (gpur_tuner){.kind = kind, .seed = seed, .most = most};
}

static int are_equal(gpur_ga3c_numbers a, gpur_ga3c_numbers b)
{
    return a.agents == b.agents && a.predictors == b.predictors && a.trainers == b.trainers;
}

/* Small falls do not add up: the rate that changes have to keep up with falls only when the accepted numbers
 * themselves, measured again, have become slower. */
int gpur_tuner_judge(gpur_tuner *tuner, gpur_ga3c_numbers measured, double rate)
{
    const int is_again = are_equal(measured, tuner->accepted);
    if (!is_again && rate < tuner->rate * (1.0 - allowance)) {
        tuner->rejected++;
        return 0;
    }
    tuner->accepted = measured;
    tuner->rate = is_again || rate > tuner->rate ? rate : tuner->rate;
    tuner->rejected = 0;
    return 1;
}

static uint64_t draw(gpur_tuner *tuner, uint64_t n)
{
    return gpur_random_below(gpur_random_bits(tuner->seed, GPUR_RANDOM_GA3C_TUNER, tuner->draws++, 0), n);
}

static int32_t within(int32_t number, int32_t most)
{
    return number < 1 ? 1 : number > most ? most : number;
}

static gpur_ga3c_numbers change(const gpur_tuner *tuner, int32_t agents, int32_t predictors, int32_t trainers)
{
    const gpur_ga3c_numbers a = tuner->accepted;
    return (gpur_ga3c_numbers){within(a.agents + agents, tuner->most.agents),
                               within(a.predictors + predictors, tuner->most.predictors),
                               within(a.trainers + trainers, tuner->most.trainers)};
}

static gpur_ga3c_numbers propose(gpur_tuner *tuner)
{
    if (tuner->kind == GPUR_TUNER_CODE) {
        const int32_t agents = (int32_t)draw(tuner, 3) - 1, predictors = (int32_t)draw(tuner, 3) - 1;
        return change(tuner, agents, predictors, (int32_t)draw(tuner, 3) - 1);
    }
    const uint64_t which = draw(tuner, 3);
    const int32_t by = draw(tuner, 2) ? 1 : -1;
    return change(tuner, which == 0 ? by : 0, which == 1 ? by : 0, which == 2 ? by : 0);
}

/* A change that the limits take back would be no change: another one is drawn, if there is one. */
gpur_ga3c_numbers gpur_tuner_propose(gpur_tuner *tuner)
{
    if (tuner->rejected >= REJECTED_IN_A_ROW)
        return tuner->accepted;
    gpur_ga3c_numbers next = propose(tuner);
    for (int i = 0; i < 64 && are_equal(next, tuner->accepted); i++)
        next = propose(tuner);
    return next;
}
