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

/* Exports a function from the shared library. */
#if defined(__GNUC__)
#define GPUR_API __attribute__((visibility("default")))
#else
#define GPUR_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The result of a call. GPUR_OK is 0.
 *
 * A status above 0 means that the call was refused and has changed nothing, except where the function's comment says
 * otherwise. A status below 0 means that the device failed: the objects on it can only be destroyed.
 *
 * After every status except GPUR_OK, gpur_last_error returns a message with the value that was given and the values
 * that are allowed.
 */
typedef int32_t gpur_status;
enum {
    GPUR_OK = 0,
    GPUR_INVALID_ARGUMENT = 1, /* an argument is out of range, or NULL where that is not allowed */
    GPUR_OUT_OF_MEMORY = 2,    /* not enough memory; the message has the bytes needed and available. Also: the system
                                  has no more locks or threads; the message has the system's words */
    GPUR_TOO_FEW = 3,          /* the replay holds fewer transitions than the call needs; the message has both counts */
    GPUR_WOULD_BLOCK = 4,      /* the call would have to wait, and was asked not to; calling again later can succeed. An
                               append may have taken some of the rows, and reports how many */
    GPUR_UNAVAILABLE = 5,      /* not in this build, or not on this machine; the message says how to get it */
    GPUR_FILE_ERROR = 6,       /* a file cannot be read or written, or its contents are damaged */
    GPUR_INTERRUPTED = 7,      /* the call was asked to stop, by the progress function or by gpur_run_stop and the like,
                                  or the process at the other end is gone */
    GPUR_EVICTED = 8,       /* the transition with this id was overwritten; the message has the ids that are visible. An
                               id that is not in use yet is GPUR_INVALID_ARGUMENT */
    GPUR_DEVICE_ERROR = -1, /* the device or one of its libraries failed; the message has that library's words */
};

/* Returns the name of a status, "GPUR_OK" and so on, and "unknown status" for any other number. The string has static
 * storage. Any thread. */
GPUR_API const char *gpur_status_name(gpur_status status);

/* Returns the message of the last call that failed on the calling thread: each thread has its own message. Never NULL;
 * "" if no call has failed. The string is valid until the thread's next call of this library. */
GPUR_API const char *gpur_last_error(void);

/* Returns the version of the loaded library, for example "0.1.0". It can differ from the GPUR_VERSION_* numbers of the
 * header that the caller was compiled with. The string has static storage. Any thread. */
GPUR_API const char *gpur_version(void);

/*
 * Describes how the library was built, in lines of "key: value": version, compiler, CUDA toolkit and architectures (or
 * how to build with CUDA), BLAS, oneDNN, libraries for files, CPU kernel variants. The string has static storage. Any
 * thread.
 */
GPUR_API const char *gpur_build_info(void);

/*
 * Returns the size in bytes of a public struct in the loaded library, given its name ("gpur_replay_config"); -1 for
 * NULL and for a name that is not a public struct. Bindings for other languages use it to check their declarations of
 * the structs. Any thread.
 *
 *     if (gpur_struct_size("gpur_replay_config") != (int64_t)sizeof(gpur_replay_config))
 *         fprintf(stderr, "libgpureplay %s has another gpur_replay_config than this program\n", gpur_version());
 */
GPUR_API int64_t gpur_struct_size(const char *name);

#ifdef __cplusplus
}
#endif
#endif
