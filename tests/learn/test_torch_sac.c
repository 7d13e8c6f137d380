/* SPDX-License-Identifier: MIT */
/*
 * The first train steps of soft actor-critic against PyTorch's own (torch_sac.py made torch_sac.h): losses, the mean of
 * Q, gradient norms, temperature and entropy of every step, and the last step's gradient of every tensor. Weights and
 * transitions follow from one hash on both sides, and rows and actions of a batch from one generator.
 */
#include "support/torch_sac.h"
#include "support/torch_unit.h"
#include "test.h"
#include "base/status.h"

typedef struct torch_row {
    float obs[TORCH_FEATURES], action[TORCH_ACTIONS], reward, next_obs[TORCH_FEATURES], discount;
    uint8_t terminated;
    uint8_t padding[3];
} torch_row;

enum { LARGEST_TENSOR = TORCH_UNITS * TORCH_UNITS, TENSORS = sizeof torch_gradients / sizeof *torch_gradients };

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

static gpur_weight_info find(gpur_learner *sac, const char *name)
{
    gpur_weight_info info = {.size = sizeof info};
    int32_t index = 0;
    while (gpur_learner_get_weight_info(sac, index, &info) == GPUR_OK && strcmp(info.name, name) != 0)
        index++;
    return info;
}

/* Weights and biases of the actor's layers are sequences 10 to 17, and those of the critics' 20 to 25 and 30 to 35. */
static void write_weights(gpur_learner *sac, const torch_gradient *tensors)
{
    double limit = 0;
    for (uint32_t t = 0; t < TENSORS; t++) {
        const char *const name = tensors[t].name;
        const gpur_weight_info info = find(sac, name);
        const uint32_t sequence = t < 8 ? 10 + t : t < 14 ? 20 + t - 8 : 30 + t - 14;
        CHECK(info.count > 0 && info.count <= LARGEST_TENSOR);
        if (t % 2 == 0) /* a weight of (units, inputs); its bias comes next */
            limit = 1 / sqrt((double)info.shape[1]);
        for (int64_t i = 0; i < info.count; i++)
            values[i] = (float)(limit * (2 * torch_unit((uint32_t)i, sequence) - 1));
        CHECK_OK(gpur_learner_write_weights(sac, GPUR_WEIGHTS_ONLINE, name, values, info.count));
        if (t >= 8)
            CHECK_OK(gpur_learner_write_weights(sac, GPUR_WEIGHTS_TARGET, name, values, info.count));
    }
}

static void check_gradient(gpur_learner *sac, const torch_gradient *pinned)
{
    double sum = 0;
    const int64_t count = find(sac, pinned->name).count;
    CHECK_OK(gpur_learner_read_weights(sac, GPUR_WEIGHTS_GRADIENT, pinned->name, values, count));
    for (int64_t i = 0; i < count; i++)
        sum += (double)values[i] * (double)values[i];
    CHECK_NEAR(sqrt(sum), pinned->norm, 1e-3 * pinned->norm);
    for (int k = 0; k < 4; k++)
        CHECK_NEAR(values[count * k / 4], pinned->numbers[k], 1e-3 * fabs(pinned->numbers[k]) + 1e-4 * pinned->norm);
}

static gpur_sac_config config_of(void)
{
    gpur_sac_config c;
    (void)gpur_sac_config_init(&c, sizeof c);
    c.actor.num_actions = TORCH_ACTIONS;
    for (int i = 0; i < 2; i++)
        c.actor.trunk[i].units = c.critic.trunk[i].units = TORCH_UNITS;
    gpur_optimizer_config *const optimizers[] = {&c.actor_optimizer, &c.critic_optimizer, &c.temperature_optimizer};
    for (int i = 0; i < 3; i++)
        optimizers[i]->learning_rate.first = optimizers[i]->learning_rate.last = TORCH_RATE;
    c.temperature = TORCH_ALPHA, c.target_rate = TORCH_TAU;
    c.batch_size = TORCH_BATCH, c.seed = TORCH_SEED;
    return c;
}

static void check_training(const gpur_sac_config *config, const torch_gradient *gradients, const double (*steps)[8])
{
    gpur_replay *replay = NULL;
    gpur_writer *writer = NULL;
    gpur_learner *sac = NULL;
    CHECK_OK(make_replay(&replay, &writer));
    CHECK_OK(gpur_sac_create(replay, config, &sac));
    write_weights(sac, gradients);
    for (int step = 0; step < TORCH_STEPS; step++) {
        gpur_learner_stats got = {.size = sizeof got};
        float slope = 0;
        CHECK_OK(gpur_learner_train(sac, 1));
        CHECK_OK(gpur_learner_sync(sac));
        CHECK_OK(gpur_learner_get_stats(sac, &got));
        CHECK_OK(gpur_learner_read_weights(sac, GPUR_WEIGHTS_GRADIENT, "temperature.log_alpha", &slope, 1));
        const float reported[] = {
            got.loss,        got.policy_loss, got.mean_q, got.gradient_norm, got.policy_gradient_norm,
            got.temperature, got.entropy,     slope};
        for (int i = 0; i < 8; i++)
            CHECK_NEAR(reported[i], steps[step][i], 1e-4 * fabs(steps[step][i]) + 1e-5);
    }
    for (int t = 0; t < TENSORS; t++)
        check_gradient(sac, &gradients[t]);
    gpur_learner_destroy(sac);
    gpur_writer_destroy(writer);
    gpur_replay_destroy(replay);
}

TEST(soft_actor_critic_trains_as_pytorchs)
{
    const gpur_sac_config config = config_of();
    check_training(&config, torch_gradients, torch_steps);
}

TEST(critics_of_distributions_train_as_pytorchs)
{
    gpur_sac_config config = config_of();
    config.critic.head = GPUR_HEAD_CATEGORICAL, config.critic.atoms = TORCH_ATOMS;
    config.critic.v_min = TORCH_V_MIN, config.critic.v_max = TORCH_V_MAX;
    check_training(&config, torch_gradients_of_atoms, torch_steps_of_atoms);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
    RUN(soft_actor_critic_trains_as_pytorchs);
    RUN(critics_of_distributions_train_as_pytorchs);
    gpur_device_close(device);
    return test_main_end();
}
