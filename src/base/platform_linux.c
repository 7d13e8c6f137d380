/* SPDX-License-Identifier: MIT */
#include "base/platform.h"

#include "base/numbers.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

void gpur_semaphore_wait(gpur_semaphore *semaphore)
{
    while (sem_wait(semaphore) != 0 && errno == EINTR)
        ;
}

int gpur_timed_condition_open(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;
    int error = pthread_condattr_init(&attributes);
    if (error != 0)
        return error;
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    error = pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
    return error;
}

int gpur_timed_condition_wait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *end)
{
    return pthread_cond_timedwait(condition, mutex, end);
}

/* The processor. */

int32_t gpur_usable_cores(void)
{
    cpu_set_t ours;
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    const long cores = sched_getaffinity(0, sizeof ours, &ours) == 0 ? CPU_COUNT(&ours) : online; /* > 1,024 fail */
    return (int32_t)gpur_max(cores, 1);
}

int gpur_current_core(void)
{
    return sched_getcpu();
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

void gpur_processor_name(char *name, size_t size)
{
    char text[128];
    if (!read_line_of("/proc/cpuinfo", "model name", text, sizeof text)) {
        snprintf(name, size, "CPU");
        return;
    }
    const char *const model = text + strspn(text, "\t :");
    snprintf(name, size, "%.*s", (int)strcspn(model, "\n"), model);
}

/* Memory. */

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

void gpur_machine_memory(int64_t *total, int64_t *available)
{
    *total = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    *available = 1024 * read_number("/proc/meminfo", "MemAvailable:", *total / 1024);
    apply_group_limits(total, available);
}

void gpur_advise_huge_pages(void *memory, size_t bytes)
{
    madvise(memory, bytes, MADV_HUGEPAGE); /* a kernel without huge pages ignores it */
}

/* The seals keep its size: a process that shrank it would end all others that read it. */
int gpur_shared_memory_open(int64_t bytes)
{
    const int descriptor = memfd_create("gpureplay", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (descriptor < 0 || (ftruncate(descriptor, bytes) == 0 &&
                           fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0))
        return descriptor;
    const int error = errno;
    close(descriptor);
    errno = error;
    return -1;
}

int64_t gpur_shared_memory_size(int64_t bytes)
{
    return bytes;
}

/* Files and descriptors. */

int gpur_file_reserve(int descriptor, int64_t bytes)
{
    return fallocate(descriptor, 0, 0, bytes);
}

void gpur_file_start_writing(int descriptor, int64_t from, int64_t bytes)
{
    (void)sync_file_range(descriptor, from, bytes, SYNC_FILE_RANGE_WRITE);
}

int gpur_file_sync(int descriptor)
{
    return fsync(descriptor);
}

int gpur_file_exchange(int folder, const char *name, const char *other)
{
    return renameat2(folder, name, folder, other, RENAME_EXCHANGE);
}

struct timespec gpur_file_modified(const struct stat *file)
{
    return file->st_mtim;
}

int gpur_pipe_open(int ends[2])
{
    return pipe2(ends, O_CLOEXEC | O_NONBLOCK);
}

int gpur_socket_pair_open(int ends[2])
{
    return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends);
}

char **gpur_environment(void)
{
    return environ;
}
