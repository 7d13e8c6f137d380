/* SPDX-License-Identifier: MIT */
/* Train-step time by batch size [Parr 2018, table 1 and figure 4]. */
#include "contest.h"

enum { CHECKED_STEPS = 50 };

static void train(void *context, int64_t repeats)
{
    contestant *const c = context;
    c->kind->train(c, repeats);
}

static void play(bench_report *report, contest *c, int64_t batch)
{
    match m = {.figure = "train step",
               .x_name = "batch",
               .x = (double)batch,
               .item = "step",
               .count = CONTESTANTS,
               .seconds = 5 * report->options->seconds,
               .reference = CONTEST_DEVICE};
    for (int i = 0; i < CONTESTANTS; i++) {
        contestant *const p = &c->player[i];
        p->note = p->kind->ready ? p->kind->ready(p) : NULL;
        m.entrant[i] = (match_entrant){.name = p->kind->name, .note = p->note, .items = 1, .body = train, .context = p};
    }
    match_play(report, &m);
}

int contest_steps(bench_report *report, contest *c, const int64_t *batches, int count)
{
    int agree = 1;
    for (int i = 0; i < count && agree; i++) {
        bench_show(report, "the same ids for all, the losses compared", 0);
        contest_begin(c, batches[i]);
        agree = contest_agrees(c, CHECKED_STEPS);
        if (agree)
            play(report, c, batches[i]);
        contest_end(c);
    }
    return agree;
}
