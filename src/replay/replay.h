/* SPDX-License-Identifier: MIT */
/* The replay handle: the members of gpur_replay. */
#ifndef GPUR_REPLAY_REPLAY_H
#define GPUR_REPLAY_REPLAY_H

#include "base/ticket_lock.h"
#include "gpureplay/writer.h"
#include "replay/storage/ingest.h"
#include "replay/sampler/batch.h"

struct gpur_replay {
    gpur_device *device; /* retained */
    gpur_replay_config config;
    gpur_schema schema;   /* as the caller gave it */
    gpur_storage storage; /* layout of rows and frames in their rings */
    gpur_intake intake;   /* the writers' side; its lock also protects the ring and the window */
    gpur_pool *pool;

    gpur_fair_lock turn;   /* the consumer lock, held from gpur_consumer_begin to gpur_consumer_end */
    gpur_event *done[2];   /* done[n % 2] is recorded at the end of launch n */
    int64_t launches;      /* launches that have ended; the number of the current or next one */
    int64_t draws;         /* samples taken so far; the step of the next sample's random numbers */
    int64_t *ids;          /* (2, max_batch) pinned: callers' ids on their way to the device; launch n uses row n % 2 */
    gpur_writer *writers; /* list in order of creation; protected by the ingest lock, as is the next member */
    struct gpur_writer_state *waiting; /* states from a loaded file that wait for writers to be created */
    _Atomic int64_t drawn; /* transitions sampled or gathered, for gpur_replay_get_stats */
};

#endif
