/* SPDX-License-Identifier: MIT */
/* Frames to what a first layer reads, by the kernels gather_frames and observe one after the other and by the one that
 * does both: to the bit the same, and what plain loops make, at every launch shape. */
#include "device/device.h"
#include "kernels/target/thread.h"
#include "support/replay_fixture.h"
#include "test.h"

enum { SLOTS = 23, BATCH = 5, MAX_STACK = 16, PITCH = 4112, LIMIT = 4 * PITCH }; /* bytes, and numbers of a stack */
enum { FRAMES = SLOTS * PITCH, RAW = 2 * BATCH * (LIMIT + 3), EDGE = 64, X = 2 * BATCH * LIMIT * 4 + EDGE };

typedef struct desk {
    gpur_device *device;
    gpur_stream *stream;
    unsigned char *frames, *raw, *x, *two; /* device: the ring, stacks, the rows of one kernel, those of two */
    uint32_t *links;
    unsigned char host_frames[FRAMES], got[X], want[X];
    uint32_t host_links[BATCH * 2 * MAX_STACK];
} desk;

/* Frames of a stack; how obs is taken, and into what; numbers between rows of x; parts of an image. */
typedef struct view {
    int stack, is_last, height, width, channels, planes, floats, block, gap, bands;
} view;

/* 1 when all of it could be made. */
static int open_desk(desk *d)
{
    d->device = test_device();
    d->frames = kit_upload(d->device, d->host_frames, sizeof d->host_frames);
    d->raw = kit_upload(d->device, d->got, RAW);
    d->x = kit_upload(d->device, d->got, X);
    d->two = kit_upload(d->device, d->got, X);
    d->links = kit_upload(d->device, d->host_links, sizeof d->host_links);
    return gpur_stream_create(d->device, &d->stream) == GPUR_OK && d->frames && d->raw && d->x && d->two && d->links;
}

static void close_desk(desk *d)
{
    void *const memory[] = {d->frames, d->raw, d->x, d->two, d->links};
    gpur_stream_destroy(d->stream);
    for (int i = 0; i < 5; i++)
        gpur_device_free(d->device, memory[i]);
    gpur_device_close(d->device);
}

static int64_t numbers_of(const view *v)
{
    return (int64_t)v->height * v->width * v->channels;
}

static gpur_gather_frames_args frames_of(const desk *d, const view *v)
{
    const int32_t element = v->floats ? 4 : 1, numbers = (int32_t)(numbers_of(v) / v->stack);
    const gpur_gather_frames_args args = {
        .frames = d->frames,
        .links = d->links,
        .pitch = PITCH,
        .frame_bytes = numbers * element,
        .batch = BATCH,
        .unit_step = v->is_last ? v->stack * element : element,
        .position_step = v->is_last ? element : numbers * element,
        .stack = v->stack,
        .units = numbers,
        .shift = v->floats ? 2 : 0,
        .bands = v->bands,
        .slots = SLOTS,
    };
    return args;
}

static gpur_preprocess_args observe_of(const view *v, int bf16, float scale)
{
    const gpur_preprocess_args args = {
        .x_pitch = numbers_of(v) + v->gap,
        .height = v->height,
        .width = v->width,
        .channels = v->channels,
        .floats = v->floats,
        .planes = v->planes,
        .space_to_depth = v->block,
        .bf16 = bf16,
        .scale = scale,
    };
    return args;
}

/* All rows of x, and a little behind them that nobody may write to. */
static int64_t bytes_of(const gpur_preprocess_args *observe)
{
    return 2 * BATCH * observe->x_pitch * (observe->bf16 ? 2 : 4) + EDGE;
}

/* The one kernel, into x. */
static gpur_status see(desk *d, const view *v, const gpur_preprocess_args *observe, int is_plane, gpur_grid grid)
{
    const int64_t row = observe->x_pitch * (observe->bf16 ? 2 : 4);
    gpur_gather_preprocessed_args args = {.frames = frames_of(d, v), .preprocess = *observe, .is_plane = is_plane};
    args.frames.obs = d->x, args.frames.next_obs = d->x + BATCH * row;
    args.frames.obs_pitch = args.frames.next_pitch = row;
    GPUR_TRY(gpur_fill(d->stream, d->x, 0xee, bytes_of(observe)));
    return gpur_launch_gather_preprocessed(d->stream, grid, &args);
}

/* The two. Some stacks of bytes lie 3 bytes apart. */
static gpur_status see_by_two(desk *d, const view *v, const gpur_preprocess_args *observe, gpur_grid grid)
{
    gpur_gather_frames_args frames = frames_of(d, v);
    gpur_preprocess_args args = *observe;
    frames.obs_pitch = frames.next_pitch = v->stack * frames.frame_bytes + (v->floats || v->gap == 0 ? 0 : 3);
    frames.obs = d->raw, frames.next_obs = d->raw + BATCH * frames.obs_pitch;
    args.obs = d->raw, args.obs_pitch = frames.obs_pitch, args.x = d->two, args.count = 2 * BATCH;
    GPUR_TRY(gpur_fill(d->stream, d->two, 0xee, bytes_of(observe)));
    GPUR_TRY(gpur_launch_gather_frames(d->stream, grid, &frames));
    return gpur_launch_preprocess(d->stream, grid, &args);
}

static double number_of(const desk *d, const view *v, uint32_t link, int64_t u)
{
    const unsigned char *const frame = d->host_frames + (int64_t)(link - 1) * PITCH;
    float wide;
    if (link == 0 || link > SLOTS)
        return 0;
    memcpy(&wide, frame + (v->floats ? u * 4 : 0), sizeof wide);
    return v->floats ? wide : frame[u];
}

/* Channel c of pixel (y, x) of a stack of these links. */
static double wanted(const desk *d, const view *v, const uint32_t *links, int y, int x, int c)
{
    const int i = v->planes ? (c * v->height + y) * v->width + x : (y * v->width + x) * v->channels + c;
    const int units = (int)numbers_of(v) / v->stack;
    return v->is_last ? number_of(d, v, links[i % v->stack], i / v->stack)
                      : number_of(d, v, links[i / units], i % units);
}

static double read_number(const unsigned char *x, int64_t i, int bf16)
{
    uint16_t half;
    uint32_t bits;
    float wide;
    memcpy(&half, x + i * 2, sizeof half);
    memcpy(&bits, x + i * 4 * !bf16, sizeof bits);
    bits = bf16 ? (uint32_t)half << 16 : bits;
    memcpy(&wide, &bits, sizeof wide);
    return wide;
}

/* Numbers of image n that are not a quarter of what the frames have there, block by block, line by line; and bytes
 * behind them that were written. */
static int64_t wrong_in(const desk *d, const view *v, int n, int bf16)
{
    const uint32_t *const links = d->host_links + (2 * (n % BATCH) + n / BATCH) * v->stack;
    const int64_t bytes = bf16 ? 2 : 4;
    int64_t at = n * (numbers_of(v) + v->gap), wrong = 0;
    for (int top = 0; top < v->height; top += v->block)
        for (int left = 0; left < v->width; left += v->block)
            for (int i = 0; i < v->block * v->block * v->channels; i++, at++) {
                const int pixel = i / v->channels, y = top + pixel / v->block, x = left + pixel % v->block;
                wrong += read_number(d->got, at, bf16) != 0.25 * wanted(d, v, links, y, x, i % v->channels);
            }
    for (int64_t i = at * bytes; i < (at + v->gap) * bytes; i++)
        wrong += d->got[i] != 0xee;
    return wrong;
}

/* Links as histories make them: mostly one on, now and then none, or anything. Some rows have all of their frames. */
static gpur_status draw_links(desk *d, const view *v, uint64_t *random)
{
    for (int b = 0; b < BATCH; b++)
        for (int j = 0; j < 2 * v->stack; j++) {
            uint32_t *const link = &d->host_links[b * 2 * v->stack + j];
            const int64_t dice = b % 2 ? 9 : xorshift_below(random, 10);
            *link = (uint32_t)(b * 2 + j % v->stack + j / v->stack) % SLOTS + 1;
            if (dice == 0)
                *link = xorshift_below(random, 4) ? 0 : SLOTS + 1 + (uint32_t)xorshift_below(random, 1 << 20);
            if (dice == 1)
                *link = (uint32_t)xorshift_below(random, SLOTS) + 1;
        }
    return gpur_copy(d->stream, d->links, d->host_links, sizeof d->host_links);
}

/* In all of the first part a frame is a channel; in the second it is several, a part of one, or no part of an image. */
static const view views[] = {
    {4, 0, 8, 12, 4, 1, 0, 4, 0, 3}, {4, 0, 20, 28, 4, 1, 0, 4, 8, 2}, {4, 1, 12, 8, 4, 0, 0, 4, 0, 1},
    {4, 0, 6, 8, 4, 1, 0, 2, 8, 2},  {4, 0, 5, 6, 4, 1, 0, 1, 0, 1},   {4, 1, 9, 6, 4, 0, 0, 3, 0, 2},
    {4, 0, 5, 7, 4, 1, 0, 1, 4, 2},  {4, 0, 8, 8, 4, 1, 0, 4, 1, 1},   {3, 0, 6, 4, 3, 1, 0, 2, 5, 1},
    {1, 0, 8, 4, 1, 1, 0, 4, 0, 1},  {1, 0, 8, 4, 1, 0, 0, 4, 0, 1},   {16, 1, 4, 6, 16, 0, 0, 2, 0, 2},
    {4, 0, 8, 4, 4, 1, 1, 4, 0, 2},  {4, 1, 6, 4, 4, 0, 1, 2, 3, 1},   {4, 0, 1, 4112, 4, 1, 0, 1, 0, 3},
    {4, 0, 2, 6, 10, 0, 0, 2, 0, 1}, {4, 1, 6, 4, 8, 1, 0, 2, 0, 3},   {1, 0, 6, 4, 3, 1, 0, 2, 0, 1},
    {1, 0, 4, 6, 3, 0, 0, 2, 2, 2},  {4, 0, 1, 100, 1, 1, 0, 1, 0, 2}, {5, 1, 1, 35, 1, 1, 0, 1, 1, 1},
    {2, 0, 1, 24, 1, 0, 1, 1, 0, 1}, {3, 1, 3, 6, 2, 1, 1, 3, 0, 1},
};
enum { PLANES = 15, VIEWS = sizeof views / sizeof *views };

/* A quarter, which is exact; and then what is rounded, to the same bits as by two kernels. */
static void check(desk *d, const view *v, int bf16, int is_plane, gpur_grid grid)
{
    static const float scales[] = {0.25f, 1.0f / 255, -0.3f};
    for (int i = 0; i < 3; i++) {
        const gpur_preprocess_args observe = observe_of(v, bf16, scales[i]);
        CHECK_OK(see(d, v, &observe, is_plane, grid));
        CHECK_OK(see_by_two(d, v, &observe, grid));
        CHECK_OK(gpur_copy(d->stream, d->got, d->x, bytes_of(&observe)));
        CHECK_OK(gpur_copy(d->stream, d->want, d->two, bytes_of(&observe)));
        CHECK_OK(gpur_stream_sync(d->stream));
        TEST_REQUIRE(memcmp(d->got, d->want, (size_t)bytes_of(&observe)) == 0, "view %d", (int)(v - views));
        for (int n = 0; i == 0 && n < 2 * BATCH; n++)
            TEST_REQUIRE(wrong_in(d, v, n, bf16) == 0, "view %d, bf16 %d, image %d", (int)(v - views), bf16, n);
    }
}

/* Small whole numbers, which both types of x can hold. */
static gpur_status fill_frames(desk *d, int floats)
{
    for (int i = 0; i < FRAMES; i++) {
        const float wide = (float)(i * 7 % 251 - 100);
        if (!floats)
            d->host_frames[i] = (unsigned char)(i * 7 + i / PITCH * 13 + 1);
        else if (i % 4 == 0)
            memcpy(d->host_frames + i, &wide, sizeof wide);
    }
    return gpur_copy(d->stream, d->frames, d->host_frames, sizeof d->host_frames);
}

static void check_view(desk *d, int i, gpur_grid grid, uint64_t *random)
{
    CHECK(numbers_of(&views[i]) + views[i].gap <= LIMIT);
    CHECK_OK(fill_frames(d, views[i].floats));
    CHECK_OK(draw_links(d, &views[i], random));
    for (int bf16 = 0; bf16 < 2; bf16++)
        for (int is_plane = 0; is_plane <= (i < PLANES); is_plane++)
            check(d, &views[i], bf16, is_plane, grid);
}

TEST(one_kernel_makes_what_two_make_at_every_launch_shape)
{
    static const int64_t blocks[] = {1, 2, 7, 64};
    static const int32_t cpu[] = {1}, race[] = {4, 8, 12, 32}, cuda[] = {32, 64, 96, 256};
    const int sizes = test_on_cuda() || GPUR_WARP > 1 ? 4 : 1;
    const int32_t *const threads = test_on_cuda() ? cuda : GPUR_WARP > 1 ? race : cpu;
    static desk d;
    uint64_t random = 5;
    CHECK(open_desk(&d));
    for (int i = 0; i < VIEWS; i++)
        for (int shape = 0; shape < 4; shape++)
            check_view(&d, i, (gpur_grid){.blocks = blocks[shape], .threads = threads[(shape + i) % sizes]}, &random);
    close_desk(&d);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(one_kernel_makes_what_two_make_at_every_launch_shape);
    return test_main_end();
}
