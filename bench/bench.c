/* SPDX-License-Identifier: MIT */
#include "bench.h"

#include "gpureplay.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

double bench_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int usage(const char *program, const char *purpose, int status)
{
    fprintf(status ? stderr : stdout,
            "%s: %s\n"
            "  --device NAME   cpu, cuda:0, ... (cpu)\n"
            "  --rounds N      pairs of samples a case, 5 to %d (41)\n"
            "  --json FILE     write every sample\n"
            "  --quick         fewer cases and rounds\n",
            program, purpose, BENCH_MAX_ROUNDS);
    return status + 1;
}

int bench_parse(bench_options *options, int argc, char **argv, const char *purpose)
{
    *options = (bench_options){.device = "cpu", .rounds = 41, .seconds = 2e-3};
    for (int i = 1; i < argc; i++) {
        const int has_value = i + 1 < argc;
        if (!strcmp(argv[i], "--help"))
            return usage(argv[0], purpose, 0);
        if (!strcmp(argv[i], "--quick"))
            options->quick = 1, options->rounds = 11, options->seconds = 1e-3;
        else if (!strcmp(argv[i], "--device") && has_value)
            options->device = argv[++i];
        else if (!strcmp(argv[i], "--json") && has_value)
            options->json = argv[++i];
        else if (!strcmp(argv[i], "--rounds") && has_value && atoi(argv[i + 1]) >= 5 &&
                 atoi(argv[i + 1]) <= BENCH_MAX_ROUNDS)
            options->rounds = atoi(argv[++i]);
        else {
            fprintf(stderr, "%s: not understood: %s\n", argv[0], argv[i]);
            return usage(argv[0], purpose, 2);
        }
    }
    return 0;
}

/* Neither a quotation mark nor a backslash of ours may end a JSON string. */
static void json_string(FILE *file, const char *text)
{
    fputc('"', file);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fprintf(file, "\\%c", *text);
        else if ((unsigned char)*text < 0x20)
            fprintf(file, "\\u%04x", (unsigned char)*text);
        else
            fputc(*text, file);
    }
    fputc('"', file);
}

static void json_head(FILE *file, const char *title, const char *device, const char *settings)
{
    char when[32];
    const time_t now = time(NULL);
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
    fprintf(file, "{\n\"title\": ");
    json_string(file, title);
    fprintf(file, ",\n\"device\": ");
    json_string(file, device);
    fprintf(file, ",\n\"settings\": ");
    json_string(file, settings);
    fprintf(file, ",\n\"build\": ");
    json_string(file, gpur_build_info());
    fprintf(file, ",\n\"when\": \"%s\",\n\"cases\": [", when);
}

int bench_begin(bench_report *report, const bench_options *options, const char *title, const char *settings, int cases)
{
    *report = (bench_report){.options = options, .cases = cases};
    if (options->json && !(report->json = fopen(options->json, "w"))) {
        perror(options->json);
        return 1;
    }
    if (report->json)
        json_head(report->json, title, options->device, settings);
    printf("%s\n%s\n\n", title, settings);
    return 0;
}

static double time_of(bench_body body, void *context, int64_t repeats)
{
    const double start = bench_now();
    body(context, repeats);
    return (bench_now() - start) / (double)repeats;
}

/* Warms up, and finds how many repeats make a sample long enough for the clock. */
static int64_t calibrate(bench_body body, void *context, double seconds)
{
    int64_t repeats = 1;
    for (;;) {
        const double took = time_of(body, context, repeats) * (double)repeats;
        if (took >= seconds)
            return repeats;
        repeats = took * 8 < seconds ? repeats * 4 : repeats * 2;
    }
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

typedef struct summary {
    double median, low, high;
} summary;

/* Median, and the order statistics n/2 -+ 0.98 sqrt(n) that hold it with 95%. Sorts. */
static summary summarise(double *x, int n)
{
    qsort(x, (size_t)n, sizeof *x, by_value);
    const int reach = (int)ceil(0.98 * sqrt((double)n));
    const int low = n / 2 - reach, high = n / 2 + reach;
    return (summary){n % 2 ? x[n / 2] : 0.5 * (x[n / 2 - 1] + x[n / 2]), x[low < 0 ? 0 : low],
                     x[high >= n ? n - 1 : high]};
}

static void json_samples(FILE *file, const char *name, const double *x, int n)
{
    fprintf(file, ", \"%s\": [", name);
    for (int i = 0; i < n; i++)
        fprintf(file, "%s%.4e", i ? ", " : "", x[i]);
    fprintf(file, "]");
}

static void json_name(bench_report *report, const char *name)
{
    fprintf(report->json, "%s\n{\"name\": ", report->done ? "," : "");
    json_string(report->json, name);
}

static void json_case(bench_report *report, const bench_case *c, const double *ours, const double *bare, int n,
                      summary ratio)
{
    json_name(report, c->name);
    fprintf(report->json, ", \"baseline\": ");
    json_string(report->json, c->baseline);
    fprintf(report->json, ", \"ratio\": %.4f, \"low\": %.4f, \"high\": %.4f, \"goal\": %.2f, \"items\": %g, \"item\": ",
            ratio.median, ratio.low, ratio.high, c->goal, c->items);
    json_string(report->json, c->item);
    json_samples(report->json, "ours_seconds", ours, n);
    json_samples(report->json, "bare_seconds", bare, n);
    fprintf(report->json, "}");
}

/* On a terminal, which case is under way. */
static void show_progress(const bench_report *report, const char *name)
{
    if (isatty(2) && report->cases)
        fprintf(stderr, "[%d/%d] %s\r", report->done + 1, report->cases, name);
    else if (isatty(2))
        fprintf(stderr, "%-60s\r", name);
}

static void print_case(const bench_case *c, summary ours, summary bare, summary ratio)
{
    char goal[48] = "";
    if (c->goal > 0)
        snprintf(goal, sizeof goal, "%.1f %s", c->goal, ratio.median <= c->goal ? "met" : "MISSED");
    printf("%-34s %9.1f ns %9.1f ns  %6.2fx  %.2f to %-9.2f %s  (per %s; bare: %s)\n", c->name,
           1e9 * ours.median / c->items, 1e9 * bare.median / c->items, ratio.median, ratio.low, ratio.high, goal,
           c->item, c->baseline);
    fflush(stdout);
}

void bench_run(bench_report *report, const bench_case *c)
{
    static double ours[BENCH_MAX_ROUNDS], bare[BENCH_MAX_ROUNDS], ratio[BENCH_MAX_ROUNDS];
    const int n = report->options->rounds;
    show_progress(report, c->name);
    if (report->done == 0)
        printf("%-34s %12s %12s  %7s  %-16s %s\n", "case", "ours", "bare", "ratio", "95% interval", "goal");
    const int64_t ours_repeats = calibrate(c->ours, c->context, report->options->seconds);
    const int64_t bare_repeats = calibrate(c->bare, c->context, report->options->seconds);
    for (int i = 0; i < n; i++) {
        ours[i] = time_of(c->ours, c->context, ours_repeats);
        bare[i] = time_of(c->bare, c->context, bare_repeats);
        ratio[i] = ours[i] / bare[i];
    }
    const summary r = summarise(ratio, n);
    if (report->json)
        json_case(report, c, ours, bare, n, r);
    print_case(c, summarise(ours, n), summarise(bare, n), r);
    report->done++;
    report->missed += c->goal > 0 && r.median > c->goal;
}

static void json_figure(bench_report *report, const bench_figure *f, const double *seconds, int n, summary time)
{
    json_name(report, f->name);
    fprintf(report->json, ", \"seconds\": %.4e, \"low\": %.4e, \"high\": %.4e, \"items\": %g, \"item\": ", time.median,
            time.low, time.high, f->items);
    json_string(report->json, f->item);
    if (f->work > 0) {
        fprintf(report->json, ", \"per_second\": %.4e, \"unit\": ", f->work / time.median);
        json_string(report->json, f->unit);
    }
    json_samples(report->json, "samples", seconds, n);
    fprintf(report->json, "}");
}

static void print_figure(const bench_figure *f, summary time)
{
    char rate[32] = "";
    if (f->work > 0)
        snprintf(rate, sizeof rate, "%.2f G%s/s", 1e-9 * f->work / time.median, f->unit);
    printf("%-58s %11.3f us  %9.3f to %-11.3f %16s  per %s\n", f->name, 1e6 * time.median, 1e6 * time.low,
           1e6 * time.high, rate, f->item);
    fflush(stdout);
}

void bench_measure(bench_report *report, const bench_figure *f)
{
    static double seconds[BENCH_MAX_ROUNDS], sorted[BENCH_MAX_ROUNDS];
    const int n = f->rounds ? f->rounds : report->options->rounds;
    show_progress(report, f->name);
    if (report->done == 0)
        printf("%-58s %14s  %-24s %16s\n", "case", "median", "95% interval", "rate");
    const int64_t repeats = calibrate(f->body, f->context, report->options->seconds);
    for (int i = 0; i < n; i++)
        sorted[i] = seconds[i] = time_of(f->body, f->context, repeats) / f->items;
    const summary time = summarise(sorted, n);
    if (report->json)
        json_figure(report, f, seconds, n, time);
    print_figure(f, time);
    report->done++;
}

int bench_end(bench_report *report)
{
    if (report->json) {
        fprintf(report->json, "\n]}\n");
        if (fclose(report->json) != 0)
            perror(report->options->json);
    }
    if (report->missed)
        printf("\n%d of %d cases missed their goal in this run.\n", report->missed, report->done);
    return 0;
}
