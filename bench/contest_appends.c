/* SPDX-License-Identifier: MIT */
/*
 * Time to append one transition a call, by update_size [Parr 2018, section 5 and figure 3]. Every memory is full, and
 * what was appended has arrived when the clock stops. The RAM contestants take no lock here: one thread appends.
 */
#include "contest.h"
#include "ram_list.h"
#include "ram_rows.h"

#include <stdlib.h>

enum { ROWS = 4096, LEAST = 64, CALL = 16 };

typedef struct append_context {
    ram_list *list;
    ram_rows *block;
    gpur_device *device;
    gpur_writer *writer;
    int64_t chunk; /* transitions a repeat */
    const melee_row *rows;
} append_context;

static void to_list(void *context, int64_t repeats)
{
    const append_context *const c = context;
    for (int64_t i = 0; i < repeats * c->chunk; i++)
        ram_list_append(c->list, &c->rows[i % ROWS]);
}

static void to_block(void *context, int64_t repeats)
{
    const append_context *const c = context;
    for (int64_t i = 0; i < repeats * c->chunk; i++)
        ram_rows_append(c->block, 1, &c->rows[i % ROWS]);
}

static void to_device(void *context, int64_t repeats)
{
    const append_context *const c = context;
    for (int64_t i = 0; i < repeats * c->chunk; i++)
        bench_must(gpur_writer_append(c->writer, 1, &c->rows[i % ROWS], NULL), "append");
    bench_must(gpur_device_sync(c->device), "sync");
}

/* As a step of 16 environments hands them over. */
static void to_device_together(void *context, int64_t repeats)
{
    const append_context *const c = context;
    for (int64_t left = repeats * c->chunk, i = 0; left > 0; left -= CALL, i += CALL)
        bench_must(gpur_writer_append(c->writer, left < CALL ? left : CALL, &c->rows[i % ROWS], NULL), "append");
    bench_must(gpur_device_sync(c->device), "sync");
}

/* Full, and with nothing left in staging: the capacity is brought up to whole blocks. */
static gpur_replay *full_replay(gpur_device *device, int64_t capacity, int64_t update)
{
    gpur_replay_config config;
    gpur_replay *replay = NULL;
    bench_melee_config(&config, (capacity + update - 1) / update * update);
    config.update_size = update;
    bench_must(gpur_replay_create(device, &config, &replay), "replay");
    bench_fill(replay, config.capacity);
    bench_must(gpur_device_sync(device), "sync");
    return replay;
}

static void play(bench_report *report, append_context *c, int64_t update, int64_t capacity)
{
    gpur_replay *const replay = full_replay(c->device, capacity, update);
    c->chunk = (LEAST + update - 1) / update * update;
    bench_must(gpur_writer_create(replay, 1, &c->writer), "writer");
    const double items = (double)c->chunk;
    const match m = {
        .figure = "append",
        .x_name = "update_size",
        .x = (double)update,
        .item = "transition",
        .count = 4,
        .seconds = 2 * report->options->seconds,
        .reference = 3,
        .entrant = {{.name = contest_list.name, .items = items, .body = to_list, .context = c},
                    {.name = contest_rows.name, .items = items, .body = to_block, .context = c},
                    {.name = "in-device, 16 a call", .items = items, .body = to_device_together, .context = c},
                    {.name = contest_device.name, .items = items, .body = to_device, .context = c}}};
    match_play(report, &m);
    gpur_writer_destroy(c->writer);
    gpur_replay_destroy(replay);
}

void contest_appends(bench_report *report, contest *all, const int64_t *updates, int count)
{
    melee_row *const rows = bench_melee_rows(ROWS);
    append_context c = {.list = ram_list_create(all->capacity),
                        .block = ram_rows_create(all->capacity),
                        .device = all->device,
                        .rows = rows};
    if (!c.list || !c.block)
        bench_must(GPUR_OUT_OF_MEMORY, "replays in RAM");
    for (int64_t i = 0; i < all->capacity; i++) {
        ram_list_append(c.list, &rows[i % ROWS]);
        ram_rows_append(c.block, 1, &rows[i % ROWS]);
    }
    for (int i = 0; i < count; i++)
        play(report, &c, updates[i], all->capacity);
    ram_list_destroy(c.list);
    ram_rows_destroy(c.block);
    free(rows);
}
