/* SPDX-License-Identifier: MIT */
/* What a figure depends on beside the code: asked from the system when the program runs. */
#ifndef BENCH_MACHINE_H
#define BENCH_MACHINE_H

#include <stddef.h>

/* The commit of the working folder, "..., with changes" where that is so; GPUREPLAY_COMMIT where git is not there. */
const char *machine_commit(char *text, size_t bytes);

/* The first line of what the NVIDIA driver says of itself, or "none". */
const char *machine_driver(char *text, size_t bytes);

/* "Linux 6.1.0 x86_64" */
const char *machine_system(char *text, size_t bytes);

#endif
