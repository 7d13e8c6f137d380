/* SPDX-License-Identifier: MIT */
/* Texts about options and environments. */
#include "gpureplay/training.h"

#include "base/dtype.h"
#include "env/plugin.h"
#include "train/files.h"
#include "run/presets.h"
#include "train/system.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* CartPole, which says that it shows frames as the presets of the papers need them, for their defaults. It is never
 * stepped. */
static const char *init_frames(const char *options, uint64_t seed, gpur_env_info *info, void **env)
{
    const gpur_env_type *game;
    if (gpur_env_find("CartPole-v1", &game) != GPUR_OK)
        return gpur_last_error();
    const char *const refusal = game->init(options, seed, info, env);
    info->obs = (gpur_space){.dtype = GPUR_UINT8, .shape = {84, 84}, .high = 255.0f};
    info->action = (gpur_space){.dtype = GPUR_INT32, .num_actions = 18, .high = 17.0f};
    return refusal;
}

/* Wraps words, each after a space, in lines from column `indent` on. The first line has come as far as that. */
static void add_words(gpur_text *text, const char *words, size_t indent)
{
    enum { WIDTH = 100 };
    size_t column = indent;
    for (const char *word = words; *word;) {
        const size_t length = strcspn(word, " ");
        if (column > indent && column + 1 + length > WIDTH) {
            gpur_text_add(text, "\n%*s", (int)indent - 1, "");
            column = indent;
        }
        gpur_text_add(text, " %.*s", (int)length, word);
        column += length + 1;
        word += length + (word[length] == ' ');
    }
    gpur_text_add(text, "\n");
}

/* Two columns, the second of which is wrapped. It begins in the next line where the first has no room. */
static void add_entry(gpur_text *text, const char *name, const char *meaning)
{
    enum { INDENT = 34 };
    gpur_text_add(text, "  %-*s", INDENT - 3, name);
    if (strlen(name) > INDENT - 3)
        gpur_text_add(text, "\n%*s", INDENT - 1, "");
    add_words(text, meaning, INDENT);
}

/* Whether an option has no default. */
static int must_be_given(const char *name)
{
    static const char *const names[] = {"env", "env_options", "lambda", "data", "num_actions"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return 1;
    return 0;
}

/* Before the meaning of one whose value is shown are the words that it may be, or the letter that others call it. */
static void add_option(gpur_text *text, const gpur_option *option, const gpur_train_settings *s)
{
    gpur_text name = {0}, meaning = {0};
    gpur_option_add_name(GPUR_OPTIONS_OF_PROGRAM, option->name, &name);
    gpur_text_add(&name, " ");
    const int has_value = gpur_option_applies(option, s) && !must_be_given(option->name);
    if (has_value)
        gpur_option_add_value(option, s, &name);
    else
        gpur_text_add(&name, "%s", option->value);
    const int is_letter = option->value[1] == '\0' && !strchr("NX", option->value[0]);
    for (const char *c = has_value && (option->kind == GPUR_OPTION_WORD || is_letter) ? option->value : ""; *c; c++) {
        const char one[] = {*c, '\0'};
        gpur_text_add(&meaning, "%s%s", *c == '|' ? ", " : one, c[1] ? "" : ": ");
    }
    gpur_text_add(&meaning, "%s", option->meaning);
    if (gpur_text_is_whole(&name) && gpur_text_is_whole(&meaning))
        add_entry(text, name.memory, meaning.memory);
    gpur_text_free(&name);
    gpur_text_free(&meaning);
}

/* `frames` has room for an environment. */
static gpur_status find_defaults(const char *preset, const char *env, const char *env_options, gpur_options *o,
                                 gpur_train_settings *s, gpur_env_type *frames)
{
    const int is_small = strstr(preset, "-small") != NULL, is_image = is_small && !strstr(preset, "-vectors");
    if (env)
        GPUR_TRY(gpur_options_add(o, "env", env));
    if (env && env_options)
        GPUR_TRY(gpur_options_add(o, "env_options", env_options));
    GPUR_TRY(gpur_options_add(o, "preset", preset));
    GPUR_TRY(gpur_options_find_system(o, preset));
    const int has_vectors = ((GPUR_IN_ANY_DPG | GPUR_IN_ANY_SAC) & 1 << o->system) != 0;
    s->describes_env = (GPUR_IN_OFFLINE & 1 << o->system) != 0;
    if (!env)
        GPUR_TRY(gpur_env_find(has_vectors ? "Pendulum" : is_image ? "MinAtar/Breakout" : "CartPole-v1", &s->env.type));
    if (!env && !is_small && !has_vectors && !s->describes_env) {
        *frames = *s->env.type;
        frames->init = init_frames;
        s->env.type = frames;
    }
    const gpur_status status = gpur_train_find_settings(o, s);
    return status == GPUR_INVALID_ARGUMENT && strstr(gpur_last_error(), "--lambda is missing") ? GPUR_OK : status;
}

/* What the program has beside the options. */
static void add_own(gpur_text *text)
{
    add_entry(text, "--out FOLDER", "where the files go (runs/ENV-SEED)");
    add_entry(text, "--seeds A-B",
              "runs with the seeds A to B, side by side as cores allow, each in the folder of its seed");
    add_entry(text, "--resume FOLDER", "go on with the run of this folder, with its options");
    add_entry(text, "--quiet", "show no progress");
}

static gpur_status add_preset(gpur_text *text, const char *preset, const char *env, const char *env_options)
{
    gpur_options options = {0};
    gpur_train_settings settings = {0};
    const gpur_option *option;
    gpur_env_type frames;
    const gpur_status status = find_defaults(preset, env, env_options, &options, &settings, &frames);
    if (status == GPUR_OK) {
        gpur_text_add(text,
                      "usage: gpureplay-train %s %s [options]\n\nThe values are the defaults of this preset%s. "
                      "Numbers may be written as 1e6.\n\n",
                      preset, settings.describes_env ? "--data FILE" : "--env NAME",
                      !settings.describes_env ? ""
                      : env                   ? ", for data of this environment"
                                              : ", for observations of one axis");
        for (int32_t i = 0; (option = gpur_option_at(options.system, i)); i++)
            if (strcmp(option->name, "preset") != 0 && gpur_option_is_of_preset(option, &settings))
                add_option(text, option, &settings);
        add_own(text);
        if ((GPUR_IN_APEX & 1 << options.system) != 0) {
            add_entry(text, "--refill", "with --resume: the replay stays empty, and actors fill it again");
            add_entry(text, "--work I",
                      "be remote actor I, from 0 on, of a learner with the same --env, --preset and --folder, until "
                      "Ctrl-C; --actors then says how many remote actors there are in all");
        }
    }
    gpur_options_free(&options);
    return status;
}

/* The commands beside training. */
typedef struct command {
    const char *name, *usage, *meaning;
    int plays;                 /* 1: it has the options of play and evaluate, too */
    const char *entries[2][2]; /* of its own options; NULL: it has fewer */
} command;

static const command commands[] = {
    {"play",
     "RUN",
     "Plays games one after another by the weights of a run, or of a learner's file, and shows their returns. python "
     "-m gpureplay.play RUN --video FOLDER, of the Python package, films them.",
     1,
     {{"--episodes N", "games; 5"}, {"--text", "draw what the game shows: small images as letters, else its numbers"}}},
    {"evaluate",
     "RUN",
     "Plays games in several environments at once by the weights of a run, or of a learner's file. Shows the mean "
     "return, the standard deviation, and the 95% interval of the mean.",
     1,
     {{"--episodes N", "games; 30"}, {"--envs N", "environments; 8"}}},
    {"list",
     "[NAME]",
     "Shows the library's games, or the one of this name, which may be a plug-in: ./games.so or ./games.so:Corridor. "
     "Of a file that has several games it shows their names.",
     0,
     {{"--env-options LIST", "of the game that is named"}}},
    {"compare",
     "RUN...",
     "Compares runs: python -m gpureplay.compare RUN... of the Python package shows the table, and draws it.",
     0,
     {{NULL, NULL}}},
};

static const char *const player_entries[][2] = {
    {"--weights best|last", "of the run's best evaluation, or the newest; last"},
    {"--epsilon X", "probability of a random action; that of the run's evaluations, or of a file 0.05"},
    {"--greedy", "the best action always"},
    {"--env NAME", "the game, where RUN is a file, or a plug-in was moved"},
    {"--env-options LIST", "the game's, in place of the run's"},
    {"--seed N", "of everything random; the run's"},
    {"--device NAME", "auto, cpu or cuda:N; auto"},
    {"--threads N", "threads that compute on the CPU; the run's"},
};

static void add_command(gpur_text *text, const command *c)
{
    gpur_text_add(text, "usage: gpureplay-train %s %s%s\n\n ", c->name, c->usage, c->entries[0][0] ? " [options]" : "");
    add_words(text, c->meaning, 2);
    gpur_text_add(text, "%s", c->entries[0][0] ? "\n" : "");
    for (size_t i = 0; i < sizeof c->entries / sizeof *c->entries && c->entries[i][0]; i++)
        add_entry(text, c->entries[i][0], c->entries[i][1]);
    for (size_t i = 0; c->plays && i < sizeof player_entries / sizeof *player_entries; i++)
        add_entry(text, player_entries[i][0], player_entries[i][1]);
}

static const command *find_command(const char *name)
{
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

/* What everybody needs. */
static void add_all(gpur_text *text)
{
    gpur_text_add(text,
                  "usage: gpureplay-train PRESET --env NAME [options]      trains\n"
                  "       gpureplay-train offline-dqn --data FILE [options]  trains on saved transitions\n"
                  "       gpureplay-train PRESET --help                    the options of a preset, with its defaults\n"
                  "       gpureplay-train --resume FOLDER                  goes on with a run\n"
                  "       gpureplay-train play RUN [options]               plays games by its weights\n"
                  "       gpureplay-train evaluate RUN [options]           the mean return of its weights\n"
                  "       gpureplay-train compare RUN...                   compares runs, by the Python package\n"
                  "       gpureplay-train list [NAME]                      the games, or one, and their options\n"
                  "       gpureplay-train COMMAND --help                   the options of such a command\n"
                  "       gpureplay-train PRESET --work I --folder FOLDER  is remote actor I of Ape-X\n\nPresets\n");
    static const struct {
        int32_t system;
        const char *title;
    } systems[GPUR_TRAIN_SYSTEMS] = {{GPUR_PRESET_FAST_DQN, "fast DQN, DQN(lambda), Virtual Replay Cache, QR-DQN, C51"},
                                     {GPUR_PRESET_DPG, "DDPG and TD3, for continuous actions"},
                                     {GPUR_PRESET_SAC, "SAC, for continuous actions"},
                                     {GPUR_PRESET_APEX_DQN, "Ape-X"},
                                     {GPUR_PRESET_APEX_DPG, "Ape-X DPG, for continuous actions"},
                                     {GPUR_PRESET_GA3C, "GA3C"},
                                     {GPUR_PRESET_A3C, "A3C and A2C"},
                                     {GPUR_PRESET_OFFLINE_DQN, "Offline: DQN, QR-DQN, C51"},
                                     {GPUR_PRESET_OFFLINE_DPG, "Offline: DPG and TD3, for continuous actions"},
                                     {GPUR_PRESET_OFFLINE_SAC, "Offline: SAC, for continuous actions"}};
    for (int32_t i = 0; i < GPUR_TRAIN_SYSTEMS; i++) {
        char names[GPUR_PRESET_NAMES];
        gpur_preset_list(1 << systems[i].system, "", ", ", names);
        add_entry(text, systems[i].title, names);
    }
    gpur_text_add(text, "\nOptions that everybody needs\n");
    static const char *const entries[][2] = {
        {"--env NAME", "a game of --list, or a plug-in: ./games.so or ./games.so:Corridor"},
        {"--env-options LIST", "the environment's: a=1,b=2"},
        {"--preset NAME", "the same as the first word; without it the environment's observations decide"},
        {"--steps N", "environment steps; 1e6 is a million"},
        {"--seed N", "of everything random"},
        {"--device NAME", "auto (a GPU if there is one), cpu, cuda:N"},
        {"--threads N", "threads that compute on the CPU; 0: as many as there are cores"},
        {"--eval-episodes N", "episodes of an evaluation"},
        {"--checkpoint N", "steps between checkpoints; 0: none"},
    };
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++)
        add_entry(text, entries[i][0], entries[i][1]);
    add_own(text);
    gpur_text_add(text, "\nExamples\n"
                        "  gpureplay-train --env CartPole-v1\n"
                        "  gpureplay-train fast-dqn-small --env MinAtar/Breakout --steps 5e5 --seed 2\n"
                        "  gpureplay-train td3-small --env Pendulum --steps 10000\n"
                        "  gpureplay-train apex-dpg-small --env Pendulum --actors 2 --steps 20000\n"
                        "  gpureplay-train evaluate runs/MinAtar-Breakout-2 --weights best\n\n"
                        "Ctrl-C goes on to the next checkpoint, saves it, and says how to resume; once more ends at "
                        "once.\nExit status: 0 done, 130 interrupted, 2 an error.\n");
}

static gpur_status give(gpur_text *text, gpur_status status, char *out, int64_t bytes)
{
    if (status == GPUR_OK && !gpur_text_is_whole(text))
        status = gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for a text");
    if (status == GPUR_OK && out && bytes > 0)
        snprintf(out, (size_t)bytes, "%s", text->memory);
    gpur_text_free(text);
    return status;
}

gpur_status gpur_training_help(const char *preset, const char *env, const char *env_options, char *out, int64_t bytes)
{
    gpur_text text = {0};
    gpur_status status = GPUR_OK;
    if (preset && find_command(preset))
        add_command(&text, find_command(preset));
    else if (preset)
        status = add_preset(&text, preset, env, env_options);
    else
        add_all(&text);
    return give(&text, status, out, bytes);
}

/* Environments. */

static void add_bound(gpur_text *text, float bound)
{
    if (isfinite(bound))
        gpur_text_add(text, "%g", (double)bound);
    else
        gpur_text_add(text, "any");
}

static void add_space(gpur_text *text, const gpur_space *space)
{
    if (space->num_actions > 0) {
        gpur_text_add(text, "%d, discrete\n", (int)space->num_actions);
        return;
    }
    gpur_text_add(text, "%s (", gpur_dtype_name(space->dtype));
    for (int i = 0; i < GPUR_MAX_DIMS && space->shape[i] > 0; i++)
        gpur_text_add(text, i ? ", %d" : "%d", (int)space->shape[i]);
    if (space->lows) {
        gpur_text_add(text, "), each number with bounds of its own\n");
        return;
    }
    gpur_text_add(text, "), from ");
    add_bound(text, space->low);
    gpur_text_add(text, " to ");
    add_bound(text, space->high);
    gpur_text_add(text, "\n");
}

/* The types that a plug-in names, as names of environments. */
static gpur_status add_names(gpur_text *text, const char *file, gpur_env_name_at *name_at)
{
    enum { MOST = 4096 };
    const char *name;
    for (int32_t i = 0; (name = name_at(i)); i++) {
        gpur_train_env env = {0};
        char whole[GPUR_MAX_PATH];
        GPUR_REQUIRE(i < MOST,
                     "plug-in %s: its gpur_env_plugin_name has a name for index %d; it must return NULL after the last "
                     "one, and there may be %d",
                     file, (int)i, MOST);
        GPUR_REQUIRE(*name,
                     "plug-in %s: its gpur_env_plugin_name returns an empty name for index %d; it must return NULL "
                     "after the last one",
                     file, (int)i);
        GPUR_TRY(gpur_path_make(whole, "%s:%s", file, name));
        GPUR_TRY(gpur_prefix_error(gpur_train_find_type(whole, &env), "gpur_env_plugin_name for index %d", (int)i));
        gpur_text_add(text, "%s\n", whole);
    }
    return GPUR_OK;
}

gpur_status gpur_training_describe_env(const char *name, const char *env_options, char *out, int64_t bytes)
{
    gpur_train_env env = {0};
    gpur_text text = {0};
    GPUR_REQUIRE(name, "env is NULL");
    gpur_env_name_at *const name_at = env_options && *env_options ? NULL : gpur_env_plugin_names(name);
    if (name_at && name_at(0))
        return give(&text, add_names(&text, name, name_at), out, bytes);
    GPUR_TRY(gpur_train_find_type(name, &env));
    GPUR_TRY(gpur_train_ask_env(env_options ? env_options : "", &env));
    gpur_text_add(&text, "%s\n  observation  ", env.name);
    add_space(&text, &env.info.obs);
    gpur_text_add(&text, "  actions      ");
    add_space(&text, &env.info.action);
    if (env.info.max_steps > 0)
        gpur_text_add(&text, "  episodes     of at most %" PRId64 " steps\n", env.info.max_steps);
    gpur_text_add(&text, "  a resumed run %s\n",
                  env.info.save_bytes > 0 ? "goes on bit for bit"
                                          : "begins new episodes: this environment cannot save its state");
    for (const char *line = env.options; line && *line;) {
        const size_t length = strcspn(line, "\n");
        gpur_text_add(&text, "  option       %.*s\n", (int)length, line);
        line += length + (line[length] == '\n');
    }
    return give(&text, GPUR_OK, out, bytes);
}
