/* SPDX-License-Identifier: MIT */
/* Initial weights, made on the host: the same bits on every device. */
#ifndef GPUR_LEARN_NETWORK_INIT_H
#define GPUR_LEARN_NETWORK_INIT_H

#include "learn/network/network.h"

/* Fills in weights (params->count), which must be zero: the padding stays so. */
void gpur_init_weights(const gpur_params *params, const gpur_network_config *config, uint64_t seed, float *weights);

#endif
