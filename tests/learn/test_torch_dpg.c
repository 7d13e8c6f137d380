/* SPDX-License-Identifier: MIT */
/*
 * The first train steps of Ape-X DPG's networks against PyTorch's own (torch_dpg.py made torch_dpg.h), with Adam, and
 * with AdamW, soft targets and normalized layers, and of TD3's (torch_td3.py), with the weights at the end: losses,
 * the mean of Q and gradient norms of every step, and the last step's gradient of every tensor. Weights and transitions
 * follow from one hash on both sides. A batch has each transition once.
 */
#include "support/torch_dpg.h"
#include "support/torch_td3.h"
#include "support/torch_unit.h"
#include "test.h"
#include "base/status.h"

typedef struct torch_row {
    float obs[TORCH_FEATURES], action[TORCH_ACTIONS], reward, next_obs[TORCH_FEATURES], discount;
    uint8_t terminated;
    uint8_t padding[3];
} torch_row;

enum { LARGEST_TENSOR = 400 * 300 };

static gpur_device *device;
static float values[LARGEST_TENSOR];

static float number(uint32_t i, uint32_t sequence)
{
    return (float)(2 * torch_unit(i, sequence) - 1);
}

static void fill(float *x, uint32_t row, uint32_t count, uint32_t sequence)
{
    for (uint32_t i = 0; i < count; i++)
        x[i] = number(row * count + i, sequence);
}

static gpur_status make_replay(gpur_replay **replay, gpur_writer **writer)
{
    static const gpur_field fields[] = {
        {"obs", GPUR_FLOAT32, {TORCH_FEATURES}}, {"action", GPUR_FLOAT32, {TORCH_ACTIONS}},
        {"reward", GPUR_FLOAT32, {0}},           {"next_obs", GPUR_FLOAT32, {TORCH_FEATURES}},
        {"discount", GPUR_FLOAT32, {0}},         {"terminated", GPUR_BOOL, {0}},
    };
    static torch_row rows[TORCH_ROWS];
    gpur_replay_config config;
    for (uint32_t i = 0; i < TORCH_ROWS; i++) {
        fill(rows[i].obs, i, TORCH_FEATURES, 1);
        fill(rows[i].next_obs, i, TORCH_FEATURES, 2);
        fill(rows[i].action, i, TORCH_ACTIONS, 3);
        fill(&rows[i].reward, i, 1, 4);
        rows[i].terminated = i % 5 == 0;
        rows[i].discount = rows[i].terminated ? 0.0f : 0.97f;
    }
    GPUR_TRY(gpur_replay_config_init(&config, sizeof config));
    config.capacity = 2 * TORCH_ROWS, config.block_rows = TORCH_ROWS / 4, config.max_batch = TORCH_ROWS;
    config.fields = fields, config.field_count = sizeof fields / sizeof *fields;
    GPUR_TRY(gpur_replay_create(device, &config, replay));
    GPUR_TRY(gpur_writer_create(*replay, 1, writer));
    return gpur_writer_append(*writer, TORCH_ROWS, rows, NULL);
}

static gpur_weight_info find(gpur_learner *dpg, const char *name)
{
    gpur_weight_info info = {.size = sizeof info};
    int32_t index = 0;
    while (gpur_learner_get_weight_info(dpg, index, &info) == GPUR_OK && strcmp(info.name, name) != 0)
        index++;
    return info;
}

static void write_weights(gpur_learner *dpg, const torch_tensor *tensors, int tensor_count)
{
    for (const torch_tensor *t = tensors; t < tensors + tensor_count; t++) {
        const int64_t count = find(dpg, t->name).count;
        CHECK(count > 0 && count <= LARGEST_TENSOR);
        for (int64_t i = 0; i < count; i++)
            values[i] = (float)(t->middle + t->limit * (2 * torch_unit((uint32_t)i, (uint32_t)t->sequence) - 1));
        CHECK_OK(gpur_learner_write_weights(dpg, GPUR_WEIGHTS_ONLINE, t->name, values, count));
        CHECK_OK(gpur_learner_write_weights(dpg, GPUR_WEIGHTS_TARGET, t->name, values, count));
    }
}

static void check_gradient(gpur_learner *dpg, const torch_tensor *pinned)
{
    double sum = 0;
    const int64_t count = find(dpg, pinned->name).count;
    CHECK_OK(gpur_learner_read_weights(dpg, GPUR_WEIGHTS_GRADIENT, pinned->name, values, count));
    for (int64_t i = 0; i < count; i++)
        sum += (double)values[i] * (double)values[i];
    CHECK_NEAR(sqrt(sum), pinned->norm, 1e-3 * pinned->norm);
    for (int k = 0; k < 4; k++)
        CHECK_NEAR(values[count * k / 4], pinned->numbers[k], 1e-3 * fabs(pinned->numbers[k]) + 1e-4 * pinned->norm);
}

/* Numbers of a tensor at the end. A weight whose gradient is nearly 0 may move either way at a step of Adam. */
static void check_weights(gpur_learner *dpg, const torch_weight *pinned, double tolerance)
{
    const int64_t count = find(dpg, pinned->name).count;
    for (int32_t which = GPUR_WEIGHTS_ONLINE; which <= GPUR_WEIGHTS_TARGET; which++) {
        CHECK_OK(gpur_learner_read_weights(dpg, which, pinned->name, values, count));
        for (int k = 0; k < 4; k++)
            CHECK_NEAR(values[count * k / 4], (which ? pinned->target : pinned->online)[k], tolerance);
    }
}

/* Leaves the learner after the last step for more checks, and its replay. */
static void train(const gpur_dpg_config *config, const torch_tensor *tensors, int count, const double (*steps)[5],
                  gpur_replay *replay, gpur_learner **learner)
{
    CHECK_OK(gpur_dpg_create(replay, config, learner));
    gpur_learner *const dpg = *learner;
    write_weights(dpg, tensors, count);
    for (int step = 0; step < TORCH_STEPS; step++) {
        gpur_learner_stats got = {.size = sizeof got};
        CHECK_OK(gpur_learner_train(dpg, 1));
        CHECK_OK(gpur_learner_sync(dpg));
        CHECK_OK(gpur_learner_get_stats(dpg, &got));
        const float reported[] = {got.loss, got.policy_loss, got.mean_q, got.gradient_norm, got.policy_gradient_norm};
        for (int i = 0; i < 5; i++)
            CHECK_NEAR(reported[i], steps[step][i], 1e-4 * fabs(steps[step][i]) + 1e-5);
    }
    for (int t = 0; t < count; t++)
        check_gradient(dpg, &tensors[t]);
}

static void check_training(int is_soft)
{
    gpur_replay *replay = NULL;
    gpur_writer *writer = NULL;
    gpur_learner *dpg = NULL;
    gpur_dpg_config config; /* networks and optimizers are its defaults */
    CHECK_OK(make_replay(&replay, &writer));
    CHECK_OK(gpur_dpg_config_init(&config, sizeof config));
    config.actor.num_actions = TORCH_ACTIONS;
    config.action_gradient_clip = TORCH_CLIP, config.preactivation_penalty = TORCH_PENALTY;
    config.index_source = GPUR_UNIFORM_DISTINCT;
    config.batch_size = TORCH_ROWS, config.target_period = is_soft ? 1 : TORCH_TARGET_PERIOD;
    config.target_rate = is_soft ? TORCH_TAU : 1;
    config.actor_optimizer.weight_decay = config.critic_optimizer.weight_decay = is_soft ? TORCH_DECAY : 0;
    for (int i = 0; i < 2; i++)
        config.actor.trunk[i].norm = config.critic.trunk[i].norm = is_soft ? GPUR_LAYER_NORM : 0;
    const size_t bytes = is_soft ? sizeof torch_soft : sizeof torch_plain;
    train(&config, is_soft ? torch_soft : torch_plain, (int)(bytes / sizeof *torch_plain),
          is_soft ? torch_soft_steps : torch_plain_steps, replay, &dpg);
    gpur_learner_destroy(dpg);
    gpur_writer_destroy(writer);
    gpur_replay_destroy(replay);
}

TEST(the_networks_of_ape_x_dpg_train_as_pytorchs)
{
    check_training(0);
}

TEST(they_do_with_decaying_weights_soft_targets_and_normalized_layers)
{
    check_training(1);
}

TEST(the_networks_of_td3_train_as_pytorchs)
{
    enum { ALL = sizeof torch_td3 / sizeof *torch_td3 };
    gpur_replay *replay = NULL;
    gpur_writer *writer = NULL;
    gpur_learner *td3 = NULL;
    gpur_dpg_config config; /* but for the noise as it is set */
    CHECK_OK(make_replay(&replay, &writer));
    CHECK_OK(gpur_td3_config_init(&config, sizeof config));
    config.actor.num_actions = TORCH_ACTIONS, config.target_noise = 0;
    config.index_source = GPUR_UNIFORM_DISTINCT, config.batch_size = TORCH_ROWS;
    train(&config, torch_td3, ALL, torch_td3_steps, replay, &td3);
    CHECK_EQUAL(gpur_learner_weight_count(td3), ALL);
    for (int t = 0; t < ALL; t++)
        check_weights(td3, &torch_td3_weights[t], 5e-5);
    gpur_learner_destroy(td3);
    gpur_writer_destroy(writer);
    gpur_replay_destroy(replay);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
    RUN(the_networks_of_ape_x_dpg_train_as_pytorchs);
    RUN(they_do_with_decaying_weights_soft_targets_and_normalized_layers);
    RUN(the_networks_of_td3_train_as_pytorchs);
    gpur_device_close(device);
    return test_main_end();
}
