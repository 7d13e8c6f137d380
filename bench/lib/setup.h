/* SPDX-License-Identifier: MIT */
/* What the benchmarks share: random numbers, memory, and replays filled with transitions of several kinds. Every call
 * that cannot succeed says why and exits: 77 where a device or library is missing, 1 for everything else. */
#pragma once

#include "gpureplay.h"

#include <stddef.h>

void bench_must(gpur_status status, const char *what);
void *bench_allocate(size_t bytes); /* zeroed; free() takes it */

/* SplitMix64 [Steele, Lea & Flood 2014]: 64 random bits; one of 0 to n - 1; a number in [0, 1). */
uint64_t bench_random(uint64_t *state);
int64_t bench_random_below(uint64_t *state, int64_t n);
float bench_random_unit(uint64_t *state);

/* `threads` as in gpur_device_config. */
gpur_device *bench_open(const char *device, int threads);
int bench_is_cuda(gpur_device *device);

/* "cpu: AMD EPYC ..., 2 threads". Valid until the next call. */
const char *bench_describe(gpur_device *device);

/* The option --math of programs that train, whose value is a GPUR_MATH_*; and the description with it. */
#define BENCH_MATH(math) {"math", "arithmetic: fp32, tf32, bf16 or auto", .value = (math), .words = bench_maths}
extern const char *const bench_maths[];
const char *bench_describe_training(gpur_device *device, int64_t math);

gpur_replay *bench_create(gpur_device *device, const gpur_replay_config *config);
gpur_writer *bench_writer(gpur_replay *replay);

/* (bytes) of ones: from the device where that is the CPU, so that pages have the size of the ring's, else from the
 * host. */
unsigned char *bench_host_memory(gpur_device *device, int64_t bytes);
void bench_host_free(gpur_device *device, unsigned char *memory);

/* Samples `count` rows and waits for them. */
void bench_sample(gpur_replay *replay, int64_t count);

/* The paper's transitions: 27 + 1 + 1 + 1 + 27 numbers [Parr 2018, section 4]. */
enum { MELEE_OBS = 27, MELEE_ACTIONS = 5, MELEE_CAPACITY = 1000000 };

typedef struct melee_row {
    float obs[MELEE_OBS];
    int32_t action;
    float reward;
    float next_obs[MELEE_OBS];
    uint8_t terminated;
} melee_row;

void bench_melee_config(gpur_replay_config *config, int64_t capacity); /* everything else is the default */
gpur_replay *bench_melee_replay(gpur_device *device, int64_t capacity);

/* Rows `first` to first + count - 1 of an endless sequence: row i depends on i alone. */
void bench_melee_rows(int64_t first, int64_t count, melee_row *rows);
melee_row *bench_new_melee_rows(int64_t count); /* the first ones; free() takes them */
void bench_melee_fill(gpur_replay *replay, int64_t rows);

/* Small transitions, as of CartPole: 42 bytes in six fields. */
enum { SMALL_FIELDS = 6, SMALL_CAPACITY = 100000, SMALL_BYTES = 42, SMALL_BLOCK = 10000 };
extern const size_t small_bytes[SMALL_FIELDS];
void bench_small_block(void *arrays[SMALL_FIELDS]); /* (SMALL_BLOCK) rows, an array a field */
void bench_small_free(void *arrays[SMALL_FIELDS]);
gpur_replay *bench_small_replay(gpur_device *device, int64_t capacity, int32_t upload); /* full */

/* Transitions of pixels: two stacks of 4 frames of 84 x 84 bytes, full of noise. */
enum { FRAME_BYTES = 84 * 84, STACK = 4, STACK_BYTES = STACK * FRAME_BYTES, PIXELS_BATCH = 1024, EPISODE = 500 };

/* Rows that hold both stacks; with 6 fields also `truncated`, else 5. Full. */
gpur_replay *bench_stacks_replay(gpur_device *device, int64_t capacity, int32_t axis, int32_t fields);

/* The replay of preset "nature-dueling" in episodes of EPISODE steps: each frame is stored once. Full. */
gpur_replay *bench_frames_replay(gpur_device *device, int64_t capacity, int32_t axis);
gpur_replay *bench_linked_frames_replay(gpur_device *device, int64_t capacity); /* also with truncated and previous */
gpur_replay *bench_prioritized_frames_replay(gpur_device *device, int64_t capacity);

/* A learner of a preset. 0: the preset's own batch size, and its own number of outputs. */
gpur_learner *bench_learner(gpur_replay *replay, const char *preset, int64_t batch, int32_t outputs);
