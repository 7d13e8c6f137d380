/* SPDX-License-Identifier: MIT */
/* Functions of an environment return NULL, or a sentence that says what went wrong. */
#pragma once

#include "base/status.h"

/* Writes the sentence into a buffer of the calling thread, where it stays until the thread's next refusal. The buffer
 * is not that of gpur_last_error, so that a caller can put the sentence into a message of its own. */
const char *gpur_env_refuse(const char *format, ...) GPUR_PRINTF(1, 2);

/* Returns a sentence unless the condition holds; the remaining arguments are the sentence. */
#define GPUR_ENV_REQUIRE(condition, ...)                                                                               \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            return gpur_env_refuse(__VA_ARGS__);                                                                       \
    } while (0)

/* Returns the sentence of a call that failed. */
#define GPUR_ENV_TRY(call)                                                                                             \
    do {                                                                                                               \
        const char *const gpur_env_try_ = (call);                                                                      \
        if (gpur_env_try_)                                                                                             \
            return gpur_env_try_;                                                                                      \
    } while (0)
