/* SPDX-License-Identifier: MIT */
/*
 * Argument structs of the kernels for lanes: environments that step together on the device. Axes:
 * N lanes, T steps of each that are kept, F final observations, B batch.
 *
 * Step t of lane i is a row, with id t N + i, in slot (t mod T) N + i of an array of its own for each field. A row has
 * the observation that it began with; its next observation is that of the lane's next row or, where the environment
 * was reset in the same step, a final observation, which lies in a side ring. So each observation is stored once.
 *
 * Of an observation that is a stack of K frames only the newest frame is stored. The ring of its frames has T + K - 1
 * steps, so that a row never loses its older frames before it leaves: that of step t is in slot
 * ((t + K - 1) mod (T + K - 1)) N + i. Final observations have their newest frame in the side ring. A byte of each row
 * has the number of older frames that belong to its episode, and a bit that says whether the others are zeros or repeat
 * the episode's first frame.
 */
#pragma once

#include "kernels/args_priority.h"
#include "kernels/lib/lane_flags.h"

#define GPUR_LANES_KERNEL_LIST(X)                                                                                      \
    X(lanes_stack)                                                                                                     \
    X(lanes_add)                                                                                                       \
    X(lanes_advance)                                                                                                   \
    X(lanes_reset)                                                                                                     \
    X(lanes_gather)                                                                                                    \
    X(lanes_gather_stacks)

/* Numbers that go on from call to call. They are in device memory, so that a captured call goes on, too, when it is
 * launched again. */
typedef struct gpur_lanes_state {
    int64_t steps;         /* added so far; the number of the next one */
    int64_t finals;        /* final observations stored so far */
    int64_t whole;         /* rows that can be drawn */
    int64_t draws;         /* so far; the step of the next draw's random numbers */
    int64_t without_final; /* truncated rows that came without their final observation, and rows that were cut */
    int64_t lost_finals;   /* rows whose final observation was overwritten while they could be drawn */
    int64_t oldest;        /* the first step that is there, in a ring that has not been filled since it was loaded */
    int64_t step_finals;   /* of the step that is being added: final observations that came with it */
    uint64_t step_whole;   /* and by how many rows `whole` changes, modulo 2^64 */
    int64_t broken_stacks; /* observations whose older frames are other ones than those that are stored */
    int64_t compared;      /* in steps before this one all stacks are compared with the frames that are stored */
} gpur_lanes_state;

/* The rings. */
typedef struct gpur_lane_rings {
    gpur_lanes_state *state;      /* (1) */
    gpur_window *window;          /* (1) of all rows, whole or not */
    unsigned char *flags;         /* (T, N) GPUR_LANE_* */
    float *reward;                /* (T, N) */
    uint32_t *final;              /* (T, N) slot of the final observation in the side ring, with GPUR_LANE_HAS_FINAL */
    int64_t *owner;               /* (F) id of the row that the final observation in this slot belongs to; -1: none */
    unsigned char *stacks;        /* (T, N) GPUR_STACK_*; NULL: no observation is a stack */
    int64_t lanes, steps, finals; /* N, T, F */
    int32_t resets_later;         /* 1: an environment is reset by the step after the last one of its episode */
    int32_t stack;                /* K, 1 if no observation is a stack */
} gpur_lane_rings;

enum { GPUR_MAX_LANE_FIELDS = 32 };

/* A field that is copied into its ring, (N, bytes) contiguous. */
typedef struct gpur_lane_field {
    const unsigned char *from; /* (N, bytes) */
    unsigned char *ring;       /* (T, N, bytes) */
    int64_t bytes;             /* of one value */
} gpur_lane_field;

/* A field of final observations, or the newest frames of its stacks: `units` units of 1 << shift bytes, which lie
 * `unit_step` bytes apart in what is given. */
typedef struct gpur_lane_final {
    const unsigned char *from; /* the first unit of lane 0; those of the other lanes follow `pitch` bytes apart */
    unsigned char *ring;       /* (F, units << shift) */
    int64_t pitch, unit_step;
    int32_t units, shift;
} gpur_lane_final;

/* A field whose values are stacks. Unit u of frame f, the oldest first, begins u unit_step + f frame_step bytes behind
 * the stack. In the ring a frame is contiguous. */
typedef struct gpur_lane_stack {
    const unsigned char *from;   /* (N) stacks, `pitch` bytes apart */
    const unsigned char *finals; /* (N) likewise; NULL: none are given */
    unsigned char *ring;         /* (T + K - 1, N, units << shift) */
    int64_t pitch, unit_step, frame_step;
    int32_t units, shift; /* of one frame; a unit has 1 << shift bytes */
} gpur_lane_stack;

enum { GPUR_MAX_LANE_STACKS = GPUR_MAX_LANE_FIELDS / 2 }; /* each has a field next_x */

/*
 * Stores the newest frames of step number `state->steps`, and sets the bytes `stacks` of its rows, before lanes_add
 * judges them. In the first step that is there all frames of the stacks are stored. Where an episode begins, the older
 * frames must be zeros, or all like the newest one. Stacks of the first K steps of an episode, and of steps before
 * `compared`, are compared with what a draw would make of the frames that are stored; a stack that differs is broken.
 */
typedef struct gpur_lanes_stack_args {
    gpur_lane_rings lanes;
    const unsigned char *terminated, *truncated; /* (N) truncated NULL: none was */
    int32_t stack_count, reserved;
    gpur_lane_stack stacks[GPUR_MAX_LANE_STACKS];
} gpur_lanes_stack_args;

/* Adds step number `state->steps` of all lanes. What it changes of the state is added by lanes_advance, since all
 * blocks read it. */
typedef struct gpur_lanes_add_args {
    gpur_lane_rings lanes;
    gpur_tree tree;                   /* leaf NULL: the replay has no priorities */
    const unsigned char *terminated;  /* (N) bytes other than 0 count as 1 */
    const unsigned char *truncated;   /* (N) NULL: none was */
    const float *reward;              /* (N) */
    float reward_clip;                /* 0: none */
    int32_t field_count, final_count; /* final_count 0: no final observations are given */
    gpur_lane_field fields[GPUR_MAX_LANE_FIELDS];
    gpur_lane_final finals[GPUR_MAX_LANE_FIELDS / 2];
} gpur_lanes_add_args;

/* Ends an add, or a draw; by one thread. */
typedef struct gpur_lanes_advance_args {
    gpur_lane_rings lanes;
    int32_t is_draw;
} gpur_lanes_advance_args;

/*
 * Cuts the newest row of lanes that were reset by the caller, whose next observation will not come: it becomes one that
 * was truncated without its final observation, or where environments are reset later, one that reset its environment.
 * So it never is whole, and the next row begins an episode. A row that has ended its episode stays what it is, unless
 * environments are reset later. Without any row nothing happens.
 */
typedef struct gpur_lanes_reset_args {
    gpur_lane_rings lanes;
    const unsigned char *which; /* (N) bytes other than 0: the lane was reset; NULL: all were */
} gpur_lanes_reset_args;

/* A field that is gathered. */
typedef struct gpur_lane_copy {
    const unsigned char *ring;   /* (T, N, bytes) */
    const unsigned char *finals; /* (F, bytes); NULL: there are none */
    unsigned char *to;           /* (B) values, `pitch` bytes apart */
    int64_t bytes, pitch;
    int32_t shift;      /* a unit is 1 << shift bytes, which divides all addresses and sizes involved */
    int32_t first_unit; /* units of one row that the copies before this one take */
    int32_t is_next;    /* 1: of the row after the transition, or final; 0: of the row itself */
    int32_t stack;      /* K, if the value is a stack, of which `ring` and `finals` have frames of bytes / K; else 1 */
    int32_t is_last;    /* 1: the frames are the last axis of the stack, and a unit is one number; 0: the first */
    int32_t reserved;
} gpur_lane_copy;

enum { GPUR_MAX_LANE_COPIES = GPUR_MAX_LANE_FIELDS };

/*
 * Draws B rows uniformly from the whole rows, or takes B rows given by id, and makes a transition of up to n steps of
 * each [Sutton & Barto 2018, section 7.1]: of the row and those after it, until one has ended its episode or is not
 * whole, at most n. With m the steps that there are:
 *
 *   reward      r(0) + gamma r(1) + ... + gamma^(m-1) r(m-1), added in double
 *   discount    gamma^m, or 0 if the last row is terminated
 *   next_x      of the row after these, or the final one of the last; zeros if that is terminated and has none
 *
 * A row that is missing (no whole row is there, or none has the id) becomes zeros with id -1, weight 0 and discount 0.
 * A pure function of (seed, purpose, draw, rows).
 */
/* How rows are drawn: of all lanes; B / N of each lane, in their order; or of all lanes, none twice. */
enum { GPUR_LANES_OF_ALL, GPUR_LANES_OF_EACH, GPUR_LANES_DISTINCT };

typedef struct gpur_lanes_gather_args {
    gpur_lane_rings lanes;
    const int64_t *ids;   /* (B) may be the same memory as `id`; NULL: the kernel draws */
    const uint64_t *draw; /* (1) the number of this draw */
    uint64_t seed;
    int64_t batch;
    int64_t *id;                           /* (B) or NULL, as all of these */
    float *weight, *discount, *reward;     /* (B) weight: 1 */
    unsigned char *terminated, *truncated; /* (B) of the last row */
    int32_t *steps;                        /* (B) m */
    float gamma;
    uint32_t purpose;
    int32_t n_step, copy_count;
    int32_t units;   /* of one row, over all copies */
    int32_t redraws; /* 1: in the place of an id that no whole row has, one is drawn */
    int32_t way;     /* GPUR_LANES_*: how the kernel draws */
    gpur_lane_copy copies[GPUR_MAX_LANE_COPIES];
} gpur_lanes_gather_args;

/* The same, where some of the copies are of stacks. */
typedef gpur_lanes_gather_args gpur_lanes_gather_stacks_args;
