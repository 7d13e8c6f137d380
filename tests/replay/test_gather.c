/* SPDX-License-Identifier: MIT */
/* The gather and scatter kernels alone, at several launch shapes, against loops over bytes; and which rows a uniform
 * draw takes, to the last one, by Philox as the paper has it. */
#include "device/device.h"
#include "replay/storage/copies.h"
#include "reference/reference_replay.h"
#include "support/replay_fixture.h"
#include "test.h"

enum { CAPACITY = 37, PITCH = 192, ROWS = 203, FIELDS = 7, ARRAY = 113 * ROWS + 61, UNTOUCHED = 0xAA, PURPOSE = 1 };
enum { TERMINATED = 46, REWARD = 164 }; /* offsets in a row of the byte, and of a reward that is clipped on its way */

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

typedef struct scene {
    gpur_device *device;
    gpur_stream *stream;
    unsigned char *ring; /* device, as the next three */
    gpur_window *window;
    int64_t *ids;
    output *out;
    unsigned char ring_bytes[CAPACITY * PITCH];
    output got;
    gpur_gather_args args;
} scene;

static void close_scene(scene *s)
{
    void *const memory[] = {s->ring, s->window, s->ids, s->out};
    gpur_stream_destroy(s->stream);
    for (int i = 0; i < 4; i++)
        gpur_device_free(s->device, memory[i]);
    gpur_device_close(s->device);
}

static gpur_copies all_fields(scene *s)
{
    gpur_copies copies = {0};
    for (int f = 0; f < FIELDS; f++)
        gpur_copies_add(&copies, s->out->arrays + f * ARRAY, sizes[f], offsets[f], sizes[f]);
    return copies;
}

/* A ring of random bytes, and the args of a gather from it. NULL when something could not be had. */
static scene *open_scene(gpur_window window, int32_t source, int64_t rows)
{
    static scene s;
    uint64_t random = 5;
    memset(&s, 0, sizeof s);
    for (size_t i = 0; i < sizeof s.ring_bytes; i++)
        s.ring_bytes[i] = (unsigned char)xorshift_next(&random);
    for (int64_t slot = 0; slot < CAPACITY; slot++)
        s.ring_bytes[slot * PITCH + TERMINATED] &= 1;
    s.device = test_device();
    s.ring = kit_upload(s.device, s.ring_bytes, sizeof s.ring_bytes);
    s.window = kit_upload(s.device, &window, sizeof window);
    s.ids = kit_upload(s.device, s.got.id, sizeof s.got.id);
    s.out = kit_upload(s.device, &s.got, sizeof s.got);
    if (gpur_stream_create(s.device, &s.stream) != GPUR_OK || !s.ring || !s.window || !s.ids || !s.out)
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

static void gather(scene *s, gpur_grid grid)
{
    CHECK_OK(gpur_fill(s->stream, s->out, UNTOUCHED, sizeof *s->out));
    CHECK_OK(gpur_launch_gather(s->stream, grid, &s->args));
    CHECK_OK(gpur_copy(s->stream, &s->got, s->out, sizeof s->got));
    CHECK_OK(gpur_stream_sync(s->stream));
}

/* Everything the gather wrote must be right for the ids it says, and nothing else touched. */
static void check_rows(const scene *s, gpur_window window)
{
    const output *const got = &s->got;
    for (int64_t b = 0; b < s->args.batch; b++) {
        const int there = got->id[b] >= 0;
        const int64_t slot = there ? (window.first_slot + got->id[b] - window.first_id) % CAPACITY : 0;
        const unsigned char *const row = s->ring_bytes + slot * PITCH;
        CHECK(!there || (got->id[b] >= window.first_id && got->id[b] < window.first_id + window.count));
        CHECK(got->weight[b] == (there ? 1.0f : 0.0f));
        CHECK(got->discount[b] == (there && !row[TERMINATED] ? 0.5f : 0.0f));
        for (int f = 0; f < FIELDS; f++)
            for (int64_t i = 0; i < sizes[f]; i++)
                CHECK_EQUAL(got->arrays[f * ARRAY + b * sizes[f] + i], there ? row[offsets[f] + i] : 0);
    }
    for (int f = 0; f < FIELDS; f++)
        CHECK_EQUAL(got->arrays[f * ARRAY + s->args.batch * sizes[f]], UNTOUCHED);
}

/* The id of row b: the upper half of the product of 64 bits and the count of the window. */
static int64_t reference_id(const gpur_gather_args *args, gpur_window window, uint32_t b)
{
    __extension__ typedef unsigned __int128 u128;
    const uint32_t counter[4] = {b, PURPOSE, (uint32_t)args->step_value, (uint32_t)(args->step_value >> 32)};
    uint32_t out[4];
    reference_philox(counter, args->seed, out);
    return window.first_id + (int64_t)((u128)((uint64_t)out[1] << 32 | out[0]) * (uint64_t)window.count >> 64);
}

static void check_source(int32_t source, gpur_window window, int64_t rows)
{
    static const uint64_t seeds[] = {4, 0x123456789ABCDEF0, UINT64_MAX}, steps[] = {3, 1ull << 40, UINT64_MAX};
    int64_t first_ids[ROWS];
    scene *const s = open_scene(window, source, rows);
    CHECK(s);
    for (int i = 0; i < SHAPES + 4; i++) { /* the other seeds in two shapes each */
        const int other = i < SHAPES ? 0 : 1 + (i - SHAPES) / 2, shape = i < SHAPES ? i : i % 2;
        s->args.seed = seeds[other], s->args.step_value = steps[other];
        gather(s, shapes[shape]);
        check_rows(s, window);
        if (shape == 0)
            memcpy(first_ids, s->got.id, sizeof first_ids);
        CHECK(memcmp(first_ids, s->got.id, (size_t)rows * sizeof *first_ids) == 0);
        for (uint32_t b = 0; source == GPUR_SOURCE_UNIFORM && window.count > 0 && b < (uint32_t)rows; b++)
            CHECK_EQUAL(s->got.id[b], reference_id(&s->args, window, b));
    }
    close_scene(s);
}

static const gpur_window wrapped = {5000000000, 30, 20}, full = {37 * 3 + 5, 5, CAPACITY}, one = {7, 7, 1};
static const gpur_window empty = {9, 9, 0};

TEST(a_uniform_draw_takes_the_rows_that_philox_names_in_every_launch_shape)
{
    check_source(GPUR_SOURCE_UNIFORM, wrapped, ROWS);
    check_source(GPUR_SOURCE_UNIFORM, full, 64);
    check_source(GPUR_SOURCE_UNIFORM, one, 33);
    check_source(GPUR_SOURCE_UNIFORM, full, 1);
}

TEST(a_distinct_draw_is_the_same_in_every_launch_shape)
{
    check_source(GPUR_SOURCE_DISTINCT, wrapped, 20);
    check_source(GPUR_SOURCE_DISTINCT, full, CAPACITY);
    check_source(GPUR_SOURCE_DISTINCT, one, 1);
}

TEST(a_distinct_draw_of_more_rows_than_there_are_leaves_the_rest_empty)
{
    scene *const s = open_scene(wrapped, GPUR_SOURCE_DISTINCT, ROWS);
    CHECK(s);
    gather(s, shapes[2]);
    check_rows(s, wrapped);
    for (int64_t b = 0; b < ROWS; b++)
        CHECK((s->got.id[b] >= 0) == (b < wrapped.count));
    close_scene(s);
}

TEST(an_empty_window_gives_empty_rows)
{
    for (int32_t source = GPUR_SOURCE_UNIFORM; source <= GPUR_SOURCE_IDS; source++)
        check_source(source, empty, ROWS);
}

TEST(ids_outside_the_window_give_empty_rows)
{
    const int64_t first = wrapped.first_id, end = first + wrapped.count;
    const int64_t ids[] = {first, first - 1, end - 1, end, INT64_MIN, INT64_MAX, -1, first + 7, first + 6, first + 7};
    enum { COUNT = sizeof ids / sizeof *ids };
    scene *const s = open_scene(wrapped, GPUR_SOURCE_IDS, COUNT);
    CHECK(s);
    CHECK_OK(gpur_device_copy(s->device, s->ids, ids, sizeof ids));
    for (int shape = 0; shape < SHAPES; shape++) {
        gather(s, shapes[shape]);
        check_rows(s, wrapped);
        for (int64_t b = 0; b < COUNT; b++)
            CHECK_EQUAL(s->got.id[b], ids[b] >= first && ids[b] < end ? ids[b] : -1);
    }
    close_scene(s);
}

/* Ids alone, since no test has memory for as many rows. */
TEST(a_draw_from_more_rows_than_fit_in_32_bits_names_the_same_ids)
{
    const gpur_window window = {7, ((int64_t)1 << 33) - 3, ((int64_t)1 << 33) + 1};
    scene *const s = open_scene(window, GPUR_SOURCE_UNIFORM, ROWS);
    CHECK(s);
    s->args.capacity = (int64_t)1 << 34;
    s->args.weight = NULL, s->args.discount = NULL, s->args.copy_count = s->args.units = s->args.row_bytes = 0;
    gather(s, shapes[2]);
    for (uint32_t b = 0; b < ROWS; b++)
        CHECK_EQUAL(s->got.id[b], reference_id(&s->args, window, b));
    close_scene(s);
}

TEST(what_is_not_wanted_beside_the_fields_is_not_written)
{
    scene *const s = open_scene(full, GPUR_SOURCE_UNIFORM, ROWS);
    CHECK(s);
    s->args.terminated_offset = -1; /* then nothing terminates */
    gather(s, shapes[1]);
    for (int b = 0; b < ROWS; b++)
        CHECK(s->got.discount[b] == 0.5f);
    s->args.id = NULL, s->args.weight = NULL, s->args.discount = NULL;
    gather(s, shapes[1]);
    const unsigned char *const rest = (const unsigned char *)s->got.id;
    for (size_t i = 0; i < sizeof s->got.id + sizeof s->got.weight + sizeof s->got.discount; i++)
        CHECK_EQUAL(rest[i], UNTOUCHED);
    close_scene(s);
}

/* Rows from arrays into the ring, round its end; bytes between and behind the fields stay. Rewards that are clipped on
 * the way have no copy of their own. */
static void check_scatter(int64_t first_slot, int64_t rows, int clips, gpur_grid grid)
{
    static unsigned char ring[CAPACITY * PITCH];
    scene *const s = open_scene(full, GPUR_SOURCE_UNIFORM, ROWS);
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
    close_scene(s);
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
    RUN(a_uniform_draw_takes_the_rows_that_philox_names_in_every_launch_shape);
    RUN(a_distinct_draw_is_the_same_in_every_launch_shape);
    RUN(a_distinct_draw_of_more_rows_than_there_are_leaves_the_rest_empty);
    RUN(an_empty_window_gives_empty_rows);
    RUN(ids_outside_the_window_give_empty_rows);
    RUN(a_draw_from_more_rows_than_fit_in_32_bits_names_the_same_ids);
    RUN(what_is_not_wanted_beside_the_fields_is_not_written);
    RUN(a_scatter_writes_and_clips_the_same_rows_in_every_launch_shape);
    return test_main_end();
}
