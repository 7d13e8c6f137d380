/* SPDX-License-Identifier: MIT */
/* A learner over a linked replay makes the same weights, bit by bit, as over a packed one. */
#include "support/learn_rig.h"
#include "support/learn_world.h"
#include "support/replay_kit.h"
#include "test.h"
#include "base/status.h"

enum { STEPS = 300, MOST = 4096, STACK = 3, FEATURES = 4 };

typedef struct side {
    gpur_replay *replay;
    gpur_writer *writer;
    gpur_learner *learner;
    float weights[MOST];
    int64_t count;
} side;

static const gpur_field fields[] = {
    {"obs", GPUR_FLOAT32, {STACK, FEATURES}},      {"action", GPUR_INT32, {0}},    {"reward", GPUR_FLOAT32, {0}},
    {"next_obs", GPUR_FLOAT32, {STACK, FEATURES}}, {"terminated", GPUR_BOOL, {0}}, {"discount", GPUR_FLOAT32, {0}}};

/* A random walk of stacks; the same for each side. */
static gpur_status fill(side *s)
{
    float obs[STACK][FEATURES] = {{0}};
    uint64_t random = 9;
    for (int t = 0; t < STEPS; t++) {
        const int32_t action = (int32_t)kit_below(&random, WORLD_ACTIONS);
        const float reward = (float)kit_below(&random, 100) / 50.0f - 1.0f;
        const uint8_t ends = t % 11 == 10;
        if (t % 11 == 0) {
            memset(obs, 0, sizeof obs);
            obs[STACK - 1][0] = (float)t + 1;
            GPUR_TRY(gpur_writer_reset(s->writer, 0, obs));
        }
        memmove(obs, obs + 1, sizeof obs - sizeof obs[0]);
        for (int f = 0; f < FEATURES; f++)
            obs[STACK - 1][f] = (float)kit_below(&random, 1000) / 500.0f - 1.0f;
        GPUR_TRY(gpur_writer_step(s->writer, &action, &reward, obs, &ends, NULL));
    }
    return GPUR_OK;
}

static gpur_status train(side *s, gpur_device *device, int32_t layout)
{
    gpur_replay_config config = kit_config(fields, 6, 256, 16, 32);
    gpur_learner_config learner = world_config(GPUR_HEAD_DUELING, 1);
    int64_t ids[32];
    config.layout = layout, config.frame_stack = layout == GPUR_LINKED ? STACK : 1, config.n_step = 2;
    config.frame_slack = 64;
    learner.batch_size = 32, learner.host_batches = 1;
    GPUR_TRY(gpur_replay_create(device, &config, &s->replay));
    GPUR_TRY(gpur_writer_create(s->replay, 1, &s->writer));
    GPUR_TRY(gpur_learner_create(s->replay, &learner, &s->learner));
    GPUR_TRY(fill(s));
    GPUR_TRY(gpur_learner_train(s->learner, 20));
    for (int b = 0; b < 32; b++)
        ids[b] = STEPS - 2 - b;
    GPUR_TRY(gpur_learner_train_on(s->learner, ids));
    const kit k = kit_of(s->replay, config.gamma); /* and rows that the caller brings, which are packed */
    unsigned char *const rows = calloc(32, (size_t)k.row_bytes);
    const gpur_status status = gpur_learner_train_rows(s->learner, rows);
    free(rows);
    GPUR_TRY(status);
    GPUR_TRY(gpur_learner_train(s->learner, 3));
    s->count = world_weights(s->learner, GPUR_WEIGHTS_ONLINE, s->weights, MOST);
    return GPUR_OK;
}

TEST(a_learner_makes_the_same_weights_of_either_layout)
{
    static side sides[2];
    gpur_device *const device = test_device();
    for (int i = 0; i < 2; i++)
        CHECK_OK(train(&sides[i], device, i == 0 ? GPUR_PACKED : GPUR_LINKED));
    CHECK_EQUAL(gpur_replay_size(sides[0].replay), 256);
    CHECK_EQUAL(gpur_replay_size(sides[1].replay), 256);
    CHECK(sides[0].count > 100);
    CHECK_EQUAL(sides[0].count, sides[1].count);
    CHECK(memcmp(sides[0].weights, sides[1].weights, (size_t)sides[0].count * sizeof(float)) == 0);
    for (int i = 0; i < 2; i++) {
        gpur_learner_destroy(sides[i].learner);
        gpur_writer_destroy(sides[i].writer);
        gpur_replay_destroy(sides[i].replay);
    }
    gpur_device_close(device);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(a_learner_makes_the_same_weights_of_either_layout);
    return test_main_end();
}
