/* SPDX-License-Identifier: MIT */
/* How an actor selects actions: epsilon-greedily by Q values, or a vector with noise, or one that is drawn. */
#include "run/apex/action_selector.h"

#include "run/action_vectors.h"

#include <stdlib.h>
#include <string.h>

/* Opening. */

/* Takes `count` floats of what is left of the memory. */
static float *take(float **rest, int64_t count)
{
    float *const taken = *rest;
    *rest += count;
    return taken;
}

static gpur_status alloc(gpur_action_selector *c)
{
    const int64_t actions = c->num_actions, inputs = 2 * (c->features + actions);
    const int64_t most_q = actions + GPUR_MAX_COPIES;
    const int64_t of_vectors = c->features > 0 ? 3 * actions + 2 * c->features + inputs + 2 * GPUR_MAX_COPIES : 0;
    float *rest = c->memory = calloc((size_t)(2 * most_q + of_vectors), sizeof *rest);
    if (!rest)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for an actor's actions");
    c->q = take(&rest, most_q);
    c->final_q = take(&rest, most_q);
    if (c->features == 0)
        return GPUR_OK;
    c->vectors = take(&rest, 2 * actions);
    c->values = take(&rest, 2 * GPUR_MAX_COPIES);
    c->scaled = take(&rest, actions);
    c->pair = take(&rest, 2 * c->features);
    c->inputs = take(&rest, inputs);
    return GPUR_OK;
}

gpur_status gpur_action_selector_open(gpur_action_selector *c, gpur_device *device, const gpur_schema *schema,
                                      const gpur_learn_fields *fields, const gpur_apex_networks *networks,
                                      const gpur_space *actions, int has_priorities, uint64_t seed)
{
    gpur_policy_config config;
    const int has_vectors = networks->critic != NULL;
    GPUR_TRY(gpur_policy_config_init(&config, sizeof config));
    config.max_batch = has_vectors ? 2 : 1;
    config.seed = seed;
    c->num_actions = networks->acting->num_actions;
    c->features = has_vectors ? (int32_t)fields->obs_format.features : 0;
    c->draws = networks->acting->head == GPUR_HEAD_SQUASHED_GAUSSIAN;
    c->action_is_int64 = fields->action_is_int64;
    c->space = *actions;
    GPUR_TRY(gpur_actor_policies_open(&c->policies, device, schema, networks, has_priorities, &config));
    return alloc(c);
}

void gpur_action_selector_close(gpur_action_selector *selector)
{
    gpur_actor_policies_close(&selector->policies);
    free(selector->memory);
    selector->memory = NULL;
}

/* Discrete actions. */

static gpur_status choose_number(gpur_action_selector *c, const void *obs, const gpur_action_noise *choice)
{
    const gpur_policy_input input = {.size = sizeof input,
                                     .count = 1,
                                     .obs = obs,
                                     .epsilon = &choice->noise,
                                     .lane = &choice->lane,
                                     .step = &choice->step};
    const gpur_policy_output output = {.size = sizeof output, .actions = &c->number, .q = c->q, .version = &c->version};
    GPUR_TRY(gpur_policy_act(c->policies.acting, &input, &output));
    c->wide = c->number;
    c->action = c->action_is_int64 ? (const void *)&c->wide : (const void *)&c->number;
    c->env_action = &c->number;
    return GPUR_OK;
}

static gpur_status value_numbers(gpur_action_selector *c, const void *obs)
{
    const gpur_policy_input input = {.size = sizeof input, .count = 1, .obs = obs};
    const gpur_policy_output output = {.size = sizeof output, .q = c->final_q};
    return gpur_policy_act(c->policies.acting, &input, &output);
}

/* Vectors. */

/* Actions of (rows) observations that are the same one, with a sigma each, or without sigmas drawn. */
static gpur_status compute_vectors(gpur_action_selector *c, const void *obs, const gpur_action_noise *choice,
                                   const float *sigmas, int64_t rows)
{
    const size_t bytes = (size_t)c->features * sizeof(float);
    const uint32_t lanes[] = {choice->lane, choice->lane};
    const uint64_t steps[] = {choice->step, choice->step};
    const gpur_policy_input input = {
        .size = sizeof input, .count = rows, .obs = c->pair, .sigma = sigmas, .lane = lanes, .step = steps};
    const gpur_policy_output output = {.size = sizeof output,
                                       .action_vectors = c->vectors,
                                       .version = &c->version,
                                       .log_probs = c->draws ? &c->log_prob : NULL};
    memcpy(c->pair, obs, bytes);
    memcpy(c->pair + c->features, obs, bytes);
    return gpur_policy_act(c->policies.acting, &input, &output);
}

/* By each critic the values of the observation with each of (rows) vectors. */
static gpur_status compute_values(gpur_action_selector *c, int64_t rows)
{
    const size_t of_obs = (size_t)c->features, of_action = (size_t)c->num_actions;
    const gpur_policy_input input = {.size = sizeof input, .count = rows, .obs = c->inputs};
    const gpur_policy_output output = {.size = sizeof output, .q = c->values};
    for (int64_t i = 0; i < rows; i++) {
        float *const row = c->inputs + (size_t)i * (of_obs + of_action);
        memcpy(row, c->pair, of_obs * sizeof *row);
        memcpy(row + of_obs, c->vectors + (size_t)i * of_action, of_action * sizeof *row);
    }
    return gpur_policy_act(c->policies.critic, &input, &output);
}

/* The value of the observation, by those of the first vector. */
static float value_of(const gpur_action_selector *c)
{
    float least = c->values[0];
    for (int32_t i = 1; i < c->policies.critics; i++)
        least = c->values[i] < least ? c->values[i] : least;
    return c->draws ? least - c->policies.alpha * c->log_prob : least;
}

static gpur_status choose_vector(gpur_action_selector *c, const void *obs, const gpur_action_noise *choice)
{
    const float sigmas[] = {0.0f, choice->noise};
    const int32_t last = c->draws ? 0 : 1;             /* the vector that the critics value as the action */
    float *const action = c->vectors + c->num_actions; /* stays while the last observation is valued */
    GPUR_TRY(compute_vectors(c, obs, choice, c->draws ? NULL : sigmas, last + 1));
    if (c->draws)
        memcpy(action, c->vectors, (size_t)c->num_actions * sizeof *action);
    if (c->policies.critic) {
        GPUR_TRY(compute_values(c, last + 1));
        c->q[0] = value_of(c);
        memcpy(c->q + 1, c->values + last * c->policies.critics, (size_t)c->policies.critics * sizeof *c->q);
    }
    gpur_action_scale(&c->space, c->num_actions, action, c->scaled);
    c->action = action;
    c->env_action = c->scaled;
    return GPUR_OK;
}

static gpur_status value_vector(gpur_action_selector *c, const void *obs, const gpur_action_noise *choice)
{
    const int64_t version = c->version;
    const float no_noise = 0.0f;
    GPUR_TRY(compute_vectors(c, obs, choice, c->draws ? NULL : &no_noise, 1));
    c->version = version;
    GPUR_TRY(compute_values(c, 1));
    c->final_q[0] = value_of(c);
    return GPUR_OK;
}

gpur_status gpur_action_selector_select(gpur_action_selector *c, const void *obs, const gpur_action_noise *choice)
{
    return c->features > 0 ? choose_vector(c, obs, choice) : choose_number(c, obs, choice);
}

gpur_status gpur_action_selector_value(gpur_action_selector *c, const void *obs, const gpur_action_noise *choice)
{
    return c->features > 0 ? value_vector(c, obs, choice) : value_numbers(c, obs);
}
