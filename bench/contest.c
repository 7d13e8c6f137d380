/* SPDX-License-Identifier: MIT */
#include "contest.h"
#include "ram_random.h"

#include <stdlib.h>
#include <string.h>

enum { PART = 10000, LARGEST_BATCH = 1024, BLOCK = 16 };

static float unit(uint64_t *state)
{
    return (float)(ram_random(state) >> 40) * 0x1p-24f;
}

void contest_make_rows(int64_t first, int64_t count, melee_row *rows)
{
    memset(rows, 0, (size_t)count * sizeof *rows); /* the padding, too */
    for (int64_t i = 0; i < count; i++) {
        melee_row *const row = &rows[i];
        uint64_t state = (uint64_t)(first + i) * 0x2545f4914f6cdd1du;
        for (int f = 0; f < MELEE_OBS; f++)
            row->obs[f] = 2 * unit(&state) - 1, row->next_obs[f] = 2 * unit(&state) - 1;
        row->action = (int32_t)(unit(&state) * MELEE_ACTIONS);
        row->reward = unit(&state);
        row->terminated = unit(&state) < 0.01f;
    }
}

void contest_lend(gpur_replay_config *config)
{
    config->max_batch = LARGEST_BATCH;
    config->update_size = BLOCK;
    config->staging_blocks = 2;
    config->capacity = LARGEST_BATCH + BLOCK;
}

void contestant_open(contestant *c, const contest_kind *kind, gpur_device *device, int64_t capacity)
{
    gpur_replay_config config;
    gpur_replay_plan plan = {.size = sizeof plan};
    *c = (contestant){.kind = kind, .device = device};
    bench_melee_config(&config, capacity);
    if (kind->in_ram)
        contest_lend(&config);
    bench_must(gpur_replay_plan_bytes(&config, &plan), "replay plan");
    bench_must(gpur_replay_create(device, &config, &c->replay), "replay");
    c->pinned_bytes = plan.pinned_bytes;
    if (kind->open)
        kind->open(c, capacity);
}

gpur_writer *contestant_writer(contestant *c)
{
    gpur_writer *writer = NULL;
    bench_must(gpur_writer_create(c->replay, 1, &writer), "writer");
    return writer;
}

void contestant_fill(contestant *c, int64_t count)
{
    melee_row *const rows = malloc(PART * sizeof *rows);
    gpur_writer *const writer = contestant_writer(c);
    if (!rows)
        bench_must(GPUR_OUT_OF_MEMORY, "rows");
    for (int64_t done = 0; done < count; done += PART) {
        const int64_t part = count - done < PART ? count - done : PART;
        contest_make_rows(done, part, rows);
        c->kind->append(c, writer, part, rows);
    }
    gpur_writer_destroy(writer);
    bench_must(gpur_device_sync(c->device), "sync");
    free(rows);
}

void contestant_learn(contestant *c, int64_t batch)
{
    gpur_learner_config config;
    bench_must(gpur_learner_config_init(&config, sizeof config), "learner config");
    bench_must(gpur_learner_config_preset(&config, "melee-gpu"), "preset");
    config.batch_size = c->batch = batch;
    config.host_batches = c->kind->host_batches;
    bench_must(gpur_learner_create(c->replay, &config, &c->learner), c->kind->name);
    if (c->kind->learn)
        c->kind->learn(c);
}

void contestant_rest(contestant *c)
{
    if (c->kind->rest)
        c->kind->rest(c);
    gpur_learner_destroy(c->learner);
    c->learner = NULL;
    c->note = NULL;
}

void contestant_close(contestant *c)
{
    if (c->kind->close)
        c->kind->close(c);
    gpur_replay_destroy(c->replay);
}

void contest_open(const bench_report *report, contest *c, gpur_device *device, int64_t capacity)
{
    static const contest_kind *const kinds[CONTESTANTS] = {
        [CONTEST_LIST] = &contest_list, [CONTEST_ROWS] = &contest_rows, [CONTEST_DEVICE] = &contest_device};
    *c = (contest){.device = device, .capacity = capacity};
    for (int i = 0; i < CONTESTANTS; i++)
        if (kinds[i]) {
            bench_show(report, "filling the replays with 1,000,000 transitions each", 0);
            contestant_open(&c->player[i], kinds[i], device, capacity);
            contestant_fill(&c->player[i], capacity);
        }
    c->player[CONTEST_CALLS] = c->player[CONTEST_DEVICE];
    c->player[CONTEST_CALLS].kind = &contest_calls;
}

void contest_close(contest *c)
{
    for (int i = 0; i < CONTESTANTS; i++)
        if (i != CONTEST_CALLS)
            contestant_close(&c->player[i]);
}

void contest_begin(contest *c, int64_t batch)
{
    for (int i = 0; i < CONTESTANTS; i++)
        contestant_learn(&c->player[i], batch);
}

void contest_end(contest *c)
{
    for (int i = 0; i < CONTESTANTS; i++)
        contestant_rest(&c->player[i]);
}
