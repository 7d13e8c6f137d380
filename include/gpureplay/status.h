/* SPDX-License-Identifier: MIT */
/* Status codes, error messages and versions. */
#ifndef GPUREPLAY_STATUS_H
#define GPUREPLAY_STATUS_H

#include <stddef.h>
#include <stdint.h>

/* Version of the header. */
#define GPUR_VERSION_MAJOR 0
#define GPUR_VERSION_MINOR 1
#define GPUR_VERSION_PATCH 0

/* Marks what the shared library exports. */
#if defined(__GNUC__)
#define GPUR_API __attribute__((visibility("default")))
#else
#define GPUR_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/*
 * What a call returns. GPUR_OK is 0.
 *
 * A status above 0 means that the call was refused and has changed nothing, except where its own comment says
 * otherwise. A status below 0 means that the device failed: the objects on it can only be destroyed.
 *
 * After any status but GPUR_OK, gpur_last_error has a message with the value that was given and the values that are
 * allowed.
 */
typedef int32_t gpur_status;
enum {
    GPUR_OK = 0,
    GPUR_INVALID_ARGUMENT = 1, /* an argument is outside of its range, or NULL where that is not allowed */
    GPUR_OUT_OF_MEMORY = 2,    /* there is not enough memory; the message has the bytes needed and available. Also: the
                                  system has no more locks or threads; the message has its words */
    GPUR_TOO_FEW = 3,       /* fewer transitions are in the replay than the call needs; the message has both counts */
    GPUR_WOULD_BLOCK = 4,   /* the call would have to wait, and was asked not to; calling again later can succeed. An
                               append may have taken some of the rows, and reports how many */
    GPUR_UNAVAILABLE = 5,   /* not in this build, or not on this machine; the message says how to get it */
    GPUR_FILE_ERROR = 6,    /* a file cannot be read or written, or its contents are damaged */
    GPUR_INTERRUPTED = 7,   /* the caller's progress function asked to stop */
    GPUR_EVICTED = 8,       /* the transition with this id has been overwritten; the message has the range of ids that
                               are still there. An id that no transition has had yet is GPUR_INVALID_ARGUMENT */
    GPUR_DEVICE_ERROR = -1, /* the device or one of its libraries failed; the message has that library's words */
};

/* The name of a status as written above, "GPUR_OK" and so on; "unknown status" for any other number. Any thread. */
GPUR_API const char *gpur_status_name(gpur_status status);

/* The message of the last call that failed on this thread; each thread has its own. Never NULL; "" if no call has
 * failed. The text is valid until the thread's next call of this library. */
GPUR_API const char *gpur_last_error(void);

/* The version of the library that is loaded, as "0.1.0". It may be newer than the GPUR_VERSION_* numbers of the header
 * that the caller was compiled with. Static storage. Any thread. */
GPUR_API const char *gpur_version(void);

/*
 * How the library was built, as lines of "key: value": version, compiler, CUDA toolkit and architectures (or how to
 * build with CUDA), BLAS, oneDNN, libraries for files, CPU kernel variants. Static storage. Any thread.
 */
GPUR_API const char *gpur_build_info(void);

/*
 * The size in bytes that a public struct ("gpur_replay_config", say) has in the library that is loaded; -1 for any
 * other name and for NULL. Bindings for other languages use it to check their copies of the structs. Any thread.
 */
GPUR_API int64_t gpur_struct_size(const char *name);

#ifdef __cplusplus
}
#endif
#endif
