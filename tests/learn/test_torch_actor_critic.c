/* SPDX-License-Identifier: MIT */
/*
 * The first train steps of GA3C's network against PyTorch's own (torch_actor_critic.py made torch_actor_critic.h): what
 * every step reports, and the second step's gradient of every tensor. Weights and batches follow from one hash on both
 * sides.
 */
#include "support/torch_actor_critic.h"
#include "test.h"

enum { PIXELS = 4 * 84 * 84, LARGEST_TENSOR = 256 * 11 * 11 * 32 };

static gpur_device *device;
static float values[LARGEST_TENSOR];

/* Number i of a sequence, in [0, 1), as torch_actor_critic.py makes it. */
static double torch_unit(uint32_t i, uint32_t sequence)
{
    uint32_t x = i * 2654435761u + sequence * 40503u;
    x = (x ^ x >> 16) * 2246822519u;
    x = (x ^ x >> 13) * 3266489917u;
    return (x ^ x >> 16) * 0x1p-32;
}

typedef struct torch_batch {
    uint8_t obs[TORCH_LARGEST * PIXELS];
    int32_t actions[TORCH_LARGEST];
    float returns[TORCH_LARGEST];
} torch_batch;

static gpur_actor_critic_batch make_batch(torch_batch *b, int step)
{
    const int64_t count = 1 + step * 7 % TORCH_LARGEST;
    for (int64_t row = 0; row < count; row++)
        for (uint32_t p = 0; p < PIXELS; p++)
            b->obs[row * PIXELS + p] = (uint8_t)(torch_unit(p, (uint32_t)(1000 + 50 * step + row)) * 256);
    for (uint32_t i = 0; i < (uint32_t)count; i++) {
        b->actions[i] = (int32_t)(torch_unit(i, 5000 + (uint32_t)step) * TORCH_ACTIONS);
        b->returns[i] = (float)(4 * torch_unit(i, 6000 + (uint32_t)step) - 2);
    }
    return (gpur_actor_critic_batch){.size = sizeof(gpur_actor_critic_batch),
                                     .count = count,
                                     .obs = b->obs,
                                     .actions = b->actions,
                                     .returns = b->returns};
}

/* The preset's network, from which only the entropy differs, so that its gradient counts. */
static gpur_status make_learner(int32_t log, gpur_actor_critic **learner)
{
    static const gpur_layer trunk[] = {
        {.kind = GPUR_CONV, .units = 16, .activation = GPUR_RELU, .kernel = 8, .stride = 4, .padding = GPUR_SAME},
        {.kind = GPUR_CONV, .units = 32, .activation = GPUR_RELU, .kernel = 4, .stride = 2, .padding = GPUR_SAME},
        {.kind = GPUR_DENSE, .units = 256, .activation = GPUR_RELU},
    };
    gpur_actor_critic_config c;
    gpur_status status = gpur_actor_critic_config_init(&c, sizeof c);
    memcpy(c.network.trunk, trunk, sizeof trunk);
    c.network.trunk_count = 3;
    c.network.num_actions = TORCH_ACTIONS;
    c.network.input_scale = 1.0f / 128.0f, c.network.input_shift = -1.0f;
    c.obs = (gpur_field){"obs", GPUR_UINT8, {4, 84, 84}};
    c.entropy.first = c.entropy.last = 0.05f;
    c.log = log;
    c.max_batch = TORCH_LARGEST;
    return status == GPUR_OK ? gpur_actor_critic_create(device, &c, learner) : status;
}

/* `pinned` lists the tensors in PyTorch's order: weight and bias, layer by layer. Each has the next sequence. */
static void write_weights(gpur_actor_critic *learner, const torch_gradient *pinned)
{
    static const int64_t counts[] = {
        16 * 8 * 8 * 4, 16, 32 * 4 * 4 * 16, 32, LARGEST_TENSOR, 256, 256 * TORCH_ACTIONS, TORCH_ACTIONS, 256, 1};
    static const double inputs[] = {8 * 8 * 4, 4 * 4 * 16, 11 * 11 * 32, 256, 256};
    for (int t = 0; t < 10; t++) {
        const double limit = 1 / sqrt(inputs[t / 2]);
        for (int64_t i = 0; i < counts[t]; i++)
            values[i] = (float)(limit * (2 * torch_unit((uint32_t)i, (uint32_t)(10 + t)) - 1));
        CHECK_OK(gpur_actor_critic_write_weights(learner, GPUR_WEIGHTS_ONLINE, pinned[t].name, values, counts[t]));
    }
}

static void check_gradient(gpur_actor_critic *learner, const torch_gradient *pinned)
{
    double sum = 0;
    gpur_weight_info info = {.size = sizeof info};
    int32_t index = 0;
    while (gpur_actor_critic_get_weight_info(learner, index, &info) == GPUR_OK && strcmp(info.name, pinned->name) != 0)
        index++;
    CHECK_OK(gpur_actor_critic_read_weights(learner, GPUR_WEIGHTS_GRADIENT, pinned->name, values, info.count));
    for (int64_t i = 0; i < info.count; i++)
        sum += (double)values[i] * (double)values[i];
    CHECK_NEAR(sqrt(sum), pinned->norm, 1e-4 * pinned->norm);
    for (int k = 0; k < 4; k++)
        CHECK_NEAR(values[info.count * k / 4], pinned->numbers[k],
                   1e-3 * fabs(pinned->numbers[k]) + 1e-5 * pinned->norm);
}

static void check_run(int32_t log, const torch_gradient *gradients, const double steps[TORCH_STEPS][5])
{
    static torch_batch b;
    gpur_actor_critic *learner = NULL;
    CHECK_OK(make_learner(log, &learner));
    write_weights(learner, gradients);
    for (int step = 0; step < TORCH_STEPS; step++) {
        const gpur_actor_critic_batch batch = make_batch(&b, step);
        gpur_actor_critic_losses got = {.size = sizeof got};
        CHECK_OK(gpur_actor_critic_train(learner, &batch, &got));
        const double reported[] = {got.policy, got.value, got.entropy, got.mean_value, got.gradient_norm};
        for (int i = 0; i < 5; i++)
            CHECK_NEAR(reported[i], steps[step][i], 1e-3 * fabs(steps[step][i]) + 2e-4);
        for (int t = 0; t < 10 && step == 1; t++)
            check_gradient(learner, &gradients[t]);
    }
    gpur_actor_critic_destroy(learner);
}

TEST(the_network_of_ga3c_trains_as_pytorchs)
{
    check_run(GPUR_LOG_ADD, add_gradients, add_steps);
    check_run(GPUR_LOG_MAX, max_gradients, max_steps);
    check_run(GPUR_LOG_SOFTMAX, softmax_gradients, softmax_steps);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
    RUN(the_network_of_ga3c_trains_as_pytorchs);
    gpur_device_close(device);
    return test_main_end();
}
