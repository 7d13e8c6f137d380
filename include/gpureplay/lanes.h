/* SPDX-License-Identifier: MIT */
/*
 * Lanes: experience that is born on the device. N environments step together there, such as those of a simulator on the
 * GPU, and a replay of GPUR_LAYOUT_LANES takes their steps as device arrays (N, ...). The terms are those of replay.h.
 *
 * The schema must have reward, one float32, and terminated and truncated, one bool or uint8 each. A field next_x
 * beside a field x of the same type and shape is not stored: it is x of the lane's next step. There may be any number
 * of such pairs: obs and next_obs, critic_obs and next_critic_obs, and so on. Beside reward, terminated, truncated and
 * a next_x there is none: next_reward is a field like any other. The schema must not have the fields discount,
 * previous or priority.
 *
 * The id of a transition is t x lanes + lane, where t counts the steps of all lanes from 0. A transition is drawn once
 * its next observation is known: with the step after it or, where the environment resets itself in the same step, with
 * the final observation that was given. Final observations lie in a ring of their own, with room for those of episodes
 * of 24 steps and more, and of two steps in which all lanes end. A transition whose final observation was overwritten
 * is not drawn any more, and is counted. A step that was truncated and came without its final observation is left out,
 * and counted. So is one after which the caller has reset the environment amid its episode (gpur_replay_reset_lanes).
 *
 * Stacks of images. With frame_stack = k above 1 in the config, obs is a stack of k frames along stack_axis, and so is
 * each part obs.x of two axes or more whose axis is k long; next_obs likewise. Of these only the newest frame of each
 * step is stored, and stacks are made when a batch is drawn. Steps are still given with whole stacks, oldest frame
 * first, and these must be what makes this possible:
 *
 *   - where an episode begins the older frames are all zeros, or all like the newest one (stack_pad is not used)
 *   - after that the older frames are the newest ones of the steps before; likewise in final observations
 *
 * Stacks are compared with the stored frames in the first k steps of an episode, and in the first k after a load. One
 * that differs is not a part of any transition: those that it begins or ends are left out, and it is counted
 * (broken_stacks). Later stacks are taken to be right. The first step in an empty replay may be one amid an episode:
 * all of its frames are stored.
 *
 * Every call takes a stream. On CUDA it is a cudaStream_t, and the call enqueues kernels on it and nothing else: no
 * host function, no allocation, no copy to the host. So the stream may be under capture, and a graph that was captured
 * goes on with each launch as the same calls would. All numbers that go on (steps, draws) are in device memory. The
 * graph has the addresses of the replay's memory and of the arrays: it must not be launched any more once the replay is
 * destroyed, but may itself be destroyed before or after it. Calls on one replay must be ordered by their streams, by
 * the caller; any thread may call. NULL: the call runs on the replay's own stream, and has ended when it returns, as
 * always on the CPU, where it must be NULL. That stream is the device's (gpur_device_config.stream): while the caller
 * captures it, calls with NULL, and all others that wait for it, are refused, and the capture goes on. The replay must
 * not be destroyed meanwhile.
 *
 * Numbers on the device are not looked at: NaN is stored, and is in the transitions that it is part of. The reward, ids
 * and what a draw writes beside the fields begin at a multiple of a number's size.
 *
 * Learners (learner.h, dpg.h) train from such a replay, by its n_step and gamma, on the replay's own stream: open the
 * device on the stream of the calls (gpur_device_config.stream), so that both are in order. gpur_learner_train_ids is
 * refused. A cache of returns (returns.h) needs n_step 1; its blocks are successive steps of a lane, and none goes past
 * a step that cannot be drawn, such as one whose final observation was overwritten.
 *
 * The device alone knows how many transitions can be drawn. Until it has told of as many as a learner's call needs,
 * gpur_learner_train and gpur_learner_refresh ask it, wait, and refuse with GPUR_TOO_FEW. After that they do not ask: a
 * step that still finds none changes nothing, and is counted in gpur_learner_stats.skipped.
 *
 * gpur_replay_save and gpur_replay_load (checkpoint.h) write and read files, also for another number of steps.
 */
#ifndef GPUREPLAY_LANES_H
#define GPUREPLAY_LANES_H

#include "gpureplay/replay.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Adds a step of all lanes.
 *
 *   fields  a host array (field_count), which is not read after the call, of device arrays (lanes, ...), contiguous, in
 *           the order of the schema: the observation that the step began with, the action, the reward, and so on. The
 *           array of a field next_x has the final observations of lanes whose episode has ended with this step, and is
 *           read for these alone; NULL for all of these fields: there are none, as with GPUR_AUTORESET_NEXT_STEP. NULL
 *           for truncated: no lane is. In the other modes the next step begins with the first observation of the new
 *           episode. With GPUR_AUTORESET_NEXT_STEP it begins with the last observation of the old one, and resets: its
 *           action, reward and flags are ignored, and it is no transition
 *   stream  see above
 *
 *   GPUR_INVALID_ARGUMENT  NULL, a final observation with GPUR_AUTORESET_NEXT_STEP or in the memory of x itself, an
 *                          array that is not in the memory of the replay's device, a stream of another GPU, or the
 *                          legacy default stream while CUDA forbids its use beside a capture, or a replay of another
 *                          layout; nothing was added
 */
GPUR_API gpur_status gpur_replay_add_lanes(gpur_replay *replay, const void *const *fields, void *stream);

/*
 * Says that the caller has reset environments amid their episodes since the newest step, as after an evaluation: the
 * next step of these lanes does not follow the newest one, and begins an episode. The newest step, whose next
 * observation will not come, is left out and counted in gpur_lane_stats.without_final, unless it has ended its episode
 * itself. With GPUR_AUTORESET_NEXT_STEP a step that has ended its episode needs the next one, and is left out, too; the
 * next step is then an ordinary one, and resets nothing.
 *
 *   which   (lanes) a device array, other than 0 for each lane whose environment was reset; NULL: all were
 *   stream  see above
 *
 * Before the first step nothing happens; so it does where lanes are reset twice. GPUR_INVALID_ARGUMENT: an array that
 * is not in the memory of the replay's device, a stream as above, or a replay of another layout; nothing changed.
 *
 *     gpur_replay_reset_lanes(replay, NULL, stream); // an evaluation has used the environments, and reset all
 *     gpur_replay_add_lanes(replay, fields, stream); // the first steps of new episodes
 */
GPUR_API gpur_status gpur_replay_reset_lanes(gpur_replay *replay, const uint8_t *which, void *stream);

/* What gpur_replay_draw_lanes draws, and where it goes: device arrays, contiguous, NULL where one is not wanted. */
typedef struct gpur_lane_draw {
    uint64_t size;        /* sizeof(gpur_lane_draw), as the caller was compiled */
    int64_t count;        /* rows, 1 to max_batch; has no default and must be set */
    const int64_t *ids;   /* (count) transitions to take; NULL: they are drawn by the replay's index_source */
    void *const *fields;  /* a host array (field_count) of arrays (count, ...) in the order of the schema */
    int64_t *id;          /* (count) -1: no transition */
    float *weight;        /* (count) by priority that of first steps (priority.h); else and by `ids` 1; 0: no row */
    float *discount;      /* (count) gamma^m, or 0 if the last step is terminated */
    int32_t *steps;       /* (count) m */
    int32_t n_step;       /* 1 to GPUR_MAX_N_STEP; 0, the default: the replay's */
    float gamma;          /* 0 to 1; below 0, the default: the replay's */
    int32_t of_each_lane; /* 1: count / lanes rows of each lane, those of lane 0 first. Then count must be a multiple of
                             lanes, and the replay's index_source GPUR_UNIFORM. Default 0: of all lanes together */
    /* Of sequences: 1, the default: they go on from one episode of the lane to the next. 0: they begin at the first
     * step of an episode at the earliest. */
    int32_t across_episodes;
    int64_t length;     /* rows of a sequence; count must be a multiple of it. 0, the default: single transitions */
    int64_t min_length; /* a sequence of fewer rows is drawn again; 1 to length. 0, the default: length */
    uint8_t *mask;      /* (count) of sequences: 1 if there is a row */
    uint8_t *is_first;  /* (count) of sequences: 1 if there is a row and it is the first of its episode */
} gpur_lane_draw;

/* Sets every member to its default; count must then be set. `size` is sizeof(gpur_lane_draw). Any thread.
 * GPUR_INVALID_ARGUMENT: NULL, or a size below 8 or above 65,536. */
GPUR_API gpur_status gpur_lane_draw_init(gpur_lane_draw *draw, uint64_t size);

/*
 * Draws transitions, or takes those given by id, into arrays of the caller. A transition of up to n steps is made of
 * the drawn one and those after it in its lane, until an episode ends or the newest step is reached: m steps, with
 * reward r(0) + gamma r(1) + ... + gamma^(m-1) r(m-1), each r clipped first; its terminated and truncated are those of
 * the last step, and next_x is what came after that [Sutton & Barto 2018, eq. 7.1]. Where it is not known, because a
 * truncated step came without it, the transition ends before that step. A terminated step without its final
 * observation has zeros.
 *
 * Every transition that can be drawn is as likely as any other, or likely in proportion to priority^alpha. Where there
 * is none, or none with an id, the row is zeros with id -1 and weight 0. With GPUR_UNIFORM_DISTINCT no two rows have
 * the same first step; a row that finds none which no other may have is zeros, too: so are many where less than `count`
 * transitions can be drawn, and few as long as these are several times as many. The same seed, steps and number of
 * draws give the same ids on the CPU and on a GPU.
 *
 * With `length` above 0 the arrays are of count / length sequences, (count / length, length, ...): successive
 * transitions of a lane, the oldest first, each of up to n steps as above. They are found from their last rows, which
 * are drawn, or given by `ids` (count / length), as gpur_replay_sample_sequences (sequences.h) finds them: every
 * transition that has min_length - 1 before it is as likely to be the last. Fewer than `length` are at the front, and
 * rows of zeros behind them. A step that only reset its environment is passed over; a sequence ends at an episode's
 * end that cannot be drawn.
 *
 *   GPUR_INVALID_ARGUMENT  a value out of its range, memory of another device, arrays that have memory in common (but
 *                          `ids` may be `id`), a stream as above, or a replay of another layout; nothing was drawn
 *
 *     gpur_lane_draw draw;
 *     gpur_lane_draw_init(&draw, sizeof draw);
 *     draw.count = 256, draw.fields = arrays, draw.id = ids, draw.weight = weights;
 *     gpur_replay_draw_lanes(replay, &draw, stream);
 *     // Kernels on `stream` train on `arrays`, and write |TD error| to `errors`.
 *     gpur_replay_update_lanes(replay, 256, ids, errors, stream);
 */
GPUR_API gpur_status gpur_replay_draw_lanes(gpur_replay *replay, const gpur_lane_draw *draw, void *stream);

/* What gpur_replay_get_lane_stats reports. */
typedef struct gpur_lane_stats {
    uint64_t size;         /* sizeof(gpur_lane_stats), as the caller was compiled: set it before the call */
    int64_t steps;         /* added so far */
    int64_t transitions;   /* that can be drawn now */
    int64_t draws;         /* so far; draws by id are not counted */
    int64_t finals;        /* final observations taken so far */
    int64_t without_final; /* steps that were truncated without one, or by gpur_replay_reset_lanes; left out */
    int64_t lost_finals;   /* transitions that can no longer be drawn, since theirs was overwritten */
    int64_t broken_stacks; /* observations that are other stacks than their frames make; left out */
} gpur_lane_stats;

/*
 * Reads the numbers of a replay of lanes, when the work on `stream` is done, for which it waits: the stream must not be
 * under capture. GPUR_INVALID_ARGUMENT: NULL, `stats->size` was not set, or a replay of another layout.
 *
 *     gpur_lane_stats stats = {.size = sizeof stats};
 *     gpur_replay_get_lane_stats(replay, &stats, stream);
 *     if (stats.lost_finals > 0)
 *         printf("%" PRId64 " transitions have lost their final observations\n", stats.lost_finals);
 */
GPUR_API gpur_status gpur_replay_get_lane_stats(gpur_replay *replay, gpur_lane_stats *stats, void *stream);

/*
 * Updates priorities from device arrays (count), as gpur_replay_update_priorities does: the absolute values plus the
 * replay's priority_offset. Of equal ids the largest value counts. A transition that cannot be drawn, or no longer, and
 * an id that was never given out are skipped, and counted in gpur_priority_stats.stale; what is NaN or infinite in
 * gpur_priority_stats.invalid.
 *
 *   GPUR_INVALID_ARGUMENT  a count that is not 1 to max_batch, NULL, a replay without priorities or of another layout,
 *                          arrays of other memory or misplaced numbers, a stream as above; nothing was updated
 */
GPUR_API gpur_status gpur_replay_update_lanes(gpur_replay *replay, int64_t count, const int64_t *ids,
                                              const float *priorities, void *stream);

#ifdef __cplusplus
}
#endif
#endif
