/* SPDX-License-Identifier: MIT */
/*
 * The first train steps of GA3C's network, and of its large one with stride 3, against PyTorch's own
 * (torch_actor_critic.py made torch_actor_critic.h): what every step reports, and the second step's gradient of every
 * tensor. Weights and batches follow from one hash on both sides.
 */
#include "support/torch_actor_critic.h"
#include "support/torch_unit.h"
#include "test.h"

enum { PIXELS = 4 * 84 * 84, LARGEST_TENSOR = 256 * 11 * 11 * 32 };

static gpur_device *device;
static float values[LARGEST_TENSOR];

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

#define CONV(filters, size, by)                                                                                        \
    {                                                                                                                  \
        .kind = GPUR_CONV, .units = filters, .activation = GPUR_RELU, .kernel = size, .stride = by,                    \
        .padding = GPUR_SAME                                                                                           \
    }
#define DENSE                                                                                                          \
    {                                                                                                                  \
        .kind = GPUR_DENSE, .units = 256, .activation = GPUR_RELU                                                      \
    }
static const gpur_layer small[] = {CONV(16, 8, 4), CONV(32, 4, 2), DENSE};
static const gpur_layer large[] = {CONV(32, 8, 3), CONV(32, 4, 2), CONV(64, 4, 2), DENSE};

/* The preset's network, from which only the entropy differs, so that its gradient counts. */
static gpur_status make_learner(int32_t log, int is_large, gpur_learner **learner)
{
    gpur_actor_critic_config c;
    gpur_status status = gpur_actor_critic_config_init(&c, sizeof c);
    memcpy(c.network.trunk, is_large ? large : small, is_large ? sizeof large : sizeof small);
    c.network.trunk_count = is_large ? 4 : 3;
    c.network.num_actions = TORCH_ACTIONS;
    c.network.input_scale = 1.0f / 128.0f, c.network.input_shift = -1.0f;
    c.obs = (gpur_field){"obs", GPUR_UINT8, {4, 84, 84}};
    c.entropy.first = c.entropy.last = 0.05f;
    c.log = log;
    c.max_batch = TORCH_LARGEST;
    return status == GPUR_OK ? gpur_actor_critic_create(device, &c, learner) : status;
}

static gpur_weight_info find(gpur_learner *learner, const char *name)
{
    gpur_weight_info info = {.size = sizeof info};
    int32_t index = 0;
    while (gpur_learner_get_weight_info(learner, index, &info) == GPUR_OK && strcmp(info.name, name) != 0)
        index++;
    return info;
}

/* `pinned` lists the tensors in PyTorch's order: weight and bias, layer by layer. Each has the next sequence. */
static void write_weights(gpur_learner *learner, const torch_gradient *pinned)
{
    double limit = 0;
    for (int t = 0; t < gpur_learner_weight_count(learner); t++) {
        const gpur_weight_info info = find(learner, pinned[t].name);
        if (t % 2 == 0) /* a weight, of `units` times as many inputs; its bias comes next */
            limit = sqrt((double)find(learner, pinned[t + 1].name).count / (double)info.count);
        CHECK(info.count > 0 && info.count <= LARGEST_TENSOR);
        for (int64_t i = 0; i < info.count; i++)
            values[i] = (float)(limit * (2 * torch_unit((uint32_t)i, (uint32_t)(10 + t)) - 1));
        CHECK_OK(gpur_learner_write_weights(learner, GPUR_WEIGHTS_ONLINE, pinned[t].name, values, info.count));
    }
}

/* Another device rounds otherwise, and so a unit whose sum is almost 0 passes a little instead of nothing, or the
 * reverse. It shows in norms of gradients first, which therefore have a larger tolerance than losses. */
static void check_gradient(gpur_learner *learner, const torch_gradient *pinned)
{
    double sum = 0;
    const gpur_weight_info info = find(learner, pinned->name);
    CHECK_OK(gpur_learner_read_weights(learner, GPUR_WEIGHTS_GRADIENT, pinned->name, values, info.count));
    for (int64_t i = 0; i < info.count; i++)
        sum += (double)values[i] * (double)values[i];
    CHECK_NEAR(sqrt(sum), pinned->norm, 1e-3 * pinned->norm);
    for (int k = 0; k < 4; k++)
        CHECK_NEAR(values[info.count * k / 4], pinned->numbers[k],
                   1e-3 * fabs(pinned->numbers[k]) + 1e-5 * pinned->norm);
}

static void check_run(int32_t log, int is_large, const torch_gradient *gradients, const double (*steps)[5], int count)
{
    static torch_batch b;
    gpur_learner *learner = NULL;
    CHECK_OK(make_learner(log, is_large, &learner));
    write_weights(learner, gradients);
    for (int step = 0; step < count; step++) {
        const gpur_actor_critic_batch batch = make_batch(&b, step);
        gpur_actor_critic_losses got = {.size = sizeof got};
        CHECK_OK(gpur_actor_critic_train(learner, &batch, &got));
        const double reported[] = {got.policy, got.value, got.entropy, got.mean_value, got.gradient_norm};
        for (int i = 0; i < 5; i++)
            CHECK_NEAR(reported[i], steps[step][i], (i == 4 ? 1e-2 : 1e-3) * fabs(steps[step][i]) + 2e-4);
        for (int t = 0; t < gpur_learner_weight_count(learner) && step == 1; t++)
            check_gradient(learner, &gradients[t]);
    }
    gpur_learner_destroy(learner);
}

TEST(the_network_of_ga3c_trains_as_pytorchs)
{
    check_run(GPUR_LOG_ADD, 0, add_gradients, add_steps, TORCH_STEPS);
    check_run(GPUR_LOG_MAX, 0, max_gradients, max_steps, TORCH_STEPS);
    check_run(GPUR_LOG_SOFTMAX, 0, softmax_gradients, softmax_steps, TORCH_STEPS);
}

TEST(the_large_network_of_ga3c_trains_as_pytorchs)
{
    check_run(GPUR_LOG_ADD, 1, large_gradients, large_steps, 2);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
    RUN(the_network_of_ga3c_trains_as_pytorchs);
    RUN(the_large_network_of_ga3c_trains_as_pytorchs);
    gpur_device_close(device);
    return test_main_end();
}
