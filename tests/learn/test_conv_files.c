/* SPDX-License-Identifier: MIT */
/* Files of convolutional learners: weights in the order of their shapes, whatever the device's, and whole learners. */
#include "support/conv_world.h"
#include "support/file_kit.h"
#include "learn/learner.h"
#include "file/checkpoint_file.h"
#include "test.h"

#include <stdlib.h>

#ifndef GPUR_HAS_FILES

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    printf("test_conv_files: skipped: a build without cJSON or xxHash\n");
    return 77;
}

#else

enum { MOST = 4096 };

static void read_all(gpur_learner *learner, const gpur_weight_info *info, float values[MOST])
{
    CHECK(info->count <= MOST);
    CHECK_OK(gpur_learner_read_weights(learner, GPUR_WEIGHTS_ONLINE, info->name, values, info->count));
}

static void open_scene(conv_scene *s, gpur_device *device, uint64_t seed)
{
    gpur_learner_config config = conv_config(GPUR_CHW);
    config.seed = seed;
    CHECK_OK(conv_scene_open(s, device, &config));
}

static void check_tensor(gpur_learner *learner, const gpur_checkpoint *file, const unsigned char *data, int32_t index)
{
    gpur_weight_info info = {.size = sizeof info};
    CHECK_OK(gpur_learner_weight(learner, index, &info));
    const gpur_tensor_entry *const entry = gpur_tensors_find(&file->tensors, info.name);
    CHECK(entry && entry->dims == info.dims);
    for (int32_t d = 0; entry && d < info.dims; d++)
        CHECK_EQUAL(entry->shape[d], info.shape[d]);
    static float values[MOST];
    read_all(learner, &info, values);
    CHECK(entry && memcmp(data + file->data_at + entry->begin, values, (size_t)info.count * sizeof *values) == 0);
}

TEST(weights_files_have_the_order_of_the_shapes)
{
    gpur_device *const device = test_device();
    const char *const path = scene_path("weights");
    conv_scene s;
    gpur_checkpoint file;
    int64_t bytes = 0;
    open_scene(&s, device, 3);
    CHECK(s.learner->network.params.tensor[0].block > 1); /* the device has these in another order */
    CHECK_OK(gpur_learner_save_weights(s.learner, path, NULL));
    CHECK_OK(gpur_checkpoint_open(&file, path));
    unsigned char *const data = read_file(path, &bytes);
    for (int32_t i = 0; i < gpur_learner_weight_count(s.learner); i++)
        check_tensor(s.learner, &file, data, i);
    free(data);
    gpur_checkpoint_close(&file);
    conv_scene_close(&s);
    gpur_device_close(device);
}

static void check_alike(gpur_learner *a, gpur_learner *b, int wanted)
{
    static float values[2][MOST];
    int alike = 1;
    for (int32_t i = 0; i < gpur_learner_weight_count(a); i++) {
        gpur_weight_info info = {.size = sizeof info};
        CHECK_OK(gpur_learner_weight(a, i, &info));
        read_all(a, &info, values[0]);
        read_all(b, &info, values[1]);
        alike &= memcmp(values[0], values[1], (size_t)info.count * sizeof(float)) == 0;
    }
    CHECK_EQUAL(alike, wanted);
}

TEST(weights_and_learners_come_back)
{
    gpur_device *const device = test_device();
    const char *const weights = scene_path("weights"), *const whole = scene_path("learner");
    conv_scene s, other;
    open_scene(&s, device, 3);
    open_scene(&other, device, 4);
    check_alike(s.learner, other.learner, 0);
    CHECK_OK(gpur_learner_save_weights(s.learner, weights, NULL));
    CHECK_OK(gpur_learner_load_weights(other.learner, weights, NULL));
    check_alike(s.learner, other.learner, 1);
    CHECK_OK(gpur_learner_train(s.learner, 5));
    check_alike(s.learner, other.learner, 0);
    CHECK_OK(gpur_learner_save(s.learner, whole, NULL));
    CHECK_OK(gpur_learner_load(other.learner, whole, NULL));
    check_alike(s.learner, other.learner, 1);
    conv_scene_close(&s);
    conv_scene_close(&other);
    gpur_device_close(device);
}

static void check_refused(gpur_device *device, const char *path, const gpur_learner_config *config,
                          const char *message)
{
    conv_scene other;
    CHECK_OK(conv_scene_open(&other, device, config));
    CHECK_STATUS(gpur_learner_load(other.learner, path, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE(message);
    conv_scene_close(&other);
}

/* The first layer's order on the device goes by kernel and stride, so a file is for one network alone. */
TEST(a_learner_of_another_trunk_is_refused)
{
    static const gpur_layer layers[] = {{GPUR_CONV, 6, GPUR_TANH, 4, 2, 0, {0}},
                                        {GPUR_CONV, 7, GPUR_RELU, 4, 2, 0, {0}},
                                        {GPUR_CONV, 6, GPUR_RELU, 2, 2, 0, {0}},
                                        {GPUR_CONV, 6, GPUR_RELU, 4, 1, 0, {0}},
                                        {GPUR_CONV, 6, GPUR_RELU, 4, 2, 1, {0}}};
    gpur_device *const device = test_device();
    const char *const whole = scene_path("learner");
    conv_scene s;
    open_scene(&s, device, 3);
    CHECK_OK(gpur_learner_save(s.learner, whole, NULL));
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        gpur_learner_config config = conv_config(GPUR_CHW);
        config.network.trunk[0] = layers[i];
        check_refused(device, whole, &config,
                      "layer.0 is \"convolution 6 of 4, stride 2, padding 0, activation 1\" in the file; this learner");
    }
    gpur_learner_config config = conv_config(GPUR_CHW);
    config.network.trunk[config.network.trunk_count++] = (gpur_layer){GPUR_DENSE, 8, GPUR_RELU, 0, 0, 0, {0}};
    check_refused(device, whole, &config, "layer.2 is \"\" in the file; this learner has \"dense 8, activation 1\"");
    config.network.trunk_count = 1;
    check_refused(device, whole, &config, "layers is \"2\" in the file; this learner has \"1\"");
    config = conv_config(GPUR_HWC);
    check_refused(device, whole, &config, "input_layout is \"0\" in the file; this learner has \"1\"");
    config = conv_config(GPUR_CHW);
    config.network.hidden_activation = GPUR_TANH;
    check_refused(device, whole, &config, "hidden_activation is \"1\" in the file; this learner has \"2\"");
    conv_scene_close(&s);
    gpur_device_close(device);
}

/* Changes the name of a setting in a file into another of the same length, and the checksums that cover it. */
static void rename_setting(const char *path, const char *from, const char *to)
{
    static unsigned char bytes[1 << 20];
    gpur_checkpoint before;
    CHECK_OK(gpur_checkpoint_open(&before, path));
    const int64_t words = gpur_tensors_find(&before.tensors, "checksums")->shape[0];
    unsigned char *const sums = bytes + before.data_at;
    FILE *const file = fopen(path, "r+b");
    CHECK(file);
    const size_t size = fread(bytes, 1, sizeof bytes, file);
    unsigned char *const found = memmem(bytes, size, from, strlen(from));
    CHECK(found);
    memcpy(found, to, strlen(to));
    const uint64_t head = gpur_checksum(bytes, before.data_at);
    memcpy(sums + (words - 2) * 8, &head, sizeof head);
    const uint64_t all = gpur_checksum(sums, (words - 1) * 8);
    memcpy(sums + (words - 1) * 8, &all, sizeof all);
    rewind(file);
    CHECK_EQUAL(fwrite(bytes, 1, size, file), size);
    fclose(file);
    gpur_checkpoint_close(&before);
}

/* The first files did not have it: their activation is not known, and so not compared. */
TEST(a_file_without_the_hidden_layers_activation_is_loaded)
{
    gpur_device *const device = test_device();
    const char *const whole = scene_path("learner");
    conv_scene s, other;
    gpur_learner_config config = conv_config(GPUR_CHW);
    config.network.hidden_activation = GPUR_TANH;
    open_scene(&s, device, 3);
    CHECK_OK(conv_scene_open(&other, device, &config));
    CHECK_OK(gpur_learner_save(s.learner, whole, NULL));
    rename_setting(whole, "hidden_activation", "hidden_activatioN");
    CHECK_OK(gpur_learner_load(other.learner, whole, NULL));
    check_alike(s.learner, other.learner, 1);
    conv_scene_close(&s);
    conv_scene_close(&other);
    gpur_device_close(device);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    conv_world_make();
    RUN(weights_files_have_the_order_of_the_shapes);
    RUN(weights_and_learners_come_back);
    RUN(a_learner_of_another_trunk_is_refused);
    RUN(a_file_without_the_hidden_layers_activation_is_loaded);
    scene_remove_folder();
    return test_main_end();
}

#endif
