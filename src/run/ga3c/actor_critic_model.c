/* SPDX-License-Identifier: MIT */
/* The usual model of a run: an actor-critic, and a policy that acts by its weights. Creates runs with it. */
#include "run/ga3c/handle.h"
#include "learn/actor_critic/actor_critic.h"

#include <inttypes.h>
#include <stdlib.h>

typedef struct actor_critic_model {
    gpur_learner *learner;
    gpur_policy *policy;
    uint64_t seed; /* of the actions */
    float reward_clip;
} actor_critic_model;

static gpur_status predict(void *context, int64_t count, const void *obs, const uint32_t *lanes, const uint64_t *steps,
                           int32_t greedy, int32_t *actions, float *values, int64_t *version)
{
    const actor_critic_model *const model = context;
    const gpur_policy_input input = {
        .size = sizeof input, .count = count, .obs = obs, .lane = lanes, .step = steps, .greedy = greedy};
    const gpur_policy_output output = {.size = sizeof output, .actions = actions, .version = version, .values = values};
    return gpur_policy_act(model->policy, &input, &output);
}

static gpur_status broadcast(void *context)
{
    const actor_critic_model *const model = context;
    return gpur_policy_pull(model->policy, model->learner, GPUR_WEIGHTS_ONLINE);
}

static gpur_status train(void *context, const gpur_actor_critic_batch *batch, gpur_actor_critic_losses *losses)
{
    const actor_critic_model *const model = context;
    GPUR_TRY(gpur_actor_critic_train(model->learner, batch, losses));
    return broadcast(context);
}

static gpur_status diverged(void *context, int64_t step)
{
    const actor_critic_model *const model = context;
    return gpur_learner_weights_diverged(model->learner, 0, step, &model->reward_clip);
}

static gpur_status check(void *context)
{
    const actor_critic_model *const model = context;
    return gpur_learner_check_weights(model->learner, &model->reward_clip);
}

/* Agents draw by their lane, so that their copies can have one seed. */
static gpur_status local_open(void *context, gpur_local_model **local)
{
    const actor_critic_model *const model = context;
    return gpur_local_model_create(gpur_actor_critic_of(model->learner), model->seed, local);
}

static int64_t steps_of(void *context)
{
    const actor_critic_model *const model = context;
    return gpur_learner_steps_enqueued(model->learner);
}

static gpur_status save(void *context, const char *path)
{
    const actor_critic_model *const model = context;
    return gpur_learner_save(model->learner, path, NULL);
}

/* The files of a run are replaced one after another, so a save that was interrupted leaves one of an older one. */
static gpur_status load(void *context, const char *path, int64_t trained)
{
    const actor_critic_model *const model = context;
    gpur_checkpoint_info info = {.size = sizeof info};
    GPUR_TRY(gpur_checkpoint_get_info(path, &info));
    if (info.steps != trained)
        return gpur_fail(GPUR_FILE_ERROR,
                         "%s was saved after %" PRId64 " train steps, and the file of the run's counters after %" PRId64
                         ": they are of different saves, of which one was not finished",
                         path, info.steps, trained);
    return gpur_learner_load(model->learner, path, NULL);
}

static void close_model(void *context)
{
    actor_critic_model *const model = context;
    gpur_policy_destroy(model->policy);
    free(model);
}

/* A forward pass at a time for each predictor that there can be. */
static gpur_status open_policy(actor_critic_model *model, const gpur_ga3c_config *c)
{
    const gpur_actor_critic_config *const learner = &gpur_actor_critic_of(model->learner)->config;
    gpur_policy_config config;
    GPUR_TRY(gpur_policy_config_init(&config, sizeof config));
    config.network = learner->network;
    config.obs = learner->obs;
    config.max_batch = c->max_prediction_batch;
    config.streams = c->tuner == GPUR_TUNER_NONE ? c->predictors : GPUR_MAX_POLICY_STREAMS;
    config.math = learner->math;
    config.policy_floor = learner->policy_floor;
    config.seed = model->seed;
    return gpur_policy_create(model->learner->device, &config, &model->policy);
}

static gpur_ga3c_model table_of(actor_critic_model *model)
{
    const gpur_actor_critic_config *const learner = &gpur_actor_critic_of(model->learner)->config;
    return (gpur_ga3c_model){
        .context = model,
        .obs = learner->obs,
        .stack_is_last = learner->network.input_layout == GPUR_HWC,
        .check_finite = learner->check_finite,
        .num_actions = learner->network.num_actions,
        .max_batch = learner->max_batch,
        .device = model->learner->device,
        .policy = model->policy,
        .predict = predict,
        .train = train,
        .diverged = diverged,
        .check = check,
        .broadcast = broadcast,
        .local_open = local_open,
        .local_close = gpur_local_model_destroy,
        .local_pull = gpur_local_model_pull,
        .local_predict = gpur_local_model_predict,
        .local_train = gpur_local_model_train,
        .steps = steps_of,
        .save = save,
        .load = load,
        .close = close_model,
    };
}

gpur_status gpur_ga3c_create(gpur_learner *learner, const gpur_run_config *all, const gpur_ga3c_config *config,
                             gpur_run **run)
{
    gpur_ga3c_config known;
    gpur_run_config common;
    GPUR_REQUIRE(run, "handle, which gets the run, is NULL");
    *run = NULL;
    GPUR_TRY(gpur_learner_require(learner, &gpur_algorithm_actor_critic, "gpur_ga3c_create"));
    GPUR_TRY(gpur_ga3c_read_config(config, &known));
    GPUR_TRY(gpur_run_read_config(all, &common));
    actor_critic_model *const model = calloc(1, sizeof *model);
    if (!model)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for a model of %zu bytes", sizeof *model);
    *model = (actor_critic_model){.learner = learner, .seed = common.seed, .reward_clip = known.reward_clip};
    const gpur_status status = open_policy(model, &known);
    if (status != GPUR_OK) {
        close_model(model);
        return status;
    }
    const gpur_ga3c_model table = table_of(model);
    GPUR_TRY(gpur_ga3c_create_with(&table, all, config, run));
    (*run)->learner = learner;
    return GPUR_OK;
}
