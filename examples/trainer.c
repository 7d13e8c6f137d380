/* SPDX-License-Identifier: MIT */
#include "trainer.h"
#include "interrupt.h"
#include "try.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SAVE_SECONDS = 60 };

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

double trainer_seconds(const trainer *t)
{
    return now() - t->began;
}

static int complain(const char *text)
{
    fprintf(stderr, "%s\n", text);
    return -1;
}

static int open_environments(trainer *t)
{
    const uint64_t seed = (uint64_t)t->options->seed;
    const int32_t envs = (int32_t)t->options->envs;
    t->actions = calloc((size_t)envs, sizeof *t->actions);
    if (!t->actions || vec_env_open(&t->envs, t->kind, envs, seed) != 0)
        return -1;
    return evaluator_open(&t->judge, t->kind, t->recipe->evaluations, ~seed);
}

/* Every row is an environment's step, so the replay knows how many there were. */
static gpur_status resume(trainer *t)
{
    gpur_replay_stats replay = {.size = sizeof replay};
    gpur_learner_stats learner = {.size = sizeof learner};
    TRY(agent_load(&t->agent, t->options->resume));
    TRY(gpur_replay_get_stats(t->agent.replay, &replay));
    TRY(gpur_learner_get_stats(t->agent.learner, &learner));
    t->steps = replay.appended;
    t->train_steps = learner.steps;
    t->next_evaluation = t->steps + t->recipe->evaluate_every;
    return GPUR_OK;
}

static int resumes(const trainer *t)
{
    return strcmp(t->options->resume, "none") != 0;
}

static gpur_status open_agent(trainer *t)
{
    const int32_t envs = t->envs.count, judged = t->recipe->evaluations;
    const agent_config config = {
        .device = t->options->device,
        .threads = t->recipe->threads,
        .preset = t->recipe->preset,
        .capacity = t->recipe->capacity,
        .min_size = t->recipe->min_size,
        .gamma = t->recipe->gamma,
        .envs = envs,
        .max_act = envs > judged ? envs : judged,
        .seed = (uint64_t)t->options->seed,
    };
    TRY(agent_open(&t->agent, t->kind, &config));
    if (resumes(t))
        TRY(resume(t));
    return gpur_writer_reset(t->agent.writer, -1, vec_env_obs(&t->envs, 0));
}

int trainer_open(trainer *t, const env_kind *kind, const train_recipe *recipe, const train_options *options)
{
    *t = (trainer){.kind = kind, .recipe = recipe, .options = options, .eval_return = NAN};
    t->next_evaluation = recipe->evaluate_every;
    if (open_environments(t) != 0)
        return complain("no memory for the environments");
    if (open_agent(t) != GPUR_OK)
        return complain(gpur_last_error());
    return curve_open(&t->curve, options->out, resumes(t));
}

void trainer_close(trainer *t)
{
    curve_close(&t->curve);
    agent_close(&t->agent);
    evaluator_close(&t->judge);
    vec_env_close(&t->envs);
    free(t->actions);
    t->actions = NULL;
}

/* One step of every environment, into the replay. */
static gpur_status play_step(trainer *t)
{
    const float epsilon = gpur_learner_epsilon(t->agent.learner, t->steps);
    const float *const obs = vec_env_obs(&t->envs, 0);
    TRY(gpur_learner_act(t->agent.learner, t->envs.count, obs, epsilon, t->actions, NULL));
    vec_env_step(&t->envs, t->actions);
    TRY(agent_remember(&t->agent, &t->envs, t->actions));
    t->steps += t->envs.count;
    for (int32_t i = 0; i < t->envs.count; i++) {
        if (!vec_env_ended(&t->envs, i))
            continue;
        recent_add(&t->recent, t->envs.episode_return[i]);
        t->episodes++;
    }
    return GPUR_OK;
}

/* A round of play, then one launch of as much training as it pays for. */
static gpur_status play_and_train(trainer *t)
{
    const int64_t begin = t->steps;
    while (t->steps - begin < t->recipe->round_steps)
        TRY(play_step(t));
    if (!gpur_replay_can_sample(t->agent.replay))
        return GPUR_OK;
    const int64_t due = (t->steps - begin) * t->recipe->round_training / t->recipe->round_steps;
    TRY(gpur_learner_train(t->agent.learner, due));
    t->train_steps += due;
    return GPUR_OK;
}

/* Evaluates when it is time to, and leaves NaN in `mean` when it is not. */
static gpur_status evaluate_when_due(trainer *t, float *mean)
{
    *mean = NAN;
    if (t->steps < t->next_evaluation || t->train_steps == 0)
        return GPUR_OK;
    t->next_evaluation = t->steps + t->recipe->evaluate_every;
    TRY(evaluator_run(&t->judge, t->agent.learner, mean));
    t->eval_return = *mean;
    return GPUR_OK;
}

static gpur_status fill_report(trainer *t, float eval_return, train_report *report)
{
    gpur_learner_stats stats = {.size = sizeof stats};
    TRY(gpur_learner_get_stats(t->agent.learner, &stats));
    const double seconds = trainer_seconds(t);
    const double rate = (double)t->steps / seconds;
    *report = (train_report){
        .steps = t->steps,
        .episodes = t->episodes,
        .train_steps = t->train_steps,
        .seconds = seconds,
        .seconds_left = fmin((double)t->options->seconds - seconds, (double)(t->options->steps - t->steps) / rate),
        .steps_per_second = rate,
        .train_return = recent_mean(&t->recent),
        .eval_return = eval_return,
        .loss = stats.steps > 0 ? stats.mean_loss : NAN,
        .mean_q = stats.steps > 0 ? stats.mean_q : NAN,
        .epsilon = gpur_learner_epsilon(t->agent.learner, t->steps),
    };
    return GPUR_OK;
}

/* 0, or -1 having said why not. */
static int tell(trainer *t, float eval_return)
{
    train_report report;
    if (fill_report(t, eval_return, &report) != GPUR_OK)
        return complain(gpur_last_error());
    progress_show(&t->progress, &report);
    return curve_add(&t->curve, &report);
}

/* A build that reads and writes no files trains all the same. */
static gpur_status save(trainer *t)
{
    const gpur_status status = agent_save(&t->agent, t->options->out);
    t->saved = now();
    return status == GPUR_UNAVAILABLE ? GPUR_OK : status;
}

static gpur_status save_when_due(trainer *t)
{
    return now() - t->saved < SAVE_SECONDS ? GPUR_OK : save(t);
}

static train_end run_to_the_end(trainer *t)
{
    while (!interrupt_came()) {
        float eval_return;
        if (play_and_train(t) != GPUR_OK || evaluate_when_due(t, &eval_return) != GPUR_OK ||
            save_when_due(t) != GPUR_OK) {
            complain(gpur_last_error());
            return TRAIN_FAILED;
        }
        if (tell(t, eval_return) != 0)
            return TRAIN_FAILED;
        if (eval_return >= t->kind->solved_return)
            return TRAIN_SOLVED;
        if (t->steps >= t->options->steps || trainer_seconds(t) >= (double)t->options->seconds)
            return TRAIN_LIMIT;
    }
    return TRAIN_INTERRUPTED;
}

train_end trainer_run(trainer *t)
{
    t->began = t->saved = now();
    progress_begin(&t->progress);
    const train_end end = run_to_the_end(t);
    progress_end(&t->progress);
    if (end == TRAIN_FAILED || save(t) == GPUR_OK)
        return end;
    complain(gpur_last_error());
    return TRAIN_FAILED;
}
