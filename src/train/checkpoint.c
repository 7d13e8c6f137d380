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

typedef struct paths {
    char current[GPUR_MAX_PATH], new[GPUR_MAX_PATH], old[GPUR_MAX_PATH];
} paths;

static gpur_status find_paths(const char *folder, paths *p)
{
    GPUR_TRY(gpur_path_make(p->current, "%s/checkpoint", folder));
    GPUR_TRY(gpur_path_make(p->new, "%s/checkpoint.new", folder));
    return gpur_path_make(p->old, "%s/checkpoint.old", folder);
}

/* The new one takes the place of the current one, which must be complete and on the disk. Only while this goes on
 * is there an old one and no current one. */
static gpur_status put_in_place(const char *folder, const paths *p)
{
    if (gpur_path_exists(p->current))
        GPUR_TRY(gpur_path_rename(p->current, p->old));
    GPUR_TRY(gpur_path_rename(p->new, p->current));
    GPUR_TRY(gpur_folder_sync(folder));
    return gpur_folder_remove(p->old);
}

/* Ends what a killed program has begun. */
static gpur_status settle(const char *folder, const paths *p)
{
    if (!gpur_path_exists(p->current) && gpur_path_exists(p->old))
        return put_in_place(folder, p);
    GPUR_TRY(gpur_folder_remove(p->new));
    return gpur_folder_remove(p->old);
}

gpur_status gpur_train_checkpoint_exists(const char *folder, int *is_there)
{
    paths p;
    GPUR_TRY(find_paths(folder, &p));
    *is_there = gpur_path_exists(p.current) || gpur_path_exists(p.old);
    return GPUR_OK;
}

static gpur_status write_position(const char *folder, const gpur_record *r, const gpur_position *at)
{
    gpur_text lines = {0};
    gpur_text_add(&lines, "step %" PRId64 "\nseconds ", at->step);
    gpur_text_add_exactly(&lines, at->seconds, "0");
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
    paths p;
    GPUR_TRY(find_paths(folder, &p));
    GPUR_TRY(settle(folder, &p));
    const gpur_status status = gpur_run_save(run, p.new); /* it may still report episodes and an evaluation */
    GPUR_TRY(status);
    GPUR_TRY(gpur_best_copy(folder, p.new));
    GPUR_TRY(gpur_record_sync(r, at->bytes));
    GPUR_TRY(write_position(p.new, r, at));
    return put_in_place(folder, &p);
}

/* Reads "name number" from a line, and moves on to the next one. */
static gpur_status read_line(const char **line, const char *name, double *number)
{
    const size_t length = strlen(name);
    char *end;
    if (strncmp(*line, name, length) != 0 || (*line)[length] != ' ')
        return GPUR_FILE_ERROR;
    *number = strtod(*line + length + 1, &end);
    if (*end != '\n' || !isfinite(*number) || *number < 0.0 || *number > 1e15)
        return GPUR_FILE_ERROR;
    *line = end + 1;
    return GPUR_OK;
}

static gpur_status read_lines(const char *line, const gpur_record *r, gpur_position *at)
{
    double number;
    GPUR_TRY(read_line(&line, "step", &number));
    at->step = (int64_t)number;
    GPUR_TRY(read_line(&line, "seconds", &at->seconds));
    for (int i = 0; i < GPUR_RECORD_FILES; i++) {
        if (!gpur_record_file_name(r->system, i))
            continue;
        GPUR_TRY(read_line(&line, gpur_record_file_name(r->system, i), &number));
        at->bytes[i] = (int64_t)number;
    }
    return GPUR_OK;
}

gpur_status gpur_train_checkpoint_find(const char *folder, const gpur_record *r, gpur_position *at, int *is_there)
{
    paths p;
    char path[GPUR_MAX_PATH];
    gpur_text lines = {0};
    GPUR_TRY(find_paths(folder, &p));
    GPUR_TRY(settle(folder, &p));
    *is_there = gpur_path_exists(p.current);
    if (!*is_there)
        return GPUR_OK;
    GPUR_TRY(gpur_path_make(path, "%s/%s", p.current, position_name));
    gpur_status result = gpur_text_file_read(path, &lines);
    if (result == GPUR_OK && read_lines(lines.memory, r, at) != GPUR_OK)
        result =
            gpur_fail(GPUR_FILE_ERROR,
                      "%s is damaged; it must have the lines \"step N\", \"seconds X\" and one for each file of the "
                      "record",
                      path);
    gpur_text_free(&lines);
    return result;
}

gpur_status gpur_train_checkpoint_load(const char *folder, gpur_run *run, int32_t refill)
{
    paths p;
    GPUR_TRY(find_paths(folder, &p));
    GPUR_TRY(gpur_run_load(run, p.current, refill));
    return gpur_best_copy(p.current, folder);
}
