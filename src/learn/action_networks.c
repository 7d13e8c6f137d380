/* SPDX-License-Identifier: MIT */
#include "learn/action_networks.h"

#include "learn/demonstrations.h"
#include "replay/config.h"

#include <inttypes.h>
#include <string.h>

/* The input is obs, as the replay has it, of critics with the action behind it. */
static gpur_status build_network(const gpur_action_networks *n, int is_actor, int64_t features)
{
    const gpur_network_config *const config = is_actor ? n->actor_config : n->critic_config;
    gpur_network *const network = is_actor ? n->actor : n->critic;
    const gpur_input_shape shape = gpur_input_shape_of(features);
    GPUR_REQUIRE(config->trunk_count == 0 || config->trunk[0].kind != GPUR_CONV,
                 "network.trunk[0] is a convolution (GPUR_CONV); %s dense layers (GPUR_DENSE)", n->needs);
    GPUR_TRY(gpur_network_build_copies(network, config, &shape, is_actor ? 1 : n->critics));
    if (is_actor)
        GPUR_REQUIRE(config->head == n->head, "network.head is %" PRId32 "; it must be %s", config->head,
                     n->head == GPUR_HEAD_TANH_ACTION ? "GPUR_HEAD_TANH_ACTION (3)"
                                                      : "GPUR_HEAD_SQUASHED_GAUSSIAN (4)");
    else
        GPUR_REQUIRE(config->head == GPUR_HEAD_Q || network->distribution.atoms > 0,
                     "network.head is %" PRId32 "; it must be GPUR_HEAD_Q (0), GPUR_HEAD_QUANTILES (5) or "
                     "GPUR_HEAD_CATEGORICAL (6)",
                     config->head);
    GPUR_REQUIRE(config->input_scale == 1.0f, "network.input_scale is %g; it must be 1", (double)config->input_scale);
    GPUR_REQUIRE(config->input_shift == 0.0f, "network.input_shift is %g; it must be 0", (double)config->input_shift);
    return GPUR_OK;
}

/* The actor's arrays have the names that a file with one network has, so that policies read them. The critics' first
 * weights have a seed of their own, so that they are independent of the actor's. */
static void list_networks(const gpur_action_networks *n, gpur_learner *learner, gpur_part_context *context)
{
    const gpur_step_config *const config = &context->step_config;
    learner->networks[GPUR_ACTOR_NETWORK] = (gpur_trained){.name = "actor",
                                                           .file_name = "",
                                                           .network = n->actor,
                                                           .config = n->actor_config,
                                                           .optimizer = n->actor_optimizer,
                                                           .seed = config->seed,
                                                           .pause = config->policy_delay - 1,
                                                           .value_name = n->actor_value};
    learner->networks[GPUR_CRITIC_NETWORK] = (gpur_trained){.name = "critic",
                                                            .file_name = "critic.",
                                                            .network = n->critic,
                                                            .config = n->critic_config,
                                                            .optimizer = &context->step->optimizer,
                                                            .seed = ~config->seed,
                                                            .value_name = "mean Q"};
    learner->network_count = 2;
    learner->main = GPUR_CRITIC_NETWORK;
    learner->math = config->math;
}

gpur_status gpur_action_networks_build(const gpur_action_networks *n, gpur_learner *learner, gpur_part_context *context)
{
    const int32_t actions = n->actor_config->num_actions;
    gpur_step_config *const step = &context->step_config;
    gpur_learn_fields *const fields = &context->fields;
    GPUR_REQUIRE(actions >= 1, "actor: network.num_actions is %" PRId32 "; it must be the size of the action vector",
                 actions);
    GPUR_TRY(gpur_learn_fields_find(fields, gpur_replay_schema(learner->replay), actions));
    GPUR_REQUIRE(fields->obs_format.is_float, "field \"obs\" is uint8; %s float32", n->needs);
    GPUR_REQUIRE(n->critic_config->num_actions == 1,
                 "critic: network.num_actions is %" PRId32 "; it must be 1, the value of an action of the input",
                 n->critic_config->num_actions);
    GPUR_TRY(gpur_range_check(n->critics, 1, GPUR_MAX_COPIES, "critics"));
    GPUR_TRY(gpur_prefix_error(build_network(n, 1, fields->obs_format.features), "actor"));
    GPUR_TRY(gpur_prefix_error(build_network(n, 0, fields->obs_format.features + actions), "critic"));
    n->critic_config->atoms = n->critic->distribution.atoms;
    n->critic_config->v_min = n->critic->distribution.v_min;
    n->critic_config->v_max = n->critic->distribution.v_max;
    step->wants = GPUR_WANTS_OBS | GPUR_WANTS_NEXT_OBS | GPUR_WANTS_ACTION | GPUR_WANTS_REWARD | GPUR_WANTS_DISCOUNT |
                  GPUR_WANTS_WEIGHT;
    step->loss = GPUR_LOSS_SQUARED;
    GPUR_TRY(gpur_step_config_check(step, gpur_replay_settings(learner->replay)));
    GPUR_TRY(gpur_demonstrations_check(step, learner->replay, fields));
    context->network = n->critic;
    context->network_config = n->critic_config;
    list_networks(n, learner, context);
    return GPUR_OK;
}

int32_t gpur_action_networks_list_scalars(gpur_learner_state *state, const char *actor_value, gpur_scalar *list)
{
    gpur_train_state *const a = &state->train[GPUR_ACTOR_NETWORK], *const c = &state->train[GPUR_CRITIC_NETWORK];
    const gpur_scalar scalars[] = {
        {GPUR_STEPS_ENQUEUED, GPUR_SCALAR_I64, &state->steps_enqueued},
        {"step", GPUR_SCALAR_U64, &c->step},
        {"skipped", GPUR_SCALAR_I64, &c->skipped},
        {"target_copies", GPUR_SCALAR_I64, &c->target_copies},
        {"copy_due", GPUR_SCALAR_I32, &c->copy_due},
        {"loss", GPUR_SCALAR_F32, &c->loss},
        {"loss_sum", GPUR_SCALAR_F64, &c->loss_sum},
        {"actor.beta1_power", GPUR_SCALAR_F64, &a->beta1_power},
        {"actor.beta2_power", GPUR_SCALAR_F64, &a->beta2_power},
        {"actor.next_learning_rate", GPUR_SCALAR_F32, &a->next_learning_rate},
        {actor_value, GPUR_SCALAR_F32, &a->mean_q},
        {"actor.gradient_norm", GPUR_SCALAR_F32, &a->gradient_norm},
        {"actor.learning_rate", GPUR_SCALAR_F32, &a->learning_rate},
        {"critic.beta1_power", GPUR_SCALAR_F64, &c->beta1_power},
        {"critic.beta2_power", GPUR_SCALAR_F64, &c->beta2_power},
        {"critic.next_learning_rate", GPUR_SCALAR_F32, &c->next_learning_rate},
        {"critic.mean_q", GPUR_SCALAR_F32, &c->mean_q},
        {"critic.gradient_norm", GPUR_SCALAR_F32, &c->gradient_norm},
        {"critic.learning_rate", GPUR_SCALAR_F32, &c->learning_rate},
    };
    memcpy(list, scalars, sizeof scalars);
    return sizeof scalars / sizeof *scalars;
}
