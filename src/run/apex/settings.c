/* SPDX-License-Identifier: MIT */
/* The settings of a run: defaults, checks, and the ladder of epsilons. */
#include "run/apex/handle.h"

#include "base/sized.h"
#include "env/type.h"
#include "learn/returns/return_cache.h"
#include "replay/config.h"
#include "replay/storage/layout.h"
#include "replay/view.h"
#include "run/action_vectors.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BLOCK_ROWS = 65536, MAX_REPLICATE = 64 };

static const gpur_apex_config defaults = {
    .size = sizeof(gpur_apex_config),
    .actors = 8,
    .epsilon_base = 0.4f,
    .epsilon_exponent = 7.0f,
    .block_rows = 50,
    .initial_priorities = 1,
    .replicate = 1,
    .pull_period = 100,
    .max_episode_steps = 12500,
    .broadcast_period = 10,
    .trim_period = 100,
    .limiter_timeout = 10.0,
    .restarts = 1,
    .sigma = 0.3f,
};

gpur_status gpur_apex_config_init(gpur_apex_config *config, uint64_t size)
{
    return gpur_sized_init(config, size, &defaults, sizeof defaults, "gpur_apex_config");
}

/* Horgan et al. 2018, section 4.1; with one actor the formula has 0 / 0. */
float gpur_apex_exploration_of(const gpur_apex_config *config, int has_vectors, int32_t i, int32_t n)
{
    if (has_vectors)
        return config->sigma;
    const double base = (double)config->epsilon_base, exponent = (double)config->epsilon_exponent;
    if (config->epsilons)
        return config->epsilons[i % config->epsilon_count];
    return n > 1 ? (float)pow(base, 1.0 + exponent * (double)i / (double)(n - 1)) : config->epsilon_base;
}

/* If so many rows are under way, as many come while one of them is [Little 1961]. */
int64_t gpur_apex_rows_under_way(double samples_per_insert, int64_t batch_size, int64_t target_period)
{
    static const double most = 1e15;
    const double rows = 0.5 * (double)target_period * (double)batch_size / samples_per_insert;
    return samples_per_insert > 0.0 ? (int64_t)fmin(fmax(rows, 1.0), most) : 0;
}

int32_t gpur_apex_block_rows(const gpur_apex_config *c, int32_t actors)
{
    const int64_t share = c->rows_under_way / gpur_max(actors, 1);
    const int is_limited = c->samples_per_insert > 0.0 && c->rows_under_way > 0;
    return is_limited ? (int32_t)gpur_min(gpur_max(share, 1), c->block_rows) : c->block_rows;
}

gpur_actor_settings gpur_apex_actor_settings(const gpur_run_config *run, const gpur_apex_config *c, int has_vectors,
                                             int32_t actor, int64_t incarnation)
{
    return (gpur_actor_settings){.actor = actor,
                                 .epsilon = gpur_apex_exploration_of(c, has_vectors, actor, c->actors),
                                 .incarnation = incarnation,
                                 .seed = run->seed,
                                 .pull_period = c->pull_period,
                                 .max_episode_steps = c->max_episode_steps,
                                 .block_rows = gpur_apex_block_rows(c, c->actors),
                                 .compression = c->compression,
                                 .initial_priorities = c->initial_priorities,
                                 .eval_envs = (int32_t)gpur_max(gpur_run_eval_envs(run, run->eval_episodes), 1),
                                 .waits = c->samples_per_insert > 0.0};
}

gpur_actor_settings gpur_apex_slot_settings(const gpur_slot *slot)
{
    gpur_apex *const apex = slot->apex;
    gpur_actor_settings settings =
        gpur_apex_actor_settings(&apex->core.config, &apex->config, 0, slot->actor, slot->incarnation);
    gpur_mutex_lock(&apex->core.lock);
    settings.epsilon = slot->epsilon; /* also of one whose number the run has no longer, or of the evaluator */
    settings.block_rows = slot->block_rows;
    gpur_mutex_unlock(&apex->core.lock);
    return settings;
}

static gpur_status check_positive(int64_t value, const char *name)
{
    GPUR_REQUIRE(value >= 1, "%s is %" PRId64 "; it must be 1 or more", name, value);
    return GPUR_OK;
}

static gpur_status check_epsilon(float value, const char *name)
{
    GPUR_REQUIRE(value >= 0.0f && value <= 1.0f, "%s is %g; it must be 0 to 1", name, (double)value);
    return GPUR_OK;
}

static gpur_status check_epsilons(const gpur_apex_config *c)
{
    GPUR_TRY(check_epsilon(c->epsilon_base, "epsilon_base"));
    GPUR_REQUIRE(c->epsilon_exponent >= 0.0f && c->epsilon_exponent < INFINITY,
                 "epsilon_exponent is %g; it must be 0 or more, and finite", (double)c->epsilon_exponent);
    GPUR_REQUIRE(!c->epsilons || c->epsilon_count >= 1,
                 "epsilon_count is %d and epsilons is not NULL; the first must "
                 "be 1 or more",
                 (int)c->epsilon_count);
    GPUR_REQUIRE(c->sigma >= 0.0f && c->sigma < INFINITY, "sigma is %g; it must be 0 or more, and finite",
                 (double)c->sigma);
    for (int32_t i = 0; c->epsilons && i < c->epsilon_count; i++)
        GPUR_TRY(check_epsilon(c->epsilons[i], "one of the epsilons"));
    return GPUR_OK;
}

static gpur_status check_switches(const gpur_apex_config *c)
{
    GPUR_TRY(gpur_choice_check(c->initial_priorities, 1, "initial_priorities", "0 or 1"));
    GPUR_TRY(gpur_choice_check(c->restarts, 1, "restarts", "0 or 1"));
    GPUR_REQUIRE(!c->command || c->command[0], "command is empty; it must be NULL, or have the name of a program");
    return GPUR_OK;
}

static gpur_status check_periods(const gpur_apex_config *c)
{
    GPUR_TRY(gpur_range_check(c->remote_actors, 0, GPUR_APEX_MAX_ACTORS, "remote_actors"));
    GPUR_REQUIRE(c->actors >= !(c->folder || c->remote_actors > 0) && c->actors <= GPUR_APEX_MAX_ACTORS,
                 "actors is %d; it must be 1 to %d, or 0 beside remote actors or a folder", (int)c->actors,
                 GPUR_APEX_MAX_ACTORS);
    GPUR_TRY(gpur_range_check(c->block_rows, 1, MAX_BLOCK_ROWS, "block_rows"));
    GPUR_TRY(gpur_block_check_compression(c->compression, "compression"));
    GPUR_TRY(gpur_range_check(c->replicate, 1, MAX_REPLICATE, "replicate"));
    GPUR_TRY(check_positive(c->pull_period, "pull_period"));
    GPUR_TRY(check_positive(c->broadcast_period, "broadcast_period"));
    GPUR_TRY(check_positive(c->trim_period, "trim_period"));
    GPUR_TRY(gpur_range_check(c->rows_under_way, 0, INT64_MAX / 4, "rows_under_way"));
    return gpur_range_check(c->max_episode_steps, 0, INT64_MAX / 4, "max_episode_steps");
}

/* Both sides of the limiter could wait for each other within a narrower band. */
static gpur_status set_limiter(gpur_apex *apex)
{
    gpur_apex_config *const c = &apex->config;
    const int64_t batch = apex->learner->step->config.batch_size;
    const double least = fmax((double)batch, c->samples_per_insert * (double)c->block_rows);
    GPUR_REQUIRE(c->samples_per_insert >= 0.0 && c->samples_per_insert < HUGE_VAL,
                 "samples_per_insert is %g; it must be 0 (nobody waits) or more, and finite", c->samples_per_insert);
    GPUR_REQUIRE(c->limiter_timeout > 0.0 && c->limiter_timeout < 1e9,
                 "limiter_timeout is %g seconds; it must be above 0, and below 1e9", c->limiter_timeout);
    if (c->limiter_band == 0.0)
        c->limiter_band = 10.0 * least;
    GPUR_REQUIRE(c->limiter_band >= least && c->limiter_band < HUGE_VAL,
                 "limiter_band is %g; it must be at least batch_size, %" PRId64
                 ", and samples_per_insert x block_rows, %g x %d",
                 c->limiter_band, batch, c->samples_per_insert, (int)c->block_rows);
    if (c->rows_under_way == 0)
        c->rows_under_way =
            gpur_apex_rows_under_way(c->samples_per_insert, batch, apex->learner->step->config.target_period);
    apex->limiter =
        (gpur_limiter){.samples_per_insert = c->samples_per_insert, .band = c->limiter_band, .batch = batch};
    return GPUR_OK;
}

static int is_filled_in(const char *name)
{
    static const char *const names[] = {"obs",       "action",   "reward",   "next_obs", "terminated",
                                        "truncated", "discount", "previous", "priority"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], name) == 0)
            return 1;
    return 0;
}

static gpur_status check_replay(const gpur_apex *apex)
{
    const gpur_apex_config *const c = &apex->config;
    const gpur_replay_config *const replay = gpur_replay_settings(apex->replay);
    const gpur_schema *const schema = gpur_replay_schema(apex->replay);
    for (int32_t i = 0; i < schema->count; i++)
        GPUR_REQUIRE(is_filled_in(schema->fields[i].name), "the replay has a field \"%s\", which actors cannot fill in",
                     schema->fields[i].name);
    GPUR_REQUIRE(!c->initial_priorities || (replay->prioritized && gpur_schema_find(schema, "priority") >= 0),
                 "initial_priorities is 1, the replay's prioritized is %d, and it has %s field \"priority\"; for "
                 "initial priorities it must be prioritized and have one",
                 (int)replay->prioritized, gpur_schema_find(schema, "priority") >= 0 ? "a" : "no");
    GPUR_REQUIRE(c->block_rows <= replay->block_rows,
                 "block_rows is %d and that of the replay %" PRId64
                 "; the first must be at most the second: give the replay a larger capacity than %" PRId64
                 ", or make block_rows smaller",
                 (int)c->block_rows, replay->block_rows, replay->capacity);
    GPUR_REQUIRE(replay->when_full == GPUR_WHEN_FULL_WAIT,
                 "the replay's when_full is %d; it must be GPUR_WHEN_FULL_WAIT (0)", (int)replay->when_full);
    const int64_t kept = gpur_kept_rows(replay);
    GPUR_REQUIRE(c->soft_capacity == 0 || (c->soft_capacity >= kept && c->soft_capacity <= replay->capacity),
                 "soft_capacity is %" PRId64 "; it must be 0 (none), or %" PRId64
                 ", the transitions that stay visible while others come, to the replay's capacity, %" PRId64,
                 c->soft_capacity, kept, replay->capacity);
    return GPUR_OK;
}

static gpur_status check_learner(const gpur_apex *apex)
{
    const gpur_return_cache *const cache = apex->learner->step->cache;
    GPUR_REQUIRE(!cache,
                 "the learner's returns.cache_size is %" PRId64 "; it must be 0: actors give their transitions n-step "
                 "returns",
                 cache->size);
    return GPUR_OK;
}

static gpur_status check_env(const gpur_apex *apex)
{
    gpur_env_info info = {.size = sizeof info};
    gpur_obs_shape shape;
    GPUR_TRY(gpur_env_get_info(apex->core.config.type, apex->core.config.env_options, &info));
    GPUR_TRY(gpur_action_check(&info.action, apex->networks.acting));
    return gpur_obs_shape_find(&info.obs, gpur_replay_schema(apex->replay), gpur_replay_settings(apex->replay), &shape);
}

/* Copies. */

static gpur_status copy_text(const char *from, char **to)
{
    *to = strdup(from);
    return *to ? GPUR_OK : gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for %zu bytes of text", strlen(from));
}

static gpur_status copy_command(gpur_apex *apex, const char *const *command)
{
    size_t words = 0;
    while (command[words])
        words++;
    apex->command = calloc(words + 1, sizeof *apex->command);
    if (!apex->command)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for a command of %zu words", words);
    for (size_t i = 0; i < words; i++)
        GPUR_TRY(copy_text(command[i], &apex->command[i]));
    return GPUR_OK;
}

static gpur_status copy_epsilons(gpur_apex *apex)
{
    gpur_apex_config *const c = &apex->config;
    const size_t bytes = (size_t)c->epsilon_count * sizeof *apex->epsilons;
    apex->epsilons = malloc(bytes);
    if (!apex->epsilons)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for %d epsilons", (int)c->epsilon_count);
    memcpy(apex->epsilons, c->epsilons, bytes);
    c->epsilons = apex->epsilons;
    return GPUR_OK;
}

static gpur_status copy_pointers(gpur_apex *apex)
{
    gpur_apex_config *const c = &apex->config;
    if (c->folder)
        GPUR_TRY(copy_text(c->folder, &apex->folder_name));
    if (c->command)
        GPUR_TRY(copy_command(apex, c->command));
    if (c->epsilons)
        GPUR_TRY(copy_epsilons(apex));
    c->command = NULL, c->folder = NULL;
    return GPUR_OK;
}

static gpur_status read_config(const gpur_apex_config *given, gpur_apex_config *config)
{
    *config = defaults;
    GPUR_TRY(gpur_sized_read(config, sizeof *config, given, "gpur_apex_config"));
    GPUR_TRY(check_switches(config));
    GPUR_TRY(check_periods(config));
    return check_epsilons(config);
}

gpur_status gpur_apex_read_remote_config(const gpur_apex_config *given, int32_t actor, gpur_apex_config *config)
{
    GPUR_TRY(read_config(given, config));
    GPUR_REQUIRE(actor >= 0 && actor < config->actors,
                 "actor is %d and actors, of all remote actors, %d; it must be below that", (int)actor,
                 (int)config->actors);
    return GPUR_OK;
}

gpur_status gpur_apex_configure(gpur_apex *apex, const gpur_apex_config *given)
{
    GPUR_TRY(read_config(given, &apex->config));
    GPUR_TRY(gpur_run_require_type(&apex->core.config, "Ape-X"));
    GPUR_TRY(check_learner(apex));
    GPUR_TRY(check_replay(apex));
    GPUR_TRY(set_limiter(apex));
    GPUR_TRY(copy_pointers(apex));
    return check_env(apex);
}

void gpur_apex_free_config(gpur_apex *apex)
{
    for (size_t i = 0; apex->command && apex->command[i]; i++)
        free(apex->command[i]);
    free(apex->command);
    free(apex->epsilons);
    free(apex->folder_name);
}
