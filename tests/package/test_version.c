/* SPDX-License-Identifier: MIT */
/* Header, library, build info and package (argv[1]) have one version. Strict C99, linked with the shared library. */
#include <gpureplay.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    char header[32], info[64];
    snprintf(header, sizeof header, "%d.%d.%d", GPUR_VERSION_MAJOR, GPUR_VERSION_MINOR, GPUR_VERSION_PATCH);
    snprintf(info, sizeof info, "version: %s\n", header);
    if (argc < 2 || strcmp(argv[1], header) != 0 || strcmp(gpur_version(), header) != 0 ||
        !strstr(gpur_build_info(), info)) {
        fprintf(stderr, "header %s, library %s, package %s, build info:\n%s", header, gpur_version(),
                argc < 2 ? "not given" : argv[1], gpur_build_info());
        return 1;
    }
    printf("test_version: %s everywhere\n", header);
    return 0;
}
