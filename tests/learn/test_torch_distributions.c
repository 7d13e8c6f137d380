/* SPDX-License-Identifier: MIT */
/*
 * The first train steps of QR-DQN and C51, plain and with double DQN, against PyTorch's own layers, losses and Adam
 * (torch_distributions.py made torch_distributions.h): losses, the mean of Q and gradient norms of every step, and the
 * last step's gradient of every tensor. Weights and transitions follow from one hash on both sides. A batch has each
 * transition once.
 */
#include "support/torch_distributions.h"
#include "support/torch_unit.h"
#include "test.h"
#include "base/status.h"

typedef struct torch_row {
    float obs[TORCH_FEATURES], reward, next_obs[TORCH_FEATURES], discount;
    int32_t action;
    uint8_t terminated;
    uint8_t padding[3];
} torch_row;

enum { LARGEST_TENSOR = TORCH_UNITS * TORCH_ACTIONS * TORCH_ATOMS, TENSORS = 4 };

static gpur_device *device;
static gpur_replay *replay;
static float values[LARGEST_TENSOR];

static float number(uint32_t i, uint32_t sequence)
{
    return (float)(2 * torch_unit(i, sequence) - 1);
}

static gpur_status make_replay(gpur_writer **writer)
{
    static const gpur_field fields[] = {
        {"obs", GPUR_FLOAT32, {TORCH_FEATURES}},
        {"reward", GPUR_FLOAT32, {0}},
        {"next_obs", GPUR_FLOAT32, {TORCH_FEATURES}},
        {"discount", GPUR_FLOAT32, {0}},
        {"action", GPUR_INT32, {0}},
        {"terminated", GPUR_BOOL, {0}},
    };
    static torch_row rows[TORCH_ROWS];
    gpur_replay_config config;
    for (uint32_t i = 0; i < TORCH_ROWS; i++) {
        for (uint32_t k = 0; k < TORCH_FEATURES; k++) {
            rows[i].obs[k] = number(i * TORCH_FEATURES + k, 1);
            rows[i].next_obs[k] = number(i * TORCH_FEATURES + k, 2);
        }
        rows[i].action = (int32_t)(torch_unit(i, 3) * TORCH_ACTIONS);
        rows[i].reward = number(i, 4);
        rows[i].terminated = i % 5 == 0;
        rows[i].discount = rows[i].terminated ? 0.0f : 0.97f;
    }
    GPUR_TRY(gpur_replay_config_init(&config, sizeof config));
    config.capacity = 2 * TORCH_ROWS, config.block_rows = TORCH_ROWS / 4, config.max_batch = TORCH_ROWS;
    config.fields = fields, config.field_count = sizeof fields / sizeof *fields;
    GPUR_TRY(gpur_replay_create(device, &config, &replay));
    GPUR_TRY(gpur_writer_create(replay, 1, writer));
    return gpur_writer_append(*writer, TORCH_ROWS, rows, NULL);
}

/* Finds a tensor; that of the last layer by its end. */
static gpur_weight_info find(gpur_learner *learner, const char *name)
{
    gpur_weight_info info = {.size = sizeof info};
    for (int32_t i = 0; gpur_learner_get_weight_info(learner, i, &info) == GPUR_OK; i++) {
        const size_t length = strlen(info.name), wanted = strlen(name);
        if (length >= wanted && strcmp(info.name + length - wanted, name) == 0)
            break;
    }
    return info;
}

static void write_weights(gpur_learner *learner, const torch_tensor *tensors)
{
    for (int t = 0; t < TENSORS; t++) {
        const gpur_weight_info info = find(learner, tensors[t].name);
        const double limit = 1 / sqrt(t < 2 ? TORCH_FEATURES : TORCH_UNITS);
        CHECK(info.count > 0 && info.count <= LARGEST_TENSOR);
        for (int64_t i = 0; i < info.count; i++)
            values[i] = (float)(limit * (2 * torch_unit((uint32_t)i, (uint32_t)(10 + t)) - 1));
        CHECK_OK(gpur_learner_write_weights(learner, GPUR_WEIGHTS_ONLINE, info.name, values, info.count));
        CHECK_OK(gpur_learner_write_weights(learner, GPUR_WEIGHTS_TARGET, info.name, values, info.count));
    }
}

static void check_gradient(gpur_learner *learner, const torch_tensor *pinned)
{
    double sum = 0;
    const gpur_weight_info info = find(learner, pinned->name);
    CHECK_OK(gpur_learner_read_weights(learner, GPUR_WEIGHTS_GRADIENT, info.name, values, info.count));
    for (int64_t i = 0; i < info.count; i++)
        sum += (double)values[i] * (double)values[i];
    CHECK_NEAR(sqrt(sum), pinned->norm, 1e-3 * pinned->norm);
    for (int k = 0; k < 4; k++)
        CHECK_NEAR(values[info.count * k / 4], pinned->numbers[k],
                   1e-3 * fabs(pinned->numbers[k]) + 1e-4 * pinned->norm);
}

static void check_training(int32_t head, int double_dqn, const torch_tensor *tensors, const double (*steps)[3])
{
    gpur_learner *learner = NULL;
    gpur_dqn_config config;
    CHECK_OK(gpur_dqn_config_init(&config, sizeof config));
    config.network.trunk[0].units = TORCH_UNITS, config.network.trunk_count = 1;
    config.network.head = head, config.network.num_actions = TORCH_ACTIONS, config.network.atoms = TORCH_ATOMS;
    if (head == GPUR_HEAD_CATEGORICAL)
        config.network.v_min = TORCH_V_MIN, config.network.v_max = TORCH_V_MAX;
    config.huber_delta = TORCH_KAPPA, config.double_dqn = double_dqn;
    config.index_source = GPUR_UNIFORM_DISTINCT;
    config.batch_size = TORCH_ROWS, config.target_period = TORCH_PERIOD;
    CHECK_OK(gpur_dqn_create(replay, &config, &learner));
    write_weights(learner, tensors);
    for (int step = 0; step < TORCH_STEPS; step++) {
        gpur_learner_stats got = {.size = sizeof got};
        CHECK_OK(gpur_learner_train(learner, 1));
        CHECK_OK(gpur_learner_sync(learner));
        CHECK_OK(gpur_learner_get_stats(learner, &got));
        const float reported[] = {got.loss, got.mean_q, got.gradient_norm};
        for (int i = 0; i < 3; i++)
            CHECK_NEAR(reported[i], steps[step][i], 1e-4 * fabs(steps[step][i]) + 1e-5);
    }
    for (int t = 0; t < TENSORS; t++)
        check_gradient(learner, &tensors[t]);
    gpur_learner_destroy(learner);
}

TEST(quantiles_train_as_pytorchs)
{
    check_training(GPUR_HEAD_QUANTILES, 0, torch_quantiles, torch_quantiles_steps);
    check_training(GPUR_HEAD_QUANTILES, 1, torch_quantiles_double, torch_quantiles_double_steps);
}

TEST(atoms_train_as_pytorchs)
{
    check_training(GPUR_HEAD_CATEGORICAL, 0, torch_atoms, torch_atoms_steps);
    check_training(GPUR_HEAD_CATEGORICAL, 1, torch_atoms_double, torch_atoms_double_steps);
}

int main(int argc, char **argv)
{
    gpur_writer *writer = NULL;
    test_main_begin(argc, argv);
    device = test_device();
    if (make_replay(&writer) != GPUR_OK) {
        fprintf(stderr, "%s\n", gpur_last_error());
        return 1;
    }
    RUN(quantiles_train_as_pytorchs);
    RUN(atoms_train_as_pytorchs);
    gpur_writer_destroy(writer);
    gpur_replay_destroy(replay);
    gpur_device_close(device);
    return test_main_end();
}
