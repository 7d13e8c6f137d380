/* SPDX-License-Identifier: MIT */
/*
 * In-RAM against in-device replay: the experiments of [Parr 2018, section 5] with its shapes (1,000,000 transitions of
 * 57 numbers, 5 actions, preset "melee-gpu"), all contestants in one run, in turn, and checked to compute the same.
 */
#include "contest.h"

static const int64_t all_batches[] = {16, 32, 64, 128, 256, 512, 1024}, some_batches[] = {32, 128};
static const int64_t all_updates[] = {1, 8, 64, 250, 500, 1000, 2000, 4000, 8000}, some_updates[] = {1, 250, 2000};
static const int all_threads[] = {1, 4, 16}, some_threads[] = {4};

enum { ALL_BATCHES = 7, ALL_UPDATES = 9, ALL_THREADS = 3, SOME_BATCHES = 2, SOME_UPDATES = 3, SOME_THREADS = 1 };
enum { START_CASES = 3, DEAL_CASES = 2, ROOFLINE_CASES = 3, CROWD_BATCH = 32 };

static int is_cuda(gpur_device *device)
{
    gpur_device_info info = {.size = sizeof info};
    bench_must(gpur_device_get_info(device, &info), "device info");
    return info.is_cuda;
}

/* What the figures mean where there is no GPU, before anybody reads them. */
static void explain(gpur_device *device)
{
    if (is_cuda(device))
        return;
    printf(
        "No GPU here: all of this runs on the CPU device. Host and device are the same memory, there is no bus\n"
        "and no kernel launch. It shows what putting a batch together and calling the library cost; it does not show\n"
        "what keeping replay on a GPU gains. Rows in RAM are copied and dealt out to the step's arrays, as for a GPU,\n"
        "which a replay for a CPU alone would spare; what that takes is measured below.\n\n");
}

static int run(bench_report *report, contest *c, const ceilings *most)
{
    const int quick = report->options->quick;
    if (!contest_steps(report, c, quick ? some_batches : all_batches, quick ? SOME_BATCHES : ALL_BATCHES))
        return 1;
    contest_crowds(report, c, CROWD_BATCH, quick ? some_threads : all_threads, quick ? SOME_THREADS : ALL_THREADS);
    contest_appends(report, c, quick ? some_updates : all_updates, quick ? SOME_UPDATES : ALL_UPDATES);
    contest_starts(report, c);
    contest_deals(report, c, CROWD_BATCH);
    contest_roofline(report, c, most, quick ? 128 : 256);
    return 0;
}

int main(int argc, char **argv)
{
    bench_options options;
    bench_report report;
    contest c;
    ceilings most;
    char settings[256];
    const int stop = bench_parse(&options, argc, argv, "in-RAM against in-device replay");
    if (stop)
        return stop - 1;
    const int cases =
        CEILINGS_CASES + START_CASES + DEAL_CASES + ROOFLINE_CASES +
        (options.quick ? SOME_BATCHES + SOME_UPDATES + SOME_THREADS : ALL_BATCHES + ALL_UPDATES + ALL_THREADS);
    gpur_device *const device = bench_open(options.device, 0);
    bench_describe(device, settings, sizeof settings);
    if (bench_begin(&report, &options, "in-RAM against in-device replay", settings, cases))
        return 1;
    explain(device);
    ceilings_measure(&report, device, &most);
    contest_open(&report, &c, device, MELEE_CAPACITY);
    const int failed = run(&report, &c, &most);
    contest_close(&c);
    gpur_device_close(device);
    return bench_end(&report) || failed;
}
