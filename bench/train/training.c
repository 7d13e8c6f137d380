/* SPDX-License-Identifier: MIT */
/*
 * Whole trainings with replay in RAM and on the device [Parr 2018, section 5, its last figure]: the examples' dodge
 * game, preset "melee-gpu" with all its constants, a train step for every environment step. For each seed all backends
 * have the same games, network and number of steps. They train in turn, a slice of the curve each, so that a machine
 * that slows down slows all; each one's clock runs while it plays and trains, and not while it is evaluated or opened.
 */
#include "bench/compare/backend.h"
#include "bench/lib/bench.h"
#include "games.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ENVS = 8, ROUND = 200, SLICES = 20, EPISODES = 40, BURN_IN = 2000, TRIALS = 4, BATCHES = 2 };
enum { STEPS = 60000, QUICK_STEPS = 1000, MAX_BATCH = 256, MAX_SEEDS = 100 };

static const backend_kind *const kinds[] = {&ram_list, &ram_rows, &in_device};
enum { KINDS = sizeof kinds / sizeof *kinds, BASELINE = 0 };

typedef struct settings {
    int64_t steps, batch, seed, seeds;
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
    double seconds;  /* of play and training */
    int rounds;      /* of training */
    double trial[2]; /* seconds of the trial rounds, without a thread that fills batches and with it */
    int points;
    double point_steps[SLICES + 1], point_train_steps[SLICES + 1], point_seconds[SLICES + 1], returns[SLICES + 1];
} training;

static void open_training(training *t, const settings *s, const backend_kind *kind, gpur_device *device, int64_t batch,
                          uint64_t seed)
{
    gpur_learner_config config = backend_learner_config(batch);
    *t = (training){.settings = s};
    config.max_act_batch = EPISODES;
    config.exploration.steps = s->steps / 5;
    config.seed = seed;
    games_open(&t->games, ENVS, seed);
    games_open(&t->judged, EPISODES, ~seed);
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

static void player_step(training *t)
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
            player_step(t);
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

static void write_curve(bench_report *report, const training *t, int64_t seed)
{
    char name[96];
    json_file *const json = &report->json;
    const char *const kind = t->backend.kind->name;
    snprintf(name, sizeof name, "%s, batch %lld, seed %lld", kind, (long long)t->backend.batch, (long long)seed);
    json_case(json, name);
    json_text(json, "figure", "training curve");
    json_text(json, "variant", kind);
    json_number(json, "batch", (double)t->backend.batch);
    json_number(json, "seed", (double)seed);
    json_numbers(json, "steps", t->point_steps, t->points);
    json_numbers(json, "train_steps", t->point_train_steps, t->points);
    json_numbers(json, "seconds", t->point_seconds, t->points);
    json_numbers(json, "return", t->returns, t->points);
    json_close_case(json);
}

/* What the seeds of one batch size come to, by backend. */
typedef struct totals {
    int slices, seeds;
    double faster[KINDS][MAX_SEEDS * SLICES]; /* percent, of each slice against the baseline's */
    double seconds[KINDS][MAX_SEEDS];
    double late_return[KINDS][MAX_SEEDS]; /* mean of the curve's last quarter, which varies less than its end */
} totals;

static double late_return(const training *t)
{
    const int count = t->points < 4 ? 1 : t->points / 4;
    double sum = 0.0;
    for (int i = t->points - count; i < t->points; i++)
        sum += t->returns[i];
    return sum / count;
}

static void add_seed(totals *all, const training *of)
{
    const training *const base = &of[BASELINE];
    for (int k = 0; k < KINDS; k++) {
        for (int i = 1; i < of[k].points; i++) {
            const double mine = of[k].point_seconds[i] - of[k].point_seconds[i - 1];
            all->faster[k][all->slices + i - 1] =
                100.0 * ((base->point_seconds[i] - base->point_seconds[i - 1]) / mine - 1.0);
        }
        all->seconds[k][all->seeds] = of[k].seconds;
        all->late_return[k][all->seeds] = late_return(&of[k]);
    }
    all->slices += base->points - 1;
    all->seeds++;
}

static void train_seed(bench_report *report, const settings *s, gpur_device *device, int64_t batch, int64_t seed,
                       totals *all)
{
    static training of[KINDS];
    char name[64];
    snprintf(name, sizeof name, "training, batch %lld, seed %lld", (long long)batch, (long long)seed);
    for (int k = 0; k < KINDS; k++) {
        open_training(&of[k], s, kinds[k], device, batch, (uint64_t)seed);
        add_point(&of[k]);
    }
    for (int64_t until = s->slice; of[0].steps < s->steps; until += s->slice)
        for (int k = 0; k < KINDS; k++) {
            bench_show(report, name, (double)of[k].steps / (double)s->steps);
            train_until(&of[k], until < s->steps ? until : s->steps);
            add_point(&of[k]);
        }
    add_seed(all, of);
    bench_hide();
    for (int k = 0; k < KINDS; k++) {
        write_curve(report, &of[k], seed);
        printf("seed %-3lld %-26s %8.1f s  late return %6.2f\n", (long long)seed, kinds[k]->name, of[k].seconds,
               late_return(&of[k]));
        close_training(&of[k]);
    }
    fflush(stdout);
    report->done++;
}

/* "1.0 (0.9 to 1.1)"; without the interval where there are too few samples for one. */
static const char *interval_text(const char *format, bench_summary s, char text[96])
{
    char number[3][20];
    const double values[3] = {s.median, s.low, s.high};
    for (int i = 0; i < 3; i++)
        snprintf(number[i], sizeof number[i], format, values[i]);
    if (s.count < BENCH_MIN_ROUNDS)
        snprintf(text, 96, "%s", number[0]);
    else
        snprintf(text, 96, "%s (%s to %s)", number[0], number[1], number[2]);
    return text;
}

static void write_interval(json_file *json, const char *key, bench_summary s)
{
    char low[32], high[32];
    snprintf(low, sizeof low, "%s_low", key);
    snprintf(high, sizeof high, "%s_high", key);
    json_number(json, key, s.median);
    json_number(json, low, s.count < BENCH_MIN_ROUNDS ? NAN : s.low);
    json_number(json, high, s.count < BENCH_MIN_ROUNDS ? NAN : s.high);
}

static void report_totals(bench_report *report, int64_t batch, totals *all, const double baseline_returns[2])
{
    char name[64], faster_text[96], return_text[96];
    json_file *const json = &report->json;
    snprintf(name, sizeof name, "training, batch %lld", (long long)batch);
    json_case(json, name);
    json_text(json, "figure", "training");
    json_number(json, "batch", (double)batch);
    json_number(json, "seeds", all->seeds);
    json_number(json, "return_by_chance", baseline_returns[0]);
    json_number(json, "return_by_hand", baseline_returns[1]);
    json_text(json, "reference", kinds[BASELINE]->name);
    json_open_list(json, "variants");
    printf("\nbatch %lld, %d seed%s: seconds; percent faster than %s; late return (by chance %.2f, by hand %.2f)\n",
           (long long)batch, all->seeds, all->seeds > 1 ? "s" : "", kinds[BASELINE]->name, baseline_returns[0],
           baseline_returns[1]);
    for (int k = 0; k < KINDS; k++) {
        const bench_summary faster = bench_summarize(all->faster[k], all->slices);
        const bench_summary seconds = bench_summarize(all->seconds[k], all->seeds);
        const bench_summary late = bench_summarize(all->late_return[k], all->seeds);
        json_item(json, k, kinds[k]->name);
        json_number(json, "seconds", seconds.median);
        write_interval(json, "percent_faster", faster);
        json_number(json, "slices", all->slices);
        write_interval(json, "late_return", late);
        printf("  %-26s %8.1f s   %-28s %s\n", kinds[k]->name, seconds.median,
               k == BASELINE ? "-" : interval_text("%+.1f %%", faster, faster_text),
               interval_text("%.2f", late, return_text));
    }
    json_close_list(json);
    json_close_case(json);
    printf("  faster: slice by slice, median (95%% interval); late return: mean of a curve's last quarter\n\n");
    fflush(stdout);
}

static int64_t whole_rounds(int64_t steps)
{
    return (steps + ROUND - 1) / ROUND * ROUND;
}

int main(int argc, char **argv)
{
    static totals all;
    settings s = {.seed = 1, .seeds = 1};
    const bench_option more[] = {
        {"steps", "environment steps of each training; 0: 60,000, or 1,000 with --quick", 0, 1000000000, &s.steps},
        {"batch", "transitions a train step; 0: first 32, then 128", 0, MAX_BATCH, &s.batch},
        {"seed", "the first seed, of environments, weights, exploration and draws", 0, INT64_MAX, &s.seed},
        {"seeds", "number of seeds", 1, MAX_SEEDS, &s.seeds},
    };
    const bench_options options = bench_parse(argc, argv, "whole trainings, replay in RAM and on the device", more, 4);
    const int64_t batches[BATCHES] = {s.batch ? s.batch : 32, 128};
    const int count = s.batch ? 1 : BATCHES;
    s.steps = whole_rounds(s.steps ? s.steps : options.quick ? QUICK_STEPS : STEPS);
    s.slice = whole_rounds((s.steps + SLICES - 1) / SLICES);
    s.burn_in = s.slice < BURN_IN ? s.slice : BURN_IN;
    gpur_device *const device = bench_open(options.device, 0);
    bench_report report = bench_begin(&options, "whole training", bench_describe(device), count * (int)s.seeds);
    const double returns[2] = {games_baseline((uint64_t)s.seed, 1), games_baseline((uint64_t)s.seed, 0)};
    printf("dodge, melee-gpu, %d environments, %lld steps, a train step for each after the first %lld\n", ENVS,
           (long long)s.steps, (long long)s.burn_in);
    for (int i = 0; i < count; i++) {
        all = (totals){.slices = 0};
        for (int64_t seed = s.seed; seed < s.seed + s.seeds; seed++)
            train_seed(&report, &s, device, batches[i], seed, &all);
        report_totals(&report, batches[i], &all, returns);
    }
    gpur_device_close(device);
    return bench_end(&report);
}
