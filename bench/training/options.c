/* SPDX-License-Identifier: MIT */
#include "bench/count.h"
#include "bench/training/training.h"

#include <stddef.h>
#include <string.h>

/* The shortest training has twice a round's rows when it first draws, which are more than the largest batch. */
enum { STEPS = 60000, QUICK_STEPS = 1000, MOST_STEPS = 1000000000, MOST_BATCH = 256, BURN_IN = 2000 };

static int usage(const char *program, int status)
{
    fprintf(status ? stderr : stdout,
            "%s: a whole training on the dodge game, with the replay in RAM and on the device\n"
            "  --device NAME   cpu, cuda:0, ... (cpu)\n"
            "  --steps N       environment steps of each training, %d to %d (%d)\n"
            "  --batch N       transitions a train step, 1 to %d (first 32, then 128)\n"
            "  --seed N        of environments, weights, exploration and the device's draws (1)\n"
            "  --json FILE     write the curves and totals\n"
            "  --quick         %d steps: too few to learn anything\n"
            "  --help          this text\n"
            "At Ctrl-C it ends with status 130, and the curves until then are in the JSON.\n",
            program, QUICK_STEPS, MOST_STEPS, STEPS, MOST_BATCH, QUICK_STEPS);
    return status + 1;
}

static const struct count {
    const char *name;
    size_t offset; /* in training_options: an int64_t */
    int64_t low, high;
} counts[] = {
    {"--steps", offsetof(training_options, steps), QUICK_STEPS, MOST_STEPS},
    {"--batch", offsetof(training_options, batch), 1, MOST_BATCH},
    {"--seed", offsetof(training_options, seed), 0, INT64_MAX},
};

/* An option that has a value. 0, or -1 having said what is wanted. */
static int read_value(training_options *options, const char *name, const char *value)
{
    if (!strcmp(name, "--device"))
        return (options->device = value, 0);
    if (!strcmp(name, "--json"))
        return (options->json = value, 0);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (!strcmp(name, counts[i].name))
            return read_count(name, value, counts[i].low, counts[i].high,
                              (int64_t *)((char *)options + counts[i].offset));
    fprintf(stderr, "\"%s\" is no option\n", name);
    return -1;
}

int training_read_options(training_options *options, int argc, char **argv)
{
    *options = (training_options){.device = "cpu", .steps = STEPS, .seed = 1};
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
            return usage(argv[0], 0);
        if (!strcmp(argv[i], "--quick")) {
            options->quick = 1, options->steps = QUICK_STEPS;
            continue;
        }
        if (i + 1 == argc)
            fprintf(stderr, "\"%s\" is no option, or has no value\n", argv[i]);
        if (i + 1 == argc || read_value(options, argv[i], argv[i + 1]) != 0)
            return usage(argv[0], 2);
        i++;
    }
    return 0;
}

static int64_t whole_rounds(int64_t steps)
{
    return (steps + TRAINING_ROUND - 1) / TRAINING_ROUND * TRAINING_ROUND;
}

int64_t training_burn_in(const training_options *options)
{
    const int64_t fifth = whole_rounds(options->steps / 5);
    return fifth < BURN_IN ? fifth : BURN_IN;
}

static int64_t slice(const training_options *options)
{
    return whole_rounds((options->steps + TRAINING_POINTS - 1) / TRAINING_POINTS);
}

static int64_t slices(const training_options *options, int64_t steps)
{
    return (steps + slice(options) - 1) / slice(options);
}

int64_t training_point(const training_options *options, int32_t point)
{
    const int64_t steps = (slices(options, training_burn_in(options)) + point - 1) * slice(options);
    if (point == 0)
        return 0;
    return steps < options->steps ? steps : options->steps;
}

int32_t training_points(const training_options *options)
{
    return (int32_t)(slices(options, options->steps) - slices(options, training_burn_in(options)) + 1);
}

int64_t training_exploration(const training_options *options)
{
    return options->steps / 5;
}
