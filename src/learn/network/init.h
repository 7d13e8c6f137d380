/* SPDX-License-Identifier: MIT */
/* Initial weights, computed on the host, so that every device gets the same bits. */
#pragma once

#include "learn/network/network.h"

/* Fills in `weights` (params->count). It must be all zero, because the padding is not written. */
void gpur_init_weights(const gpur_params *params, const gpur_network_config *config, uint64_t seed, float *weights);
