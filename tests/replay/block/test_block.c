/* SPDX-License-Identifier: MIT */
/* Blocks that are packed from arrays: what comes out of a batch, and every refusal. */
#include "file/safetensors.h"
#include "replay/block/block.h"
#include "replay/replay.h"
#include "support/episode_fixture.h"
#include "support/file_utils.h"
#include "support/replay_fixture.h"
#include "test.h"

#include <stddef.h>

/* Rows that have a flag, a reward that is clipped, and a gap; and the same with two stacks of frames. */
enum { ROWS = 6, STACK = 3, FRAME = 4, FRAMES = 8, FIELDS = 6, OBS = 4, MAX_BYTES = 4096 };
enum { FLAG, REWARD, WIDE, TERMINATED };

typedef struct example {
    gpur_device *device;
    gpur_replay *replay;
    gpur_writer *writer;
    gpur_block_format *format;
    gpur_field fields[FIELDS];
    gpur_replay_config config;
    unsigned char flag[ROWS][3], terminated[ROWS], frames[FRAMES][FRAME];
    float reward[ROWS];
    int64_t wide[ROWS];
    int32_t links[ROWS * 2 * STACK];
    const void *arrays[FIELDS];
    gpur_block_input input;
    unsigned char block[MAX_BYTES];
    int64_t bytes;
} example;

static void describe(example *e, int has_frames)
{
    const gpur_field all[FIELDS] = {{"flag", GPUR_BOOL, {3}},           {"reward", GPUR_FLOAT32, {0}},
                                    {"wide", GPUR_INT64, {0}},          {"terminated", GPUR_UINT8, {0}},
                                    {"obs", GPUR_BOOL, {STACK, FRAME}}, {"next_obs", GPUR_BOOL, {STACK, FRAME}}};
    memcpy(e->fields, all, sizeof all);
    e->config = replay_fixture_config(e->fields, has_frames ? FIELDS : FIELDS - 2, 400, 20, 16);
    e->config.reward_clip = 1.0f, e->config.flush = GPUR_FLUSH_AUTO;
    if (has_frames)
        e->config.layout = GPUR_LAYOUT_FRAMES, e->config.frame_stack = STACK, e->config.extra_frames = 400;
}

static int32_t *link_at(example *e, int row, int side, int j)
{
    return &e->links[(row * 2 + side) * STACK + j];
}

static void fill_in(example *e, int has_frames)
{
    for (int i = 0; i < ROWS; i++) {
        e->flag[i][i % 3] = (unsigned char)(i * 40), e->terminated[i] = i == 3 ? 7 : 0;
        e->reward[i] = (float)i - 2.0f, e->wide[i] = (int64_t)i << 40;
        for (int j = 0; j < STACK; j++) {
            *link_at(e, i, 0, j) = FRAMES - 1 - i - j;
            *link_at(e, i, 1, j) = i + j < 2 ? -1 : FRAMES - 2 - i - j;
        }
    }
    for (int i = 0; i < FRAMES * FRAME; i++)
        e->frames[i / FRAME][i % FRAME] = (unsigned char)(i * 7 % 5 == 0 ? 9 : 0);
    *link_at(e, ROWS - 1, 0, 2) = *link_at(e, ROWS - 1, 1, 1) = -1; /* row 4 alone names frame 0 */
    const void *const arrays[FIELDS] = {e->flag, e->reward, e->wide, e->terminated};
    memcpy(e->arrays, arrays, sizeof arrays);
    const gpur_block_input input = {.size = sizeof input,
                                    .actor = 4,
                                    .incarnation = 1,
                                    .sequence = 9,
                                    .first_step = 450,
                                    .version = 77,
                                    .rows = ROWS,
                                    .fields = e->arrays,
                                    .frames = has_frames ? FRAMES : 0,
                                    .frame_data = e->frames,
                                    .links = e->links};
    e->input = input;
}

static gpur_status pack(example *e)
{
    return gpur_block_pack(e->format, &e->input, e->block, MAX_BYTES, &e->bytes);
}

static int open_example(example *e, int has_frames)
{
    memset(e, 0, sizeof *e);
    describe(e, has_frames);
    fill_in(e, has_frames);
    e->device = test_device();
    return gpur_replay_create(e->device, &e->config, &e->replay) == GPUR_OK &&
           gpur_writer_create(e->replay, 1, &e->writer) == GPUR_OK &&
           gpur_block_format_create(&e->config, &e->format) == GPUR_OK && pack(e) == GPUR_OK;
}

static void close_example(example *e)
{
    gpur_block_format_destroy(e->format);
    gpur_writer_destroy(e->writer);
    gpur_replay_destroy(e->replay);
    gpur_device_close(e->device);
}

/* Bytes of the fields of rows first ... that are not what the arrays say. */
static int64_t count_wrong(example *e, int64_t first)
{
    unsigned char flag[ROWS][3], terminated[ROWS], obs[2][ROWS][STACK][FRAME];
    float reward[ROWS];
    int64_t wide[ROWS], wrong = 0;
    if (read_rows(e->replay, "flag", first, ROWS, flag, 3) || read_rows(e->replay, "reward", first, ROWS, reward, 4) ||
        read_rows(e->replay, "wide", first, ROWS, wide, 8) ||
        read_rows(e->replay, "terminated", first, ROWS, terminated, 1))
        return -1;
    if (e->input.frames > 0 && (read_rows(e->replay, "obs", first, ROWS, obs[0], STACK * FRAME) ||
                                read_rows(e->replay, "next_obs", first, ROWS, obs[1], STACK * FRAME)))
        return -1;
    for (int i = 0; i < ROWS; i++) {
        for (int j = 0; j < 3; j++)
            wrong += flag[i][j] != (e->flag[i][j] != 0);
        wrong += reward[i] != fmaxf(-1.0f, fminf(1.0f, e->reward[i])) || wide[i] != e->wide[i] ||
                 terminated[i] != (e->terminated[i] != 0);
        for (int j = 0; e->input.frames > 0 && j < 2 * STACK * FRAME; j++) {
            const int32_t frame = *link_at(e, i, j / (STACK * FRAME), j / FRAME % STACK);
            wrong += obs[j / (STACK * FRAME)][i][j / FRAME % STACK][j % FRAME] !=
                     (frame >= 0 && e->frames[frame][j % FRAME] != 0);
        }
    }
    return wrong;
}

TEST(rows_come_out_of_a_batch_as_they_were_packed)
{
    for (int has_frames = 0; has_frames < 2; has_frames++) {
        example e;
        gpur_block_info info = {.size = sizeof info};
        CHECK(open_example(&e, has_frames));
        for (int level = 0; level < 4; level++) {
#ifndef GPUR_HAS_ZSTD
            level = 3;
#endif
            e.input.compression = level == 3 ? 0 : level;
            CHECK_OK(pack(&e));
            CHECK_OK(gpur_block_check(e.format, e.block, e.bytes, NULL));
            const int64_t first = rows_appended(e.replay);
            CHECK_OK(gpur_writer_append_block(e.writer, e.block, e.bytes, &info));
            CHECK(info.actor == 4 && info.incarnation == 1 && info.sequence == 9 && info.first_step == 450);
            CHECK(info.version == 77 && info.rows == ROWS && info.bytes == e.bytes);
            CHECK_EQUAL(info.frames, has_frames ? FRAMES : 0);
            CHECK(info.format == gpur_block_format_hash(e.format) && info.format != 0);
            CHECK(e.bytes <= gpur_block_max_bytes(e.format, ROWS, e.input.frames));
            CHECK(level > 0 && level < 3 ? info.raw_bytes + 128 != e.bytes : info.raw_bytes + 128 == e.bytes);
            CHECK_EQUAL(rows_appended(e.replay), first + ROWS);
            CHECK_EQUAL(count_wrong(&e, first), 0);
        }
        close_example(&e);
    }
}

TEST(frames_that_no_row_names_are_left_out)
{
    example e;
    gpur_block_info info = {.size = sizeof info};
    CHECK(open_example(&e, 1));
    for (int i = 0; i < ROWS * 2 * STACK; i++)
        e.links[i] = i % 3 == 0 ? -1 : 5;
    CHECK_OK(pack(&e));
    CHECK_OK(gpur_writer_append_block(e.writer, e.block, e.bytes, &info));
    CHECK_EQUAL(info.frames, 1);
    CHECK_EQUAL(count_wrong(&e, 0), 0);
    memset(e.links, 0xFF, sizeof e.links); /* no frame at all */
    CHECK_OK(pack(&e));
    CHECK_OK(gpur_writer_append_block(e.writer, e.block, e.bytes, &info));
    CHECK_EQUAL(info.frames, 0);
    CHECK_EQUAL(count_wrong(&e, ROWS), 0);
    close_example(&e);
}

/* Hundreds of blocks through a small ring of frames: rows are evicted with their frames, and those that are visible are
 * right, also in a file that is saved and loaded. */
TEST(old_rows_go_with_their_frames)
{
    example e;
    CHECK(open_example(&e, 1));
    gpur_writer_destroy(e.writer);
    gpur_replay_destroy(e.replay);
    e.config.extra_frames = 1;
    CHECK_OK(gpur_replay_create(e.device, &e.config, &e.replay));
    CHECK_OK(gpur_writer_create(e.replay, 1, &e.writer));
    for (int i = 0; i < 300; i++)
        CHECK_OK(gpur_writer_append_block(e.writer, e.block, e.bytes, NULL));
    const char *const path = test_file_path("blocks.safetensors");
    for (int loaded = 0; loaded < 2; loaded++) {
        CHECK_EQUAL(count_wrong(&e, 299 * ROWS), 0); /* flushes */
        const gpur_replay_stats stats = replay_fixture_stats(e.replay);
        const int64_t most = e.replay->layout.frame_layout.frames / FRAMES * ROWS;
        CHECK(stats.visible >= most - 2 * 20 - ROWS && stats.visible <= most);
        for (int64_t first = (stats.first_id + ROWS - 1) / ROWS * ROWS; first < stats.appended; first += ROWS)
            CHECK_EQUAL(count_wrong(&e, first), 0);
        CHECK_OK(gpur_replay_save(e.replay, path, NULL));
        CHECK_OK(gpur_replay_load(e.replay, path, NULL));
    }
    test_remove_folder();
    close_example(&e);
}

/* A group of 20 rows begins with row 2 of the fourth block, before which that block's rows name 5 of its frames; of
 * these the oldest that row 2 or a later one names is number 2. */
TEST(each_row_is_recorded_with_the_frames_that_it_brings)
{
    example e;
    CHECK(open_example(&e, 1));
    for (int i = 0; i < 5; i++)
        CHECK_OK(gpur_writer_append_block(e.writer, e.block, e.bytes, NULL));
    const gpur_frame_index *const index = &e.replay->frame_index;
    CHECK(index->group_rows == 20 && index->rows == 30 && index->head == 5 * FRAMES);
    CHECK(index->groups[0].first == 0 && index->groups[0].oldest == 0);
    CHECK_EQUAL(index->groups[1].first, 3 * FRAMES + 5);
    CHECK_EQUAL(index->groups[1].oldest, 3 * FRAMES + 2);
    close_example(&e);
}

#define CHECK_INPUT(member, value, message)                                                                            \
    do {                                                                                                               \
        gpur_block_input refused_ = e.input;                                                                           \
        int64_t bytes_ = -5;                                                                                           \
        refused_.member = (value);                                                                                     \
        memset(e.block, 0xCD, MAX_BYTES);                                                                              \
        CHECK_FAILS(gpur_block_pack(e.format, &refused_, e.block, MAX_BYTES, &bytes_), GPUR_INVALID_ARGUMENT,          \
                    message);                                                                                          \
        CHECK(bytes_ == -5 && e.block[0] == 0xCD && memcmp(e.block, e.block + 1, MAX_BYTES - 1) == 0);                 \
    } while (0)

TEST(bad_input_is_refused_and_nothing_is_written)
{
    example e;
    const void *holes[FIELDS] = {0};
    CHECK(open_example(&e, 1));
    CHECK_INPUT(size, 3, "gpur_block_input");
    CHECK_INPUT(actor, -1, "gpur_block_input.actor is -1; it must be 0 or more");
    CHECK_INPUT(incarnation, -2, "gpur_block_input.incarnation is -2");
    CHECK_INPUT(sequence, -3, "gpur_block_input.sequence is -3");
    CHECK_INPUT(first_step, -4, "gpur_block_input.first_step is -4");
    CHECK_INPUT(version, -5, "gpur_block_input.version is -5");
    CHECK_INPUT(rows, 0, "gpur_block_input.rows is 0; it must be 1 to 1048576");
    CHECK_INPUT(rows, 1048577, "gpur_block_input.rows is 1048577");
    CHECK_INPUT(frames, -1,
                "gpur_block_input.frames is -1; with the layout GPUR_LAYOUT_FRAMES it must be 0 to 1048576");
    CHECK_INPUT(frames, 1048577, "gpur_block_input.frames is 1048577");
    CHECK_INPUT(frames, 7, "links[0][0] is 7; it must be -1 to 6, as there are 7 frames");
    CHECK_INPUT(frame_data, NULL, "gpur_block_input.frame_data is NULL; it must be 8 frames");
    CHECK_INPUT(links, NULL, "gpur_block_input.links is NULL; it must be (6, 2, 3) int32");
    CHECK_INPUT(fields, NULL, "gpur_block_input.fields is NULL; it must be 6 pointers");
    CHECK_INPUT(fields, holes, "gpur_block_input.fields[0], \"flag\", is NULL");
    CHECK_INPUT(compression, 20, "gpur_block_input.compression is 20; it must be 0 (none) to 19");
    CHECK_INPUT(compression, -1, "gpur_block_input.compression is -1");
    *link_at(&e, 2, 1, 0) = -2;
    CHECK_FAILS(pack(&e), GPUR_INVALID_ARGUMENT, "links[2][3] is -2; it must be -1 to 7");
    for (int i = 0; i < 2 * STACK; i++)
        e.links[i] = i;
    CHECK_FAILS(pack(&e), GPUR_INVALID_ARGUMENT, "row 0 names 6 frames that no row before it names");
    CHECK_FAILS(gpur_block_pack(e.format, &e.input, e.block, 300, &e.bytes), GPUR_INVALID_ARGUMENT,
                "room is 300 bytes; for 6 rows and 8 frames it must be ");
    CHECK_FAILS(gpur_block_pack(NULL, &e.input, e.block, 300, &e.bytes), GPUR_INVALID_ARGUMENT, "format is NULL");
    CHECK_FAILS(gpur_block_pack(e.format, &e.input, NULL, 300, &e.bytes), GPUR_INVALID_ARGUMENT, "block is NULL");
    CHECK_FAILS(gpur_block_pack(e.format, &e.input, e.block, 300, NULL), GPUR_INVALID_ARGUMENT, "bytes is NULL");
    close_example(&e);
    CHECK(open_example(&e, 0));
    CHECK_INPUT(frames, 1, "gpur_block_input.frames is 1; with the layout GPUR_LAYOUT_ROWS it must be 0");
    close_example(&e);
}

TEST(formats_agree_in_what_both_sides_need_and_in_nothing_else)
{
    example e;
    gpur_block_format *other = NULL;
    CHECK(open_example(&e, 1));
    const uint64_t hash = gpur_block_format_hash(e.format);
    for (int i = 0; i < 9; i++) {
        gpur_field fields[FIELDS];
        gpur_replay_config config = e.config;
        memcpy(fields, e.fields, sizeof fields);
        config.fields = fields;
        config.gamma = i == 0 ? 0.5f : config.gamma, config.reward_clip = i == 1 ? 2.0f : config.reward_clip;
        config.layout = i == 2 ? GPUR_LAYOUT_ROWS : config.layout;
        fields[0].name = i == 3 ? "flags" : "flag", fields[0].shape[0] = i == 4 ? 4 : 3;
        fields[2].dtype = i == 5 ? GPUR_FLOAT32 : GPUR_INT64;
        config.capacity = i == 6 ? 800 : 400, config.seed = i == 7, config.stack_pad = i == 8;
        CHECK_OK(gpur_block_format_create(&config, &other));
        CHECK((gpur_block_format_hash(other) == hash) == (i >= 6));
        CHECK_STATUS(gpur_block_check(other, e.block, e.bytes, NULL), i < 6 ? GPUR_INVALID_ARGUMENT : GPUR_OK);
        char both[100];
        snprintf(both, sizeof both, "the block's format is %016llx; it must be %016llx", (unsigned long long)hash,
                 (unsigned long long)gpur_block_format_hash(other));
        if (i < 6)
            CHECK_MESSAGE(both);
        gpur_block_format_destroy(other);
    }
    e.config.capacity = 1;
    CHECK_FAILS(gpur_block_format_create(&e.config, &other), GPUR_INVALID_ARGUMENT, "capacity is 1");
    CHECK(other == NULL);
    CHECK_FAILS(gpur_block_format_create(NULL, &other), GPUR_INVALID_ARGUMENT, "gpur_replay_config");
    CHECK_FAILS(gpur_block_format_create(&e.config, NULL), GPUR_INVALID_ARGUMENT, "format is NULL");
    CHECK_EQUAL(gpur_block_format_hash(NULL), 0);
    gpur_block_format_destroy(NULL);
    close_example(&e);
}

/* Settings of stacks have no effect in the layout of rows. */
TEST(formats_agree_in_their_stacks_and_steps)
{
    static const gpur_field fields[] = {{"obs", GPUR_UINT8, {STACK, 2, STACK}},
                                        {"next_obs", GPUR_UINT8, {STACK, 2, STACK}},
                                        {"discount", GPUR_FLOAT32, {0}}};
    for (int layout = GPUR_LAYOUT_ROWS; layout <= GPUR_LAYOUT_FRAMES; layout++) {
        uint64_t hashes[4];
        for (int i = 0; i < 4; i++) {
            gpur_replay_config config = replay_fixture_config(fields, 3, 400, 20, 16);
            gpur_block_format *format = NULL;
            config.layout = layout, config.frame_stack = i == 1 ? 1 : STACK, config.n_step = i == 2 ? 2 : 1;
            config.stack_axis = i == 3 ? GPUR_STACK_LAST : GPUR_STACK_FIRST;
            CHECK_OK(gpur_block_format_create(&config, &format));
            hashes[i] = gpur_block_format_hash(format);
            gpur_block_format_destroy(format);
        }
        CHECK(hashes[2] != hashes[0]);
        CHECK((hashes[1] != hashes[0]) == layout && (hashes[3] != hashes[0]) == layout);
    }
}

TEST(sizes_that_no_block_has_are_0_bytes)
{
    example e;
    CHECK(open_example(&e, 0));
    CHECK(gpur_block_max_bytes(e.format, 1, 0) >= 128 + e.format->spec.row_bytes);
    CHECK_EQUAL(gpur_block_max_bytes(e.format, 0, 0), 0);
    CHECK_EQUAL(gpur_block_max_bytes(e.format, -1, 0), 0);
    CHECK_EQUAL(gpur_block_max_bytes(e.format, INT64_MAX, 0), 0);
    CHECK_EQUAL(gpur_block_max_bytes(e.format, 1, 1), 0);
    CHECK_EQUAL(gpur_block_max_bytes(NULL, 1, 0), 0);
    close_example(&e);
    CHECK(open_example(&e, 1));
    CHECK(gpur_block_max_bytes(e.format, 1048576, 1048576) > 0);
    CHECK_EQUAL(gpur_block_max_bytes(e.format, 1, 1048577), 0);
    CHECK_EQUAL(gpur_block_max_bytes(e.format, 1, -1), 0);
    close_example(&e);
}

/* One change to a good block, with its checksum corrected unless the checksum is the point. */
typedef struct damage {
    int64_t at, value; /* offset in the block, and the 1, 4 or 8 bytes there */
    int32_t bytes, keeps_checksum;
    gpur_status status;
    const char *message;
} damage;

#define HEADER(member) (int64_t) offsetof(gpur_block_header, member)
#define ROW(row) (GPUR_BLOCK_HEADER + (row)*41)

static const damage damages[] = {
    {0, 'x', 1, 0, GPUR_FILE_ERROR, "the bytes are no block: they do not begin with \"gpurblk\""},
    {HEADER(version), 2, 4, 0, GPUR_FILE_ERROR, "the block is of version 2; this library reads 1"},
    {HEADER(payload_bytes), 277, 8, 0, GPUR_FILE_ERROR,
     "the block has 278 bytes after its header; the header says 277"},
    {HEADER(payload_bytes), INT64_MIN, 8, 0, GPUR_FILE_ERROR, "the header says -9223372036854775808"},
    {HEADER(checksum), 5, 8, 1, GPUR_FILE_ERROR, "the block is damaged: its checksum is "},
    {HEADER(actor), 5, 8, 1, GPUR_FILE_ERROR, "the block is damaged: its checksum is "},
    {ROW(1), 5, 1, 1, GPUR_FILE_ERROR, "the block is damaged: its checksum is "},
    {HEADER(format), 5, 8, 0, GPUR_INVALID_ARGUMENT, "the block's format is 0000000000000005; it must be "},
    {HEADER(compressed), 2, 4, 0, GPUR_FILE_ERROR, "the block's compression is 2; it must be 0 or 1"},
    {HEADER(actor), -1, 8, 0, GPUR_FILE_ERROR, "the block's actor is -1; it must be 0 or more"},
    {HEADER(incarnation), -1, 8, 0, GPUR_FILE_ERROR, "the block's incarnation is -1"},
    {HEADER(sequence), -1, 8, 0, GPUR_FILE_ERROR, "the block's sequence is -1"},
    {HEADER(first_step), -1, 8, 0, GPUR_FILE_ERROR, "the block's first step is -1"},
    {HEADER(weights_version), -1, 8, 0, GPUR_FILE_ERROR, "the block's version of the weights is -1"},
    {HEADER(rows), 0, 8, 0, GPUR_FILE_ERROR, "the block says that it has 0 rows; it must be 1 to 1048576"},
    {HEADER(rows), INT64_MAX, 8, 0, GPUR_FILE_ERROR, "the block says that it has 9223372036854775807 rows"},
    {HEADER(rows), 7, 8, 0, GPUR_FILE_ERROR,
     "the block says that it holds 278 bytes; 7 rows of 41 and 8 frames of 4 are 319"},
    {HEADER(frames), -1, 8, 0, GPUR_FILE_ERROR, "the block says that it has -1 frames; it must be 0 to 1048576"},
    {HEADER(frames), 9, 8, 0, GPUR_FILE_ERROR, "6 rows of 41 and 9 frames of 4 are 282"},
    {HEADER(raw_bytes), 279, 8, 0, GPUR_FILE_ERROR, "the block says that it holds 279 bytes"},
    {HEADER(reserved), 16, 8, 0, GPUR_FILE_ERROR, "the block's header ends with 10 0 0; it must be 0"},
    {HEADER(reserved) + 16, 1, 8, 0, GPUR_FILE_ERROR, "the block's header ends with 0 0 1; it must be 0"},
    {ROW(0), 2, 4, 0, GPUR_FILE_ERROR, "link 0 of row 0 is 2; the block has 8 frames, and the next one that is named"},
    {ROW(5) + 4, 0xFFFFFFFF, 4, 0, GPUR_FILE_ERROR, "link 1 of row 5 is 4294967295; the block has 8 frames"},
    {ROW(4) + 20, 0, 4, 0, GPUR_FILE_ERROR, "the block has 8 frames, and its rows name 7"},
    {ROW(2) + 24 + 1, 2, 1, 0, GPUR_FILE_ERROR, "row 2 has 2 in \"flag\"; it must be 0 or 1"},
    {ROW(4) + 40, 255, 1, 0, GPUR_FILE_ERROR, "row 4 has 255 in \"terminated\"; it must be 0 or 1"},
    {ROW(6) + 5, 3, 1, 0, GPUR_FILE_ERROR, "frame 1 has 3 in \"obs\"; it must be 0 or 1"},
#ifdef GPUR_HAS_ZSTD
    {HEADER(compressed), 1, 4, 0, GPUR_FILE_ERROR, "the data are not compressed by Zstandard"},
#else
    {HEADER(compressed), 1, 4, 0, GPUR_UNAVAILABLE, "apt install libzstd-dev"},
#endif
};

static void correct_checksum(unsigned char *block, int64_t bytes)
{
    memset(block + HEADER(checksum), 0, 8);
    const uint64_t sum = gpur_checksum(block, bytes);
    memcpy(block + HEADER(checksum), &sum, sizeof sum);
}

TEST(damaged_blocks_are_refused_and_change_nothing)
{
    example e;
    CHECK(open_example(&e, 1));
    CHECK_OK(gpur_writer_append_block(e.writer, e.block, e.bytes, NULL));
    CHECK_EQUAL(e.bytes, GPUR_BLOCK_HEADER + 278);
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        const damage *const d = &damages[i];
        unsigned char bad[MAX_BYTES];
        gpur_block_info info = {.size = sizeof info, .rows = 12345};
        memcpy(bad, e.block, (size_t)e.bytes);
        memcpy(bad + d->at, &d->value, (size_t)d->bytes);
        if (!d->keeps_checksum)
            correct_checksum(bad, e.bytes);
        CHECK_FAILS(gpur_block_check(e.format, bad, e.bytes, &info), d->status, d->message);
        CHECK_FAILS(gpur_writer_append_block(e.writer, bad, e.bytes, &info), d->status, d->message);
        CHECK_EQUAL(info.rows, 12345);
    }
    CHECK_FAILS(gpur_writer_append_block(e.writer, e.block, 127, NULL), GPUR_FILE_ERROR,
                "the block has 127 bytes; its header alone has 128");
    CHECK_FAILS(gpur_writer_append_block(e.writer, e.block, -1, NULL), GPUR_FILE_ERROR, "the block has -1 bytes");
    CHECK_FAILS(gpur_writer_append_block(e.writer, e.block, e.bytes - 1, NULL), GPUR_FILE_ERROR, "277 bytes after");
    CHECK_FAILS(gpur_writer_append_block(e.writer, NULL, 200, NULL), GPUR_INVALID_ARGUMENT, "block is NULL");
    CHECK_FAILS(gpur_writer_append_block(NULL, e.block, e.bytes, NULL), GPUR_INVALID_ARGUMENT, "writer is NULL");
    CHECK_FAILS(gpur_block_check(NULL, e.block, e.bytes, NULL), GPUR_INVALID_ARGUMENT, "format is NULL");
    CHECK_FAILS(gpur_block_check(e.format, e.block, e.bytes, &(gpur_block_info){0}), GPUR_INVALID_ARGUMENT,
                "gpur_block_info");
    CHECK_EQUAL(rows_appended(e.replay), ROWS);
    CHECK_EQUAL(count_wrong(&e, 0), 0);
    close_example(&e);
}

#ifdef GPUR_HAS_ZSTD
/* A block of some bytes that says it holds gigabytes is refused before memory is taken for them. */
TEST(compressed_blocks_hold_what_their_headers_say)
{
    example e;
    unsigned char bad[MAX_BYTES];
    CHECK(open_example(&e, 0));
    e.input.compression = 3;
    CHECK_OK(pack(&e));
    memcpy(bad, e.block, (size_t)e.bytes);
    const int64_t rows = 1000000, raw = rows * e.format->spec.row_bytes;
    memcpy(bad + HEADER(rows), &rows, 8), memcpy(bad + HEADER(raw_bytes), &raw, 8);
    correct_checksum(bad, e.bytes);
    CHECK_FAILS(gpur_block_check(e.format, bad, e.bytes, NULL), GPUR_FILE_ERROR, "compressed bytes say that they hold");
    static const unsigned char frame[5] = {0x28, 0xB5, 0x2F, 0xFD, 0xE0}; /* the size of the content follows */
    memcpy(bad + GPUR_BLOCK_HEADER, frame, 5), memcpy(bad + GPUR_BLOCK_HEADER + 5, &raw, 8);
    correct_checksum(bad, e.bytes);
    CHECK_FAILS(gpur_block_check(e.format, bad, e.bytes, NULL), GPUR_FILE_ERROR,
                "a byte of Zstandard's holds at most 32768");
    CHECK_FAILS(gpur_writer_append_block(e.writer, bad, e.bytes, NULL), GPUR_INVALID_ARGUMENT,
                "the block has 1000000 rows; a staging block of this replay has block_rows = 20");
    memcpy(bad, e.block, (size_t)e.bytes);
    bad[e.bytes - 1] ^= 255, bad[e.bytes - 2] ^= 255, bad[GPUR_BLOCK_HEADER + 6] ^= 6;
    correct_checksum(bad, e.bytes);
    CHECK_STATUS(gpur_block_check(e.format, bad, e.bytes, NULL), GPUR_FILE_ERROR);
    close_example(&e);
}
#endif

TEST(blocks_that_no_staging_block_holds_are_refused_with_both_numbers)
{
    example e;
    CHECK(open_example(&e, 1));
    gpur_writer_destroy(e.writer);
    gpur_replay_destroy(e.replay);
    e.config.block_rows = 5;
    CHECK_OK(gpur_replay_create(e.device, &e.config, &e.replay));
    CHECK_OK(gpur_writer_create(e.replay, 1, &e.writer));
    CHECK_FAILS(gpur_writer_append_block(e.writer, e.block, e.bytes, NULL), GPUR_INVALID_ARGUMENT,
                "the block has 6 rows; a staging block of this replay has block_rows = 5");
    for (int i = 0; i < 5; i++) /* 4, and 2 with each further row: 12, where 5 + 2 x 4 fit */
        for (int j = 0; j < STACK; j++)
            *link_at(&e, i, 0, j) = 2 * i, *link_at(&e, i, 1, j) = 2 * i + 1;
    unsigned char frames[14][FRAME] = {{0}};
    for (int i = 0; i < 4; i++)
        *link_at(&e, i, 0, 1) = 10 + i;
    e.input.rows = 5, e.input.frames = 14, e.input.frame_data = frames;
    CHECK_OK(pack(&e));
    CHECK_FAILS(gpur_writer_append_block(e.writer, e.block, e.bytes, NULL), GPUR_INVALID_ARGUMENT,
                "the block has 14 frames; a staging block of this replay has room for 13: set block_rows, now 5, to");
    CHECK_EQUAL(rows_appended(e.replay), 0);
    close_example(&e);
}

/* The rows of a block lie in one staging block: an open one without room for all of them is closed. */
TEST(a_block_waits_for_room_or_says_that_it_would)
{
    example e;
    CHECK(open_example(&e, 1));
    gpur_writer_destroy(e.writer);
    gpur_replay_destroy(e.replay);
    e.config.block_rows = 10, e.config.staging_blocks = 2, e.config.when_full = GPUR_WHEN_FULL_ERROR;
    CHECK_OK(gpur_replay_create(e.device, &e.config, &e.replay));
    CHECK_OK(gpur_writer_create(e.replay, 1, &e.writer));
    gpur_window_lock(e.replay);
    gpur_claim held[2]; /* of rows that are being written, so that both staging blocks are in use */
    CHECK_OK(gpur_ingest_claim_all(&e.replay->ingest, 8, 0, 0, &held[0]));
    CHECK_OK(gpur_ingest_claim_all(&e.replay->ingest, 8, 0, 0, &held[1]));
    for (int i = 0; i < 16; i++)
        gpur_frame_index_record(&e.replay->frame_index, 0, 0);
    for (int i = 0; i < 2; i++)
        memset(held[i].rows, 0, (size_t)(8 * e.replay->layout.rows.pitch));
    gpur_window_unlock(e.replay);
    const gpur_replay_stats before = replay_fixture_stats(e.replay);
    gpur_block_info info = {.size = sizeof info, .rows = 12345};
    for (int i = 0; i < 3; i++)
        CHECK_FAILS(gpur_writer_append_block(e.writer, e.block, e.bytes, &info), GPUR_WOULD_BLOCK,
                    "all 2 staging blocks of 10 rows are in use; call again later");
    const gpur_replay_stats after = replay_fixture_stats(e.replay);
    CHECK(after.appended == before.appended && after.frames_stored == before.frames_stored && info.rows == 12345);
    CHECK_EQUAL(e.replay->ingest.next_id, 16);
    gpur_window_lock(e.replay);
    CHECK_OK(gpur_ingest_commit(&e.replay->ingest, &held[0]));
    CHECK_OK(gpur_ingest_commit(&e.replay->ingest, &held[1]));
    gpur_window_unlock(e.replay);
    gpur_status status = GPUR_WOULD_BLOCK;
    while (status == GPUR_WOULD_BLOCK)
        status = gpur_writer_append_block(e.writer, e.block, e.bytes, &info);
    CHECK_OK(status);
    CHECK_EQUAL(count_wrong(&e, 16), 0);
    close_example(&e);
}

/* Blocks of one field, `previous`, and a flag. */
typedef struct chain {
    gpur_block_format *format;
    gpur_writer *writer;
    int64_t want[64], count;
} chain;

static gpur_status append_to(chain *c, int64_t actor, int64_t incarnation, int64_t sequence, const uint8_t *ends)
{
    const void *const fields[] = {ends, NULL};
    const gpur_block_input input = {.size = sizeof input,
                                    .actor = actor,
                                    .incarnation = incarnation,
                                    .sequence = sequence,
                                    .rows = 3,
                                    .fields = fields};
    unsigned char block[512];
    int64_t bytes = 0;
    GPUR_TRY(gpur_block_pack(c->format, &input, block, sizeof block, &bytes));
    return gpur_writer_append_block(c->writer, block, bytes, NULL);
}

TEST(linked_blocks_go_on_and_gaps_begin_anew)
{
    static const gpur_field fields[] = {{"terminated", GPUR_BOOL, {0}}, {"previous", GPUR_INT64, {0}}};
    static const uint8_t none[3] = {0}, middle[3] = {0, 1, 0}, last[3] = {0, 0, 1};
    static const int64_t want[] = {-1, 0,  1,  2,  3,  -6, -1, 6,  7,  8,  9,  10, -13, 12,
                                   13, -1, 15, 16, -1, 18, 19, -1, 21, 22, 23, 24, 25};
    const gpur_replay_config config = replay_fixture_config(fields, 2, 200, 10, 32);
    const gpur_writer_config plain = {.size = sizeof plain, .num_envs = 1}, links = {plain.size, 1, 0, 0, 1};
    int64_t previous[27];
    gpur_device *const device = test_device();
    gpur_replay *replay = NULL;
    gpur_writer *other = NULL;
    chain c = {0};
    CHECK_OK(gpur_replay_create(device, &config, &replay));
    CHECK_OK(gpur_block_format_create(&config, &c.format));
    CHECK_OK(gpur_writer_open(replay, &plain, &c.writer));
    CHECK_FAILS(append_to(&c, 0, 0, 0, none), GPUR_INVALID_ARGUMENT, "set gpur_writer_config.link_appends to 1");
    other = c.writer;
    CHECK_OK(gpur_writer_open(replay, &links, &c.writer));
    CHECK_OK(append_to(&c, 5, 0, 7, none));   /* rows 0 to 2: the first block, whatever its number */
    CHECK_OK(append_to(&c, 5, 0, 8, middle)); /* follows; an episode ends with row 4 */
    CHECK_OK(append_to(&c, 5, 0, 10, none));  /* block 9 is missing */
    CHECK_OK(append_to(&c, 5, 0, 11, last));
    CHECK_OK(append_to(&c, 5, 0, 12, none));
    CHECK_OK(append_to(&c, 6, 0, 13, none)); /* another actor */
    CHECK_OK(append_to(&c, 6, 1, 14, none)); /* started again */
    CHECK_OK(append_to(&c, 6, 1, 14, none)); /* repeated */
    CHECK_OK(append_to(&c, 6, 1, 15, none));
    CHECK_OK(read_rows(replay, "previous", 0, 27, previous, 8));
    for (int i = 0; i < 27; i++)
        TEST_REQUIRE(previous[i] == want[i], "row %d follows %lld; wanted %lld", i, (long long)previous[i],
                     (long long)want[i]);
    gpur_writer_destroy(other);
    gpur_writer_destroy(c.writer);
    gpur_block_format_destroy(c.format);
    gpur_replay_destroy(replay);
    gpur_device_close(device);
}

/* The default block_rows of both layouts takes blocks of 50 rows, whatever the episodes. */
TEST(defaults_have_room_for_blocks_of_50)
{
    for (int preset = 0; preset < 2; preset++) {
        gpur_field fields[] = {{"obs", GPUR_UINT8, {4, 2, 2}}, {"action", GPUR_INT32, {0}},
                               {"reward", GPUR_FLOAT32, {0}},  {"next_obs", GPUR_UINT8, {4, 2, 2}},
                               {"terminated", GPUR_BOOL, {0}}, {"discount", GPUR_FLOAT32, {0}}};
        gpur_replay_config config;
        gpur_block_format *format = NULL;
        CHECK_OK(gpur_replay_config_init(&config, sizeof config));
        CHECK_OK(gpur_replay_config_preset(&config, preset ? "apex-dqn" : "melee-dqn"));
        config.fields = fields, config.field_count = 6, config.n_step = 3;
        CHECK_OK(gpur_block_format_create(&config, &format));
        CHECK(format->config.block_rows >= 50);
        CHECK(!preset || format->layout.frame_layout.block_frames >= 2 * 50 + 4 + 3 - 2);
        config.capacity = 6400, config.min_size = 1, config.block_rows = 0;
        gpur_block_format_destroy(format);
        CHECK_OK(gpur_block_format_create(&config, &format));
        CHECK(!preset || format->layout.frame_layout.block_frames >= 2 * 50 + 4 + 3 - 2);
        gpur_block_format_destroy(format);
    }
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(rows_come_out_of_a_batch_as_they_were_packed);
    RUN(frames_that_no_row_names_are_left_out);
    RUN(old_rows_go_with_their_frames);
    RUN(each_row_is_recorded_with_the_frames_that_it_brings);
    RUN(bad_input_is_refused_and_nothing_is_written);
    RUN(formats_agree_in_what_both_sides_need_and_in_nothing_else);
    RUN(formats_agree_in_their_stacks_and_steps);
    RUN(sizes_that_no_block_has_are_0_bytes);
    RUN(damaged_blocks_are_refused_and_change_nothing);
#ifdef GPUR_HAS_ZSTD
    RUN(compressed_blocks_hold_what_their_headers_say);
#endif
    RUN(blocks_that_no_staging_block_holds_are_refused_with_both_numbers);
    RUN(a_block_waits_for_room_or_says_that_it_would);
    RUN(linked_blocks_go_on_and_gaps_begin_anew);
    RUN(defaults_have_room_for_blocks_of_50);
    return test_main_end();
}
