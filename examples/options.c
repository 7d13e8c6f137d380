/* SPDX-License-Identifier: MIT */
#include "options.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct option {
    const char *name; /* without the dashes */
    const char *value;
    const char *meaning;
    size_t offset; /* in train_options: an int64_t with a range, or a const char * where high is 0 */
    int64_t low, high;
} option;

static const option known[] = {
    {"device", "NAME", "auto, cpu or cuda:N", offsetof(train_options, device), 0, 0},
    {"resume", "FOLDER", "go on from what a run saved there", offsetof(train_options, resume), 0, 0},
    {"seed", "N", "the same seed trains alike", offsetof(train_options, seed), 0, INT64_MAX},
    {"envs", "N", "environments stepped together", offsetof(train_options, envs), 1, 1024},
    {"steps", "N", "give up after so many environment steps", offsetof(train_options, steps), 1, INT64_MAX},
    {"seconds", "N", "give up after so many seconds", offsetof(train_options, seconds), 1, INT32_MAX},
    {"out", "FOLDER", "where the learning curve goes", offsetof(train_options, out), 0, 0},
};
enum { KNOWN = sizeof known / sizeof *known };

static void print_help(const char *program, const train_options *defaults)
{
    printf("usage: %s [options]\n\n", program);
    for (int i = 0; i < KNOWN; i++) {
        const option *const o = &known[i];
        const void *const field = (const char *)defaults + o->offset;
        printf("  --%-7s %-7s %s (default ", o->name, o->value, o->meaning);
        if (o->high > 0)
            printf("%" PRId64 ")\n", *(const int64_t *)field);
        else
            printf("%s)\n", *(const char *const *)field);
    }
    printf("  --help            this text\n");
}

static int unknown(const char *given)
{
    fprintf(stderr, "unknown option \"%s\"; known are", given);
    for (int i = 0; i < KNOWN; i++)
        fprintf(stderr, " --%s", known[i].name);
    fprintf(stderr, " --help\n");
    return OPTIONS_WRONG;
}

/* Finds the option whose name is the first `length` characters of `text`. */
static const option *find(const char *text, size_t length)
{
    for (int i = 0; i < KNOWN; i++)
        if (strlen(known[i].name) == length && strncmp(known[i].name, text, length) == 0)
            return &known[i];
    return NULL;
}

static int assign(train_options *options, const option *o, const char *value)
{
    void *const field = (char *)options + o->offset;
    if (o->high == 0 && !*value) {
        fprintf(stderr, "--%s is \"\"; it must be %s: %s\n", o->name, o->value, o->meaning);
        return OPTIONS_WRONG;
    }
    if (o->high == 0) {
        *(const char **)field = value;
        return OPTIONS_RUN;
    }
    char *end;
    errno = 0;
    const long long number = strtoll(value, &end, 10);
    if (errno || end == value || *end || number < o->low || number > o->high) {
        fprintf(stderr, "--%s is \"%s\"; it must be a number from %" PRId64 " to %" PRId64 "\n", o->name, value, o->low,
                o->high);
        return OPTIONS_WRONG;
    }
    *(int64_t *)field = number;
    return OPTIONS_RUN;
}

/* Reads "--name value" or "--name=value" at argv[*i], and moves *i to its last word. */
static int read_one(train_options *options, int argc, char **argv, int *i)
{
    const char *const word = argv[*i];
    const char *const equals = strchr(word, '=');
    const size_t length = equals ? (size_t)(equals - word) : strlen(word);
    const option *const o = length > 2 && strncmp(word, "--", 2) == 0 ? find(word + 2, length - 2) : NULL;
    if (!o)
        return unknown(word);
    if (equals)
        return assign(options, o, equals + 1);
    if (*i + 1 < argc)
        return assign(options, o, argv[++*i]);
    fprintf(stderr, "%s has no value; it wants %s: %s\n", word, o->value, o->meaning);
    return OPTIONS_WRONG;
}

int options_read(train_options *options, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            print_help(argv[0], options);
            return OPTIONS_HELP;
        }
        const int verdict = read_one(options, argc, argv, &i);
        if (verdict != OPTIONS_RUN)
            return verdict;
    }
    return OPTIONS_RUN;
}
