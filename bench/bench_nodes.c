/* SPDX-License-Identifier: MIT */
/* What a device takes for what lies between the kernels of a step: graph nodes, conditions, barriers, events, copies.
 */
#include "bench.h"
#include "device/parts.h"
#include "setup.h"

int main(int argc, char **argv)
{
    bench_options options;
    bench_report report;
    char settings[256];
    const int stop =
        bench_parse(&options, argc, argv, "graph nodes, conditions, barriers, launches, copies of a device");
    if (stop)
        return stop - 1;
    gpur_device *const device = bench_open(options.device, 0);
    if (bench_begin(&report, &options, "nodes", bench_describe(device, settings, sizeof settings), 0))
        return 1;
    bench_launches(&report, device);
    bench_conditions(&report, device);
    bench_barriers(&report, device);
    bench_copies(&report, device);
    bench_pitched(&report, device);
    gpur_device_close(device);
    return bench_end(&report) | (bench_unequal() > 0) | (bench_failed() > 0);
}
