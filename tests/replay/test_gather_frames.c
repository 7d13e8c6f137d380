/* SPDX-License-Identifier: MIT */
/* The kernels that rebuild stacks of frames, at every launch shape: gather_frames against plain loops; and
 * gather_preprocessed, which also converts them for the first layer, against plain loops and, bit by bit, against
 * gather_frames and preprocess one after the other. */
#include "device/device.h"
#include "kernels/target/thread.h"
#include "support/replay_fixture.h"
#include "test.h"

enum { SLOTS = 23, BATCH = 7, MAX_STACK = 16, PITCH = 4112, MAX_NUMBERS = 4 * PITCH, EDGE = 64, UNTOUCHED = 0xee };
enum { OUTPUT = 2 * BATCH * MAX_NUMBERS * 4 + EDGE, SHAPES = 16 };

typedef struct fixture {
    gpur_device *device;
    gpur_stream *stream;
    uint32_t *links;                        /* device, as the next line */
    unsigned char *frames, *stacks, *x, *y; /* the ring; stacks; images by one kernel, and by two */
    unsigned char host_frames[SLOTS * PITCH], got[OUTPUT], want[OUTPUT];
    uint32_t host_links[BATCH * 2 * MAX_STACK];
    uint64_t random;
} fixture;

/* How stacks lie, and which are requested. Their numbers have 1 << shift bytes. */
typedef struct stacks {
    int32_t stack, is_last, frame_bytes, shift, gap, bands, nontemporal, wants; /* wants: 1 obs, 2 next_obs, 3 both */
} stacks;

/* Stacks, and how they are taken as images; gap: numbers between images of x. */
typedef struct view {
    int stack, is_last, height, width, channels, planes, floats, block, gap, bands;
} view;

static int open_fixture(fixture *f)
{
    f->device = test_device();
    f->frames = upload_to_device(f->device, f->host_frames, sizeof f->host_frames);
    f->stacks = upload_to_device(f->device, f->got, OUTPUT);
    f->x = upload_to_device(f->device, f->got, OUTPUT);
    f->y = upload_to_device(f->device, f->got, OUTPUT);
    f->links = upload_to_device(f->device, f->host_links, sizeof f->host_links);
    f->random = 5;
    return gpur_stream_create(f->device, &f->stream) == GPUR_OK && f->frames && f->stacks && f->x && f->y && f->links;
}

static void close_fixture(fixture *f)
{
    void *const memory[] = {f->frames, f->stacks, f->x, f->y, f->links};
    gpur_stream_destroy(f->stream);
    for (int i = 0; i < 5; i++)
        gpur_device_free(f->device, memory[i]);
    gpur_device_close(f->device);
}

static gpur_grid shape(int blocks, int threads)
{
    static const int64_t counts[] = {1, 2, 7, 64};
    static const int32_t race[] = {4, 8, 12, 32}, cuda[] = {32, 64, 96, 256};
    const int32_t parallel = (test_on_cuda() ? cuda : race)[threads % 4];
    return (gpur_grid){counts[blocks % 4], test_on_cuda() || GPUR_WARP > 1 ? parallel : 1, 0};
}

/* Small whole numbers, which both types of x can hold. */
static gpur_status fill_frames(fixture *f, int floats)
{
    for (int i = 0; i < SLOTS * PITCH; i++) {
        const float wide = (float)(i * 7 % 251 - 100);
        if (!floats)
            f->host_frames[i] = (unsigned char)(i * 7 + i / PITCH * 13 + 1);
        else if (i % 4 == 0)
            memcpy(f->host_frames + i, &wide, sizeof wide);
    }
    return gpur_copy(f->stream, f->frames, f->host_frames, sizeof f->host_frames);
}

/* Links as histories make them: mostly the next frame, now and then none, a copy, or any. Some rows have all of their
 * frames. */
static gpur_status fill_links(fixture *f, int32_t stack)
{
    for (int32_t i = 0; i < BATCH * 2 * stack; i++) {
        const int32_t b = i / (2 * stack), j = i % (2 * stack);
        uint32_t *const link = &f->host_links[i];
        const int64_t dice = b % 3 ? xorshift_below(&f->random, 10) : 9;
        *link = (uint32_t)(b * 2 + j % stack + j / stack) % SLOTS + 1;
        if (dice == 0)
            *link = xorshift_below(&f->random, 4) ? 0 : SLOTS + 1 + (uint32_t)xorshift_below(&f->random, 1 << 20);
        if (dice == 1)
            *link = (uint32_t)xorshift_below(&f->random, SLOTS) + 1;
        if (dice == 2 && j > 0)
            *link = link[-1];
    }
    return gpur_copy(f->stream, f->links, f->host_links, sizeof f->host_links);
}

/* The stacks of all obs, and behind them those of all next_obs, `pitch` bytes apart. */
static gpur_gather_frames_args frames_args(const fixture *f, const stacks *s, unsigned char *to, int64_t pitch)
{
    return (gpur_gather_frames_args){
        .frames = f->frames,
        .links = f->links,
        .obs = s->wants & 1 ? to : NULL,
        .next_obs = s->wants & 2 ? to + BATCH * pitch : NULL,
        .pitch = PITCH,
        .frame_bytes = s->frame_bytes,
        .obs_pitch = pitch,
        .next_pitch = pitch,
        .batch = BATCH,
        .unit_step = (s->is_last ? s->stack : 1) << s->shift,
        .position_step = s->is_last ? 1 << s->shift : s->frame_bytes,
        .stack = s->stack,
        .units = s->frame_bytes >> s->shift,
        .shift = s->shift,
        .bands = s->bands,
        .nontemporal = s->nontemporal,
        .slots = SLOTS,
    };
}

/* Stack n of 2 * BATCH, byte by byte. */
static void put_stack(const fixture *f, const stacks *s, int n, unsigned char *to)
{
    const uint32_t *const links = f->host_links + (2 * (n % BATCH) + n / BATCH) * s->stack;
    const int32_t size = 1 << s->shift;
    for (int32_t i = 0; i < s->stack * s->frame_bytes; i++) {
        const int32_t p = s->is_last ? i / size % s->stack : i / s->frame_bytes;
        const int32_t at = s->is_last ? i / size / s->stack * size + i % size : i % s->frame_bytes;
        to[i] = links[p] == 0 || links[p] > SLOTS ? 0 : f->host_frames[(int64_t)(links[p] - 1) * PITCH + at];
    }
}

static void check_stacks(fixture *f, const stacks *s, gpur_grid grid)
{
    const int64_t pitch = s->stack * s->frame_bytes + s->gap, bytes = 2 * BATCH * pitch + EDGE;
    const gpur_gather_frames_args args = frames_args(f, s, f->stacks, pitch);
    CHECK_OK(fill_links(f, s->stack));
    CHECK_OK(gpur_fill(f->stream, f->stacks, UNTOUCHED, bytes));
    CHECK_OK(gpur_launch_gather_frames(f->stream, grid, &args));
    CHECK_OK(gpur_copy(f->stream, f->got, f->stacks, bytes));
    CHECK_OK(gpur_stream_sync(f->stream));
    memset(f->want, UNTOUCHED, (size_t)bytes);
    for (int n = 0; n < 2 * BATCH; n++)
        if (s->wants >> n / BATCH & 1)
            put_stack(f, s, n, f->want + n * pitch);
    TEST_REQUIRE(memcmp(f->got, f->want, (size_t)bytes) == 0, "%d frames of %d bytes, shift %d, %d blocks of %d",
                 (int)s->stack, (int)s->frame_bytes, (int)s->shift, (int)grid.blocks, (int)grid.threads);
}

TEST(stacks_are_those_of_the_links_in_every_launch_shape)
{
    static const stacks all[] = {
        {4, 0, 352, 4, 0, 1, 0, 3}, {4, 0, 352, 4, 16, 3, 1, 3}, {1, 0, 112, 4, 0, 1, 0, 3}, {2, 0, 108, 2, 4, 2, 0, 3},
        {3, 0, 27, 0, 1, 4, 0, 3},  {5, 0, 26, 1, 2, 1, 1, 3},   {16, 0, 40, 3, 8, 2, 0, 3}, {4, 1, 49, 0, 0, 1, 0, 3},
        {4, 1, 49, 0, 3, 5, 0, 1},  {4, 1, 49, 0, 0, 2, 0, 2},   {3, 1, 100, 2, 0, 2, 0, 3}, {7, 1, 12, 1, 2, 1, 0, 3},
        {16, 1, 96, 3, 8, 3, 0, 3}, {4, 0, 352, 4, 0, 2, 0, 1},  {4, 0, 352, 4, 0, 2, 0, 2}, {2, 1, 3, 0, 0, 1, 0, 3},
    };
    static fixture f;
    CHECK(open_fixture(&f));
    CHECK_OK(fill_frames(&f, 0));
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (int s = 0; s < SHAPES; s++)
            check_stacks(&f, &all[i], shape(s, s / 4));
    close_fixture(&f);
}

static int64_t numbers_of(const view *v)
{
    return (int64_t)v->height * v->width * v->channels;
}

static stacks stacks_of(const view *v)
{
    const int shift = v->floats ? 2 : 0;
    return (stacks){v->stack, v->is_last, (int32_t)(numbers_of(v) / v->stack) << shift, shift, 0, v->bands, 0, 3};
}

/* All images of x, and some bytes behind them that must not be written. */
static int64_t bytes_of(const gpur_preprocess_args *to)
{
    return 2 * BATCH * to->x_pitch * (to->bf16 ? 2 : 4) + EDGE;
}

static gpur_status convert_by_one(const fixture *f, const view *v, const gpur_preprocess_args *to, int is_plane,
                                  gpur_grid grid)
{
    const stacks s = stacks_of(v);
    const gpur_gather_preprocessed_args args = {
        .frames = frames_args(f, &s, f->x, to->x_pitch * (to->bf16 ? 2 : 4)), .preprocess = *to, .is_plane = is_plane};
    GPUR_TRY(gpur_fill(f->stream, f->x, UNTOUCHED, bytes_of(to)));
    return gpur_launch_gather_preprocessed(f->stream, grid, &args);
}

/* Some stacks of bytes lie 3 bytes apart. */
static gpur_status convert_by_two(const fixture *f, const view *v, const gpur_preprocess_args *to, gpur_grid grid)
{
    const stacks s = stacks_of(v);
    const gpur_gather_frames_args frames =
        frames_args(f, &s, f->stacks, s.stack * s.frame_bytes + (v->floats || v->gap == 0 ? 0 : 3));
    gpur_preprocess_args args = *to;
    args.obs = f->stacks, args.obs_pitch = frames.obs_pitch, args.x = f->y, args.count = 2 * BATCH;
    GPUR_TRY(gpur_fill(f->stream, f->y, UNTOUCHED, bytes_of(to)));
    GPUR_TRY(gpur_launch_gather_frames(f->stream, grid, &frames));
    return gpur_launch_preprocess(f->stream, grid, &args);
}

/* A quarter of all numbers, block by block, line by line. Their bfloat16 is the upper half of their float32. */
static void put_images(fixture *f, const view *v, const gpur_preprocess_args *to)
{
    static unsigned char stack[MAX_NUMBERS * 4];
    const stacks s = stacks_of(v);
    const int64_t size = to->bf16 ? 2 : 4;
    memset(f->want, UNTOUCHED, (size_t)bytes_of(to));
    for (int n = 0; n < 2 * BATCH; n++) {
        unsigned char *at = f->want + n * to->x_pitch * size;
        put_stack(f, &s, n, stack);
        for (int top = 0; top < v->height; top += v->block)
            for (int left = 0; left < v->width; left += v->block)
                for (int i = 0; i < v->block * v->block * v->channels; i++, at += size) {
                    const int pixel = i / v->channels, c = i % v->channels;
                    const int y = top + pixel / v->block, x = left + pixel % v->block;
                    const int from =
                        v->planes ? (c * v->height + y) * v->width + x : (y * v->width + x) * v->channels + c;
                    float number = stack[from];
                    if (v->floats)
                        memcpy(&number, stack + from * 4, sizeof number);
                    number = number * 0.25f - 1;
                    memcpy(at, (unsigned char *)&number + 4 - size, (size_t)size);
                }
    }
}

/* A quarter, less 1, which is exact; and then what is rounded, to the same bits as by two kernels. */
static void check_view(fixture *f, const view *v, int bf16, int is_plane, gpur_grid grid)
{
    static const float scales[] = {0.25f, 1.0f / 255, -0.3f}, shifts[] = {-1, -0.0f, 0.7f};
    for (int i = 0; i < 3; i++) {
        const gpur_preprocess_args to = {.x_pitch = numbers_of(v) + v->gap,
                                         .height = v->height,
                                         .width = v->width,
                                         .channels = v->channels,
                                         .floats = v->floats,
                                         .planes = v->planes,
                                         .space_to_depth = v->block,
                                         .bf16 = bf16,
                                         .scale = scales[i],
                                         .shift = shifts[i]};
        CHECK_OK(convert_by_one(f, v, &to, is_plane, grid));
        CHECK_OK(convert_by_two(f, v, &to, grid));
        CHECK_OK(gpur_copy(f->stream, f->got, f->x, bytes_of(&to)));
        CHECK_OK(gpur_copy(f->stream, f->want, f->y, bytes_of(&to)));
        CHECK_OK(gpur_stream_sync(f->stream));
        for (int by_loops = 0; by_loops <= (i == 0); by_loops++) {
            if (by_loops)
                put_images(f, v, &to);
            TEST_REQUIRE(memcmp(f->got, f->want, (size_t)bytes_of(&to)) == 0,
                         "images of %d x %d x %d, stack %d, bf16 %d, plane %d, scale %g, by loops %d", v->height,
                         v->width, v->channels, v->stack, bf16, is_plane, (double)scales[i], by_loops);
        }
    }
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

TEST(one_kernel_makes_the_images_of_two_in_every_launch_shape)
{
    static fixture f;
    CHECK(open_fixture(&f));
    for (int i = 0; i < VIEWS; i++) {
        CHECK(numbers_of(&views[i]) + views[i].gap <= MAX_NUMBERS);
        CHECK_OK(fill_frames(&f, views[i].floats));
        for (int s = 0; s < 4; s++) {
            CHECK_OK(fill_links(&f, views[i].stack));
            for (int kind = 0; kind < (i < PLANES ? 4 : 2); kind++)
                check_view(&f, &views[i], kind % 2, kind / 2, shape(s, s + i));
        }
    }
    close_fixture(&f);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(stacks_are_those_of_the_links_in_every_launch_shape);
    RUN(one_kernel_makes_the_images_of_two_in_every_launch_shape);
    return test_main_end();
}
