/* SPDX-License-Identifier: MIT */
#include "options.h"

#include "failure.h"
#include "files.h"

#include <gpureplay.h>
#include <gpureplay/run.h>

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char file_name[] = "options.txt";

/* The systems that have an option, a bit each; 0: all. */
enum {
    RUN = 1 << SYSTEM_RUN,
    APEX_DQN = 1 << SYSTEM_APEX,
    APEX_DPG = 1 << SYSTEM_APEX_DPG,
    GA3C = 1 << SYSTEM_GA3C,
    APEX = APEX_DQN | APEX_DPG,
    DQN = RUN | APEX_DQN,
    REPLAY = RUN | APEX,
    ACTOR_CRITIC = GA3C | 1 << SYSTEM_A3C,
};

static const struct option {
    const char *name, *value;
    option_kind kind;
    int64_t low, high; /* of integers */
    const char *meaning;
    int is_optional; /* 1: a run may have no value of it */
    int of;          /* systems */
} known[OPTIONS] = {
    [OPTION_ENV] = {"--env", "NAME", TEXT, 0, 0, "a game of --list, or a plug-in: ./games.so or ./games.so:Corridor"},
    [OPTION_ENV_OPTIONS] = {"--env-options", "LIST", TEXT, 0, 0, "the environment's: a=1,b=2"},
    [OPTION_PRESET] =
        {"--preset", "NAME", TEXT, 0, 0,
         "fast-dqn (default for frames of 84 x 84 bytes), fast-dqn-small (for other images), "
         "fast-dqn-small-vectors (for all others), "
         "dqn-lambda-2019, vrc-2021, apex-dqn, ga3c, or these four with -small; ga3c-large-4 to ga3c-large-1, "
         "a3c-cpu, a3c-small, a2c, a2c-small; of continuous actions apex-dpg, apex-dpg-small"},
    [OPTION_DEVICE] = {"--device", "NAME", TEXT, 0, 0, "auto (default: a GPU if there is one), cpu, cuda:N"},
    [OPTION_THREADS] = {"--threads", "N", INTEGER, 0, 1024,
                        "threads that compute on the CPU (0: as many as there are cores)"},
    [OPTION_MATH] = {"--math", "fp32|tf32|bf16|auto", TEXT, 0, 0,
                     "arithmetic of matrix products and convolutions on a GPU; auto: tf32, or fp32 where a train step "
                     "is one kernel, and on the CPU fp32 (fp32, auto). A run keeps what it began with"},
    [OPTION_DETERMINISTIC] =
        {"--deterministic", "0|1", SWITCH, 0, 1,
         "1: the same results each time on a GPU, too, by slower kernels (0); of actor-critics with a2c alone",
         .of = RUN | ACTOR_CRITIC},
    [OPTION_SEED] = {"--seed", "N", INTEGER, 0, INT64_MAX, "of everything random (1)"},
    [OPTION_STEPS] =
        {"--steps", "N", INTEGER, 1, INT64_MAX / 4,
         "environment steps to take after the random ones (fast-dqn 50000000, dqn-lambda-2019 9950000, for "
         "CartPole 450000, vrc-2021 4950000, the small ones 1000000)"},
    [OPTION_NUM_ENVS] = {"--num-envs", "W", INTEGER, 1, 4096, "environments (8; of dqn-lambda and vrc 1)", .of = RUN},
    [OPTION_ENV_THREADS] = {"--env-threads", "N", INTEGER, 0, 4096,
                            "threads that step environments (0: one for each environment, at most 64)", .of = RUN},
    [OPTION_CONCURRENT] = {"--concurrent", "0|1", SWITCH, 0, 1, "train while the environments step (1)", .of = RUN},
    [OPTION_SYNCHRONIZED] = {"--synchronized", "0|1", SWITCH, 0, 1,
                             "one inference for all environments (1; 0 if there is one environment)", .of = RUN},
    [OPTION_BURST] =
        {"--burst", "0|1", SWITCH, 0, 1,
         "1: the C / F train steps of every C steps are done at their beginning, and --concurrent is 0 (0; "
         "of dqn-lambda and vrc 1)",
         .is_optional = 1, .of = RUN},
    [OPTION_ACT] = {"--act", "latest|target", TEXT, 0, 0,
                    "act by the network that is trained, or by the target network (latest; with --concurrent 1 always "
                    "target, but for dqn-lambda and vrc)",
                    .of = RUN},
    [OPTION_WHOLE_EPISODES] = {"--whole-episodes", "0|1", SWITCH, 0, 1,
                               "1: only the steps of finished episodes go to the replay (0)", .of = RUN},
    [OPTION_TARGET_PERIOD] =
        {"--target-period", "C", INTEGER, 1, INT64_MAX / 4,
         "steps between copies to the target network, or refreshes of the cache (10000, 1000); of Ape-X "
         "train steps (2500, 250; of apex-dpg and apex-dpg-small 100)",
         .of = REPLAY},
    [OPTION_TRAIN_PERIOD] = {"--train-period", "F", INTEGER, 1, INT64_MAX / 4, "steps for each train step (4)",
                             .of = RUN},
    [OPTION_PREPOPULATION] =
        {"--prepopulation", "N", INTEGER, 1, INT64_MAX / 4,
         "random steps before the first step, of Ape-X transitions before the first train step (50000, "
         "5000; of apex-dpg-small 2000)",
         .of = REPLAY},
    [OPTION_EVAL_PERIOD] = {"--eval-period", "N", INTEGER, 0, INT64_MAX / 4,
                            "steps between evaluations; 0: only at the end (250000, 50000; of apex-dpg-small 20000)",
                            .of = REPLAY},
    [OPTION_EVAL_EPISODES] = {"--eval-episodes", "N", INTEGER, 0, INT64_MAX / 4,
                              "episodes of an evaluation; 0: no evaluations (30)"},
    [OPTION_CAPACITY] =
        {"--capacity", "N", INTEGER, 2, INT64_MAX / 4,
         "transitions in the replay (1000000, 100000); of Ape-X the soft capacity, to which it is trimmed "
         "(2000000, 100000; of apex-dpg 1000000)",
         .of = REPLAY},
    [OPTION_FRAME_STACK] = {"--frame-stack", "N", INTEGER, 1, GPUR_MAX_STACK,
                            "frames of an observation, where the environment shows one image without channels (4)",
                            .is_optional = 1, .of = DQN},
    [OPTION_BATCH] = {"--batch", "N", INTEGER, 1, INT64_MAX / 4,
                      "transitions of a train step (32; of apex-dqn 512, of apex-dpg 256, of apex-dpg-small 64)",
                      .of = REPLAY},
    [OPTION_LEARNING_RATE] = {"--learning-rate", "X", NUMBER, 0, 0,
                              "of the optimizer (0.00025; of dqn-lambda-2019 0.0001, of vrc-2021 0.00005, of apex-dqn "
                              "0.0000625, of apex-dqn-small 0.001, of apex-dpg 0.0001, of apex-dpg-small 0.001, of "
                              "ga3c, a3c-cpu and a2c 0.0003, of ga3c-small 0.001, of a3c-small 0.0007, "
                              "of a2c-small 0.002)"},
    [OPTION_EXPLORATION_STEPS] =
        {"--exploration-steps", "N", INTEGER, 0, INT64_MAX / 4,
         "in which epsilon falls from 1 to 0.1, of vrc with the random steps; 0: it is 0.1 from step 1 on (1000000, "
         "100000; of dqn-lambda-2019 for CartPole 300000)",
         .of = RUN},
    [OPTION_ESTIMATOR] =
        {"--estimator", "NAME", TEXT, 0, 0,
         "of the returns of dqn-lambda and vrc: peng (default), watkins, n-step (default for CartPole by "
         "dqn-lambda-2019), peng-median, watkins-median, peng-error-bound, watkins-error-bound",
         .is_optional = 1, .of = RUN},
    [OPTION_LAMBDA] = {"--lambda", "X", NUMBER, 0, 0, "of peng and watkins, 0 to 1; it must be given", .is_optional = 1,
                       .of = RUN},
    [OPTION_N_STEP] = {"--n-step", "N", INTEGER, 1, INT32_MAX, "of n-step (3; of dqn-lambda-2019 for CartPole 5)",
                       .is_optional = 1, .of = RUN},
    [OPTION_ERROR_BOUND] = {"--error-bound", "X", NUMBER, 0, 0, "of the two with error-bound (0.025)", .is_optional = 1,
                            .of = RUN},
    [OPTION_CHECKPOINT] =
        {"--checkpoint", "N", INTEGER, 0, INT64_MAX / 4,
         "steps between checkpoints, of fast-dqn, dqn-lambda and vrc a multiple of C; 0: none (1000000, "
         "50000)"},
    [OPTION_ACTORS] = {"--actors", "N", INTEGER, 0, GPUR_APEX_MAX_ACTORS,
                       "of Ape-X: how many actors this program starts, each with an environment and an epsilon of its "
                       "own (8). With --folder it may be 0. With --work: how many remote actors there are in all",
                       .of = APEX},
    [OPTION_PROCESSES] = {"--processes", "0|1", SWITCH, 0, 1, "of Ape-X: 1: each actor is a process (0: a thread)",
                          .of = APEX},
    [OPTION_SAMPLES_PER_INSERT] = {"--samples-per-insert", "X", NUMBER, 0, 0,
                                   "of Ape-X: transitions learned for each one received; 0: not limited (0, 8; of "
                                   "apex-dpg-small 64)",
                                   .of = APEX},
    [OPTION_INITIAL_PRIORITIES] = {"--initial-priorities", "td|max", TEXT, 0, 0,
                                   "of Ape-X: the actors' TD errors, or the largest priority (td)", .of = APEX},
    [OPTION_PRIORITIZED] = {"--prioritized", "0|1", SWITCH, 0, 1,
                            "of Ape-X: 0: the learner draws uniformly, and not by priority (1)", .of = APEX},
    [OPTION_REPLICATE] = {"--replicate", "K", INTEGER, 1, 64,
                          "of Ape-X: each transition is stored so often, as if there were K times as many actors (1)",
                          .of = APEX},
    [OPTION_EPSILONS] = {"--epsilons", "LIST", TEXT, 0, 0,
                         "of Ape-X: a,b,...: actor i acts with that of place i mod their number, instead of with "
                         "0.4^(1 + 7 i / (N - 1))",
                         .is_optional = 1, .of = APEX_DQN},
    [OPTION_SIGMA] = {"--sigma", "X", NUMBER, 0, 0,
                      "of Ape-X DPG: standard deviation of the actors' noise, where actions are -1 to 1 (0.3)",
                      .of = APEX_DPG},
    [OPTION_EVICTION] = {"--eviction", "oldest|priority", TEXT, 0, 0,
                         "of Ape-X DPG: which transitions leave when there are too many, the oldest, or those drawn by "
                         "priority^-0.4 (priority; of apex-dpg-small oldest)",
                         .of = APEX_DPG},
    [OPTION_SECOND_ACTIVATION] = {"--second-activation", "none|tanh|relu", TEXT, 0, 0,
                                  "of Ape-X DPG: the activation of the second layers of both networks (none, as the "
                                  "paper names none; of apex-dpg-small relu)",
                                  .of = APEX_DPG},
    [OPTION_COMPRESSION] = {"--compression", "LEVEL", INTEGER, 0, 19, "of Ape-X: of blocks by Zstandard; 0: none (0)",
                            .of = APEX},
    [OPTION_PULL_PERIOD] = {"--pull-period", "N", INTEGER, 1, INT64_MAX / 4,
                            "of Ape-X: steps of an actor between two looks for newer weights (100; of apex-dpg 400)",
                            .of = APEX},
    [OPTION_FOLDER] = {"--folder", "FOLDER", TEXT, 0, 0,
                       "of Ape-X: the learner also takes what remote actors leave in this folder; see --work",
                       .is_optional = 1, .of = APEX},
    [OPTION_AGENTS] = {"--agents", "N", INTEGER, 1, GPUR_GA3C_MAX_AGENTS,
                       "of GA3C, A3C and A2C: agents, each with an environment of its own (32; of ga3c-small, a3c-cpu "
                       "and a3c-small 16)",
                       .of = ACTOR_CRITIC},
    [OPTION_PREDICTORS] = {"--predictors", "N", INTEGER, 1, GPUR_GA3C_MAX_PREDICTORS,
                           "of GA3C: threads that predict for agents (2)", .of = GA3C},
    [OPTION_TRAINERS] = {"--trainers", "N", INTEGER, 1, GPUR_GA3C_MAX_TRAINERS,
                         "of GA3C: threads that train on rollouts (2)", .of = GA3C},
    [OPTION_T_MAX] = {"--t-max", "N", INTEGER, 1, GPUR_GA3C_MAX_ROLLOUT,
                      "of GA3C, A3C and A2C: steps of a rollout (5, a3c-small 40)", .of = ACTOR_CRITIC},
    [OPTION_MIN_TRAIN_BATCH] = {"--min-train-batch", "N", INTEGER, 0,
                                GPUR_MAX_ACTOR_CRITIC_BATCH - GPUR_GA3C_MAX_ROLLOUT,
                                "of GA3C: a train step has rollouts of more than N steps together; 0: one rollout (0, "
                                "40)",
                                .of = GA3C},
    [OPTION_QUEUE_ROOM] = {"--queue-room", "N", INTEGER, 1, 65536,
                           "of GA3C: rollouts that the training queue holds (100, 16)", .of = GA3C},
    [OPTION_WHEN_FULL] = {"--when-full", "wait|refuse|drop-oldest", TEXT, 0, 0,
                          "of GA3C: when that queue is full, agents wait, or the new rollout is lost, or the oldest "
                          "(wait)",
                          .of = GA3C},
    [OPTION_TUNER] =
        {"--tuner", "none|paper|code", TEXT, 0, 0,
         "of GA3C: changes the numbers of agents, predictors and trainers at random, and keeps what trains "
         "on more rollouts a second: one of the three at a time, or as the authors' code all (none)",
         .of = GA3C},
    [OPTION_TUNER_PERIOD] = {"--tuner-period", "X", NUMBER, 0, 0,
                             "of GA3C: seconds of a measurement of it (60, of code 20)", .of = GA3C},
    [OPTION_ENTROPY] = {"--entropy", "X", NUMBER, 0, 0,
                        "of GA3C, A3C and A2C: weight of the entropy in the loss (0.01)", .of = ACTOR_CRITIC},
    [OPTION_OUT] = {"--out", "FOLDER", TEXT, 0, 0, "where the files go (runs/ENV-SEED)"},
    [OPTION_RESUME] = {"--resume", "FOLDER", TEXT, 0, 0,
                       "go on with the run of this folder, with its options; --steps may be given, to take more, and "
                       "--env, where the plug-in has moved"},
    [OPTION_REFILL] = {"--refill", NULL, FLAG, 0, 0,
                       "with --resume, of Ape-X: the replay stays empty, and actors fill it again"},
    [OPTION_WORK] = {"--work", "I", INTEGER, 0, GPUR_APEX_MAX_ACTORS - 1,
                     "train nothing; be remote actor I of the N of --actors, counted from 0, who plays for the "
                     "learner that another gpureplay-train with the same --env, --preset and --folder is. It waits "
                     "for the learner's first weights, leaves what it plays as files in --folder, waits while two of "
                     "its files were not taken yet, prints nothing, and ends at Ctrl-C"},
    [OPTION_QUIET] = {"--quiet", NULL, FLAG, 0, 0, "show no progress"},
    [OPTION_LIST] = {"--list", NULL, FLAG, 0, 0, "show the environments, or the one of --env, and their options"},
    [OPTION_HELP] = {"--help", NULL, FLAG, 0, 0, "this text"},
    [OPTION_SERVE] = {"--serve", NULL, FLAG, 0, 0, NULL},
};

const char *option_name(option_id id)
{
    return known[id].name;
}

option_kind option_kind_of(option_id id)
{
    return known[id].kind;
}

/* Systems have the library's numbers. */
_Static_assert((int)SYSTEM_RUN == GPUR_PRESET_FAST_DQN && (int)SYSTEM_APEX == GPUR_PRESET_APEX_DQN &&
                   (int)SYSTEM_APEX_DPG == GPUR_PRESET_APEX_DPG && (int)SYSTEM_GA3C == GPUR_PRESET_GA3C &&
                   (int)SYSTEM_A3C == GPUR_PRESET_A3C,
               "a system's number is that of its presets");

system_id options_system(const options *o)
{
    const char *const preset = o->value[OPTION_PRESET], *name;
    int32_t system;
    for (int32_t i = 0; preset && (name = gpur_preset_name(i, &system)); i++)
        if (strcmp(preset, name) == 0)
            return (system_id)system;
    return SYSTEM_RUN;
}

static int check_preset(const char *preset)
{
    const char *name;
    char names[512] = "";
    for (int32_t i = 0; (name = gpur_preset_name(i, NULL)); i++) {
        if (strcmp(preset, name) == 0)
            return 0;
        const size_t used = strlen(names);
        const int is_last = !gpur_preset_name(i + 1, NULL);
        snprintf(names + used, sizeof names - used, "%s%s", i == 0 ? "" : is_last ? " or " : ", ", name);
    }
    return fail("--preset is %s; it must be %s", preset, names);
}

static int is_of_system(option_id id, const options *o)
{
    return !known[id].of || known[id].of & 1 << options_system(o);
}

/* The presets that have an option, by its systems. */
static const char *const presets[] = {
    [RUN] = "fast-dqn, dqn-lambda or vrc",
    [APEX] = "Ape-X: apex-dqn, apex-dpg, or one of them with -small",
    [APEX_DQN] = "Ape-X: apex-dqn or apex-dqn-small",
    [APEX_DPG] = "Ape-X: apex-dpg or apex-dpg-small",
    [DQN] = "fast-dqn, dqn-lambda, vrc or apex-dqn",
    [REPLAY] = "fast-dqn, dqn-lambda, vrc or Ape-X",
    [GA3C] = "GA3C: ga3c, ga3c-small or ga3c-large-4 to -1",
    [ACTOR_CRITIC] = "GA3C, A3C or A2C",
    [RUN | ACTOR_CRITIC] = "fast-dqn, dqn-lambda, vrc, GA3C, A3C or A2C",
};

int options_check_system(const options *o)
{
    TRY(check_preset(o->value[OPTION_PRESET]));
    for (int i = 0; i < OPTIONS_OF_A_RUN; i++)
        if (o->value[i] && !is_of_system((option_id)i, o))
            return fail("%s is %s and --preset is %s, which does not have it; leave the option out, or take a preset "
                        "of %s",
                        known[i].name, o->value[i], o->value[OPTION_PRESET], presets[known[i].of]);
    if (o->value[OPTION_REFILL] && !(APEX & 1 << options_system(o)))
        return fail("--refill is given and --preset is %s; only a run of Ape-X fills its replay again",
                    o->value[OPTION_PRESET]);
    return 0;
}

void options_free(options *o)
{
    for (int i = 0; i < OPTIONS; i++)
        free(o->value[i]);
    *o = (options){0};
}

static int check_integer(const struct option *option, const char *value)
{
    char *end;
    errno = 0;
    const long long number = strtoll(value, &end, 10);
    if (!*value || *end || errno || number < option->low || number > option->high)
        return fail("%s is \"%s\"; it must be a whole number of %" PRId64 " to %" PRId64, option->name, value,
                    option->low, option->high);
    return 0;
}

static int check(const struct option *option, const char *value)
{
    char *end;
    if (option->kind == INTEGER || option->kind == SWITCH)
        return check_integer(option, value);
    if (option->kind == NUMBER) {
        const double number = strtod(value, &end);
        if (!*value || *end || !isfinite(number) || number < 0.0)
            return fail("%s is \"%s\"; it must be a number of 0 or more", option->name, value);
    } else if (!*value && option != &known[OPTION_ENV_OPTIONS])
        return fail("%s is empty; it must be %s", option->name, option->meaning);
    else if (strchr(value, '\n'))
        return fail("%s has a line break in it; it must be one line", option->name);
    return 0;
}

static int set(options *o, option_id id, const char *value)
{
    char *const copy = strdup(value);
    if (!copy)
        return fail("there is no memory for the value of %s", known[id].name);
    free(o->value[id]);
    o->value[id] = copy;
    return 0;
}

int options_set(options *o, option_id id, const char *format, ...)
{
    char value[MAX_PATH];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(value, sizeof value, format, arguments);
    va_end(arguments);
    return set(o, id, value);
}

/* The option whose name is the first `length` bytes of a word; OPTIONS: none. */
static option_id find(const char *word, size_t length)
{
    int id = 0;
    while (id < OPTIONS && (strlen(known[id].name) != length || memcmp(known[id].name, word, length) != 0))
        id++;
    return (option_id)id;
}

/* Takes "--name value" or "--name=value" at `argv`. Returns the number of words taken, 0 after a failure. */
static int take(options *o, char **argv)
{
    const char *const equals = strchr(argv[0], '=');
    const size_t length = equals ? (size_t)(equals - argv[0]) : strlen(argv[0]);
    const option_id id = find(argv[0], length);
    if (id == OPTIONS) {
        fail("%s is not an option; --help lists them", argv[0]);
        return 0;
    }
    const int is_flag = known[id].kind == FLAG;
    const char *const value = is_flag ? "1" : equals ? equals + 1 : argv[1];
    if (is_flag && equals) {
        fail("%s has a value; it must have none", argv[0]);
        return 0;
    }
    if (!value) {
        fail("%s has no value; it must have one: %s", known[id].name, known[id].value);
        return 0;
    }
    if (o->value[id]) {
        fail("%s is given twice", known[id].name);
        return 0;
    }
    if (check(&known[id], value) || set(o, id, value))
        return 0;
    return is_flag || equals ? 1 : 2;
}

static int is_game(const char *name)
{
    int32_t i = 0;
    while (gpur_env_name(i) && strcmp(gpur_env_name(i), name) != 0)
        i++;
    return gpur_env_name(i) != NULL;
}

/* A plug-in's file gets its absolute path, so that the run can be resumed from any folder. One without a slash is
 * searched for where dlopen searches, and stays as it is. The colon is where gpur_env_find takes it to be. */
static int make_absolute(options *o)
{
    const char *const env = o->value[OPTION_ENV];
    char file[MAX_PATH], absolute[PATH_MAX];
    if (!env || is_game(env))
        return 0;
    const char *const suffix = strstr(env, ".so"), *const colon = strchr(suffix ? suffix : env, ':');
    const size_t length = colon ? (size_t)(colon - env) : strlen(env);
    TRY(path_make(file, "%.*s", (int)length, env));
    return strchr(file, '/') && realpath(file, absolute) ? options_set(o, OPTION_ENV, "%s%s", absolute, env + length)
                                                         : 0;
}

/* So is the folder of remote actors, so that the run can be resumed from any folder. */
static int make_folder_absolute(options *o)
{
    const char *const folder = o->value[OPTION_FOLDER];
    char here[PATH_MAX], path[MAX_PATH];
    if (!folder || *folder == '/')
        return 0;
    if (!getcwd(here, sizeof here))
        return fail("--folder is \"%s\" and the folder that it is relative to is not known: %s", folder,
                    strerror(errno));
    TRY(path_make(path, "%s/%s", here, folder));
    return options_set(o, OPTION_FOLDER, "%s", path);
}

int options_parse(options *o, int argc, char **argv)
{
    for (int i = 1, taken; i < argc; i += taken) {
        taken = take(o, argv + i);
        if (taken == 0)
            return FAILED;
    }
    if (o->value[OPTION_REFILL] && !o->value[OPTION_RESUME])
        return fail("--refill is given and --resume is missing; it must be the folder of a run");
    if (o->value[OPTION_OUT] && o->value[OPTION_RESUME])
        return fail("--out is \"%s\" and --resume is \"%s\"; a run that is resumed stays in its folder, so only one "
                    "of the two may be given",
                    o->value[OPTION_OUT], o->value[OPTION_RESUME]);
    TRY(make_folder_absolute(o));
    return make_absolute(o);
}

static int are_equal(option_id id, const char *a, const char *b)
{
    return known[id].kind == TEXT     ? strcmp(a, b) == 0
           : known[id].kind == NUMBER ? strtod(a, NULL) == strtod(b, NULL)
                                      : strtoll(a, NULL, 10) == strtoll(b, NULL, 10);
}

/* Takes one line "--name value" of the file. */
static int take_line(options *o, const char *path, const char *line)
{
    const char *const space = strchr(line, ' ');
    const option_id id = find(line, space ? (size_t)(space - line) : strlen(line));
    if (strncmp(line, "buffer ", 7) == 0 || strncmp(line, "agent ", 6) == 0)
        return fail("%s has the line \"%s\", settings that Python alone takes; python -m gpureplay.train --resume goes "
                    "on with this run",
                    path, line);
    if (!space || id >= OPTIONS_OF_A_RUN)
        return fail("%s has the line \"%s\"; its lines must be options of a run with their values", path, line);
    TRY(check(&known[id], space + 1));
    if (id == OPTION_STEPS)
        o->stored_steps = strtoll(space + 1, NULL, 10);
    if (!o->value[id])
        return set(o, id, space + 1);
    const int is_equal = are_equal(id, o->value[id], space + 1);
    if (id == OPTION_ENV)
        o->has_other_env = !is_equal;
    else if (id != OPTION_STEPS && !is_equal)
        return fail("%s is %s, and the run that is to be resumed has %s; leave the option out, or begin another run",
                    known[id].name, o->value[id], space + 1);
    return 0;
}

/* A file that was written before there was --math is of a run that computed in float32. */
static int take_lines(options *o, const char *path, char *lines)
{
    char *rest = lines;
    int has_math = 0;
    for (char *line = strsep(&rest, "\n"); line; line = strsep(&rest, "\n")) {
        if (*line)
            TRY(take_line(o, path, line));
        has_math |= strncmp(line, "--math ", strlen("--math ")) == 0;
    }
    if (!has_math)
        TRY(take_line(o, path, "--math fp32"));
    for (int i = 0; i < OPTIONS_OF_A_RUN; i++)
        if (!o->value[i] && !known[i].is_optional && is_of_system((option_id)i, o))
            return fail("%s has no %s; it must have every option of a run", path, known[i].name);
    return 0;
}

int options_resume(options *o, const char *folder)
{
    char path[MAX_PATH];
    text lines = {0};
    TRY(path_make(path, "%s/%s", folder, file_name));
    int result = file_read(path, &lines);
    if (result == 0)
        result = take_lines(o, path, lines.memory);
    text_free(&lines);
    return result;
}

int options_write(const options *o, const char *folder)
{
    text lines = {0};
    for (int i = 0; i < OPTIONS_OF_A_RUN; i++)
        if (o->value[i])
            text_add(&lines, "%s %s\n", known[i].name, o->value[i]);
    const int result = file_write(folder, file_name, &lines);
    text_free(&lines);
    return result;
}

int64_t options_integer(const options *o, option_id id)
{
    return strtoll(o->value[id], NULL, 10);
}

double options_number(const options *o, option_id id)
{
    return strtod(o->value[id], NULL);
}

int use_integer(options *o, option_id id, int64_t *setting)
{
    if (!o->value[id])
        return options_set(o, id, "%" PRId64, *setting);
    *setting = options_integer(o, id);
    return 0;
}

int use_int32(options *o, option_id id, int32_t *setting)
{
    int64_t value = *setting;
    TRY(use_integer(o, id, &value));
    *setting = (int32_t)value;
    return 0;
}

/* With as many digits as give the same number when they are read. */
static int set_number(options *o, option_id id, double setting, int is_float)
{
    text value = {0};
    if (is_float)
        text_add_float(&value, (float)setting, "0");
    else
        text_add_exactly(&value, setting, "0");
    const int result = text_is_whole(&value) ? options_set(o, id, "%s", value.memory)
                                             : fail("there is no memory for the value of %s", option_name(id));
    text_free(&value);
    return result;
}

int use_float(options *o, option_id id, float *setting)
{
    if (!o->value[id])
        return set_number(o, id, (double)*setting, 1);
    *setting = (float)options_number(o, id);
    return 0;
}

int use_double(options *o, option_id id, double *setting)
{
    if (!o->value[id])
        return set_number(o, id, *setting, 0);
    *setting = options_number(o, id);
    return 0;
}

int use_text(options *o, option_id id, const char *otherwise)
{
    return o->value[id] ? 0 : options_set(o, id, "%s", otherwise);
}

void options_print_help(FILE *file)
{
    fprintf(file, "usage: gpureplay-train --env NAME [options]\n"
                  "       gpureplay-train --resume FOLDER\n"
                  "       gpureplay-train --work I --folder FOLDER --env NAME --preset apex-dqn [options]\n\n"
                  "Trains a DQN agent in W environments, by default with both switches of fast DQN [Daley & Amato\n"
                  "2021]; or by Ape-X [Horgan et al. 2018], with presets apex-dqn and apex-dqn-small, and in\n"
                  "environments of continuous actions apex-dpg and apex-dpg-small; or an\n"
                  "actor-critic by GA3C [Babaeizadeh et al. 2017], A3C [Mnih et al. 2016] or A2C. Ctrl-C ends it\n"
                  "with what there is. In brackets: the default, of fast-dqn and of fast-dqn-small where they\n"
                  "differ, which is mostly that of the other presets, too; of options of Ape-X or of GA3C that of\n"
                  "apex-dqn or ga3c, and of the small one.\n\n");
    for (int i = 0; i < OPTIONS && known[i].meaning; i++) {
        char words[40];
        snprintf(words, sizeof words, "%s %s", known[i].name, known[i].value ? known[i].value : "");
        fprintf(file, "  %-24s %s\n", words, known[i].meaning);
    }
    fprintf(file, "\nExit status: 0 done, 130 interrupted, 2 an error.\n");
}
