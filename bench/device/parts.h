/* SPDX-License-Identifier: MIT */
/*
 * The parts of bench_device. They time what a device does below the public header, through src/device/device.h, so that
 * none of them names CUDA: the figures that say what a recorded step is made of.
 */
#ifndef BENCH_DEVICE_PARTS_H
#define BENCH_DEVICE_PARTS_H

#include "bench/bench.h"
#include "gpureplay.h"

void bench_launches(bench_report *report, gpur_device *device); /* chains of tiny kernels, recorded and not; events */
void bench_copies(bench_report *report, gpur_device *device);   /* to, from and within the device; fills */
void bench_gathers(bench_report *report, gpur_device *device, gpur_replay *replay);
void bench_products(bench_report *report, gpur_device *device); /* matrix products of a melee-gpu step */
void bench_steps(bench_report *report, gpur_device *device, gpur_replay *replay);

#endif
