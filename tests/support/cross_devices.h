/* SPDX-License-Identifier: MIT */
/* Two devices in one process, to be compared: the CPU with one thread, and the device under test. */
#ifndef GPUR_SUPPORT_CROSS_DEVICES_H
#define GPUR_SUPPORT_CROSS_DEVICES_H

#include "test.h"

enum { CROSS_DEVICES = 2 };

static inline gpur_device *cross_open_one(const char *name, int32_t threads, int32_t executor)
{
    gpur_device_config config = test_device_config();
    gpur_device *device = NULL;
    config.threads = threads;
    config.executor = executor;
    if (gpur_device_open(name, &config, &device) == GPUR_OK)
        return device;
    fprintf(stderr, "%s: no device %s: %s\n", test_state.program, name, gpur_last_error());
    exit(1);
}

/* On the CPU the other side has two threads, and the executor that the first has not. */
static inline void cross_open(gpur_device *device[CROSS_DEVICES])
{
    const int32_t executor = test_executor();
    const int32_t other = executor == GPUR_EXECUTOR_INLINE ? GPUR_EXECUTOR_THREAD : GPUR_EXECUTOR_INLINE;
    device[0] = cross_open_one("cpu", 1, test_on_cuda() ? GPUR_EXECUTOR_INLINE : other);
    device[1] = cross_open_one(test_device_name(), 2, executor);
}

/* How many bytes of one array of both batches differ; -1 when reading fails. */
static inline int64_t cross_differing(gpur_batch *const batch[CROSS_DEVICES], const char *name)
{
    gpur_field_info info = {.size = sizeof info};
    void *memory = NULL;
    if (gpur_batch_get_array(batch[0], name, &memory, &info) != GPUR_OK)
        return -1;
    const int64_t bytes = gpur_batch_count(batch[0]) * info.bytes;
    unsigned char *const left = malloc((size_t)bytes), *const right = malloc((size_t)bytes);
    const int could = gpur_batch_read(batch[0], name, left, bytes) == GPUR_OK &&
                      gpur_batch_read(batch[1], name, right, bytes) == GPUR_OK;
    int64_t differ = could ? 0 : -1;
    for (int64_t i = 0; could && i < bytes; i++)
        differ += left[i] != right[i];
    free(left);
    free(right);
    return differ;
}

static inline void cross_close(gpur_device *device[CROSS_DEVICES])
{
    gpur_device_close(device[0]);
    gpur_device_close(device[1]);
}

/* 1 where every call takes ten to a hundred times as long: builds with a sanitizer, and GPUR_TEST_SMALL=1, which asks
 * for small counts under compute-sanitizer. */
static inline int cross_is_slow(void)
{
    const char *const text = getenv("GPUR_TEST_SMALL");
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    if (!test_is_long())
        return 1;
#endif
    return text && strcmp(text, "1") == 0;
}

static inline int cross_count(int full)
{
    return cross_is_slow() ? full / 20 : full;
}

#endif
