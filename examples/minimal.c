/* SPDX-License-Identifier: MIT */
/* The library in one page: four walkers in a corridor of ten cells learn that the reward is at its right end. */
#include <gpureplay.h>

#include <stdio.h>
#include <stdlib.h>

enum { WALKERS = 4, CELLS = 10, LONGEST = 50, STEPS = 4000 };

/* Ends the program with the library's words for what went wrong. */
static void must(gpur_status status)
{
    if (status == GPUR_OK)
        return;
    fprintf(stderr, "%s: %s\n", gpur_status_name(status), gpur_last_error());
    exit(1);
}

int main(int argc, char **argv)
{
    gpur_device *device;
    must(gpur_device_open(argc > 1 ? argv[1] : "auto", NULL, &device));

    const gpur_field fields[] = {
        {"obs", GPUR_FLOAT32, {1}},      {"action", GPUR_INT32, {0}},    {"reward", GPUR_FLOAT32, {0}},
        {"next_obs", GPUR_FLOAT32, {1}}, {"terminated", GPUR_BOOL, {0}}, {"truncated", GPUR_BOOL, {0}},
    };
    gpur_replay_config replay_config;
    must(gpur_replay_config_init(&replay_config, sizeof replay_config));
    replay_config.capacity = 20000;
    replay_config.fields = fields;
    replay_config.field_count = 6;
    replay_config.min_size = 200;
    gpur_replay *replay;
    must(gpur_replay_create(device, &replay_config, &replay));

    gpur_learner_config learner_config;
    must(gpur_learner_config_init(&learner_config, sizeof learner_config));
    learner_config.network.outputs = 2;
    learner_config.target_period = 100;
    gpur_learner *learner;
    must(gpur_learner_create(replay, &learner_config, &learner));

    gpur_writer *writer;
    must(gpur_writer_create(replay, WALKERS, &writer));
    float obs[WALKERS] = {0}, next_obs[WALKERS], reward[WALKERS];
    uint8_t terminated[WALKERS], truncated[WALKERS];
    int32_t action[WALKERS], cell[WALKERS] = {0}, age[WALKERS] = {0};
    must(gpur_writer_reset(writer, -1, obs));

    for (int step = 0; step < STEPS; step++) {
        must(gpur_learner_act(learner, WALKERS, obs, step < STEPS / 2 ? 0.5f : 0.1f, action));
        for (int i = 0; i < WALKERS; i++) {
            cell[i] += action[i] == 1 ? 1 : cell[i] > 0 ? -1 : 0;
            next_obs[i] = (float)cell[i] / CELLS;
            terminated[i] = cell[i] == CELLS - 1;
            truncated[i] = ++age[i] == LONGEST;
            reward[i] = terminated[i] ? 1.0f : 0.0f;
        }
        must(gpur_writer_step(writer, action, reward, next_obs, terminated, truncated));
        for (int i = 0; i < WALKERS; i++) {
            obs[i] = next_obs[i];
            if (!terminated[i] && !truncated[i])
                continue;
            obs[i] = 0.0f, cell[i] = age[i] = 0;
            must(gpur_writer_reset(writer, i, &obs[i]));
        }
        if (gpur_replay_can_sample(replay))
            must(gpur_learner_train(learner, 1)); /* on a GPU this returns before it is done */
    }

    int right = 0;
    for (int i = 0; i < CELLS - 1; i++) {
        const float at = (float)i / CELLS;
        int32_t choice;
        must(gpur_learner_act(learner, 1, &at, 0.0f, &choice));
        right += choice;
    }
    printf("%d of %d cells lead right\n", right, CELLS - 1);

    gpur_writer_destroy(writer);
    gpur_learner_destroy(learner);
    gpur_replay_destroy(replay);
    gpur_device_close(device);
    return right == CELLS - 1 ? 0 : 1;
}
