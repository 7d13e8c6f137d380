/* SPDX-License-Identifier: MIT */
/*
 * Blocks: finished transitions as bytes that travel between threads, processes and machines, and lie in files. Whoever
 * makes transitions packs them into blocks; gpur_writer_append_block appends a block to a replay. It is also the way
 * into a replay of GPUR_LAYOUT_FRAMES for finished transitions.
 *
 * Where steps of an environment are to become blocks, a packer does all of it: n-step returns, initial priorities,
 * frames stored once [Horgan et al. 2018, algorithm 1 and appendix F].
 *
 *     gpur_packer_config config;
 *     gpur_packer_config_init(&config, sizeof config);
 *     gpur_block_format_create(&replay_config, &format);
 *     gpur_packer_create(format, &config, &packer);
 *     gpur_packer_reset(packer, obs);
 *     gpur_packer_step(packer, &packer_input);
 *     gpur_packer_take(packer, 0, &block, &bytes);           // NULL: no block is full yet
 *     gpur_writer_append_block(writer, block, bytes, NULL);  // wherever the replay is
 *
 * examples/actor_learner.c is an actor that packs beside a learner that appends.
 *
 * A block is a header of 128 bytes and a payload, all little-endian:
 *
 *   the header   magic number and version; a hash of the schema; the actor, its incarnation and the block's sequence
 *                number; the environment step of the first row; the version of the weights; the numbers of rows and
 *                frames; the sizes of the payload, and an XXH3 checksum of header and payload
 *   the payload  (rows, row bytes) rows, then (frames, frame bytes) frames; compressed by Zstandard if the header says
 *                so. A row is packed like a C struct of the schema's fields in order. With GPUR_LAYOUT_FRAMES it has
 *                no obs and next_obs, begins with (2, frame_stack) uint32 in their place, and has no gap at its end:
 *                0 for no frame, which reads as zeros, or 1 + the index of a frame of this block. Frames are numbered
 *                in the order in which the rows first name them, and each is named
 *
 * A block must fit into one staging block of the replay: block_rows rows, and with GPUR_LAYOUT_FRAMES block_rows +
 * block_rows / 64 + 2 F frames, where F = min(frame_stack + n_step, 2 frame_stack). With a block_rows of twice the rows
 * of a block its frames fit however short the episodes are, as long as they are padded with zeros or with their first
 * frame. The default block_rows of a replay of 6,400 transitions or more is enough for blocks of 50.
 *
 * Blocks have no frames in common: up to frame_stack + n_step - 1 frames of a block are in the one before it, too, and
 * are stored twice. A replay needs room for them, extra_frames of capacity x (frame_stack + n_step - 1) / rows, where
 * rows are those of a block; with less it holds fewer transitions than its capacity.
 *
 * Any function that returns a status can also return GPUR_UNAVAILABLE: this build has no xxHash, or a block is
 * compressed and it has no Zstandard; the message names the package.
 */
#ifndef GPUREPLAY_BLOCK_H
#define GPUREPLAY_BLOCK_H

#include "gpureplay/writer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the blocks of a replay look like. Any number of threads may use a format at the same time. */
typedef struct gpur_block_format gpur_block_format;

/*
 * Makes the format of the blocks that fit a replay. No replay and no device is needed. Any thread.
 *
 *   config  that of the replay. Its hash covers the fields, layout, frame_stack, stack_axis, n_step, gamma and
 *           reward_clip, which must be the same on both sides; other settings may differ
 *
 *   GPUR_INVALID_ARGUMENT  a bad schema, a value out of its range, or NULL
 */
GPUR_API gpur_status gpur_block_format_create(const gpur_replay_config *config, gpur_block_format **format);
GPUR_API void gpur_block_format_destroy(gpur_block_format *format); /* NULL does nothing */

/*
 * Returns the hash of the format, which its blocks have in their headers. NULL gives 0. Any thread.
 *
 *     printf("format %016" PRIx64 "\n", gpur_block_format_hash(format)); // equal where an actor's blocks fit
 */
GPUR_API uint64_t gpur_block_format_hash(const gpur_block_format *format);

/* Returns the most bytes of a block with so many rows and frames; 0 if there can be no such block. Any thread. */
GPUR_API int64_t gpur_block_max_bytes(const gpur_block_format *format, int64_t rows, int64_t frames);

/* What a block says of itself. */
typedef struct gpur_block_info {
    uint64_t size;       /* sizeof(gpur_block_info), as the caller was compiled: set it before the call */
    uint64_t format;     /* gpur_block_format_hash of its format */
    int64_t actor;       /* the number of the actor that made it */
    int64_t incarnation; /* how often this actor was started before */
    int64_t sequence;    /* how many blocks this incarnation made before: a gap is a lost block */
    int64_t first_step;  /* the actor's environment step at which the first row begins, counted from 0. With the actor
                            it is the key of a transition [Horgan et al. 2018, appendix F] */
    int64_t version;     /* of the weights that chose the last action before the block was made */
    int64_t rows, frames;
    int64_t bytes;     /* of the block */
    int64_t raw_bytes; /* of rows and frames without compression */
} gpur_block_info;

/* Finished transitions, for gpur_block_pack. Set all members to 0 before. All arrays are in host memory. */
typedef struct gpur_block_input {
    uint64_t size; /* sizeof(gpur_block_input), as the caller was compiled */
    int64_t actor, incarnation, sequence, first_step, version; /* as in gpur_block_info; 0 or more */
    int64_t rows;                                              /* 1 to 1,048,576 */
    const void *const *fields; /* (field_count) pointers in the order of the schema, each to (rows, ...) elements.
                                  Values are as gpur_writer_append_fields takes them. With GPUR_LAYOUT_FRAMES those of
                                  obs and next_obs are not read. Of a field `previous` only the sign counts. Below 0:
                                  the row begins an episode. 0 or more: it continues that of the row before, even if
                                  terminated or truncated of that one is not 0, as with rows of several steps, of which
                                  the last ones of an episode all end with it. NULL: it begins an episode if terminated
                                  or truncated of the row before is not 0 */
    int64_t frames;            /* GPUR_LAYOUT_FRAMES: 0 to 1,048,576; else 0 */
    const void *frame_data;    /* (frames, ...) each with the shape of obs without its stack axis */
    const int32_t *links;      /* (rows, 2, frame_stack) the frames of obs, then those of next_obs, the oldest first:
                                  indices of frame_data, or -1 for no frame. A row may name at most min(frame_stack +
                                  n_step, 2 frame_stack) frames that no row before it names */
    int32_t compression;       /* level of Zstandard, 1 to 19; 0: not compressed */
} gpur_block_input;

/*
 * Packs finished transitions into a block. Rewards are clipped by the format's reward_clip. Frames that no row names
 * are left out. Any thread.
 *
 *   block   receives the block (room)
 *   room    gpur_block_max_bytes or more
 *   bytes   receives the size of the block
 *
 *   GPUR_INVALID_ARGUMENT  a value or a link out of its range, too little room, or NULL; a row that
 *                          gpur_writer_append would refuse, except that a priority of -1 is none, too. Nothing is
 *                          written
 *   GPUR_OUT_OF_MEMORY     no host memory to compress
 *
 *     const int64_t room = gpur_block_max_bytes(format, 50, 0);
 *     const gpur_block_input input = {.size = sizeof input, .rows = 50, .fields = fields};
 *     void *const block = malloc((size_t)room);
 *     int64_t bytes;
 *     gpur_block_pack(format, &input, block, room, &bytes);
 *     fwrite(block, 1, (size_t)bytes, file); // wherever it travels
 */
GPUR_API gpur_status gpur_block_pack(const gpur_block_format *format, const gpur_block_input *input, void *block,
                                     int64_t room, int64_t *bytes);

/*
 * Checks a whole block: header, sizes, checksum, format, and every link and flag of its rows. The bytes may come from
 * anywhere. Any thread.
 *
 *   block  (bytes) in host memory, at any address
 *   info   `size` is set by the caller; the other members are filled in if the block is right. May be NULL
 *
 *   GPUR_INVALID_ARGUMENT  the block is of another format (the message has both hashes), or NULL; a row that
 *                          gpur_block_pack refuses
 *   GPUR_FILE_ERROR        it is no block, is cut short or damaged; the message says what was found and what was wanted
 *   GPUR_OUT_OF_MEMORY     no host memory to decompress it
 *
 *     gpur_block_info info = {.size = sizeof info};
 *     if (gpur_block_check(format, block, bytes, &info) == GPUR_OK)
 *         printf("%" PRId64 " transitions of actor %" PRId64 "\n", info.rows, info.actor);
 *     else
 *         fprintf(stderr, "%s\n", gpur_last_error());
 */
GPUR_API gpur_status gpur_block_check(const gpur_block_format *format, const void *block, int64_t bytes,
                                      gpur_block_info *info);

/*
 * Checks a block as gpur_block_check does, and appends all of its rows, or none: their ids follow each other. It does
 * not matter which threads append to the replay meanwhile.
 *
 * A writer with link_appends fills in `previous` of the rows, which are successive transitions of one environment: give
 * each actor a writer of its own. Where episodes begin, the block says (gpur_block_input.fields). The first row of a
 * block that does not follow the one before, by actor, incarnation and sequence, gets -1. Other writers refuse rows
 * that have a field `previous`, since its ids are not known where a block is packed.
 *
 *   block  (bytes) in host memory, at any address; read before the call returns. Must not change during the call
 *   info   as in gpur_block_check, if the block is appended
 *
 *   GPUR_INVALID_ARGUMENT  also: a field `previous` and a writer without link_appends; more rows than block_rows, or
 *                          more frames than a staging block has room for (the message has both numbers)
 *   GPUR_WOULD_BLOCK       under GPUR_WHEN_FULL_ERROR: no staging block. Nothing was taken; call again
 *   others                 those of gpur_block_check; nothing was taken
 */
GPUR_API gpur_status gpur_writer_append_block(gpur_writer *writer, const void *block, int64_t bytes,
                                              gpur_block_info *info);

/*
 * A packer makes blocks from the steps of one environment. It is used by one thread at a time.
 *
 * Transitions are those that gpur_writer_step_ex would make, with the n_step, gamma and reward_clip of the format. With
 * Q values, each gets an initial priority in its field "priority": the absolute n-step TD error
 *
 *     | R + gamma^m max_a Q(s', a) - Q(s, A) |        (no second term if s' is terminal)
 *
 * of m steps from s by A to s' with the discounted rewards R [Horgan et al. 2018, section 3 and appendix F]. Both Q are
 * those that the actor computed to act in s and in s', so that no second forward pass is needed. For this a transition
 * is complete only at the step after s', where Q(s') is known. Where actions are vectors, Q(s', mu(s')) of the policy's
 * action without noise stands in the place of the maximum [ibid., section 3.2]. With two critics the priority is the
 * mean of both errors, |R + gamma^m V(s') - Q_i(s, A)|, where V(s') is what the learner's target has: the smaller one
 * of both Q_i(s', mu(s')), or of SAC the smaller one of both Q_i(s', a') minus alpha log pi(a'|s').
 */
typedef struct gpur_packer gpur_packer;

/* Settings of gpur_packer_create. gpur_packer_config_init sets the defaults. */
typedef struct gpur_packer_config {
    uint64_t size;        /* sizeof(gpur_packer_config), as the caller was compiled */
    int64_t actor;        /* written into blocks; default 0 */
    int64_t incarnation;  /* written into blocks; default 0 */
    int32_t rows;         /* of a block; 1 to 65,536, default 50 */
    int32_t num_actions;  /* length of Q rows, at most 1,048,576; with an action of float32 1. 0, the default: no
                             initial priorities, and a field "priority", if there is one, is an extra */
    int32_t observations; /* GPUR_OBSERVATIONS_* of obs, next_obs; default STACKS */
    int32_t compression;  /* as in gpur_block_input; default 0 */
    int32_t critics;      /* of action vectors with initial priorities: 1, the default, or 2 */
    int32_t reserved;     /* 0 */
} gpur_packer_config;

/* Sets every member to its default. `size` is sizeof(gpur_packer_config). Any thread. GPUR_INVALID_ARGUMENT: NULL, or a
 * size below 8 or above 65,536. */
GPUR_API gpur_status gpur_packer_config_init(gpur_packer_config *config, uint64_t size);

/*
 * Creates a packer. All of its memory is allocated here. Any thread.
 *
 *   format  must outlive the packer
 *
 * A packer takes rows + n_step rows, twice; with GPUR_LAYOUT_FRAMES also F frames for each, twice, with F as above. The
 * system gives that memory as it is used: usually one to two frames for each row.
 *
 *   GPUR_INVALID_ARGUMENT  a value out of its range, num_actions above 0 without a field "priority" of one float32 or
 *                          with actions that are neither one int32 or int64 nor float32, a schema that
 *                          gpur_writer_step_ex refuses, or NULL
 *   GPUR_OUT_OF_MEMORY     not enough memory
 */
GPUR_API gpur_status gpur_packer_create(const gpur_block_format *format, const gpur_packer_config *config,
                                        gpur_packer **packer);
GPUR_API void gpur_packer_destroy(gpur_packer *packer); /* NULL does nothing. Rows that were not taken are lost */

/*
 * Begins an episode. One that is still open ends as if truncated; its last transitions, whose Q(s') is not known, get
 * the priority NaN, which is none: the replay gives them their first one (gpur_replay_config.first_priority).
 *
 *   obs  the first observation, in host memory
 *
 *   GPUR_INVALID_ARGUMENT  a block that is full and was not taken, a byte other than 0 and 1 in a GPUR_BOOL, or NULL.
 *                          Nothing has changed
 */
GPUR_API gpur_status gpur_packer_reset(gpur_packer *packer, const void *obs);

/* One step, for gpur_packer_step. Set all members to 0 before. All arrays are in host memory. */
typedef struct gpur_packer_step_input {
    uint64_t size;      /* sizeof(gpur_packer_step_input), as the caller was compiled */
    const void *action; /* as in the schema */
    float reward;
    uint8_t terminated, truncated; /* 0 or 1, as in gpur_step_input */
    const void *next_obs;          /* after the step; at an episode's end the last one */
    const float *q;                /* (num_actions) Q values of the observation in which `action` was chosen. Action
                                      vectors: (1 + critics) Q(s, mu(s)), or what else V(s) is, and
                                      Q(s, A) of `action` by each critic */
    const float *final_q;          /* (num_actions) with `truncated`: Q values of next_obs; action vectors: V(s').
                                  NULL: the transitions that end there get the priority NaN, as in
                                  gpur_packer_reset */
    const void *const *extras;     /* as in gpur_step_input */
    int64_t version;               /* of the weights that computed q */
} gpur_packer_step_input;

/*
 * Records a step, which completes transitions.
 *
 *   GPUR_INVALID_ARGUMENT  no open episode; a flag, or a byte in a GPUR_BOOL, other than 0 and 1; q NULL with
 *                          num_actions above 0; a number that is NaN or infinite, Q values included, unless the
 *                          format's check_finite is 0: then a transition whose TD error is not finite gets the
 *                          priority NaN; an action or version out of range; NULL where an array is needed; a
 *                          stack whose older frames are not those given before; or a block that is full and was not
 *                          taken. Nothing was taken
 */
GPUR_API gpur_status gpur_packer_step(gpur_packer *packer, const gpur_packer_step_input *input);

/*
 * Takes the next block. Call it after each gpur_packer_step and gpur_packer_reset, until it has none.
 *
 *   all    1: also a block that is not full. 0: only a full one
 *   block  receives the block, or NULL if there is none. It belongs to the packer, and is valid until the next call
 *   bytes  receives its size
 *
 *   GPUR_OUT_OF_MEMORY  no host memory to compress; the rows stay
 */
GPUR_API gpur_status gpur_packer_take(gpur_packer *packer, int32_t all, const void **block, int64_t *bytes);

#ifdef __cplusplus
}
#endif
#endif
