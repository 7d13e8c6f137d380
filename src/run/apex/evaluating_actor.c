/* SPDX-License-Identifier: MIT */
/* The actor that evaluates: plays each evaluation by the weights that the learner has set for it, and sends the
 * result. */
#include "run/apex/actor.h"

#include "base/clock.h"
#include "base/numbers.h"
#include "run/evaluating_policy.h"
#include "run/evaluate.h"

#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

static const struct timespec POLL_INTERVAL = {.tv_nsec = 5 * 1000 * 1000}; /* between two looks for an evaluation */

typedef struct evaluating_actor {
    const gpur_actor_context *context;
    const gpur_actor_settings *settings;
    const gpur_actor_transport *transport;
    gpur_obs_shape shape;
    gpur_evaluator evaluator;
    gpur_actor_policies policies; /* the acting one alone */
    unsigned char *weights;       /* of it, as bytes */
    gpur_evaluating_policy acting;
    int64_t number; /* of the last evaluation; 0: none */
} evaluating_actor;

/* Opening. */

static gpur_status alloc_weights(evaluating_actor *a)
{
    const int64_t bytes = gpur_actor_policies_bytes(&a->policies);
    a->weights = malloc((size_t)bytes);
    if (!a->weights)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for %" PRId64 " bytes of weights", bytes);
    return GPUR_OK;
}

static gpur_status open_policies(evaluating_actor *a)
{
    gpur_policy_config config;
    GPUR_TRY(gpur_policy_config_init(&config, sizeof config));
    config.max_batch = a->settings->eval_envs;
    config.seed = gpur_actor_seed(a->settings, GPUR_APEX_EVALUATOR, 1);
    GPUR_TRY(gpur_actor_policies_open(&a->policies, a->context->device, &a->context->format->schema,
                                      &a->context->networks, 0, &config));
    const int64_t ours = gpur_actor_policies_bytes(&a->policies), all = a->context->shared->weights_bytes;
    GPUR_REQUIRE(ours == all || (a->context->networks.critic && ours < all),
                 "the weights of this actor's network have %" PRId64 " bytes, and those of the learner's %" PRId64
                 "; the networks must be the same",
                 ours, all);
    return GPUR_OK;
}

static gpur_status open_envs(evaluating_actor *a)
{
    gpur_env_info info;
    gpur_space actions = {0}; /* of the first environment */
    gpur_evaluator *const e = &a->evaluator;
    const gpur_network_config *const network = a->context->networks.acting;
    GPUR_TRY(gpur_evaluator_alloc(e, a->settings->eval_envs, a->context->type,
                                  gpur_evaluating_policy_action_bytes(network), GPUR_APEX_EVALUATOR));
    for (int32_t i = 0; i < e->count; i++) {
        const uint64_t seed = gpur_actor_seed(a->settings, GPUR_APEX_EVALUATOR + i, 0);
        GPUR_TRY(gpur_actor_make_env(a->context, a->settings, seed, &e->runners[i], &info));
        if (i == 0)
            actions = info.action;
    }
    GPUR_TRY(gpur_evaluating_policy_open(&a->acting, a->policies.acting, network, &actions, e->count));
    GPUR_TRY(gpur_obs_shape_find(&info.obs, &a->context->format->schema, &a->context->format->config, &a->shape));
    return gpur_evaluator_open(e, &a->shape, a->context->format->config.check_finite);
}

static gpur_status open_all(evaluating_actor *a)
{
    GPUR_TRY(open_policies(a));
    GPUR_TRY(open_envs(a));
    return alloc_weights(a);
}

static void close_all(evaluating_actor *a)
{
    gpur_evaluator_close(&a->evaluator);
    gpur_evaluating_policy_close(&a->acting);
    gpur_actor_policies_close(&a->policies);
    free(a->weights);
}

/* Playing. */

static gpur_status choose(void *context, int64_t count, const unsigned char *obs, const uint32_t *streams,
                          const uint64_t *steps, int32_t greedy, void *actions)
{
    evaluating_actor *const a = context;
    const float noise = greedy ? 0.0f : a->settings->epsilon;
    GPUR_TRY(gpur_evaluating_policy_act(&a->acting, count, obs, streams, steps, noise, greedy, actions));
    atomic_store(&a->context->counts->eval_episode, atomic_load(&a->evaluator.episode));
    atomic_fetch_add(&a->context->counts->steps, count);
    return GPUR_OK;
}

static int is_gone(const evaluating_actor *a)
{
    return a->transport->is_gone && a->transport->is_gone(a->transport->context);
}

/* 1: it is asked to end, or the evaluation is not wanted any more. */
static int is_stopping(void *context)
{
    const evaluating_actor *const a = context;
    const gpur_actor_counts *const counts = a->context->counts;
    return atomic_load(&counts->is_asked) || atomic_load(&counts->evaluation) != a->number || is_gone(a);
}

static gpur_status send_result(const evaluating_actor *a, double begun, int64_t cut)
{
    const gpur_evaluator *const e = &a->evaluator;
    gpur_run_event event;
    gpur_evaluator_fill_event(e, &event);
    const gpur_actor_evaluation result = {.number = a->number,
                                          .episodes = event.episodes,
                                          .length = event.length,
                                          .mean_return = event.mean_return,
                                          .return_deviation = event.return_deviation,
                                          .cut = atomic_load(&e->cut) - cut,
                                          .seconds = gpur_clock_seconds() - begun};
    return a->transport->take_evaluation(a->transport->context, &result);
}

/* An evaluation begins with new games. */
static gpur_status play(evaluating_actor *a)
{
    const gpur_actor_counts *const counts = a->context->counts;
    const int64_t bytes = gpur_actor_policies_bytes(&a->policies), cut = atomic_load(&a->evaluator.cut);
    const double begun = gpur_clock_seconds();
    gpur_shared_read_evaluated(a->context->shared, a->weights, bytes);
    if (is_stopping(a)) /* the weights may be those of the next one */
        return GPUR_OK;
    GPUR_TRY(gpur_actor_policies_set_weights(&a->policies, a->weights));
    gpur_evaluator_abandon(&a->evaluator);
    gpur_evaluator_begin(&a->evaluator, atomic_load(&counts->eval_episodes), atomic_load(&counts->eval_is_greedy));
    GPUR_TRY(gpur_evaluator_play(&a->evaluator, choose, a, is_stopping));
    return gpur_evaluator_is_over(&a->evaluator) ? send_result(a, begun, cut) : GPUR_OK;
}

static gpur_status evaluate(evaluating_actor *a)
{
    GPUR_TRY(open_all(a));
    while (!atomic_load(&a->context->counts->is_asked)) {
        const int64_t wanted = atomic_load(&a->context->counts->evaluation);
        if (is_gone(a))
            return gpur_fail(GPUR_INTERRUPTED, "the learner is gone");
        if (wanted == 0 || wanted == a->number) {
            nanosleep(&POLL_INTERVAL, NULL);
            continue;
        }
        a->number = wanted;
        GPUR_TRY(play(a));
    }
    return GPUR_OK;
}

gpur_status gpur_actor_evaluate(const gpur_actor_context *context, const gpur_actor_settings *settings,
                                const gpur_actor_transport *transport)
{
    int32_t has_refused = 0;
    evaluating_actor a = {.context = context, .settings = settings, .transport = transport};
    const gpur_status status = evaluate(&a);
    for (int32_t i = 0; i < a.evaluator.count; i++)
        has_refused |= a.evaluator.runners[i].has_refused;
    atomic_store(&context->counts->has_refused, status != GPUR_OK && has_refused);
    close_all(&a);
    return status;
}
