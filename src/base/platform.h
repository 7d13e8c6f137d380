/* SPDX-License-Identifier: MIT */
/* What Linux and macOS do by different calls: platform_linux.c and platform_macos.c. All other files of the library are
 * C11 and POSIX. Functions that return an int give 0, or -1 with errno, if nothing else is said. */
#pragma once

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <time.h>

/* Semaphores of one process. A wait goes on after an interruption by a signal. */
#ifdef __APPLE__ /* has none without a name */
typedef struct gpur_semaphore {
    pthread_mutex_t mutex;
    pthread_cond_t posted;
    int64_t count; /* protected by `mutex` */
} gpur_semaphore;

int gpur_semaphore_open(gpur_semaphore *semaphore);
void gpur_semaphore_close(gpur_semaphore *semaphore);
void gpur_semaphore_post(gpur_semaphore *semaphore);
int gpur_semaphore_try_wait(gpur_semaphore *semaphore);
#else
#include <semaphore.h>
typedef sem_t gpur_semaphore;

static inline int gpur_semaphore_open(gpur_semaphore *semaphore)
{
    return sem_init(semaphore, 0, 0);
}
static inline void gpur_semaphore_close(gpur_semaphore *semaphore)
{
    sem_destroy(semaphore);
}
static inline void gpur_semaphore_post(gpur_semaphore *semaphore)
{
    sem_post(semaphore);
}
static inline int gpur_semaphore_try_wait(gpur_semaphore *semaphore)
{
    return sem_trywait(semaphore);
}
#endif
void gpur_semaphore_wait(gpur_semaphore *semaphore);

/* A condition variable for waits that end at a moment of CLOCK_MONOTONIC, and such a wait. They return 0 or the error's
 * number. */
int gpur_timed_condition_open(pthread_cond_t *condition);
int gpur_timed_condition_wait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *end);

/* The processor: the cores that this process may use, the one on which the caller runs, and the name of the model. */
int32_t gpur_usable_cores(void);
int gpur_current_core(void);
void gpur_processor_name(char *name, size_t size);

/* Memory that the process can use: of the machine, and less if a limit says so. */
void gpur_machine_memory(int64_t *total, int64_t *available);
void gpur_advise_huge_pages(void *memory, size_t bytes); /* only advice */

/* Memory of this size that other processes map by the descriptor, and that cannot be made smaller. Returns the
 * descriptor. fstat shows gpur_shared_memory_size(bytes) for it. */
int gpur_shared_memory_open(int64_t bytes);
int64_t gpur_shared_memory_size(int64_t bytes);

/* Files. Reserving may fail only because the file system does not know how (not ENOSPC, EDQUOT or EFBIG). */
int gpur_file_reserve(int descriptor, int64_t bytes);
void gpur_file_start_writing(int descriptor, int64_t from, int64_t bytes); /* only a hint */
int gpur_file_sync(int descriptor);
int gpur_file_exchange(int folder, const char *name, const char *other);
struct timespec gpur_file_modified(const struct stat *file);

/* Descriptors that are closed on exec. Those of the pipe do not block; a socket whose reader is gone raises no signal
 * if MSG_NOSIGNAL is given. */
int gpur_pipe_open(int ends[2]);
int gpur_socket_pair_open(int ends[2]);

char **gpur_environment(void);
