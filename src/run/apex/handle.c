/* SPDX-License-Identifier: MIT */
/* How a run of Ape-X ends by an error, and how its supervisor is woken. */
#include "run/apex/handle.h"

#include <stdio.h>
#include <unistd.h>

void gpur_apex_end(gpur_apex *apex, gpur_status status, const char *error)
{
    if (apex->status == GPUR_OK)
        snprintf(apex->error, sizeof apex->error, "%s", error);
    if (apex->status == GPUR_OK)
        apex->status = status;
    gpur_mutex_notify_all(&apex->lock);
}

void gpur_apex_fail(gpur_apex *apex, gpur_status status)
{
    gpur_mutex_lock(&apex->lock);
    gpur_apex_end(apex, status, gpur_last_error());
    gpur_mutex_unlock(&apex->lock);
}

gpur_status gpur_apex_check_open(gpur_apex *apex)
{
    GPUR_REQUIRE(apex, "apex is NULL");
    gpur_mutex_lock(&apex->lock);
    const gpur_status status = apex->status;
    gpur_mutex_unlock(&apex->lock);
    GPUR_REQUIRE(status == GPUR_OK, "the run has ended by an error, and can only be destroyed: %s", apex->error);
    return GPUR_OK;
}

void gpur_apex_wake(gpur_apex *apex)
{
    const uint64_t one = 1;
    (void)!write(apex->wake, &one, sizeof one);
}
