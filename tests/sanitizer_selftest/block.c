/* SPDX-License-Identifier: MIT */
/* Kernels with a deliberate race, and correct ones: ThreadSanitizer must report the former only. */
#include "device/cpu/launch_race.h"
#include "kernels/lib/collective.h"

#include <stdio.h>

enum { THREADS = 8, BLOCKS = 3, LIMIT = 65536 };

typedef struct neighbor_args {
    float out[BLOCKS * THREADS], cells[BLOCKS * THREADS];
} neighbor_args;

static void write_neighbor(gpur_thread at, neighbor_args *a, int with_barrier)
{
    GPUR_SHARED(float, values, THREADS);
    values[at.thread] = (float)at.thread;
    if (with_barrier)
        gpur_barrier(at);
    a->out[at.block * at.threads + at.thread] = values[(at.thread + 1) % at.threads];
}

static void right_kernel(gpur_thread at, const void *args)
{
    write_neighbor(at, *(neighbor_args *const *)args, 1);
}

static void no_barrier(gpur_thread at, const void *args)
{
    write_neighbor(at, *(neighbor_args *const *)args, 0);
}

static void one_slot_for_all_blocks(gpur_thread at, const void *args)
{
    if (at.thread == 0)
        (*(neighbor_args *const *)args)->out[0] += 1.0f;
}

/* Each thread reads what a thread of the next block wrote, so a block barrier is not enough. */
static void write_next_block(gpur_thread at, neighbor_args *a, int with_meeting)
{
    const int64_t mine = at.block * at.threads + at.thread, all = at.blocks * at.threads;
    a->cells[mine] = (float)at.thread;
    if (with_meeting)
        gpur_grid_sync(at);
    else
        gpur_barrier(at);
    a->out[mine] = a->cells[(mine + at.threads + 1) % all];
}

static void cooperative_kernel(gpur_thread at, const void *args)
{
    write_next_block(at, *(neighbor_args *const *)args, 1);
}

static void no_grid_sync(gpur_thread at, const void *args)
{
    write_next_block(at, *(neighbor_args *const *)args, 0);
}

static void greedy(gpur_thread at, const void *args)
{
    GPUR_SHARED(char, enough, LIMIT / 2);
    GPUR_SHARED(char, too_much, LIMIT / 2 + 64);
    (void)args;
    enough[at.thread] = too_much[at.thread] = 0;
}

static int is_right(const neighbor_args *a)
{
    for (int i = 0; i < BLOCKS * THREADS; i++)
        if (a->out[i] != (float)((i % THREADS + 1) % THREADS))
            return 0;
    return 1;
}

static int run_case(gpur_stream *stream, const char *name)
{
    neighbor_args results = {{0}, {0}}, *const address = &results;
    const gpur_grid grid = {.blocks = BLOCKS, .threads = THREADS};
    const gpur_grid together = {.blocks = BLOCKS, .threads = THREADS, .cooperative = GPUR_COOPERATIVE_AUTO};
    if (strcmp(name, "right_grid_sync_refusal") == 0)
        return gpur_race_run(stream, cooperative_kernel, grid, &address) == GPUR_DEVICE_ERROR &&
               strstr(gpur_last_error(), "a grid sync in a kernel whose launch is not cooperative") &&
               gpur_race_run(stream, cooperative_kernel, together, &address) == GPUR_OK && is_right(&results);
    if (strcmp(name, "right_grid_sync") == 0)
        return gpur_race_run(stream, cooperative_kernel, together, &address) == GPUR_OK && is_right(&results);
    if (strcmp(name, "no_grid_sync") == 0)
        return gpur_race_run(stream, no_grid_sync, together, &address) == GPUR_OK;
    if (strcmp(name, "right_refusal") == 0)
        return gpur_race_run(stream, greedy, grid, &address) == GPUR_DEVICE_ERROR &&
               strstr(gpur_last_error(), "65600 bytes of shared memory; a block has 65536") &&
               gpur_race_run(stream, right_kernel, grid, &address) == GPUR_OK && is_right(&results);
    if (strcmp(name, "right_kernel") == 0)
        return gpur_race_run(stream, right_kernel, grid, &address) == GPUR_OK && is_right(&results);
    const gpur_race_entry wrong = strcmp(name, "no_barrier") == 0 ? no_barrier : one_slot_for_all_blocks;
    return gpur_race_run(stream, wrong, grid, &address) == GPUR_OK;
}

int main(int argc, char **argv)
{
    gpur_device *device = NULL;
    gpur_stream *stream = NULL;
    int good = gpur_device_open("cpu", NULL, &device) == GPUR_OK && gpur_stream_create(device, &stream) == GPUR_OK;
    good = good && run_case(stream, argc > 1 ? argv[1] : "");
    if (!good)
        printf("%s\n", gpur_last_error());
    gpur_stream_destroy(stream);
    gpur_device_close(device);
    return !good;
}
