/* SPDX-License-Identifier: MIT */
/* What the commands of gpureplay-train share. */
#pragma once

#include <stdint.h>

enum { FAILED = 2, INTERRUPTED = 130, MAX_WORDS = 256 };

/* Print an error, as printf would, and return FAILED. */
int fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
int fail_by_library(void);

/* A text that is never freed. */
const char *text_of(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* What a command's words say. */
typedef struct word_list {
    const char *topic;              /* whose --help lists them */
    const char *options[MAX_WORDS]; /* of the library, "name=value", ended by NULL */
    int32_t count;
} word_list;

/* A word that a command takes: "--name VALUE", "--name=VALUE", or a flag. In `name` words are joined by "_". */
typedef struct known_word {
    const char *name, *wanted; /* wanted: the placeholder of its value in the help; NULL: a flag */
    const char **value;        /* NULL: the word is an option of the library */
    int *flag;
} known_word;

/* Takes the next word, with its value, and moves on. Those that are not `known`, which ends with an empty row, are
 * options of trainings if `trains`, else refused. */
int take_word(word_list *w, const known_word *known, int trains, char ***next);

/* Prints the help that gpur_training_help gives. */
int print_help(const char *topic, const char *env, const char *env_options);

/* The program's own file, for starting itself. */
const char *own_path(void);

/* Has the system end this process when the one that started it ends. Not on macOS, which has no such call. */
void end_with_parent(void);

/* The cores that this process may use. */
int32_t own_cores(void);

/* Whether SIGINT or another signal has asked to end. */
int was_interrupted(void *user);

/* The commands play and evaluate, with the words that follow them. */
int play(const char *command, char **words);

/* Runs with several seeds, "1-8", side by side: processes of this program with these options, "name=value", `count` of
 * them, with room for two more. `out`: the beginning of their folders' names; NULL: runs/ENV. */
int train_seeds(const char *seeds, const char **options, int32_t count, const char *out, int is_quiet);
