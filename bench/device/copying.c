/* SPDX-License-Identifier: MIT */
#include "bench/device/copying.h"
#include "bench/setup.h"

void copying_run(void *context, int64_t repeats)
{
    const copying *const c = context;
    for (int64_t i = 0; i < repeats; i++)
        bench_must(gpur_copy(c->stream, c->to, c->from, c->bytes), "copy");
    bench_must(gpur_stream_sync(c->stream), "sync");
}
