/* SPDX-License-Identifier: MIT */
/* What a device takes for each thing a recorded step is made of, and for the step: the figures to plan a step with.
 * What lies between them is bench_nodes's. */
#include "bench.h"
#include "device/parts.h"
#include "setup.h"

int main(int argc, char **argv)
{
    bench_options options;
    bench_report report;
    char settings[256];
    const int stop = bench_parse(&options, argc, argv, "gathers, priorities, products and train steps of a device");
    if (stop)
        return stop - 1;
    gpur_device *const device = bench_open(options.device, 0);
    gpur_replay *const replay = bench_melee_replay(device, MELEE_CAPACITY);
    bench_fill(replay, MELEE_CAPACITY);
    if (bench_begin(&report, &options, "device", bench_describe(device, settings, sizeof settings), 0))
        return 1;
    bench_gathers(&report, device, replay);
    bench_rows(&report, device);
    bench_pixel_gathers(&report, device);
    bench_priorities(&report, device);
    bench_steps(&report, device, replay);
    bench_windows(&report, device, replay);
    bench_products(&report, device);
    bench_one_kernel(&report, replay); /* last: should a step never end, the others are in the file */
    gpur_replay_destroy(replay);
    gpur_device_close(device);
    return bench_end(&report) | (bench_unequal() > 0) | (bench_failed() > 0);
}
