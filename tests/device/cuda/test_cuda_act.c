/* SPDX-License-Identifier: MIT */
/* Acting on observations that another stream is still writing. */
#include "test.h"
#include "device/device.h"
#include "support/learner_fixture.h"

enum { FLOATS = 1 << 22, FILLS = 200, ACTS = 8, OBS = ACTS * WORLD_FEATURES };

static gpur_device *device;
static learn_world world;

/* Fills with bytes 0 and 0xbf alternately (0 and -1.498 as floats), and with `byte` at the end. */
static gpur_status make_slowly(gpur_stream *stream, float *memory, int byte)
{
    for (int i = 0; i < FILLS; i++)
        GPUR_TRY(gpur_fill(stream, memory, i % 2 ? 0xbf : 0, FLOATS * sizeof(float)));
    return gpur_fill(stream, memory, byte, FLOATS * sizeof(float));
}

static gpur_learner *open_learner(void)
{
    const gpur_learner_config config = world_config(GPUR_HEAD_DUELING, 1);
    gpur_learner *learner = NULL;
    if (world_open(&world, device, WORLD_ROWS) != GPUR_OK)
        return NULL;
    return gpur_learner_create(world.replay, &config, &learner) == GPUR_OK ? learner : NULL;
}

/* Acts on the last observations of a long array, because these are written last. */
static void check_round(gpur_learner *learner, gpur_stream *theirs, float *array, int byte)
{
    float obs[OBS], want[ACTS * WORLD_ACTIONS], q[ACTS * WORLD_ACTIONS];
    int32_t best[ACTS], actions[ACTS];
    const float *const made = array + FLOATS - OBS;
    void *const native = gpur_stream_native(theirs);
    memset(obs, byte, sizeof obs);
    CHECK_OK(gpur_learner_q_values(learner, ACTS, obs, want, NULL));
    CHECK_OK(gpur_learner_act(learner, ACTS, obs, 0.0f, best, NULL));
    CHECK_OK(make_slowly(theirs, array, byte));
    CHECK_OK(gpur_learner_q_values(learner, ACTS, made, q, native));
    CHECK(memcmp(q, want, sizeof q) == 0);
    CHECK_OK(make_slowly(theirs, array, byte));
    CHECK_OK(gpur_learner_act(learner, ACTS, made, 0.0f, actions, native));
    CHECK_OK(gpur_fill(theirs, array, 0, FLOATS * sizeof(float)));
    CHECK(memcmp(actions, best, sizeof best) == 0);
}

/* A second stream of ours stands for the host program's; the learner knows only its cudaStream_t. */
TEST(an_act_waits_for_the_stream_that_makes_its_observations)
{
    gpur_learner *const learner = open_learner();
    gpur_stream *theirs = NULL;
    float *array = NULL;
    CHECK(learner);
    CHECK_OK(gpur_stream_create(device, &theirs));
    CHECK_OK(gpur_device_alloc(device, FLOATS * sizeof(float), (void **)&array));
    for (int round = 0; round < 10; round++)
        check_round(learner, theirs, array, 0x3f - round % 3);
    gpur_stream_destroy(theirs);
    gpur_device_free(device, array);
    gpur_learner_destroy(learner);
    world_close(&world);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    if (!test_on_cuda()) {
        printf("test_cuda_act: %s is not a CUDA device\n", test_device_name());
        return 77;
    }
    device = test_device();
    RUN(an_act_waits_for_the_stream_that_makes_its_observations);
    gpur_device_close(device);
    return test_main_end();
}
