/* SPDX-License-Identifier: MIT */
#include "bench/device/chain.h"
#include "bench/setup.h"

void chain_open(chain *c, gpur_device *device)
{
    const float start[2] = {0.0f, 1.0f};
    const chain none = {device, NULL, 1};
    void *memory = NULL;
    *c = none;
    bench_must(gpur_device_alloc(device, sizeof start, &memory), "memory");
    bench_must(gpur_device_copy(device, memory, start, sizeof start), "copy");
    c->memory = memory;
}

void chain_close(chain *c)
{
    gpur_device_free(c->device, c->memory);
}

gpur_status chain_record(void *context, gpur_stream *stream)
{
    const chain *const c = context;
    const gpur_bias_activation_args args = {
        .y = c->memory, .bias = c->memory + 1, .batch = 1, .features = 1, .pitch = 1};
    for (int i = 0; i < c->length; i++)
        GPUR_TRY(gpur_launch_bias_activation(stream, gpur_grid_elements(c->device, 1), &args));
    return GPUR_OK;
}
