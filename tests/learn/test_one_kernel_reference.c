/* SPDX-License-Identifier: MIT */
/* Train steps in one kernel beside the reference in double, whose gradients are checked by finite differences. */
#include "test.h"
#include "support/learn_rig.h"
#include "support/learn_world.h"
#include "learn/learner.h"

enum { MOST_BATCH = 48 };

static gpur_device *device;
static learn_world world;

static void check_tensor(gpur_learner *learner, const ref_tensor *wanted)
{
    float *const got = malloc((size_t)wanted->count * sizeof *got);
    double size = 0;
    for (int i = 0; i < wanted->count; i++)
        size = fmax(size, fabs(wanted->g[i]));
    const gpur_status status =
        gpur_learner_read_weights(learner, GPUR_WEIGHTS_GRADIENT, wanted->name, got, wanted->count);
    double gap = 0;
    for (int i = 0; i < wanted->count && status == GPUR_OK; i++)
        gap = fmax(gap, fabs((double)got[i] - wanted->g[i]));
    free(got);
    CHECK_OK(status);
    TEST_REQUIRE(gap <= 2e-6 + 1e-5 * size, "the gradient of %s is off by %g; its largest is %g", wanted->name, gap,
                 size);
}

/* One step: the loss, the gradient of every tensor, and the same update. */
static void step_beside(gpur_learner *learner, ref_net *net, const gpur_learner_config *config, int t)
{
    int64_t ids[MOST_BATCH];
    ref_row rows[MOST_BATCH];
    const int batch = (int)config->batch_size;
    double mean_q = 0;
    CHECK_OK(gpur_learner_train(learner, 1));
    const gpur_learner_stats stats = world_stats(learner);
    CHECK_OK(gpur_device_copy(device, ids, learner->step.batch.id, batch * (int64_t)sizeof *ids));
    for (int b = 0; b < batch; b++)
        rows[b] = world_reference(&world, ids[b]);
    const double loss = ref_dqn_loss(net, config, (double)0.9f, rows, batch, &mean_q);
    CHECK_NEAR(stats.loss, loss, 1e-5 * fabs(loss) + 1e-7);
    CHECK_NEAR(stats.mean_q, mean_q, 1e-5);
    for (int i = 0; i < net->tensors; i++)
        check_tensor(learner, &net->tensor[i]);
    const double norm = ref_dqn_update(net, config, t);
    CHECK_NEAR(stats.gradient_norm, norm, 1e-5 * norm + 1e-7);
}

static void check_steps(const gpur_learner_config *config, int steps)
{
    gpur_learner *const learner = rig_open_learner(&world, device, *config);
    CHECK(learner);
    ref_net *const net = world_net(learner, config);
    CHECK(net);
    for (int t = 1; t <= steps && atomic_load(&test_state.failures) == 0; t++)
        step_beside(learner, net, config, t);
    ref_net_destroy(net);
    rig_close_learner(&world, learner);
}

/* An optimiser under which no gradient near 0 becomes a large step, of whatever sign. */
static gpur_learner_config config_of(int head, int double_dqn, int64_t batch)
{
    gpur_learner_config config = world_config(head, double_dqn);
    config.step_kernel = GPUR_STEP_ONE_KERNEL;
    config.batch_size = batch;
    config.target_period = 3;
    config.optimizer.kind = GPUR_RMSPROP_TF;
    config.optimizer.epsilon = 1e-2f;
    return config;
}

TEST(losses_and_gradients_are_those_of_the_reference)
{
    static const int64_t batches[] = {1, 9, 33};
    for (int i = 0; i < 3; i++)
        for (int32_t double_dqn = 0; double_dqn < 2; double_dqn++) {
            gpur_learner_config q = config_of(GPUR_HEAD_Q, double_dqn, batches[i]);
            gpur_learner_config dueling = config_of(GPUR_HEAD_DUELING, double_dqn, batches[i]);
            q.network.hidden_activation = GPUR_TANH;
            check_steps(&q, 5);
            check_steps(&dueling, 5);
        }
}

TEST(a_trunk_of_two_layers_and_wide_hidden_layers_have_the_same_gradients)
{
    gpur_learner_config config = config_of(GPUR_HEAD_DUELING, 1, 20);
    config.network = rig_network(19, 23, GPUR_TANH, GPUR_HEAD_DUELING, 0, WORLD_ACTIONS);
    config.network.init = GPUR_INIT_FAN_IN;
    check_steps(&config, 4);
    config.network = rig_network(17, 0, GPUR_RELU, GPUR_HEAD_DUELING, 140, WORLD_ACTIONS); /* three parts of 280 */
    config.network.init = GPUR_INIT_FAN_IN;
    check_steps(&config, 4);
    config.network.hidden_activation = GPUR_LINEAR;
    config.loss = GPUR_LOSS_SQUARED;
    check_steps(&config, 4);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
    RUN(losses_and_gradients_are_those_of_the_reference);
    RUN(a_trunk_of_two_layers_and_wide_hidden_layers_have_the_same_gradients);
    gpur_device_close(device);
    return test_main_end();
}
