/* SPDX-License-Identifier: MIT */
/* The commands play and evaluate. */
#include "gpureplay/run.h"
#include "program/program.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LARGEST_PICTURE = 40, MOST_NUMBERS = 16 }; /* sides of what is drawn; numbers that are shown of the rest */

static const struct timespec frame_time = {.tv_nsec = 66 * 1000 * 1000}; /* on a terminal */

typedef struct play_words {
    const char *command, *options[MAX_WORDS];
    int32_t count;
    gpur_play_config config;
    int shows_text, help;
    int64_t game; /* that has ended last */
} play_words;

/* The words. */

static int refuse(const char *name, const char *value, const char *wanted)
{
    return fail("--%s is \"%s\"; it must be %s", name, value, wanted);
}

/* A whole number, also as 1e6. */
static int read_count(const word *w, double high, double *number)
{
    char *end;
    *number = strtod(w->value, &end);
    if (*w->value && !*end && *number >= 1.0 && *number <= high && *number == floor(*number))
        return 0;
    char wanted[64];
    snprintf(wanted, sizeof wanted, "a whole number of 1 to %.0f", high);
    return refuse(w->name, w->value, wanted);
}

static int read_epsilon(const word *w, float *epsilon)
{
    char *end;
    *epsilon = strtof(w->value, &end);
    return *w->value && !*end && *epsilon >= 0.0f && *epsilon <= 1.0f ? 0 : refuse(w->name, w->value, "0 to 1");
}

static int read_value(play_words *p, const word *w)
{
    double number = 0.0;
    if (strcmp(w->name, "epsilon") == 0)
        return read_epsilon(w, &p->config.epsilon);
    if (strcmp(w->name, "weights") == 0) {
        p->config.best = strcmp(w->value, "best") == 0;
        return p->config.best || strcmp(w->value, "last") == 0 ? 0 : refuse(w->name, w->value, "best or last");
    }
    if (read_count(w, strcmp(w->name, "envs") == 0 ? 1024.0 : 1e15, &number))
        return FAILED;
    if (strcmp(w->name, "envs") == 0)
        p->config.envs = (int32_t)number;
    else
        p->config.episodes = (int64_t)number;
    return 0;
}

/* Takes a word, and its value if it has one: `taken` of them. */
static int take(play_words *p, char **words, int *taken)
{
    static const struct {
        const char *name, *wanted; /* NULL: it has no value */
        const char *command;       /* NULL: both */
        int is_of_library;
    } known[] = {
        {"episodes", "N", NULL, 0},  {"envs", "N", "evaluate", 0}, {"weights", "best or last", NULL, 0},
        {"epsilon", "X", NULL, 0},   {"greedy", NULL, NULL, 0},    {"text", NULL, "play", 0},
        {"help", NULL, NULL, 0},     {"env", "NAME", NULL, 1},     {"env_options", "LIST", NULL, 1},
        {"device", "NAME", NULL, 1}, {"threads", "N", NULL, 1},    {"seed", "N", NULL, 1},
    };
    const word w = split_word(words);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strncmp(words[0], "--", 2) != 0 || strcmp(known[i].name, w.name) != 0 ||
            (known[i].command && strcmp(known[i].command, p->command) != 0))
            continue;
        *taken = known[i].wanted && !w.has_equals ? 2 : 1;
        if (!known[i].wanted && w.has_equals)
            return fail("%s has a value; it must have none", words[0]);
        if (known[i].wanted && !w.value)
            return fail("%s has no value; it must have one: %s", words[0], known[i].wanted);
        if (known[i].is_of_library && p->count < MAX_WORDS - 1)
            p->options[p->count++] = text_of("%s=%s", w.name, w.value);
        else if (known[i].wanted)
            return read_value(p, &w);
        p->config.greedy |= strcmp(w.name, "greedy") == 0;
        p->shows_text |= strcmp(w.name, "text") == 0;
        p->help |= strcmp(w.name, "help") == 0;
        return 0;
    }
    return fail("%s is not an option of %s, whose --help lists them", words[0], p->command);
}

static int read_words(play_words *p, char **words)
{
    while (*words) {
        int taken = 1;
        if (words[0][0] != '-' && !p->config.path)
            p->config.path = words[0];
        else if (words[0][0] != '-')
            return fail("%s is one run too many; %s takes one", words[0], p->command);
        else if (take(p, words, &taken))
            return FAILED;
        words += taken;
    }
    if (p->config.greedy && p->config.epsilon >= 0.0f)
        return fail("--epsilon is %g beside --greedy, which is the best action always; leave one of them out",
                    (double)p->config.epsilon);
    if (!p->config.path && !p->help)
        return fail("%s has no run; it must have one: the folder of a run, or a learner's file", p->command);
    return 0;
}

/* What is shown. */

/* A letter of the last channel that is not 0: ".", "1" to "9", "a" to "z". */
static char letter_of(const unsigned char *cell, int32_t channels, int32_t bytes)
{
    static const char letters[] = ".123456789abcdefghijklmnopqrstuvwxyz";
    static const unsigned char zeros[8];
    int32_t last = 0;
    for (int32_t i = 0; i < channels; i++)
        if (memcmp(cell + i * bytes, zeros, (size_t)bytes) != 0)
            last = i + 1;
    return letters[last < (int32_t)sizeof letters - 2 ? last : (int32_t)sizeof letters - 2];
}

static int bytes_of(int32_t dtype)
{
    return dtype == GPUR_UINT8 || dtype == GPUR_BOOL ? 1 : dtype == GPUR_FLOAT16 ? 2 : dtype == GPUR_INT64 ? 8 : 4;
}

static void draw(const gpur_space *space, const unsigned char *obs)
{
    const int32_t height = space->shape[0], width = space->shape[1], channels = space->shape[2] ? space->shape[2] : 1;
    const int bytes = bytes_of(space->dtype);
    for (int32_t y = 0; y < height; y++) {
        for (int32_t x = 0; x < width; x++)
            putchar(letter_of(obs + (int64_t)(y * width + x) * channels * bytes, channels, bytes));
        putchar('\n');
    }
    putchar('\n');
}

static double number_at(const gpur_space *space, const void *obs, int32_t i)
{
    switch (space->dtype) {
    case GPUR_FLOAT32:
        return (double)((const float *)obs)[i];
    case GPUR_INT32:
        return ((const int32_t *)obs)[i];
    case GPUR_INT64:
        return (double)((const int64_t *)obs)[i];
    case GPUR_UINT8:
    case GPUR_BOOL:
        return ((const unsigned char *)obs)[i];
    default:
        return NAN;
    }
}

static void show_numbers(const gpur_space *space, const void *obs)
{
    int32_t count = 1;
    for (int32_t i = 0; i < GPUR_MAX_DIMS && space->shape[i] > 0; i++)
        count *= space->shape[i];
    for (int32_t i = 0; i < count && i < MOST_NUMBERS; i++)
        printf("%s%.4g", i ? " " : "", number_at(space, obs, i));
    printf("%s\n", count > MOST_NUMBERS ? " ..." : "");
}

/* On a terminal a picture takes the place of the one before. */
static void show_obs(void *user, const gpur_space *space, const void *obs)
{
    const int is_terminal = isatty(STDOUT_FILENO);
    const int is_picture = space->shape[0] > 0 && space->shape[0] <= LARGEST_PICTURE && space->shape[1] > 0 &&
                           space->shape[1] <= LARGEST_PICTURE && (!space->shape[2] || !space->shape[3]);
    (void)user;
    if (is_terminal && is_picture)
        printf("\033[H\033[J");
    if (is_picture)
        draw(space, obs);
    else
        show_numbers(space, obs);
    if (is_terminal) {
        fflush(stdout);
        nanosleep(&frame_time, NULL);
    }
}

static void show_game(void *user, double sum, int64_t length)
{
    play_words *const p = user;
    printf("game %" PRId64 ": return %.7g, %" PRId64 " steps\n", ++p->game, sum, length);
    fflush(stdout);
}

static void show_result(const gpur_play_result *r)
{
    if (r->best_step > 0 || isfinite(r->best_return))
        printf("the weights of the best evaluation, %.7g after %" PRId64 " steps, and ", r->best_return, r->best_step);
    else
        printf("the weights ");
    printf("of train step %" PRId64 "\n", r->version);
    printf("mean return %.7g of %" PRId64 " game%s, standard deviation %.4g", r->mean_return, r->episodes,
           r->episodes == 1 ? "" : "s", r->return_deviation);
    if (isfinite(r->interval))
        printf(", 95%% interval %.7g to %.7g", r->mean_return - r->interval, r->mean_return + r->interval);
    printf(", %.6g steps a game\n", (double)r->length / (double)r->episodes);
}

static int show_help(const char *command)
{
    char text[4096];
    if (gpur_training_help(command, NULL, NULL, text, sizeof text) != GPUR_OK)
        return fail_by_library();
    fputs(text, stdout);
    return 0;
}

static int32_t is_asked_to_end(void *user)
{
    return was_interrupted(user);
}

int play(const char *command, char **words)
{
    static play_words p;
    gpur_play_result result = {.size = sizeof result};
    const int is_play = strcmp(command, "play") == 0;
    p.command = command;
    if (gpur_play_config_init(&p.config, sizeof p.config) != GPUR_OK)
        return fail_by_library();
    if (is_play)
        p.config.episodes = 5, p.config.envs = 1;
    if (read_words(&p, words))
        return FAILED;
    if (p.help)
        return show_help(command);
    p.config.options = p.options;
    p.config.on_obs = p.shows_text ? show_obs : NULL;
    p.config.on_game = is_play ? show_game : NULL;
    p.config.stop = is_asked_to_end;
    p.config.user = &p;
    const gpur_status status = gpur_play(&p.config, &result);
    if (status != GPUR_OK && status != GPUR_INTERRUPTED)
        return fail_by_library();
    if (result.episodes > 0)
        show_result(&result);
    return status == GPUR_OK ? 0 : INTERRUPTED;
}
