/* SPDX-License-Identifier: MIT */
/* Checks that AddressSanitizer reports an access past the end of an array that shares its allocation with others, and
 * past the end of an allocation of the device. */
#include "device/device.h"
#include "base/arena.h"
#include "test.h"

/* Reads element `at` of an array of 7 between two others. */
static float read_number(gpur_device *device, int at)
{
    gpur_arena arena = {0};
    void *memory = NULL;
    float *middle = NULL;
    for (int pass = 0; pass < 2; pass++) { /* the first counts bytes */
        if (pass == 1 && gpur_memory_alloc(device, arena.used, "a test", &memory) != GPUR_OK)
            return -1;
        arena = (gpur_arena){.base = memory};
        (void)gpur_arena_floats(&arena, 7);
        middle = gpur_arena_floats(&arena, 7);
        (void)gpur_arena_floats(&arena, 7);
    }
    for (int i = 0; i < 7; i++)
        middle[i] = 1;
    const float got = *(const volatile float *)&middle[at];
    gpur_memory_free(device, memory);
    return got;
}

/* Reads byte `at` of an allocation of 100 bytes. */
static int read_byte(gpur_device *device, int at)
{
    unsigned char *memory = NULL;
    if (gpur_memory_alloc(device, 100, "a test", (void **)&memory) != GPUR_OK)
        return -1;
    memset(memory, 1, 100);
    const int got = *(const volatile unsigned char *)&memory[at];
    gpur_memory_free(device, memory);
    return got;
}

int main(int argc, char **argv)
{
    const char *const name = argc > 1 ? argv[1] : "";
    gpur_device *device = NULL;
    if (gpur_device_open("cpu", NULL, &device) != GPUR_OK)
        return 1;
    const float got = read_number(device, strcmp(name, "past_array") == 0 ? 7 : 6) *
                      (float)read_byte(device, strcmp(name, "past_allocation") == 0 ? 100 : 99);
    gpur_device_close(device);
    return got == 1 ? 0 : 1;
}
