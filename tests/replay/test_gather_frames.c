/* SPDX-License-Identifier: MIT */
/* The kernel that rebuilds stacks, beside two loops that do the same, at every launch shape. */
#include "device/device.h"
#include "kernels/target/thread.h"
#include "support/replay_fixture.h"
#include "test.h"

enum { SLOTS = 23, BATCH = 9, MAX_STACK = 16, MAX_BYTES = 400, EDGE = 16 };

typedef struct desk {
    gpur_device *device;
    gpur_stream *stream;
    unsigned char *frames, *obs, *next_obs;
    uint32_t *links;
    unsigned char host_frames[SLOTS * 512];
    uint32_t host_links[BATCH * 2 * MAX_STACK];
    int64_t room; /* bytes of obs, and of next_obs */
} desk;

static gpur_status open_desk(desk *d)
{
    d->device = test_device();
    d->room = BATCH * (MAX_STACK * (int64_t)MAX_BYTES + EDGE);
    GPUR_TRY(gpur_stream_create(d->device, &d->stream));
    GPUR_TRY(gpur_memory_alloc(d->device, sizeof d->host_frames, "the test", (void **)&d->frames));
    GPUR_TRY(gpur_memory_alloc(d->device, d->room, "the test", (void **)&d->obs));
    GPUR_TRY(gpur_memory_alloc(d->device, d->room, "the test", (void **)&d->next_obs));
    GPUR_TRY(gpur_memory_alloc(d->device, sizeof d->host_links, "the test", (void **)&d->links));
    for (size_t i = 0; i < sizeof d->host_frames; i++)
        d->host_frames[i] = (unsigned char)(i * 7 + i / 512 * 13 + 1);
    return gpur_copy(d->stream, d->frames, d->host_frames, sizeof d->host_frames);
}

static void close_desk(desk *d)
{
    gpur_stream_destroy(d->stream);
    gpur_memory_free(d->device, d->frames);
    gpur_memory_free(d->device, d->obs);
    gpur_memory_free(d->device, d->next_obs);
    gpur_memory_free(d->device, d->links);
    gpur_device_close(d->device);
}

/* What is rebuilt: `element` 0 is frame after frame in units of 1 << shift, else number by number. */
typedef struct request {
    int32_t stack, frame_bytes, shift, element, gap, bands, past, wants; /* wants: 1 obs, 2 next_obs, 3 both */
} request;

static gpur_gather_frames_args args_of(const desk *d, const request *r)
{
    const int64_t bytes = r->stack * r->frame_bytes;
    const gpur_gather_frames_args args = {
        .frames = d->frames,
        .links = d->links,
        .obs = r->wants & 1 ? d->obs : NULL,
        .next_obs = r->wants & 2 ? d->next_obs : NULL,
        .pitch = 512,
        .frame_bytes = r->frame_bytes,
        .obs_pitch = bytes + r->gap,
        .next_pitch = bytes + r->gap,
        .batch = BATCH,
        .unit_step = r->element > 0 ? r->stack * r->element : 1 << r->shift,
        .position_step = r->element > 0 ? r->element : r->frame_bytes,
        .stack = r->stack,
        .units = r->frame_bytes >> r->shift,
        .shift = r->shift,
        .bands = r->bands,
        .nontemporal = r->past,
        .slots = SLOTS,
    };
    return args;
}

/* Byte i of a stack of these links. */
static unsigned char wanted(const desk *d, const request *r, const uint32_t *links, int64_t i)
{
    const int64_t e = r->element;
    const int64_t p = e > 0 ? i / e % r->stack : i / r->frame_bytes;
    const int64_t at = e > 0 ? i / e / r->stack * e + i % e : i % r->frame_bytes;
    return links[p] == 0 || links[p] > SLOTS ? 0 : d->host_frames[(links[p] - 1) * 512 + at];
}

static int64_t wrong_in(desk *d, const request *r, const unsigned char *array, int32_t half)
{
    static unsigned char got[BATCH * (MAX_STACK * MAX_BYTES + EDGE)];
    const int64_t bytes = r->stack * r->frame_bytes, pitch = bytes + r->gap;
    int64_t wrong = 0;
    if (gpur_copy(d->stream, got, array, d->room) != GPUR_OK || gpur_stream_sync(d->stream) != GPUR_OK)
        return -1;
    for (int64_t b = 0; b < BATCH; b++)
        for (int64_t i = 0; i < pitch; i++) {
            const uint32_t *const links = d->host_links + (2 * b + half) * r->stack;
            const int there = r->wants >> half & 1 && i < bytes;
            wrong += got[b * pitch + i] != (there ? wanted(d, r, links, i) : 0xee);
        }
    return wrong;
}

/* Links as histories make them: mostly one on, now and then none, a copy, or anything. */
static void draw_links(desk *d, const request *r, uint64_t *random)
{
    for (int32_t b = 0; b < BATCH; b++)
        for (int32_t j = 0; j < 2 * r->stack; j++) {
            uint32_t *const link = &d->host_links[b * 2 * r->stack + j];
            const int64_t dice = xorshift_below(random, 10);
            *link = (uint32_t)(b * 2 + j % r->stack + j / r->stack) % SLOTS + 1;
            if (dice == 0)
                *link = xorshift_below(random, 4) ? 0 : SLOTS + 1 + (uint32_t)xorshift_below(random, 1 << 20);
            if (dice == 1)
                *link = (uint32_t)xorshift_below(random, SLOTS) + 1;
            if (dice == 2 && j > 0)
                *link = link[-1];
        }
}

static void check(desk *d, const request *r, gpur_grid grid, uint64_t *random)
{
    draw_links(d, r, random);
    const gpur_gather_frames_args args = args_of(d, r);
    CHECK_OK(gpur_copy(d->stream, d->links, d->host_links, sizeof d->host_links));
    CHECK_OK(gpur_fill(d->stream, d->obs, 0xee, d->room));
    CHECK_OK(gpur_fill(d->stream, d->next_obs, 0xee, d->room));
    CHECK_OK(gpur_launch_gather_frames(d->stream, grid, &args));
    CHECK_EQUAL(wrong_in(d, r, d->obs, 0), 0);
    CHECK_EQUAL(wrong_in(d, r, d->next_obs, 1), 0);
}

static const request requests[] = {
    {4, 352, 4, 0, 0, 1, 0, 3}, {4, 352, 4, 0, 16, 3, 1, 3}, {1, 112, 4, 0, 0, 1, 0, 3}, {2, 108, 2, 0, 4, 2, 0, 3},
    {3, 27, 0, 0, 1, 4, 0, 3},  {5, 26, 1, 0, 2, 1, 1, 3},   {16, 40, 3, 0, 8, 2, 0, 3}, {4, 49, 0, 1, 0, 1, 0, 3},
    {4, 49, 0, 1, 3, 5, 0, 1},  {4, 49, 0, 1, 0, 2, 0, 2},   {3, 100, 2, 4, 0, 2, 0, 3}, {7, 12, 1, 2, 2, 1, 0, 3},
    {16, 96, 3, 8, 8, 3, 0, 3}, {4, 352, 4, 0, 0, 2, 0, 1},  {4, 352, 4, 0, 0, 2, 0, 2}, {2, 3, 0, 1, 0, 1, 0, 3},
};

TEST(stacks_are_those_of_the_links_in_every_shape)
{
    static const int64_t blocks[] = {1, 2, 7, 64};
    static const int32_t cpu[] = {1}, race[] = {4, 8, 12, 32}, cuda[] = {32, 64, 96, 256};
    const int sizes = test_on_cuda() || GPUR_WARP > 1 ? 4 : 1;
    const int32_t *const threads = test_on_cuda() ? cuda : GPUR_WARP > 1 ? race : cpu;
    static desk d;
    uint64_t random = 5;
    CHECK_OK(open_desk(&d));
    for (size_t r = 0; r < sizeof requests / sizeof *requests; r++)
        for (int shape = 0; shape < 4 * sizes; shape++)
            check(&d, &requests[r], (gpur_grid){blocks[shape % 4], threads[shape / 4], 0}, &random);
    close_desk(&d);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(stacks_are_those_of_the_links_in_every_shape);
    return test_main_end();
}
