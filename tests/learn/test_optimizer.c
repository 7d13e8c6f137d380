/* SPDX-License-Identifier: MIT */
/* Every optimiser against its formula in double, step by step; clipping and schedules. */
#include "test.h"
#include "support/learn_rig.h"
#include "support/optimizer_rig.h"

enum { STEPS = 50 };

static gpur_device *device;

static double norm_of(const double *x)
{
    double squares = 0;
    for (int i = 0; i < P; i++)
        squares += x[i] * x[i];
    return sqrt(squares);
}

/* Clips by value and then by the norm that leaves; the norm before both. */
static double clip(const gpur_optimizer_config *config, const float *g, double *clipped)
{
    const double value = config->clip_value, most = config->clip_norm;
    for (int i = 0; i < P; i++)
        clipped[i] = g[i];
    const double raw = norm_of(clipped);
    for (int i = 0; i < P; i++)
        clipped[i] = value > 0 ? fmax(-value, fmin(value, g[i])) : g[i];
    const double norm = norm_of(clipped);
    for (int i = 0; i < P; i++)
        clipped[i] *= most > 0 && norm > most ? most / norm : 1;
    return raw;
}

static void against_reference(optimizer_rig *b, const gpur_optimizer_config *config, const float *first)
{
    static float g[P], got[P];
    static double w[P], gd[P], m[P], v[P], u[P];
    for (int i = 0; i < P; i++)
        w[i] = first[i];
    ref_optimizer_begin(config, P, m, v, u);
    for (int t = 1; t <= STEPS; t++) {
        optimizer_rig_gradient(t, g);
        const double norm = clip(config, g, gd);
        ref_optimizer_step(config, t, P, w, gd, m, v, u);
        CHECK_NEAR(optimizer_rig_state(b).next_learning_rate, ref_schedule(&config->learning_rate, t - 1), 1e-9);
        CHECK_OK(optimizer_rig_step(b, g));
        CHECK_NEAR(optimizer_rig_state(b).gradient_norm, norm, 1e-6 * norm);
        CHECK_OK(optimizer_rig_read(b, b->optimizer.weights, got));
        for (int i = 0; i < P; i++)
            CHECK_NEAR(got[i], w[i], 1e-6 * (1 + fabs(w[i])));
    }
}

static void check_config(const gpur_learner_config *config)
{
    static float first[P];
    optimizer_rig b;
    rig_random(1, first, P);
    const gpur_status status = optimizer_rig_open(&b, device, config, first);
    if (status == GPUR_OK)
        against_reference(&b, &config->optimizer, first);
    optimizer_rig_close(&b);
    CHECK_OK(status);
}

TEST(every_flavour_follows_its_formula_for_fifty_steps)
{
    for (int kind = GPUR_ADAM; kind <= GPUR_RMSPROP_DEEPMIND; kind++)
        for (int centered = 0; centered < 2; centered++) {
            const gpur_learner_config config = optimizer_rig_config(kind, centered);
            check_config(&config);
        }
}

/* Two steps of g = 2, lr = .1, d = .9, eps = .1, momentum = .9, by hand: v = .4 and then .76 where it starts at 0. In
 * the first step Keras 2.1 and PyTorch are the same; in the second only one of them has momentum. */
TEST(the_first_two_steps_of_each_flavour_are_the_published_ones)
{
    static const double want[][2] = {
        [GPUR_ADAM] = {0.1, 0.1}, /* lr g / |g| */
        /* v = .9 + .4 = 1.3, and 1.57; eps inside */
        [GPUR_RMSPROP_TF] = {0.2 / 1.18321595662, 0.9 * 0.2 / 1.18321595662 + 0.2 / 1.29228479833},
        [GPUR_RMSPROP_KERAS2] = {0.2 / (0.63245553203 + 0.1), 0.2 / (0.87177978871 + 0.1)},
        [GPUR_RMSPROP_TORCH] = {0.2 / (0.63245553203 + 0.1),
                                0.9 * 0.2 / (0.63245553203 + 0.1) + 0.2 / (0.87177978871 + 0.1)},
        /* m = .2: .4 - .04 + .1 = .46, and m = .38: .76 - .1444 + .1 = .7156 */
        [GPUR_RMSPROP_DEEPMIND] = {0.2 / 0.67823299831, 0.2 / 0.84593143930},
    };
    static float w[P], g[P];
    for (int i = 0; i < P; i++)
        w[i] = 0, g[i] = 2;
    for (int kind = GPUR_ADAM; kind <= GPUR_RMSPROP_DEEPMIND; kind++) {
        optimizer_rig b;
        gpur_learner_config config = optimizer_rig_config(kind, 0);
        config.optimizer.learning_rate.first = config.optimizer.learning_rate.last = 0.1f;
        config.optimizer.decay = 0.9f;
        config.optimizer.epsilon = kind == GPUR_ADAM ? 1e-8f : 0.1f;
        static float first[P], second[P];
        CHECK_OK(optimizer_rig_open(&b, device, &config, w));
        CHECK_OK(optimizer_rig_step(&b, g));
        CHECK_OK(optimizer_rig_read(&b, b.optimizer.weights, first));
        CHECK_OK(optimizer_rig_step(&b, g));
        CHECK_OK(optimizer_rig_read(&b, b.optimizer.weights, second));
        optimizer_rig_close(&b);
        CHECK_NEAR(-first[17], want[kind][0], 1e-6);
        CHECK_NEAR(first[17] - second[17], want[kind][1], 1e-6);
    }
}

TEST(gradients_are_clipped_by_value_and_then_by_global_norm)
{
    static const float limits[][2] = {{1.0f, 0}, {1e6f, 0} /* far above the norm */, {0, 0.5f}, {2.0f, 0.5f}};
    for (int i = 0; i < 4; i++) {
        gpur_learner_config config = optimizer_rig_config(GPUR_RMSPROP_TORCH, 0);
        config.optimizer.clip_norm = limits[i][0];
        config.optimizer.clip_value = limits[i][1];
        check_config(&config);
    }
}

/* All components 2: the norm is 2 sqrt P, whatever is clipped; clipped to 0.5 and then to a norm of 1 it is 1. */
TEST(the_gradient_norm_told_is_that_before_any_clipping)
{
    static const float limits[][2] = {{0, 0}, {1, 0}, {0, 0.5f}, {1, 0.5f}}; /* norm, value */
    static const double moved[] = {2, 0.0141421356, 0.5, 0.0141421356};      /* 1 / sqrt P */
    static float w[P], g[P], got[P];
    for (int i = 0; i < P; i++)
        g[i] = 2;
    for (int i = 0; i < 4; i++) {
        optimizer_rig b;
        gpur_learner_config config = optimizer_rig_config(GPUR_RMSPROP_TORCH, 0);
        config.optimizer.clip_norm = limits[i][0], config.optimizer.clip_value = limits[i][1];
        config.optimizer.learning_rate.first = 1, config.optimizer.decay = 0, config.optimizer.epsilon = 1e6f;
        CHECK_OK(optimizer_rig_open(&b, device, &config, w));
        CHECK_OK(optimizer_rig_step(&b, g));
        CHECK_NEAR(optimizer_rig_state(&b).gradient_norm, 2 * sqrt(P), 1e-4);
        CHECK_OK(optimizer_rig_read(&b, b.optimizer.weights, got));
        CHECK_NEAR(-got[P - 1] * 1e6, moved[i], 1e-4 * moved[i]);
        optimizer_rig_close(&b);
    }
}

TEST(no_launch_shape_changes_a_bit)
{
    static const gpur_grid grids[] = {{1, 32, 0}, {2, 64, 0}, {7, 96, 0}, {64, 256, 0}};
    static float w[P], g[P], got[2][P];
    gpur_learner_config config = optimizer_rig_config(GPUR_RMSPROP_TF, 1);
    config.optimizer.clip_norm = 1.0f;
    rig_random(1, w, P);
    for (int i = 0; i < 4; i++) {
        optimizer_rig b;
        CHECK_OK(optimizer_rig_open(&b, device, &config, w));
        gpur_device_force_grid(device, grids[i]);
        gpur_status status = GPUR_OK;
        for (int t = 1; t <= 10 && status == GPUR_OK; t++) {
            optimizer_rig_gradient(t, g);
            status = optimizer_rig_step(&b, g);
        }
        gpur_device_force_grid(device, (gpur_grid){0, 0, 0});
        CHECK_OK(status);
        CHECK_OK(optimizer_rig_read(&b, b.optimizer.weights, got[i > 0]));
        optimizer_rig_close(&b);
        CHECK(i == 0 || memcmp(got[0], got[1], sizeof got[0]) == 0);
    }
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
    RUN(every_flavour_follows_its_formula_for_fifty_steps);
    RUN(the_first_two_steps_of_each_flavour_are_the_published_ones);
    RUN(gradients_are_clipped_by_value_and_then_by_global_norm);
    RUN(the_gradient_norm_told_is_that_before_any_clipping);
    RUN(no_launch_shape_changes_a_bit);
    gpur_device_close(device);
    return test_main_end();
}
