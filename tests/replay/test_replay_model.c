/* SPDX-License-Identifier: MIT */
/* Random schedules of everything a replay does, beside the naive model, compared after every operation. */
#include "support/priority_model.h"
#include "support/replay_kit.h"
#include "test.h"

enum { OPERATIONS = 500, ROUNDS = 1000, WRITERS = 3, SCHEMAS = 5 };

typedef struct world {
    gpur_device *device;
    gpur_replay *replay;
    gpur_writer *writers[WRITERS];
    gpur_replay_config config;
    reference_replay model;
    kit kit;
    uint64_t random;
    int64_t draws;
    priority_model priorities;
} world;

static const gpur_field schemas[][5] = {
    {{"obs", GPUR_FLOAT32, {27}},
     {"action", GPUR_INT32, {0}},
     {"reward", GPUR_FLOAT32, {0}},
     {"next_obs", GPUR_FLOAT32, {27}},
     {"terminated", GPUR_BOOL, {0}}},
    {{"terminated", GPUR_UINT8, {1}},
     {"a", GPUR_UINT8, {3}},
     {"b", GPUR_FLOAT16, {5, 2}},
     {"c", GPUR_INT64, {0}},
     {"d", GPUR_UINT8, {7}}},
    {{"obs", GPUR_UINT8, {64}},
     {"next_obs", GPUR_UINT8, {4, 4, 4}},
     {"x", GPUR_FLOAT32, {4}},
     {"y", GPUR_INT64, {2}},
     {"z", GPUR_FLOAT32, {28}}},
    {{"discount", GPUR_FLOAT32, {0}},
     {"one", GPUR_UINT8, {0}},
     {"two", GPUR_FLOAT16, {0}},
     {"eight", GPUR_INT64, {0}},
     {"large", GPUR_UINT8, {601}}},
    {{"priority", GPUR_FLOAT32, {0}},
     {"a", GPUR_UINT8, {3}},
     {"b", GPUR_FLOAT32, {5}},
     {"terminated", GPUR_BOOL, {0}},
     {"c", GPUR_INT64, {0}}},
};

/* Exponents 0 and 1 leave no rounding to argue about; beta 0 makes all weights 1, as the kit wants them. */
static void set_priorities(world *w, uint64_t seed)
{
    w->config.prioritized = seed % 3 != 0;
    if (!w->config.prioritized)
        return;
    w->config.index_source = seed % 2 ? GPUR_PRIORITIZED : GPUR_PRIORITIZED_PLAIN;
    w->config.weight_norm = (int32_t)kit_below(&w->random, 3);
    w->config.alpha = 1.0f;
    w->config.priority_offset = kit_below(&w->random, 2) ? 0.0625f : 0.0f;
    w->config.beta.first = w->config.beta.last = 0.0f;
}

static int begin(world *w, uint64_t seed)
{
    w->random = seed * 0x9E3779B97F4A7C15ull + 1;
    const int64_t capacity = 4 + kit_below(&w->random, 60), update = 1 + kit_below(&w->random, capacity / 2);
    const int64_t batch = 1 + kit_below(&w->random, capacity - update);
    w->config = kit_config(schemas[seed % SCHEMAS], 5, capacity, update, batch);
    w->config.feed = seed / 8 % 2 ? GPUR_FEED_SCATTER : GPUR_FEED_COPY;
    w->config.flush = seed / 4 % 2 ? GPUR_FLUSH_MANUAL : GPUR_FLUSH_AUTO;
    w->config.staging_blocks = 2 + (int32_t)kit_below(&w->random, 3);
    w->config.seed = seed;
    set_priorities(w, seed);
    w->device = test_device();
    if (gpur_replay_create(w->device, &w->config, &w->replay) != GPUR_OK)
        return 0;
    for (int i = 0; i < WRITERS; i++)
        if (gpur_writer_create(w->replay, 1, &w->writers[i]) != GPUR_OK)
            return 0;
    w->kit = kit_of(w->replay, w->config.gamma);
    reference_begin(&w->model, &w->config, (capacity + 2 * update) * OPERATIONS);
    w->model.straight = kit_straight_rows(w->device, &w->config, w->kit.row_bytes);
    priority_model_begin(&w->priorities, &w->model, &w->config, seed % SCHEMAS == SCHEMAS - 1);
    return 1;
}

static void end(world *w)
{
    for (int i = 0; i < WRITERS; i++)
        gpur_writer_destroy(w->writers[i]);
    gpur_replay_destroy(w->replay);
    gpur_device_close(w->device);
    reference_end(&w->model);
    priority_model_end(&w->priorities);
}

static void launch(world *w)
{
    reference_launch(&w->model);
    priority_model_welcome(&w->priorities);
}

/* What calls about priorities see. */
static void look(world *w)
{
    reference_look(&w->model);
    priority_model_welcome(&w->priorities);
}

static void append(world *w)
{
    const int64_t most = kit_below(&w->random, 4) ? 3 : w->config.capacity + w->config.update_size;
    const int64_t count = kit_below(&w->random, most + 1);
    CHECK_OK(kit_append(&w->kit, w->writers[kit_below(&w->random, WRITERS)], w->model.count, count));
    reference_append(&w->model, count);
}

/* Device arrays: on the CPU those of a replay with the scatter feed. */
static void append_fields(world *w)
{
    const int64_t count = 1 + kit_below(&w->random, w->config.capacity);
    void *host[GPUR_MAX_FIELDS], *device[GPUR_MAX_FIELDS];
    const int place = (int)kit_below(&w->random, 2);
    kit_arrays(&w->kit, w->model.count, count, host);
    for (int32_t f = 0; f < w->kit.count; f++) {
        CHECK_OK(gpur_device_alloc(w->device, count * w->kit.fields[f].bytes, &device[f]));
        CHECK_OK(gpur_device_copy(w->device, device[f], host[f], count * w->kit.fields[f].bytes));
    }
    CHECK_OK(gpur_writer_append_fields(w->writers[0], count, (const void *const *)(place ? device : host), NULL, NULL));
    for (int32_t f = 0; f < w->kit.count; f++) {
        gpur_device_free(w->device, device[f]);
        free(host[f]);
    }
    if (test_on_cuda() ? place : w->config.feed == GPUR_FEED_SCATTER)
        reference_append_arrays(&w->model, count);
    else
        reference_append(&w->model, count);
}

static void flush(world *w)
{
    CHECK_OK(gpur_writer_flush(w->writers[kit_below(&w->random, WRITERS)]));
    reference_flush(&w->model);
}

/* (count) ids of the draw that comes next. */
static void expect(const world *w, int64_t count, int64_t *ids)
{
    const uint64_t seed = w->config.seed, draw = (uint64_t)w->draws;
    if (w->config.prioritized)
        priority_model_draw(&w->priorities, seed, draw, count, seed % 2 != 0, ids);
    else
        for (int64_t b = 0; b < count; b++)
            ids[b] = reference_draw(&w->model, seed, draw, b);
}

static void sample(world *w)
{
    gpur_batch *batch = NULL;
    int64_t ids[256], wanted[256];
    const int64_t count = 1 + kit_below(&w->random, w->config.max_batch);
    const gpur_status status = gpur_replay_sample(w->replay, count, NULL, &batch);
    if (reference_size(&w->model) == 0) {
        CHECK_STATUS(status, GPUR_TOO_FEW);
        return;
    }
    CHECK_OK(status);
    launch(w);
    CHECK_EQUAL(kit_wrong_bytes(&w->kit, batch, ids), 0);
    gpur_batch_release(batch);
    expect(w, count, wanted);
    for (int64_t b = 0; b < count; b++)
        CHECK_EQUAL(ids[b], wanted[b]);
    w->draws++;
}

/* The newest id that a draw made now would see, or -1. */
static int64_t last_visible(const world *w)
{
    int64_t last = w->model.count - 1;
    while (w->config.flush == GPUR_FLUSH_MANUAL && last >= 0 && w->model.rows[last] < ROW_SOON)
        last--;
    return last;
}

/* Ids around the visible ones: all good, or one beyond an end. */
static void gather(world *w)
{
    gpur_batch *batch = NULL;
    int64_t ids[256], got[256];
    const int64_t size = reference_size(&w->model), count = 1 + kit_below(&w->random, w->config.max_batch);
    const int64_t last = last_visible(w), first = last - size + 1, slip = kit_below(&w->random, 8) == 0;
    for (int64_t b = 0; b < count; b++)
        ids[b] = first + kit_below(&w->random, size > 0 ? size : 1);
    if (slip)
        ids[count - 1] = kit_below(&w->random, 2) ? first - 1 : last + 1;
    const gpur_status status = gpur_replay_gather(w->replay, count, ids, NULL, &batch);
    const int was_there = slip && ids[count - 1] >= 0 && ids[count - 1] < first;
    CHECK_STATUS(status, size == 0   ? GPUR_TOO_FEW
                         : was_there ? GPUR_EVICTED
                         : slip      ? GPUR_INVALID_ARGUMENT
                                     : GPUR_OK);
    if (status != GPUR_OK)
        return;
    launch(w);
    CHECK_EQUAL(kit_wrong_bytes(&w->kit, batch, got), 0);
    gpur_batch_release(batch);
    CHECK(memcmp(ids, got, (size_t)count * sizeof *ids) == 0);
}

/* Ids around the visible ones, many of them twice, with priorities of which some are none. */
static void update(world *w)
{
    int64_t ids[64];
    float priorities[64];
    const int64_t count = 1 + kit_below(&w->random, w->config.max_batch), last = last_visible(w);
    for (int64_t i = 0; i < count; i++) {
        ids[i] = last + 3 - kit_below(&w->random, w->config.capacity + 6);
        priorities[i] = kit_priority(kit_below(&w->random, 1 << 20));
    }
    look(w);
    CHECK_OK(gpur_replay_update_priorities(w->replay, count, ids, priorities, NULL));
    priority_model_update(&w->priorities, count, ids, priorities);
}

static void change_alpha(world *w)
{
    look(w);
    w->priorities.alpha = 1.0f - w->priorities.alpha;
    CHECK_OK(gpur_replay_set_alpha(w->replay, w->priorities.alpha));
}

/* To look publishes under GPUR_FLUSH_AUTO, and what has been staged for a while is to be met, too. */
static void compare_priorities(world *w)
{
    if (w->config.flush == GPUR_FLUSH_AUTO && kit_below(&w->random, 4) > 0)
        return;
    look(w);
    const char *const differs = priority_model_differs(&w->priorities, w->replay);
    TEST_REQUIRE(!differs, "%s", differs);
}

static void compare(world *w)
{
    gpur_replay_stats stats = {.size = sizeof stats};
    CHECK_OK(gpur_replay_get_stats(w->replay, &stats));
    CHECK_EQUAL(gpur_replay_size(w->replay), reference_size(&w->model));
    CHECK_EQUAL(stats.visible, reference_size(&w->model));
    CHECK_EQUAL(stats.evicted, reference_count(&w->model, ROW_GONE));
    CHECK_EQUAL(stats.published, reference_count(&w->model, ROW_VISIBLE) + stats.evicted);
    CHECK_EQUAL(stats.appended, w->model.count);
    CHECK_EQUAL(stats.first_id, last_visible(w) + 1 - stats.visible);
    CHECK_EQUAL(stats.batches_alive, 0);
    if (w->config.prioritized)
        compare_priorities(w);
}

static void operate_priorities(world *w)
{
    (kit_below(&w->random, 10) < 9 ? update : change_alpha)(w);
}

static void operate(world *w)
{
    const int64_t dice = kit_below(&w->random, 100);
    if (w->config.prioritized && kit_below(&w->random, 4) == 0)
        operate_priorities(w);
    else if (dice < 45)
        append(w);
    else if (dice < 52)
        append_fields(w);
    else if (dice < 57)
        flush(w);
    else if (dice < 85)
        sample(w);
    else
        gather(w);
    compare(w);
}

/* Half a million operations, ten times as many with the long form; fewer where each one is slower. */
TEST(random_schedules_agree_with_the_model)
{
    const uint64_t rounds = test_rounds(ROUNDS);
    for (uint64_t seed = 0; seed < rounds; seed++) {
        world w = {0};
        CHECK(begin(&w, seed));
        for (int i = 0; i < OPERATIONS && atomic_load(&test_state.failures) == 0; i++)
            operate(&w);
        if (atomic_load(&test_state.failures))
            fprintf(stderr, "seed %d, capacity %d, update %d, batch %d\n", (int)seed, (int)w.config.capacity,
                    (int)w.config.update_size, (int)w.config.max_batch);
        end(&w);
        CHECK(atomic_load(&test_state.failures) == 0);
    }
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(random_schedules_agree_with_the_model);
    return test_main_end();
}
