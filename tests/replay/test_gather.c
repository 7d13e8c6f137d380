/* SPDX-License-Identifier: MIT */
/* The gather and scatter kernels alone, at several launch shapes, against loops over bytes; and each id of a uniform
 * sample against the reference. */
#include "device/device.h"
#include "replay/storage/copies.h"
#include "reference/reference_replay.h"
#include "support/replay_fixture.h"
#include "test.h"

#include <stddef.h>

enum { CAPACITY = 37, PITCH = 192, ROWS = 203, FIELDS = 7, ARRAY = 113 * ROWS + 61, UNTOUCHED = 0xAA, PURPOSE = 1 };

/* The last field alone has 113 units, so rows with it have more than a warp copies, and rows without it fewer. */
enum { LONG_ROWS = FIELDS, LAST = FIELDS - 1, SHORT_ROWS = LAST };
enum {
    TERMINATED = 46,
    REWARD = 164
}; /* offsets in a row of the byte, and of a reward that is clipped by the scatter */

/* Offsets and sizes of every width of move: 16, 8, 4, 2 and 1 bytes, odd tails, a value of 113 bytes. */
static const int64_t offsets[FIELDS] = {0, 32, 40, 44, 46, 47, 50}, sizes[FIELDS] = {32, 8, 4, 2, 1, 3, 113};
static const gpur_grid shapes[] = {{1, 32, 0}, {2, 32, 0}, {7, 64, 0}, {64, 256, 0}, {3, 512, 0}, {5, 32, 0}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* What a gather writes. */
typedef struct output {
    unsigned char arrays[FIELDS * ARRAY];
    int64_t id[ROWS];
    float weight[ROWS], discount[ROWS];
} output;

typedef struct fixture {
    gpur_device *device;
    int fields;
    gpur_stream *stream;
    unsigned char *ring; /* device, as the next four */
    gpur_window *window;
    int64_t *ids;
    uint64_t *step;
    output *out;
    unsigned char ring_bytes[CAPACITY * PITCH];
    output got;
    gpur_gather_args args;
} fixture;

static void close_fixture(fixture *s)
{
    void *const memory[] = {s->ring, s->window, s->ids, s->step, s->out};
    gpur_stream_destroy(s->stream);
    for (int i = 0; i < 5; i++)
        gpur_device_free(s->device, memory[i]);
    gpur_device_close(s->device);
}

static gpur_copies all_fields(fixture *s)
{
    gpur_copies copies = {0};
    for (int f = 0; f < s->fields; f++)
        gpur_copies_add(&copies, s->out->arrays + f * ARRAY, sizes[f], offsets[f], sizes[f]);
    return copies;
}

/* A ring of random bytes, and the args of a gather from it. NULL on an error. */
static fixture *open_fixture(gpur_window window, int32_t source, int64_t rows, int fields)
{
    static fixture s;
    uint64_t random = 5;
    memset(&s, 0, sizeof s);
    s.fields = fields;
    for (size_t i = 0; i < sizeof s.ring_bytes; i++)
        s.ring_bytes[i] = (unsigned char)xorshift_next(&random);
    for (int64_t slot = 0; slot < CAPACITY; slot++)
        s.ring_bytes[slot * PITCH + TERMINATED] &= 1;
    s.device = test_device();
    s.ring = upload_to_device(s.device, s.ring_bytes, sizeof s.ring_bytes);
    s.window = upload_to_device(s.device, &window, sizeof window);
    s.ids = upload_to_device(s.device, s.got.id, sizeof s.got.id);
    s.step = upload_to_device(s.device, &random, sizeof random);
    s.out = upload_to_device(s.device, &s.got, sizeof s.got);
    if (gpur_stream_create(s.device, &s.stream) != GPUR_OK || !s.ring || !s.window || !s.ids || !s.step || !s.out)
        return NULL;
    const gpur_copies copies = all_fields(&s);
    s.args = (gpur_gather_args){.window = s.window,
                                .ring = s.ring,
                                .pitch = PITCH,
                                .capacity = CAPACITY,
                                .batch = rows,
                                .ids = s.ids,
                                .step_value = 3,
                                .seed = 4,
                                .id = s.out->id,
                                .weight = s.out->weight,
                                .discount = s.out->discount,
                                .gamma = 0.5f,
                                .purpose = PURPOSE,
                                .source = source,
                                .terminated_offset = TERMINATED,
                                .tile_rows = gpur_tile_rows(PITCH),
                                .row_bytes = 163,
                                .copy_count = copies.count,
                                .units = copies.units};
    memcpy(s.args.copies, copies.list, sizeof s.args.copies);
    return &s;
}

static void gather(fixture *s, gpur_grid grid)
{
    CHECK_OK(gpur_fill(s->stream, s->out, UNTOUCHED, sizeof *s->out));
    CHECK_OK(gpur_launch_gather(s->stream, grid, &s->args));
    CHECK_OK(gpur_copy(s->stream, &s->got, s->out, sizeof s->got));
    CHECK_OK(gpur_stream_sync(s->stream));
}

static const gpur_window wrapped = {5000000000, 30, 20}, full = {37 * 3 + 5, 5, CAPACITY}, one = {7, 7, 1};
static const gpur_window empty = {9, 9, 0};

/* What the source GPUR_GATHER_IDS is given: ids inside and outside of `wrapped`, some of them twice. */
static const int64_t given[] = {5000000000, 4999999999, 5000000019, 5000000020, INT64_MIN,
                                INT64_MAX,  -1,         5000000007, 5000000006, 5000000007};
enum { GIVEN = sizeof given / sizeof *given };

static int is_in(gpur_window window, int64_t id)
{
    return id >= window.first_id && id < window.first_id + window.count;
}

static int64_t uniform_id(const gpur_gather_args *args, gpur_window window, int64_t b)
{
    return window.first_id +
           (int64_t)reference_random_below(args->seed, PURPOSE, args->step_value, (uint32_t)b, (uint64_t)window.count);
}

/* Whether row b can have this id. A distinct sample may have any row of the window once; test_sampler.c tests which. */
static int is_right_id(const gpur_gather_args *args, gpur_window window, const int64_t *ids, int64_t b)
{
    if (args->source == GPUR_GATHER_IDS)
        return ids[b] == (is_in(window, given[b]) ? given[b] : -1);
    if (args->source == GPUR_GATHER_UNIFORM)
        return ids[b] == (window.count > 0 ? uniform_id(args, window, b) : -1);
    for (int64_t a = 0; a < b && ids[b] >= 0; a++)
        if (ids[a] == ids[b])
            return 0;
    return b < window.count ? is_in(window, ids[b]) : ids[b] == -1;
}

/* All that the gather wrote must be right for its ids, and nothing else may be written. */
static void check_rows(const fixture *s, gpur_window window)
{
    const output *const got = &s->got;
    for (int64_t b = 0; b < s->args.batch; b++) {
        const int there = got->id[b] >= 0;
        const int64_t slot = there ? (window.first_slot + got->id[b] - window.first_id) % CAPACITY : 0;
        const unsigned char *const row = s->ring_bytes + slot * PITCH;
        CHECK(is_right_id(&s->args, window, got->id, b));
        CHECK(got->weight[b] == (there ? 1.0f : 0.0f));
        CHECK(got->discount[b] == (there && !row[TERMINATED] ? 0.5f : 0.0f));
        for (int f = 0; f < s->fields; f++)
            for (int64_t i = 0; i < sizes[f]; i++)
                CHECK_EQUAL(got->arrays[f * ARRAY + b * sizes[f] + i], there ? row[offsets[f] + i] : 0);
    }
    for (int f = 0; f < s->fields; f++)
        CHECK_EQUAL(got->arrays[f * ARRAY + s->args.batch * sizes[f]], UNTOUCHED);
}

TEST(every_source_gathers_the_same_rows_in_every_launch_shape)
{
    static const struct {
        int32_t source;
        const gpur_window *window;
        int64_t rows;
    } cases[] = {
        {GPUR_GATHER_UNIFORM, &wrapped, ROWS},   {GPUR_GATHER_UNIFORM, &full, 64},
        {GPUR_GATHER_UNIFORM, &one, 33},         {GPUR_GATHER_UNIFORM, &full, 1},
        {GPUR_GATHER_UNIFORM, &empty, ROWS},     {GPUR_GATHER_DISTINCT, &wrapped, 20},
        {GPUR_GATHER_DISTINCT, &full, CAPACITY}, {GPUR_GATHER_DISTINCT, &one, 1},
        {GPUR_GATHER_DISTINCT, &wrapped, ROWS},  {GPUR_GATHER_DISTINCT, &empty, ROWS},
        {GPUR_GATHER_IDS, &wrapped, GIVEN},      {GPUR_GATHER_IDS, &empty, GIVEN},
    };
    static const uint64_t seeds[] = {4, 0x123456789ABCDEF0, UINT64_MAX}, steps[] = {3, 1ull << 40, UINT64_MAX};
    for (size_t n = 0; n < 2 * sizeof cases / sizeof *cases; n++) {
        const size_t c = n / 2;
        const int failures = atomic_load(&test_state.failures);
        int64_t first_ids[ROWS];
        fixture *const s =
            open_fixture(*cases[c].window, cases[c].source, cases[c].rows, n % 2 ? SHORT_ROWS : LONG_ROWS);
        CHECK(s);
        CHECK_OK(gpur_device_copy(s->device, s->ids, given, sizeof given));
        for (int i = 0; i < SHAPES + 4; i++) { /* the other seeds in two shapes each */
            const int other = i < SHAPES ? 0 : 1 + (i - SHAPES) / 2, shape = i < SHAPES ? i : i % 2;
            s->args.seed = seeds[other];
            s->args.step = i % 2 ? s->step : NULL; /* a learner has the number of the step in device memory */
            s->args.step_value = i % 2 ? 12345 : steps[other];
            CHECK_OK(gpur_device_copy(s->device, s->step, &steps[other], sizeof *steps));
            gather(s, shapes[shape]);
            s->args.step_value = steps[other]; /* for the reference */
            check_rows(s, *cases[c].window);
            if (shape == 0)
                memcpy(first_ids, s->got.id, sizeof first_ids);
            CHECK(memcmp(first_ids, s->got.id, (size_t)cases[c].rows * sizeof *first_ids) == 0);
            TEST_REQUIRE(atomic_load(&test_state.failures) == failures, "case %d, %d fields, shape %d", (int)c,
                         s->fields, shape);
        }
        close_fixture(s);
    }
}

static int64_t count_written(const void *bytes, size_t count)
{
    int64_t written = 0;
    for (size_t i = 0; i < count; i++)
        written += ((const unsigned char *)bytes)[i] != UNTOUCHED;
    return written;
}

/* The window of the first part has more rows than any test has memory for, so ids alone are requested. */
TEST(arrays_that_are_not_requested_are_not_written_and_ids_may_exceed_32_bits)
{
    const gpur_window window = {7, ((int64_t)1 << 33) - 3, ((int64_t)1 << 33) + 1};
    fixture *const s = open_fixture(window, GPUR_GATHER_UNIFORM, ROWS, LONG_ROWS);
    CHECK(s);
    const gpur_gather_args all = s->args;
    s->args.capacity = (int64_t)1 << 34;
    s->args.weight = NULL, s->args.discount = NULL, s->args.copy_count = s->args.units = s->args.row_bytes = 0;
    gather(s, shapes[2]);
    for (int64_t b = 0; b < ROWS; b++)
        CHECK_EQUAL(s->got.id[b], uniform_id(&s->args, window, b));
    CHECK_EQUAL(count_written(&s->got, offsetof(output, id)), 0);
    CHECK_EQUAL(count_written(s->got.weight, sizeof s->got.weight + sizeof s->got.discount), 0);
    CHECK_OK(gpur_device_copy(s->device, s->window, &full, sizeof full));
    s->args = all;
    s->args.id = NULL, s->args.weight = NULL, s->args.terminated_offset = -1; /* then nothing terminates */
    gather(s, shapes[1]);
    for (int b = 0; b < ROWS; b++)
        CHECK(s->got.discount[b] == 0.5f);
    CHECK_EQUAL(count_written(s->got.id, sizeof s->got.id + sizeof s->got.weight), 0);
    close_fixture(s);
}

/* The last field has as many bytes, and so units, as the row lacks to have `units`. */
static void check_width(int32_t units)
{
    fixture *const s = open_fixture(full, GPUR_GATHER_UNIFORM, ROWS, SHORT_ROWS);
    CHECK(s);
    gpur_copies copies = all_fields(s);
    const int64_t bytes = units - copies.units;
    unsigned char *const to = s->out->arrays + LAST * ARRAY + 1; /* an odd address is copied byte by byte */
    gpur_copies_add(&copies, to, bytes, offsets[LAST], bytes);
    CHECK_EQUAL(copies.units, units);
    s->args.copies[LAST] = copies.list[LAST];
    s->args.copy_count = copies.count, s->args.units = copies.units;
    gather(s, shapes[2]);
    check_rows(s, full);
    for (int64_t b = 0; b < ROWS; b++) {
        const int64_t slot = (full.first_slot + s->got.id[b] - full.first_id) % CAPACITY;
        const unsigned char *const value = s->got.arrays + LAST * ARRAY + 1 + b * bytes;
        CHECK(memcmp(value, s->ring_bytes + slot * PITCH + offsets[LAST], (size_t)bytes) == 0);
    }
    CHECK_EQUAL(s->got.arrays[LAST * ARRAY], UNTOUCHED);
    CHECK_EQUAL(s->got.arrays[LAST * ARRAY + 1 + ROWS * bytes], UNTOUCHED);
    close_fixture(s);
}

TEST(rows_of_64_units_and_of_65_are_gathered_whole)
{
    check_width(GPUR_WARP_UNITS);
    check_width(GPUR_WARP_UNITS + 1);
}

/* On a GPU a warp has several rows of a large batch. The race check is too slow for the largest. */
TEST(batches_of_any_size_have_the_right_rows)
{
    enum { LARGEST = 65536, FIELD = 32 };
    static const int64_t sizes_of_batches[] = {1, 31, 33, 4096, LARGEST};
    static int64_t ids[LARGEST];
    static unsigned char bytes[LARGEST * FIELD];
    fixture *const s = open_fixture(full, GPUR_GATHER_UNIFORM, ROWS, SHORT_ROWS);
    CHECK(s);
    int64_t *const id = upload_to_device(s->device, ids, sizeof ids);
    unsigned char *const to = upload_to_device(s->device, bytes, sizeof bytes);
    const int count = IN_RACE_CHECK ? 4 : 5;
    gpur_copies copies = {0};
    CHECK(id && to);
    gpur_copies_add(&copies, to, FIELD, 0, FIELD);
    s->args.copies[0] = copies.list[0], s->args.copy_count = 1, s->args.units = copies.units;
    s->args.id = id, s->args.weight = s->args.discount = NULL;
    for (int i = 0; i < count; i++) {
        s->args.batch = sizes_of_batches[i];
        CHECK_OK(gpur_launch_gather(s->stream, shapes[i % SHAPES], &s->args));
        CHECK_OK(gpur_copy(s->stream, ids, id, sizeof ids));
        CHECK_OK(gpur_copy(s->stream, bytes, to, sizeof bytes));
        CHECK_OK(gpur_stream_sync(s->stream));
        for (int64_t b = 0; b < s->args.batch; b++) {
            const int64_t slot = (full.first_slot + ids[b] - full.first_id) % CAPACITY;
            CHECK_EQUAL(ids[b], uniform_id(&s->args, full, b));
            CHECK(memcmp(bytes + b * FIELD, s->ring_bytes + slot * PITCH, FIELD) == 0);
        }
    }
    gpur_device_free(s->device, id);
    gpur_device_free(s->device, to);
    close_fixture(s);
}

/* Copies rows from arrays into the ring, round its end; bytes between and behind the fields stay. The rewards are not
 * in the list of copies if they are clipped. */
static void check_scatter(int64_t first_slot, int64_t rows, int clips, gpur_grid grid)
{
    static unsigned char ring[CAPACITY * PITCH];
    fixture *const s = open_fixture(full, GPUR_GATHER_UNIFORM, ROWS, LONG_ROWS);
    CHECK(s);
    const gpur_copies copies = all_fields(s);
    gpur_scatter_args args = {.ring = s->ring,
                              .pitch = PITCH,
                              .capacity = CAPACITY,
                              .first_slot = first_slot,
                              .rows = rows,
                              .rewards = clips ? (const unsigned char *)s->out->weight : NULL,
                              .reward_offset = REWARD,
                              .reward_clip = 3,
                              .tile_rows = gpur_tile_rows(PITCH),
                              .copy_count = copies.count,
                              .units = copies.units};
    memcpy(args.copies, copies.list, sizeof args.copies);
    uint64_t random = 6;
    for (size_t i = 0; i < sizeof s->got.arrays; i++)
        s->got.arrays[i] = (unsigned char)xorshift_next(&random);
    for (int i = 0; i < ROWS; i++)
        s->got.weight[i] = (float)(i % 11) - 5;
    CHECK_OK(gpur_device_copy(s->device, s->out, &s->got, sizeof s->got));
    CHECK_OK(gpur_launch_scatter(s->stream, grid, &args));
    CHECK_OK(gpur_copy(s->stream, ring, s->ring, sizeof ring));
    CHECK_OK(gpur_stream_sync(s->stream));
    for (int64_t n = 0; n < rows; n++) {
        unsigned char *const row = s->ring_bytes + (first_slot + n) % CAPACITY * PITCH;
        const float reward = fmaxf(-3, fminf(3, s->got.weight[n]));
        for (int f = 0; f < FIELDS; f++)
            memcpy(row + offsets[f], s->got.arrays + f * ARRAY + n * sizes[f], (size_t)sizes[f]);
        if (clips)
            memcpy(row + REWARD, &reward, sizeof reward);
    }
    CHECK(memcmp(ring, s->ring_bytes, sizeof ring) == 0);
    close_fixture(s);
}

TEST(a_scatter_writes_and_clips_the_same_rows_in_every_launch_shape)
{
    for (int i = 0; i < 2 * SHAPES; i++) {
        check_scatter(0, CAPACITY, i % 2, shapes[i / 2]);
        check_scatter(30, 20, i % 2, shapes[i / 2]);
        check_scatter(36, 1, i % 2, shapes[i / 2]);
    }
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(every_source_gathers_the_same_rows_in_every_launch_shape);
    RUN(arrays_that_are_not_requested_are_not_written_and_ids_may_exceed_32_bits);
    RUN(rows_of_64_units_and_of_65_are_gathered_whole);
    RUN(batches_of_any_size_have_the_right_rows);
    RUN(a_scatter_writes_and_clips_the_same_rows_in_every_launch_shape);
    return test_main_end();
}
