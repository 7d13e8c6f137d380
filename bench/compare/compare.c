/* SPDX-License-Identifier: MIT */
/*
 * In-RAM against in-device replay: the experiments of [Parr 2018, section 5] with its shapes (1,000,000 transitions of
 * 57 numbers, 5 actions, preset "melee-gpu"), all backends alternately in one run. Before they are timed, all of them
 * must compute the same losses on the same transitions.
 */
#include "backend.h"

#include "bench/lib/bench.h"

#include <stdlib.h>
#include <string.h>

enum { CHECKED_STEPS = 50, SOURCE_ROWS = 4096, SMALLEST_CHUNK = 64, ROWS_A_CALL = 16 };

/* By backend_kinds. DEVICE_CALLS shares the replay of DEVICE. */
enum { LIST, ROWS, DEVICE_CALLS, DEVICE, VARIANTS = BACKENDS };

typedef struct comparison {
    gpur_device *device;
    int64_t capacity;
    backend backends[VARIANTS];
} comparison;

static void open_comparison(bench_report *report, comparison *c, gpur_device *device, int64_t capacity)
{
    *c = (comparison){.device = device, .capacity = capacity};
    for (int i = 0; i < VARIANTS; i++)
        if (i != DEVICE_CALLS) {
            bench_show(report, "filling the replays", 0);
            backend_open(&c->backends[i], backend_kinds[i], device, capacity);
            backend_fill(&c->backends[i], capacity);
        }
    c->backends[DEVICE_CALLS] = c->backends[DEVICE];
    c->backends[DEVICE_CALLS].kind = backend_kinds[DEVICE_CALLS];
}

static void close_comparison(comparison *c)
{
    for (int i = 0; i < VARIANTS; i++)
        if (i != DEVICE_CALLS)
            backend_close(&c->backends[i]);
}

/* A step of each backend on the same transitions: how many of the losses differ from the first in any bit. They run on
 * the same device by the same kernels, so that nothing excuses a difference. */
static int differing_losses(comparison *c, const int64_t *positions)
{
    float loss[VARIANTS];
    int differ = 0;
    for (int i = 0; i < VARIANTS; i++) {
        gpur_learner_stats stats = {.size = sizeof stats};
        backend *const b = &c->backends[i];
        b->kind->train_on(b, positions);
        bench_must(gpur_learner_sync(b->learner), "sync");
        bench_must(gpur_learner_get_stats(b->learner, &stats), "learner statistics");
        loss[i] = stats.loss;
        differ += memcmp(&loss[i], &loss[0], sizeof loss[i]) != 0;
    }
    return differ;
}

static int check_losses(bench_report *report, comparison *c, int64_t batch)
{
    char name[64];
    int64_t *const positions = bench_allocate((size_t)batch * sizeof *positions);
    uint64_t random = (uint64_t)batch;
    int differ = 0;
    for (int step = 0; step < CHECKED_STEPS; step++) {
        for (int64_t b = 0; b < batch; b++)
            positions[b] = bench_random_below(&random, c->capacity);
        differ += differing_losses(c, positions);
    }
    free(positions);
    snprintf(name, sizeof name, "losses on the same transitions, batch %lld", (long long)batch);
    bench_check(report, name, differ, CHECKED_STEPS * VARIANTS);
    return differ == 0;
}

/* Time of a train step by batch size [Parr 2018, table 1 and figure 4]. */
static void compare_steps(bench_report *report, comparison *c, int64_t batch)
{
    const gpur_dqn_config config = backend_learner_config(batch);
    bench_case one = bench_point("train step", "batch", (double)batch, "step", DEVICE, VARIANTS);
    one.seconds = 5 * report->options->seconds;
    bench_show(report, "comparing losses", 0);
    for (int i = 0; i < VARIANTS; i++)
        backend_set_learner(&c->backends[i], &config);
    if (check_losses(report, c, batch)) {
        for (int i = 0; i < VARIANTS; i++) {
            backend *const b = &c->backends[i];
            backend_choose_thread(b);
            one.variants[i] =
                (bench_variant){.name = b->kind->name, .note = b->note, .body = backend_train, .context = b};
        }
        bench_run(report, &one);
    }
    for (int i = 0; i < VARIANTS; i++)
        backend_unset_learner(&c->backends[i]);
}

/*
 * Time to append one transition a call, by block_rows [Parr 2018, section 5 and figure 3]. Every memory is full, and
 * what was appended has arrived when the clock stops.
 */
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
static gpur_replay *open_full_replay(gpur_device *device, int64_t capacity, int64_t block_rows)
{
    gpur_replay_config config;
    bench_melee_config(&config, (capacity + block_rows - 1) / block_rows * block_rows);
    config.block_rows = block_rows;
    gpur_replay *const replay = bench_create(device, &config);
    bench_melee_fill(replay, config.capacity);
    bench_must(gpur_device_sync(device), "sync");
    return replay;
}

static void compare_appends(bench_report *report, comparison *c, const melee_row *rows, int64_t block_rows)
{
    append_context contexts[VARIANTS];
    const int64_t chunk = (SMALLEST_CHUNK + block_rows - 1) / block_rows * block_rows;
    gpur_replay *const replay = open_full_replay(c->device, c->capacity, block_rows);
    gpur_writer *const writer = bench_writer(replay);
    bench_case one = bench_point("append", "block_rows", (double)block_rows, "transition", DEVICE, VARIANTS);
    one.items = (double)chunk;
    one.seconds = 2 * report->options->seconds;
    for (int i = 0; i < VARIANTS; i++) {
        backend *const b = &c->backends[i];
        contexts[i] = (append_context){b, writer, chunk, i == DEVICE_CALLS ? ROWS_A_CALL : 1, rows};
        one.variants[i] = (bench_variant){.name = i == DEVICE_CALLS ? "in-device, 16 a call" : b->kind->name,
                                          .body = append,
                                          .context = &contexts[i]};
    }
    bench_run(report, &one);
    gpur_writer_destroy(writer);
    gpur_replay_destroy(replay);
}

int main(int argc, char **argv)
{
    static const int64_t batches[] = {16, 32, 64, 128, 256, 512, 1024}, quick_batches[] = {32, 128};
    static const int64_t blocks[] = {1, 8, 64, 250, 500, 1000, 2000, 4000, 8000}, quick_blocks[] = {1, 250, 2000};
    const bench_options options = bench_parse(argc, argv, "in-RAM against in-device replay", NULL, 0);
    const int quick = options.quick, batch_count = quick ? 2 : 7, block_count = quick ? 3 : 9;
    comparison c;
    gpur_device *const device = bench_open(options.device, 0);
    bench_report report =
        bench_begin(&options, "in-RAM against in-device replay", bench_describe(device), 2 * batch_count + block_count);
    if (!bench_is_cuda(device))
        printf("No GPU: host and device are the same memory, without a bus and without kernel launches. This shows\n"
               "what assembling a batch and calling the library cost; it does not show what a GPU gains.\n\n");
    open_comparison(&report, &c, device, quick ? MELEE_CAPACITY / 10 : MELEE_CAPACITY);
    for (int i = 0; i < batch_count; i++)
        compare_steps(&report, &c, quick ? quick_batches[i] : batches[i]);
    melee_row *const rows = bench_new_melee_rows(SOURCE_ROWS);
    for (int i = 0; i < block_count; i++)
        compare_appends(&report, &c, rows, quick ? quick_blocks[i] : blocks[i]);
    free(rows);
    close_comparison(&c);
    gpur_device_close(device);
    return bench_end(&report);
}
