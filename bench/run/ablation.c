/* SPDX-License-Identifier: MIT */
/*
 * The ablation of Daley & Amato 2021, table 3: seconds of a run with and without concurrent training and synchronized
 * execution, with 1, 2, 4 and 8 environments, each beside what its order of work predicts from the times of its parts
 * alone. The environments sleep or compute for a known time, or are games, which train by the preset for their
 * observations; epsilon is 0.1 throughout, and the prepopulation is left out of the time, as in the paper. C is shorter
 * than the paper's 10,000, so that a run of seconds has several target periods.
 */
#include "bench/lib/bench.h"
#include "bench/lib/setup.h"
#include "bench/lib/summary.h"
#include "bench/run/predict.h"
#include "bench/run/timed_env.h"
#include "learn/learner.h"
#include "run/run.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TARGET_PERIOD = 400, TRAIN_PERIOD = 4, PREPOPULATION = 200, MAX_TRIALS = 32, MAX_LANES = 8 };
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

static gpur_status infer_sleeping(void *context, int64_t count, const unsigned char *obs, int32_t *actions)
{
    (void)context, (void)obs;
    sleep_at_device(sleep_infer + sleep_infer_row * (double)count);
    memset(actions, 0, (size_t)count * sizeof *actions);
    return GPUR_OK;
}

static gpur_status copy_sleeping(void *context, int from_target)
{
    (void)context, (void)from_target;
    return GPUR_OK;
}

static gpur_status train_sleeping(void *context, int64_t steps)
{
    (void)context;
    for (int64_t i = 0; i < steps; i++)
        sleep_at_device(sleep_train);
    return GPUR_OK;
}

static const gpur_run_work sleeping = {.infer = infer_sleeping, .copy = copy_sleeping, .train = train_sleeping};

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

/* The run with its prepopulation done. */
static trial open_trial(const bench_options *options, const group *g, const variant *v, uint64_t seed)
{
    trial t = {.device = bench_open(options->device, 1)};
    gpur_field fields[GPUR_RUN_FIELDS];
    gpur_replay_config replay;
    gpur_learner_config learner;
    gpur_run_config run;
    bench_must(gpur_replay_config_init(&replay, sizeof replay), "replay");
    bench_must(gpur_learner_config_init(&learner, sizeof learner), "learner");
    bench_must(gpur_run_config_init(&run, sizeof run), "run");
    if (g->timed)
        timed_env_use(g->timed); /* counts its lanes from 0 */
    bench_must(gpur_run_preset(g->preset, g->type, g->options, fields, &replay, &learner, &run), "preset");
    if (g->timed)
        timed_env_use(g->timed);
    replay.capacity = 20000;
    replay.min_size = PREPOPULATION / 2;
    replay.seed = learner.seed = run.seed = seed;
    learner.exploration = (gpur_schedule){.first = epsilon, .last = epsilon};
    learner.target_period = TARGET_PERIOD / TRAIN_PERIOD;
    run.num_envs = v->num_envs;
    run.concurrent = v->concurrent;
    run.synchronized = v->synchronized;
    run.target_period = TARGET_PERIOD;
    run.train_period = TRAIN_PERIOD;
    run.prepopulation = PREPOPULATION;
    run.eval_period = run.eval_episodes = 0;
    t.replay = bench_create(t.device, &replay);
    bench_must(gpur_learner_create(t.replay, &learner, &t.learner), "learner");
    bench_must(
        gpur_run_create_with(t.learner, (gpur_run_types){g->type, NULL}, &run, g->sleeps ? &sleeping : NULL, &t.run),
        "run");
    bench_must(gpur_run_advance(t.run, 0), "prepopulation");
    return t;
}

/* The times of the parts, each measured alone. */

typedef struct part_times {
    const group *group;
    const variant *variant;
    int64_t prepopulated; /* steps that lane 0 took before step 1 */
    double env;           /* of a game's step */
} part_times;

static double env_seconds(void *context, int32_t lane, int64_t step)
{
    const part_times *const p = context;
    const int64_t taken = (step - 1) / p->variant->num_envs + (lane == 0 ? p->prepopulated : 0);
    return p->group->timed ? timed_env_seconds(p->group->timed, lane, taken) : p->env;
}

enum { PART_REPEATS = 200, PART_TRIALS = 5 };

static double time_inference(const trial *t, int64_t count, int repeats)
{
    static int32_t actions[MAX_LANES];
    const gpur_run_work *const work = &t->run->work;
    const double begin = bench_now();
    for (int i = 0; i < repeats; i++)
        bench_must(work->infer(work->context, count, t->run->obs, actions), "inference");
    return (bench_now() - begin) / repeats;
}

static double time_train(const trial *t, int repeats)
{
    const double begin = bench_now();
    bench_must(t->run->work.train(t->run->work.context, repeats), "training");
    return (bench_now() - begin) / repeats;
}

static double time_copy(const trial *t, int repeats)
{
    const gpur_run_work *const work = &t->run->work;
    const double begin = bench_now();
    for (int i = 0; i < repeats; i++) {
        bench_must(work->copy(work->context, 0), "copy");
        (void)time_inference(t, 1, 1); /* waits for the copy */
    }
    const double both = (bench_now() - begin) / repeats, infer = time_inference(t, 1, repeats);
    return both > infer ? both - infer : 0.0;
}

/* A game's step at random, with that of the next episode's reset. */
static double time_env(const group *g, int repeats)
{
    gpur_env_info info = {.size = sizeof info};
    gpur_env_result result;
    void *env = NULL;
    uint64_t random = 1;
    const char *error = g->type->init(g->options, 1, &info, &env);
    unsigned char *const obs = bench_allocate(1 << 20);
    error = error ? error : g->type->reset(env, obs);
    const double begin = bench_now();
    for (int i = 0; i < repeats && !error; i++) {
        const int32_t action = (int32_t)bench_random_below(&random, info.action.num_actions);
        result = (gpur_env_result){0};
        error = g->type->step(env, &action, obs, &result);
        if (!error && (result.terminated || result.truncated))
            error = g->type->reset(env, obs);
    }
    const double seconds = (bench_now() - begin) / repeats;
    if (error)
        fprintf(stderr, "%s: %s\n", g->type->name, error), exit(1);
    g->type->close(env);
    free(obs);
    return seconds;
}

static gpur_status do_nothing(void *context, int64_t first, int64_t last)
{
    (void)context, (void)first, (void)last;
    return GPUR_OK;
}

/* Waking so many threads that have nothing to do, and waiting for all of them: a thread's share. */
static double time_hand_over(int32_t threads, int repeats)
{
    gpur_worker workers[MAX_LANES];
    _Atomic int stopping = 0;
    for (int32_t i = 0; i < threads; i++)
        bench_must(gpur_worker_open(&workers[i], do_nothing, NULL, &stopping, "bench"), "thread");
    const double begin = bench_now();
    for (int64_t job = 1; job <= repeats; job++) {
        for (int32_t i = 0; i < threads; i++)
            gpur_worker_want(&workers[i], job);
        for (int32_t i = 0; i < threads; i++)
            bench_must(gpur_worker_join(&workers[i]), "join");
    }
    const double seconds = (bench_now() - begin) / repeats / threads;
    for (int32_t i = 0; i < threads; i++)
        gpur_worker_close(&workers[i]);
    return seconds;
}

static gpur_run_stats stats_of(const trial *t)
{
    gpur_run_stats stats = {.size = sizeof stats};
    bench_must(gpur_run_get_stats(t->run, &stats), "stats");
    return stats;
}

/* A prediction of one variant, from times that are measured now, so that a machine that is slower now slows both: the
 * median of several. */
static double predict(const bench_options *options, const group *g, const variant *v)
{
    trial t = open_trial(options, g, v, 1);
    const gpur_run_stats stats = stats_of(&t); /* of the prepopulation */
    const int repeats = (g->sleeps ? PART_REPEATS / 4 : PART_REPEATS) / PART_TRIALS;
    part_times parts = {g, v, stats.prepopulated, 0.0};
    double seconds[PART_TRIALS];
    for (int i = 0; i < PART_TRIALS; i++) {
        parts.env = g->timed ? 0.0 : time_env(g, 20 * repeats);
        predict_times times = {.env = env_seconds,
                               .context = &parts,
                               .infer_one = time_inference(&t, 1, repeats),
                               .infer_all = v->synchronized ? time_inference(&t, v->num_envs, repeats) : 0.0,
                               .train = time_train(&t, repeats),
                               .copy = g->sleeps ? 0.0 : time_copy(&t, repeats),
                               .publish = stats.publish_seconds / (double)stats.prepopulated,
                               .hand_over = time_hand_over(v->num_envs, repeats),
                               .explored = (double)epsilon,
                               .cores = g->sleeps ? 0 : (int)sysconf(_SC_NPROCESSORS_ONLN),
                               .env_sleeps = g->timed && !g->timed->spins};
        seconds[i] = predict_seconds(&t.run->shape, &times, g->steps) / (double)g->steps;
    }
    close_trial(&t);
    return bench_summarize(seconds, PART_TRIALS).median;
}

/* Seconds of a step in each trial. */
static void measure(const bench_options *options, const group *g, const variant *v, int trials, double *seconds)
{
    for (int i = 0; i < trials; i++) {
        trial t = open_trial(options, g, v, (uint64_t)i + 1);
        const double begin = bench_now();
        bench_must(gpur_run_advance(t.run, g->steps), "run");
        seconds[i] = (bench_now() - begin) / (double)g->steps;
        close_trial(&t);
    }
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

/* The three views of the paper: hours for 50 million steps, percent of the first variant, and how many times as
 * fast. */
static void run_group(bench_report *report, const group *g, int trials)
{
    static double seconds[MAX_TRIALS];
    double first = 0.0;
    printf("\n%s, %d trials of %d steps, C = %d (the paper: 10,000), F = %d\n%-14s %2s %9s %9s %10s %8s %8s %9s\n",
           g->name, trials, (int)g->steps, TARGET_PERIOD, TRAIN_PERIOD, "", "W", "hours", "+-", "predicted", "percent",
           "paper", "speed-up");
    for (int i = 0; i < VARIANTS; i++) {
        const variant *const v = &variants[i];
        char name[128];
        snprintf(name, sizeof name, "%s, %s, W %d", g->name, v->name, (int)v->num_envs);
        if (!bench_wants(report, name))
            continue;
        bench_show(report, name, 0.0); /* ends the program after Ctrl-C */
        bench_hide();
        const double hours = 50e6 / 3600, predicted = predict(report->options, g, v);
        measure(report->options, g, v, trials, seconds);
        const double mean = mean_of(seconds, trials), deviation = deviation_of(seconds, trials);
        first = first > 0 ? first : mean; /* of the first that --only chooses */
        printf("%-14s %2d %9.2f %9.2f %10.2f %7.1f%% %7.1f%% %9.2f\n", v->name, (int)v->num_envs, hours * mean,
               hours * deviation, hours * predicted, 100 * mean / first, v->paper, first / mean);
        fflush(stdout);
        json_case(&report->json, name);
        json_text(&report->json, "figure", g->name);
        json_text(&report->json, "variant", v->name);
        json_text(&report->json, "act", v->concurrent ? "target" : "latest"); /* the weights that the lanes act by */
        json_number(&report->json, "num_envs", v->num_envs);
        json_number(&report->json, "steps", (double)g->steps);
        json_numbers(&report->json, "seconds", seconds, trials); /* of a step */
        json_number(&report->json, "predicted", predicted);
        json_number(&report->json, "paper_percent", v->paper);
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
                                 {"steps", "environment steps of a run; 0: 800 or 4,000", 0, 100000000, &steps}};
    const char *const game = take_env(&argc, argv);
    bench_options options =
        bench_parse(argc, argv,
                    "The ablation of fast DQN: 14 variants, measured and predicted. --env NAME: a game "
                    "(MinAtar/Breakout) or a plug-in's file; without it environments that sleep and that compute, and "
                    "MinAtar/Breakout.",
                    more, 2);
    gpur_device *const device = bench_open(options.device, 1);
    bench_report report = bench_begin(&options, "ablation", bench_describe(device), 0);
    gpur_device_close(device);
    trials = options.quick ? 1 : trials;
    const int64_t asleep = steps > 0 ? steps : options.quick ? TARGET_PERIOD : 2 * TARGET_PERIOD;
    const int64_t awake = steps > 0 ? steps : options.quick ? TARGET_PERIOD : 10 * TARGET_PERIOD;
    if (!game)
        run_timed(&report, asleep, awake, (int)trials);
    run_game(&report, game ? game : "MinAtar/Breakout", awake, (int)trials);
    return bench_end(&report);
}
