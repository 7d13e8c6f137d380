/* SPDX-License-Identifier: MIT */
/* Writes and reads the file of a run from its table. */
#include "run/state_file.h"

#include "run/folder.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

static const char file_name[] = "run.safetensors";

/* Entries of the table itself: two settings, eight counts and an array. */
enum { OWN_COUNTS = 8, ALL_COUNTS = GPUR_STATE_COUNTS + OWN_COUNTS };

/* The contents of a file: written, or compared with those of a file. */
typedef struct contents {
    gpur_sections sections;
    gpur_tensors metadata;
    gpur_scalar counts[ALL_COUNTS];
    int32_t count_count;
} contents;

void gpur_state_add_setting(gpur_state_table *table, const char *name, int32_t type, const void *value)
{
    assert(table->setting_count < GPUR_STATE_SETTINGS);
    table->settings[table->setting_count++] = (gpur_scalar){name, type, (void *)(uintptr_t)value};
}

void gpur_state_add_count(gpur_state_table *table, const char *name, int32_t type, void *value)
{
    assert(table->count_count < GPUR_STATE_COUNTS);
    table->counts[table->count_count++] = (gpur_scalar){name, type, value};
}

void gpur_state_add_array(gpur_state_table *table, gpur_state_array array)
{
    assert(table->array_count < GPUR_STATE_ARRAYS);
    table->arrays[table->array_count++] = array;
}

/* The options may be longer than an entry of a file's metadata. */
static uint64_t checksum_options(const gpur_run *run)
{
    return gpur_checksum(run->config.env_options, (int64_t)strlen(run->config.env_options));
}

static gpur_status add_setting(gpur_tensors *metadata, const gpur_scalar *setting)
{
    const void *const value = setting->value;
    switch (setting->type) {
    case GPUR_SCALAR_I32:
        return gpur_tensors_add_metadata(metadata, setting->name, "%d", (int)*(const int32_t *)value);
    case GPUR_SCALAR_U64:
        return gpur_tensors_add_metadata(metadata, setting->name, "%" PRIu64, *(const uint64_t *)value);
    case GPUR_SCALAR_F32:
        return gpur_tensors_add_metadata(metadata, setting->name, "%.9g", (double)*(const float *)value);
    default:
        return gpur_tensors_add_metadata(metadata, setting->name, "%" PRId64, *(const int64_t *)value);
    }
}

static gpur_status add_settings(const gpur_state_table *table, gpur_tensors *metadata)
{
    const gpur_run *const run = table->run;
    GPUR_TRY(gpur_tensors_add_metadata(metadata, "environment", "%.180s",
                                       run->config.vector ? run->config.vector->name : run->config.type->name));
    GPUR_TRY(
        add_setting(metadata, &(const gpur_scalar){"seed", GPUR_SCALAR_U64, (void *)(uintptr_t)&run->config.seed}));
    for (int32_t i = 0; i < table->setting_count; i++)
        GPUR_TRY(add_setting(metadata, &table->settings[i]));
    return GPUR_OK;
}

static void list_counts(gpur_state_table *table, contents *c)
{
    const gpur_scalar own[OWN_COUNTS] = {
        {"episodes", GPUR_SCALAR_I64, &table->episodes},
        {"evaluations", GPUR_SCALAR_I64, &table->evaluations},
        {"evaluated_steps", GPUR_SCALAR_I64, &table->evaluated_steps},
        {"evaluated_return", GPUR_SCALAR_F64, &table->evaluated_return},
        {"returns", GPUR_SCALAR_I64, &table->returns.count},
        {"env_options", GPUR_SCALAR_U64, &table->env_options},
        {"trained", GPUR_SCALAR_I64, &table->trained},
        {"evaluated_at", GPUR_SCALAR_I64, &table->evaluated_at},
    };
    memcpy(c->counts, own, sizeof own);
    memcpy(c->counts + OWN_COUNTS, table->counts, (size_t)table->count_count * sizeof *table->counts);
    c->count_count = OWN_COUNTS + table->count_count;
}

static gpur_status add_array(gpur_sections *sections, const gpur_state_array *a)
{
    const int64_t numbers = a->rows * (a->columns ? a->columns : 1), width = a->type == GPUR_U8 ? 1 : 8;
    const gpur_piece piece = {a->memory, numbers * width, 0};
    return gpur_sections_add(sections, a->name, a->type, a->rows, a->columns, piece);
}

static gpur_status add_arrays(gpur_state_table *table, gpur_sections *sections)
{
    const gpur_state_array returns = {"returns", GPUR_I64, GPUR_RUN_RECENT, 0, table->returns.values, 0};
    GPUR_TRY(add_array(sections, &returns));
    for (int32_t i = 0; i < table->array_count; i++)
        GPUR_TRY(add_array(sections, &table->arrays[i]));
    return GPUR_OK;
}

/* Writing. */

static void read_run(gpur_state_table *table)
{
    gpur_run *const run = table->run;
    gpur_mutex_lock(&run->lock);
    table->episodes = run->stats.episodes;
    table->evaluations = run->stats.evaluations;
    table->evaluated_steps = run->stats.evaluated_steps;
    table->evaluated_return = run->stats.evaluated_return;
    table->returns = run->returns;
    table->evaluated_at = run->evaluated_at;
    gpur_mutex_unlock(&run->lock);
    table->env_options = checksum_options(run);
}

static gpur_status write_contents(gpur_state_table *table, contents *c, gpur_stream *stream, const char *path)
{
    gpur_checkpoint_options options;
    list_counts(table, c);
    GPUR_TRY(gpur_checkpoint_options_init(&options, sizeof options));
    GPUR_TRY(gpur_checkpoint_add_kind(&c->metadata, table->kind));
    GPUR_TRY(add_settings(table, &c->metadata));
    GPUR_TRY(gpur_scalars_write(&c->metadata, c->counts, c->count_count));
    GPUR_TRY(add_arrays(table, &c->sections));
    return gpur_checkpoint_write(table->device, stream, &c->sections, &c->metadata, path, &options);
}

static void free_contents(contents *c)
{
    gpur_sections_free(&c->sections);
    gpur_tensors_free(&c->metadata);
}

gpur_status gpur_state_write(gpur_state_table *table, const char *folder)
{
    char path[GPUR_FOLDER_PATH];
    contents c = {0};
    gpur_stream *stream = NULL;
    read_run(table);
    GPUR_TRY(gpur_folder_path(folder, file_name, path));
    GPUR_TRY(gpur_stream_create(table->device, &stream));
    const gpur_status status = write_contents(table, &c, stream, path);
    free_contents(&c);
    gpur_stream_destroy(stream);
    return status;
}

/* Reading. Valid checksums do not make a file trustworthy: numbers that no run can have are refused. */

static gpur_status check_count(int64_t count)
{
    if (count < 0 || count > INT64_MAX / 4)
        return gpur_fail(GPUR_FILE_ERROR, "the file has a count of %" PRId64 "; it must be 0 to 2^61", count);
    return GPUR_OK;
}

static gpur_status check_counts(const gpur_state_table *table, const contents *c)
{
    if (table->env_options != checksum_options(table->run))
        return gpur_fail(GPUR_INVALID_ARGUMENT,
                         "the file is of environments with other options than this run's, \"%.200s\"; they must be the "
                         "same",
                         table->run->config.env_options);
    for (int32_t i = 0; i < c->count_count; i++) {
        const gpur_scalar *const count = &c->counts[i];
        if (count->type == GPUR_SCALAR_I64)
            GPUR_TRY(check_count(*(const int64_t *)count->value));
        else if (count->type == GPUR_SCALAR_I32)
            GPUR_TRY(check_count(*(const int32_t *)count->value));
    }
    return GPUR_OK;
}

static gpur_status check_arrays(const gpur_state_table *table)
{
    for (int32_t i = 0; i < table->array_count; i++) {
        const gpur_state_array *const a = &table->arrays[i];
        const int64_t *const numbers = a->memory;
        for (int64_t at = 0; a->are_counts && at < a->rows * (a->columns ? a->columns : 1); at++)
            GPUR_TRY(check_count(numbers[at]));
    }
    return GPUR_OK;
}

static gpur_status fill(gpur_state_table *table, gpur_checkpoint *file, contents *c)
{
    gpur_checkpoint_options options;
    gpur_stream *stream = NULL;
    int touched = 0;
    GPUR_TRY(gpur_checkpoint_options_init(&options, sizeof options));
    GPUR_TRY(gpur_stream_create(table->device, &stream));
    const gpur_status status = gpur_checkpoint_fill(file, table->device, stream, &c->sections, &options, &touched);
    gpur_stream_destroy(stream);
    return status;
}

/* Before 0.1.0 each system had a file of its own, and a kind of file that this version does not know. */
static gpur_status check_version(const gpur_checkpoint *file)
{
    const char *const kind = gpur_tensors_find_metadata(&file->tensors, "gpureplay.kind");
    if (kind && strcmp(kind, "run") == 0)
        return gpur_fail(GPUR_FILE_ERROR,
                         "%s: it is of a run of an earlier version of this library, which this one "
                         "does not read; its replay and learner can be loaded by themselves",
                         file->file.path);
    return GPUR_OK;
}

static gpur_status read_contents(gpur_state_table *table, gpur_checkpoint *file, contents *c)
{
    list_counts(table, c);
    GPUR_TRY(check_version(file));
    GPUR_TRY(add_settings(table, &c->metadata));
    GPUR_TRY(gpur_checkpoint_compare(file, table->kind, "this run", &c->metadata, c->counts, c->count_count));
    GPUR_TRY(gpur_checkpoint_add_path_to_error(file, check_counts(table, c)));
    if (table->set_arrays)
        GPUR_TRY(table->set_arrays(table->context, table));
    GPUR_TRY(add_arrays(table, &c->sections));
    GPUR_TRY(gpur_checkpoint_match(file, &c->sections, "this run", 1));
    GPUR_TRY(fill(table, file, c));
    return gpur_checkpoint_add_path_to_error(file, check_arrays(table));
}

static gpur_status check_folder(const char *folder)
{
    static const char *const names[] = {"ga3c.safetensors", "apex.safetensors"};
    char old[GPUR_FOLDER_PATH], path[GPUR_FOLDER_PATH];
    GPUR_TRY(gpur_folder_path(folder, file_name, path));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        GPUR_TRY(gpur_folder_path(folder, names[i], old));
        if (access(path, F_OK) != 0 && access(old, F_OK) == 0)
            return gpur_fail(GPUR_FILE_ERROR,
                             "%s: it is of a run of an earlier version of this library, which this one "
                             "does not read; its learner can be loaded by itself",
                             old);
    }
    return GPUR_OK;
}

gpur_status gpur_state_read(gpur_state_table *table, const char *folder)
{
    char path[GPUR_FOLDER_PATH];
    gpur_checkpoint file;
    contents c = {0};
    GPUR_TRY(check_folder(folder));
    GPUR_TRY(gpur_folder_path(folder, file_name, path));
    GPUR_TRY(gpur_checkpoint_open(&file, path));
    const gpur_status status = read_contents(table, &file, &c);
    free_contents(&c);
    gpur_checkpoint_close(&file);
    return status;
}

void gpur_state_restore(const gpur_state_table *table)
{
    gpur_run *const run = table->run;
    gpur_mutex_lock(&run->lock);
    run->stats.episodes = table->episodes;
    run->stats.evaluations = table->evaluations;
    run->stats.evaluated_steps = table->evaluated_steps;
    run->stats.evaluated_return = table->evaluated_return;
    run->returns = table->returns;
    run->evaluated_at = table->evaluated_at;
    gpur_mutex_unlock(&run->lock);
}
