/* SPDX-License-Identifier: MIT */
/* Draws the initial weights. */
#include "learn/network/network.h"

/* The kernels' random numbers (Philox), so that weights depend on the seed only, like everything random. */
#include "kernels/lib/random.h"

#include <math.h>

/* Returns 4 x 32 random bits, for elements 4 i to 4 i + 3 of a tensor. */
static gpur_u32x4 quad(uint64_t seed, int32_t tensor, int64_t i)
{
    return gpur_random_bits(seed, GPUR_RANDOM_WEIGHTS, (uint64_t)tensor, (uint32_t)i);
}

static void fill_uniform(const gpur_tensor *tensor, float *x, double limit, uint64_t seed, int32_t index)
{
    for (int64_t i = 0; i < gpur_tensor_count(tensor); i++)
        x[gpur_tensor_index(tensor, i)] =
            (float)(limit * (2.0 * (quad(seed, index, i / 4).v[i % 4] + 0.5) * 0x1p-32 - 1.0));
}

/* Box & Muller (1958): two uniform numbers make two normal ones. */
static void fill_normal(const gpur_tensor *tensor, float *x, double deviation, uint64_t seed, int32_t index)
{
    const double tau = 6.283185307179586;
    for (int64_t i = 0; i < gpur_tensor_count(tensor); i++) {
        const gpur_u32x4 bits = quad(seed, index, i / 4);
        const int pair = (int)(i % 4) / 2 * 2;
        const double radius = sqrt(-2.0 * log((bits.v[pair] + 0.5) * 0x1p-32));
        const double angle = tau * (bits.v[pair + 1] * 0x1p-32);
        x[gpur_tensor_index(tensor, i)] = (float)(deviation * radius * (i % 2 ? sin(angle) : cos(angle)));
    }
}

static void fill_tensor(const gpur_tensor *tensor, const gpur_network_config *config, uint64_t seed, int32_t index,
                        float *x)
{
    if (tensor->is_norm)
        for (int32_t i = 0; i < tensor->units; i++)
            x[i] = (float)tensor->first_value;
    else if (config->init == GPUR_INIT_FAN_IN)
        fill_uniform(tensor, x, 1.0 / sqrt(tensor->inputs), seed, index);
    else if (tensor->is_bias)
        return; /* zero */
    else if (config->init == GPUR_INIT_GLOROT)
        fill_uniform(tensor, x, sqrt(6.0 / ((double)tensor->inputs + tensor->outputs)), seed, index);
    else
        fill_normal(tensor, x, config->init_scale, seed, index);
}

void gpur_init_weights(const gpur_params *params, const gpur_network_config *config, uint64_t seed, float *weights)
{
    for (int32_t i = 0; i < params->tensor_count; i++)
        fill_tensor(&params->tensor[i], config, seed, i, weights + params->tensor[i].offset);
}
