/* SPDX-License-Identifier: MIT */
/* The transitions on which test_torch_nature trains: from one hash, as torch_nature.py makes them. */
#ifndef GPUR_SUPPORT_TORCH_ROWS_H
#define GPUR_SUPPORT_TORCH_ROWS_H

#include "gpureplay.h"

/* Number i of a sequence, in [0, 1). */
double torch_unit(uint32_t i, uint32_t sequence);

/* A replay of TORCH_ROWS of them; `is_ranked` 1: with priorities, and a discount each. */
gpur_status torch_replay(gpur_device *device, int is_ranked, gpur_replay **made);

#endif
