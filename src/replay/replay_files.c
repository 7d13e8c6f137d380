/* SPDX-License-Identifier: MIT */
/* A replay to a file and back: which sections, scalars and settings make it up. */
#include "replay/checkpoint.h"
#include "replay/consumer.h"
#include "replay/replay.h"
#include "replay/writer_state.h"

#include <inttypes.h>
#include <stdio.h>

/* The numbers that make a replay go on as it would have, and those that it tells. */
typedef struct replay_state {
    int64_t first_id, rows, writers;
    int64_t draws, drawn, launches; /* random numbers; which blocks wait for a launch */
    int64_t appended, published, evicted, blocks, bytes_fed, episodes_cut;
} replay_state;

#define SCALAR(state, name) {#name, GPUR_SCALAR_I64, &(state)->name}
#define STATE_SCALARS(state)                                                                                           \
    {                                                                                                                  \
        SCALAR(state, first_id), SCALAR(state, rows), SCALAR(state, writers), SCALAR(state, draws),                    \
            SCALAR(state, drawn), SCALAR(state, launches), SCALAR(state, appended), SCALAR(state, published),          \
            SCALAR(state, evicted), SCALAR(state, blocks), SCALAR(state, bytes_fed), SCALAR(state, episodes_cut),      \
    }

static replay_state look(const gpur_replay *replay)
{
    const gpur_feed *const feed = &replay->intake.feed;
    const replay_state state = {
        .first_id = feed->mirror.first_id,
        .rows = feed->mirror.count,
        .draws = replay->draws,
        .drawn = atomic_load(&replay->drawn),
        .launches = feed->launches,
        .appended = replay->intake.appended,
        .published = feed->published,
        .evicted = feed->evicted,
        .blocks = feed->blocks,
        .bytes_fed = feed->bytes,
        .episodes_cut = replay->intake.episodes_cut,
    };
    return state;
}

static void set(gpur_replay *replay, const replay_state *state)
{
    gpur_feed *const feed = &replay->intake.feed;
    gpur_feed_set_window(feed, state->first_id, state->rows);
    replay->draws = state->draws;
    atomic_store(&replay->drawn, state->drawn);
    feed->launches = state->launches;
    replay->intake.appended = state->appended;
    feed->published = state->published;
    feed->evicted = state->evicted;
    feed->blocks = state->blocks;
    feed->bytes = state->bytes_fed;
    replay->intake.ids = state->first_id + state->rows;
    replay->intake.episodes_cut = state->episodes_cut;
}

static gpur_status note_field(gpur_tensors *settings, int32_t index, const gpur_field_info *field)
{
    char key[32], shape[80] = "";
    int length = 0;
    for (int32_t i = 0; i < field->dims; i++)
        length += snprintf(shape + length, sizeof shape - (size_t)length, "%s%d", i ? " x " : " of ",
                           (int)field->shape[i]);
    snprintf(key, sizeof key, "field.%d", (int)index);
    return gpur_tensors_note(settings, key, "%s %s%s", field->name, gpur_dtype_name(field->dtype), shape);
}

/* What has to be the same for the rows to mean the same. */
static gpur_status note_settings(const gpur_replay *replay, gpur_tensors *settings)
{
    const gpur_replay_config *const config = &replay->config;
    GPUR_TRY(gpur_tensors_note(settings, "fields", "%d", (int)replay->schema.count));
    for (int32_t i = 0; i < replay->schema.count; i++)
        GPUR_TRY(note_field(settings, i, &replay->schema.fields[i]));
    GPUR_TRY(gpur_tensors_note(settings, "capacity", "%" PRId64, config->capacity));
    GPUR_TRY(gpur_tensors_note(settings, "n_step", "%d", (int)config->n_step));
    GPUR_TRY(gpur_settings_note_real(settings, "gamma", (double)config->gamma));
    return gpur_settings_note_real(settings, "reward_clip", (double)config->reward_clip);
}

/* The ring's rows in the order of their ids: one run of slots, or two where they go round its end. What other layouts
 * and index sources keep for a row is added here. */
static gpur_status add_rows(gpur_replay *replay, const replay_state *state, gpur_sections *sections)
{
    const gpur_feed *const feed = &replay->intake.feed;
    const int64_t pitch = replay->schema.pitch, slot = state->first_id % feed->capacity;
    const int64_t to_end = feed->capacity - slot, head = state->rows < to_end ? state->rows : to_end;
    const gpur_piece first = {feed->ring + slot * pitch, head * pitch, 1};
    const gpur_piece second = {feed->ring, (state->rows - head) * pitch, 1};
    GPUR_TRY(gpur_sections_add(sections, "rows", GPUR_U8, state->rows, pitch, first));
    gpur_sections_continue(sections, second);
    return GPUR_OK;
}

static gpur_status save(gpur_replay *replay, gpur_stream *stream, gpur_tensors *tensors, gpur_sections *sections,
                        const char *path, const gpur_checkpoint_options *options)
{
    replay_state state = look(replay);
    const gpur_scalar scalars[] = STATE_SCALARS(&state);
    GPUR_TRY(add_rows(replay, &state, sections));
    GPUR_TRY(gpur_writers_add_sections(replay, sections, &state.writers));
    GPUR_TRY(gpur_checkpoint_note_kind(tensors, "replay"));
    GPUR_TRY(note_settings(replay, tensors));
    GPUR_TRY(gpur_scalars_write(tensors, scalars, sizeof scalars / sizeof *scalars));
    return gpur_checkpoint_write(replay->device, stream, sections, tensors, path, options);
}

static gpur_status check_call(const gpur_replay *replay, const char *path, const gpur_checkpoint_options *given,
                              gpur_checkpoint_options *options)
{
    GPUR_REQUIRE(replay && path, "%s is NULL", replay ? "path" : "replay");
    GPUR_TRY(gpur_checkpoint_options_read(options, given));
    return gpur_tensors_available();
}

gpur_status gpur_replay_save(gpur_replay *replay, const char *path, const gpur_checkpoint_options *given)
{
    gpur_checkpoint_options options;
    gpur_stream *stream = NULL;
    gpur_tensors tensors = {0};
    gpur_sections sections = {0};
    GPUR_TRY(check_call(replay, path, given, &options));
    GPUR_TRY(gpur_consumer_freeze(replay, &stream));
    const gpur_status status = save(replay, stream, &tensors, &sections, path, &options);
    const gpur_status ended = gpur_consumer_thaw(replay);
    gpur_sections_free(&sections);
    gpur_tensors_free(&tensors);
    return status != GPUR_OK ? status : ended;
}

/* A file whose checksums are right may still be somebody's forgery. */
static gpur_status check_state(const gpur_replay *replay, const replay_state *state)
{
    const int64_t *const numbers = &state->first_id;
    for (size_t i = 0; i < sizeof *state / sizeof *numbers; i++)
        if (numbers[i] < 0 || numbers[i] > INT64_MAX / 4)
            return gpur_fail(GPUR_FILE_ERROR, "the file has a count of %" PRId64 "; it must be 0 to 2^61", numbers[i]);
    if (state->rows > replay->config.capacity)
        return gpur_fail(GPUR_FILE_ERROR, "the file has %" PRId64 " rows; its capacity is %" PRId64, state->rows,
                         replay->config.capacity);
    return GPUR_OK;
}

typedef struct loading {
    gpur_checkpoint file;
    gpur_tensors settings;
    gpur_sections sections;
    gpur_writer_state *states;
    replay_state state;
} loading;

/* What needs no turn. The settings come before the tensors: they say best what is wrong. */
static gpur_status read_through(loading *load, gpur_replay *replay, const gpur_checkpoint_options *options)
{
    const gpur_scalar scalars[] = STATE_SCALARS(&load->state);
    GPUR_TRY(gpur_checkpoint_check_kind(&load->file, "replay"));
    GPUR_TRY(gpur_checkpoint_verify(&load->file, replay->device, options));
    GPUR_TRY(note_settings(replay, &load->settings));
    GPUR_TRY(gpur_settings_compare(&load->file.tensors, &load->settings, "this replay"));
    GPUR_TRY(gpur_scalars_read(&load->file.tensors, scalars, sizeof scalars / sizeof *scalars));
    return check_state(replay, &load->state);
}

/* The rest of what can be refused, before anything is changed. */
static gpur_status list_sections(loading *load, gpur_replay *replay)
{
    GPUR_TRY(add_rows(replay, &load->state, &load->sections));
    GPUR_TRY(gpur_writer_states_add_sections(replay, &load->file.tensors, load->state.writers, &load->sections,
                                             &load->states));
    return gpur_checkpoint_match(&load->file, &load->sections, "this replay", 1);
}

static void settle(loading *load, gpur_replay *replay, gpur_status filled, int touched)
{
    gpur_intake_lock(&replay->intake);
    if (filled == GPUR_OK) {
        set(replay, &load->state);
        gpur_writer_states_take(replay, load->states);
        load->states = NULL;
    } else if (touched) {
        gpur_feed_set_window(&replay->intake.feed, replay->intake.feed.mirror.first_id, 0);
    }
    gpur_intake_unlock(&replay->intake);
}

static gpur_status load_in_turn(loading *load, gpur_replay *replay, gpur_stream *stream,
                                const gpur_checkpoint_options *options)
{
    int touched = 0;
    GPUR_TRY(list_sections(load, replay));
    const gpur_status filled =
        gpur_checkpoint_fill(&load->file, replay->device, stream, &load->sections, options, &touched);
    settle(load, replay, filled, touched);
    return filled;
}

static gpur_status load_opened(loading *load, gpur_replay *replay, const gpur_checkpoint_options *options)
{
    gpur_stream *stream = NULL;
    GPUR_TRY(read_through(load, replay, options));
    GPUR_TRY(gpur_consumer_freeze(replay, &stream));
    const gpur_status status = load_in_turn(load, replay, stream, options);
    const gpur_status ended = gpur_consumer_thaw(replay);
    return status != GPUR_OK ? status : ended;
}

gpur_status gpur_replay_load(gpur_replay *replay, const char *path, const gpur_checkpoint_options *given)
{
    gpur_checkpoint_options options;
    loading load = {0};
    GPUR_TRY(check_call(replay, path, given, &options));
    GPUR_TRY(gpur_checkpoint_open(&load.file, path));
    const gpur_status status = load_opened(&load, replay, &options);
    gpur_writer_states_free(replay, load.states);
    gpur_sections_free(&load.sections);
    gpur_tensors_free(&load.settings);
    gpur_checkpoint_close(&load.file);
    return status;
}
