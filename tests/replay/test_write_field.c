/* SPDX-License-Identifier: MIT */
/* New values of one field of stored rows, against an array of all rows that were ever appended, while the ring wraps
 * around; beside a thread that appends; at several launch shapes; and what is refused. */
#include "device/device.h"
#include "kernels/kernels.h"
#include "replay/storage/copies.h"
#include "support/replay_fixture.h"
#include "test.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CAPACITY = 100, BLOCK = 10, BATCH = 32, WIDE = 5, ODD = 3, ROUNDS = IN_RACE_CHECK ? 60 : 600 };
enum { MOST = 20 * ROUNDS + CAPACITY };
enum { KERNEL_SLOTS = 37, KERNEL_PITCH = 32, KERNEL_ROWS = 83 };
enum { A, FLAG, REWARD, BYTES, NUMBER, FIELDS };

static const gpur_field fields[FIELDS] = {{"a", GPUR_FLOAT32, {WIDE}},
                                          {"flag", GPUR_BOOL, {0}},
                                          {"reward", GPUR_FLOAT32, {0}},
                                          {"bytes", GPUR_UINT8, {ODD}},
                                          {"number", GPUR_INT64, {0}}};
static const int64_t bytes_of[FIELDS] = {WIDE * 4, 1, 4, ODD, 8};

typedef struct row {
    float a[WIDE];
    unsigned char flag;
    float reward;
    unsigned char bytes[ODD];
    int64_t number;
} row;

static void *value_of(row *r, int field)
{
    void *const all[FIELDS] = {r->a, &r->flag, &r->reward, r->bytes, &r->number};
    return all[field];
}

typedef struct fixture {
    gpur_device *device;
    gpur_replay *replay;
    gpur_writer *writer;
    row rows[MOST]; /* by their ids */
    int64_t count;
    int64_t stale; /* ids that a write skipped */
    uint64_t random;
} fixture;

static fixture s;

static gpur_replay_config config_of(int eviction)
{
    gpur_replay_config config = replay_fixture_config(fields, FIELDS, CAPACITY, BLOCK, BATCH);
    config.reward_clip = 2.0f;
    config.prioritized = 1;
    config.priority_offset = 0.5f;
    config.eviction = eviction;
    config.check_finite = 1;
    return config;
}

static int open_fixture(int eviction)
{
    const gpur_replay_config config = config_of(eviction);
    gpur_writer_config writer = {0};
    memset(&s, 0, sizeof s);
    s.random = 7;
    s.device = test_device();
    return s.device && gpur_replay_create(s.device, &config, &s.replay) == GPUR_OK &&
           gpur_writer_config_init(&writer, sizeof writer) == GPUR_OK &&
           gpur_writer_open(s.replay, &writer, &s.writer) == GPUR_OK;
}

static void close_fixture(void)
{
    gpur_writer_destroy(s.writer);
    gpur_replay_destroy(s.replay);
    gpur_device_close(s.device);
}

/* Random values of a field, packed; the model's get what is stored for them. */
static void draw_value(int field, unsigned char *to, row *model)
{
    row r;
    for (int i = 0; i < WIDE; i++)
        r.a[i] = (float)xorshift_below(&s.random, 1000);
    r.flag = (unsigned char)xorshift_below(&s.random, 3); /* 2 is stored as 1 */
    r.reward = (float)xorshift_below(&s.random, 7) - 3.0f;
    for (int i = 0; i < ODD; i++)
        r.bytes[i] = (unsigned char)xorshift_next(&s.random);
    r.number = (int64_t)xorshift_next(&s.random);
    memcpy(to, value_of(&r, field), (size_t)bytes_of[field]);
    r.flag = r.flag != 0;
    r.reward = r.reward < -2.0f ? -2.0f : r.reward > 2.0f ? 2.0f : r.reward;
    memcpy(value_of(model, field), value_of(&r, field), (size_t)bytes_of[field]);
}

static void append(int64_t count)
{
    static unsigned char columns[FIELDS][CAPACITY * WIDE * 4];
    const void *arrays[FIELDS];
    for (int f = 0; f < FIELDS; f++) {
        arrays[f] = columns[f];
        for (int64_t i = 0; i < count; i++)
            draw_value(f, columns[f] + i * bytes_of[f], &s.rows[s.count + i]);
    }
    CHECK_OK(gpur_writer_append_fields(s.writer, count, arrays, NULL, NULL));
    s.count += count;
}

static gpur_replay_stats stats_now(void)
{
    return replay_fixture_stats(s.replay);
}

/* Writes a field of random rows: of some twice, of some that are gone, and of none (-1). */
static void write_some(void)
{
    const int64_t first = stats_now().first_id, count = xorshift_below(&s.random, BATCH + 1);
    const int field = (int)xorshift_below(&s.random, FIELDS);
    unsigned char values[BATCH * WIDE * 4];
    int64_t ids[BATCH];
    for (int64_t i = 0; i < count; i++) {
        row unused;
        const int64_t dice = xorshift_below(&s.random, 10), back = xorshift_below(&s.random, 2 * CAPACITY);
        ids[i] = dice == 0 ? -1 : i > 0 && dice < 3 ? ids[i - 1] : s.count - 1 - back % s.count;
        const int is_there = ids[i] >= first;
        s.stale += !is_there;
        draw_value(field, values + i * bytes_of[field], is_there ? &s.rows[ids[i]] : &unused);
    }
    CHECK_OK(gpur_replay_write_field(s.replay, field, count, ids, values, NULL));
}

/* Compares rows of a batch with the model; those that are not there have id -1. */
static void compare(gpur_batch *batch, int64_t count)
{
    unsigned char got[BATCH * WIDE * 4];
    int64_t ids[BATCH];
    CHECK_OK(gpur_batch_read(batch, "id", ids, count * (int64_t)sizeof *ids));
    for (int f = 0; f < FIELDS; f++) {
        CHECK_OK(gpur_batch_read(batch, fields[f].name, got, count * bytes_of[f]));
        for (int64_t i = 0; i < count; i++)
            CHECK(ids[i] < 0 || memcmp(got + i * bytes_of[f], value_of(&s.rows[ids[i]], f), (size_t)bytes_of[f]) == 0);
    }
}

static void compare_all(void)
{
    const gpur_replay_stats stats = stats_now();
    for (int64_t done = 0; done < stats.visible; done += BATCH) {
        const int64_t left = stats.visible - done, count = left < BATCH ? left : BATCH;
        int64_t ids[BATCH];
        gpur_batch *batch = NULL;
        for (int64_t i = 0; i < count; i++)
            ids[i] = stats.first_id + done + i;
        CHECK_OK(gpur_replay_gather(s.replay, count, ids, NULL, &batch));
        compare(batch, count);
        gpur_batch_release(batch);
    }
}

static int64_t stale_now(void)
{
    gpur_priority_stats stats = {.size = sizeof stats};
    return gpur_replay_get_priority_stats(s.replay, &stats) == GPUR_OK ? stats.stale : -1;
}

static void check_schedule(void)
{
    CHECK(open_fixture(GPUR_EVICT_OLDEST));
    append(1);
    for (int round = 0; round < ROUNDS; round++) {
        if (xorshift_below(&s.random, 3) == 0)
            append(1 + xorshift_below(&s.random, 20));
        write_some();
        if (round % 20 == 0)
            compare_all();
    }
    compare_all();
    CHECK_EQUAL(stale_now(), s.stale);
    close_fixture();
}

TEST(writes_agree_with_an_array_of_all_rows)
{
    check_schedule();
}

/* Each row's number says which row it is, and a write says so, too: none may land in another one's slot. */
static void *append_numbers(void *context)
{
    atomic_int *const over = context;
    static unsigned char zeros[CAPACITY * WIDE * 4];
    for (int64_t id = 0; !atomic_load(over) && id < (IN_RACE_CHECK ? 2000 : 1000000); id++) {
        const void *const arrays[FIELDS] = {zeros, zeros, zeros, zeros, &id};
        if (gpur_writer_append_fields(s.writer, 1, arrays, NULL, NULL) != GPUR_OK)
            break;
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL); /* rows stay long enough to be drawn twice */
    }
    return NULL;
}

static void check_beside_appends(int eviction)
{
    atomic_int over = 0;
    pthread_t thread;
    int64_t wrong = 0, written = 0;
    CHECK(open_fixture(eviction));
    CHECK(pthread_create(&thread, NULL, append_numbers, &over) == 0);
    while (gpur_replay_size(s.replay) < BATCH)
        sched_yield();
    for (int round = 0; round < ROUNDS; round++) {
        int64_t ids[BATCH], numbers[BATCH];
        float rewards[BATCH], want[BATCH];
        gpur_batch *batch = NULL;
        CHECK_OK(gpur_replay_sample(s.replay, BATCH, NULL, &batch));
        CHECK_OK(gpur_batch_read(batch, "id", ids, sizeof ids));
        CHECK_OK(gpur_batch_read(batch, "number", numbers, sizeof numbers));
        CHECK_OK(gpur_batch_read(batch, "reward", rewards, sizeof rewards));
        gpur_batch_release(batch);
        for (int i = 0; i < BATCH; i++) {
            want[i] = (float)(numbers[i] % 1000) / 1024.0f + 0.5f;
            wrong += rewards[i] != 0.0f && rewards[i] != want[i];
            written += rewards[i] != 0.0f;
        }
        CHECK_OK(gpur_replay_write_field(s.replay, REWARD, BATCH, ids, want, NULL));
    }
    atomic_store(&over, 1);
    pthread_join(thread, NULL);
    CHECK_EQUAL(wrong, 0);
    CHECK(written > 0);
    close_fixture();
}

TEST(no_write_lands_in_the_slot_of_another_row)
{
    check_beside_appends(GPUR_EVICT_OLDEST);
    check_beside_appends(GPUR_EVICT_BY_PRIORITY);
}

/* The kernel alone, with a window around the ring's end, ids that are gone, and some that come several times. */
static void check_shape(gpur_grid grid, const gpur_copies *copies, const int64_t *ids, int64_t count, int64_t stale)
{
    static unsigned char ring[KERNEL_SLOTS * KERNEL_PITCH], want[sizeof ring];
    const gpur_window window = {.first_id = 1000, .first_slot = 1000 % KERNEL_SLOTS, .count = KERNEL_SLOTS - 3};
    gpur_device *const device = test_device();
    gpur_stream *stream = NULL;
    uint64_t counted = 0;
    memset(want, 0xAA, sizeof want);
    for (int64_t i = 0; i < count; i++)
        if (ids[i] >= window.first_id && ids[i] < window.first_id + window.count)
            memset(want + ids[i] % KERNEL_SLOTS * KERNEL_PITCH + copies->list[0].offset, (int)(i % 100) + 1, ODD);
    CHECK_OK(gpur_stream_create(device, &stream));
    unsigned char *values = malloc((size_t)(count * ODD));
    for (int64_t i = 0; i < count * ODD; i++)
        values[i] = (unsigned char)(i / ODD % 100 + 1);
    memset(ring, 0xAA, sizeof ring);
    void *const on_device[] = {upload_to_device(device, ring, sizeof ring),
                               upload_to_device(device, &window, sizeof window),
                               upload_to_device(device, ids, count * 8), upload_to_device(device, &counted, 8),
                               upload_to_device(device, values, count * ODD)};
    gpur_write_field_args args = {.window = on_device[1],
                                  .ring = on_device[0],
                                  .pitch = KERNEL_PITCH,
                                  .capacity = KERNEL_SLOTS,
                                  .count = count,
                                  .ids = on_device[2],
                                  .stale = on_device[3],
                                  .copy = copies->list[0]};
    args.copy.array = on_device[4];
    CHECK_OK(gpur_launch_write_field(stream, grid, &args));
    CHECK_OK(gpur_copy(stream, ring, on_device[0], sizeof ring));
    CHECK_OK(gpur_copy(stream, &counted, on_device[3], 8));
    CHECK_OK(gpur_stream_sync(stream));
    CHECK(memcmp(ring, want, sizeof ring) == 0);
    CHECK_EQUAL((int64_t)counted, stale);
    for (int i = 0; i < 5; i++)
        gpur_device_free(device, on_device[i]);
    free(values);
    gpur_stream_destroy(stream);
    gpur_device_close(device);
}

TEST(all_launch_shapes_write_the_same)
{
    static const gpur_grid shapes[] = {{1, 32, 0}, {2, 32, 0}, {7, 64, 0}, {64, 256, 0}};
    int64_t ids[KERNEL_ROWS], stale = 0;
    uint64_t random = 3;
    gpur_copies copies = {0};
    gpur_copies_add(&copies, NULL, ODD, 5, ODD);
    for (int i = 0; i < KERNEL_ROWS; i++) {
        ids[i] = i % 9 == 0 ? -1 : 990 + xorshift_below(&random, KERNEL_SLOTS + 20);
        stale += ids[i] < 1000 || ids[i] >= 1000 + KERNEL_SLOTS - 3;
    }
    for (int k = 0; k < (IN_RACE_CHECK ? 2 : 4); k++)
        check_shape(shapes[k], &copies, ids, KERNEL_ROWS, stale);
}

TEST(writes_that_cannot_be_are_refused)
{
    const int64_t ids[] = {0, 5}, bad[] = {0, 6}, below[] = {-2, 0};
    const float good[] = {1.0f, 2.0f}, nan[] = {0.0f, NAN};
    CHECK(open_fixture(GPUR_EVICT_OLDEST));
    CHECK_FAILS(gpur_replay_write_field(s.replay, REWARD, 1, ids, good, NULL), GPUR_INVALID_ARGUMENT, "no transition");
    append(6);
    CHECK_FAILS(gpur_replay_write_field(NULL, 0, 0, NULL, NULL, NULL), GPUR_INVALID_ARGUMENT, "replay is NULL");
    CHECK_FAILS(gpur_replay_write_field(s.replay, FIELDS, 2, ids, good, NULL), GPUR_INVALID_ARGUMENT,
                "field 5; there are 5 fields");
    CHECK_FAILS(gpur_replay_write_field(s.replay, -1, 2, ids, good, NULL), GPUR_INVALID_ARGUMENT, "field -1");
    CHECK_FAILS(gpur_replay_write_field(s.replay, REWARD, BATCH + 1, ids, good, NULL), GPUR_INVALID_ARGUMENT,
                "count is 33; it must be 0 to max_batch = 32");
    CHECK_FAILS(gpur_replay_write_field(s.replay, REWARD, 2, NULL, good, NULL), GPUR_INVALID_ARGUMENT, "ids is NULL");
    CHECK_FAILS(gpur_replay_write_field(s.replay, REWARD, 2, ids, NULL, NULL), GPUR_INVALID_ARGUMENT, "values is NULL");
    CHECK_FAILS(gpur_replay_write_field(s.replay, REWARD, 2, ids, nan, NULL), GPUR_INVALID_ARGUMENT,
                "\"reward\" is NaN in row 1 of 2; its numbers must be finite");
    CHECK_FAILS(gpur_replay_write_field(s.replay, REWARD, 2, bad, good, NULL), GPUR_INVALID_ARGUMENT, "ids[1] is 6");
    CHECK_FAILS(gpur_replay_write_field(s.replay, REWARD, 2, below, good, NULL), GPUR_INVALID_ARGUMENT, "ids[0] is -2");
    CHECK_OK(gpur_replay_write_field(s.replay, REWARD, 0, NULL, NULL, NULL));
    compare_all();
    CHECK_EQUAL(stale_now(), 0);
    close_fixture();
}

/* Fields that the library fills in, that must agree with others, and that rows share. */
TEST(fields_that_are_not_the_callers_are_refused)
{
    static const gpur_field own[] = {{"obs", GPUR_UINT8, {2, 4}},    {"action", GPUR_INT32, {0}},
                                     {"reward", GPUR_FLOAT32, {0}},  {"next_obs", GPUR_UINT8, {2, 4}},
                                     {"terminated", GPUR_BOOL, {0}}, {"discount", GPUR_FLOAT32, {0}},
                                     {"previous", GPUR_INT64, {0}},  {"priority", GPUR_FLOAT32, {0}}};
    static const char *const refusals[] = {"\"obs\" is made of frames, which transitions share",
                                           NULL,
                                           NULL,
                                           "\"next_obs\" is made of frames",
                                           "\"terminated\" must agree with \"discount\"",
                                           "\"discount\" must agree with \"terminated\"",
                                           "\"previous\" links transitions",
                                           "\"priority\" has the first priorities of transitions"};
    gpur_replay_config config = replay_fixture_config(own, 8, CAPACITY, BLOCK, BATCH);
    gpur_device *const device = test_device();
    gpur_replay *replay = NULL;
    const int64_t id = -1;
    const unsigned char zeros[8] = {0};
    config.prioritized = 1;
    config.layout = GPUR_LAYOUT_FRAMES;
    config.frame_stack = 2;
    CHECK_OK(gpur_replay_create(device, &config, &replay));
    for (int32_t f = 0; f < 8; f++) {
        if (refusals[f])
            CHECK_FAILS(gpur_replay_write_field(replay, f, 1, &id, zeros, NULL), GPUR_INVALID_ARGUMENT, refusals[f]);
        else
            CHECK_OK(gpur_replay_write_field(replay, f, 1, &id, zeros, NULL));
    }
    gpur_replay_destroy(replay);
    gpur_device_close(device);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(writes_agree_with_an_array_of_all_rows);
    RUN(no_write_lands_in_the_slot_of_another_row);
    RUN(all_launch_shapes_write_the_same);
    RUN(writes_that_cannot_be_are_refused);
    RUN(fields_that_are_not_the_callers_are_refused);
    return test_main_end();
}
