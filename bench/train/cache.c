/* SPDX-License-Identifier: MIT */
/*
 * Training from a cache of returns: one period (a refresh of S entries, and S / 32 train steps) with virtual entries
 * against physical ones, on the network and the frames of Atari games; the refresh alone; and the memory of both.
 * The paper has 80,000 entries a period [Daley & Amato 2021b, table 3]; --entries sets S. Its cache of copies takes
 * 28,224 bytes for the observation alone, and it reports 98.7% to 99.2% of the time of copies.
 */
#include "bench/lib/bench.h"
#include "bench/lib/setup.h"

#include <stdio.h>

enum {
    BATCH = 32,
    BLOCK = 100,
    CAPACITY = 40000,
    QUICK_CAPACITY = 2000,
    QUICK_ENTRIES = 100,
    LIMIT = 3600,
    PAPER_ENTRIES = 80000
};

typedef struct cache_context {
    gpur_learner *learner;
    int64_t steps; /* of a period */
} cache_context;

static void refresh(void *context, int64_t repeats)
{
    const cache_context *const c = context;
    for (int64_t i = 0; i < repeats; i++)
        bench_must(gpur_learner_refresh(c->learner), "refresh");
    bench_must(gpur_learner_sync(c->learner), "sync");
}

static void period(void *context, int64_t repeats)
{
    const cache_context *const c = context;
    for (int64_t i = 0; i < repeats; i++) {
        bench_must(gpur_learner_refresh(c->learner), "refresh");
        bench_must(gpur_learner_train(c->learner, c->steps), "train");
        bench_must(gpur_learner_sync(c->learner), "sync");
    }
}

static cache_context open_cache(gpur_replay *replay, int64_t entries, int32_t storage)
{
    gpur_learner_config config;
    cache_context c = {.steps = (entries + BATCH - 1) / BATCH};
    bench_must(gpur_learner_config_init(&config, sizeof config), "learner config");
    bench_must(gpur_learner_config_preset(&config, "nature-dqn"), "preset");
    config.loss = GPUR_LOSS_SQUARED;
    config.batch_size = BATCH;
    config.returns.cache_size = entries;
    config.returns.block_length = BLOCK;
    config.returns.lambda = 0.75f;
    config.returns.storage = storage;
    bench_must(gpur_learner_create(replay, &config, &c.learner), "learner");
    return c;
}

static gpur_learner_stats stats_of(const cache_context *c)
{
    gpur_learner_stats stats = {.size = sizeof stats};
    bench_must(gpur_learner_get_stats(c->learner, &stats), "stats");
    return stats;
}

/* The learners differ by what the entries take: in the arrays, and in all of their memory. */
static void check_memory(bench_report *report, gpur_replay *replay, int64_t entries)
{
    const cache_context c[2] = {open_cache(replay, entries, GPUR_CACHE_VIRTUAL),
                                open_cache(replay, entries, GPUR_CACHE_PHYSICAL)};
    const gpur_learner_stats small = stats_of(&c[0]), large = stats_of(&c[1]);
    printf("cache of %lld entries: %lld bytes virtual, %lld bytes physical; learner %lld and %lld bytes\n",
           (long long)entries, (long long)small.cache_bytes, (long long)large.cache_bytes,
           (long long)small.device_bytes, (long long)large.device_bytes);
    bench_check(report, "bytes of a virtual entry, against 8", small.cache_bytes != 8 * entries, 1);
    bench_check(report, "bytes that a physical cache takes more, against its copies",
                large.device_bytes - small.device_bytes < entries * (STACK_BYTES + 4), 1);
    for (int i = 0; i < 2; i++)
        gpur_learner_destroy(c[i].learner);
}

int main(int argc, char **argv)
{
    int64_t entries = 3200;
    const bench_option more = {"entries", "entries of the cache, rounded to blocks of 100", 100, 80000, &entries};
    const bench_options options = bench_parse(argc, argv, "training from a cache of returns", &more, 1);
    entries = options.quick ? QUICK_ENTRIES : entries / BLOCK * BLOCK;
    gpur_device *const device = bench_open(options.device, 0);
    gpur_replay *const replay = bench_linked_frames_replay(device, options.quick ? QUICK_CAPACITY : CAPACITY);
    cache_context c[2] = {open_cache(replay, entries, GPUR_CACHE_VIRTUAL),
                          open_cache(replay, entries, GPUR_CACHE_PHYSICAL)};
    bench_report report = bench_begin(&options, "cache of returns", bench_describe(device), 4);
    bench_case both = {.name = "refresh and train steps, nature-dqn",
                       .item = "entry",
                       .items = (double)entries,
                       .reference = 1,
                       .limit = options.quick ? 0 : LIMIT,
                       .count = 2,
                       .variants = {{.name = "virtual", .body = period, .context = &c[0]},
                                    {.name = "physical", .body = period, .context = &c[1]}}};
    bench_run(&report, &both);
    both.name = "refresh, nature-dqn";
    both.variants[0].body = both.variants[1].body = refresh;
    bench_run(&report, &both);
    for (int i = 0; i < 2; i++)
        gpur_learner_destroy(c[i].learner);
    check_memory(&report, replay, options.quick ? entries : PAPER_ENTRIES);
    gpur_replay_destroy(replay);
    gpur_device_close(device);
    return bench_end(&report);
}
