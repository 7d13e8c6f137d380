/* SPDX-License-Identifier: MIT */
#ifndef GPUR_LEARN_NETWORK_CHECK_H
#define GPUR_LEARN_NETWORK_CHECK_H

#include "base/status.h"
#include "learn/network.h"

/* All that can be told without the sizes that come in and out of each layer. */
gpur_status gpur_network_check(const gpur_network_config *config, const gpur_scene *scene);

/* That convolution i fits the image it sees. */
gpur_status gpur_network_check_conv(const gpur_network_config *config, int32_t i, const gpur_scene *seen);

#endif
