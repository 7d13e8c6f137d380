/* SPDX-License-Identifier: MIT */
/*
 * The replay: a ring of transitions in device memory, from which batches are sampled.
 *
 * Terms
 *
 *   transition     one record of experience: obs, action, reward, next_obs, terminated, and fields of the caller's own.
 *                  A transition in the ring, in a staging block or in a batch is also called a row
 *   row id         the number of a transition. Ids count up from 0 in the order of appending, and are never used again.
 *                  (With GPUR_EVICT_BY_PRIORITY they do not follow this order, but are never used again either)
 *   staging block  host memory for block_rows transitions, pinned on CUDA. All writers fill the same open block
 *   upload         to copy a staging block into the ring
 *   flush          to upload the open staging block before it is full
 *   window         the transitions that can be sampled: a range of ids. To publish is to add uploaded transitions to
 *                  the window; to evict is to remove the oldest ones (or others: GPUR_EVICT_BY_PRIORITY), so that new
 *                  ones can overwrite them
 *   launch         the work that one call enqueues on the device: a batch that is sampled or gathered, of sequences,
 *                  too; up to GPUR_LAUNCH_STEPS train steps, or one on given ids; a refresh of a cache of returns;
 *                  gpur_replay_get_priorities. Launches of all threads run one after another. What is none: appends and
 *                  flushes, gpur_replay_trim, updates of priorities, gpur_replay_set_alpha, statistics, saving, acting,
 *                  and train steps on host batches without a replay's rows
 *   batch          arrays of sampled transitions in device memory
 *
 * A transition is a row of named fields, each with a type and a shape; it corresponds to a row of the table of Parr
 * 2018, section 4, which has 57 float32 numbers. Writers (writer.h) fill staging blocks. An upload is
 * published as a whole, so that no launch sees part of it. When the ring is full, the oldest transitions are evicted.
 *
 * "Device memory" is the memory of the replay's device, which is ordinary host memory where that is the CPU. Values are
 * stored as given, and numbers that are NaN or infinite are refused (check_finite).
 *
 * Any call that uses the device can also return GPUR_DEVICE_ERROR; the replay can then only be destroyed.
 */
#ifndef GPUREPLAY_REPLAY_H
#define GPUREPLAY_REPLAY_H

#include "gpureplay/device.h"
#include "gpureplay/hindsight.h"
#include "gpureplay/schedule.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A replay: the ring, its staging blocks and its pool of batches. Any thread may call its functions, and any number of
 * threads at the same time, between gpur_replay_create and gpur_replay_destroy. */
typedef struct gpur_replay gpur_replay;

/*
 * A batch of transitions, with a reference count (batch.h). It has one array for each field of the schema, of shape
 * (count, ...), and
 *
 *   "discount"  (count) float32  gamma x (1 - terminated), unless the schema has a field "discount"
 *   "weight"    (count) float32  the importance weight (priority.h); 1 if sampling was not by priority
 *   "id"        (count) int64    the row ids
 *   "relabeled" (count) bool     with hindsight (hindsight.h): 1 if the row has a new goal. Not in batches of sequences
 *
 * Each array is contiguous, in device memory, and aligned to 256 bytes. The contents do not change until the last
 * reference is released, or until gpur_replay_sample_into samples into the batch. Any thread may call the functions of
 * a batch while it, or another thread on its behalf, holds a reference.
 */
typedef struct gpur_batch gpur_batch;

/* Types of elements. A GPUR_BOOL is a byte, 0 or 1: appends store any other value as 1, steps refuse it. */
enum {
    GPUR_FLOAT32 = 1,
    GPUR_FLOAT16 = 2,
    GPUR_UINT8 = 3,
    GPUR_INT32 = 4,
    GPUR_INT64 = 5,
    GPUR_BOOL = 6,
};

/* The most fields of a schema, the most axes of a field, and the most bytes of a field's name with its final NUL. */
enum { GPUR_MAX_FIELDS = 64, GPUR_MAX_DIMS = 6, GPUR_MAX_NAME = 64 };

/*
 * One field of a transition. Fields with these names have a meaning for the library:
 *
 *   obs, action, reward, next_obs, terminated, truncated   as in Gymnasium; for gpur_writer_step and learners.
 *                                                          terminated must be one bool or uint8
 *   discount, previous   filled in by gpur_writer_step (writer.h). discount must be one float32; 0 in a transition
 *                        with terminated 1
 *   priority             one float32: the first priority of a transition in a prioritized replay (priority.h)
 *   weight, id           not allowed: every batch has these arrays
 *   relabeled            not allowed with hindsight, likewise
 *
 * All other fields are only stored and gathered. The schema is the list of fields; a row of it has at most 64 MiB. This
 * struct will not change: future settings of fields will be arrays in gpur_replay_config.
 */
typedef struct gpur_field {
    const char *name;             /* 1 to GPUR_MAX_NAME - 1 bytes, unique; copied */
    int32_t dtype;                /* GPUR_FLOAT32 ... GPUR_BOOL */
    int32_t shape[GPUR_MAX_DIMS]; /* ends at the first 0: {84, 84, 4}, for example, or {27}. {0} is one number */
} gpur_field;

/* How transitions are sampled. */
enum {
    GPUR_SOURCE_AUTO = 0,             /* the default. Of a replay: GPUR_PRIORITIZED_STRATIFIED if `prioritized` is 1,
                                         else GPUR_UNIFORM. Of a learner: the same as its replay */
    GPUR_UNIFORM = 1,                 /* uniformly, with replacement [Parr 2018, section 4] */
    GPUR_UNIFORM_DISTINCT = 2,        /* uniformly, without replacement within a batch */
    GPUR_PRIORITIZED_STRATIFIED = 3,  /* by priority, stratified: row i of a batch is sampled from the i-th of `count`
                                         equal parts of the sum of all priorities [Schaul et al. 2016, appendix
                                         B.2.1] */
    GPUR_PRIORITIZED_INDEPENDENT = 4, /* by priority, each row of a batch independently [ibid., eq. 1] */
};

/* The divisor of the importance weights (N P(i))^-beta [Schaul et al. 2016, section 3.4]. */
enum {
    GPUR_WEIGHT_NORM_BATCH = 0,  /* the largest weight in the batch */
    GPUR_WEIGHT_NORM_MEMORY = 1, /* the largest weight that any transition in the window would have now */
    GPUR_WEIGHT_NORM_NONE = 2,   /* 1: weights are not normalized */
};

/* How a staging block is uploaded. The contents of the ring are the same. */
enum {
    GPUR_UPLOAD_COPY = 0,    /* the copy engine copies the block into the ring */
    GPUR_UPLOAD_SCATTER = 1, /* the copy engine copies the block to a buffer in device memory, and a kernel writes it
                                into the ring. On the CPU, gpur_writer_append_fields then treats its arrays as device
                                arrays */
};

/* When appended transitions are published. */
enum {
    GPUR_FLUSH_AUTO = 0,   /* each launch flushes first, so it sees all earlier appends of the calling thread */
    GPUR_FLUSH_MANUAL = 1, /* when a staging block is full, or when gpur_writer_flush is called. The next launch sees a
                              block that takes free room in the ring, and a flushed one. A full block that takes the
                              room of older transitions is copied while the next launch runs, so only the launch after
                              that one sees it. Device arrays are uploaded at once, as if they were a full block, after
                              the open block (see gpur_writer_append_fields) */
};

/* What an append does when no staging block is free, because all of them are being uploaded. */
enum {
    GPUR_WHEN_FULL_WAIT = 0,  /* waits for the oldest upload, which runs after at most two launches */
    GPUR_WHEN_FULL_ERROR = 1, /* returns GPUR_WOULD_BLOCK. A step then takes nothing; an append has taken the rows for
                                 which there was room, and reports how many */
};

/* The most steps of one transition, the most frames of one observation, and the most lanes. */
enum { GPUR_MAX_N_STEP = 64, GPUR_MAX_STACK = 16, GPUR_MAX_LANES = 65536 };

/* How transitions are stored in the ring. Batches are the same, bit by bit. */
enum {
    GPUR_LAYOUT_ROWS = 0,   /* each row holds the whole transition */
    GPUR_LAYOUT_FRAMES = 1, /* each frame of an episode is stored once, in a ring of frames. A row holds all fields
                               except obs and next_obs, and for these two, which must have the same type and shape, the
                               positions of their frames in that ring ("links"). Transitions are also evicted when the
                               ring of frames is full. Transitions come from steps (gpur_writer_step) and in blocks
                               (block.h), and are uploaded with GPUR_UPLOAD_COPY */
    GPUR_LAYOUT_LANES = 2,  /* the steps of environments that step together on the device (lanes.h). Each observation
                               is stored once, a transition of any number of steps is made when it is drawn, and nothing
                               passes the host. Writers, blocks and staging do not exist here */
};

/* GPUR_LAYOUT_FRAMES and GPUR_LAYOUT_LANES: the axis of obs and next_obs that counts the frames, oldest first. With
 * frame_stack 1, obs need not have such an axis. */
enum {
    GPUR_STACK_FIRST = 0, /* (frame_stack, ...) */
    GPUR_STACK_LAST = 1,  /* (..., frame_stack) */
};

/* GPUR_LAYOUT_FRAMES with a writer that receives single frames (GPUR_OBSERVATIONS_FRAMES): the frames of an observation
 * that would lie before the first frame of its episode. */
enum {
    GPUR_PAD_ZERO = 0,   /* zeros [Mnih et al. 2015; Daley & Amato 2021] */
    GPUR_PAD_REPEAT = 1, /* copies of the episode's first frame, as in Gymnasium's FrameStackObservation */
};

/* Which transitions are evicted when the ring is full, or by gpur_replay_trim. */
enum {
    GPUR_EVICT_OLDEST = 0,
    GPUR_EVICT_BY_PRIORITY = 1, /* transitions drawn without replacement, each with a probability in proportion to
                                   priority^evict_alpha among those that are left [Horgan et al. 2018, appendix D, for
                                   DPG]. They are drawn from those that a launch would see when an upload needs their
                                   room. Which these are depends on all calls before, also on those that only read
                                   statistics: a program that reads them at other moments evicts other transitions.

                                   Needs `prioritized`, sampling by priority, priority_offset above 0,
                                   GPUR_LAYOUT_ROWS, and no field `previous`. Blocks are uploaded as with
                                   GPUR_UPLOAD_SCATTER. Until the first eviction ids count up from 0. After that, only
                                   batches tell the ids of new transitions, and no call knows at once whether an id is
                                   there. An id below 0, or above what the number of evictions so far allows, is
                                   GPUR_INVALID_ARGUMENT. For another one that is not there, gpur_replay_gather and
                                   gpur_learner_train_ids do not return GPUR_EVICTED: its row of the batch is zeros,
                                   with id -1 and weight 0. gpur_replay_get_priorities returns GPUR_EVICTED as usual */
};

/* The first priority of a transition that is given none (gpureplay/priority.h). */
enum {
    GPUR_FIRST_PRIORITY_WINDOW = 0, /* the largest in the window */
    GPUR_FIRST_PRIORITY_EVER = 1,   /* the largest that was ever given, at least 1 [Schaul et al. 2016, algorithm 1,
                                       line 6]. One outlier then makes all later transitions be sampled first, for as
                                       long as the replay lives, and after it is loaded from a file, too */
};

/* Settings of gpur_replay_create. gpur_replay_config_init sets the defaults; the fields must then be set. */
typedef struct gpur_replay_config {
    uint64_t size;            /* sizeof(gpur_replay_config), as the caller was compiled */
    int64_t capacity;         /* transitions in the ring; 2 or more; default 1,000,000 */
    const gpur_field *fields; /* (field_count) the schema; copied */
    int32_t field_count;      /* 1 to GPUR_MAX_FIELDS */
    int32_t index_source;     /* how gpur_replay_sample samples: GPUR_SOURCE_AUTO, GPUR_UNIFORM* or, with `prioritized`,
                                 GPUR_PRIORITIZED_*; default AUTO */
    int64_t block_rows;       /* rows of a staging block. 0, the default: 2,000 [Parr 2018, section 5], or capacity / 16
                                 if that is less (GPUR_LAYOUT_FRAMES: capacity / 64), and at least 1 */
    int32_t staging_blocks;   /* number of staging blocks, 2 to 64; default 4 */
    int32_t upload;           /* GPUR_UPLOAD_*; default COPY */
    int32_t flush;            /* GPUR_FLUSH_*; default AUTO */
    int32_t when_full;        /* GPUR_WHEN_FULL_*; default WAIT */
    int64_t min_size;         /* burn-in: gpur_replay_sample, gpur_replay_sample_into and gpur_learner_train return
                                 GPUR_TOO_FEW until this many transitions have become visible, including those evicted
                                 since. 0 to capacity; default 1 */
    int64_t max_batch;        /* the most transitions of one batch, 1 to 2^31 - 1. 0, the default: 4,096, or the
                                 capacity if that is less. With GPUR_UNIFORM_DISTINCT a sample needs as many visible
                                 transitions, also while a block is in flight: then at most capacity - block_rows, which
                                 takes the capacity's place in the default, too. With GPUR_LAYOUT_FRAMES
                                 capacity / 2 / F does in that default, where F = min(frame_stack + n_step,
                                 2 frame_stack) is the largest number of frames of one transition. */
    float gamma;              /* discount of one step, 0 to 1; default 0.99 */
    float reward_clip;        /* above 0: all rewards are clipped to [-reward_clip, reward_clip] before they are stored;
                                 the schema must have a field "reward" of one float32. 0, the default: not clipped */
    uint64_t seed;            /* of sampling; default 0 */
    int32_t prioritized;      /* 1: every transition has a priority, and sampling is by priority unless index_source is
                                 uniform (priority.h). The capacity is then at most 2^31 - 1. Default 0 */
    int32_t weight_norm;      /* GPUR_WEIGHT_NORM_*; default BATCH. With `prioritized` 0, weight_norm, alpha,
                                 priority_offset and beta must have their defaults */
    float alpha;              /* transitions are sampled in proportion to priority^alpha; 0 to 10, default 0.6 */
    float priority_offset;    /* added to every priority that is given, and to a learner's |TD error|; 0 to 4,096,
                                 default 1e-6 */
    gpur_schedule beta;       /* exponent of the importance weights in gpur_replay_sample. A step of this schedule is
                                 one call of gpur_replay_sample or gpur_replay_sample_into; 0 to 10, default 0.4
                                 throughout */
    int32_t n_step;           /* steps of one transition that gpur_writer_step makes, 1 to GPUR_MAX_N_STEP; default 1.
                                 Above 1 the schema must have a float32 "discount" */
    int32_t layout;           /* GPUR_LAYOUT_*; default ROWS. frame_stack, stack_axis, stack_pad and extra_frames have
                                 no effect with ROWS, but must be in range; the last two must be defaults with LANES */
    int32_t frame_stack;      /* frames in one observation, 1 to GPUR_MAX_STACK; default 1 */
    int32_t stack_axis;       /* GPUR_STACK_*; default FIRST */
    int32_t stack_pad;        /* GPUR_PAD_*; default ZERO */
    int32_t check_finite;     /* 1, the default: NaN and infinite numbers are refused: in all fields of floats but
                                 `priority`, wherever they come from host memory (steps, resets, appends, blocks, files,
                                 host batches of a learner), and in what the environments of runs and actors show. 0:
                                 they are taken. Arrays in the memory of a GPU are not searched, because that would have
                                 to wait for them */
    int64_t extra_frames;     /* frames for which the ring of frames has room beyond `capacity`, 0 to 2^32 - 1. 0, the
                                 default: capacity / 64, or 64 (frame_stack + 2 n_step) if that is more.

                                 How many are enough: frame_stack + 2 n_step for each environment of all writers. Then
                                 each frame is stored once. With fewer, frames are stored again, and so transitions may
                                 be evicted before the ring has `capacity` of them: gpur_writer_open refuses a writer
                                 for which the default is too few, and for a number of yours only tells the log.

                                 Why: an episode has one frame more than transitions; and a transition can only link to
                                 the last extra_frames frames (or as many as a staging block holds, if that is more). A
                                 frame that it needs and that is older is stored again. The ring has room for more than
                                 capacity + extra_frames frames if capacity / 2 / F + block_rows transitions (or
                                 max_batch + block_rows, if that is less, or with GPUR_UNIFORM_DISTINCT) could need
                                 more, with no frame in common; gpur_replay_plan has the number */
    int32_t eviction;         /* GPUR_EVICT_*; default OLDEST */
    float evict_alpha;        /* GPUR_EVICT_BY_PRIORITY: the exponent, -10 to 0; default -0.4. No effect otherwise, but
                                 must be in range */
    int32_t first_priority;   /* GPUR_FIRST_PRIORITY_*; default WINDOW. No effect without priorities */
    int32_t lane_autoreset;   /* GPUR_LAYOUT_LANES: GPUR_AUTORESET_* (writer.h); default DISABLED. 0 with other layouts,
                                 as the next */
    int64_t lanes;            /* GPUR_LAYOUT_LANES: environments, 1 to GPUR_MAX_LANES. The capacity is a multiple of it,
                                 lanes x the steps of each that are kept, 2 or more */
    const gpur_hindsight_config *hindsight; /* new goals for sampled transitions (hindsight.h); read before the call
                                               returns. NULL, the default: none */
} gpur_replay_config;

/* Sets every member to its default. `size` is sizeof(gpur_replay_config). The fields have no default and must be set.
 * Any thread. GPUR_INVALID_ARGUMENT: NULL, or a size below 8 or above 65,536. */
GPUR_API gpur_status gpur_replay_config_init(gpur_replay_config *config, uint64_t size);

/*
 * Sets the members that the paper of a published system specifies: capacity, gamma, reward_clip, min_size, and others.
 * All other members, among them the fields, keep their values. If you set a smaller capacity afterwards, lower
 * min_size, too: it is 50,000 for the Atari systems. Any thread.
 *
 *   name  "melee-gpu", "melee-dqn", "melee-double" [Parr 2018; the networks are those of Parr, Dilipkumar & Liu 2017],
 *         "nature-dqn" [Mnih et al. 2015] and, with the same replay, "nature-dueling", "qr-dqn" and "c51", or
 *         "apex-dqn" [Horgan et al. 2018]. All but the first three have the layout GPUR_LAYOUT_FRAMES, with stacks of 4
 *         frames along the first axis: obs and next_obs of shape {4, 84, 84}, for example. "apex-dqn" also sets
 *         prioritized and n_step = 3, and needs a field "discount"
 *
 *   GPUR_INVALID_ARGUMENT  an unknown name, NULL, or `config->size` was not set; the config is unchanged
 *
 *     gpur_replay_config config;
 *     gpur_replay_config_init(&config, sizeof config);
 *     gpur_replay_config_preset(&config, "nature-dqn");
 *     config.fields = schema, config.field_count = 5;
 *     config.capacity = 100000, config.min_size = 5000; // smaller than the paper's
 *     gpur_replay_create(device, &config, &replay);
 */
GPUR_API gpur_status gpur_replay_config_preset(gpur_replay_config *config, const char *name);

/*
 * Creates an empty replay on `device`. All of its memory is allocated here, except for batches, which are allocated
 * when they are first needed. The replay creates its own CUDA streams, except that sampling and training run on the
 * stream that was given to gpur_device_open, if any. It keeps the device open. The replay must outlive its writers and
 * learners; batches may outlive the replay. Any thread.
 *
 *   replay  receives the handle, or NULL if the call fails; destroy it with gpur_replay_destroy
 *
 *   GPUR_INVALID_ARGUMENT  a bad schema, a value out of its range, NULL, or a capacity that has no room for a
 *                          transition beside the staging block that is being uploaded, or with GPUR_UNIFORM_DISTINCT
 *                          for max_batch of them
 *   GPUR_OUT_OF_MEMORY     the replay and one batch need more memory than the device has free (on the CPU, pinned
 *                          memory counts, too). The message has the capacity that would fit, or, if none would, which
 *                          other settings take the memory
 */
GPUR_API gpur_status gpur_replay_create(gpur_device *device, const gpur_replay_config *config, gpur_replay **replay);
/* Waits for the replay's work, and then frees the replay. Batches remain valid until they are released. Call it once,
 * from any thread, when the replay's writers and learners have been destroyed and no other thread is inside of a call
 * with the replay. NULL does nothing. */
GPUR_API void gpur_replay_destroy(gpur_replay *replay);

/* Describes a field of the schema, or an array of a batch. */
typedef struct gpur_field_info {
    uint64_t size;                /* sizeof(gpur_field_info), as the caller was compiled: set it before the call */
    char name[GPUR_MAX_NAME];     /* as in the schema, or "discount", "weight", "id" */
    int32_t dtype;                /* GPUR_FLOAT32 ... GPUR_BOOL */
    int32_t dims;                 /* number of axes; 0 for one number */
    int32_t shape[GPUR_MAX_DIMS]; /* (dims), then zeros */
    int64_t offset;               /* bytes from the start of a packed row; 0 for an array of a batch */
    int64_t bytes;                /* bytes of one transition's value */
} gpur_field_info;

/*
 * Describes one field of the schema. Any thread.
 *
 *   index  0 to field_count - 1
 *   info   `size` is set by the caller; the other members are filled in
 *
 *   GPUR_INVALID_ARGUMENT  no such index, NULL, or `info->size` was not set
 */
GPUR_API gpur_status gpur_replay_get_field(gpur_replay *replay, int32_t index, gpur_field_info *info);

/* Returns the number of transitions that a launch of the calling thread would see now. Under GPUR_FLUSH_AUTO that
 * includes transitions that are appended and not published yet. NULL gives 0. Any thread. */
GPUR_API int64_t gpur_replay_size(gpur_replay *replay);

/* Returns 1 if sampling one transition would succeed now, which means that at least min_size transitions have become
 * visible so far, and that gpur_replay_size is at least 1. Otherwise returns 0. With GPUR_UNIFORM_DISTINCT, sampling
 * more transitions than gpur_replay_size still returns GPUR_TOO_FEW. NULL gives 0. Any thread. */
GPUR_API int32_t gpur_replay_can_sample(gpur_replay *replay);

/*
 * Evicts the oldest visible transitions, or those that `eviction` chooses, until at most `keep` are visible. A replay
 * whose capacity is larger than the memory that is wanted, and which is trimmed now and then, has a soft capacity:
 * appends take the room above it, and overwrite nothing between two trims unless the capacity itself is reached
 * [Horgan et al. 2018, section 4.1: 2 million transitions, trimmed every 100 train steps]. The evicted transitions are
 * the oldest, or are chosen, at this point in the order of calls, and later launches do not see them. Publishes first,
 * like gpur_replay_update_priorities. Ids, open episodes and the count for min_size go on. Any thread.
 *
 *   keep  0 to capacity. 0 empties the replay: samples and train steps return GPUR_TOO_FEW until transitions come
 *
 *   GPUR_INVALID_ARGUMENT  keep out of range, or NULL; nothing is evicted
 */
GPUR_API gpur_status gpur_replay_trim(gpur_replay *replay, int64_t keep);

/*
 * Samples `count` transitions of the window and gathers them into a batch [Parr 2018, section 4; by priority: Schaul et
 * al. 2016, eq. 1]. On a GPU the call only enqueues this work.
 *
 *   count    1 to max_batch
 *   stream   CUDA: the cudaStream_t that will read the batch (1 is the legacy default stream). Work enqueued on it
 *            after the call waits until the batch is filled. It must not be under capture now, and must exist until the
 *            last reference to the batch has been released (see gpur_batch_release). NULL: before you read the batch,
 *            call gpur_batch_sync, or gpur_batch_wait with the stream that reads it. On the CPU: NULL
 *   batch    receives the batch, or NULL if the call fails. The caller owns one reference and must release it with
 *            gpur_batch_release
 *
 * The same seed, contents and sequence of calls give the same ids on the CPU and on a GPU. Any thread. Calls that
 * sample or gather, train steps of learners, and updates of priorities run one at a time, in the order in which they
 * were called. Writers continue meanwhile.
 *
 *   GPUR_INVALID_ARGUMENT  count out of range, NULL, a stream on the CPU, a stream under capture, or the stream 2 (the
 *                          per-thread default stream, see gpur_batch_wait)
 *   GPUR_TOO_FEW           the replay is empty; or fewer than min_size transitions have become visible so far; or, with
 *                          GPUR_UNIFORM_DISTINCT, fewer than `count` are visible. The message has the counts
 *   GPUR_OUT_OF_MEMORY     no released batch is large enough, and there is no memory for another one
 */
GPUR_API gpur_status gpur_replay_sample(gpur_replay *replay, int64_t count, void *stream, gpur_batch **batch);

/*
 * Gathers the transitions with the given ids into a batch, in the order of the ids. Like gpur_replay_sample otherwise,
 * except that it does not wait for min_size. If another thread evicts one of the transitions while this call waits
 * for others, the call is refused as a whole.
 *
 *   count    1 to max_batch
 *   ids      (count) in host memory, read before the call returns; an id may occur several times
 *   stream   as in gpur_replay_sample
 *   batch    as in gpur_replay_sample
 *
 *   GPUR_EVICTED           one of the transitions was overwritten; the message has its id and the visible ids
 *   GPUR_INVALID_ARGUMENT  an id that is not in use yet, or whose transition is not visible yet (the message has the id
 *                          and the visible ids); or as in gpur_replay_sample
 *   GPUR_TOO_FEW           the replay is empty
 *   GPUR_OUT_OF_MEMORY     as in gpur_replay_sample
 */
GPUR_API gpur_status gpur_replay_gather(gpur_replay *replay, int64_t count, const int64_t *ids, void *stream,
                                        gpur_batch **batch);

/*
 * What gpur_replay_get_stats reports. Counts start with the creation of the replay, or continue those of a loaded file.
 *
 * They include every call that the calling thread has made. While other threads work, all members except sampled and
 * batches_* are read at the same moment, and these three shortly afterwards. `visible` may then include rows of an
 * append that another thread has not finished, which `appended` does not include yet.
 */
typedef struct gpur_replay_stats {
    uint64_t size;              /* sizeof(gpur_replay_stats), as the caller was compiled: set it before the call */
    int64_t first_id;           /* id of the oldest transition that a launch would see now. With GPUR_EVICT_BY_PRIORITY
                                   the number of transitions that have left the window by then */
    int64_t visible;            /* number of transitions that it would see: ids first_id to first_id + visible - 1, but
                                   not with GPUR_EVICT_BY_PRIORITY */
    int64_t appended;           /* transitions taken from callers */
    int64_t published;          /* transitions published */
    int64_t evicted;            /* transitions evicted */
    int64_t blocks;             /* uploads, each of at most block_rows transitions */
    int64_t truncated_on_close; /* episodes that were open when their writer was destroyed */
    int64_t sampled;            /* transitions that calls have sampled or gathered into batches; not those of train
                                   steps */
    int64_t batches_alive;      /* batches that have not been released */
    int64_t batches_made;       /* batches ever allocated; does not grow any more once the pool is large enough */
    int64_t waits;              /* how often an append or step had to wait for a staging block */
    double wait_seconds;        /* total time that appends and steps have waited */
    double append_seconds;      /* total time in append and step calls, including waits. Of calls with at most 16 KiB,
                                   one in 13 is timed and counts 13 times */
    int64_t bytes_uploaded;     /* bytes uploaded from host memory */
    int64_t frames_stored;      /* GPUR_LAYOUT_FRAMES: frames that writers have stored; a frame that was stored again
                                   counts again */
    int64_t cut_on_load;        /* open episodes of files that gpur_replay_load has cut off, because no writer could go
                                   on with them; not in files */
} gpur_replay_stats;

/*
 * Reads the statistics. Any thread. The call waits for a lock that other threads hold while they enqueue a few
 * operations (GPUR_EXECUTOR_INLINE: while they carry them out), but not for launches that are already enqueued.
 *
 *   stats  `size` is set by the caller; the other members are filled in
 *
 *   GPUR_INVALID_ARGUMENT  NULL, or `stats->size` was not set
 */
GPUR_API gpur_status gpur_replay_get_stats(gpur_replay *replay, gpur_replay_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
