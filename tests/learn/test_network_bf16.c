/* SPDX-License-Identifier: MIT */
/*
 * A convolutional network in bfloat16, layer by layer: each is computed in double from the numbers that the one before
 * it has stored, so that what is left are sums in float32 and one rounding to 8 bits of mantissa. A CPU does not
 * compute this way unless it is told to.
 */
#include "test.h"
#include "device/backend.h"
#include "gpureplay/math.h"
#include "learn/network/pass.h"
#include "reference/reference_conv.h"
#include "support/learner_fixture.h"

enum { SIDE = 20, CHANNELS = 4, ROWS = 5, BRANCH = 16, ACTIONS = 3, CONVS = 3, DENSE = CONVS + 1 };
enum { MOST = ROWS * SIDE * SIDE * CHANNELS };

static const double float_sum = 2e-6, one_rounding = 0x1p-8; /* of the magnitudes added; of the number */

static gpur_device *device;

typedef struct fixture {
    gpur_stream *stream;
    gpur_network network;
    gpur_pass pass;
    gpur_backward backward;
    float *weights, *gradient; /* device */
    void *memory, *workspace;
} fixture;

static double wide(uint16_t number)
{
    const uint32_t bits = (uint32_t)number << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Numbers of the device, in double; malloc'ed. They stay 0 if they cannot be read. */
static double *fetch(const void *from, int64_t count, int is_bf16)
{
    double *const to = malloc((size_t)count * sizeof *to);
    void *const numbers = calloc((size_t)count, 4);
    (void)gpur_device_copy(device, numbers, from, count * (is_bf16 ? 2 : 4));
    for (int64_t i = 0; i < count; i++)
        to[i] = is_bf16 ? wide(((const uint16_t *)numbers)[i]) : ((const float *)numbers)[i];
    free(numbers);
    return to;
}

static void check_numbers(const char *what, int32_t layer, const double *got, const double *want, const double *size,
                          int64_t count, double rounding)
{
    for (int64_t i = 0; i < count; i++)
        TEST_REQUIRE(fabs(got[i] - want[i]) <= 1e-9 + float_sum * size[i] + rounding * fabs(want[i]),
                     "%s %d: number %d is %.9g, wanted %.9g", what, (int)layer, (int)i, got[i], want[i]);
}

static double *magnitudes(const double *x, int64_t count)
{
    double *const to = malloc((size_t)count * sizeof *to);
    for (int64_t i = 0; i < count; i++)
        to[i] = fabs(x[i]);
    return to;
}

static void place(fixture *f, gpur_arena *arena)
{
    const int64_t forward = f->pass.workspace, backward = f->backward.workspace;
    f->weights = gpur_arena_alloc(arena, gpur_params_bytes(&f->network.params));
    f->gradient = gpur_arena_floats(arena, f->network.params.count);
    f->pass.activations[0] = gpur_arena_floats(arena, MOST);
    gpur_pass_assign(&f->pass, arena);
    gpur_backward_assign(&f->backward, arena);
    f->workspace = gpur_arena_alloc(arena, forward > backward ? forward : backward);
}

static gpur_status upload(fixture *f)
{
    static float numbers[1 << 16];
    static uint16_t x[MOST];
    GPUR_REQUIRE(f->network.params.count <= 1 << 16, "too many weights for this test");
    random_floats(3, numbers, f->network.params.count);
    GPUR_TRY(gpur_device_copy(device, f->weights, numbers, f->network.params.count * 4));
    GPUR_TRY(gpur_params_round(&f->network.params, device, f->stream, f->weights));
    random_floats(4, numbers, MOST);
    for (int i = 0; i < MOST; i++)
        memcpy(&x[i], (const char *)&numbers[i] + 2, 2); /* cut to bfloat16: the byte order is little-endian */
    GPUR_TRY(gpur_device_copy(device, f->pass.activations[0], x, sizeof x));
    const int32_t last = f->network.activation_count - 1;
    random_floats(5, numbers, ROWS * f->pass.pitch[last]);
    return gpur_device_copy(device, f->backward.gradients[last], numbers, ROWS * f->pass.pitch[last] * 4);
}

/* The Nature network, smaller, with both streams of a dueling head. */
static gpur_status open(fixture *f)
{
    static const int convs[CONVS][3] = {{8, 8, 4}, {16, 2, 2}, {8, 2, 1}};
    const gpur_input_shape image = {SIDE * SIDE * CHANNELS, SIDE, SIDE, CHANNELS};
    const gpur_pass_options options = gpur_pass_options_of(GPUR_MATH_BF16);
    gpur_network_config config = network_fixture_config(0, 0, GPUR_RELU, GPUR_HEAD_DUELING, BRANCH, ACTIONS);
    gpur_arena arena = {NULL, 0};
    for (int i = 0; i < CONVS; i++)
        config.trunk[config.trunk_count++] =
            (gpur_layer){GPUR_CONV, convs[i][0], GPUR_RELU, convs[i][1], convs[i][2], 0, {0}};
    GPUR_TRY(gpur_stream_create(device, &f->stream));
    GPUR_TRY(gpur_network_build(&f->network, &config, &image));
    gpur_network_choose_bf16(&f->network, device, GPUR_MATH_BF16);
    GPUR_TRY(gpur_pass_open(&f->pass, device, &f->network, ROWS, gpur_input_pitch(&f->network), &options));
    GPUR_TRY(gpur_backward_open(&f->backward, &f->pass, ROWS, 0));
    place(f, &arena);
    GPUR_TRY(gpur_device_alloc(device, arena.used, &f->memory));
    arena = (gpur_arena){f->memory, 0};
    place(f, &arena);
    GPUR_TRY(upload(f));
    GPUR_TRY(gpur_pass_forward(&f->pass, f->stream, ROWS, f->weights, f->workspace));
    GPUR_TRY(gpur_backward_run(&f->backward, &(gpur_track){f->stream, f->workspace}, &(gpur_side){NULL}, f->weights,
                               f->gradient));
    return gpur_stream_sync(f->stream);
}

static void close_fixture(fixture *f)
{
    gpur_stream_destroy(f->stream);
    gpur_backward_close(&f->backward);
    gpur_pass_close(&f->pass);
    gpur_device_free(device, f->memory);
}

/* What one layer has read and written, in double. A dense layer is a convolution of one pixel. */
typedef struct layer {
    ref_conv one;
    int32_t index;                     /* of its output's activations */
    int64_t x_count, y_count, w_count; /* of one row; of one row; of all rows */
    double *x, *w, *b, *y;
    double *arrived, *dy; /* gradient by y as it arrived; times the derivative, as the products read it */
    double *dw, *db;
} layer;

static ref_conv geometry_of(const fixture *f, int32_t i)
{
    if (i == CONVS) {
        const gpur_dense *const d = &f->network.dense[0];
        return (ref_conv){
            .height = 1, .width = 1, .channels = d->inputs, .filters = d->units, .kernel = 1, .stride = 1};
    }
    const gpur_convolution *const c = &f->network.conv[i];
    return (ref_conv){.height = c->height,
                      .width = c->width,
                      .channels = c->channels,
                      .filters = c->filters,
                      .kernel = c->kernel,
                      .stride = c->stride,
                      .padding = c->top};
}

static layer fetch_layer(const fixture *f, int32_t i)
{
    const int is_dense = i == CONVS;
    const int64_t weight = is_dense ? f->network.dense[0].weight : f->network.conv[i].weight;
    const int64_t bias = is_dense ? f->network.dense[0].bias : f->network.conv[i].bias;
    const uint16_t *const bf16 = gpur_params_bf16(&f->network.params, f->weights);
    layer l = {.one = geometry_of(f, i), .index = i + 1};
    ref_conv_size(&l.one);
    l.x_count = l.one.height * l.one.width * l.one.channels;
    l.y_count = l.one.rows * l.one.columns * l.one.filters;
    l.w_count = l.one.filters * l.one.kernel * l.one.kernel * l.one.channels;
    l.x = fetch(f->pass.activations[i], ROWS * l.x_count, 1);
    l.w = fetch(bf16 + weight, l.w_count, 1);
    l.b = is_dense ? fetch(f->weights + bias, l.one.filters, 0) : fetch(bf16 + bias, l.one.filters, 1);
    l.y = fetch(f->pass.activations[i + 1], ROWS * l.y_count, !is_dense);
    l.arrived = fetch(f->backward.gradients[i + 1], ROWS * l.y_count, i + 1 < CONVS);
    l.dy = fetch(f->backward.rounded[i + 1], ROWS * l.y_count, 1);
    l.dw = fetch(f->gradient + weight, l.w_count, 0);
    l.db = fetch(f->gradient + bias, l.one.filters, 0);
    return l;
}

static void free_layer(layer *l)
{
    free(l->x), free(l->w), free(l->b), free(l->y), free(l->arrived), free(l->dy), free(l->dw), free(l->db);
}

/* y = max(w x + b, 0), rounded once by a convolution. */
static void check_forward(const layer *l)
{
    const int64_t count = ROWS * l->y_count;
    double *const want = calloc((size_t)count, sizeof *want), *const size = calloc((size_t)count, sizeof *size);
    for (int r = 0; r < ROWS; r++)
        ref_conv_forward(&l->one, l->x + r * l->x_count, l->w, want + r * l->y_count, size + r * l->y_count);
    for (int64_t i = 0; i < count; i++) {
        const double b = l->b[i % l->one.filters];
        want[i] = want[i] + b > 0 ? want[i] + b : 0;
        size[i] += fabs(b);
    }
    check_numbers("activations", l->index, l->y, want, size, count, l->index == DENSE ? 0 : one_rounding);
    free(want), free(size);
}

/* dy is what arrived where y is positive, rounded once; db is the sum of it before that rounding. Inner convolutions'
 * arrive rounded, and are multiplied where they lie. */
static void check_activation(const layer *l)
{
    const int64_t count = ROWS * l->y_count, filters = l->one.filters;
    double *const want = calloc((size_t)count, sizeof *want), *const zero = calloc((size_t)count, sizeof *zero);
    double *const db = calloc((size_t)filters, sizeof *db), *const size = calloc((size_t)filters, sizeof *size);
    for (int64_t i = 0; i < count; i++) {
        want[i] = l->y[i] > 0 ? l->arrived[i] : 0;
        db[i % filters] += want[i];
        size[i % filters] += fabs(want[i]);
    }
    check_numbers("gradient of activations", l->index, l->dy, want, zero, count, one_rounding);
    check_numbers("gradient of the bias", l->index, l->db, db, size, filters, 0);
    free(want), free(zero), free(db), free(size);
}

/* cuDNN rounds the gradient of a convolution's weights, which every device then has in float32. */
static void check_weight_gradient(const layer *l)
{
    double *const want = calloc((size_t)l->w_count, sizeof *want), *const size =
                                                                       calloc((size_t)l->w_count, sizeof *size);
    double *const x = magnitudes(l->x, ROWS * l->x_count), *const dy = magnitudes(l->dy, ROWS * l->y_count);
    for (int r = 0; r < ROWS; r++) {
        ref_conv_backward(&l->one, l->x + r * l->x_count, l->w, l->dy + r * l->y_count, NULL, want);
        ref_conv_backward(&l->one, x + r * l->x_count, l->w, dy + r * l->y_count, NULL, size);
    }
    const double rounding = test_on_cuda() && l->index < DENSE ? one_rounding : 0;
    check_numbers("gradient of the weights", l->index, l->dw, want, size, l->w_count, rounding);
    free(want), free(size), free(x), free(dy);
}

/* The gradient by the input, which arrives at the layer below: rounded once if this is a convolution. There it is also
 * multiplied by the derivative already, in place. */
static void check_input_gradient(const layer *l, const layer *below)
{
    const int64_t count = ROWS * l->x_count;
    double *const want = calloc((size_t)count, sizeof *want), *const size = calloc((size_t)count, sizeof *size);
    double *const w = magnitudes(l->w, l->w_count), *const dy = magnitudes(l->dy, ROWS * l->y_count);
    for (int r = 0; r < ROWS; r++) {
        ref_conv_backward(&l->one, l->x, l->w, l->dy + r * l->y_count, want + r * l->x_count, NULL);
        ref_conv_backward(&l->one, l->x, w, dy + r * l->y_count, size + r * l->x_count, NULL);
    }
    for (int64_t i = 0; i < count && l->index < DENSE; i++)
        want[i] = below->y[i] > 0 ? want[i] : 0;
    check_numbers("gradient of the input", l->index, below->arrived, want, size, count,
                  l->index == DENSE ? 0 : one_rounding);
    free(want), free(size), free(w), free(dy);
}

TEST(each_layer_computes_in_float32_from_bfloat16_and_rounds_once)
{
    fixture f = {NULL};
    layer layers[CONVS + 1];
    const gpur_status status = open(&f);
    CHECK(f.network.params.bf16 || status != GPUR_OK);
    for (int32_t i = 0; i <= CONVS && status == GPUR_OK; i++)
        layers[i] = fetch_layer(&f, i);
    for (int32_t i = 0; i <= CONVS && status == GPUR_OK; i++) {
        check_forward(&layers[i]);
        check_activation(&layers[i]);
        check_weight_gradient(&layers[i]);
        if (i > 0)
            check_input_gradient(&layers[i], &layers[i - 1]);
    }
    for (int32_t i = 0; i <= CONVS && status == GPUR_OK; i++)
        free_layer(&layers[i]);
    close_fixture(&f);
    CHECK_OK(status);
}

/* Networks that do not suit compute as in float32, or as their device does it. */
TEST(only_networks_whose_layers_suit_compute_in_bfloat16)
{
    static const struct {
        gpur_layer conv;
        int32_t hidden, suits;
    } cases[] = {{{GPUR_CONV, 8, GPUR_RELU, 3, 1, 0, {0}}, 8, 1},  {{GPUR_CONV, 8, GPUR_LINEAR, 3, 1, 0, {0}}, 8, 1},
                 {{GPUR_CONV, 12, GPUR_RELU, 3, 1, 0, {0}}, 8, 0}, {{GPUR_CONV, 8, GPUR_TANH, 3, 1, 0, {0}}, 8, 0},
                 {{GPUR_CONV, 8, GPUR_RELU, 3, 1, 0, {0}}, 12, 0}, {{GPUR_CONV, 8, GPUR_RELU, 3, 1, 0, {0}}, 0, 0},
                 {{GPUR_DENSE, 8, GPUR_RELU, 0, 0, 0, {0}}, 8, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const gpur_input_shape image = {6 * 6 * 8, 6, 6, 8};
        gpur_network_config config = network_fixture_config(0, 0, GPUR_RELU, GPUR_HEAD_Q, cases[i].hidden, ACTIONS);
        gpur_network network;
        config.trunk[config.trunk_count++] = cases[i].conv;
        CHECK_OK(gpur_network_build(&network, &config, &image));
        for (int32_t math = GPUR_MATH_FP32; math <= GPUR_MATH_BF16; math++) {
            gpur_network_choose_bf16(&network, device, math);
            CHECK_EQUAL(network.params.bf16, math == GPUR_MATH_BF16 && cases[i].suits);
        }
    }
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device_deterministic();
    device->traits.has_bf16 = 1;
    RUN(each_layer_computes_in_float32_from_bfloat16_and_rounds_once);
    RUN(only_networks_whose_layers_suit_compute_in_bfloat16);
    gpur_device_close(device);
    return test_main_end();
}
