/* SPDX-License-Identifier: MIT */
/* The actor-critic as an algorithm: settings, how its learner is built, and its train steps on given batches. */
#include "learn/actor_critic/actor_critic.h"

#include "base/sized.h"
#include "replay/config.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

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
    GPUR_TRY(gpur_range_check(config->max_batch, 1, GPUR_MAX_ACTOR_CRITIC_BATCH, "max_batch"));
    GPUR_TRY(gpur_math_check(config->math));
    return gpur_choice_check(config->check_finite, 1, "check_finite", "0 or 1");
}

/* All that it has is one part. */

static gpur_status open(void *part, const gpur_part_context *context)
{
    gpur_actor_critic *const ac = part;
    const gpur_params *const params = &ac->network.params;
    for (int i = 0; i < ac->learner.network_count; i++) {
        gpur_optimizer_config config = ac->config.optimizer;
        config.weight_decay = i == 0 ? config.weight_decay : 0.0; /* both change the same weights, which decay once */
        gpur_optimizer_open(&ac->optimizers[i], context->device, &config, params);
    }
    GPUR_TRY(gpur_gradient_open(&ac->gradient, context->device, &ac->network, &ac->obs, &ac->config));
    ac->learner.stream = ac->gradient.stream;
    return GPUR_OK;
}

static void close(void *part)
{
    gpur_gradient_close(&((gpur_actor_critic *)part)->gradient);
}

static void assign(void *part, gpur_arena *arena)
{
    gpur_actor_critic *const ac = part;
    for (int i = 0; i < ac->learner.network_count; i++)
        gpur_optimizer_assign(&ac->optimizers[i], arena, i > 0 ? ac->optimizers[0].weights : NULL);
    ac->drawable = gpur_arena_alloc(arena, sizeof *ac->drawable);
    gpur_gradient_assign(&ac->gradient, arena);
}

static gpur_status connect(void *part)
{
    const int64_t one = 1;
    gpur_actor_critic *const ac = part;
    gpur_gradient *const gradient = &ac->gradient;
    gradient->weights = ac->optimizers[0].weights;
    gradient->state = ac->optimizers[0].state;
    for (int i = 0; i < ac->learner.network_count; i++) {
        ac->optimizers[i].drawable = ac->drawable;
        gradient->optimizer[i] = &ac->optimizers[i];
        gradient->to[i] = ac->optimizers[i].gradient;
    }
    GPUR_TRY(gpur_copy(gradient->stream, ac->drawable, &one, sizeof one));
    return gpur_stream_sync(gradient->stream);
}

/* The step before graphs are recorded needs finite weights, and changes the optimizers. */
static gpur_status start(void *part, gpur_stream *stream)
{
    gpur_actor_critic *const ac = part;
    GPUR_TRY(gpur_gradient_start(&ac->gradient));
    return gpur_learner_set_first_weights(&ac->learner, stream);
}

static const gpur_part whole = {.open = open, .assign = assign, .connect = connect, .start = start, .close = close};
static const gpur_learner_part parts[] = {{&whole, 0}};

static void list_networks(gpur_actor_critic *ac)
{
    gpur_learner *const learner = &ac->learner;
    learner->network_count = ac->config.dual_optimizer ? 2 : 1;
    for (int i = 0; i < learner->network_count; i++)
        learner->networks[i] = (gpur_trained){.name = "",
                                              .file_name = "",
                                              .network = &ac->network,
                                              .config = &ac->config.network,
                                              .optimizer = &ac->optimizers[i],
                                              .seed = ac->config.seed,
                                              .shares_weights = i > 0,
                                              .value_name = "mean value"};
    learner->obs = ac->config.obs;
    learner->policy_floor = ac->config.policy_floor;
    learner->math = ac->config.math;
}

static gpur_status build(gpur_learner *learner, const void *given, gpur_part_context *context)
{
    gpur_actor_critic *const ac = gpur_actor_critic_of(learner);
    gpur_actor_critic_config *const config = &ac->config;
    (void)context;
    GPUR_TRY(gpur_actor_critic_config_init(config, sizeof *config));
    GPUR_TRY(gpur_sized_read(config, sizeof *config, given, "gpur_actor_critic_config"));
    GPUR_TRY(check_config(config));
    config->math = gpur_math_decide(learner->device, config->math);
    GPUR_TRY(gpur_obs_format_read(&config->obs, &ac->obs));
    config->obs.name = NULL;
    GPUR_TRY(gpur_network_open(&ac->network, &config->network, &ac->obs, 1, learner->device, config->math));
    list_networks(ac);
    return GPUR_OK;
}

gpur_status gpur_actor_critic_create(gpur_device *device, const gpur_actor_critic_config *config,
                                     gpur_learner **learner)
{
    return gpur_learner_create_of(&gpur_algorithm_actor_critic, device, NULL, config, learner);
}

/* Train steps. */

/* The state of the first optimizer whose gradient has spoiled the weights; NULL: of none. */
static const gpur_train_state *spoiled_state(const gpur_actor_critic *ac)
{
    for (int i = 0; i < ac->learner.network_count; i++)
        if (ac->gradient.host_state[i].diverged_at > 0)
            return &ac->gradient.host_state[i];
    return NULL;
}

/* Adds the loss to what the states before have counted. The rule of divergence is that of finish_step, which has judged
 * the gradient, and has seen no values. */
static void note_loss(gpur_actor_critic *ac, gpur_train_state *state, const gpur_actor_critic_losses *losses)
{
    const gpur_train_state before = gpur_train_stats_newest(&ac->learner.stats[0]);
    const gpur_train_state *const spoiled = spoiled_state(ac);
    const double loss = losses->policy + (double)ac->config.value_coefficient * losses->value;
    state->loss = (float)loss;
    state->mean_q = (float)losses->mean_value;
    state->loss_sum = before.loss_sum + (isfinite(loss) ? loss : 0.0);
    state->infinite_losses = before.infinite_losses + (isfinite(loss) ? 0 : 1);
    state->finite_loss = before.finite_loss;
    if (spoiled)
        state->gradient_norm = spoiled->gradient_norm;
    if (spoiled || !isfinite(losses->mean_value))
        state->diverged_at = state->step;
    else if (isfinite(loss))
        state->finite_loss = (float)loss;
}

/* Requires the lock. Takes the state that a step has left on the host, and refuses the learner if it has diverged. */
static gpur_status end_step(gpur_actor_critic *ac, gpur_actor_critic_losses *losses)
{
    gpur_train_state state = ac->gradient.host_state[0];
    losses->step = (int64_t)state.step;
    losses->gradient_norm = (double)state.gradient_norm;
    losses->learning_rate = (double)state.learning_rate;
    note_loss(ac, &state, losses);
    gpur_train_stats_put(&ac->learner.stats[0], &state);
    return gpur_learner_check_finite(&ac->learner);
}

/* Requires the lock. Fills in the losses of a step that was done. */
static gpur_status train(gpur_actor_critic *ac, const gpur_actor_critic_batch *batch, gpur_actor_critic_losses *losses)
{
    GPUR_TRY(gpur_learner_check_finite(&ac->learner));
    GPUR_TRY(gpur_gradient_run(&ac->gradient, batch, losses));
    return end_step(ac, losses);
}

gpur_status gpur_actor_critic_train(gpur_learner *learner, const gpur_actor_critic_batch *given,
                                    gpur_actor_critic_losses *losses)
{
    gpur_actor_critic_batch batch = {.size = sizeof batch};
    gpur_actor_critic_losses known = {.size = sizeof known};
    GPUR_TRY(gpur_learner_require(learner, &gpur_algorithm_actor_critic, "gpur_actor_critic_train"));
    gpur_actor_critic *const ac = gpur_actor_critic_of(learner);
    GPUR_TRY(gpur_sized_read(&batch, sizeof batch, given, "gpur_actor_critic_batch"));
    if (losses)
        GPUR_TRY(gpur_sized_check(losses, "gpur_actor_critic_losses"));
    GPUR_TRY(gpur_gradient_check(&ac->gradient, &batch));
    gpur_ticket_lock_lock(&learner->lock);
    const gpur_status status = train(ac, &batch, &known);
    gpur_ticket_lock_unlock(&learner->lock);
    if (losses && known.step > 0)
        GPUR_TRY(gpur_sized_write(losses, &known, sizeof known, "gpur_actor_critic_losses"));
    return status;
}

static gpur_status enqueue_apply(gpur_actor_critic *ac, float *const gradients[2])
{
    const gpur_train_step_results results = {.batch = 1};
    GPUR_TRY(gpur_learner_check_finite(&ac->learner));
    gpur_gradient *const g = &ac->gradient;
    for (int i = 0; i < ac->learner.network_count; i++) {
        gpur_optimizer optimizer = ac->optimizers[i];
        optimizer.gradient = gradients[i];
        GPUR_TRY(gpur_optimizer_step(&optimizer, g->stream, &results));
    }
    for (int i = 0; i < ac->learner.network_count; i++)
        GPUR_TRY(gpur_copy(g->stream, g->host_state + i, ac->optimizers[i].state, sizeof *g->host_state));
    return GPUR_OK;
}

gpur_status gpur_actor_critic_apply(gpur_actor_critic *ac, float *const gradients[2], gpur_actor_critic_losses *losses)
{
    GPUR_TRY(gpur_stream_finish(ac->gradient.stream, enqueue_apply(ac, gradients)));
    return end_step(ac, losses);
}

/* Statistics and files. */

static gpur_status add_settings(const gpur_learner *learner, gpur_tensors *settings)
{
    return gpur_tensors_add_metadata(settings, "dual_optimizer", "%" PRId32,
                                     gpur_actor_critic_of(learner)->config.dual_optimizer);
}

/* Both optimizers have taken the same steps. */
static int32_t list_scalars(const gpur_learner *learner, gpur_learner_state *state, gpur_scalar *list)
{
    (void)learner;
    gpur_train_state *const t = &state->train[0];
    const gpur_scalar scalars[] = {
        {GPUR_STEPS_ENQUEUED, GPUR_SCALAR_I64, &state->steps_enqueued},
        {"beta1_power", GPUR_SCALAR_F64, &t->beta1_power},
        {"beta2_power", GPUR_SCALAR_F64, &t->beta2_power},
        {"next_learning_rate", GPUR_SCALAR_F32, &t->next_learning_rate},
    };
    memcpy(list, scalars, sizeof scalars);
    return sizeof scalars / sizeof *scalars;
}

static void complete(const gpur_learner *learner, gpur_learner_state *state)
{
    (void)learner;
    state->train[0].step = (uint64_t)state->steps_enqueued;
    state->train[1] = state->train[0];
}

const gpur_algorithm gpur_algorithm_actor_critic = {
    .name = "an actor-critic",
    .kind = "actor-critic",
    .bytes = sizeof(gpur_actor_critic),
    .parts = parts,
    .part_count = 1,
    .build = build,
    .no_train = "gpur_learner_train draws rows from a replay; an actor-critic has none, and trains on the batches of "
                "gpur_actor_critic_train",
    .add_settings = add_settings,
    .list_scalars = list_scalars,
    .complete = complete,
};
