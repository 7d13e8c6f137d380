/* SPDX-License-Identifier: MIT */
/* A GPU whose memory is taken: allocations are refused with the numbers, and the device stays usable. It takes all
 * memory of the GPU, so nothing else should use it meanwhile. Too large replays are in test_replay_config. */
#include "support/replay_fixture.h"
#include "test.h"

enum { FEATURES = 16384, CAPACITY = 256, BATCH = 64, LIMIT = 128 };

/* Rows of 32 KiB. Their bytes are arbitrary, which as bytes are numbers that a learner can train on. */
static const gpur_field fields[] = {{"obs", GPUR_UINT8, {FEATURES}},
                                    {"action", GPUR_INT32, {0}},
                                    {"reward", GPUR_FLOAT32, {0}},
                                    {"next_obs", GPUR_UINT8, {FEATURES}},
                                    {"terminated", GPUR_BOOL, {0}}};

static gpur_replay_config large_config(void)
{
    return replay_fixture_config(fields, 5, CAPACITY, 8, BATCH);
}

static gpur_status sample(gpur_replay *replay)
{
    gpur_batch *batch = NULL;
    const gpur_status status = gpur_replay_sample(replay, BATCH, NULL, &batch);
    gpur_batch_release(batch);
    return status;
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
    gpur_dqn_config config;
    gpur_learner *learner = NULL;
    gpur_status status = gpur_dqn_config_init(&config, sizeof config);
    config.network.num_actions = 5;
    if (status == GPUR_OK)
        status = gpur_dqn_create(replay, &config, &learner);
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
    const int64_t used = test_memory_used(fixture->device);
    CHECK_FAILS(sample(fixture->replay), GPUR_OUT_OF_MEMORY, "bytes wanted");
    CHECK_FAILS(make_learner(fixture->replay), GPUR_OUT_OF_MEMORY, "bytes wanted");
    CHECK_STATUS(make_replay(fixture->device), GPUR_OUT_OF_MEMORY);
    CHECK_EQUAL(test_memory_used(fixture->device), used);
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
    CHECK_OK(sample(fixture.replay));
    CHECK_OK(make_learner(fixture.replay));
    CHECK_OK(make_replay(fixture.device));
    replay_fixture_close(&fixture);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    test_require_cuda();
    RUN(without_memory_batches_learners_and_replays_are_refused_and_come_back_with_it);
    return test_main_end();
}
