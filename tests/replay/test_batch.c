/* SPDX-License-Identifier: MIT */
/* Batches in their users' hands. */
#include "support/replay_kit.h"
#include "test.h"

#include <pthread.h>
#include <stddef.h>

enum { CAPACITY = 200, COUNT = 33 };

static const gpur_field fields[] = {{"obs", GPUR_FLOAT32, {3, 2}},
                                    {"action", GPUR_INT32, {0}},
                                    {"terminated", GPUR_BOOL, {0}},
                                    {"odd", GPUR_UINT8, {13}}};

static int open_scene(kit_scene *s)
{
    const gpur_replay_config config = kit_config(fields, 4, CAPACITY, 20, 128);
    return kit_open(s, test_device(), &config, 1) && kit_append_next(s, CAPACITY) == GPUR_OK;
}

static gpur_replay_stats stats_of(kit_scene *s)
{
    gpur_replay_stats stats = {.size = sizeof stats};
    if (gpur_replay_get_stats(s->replay, &stats) != GPUR_OK)
        test_fail(__FILE__, __LINE__);
    return stats;
}

/* Draws and appends until every row of the ring has been replaced several times. */
static void churn(kit_scene *s, int draws)
{
    for (int i = 0; i < draws; i++) {
        gpur_batch *batch = NULL;
        CHECK_OK(kit_append_next(s, 1));
        CHECK_OK(gpur_replay_sample(s->replay, 1 + i % 128, NULL, &batch));
        gpur_batch_release(batch);
    }
}

TEST(a_batch_keeps_its_contents_while_others_come_and_go)
{
    gpur_batch *old = NULL;
    int64_t before[COUNT], after[COUNT];
    kit_scene s;
    CHECK(open_scene(&s));
    CHECK_OK(gpur_replay_sample(s.replay, COUNT, NULL, &old));
    CHECK_EQUAL(kit_wrong_bytes(&s.kit, old, before), 0);
    churn(&s, 1000);
    CHECK_EQUAL(kit_wrong_bytes(&s.kit, old, after), 0);
    CHECK(memcmp(before, after, sizeof before) == 0);
    gpur_batch_release(old);
    kit_close(&s);
}

TEST(a_batch_outlives_its_replay_and_its_device_handle)
{
    gpur_batch *batch = NULL;
    kit_scene s;
    CHECK(open_scene(&s));
    CHECK_OK(gpur_replay_sample(s.replay, COUNT, NULL, &batch));
    kit_close(&s);
    CHECK_EQUAL(kit_wrong_bytes(&s.kit, batch, NULL), 0);
    gpur_batch_retain(batch);
    gpur_batch_release(batch);
    CHECK_EQUAL(gpur_batch_count(batch), COUNT);
    gpur_batch_release(batch);
}

TEST(the_pool_stops_growing)
{
    gpur_batch *held[6];
    kit_scene s;
    CHECK(open_scene(&s));
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 6; i++)
            CHECK_OK(gpur_replay_sample(s.replay, 10 + i + round, NULL, &held[i]));
        CHECK_EQUAL(stats_of(&s).batches_alive, 6);
        for (int i = 0; i < 6; i++)
            gpur_batch_release(held[i]);
    }
    CHECK_EQUAL(stats_of(&s).batches_alive, 0);
    CHECK_EQUAL(stats_of(&s).batches_made, 6);
    churn(&s, 300); /* up to 128 rows: batches of 64 rows do not do */
    const int64_t made = stats_of(&s).batches_made;
    CHECK_EQUAL(made, 7);
    churn(&s, 300);
    CHECK_EQUAL(stats_of(&s).batches_made, made);
    kit_close(&s);
}

TEST(a_small_batch_makes_way_for_a_larger_one)
{
    static const int64_t counts[] = {1, 64, 65, 300, 200, 999, 2000, 1};
    const gpur_replay_config config = kit_config(fields, 4, 5000, 20, 2000);
    gpur_replay_plan plan = {.size = sizeof plan};
    gpur_device_info before = {.size = sizeof before}, after = {.size = sizeof after};
    kit_scene s;
    CHECK(kit_open(&s, test_device(), &config, 1));
    CHECK_OK(kit_append_next(&s, CAPACITY));
    CHECK_OK(gpur_replay_plan_bytes(&config, &plan));
    CHECK_OK(gpur_device_get_info(s.device, &before));
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        gpur_batch *batch = NULL;
        CHECK_OK(gpur_replay_sample(s.replay, counts[i], NULL, &batch));
        if (i % 2) /* else it goes back before it has been filled, perhaps */
            CHECK_EQUAL(kit_wrong_bytes(&s.kit, batch, NULL), 0);
        gpur_batch_release(batch);
    }
    CHECK_OK(gpur_device_get_info(s.device, &after));
    CHECK_EQUAL(after.memory_used - before.memory_used, plan.batch_bytes);
    CHECK_EQUAL(stats_of(&s).batches_made, 5);
    kit_close(&s);
}

TEST(arrays_are_aligned_and_described)
{
    static const char *const names[] = {"obs", "action", "terminated", "odd", "discount", "weight", "id"};
    static const int32_t dtypes[] = {GPUR_FLOAT32, GPUR_INT32,   GPUR_BOOL, GPUR_UINT8,
                                     GPUR_FLOAT32, GPUR_FLOAT32, GPUR_INT64};
    static const int64_t bytes[] = {24, 4, 1, 13, 4, 4, 8};
    gpur_batch *batch = NULL;
    kit_scene s;
    CHECK(open_scene(&s));
    CHECK_OK(gpur_replay_sample(s.replay, COUNT, NULL, &batch));
    for (int i = 0; i < 7; i++) {
        gpur_field_info info = {.size = sizeof info};
        void *memory = NULL;
        CHECK_OK(gpur_batch_get_array(batch, names[i], &memory, &info));
        CHECK((uintptr_t)memory % 256 == 0 && memory);
        CHECK(strcmp(info.name, names[i]) == 0 && info.dtype == dtypes[i] && info.bytes == bytes[i] &&
              info.offset == 0);
        CHECK_EQUAL(info.dims, i == 0 ? 2 : i == 3 ? 1 : 0);
        CHECK_OK(gpur_batch_get_array(batch, names[i], &memory, NULL));
    }
    gpur_batch_release(batch);
    kit_close(&s);
}

TEST(a_raw_array_holds_what_a_read_gives)
{
    gpur_batch *batch = NULL;
    unsigned char read[COUNT * 13], raw[COUNT * 13];
    void *memory = NULL;
    kit_scene s;
    CHECK(open_scene(&s));
    CHECK_OK(gpur_replay_sample(s.replay, COUNT, NULL, &batch));
    CHECK_OK(gpur_batch_sync(batch));
    CHECK_OK(gpur_batch_read(batch, "odd", read, sizeof read));
    CHECK_OK(gpur_batch_get_array(batch, "odd", &memory, NULL));
    CHECK_OK(gpur_device_copy(s.device, raw, memory, sizeof raw));
    CHECK(memcmp(read, raw, sizeof raw) == 0);
    gpur_batch_release(batch);
    kit_close(&s);
}

TEST(a_stored_discount_is_the_batchs_discount)
{
    static const gpur_field own[] = {{"discount", GPUR_FLOAT32, {0}}, {"terminated", GPUR_BOOL, {0}}};
    static const struct {
        float discount;
        uint8_t terminated;
    } rows[2] = {{0.125f, 0}, {0.375f, 1}};
    const gpur_replay_config config = kit_config(own, 2, 10, 2, 4);
    float discount[2];
    gpur_batch *batch = NULL;
    gpur_device *const device = test_device();
    gpur_replay *replay = NULL;
    gpur_writer *writer = NULL;
    CHECK_OK(gpur_replay_create(device, &config, &replay));
    CHECK_OK(gpur_writer_create(replay, 1, &writer));
    CHECK_OK(gpur_writer_append(writer, 2, rows, NULL));
    CHECK_OK(gpur_replay_gather(replay, 2, (const int64_t[]){0, 1}, NULL, &batch));
    CHECK_OK(gpur_batch_read(batch, "discount", discount, sizeof discount));
    CHECK(discount[0] == 0.125f && discount[1] == 0.375f);
    gpur_batch_release(batch);
    gpur_writer_destroy(writer);
    gpur_replay_destroy(replay);
    gpur_device_close(device);
}

TEST(wrong_questions_get_answers_with_numbers)
{
    gpur_batch *batch = NULL;
    void *memory = &batch;
    float few[2];
    kit_scene s;
    CHECK(open_scene(&s));
    CHECK_OK(gpur_replay_sample(s.replay, COUNT, NULL, &batch));
    CHECK_STATUS(gpur_batch_get_array(batch, "next_obs", &memory, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("no array \"next_obs\"");
    CHECK(memory == &batch);
    CHECK_STATUS(gpur_batch_get_array(batch, NULL, &memory, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(gpur_batch_get_array(batch, "obs", NULL, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(gpur_batch_get_array(NULL, "obs", &memory, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(gpur_batch_read(batch, "weight", few, sizeof few), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("bytes is 8; array \"weight\" of 33 transitions has 132");
    CHECK_STATUS(gpur_batch_read(batch, "weight", NULL, 132), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(gpur_batch_sync(NULL), GPUR_INVALID_ARGUMENT);
    CHECK_EQUAL(gpur_batch_count(NULL), 0);
    gpur_batch_release(NULL);
    gpur_batch_release(batch);
    if (!test_on_cuda()) {
        CHECK_STATUS(gpur_replay_sample(s.replay, 1, &s, &batch), GPUR_INVALID_ARGUMENT);
        CHECK_MESSAGE("on the CPU it must be NULL");
    }
    CHECK_STATUS(gpur_replay_sample(s.replay, 129, NULL, &batch), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("count is 129; it must be 1 to max_batch = 128");
    CHECK_STATUS(gpur_replay_sample(s.replay, 1, NULL, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(gpur_replay_sample(NULL, 1, NULL, &batch), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(gpur_replay_gather(s.replay, 1, NULL, NULL, &batch), GPUR_INVALID_ARGUMENT);
    CHECK(batch == NULL);
    CHECK_EQUAL(stats_of(&s).draws, COUNT);
    kit_close(&s);
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
    enum { THREADS = 4 };
    gpur_batch *batch = NULL;
    pthread_t threads[THREADS];
    kit_scene s;
    CHECK(open_scene(&s));
    CHECK_OK(gpur_replay_sample(s.replay, COUNT, NULL, &batch));
    for (int i = 0; i < THREADS; i++) {
        gpur_batch_retain(batch);
        CHECK(pthread_create(&threads[i], NULL, take_and_drop, batch) == 0);
    }
    CHECK_EQUAL(kit_wrong_bytes(&s.kit, batch, NULL), 0);
    gpur_batch_release(batch);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQUAL(stats_of(&s).batches_alive, 0);
    kit_close(&s);
}

/* One call tells where the arrays lie that learners read, and what the schema does not have is NULL. */
TEST(a_view_has_the_addresses_of_all_usual_arrays)
{
    static const gpur_field all[] = {{"obs", GPUR_FLOAT32, {3}},     {"action", GPUR_INT32, {0}},
                                     {"reward", GPUR_FLOAT32, {0}},  {"next_obs", GPUR_FLOAT32, {3}},
                                     {"terminated", GPUR_BOOL, {0}}, {"truncated", GPUR_BOOL, {0}},
                                     {"discount", GPUR_FLOAT32, {0}}};
    static const gpur_field one = {"x", GPUR_FLOAT32, {0}};
    for (int has_all = 0; has_all < 2; has_all++) {
        const gpur_replay_config config = kit_config(has_all ? all : &one, has_all ? 7 : 1, CAPACITY, 20, 128);
        gpur_batch_view view = {.size = sizeof view}, brief = {.size = offsetof(gpur_batch_view, obs)};
        gpur_batch *batch = NULL;
        kit_scene s;
        CHECK(kit_open(&s, test_device(), &config, 1));
        CHECK_OK(kit_append_next(&s, CAPACITY));
        CHECK_OK(gpur_replay_sample(s.replay, COUNT, NULL, &batch));
        CHECK_OK(gpur_batch_get_view(batch, &view));
        const void *const seen[] = {view.obs,       view.action,   view.reward, view.next_obs, view.terminated,
                                    view.truncated, view.discount, view.weight, view.id};
        static const char *const names[] = {"obs",       "action",   "reward", "next_obs", "terminated",
                                            "truncated", "discount", "weight", "id"};
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
        CHECK_STATUS(gpur_batch_get_view(batch, NULL), GPUR_INVALID_ARGUMENT);
        CHECK_STATUS(gpur_batch_get_view(NULL, &brief), GPUR_INVALID_ARGUMENT);
        gpur_batch_release(batch);
        kit_close(&s);
    }
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(a_batch_keeps_its_contents_while_others_come_and_go);
    RUN(a_batch_outlives_its_replay_and_its_device_handle);
    RUN(the_pool_stops_growing);
    RUN(a_small_batch_makes_way_for_a_larger_one);
    RUN(arrays_are_aligned_and_described);
    RUN(a_raw_array_holds_what_a_read_gives);
    RUN(a_stored_discount_is_the_batchs_discount);
    RUN(wrong_questions_get_answers_with_numbers);
    RUN(a_view_has_the_addresses_of_all_usual_arrays);
    RUN(references_may_be_dropped_on_any_thread);
    return test_main_end();
}
