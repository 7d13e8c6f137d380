/* SPDX-License-Identifier: MIT */
/* Copies of values on one CPU thread: of any size, to and from any alignment, whole, and with nothing beside them. */
#include "device/device.h"
#include "kernels/cpu/copy_prefetch.h"
#include "kernels/cpu/copy_value.h"
#include "support/replay_fixture.h"
#include "test.h"

enum { ROOM = 2048, MARGIN = 96, GUARD = 0xA5 };

typedef struct target {
    gpur_device *device;
    gpur_stream *stream;
    unsigned char *memory; /* (ROOM) of the device; the host can read it, too, except on CUDA */
} target;

/* Every kind of copy, as one function: `bytes` bytes from `from` to `at` in the target. */
typedef gpur_status (*copy_fn)(const target *t, int64_t at, const unsigned char *from, int64_t bytes);

static gpur_status copy_value(const target *t, int64_t at, const unsigned char *from, int64_t bytes)
{
    if (bytes > 0)
        gpur_copy_value(t->memory + at, from, bytes);
    return GPUR_OK;
}

static gpur_status copy_prefetch(const target *t, int64_t at, const unsigned char *from, int64_t bytes)
{
    gpur_copy_prefetch(t->memory + at, from, from, bytes);
    return GPUR_OK;
}

static gpur_status copy_prefetch_nt(const target *t, int64_t at, const unsigned char *from, int64_t bytes)
{
    gpur_copy_prefetch_nt(t->memory + at, from, from, bytes);
    gpur_nt_fence();
    return GPUR_OK;
}

static gpur_status copy_nt(const target *t, int64_t at, const unsigned char *from, int64_t bytes)
{
    return gpur_copy_nt(t->stream, t->memory + at, from, bytes);
}

static void check_copy(const target *t, copy_fn copy, int64_t at, const unsigned char *from, int64_t bytes)
{
    unsigned char got[ROOM], want[ROOM];
    memset(want, GUARD, sizeof want);
    memcpy(want + at, from, (size_t)bytes);
    CHECK_OK(gpur_fill(t->stream, t->memory, GUARD, ROOM));
    CHECK_OK(gpur_stream_sync(t->stream));
    CHECK_OK(copy(t, at, from, bytes));
    CHECK_OK(gpur_copy(t->stream, got, t->memory, ROOM));
    CHECK_OK(gpur_stream_sync(t->stream));
    TEST_REQUIRE(memcmp(got, want, sizeof got) == 0, "%d bytes to %d are wrong", (int)bytes, (int)at);
}

TEST(a_value_of_any_size_is_copied_whole_and_nothing_beside_it)
{
    static const copy_fn copies[] = {copy_nt, copy_value, copy_prefetch, copy_prefetch_nt};
    unsigned char from[ROOM];
    target t = {.device = test_device()};
    CHECK_OK(gpur_stream_create(t.device, &t.stream));
    CHECK_OK(gpur_memory_alloc(t.device, ROOM, "a target", (void **)&t.memory));
    for (int i = 0; i < ROOM; i++)
        from[i] = (unsigned char)(i * 7 + i / 256 + 1);
    for (int c = 0; c < (test_on_cuda() ? 1 : 4); c++) {
        for (int64_t bytes = 0; bytes <= ROOM - 2 * MARGIN; bytes++)
            check_copy(&t, copies[c], MARGIN / 2 + bytes % 11, from + bytes % 7, bytes);
        for (int64_t at = 0; at < 70; at += at < 4 || at > 60 ? 1 : 11)
            for (int64_t bytes = 0; bytes <= 300; bytes = bytes < 140 ? bytes + 1 : bytes + 37)
                check_copy(&t, copies[c], at, from + bytes % 3, bytes);
    }
    CHECK_STATUS(gpur_copy_nt(t.stream, t.memory, from, -1), GPUR_INVALID_ARGUMENT);
    gpur_stream_destroy(t.stream);
    gpur_memory_free(t.device, t.memory);
    gpur_device_close(t.device);
}

TEST(a_column_of_any_size_is_moved_at_the_pitches_of_both_sides)
{
    static const int64_t sizes[] = {1, 2, 3, 4, 5, 8, 12, 16, 17, 31, 32, 44, 100};
    enum { ROWS = 5, TO_PITCH = 128, FROM_PITCH = 103 };
    unsigned char from[ROWS * FROM_PITCH], to[ROWS * TO_PITCH], want[ROWS * TO_PITCH];
    for (size_t i = 0; i < sizeof from; i++)
        from[i] = (unsigned char)(i * 7 + 1);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        const gpur_column column = {to, from, TO_PITCH, FROM_PITCH, sizes[s]};
        memset(to, GUARD, sizeof to);
        memset(want, GUARD, sizeof want);
        gpur_copy_column(&column, ROWS);
        for (int i = 0; i < ROWS; i++)
            memcpy(want + i * TO_PITCH, from + i * FROM_PITCH, (size_t)sizes[s]);
        TEST_REQUIRE(memcmp(to, want, sizeof to) == 0, "values of %d bytes are wrong", (int)sizes[s]);
    }
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(a_value_of_any_size_is_copied_whole_and_nothing_beside_it);
    RUN(a_column_of_any_size_is_moved_at_the_pitches_of_both_sides);
    return test_main_end();
}
