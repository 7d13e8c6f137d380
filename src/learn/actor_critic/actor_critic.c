/* SPDX-License-Identifier: MIT */
/* The public actor-critic learner: config, create, destroy, train, publish. */
#include "learn/actor_critic/actor_critic.h"

#include "base/sized.h"
#include "learn/acting/policy.h"
#include "learn/config.h"
#include "learn/diverged.h"
#include "learn/network/init.h"
#include "learn/weights_file.h"
#include "replay/config.h"

#include <inttypes.h>
#include <math.h>

gpur_status gpur_actor_critic_config_init(gpur_actor_critic_config *config, uint64_t size)
{
    static const gpur_actor_critic_config defaults = {
        .network = {.trunk = {{.kind = GPUR_DENSE, .units = 128, .activation = GPUR_RELU}},
                    .trunk_count = 1,
                    .head = GPUR_HEAD_SOFTMAX_VALUE,
                    .hidden_activation = GPUR_RELU,
                    .input_scale = 1.0f,
                    .input_layout = GPUR_INPUT_AUTO},
        .optimizer = {.kind = GPUR_RMSPROP_TF,
                      .learning_rate = {.first = 3e-4f, .last = 3e-4f},
                      .beta1 = 0.9f,
                      .beta2 = 0.999f,
                      .decay = 0.99f,
                      .epsilon = 0.1f},
        .log_epsilon = 1e-6f,
        .value_coefficient = 0.5f,
        .entropy = {.first = 0.01f, .last = 0.01f},
        .max_batch = 128,
        .check_finite = 1,
    };
    return gpur_sized_init(config, size, &defaults, sizeof defaults, "gpur_actor_critic_config");
}

static gpur_status check_loss(const gpur_actor_critic_config *config)
{
    GPUR_TRY(gpur_choice_check(config->log, GPUR_LOG_SOFTMAX, "log", "GPUR_LOG_ADD, MAX or SOFTMAX (0 to 2)"));
    GPUR_REQUIRE(config->log_epsilon > 0.0f && config->log_epsilon < 1.0f,
                 "log_epsilon is %g; it must be above 0 and below 1", (double)config->log_epsilon);
    GPUR_REQUIRE(config->policy_floor >= 0.0f && config->policy_floor < 1.0f,
                 "policy_floor is %g; it must be at least 0 and below 1", (double)config->policy_floor);
    GPUR_REQUIRE(config->policy_floor == 0.0f || config->log != GPUR_LOG_SOFTMAX,
                 "policy_floor is %g and log is GPUR_LOG_SOFTMAX (2); a floor needs GPUR_LOG_ADD or MAX (0, 1)",
                 (double)config->policy_floor);
    GPUR_REQUIRE(config->value_coefficient >= 0.0f && config->value_coefficient < INFINITY,
                 "value_coefficient is %g; it must be 0 or more, and finite", (double)config->value_coefficient);
    return gpur_schedule_check(&config->entropy, 1e6f, "entropy");
}

static gpur_status check_config(const gpur_actor_critic_config *config)
{
    GPUR_REQUIRE(config->network.head == GPUR_HEAD_SOFTMAX_VALUE,
                 "network.head is %" PRId32 "; an actor-critic needs GPUR_HEAD_SOFTMAX_VALUE (2)",
                 config->network.head);
    GPUR_TRY(gpur_optimizer_check(&config->optimizer));
    GPUR_TRY(gpur_choice_check(config->dual_optimizer, 1, "dual_optimizer", "0 or 1"));
    GPUR_TRY(check_loss(config));
    GPUR_REQUIRE(config->max_batch >= 1 && config->max_batch <= GPUR_MAX_ACTOR_CRITIC_BATCH,
                 "max_batch is %" PRId32 "; it must be 1 to %d", config->max_batch, GPUR_MAX_ACTOR_CRITIC_BATCH);
    GPUR_TRY(gpur_math_check(config->math));
    GPUR_TRY(gpur_choice_check(config->check_finite, 1, "check_finite", "0 or 1"));
    return gpur_choice_check(config->deterministic, 1, "deterministic", "0 or 1");
}

static gpur_status build_network(gpur_actor_critic *learner)
{
    gpur_actor_critic_config *const config = &learner->config;
    GPUR_TRY(gpur_obs_format_read(&config->obs, &learner->obs));
    GPUR_TRY(gpur_input_layout_resolve(&learner->obs, &config->network));
    const gpur_input_shape input_shape = gpur_input_shape_find(&learner->obs, &config->network);
    GPUR_TRY(gpur_network_build(&learner->network, &config->network, &input_shape));
    gpur_network_choose_bf16(&learner->network, learner->device, config->math);
    config->obs.name = NULL;
    return GPUR_OK;
}

/* Returns the bytes used. */
static int64_t assign(gpur_actor_critic *learner, void *base)
{
    gpur_arena arena = {base, 0};
    for (int i = 0; i < gpur_actor_critic_optimizers(learner); i++)
        gpur_optimizer_assign(&learner->optimizers[i], &arena, i > 0 ? learner->optimizers[0].weights : NULL);
    learner->drawable = gpur_arena_alloc(&arena, sizeof *learner->drawable);
    gpur_gradient_assign(&learner->gradient, &arena);
    return arena.used;
}

static void connect(gpur_actor_critic *learner)
{
    gpur_gradient *const gradient = &learner->gradient;
    gradient->weights = learner->optimizers[0].weights;
    gradient->state = learner->optimizers[0].state;
    for (int i = 0; i < gpur_actor_critic_optimizers(learner); i++) {
        learner->optimizers[i].drawable = learner->drawable;
        gradient->optimizer[i] = &learner->optimizers[i];
        gradient->to[i] = learner->optimizers[i].gradient;
    }
}

static gpur_status set_first_weights(gpur_actor_critic *learner)
{
    const gpur_params *const params = &learner->network.params;
    float *weights = NULL;
    gpur_status status = gpur_weights_alloc(learner->device, params, &weights);
    GPUR_TRY(status);
    gpur_init_weights(params, &learner->config.network, learner->config.seed, weights);
    for (int i = 0; i < gpur_actor_critic_optimizers(learner) && status == GPUR_OK; i++)
        status = gpur_optimizer_reset(&learner->optimizers[i], learner->gradient.stream, weights);
    gpur_weights_free(learner->device, params, weights);
    return status;
}

static gpur_status start(gpur_actor_critic *learner)
{
    const int64_t one = 1;
    GPUR_TRY(gpur_copy(learner->gradient.stream, learner->drawable, &one, sizeof one));
    GPUR_TRY(gpur_stream_sync(learner->gradient.stream));
    GPUR_TRY(set_first_weights(learner)); /* a step before needs finite numbers */
    GPUR_TRY(gpur_gradient_start(&learner->gradient));
    return set_first_weights(learner);
}

static gpur_status build(gpur_actor_critic *learner, const gpur_actor_critic_config *given)
{
    gpur_actor_critic_config *const config = &learner->config;
    gpur_device *const device = learner->device;
    GPUR_TRY(gpur_actor_critic_config_init(config, sizeof *config));
    GPUR_TRY(gpur_sized_read(config, sizeof *config, given, "gpur_actor_critic_config"));
    GPUR_TRY(check_config(config));
    config->math = gpur_math_decide(device, config->math);
    GPUR_TRY(build_network(learner));
    GPUR_TRY(gpur_ticket_lock_open(&learner->lock, "an actor-critic"));
    for (int i = 0; i < gpur_actor_critic_optimizers(learner); i++)
        gpur_optimizer_open(&learner->optimizers[i], device, &config->optimizer, &learner->network.params);
    GPUR_TRY(gpur_gradient_open(&learner->gradient, device, &learner->network, &learner->obs, config));
    learner->memory_bytes = assign(learner, NULL);
    GPUR_TRY(gpur_memory_alloc(device, learner->memory_bytes, "an actor-critic's weights and activations",
                               &learner->memory));
    assign(learner, learner->memory);
    connect(learner);
    return start(learner);
}

gpur_status gpur_actor_critic_create(gpur_device *device, const gpur_actor_critic_config *config,
                                     gpur_actor_critic **out)
{
    GPUR_REQUIRE(out, "learner, which gets the handle, is NULL");
    *out = NULL;
    GPUR_REQUIRE(device, "device is NULL");
    gpur_actor_critic *const learner = gpur_host_alloc(device, sizeof *learner);
    if (!learner)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for an actor-critic of %zu bytes", sizeof *learner);
    gpur_device_retain(device);
    learner->device = device;
    atomic_init(&learner->finite_loss, NAN);
    const gpur_status status = build(learner, config);
    if (status != GPUR_OK) {
        gpur_actor_critic_destroy(learner);
        return status;
    }
    *out = learner;
    return GPUR_OK;
}

void gpur_actor_critic_destroy(gpur_actor_critic *learner)
{
    if (!learner)
        return;
    gpur_device *const device = learner->device;
    if (learner->gradient.stream)
        (void)gpur_stream_sync(learner->gradient.stream);
    gpur_gradient_close(&learner->gradient);
    gpur_ticket_lock_close(&learner->lock);
    gpur_memory_free(device, learner->memory);
    gpur_host_free(device, learner, sizeof *learner);
    gpur_device_release(device);
}

/* What is known of a divergence after train step `step` before its numbers are. */
static gpur_divergence divergence_of(gpur_actor_critic *learner, int64_t step)
{
    const gpur_optimizer_config *const optimizer = &learner->config.optimizer;
    return (gpur_divergence){.step = step,
                             .learning_rate =
                                 (double)gpur_schedule_at(&optimizer->learning_rate, step > 0 ? step - 1 : 0),
                             .loss_before = atomic_load(&learner->finite_loss),
                             .optimizer = optimizer,
                             .network = "",
                             .value_name = "mean value"};
}

gpur_status gpur_actor_critic_diverged(gpur_actor_critic *learner, int64_t step, const float *reward_clip)
{
    gpur_divergence divergence = divergence_of(learner, step);
    divergence.reward_clip = reward_clip;
    return gpur_diverged(&divergence);
}

gpur_status gpur_actor_critic_check_finite(const gpur_actor_critic *learner)
{
    return learner->divergence.step == 0 ? GPUR_OK : gpur_diverged(&learner->divergence);
}

/* The state of the first optimizer whose gradient has spoiled the weights; NULL: of none. */
static const gpur_train_state *spoiled_state(const gpur_actor_critic *learner)
{
    for (int i = 0; i < gpur_actor_critic_optimizers(learner); i++)
        if (learner->gradient.host_state[i].diverged_at > 0)
            return &learner->gradient.host_state[i];
    return NULL;
}

/* The rule is that of finish_step, which has judged the gradient. It has seen no values. */
gpur_status gpur_actor_critic_judge(gpur_actor_critic *learner, const gpur_actor_critic_losses *losses)
{
    const double loss = losses->policy + (double)learner->config.value_coefficient * losses->value;
    const gpur_train_state *const spoiled = spoiled_state(learner);
    if (spoiled || !isfinite(losses->mean_value)) {
        learner->divergence = divergence_of(learner, losses->step);
        learner->divergence.loss = loss;
        learner->divergence.mean_value = losses->mean_value;
        learner->divergence.gradient_norm = spoiled ? (double)spoiled->gradient_norm : losses->gradient_norm;
    } else if (isfinite(loss)) {
        atomic_store(&learner->finite_loss, loss);
    }
    return gpur_actor_critic_check_finite(learner);
}

gpur_status gpur_actor_critic_check_weights(gpur_actor_critic *learner, const float *reward_clip)
{
    const gpur_params *const params = &learner->network.params;
    float *weights = NULL;
    GPUR_TRY(gpur_weights_alloc(learner->device, params, &weights));
    gpur_ticket_lock_lock(&learner->lock);
    gpur_status status = gpur_actor_critic_copy_weights(learner, weights);
    const gpur_status done = gpur_stream_sync(learner->gradient.stream);
    gpur_ticket_lock_unlock(&learner->lock);
    status = status == GPUR_OK ? done : status;
    const int are_finite =
        status != GPUR_OK || gpur_params_check_numbers(params, "", weights, GPUR_INVALID_ARGUMENT) == GPUR_OK;
    gpur_weights_free(learner->device, params, weights);
    GPUR_TRY(status);
    const int64_t steps = gpur_actor_critic_steps(learner);
    return are_finite ? GPUR_OK : gpur_actor_critic_diverged(learner, steps, reward_clip);
}

/* Requires the lock. What a step of the first optimizer has left in host_state. */
static void count_step(gpur_actor_critic *learner, gpur_actor_critic_losses *losses)
{
    const gpur_train_state *const state = learner->gradient.host_state;
    atomic_store(&learner->steps, (int64_t)state->step);
    losses->step = (int64_t)state->step;
    losses->gradient_norm = (double)state->gradient_norm;
    losses->learning_rate = (double)state->learning_rate;
}

int32_t gpur_actor_critic_math(const gpur_actor_critic *learner)
{
    return learner ? learner->config.math : -1;
}

/* Requires the lock. Fills in the losses of a step that was done. */
static gpur_status train(gpur_actor_critic *learner, const gpur_actor_critic_batch *batch,
                         gpur_actor_critic_losses *losses)
{
    GPUR_TRY(gpur_actor_critic_check_finite(learner));
    GPUR_TRY(gpur_gradient_run(&learner->gradient, batch, losses));
    count_step(learner, losses);
    return gpur_actor_critic_judge(learner, losses);
}

gpur_status gpur_actor_critic_train(gpur_actor_critic *learner, const gpur_actor_critic_batch *given,
                                    gpur_actor_critic_losses *losses)
{
    gpur_actor_critic_batch batch = {.size = sizeof batch};
    gpur_actor_critic_losses known = {.size = sizeof known};
    GPUR_REQUIRE(learner, "learner is NULL");
    GPUR_TRY(gpur_sized_read(&batch, sizeof batch, given, "gpur_actor_critic_batch"));
    if (losses)
        GPUR_TRY(gpur_sized_check(losses, "gpur_actor_critic_losses"));
    GPUR_TRY(gpur_gradient_check(&learner->gradient, &batch));
    gpur_ticket_lock_lock(&learner->lock);
    const gpur_status status = train(learner, &batch, &known);
    gpur_ticket_lock_unlock(&learner->lock);
    if (losses && known.step > 0)
        GPUR_TRY(gpur_sized_write(losses, &known, sizeof known, "gpur_actor_critic_losses"));
    return status;
}

static gpur_status enqueue_apply(gpur_actor_critic *learner, float *const gradients[2])
{
    const gpur_train_step_results results = {.batch = 1};
    GPUR_TRY(gpur_actor_critic_check_finite(learner));
    gpur_gradient *const g = &learner->gradient;
    for (int i = 0; i < gpur_actor_critic_optimizers(learner); i++) {
        gpur_optimizer optimizer = learner->optimizers[i];
        optimizer.gradient = gradients[i];
        GPUR_TRY(gpur_optimizer_step(&optimizer, g->stream, &results));
    }
    for (int i = 0; i < gpur_actor_critic_optimizers(learner); i++)
        GPUR_TRY(gpur_copy(g->stream, g->host_state + i, learner->optimizers[i].state, sizeof *g->host_state));
    return GPUR_OK;
}

gpur_status gpur_actor_critic_apply(gpur_actor_critic *learner, float *const gradients[2],
                                    gpur_actor_critic_losses *losses)
{
    const gpur_status status = enqueue_apply(learner, gradients);
    const gpur_status done = gpur_stream_sync(learner->gradient.stream);
    GPUR_TRY(status);
    GPUR_TRY(done);
    count_step(learner, losses);
    return gpur_actor_critic_judge(learner, losses);
}

gpur_status gpur_actor_critic_copy_weights(const gpur_actor_critic *learner, float *to)
{
    return gpur_copy(learner->gradient.stream, to, learner->optimizers[0].weights,
                     gpur_params_bytes(&learner->network.params));
}

gpur_status gpur_actor_critic_publish(gpur_actor_critic *learner, gpur_policy *policy)
{
    GPUR_REQUIRE(learner && policy, "learner and policy must not be NULL");
    GPUR_REQUIRE(policy->device == learner->device,
                 "the learner is on %s, opened by another gpur_device_open than this policy's %s; it must be the same",
                 gpur_device_name(learner->device), gpur_device_name(policy->device));
    GPUR_TRY(gpur_network_check_equal(&policy->network, &learner->network));
    gpur_ticket_lock_lock(&learner->lock);
    gpur_status status = gpur_actor_critic_check_finite(learner);
    if (status == GPUR_OK)
        status = gpur_policy_enqueue_write(policy, learner->gradient.stream, learner->optimizers[0].weights,
                                           atomic_load(&learner->steps));
    gpur_ticket_lock_unlock(&learner->lock);
    return status;
}

int64_t gpur_actor_critic_steps(gpur_actor_critic *learner)
{
    return learner ? atomic_load(&learner->steps) : 0;
}
