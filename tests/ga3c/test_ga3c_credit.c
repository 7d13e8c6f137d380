/* SPDX-License-Identifier: MIT */
/* Credit over long episodes: the first action decides about a single reward in the last step, a hundred steps later,
 * which 20 and more rollouts lie between. It is learnt where the episode's length is a multiple of t_max and where the
 * last rollout has a single step; and not where terminal steps are dropped, as in the authors' code. */
#include "gpureplay/ga3c.h"
#include "support/run_envs.h"
#include "test.h"

#include <stdlib.h>

enum { LONGEST = 101, OBS = 2 * LONGEST, STEPS = 150000 };

static gpur_device *device;
static int length; /* of episodes */

typedef struct corridor {
    int at, is_right; /* is_right: the first action was 1 */
} corridor;

static const char *init(const char *options, uint64_t seed, gpur_env_info *info, void **env)
{
    (void)options, (void)seed;
    info->obs = (gpur_space){.dtype = GPUR_FLOAT32, .shape = {OBS}, .high = 1};
    info->action = (gpur_space){.dtype = GPUR_INT32, .num_actions = 2, .high = 1};
    *env = calloc(1, sizeof(corridor));
    return *env ? NULL : "there is no memory";
}

/* The place, once for each first action. */
static void show(const corridor *c, float *obs)
{
    memset(obs, 0, OBS * sizeof *obs);
    obs[c->is_right * LONGEST + c->at] = 1;
}

static const char *reset(void *env, void *obs)
{
    *(corridor *)env = (corridor){0, 0};
    show(env, obs);
    return NULL;
}

static const char *step(void *env, const void *action, void *obs, gpur_env_result *result)
{
    corridor *const c = env;
    if (c->at == 0)
        c->is_right = *(const int32_t *)action == 1;
    c->at++;
    const int has_ended = c->at == length;
    *result = (gpur_env_result){.reward = has_ended && c->is_right ? 1.0f : 0.0f, .terminated = (uint8_t)has_ended};
    c->at = has_ended ? c->at - 1 : c->at; /* the last observation is one of the others */
    show(c, obs);
    return NULL;
}

static const gpur_env_type type = {
    .size = sizeof type, .name = "Corridor", .init = init, .reset = reset, .step = step, .close = free};

static gpur_status train(gpur_learner *learner, int32_t system, int drops_terminal)
{
    gpur_ga3c_config config;
    gpur_run *run = NULL;
    gpur_status status = gpur_ga3c_config_init(&config, sizeof config);
    config.system = system;
    config.agents = 8, config.min_train_batch = 20, config.queue_room = 8;
    config.drop_terminal = drops_terminal;
    if (status == GPUR_OK)
        status = gpur_ga3c_create(learner, ENVS(&type), &config, &run);
    if (status == GPUR_OK)
        status = gpur_run_advance(run, STEPS, 0);
    gpur_run_destroy(run);
    return status;
}

/* The probability of action 1 in the first step after training; -1 on an error. */
static double learned(int32_t system, int drops_terminal)
{
    gpur_actor_critic_config config;
    gpur_learner *learner = NULL;
    gpur_policy_config acting;
    gpur_policy *policy = NULL;
    float obs[OBS], probabilities[2] = {-1, -1};
    gpur_status status = gpur_actor_critic_config_init(&config, sizeof config);
    config.network.trunk_count = 0; /* a weight for each place: nothing is shared between them */
    config.network.num_actions = 2;
    config.obs = (gpur_field){"obs", GPUR_FLOAT32, {OBS}};
    config.optimizer.kind = GPUR_RMSPROP_TORCH, config.optimizer.epsilon = 1e-5f;
    config.optimizer.learning_rate.first = config.optimizer.learning_rate.last = 5e-3f;
    if (status == GPUR_OK)
        status = gpur_actor_critic_create(device, &config, &learner);
    if (status == GPUR_OK)
        status = train(learner, system, drops_terminal);
    if (status == GPUR_OK)
        status = gpur_policy_config_init(&acting, sizeof acting);
    acting.network = config.network, acting.obs = config.obs;
    if (status == GPUR_OK)
        status = gpur_policy_create(device, &acting, &policy);
    if (status == GPUR_OK)
        status = gpur_policy_pull(policy, learner, GPUR_WEIGHTS_ONLINE);
    show(&(corridor){0, 0}, obs);
    const gpur_policy_input input = {.size = sizeof input, .count = 1, .obs = obs};
    const gpur_policy_output output = {.size = sizeof output, .probabilities = probabilities};
    if (status == GPUR_OK)
        status = gpur_policy_act(policy, &input, &output);
    gpur_policy_destroy(policy);
    gpur_learner_destroy(learner);
    return status == GPUR_OK ? (double)probabilities[1] : -1;
}

TEST(a_reward_after_a_hundred_steps_is_credited_to_the_first_one)
{
    const int count = test_on_cuda() ? 1 : 3; /* where each prediction waits for a GPU, one of the systems will do */
    for (int32_t system = 0; system < count; system++) {
        length = 100 + system % 2;
        const double p = learned(system, 0);
        TEST_REQUIRE(p > 0.8, "system %d, %d steps: the probability is %g; wanted above 0.8", system, length, p);
    }
}

TEST(without_terminal_steps_nothing_is_learnt)
{
    length = 100;
    const double p = learned(GPUR_GA3C, 1);
    TEST_REQUIRE(p > 0.3 && p < 0.7, "the probability is %g; wanted about 0.5", p);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
    RUN(a_reward_after_a_hundred_steps_is_credited_to_the_first_one);
    RUN(without_terminal_steps_nothing_is_learnt);
    gpur_device_close(device);
    return test_main_end();
}
