/* SPDX-License-Identifier: MIT */
/* Compression by Zstandard. A build without it returns GPUR_UNAVAILABLE with the name of the package. */
#pragma once

#include "base/status.h"

enum { GPUR_MAX_COMPRESSION = 19 };

gpur_status gpur_compression_available(void);

/* The most bytes that so many bytes take when they are compressed. */
int64_t gpur_compression_bound(int64_t bytes);

/*
 * Compresses at a level from 1 to GPUR_MAX_COMPRESSION.
 *
 *   room     gpur_compression_bound or more
 *   written  receives the size of the result
 *
 *   GPUR_OUT_OF_MEMORY  no memory for the compressor's tables
 */
gpur_status gpur_compress(const void *from, int64_t bytes, int32_t level, void *to, int64_t room, int64_t *written);

/* Refuses what gpur_compress cannot have made of `raw` bytes; to be called before memory is allocated for those.
 * GPUR_FILE_ERROR: the message has both sizes. */
gpur_status gpur_compressed_check(const void *from, int64_t bytes, int64_t raw);

/* GPUR_FILE_ERROR: the data are damaged, or are not exactly `raw` bytes. */
gpur_status gpur_decompress(const void *from, int64_t bytes, void *to, int64_t raw);
