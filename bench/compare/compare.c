/* SPDX-License-Identifier: MIT */
/*
 * In-RAM against in-device replay: the experiments of [Parr 2018, section 5] with its shapes (1,000,000 transitions of
 * 57 numbers, 5 actions, preset "melee-gpu"), all backends in one run, in turn. Before they are timed, all of them must
 * compute the same losses on the same transitions.
 */
#include "compare.h"

#include <stdlib.h>
#include <string.h>

enum { CHECKED_STEPS = 50, COPY_CASES = 2, SMALL_BATCH = 32 };

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

void comparison_set_learners(comparison *c, int64_t batch)
{
    const gpur_learner_config config = backend_learner_config(batch);
    for (int i = 0; i < VARIANTS; i++)
        backend_set_learner(&c->backends[i], &config);
}

void comparison_unset_learners(comparison *c)
{
    for (int i = 0; i < VARIANTS; i++)
        backend_unset_learner(&c->backends[i]);
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
    bench_case one = bench_point("train step", "batch", (double)batch, "step", DEVICE, VARIANTS);
    one.seconds = 5 * report->options->seconds;
    bench_show(report, "comparing losses", 0);
    comparison_set_learners(c, batch);
    if (check_losses(report, c, batch)) {
        for (int i = 0; i < VARIANTS; i++) {
            backend *const b = &c->backends[i];
            backend_choose_thread(b);
            one.variants[i] =
                (bench_variant){.name = b->kind->name, .note = b->note, .body = backend_train, .context = b};
        }
        bench_run(report, &one);
    }
    comparison_unset_learners(c);
}

/*
 * The passes that only the backends in RAM need on the CPU device: the rows of a batch are copied as over a bus, and
 * dealt out to the arrays of the step in another pass. Timed as such a copy and a whole draw out of a replay that is so
 * small that it stays in the cache: an upper bound of those passes.
 */
typedef struct copy_context {
    gpur_replay *replay;
    int64_t batch;
    melee_row *rows, *copy; /* (batch) */
} copy_context;

static void copy_and_draw(void *context, int64_t repeats)
{
    const copy_context *const c = context;
    for (int64_t i = 0; i < repeats; i++) {
        memcpy(c->copy, c->rows, (size_t)c->batch * sizeof *c->copy);
        bench_sample(c->replay, c->batch);
    }
}

static void compare_copy_cost(bench_report *report, comparison *c, int64_t batch)
{
    gpur_replay_config config;
    char names[2][64];
    backend *const rows = &c->backends[ROWS];
    const gpur_learner_config learner = backend_learner_config(batch);
    copy_context copies = {.batch = batch, .rows = bench_new_melee_rows(batch), .copy = bench_new_melee_rows(batch)};
    bench_melee_config(&config, 0);
    backend_schema_only(&config);
    copies.replay = bench_create(c->device, &config);
    bench_melee_fill(copies.replay, config.capacity);
    backend_set_learner(rows, &learner);
    snprintf(names[0], sizeof names[0], "a copy and a draw out of the cache, batch %lld", (long long)batch);
    snprintf(names[1], sizeof names[1], "train step alone, %s, batch %lld", rows->kind->name, (long long)batch);
    const bench_case copy = bench_alone(names[0], "batch", 1, "gpureplay", copy_and_draw, &copies);
    const bench_case step = bench_alone(names[1], "step", 1, rows->kind->name, backend_train, rows);
    const double copying = bench_run(report, &copy).seconds[0].median;
    const double whole = bench_run(report, &step).seconds[0].median;
    printf("  copying and dealing out the rows of a batch take at most %.2f %% of the step\n", 100 * copying / whole);
    backend_unset_learner(rows);
    gpur_replay_destroy(copies.replay);
    free(copies.rows);
    free(copies.copy);
}

int main(int argc, char **argv)
{
    static const int64_t batches[] = {16, 32, 64, 128, 256, 512, 1024}, quick_batches[] = {32, 128};
    static const int64_t updates[] = {1, 8, 64, 250, 500, 1000, 2000, 4000, 8000}, quick_updates[] = {1, 250, 2000};
    static const int threads[] = {1, 4, 16}, quick_threads[] = {4};
    const bench_options options = bench_parse(argc, argv, "in-RAM against in-device replay", NULL, 0);
    const int quick = options.quick, batch_count = quick ? 2 : 7, update_count = quick ? 3 : 9;
    const int thread_count = quick ? 1 : 3;
    comparison c;
    gpur_device *const device = bench_open(options.device, 0);
    bench_report report = bench_begin(&options, "in-RAM against in-device replay", bench_describe(device),
                                      2 * batch_count + thread_count + update_count + COPY_CASES);
    if (!bench_is_cuda(device))
        printf("No GPU: host and device are the same memory, without a bus and without kernel launches. This shows\n"
               "what assembling a batch and calling the library cost; it does not show what a GPU gains.\n\n");
    open_comparison(&report, &c, device, quick ? MELEE_CAPACITY / 10 : MELEE_CAPACITY);
    for (int i = 0; i < batch_count; i++)
        compare_steps(&report, &c, quick ? quick_batches[i] : batches[i]);
    compare_threads(&report, &c, SMALL_BATCH, quick ? quick_threads : threads, thread_count);
    compare_appends(&report, &c, quick ? quick_updates : updates, update_count);
    compare_copy_cost(&report, &c, SMALL_BATCH);
    close_comparison(&c);
    gpur_device_close(device);
    return bench_end(&report);
}
