/* SPDX-License-Identifier: MIT */
/* Linked to a test program, this makes all its CUDA devices fake, and checks at exit that nothing leaked. In a library
 * for Python it checks nothing: Python does not take down all objects when it ends. */
#include "support/cuda/fake_cuda.h"

#include <stdio.h>
#include <unistd.h>

__attribute__((constructor)) static void use_fake_runtime(void)
{
    faults.fake = 1;
}

#ifndef GPUR_FAKE_LIBRARY
__attribute__((destructor)) static void check_for_leaks(void)
{
    if (fake_alive() == 0)
        return;
    fprintf(stderr, "%lld CUDA objects were not destroyed\n", (long long)fake_alive());
    fflush(NULL);
    _exit(1);
}
#endif
