/* SPDX-License-Identifier: MIT */
/* Compiled and linked by tests/run.sh --only macos; never run. */
#include "base/platform.h"

#include "base/numbers.h"

#include <crt_externs.h>
#include <errno.h>
#include <fcntl.h>
#include <mach/mach.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/sysctl.h>
#include <unistd.h>

/* A semaphore may be closed as soon as a wait for its last post has returned, so the post signals under the mutex. */

int gpur_semaphore_open(gpur_semaphore *semaphore)
{
    semaphore->count = 0;
    errno = pthread_mutex_init(&semaphore->mutex, NULL);
    if (errno != 0)
        return -1;
    errno = pthread_cond_init(&semaphore->posted, NULL);
    if (errno == 0)
        return 0;
    pthread_mutex_destroy(&semaphore->mutex);
    return -1;
}

void gpur_semaphore_close(gpur_semaphore *semaphore)
{
    pthread_cond_destroy(&semaphore->posted);
    pthread_mutex_destroy(&semaphore->mutex);
}

void gpur_semaphore_post(gpur_semaphore *semaphore)
{
    pthread_mutex_lock(&semaphore->mutex);
    semaphore->count++;
    pthread_cond_signal(&semaphore->posted);
    pthread_mutex_unlock(&semaphore->mutex);
}

int gpur_semaphore_try_wait(gpur_semaphore *semaphore)
{
    pthread_mutex_lock(&semaphore->mutex);
    const int is_there = semaphore->count > 0;
    semaphore->count -= is_there;
    pthread_mutex_unlock(&semaphore->mutex);
    if (is_there)
        return 0;
    errno = EAGAIN;
    return -1;
}

void gpur_semaphore_wait(gpur_semaphore *semaphore)
{
    pthread_mutex_lock(&semaphore->mutex);
    while (semaphore->count == 0)
        pthread_cond_wait(&semaphore->posted, &semaphore->mutex);
    semaphore->count--;
    pthread_mutex_unlock(&semaphore->mutex);
}

int gpur_timed_condition_open(pthread_cond_t *condition)
{
    return pthread_cond_init(condition, NULL);
}

/* Condition variables know the time of day alone, which may be set, and lengths of time. */
int gpur_timed_condition_wait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *end)
{
    struct timespec now, left = {0};
    clock_gettime(CLOCK_MONOTONIC, &now);
    const int64_t nanoseconds = (int64_t)(end->tv_sec - now.tv_sec) * 1000000000 + (end->tv_nsec - now.tv_nsec);
    if (nanoseconds > 0) {
        left.tv_sec = (time_t)(nanoseconds / 1000000000);
        left.tv_nsec = (long)(nanoseconds % 1000000000);
    }
    return pthread_cond_timedwait_relative_np(condition, mutex, &left);
}

/* The processor. */

/* A process cannot be kept from some of the cores. */
int32_t gpur_usable_cores(void)
{
    return (int32_t)gpur_max(sysconf(_SC_NPROCESSORS_ONLN), 1);
}

int gpur_current_core(void)
{
    size_t core = 0;
    return pthread_cpu_number_np(&core) == 0 ? (int)core : -1;
}

void gpur_processor_name(char *name, size_t size)
{
    if (sysctlbyname("machdep.cpu.brand_string", name, &size, NULL, 0) != 0)
        snprintf(name, size, "CPU");
}

/* Memory. */

/* What is free, and what the system takes back without writing it anywhere. */
void gpur_machine_memory(int64_t *total, int64_t *available)
{
    vm_statistics64_data_t pages;
    mach_msg_type_number_t count = HOST_VM_INFO64_COUNT;
    uint64_t bytes = 0;
    size_t size = sizeof bytes;
    sysctlbyname("hw.memsize", &bytes, &size, NULL, 0);
    *total = *available = (int64_t)bytes;
    if (host_statistics64(mach_host_self(), HOST_VM_INFO64, (host_info64_t)&pages, &count) == KERN_SUCCESS)
        *available = ((int64_t)pages.free_count + pages.inactive_count + pages.purgeable_count) * (int64_t)vm_page_size;
}

void gpur_advise_huge_pages(void *memory, size_t bytes)
{
    (void)memory, (void)bytes; /* the system has no such advice */
}

/* Shared memory has a name until it is open, is closed on exec, and gets its size once. */
int gpur_shared_memory_open(int64_t bytes)
{
    static atomic_int number;
    char name[31]; /* the longest that is allowed */
    int descriptor;
    do {
        snprintf(name, sizeof name, "/gpureplay-%d-%d", (int)getpid(), atomic_fetch_add(&number, 1));
        descriptor = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
    } while (descriptor < 0 && errno == EEXIST);
    if (descriptor < 0)
        return -1;
    shm_unlink(name);
    if (ftruncate(descriptor, bytes) == 0)
        return descriptor;
    const int error = errno;
    close(descriptor);
    errno = error;
    return -1;
}

int64_t gpur_shared_memory_size(int64_t bytes)
{
    return gpur_round_up(bytes, (int64_t)vm_page_size);
}

/* Files and descriptors. */

int gpur_file_reserve(int descriptor, int64_t bytes)
{
    fstore_t room = {.fst_flags = F_ALLOCATEALL, .fst_posmode = F_PEOFPOSMODE, .fst_length = bytes};
    return fcntl(descriptor, F_PREALLOCATE, &room) == 0 ? ftruncate(descriptor, bytes) : -1;
}

void gpur_file_start_writing(int descriptor, int64_t from, int64_t bytes)
{
    (void)descriptor, (void)from, (void)bytes; /* the system has no such hint */
}

/* fsync leaves data in the drive's cache. */
int gpur_file_sync(int descriptor)
{
    return fcntl(descriptor, F_FULLFSYNC) == 0 ? 0 : fsync(descriptor);
}

int gpur_file_exchange(int folder, const char *name, const char *other)
{
    return renameatx_np(folder, name, folder, other, RENAME_SWAP);
}

struct timespec gpur_file_modified(const struct stat *file)
{
    return file->st_mtimespec;
}

/* No call opens them closed on exec, so a process that another thread starts in between gets them, too. */
static int close_on_exec(const int ends[2])
{
    for (int i = 0; i < 2; i++)
        if (fcntl(ends[i], F_SETFD, FD_CLOEXEC) != 0)
            return -1;
    return 0;
}

static int do_not_block(const int ends[2])
{
    for (int i = 0; i < 2; i++)
        if (fcntl(ends[i], F_SETFL, O_NONBLOCK) != 0)
            return -1;
    return 0;
}

static int close_both(const int ends[2])
{
    const int error = errno;
    close(ends[0]);
    close(ends[1]);
    errno = error;
    return -1;
}

int gpur_pipe_open(int ends[2])
{
    if (pipe(ends) != 0)
        return -1;
    return close_on_exec(ends) == 0 && do_not_block(ends) == 0 ? 0 : close_both(ends);
}

int gpur_socket_pair_open(int ends[2])
{
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
        return -1;
    return close_on_exec(ends) == 0 ? 0 : close_both(ends);
}

char **gpur_environment(void)
{
    return *_NSGetEnviron(); /* a library cannot be linked with environ */
}
