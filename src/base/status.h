/* SPDX-License-Identifier: MIT */
/* Errors with a message: every refusal of the library goes through gpur_fail. */
#pragma once

#include "gpureplay/status.h"

#if defined(__GNUC__)
#define GPUR_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define GPUR_PRINTF(text, first)
#endif

/* Stores the text for gpur_last_error of this thread and returns `status`, so that a caller can write `return
 * gpur_fail(...)`. */
gpur_status gpur_fail(gpur_status status, const char *format, ...) GPUR_PRINTF(2, 3);

/* Puts words and a colon in front of this thread's error text, and returns `status`. GPUR_OK changes nothing. */
gpur_status gpur_prefix_error(gpur_status status, const char *format, ...) GPUR_PRINTF(2, 3);

/* Returns a failure to the caller. The caller of a half-built object owns its single clean-up path, so nothing
 * leaks. */
#define GPUR_TRY(call)                                                                                                 \
    do {                                                                                                               \
        const gpur_status gpur_try_status_ = (call);                                                                   \
        if (gpur_try_status_ != GPUR_OK)                                                                               \
            return gpur_try_status_;                                                                                   \
    } while (0)

/* Refuses with GPUR_INVALID_ARGUMENT unless the condition holds; the remaining arguments are the message. */
#define GPUR_REQUIRE(condition, ...)                                                                                   \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            return gpur_fail(GPUR_INVALID_ARGUMENT, __VA_ARGS__);                                                      \
    } while (0)
