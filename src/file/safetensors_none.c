/* SPDX-License-Identifier: MIT */
/* Replaces safetensors_json.c in a build without cJSON or xxHash. */
#include "file/safetensors.h"

gpur_status gpur_tensors_available(void)
{
    return gpur_fail(GPUR_UNAVAILABLE, "this build reads and writes no files: it was made without cJSON or xxHash. "
                                       "Debian: apt install libcjson-dev libxxhash-dev, then configure and build again "
                                       "(GPUREPLAY_FILES=ON makes sure)");
}

gpur_status gpur_tensors_parse(gpur_tensors *tensors, const char *text, size_t length)
{
    (void)tensors, (void)text, (void)length;
    return gpur_tensors_available();
}

gpur_status gpur_tensors_print(const gpur_tensors *tensors, unsigned char **head, int64_t *bytes)
{
    (void)tensors, (void)head, (void)bytes;
    return gpur_tensors_available();
}

uint64_t gpur_checksum(const void *data, int64_t bytes)
{
    (void)data, (void)bytes;
    return 0;
}

uint64_t gpur_checksum_of_two(const void *first, int64_t first_bytes, const void *second, int64_t second_bytes)
{
    (void)first, (void)first_bytes, (void)second, (void)second_bytes;
    return 0;
}

gpur_status gpur_checksum_available(void)
{
    return gpur_fail(GPUR_UNAVAILABLE, "this build has no checksums, and so no blocks: it was made without cJSON or "
                                       "xxHash. Debian: apt install libcjson-dev libxxhash-dev, then configure and "
                                       "build again (GPUREPLAY_FILES=ON makes sure)");
}
