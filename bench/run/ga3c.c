/* SPDX-License-Identifier: MIT */
/*
 * GA3C [Babaeizadeh et al. 2017]. --part N measures one of:
 *
 *   1  predictions a second while requests always wait, against inference alone with batches of the same mean size in
 *      the same run; the part of a predictor's time outside of inference; and the reply to one lonely agent against one
 *      inference. Environments take no time, and nothing is trained
 *   2  steps a second with the networks of Table 2: of GA3C, also with training batches of more than 40 steps, of A2C,
 *      and of A3C, which is always on the CPU
 *   3  the numbers of agents, predictors and trainers: predictions, rollouts trained on, queues, batches, policy lag
 *   4  the least training batch: the same [Figure 7]
 *   5  the tuner, from 1, 1 and 1, on three surfaces of sleeping environments and models, each with an optimum at 12
 *      agents, 4 predictors and 4 trainers or fewer: windows until the rate of the accepted numbers is 90% of the best
 *      rate of the grid, which is measured before; and what it is after 200 windows
 *
 * Environments show noise of 84 x 84 bytes, and their episodes have 200 steps.
 */
#include "bench/lib/bench.h"
#include "bench/lib/setup.h"
#include "bench/run/timed_env.h"

#include "base/ticket_lock.h"
#include "run/ga3c/handle.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { FRAMES = 64 };
static unsigned char frames[FRAMES][FRAME_BYTES];

/* Environments of frames. */

typedef struct frames_env {
    int64_t step;
} frames_env;

static const char *init_frames(const char *options, uint64_t seed, gpur_env_info *info, void **env)
{
    frames_env *const e = calloc(1, sizeof *e);
    (void)options;
    info->obs = (gpur_space){.dtype = GPUR_UINT8, .shape = {84, 84}, .high = 255};
    info->action = (gpur_space){.dtype = GPUR_INT32, .num_actions = 6, .high = 5};
    if (e)
        e->step = (int64_t)(seed % FRAMES);
    *env = e;
    return e ? NULL : "there is no memory";
}

static const char *reset_frames(void *env, void *obs)
{
    frames_env *const e = env;
    memcpy(obs, frames[e->step % FRAMES], FRAME_BYTES);
    return NULL;
}

static const char *step_frames(void *env, const void *action, void *obs, gpur_env_result *result)
{
    frames_env *const e = env;
    (void)action;
    *result = (gpur_env_result){.reward = (float)(e->step % 3 - 1), .terminated = ++e->step % TIMED_EPISODE == 0};
    memcpy(obs, frames[e->step % FRAMES], FRAME_BYTES);
    return NULL;
}

static const gpur_env_type frames_type = {.size = sizeof frames_type,
                                          .name = "Frames",
                                          .init = init_frames,
                                          .reset = reset_frames,
                                          .step = step_frames,
                                          .close = free};
static gpur_run_config frames_run = {.size = sizeof frames_run, .type = &frames_type};

static void make_frames(void)
{
    uint64_t state = 5;
    for (int i = 0; i < FRAMES; i++)
        for (int j = 0; j < FRAME_BYTES; j++)
            frames[i][j] = (unsigned char)bench_random_below(&state, 256);
}

/* Runs. */

typedef struct opened {
    gpur_learner *learner;
    gpur_run *run;
} opened;

static int64_t math = GPUR_MATH_FP32; /* of all learners and policies */

/* `name`: a preset. What else is to be set is in `config`. */
static opened open_system(gpur_device *device, const char *name, const gpur_ga3c_config *config)
{
    opened s = {NULL, NULL};
    gpur_actor_critic_config learner;
    gpur_ga3c_config run;
    bench_must(gpur_actor_critic_config_init(&learner, sizeof learner), "learner config");
    bench_must(gpur_ga3c_config_init(&run, sizeof run), "config");
    bench_must(gpur_ga3c_preset(name, &frames_run, &learner, &run), "preset");
    learner.math = (int32_t)math;
    run.agents = config->agents, run.predictors = config->predictors, run.trainers = config->trainers;
    run.max_prediction_batch = config->max_prediction_batch;
    run.min_train_batch = config->min_train_batch;
    run.system = config->system;
    bench_must(gpur_actor_critic_create(device, &learner, &s.learner), "learner");
    bench_must(gpur_ga3c_create(s.learner, &frames_run, &run, &s.run), "run");
    return s;
}

static void close_system(opened *s)
{
    gpur_run_destroy(s->run);
    gpur_learner_destroy(s->learner);
}

static gpur_ga3c_config numbers(int32_t agents, int32_t predictors, int32_t trainers)
{
    gpur_ga3c_config c;
    bench_must(gpur_ga3c_config_init(&c, sizeof c), "config");
    c.agents = agents, c.predictors = predictors, c.trainers = trainers;
    return c;
}

static gpur_run_stats stats_of(gpur_run *run)
{
    gpur_run_stats stats = {.size = sizeof stats};
    bench_must(gpur_run_get_stats(run, &stats), "stats");
    return stats;
}

/* Rates of a run that has been advanced for about `seconds`, after a beginning that is not measured. */
typedef struct rates {
    double seconds;                                      /* that were measured */
    double steps, predictions, rollouts, updates, batch; /* a second; and predictions of a forward pass */
    double request_queue, rollout_queue, lag, largest_lag, outside, reply;
} rates;

static rates measure(gpur_run *run, double seconds)
{
    int64_t steps = 64;
    gpur_run_stats from, to;
    do { /* of which one call takes a tenth of the time */
        const double begin = bench_now();
        steps *= 2;
        bench_must(gpur_run_advance(run, steps, 0), "advance");
        if (bench_now() - begin > seconds / 10)
            break;
    } while (1);
    from = stats_of(run);
    do { /* again if the first call, with which the agents begin, was slow */
        bench_must(gpur_run_advance(run, 10 * steps, 0), "advance");
        to = stats_of(run);
    } while (to.seconds - from.seconds < seconds);
    const double took = to.seconds - from.seconds;
    const double predictions = (double)(to.ga3c.predictions - from.ga3c.predictions);
    const double batches = (double)(to.ga3c.prediction_batches - from.ga3c.prediction_batches); /* A3C has none */
    const double inside = to.ga3c.predict_seconds - from.ga3c.predict_seconds;
    const double outside = to.ga3c.predictor_seconds - from.ga3c.predictor_seconds;
    return (rates){
        .seconds = took,
        .steps = (double)(to.env_steps - from.env_steps) / took,
        .predictions = predictions / took,
        .rollouts = (double)(to.ga3c.training_batches - from.ga3c.training_batches) / took,
        .updates = (double)(to.train_steps - from.train_steps) / took,
        .batch = batches > 0 ? predictions / batches : 1,
        .request_queue = to.ga3c.prediction_queue,
        .rollout_queue = to.ga3c.training_queue,
        .lag = to.ga3c.mean_lag,
        .largest_lag = (double)to.ga3c.largest_lag,
        .outside = outside / (inside + outside),
        .reply = (to.ga3c.wait_seconds - from.ga3c.wait_seconds) / predictions,
    };
}

static void write_rates(bench_report *report, const char *name, const rates *r)
{
    json_case(&report->json, name);
    json_number(&report->json, "seconds", r->seconds);
    json_number(&report->json, "steps", r->steps);
    json_number(&report->json, "predictions", r->predictions);
    json_number(&report->json, "rollouts", r->rollouts);
    json_number(&report->json, "updates", r->updates);
    json_number(&report->json, "batch", r->batch);
    json_number(&report->json, "request_queue", r->request_queue);
    json_number(&report->json, "rollout_queue", r->rollout_queue);
    json_number(&report->json, "lag", r->lag);
    json_number(&report->json, "largest_lag", r->largest_lag);
    json_number(&report->json, "outside", r->outside);
    json_number(&report->json, "reply", r->reply);
}

static void show_rates(bench_report *report, const char *name, const rates *r)
{
    printf("%-26s %9.0f %9.1f %9.1f %8.1f %8.1f %8.1f %7.1f %7.0f\n", name, r->steps, r->rollouts, r->updates, r->batch,
           r->request_queue, r->rollout_queue, r->lag, r->largest_lag);
    fflush(stdout);
    write_rates(report, name, r);
    json_close_case(&report->json);
    report->done++;
}

static void print_head(void)
{
    printf("%-26s %9s %9s %9s %8s %8s %8s %7s %7s\n", "a second:", "steps", "rollouts", "updates", "batch", "requests",
           "rollouts", "lag", "largest");
}

static rates run_system(bench_report *report, gpur_device *device, const char *label, const char *preset,
                        const gpur_ga3c_config *config, double seconds)
{
    bench_show(report, label, 0);
    opened s = open_system(device, preset, config);
    const rates r = measure(s.run, seconds);
    close_system(&s);
    bench_hide();
    show_rates(report, label, &r);
    return r;
}

/* Part 1. */

static gpur_status train_nothing(void *context, const gpur_actor_critic_batch *batch, gpur_actor_critic_losses *losses)
{
    (void)context, (void)batch;
    *losses = (gpur_actor_critic_losses){.size = sizeof *losses};
    return GPUR_OK;
}

/* Inference alone: predictions a second with batches of this size. */
static double bare_predictions(gpur_learner *learner, gpur_device *device, int64_t count, double seconds)
{
    gpur_actor_critic_config learner_config;
    gpur_policy_config config;
    gpur_policy *policy = NULL;
    gpur_ga3c_config run;
    unsigned char *const obs = bench_allocate((size_t)count * STACK_BYTES);
    int32_t *const actions = bench_allocate((size_t)count * sizeof *actions);
    float *const values = bench_allocate((size_t)count * sizeof *values);
    int64_t calls = 0;
    bench_must(gpur_actor_critic_config_init(&learner_config, sizeof learner_config), "learner config");
    bench_must(gpur_ga3c_config_init(&run, sizeof run), "config");
    bench_must(gpur_ga3c_preset("ga3c", &frames_run, &learner_config, &run), "preset");
    bench_must(gpur_policy_config_init(&config, sizeof config), "policy config");
    config.network = learner_config.network, config.obs = learner_config.obs, config.max_batch = (int32_t)count;
    config.math = (int32_t)math;
    bench_must(gpur_policy_create(device, &config, &policy), "policy");
    bench_must(gpur_policy_pull(policy, learner, GPUR_WEIGHTS_ONLINE), "publish");
    for (int64_t i = 0; i < count * STACK; i++)
        memcpy(obs + i * FRAME_BYTES, frames[i % FRAMES], FRAME_BYTES);
    const gpur_policy_input input = {.size = sizeof input, .count = count, .obs = obs};
    const gpur_policy_output output = {.size = sizeof output, .actions = actions, .values = values};
    bench_must(gpur_policy_act(policy, &input, &output), "act");
    const double begin = bench_now();
    for (; bench_now() - begin < seconds; calls++)
        bench_must(gpur_policy_act(policy, &input, &output), "act");
    const double took = bench_now() - begin;
    gpur_policy_destroy(policy);
    free(obs), free(actions), free(values);
    return (double)(calls * count) / took;
}

/* `count` 1: a lonely agent; else twice as many agents as a forward pass takes, so that requests always wait. */
static void measure_cycle(bench_report *report, gpur_device *device, int32_t count, double seconds)
{
    char name[64];
    gpur_ga3c_config config = numbers(count == 1 ? 1 : 2 * count, 1, 1);
    config.max_prediction_batch = count;
    snprintf(name, sizeof name, count == 1 ? "one agent" : "batches of %d", (int)count);
    if (!bench_wants(report, name))
        return;
    bench_show(report, name, 0);
    opened s = open_system(device, "ga3c", &config);
    gpur_ga3c_of(s.run)->model.train = train_nothing;
    const double before = bare_predictions(s.learner, device, count, seconds / 2);
    const rates r = measure(s.run, seconds);
    const double bare = (before + bare_predictions(s.learner, device, count, seconds / 2)) / 2;
    close_system(&s);
    bench_hide();
    printf("%-16s %9.0f predictions a second, alone %9.0f: %.3f; mean batch %.1f, queue %.1f, %4.1f%% outside of "
           "inference; reply %.2f times one inference\n",
           name, r.predictions, bare, r.predictions / bare, r.batch, r.request_queue, 100 * r.outside,
           r.reply * bare / (double)count);
    fflush(stdout);
    write_rates(report, name, &r);
    json_number(&report->json, "bare", bare);
    json_close_case(&report->json);
    report->done++;
}

static void run_cycles(bench_report *report, gpur_device *device, double seconds)
{
    static const int32_t counts[] = {1, 4, 16, 32, 64, 128};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        measure_cycle(report, device, counts[i], seconds);
}

/* Part 2. The paper's rates: of Table 2, System I. */

static void run_networks(bench_report *report, gpur_device *device, double seconds)
{
    static const char *const presets[] = {"ga3c", "ga3c-large-4", "ga3c-large-3", "ga3c-large-2", "ga3c-large-1"};
    static const double a3c[] = {352, 113, 97, 43, 11}, ga3c[] = {1361, 1271, 1206, 874, 490};
    gpur_device *const cpu = bench_open("cpu", 1);
    print_head();
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++) {
        char label[64];
        if (!bench_wants(report, presets[i]))
            continue;
        gpur_ga3c_config config = numbers(16, 2, 2);
        snprintf(label, sizeof label, "%s", presets[i]);
        const rates ours = run_system(report, device, label, presets[i], &config, seconds);
        config.min_train_batch = 40;
        snprintf(label, sizeof label, "%s, over 40 steps", presets[i]);
        const rates joined = run_system(report, device, label, presets[i], &config, seconds);
        config.system = GPUR_A2C;
        snprintf(label, sizeof label, "a2c, %s", presets[i]);
        const rates together = run_system(report, device, label, presets[i], &config, seconds);
        config.system = GPUR_A3C;
        snprintf(label, sizeof label, "a3c on the CPU, %s", presets[i]);
        const rates baseline = run_system(report, cpu, label, presets[i], &config, seconds);
        printf("%-26s %.2f, %.2f and %.2f times; in the paper %.0f and %.0f, %.1f times\n", "",
               ours.steps / baseline.steps, joined.steps / baseline.steps, together.steps / baseline.steps, ga3c[i],
               a3c[i], ga3c[i] / a3c[i]);
    }
    gpur_device_close(cpu);
}

/* Part 3. */

static void run_grid(bench_report *report, gpur_device *device, double seconds)
{
    static const int32_t agents[] = {4, 16, 32, 128}, others[] = {1, 2, 4};
    print_head();
    for (int i = 0; i < 4 * 3 * 2; i++) {
        char label[64];
        const gpur_ga3c_config config = numbers(agents[i / 6], others[i / 2 % 3], others[i % 2]);
        snprintf(label, sizeof label, "%d agents, %d, %d", (int)config.agents, (int)config.predictors,
                 (int)config.trainers);
        if (bench_wants(report, label))
            run_system(report, device, label, "ga3c", &config, seconds);
    }
}

/* Part 4. */

static void run_batches(bench_report *report, gpur_device *device, double seconds)
{
    static const int32_t least[] = {0, 5, 20, 40, 80};
    print_head();
    for (size_t i = 0; i < sizeof least / sizeof *least; i++) {
        char label[64];
        gpur_ga3c_config config = numbers(32, 2, 2);
        config.min_train_batch = least[i];
        snprintf(label, sizeof label, "more than %d steps", (int)least[i]);
        if (bench_wants(report, label))
            run_system(report, device, label, "ga3c", &config, seconds);
    }
}

/* Part 5. */

/* Environments share `cores`, and inference and training a device of which one at a time computes. Whoever shares makes
 * the others slower by `crowding`. Times in seconds; each is slept. */
typedef struct surface {
    const char *name;
    double env, cores;
    double predict_host, predict_device, row; /* of an inference, and for each of its rows */
    double train_host, train_device;
    double crowding;
} surface;

static const surface surfaces[] = {
    {"environments limit", 4e-3, 6, 0.5e-3, 0.3e-3, 0.02e-3, 0.5e-3, 0.3e-3, 0.06},
    {"inference limits", 1e-3, 8, 4e-3, 0.8e-3, 0.05e-3, 0.5e-3, 0.3e-3, 0.06},
    {"training limits", 1e-3, 8, 0.5e-3, 0.3e-3, 0.02e-3, 5e-3, 0.8e-3, 0.06},
};
enum { SURFACES = sizeof surfaces / sizeof *surfaces };
enum { MOST_AGENTS = 12, MOST_OTHERS = 4, TUNER_RUNS = 10, MOST_WINDOWS = 200 };

static const surface *current;
static _Atomic int stepping, users;
static gpur_ticket_lock device_lock;
static _Atomic int64_t sleeping_updates;

static const char *step_shared(void *env, const void *action, void *obs, gpur_env_result *result)
{
    const int others = atomic_fetch_add(&stepping, 1);
    const double share = (others + 1) / current->cores;
    (void)env, (void)action, (void)obs;
    timed_sleep(current->env * (share > 1 ? share * (1 + current->crowding * (others + 1 - current->cores)) : 1));
    atomic_fetch_sub(&stepping, 1);
    *result = (gpur_env_result){0};
    return NULL;
}

static const char *init_shared(const char *options, uint64_t seed, gpur_env_info *info, void **env)
{
    static int one;
    (void)options, (void)seed;
    info->obs = (gpur_space){.dtype = GPUR_FLOAT32, .shape = {1}};
    info->action = (gpur_space){.dtype = GPUR_INT32, .num_actions = 2, .high = 1};
    *env = &one;
    return NULL;
}

static const char *reset_shared(void *env, void *obs)
{
    (void)env;
    memset(obs, 0, sizeof(float));
    return NULL;
}

static void close_shared(void *env)
{
    (void)env;
}

static const gpur_env_type shared_type = {.size = sizeof shared_type,
                                          .name = "Shared",
                                          .init = init_shared,
                                          .reset = reset_shared,
                                          .step = step_shared,
                                          .close = close_shared};
static gpur_run_config shared_run = {.size = sizeof shared_run, .type = &shared_type};

static void use_device(double host, double device)
{
    const int others = atomic_fetch_add(&users, 1);
    timed_sleep(host);
    gpur_ticket_lock_lock(&device_lock);
    timed_sleep(device * (1 + current->crowding * others));
    gpur_ticket_lock_unlock(&device_lock);
    atomic_fetch_sub(&users, 1);
}

static gpur_status predict_asleep(void *context, int64_t count, const void *obs, const uint32_t *lanes,
                                  const uint64_t *steps, int32_t greedy, int32_t *actions, float *values,
                                  int64_t *version)
{
    (void)context, (void)obs, (void)lanes, (void)steps, (void)greedy;
    use_device(current->predict_host, current->predict_device + current->row * (double)count);
    memset(actions, 0, (size_t)count * sizeof *actions);
    memset(values, 0, (size_t)count * sizeof *values);
    *version = atomic_load(&sleeping_updates);
    return GPUR_OK;
}

static gpur_status train_asleep(void *context, const gpur_actor_critic_batch *batch, gpur_actor_critic_losses *losses)
{
    (void)context, (void)batch;
    use_device(current->train_host, current->train_device);
    *losses = (gpur_actor_critic_losses){.size = sizeof *losses, .step = atomic_fetch_add(&sleeping_updates, 1) + 1};
    return GPUR_OK;
}

static gpur_status broadcast_nothing(void *context)
{
    (void)context;
    return GPUR_OK;
}

static int64_t updates_asleep(void *context)
{
    (void)context;
    return atomic_load(&sleeping_updates);
}

static void close_nothing(void *context)
{
    (void)context;
}

static gpur_run *open_asleep(gpur_device *device, const gpur_ga3c_config *config)
{
    const gpur_ga3c_model model = {.obs = {"obs", GPUR_FLOAT32, {1}},
                                   .num_actions = 2,
                                   .max_batch = 128,
                                   .device = device,
                                   .predict = predict_asleep,
                                   .train = train_asleep,
                                   .check = broadcast_nothing,
                                   .broadcast = broadcast_nothing,
                                   .steps = updates_asleep,
                                   .close = close_nothing};
    gpur_ga3c_config with_queue = *config;
    gpur_run *run = NULL;
    with_queue.queue_room = 16; /* what one window leaves in the queue must not count much in the next one */
    bench_must(gpur_ga3c_create_with(&model, &shared_run, &with_queue, &run), "run");
    return run;
}

static double grid[MOST_AGENTS + 1][MOST_OTHERS + 1][MOST_OTHERS + 1]; /* rollouts a second */

/* Of all numbers, in one run that changes them. */
static double measure_grid(gpur_device *device, double window)
{
    const gpur_ga3c_config config = numbers(1, 1, 1);
    gpur_run *const run = open_asleep(device, &config);
    double best = 0;
    for (int i = 0; i < MOST_AGENTS * MOST_OTHERS * MOST_OTHERS; i++) {
        const int32_t a = i / (MOST_OTHERS * MOST_OTHERS) + 1, p = i / MOST_OTHERS % MOST_OTHERS + 1;
        const int32_t t = i % MOST_OTHERS + 1;
        bench_must(gpur_ga3c_set_counts(run, a, p, t), "numbers");
        const gpur_run_stats from = stats_of(run);
        /* an agent takes a step in about the time of an environment's and of an inference */
        const double step = current->env + current->predict_host + current->predict_device;
        bench_must(gpur_run_advance(run, (int64_t)(window * a / step / 2) + 10 * a, 0), "advance");
        const gpur_run_stats to = stats_of(run);
        grid[a][p][t] = (double)(to.ga3c.training_batches - from.ga3c.training_batches) / (to.seconds - from.seconds);
        best = grid[a][p][t] > best ? grid[a][p][t] : best;
    }
    gpur_run_destroy(run);
    return best;
}

/* That of the grid; outside of it, what the tuner measured in its window. */
static double rate_of(const gpur_run_event *tuned)
{
    const int is_in = tuned->predictors <= MOST_OTHERS && tuned->trainers <= MOST_OTHERS;
    return is_in ? grid[tuned->agents][tuned->predictors][tuned->trainers] : tuned->rate;
}

typedef struct tuning {
    gpur_run *run;
    double wanted;      /* rollouts a second */
    int windows, first; /* so far; when the rate was as wanted for the first time, or 0 */
    gpur_ga3c_numbers found;
    double rate; /* of these */
} tuning;

static void on_window(void *user, const gpur_run_event *event)
{
    tuning *const t = user;
    if (event->kind != GPUR_RUN_TUNED)
        return;
    t->windows++;
    if (event->accepted) {
        t->found = (gpur_ga3c_numbers){event->agents, event->predictors, event->trainers};
        t->rate = rate_of(event);
    }
    if (t->first == 0 && t->rate >= t->wanted)
        t->first = t->windows;
    if (t->windows >= MOST_WINDOWS)
        gpur_run_stop(t->run);
}

static tuning tune_once(bench_report *report, gpur_device *device, int32_t tuner, uint64_t seed, double window,
                        double best)
{
    gpur_ga3c_config config = numbers(1, 1, 1);
    tuning t = {.wanted = 0.9 * best, .found = {1, 1, 1}};
    config.tuner = tuner, config.tuner_period = window, config.tuner_settling = window / 10;
    config.max_agents = MOST_AGENTS;
    shared_run.seed = seed, shared_run.on_event = on_window, shared_run.user = &t;
    bench_show(report, current->name, (double)seed / TUNER_RUNS);
    t.run = open_asleep(device, &config);
    if (gpur_run_advance(t.run, INT64_MAX / 4, 0) != GPUR_INTERRUPTED)
        bench_must(GPUR_DEVICE_ERROR, "tuner");
    gpur_run_destroy(t.run);
    shared_run.on_event = NULL;
    bench_hide();
    printf(
        "%-20s %-6s run %2d: 90%% after %3d windows; at the end %2d agents, %2d predictors, %2d trainers, %3.0f%% of "
        "the best\n",
        current->name, tuner == GPUR_TUNER_PAPER ? "paper" : "code", (int)seed, t.first, (int)t.found.agents,
        (int)t.found.predictors, (int)t.found.trainers, 100 * t.rate / best);
    fflush(stdout);
    return t;
}

static void run_tuner(bench_report *report, gpur_device *device, double window)
{
    bench_must(gpur_ticket_lock_open(&device_lock, "a device"), "lock");
    for (int i = 0; i < SURFACES; i++) {
        current = &surfaces[i];
        if (!bench_wants(report, current->name))
            continue;
        bench_show(report, current->name, 0);
        const double best = measure_grid(device, window);
        bench_hide();
        printf("%-20s 1, 1 and 1: %.0f rollouts a second; the best of the grid: %.0f\n", current->name, grid[1][1][1],
               best);
        for (int32_t tuner = GPUR_TUNER_PAPER; tuner <= GPUR_TUNER_CODE; tuner++) {
            double firsts[TUNER_RUNS], last[TUNER_RUNS];
            int reached = 0, kept = 0;
            for (int run = 0; run < TUNER_RUNS; run++) {
                const tuning t = tune_once(report, device, tuner, (uint64_t)run, window, best);
                firsts[run] = t.first, last[run] = t.rate / best;
                reached += t.first > 0, kept += t.rate >= t.wanted;
            }
            char name[64];
            snprintf(name, sizeof name, "%s, %s", current->name, tuner == GPUR_TUNER_PAPER ? "paper" : "code");
            json_case(&report->json, name);
            json_number(&report->json, "first", grid[1][1][1]);
            json_number(&report->json, "best", best);
            json_numbers(&report->json, "windows", firsts, TUNER_RUNS);
            json_numbers(&report->json, "at the end", last, TUNER_RUNS);
            json_close_case(&report->json);
            report->done++;
            printf("%-20s %-6s %d of %d runs reach 90%%, %d have it at the end\n", current->name,
                   tuner == GPUR_TUNER_PAPER ? "paper" : "code", reached, TUNER_RUNS, kept);
        }
    }
    gpur_ticket_lock_close(&device_lock);
}

int main(int argc, char **argv)
{
    int64_t part = 1, seconds = 10;
    const bench_option more[] = {
        {"part", "what is measured: 1 to 5, as the file says", 1, 5, &part},
        {"seconds", "of a measurement; a window of the tuner takes a 20th", 1, 3600, &seconds, .quick = 1},
        BENCH_MATH(&math)};
    const bench_options options = bench_parse(argc, argv, "GA3C", more, 3);
    gpur_device *const device = bench_open(options.device, 1);
    bench_report report = bench_begin(&options, "GA3C", bench_describe_training(device, math), 0);
    const double time = (double)seconds;
    make_frames();
    if (part == 1)
        run_cycles(&report, device, time);
    else if (part == 2)
        run_networks(&report, device, time);
    else if (part == 3)
        run_grid(&report, device, time);
    else if (part == 4)
        run_batches(&report, device, time);
    else
        run_tuner(&report, device, time / 20);
    gpur_device_close(device);
    return bench_end(&report);
}
