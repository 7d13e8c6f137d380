/* SPDX-License-Identifier: MIT */
/* The buffers for batches in RAM: who holds which, what is refused, what they take,
 * and how their rows are read. */
#include "test.h"
#include "base/red_zone.h"
#include "support/counting_alloc.h"
#include "device/backend.h"
#include "learn/learner.h"
#include "support/learn_world.h"

enum { BATCH = 16, ROW = sizeof(world_row) };

static gpur_device *device;
static learn_world world;

static gpur_learner_config rows_config(int32_t host_batches)
{
    gpur_learner_config config = world_config(GPUR_HEAD_Q, 0);
    config.host_batches = host_batches;
    return config;
}

static gpur_learner *open_learner(int32_t host_batches)
{
    const gpur_learner_config config = rows_config(host_batches);
    gpur_learner *learner = NULL;
    if (world_open(&world, device, 0) != GPUR_OK || gpur_learner_create(world.replay, &config, &learner) != GPUR_OK)
        fprintf(stderr, "no learner: %s\n", gpur_last_error());
    return learner;
}

static void close_learner(gpur_learner *learner)
{
    gpur_learner_destroy(learner);
    world_close(&world);
}

TEST(a_number_of_buffers_out_of_range_is_refused_with_its_value)
{
    gpur_learner *learner = NULL;
    gpur_learner_config config = rows_config(-1);
    CHECK_OK(world_open(&world, device, 0));
    CHECK_STATUS(gpur_learner_create(world.replay, &config, &learner), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("host_batches is -1; it must be 0 to 16");
    config.host_batches = 17;
    CHECK_STATUS(gpur_learner_create(world.replay, &config, &learner), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("host_batches is 17; it must be 0 to 16");
    config.host_batches = 16, config.deterministic = 2;
    CHECK_STATUS(gpur_learner_create(world.replay, &config, &learner), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("deterministic is 2");
    world_close(&world);
}

TEST(a_config_of_before_there_were_buffers_has_none)
{
    gpur_learner_config config = rows_config(5);
    gpur_learner *learner = NULL;
    void *rows = &config;
    config.size = offsetof(gpur_learner_config, host_batches);
    CHECK_OK(world_open(&world, device, 0));
    CHECK_OK(gpur_learner_create(world.replay, &config, &learner));
    CHECK_STATUS(gpur_learner_get_rows(learner, &rows), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("host_batches 0; rows in RAM need 1 to 16");
    CHECK(!rows);
    CHECK_STATUS(gpur_learner_train_rows(learner, world.rows), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("host_batches 0");
    close_learner(learner);
}

TEST(null_is_refused)
{
    gpur_learner *const learner = open_learner(2);
    void *rows = &world;
    CHECK(learner);
    CHECK_STATUS(gpur_learner_get_rows(learner, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(gpur_learner_get_rows(NULL, &rows), GPUR_INVALID_ARGUMENT);
    CHECK(!rows);
    CHECK_STATUS(gpur_learner_train_rows(learner, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("rows is NULL; it must be (batch_size, row_bytes)");
    CHECK_STATUS(gpur_learner_train_rows(NULL, world.rows), GPUR_INVALID_ARGUMENT);
    CHECK_EQUAL(world_stats(learner).steps_enqueued, 0);
    close_learner(learner);
}

TEST(buffers_come_in_turn_are_apart_and_no_more_than_there_are)
{
    gpur_learner *const learner = open_learner(3);
    unsigned char *b[3];
    void *again = &world;
    CHECK(learner);
    for (int i = 0; i < 3; i++) {
        void *rows = NULL;
        CHECK_OK(gpur_learner_get_rows(learner, &rows));
        CHECK_EQUAL((uintptr_t)rows % 256, 0);
        b[i] = memset(rows, i, BATCH * ROW);
    }
    for (int i = 0; i < 3; i++)
        CHECK(b[i][0] == i && b[i][BATCH * ROW - 1] == i);
    CHECK_STATUS(gpur_learner_get_rows(learner, &again), GPUR_WOULD_BLOCK);
    CHECK_MESSAGE("all 3 host batches are acquired");
    CHECK(!again);
    CHECK_STATUS(gpur_learner_train_rows(learner, world.rows), GPUR_WOULD_BLOCK);
    memcpy(b[1], world.rows, BATCH * ROW);
    CHECK_OK(gpur_learner_train_rows(learner, b[1]));
    CHECK_OK(gpur_learner_get_rows(learner, &again));
    CHECK(again == b[1]);
    CHECK_EQUAL(world_stats(learner).steps, 1);
    close_learner(learner);
}

TEST(a_buffer_may_be_given_back_untrained)
{
    gpur_learner *const learner = open_learner(1);
    void *rows = NULL, *again = NULL;
    CHECK(learner);
    CHECK_OK(gpur_learner_get_rows(learner, &rows));
    CHECK_OK(gpur_learner_return_rows(learner, rows));
    CHECK_STATUS(gpur_learner_return_rows(learner, rows), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("rows is host batch 0, which was released");
    CHECK_STATUS(gpur_learner_return_rows(learner, world.rows), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("none of the host batches");
    CHECK_STATUS(gpur_learner_return_rows(learner, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(gpur_learner_return_rows(NULL, rows), GPUR_INVALID_ARGUMENT);
    CHECK_OK(gpur_learner_get_rows(learner, &again));
    CHECK(again == rows);
    CHECK_EQUAL(world_stats(learner).steps_enqueued, 0);
    close_learner(learner);
}

TEST(places_that_are_no_buffer_of_the_callers_are_refused_and_nothing_is_trained)
{
    gpur_learner *const learner = open_learner(2);
    void *rows = NULL;
    CHECK(learner);
    CHECK_OK(gpur_learner_get_rows(learner, &rows));
    memcpy(rows, world.rows, BATCH * ROW);
    CHECK_STATUS(gpur_learner_train_rows(learner, (unsigned char *)rows + ROW), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("rows is 52 bytes behind the start of host batch 0");
    CHECK_OK(gpur_learner_train_rows(learner, rows));
    CHECK_STATUS(gpur_learner_train_rows(learner, rows), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("rows is host batch 0, which was released");
    CHECK_EQUAL(world_stats(learner).steps_enqueued, 1);
    close_learner(learner);
}

/* Only CUDA can tell; on the CPU all memory is the host's. */
TEST(memory_of_the_device_is_refused_on_cuda)
{
    gpur_learner *const learner = open_learner(1);
    void *memory = NULL;
    CHECK(learner);
    CHECK_OK(gpur_device_alloc(device, BATCH * ROW, &memory));
    const gpur_status status = gpur_learner_train_rows(learner, memory);
    CHECK_EQUAL(status, test_on_cuda() ? GPUR_INVALID_ARGUMENT : GPUR_OK);
    if (test_on_cuda())
        CHECK_MESSAGE("it must be host memory");
    CHECK_OK(gpur_learner_sync(learner));
    close_learner(learner);
    gpur_device_free(device, memory);
}

static void measure(int32_t host_batches, gpur_learner_stats *stats, int64_t *used)
{
    gpur_device_info before = {.size = sizeof before}, with = {.size = sizeof with}, after = {.size = sizeof after};
    const gpur_learner_config config = rows_config(host_batches);
    gpur_learner *learner = NULL;
    CHECK_OK(world_open(&world, device, 0));
    const size_t allocations = device->ledger.count;
    CHECK_OK(gpur_device_get_info(device, &before));
    CHECK_OK(gpur_learner_create(world.replay, &config, &learner));
    CHECK_OK(gpur_device_get_info(device, &with));
    *stats = world_stats(learner);
    *used = with.memory_used - before.memory_used;
    gpur_learner_destroy(learner);
    CHECK_OK(gpur_device_get_info(device, &after));
    CHECK_EQUAL(after.memory_used, before.memory_used);
    CHECK_EQUAL(device->ledger.count, allocations); /* pinned memory, too, which memory_used does not count */
    world_close(&world);
}

/* 16 rows of 52 bytes are 832, or 1,024 in whole granules of 256; ids and window have a granule each. */
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

static gpur_status train_once(gpur_replay *replay)
{
    const gpur_learner_config config = rows_config(2);
    gpur_learner *learner = NULL;
    gpur_status status = gpur_learner_create(replay, &config, &learner);
    for (int i = 0; i < 4 && status == GPUR_OK; i++)
        status = gpur_learner_train_rows(learner, world.rows);
    gpur_learner_destroy(learner);
    return status;
}

/* Nothing is allocated while it trains, so every call that can fail is one of the creation. */
TEST(every_failing_allocation_is_refused_cleanly)
{
    int64_t calls = 1;
    for (int64_t nth = 0; nth <= calls; nth++) {
        counting_alloc counts = {0};
        gpur_device_config config = test_device_config();
        gpur_device *own = NULL;
        config.alloc = counting_alloc_take, config.release = counting_alloc_give, config.alloc_user = &counts;
        CHECK_OK(gpur_device_open(test_device_name(), &config, &own));
        CHECK_OK(world_open(&world, own, 0));
        const int64_t before = counts.calls;
        counts.fail_at = nth ? before + nth : 0;
        CHECK_STATUS(train_once(world.replay), nth ? GPUR_OUT_OF_MEMORY : GPUR_OK);
        calls = nth ? calls : counts.calls - before;
        world_close(&world);
        gpur_device_close(own);
        CHECK_EQUAL(counts.blocks, 0);
        CHECK_EQUAL(counts.wrong_sizes, 0);
    }
    CHECK(calls >= 3);
}

/* 4 numbers are one load of 16 bytes in the ring, whose rows start on multiples of 64. Packed rows of 44 do not. */
TEST(units_of_a_copy_fit_packed_rows)
{
    const gpur_field fields[] = {
        {"obs", GPUR_FLOAT32, {4}},      {"action", GPUR_INT32, {0}},    {"reward", GPUR_FLOAT32, {0}},
        {"next_obs", GPUR_FLOAT32, {4}}, {"terminated", GPUR_BOOL, {0}},
    };
    const gpur_learner_config config = rows_config(2);
    gpur_replay_config replay_config;
    gpur_replay *replay = NULL;
    gpur_learner *learner = NULL;
    CHECK_OK(gpur_replay_config_init(&replay_config, sizeof replay_config));
    replay_config.capacity = 256, replay_config.fields = fields, replay_config.field_count = 5;
    CHECK_OK(gpur_replay_create(device, &replay_config, &replay));
    CHECK_OK(gpur_learner_create(replay, &config, &learner));
    const gpur_gather_args *const ring = &learner->step.by_ids.plan.rows;
    const gpur_gather_args *const rows = &learner->rows.block[1].source.plan.rows;
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
    gpur_learner_destroy(learner);
    gpur_replay_destroy(replay);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
    RUN(a_number_of_buffers_out_of_range_is_refused_with_its_value);
    RUN(a_config_of_before_there_were_buffers_has_none);
    RUN(null_is_refused);
    RUN(buffers_come_in_turn_are_apart_and_no_more_than_there_are);
    RUN(a_buffer_may_be_given_back_untrained);
    RUN(places_that_are_no_buffer_of_the_callers_are_refused_and_nothing_is_trained);
    RUN(memory_of_the_device_is_refused_on_cuda);
    RUN(memory_is_taken_at_creation_and_counted);
    RUN(every_failing_allocation_is_refused_cleanly);
    RUN(units_of_a_copy_fit_packed_rows);
    gpur_device_close(device);
    return test_main_end();
}
