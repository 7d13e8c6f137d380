/* SPDX-License-Identifier: MIT */
#include "bench.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 41, QUICK_ROUNDS = 11, CALLS_A_TURN = 10, CALLS_A_ROUND = 50 };
enum { MAX_WRITTEN = 512 };                              /* of more samples only the summary is written */
static const double default_limit = 20, quick_limit = 1; /* of a case, in seconds */

static volatile sig_atomic_t interrupted;

static void on_interrupt(int number)
{
    (void)number;
    interrupted = 1;
}

double bench_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static _Noreturn void print_usage(const char *program, const char *purpose, const bench_option *more, int count,
                                  int status)
{
    FILE *const to = status ? stderr : stdout;
    fprintf(to,
            "%s: %s\n"
            "  --device NAME   cpu, cuda:0, ... (cpu)\n"
            "  --rounds N      samples of each variant, %d to %d (%d)\n"
            "  --json FILE     write every sample\n"
            "  --only TEXT     the cases with TEXT in their names\n"
            "  --quick         fewer cases and rounds\n",
            program, purpose, BENCH_MIN_ROUNDS, BENCH_MAX_ROUNDS, ROUNDS);
    for (int i = 0; i < count; i++) {
        if (more[i].words) {
            fprintf(to, "  --%-13s %s (%s)\n", more[i].name, more[i].help, more[i].words[*more[i].value]);
            continue;
        }
        fprintf(to, "  --%-13s %s (%" PRId64, more[i].name, more[i].help, *more[i].value);
        if (more[i].quick)
            fprintf(to, "; with --quick %" PRId64, more[i].quick);
        fprintf(to, ")\n");
    }
    fprintf(to, "  --help          this text\n"
                "After Ctrl-C it ends with status 130, and the finished cases are in the JSON file.\n");
    exit(status);
}

/* Returns 0, or -1 having said what is wanted. */
static int read_number(const bench_option *option, const char *text)
{
    char *end;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    if (errno || end == text || *end || value < option->low || value > option->high) {
        fprintf(stderr, "--%s is \"%s\"; it must be a whole number from %" PRId64 " to %" PRId64 "\n", option->name,
                text, option->low, option->high);
        return -1;
    }
    *option->value = value;
    return 0;
}

/* The same of words. */
static int read_word(const bench_option *option, const char *text)
{
    for (int i = 0; option->words[i]; i++)
        if (strcmp(option->words[i], text) == 0)
            return (*option->value = i, 0);
    fprintf(stderr, "--%s is \"%s\"; it must be", option->name, text);
    for (int i = 0; option->words[i]; i++)
        fprintf(stderr, "%s %s", i == 0 ? "" : option->words[i + 1] ? "," : " or", option->words[i]);
    fprintf(stderr, "\n");
    return -1;
}

/* Reads an option that has a value. Returns 0, or -1 having said what is wanted. */
static int read_option(bench_options *options, const char *word, const char *value, const bench_option *more, int count)
{
    const bench_option rounds = {"rounds", "", BENCH_MIN_ROUNDS, BENCH_MAX_ROUNDS, &options->rounds};
    const bench_option *found = strcmp(word, "--rounds") ? NULL : &rounds;
    const char **const text = !strcmp(word, "--device") ? &options->device
                              : !strcmp(word, "--json") ? &options->json
                              : !strcmp(word, "--only") ? &options->only
                                                        : NULL;
    for (int i = 0; i < count; i++)
        if (!strncmp(word, "--", 2) && !strcmp(word + 2, more[i].name))
            found = &more[i];
    if (!found && !text) {
        fprintf(stderr, "\"%s\" is not an option\n", word);
        return -1;
    }
    if (!value) {
        fprintf(stderr, "%s has no value\n", word);
        return -1;
    }
    if (text)
        return (*text = value, 0);
    return found->words ? read_word(found, value) : read_number(found, value);
}

/* Options that were not given take their value of --quick. */
static void apply_quick(int argc, char **argv, const bench_option *more, int count)
{
    for (int i = 0; i < count; i++) {
        int is_given = 0;
        for (int a = 1; a < argc; a++)
            is_given |= !strncmp(argv[a], "--", 2) && !strcmp(argv[a] + 2, more[i].name);
        if (!is_given && more[i].quick)
            *more[i].value = more[i].quick;
    }
}

bench_options bench_parse(int argc, char **argv, const char *purpose, const bench_option *more, int count)
{
    bench_options options = {.device = "cpu", .seconds = 2e-3};
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
            print_usage(argv[0], purpose, more, count, 0);
        if (!strcmp(argv[i], "--quick"))
            options.quick = 1, options.seconds = 1e-3;
        else if (read_option(&options, argv[i], i + 1 < argc ? argv[i + 1] : NULL, more, count) != 0)
            print_usage(argv[0], purpose, more, count, 2);
        else
            i++;
    }
    if (options.quick)
        apply_quick(argc, argv, more, count);
    if (options.rounds == 0)
        options.rounds = options.quick ? QUICK_ROUNDS : ROUNDS;
    return options;
}

bench_report bench_begin(const bench_options *options, const char *title, const char *settings, int cases)
{
    /* The first Ctrl-C sets a flag, the second ends the program. */
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND | SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    printf("%s\n%s\n\n", title, settings);
    return (bench_report){
        .options = options, .json = json_open(options->json, title, options->device, settings), .cases = cases};
}

int bench_end(bench_report *report)
{
    json_close(&report->json, 0);
    if (report->missed)
        printf("\n%d of %d cases missed their goal in this run.\n", report->missed, report->done);
    if (report->failed)
        fprintf(stderr, "%d cases failed\n", report->failed);
    const int is_none = report->options->only && report->chosen == 0;
    if (is_none)
        fprintf(stderr, "--only is \"%s\"; no case has it in its name\n", report->options->only);
    return report->failed > 0 || is_none;
}

int bench_wants(bench_report *report, const char *name)
{
    const int is_chosen = !report->options->only || strstr(name, report->options->only);
    report->chosen += is_chosen;
    return is_chosen;
}

/* Threads of the unfinished case are left running. */
static _Noreturn void leave(bench_report *report)
{
    bench_hide();
    fflush(stdout);
    json_close(&report->json, 1);
    fprintf(stderr, "interrupted: %d case%s done%s%s\n", report->done, report->done == 1 ? "" : "s",
            report->options->json ? "; samples: " : "", report->options->json ? report->options->json : "");
    _exit(130); /* what a shell expects of a program that Ctrl-C ended */
}

void bench_show(bench_report *report, const char *name, double part)
{
    if (interrupted)
        leave(report);
    if (isatty(2) && report->cases > 0)
        fprintf(stderr, "\r%3.0f %%  %s\033[K", 100 * (report->done + part) / report->cases, name);
    else if (isatty(2))
        fprintf(stderr, "\r%s\033[K", name);
}

void bench_hide(void)
{
    if (isatty(2))
        fprintf(stderr, "\r\033[K");
}

double bench_time(bench_body body, void *context, int64_t repeats)
{
    const double start = bench_now();
    body(context, repeats);
    return (bench_now() - start) / (double)repeats;
}

/* The shortest of three tries decides: a single disturbed try would make a sample of too few repeats. */
int64_t bench_calibrate(bench_body body, void *context, double seconds)
{
    for (int64_t repeats = 1;;) {
        double shortest = bench_time(body, context, repeats);
        for (int i = 1; i < 3; i++) {
            const double again = bench_time(body, context, repeats);
            shortest = again < shortest ? again : shortest;
        }
        const double took = shortest * (double)repeats;
        if (took >= seconds)
            return repeats;
        repeats = took * 8 < seconds ? repeats * 4 : repeats * 2;
    }
}

bench_case bench_versus(const char *name, const char *item, double items, bench_body ours, const char *baseline,
                        bench_body bare, void *context)
{
    return (bench_case){.name = name,
                        .item = item,
                        .items = items,
                        .reference = 1,
                        .count = 2,
                        .variants = {{.name = "gpureplay", .body = ours, .context = context},
                                     {.name = baseline, .body = bare, .context = context}}};
}

bench_case bench_alone(const char *name, const char *item, double items, const char *variant, bench_body body,
                       void *context)
{
    return (bench_case){.name = name,
                        .item = item,
                        .items = items,
                        .count = 1,
                        .variants = {{.name = variant, .body = body, .context = context}}};
}

bench_case bench_point(const char *figure, const char *x_name, double x, const char *item, int reference, int count)
{
    return (bench_case){
        .figure = figure, .x_name = x_name, .x = x, .item = item, .reference = reference, .count = count};
}

/* Valid until the next call. */
static const char *name_of(const bench_case *c)
{
    static char name[128];
    snprintf(name, sizeof name, "%s, %s %.0f", c->figure, c->x_name, c->x);
    return c->name ? c->name : name;
}

static double items_of(const bench_case *c, const bench_variant *v)
{
    return v->items > 0 ? v->items : c->items > 0 ? c->items : 1;
}

/* Writes how many repeats a sample of each variant takes. */
static void calibrate(bench_report *report, const bench_case *c, int64_t repeats[BENCH_MAX_VARIANTS])
{
    const double seconds = c->seconds > 0 ? c->seconds : report->options->seconds;
    for (int v = 0; v < c->count; v++) {
        const bench_variant *const variant = &c->variants[v];
        bench_show(report, name_of(c), 0);
        repeats[v] = c->single_calls ? 1 : bench_calibrate(variant->body, variant->context, seconds);
    }
}

static void take_samples(bench_report *report, const bench_case *c, bench_samples *s)
{
    const bench_options *const options = report->options;
    const int turn = c->single_calls ? CALLS_A_TURN : 1, each = c->single_calls ? CALLS_A_ROUND : 1;
    const int wanted = each * (int)(c->rounds && c->rounds < options->rounds ? c->rounds : options->rounds);
    const int rounds = wanted < BENCH_MAX_ROUNDS ? wanted : BENCH_MAX_ROUNDS / turn * turn;
    int64_t repeats[BENCH_MAX_VARIANTS];
    calibrate(report, c, repeats);
    const double end = bench_now() + (options->quick ? quick_limit : c->limit > 0 ? c->limit : default_limit);
    for (s->rounds = 0; s->rounds < rounds && (s->rounds < BENCH_MIN_ROUNDS || bench_now() < end); s->rounds += turn) {
        bench_show(report, name_of(c), (double)s->rounds / rounds);
        for (int v = 0; v < c->count; v++)
            for (int i = 0; i < turn; i++)
                s->seconds[v][s->rounds + i] =
                    bench_time(c->variants[v].body, c->variants[v].context, repeats[v]) / items_of(c, &c->variants[v]);
    }
}

typedef struct bench_result {
    bench_summary seconds[BENCH_MAX_VARIANTS]; /* of one item */
    bench_summary ratio[BENCH_MAX_VARIANTS];
} bench_result;

static bench_result summarize(const bench_case *c, const bench_samples *s)
{
    static double sorted[BENCH_MAX_ROUNDS];
    bench_result result = {0};
    for (int v = 0; v < c->count; v++) {
        memcpy(sorted, s->seconds[v], (size_t)s->rounds * sizeof *sorted);
        result.seconds[v] = bench_summarize(sorted, s->rounds);
        for (int r = 0; r < s->rounds; r++)
            sorted[r] = s->seconds[v][r] / s->seconds[c->reference][r];
        result.ratio[v] = bench_summarize(sorted, s->rounds);
    }
    return result;
}

static void write_variant(bench_report *report, const bench_case *c, const bench_samples *s, const bench_result *result,
                          int v)
{
    json_file *const json = &report->json;
    const bench_summary *const time = &result->seconds[v], *const ratio = &result->ratio[v];
    json_variant(json, c->variants[v].name);
    json_text(json, "note", c->variants[v].note);
    json_number(json, "seconds", time->median);
    json_number(json, "low", time->low);
    json_number(json, "high", time->high);
    json_number(json, "p99", time->p99);
    if (c->count > 1) {
        json_number(json, "ratio", ratio->median);
        json_number(json, "ratio_low", ratio->low);
        json_number(json, "ratio_high", ratio->high);
    }
    json_number(json, "runs", s->rounds);
    if (s->rounds <= MAX_WRITTEN)
        json_numbers(json, "samples", s->seconds[v], s->rounds);
}

static void write_case(bench_report *report, const bench_case *c, const bench_samples *s, const bench_result *result)
{
    json_file *const json = &report->json;
    json_case(json, name_of(c));
    json_text(json, "figure", c->figure);
    json_text(json, "x_name", c->x_name);
    if (c->x_name)
        json_number(json, "x", c->x);
    json_text(json, "item", c->item);
    if (c->goal > 0)
        json_number(json, "goal", c->goal);
    if (c->count > 1)
        json_text(json, "reference", c->variants[c->reference].name);
    for (int v = 0; v < c->count; v++)
        write_variant(report, c, s, result, v);
    json_close_case(json);
}

static void print_variant(const bench_case *c, const bench_result *result, int v)
{
    char median[TIME_TEXT], low[TIME_TEXT], high[TIME_TEXT];
    const bench_summary *const time = &result->seconds[v], *const ratio = &result->ratio[v];
    printf("  %-34s %9s  (%s to %s)", c->variants[v].name, time_text(time->median, median), time_text(time->low, low),
           time_text(time->high, high));
    if (v != c->reference)
        printf("  ratio %.3f (%.3f to %.3f)", ratio->median, ratio->low, ratio->high);
    printf("%s%s\n", c->variants[v].note ? "  " : "", c->variants[v].note ? c->variants[v].note : "");
}

static void print_case(const bench_case *c, const bench_result *result)
{
    bench_hide();
    printf("%s, time of one %s", name_of(c), c->item);
    if (c->count > 1)
        printf(", ratio to %s", c->variants[c->reference].name);
    if (c->goal > 0)
        printf("; goal: at most %.2g, %s", c->goal, result->ratio[0].median <= c->goal ? "met" : "MISSED");
    printf("\n");
    for (int v = 0; v < c->count; v++)
        print_variant(c, result, v);
    fflush(stdout);
}

void bench_run(bench_report *report, const bench_case *c)
{
    static bench_samples s;
    if (!bench_wants(report, name_of(c)))
        return;
    take_samples(report, c, &s);
    bench_sampled(report, c, &s);
}

void bench_sampled(bench_report *report, const bench_case *c, const bench_samples *s)
{
    if (!bench_wants(report, name_of(c)))
        return;
    const bench_result result = summarize(c, s);
    write_case(report, c, s, &result);
    print_case(c, &result);
    report->done++;
    report->missed += c->goal > 0 && result.ratio[0].median > c->goal;
}

void bench_absent(bench_report *report, const char *name, gpur_status status)
{
    const char *const word = status == GPUR_UNAVAILABLE ? "absent" : "failed";
    if (!bench_wants(report, name))
        return;
    bench_hide();
    json_case(&report->json, name);
    json_text(&report->json, word, gpur_last_error());
    json_close_case(&report->json);
    printf("%s: %s: %s\n", name, word, gpur_last_error());
    fflush(stdout);
    report->done++;
    report->failed += status != GPUR_UNAVAILABLE;
}

void bench_check(bench_report *report, const char *name, int64_t differ, int64_t count)
{
    if (!bench_wants(report, name))
        return;
    bench_hide();
    json_case(&report->json, name);
    json_number(&report->json, "differ", (double)differ);
    json_number(&report->json, "of", (double)count);
    json_close_case(&report->json);
    printf("%s: %" PRId64 " of %" PRId64 " differ\n", name, differ, count);
    fflush(stdout);
    report->done++;
    report->failed += differ != 0;
}
