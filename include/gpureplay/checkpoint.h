/* SPDX-License-Identifier: MIT */
/*
 * Files: a replay or a learner, to continue from later; and the weights of a network.
 *
 * Each is a safetensors file: 8 bytes with the length of a JSON header, the header, and the data. The safetensors
 * package for Python opens them. The files of replays and learners contain XXH3 checksums of the header and of each MiB
 * of data, in a tensor "checksums"; loading compares all of them. A weights file contains only the network's tensors,
 * and one checksum of the whole file in its "__metadata__".
 *
 * Saving writes PATH.part, syncs it to disk, exchanges the names of the two files, syncs the folder, and removes the
 * old file. If the program is killed or the machine stops, PATH is either the old file or the new one, complete. If a
 * save fails, PATH is still the old file, or does not exist if there was none. The next save to PATH overwrites a
 * PATH.part that was left over. A new file gets the permission bits of the file that it replaces, and its owner and
 * group if the process may set them; access control lists are not copied. A symbolic link at PATH is refused, in saving
 * and in loading. Saving and loading take a few MiB of memory and the size of the header; loading a learner also takes
 * host memory for a copy of its weights and optimizer state, saving or loading weights for two copies of them, and
 * loading a replay of GPUR_LAYOUT_LANES 5 bytes a transition, 4 more with priorities, 1 more with stacks of frames, and
 * 8 a final observation.
 *
 * Every function except gpur_checkpoint_options_init can also return
 *
 *   GPUR_UNAVAILABLE    this build has no cJSON or no xxHash; the message names the packages
 *   GPUR_FILE_ERROR     a file cannot be written (if the disk is full, the message has the bytes needed and available);
 *                       or it cannot be read, is not such a file, is cut short, or is damaged. A failed save leaves the
 *                       old file, with one exception: on a file system that cannot exchange two names (such as NFS) a
 *                       failure to sync the folder leaves the new file, and the message says so. A failed load leaves
 *                       the replay or the learner unchanged; gpur_replay_load documents one exception
 *   GPUR_INTERRUPTED    the progress function asked to stop; files and objects are as after GPUR_FILE_ERROR
 *   GPUR_OUT_OF_MEMORY  not enough memory. Nothing has changed, except that saving or loading a replay may have
 *                       published appended transitions, as gpur_writer_flush does
 *   GPUR_DEVICE_ERROR   the device failed
 */
#ifndef GPUREPLAY_CHECKPOINT_H
#define GPUREPLAY_CHECKPOINT_H

#include "gpureplay/learner.h"
#include "gpureplay/replay.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Receives the progress of a save or a load, in the calling thread, after each MiB, and for weights files once. A
 * return value other than 0 ends the call with GPUR_INTERRUPTED; a load that has begun to overwrite transitions ignores
 * it and continues. The function must not call the library with the same replay or learner, or with the replay's
 * writers or learners. */
typedef int32_t (*gpur_progress_fn)(void *user, int64_t bytes_done, int64_t bytes_in_all);

/* Options of saving and loading. gpur_checkpoint_options_init sets the defaults. A NULL pointer to the options means
 * the defaults. */
typedef struct gpur_checkpoint_options {
    uint64_t size;             /* sizeof(gpur_checkpoint_options), as the caller was compiled */
    gpur_progress_fn progress; /* NULL: none. A load that reads its file twice reports the bytes of both passes */
    void *progress_user;       /* the first argument of `progress` */
} gpur_checkpoint_options;

/*
 * Sets every member to its default. `size` is sizeof(gpur_checkpoint_options). Any thread. GPUR_INVALID_ARGUMENT: NULL,
 * or a size below 8 or above 65,536.
 *
 *     gpur_checkpoint_options options;
 *     gpur_checkpoint_options_init(&options, sizeof options);
 *     options.progress = show; // int32_t show(void *user, int64_t bytes_done, int64_t bytes_in_all)
 *     gpur_replay_save(replay, "replay.safetensors", &options);
 */
GPUR_API gpur_status gpur_checkpoint_options_init(gpur_checkpoint_options *options, uint64_t size);

/*
 * Writes the contents of a replay: transitions, frames, priorities, ids, counters of sampling, statistics, and the open
 * episodes of each writer, with the steps that are waiting for their n-step return. It first publishes everything that
 * was appended, in any flush mode. A run that continues from the file gives the same bits as one that continues after
 * the save.
 *
 * Any thread. The call waits for sample calls and train steps that were called before it; later ones wait until it
 * ends. Appends, and creating and destroying writers, wait until it ends, too; it waits for those that have already
 * begun. gpur_replay_size, gpur_replay_can_sample, gpur_replay_get_stats and gpur_learner_act do not wait.
 *
 * Lanes. Of a replay of GPUR_LAYOUT_LANES the file has the steps that are kept, oldest first. Its arrays (steps, lanes,
 * ...) are "field.x" of each field x that is stored, "reward", "flags" (which transitions begin and end an episode, and
 * which can be drawn) and with priorities "priorities". "final.x" (n, ...) are final observations, and "final_ids" (n)
 * the ids of their transitions. Of an x whose values are stacks of k frames "frames.x" (steps + k - 1, lanes, ...) has
 * the frames, from k - 1 steps before the oldest on, and "final.x" the newest frames of final observations; "stacks"
 * (steps, lanes) tells how stacks are made of them. On CUDA the work on the caller's own streams must be done before
 * this call and gpur_replay_load (gpur_device_wait_stream), and none of these streams may be under capture.
 *
 *   path      the name of a file in an existing folder
 *   options   may be NULL
 *
 *   GPUR_INVALID_ARGUMENT  NULL for the replay or the path, or options that were not initialized
 *   GPUR_OUT_OF_MEMORY     no memory for the buffer or the header
 */
GPUR_API gpur_status gpur_replay_save(gpur_replay *replay, const char *path, const gpur_checkpoint_options *options);

/*
 * Replaces the contents of a replay with those of a file.
 *
 * Settings. These must be the same as those of the saved replay: the fields, n_step, gamma, reward_clip, prioritized
 * (and if that is 1, priority_offset) and layout. With GPUR_LAYOUT_ROWS the capacity may differ, if the file's
 * transitions fit. With GPUR_LAYOUT_FRAMES these must be the same, too: capacity, frame_stack, stack_axis, stack_pad,
 * extra_frames, block_rows and max_batch, which determine where frames lie. alpha and the schedule of beta become those
 * of the file. Ids continue from the file's. To continue with the same bits, seed, index_source, weight_norm, capacity,
 * block_rows, flush and max_batch must be the same as well; the call does not compare them. The device and the kind of
 * upload may differ. With GPUR_LAYOUT_LANES lanes, lane_autoreset, frame_stack and (if that is above 1) stack_axis must
 * be the same, and n_step and gamma may differ, as may the capacity: the newest steps that there is room for are
 * loaded, and transitions whose final observation finds no room cannot be drawn, and are counted (lost_finals of
 * gpur_lane_stats). To continue with the same bits, capacity, seed, index_source, weight_norm and first_priority must
 * be the same there.
 *
 * Passes. If the replay holds transitions, the file is read twice: first to check all of it, by several threads if
 * there are cores for them, and then to overwrite the replay. If the replay is empty, the file is read once, and a
 * failure leaves the replay empty.
 *
 * Writers. The transitions of the file are loaded whatever writers there are. The file also contains the state of each
 * writer, in the order in which the writers were created. The first writer of this replay gets the first state, the
 * second writer the second one, and so on, if it has the same num_envs, autoreset and observations. If it has not, the
 * open episodes of that state are cut off: their last steps that wait for an n-step return are dropped, and nothing
 * goes on with them. cut_on_load of gpur_replay_stats counts such episodes. Remaining states are stored for new
 * writers: a new writer gets the first remaining state if it has the same num_envs, autoreset and observations. A
 * writer without a state has no open episodes afterwards.
 *
 * Threads and waiting are those of gpur_replay_save.
 *
 *   path      the name of a file
 *   options   may be NULL
 *
 *   GPUR_INVALID_ARGUMENT  a setting differs, or the file has more transitions than the capacity; the message has the
 *                          value of the file and that of the replay. Or NULL for the replay or the path. Nothing has
 *                          changed
 *   GPUR_FILE_ERROR        see the top of this file; or the file has counts, priorities, episodes or links that no
 *                          replay can have. In one case the replay changes: if the file itself changes or becomes
 *                          unreadable between the two passes, a replay that held transitions is empty afterwards. It
 *                          can be used and loaded again: ids continue, writers continue their episodes, writers of a
 *                          GPUR_LAYOUT_FRAMES replay store their frames again, and states stored for new writers are
 *                          dropped; lanes are taken to begin their episodes with the next step
 *   GPUR_OUT_OF_MEMORY     no memory for the buffers, the header or the writers' state. Nothing has changed
 */
GPUR_API gpur_status gpur_replay_load(gpur_replay *replay, const char *path, const gpur_checkpoint_options *options);

/*
 * Writes a learner: online and target weights, the state of the optimizer, the counters of train steps and actions, and
 * the copies of the weights with which gpur_learner_act acts. The replay is not in the file. A run that continues from
 * this file and from the replay's file, saved at the same point, gives the same bits.
 *
 * In the thread that trains, or in any thread while none trains. The call waits for the train steps that are enqueued;
 * other threads may act.
 *
 *   path      the name of a file in an existing folder
 *   options   may be NULL
 *
 *   GPUR_INVALID_ARGUMENT  NULL for the learner or the path, options that were not initialized, or the learner has
 *                          diverged (learner.h)
 *   GPUR_FILE_ERROR        see the top of this file; or weights are NaN or infinite, or the optimizer's state has a
 *                          NaN, as gpur_learner_load would refuse
 *   GPUR_OUT_OF_MEMORY     no memory for the buffer or the header
 *
 * After any of them the file that is there stays.
 */
GPUR_API gpur_status gpur_learner_save(gpur_learner *learner, const char *path, const gpur_checkpoint_options *options);

/*
 * Loads a file of gpur_learner_save into a learner with the same network and kind of optimizer. All other settings,
 * such as the learning rate, the batch size and schedules, stay those of this learner; to continue with the same bits
 * they must be the same.
 *
 * In the thread that trains, or in any thread while none trains; other threads may act.
 *
 *   path      the name of a file
 *   options   may be NULL
 *
 *   GPUR_INVALID_ARGUMENT  the network or the optimizer differs; or NULL for the learner or the path. Nothing has
 *                          changed
 *   GPUR_FILE_ERROR        see the top of this file; or weights are NaN or infinite, or the optimizer's state has a
 *                          NaN; the message has the array and the number of such values. Nothing has changed
 *   GPUR_OUT_OF_MEMORY     no host memory for the weights. Nothing has changed
 *
 *     gpur_replay_load(replay, "replay.safetensors", NULL);
 *     if (gpur_learner_load(learner, "learner.safetensors", NULL) != GPUR_OK)
 *         fprintf(stderr, "%s\n", gpur_last_error());
 */
GPUR_API gpur_status gpur_learner_load(gpur_learner *learner, const char *path, const gpur_checkpoint_options *options);

/*
 * Writes the online network's tensors in float32, under the names that gpur_learner_get_weight_info reports, and the
 * number of train steps enqueued. Threads and waiting are those of gpur_learner_save.
 *
 *   path      the name of a file in an existing folder
 *   options   may be NULL
 *
 *   errors                 those of gpur_learner_save
 */
GPUR_API gpur_status gpur_learner_save_weights(gpur_learner *learner, const char *path,
                                               const gpur_checkpoint_options *options);

/*
 * Sets the weights of the online and of the target network from a safetensors file, which any program may have written.
 * The file must have this network's tensors, in float32 and of the same shapes, and no others. gpur_learner_act uses
 * the new weights from then on. The state of the optimizer and the counters do not change. In a file from
 * gpur_learner_save_weights or gpur_policy_save the checksum is compared; files of other programs have none. Threads
 * are those of gpur_learner_load.
 *
 *   path      the name of a file
 *   options   may be NULL
 *
 *   GPUR_INVALID_ARGUMENT  a tensor is missing, is not this network's, or has another type or shape; or NULL for the
 *                          learner or the path. Nothing has changed
 *   GPUR_FILE_ERROR        see the top of this file; or weights are NaN or infinite; the message has the tensor and the
 *                          number of such values. Nothing has changed
 *   GPUR_OUT_OF_MEMORY     no host memory for the file. Nothing has changed
 *
 *     gpur_learner_save_weights(learner, "weights.safetensors", NULL);
 *     gpur_learner_load_weights(other_learner, "weights.safetensors", NULL); // of the same network
 */
GPUR_API gpur_status gpur_learner_load_weights(gpur_learner *learner, const char *path,
                                               const gpur_checkpoint_options *options);

/* What gpur_checkpoint_get_info reports. A number that does not apply to the kind of file is -1. */
typedef struct gpur_checkpoint_info {
    uint64_t size; /* sizeof(gpur_checkpoint_info), as the caller was compiled: set it before the call */
    char kind[16]; /* "replay", "learner", "dpg", "actor-critic", "weights", or of saved runs "run", "apex" or "ga3c";
                         "safetensors" for another program's file */
    char version[16]; /* of the library that wrote the file; "" for another program's file */
    int64_t bytes;    /* size of the file */
    int64_t tensors;  /* number of tensors, including "checksums" */
    int64_t rows;     /* replay: number of transitions; of lanes those that can be drawn */
    int64_t capacity; /* replay: its capacity */
    int64_t first_id; /* replay: id of the oldest transition, or with GPUR_EVICT_BY_PRIORITY the number evicted */
    int64_t writers;  /* replay: number of writers whose state is in the file; of lanes -1 */
    int64_t steps;    /* learners: train steps done; weights: train steps enqueued before, or a policy's version */
    int64_t weights;  /* learners, weights: number of weights of the network; dpg: of the actor */
    int64_t envs;     /* replay: environments of all these writers together, or lanes */
} gpur_checkpoint_info;

/*
 * Reads the header of a file and reports what the file contains. It does not read the data, and compares no checksums.
 * Any thread.
 *
 *   path  the name of a file
 *   info  `size` is set by the caller; the other members are filled in
 *
 *   GPUR_INVALID_ARGUMENT  NULL, or `info->size` was not set
 *   GPUR_FILE_ERROR        the file cannot be read, or is not a safetensors file
 *
 *     gpur_checkpoint_info info = {.size = sizeof info};
 *     gpur_checkpoint_get_info("replay.safetensors", &info);
 *     if (strcmp(info.kind, "replay") == 0)
 *         printf("%" PRId64 " of %" PRId64 " transitions\n", info.rows, info.capacity);
 */
GPUR_API gpur_status gpur_checkpoint_get_info(const char *path, gpur_checkpoint_info *info);

#ifdef __cplusplus
}
#endif
#endif
