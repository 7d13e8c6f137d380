/* SPDX-License-Identifier: MIT */
#include "replay/writer/n_step.h"

#include "replay/writer/env_state.h"

#include <inttypes.h>

/* Computed in double, and rounded once. */
gpur_fold gpur_fold_rewards(const float *rewards, int32_t room, int64_t first, int32_t steps, float gamma)
{
    double reward = (double)rewards[first & (room - 1)], discount = (double)gamma;
    for (int32_t i = 1; i < steps; i++) {
        reward += discount * (double)rewards[(first + i) & (room - 1)];
        discount *= (double)gamma;
    }
    const gpur_fold fold = {(float)reward, (float)discount};
    return fold;
}

gpur_status gpur_maker_check_room(gpur_writer *writer, int64_t rows, const char *what)
{
    gpur_replay *const replay = writer->replay;
    if (gpur_ingest_may_wait(&replay->ingest))
        return GPUR_OK;
    gpur_ingest_wait_flush(replay);
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
gpur_maker gpur_maker_begin(gpur_writer *writer, int64_t rows, int waits)
{
    gpur_replay *const replay = writer->replay;
    gpur_maker maker = {.writer = writer, .left = rows, .waits = waits};
    unsigned char *const taken = writer->places.links < 0 ? gpur_ingest_claim_committed(&replay->ingest, rows) : NULL;
    if (!taken)
        return maker;
    maker.left = 0;
    maker.claim.rows = taken;
    maker.claim.count = rows;
    maker.claim.first_id = replay->ingest.next_id - rows;
    return maker;
}

gpur_status gpur_maker_end(gpur_maker *maker)
{
    const int64_t used = maker->used;
    maker->used = 0;
    return used > 0 && maker->claim.block ? gpur_ingest_commit(maker->writer->replay, &maker->claim) : GPUR_OK;
}

/* Claims as many rows at a time as fit into the open block. */
gpur_status gpur_maker_next(gpur_maker *maker, unsigned char **row, int64_t *id)
{
    gpur_replay *const replay = maker->writer->replay;
    if (maker->used == maker->claim.count) {
        GPUR_TRY(gpur_maker_end(maker));
        maker->claim.count = 0;
        GPUR_TRY(gpur_ingest_claim(replay, maker->left, maker->waits, &maker->claim));
        maker->left -= maker->claim.count;
    }
    *row = maker->claim.rows + maker->used * replay->ingest.staging.pitch;
    *id = maker->claim.first_id + maker->used++;
    return GPUR_OK;
}

/* A transition to be written: its steps, and its row. */
typedef struct making {
    int64_t env, first;
    int32_t steps;
    unsigned char *row;
} making;

/* Writes next_obs or, with GPUR_LINKED, the links of obs and next_obs. Without links, write_row copies obs. */
static void write_observations(const gpur_maker *maker, const making *m)
{
    gpur_writer *const writer = maker->writer;
    const gpur_row_places *const at = &writer->places;
    if (at->links < 0)
        gpur_move_value(m->row + at->next_obs, gpur_kept_obs(&writer->kept, m->env), writer->kept.obs_bytes);
    else
        gpur_history_link(&writer->history, writer->replay, &maker->claim, m->env, m->steps,
                          (uint32_t *)(void *)(m->row + at->links));
}

static void write_row(const gpur_maker *maker, const making *m, const gpur_ending *ending)
{
    const gpur_writer *const writer = maker->writer;
    const gpur_kept *const kept = &writer->kept;
    const unsigned char *const values = gpur_kept_step(kept, m->env, m->first);
    const gpur_fold fold = gpur_fold_rewards(kept->rewards + m->env * kept->room, (int32_t)kept->room, m->first,
                                             m->steps, writer->replay->config.gamma);
    for (int32_t i = 0; i < kept->count; i++)
        gpur_move_value(m->row + kept->fields[i].row_offset, values + kept->fields[i].offset, kept->fields[i].bytes);
    write_observations(maker, m);
    gpur_put_outcome(&writer->places, m->row, fold, ending, kept->episodes[m->env].previous);
}

gpur_status gpur_maker_make(gpur_maker *maker, int64_t env, int32_t due, const gpur_ending *ending)
{
    gpur_episode *const episode = &maker->writer->kept.episodes[env];
    for (; due > 0; due--) {
        making m = {env, episode->steps - episode->pending, episode->pending, NULL};
        int64_t id = 0;
        GPUR_TRY(gpur_maker_next(maker, &m.row, &id));
        write_row(maker, &m, ending);
        episode->previous = id;
        episode->pending--;
    }
    return GPUR_OK;
}
