/* SPDX-License-Identifier: MIT */
#include "bench/device/counter.h"
#include "bench/setup.h"

typedef struct counted {
    gpur_train_state state;
    gpur_window window;                    /* of one row: the step is none that is skipped */
    float loss, q_taken, invalid, partial; /* (1) each */
} counted;

void counter_open(step_counter *c, gpur_device *device)
{
    const gpur_window one = {0, 0, 1};
    void *memory = NULL;
    bench_must(gpur_device_alloc(device, sizeof(counted), &memory), "a step counter");
    c->device = device;
    c->memory = memory;
    bench_must(gpur_device_copy(device, &c->memory->window, &one, sizeof one), "a step counter");
}

void counter_close(step_counter *c)
{
    gpur_device_free(c->device, c->memory);
}

const uint64_t *counter_step(const step_counter *c)
{
    return &c->memory->state.step;
}

gpur_status counter_move(const step_counter *c, gpur_stream *stream)
{
    counted *const m = c->memory;
    const gpur_finish_step_args args = {.state = &m->state,
                                        .window = &m->window,
                                        .loss = &m->loss,
                                        .q_taken = &m->q_taken,
                                        .invalid = &m->invalid,
                                        .partial = &m->partial,
                                        .batch = 1,
                                        .partials = 1,
                                        .target_period = 1};
    return gpur_launch_finish_step(stream, gpur_grid_single(c->device), &args);
}
