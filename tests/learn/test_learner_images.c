/* SPDX-License-Identifier: MIT */
/* Acting on images of uint8, weights by name, and what a network may look at. */
#include "test.h"
#include "support/conv_world.h"

static gpur_device *device;

static void on_scene(const gpur_learner_config *config, void (*check)(conv_scene *s))
{
    conv_scene s;
    const gpur_status status = conv_scene_open(&s, device, config);
    if (status == GPUR_OK)
        check(&s);
    conv_scene_close(&s);
    CHECK_OK(status);
}

static void check_acting(conv_scene *s)
{
    static ref_tape tape;
    float q[16 * ACTIONS];
    int32_t actions[16];
    uint8_t obs[16][PIXELS];
    for (int count = 1; count <= 16; count += 5) {
        for (int i = 0; i < count; i++)
            memcpy(obs[i], conv_rows[3 * i].obs, PIXELS);
        CHECK_OK(gpur_learner_q_values(s->learner, count, obs, q, NULL));
        CHECK_OK(gpur_learner_act(s->learner, count, obs, 0.0f, actions, NULL));
        for (int i = 0; i < count; i++) {
            ref_forward(s->net, 0, conv_wide[0][3 * i], &tape);
            for (int a = 0; a < ACTIONS; a++) {
                CHECK_NEAR(q[i * ACTIONS + a], tape.y[a], 1e-5);
                CHECK(tape.y[actions[i]] >= tape.y[a] - 1e-5);
            }
        }
    }
}

static void check_acting_on_device(conv_scene *s)
{
    float from_host[ACTIONS], from_device[ACTIONS];
    void *const obs = rig_upload(device, conv_rows[5].obs, PIXELS);
    CHECK(obs);
    const gpur_status first = gpur_learner_q_values(s->learner, 1, conv_rows[5].obs, from_host, NULL);
    const gpur_status second = gpur_learner_q_values(s->learner, 1, obs, from_device, NULL);
    gpur_device_free(device, obs);
    CHECK_OK(first);
    CHECK_OK(second);
    CHECK(memcmp(from_host, from_device, sizeof from_host) == 0);
}

TEST(acting_reads_observations_as_the_replay_keeps_them)
{
    for (int32_t layout = GPUR_CHW; layout <= GPUR_HWC; layout++) {
        const gpur_learner_config config = conv_config(layout);
        on_scene(&config, check_acting);
        on_scene(&config, check_acting_on_device);
    }
}

static void check_weights(conv_scene *s)
{
    float given[6 * 4 * 4 * CHANNELS], got[6 * 4 * 4 * CHANNELS];
    const int64_t count = sizeof given / sizeof *given;
    gpur_weight_info info = {.size = sizeof info};
    CHECK_OK(gpur_learner_weight(s->learner, 0, &info));
    CHECK(strcmp(info.name, "trunk.0.weight") == 0);
    CHECK(info.dims == 4 && info.count == count);
    CHECK(info.shape[0] == 6 && info.shape[1] == 4 && info.shape[2] == 4 && info.shape[3] == CHANNELS);
    CHECK_OK(gpur_learner_weight(s->learner, 1, &info));
    CHECK(info.dims == 1 && info.shape[0] == 6 && info.shape[1] == 0);
    CHECK_OK(gpur_learner_weight(s->learner, 4, &info));
    CHECK(strcmp(info.name, "value.hidden.weight") == 0 && info.dims == 2 && info.shape[1] == 5 * 3 * 5);
    rig_random(8, given, count);
    CHECK_OK(gpur_learner_write_weights(s->learner, GPUR_WEIGHTS_TARGET, "trunk.0.weight", given, count));
    CHECK_OK(gpur_learner_read_weights(s->learner, GPUR_WEIGHTS_TARGET, "trunk.0.weight", got, count));
    CHECK(memcmp(given, got, sizeof got) == 0);
}

TEST(weights_of_a_convolution_come_and_go_by_name_in_the_order_of_their_shape)
{
    const gpur_learner_config config = conv_config(GPUR_CHW);
    on_scene(&config, check_weights);
}

/* The limits of the published initialisations; a convolution counts its window. */
static void check_limit(conv_scene *s, double limit)
{
    const ref_tensor *const w = ref_net_find(s->net, "trunk.1.weight");
    double largest = 0;
    for (int i = 0; i < w->count; i++)
        largest = fmax(largest, fabs(w->w[i]));
    CHECK(largest <= limit * (1 + 1e-6) && largest > 0.9 * limit);
}

static void check_fan_in(conv_scene *s)
{
    check_limit(s, 1 / sqrt(3 * 3 * 6));
}

static void check_glorot(conv_scene *s)
{
    check_limit(s, sqrt(6.0 / (3 * 3 * (6 + 5))));
}

TEST(first_weights_of_a_convolution_have_their_published_limits)
{
    gpur_learner_config config = conv_config(GPUR_CHW);
    config.network.init = GPUR_INIT_FAN_IN;
    on_scene(&config, check_fan_in);
    config.network.init = GPUR_INIT_GLOROT;
    on_scene(&config, check_glorot);
}

/* A dense network on the same bytes, scaled: the reference knows no image then. */
static void check_dense(conv_scene *s)
{
    static ref_tape tape;
    float q[ACTIONS];
    ref_net *const flat = ref_net_create(&s->config.network, PIXELS);
    gpur_status status = GPUR_OK;
    for (int i = 0; i < flat->tensors && status == GPUR_OK; i++)
        status = conv_read(s->learner, &flat->tensor[i], GPUR_WEIGHTS_ONLINE, flat->tensor[i].w);
    if (status == GPUR_OK)
        status = gpur_learner_q_values(s->learner, 1, conv_rows[9].obs, q, NULL);
    ref_forward(flat, 0, conv_wide[0][9], &tape);
    ref_net_destroy(flat);
    CHECK_OK(status);
    for (int a = 0; a < ACTIONS; a++)
        CHECK_NEAR(q[a], tape.y[a], 1e-5);
}

TEST(a_dense_network_reads_bytes_flattened_and_scaled)
{
    gpur_learner_config config = conv_config(GPUR_CHW);
    config.network.trunk_count = 0;
    on_scene(&config, check_dense);
}

/* A learner over a small replay of such observations. */
static void check_refused(gpur_field obs, const gpur_learner_config *config, const char *message)
{
    gpur_field fields[] = {obs, obs, {"action", GPUR_INT32, {0}}, {"reward", GPUR_FLOAT32, {0}},
                           {"terminated", GPUR_BOOL, {0}}};
    gpur_replay *replay = NULL;
    gpur_learner *learner = NULL;
    gpur_replay_config memory;
    fields[1].name = "next_obs";
    CHECK_OK(gpur_replay_config_init(&memory, sizeof memory));
    memory.capacity = 256, memory.max_batch = 32, memory.fields = fields, memory.field_count = 5;
    CHECK_OK(gpur_replay_create(device, &memory, &replay));
    const gpur_status status = gpur_learner_create(replay, config, &learner);
    gpur_replay_destroy(replay);
    CHECK(status == GPUR_INVALID_ARGUMENT && !learner);
    CHECK_MESSAGE(message);
}

TEST(a_convolution_on_what_is_no_image_is_refused)
{
    const gpur_learner_config conv = conv_config(GPUR_CHW);
    const gpur_field obs = {"obs", GPUR_UINT8, {24, 12}};
    check_refused(obs, &conv, "obs is no image: it needs three axes");
}

TEST(a_preset_refuses_frames_along_the_other_axis_and_names_the_layout)
{
    const gpur_field obs = {"obs", GPUR_UINT8, {84, 84, 4}};
    gpur_learner_config nature;
    CHECK_OK(gpur_learner_config_init(&nature, sizeof nature));
    CHECK_OK(gpur_learner_config_preset(&nature, "nature-dqn"));
    check_refused(obs, &nature, "GPUR_CHW takes obs of (84, 84, 4) as (channels, height, width); GPUR_HWC takes it as");
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
    conv_world_make();
    RUN(acting_reads_observations_as_the_replay_keeps_them);
    RUN(weights_of_a_convolution_come_and_go_by_name_in_the_order_of_their_shape);
    RUN(first_weights_of_a_convolution_have_their_published_limits);
    RUN(a_dense_network_reads_bytes_flattened_and_scaled);
    RUN(a_convolution_on_what_is_no_image_is_refused);
    RUN(a_preset_refuses_frames_along_the_other_axis_and_names_the_layout);
    gpur_device_close(device);
    return test_main_end();
}
