/* SPDX-License-Identifier: MIT */
/* Every optimiser against its formula in double, step by step; clipping, schedules, target copies, empty windows. */
#include "test.h"

#include "learn/optimizer.h"
#include "learn_rig.h"

enum { P = 5000, STEPS = 50, BATCH = 3 };

static gpur_device *device;

/* An optimiser over P weights, with nothing before it. */
typedef struct bench {
    gpur_stream *stream;
    gpur_optimizer optimizer;
    void *memory;
    gpur_window *window; /* device */
    float *loss;         /* device (BATCH) */
} bench;

static gpur_learner_config config_with(int kind, int centered)
{
    gpur_learner_config config;
    gpur_learner_config_init(&config, sizeof config);
    config.optimizer.kind = kind;
    config.optimizer.centered = centered;
    config.optimizer.learning_rate.first = 0.01f;
    config.optimizer.learning_rate.last = 0.001f;
    config.optimizer.learning_rate.begin = 5;
    config.optimizer.learning_rate.steps = 30;
    config.optimizer.decay = 0.95f;
    config.optimizer.momentum = 0.9f;
    config.optimizer.epsilon = kind == GPUR_ADAM ? 1e-8f : 0.01f;
    config.target_period = 10;
    return config;
}

static gpur_status bench_open(bench *b, const gpur_learner_config *config, const float *weights)
{
    static const float loss[BATCH] = {1, 2, 6};
    const gpur_window full = {0, 0, 1};
    gpur_arena arena = {NULL, 0};
    memset(b, 0, sizeof *b);
    GPUR_TRY(gpur_stream_create(device, &b->stream));
    gpur_optimizer_open(&b->optimizer, device, config, P);
    gpur_optimizer_place(&b->optimizer, &arena);
    GPUR_TRY(gpur_device_alloc(device, arena.used, &b->memory));
    arena.base = b->memory;
    arena.used = 0;
    gpur_optimizer_place(&b->optimizer, &arena);
    b->window = rig_upload(device, &full, sizeof full);
    b->loss = rig_upload(device, loss, sizeof loss);
    b->optimizer.window = b->window;
    return gpur_optimizer_reset(&b->optimizer, b->stream, weights);
}

static void bench_close(bench *b)
{
    gpur_stream_destroy(b->stream);
    gpur_device_free(device, b->memory);
    gpur_device_free(device, b->window);
    gpur_device_free(device, b->loss);
}

static gpur_status bench_step(bench *b, const float *gradient)
{
    GPUR_TRY(gpur_device_copy(device, b->optimizer.gradient, gradient, P * sizeof(float)));
    GPUR_TRY(gpur_optimizer_step(&b->optimizer, b->stream, b->loss, b->loss, BATCH));
    return gpur_stream_sync(b->stream);
}

static gpur_status read_floats(const float *from, float *to)
{
    return gpur_device_copy(device, to, from, P * sizeof(float));
}

static gpur_train_state read_state(const bench *b)
{
    gpur_train_state state;
    memset(&state, 0, sizeof state);
    (void)gpur_device_copy(device, &state, b->optimizer.state, sizeof state);
    return state;
}

/* Gradients whose size differs from weight to weight and whose sign mostly stays, as training's do. */
static void gradient_of_step(int t, float *g)
{
    rig_random((uint64_t)t + 1000, g, P);
    for (int i = 0; i < P; i++)
        g[i] = (g[i] + 0.3f) * powf(10.0f, (float)(i % 5) - 3.0f);
}

/* Clips by value and then by norm; the norm in between. */
static double clip(const gpur_optimizer_config *config, const float *g, double *clipped)
{
    const double value = config->clip_value, most = config->clip_norm;
    double squares = 0;
    for (int i = 0; i < P; i++) {
        clipped[i] = value > 0 ? fmax(-value, fmin(value, g[i])) : g[i];
        squares += clipped[i] * clipped[i];
    }
    const double norm = sqrt(squares);
    for (int i = 0; i < P; i++)
        clipped[i] *= most > 0 && norm > most ? most / norm : 1;
    return norm;
}

static void against_reference(bench *b, const gpur_optimizer_config *config, const float *first)
{
    static float g[P], got[P];
    static double w[P], gd[P], m[P], v[P], u[P];
    for (int i = 0; i < P; i++)
        w[i] = first[i];
    ref_optimizer_begin(config, P, m, v, u);
    for (int t = 1; t <= STEPS; t++) {
        gradient_of_step(t, g);
        const double norm = clip(config, g, gd);
        ref_optimizer_step(config, t, P, w, gd, m, v, u);
        CHECK_NEAR(read_state(b).next_learning_rate, ref_schedule(&config->learning_rate, t - 1), 1e-9);
        CHECK_OK(bench_step(b, g));
        CHECK_NEAR(read_state(b).gradient_norm, norm, 1e-6 * norm);
        CHECK_OK(read_floats(b->optimizer.weights, got));
        for (int i = 0; i < P; i++)
            CHECK_NEAR(got[i], w[i], 1e-6 * (1 + fabs(w[i])));
    }
}

static void check_config(const gpur_learner_config *config)
{
    static float first[P];
    bench b;
    rig_random(1, first, P);
    const gpur_status status = bench_open(&b, config, first);
    if (status == GPUR_OK)
        against_reference(&b, &config->optimizer, first);
    bench_close(&b);
    CHECK_OK(status);
}

TEST(every_flavour_follows_its_formula_for_fifty_steps)
{
    for (int kind = GPUR_ADAM; kind <= GPUR_RMSPROP_DEEPMIND; kind++)
        for (int centered = 0; centered < 2; centered++) {
            const gpur_learner_config config = config_with(kind, centered);
            check_config(&config);
        }
}

/* One weight, one step, by hand: the flavours differ where their namesakes do. */
TEST(the_first_step_of_each_flavour_is_the_published_one)
{
    static const double want[] = {
        [GPUR_ADAM] = 0.1,                       /* lr g / |g| */
        [GPUR_RMSPROP_TF] = 0.2 / 1.18321595662, /* v = .9 + .4, eps inside: 1.4 */
        [GPUR_RMSPROP_KERAS] = 0.2 / (0.63245553203 + 0.1),
        [GPUR_RMSPROP_TORCH] = 0.2 / (0.63245553203 + 0.1),
        [GPUR_RMSPROP_DEEPMIND] = 0.2 / 0.67823299831, /* v = .4, m = .2: .4 - .04 + .1 = .46 */
    };
    static float w[P], g[P];
    for (int i = 0; i < P; i++)
        w[i] = 0, g[i] = 2;
    for (int kind = GPUR_ADAM; kind <= GPUR_RMSPROP_DEEPMIND; kind++) {
        bench b;
        gpur_learner_config config = config_with(kind, 0);
        config.optimizer.learning_rate.first = config.optimizer.learning_rate.last = 0.1f;
        config.optimizer.decay = 0.9f;
        config.optimizer.epsilon = kind == GPUR_ADAM ? 1e-8f : 0.1f;
        CHECK_OK(bench_open(&b, &config, w));
        CHECK_OK(bench_step(&b, g));
        static float got[P];
        CHECK_OK(read_floats(b.optimizer.weights, got));
        bench_close(&b);
        CHECK_NEAR(-got[17], want[kind], 1e-6);
    }
}

TEST(gradients_are_clipped_by_value_and_then_by_global_norm)
{
    static const float limits[][2] = {{1.0f, 0}, {1e6f, 0} /* far above the norm */, {0, 0.5f}, {2.0f, 0.5f}};
    for (int i = 0; i < 4; i++) {
        gpur_learner_config config = config_with(GPUR_RMSPROP_TORCH, 0);
        config.optimizer.clip_norm = limits[i][0];
        config.optimizer.clip_value = limits[i][1];
        check_config(&config);
    }
}

/* The numbers of the steps that ended in a copy, as bits. */
static uint64_t copies_of(int64_t period, int first)
{
    static float w[P], g[P], online[P], target[P];
    uint64_t copies = 0;
    bench b;
    gpur_learner_config config = config_with(GPUR_ADAM, 0);
    config.target_period = period;
    config.target_copy_first = first;
    rig_random(1, w, P);
    if (bench_open(&b, &config, w) != GPUR_OK)
        return ~0ull;
    for (int t = 1; t <= 25; t++) {
        gradient_of_step(t, g);
        if (bench_step(&b, g) != GPUR_OK || read_floats(b.optimizer.weights, online) != GPUR_OK ||
            read_floats(b.optimizer.target, target) != GPUR_OK)
            return ~0ull;
        copies |= (uint64_t)(memcmp(online, target, sizeof online) == 0) << t;
    }
    const int counted = read_state(&b).target_copies == __builtin_popcountll(copies);
    bench_close(&b);
    return counted ? copies : ~0ull;
}

TEST(the_target_is_copied_at_exactly_the_right_steps)
{
    CHECK(copies_of(10, 0) == (1ull << 10 | 1ull << 20));
    CHECK(copies_of(10, 1) == (1ull << 1 | 1ull << 10 | 1ull << 20));
    CHECK(copies_of(1, 0) == ((1ull << 26) - 2));
    CHECK(copies_of(100, 0) == 0);
}

TEST(an_empty_window_changes_nothing_and_is_counted)
{
    static float w[P], g[P], got[P];
    const gpur_window empty = {7, 3, 0};
    bench b;
    const gpur_learner_config config = config_with(GPUR_RMSPROP_TF, 1);
    rig_random(1, w, P);
    CHECK_OK(bench_open(&b, &config, w));
    const gpur_train_state before = read_state(&b);
    CHECK_OK(gpur_device_copy(device, b.window, &empty, sizeof empty));
    gradient_of_step(1, g);
    CHECK_OK(bench_step(&b, g));
    gpur_train_state after = read_state(&b);
    CHECK_EQUAL(after.skipped, 1);
    after.skipped = 0;
    CHECK(memcmp(&before, &after, sizeof before) == 0);
    CHECK_OK(read_floats(b.optimizer.weights, got));
    CHECK(memcmp(got, w, sizeof w) == 0);
    CHECK_OK(read_floats(b.optimizer.square, got));
    for (int i = 0; i < P; i++)
        CHECK_NEAR(got[i], 1, 0);
    bench_close(&b);
}

TEST(the_end_of_a_step_averages_loss_and_counts)
{
    static float w[P], g[P];
    bench b;
    const gpur_learner_config config = config_with(GPUR_ADAM, 0);
    CHECK_OK(bench_open(&b, &config, w));
    for (int t = 1; t <= 7; t++)
        CHECK_OK(bench_step(&b, g));
    const gpur_train_state state = read_state(&b);
    CHECK_EQUAL(state.step, 7);
    CHECK_NEAR(state.loss, 3, 0);
    CHECK_NEAR(state.mean_q, 3, 0);
    CHECK_NEAR(state.loss_sum, 21, 0);
    CHECK_NEAR(state.gradient_norm, 0, 0);
    CHECK_NEAR(state.beta1_power, pow((double)0.9f, 8), 1e-14);
    bench_close(&b);
}

TEST(no_launch_shape_changes_a_bit)
{
    static const gpur_grid grids[] = {{1, 32}, {2, 64}, {7, 96}, {64, 256}};
    static float w[P], g[P], got[2][P];
    gpur_learner_config config = config_with(GPUR_RMSPROP_TF, 1);
    config.optimizer.clip_norm = 1.0f;
    rig_random(1, w, P);
    for (int i = 0; i < 4; i++) {
        bench b;
        CHECK_OK(bench_open(&b, &config, w));
        gpur_device_force_grid(device, grids[i]);
        gpur_status status = GPUR_OK;
        for (int t = 1; t <= 10 && status == GPUR_OK; t++) {
            gradient_of_step(t, g);
            status = bench_step(&b, g);
        }
        gpur_device_force_grid(device, (gpur_grid){0, 0});
        CHECK_OK(status);
        CHECK_OK(read_floats(b.optimizer.weights, got[i > 0]));
        bench_close(&b);
        CHECK(i == 0 || memcmp(got[0], got[1], sizeof got[0]) == 0);
    }
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
    RUN(every_flavour_follows_its_formula_for_fifty_steps);
    RUN(the_first_step_of_each_flavour_is_the_published_one);
    RUN(gradients_are_clipped_by_value_and_then_by_global_norm);
    RUN(the_target_is_copied_at_exactly_the_right_steps);
    RUN(an_empty_window_changes_nothing_and_is_counted);
    RUN(the_end_of_a_step_averages_loss_and_counts);
    RUN(no_launch_shape_changes_a_bit);
    gpur_device_close(device);
    return test_main_end();
}
