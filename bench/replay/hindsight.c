/* SPDX-License-Identifier: MIT */
/*
 * Samples with new goals against samples without, of equal rows: what Gymnasium-Robotics' FetchReach gives, 16 numbers
 * with an achieved and a desired goal, in episodes of 50 steps. Both replays have the field `previous`.
 */
#include "bench/lib/bench.h"
#include "bench/lib/setup.h"

#include <stdlib.h>

enum { OBS = 16, GOAL = 3, ACTION = 4, FIELDS = 7, EPISODE_STEPS = 50, BLOCK = 1000, LARGEST = 4096 };

typedef struct samples {
    gpur_replay *with, *without;
    int64_t count;
} samples;

static void draw(gpur_replay *replay, int64_t count, int64_t repeats)
{
    for (int64_t i = 0; i < repeats; i++) {
        gpur_batch *batch = NULL;
        bench_must(gpur_replay_sample(replay, count, NULL, &batch), "sample");
        gpur_batch_release(batch);
    }
    bench_sample(replay, 1);
}

static void with_goals(void *context, int64_t repeats)
{
    const samples *const s = context;
    draw(s->with, s->count, repeats);
}

static void without_goals(void *context, int64_t repeats)
{
    const samples *const s = context;
    draw(s->without, s->count, repeats);
}

/* Random numbers, and an episode's end every EPISODE_STEPS rows. */
static void fill(gpur_replay *replay, int64_t rows)
{
    static float obs[2][BLOCK * OBS], action[BLOCK * ACTION], reward[BLOCK];
    static uint8_t ends[2][BLOCK];
    const void *const arrays[FIELDS] = {obs[0], action, reward, obs[1], ends[0], ends[1], NULL};
    uint64_t state = 5;
    gpur_writer *writer = NULL;
    gpur_writer_config config;
    bench_must(gpur_writer_config_init(&config, sizeof config), "writer config");
    config.num_envs = 1, config.link_appends = 1;
    bench_must(gpur_writer_open(replay, &config, &writer), "writer");
    for (int64_t row = EPISODE_STEPS - 1; row < BLOCK; row += EPISODE_STEPS)
        ends[1][row] = 1;
    for (int64_t done = 0; done < rows; done += BLOCK) {
        for (int i = 0; i < BLOCK * OBS; i++)
            obs[0][i] = bench_random_unit(&state), obs[1][i] = bench_random_unit(&state);
        bench_must(gpur_writer_append_fields(writer, BLOCK, arrays, NULL, NULL), "append");
    }
    gpur_writer_destroy(writer);
    bench_sample(replay, 1);
}

static gpur_replay *open_replay(gpur_device *device, int64_t capacity, const gpur_hindsight_config *hindsight,
                                int32_t prioritized)
{
    static const gpur_field fields[FIELDS] = {{"obs", GPUR_FLOAT32, {OBS}},   {"action", GPUR_FLOAT32, {ACTION}},
                                              {"reward", GPUR_FLOAT32, {0}},  {"next_obs", GPUR_FLOAT32, {OBS}},
                                              {"terminated", GPUR_BOOL, {0}}, {"truncated", GPUR_BOOL, {0}},
                                              {"previous", GPUR_INT64, {0}}};
    gpur_replay_config config;
    bench_must(gpur_replay_config_init(&config, sizeof config), "replay config");
    config.capacity = capacity, config.max_batch = LARGEST;
    config.fields = fields, config.field_count = FIELDS;
    config.prioritized = prioritized;
    config.hindsight = hindsight;
    gpur_replay *const replay = bench_create(device, &config);
    fill(replay, capacity);
    return replay;
}

static void run_cases(bench_report *report, gpur_device *device, int64_t capacity, int32_t prioritized, int cases)
{
    static const int64_t counts[] = {256, LARGEST, 32, 1024};
    gpur_hindsight_config hindsight;
    bench_must(gpur_hindsight_config_init(&hindsight, sizeof hindsight), "hindsight config");
    hindsight.achieved_at = OBS - 2 * GOAL, hindsight.desired_at = OBS - GOAL, hindsight.goal_size = GOAL;
    hindsight.threshold = 0.05f;
    samples s = {.with = open_replay(device, capacity, &hindsight, prioritized),
                 .without = open_replay(device, capacity, NULL, prioritized)};
    for (int i = 0; i < cases; i++) {
        char name[80];
        snprintf(name, sizeof name, "sample %lld%s of %lld with new goals", (long long)counts[i],
                 prioritized ? " by priority" : "", (long long)capacity);
        s.count = counts[i];
        bench_case one = bench_versus(name, "row", (double)s.count, with_goals, "without", without_goals, &s);
        one.goal = 5;
        bench_run(report, &one);
    }
    gpur_replay_destroy(s.with);
    gpur_replay_destroy(s.without);
}

int main(int argc, char **argv)
{
    enum { MANY = 1000000, FEW = 100000 };
    const bench_options options = bench_parse(argc, argv, "samples with new goals against samples without", NULL, 0);
    const int cases = options.quick ? 2 : 4;
    gpur_device *const device = bench_open(options.device, 1);
    bench_report report = bench_begin(&options, "hindsight", bench_describe(device), 3 * cases);
    run_cases(&report, device, FEW, 0, cases);
    run_cases(&report, device, MANY, 0, cases);
    run_cases(&report, device, MANY, 1, cases);
    gpur_device_close(device);
    return bench_end(&report);
}
