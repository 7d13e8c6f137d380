/* SPDX-License-Identifier: MIT */
#include "support/faults.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef GPUR_HAS_FILES
#include <cjson/cJSON.h>
#endif

static struct {
    atomic_int kinds;
    _Atomic int64_t nth, calls, live;
    atomic_int always;
    _Atomic(const char *) name;
} faults;

void faults_begin(int kinds, int64_t nth, int always)
{
    atomic_store(&faults.nth, nth);
    atomic_store(&faults.calls, 0);
    atomic_store(&faults.always, always);
    atomic_store(&faults.name, "");
    atomic_store(&faults.kinds, kinds);
}

int64_t faults_end(void)
{
    atomic_store(&faults.kinds, 0);
    return atomic_load(&faults.calls);
}

const char *faults_name(void)
{
    const char *const name = atomic_load(&faults.name);
    return name ? name : "";
}

int64_t faults_live(void)
{
    return atomic_load(&faults.live);
}

/* 1: this call is to fail. */
static int strikes(int kind, const char *name)
{
    if (!(atomic_load(&faults.kinds) & kind))
        return 0;
    const int64_t call = atomic_fetch_add(&faults.calls, 1) + 1, nth = atomic_load(&faults.nth);
    if (nth == 0 || call < nth || (call > nth && !atomic_load(&faults.always)))
        return 0;
    if (call == nth)
        atomic_store(&faults.name, name);
    return 1;
}

void *faults_take(void *user, size_t bytes)
{
    return strikes(FAULT_MEMORY | FAULT_HOOK, "the caller's allocator") ? NULL : counting_alloc_take(user, bytes);
}

static void *counted(void *memory)
{
    if (memory)
        atomic_fetch_add(&faults.live, 1);
    return memory;
}

static int refuses_memory(const char *name)
{
    const int refused = strikes(FAULT_MEMORY, name);
    if (refused)
        errno = ENOMEM;
    return refused;
}

/* NAME(arguments) of the C library, counted as a block of memory. */
#define WRAP_MEMORY(name, parameters, ...)                                                                             \
    void *__real_##name parameters;                                                                                    \
    void *__wrap_##name parameters;                                                                                    \
    void *__wrap_##name parameters                                                                                     \
    {                                                                                                                  \
        return refuses_memory(#name) ? NULL : counted(__real_##name(__VA_ARGS__));                                     \
    }
WRAP_MEMORY(malloc, (size_t bytes), bytes)
WRAP_MEMORY(calloc, (size_t count, size_t bytes), count, bytes)
WRAP_MEMORY(strdup, (const char *text), text)
WRAP_MEMORY(strndup, (const char *text, size_t most), text, most)

void *__real_realloc(void *memory, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes)
{
    if (refuses_memory("realloc"))
        return NULL;
    void *const moved = __real_realloc(memory, bytes);
    return memory ? moved : counted(moved);
}

int __real_posix_memalign(void **memory, size_t alignment, size_t bytes);
int __wrap_posix_memalign(void **memory, size_t alignment, size_t bytes);
int __wrap_posix_memalign(void **memory, size_t alignment, size_t bytes)
{
    if (strikes(FAULT_MEMORY, "posix_memalign"))
        return ENOMEM;
    const int error = __real_posix_memalign(memory, alignment, bytes);
    if (error == 0)
        (void)counted(*memory);
    return error;
}

/* Of the counting allocator, which fails by faults_take. */
void *__real_aligned_alloc(size_t alignment, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
    return counted(__real_aligned_alloc(alignment, bytes));
}

void __real_free(void *memory);
void __wrap_free(void *memory);
void __wrap_free(void *memory)
{
    if (memory)
        atomic_fetch_sub(&faults.live, 1);
    __real_free(memory);
}

/* A call that returns 0, or `failure`. */
#define WRAP_CALL(kind, failure, name, parameters, ...)                                                                \
    int __real_##name parameters;                                                                                      \
    int __wrap_##name parameters;                                                                                      \
    int __wrap_##name parameters                                                                                       \
    {                                                                                                                  \
        return strikes(kind, #name) ? (failure) : __real_##name(__VA_ARGS__);                                          \
    }
WRAP_CALL(FAULT_LOCK, ENOMEM, pthread_mutex_init, (pthread_mutex_t * mutex, const pthread_mutexattr_t *how), mutex, how)
WRAP_CALL(FAULT_LOCK, ENOMEM, pthread_cond_init, (pthread_cond_t * condition, const pthread_condattr_t *how), condition,
          how)
WRAP_CALL(FAULT_THREAD, EAGAIN, pthread_create,
          (pthread_t * thread, const pthread_attr_t *how, void *(*run)(void *), void *context), thread, how, run,
          context)

#define WRAP_FILE(name, parameters, ...) WRAP_CALL(FAULT_FILE, (errno = EIO, -1), name, parameters, __VA_ARGS__)
WRAP_FILE(fstatat, (int folder, const char *name, struct stat *there, int how), folder, name, there, how)
WRAP_FILE(fstat, (int file, struct stat *there), file, there)
WRAP_FILE(flock, (int file, int how), file, how)
WRAP_FILE(ftruncate, (int file, off_t bytes), file, bytes)
WRAP_FILE(fallocate, (int file, int mode, off_t offset, off_t bytes), file, mode, offset, bytes)
WRAP_FILE(fchmod, (int file, mode_t mode), file, mode)
WRAP_FILE(fchown, (int file, uid_t user, gid_t group), file, user, group)
WRAP_FILE(renameat, (int from_folder, const char *from, int to_folder, const char *to), from_folder, from, to_folder,
          to)
WRAP_FILE(unlinkat, (int folder, const char *name, int how), folder, name, how)
WRAP_CALL(FAULT_FILE | FAULT_FSYNC, (errno = EIO, -1), fsync, (int file), file)
WRAP_CALL(FAULT_FILE | FAULT_EXCHANGE, (errno = EINVAL, -1), renameat2,
          (int from_folder, const char *from, int to_folder, const char *to, unsigned how), from_folder, from,
          to_folder, to, how)

ssize_t __real_pwrite(int file, const void *data, size_t bytes, off_t offset);
ssize_t __wrap_pwrite(int file, const void *data, size_t bytes, off_t offset);
ssize_t __wrap_pwrite(int file, const void *data, size_t bytes, off_t offset)
{
    if (strikes(FAULT_FILE, "pwrite")) {
        errno = EIO;
        return -1;
    }
    return __real_pwrite(file, data, bytes, offset);
}

/* A call whose parameters end in `how` and, where a file is made, its mode. */
#define WRAP_OPEN(name, parameters, ...)                                                                               \
    int __real_##name parameters;                                                                                      \
    int __wrap_##name parameters;                                                                                      \
    int __wrap_##name parameters                                                                                       \
    {                                                                                                                  \
        va_list more;                                                                                                  \
        if (strikes(FAULT_FILE, #name)) {                                                                              \
            errno = EIO;                                                                                               \
            return -1;                                                                                                 \
        }                                                                                                              \
        va_start(more, how);                                                                                           \
        const unsigned mode = how & O_CREAT ? va_arg(more, unsigned) : 0;                                              \
        va_end(more);                                                                                                  \
        return __real_##name(__VA_ARGS__, mode);                                                                       \
    }
WRAP_OPEN(open, (const char *path, int how, ...), path, how)
WRAP_OPEN(openat, (int folder, const char *name, int how, ...), folder, name, how)

#ifdef GPUR_HAS_DNNL
/* oneDNN returns 1 when there is no memory. */
#define WRAP_DNNL(name, parameters, ...) WRAP_CALL(FAULT_DNNL, 1, name, parameters, __VA_ARGS__)
WRAP_DNNL(dnnl_engine_create, (void **made, int kind, size_t index), made, kind, index)
WRAP_DNNL(dnnl_stream_create, (void **made, void *engine, unsigned flags), made, engine, flags)
WRAP_DNNL(dnnl_memory_create, (void **made, const void *layout, void *engine, void *handle), made, layout, engine,
          handle)
WRAP_DNNL(dnnl_primitive_attr_create, (void **made), made)
WRAP_DNNL(dnnl_post_ops_create, (void **made), made)
WRAP_DNNL(dnnl_primitive_attr_set_post_ops, (void *attributes, void *after), attributes, after)
#if GPUR_HAS_DNNL == 2
WRAP_DNNL(dnnl_primitive_desc_create, (void **made, const void *what, void *attributes, void *engine, void *hint), made,
          what, attributes, engine, hint)
#else
WRAP_DNNL(dnnl_memory_desc_create_with_tag, (void **made, int axes, const void *dims, int type, int tag), made, axes,
          dims, type, tag)
WRAP_DNNL(dnnl_convolution_forward_primitive_desc_create,
          (void **made, void *engine, int kind, int algorithm, const void *x, const void *w, const void *bias,
           const void *y, const void *strides, const void *gaps, const void *before, const void *after,
           void *attributes),
          made, engine, kind, algorithm, x, w, bias, y, strides, gaps, before, after, attributes)
WRAP_DNNL(dnnl_convolution_backward_data_primitive_desc_create,
          (void **made, void *engine, int algorithm, const void *x, const void *w, const void *y, const void *strides,
           const void *gaps, const void *before, const void *after, void *forward, void *attributes),
          made, engine, algorithm, x, w, y, strides, gaps, before, after, forward, attributes)
WRAP_DNNL(dnnl_convolution_backward_weights_primitive_desc_create,
          (void **made, void *engine, int algorithm, const void *x, const void *w, const void *bias, const void *y,
           const void *strides, const void *gaps, const void *before, const void *after, void *forward,
           void *attributes),
          made, engine, algorithm, x, w, bias, y, strides, gaps, before, after, forward, attributes)
#endif
WRAP_DNNL(dnnl_reorder_primitive_desc_create,
          (void **made, const void *from, void *from_engine, const void *to, void *to_engine, void *attributes), made,
          from, from_engine, to, to_engine, attributes)
WRAP_DNNL(dnnl_primitive_create, (void **made, void *description), made, description)
#endif

void faults_watch_json(void)
{
#ifdef GPUR_HAS_FILES
    cJSON_Hooks hooks = {__wrap_malloc, __wrap_free};
    cJSON_InitHooks(&hooks);
#endif
}
