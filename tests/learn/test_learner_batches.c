/* SPDX-License-Identifier: MIT */
/* The buffers of host batches: acquiring and returning them, refusals, their memory, and how their rows are gathered.
 * test_learner.c and test_learner_bits.c check the training on them. */
#include "test.h"
#include "base/red_zone.h"
#include "device/backend.h"
#include "learn/dqn/dqn.h"
#include "support/learner_fixture.h"

enum { BATCH = 16, ROW = sizeof(learner_fixture_row) };

static gpur_device *device;
static learner_fixture fixture;

static gpur_dqn_config rows_config(int32_t host_batches)
{
    gpur_dqn_config config = learner_fixture_config(GPUR_HEAD_Q, 0);
    config.host_batches = host_batches;
    return config;
}

TEST(a_config_of_before_there_were_buffers_has_none)
{
    gpur_dqn_config config = rows_config(5);
    gpur_learner *learner = NULL;
    void *rows = &config;
    config.size = offsetof(gpur_dqn_config, host_batches);
    CHECK_OK(learner_fixture_open(&fixture, device, 0));
    CHECK_OK(gpur_dqn_create(fixture.replay, &config, &learner));
    CHECK_STATUS(gpur_learner_acquire_host_batch(learner, &rows), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("host_batches 0; rows in RAM need 1 to 16");
    CHECK(!rows);
    CHECK_FAILS(gpur_learner_train_host_batch(learner, fixture.rows), GPUR_INVALID_ARGUMENT, "host_batches 0");
    learner_fixture_close_learner(&fixture, learner);
}

/* The status of a refused call, and a part of its message; "": any message. */
static void check_refused(gpur_status status, const char *message)
{
    CHECK_EQUAL(status, GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE(message);
}

TEST(buffers_come_in_turn_are_apart_and_come_back_trained_or_not)
{
    gpur_learner *const learner = learner_fixture_open_learner(&fixture, device, rows_config(3));
    unsigned char *b[3];
    void *again = &fixture;
    CHECK(learner);
    for (int i = 0; i < 3; i++) {
        void *rows = NULL;
        CHECK_OK(gpur_learner_acquire_host_batch(learner, &rows));
        CHECK_EQUAL((uintptr_t)rows % 256, 0);
        b[i] = memset(rows, i, BATCH * ROW);
    }
    for (int i = 0; i < 3; i++)
        CHECK(b[i][0] == i && b[i][BATCH * ROW - 1] == i);
    CHECK_FAILS(gpur_learner_acquire_host_batch(learner, &again), GPUR_WOULD_BLOCK, "all 3 host batches are acquired");
    CHECK(!again);
    CHECK_STATUS(gpur_learner_train_host_batch(learner, fixture.rows), GPUR_WOULD_BLOCK);
    check_refused(gpur_learner_train_host_batch(learner, b[0] + ROW),
                  "rows is 52 bytes behind the start of host batch 0");
    CHECK_OK(gpur_learner_release_host_batch(learner, b[2])); /* untrained */
    check_refused(gpur_learner_release_host_batch(learner, b[2]), "rows is host batch 2, which was released");
    check_refused(gpur_learner_release_host_batch(learner, fixture.rows), "none of the host batches");
    CHECK_OK(gpur_learner_acquire_host_batch(learner, &again));
    CHECK(again == b[2]);
    CHECK_EQUAL(learner_fixture_stats(learner).steps_enqueued, 0);
    memcpy(b[1], fixture.rows, BATCH * ROW);
    CHECK_OK(gpur_learner_train_host_batch(learner, b[1]));
    check_refused(gpur_learner_train_host_batch(learner, b[1]), "rows is host batch 1, which was released");
    CHECK_OK(gpur_learner_acquire_host_batch(learner, &again));
    CHECK(again == b[1]);
    check_refused(gpur_learner_train_host_batch(learner, NULL), "rows is NULL; it must be (batch_size, row_bytes)");
    check_refused(gpur_learner_train_host_batch(NULL, fixture.rows), "");
    check_refused(gpur_learner_release_host_batch(learner, NULL), "");
    check_refused(gpur_learner_release_host_batch(NULL, b[1]), "");
    check_refused(gpur_learner_acquire_host_batch(learner, NULL), "");
    check_refused(gpur_learner_acquire_host_batch(NULL, &again), "");
    CHECK(!again);
    CHECK_EQUAL(learner_fixture_stats(learner).steps_enqueued, 1);
    learner_fixture_close_learner(&fixture, learner);
}

TEST(rows_with_numbers_that_are_not_finite_are_refused)
{
    static unsigned char rows[BATCH * ROW];
    const float bad = INFINITY;
    gpur_learner *const learner = learner_fixture_open_learner(&fixture, device, rows_config(1));
    CHECK(learner);
    memcpy(rows, fixture.rows, sizeof rows);
    memcpy(rows + 3 * ROW, &bad, sizeof bad);
    check_refused(gpur_learner_train_host_batch(learner, rows), "\"obs\" is infinite in row 3 of ");
    CHECK_EQUAL(learner_fixture_stats(learner).steps_enqueued, 0);
    CHECK_OK(gpur_learner_train_host_batch(learner, fixture.rows));
    learner_fixture_close_learner(&fixture, learner);
}

/* On the CPU device memory is host memory, so this is refused only on CUDA. */
TEST(memory_of_the_device_is_refused_on_cuda)
{
    gpur_learner *const learner = learner_fixture_open_learner(&fixture, device, rows_config(1));
    void *memory = NULL;
    CHECK(learner);
    CHECK_OK(gpur_device_alloc(device, BATCH * ROW, &memory));
    const gpur_status status = gpur_learner_train_host_batch(learner, memory);
    CHECK_EQUAL(status, test_on_cuda() ? GPUR_INVALID_ARGUMENT : GPUR_OK);
    if (test_on_cuda())
        CHECK_MESSAGE("it must be host memory");
    CHECK_OK(gpur_learner_sync(learner));
    learner_fixture_close_learner(&fixture, learner);
    gpur_device_free(device, memory);
}

static void measure(int32_t host_batches, gpur_learner_stats *stats, int64_t *used)
{
    gpur_device_info before = {.size = sizeof before}, with = {.size = sizeof with}, after = {.size = sizeof after};
    const gpur_dqn_config config = rows_config(host_batches);
    gpur_learner *learner = NULL;
    CHECK_OK(learner_fixture_open(&fixture, device, 0));
    const size_t allocations = device->allocations.count;
    CHECK_OK(gpur_device_get_info(device, &before));
    CHECK_OK(gpur_dqn_create(fixture.replay, &config, &learner));
    CHECK_OK(gpur_device_get_info(device, &with));
    *stats = learner_fixture_stats(learner);
    *used = with.memory_used - before.memory_used;
    gpur_learner_destroy(learner);
    CHECK_OK(gpur_device_get_info(device, &after));
    CHECK_EQUAL(after.memory_used, before.memory_used);
    CHECK_EQUAL(device->allocations.count, allocations); /* includes pinned memory, which memory_used does not */
    learner_fixture_close(&fixture);
}

/* 16 rows of 52 bytes are 832 bytes, 1,024 when rounded up to multiples of 256. ids and window take 256 each. */
TEST(memory_is_taken_at_creation_and_counted)
{
    gpur_learner_stats none, some;
    int64_t used_none = 0, used_some = 0;
    measure(0, &none, &used_none);
    measure(5, &some, &used_some);
    CHECK_EQUAL(some.pinned_bytes - none.pinned_bytes, 5 * 1024);
    CHECK_EQUAL(some.device_bytes - none.device_bytes, 2 * 1024 + 256 + 256 + 4 * GPUR_RED_ZONE);
    CHECK_EQUAL(used_none, none.device_bytes);
    CHECK_EQUAL(used_some, some.device_bytes);
    CHECK(none.pinned_bytes > BATCH * 8);
}

/* 4 numbers are one load of 16 bytes in the ring, whose rows start on multiples of 64. In host memory rows of 44 bytes
 * lie one behind the other. */
TEST(units_of_a_copy_fit_rows_without_padding)
{
    const gpur_field fields[] = {
        {"obs", GPUR_FLOAT32, {4}},      {"action", GPUR_INT32, {0}},    {"reward", GPUR_FLOAT32, {0}},
        {"next_obs", GPUR_FLOAT32, {4}}, {"terminated", GPUR_BOOL, {0}},
    };
    const gpur_dqn_config config = rows_config(2);
    gpur_replay_config replay_config;
    gpur_replay *replay = NULL;
    gpur_writer *writer = NULL;
    gpur_learner *learner = NULL;
    CHECK_OK(gpur_replay_config_init(&replay_config, sizeof replay_config));
    replay_config.capacity = 256, replay_config.fields = fields, replay_config.field_count = 5;
    CHECK_OK(gpur_replay_create(device, &replay_config, &replay));
    CHECK_OK(gpur_dqn_create(replay, &config, &learner));
    const gpur_gather_args *const ring = &gpur_dqn_of(learner)->step.by_ids.plan.ring.rows;
    const gpur_gather_args *const rows = &gpur_dqn_of(learner)->host_batches.device_batches[1].source.plan.ring.rows;
    CHECK_EQUAL(rows->pitch, 44);
    CHECK_EQUAL(ring->copies[0].shift, 4);
    int32_t units = 0;
    for (int32_t i = 0; i < rows->copy_count; i++) {
        const gpur_field_copy *const copy = &rows->copies[i];
        CHECK_EQUAL(rows->pitch % (1 << copy->shift), 0);
        CHECK_EQUAL(copy->units << copy->shift, ring->copies[i].units << ring->copies[i].shift);
        CHECK_EQUAL(copy->first_unit, units);
        units += copy->units;
    }
    CHECK_EQUAL(rows->units, units);
    static const float zeros[BATCH][4];
    const void *const arrays[] = {zeros, zeros, zeros, zeros, zeros};
    CHECK_OK(gpur_writer_create(replay, 1, &writer));
    CHECK_OK(gpur_writer_append_fields(writer, BATCH, arrays, NULL, NULL));
    CHECK_OK(gpur_learner_train(learner, 1));
    CHECK_EQUAL(learner_fixture_stats(learner).steps, 1);
    gpur_writer_destroy(writer);
    gpur_learner_destroy(learner);
    gpur_replay_destroy(replay);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
    RUN(a_config_of_before_there_were_buffers_has_none);
    RUN(buffers_come_in_turn_are_apart_and_come_back_trained_or_not);
    RUN(rows_with_numbers_that_are_not_finite_are_refused);
    RUN(memory_of_the_device_is_refused_on_cuda);
    RUN(memory_is_taken_at_creation_and_counted);
    RUN(units_of_a_copy_fit_rows_without_padding);
    gpur_device_close(device);
    return test_main_end();
}
