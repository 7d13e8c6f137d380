/* SPDX-License-Identifier: MIT */
/*
 * Blocks of finished transitions: how their bytes lie, and how they are made, checked and read. (Staging blocks, in
 * storage/staging.h, are something else.)
 *
 * The rows of a block lie as in the ring, but row_bytes apart instead of `pitch`, and their links are 1 + the index of
 * a frame of the block. The frames are numbered in the order in which the links first name them, and each is named: so
 * each row stores a known number of frames, as the frame index needs, and no frame is stored for nothing.
 */
#pragma once

#include "gpureplay/block.h"
#include "replay/storage/layout.h"

#include <string.h>

enum {
    GPUR_BLOCK_HEADER = 128,
    GPUR_BLOCK_VERSION = 1,
    GPUR_MAX_BLOCK_ROWS = 1 << 20,
    GPUR_MAX_BLOCK_FRAMES = 1 << 20,
};
#define GPUR_BLOCK_MAGIC "gpurblk" /* with its NUL */

/* The field `previous` of a row in a block, whose sign alone counts: the ids that belong there are known when the block
 * is appended. */
enum {
    GPUR_BLOCK_FIRST = -1,  /* the row begins an episode */
    GPUR_BLOCK_FOLLOWS = 0, /* it does if terminated or truncated of the row before is not 0 */
    GPUR_BLOCK_LATER = 1,   /* it continues the episode of the row before */
};

/* As it lies in the first bytes of a block. */
typedef struct gpur_block_header {
    char magic[8];
    uint32_t version;    /* GPUR_BLOCK_VERSION */
    uint32_t compressed; /* 1: the payload is compressed by Zstandard */
    uint64_t checksum;   /* XXH3 of the block with 0 in this place */
    uint64_t format;
    int64_t actor, incarnation, sequence, first_step, weights_version;
    int64_t rows, frames;
    int64_t payload_bytes, raw_bytes; /* of the payload as it lies there, and of rows and frames */
    int64_t reserved[3];              /* 0 */
} gpur_block_header;

/* What the blocks of a replay look like. */
typedef struct gpur_block_spec {
    const gpur_schema *schema; /* not owned, as the next one */
    const gpur_ring_layout *layout;
    int32_t check_finite;
    float reward_clip;
    int32_t prioritized;   /* 1: the field "priority", if there is one, has first priorities */
    int32_t clipped_field; /* in the schema; -1: rewards are not clipped */
    int64_t row_bytes, frame_bytes;
    uint64_t hash;
} gpur_block_spec;

gpur_block_spec gpur_block_spec_of(const gpur_replay_config *checked, const gpur_schema *schema,
                                   const gpur_ring_layout *layout);

struct gpur_block_format {
    gpur_replay_config config; /* with every default resolved */
    gpur_schema schema;
    gpur_ring_layout layout;
    gpur_block_spec spec;
};

/* Makes the format of the blocks of a replay. */
gpur_status gpur_block_format_of(gpur_replay *replay, gpur_block_format **out);

/* Bytes of so many rows and frames. */
static inline int64_t gpur_block_raw_bytes(const gpur_block_spec *spec, int64_t rows, int64_t frames)
{
    return rows * spec->row_bytes + frames * spec->frame_bytes;
}

/* Links of a row: 2 x stack; 0 with GPUR_LAYOUT_ROWS. */
static inline int32_t gpur_block_links(const gpur_block_spec *spec)
{
    return 2 * spec->layout->frame_layout.stack;
}

/* Reads a row's links, which may lie at any address. */
static inline void gpur_block_read_links(const gpur_block_spec *spec, const unsigned char *row, uint32_t *links)
{
    memcpy(links, row, (size_t)gpur_block_links(spec) * sizeof *links);
}

/* Checks a level of compression, and that this build has it. */
gpur_status gpur_block_check_compression(int32_t level, const char *name);

/* What gpur_block_write makes a block of: rows and frames whose frames need not be numbered as a block's are. */
typedef struct gpur_block_draft {
    gpur_block_header header;    /* actor to frames */
    const void *const *fields;   /* (fields) arrays in the order of the schema, or NULL: the rows are packed */
    const unsigned char *rows;   /* (rows, row_bytes) packed rows, with links to `frames`; or NULL */
    const int32_t *links;        /* with `fields`: (rows, 2, stack), one less than a link */
    const unsigned char *frames; /* (frames, frame_bytes) */
    int32_t compression;
} gpur_block_draft;

/* Writes a block, of gpur_block_max_bytes at most. Frames that no link names are left out. */
gpur_status gpur_block_write(const gpur_block_spec *spec, const gpur_block_draft *draft, void *block, int64_t *bytes);

/* A block that has been checked, and its payload. */
typedef struct gpur_block_view {
    gpur_block_header header;
    const unsigned char *rows;   /* (rows, row_bytes) of any alignment */
    const unsigned char *frames; /* (frames, frame_bytes) */
    unsigned char *memory;       /* of the payload, if it was compressed */
} gpur_block_view;

/* A block is checked once, in two steps, and then appended as a view. The first step checks the header and the
 * checksum. */
gpur_status gpur_block_read_header(const gpur_block_spec *spec, const void *block, int64_t bytes,
                                   gpur_block_header *header);

/* The second step finds and checks rows and frames of a block whose header has been read. The view is valid as long as
 * `block` is there. To be closed whatever this returns. */
gpur_status gpur_block_open(const gpur_block_spec *spec, const void *block, const gpur_block_header *header,
                            gpur_block_view *view);

/* gpur_writer_append_block of a block that was checked as one of the writer's replay. */
gpur_status gpur_writer_append_view(gpur_writer *writer, const gpur_block_view *view);
/* Refuses numbers of frames that are not finite, if they must be. */
gpur_status gpur_block_check_finite_frames(const gpur_block_spec *spec, const void *frames, int64_t count,
                                           gpur_status refusal);
void gpur_block_close(gpur_block_view *view);

/* Fills in the caller's struct; NULL does nothing. */
gpur_status gpur_block_tell(const gpur_block_header *header, gpur_block_info *info);
