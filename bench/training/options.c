/* SPDX-License-Identifier: MIT */
#include "bench/training/training.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* The shortest training has twice a round's rows when it first draws, which are more than the largest batch. */
enum { STEPS = 100000, QUICK_STEPS = 1000, MOST_STEPS = 1000000000, MOST_BATCH = 256, BURN_IN = 2000 };

static int usage(const char *program, int status)
{
    fprintf(status ? stderr : stdout,
            "%s: a whole training on the dodge game, with the replay in RAM and on the device\n"
            "  --device NAME   cpu, cuda:0, ... (cpu)\n"
            "  --steps N       environment steps of each training, %d to %d (%d)\n"
            "  --batch N       transitions a train step, 1 to %d (first 32, then 128)\n"
            "  --seed N        of environments, weights, exploration and the device's draws (1)\n"
            "  --json FILE     write the curves and totals\n"
            "  --quick         %d steps: too few to learn anything\n",
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

/* 0, or -1 having said what is wanted. */
static int read_count(training_options *options, const struct count *count, const char *text)
{
    char *end;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    if (errno || end == text || *end || value < count->low || value > count->high) {
        fprintf(stderr, "%s is \"%s\"; it must be a whole number from %lld to %lld\n", count->name, text,
                (long long)count->low, (long long)count->high);
        return -1;
    }
    *(int64_t *)((char *)options + count->offset) = value;
    return 0;
}

/* An option that has a value. 0, or -1 likewise. */
static int read_value(training_options *options, const char *name, const char *value)
{
    if (!strcmp(name, "--device"))
        return (options->device = value, 0);
    if (!strcmp(name, "--json"))
        return (options->json = value, 0);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (!strcmp(name, counts[i].name))
            return read_count(options, &counts[i], value);
    fprintf(stderr, "\"%s\" is no option\n", name);
    return -1;
}

int training_read_options(training_options *options, int argc, char **argv)
{
    *options = (training_options){.device = "cpu", .steps = STEPS, .seed = 1};
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--help"))
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

int64_t training_slice(const training_options *options)
{
    return whole_rounds((options->steps + TRAINING_POINTS - 1) / TRAINING_POINTS);
}

int32_t training_points(const training_options *options)
{
    return (int32_t)((options->steps + training_slice(options) - 1) / training_slice(options));
}

int64_t training_exploration(const training_options *options)
{
    return options->steps / 5;
}
