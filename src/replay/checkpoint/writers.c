/* SPDX-License-Identifier: MIT */
/* The state of writers in checkpoints. State from a file is checked: could a writer have reached it? */
#include "replay/checkpoint/writers.h"

#include "replay/finite.h"
#include "replay/writer/frame_history.h"
#include "replay/writer/env_state.h"
#include "replay/replay.h"
#include "replay/writer/writer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* An environment of a state to be checked, and the replay's next ids. */
typedef struct env_check {
    const gpur_frame_layout *layout;
    int32_t n_step;
    int64_t room;             /* entries of the frame history; 0: GPUR_LAYOUT_ROWS */
    int64_t next, frame_head; /* ids of the next row and frame */
    gpur_episode episode;
    int64_t last_frame;           /* number of the last frame */
    const unsigned char *entries; /* (room) entries of the frame history */
} env_check;

static int is_valid_episode(const env_check *s)
{
    const gpur_episode *const e = &s->episode;
    return e->state >= GPUR_EPISODE_NONE && e->state <= GPUR_EPISODE_ENDED && e->pending >= 0 &&
           e->pending < s->n_step && e->steps >= e->pending && e->steps < INT64_MAX / 4 &&
           e->previous >= -1 - s->next && (e->previous < s->next || e->steps == 0);
}

static int is_valid_entry(const env_check *s, int64_t frame)
{
    gpur_frame_entry entry;
    memcpy(&entry, s->entries + (frame & (s->room - 1)) * (int64_t)sizeof entry, sizeof entry);
    if (entry.id < -1 || entry.id >= s->frame_head)
        return 0;
    if (entry.id >= 0 && entry.link != entry.id % s->layout->frames + 1)
        return 0;
    return entry.alias_of == GPUR_FRAME_NONE || (entry.alias_of >= frame && entry.alias_of <= s->last_frame);
}

/* Checks the frames that the environment's next row may link to. Without an episode there are none. */
static int are_valid_frames(const env_check *s)
{
    const int32_t state = s->episode.state;
    if (s->room == 0 || state == GPUR_EPISODE_NONE ||
        (state == GPUR_EPISODE_ENDED && gpur_episode_is_unused(&s->episode)))
        return 1;
    if (s->last_frame != s->episode.steps + s->layout->stack - 1)
        return 0;
    for (int64_t frame = s->last_frame; frame >= 0 && frame > s->last_frame - s->room; frame--)
        if (!is_valid_entry(s, frame))
            return 0;
    return 1;
}

/* An array of a writer's state, (num_envs, bytes). All zeros must mean that no episode is open. */
typedef struct array {
    const char *name;
    int64_t bytes;         /* per environment */
    unsigned char *memory; /* NULL if there is no writer */
} array;
enum { MAX_ARRAYS = 8 };

/* The arrays that make up the state of a writer of this replay. To save another array, add a line here. `writer` NULL:
 * sizes only. */
static int32_t list_arrays(const gpur_replay *replay, const gpur_writer *writer, array *arrays)
{
    const gpur_step_fields fields = gpur_step_fields_find(&replay->schema);
    gpur_env_state env_state = {0};
    gpur_frame_history frame_history = {0};
    gpur_env_state_plan(&env_state, 1, replay->config.n_step, &fields, &replay->schema, &replay->layout);
    gpur_frame_history_plan(&frame_history, &replay->layout, 1, GPUR_OBSERVATIONS_STACKS, replay->config.n_step);
    if (writer)
        env_state = writer->env_state, frame_history = writer->frame_history;
    const array all[] = {
        {"episodes", sizeof *env_state.episodes, (unsigned char *)env_state.episodes},
        {"rewards", env_state.room * (int64_t)sizeof *env_state.rewards, (unsigned char *)env_state.rewards},
        {"steps", env_state.room * env_state.step_bytes, env_state.values},
        {"newest", frame_history.room > 0 ? (int64_t)sizeof *frame_history.last : 0,
         (unsigned char *)frame_history.last},
        {"places", frame_history.room * (int64_t)sizeof *frame_history.entries, (unsigned char *)frame_history.entries},
        {"frames", frame_history.room * replay->layout.frame_layout.frame_bytes, frame_history.frames},
    };
    int32_t count = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].bytes > 0)
            arrays[count++] = all[i];
    return count;
}

/* An array of a state, by its name; NULL if writers of this replay have no such array. */
static const unsigned char *find_array(const gpur_replay *replay, const gpur_writer_state *state, const char *name)
{
    array arrays[MAX_ARRAYS];
    const int32_t count = list_arrays(replay, NULL, arrays);
    const unsigned char *memory = state->memory;
    for (int32_t i = 0; i < count; i++) {
        if (strcmp(arrays[i].name, name) == 0)
            return memory;
        memory += state->num_envs * arrays[i].bytes;
    }
    return NULL;
}

static int is_valid(const gpur_replay *replay, const gpur_writer_state *state, env_check *s)
{
    const unsigned char *const episodes = find_array(replay, state, "episodes");
    const unsigned char *const last_frames = find_array(replay, state, "newest");
    const unsigned char *const entries = find_array(replay, state, "places");
    for (int64_t env = 0; env < state->num_envs; env++) {
        memcpy(&s->episode, episodes + env * (int64_t)sizeof s->episode, sizeof s->episode);
        if (last_frames)
            memcpy(&s->last_frame, last_frames + env * (int64_t)sizeof s->last_frame, sizeof s->last_frame);
        s->entries = entries ? entries + env * s->room * (int64_t)sizeof(gpur_frame_entry) : NULL;
        if (!is_valid_episode(s) || !are_valid_frames(s))
            return 0;
    }
    return 1;
}

/* Refuses numbers of open episodes that are not finite. `at` NULL: there are no such arrays. */
static gpur_status check_numbers(const void *at, int64_t count, int64_t pitch, int64_t bytes, int32_t dtype,
                                 const char *name)
{
    const gpur_field_values values = {at, count, pitch, bytes, dtype, name, "open step"};
    return at ? gpur_check_finite(&values, GPUR_FILE_ERROR) : GPUR_OK;
}

static gpur_status check_finite(const gpur_replay *replay, const gpur_writer_state *state)
{
    const gpur_schema *const schema = &replay->schema;
    const gpur_step_fields fields = gpur_step_fields_find(schema);
    const int64_t one = (int64_t)sizeof(float), frame = replay->layout.frame_layout.frame_bytes;
    const unsigned char *const steps = find_array(replay, state, "steps");
    gpur_env_state s = {0};
    gpur_frame_history history = {0};
    gpur_env_state_plan(&s, 1, replay->config.n_step, &fields, schema, &replay->layout);
    gpur_frame_history_plan(&history, &replay->layout, 1, GPUR_OBSERVATIONS_STACKS, replay->config.n_step);
    const int64_t count = state->num_envs * s.room;
    GPUR_TRY(check_numbers(find_array(replay, state, "rewards"), count, one, one, GPUR_FLOAT32, "reward"));
    for (int32_t i = 0; steps && i < s.count; i++)
        if (schema->is_real[s.fields[i].field])
            GPUR_TRY(check_numbers(steps + s.fields[i].offset, count, s.step_bytes, s.fields[i].bytes,
                                   schema->fields[s.fields[i].field].dtype, schema->fields[s.fields[i].field].name));
    if (fields.obs < 0 || !schema->is_real[fields.obs])
        return GPUR_OK;
    return check_numbers(find_array(replay, state, "frames"), state->num_envs * history.room, frame, frame,
                         schema->fields[fields.obs].dtype, "obs");
}

gpur_status gpur_writer_states_check(const gpur_replay *replay, const gpur_writer_state *states, int64_t next,
                                     int64_t frame_head)
{
    gpur_frame_history frame_history = {0};
    gpur_frame_history_plan(&frame_history, &replay->layout, 1, GPUR_OBSERVATIONS_STACKS, replay->config.n_step);
    env_check s = {.layout = &replay->layout.frame_layout,
                   .n_step = replay->config.n_step,
                   .room = frame_history.room,
                   .next = next,
                   .frame_head = frame_head};
    for (const gpur_writer_state *state = states; state; state = state->next) {
        if (!is_valid(replay, state, &s))
            return gpur_fail(GPUR_FILE_ERROR, "the file has an episode that no writer comes to");
        if (replay->config.check_finite)
            GPUR_TRY(check_finite(replay, state));
    }
    return GPUR_OK;
}

/* The text of a writer's autoreset and observations. Autoreset decides what an ended episode waits for, and which
 * observation ends it; observations decides where padding comes from. */
static void mode_of(const gpur_writer_config *config, char *mode)
{
    static const char *const autoresets[] = {"disabled", "next_step", "same_step"};
    snprintf(mode, GPUR_WRITER_MODE, "autoreset %s, observations %s", autoresets[config->autoreset],
             config->observations == GPUR_OBSERVATIONS_FRAMES ? "frames" : "stacks");
}

/* Copies arrays, one behind the other in memory, to those of a writer. NULL: zeros. Ids of rows that it appended before
 * are others' now. */
static void restore(gpur_writer *writer, const unsigned char *from)
{
    array arrays[MAX_ARRAYS];
    const int32_t count = list_arrays(writer->replay, writer, arrays);
    writer->append_link = -1, writer->appended = 0;
    for (int32_t i = 0; i < count; i++) {
        const size_t bytes = (size_t)(writer->config.num_envs * arrays[i].bytes);
        if (from)
            memcpy(arrays[i].memory, from, bytes), from += bytes;
        else
            memset(arrays[i].memory, 0, bytes);
    }
}

static void free_state(gpur_replay *replay, gpur_writer_state *state)
{
    gpur_host_free(replay->device, state, sizeof *state + state->bytes);
}

void gpur_writer_states_free(gpur_replay *replay, gpur_writer_state *states)
{
    while (states) {
        gpur_writer_state *const next = states->next;
        free_state(replay, states);
        states = next;
    }
}

/* Whether a writer can go on where the state is. */
static int fits(const gpur_writer *writer, const gpur_writer_state *state)
{
    char mode[GPUR_WRITER_MODE];
    mode_of(&writer->config, mode);
    return state->num_envs == writer->config.num_envs && strcmp(state->mode, mode) == 0;
}

void gpur_writer_take_pending_state(gpur_writer *writer)
{
    gpur_replay *const replay = writer->replay;
    gpur_writer_state *const pending = replay->pending_states;
    if (!pending || !fits(writer, pending))
        return;
    restore(writer, pending->memory);
    replay->pending_states = pending->next;
    free_state(replay, pending);
}

static gpur_status add_sections(const gpur_replay *replay, const gpur_writer *writer, int64_t index, int32_t num_envs,
                                unsigned char *memory, gpur_sections *sections)
{
    array arrays[MAX_ARRAYS];
    char name[GPUR_TENSOR_NAME];
    const int32_t count = list_arrays(replay, writer, arrays);
    for (int32_t i = 0; i < count; i++) {
        const int64_t bytes = num_envs * arrays[i].bytes;
        const gpur_piece piece = {writer ? arrays[i].memory : memory, bytes, 0};
        snprintf(name, sizeof name, "writer.%" PRId64 ".%s", index, arrays[i].name);
        GPUR_TRY(gpur_sections_add(sections, name, GPUR_U8, num_envs, arrays[i].bytes, piece));
        if (memory)
            memory += bytes;
    }
    return GPUR_OK;
}

static gpur_status add_mode(gpur_tensors *tensors, int64_t index, const char *mode)
{
    char key[GPUR_METADATA_KEY];
    snprintf(key, sizeof key, "writer.%" PRId64, index);
    return gpur_tensors_add_metadata(tensors, key, "%s", mode);
}

/* The existing writers come first, then the states that wait for writers to be created. */
gpur_status gpur_writers_add_sections(gpur_replay *replay, gpur_tensors *tensors, gpur_sections *sections,
                                      int64_t *writers)
{
    char mode[GPUR_WRITER_MODE];
    *writers = 0;
    for (const gpur_writer *writer = replay->writers; writer; writer = writer->next) {
        mode_of(&writer->config, mode);
        GPUR_TRY(add_mode(tensors, *writers, mode));
        GPUR_TRY(add_sections(replay, writer, (*writers)++, writer->config.num_envs, NULL, sections));
    }
    for (const gpur_writer_state *state = replay->pending_states; state; state = state->next) {
        GPUR_TRY(add_mode(tensors, *writers, state->mode));
        GPUR_TRY(add_sections(replay, NULL, (*writers)++, state->num_envs, state->memory, sections));
    }
    return GPUR_OK;
}

/* Number of environments of a writer of the file. The sizes of tensors have been checked against the size of the
 * file. */
static gpur_status count_envs(const gpur_tensors *file, int64_t index, int32_t *num_envs)
{
    char name[GPUR_TENSOR_NAME];
    snprintf(name, sizeof name, "writer.%" PRId64 ".episodes", index);
    const gpur_tensor_entry *const entry = gpur_tensors_find(file, name);
    if (!entry || entry->shape[0] < 1 || entry->shape[0] > INT32_MAX)
        return gpur_fail(GPUR_FILE_ERROR, "the file has no environments of its writer %" PRId64, index);
    *num_envs = (int32_t)entry->shape[0];
    return GPUR_OK;
}

static gpur_status find_mode(const gpur_tensors *file, int64_t index, char *mode)
{
    char key[GPUR_METADATA_KEY];
    snprintf(key, sizeof key, "writer.%" PRId64, index);
    const char *const text = gpur_tensors_find_metadata(file, key);
    if (!text || snprintf(mode, GPUR_WRITER_MODE, "%s", text) >= GPUR_WRITER_MODE)
        return gpur_fail(GPUR_FILE_ERROR, "the file does not say how its writer %" PRId64 " takes its steps", index);
    return GPUR_OK;
}

static gpur_status make_state(const gpur_replay *replay, int32_t num_envs, const char *mode, gpur_writer_state **state)
{
    array arrays[MAX_ARRAYS];
    const int32_t count = list_arrays(replay, NULL, arrays);
    int64_t bytes = 0;
    for (int32_t i = 0; i < count; i++)
        bytes += num_envs * arrays[i].bytes;
    *state = gpur_host_alloc(replay->device, sizeof **state + (size_t)bytes);
    if (!*state)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for the %" PRId64 " bytes of a writer's state", bytes);
    **state = (gpur_writer_state){.num_envs = num_envs, .bytes = (size_t)bytes};
    snprintf((*state)->mode, sizeof(*state)->mode, "%s", mode);
    (*state)->memory = (unsigned char *)(*state + 1);
    return GPUR_OK;
}

gpur_status gpur_writer_states_add_sections(gpur_replay *replay, const gpur_tensors *file, int64_t writers,
                                            gpur_sections *sections, gpur_writer_state **states)
{
    gpur_writer_state **last = states;
    *states = NULL;
    for (int64_t i = 0; i < writers; i++) {
        int32_t num_envs = 0;
        char mode[GPUR_WRITER_MODE];
        GPUR_TRY(count_envs(file, i, &num_envs));
        GPUR_TRY(find_mode(file, i, mode));
        GPUR_TRY(make_state(replay, num_envs, mode, last));
        GPUR_TRY(add_sections(replay, NULL, i, num_envs, (*last)->memory, sections));
        last = &(*last)->next;
    }
    return GPUR_OK;
}

/* Episodes of a state that have a step and no end. */
static int64_t count_open(const gpur_replay *replay, const gpur_writer_state *state)
{
    const unsigned char *const episodes = find_array(replay, state, "episodes");
    int64_t open = 0;
    for (int64_t env = 0; env < state->num_envs; env++) {
        gpur_episode episode;
        memcpy(&episode, episodes + env * (int64_t)sizeof episode, sizeof episode);
        open += episode.state == GPUR_EPISODE_OPEN && episode.steps > 0;
    }
    return open;
}

void gpur_writer_states_restore(gpur_replay *replay, gpur_writer_state *states)
{
    gpur_writer_states_free(replay, replay->pending_states);
    for (gpur_writer *writer = replay->writers; writer; writer = writer->next) {
        gpur_writer_state *const state = states;
        const int goes_on = state && fits(writer, state);
        restore(writer, goes_on ? state->memory : NULL);
        if (!state)
            continue;
        if (!goes_on)
            replay->cut_on_load += count_open(replay, state);
        states = state->next;
        free_state(replay, state);
    }
    replay->pending_states = states;
}

void gpur_writers_invalidate_frames(gpur_replay *replay)
{
    if (replay->layout.frame_layout.stack == 0)
        return;
    for (gpur_writer *writer = replay->writers; writer; writer = writer->next)
        gpur_frame_history_invalidate(&writer->frame_history);
    gpur_writer_states_free(replay, replay->pending_states);
    replay->pending_states = NULL;
}
