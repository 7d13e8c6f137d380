/* SPDX-License-Identifier: MIT */
/*
 * Whole trainings: a preset and options by name become a device, a replay, a learner and a run, which writes its record
 * and its checkpoints to a folder, and goes on from it. gpureplay-train is such a program:
 *
 *     const char *const options[] = {"env=CartPole-v1", "steps=200000", NULL};
 *     gpur_training_config config;
 *     gpur_training_config_init(&config, sizeof config);
 *     config.options = options;
 *     config.out = "runs/pole";
 *     gpur_training_create(&config, &training);   // refuses what it can refuse; nothing is written
 *     gpur_training_open(training);               // the device, the replay's memory, the environments
 *     gpur_training_begin(training);              // the folder, or the checkpoint of the run that is resumed
 *     gpur_training_advance(training);            // trains to the end, or until gpur_training_stop
 *     gpur_training_finish(training);             // the last rows, and the learner
 *     gpur_training_destroy(training);
 *
 * A program that makes the objects itself, in another language, say, calls in place of gpur_training_open:
 *
 *     gpur_training_get_settings(training, &settings);          // with which it makes them
 *     gpur_training_adopt_device(training, device);
 *     gpur_training_fill(training, replay);                     // of an offline training, before the learner is made
 *     gpur_training_adopt(training, replay, learner, run);
 *
 * docs/training.md has the options of each preset and the files of a folder. One thread makes these calls. Any thread
 * may call gpur_training_stop and gpur_training_look meanwhile.
 */
#ifndef GPUREPLAY_TRAINING_H
#define GPUREPLAY_TRAINING_H

#include "gpureplay/run_handle.h"
#include "gpureplay/fast_dqn.h"
#include "gpureplay/ga3c.h"
#include "gpureplay/apex.h"
#include "gpureplay/offline.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A training: its settings, and from gpur_training_open on its device, replay, learner and run. Where a function takes
 * one, it must not be NULL, except in gpur_training_destroy. */
typedef struct gpur_training gpur_training;

/* How messages write options: --num-envs 8, or num_envs=8. */
enum { GPUR_OPTIONS_OF_PROGRAM = 0, GPUR_OPTIONS_OF_KEYWORDS = 1 };

/* What `say` gets: a line of information, or a warning. */
enum { GPUR_SAY_INFO = 0, GPUR_SAY_WARNING = 1 };

/* What gpur_training_create takes: the options, and what a program has beside them. gpur_training_config_init sets the
 * defaults. */
typedef struct gpur_training_config {
    uint64_t size;              /* sizeof(gpur_training_config), as the caller was compiled */
    const char *const *options; /* "name=value", ended by NULL; names have "_" between words. Copied */
    int32_t style;              /* GPUR_OPTIONS_*; default OF_PROGRAM */
    int32_t refill;             /* of Ape-X, with `resume`: 1: the replay stays empty, and actors fill it again */
    const char *out;            /* the folder of a new run; "": runs/ENV-SEED; NULL, the default: nothing is written.
                                      Copied */
    const char *resume;         /* the folder of a run that goes on, with its options; those that are given must be
                                      the same, but for steps, which may be more, and env, where a plug-in has moved.
                                      NULL, the default: a new run. Copied */
    const gpur_env_type *type;  /* the environment's, in place of that of the option env, which the files then have
                                      as it is. NULL, the default: that option's */
    const gpur_vector_env_type *vector; /* trains in place of `type`, which then plays the evaluations. NULL, the
                                              default: the option's, if it steps all at once */
    const char *const *command; /* of Ape-X with processes=1: words that start an actor, ended by NULL, followed by
                                      the options that it must know. NULL, the default: actors are threads. Copied */
    void (*on_event)(void *user, const gpur_run_event *event); /* NULL, the default: not called */

    /* Gets each row of the record: of kind "episode", "evaluation", "rates", "actor" or "tuner", with the names of its
     * columns, and for each a number (NaN: none) or, where it is not NULL, a word. In the thread that advances or that
     * looks. Before, in gpur_training_begin, it gets the columns of each kind, with `values` NULL. NULL, the default:
     * not called. */
    void (*on_row)(void *user, const char *kind, int32_t columns, const char *const *names, const double *values,
                   const char *const *words);

    /* Gets a line to show: what will run, where it writes, and advice (GPUR_SAY_INFO), or a warning (GPUR_SAY_WARNING),
     * such as of an actor that has ended. Any thread. NULL, the default: not called. */
    void (*say)(void *user, int32_t kind, const char *line);
    void *user; /* given to these functions */

    /* The name of the calling program, for config.json. NULL, the default: gpureplay-train. This text and those of the
     * next two members are not copied: they must stay as they are until the training is destroyed. */
    const char *program;
    const char *const *overrides; /* lines of options.txt with settings of objects that the caller makes, as "agent
                                        {...}", ended by NULL. NULL, the default: a run that has any is refused */
    const char *const *document;  /* "name json", or "environment.name json", ended by NULL: more members of
                                        config.json. NULL, the default: none */
    int32_t begins_again; /* with `resume`: 1: a run that saves no checkpoints begins again; 0, the default: it is
                                refused */
    gpur_replay *replay;  /* of an offline training: has the rows, in place of the file of the option data, and is
                                adopted. NULL, the default: the option's */
} gpur_training_config;

/* Sets every member to its default. `size` is sizeof(gpur_training_config). Any thread. GPUR_INVALID_ARGUMENT: NULL, or
 * a size below 8 or above 65,536. */
GPUR_API gpur_status gpur_training_config_init(gpur_training_config *config, uint64_t size);

/* Finds the environment, the preset and all settings. Nothing is written. GPUR_INVALID_ARGUMENT: an option that is
 * unknown, given twice, out of its range, of another system, or that does not go with others; a folder for a new run
 * that has files of one. GPUR_FILE_ERROR: the folder to resume cannot be read. */
GPUR_API gpur_status gpur_training_create(const gpur_training_config *config, gpur_training **training);
/* Destroys the training and what it has opened; what it has taken stays the caller's. NULL does nothing. */
GPUR_API void gpur_training_destroy(gpur_training *training);

/* Opens the device that the options name, and creates on it replay, learner and run. Where the device is "auto" and the
 * GPU can have no learner, because cuBLAS is missing, it opens the CPU, and says so. Errors are those of the functions
 * that create these objects. GPUR_INVALID_ARGUMENT: also with config->replay, beside which the caller makes the other
 * objects. */
GPUR_API gpur_status gpur_training_open(gpur_training *training);

/* The settings of a training. What the pointers point to belongs to it, and may be changed until gpur_training_begin:
 * config.json is written of them then. Members of other systems are not set. */
typedef struct gpur_training_settings {
    uint64_t size;                  /* sizeof(gpur_training_settings), as the caller was compiled */
    int32_t system;                 /* GPUR_PRESET_* */
    int32_t threads, deterministic; /* of the device */
    int32_t processes;              /* 1: the actors of Ape-X are processes, whose command the caller sets */
    const char *preset, *device;
    gpur_run_config *run; /* with the training's on_event and user, which the run must get */
    gpur_fast_dqn_config *fast_dqn;
    gpur_apex_config *apex;
    gpur_ga3c_config *ga3c;
    gpur_replay_config *replay;
    gpur_dqn_config *dqn;
    gpur_dpg_config *dpg;
    gpur_actor_critic_config *actor_critic;
    const char *demonstrations; /* the file of a replay, which the caller loads into one for the learner; NULL: none */
    gpur_sac_config *sac;
} gpur_training_settings;

/*
 * Reads the settings; `size` is set by the caller. GPUR_INVALID_ARGUMENT: NULL, or `settings->size` was not set.
 *
 *     gpur_training_settings settings = {.size = sizeof settings};
 *     gpur_training_get_settings(training, &settings);
 *     printf("%s on %s: a replay of %" PRId64 " transitions\n", settings.preset, settings.device,
 *            settings.replay->capacity);
 */
GPUR_API gpur_status gpur_training_get_settings(gpur_training *training, gpur_training_settings *settings);

/* Takes a device, which stays the caller's, in place of the one that gpur_training_open would open, and says what will
 * run. Before the replay takes its memory. GPUR_INVALID_ARGUMENT: NULL, or the training has its objects already. */
GPUR_API gpur_status gpur_training_adopt_device(gpur_training *training, gpur_device *device);

/* Of an offline training: loads the rows of the option data into a replay with the training's settings, unless
 * gpur_training_config has that replay, or the run goes on from a checkpoint, which has them. From then on the settings
 * have the number of actions. Before the learner is made. GPUR_INVALID_ARGUMENT: NULL, a training that is not offline,
 * or data that do not fit. GPUR_FILE_ERROR: the data cannot be read. */
GPUR_API gpur_status gpur_training_fill(gpur_training *training, gpur_replay *replay);

/* Takes objects on that device, which stay the caller's: they are destroyed after the last call with the training.
 * `replay` NULL: the learner has none. GPUR_INVALID_ARGUMENT: NULL for the others, or no device was taken before. */
GPUR_API gpur_status gpur_training_adopt(gpur_training *training, gpur_replay *replay, gpur_learner *learner,
                                         gpur_run *run);

/* Makes the folder of a new run, or goes back to the last checkpoint. GPUR_FILE_ERROR: the folder cannot be made or
 * written, or the checkpoint cannot be read. Others: as gpur_run_load. */
GPUR_API gpur_status gpur_training_begin(gpur_training *training);

/*
 * Returns config.json as a text, valid until the training is destroyed; NULL: there is no memory for it. After
 * gpur_training_begin.
 *
 *     fputs(gpur_training_document(training), stdout);
 */
GPUR_API const char *gpur_training_document(gpur_training *training);

/*
 * Returns the folder of the run, "" if nothing is written. The text is valid until the training is destroyed.
 *
 *     printf("%s: %" PRId64 " steps", gpur_training_folder(training), gpur_training_step(training));
 *     if (gpur_training_saved_step(training) >= 0)
 *         printf("; it can be resumed after step %" PRId64, gpur_training_saved_step(training));
 */
GPUR_API const char *gpur_training_folder(const gpur_training *training);

/* Returns the environment steps taken; of an offline training the train steps. */
GPUR_API int64_t gpur_training_step(const gpur_training *training);

/* Returns the step after which the run can be resumed: that of its last checkpoint, or 0 if it was stopped before its
 * first step. -1: it cannot be resumed. */
GPUR_API int64_t gpur_training_saved_step(const gpur_training *training);

/* Takes the steps that remain, saves checkpoints, and evaluates at the end. GPUR_INTERRUPTED: it was stopped, and a
 * checkpoint was saved if the run has any; others: as gpur_run_advance, gpur_run_save and gpur_run_evaluate. */
GPUR_API gpur_status gpur_training_advance(gpur_training *training);

/*
 * Lets gpur_training_advance go on to the next point where a checkpoint can be taken, save it, and return
 * GPUR_INTERRUPTED. An evaluation that is played beside the training is finished, the one at the end given up.
 * `at_once` 1, or no checkpoints: it returns as soon as gpur_run_stop lets it. Any thread; also safe in a signal
 * handler, and in on_event.
 *
 *     static gpur_training *running;
 *     static void on_interrupt(int number)
 *     {
 *         gpur_training_stop(running, 0);
 *     }
 */
GPUR_API void gpur_training_stop(gpur_training *training, int32_t at_once);

/*
 * Adds a row to rates.csv when one is due, every 5 seconds, and writes the line that shows progress to `line` (`bytes`,
 * cut off there; NULL: none is wanted). Any thread, one at a time. GPUR_FILE_ERROR: the row cannot be written;
 * gpur_training_advance then ends with this error.
 *
 *     char line[256];
 *     while (!is_over) { // in a thread beside the one in gpur_training_advance
 *         gpur_training_look(training, line, sizeof line);
 *         puts(line);
 *         sleep(5);
 *     }
 */
GPUR_API gpur_status gpur_training_look(gpur_training *training, char *line, int64_t bytes);

/* Adds the last row, and saves the learner where there is a folder and a step was taken. After gpur_training_advance.
 * GPUR_FILE_ERROR: a file cannot be written. Others: as gpur_learner_save. */
GPUR_API gpur_status gpur_training_finish(gpur_training *training);

/*
 * Returns what a program prints at the end: a line of progress with the rates of the whole training, and the system's
 * table of rates if it has one. Every line ends with a line break. After gpur_training_finish. The text is valid until
 * the training is destroyed.
 *
 *     gpur_training_finish(training);
 *     fputs(gpur_training_summary(training), stdout);
 */
GPUR_API const char *gpur_training_summary(gpur_training *training);

/*
 * Works as an actor of Ape-X for the process that started this one with config->command, until that process ends it.
 * The options must be those that the command has given. Errors are those of gpur_apex_serve.
 *
 *   connection  the file descriptor 3
 *
 *     gpur_training_create(&training_config, &training);
 *     const gpur_status status = gpur_training_serve(training, 3);
 */
GPUR_API gpur_status gpur_training_serve(gpur_training *training, int32_t connection);

/*
 * Works as a remote actor of Ape-X for the learner of another process, whose option folder is the same. Errors are
 * those of gpur_apex_work. GPUR_INVALID_ARGUMENT: also a preset that is not one of Ape-X, or no option folder.
 *
 *   actor  its number, from 0 on
 *   stop   called with config->user: 1 to end; NULL: it does not end
 *
 *     gpur_training_create(&training_config, &training); // options as the learner's, with the same folder for blocks
 *     gpur_training_work(training, 0, is_interrupted);
 */
GPUR_API gpur_status gpur_training_work(gpur_training *training, int32_t actor, int (*stop)(void *user));

/*
 * Writes what a preset's options are, with its defaults as values, to `text` (`bytes`, cut off there). `preset` may
 * also be a command of gpureplay-train, such as "play". NULL: what presets and commands there are, and the options that
 * everybody needs. `env`, `env_options`: the environment for which these are the defaults; NULL: one that the preset is
 * made for. Any thread. GPUR_INVALID_ARGUMENT: no such preset or command, or an environment that is not found or
 * refuses its options.
 *
 *     char text[16384];
 *     gpur_training_help("ga3c", NULL, NULL, text, sizeof text);
 *     fputs(text, stdout);
 */
GPUR_API gpur_status gpur_training_help(const char *preset, const char *env, const char *env_options, char *text,
                                        int64_t bytes);

/*
 * Returns the name of option number `i` of a system (GPUR_PRESET_*), counted from 0, or NULL if there are not so many.
 * The string has static storage. Any thread.
 *
 *     for (int32_t i = 0; gpur_training_option_name(GPUR_PRESET_GA3C, i); i++) {
 *         const char *const name = gpur_training_option_name(GPUR_PRESET_GA3C, i);
 *         printf("%s=%s\n", name, gpur_training_option_value(name)); // steps=N
 *     }
 */
GPUR_API const char *gpur_training_option_name(int32_t system, int32_t i);

/* Returns the placeholder of an option's value in help texts, such as "N" for "steps", or NULL if no system has such an
 * option. The string has static storage. Any thread. */
GPUR_API const char *gpur_training_option_value(const char *name);

/*
 * Writes a description of an environment to `text` (`bytes`, cut off there): its observations, actions and options. Of
 * a plug-in that exports gpur_env_plugin_name, and without options, the names of its environments. Any thread. Errors
 * are those of gpur_env_find and gpur_env_get_info.
 *
 *     char text[4096];
 *     gpur_training_describe_env("CartPole-v1", NULL, text, sizeof text);
 *     fputs(text, stdout);
 */
GPUR_API gpur_status gpur_training_describe_env(const char *env, const char *env_options, char *text, int64_t bytes);

#ifdef __cplusplus
}
#endif
#endif
