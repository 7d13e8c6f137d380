/* SPDX-License-Identifier: MIT */
#include "progress.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { LONGEST = 256 };

/* A line wider than the window would wrap, and could not be rewritten. */
typedef struct shown_line {
    char text[LONGEST];
    size_t used, width; /* width is less than LONGEST */
    int is_full;        /* a part did not fit, so no other may follow */
} shown_line;

void progress_begin(progress_line *progress)
{
    progress->is_terminal = isatty(STDOUT_FILENO);
    progress->has_shown = 0;
    progress->shown_at = 0.0;
    progress->last_eval = NAN;
}

/* A terminal sees every evaluation at once; a log is to stay short. */
static int is_due(const progress_line *progress, const train_report *report)
{
    const double passed = report->seconds - progress->shown_at;
    return progress->is_terminal ? passed >= 0.1 || !isnan(report->eval_return) : passed >= 3.0;
}

/* A log's lines are as wide as they come. */
static size_t line_width(int is_terminal)
{
    struct winsize size;
    if (!is_terminal)
        return LONGEST - 1;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 2)
        return 79;
    return size.ws_col <= LONGEST ? (size_t)size.ws_col - 1 : LONGEST - 1;
}

/* The whole part or nothing: half a number would mislead. */
static void append_part(shown_line *line, const char *part)
{
    const char *const gap = line->used > 0 ? "  " : "";
    const size_t length = strlen(gap) + strlen(part);
    line->is_full = line->is_full || line->used + length > line->width;
    if (line->is_full)
        return;
    snprintf(line->text + line->used, LONGEST - line->used, "%s%s", gap, part);
    line->used += length;
}

/* "label 12.3", or "label -" where there is no number yet. */
static void append_value(shown_line *line, const char *label, const char *format, double value)
{
    char number[48] = "-", part[64];
    if (!isnan(value))
        snprintf(number, sizeof number, format, value);
    snprintf(part, sizeof part, "%s%s", label, number);
    append_part(line, part);
}

static void append_time_left(shown_line *line, double seconds)
{
    const double left = ceil(fmax(seconds, 0.0));
    char part[64];
    snprintf(part, sizeof part, "<%.0f:%02.0f left", floor(left / 60.0), fmod(left, 60.0));
    append_part(line, part);
}

/* In the order of what a narrow window should rather keep. 80 columns hold all but the last or the last two. */
static void write_line(shown_line *line, const progress_line *progress, const train_report *report)
{
    append_value(line, "", "%.0f steps", (double)report->steps);
    append_value(line, "return ", "%.1f", (double)report->train_return);
    append_value(line, "greedy ", "%.1f", (double)progress->last_eval);
    append_time_left(line, report->seconds_left);
    append_value(line, "", "%.0f steps/s", report->steps_per_second);
    append_value(line, "loss ", "%.2f", (double)report->loss);
    append_value(line, "", "%.0f episodes", (double)report->episodes);
}

void progress_show(progress_line *progress, const train_report *report)
{
    if (!isnan(report->eval_return))
        progress->last_eval = report->eval_return;
    if (!is_due(progress, report))
        return;
    progress->has_shown = 1;
    progress->shown_at = report->seconds;
    shown_line line = {.width = line_width(progress->is_terminal)};
    write_line(&line, progress, report);
    printf(progress->is_terminal ? "\r%s\033[K" : "%s\n", line.text);
    fflush(stdout);
}

void progress_end(progress_line *progress)
{
    if (progress->is_terminal && progress->has_shown)
        printf("\n");
    fflush(stdout);
}
