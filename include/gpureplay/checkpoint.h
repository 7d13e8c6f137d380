/* SPDX-License-Identifier: MIT */
/*
 * Files: a replay or a learner, to continue from later; and the weights of a network.
 *
 * Each is a safetensors file: 8 bytes with the length of a JSON header, the header, and the data. The safetensors
 * package for Python opens them. The files of replays and learners hold XXH3 checksums of the header and of each MiB of
 * data, in a tensor "checksums"; reading compares every one of them. A weights file holds the network's tensors alone,
 * and one checksum of them all in its "__metadata__".
 *
 * Saving writes PATH.part, syncs it to disk, exchanges the two names, syncs the folder and removes the old file. If the
 * program is killed or the machine stops, PATH is either the old file or the new one, complete. If a save fails, PATH
 * is the old file, or there is none if there was none. The next save to PATH overwrites a PATH.part that was left
 * behind. A new file gets the permission bits of the file that it replaces, and its owner and group if the process may
 * set them; access control lists are not copied. A symbolic link at PATH is refused in saving and in loading. Saving
 * and loading take a few MiB of memory and the size of the header; loading a learner takes its weights once more in
 * host memory.
 *
 * Every function except gpur_checkpoint_options_init may also return
 *
 *   GPUR_UNAVAILABLE    this build has no cJSON or no xxHash; the message names the packages
 *   GPUR_FILE_ERROR     a file cannot be written (if the disk is full, the message has the bytes needed and available),
 *                       or cannot be read, is not such a file, is cut short or damaged. A failed save leaves the old
 *                       file, with one exception: a file system that cannot exchange two names (NFS, for one) and then
 *                       fails to sync the folder leaves the new file, and the message says so. A failed load leaves the
 *                       replay or the learner as it was; gpur_replay_load documents one exception
 *   GPUR_INTERRUPTED    the progress function asked to stop; files and objects are as after GPUR_FILE_ERROR
 *   GPUR_OUT_OF_MEMORY  there is not enough memory. Nothing has changed, except that saving or loading a replay may
 *                       have published rows that were appended, as gpur_writer_flush does
 */
#ifndef GPUREPLAY_CHECKPOINT_H
#define GPUREPLAY_CHECKPOINT_H

#include "gpureplay/learner.h"
#include "gpureplay/replay.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Reports the progress of a save or a load several times a second, in the calling thread. A return value other than 0
 * ends the call with GPUR_INTERRUPTED; a load that has begun to overwrite rows ignores it and continues. The function
 * must not call the library with the same replay or learner, or with its writers or learners. */
typedef int32_t (*gpur_progress_fn)(void *user, int64_t bytes_done, int64_t bytes_in_all);

/* Options of saving and loading; gpur_checkpoint_options_init sets the defaults. NULL in place of it: the defaults. */
typedef struct gpur_checkpoint_options {
    uint64_t size;             /* sizeof(gpur_checkpoint_options), as the caller was compiled */
    gpur_progress_fn progress; /* NULL: none. A load that reads its file twice reports the bytes of both passes */
    void *progress_user;       /* the first argument of `progress` */
} gpur_checkpoint_options;

/* Sets every member to its default; `size` is sizeof(gpur_checkpoint_options). Any thread. GPUR_INVALID_ARGUMENT: NULL,
 * or not a size that this struct has had. */
GPUR_API gpur_status gpur_checkpoint_options_init(gpur_checkpoint_options *options, uint64_t size);

/*
 * Writes the contents of a replay: transitions, frames, priorities, ids, counters of draws, statistics, and the open
 * episodes of each writer, with the steps that wait for their n-step return. It first publishes everything that was
 * appended, in any flush mode. A run that continues from the file gives the same bits as one that continues after the
 * save.
 *
 * Any thread. The call takes a turn like a draw: draws and train steps wait until it ends. So do appends, and creating
 * and destroying writers; it waits for those that have begun. Functions that only report do not wait.
 *
 *   path      a string that the file system accepts as a name, in an existing folder
 *   options   may be NULL
 *
 *   GPUR_INVALID_ARGUMENT  NULL
 *   GPUR_OUT_OF_MEMORY     no memory for the buffer or the header
 */
GPUR_API gpur_status gpur_replay_save(gpur_replay *replay, const char *path, const gpur_checkpoint_options *options);

/*
 * Replaces the contents of a replay by those of a file. These settings must be the same as when the file was saved: the
 * fields, n_step, gamma, reward_clip, prioritized (and then priority_offset) and layout. A packed replay may have
 * another capacity, if the file's transitions fit into it. A linked replay must also have the same capacity,
 * frame_stack, stack_axis, stack_pad, frame_slack, update_size and max_batch, which determine where frames lie. Ids
 * continue from the file's. alpha and the schedule of beta become the file's. To continue with the same bits, seed,
 * index_source, weight_norm, capacity, update_size, flush and max_batch must be the same, too; the call does not
 * compare them. The device and the feed may differ.
 *
 * If the replay holds transitions, the file is read twice: once to check all of it, by several threads if there are
 * cores for them, and once to fill memory. If the replay is empty, the file is read once, and a failure leaves the
 * replay empty.
 *
 * The file also has the state of the writers, in the order in which they were created. The first existing writer of
 * this replay gets the first state, and so on. States that are left are kept for new writers: a new writer gets the
 * oldest of them if it has the same number of environments, autoreset and input. A writer for which there is no state
 * has no open episodes afterwards.
 *
 * Threads and waiting as gpur_replay_save.
 *
 *   GPUR_INVALID_ARGUMENT  a setting differs, or a writer's number of environments, autoreset or input, or the file has
 *                          more transitions than the capacity; the message has the value of the file and that of the
 *                          replay. Or NULL. Nothing has changed
 *   GPUR_FILE_ERROR        as above, or the file has counts, priorities, episodes or links that no replay can have. One
 *                          case changes the replay: if the file itself changes or becomes unreadable between the two
 *                          passes, a replay that held transitions is empty afterwards. It can be used and loaded again:
 *                          ids continue, writers continue their episodes, writers of a linked replay store their frames
 *                          again, and states that were kept for new writers are dropped
 *   GPUR_OUT_OF_MEMORY     no memory for the buffers, the header or the writers' state. Nothing has changed
 */
GPUR_API gpur_status gpur_replay_load(gpur_replay *replay, const char *path, const gpur_checkpoint_options *options);

/*
 * Writes a learner: online and target weights, the state of the optimizer, the counters of train steps and actions, and
 * the copies of the weights that it acts with. The replay is not in the file. A run that continues from this file and
 * from the replay's file, saved at the same point, gives the same bits.
 *
 * By the thread that trains, or while none does. The call waits for the train steps that are enqueued; other threads
 * may act.
 *
 *   GPUR_INVALID_ARGUMENT  NULL
 *   GPUR_OUT_OF_MEMORY     no memory for the buffer or the header
 */
GPUR_API gpur_status gpur_learner_save(gpur_learner *learner, const char *path, const gpur_checkpoint_options *options);

/*
 * Reads such a file into a learner with the same network and kind of optimizer. Other settings, such as the learning
 * rate, the batch size and schedules, stay this learner's; to continue with the same bits they must be the same.
 *
 * By the thread that trains, or while none does; other threads may act.
 *
 *   GPUR_INVALID_ARGUMENT  the network or the optimizer differs; or NULL. Nothing has changed
 *   GPUR_FILE_ERROR        as above, or weights are NaN or infinite, or the optimizer's state has a NaN; the message
 *                          has the array and how many values. Nothing has changed
 *   GPUR_OUT_OF_MEMORY     no host memory for the weights. Nothing has changed
 */
GPUR_API gpur_status gpur_learner_load(gpur_learner *learner, const char *path, const gpur_checkpoint_options *options);

/*
 * Writes the online network's tensors in float32, under the names that gpur_learner_weight reports. Threads as
 * gpur_learner_save.
 *
 *   GPUR_INVALID_ARGUMENT  NULL
 *   GPUR_OUT_OF_MEMORY     no host memory for the weights
 */
GPUR_API gpur_status gpur_learner_save_weights(gpur_learner *learner, const char *path,
                                               const gpur_checkpoint_options *options);

/*
 * Sets the weights of the online and the target network from a safetensors file, which any program may have written. It
 * must have this network's tensors, in float32 and of the same shapes, and no others. Actions use the new weights at
 * once. The state of the optimizer and the counters do not change. The checksum of a file from
 * gpur_learner_save_weights is compared; other files have none. Threads as gpur_learner_load.
 *
 *   GPUR_INVALID_ARGUMENT  a tensor is missing, is not this network's, or has another type or shape; or NULL
 *   GPUR_FILE_ERROR        as above, or weights are NaN or infinite; the message has the tensor and how many values
 *   GPUR_OUT_OF_MEMORY     no host memory for the file
 */
GPUR_API gpur_status gpur_learner_load_weights(gpur_learner *learner, const char *path,
                                               const gpur_checkpoint_options *options);

/* The result of gpur_checkpoint_get_info. A number that does not apply to the kind of file is -1. */
typedef struct gpur_checkpoint_info {
    uint64_t size;     /* sizeof(gpur_checkpoint_info), as the caller was compiled: set it before the call */
    char kind[16];     /* "replay", "learner", "weights"; "safetensors" for another program's file */
    char version[16];  /* of the library that wrote it; "" for another program's file */
    int64_t bytes;     /* of the file */
    int64_t tensors;   /* number of tensors, "checksums" included */
    int64_t rows;      /* replay: transitions */
    int64_t capacity;  /* replay */
    int64_t first_id;  /* replay: id of the oldest transition */
    int64_t writers;   /* replay: number of writers whose state is in the file */
    int64_t steps;     /* learner: train steps done */
    int64_t weights;   /* learner, weights: number of weights in the network */
} gpur_checkpoint_info;

/*
 * Reads the header of a file and reports what the file has. It does not read the data, so it compares no checksums of
 * them. Any thread.
 *
 *   GPUR_INVALID_ARGUMENT  NULL, or `info->size` was not set
 *   GPUR_FILE_ERROR        the file cannot be read, or is not a safetensors file
 */
GPUR_API gpur_status gpur_checkpoint_get_info(const char *path, gpur_checkpoint_info *info);

#ifdef __cplusplus
}
#endif
#endif
