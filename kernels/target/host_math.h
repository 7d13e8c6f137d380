/* SPDX-License-Identifier: MIT */
/* Functions that CUDA provides and the CPU targets implement here. */
#pragma once

/* Philox4x32-10 [Salmon et al., SC11, section 3.3]: ten rounds of two 32-bit multiplications. */
GPUR_FN gpur_u32x4 gpur_philox4x32_10(gpur_u32x4 counter, uint64_t key)
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        const uint64_t p0 = (uint64_t)0xD2511F53u * counter.v[0];
        const uint64_t p1 = (uint64_t)0xCD9E8D57u * counter.v[2];
        counter.v[0] = (uint32_t)(p1 >> 32) ^ counter.v[1] ^ k0;
        counter.v[2] = (uint32_t)(p0 >> 32) ^ counter.v[3] ^ k1;
        counter.v[1] = (uint32_t)p1;
        counter.v[3] = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return counter;
}

GPUR_FN uint64_t gpur_mulhi_u64(uint64_t a, uint64_t b)
{
    __extension__ typedef unsigned __int128 u128;
    return (uint64_t)((u128)a * b >> 64);
}

GPUR_FN int gpur_lowest_bit(uint32_t x)
{
    return __builtin_ctz(x);
}
