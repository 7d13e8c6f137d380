/* SPDX-License-Identifier: MIT */
/* The last checkpoint of a run, on the disk. */
#include "train/checkpoint.h"

#include "train/best.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char position_name[] = "position.txt";
static const char current[] = "checkpoint", new[] = "checkpoint.new", old[] = "checkpoint.old";

/* The new one takes the place of the current one, which must be complete and on the disk. Only while this goes on
 * is there an old one and no current one. */
static gpur_status put_in_place(const char *folder)
{
    if (gpur_file_exists(folder, current))
        GPUR_TRY(gpur_file_rename(folder, current, old));
    GPUR_TRY(gpur_file_rename(folder, new, current));
    GPUR_TRY(gpur_folder_sync(folder));
    return gpur_folder_remove(folder, old);
}

/* Ends what a killed program has begun. */
static gpur_status settle(const char *folder)
{
    if (!gpur_file_exists(folder, current) && gpur_file_exists(folder, old))
        return put_in_place(folder);
    GPUR_TRY(gpur_folder_remove(folder, new));
    return gpur_folder_remove(folder, old);
}

int gpur_train_checkpoint_exists(const char *folder)
{
    return gpur_file_exists(folder, current) || gpur_file_exists(folder, old);
}

static gpur_status write_position(const char *folder, const gpur_record *r, const gpur_position *at)
{
    gpur_text lines = {0};
    gpur_text_add(&lines, "step %" PRId64 "\nseconds ", at->step);
    gpur_text_add_number(&lines, at->seconds, GPUR_DIGITS_OF_DOUBLE, "0");
    gpur_text_add(&lines, "\n");
    for (int i = 0; i < GPUR_RECORD_FILES; i++)
        if (gpur_record_file_name(r->system, i))
            gpur_text_add(&lines, "%s %" PRId64 "\n", gpur_record_file_name(r->system, i), at->bytes[i]);
    const gpur_status result = gpur_text_file_write(folder, position_name, &lines);
    gpur_text_free(&lines);
    return result;
}

gpur_status gpur_train_checkpoint_save(const char *folder, gpur_run *run, gpur_record *r, gpur_position *at)
{
    char path[GPUR_MAX_PATH];
    GPUR_TRY(gpur_path_make(path, "%s/%s", folder, new));
    GPUR_TRY(settle(folder));
    GPUR_TRY(gpur_run_save(run, path)); /* it may still report episodes and an evaluation */
    GPUR_TRY(gpur_best_copy(folder, path));
    GPUR_TRY(gpur_record_sync(r, at->bytes));
    GPUR_TRY(write_position(path, r, at));
    return put_in_place(folder);
}

/* Reads "name number" from a line, and moves on to the next line. Returns 0 if the line has another form. */
static int read_line(const char **line, const char *name, double *number)
{
    const size_t length = strlen(name);
    char *end;
    if (strncmp(*line, name, length) != 0 || (*line)[length] != ' ')
        return 0;
    *number = strtod(*line + length + 1, &end);
    *line = end + 1;
    return *end == '\n' && isfinite(*number) && *number >= 0.0 && *number <= 1e15;
}

static int read_lines(const char *line, const gpur_record *r, gpur_position *at)
{
    double number;
    if (!read_line(&line, "step", &number) || !read_line(&line, "seconds", &at->seconds))
        return 0;
    at->step = (int64_t)number;
    for (int i = 0; i < GPUR_RECORD_FILES; i++) {
        const char *const name = gpur_record_file_name(r->system, i);
        if (name && !read_line(&line, name, &number))
            return 0;
        at->bytes[i] = name ? (int64_t)number : 0;
    }
    return 1;
}

gpur_status gpur_train_checkpoint_find(const char *folder, const gpur_record *r, gpur_position *at, int *is_there)
{
    char path[GPUR_MAX_PATH];
    gpur_text lines = {0};
    GPUR_TRY(settle(folder));
    *is_there = gpur_file_exists(folder, current);
    if (!*is_there)
        return GPUR_OK;
    GPUR_TRY(gpur_path_make(path, "%s/%s", folder, current));
    gpur_status status = gpur_text_file_read(path, position_name, &lines);
    if (status == GPUR_OK && !read_lines(lines.memory, r, at))
        status = gpur_fail(
            GPUR_FILE_ERROR,
            "%s/%s is damaged; it must have the lines \"step N\", \"seconds X\" and one for each file of the record",
            path, position_name);
    gpur_text_free(&lines);
    return status;
}

gpur_status gpur_train_checkpoint_load(const char *folder, gpur_run *run, int32_t refill)
{
    char path[GPUR_MAX_PATH];
    GPUR_TRY(gpur_path_make(path, "%s/%s", folder, current));
    GPUR_TRY(gpur_run_load(run, path, refill));
    return gpur_best_copy(path, folder);
}
