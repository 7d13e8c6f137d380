/* SPDX-License-Identifier: MIT */
/* Batches that users hold: their arrays, views and DLPack tensors, sampling into them again, their pool, and their
 * release on any thread, before and after the replay is destroyed. test_batch_schedules.c tests their contents. */
#include "replay/sampler/dlpack.h"
#include "support/replay_fixture.h"
#include "test.h"

#include <pthread.h>
#include <stddef.h>

enum { CAPACITY = 200, COUNT = 33, MAX_BATCH = 128, THREADS = 4 };

static const gpur_field fields[] = {{"obs", GPUR_FLOAT32, {3, 2}},      {"half", GPUR_FLOAT16, {4}},
                                    {"pixel", GPUR_UINT8, {13}},        {"action", GPUR_INT32, {0}},
                                    {"tag", GPUR_INT64, {0}},           {"terminated", GPUR_BOOL, {0}},
                                    {"discount", GPUR_FLOAT32, {0}},    {"reward", GPUR_FLOAT32, {0}},
                                    {"next_obs", GPUR_FLOAT32, {3, 2}}, {"truncated", GPUR_BOOL, {0}}};
enum { FIELDS = sizeof fields / sizeof *fields };

/* Every array of a batch: dtype, dimensions, bytes of a row, code and bits of DLPack, and its place in a view. */
static const struct {
    const char *name;
    int32_t dtype, dims;
    int64_t bytes;
    int code, bits;
    size_t view; /* 0: a view does not have it */
} arrays[] = {
    {"obs", GPUR_FLOAT32, 2, 24, 2, 32, offsetof(gpur_batch_view, obs)},
    {"half", GPUR_FLOAT16, 1, 8, 2, 16, 0},
    {"pixel", GPUR_UINT8, 1, 13, 1, 8, 0},
    {"action", GPUR_INT32, 0, 4, 0, 32, offsetof(gpur_batch_view, action)},
    {"tag", GPUR_INT64, 0, 8, 0, 64, 0},
    {"terminated", GPUR_BOOL, 0, 1, 6, 8, offsetof(gpur_batch_view, terminated)},
    {"discount", GPUR_FLOAT32, 0, 4, 2, 32, offsetof(gpur_batch_view, discount)},
    {"reward", GPUR_FLOAT32, 0, 4, 2, 32, offsetof(gpur_batch_view, reward)},
    {"next_obs", GPUR_FLOAT32, 2, 24, 2, 32, offsetof(gpur_batch_view, next_obs)},
    {"truncated", GPUR_BOOL, 0, 1, 6, 8, offsetof(gpur_batch_view, truncated)},
    {"weight", GPUR_FLOAT32, 0, 4, 2, 32, offsetof(gpur_batch_view, weight)},
    {"id", GPUR_INT64, 0, 8, 0, 64, offsetof(gpur_batch_view, id)},
};
enum { ARRAYS = sizeof arrays / sizeof *arrays };

static int open_replay(replay_fixture *s, int32_t source)
{
    gpur_replay_config config = replay_fixture_config(fields, FIELDS, CAPACITY, 20, MAX_BATCH);
    config.index_source = source;
    return replay_fixture_open(s, test_device(), &config, 1) && replay_fixture_append(s, CAPACITY) == GPUR_OK;
}

/* With a batch of COUNT rows. */
static int open_with_batch(replay_fixture *s, gpur_batch **batch)
{
    return open_replay(s, GPUR_UNIFORM) && gpur_replay_sample(s->replay, COUNT, NULL, batch) == GPUR_OK;
}

/* Samples and appends until every row of the ring has been replaced several times. */
static void churn(replay_fixture *s, int samples)
{
    for (int i = 0; i < samples; i++) {
        gpur_batch *batch = NULL;
        CHECK_OK(replay_fixture_append(s, 1));
        CHECK_OK(gpur_replay_sample(s->replay, 1 + i % MAX_BATCH, NULL, &batch));
        gpur_batch_release(batch);
    }
}

/* In the end nothing but the tensor is left of batch, replay and device. The sanitizers watch its memory. */
TEST(a_batch_outlives_its_replay_and_device_handle_and_a_tensor_outlives_the_batch)
{
    gpur_batch *old = NULL;
    void *managed = NULL;
    int64_t before[COUNT], after[COUNT];
    replay_fixture s;
    CHECK(open_with_batch(&s, &old));
    CHECK_EQUAL(count_wrong_bytes(&s.row_tags, old, before), 0);
    CHECK_OK(gpur_batch_to_dlpack(old, "id", 1, &managed));
    churn(&s, 1000);
    replay_fixture_close(&s);
    CHECK_EQUAL(count_wrong_bytes(&s.row_tags, old, after), 0);
    CHECK(memcmp(before, after, sizeof before) == 0);
    CHECK_EQUAL(gpur_batch_count(old), COUNT);
    gpur_batch_release(old);
    gpur_dl_versioned *const tensor = managed;
    CHECK(test_on_cuda() || memcmp(tensor->tensor.data, before, sizeof before) == 0);
    tensor->deleter(tensor);
}

/* A batch that is too small for its use is replaced by a larger one. */
TEST(the_pool_stops_growing_at_as_many_batches_as_are_held)
{
    static const int64_t counts[] = {1, 64, 65, 300, 200, 999, 2000, 1};
    const gpur_replay_config config = replay_fixture_config(fields, FIELDS, 5000, 20, 2000);
    gpur_replay_plan plan = {.size = sizeof plan};
    gpur_batch *held[6];
    replay_fixture s;
    CHECK(replay_fixture_open(&s, test_device(), &config, 1));
    CHECK_OK(replay_fixture_append(&s, CAPACITY));
    CHECK_OK(gpur_replay_plan_bytes(&config, &plan));
    const int64_t before = test_memory_used(s.device);
    for (size_t i = 0; i < 2 * sizeof counts / sizeof *counts; i++) {
        gpur_batch *batch = NULL;
        CHECK_OK(gpur_replay_sample(s.replay, counts[i % 8], NULL, &batch));
        if (i % 2) /* else it is released before it has been filled, perhaps */
            CHECK_EQUAL(count_wrong_bytes(&s.row_tags, batch, NULL), 0);
        gpur_batch_release(batch);
    }
    CHECK_EQUAL(test_memory_used(s.device) - before, plan.batch_bytes);
    CHECK_EQUAL(replay_fixture_stats(s.replay).batches_made, 5);
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 6; i++)
            CHECK_OK(gpur_replay_sample(s.replay, 10 + i + round, NULL, &held[i]));
        CHECK_EQUAL(replay_fixture_stats(s.replay).batches_alive, 6);
        for (int i = 0; i < 6; i++)
            gpur_batch_release(held[i]);
    }
    CHECK_EQUAL(replay_fixture_stats(s.replay).batches_alive, 0);
    CHECK_EQUAL(replay_fixture_stats(s.replay).batches_made, 5 + 5);
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

/* The bytes at its address are those that a read gives, and both forms of DLPack describe it. */
static void check_array(replay_fixture *s, gpur_batch *batch, const gpur_batch_view *view, int array)
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
    CHECK(arrays[array].view == 0 || memcmp((const char *)view + arrays[array].view, &memory, sizeof memory) == 0);
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

TEST(every_array_is_aligned_described_in_the_view_and_a_dlpack_tensor_in_either_form)
{
    gpur_batch *batch = NULL;
    gpur_batch_view view = {.size = sizeof view}, brief = {.size = offsetof(gpur_batch_view, obs)};
    replay_fixture s;
    CHECK(open_with_batch(&s, &batch));
    CHECK_OK(gpur_batch_get_view(batch, &view));
    CHECK_EQUAL(view.count, COUNT);
    for (int i = 0; i < ARRAYS; i++)
        check_array(&s, batch, &view, i);
    brief.obs = &s;
    CHECK_OK(gpur_batch_get_view(batch, &brief));
    CHECK(brief.count == COUNT && brief.obs == &s);
    gpur_batch_release(batch);
    replay_fixture_close(&s);
}

/* The same rows as in a new batch, in the same memory. */
TEST(sampling_into_a_batch_gives_the_rows_of_a_new_one)
{
    for (int32_t source = GPUR_UNIFORM; source <= GPUR_UNIFORM_DISTINCT; source++) {
        gpur_batch *again = NULL;
        replay_fixture one, other;
        CHECK(open_replay(&one, source));
        CHECK(open_replay(&other, source));
        for (int round = 0; round < 20; round++) {
            int64_t ids[2][COUNT];
            CHECK_OK(round == 0 ? gpur_replay_sample(one.replay, COUNT, NULL, &again)
                                : gpur_replay_sample_into(one.replay, NULL, again));
            CHECK_EQUAL(count_wrong_bytes(&one.row_tags, again, ids[0]), 0);
            CHECK_OK(replay_fixture_sample(&other, COUNT, ids[1]));
            CHECK(memcmp(ids[0], ids[1], sizeof ids[0]) == 0);
            CHECK_OK(replay_fixture_append(&one, 3));
            CHECK_OK(replay_fixture_append(&other, 3));
        }
        const gpur_replay_stats stats = replay_fixture_stats(one.replay);
        CHECK(stats.sampled == 20 * COUNT && stats.batches_made == 1);
        gpur_batch_release(again);
        replay_fixture_close(&one);
        replay_fixture_close(&other);
    }
}

TEST(a_view_has_null_for_fields_that_the_schema_lacks)
{
    const gpur_replay_config config = replay_fixture_plain_config(300, 20, MAX_BATCH, GPUR_FLUSH_AUTO);
    gpur_batch *batch = NULL;
    gpur_batch_view view = {.size = sizeof view};
    replay_fixture s;
    CHECK(replay_fixture_open(&s, test_device(), &config, 1));
    CHECK_OK(replay_fixture_append(&s, 20));
    CHECK_OK(gpur_replay_sample(s.replay, 1, NULL, &batch));
    CHECK_OK(gpur_batch_get_view(batch, &view));
    CHECK(!view.obs && !view.action && !view.reward && !view.next_obs && !view.truncated);
    CHECK(view.terminated && view.discount && view.weight && view.id);
    gpur_batch_release(batch);
    replay_fixture_close(&s);
}

#define REFUSED(call) CHECK_STATUS(call, GPUR_INVALID_ARGUMENT)

TEST(bad_calls_are_refused_with_the_values_given_and_wanted)
{
    gpur_batch_view view = {.size = sizeof view};
    gpur_batch *batch = NULL, *none = NULL;
    void *memory = &batch, *managed = NULL;
    float few[2];
    replay_fixture s, other;
    CHECK(open_with_batch(&s, &batch));
    CHECK(open_replay(&other, GPUR_UNIFORM_DISTINCT));
    REFUSED(gpur_batch_get_array(batch, "next", &memory, NULL));
    CHECK_MESSAGE("no array \"next\"");
    CHECK(memory == &batch);
    REFUSED(gpur_batch_get_array(batch, NULL, &memory, NULL));
    REFUSED(gpur_batch_get_array(batch, "obs", NULL, NULL));
    REFUSED(gpur_batch_get_array(NULL, "obs", &memory, NULL));
    REFUSED(gpur_batch_get_view(batch, NULL));
    REFUSED(gpur_batch_get_view(NULL, &view));
    view.size = 0;
    REFUSED(gpur_batch_get_view(batch, &view));
    CHECK_MESSAGE("gpur_batch_view.size is 0");
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
    CHECK_EQUAL(replay_fixture_stats(s.replay).sampled, COUNT);
    gpur_batch_release(batch);
    replay_fixture_close(&s);
    replay_fixture_close(&other);
    CHECK_EQUAL(gpur_struct_size("gpur_replay_config"), sizeof(gpur_replay_config));
    CHECK_EQUAL(gpur_struct_size("gpur_weight_info"), sizeof(gpur_weight_info));
    CHECK(gpur_struct_size("gpur_replay") == -1 && gpur_struct_size("") == -1 && gpur_struct_size(NULL) == -1);
}

typedef struct release {
    gpur_batch *batch;
    atomic_int *ready;
    int threads; /* that release at once */
    int retains; /* before that: so often it is retained and released */
} release;

static void *release_at_once(void *context)
{
    release *const r = context;
    atomic_fetch_add(r->ready, 1);
    while (atomic_load(r->ready) < r->threads)
        ;
    for (int i = 0; i < r->retains; i++) {
        gpur_batch_retain(r->batch);
        gpur_batch_release(r->batch);
    }
    gpur_batch_release(r->batch);
    return NULL;
}

/* The sanitizers report a use after the end; without them most wrong orders crash. Threads release at once, each a
 * batch, or all the same one. The replay is destroyed before, or meanwhile if it has `idle` batches to free. */
static void check_end(int threads, int idle, int is_shared)
{
    gpur_batch *held[CAPACITY];
    release releases[THREADS];
    pthread_t thread[THREADS];
    atomic_int ready = 0;
    replay_fixture s;
    const gpur_replay_config config = replay_fixture_plain_config(300, 20, MAX_BATCH, GPUR_FLUSH_AUTO);
    CHECK(replay_fixture_open(&s, test_device(), &config, 1));
    CHECK_OK(replay_fixture_append(&s, 20));
    for (int i = 0; i < threads + idle; i++)
        if (is_shared && i > 0)
            gpur_batch_retain(held[i] = held[0]);
        else
            CHECK_OK(gpur_replay_sample(s.replay, 100, NULL, &held[i]));
    CHECK_EQUAL(replay_fixture_stats(s.replay).batches_alive, is_shared ? 1 : threads + idle);
    for (int i = threads; i < threads + idle; i++)
        gpur_batch_release(held[i]);
    if (!idle && !is_shared)
        replay_fixture_close(&s);
    for (int i = 0; i < threads; i++) {
        releases[i] = (release){held[i], &ready, threads + (idle > 0), is_shared ? 20000 : 0};
        CHECK(pthread_create(&thread[i], NULL, release_at_once, &releases[i]) == 0);
    }
    if (idle) {
        release_at_once(&(release){NULL, &ready, threads + 1, 0});
        replay_fixture_close(&s);
    }
    for (int i = 0; i < threads; i++)
        pthread_join(thread[i], NULL);
    if (is_shared) {
        CHECK_EQUAL(replay_fixture_stats(s.replay).batches_alive, 0);
        replay_fixture_close(&s);
    }
}

TEST(batches_may_be_released_while_their_replay_is_destroyed_and_after)
{
    const int rounds = IN_RACE_CHECK ? 3 : test_is_long() ? 4000 : 300;
    check_end(THREADS, 0, 1);
    for (int round = 0; round < rounds; round++) {
        check_end(THREADS, 0, 0);
        check_end(1, 39, 0);
    }
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(a_batch_outlives_its_replay_and_device_handle_and_a_tensor_outlives_the_batch);
    RUN(the_pool_stops_growing_at_as_many_batches_as_are_held);
    RUN(every_array_is_aligned_described_in_the_view_and_a_dlpack_tensor_in_either_form);
    RUN(sampling_into_a_batch_gives_the_rows_of_a_new_one);
    RUN(a_view_has_null_for_fields_that_the_schema_lacks);
    RUN(bad_calls_are_refused_with_the_values_given_and_wanted);
    RUN(batches_may_be_released_while_their_replay_is_destroyed_and_after);
    return test_main_end();
}
