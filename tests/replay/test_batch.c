/* SPDX-License-Identifier: MIT */
/* Batches that users hold: their arrays, views and DLPack tensors, drawing anew into their memory, their pool, and
 * their release on any thread, before and after the replay has gone. */
#include "replay/sampler/dlpack.h"
#include "support/replay_fixture.h"
#include "test.h"

#include <pthread.h>
#include <stddef.h>

enum { CAPACITY = 200, COUNT = 33, MAX_BATCH = 128, THREADS = 4 };

static const gpur_field fields[] = {{"obs", GPUR_FLOAT32, {3, 2}},  {"half", GPUR_FLOAT16, {4}},
                                    {"pixel", GPUR_UINT8, {13}},    {"action", GPUR_INT32, {0}},
                                    {"tag", GPUR_INT64, {0}},       {"terminated", GPUR_BOOL, {0}},
                                    {"discount", GPUR_FLOAT32, {0}}};
enum { FIELDS = sizeof fields / sizeof *fields };

/* Every array of a batch: dtype, shape, and code and bits of DLPack. */
static const struct {
    const char *name;
    int32_t dtype, dims;
    int64_t bytes;
    int code, bits;
} arrays[] = {
    {"obs", GPUR_FLOAT32, 2, 24, 2, 32},     {"half", GPUR_FLOAT16, 1, 8, 2, 16},
    {"pixel", GPUR_UINT8, 1, 13, 1, 8},      {"action", GPUR_INT32, 0, 4, 0, 32},
    {"tag", GPUR_INT64, 0, 8, 0, 64},        {"terminated", GPUR_BOOL, 0, 1, 6, 8},
    {"discount", GPUR_FLOAT32, 0, 4, 2, 32}, {"weight", GPUR_FLOAT32, 0, 4, 2, 32},
    {"id", GPUR_INT64, 0, 8, 0, 64},
};
enum { ARRAYS = sizeof arrays / sizeof *arrays };

static int open_scene(replay_fixture *s, int32_t source)
{
    gpur_replay_config config = replay_fixture_config(fields, FIELDS, CAPACITY, 20, MAX_BATCH);
    config.index_source = source;
    return replay_fixture_open(s, test_device(), &config, 1) && replay_fixture_append(s, CAPACITY) == GPUR_OK;
}

/* With a batch of COUNT rows. */
static int open_drawn(replay_fixture *s, gpur_batch **batch)
{
    return open_scene(s, GPUR_UNIFORM) && gpur_replay_sample(s->replay, COUNT, NULL, batch) == GPUR_OK;
}

/* Draws and appends until every row of the ring has been replaced several times. */
static void churn(replay_fixture *s, int draws)
{
    for (int i = 0; i < draws; i++) {
        gpur_batch *batch = NULL;
        CHECK_OK(replay_fixture_append(s, 1));
        CHECK_OK(gpur_replay_sample(s->replay, 1 + i % MAX_BATCH, NULL, &batch));
        gpur_batch_release(batch);
    }
}

TEST(a_batch_keeps_its_contents_and_outlives_its_replay_and_its_device_handle)
{
    gpur_batch *old = NULL;
    int64_t before[COUNT], after[COUNT];
    replay_fixture s;
    CHECK(open_drawn(&s, &old));
    CHECK_EQUAL(count_wrong_bytes(&s.row_tags, old, before), 0);
    churn(&s, 1000);
    replay_fixture_close(&s);
    CHECK_EQUAL(count_wrong_bytes(&s.row_tags, old, after), 0);
    CHECK(memcmp(before, after, sizeof before) == 0);
    gpur_batch_retain(old);
    gpur_batch_release(old);
    CHECK_EQUAL(gpur_batch_count(old), COUNT);
    gpur_batch_release(old);
}

TEST(the_pool_stops_growing)
{
    gpur_batch *held[6];
    replay_fixture s;
    CHECK(open_scene(&s, GPUR_UNIFORM));
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 6; i++)
            CHECK_OK(gpur_replay_sample(s.replay, 10 + i + round, NULL, &held[i]));
        CHECK_EQUAL(kit_stats(s.replay).batches_alive, 6);
        for (int i = 0; i < 6; i++)
            gpur_batch_release(held[i]);
    }
    CHECK_EQUAL(kit_stats(s.replay).batches_alive, 0);
    CHECK_EQUAL(kit_stats(s.replay).batches_made, 6);
    churn(&s, 300); /* up to 128 rows: batches of 64 rows do not do */
    CHECK_EQUAL(kit_stats(s.replay).batches_made, 7);
    churn(&s, 300);
    CHECK_EQUAL(kit_stats(s.replay).batches_made, 7);
    replay_fixture_close(&s);
}

TEST(a_small_batch_makes_way_for_a_larger_one)
{
    static const int64_t counts[] = {1, 64, 65, 300, 200, 999, 2000, 1};
    const gpur_replay_config config = replay_fixture_config(fields, FIELDS, 5000, 20, 2000);
    gpur_replay_plan plan = {.size = sizeof plan};
    replay_fixture s;
    CHECK(replay_fixture_open(&s, test_device(), &config, 1));
    CHECK_OK(replay_fixture_append(&s, CAPACITY));
    CHECK_OK(gpur_replay_plan_bytes(&config, &plan));
    const int64_t before = kit_memory_used(s.device);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        gpur_batch *batch = NULL;
        CHECK_OK(gpur_replay_sample(s.replay, counts[i], NULL, &batch));
        if (i % 2) /* else it goes back before it has been filled, perhaps */
            CHECK_EQUAL(count_wrong_bytes(&s.row_tags, batch, NULL), 0);
        gpur_batch_release(batch);
    }
    CHECK_EQUAL(kit_memory_used(s.device) - before, plan.batch_bytes);
    CHECK_EQUAL(kit_stats(s.replay).batches_made, 5);
    replay_fixture_close(&s);
}

static void check_tensor(const gpur_dl_tensor *tensor, const void *memory, const gpur_field_info *info, int array)
{
    CHECK(tensor->code == arrays[array].code && tensor->bits == arrays[array].bits && tensor->lanes == 1);
    CHECK(tensor->data == memory && tensor->byte_offset == 0);
    CHECK(tensor->device_type == (test_on_cuda() ? 2 : 1) && tensor->device_id == 0);
    CHECK_EQUAL(tensor->ndim, info->dims + 1);
    int64_t stride = 1;
    for (int32_t axis = info->dims; axis >= 0; axis--) {
        CHECK_EQUAL(tensor->strides[axis], stride);
        CHECK_EQUAL(tensor->shape[axis], axis ? info->shape[axis - 1] : COUNT);
        stride *= tensor->shape[axis];
    }
}

/* The bytes at its address are those that a read gives, and both forms of DLPack tell the same of it. */
static void check_array(replay_fixture *s, gpur_batch *batch, int array)
{
    const char *const name = arrays[array].name;
    unsigned char read[COUNT * 24], raw[COUNT * 24];
    const int64_t bytes = COUNT * arrays[array].bytes;
    gpur_field_info info = {.size = sizeof info};
    void *memory = NULL, *plain = NULL, *versioned = NULL;
    CHECK_OK(gpur_batch_get_array(batch, name, &memory, NULL));
    CHECK_OK(gpur_batch_get_array(batch, name, &memory, &info));
    CHECK((uintptr_t)memory % 256 == 0 && memory);
    CHECK(strcmp(info.name, name) == 0 && info.dtype == arrays[array].dtype && info.bytes == arrays[array].bytes);
    CHECK(info.dims == arrays[array].dims && info.offset == 0);
    CHECK_OK(gpur_batch_sync(batch));
    CHECK_OK(gpur_batch_read(batch, name, read, bytes));
    CHECK_OK(gpur_device_copy(s->device, raw, memory, bytes));
    CHECK(memcmp(read, raw, (size_t)bytes) == 0);
    CHECK_OK(gpur_batch_to_dlpack(batch, name, 0, &plain));
    CHECK_OK(gpur_batch_to_dlpack(batch, name, 1, &versioned));
    gpur_dl_managed *const old = plain;
    gpur_dl_versioned *const new = versioned;
    CHECK(new->major == 1 && new->flags == 0);
    check_tensor(&old->tensor, memory, &info, array);
    check_tensor(&new->tensor, memory, &info, array);
    old->deleter(old);
    new->deleter(new);
}

TEST(every_array_is_aligned_described_and_a_dlpack_tensor_in_either_form)
{
    gpur_batch *batch = NULL;
    replay_fixture s;
    CHECK(open_drawn(&s, &batch));
    for (int i = 0; i < ARRAYS; i++)
        check_array(&s, batch, i);
    gpur_batch_release(batch);
    replay_fixture_close(&s);
}

/* Nothing but the tensor is left of batch, replay and device. The memory checkers look over our shoulder. */
TEST(a_dlpack_tensor_outlives_all_it_came_from)
{
    gpur_batch *batch = NULL;
    void *managed = NULL;
    int64_t ids[COUNT];
    replay_fixture s;
    CHECK(open_drawn(&s, &batch));
    CHECK_OK(gpur_batch_read(batch, "id", ids, sizeof ids));
    CHECK_OK(gpur_batch_to_dlpack(batch, "id", 1, &managed));
    gpur_batch_release(batch);
    replay_fixture_close(&s);
    gpur_dl_versioned *const tensor = managed;
    CHECK(test_on_cuda() || memcmp(tensor->tensor.data, ids, sizeof ids) == 0);
    tensor->deleter(tensor);
}

/* The same draws as release and sample would give, in the same memory. */
TEST(drawing_anew_gives_what_a_new_batch_would)
{
    for (int32_t source = GPUR_UNIFORM; source <= GPUR_UNIFORM_DISTINCT; source++) {
        gpur_batch *again = NULL;
        replay_fixture one, other;
        CHECK(open_scene(&one, source));
        CHECK(open_scene(&other, source));
        for (int round = 0; round < 20; round++) {
            int64_t ids[2][COUNT];
            CHECK_OK(round == 0 ? gpur_replay_sample(one.replay, COUNT, NULL, &again)
                                : gpur_replay_sample_into(one.replay, NULL, again));
            CHECK_EQUAL(count_wrong_bytes(&one.row_tags, again, ids[0]), 0);
            CHECK_OK(kit_sample(&other, COUNT, ids[1]));
            CHECK(memcmp(ids[0], ids[1], sizeof ids[0]) == 0);
            CHECK_OK(replay_fixture_append(&one, 3));
            CHECK_OK(replay_fixture_append(&other, 3));
        }
        const gpur_replay_stats stats = kit_stats(one.replay);
        CHECK(stats.sampled == 20 * COUNT && stats.batches_made == 1);
        gpur_batch_release(again);
        replay_fixture_close(&one);
        replay_fixture_close(&other);
    }
}

TEST(a_batch_that_others_hold_is_not_drawn_into)
{
    gpur_batch *batch = NULL;
    void *managed = NULL;
    int64_t before[COUNT], after[COUNT];
    replay_fixture s;
    CHECK(open_drawn(&s, &batch));
    CHECK_OK(gpur_batch_read(batch, "id", before, sizeof before));
    CHECK_OK(gpur_batch_to_dlpack(batch, "obs", 0, &managed));
    CHECK_STATUS(gpur_replay_sample_into(s.replay, NULL, batch), GPUR_WOULD_BLOCK);
    CHECK_MESSAGE("2 references; it must have one");
    CHECK_OK(gpur_batch_read(batch, "id", after, sizeof after));
    CHECK(memcmp(before, after, sizeof before) == 0);
    gpur_dl_managed *const tensor = managed;
    tensor->deleter(tensor);
    CHECK_OK(gpur_replay_sample_into(s.replay, NULL, batch));
    gpur_batch_release(batch);
    replay_fixture_close(&s);
}

/* One call tells where the arrays lie that learners read, and what the schema does not have is NULL. */
TEST(a_view_has_the_addresses_of_all_usual_arrays)
{
    static const gpur_field all[] = {{"obs", GPUR_FLOAT32, {3}},     {"action", GPUR_INT32, {0}},
                                     {"reward", GPUR_FLOAT32, {0}},  {"next_obs", GPUR_FLOAT32, {3}},
                                     {"terminated", GPUR_BOOL, {0}}, {"truncated", GPUR_BOOL, {0}},
                                     {"discount", GPUR_FLOAT32, {0}}};
    static const gpur_field one = {"x", GPUR_FLOAT32, {0}};
    static const char *const names[] = {"obs",       "action",   "reward", "next_obs", "terminated",
                                        "truncated", "discount", "weight", "id"};
    for (int has_all = 0; has_all < 2; has_all++) {
        const gpur_replay_config config =
            replay_fixture_config(has_all ? all : &one, has_all ? 7 : 1, CAPACITY, 20, 128);
        gpur_batch_view view = {.size = sizeof view}, brief = {.size = offsetof(gpur_batch_view, obs)};
        gpur_batch *batch = NULL;
        replay_fixture s;
        CHECK(replay_fixture_open(&s, test_device(), &config, 1));
        CHECK_OK(replay_fixture_append(&s, CAPACITY));
        CHECK_OK(gpur_replay_sample(s.replay, COUNT, NULL, &batch));
        CHECK_OK(gpur_batch_get_view(batch, &view));
        const void *const seen[] = {view.obs,       view.action,   view.reward, view.next_obs, view.terminated,
                                    view.truncated, view.discount, view.weight, view.id};
        CHECK_EQUAL(view.count, COUNT);
        for (int i = 0; i < 9; i++) {
            void *at = NULL;
            const gpur_status status = gpur_batch_get_array(batch, names[i], &at, NULL);
            CHECK_STATUS(status, has_all || i > 5 ? GPUR_OK : GPUR_INVALID_ARGUMENT);
            CHECK(seen[i] == at);
        }
        brief.obs = &s;
        CHECK_OK(gpur_batch_get_view(batch, &brief));
        CHECK(brief.count == COUNT && brief.obs == &s);
        view.size = 0;
        CHECK_STATUS(gpur_batch_get_view(batch, &view), GPUR_INVALID_ARGUMENT);
        CHECK_MESSAGE("gpur_batch_view.size is 0");
        gpur_batch_release(batch);
        replay_fixture_close(&s);
    }
}

TEST(a_stored_discount_is_the_batchs_discount)
{
    static const gpur_field own[] = {{"discount", GPUR_FLOAT32, {0}}, {"terminated", GPUR_BOOL, {0}}};
    static const struct {
        float discount;
        uint8_t terminated;
    } rows[2] = {{0.125f, 0}, {0.375f, 1}};
    const gpur_replay_config config = replay_fixture_config(own, 2, 10, 2, 4);
    float discount[2];
    gpur_batch *batch = NULL;
    replay_fixture s;
    CHECK(replay_fixture_open(&s, test_device(), &config, 1));
    CHECK_OK(gpur_writer_append(s.writer, 2, rows, NULL));
    CHECK_OK(gpur_replay_gather(s.replay, 2, (const int64_t[]){0, 1}, NULL, &batch));
    CHECK_OK(gpur_batch_read(batch, "discount", discount, sizeof discount));
    CHECK(discount[0] == 0.125f && discount[1] == 0.375f);
    gpur_batch_release(batch);
    replay_fixture_close(&s);
}

#define REFUSED(call) CHECK_STATUS(call, GPUR_INVALID_ARGUMENT)

TEST(wrong_questions_get_answers_with_numbers)
{
    gpur_batch_view view = {.size = sizeof view};
    gpur_batch *batch = NULL, *none = NULL;
    void *memory = &batch, *managed = NULL;
    float few[2];
    replay_fixture s, other;
    CHECK(open_drawn(&s, &batch));
    CHECK(open_scene(&other, GPUR_UNIFORM_DISTINCT));
    REFUSED(gpur_batch_get_array(batch, "next_obs", &memory, NULL));
    CHECK_MESSAGE("no array \"next_obs\"");
    CHECK(memory == &batch);
    REFUSED(gpur_batch_get_array(batch, NULL, &memory, NULL));
    REFUSED(gpur_batch_get_array(batch, "obs", NULL, NULL));
    REFUSED(gpur_batch_get_array(NULL, "obs", &memory, NULL));
    REFUSED(gpur_batch_get_view(batch, NULL));
    REFUSED(gpur_batch_get_view(NULL, &view));
    REFUSED(gpur_batch_read(batch, "weight", few, sizeof few));
    CHECK_MESSAGE("bytes is 8; array \"weight\" of 33 transitions has 132");
    REFUSED(gpur_batch_read(batch, "weight", NULL, 132));
    REFUSED(gpur_batch_sync(NULL));
    REFUSED(gpur_batch_wait(NULL, NULL));
    CHECK_OK(gpur_batch_wait(batch, NULL));
    REFUSED(gpur_batch_to_dlpack(batch, "none", 0, &managed));
    CHECK_MESSAGE("no array \"none\"");
    REFUSED(gpur_batch_to_dlpack(batch, "obs", 0, NULL));
    REFUSED(gpur_batch_to_dlpack(NULL, "obs", 0, &managed));
    REFUSED(gpur_replay_sample_into(NULL, NULL, batch));
    REFUSED(gpur_replay_sample_into(s.replay, NULL, NULL));
    REFUSED(gpur_replay_sample_into(other.replay, NULL, batch));
    CHECK_MESSAGE("another replay");
    CHECK_EQUAL(gpur_batch_count(NULL), 0);
    gpur_batch_release(NULL);
    if (!test_on_cuda()) {
        REFUSED(gpur_replay_sample(s.replay, 1, &s, &none));
        CHECK_MESSAGE("on the CPU it must be NULL");
        REFUSED(gpur_batch_wait(batch, &s));
        CHECK_MESSAGE("on the CPU it must be NULL");
        REFUSED(gpur_replay_sample_into(s.replay, &s, batch));
    }
    REFUSED(gpur_replay_sample(s.replay, 129, NULL, &none));
    CHECK_MESSAGE("count is 129; it must be 1 to max_batch = 128");
    REFUSED(gpur_replay_sample(s.replay, 1, NULL, NULL));
    REFUSED(gpur_replay_sample(NULL, 1, NULL, &none));
    REFUSED(gpur_replay_gather(s.replay, 1, NULL, NULL, &none));
    CHECK(none == NULL);
    CHECK_EQUAL(kit_stats(s.replay).sampled, COUNT);
    gpur_batch_release(batch);
    replay_fixture_close(&s);
    replay_fixture_close(&other);
    CHECK_EQUAL(gpur_struct_size("gpur_replay_config"), sizeof(gpur_replay_config));
    CHECK_EQUAL(gpur_struct_size("gpur_weight_info"), sizeof(gpur_weight_info));
    CHECK(gpur_struct_size("gpur_replay") == -1 && gpur_struct_size("") == -1 && gpur_struct_size(NULL) == -1);
}

static void *take_and_drop(void *context)
{
    for (int i = 0; i < 20000; i++) {
        gpur_batch_retain(context);
        gpur_batch_release(context);
    }
    gpur_batch_release(context);
    return NULL;
}

TEST(references_may_be_dropped_on_any_thread)
{
    gpur_batch *batch = NULL;
    pthread_t threads[THREADS];
    replay_fixture s;
    CHECK(open_drawn(&s, &batch));
    for (int i = 0; i < THREADS; i++) {
        gpur_batch_retain(batch);
        CHECK(pthread_create(&threads[i], NULL, take_and_drop, batch) == 0);
    }
    CHECK_EQUAL(count_wrong_bytes(&s.row_tags, batch, NULL), 0);
    gpur_batch_release(batch);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQUAL(kit_stats(s.replay).batches_alive, 0);
    replay_fixture_close(&s);
}

typedef struct dropper {
    gpur_batch *batch;
    atomic_int *ready;
    int threads; /* that release at once */
} dropper;

static void *drop(void *context)
{
    dropper *const d = context;
    atomic_fetch_add(d->ready, 1);
    while (atomic_load(d->ready) < d->threads)
        ;
    gpur_batch_release(d->batch);
    return NULL;
}

/* The sanitizers say what was used after its end; without them most wrong orders crash. The last of the pool are
 * released by all threads at once, when the replay and the device handle have gone; or one is, while the replay goes
 * and has `idle` others to destroy. */
static void check_end(int threads, int idle)
{
    gpur_batch *held[CAPACITY];
    dropper droppers[THREADS];
    pthread_t thread[THREADS];
    atomic_int ready = 0;
    replay_fixture s;
    const gpur_replay_config config = replay_fixture_plain_config(300, 20, MAX_BATCH, GPUR_FLUSH_AUTO);
    CHECK(replay_fixture_open(&s, test_device(), &config, 1));
    CHECK_OK(replay_fixture_append(&s, 20));
    for (int i = 0; i < threads + idle; i++)
        CHECK_OK(gpur_replay_sample(s.replay, 100, NULL, &held[i]));
    for (int i = threads; i < threads + idle; i++)
        gpur_batch_release(held[i]);
    if (!idle)
        replay_fixture_close(&s);
    for (int i = 0; i < threads; i++) {
        droppers[i] = (dropper){held[i], &ready, threads + (idle > 0)};
        CHECK(pthread_create(&thread[i], NULL, drop, &droppers[i]) == 0);
    }
    if (idle) {
        drop(&(dropper){NULL, &ready, threads + 1});
        replay_fixture_close(&s);
    }
    for (int i = 0; i < threads; i++)
        pthread_join(thread[i], NULL);
}

TEST(batches_may_be_released_while_their_replay_goes_and_after)
{
#ifdef GPUR_RACE_CHECK /* where the question is kernels */
    const int rounds = 3;
#else
    const int rounds = test_is_long() ? 4000 : 300;
#endif
    for (int round = 0; round < rounds; round++) {
        check_end(THREADS, 0);
        check_end(1, 39);
    }
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(a_batch_keeps_its_contents_and_outlives_its_replay_and_its_device_handle);
    RUN(the_pool_stops_growing);
    RUN(a_small_batch_makes_way_for_a_larger_one);
    RUN(every_array_is_aligned_described_and_a_dlpack_tensor_in_either_form);
    RUN(a_dlpack_tensor_outlives_all_it_came_from);
    RUN(drawing_anew_gives_what_a_new_batch_would);
    RUN(a_batch_that_others_hold_is_not_drawn_into);
    RUN(a_view_has_the_addresses_of_all_usual_arrays);
    RUN(a_stored_discount_is_the_batchs_discount);
    RUN(wrong_questions_get_answers_with_numbers);
    RUN(references_may_be_dropped_on_any_thread);
    RUN(batches_may_be_released_while_their_replay_goes_and_after);
    return test_main_end();
}
