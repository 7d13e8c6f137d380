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

/* An option of the command line: "--name=value", or "--name" whose value is the next word (NULL: there is none). In
 * `name` words are joined by "_". */
typedef struct word {
    char name[64];
    const char *value;
    int has_equals;
} word;

word split_word(char **words);

/* Whether SIGINT or another signal has asked to end. */
int was_interrupted(void *user);

/* The commands play and evaluate, with the words that follow them. */
int play(const char *command, char **words);

/* Runs with several seeds, "1-8", side by side: processes of this program with these options, "name=value", `count` of
 * them, with room for two more. `out`: the beginning of their folders' names; NULL: runs/ENV. */
int train_seeds(const char *seeds, const char **options, int32_t count, const char *out, int is_quiet);
