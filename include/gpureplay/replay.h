/* SPDX-License-Identifier: MIT */
/*
 * The replay: a ring of transitions in device memory, from which minibatches are drawn.
 *
 * A transition is a row of named, typed fields [the 1,000,000 x 57 table of Parr 2018, section 4, in native types].
 * Writers (writer.h) put rows into staging blocks in pinned host memory. Each block is copied to the ring as a whole
 * and becomes visible as a whole, so that a draw never sees part of one.
 *
 * Transitions have ids, which count up from 0 in the order in which they are published and never repeat. When the ring
 * is full, the oldest transitions are overwritten ("evicted").
 *
 * "Device memory" is the memory of the replay's device, which is ordinary host memory where that is the CPU. What is
 * stored is not inspected: NaN in an observation or a reward stays there, and comes out of draws as it is.
 *
 * Any call that reaches the device may also answer GPUR_DEVICE_ERROR; the replay can then only be destroyed.
 */
#ifndef GPUREPLAY_REPLAY_H
#define GPUREPLAY_REPLAY_H

#include "gpureplay/device.h"
#include "gpureplay/schedule.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A replay: the ring, its staging blocks and its pool of batches. Any thread may call between create and destroy. */
typedef struct gpur_replay gpur_replay;

/*
 * A minibatch, with a reference count (batch.h). It has one array for each field of the schema, (count, ...), and
 *   "discount" (count) float32   gamma x (1 - terminated), unless the schema has a discount of its own
 *   "weight"   (count) float32   the importance weight (priority.h); 1 where the draw was not by priority
 *   "id"       (count) int64     the transitions' ids
 * Each array is contiguous, in device memory, and aligned to 256 bytes. The contents do not change until the last
 * reference is released, or until its holder draws into it anew with gpur_replay_resample. Any thread that knows of a
 * reference may call.
 */
typedef struct gpur_batch gpur_batch;

/* Types of elements. A GPUR_BOOL is a byte of 0 or 1: appends store any other value as 1, steps refuse it. */
enum {
    GPUR_FLOAT32 = 1,
    GPUR_FLOAT16 = 2,
    GPUR_UINT8 = 3,
    GPUR_INT32 = 4,
    GPUR_INT64 = 5,
    GPUR_BOOL = 6,
};

/* The most fields in a schema, the most axes of a field, and the most bytes of a field's name, its final 0 included. */
enum { GPUR_MAX_FIELDS = 64, GPUR_MAX_DIMS = 6, GPUR_MAX_NAME = 64 };

/*
 * One field of a transition. The names obs, action, reward, next_obs, terminated and truncated mean what they mean in
 * Gymnasium; gpur_writer_step and learners look for them. A step also fills in the fields discount and previous
 * (writer.h). A field "priority" gives a transition its first priority (priority.h). Any other field is stored and
 * drawn like these. This struct will not change; settings of fields to come will be arrays of their own in
 * gpur_replay_config.
 */
typedef struct gpur_field {
    const char *name;             /* 1 to GPUR_MAX_NAME - 1 bytes, unique; copied */
    int32_t dtype;                /* GPUR_FLOAT32 ... GPUR_BOOL */
    int32_t shape[GPUR_MAX_DIMS]; /* ends at the first 0. {0}: one number; {27}; {84, 84, 4} */
} gpur_field;

/* How a draw chooses its transitions. */
enum {
    GPUR_SOURCE_AUTO = 0, /* the default. Of a replay: GPUR_PRIORITIZED if `prioritized` is 1, else GPUR_UNIFORM. Of
                             a learner: the same as its replay */
    GPUR_UNIFORM = 1,     /* uniformly, with replacement [Parr 2018, section 4] */
    GPUR_UNIFORM_DISTINCT = 2, /* uniformly, and no transition twice in one batch */
    GPUR_PRIORITIZED = 3, /* by priority, stratified: row i of a batch comes from the i-th of `count` equal parts of
                             the sum of all priorities [Schaul et al. 2016, appendix B.2.1] */
    GPUR_PRIORITIZED_PLAIN = 4, /* by priority, each row of a batch independently [ibid., eq. 1] */
};

/* What the importance weights (N P(i))^-beta are divided by [Schaul et al. 2016, section 3.4]. */
enum {
    GPUR_WEIGHT_NORM_BATCH = 0,  /* the largest weight in the batch */
    GPUR_WEIGHT_NORM_MEMORY = 1, /* the largest weight that any visible transition would have now */
    GPUR_WEIGHT_NORM_NONE = 2,   /* 1 */
};

/* How a staging block gets into the ring. The ring's contents are the same. */
enum {
    GPUR_FEED_COPY = 0,    /* the copy engine copies staging memory into the ring */
    GPUR_FEED_SCATTER = 1, /* the copy engine copies the block to device memory, and a kernel writes it into the ring.
                              On the CPU, this also makes gpur_writer_append_fields treat its arrays as device arrays */
};

/* When appended transitions are published, that is, become visible to draws. */
enum {
    GPUR_FLUSH_AUTO = 0, /* before each draw: a draw sees every transition that earlier calls of this thread appended */
    GPUR_FLUSH_MANUAL = 1, /* when a staging block is full, or when gpur_writer_flush is called; the next draw sees it.
                              A full block that overwrites transitions is copied while the next draw runs, and seen by
                              the draw after that. An append of device arrays counts as a full block, however few rows
                              it has, and takes the partly filled block with it (see gpur_writer_append_fields) */
};

/* What an append does when all staging blocks are being copied. */
enum {
    GPUR_WHEN_FULL_WAIT = 0,  /* waits for the oldest copy, which is at most two launches of training away */
    GPUR_WHEN_FULL_ERROR = 1, /* answers GPUR_WOULD_BLOCK. A step takes nothing then; an append has taken the rows that
                                 fitted, and reports how many */
};

/* The most steps in one transition, and the most frames in one observation. */
enum { GPUR_MAX_N_STEP = 64, GPUR_MAX_STACK = 16 };

/* How transitions are stored. Batches are the same, bit by bit. */
enum {
    GPUR_PACKED = 0, /* each row of the ring holds the whole transition */
    GPUR_LINKED = 1, /* each frame of an episode is stored once, in a ring of frames. A row holds links to the frames of
                        its obs and next_obs, which must have the same type and shape, and the other fields. The oldest
                        transitions are also overwritten when the ring of frames is full. Such a replay is fed by steps
                        alone (gpur_writer_step), and with GPUR_FEED_COPY */
};

/* GPUR_LINKED: the axis of obs and next_obs that counts the frames, the last of which is the newest. With frame_stack 1
 * obs needs no such axis. */
enum {
    GPUR_STACK_FIRST = 0, /* (frame_stack, ...) */
    GPUR_STACK_LAST = 1,  /* (..., frame_stack) */
};

/* GPUR_LINKED, where a writer is given single frames: the frames before the first one of an episode. */
enum {
    GPUR_PAD_ZERO = 0,   /* zeros [Mnih et al. 2015; Daley & Amato 2021] */
    GPUR_PAD_REPEAT = 1, /* copies of the episode's first frame, as Gymnasium's FrameStackObservation has them */
};

/* Settings of gpur_replay_create. gpur_replay_config_init fills in the defaults; the fields remain to be set. */
typedef struct gpur_replay_config {
    uint64_t size;            /* sizeof(gpur_replay_config), as the caller was compiled */
    int64_t capacity;         /* transitions kept; 2 or more; default 1,000,000 */
    const gpur_field *fields; /* (field_count) the schema; copied */
    int32_t field_count;      /* 1 to GPUR_MAX_FIELDS */
    int32_t index_source;     /* how gpur_replay_sample draws: GPUR_SOURCE_AUTO, GPUR_UNIFORM* or, with `prioritized`,
                                 GPUR_PRIORITIZED*; default AUTO */
    int64_t update_size; /* rows of a staging block. 0, the default: 2,000 [Parr 2018, section 5], or capacity / 16 if
                            that is less (GPUR_LINKED: capacity / 64), and at least 1 */
    int32_t staging_blocks; /* number of staging blocks, 2 to 64; default 4 */
    int32_t feed;           /* GPUR_FEED_*; default COPY */
    int32_t flush;          /* GPUR_FLUSH_*; default AUTO */
    int32_t when_full;      /* GPUR_WHEN_FULL_*; default WAIT */
    int64_t min_size;       /* burn-in: gpur_replay_sample, gpur_replay_resample and gpur_learner_train answer
                               GPUR_TOO_FEW until this many transitions have become visible, evicted ones included. 0 to
                               capacity; default 1 */
    int64_t max_batch;      /* the largest batch that will be drawn. 0, the default: 4,096, or capacity / 2 if that is
                               less, and at least 1. GPUR_LINKED: capacity / 2 / F in place of capacity / 2, where F is
                               the most frames that one transition can have: frame_stack + n_step or 2 frame_stack,
                               whichever is less */
    float gamma;            /* discount of one step, 0 to 1; default 0.99 */
    float reward_clip;      /* above 0: rewards are clipped to [-reward_clip, reward_clip] on their way into the replay,
                               however they come; the schema must have a field "reward" of one float32. 0, the default:
                               not clipped */
    uint64_t seed;          /* of the draws; default 0 */
    int32_t prioritized;    /* 1: every transition has a priority, and draws are by priority unless index_source says
                               otherwise (priority.h). The capacity is then at most 2^31 - 1. Default 0 */
    int32_t weight_norm;    /* GPUR_WEIGHT_NORM_*; default BATCH. Without `prioritized`, this and the next three must
                               have their defaults */
    float alpha;            /* transitions are drawn in proportion to priority^alpha; 0 to 10, default 0.6 */
    float priority_offset;  /* added to every priority that is given, and to a learner's |TD error|; 0 to 4,096, default
                               1e-6 */
    gpur_schedule beta;     /* exponent of the importance weights in gpur_replay_sample, by the number of its draws so
                               far; 0 to 10, default 0.4 throughout */
    int32_t n_step;         /* steps that gpur_writer_step folds into one transition, 1 to GPUR_MAX_N_STEP; default 1.
                               Above 1 the schema must have a float32 "discount" */
    int32_t layout;         /* GPUR_PACKED or GPUR_LINKED; default PACKED. frame_stack, stack_axis, stack_pad and
                               frame_slack have an effect with LINKED only, but must be in range in any case */
    int32_t frame_stack;    /* frames in one observation, 1 to GPUR_MAX_STACK; default 1 */
    int32_t stack_axis;     /* GPUR_STACK_*; default FIRST */
    int32_t stack_pad;      /* GPUR_PAD_*; default ZERO */
    int32_t reserved;       /* 0 */
    int64_t frame_slack; /* frames kept besides one for each transition; 0 to 2^32 - 1. 0, the default: capacity / 64,
                            or frame_stack + 2 n_step for each of 64 environments if that is more.
                            An episode has one frame more than it has transitions, and a transition can link to a
                            frame only while that is among the last frame_slack frames (or those of one staging
                            block, if they are more). With frame_stack + 2 n_step frames for every environment of all
                            writers, no frame is stored twice. With fewer, frames are stored repeatedly, and
                            transitions may be evicted early: gpur_writer_open refuses that if frame_slack is 0, and
                            logs it otherwise. gpur_replay_plan_bytes reports the number of frames. It is never less
                            than max_batch + update_size transitions need that have no frame in common */
} gpur_replay_config;

/* Sets every member to its default. `size` is sizeof(gpur_replay_config). The fields have no default and must be set.
 * Any thread. GPUR_INVALID_ARGUMENT: NULL or a bad size. */
GPUR_API gpur_status gpur_replay_config_init(gpur_replay_config *config, uint64_t size);

/*
 * Sets the members that a published system names to its values: capacity, gamma, reward_clip, min_size, and others. The
 * other members, among them the fields, stay as they are. A caller that sets a smaller capacity afterwards should set
 * min_size, too, which is 50,000 for the Atari systems.
 *
 *   name  "melee-gpu", "melee-dqn", "melee-double" [Parr 2018; the networks are those of Parr, Dilipkumar & Liu 2017],
 *         "nature-dqn", "nature-dueling" [Mnih et al. 2015] or "apex-dqn" [Horgan et al. 2018]. The last three are
 *         GPUR_LINKED, with stacks of 4 frames along the first axis: obs and next_obs of shape {4, 84, 84}, for
 *         example. "apex-dqn" is also prioritized, with 3 steps, and needs a field "discount"
 *
 * Any thread. GPUR_INVALID_ARGUMENT: an unknown name, NULL, or `config->size` was not set.
 */
GPUR_API gpur_status gpur_replay_config_preset(gpur_replay_config *config, const char *name);

/*
 * Makes an empty replay on `device`, and holds the device open. It uses CUDA streams of its own, except for the stream
 * that the device may have been given. All of its memory but the batches is allocated here. The replay must outlive its
 * writers and learners; batches may outlive the replay. Any thread.
 *
 *   replay  gets the handle, or NULL if the call fails
 *
 *   GPUR_INVALID_ARGUMENT  a bad schema, a value out of its range, NULL, or a capacity without room for max_batch
 *                          transitions besides a staging block that is being copied
 *   GPUR_OUT_OF_MEMORY     the replay and one batch need more memory than the device has free (on the CPU, the pinned
 *                          memory of the plan counts, too). The message has the capacity that would fit, or what leaves
 *                          no room for any
 */
GPUR_API gpur_status gpur_replay_create(gpur_device *device, const gpur_replay_config *config, gpur_replay **replay);
/* Waits for the replay's work and frees it. Batches live on until they are released. Any thread, once, when its writers
 * and learners have been destroyed and no other thread is in a call with it. NULL does nothing. */
GPUR_API void gpur_replay_destroy(gpur_replay *replay);

/* Describes a field of the schema, or an array of a batch. */
typedef struct gpur_field_info {
    uint64_t size;                /* sizeof(gpur_field_info), as the caller was compiled: set it before the call */
    char name[GPUR_MAX_NAME];     /* as in the schema, or "discount", "weight", "id" */
    int32_t dtype;                /* GPUR_FLOAT32 ... GPUR_BOOL */
    int32_t dims;                 /* number of axes; 0 for one number */
    int32_t shape[GPUR_MAX_DIMS]; /* (dims), then zeros */
    int64_t offset;               /* bytes from the start of a packed row; 0 for an array of a batch */
    int64_t bytes;                /* size of one transition's value */
} gpur_field_info;

/* Describes field `index` of the schema, 0 to field_count - 1. GPUR_INVALID_ARGUMENT: no such index, NULL, or
 * `info->size` was not set. */
GPUR_API gpur_status gpur_replay_get_field(gpur_replay *replay, int32_t index, gpur_field_info *info);

/* The number of transitions that a draw by this thread could see now. Under GPUR_FLUSH_AUTO that includes transitions
 * that have been appended and not yet published. NULL gives 0. */
GPUR_API int64_t gpur_replay_size(gpur_replay *replay);

/* 1 if a draw of one transition would succeed now: at least min_size transitions have become visible so far, and
 * gpur_replay_size is at least 1. Otherwise 0. With GPUR_UNIFORM_DISTINCT, a draw of more transitions than there are
 * answers GPUR_TOO_FEW all the same. NULL gives 0. */
GPUR_API int32_t gpur_replay_can_sample(gpur_replay *replay);

/*
 * Draws `count` of the visible transitions and gathers them into a batch of the pool [Parr 2018, section 4]. On a GPU
 * the call only enqueues this work.
 *
 *   count    1 to max_batch
 *   stream   CUDA: the cudaStream_t that will read the batch (1 is the legacy default stream). Work enqueued on it from
 *            now on waits until the batch is there. It must exist until the last reference has been released (see
 *            gpur_batch_release). NULL: call gpur_batch_sync, or gpur_batch_wait with a stream, before reading the
 *            batch. On the CPU: NULL
 *   batch    gets one reference, which the caller must release with gpur_batch_release
 *
 * The same seed, contents and sequence of draws give the same ids on the CPU and on a GPU. Any thread; draws, train
 * steps of learners and updates of priorities take turns, in the order in which they were called. Writers continue
 * meanwhile.
 *
 *   GPUR_INVALID_ARGUMENT  count out of range, NULL, or a stream on the CPU
 *   GPUR_TOO_FEW           the replay is empty; or fewer than min_size transitions have become visible so far; or, with
 *                          GPUR_UNIFORM_DISTINCT, there are fewer than `count`. The message has the counts
 *   GPUR_OUT_OF_MEMORY     no released batch is large enough, and there is no memory for another one
 */
GPUR_API gpur_status gpur_replay_sample(gpur_replay *replay, int64_t count, void *stream, gpur_batch **batch);

/*
 * Gathers the transitions with the given ids into a batch, in the order of the ids. Like gpur_replay_sample in all
 * else, but it draws nothing and does not wait for min_size. Other threads may evict a transition before the call's
 * turn comes; the call is then refused as a whole.
 *
 *   ids      (count) in host memory, read before the call returns; an id may be given repeatedly
 *   stream   as for gpur_replay_sample
 *
 *   GPUR_EVICTED           one of the transitions has been overwritten; the message has its id and the visible range
 *   GPUR_INVALID_ARGUMENT  an id that no transition has yet, or whose transition is not visible yet (the message has
 *                          the id and the visible range); or as gpur_replay_sample
 *   GPUR_TOO_FEW           the replay is empty
 *   GPUR_OUT_OF_MEMORY     as gpur_replay_sample
 */
GPUR_API gpur_status gpur_replay_gather(gpur_replay *replay, int64_t count, const int64_t *ids, void *stream,
                                        gpur_batch **batch);

/*
 * What gpur_replay_get_stats reports. Counts are since creation, and go on from a loaded file's.
 *
 * The counts include every call of this thread that has returned. While other threads work, the members from first_id
 * to bytes_fed are read at one moment, except draws and batches_*, which are read shortly afterwards. `visible` may
 * already have rows of an append that another thread has not finished, while `appended` does not have them yet.
 */
typedef struct gpur_replay_stats {
    uint64_t size;         /* sizeof(gpur_replay_stats), as the caller was compiled: set it before the call */
    int64_t first_id;      /* id of the oldest transition that a draw could see now */
    int64_t visible;       /* number of such transitions: their ids are first_id to first_id + visible - 1 */
    int64_t appended;      /* rows taken from callers */
    int64_t published;     /* rows made visible */
    int64_t evicted;       /* rows overwritten */
    int64_t blocks;        /* staging blocks, or parts of them, copied to the ring */
    int64_t episodes_cut;  /* episodes that were open when their writer was destroyed */
    int64_t draws;         /* transitions drawn or gathered */
    int64_t batches_alive; /* batches that have not been released */
    int64_t batches_made;  /* batches ever allocated; does not grow any more once the pool is large enough */
    int64_t waits;         /* how often an append had to wait for a staging block */
    double wait_seconds;   /* how long appends have waited in all */
    double append_seconds; /* time spent in append and step calls, waits included; of small calls, one in 13 is timed */
    int64_t bytes_fed;     /* bytes copied from staging to the device */
    int64_t frames_stored; /* GPUR_LINKED: frames that writers have stored, repeated ones included */
} gpur_replay_stats;

/* Reads the statistics. May wait while another thread enqueues a few operations (with GPUR_EXECUTOR_INLINE: while they
 * are carried out), but not for the device to finish a draw or a train step. GPUR_INVALID_ARGUMENT: NULL, or
 * `stats->size` was not set. */
GPUR_API gpur_status gpur_replay_get_stats(gpur_replay *replay, gpur_replay_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
