/* SPDX-License-Identifier: MIT */
/* gpureplay.h is all that a C99 program needs: it compiles with -pedantic, links with the shared library, and runs. */
#include <gpureplay.h>
#include <stdio.h>

int main(void)
{
    gpur_device *device = NULL;
    if (gpur_device_open("cpu", NULL, &device) != GPUR_OK) {
        fprintf(stderr, "gpur_device_open: %s\n", gpur_last_error());
        return 1;
    }
    gpur_device_close(device);
    printf("test_header: a C99 program opens and closes \"cpu\"\n");
    return 0;
}
