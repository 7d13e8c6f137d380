/* SPDX-License-Identifier: MIT */
/*
 * Saves and loads a replay: the counters that it continues from or reports, and the memory of rows, priorities and
 * frames. The state of writers is in writers.h, that of priorities in priorities.h, and replays of lanes are in
 * lanes.h. To save another array of the rows, add a section here.
 */
#include "replay/replay.h"
#include "replay/view.h"

#include "base/numbers.h"
#include "file/checkpoint_file.h"
#include "replay/finite.h"
#include "replay/sampler/gather.h"
#include "replay/sampler/consumer.h"
#include "replay/checkpoint/lanes.h"
#include "replay/checkpoint/priorities.h"
#include "replay/checkpoint/settings.h"
#include "replay/checkpoint/slots.h"
#include "replay/checkpoint/writers.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Counters, all 0 or more. The members are named as in files. */
typedef struct replay_counts {
    int64_t first_id, rows, writers;
    int64_t draws, drawn, launches; /* draws: for random numbers; launches: decides which uploads wait for one */
    int64_t appended, published, evicted, blocks, bytes_fed, truncated_on_close;
    int64_t frame_head; /* GPUR_LAYOUT_FRAMES: frames stored */
} replay_counts;

typedef struct replay_state {
    replay_counts counts;
    gpur_priority_copy priorities;
    gpur_frame_group *groups; /* (group_count) GPUR_LAYOUT_FRAMES: which frames the rows link to */
    int64_t group_count;
    gpur_slots_copy slots; /* GPUR_EVICT_BY_PRIORITY */
} replay_state;

static size_t bytes_of_groups(const replay_state *state)
{
    return (size_t)(state->group_count + 1) * sizeof *state->groups; /* + 1: an empty list is not NULL */
}

/* Allocates the groups and slots of a state whose counters are known. */
static gpur_status alloc_lists(const gpur_replay *replay, replay_state *state)
{
    const gpur_frame_index *const frame_index = &replay->frame_index;
    GPUR_TRY(gpur_slots_copy_alloc(replay, &state->slots));
    if (!frame_index->groups)
        return GPUR_OK;
    const int64_t first = state->counts.first_id;
    state->group_count = gpur_frame_index_count(frame_index, first, first + state->counts.rows);
    state->groups = gpur_host_alloc(replay->device, bytes_of_groups(state));
    return state->groups ? GPUR_OK
                         : gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for %zu bytes of the index of frames",
                                     bytes_of_groups(state));
}

/* A counter: its name in files, and where the replay has it. */
typedef struct counter {
    const char *name;
    int64_t *in_replay; /* NULL: it is read and set in another way */
} counter;

enum { COUNTERS = sizeof(replay_counts) / sizeof(int64_t) };

/* In the order of the members of replay_counts. `replay` NULL: names only. */
static void list_counters(gpur_replay *replay, counter list[COUNTERS])
{
#define IN(member) (replay ? &replay->member : NULL)
    const counter all[] = {
        {"first_id", NULL},
        {"rows", NULL},
        {"writers", NULL},
        {"draws", IN(consumer.samples)},
        {"drawn", NULL},
        {"launches", IN(window.launches)},
        {"appended", IN(ingest.appended)},
        {"published", IN(window.published)},
        {"evicted", IN(window.evicted)},
        {"blocks", IN(ring.uploads)},
        {"bytes_fed", IN(ring.bytes)},
        {"episodes_cut", IN(ingest.truncated_on_close)},
        {"frame_head", IN(window.frame_head)},
    };
#undef IN
    _Static_assert(sizeof all / sizeof *all == COUNTERS, "one entry for each member");
    memcpy(list, all, sizeof all);
}

static void read_counts(gpur_replay *replay, replay_counts *counts)
{
    counter list[COUNTERS];
    list_counters(replay, list);
    for (int i = 0; i < COUNTERS; i++)
        if (list[i].in_replay)
            (&counts->first_id)[i] = *list[i].in_replay;
    counts->first_id = replay->window.host.first_id;
    counts->rows = replay->window.host.count;
    counts->drawn = atomic_load(&replay->sampled);
}

static void set_counts(gpur_replay *replay, const replay_counts *counts)
{
    counter list[COUNTERS];
    list_counters(replay, list);
    for (int i = 0; i < COUNTERS; i++)
        if (list[i].in_replay)
            *list[i].in_replay = (&counts->first_id)[i];
    atomic_store(&replay->sampled, counts->drawn);
    replay->ingest.next_id = counts->first_id + counts->rows;
}

/* Reads the state of a paused replay (gpur_consumer_begin_exclusive), without the writers. Waits for `stream`. After a
 * failure, too, call free_state. */
static gpur_status read_state(gpur_replay *replay, gpur_stream *stream, replay_state *state)
{
    GPUR_TRY(gpur_priorities_read_state(&replay->priorities, stream));
    read_counts(replay, &state->counts);
    gpur_priority_copy_read(replay, &state->priorities);
    GPUR_TRY(alloc_lists(replay, state));
    GPUR_TRY(gpur_slots_copy_read(replay, stream, &state->slots));
    if (state->groups)
        gpur_frame_index_get(&replay->frame_index, state->counts.first_id, state->groups);
    return GPUR_OK;
}

static void free_state(const gpur_replay *replay, replay_state *state)
{
    if (state->groups)
        gpur_host_free(replay->device, state->groups, bytes_of_groups(state));
    state->groups = NULL;
    gpur_slots_copy_free(replay, &state->slots);
}

/* Lists the scalars of a file, to be written or read; returns their number, at most GPUR_MAX_SCALARS. */
static int32_t list_scalars(replay_state *state, gpur_scalar *scalars)
{
    counter counters[COUNTERS];
    _Static_assert((int)COUNTERS + GPUR_PRIORITY_SCALARS <= GPUR_MAX_SCALARS, "room for them");
    list_counters(NULL, counters);
    for (int i = 0; i < COUNTERS; i++)
        scalars[i] = (gpur_scalar){counters[i].name, GPUR_SCALAR_I64, &state->counts.first_id + i};
    gpur_priority_copy_list(&state->priorities, scalars + COUNTERS);
    return COUNTERS + GPUR_PRIORITY_SCALARS;
}

/* Valid checksums do not make a file trustworthy: refuses counters that no replay can have. */
static gpur_status check_state(const replay_state *state)
{
    const int64_t *const numbers = &state->counts.first_id;
    for (size_t i = 0; i < sizeof state->counts / sizeof *numbers; i++)
        GPUR_TRY(gpur_file_count_check(numbers[i]));
    return gpur_priority_copy_check(&state->priorities);
}

/* Adds a ring's items in the order of their ids: one contiguous piece, or two if the slots go around the ring's end.
 * With eviction by priority it adds all slots that have been used. */
static gpur_status add_ring(const gpur_replay *replay, const replay_state *state, gpur_sections *sections,
                            const char *name, void *ring_memory, int64_t item_bytes)
{
    const int64_t capacity = replay->config.capacity, first_id = state->counts.first_id;
    const int by_priority = state->slots.turn != NULL;
    const int64_t rows = by_priority ? gpur_slots_used(replay, first_id + state->counts.rows) : state->counts.rows;
    const int64_t slot = by_priority ? 0 : first_id % capacity;
    const int64_t to_end = capacity - slot, head = rows < to_end ? rows : to_end;
    const gpur_piece first = {(unsigned char *)ring_memory + slot * item_bytes, head * item_bytes, 1};
    const gpur_piece second = {ring_memory, (rows - head) * item_bytes, 1};
    const int is_float = item_bytes == sizeof(float);
    GPUR_TRY(gpur_sections_add(sections, name, is_float ? GPUR_F32 : GPUR_U8, rows, is_float ? 0 : item_bytes, first));
    gpur_sections_continue(sections, second);
    return GPUR_OK;
}

static gpur_status add_frames(gpur_replay *replay, const replay_state *state, gpur_sections *sections)
{
    const gpur_ring *const ring_memory = &replay->ring;
    const int64_t head = state->counts.frame_head,
                  frames = head < ring_memory->frame_slots ? head : ring_memory->frame_slots;
    const gpur_piece stored = {ring_memory->frames, frames * ring_memory->frame_pitch, 1};
    const gpur_piece groups = {state->groups, state->group_count * (int64_t)sizeof *state->groups, 0};
    GPUR_TRY(gpur_sections_add(sections, "frames", GPUR_U8, frames, ring_memory->frame_pitch, stored));
    return gpur_sections_add(sections, "frame_groups", GPUR_I64, state->group_count, 2, groups);
}

/* Rows and priorities in the order of the rows' ids, frames in the order of their slots. */
static gpur_status add_state(gpur_replay *replay, replay_state *state, gpur_sections *sections)
{
    const gpur_priorities *const priorities = &replay->priorities;
    GPUR_TRY(add_ring(replay, state, sections, "rows", replay->ring.rows, replay->layout.rows.pitch));
    if (priorities->device)
        GPUR_TRY(add_ring(replay, state, sections, "priorities", priorities->tree.priority, sizeof(float)));
    GPUR_TRY(gpur_slots_copy_add_sections(replay, &state->slots, sections));
    return replay->ring.frames ? add_frames(replay, state, sections) : GPUR_OK;
}

/* Refuses groups and slots that no replay can have. */
static gpur_status check_lists(const gpur_replay *replay, const replay_state *state)
{
    const replay_counts *const counts = &state->counts;
    if (!gpur_slots_copy_is_valid(replay, &state->slots, counts->first_id, counts->rows))
        return gpur_fail(GPUR_FILE_ERROR, "the file's rows are in slots that it cannot have");
    if (state->groups && !gpur_frame_index_is_valid(&replay->frame_index, counts->first_id,
                                                    counts->first_id + counts->rows, counts->frame_head, state->groups))
        return gpur_fail(GPUR_FILE_ERROR, "the file's rows link to frames that it cannot have");
    return GPUR_OK;
}

/* Makes the replay continue from a checked state. Requires the window lock. */
static gpur_status set_state(gpur_replay *replay, const replay_state *state)
{
    const replay_counts *const counts = &state->counts;
    const int64_t first = counts->first_id, next = first + counts->rows;
    if (state->groups)
        gpur_frame_index_set(&replay->frame_index, first, next, counts->frame_head, state->groups);
    set_counts(replay, counts);
    gpur_priority_copy_set(replay, &state->priorities);
    GPUR_TRY(gpur_window_set(&replay->window, first, counts->rows));
    GPUR_TRY(gpur_slots_copy_write(replay, replay->consumer.stream, &state->slots));
    return gpur_priorities_restore(&replay->priorities, replay->consumer.stream, &replay->window.host);
}

/* Empties the replay after some of its memory was overwritten; the next ids stay as they were, or with eviction by
 * priority become ids that no row has had. Requires the window lock. */
static gpur_status empty(gpur_replay *replay, gpur_slots_copy *slots)
{
    gpur_stream *const stream = replay->consumer.stream;
    GPUR_TRY(gpur_window_set(&replay->window, replay->ingest.next_id, 0));
    GPUR_TRY(gpur_slots_copy_read(replay, stream, slots));
    gpur_slots_copy_clear(replay, slots);
    GPUR_TRY(gpur_slots_copy_write(replay, stream, slots));
    return gpur_priorities_restore(&replay->priorities, replay->consumer.stream, &replay->window.host);
}

/* Saving and loading: the sections, scalars and settings of a replay's file. */

static gpur_status add_capacity(const gpur_replay *replay, gpur_tensors *tensors)
{
    return gpur_tensors_add_metadata(tensors, "capacity", "%" PRId64, replay->config.capacity);
}

/* Settings of GPUR_LAYOUT_FRAMES that must match: links are slots of frames, and capacity, reach and groups decide
 * which rows are evicted for frames. */
static gpur_status add_layout(const gpur_replay *replay, gpur_tensors *settings)
{
    const gpur_frame_layout *const frame_layout = &replay->layout.frame_layout;
    if (replay->config.eviction == GPUR_EVICT_BY_PRIORITY)
        GPUR_TRY(gpur_tensors_add_metadata(settings, "eviction", "by priority"));
    if (replay->config.eviction == GPUR_EVICT_BY_PRIORITY)
        GPUR_TRY(add_capacity(replay, settings));
    if (frame_layout->stack == 0)
        return GPUR_OK;
    GPUR_TRY(add_capacity(replay, settings));
    GPUR_TRY(gpur_tensors_add_metadata(settings, "frame_stack", "%d", (int)frame_layout->stack));
    GPUR_TRY(gpur_tensors_add_metadata(settings, "stack_axis", "%s", frame_layout->stack_is_last ? "last" : "first"));
    GPUR_TRY(gpur_tensors_add_metadata(settings, "stack_pad", "%s", frame_layout->pad_repeats ? "repeat" : "zero"));
    GPUR_TRY(gpur_tensors_add_metadata(settings, "frame_slots", "%" PRId64, frame_layout->frames));
    GPUR_TRY(gpur_tensors_add_metadata(settings, "frame_reach", "%" PRId64, frame_layout->reach));
    return gpur_tensors_add_metadata(settings, "group_rows", "%" PRId64, frame_layout->group_rows);
}

/* Settings that must match, so that the rows mean the same. */
static gpur_status add_settings(const gpur_replay *replay, gpur_tensors *settings)
{
    const gpur_replay_config *const config = &replay->config;
    GPUR_TRY(gpur_replay_settings_add(replay, settings));
    GPUR_TRY(add_layout(replay, settings));
    GPUR_TRY(gpur_tensors_add_metadata(settings, "n_step", "%d", (int)config->n_step));
    return gpur_settings_add_real(settings, "gamma", (double)config->gamma);
}

/* Settings from which frame_slots and the rest follow, for a replay that is made from the file (describe.h). */
static gpur_status add_ring_settings(const gpur_replay *replay, gpur_tensors *tensors)
{
    const gpur_replay_config *const config = &replay->config;
    if (replay->layout.frame_layout.stack == 0)
        return GPUR_OK;
    GPUR_TRY(gpur_tensors_add_metadata(tensors, "block_rows", "%" PRId64, config->block_rows));
    GPUR_TRY(gpur_tensors_add_metadata(tensors, "max_batch", "%" PRId64, config->max_batch));
    return gpur_tensors_add_metadata(tensors, "extra_frames", "%" PRId64, config->extra_frames);
}

static gpur_status save_state(gpur_replay *replay, gpur_stream *stream, replay_state *state, gpur_tensors *tensors,
                              gpur_sections *sections)
{
    gpur_scalar scalars[GPUR_MAX_SCALARS];
    GPUR_TRY(read_state(replay, stream, state));
    GPUR_TRY(gpur_checkpoint_add_kind(tensors, "replay"));
    GPUR_TRY(add_settings(replay, tensors));
    if (replay->layout.frame_layout.stack == 0 && replay->config.eviction == GPUR_EVICT_OLDEST)
        GPUR_TRY(add_capacity(replay, tensors));
    GPUR_TRY(add_ring_settings(replay, tensors));
    GPUR_TRY(add_state(replay, state, sections));
    GPUR_TRY(gpur_writers_add_sections(replay, tensors, sections, &state->counts.writers));
    if (replay->config.prioritized)
        GPUR_TRY(gpur_priority_copy_write_octaves(&state->priorities, tensors));
    return gpur_scalars_write(tensors, scalars, list_scalars(state, scalars));
}

static gpur_status save(gpur_replay *replay, gpur_stream *stream, gpur_tensors *tensors, gpur_sections *sections,
                        const char *path, const gpur_checkpoint_options *options)
{
    replay_state state = {0};
    gpur_status status = save_state(replay, stream, &state, tensors, sections);
    if (status == GPUR_OK)
        status = gpur_checkpoint_write(replay->device, stream, sections, tensors, path, options);
    free_state(replay, &state);
    return status;
}

gpur_status gpur_replay_save(gpur_replay *replay, const char *path, const gpur_checkpoint_options *given)
{
    gpur_checkpoint_options options;
    gpur_stream *stream = NULL;
    gpur_tensors tensors = {0};
    gpur_sections sections = {0};
    GPUR_TRY(gpur_checkpoint_check_call(replay, "replay", path, given, &options));
    if (replay->lanes.device)
        return gpur_lanes_save(replay, path, &options);
    GPUR_TRY(gpur_consumer_begin_exclusive(replay, &stream));
    const gpur_status status =
        gpur_consumer_end_exclusive(replay, save(replay, stream, &tensors, &sections, path, &options));
    gpur_sections_free(&sections);
    gpur_tensors_free(&tensors);
    return status;
}

typedef struct loading {
    gpur_checkpoint file;
    gpur_tensors settings;
    gpur_sections sections;
    gpur_writer_state *states;
    replay_state state;
} loading;

/* With GPUR_LAYOUT_ROWS the capacity need not be the file's, because a row's slot follows from its id; with eviction by
 * priority it must be, because the slot follows from the id and the capacity. */
static gpur_status check_room(const loading *load, const gpur_replay *replay)
{
    const char *const eviction = gpur_tensors_find_metadata(&load->file.tensors, "eviction");
    const int64_t rows = load->state.counts.rows, capacity = replay->config.capacity;
    const char *const capacity_text = gpur_tensors_find_metadata(&load->file.tensors, "capacity");
    const int64_t theirs = capacity_text ? strtoll(capacity_text, NULL, 10) : 0;
    GPUR_REQUIRE(!eviction || replay->config.eviction == GPUR_EVICT_BY_PRIORITY,
                 "eviction is \"%s\" in the file; this replay evicts the oldest transitions", eviction);
    if (rows > theirs)
        return gpur_fail(GPUR_FILE_ERROR, "the file has %" PRId64 " rows; its capacity is %" PRId64, rows, theirs);
    GPUR_REQUIRE(rows <= capacity, "the file has %" PRId64 " transitions; this replay's capacity is %" PRId64, rows,
                 capacity);
    return GPUR_OK;
}

/* Refuses priorities that no transition can have. */
static gpur_status check_priorities(const void *context, const unsigned char *bytes, int64_t begin, int64_t end)
{
    (void)context;
    for (int64_t at = begin; at < end; at += (int64_t)sizeof(float)) {
        float value;
        memcpy(&value, bytes + (at - begin), sizeof value);
        GPUR_TRY(gpur_file_priority_check(value, at / (int64_t)sizeof value));
    }
    return GPUR_OK;
}

/* Refuses numbers of a field that are not finite, in bytes [begin, end) of items that are `pitch` bytes apart. The
 * field is `offset` bytes behind an item's start. */
static gpur_status check_field(const gpur_field_info *field, int64_t offset, int64_t field_bytes, int64_t pitch,
                               const char *item_name, const unsigned char *bytes, int64_t begin, int64_t end)
{
    const int64_t size = gpur_dtype_bytes(field->dtype);
    for (int64_t item = begin / pitch; item * pitch + offset < end; item++) {
        const int64_t at = item * pitch + offset;
        const int64_t first = gpur_max(at, begin), last = gpur_min(at + field_bytes, end);
        const int64_t found =
            first < last ? gpur_find_not_finite(field->dtype, bytes + (first - begin), (last - first) / size) : -1;
        if (found >= 0)
            return gpur_fail(GPUR_FILE_ERROR, "\"%s\" is %s in %s %" PRId64 "; its numbers must be finite", field->name,
                             gpur_not_finite_name(field->dtype, bytes + (first - begin), found), item_name, item);
    }
    return GPUR_OK;
}

static gpur_status check_rows(const void *context, const unsigned char *bytes, int64_t begin, int64_t end)
{
    const gpur_schema *const rows = &((const gpur_replay *)context)->layout.rows;
    for (int32_t f = 0; f < rows->count; f++)
        if (rows->is_real[f])
            GPUR_TRY(check_field(&rows->fields[f], rows->fields[f].offset, rows->fields[f].bytes, rows->pitch, "row",
                                 bytes, begin, end));
    return GPUR_OK;
}

/* The same for numbers of actions that are not -1 to 1, where a learner wants them so. */
static gpur_status check_actions(const void *context, const unsigned char *bytes, int64_t begin, int64_t end)
{
    const gpur_schema *const rows = &((const gpur_replay *)context)->layout.rows;
    const gpur_field_info *const action = &rows->fields[gpur_schema_find(rows, "action")];
    for (int64_t row = begin / rows->pitch; row * rows->pitch + action->offset < end; row++) {
        const int64_t at = row * rows->pitch + action->offset;
        const int64_t first = gpur_max(at, begin), last = gpur_min(at + action->bytes, end);
        const gpur_field_values values = {.at = bytes + (first - begin),
                                          .count = first < last,
                                          .bytes = last - first,
                                          .dtype = action->dtype,
                                          .name = action->name,
                                          .item = "row",
                                          .is_part = 1,
                                          .first = row};
        GPUR_TRY(gpur_check_unit_actions(&values, GPUR_FILE_ERROR));
    }
    return GPUR_OK;
}

/* What the rows of the file must hold. */
static gpur_status check_stored(const void *context, const unsigned char *bytes, int64_t begin, int64_t end)
{
    const gpur_replay *const replay = context;
    if (replay->config.check_finite)
        GPUR_TRY(check_rows(context, bytes, begin, end));
    return atomic_load(&replay->actions) == GPUR_UNIT_ACTIONS ? check_actions(context, bytes, begin, end) : GPUR_OK;
}

static gpur_status check_frames(const void *context, const unsigned char *bytes, int64_t begin, int64_t end)
{
    const gpur_replay *const replay = context;
    const gpur_frame_layout *const layout = &replay->layout.frame_layout;
    const gpur_field_info *const obs = &replay->schema.fields[gpur_schema_find(&replay->schema, "obs")];
    return gpur_field_is_real(obs) ? check_field(obs, 0, layout->frame_bytes, layout->pitch, "frame", bytes, begin, end)
                                   : GPUR_OK;
}

/* What the chunks of the file must hold. */
static gpur_status expect(gpur_checkpoint *file, const gpur_replay *replay)
{
    GPUR_TRY(gpur_checkpoint_expect(file, "priorities", check_priorities, replay));
    GPUR_TRY(gpur_checkpoint_expect(file, "rows", check_stored, replay));
    if (!replay->config.check_finite)
        return GPUR_OK;
    return gpur_checkpoint_expect(file, "frames", check_frames, replay);
}

/* The checks that need no lock. Settings come before tensors, because their messages say best what is wrong. If the
 * replay is empty now, it will probably be empty under the lock, too, and then the pass that verifies the file is not
 * needed. */
static gpur_status check_header(loading *load, gpur_replay *replay, const gpur_checkpoint_options *options)
{
    gpur_scalar scalars[GPUR_MAX_SCALARS];
    const int32_t count = list_scalars(&load->state, scalars);
    GPUR_TRY(add_settings(replay, &load->settings));
    GPUR_TRY(gpur_checkpoint_compare(&load->file, "replay", "this replay", &load->settings, scalars, count));
    gpur_priority_copy_read_octaves(&load->state.priorities, &load->file.tensors);
    GPUR_TRY(check_state(&load->state));
    GPUR_TRY(expect(&load->file, replay));
    GPUR_TRY(check_room(load, replay));
    GPUR_TRY(alloc_lists(replay, &load->state));
    return gpur_replay_size(replay) > 0 ? gpur_checkpoint_verify(&load->file, replay->device, options) : GPUR_OK;
}

/* Lists the sections, and compares them with the file's before any data are read. */
static gpur_status list_sections(loading *load, gpur_replay *replay)
{
    GPUR_TRY(add_state(replay, &load->state, &load->sections));
    GPUR_TRY(gpur_writer_states_add_sections(replay, &load->file.tensors, load->state.counts.writers, &load->sections,
                                             &load->states));
    return gpur_checkpoint_match(&load->file, &load->sections, "this replay", 1);
}

/* Valid checksums do not make data trustworthy: refuses groups and states of writers that cannot be. Allocates nothing,
 * because it also runs after the replay has been changed. */
static gpur_status check_contents(const loading *load, const gpur_replay *replay)
{
    const replay_counts *const counts = &load->state.counts;
    gpur_status status = check_lists(replay, &load->state);
    if (status == GPUR_OK)
        status = gpur_writer_states_check(replay, load->states, counts->first_id + counts->rows, counts->frame_head);
    return gpur_checkpoint_add_path_to_error(&load->file, status);
}

/* If the replay has rows or frames, refuses everything that can be refused before anything is changed. An empty replay
 * has nothing to lose: after a failure it is empty again, so it needs only one pass over the file. */
static gpur_status check_before_fill(loading *load, gpur_replay *replay, const gpur_checkpoint_options *options)
{
    if (!load->file.verified && replay->window.host.count == 0 && replay->window.frame_head == 0)
        return GPUR_OK;
    if (!load->file.verified)
        GPUR_TRY(gpur_checkpoint_verify(&load->file, replay->device, options));
    GPUR_TRY(gpur_checkpoint_peek(&load->file, &load->sections));
    return check_contents(load, replay);
}

static gpur_status set_all(loading *load, gpur_replay *replay)
{
    GPUR_TRY(set_state(replay, &load->state));
    gpur_writer_states_restore(replay, load->states);
    load->states = NULL;
    return GPUR_OK;
}

/* Ends a load: sets the state or, if that failed after memory was overwritten, empties the replay. If emptying fails,
 * the device has failed, and the next call reports that. */
static gpur_status finish_load(loading *load, gpur_replay *replay, gpur_status filled, int touched)
{
    gpur_window_lock(replay);
    if (filled == GPUR_OK)
        filled = set_all(load, replay);
    if (filled != GPUR_OK && touched) {
        if (load->file.verified) /* the replay may have had frames, now overwritten */
            gpur_writers_invalidate_frames(replay);
        empty(replay, &load->state.slots);
    }
    gpur_window_unlock(replay);
    return filled;
}

static gpur_status load_exclusive(loading *load, gpur_replay *replay, gpur_stream *stream,
                                  const gpur_checkpoint_options *options)
{
    int touched = 0;
    GPUR_TRY(list_sections(load, replay));
    GPUR_TRY(check_before_fill(load, replay, options));
    GPUR_TRY(gpur_priorities_read_state(&replay->priorities, stream));
    gpur_status filled = gpur_checkpoint_fill(&load->file, replay->device, stream, &load->sections, options, &touched);
    if (filled == GPUR_OK)
        filled = check_contents(load, replay);
    return finish_load(load, replay, filled, touched);
}

static gpur_status load_opened(loading *load, gpur_replay *replay, const gpur_checkpoint_options *options)
{
    gpur_stream *stream = NULL;
    GPUR_TRY(check_header(load, replay, options));
    GPUR_TRY(gpur_consumer_begin_exclusive(replay, &stream));
    return gpur_consumer_end_exclusive(replay, load_exclusive(load, replay, stream, options));
}

gpur_status gpur_replay_load(gpur_replay *replay, const char *path, const gpur_checkpoint_options *given)
{
    gpur_checkpoint_options options;
    loading load = {0};
    GPUR_TRY(gpur_checkpoint_check_call(replay, "replay", path, given, &options));
    if (replay->lanes.device)
        return gpur_lanes_load(replay, path, &options);
    GPUR_TRY(gpur_checkpoint_open(&load.file, path));
    const gpur_status status = load_opened(&load, replay, &options);
    gpur_writer_states_free(replay, load.states);
    free_state(replay, &load.state);
    gpur_sections_free(&load.sections);
    gpur_tensors_free(&load.settings);
    gpur_checkpoint_close(&load.file);
    return status;
}
