/* SPDX-License-Identifier: MIT */
/* Hands a failure of the library on to the caller, where main reports gpur_last_error() once. */
#ifndef EXAMPLES_TRY_H
#define EXAMPLES_TRY_H

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        const gpur_status try_status_ = (call);                                                                        \
        if (try_status_ != GPUR_OK)                                                                                    \
            return try_status_;                                                                                        \
    } while (0)

#endif
