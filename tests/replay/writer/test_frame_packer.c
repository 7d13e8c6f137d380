/* SPDX-License-Identifier: MIT */
/* Packed frames: what is packed is rebuilt bit by bit by the kernel in every launch shape, takes at most its own size,
 * and what is not right is rebuilt as the reference says, or as zeros. */
#include "replay/writer/frame_packer.h"
#include "kernels/lib/frame_codes.h"
#include "kernels/target/thread.h"
#include "reference_codes.h"
#include "support/replay_fixture.h"
#include "test.h"

enum { MAX_BYTES = 33600, MAX_PITCH = MAX_BYTES + 3 * GPUR_MAX_STRIDE, FRAMES = 40, ENVS = 2, EDGE = 64 };
enum { ROWS = IN_RACE_CHECK ? 2 : 9, LINKS = 8, MAX_RING = FRAMES * (MAX_BYTES + 16), UNTOUCHED = 0xee };

typedef struct shape {
    int64_t bytes, line;
} shape;

static const shape shapes[] = {{7056, 84},   {400, 40}, {12288, 192}, {33600, 160}, {1, 1},
                               {7, 7},       {64, 8},   {65, 13},     {511, 73},    {1000, 500},
                               {4096, 4096}, {100, 1},  {513, 171},   {7056, 312},  {1800, 313}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* Small ones, for which few threads wait for each other. */
static const shape race_shapes[] = {{400, 40}, {65, 13}, {513, 171}, {1, 1}};
enum { RACE_SHAPES = sizeof race_shapes / sizeof *race_shapes };

static const shape *shape_of(int i)
{
    return IN_RACE_CHECK ? &race_shapes[i % RACE_SHAPES] : &shapes[i % SHAPES];
}

enum { GAME, NOISE, BITS, CONSTANT, STRIPES, CUTS, SORTS };

typedef struct fixture {
    gpur_device *device;
    gpur_stream *stream;
    unsigned char *ring, *frames; /* device, as the next two lines */
    gpur_packed_frame *packed;
    uint32_t *links, *rebuilt;
    unsigned char host_ring[MAX_RING], given[FRAMES][MAX_BYTES], want[FRAMES][MAX_BYTES];
    unsigned char got[ROWS * (LINKS + 1) * MAX_PITCH + 3 * GPUR_MAX_STRIDE + EDGE];
    gpur_packed_frame table[FRAMES];
    uint32_t host_links[ROWS * LINKS], numbers[ROWS * LINKS];
    gpur_frame_packer packer;
    gpur_frame_key keys[ENVS];
    int64_t ring_bytes, pitch;
    uint64_t random;
} fixture;

static fixture f;

static int open_fixture(void)
{
    memset(&f, 0, sizeof f);
    f.random = 11;
    f.device = test_device();
    f.ring = upload_to_device(f.device, f.host_ring, sizeof f.host_ring);
    f.frames = upload_to_device(f.device, f.got, sizeof f.got);
    f.packed = upload_to_device(f.device, f.table, sizeof f.table);
    f.links = upload_to_device(f.device, f.host_links, sizeof f.host_links);
    f.rebuilt = upload_to_device(f.device, f.numbers, sizeof f.numbers);
    return gpur_stream_create(f.device, &f.stream) == GPUR_OK && f.ring && f.frames && f.packed && f.links && f.rebuilt;
}

static void close_fixture(void)
{
    void *const memory[] = {f.ring, f.frames, f.packed, f.links, f.rebuilt};
    gpur_stream_destroy(f.stream);
    for (int i = 0; i < 5; i++)
        gpur_device_free(f.device, memory[i]);
    gpur_device_close(f.device);
}

static gpur_grid grid_of(int i)
{
    static const int64_t blocks[] = {1, 2, 7, 64};
    static const int32_t race[] = {4, 8, 12, 32}, cuda[] = {32, 64, 64, 32};
    const int32_t parallel = (test_on_cuda() ? cuda : race)[i % 4];
    return (gpur_grid){blocks[i % 4], test_on_cuda() || GPUR_WARP > 1 ? parallel : 1, 0};
}

static void draw_rectangle(unsigned char *frame, const shape *s, int64_t x, int64_t y, unsigned char color)
{
    const int64_t lines = s->bytes / s->line;
    for (int64_t i = y; i < y + 7 && i < lines; i++)
        for (int64_t j = x; j < x + 5 && j < s->line; j++)
            frame[i * s->line + j] = (unsigned char)(color + (j - x) * (i % 2));
}

/* Bricks, some dots, and things that move. */
static void draw_game(unsigned char *frame, const shape *s, int t)
{
    for (int64_t i = 0; i < s->bytes; i++) {
        const int64_t y = i / s->line, x = i % s->line;
        frame[i] = (unsigned char)(y % 17 < 3 ? 90 + x / 11 % 3 : y % 23 == 5 && x % 9 < 2 ? 200 - x : 12);
    }
    for (int k = 0; k < 6; k++)
        draw_rectangle(frame, s, (t * (k - 2) + 13 * k + 2 * s->line) % s->line,
                       (11 * k + t * (k % 2)) % (s->bytes / s->line), (unsigned char)(40 + 31 * k));
}

static void draw(int sort, const shape *s, int t, unsigned char *frame)
{
    if (sort == GAME || sort == CUTS)
        draw_game(frame, s, t);
    for (int64_t i = 0; i < s->bytes; i++) {
        const unsigned char any = (unsigned char)xorshift_next(&f.random);
        if (sort == NOISE || sort == BITS || (sort == CUTS && t % 5 == 3))
            frame[i] = sort == BITS ? any & 1 : any;
        else if (sort == CONSTANT)
            frame[i] = (unsigned char)(t / 4);
        else if (sort == STRIPES) /* no byte is that before it, and many are that above */
            frame[i] = (unsigned char)(i % s->line * 7 + (i / s->line % 8 == 0 ? t : 0));
    }
}

/* Packs FRAMES frames of environments in turn into the ring and the table. */
static void pack_frames(const shape *s, int sort)
{
    uint32_t slots[ENVS] = {0};
    f.ring_bytes = 0;
    for (int t = 0; t < FRAMES; t++) {
        const int env = t % ENVS;
        draw(sort, s, t, f.given[t]);
        memset(f.given[t] + s->bytes, 0, 8);
        const gpur_packed p = gpur_frame_pack(&f.packer, &f.keys[env], f.given[t], f.host_ring + f.ring_bytes);
        CHECK(p.length <= gpur_frame_packer_room(&f.packer));
        CHECK(!p.is_key || !p.needs_key);
        CHECK(!p.needs_key || p.kind == GPUR_PACKED_CODES);
        slots[env] = p.is_key ? (uint32_t)t + 1 : slots[env];
        f.table[t] = (gpur_packed_frame){(uint32_t)(f.ring_bytes / GPUR_PACKED_UNIT), (uint32_t)p.length,
                                         (uint32_t)p.kind, p.needs_key ? slots[env] : 0};
        f.ring_bytes += (p.length + 7) / 8 * 8;
    }
    f.ring_bytes += GPUR_PACKED_UNIT;
}

static void open_packer(const shape *s)
{
    memset(&f.packer, 0, sizeof f.packer);
    CHECK_OK(gpur_frame_packer_build(&f.packer, f.device, s->bytes, s->line));
    for (int env = 0; env < ENVS; env++)
        f.keys[env] = (gpur_frame_key){.frame = calloc(1, MAX_BYTES)};
    f.pitch = gpur_frame_packer_room(&f.packer) + 3 * f.packer.stride / 8 * 8 + 8;
}

static void close_packer(void)
{
    gpur_frame_packer_destroy(&f.packer);
    for (int env = 0; env < ENVS; env++)
        free(f.keys[env].frame);
}

/* Rows of successive frames, of one environment or of any, with no frame and none of the ring now and then. */
static void draw_links(void)
{
    for (int i = 0; i < ROWS * LINKS; i++) {
        const int64_t dice = xorshift_below(&f.random, 12);
        const uint32_t next = i % LINKS > 0 ? f.host_links[i - 1] + ENVS : 0;
        f.host_links[i] = next >= 1 && next <= FRAMES ? next : 1 + (uint32_t)xorshift_below(&f.random, FRAMES);
        if (dice == 0)
            f.host_links[i] = xorshift_below(&f.random, 2) ? 0 : FRAMES + 1 + (uint32_t)xorshift_below(&f.random, 99);
        if (i % LINKS >= LINKS / 2 && dice > 1)
            f.host_links[i] = f.host_links[i - LINKS / 2 + 1];
    }
}

static gpur_rebuild_frames_args args_of(void)
{
    return (gpur_rebuild_frames_args){
        .ring = f.ring,
        .packed = f.packed,
        .links = f.links,
        .frames = f.frames + 3 * GPUR_MAX_STRIDE,
        .rebuilt = f.rebuilt,
        .ring_bytes = f.ring_bytes,
        .pitch = f.pitch,
        .padded_bytes = f.packer.padded_bytes,
        .batch = ROWS,
        .count = LINKS,
        .stride = f.packer.stride,
        .slots = FRAMES,
    };
}

static gpur_status rebuild(gpur_grid grid)
{
    const gpur_rebuild_frames_args args = args_of();
    GPUR_TRY(gpur_copy(f.stream, f.ring, f.host_ring, f.ring_bytes));
    GPUR_TRY(gpur_copy(f.stream, f.packed, f.table, sizeof f.table));
    GPUR_TRY(gpur_copy(f.stream, f.links, f.host_links, sizeof f.host_links));
    GPUR_TRY(gpur_fill(f.stream, f.frames, UNTOUCHED, sizeof f.got));
    GPUR_TRY(gpur_launch_rebuild_frames(f.stream, grid, &args));
    GPUR_TRY(gpur_copy(f.stream, f.got, f.frames, sizeof f.got));
    GPUR_TRY(gpur_copy(f.stream, f.numbers, f.rebuilt, sizeof f.numbers));
    return gpur_stream_sync(f.stream);
}

/* Each link of each row leads to the frame that is wanted, and nothing is written behind the frames. */
static void check_rebuilt(void)
{
    const int64_t end = 3 * GPUR_MAX_STRIDE + ROWS * (LINKS + 1) * f.pitch;
    for (int i = 0; i < ROWS * LINKS; i++) {
        const uint32_t link = f.host_links[i], number = f.numbers[i];
        const int is_link = link - 1 < FRAMES;
        TEST_REQUIRE(is_link == (number != 0), "link %u became number %u", (unsigned)link, (unsigned)number);
        if (!is_link)
            continue;
        CHECK((number - 1) / (LINKS + 1) == (uint32_t)i / LINKS && (number - 1) % (LINKS + 1) < LINKS);
        const unsigned char *const got = f.got + 3 * GPUR_MAX_STRIDE + (number - 1) * f.pitch;
        TEST_REQUIRE(memcmp(got, f.want[link - 1], (size_t)f.packer.padded_bytes) == 0,
                     "frame %u of %d bytes, stride %d, kind %u, key %u", (unsigned)link - 1, (int)f.packer.frame_bytes,
                     (int)f.packer.stride, (unsigned)f.table[link - 1].kind, (unsigned)f.table[link - 1].key);
    }
    for (int64_t i = end; i < (int64_t)sizeof f.got; i++)
        CHECK(f.got[i] == UNTOUCHED);
}

TEST(frames_are_rebuilt_exactly_in_every_launch_shape)
{
    CHECK(open_fixture());
    for (int s = 0; s < (IN_RACE_CHECK ? RACE_SHAPES : SHAPES); s++)
        for (int sort = 0; sort < SORTS; sort++) {
            open_packer(shape_of(s));
            pack_frames(shape_of(s), sort);
            memcpy(f.want, f.given, sizeof f.want);
            draw_links();
            CHECK_OK(rebuild(grid_of(s + sort)));
            check_rebuilt();
            close_packer();
        }
    close_fixture();
}

/* The bytes of all frames of 84 x 84. */
static int64_t packed_bytes(int sort)
{
    int64_t bytes = 0;
    open_packer(&shapes[0]);
    pack_frames(&shapes[0], sort);
    for (int t = 0; t < FRAMES; t++)
        bytes += f.table[t].length;
    close_packer();
    return bytes;
}

TEST(frames_take_few_bytes_and_never_more_than_they_have)
{
    CHECK(open_fixture());
    CHECK(packed_bytes(GAME) * 12 < FRAMES * 7056);
    CHECK(packed_bytes(CONSTANT) * 100 < FRAMES * 7056);
    CHECK_EQUAL(packed_bytes(NOISE), FRAMES * 7056);
    for (int t = 0; t < FRAMES; t++)
        CHECK_EQUAL(f.table[t].kind, GPUR_PACKED_RAW);
    CHECK_EQUAL(packed_bytes(BITS), FRAMES * 7056 / 8);
    for (int t = 0; t < FRAMES; t++)
        CHECK_EQUAL(f.table[t].kind, GPUR_PACKED_BITS);
    close_fixture();
}

TEST(key_frames_serve_few_frames_and_begin_where_the_picture_changes)
{
    int64_t last[ENVS] = {0};
    CHECK(open_fixture());
    open_packer(&shapes[0]);
    pack_frames(&shapes[0], GAME);
    for (int t = 0; t < FRAMES; t++) {
        const uint32_t key = f.table[t].key;
        last[t % ENVS] = key == 0 ? t : last[t % ENVS];
        CHECK(t - last[t % ENVS] < ENVS * GPUR_KEY_FRAMES);
        CHECK(key == 0 || (key - 1 == last[t % ENVS] && f.table[key - 1].key == 0));
    }
    close_packer();
    open_packer(&shapes[0]);
    pack_frames(&shapes[0], CUTS);
    for (int t = 0; t < FRAMES; t++)
        CHECK(t % 5 != 3 || f.table[t].key == 0);
    close_packer();
    close_fixture();
}

/* What is wanted of a frame of the table, as it is now. */
static void unpack_plainly(uint32_t slot, const gpur_packed_frame *p, const unsigned char *key)
{
    unsigned char *const to = f.want[slot];
    const int64_t padded = f.packer.padded_bytes, wanted = p->kind == GPUR_PACKED_RAW ? padded : padded / 8;
    const int fits = (int64_t)p->place * GPUR_PACKED_UNIT + p->length + GPUR_PACKED_UNIT <= f.ring_bytes;
    memset(to, 0, (size_t)padded);
    if (!fits || p->kind >= GPUR_PACKED_KINDS || (p->kind != GPUR_PACKED_CODES && p->length != wanted))
        return;
    const unsigned char *const from = f.host_ring + (int64_t)p->place * GPUR_PACKED_UNIT;
    for (int64_t i = 0; i < padded && p->kind != GPUR_PACKED_CODES; i++)
        to[i] = (unsigned char)(p->kind == GPUR_PACKED_RAW ? from[i] : from[i / 8] >> i % 8 & 1);
    if (p->kind == GPUR_PACKED_CODES && !reference_unpack(from, p->length, key, padded, f.packer.stride, to))
        memset(to, 0, (size_t)padded);
}

/* Keys first, then the frames that have one. A key that is none, by its link or its own key, makes zeros. */
static void want_what_the_table_says(void)
{
    for (uint32_t pass = 0; pass < 2; pass++)
        for (uint32_t slot = 0; slot < FRAMES; slot++) {
            const gpur_packed_frame *const p = &f.table[slot];
            const uint32_t has_key = p->kind == GPUR_PACKED_CODES && p->key != 0, key = p->key - 1;
            const int is_right = !has_key || (key < FRAMES && f.table[key].key == 0);
            if (has_key == pass && is_right)
                unpack_plainly(slot, p, has_key ? f.want[key] : NULL);
            else if (has_key == pass)
                memset(f.want[slot], 0, (size_t)f.packer.padded_bytes);
        }
}

static int key_is_in_ring(const gpur_packed_frame *p)
{
    const gpur_packed_frame *const key = &f.table[p->key - 1];
    const int64_t wanted = f.packer.padded_bytes / (key->kind == GPUR_PACKED_RAW ? 1 : 8);
    return key->kind < GPUR_PACKED_KINDS && (key->kind == GPUR_PACKED_CODES || key->length == wanted) &&
           (int64_t)key->place * GPUR_PACKED_UNIT + key->length + GPUR_PACKED_UNIT <= f.ring_bytes;
}

static void damage(void)
{
    for (int n = 0; n < 12; n++) {
        gpur_packed_frame *const p = &f.table[xorshift_below(&f.random, FRAMES)];
        const int64_t dice = xorshift_below(&f.random, 8);
        const uint32_t any = (uint32_t)xorshift_next(&f.random);
        if (dice == 0)
            p->place = any % 2 ? any : any % (uint32_t)(f.ring_bytes / 8);
        else if (dice == 1)
            p->length = any % 4 ? any % (uint32_t)(f.packer.padded_bytes + 9) : any;
        else if (dice == 2)
            p->kind = any % 5;
        else if (dice == 3)
            p->key = any % 2 ? any % (FRAMES + 3) : any;
        else
            f.host_ring[xorshift_below(&f.random, f.ring_bytes)] = (unsigned char)any;
    }
    for (int t = 0; t < FRAMES; t++) /* a frame of a key that is nowhere is zeros, which the reference does not know */
        if (f.table[t].key - 1 < FRAMES && !key_is_in_ring(&f.table[t]))
            f.table[t].key = FRAMES + 1;
}

TEST(damaged_frames_are_those_of_the_reference_or_zeros)
{
    CHECK(open_fixture());
    for (int round = 0; round < (IN_RACE_CHECK ? 8 : 300); round++) {
        const shape *const s = shape_of(round);
        open_packer(s);
        pack_frames(s, round / 4 % SORTS);
        damage();
        want_what_the_table_says();
        draw_links();
        CHECK_OK(rebuild(grid_of(round)));
        check_rebuilt();
        close_packer();
    }
    close_fixture();
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(frames_are_rebuilt_exactly_in_every_launch_shape);
    RUN(frames_take_few_bytes_and_never_more_than_they_have);
    RUN(key_frames_serve_few_frames_and_begin_where_the_picture_changes);
    RUN(damaged_frames_are_those_of_the_reference_or_zeros);
    return test_main_end();
}
