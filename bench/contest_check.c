/* SPDX-License-Identifier: MIT */
/* Do they compute the same? Only then are their times worth comparing. */
#include "contest.h"
#include "ram_random.h"

#include <stdlib.h>
#include <string.h>

static float loss_of(gpur_learner *learner)
{
    gpur_learner_stats stats = {.size = sizeof stats};
    bench_must(gpur_learner_get_stats(learner, &stats), "learner statistics");
    return stats.loss;
}

/* All on the same device by the same kernels: nothing excuses a difference. */
static int step_agrees(contest *c, int64_t step, const int64_t *ids)
{
    float loss[CONTESTANTS];
    for (int i = 0; i < CONTESTANTS; i++) {
        contestant *const p = &c->player[i];
        p->kind->train_on(p, ids);
        loss[i] = loss_of(p->learner);
        if (memcmp(&loss[i], &loss[0], sizeof loss[i]) != 0) {
            bench_hide();
            fprintf(stderr, "the contestants differ: batch %lld, step %lld: loss %.9g %s, %.9g %s\n",
                    (long long)p->batch, (long long)step, (double)loss[0], c->player[0].kind->name, (double)loss[i],
                    p->kind->name);
            return 0;
        }
    }
    return 1;
}

int contest_agrees(contest *c, int64_t steps)
{
    const int64_t batch = c->player[0].batch;
    int64_t *const ids = malloc((size_t)batch * sizeof *ids);
    uint64_t random = (uint64_t)batch;
    int agree = ids != NULL;
    for (int64_t t = 0; t < steps && agree; t++) {
        for (int64_t b = 0; b < batch; b++)
            ids[b] = ram_random_below(&random, c->capacity);
        agree = step_agrees(c, t, ids);
    }
    free(ids);
    return agree;
}
