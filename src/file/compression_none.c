/* SPDX-License-Identifier: MIT */
/* Replaces compression_zstd.c in a build without Zstandard. */
#include "file/compression.h"

gpur_status gpur_compression_available(void)
{
    return gpur_fail(GPUR_UNAVAILABLE, "this build compresses nothing: it was made without Zstandard. Debian: apt "
                                       "install libzstd-dev, then configure and build again (GPUREPLAY_ZSTD=ON makes "
                                       "sure)");
}

int64_t gpur_compression_bound(int64_t bytes)
{
    return bytes;
}

gpur_status gpur_compress(const void *from, int64_t bytes, int32_t level, void *to, int64_t room, int64_t *written)
{
    (void)from, (void)bytes, (void)level, (void)to, (void)room, (void)written;
    return gpur_compression_available();
}

gpur_status gpur_compressed_check(const void *from, int64_t bytes, int64_t raw)
{
    (void)from, (void)bytes, (void)raw;
    return gpur_compression_available();
}

gpur_status gpur_decompress(const void *from, int64_t bytes, void *to, int64_t raw)
{
    (void)from, (void)bytes, (void)to, (void)raw;
    return gpur_compression_available();
}
