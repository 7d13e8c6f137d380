/* SPDX-License-Identifier: MIT */
/*
 * Whole trainings with replay in RAM and on the device [Parr 2018, section 5, its last figure]: the examples' dodge
 * game, preset "melee-gpu" with all its constants, a train step for every environment step. All backends have the same
 * games, network and number of steps. They train alternately, a slice of the curve each, so that a machine that slows
 * down slows all; a backend's clock runs while it acts and trains, and not while it is evaluated or opened.
 */
#include "bench/compare/backend.h"
#include "bench/lib/bench.h"
#include "examples/dodge.h"
#include "examples/env_random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ENVS = 8, ROUND = 200, SLICES = 20, EPISODES = 40, BURN_IN = 2000, TRIALS = 4, BATCHES = 2 };
enum { STEPS = 60000, QUICK_STEPS = 1000, MAX_BATCH = 256, SEED = 1 };

static const backend_kind *const kinds[] = {&ram_list, &ram_rows, &in_device};
enum { KINDS = sizeof kinds / sizeof *kinds, BASELINE = 0 };

/* Copies of the game in lock step, in arrays as learners take them. */
typedef struct games {
    int32_t count;                   /* N */
    void **env;                      /* (N) */
    float *obs;                      /* (N, DODGE_OBS) of the next step; after an end the new episode's first */
    float *next_obs;                 /* (N, DODGE_OBS) where the last step led; after an end the old episode's last */
    float *reward;                   /* (N) of the last step */
    uint8_t *terminated, *truncated; /* (N) */
    float *episode_return;           /* (N) of the last step's episode, that step included */
} games;

static void game_must(const char *sentence)
{
    if (!sentence)
        return;
    fprintf(stderr, "dodge: %s\n", sentence);
    exit(1);
}

static void games_reset(games *g)
{
    for (int32_t i = 0; i < g->count; i++) {
        game_must(dodge_type.reset(g->env[i], g->obs + i * DODGE_OBS));
        g->terminated[i] = g->truncated[i] = 0;
        g->episode_return[i] = 0.0f;
    }
}

static void games_open(games *g, int32_t count, uint64_t seed)
{
    const size_t n = (size_t)count;
    *g = (games){.count = count};
    g->env = bench_allocate(n * sizeof *g->env);
    g->obs = bench_allocate(n * DODGE_OBS * sizeof *g->obs);
    g->next_obs = bench_allocate(n * DODGE_OBS * sizeof *g->next_obs);
    g->reward = bench_allocate(n * sizeof *g->reward);
    g->terminated = bench_allocate(n);
    g->truncated = bench_allocate(n);
    g->episode_return = bench_allocate(n * sizeof *g->episode_return);
    for (int32_t i = 0; i < count; i++) {
        gpur_env_info info = {.size = sizeof info};
        game_must(dodge_type.init("", env_random_bits(&seed), &info, &g->env[i]));
    }
    games_reset(g);
}

static void games_close(games *g)
{
    for (int32_t i = 0; i < g->count; i++)
        dodge_type.close(g->env[i]);
    free(g->env);
    free(g->obs);
    free(g->next_obs);
    free(g->reward);
    free(g->terminated);
    free(g->truncated);
    free(g->episode_return);
}

static int games_ended(const games *g, int32_t index)
{
    return g->terminated[index] || g->truncated[index];
}

/* Steps every copy, then resets those whose episode ended. */
static void games_step(games *g, const int32_t *actions)
{
    for (int32_t i = 0; i < g->count; i++) {
        float *const next = g->next_obs + i * DODGE_OBS;
        if (games_ended(g, i))
            g->episode_return[i] = 0.0f;
        gpur_env_result result;
        game_must(dodge_type.step(g->env[i], &actions[i], next, &result));
        g->reward[i] = result.reward;
        g->terminated[i] = result.terminated;
        g->truncated[i] = result.truncated;
        g->episode_return[i] += result.reward;
        if (games_ended(g, i))
            game_must(dodge_type.reset(g->env[i], g->obs + i * DODGE_OBS));
        else
            memcpy(g->obs + i * DODGE_OBS, next, DODGE_OBS * sizeof *next);
    }
}

/* Mean return of one episode a copy with the greedy policy. A copy whose episode ended goes on uncounted. */
static double games_evaluate(games *g, gpur_learner *learner)
{
    int32_t *const actions = bench_allocate((size_t)g->count * sizeof *actions);
    uint8_t *const done = bench_allocate((size_t)g->count);
    double sum = 0.0;
    games_reset(g);
    for (int32_t left = g->count; left > 0;) {
        bench_must(gpur_learner_act(learner, g->count, g->obs, 0.0f, actions, NULL), "act");
        games_step(g, actions);
        for (int32_t i = 0; i < g->count; i++)
            if (!done[i] && games_ended(g, i)) {
                done[i] = 1;
                sum += (double)g->episode_return[i];
                left--;
            }
    }
    free(actions);
    free(done);
    return sum / g->count;
}

typedef struct settings {
    int64_t steps, batch;
    int64_t slice, burn_in; /* environment steps of a slice, and before the first train step */
} settings;

/* One training: its environments, its backend, and its curve. Point 0 is before the first step. */
typedef struct training {
    const settings *settings;
    backend backend;
    gpur_writer *writer;
    games games, judged;
    melee_row rows[ENVS]; /* of the last step; the next one's obs */
    int64_t steps, train_steps;
    double seconds;  /* of acting and training */
    int rounds;      /* of training */
    double trial[2]; /* seconds of the trial rounds, without a thread that fills batches and with it */
    int points;
    double point_steps[SLICES + 1], point_train_steps[SLICES + 1], point_seconds[SLICES + 1], returns[SLICES + 1];
} training;

static void open_training(training *t, const settings *s, const backend_kind *kind, gpur_device *device, int64_t batch)
{
    gpur_dqn_config config = backend_learner_config(batch);
    *t = (training){.settings = s};
    config.exploration.steps = s->steps / 5;
    config.seed = SEED;
    games_open(&t->games, ENVS, SEED);
    games_open(&t->judged, EPISODES, ~(uint64_t)SEED);
    backend_open(&t->backend, kind, device, MELEE_CAPACITY);
    backend_set_learner(&t->backend, &config);
    t->writer = bench_writer(t->backend.replay);
}

static void close_training(training *t)
{
    gpur_writer_destroy(t->writer);
    backend_close(&t->backend);
    games_close(&t->judged);
    games_close(&t->games);
}

static void environment_step(training *t)
{
    int32_t actions[ENVS];
    games *const g = &t->games;
    const float epsilon = gpur_learner_epsilon(t->backend.learner, t->steps);
    bench_must(gpur_learner_act(t->backend.learner, ENVS, g->obs, epsilon, actions, NULL), "act");
    for (int i = 0; i < ENVS; i++)
        memcpy(t->rows[i].obs, g->obs + i * DODGE_OBS, sizeof t->rows[i].obs);
    games_step(g, actions);
    for (int i = 0; i < ENVS; i++) {
        melee_row *const row = &t->rows[i];
        memcpy(row->next_obs, g->next_obs + i * DODGE_OBS, sizeof row->next_obs);
        row->action = actions[i];
        row->reward = g->reward[i];
        row->terminated = g->terminated[i];
    }
    t->backend.kind->append(&t->backend, t->writer, ENVS, t->rows);
    t->steps += ENVS;
}

/* Whether a thread of its own should fill the batches depends on the machine: of the first four rounds two are without
 * it and two with it, and the others use the faster of the two. */
static void train_round(training *t)
{
    backend *const b = &t->backend;
    const int is_trial = b->kind->use_thread && t->rounds < TRIALS;
    if (b->kind->use_thread && t->rounds == TRIALS / 2)
        b->kind->use_thread(b, 1);
    if (b->kind->use_thread && t->rounds == TRIALS)
        b->kind->use_thread(b, t->trial[1] < t->trial[0]);
    const double start = bench_now();
    b->kind->train(b, ROUND);
    if (is_trial) {
        bench_must(gpur_learner_sync(b->learner), "sync");
        t->trial[t->rounds >= TRIALS / 2] += bench_now() - start;
    }
    t->rounds++;
    t->train_steps += ROUND;
}

static void train_until(training *t, int64_t steps)
{
    const double start = bench_now();
    while (t->steps < steps) {
        for (int64_t end = t->steps + ROUND; t->steps < end;)
            environment_step(t);
        if (t->steps > t->settings->burn_in)
            train_round(t);
    }
    bench_must(gpur_learner_sync(t->backend.learner), "sync");
    t->seconds += bench_now() - start;
}

static void add_point(training *t)
{
    const int i = t->points++;
    t->point_steps[i] = (double)t->steps;
    t->point_train_steps[i] = (double)t->train_steps;
    t->point_seconds[i] = t->seconds;
    t->returns[i] = games_evaluate(&t->judged, t->backend.learner);
}

static void write_curve(bench_report *report, const training *t)
{
    char name[96];
    json_file *const json = &report->json;
    const char *const kind = t->backend.kind->name;
    snprintf(name, sizeof name, "%s, batch %lld", kind, (long long)t->backend.batch);
    json_case(json, name);
    json_text(json, "figure", "training curve");
    json_text(json, "variant", kind);
    json_number(json, "batch", (double)t->backend.batch);
    json_numbers(json, "steps", t->point_steps, t->points);
    json_numbers(json, "train_steps", t->point_train_steps, t->points);
    json_numbers(json, "seconds", t->point_seconds, t->points);
    json_numbers(json, "return", t->returns, t->points);
    json_close_case(json);
}

/* Percent by which each slice was faster than the baseline's. */
static bench_summary percent_faster(const training *t, const training *base)
{
    double faster[SLICES];
    for (int i = 1; i < t->points; i++)
        faster[i - 1] = 100.0 * ((base->point_seconds[i] - base->point_seconds[i - 1]) /
                                     (t->point_seconds[i] - t->point_seconds[i - 1]) -
                                 1.0);
    return bench_summarize(faster, t->points - 1);
}

/* Writes the interval where there are enough slices for one. */
static void report_training(bench_report *report, const training *t, const training *base)
{
    json_file *const json = &report->json;
    const bench_summary faster = percent_faster(t, base);
    const int is_interval = faster.count >= BENCH_MIN_ROUNDS;
    json_variant(json, t->backend.kind->name);
    json_number(json, "seconds", t->seconds);
    json_number(json, "percent_faster", faster.median);
    json_number(json, "percent_faster_low", is_interval ? faster.low : NAN);
    json_number(json, "percent_faster_high", is_interval ? faster.high : NAN);
    json_number(json, "slices", faster.count);
    printf("  %-26s %8.1f s  %+.1f %%", t->backend.kind->name, t->seconds, faster.median);
    if (is_interval)
        printf(" (%+.1f to %+.1f)", faster.low, faster.high);
    printf("\n");
}

static void report_trainings(bench_report *report, int64_t batch, const training all[KINDS])
{
    char name[64];
    json_file *const json = &report->json;
    snprintf(name, sizeof name, "training, batch %lld", (long long)batch);
    for (int k = 0; k < KINDS; k++)
        write_curve(report, &all[k]);
    json_case(json, name);
    json_text(json, "figure", "training");
    json_number(json, "batch", (double)batch);
    json_text(json, "reference", kinds[BASELINE]->name);
    printf("batch %lld: seconds; faster than %s, slice by slice, median (95%% interval)\n", (long long)batch,
           kinds[BASELINE]->name);
    for (int k = 0; k < KINDS; k++)
        report_training(report, &all[k], &all[BASELINE]);
    json_close_case(json);
    fflush(stdout);
    report->done++;
}

static void train_batch(bench_report *report, const settings *s, gpur_device *device, int64_t batch)
{
    static training all[KINDS];
    char name[64];
    snprintf(name, sizeof name, "training, batch %lld", (long long)batch);
    if (!bench_wants(report, name))
        return;
    for (int k = 0; k < KINDS; k++) {
        open_training(&all[k], s, kinds[k], device, batch);
        add_point(&all[k]);
    }
    for (int64_t until = s->slice; all[0].steps < s->steps; until += s->slice)
        for (int k = 0; k < KINDS; k++) {
            bench_show(report, name, (double)all[k].steps / (double)s->steps);
            train_until(&all[k], until < s->steps ? until : s->steps);
            add_point(&all[k]);
        }
    bench_hide();
    report_trainings(report, batch, all);
    for (int k = 0; k < KINDS; k++)
        close_training(&all[k]);
}

static int64_t whole_rounds(int64_t steps)
{
    return (steps + ROUND - 1) / ROUND * ROUND;
}

int main(int argc, char **argv)
{
    settings s = {.steps = 0};
    const bench_option more[] = {
        {"steps", "environment steps of each training; 0: 60,000, or 1,000 with --quick", 0, 1000000000, &s.steps},
        {"batch", "transitions a train step; 0: first 32, then 128", 0, MAX_BATCH, &s.batch},
    };
    const bench_options options = bench_parse(argc, argv, "whole trainings, replay in RAM and on the device", more, 2);
    const int64_t batches[BATCHES] = {s.batch ? s.batch : 32, 128};
    const int count = s.batch ? 1 : BATCHES;
    s.steps = whole_rounds(s.steps ? s.steps : options.quick ? QUICK_STEPS : STEPS);
    s.slice = whole_rounds((s.steps + SLICES - 1) / SLICES);
    s.burn_in = s.slice < BURN_IN ? s.slice : BURN_IN;
    gpur_device *const device = bench_open(options.device, 0);
    bench_report report = bench_begin(&options, "whole training", bench_describe(device), count);
    printf("dodge, melee-gpu, %d environments, %lld steps, a train step for each after the first %lld\n", ENVS,
           (long long)s.steps, (long long)s.burn_in);
    for (int i = 0; i < count; i++)
        train_batch(&report, &s, device, batches[i]);
    gpur_device_close(device);
    return bench_end(&report);
}
