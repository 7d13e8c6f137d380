/* SPDX-License-Identifier: MIT */
/* Memory that runs out at every place in turn: each object is refused whole, and nothing stays behind. */
#include "support/counting_alloc.h"
#include "support/replay_kit.h"
#include "test.h"

static const gpur_field fields[] = {{"obs", GPUR_FLOAT32, {4}}, {"tag", GPUR_INT64, {0}}};

/* As far as it goes; 1 when it went to the end, 0 when memory ran out, -1 when anything else happened. */
static int use(gpur_device *device, int32_t feed)
{
    gpur_replay_config config = kit_config(fields, 2, 64, 8, 16);
    gpur_replay *replay = NULL;
    gpur_writer *writer = NULL;
    gpur_batch *batch = NULL;
    config.feed = feed;
    gpur_status status = gpur_replay_create(device, &config, &replay);
    if (status == GPUR_OK)
        status = gpur_writer_create(replay, 3, &writer);
    if (status == GPUR_OK) {
        const kit k = kit_of(replay, config.gamma);
        status = kit_append(&k, writer, 0, 100);
    }
    if (status == GPUR_OK)
        status = gpur_replay_sample(replay, 16, NULL, &batch);
    const int clean = status == GPUR_OK || batch == NULL;
    gpur_batch_release(batch);
    gpur_writer_destroy(writer);
    gpur_replay_destroy(replay);
    return !clean ? -1 : status == GPUR_OK ? 1 : status == GPUR_OUT_OF_MEMORY ? 0 : -1;
}

TEST(every_failing_allocation_is_refused_cleanly)
{
    for (int32_t feed = GPUR_FEED_COPY; feed <= GPUR_FEED_SCATTER; feed++) {
        int refusals = 0, outcome = 0;
        for (int64_t nth = 1; nth < 1000 && outcome == 0; nth++) {
            counting_alloc counts = {0};
            gpur_device_config config = test_device_config();
            gpur_device *device = NULL;
            config.alloc = counting_alloc_take, config.release = counting_alloc_give, config.alloc_user = &counts;
            CHECK_OK(gpur_device_open(test_device_name(), &config, &device));
            counts.fail_at = counts.calls + nth;
            outcome = use(device, feed);
            gpur_device_close(device);
            CHECK(outcome >= 0);
            CHECK_EQUAL(counts.blocks, 0);
            CHECK_EQUAL(counts.bytes, 0);
            CHECK_EQUAL(counts.wrong_sizes, 0);
            refusals += outcome == 0;
        }
        CHECK_EQUAL(outcome, 1);
        CHECK(refusals >= 5);
    }
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(every_failing_allocation_is_refused_cleanly);
    return test_main_end();
}
