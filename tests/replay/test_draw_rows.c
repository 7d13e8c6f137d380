/* SPDX-License-Identifier: MIT */
/* Which rows a uniform draw takes, to the last one, by Philox as the paper has it; and what it writes beside them. */
#include "device/device.h"
#include "kernels/cpu/random_lanes.h"
#include "reference/reference_replay.h"
#include "replay/storage/copies.h"
#include "test.h"

enum { ROWS = 203, SLOTS = 90, PITCH = 64, PURPOSE = 1, UNTOUCHED = 0xAA };

/* The first 64 of the bits of a lane. */
static uint64_t reference_bits(uint64_t seed, uint64_t step, uint32_t lane)
{
    const uint32_t counter[4] = {lane, PURPOSE, (uint32_t)step, (uint32_t)(step >> 32)};
    uint32_t out[4];
    reference_philox(counter, seed, out);
    return (uint64_t)out[1] << 32 | out[0];
}

TEST(lanes_have_the_bits_of_philox)
{
    static const uint32_t firsts[] = {0, 1, 16, 4094, 0x7FFFFFFE, 0xFFFFFFFD}; /* the last goes round */
    static const uint64_t seeds[] = {0, 7, 0x123456789ABCDEF0, UINT64_MAX}, steps[] = {0, 3, 1ull << 40, UINT64_MAX};
    for (size_t f = 0; f < sizeof firsts / sizeof *firsts; f++)
        for (int s = 0; s < 4; s++) {
            uint64_t words[GPUR_LANES];
            gpur_random_lanes(seeds[s], PURPOSE, steps[s], firsts[f], words);
            for (uint32_t i = 0; i < GPUR_LANES; i++)
                CHECK(words[i] == reference_bits(seeds[s], steps[s], firsts[f] + i));
        }
}

typedef struct desk {
    gpur_device *device;
    gpur_stream *stream;
    unsigned char *memory; /* device: window, ring, marks, ids, weights, discounts */
    int64_t id[ROWS];
    int32_t mark[ROWS];
    float weight[ROWS], discount[ROWS];
} desk;

/* Where each lies in `memory`. */
enum {
    RING = 256,
    MARK = RING + SLOTS * PITCH,
    ID = MARK + 1024,
    WEIGHT = ID + 2048,
    DISCOUNT = WEIGHT + 1024,
    BYTES = DISCOUNT + 1024
};

/* Each row of the ring holds its slot, and terminates where that is a multiple of three. */
static void open_desk(desk *d, gpur_window window)
{
    unsigned char host[BYTES];
    memset(d, 0, sizeof *d);
    memset(host, UNTOUCHED, sizeof host);
    memcpy(host, &window, sizeof window);
    for (int32_t slot = 0; slot < SLOTS; slot++) {
        memcpy(host + RING + slot * PITCH, &slot, sizeof slot);
        host[RING + slot * PITCH + 4] = slot % 3 == 0;
    }
    d->device = test_device();
    CHECK_OK(gpur_stream_create(d->device, &d->stream));
    CHECK_OK(gpur_device_alloc(d->device, BYTES, (void **)&d->memory));
    CHECK_OK(gpur_device_copy(d->device, d->memory, host, BYTES));
}

static void close_desk(desk *d)
{
    gpur_stream_destroy(d->stream);
    gpur_device_free(d->device, d->memory);
    gpur_device_close(d->device);
}

static gpur_gather_args args_of(const desk *d, int64_t capacity)
{
    unsigned char *const memory = d->memory;
    gpur_copies copies = {0};
    gpur_copies_add(&copies, memory + MARK, 4, 0, 4);
    gpur_gather_args args = {.window = (const gpur_window *)(const void *)memory,
                             .ring = memory + RING,
                             .pitch = PITCH,
                             .capacity = capacity,
                             .batch = ROWS,
                             .step_value = 11,
                             .seed = 13,
                             .id = (int64_t *)(void *)(memory + ID),
                             .weight = (float *)(void *)(memory + WEIGHT),
                             .discount = (float *)(void *)(memory + DISCOUNT),
                             .gamma = 0.75f,
                             .purpose = PURPOSE,
                             .source = GPUR_SOURCE_UNIFORM,
                             .terminated_offset = 4,
                             .tile = gpur_tile_rows(PITCH),
                             .row_bytes = 5,
                             .copy_count = copies.count,
                             .units = copies.units};
    memcpy(args.copies, copies.list, sizeof args.copies);
    return args;
}

static void gather(desk *d, const gpur_gather_args *args, int64_t blocks)
{
    const gpur_grid grid = {blocks, 64, 0};
    CHECK_OK(gpur_launch_gather(d->stream, grid, args));
    CHECK_OK(gpur_copy(d->stream, d->mark, d->memory + MARK, sizeof d->mark));
    CHECK_OK(gpur_copy(d->stream, d->id, d->memory + ID, sizeof d->id));
    CHECK_OK(gpur_copy(d->stream, d->weight, d->memory + WEIGHT, sizeof d->weight));
    CHECK_OK(gpur_copy(d->stream, d->discount, d->memory + DISCOUNT, sizeof d->discount));
    CHECK_OK(gpur_stream_sync(d->stream));
}

/* The offset of row b of the batch in the window: the upper half of the product of 64 bits and the count. */
static int64_t reference_offset(gpur_window window, uint32_t b)
{
    __extension__ typedef unsigned __int128 u128;
    return (int64_t)((u128)reference_bits(13, 11, b) * (uint64_t)window.count >> 64);
}

static void check_draw(gpur_window window, int64_t capacity, int64_t blocks)
{
    static desk d;
    open_desk(&d, window);
    const gpur_gather_args args = args_of(&d, capacity);
    gather(&d, &args, blocks);
    for (uint32_t b = 0; b < ROWS; b++) {
        const int64_t offset = reference_offset(window, b), slot = (window.first_slot + offset) % capacity;
        CHECK_EQUAL(d.id[b], window.first_id + offset);
        CHECK_EQUAL(d.mark[b], slot);
        CHECK(d.weight[b] == 1.0f);
        CHECK(d.discount[b] == (slot % 3 == 0 ? 0.0f : 0.75f));
    }
    close_desk(&d);
}

static const gpur_window wrapped = {5000000000, 70, 85}, full = {1234, 0, SLOTS}, single = {77, 89, 1};

TEST(a_uniform_draw_takes_the_rows_that_philox_names)
{
    for (int64_t blocks = 1; blocks <= 5; blocks += 2) {
        check_draw(wrapped, SLOTS, blocks);
        check_draw(full, SLOTS, blocks);
        check_draw(single, SLOTS, blocks);
    }
}

/* Ids alone, since no test has memory for as many rows. */
TEST(a_draw_from_more_rows_than_fit_in_32_bits_names_the_same_ids)
{
    static desk d;
    const gpur_window window = {7, ((int64_t)1 << 33) - 3, ((int64_t)1 << 33) + 1};
    open_desk(&d, window);
    gpur_gather_args args = args_of(&d, (int64_t)1 << 34);
    args.weight = NULL, args.discount = NULL, args.copy_count = args.units = args.row_bytes = 0;
    gather(&d, &args, 3);
    for (uint32_t b = 0; b < ROWS; b++)
        CHECK_EQUAL(d.id[b], 7 + reference_offset(window, b));
    close_desk(&d);
}

TEST(what_is_not_wanted_beside_the_fields_is_not_written)
{
    static desk d;
    open_desk(&d, full);
    gpur_gather_args args = args_of(&d, SLOTS);
    args.id = NULL, args.weight = NULL, args.discount = NULL;
    gather(&d, &args, 1);
    for (size_t i = 0; i < sizeof d.id; i++)
        CHECK_EQUAL(((const unsigned char *)d.id)[i], UNTOUCHED);
    for (size_t i = 0; i < sizeof d.weight; i++) {
        CHECK_EQUAL(((const unsigned char *)d.weight)[i], UNTOUCHED);
        CHECK_EQUAL(((const unsigned char *)d.discount)[i], UNTOUCHED);
    }
    close_desk(&d);
}

TEST(without_a_byte_for_it_nothing_terminates)
{
    static desk d;
    open_desk(&d, full);
    gpur_gather_args args = args_of(&d, SLOTS);
    args.terminated_offset = -1;
    gather(&d, &args, 1);
    for (int b = 0; b < ROWS; b++)
        CHECK(d.discount[b] == 0.75f);
    close_desk(&d);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(lanes_have_the_bits_of_philox);
    RUN(a_uniform_draw_takes_the_rows_that_philox_names);
    RUN(a_draw_from_more_rows_than_fit_in_32_bits_names_the_same_ids);
    RUN(what_is_not_wanted_beside_the_fields_is_not_written);
    RUN(without_a_byte_for_it_nothing_terminates);
    return test_main_end();
}
