/* SPDX-License-Identifier: MIT */
/* The public learner against a full DQN in double, step by step, and against itself. */
#include "test.h"
#include "base/status.h"
#include "support/learn_world.h"

enum { MOST = 4096, BATCH = 16 };

static gpur_device *device;

/* `steps` steps on the same rows, by the learner and by the reference; the losses must agree. */
static void compare_losses(learn_world *world, gpur_learner *learner, const gpur_learner_config *config, int steps)
{
    ref_net *const net = world_net(learner, config);
    CHECK(net);
    for (int t = 1; t <= steps; t++) {
        int64_t ids[BATCH];
        ref_row rows[BATCH];
        double q;
        world_ids(t, BATCH, ids);
        for (int b = 0; b < BATCH; b++)
            rows[b] = world_reference(world, ids[b]);
        const double loss = ref_dqn_loss(net, config, (double)0.9f, rows, BATCH, &q);
        const double norm = ref_dqn_update(net, config, t);
        CHECK_OK(gpur_learner_train_on(learner, ids));
        const gpur_learner_stats stats = world_stats(learner);
        CHECK_EQUAL(stats.steps, t);
        CHECK_NEAR(stats.loss, loss, 1e-4 * fabs(loss));
        CHECK_NEAR(stats.mean_q, q, 1e-4 * (0.01 + fabs(q)));
        CHECK_NEAR(stats.gradient_norm, norm, 1e-3 * norm);
    }
    ref_net_destroy(net);
}

static gpur_status open_full(learn_world *world)
{
    return world_open(world, device, WORLD_ROWS);
}

static gpur_status open_wide(learn_world *world)
{
    return world_open_wide(world, device);
}

/* Some transitions have actions that the network has not. */
static gpur_status open_spoiled(learn_world *world)
{
    GPUR_TRY(world_open(world, device, 0));
    for (int i = 0; i < WORLD_ROWS; i += 3)
        world->rows[i].action = i % 2 ? -1 : WORLD_ACTIONS;
    return gpur_writer_append(world->writer, WORLD_ROWS, world->rows, NULL);
}

static void check_against_reference(const gpur_learner_config *config, gpur_status (*open)(learn_world *))
{
    static learn_world world;
    gpur_learner *learner = NULL;
    CHECK_OK(open(&world));
    CHECK_OK(gpur_learner_create(world.replay, config, &learner));
    compare_losses(&world, learner, config, 200);
    gpur_learner_destroy(learner);
    world_close(&world);
}

TEST(two_hundred_losses_of_dueling_double_dqn_agree_with_the_reference)
{
    gpur_learner_config config = world_config(GPUR_HEAD_DUELING, 1);
    config.optimizer.clip_norm = 0.2f;
    check_against_reference(&config, open_full);
}

TEST(two_hundred_losses_of_plain_dqn_with_rmsprop_agree_with_the_reference)
{
    gpur_learner_config config = world_config(GPUR_HEAD_Q, 0);
    config.optimizer.kind = GPUR_RMSPROP_TF;
    config.optimizer.learning_rate.first = 1e-3f;
    config.optimizer.momentum = 0.9f;
    config.optimizer.epsilon = 0.01f;
    config.target_copy_first = 1;
    config.huber_delta = 0.5f;
    check_against_reference(&config, open_full);
}

TEST(wide_actions_and_squared_loss_agree_with_the_reference)
{
    gpur_learner_config config = world_config(GPUR_HEAD_DUELING, 0);
    config.network.hidden = 0;
    config.loss = GPUR_LOSS_SQUARED;
    config.optimizer.kind = GPUR_RMSPROP_DEEPMIND;
    config.optimizer.epsilon = 0.01f;
    config.optimizer.clip_value = 0.05f;
    check_against_reference(&config, open_wide);
}

TEST(transitions_of_unknown_actions_add_nothing_as_in_the_reference)
{
    const gpur_learner_config config = world_config(GPUR_HEAD_DUELING, 1);
    check_against_reference(&config, open_spoiled);
}

/* Loss of the reference when one weight is moved; the targets move with it only where Q(s') picks the action. */
static double moved_loss(ref_net *net, const gpur_learner_config *config, const ref_row *rows, double *w, double by)
{
    const double at = *w;
    *w = at + by;
    const double loss = ref_dqn_loss(net, config, (double)0.9f, rows, BATCH, NULL);
    *w = at;
    return loss;
}

TEST(the_gradient_agrees_with_finite_differences_of_the_loss)
{
    static learn_world world;
    const gpur_learner_config config = world_config(GPUR_HEAD_DUELING, 1);
    gpur_learner *learner = NULL;
    int64_t ids[BATCH];
    ref_row rows[BATCH];
    static float g[MOST];
    CHECK_OK(world_open(&world, device, WORLD_ROWS));
    CHECK_OK(gpur_learner_create(world.replay, &config, &learner));
    ref_net *const net = world_net(learner, &config);
    CHECK(net);
    world_ids(1, BATCH, ids);
    for (int b = 0; b < BATCH; b++)
        rows[b] = world_reference(&world, ids[b]);
    CHECK_OK(gpur_learner_train_on(learner, ids));
    for (int i = 0; i < net->tensors; i++) {
        ref_tensor *const t = &net->tensor[i];
        CHECK_OK(gpur_learner_read_weights(learner, GPUR_WEIGHTS_GRADIENT, t->name, g, t->count));
        for (int j = 0; j < t->count; j += 1 + t->count / 8) {
            const double up = moved_loss(net, &config, rows, &t->w[j], 1e-6);
            const double down = moved_loss(net, &config, rows, &t->w[j], -1e-6);
            CHECK_NEAR(g[j], (up - down) / 2e-6, 1e-5);
        }
    }
    ref_net_destroy(net);
    gpur_learner_destroy(learner);
    world_close(&world);
}

/* Trains a fresh learner in the given portions; its weights afterwards. */
static int64_t train_in_portions(const gpur_learner_config *config, const int64_t *portions, int count, float *values)
{
    static learn_world world;
    gpur_learner *learner = NULL;
    int64_t weights = -1;
    gpur_status status = world_open(&world, device, WORLD_ROWS);
    if (status == GPUR_OK)
        status = gpur_learner_create(world.replay, config, &learner);
    for (int i = 0; i < count && status == GPUR_OK; i++)
        status = gpur_learner_train(learner, portions[i]);
    if (status == GPUR_OK)
        weights = world_weights(learner, GPUR_WEIGHTS_ONLINE, values, MOST);
    gpur_learner_destroy(learner);
    world_close(&world);
    return weights;
}

TEST(the_same_seed_gives_the_same_bits_however_the_steps_are_launched)
{
    static const int64_t at_once[] = {600}, in_parts[] = {1, 8, 0, 255, 256, 80};
    static float a[MOST], b[MOST], c[MOST];
    gpur_learner_config config = world_config(GPUR_HEAD_DUELING, 1);
    const int64_t count = train_in_portions(&config, at_once, 1, a);
    CHECK(count > 0);
    CHECK_EQUAL(train_in_portions(&config, in_parts, 6, b), count);
    CHECK(memcmp(a, b, (size_t)count * sizeof *a) == 0);
    config.seed++;
    CHECK_EQUAL(train_in_portions(&config, at_once, 1, c), count);
    CHECK(memcmp(a, c, (size_t)count * sizeof *a) != 0);
}

/* A CPU has no tensor cores; a GPU's ten bits of mantissa may cost 2e-3. */
TEST(tensor_core_arithmetic_stays_close)
{
    static const int64_t steps[] = {5};
    static float a[MOST], b[MOST];
    gpur_learner_config config = world_config(GPUR_HEAD_DUELING, 1);
    const int64_t count = train_in_portions(&config, steps, 1, a);
    config.math = GPUR_MATH_TF32;
    CHECK(count > 0);
    CHECK_EQUAL(train_in_portions(&config, steps, 1, b), count);
    for (int64_t i = 0; i < count; i++)
        CHECK_NEAR(b[i], a[i], test_on_cuda() ? 1e-2 : 0); /* Adam moves a weight by 1e-3 a step at most */
}

TEST(eight_steps_are_eight_times_one_step)
{
    static const int64_t eight[] = {8}, ones[] = {1, 1, 1, 1, 1, 1, 1, 1};
    static float a[MOST], b[MOST];
    gpur_learner_config config = world_config(GPUR_HEAD_Q, 1);
    config.index_source = GPUR_UNIFORM_DISTINCT;
    config.target_period = 3;
    const int64_t count = train_in_portions(&config, eight, 1, a);
    CHECK(count > 0);
    CHECK_EQUAL(train_in_portions(&config, ones, 8, b), count);
    CHECK(memcmp(a, b, (size_t)count * sizeof *a) == 0);
}

/* Loss of one step on one transition, repeated over the batch, from these biases of the last layer. */
static float loss_on(learn_world *world, int64_t id, int double_dqn, const float *online, const float *target)
{
    const gpur_learner_config config = world_config(GPUR_HEAD_Q, double_dqn);
    gpur_learner *learner = NULL;
    float loss = -1;
    int64_t ids[BATCH];
    for (int b = 0; b < BATCH; b++)
        ids[b] = id;
    if (gpur_learner_create(world->replay, &config, &learner) == GPUR_OK &&
        gpur_learner_write_weights(learner, GPUR_WEIGHTS_ONLINE, "q.out.bias", online, WORLD_ACTIONS) == GPUR_OK &&
        gpur_learner_write_weights(learner, GPUR_WEIGHTS_TARGET, "q.out.bias", target, WORLD_ACTIONS) == GPUR_OK &&
        gpur_learner_train_on(learner, ids) == GPUR_OK)
        loss = world_stats(learner).loss;
    gpur_learner_destroy(learner);
    return loss;
}

/* Row 6 took action 1. The online network would now take 0, which is worth little; the target likes 2, for itself. */
TEST(double_dqn_asks_the_target_what_the_online_choice_is_worth)
{
    static learn_world world;
    const float online[WORLD_ACTIONS] = {100, 0, 0}, target[WORLD_ACTIONS] = {0, 0, 100};
    CHECK_OK(world_open(&world, device, WORLD_ROWS));
    CHECK_EQUAL(world.rows[6].action, 1);
    const float plain = loss_on(&world, 6, 0, online, target), twice = loss_on(&world, 6, 1, online, target);
    world_close(&world);
    CHECK_NEAR(plain, 90, 8);
    CHECK_NEAR(twice, 0, 8);
    CHECK(twice >= 0);
}

TEST(termination_stops_bootstrapping_and_truncation_does_not)
{
    static learn_world world;
    static const struct {
        int64_t id;
        int bootstraps;
    } cases[] = {{7, 0} /* terminated */, {5, 1} /* truncated */, {35, 0} /* both */, {6, 1} /* neither */};
    const float online[WORLD_ACTIONS] = {0}, huge[WORLD_ACTIONS] = {1e4f, 1e4f, 1e4f};
    CHECK_OK(world_open(&world, device, WORLD_ROWS));
    for (int i = 0; i < 4; i++) {
        const float loss = loss_on(&world, cases[i].id, 0, online, huge);
        CHECK_NEAR(loss, cases[i].bootstraps ? 0.9 * 1e4 : 0, 10);
        CHECK(loss >= 0);
    }
    world_close(&world);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
    RUN(two_hundred_losses_of_dueling_double_dqn_agree_with_the_reference);
    RUN(two_hundred_losses_of_plain_dqn_with_rmsprop_agree_with_the_reference);
    RUN(wide_actions_and_squared_loss_agree_with_the_reference);
    RUN(transitions_of_unknown_actions_add_nothing_as_in_the_reference);
    RUN(the_gradient_agrees_with_finite_differences_of_the_loss);
    RUN(the_same_seed_gives_the_same_bits_however_the_steps_are_launched);
    RUN(tensor_core_arithmetic_stays_close);
    RUN(eight_steps_are_eight_times_one_step);
    RUN(double_dqn_asks_the_target_what_the_online_choice_is_worth);
    RUN(termination_stops_bootstrapping_and_truncation_does_not);
    gpur_device_close(device);
    return test_main_end();
}
