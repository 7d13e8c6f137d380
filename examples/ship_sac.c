/* SPDX-License-Identifier: MIT */
/*
 * Soft actor-critic [Haarnoja et al. 2018b] in an environment of one's own: a ship that is to come to the harbor, at
 * (0, 0), and to stay there. It acts by actions drawn from the policy, and at the end by their mean.
 */
#include "must.h"

#include <gpureplay.h>
#include <math.h>

enum { OBS = 4, ACTION = 2, GAME = 50, GAMES = 60, MIN_SIZE = 500 };

/* An observation is (x, y) and the velocity; an action is the pull of the engines to both sides, each -1 to 1. */
static void reset(float ship[OBS])
{
    for (int i = 0; i < 2; i++)
        ship[i] = 2.0f * (float)rand() / (float)RAND_MAX - 1.0f, ship[2 + i] = 0;
}

static float step(float ship[OBS], const float action[ACTION])
{
    for (int i = 0; i < 2; i++) {
        ship[2 + i] = 0.9f * ship[2 + i] + 0.02f * action[i];
        ship[i] += ship[2 + i];
    }
    return -hypotf(ship[0], ship[1]); /* the reward: the nearer the better */
}

int main(int argc, char **argv)
{
    const gpur_field fields[] = {{"obs", GPUR_FLOAT32, {OBS}},
                                 {"action", GPUR_FLOAT32, {ACTION}},
                                 {"reward", GPUR_FLOAT32, {0}},
                                 {"next_obs", GPUR_FLOAT32, {OBS}},
                                 {"terminated", GPUR_BOOL, {0}}};
    float ship[OBS], action[ACTION], distance = 0;
    gpur_device *device;
    gpur_replay *replay;
    gpur_writer *writer;
    gpur_learner *learner;
    gpur_policy *policy;
    gpur_replay_config memory;
    gpur_sac_config sac;
    gpur_policy_config acting;
    must(gpur_device_open(argc > 1 ? argv[1] : "auto", NULL, &device));
    must(gpur_replay_config_init(&memory, sizeof memory));
    memory.capacity = 10000, memory.fields = fields, memory.field_count = 5, memory.min_size = MIN_SIZE;
    memory.gamma = 0.95f;
    must(gpur_replay_create(device, &memory, &replay));
    must(gpur_writer_create(replay, 1, &writer));
    must(gpur_sac_config_init(&sac, sizeof sac));
    sac.actor.num_actions = ACTION, sac.batch_size = 64;
    for (int i = 0; i < 2; i++)
        sac.actor.trunk[i].units = sac.critic.trunk[i].units = 64;
    sac.actor_optimizer.learning_rate.first = sac.critic_optimizer.learning_rate.first =
        sac.temperature_optimizer.learning_rate.first = 1e-3f;
    must(gpur_sac_create(replay, &sac, &learner));
    must(gpur_policy_config_init(&acting, sizeof acting));
    acting.network = sac.actor, acting.obs = fields[0];
    must(gpur_policy_create(device, &acting, &policy));
    for (int game = 0; game < GAMES + 10; game++) { /* the last ten tell what it has learned */
        const int greedy = game >= GAMES;
        const gpur_policy_input input = {.size = sizeof input, .count = 1, .obs = ship, .greedy = greedy};
        const gpur_policy_output output = {.size = sizeof output, .action_vectors = action};
        reset(ship);
        must(gpur_writer_reset(writer, 0, ship));
        for (int t = 1; t <= GAME; t++) {
            must(gpur_policy_act(policy, &input, &output));
            const float reward = step(ship, action);
            must(gpur_writer_step(writer, action, &reward, ship, &(uint8_t){0}, &(uint8_t){t == GAME}));
            if (greedy || !gpur_replay_can_sample(replay))
                continue;
            must(gpur_learner_train(learner, 1));
            must(gpur_policy_pull(policy, learner, GPUR_WEIGHTS_ONLINE));
        }
        distance += greedy ? hypotf(ship[0], ship[1]) / 10 : 0;
    }
    printf("the ship ends %.3f from the harbor; it begins 0.77 from it, and may begin as far as 1.41\n", distance);
    gpur_policy_destroy(policy);
    gpur_learner_destroy(learner);
    gpur_writer_destroy(writer);
    gpur_replay_destroy(replay);
    gpur_device_close(device);
    return distance < 0.1f ? 0 : 1;
}
