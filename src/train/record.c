/* SPDX-License-Identifier: MIT */
/* The files of a run's record. */
#include "train/record.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* Measured numbers are rounded; returns are not. */
static const struct {
    const char *file, *name;
    int is_rounded;
} kinds[GPUR_RECORD_FILES] = {
    [GPUR_RECORD_EPISODE] = {"episodes.csv", "episode", 0},
    [GPUR_RECORD_EVALUATION] = {"evaluations.csv", "evaluation", 0},
    [GPUR_RECORD_RATES] = {"rates.csv", "rates", 1},
    [GPUR_RECORD_ACTOR] = {"actors.csv", "actor", 0},
    [GPUR_RECORD_TUNER] = {"tuner.csv", "tuner", 1},
    [GPUR_RECORD_KINDS] = {"log.jsonl", NULL, 0},
};

const char *gpur_record_file_name(const gpur_train_system *system, int file)
{
    if (system && ((file == GPUR_RECORD_ACTOR && !system->has_actors_file) ||
                   (file == GPUR_RECORD_TUNER && !system->has_tuner_file)))
        return NULL;
    return kinds[file].file;
}

static gpur_record_kind kind_of(const gpur_run_event *event)
{
    return event->kind == GPUR_RUN_EPISODE      ? GPUR_RECORD_EPISODE
           : event->kind == GPUR_RUN_EVALUATION ? GPUR_RECORD_EVALUATION
           : event->kind == GPUR_RUN_TUNED      ? GPUR_RECORD_TUNER
                                                : GPUR_RECORD_ACTOR;
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
        if (system->add_episode)
            system->add_episode(row, event);
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
        gpur_row_add_word(row, "event", event->kind == GPUR_RUN_STARTED ? "started" : "ended");
        gpur_row_add(row, "asked", event->asked);
        gpur_row_add(row, "lost_blocks", (double)event->lost_blocks);
        gpur_row_add(row, "lost_rows", (double)event->lost_rows);
    }
}

/* Writes the row that was built. */
static gpur_status write_row(gpur_record *r, int file)
{
    char path[GPUR_MAX_PATH];
    struct stat before;
    GPUR_TRY(gpur_path_make(path, "%s/%s", r->folder, kinds[file].file));
    if (!gpur_text_is_whole(&r->row))
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for a row of %s", path);
    if (fstat(r->file[file], &before) != 0)
        return gpur_fail(GPUR_FILE_ERROR, "cannot read the size of %s: %s", path, strerror(errno));
    const gpur_status status = gpur_write_all(r->file[file], r->row.memory, r->row.length, path);
    if (status != GPUR_OK) /* no half of a row stays where there is no room */
        (void)!ftruncate(r->file[file], before.st_size);
    return status;
}

static gpur_status write_header(gpur_record *r, int file, const gpur_row *row)
{
    gpur_text_clear(&r->row);
    for (int32_t i = 0; i < row->count; i++)
        gpur_text_add(&r->row, "%s%s", i ? "," : "", row->names[i]);
    gpur_text_add(&r->row, "\n");
    return write_row(r, file);
}

static gpur_status open_file(gpur_record *r, int file)
{
    char path[GPUR_MAX_PATH];
    GPUR_TRY(gpur_path_make(path, "%s/%s", r->folder, kinds[file].file));
    r->file[file] = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (r->file[file] < 0)
        return gpur_fail(GPUR_FILE_ERROR, "cannot write %s: %s", path, strerror(errno));
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
        return gpur_fail(GPUR_FILE_ERROR, "cannot read the size of %s/%s: %s", r->folder, kinds[file].file,
                         strerror(errno));
    if (found.st_size < bytes)
        return gpur_fail(GPUR_FILE_ERROR,
                         "%s/%s has %" PRId64 " bytes; it had %" PRId64 " when the checkpoint was saved, and must have "
                         "no less",
                         r->folder, kinds[file].file, (int64_t)found.st_size, bytes);
    return GPUR_OK;
}

static gpur_status begin_file(gpur_record *r, int file, int64_t bytes)
{
    if (ftruncate(r->file[file], (off_t)bytes) != 0)
        return gpur_fail(GPUR_FILE_ERROR, "cannot cut off the end of %s/%s: %s", r->folder, kinds[file].file,
                         strerror(errno));
    return GPUR_OK;
}

gpur_status gpur_record_begin(gpur_record *r, const int64_t *bytes, const gpur_row *rates)
{
    const gpur_run_event none = {.size = sizeof none};
    gpur_row row;
    for (int i = 0; i < GPUR_RECORD_FILES && bytes; i++)
        if (has_file(r, i))
            GPUR_TRY(check_size(r, i, bytes[i]));
    for (int i = 0; i < GPUR_RECORD_FILES; i++)
        if (has_file(r, i))
            GPUR_TRY(begin_file(r, i, bytes ? bytes[i] : 0));
    for (int i = 0; i < GPUR_RECORD_KINDS; i++) {
        if (!gpur_record_file_name(r->system, i))
            continue;
        fill_row(r->system, (gpur_record_kind)i, &none, &row);
        if (i == GPUR_RECORD_RATES)
            row = *rates;
        if (r->on_row)
            r->on_row(r->user, kinds[i].name, row.count, row.names, NULL, NULL);
        if (r->folder[0] && !bytes)
            GPUR_TRY(write_header(r, i, &row));
    }
    return GPUR_OK;
}

/* Both files have the step in their first column. */
static gpur_status find_last_step(const gpur_record *r, gpur_record_kind kind, int64_t *step)
{
    char path[GPUR_MAX_PATH];
    gpur_text rows = {0};
    GPUR_TRY(gpur_path_make(path, "%s/%s", r->folder, kinds[kind].file));
    const gpur_status status = gpur_text_file_read(path, &rows);
    for (const char *row = rows.memory; status == GPUR_OK && row; row = strchr(row, '\n')) {
        row += *row == '\n';
        const int64_t found = strtoll(row, NULL, 10); /* of the header: 0 */
        *step = found > *step ? found : *step;
    }
    gpur_text_free(&rows);
    return status;
}

gpur_status gpur_record_find_last_step(const gpur_record *r, int64_t *step)
{
    *step = 0;
    GPUR_TRY(find_last_step(r, GPUR_RECORD_EPISODE, step));
    return find_last_step(r, GPUR_RECORD_EVALUATION, step);
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

static void add_cell(gpur_text *text, const gpur_row *row, int32_t column, int is_rounded, int is_json)
{
    const char *const none = is_json ? "null" : "";
    if (row->words[column])
        gpur_text_add(text, is_json ? "\"%s\"" : "%s", row->words[column]);
    else if (is_rounded)
        gpur_text_add_rounded(text, row->values[column], none);
    else
        gpur_text_add_exactly(text, row->values[column], none);
}

static gpur_status add_csv(gpur_record *r, gpur_record_kind kind, const gpur_row *row)
{
    gpur_text_clear(&r->row);
    for (int32_t i = 0; i < row->count; i++) {
        gpur_text_add(&r->row, "%s", i ? "," : "");
        add_cell(&r->row, row, i, kinds[kind].is_rounded, 0);
    }
    gpur_text_add(&r->row, "\n");
    return write_row(r, (int)kind);
}

static gpur_status add_json(gpur_record *r, gpur_record_kind kind, const gpur_row *row)
{
    gpur_text_clear(&r->row);
    gpur_text_add(&r->row, "{\"kind\": \"%s\"", kinds[kind].name);
    for (int32_t i = 0; i < row->count; i++) {
        gpur_text_add(&r->row, ", \"%s\": ", row->names[i]);
        add_cell(&r->row, row, i, kinds[kind].is_rounded, 1);
    }
    gpur_text_add(&r->row, "}\n");
    return write_row(r, GPUR_RECORD_KINDS);
}

static gpur_status add(gpur_record *r, gpur_record_kind kind, const gpur_row *row)
{
    gpur_status status = GPUR_OK;
    gpur_mutex_lock(&r->lock);
    if (r->folder[0])
        status = add_csv(r, kind, row);
    if (r->folder[0] && status == GPUR_OK)
        status = add_json(r, kind, row);
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
            status = gpur_fail(GPUR_FILE_ERROR, "cannot sync %s/%s: %s", r->folder, kinds[i].file, strerror(errno));
        bytes[i] = (int64_t)found.st_size;
    }
    gpur_mutex_unlock(&r->lock);
    return status;
}
