/* SPDX-License-Identifier: MIT */
#include "match.h"
#include "json.h"
#include "times.h"

#include <stdio.h>

enum { QUICK_SECONDS = 1, MOST_SECONDS = 15 };

typedef struct scores {
    int rounds;
    int64_t repeats[MATCH_MOST];
    double seconds[MATCH_MOST][BENCH_MAX_ROUNDS]; /* an item, in the order of the rounds */
    bench_summary time[MATCH_MOST];
    bench_summary ratio[MATCH_MOST]; /* to the reference, of the same round */
} scores;

static void name_of(const match *m, char *text, size_t bytes)
{
    snprintf(text, bytes, "%s, %s %.0f", m->figure, m->x_name, m->x);
}

static double sample(const match_entrant *e, int64_t repeats)
{
    if (e->before)
        e->before(e->context);
    const double seconds = bench_time(e->body, e->context, repeats) / e->items;
    if (e->after)
        e->after(e->context);
    return seconds;
}

static void play_round(const bench_report *report, const match *m, scores *s, int round)
{
    char name[96];
    name_of(m, name, sizeof name);
    for (int i = 0; i < m->count; i++) {
        bench_show(report, name, ((double)round + (double)i / m->count) / s->rounds);
        s->seconds[i][round] = sample(&m->entrant[i], s->repeats[i]);
    }
}

/* A slow machine plays fewer rounds than asked for, and no fewer than an interval needs. */
static void play_rounds(const bench_report *report, const match *m, scores *s)
{
    const double end = bench_now() + (report->options->quick ? QUICK_SECONDS : MOST_SECONDS);
    int round = 0;
    while (round < s->rounds && (round < BENCH_FEWEST_ROUNDS || bench_now() < end))
        play_round(report, m, s, round++);
    s->rounds = round;
}

static void sum_up(const match *m, scores *s)
{
    static double sorted[BENCH_MAX_ROUNDS];
    for (int i = 0; i < m->count; i++) {
        for (int r = 0; r < s->rounds; r++)
            sorted[r] = s->seconds[i][r];
        s->time[i] = bench_summarise(sorted, s->rounds);
        for (int r = 0; r < s->rounds; r++)
            sorted[r] = s->seconds[i][r] / s->seconds[m->reference][r];
        s->ratio[i] = bench_summarise(sorted, s->rounds);
    }
}

static void json_entrant(FILE *file, const match_entrant *e, const double *seconds, bench_summary time,
                         bench_summary ratio)
{
    fprintf(file, "\n  {\"entrant\": ");
    json_string(file, e->name);
    if (e->note) {
        fprintf(file, ", \"note\": ");
        json_string(file, e->note);
    }
    fprintf(file, ", \"seconds\": %.4e", time.median);
    json_spread(file, time);
    fprintf(file, ", \"ratio\": %.4f, \"ratio_low\": %.4f, \"ratio_high\": %.4f", ratio.median, ratio.low, ratio.high);
    json_samples(file, "samples", seconds, time.runs);
    fprintf(file, "}");
}

static void json_match(bench_report *report, const match *m, const scores *s)
{
    char name[96];
    name_of(m, name, sizeof name);
    bench_json_name(report, name);
    fprintf(report->json, ", \"figure\": ");
    json_string(report->json, m->figure);
    fprintf(report->json, ", \"x_name\": ");
    json_string(report->json, m->x_name);
    fprintf(report->json, ", \"x\": %.0f, \"item\": ", m->x);
    json_string(report->json, m->item);
    fprintf(report->json, ", \"reference\": ");
    json_string(report->json, m->entrant[m->reference].name);
    fprintf(report->json, ", \"entrants\": [");
    for (int i = 0; i < m->count; i++) {
        fprintf(report->json, "%s", i ? "," : "");
        json_entrant(report->json, &m->entrant[i], s->seconds[i], s->time[i], s->ratio[i]);
    }
    fprintf(report->json, "]}");
}

static void print_entrant(const match *m, const scores *s, int i)
{
    char median[TIME_TEXT], low[TIME_TEXT], high[TIME_TEXT];
    const bench_summary *const t = &s->time[i], *const r = &s->ratio[i];
    const match_entrant *const e = &m->entrant[i];
    printf("  %-28s %8s  (%s to %s)", e->name, time_text(t->median, median), time_text(t->low, low),
           time_text(t->high, high));
    if (i != m->reference)
        printf("   %+.1f %% (%+.1f to %+.1f)", 100 * (r->median - 1), 100 * (r->low - 1), 100 * (r->high - 1));
    printf("%s%s\n", e->note ? "   " : "", e->note ? e->note : "");
}

static void calibrate(const bench_report *report, const match *m, scores *s)
{
    char name[96];
    name_of(m, name, sizeof name);
    for (int i = 0; i < m->count; i++) {
        bench_show(report, name, 0);
        s->repeats[i] = m->seconds > 0 ? bench_calibrate(m->entrant[i].body, m->entrant[i].context, m->seconds) : 1;
    }
}

void match_play(bench_report *report, const match *m)
{
    static scores s;
    s.rounds = m->rounds ? m->rounds : report->options->rounds;
    calibrate(report, m, &s);
    play_rounds(report, m, &s);
    sum_up(m, &s);
    if (report->json)
        json_match(report, m, &s);
    bench_hide();
    printf("%s, %s %.0f: time per %s, and how much faster %s is; medians of %d samples (95%% intervals)\n", m->figure,
           m->x_name, m->x, m->item, m->entrant[m->reference].name, s.rounds);
    for (int i = 0; i < m->count; i++)
        print_entrant(m, &s, i);
    fflush(stdout);
    report->done++;
}
