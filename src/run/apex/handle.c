/* SPDX-License-Identifier: MIT */
/* How a run of Ape-X that has ended is refused, and how its supervisor is woken. */
#include "run/apex/handle.h"

#include <unistd.h>

gpur_status gpur_apex_check_open(gpur_apex *apex)
{
    GPUR_REQUIRE(apex, "apex is NULL");
    return gpur_run_check_open(&apex->core);
}

void gpur_apex_wake(gpur_apex *apex)
{
    const uint64_t one = 1;
    (void)!write(apex->wake, &one, sizeof one);
}
