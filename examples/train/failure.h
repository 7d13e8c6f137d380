/* SPDX-License-Identifier: MIT */
/* The failure that ends the program. The first one counts; main prints it. Any thread. */
#pragma once

#include <gpureplay.h>

/* What functions return that can fail or be interrupted, and the exit status of the program. 0 is success. */
enum { FAILED = 2, INTERRUPTED = 130 };

/* Makes a sentence the failure, if there is none yet. Returns FAILED. */
int fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The sentence; NULL if nothing has failed. */
const char *failure(void);

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        const int try_result_ = (call);                                                                                \
        if (try_result_)                                                                                               \
            return try_result_;                                                                                        \
    } while (0)

/* The same for calls of the library, which has the sentence. */
#define TRY_LIBRARY(call)                                                                                              \
    do {                                                                                                               \
        if ((call) != GPUR_OK)                                                                                         \
            return fail("%s", gpur_last_error());                                                                      \
    } while (0)
