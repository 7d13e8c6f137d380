/* SPDX-License-Identifier: MIT */
/* The consumers' side: what a launch sees, and its beginning. */
#include "replay/intake.h"

#include <inttypes.h>

gpur_window gpur_intake_visible(const gpur_intake *intake)
{
    const gpur_feed *const feed = &intake->feed;
    gpur_window visible = feed->mirror;
    visible.count += feed->soon;
    if (intake->flush == GPUR_FLUSH_AUTO) {
        visible.count += feed->late + intake->staged;
        const int64_t leave = gpur_feed_leaving(feed, visible.count, intake->frames.head);
        visible.first_id += leave;
        visible.first_slot = visible.first_id % feed->capacity;
        visible.count -= leave;
    }
    return visible;
}

gpur_status gpur_intake_begin_look(gpur_intake *intake)
{
    const int is_auto = intake->flush == GPUR_FLUSH_AUTO;
    if (is_auto)
        GPUR_TRY(gpur_intake_seal(intake));
    return gpur_feed_begin_look(&intake->feed, is_auto);
}

gpur_status gpur_intake_check_launch(const gpur_intake *intake, int64_t needed, int64_t burn_in)
{
    const int64_t size = gpur_intake_visible(intake).count, ever = intake->feed.evicted + size;
    const int64_t least = burn_in > needed ? burn_in : needed;
    if (size == 0)
        return gpur_fail(GPUR_TOO_FEW, "the replay is empty; a draw needs at least %" PRId64 " transition%s", least,
                         least > 1 ? "s" : "");
    if (ever < burn_in)
        return gpur_fail(GPUR_TOO_FEW,
                         "%" PRId64 " transitions have become visible so far; draws wait for min_size = %" PRId64, ever,
                         burn_in);
    if (size < needed)
        return gpur_fail(GPUR_TOO_FEW, "%" PRId64 " transitions are visible; this draw needs %" PRId64, size, needed);
    return GPUR_OK;
}

gpur_status gpur_intake_begin_launch(gpur_intake *intake, int64_t needed, int64_t burn_in)
{
    GPUR_TRY(gpur_intake_check_launch(intake, needed, burn_in));
    if (intake->flush == GPUR_FLUSH_AUTO) {
        GPUR_TRY(gpur_intake_seal(intake));
        gpur_feed_hasten(&intake->feed);
    }
    return gpur_feed_begin_launch(&intake->feed);
}
