/* SPDX-License-Identifier: MIT */
/* How the supervisor of a run of Ape-X is woken, and the error found that has ended it. */
#include "run/apex/handle.h"

#include <unistd.h>

gpur_status gpur_apex_check(gpur_apex *apex)
{
    gpur_mutex_lock(&apex->core.lock);
    const gpur_status status = apex->core.status;
    gpur_mutex_unlock(&apex->core.lock);
    return status == GPUR_OK ? GPUR_OK : gpur_fail(status, "%s", apex->core.error);
}

void gpur_apex_wake(gpur_apex *apex)
{
    const uint64_t one = 1;
    (void)!write(apex->wake, &one, sizeof one);
}
