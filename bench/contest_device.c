/* SPDX-License-Identifier: MIT */
/* In-device: the replay draws, gathers and trains on the device. Steps are enqueued together, or one by one as by an
 * agent that trains once for every transition it receives. */
#include "contest.h"

static void append(contestant *c, gpur_writer *writer, int64_t count, const melee_row *rows)
{
    (void)c;
    bench_must(gpur_writer_append(writer, count, rows, NULL), "append");
}

static void train(contestant *c, int64_t steps)
{
    bench_must(gpur_learner_train(c->learner, steps), "train");
    bench_must(gpur_learner_sync(c->learner), "sync");
}

static void train_in_calls(contestant *c, int64_t steps)
{
    for (int64_t i = 0; i < steps; i++)
        bench_must(gpur_learner_train(c->learner, 1), "train");
    bench_must(gpur_learner_sync(c->learner), "sync");
}

static void train_on(contestant *c, const int64_t *ids)
{
    bench_must(gpur_learner_train_on(c->learner, ids), "train on ids");
    bench_must(gpur_learner_sync(c->learner), "sync");
}

static int64_t host_bytes(const contestant *c)
{
    (void)c;
    return 0;
}

const contest_kind contest_device = {
    .name = "in-device",
    .append = append,
    .train = train,
    .train_on = train_on,
    .host_bytes = host_bytes,
};

const contest_kind contest_calls = {
    .name = "in-device, a call a step",
    .append = append,
    .train = train_in_calls,
    .train_on = train_on,
    .host_bytes = host_bytes,
};
