/* SPDX-License-Identifier: MIT */
/* The format of packed frames once more, byte by byte (kernels/lib/frame_codes.h says what it is). */
#pragma once

#include <stdint.h>

/* Unpacks a frame of `padded` bytes; key: the unpacked key frame or NULL. Returns 0 if its length is wrong. */
int reference_unpack(const unsigned char *packed, int64_t length, const unsigned char *key, int64_t padded,
                     int64_t stride, unsigned char *to);
