/* SPDX-License-Identifier: MIT */
/* Opens and closes the CPU device; its backend table. */
#include "device/cpu/cpu.h"

#include <stdio.h>

static gpur_device_traits traits_of(const gpur_device *device)
{
    const gpur_device_traits traits = {
        .is_synchronous = device->config.executor == GPUR_EXECUTOR_INLINE,
        .uses_host_cores = 1,
        .has_warps = gpur_cpu_has_warps,
        .dlpack_type = 1,                 /* kDLCPU */
        .im2col_bytes = (int64_t)1 << 20, /* they fit into the caches */
    };
    return traits;
}

gpur_status gpur_cpu_open(gpur_device *device, int ordinal)
{
    (void)ordinal;
    GPUR_REQUIRE(!device->config.stream, "gpur_device_config.stream is %p; on the CPU it must be NULL",
                 device->config.stream);
    gpur_cpu *const cpu = (gpur_cpu *)gpur_host_alloc(device, sizeof *cpu);
    if (!cpu)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for the CPU device, %zu bytes", sizeof *cpu);
    device->backend_data = cpu;
    device->traits = traits_of(device);
    if (pthread_mutex_init(&cpu->streams_mutex, NULL) != 0)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no lock for the CPU device: the system has no more of them");
    GPUR_TRY(gpur_forks_count_from_now());
    cpu->forks = gpur_forks();
    GPUR_TRY(gpur_cpu_launcher_open(device));
    gpur_cpu_blas_name(cpu->blas, sizeof cpu->blas);
    char model[48];
    gpur_processor_name(model, sizeof model);
    snprintf(device->description, sizeof device->description, "%s, kernels %s, %s", model, cpu->kernels, cpu->blas);
    return GPUR_OK;
}

void gpur_cpu_close(gpur_device *device)
{
    gpur_cpu *const cpu = gpur_cpu_of(device);
    if (!cpu)
        return;
    gpur_cpu_launcher_close(device);
    pthread_mutex_destroy(&cpu->streams_mutex);
    gpur_host_free(device, cpu, sizeof *cpu);
    device->backend_data = NULL;
}

gpur_status gpur_cpu_memory_locate(gpur_device *device, const void *memory, int *on_device)
{
    (void)device, (void)memory;
    *on_device = 1;
    return GPUR_OK;
}

void *gpur_cpu_stream_native(gpur_stream *stream)
{
    (void)stream;
    return NULL;
}

/* On the CPU no other program has streams: NULL needs no ordering, and any handle is an error. */
gpur_status gpur_cpu_native_stream_check(gpur_device *device, void *native, int outlives_call)
{
    (void)device, (void)outlives_call;
    GPUR_REQUIRE(!native, "stream is %p; on the CPU it must be NULL", native);
    return GPUR_OK;
}

/* Nothing is captured here. */
int gpur_cpu_stream_is_captured(gpur_device *device, void *native)
{
    (void)device, (void)native;
    return 0;
}

gpur_status gpur_cpu_stream_wait_native(gpur_stream *stream, void *native)
{
    return gpur_cpu_native_stream_check(stream->device, native, 0);
}

gpur_status gpur_cpu_native_wait_stream(void *native, gpur_stream *stream)
{
    return gpur_cpu_native_stream_check(stream->device, native, 0);
}

#define ENTRY(type, name, arguments) .name = gpur_cpu_##name,
const gpur_backend gpur_backend_cpu = {GPUR_BACKEND_LIST(ENTRY)
#ifdef GPUR_HAS_DNNL
                                           GPUR_BACKEND_CONV_LIST(ENTRY)
#endif
};

/* The level of the x86-64 psABI that this processor supports [x86-64 psABI, table 3.1]. */

#if defined(__x86_64__)
#include <cpuid.h>

/* Which registers the system saves for a process. Only where cpuid says that it can be asked. */
static unsigned saved_registers(void)
{
    unsigned low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

/* Asks the processor itself, as __builtin_cpu_supports knows nothing in some compilers. */
int gpur_cpu_level(void)
{
    const unsigned v3_of_1 = bit_FMA | bit_MOVBE | bit_POPCNT | bit_OSXSAVE | bit_AVX | bit_F16C;
    const unsigned v3_of_7 = bit_BMI | bit_AVX2 | bit_BMI2;
    const unsigned v4_of_7 = bit_AVX512F | bit_AVX512DQ | bit_AVX512CD | bit_AVX512BW | bit_AVX512VL;
    const unsigned v3_registers = 0x06, v4_registers = 0xe6; /* of 128 and 256 bits; and of 512, and masks */
    unsigned eax, ebx, ecx, edx, of_7;
    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || (ecx & v3_of_1) != v3_of_1)
        return 1;
    if (!__get_cpuid_count(7, 0, &eax, &of_7, &ecx, &edx) || (of_7 & v3_of_7) != v3_of_7)
        return 1;
    if (!__get_cpuid(0x80000001u, &eax, &ebx, &ecx, &edx) || (ecx & bit_LZCNT) == 0)
        return 1;
    const unsigned saved = saved_registers();
    if ((saved & v3_registers) != v3_registers)
        return 1;
    return (of_7 & v4_of_7) == v4_of_7 && (saved & v4_registers) == v4_registers ? 4 : 3;
}
#else
int gpur_cpu_level(void)
{
    return 1;
}
#endif
