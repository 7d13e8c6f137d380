/* SPDX-License-Identifier: MIT */
/* Memory that runs out at every place in turn, and a caller's allocator that gets back all it gave. */
#include "test.h"
#include "support/counting_alloc.h"
#include "support/learn_world.h"

/* As far as it goes, over a full replay: a learner is made, trains, acts, and goes. */
static gpur_status use(gpur_replay *replay)
{
    const gpur_learner_config config = world_config(GPUR_HEAD_DUELING, 1);
    const float obs[WORLD_FEATURES] = {0};
    gpur_learner *learner = NULL;
    int32_t action = -1;
    gpur_status status = gpur_learner_create(replay, &config, &learner);
    if (status == GPUR_OK)
        status = gpur_learner_train(learner, 3);
    if (status == GPUR_OK)
        status = gpur_learner_act(learner, 1, obs, 0.0f, &action, NULL);
    if (status == GPUR_OK)
        status = gpur_learner_sync(learner);
    gpur_learner_destroy(learner);
    return status;
}

/* What `use` came to when its nth allocation and all later ones failed; 0: none. The calls it made, if asked for. */
static gpur_status use_with(int64_t nth, counting_alloc *counts, int64_t *calls)
{
    static learn_world world;
    gpur_device_config config = test_device_config();
    gpur_device *device = NULL;
    config.alloc = counting_alloc_take, config.release = counting_alloc_give, config.alloc_user = counts;
    gpur_status status = gpur_device_open(test_device_name(), &config, &device);
    if (status != GPUR_OK)
        return status;
    status = world_open(&world, device, WORLD_ROWS);
    const int64_t before = counts->calls;
    counts->fail_at = nth ? before + nth : 0;
    if (status == GPUR_OK)
        status = use(world.replay);
    *calls = counts->calls - before;
    world_close(&world);
    gpur_device_close(device);
    return status;
}

static void check_all_given_back(const counting_alloc *counts)
{
    CHECK_EQUAL(counts->blocks, 0);
    CHECK_EQUAL(counts->bytes, 0);
    CHECK_EQUAL(counts->wrong_sizes, 0);
}

TEST(every_failing_allocation_is_refused_cleanly)
{
    counting_alloc counts = {0};
    int64_t calls = 0, ignored = 0;
    CHECK_OK(use_with(0, &counts, &calls));
    check_all_given_back(&counts);
    CHECK(calls >= 3);
    for (int64_t nth = 1; nth <= calls; nth++) {
        counting_alloc failing = {0};
        CHECK_STATUS(use_with(nth, &failing, &ignored), GPUR_OUT_OF_MEMORY);
        check_all_given_back(&failing);
    }
}

/* The handle too: of a learner that is refused as soon as its config is read, it is all there is. */
TEST(the_handle_comes_from_the_callers_allocator)
{
    static learn_world world;
    counting_alloc counts = {0};
    gpur_device_config config = test_device_config();
    gpur_learner_config refused = world_config(GPUR_HEAD_Q, 1);
    gpur_device *device = NULL;
    gpur_learner *learner = NULL;
    config.alloc = counting_alloc_take, config.release = counting_alloc_give, config.alloc_user = &counts;
    CHECK_OK(gpur_device_open(test_device_name(), &config, &device));
    CHECK_OK(world_open(&world, device, 0));
    const int64_t calls = counts.calls, blocks = counts.blocks;
    refused.size = 0;
    CHECK_STATUS(gpur_learner_create(world.replay, &refused, &learner), GPUR_INVALID_ARGUMENT);
    CHECK_EQUAL(counts.calls, calls + 1);
    CHECK_EQUAL(counts.blocks, blocks);
    world_close(&world);
    gpur_device_close(device);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(every_failing_allocation_is_refused_cleanly);
    RUN(the_handle_comes_from_the_callers_allocator);
    return test_main_end();
}
