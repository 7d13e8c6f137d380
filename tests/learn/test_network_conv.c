/* SPDX-License-Identifier: MIT */
/* Convolutional networks, forward and backward, against the reference and its finite differences. */
#include "test.h"
#include "support/network_checks.h"

static gpur_device *device;

/* Up to three convolutions (filters, kernel, stride, padding; 0 filters: none), a dense layer (0: none), and a head. */
typedef struct conv_net {
    int height, width, channels;
    int conv[3][4];
    int activation, dense, head, hidden;
    int64_t rows;
} conv_net;
static const conv_net nets[] = {
    /* the Nature network, smaller: blocks of 4 x 4 pixels, then 2 and 1 */
    {20, 20, 4, {{8, 8, 4, 0}, {12, 2, 2, 0}, {9, 2, 1, 0}}, GPUR_RELU, 24, GPUR_HEAD_Q, 0, 5},
    {20, 20, 4, {{8, 8, 4, 0}, {12, 2, 2, 0}, {9, 2, 1, 0}}, GPUR_RELU, 0, GPUR_HEAD_DUELING, 16, 3},
    {7, 5, 3, {{5, 3, 2, 1}}, GPUR_TANH, 0, GPUR_HEAD_DUELING, 0, 4},
    {6, 6, 1, {{3, 3, 1, 0}, {4, 3, 1, 2}}, GPUR_LINEAR, 7, GPUR_HEAD_Q, 5, 9},
    {9, 8, 2, {{6, 4, 3, 1}, {7, 1, 1, 0}}, GPUR_RELU, 10, GPUR_HEAD_DUELING, 8, 33},
    {8, 12, 2, {{5, 4, 2, 0}, {6, 3, 1, 1}}, GPUR_TANH, 0, GPUR_HEAD_SOFTMAX_VALUE, 6, 2},
    {4, 4, 3, {{33, 4, 4, 0}}, GPUR_RELU, 0, GPUR_HEAD_TANH_ACTION, 0, 1},
    {24, 25, 1, {{2, 3, 1, 1}}, GPUR_RELU, 0, GPUR_HEAD_Q, 0, 6}, /* more than one run of pixels a channel */
};
enum { NETS = sizeof nets / sizeof nets[0] };

static gpur_network_config config_of(const conv_net *n)
{
    gpur_network_config config = rig_network(0, 0, n->activation, n->head, n->hidden, 3);
    config.input_layout = GPUR_HWC;
    for (int i = 0; i < 3 && n->conv[i][0]; i++) {
        const gpur_layer layer = {GPUR_CONV,     n->conv[i][0], n->activation, n->conv[i][1],
                                  n->conv[i][2], n->conv[i][3], {0}};
        config.trunk[config.trunk_count++] = layer;
    }
    const gpur_layer dense = {GPUR_DENSE, n->dense, n->activation, 0, 0, 0, {0}};
    if (n->dense)
        config.trunk[config.trunk_count++] = dense;
    return config;
}

static gpur_status open_net(learn_rig *rig, const conv_net *n, int fuse, int by_patches)
{
    const gpur_network_config config = config_of(n);
    const gpur_scene scene = {(int64_t)n->height * n->width * n->channels, n->height, n->width, n->channels};
    const gpur_pass_options options = {.fuse = fuse, .by_patches = by_patches, .deterministic = 1};
    return rig_open_scene(rig, device, &config, &scene, n->rows, &options);
}

/* Runs `check` on every network, by the device's library and by patches, with epilogues and without. */
static void on_every_net(void (*check)(learn_rig *rig))
{
    for (int way = 0; way < 4; way++)
        for (int i = 0; i < NETS; i++) {
            learn_rig rig;
            const gpur_status status = open_net(&rig, &nets[i], way % 2, way / 2);
            if (status == GPUR_OK)
                check(&rig);
            rig_close(&rig);
            CHECK_OK(status);
        }
}

static void check_forward_closely(learn_rig *rig)
{
    check_forward(rig, 4e-6);
}

TEST(forward_agrees_with_the_reference)
{
    on_every_net(check_forward_closely);
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
    on_every_net(check_mates);
}

/* What it tells of itself: the Nature network [Mnih et al. 2015], 20 x 20, 9 x 9, 7 x 7. */
TEST(sizes_follow_the_kernels)
{
    gpur_network network;
    gpur_network_config config = rig_network(0, 0, GPUR_RELU, GPUR_HEAD_Q, 0, 18);
    const gpur_layer layers[] = {{GPUR_CONV, 32, GPUR_RELU, 8, 4, 0, {0}},
                                 {GPUR_CONV, 64, GPUR_RELU, 4, 2, 0, {0}},
                                 {GPUR_CONV, 64, GPUR_RELU, 3, 1, 0, {0}},
                                 {GPUR_DENSE, 512, GPUR_RELU, 0, 0, 0, {0}}};
    const gpur_scene scene = {84 * 84 * 4, 84, 84, 4};
    memcpy(config.trunk, layers, sizeof layers);
    config.trunk_count = 4;
    CHECK_OK(gpur_network_build(&network, &config, &scene));
    CHECK_EQUAL(network.block, 4);
    CHECK_EQUAL(network.conv[0].channels, 64);
    CHECK_EQUAL(network.conv[0].out_height, 20);
    CHECK_EQUAL(network.conv[1].out_height, 9);
    CHECK_EQUAL(network.conv[2].out_width, 7);
    CHECK_EQUAL(network.width[3], 3136);
    CHECK_EQUAL(gpur_params_weights(&network.params), 1693362);
}

static void check_refused(gpur_layer first, gpur_layer second, gpur_scene scene, const char *message)
{
    gpur_network network;
    gpur_network_config config = rig_network(0, 0, GPUR_RELU, GPUR_HEAD_Q, 0, 2);
    config.trunk[0] = first, config.trunk[1] = second;
    config.trunk_count = 2;
    CHECK_STATUS(gpur_network_build(&network, &config, &scene), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE(message);
}

TEST(layers_that_do_not_fit_are_refused_with_their_values)
{
    const gpur_layer conv = {GPUR_CONV, 4, GPUR_RELU, 3, 1, 0, {0}}, dense = {GPUR_DENSE, 4, GPUR_RELU, 0, 0, 0, {0}};
    const gpur_layer large = {GPUR_CONV, 4, GPUR_RELU, 5, 1, 1, {0}}, flat = {GPUR_CONV, 4, GPUR_RELU, 0, 1, 0, {0}};
    const gpur_layer still = {GPUR_CONV, 4, GPUR_RELU, 3, 0, 0, {0}}, wide = {GPUR_CONV, 4, GPUR_RELU, 3, 1, 3, {0}};
    const gpur_layer odd = {2, 4, GPUR_RELU, 0, 0, 0, {0}}, stray = {GPUR_DENSE, 4, GPUR_RELU, 0, 2, 0, {0}};
    const gpur_scene image = {48, 4, 4, 3}, none = {48, 0, 0, 0};
    check_refused(conv, dense, none, "obs is no image");
    check_refused(dense, conv, image, "trunk[1] is a convolution behind a dense layer");
    check_refused(conv, large, image, "trunk[1].kernel is 5; it must be at most 4, as an image of 2 x 2");
    check_refused(flat, dense, image, "trunk[0].kernel is 0");
    check_refused(still, dense, image, "trunk[0].stride is 0");
    check_refused(wide, dense, image, "trunk[0].padding is 3; it must be 0 to kernel - 1, 2");
    check_refused(conv, odd, image, "trunk[1].kind is 2");
    check_refused(conv, stray, image, "trunk[1] is dense, with kernel 0, stride 2");
}

/* A stack of frames as the last axis, under a preset's GPUR_CHW; and the other way. */
TEST(an_image_that_lies_otherwise_is_refused_with_its_shape)
{
    const gpur_layer first = {GPUR_CONV, 32, GPUR_RELU, 8, 4, 0, {0}}, dense = {GPUR_DENSE, 4, GPUR_RELU, 0, 0, 0, {0}};
    const gpur_scene as_planes = {84 * 84 * 4, 84, 4, 84}, as_pixels = {84 * 84 * 4, 4, 84, 84};
    gpur_network_config config = rig_network(0, 0, GPUR_RELU, GPUR_HEAD_Q, 0, 2);
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
