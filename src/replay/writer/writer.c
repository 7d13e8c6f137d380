/* SPDX-License-Identifier: MIT */
/* The writer handle: open, reset, flush, the state of episodes, destroy. */
#include "replay/writer/writer.h"

#include "base/sized.h"
#include "replay/config.h"
#include "replay/view.h"
#include "replay/writer/n_step.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MAX_ENVS = 1 << 20 }; /* keeps the byte counts of their state far from overflow */

static const gpur_writer_config defaults = {
    .size = sizeof(gpur_writer_config),
    .num_envs = 1,
};

gpur_status gpur_writer_config_init(gpur_writer_config *config, uint64_t size)
{
    return gpur_sized_init(config, size, &defaults, sizeof defaults, "gpur_writer_config");
}

/* Byte offset in a ring row of a field of the schema, or -1. */
static int64_t offset_of(const gpur_ring_layout *layout, int32_t field)
{
    const int32_t stored = field < 0 ? -1 : layout->stored[field];
    return stored < 0 ? -1 : layout->rows.fields[stored].offset;
}

gpur_row_offsets gpur_row_offsets_find(const gpur_ring_layout *layout, const gpur_step_fields *f)
{
    const gpur_row_offsets offsets = {
        .reward = offset_of(layout, f->reward),
        .next_obs = offset_of(layout, f->next_obs),
        .terminated = offset_of(layout, f->terminated),
        .truncated = offset_of(layout, f->truncated),
        .discount = offset_of(layout, f->discount),
        .previous = offset_of(layout, f->previous),
        .links = layout->links < 0 ? -1 : layout->rows.fields[layout->links].offset,
    };
    return offsets;
}

static int32_t count_bools(const gpur_schema *schema, const gpur_step_fields *fields)
{
    int32_t bools = 0;
    for (int32_t f = 0; f < schema->count; f++)
        bools += schema->is_flag[f] && f != fields->terminated && f != fields->truncated;
    return bools;
}

/* The action and the extras that must be finite. */
static void find_reals(gpur_writer *writer)
{
    const gpur_schema *const schema = &writer->replay->schema;
    for (int32_t f = 0; f < schema->count; f++)
        if (schema->is_real[f] && (f == writer->fields.action || gpur_step_fields_is_extra(&writer->fields, f)))
            writer->reals[writer->real_count++] = f;
}

static gpur_status writer_build(gpur_writer *writer)
{
    gpur_replay *const replay = writer->replay;
    writer->fields = gpur_step_fields_find(&replay->schema);
    writer->bools = count_bools(&replay->schema, &writer->fields);
    find_reals(writer);
    writer->offsets = gpur_row_offsets_find(&replay->layout, &writer->fields);
    writer->offsets.priority = offset_of(&replay->layout, writer->marked);
    GPUR_TRY(gpur_env_state_build(&writer->env_state, replay->device, writer->config.num_envs, replay->config.n_step,
                                  &writer->fields, &replay->schema, &replay->layout));
    return gpur_frame_history_build(&writer->frame_history, replay->device, &replay->layout, writer->config.num_envs,
                                    writer->config.observations, replay->config.n_step);
}

/* Under GPUR_WHEN_FULL_ERROR a step stores all its rows or none, so there must be enough staging blocks for the largest
 * step: n_step rows of each environment, if all episodes end at once. One block may be partly filled and does not
 * count. */
static gpur_status check_envs(const gpur_replay *replay, int64_t num_envs)
{
    const gpur_replay_config *const c = &replay->config;
    const int64_t room = (c->staging_blocks - 1) * gpur_staging_block_room(&replay->ingest.staging);
    const int64_t n_step = c->n_step;
    GPUR_REQUIRE(num_envs >= 1 && num_envs <= MAX_ENVS, "num_envs is %" PRId64 "; it must be 1 to %d", num_envs,
                 MAX_ENVS);
    GPUR_REQUIRE(c->when_full == GPUR_WHEN_FULL_WAIT || num_envs * n_step <= room,
                 "num_envs is %" PRId64 "; under GPUR_WHEN_FULL_ERROR a step of all must fit in %" PRId64
                 " rows, %s, and may take n_step = %" PRId64 " of each",
                 num_envs, room,
                 c->layout == GPUR_LAYOUT_ROWS ? "(staging_blocks - 1) x block_rows"
                                               : "those of staging_blocks - 1 blocks without a frame in common",
                 n_step);
    return GPUR_OK;
}

static gpur_status check_sequences(const gpur_replay *replay, const gpur_writer_config *config)
{
    const int32_t length = config->sequence_length, every = config->sequence_every;
    GPUR_REQUIRE(length >= 0 && every >= 0 && (length > 0) == (every > 0),
                 "gpur_writer_config.sequence_length is %d and sequence_every %d; both must be 1 or more, or both 0",
                 (int)length, (int)every);
    if (length == 0)
        return GPUR_OK;
    GPUR_REQUIRE(replay->config.prioritized && replay->config.priority_offset == 0.0f && replay->schema.priority >= 0 &&
                     gpur_schema_has_previous(&replay->schema),
                 "gpur_writer_config.sequence_length is %d, prioritized is %d, priority_offset %g, there is %s field "
                 "\"priority\" of one float32 and %s field \"previous\" of one int64; prioritized must be 1, "
                 "priority_offset 0, and there must be both fields",
                 (int)length, (int)replay->config.prioritized, (double)replay->config.priority_offset,
                 replay->schema.priority >= 0 ? "a" : "no", gpur_schema_has_previous(&replay->schema) ? "a" : "no");
    return GPUR_OK;
}

static gpur_status check(const gpur_replay *replay, const gpur_writer_config *config)
{
    GPUR_TRY(check_sequences(replay, config));
    GPUR_TRY(gpur_choice_check(config->link_appends, 1, "gpur_writer_config.link_appends", "0 or 1"));
    GPUR_REQUIRE(!config->link_appends || gpur_schema_has_previous(&replay->schema),
                 "gpur_writer_config.link_appends is 1 and the schema has no field \"previous\" of one int64, which "
                 "links transitions");
    GPUR_TRY(check_envs(replay, config->num_envs));
    GPUR_TRY(gpur_choice_check(config->autoreset, GPUR_AUTORESET_SAME_STEP, "gpur_writer_config.autoreset",
                               "GPUR_AUTORESET_DISABLED (0), NEXT_STEP (1) or SAME_STEP (2)"));
    GPUR_TRY(gpur_choice_check(config->observations, 1, "gpur_writer_config.observations",
                               "GPUR_OBSERVATIONS_STACKS (0) or GPUR_OBSERVATIONS_FRAMES (1)"));
    GPUR_REQUIRE(config->observations == GPUR_OBSERVATIONS_STACKS || replay->config.layout == GPUR_LAYOUT_FRAMES,
                 "gpur_writer_config.observations is GPUR_OBSERVATIONS_FRAMES and the replay's layout "
                 "GPUR_LAYOUT_ROWS; stacks are made of "
                 "frames by the layout GPUR_LAYOUT_FRAMES alone");
    return GPUR_OK;
}

static int64_t envs_of(const gpur_writer *writers)
{
    int64_t envs = 0;
    for (; writers; writers = writers->next)
        envs += writers->config.num_envs;
    return envs;
}

/* There are too many environments for gpur_frame_layout.reach: frames would be stored again, and transitions evicted
 * early to make room for them. An error if extra_frames is 0; a caller that set extra_frames has decided, and gets a
 * line in the log. */
static gpur_status report_reach(const gpur_writer *writer, int64_t others)
{
    const gpur_replay *const replay = writer->replay;
    const int64_t each = gpur_frames_per_env(&replay->config), envs = writer->config.num_envs + others;
    char text[400];
    snprintf(text, sizeof text,
             "num_envs is %d, and other writers have %" PRId64 "; the last %" PRId64
             " frames of each must be in reach, or they are stored several times, and the replay reaches back %" PRId64
             ": set gpur_replay_config.extra_frames to %" PRId64 " or more",
             (int)writer->config.num_envs, others, each, replay->layout.frame_layout.reach, envs * each);
    if (replay->config.extra_frames == 0)
        return gpur_fail(GPUR_INVALID_ARGUMENT, "%s", text);
    gpur_log(replay->device, "%s", text);
    return GPUR_OK;
}

static int is_in_reach(const gpur_replay *replay, int64_t envs)
{
    return replay->config.layout == GPUR_LAYOUT_ROWS ||
           envs * gpur_frames_per_env(&replay->config) <= replay->layout.frame_layout.reach;
}

/* Requires the window lock. */
static void add_to_list(gpur_writer *writer)
{
    gpur_writer **end = &writer->replay->writers;
    while (*end)
        end = &(*end)->next;
    *end = writer;
    gpur_writer_take_pending_state(writer);
}

/* Requires the window lock. */
static void remove_from_list(gpur_writer *writer)
{
    gpur_writer **link = &writer->replay->writers;
    while (*link != writer)
        link = &(*link)->next;
    *link = writer->next;
}

static gpur_status register_writer(gpur_writer *writer)
{
    gpur_replay *const replay = writer->replay;
    gpur_ingest_begin_call(&replay->ingest);
    const int64_t others = envs_of(replay->writers);
    const int fits = is_in_reach(replay, others + writer->config.num_envs);
    if (fits || replay->config.extra_frames > 0)
        add_to_list(writer);
    gpur_ingest_end_call(&replay->ingest);
    return fits ? GPUR_OK : report_reach(writer, others);
}

static void writer_free(gpur_writer *writer)
{
    gpur_device *const device = writer->replay->device;
    gpur_frame_history_destroy(&writer->frame_history);
    gpur_env_state_destroy(&writer->env_state);
    gpur_host_free(device, writer, sizeof *writer);
}

gpur_status gpur_writer_open(gpur_replay *replay, const gpur_writer_config *given, gpur_writer **out)
{
    gpur_writer_config config = defaults;
    GPUR_REQUIRE(out, "writer is NULL; it must be where the handle goes");
    *out = NULL;
    GPUR_REQUIRE(replay, "replay is NULL");
    GPUR_TRY(gpur_replay_refuse_lanes(replay, "a writer"));
    GPUR_TRY(gpur_sized_read(&config, sizeof config, given, "gpur_writer_config"));
    GPUR_TRY(check(replay, &config));
    gpur_writer *const writer = gpur_host_alloc(replay->device, sizeof *writer);
    if (!writer)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for a writer handle of %zu bytes", sizeof *writer);
    writer->replay = replay;
    writer->config = config;
    writer->append_link = -1;
    writer->marked = config.sequence_length > 0 ? replay->schema.priority : -1;
    writer->last_block.actor = -1;
    gpur_status status = writer_build(writer);
    if (status == GPUR_OK)
        status = register_writer(writer);
    if (status != GPUR_OK) {
        writer_free(writer);
        return status;
    }
    *out = writer;
    return GPUR_OK;
}

gpur_status gpur_writer_create(gpur_replay *replay, int32_t num_envs, gpur_writer **writer)
{
    gpur_writer_config config = defaults;
    config.num_envs = num_envs;
    return gpur_writer_open(replay, &config, writer);
}

/* Number of rows that truncate_episodes writes. */
static int64_t count_pending(const gpur_writer *writer, int64_t first, int64_t last)
{
    int64_t rows = 0;
    for (int64_t env = first; env < last; env++)
        rows += writer->env_state.episodes[env].pending;
    return rows;
}

/* Emits the pending transitions of environments `first` to last - 1, as if their open episodes were truncated now.
 * Requires the window lock. `waits` 1: waits for staging blocks. */
static gpur_status truncate_episodes(gpur_writer *writer, int64_t first, int64_t last, int waits)
{
    gpur_row_emitter emitter = gpur_row_emitter_begin(writer, count_pending(writer, first, last), waits);
    for (int64_t env = first; env < last; env++) {
        const gpur_episode_end episode_end = {0, 1};
        GPUR_TRY(gpur_row_emitter_emit(&emitter, env, writer->env_state.episodes[env].pending, &episode_end));
    }
    return gpur_row_emitter_end(&emitter);
}

static gpur_status flush(gpur_replay *replay)
{
    GPUR_TRY(gpur_ingest_flush(&replay->ingest));
    gpur_window_publish_all_next(&replay->window);
    return GPUR_OK;
}

gpur_status gpur_writer_flush(gpur_writer *writer)
{
    GPUR_REQUIRE(writer, "writer is NULL");
    gpur_window_lock(writer->replay);
    const gpur_status status = flush(writer->replay);
    gpur_window_unlock(writer->replay);
    return status;
}

/* Returns nothing, so a device error surfaces at the next call that returns a status. Pending transitions wait for a
 * staging block even under GPUR_WHEN_FULL_ERROR, because the caller cannot retry a destroy. */
void gpur_writer_destroy(gpur_writer *writer)
{
    if (!writer)
        return;
    gpur_replay *const replay = writer->replay;
    const int32_t num_envs = writer->config.num_envs;
    gpur_ingest_begin_call(&replay->ingest);
    for (int32_t env = 0; env < num_envs; env++)
        replay->ingest.truncated_on_close += writer->env_state.episodes[env].state == GPUR_EPISODE_OPEN;
    truncate_episodes(writer, 0, num_envs, 1);
    flush(replay);
    remove_from_list(writer);
    gpur_ingest_end_call(&replay->ingest);
    writer_free(writer);
}

/* Begins episodes, and truncates open ones that a reset interrupts. */

void gpur_writer_begin_episode(gpur_writer *writer, int64_t env, const unsigned char *obs)
{
    gpur_env_state_begin(&writer->env_state, env);
    if (writer->frame_history.last)
        gpur_frame_history_begin(&writer->frame_history, env, obs);
    else
        gpur_writer_push_obs(writer, env, obs);
}

/* Requires the window lock. */
static gpur_status truncate_open(gpur_writer *writer, int64_t first, int64_t last)
{
    const int64_t rows = count_pending(writer, first, last);
    GPUR_TRY(gpur_row_emitter_check_room(writer, rows, "reset of open episodes"));
    return truncate_episodes(writer, first, last, gpur_ingest_may_wait(&writer->replay->ingest));
}

static gpur_status begin(gpur_writer *writer, int64_t first, int64_t last, const void *obs)
{
    if (count_pending(writer, first, last) > 0)
        GPUR_TRY(truncate_open(writer, first, last));
    for (int64_t env = first; env < last; env++)
        gpur_writer_begin_episode(writer, env, gpur_writer_obs(writer, obs, env - first));
    return GPUR_OK;
}

gpur_status gpur_writer_reset(gpur_writer *writer, int32_t env, const void *obs)
{
    GPUR_REQUIRE(writer, "writer is NULL");
    const int32_t num_envs = writer->config.num_envs;
    GPUR_REQUIRE(obs, "obs is NULL; it must be the first observation of %s",
                 env == -1 ? "every episode" : "the episode");
    GPUR_REQUIRE(env >= -1 && env < num_envs, "env is %d; it must be 0 to %d, or -1 for all", (int)env,
                 (int)num_envs - 1);
    GPUR_TRY(gpur_step_fields_check(&writer->fields, &writer->replay->schema));
    for (int64_t i = 0; i < (env < 0 ? num_envs : 1); i++)
        GPUR_TRY(gpur_writer_check_obs(writer, obs, i, "obs"));
    GPUR_TRY(gpur_writer_check_finite_obs(writer, obs, env < 0 ? num_envs : 1, "obs"));
    gpur_replay *const replay = writer->replay;
    gpur_ingest_begin_call(&replay->ingest);
    const gpur_status status = begin(writer, env < 0 ? 0 : env, env < 0 ? num_envs : env + 1, obs);
    gpur_ingest_end_call(&replay->ingest);
    return status;
}

/* Gets the state of an environment's episode, and sets it for callers that append rows instead of stepping. */

static void read_obs(const gpur_writer *writer, int64_t env, void *obs)
{
    if (writer->frame_history.last)
        gpur_frame_history_get(&writer->frame_history, env, obs);
    else
        memcpy(obs, gpur_env_state_obs(&writer->env_state, env), (size_t)writer->env_state.obs_bytes);
}

static gpur_status read_episode(const gpur_writer *writer, int64_t env, gpur_episode_info *info, void *obs)
{
    const gpur_episode *const episode = &writer->env_state.episodes[env];
    const int is_open = episode->state == GPUR_EPISODE_OPEN;
    const gpur_episode_info found = {
        .size = info->size,
        .steps = is_open ? episode->steps : 0,
        .state = episode->state,
        .pending = episode->pending,
    };
    GPUR_TRY(gpur_sized_write(info, &found, sizeof found, "gpur_episode_info"));
    if (obs && is_open)
        read_obs(writer, env, obs);
    return GPUR_OK;
}

gpur_status gpur_writer_get_episode(gpur_writer *writer, int32_t env, gpur_episode_info *info, void *obs)
{
    GPUR_REQUIRE(writer, "writer is NULL");
    const int32_t num_envs = writer->config.num_envs;
    GPUR_REQUIRE(info, "gpur_episode_info is NULL");
    GPUR_REQUIRE(env >= 0 && env < num_envs, "env is %d; it must be 0 to %d", (int)env, (int)num_envs - 1);
    if (obs)
        GPUR_TRY(gpur_step_fields_check(&writer->fields, &writer->replay->schema));
    gpur_replay *const replay = writer->replay;
    gpur_ingest_begin_call(&replay->ingest);
    const gpur_status status = read_episode(writer, env, info, obs);
    gpur_ingest_end_call(&replay->ingest);
    return status;
}

static gpur_status set_ended(gpur_writer *writer, const uint8_t *ended)
{
    gpur_episode *const episodes = writer->env_state.episodes;
    for (int32_t env = 0; env < writer->config.num_envs; env++) {
        GPUR_REQUIRE(episodes[env].state != GPUR_EPISODE_OPEN,
                     "environment %d has an open episode, which this writer follows by its steps", (int)env);
        GPUR_REQUIRE(ended[env] <= 1, "ended[%d] is %d; it must be 0 or 1", (int)env, (int)ended[env]);
    }
    for (int32_t env = 0; env < writer->config.num_envs; env++)
        episodes[env].state = ended[env] ? GPUR_EPISODE_ENDED : GPUR_EPISODE_NONE;
    return GPUR_OK;
}

gpur_status gpur_writer_set_ended(gpur_writer *writer, const uint8_t *ended)
{
    GPUR_REQUIRE(writer && ended, "writer and ended must not be NULL");
    gpur_replay *const replay = writer->replay;
    gpur_ingest_begin_call(&replay->ingest);
    const gpur_status status = set_ended(writer, ended);
    gpur_ingest_end_call(&replay->ingest);
    return status;
}
