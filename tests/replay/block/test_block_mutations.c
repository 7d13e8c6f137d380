/* SPDX-License-Identifier: MIT */
/* Damaged blocks, at random: refused, and the replay as it was. One that a corrected checksum makes good by luck may go
 * in; the replay then stays usable. */
#include "support/block_damage.h"
#include "support/replay_fixture.h"
#include "test.h"

#ifdef GPUR_HAS_ZSTD
enum { HAS_ZSTD = 1 };
#else
enum { HAS_ZSTD = 0 };
#endif

static const int64_t extremes[] = {0,         1,         -1,         2,         127,       128,
                                   255,       256,       65535,      65536,     1 << 20,   (1 << 20) + 1,
                                   INT32_MAX, INT32_MIN, UINT32_MAX, INT64_MAX, INT64_MIN, INT64_MAX / 64,
                                   1ll << 40};
enum { EXTREMES = sizeof extremes / sizeof *extremes };

static void flip_bits(unsigned char *block, int64_t bytes, uint64_t *random)
{
    for (int64_t i = 1 + xorshift_below(random, 8); i > 0; i--)
        block[xorshift_below(random, bytes)] ^= (unsigned char)(1 << xorshift_below(random, 8));
}

/* Sets a field of the header or of the payload to an extreme, or near the value that it has. */
static void set_number(unsigned char *block, int64_t bytes, uint64_t *random)
{
    const int64_t size = xorshift_below(random, 2) ? 8 : 4, where = xorshift_below(random, 2) ? 128 : bytes;
    const int64_t at = xorshift_below(random, (where < bytes ? where : bytes) / size) * size;
    int64_t value = 0;
    if (at + size > bytes)
        return;
    memcpy(&value, block + at, (size_t)size);
    value =
        xorshift_below(random, 3) ? extremes[xorshift_below(random, EXTREMES)] : value + xorshift_below(random, 5) - 2;
    memcpy(block + at, &value, (size_t)size);
}

/* A damaged copy, malloc'ed and exactly as long as it says, so that AddressSanitizer sees each byte beyond it. */
static unsigned char *damaged(const block_kind *k, uint64_t *random, int64_t *bytes)
{
    const int64_t kind = xorshift_below(random, 4);
    *bytes = kind == 3 ? xorshift_below(random, k->bytes + 40) : k->bytes;
    unsigned char *const copy = calloc((size_t)*bytes + 1, 1);
    memcpy(copy, k->block, (size_t)(*bytes < k->bytes ? *bytes : k->bytes));
    unsigned char *const exact = realloc(copy, (size_t)(*bytes > 0 ? *bytes : 1));
    for (int64_t i = 1 + xorshift_below(random, 3); i > 0 && *bytes >= 8; i--)
        (xorshift_below(random, 2) ? flip_bits : set_number)(exact, *bytes, random);
    if (kind != 2)
        block_repair(exact, *bytes);
    return exact;
}

typedef struct tally {
    int64_t accepted, refused;
    uint64_t contents;
} tally;

static void try_one(block_kind *k, uint64_t *random, tally *t)
{
    int64_t bytes = 0;
    gpur_block_info info = {.size = sizeof info};
    unsigned char *const block = damaged(k, random, &bytes);
    const block_state before = block_state_of(k->replay);
    const gpur_status checked = gpur_block_check(k->format, block, bytes, NULL);
    const gpur_status status = gpur_writer_append_block(k->writer, block, bytes, &info);
    const block_state after = block_state_of(k->replay);
    free(block);
    CHECK(status == GPUR_OK || status == GPUR_INVALID_ARGUMENT || status == GPUR_FILE_ERROR ||
          (status == GPUR_UNAVAILABLE && !HAS_ZSTD));
    CHECK(checked == GPUR_OK || status != GPUR_OK);
    CHECK(status == GPUR_OK || gpur_last_error()[0]);
    if (status == GPUR_OK) {
        CHECK_EQUAL(after.appended, before.appended + info.rows);
        CHECK_EQUAL(after.frames, before.frames + info.frames);
        t->accepted++, t->contents = 0;
    } else {
        CHECK(memcmp(&before, &after, sizeof before) == 0);
        t->refused++;
    }
}

/* Contents are compared now and then with what they were after the last block that was good. */
static void check_contents(block_kind *k, tally *t)
{
    gpur_batch *batch = NULL;
    const uint64_t contents = block_contents(k->replay);
    CHECK(contents != 0);
    CHECK(t->contents == 0 || t->contents == contents);
    t->contents = contents;
    CHECK_OK(gpur_replay_sample(k->replay, 16, NULL, &batch));
    gpur_batch_release(batch);
}

TEST(damaged_blocks_are_refused_and_the_replay_is_as_it_was)
{
    gpur_device *const device = test_device();
    const int64_t mutations = test_is_long() ? 1000000 : IN_RACE_CHECK ? 2000 : 20000;
    static block_kind kinds[BLOCK_KINDS];
    tally tallies[BLOCK_KINDS] = {{0}};
    uint64_t random = 77;
    for (int32_t i = 0; i < BLOCK_KINDS; i++)
        CHECK(block_kind_open(&kinds[i], device, i));
    for (int64_t i = 0; i < mutations && !atomic_load(&test_state.failures); i++) {
        try_one(&kinds[i % BLOCK_KINDS], &random, &tallies[i % BLOCK_KINDS]);
        if (i % 499 == 0)
            check_contents(&kinds[i % BLOCK_KINDS], &tallies[i % BLOCK_KINDS]);
    }
    for (int32_t i = 0; i < BLOCK_KINDS; i++) {
        CHECK(tallies[i].refused > mutations / BLOCK_KINDS / 2);
        check_contents(&kinds[i], &tallies[i]);
        CHECK_OK(gpur_writer_append_block(kinds[i].writer, kinds[i].block, kinds[i].bytes, NULL));
        printf("kind %d: %lld refused, %lld good by luck\n", (int)i, (long long)tallies[i].refused,
               (long long)tallies[i].accepted);
        block_kind_close(&kinds[i]);
    }
    gpur_device_close(device);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(damaged_blocks_are_refused_and_the_replay_is_as_it_was);
    return test_main_end();
}
