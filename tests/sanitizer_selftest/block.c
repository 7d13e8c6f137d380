/* SPDX-License-Identifier: MIT */
/* Kernels with a deliberate race, and correct ones: ThreadSanitizer must report the former only. */
#include "device/cpu/launch_race.h"
#include "kernels/lib/collective.h"

#include <stdio.h>

enum { THREADS = 8, BLOCKS = 3, LIMIT = 65536 };

typedef struct results {
    float out[BLOCKS * THREADS], cells[BLOCKS * THREADS];
    int is_wrong; /* 1: without the synchronization */
} results;

/* Each thread reads what the next thread of its block wrote. */
static void read_neighbor(gpur_thread at, const void *args)
{
    results *const r = *(results *const *)args;
    GPUR_SHARED(float, values, THREADS);
    values[at.thread] = (float)at.thread;
    if (!r->is_wrong)
        gpur_barrier(at);
    r->out[at.block * at.threads + at.thread] = values[(at.thread + 1) % at.threads];
}

/* Each thread reads what a thread of the next block wrote, so a block barrier is not enough. */
static void read_next_block(gpur_thread at, const void *args)
{
    results *const r = *(results *const *)args;
    const int64_t mine = at.block * at.threads + at.thread, all = at.blocks * at.threads;
    r->cells[mine] = (float)at.thread;
    if (r->is_wrong)
        gpur_barrier(at);
    else
        gpur_grid_sync(at);
    r->out[mine] = r->cells[(mine + at.threads + 1) % all];
}

static void write_one_slot(gpur_thread at, const void *args)
{
    if (at.thread == 0)
        (*(results *const *)args)->out[0] += 1.0f;
}

static void take_too_much(gpur_thread at, const void *args)
{
    GPUR_SHARED(char, enough, LIMIT / 2);
    GPUR_SHARED(char, too_much, LIMIT / 2 + 64);
    (void)args;
    enough[at.thread] = too_much[at.thread] = 0;
}

static const struct {
    const char *name;
    gpur_race_entry kernel;
    int32_t cooperative;
    const char *refusal; /* the error of the launch, after which the stream runs another; NULL: none */
} cases[] = {
    {"right_kernel", read_neighbor, 0, NULL},
    {"right_grid_sync", read_next_block, 1, NULL},
    {"right_refusal", take_too_much, 0, "65600 bytes of shared memory; a block has 65536"},
    {"right_grid_sync_refusal", read_next_block, 0, "a grid sync in a kernel whose launch is not cooperative"},
    {"no_barrier", read_neighbor, 0, NULL},
    {"one_slot_for_all_blocks", write_one_slot, 0, NULL},
    {"no_grid_sync", read_next_block, 1, NULL},
};

static int run_case(gpur_stream *stream, const char *name)
{
    results r = {.is_wrong = strncmp(name, "right", 5) != 0}, *const address = &r;
    size_t i = 0;
    while (strcmp(cases[i].name, name) != 0)
        if (++i == sizeof cases / sizeof *cases)
            return 0;
    gpur_grid grid = {.blocks = BLOCKS, .threads = THREADS, .cooperative = cases[i].cooperative};
    gpur_status status = gpur_race_run(stream, cases[i].kernel, grid, &address);
    if (cases[i].refusal) {
        if (status != GPUR_DEVICE_ERROR || !strstr(gpur_last_error(), cases[i].refusal))
            return 0;
        grid.cooperative = 1;
        status = gpur_race_run(stream, read_next_block, grid, &address);
    }
    for (int k = 0; k < BLOCKS * THREADS && !r.is_wrong; k++)
        if (r.out[k] != (float)((k % THREADS + 1) % THREADS))
            return 0;
    return status == GPUR_OK;
}

int main(int argc, char **argv)
{
    gpur_device *device = NULL;
    gpur_stream *stream = NULL;
    const int good = gpur_device_open("cpu", NULL, &device) == GPUR_OK &&
                     gpur_stream_create(device, &stream) == GPUR_OK && run_case(stream, argc > 1 ? argv[1] : "");
    if (!good)
        printf("%s\n", gpur_last_error());
    gpur_stream_destroy(stream);
    gpur_device_close(device);
    return !good;
}
