/* SPDX-License-Identifier: MIT */
/* Results, error texts, version. */
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

/* Above zero: refused, nothing changed. Below zero: the device failed, destroy what lives on it. */
typedef int32_t gpur_status;
enum {
    GPUR_OK = 0,
    GPUR_INVALID_ARGUMENT = 1, /* a value is out of its range; the message has the value and the range */
    GPUR_OUT_OF_MEMORY = 2,    /* does not fit; the message has the bytes wanted and the bytes there are. Also: a lock
                                  or a thread could not be had; the message has the system's words */
    GPUR_TOO_FEW = 3,          /* fewer transitions are visible than the call needs */
    GPUR_WOULD_BLOCK = 4,      /* every staging block is in use, and the caller asked not to wait; an append may have
                                  taken the first rows, and says how many */
    GPUR_UNAVAILABLE = 5,      /* not in this build or not on this machine; the message says how to get it */
    GPUR_FILE_ERROR = 6,       /* a file cannot be read or written, or is not what was written; the message has why */
    GPUR_INTERRUPTED = 7,      /* the caller's progress function said so */
    GPUR_EVICTED = 8,          /* a transition of this id was there and has been overwritten; the message has the ids
                                  that are visible. An id that was never given is a GPUR_INVALID_ARGUMENT */
    GPUR_DEVICE_ERROR = -1,    /* the device or one of its libraries failed; the message has its words */
};

/* The name of a status as written above, "GPUR_OK" and so on; "unknown status" for any other number. Any thread. */
GPUR_API const char *gpur_status_name(gpur_status status);

/* Why this thread's last failing call failed; each thread has a text of its own. Never NULL, "" if none has failed;
 * valid until the thread's next call. */
GPUR_API const char *gpur_last_error(void);

/* "0.1.0": the version of the library that is running, which may be newer than the header's GPUR_VERSION_* numbers. Any
 * thread. */
GPUR_API const char *gpur_version(void);

/*
 * What was built in, one "key: value" per line: version, compiler, CUDA toolkit and the architectures it was built for
 * (or how to build it), BLAS, oneDNN, what reads and writes files, CPU kernel variants. Static storage. Any thread.
 */
GPUR_API const char *gpur_build_info(void);

/*
 * sizeof a public struct, by its name ("gpur_replay_config"), in the library that is running; -1 for any other name and
 * for NULL. For bindings that mirror the structs and want to know that they do. Any thread.
 */
GPUR_API int64_t gpur_struct_size(const char *name);

#ifdef __cplusplus
}
#endif
#endif
