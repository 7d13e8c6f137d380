/* SPDX-License-Identifier: MIT */
/* The files of a run's record. */
#include "train/record.h"

#include "base/numbers.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* Measured numbers are rounded; returns are not. */
static const struct {
    const char *file, *name;
    gpur_digits digits;
} kinds[GPUR_RECORD_FILES] = {
    [GPUR_RECORD_EPISODE] = {"episodes.csv", "episode", GPUR_DIGITS_OF_DOUBLE},
    [GPUR_RECORD_EVALUATION] = {"evaluations.csv", "evaluation", GPUR_DIGITS_OF_DOUBLE},
    [GPUR_RECORD_RATES] = {"rates.csv", "rates", GPUR_DIGITS_ROUNDED},
    [GPUR_RECORD_ACTOR] = {"actors.csv", "actor", GPUR_DIGITS_OF_DOUBLE},
    [GPUR_RECORD_TUNER] = {"tuner.csv", "tuner", GPUR_DIGITS_ROUNDED},
    [GPUR_RECORD_KINDS] = {"log.jsonl", NULL, GPUR_DIGITS_OF_DOUBLE},
};
enum { LOG = GPUR_RECORD_KINDS };

const char *gpur_record_file_name(const gpur_train_system *system, int file)
{
    const int is_missing = system && ((file == GPUR_RECORD_ACTOR && !system->has_actors) ||
                                      (file == GPUR_RECORD_TUNER && !system->has_tuner));
    return is_missing ? NULL : kinds[file].file;
}

static gpur_record_kind kind_of(const gpur_run_event *event)
{
    return event->kind == GPUR_RUN_EPISODE      ? GPUR_RECORD_EPISODE
           : event->kind == GPUR_RUN_EVALUATION ? GPUR_RECORD_EVALUATION
           : event->kind == GPUR_RUN_TUNED      ? GPUR_RECORD_TUNER
                                                : GPUR_RECORD_ACTOR;
}

/* The number with the fewest digits that is the same float. */
static double shortest(float value)
{
    char digits[40];
    int count = 6;
    do
        snprintf(digits, sizeof digits, "%.*g", count, (double)value);
    while (strtof(digits, NULL) != value && count++ < 9);
    return strtod(digits, NULL);
}

static void fill_row(const gpur_train_system *system, gpur_record_kind kind, const gpur_run_event *event, gpur_row *row)
{
    row->count = 0;
    gpur_row_add(row, "step", (double)event->env_steps);
    switch (kind) {
    case GPUR_RECORD_EPISODE:
        gpur_row_add(row, system->lane, event->env_index);
        gpur_row_add(row, "length", (double)event->length);
        gpur_row_add(row, "return", event->mean_return);
        if (system->has_actors)
            gpur_row_add(row, "epsilon", shortest(event->epsilon));
        break;
    case GPUR_RECORD_EVALUATION:
        gpur_row_add(row, "episodes", (double)event->episodes);
        if (!system->lacks_eval_length)
            gpur_row_add(row, "length", (double)event->length);
        gpur_row_add(row, "mean_return", event->mean_return);
        gpur_row_add(row, "return_deviation", event->return_deviation);
        break;
    case GPUR_RECORD_TUNER:
        gpur_row_add(row, "agents", event->agents);
        gpur_row_add(row, "predictors", event->predictors);
        gpur_row_add(row, "trainers", event->trainers);
        gpur_row_add(row, "accepted", event->accepted);
        gpur_row_add(row, "rollouts_per_second", event->rate);
        break;
    default:
        gpur_row_add(row, "actor", event->env_index);
        gpur_row_add(row, "incarnation", (double)event->incarnation);
        gpur_row_add(row, "event", 0.0);
        row->words[row->count - 1] = event->kind == GPUR_RUN_STARTED ? "started" : "ended";
        gpur_row_add(row, "asked", event->asked);
        gpur_row_add(row, "lost_blocks", (double)event->lost_blocks);
        gpur_row_add(row, "lost_rows", (double)event->lost_rows);
    }
}

static gpur_status refuse(const gpur_record *r, int file, const char *what)
{
    return gpur_fail(GPUR_FILE_ERROR, "cannot %s %s/%s: %s", what, r->folder, kinds[file].file, strerror(errno));
}

/* write(2) until all bytes are written. Returns 0 after a failure. */
static int write_all(int file, const char *bytes, size_t count)
{
    while (count > 0) {
        const ssize_t written = write(file, bytes, count);
        if (written < 0 && errno != EINTR)
            return 0;
        bytes += written > 0 ? written : 0;
        count -= written > 0 ? (size_t)written : 0;
    }
    return 1;
}

/* Writes the row that was built. */
static gpur_status write_row(gpur_record *r, int file)
{
    struct stat before;
    if (!gpur_text_is_whole(&r->row))
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for a row of %s/%s", r->folder, kinds[file].file);
    if (fstat(r->file[file], &before) != 0)
        return refuse(r, file, "read the size of");
    if (write_all(r->file[file], r->row.memory, r->row.length))
        return GPUR_OK;
    const gpur_status status = refuse(r, file, "write");
    (void)!ftruncate(r->file[file], before.st_size); /* no half of a row stays where there is no room */
    return status;
}

/* Writes a row to the log, or to the file of its kind. */
static gpur_status write_cells(gpur_record *r, gpur_record_kind kind, const gpur_row *row, int is_log)
{
    gpur_text *const text = &r->row;
    gpur_text_clear(text);
    if (is_log)
        gpur_text_add(text, "{\"kind\": \"%s\"", kinds[kind].name);
    for (int32_t i = 0; i < row->count; i++) {
        if (is_log)
            gpur_text_add(text, ", \"%s\": ", row->names[i]);
        else
            gpur_text_add(text, "%s", i ? "," : "");
        if (row->words[i])
            gpur_text_add(text, is_log ? "\"%s\"" : "%s", row->words[i]);
        else
            gpur_text_add_number(text, row->values[i], kinds[kind].digits, is_log ? "null" : "");
    }
    gpur_text_add(text, is_log ? "}\n" : "\n");
    return write_row(r, is_log ? LOG : (int)kind);
}

static gpur_status open_file(gpur_record *r, int file)
{
    char path[GPUR_MAX_PATH];
    GPUR_TRY(gpur_path_make(path, "%s/%s", r->folder, kinds[file].file));
    r->file[file] = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (r->file[file] < 0)
        return refuse(r, file, "write");
    if (flock(r->file[file], LOCK_EX | LOCK_NB) != 0)
        return gpur_fail(GPUR_FILE_ERROR, "%s cannot be locked (%s); another process must not write to it", path,
                         strerror(errno));
    return GPUR_OK;
}

static int has_file(const gpur_record *r, int file)
{
    return r->folder[0] && gpur_record_file_name(r->system, file);
}

gpur_status gpur_record_open(gpur_record *r, const char *folder, const gpur_train_system *system)
{
    r->system = system;
    for (int i = 0; i < GPUR_RECORD_FILES; i++)
        r->file[i] = -1;
    GPUR_TRY(gpur_mutex_open(&r->lock, "a record"));
    GPUR_TRY(gpur_path_make(r->folder, "%s", folder ? folder : ""));
    for (int i = 0; i < GPUR_RECORD_FILES; i++)
        if (has_file(r, i))
            GPUR_TRY(open_file(r, i));
    return GPUR_OK;
}

static gpur_status check_size(const gpur_record *r, int file, int64_t bytes)
{
    struct stat found;
    if (fstat(r->file[file], &found) != 0)
        return refuse(r, file, "read the size of");
    if (found.st_size < bytes)
        return gpur_fail(GPUR_FILE_ERROR,
                         "%s/%s has %" PRId64 " bytes; it had %" PRId64
                         " when the checkpoint was saved, and must have no less",
                         r->folder, kinds[file].file, (int64_t)found.st_size, bytes);
    return GPUR_OK;
}

/* Tells the columns of a kind of rows. */
static gpur_status begin_kind(gpur_record *r, gpur_record_kind kind, gpur_row *row, int has_header)
{
    if (r->on_row)
        r->on_row(r->user, kinds[kind].name, row->count, row->names, NULL, NULL);
    memcpy(row->words, row->names, sizeof row->words);
    return has_header || !r->folder[0] ? GPUR_OK : write_cells(r, kind, row, 0);
}

gpur_status gpur_record_begin(gpur_record *r, const int64_t *bytes, const gpur_row *rates)
{
    const gpur_run_event none = {.size = sizeof none};
    gpur_row row;
    for (int i = 0; i < GPUR_RECORD_FILES && bytes; i++)
        if (has_file(r, i))
            GPUR_TRY(check_size(r, i, bytes[i]));
    for (int i = 0; i < GPUR_RECORD_FILES; i++)
        if (has_file(r, i) && ftruncate(r->file[i], bytes ? (off_t)bytes[i] : 0) != 0)
            return refuse(r, i, "cut off the end of");
    for (int i = 0; i < GPUR_RECORD_KINDS; i++) {
        if (!gpur_record_file_name(r->system, i))
            continue;
        fill_row(r->system, (gpur_record_kind)i, &none, &row);
        if (i == GPUR_RECORD_RATES)
            row = *rates;
        GPUR_TRY(begin_kind(r, (gpur_record_kind)i, &row, bytes != NULL));
    }
    return GPUR_OK;
}

/* Both files have the step in their first column. */
gpur_status gpur_record_find_last_step(const gpur_record *r, int64_t *step)
{
    static const gpur_record_kind both[] = {GPUR_RECORD_EPISODE, GPUR_RECORD_EVALUATION};
    *step = 0;
    for (size_t i = 0; i < sizeof both / sizeof *both; i++) {
        gpur_text rows = {0};
        const gpur_status status = gpur_text_file_read(r->folder, kinds[both[i]].file, &rows);
        for (const char *row = rows.memory; status == GPUR_OK && row; row = strchr(row, '\n')) {
            row += *row == '\n';
            *step = gpur_max(*step, strtoll(row, NULL, 10)); /* of the header: 0 */
        }
        gpur_text_free(&rows);
        GPUR_TRY(status);
    }
    return GPUR_OK;
}

void gpur_record_close(gpur_record *r)
{
    if (!r->system)
        return;
    for (int i = 0; i < GPUR_RECORD_FILES; i++)
        if (r->file[i] >= 0)
            close(r->file[i]);
    gpur_text_free(&r->row);
    gpur_mutex_close(&r->lock);
    *r = (gpur_record){0};
}

static gpur_status add(gpur_record *r, gpur_record_kind kind, const gpur_row *row)
{
    gpur_status status = GPUR_OK;
    gpur_mutex_lock(&r->lock);
    if (r->folder[0])
        status = write_cells(r, kind, row, 0);
    if (r->folder[0] && status == GPUR_OK)
        status = write_cells(r, kind, row, 1);
    gpur_mutex_unlock(&r->lock);
    if (status == GPUR_OK && r->on_row)
        r->on_row(r->user, kinds[kind].name, row->count, row->names, row->values, row->words);
    return status;
}

gpur_status gpur_record_add_event(gpur_record *r, const gpur_run_event *event)
{
    gpur_row row;
    fill_row(r->system, kind_of(event), event, &row);
    return add(r, kind_of(event), &row);
}

gpur_status gpur_record_add_rates(gpur_record *r, const gpur_row *rates)
{
    return add(r, GPUR_RECORD_RATES, rates);
}

gpur_status gpur_record_sync(gpur_record *r, int64_t *bytes)
{
    gpur_status status = GPUR_OK;
    struct stat found;
    gpur_mutex_lock(&r->lock);
    for (int i = 0; i < GPUR_RECORD_FILES && status == GPUR_OK; i++) {
        if (!has_file(r, i))
            continue;
        if (fsync(r->file[i]) != 0 || fstat(r->file[i], &found) != 0)
            status = refuse(r, i, "sync");
        bytes[i] = (int64_t)found.st_size;
    }
    gpur_mutex_unlock(&r->lock);
    return status;
}
