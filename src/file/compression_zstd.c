/* SPDX-License-Identifier: MIT */
/* compression_none.c replaces this file in builds without Zstandard. */
#include "file/compression.h"

#include <inttypes.h>
#include <zstd.h>
#include <zstd_errors.h>

/* A block of Zstandard holds at most 2^17 bytes and takes at least 4 [RFC 8878, section 3.1.1.2]. */
enum { MOST_FROM_A_BYTE = 1 << 15 };

gpur_status gpur_compression_available(void)
{
    return GPUR_OK;
}

int64_t gpur_compression_bound(int64_t bytes)
{
    return (int64_t)ZSTD_compressBound((size_t)bytes);
}

gpur_status gpur_compress(const void *from, int64_t bytes, int32_t level, void *to, int64_t room, int64_t *written)
{
    const size_t size = ZSTD_compress(to, (size_t)room, from, (size_t)bytes, level);
    if (ZSTD_isError(size))
        return gpur_fail(GPUR_OUT_OF_MEMORY, "Zstandard cannot compress %" PRId64 " bytes at level %d: %s", bytes,
                         (int)level, ZSTD_getErrorName(size));
    *written = (int64_t)size;
    return GPUR_OK;
}

gpur_status gpur_compressed_check(const void *from, int64_t bytes, int64_t raw)
{
    const unsigned long long size = ZSTD_getFrameContentSize(from, (size_t)bytes);
    if (size == ZSTD_CONTENTSIZE_ERROR || size == ZSTD_CONTENTSIZE_UNKNOWN)
        return gpur_fail(GPUR_FILE_ERROR, "the data are not compressed by Zstandard, or do not say how long they are");
    if (size != (unsigned long long)raw)
        return gpur_fail(GPUR_FILE_ERROR, "%" PRId64 " compressed bytes say that they hold %llu; it must be %" PRId64,
                         bytes, size, raw);
    if (raw / MOST_FROM_A_BYTE > bytes)
        return gpur_fail(GPUR_FILE_ERROR,
                         "%" PRId64 " compressed bytes say that they hold %" PRId64
                         "; a byte of Zstandard's holds at most %d",
                         bytes, raw, MOST_FROM_A_BYTE);
    return GPUR_OK;
}

gpur_status gpur_decompress(const void *from, int64_t bytes, void *to, int64_t raw)
{
    const size_t size = ZSTD_decompress(to, (size_t)raw, from, (size_t)bytes);
    if (ZSTD_isError(size))
        return gpur_fail(ZSTD_getErrorCode(size) == ZSTD_error_memory_allocation ? GPUR_OUT_OF_MEMORY : GPUR_FILE_ERROR,
                         "Zstandard cannot decompress %" PRId64 " bytes: %s", bytes, ZSTD_getErrorName(size));
    if ((int64_t)size != raw)
        return gpur_fail(GPUR_FILE_ERROR, "%" PRId64 " compressed bytes hold %zu; it must be %" PRId64, bytes, size,
                         raw);
    return GPUR_OK;
}
