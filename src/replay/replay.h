/* SPDX-License-Identifier: MIT */
/* What the handle holds. */
#ifndef GPUR_REPLAY_REPLAY_H
#define GPUR_REPLAY_REPLAY_H

#include "base/ticket_lock.h"
#include "gpureplay/writer.h"
#include "replay/storage/ingest.h"
#include "replay/sampler/batch.h"

struct gpur_replay {
    gpur_device *device; /* held */
    gpur_replay_config config;
    gpur_schema schema;   /* as it was given */
    gpur_storage storage; /* what lies in the rings */
    gpur_intake intake;   /* writers' side: its lock covers feed and window */
    gpur_pool *pool;

    gpur_fair_lock turn;   /* consumers' side: from gpur_consumer_begin to gpur_consumer_end */
    gpur_event *done[2];   /* end of the launches, alternately */
    int64_t launches;      /* ended */
    int64_t draws;         /* by gpur_replay_sample: the step of the next one's random numbers */
    int64_t *ids;          /* (2, max_batch) pinned: injected ids of the launches, alternately */
    gpur_writer *writers; /* in the order in which they were made; under the intake's lock, as `waiting` */
    struct gpur_writer_state *waiting; /* of a file that was loaded, for writers to come */
    _Atomic int64_t drawn; /* transitions, for the statistics */
};

#endif
