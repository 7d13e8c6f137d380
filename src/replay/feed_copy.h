/* SPDX-License-Identifier: MIT */
/* How the bytes of rows and frames get into their rings: by copies, or by the kernel that scatters fields. All on the
 * feed's copy stream, to slots that have been reserved. */
#ifndef GPUR_REPLAY_FEED_COPY_H
#define GPUR_REPLAY_FEED_COPY_H

#include "replay/copies.h"
#include "replay/feed.h"

/* Rows as they lie in the ring: in one run, or in two at the ring's end; or by way of the feed's block. */
gpur_status gpur_copy_rows(gpur_feed *feed, const unsigned char *rows, int64_t first_slot, int64_t count);
gpur_status gpur_scatter_rows(gpur_feed *feed, const unsigned char *rows, int64_t first_slot, int64_t count);

gpur_status gpur_copy_frames(gpur_feed *feed, const gpur_feed_part *part, int64_t first_frame);

/* `rewards` NULL: none is clipped. */
gpur_status gpur_scatter_arrays(gpur_feed *feed, const gpur_copies *copies, const void *rewards, int64_t first_slot,
                                int64_t count);

#endif
