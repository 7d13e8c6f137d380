/* SPDX-License-Identifier: MIT */
/* Do all contestants remember the same? Until training begins they play alike, so that every row must be equal. */
#include "bench/training/trainee.h"

#include <stdlib.h>
#include <string.h>

static int same(const melee_row *a, const melee_row *b)
{
    return memcmp(a->obs, b->obs, sizeof a->obs) == 0 && memcmp(a->next_obs, b->next_obs, sizeof a->obs) == 0 &&
           a->action == b->action && memcmp(&a->reward, &b->reward, sizeof a->reward) == 0 &&
           a->terminated == b->terminated;
}

static melee_row *oldest(const trainee *c, int64_t count)
{
    melee_row *const rows = calloc((size_t)count, sizeof *rows);
    bench_must(rows ? GPUR_OK : GPUR_OUT_OF_MEMORY, "rows to compare");
    c->kind->read(c->memory, count, rows);
    return rows;
}

void trainee_must_agree(const trainee *first, const trainee *second, int64_t count)
{
    melee_row *const ours = oldest(first, count), *const theirs = oldest(second, count);
    for (int64_t i = 0; i < count; i++) {
        if (same(&ours[i], &theirs[i]))
            continue;
        fprintf(stderr, "row %lld of \"%s\" is not that of \"%s\": this would compare two different trainings\n",
                (long long)i, first->kind->name, second->kind->name);
        exit(1);
    }
    free(ours);
    free(theirs);
}
