/* SPDX-License-Identifier: MIT */
/* Weights that are NaN or infinite are refused, from memory and from files, with their name and number. */
#include "support/file_scene.h"
#include "learn/learner.h"
#include "test.h"

#include <unistd.h>

enum { STEPS = 25, MOST = 256 };

static void open_trained(file_scene *s, gpur_device *device, int variant)
{
    CHECK_OK(scene_open(s, device, variant));
    CHECK_OK(scene_begin(s, 0));
    CHECK_OK(scene_run(s, 0, STEPS));
}

static void check_write(gpur_learner *learner, int32_t which, const char *name, float bad, int64_t places)
{
    gpur_weight_info info = {.size = sizeof info};
    float before[MOST], given[MOST], after[MOST];
    char message[160];
    CHECK_OK(gpur_learner_weight(learner, 0, &info));
    CHECK(strcmp(info.name, name) == 0 && info.count <= MOST);
    CHECK_OK(gpur_learner_read_weights(learner, which, name, before, info.count));
    for (int64_t i = 0; i < info.count; i++)
        given[i] = i < places ? bad : 0.5f;
    CHECK_STATUS(gpur_learner_write_weights(learner, which, name, given, info.count), GPUR_INVALID_ARGUMENT);
    snprintf(message, sizeof message, "%lld of the %lld numbers of \"%s\" are NaN or infinite; they must be finite",
             (long long)places, (long long)info.count, name);
    CHECK_MESSAGE(message);
    CHECK_OK(gpur_learner_read_weights(learner, which, name, after, info.count));
    CHECK(memcmp(before, after, (size_t)info.count * sizeof *before) == 0);
}

TEST(weights_from_memory_are_finite)
{
    gpur_device *const device = test_device();
    file_scene s;
    open_trained(&s, device, 0);
    for (int32_t which = GPUR_WEIGHTS_ONLINE; which <= GPUR_WEIGHTS_TARGET; which++) {
        check_write(s.learner, which, "trunk.0.weight", NAN, 16 * SCENE_FEATURES);
        check_write(s.learner, which, "trunk.0.weight", NAN, 1);
        check_write(s.learner, which, "trunk.0.weight", INFINITY, 2);
        check_write(s.learner, which, "trunk.0.weight", -INFINITY, 3);
    }
    scene_close(&s);
    gpur_device_close(device);
}

#ifdef GPUR_HAS_FILES

typedef gpur_status (*file_call)(gpur_learner *learner, const char *path, const gpur_checkpoint_options *options);

/* 1 when a save of the learner is what is at `path`. */
static int is_saved_at(gpur_learner *learner, const char *path)
{
    int64_t bytes[2] = {0, 0};
    const char *const again = scene_path("again");
    if (gpur_learner_save(learner, again, NULL) != GPUR_OK)
        return 0;
    unsigned char *const now = read_file(again, &bytes[0]), *const then = read_file(path, &bytes[1]);
    const int same = now && then && bytes[0] == bytes[1] && memcmp(now, then, (size_t)bytes[0]) == 0;
    free(now);
    free(then);
    return same;
}

/* With `value` in the first `places` numbers of a tensor of one of `from`'s arrays, its file is refused by `to`. */
static void check_file(gpur_learner *from, gpur_learner *to, float *array, int64_t places, float value, file_call save,
                       file_call load, const char *message)
{
    char path[128], before[128];
    float kept[MOST], bad[MOST];
    const gpur_tensor *const tensor = &from->network.params.tensor[1];
    const int64_t bytes = places * (int64_t)sizeof *bad;
    snprintf(path, sizeof path, "%s", scene_path("bad"));
    snprintf(before, sizeof before, "%s", scene_path("before"));
    for (int64_t i = 0; i < places; i++)
        bad[i] = value;
    CHECK_OK(gpur_learner_save(to, before, NULL));
    CHECK_OK(gpur_device_copy(from->device, kept, array + tensor->offset, bytes));
    CHECK_OK(gpur_device_copy(from->device, array + tensor->offset, bad, bytes));
    CHECK_OK(save(from, path, NULL)); /* for somebody to look at */
    CHECK_OK(gpur_device_copy(from->device, array + tensor->offset, kept, bytes));
    if (!message) {
        CHECK_OK(load(to, path, NULL));
        return;
    }
    CHECK_STATUS(load(to, path, NULL), GPUR_FILE_ERROR);
    CHECK_MESSAGE(path);
    CHECK_MESSAGE(message);
    CHECK(is_saved_at(to, before));
}

TEST(weights_from_files_are_finite)
{
    gpur_device *const device = test_device();
    file_scene from, to;
    open_trained(&from, device, 2);
    open_trained(&to, device, 2);
    CHECK_OK(gpur_learner_train(to.learner, 3));
    const gpur_optimizer *const o = &from.learner->step.optimizer;
    gpur_learner *const a = from.learner, *const b = to.learner;
    check_file(a, b, o->weights, 16, NAN, gpur_learner_save_weights, gpur_learner_load_weights,
               "16 of the 16 numbers of \"trunk.0.bias\" are NaN or infinite; they must be finite");
    check_file(a, b, o->weights, 2, INFINITY, gpur_learner_save_weights, gpur_learner_load_weights,
               "2 of the 16 numbers of \"trunk.0.bias\" are NaN or infinite");
    check_file(a, b, o->weights, 16, NAN, gpur_learner_save, gpur_learner_load,
               "16 of the 16 numbers of \"online.trunk.0.bias\" are NaN or infinite");
    check_file(a, b, o->target, 1, -INFINITY, gpur_learner_save, gpur_learner_load,
               "1 of the 16 numbers of \"target.trunk.0.bias\" are NaN or infinite");
    check_file(a, b, o->square, 3, NAN, gpur_learner_save, gpur_learner_load,
               "3 of the 16 numbers of \"optimizer.square.trunk.0.bias\" are NaN; they must be numbers");
    check_file(a, b, o->velocity, 1, NAN, gpur_learner_save, gpur_learner_load,
               "1 of the 16 numbers of \"optimizer.velocity.trunk.0.bias\" are NaN");
    check_file(a, b, o->square, 1, INFINITY, gpur_learner_save, gpur_learner_load, NULL); /* it may overflow */
    scene_close(&from);
    scene_close(&to);
    gpur_device_close(device);
}

#endif

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(weights_from_memory_are_finite);
#ifdef GPUR_HAS_FILES
    RUN(weights_from_files_are_finite);
    scene_remove_folder();
#endif
    return test_main_end();
}
