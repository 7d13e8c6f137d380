/* SPDX-License-Identifier: MIT */
/* The library on one page: four walkers in a corridor of ten cells learn that the reward is at the right end. */
#include <gpureplay.h>

#include <stdio.h>
#include <stdlib.h>

enum { WALKERS = 4, CELLS = 10, LONGEST = 50, STEPS = 4000 };

/* Ends the program with the library's error message if a call failed. */
static void must(gpur_status status)
{
    if (status == GPUR_OK)
        return;
    fprintf(stderr, "%s: %s\n", gpur_status_name(status), gpur_last_error());
    exit(1);
}

static gpur_replay *make_replay(gpur_device *device)
{
    const gpur_field fields[] = {
        {"obs", GPUR_FLOAT32, {1}},      {"action", GPUR_INT32, {0}},    {"reward", GPUR_FLOAT32, {0}},
        {"next_obs", GPUR_FLOAT32, {1}}, {"terminated", GPUR_BOOL, {0}}, {"truncated", GPUR_BOOL, {0}},
    };
    gpur_replay_config config;
    must(gpur_replay_config_init(&config, sizeof config));
    config.capacity = 20000;
    config.fields = fields;
    config.field_count = 6;
    config.min_size = 200;
    gpur_replay *replay;
    must(gpur_replay_create(device, &config, &replay));
    return replay;
}

static gpur_learner *make_learner(gpur_replay *replay)
{
    gpur_dqn_config config;
    must(gpur_dqn_config_init(&config, sizeof config));
    config.network.num_actions = 2;
    config.target_period = 100;
    gpur_learner *learner;
    must(gpur_dqn_create(replay, &config, &learner));
    return learner;
}

/* The state of the walkers, and the results of their last step. */
typedef struct corridor {
    int32_t cell[WALKERS], age[WALKERS], action[WALKERS]; /* 0: left, 1: right */
    float obs[WALKERS], next_obs[WALKERS], reward[WALKERS];
    uint8_t terminated[WALKERS], truncated[WALKERS];
} corridor;

static void walk(corridor *c)
{
    for (int i = 0; i < WALKERS; i++) {
        c->cell[i] += c->action[i] == 1 ? 1 : c->cell[i] > 0 ? -1 : 0;
        c->next_obs[i] = (float)c->cell[i] / CELLS;
        c->terminated[i] = c->cell[i] == CELLS - 1;
        c->truncated[i] = ++c->age[i] == LONGEST;
        c->reward[i] = c->terminated[i] ? 1.0f : 0.0f;
    }
}

/* Writes the step to the replay. Walkers that arrived, or walked for too long, start again at the left end. */
static void remember(corridor *c, gpur_writer *writer)
{
    must(gpur_writer_step(writer, c->action, c->reward, c->next_obs, c->terminated, c->truncated));
    for (int i = 0; i < WALKERS; i++) {
        c->obs[i] = c->next_obs[i];
        if (!c->terminated[i] && !c->truncated[i])
            continue;
        c->obs[i] = 0.0f, c->cell[i] = c->age[i] = 0;
        must(gpur_writer_reset(writer, i, &c->obs[i]));
    }
}

/* The number of cells in which the greedy action goes right. */
static int cells_leading_right(gpur_learner *learner)
{
    int right = 0;
    for (int i = 0; i < CELLS - 1; i++) {
        const float at = (float)i / CELLS;
        int32_t choice;
        must(gpur_learner_act(learner, 1, &at, 0.0f, &choice, NULL));
        right += choice;
    }
    return right;
}

int main(int argc, char **argv)
{
    gpur_device *device;
    gpur_writer *writer;
    corridor c = {0};
    must(gpur_device_open(argc > 1 ? argv[1] : "auto", NULL, &device));
    gpur_replay *const replay = make_replay(device);
    gpur_learner *const learner = make_learner(replay);
    must(gpur_writer_create(replay, WALKERS, &writer));
    must(gpur_writer_reset(writer, -1, c.obs));

    for (int step = 0; step < STEPS; step++) {
        must(gpur_learner_act(learner, WALKERS, c.obs, step < STEPS / 2 ? 0.5f : 0.1f, c.action, NULL));
        walk(&c);
        remember(&c, writer);
        if (gpur_replay_can_sample(replay))
            must(gpur_learner_train(learner, 1)); /* on a GPU this returns before the step is done */
    }

    const int right = cells_leading_right(learner);
    printf("%d of %d cells lead right\n", right, CELLS - 1);
    gpur_writer_destroy(writer);
    gpur_learner_destroy(learner);
    gpur_replay_destroy(replay);
    gpur_device_close(device);
    return right == CELLS - 1 ? 0 : 1;
}
