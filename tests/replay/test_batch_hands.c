/* SPDX-License-Identifier: MIT */
/* Batches in other hands: DLPack's tensors, drawing anew into the same memory, waiting on a stream. */
#include "replay/sampler/dlpack.h"
#include "support/replay_kit.h"
#include "test.h"

enum { CAPACITY = 200, COUNT = 33 };

static const gpur_field fields[] = {{"obs", GPUR_FLOAT32, {3, 2}}, {"half", GPUR_FLOAT16, {4}},
                                    {"pixel", GPUR_UINT8, {7}},    {"action", GPUR_INT32, {0}},
                                    {"tag", GPUR_INT64, {0}},      {"terminated", GPUR_BOOL, {0}},
                                    {"discount", GPUR_FLOAT32, {0}}};
enum { FIELDS = sizeof fields / sizeof *fields };

static int open_scene(kit_scene *s, int32_t source)
{
    gpur_replay_config config = kit_config(fields, FIELDS, CAPACITY, 20, 64);
    config.index_source = source;
    return kit_open(s, test_device(), &config, 1) && kit_append_next(s, CAPACITY) == GPUR_OK;
}

static void check_type(const gpur_dl_tensor *tensor, int code, int bits)
{
    CHECK_EQUAL(tensor->code, code);
    CHECK_EQUAL(tensor->bits, bits);
    CHECK_EQUAL(tensor->lanes, 1);
}

static void check_place(const gpur_dl_tensor *tensor, gpur_batch *batch, const char *name)
{
    gpur_field_info info = {.size = sizeof info};
    void *memory = NULL;
    CHECK_OK(gpur_batch_get_array(batch, name, &memory, &info));
    CHECK(tensor->data == memory && tensor->byte_offset == 0);
    CHECK_EQUAL(tensor->device_type, test_on_cuda() ? 2 : 1);
    CHECK_EQUAL(tensor->device_id, 0);
    CHECK_EQUAL(tensor->ndim, info.dims + 1);
    CHECK_EQUAL(tensor->shape[0], COUNT);
    int64_t stride = 1;
    for (int32_t axis = info.dims; axis >= 0; axis--) {
        CHECK_EQUAL(tensor->strides[axis], stride);
        CHECK_EQUAL(tensor->shape[axis], axis ? info.shape[axis - 1] : COUNT);
        stride *= tensor->shape[axis];
    }
}

TEST(every_array_is_a_dlpack_tensor_in_either_form)
{
    static const struct {
        const char *name;
        int code, bits;
    } types[] = {{"obs", 2, 32},        {"half", 2, 16},     {"pixel", 1, 8},   {"action", 0, 32}, {"tag", 0, 64},
                 {"terminated", 6, 8}, {"discount", 2, 32}, {"weight", 2, 32}, {"id", 0, 64}};
    gpur_batch *batch = NULL;
    kit_scene s;
    CHECK(open_scene(&s, GPUR_UNIFORM));
    CHECK_OK(gpur_replay_sample(s.replay, COUNT, NULL, &batch));
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        void *plain = NULL, *versioned = NULL;
        CHECK_OK(gpur_batch_to_dlpack(batch, types[i].name, 0, &plain));
        CHECK_OK(gpur_batch_to_dlpack(batch, types[i].name, 1, &versioned));
        gpur_dl_managed *const old = plain;
        gpur_dl_versioned *const new = versioned;
        CHECK_EQUAL(new->major, 1);
        CHECK_EQUAL(new->flags, 0);
        check_type(&old->tensor, types[i].code, types[i].bits);
        check_type(&new->tensor, types[i].code, types[i].bits);
        check_place(&old->tensor, batch, types[i].name);
        check_place(&new->tensor, batch, types[i].name);
        old->deleter(old);
        new->deleter(new);
    }
    gpur_batch_release(batch);
    kit_close(&s);
}

/* Nothing but the tensor is left of batch, replay and device. The memory checkers look over our shoulder. */
TEST(a_dlpack_tensor_outlives_all_it_came_from)
{
    gpur_batch *batch = NULL;
    void *managed = NULL;
    int64_t ids[COUNT];
    kit_scene s;
    CHECK(open_scene(&s, GPUR_UNIFORM));
    CHECK_OK(gpur_replay_sample(s.replay, COUNT, NULL, &batch));
    CHECK_OK(gpur_batch_read(batch, "id", ids, sizeof ids));
    CHECK_OK(gpur_batch_to_dlpack(batch, "id", 1, &managed));
    gpur_batch_release(batch);
    kit_close(&s);
    gpur_dl_versioned *const tensor = managed;
    if (!test_on_cuda())
        CHECK(memcmp(tensor->tensor.data, ids, sizeof ids) == 0);
    tensor->deleter(tensor);
}

/* The same draws as release and sample would give, in the same memory. */
static void check_same_draws(int32_t source)
{
    gpur_batch *again = NULL;
    kit_scene one, other;
    CHECK(open_scene(&one, source));
    CHECK(open_scene(&other, source));
    CHECK_OK(gpur_replay_sample(one.replay, COUNT, NULL, &again));
    for (int round = 0; round < 20; round++) {
        gpur_batch *fresh = NULL;
        int64_t ids[2][COUNT];
        CHECK_OK(gpur_replay_sample(other.replay, COUNT, NULL, &fresh));
        if (round > 0)
            CHECK_OK(gpur_replay_resample(one.replay, NULL, again));
        CHECK_EQUAL(kit_wrong_bytes(&one.kit, again, ids[0]), 0);
        CHECK_OK(gpur_batch_read(fresh, "id", ids[1], sizeof ids[1]));
        CHECK(memcmp(ids[0], ids[1], sizeof ids[0]) == 0);
        gpur_batch_release(fresh);
        CHECK_OK(kit_append_next(&one, 3));
        CHECK_OK(kit_append_next(&other, 3));
    }
    gpur_replay_stats stats = {.size = sizeof stats};
    CHECK_OK(gpur_replay_get_stats(one.replay, &stats));
    CHECK_EQUAL(stats.draws, 20 * COUNT);
    CHECK_EQUAL(stats.batches_made, 1);
    gpur_batch_release(again);
    kit_close(&one);
    kit_close(&other);
}

TEST(drawing_anew_gives_what_a_new_batch_would)
{
    check_same_draws(GPUR_UNIFORM);
    check_same_draws(GPUR_UNIFORM_DISTINCT);
}

TEST(a_batch_that_others_hold_is_not_drawn_into)
{
    gpur_batch *batch = NULL;
    void *managed = NULL;
    int64_t before[COUNT], after[COUNT];
    kit_scene s;
    CHECK(open_scene(&s, GPUR_UNIFORM));
    CHECK_OK(gpur_replay_sample(s.replay, COUNT, NULL, &batch));
    CHECK_OK(gpur_batch_read(batch, "id", before, sizeof before));
    CHECK_OK(gpur_batch_to_dlpack(batch, "obs", 0, &managed));
    CHECK_STATUS(gpur_replay_resample(s.replay, NULL, batch), GPUR_WOULD_BLOCK);
    CHECK_MESSAGE("2 references; it must have one");
    CHECK_OK(gpur_batch_read(batch, "id", after, sizeof after));
    CHECK(memcmp(before, after, sizeof before) == 0);
    gpur_dl_managed *const tensor = managed;
    tensor->deleter(tensor);
    CHECK_OK(gpur_replay_resample(s.replay, NULL, batch));
    gpur_batch_release(batch);
    kit_close(&s);
}

TEST(bad_hands_are_refused)
{
    gpur_batch *batch = NULL;
    void *managed = NULL;
    kit_scene s, other;
    CHECK(open_scene(&s, GPUR_UNIFORM));
    CHECK(open_scene(&other, GPUR_UNIFORM_DISTINCT));
    CHECK_OK(gpur_replay_sample(s.replay, COUNT, NULL, &batch));
    CHECK_STATUS(gpur_batch_to_dlpack(batch, "none", 0, &managed), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("no array \"none\"");
    CHECK_STATUS(gpur_batch_to_dlpack(batch, "obs", 0, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(gpur_batch_to_dlpack(NULL, "obs", 0, &managed), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(gpur_replay_resample(NULL, NULL, batch), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(gpur_replay_resample(s.replay, NULL, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(gpur_replay_resample(other.replay, NULL, batch), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("another replay");
    CHECK_STATUS(gpur_batch_wait(NULL, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_OK(gpur_batch_wait(batch, NULL));
    if (!test_on_cuda()) {
        CHECK_STATUS(gpur_batch_wait(batch, &s), GPUR_INVALID_ARGUMENT);
        CHECK_MESSAGE("on the CPU it must be NULL");
        CHECK_STATUS(gpur_replay_resample(s.replay, &s, batch), GPUR_INVALID_ARGUMENT);
    }
    gpur_batch_release(batch);
    kit_close(&s);
    kit_close(&other);
}

TEST(the_library_tells_the_size_of_its_structs)
{
    CHECK_EQUAL(gpur_struct_size("gpur_replay_config"), sizeof(gpur_replay_config));
    CHECK_EQUAL(gpur_struct_size("gpur_weight_info"), sizeof(gpur_weight_info));
    CHECK_EQUAL(gpur_struct_size("gpur_replay"), -1);
    CHECK_EQUAL(gpur_struct_size(""), -1);
    CHECK_EQUAL(gpur_struct_size(NULL), -1);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(every_array_is_a_dlpack_tensor_in_either_form);
    RUN(a_dlpack_tensor_outlives_all_it_came_from);
    RUN(drawing_anew_gives_what_a_new_batch_would);
    RUN(a_batch_that_others_hold_is_not_drawn_into);
    RUN(bad_hands_are_refused);
    RUN(the_library_tells_the_size_of_its_structs);
    return test_main_end();
}
