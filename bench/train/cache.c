/* SPDX-License-Identifier: MIT */
/*
 * Training from a cache of returns, with virtual entries against physical ones, on the network and the frames of Atari
 * games: a refresh of S entries, train steps that draw from them, and the memory of both. Each round has a refresh of
 * each learner and then TRAIN_STEPS train steps of each; because of these the next refresh draws other blocks. A whole
 * period is a refresh and the S / 32 train steps that draw each entry once, so what it takes for an entry is the sum of
 * what refresh and train steps take for an entry.
 *
 * The paper has 80,000 entries [Daley & Amato 2021b, table 3] and reports 98.7% to 99.2% of the time of copies, each of
 * which takes 28,224 bytes for the observation alone.
 */
#include "bench/lib/bench.h"
#include "bench/lib/setup.h"

#include <stdio.h>

enum {
    BATCH = 32,
    BLOCK = 100,
    CAPACITY = 40000,
    QUICK_CAPACITY = 2000,
    ENTRIES = 80000,
    QUICK_ENTRIES = 100,
    TRAIN_STEPS = 250, /* of a round, at most */
    LIMIT = 300,       /* seconds, after the warm-up */
    LEARNERS = 2
};

typedef struct cache_learner {
    gpur_learner *learner;
    int64_t device_bytes; /* by which the device's memory in use grew when the learner was made */
} cache_learner;

static void refresh(void *context, int64_t repeats)
{
    const cache_learner *const c = context;
    for (int64_t i = 0; i < repeats; i++)
        bench_must(gpur_learner_refresh(c->learner), "refresh");
    bench_must(gpur_learner_sync(c->learner), "sync");
}

static void train(void *context, int64_t repeats)
{
    const cache_learner *const c = context;
    bench_must(gpur_learner_train(c->learner, repeats), "train");
    bench_must(gpur_learner_sync(c->learner), "sync");
}

static int64_t memory_used(gpur_device *device)
{
    gpur_device_info info = {.size = sizeof info};
    bench_must(gpur_device_get_info(device, &info), "device info");
    return info.memory_used;
}

static cache_learner open_learner(gpur_device *device, gpur_replay *replay, int64_t entries, int32_t storage,
                                  int32_t math)
{
    const int64_t before = memory_used(device);
    gpur_dqn_config config;
    cache_learner c;
    bench_must(gpur_dqn_config_init(&config, sizeof config), "learner config");
    bench_must(gpur_dqn_config_preset(&config, "nature-dqn"), "preset");
    config.loss = GPUR_LOSS_SQUARED;
    config.batch_size = BATCH;
    config.returns.cache_size = entries;
    config.returns.block_length = BLOCK;
    config.returns.lambda = 0.75f;
    config.returns.storage = storage;
    config.math = math;
    bench_must(gpur_dqn_create(replay, &config, &c.learner), "learner");
    c.device_bytes = memory_used(device) - before;
    return c;
}

typedef struct cache_samples {
    bench_samples refresh, train, period;
} cache_samples;

/* Rounds until the limit, or as many as the options say. Every second one begins with the other learner. */
static void take_samples(bench_report *report, cache_learner c[LEARNERS], int64_t entries, int64_t steps,
                         cache_samples *s)
{
    const bench_options *const options = report->options;
    for (int v = 0; v < LEARNERS; v++) {
        refresh(&c[v], 1);
        train(&c[v], steps);
    }
    const double end = bench_now() + (options->quick ? 1 : LIMIT);
    int r = 0;
    for (; r < options->rounds && (r < BENCH_MIN_ROUNDS || bench_now() < end); r++) {
        bench_show(report, "refresh and train steps", 0);
        for (int i = 0; i < LEARNERS; i++) {
            const int v = (r + i) % LEARNERS;
            s->refresh.seconds[v][r] = bench_time(refresh, &c[v], 1) / (double)entries;
        }
        for (int i = 0; i < LEARNERS; i++) {
            const int v = (r + i) % LEARNERS;
            s->train.seconds[v][r] = bench_time(train, &c[v], steps) / BATCH;
            s->period.seconds[v][r] = s->refresh.seconds[v][r] + s->train.seconds[v][r];
        }
    }
    s->refresh.rounds = s->train.rounds = s->period.rounds = r;
}

static void report_times(bench_report *report, const cache_samples *s)
{
    bench_case c = {
        .item = "entry", .reference = 1, .count = LEARNERS, .variants = {{.name = "virtual"}, {.name = "physical"}}};
    c.name = "refresh and train steps, nature-dqn";
    bench_sampled(report, &c, &s->period);
    c.name = "refresh, nature-dqn";
    bench_sampled(report, &c, &s->refresh);
    c.name = "train steps, nature-dqn";
    bench_sampled(report, &c, &s->train);
}

static gpur_learner_stats stats_of(const cache_learner *c)
{
    gpur_learner_stats stats = {.size = sizeof stats};
    bench_must(gpur_learner_get_stats(c->learner, &stats), "stats");
    return stats;
}

static void report_memory(bench_report *report, const cache_learner c[LEARNERS], int64_t entries)
{
    static const char *const names[LEARNERS] = {"virtual", "physical"};
    json_case(&report->json, "memory");
    json_number(&report->json, "entries", (double)entries);
    for (int v = 0; v < LEARNERS; v++) {
        const int64_t cache_bytes = stats_of(&c[v]).cache_bytes;
        json_variant(&report->json, names[v]);
        json_number(&report->json, "cache_bytes", (double)cache_bytes);
        json_number(&report->json, "device_bytes", (double)c[v].device_bytes);
        printf("%s: %lld bytes for the %lld entries, %lld bytes for the learner with them\n", names[v],
               (long long)cache_bytes, (long long)entries, (long long)c[v].device_bytes);
    }
    json_close_case(&report->json);
    report->done++;
    bench_check(report, "bytes of a virtual entry, against 8", stats_of(&c[0]).cache_bytes != 8 * entries, 1);
    bench_check(report, "bytes that a physical cache takes more, against its copies",
                c[1].device_bytes - c[0].device_bytes < entries * (STACK_BYTES + 4), 1);
}

static void check_draws(bench_report *report, const cache_learner c[LEARNERS])
{
    const gpur_learner_stats stats[LEARNERS] = {stats_of(&c[0]), stats_of(&c[1])};
    bench_check(report, "entries drawn that trained, against all", stats[0].missing_rows + stats[1].missing_rows,
                BATCH * (stats[0].steps + stats[1].steps));
}

int main(int argc, char **argv)
{
    static cache_samples samples;
    int64_t entries = ENTRIES, math = GPUR_MATH_FP32;
    const bench_option more[] = {
        {"entries", "entries of the cache, rounded to blocks of 100", BLOCK, ENTRIES, &entries}, BENCH_MATH(&math)};
    const bench_options options = bench_parse(argc, argv, "training from a cache of returns", more, 2);
    entries = options.quick ? QUICK_ENTRIES : entries / BLOCK * BLOCK;
    const int64_t period = (entries + BATCH - 1) / BATCH, steps = period < TRAIN_STEPS ? period : TRAIN_STEPS;
    gpur_device *const device = bench_open(options.device, 0);
    gpur_replay *const replay = bench_linked_frames_replay(device, options.quick ? QUICK_CAPACITY : CAPACITY);
    cache_learner c[LEARNERS] = {open_learner(device, replay, entries, GPUR_CACHE_VIRTUAL, (int32_t)math),
                                 open_learner(device, replay, entries, GPUR_CACHE_PHYSICAL, (int32_t)math)};
    bench_report report = bench_begin(&options, "cache of returns", bench_describe_training(device, math), 0);
    report_memory(&report, c, entries);
    take_samples(&report, c, entries, steps, &samples);
    report_times(&report, &samples);
    check_draws(&report, c);
    for (int v = 0; v < LEARNERS; v++)
        gpur_learner_destroy(c[v].learner);
    gpur_replay_destroy(replay);
    gpur_device_close(device);
    return bench_end(&report);
}
