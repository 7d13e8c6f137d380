/* SPDX-License-Identifier: MIT */
#include "checkpoint.h"

#include "failure.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char position_name[] = "position.txt";

typedef struct paths {
    char current[MAX_PATH], new[MAX_PATH], old[MAX_PATH];
} paths;

static int find_paths(const char *folder, paths *p)
{
    TRY(path_make(p->current, "%s/checkpoint", folder));
    TRY(path_make(p->new, "%s/checkpoint.new", folder));
    return path_make(p->old, "%s/checkpoint.old", folder);
}

/* The new one takes the place of the current one, which must be complete and on the disk. Only while this goes on
 * is there an old one and no current one. */
static int put_in_place(const char *folder, const paths *p)
{
    if (path_exists(p->current))
        TRY(path_rename(p->current, p->old));
    TRY(path_rename(p->new, p->current));
    TRY(folder_sync(folder));
    return folder_remove(p->old);
}

/* Ends what a killed program has begun. */
static int settle(const char *folder, const paths *p)
{
    if (!path_exists(p->current) && path_exists(p->old))
        return put_in_place(folder, p);
    TRY(folder_remove(p->new));
    return folder_remove(p->old);
}

int checkpoint_exists(const char *folder, int *is_there)
{
    paths p;
    TRY(find_paths(folder, &p));
    *is_there = path_exists(p.current) || path_exists(p.old);
    return 0;
}

static int write_position(const char *folder, const record *r, const position *at)
{
    text lines = {0};
    text_add(&lines, "step %" PRId64 "\nseconds ", at->step);
    text_add_exactly(&lines, at->seconds, "0");
    text_add(&lines, "\n");
    for (int i = 0; i < RECORD_FILES; i++)
        if (record_file_name(r, i))
            text_add(&lines, "%s %" PRId64 "\n", record_file_name(r, i), at->bytes[i]);
    const int result = file_write(folder, position_name, &lines);
    text_free(&lines);
    return result;
}

int checkpoint_save(const char *folder, agent *a, record *r, position *at)
{
    paths p;
    TRY(find_paths(folder, &p));
    TRY(settle(folder, &p));
    const gpur_status status = gpur_run_save(a->run, p.new); /* it may still report episodes and an evaluation */
    if (status == GPUR_INTERRUPTED)
        return INTERRUPTED;
    TRY_LIBRARY(status);
    TRY(record_sync(r, at->bytes));
    TRY(write_position(p.new, r, at));
    return put_in_place(folder, &p);
}

/* Reads "name number" from a line, and moves on to the next one. */
static int read_line(const char **line, const char *name, double *number)
{
    const size_t length = strlen(name);
    char *end;
    if (strncmp(*line, name, length) != 0 || (*line)[length] != ' ')
        return FAILED;
    *number = strtod(*line + length + 1, &end);
    if (*end != '\n' || !isfinite(*number) || *number < 0.0 || *number > 1e15)
        return FAILED;
    *line = end + 1;
    return 0;
}

static int read_lines(const char *line, const record *r, position *at)
{
    double number;
    TRY(read_line(&line, "step", &number));
    at->step = (int64_t)number;
    TRY(read_line(&line, "seconds", &at->seconds));
    for (int i = 0; i < RECORD_FILES; i++) {
        if (!record_file_name(r, i))
            continue;
        TRY(read_line(&line, record_file_name(r, i), &number));
        at->bytes[i] = (int64_t)number;
    }
    return 0;
}

int checkpoint_find(const char *folder, const record *r, position *at, int *is_there)
{
    paths p;
    char path[MAX_PATH];
    text lines = {0};
    TRY(find_paths(folder, &p));
    TRY(settle(folder, &p));
    *is_there = path_exists(p.current);
    if (!*is_there)
        return 0;
    TRY(path_make(path, "%s/%s", p.current, position_name));
    int result = file_read(path, &lines);
    if (result == 0 && read_lines(lines.memory, r, at) != 0)
        result = fail("%s is damaged; it must have the lines \"step N\", \"seconds X\" and one for each file of the "
                      "record",
                      path);
    text_free(&lines);
    return result;
}

int checkpoint_load(const char *folder, agent *a, int refill)
{
    paths p;
    TRY(find_paths(folder, &p));
    TRY_LIBRARY(gpur_run_load(a->run, p.current, refill));
    return 0;
}
