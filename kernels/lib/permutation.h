/* SPDX-License-Identifier: MIT */
/*
 * A keyed permutation of 0 ... n - 1 that needs no memory: row i of a distinct sample is element perm(i) of the
 * window. It is a Feistel network over the next power of two [Luby & Rackoff 1988], applied until the result is below
 * n (cycle walking) [Black & Rogaway 2002], and then a rotation by a random amount, which makes the marginal
 * distribution of each row exactly uniform.
 *
 * The number of rounds matters for pairs of rows. Two rows that differ in just one half keep that difference if every
 * second round happens to give both the same bits. That has a chance of 2^(-rounds / 2 x bits / 2), however well the
 * rounds mix. With 8 and 9 bits, six rounds leave neighbors 3% and 6% too often beside each other in the window;
 * eight rounds leave 0.2% and 0.4% (counted in 800 million samples, +- 0.05%), and less with more bits.
 */
#pragma once

#include "kernels/lib/random.h"

enum {
    GPUR_FEISTEL_ROUNDS = 8,
    GPUR_FEISTEL_BITS = 8, /* at least, for small n */
};

typedef struct gpur_permutation {
    uint64_t n, rotation;
    uint64_t left_mask, right_mask;
    int32_t right_bits;
    uint32_t keys[GPUR_FEISTEL_ROUNDS];
} gpur_permutation;

/* The permutation is a pure function of (seed, purpose, step, n). */
GPUR_FN gpur_permutation gpur_permutation_of(uint64_t seed, uint32_t purpose, uint64_t step, uint64_t n)
{
    const gpur_u32x4 first = gpur_random_bits(seed, purpose, step, 0);
    const gpur_u32x4 second = gpur_random_bits(seed, purpose, step, 1);
    gpur_permutation p;
    int32_t bits = GPUR_FEISTEL_BITS;
    while (bits < 62 && (uint64_t)1 << bits < n)
        bits++;
    p.n = n;
    p.right_bits = bits - bits / 2;
    p.left_mask = ((uint64_t)1 << bits / 2) - 1;
    p.right_mask = ((uint64_t)1 << p.right_bits) - 1;
    for (int i = 0; i < 4; i++)
        p.keys[i] = first.v[i], p.keys[4 + i] = second.v[i];
    p.rotation = gpur_random_below(gpur_random_bits(seed, purpose, step, 2), n);
    return p;
}

GPUR_FN uint32_t gpur_feistel_mix(uint64_t x, uint32_t key)
{
    const uint64_t product = (uint64_t)((uint32_t)x ^ key) * 0xD2511F53u;
    const uint32_t folded = ((uint32_t)(product >> 32) ^ (uint32_t)product ^ key) * 0xCD9E8D57u;
    return folded ^ folded >> 16;
}

/* perm(i) for i < n. The loop ends, since it follows the cycle of i, which holds i itself. */
GPUR_FN uint64_t gpur_permute(const gpur_permutation *p, uint64_t i)
{
    do {
        uint64_t left = i >> p->right_bits, right = i & p->right_mask;
        for (int round = 0; round < GPUR_FEISTEL_ROUNDS; round += 2) {
            left = (left ^ gpur_feistel_mix(right, p->keys[round])) & p->left_mask;
            right = (right ^ gpur_feistel_mix(left, p->keys[round + 1])) & p->right_mask;
        }
        i = left << p->right_bits | right;
    } while (i >= p->n);
    i += p->rotation;
    return i < p->n ? i : i - p->n;
}
