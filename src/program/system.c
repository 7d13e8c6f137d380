/* SPDX-License-Identifier: MIT */
/* What Linux and macOS do by different calls. */
#include "program/program.h"

#ifdef __APPLE__
#include <mach-o/dyld.h>
#include <unistd.h>

const char *own_path(void)
{
    static char path[4096];
    uint32_t size = sizeof path;
    return _NSGetExecutablePath(path, &size) == 0 ? path : "gpureplay-train"; /* which PATH may find */
}

void end_with_parent(void)
{
}

int32_t own_cores(void)
{
    return (int32_t)sysconf(_SC_NPROCESSORS_ONLN);
}
#else
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>

const char *own_path(void)
{
    return "/proc/self/exe";
}

void end_with_parent(void)
{
    prctl(PR_SET_PDEATHSIG, SIGTERM);
}

int32_t own_cores(void)
{
    cpu_set_t cores;
    return sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
}
#endif
