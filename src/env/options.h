/* SPDX-License-Identifier: MIT */
/*
 * Options of the library's games, which are numbers, and the head of a saved state.
 *
 * A game has a constant table of its options. Their values, in the order of the table, are its settings, with its name.
 */
#pragma once

#include "env/refuse.h"

#include <stdint.h>

enum { GPUR_ENV_MAX_OPTIONS = 4, GPUR_ENV_MAX_NAME = 32 };

/* The largest value of an option that counts steps. */
#define GPUR_ENV_MAX_STEPS 1e12

typedef struct gpur_env_option {
    const char *name;
    double value;     /* the default */
    double low, high; /* the least and the largest value; neither is negative */
    int32_t is_whole; /* 1: whole numbers only */
} gpur_env_option;

typedef struct gpur_env_option_table {
    int32_t count;
    gpur_env_option options[GPUR_ENV_MAX_OPTIONS];
} gpur_env_option_table;

/* A saved state begins with this. */
typedef struct gpur_env_settings {
    char name[GPUR_ENV_MAX_NAME]; /* of the game */
    double values[GPUR_ENV_MAX_OPTIONS];
} gpur_env_settings;

/* Reads "name=value,name=value"; options that are not named have their defaults. Returns NULL or a sentence. */
const char *gpur_env_settings_read(gpur_env_settings *settings, const char *name, const gpur_env_option_table *table,
                                   const char *text);

/* Refuses to load a state that was saved by another game or with other options. */
const char *gpur_env_settings_check(const gpur_env_settings *settings, const gpur_env_option_table *table,
                                    const gpur_env_settings *saved);

/* Refuses a saved count of an episode's steps that is negative, or could overflow. */
const char *gpur_env_steps_check(const gpur_env_settings *settings, int64_t saved);
