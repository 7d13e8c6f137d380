/* SPDX-License-Identifier: MIT */
/* The gather and scatter kernels alone, at several launch shapes, against loops over bytes. */
#include "device/device.h"
#include "replay/storage/copies.h"
#include "reference/reference_replay.h"
#include "support/replay_kit.h"
#include "test.h"

enum { CAPACITY = 37, PITCH = 192, ROWS = 75, FIELDS = 7, ARRAY = 9216 };

/* Offsets and sizes of every width of move: 16, 8, 4, 2 and 1 bytes, odd tails, a value of 113 bytes. */
static const int64_t offsets[FIELDS] = {0, 32, 40, 44, 46, 47, 50}, sizes[FIELDS] = {32, 8, 4, 2, 1, 3, 113};
static const gpur_grid shapes[] = {{1, 32, 0}, {2, 32, 0}, {7, 64, 0}, {64, 256, 0}, {3, 512, 0}, {5, 32, 0}};

typedef struct bench_top {
    gpur_device *device;
    gpur_stream *stream;
    unsigned char *ring, *arrays, *extras; /* device */
    gpur_window *window;
    int64_t *ids;
    unsigned char ring_bytes[CAPACITY * PITCH], got[FIELDS * ARRAY];
    int64_t id[ROWS];
    float weight[ROWS], discount[ROWS];
    gpur_gather_args args;
} bench_top;

static void open_top(bench_top *t)
{
    uint64_t random = 5;
    memset(t, 0, sizeof *t);
    t->device = test_device();
    for (size_t i = 0; i < sizeof t->ring_bytes; i++)
        t->ring_bytes[i] = (unsigned char)kit_random(&random);
    for (int64_t slot = 0; slot < CAPACITY; slot++)
        t->ring_bytes[slot * PITCH + 46] &= 1; /* terminated */
    CHECK_OK(gpur_stream_create(t->device, &t->stream));
    CHECK_OK(gpur_device_alloc(t->device, sizeof t->ring_bytes, (void **)&t->ring));
    CHECK_OK(gpur_device_alloc(t->device, sizeof t->got, (void **)&t->arrays));
    CHECK_OK(gpur_device_alloc(t->device, ROWS * 16, (void **)&t->extras));
    CHECK_OK(gpur_device_alloc(t->device, sizeof *t->window, (void **)&t->window));
    CHECK_OK(gpur_device_alloc(t->device, ROWS * 8, (void **)&t->ids));
    CHECK_OK(gpur_device_copy(t->device, t->ring, t->ring_bytes, sizeof t->ring_bytes));
}

static void close_top(bench_top *t)
{
    gpur_stream_destroy(t->stream);
    gpur_device_free(t->device, t->ring);
    gpur_device_free(t->device, t->arrays);
    gpur_device_free(t->device, t->extras);
    gpur_device_free(t->device, t->window);
    gpur_device_free(t->device, t->ids);
    gpur_device_close(t->device);
}

static gpur_copies all_fields(const bench_top *t, int64_t apart)
{
    gpur_copies copies = {0};
    for (int f = 0; f < FIELDS; f++)
        gpur_copies_add(&copies, t->arrays + f * ARRAY, f == 6 ? sizes[f] : sizes[f] + apart, offsets[f], sizes[f]);
    return copies;
}

static void set_args(bench_top *t, gpur_window window, int32_t source, int64_t rows)
{
    const gpur_copies copies = all_fields(t, 0);
    const gpur_gather_args args = {
        .window = t->window,
        .ring = t->ring,
        .pitch = PITCH,
        .capacity = CAPACITY,
        .batch = rows,
        .ids = t->ids,
        .step_value = 3,
        .seed = 4,
        .id = (int64_t *)(void *)t->extras,
        .weight = (float *)(void *)(t->extras + ROWS * 8),
        .discount = (float *)(void *)(t->extras + ROWS * 12),
        .gamma = 0.5f,
        .purpose = 1,
        .source = source,
        .terminated_offset = 46,
        .tile = gpur_tile_rows(PITCH),
        .row_bytes = 163,
        .copy_count = copies.count,
        .units = copies.units,
    };
    t->args = args;
    memcpy(t->args.copies, copies.list, sizeof t->args.copies);
    CHECK_OK(gpur_device_copy(t->device, t->window, &window, sizeof window));
}

static void gather(bench_top *t, gpur_grid grid)
{
    CHECK_OK(gpur_fill(t->stream, t->arrays, 0xAA, sizeof t->got));
    CHECK_OK(gpur_fill(t->stream, t->extras, 0xAA, ROWS * 16));
    CHECK_OK(gpur_launch_gather(t->stream, grid, &t->args));
    CHECK_OK(gpur_copy(t->stream, t->got, t->arrays, sizeof t->got));
    CHECK_OK(gpur_copy(t->stream, t->id, t->extras, sizeof t->id));
    CHECK_OK(gpur_copy(t->stream, t->weight, t->extras + ROWS * 8, sizeof t->weight));
    CHECK_OK(gpur_copy(t->stream, t->discount, t->extras + ROWS * 12, sizeof t->discount));
    CHECK_OK(gpur_stream_sync(t->stream));
}

/* Everything the gather wrote must be right for the ids it says, and nothing else touched. */
static void check_rows(const bench_top *t, gpur_window window)
{
    for (int64_t b = 0; b < t->args.batch; b++) {
        const int there = t->id[b] >= 0;
        const int64_t slot = there ? (window.first_slot + t->id[b] - window.first_id) % CAPACITY : 0;
        const unsigned char *const row = t->ring_bytes + slot * PITCH;
        CHECK(!there || (t->id[b] >= window.first_id && t->id[b] < window.first_id + window.count));
        CHECK(t->weight[b] == (there ? 1.0f : 0.0f));
        CHECK(t->discount[b] == (there && !row[46] ? 0.5f : 0.0f));
        for (int f = 0; f < FIELDS; f++)
            for (int64_t i = 0; i < sizes[f]; i++)
                CHECK_EQUAL(t->got[f * ARRAY + b * sizes[f] + i], there ? row[offsets[f] + i] : 0);
    }
    for (int f = 0; f < FIELDS; f++)
        CHECK_EQUAL(t->got[f * ARRAY + t->args.batch * sizes[f]], 0xAA);
}

static void check_source(int32_t source, gpur_window window, int64_t rows)
{
    static bench_top t;
    int64_t first_ids[ROWS];
    open_top(&t);
    set_args(&t, window, source, rows);
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        gather(&t, shapes[s]);
        check_rows(&t, window);
        if (s == 0)
            memcpy(first_ids, t.id, sizeof first_ids);
        CHECK(memcmp(first_ids, t.id, (size_t)rows * sizeof *t.id) == 0);
    }
    close_top(&t);
}

static const gpur_window wrapped = {1000, 30, 20}, full = {37 * 3 + 5, 5, CAPACITY}, one = {7, 7, 1}, empty = {9, 9, 0};

TEST(a_uniform_draw_is_the_same_in_every_launch_shape)
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
    static bench_top t;
    open_top(&t);
    set_args(&t, wrapped, GPUR_SOURCE_DISTINCT, ROWS);
    gather(&t, shapes[2]);
    check_rows(&t, wrapped);
    for (int64_t b = 0; b < ROWS; b++)
        CHECK((t.id[b] >= 0) == (b < wrapped.count));
    close_top(&t);
}

TEST(an_empty_window_gives_empty_rows)
{
    for (int32_t source = GPUR_SOURCE_UNIFORM; source <= GPUR_SOURCE_IDS; source++)
        check_source(source, empty, ROWS);
}

TEST(ids_outside_the_window_give_empty_rows)
{
    static bench_top t;
    static const int64_t ids[] = {1000, 999, 1019, 1020, INT64_MIN, INT64_MAX, -1, 1007, 1006, 1007};
    enum { COUNT = sizeof ids / sizeof *ids };
    open_top(&t);
    set_args(&t, wrapped, GPUR_SOURCE_IDS, COUNT);
    CHECK_OK(gpur_device_copy(t.device, t.ids, ids, sizeof ids));
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        gather(&t, shapes[s]);
        check_rows(&t, wrapped);
        for (int64_t b = 0; b < COUNT; b++)
            CHECK_EQUAL(t.id[b], ids[b] >= 1000 && ids[b] < 1020 ? ids[b] : -1);
    }
    close_top(&t);
}

/* Rows from arrays into the ring, round its end; bytes between and behind the fields stay. */
static void check_scatter(int64_t first_slot, int64_t rows, gpur_grid grid)
{
    static bench_top t;
    static unsigned char ring[CAPACITY * PITCH];
    open_top(&t);
    const gpur_copies copies = all_fields(&t, 0);
    gpur_scatter_args args = {.ring = t.ring,
                              .pitch = PITCH,
                              .capacity = CAPACITY,
                              .first_slot = first_slot,
                              .rows = rows,
                              .tile = gpur_tile_rows(PITCH),
                              .copy_count = copies.count,
                              .units = copies.units};
    memcpy(args.copies, copies.list, sizeof args.copies);
    uint64_t random = 6;
    for (size_t i = 0; i < sizeof t.got; i++)
        t.got[i] = (unsigned char)kit_random(&random);
    CHECK_OK(gpur_device_copy(t.device, t.arrays, t.got, sizeof t.got));
    CHECK_OK(gpur_launch_scatter(t.stream, grid, &args));
    CHECK_OK(gpur_copy(t.stream, ring, t.ring, sizeof ring));
    CHECK_OK(gpur_stream_sync(t.stream));
    for (int64_t n = 0; n < rows; n++)
        for (int f = 0; f < FIELDS; f++)
            memcpy(t.ring_bytes + (first_slot + n) % CAPACITY * PITCH + offsets[f], t.got + f * ARRAY + n * sizes[f],
                   (size_t)sizes[f]);
    CHECK(memcmp(ring, t.ring_bytes, sizeof ring) == 0);
    close_top(&t);
}

/* Rewards that are clipped on the way have no copy of their own: bytes 164 to 167 of a row here. */
static void check_scatter_of_rewards(int64_t first_slot, int64_t rows, gpur_grid grid)
{
    static bench_top t;
    static unsigned char ring[CAPACITY * PITCH];
    float rewards[CAPACITY];
    open_top(&t);
    const gpur_copies copies = all_fields(&t, 0);
    gpur_scatter_args args = {.ring = t.ring,
                              .pitch = PITCH,
                              .capacity = CAPACITY,
                              .first_slot = first_slot,
                              .rows = rows,
                              .rewards = t.extras,
                              .reward_offset = 164,
                              .reward_clip = 3,
                              .tile = gpur_tile_rows(PITCH),
                              .copy_count = copies.count,
                              .units = copies.units};
    memcpy(args.copies, copies.list, sizeof args.copies);
    for (int i = 0; i < CAPACITY; i++)
        rewards[i] = (float)(i % 11) - 5;
    CHECK_OK(gpur_device_copy(t.device, t.extras, rewards, sizeof rewards));
    CHECK_OK(gpur_launch_scatter(t.stream, grid, &args));
    CHECK_OK(gpur_copy(t.stream, ring, t.ring, sizeof ring));
    CHECK_OK(gpur_stream_sync(t.stream));
    for (int64_t n = 0; n < rows; n++) {
        float got, want = rewards[n] > 3 ? 3 : rewards[n] < -3 ? -3 : rewards[n];
        memcpy(&got, ring + (first_slot + n) % CAPACITY * PITCH + 164, sizeof got);
        CHECK(got == want);
    }
    close_top(&t);
}

TEST(a_scatter_clips_rewards_in_every_launch_shape)
{
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        check_scatter_of_rewards(0, CAPACITY, shapes[s]);
        check_scatter_of_rewards(30, 20, shapes[s]);
    }
}

TEST(a_scatter_writes_the_same_rows_in_every_launch_shape)
{
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        check_scatter(0, CAPACITY, shapes[s]);
        check_scatter(30, 20, shapes[s]);
        check_scatter(36, 1, shapes[s]);
    }
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(a_uniform_draw_is_the_same_in_every_launch_shape);
    RUN(a_distinct_draw_is_the_same_in_every_launch_shape);
    RUN(a_distinct_draw_of_more_rows_than_there_are_leaves_the_rest_empty);
    RUN(an_empty_window_gives_empty_rows);
    RUN(ids_outside_the_window_give_empty_rows);
    RUN(a_scatter_writes_the_same_rows_in_every_launch_shape);
    RUN(a_scatter_clips_rewards_in_every_launch_shape);
    return test_main_end();
}
