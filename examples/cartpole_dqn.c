/* SPDX-License-Identifier: MIT */
/*
 * Trains a dueling double-DQN agent on CartPole-v1 until 100 greedy episodes return 475 on average, and writes the
 * learning curve and the learner to the folder --out. Exit status: 0 solved, 1 not solved within --steps, 2 an error.
 */
#include "env_random.h"

#include <gpureplay.h>
#include <gpureplay/env.h>

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { OBS = 4, ACTIONS = 2 }; /* of CartPole-v1 */

/*
 * A train step for every environment step, in launches of 256: with half the training, seeds 1 to 10 took a median of
 * 24,576 steps where they take 15,360. The preset's target_period of 128 matters more: with 32, one of ten seeds was
 * not there after 100,000 steps, with 10 none of five. One thread: layers this small gain nothing from a second one.
 */
enum { ENVS = 8, ROUND = 256, CAPACITY = 100000, MIN_SIZE = 1000, THREADS = 1 };
enum { EVALUATE_EVERY = 1024, EVALUATIONS = 100, RECENT = 100 };
static const float discount = 0.99f, solved_return = 475.0f;

/* Passes a failure of the library on to main, which prints gpur_last_error(). */
#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        const gpur_status try_status_ = (call);                                                                        \
        if (try_status_ != GPUR_OK)                                                                                    \
            return try_status_;                                                                                        \
    } while (0)

/* Copies of the game in lock step, in arrays as gpur_learner_act and gpur_writer_step take them. */
typedef struct games {
    const gpur_env_type *type;
    int32_t count;
    void *env[EVALUATIONS];
    float obs[EVALUATIONS][OBS];      /* of the next step; after an end the new episode's first */
    float next_obs[EVALUATIONS][OBS]; /* where the last step led; after an end the old episode's last */
    float reward[EVALUATIONS];
    uint8_t terminated[EVALUATIONS], truncated[EVALUATIONS];
    float episode_return[EVALUATIONS]; /* of the last step's episode, that step included */
} games;

static int has_ended(const games *g, int32_t i)
{
    return g->terminated[i] || g->truncated[i];
}

/* A call of an environment's function failed if it returns a sentence. */
static void must(const char *sentence)
{
    if (!sentence)
        return;
    fprintf(stderr, "%s\n", sentence);
    exit(2);
}

static void reset_games(games *g)
{
    for (int32_t i = 0; i < g->count; i++) {
        must(g->type->reset(g->env[i], g->obs[i]));
        g->terminated[i] = g->truncated[i] = 0;
        g->episode_return[i] = 0.0f;
    }
}

/* Each copy has a seed of its own, drawn from `seed`. */
static gpur_status open_games(games *g, int32_t count, uint64_t seed)
{
    TRY(gpur_env_find("CartPole-v1", &g->type));
    for (g->count = 0; g->count < count; g->count++) {
        gpur_env_info info = {.size = sizeof info};
        must(g->type->init("", env_random_bits(&seed), &info, &g->env[g->count]));
    }
    reset_games(g);
    return GPUR_OK;
}

static void close_games(games *g)
{
    for (int32_t i = 0; i < g->count; i++)
        g->type->close(g->env[i]);
    g->count = 0;
}

/* Steps every copy, then resets those whose episode ended. */
static void step_games(games *g, const int32_t *actions)
{
    for (int32_t i = 0; i < g->count; i++) {
        gpur_env_result result;
        if (has_ended(g, i))
            g->episode_return[i] = 0.0f;
        must(g->type->step(g->env[i], &actions[i], g->next_obs[i], &result));
        g->reward[i] = result.reward;
        g->terminated[i] = result.terminated;
        g->truncated[i] = result.truncated;
        g->episode_return[i] += result.reward;
        if (has_ended(g, i))
            must(g->type->reset(g->env[i], g->obs[i]));
        else
            memcpy(g->obs[i], g->next_obs[i], sizeof g->obs[i]);
    }
}

/* The library's objects: a device, a replay on it, a learner over that, and a writer into it. */
typedef struct agent {
    gpur_device *device;
    gpur_replay *replay;
    gpur_learner *learner;
    gpur_writer *writer;
} agent;

static void close_agent(agent *a)
{
    gpur_writer_destroy(a->writer);
    gpur_learner_destroy(a->learner);
    gpur_replay_destroy(a->replay);
    gpur_device_close(a->device);
    *a = (agent){0};
}

static void print_line(void *user, const char *line)
{
    (void)user;
    fprintf(stderr, "%s\n", line);
}

static gpur_status open_agent(agent *a, const char *name, uint64_t seed)
{
    static const gpur_field fields[] = {
        {"obs", GPUR_FLOAT32, {OBS}},      {"action", GPUR_INT32, {0}},    {"reward", GPUR_FLOAT32, {0}},
        {"next_obs", GPUR_FLOAT32, {OBS}}, {"terminated", GPUR_BOOL, {0}}, {"truncated", GPUR_BOOL, {0}},
    };
    gpur_device_config device;
    TRY(gpur_device_config_init(&device, sizeof device));
    device.threads = THREADS;
    device.log = print_line;
    TRY(gpur_device_open(name, &device, &a->device));

    gpur_replay_config replay;
    TRY(gpur_replay_config_init(&replay, sizeof replay));
    replay.capacity = CAPACITY;
    replay.fields = fields;
    replay.field_count = sizeof fields / sizeof *fields;
    replay.min_size = MIN_SIZE; /* transitions before training begins */
    replay.gamma = discount;
    replay.seed = seed;
    TRY(gpur_replay_create(a->device, &replay, &a->replay));

    gpur_dqn_config learner;
    TRY(gpur_dqn_config_init(&learner, sizeof learner));
    TRY(gpur_dqn_config_preset(&learner, "cartpole"));
    learner.network.num_actions = ACTIONS;
    learner.seed = seed;
    TRY(gpur_dqn_create(a->replay, &learner, &a->learner));
    return gpur_writer_create(a->replay, ENVS, &a->writer);
}

typedef struct training {
    agent agent;
    games games, judged;
    float recent[RECENT]; /* returns of the last episodes */
    int64_t steps, episodes, train_steps, next_evaluation;
    int64_t reported;  /* train steps that were done at the last report */
    float eval_return; /* of this round; NaN: there was no evaluation */
    double began;
    FILE *curve;
} training;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* One step of every environment, into the replay. */
static gpur_status player_step(training *t)
{
    int32_t actions[ENVS];
    games *const g = &t->games;
    const float epsilon = gpur_learner_epsilon(t->agent.learner, t->steps);
    TRY(gpur_learner_act(t->agent.learner, ENVS, g->obs, epsilon, actions, NULL));
    step_games(g, actions);
    TRY(gpur_writer_step(t->agent.writer, actions, g->reward, g->next_obs, g->terminated, g->truncated));
    t->steps += ENVS;
    for (int32_t i = 0; i < ENVS; i++)
        if (has_ended(g, i)) {
            TRY(gpur_writer_reset(t->agent.writer, i, g->obs[i])); /* begins the next episode */
            t->recent[t->episodes++ % RECENT] = g->episode_return[i];
        }
    return GPUR_OK;
}

/* Mean return of one episode of every judged copy with epsilon 0. A copy whose episode ended plays on uncounted. */
static gpur_status evaluate(training *t)
{
    int32_t actions[EVALUATIONS];
    uint8_t done[EVALUATIONS] = {0};
    double sum = 0.0;
    reset_games(&t->judged);
    for (int32_t left = EVALUATIONS; left > 0;) {
        TRY(gpur_learner_act(t->agent.learner, EVALUATIONS, t->judged.obs, 0.0f, actions, NULL));
        step_games(&t->judged, actions);
        for (int32_t i = 0; i < EVALUATIONS; i++)
            if (!done[i] && has_ended(&t->judged, i)) {
                done[i] = 1;
                sum += (double)t->judged.episode_return[i];
                left--;
            }
    }
    t->eval_return = (float)(sum / EVALUATIONS);
    t->next_evaluation = t->steps + EVALUATE_EVERY;
    return GPUR_OK;
}

/* A row of the CSV, and after an evaluation a line. An empty cell means that there is no value. */
static gpur_status report(training *t)
{
    gpur_learner_stats stats = {.size = sizeof stats};
    const int64_t held = t->episodes < RECENT ? t->episodes : RECENT;
    double sum = 0.0;
    char train_return[32] = "", eval_return[32] = "", loss[32] = "";
    TRY(gpur_learner_get_stats(t->agent.learner, &stats));
    for (int64_t i = 0; i < held; i++)
        sum += (double)t->recent[i];
    if (held > 0)
        snprintf(train_return, sizeof train_return, "%.6g", sum / (double)held);
    if (!isnan(t->eval_return))
        snprintf(eval_return, sizeof eval_return, "%.6g", (double)t->eval_return);
    if (stats.steps > t->reported) /* the mean is over the steps since then */
        snprintf(loss, sizeof loss, "%.6g", (double)stats.mean_loss);
    t->reported = stats.steps;
    fprintf(t->curve, "%" PRId64 ",%" PRId64 ",%.3f,%s,%s,%s\n", t->steps, t->episodes, now() - t->began, train_return,
            eval_return, loss);
    fflush(t->curve); /* complete up to this row, whatever ends the program */
    if (eval_return[0])
        printf("%7" PRId64 " steps  %6.1f s  return %s  greedy %s  loss %s\n", t->steps, now() - t->began, train_return,
               eval_return, loss);
    fflush(stdout);
    return GPUR_OK;
}

/* Rounds of play, each followed by one launch of as many train steps, until it is solved or `steps` are done. */
static gpur_status train(training *t, int64_t steps)
{
    TRY(gpur_writer_reset(t->agent.writer, -1, t->games.obs));
    for (t->eval_return = NAN; t->steps < steps && !(t->eval_return >= solved_return);) {
        for (int64_t end = t->steps + ROUND; t->steps < end;)
            TRY(player_step(t));
        if (gpur_replay_can_sample(t->agent.replay)) {
            TRY(gpur_learner_train(t->agent.learner, ROUND)); /* returns before it is done */
            t->train_steps += ROUND;
        }
        t->eval_return = NAN;
        if (t->steps >= t->next_evaluation && t->train_steps > 0)
            TRY(evaluate(t));
        TRY(report(t));
    }
    return GPUR_OK;
}

static int run(training *t, const char *device, const char *out, int64_t seed, int64_t steps)
{
    char path[4096];
    gpur_device_info info = {.size = sizeof info};
    snprintf(path, sizeof path, "%s/curve.csv", out);
    t->curve = fopen(path, "w");
    if (!t->curve) {
        fprintf(stderr, "cannot write %s: %s\n", path, strerror(errno));
        return 2;
    }
    fprintf(t->curve, "steps,episodes,seconds,train_return,eval_return,loss\n");
    gpur_status status = open_games(&t->games, ENVS, (uint64_t)seed);
    if (status == GPUR_OK)
        status = open_games(&t->judged, EVALUATIONS, ~(uint64_t)seed);
    if (status == GPUR_OK)
        status = open_agent(&t->agent, device, (uint64_t)seed);
    if (status == GPUR_UNAVAILABLE && strcmp(device, "auto") == 0) { /* a GPU without cuBLAS has no learner */
        fprintf(stderr, "%s\nusing the CPU\n", gpur_last_error());
        close_agent(&t->agent);
        status = open_agent(&t->agent, "cpu", (uint64_t)seed);
    }
    if (status == GPUR_OK && (status = gpur_device_get_info(t->agent.device, &info)) == GPUR_OK) {
        printf("CartPole-v1 on %s: %s\n", info.name, info.description);
        t->next_evaluation = EVALUATE_EVERY;
        t->began = now();
        status = train(t, steps);
    }
    snprintf(path, sizeof path, "%s/learner.safetensors", out);
    if (status == GPUR_OK && strstr(gpur_build_info(), "files: none") == NULL)
        status = gpur_learner_save(t->agent.learner, path, NULL);
    if (status != GPUR_OK) {
        fprintf(stderr, "%s\n", gpur_last_error());
        return 2;
    }
    const int is_solved = t->eval_return >= solved_return;
    printf("%s after %" PRId64 " steps, %" PRId64 " episodes, %.1f s; the learning curve is %s/curve.csv\n",
           is_solved ? "solved" : "not solved", t->steps, t->episodes, now() - t->began, out);
    return is_solved ? 0 : 1;
}

static int64_t read_number(const char *option, const char *text, int64_t low)
{
    char *end;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    if (errno || end == text || *end || value < low) {
        fprintf(stderr, "%s is \"%s\"; it must be a whole number of at least %" PRId64 "\n", option, text, low);
        exit(2);
    }
    return value;
}

int main(int argc, char **argv)
{
    static training t;
    const char *device = "auto", *out = ".";
    int64_t seed = 1, steps = 300000;
    for (int i = 1; i < argc; i += 2) {
        const char *const value = i + 1 < argc ? argv[i + 1] : "";
        if (!strcmp(argv[i], "--device") && *value)
            device = value;
        else if (!strcmp(argv[i], "--out") && *value)
            out = value;
        else if (!strcmp(argv[i], "--seed"))
            seed = read_number(argv[i], value, 0);
        else if (!strcmp(argv[i], "--steps"))
            steps = read_number(argv[i], value, 1);
        else {
            const int is_help = !strcmp(argv[i], "--help");
            fprintf(is_help ? stdout : stderr,
                    "%s%susage: %s [--device auto|cpu|cuda:N] [--seed N] [--steps N] [--out FOLDER]\n",
                    is_help ? "" : argv[i], is_help ? "" : " is not an option, or has no value\n", argv[0]);
            return is_help ? 0 : 2;
        }
    }
    const int status = run(&t, device, out, seed, steps);
    close_agent(&t.agent);
    close_games(&t.judged);
    close_games(&t.games);
    if (t.curve)
        fclose(t.curve);
    return status;
}
