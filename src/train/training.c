/* SPDX-License-Identifier: MIT */
/* Trainings, from their options to their end. */
#include "gpureplay/training.h"

#include "base/numbers.h"
#include "base/sized.h"
#include "run/core.h"
#include "train/best.h"
#include "train/checkpoint.h"
#include "train/config_document.h"
#include "train/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct gpur_training {
    gpur_training_config config; /* pointers to texts are memory of the training */
    gpur_options options;
    gpur_train_settings settings;
    const gpur_train_system *system;
    gpur_train_handles handles;
    gpur_record record;
    gpur_progress progress;
    gpur_best best;
    char folder[GPUR_MAX_PATH]; /* "": none */
    char **command;
    gpur_text summary, document;
    int is_adopted;                  /* 1: the handles are the caller's */
    int64_t step;                    /* environment steps taken */
    int64_t saved_step;              /* those after which it can be resumed; -1: it cannot */
    _Atomic int has_failed, failure; /* 1: a row could not be written; its status, once `error` is there */
    char error[1024];
    _Atomic int is_stopping, is_ending; /* after a checkpoint; at once */
    _Atomic int is_evaluating;          /* 1: at the end */
};

static const char learner_name[] = "learner.safetensors";

static const gpur_training_config defaults = {.size = sizeof(gpur_training_config)};

gpur_status gpur_training_config_init(gpur_training_config *config, uint64_t size)
{
    return gpur_sized_init(config, size, &defaults, sizeof defaults, "gpur_training_config");
}

/* Making it. */

static gpur_status read_options(gpur_training *t, const char *const *options)
{
    char name[64];
    for (; options && *options; options++) {
        const char *const equals = strchr(*options, '=');
        const size_t length = equals ? (size_t)(equals - *options) : 0;
        GPUR_REQUIRE(equals && length < sizeof name, "option \"%s\" is no \"name=value\"", *options);
        snprintf(name, sizeof name, "%.*s", (int)length, *options);
        GPUR_TRY(gpur_options_add(&t->options, name, equals + 1));
    }
    return GPUR_OK;
}

/* Options that decide the format of blocks and the network, which an actor's process must know. */
static gpur_status copy_command(gpur_training *t)
{
    static const char *const passed[] = {"env",      "env_options", "preset",           "batch",
                                         "capacity", "frame_stack", "second_activation"};
    const char *const *const given = t->config.command;
    int32_t words = 0;
    while (given[words])
        words++;
    t->command = calloc((size_t)words + sizeof passed / sizeof *passed + 1, sizeof *t->command);
    int is_whole = t->command != NULL;
    for (int32_t i = 0; is_whole && i < words; i++)
        is_whole = (t->command[i] = strdup(given[i])) != NULL;
    for (size_t i = 0; is_whole && i < sizeof passed / sizeof *passed; i++) {
        const gpur_option *const option = gpur_option_find(passed[i], t->options.system);
        gpur_text word = {0};
        if (!option || !gpur_option_applies(option, &t->settings))
            continue;
        gpur_text_add(&word, "%s=", passed[i]);
        gpur_option_add_value(option, &t->settings, &word);
        t->command[words++] = word.memory;
        is_whole = gpur_text_is_whole(&word);
    }
    t->settings.apex.command = (const char *const *)t->command;
    return is_whole ? GPUR_OK : gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for the command of actors");
}

/* The row of an event, and the weights of an evaluation that is the best so far. */
static gpur_status write_event(gpur_training *t, const gpur_run_event *event)
{
    GPUR_TRY(gpur_record_add_event(&t->record, event));
    if (event->kind != GPUR_RUN_EVALUATION || !t->folder[0] || !gpur_can_save_files())
        return GPUR_OK;
    return gpur_best_note(t->folder, event, &t->best);
}

/* What cannot be written stops the run, which returns the first error. In the thread of the run, or of who looks. */
static void fail_run(gpur_training *t, gpur_status status)
{
    if (!atomic_exchange(&t->has_failed, 1)) {
        snprintf(t->error, sizeof t->error, "%s", gpur_last_error());
        atomic_store(&t->failure, (int)status);
    }
    gpur_run_stop(t->handles.run);
}

/* The files that follow an event, and the caller's function. */
static void note_event(void *user, const gpur_run_event *event)
{
    gpur_training *const t = user;
    char line[1200];
    if (!atomic_load(&t->has_failed) && write_event(t, event) != GPUR_OK)
        fail_run(t, GPUR_FILE_ERROR);
    if (event->kind == GPUR_RUN_ENDED && !event->asked) {
        if (event->env_index == GPUR_APEX_EVALUATOR)
            snprintf(line, sizeof line, "the actor that evaluates ended: %s", event->error);
        else
            snprintf(line, sizeof line, "actor %d ended: %s", (int)event->env_index, event->error);
        t->config.say(t->config.user, GPUR_SAY_WARNING, line);
    }
    if (t->config.on_event)
        t->config.on_event(t->config.user, event);
}

/* "runs/MinAtar-Breakout-1" where the caller leaves the choice. */
static gpur_status choose_folder(gpur_training *t)
{
    char name[GPUR_MAX_PATH];
    const char *const given = t->config.resume ? t->config.resume : t->config.out;
    if (!given || *given)
        return gpur_path_make(t->folder, "%s", given ? given : "");
    GPUR_TRY(gpur_train_name(&t->settings, name));
    GPUR_TRY(gpur_path_make(t->folder, "runs/%s-%" PRId64, name, t->settings.seed));
    for (char *c = t->folder + strlen("runs/"); *c; c++)
        if (strchr("/ \\:", *c))
            *c = '-';
    return GPUR_OK;
}

static gpur_status check_folders(const gpur_training *t)
{
    const gpur_training_config *const c = &t->config;
    if (c->out && c->resume)
        return gpur_refuse(&t->options,
                           "{out} is \"%s\" and {resume} is \"%s\"; a run that is resumed stays in its folder, so only "
                           "one of the two may be given",
                           c->out, c->resume);
    if (c->resume && !*c->resume)
        return gpur_refuse(&t->options, "{resume} is empty; it must be the folder of a run");
    if (c->refill && !c->resume)
        return gpur_refuse(&t->options, "{refill} is given and {resume} is missing; it must be the folder of a run");
    return GPUR_OK;
}

/* From a checkpoint, or again from the beginning if it was killed, or still runs, before its first one. */
static int can_go_on(const gpur_training *t)
{
    gpur_text options = {0};
    if (gpur_train_checkpoint_exists(t->folder) || gpur_file_exists(t->folder, learner_name))
        return gpur_train_checkpoint_exists(t->folder);
    const int has_options = gpur_text_file_read(t->folder, "options.txt", &options) == GPUR_OK;
    const int can = has_options && !strstr(gpur_text_of(&options), "--checkpoint 0\n");
    gpur_text_free(&options);
    return can;
}

/* Going on is advised where it works. */
static gpur_status refuse_folder(const gpur_training *t, const char *name)
{
    const char *const quote = t->options.style == GPUR_OPTIONS_OF_KEYWORDS ? "'" : "";
    if (!can_go_on(t))
        return gpur_refuse(&t->options,
                           "%s/%s is there already, of a run without a checkpoint to go on from; delete the folder %s "
                           "to begin anew in it, or another {out} begins in another one",
                           t->folder, name, t->folder);
    return gpur_refuse(&t->options,
                       "%s/%s is there already; {resume=}%s%s%s goes on with the run of this folder, another {out} "
                       "begins one in another folder",
                       t->folder, name, quote, t->folder, quote);
}

/* Refuses a folder that already has a file that a training writes. */
static gpur_status check_new_folder(const gpur_training *t)
{
    const char *const names[] = {"options.txt", "config.json", learner_name, gpur_best_name, "checkpoint"};
    const int others = sizeof names / sizeof *names;
    for (int i = 0; i < others + GPUR_RECORD_FILES; i++) {
        const char *const name = i < others ? names[i] : gpur_record_file_name(NULL, i - others);
        if (gpur_file_exists(t->folder, name))
            return refuse_folder(t, name);
    }
    return GPUR_OK;
}

static void say_nothing(void *user, int32_t kind, const char *line)
{
    (void)user;
    (void)kind;
    (void)line;
}

static gpur_status configure(gpur_training *t)
{
    const gpur_training_config *const c = &t->config;
    t->options.style = c->style;
    t->options.overrides = c->overrides;
    t->config.say = c->say ? c->say : say_nothing;
    GPUR_TRY(check_folders(t));
    GPUR_TRY(read_options(t, c->options));
    if (c->resume)
        GPUR_TRY(gpur_options_resume(&t->options, c->resume));
    t->settings.env.type = c->type;
    t->settings.env.vector = c->vector;
    t->settings.given = c->replay;
    GPUR_TRY(gpur_train_find_settings(&t->options, &t->settings));
    t->system = gpur_train_system_of(t->options.system);
    if (c->refill && !t->system->has_actors)
        return gpur_refuse(&t->options,
                           "{refill} is given and {preset} is %s; only a run of Ape-X fills its replay again",
                           t->settings.preset);
    if (c->resume && t->settings.checkpoint == 0 && !c->begins_again)
        return gpur_refuse(&t->options, "{resume} is \"%s\", and that run saves no checkpoints: it has {checkpoint} 0",
                           c->resume);
    GPUR_TRY(choose_folder(t));
    t->config.resume = c->resume ? t->folder : NULL; /* the caller's text may go */
    t->settings.all.on_event = note_event;
    t->settings.all.user = t;
    if (c->command && t->settings.processes)
        GPUR_TRY(copy_command(t));
    return t->folder[0] && !c->resume ? check_new_folder(t) : GPUR_OK;
}

gpur_status gpur_training_create(const gpur_training_config *given, gpur_training **training)
{
    GPUR_REQUIRE(training, "training is NULL");
    *training = NULL;
    gpur_training *const t = calloc(1, sizeof *t);
    if (!t)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for a training");
    t->config = defaults;
    t->saved_step = -1;
    gpur_status status = gpur_sized_read(&t->config, sizeof t->config, given, "gpur_training_config");
    if (status == GPUR_OK)
        status = configure(t);
    if (status == GPUR_OK)
        *training = t;
    else
        gpur_training_destroy(t);
    return status;
}

static void close_handles(gpur_train_handles *h)
{
    gpur_run_destroy(h->run);
    gpur_learner_destroy(h->learner);
    gpur_replay_destroy(h->replay);
    gpur_replay_destroy(h->demonstrations);
    gpur_device_close(h->device);
    *h = (gpur_train_handles){0};
}

void gpur_training_destroy(gpur_training *t)
{
    if (!t)
        return;
    if (!t->is_adopted)
        close_handles(&t->handles);
    gpur_record_close(&t->record);
    gpur_text_free(&t->summary);
    gpur_text_free(&t->document);
    for (char **word = t->command; word && *word; word++)
        free(*word);
    free(t->command);
    gpur_options_free(&t->options);
    free(t);
}

/* Opening it. */

static void warn(void *user, const char *line)
{
    const gpur_training *const t = user;
    t->config.say(t->config.user, GPUR_SAY_WARNING, line);
}

/* Says what will run, before the replay takes its memory, which may take long, or be more than there is. */
static gpur_status say_what(const gpur_training *t)
{
    char line[1024], name[GPUR_MAX_PATH];
    const gpur_train_settings *const s = &t->settings;
    gpur_device_info info = {.size = sizeof info};
    const char *const where = !t->system->has_actors      ? ""
                              : s->apex.remote_actors > 0 ? " elsewhere"
                              : s->processes              ? " in processes"
                                                          : " in threads";
    const int64_t count =
        t->system->find_rows ? s->rows.rows : *(const int32_t *)gpur_train_member(s, t->system->count);
    GPUR_TRY(gpur_device_get_info(t->handles.device, &info));
    GPUR_TRY(gpur_train_name(s, name));
    snprintf(line, sizeof line, "%.256s, %" PRId64 "%s%s, by %s on %s: %s", name, count, t->system->lanes, where,
             s->preset, info.name, info.description);
    t->config.say(t->config.user, GPUR_SAY_INFO, line);
    return GPUR_OK;
}

/* What replay, learner or run have refused is said of their members, of which options have the names. */
static gpur_status refuse_members(const gpur_training *t)
{
    gpur_text text = {0};
    for (const char *at = gpur_last_error(); *at;) {
        const size_t length = strspn(at, "abcdefghijklmnopqrstuvwxyz_");
        char name[64] = "";
        if (strncmp(at, "returns.", 8) == 0 || strncmp(at, "optimizer.", 10) == 0) { /* whose members are options */
            at += strcspn(at, ".") + 1;
            continue;
        }
        if (length < sizeof name && strncmp(at + length, " is ", strlen(" is ")) == 0)
            memcpy(name, at, length);
        if (t->system->period && strcmp(name, "target_period") == 0) {
            gpur_text_add(&text, "{%s}", t->system->period);
            at += length;
            continue;
        }
        gpur_text_add(&text, gpur_option_find(name, t->options.system) ? "{%.*s}" : "%.*s", (int)length, at);
        at += length;
        gpur_text_add(&text, "%.*s", *at != '\0', at);
        at += *at != '\0';
    }
    const gpur_status status = gpur_refuse(&t->options, "%s", gpur_text_of(&text));
    gpur_text_free(&text);
    return status;
}

static gpur_status open_on(gpur_training *t, const char *device_name)
{
    gpur_device_config config;
    GPUR_TRY(gpur_device_config_init(&config, sizeof config));
    config.threads = t->settings.threads;
    config.deterministic = t->settings.deterministic;
    config.log = warn;
    config.log_user = t;
    GPUR_TRY(gpur_device_open(device_name, &config, &t->handles.device));
    t->settings.processes = t->settings.apex.command != NULL; /* without a command actors are threads */
    GPUR_TRY(say_what(t));
    const gpur_status status = t->system->open(&t->settings, &t->handles);
    return status == GPUR_INVALID_ARGUMENT ? refuse_members(t) : status;
}

/* What "auto" is, as the objects have decided it. A run that is resumed keeps its arithmetic. */
static void settle(gpur_training *t)
{
    gpur_replay_config *const replay = &t->settings.replay;
    int32_t *const source = gpur_train_member(&t->settings, t->system->source);
    *(int32_t *)gpur_train_member(&t->settings, t->system->math) = gpur_learner_math(t->handles.learner);
    if (replay->index_source == GPUR_SOURCE_AUTO)
        replay->index_source = replay->prioritized ? GPUR_PRIORITIZED_STRATIFIED : GPUR_UNIFORM;
    if (t->system->source && *source == GPUR_SOURCE_AUTO)
        *source = replay->index_source;
}

gpur_status gpur_training_open(gpur_training *t)
{
    const char *const device = t->settings.device;
    GPUR_REQUIRE(!t->settings.given,
                 "the training has a replay of the caller's, who then makes the other objects, too");
    gpur_status status = open_on(t, device);
    if (status == GPUR_UNAVAILABLE && strcmp(device, "auto") == 0) {
        warn(t, gpur_last_error());
        warn(t, "using the CPU");
        close_handles(&t->handles);
        status = open_on(t, "cpu");
    }
    if (status == GPUR_OK)
        settle(t);
    return status;
}

gpur_status gpur_training_get_settings(gpur_training *t, gpur_training_settings *out)
{
    gpur_train_settings *const s = &t->settings;
    const gpur_training_settings settings = {
        .size = sizeof settings,
        .system = t->options.system,
        .threads = s->threads,
        .deterministic = s->deterministic,
        .processes = s->processes,
        .preset = s->preset,
        .device = s->device,
        .demonstrations = s->demonstrations,
        .run = &s->all,
        .fast_dqn = &s->fast_dqn,
        .apex = &s->apex,
        .ga3c = &s->ga3c,
        .replay = &s->replay,
        .dqn = &s->dqn,
        .dpg = &s->dpg,
        .sac = &s->sac,
        .actor_critic = &s->actor_critic,
    };
    return gpur_sized_write(out, &settings, sizeof settings, "gpur_training_settings");
}

gpur_status gpur_training_adopt_device(gpur_training *t, gpur_device *device)
{
    GPUR_REQUIRE(device, "device is NULL");
    GPUR_REQUIRE(!t->handles.learner, "the training has its device already");
    t->is_adopted = 1;
    t->handles.device = device;
    return say_what(t);
}

gpur_status gpur_training_fill(gpur_training *t, gpur_replay *replay)
{
    GPUR_REQUIRE(replay, "replay is NULL");
    GPUR_REQUIRE(t->system->find_rows, "the preset is %s; only offline trainings have rows", t->settings.preset);
    const gpur_status status = gpur_train_fill(&t->settings, replay);
    return status == GPUR_INVALID_ARGUMENT ? refuse_members(t) : status;
}

gpur_status gpur_training_adopt(gpur_training *t, gpur_replay *replay, gpur_learner *learner, gpur_run *run)
{
    GPUR_REQUIRE(learner && run, "%s is NULL", learner ? "run" : "learner");
    GPUR_REQUIRE(t->is_adopted, "the training has no device; it must be adopted before the run");
    t->handles.replay = replay;
    t->handles.learner = learner;
    t->handles.run = run;
    settle(t);
    return GPUR_OK;
}

/* The folder. */

/* Goes back to the last checkpoint. A run that was killed before its first one goes back to the beginning. A run that
 * has ended without a checkpoint is not begun again, because that would remove its results. */
static gpur_status resume(gpur_training *t, gpur_position *at, int *has_checkpoint)
{
    int64_t taken;
    GPUR_TRY(gpur_train_checkpoint_find(t->folder, &t->record, at, has_checkpoint));
    if (!*has_checkpoint && gpur_file_exists(t->folder, learner_name))
        return gpur_refuse(&t->options,
                           "%s/%s is there and no checkpoint: the run has ended before its first one; delete the "
                           "folder %s to begin anew in it, or another {out} begins in another one",
                           t->folder, learner_name, t->folder);
    GPUR_TRY(gpur_record_find_last_step(&t->record, &taken));
    /* Ape-X may receive more steps than were asked for. */
    taken = gpur_min(gpur_max(taken, at->step), t->options.stored_steps);
    if (t->settings.steps < taken)
        return gpur_refuse(&t->options,
                           "{steps} is %" PRId64 "; the run has taken %" PRId64 " steps, and no fewer can be asked for",
                           t->settings.steps, taken);
    if (!*has_checkpoint)
        return gpur_file_remove(t->folder, gpur_best_name);
    GPUR_TRY(gpur_train_checkpoint_load(t->folder, t->handles.run, t->config.refill));
    GPUR_TRY(gpur_best_read(t->folder, &t->best));
    t->step = t->saved_step = at->step;
    return GPUR_OK;
}

static gpur_status begin_folder(gpur_training *t, gpur_position *at)
{
    int has_checkpoint = 0;
    gpur_row columns;
    if (t->folder[0] && !t->config.resume) { /* the options come first, so that a run that is killed can be resumed */
        GPUR_TRY(check_new_folder(t));
        GPUR_TRY(gpur_folders_make(t->folder));
        GPUR_TRY(gpur_options_write(&t->options, &t->settings, t->folder));
    }
    t->record.on_row = t->config.on_row;
    t->record.user = t->config.user;
    GPUR_TRY(gpur_record_open(&t->record, t->folder[0] ? t->folder : NULL, t->system));
    if (t->config.resume)
        GPUR_TRY(resume(t, at, &has_checkpoint));
    gpur_progress_fill_columns(&t->progress, &columns);
    GPUR_TRY(gpur_record_begin(&t->record, has_checkpoint ? at->bytes : NULL, &columns));
    GPUR_TRY(gpur_config_document_make(&t->config, &t->options, &t->settings, t->handles.device, &t->document));
    if (!t->folder[0])
        return GPUR_OK;
    GPUR_TRY(gpur_text_file_write(t->folder, "config.json", &t->document));
    return gpur_options_write(&t->options, &t->settings, t->folder);
}

static void say_beginning(const gpur_training *t)
{
    char line[GPUR_MAX_PATH + 64];
    if (t->config.resume)
        snprintf(line, sizeof line, "goes on after step %" PRId64 " in %s", t->step, t->folder);
    else
        snprintf(line, sizeof line, "writes to %s", t->folder);
    if (t->folder[0])
        t->config.say(t->config.user, GPUR_SAY_INFO, line);
}

gpur_status gpur_training_begin(gpur_training *t)
{
    gpur_position at = {0};
    t->progress = (gpur_progress){.record = &t->record,
                                  .system = t->system,
                                  .settings = &t->settings,
                                  .handles = &t->handles,
                                  .say = t->config.say,
                                  .user = t->config.user};
    GPUR_TRY(begin_folder(t, &at));
    t->progress.first_seconds = at.seconds;
    GPUR_TRY(gpur_progress_begin(&t->progress));
    say_beginning(t);
    return GPUR_OK;
}

const char *gpur_training_document(gpur_training *t)
{
    return gpur_text_is_whole(&t->document) ? t->document.memory : NULL;
}

const char *gpur_training_folder(const gpur_training *t)
{
    return t->folder;
}

int64_t gpur_training_step(const gpur_training *t)
{
    return t->step;
}

int64_t gpur_training_saved_step(const gpur_training *t)
{
    return t->saved_step;
}

/* Training. */

static int has_checkpoints(const gpur_training *t)
{
    return t->folder[0] && t->settings.checkpoint > 0;
}

/* Once at once: what actors of Ape-X still send then is taken by one more call of the run. */
void gpur_training_stop(gpur_training *t, int32_t at_once)
{
    const int is_last = at_once || !has_checkpoints(t);
    if (atomic_exchange(is_last ? &t->is_ending : &t->is_stopping, 1) || !t->handles.run)
        return;
    if (is_last || atomic_load(&t->is_evaluating))
        gpur_run_stop(t->handles.run);
    else
        gpur_run_end_soon(t->handles.run);
}

/* Where the next checkpoint is due, and then the end. The last checkpoint is at the last step where there can be one,
 * so that any run can be made longer. */
static int64_t next_stop(const gpur_training *t)
{
    const int64_t every = t->settings.checkpoint, steps = t->settings.steps;
    const int64_t last = has_checkpoints(t) ? steps - steps % t->settings.granule : 0;
    if (t->step >= last)
        return steps;
    return gpur_min(last, (t->step / every + 1) * every);
}

/* Of Ape-X the steps that were received. */
static gpur_status find_step(gpur_training *t)
{
    gpur_run_stats stats = {.size = sizeof stats};
    GPUR_TRY(gpur_run_get_stats(t->handles.run, &stats));
    t->step = stats.env_steps;
    return GPUR_OK;
}

/* Ape-X: asks all actors to end, and waits for them. */
static gpur_status end_actors(gpur_training *t)
{
    GPUR_TRY(gpur_apex_set_actors(t->handles.run, 0));
    const gpur_status status = gpur_run_advance(t->handles.run, 0, 0);
    return status == GPUR_INTERRUPTED ? gpur_run_advance(t->handles.run, 0, 0) : status;
}

static gpur_status save_checkpoint(gpur_training *t)
{
    gpur_position at = {.step = t->step, .seconds = gpur_progress_seconds(&t->progress)};
    GPUR_TRY(gpur_train_checkpoint_save(t->folder, t->handles.run, &t->record, &at));
    t->saved_step = t->step;
    return GPUR_OK;
}

static gpur_status stopped(const gpur_training *t)
{
    return gpur_fail(GPUR_INTERRUPTED, "the training was stopped after %" PRId64 " steps", t->step);
}

/* Also after a call of the run that was at its end when it was asked for. */
static gpur_status check_end(const gpur_training *t)
{
    if (atomic_load(&t->is_ending))
        return stopped(t);
    return GPUR_OK;
}

/* Takes the steps to the next stop, or, when the training is to stop, to where a checkpoint can be taken. */
static gpur_status take_steps(gpur_training *t)
{
    GPUR_TRY(check_end(t));
    const gpur_status status = gpur_run_advance(t->handles.run, next_stop(t) - t->step, 0);
    if (status != GPUR_OK && !(status == GPUR_INTERRUPTED && atomic_load(&t->is_stopping)))
        return status;
    GPUR_TRY(find_step(t));
    return check_end(t);
}

/* Ape-X ends its actors before it saves the last checkpoint, which then has everything that they sent. A run that is
 * stopped before its first step needs no checkpoint to go on. */
static gpur_status take_all_steps(gpur_training *t)
{
    int is_last = t->step >= t->settings.steps || atomic_load(&t->is_stopping);
    if (is_last && t->step == 0 && has_checkpoints(t))
        t->saved_step = 0;
    while (!is_last) {
        GPUR_TRY(take_steps(t));
        is_last = t->step >= t->settings.steps || atomic_load(&t->is_stopping);
        if (is_last && t->system->has_actors) {
            GPUR_TRY(end_actors(t));
            GPUR_TRY(find_step(t));
        }
        if (has_checkpoints(t) && t->step % t->settings.granule == 0)
            GPUR_TRY(save_checkpoint(t));
    }
    return GPUR_OK;
}

/* The last evaluation, unless there was one after the last step. */
static gpur_status evaluate(gpur_training *t)
{
    gpur_run_stats stats = {.size = sizeof stats};
    GPUR_TRY(gpur_run_get_stats(t->handles.run, &stats));
    if (t->settings.all.eval_episodes == 0 || (stats.evaluations > 0 && stats.evaluated_steps == t->step))
        return GPUR_OK;
    atomic_store(&t->is_evaluating, 1);
    if (atomic_load(&t->is_stopping)) /* by a call that did not know of this evaluation yet */
        return stopped(t);
    const gpur_status status = gpur_run_evaluate(t->handles.run, 0, 0, NULL);
    if (status != GPUR_OK && status != GPUR_UNAVAILABLE) /* the evaluator died, which was said */
        return status;
    return check_end(t);
}

/* The last checkpoint is saved before the last evaluation, so that a run that is made longer has not made it yet. Then
 * the run is stopped, to get the episodes of a target period that has not ended. */
static gpur_status train(gpur_training *t)
{
    const gpur_status taken = take_all_steps(t);
    if (taken == GPUR_INTERRUPTED && t->system->has_actors) {
        (void)end_actors(t); /* for their rows */
        return stopped(t);
    }
    GPUR_TRY(taken);
    GPUR_TRY(check_end(t));
    if (atomic_load(&t->is_stopping))
        return stopped(t);
    GPUR_TRY(evaluate(t));
    if (t->system->has_actors)
        return GPUR_OK;
    gpur_run_stop(t->handles.run);
    const gpur_status status = gpur_run_advance(t->handles.run, 0, 0);
    return status == GPUR_INTERRUPTED ? GPUR_OK : status;
}

/* The library's words on a learner that has diverged name settings of which the program has one. */
static gpur_status explain(const gpur_training *t, gpur_status status)
{
    static const char advice[] = "It helps most often";
    char error[1024];
    gpur_text rate = {0};
    snprintf(error, sizeof error, "%s", gpur_last_error());
    const char *const at = strstr(error, advice);
    if (status == GPUR_OK || !at || t->options.style == GPUR_OPTIONS_OF_KEYWORDS)
        return status;
    gpur_option_add_value(gpur_option_find("learning_rate", t->options.system), &t->settings, &rate);
    (void)gpur_refuse(&t->options, "%.*s%s to lower {learning_rate}, now %s, or to scale the environment's rewards",
                      (int)(at - error), error, advice, rate.memory);
    gpur_text_free(&rate);
    return status;
}

gpur_status gpur_training_advance(gpur_training *t)
{
    const gpur_run *const run = t->handles.run;
    gpur_status status = train(t);
    const gpur_status failure = (gpur_status)atomic_load(&t->failure);
    if (status != GPUR_OK && status != GPUR_INTERRUPTED && gpur_run_has_failed(t->handles.run)) /* between two calls */
        status = gpur_fail(run->status, "%s", run->error);
    return failure == GPUR_OK ? explain(t, status) : gpur_fail(failure, "%s", t->error);
}

gpur_status gpur_training_look(gpur_training *t, char *line, int64_t bytes)
{
    gpur_text text = {0};
    gpur_status status = gpur_progress_look(&t->progress, 0);
    if (status != GPUR_OK)
        fail_run(t, status);
    if (status == GPUR_OK && line && bytes > 0) {
        status = gpur_progress_add_line(&t->progress, atomic_load(&t->is_stopping), &text);
        snprintf(line, (size_t)bytes, "%s", gpur_text_of(&text));
    }
    gpur_text_free(&text);
    return status;
}

gpur_status gpur_training_finish(gpur_training *t)
{
    char path[GPUR_MAX_PATH];
    GPUR_TRY(find_step(t)); /* the run may have been stopped at once */
    GPUR_TRY(gpur_progress_look(&t->progress, 1));
    GPUR_TRY(gpur_progress_add_summary(&t->progress, &t->summary));
    if (!t->folder[0] || !gpur_can_save_files() || t->step == 0)
        return GPUR_OK;
    GPUR_TRY(gpur_path_make(path, "%s/%s", t->folder, learner_name));
    return gpur_learner_save(t->handles.learner, path, NULL);
}

const char *gpur_training_summary(gpur_training *t)
{
    return gpur_text_of(&t->summary);
}

/* Actors elsewhere. */

static gpur_apex_networks networks_of(const gpur_training *t)
{
    const size_t critic = t->system->critic;
    return (gpur_apex_networks){.size = sizeof(gpur_apex_networks),
                                .acting = gpur_train_member(&t->settings, t->system->acting),
                                .critic = critic ? gpur_train_member(&t->settings, critic) : NULL,
                                .critics =
                                    critic ? *(const int32_t *)gpur_train_member(&t->settings, t->system->critics) : 0};
}

gpur_status gpur_training_serve(gpur_training *t, int32_t connection)
{
    const gpur_apex_networks networks = networks_of(t);
    return gpur_apex_serve(connection, &t->settings.all, &t->settings.replay, &networks, 1);
}

gpur_status gpur_training_work(gpur_training *t, int32_t actor, int (*stop)(void *user))
{
    const gpur_apex_networks networks = networks_of(t);
    if (!t->system->has_actors || !t->settings.apex.folder)
        return gpur_refuse(&t->options, "remote actor %d has %s; it needs a {preset} of Ape-X, and {folder}",
                           (int)actor,
                           t->system->has_actors ? "{folder} missing" : "a {preset} that is not one of Ape-X");
    return gpur_apex_work(&t->settings.all, &t->settings.apex, actor, &t->settings.replay, &networks,
                          t->settings.threads, stop, t->config.user);
}
