/* SPDX-License-Identifier: MIT */
/* The public policy: create, destroy, act, statistics. */
#include "learn/acting/policy.h"

#include "base/sized.h"
#include "learn/config.h"
#include "learn/weights_file.h"
#include "replay/config.h"

#include <inttypes.h>

_Static_assert((int)GPUR_MAX_POLICY_STREAMS <= (int)GPUR_MAX_COPY_READERS, "each stream reads the acting copies");

gpur_status gpur_policy_config_init(gpur_policy_config *config, uint64_t size)
{
    gpur_policy_config defaults = {.max_batch = 64, .streams = 1, .math = GPUR_MATH_FP32};
    gpur_dqn_config dqn;
    GPUR_TRY(gpur_dqn_config_init(&dqn, sizeof dqn));
    defaults.network = dqn.network;
    return gpur_sized_init(config, size, &defaults, sizeof defaults, "gpur_policy_config");
}

gpur_status gpur_policy_config_preset(gpur_policy_config *config, const char *name)
{
    gpur_policy_config changed = {.size = sizeof changed};
    gpur_dqn_config dqn;
    GPUR_TRY(gpur_sized_read(&changed, sizeof changed, config, "gpur_policy_config"));
    GPUR_TRY(gpur_dqn_config_init(&dqn, sizeof dqn));
    GPUR_TRY(gpur_dqn_config_preset(&dqn, name));
    changed.network = dqn.network;
    return gpur_sized_write(config, &changed, sizeof changed, "gpur_policy_config");
}

static gpur_status check_config(const gpur_policy_config *config)
{
    GPUR_TRY(gpur_range_check(config->max_batch, 1, GPUR_MAX_ACT_BATCH, "max_batch"));
    GPUR_TRY(gpur_range_check(config->streams, 1, GPUR_MAX_POLICY_STREAMS, "streams"));
    GPUR_REQUIRE(config->policy_floor >= 0.0f && config->policy_floor < 1.0f,
                 "policy_floor is %g; it must be at least 0 and below 1", (double)config->policy_floor);
    return gpur_math_check(config->math);
}

static gpur_status open_inferences(gpur_policy *policy, const gpur_obs_format *obs)
{
    const gpur_policy_config *const config = &policy->config;
    const int32_t count = config->streams;
    GPUR_TRY(gpur_mutex_open(&policy->lock, "a policy"));
    GPUR_TRY(gpur_acting_copies_open(&policy->copies, policy->device, &policy->network.params, count));
    policy->inferences = gpur_host_alloc(policy->device, (size_t)count * sizeof *policy->inferences);
    if (!policy->inferences)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for the %" PRId32 " streams of a policy", count);
    for (int32_t i = 0; i < count; i++) {
        GPUR_TRY(gpur_inference_open(&policy->inferences[i], policy->device, &policy->network, &config->network, obs,
                                     config->math, config->policy_floor, config->max_batch));
        policy->pinned_bytes += atomic_load(&policy->inferences[i].pinned_bytes);
        policy->free[policy->free_count++] = count - 1 - i; /* the first to be taken is 0 */
    }
    return GPUR_OK;
}

/* Returns the bytes used. */
static int64_t assign(gpur_policy *policy, void *base)
{
    gpur_arena arena = {base, 0};
    for (int c = 0; c < 2; c++)
        policy->copies.weights[c] = gpur_arena_alloc(&arena, gpur_params_bytes(policy->copies.params));
    for (int32_t i = 0; i < policy->config.streams; i++)
        gpur_inference_assign(&policy->inferences[i], &arena);
    return arena.used;
}

static gpur_status set_first_weights(gpur_policy *policy)
{
    const gpur_params *const params = &policy->network.params;
    float *weights = NULL;
    GPUR_TRY(gpur_weights_alloc(policy->device, params, &weights));
    gpur_init_weights(params, &policy->config.network, policy->config.seed, weights);
    const gpur_status status = gpur_policy_upload(policy, weights, 0);
    gpur_weights_free(policy->device, params, weights);
    return status;
}

static gpur_status build(gpur_policy *policy, const gpur_policy_config *given, int32_t copies)
{
    gpur_obs_format obs;
    gpur_policy_config *const config = &policy->config;
    GPUR_TRY(gpur_policy_config_init(config, sizeof *config));
    GPUR_TRY(gpur_sized_read(config, sizeof *config, given, "gpur_policy_config"));
    GPUR_TRY(check_config(config));
    config->math = gpur_math_decide(policy->device, config->math);
    GPUR_TRY(gpur_obs_format_read(&config->obs, &obs));
    GPUR_TRY(gpur_network_open(&policy->network, &config->network, &obs, copies, policy->device, config->math));
    config->obs.name = NULL;
    GPUR_TRY(open_inferences(policy, &obs));
    policy->memory_bytes = assign(policy, NULL);
    GPUR_TRY(
        gpur_memory_alloc(policy->device, policy->memory_bytes, "a policy's weights and activations", &policy->memory));
    assign(policy, policy->memory);
    return set_first_weights(policy);
}

gpur_status gpur_policy_create(gpur_device *device, const gpur_policy_config *config, gpur_policy **out)
{
    return gpur_policy_create_copies(device, config, 1, out);
}

gpur_status gpur_policy_create_copies(gpur_device *device, const gpur_policy_config *config, int32_t copies,
                                      gpur_policy **out)
{
    GPUR_REQUIRE(out, "policy, which gets the handle, is NULL");
    *out = NULL;
    GPUR_REQUIRE(device, "device is NULL");
    gpur_policy *const policy = gpur_host_alloc(device, sizeof *policy);
    if (!policy)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for a policy of %zu bytes", sizeof *policy);
    gpur_device_retain(device);
    policy->device = device;
    const gpur_status status = build(policy, config, copies);
    if (status != GPUR_OK) {
        gpur_policy_destroy(policy);
        return status;
    }
    *out = policy;
    return GPUR_OK;
}

void gpur_policy_destroy(gpur_policy *policy)
{
    if (!policy)
        return;
    gpur_device *const device = policy->device;
    for (int32_t i = 0; policy->inferences && i < policy->config.streams; i++)
        gpur_inference_close(&policy->inferences[i]);
    gpur_host_free(device, policy->inferences, (size_t)policy->config.streams * sizeof *policy->inferences);
    gpur_acting_copies_close(&policy->copies);
    gpur_mutex_close(&policy->lock);
    gpur_memory_free(device, policy->memory);
    gpur_host_free(device, policy, sizeof *policy);
    gpur_device_release(device);
}

/* Call number n, from 0 on, waits until n < `released` + `streams`. */
int32_t gpur_policy_acquire(gpur_policy *policy)
{
    gpur_mutex_lock(&policy->lock);
    const int64_t before = policy->asked++;
    while (before >= policy->released + policy->config.streams)
        gpur_mutex_wait(&policy->lock);
    const int32_t index = policy->free[--policy->free_count];
    gpur_mutex_unlock(&policy->lock);
    return index;
}

void gpur_policy_release(gpur_policy *policy, int32_t index, int64_t observations)
{
    gpur_mutex_lock(&policy->lock);
    policy->calls += observations > 0;
    policy->observations += observations;
    policy->free[policy->free_count++] = index;
    policy->released++;
    gpur_mutex_notify_all(&policy->lock);
    gpur_mutex_unlock(&policy->lock);
}

static gpur_status enqueue(gpur_policy *policy, int32_t index, const gpur_inference_call *call, int64_t *version)
{
    gpur_inference *const inference = &policy->inferences[index];
    int copy = 0;
    if (policy->grows)
        GPUR_TRY(gpur_inference_reserve(inference, call->count));
    GPUR_TRY(gpur_inference_upload(inference, call));
    GPUR_TRY(gpur_acting_copies_begin_read(&policy->copies, policy->age, inference->stream, &copy));
    *version = atomic_load(&policy->copies.version[copy]);
    const gpur_status status = gpur_inference_run(inference, call, policy->copies.weights[copy]);
    return gpur_acting_copies_end_read(&policy->copies, copy, index, inference->stream, status);
}

/* Counts the actions of a call. One that failed gives its number back, unless a later call has the next one. */
static void count_draw(gpur_policy *policy, const gpur_inference_call *call, gpur_status status)
{
    uint64_t next = call->exploration.step + 1;
    if (status == GPUR_OK)
        atomic_fetch_add(&policy->actions, call->count);
    else
        atomic_compare_exchange_strong(&policy->draws, &next, next - 1);
}

gpur_status gpur_policy_run(gpur_policy *policy, gpur_inference_call *call, int draws, int64_t *version)
{
    const int32_t index = gpur_policy_acquire(policy);
    if (draws)
        call->exploration.step = atomic_fetch_add(&policy->draws, 1);
    const gpur_status enqueued = enqueue(policy, index, call, version);
    const gpur_status status = gpur_inference_download(&policy->inferences[index], call, enqueued);
    if (draws)
        count_draw(policy, call, status);
    gpur_policy_release(policy, index, status == GPUR_OK ? call->count : 0);
    return status;
}

void gpur_policy_get_counters(gpur_policy *policy, uint64_t *draws, int64_t *actions)
{
    const int32_t index = gpur_policy_acquire(policy);
    *draws = atomic_load(&policy->draws);
    *actions = atomic_load(&policy->actions);
    gpur_policy_release(policy, index, 0);
}

void gpur_policy_set_counters(gpur_policy *policy, uint64_t draws, int64_t actions)
{
    const int32_t index = gpur_policy_acquire(policy);
    atomic_store(&policy->draws, draws);
    atomic_store(&policy->actions, actions);
    gpur_policy_release(policy, index, 0);
}

static gpur_status check_vectors(gpur_acted acted, const gpur_policy_input *in, const gpur_policy_output *out)
{
    GPUR_REQUIRE(out->action_vectors, "action_vectors, which gets the results, is NULL");
    if (acted == GPUR_ACTED_DRAWN_VECTORS) {
        GPUR_REQUIRE(!(out->actions || out->q || out->probabilities || out->values || in->epsilon || in->sigma),
                     "actions, q, probabilities, values, epsilon or sigma is given; a policy with "
                     "GPUR_HEAD_SQUASHED_GAUSSIAN has action_vectors and greedy");
        return GPUR_OK;
    }
    GPUR_REQUIRE(!(out->actions || out->q || out->probabilities || out->values || in->greedy || in->epsilon),
                 "actions, q, probabilities, values, greedy or epsilon is given; a policy with GPUR_HEAD_TANH_ACTION "
                 "has action_vectors and sigma");
    return GPUR_OK;
}

/* Refuses outputs that the head has not, and `greedy` of one that draws nothing. */
static gpur_status check_outputs(const gpur_policy *policy, const gpur_policy_input *in, const gpur_policy_output *out)
{
    const gpur_acted acted = gpur_acted_by(policy->network.head);
    const int has_probabilities = acted == GPUR_ACTED_BY_PROBABILITIES;
    GPUR_TRY(gpur_choice_check(in->greedy, 1, "greedy", "0 or 1"));
    GPUR_TRY(gpur_reserved_check(&(const int64_t){in->reserved}, 1, "gpur_policy_input"));
    GPUR_REQUIRE(!out->log_probs || acted == GPUR_ACTED_DRAWN_VECTORS,
                 "log_probs is given; it needs GPUR_HEAD_SQUASHED_GAUSSIAN (4), and network.head is %" PRId32,
                 policy->config.network.head);
    if (acted == GPUR_ACTED_VECTORS || acted == GPUR_ACTED_DRAWN_VECTORS)
        return check_vectors(acted, in, out);
    GPUR_REQUIRE(!out->action_vectors && !in->sigma,
                 "action_vectors or sigma is given; they need GPUR_HEAD_TANH_ACTION (3), and network.head is %" PRId32,
                 policy->config.network.head);
    GPUR_REQUIRE(out->actions || out->q || out->probabilities || out->values,
                 "actions, q, probabilities and values, which get the results, are all NULL; one of them must not be");
    GPUR_REQUIRE(!has_probabilities || !out->q,
                 "q is given; a policy with GPUR_HEAD_SOFTMAX_VALUE has probabilities and values");
    GPUR_REQUIRE(has_probabilities || !(out->probabilities || out->values || in->greedy),
                 "probabilities, values or greedy is given; a policy with network.head %" PRId32 " has q",
                 policy->config.network.head);
    return GPUR_OK;
}

gpur_status gpur_policy_act(gpur_policy *policy, const gpur_policy_input *input, const gpur_policy_output *output)
{
    gpur_policy_input in = {.size = sizeof in};
    gpur_policy_output out = {.size = sizeof out};
    int64_t version = 0;
    GPUR_REQUIRE(policy, "policy is NULL");
    GPUR_TRY(gpur_sized_read(&in, sizeof in, input, "gpur_policy_input"));
    GPUR_TRY(gpur_sized_read(&out, sizeof out, output, "gpur_policy_output"));
    GPUR_TRY(check_outputs(policy, &in, &out));
    gpur_inference_call call = {
        .count = in.count,
        .obs = in.obs,
        .native = in.stream,
        .mask = in.mask,
        .greedy = in.greedy,
        .actions = out.actions,
        .q = out.action_vectors  ? out.action_vectors
             : out.probabilities ? out.probabilities
                                 : out.q,
        .values = out.log_probs ? out.log_probs : out.values,
    };
    call.exploration = (gpur_exploration){
        .seed = policy->config.seed, .steps = in.step, .lanes = in.lane, .epsilons = in.sigma ? in.sigma : in.epsilon};
    GPUR_TRY(gpur_inference_check(&policy->inferences[0], &call, policy->config.max_batch, "max_batch, "));
    const int draws = (call.actions || out.action_vectors) && !in.step;
    GPUR_TRY(gpur_policy_run(policy, &call, draws, &version));
    if (out.version)
        *out.version = version;
    return GPUR_OK;
}

gpur_status gpur_policy_get_config(gpur_policy *policy, gpur_policy_config *config)
{
    GPUR_REQUIRE(policy, "policy is NULL");
    return gpur_sized_write(config, &policy->config, sizeof policy->config, "gpur_policy_config");
}

int64_t gpur_policy_version(gpur_policy *policy)
{
    return policy ? atomic_load(&policy->copies.version[gpur_acting_copies_latest(&policy->copies)]) : 0;
}

gpur_status gpur_policy_get_stats(gpur_policy *policy, gpur_policy_stats *stats)
{
    gpur_policy_stats known = {.size = sizeof known};
    GPUR_REQUIRE(policy && stats, "policy and stats must not be NULL");
    gpur_mutex_lock(&policy->lock);
    known.calls = policy->calls;
    known.observations = policy->observations;
    gpur_mutex_unlock(&policy->lock);
    known.version = gpur_policy_version(policy);
    known.device_bytes = policy->memory_bytes;
    known.pinned_bytes = policy->pinned_bytes;
    return gpur_sized_write(stats, &known, sizeof known, "gpur_policy_stats");
}
