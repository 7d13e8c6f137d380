/* SPDX-License-Identifier: MIT */
/* Memory of the CPU device: host memory, from the caller's allocator if there is one. */
#include "device/cpu/cpu.h"

#include "base/numbers.h"
#include "base/red_zone.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

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

/* Finds the first line that begins with `key` and copies the rest of it. Returns 0 if there is none. */
static int read_line_of(const char *path, const char *key, char *value, size_t size)
{
    char line[256];
    int found = 0;
    FILE *const file = fopen(path, "re");
    if (!file)
        return 0;
    while (!found && fgets(line, sizeof line, file))
        found = strncmp(line, key, strlen(key)) == 0;
    fclose(file);
    if (found)
        snprintf(value, size, "%s", line + strlen(key));
    return found;
}

static int64_t read_number(const char *path, const char *key, int64_t otherwise)
{
    char text[64];
    int64_t number = 0;
    return read_line_of(path, key, text, sizeof text) && sscanf(text, "%" SCNd64, &number) == 1 ? number : otherwise;
}

/* A container may have less memory than the machine: its control group (v2) kills processes that exceed memory.max.
 * Inactive file pages count as free. */
static void apply_container_limit(int64_t *total, int64_t *available)
{
    const int64_t limit = read_number("/sys/fs/cgroup/memory.max", "", INT64_MAX); /* "max" is not a number */
    const int64_t used = read_number("/sys/fs/cgroup/memory.current", "", 0);
    const int64_t idle = read_number("/sys/fs/cgroup/memory.stat", "inactive_file ", 0);
    if (limit == INT64_MAX)
        return;
    *total = gpur_min(*total, limit);
    *available = gpur_min(*available, limit > used - idle ? limit - (used - idle) : 0);
}

gpur_status gpur_cpu_memory_available(gpur_device *device, int64_t *total, int64_t *available)
{
    (void)device;
    *total = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    *available = 1024 * read_number("/proc/meminfo", "MemAvailable:", *total / 1024);
    apply_container_limit(total, available);
    return GPUR_OK;
}

void gpur_cpu_model(char *name, size_t size)
{
    char text[128];
    if (!read_line_of("/proc/cpuinfo", "model name", text, sizeof text)) {
        snprintf(name, size, "CPU");
        return;
    }
    const char *const model = text + strspn(text, "\t :");
    snprintf(name, size, "%.*s", (int)strcspn(model, "\n"), model);
}
