/* SPDX-License-Identifier: MIT */
#include "base/thread.h"

#include <signal.h>
#include <string.h>

/* Signals that say where a thread is: handlers that report a crash, and profilers, want them of every thread. */
static const int of_crashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGPROF};

int gpur_thread_create(pthread_t *thread, void *(*run)(void *), void *context)
{
    sigset_t all, before;
    sigfillset(&all);
    for (size_t i = 0; i < sizeof of_crashes / sizeof *of_crashes; i++)
        sigdelset(&all, of_crashes[i]);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* the new thread inherits the mask */
    const int error = pthread_create(thread, NULL, run, context);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

gpur_status gpur_thread_start(pthread_t *thread, void *(*run)(void *), void *context, const char *what)
{
    const int error = gpur_thread_create(thread, run, context);
    return error ? gpur_fail(GPUR_OUT_OF_MEMORY, "a thread for %s could not be started: %s", what, strerror(error))
                 : GPUR_OK;
}
