/* SPDX-License-Identifier: MIT */
#include "bench.h"
#include "json.h"
#include "times.h"

#include "examples/interrupt.h"

#include <time.h>
#include <unistd.h>

double bench_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int bench_begin(bench_report *report, const bench_options *options, const char *title, const char *settings, int cases)
{
    *report = (bench_report){.options = options, .cases = cases};
    if (options->json && !(report->json = fopen(options->json, "w"))) {
        perror(options->json);
        return 1;
    }
    if (report->json) {
        json_head(report->json, title, options->device, settings);
        json_rest(report->json);
    }
    printf("%s\n%s\n\n", title, settings);
    interrupt_watch();
    return 0;
}

double bench_time(bench_body body, void *context, int64_t repeats)
{
    const double start = bench_now();
    body(context, repeats);
    return (bench_now() - start) / (double)repeats;
}

/* Of a few tries: one in which something else ran would make a sample of a single repeat, cold each time. */
static double shortest(bench_body body, void *context, int64_t repeats)
{
    enum { TRIES = 3 };
    double least = bench_time(body, context, repeats);
    for (int i = 1; i < TRIES; i++) {
        const double again = bench_time(body, context, repeats);
        least = again < least ? again : least;
    }
    return least * (double)repeats;
}

/* Warms up, and finds how many repeats make a sample long enough for the clock. */
int64_t bench_calibrate(bench_body body, void *context, double seconds)
{
    int64_t repeats = 1;
    for (;;) {
        const double took = shortest(body, context, repeats);
        if (took >= seconds)
            return repeats;
        repeats = took * 8 < seconds ? repeats * 4 : repeats * 2;
    }
}

void bench_json_name(bench_report *report, const char *name)
{
    fprintf(report->json, "%s\n{\"name\": ", report->done ? "," : "");
    json_string(report->json, name);
}

void bench_json_close(bench_report *report)
{
    fprintf(report->json, "}");
    json_rest(report->json);
}

static void json_case(bench_report *report, const bench_case *c, const double *ours, const double *bare, int n,
                      bench_summary ratio)
{
    bench_json_name(report, c->name);
    fprintf(report->json, ", \"baseline\": ");
    json_string(report->json, c->baseline);
    fprintf(report->json, ", \"ratio\": %.4f", ratio.median);
    json_spread(report->json, ratio);
    fprintf(report->json, ", \"goal\": %.2f, \"items\": %g, \"item\": ", c->goal, c->items);
    json_string(report->json, c->item);
    json_samples(report->json, "ours_seconds", ours, n);
    json_samples(report->json, "bare_seconds", bare, n);
    bench_json_close(report);
}

/* At Ctrl-C, between two samples: what is finished is kept. The threads of what is not are left where they are. */
static _Noreturn void leave(const bench_report *report)
{
    bench_hide();
    fflush(stdout);
    if (report->json) {
        json_end(report->json, 1);
        fclose(report->json);
    }
    fprintf(stderr, "interrupted: %d case%s done%s%s\n", report->done, report->done == 1 ? "" : "s",
            report->json ? "; samples: " : "", report->json ? report->options->json : "");
    _exit(130); /* what a shell expects of a program ended by Ctrl-C */
}

void bench_show(const bench_report *report, const char *name, double part)
{
    enum { WIDTH = 24 };
    static const char marks[] = "########################";
    if (interrupt_came())
        leave(report);
    if (!isatty(2))
        return;
    const int known = report->cases > 0;
    const int full = known ? (int)(WIDTH * (report->done + part) / report->cases) : 0;
    const int shown = full < WIDTH ? full : WIDTH;
    if (known)
        fprintf(stderr, "\r[%.*s%*s] %d/%d %s\033[K", shown, marks, WIDTH - shown, "", report->done + 1, report->cases,
                name);
    else
        fprintf(stderr, "\r%s\033[K", name);
}

void bench_hide(void)
{
    if (isatty(2))
        fprintf(stderr, "\r\033[K");
}

static void print_case(const bench_case *c, bench_summary ours, bench_summary bare, bench_summary ratio)
{
    char goal[48] = "", mine[TIME_TEXT], theirs[TIME_TEXT];
    if (c->goal > 0)
        snprintf(goal, sizeof goal, "%.1f %s", c->goal, ratio.median <= c->goal ? "met" : "MISSED");
    printf("%-34s %12s %12s  %6.2fx  %.2f to %-9.2f %s  (per %s; bare: %s)\n", c->name,
           time_text(ours.median / c->items, mine), time_text(bare.median / c->items, theirs), ratio.median, ratio.low,
           ratio.high, goal, c->item, c->baseline);
    fflush(stdout);
}

void bench_run(bench_report *report, const bench_case *c)
{
    static double ours[BENCH_MAX_ROUNDS], bare[BENCH_MAX_ROUNDS], ratio[BENCH_MAX_ROUNDS];
    const int n = report->options->rounds;
    bench_show(report, c->name, 0);
    if (report->done == 0)
        printf("%-34s %12s %12s  %7s  %-16s %s\n", "case", "ours", "bare", "ratio", "95% interval", "goal");
    const int64_t ours_repeats = bench_calibrate(c->ours, c->context, report->options->seconds);
    const int64_t bare_repeats = bench_calibrate(c->bare, c->context, report->options->seconds);
    for (int i = 0; i < n; i++) {
        bench_show(report, c->name, (double)i / n);
        ours[i] = bench_time(c->ours, c->context, ours_repeats);
        bare[i] = bench_time(c->bare, c->context, bare_repeats);
        ratio[i] = ours[i] / bare[i];
    }
    const bench_summary r = bench_summarise(ratio, n);
    if (report->json)
        json_case(report, c, ours, bare, n, r);
    bench_hide();
    print_case(c, bench_summarise(ours, n), bench_summarise(bare, n), r);
    report->done++;
    report->missed += c->goal > 0 && r.median > c->goal;
}

static void json_figure(bench_report *report, const bench_figure *f, const double *seconds, int n, bench_summary time)
{
    bench_json_name(report, f->name);
    fprintf(report->json, ", \"seconds\": %.4e", time.median);
    json_spread(report->json, time);
    fprintf(report->json, ", \"items\": %g, \"item\": ", f->items);
    json_string(report->json, f->item);
    if (f->work > 0) {
        fprintf(report->json, ", \"per_second\": %.4e, \"unit\": ", f->work / time.median);
        json_string(report->json, f->unit);
    }
    json_samples(report->json, "samples", seconds, n);
    bench_json_close(report);
}

static void print_figure(const bench_figure *f, bench_summary time)
{
    char rate[32] = "", median[TIME_TEXT], low[TIME_TEXT], high[TIME_TEXT];
    if (f->work > 0)
        snprintf(rate, sizeof rate, "%.2f G%s/s", 1e-9 * f->work / time.median, f->unit);
    printf("%-58s %14s  %10s to %-10s %16s  per %s\n", f->name, time_text(time.median, median),
           time_text(time.low, low), time_text(time.high, high), rate, f->item);
    fflush(stdout);
}

bench_summary bench_measure(bench_report *report, const bench_figure *f)
{
    static double seconds[BENCH_MAX_ROUNDS], sorted[BENCH_MAX_ROUNDS];
    const int n = f->rounds ? f->rounds : report->options->rounds;
    bench_show(report, f->name, 0);
    if (report->done == 0)
        printf("%-58s %14s  %-24s %16s\n", "case", "median", "95% interval", "rate");
    const int64_t repeats = bench_calibrate(f->body, f->context, report->options->seconds);
    for (int i = 0; i < n; i++) {
        bench_show(report, f->name, (double)i / n);
        sorted[i] = seconds[i] = bench_time(f->body, f->context, repeats) / f->items;
    }
    const bench_summary time = bench_summarise(sorted, n);
    if (report->json)
        json_figure(report, f, seconds, n, time);
    bench_hide();
    print_figure(f, time);
    report->done++;
    return time;
}

int bench_end(bench_report *report)
{
    if (report->json) {
        json_end(report->json, 0);
        if (fclose(report->json) != 0)
            perror(report->options->json);
    }
    if (report->missed)
        printf("\n%d of %d cases missed their goal in this run.\n", report->missed, report->done);
    return 0;
}
