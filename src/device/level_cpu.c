/* SPDX-License-Identifier: MIT */
/* Which level of the x86-64 psABI this processor has [x86-64 psABI, table 3.1]. */
#include "device/cpu.h"

#if defined(__x86_64__)
#include <cpuid.h>

/* The three of level 3 that __builtin_cpu_supports does not know in every compiler. */
static int has_f16c_movbe_lzcnt(void)
{
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
    const unsigned f16c = 1u << 29, movbe = 1u << 22, lzcnt = 1u << 5;
    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || (ecx & f16c) == 0 || (ecx & movbe) == 0)
        return 0;
    return __get_cpuid(0x80000001u, &eax, &ebx, &ecx, &edx) && (ecx & lzcnt) != 0;
}

int gpur_cpu_level(void)
{
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("bmi") ||
        !__builtin_cpu_supports("bmi2") || !__builtin_cpu_supports("popcnt") || !has_f16c_movbe_lzcnt())
        return 1;
    const int has_v4 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                       __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                       __builtin_cpu_supports("avx512vl");
    return has_v4 ? 4 : 3;
}
#else
int gpur_cpu_level(void)
{
    return 1;
}
#endif
