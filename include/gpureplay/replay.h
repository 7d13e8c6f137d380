/* SPDX-License-Identifier: MIT */
/*
 * Replay: a ring of transitions in device memory, and minibatches drawn from it.
 *
 * A transition is a row of named, typed fields [the 1,000,000 x 57 table of Parr 2018, section 4, in native types].
 * Rows come from writers (writer.h) by way of pinned staging blocks; each block is copied to the ring at once and
 * becomes visible at once, so that a draw never sees half of one.
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

/* The ring, its staging blocks and its pool of batches. Any thread may call between create and destroy. */
typedef struct gpur_replay gpur_replay;

/*
 * A minibatch, reference-counted: one array a field of the schema, (count, ...) and contiguous, and beside them
 *   "discount" (count) float32   gamma x (1 - terminated), unless the schema has a discount of its own
 *   "weight"   (count) float32   importance weight (see priority.h); 1 where a draw is not by priority
 *   "id"       (count) int64     never repeats in the life of a replay; counts up in the order of publishing
 * in device memory aligned to 256 bytes. The contents do not change until the last reference is released, or
 * its holder draws into it anew (gpur_replay_resample). Any thread
 * that knows of a reference may call.
 */
typedef struct gpur_batch gpur_batch;

/* Element types. A bool is a byte of 0 or 1: appends make every other value 1, steps refuse it (writer.h). */
enum {
    GPUR_FLOAT32 = 1,
    GPUR_FLOAT16 = 2,
    GPUR_UINT8 = 3,
    GPUR_INT32 = 4,
    GPUR_INT64 = 5,
    GPUR_BOOL = 6,
};

/* Most fields in a schema, axes in a shape, and bytes in a name with its end. */
enum { GPUR_MAX_FIELDS = 64, GPUR_MAX_DIMS = 6, GPUR_MAX_NAME = 64 };

/*
 * One field of a transition. The names obs, action, reward, next_obs, terminated and truncated mean what they mean in
 * Gymnasium, and are the ones that gpur_writer_step and the learner look for; a step also fills in discount and
 * previous (writer.h); any other field is carried along.
 */
typedef struct gpur_field {
    const char *name;             /* 1 to 63 bytes, unique; copied */
    int32_t dtype;                /* GPUR_FLOAT32 ... */
    int32_t shape[GPUR_MAX_DIMS]; /* ends at the first 0; all 0: one number. {27}, {84, 84, 4} */
} gpur_field;

/* Where a draw gets its transitions from. */
enum {
    GPUR_SOURCE_AUTO = 0,      /* the default. Of a replay: GPUR_PRIORITIZED where `prioritized` is 1, else
                                  GPUR_UNIFORM. Of a learner: what its replay draws by */
    GPUR_UNIFORM = 1,          /* with replacement [Parr 2018, section 4] */
    GPUR_UNIFORM_DISTINCT = 2, /* no transition twice in one batch */
    GPUR_PRIORITIZED = 3,       /* by priority, stratified: row i from the i-th of `count` equal parts of all priorities
                                   [Schaul et al. 2016, appendix B.2.1] */
    GPUR_PRIORITIZED_PLAIN = 4, /* by priority, each row by itself [ibid., eq. 1] */
};

/* What importance weights (N P(i))^-beta are divided by [Schaul et al. 2016, section 3.4]. */
enum {
    GPUR_WEIGHT_NORM_BATCH = 0,  /* the batch's largest */
    GPUR_WEIGHT_NORM_MEMORY = 1, /* the largest that any transition visible now would have */
    GPUR_WEIGHT_NORM_NONE = 2,   /* 1 */
};

/* How a sealed block gets into the ring. The contents are the same. */
enum {
    GPUR_FEED_COPY = 0,    /* staging to ring by copy engine */
    GPUR_FEED_SCATTER = 1, /* staging to a device block by copy engine, then a scatter-update kernel. On the CPU, arrays
                              of gpur_writer_append_fields count as device arrays with it, and as host arrays without:
                              with it they seal what is staged and go to the ring at once, even unflushed */
};

/* When a partly filled staging block is published. */
enum {
    GPUR_FLUSH_AUTO = 0,   /* before each draw: a draw sees every transition this thread's earlier calls completed */
    GPUR_FLUSH_MANUAL = 1, /* only at gpur_writer_flush, which the next draw sees. Whole blocks go by themselves: one
                              that overwrites rows is copied while the next draw runs, and seen by the draw after it.
                              An append of device arrays is a whole block, however few its rows: it seals what is
                              staged and goes at once, unflushed (see gpur_writer_append_fields) */
};

/* What an append does that finds every staging block in flight. */
enum {
    GPUR_WHEN_FULL_WAIT = 0,  /* waits for the oldest copy, which is at most two launches of training away */
    GPUR_WHEN_FULL_ERROR = 1, /* returns GPUR_WOULD_BLOCK; what fitted is in, and counted in `appended` */
};

/* Most steps in one transition, and most frames in one observation. */
enum { GPUR_MAX_N_STEP = 64, GPUR_MAX_STACK = 16 };

/* How transitions are kept. Batches are the same, bit by bit. */
enum {
    GPUR_PACKED = 0, /* a row holds all of the transition */
    GPUR_LINKED = 1, /* each frame of each episode once, in a ring of frames; a row links to those of its obs and
                        next_obs, which must be alike, and holds the other fields. The oldest transitions are
                        overwritten also when the ring of frames is full. Fed by steps alone, with GPUR_FEED_COPY */
};

/* Which axis of obs and next_obs counts the frames, the last of which is the newest. With frame_stack 1 there need be
 * none. */
enum {
    GPUR_STACK_FIRST = 0, /* (frame_stack, ...) */
    GPUR_STACK_LAST = 1,  /* (..., frame_stack) */
};

/* What stands for the frames before an episode's first, where a writer is given single frames. */
enum {
    GPUR_PAD_ZERO = 0,   /* zeros [Mnih et al. 2015; Daley & Amato 2021] */
    GPUR_PAD_REPEAT = 1, /* the episode's first frame, as Gymnasium's FrameStackObservation does */
};

/* Settings of gpur_replay_create; gpur_replay_config_init fills in the defaults. */
typedef struct gpur_replay_config {
    uint64_t size;            /* sizeof(gpur_replay_config), as the caller was compiled */
    int64_t capacity;         /* transitions kept, 2 or more; the oldest are overwritten. Default 1,000,000 */
    const gpur_field *fields; /* (field_count); the caller's, copied */
    int32_t field_count;      /* 1 to GPUR_MAX_FIELDS */
    int32_t index_source;     /* of gpur_replay_sample: GPUR_SOURCE_AUTO, GPUR_UNIFORM*, or with `prioritized`
                                 GPUR_PRIORITIZED*; a learner has its own setting, which follows this one by default */
    int64_t update_size;      /* rows a staging block holds; 0: 2,000 [Parr 2018, section 5], or if less capacity / 16,
                                 with GPUR_LINKED capacity / 64, and 1 at least */
    int32_t staging_blocks;   /* blocks in the pinned queue, 2 to 64; default 4 */
    int32_t feed;             /* GPUR_FEED_* */
    int32_t flush;            /* GPUR_FLUSH_* */
    int32_t when_full;        /* GPUR_WHEN_FULL_* */
    int64_t min_size;         /* burn-in: until so many transitions have become visible, evicted ones included, draws
                                 and gpur_learner_train answer GPUR_TOO_FEW; 0 to capacity, default 1 */
    int64_t max_batch;        /* largest batch that will be drawn; 0: 4,096, or if less capacity / 2, with GPUR_LINKED
                                 capacity / 2 / F, and 1 at least: F = frame_stack + n_step, or 2 frame_stack if less,
                                 are the most frames that one transition may have */
    float gamma;              /* discount per step, 0 to 1; default 0.99 */
    float reward_clip;        /* a field "reward" of one float32 is clipped to [-reward_clip, reward_clip], however it
                                 comes: by step, by rows, by host arrays, by device arrays; 0: not. Default 0. Refused
                                 without such a field */
    uint64_t seed;            /* of the draws; default 0 */
    int32_t prioritized;      /* 1: every transition has a priority, and draws are by priority where index_source does
                                 not say otherwise: see priority.h; default 0. The capacity may then be 2^31 - 1 at
                                 most */
    int32_t weight_norm;      /* GPUR_WEIGHT_NORM_*. Without `prioritized`, this and the next three are refused but for
                                 their defaults */
    float alpha;              /* a draw is in proportion to priority^alpha; 0 to 10, default 0.6 */
    float priority_offset;    /* added to every priority given and to a learner's |TD error|; 0 to 4,096, default
                                 1e-6 */
    gpur_schedule beta;       /* exponent of the importance weights of gpur_replay_sample, by its number of draws so far
                                 (batches); 0 to 10, default 0.4 throughout */
    int32_t n_step;           /* steps that gpur_writer_step folds into a transition, 1 to GPUR_MAX_N_STEP; default 1.
                                 Above 1 the schema must have a float32 "discount" */
    int32_t layout;           /* GPUR_PACKED or GPUR_LINKED; default PACKED. The next four and
                                 frame_slack are for LINKED; with PACKED they must be in range and make no difference,
                                 so that the layout alone can be changed, a preset's or one's own */
    int32_t frame_stack;      /* frames in an observation, 1 to GPUR_MAX_STACK; default 1 */
    int32_t stack_axis;       /* GPUR_STACK_* */
    int32_t stack_pad;        /* GPUR_PAD_* */
    int32_t reserved;         /* 0 */
    int64_t frame_slack;      /* frames kept beside one a transition; 0: capacity / 64, or if more those of 64
                                 environments. It pays for the one frame more that each episode has, and is how far back
                                 a transition may link, but for a staging block's frames if those are more: with
                                 frame_stack + 2 n_step frames of every environment of all writers, none is stored
                                 twice. With fewer they are stored again and again, and most transitions may leave
                                 early: gpur_writer_open refuses that where frame_slack is 0, and else logs it. The plan
                                 says how many frames there are: never fewer than max_batch + update_size transitions
                                 take that have no frame in common */
} gpur_replay_config;

/* Sets every member to its default; `size` is sizeof(gpur_replay_config). The fields have none: set them. Any thread.
 * GPUR_INVALID_ARGUMENT: NULL or a bad size. */
GPUR_API gpur_status gpur_replay_config_init(gpur_replay_config *config, uint64_t size);

/*
 * Sets capacity, update_size, gamma, reward_clip and min_size to those of a published system, as far as it names them;
 * the fields stay the caller's. Who sets a smaller capacity afterwards wants a smaller min_size, too: that of the
 * Atari ones is 50,000. Names: "melee-gpu", "melee-dqn", "melee-double" [Parr 2018; the networks of Parr, Dilipkumar &
 * Liu 2017], "nature-dqn", "nature-dueling" [Mnih et al. 2015], "apex-dqn" [Horgan et al. 2018]. The Atari ones are
 * GPUR_LINKED with stacks of 4 as the first axis: obs and next_obs of shape {4, 84, 84}, say. "apex-dqn" is also
 * prioritized, of 3 steps, and so wants a field "discount".
 * Any thread. GPUR_INVALID_ARGUMENT: no such name, NULL, or `config->size` was not set.
 */
GPUR_API gpur_status gpur_replay_config_preset(gpur_replay_config *config, const char *name);

/*
 * Makes an empty replay on `device`, which it keeps open; its streams are its own, but for the one that the device may
 * have been given. All of its memory but the batches is taken here. Destroying a replay waits for its work; batches
 * drawn from it live on until they are released. The replay must outlive its writers and learners. Any thread.
 *
 *   GPUR_INVALID_ARGUMENT  a bad schema, a value out of its range, or NULL; or a capacity that leaves no room for
 *                          max_batch beside the blocks in flight
 *   GPUR_OUT_OF_MEMORY     the plan and one batch are larger than the device has free (on the CPU, pinned_bytes are the
 *                          device's, too); the message has the capacity that would fit, or what leaves room for none
 */
GPUR_API gpur_status gpur_replay_create(gpur_device *device, const gpur_replay_config *config, gpur_replay **replay);
/* Waits for the replay's work and frees it; its batches stay with who holds them. Any thread, once, when no other is in
 * a call with this replay and its writers and learners are gone. Takes NULL. */
GPUR_API void gpur_replay_destroy(gpur_replay *replay);

/* One array of a transition or of a batch. */
typedef struct gpur_field_info {
    uint64_t size;  /* sizeof(gpur_field_info), as the caller was compiled: set it before the call */
    char name[GPUR_MAX_NAME];     /* as in the schema, or "discount", "weight", "id" */
    int32_t dtype;                /* GPUR_FLOAT32 ... */
    int32_t dims;                 /* 0 for one number */
    int32_t shape[GPUR_MAX_DIMS]; /* (dims), then zeros */
    int64_t offset; /* bytes from the start of a packed row; in a batch, unused and 0 */
    int64_t bytes;  /* of one transition's value */
} gpur_field_info;

/* Describes field `index` of the schema. GPUR_INVALID_ARGUMENT: no such index, NULL, or `info->size` was not set. */
GPUR_API gpur_status gpur_replay_get_field(gpur_replay *replay, int32_t index, gpur_field_info *info);

/* Transitions that a draw made now by this thread could see, completed but unpublished ones included under AUTO. NULL
 * gives 0. */
GPUR_API int64_t gpur_replay_size(gpur_replay *replay);

/* 1 when at least min_size transitions have become visible so far and gpur_replay_size is at least 1, else 0: whether a
 * draw of one transition would succeed. Under GPUR_UNIFORM_DISTINCT a larger one may still answer GPUR_TOO_FEW, with
 * the counts. NULL gives 0. */
GPUR_API int32_t gpur_replay_can_sample(gpur_replay *replay);

/*
 * Draws `count` transitions from those visible and gathers them into a batch of the pool [Parr 2018, section 4].
 *
 *   stream   NULL: read the batch after gpur_batch_sync. CUDA: a cudaStream_t (1 is the legacy default stream) that is
 *            made to wait for the batch, and behind whose work the batch's memory is reused after its release: the
 *            stream must outlive the batch (see gpur_batch_release)
 *   batch    one reference, the caller's: gpur_batch_release it
 *
 * The same seed, contents and sequence of draws give the same ids on the CPU and on a GPU. One thread at a time draws
 * from a replay (draws and learners' launches take turns, in the order in which they were called); writers go on
 * meanwhile.
 *
 *   GPUR_INVALID_ARGUMENT  count < 1 or above max_batch, NULL, or a stream on the CPU
 *   GPUR_TOO_FEW           nothing is visible, fewer than `count` for a distinct draw, or fewer than min_size have
 *                          become visible so far; the message has the counts
 *   GPUR_OUT_OF_MEMORY     no released batch is large enough, and the device has no memory for one more
 */
GPUR_API gpur_status gpur_replay_sample(gpur_replay *replay, int64_t count, void *stream, gpur_batch **batch);

/*
 * Like gpur_replay_sample, but gathers the transitions of the given ids, in their order, duplicates allowed. What
 * other threads append meanwhile may evict one before its turn, and the call is refused; a batch that comes is whole.
 * It does not wait for min_size.
 *
 *   ids      (count) in host memory, free to change when the call returns
 *   stream   as for gpur_replay_sample: it must outlive the batch
 *
 *   GPUR_EVICTED           a transition that was visible once and has been overwritten: the message has its id and the
 *                          visible range
 *   GPUR_INVALID_ARGUMENT  an id that no transition has had yet, or whose transition is not visible yet: the message
 *                          has it and the visible range; or as gpur_replay_sample
 *   GPUR_TOO_FEW           nothing is visible, so that there is no range
 */
GPUR_API gpur_status gpur_replay_gather(gpur_replay *replay, int64_t count, const int64_t *ids, void *stream,
                                        gpur_batch **batch);

/*
 * What gpur_replay_get_stats tells, since creation. All that this thread's calls have completed is in it. While other
 * threads work, first_id to bytes_fed (but for draws and batches_*) are of one moment, draws and batches_* each of one
 * shortly after; rows that another thread is about to finish are in `visible` and not yet in `appended`, and what was
 * the oldest row may have left by the time of the next call.
 */
typedef struct gpur_replay_stats {
    uint64_t size;            /* sizeof(gpur_replay_stats), as the caller was compiled: set it before the call */
    int64_t first_id;         /* id of the oldest transition that a draw made now could see */
    int64_t visible;          /* such transitions: ids first_id to first_id + visible - 1 */
    int64_t appended;         /* rows taken from callers since creation */
    int64_t published;        /* rows made visible: by a draw, a call of priority.h, or for want of room */
    int64_t evicted;          /* rows overwritten */
    int64_t blocks;           /* blocks fed */
    int64_t episodes_cut;     /* open episodes that ended with their writer, as if truncated there */
    int64_t draws;            /* transitions drawn by gpur_replay_sample, gpur_replay_resample, gpur_replay_gather */
    int64_t batches_alive;    /* batches not yet released */
    int64_t batches_made;     /* batches ever allocated; stays still once the pool is large enough */
    int64_t waits;            /* appends that had to wait for a staging block */
    double wait_seconds;      /* ... and how long in all */
    double append_seconds;    /* spent in append and step calls, waits included; of small calls one in 13 is timed */
    int64_t bytes_fed;        /* copied from staging to the device */
    int64_t frames_stored;    /* GPUR_LINKED: frames that writers have stored, repeated ones included */
} gpur_replay_stats;

/* May wait while another thread enqueues a few operations (with GPUR_EXECUTOR_INLINE: while they are carried out), and
 * not for the device to finish a draw or a train step. GPUR_INVALID_ARGUMENT: NULL, or `stats->size` was not set. */
GPUR_API gpur_status gpur_replay_get_stats(gpur_replay *replay, gpur_replay_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
