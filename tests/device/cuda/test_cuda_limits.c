/* SPDX-License-Identifier: MIT */
/*
 * A GPU without enough memory: a replay larger than all of it, and allocations when the rest is taken. Each is refused
 * with the numbers, and the device stays usable. This test takes all memory of the GPU, so nothing else should use the
 * GPU meanwhile.
 */
#include "support/replay_fixture.h"
#include "test.h"

enum { FEATURES = 16384, CAPACITY = 256, BATCH = 64, LIMIT = 128 };

/* Rows of 128 KiB. */
static const gpur_field fields[] = {{"obs", GPUR_FLOAT32, {FEATURES}},
                                    {"action", GPUR_INT32, {0}},
                                    {"reward", GPUR_FLOAT32, {0}},
                                    {"next_obs", GPUR_FLOAT32, {FEATURES}},
                                    {"terminated", GPUR_BOOL, {0}}};

static gpur_replay_config large_config(void)
{
    return replay_fixture_config(fields, 5, CAPACITY, 8, BATCH);
}

static int64_t used_by(gpur_device *device)
{
    gpur_device_info info = {.size = sizeof info};
    return gpur_device_get_info(device, &info) == GPUR_OK ? info.memory_used : -1;
}

static gpur_status draw(gpur_replay *replay)
{
    gpur_batch *batch = NULL;
    const gpur_status status = gpur_replay_sample(replay, BATCH, NULL, &batch);
    gpur_batch_release(batch);
    return status;
}

TEST(a_replay_larger_than_the_gpu_is_refused_and_the_device_goes_on)
{
    gpur_device *const device = test_device();
    gpur_replay_config config = large_config();
    gpur_replay *replay = NULL;
    config.capacity = 100000000; /* 13 TB */
    CHECK_STATUS(gpur_replay_create(device, &config, &replay), GPUR_OUT_OF_MEMORY);
    CHECK(!replay);
    CHECK(refusal_says_what_fits(device, &config));
    CHECK_EQUAL(used_by(device), 0);
    replay_fixture fixture;
    config = large_config();
    CHECK(replay_fixture_open(&fixture, device, &config, 1));
    CHECK_OK(replay_fixture_append(&fixture, CAPACITY));
    CHECK_OK(draw(fixture.replay));
    replay_fixture_close(&fixture);
}

/* Allocates all memory that is left, in ever smaller blocks down to 1 MiB. Returns the number of blocks. */
static int take_the_rest(gpur_device *device, void *blocks[LIMIT])
{
    gpur_device_info info = {.size = sizeof info};
    int count = 0;
    if (gpur_device_get_info(device, &info) != GPUR_OK)
        return -1;
    for (int64_t bytes = info.memory_free; bytes >= 1 << 20 && count < LIMIT;) {
        if (gpur_device_alloc(device, bytes, &blocks[count]) == GPUR_OK)
            count++;
        else
            bytes /= 2;
    }
    return count;
}

static gpur_status make_learner(gpur_replay *replay)
{
    gpur_learner_config config;
    gpur_learner *learner = NULL;
    gpur_status status = gpur_learner_config_init(&config, sizeof config);
    config.network.num_actions = 5;
    if (status == GPUR_OK)
        status = gpur_learner_create(replay, &config, &learner);
    if (status == GPUR_OK)
        status = gpur_learner_train(learner, 3);
    if (status == GPUR_OK)
        status = gpur_learner_sync(learner);
    gpur_learner_destroy(learner);
    return status;
}

static gpur_status make_replay(gpur_device *device)
{
    const gpur_replay_config config = large_config();
    gpur_replay *replay = NULL;
    const gpur_status status = gpur_replay_create(device, &config, &replay);
    gpur_replay_destroy(replay);
    return status;
}

static void check_refusals(replay_fixture *fixture)
{
    const int64_t used = used_by(fixture->device);
    CHECK_STATUS(draw(fixture->replay), GPUR_OUT_OF_MEMORY);
    CHECK_MESSAGE("bytes wanted");
    CHECK_STATUS(make_learner(fixture->replay), GPUR_OUT_OF_MEMORY);
    CHECK_MESSAGE("bytes wanted");
    CHECK_STATUS(make_replay(fixture->device), GPUR_OUT_OF_MEMORY);
    CHECK_EQUAL(used_by(fixture->device), used);
    CHECK_OK(replay_fixture_append(fixture, 3 * CAPACITY)); /* needs no memory */
}

/* A learner is created and destroyed beforehand, because libraries allocate memory for themselves at their first
 * use. */
TEST(without_memory_batches_learners_and_replays_are_refused_and_come_back_with_it)
{
    gpur_replay_config config = large_config();
    void *blocks[LIMIT];
    replay_fixture fixture;
    CHECK(replay_fixture_open(&fixture, test_device(), &config, 1));
    CHECK_OK(replay_fixture_append(&fixture, CAPACITY));
    CHECK_OK(make_learner(fixture.replay));
    const int count = take_the_rest(fixture.device, blocks);
    CHECK(count > 0 && count < LIMIT);
    check_refusals(&fixture);
    for (int i = 0; i < count; i++)
        gpur_device_free(fixture.device, blocks[i]);
    CHECK_OK(draw(fixture.replay));
    CHECK_OK(make_learner(fixture.replay));
    CHECK_OK(make_replay(fixture.device));
    replay_fixture_close(&fixture);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    if (!test_on_cuda()) {
        printf("test_cuda_limits: %s shares its memory with everybody\n", test_device_name());
        return 77;
    }
    RUN(a_replay_larger_than_the_gpu_is_refused_and_the_device_goes_on);
    RUN(without_memory_batches_learners_and_replays_are_refused_and_come_back_with_it);
    return test_main_end();
}
