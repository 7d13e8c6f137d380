/* SPDX-License-Identifier: MIT */
/* Memory of the CPU device: host memory, from the caller's allocator if there is one. */
#include "device/cpu/cpu.h"

#include "base/platform.h"
#include "base/red_zone.h"

#include <inttypes.h>
#include <string.h>

enum { DEVICE_ALIGNMENT = 256 };
static const int64_t always_fits = (int64_t)16 << 20; /* smaller sizes are not checked */

/* Linux overcommits memory and kills the process that touches too much, so large sizes are checked first. */
static int fits(gpur_device *device, int64_t bytes)
{
    int64_t total = 0, available = 0;
    if (bytes <= always_fits)
        return 1;
    return gpur_cpu_memory_available(device, &total, &available) == GPUR_OK && bytes <= available;
}

/* Allocators guarantee an alignment of 64 bytes. So the block starts 64 to 256 bytes into the allocation, and the
 * address of the allocation is stored just before the block. */
gpur_status gpur_cpu_memory_alloc(gpur_device *device, int64_t bytes, void **memory)
{
    unsigned char *raw = NULL;
    if (bytes < INT64_MAX - DEVICE_ALIGNMENT && fits(device, bytes))
        raw = (unsigned char *)gpur_host_alloc(device, (size_t)bytes + DEVICE_ALIGNMENT);
    if (!raw)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for %" PRId64 " bytes", bytes);
    unsigned char *const aligned = raw + (DEVICE_ALIGNMENT - (uintptr_t)raw % DEVICE_ALIGNMENT);
    memcpy(aligned - sizeof raw, &raw, sizeof raw);
    gpur_red_zone_set(aligned + bytes, raw + DEVICE_ALIGNMENT - aligned);
    *memory = aligned;
    return GPUR_OK;
}

void gpur_cpu_memory_free(gpur_device *device, void *memory, int64_t bytes)
{
    void *raw = NULL;
    memcpy(&raw, (unsigned char *)memory - sizeof raw, sizeof raw);
    gpur_red_zone_lift(raw, bytes + DEVICE_ALIGNMENT);
    gpur_host_free(device, raw, (size_t)bytes + DEVICE_ALIGNMENT);
}

gpur_status gpur_cpu_memory_available(gpur_device *device, int64_t *total, int64_t *available)
{
    (void)device;
    gpur_machine_memory(total, available);
    return GPUR_OK;
}
