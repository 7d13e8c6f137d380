/* SPDX-License-Identifier: MIT */
/* What a whole training gains by keeping its replay on the device: total time and learning curves, at batch 32 and 128.
 */
#include "setup.h"
#include "training/training.h"

#include <string.h>

static int64_t batch_of(const training_options *options, int32_t contest)
{
    static const int64_t batches[TRAINING_BATCHES] = {32, 128};
    return options->batch ? options->batch : batches[contest];
}

static void describe(const char *name, char *text, size_t bytes)
{
    gpur_device *const device = bench_open(name, 0);
    bench_describe(device, text, bytes);
    gpur_device_close(device);
}

static void print_head(const training_report *report)
{
    const training_options *const options = report->options;
    printf("whole training: dodge by melee-gpu, %lld steps, seed %lld\n%s\n", (long long)options->steps,
           (long long)options->seed, report->machine);
    if (options->quick)
        printf("--quick: too short to learn anything, and to time more than roughly\n");
    if (strcmp(options->device, "cpu") == 0)
        printf("no bus lies between RAM and this device, which is the CPU: what differs is the work of drawing a batch "
               "and\n"
               "putting it together, and the calls. What a GPU gains it does not show\n");
    printf("an episode returns at most 10; by chance %.2f, by a hand-made dodger %.2f\n\n", report->reference.chance,
           report->reference.hand);
}

/* The exit status; 130 is what a shell expects of a program ended by Ctrl-C. */
static int run(training_report *report, training_contest *contests, FILE *json)
{
    const int32_t wanted = report->options->batch ? 1 : TRAINING_BATCHES;
    while (report->contests < wanted && !report->is_interrupted) {
        training_contest *const contest = &contests[report->contests];
        report->is_interrupted = training_run(contest, report->options, batch_of(report->options, report->contests++));
        training_print_totals(contest);
    }
    if (json)
        training_write_json(json, report);
    if (json && fclose(json) != 0) {
        perror(report->options->json);
        return 1;
    }
    if (report->is_interrupted)
        fprintf(stderr, "interrupted%s%s\n", json ? "; curves until then: " : "", json ? report->options->json : "");
    return report->is_interrupted ? 130 : 0;
}

int main(int argc, char **argv)
{
    static training_contest contests[TRAINING_BATCHES];
    training_options options;
    char machine[512];
    const int verdict = training_read_options(&options, argc, argv);
    if (verdict)
        return verdict - 1;
    FILE *json = NULL;
    if (options.json && !(json = fopen(options.json, "w"))) {
        perror(options.json);
        return 1;
    }
    describe(options.device, machine, sizeof machine);
    training_report report = {.options = &options, .machine = machine, .contest = contests};
    report.reference = training_measure_reference((uint64_t)options.seed);
    print_head(&report);
    return run(&report, contests, json);
}
