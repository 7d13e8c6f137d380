/* SPDX-License-Identifier: MIT */
#include "curve.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

/* Makes every folder on the way to `path`, which is changed and put back. */
static int make_folders(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        const int failed = mkdir(path, 0777) != 0 && errno != EEXIST;
        *slash = '/';
        if (failed)
            return -1;
    }
    return 0;
}

static int complain(const learning_curve *curve)
{
    fprintf(stderr, "cannot write %s: %s\n", curve->path, strerror(errno));
    return -1;
}

int curve_open(learning_curve *curve, const char *folder, int goes_on)
{
    curve->file = NULL;
    const int length = snprintf(curve->path, sizeof curve->path, "%s/curve.csv", folder);
    if (length < 0 || (size_t)length >= sizeof curve->path) {
        fprintf(stderr, "--out is %zu characters long; at most %zu fit\n", strlen(folder), sizeof curve->path - 11);
        return -1;
    }
    if (make_folders(curve->path) != 0 || !(curve->file = fopen(curve->path, goes_on ? "a" : "w")))
        return complain(curve);
    if (fseek(curve->file, 0, SEEK_END) != 0 || ftell(curve->file) > 0)
        return 0;
    fprintf(curve->file, "steps,episodes,train_steps,seconds,train_return,eval_return,loss,mean_q,epsilon,"
                         "steps_per_second\n");
    return fflush(curve->file) == 0 ? 0 : complain(curve);
}

/* An empty cell stands for a value there is none of. */
static void add_cell(FILE *file, float value)
{
    if (isnan(value))
        fprintf(file, ",");
    else
        fprintf(file, ",%.6g", (double)value);
}

int curve_add(learning_curve *curve, const train_report *report)
{
    FILE *const file = curve->file;
    fprintf(file, "%" PRId64 ",%" PRId64 ",%" PRId64 ",%.3f", report->steps, report->episodes, report->train_steps,
            report->seconds);
    add_cell(file, report->train_return);
    add_cell(file, report->eval_return);
    add_cell(file, report->loss);
    add_cell(file, report->mean_q);
    add_cell(file, report->epsilon);
    fprintf(file, ",%.0f\n", report->steps_per_second);
    return fflush(file) == 0 ? 0 : complain(curve);
}

void curve_close(learning_curve *curve)
{
    if (curve->file)
        fclose(curve->file);
    curve->file = NULL;
}
