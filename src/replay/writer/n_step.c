/* SPDX-License-Identifier: MIT */
#include "replay/writer/n_step.h"

#include "replay/writer/env_state.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>

gpur_n_step_return gpur_n_step_return_of(const float *rewards, int32_t room, int64_t first, int32_t steps, float gamma)
{
    double reward = (double)rewards[first & (room - 1)], discount = (double)gamma;
    for (int32_t i = 1; i < steps; i++) {
        reward += discount * (double)rewards[(first + i) & (room - 1)];
        discount *= (double)gamma;
    }
    if (isfinite(reward) && fabs(reward) > (double)FLT_MAX)
        reward = copysign((double)FLT_MAX, reward); /* the sum of finite rewards stays finite */
    const gpur_n_step_return n_step_return = {(float)reward, (float)discount};
    return n_step_return;
}

gpur_status gpur_row_emitter_check_room(gpur_writer *writer, int64_t rows, const char *what)
{
    gpur_replay *const replay = writer->replay;
    if (gpur_ingest_may_wait(&replay->ingest))
        return GPUR_OK;
    gpur_ingest_wait_flush(&replay->ingest);
    const int64_t room = gpur_staging_room(&replay->ingest.staging);
    if (room >= rows)
        return GPUR_OK;
    return gpur_fail(GPUR_WOULD_BLOCK,
                     "there is room for %" PRId64 " rows in the staging blocks; a %s needs %" PRId64
                     ": call again later, or set when_full to GPUR_WHEN_FULL_WAIT",
                     room, what, rows);
}

/* Fast path, nearly always taken: the open block has room for all rows, which are claimed and committed at once. The
 * caller holds the lock until they are written. */
gpur_row_emitter gpur_row_emitter_begin(gpur_writer *writer, int64_t rows, int waits)
{
    gpur_replay *const replay = writer->replay;
    gpur_row_emitter emitter = {.writer = writer, .left = rows, .waits = waits, .pitch = replay->ingest.staging.pitch};
    unsigned char *const taken = writer->offsets.links < 0 ? gpur_ingest_claim_under_lock(&replay->ingest, rows) : NULL;
    if (!taken)
        return emitter;
    emitter.left = 0;
    emitter.claim.rows = taken;
    emitter.claim.count = rows;
    emitter.claim.first_id = replay->ingest.next_id - rows;
    return emitter;
}

gpur_status gpur_row_emitter_end(gpur_row_emitter *emitter)
{
    const int64_t used = emitter->used;
    emitter->used = 0;
    return used > 0 && emitter->claim.block ? gpur_ingest_commit(&emitter->writer->replay->ingest, &emitter->claim)
                                            : GPUR_OK;
}

gpur_status gpur_row_emitter_claim(gpur_row_emitter *emitter)
{
    GPUR_TRY(gpur_row_emitter_end(emitter));
    emitter->claim.count = 0;
    GPUR_TRY(gpur_ingest_claim(&emitter->writer->replay->ingest, emitter->left, emitter->waits, &emitter->claim));
    emitter->left -= emitter->claim.count;
    return GPUR_OK;
}

/* A transition to be written: its steps, and its row. */
typedef struct n_step_row {
    int64_t env, first;
    int32_t steps;
    unsigned char *row;
} n_step_row;

static unsigned char *claim_frame(const gpur_frame_store *store, int64_t *id)
{
    return gpur_ingest_claim_frame(store->owner, store->rows, id);
}

/* Writes the links of obs and next_obs, stores their frames with the row's claim, and records the row. */
static void link_frames(const gpur_row_emitter *emitter, const n_step_row *m)
{
    gpur_replay *const replay = emitter->writer->replay;
    const gpur_frame_layout *const layout = &replay->layout.frame_layout;
    const int64_t head = replay->frame_index.head;
    const gpur_frame_store store = {claim_frame, &replay->ingest, &emitter->claim, head, layout->frames, layout->reach};
    const int64_t oldest = gpur_frame_history_link(&emitter->writer->frame_history, &store, m->env, m->steps,
                                                   (uint32_t *)(void *)(m->row + emitter->writer->offsets.links));
    gpur_frame_index_record(&replay->frame_index, head, oldest);
}

/* Writes next_obs or, with GPUR_LAYOUT_FRAMES, the links of obs and next_obs. Without links, write_row copies obs. */
static void write_observations(const gpur_row_emitter *emitter, const n_step_row *m)
{
    const gpur_writer *const writer = emitter->writer;
    if (writer->offsets.links < 0)
        gpur_copy_value(m->row + writer->offsets.next_obs, gpur_env_state_obs(&writer->env_state, m->env),
                        writer->env_state.obs_bytes);
    else
        link_frames(emitter, m);
}

static void write_row(const gpur_row_emitter *emitter, const n_step_row *m, const gpur_episode_end *episode_end)
{
    const gpur_writer *const writer = emitter->writer;
    const gpur_env_state *const env_state = &writer->env_state;
    const unsigned char *const values = gpur_env_state_step(env_state, m->env, m->first);
    const gpur_n_step_return n_step_return =
        gpur_n_step_return_of(env_state->rewards + m->env * env_state->room, (int32_t)env_state->room, m->first,
                              m->steps, writer->replay->config.gamma);
    const unsigned char *const last = gpur_env_state_step(env_state, m->env, m->first + m->steps - 1);
    for (int32_t i = 0; i < env_state->count; i++)
        gpur_copy_value(m->row + env_state->fields[i].row_offset,
                        (env_state->fields[i].is_last ? last : values) + env_state->fields[i].offset,
                        env_state->fields[i].bytes);
    write_observations(emitter, m);
    gpur_write_outcome(&writer->offsets, m->row, n_step_return, episode_end, env_state->episodes[m->env].previous);
}

gpur_status gpur_row_emitter_emit(gpur_row_emitter *emitter, int64_t env, int32_t ready,
                                  const gpur_episode_end *episode_end)
{
    gpur_episode *const episode = &emitter->writer->env_state.episodes[env];
    for (; ready > 0; ready--) {
        n_step_row m = {env, episode->steps - episode->pending, episode->pending, NULL};
        int64_t id = 0;
        GPUR_TRY(gpur_row_emitter_next(emitter, &m.row, &id));
        write_row(emitter, &m, episode_end);
        gpur_writer_mark(emitter->writer, m.row, m.first, ready == 1 && gpur_episode_end_is(episode_end));
        episode->previous = id;
        episode->pending--;
    }
    return GPUR_OK;
}
