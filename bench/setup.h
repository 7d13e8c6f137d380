/* SPDX-License-Identifier: MIT */
/* The paper's replay, filled: 1,000,000 rows of 27 + 1 + 1 + 1 + 27 numbers [Parr 2018, section 4]. */
#ifndef BENCH_SETUP_H
#define BENCH_SETUP_H

#include "gpureplay.h"

enum { MELEE_OBS = 27, MELEE_ACTIONS = 5, MELEE_CAPACITY = 1000000 };

/* 228 bytes, as gpur_replay_plan_bytes says. */
typedef struct melee_row {
    float obs[MELEE_OBS];
    int32_t action;
    float reward;
    float next_obs[MELEE_OBS];
    uint8_t terminated;
} melee_row;

/* Says why and exits when `status` is not GPUR_OK: a bench has nothing to go on with. */
void bench_must(gpur_status status, const char *what);

/* `threads` as in gpur_device_config. */
gpur_device *bench_open(const char *device, int threads);
void bench_melee_config(gpur_replay_config *config, int64_t capacity); /* all else as by default */
gpur_replay *bench_melee_replay(gpur_device *device, int64_t capacity);

/* (count) rows of pseudo-random content, from malloc. */
melee_row *bench_melee_rows(int64_t count);
void bench_fill(gpur_replay *replay, int64_t rows);

/* (bytes) of 1s in host memory: of the same kind as the ring where the device is the CPU, so that pages are of the same
 * size; else from malloc. Free with the same device. */
unsigned char *bench_host_memory(gpur_device *device, int64_t bytes);
void bench_host_free(gpur_device *device, unsigned char *memory);

/* "AMD EPYC ..., 2 threads; OpenBLAS ..." */
const char *bench_describe(gpur_device *device, char *text, size_t bytes);

#endif
