/* SPDX-License-Identifier: MIT */
/* The contestants in turns, a slice of the curve each. */
#include "bench/training/trainee.h"
#include "bench/bench.h"
#include "bench/setup.h"
#include "examples/interrupt.h"

#include <math.h>
#include <unistd.h>

static const memory_kind *const kinds[TRAINING_CONTESTANTS] = {&memory_list, &memory_rows, &memory_device};

static void add_point(training_curve *curve, trainee *c)
{
    const int32_t i = curve->points++;
    curve->steps[i] = c->steps;
    curve->train_steps[i] = c->train_steps;
    curve->seconds[i] = c->seconds;
    curve->returns[i] = trainee_evaluate(c);
}

static void print_head(const training_options *options, int64_t batch)
{
    printf("batch %lld: %lld environment steps, a train step for each after the first %lld\n%10s", (long long)batch,
           (long long)options->steps, (long long)training_burn_in(options), "steps");
    for (int i = 0; i < TRAINING_CONTESTANTS; i++)
        printf("  %26s", kinds[i]->name);
    printf("\n%10s", "");
    for (int i = 0; i < TRAINING_CONTESTANTS; i++)
        printf("  %16s %9s", "seconds", "return");
    printf("\n");
    fflush(stdout);
}

/* A row of the table: where every contestant stands at its last point. */
static void print_point(const training_contest *contest)
{
    const int32_t last = contest->points - 1;
    printf("%10lld", (long long)contest->curves[0].steps[last]);
    for (int i = 0; i < TRAINING_CONTESTANTS; i++)
        printf("  %16.1f %9.2f", contest->curves[i].seconds[last], contest->curves[i].returns[last]);
    printf("\n");
    fflush(stdout);
}

/* On a terminal: who is at it, how much is done, and what is left by the pace until now. */
static void show_progress(const training_contest *contest, const training_options *options, int turn, double began)
{
    const double done = (double)(contest->points - 1) * TRAINING_CONTESTANTS + turn;
    const double share = done / (training_points(options) * TRAINING_CONTESTANTS), spent = bench_now() - began;
    char left[32] = "-";
    if (!isatty(STDERR_FILENO))
        return;
    if (done > 0)
        snprintf(left, sizeof left, "%.0f s", ceil(spent / share - spent));
    fprintf(stderr, "[batch %lld of %lld steps: %3.0f%%] %s, %s left\033[K\r", (long long)contest->batch,
            (long long)options->steps, 100.0 * share, kinds[turn]->name, left);
}

static void clear_progress(void)
{
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\033[K");
}

/* One point more of every curve. 1 when interrupted before all have it. */
static int train_slice(training_contest *contest, trainee *all, const training_options *options, double began)
{
    const int64_t until = training_point(options, contest->points);
    for (int i = 0; i < TRAINING_CONTESTANTS; i++) {
        show_progress(contest, options, i, began);
        trainee_train(&all[i], until);
        if (interrupt_came())
            return 1;
        add_point(&contest->curves[i], &all[i]);
    }
    contest->points++;
    clear_progress();
    print_point(contest);
    return 0;
}

static void begin(training_contest *contest, trainee *all, const training_options *options, gpur_device *device)
{
    print_head(options, contest->batch);
    for (int i = 0; i < TRAINING_CONTESTANTS; i++) {
        trainee_open(&all[i], kinds[i], device, options, contest->batch);
        contest->curves[i] = (training_curve){.contestant = kinds[i]->name, .batch = contest->batch};
        add_point(&contest->curves[i], &all[i]);
    }
    contest->points = 1;
    print_point(contest);
}

/* Play without training, after which all must remember the same. */
static void burn_in(trainee *all, const training_options *options)
{
    for (int i = 0; i < TRAINING_CONTESTANTS; i++)
        trainee_train(&all[i], training_burn_in(options));
    for (int i = 0; i < TRAINING_CONTESTANTS && !interrupt_came(); i++)
        if (i != TRAINING_BASE)
            trainee_must_agree(&all[i], &all[TRAINING_BASE], training_burn_in(options));
}

int training_run(training_contest *contest, const training_options *options, int64_t batch)
{
    trainee all[TRAINING_CONTESTANTS];
    interrupt_watch();
    gpur_device *const device = bench_open(options->device, 0);
    *contest = (training_contest){.batch = batch};
    begin(contest, all, options, device);
    const double began = bench_now();
    burn_in(all, options);
    int is_interrupted = interrupt_came();
    while (!is_interrupted && all[TRAINING_CONTESTANTS - 1].steps < options->steps)
        is_interrupted = train_slice(contest, all, options, began);
    clear_progress();
    for (int i = 0; i < TRAINING_CONTESTANTS; i++)
        trainee_close(&all[i]);
    gpur_device_close(device);
    return is_interrupted;
}
