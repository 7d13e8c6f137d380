/* SPDX-License-Identifier: MIT */
/* Dense and convolutional networks, forward and backward, against the reference and its finite differences; and the
 * refusal of bad layers. */
#include "test.h"
#include "learn/network/pass.h"
#include "support/learner_fixture.h"

enum { MOST_OUTPUTS = 64 * 32, MOST_PARAMETERS = 1 << 16 };

static gpur_device *device;

/* Up to three convolutions (filters, kernel, stride, padding; 0 filters: none), up to two dense layers (0: none), a
 * head. */
typedef struct net_case {
    int height, width, channels; /* height 1: `width` numbers */
    int conv[3][4];
    int dense[2], activation, head, hidden, outputs;
    int64_t rows;
} net_case;

/* Every head, with and without layers of its own; odd sizes. */
static const net_case cases[] = {
    {1, 5, 1, {{0}}, {0}, GPUR_LINEAR, GPUR_HEAD_Q, 0, 3, 4},
    {1, 4, 1, {{0}}, {7}, GPUR_RELU, GPUR_HEAD_Q, 0, 2, 1},
    {1, 7, 1, {{0}}, {9, 6}, GPUR_TANH, GPUR_HEAD_Q, 5, 4, 33},
    {1, 27, 1, {{0}}, {16}, GPUR_RELU, GPUR_HEAD_DUELING, 12, 5, 32},
    {1, 10, 1, {{0}}, {33, 17}, GPUR_RELU, GPUR_HEAD_DUELING, 0, 3, 21},
    {1, 3, 1, {{0}}, {0}, GPUR_TANH, GPUR_HEAD_DUELING, 8, 2, 6},
    {1, 27, 1, {{0}}, {130}, GPUR_RELU, GPUR_HEAD_DUELING, 70, 18, 40},
    {1, 6, 1, {{0}}, {12}, GPUR_TANH, GPUR_HEAD_SOFTMAX_VALUE, 9, 4, 10},
    {1, 6, 1, {{0}}, {12, 5}, GPUR_LINEAR, GPUR_HEAD_SOFTMAX_VALUE, 0, 4, 10},
    {1, 8, 1, {{0}}, {10, 8}, GPUR_RELU, GPUR_HEAD_TANH_ACTION, 6, 3, 12},
    /* the Nature network, smaller: blocks of 4 x 4 pixels, then 2 and 1 */
    {20, 20, 4, {{8, 8, 4, 0}, {12, 2, 2, 0}, {9, 2, 1, 0}}, {24}, GPUR_RELU, GPUR_HEAD_Q, 0, 3, 5},
    {20, 20, 4, {{8, 8, 4, 0}, {12, 2, 2, 0}, {9, 2, 1, 0}}, {0}, GPUR_RELU, GPUR_HEAD_DUELING, 16, 3, 3},
    {7, 5, 3, {{5, 3, 2, 1}}, {0}, GPUR_TANH, GPUR_HEAD_DUELING, 0, 3, 4},
    {6, 6, 1, {{3, 3, 1, 0}, {4, 3, 1, 2}}, {7}, GPUR_LINEAR, GPUR_HEAD_Q, 5, 3, 9},
    {9, 8, 2, {{6, 4, 3, 1}, {7, 1, 1, 0}}, {10}, GPUR_RELU, GPUR_HEAD_DUELING, 8, 3, 33},
    {8, 12, 2, {{5, 4, 2, 0}, {6, 3, 1, 1}}, {0}, GPUR_TANH, GPUR_HEAD_SOFTMAX_VALUE, 6, 3, 2},
    {4, 4, 3, {{33, 4, 4, 0}}, {0}, GPUR_RELU, GPUR_HEAD_TANH_ACTION, 0, 3, 1},
    {24, 25, 1, {{2, 3, 1, 1}}, {0}, GPUR_RELU, GPUR_HEAD_Q, 0, 3, 6}, /* more than one run of pixels a channel */
};
enum { CASES = sizeof cases / sizeof *cases, WIDEST = 6 };

typedef struct network_rig {
    gpur_stream *stream;
    gpur_network network;
    gpur_pass pass;
    gpur_backward backward;
    int64_t rows;
    void *memory, *workspace;
    float *weights, *gradient; /* device (P) */
    float *host;               /* (P) the weights, as uploaded */
    float *x;                  /* host (rows, features) */
    ref_net *reference;        /* the same weights */
} network_rig;

/* Permutes a tensor from the order of its shape to its order on the device. */
static void keep_in_order(const gpur_tensor *tensor, float *w)
{
    const int64_t count = gpur_tensor_count(tensor);
    float *const plain = malloc((size_t)count * sizeof *plain);
    memcpy(plain, w, (size_t)count * sizeof *plain);
    for (int64_t j = 0; j < count; j++)
        w[gpur_tensor_index(tensor, j)] = plain[j];
    free(plain);
}

/* Fills every tensor of the network and of the reference with the same random numbers. The padding stays 0. */
static void fill_weights(network_rig *fixture)
{
    const gpur_params *const params = &fixture->network.params;
    for (int32_t i = 0; i < params->tensor_count; i++) {
        const gpur_tensor *const tensor = &params->tensor[i];
        const int64_t count = gpur_tensor_count(tensor);
        float *const w = fixture->host + tensor->offset;
        random_floats((uint64_t)i + 77, w, count);
        ref_tensor *const r = ref_net_find(fixture->reference, tensor->name);
        for (int64_t j = 0; j < count; j++) {
            w[j] *= 0.5f;
            r->w[j] = r->target[j] = w[j];
        }
        keep_in_order(tensor, w);
    }
}

static void place(network_rig *fixture, gpur_arena *arena)
{
    fixture->weights = gpur_arena_floats(arena, fixture->network.params.count);
    fixture->gradient = gpur_arena_floats(arena, fixture->network.params.count);
    fixture->pass.activations[0] = gpur_arena_floats(arena, fixture->rows * fixture->pass.pitch[0]);
    gpur_pass_assign(&fixture->pass, arena);
    gpur_backward_assign(&fixture->backward, arena);
    const int64_t forward = gpur_pass_workspace(&fixture->pass), backward = gpur_backward_workspace(&fixture->backward);
    fixture->workspace = gpur_arena_alloc(arena, forward > backward ? forward : backward);
}

/* Reorders an image into blocks of b x b pixels, as the first convolution reads it. */
static void cut_blocks(const gpur_network *network, const float *x, float *cut)
{
    const gpur_input_shape *const s = &network->input_shape;
    const int b = network->space_to_depth;
    for (int top = 0; top < s->height; top += b)
        for (int left = 0; left < s->width; left += b)
            for (int y = top; y < top + b; y++)
                for (int i = left * s->channels; i < (left + b) * s->channels; i++)
                    *cut++ = x[y * s->width * s->channels + i];
}

static gpur_status upload(network_rig *fixture, int features)
{
    const int64_t row = features * (int64_t)sizeof(float), pitch = fixture->pass.pitch[0];
    float *const cut = malloc((size_t)row);
    gpur_status status = gpur_device_copy(device, fixture->weights, fixture->host,
                                          fixture->network.params.count * (int64_t)sizeof(float));
    for (int64_t b = 0; b < fixture->rows && status == GPUR_OK; b++) {
        memcpy(cut, fixture->x + b * features, (size_t)row);
        if (fixture->network.conv_count)
            cut_blocks(&fixture->network, fixture->x + b * features, cut);
        status = gpur_device_copy(device, fixture->pass.activations[0] + b * pitch, cut, row);
    }
    free(cut);
    return status;
}

static gpur_network_config config_of(const net_case *n)
{
    gpur_network_config config = network_fixture_config(0, 0, n->activation, n->head, n->hidden, n->outputs);
    config.input_layout = GPUR_HWC;
    for (int i = 0; i < 3 && n->conv[i][0]; i++)
        config.trunk[config.trunk_count++] =
            (gpur_layer){GPUR_CONV, n->conv[i][0], n->activation, n->conv[i][1], n->conv[i][2], n->conv[i][3], {0}};
    for (int i = 0; i < 2 && n->dense[i]; i++)
        config.trunk[config.trunk_count++] = (gpur_layer){GPUR_DENSE, n->dense[i], n->activation, 0, 0, 0, {0}};
    return config;
}

/* Creates the network and its reference with the same random weights, and random observations. Returns the first error.
 * The caller always calls network_fixture_close. */
static gpur_status network_fixture_open(network_rig *fixture, const net_case *n, const gpur_pass_options *options)
{
    const gpur_network_config config = config_of(n);
    const int features = n->height * n->width * n->channels, is_image = n->conv[0][0] > 0;
    const gpur_input_shape image = {features, n->height, n->width, n->channels}, vector = gpur_input_shape_of(features);
    gpur_arena arena = {NULL, 0};
    memset(fixture, 0, sizeof *fixture);
    fixture->rows = n->rows;
    GPUR_TRY(gpur_stream_create(device, &fixture->stream));
    GPUR_TRY(gpur_network_build(&fixture->network, &config, is_image ? &image : &vector));
    fixture->reference =
        is_image ? ref_net_create_image(&config, n->height, n->width, n->channels) : ref_net_create(&config, features);
    fixture->host = calloc((size_t)fixture->network.params.count, sizeof(float));
    fixture->x = calloc((size_t)(n->rows * features), sizeof(float));
    fill_weights(fixture);
    random_floats(5, fixture->x, n->rows * features);
    GPUR_TRY(gpur_pass_open(&fixture->pass, device, &fixture->network, n->rows, gpur_input_pitch(&fixture->network),
                            options));
    GPUR_TRY(gpur_backward_open(&fixture->backward, &fixture->pass, n->rows));
    place(fixture, &arena);
    GPUR_TRY(gpur_device_alloc(device, arena.used, &fixture->memory));
    arena.base = fixture->memory;
    arena.used = 0;
    place(fixture, &arena);
    return upload(fixture, features);
}

static void network_fixture_close(network_rig *fixture)
{
    gpur_stream_destroy(fixture->stream);
    gpur_backward_close(&fixture->backward);
    gpur_pass_close(&fixture->pass);
    gpur_device_free(device, fixture->memory);
    if (fixture->reference)
        ref_net_destroy(fixture->reference);
    free(fixture->host);
    free(fixture->x);
}

/* The last sheet after a forward pass over `rows` rows: (rows, width) in host memory. */
static gpur_status network_fixture_forward(network_rig *fixture, int64_t rows, float *z)
{
    const int32_t last = fixture->network.activation_count - 1;
    const int64_t width = fixture->network.width[last];
    GPUR_TRY(gpur_pass_forward(&fixture->pass, fixture->stream, rows, fixture->weights, fixture->workspace));
    GPUR_TRY(gpur_stream_sync(fixture->stream));
    for (int64_t b = 0; b < rows; b++)
        GPUR_TRY(gpur_device_copy(device, z + b * width,
                                  fixture->pass.activations[last] + b * fixture->pass.pitch[last],
                                  width * (int64_t)sizeof(float)));
    return GPUR_OK;
}

/* The gradient of sum(dz * z), as laid out in the parameters: (P) in host memory. */
static gpur_status network_fixture_backward(network_rig *fixture, const float *dz, float *gradient)
{
    const int32_t last = fixture->network.activation_count - 1;
    const int64_t width = fixture->network.width[last], row = width * (int64_t)sizeof(float);
    for (int64_t b = 0; b < fixture->rows; b++)
        GPUR_TRY(gpur_device_copy(device, fixture->backward.gradients[last] + b * fixture->pass.pitch[last],
                                  dz + b * width, row));
    GPUR_TRY(gpur_backward_run(&fixture->backward, fixture->stream, fixture->weights, fixture->gradient,
                               fixture->workspace));
    GPUR_TRY(gpur_stream_sync(fixture->stream));
    return gpur_device_copy(device, gradient, fixture->gradient,
                            fixture->network.params.count * (int64_t)sizeof(float));
}

static int outputs_of(const network_rig *fixture)
{
    return fixture->network.width[fixture->network.activation_count - 1];
}

/* The last sheet plus the head's bias is the reference's z. */
static void check_forward(network_rig *fixture)
{
    static float z[MOST_OUTPUTS];
    static ref_tape tape;
    const int width = outputs_of(fixture);
    const double tolerance = fixture->network.conv_count ? 4e-6 : 2e-6; /* of 1 + |z| */
    CHECK(fixture->rows * width <= MOST_OUTPUTS);
    CHECK_OK(network_fixture_forward(fixture, fixture->rows, z));
    for (int64_t b = 0; b < fixture->rows; b++) {
        ref_forward(fixture->reference, 0, fixture->x + b * fixture->reference->features, &tape);
        for (int k = 0; k < width; k++) {
            const double bias = fixture->host[fixture->network.head_bias + k];
            CHECK_NEAR(z[b * width + k] + bias, tape.z[k], tolerance * (1 + fabs(tape.z[k])));
        }
    }
}

/* sum(dz * z) over the batch, by the reference; its weights may be changed. */
static double functional(network_rig *fixture, const float *dz)
{
    static ref_tape tape;
    const int width = outputs_of(fixture);
    double sum = 0;
    for (int64_t b = 0; b < fixture->rows; b++) {
        ref_forward(fixture->reference, 0, fixture->x + b * fixture->reference->features, &tape);
        for (int k = 0; k < width; k++)
            sum += dz[b * width + k] * tape.z[k];
    }
    return sum;
}

static double finite_difference(network_rig *fixture, double *w, const float *dz)
{
    const double h = 1e-6, before = *w;
    *w = before + h;
    const double up = functional(fixture, dz);
    *w = before - h;
    const double down = functional(fixture, dz);
    *w = before;
    return (up - down) / (2 * h);
}

/* Finite differences for a few weights of each tensor. With a small step and random numbers no ReLU input crosses 0. */
static void check_backward(network_rig *fixture)
{
    static float dz[MOST_OUTPUTS], gradient[MOST_PARAMETERS];
    random_floats(99, dz, MOST_OUTPUTS);
    CHECK(fixture->network.params.count <= MOST_PARAMETERS);
    CHECK_OK(network_fixture_forward(fixture, fixture->rows, gradient));
    CHECK_OK(network_fixture_backward(fixture, dz, gradient));
    for (int i = 0; i < fixture->reference->tensors; i++) {
        ref_tensor *const t = &fixture->reference->tensor[i];
        const gpur_tensor *ours = NULL;
        CHECK_OK(gpur_params_find(&fixture->network.params, t->name, &ours));
        CHECK_EQUAL(gpur_tensor_count(ours), t->count);
        for (int n = 0; n < 7; n++) {
            const int j = (int)((int64_t)t->count * n / 7);
            const double want = finite_difference(fixture, &t->w[j], dz);
            CHECK_NEAR(gradient[ours->offset + gpur_tensor_index(ours, j)], want, 1e-5 * (1 + fabs(want)));
        }
    }
}

/* With im2col every kernel is this library's. A product of another library does not depend on the launch shape. */
static void check_grids(network_rig *fixture)
{
    static const gpur_grid grids[] = {{1, 32, 0}, {2, 64, 0}, {7, 96, 0}, {64, 256, 0}};
    static float z[2][MOST_OUTPUTS], dz[MOST_OUTPUTS], gradient[2][MOST_PARAMETERS];
    const size_t bytes = (size_t)fixture->network.params.count * sizeof(float);
    random_floats(98, dz, MOST_OUTPUTS);
    CHECK(bytes <= sizeof gradient[0]);
    for (int i = 0; i < 4; i++) {
        gpur_device_force_grid(device, grids[i]);
        const gpur_status forward = network_fixture_forward(fixture, fixture->rows, z[i > 0]);
        const gpur_status backward = network_fixture_backward(fixture, dz, gradient[i > 0]);
        gpur_device_force_grid(device, (gpur_grid){0, 0, 0});
        CHECK_OK(forward);
        CHECK_OK(backward);
        const size_t outputs = (size_t)(fixture->rows * outputs_of(fixture)) * sizeof(float);
        CHECK(i == 0 || memcmp(z[0], z[1], outputs) == 0);
        CHECK(i == 0 || memcmp(gradient[0], gradient[1], bytes) == 0);
    }
}

/* The published code took the dueling mean over the whole batch: a row's Q then depended on its batch mates. */
static void check_batch_independence(network_rig *fixture)
{
    static float all[MOST_OUTPUTS], few[MOST_OUTPUTS];
    const int width = outputs_of(fixture);
    CHECK_OK(network_fixture_forward(fixture, fixture->rows, all));
    for (int64_t rows = 1; rows < fixture->rows; rows += 3) {
        CHECK_OK(network_fixture_forward(fixture, rows, few));
        for (int64_t i = 0; i < rows * width; i++)
            CHECK_NEAR(few[i], all[i], 1e-5 * (1 + fabs((double)all[i])));
    }
}

/* Runs `check` on every network, with and without epilogues, and convolutions also with im2col. */
static void on_every_net(void (*check)(network_rig *fixture))
{
    for (int way = 0; way < 4; way++)
        for (int i = 0; i < CASES; i++) {
            const gpur_pass_options options = {.fuse = way % 2, .by_im2col = way / 2, .deterministic = 1};
            const int before = atomic_load(&test_state.failures);
            network_rig fixture;
            if (cases[i].conv[0][0] ? IS_WATCHED : way / 2)
                continue;
            const gpur_status status = network_fixture_open(&fixture, &cases[i], &options);
            if (status == GPUR_OK)
                check(&fixture);
            network_fixture_close(&fixture);
            CHECK_OK(status);
            TEST_REQUIRE(atomic_load(&test_state.failures) == before, "that was network %d, way %d", i, way);
        }
}

TEST(forward_agrees_with_the_reference)
{
    on_every_net(check_forward);
}

TEST(backward_agrees_with_finite_differences_of_the_reference)
{
    on_every_net(check_backward);
}

TEST(no_launch_shape_changes_a_bit)
{
    on_every_net(check_grids);
}

TEST(a_row_does_not_depend_on_its_batch_mates)
{
    on_every_net(check_batch_independence);
}

/* The sizes of the Nature network [Mnih et al. 2015]: 20 x 20, 9 x 9, 7 x 7. */
TEST(sizes_follow_the_kernels)
{
    gpur_network network;
    gpur_network_config config = network_fixture_config(0, 0, GPUR_RELU, GPUR_HEAD_Q, 0, 18);
    const gpur_layer layers[] = {{GPUR_CONV, 32, GPUR_RELU, 8, 4, 0, {0}},
                                 {GPUR_CONV, 64, GPUR_RELU, 4, 2, 0, {0}},
                                 {GPUR_CONV, 64, GPUR_RELU, 3, 1, 0, {0}},
                                 {GPUR_DENSE, 512, GPUR_RELU, 0, 0, 0, {0}}};
    const gpur_input_shape input_shape = {84 * 84 * 4, 84, 84, 4};
    memcpy(config.trunk, layers, sizeof layers);
    config.trunk_count = 4;
    CHECK_OK(gpur_network_build(&network, &config, &input_shape));
    CHECK_EQUAL(network.space_to_depth, 4);
    CHECK_EQUAL(network.conv[0].channels, 64);
    CHECK_EQUAL(network.conv[0].out_height, 20);
    CHECK_EQUAL(network.conv[1].out_height, 9);
    CHECK_EQUAL(network.conv[2].out_width, 7);
    CHECK_EQUAL(network.width[3], 3136);
    CHECK_EQUAL(gpur_params_weights(&network.params), 1693362);
}

static void check_refused(gpur_layer first, gpur_layer second, gpur_input_shape input_shape, const char *message)
{
    gpur_network network;
    gpur_network_config config = network_fixture_config(0, 0, GPUR_RELU, GPUR_HEAD_Q, 0, 2);
    config.trunk[0] = first, config.trunk[1] = second;
    config.trunk_count = 2;
    CHECK_STATUS(gpur_network_build(&network, &config, &input_shape), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE(message);
}

TEST(layers_that_do_not_fit_are_refused_with_their_values)
{
    const gpur_layer conv = {GPUR_CONV, 4, GPUR_RELU, 3, 1, 0, {0}}, dense = {GPUR_DENSE, 4, GPUR_RELU, 0, 0, 0, {0}};
    const gpur_layer large = {GPUR_CONV, 4, GPUR_RELU, 5, 1, 1, {0}}, flat = {GPUR_CONV, 4, GPUR_RELU, 0, 1, 0, {0}};
    const gpur_layer still = {GPUR_CONV, 4, GPUR_RELU, 3, 0, 0, {0}}, wide = {GPUR_CONV, 4, GPUR_RELU, 3, 1, 3, {0}};
    const gpur_layer odd = {2, 4, GPUR_RELU, 0, 0, 0, {0}}, stray = {GPUR_DENSE, 4, GPUR_RELU, 0, 2, 0, {0}};
    const gpur_input_shape image = {48, 4, 4, 3}, none = {48, 0, 0, 0};
    check_refused(conv, dense, none, "obs is no image");
    check_refused(dense, conv, image, "trunk[1] is a convolution behind a dense layer");
    check_refused(conv, large, image, "trunk[1].kernel is 5; it must be at most 4, as an image of 2 x 2");
    check_refused(flat, dense, image, "trunk[0].kernel is 0");
    check_refused(still, dense, image, "trunk[0].stride is 0");
    check_refused(wide, dense, image, "trunk[0].padding is 3; it must be 0 to kernel - 1, 2");
    check_refused(conv, odd, image, "trunk[1].kind is 2");
    check_refused(conv, stray, image, "trunk[1] is dense, with kernel 0, stride 2");
}

/* Frames on the last axis with GPUR_CHW, and frames on the first axis with GPUR_HWC. */
TEST(an_image_that_lies_otherwise_is_refused_with_its_shape)
{
    const gpur_layer first = {GPUR_CONV, 32, GPUR_RELU, 8, 4, 0, {0}}, dense = {GPUR_DENSE, 4, GPUR_RELU, 0, 0, 0, {0}};
    const gpur_input_shape as_planes = {84 * 84 * 4, 84, 4, 84}, as_pixels = {84 * 84 * 4, 4, 84, 84};
    gpur_network_config config = network_fixture_config(0, 0, GPUR_RELU, GPUR_HEAD_Q, 0, 2);
    gpur_network network;
    config.trunk[0] = first, config.trunk[1] = dense;
    config.trunk_count = 2;
    config.input_layout = GPUR_CHW;
    CHECK_STATUS(gpur_network_build(&network, &config, &as_planes), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("kernel is 8; it must be at most 4, as an image of 84 x 4 comes in with padding 0: "
                  "network.input_layout GPUR_CHW takes obs of (84, 84, 4) as (channels, height, width); GPUR_HWC takes "
                  "it as (height, width, channels)");
    config.input_layout = GPUR_HWC;
    CHECK_STATUS(gpur_network_build(&network, &config, &as_pixels), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("GPUR_HWC takes obs of (4, 84, 84) as (height, width, channels); GPUR_CHW takes it as (channels, ");
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
    RUN(forward_agrees_with_the_reference);
    RUN(backward_agrees_with_finite_differences_of_the_reference);
    RUN(no_launch_shape_changes_a_bit);
    RUN(a_row_does_not_depend_on_its_batch_mates);
    RUN(sizes_follow_the_kernels);
    RUN(layers_that_do_not_fit_are_refused_with_their_values);
    RUN(an_image_that_lies_otherwise_is_refused_with_its_shape);
    gpur_device_close(device);
    return test_main_end();
}
