/* SPDX-License-Identifier: MIT */
/* Dense and convolutional networks, also with layer normalization, forward and backward, against the reference and its
 * finite differences. */
#include "test.h"
#include "learn/network/pass.h"
#include "support/learner_fixture.h"

enum { MAX_OUTPUTS = 64 * 32, MAX_PARAMETERS = 1 << 16 };

static gpur_device *device;

/* Up to three convolutions (filters, kernel, stride, padding; 0 filters: none), up to two dense layers (0: none), a
 * head. */
typedef struct net_case {
    int height, width, channels; /* height 1: `width` numbers */
    int conv[3][4];
    int dense[2], activation, head, hidden, outputs;
    int64_t rows;
    int norm; /* bit i: dense layer i is normalized */
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
    {1, 7, 1, {{0}}, {9, 6}, GPUR_TANH, GPUR_HEAD_Q, 5, 4, 33, .norm = 3},
    {1, 10, 1, {{0}}, {33, 17}, GPUR_RELU, GPUR_HEAD_DUELING, 0, 3, 21, .norm = 1},
    {1, 27, 1, {{0}}, {5, 130}, GPUR_LINEAR, GPUR_HEAD_Q, 0, 3, 12, .norm = 2},
    {1, 27, 1, {{0}}, {130, 64}, GPUR_RELU, GPUR_HEAD_SOFTMAX_VALUE, 0, 3, 40, .norm = 3},
    {1, 6, 1, {{0}}, {11}, GPUR_TANH, GPUR_HEAD_TANH_ACTION, 0, 3, 10, .norm = 1},
    /* the Nature network, smaller: blocks of 4 x 4 pixels, then 2 and 1 */
    {20, 20, 4, {{8, 8, 4, 0}, {12, 2, 2, 0}, {9, 2, 1, 0}}, {24}, GPUR_RELU, GPUR_HEAD_Q, 0, 3, 5},
    {20, 20, 4, {{8, 8, 4, 0}, {12, 2, 2, 0}, {9, 2, 1, 0}}, {0}, GPUR_RELU, GPUR_HEAD_DUELING, 16, 3, 3},
    {7, 5, 3, {{5, 3, 2, 1}}, {0}, GPUR_TANH, GPUR_HEAD_DUELING, 0, 3, 4},
    {6, 6, 1, {{3, 3, 1, 0}, {4, 3, 1, 2}}, {7}, GPUR_LINEAR, GPUR_HEAD_Q, 5, 3, 9},
    {9, 8, 2, {{6, 4, 3, 1}, {7, 1, 1, 0}}, {10}, GPUR_RELU, GPUR_HEAD_DUELING, 8, 3, 33},
    {8, 12, 2, {{5, 4, 2, 0}, {6, 3, 1, 1}}, {0}, GPUR_TANH, GPUR_HEAD_SOFTMAX_VALUE, 6, 3, 2},
    {4, 4, 3, {{33, 4, 4, 0}}, {0}, GPUR_RELU, GPUR_HEAD_TANH_ACTION, 0, 3, 1},
    /* SAME padding: 84 x 19 pixels become 21 x 5, then 11 x 3; 21 x 18 become 7 x 6, 7 x 6 and 2 x 2 */
    {84, 19, 1, {{4, 8, 4, GPUR_SAME}, {6, 4, 2, GPUR_SAME}}, {8}, GPUR_RELU, GPUR_HEAD_SOFTMAX_VALUE, 0, 6, 2},
    {21,
     18,
     3,
     {{4, 8, 3, GPUR_SAME}, {5, 4, 1, GPUR_SAME}, {3, 4, 4, GPUR_SAME}},
     {0},
     GPUR_TANH,
     GPUR_HEAD_Q,
     6,
     3,
     4},
    {24, 25, 1, {{2, 3, 1, 1}}, {0}, GPUR_RELU, GPUR_HEAD_Q, 0, 3, 6}, /* more than one run of pixels a channel */
    {9, 8, 2, {{6, 4, 3, 1}, {7, 1, 1, 0}}, {10}, GPUR_RELU, GPUR_HEAD_DUELING, 8, 3, 17, .norm = 1},
};
enum { CASES = sizeof cases / sizeof *cases, WIDEST = 6 };

typedef struct net_fixture {
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
    ref_net *second;           /* those of a second copy; NULL: there is none */
} net_fixture;

/* The reference's tensor of this name: of copies "2.trunk.0.weight" is "trunk.0.weight" of the second one. */
static ref_tensor *reference_of(const net_fixture *fixture, const char *name)
{
    if (!fixture->second)
        return ref_net_find(fixture->reference, name);
    return ref_net_find(name[0] == '2' ? fixture->second : fixture->reference, name + 2);
}

/* Fills every tensor of the network and of the reference with the same random numbers. The padding stays 0. */
static void fill_weights(net_fixture *fixture)
{
    static float values[MAX_PARAMETERS];
    const gpur_params *const params = &fixture->network.params;
    for (int32_t i = 0; i < params->tensor_count; i++) {
        const gpur_tensor *const tensor = &params->tensor[i];
        const ref_tensor *const r = reference_of(fixture, tensor->name);
        random_floats((uint64_t)i + 77, values, r->count);
        for (int64_t j = 0; j < r->count; j++) {
            r->w[j] = r->target[j] = values[j] * 0.5f;
            fixture->host[tensor->offset + gpur_tensor_index(tensor, j)] = values[j] * 0.5f;
        }
    }
}

static void place(net_fixture *fixture, gpur_arena *arena)
{
    fixture->weights = gpur_arena_floats(arena, fixture->network.params.count);
    fixture->gradient = gpur_arena_floats(arena, fixture->network.params.count);
    fixture->pass.activations[0] = gpur_arena_floats(arena, fixture->rows * fixture->pass.pitch[0]);
    gpur_pass_assign(&fixture->pass, arena);
    gpur_backward_assign(&fixture->backward, arena);
    const int64_t forward = fixture->pass.workspace, backward = fixture->backward.workspace;
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

static gpur_status upload(net_fixture *fixture, int features)
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
        config.trunk[config.trunk_count++] =
            (gpur_layer){GPUR_DENSE, n->dense[i], n->activation, .norm = n->norm >> i & 1};
    return config;
}

/* Creates the network and its reference with the same random weights, and random observations. Returns the first error.
 * The caller always calls net_close. */
static gpur_status net_open(net_fixture *fixture, const net_case *n, int copies, const gpur_pass_options *options)
{
    const gpur_network_config config = config_of(n);
    const int features = n->height * n->width * n->channels, is_image = n->conv[0][0] > 0;
    const gpur_input_shape image = {features, n->height, n->width, n->channels}, vector = gpur_input_shape_of(features);
    gpur_arena arena = {NULL, 0};
    memset(fixture, 0, sizeof *fixture);
    fixture->rows = n->rows;
    GPUR_TRY(gpur_stream_create(device, &fixture->stream));
    GPUR_TRY(gpur_network_build_copies(&fixture->network, &config, is_image ? &image : &vector, copies));
    fixture->second = copies > 1 ? ref_net_create(&config, features) : NULL;
    fixture->reference =
        is_image ? ref_net_create_image(&config, n->height, n->width, n->channels) : ref_net_create(&config, features);
    fixture->host = calloc((size_t)fixture->network.params.count, sizeof(float));
    fixture->x = calloc((size_t)(n->rows * features), sizeof(float));
    fill_weights(fixture);
    random_floats(5, fixture->x, n->rows * features);
    GPUR_TRY(gpur_pass_open(&fixture->pass, device, &fixture->network, n->rows, gpur_input_pitch(&fixture->network),
                            options));
    GPUR_TRY(gpur_backward_open(&fixture->backward, &fixture->pass, n->rows, 0));
    place(fixture, &arena);
    GPUR_TRY(gpur_device_alloc(device, arena.used, &fixture->memory));
    arena.base = fixture->memory;
    arena.used = 0;
    place(fixture, &arena);
    return upload(fixture, features);
}

static void net_close(net_fixture *fixture)
{
    gpur_stream_destroy(fixture->stream);
    gpur_backward_close(&fixture->backward);
    gpur_pass_close(&fixture->pass);
    gpur_device_free(device, fixture->memory);
    if (fixture->reference)
        ref_net_destroy(fixture->reference);
    if (fixture->second)
        ref_net_destroy(fixture->second);
    free(fixture->host);
    free(fixture->x);
}

/* The last layer after a forward pass over `rows` rows: (rows, width) in host memory. */
static gpur_status net_forward(net_fixture *fixture, int64_t rows, float *z)
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
static gpur_status net_backward(net_fixture *fixture, const float *dz, float *gradient)
{
    const int32_t last = fixture->network.activation_count - 1;
    const int64_t width = fixture->network.width[last], row = width * (int64_t)sizeof(float);
    for (int64_t b = 0; b < fixture->rows; b++)
        GPUR_TRY(gpur_device_copy(device, fixture->backward.gradients[last] + b * fixture->pass.pitch[last],
                                  dz + b * width, row));
    GPUR_TRY(gpur_backward_run(&fixture->backward, &(gpur_track){fixture->stream, fixture->workspace},
                               &(gpur_side){NULL}, fixture->weights, fixture->gradient));
    GPUR_TRY(gpur_stream_sync(fixture->stream));
    return gpur_device_copy(device, gradient, fixture->gradient,
                            fixture->network.params.count * (int64_t)sizeof(float));
}

static int outputs_of(const net_fixture *fixture)
{
    return fixture->network.width[fixture->network.activation_count - 1];
}

/* The reference's z for the x on the tape, the second copy's behind the first one's. */
static void reference_z(const net_fixture *fixture, ref_tape *tape, double *z)
{
    const int copies = fixture->network.copies, width = outputs_of(fixture) / copies;
    for (int c = 0; c < copies; c++) {
        ref_forward_input(c ? fixture->second : fixture->reference, 0, tape);
        memcpy(z + c * width, tape->z, (size_t)width * sizeof *z);
    }
}

/* Row b on the tape. Inputs have the scale 1. */
static void set_input(const net_fixture *fixture, int64_t b, ref_tape *tape)
{
    const int features = fixture->reference->features;
    for (int i = 0; i < features; i++)
        tape->x[i] = fixture->x[b * features + i];
}

/* The last layer plus the head's bias is the reference's z. */
static void check_forward(net_fixture *fixture)
{
    static float z[MAX_OUTPUTS];
    static ref_tape tape;
    double want[REF_WIDTH];
    const int width = outputs_of(fixture);
    const double tolerance = fixture->network.conv_count ? 4e-6 : 3e-6; /* of 1 + |z| */
    CHECK(fixture->rows * width <= MAX_OUTPUTS);
    CHECK_OK(net_forward(fixture, fixture->rows, z));
    for (int64_t b = 0; b < fixture->rows; b++) {
        set_input(fixture, b, &tape);
        reference_z(fixture, &tape, want);
        for (int k = 0; k < width; k++) {
            const double bias = fixture->host[fixture->network.head_bias + k];
            CHECK_NEAR(z[b * width + k] + bias, want[k], tolerance * (1 + fabs(want[k])));
        }
    }
}

/* sum(dz * z) over the batch, by the reference; its weights may be changed. */
static double functional(net_fixture *fixture, const float *dz)
{
    static ref_tape tape;
    const int width = outputs_of(fixture);
    double sum = 0, z[REF_WIDTH];
    for (int64_t b = 0; b < fixture->rows; b++) {
        set_input(fixture, b, &tape);
        reference_z(fixture, &tape, z);
        for (int k = 0; k < width; k++)
            sum += dz[b * width + k] * z[k];
    }
    return sum;
}

static double finite_difference(net_fixture *fixture, double *w, const float *dz)
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
static void check_backward(net_fixture *fixture)
{
    static float dz[MAX_OUTPUTS], gradient[MAX_PARAMETERS];
    random_floats(99, dz, MAX_OUTPUTS);
    CHECK(fixture->network.params.count <= MAX_PARAMETERS);
    CHECK_OK(net_forward(fixture, fixture->rows, gradient));
    CHECK_OK(net_backward(fixture, dz, gradient));
    for (int i = 0; i < fixture->network.params.tensor_count; i++) {
        const gpur_tensor *const ours = &fixture->network.params.tensor[i];
        ref_tensor *const t = reference_of(fixture, ours->name);
        CHECK_EQUAL(gpur_tensor_count(ours), t->count);
        for (int n = 0; n < 7; n++) {
            const int j = (int)((int64_t)t->count * n / 7);
            const double want = finite_difference(fixture, &t->w[j], dz);
            CHECK_NEAR(gradient[ours->offset + gpur_tensor_index(ours, j)], want, 1e-5 * (1 + fabs(want)));
        }
    }
}

/* With im2col every kernel is this library's. A product of another library does not depend on the launch shape. */
static void check_grids(net_fixture *fixture)
{
    static const gpur_grid grids[] = {{1, 32, 0}, {2, 64, 0}, {7, 96, 0}, {64, 256, 0}};
    static float z[2][MAX_OUTPUTS], dz[MAX_OUTPUTS], gradient[2][MAX_PARAMETERS];
    const size_t bytes = (size_t)fixture->network.params.count * sizeof(float);
    random_floats(98, dz, MAX_OUTPUTS);
    CHECK(bytes <= sizeof gradient[0]);
    for (int i = 0; i < 4; i++) {
        gpur_device_force_grid(device, grids[i]);
        const gpur_status forward = net_forward(fixture, fixture->rows, z[i > 0]);
        const gpur_status backward = net_backward(fixture, dz, gradient[i > 0]);
        gpur_device_force_grid(device, (gpur_grid){0, 0, 0});
        CHECK_OK(forward);
        CHECK_OK(backward);
        const size_t outputs = (size_t)(fixture->rows * outputs_of(fixture)) * sizeof(float);
        CHECK(i == 0 || memcmp(z[0], z[1], outputs) == 0);
        CHECK(i == 0 || memcmp(gradient[0], gradient[1], bytes) == 0);
    }
}

static void check_network(int i, int copies, const gpur_pass_options *options)
{
    const int before = atomic_load(&test_state.failures);
    net_fixture fixture;
    const gpur_status status = net_open(&fixture, &cases[i], copies, options);
    if (status == GPUR_OK) {
        check_forward(&fixture);
        check_backward(&fixture);
        check_grids(&fixture);
    }
    net_close(&fixture);
    CHECK_OK(status);
    TEST_REQUIRE(atomic_load(&test_state.failures) == before, "that was network %d, copies %d, fused %d, im2col %d", i,
                 copies, (int)options->fuse, (int)options->by_im2col);
}

/* Every network with and without epilogues, and convolutions also with im2col. */
TEST(networks_agree_with_the_reference_and_no_launch_shape_changes_a_bit)
{
    for (int options = 0; options < 4; options++)
        for (int i = 0; i < CASES; i++)
            if (!(cases[i].conv[0][0] ? IS_WATCHED : options / 2))
                check_network(i, 1, &(gpur_pass_options){.fuse = options % 2, .by_im2col = options / 2});
}

TEST(two_copies_of_a_network_compute_as_two_networks)
{
    for (int i = 0; i < CASES && !cases[i].conv[0][0]; i++)
        for (int fuse = 0; fuse < 2; fuse++)
            check_network(i, 2, &(gpur_pass_options){.fuse = fuse});
}

/* dQ / dx of every row for sum(dz * z), by the last numbers of x that by_input has, against finite differences of the
 * reference's input. */
static void check_slope_of_input(net_fixture *fixture, gpur_backward *by_input, const float *dz)
{
    static float got[64];
    static ref_tape tape;
    double z[REF_WIDTH];
    const int features = fixture->reference->features, width = outputs_of(fixture);
    CHECK(features <= 64);
    for (int64_t b = 0; b < fixture->rows; b++) {
        CHECK_OK(gpur_device_copy(device, got, by_input->gradients[0] + b * fixture->pass.pitch[0], features * 4));
        for (int i = features - by_input->by_input; i < features; i++) {
            double sums[2] = {0, 0};
            for (int up = 0; up < 2; up++) {
                set_input(fixture, b, &tape);
                tape.x[i] += up ? 1e-6 : -1e-6;
                reference_z(fixture, &tape, z);
                for (int k = 0; k < width; k++)
                    sums[up] += dz[b * width + k] * z[k];
            }
            CHECK_NEAR(got[i], (sums[1] - sums[0]) / 2e-6, 1e-5 * (1 + fabs((double)got[i])));
        }
    }
}

static void check_by_input(net_fixture *fixture, gpur_backward *by_input, int32_t inputs)
{
    static float dz[MAX_OUTPUTS], z[MAX_OUTPUTS];
    const int32_t last = fixture->network.activation_count - 1;
    const int64_t width = outputs_of(fixture);
    gpur_arena arena = {NULL, 0};
    void *memory = NULL;
    random_floats(97, dz, MAX_OUTPUTS);
    CHECK_OK(gpur_backward_open(by_input, &fixture->pass, fixture->rows, inputs));
    for (int placing = 0; placing < 2; placing++) {
        gpur_backward_assign(by_input, &arena);
        void *const workspace = gpur_arena_alloc(&arena, by_input->workspace);
        if (!placing) {
            CHECK_OK(gpur_device_alloc(device, arena.used, &memory));
            arena = (gpur_arena){memory, 0};
            continue;
        }
        CHECK_OK(net_forward(fixture, fixture->rows, z));
        for (int64_t b = 0; b < fixture->rows; b++)
            CHECK_OK(gpur_device_copy(device, by_input->gradients[last] + b * fixture->pass.pitch[last], dz + b * width,
                                      width * 4));
        CHECK_OK(gpur_backward_run(by_input, &(gpur_track){fixture->stream, workspace}, &(gpur_side){NULL},
                                   fixture->weights, NULL));
        CHECK_OK(gpur_stream_sync(fixture->stream));
        check_slope_of_input(fixture, by_input, dz);
    }
    gpur_device_free(device, memory);
}

TEST(the_gradient_by_the_input_agrees_with_the_reference)
{
    for (int i = 0; i < 2 * CASES && !cases[i / 2].conv[0][0]; i++) { /* also two copies, which add up, by one number */
        const gpur_pass_options pass = {.fuse = i / 2 % 2};
        const int before = atomic_load(&test_state.failures);
        net_fixture fixture;
        gpur_backward by_input = {NULL};
        const gpur_status status = net_open(&fixture, &cases[i / 2], 1 + i % 2, &pass);
        if (status == GPUR_OK)
            check_by_input(&fixture, &by_input, i % 2 ? 1 : fixture.reference->features);
        gpur_backward_close(&by_input);
        net_close(&fixture);
        CHECK_OK(status);
        TEST_REQUIRE(atomic_load(&test_state.failures) == before, "that was network %d, copies %d", i / 2, 1 + i % 2);
    }
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device_deterministic();
    RUN(networks_agree_with_the_reference_and_no_launch_shape_changes_a_bit);
    RUN(two_copies_of_a_network_compute_as_two_networks);
    RUN(the_gradient_by_the_input_agrees_with_the_reference);
    gpur_device_close(device);
    return test_main_end();
}
