/* SPDX-License-Identifier: MIT */
/* Every optimizer against its formula in double, step by step, with clipping, schedules, and copies to a target.
 * test_learner.c checks whole train steps: statistics, and steps on an empty window. */
#include "support/replay_fixture.h"
#include "test.h"
#include "learn/optimizer.h"
#include "support/learner_fixture.h"

enum { P = 5000, BATCH = 3, STEPS = IN_RACE_CHECK ? 10 : 50 };

static gpur_device *device;

/* An optimizer on P weights, without a network or a replay. */
typedef struct optimizer_fixture {
    gpur_stream *stream;
    gpur_optimizer optimizer;
    gpur_params params;
    void *memory;
    int64_t *drawable; /* device */
    float *loss;       /* device (BATCH) */
} optimizer_fixture;

/* A config with a schedule of the learning rate, and constants for every kind. */
static gpur_dqn_config config_of(int kind, int centered)
{
    gpur_dqn_config config;
    gpur_dqn_config_init(&config, sizeof config);
    config.optimizer.kind = kind;
    config.optimizer.centered = centered;
    config.optimizer.learning_rate.first = 0.01f;
    config.optimizer.learning_rate.last = 0.001f;
    config.optimizer.learning_rate.begin = 5;
    config.optimizer.learning_rate.steps = 30;
    config.optimizer.decay = 0.95f;
    config.optimizer.momentum = 0.9f;
    config.optimizer.epsilon = kind == GPUR_ADAM ? 1e-8f : 0.01f;
    config.target_period = kind % 2 ? 2 : 10;
    config.target_rate = kind % 2 ? 0.07f : 1;
    return config;
}

static gpur_status optimizer_open(optimizer_fixture *f, const gpur_dqn_config *config, const float *weights)
{
    static const float loss[BATCH];
    const int64_t one = 1;
    gpur_arena arena = {NULL, 0};
    memset(f, 0, sizeof *f);
    GPUR_TRY(gpur_stream_create(device, &f->stream));
    f->params = (gpur_params){.count = P, .bf16 = config->optimizer.centered};
    gpur_optimizer_open(&f->optimizer, device, &config->optimizer, &f->params);
    gpur_optimizer_set_target(&f->optimizer, config->target_period, config->target_copy_first, config->target_rate);
    gpur_optimizer_assign(&f->optimizer, &arena, NULL);
    GPUR_TRY(gpur_device_alloc(device, arena.used, &f->memory));
    arena = (gpur_arena){f->memory, 0};
    gpur_optimizer_assign(&f->optimizer, &arena, NULL);
    f->drawable = upload_to_device(device, &one, sizeof one);
    f->loss = upload_to_device(device, loss, sizeof loss);
    f->optimizer.drawable = f->drawable;
    return gpur_optimizer_reset(&f->optimizer, f->stream, weights);
}

static void optimizer_close(optimizer_fixture *f)
{
    gpur_stream_destroy(f->stream);
    gpur_device_free(device, f->memory);
    gpur_device_free(device, f->drawable);
    gpur_device_free(device, f->loss);
}

/* Takes a step on this gradient and reads the weights and the state after it. */
static gpur_status step(optimizer_fixture *f, const float *gradient, float *weights, gpur_train_state *state)
{
    const gpur_train_step_results results = {.loss = f->loss, .q_taken = f->loss, .invalid = f->loss, .batch = BATCH};
    GPUR_TRY(gpur_device_copy(device, f->optimizer.gradient, gradient, P * sizeof(float)));
    GPUR_TRY(gpur_optimizer_step(&f->optimizer, f->stream, &results));
    GPUR_TRY(gpur_stream_sync(f->stream));
    GPUR_TRY(gpur_device_copy(device, state, f->optimizer.state, sizeof *state));
    return gpur_device_copy(device, weights, f->optimizer.weights, P * sizeof(float));
}

/* Numbers whose size differs from weight to weight and whose sign mostly stays, as training's do. */
static void make_gradient(int t, float *g)
{
    random_floats((uint64_t)t + 1000, g, P);
    for (int i = 0; i < P; i++)
        g[i] = (g[i] + 0.3f) * powf(10.0f, (float)(i % 5) - 3.0f);
}

static double norm_of(const double *x)
{
    double squares = 0;
    for (int i = 0; i < P; i++)
        squares += x[i] * x[i];
    return sqrt(squares);
}

/* Clips by value, then by the norm of the result. Returns the norm before both. */
static double clip(const gpur_optimizer_config *config, const float *g, double *clipped)
{
    const double value = config->clip_value, limit = config->clip_norm;
    for (int i = 0; i < P; i++)
        clipped[i] = g[i];
    const double raw = norm_of(clipped);
    for (int i = 0; i < P && value > 0; i++)
        clipped[i] = fmax(-value, fmin(value, clipped[i]));
    const double norm = norm_of(clipped);
    for (int i = 0; i < P && limit > 0 && norm > limit; i++)
        clipped[i] *= limit / norm;
    return raw;
}

/* Behind the weights and the target lie the nearest numbers with 8 bits of mantissa. */
static void check_bf16(const optimizer_fixture *f)
{
    static struct {
        float w[P];
        uint16_t bf16[P];
    } got;
    float *const arrays[2] = {f->optimizer.weights, f->optimizer.target};
    for (int a = 0; a < 2; a++) {
        CHECK_OK(gpur_device_copy(device, &got, arrays[a], gpur_params_bytes(&f->params)));
        for (int i = 0; i < P; i++) {
            const uint32_t bits = (uint32_t)got.bf16[i] << 16;
            float wide;
            memcpy(&wide, &bits, sizeof wide);
            CHECK_NEAR(wide, got.w[i], ldexp(1, ilogb(got.w[i]) - 8));
        }
    }
}

/* A copy at rate 1 is one bit for bit. */
static void check_target(const optimizer_fixture *f, const gpur_dqn_config *c, int t, const float *w, double *target)
{
    static float got[P];
    const double rate = c->target_rate;
    CHECK_OK(gpur_device_copy(device, got, f->optimizer.target, sizeof got));
    for (int i = 0; i < P; i++) {
        target[i] = ref_copies_target(c, t) ? target[i] + rate * ((double)w[i] - target[i]) : target[i];
        CHECK_NEAR(got[i], target[i], rate < 1 ? 1e-6 * (1 + fabs(target[i])) : 0);
    }
}

/* Each step has another launch shape. */
static void check_steps(optimizer_fixture *f, const gpur_dqn_config *c, const float *first)
{
    const gpur_optimizer_config *const config = &c->optimizer;
    static const gpur_grid grids[] = {{0, 0, 0}, {1, 32, 0}, {2, 64, 0}, {7, 96, 0}, {64, 256, 0}};
    static float g[P], got[P];
    static double w[P], clipped[P], m[P], v[P], u[P], target[P];
    gpur_train_state state;
    for (int i = 0; i < P; i++)
        w[i] = target[i] = first[i];
    ref_optimizer_begin(config, P, m, v, u);
    for (int t = 1; t <= STEPS; t++) {
        make_gradient(t, g);
        const double norm = clip(config, g, clipped);
        ref_optimizer_step(config, t, P, w, clipped, m, v, u);
        gpur_device_force_grid(device, grids[t % 5]);
        const gpur_status status = step(f, g, got, &state);
        gpur_device_force_grid(device, grids[0]);
        CHECK_OK(status);
        CHECK_NEAR(state.next_learning_rate, ref_schedule(&config->learning_rate, t), 1e-9);
        CHECK_NEAR(state.gradient_norm, norm, 1e-6 * norm);
        for (int i = 0; i < P; i++)
            CHECK_NEAR(got[i], w[i], 1e-6 * (1 + fabs(w[i])));
        check_target(f, c, t, got, target);
        if (f->params.bf16)
            check_bf16(f);
    }
}

static void check_config(const gpur_dqn_config *config)
{
    static float first[P];
    const int before = atomic_load(&test_state.failures);
    optimizer_fixture f;
    random_floats(1, first, P);
    const gpur_status status = optimizer_open(&f, config, first);
    if (status == GPUR_OK)
        check_steps(&f, config, first);
    optimizer_close(&f);
    CHECK_OK(status);
    TEST_REQUIRE(atomic_load(&test_state.failures) == before, "that was optimizer %d, centered %d, clipping %g %g",
                 config->optimizer.kind, config->optimizer.centered, (double)config->optimizer.clip_norm,
                 (double)config->optimizer.clip_value);
}

TEST(every_kind_follows_its_formula_for_fifty_steps)
{
    for (int kind = GPUR_ADAM; kind <= GPUR_ADAM_TF; kind++)
        for (int centered = 0; centered < 2; centered++) {
            const gpur_dqn_config config = config_of(kind, centered);
            check_config(&config);
        }
}

/* Two steps of g = 2, lr = .1, d = .9, eps = .1, momentum = .9, by hand: v = .4 and then .76 where it starts at 0. In
 * the first step Keras 2.1 and PyTorch are the same; in the second only one of them has momentum. */
TEST(weights_decay_with_both_kinds_of_adam)
{
    for (int i = 0; i < 4; i++) {
        gpur_dqn_config config = config_of(i % 2 ? GPUR_ADAM_TF : GPUR_ADAM, i / 2);
        config.optimizer.weight_decay = i / 2 ? 0.01 : 3;
        check_config(&config);
    }
}

TEST(the_first_two_steps_of_each_kind_are_the_published_ones)
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
        /* lr (1 / .1) m / (sqrt(v) + eps / sqrt(.001)): m = .2, v = .004; m = .38, v = .007996 */
        [GPUR_ADAM_TF] = {0.2 / (2 + 0.1 / 0.03162277660), 0.2 / (2 + 0.1 / 0.04471017781)},
    };
    static float w[P], g[P], first[P], second[P];
    gpur_train_state state;
    for (int i = 0; i < P; i++)
        g[i] = 2;
    for (int kind = GPUR_ADAM; kind <= GPUR_ADAM_TF; kind++) {
        optimizer_fixture f;
        gpur_dqn_config config = config_of(kind, 0);
        config.optimizer.learning_rate.first = config.optimizer.learning_rate.last = 0.1f;
        config.optimizer.decay = 0.9f;
        config.optimizer.epsilon = kind == GPUR_ADAM ? 1e-8f : 0.1f;
        CHECK_OK(optimizer_open(&f, &config, w));
        CHECK_OK(step(&f, g, first, &state));
        CHECK_OK(step(&f, g, second, &state));
        optimizer_close(&f);
        CHECK_NEAR(-first[17], want[kind][0], 1e-6);
        CHECK_NEAR(first[17] - second[17], want[kind][1], 1e-6);
    }
}

TEST(gradients_are_clipped_by_value_and_then_by_global_norm)
{
    static const float limits[][2] = {{1.0f, 0}, {1e6f, 0} /* far above the norm */, {0, 0.5f}, {2.0f, 0.5f}};
    for (int i = 0; i < 4; i++) {
        gpur_dqn_config config = config_of(GPUR_RMSPROP_TORCH, 0);
        config.optimizer.clip_norm = limits[i][0];
        config.optimizer.clip_value = limits[i][1];
        check_config(&config);
    }
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
    RUN(every_kind_follows_its_formula_for_fifty_steps);
    RUN(weights_decay_with_both_kinds_of_adam);
    RUN(the_first_two_steps_of_each_kind_are_the_published_ones);
    RUN(gradients_are_clipped_by_value_and_then_by_global_norm);
    gpur_device_close(device);
    return test_main_end();
}
