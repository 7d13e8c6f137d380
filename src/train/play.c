/* SPDX-License-Identifier: MIT */
/* Games that are played by saved weights. */
#include "gpureplay/play.h"

#include "base/numbers.h"
#include "base/sized.h"
#include "replay/config.h"
#include "run/evaluating_policy.h"
#include "run/evaluate.h"
#include "run/single_env.h"
#include "train/best.h"
#include "train/files.h"
#include "train/options.h"
#include "train/settings.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Environments have the seeds and random numbers of streams that no run has. */
enum { FIRST_STREAM = 1 << 20, MAX_ENVS = 1024, DEFAULT_ENVS = 8 };

typedef struct player {
    gpur_play_config config;
    gpur_options options;
    gpur_train_settings settings;
    int is_run; /* 1: config.path is the folder of a run */
    gpur_device *device;
    gpur_policy *policy;
    gpur_policy_config network; /* of the policy */
    gpur_best best;
    gpur_obs_shape shape;
    gpur_evaluator evaluator;
    gpur_evaluating_policy acting;
    float epsilon;
    gpur_space obs; /* of an environment */
} player;

gpur_status gpur_play_config_init(gpur_play_config *config, uint64_t size)
{
    static const gpur_play_config defaults = {.size = sizeof defaults, .epsilon = -1.0f, .episodes = 30};
    return gpur_sized_init(config, size, &defaults, sizeof defaults, "gpur_play_config");
}

/* What is played. */

static gpur_status read_option(player *p, const char *option)
{
    static const char *const known[] = {"env", "env_options", "device", "threads", "seed"};
    const char *const equals = strchr(option, '=');
    for (size_t i = 0; equals && i < sizeof known / sizeof *known; i++)
        if (strlen(known[i]) == (size_t)(equals - option) && strncmp(known[i], option, strlen(known[i])) == 0)
            return gpur_options_override(&p->options, known[i], equals + 1);
    return gpur_fail(
        GPUR_INVALID_ARGUMENT,
        "option \"%s\" is none of playing; it must be env, env_options, device, threads or seed, with =VALUE", option);
}

/* A file does not say what its network plays. */
static gpur_status find_game_of_file(player *p)
{
    gpur_train_settings *const s = &p->settings;
    GPUR_TRY(gpur_run_config_init(&s->all, sizeof s->all));
    GPUR_TRY(gpur_options_begin(&p->options, s));
    if (!s->env_name && access(p->config.path, F_OK) != 0)
        return gpur_fail(GPUR_FILE_ERROR, "there is no %s; it must be the folder of a run, or a learner's file",
                         p->config.path);
    if (!s->env_name)
        return gpur_refuse(
            &p->options,
            "{env} is missing and %s is not the folder of a run; a file needs the game that its network plays",
            p->config.path);
    GPUR_TRY(gpur_train_find_type(s->env_name, &s->env));
    s->all.type = s->env.type;
    s->all.vector = s->env.vector;
    s->all.env_options = s->env_options;
    return gpur_train_ask_env(s->env_options, &s->env);
}

static gpur_status find_game(player *p)
{
    p->is_run = gpur_file_exists(p->config.path, "."); /* a folder */
    p->options.plays = 1;
    if (p->is_run)
        GPUR_TRY(gpur_options_resume(&p->options, p->config.path));
    GPUR_TRY(gpur_options_override(&p->options, "device", "auto"));
    for (const char *const *option = p->config.options; option && *option; option++)
        GPUR_TRY(read_option(p, *option));
    if (!p->is_run)
        return find_game_of_file(p);
    GPUR_TRY(gpur_train_find_settings(&p->options, &p->settings));
    if (!p->settings.env.type && !p->settings.env.vector)
        return gpur_refuse(&p->options, "the run in %s had no environment; {env} must give the game to play",
                           p->config.path);
    return GPUR_OK;
}

static gpur_status find_weights(player *p, char path[GPUR_MAX_PATH])
{
    if (!p->config.best)
        return gpur_path_make(path, "%s", p->config.path);
    GPUR_TRY(gpur_best_read(p->config.path, &p->best));
    if (!p->best.is_there)
        return gpur_fail(GPUR_FILE_ERROR,
                         "%s has no %s, the weights of its best evaluation, which a run keeps that evaluates; the "
                         "newest weights are "
                         "\"last\"",
                         p->config.path, gpur_best_name);
    return gpur_path_make(path, "%s/%s", p->config.path, gpur_best_name);
}

static gpur_status open_policy(player *p, const char *device, const char *path)
{
    gpur_device_config config;
    gpur_policy_config policy;
    GPUR_TRY(gpur_device_config_init(&config, sizeof config));
    GPUR_TRY(gpur_policy_config_init(&policy, sizeof policy));
    config.threads = p->settings.threads;
    policy.max_batch = p->config.envs;
    policy.seed = (uint64_t)p->settings.seed;
    GPUR_TRY(gpur_device_open(device, &config, &p->device));
    return gpur_policy_open(p->device, path, &policy, &p->policy);
}

/* On the CPU where a GPU that was not asked for lacks cuBLAS. */
static gpur_status open_weights(player *p)
{
    char path[GPUR_MAX_PATH];
    GPUR_TRY(find_weights(p, path));
    gpur_status status = open_policy(p, p->settings.device, path);
    if (status == GPUR_UNAVAILABLE && strcmp(p->settings.device, "auto") == 0 && p->device) {
        gpur_device_close(p->device);
        p->device = NULL;
        status = open_policy(p, "cpu", path);
    }
    GPUR_TRY(status);
    p->network = (gpur_policy_config){.size = sizeof p->network};
    return gpur_policy_get_config(p->policy, &p->network);
}

/* Observations with one axis more than the environment's are a stack of its frames. */
static gpur_status find_shape(player *p)
{
    const int32_t *const seen = p->network.obs.shape, *const shown = p->obs.shape;
    const int32_t dims = gpur_shape_dims(shown), wanted = gpur_shape_dims(seen);
    const int is_first = dims > 0 && memcmp(seen + 1, shown, (size_t)dims * sizeof *shown) == 0;
    const int32_t axis = dims == 0 || dims >= wanted ? -1 : is_first ? 0 : wanted - 1;
    GPUR_TRY(gpur_obs_shape_of(&p->obs, p->network.obs.dtype, seen, axis, "the network's observation", &p->shape));
    p->shape.pads_repeat = p->is_run && p->settings.replay.stack_pad == GPUR_PAD_REPEAT;
    return GPUR_OK;
}

static gpur_status make_envs(player *p)
{
    gpur_env_info info;
    gpur_evaluator *const e = &p->evaluator;
    const gpur_run_config *const all = &p->settings.all;
    const gpur_network_config *const network = &p->network.network;
    GPUR_TRY(gpur_evaluator_alloc(e, p->config.envs, all->type ? all->type : &gpur_single_env,
                                  gpur_evaluating_policy_action_bytes(network), FIRST_STREAM));
    for (int32_t i = 0; i < e->count; i++) {
        const uint64_t seed = gpur_run_env_seed((uint64_t)p->settings.seed, FIRST_STREAM + i, 0);
        GPUR_TRY(gpur_run_make_env(all, seed, &e->runners[i], &info));
    }
    p->obs = info.obs;
    GPUR_TRY(gpur_evaluating_policy_open(&p->acting, p->policy, network, &info.action, p->config.envs));
    GPUR_TRY(find_shape(p));
    return gpur_evaluator_open(e, &p->shape, 1);
}

static gpur_status use_epsilon(player *p)
{
    const int32_t numbers = p->acting.numbers;
    const int has_q = p->network.network.head != GPUR_HEAD_SOFTMAX_VALUE && numbers == 0;
    const float given = p->config.epsilon, own = has_q ? p->settings.all.eval_epsilon : 0.0f;
    p->epsilon = p->config.greedy || numbers > 0 ? 0.0f : given >= 0.0f ? given : own;
    GPUR_REQUIRE(numbers == 0 || given <= 0.0f,
                 "epsilon is %g and the network computes action vectors; it must be left out or 0", (double)given);
    return GPUR_OK;
}

/* Playing. */

static gpur_status choose(void *context, int64_t count, const unsigned char *obs, const uint32_t *streams,
                          const uint64_t *steps, int32_t greedy, void *actions)
{
    player *const p = context;
    if (p->config.on_obs && p->evaluator.env[0] == 0)
        p->config.on_obs(p->config.user, &p->obs, p->evaluator.runners[0].frame);
    return gpur_evaluating_policy_act(&p->acting, count, obs, streams, steps, p->epsilon, greedy, actions);
}

static int is_stopping(void *context)
{
    const player *const p = context;
    return p->config.stop && p->config.stop(p->config.user);
}

static void report_game(void *listener, const gpur_evaluation_game *game)
{
    const player *const p = listener;
    if (p->config.on_game)
        p->config.on_game(p->config.user, game->sum, game->length);
}

/* Student's t at 97.5%: from a table, and beyond it by its expansion [Fisher 1925], with an error below 0.001. */
static double student_t(int64_t degrees)
{
    static const double table[] = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262};
    const double z = 1.959964, n = (double)degrees, z3 = z * z * z, z5 = z3 * z * z;
    if (degrees <= (int64_t)(sizeof table / sizeof *table))
        return table[degrees - 1];
    return z + (z3 + z) / (4.0 * n) + (5.0 * z5 + 16.0 * z3 + 3.0 * z) / (96.0 * n * n) +
           (3.0 * z5 * z * z + 19.0 * z5 + 17.0 * z3 - 15.0 * z) / (384.0 * n * n * n);
}

static void fill_result(player *p, gpur_play_result *result)
{
    gpur_run_event event = {.mean_return = NAN};
    const int64_t played = p->evaluator.ended;
    p->evaluator.episodes = played; /* fewer, after a stop */
    if (played > 0)
        gpur_evaluator_fill_event(&p->evaluator, &event);
    *result = (gpur_play_result){.size = sizeof *result,
                                 .episodes = played,
                                 .length = event.length,
                                 .mean_return = event.mean_return,
                                 .return_deviation = event.return_deviation,
                                 .interval = NAN,
                                 .version = gpur_policy_version(p->policy),
                                 .best_step = p->best.step,
                                 .best_return = p->best.is_there ? p->best.mean_return : NAN};
    if (played > 1) /* the deviation is over the games themselves, not an estimate of that of all games */
        result->interval = student_t(played - 1) * event.return_deviation / sqrt((double)(played - 1));
}

static gpur_status play(player *p, gpur_play_result *result)
{
    GPUR_TRY(find_game(p));
    GPUR_TRY(open_weights(p));
    GPUR_TRY(gpur_prefix_error(make_envs(p), "%s", p->settings.env.name));
    GPUR_TRY(use_epsilon(p));
    p->evaluator.on_game = report_game;
    p->evaluator.listener = p;
    gpur_evaluator_begin(&p->evaluator, p->config.episodes, p->config.greedy);
    GPUR_TRY(gpur_prefix_error(gpur_evaluator_play(&p->evaluator, choose, p, is_stopping), "%s", p->settings.env.name));
    const int is_over = gpur_evaluator_is_over(&p->evaluator);
    fill_result(p, result);
    return is_over ? GPUR_OK
                   : gpur_fail(GPUR_INTERRUPTED, "stopped after %" PRId64 " of %" PRId64 " games", result->episodes,
                               p->config.episodes);
}

static gpur_status check_config(gpur_play_config *c)
{
    GPUR_REQUIRE(c->path, "path is NULL");
    GPUR_TRY(gpur_range_check(c->episodes, 1, INT64_MAX / 4, "episodes"));
    GPUR_TRY(gpur_range_check(c->envs, 0, MAX_ENVS, "envs"));
    GPUR_REQUIRE(c->epsilon == -1.0f || (c->epsilon >= 0.0f && c->epsilon <= 1.0f),
                 "epsilon is %g; it must be 0 to 1, or -1", (double)c->epsilon);
    c->envs = (int32_t)gpur_min(c->envs ? c->envs : DEFAULT_ENVS, c->episodes);
    return GPUR_OK;
}

static void close_player(player *p)
{
    gpur_evaluator_close(&p->evaluator);
    gpur_evaluating_policy_close(&p->acting);
    gpur_policy_destroy(p->policy);
    gpur_device_close(p->device);
    gpur_options_free(&p->options);
    free(p);
}

gpur_status gpur_play(const gpur_play_config *given, gpur_play_result *out)
{
    gpur_play_result result = {.size = sizeof result};
    GPUR_TRY(gpur_sized_check(out, "gpur_play_result"));
    player *const p = calloc(1, sizeof *p);
    if (!p)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for a player");
    gpur_status status = gpur_play_config_init(&p->config, sizeof p->config);
    if (status == GPUR_OK)
        status = gpur_sized_read(&p->config, sizeof p->config, given, "gpur_play_config");
    if (status == GPUR_OK)
        status = check_config(&p->config);
    if (status == GPUR_OK)
        status = play(p, &result);
    close_player(p);
    if (status == GPUR_OK || status == GPUR_INTERRUPTED)
        GPUR_TRY(gpur_sized_write(out, &result, sizeof result, "gpur_play_result"));
    return status;
}
