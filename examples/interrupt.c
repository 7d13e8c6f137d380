/* SPDX-License-Identifier: MIT */
#include "interrupt.h"

#include <signal.h>
#include <stddef.h>

/* A signal handler can reach nothing but a global. */
static volatile sig_atomic_t came;

static void remember(int signal_number)
{
    (void)signal_number;
    came = 1;
}

void interrupt_watch(void)
{
    struct sigaction action = {.sa_handler = remember, .sa_flags = (int)SA_RESETHAND | SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

int interrupt_came(void)
{
    return came;
}
