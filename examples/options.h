/* SPDX-License-Identifier: MIT */
/* The command line of a training program. */
#ifndef EXAMPLES_OPTIONS_H
#define EXAMPLES_OPTIONS_H

#include <stdint.h>

typedef struct train_options {
    const char *device; /* as gpur_device_open takes it */
    const char *out;    /* folder for the CSV; made if missing */
    const char *resume; /* folder with an earlier run's files, to go on from; "none" */
    int64_t seed;       /* of environments, weights, draws and exploration: the same seed trains alike on one device */
    int64_t envs;       /* environments stepped together */
    int64_t steps;      /* of all environments together, at most */
    int64_t seconds;    /* at most */
} train_options;

enum { OPTIONS_RUN = 0, OPTIONS_HELP = 1, OPTIONS_WRONG = 2 };

/* Overwrites in `options` what the command line names; the rest keeps the caller's defaults. HELP was printed; WRONG
 * said on stderr what was given and what is wanted. */
int options_read(train_options *options, int argc, char **argv);

#endif
