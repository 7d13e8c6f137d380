/* SPDX-License-Identifier: MIT */
/* What launches request from CUDA on GPUs of several kinds, which need not be present: cooperative launches, and
 * dependent launches. */
#include "test.h"
#include "device/device.h"
#include "replay/priority/sum_tree.h"
#include "support/cuda/fake_cuda.h"

enum { PROBE = GPUR_KERNEL_ID_grid_sync_probe, PROBE_THREADS = 512, SMALL_THREADS = 128 };

/* Major version, multiprocessors, cooperative launches, blocks per multiprocessor, PTX version. */
#define GPU(...)                                                                                                       \
    {                                                                                                                  \
        __VA_ARGS__, PROBE_THREADS, SMALL_THREADS + 17, 0                                                              \
    }
static const fake_gpu h200 = GPU(9, 132, 1, 2, 90);

typedef struct streams {
    gpur_device *device;
    gpur_stream *stream;
} streams;

static gpur_status open_fake(streams *s, fake_gpu gpu, void *callers_stream)
{
    gpur_device_config config = test_device_config();
    fake = gpu;
    config.stream = callers_stream;
    GPUR_TRY(gpur_device_open("cuda:0", &config, &s->device));
    return gpur_stream_create_main(s->device, &s->stream);
}

static void close_fake(streams *s)
{
    gpur_stream_destroy(s->stream);
    gpur_device_close(s->device);
}

static gpur_status launch_probe(const streams *s, int64_t blocks)
{
    static gpur_grid_sync_probe_args args;
    return gpur_launch_grid_sync_probe(s->stream, gpur_grid_cooperative(s->device, PROBE, blocks, 256), &args);
}

static int cooperative(void)
{
    return fake_launch.attributes && fake_launch.attribute.id == cudaLaunchAttributeCooperative &&
           fake_launch.attribute.val.cooperative == 1;
}

/* Launches `blocks` blocks cooperatively, and expects `are` blocks. */
static void check_grid_sync(const streams *s, int64_t blocks, unsigned are)
{
    CHECK_OK(launch_probe(s, blocks));
    CHECK_EQUAL(fake_launch.blocks, are);
    CHECK_EQUAL(fake_launch.threads, 256);
    CHECK_EQUAL(cooperative(), are > 1);
    CHECK_EQUAL(fake_launch.attributes, are > 1);
}

TEST(a_cooperative_launch_has_the_blocks_that_run_at_once_or_one)
{
    streams s;
    CHECK_OK(open_fake(&s, h200, NULL));
    check_grid_sync(&s, 1, 1);
    check_grid_sync(&s, 2, 2);
    check_grid_sync(&s, 17, 17);
    check_grid_sync(&s, 264, 264);
    check_grid_sync(&s, 1000000, 264);
    check_grid_sync(&s, -5, 1);
    close_fake(&s);
    fake_gpu old = h200;
    old.cooperative = 0;
    CHECK_OK(open_fake(&s, old, NULL));
    check_grid_sync(&s, 16, 1);
    check_grid_sync(&s, 132, 1);
    close_fake(&s);
}

TEST(a_shape_that_does_not_fit_is_refused_and_a_forced_one_is_cut)
{
    static const gpur_grid bad[] = {{1, 31, 0}, {1, 0, 0}, {1, 1056, 0}, {(int64_t)1 << 31, 32, 0}};
    static gpur_grid_sync_probe_args args;
    const gpur_bias_activation_args nothing = {.batch = 0};
    streams s;
    CHECK_OK(open_fake(&s, h200, NULL));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK_FAILS(gpur_launch_bias_activation(s.stream, bad[i], &nothing), GPUR_INVALID_ARGUMENT, "bias_activation");
        CHECK_MESSAGE("wanted");
    }
    CHECK_OK(gpur_launch_bias_activation(s.stream, (gpur_grid){1, 1024, 0}, &nothing));
    gpur_grid grid = {265, 256, 1};
    CHECK_STATUS(gpur_launch_grid_sync_probe(s.stream, grid, &args), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("kernel grid_sync_probe: 265 blocks that wait for each other; there may be at most 264");
    grid = (gpur_grid){16, 544, 1};
    CHECK_STATUS(gpur_launch_grid_sync_probe(s.stream, grid, &args), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("kernel grid_sync_probe: 544 threads a block; wanted a multiple of 32 up to 512");
    CHECK_EQUAL(gpur_grid_cooperative(s.device, PROBE, 16, 1024).threads, PROBE_THREADS);
    CHECK_EQUAL(gpur_grid_cooperative(s.device, PROBE, 16, 100).threads, 96);
    CHECK_EQUAL(gpur_grid_cooperative(s.device, PROBE, 16, 0).threads, 32);
    const gpur_window_set_args small = {.window = NULL};
    grid = (gpur_grid){1, 160, 0};
    CHECK_STATUS(gpur_launch_window_set(s.stream, grid, &small), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("kernel window_set: 160 threads a block; wanted a multiple of 32 up to 128");
    gpur_device_force_grid(s.device, (gpur_grid){300, 1024, 0});
    CHECK_OK(gpur_launch_window_set(s.stream, gpur_grid_elements(s.device, 1), &small));
    CHECK(fake_launch.blocks == 300 && fake_launch.threads == SMALL_THREADS);
    grid = gpur_grid_cooperative(s.device, PROBE, 16, 64);
    CHECK(grid.blocks == 264 && grid.threads == PROBE_THREADS && grid.cooperative == 1);
    close_fake(&s);
}

/* Launches a kernel. Returns 1 if it was a dependent launch, 0 if not, -1 on anything unexpected. */
static int follows(const streams *s)
{
    static float number[2];
    const gpur_bias_activation_args args = {.y = number, .bias = number + 1, .batch = 1, .features = 1, .pitch = 1};
    fake_launch.attributes = 99;
    if (gpur_launch_bias_activation(s->stream, (gpur_grid){1, 32, 0}, &args) != GPUR_OK)
        return -1;
    return fake_launch.attributes == 0 ? 0
           : fake_launch.attributes == 1 &&
                   fake_launch.attribute.id == cudaLaunchAttributeProgrammaticStreamSerialization &&
                   fake_launch.attribute.val.programmaticStreamSerializationAllowed == 1
               ? 1
               : -1;
}

TEST(a_kernel_follows_dependently_right_behind_another_of_ours)
{
    static char bytes[8];
    streams s;
    gpur_event *event = NULL;
    CHECK_OK(open_fake(&s, h200, NULL));
    CHECK_OK(gpur_event_create(s.device, &event));
    CHECK(follows(&s) == 0 && follows(&s) == 1 && follows(&s) == 1);
    CHECK_OK(gpur_copy(s.stream, bytes, bytes + 4, 4));
    CHECK(follows(&s) == 0 && follows(&s) == 1);
    CHECK_OK(gpur_fill(s.stream, bytes, 0, 4));
    CHECK(follows(&s) == 0 && follows(&s) == 1);
    CHECK_OK(gpur_event_record(event, s.stream));
    CHECK(follows(&s) == 0 && follows(&s) == 1);
    CHECK_OK(gpur_stream_wait(s.stream, event));
    CHECK(follows(&s) == 0 && follows(&s) == 1);
    CHECK(gpur_stream_native(s.stream) != NULL); /* the caller may enqueue a library's work */
    CHECK(follows(&s) == 0 && follows(&s) == 1);
    check_grid_sync(&s, 132, 132); /* a cooperative launch neither is nor precedes a dependent one */
    CHECK(follows(&s) == 0 && follows(&s) == 1);
    gpur_event_destroy(event);
    close_fake(&s);
}

static void check_never_follows(fake_gpu what, void *callers_stream)
{
    streams s;
    CHECK_OK(open_fake(&s, what, callers_stream));
    CHECK(follows(&s) == 0 && follows(&s) == 0);
    close_fake(&s);
}

TEST(nothing_follows_dependently_on_an_older_gpu_or_on_the_callers_stream)
{
    const fake_gpu ampere = GPU(8, 108, 1, 2, 80), by_ptx = GPU(9, 132, 1, 2, 80);
    cudaStream_t theirs = NULL;
    check_never_follows(ampere, NULL);
    check_never_follows(by_ptx, NULL);
    CHECK(cudaStreamCreateWithFlags(&theirs, 0) == cudaSuccess);
    check_never_follows(h200, theirs);
    CHECK(cudaStreamDestroy(theirs) == cudaSuccess);
    CHECK_EQUAL(fake_alive(), 0);
}

/* Up to 1,024 new priorities are updated in one launch: by one block with a thread each, or by several, of which the
 * last to end settles the tree, if it need not compute minima. More take a launch for each phase, of which the last one
 * before the minima settles. */
TEST(many_priorities_are_updated_by_many_blocks)
{
    static uint32_t least;
    streams s;
    CHECK_OK(open_fake(&s, h200, NULL));
    gpur_priorities p = {.device = s.device, .tree = {.capacity = 1 << 20, .levels = 3}};
    const unsigned few = GPUR_DRAWS_ARE_SEPARATE ? 1 : 4, many = GPUR_DRAWS_ARE_SEPARATE ? 1 : 16;
    const unsigned threads = GPUR_DRAWS_ARE_SEPARATE ? 1024 : 256;
    CHECK_OK(gpur_priorities_update(&p, s.stream, 1024, NULL, NULL, 0));
    CHECK(fake_launch.blocks == few && fake_launch.threads == threads);
    CHECK_OK(gpur_priorities_update(&p, s.stream, 4096, NULL, NULL, 0));
    CHECK(fake_launch.blocks == many && fake_launch.threads == threads);
    p.tree.min_leaf[0] = &least; /* then a warp looks at the node above each row */
    CHECK_OK(gpur_priorities_update(&p, s.stream, 1024, NULL, NULL, 0));
    CHECK(fake_launch.blocks == 1 && fake_launch.threads == 1024);
    CHECK_OK(gpur_priorities_update(&p, s.stream, 4096, NULL, NULL, 0));
    CHECK(fake_launch.blocks == 1024 && fake_launch.threads == 128);
    close_fake(&s);
}

int main(int argc, char **argv)
{
    faults.fake = 1;
    test_main_begin(argc, argv);
    if (test_on_cuda()) {
        printf("test_cuda_launches: %s is real\n", test_device_name());
        return 77;
    }
    RUN(a_cooperative_launch_has_the_blocks_that_run_at_once_or_one);
    RUN(a_shape_that_does_not_fit_is_refused_and_a_forced_one_is_cut);
    RUN(a_kernel_follows_dependently_right_behind_another_of_ours);
    RUN(nothing_follows_dependently_on_an_older_gpu_or_on_the_callers_stream);
    RUN(many_priorities_are_updated_by_many_blocks);
    return test_main_end();
}
