/* SPDX-License-Identifier: MIT */
/* Files of weights and of learners: the order of tensors, files of other networks, and weights that are NaN or
 * infinite, which are refused from memory and from files. */
#include "file/checkpoint_file.h"
#include "learn/dqn/dqn.h"
#include "support/checkpoint_fixture.h"
#include "support/learner_fixture.h"
#include "test.h"

enum { STEPS = 25, MAX_NUMBERS = 4096 };

static void open_trained(checkpoint_fixture *s, gpur_device *device, int variant)
{
    CHECK_OK(checkpoint_fixture_open(s, device, variant));
    CHECK_OK(checkpoint_fixture_begin(s, 0));
    CHECK_OK(checkpoint_fixture_run(s, 0, STEPS));
}

/* A write of weights of which the first `places` are `bad`. */
static void check_write(gpur_learner *learner, int32_t which, float bad, int64_t places)
{
    const char *const name = "trunk.0.weight";
    const int64_t count = 16 * CHECKPOINT_FEATURES;
    float before[MAX_NUMBERS], given[MAX_NUMBERS], after[MAX_NUMBERS];
    char message[160];
    CHECK_OK(gpur_learner_read_weights(learner, which, name, before, count));
    for (int64_t i = 0; i < count; i++)
        given[i] = i < places ? bad : 0.5f;
    CHECK_STATUS(gpur_learner_write_weights(learner, which, name, given, count), GPUR_INVALID_ARGUMENT);
    snprintf(message, sizeof message, "%d of the %d numbers of \"%s\" are NaN or infinite; they must be finite",
             (int)places, (int)count, name);
    CHECK_MESSAGE(message);
    CHECK_OK(gpur_learner_read_weights(learner, which, name, after, count));
    CHECK(memcmp(before, after, (size_t)count * sizeof *before) == 0);
}

TEST(weights_from_memory_are_finite)
{
    gpur_device *const device = test_device();
    checkpoint_fixture s;
    open_trained(&s, device, 0);
    for (int32_t which = GPUR_WEIGHTS_ONLINE; which <= GPUR_WEIGHTS_TARGET; which++) {
        check_write(s.learner, which, NAN, 16 * CHECKPOINT_FEATURES);
        check_write(s.learner, which, NAN, 1);
        check_write(s.learner, which, INFINITY, 2);
        check_write(s.learner, which, -INFINITY, 3);
    }
    checkpoint_fixture_close(&s);
    gpur_device_close(device);
}

#ifdef GPUR_HAS_FILES

typedef gpur_status (*file_call)(gpur_learner *learner, const char *path, const gpur_checkpoint_options *options);

/* 1 if saving the learner now gives the bytes of the file at `path`. */
static int is_saved_at(gpur_learner *learner, const char *path)
{
    int64_t bytes[2] = {0, 0};
    const char *const again = test_file_path("again");
    if (gpur_learner_save(learner, again, NULL) != GPUR_OK)
        return 0;
    unsigned char *const now = read_file(again, &bytes[0]), *const then = read_file(path, &bytes[1]);
    const int same = now && then && bytes[0] == bytes[1] && memcmp(now, then, (size_t)bytes[0]) == 0;
    free(now);
    free(then);
    return same;
}

/* Writes `value` to the first `places` numbers of a tensor in one of the arrays of `from`, and expects that saving the
 * learner is refused with `message`, and the file that is there stays; or, if `message` is NULL, that `to` loads the
 * file. */
static void check_file(gpur_learner *from, gpur_learner *to, float *array, int64_t places, float value, file_call save,
                       const char *message)
{
    char path[128], before[128];
    float good[MAX_NUMBERS], bad[MAX_NUMBERS];
    const gpur_tensor *const tensor = &from->networks[0].network->params.tensor[1];
    const int64_t bytes = places * (int64_t)sizeof *bad;
    snprintf(path, sizeof path, "%s", test_file_path("bad"));
    snprintf(before, sizeof before, "%s", test_file_path("before"));
    for (int64_t i = 0; i < places; i++)
        bad[i] = value;
    CHECK_OK(gpur_learner_save(to, before, NULL));
    CHECK_OK(gpur_device_copy(from->device, good, array + tensor->offset, bytes));
    CHECK_OK(gpur_device_copy(from->device, array + tensor->offset, bad, bytes));
    const gpur_status saved = save(from, path, NULL);
    if (message) {
        CHECK_STATUS(saved, GPUR_FILE_ERROR);
        CHECK_MESSAGE(message);
        CHECK_STATUS(save(from, before, NULL), GPUR_FILE_ERROR);
        CHECK(is_saved_at(to, before));
    }
    CHECK_OK(gpur_device_copy(from->device, array + tensor->offset, good, bytes));
    if (message)
        return;
    CHECK_OK(saved);
    CHECK_OK(gpur_learner_load(to, path, NULL));
}

TEST(weights_that_are_not_finite_do_not_replace_a_file)
{
    gpur_device *const device = test_device();
    checkpoint_fixture from, to;
    open_trained(&from, device, 2);
    open_trained(&to, device, 2);
    CHECK_OK(gpur_learner_train(to.learner, 3));
    const gpur_optimizer *const o = &gpur_dqn_of(from.learner)->step.optimizer;
    gpur_learner *const a = from.learner, *const b = to.learner;
    check_file(a, b, o->weights, 16, NAN, gpur_learner_save_weights,
               "16 of the 16 numbers of \"trunk.0.bias\" are NaN or infinite; they must be finite");
    check_file(a, b, o->weights, 2, INFINITY, gpur_learner_save_weights,
               "2 of the 16 numbers of \"trunk.0.bias\" are NaN or infinite");
    check_file(a, b, o->weights, 16, NAN, gpur_learner_save,
               "16 of the 16 numbers of \"online.trunk.0.bias\" are NaN or infinite");
    check_file(a, b, o->target, 1, -INFINITY, gpur_learner_save,
               "1 of the 16 numbers of \"target.trunk.0.bias\" are NaN or infinite");
    check_file(a, b, o->square, 3, NAN, gpur_learner_save,
               "3 of the 16 numbers of \"optimizer.square.trunk.0.bias\" are NaN; they must be numbers");
    check_file(a, b, o->velocity, 1, NAN, gpur_learner_save,
               "1 of the 16 numbers of \"optimizer.velocity.trunk.0.bias\" are NaN");
    check_file(a, b, o->square, 1, INFINITY, gpur_learner_save, NULL); /* it may overflow */
    checkpoint_fixture_close(&from);
    checkpoint_fixture_close(&to);
    gpur_device_close(device);
}

static void open_conv(conv_fixture *s, gpur_device *device, uint64_t seed)
{
    gpur_dqn_config config = conv_config(GPUR_CHW);
    config.seed = seed;
    CHECK_OK(conv_fixture_open(s, device, &config));
}

static void check_tensor(gpur_learner *learner, const gpur_checkpoint *file, const unsigned char *data, int32_t index)
{
    static float values[MAX_NUMBERS];
    gpur_weight_info info = {.size = sizeof info};
    CHECK_OK(gpur_learner_get_weight_info(learner, index, &info));
    const gpur_tensor_entry *const entry = gpur_tensors_find(&file->tensors, info.name);
    CHECK(entry && entry->dims == info.dims && info.count <= MAX_NUMBERS);
    for (int32_t d = 0; d < info.dims; d++)
        CHECK_EQUAL(entry->shape[d], info.shape[d]);
    CHECK_OK(gpur_learner_read_weights(learner, GPUR_WEIGHTS_ONLINE, info.name, values, info.count));
    CHECK(memcmp(data + file->data_at + entry->begin, values, (size_t)info.count * sizeof *values) == 0);
}

static void check_alike(gpur_learner *a, gpur_learner *b, int wanted)
{
    static float x[MAX_NUMBERS], y[MAX_NUMBERS];
    const int64_t count = learner_fixture_weights(a, GPUR_WEIGHTS_ONLINE, x, MAX_NUMBERS);
    CHECK(count > 0);
    CHECK_EQUAL(learner_fixture_weights(b, GPUR_WEIGHTS_ONLINE, y, MAX_NUMBERS), count);
    CHECK_EQUAL(memcmp(x, y, (size_t)count * sizeof *x) == 0, wanted);
}

/* The device has the weights of the first convolution in another order than that of their shape. */
TEST(files_of_weights_and_learners_are_loaded_and_have_the_order_of_the_shapes)
{
    gpur_device *const device = test_device();
    const char *const weights = test_file_path("weights"), *const whole = test_file_path("learner");
    conv_fixture s, other;
    gpur_checkpoint file;
    int64_t bytes = 0;
    open_conv(&s, device, 3);
    open_conv(&other, device, 4);
    check_alike(s.learner, other.learner, 0);
    CHECK(gpur_dqn_of(s.learner)->network.params.tensor[0].space_to_depth > 1);
    CHECK_OK(gpur_learner_save_weights(s.learner, weights, NULL));
    CHECK_OK(gpur_checkpoint_open(&file, weights));
    unsigned char *const data = read_file(weights, &bytes);
    for (int32_t i = 0; i < gpur_learner_weight_count(s.learner); i++)
        check_tensor(s.learner, &file, data, i);
    free(data);
    gpur_checkpoint_close(&file);
    CHECK_OK(gpur_learner_load_weights(other.learner, weights, NULL));
    check_alike(s.learner, other.learner, 1);
    CHECK_OK(gpur_learner_train(s.learner, 5));
    check_alike(s.learner, other.learner, 0);
    CHECK_OK(gpur_learner_save(s.learner, whole, NULL));
    CHECK_OK(gpur_learner_load(other.learner, whole, NULL));
    check_alike(s.learner, other.learner, 1);
    conv_fixture_close(&s);
    conv_fixture_close(&other);
    gpur_device_close(device);
}

/* The order of the first layer on the device depends on its kernel and stride, so a file fits only one network. */
TEST(a_learner_of_another_network_is_refused)
{
    static const char first[] =
        "layer.0 is \"convolution 6 of 4, stride 2, padding 0, activation 1\" in the file; this learner";
    static const struct {
        gpur_layer first;
        int32_t layers, layout, hidden_activation;
        const char *message;
    } cases[] = {
        {{GPUR_CONV, 6, GPUR_TANH, 4, 2, 0, {0}}, 2, GPUR_CHW, GPUR_RELU, first},
        {{GPUR_CONV, 7, GPUR_RELU, 4, 2, 0, {0}}, 2, GPUR_CHW, GPUR_RELU, first},
        {{GPUR_CONV, 6, GPUR_RELU, 2, 2, 0, {0}}, 2, GPUR_CHW, GPUR_RELU, first},
        {{GPUR_CONV, 6, GPUR_RELU, 4, 1, 0, {0}}, 2, GPUR_CHW, GPUR_RELU, first},
        {{GPUR_CONV, 6, GPUR_RELU, 4, 2, 1, {0}}, 2, GPUR_CHW, GPUR_RELU, first},
        {{GPUR_CONV, 6, GPUR_RELU, 4, 2, 0, {0}},
         3,
         GPUR_CHW,
         GPUR_RELU,
         "layer.2 is nothing in the file; this learner has \"dense 8, activation 1\""},
        {{GPUR_CONV, 6, GPUR_RELU, 4, 2, 0, {0}},
         1,
         GPUR_CHW,
         GPUR_RELU,
         "layer.1 is \"convolution 5 of 3, stride 1, padding 1, activation 2\" in the file"},
        {{GPUR_CONV, 6, GPUR_RELU, 4, 2, 0, {0}},
         2,
         GPUR_HWC,
         GPUR_RELU,
         "input_layout is \"chw\" in the file; this learner has \"hwc\""},
        {{GPUR_CONV, 6, GPUR_RELU, 4, 2, 0, {0}},
         2,
         GPUR_CHW,
         GPUR_TANH,
         "hidden_activation is \"1\" in the file; this learner has \"2\""},
    };
    gpur_device *const device = test_device();
    const char *const whole = test_file_path("learner");
    conv_fixture s, other;
    open_conv(&s, device, 3);
    CHECK_OK(gpur_learner_save(s.learner, whole, NULL));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gpur_dqn_config config = conv_config(cases[i].layout);
        config.network.trunk[0] = cases[i].first;
        config.network.trunk[2] = (gpur_layer){GPUR_DENSE, 8, GPUR_RELU, 0, 0, 0, {0}};
        config.network.trunk_count = cases[i].layers;
        config.network.hidden_activation = cases[i].hidden_activation;
        CHECK_OK(conv_fixture_open(&other, device, &config));
        CHECK_FAILS(gpur_learner_load(other.learner, whole, NULL), GPUR_INVALID_ARGUMENT, cases[i].message);
        conv_fixture_close(&other);
    }
    conv_fixture_close(&s);
    gpur_device_close(device);
}

#endif

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(weights_from_memory_are_finite);
#ifdef GPUR_HAS_FILES
    RUN(weights_that_are_not_finite_do_not_replace_a_file);
    RUN(files_of_weights_and_learners_are_loaded_and_have_the_order_of_the_shapes);
    RUN(a_learner_of_another_network_is_refused);
    test_remove_folder();
#endif
    return test_main_end();
}
