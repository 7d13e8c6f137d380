/* SPDX-License-Identifier: MIT */
/* The same headers in C++17: C linkage, so that the shared library's symbols are found. */
#include <cstdio>
#include <gpureplay.h>

int main()
{
    gpur_device *device = nullptr;
    if (gpur_device_open("cpu", nullptr, &device) != GPUR_OK) {
        std::fprintf(stderr, "gpur_device_open: %s\n", gpur_last_error());
        return 1;
    }
    gpur_device_close(device);
    std::printf("test_header_cxx: a C++17 program opens and closes \"cpu\"\n");
    return 0;
}
