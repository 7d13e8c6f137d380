/* SPDX-License-Identifier: MIT */
/* Streams, events, copies, launches and graphs: checks arguments and calls the backend. */
#include "device/backend.h"

#include "base/numbers.h"
#include "kernels/entries.h"

#include <assert.h>
#include <inttypes.h>

gpur_status gpur_stream_create(gpur_device *device, gpur_stream **stream)
{
    return device->backend->stream_create(device, NULL, stream);
}

gpur_status gpur_stream_create_main(gpur_device *device, gpur_stream **stream)
{
    return device->backend->stream_create(device, device->config.stream, stream);
}

gpur_status gpur_stream_create_unlisted(gpur_device *device, gpur_stream **stream)
{
    return device->backend->stream_create_unlisted(device, stream);
}

gpur_status gpur_stream_borrow(gpur_device *device, void *native, gpur_stream **stream)
{
    return device->backend->stream_borrow(device, native, stream);
}

void gpur_stream_give_back(gpur_stream *stream)
{
    stream->device->backend->stream_give_back(stream);
}

void gpur_stream_destroy(gpur_stream *stream)
{
    if (stream)
        stream->device->backend->stream_destroy(stream);
}

gpur_status gpur_stream_sync(gpur_stream *stream)
{
    return stream->device->backend->stream_sync(stream);
}

void *gpur_stream_native(gpur_stream *stream)
{
    return stream->device->backend->stream_native(stream);
}

gpur_status gpur_native_stream_check(gpur_device *device, void *native, int outlives_call)
{
    return native ? device->backend->native_stream_check(device, native, outlives_call) : GPUR_OK;
}

gpur_status gpur_own_stream_check(gpur_device *device)
{
    void *const own = device->config.stream;
    GPUR_REQUIRE(
        !own || !device->backend->stream_is_captured(device, own),
        "the device's stream, %p, is being captured into a graph, and this call waits for what it enqueues there; "
        "give it this stream if it takes one, or make it before the capture or after it",
        own);
    return GPUR_OK;
}

gpur_status gpur_stream_wait_native(gpur_stream *stream, void *native)
{
    return stream->device->backend->stream_wait_native(stream, native);
}

gpur_status gpur_native_wait_stream(void *native, gpur_stream *stream)
{
    return stream->device->backend->native_wait_stream(native, stream);
}

gpur_status gpur_event_create(gpur_device *device, gpur_event **event)
{
    return device->backend->event_create(device, event);
}

void gpur_event_destroy(gpur_event *event)
{
    if (event)
        event->device->backend->event_destroy(event);
}

gpur_status gpur_event_record(gpur_event *event, gpur_stream *stream)
{
    return event->device->backend->event_record(event, stream);
}

gpur_status gpur_stream_wait(gpur_stream *stream, gpur_event *event)
{
    return event->device->backend->event_wait(stream, event);
}

gpur_status gpur_event_sync(gpur_event *event)
{
    return event->device->backend->event_sync(event);
}

int gpur_event_done(gpur_event *event)
{
    return event->device->backend->event_done(event);
}

gpur_status gpur_copy(gpur_stream *stream, void *to, const void *from, int64_t bytes)
{
    GPUR_REQUIRE(bytes >= 0, "%" PRId64 " bytes to copy; it must be at least 0", bytes);
    return bytes ? stream->device->backend->copy(stream, to, from, bytes) : GPUR_OK;
}

gpur_status gpur_copy_nt(gpur_stream *stream, void *to, const void *from, int64_t bytes)
{
    GPUR_REQUIRE(bytes >= 0, "%" PRId64 " bytes to copy; it must be at least 0", bytes);
    return bytes ? stream->device->backend->copy_nt(stream, to, from, bytes) : GPUR_OK;
}

gpur_status gpur_fill(gpur_stream *stream, void *memory, int byte, int64_t bytes)
{
    GPUR_REQUIRE(bytes >= 0, "%" PRId64 " bytes to fill; it must be at least 0", bytes);
    return bytes ? stream->device->backend->fill(stream, memory, byte, bytes) : GPUR_OK;
}

static int is_forced(const gpur_device *device)
{
    return device->forced_grid.blocks > 0;
}

gpur_grid gpur_grid_elements(const gpur_device *device, int64_t n)
{
    return is_forced(device) ? device->forced_grid : device->backend->grid_elements(device, n);
}

gpur_grid gpur_grid_rows(const gpur_device *device, int64_t n, int64_t rows_per_block, int64_t bytes)
{
    return is_forced(device) ? device->forced_grid : device->backend->grid_rows(device, n, rows_per_block, bytes);
}

/* Blocks of four warps: a multiprocessor schedules four at a time. */
gpur_grid gpur_grid_warps(const gpur_device *device, int64_t n)
{
    enum { WARPS = 4, WARP = 32, WARP_BYTES = 256 };
    const gpur_grid grid = gpur_grid_rows(device, gpur_divide_up(n, WARPS), 1, WARPS * WARP_BYTES);
    return gpur_grid_of_threads(grid, WARPS * WARP);
}

gpur_grid gpur_grid_single(const gpur_device *device)
{
    return device->backend->grid_single(device);
}

gpur_grid gpur_grid_of_threads(gpur_grid grid, int32_t max_blocks)
{
    grid.threads = grid.threads < max_blocks ? grid.threads : max_blocks;
    return grid;
}

gpur_grid gpur_grid_cooperative(const gpur_device *device, int kernel, int64_t blocks, int32_t threads)
{
    gpur_grid wanted = {.blocks = blocks, .threads = threads};
    assert(gpur_kernel_is_cooperative(kernel));
    if (is_forced(device))
        wanted = device->forced_grid;
    wanted.cooperative = 1;
    return device->backend->grid_cooperative(device, kernel, wanted);
}

void gpur_device_force_grid(gpur_device *device, gpur_grid grid)
{
    device->forced_grid = grid;
}

void gpur_device_second_streams(gpur_device *device, int on)
{
    device->second_streams = on != 0;
}

int gpur_device_has_second_streams(const gpur_device *device)
{
    return device->second_streams;
}

/* Blocks that wait for each other at a grid sync but cannot all run at the same time would deadlock. */
static gpur_status check_cooperative(const gpur_device *device, int kernel, gpur_grid grid)
{
    const int is_cooperative = gpur_kernel_is_cooperative(kernel);
    const char *const name = gpur_kernel_names[kernel];
    GPUR_REQUIRE((grid.cooperative != 0) == is_cooperative,
                 "kernel %s: its blocks %s, and gpur_grid.cooperative is %" PRId32 "; it must %sbe 0", name,
                 is_cooperative ? "wait for each other" : "do not wait for each other", grid.cooperative,
                 is_cooperative ? "not " : "");
    const int64_t max_blocks =
        is_cooperative ? device->backend->grid_cooperative(device, kernel, grid).blocks : grid.blocks;
    GPUR_REQUIRE(grid.blocks <= max_blocks,
                 "kernel %s: %" PRId64 " blocks that wait for each other; there may be at most %" PRId64
                 ", since all must run at the same time",
                 name, grid.blocks, max_blocks);
    return GPUR_OK;
}

/* Every kernel's arguments fit into the memory that a launch reserves for them. */
#define CHECK_ARGS(name)                                                                                               \
    _Static_assert(sizeof(gpur_##name##_args) <= GPUR_MAX_ARGS, "gpur_" #name "_args is too large");
GPUR_KERNEL_LIST(CHECK_ARGS)
#undef CHECK_ARGS

gpur_status gpur_launch(gpur_stream *stream, int kernel, gpur_grid grid, const void *args, size_t bytes)
{
    assert(kernel >= 0 && kernel < GPUR_KERNEL_COUNT && bytes <= GPUR_MAX_ARGS);
    GPUR_REQUIRE(grid.blocks >= 1, "a launch of %" PRId64 " blocks; it must be at least 1", grid.blocks);
    GPUR_TRY(check_cooperative(stream->device, kernel, grid));
    return stream->device->backend->launch(stream, kernel, grid, args, bytes);
}

gpur_status gpur_run_first(gpur_stream *stream, gpur_record_fn record, void *context)
{
    return stream->device->backend->run_first(stream, record, context);
}

gpur_status gpur_graph_create(gpur_device *device, gpur_record_fn record, void *context, int unroll, gpur_graph **graph)
{
    GPUR_REQUIRE(unroll >= 1, "a graph of %d repetitions; it must be at least 1", unroll);
    return device->backend->graph_create(device, record, context, unroll, graph);
}

void gpur_graph_destroy(gpur_graph *graph)
{
    if (graph)
        graph->device->backend->graph_destroy(graph);
}

gpur_status gpur_graph_launch(gpur_graph *graph, gpur_stream *stream, int64_t repetitions)
{
    GPUR_REQUIRE(repetitions >= 0, "%" PRId64 " repetitions of a graph; it must be at least 0", repetitions);
    return graph->device->backend->graph_launch(graph, stream, repetitions);
}

gpur_status gpur_device_sync(gpur_device *device)
{
    GPUR_REQUIRE(device, "device is NULL");
    return device->backend->sync(device);
}

gpur_status gpur_device_wait_stream(gpur_device *device, void *stream)
{
    gpur_stream *known = NULL;
    GPUR_REQUIRE(device, "device is NULL");
    GPUR_REQUIRE(stream, "stream is NULL; it must be a cudaStream_t");
    GPUR_TRY(gpur_native_stream_check(device, stream, 0));
    GPUR_TRY(device->backend->stream_create(device, stream, &known));
    const gpur_status status = gpur_stream_sync(known);
    gpur_stream_destroy(known);
    return status;
}

gpur_status gpur_device_copy(gpur_device *device, void *to, const void *from, int64_t bytes)
{
    GPUR_REQUIRE(device, "device is NULL");
    GPUR_REQUIRE(bytes >= 0, "%" PRId64 " bytes to copy; it must be at least 0", bytes);
    GPUR_REQUIRE((to && from) || bytes == 0, "gpur_device_copy %s NULL", to ? "from" : "to");
    GPUR_TRY(gpur_device_sync(device));
    GPUR_TRY(gpur_copy(device->copy_stream, to, from, bytes));
    return gpur_stream_sync(device->copy_stream);
}
