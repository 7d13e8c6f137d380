/* SPDX-License-Identifier: MIT */
/* An actor of Ape-X: acts in an environment, and hands over packed blocks of what it did. */
#include "run/apex/actor.h"

#include "run/apex/action_selector.h"
#include "base/clock.h"
#include "base/sized.h"
#include "env/type.h"
#include "kernels/lib/random.h"
#include "run/action_vectors.h"
#include "run/core.h"

#include <inttypes.h>
#include <stdlib.h>

typedef struct actor {
    const gpur_actor_context *context;
    const gpur_actor_settings *settings;
    const gpur_actor_transport *transport;
    gpur_obs_shape obs_shape;
    gpur_env_runner runner;
    gpur_action_selector selector;
    gpur_packer *packer;
    unsigned char *weights;     /* of its policies, as bytes; memory for the transport */
    const void **extras;        /* (fields of the schema) */
    int64_t steps;              /* of the environment */
    gpur_actor_episode episode; /* the game so far */
    int is_at_block;            /* 1: a block was handed over, and the next step is the first one after it */
    double clock;               /* seconds: until then its time is counted */
} actor;

/* A priority that is none: the replay gives the transition its first one. */
static const float no_priority = NAN;

static int is_asked(const actor *a)
{
    return atomic_load_explicit(&a->context->counts->is_asked, memory_order_relaxed);
}

/* Counts the time since the last call as the part's, or with NULL as that of none. */
static void lap(actor *a, _Atomic int64_t *part)
{
    const double now = gpur_clock_seconds();
    const int64_t spent = (int64_t)((now - a->clock) * 1e9);
    a->clock = now;
    atomic_fetch_add(&a->context->counts->nanoseconds, spent);
    if (part)
        atomic_fetch_add(part, spent);
}

uint64_t gpur_actor_seed(const gpur_actor_settings *s, int32_t index, int is_of_exploration)
{
    const gpur_u32x4 bits =
        gpur_random_bits(s->seed, GPUR_RANDOM_APEX_ACTOR, (uint64_t)s->incarnation, (uint32_t)index);
    const uint32_t *const v = &bits.v[is_of_exploration ? 2 : 0];
    return (uint64_t)v[1] << 32 | v[0];
}

/* Opening. */

gpur_status gpur_actor_make_env(const gpur_actor_context *context, const gpur_actor_settings *settings, uint64_t seed,
                                gpur_env_runner *runner, gpur_env_info *info)
{
    void *env = NULL;
    *info = (gpur_env_info){.size = sizeof *info};
    GPUR_TRY(gpur_env_type_check(context->type));
    runner->type = context->type;
    GPUR_TRY(gpur_env_error(context->type->init(context->env_options, seed, info, &env)));
    GPUR_TRY(gpur_env_runner_take_env(runner, env, info));
    gpur_env_runner_limit(runner, settings->max_episode_steps);
    return gpur_action_check(&info->action, context->networks.acting);
}

static gpur_status open_env(actor *a, uint64_t seed, gpur_space *actions)
{
    gpur_env_info info;
    GPUR_TRY(gpur_actor_make_env(a->context, a->settings, seed, &a->runner, &info));
    *actions = info.action;
    return gpur_obs_shape_find(&info.obs, &a->context->format->schema, &a->context->format->config, &a->obs_shape);
}

static gpur_status open_packer(actor *a)
{
    const gpur_actor_settings *const s = a->settings;
    gpur_packer_config config;
    GPUR_TRY(gpur_packer_config_init(&config, sizeof config));
    config.actor = s->actor;
    config.incarnation = s->incarnation;
    config.rows = s->block_rows;
    config.num_actions = !s->initial_priorities        ? 0
                         : a->context->networks.critic ? 1 /* a value, as the packer has it for vectors */
                                                       : a->context->networks.acting->num_actions;
    config.critics = config.num_actions > 0 && a->context->networks.critic ? a->selector.policies.critics : 1;
    config.observations =
        a->context->format->config.layout == GPUR_LAYOUT_FRAMES ? GPUR_OBSERVATIONS_FRAMES : GPUR_OBSERVATIONS_STACKS;
    config.compression = s->compression;
    return gpur_packer_create(a->context->format, &config, &a->packer);
}

static gpur_status alloc_arrays(actor *a)
{
    const int64_t bytes = gpur_actor_policies_bytes(&a->selector.policies);
    a->weights = malloc((size_t)bytes);
    if (!a->weights)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for %" PRId64 " bytes of weights", bytes);
    a->extras = calloc((size_t)a->context->format->schema.count, sizeof *a->extras);
    if (!a->extras)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for the values of an actor's fields");
    return GPUR_OK;
}

static gpur_status pull(actor *a)
{
    int is_newer = 0;
    GPUR_TRY(a->transport->pull(a->transport->context, &a->selector.policies, a->weights, &is_newer));
    atomic_fetch_add_explicit(&a->context->counts->pulls, is_newer, memory_order_relaxed);
    return GPUR_OK;
}

/* Refuses a schema that a learner of these networks would refuse. */
static gpur_status find_fields(const gpur_actor_context *context, gpur_learn_fields *fields)
{
    const gpur_apex_networks *const n = &context->networks;
    GPUR_TRY(gpur_learn_fields_find(fields, &context->format->schema, n->critic ? n->acting->num_actions : 0));
    GPUR_REQUIRE(!n->critic || fields->obs_format.is_float, "field \"obs\" is uint8; it must be float32");
    return GPUR_OK;
}

/* Environment and exploration of each incarnation have seeds of their own. */
static gpur_status open_actor(actor *a)
{
    const gpur_actor_settings *const s = a->settings;
    const gpur_schema *const schema = &a->context->format->schema;
    gpur_learn_fields fields;
    gpur_space actions;
    GPUR_TRY(find_fields(a->context, &fields));
    GPUR_TRY(open_env(a, gpur_actor_seed(s, s->actor, 0), &actions));
    GPUR_TRY(gpur_action_selector_open(&a->selector, a->context->device, schema, &fields, &a->context->networks,
                                       &actions, s->initial_priorities, gpur_actor_seed(s, s->actor, 1)));
    GPUR_TRY(open_packer(a));
    GPUR_TRY(alloc_arrays(a));
    const int32_t priority = gpur_schema_find(schema, "priority");
    if (priority >= 0)
        a->extras[priority] = &no_priority;
    GPUR_TRY(gpur_env_runner_open(&a->runner, &a->obs_shape, NULL, a->context->format->config.check_finite));
    return pull(a);
}

static void close_actor(actor *a)
{
    gpur_packer_destroy(a->packer);
    gpur_action_selector_close(&a->selector);
    gpur_env_runner_close(&a->runner);
    free(a->weights);
    free(a->extras);
}

/* Acting. */

static gpur_status send_blocks(actor *a, int32_t all)
{
    const void *block;
    int64_t bytes;
    for (;;) {
        GPUR_TRY(gpur_packer_take(a->packer, all, &block, &bytes));
        if (!block)
            return GPUR_OK;
        atomic_fetch_add_explicit(&a->context->counts->blocks, 1, memory_order_relaxed);
        lap(a, NULL);
        GPUR_TRY(a->transport->take_block(a->transport->context, block, bytes, a->steps));
        lap(a, &a->context->counts->wait_nanoseconds);
        a->is_at_block = 1;
    }
}

static gpur_status choose(actor *a)
{
    const gpur_action_noise choice = {
        .lane = (uint32_t)a->settings->actor, .step = (uint64_t)a->steps, .noise = a->settings->epsilon};
    lap(a, NULL);
    GPUR_TRY(gpur_action_selector_select(&a->selector, a->runner.obs, &choice));
    lap(a, &a->context->counts->infer_nanoseconds);
    return GPUR_OK;
}

/* Its random numbers are those of a lane that no actor has. */
static gpur_status value_end(actor *a)
{
    const gpur_action_noise choice = {.lane = ~(uint32_t)a->settings->actor, .step = (uint64_t)a->steps};
    lap(a, NULL);
    GPUR_TRY(gpur_action_selector_value(&a->selector, a->runner.obs, &choice));
    lap(a, &a->context->counts->infer_nanoseconds);
    return GPUR_OK;
}

static gpur_status record(actor *a, const gpur_env_result *result)
{
    const gpur_action_selector *const c = &a->selector;
    const int has_priorities = a->settings->initial_priorities, cut = result->truncated && !result->terminated;
    if (has_priorities && cut)
        GPUR_TRY(value_end(a));
    const gpur_packer_step_input input = {
        .size = sizeof input,
        .action = c->action,
        .reward = result->reward,
        .terminated = result->terminated != 0,
        .truncated = result->truncated != 0,
        .next_obs = a->runner.frame,
        .q = has_priorities ? c->q : NULL,
        .final_q = has_priorities && cut ? c->final_q : NULL,
        .extras = a->extras,
        .version = c->version,
    };
    return gpur_packer_step(a->packer, &input);
}

static gpur_status begin_episode(actor *a)
{
    lap(a, NULL);
    GPUR_TRY(gpur_env_runner_reset(&a->runner));
    lap(a, &a->context->counts->env_nanoseconds);
    return gpur_packer_reset(a->packer, a->runner.frame);
}

static gpur_status end_episode(actor *a, const gpur_env_result *result)
{
    if (!result->continues) {
        const gpur_actor_episode episode = a->episode;
        a->episode = (gpur_actor_episode){0};
        lap(a, NULL);
        GPUR_TRY(a->transport->take_episode(a->transport->context, &episode, a->steps));
        lap(a, &a->context->counts->wait_nanoseconds);
    }
    return begin_episode(a);
}

static gpur_status take_step(actor *a)
{
    gpur_env_result result;
    GPUR_TRY(choose(a));
    GPUR_TRY(gpur_env_runner_step(&a->runner, a->selector.env_action, &result));
    lap(a, &a->context->counts->env_nanoseconds);
    a->episode.length++;
    a->episode.episode_return += (double)result.reward;
    GPUR_TRY(record(a, &result));
    atomic_store_explicit(&a->context->counts->steps, ++a->steps, memory_order_relaxed);
    GPUR_TRY(send_blocks(a, 0));
    return result.terminated || result.truncated ? end_episode(a, &result) : GPUR_OK;
}

/* The open episode is closed as if cut off, so that nothing of it is lost. */
static gpur_status finish(actor *a)
{
    GPUR_TRY(gpur_packer_reset(a->packer, a->runner.frame));
    return send_blocks(a, 1);
}

/* Whether it takes weights before its next step. After a wait there may be much newer ones. */
static int is_to_pull(const actor *a)
{
    return a->steps % a->settings->pull_period == 0 || (a->settings->waits && a->is_at_block);
}

static gpur_status act(actor *a)
{
    GPUR_TRY(open_actor(a));
    GPUR_TRY(begin_episode(a));
    while (!is_asked(a)) {
        if (is_to_pull(a))
            GPUR_TRY(pull(a));
        a->is_at_block = 0;
        GPUR_TRY(gpur_prefix_error(take_step(a), "step %" PRId64, a->steps));
    }
    return finish(a);
}

gpur_status gpur_actor_run(const gpur_actor_context *context, const gpur_actor_settings *settings,
                           const gpur_actor_transport *transport)
{
    actor a = {.context = context, .settings = settings, .transport = transport, .clock = gpur_clock_seconds()};
    if (settings->actor == GPUR_APEX_EVALUATOR)
        return gpur_actor_evaluate(context, settings, transport);
    const gpur_status status = act(&a);
    atomic_store(&context->counts->has_refused, status != GPUR_OK && a.runner.has_refused);
    close_actor(&a);
    return status;
}

/* Outside of the learner's threads. */

gpur_status gpur_actor_open_device(int32_t threads, gpur_device **device)
{
    gpur_device_config config;
    GPUR_TRY(gpur_device_config_init(&config, sizeof config));
    config.threads = threads;
    return gpur_device_open("cpu", &config, device);
}

static gpur_status check_networks(const gpur_apex_networks *n)
{
    GPUR_REQUIRE(n->acting, "networks.acting is NULL; an actor needs the network that chooses actions");
    GPUR_REQUIRE(n->critic ||
                     (n->acting->head != GPUR_HEAD_TANH_ACTION && n->acting->head != GPUR_HEAD_SQUASHED_GAUSSIAN),
                 "networks.critic is NULL, and networks.acting is a policy network of DPG or SAC; then both must be "
                 "there");
    GPUR_TRY(gpur_range_check(n->critics, 0, 2, "networks.critics"));
    return gpur_reserved_check(&(const int64_t){n->reserved}, 1, "gpur_apex_networks");
}

gpur_status gpur_actor_resources_read(gpur_actor_resources *r, const gpur_run_config *run,
                                      const gpur_replay_config *replay, const gpur_apex_networks *networks,
                                      int32_t threads)
{
    gpur_actor_context *const c = &r->context;
    GPUR_TRY(gpur_run_read_config(run, &r->run));
    GPUR_TRY(gpur_run_require_type(&r->run, "Ape-X"));
    GPUR_REQUIRE(replay && networks, "replay and networks must not be NULL");
    GPUR_TRY(gpur_sized_read(&c->networks, sizeof c->networks, networks, "gpur_apex_networks"));
    GPUR_TRY(check_networks(&c->networks));
    GPUR_REQUIRE(threads >= 0 && threads <= 1024, "threads is %d; it must be 0 (1) to 1024", (int)threads);
    r->replay = replay;
    c->type = r->run.type, c->env_options = r->run.env_options;
    r->threads = threads > 0 ? threads : 1;
    return GPUR_OK;
}

gpur_status gpur_actor_resources_open(gpur_actor_resources *r)
{
    gpur_actor_context *const c = &r->context;
    GPUR_TRY(gpur_block_format_create(r->replay, &r->format));
    GPUR_TRY(gpur_actor_open_device(r->threads, &r->device));
    c->device = r->device, c->format = r->format;
    return GPUR_OK;
}

void gpur_actor_resources_close(gpur_actor_resources *r)
{
    gpur_block_format_destroy(r->format);
    gpur_device_close(r->device);
}
