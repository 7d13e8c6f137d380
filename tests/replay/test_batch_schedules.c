/* SPDX-License-Identifier: MIT */
/*
 * Random schedules of everything that makes, refills, exports and releases batches, with many sizes alive at once.
 * Every byte of a row follows from its id, so every array of every live batch and every exported tensor is compared
 * with what the ids require.
 */
#include "base/status.h"
#include "replay/sampler/dlpack.h"
#include "support/replay_fixture.h"
#include "test.h"

#include <pthread.h>

enum { CAPACITY = 900, MAX_BATCH = 256, MAX_LIVE = 14, THREADS = 3, OBS = 15 };
enum { OBS_FIELD, ACTION, NEXT_OBS, TERMINATED, ODD, REWARD, FIELDS };

static const gpur_field fields[FIELDS] = {{"obs", GPUR_UINT8, {3, 5}},      {"action", GPUR_INT64, {0}},
                                          {"next_obs", GPUR_UINT8, {3, 5}}, {"terminated", GPUR_BOOL, {0}},
                                          {"odd", GPUR_UINT8, {13}},        {"reward", GPUR_FLOAT32, {0}}};

typedef struct fixture {
    replay_fixture replay;
    int prioritized, has_frames;
    atomic_llong begun, rows; /* rows whose append has begun, and whose append is done */
} fixture;

/* With beta 0 all weights are 1. */
static int open_fixture(fixture *s, gpur_device *device, int has_frames, int32_t source)
{
    gpur_replay_config config = replay_fixture_config(fields, FIELDS, CAPACITY, 20, MAX_BATCH);
    s->has_frames = has_frames, s->prioritized = source >= GPUR_PRIORITIZED_STRATIFIED;
    s->begun = s->rows = 0;
    config.index_source = source, config.prioritized = s->prioritized;
    if (s->prioritized)
        config.beta.first = config.beta.last = 0.0f;
    if (has_frames)
        config.layout = GPUR_LAYOUT_FRAMES, config.frame_stack = 1, config.extra_frames = CAPACITY;
    if (!replay_fixture_open(&s->replay, device, &config, 1))
        return 0;
    s->replay.row_tags.count--; /* rewards are 0: a step does not store all float32 bit by bit */
    return 1;
}

static void close_fixture(fixture *s)
{
    gpur_writer_destroy(s->replay.writer);
    gpur_replay_destroy(s->replay.replay);
}

/* Each row is an episode of one step. */
static gpur_status append(fixture *s, int64_t count)
{
    const row_tags *const tags = &s->replay.row_tags;
    const int64_t first = atomic_fetch_add(&s->begun, count);
    gpur_status status = s->has_frames ? GPUR_OK : append_tagged(tags, s->replay.writer, first, count);
    for (int64_t id = first; s->has_frames && status == GPUR_OK && id < first + count; id++) {
        unsigned char *const row = tagged_rows(tags, id, 1), *at[FIELDS];
        for (int32_t f = 0; f < tags->count; f++)
            at[f] = row + tags->fields[f].offset;
        const uint8_t truncated = !*at[TERMINATED];
        const float reward = 0;
        const void *const extras[FIELDS] = {[ODD] = at[ODD]};
        const gpur_step_input input = {sizeof input,   at[ACTION], &reward, at[NEXT_OBS],
                                       at[TERMINATED], &truncated, NULL,    extras};
        status = gpur_writer_reset(s->replay.writer, 0, at[OBS_FIELD]);
        if (status == GPUR_OK)
            status = gpur_writer_step_ex(s->replay.writer, &input);
        free(row);
    }
    atomic_fetch_add(&s->rows, count);
    return status;
}

/* A batch that one thread holds, and one of its arrays as a DLPack tensor. */
typedef struct held {
    gpur_batch *batch; /* NULL: the tensor alone */
    void *managed;     /* or NULL */
    int versioned;
    int64_t count, bytes, ids[MAX_BATCH];
    unsigned char exported[MAX_BATCH * OBS]; /* (bytes) of the tensor */
} held;

typedef struct schedule {
    fixture *s;
    uint64_t random;
    int appends;
    int64_t turns, live;
    held held[MAX_LIVE];
} schedule;

static gpur_dl_tensor *tensor_of(const held *h)
{
    return h->versioned ? &((gpur_dl_versioned *)h->managed)->tensor : &((gpur_dl_managed *)h->managed)->tensor;
}

static void check_held(const schedule *p, const held *h)
{
    unsigned char got[MAX_BATCH * OBS];
    int64_t ids[MAX_BATCH];
    if (h->managed) {
        CHECK_OK(gpur_device_copy(p->s->replay.device, got, tensor_of(h)->data, h->bytes));
        CHECK(memcmp(got, h->exported, (size_t)h->bytes) == 0);
    }
    if (!h->batch)
        return;
    CHECK_EQUAL(gpur_batch_count(h->batch), h->count);
    CHECK_EQUAL(count_wrong_bytes(&p->s->replay.row_tags, h->batch, ids), 0);
    CHECK(memcmp(ids, h->ids, (size_t)h->count * sizeof *ids) == 0);
}

static int64_t random_size(schedule *p)
{
    static const int64_t sizes[] = {1, 2, 31, 33, 50, 63, 64, 65, 100, 127, 128, 129, 200, 255, 256};
    const int64_t at = xorshift_below(&p->random, 2 * (int64_t)(sizeof sizes / sizeof *sizes));
    return at < (int64_t)(sizeof sizes / sizeof *sizes) ? sizes[at] : 1 + xorshift_below(&p->random, MAX_BATCH);
}

/* Stores which rows a batch has that was just sampled. */
static void store_ids(const schedule *p, held *h)
{
    CHECK_OK(gpur_batch_read(h->batch, "id", h->ids, h->count * (int64_t)sizeof *h->ids));
    for (int64_t b = 0; b < h->count; b++)
        CHECK(h->ids[b] >= 0 && h->ids[b] < atomic_load(&p->s->begun));
}

/* Ids that nobody evicts meanwhile. */
static void choose_ids(schedule *p, int64_t count, int64_t *ids)
{
    const int64_t newest = atomic_load(&p->s->rows) - 1;
    for (int64_t b = 0; b < count; b++)
        ids[b] = newest - xorshift_below(&p->random, CAPACITY / 3);
}

static void make_batch(schedule *p, int by_ids)
{
    held *const h = &p->held[p->live];
    memset(h, 0, sizeof *h);
    h->count = random_size(p);
    if (by_ids)
        choose_ids(p, h->count, h->ids);
    CHECK_OK(by_ids ? gpur_replay_gather(p->s->replay.replay, h->count, h->ids, NULL, &h->batch)
                    : gpur_replay_sample(p->s->replay.replay, h->count, NULL, &h->batch));
    p->live++;
    if (!by_ids)
        store_ids(p, h);
}

static void sample_again(schedule *p)
{
    held *const h = &p->held[xorshift_below(&p->random, p->live)];
    if (!h->batch)
        return;
    CHECK_STATUS(gpur_replay_sample_into(p->s->replay.replay, NULL, h->batch), h->managed ? GPUR_WOULD_BLOCK : GPUR_OK);
    if (h->managed)
        CHECK_MESSAGE("2 references; it must have one");
    else
        store_ids(p, h);
}

/* Sometimes the tensor alone holds the memory from then on. */
static void export_array(schedule *p)
{
    static const char *const names[] = {"obs", "action", "next_obs", "terminated", "odd", "discount", "weight", "id"};
    held *const h = &p->held[xorshift_below(&p->random, p->live)];
    if (!h->batch || h->managed)
        return;
    const char *const name = names[xorshift_below(&p->random, sizeof names / sizeof *names)];
    h->versioned = (int)xorshift_below(&p->random, 2);
    CHECK_OK(gpur_batch_to_dlpack(h->batch, name, h->versioned, &h->managed));
    const gpur_dl_tensor *const tensor = tensor_of(h);
    CHECK_EQUAL(tensor->shape[0], h->count);
    h->bytes = tensor->bits / 8;
    for (int32_t axis = 0; axis < tensor->ndim; axis++)
        h->bytes *= tensor->shape[axis];
    CHECK_OK(gpur_batch_read(h->batch, name, h->exported, h->bytes));
    if (xorshift_below(&p->random, 2)) {
        gpur_batch_release(h->batch);
        h->batch = NULL;
    }
}

static void release(schedule *p, int64_t at)
{
    held *const h = &p->held[at];
    check_held(p, h);
    gpur_batch_release(h->batch);
    if (h->managed && h->versioned)
        ((gpur_dl_versioned *)h->managed)->deleter(h->managed);
    else if (h->managed)
        ((gpur_dl_managed *)h->managed)->deleter(h->managed);
    *h = p->held[--p->live];
}

static void update_priorities(schedule *p)
{
    int64_t ids[40];
    float priorities[40];
    choose_ids(p, 40, ids);
    for (int i = 0; i < 40; i++)
        priorities[i] = (float)xorshift_below(&p->random, 1000) / 100;
    CHECK_OK(gpur_replay_update_priorities(p->s->replay.replay, 40, ids, priorities, NULL));
}

static void operate(schedule *p)
{
    const int64_t dice = xorshift_below(&p->random, 100);
    if (p->live == MAX_LIVE || (dice < 30 && p->live > 0))
        release(p, xorshift_below(&p->random, p->live));
    else if (dice < 68 || p->live == 0)
        make_batch(p, dice >= 55);
    else if (dice < 78)
        sample_again(p);
    else if (dice < 86)
        export_array(p);
    else if (dice < 90 && p->s->prioritized)
        update_priorities(p);
    else if (p->appends)
        CHECK_OK(append(p->s, 1 + xorshift_below(&p->random, 30)));
    if (xorshift_below(&p->random, 6) == 0)
        for (int64_t at = 0; at < p->live; at++)
            check_held(p, &p->held[at]);
}

static void *run(void *context)
{
    schedule *const p = context;
    const int failures = atomic_load(&test_state.failures);
    for (int64_t i = 0; i < p->turns && atomic_load(&test_state.failures) == failures; i++)
        operate(p);
    return NULL;
}

static void end(schedule *p)
{
    while (p->live > 0)
        release(p, p->live - 1);
}

static void begin(schedule *p, fixture *s, uint64_t seed, int appends, uint64_t turns)
{
    memset(p, 0, sizeof *p);
    p->s = s, p->random = seed, p->appends = appends, p->turns = (int64_t)turns + 20;
}

/* Two replays of one device, in turn. */
static void check_two(int has_frames, int32_t source, uint64_t seed)
{
    gpur_device *const device = test_device();
    static fixture fixtures[2];
    static schedule schedules[2];
    for (int i = 0; i < 2; i++) {
        CHECK(open_fixture(&fixtures[i], device, has_frames, source));
        CHECK_OK(append(&fixtures[i], i ? CAPACITY / 2 : 3 * CAPACITY));
        begin(&schedules[i], &fixtures[i], seed + (uint64_t)i, 1, 30);
    }
    for (uint64_t round = 0; round < test_rounds(40) + 2; round++)
        for (int i = 0; i < 2; i++)
            run(&schedules[i]);
    close_fixture(&fixtures[0]); /* its batches live on */
    for (int i = 0; i < 2; i++)
        end(&schedules[i]);
    close_fixture(&fixtures[1]);
    gpur_device_close(device);
}

TEST(batches_of_either_layout_have_the_rows_of_their_ids)
{
    static const int32_t sources[] = {GPUR_UNIFORM, GPUR_UNIFORM_DISTINCT, GPUR_PRIORITIZED_STRATIFIED,
                                      GPUR_PRIORITIZED_INDEPENDENT};
    for (int i = 0; i < 8; i++) {
        check_two(i / 4, sources[i % 4], 11 + (uint64_t)i);
        TEST_REQUIRE(atomic_load(&test_state.failures) == 0, "frames %d, source %d", i / 4, (int)sources[i % 4]);
    }
}

TEST(threads_that_share_a_replay_have_batches_of_their_own)
{
    static fixture s;
    static schedule schedules[THREADS];
    pthread_t threads[THREADS];
    for (int has_frames = 0; has_frames < 2; has_frames++) {
        gpur_device *const device = test_device();
        CHECK(open_fixture(&s, device, has_frames, has_frames ? GPUR_UNIFORM : GPUR_PRIORITIZED_STRATIFIED));
        CHECK_OK(append(&s, CAPACITY));
        for (int i = 0; i < THREADS; i++) {
            begin(&schedules[i], &s, 31 + (uint64_t)i, i == 0, test_rounds(600));
            CHECK(pthread_create(&threads[i], NULL, run, &schedules[i]) == 0);
        }
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        for (int i = 0; i < THREADS; i++)
            end(&schedules[i]);
        close_fixture(&s);
        gpur_device_close(device);
    }
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(batches_of_either_layout_have_the_rows_of_their_ids);
    RUN(threads_that_share_a_replay_have_batches_of_their_own);
    return test_main_end();
}
