/* SPDX-License-Identifier: MIT */
/* Opens the second stream of a train step, and orders it with the first. */
#include "learn/network/side.h"

gpur_status gpur_side_open(gpur_side *side, gpur_device *device)
{
    if (!gpur_device_has_second_streams(device))
        return GPUR_OK;
    GPUR_TRY(gpur_event_create(device, &side->forked));
    GPUR_TRY(gpur_event_create(device, &side->joined));
    return gpur_stream_create_unlisted(device, &side->stream);
}

void gpur_side_close(gpur_side *side)
{
    gpur_stream_destroy(side->stream);
    gpur_event_destroy(side->forked);
    gpur_event_destroy(side->joined);
}

gpur_status gpur_side_fork(const gpur_side *side, const gpur_track *first, gpur_track *track)
{
    *track = *first;
    if (!side->stream)
        return GPUR_OK;
    track->stream = side->stream, track->workspace = side->workspace;
    GPUR_TRY(gpur_event_record(side->forked, first->stream));
    return gpur_stream_wait(side->stream, side->forked);
}

gpur_status gpur_side_join(const gpur_side *side, gpur_stream *first)
{
    if (!side->stream)
        return GPUR_OK;
    GPUR_TRY(gpur_event_record(side->joined, side->stream));
    return gpur_stream_wait(first, side->joined);
}
