/* SPDX-License-Identifier: MIT */
/*
 * The parts of bench_nodes and bench_device. They time what a device does below the public header, through
 * src/device/device.h: the figures that say what a recorded step is made of. None of them names CUDA; what only CUDA
 * can be asked is asked through probes.h, and absent elsewhere.
 */
#ifndef BENCH_DEVICE_PARTS_H
#define BENCH_DEVICE_PARTS_H

#include "bench/bench.h"
#include "gpureplay.h"

/* bench_nodes */
void bench_launches(bench_report *report, gpur_device *device);   /* chains of tiny kernels, recorded or not; events */
void bench_conditions(bench_report *report, gpur_device *device); /* WHILE against unrolled, IF not taken */
void bench_barriers(bench_report *report, gpur_device *device);   /* of clusters and of whole grids */
void bench_copies(bench_report *report, gpur_device *device);     /* to, from and within the device; fills */
void bench_pitched(bench_report *report, gpur_device *device);    /* of rows, and of many pieces */

/* bench_device: `replay` is bench_melee_replay's, full */
void bench_gathers(bench_report *report, gpur_device *device, gpur_replay *replay);
void bench_rows(bench_report *report, gpur_device *device);          /* gathers by how far apart rows lie */
void bench_pixel_gathers(bench_report *report, gpur_device *device); /* stacks of frames */
void bench_priorities(bench_report *report, gpur_device *device);    /* draws and updates of sum trees */
void bench_products(bench_report *report, gpur_device *device);      /* matrix products of a train step */
void bench_steps(bench_report *report, gpur_device *device,
                 gpur_replay *replay);                            /* whole train steps by the libraries */
void bench_one_kernel(bench_report *report, gpur_replay *replay); /* whole train steps, each in one kernel */
void bench_windows(bench_report *report, gpur_device *device, gpur_replay *replay); /* a part of L2 set aside */

/* How many cases compared two ways and found them unequal: the program must not end as if all were well. */
int bench_unequal(void);

/* How many cases failed: nor then. */
int bench_failed(void);

#endif
