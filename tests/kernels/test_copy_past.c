/* SPDX-License-Identifier: MIT */
/* Copies with non-temporal stores: every alignment, and a ring that is large enough for them to be used. */
#include "device/device.h"
#include "support/replay_kit.h"
#include "test.h"

enum { ROOM = 640, GUARD = 0xa5 };

typedef struct top {
    gpur_device *device;
    gpur_stream *stream;
    unsigned char *to;
} top;

/* Returns the number of bytes of `to` that differ from what a copy of `bytes` to `at` must leave. */
static int wrong(const unsigned char *to, const unsigned char *from, int64_t at, int64_t bytes)
{
    int found = 0;
    for (int64_t i = 0; i < ROOM; i++)
        found += to[i] != (i < at || i >= at + bytes ? GUARD : from[i - at]);
    return found;
}

static void check_copies(top *t, int64_t at, int64_t from_at)
{
    unsigned char source[ROOM], back[ROOM];
    for (int i = 0; i < ROOM; i++)
        source[i] = (unsigned char)(i * 7 + 1);
    for (int64_t bytes = 0; bytes <= 300; bytes = bytes < 140 ? bytes + 1 : bytes + 37) {
        CHECK_OK(gpur_fill(t->stream, t->to, GUARD, ROOM));
        CHECK_OK(gpur_copy_past(t->stream, t->to + at, source + from_at, bytes));
        CHECK_OK(gpur_copy(t->stream, back, t->to, ROOM));
        CHECK_OK(gpur_stream_sync(t->stream));
        CHECK_EQUAL(wrong(back, source + from_at, at, bytes), 0);
    }
}

TEST(every_alignment_and_length_is_copied_and_nothing_else)
{
    top t = {.device = test_device()};
    CHECK_OK(gpur_stream_create(t.device, &t.stream));
    CHECK_OK(gpur_memory_alloc(t.device, ROOM, "a target", (void **)&t.to));
    for (int64_t at = 0; at < 70; at += at < 4 || at > 60 ? 1 : 11)
        for (int64_t from = 0; from < 3; from++)
            check_copies(&t, at, from);
    CHECK_STATUS(gpur_copy_past(t.stream, t.to, t.to, -1), GPUR_INVALID_ARGUMENT);
    gpur_stream_destroy(t.stream);
    gpur_memory_free(t.device, t.to);
    gpur_device_close(t.device);
}

/* Appends the next rows field by field. */
static void append_fields(kit_scene *s, int64_t count)
{
    void *arrays[GPUR_MAX_FIELDS];
    kit_arrays(&s->kit, s->next, count, arrays);
    CHECK_OK(gpur_writer_append_fields(s->writer, count, (const void *const *)arrays, NULL, NULL));
    s->next += count;
    for (int32_t f = 0; f < s->kit.count; f++)
        free(arrays[f]);
}

enum { LARGE = 40000, LOOKS = 64 };

/* Checks the rows around the ring's end and a sample: every byte follows from the row's id. */
static void check_ring(kit_scene *s)
{
    int64_t ids[LOOKS], count = 0;
    gpur_batch *batch = NULL;
    for (int64_t slot = LARGE - LOOKS / 2; slot < LARGE + LOOKS / 2; slot++) {
        const int64_t id = s->next - 1 - (s->next - 1 - slot % LARGE + LARGE) % LARGE;
        if (id >= 0)
            ids[count++] = id;
    }
    CHECK_OK(kit_gather(s, count, ids));
    CHECK_OK(gpur_replay_sample(s->replay, LOOKS, NULL, &batch));
    CHECK_EQUAL(kit_wrong_bytes(&s->kit, batch, NULL), 0);
    gpur_batch_release(batch);
}

/* 40,000 rows of 256 bytes: more than the limit for ring copies through the caches. Whole staging blocks (which need no
 * staging with the inline executor) and parts of blocks, field by field and packed; the ring ends within a whole
 * block. */
TEST(a_large_ring_holds_what_was_appended)
{
    static const int64_t counts[] = {1400, 2100, 1, 699};
    static const gpur_field fields[] = {{"flag", GPUR_UINT8, {0}}, {"y", GPUR_INT64, {0}}, {"x", GPUR_UINT8, {235}}};
    const gpur_replay_config config = kit_config(fields, 3, LARGE, 700, LOOKS);
    kit_scene s;
    CHECK(kit_open(&s, test_device(), &config, 1));
    for (int i = 0; i < 150; i++) {
        if (i % 2)
            CHECK_OK(kit_append_next(&s, counts[i % 4]));
        else
            append_fields(&s, counts[i % 4]);
        check_ring(&s);
    }
    kit_close(&s);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(every_alignment_and_length_is_copied_and_nothing_else);
    RUN(a_large_ring_holds_what_was_appended);
    return test_main_end();
}
