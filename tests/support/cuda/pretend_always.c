/* SPDX-License-Identifier: MIT */
/* Linked to a test program, this turns all of its CUDA devices into fake ones and checks at exit that nothing
 * leaked. */
#include "support/cuda/pretended_cuda.h"

#include <stdio.h>
#include <unistd.h>

__attribute__((constructor)) static void pretend(void)
{
    faults.pretend = 1;
}

__attribute__((destructor)) static void look_for_leaks(void)
{
    if (pretended_alive() == 0)
        return;
    fprintf(stderr, "%lld objects of CUDA's are left\n", (long long)pretended_alive());
    fflush(NULL);
    _exit(1);
}
