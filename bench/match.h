/* SPDX-License-Identifier: MIT */
/* Several ways to do the same thing, each in turn in every round, A B C A B C ...: times, and ratios of neighbours. */
#ifndef BENCH_MATCH_H
#define BENCH_MATCH_H

#include "bench.h"

enum { MATCH_MOST = 8 };

/* One way. The body's repeats are as many as a sample needs, or one if the match says so. */
typedef struct match_entrant {
    const char *name; /* "in-device" */
    const char *note; /* how it was done here; NULL: nothing to say */
    double items;     /* things one repeat handles */
    bench_body body;
    void *context;
    void (*before)(void *context); /* each sample, untimed; NULL: nothing to do */
    void (*after)(void *context);
} match_entrant;

typedef struct match {
    const char *figure; /* the picture it belongs to: "train step" */
    const char *x_name; /* what is varied from case to case: "batch" */
    double x;
    const char *item; /* "step" */
    double seconds;   /* of one sample, at least; 0: one repeat, which its body makes long enough */
    int rounds;       /* at most; 0: as the options say */
    int reference;    /* the entrant that the others are compared with */
    int count;
    match_entrant entrant[MATCH_MOST];
} match;

/* Plays all rounds, prints a line an entrant, writes every sample. */
void match_play(bench_report *report, const match *m);

#endif
