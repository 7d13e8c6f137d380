/* SPDX-License-Identifier: MIT */
/* Grid sync: after it, every block sees what the others wrote before it, in every launch shape, and in a graph. */
#include "test.h"
#include "device/device.h"
#include "kernels/target/thread.h"

enum { LIMIT = 5003, ROUNDS = 37 };

static gpur_device *device;
static gpur_stream *stream;
static uint32_t *buffers; /* (2, LIMIT) in device memory */

static gpur_grid_sync_probe_args probe_of(int64_t n, int64_t reach, int32_t rounds)
{
    const gpur_grid_sync_probe_args args = {.buffers = buffers, .n = n, .reach = reach, .rounds = rounds};
    return args;
}

/* Each launch has salts of its own. */
static void set_salts(gpur_grid_sync_probe_args *args, int launch)
{
    for (uint32_t i = 0; i < GPUR_SYNC_PROBE_SALTS; i++)
        args->salts[i] = 2654435761u * (i + 1) * (uint32_t)(launch + 1);
}

static void begin(uint32_t *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = (uint32_t)(i * i) + 17u;
}

/* Applies the formula of the probe to x: kernels/args_replay.h. */
static void expect(const gpur_grid_sync_probe_args *args, uint32_t *x)
{
    static uint32_t out[LIMIT];
    for (int32_t round = 0; round < args->rounds; round++) {
        for (int64_t i = 0; i < args->n; i++)
            out[i] = 5u * x[i] + 2u * x[(i + args->reach) % args->n] + args->salts[round % GPUR_SYNC_PROBE_SALTS];
        memcpy(x, out, (size_t)args->n * sizeof *x);
    }
}

/* Compares the device's numbers. After an even number of rounds they are in the first buffer, after an odd number in
 * the second. */
static void compare(const gpur_grid_sync_probe_args *args, uint32_t *want)
{
    static uint32_t got[LIMIT];
    CHECK_OK(gpur_copy(stream, got, buffers + args->rounds % 2 * args->n, args->n * (int64_t)sizeof *got));
    CHECK_OK(gpur_stream_sync(stream));
    for (int64_t i = 0; i < args->n; i++)
        TEST_REQUIRE(got[i] == want[i], "number %d of %d is wrong", (int)i, (int)args->n);
}

/* The arguments, a struct of 2.6 KB, are copied by the call, however many launches are queued. */
static void check_launches(gpur_grid grid, gpur_grid_sync_probe_args args, int launches)
{
    static uint32_t want[LIMIT];
    begin(want, args.n);
    CHECK_OK(gpur_copy(stream, buffers, want, args.n * (int64_t)sizeof *want));
    CHECK_OK(gpur_stream_sync(stream));
    for (int k = 0; k < launches; k++) {
        set_salts(&args, k);
        CHECK_OK(gpur_launch_grid_sync_probe(stream, grid, &args));
    }
    memset(args.salts, 0xa5, sizeof args.salts);
    for (int k = 0; k < launches; k++) {
        set_salts(&args, k);
        expect(&args, want);
    }
    compare(&args, want);
}

static void check_shape(gpur_grid grid)
{
    static const int64_t sizes[] = {1, 7, 256, LIMIT};
    for (int k = 0; k < 8; k++)
        check_launches(grid, probe_of(sizes[k % 4], k < 4 ? 1 % sizes[k % 4] : sizes[k % 4] / 2, ROUNDS + k % 2), 1);
}

/* As many blocks as can run at the same time, fewer, and one. */
TEST(what_was_written_before_a_grid_sync_is_seen_after_it)
{
    static const int64_t blocks[] = {1, 2, 3, 4, 5, 8, 16, 17, 66, 100000};
    static const int32_t threads[] = {32, 96, 512};
    for (int k = 0; k < 30; k++) {
        gpur_grid grid = gpur_grid_cooperative(device, GPUR_KERNEL_ID_grid_sync_probe, blocks[k / 3], threads[k % 3]);
        if (grid.blocks < blocks[k / 3] && k < 27)
            continue; /* clamped shapes are tested once, at the end */
        CHECK(grid.cooperative == 1 && grid.blocks >= 1 && grid.blocks <= blocks[k / 3]);
        check_shape(grid);
    }
}

TEST(a_forced_shape_is_cut_to_what_runs_at_once)
{
    static const gpur_grid forced[] = {{1, 32, 0}, {2, 12, 0}, {3, 1024, 0}, {1000000, 1024, 0}};
    const int64_t max_blocks = gpur_grid_cooperative(device, GPUR_KERNEL_ID_grid_sync_probe, INT64_MAX, 32).blocks;
    CHECK(GPUR_WARP > 1 ? max_blocks > 1
                        : test_on_cuda() || max_blocks == 1); /* in the race check several blocks run */
    for (int k = 0; k < 4; k++) {
        gpur_device_force_grid(device, forced[k]);
        const gpur_grid grid = gpur_grid_cooperative(device, GPUR_KERNEL_ID_grid_sync_probe, 2, 64);
        CHECK_EQUAL(grid.cooperative, 1);
        CHECK_EQUAL(grid.blocks, forced[k].blocks < max_blocks ? forced[k].blocks : max_blocks);
        check_shape(grid);
    }
}

TEST(a_launch_whose_blocks_cannot_wait_for_each_other_is_refused)
{
    const gpur_grid_sync_probe_args args = probe_of(64, 1, 2);
    const gpur_window_set_args other = {.window = (gpur_window *)buffers};
    const gpur_grid good = gpur_grid_cooperative(device, GPUR_KERNEL_ID_grid_sync_probe, INT64_MAX, 32);
    gpur_grid grid = good;
    grid.blocks++;
    CHECK_FAILS(gpur_launch_grid_sync_probe(stream, grid, &args), GPUR_INVALID_ARGUMENT, "kernel grid_sync_probe");
    CHECK_MESSAGE("there may be at most");
    grid = (gpur_grid){.blocks = 1, .threads = 32};
    CHECK_STATUS(gpur_launch_grid_sync_probe(stream, grid, &args), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("its blocks wait for each other, and gpur_grid.cooperative is 0; it must not be 0");
    grid.cooperative = 1;
    CHECK_FAILS(
        gpur_launch_window_set(stream, grid, &other), GPUR_INVALID_ARGUMENT,
        "kernel window_set: its blocks do not wait for each other, and gpur_grid.cooperative is 1; it must be 0");
    check_shape(good); /* the refusals changed nothing */
}

/* More launches than a stream has overflow slots for large arguments. */
TEST(large_arguments_belong_to_the_launch)
{
    _Static_assert(sizeof(gpur_grid_sync_probe_args) > 2500, "these arguments are to be large");
    check_launches(gpur_grid_cooperative(device, GPUR_KERNEL_ID_grid_sync_probe, 3, 32),
                   probe_of(61, 1, GPUR_SYNC_PROBE_SALTS), 100);
}

typedef struct recorded {
    gpur_grid grid;
    gpur_grid_sync_probe_args args;
} recorded;

static gpur_status record(void *context, gpur_stream *recorder)
{
    const recorded *const r = (const recorded *)context;
    return gpur_launch_grid_sync_probe(recorder, r->grid, &r->args);
}

TEST(grid_sync_works_in_a_graph)
{
    static uint32_t want[LIMIT];
    gpur_graph *graph = NULL;
    recorded r = {.args = probe_of(LIMIT, LIMIT / 2, 4)};
    r.grid = gpur_grid_cooperative(device, GPUR_KERNEL_ID_grid_sync_probe, 16, 256);
    check_launches(r.grid, r.args, 1); /* on an ordinary stream first */
    begin(want, LIMIT);
    CHECK_OK(gpur_copy(stream, buffers, want, sizeof want));
    CHECK_OK(gpur_stream_sync(stream));
    set_salts(&r.args, 1);
    CHECK_OK(gpur_graph_create(device, record, &r, 3, &graph));
    CHECK_OK(gpur_graph_launch(graph, stream, 7));
    for (int k = 0; k < 7; k++)
        expect(&r.args, want);
    compare(&r.args, want);
    gpur_graph_destroy(graph);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
    if (gpur_stream_create(device, &stream) != GPUR_OK ||
        gpur_memory_alloc(device, 2 * LIMIT * sizeof *buffers, "the test", (void **)&buffers) != GPUR_OK)
        return 1;
    RUN(what_was_written_before_a_grid_sync_is_seen_after_it);
    RUN(a_launch_whose_blocks_cannot_wait_for_each_other_is_refused);
    RUN(large_arguments_belong_to_the_launch);
    RUN(grid_sync_works_in_a_graph);
    RUN(a_forced_shape_is_cut_to_what_runs_at_once); /* the last: the device keeps the shape */
    gpur_memory_free(device, buffers);
    gpur_stream_destroy(stream);
    gpur_device_close(device);
    return test_main_end();
}
