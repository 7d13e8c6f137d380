/* SPDX-License-Identifier: MIT */
/* A replay to a file and back: which sections, scalars and settings make it up. */
#include "replay/checkpoint.h"
#include "replay/consumer.h"
#include "replay/draw.h"
#include "replay/replay_state.h"
#include "replay/writer_state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

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

static gpur_status note_capacity(const gpur_replay *replay, gpur_tensors *tensors)
{
    return gpur_tensors_note(tensors, "capacity", "%" PRId64, replay->config.capacity);
}

/* Links are slots of frames, and which rows leave for want of frames goes by capacity, reach and groups. */
static gpur_status note_linking(const gpur_replay *replay, gpur_tensors *settings)
{
    const gpur_linking *const linking = &replay->storage.linking;
    GPUR_TRY(gpur_tensors_note(settings, "layout", "%s", linking->stack > 0 ? "linked" : "packed"));
    if (linking->stack == 0)
        return GPUR_OK;
    GPUR_TRY(note_capacity(replay, settings));
    GPUR_TRY(gpur_tensors_note(settings, "frame_stack", "%d", (int)linking->stack));
    GPUR_TRY(gpur_tensors_note(settings, "stack_axis", "%s", linking->is_last ? "last" : "first"));
    GPUR_TRY(gpur_tensors_note(settings, "stack_pad", "%s", linking->repeats ? "repeat" : "zero"));
    GPUR_TRY(gpur_tensors_note(settings, "frame_slots", "%" PRId64, linking->frames));
    GPUR_TRY(gpur_tensors_note(settings, "frame_reach", "%" PRId64, linking->reach));
    return gpur_tensors_note(settings, "group_rows", "%" PRId64, linking->group_rows);
}

/* What has to be the same for the rows to mean the same. */
static gpur_status note_settings(const gpur_replay *replay, gpur_tensors *settings)
{
    const gpur_replay_config *const config = &replay->config;
    GPUR_TRY(gpur_tensors_note(settings, "fields", "%d", (int)replay->schema.count));
    for (int32_t i = 0; i < replay->schema.count; i++)
        GPUR_TRY(note_field(settings, i, &replay->schema.fields[i]));
    GPUR_TRY(gpur_tensors_note(settings, "n_step", "%d", (int)config->n_step));
    GPUR_TRY(note_linking(replay, settings));
    GPUR_TRY(gpur_tensors_note(settings, "prioritized", "%d", (int)config->prioritized));
    if (config->prioritized)
        GPUR_TRY(gpur_settings_note_real(settings, "priority_offset", (double)config->priority_offset));
    GPUR_TRY(gpur_settings_note_real(settings, "gamma", (double)config->gamma));
    return gpur_settings_note_real(settings, "reward_clip", (double)config->reward_clip);
}

static gpur_status save_state(gpur_replay *replay, gpur_stream *stream, gpur_replay_state *state,
                              gpur_tensors *tensors, gpur_sections *sections)
{
    gpur_scalar scalars[GPUR_MAX_SCALARS];
    GPUR_TRY(gpur_replay_state_look(replay, stream, state));
    GPUR_TRY(gpur_checkpoint_note_kind(tensors, "replay"));
    GPUR_TRY(note_settings(replay, tensors));
    if (replay->storage.linking.stack == 0)
        GPUR_TRY(note_capacity(replay, tensors));
    GPUR_TRY(gpur_replay_state_add_sections(replay, state, sections));
    GPUR_TRY(gpur_writers_add_sections(replay, tensors, sections, &state->counts.writers));
    return gpur_scalars_write(tensors, scalars, gpur_replay_state_scalars(state, scalars));
}

static gpur_status save(gpur_replay *replay, gpur_stream *stream, gpur_tensors *tensors, gpur_sections *sections,
                        const char *path, const gpur_checkpoint_options *options)
{
    gpur_replay_state state = {0};
    gpur_status status = save_state(replay, stream, &state, tensors, sections);
    if (status == GPUR_OK)
        status = gpur_checkpoint_write(replay->device, stream, sections, tensors, path, options);
    gpur_replay_state_free(replay, &state);
    return status;
}

gpur_status gpur_replay_save(gpur_replay *replay, const char *path, const gpur_checkpoint_options *given)
{
    gpur_checkpoint_options options;
    gpur_stream *stream = NULL;
    gpur_tensors tensors = {0};
    gpur_sections sections = {0};
    GPUR_TRY(gpur_checkpoint_check_call(replay, "replay", path, given, &options));
    GPUR_TRY(gpur_consumer_freeze(replay, &stream));
    const gpur_status status = save(replay, stream, &tensors, &sections, path, &options);
    const gpur_status ended = gpur_consumer_thaw(replay);
    gpur_sections_free(&sections);
    gpur_tensors_free(&tensors);
    return status != GPUR_OK ? status : ended;
}

typedef struct loading {
    gpur_checkpoint file;
    gpur_tensors settings;
    gpur_sections sections;
    gpur_writer_state *states;
    gpur_replay_state state;
} loading;

/* A packed replay may have another capacity than the file's: a row's slot follows from its id. */
static gpur_status check_room(const loading *load, const gpur_replay *replay)
{
    const int64_t rows = load->state.counts.rows, capacity = replay->config.capacity;
    const char *const note = gpur_tensors_find_note(&load->file.tensors, "capacity");
    const int64_t theirs = note ? strtoll(note, NULL, 10) : 0;
    if (rows > theirs)
        return gpur_fail(GPUR_FILE_ERROR, "the file has %" PRId64 " rows; its capacity is %" PRId64, rows, theirs);
    GPUR_REQUIRE(rows <= capacity, "the file has %" PRId64 " transitions; this replay's capacity is %" PRId64, rows,
                 capacity);
    return GPUR_OK;
}

/* What needs no turn. The settings come before the tensors: they say best what is wrong. An empty replay is likely to
 * be empty in its turn, too, and then there is no first pass. */
static gpur_status look_through(loading *load, gpur_replay *replay, const gpur_checkpoint_options *options)
{
    gpur_scalar scalars[GPUR_MAX_SCALARS];
    const int32_t count = gpur_replay_state_scalars(&load->state, scalars);
    GPUR_TRY(note_settings(replay, &load->settings));
    GPUR_TRY(gpur_checkpoint_compare(&load->file, "replay", &load->settings, scalars, count));
    GPUR_TRY(gpur_replay_state_check(&load->state));
    GPUR_TRY(gpur_checkpoint_expect_reals(&load->file, "priorities"));
    GPUR_TRY(check_room(load, replay));
    GPUR_TRY(gpur_replay_state_make_groups(replay, &load->state));
    return gpur_replay_size(replay) > 0 ? gpur_checkpoint_verify(&load->file, replay->device, options) : GPUR_OK;
}

/* What can be compared before the data are read. */
static gpur_status list_sections(loading *load, gpur_replay *replay)
{
    GPUR_TRY(gpur_replay_state_add_sections(replay, &load->state, &load->sections));
    GPUR_TRY(gpur_writer_states_add_sections(replay, &load->file.tensors, load->state.counts.writers, &load->sections,
                                             &load->states));
    return gpur_checkpoint_match(&load->file, &load->sections, "this replay", 1);
}

/* Data whose checksums are right may still be somebody's forgery. Takes no memory: it may be asked when the replay has
 * changed already. */
static gpur_status check_contents(const loading *load, const gpur_replay *replay)
{
    const gpur_replay_counts *const counts = &load->state.counts;
    gpur_status status = gpur_replay_state_check_groups(replay, &load->state);
    if (status == GPUR_OK)
        status = gpur_writer_states_check(replay, load->states, counts->first_id + counts->rows, counts->frame_head);
    return gpur_checkpoint_blame(&load->file, status);
}

/* Where there is nothing to lose, a failure half-way leaves nothing, too. Else all that can be refused is, before
 * anything is changed. */
static gpur_status look_ahead(loading *load, gpur_replay *replay, const gpur_checkpoint_options *options)
{
    const gpur_feed *const feed = &replay->intake.feed;
    if (!load->file.verified && feed->mirror.count == 0 && feed->frame_head == 0)
        return GPUR_OK;
    if (!load->file.verified)
        GPUR_TRY(gpur_checkpoint_verify(&load->file, replay->device, options));
    GPUR_TRY(gpur_checkpoint_peek(&load->file, &load->sections));
    return check_contents(load, replay);
}

static gpur_status set_all(loading *load, gpur_replay *replay)
{
    GPUR_TRY(gpur_replay_state_set(replay, &load->state));
    gpur_writer_states_take(replay, load->states);
    load->states = NULL;
    return GPUR_OK;
}

/* A failure to empty it is the device's, and is told of by whatever comes next. */
static gpur_status settle(loading *load, gpur_replay *replay, gpur_status filled, int touched)
{
    gpur_intake_lock(&replay->intake);
    if (filled == GPUR_OK)
        filled = set_all(load, replay);
    if (filled != GPUR_OK && touched) {
        if (load->file.verified) /* there may have been frames */
            gpur_writers_forget_frames(replay);
        gpur_replay_state_empty(replay);
    }
    gpur_intake_unlock(&replay->intake);
    return filled;
}

static gpur_status load_in_turn(loading *load, gpur_replay *replay, gpur_stream *stream,
                                const gpur_checkpoint_options *options)
{
    int touched = 0;
    GPUR_TRY(list_sections(load, replay));
    GPUR_TRY(look_ahead(load, replay, options));
    GPUR_TRY(gpur_priorities_look(gpur_replay_priorities(replay), stream));
    gpur_status filled = gpur_checkpoint_fill(&load->file, replay->device, stream, &load->sections, options, &touched);
    if (filled == GPUR_OK)
        filled = check_contents(load, replay);
    return settle(load, replay, filled, touched);
}

static gpur_status load_opened(loading *load, gpur_replay *replay, const gpur_checkpoint_options *options)
{
    gpur_stream *stream = NULL;
    GPUR_TRY(look_through(load, replay, options));
    GPUR_TRY(gpur_consumer_freeze(replay, &stream));
    const gpur_status status = load_in_turn(load, replay, stream, options);
    const gpur_status ended = gpur_consumer_thaw(replay);
    return status != GPUR_OK ? status : ended;
}

gpur_status gpur_replay_load(gpur_replay *replay, const char *path, const gpur_checkpoint_options *given)
{
    gpur_checkpoint_options options;
    loading load = {0};
    GPUR_TRY(gpur_checkpoint_check_call(replay, "replay", path, given, &options));
    GPUR_TRY(gpur_checkpoint_open(&load.file, path));
    const gpur_status status = load_opened(&load, replay, &options);
    gpur_writer_states_free(replay, load.states);
    gpur_replay_state_free(replay, &load.state);
    gpur_sections_free(&load.sections);
    gpur_tensors_free(&load.settings);
    gpur_checkpoint_close(&load.file);
    return status;
}
