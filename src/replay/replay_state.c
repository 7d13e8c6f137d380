/* SPDX-License-Identifier: MIT */
#include "replay/replay_state.h"

#include "replay/draw.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static void look_at_priorities(const gpur_priorities *priorities, gpur_replay_state *state)
{
    if (!priorities->device)
        return;
    const gpur_priority_state *const now = priorities->host_state;
    state->alpha = now->alpha;
    memcpy(&state->most, &now->most, sizeof state->most);
    state->counts.updates = now->updates;
    state->counts.stale = now->stale;
    state->counts.invalid = now->invalid;
}

static gpur_replay_counts counts_of(const gpur_replay *replay)
{
    const gpur_intake *const intake = &replay->intake;
    const gpur_feed *const feed = &intake->feed;
    const gpur_replay_counts counts = {
        .first_id = feed->mirror.first_id,
        .rows = feed->mirror.count,
        .draws = replay->draws,
        .drawn = atomic_load(&replay->drawn),
        .launches = feed->launches,
        .appended = intake->appended,
        .published = feed->published,
        .evicted = feed->evicted,
        .blocks = feed->blocks,
        .bytes_fed = feed->bytes,
        .episodes_cut = intake->episodes_cut,
        .frame_head = feed->frame_head,
    };
    return counts;
}

gpur_status gpur_replay_state_look(gpur_replay *replay, gpur_stream *stream, gpur_replay_state *state)
{
    GPUR_TRY(gpur_priorities_look(gpur_replay_priorities(replay), stream));
    state->counts = counts_of(replay);
    state->beta = replay->config.beta;
    look_at_priorities(gpur_replay_priorities(replay), state);
    GPUR_TRY(gpur_replay_state_make_groups(replay, state));
    if (state->groups)
        gpur_frame_log_get(&replay->intake.frames, state->counts.first_id, state->groups);
    return GPUR_OK;
}

static size_t bytes_of_groups(const gpur_replay_state *state)
{
    return (size_t)(state->group_count + 1) * sizeof *state->groups; /* none are memory, too */
}

gpur_status gpur_replay_state_make_groups(const gpur_replay *replay, gpur_replay_state *state)
{
    const gpur_frame_log *const log = &replay->intake.frames;
    if (!log->groups)
        return GPUR_OK;
    const int64_t first = state->counts.first_id;
    state->group_count = gpur_frame_log_count(log, first, first + state->counts.rows);
    state->groups = gpur_host_alloc(replay->device, bytes_of_groups(state));
    return state->groups ? GPUR_OK
                         : gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for %zu bytes of what is linked",
                                     bytes_of_groups(state));
}

void gpur_replay_state_free(const gpur_replay *replay, gpur_replay_state *state)
{
    if (state->groups)
        gpur_host_free(replay->device, state->groups, bytes_of_groups(state));
    state->groups = NULL;
}

#define COUNT(name) {#name, GPUR_SCALAR_I64, &state->counts.name}

int32_t gpur_replay_state_scalars(gpur_replay_state *state, gpur_scalar *scalars)
{
    const gpur_scalar all[] = {
        COUNT(first_id),
        COUNT(rows),
        COUNT(writers),
        COUNT(draws),
        COUNT(drawn),
        COUNT(launches),
        COUNT(appended),
        COUNT(published),
        COUNT(evicted),
        COUNT(blocks),
        COUNT(bytes_fed),
        COUNT(episodes_cut),
        COUNT(frame_head),
        COUNT(updates),
        COUNT(stale),
        COUNT(invalid),
        {"alpha", GPUR_SCALAR_F32, &state->alpha},
        {"most", GPUR_SCALAR_F32, &state->most},
        {"beta_first", GPUR_SCALAR_F32, &state->beta.first},
        {"beta_last", GPUR_SCALAR_F32, &state->beta.last},
        {"beta_begin", GPUR_SCALAR_I64, &state->beta.begin},
        {"beta_steps", GPUR_SCALAR_I64, &state->beta.steps},
    };
    _Static_assert(sizeof all / sizeof *all <= GPUR_MAX_SCALARS, "room for them");
    memcpy(scalars, all, sizeof all);
    return sizeof all / sizeof *all;
}

static gpur_status check_reals(const gpur_replay_state *state)
{
    const float reals[] = {state->alpha, state->most, state->beta.first, state->beta.last};
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++)
        if (!(reals[i] >= 0.0f && reals[i] < INFINITY))
            return gpur_fail(GPUR_FILE_ERROR, "the file has an alpha, beta or priority of %g; it must be 0 or more",
                             (double)reals[i]);
    if (state->beta.begin < 0 || state->beta.steps < 0)
        return gpur_fail(GPUR_FILE_ERROR, "the file has a schedule of beta that begins before 0");
    return GPUR_OK;
}

gpur_status gpur_replay_state_check(const gpur_replay_state *state)
{
    const int64_t *const numbers = &state->counts.first_id;
    for (size_t i = 0; i < sizeof state->counts / sizeof *numbers; i++)
        if (numbers[i] < 0 || numbers[i] > INT64_MAX / 4)
            return gpur_fail(GPUR_FILE_ERROR, "the file has a count of %" PRId64 "; it must be 0 to 2^61", numbers[i]);
    return check_reals(state);
}

/* A ring's items in the order of their ids: one run of slots, or two where they go round its end. */
static gpur_status add_ring(const gpur_replay *replay, const gpur_replay_state *state, gpur_sections *sections,
                            const char *name, void *ring, int64_t item_bytes)
{
    const int64_t capacity = replay->config.capacity, rows = state->counts.rows;
    const int64_t slot = state->counts.first_id % capacity;
    const int64_t to_end = capacity - slot, head = rows < to_end ? rows : to_end;
    const gpur_piece first = {(unsigned char *)ring + slot * item_bytes, head * item_bytes, 1};
    const gpur_piece second = {ring, (rows - head) * item_bytes, 1};
    const int is_float = item_bytes == sizeof(float);
    GPUR_TRY(gpur_sections_add(sections, name, is_float ? GPUR_F32 : GPUR_U8, rows, is_float ? 0 : item_bytes, first));
    gpur_sections_continue(sections, second);
    return GPUR_OK;
}

static gpur_status add_frames(gpur_replay *replay, const gpur_replay_state *state, gpur_sections *sections)
{
    const gpur_feed *const feed = &replay->intake.feed;
    const int64_t head = state->counts.frame_head, frames = head < feed->frame_slots ? head : feed->frame_slots;
    const gpur_piece ring = {feed->frames, frames * feed->frame_pitch, 1};
    const gpur_piece groups = {state->groups, state->group_count * (int64_t)sizeof *state->groups, 0};
    GPUR_TRY(gpur_sections_add(sections, "frames", GPUR_U8, frames, feed->frame_pitch, ring));
    return gpur_sections_add(sections, "frame_groups", GPUR_I64, state->group_count, 2, groups);
}

gpur_status gpur_replay_state_add_sections(gpur_replay *replay, gpur_replay_state *state, gpur_sections *sections)
{
    const gpur_feed *const feed = &replay->intake.feed;
    GPUR_TRY(add_ring(replay, state, sections, "rows", feed->ring, feed->schema->pitch));
    if (feed->priorities.device)
        GPUR_TRY(add_ring(replay, state, sections, "priorities", feed->priorities.tree.raw, sizeof(float)));
    return feed->frames ? add_frames(replay, state, sections) : GPUR_OK;
}

static void set_counts(gpur_replay *replay, const gpur_replay_counts *counts)
{
    gpur_intake *const intake = &replay->intake;
    gpur_feed *const feed = &intake->feed;
    replay->draws = counts->draws;
    atomic_store(&replay->drawn, counts->drawn);
    feed->launches = counts->launches;
    intake->appended = counts->appended;
    feed->published = counts->published;
    feed->evicted = counts->evicted;
    feed->blocks = counts->blocks;
    feed->bytes = counts->bytes_fed;
    intake->episodes_cut = counts->episodes_cut;
    intake->ids = counts->first_id + counts->rows;
    feed->frame_head = counts->frame_head;
}

static void set_priority_state(const gpur_priorities *priorities, const gpur_replay_state *state)
{
    if (!priorities->device)
        return;
    gpur_priority_state *const to = priorities->host_state;
    memset(to, 0, sizeof *to);
    to->alpha = state->alpha;
    memcpy(&to->most, &state->most, sizeof to->most);
    to->updates = state->counts.updates;
    to->stale = state->counts.stale;
    to->invalid = state->counts.invalid;
}

gpur_status gpur_replay_state_check_groups(const gpur_replay *replay, const gpur_replay_state *state)
{
    const gpur_replay_counts *const counts = &state->counts;
    if (state->groups && !gpur_frame_log_is_good(&replay->intake.frames, counts->first_id,
                                                 counts->first_id + counts->rows, counts->frame_head, state->groups))
        return gpur_fail(GPUR_FILE_ERROR, "the file's rows link to frames that it cannot have");
    return GPUR_OK;
}

gpur_status gpur_replay_state_set(gpur_replay *replay, const gpur_replay_state *state)
{
    gpur_feed *const feed = &replay->intake.feed;
    const gpur_replay_counts *const counts = &state->counts;
    const int64_t first = counts->first_id, next = first + counts->rows;
    if (state->groups)
        gpur_frame_log_set(&replay->intake.frames, first, next, counts->frame_head, state->groups);
    set_counts(replay, counts);
    replay->config.beta = state->beta;
    set_priority_state(&feed->priorities, state);
    GPUR_TRY(gpur_feed_set_window(feed, first, counts->rows));
    return gpur_priorities_restore(&feed->priorities, feed->consumer, &feed->mirror);
}

gpur_status gpur_replay_state_empty(gpur_replay *replay)
{
    gpur_feed *const feed = &replay->intake.feed;
    GPUR_TRY(gpur_feed_set_window(feed, replay->intake.ids, 0));
    return gpur_priorities_restore(&feed->priorities, feed->consumer, &feed->mirror);
}
