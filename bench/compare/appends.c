/* SPDX-License-Identifier: MIT */
/*
 * Time to append one transition a call, by block_rows [Parr 2018, section 5 and figure 3]. Every memory is full, and
 * what was appended has arrived when the clock stops. Only one thread appends, so the stores in RAM take no lock.
 */
#include "compare.h"

#include <stdlib.h>

enum { SOURCE_ROWS = 4096, SMALLEST_CHUNK = 64, ROWS_A_CALL = 16 };

typedef struct append_context {
    backend *backend;
    gpur_writer *writer;
    int64_t chunk; /* transitions a repeat */
    int64_t rows_a_call;
    const melee_row *rows; /* (SOURCE_ROWS) */
} append_context;

static void append(void *context, int64_t repeats)
{
    const append_context *const c = context;
    for (int64_t left = repeats * c->chunk, i = 0; left > 0; left -= c->rows_a_call, i += c->rows_a_call) {
        const int64_t count = left < c->rows_a_call ? left : c->rows_a_call;
        c->backend->kind->append(c->backend, c->writer, count, &c->rows[i % SOURCE_ROWS]);
    }
    bench_must(gpur_device_sync(c->backend->device), "sync");
}

/* The capacity is rounded up to whole blocks, so that nothing stays in staging. */
static gpur_replay *open_full_replay(gpur_device *device, int64_t capacity, int64_t update)
{
    gpur_replay_config config;
    bench_melee_config(&config, (capacity + update - 1) / update * update);
    config.block_rows = update;
    gpur_replay *const replay = bench_create(device, &config);
    bench_melee_fill(replay, config.capacity);
    bench_must(gpur_device_sync(device), "sync");
    return replay;
}

static void run_case(bench_report *report, backend backends[VARIANTS], const melee_row *rows, int64_t capacity,
                     int64_t update)
{
    static const char *const names[VARIANTS] = {[DEVICE_CALLS] = "in-device, 16 a call"};
    append_context contexts[VARIANTS];
    const int64_t chunk = (SMALLEST_CHUNK + update - 1) / update * update;
    gpur_replay *const replay = open_full_replay(backends[DEVICE].device, capacity, update);
    gpur_writer *const writer = bench_writer(replay);
    bench_case one = bench_point("append", "block_rows", (double)update, "transition", DEVICE, VARIANTS);
    one.items = (double)chunk;
    one.seconds = 2 * report->options->seconds;
    for (int i = 0; i < VARIANTS; i++) {
        contexts[i] = (append_context){&backends[i], writer, chunk, i == DEVICE_CALLS ? ROWS_A_CALL : 1, rows};
        one.variants[i] = (bench_variant){
            .name = names[i] ? names[i] : backends[i].kind->name, .body = append, .context = &contexts[i]};
    }
    bench_run(report, &one);
    gpur_writer_destroy(writer);
    gpur_replay_destroy(replay);
}

void compare_appends(bench_report *report, const comparison *c, const int64_t *updates, int count)
{
    backend backends[VARIANTS];
    melee_row *const rows = bench_new_melee_rows(SOURCE_ROWS);
    for (int i = 0; i < VARIANTS; i++) {
        backends[i] = c->backends[i];
        backends[i].is_private = 1;
    }
    for (int i = 0; i < count; i++)
        run_case(report, backends, rows, c->capacity, updates[i]);
    free(rows);
}
