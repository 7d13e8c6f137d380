/* SPDX-License-Identifier: MIT */
/* Programmatic dependent launches change no result. */
#include "test.h"
#include "device/device.h"
#include "support/learner_fixture.h"

enum { BATCH = 32, FEATURES = 500, COUNT = BATCH * FEATURES, LINKS = 60, MOST = 4000 };

typedef struct chain {
    gpur_device *device;
    float *y, *copy, *one; /* (COUNT), (COUNT) and (FEATURES) in device memory */
    int64_t link;          /* counted over all repetitions */
} chain;

/* Kernels of changing launch shapes, so that different threads change an element in turn; some copies and fills in
 * between. */
static gpur_status enqueue_links(void *context, gpur_stream *stream)
{
    static const gpur_grid grids[] = {{1, 1024, 0}, {64, 256, 0}, {7, 96, 0}, {33, 32, 0}};
    chain *const c = (chain *)context;
    const gpur_bias_activation_args args = {
        .y = c->y, .bias = c->one, .batch = BATCH, .features = FEATURES, .pitch = FEATURES};
    for (int link = 0; link < LINKS; link++) {
        gpur_device_force_grid(c->device, grids[c->link++ % 4]);
        GPUR_TRY(gpur_launch_bias_activation(stream, gpur_grid_rows(c->device, BATCH, 1, FEATURES * 4), &args));
        if (link % 11 == 5)
            GPUR_TRY(gpur_copy(stream, c->copy, c->y, COUNT * 4));
        if (link % 13 == 7)
            GPUR_TRY(gpur_fill(stream, c->copy, 0, 4));
    }
    return GPUR_OK;
}

static gpur_status open_chain(chain *c)
{
    float one[FEATURES];
    for (int f = 0; f < FEATURES; f++)
        one[f] = 1.0f;
    c->device = test_device();
    c->link = 0;
    GPUR_TRY(gpur_device_alloc(c->device, COUNT * 4, (void **)&c->y));
    GPUR_TRY(gpur_device_alloc(c->device, COUNT * 4, (void **)&c->copy));
    GPUR_TRY(gpur_device_alloc(c->device, sizeof one, (void **)&c->one));
    return gpur_device_copy(c->device, c->one, one, sizeof one);
}

static void close_chain(chain *c)
{
    gpur_device_free(c->device, c->one);
    gpur_device_free(c->device, c->copy);
    gpur_device_free(c->device, c->y);
    gpur_device_close(c->device);
}

/* Runs the chain once on an ordinary stream and three times as a graph. Every link adds one to each element of y. The
 * copy is the one after link 49 of the last run, except its first element, which was filled afterwards. */
static void check_chain(int on)
{
    static float y[COUNT], copy[COUNT];
    chain c;
    gpur_stream *stream = NULL;
    gpur_recording *recording = NULL;
    CHECK_OK(open_chain(&c));
    gpur_device_dependent_launches(c.device, on);
    CHECK_OK(gpur_stream_create(c.device, &stream));
    CHECK_OK(enqueue_links(&c, stream));
    CHECK_OK(gpur_recording_create(c.device, enqueue_links, &c, 2, &recording));
    CHECK_OK(gpur_recording_replay(recording, stream, 3));
    CHECK_OK(gpur_copy(stream, y, c.y, COUNT * 4));
    CHECK_OK(gpur_copy(stream, copy, c.copy, COUNT * 4));
    CHECK_OK(gpur_stream_sync(stream));
    for (int i = 0; i < COUNT; i++) {
        CHECK(y[i] == 4.0f * LINKS);
        CHECK(copy[i] == (i ? 3.0f * LINKS + 50.0f : 0.0f));
    }
    gpur_recording_destroy(recording);
    gpur_stream_destroy(stream);
    close_chain(&c);
}

TEST(a_chain_of_kernels_and_copies_comes_out_the_same)
{
    for (int on = 0; on < 3; on++)
        check_chain(on % 2);
}

static int64_t train(int on, float *weights)
{
    static learn_world world;
    gpur_device *const device = test_device();
    const gpur_learner_config config = world_config(GPUR_HEAD_DUELING, 1);
    gpur_learner *learner = NULL;
    int64_t count = -1;
    gpur_device_dependent_launches(device, on);
    gpur_status status = world_open(&world, device, WORLD_ROWS);
    if (status == GPUR_OK)
        status = gpur_learner_create(world.replay, &config, &learner);
    if (status == GPUR_OK)
        status = gpur_learner_train(learner, 50);
    if (status == GPUR_OK)
        count = world_weights(learner, GPUR_WEIGHTS_ONLINE, weights, MOST);
    gpur_learner_destroy(learner);
    world_close(&world);
    gpur_device_close(device);
    return count;
}

TEST(a_learner_learns_the_same_bits)
{
    static float plain[MOST], dependent[MOST];
    const int64_t count = train(0, plain);
    CHECK(count > 0);
    CHECK_EQUAL(train(1, dependent), count);
    CHECK(memcmp(plain, dependent, (size_t)count * sizeof *plain) == 0);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(a_chain_of_kernels_and_copies_comes_out_the_same);
    RUN(a_learner_learns_the_same_bits);
    return test_main_end();
}
