/* SPDX-License-Identifier: MIT */
#include "progress.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { LONGEST = 256 };

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

/* A line wider than the window would wrap, and could not be rewritten. */
static size_t window_width(void)
{
    struct winsize size;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? (size_t)size.ws_col - 1 : 79;
}

/* "label 12.3" or "label -" behind what the line holds already. */
static void append_value(char *line, const char *label, const char *format, double value)
{
    const size_t used = strlen(line);
    const int length = snprintf(line + used, LONGEST - used, "%s", label);
    if (length < 0 || (size_t)length >= LONGEST - used)
        return;
    char *const end = line + used + length;
    const size_t room = LONGEST - used - (size_t)length;
    if (isnan(value))
        snprintf(end, room, "-");
    else
        snprintf(end, room, format, value);
}

/* In the order of what a narrow window should rather keep. 80 columns hold all but the last. */
static void write_line(char *line, const progress_line *progress, const train_report *report)
{
    line[0] = '\0';
    append_value(line, "", "%.0f steps", (double)report->steps);
    append_value(line, "  ", "%.0f episodes", (double)report->episodes);
    append_value(line, "  return ", "%.1f", (double)report->train_return);
    append_value(line, "  loss ", "%.2f", (double)report->loss);
    append_value(line, "  ", "%.0f steps/s", report->steps_per_second);
    const double left = ceil(fmax(report->seconds_left, 0.0));
    append_value(line, "  <", "%.0f:", floor(left / 60.0));
    append_value(line, "", "%02.0f left", fmod(left, 60.0));
    append_value(line, "  greedy ", "%.1f", (double)progress->last_eval);
}

void progress_show(progress_line *progress, const train_report *report)
{
    char line[LONGEST];
    if (!isnan(report->eval_return))
        progress->last_eval = report->eval_return;
    if (!is_due(progress, report))
        return;
    progress->has_shown = 1;
    write_line(line, progress, report);
    progress->shown_at = report->seconds;
    if (progress->is_terminal) {
        const size_t width = window_width();
        if (width < sizeof line)
            line[width] = '\0';
        printf("\r%s\033[K", line);
    } else {
        printf("%s\n", line);
    }
    fflush(stdout);
}

void progress_end(progress_line *progress)
{
    if (progress->is_terminal && progress->has_shown)
        printf("\n");
    fflush(stdout);
}
