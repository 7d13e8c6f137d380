/* SPDX-License-Identifier: MIT */
/*
 * gpureplay-train: trains a DQN agent or an actor-critic in environments of this library or of plug-ins.
 * docs/training.md describes its options and the files that it writes. The thread that advances the run is the main
 * thread.
 */
#include "apex.h"
#include "checkpoint.h"
#include "failure.h"
#include "progress.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct training {
    options options;
    settings settings;
    agent agent;
    record record;
    progress progress;
    const char *command[APEX_MAX_WORDS]; /* of actors' processes */
    char folder[MAX_PATH];
    int64_t step;       /* environment steps taken */
    int64_t saved_step; /* those of the last checkpoint; -1: there is none */
} training;

/* The first Ctrl-C stops the run, which waits for a checkpoint that is being saved. A second one ends the program. A
 * terminal that is closed often sends SIGHUP twice, which stops the run, too. */
static _Atomic(const agent *) running;
static volatile sig_atomic_t interrupts;

static void on_signal(int number)
{
    static const char notice[] = "\nstopping; once more ends the program at once\n";
    if (number != SIGHUP && interrupts > 0)
        _exit(INTERRUPTED);
    interrupts = 1;
    const agent *const a = atomic_load(&running);
    if (a)
        gpur_run_stop(a->run);
    (void)!write(STDERR_FILENO, notice, sizeof notice - 1);
}

/* Whoever reads what is printed may go, as head does. Programs that are started do not inherit this, as SIG_IGN. */
static void on_closed_pipe(int number)
{
    (void)number;
}

static void listen_to_signals(const agent *a)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    atomic_store(&running, a);
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    struct sigaction before;
    if (sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler != SIG_IGN) /* nohup ignores it */
        sigaction(SIGHUP, &action, NULL);
    signal(SIGPIPE, on_closed_pipe);
}

/* Else the first files that are opened would get what is printed. */
static void open_missing_streams(void)
{
    for (int file = 0; file <= STDERR_FILENO; file++)
        if (fcntl(file, F_GETFD) < 0)
            (void)!open("/dev/null", O_RDWR);
}

static int record_event(const training *t, record *r, const gpur_run_event *event)
{
    const double step = (double)event->env_steps, length = (double)event->length;
    const double episodes = (double)event->episodes, deviation = event->return_deviation;
    const double episode[] = {step, event->env_index, length, event->mean_return};
    const double evaluation[] = {step, episodes, length, event->mean_return, deviation};
    const double ga3c_evaluation[] = {step, episodes, event->mean_return, deviation};
    const double tuned[] = {step, event->agents, event->predictors, event->trainers, event->accepted, event->rate};
    if (t->agent.is_apex)
        return apex_record(r, event);
    if (event->kind == GPUR_RUN_EPISODE)
        return record_add(r, RECORD_EPISODE, episode);
    if (event->kind == GPUR_RUN_TUNED)
        return record_add(r, RECORD_TUNER, tuned);
    return record_add(r, RECORD_EVALUATION, is_actor_critic(&t->settings) ? ga3c_evaluation : evaluation);
}

/* Rows that cannot be written stop the run. */
static void on_event(void *user, const gpur_run_event *event)
{
    training *const t = user;
    if (record_event(t, &t->record, event))
        gpur_run_stop(t->agent.run);
}

/* "runs/MinAtar-Breakout-1". */
static int choose_folder(training *t)
{
    const options *const o = &t->options;
    if (o->value[OPTION_OUT])
        return path_make(t->folder, "%s", o->value[OPTION_OUT]);
    TRY(path_make(t->folder, "runs/%s-%s", t->settings.type.name, o->value[OPTION_SEED]));
    for (char *c = t->folder + strlen("runs/"); *c; c++)
        if (strchr("/ \\:", *c))
            *c = '-';
    return 0;
}

/* --resume is advised where it works. */
static int refuse_folder(const training *t, const char *path)
{
    int has_checkpoint;
    TRY(checkpoint_exists(t->folder, &has_checkpoint));
    return has_checkpoint
               ? fail("%s is there already; --resume %s goes on with the run of this folder, --out FOLDER begins one "
                      "in another folder",
                      path, t->folder)
               : fail("%s is there already, of a run without a checkpoint to go on from; delete the folder %s to begin "
                      "anew in it, or --out FOLDER begins in another one",
                      path, t->folder);
}

/* What is there is never written over. The options come first, so that a run that is killed at once can be resumed. */
static int make_folder(training *t)
{
    static const char *const names[] = {"options.txt", "config.json", "learner.safetensors", "checkpoint"};
    char path[MAX_PATH];
    TRY(choose_folder(t));
    for (size_t i = 0; i < sizeof names / sizeof *names + RECORD_FILES; i++) {
        const size_t others = sizeof names / sizeof *names;
        TRY(path_make(path, "%s/%s", t->folder, i < others ? names[i] : record_any_file_name((int)(i - others))));
        if (path_exists(path))
            return refuse_folder(t, path);
    }
    TRY(folder_make(t->folder));
    return options_write(&t->options, t->folder);
}

/* Goes back to the last checkpoint. A run that was killed before its first one goes back to the beginning. A run that
 * has ended without a checkpoint is not begun again, because that would remove its results. */
static int resume(training *t, position *at, int *has_checkpoint)
{
    char learner[MAX_PATH];
    int64_t taken;
    TRY(path_make(learner, "%s/learner.safetensors", t->folder));
    TRY(checkpoint_find(t->folder, &t->record, at, has_checkpoint));
    if (!*has_checkpoint && path_exists(learner))
        return fail("%s is there and no checkpoint: the run has ended before its first one; delete the folder %s to "
                    "begin anew in it, or --out FOLDER begins in another one",
                    learner, t->folder);
    TRY(record_find_last_step(&t->record, &taken));
    taken = taken > at->step ? taken : at->step;
    if (taken > t->options.stored_steps) /* Ape-X may receive more than were asked for */
        taken = t->options.stored_steps;
    if (t->settings.steps < taken)
        return fail("--steps is %" PRId64 "; the run has taken %" PRId64 " steps, and no fewer can be asked for",
                    t->settings.steps, taken);
    if (!*has_checkpoint)
        return 0;
    TRY(checkpoint_load(t->folder, &t->agent, t->options.value[OPTION_REFILL] != NULL));
    t->step = t->saved_step = at->step;
    return 0;
}

static void print_beginning(const training *t, int is_resumed)
{
    if (t->options.value[OPTION_QUIET])
        return;
    if (is_resumed)
        printf("goes on after step %" PRId64 " in %s\n", t->step, t->folder);
    else
        printf("writes to %s\n", t->folder);
    fflush(stdout);
}

static int begin_progress(training *t, double seconds)
{
    const gpur_dqn_config *const learner = &t->settings.learner;
    t->progress = (progress){
        .agent = &t->agent,
        .preset = t->options.value[OPTION_PRESET],
        .record = &t->record,
        .steps = t->settings.steps,
        .prepopulation = t->agent.is_apex ? t->settings.replay.min_size : t->settings.run.prepopulation,
        .eval_episodes = t->settings.all.eval_episodes,
        .target_period = t->settings.system == SYSTEM_APEX_DPG ? t->settings.dpg.target_period : learner->target_period,
        .has_limiter = t->settings.apex.samples_per_insert > 0.0,
        .drawn_entries = learner->returns.cache_size > 0 ? learner->batch_size : 0,
        .first_step = t->step,
        .first_seconds = seconds,
        .has_dpg = t->settings.system == SYSTEM_APEX_DPG,
        .is_quiet = t->options.value[OPTION_QUIET] != NULL};
    return progress_start(&t->progress);
}

/* Everything that can be refused is refused before the first file is written. */
static int begin(training *t)
{
    const char *const resumed = t->options.value[OPTION_RESUME];
    position at = {0};
    int has_checkpoint = 0;
    t->saved_step = -1;
    if (resumed) {
        TRY(path_make(t->folder, "%s", resumed));
        TRY(options_resume(&t->options, resumed));
    }
    TRY(settings_find(&t->settings, &t->options));
    if (resumed && t->settings.checkpoint == 0)
        return fail("--resume is \"%s\", and that run saves no checkpoints: it has --checkpoint 0", resumed);
    t->settings.all.on_event = on_event;
    t->settings.all.user = t;
    apex_find_command(&t->options, t->command);
    t->settings.apex.command = t->settings.has_processes ? t->command : NULL;
    TRY(agent_open(&t->agent, &t->options, &t->settings));
    TRY(settings_decide_math(&t->settings, &t->options, agent_math(&t->agent)));
    listen_to_signals(&t->agent);
    if (!resumed)
        TRY(make_folder(t));
    TRY(record_open(&t->record, t->folder, t->settings.system));
    if (resumed)
        TRY(resume(t, &at, &has_checkpoint));
    TRY(record_begin(&t->record, has_checkpoint ? at.bytes : NULL));
    TRY(config_write(&t->options, &t->settings, t->agent.device, t->folder));
    TRY(options_write(&t->options, t->folder));
    print_beginning(t, resumed != NULL);
    return begin_progress(t, at.seconds);
}

/* The library's words. Where a learner has diverged they name settings of the library, of which the program has one. */
static int fail_by_library(const options *o)
{
    static const char advice[] = "It helps most often";
    const char *const error = gpur_last_error(), *const at = strstr(error, advice);
    if (!at)
        return fail("%s", error);
    return fail("%.*s%s to lower --learning-rate, now %s, or to scale the environment's rewards", (int)(at - error),
                error, advice, o->value[OPTION_LEARNING_RATE]);
}

/* What a call that advances the run returned. */
static int outcome(const training *t, gpur_status status)
{
    if (failure())
        return FAILED;
    if (status == GPUR_INTERRUPTED || (status == GPUR_OK && interrupts))
        return INTERRUPTED;
    return status == GPUR_OK ? 0 : fail_by_library(&t->options);
}

/* A signal that comes while the files are written ends the run when they are complete. */
static int save_checkpoint(training *t)
{
    position at = {.step = t->step, .seconds = progress_seconds(&t->progress)};
    TRY(checkpoint_save(t->folder, &t->agent, &t->record, &at));
    t->saved_step = t->step;
    return outcome(t, GPUR_OK);
}

/* A checkpoint of a run of DQN is between two target periods. */
static int64_t checkpoints_at(const training *t)
{
    return t->settings.system == SYSTEM_RUN ? t->settings.run.target_period : 1;
}

/* Where the next checkpoint is due, and then the end. The last checkpoint is at the last step where there can be one,
 * so that any run can be made longer. */
static int64_t next_stop(const training *t)
{
    const int64_t every = t->settings.checkpoint, steps = t->settings.steps;
    const int64_t last = every > 0 ? steps - steps % checkpoints_at(t) : 0;
    if (t->step >= last)
        return steps;
    const int64_t due = (t->step / every + 1) * every;
    return due < last ? due : last;
}

/* Steps that are taken, and of Ape-X received. */
static int find_step(training *t, int64_t wanted)
{
    gpur_run_stats stats = {.size = sizeof stats};
    t->step = wanted;
    if (t->agent.is_apex) {
        TRY_LIBRARY(gpur_run_get_stats(t->agent.run, &stats));
        t->step = stats.env_steps;
    }
    return 0;
}

/* Ape-X: asks all actors to end, and waits for them. */
static int end_actors(const training *t)
{
    gpur_status status = gpur_apex_set_actors(t->agent.run, 0);
    if (status == GPUR_OK)
        status = gpur_run_advance(t->agent.run, 0, 0);
    if (status == GPUR_INTERRUPTED) /* by the signal before the call: they end soon */
        status = gpur_run_advance(t->agent.run, 0, 0);
    return outcome(t, status);
}

/* Actors of Ape-X end before the last checkpoint, so that it has all that they sent, and their rows. */
static int take_steps(training *t)
{
    while (t->step < t->settings.steps) {
        const int64_t next = next_stop(t);
        TRY(outcome(t, gpur_run_advance(t->agent.run, next - t->step, 0)));
        TRY(find_step(t, next));
        if (t->agent.is_apex && t->step >= t->settings.steps) {
            if (end_actors(t) == FAILED)
                return FAILED;
            TRY(find_step(t, next));
        }
        if (t->settings.checkpoint > 0 && next % checkpoints_at(t) == 0)
            TRY(save_checkpoint(t));
    }
    return 0;
}

/* The last evaluation, unless there was one after the last step. */
static int evaluate(training *t)
{
    gpur_run_stats stats = {.size = sizeof stats};
    TRY_LIBRARY(gpur_run_get_stats(t->agent.run, &stats));
    if (t->settings.all.eval_episodes == 0 || (stats.evaluations > 0 && stats.evaluated_steps == t->step))
        return 0;
    const gpur_status status = gpur_run_evaluate(t->agent.run, 0, 0, NULL);
    return outcome(t, status == GPUR_UNAVAILABLE ? GPUR_OK : status); /* the evaluator died, which was printed */
}

/* The last checkpoint is saved before the last evaluation, so that a run that is made longer has not made it yet. The
 * run is stopped at the end, to get the episodes of a target period that has not ended. */
static int train(training *t)
{
    TRY(take_steps(t));
    TRY(outcome(t, GPUR_OK));
    TRY(evaluate(t));
    if (t->agent.is_apex)
        return 0;
    gpur_run_stop(t->agent.run);
    const gpur_status status = gpur_run_advance(t->agent.run, 0, 0);
    return status == GPUR_INTERRUPTED ? 0 : outcome(t, status);
}

/* The run has ended, or been stopped: nobody trains the learner. */
static int save_learner(training *t)
{
    char path[MAX_PATH];
    if (!can_save_files())
        return 0;
    TRY(path_make(path, "%s/learner.safetensors", t->folder));
    TRY_LIBRARY(agent_save_learner(&t->agent, path));
    return 0;
}

static void print_end(const training *t, int result)
{
    if (t->options.value[OPTION_QUIET])
        return;
    if (!can_save_files())
        printf("the learner was not saved: this build of the library cannot save to files\n");
    if (result == 0)
        printf("done; the files are in %s\n", t->folder);
    else if (t->saved_step >= 0)
        printf("interrupted; gpureplay-train --resume %s goes on after step %" PRId64 "\n", t->folder, t->saved_step);
    else
        printf("interrupted; the files are in %s, and there is no checkpoint to go on from\n", t->folder);
}

static int run(training *t)
{
    int result = begin(t);
    if (result == 0)
        result = train(t);
    if (result == INTERRUPTED && t->agent.is_apex)
        (void)end_actors(t); /* for the rows of their ends */
    progress_stop(&t->progress);
    if (failure())
        result = FAILED; /* of a row that could not be written */
    if ((result == 0 || result == INTERRUPTED) && save_learner(t) != 0)
        result = FAILED;
    if (result == 0 || result == INTERRUPTED)
        print_end(t, result);
    return result;
}

static int was_interrupted(void *user)
{
    (void)user;
    return interrupts > 0;
}

/* A process that acts for the learner of another one. */
static int act(training *t)
{
    if (t->options.value[OPTION_SERVE])
        return apex_serve(&t->options);
    listen_to_signals(NULL);
    return apex_work(&t->options, was_interrupted);
}

int main(int argc, char **argv)
{
    static training t;
    open_missing_streams();
    int result = options_parse(&t.options, argc, argv);
    if (result == 0 && t.options.value[OPTION_HELP])
        options_print_help(stdout);
    else if (result == 0 && t.options.value[OPTION_LIST])
        result = environments_print(t.options.value[OPTION_ENV], t.options.value[OPTION_ENV_OPTIONS], stdout);
    else if (result == 0)
        result = t.options.value[OPTION_SERVE] || t.options.value[OPTION_WORK] ? act(&t) : run(&t);
    if (result == FAILED)
        fprintf(stderr, "gpureplay-train: %s\n", failure());
    atomic_store(&running, NULL);
    agent_close(&t.agent);
    record_close(&t.record);
    options_free(&t.options);
    return result;
}
