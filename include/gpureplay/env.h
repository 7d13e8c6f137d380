/* SPDX-License-Identifier: MIT */
/*
 * Environments: what agents act in. A type of environment is a struct of functions, which this library has for some
 * games, and a plug-in for any other: a shared object that exports gpur_env_plugin. The terms are those of Gymnasium.
 *
 * A plug-in needs this header alone, and is not linked with the library:
 *
 *     #include <gpureplay/env.h>
 *     static const gpur_env_type corridor = {.size = sizeof corridor, .name = "Corridor", .init = init_env,
 *                                            .reset = reset_env, .step = step_env, .close = close_env};
 *     const gpur_env_type *gpur_env_plugin(const char *name)
 *     {
 *         return &corridor;
 *     }
 *
 * It is compiled by "cc -shared -fPIC -o corridor.so corridor.c".
 *
 * Functions of an environment return NULL, or a sentence that says what went wrong, with the value given and the value
 * wanted. The sentence is valid until the next call in the same thread. After a call that failed, an environment can be
 * reset and closed.
 *
 * An environment is used by one thread at a time. Different environments, also of one type, are independent: they may
 * be used by different threads at once, and equal options, seeds and actions give equal results, whatever others do.
 */
#ifndef GPUREPLAY_ENV_H
#define GPUREPLAY_ENV_H

#include "gpureplay/writer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What an environment shows (an array of numbers), or what actions it takes. The arrays belong to the environment's
 * type, and are valid as long as the process runs. */
typedef struct gpur_space {
    int32_t dtype;                /* GPUR_FLOAT32 ... GPUR_BOOL; of discrete actions GPUR_INT32 */
    int32_t shape[GPUR_MAX_DIMS]; /* ends at the first 0, as in gpur_field; {0} is one number */
    int32_t num_actions;          /* discrete actions: 0 to num_actions - 1. 0: not discrete */
    float low, high;              /* the least and the largest value of every number; infinite: no bound. Of discrete
                                     actions 0 and num_actions - 1 */
    const float *lows, *highs;    /* of each number, in the order of the shape, where they differ; else NULL */
} gpur_space;

/* Where an environment tells no max_steps, the steps after which runs truncate a game of an evaluation: a network may
 * play one without end. They are 30 minutes of an Atari game. */
enum { GPUR_EVALUATION_STEPS = 27000 };

/* What `init` reports of an environment. */
typedef struct gpur_env_info {
    uint64_t size;      /* sizeof(gpur_env_info), as the caller was compiled: fill in no more than that */
    gpur_space obs;     /* what reset and step write */
    gpur_space action;  /* what step takes: one int32 if it is discrete, otherwise an array with this dtype and shape */
    int64_t max_steps;  /* the most steps of a game; 0: no fixed number. The library ends a game that is not over by
                          then: it sets `truncated` of the step with this number. If a life was lost in that step, it
                          sets that of the next step. An environment that ends its games itself is left alone. The
                          environments of a vector reset themselves, so there the number is only reported */
    int64_t save_bytes; /* memory that `save` fills; 0: this environment cannot save its state */
} gpur_env_info;

/* The result of a step. */
typedef struct gpur_env_result {
    float reward;       /* finite, as observations are: runs refuse others, unless check_finite is 0 */
    uint8_t terminated; /* 1: the episode has ended; nothing more can be gained in it */
    uint8_t truncated;  /* 1: the episode was cut off, by a limit of steps for example */
    uint8_t continues;  /* 1, with `terminated` 1: a life was lost, but the game is not over. The next reset goes on
                           with it, and its return is the sum over all its lives. 0, with terminated or truncated 1: the
                           game is over */
    uint8_t reserved;   /* 0 */
} gpur_env_result;

/* A type of environment that steps one at a time. */
typedef struct gpur_env_type {
    uint64_t size;       /* sizeof(gpur_env_type), as the type was compiled */
    const char *name;    /* for messages: "CartPole-v1" */
    const char *options; /* for help: a line for each option, "name=default  meaning"; NULL: it has no options */

    /*
     * Makes an environment. Its first call after that is `reset`.
     *
     *   options  "name=value,name=value", "" for the defaults
     *   seed     of everything random in all its episodes
     *   info     `size` is set by the caller; init fills in the other members
     *   env      receives the environment, or NULL if the call fails
     */
    const char *(*init)(const char *options, uint64_t seed, gpur_env_info *info, void **env);

    /* Begins an episode, and writes its first observation. */
    const char *(*reset)(void *env, void *obs);

    /* Takes a step, and writes all of the result, and the observation after it: at an episode's end the last one. Then
     * `reset` comes next.
     * action: one int32 in host memory if actions are discrete, otherwise an array of the action's shape. */
    const char *(*step)(void *env, const void *action, void *obs, gpur_env_result *result);

    /* Frees the environment. NULL is not given. */
    void (*close)(void *env);

    /* Writes the state (save_bytes), from which `load`, into any environment of equal options, goes on with the same
     * bits: random numbers and the open episode included. NULL where save_bytes is 0. */
    const char *(*save)(void *env, void *state);
    const char *(*load)(void *env, const void *state);
} gpur_env_type;

/* The arrays of one step of a vector environment, in host memory. */
typedef struct gpur_vector_result {
    void *next_obs;      /* (num_envs, ...) out; see autoreset */
    void *final_obs;     /* (num_envs, ...) out, with GPUR_AUTORESET_SAME_STEP, for episodes that ended */
    float *reward;       /* (num_envs) out */
    uint8_t *terminated; /* (num_envs) out */
    uint8_t *truncated;  /* (num_envs) out */
    uint8_t *continues;  /* (num_envs) out; as in gpur_env_result */
} gpur_vector_result;

/* A type of environment that steps many at once: for libraries that have threads of their own. */
typedef struct gpur_vector_env_type {
    uint64_t size;       /* sizeof(gpur_vector_env_type), as the type was compiled */
    const char *name;    /* as in gpur_env_type */
    const char *options; /* as in gpur_env_type */
    int32_t autoreset;   /* GPUR_AUTORESET_NEXT_STEP or GPUR_AUTORESET_SAME_STEP, of writer.h */
    int32_t reserved;    /* 0 */
    const char *(*init)(const char *options, uint64_t seed, int32_t num_envs, gpur_env_info *info, void **env);
    const char *(*reset)(void *env, void *obs); /* all: obs (num_envs, ...) */
    const char *(*step)(void *env, const void *actions, const gpur_vector_result *result);
    void (*close)(void *env);
} gpur_vector_env_type;

/*
 * What a plug-in exports, one or both: the type of that name, or its only one for "". NULL: it has none of that name.
 * Called once for each gpur_env_find. The plug-in's own declarations need no attribute to make them visible.
 *
 *     #include <gpureplay/env.h>
 *     const gpur_env_type *gpur_env_plugin(const char *name)
 *     {
 *         return *name == '\0' || strcmp(name, "Corridor") == 0 ? &corridor : NULL;
 *     }
 *     const gpur_vector_env_type *gpur_vector_env_plugin(const char *name)
 *     {
 *         return *name == '\0' || strcmp(name, "Corridors") == 0 ? &corridors : NULL;
 *     }
 */
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif
const gpur_env_type *gpur_env_plugin(const char *name);
const gpur_vector_env_type *gpur_vector_env_plugin(const char *name);

/*
 * What a plug-in may export besides: the name of a type for index 0, 1, ...; NULL after the last one. `gpureplay-train
 * list ./games.so` shows these names.
 *
 *     #include <gpureplay/env.h>
 *     const char *gpur_env_plugin_name(int32_t index)
 *     {
 *         static const char *const names[] = {"Corridor", "Corridors"};
 *         return index < 2 ? names[index] : NULL;
 *     }
 */
const char *gpur_env_plugin_name(int32_t index);
#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

/*
 * Finds a type of environment by its name. Any thread.
 *
 *   name    a game of this library ("CartPole-v1", "MinAtar/Breakout", ...), or a plug-in's file, which has a slash
 *           or ends in ".so", and after a colon a name for gpur_env_plugin: "./corridor.so", "./games.so:Corridor". It
 *           stays loaded as long as the process runs. Without a slash it is searched for where dlopen searches
 *   type    receives the type, or NULL if the call fails. It is valid as long as the process runs, and has this
 *           library's size: functions that an older plug-in does not know are NULL
 *
 *   GPUR_INVALID_ARGUMENT  no game or file of that name, a file that exports no gpur_env_plugin, that returns NULL, or
 *                          a type without a function that it must have; NULL
 *   GPUR_UNAVAILABLE       a plug-in that has only types of the other kind; the message names the function to find them
 */
GPUR_API gpur_status gpur_env_find(const char *name, const gpur_env_type **type);

/*
 * Does what gpur_env_find does, for a type that steps many at once, which only plug-ins have. Any thread.
 *
 *     gpur_vector_env_find("./corridors.so", &run_config.vector);
 */
GPUR_API gpur_status gpur_vector_env_find(const char *name, const gpur_vector_env_type **type);

/*
 * Reports what environments of a type show and take: makes one (of a vector, one with num_envs 1) and closes it. No
 * other function of the type is called. Any thread.
 *
 *   options  of `init`
 *   info     `size` is set by the caller
 *
 *   GPUR_INVALID_ARGUMENT  options that init refuses, an init that returns no environment, a type without a name, init
 *                          or close; NULL. info is unchanged
 *
 *     const gpur_env_type *type;
 *     gpur_env_info info = {.size = sizeof info};
 *     gpur_env_find("MinAtar/Breakout", &type);
 *     gpur_env_get_info(type, "", &info);
 *     printf("%d actions, %d x %d pixels\n", info.action.num_actions, info.obs.shape[0], info.obs.shape[1]);
 */
GPUR_API gpur_status gpur_env_get_info(const gpur_env_type *type, const char *options, gpur_env_info *info);

/*
 * Does what gpur_env_get_info does, for a type that steps many at once; save_bytes is 0. Any thread.
 *
 *     const gpur_vector_env_type *type;
 *     gpur_env_info info = {.size = sizeof info};
 *     gpur_vector_env_find("./corridors.so", &type);
 *     gpur_vector_env_get_info(type, "", &info);
 */
GPUR_API gpur_status gpur_vector_env_get_info(const gpur_vector_env_type *type, const char *options,
                                              gpur_env_info *info);

/*
 * Returns the name of a game of this library, for index 0, 1, ...; NULL after the last one. The string has static
 * storage. Any thread.
 *
 *     for (int32_t i = 0; gpur_env_name(i); i++)
 *         puts(gpur_env_name(i));
 */
GPUR_API const char *gpur_env_name(int32_t index);

/*
 * Environments of one type that step together, one after another in the calling thread: each call is for all of them.
 * One thread at a time.
 *
 *     const gpur_env_type *type;
 *     const uint64_t seeds[2] = {1, 2};
 *     const int32_t actions[2] = {0, 1};
 *     float obs[2][4], rewards[2];
 *     uint8_t terminated[2], truncated[2], continues[2];
 *     const gpur_vector_result result = {.next_obs = obs, .reward = rewards, .terminated = terminated,
 *                                        .truncated = truncated, .continues = continues};
 *     gpur_env_find("CartPole-v1", &type);
 *     gpur_envs_create(type, "", seeds, 2, GPUR_AUTORESET_NEXT_STEP, &envs);
 *     gpur_envs_reset(envs, NULL, NULL, obs);
 *     for (int step = 0; step < 1000; step++)
 *         gpur_envs_step(envs, actions, &result);
 *     gpur_envs_destroy(envs);
 */
typedef struct gpur_envs gpur_envs;

/*
 * Makes num_envs environments. The first call on them is gpur_envs_reset, for all.
 *
 *   type       must stay valid; those of gpur_env_find do
 *   options    of `init`
 *   seeds      (num_envs) of `init`: an environment does what one alone with its seed would do
 *   autoreset  GPUR_AUTORESET_DISABLED, _NEXT_STEP or _SAME_STEP, of writer.h
 *   envs       receives the environments, or NULL if the call fails
 *
 *   GPUR_INVALID_ARGUMENT  num_envs below 1, another autoreset, options that init refuses, a type without a function
 *                          that it must have; NULL
 *   GPUR_OUT_OF_MEMORY
 */
GPUR_API gpur_status gpur_envs_create(const gpur_env_type *type, const char *options, const uint64_t *seeds,
                                      int32_t num_envs, int32_t autoreset, gpur_envs **envs);

/* Closes the environments, and frees them. NULL does nothing. */
GPUR_API void gpur_envs_destroy(gpur_envs *envs);

/*
 * Begins episodes.
 *
 *   seeds  (num_envs) the environments are made anew with these; NULL: their random numbers go on
 *   mask   (num_envs) not 0: this one is reset; NULL: all are
 *   obs    (num_envs, ...) out: the first observations; of environments that are not reset it stays as it is
 *
 *   GPUR_INVALID_ARGUMENT  a mask that leaves out some where all must be reset, NULL (nothing changed); what an
 *                          environment refuses (all must be reset then)
 */
GPUR_API gpur_status gpur_envs_reset(gpur_envs *envs, const uint64_t *seeds, const uint8_t *mask, void *obs);

/*
 * Takes a step in each environment, and truncates games at the max_steps of their gpur_env_info. With
 * GPUR_AUTORESET_NEXT_STEP the step after the end of an episode begins the next one: its action is not read, its reward
 * is 0, and it ends nothing.
 *
 *   actions  (num_envs, ...) int32 if they are discrete, otherwise arrays of the action's type and shape
 *   result   the arrays, which this fills in; final_obs may be NULL except with GPUR_AUTORESET_SAME_STEP
 *
 *   GPUR_INVALID_ARGUMENT  a discrete action that does not exist, an ended episode with GPUR_AUTORESET_DISABLED, no
 *                          reset before the first step, NULL (nothing changed); what an environment refuses (all must
 *                          be reset then)
 */
GPUR_API gpur_status gpur_envs_step(gpur_envs *envs, const void *actions, const gpur_vector_result *result);

#ifdef __cplusplus
}
#endif
#endif
