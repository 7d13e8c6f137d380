/* SPDX-License-Identifier: MIT */
/* Training on batches kept in RAM: the bits of training on the same transitions by id, whatever the replay holds. */
#include "test.h"
#include "support/learn_world.h"

enum { BATCH = 16, STEPS = 60, MOST = 4096 };

static gpur_device *device;

static gpur_learner_config rows_config(int32_t host_batches)
{
    gpur_learner_config config = world_config(GPUR_HEAD_DUELING, 1);
    config.host_batches = host_batches;
    return config;
}

/* The same transitions, packed. */
static void rows_of_step(const learn_world *world, int t, world_row *rows)
{
    int64_t ids[BATCH];
    world_ids(t, BATCH, ids);
    for (int b = 0; b < BATCH; b++)
        rows[b] = world->rows[ids[b]];
}

/* One way of handing over the rows of a step. */
typedef gpur_status (*train_fn)(gpur_learner *learner, const world_row *rows);

/* What a step before read is overwritten as soon as its buffer is to be had again. */
static gpur_status in_their_buffers(gpur_learner *learner, const world_row *rows)
{
    void *buffer = NULL;
    const gpur_status status = gpur_learner_get_rows(learner, &buffer);
    if (status != GPUR_OK)
        return status;
    memset(buffer, 0xff, BATCH * sizeof *rows);
    memcpy(buffer, rows, BATCH * sizeof *rows);
    return gpur_learner_train_rows(learner, buffer);
}

static gpur_status from_memory_spoiled_afterwards(gpur_learner *learner, const world_row *rows)
{
    world_row mine[BATCH];
    memcpy(mine, rows, sizeof mine);
    const gpur_status status = gpur_learner_train_rows(learner, mine);
    memset(mine, 0xff, sizeof mine);
    return status;
}

static float loss_by_ids(gpur_learner *learner, int t)
{
    int64_t ids[BATCH];
    world_ids(t, BATCH, ids);
    return gpur_learner_train_on(learner, ids) == GPUR_OK ? world_stats(learner).loss : NAN;
}

static int equal_bits(float a, float b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

static int equal_weights(gpur_learner *a, gpur_learner *b, int32_t which)
{
    static float x[MOST], y[MOST];
    const int64_t count = world_weights(a, which, x, MOST);
    return count > 0 && world_weights(b, which, y, MOST) == count && memcmp(x, y, (size_t)count * sizeof *x) == 0;
}

/* Both wait for every step here: what it takes to compare every loss. */
static void compare(const learn_world *world, gpur_learner *rows, gpur_learner *ids, train_fn train)
{
    for (int t = 0; t < STEPS; t++) {
        world_row batch[BATCH];
        rows_of_step(world, t, batch);
        CHECK_OK(train(rows, batch));
        const float loss = world_stats(rows).loss;
        CHECK(loss > 0.0f && equal_bits(loss, loss_by_ids(ids, t)));
    }
    CHECK_EQUAL(world_stats(rows).steps, STEPS);
    CHECK_EQUAL(world_stats(rows).skipped, 0);
    CHECK(equal_weights(rows, ids, GPUR_WEIGHTS_ONLINE));
    CHECK(equal_weights(rows, ids, GPUR_WEIGHTS_TARGET));
}

/* The learner of rows stands on a replay of its own, which is empty. */
static void check_bits(int32_t host_batches, train_fn train)
{
    static learn_world full, empty;
    const gpur_learner_config config = rows_config(host_batches);
    gpur_learner *ids = NULL, *rows = NULL;
    CHECK_OK(world_open(&full, device, WORLD_ROWS));
    CHECK_OK(world_open(&empty, device, 0));
    CHECK_OK(gpur_learner_create(full.replay, &config, &ids));
    CHECK_OK(gpur_learner_create(empty.replay, &config, &rows));
    compare(&full, rows, ids, train);
    gpur_learner_destroy(rows);
    gpur_learner_destroy(ids);
    world_close(&empty);
    world_close(&full);
}

TEST(losses_and_weights_are_those_of_the_same_ids)
{
    check_bits(3, in_their_buffers);
    check_bits(1, in_their_buffers);
    check_bits(16, in_their_buffers);
}

TEST(rows_of_the_callers_own_are_copied_by_the_call)
{
    check_bits(2, from_memory_spoiled_afterwards);
    check_bits(1, from_memory_spoiled_afterwards);
}

/* Nobody waits for a step, and each buffer is spoiled and filled again as soon as it is handed out. */
static void check_unwaited(int32_t host_batches, train_fn train)
{
    static learn_world world;
    const gpur_learner_config config = rows_config(host_batches);
    gpur_learner *ids = NULL, *rows = NULL;
    CHECK_OK(world_open(&world, device, WORLD_ROWS));
    CHECK_OK(gpur_learner_create(world.replay, &config, &ids));
    CHECK_OK(gpur_learner_create(world.replay, &config, &rows));
    for (int t = 0; t < 5 * STEPS; t++) {
        world_row batch[BATCH];
        int64_t same[BATCH];
        rows_of_step(&world, t, batch);
        world_ids(t, BATCH, same);
        CHECK_OK(train(rows, batch));
        CHECK_OK(gpur_learner_train_on(ids, same));
    }
    CHECK(equal_weights(rows, ids, GPUR_WEIGHTS_ONLINE));
    gpur_learner_destroy(rows);
    gpur_learner_destroy(ids);
    world_close(&world);
}

TEST(a_buffer_comes_back_only_once_it_was_copied_up)
{
    check_unwaited(1, in_their_buffers);
    check_unwaited(2, in_their_buffers);
    check_unwaited(1, from_memory_spoiled_afterwards);
}

/* Another layout: terminated first, actions of 8 bytes, rows of 56 of which 7 are padding behind the first. */
typedef struct wide_row {
    uint8_t terminated;
    float next_obs[WORLD_FEATURES];
    int64_t action;
    float obs[WORLD_FEATURES];
    float reward;
} wide_row;

TEST(fields_are_found_wherever_the_schema_has_them)
{
    static learn_world world;
    const gpur_learner_config config = rows_config(2);
    gpur_learner *ids = NULL, *rows = NULL;
    CHECK_OK(world_open_wide(&world, device));
    CHECK_OK(gpur_learner_create(world.replay, &config, &ids));
    CHECK_OK(gpur_learner_create(world.replay, &config, &rows));
    for (int t = 0; t < STEPS; t++) {
        world_row narrow[BATCH];
        wide_row wide[BATCH];
        rows_of_step(&world, t, narrow);
        memset(wide, 0xff, sizeof wide);
        for (int b = 0; b < BATCH; b++) {
            wide[b].terminated = narrow[b].terminated;
            memcpy(wide[b].next_obs, narrow[b].next_obs, sizeof wide[b].next_obs);
            memcpy(wide[b].obs, narrow[b].obs, sizeof wide[b].obs);
            wide[b].action = narrow[b].action;
            wide[b].reward = narrow[b].reward;
        }
        CHECK_OK(gpur_learner_train_rows(rows, wide));
        CHECK(equal_bits(world_stats(rows).loss, loss_by_ids(ids, t)));
    }
    gpur_learner_destroy(rows);
    gpur_learner_destroy(ids);
    world_close(&world);
}

static int64_t drawn_id(gpur_replay *replay)
{
    gpur_batch *batch = NULL;
    int64_t id = -1;
    if (gpur_replay_sample(replay, 1, NULL, &batch) == GPUR_OK)
        (void)gpur_batch_read(batch, "id", &id, sizeof id);
    gpur_batch_release(batch);
    return id;
}

/* Two replays alike, one with a learner that trains on rows: both say and draw the same. */
TEST(the_replay_is_left_as_it_is)
{
    static learn_world used, alone;
    const gpur_learner_config config = rows_config(2);
    gpur_replay_stats a = {.size = sizeof a}, b = {.size = sizeof b};
    gpur_learner *learner = NULL;
    CHECK_OK(world_open(&used, device, WORLD_ROWS));
    CHECK_OK(world_open(&alone, device, WORLD_ROWS));
    CHECK_OK(gpur_learner_create(used.replay, &config, &learner));
    CHECK_EQUAL(drawn_id(used.replay), drawn_id(alone.replay));
    CHECK_OK(gpur_replay_get_stats(used.replay, &a));
    for (int t = 0; t < STEPS; t++) {
        world_row batch[BATCH];
        rows_of_step(&used, t, batch);
        CHECK_OK(gpur_learner_train_rows(learner, batch));
    }
    CHECK_OK(gpur_replay_get_stats(used.replay, &b));
    CHECK_EQUAL(b.visible, a.visible);
    CHECK_EQUAL(b.first_id, a.first_id);
    CHECK_EQUAL(b.draws, a.draws);
    CHECK_EQUAL(b.appended, a.appended);
    CHECK_EQUAL(b.published, a.published);
    for (int i = 0; i < 20; i++)
        CHECK_EQUAL(drawn_id(used.replay), drawn_id(alone.replay));
    gpur_learner_destroy(learner);
    world_close(&alone);
    world_close(&used);
}

TEST(steps_on_rows_and_on_ids_may_be_mixed)
{
    static learn_world world;
    const gpur_learner_config config = rows_config(2);
    gpur_learner *ids = NULL, *mixed = NULL;
    CHECK_OK(world_open(&world, device, WORLD_ROWS));
    CHECK_OK(gpur_learner_create(world.replay, &config, &ids));
    CHECK_OK(gpur_learner_create(world.replay, &config, &mixed));
    for (int t = 0; t < STEPS; t++) {
        world_row batch[BATCH];
        rows_of_step(&world, t, batch);
        if (t % 3)
            CHECK_OK(gpur_learner_train_rows(mixed, batch));
        else
            (void)loss_by_ids(mixed, t);
        (void)loss_by_ids(ids, t);
    }
    CHECK_OK(gpur_learner_train(ids, 5));
    CHECK_OK(gpur_learner_train(mixed, 5));
    CHECK(equal_weights(mixed, ids, GPUR_WEIGHTS_ONLINE));
    gpur_learner_destroy(mixed);
    gpur_learner_destroy(ids);
    world_close(&world);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
    RUN(losses_and_weights_are_those_of_the_same_ids);
    RUN(rows_of_the_callers_own_are_copied_by_the_call);
    RUN(a_buffer_comes_back_only_once_it_was_copied_up);
    RUN(fields_are_found_wherever_the_schema_has_them);
    RUN(the_replay_is_left_as_it_is);
    RUN(steps_on_rows_and_on_ids_may_be_mixed);
    gpur_device_close(device);
    return test_main_end();
}
