/* SPDX-License-Identifier: MIT */
/*
 * The contest: the same network, optimiser and transitions; three places to keep the transitions. Every contestant has
 * a learner of the same preset and seed. Those in RAM stand on a replay that lends its schema and holds nothing.
 */
#ifndef BENCH_CONTEST_H
#define BENCH_CONTEST_H

#include "ceilings.h"
#include "match.h"
#include "setup.h"

enum {
    CONTEST_LIST = 0,   /* in-RAM, as in the paper */
    CONTEST_ROWS = 1,   /* in-RAM, done well */
    CONTEST_CALLS = 2,  /* in-device, a call a step: the same replay as the next */
    CONTEST_DEVICE = 3, /* in-device, steps enqueued together */
    CONTESTANTS = 4,
};

typedef struct contestant contestant;

/* What differs between them. */
typedef struct contest_kind {
    const char *name;
    int32_t host_batches; /* of its learner */
    int32_t in_ram;       /* 1: the replay lends its schema, and is as small as can be */
    void (*open)(contestant *c, int64_t capacity);
    void (*close)(contestant *c);
    void (*append)(contestant *c, gpur_writer *writer, int64_t count, const melee_row *rows); /* any thread */
    void (*learn)(contestant *c);                                                             /* a learner has come */
    const char *(*ready)(contestant *c); /* it is about to be timed; how it is going to be fed, or NULL */
    void (*rest)(contestant *c);         /* it is about to go */
    void (*train)(contestant *c, int64_t steps);
    void (*train_on)(contestant *c, const int64_t *ids); /* (batch) on these; id and place are the same */
    int64_t (*host_bytes)(const contestant *c);          /* that the transitions take, beside the replay */
} contest_kind;

struct contestant {
    const contest_kind *kind;
    gpur_device *device;
    gpur_replay *replay;
    gpur_learner *learner; /* NULL between two cases */
    int64_t batch;
    const char *note;
    void *store;          /* the kind's */
    int64_t pinned_bytes; /* of the replay */
};

typedef struct contest {
    gpur_device *device;
    int64_t capacity;
    contestant player[CONTESTANTS];
} contest;

extern const contest_kind contest_list, contest_rows, contest_calls, contest_device;

/* Full of the same `capacity` transitions, of which row i is contest_make_rows's row i. The report shows it. */
void contest_open(const bench_report *report, contest *c, gpur_device *device, int64_t capacity);
void contest_close(contest *c);

/* Learners for batches of this size, from the same weights; and without them again. */
void contest_begin(contest *c, int64_t batch);
void contest_end(contest *c);

/* The same for one player. The replay of contest_calls is another's: it is neither opened nor closed. */
void contestant_open(contestant *c, const contest_kind *kind, gpur_device *device, int64_t capacity);
void contestant_fill(contestant *c, int64_t rows);
void contestant_learn(contestant *c, int64_t batch);
void contestant_rest(contestant *c);
void contestant_close(contestant *c);
gpur_writer *contestant_writer(contestant *c); /* for one thread that appends */

/* Makes it a replay that lends its schema, as small as can be: room for the largest batch beside a block. */
void contest_lend(gpur_replay_config *config);

/* Rows `first` to first + count - 1: every number a function of where it stands. */
void contest_make_rows(int64_t first, int64_t count, melee_row *rows);

/* Feeds all of them the same ids for `steps` steps and compares the losses, which must be equal to the last bit. 0:
 * they are not, and why was printed. */
int contest_agrees(contest *c, int64_t steps);

/* The experiments [Parr 2018, section 5]. */
int contest_steps(bench_report *report, contest *c, const int64_t *batches, int count); /* 0: the losses differ */
void contest_appends(bench_report *report, contest *c, const int64_t *updates, int count);
void contest_starts(bench_report *report, const contest *c);
void contest_crowds(bench_report *report, contest *c, int64_t batch, const int *threads, int count);
void contest_deals(bench_report *report, contest *c, int64_t batch);
void contest_roofline(bench_report *report, contest *c, const ceilings *most, int64_t batch);

#endif
