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
    word_list words;
    const char *episodes, *envs, *weights, *epsilon; /* their values */
    gpur_play_config config;
    int greedy, shows_text, help;
    int64_t game; /* that has ended last */
} play_words;

/* The words. */

/* A whole number, also as 1e6. NULL: not given. */
static int read_count(const char *name, const char *value, double high, int64_t *number)
{
    char *end = "";
    const double found = value ? strtod(value, &end) : (double)*number;
    if (value && (!*value || *end || found < 1.0 || found > high || found != floor(found)))
        return fail("--%s is \"%s\"; it must be a whole number of 1 to %.0f", name, value, high);
    *number = (int64_t)found;
    return 0;
}

static int read_values(play_words *p)
{
    gpur_play_config *const c = &p->config;
    char *end = "";
    int64_t envs = c->envs;
    if (read_count("episodes", p->episodes, 1e15, &c->episodes) || read_count("envs", p->envs, 1024.0, &envs))
        return FAILED;
    c->envs = (int32_t)envs;
    c->greedy = p->greedy;
    c->best = p->weights && strcmp(p->weights, "best") == 0;
    if (p->weights && !c->best && strcmp(p->weights, "last") != 0)
        return fail("--weights is \"%s\"; it must be best or last", p->weights);
    if (!p->epsilon)
        return 0;
    c->epsilon = strtof(p->epsilon, &end);
    if (!*p->epsilon || *end || !(c->epsilon >= 0.0f && c->epsilon <= 1.0f))
        return fail("--epsilon is \"%s\"; it must be 0 to 1", p->epsilon);
    return p->greedy ? fail("--epsilon is %s beside --greedy, which is the best action always; leave one of them out",
                            p->epsilon)
                     : 0;
}

static int read_words(play_words *p, int is_play, char **next)
{
    const known_word known[] = {
        {"episodes", "N", &p->episodes, NULL},
        {"weights", "best or last", &p->weights, NULL},
        {"epsilon", "X", &p->epsilon, NULL},
        {"greedy", NULL, NULL, &p->greedy},
        {"help", NULL, NULL, &p->help},
        {"env", "NAME", NULL, NULL},
        {"env_options", "LIST", NULL, NULL},
        {"device", "NAME", NULL, NULL},
        {"threads", "N", NULL, NULL},
        {"seed", "N", NULL, NULL},
        {is_play ? "text" : "envs", is_play ? NULL : "N", is_play ? NULL : &p->envs, is_play ? &p->shows_text : NULL},
        {NULL, NULL, NULL, NULL}};
    while (*next)
        if (**next == '-') {
            if (take_word(&p->words, known, 0, &next))
                return FAILED;
        } else if (p->config.path) {
            return fail("%s is one run too many; %s takes one", *next, p->words.topic);
        } else {
            p->config.path = *next++;
        }
    if (!p->config.path && !p->help)
        return fail("%s has no run; it must have one: the folder of a run, or a learner's file", p->words.topic);
    return read_values(p);
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

static int32_t is_asked_to_end(void *user)
{
    return was_interrupted(user);
}

int play(const char *command, char **words)
{
    static play_words p;
    gpur_play_result result = {.size = sizeof result};
    const int is_play = strcmp(command, "play") == 0;
    p.words.topic = command;
    if (gpur_play_config_init(&p.config, sizeof p.config) != GPUR_OK)
        return fail_by_library();
    if (is_play)
        p.config.episodes = 5, p.config.envs = 1;
    if (read_words(&p, is_play, words))
        return FAILED;
    if (p.help)
        return print_help(command, NULL, NULL);
    p.config.options = p.words.options;
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
