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
#include "bench/run/threads.h"
#include "bench/run/timed_env.h"
#include "learn/dqn/dqn.h"
#include "run/fast_dqn/fast_dqn.h"

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

static const gpur_fast_dqn_work sleeping = {.infer = infer_sleeping, .copy = copy_sleeping, .train = train_sleeping};

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
    bench_must(gpur_fast_dqn_create_with(t.learner, &all, &run, g->sleeps ? &sleeping : NULL, &t.run), "run");
    bench_must(gpur_run_advance(t.run, 0, 0), "prepopulation");
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
    const gpur_fast_dqn_work *const work = &gpur_fast_dqn_of(t->run)->work;
    const double begin = bench_now();
    for (int i = 0; i < repeats; i++)
        bench_must(work->infer(work->context, count, gpur_fast_dqn_of(t->run)->obs, actions), "inference");
    return (bench_now() - begin) / repeats;
}

static double time_train(const trial *t, int repeats)
{
    const double begin = bench_now();
    bench_must(gpur_fast_dqn_of(t->run)->work.train(gpur_fast_dqn_of(t->run)->work.context, repeats), "training");
    return (bench_now() - begin) / repeats;
}

static double time_copy(const trial *t, int repeats)
{
    const gpur_fast_dqn_work *const work = &gpur_fast_dqn_of(t->run)->work;
    const double begin = bench_now();
    for (int i = 0; i < repeats; i++) {
        bench_must(work->copy(work->context, 0), "copy");
        (void)time_inference(t, 1, 1); /* waits for the copy */
    }
    const double both = (bench_now() - begin) / repeats, infer = time_inference(t, 1, repeats);
    return both > infer ? both - infer : 0.0;
}

/* A game that is played at random, whose steps are those of a lane with the next episode's reset. NULL env: none. */
typedef struct played_game {
    const gpur_env_type *type;
    void *env;
    unsigned char *obs;
    uint64_t random;
    int32_t num_actions;
} played_game;

static void must_play(const gpur_env_type *type, const char *error)
{
    if (error)
        fprintf(stderr, "%s: %s\n", type->name, error), exit(1);
}

static played_game open_game(const group *g)
{
    played_game game = {.type = g->type, .random = 1};
    gpur_env_info info = {.size = sizeof info};
    if (g->timed)
        return game;
    must_play(g->type, g->type->init(g->options, 1, &info, &game.env));
    game.num_actions = info.action.num_actions;
    game.obs = bench_allocate(1 << 20);
    must_play(g->type, g->type->reset(game.env, game.obs));
    return game;
}

static void close_game(played_game *game)
{
    if (game->env)
        game->type->close(game->env);
    free(game->obs);
}

static void play(void *context)
{
    played_game *const game = context;
    const int32_t action = (int32_t)bench_random_below(&game->random, game->num_actions);
    gpur_env_result result = {0};
    must_play(game->type, game->type->step(game->env, &action, game->obs, &result));
    if (result.terminated || result.truncated)
        must_play(game->type, game->type->reset(game->env, game->obs));
}

static double time_env(played_game *game, int repeats)
{
    const double begin = bench_now();
    for (int i = 0; game->env && i < repeats; i++)
        play(game);
    return (bench_now() - begin) / repeats;
}

static gpur_run_stats stats_of(const trial *t)
{
    gpur_run_stats stats = {.size = sizeof stats};
    bench_must(gpur_run_get_stats(t->run, &stats), "stats");
    return stats;
}

/* Parts as other threads call them. */

static void infer_one(void *context)
{
    (void)time_inference(context, 1, 1);
}

static void infer_all(void *context)
{
    const trial *const t = context;
    (void)time_inference(t, gpur_fast_dqn_of(t->run)->shape.envs, 1);
}

static void train_once(void *context)
{
    (void)time_train(context, 1);
}

/* The steps of a prediction: what it knows beside the times of the parts alone. */
typedef enum knowledge {
    PARTS_ALONE, /* and a thread's share of waking threads that have nothing to do */
    WAKES,       /* how long a thread that is woken takes to go on while others compute: the one that is given work, the
                    one that waits for it, and an environment that sleeps */
    WOKEN_PARTS, /* the times of inference and training in threads that sleep between calls, where they do in the run */
    BESIDE,      /* how much slower the parts are beside others that compute */
    KNOWLEDGE
} knowledge;
static const char *const knowledge_names[KNOWLEDGE] = {"predicted", "predicted_wakes", "predicted_woken",
                                                       "predicted_beside"};

/* What a part costs because others run, each measured with those others that the variant has. */
typedef struct shared_times {
    threads_wake wake;   /* beside those that compute meanwhile */
    double late;         /* how much longer an environment sleeps than it asks for */
    double infer, train; /* in threads that sleep between calls; 0: they do not */
    int beside;          /* other threads that compute at the same time, on cores of their own */
    double infer_slower, train_slower, env_slower;
} shared_times;

static void sleep_once(void *context)
{
    timed_sleep(((const timed_env *)context)->mean);
}

static double ratio_beside(threads_part part, const threads_part *others, int32_t count, int repeats)
{
    return threads_time_beside(part, others, count, repeats) / threads_time_beside(part, NULL, 0, repeats);
}

/* Lanes and trainer compute at the same time in the concurrent variants, and only lanes in the others. Each thread
 * plays a game of its own. */
static shared_times measure_shared(trial *t, const group *g, const variant *v, int repeats)
{
    const int32_t cores = (int32_t)sysconf(_SC_NPROCESSORS_ONLN), most = v->num_envs + v->concurrent - 1;
    const threads_part infer = {v->synchronized ? infer_all : infer_one, t}, train = {train_once, t};
    shared_times s = {.beside = most < cores - 1 ? most : cores - 1, .train_slower = 1.0, .env_slower = 1.0};
    threads_part others[MAX_LANES + 1];
    played_game games[MAX_LANES + 1];
    for (int i = 0; i <= s.beside; i++) {
        games[i] = open_game(g);
        others[i] = v->synchronized && !g->timed ? (threads_part){play, &games[i]} : infer;
    }
    if (v->concurrent && s.beside > 0)
        s.train_slower = ratio_beside(train, others, s.beside, repeats);
    others[0] = v->concurrent ? train : others[0];
    /* Where environments sleep, most cores are idle most of the time. */
    const int env_sleeps = g->timed && !g->timed->spins;
    s.wake = threads_time_wake(v->num_envs, others, env_sleeps ? 0 : s.beside, repeats);
    if (env_sleeps) {
        const threads_part sleep = {sleep_once, (void *)g->timed};
        s.late = threads_time_beside(sleep, NULL, 0, repeats) - g->timed->mean;
    }
    if (!v->concurrent) {
        s.infer = threads_time_woken(infer, train, repeats);
        s.train = threads_time_woken(train, infer, repeats);
    }
    s.infer_slower = ratio_beside(infer, others, s.beside, repeats);
    if (!g->timed)
        s.env_slower = ratio_beside((threads_part){play, &games[s.beside]}, others, s.beside, 20 * repeats);
    for (int i = 0; i <= s.beside; i++)
        close_game(&games[i]);
    return s;
}

/* Waking so many threads that have nothing to do, and waiting for all of them: a thread's share. */
static gpur_status do_nothing(void *context, int64_t first, int64_t last, int64_t *done)
{
    (void)context, (void)first, (void)last, (void)done;
    return GPUR_OK;
}

static double time_hand_over(int32_t threads, int repeats)
{
    gpur_job_thread workers[MAX_LANES];
    _Atomic int stopping = 0;
    for (int32_t i = 0; i < threads; i++)
        bench_must(gpur_job_thread_open(&workers[i], do_nothing, NULL, &stopping, "bench"), "thread");
    const double begin = bench_now();
    for (int64_t job = 1; job <= repeats; job++) {
        for (int32_t i = 0; i < threads; i++)
            gpur_job_thread_want(&workers[i], job);
        for (int32_t i = 0; i < threads; i++)
            (void)gpur_job_thread_wait(&workers[i]);
    }
    const double seconds = (bench_now() - begin) / repeats / threads;
    for (int32_t i = 0; i < threads; i++)
        gpur_job_thread_close(&workers[i]);
    return seconds;
}

static void add_knowledge(predict_times *times, const shared_times *s, const variant *v, knowledge added)
{
    if (added == WAKES) {
        times->wake = s->wake;
        times->env_late = s->late;
    }
    if (added == WOKEN_PARTS && !v->concurrent) {
        *(v->synchronized ? &times->infer_all : &times->infer_one) = s->infer;
        times->train = s->train;
    }
    if (added == BESIDE) {
        times->beside = s->beside;
        times->infer_slower = s->infer_slower;
        times->train_slower = s->train_slower;
        times->env_slower = s->env_slower;
    }
}

/* Of each trial. */
typedef struct prediction {
    predict_times alone[PART_TRIALS];
    double alone_env[PART_TRIALS];
    shared_times shared[PART_TRIALS];
    double seconds[KNOWLEDGE][PART_TRIALS]; /* of a step */
} prediction;

/* Predictions of one variant, each with more knowledge, from times that are measured now, so that a machine that is
 * slower now slows both: the medians of several. Where all parts sleep, only the first is made. */
static void predict(const bench_options *options, const group *g, const variant *v, prediction *p)
{
    trial t = open_trial(options, g, v, 1);
    const gpur_run_stats stats = stats_of(&t); /* of the prepopulation */
    const int repeats = (g->sleeps ? PART_REPEATS / 4 : PART_REPEATS) / PART_TRIALS;
    part_times parts = {g, v, stats.fast_dqn.prepopulated, 0.0};
    played_game game = open_game(g);
    for (int i = 0; i < PART_TRIALS; i++) {
        parts.env = time_env(&game, 20 * repeats);
        predict_times times = {.env = env_seconds,
                               .context = &parts,
                               .infer_one = time_inference(&t, 1, repeats),
                               .infer_all = v->synchronized ? time_inference(&t, v->num_envs, repeats) : 0.0,
                               .train = time_train(&t, repeats),
                               .copy = g->sleeps ? 0.0 : time_copy(&t, repeats),
                               .publish = stats.fast_dqn.flush_seconds / (double)stats.fast_dqn.prepopulated,
                               .wake = {.ask = time_hand_over(v->num_envs, repeats)},
                               .explored = (double)epsilon,
                               .cores = g->sleeps ? 0 : (int)sysconf(_SC_NPROCESSORS_ONLN),
                               .env_sleeps = g->timed && !g->timed->spins,
                               .infer_slower = 1.0,
                               .train_slower = 1.0,
                               .env_slower = 1.0};
        p->alone[i] = times;
        p->alone_env[i] = parts.env;
        p->shared[i] = g->sleeps ? (shared_times){0} : measure_shared(&t, g, v, repeats);
        for (int k = 0; k < (g->sleeps ? 1 : KNOWLEDGE); k++) {
            add_knowledge(&times, &p->shared[i], v, (knowledge)k);
            p->seconds[k][i] = predict_seconds(&gpur_fast_dqn_of(t.run)->shape, &times, g->steps) / (double)g->steps;
        }
    }
    close_game(&game);
    close_trial(&t);
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

/* The median over the trials of a prediction, of numbers that lie `stride` bytes apart. */
static double median_of(const double *first, size_t stride)
{
    double values[PART_TRIALS];
    for (int i = 0; i < PART_TRIALS; i++)
        memcpy(&values[i], (const unsigned char *)first + (size_t)i * stride, sizeof *values);
    return bench_summarize(values, PART_TRIALS).median;
}

/* What the predictions are made of, and what the same parts took in the runs. */
static void write_parts(json_file *json, const group *g, const variant *v, const prediction *p, const measurement *m)
{
    const predict_times *const alone = p->alone;
    const shared_times *const shared = p->shared;
    const size_t a = sizeof *alone, s = sizeof *shared;
    const double infer = median_of(v->synchronized ? &alone->infer_all : &alone->infer_one, a);
    const double of_alone[] = {g->timed ? g->timed->mean : median_of(p->alone_env, sizeof *p->alone_env), infer,
                               median_of(&alone->train, a)};
    const double of_wakes[] = {median_of(&alone->wake.ask, a), median_of(&shared->wake.ask, s),
                               median_of(&shared->wake.begin, s), median_of(&shared->wake.end, s)};
    const double woken[] = {median_of(&shared->infer, s), median_of(&shared->train, s)};
    const double slower[] = {median_of(&shared->env_slower, s), median_of(&shared->infer_slower, s),
                             median_of(&shared->train_slower, s)};
    const double in_runs[] = {m->env, m->infer, m->train};
    json_numbers(json, "alone_env_infer_train", of_alone, 3);
    json_numbers(json, "in_runs_env_infer_train", in_runs, 3);
    if (g->sleeps)
        return;
    json_numbers(json, "wake_share_ask_begin_end", of_wakes, 4);
    if (shared->late != 0.0)
        json_number(json, "sleeps_longer", median_of(&shared->late, s));
    if (!v->concurrent)
        json_numbers(json, "woken_infer_train", woken, 2);
    json_numbers(json, "beside_times_env_infer_train", slower, 3);
}

/* The three views of the paper: hours for 50 million steps, percent of the first variant, and how many times as fast;
 * and how far each prediction is below the runs. */
static void run_group(bench_report *report, const group *g, int trials)
{
    static measurement m;
    static prediction p;
    double first = 0.0;
    const int count = g->sleeps ? 1 : KNOWLEDGE;
    printf("\n%s, %d trials of %d steps, C = %d (the paper: 10,000), F = %d\n%-14s %2s %9s %9s %10s %8s %8s %9s  %s\n",
           g->name, trials, (int)g->steps, TARGET_PERIOD, TRAIN_PERIOD, "", "W", "hours", "+-", "predicted", "percent",
           "paper", "speed-up", "beside predictions from parts alone, + wakes, + woken parts, + parts beside others");
    for (int i = 0; i < VARIANTS; i++) {
        const variant *const v = &variants[i];
        char name[128];
        snprintf(name, sizeof name, "%s, %s, W %d", g->name, v->name, (int)v->num_envs);
        if (!bench_wants(report, name))
            continue;
        bench_show(report, name, 0.0); /* ends the program after Ctrl-C */
        bench_hide();
        predict(report->options, g, v, &p);
        measure(report->options, g, v, trials, &m);
        const double hours = 50e6 / 3600, mean = mean_of(m.seconds, trials);
        first = first > 0 ? first : mean; /* of the first that --only chooses */
        printf("%-14s %2d %9.2f %9.2f %10.2f %7.1f%% %7.1f%% %9.2f ", v->name, (int)v->num_envs, hours * mean,
               hours * deviation_of(m.seconds, trials), hours * median_of(p.seconds[count - 1], sizeof(double)),
               100 * mean / first, v->paper, first / mean);
        for (int k = 0; k < count; k++)
            printf(" %+6.1f%%", 100 * (mean / median_of(p.seconds[k], sizeof(double)) - 1.0));
        printf("\n");
        fflush(stdout);
        json_case(&report->json, name);
        json_text(&report->json, "figure", g->name);
        json_text(&report->json, "variant", v->name);
        json_text(&report->json, "act", v->concurrent ? "target" : "latest"); /* the weights that the lanes act by */
        json_number(&report->json, "num_envs", v->num_envs);
        json_number(&report->json, "steps", (double)g->steps);
        json_numbers(&report->json, "seconds", m.seconds, trials); /* of a step */
        for (int k = 0; k < count; k++)
            json_number(&report->json, knowledge_names[k], median_of(p.seconds[k], sizeof(double)));
        json_number(&report->json, "paper_percent", v->paper);
        write_parts(&report->json, g, v, &p, &m);
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
                    "The ablation of fast DQN: 14 variants, measured and predicted. --env NAME: a game "
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
