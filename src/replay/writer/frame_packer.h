/* SPDX-License-Identifier: MIT */
/*
 * Packs the frames of environments, so that each is rebuilt from itself and at most one key frame
 * (kernels/lib/frame_codes.h). A frame that does not get smaller is packed as it is.
 */
#pragma once

#include "device/device.h"
#include "kernels/args_frames.h"

enum { GPUR_KEY_FRAMES = 16 }; /* the most frames that a key frame serves, itself included */

/* Buffers, for one thread. A frame in them follows 3 strides of zeros. */
typedef struct gpur_frame_packer {
    gpur_device *device;  /* not retained */
    int64_t frame_bytes;  /* as a caller gives them */
    int64_t padded_bytes; /* a multiple of 8 */
    int32_t stride;
    unsigned char *frame;  /* (padded_bytes) the one that is packed */
    unsigned char *words;  /* the words of its spans and blocks */
    unsigned char *groups; /* those of its groups */
    unsigned char *stored; /* its stored bytes */
    size_t bytes;          /* size of the allocation, which begins 3 strides before `frame` */
} gpur_frame_packer;

/* The key frame of an environment, and what its frames have taken since. */
typedef struct gpur_frame_key {
    unsigned char *frame;       /* (padded_bytes) */
    int64_t frames;             /* since then, itself included; 0: the next one is a key frame */
    int64_t key_length, length; /* bytes of itself, and of all */
} gpur_frame_key;

typedef struct gpur_packed {
    int32_t kind; /* GPUR_PACKED_* */
    int32_t is_key, needs_key;
    int64_t length;
} gpur_packed;

/* `line_bytes` is the size of a line of an image; of frames that are no images, any. */
gpur_status gpur_frame_packer_build(gpur_frame_packer *packer, gpur_device *device, int64_t frame_bytes,
                                    int64_t line_bytes);
void gpur_frame_packer_destroy(gpur_frame_packer *packer); /* also after a failed build */

/* Bytes that a packed frame has at most, and that `to` must have room for. */
int64_t gpur_frame_packer_room(const gpur_frame_packer *packer);

/*
 * Packs the next frame of an environment to `to`, which is at an even address. `key` has memory for a frame and is 0
 * otherwise before the first one. A key frame is begun after GPUR_KEY_FRAMES frames, where one takes more bytes than
 * the mean of those before it, and where the frame alone takes fewer.
 */
gpur_packed gpur_frame_pack(const gpur_frame_packer *packer, gpur_frame_key *key, const unsigned char *frame,
                            unsigned char *to);
