/* SPDX-License-Identifier: MIT */
/*
 * The ablation of Daley & Amato 2021, table 3: seconds of a run with and without concurrent training and synchronized
 * execution, with 1, 2, 4 and 8 environments. The environments sleep or compute for a known time, or are games, which
 * train by the preset for their observations; epsilon is 0.1 throughout, and the prepopulation is left out of the time,
 * as in the paper. C is shorter than the paper's 10,000, so that a run of seconds has several target periods.
 */
#include "bench/lib/bench.h"
#include "bench/lib/setup.h"
#include "bench/run/timed_env.h"
#include "learn/dqn/dqn.h"
#include "run/fast_dqn/handle.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { TARGET_PERIOD = 400, TRAIN_PERIOD = 4, PREPOPULATION = 200, MAX_TRIALS = 32 };
static const float epsilon = 0.1f;

typedef struct variant {
    const char *name;
    int32_t num_envs, concurrent, synchronized;
    double paper; /* percent of the first, in the paper */
} variant;

static const variant variants[] = {
    {"Standard", 1, 0, 0, 100.0},    {"Standard", 2, 0, 0, 76.2},     {"Standard", 4, 0, 0, 67.1},
    {"Standard", 8, 0, 0, 67.5},     {"Concurrent", 1, 1, 0, 82.3},   {"Concurrent", 2, 1, 0, 55.8},
    {"Concurrent", 4, 1, 0, 48.4},   {"Concurrent", 8, 1, 0, 46.6},   {"Synchronized", 2, 0, 1, 77.0},
    {"Synchronized", 4, 0, 1, 62.8}, {"Synchronized", 8, 0, 1, 58.2}, {"Both", 2, 1, 1, 58.7},
    {"Both", 4, 1, 1, 44.2},         {"Both", 8, 1, 1, 36.0},
};
enum { VARIANTS = sizeof variants / sizeof *variants };

/* What a group of 14 runs shares. */
typedef struct group {
    const char *name;
    const timed_env *timed; /* NULL: a game */
    const gpur_env_type *type;
    const char *options;
    int sleeps;    /* 1: inference and training sleep, too */
    int64_t steps; /* of a trial */
    const char *preset;
} group;

/* Inference and training that sleep: they take turns at one device, as at the paper's GPU, in the order in which they
 * ask. */
static const double sleep_infer = 0.6e-3, sleep_infer_row = 0.02e-3, sleep_train = 1.5e-3;
static pthread_mutex_t turn_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turn_ended = PTHREAD_COND_INITIALIZER;
static int64_t turns_given, turns_ended;

static void sleep_at_device(double seconds)
{
    pthread_mutex_lock(&turn_lock);
    const int64_t turn = turns_given++;
    while (turns_ended != turn)
        pthread_cond_wait(&turn_ended, &turn_lock);
    pthread_mutex_unlock(&turn_lock);
    timed_sleep(seconds);
    pthread_mutex_lock(&turn_lock);
    turns_ended++;
    pthread_cond_broadcast(&turn_ended);
    pthread_mutex_unlock(&turn_lock);
}

static gpur_status infer_sleeping(gpur_policy *policy, int64_t count, const unsigned char *obs, int32_t *actions)
{
    (void)policy, (void)obs;
    sleep_at_device(sleep_infer + sleep_infer_row * (double)count);
    memset(actions, 0, (size_t)count * sizeof *actions);
    return GPUR_OK;
}

static gpur_status copy_sleeping(gpur_policy *policy, gpur_learner *learner, int32_t weights)
{
    (void)policy, (void)learner, (void)weights;
    return GPUR_OK;
}

static gpur_status train_sleeping(gpur_learner *learner, int64_t steps)
{
    (void)learner;
    for (int64_t i = 0; i < steps; i++)
        sleep_at_device(sleep_train);
    return GPUR_OK;
}

static const gpur_fast_dqn_work sleeping = {.infer = infer_sleeping, .pull = copy_sleeping, .train = train_sleeping};

/* A run of a group, with all that it needs. */
typedef struct trial {
    gpur_device *device;
    gpur_replay *replay;
    gpur_learner *learner;
    gpur_run *run;
} trial;

static void close_trial(trial *t)
{
    gpur_run_destroy(t->run);
    gpur_learner_destroy(t->learner);
    gpur_replay_destroy(t->replay);
    gpur_device_close(t->device);
}

static int64_t math = GPUR_MATH_FP32; /* of all learners */

/* The run with its prepopulation done. */
static trial open_trial(const bench_options *options, const group *g, const variant *v, uint64_t seed)
{
    trial t = {.device = bench_open(options->device, 1)};
    gpur_field fields[GPUR_FAST_DQN_FIELDS];
    gpur_run_config all;
    gpur_replay_config replay;
    gpur_dqn_config learner;
    gpur_fast_dqn_config run;
    bench_must(gpur_run_config_init(&all, sizeof all), "run");
    all.type = g->type, all.env_options = g->options;
    bench_must(gpur_replay_config_init(&replay, sizeof replay), "replay");
    bench_must(gpur_dqn_config_init(&learner, sizeof learner), "learner");
    bench_must(gpur_fast_dqn_config_init(&run, sizeof run), "run");
    if (g->timed)
        timed_env_use(g->timed); /* counts its lanes from 0 */
    bench_must(gpur_fast_dqn_preset(g->preset, &all, fields, &replay, &learner, &run), "preset");
    learner.math = (int32_t)math;
    if (g->timed)
        timed_env_use(g->timed);
    replay.capacity = 20000;
    replay.min_size = PREPOPULATION / 2;
    replay.seed = learner.seed = all.seed = seed;
    learner.exploration = (gpur_schedule){.first = epsilon, .last = epsilon};
    learner.target_period = TARGET_PERIOD / TRAIN_PERIOD;
    run.num_envs = v->num_envs;
    run.concurrent = v->concurrent;
    run.synchronized = v->synchronized;
    run.target_period = TARGET_PERIOD;
    run.train_period = TRAIN_PERIOD;
    run.prepopulation = PREPOPULATION;
    all.eval_period = all.eval_episodes = 0;
    t.replay = bench_create(t.device, &replay);
    bench_must(gpur_dqn_create(t.replay, &learner, &t.learner), "learner");
    bench_must(gpur_fast_dqn_create(t.learner, &all, &run, &t.run), "run");
    if (g->sleeps)
        gpur_fast_dqn_of(t.run)->work = sleeping;
    bench_must(gpur_run_advance(t.run, 0, 0), "prepopulation");
    return t;
}

static gpur_run_stats stats_of(const trial *t)
{
    gpur_run_stats stats = {.size = sizeof stats};
    bench_must(gpur_run_get_stats(t->run, &stats), "stats");
    return stats;
}

/* What the runs took: seconds of a step in each trial; and of a part's call, mean of all trials, from the counters of
 * the runs. */
typedef struct measurement {
    double seconds[MAX_TRIALS];
    double env, infer, train;
} measurement;

static void measure(const bench_options *options, const group *g, const variant *v, int trials, measurement *m)
{
    double env = 0.0, infer = 0.0, train = 0.0, inferences = 0.0, train_steps = 0.0;
    for (int i = 0; i < trials; i++) {
        trial t = open_trial(options, g, v, (uint64_t)i + 1);
        const gpur_run_stats before = stats_of(&t);
        const double begin = bench_now();
        bench_must(gpur_run_advance(t.run, g->steps, 0), "run");
        m->seconds[i] = (bench_now() - begin) / (double)g->steps;
        const gpur_run_stats after = stats_of(&t);
        env += after.env_seconds - before.env_seconds;
        infer += after.fast_dqn.infer_seconds - before.fast_dqn.infer_seconds;
        train += after.train_seconds - before.train_seconds;
        inferences += (double)(after.fast_dqn.inferences - before.fast_dqn.inferences);
        train_steps += (double)(after.train_steps - before.train_steps);
        close_trial(&t);
    }
    m->env = env / (double)(g->steps * trials);
    m->infer = infer / inferences;
    m->train = train / train_steps;
}

static double mean_of(const double *x, int n)
{
    double sum = 0.0;
    for (int i = 0; i < n; i++)
        sum += x[i];
    return sum / n;
}

static double deviation_of(const double *x, int n)
{
    double sum = 0.0;
    const double mean = mean_of(x, n);
    for (int i = 0; i < n; i++)
        sum += (x[i] - mean) * (x[i] - mean);
    return n > 1 ? sqrt(sum / (n - 1)) : 0.0;
}

/* The three views of the paper: hours for 50 million steps, percent of the first variant, how many times as fast. */
static void run_group(bench_report *report, const group *g, int trials)
{
    static measurement m;
    double first = 0.0;
    printf("\n%s, %d trials of %d steps, C = %d (the paper: 10,000), F = %d\n%-14s %2s %9s %9s %8s %8s %9s\n", g->name,
           trials, (int)g->steps, TARGET_PERIOD, TRAIN_PERIOD, "", "W", "hours", "+-", "percent", "paper", "speed-up");
    for (int i = 0; i < VARIANTS; i++) {
        const variant *const v = &variants[i];
        char name[128];
        snprintf(name, sizeof name, "%s, %s, W %d", g->name, v->name, (int)v->num_envs);
        if (!bench_wants(report, name))
            continue;
        bench_show(report, name, 0.0); /* ends the program after Ctrl-C */
        bench_hide();
        measure(report->options, g, v, trials, &m);
        const double hours = 50e6 / 3600, mean = mean_of(m.seconds, trials);
        first = first > 0 ? first : mean; /* of the first that --only chooses */
        printf("%-14s %2d %9.2f %9.2f %7.1f%% %7.1f%% %9.2f\n", v->name, (int)v->num_envs, hours * mean,
               hours * deviation_of(m.seconds, trials), 100 * mean / first, v->paper, first / mean);
        fflush(stdout);
        json_case(&report->json, name);
        json_text(&report->json, "figure", g->name);
        json_text(&report->json, "variant", v->name);
        json_text(&report->json, "act", v->concurrent ? "target" : "latest"); /* the weights that the lanes act by */
        json_number(&report->json, "num_envs", v->num_envs);
        json_number(&report->json, "steps", (double)g->steps);
        json_numbers(&report->json, "seconds", m.seconds, trials); /* of a step */
        json_number(&report->json, "paper_percent", v->paper);
        json_numbers(&report->json, "in_runs_env_infer_train", (const double[]){m.env, m.infer, m.train}, 3);
        json_close_case(&report->json);
        report->done++;
    }
}

/* Takes --env and its value out of the arguments; the others are bench_parse's. */
static const char *take_env(int *argc, char **argv)
{
    const char *env = NULL;
    for (int i = 1; i < *argc; i++)
        if (strcmp(argv[i], "--env") == 0 && i + 1 < *argc) {
            env = argv[i + 1];
            *argc -= 2;
            memmove(argv + i, argv + i + 2, (size_t)(*argc - i + 1) * sizeof *argv);
        }
    return env;
}

/* "fast-dqn" for Atari's frames. */
static const char *preset_for(const gpur_env_type *type)
{
    gpur_env_info info = {.size = sizeof info};
    bench_must(gpur_env_get_info(type, "", &info), "environment");
    const gpur_space *const obs = &info.obs;
    return obs->dtype == GPUR_UINT8 && obs->shape[0] == 84 && obs->shape[1] == 84 && !obs->shape[2] ? "fast-dqn"
                                                                                                    : "fast-dqn-small";
}

static void run_game(bench_report *report, const char *name, int64_t steps, int trials)
{
    group g = {.options = "", .steps = steps};
    bench_must(gpur_env_find(name, &g.type), "environment");
    g.name = g.type->name;
    g.preset = preset_for(g.type);
    run_group(report, &g, trials);
}

/* Environments of known times: with inference and training that sleep, too, and with a real network. */
static void run_timed(bench_report *report, int64_t asleep, int64_t awake, int trials)
{
    static const struct {
        const char *name;
        timed_env env;
        int sleeps;
    } kinds[] = {
        {"all parts sleep, constant", {2e-3, 0, 0, 0.0}, 1},
        {"all parts sleep, exponential", {2e-3, 0, 1, 0.0}, 1},
        {"all parts sleep, one slow environment", {2e-3, 0, 0, 3.0}, 1},
        {"environments sleep", {2e-3, 0, 0, 0.0}, 0},
        {"environments compute, constant", {0.2e-3, 1, 0, 0.0}, 0},
        {"environments compute, exponential", {0.2e-3, 1, 1, 0.0}, 0},
        {"environments compute, one slow environment", {0.2e-3, 1, 0, 3.0}, 0},
    };
    for (size_t i = 0; i < (report->options->quick ? 1 : sizeof kinds / sizeof *kinds); i++) {
        const group g = {.name = kinds[i].name,
                         .timed = &kinds[i].env,
                         .type = &timed_env_type,
                         .options = "",
                         .sleeps = kinds[i].sleeps,
                         .steps = kinds[i].env.spins ? awake : asleep,
                         .preset = "fast-dqn-small"};
        run_group(report, &g, trials);
    }
}

int main(int argc, char **argv)
{
    int64_t trials = 5, steps = 0;
    const bench_option more[] = {{"trials", "runs of each variant", 1, MAX_TRIALS, &trials},
                                 {"steps", "environment steps of a run; 0: 800 or 4,000", 0, 100000000, &steps},
                                 BENCH_MATH(&math)};
    const char *const game = take_env(&argc, argv);
    bench_options options =
        bench_parse(argc, argv,
                    "The ablation of fast DQN: 14 variants. --env NAME: a game "
                    "(MinAtar/Breakout) or a plug-in's file; without it environments that sleep and that compute, and "
                    "MinAtar/Breakout.",
                    more, 3);
    gpur_device *const device = bench_open(options.device, 1);
    bench_report report = bench_begin(&options, "ablation", bench_describe_training(device, math), 0);
    gpur_device_close(device);
    trials = options.quick ? 1 : trials;
    const int64_t asleep = steps > 0 ? steps : options.quick ? TARGET_PERIOD : 2 * TARGET_PERIOD;
    const int64_t awake = steps > 0 ? steps : options.quick ? TARGET_PERIOD : 10 * TARGET_PERIOD;
    if (!game)
        run_timed(&report, asleep, awake, (int)trials);
    run_game(&report, game ? game : "MinAtar/Breakout", awake, (int)trials);
    return bench_end(&report);
}
