/* SPDX-License-Identifier: MIT */
/*
 * Files: a replay or a learner as it is, to go on from later, and a network's weights for anybody to read.
 *
 * All are safetensors files: 8 bytes with the length of a JSON header, the header, the data; safetensors' own Python
 * package opens them. The first two are checked to the last bit when they are read: XXH3 of the header and of each MiB
 * of the data lie in a tensor of their own, "checksums". A weights file holds the network's tensors and no other, and
 * one checksum of the whole among its notes ("__metadata__").
 *
 * Saving writes PATH.part, syncs it, exchanges the two names, syncs the folder, and removes the old file: at PATH is
 * always the old file or the new one, whole, whenever the program or the machine stops, and the old one, or none where
 * there was none, when the save fails. A PATH.part that a killed program left is used again by the next save to PATH. A
 * file that is replaced passes on its permission bits, and its owner and group where the process may set them; access
 * control lists it does not. A symbolic link at PATH is refused, in saving and in loading. Nothing takes more memory
 * than a few MiB and the file's header, but for the weights of a learner, which are held once more on the host while
 * they are loaded.
 *
 * Every function but gpur_checkpoint_options_init may also answer
 *
 *   GPUR_UNAVAILABLE   this build has no cJSON or no xxHash; the message names the packages
 *   GPUR_FILE_ERROR    a file cannot be written (with the bytes wanted and free when there is no room), or cannot be
 *                      read, is no such file, is cut short or has changed since it was written. A save leaves the old
 *                      file as it was. Only where the file system cannot exchange two names (NFS is one) and then
 *                      fails to sync the folder is the new file at PATH; the message says so. A load leaves the replay
 *                      or the learner as it was, but for what gpur_replay_load says
 *   GPUR_INTERRUPTED   the progress function said so; as with GPUR_FILE_ERROR nothing has changed
 *   GPUR_OUT_OF_MEMORY no memory. Nothing has changed, but that a save or a load of a replay may have published what
 *                      was appended, as gpur_writer_flush does
 */
#ifndef GPUREPLAY_CHECKPOINT_H
#define GPUREPLAY_CHECKPOINT_H

#include "gpureplay/learner.h"
#include "gpureplay/replay.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Hears how far a save or a load is, some times a second or more often, on the thread that called it. Other than 0 ends
 * it with GPUR_INTERRUPTED; a load that has begun to overwrite rows goes on. Must not call the library with the same
 * replay or learner, nor one of its writers or learners. */
typedef int32_t (*gpur_progress_fn)(void *user, int64_t bytes_done, int64_t bytes_in_all);

/* Options of all that is here; gpur_checkpoint_options_init fills in the defaults. Where it is asked for, NULL does. */
typedef struct gpur_checkpoint_options {
    uint64_t size;             /* sizeof(gpur_checkpoint_options), as the caller was compiled */
    gpur_progress_fn progress; /* NULL: nobody wants to hear. A load that reads its file twice counts both */
    void *progress_user;       /* handed to `progress` */
} gpur_checkpoint_options;

/* Sets every member to its default; `size` is sizeof(gpur_checkpoint_options). Any thread. GPUR_INVALID_ARGUMENT: NULL
 * or a bad size. */
GPUR_API gpur_status gpur_checkpoint_options_init(gpur_checkpoint_options *options, uint64_t size);

/*
 * Writes all that the replay holds: rows, frames, priorities, ids, counters of the draws, statistics, and each writer's
 * open episodes with the steps that wait for their n-step return.
 * Publishes everything that was appended, partly filled blocks included, whatever the flush mode. A run that goes on
 * from the file is, bit for bit, the one that goes on after the save.
 *
 * Any thread. Takes a turn like a draw: draws and training wait for it. Appends, and making and destroying writers,
 * wait as well, once those that are under way have ended; calls that only ask do not.
 *
 *   path      ends at a NUL; UTF-8 or whatever the file system takes; its folder must be there
 *   options   may be NULL
 *
 *   GPUR_INVALID_ARGUMENT  NULL
 *   GPUR_OUT_OF_MEMORY     no memory for the buffer or the header
 */
GPUR_API gpur_status gpur_replay_save(gpur_replay *replay, const char *path, const gpur_checkpoint_options *options);

/*
 * Reads such a file into a replay of the same fields, n_step, gamma, reward_clip, prioritized (and if it is,
 * priority_offset) and layout, in place of what it holds. The capacity may be another that has room for the file's
 * transitions. Linked replays must have the same capacity, frame_stack, stack_axis, stack_pad and frame_slack, too, and
 * update_size and max_batch, which settle how frames lie. Ids go on from the file's; so do alpha and the schedule of
 * beta. For a run to go on bit for bit, seed, index_source, weight_norm, capacity, update_size, flush and max_batch
 * have to be the same, too; they are not compared. Another device or feed makes no difference.
 *
 * The file of a replay that holds rows or frames is read through once to be checked, by a few threads of the library's
 * own where there are processors for them, and once more to fill memory. A replay that holds none has nothing to lose,
 * and its file is read once: a failure leaves it without any, whatever had been filled in.
 *
 * The file's writers are those that there were, in the order in which they were made. The first writer of this replay
 * that there is gets the state of the file's first, and so on; what is left waits for writers to come: each new writer
 * of as many environments as the one that is waiting longest, with its autoreset and input, gets its state. Writers
 * beyond those of the file have no open episodes then.
 *
 * Threads and waiting as gpur_replay_save.
 *
 *   GPUR_INVALID_ARGUMENT  a setting differs, or a writer's number of environments, autoreset or input, or the file has
 *                          more transitions than the replay has room for: the message has what the file has, and what
 *                          the replay has. Or NULL. Nothing has changed
 *   GPUR_FILE_ERROR        as above, or the file says what no replay comes to (counts, priorities, episodes, or frames
 *                          that are linked). Only where the file changes, or cannot be read any more, between the two
 *                          readings (the same file: another put in its place does not count) is a replay that held rows
 *                          empty then. It can be used, and loaded again: ids go on, writers go on in their episodes,
 *                          those of a linked replay store their frames anew, and states that wait for its writers are
 *                          dropped
 *   GPUR_OUT_OF_MEMORY     no memory for the buffers, the header or what writers keep. Nothing has changed
 */
GPUR_API gpur_status gpur_replay_load(gpur_replay *replay, const char *path, const gpur_checkpoint_options *options);

/*
 * Writes the learner: weights, target, optimiser, counters of steps and acts, and the copies that it acts with. With
 * the replay saved at the same point, training and acting go on from both files bit for bit. The replay is not in it.
 *
 * By the thread that trains, or while none does. Waits for the train steps enqueued; acting goes on.
 *
 *   GPUR_INVALID_ARGUMENT  NULL
 *   GPUR_OUT_OF_MEMORY     no memory for the buffer or the header
 */
GPUR_API gpur_status gpur_learner_save(gpur_learner *learner, const char *path, const gpur_checkpoint_options *options);

/*
 * Reads such a file into a learner with the same network, kind of optimiser and arrays of the optimiser. Learning rate,
 * batch size, schedules and the like are this learner's own; to go on bit for bit they have to be the same.
 *
 * By the thread that trains, or while none does; other threads may act.
 *
 *   GPUR_INVALID_ARGUMENT  the network or the optimiser differs; or NULL. Nothing has changed
 *   GPUR_FILE_ERROR        as above, or weights that are NaN or infinite, or a NaN in an array of the optimiser's: the
 *                          message has the array and how many. Nothing has changed
 *   GPUR_OUT_OF_MEMORY     no host memory for the weights. Nothing has changed
 */
GPUR_API gpur_status gpur_learner_load(gpur_learner *learner, const char *path, const gpur_checkpoint_options *options);

/*
 * Writes the online network's tensors by their names (gpur_learner_weight), float32: a plain safetensors file. Threads
 * as gpur_learner_save.
 *
 *   GPUR_INVALID_ARGUMENT  NULL
 *   GPUR_OUT_OF_MEMORY     no host memory for the weights
 */
GPUR_API gpur_status gpur_learner_save_weights(gpur_learner *learner, const char *path,
                                               const gpur_checkpoint_options *options);

/*
 * Reads a safetensors file of this network's tensors, float32 of the same shapes, and no others, whoever made it, into
 * the online network and the target; what acts follows at once. The optimiser and the counters stay. A file of
 * gpur_learner_save_weights is checked to the last bit, another one for what its header says. Threads as
 * gpur_learner_load.
 *
 *   GPUR_INVALID_ARGUMENT  a tensor is missing, is one too many, or has another type or shape; or NULL
 *   GPUR_FILE_ERROR        as above, or weights that are NaN or infinite: the message has the tensor and how many
 *   GPUR_OUT_OF_MEMORY     no host memory for the file
 */
GPUR_API gpur_status gpur_learner_load_weights(gpur_learner *learner, const char *path,
                                               const gpur_checkpoint_options *options);

/* What gpur_checkpoint_get_info tells. What a file of its kind does not have is -1. */
typedef struct gpur_checkpoint_info {
    uint64_t size;     /* sizeof(gpur_checkpoint_info), as the caller was compiled: set it before the call */
    char kind[16];     /* "replay", "learner", "weights"; "safetensors" for a file of somebody else's */
    char version[16];  /* of the library that wrote it; "" for somebody else's */
    int64_t bytes;     /* of the file */
    int64_t tensors;   /* in it, "checksums" included */
    int64_t rows;      /* replay: transitions */
    int64_t capacity;  /* replay */
    int64_t first_id;  /* replay: id of the oldest transition */
    int64_t writers;   /* replay: whose open episodes are in it */
    int64_t steps;     /* learner: train steps done */
    int64_t weights;   /* learner, weights: numbers in the network */
} gpur_checkpoint_info;

/*
 * Reads a file's header, and says what is in it. The data are not read, so their checksums are not compared. Any
 * thread.
 *
 *   GPUR_INVALID_ARGUMENT  NULL, or `info->size` was not set
 *   GPUR_FILE_ERROR        it cannot be read, or is no safetensors file
 */
GPUR_API gpur_status gpur_checkpoint_get_info(const char *path, gpur_checkpoint_info *info);

#ifdef __cplusplus
}
#endif
#endif
