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

/* The files of a control group, of version 2 and 1. Inactive file pages count as free. */
typedef struct group_files {
    const char *mount, *limit, *used, *idle;
} group_files;
static const group_files versions[] = {
    {"/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file "},
    {"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "}};

static int64_t read_of(const char *folder, const char *name, const char *key, int64_t otherwise)
{
    char path[1280];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return read_number(path, key, otherwise);
}

static void apply_limit_of(const char *folder, const group_files *files, int64_t *total, int64_t *available)
{
    const int64_t limit = read_of(folder, files->limit, "", INT64_MAX); /* "max" is not a number */
    if (limit == INT64_MAX)
        return;
    const int64_t all = read_of(folder, files->used, "", 0), idle = read_of(folder, "memory.stat", files->idle, 0);
    const int64_t used = gpur_max(all - idle, 0);
    *total = gpur_min(*total, limit);
    *available = gpur_min(*available, gpur_max(limit - used, 0));
}

/* Those of a process's group and of all above it hold. In a container its own may not be visible, and the topmost one
 * that is has the container's limit. */
static void apply_limits(const char *path, const group_files *files, int64_t *total, int64_t *available)
{
    char folder[1088];
    snprintf(folder, sizeof folder, "%s%s", files->mount, path ? path : "");
    for (char *end = folder + strlen(folder); end; end = strrchr(folder, '/')) {
        *end = 0;
        if (strlen(folder) < strlen(files->mount))
            return;
        apply_limit_of(folder, files, total, available);
    }
}

/* A job or a container may have less memory than the machine: its control group ends processes that take more. */
static void apply_group_limits(int64_t *total, int64_t *available)
{
    char line[1024];
    FILE *const file = fopen("/proc/self/cgroup", "re");
    while (file && fgets(line, sizeof line, file)) {
        const int is_first_version = strncmp(line, "0::", 3) != 0;
        const char *const path = is_first_version ? strstr(line, ":memory:") : line;
        line[strcspn(line, "\n")] = 0;
        if (path)
            apply_limits(strchr(path, '/'), &versions[is_first_version], total, available);
    }
    if (file)
        fclose(file);
}

gpur_status gpur_cpu_memory_available(gpur_device *device, int64_t *total, int64_t *available)
{
    (void)device;
    *total = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    *available = 1024 * read_number("/proc/meminfo", "MemAvailable:", *total / 1024);
    apply_group_limits(total, available);
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
