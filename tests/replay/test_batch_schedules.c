/* SPDX-License-Identifier: MIT */
/*
 * Random schedules of everything that makes, redraws, exports and releases batches, with many sizes alive at once.
 * Every byte of a row follows from its id, so every array of every live batch, by whatever way it is read, is compared
 * with what its ids say.
 */
#include "base/status.h"
#include "replay/sampler/dlpack.h"
#include "support/replay_fixture.h"
#include "test.h"

#include <pthread.h>
#include <stddef.h>

/* One environment, episodes of EPISODE steps, observations of STACK frames: row `id` is step id % EPISODE of episode
 * id / EPISODE. */
enum { STACK = 3, FRAME = 5, EPISODE = 7, CAPACITY = 900, MAX_BATCH = 256, MAX_LIVE = 14, THREADS = 3 };
static const float gamma_used = 0.9f;

static const gpur_field fields[] = {{"obs", GPUR_UINT8, {STACK, FRAME}}, {"action", GPUR_INT64, {0}},
                                    {"reward", GPUR_FLOAT32, {0}},       {"next_obs", GPUR_UINT8, {STACK, FRAME}},
                                    {"terminated", GPUR_BOOL, {0}},      {"odd", GPUR_UINT8, {13}}};
enum { FIELDS = sizeof fields / sizeof *fields };
static const char *const names[] = {"obs", "action", "reward", "next_obs", "terminated", "odd", "discount"};
enum { NAMES = sizeof names / sizeof *names, MAX_BYTES = STACK * FRAME };
static const int64_t bytes_of[NAMES] = {STACK * FRAME, 8, 4, STACK *FRAME, 1, 13, 4};

static unsigned char mixed(int64_t number, int64_t at)
{
    uint64_t x = (uint64_t)number * 0x9E3779B97F4A7C15ull + (uint64_t)at * 1000003u;
    return (unsigned char)((x ^ x >> 29) * 0xBF58476D1CE4E5B9ull >> 56);
}

/* Frame `at` of an episode; before the first one there are zeros. */
static void put_frame(int64_t episode, int64_t at, unsigned char *frame)
{
    for (int i = 0; i < FRAME; i++)
        frame[i] = at < 0 ? 0 : mixed(1000 * episode + at, i);
}

/* All arrays of row `id`, in the order of names. */
typedef struct row {
    unsigned char obs[STACK * FRAME], next_obs[STACK * FRAME], odd[13];
    int64_t action;
    float reward, discount;
    uint8_t terminated, truncated;
} row;

static row row_of(int64_t id)
{
    const int64_t episode = id / EPISODE, at = id % EPISODE;
    row r = {.action = id, .reward = (float)(id % 65536)};
    r.terminated = at == EPISODE - 1 && episode % 2 == 0;
    r.truncated = at == EPISODE - 1 && !r.terminated;
    r.discount = r.terminated ? 0.0f : gamma_used;
    for (int k = 0; k < STACK; k++) {
        put_frame(episode, at - STACK + 1 + k, r.obs + k * FRAME);
        put_frame(episode, at - STACK + 2 + k, r.next_obs + k * FRAME);
    }
    for (int i = 0; i < 13; i++)
        r.odd[i] = mixed(-id, i);
    return r;
}

static const size_t offset_of[NAMES] = {offsetof(row, obs),      offsetof(row, action),     offsetof(row, reward),
                                        offsetof(row, next_obs), offsetof(row, terminated), offsetof(row, odd),
                                        offsetof(row, discount)};

static const unsigned char *value_of(const row *r, int name)
{
    return (const unsigned char *)r + offset_of[name];
}

typedef struct fixture {
    gpur_device *device;
    gpur_replay *replay;
    gpur_writer *writer;
    int prioritized, linked;
    atomic_llong begun, rows; /* that may be there, and that are */
} fixture;

static int open_scene(fixture *s, gpur_device *device, int linked, int32_t source)
{
    gpur_replay_config config = replay_fixture_config(fields, FIELDS, CAPACITY, 20, MAX_BATCH);
    gpur_writer_config writer;
    memset(s, 0, sizeof *s);
    s->device = device, s->linked = linked;
    s->prioritized = source == GPUR_PRIORITIZED_STRATIFIED || source == GPUR_PRIORITIZED_INDEPENDENT;
    config.gamma = gamma_used, config.index_source = source, config.prioritized = s->prioritized;
    if (linked)
        config.layout = GPUR_LAYOUT_FRAMES, config.frame_stack = STACK, config.extra_frames = CAPACITY;
    if (gpur_replay_create(device, &config, &s->replay) != GPUR_OK ||
        gpur_writer_config_init(&writer, sizeof writer) != GPUR_OK)
        return 0;
    writer.observations = linked ? GPUR_OBSERVATIONS_FRAMES : GPUR_OBSERVATIONS_STACKS;
    return gpur_writer_open(s->replay, &writer, &s->writer) == GPUR_OK;
}

static void close_scene(fixture *s)
{
    gpur_writer_destroy(s->writer);
    gpur_replay_destroy(s->replay);
}

/* Steps of the environment; a linked replay is given the newest frames alone. */
static gpur_status append(fixture *s, int64_t count)
{
    const int64_t first = atomic_fetch_add(&s->begun, count), newest = s->linked ? (STACK - 1) * FRAME : 0;
    for (int64_t id = first; id < first + count; id++) {
        row r = row_of(id);
        const void *const extras[FIELDS] = {[5] = r.odd};
        const gpur_step_input input = {sizeof input,  &r.action,    &r.reward, r.next_obs + newest,
                                       &r.terminated, &r.truncated, NULL,      extras};
        if (id % EPISODE == 0)
            GPUR_TRY(gpur_writer_reset(s->writer, 0, r.obs + newest));
        GPUR_TRY(gpur_writer_step_ex(s->writer, &input));
    }
    atomic_fetch_add(&s->rows, count);
    return GPUR_OK;
}

/* A batch that one thread holds, or one of its arrays as a tensor of DLPack. */
typedef struct held {
    gpur_batch *batch; /* NULL: the tensor alone */
    void *managed;     /* or NULL */
    int versioned, name;
    int64_t count, ids[MAX_BATCH];
} held;

typedef struct player {
    fixture *s;
    uint64_t random;
    int appends;
    int64_t turns, live;
    held held[MAX_LIVE];
} player;

static void make_rows(row *rows, const int64_t *ids, int64_t count)
{
    for (int64_t b = 0; b < count; b++)
        rows[b] = row_of(ids[b]);
}

static int64_t wrong_values(int name, const unsigned char *got, const row *rows, int64_t count)
{
    int64_t wrong = 0;
    for (int64_t b = 0; b < count; b++)
        wrong += memcmp(got + b * bytes_of[name], value_of(&rows[b], name), (size_t)bytes_of[name]) != 0;
    return wrong;
}

/* By the library's copy, or from where it says that the array lies. */
static gpur_status read_array(player *p, gpur_batch *batch, const char *name, void *to, int64_t bytes)
{
    void *from = NULL;
    if (xorshift_below(&p->random, 2))
        return gpur_batch_read(batch, name, to, bytes);
    gpur_status status = gpur_batch_get_array(batch, name, &from, NULL);
    if (status == GPUR_OK)
        status = gpur_batch_sync(batch);
    return status == GPUR_OK ? gpur_device_copy(p->s->device, to, from, bytes) : status;
}

static void check_weights(player *p, const held *h)
{
    float weights[MAX_BATCH], largest = 0;
    CHECK_OK(read_array(p, h->batch, "weight", weights, h->count * (int64_t)sizeof *weights));
    for (int64_t b = 0; b < h->count; b++) {
        CHECK(weights[b] > 0 && weights[b] <= 1);
        CHECK(p->s->prioritized || weights[b] == 1);
        largest = weights[b] > largest ? weights[b] : largest;
    }
    CHECK(largest == 1);
}

static void check_tensor(player *p, const held *h)
{
    unsigned char got[MAX_BATCH * MAX_BYTES];
    row rows[MAX_BATCH];
    const gpur_dl_tensor *const tensor =
        h->versioned ? &((gpur_dl_versioned *)h->managed)->tensor : &((gpur_dl_managed *)h->managed)->tensor;
    int64_t elements = 1;
    for (int32_t axis = 0; axis < tensor->ndim; axis++)
        elements *= tensor->shape[axis];
    CHECK_EQUAL(tensor->shape[0], h->count);
    CHECK_EQUAL(elements * tensor->bits / 8, h->count * bytes_of[h->name]);
    CHECK_OK(gpur_device_copy(p->s->device, got, tensor->data, h->count * bytes_of[h->name]));
    make_rows(rows, h->ids, h->count);
    CHECK_EQUAL(wrong_values(h->name, got, rows, h->count), 0);
}

static void check_held(player *p, const held *h)
{
    unsigned char got[MAX_BATCH * MAX_BYTES];
    int64_t ids[MAX_BATCH];
    row rows[MAX_BATCH];
    if (h->managed)
        check_tensor(p, h);
    if (!h->batch)
        return;
    CHECK_EQUAL(gpur_batch_count(h->batch), h->count);
    CHECK_OK(read_array(p, h->batch, "id", ids, h->count * (int64_t)sizeof *ids));
    CHECK(memcmp(ids, h->ids, (size_t)h->count * sizeof *ids) == 0);
    make_rows(rows, ids, h->count);
    for (int name = 0; name < NAMES; name++) {
        CHECK_OK(read_array(p, h->batch, names[name], got, h->count * bytes_of[name]));
        CHECK_EQUAL(wrong_values(name, got, rows, h->count), 0);
    }
    check_weights(p, h);
}

static int64_t size_of_batch(player *p)
{
    static const int64_t sizes[] = {1, 2, 31, 33, 50, 63, 64, 65, 100, 127, 128, 129, 200, 255, 256};
    const int64_t at = xorshift_below(&p->random, 2 * (int64_t)(sizeof sizes / sizeof *sizes));
    return at < (int64_t)(sizeof sizes / sizeof *sizes) ? sizes[at] : 1 + xorshift_below(&p->random, MAX_BATCH);
}

/* Learns which rows a batch has that was just drawn. */
static void note(player *p, held *h)
{
    h->count = gpur_batch_count(h->batch);
    CHECK_OK(gpur_batch_read(h->batch, "id", h->ids, h->count * (int64_t)sizeof *h->ids));
    for (int64_t b = 0; b < h->count; b++)
        CHECK(h->ids[b] >= 0 && h->ids[b] < atomic_load(&p->s->begun));
}

/* Ids that nobody evicts meanwhile. */
static void choose_ids(player *p, int64_t count, int64_t *ids)
{
    const int64_t newest = atomic_load(&p->s->rows) - 1;
    for (int64_t b = 0; b < count; b++)
        ids[b] = newest - xorshift_below(&p->random, CAPACITY / 3);
}

/* A new batch, drawn or by ids. */
static void draw(player *p, int by_ids)
{
    held *const h = &p->held[p->live];
    const int64_t count = size_of_batch(p);
    memset(h, 0, sizeof *h);
    if (by_ids)
        choose_ids(p, count, h->ids);
    CHECK_OK(by_ids ? gpur_replay_gather(p->s->replay, count, h->ids, NULL, &h->batch)
                    : gpur_replay_sample(p->s->replay, count, NULL, &h->batch));
    p->live++;
    CHECK_EQUAL(gpur_batch_count(h->batch), count);
    h->count = count;
    if (!by_ids)
        note(p, h);
}

static void draw_again(player *p)
{
    held *const h = &p->held[xorshift_below(&p->random, p->live)];
    if (!h->batch)
        return;
    const int64_t count = gpur_batch_count(h->batch);
    if (h->managed) {
        CHECK_STATUS(gpur_replay_sample_into(p->s->replay, NULL, h->batch), GPUR_WOULD_BLOCK);
        return;
    }
    CHECK_OK(gpur_replay_sample_into(p->s->replay, NULL, h->batch));
    CHECK_EQUAL(gpur_batch_count(h->batch), count);
    note(p, h);
}

static void export_one(player *p)
{
    held *const h = &p->held[xorshift_below(&p->random, p->live)];
    if (!h->batch || h->managed)
        return;
    h->name = (int)xorshift_below(&p->random, NAMES), h->versioned = (int)xorshift_below(&p->random, 2);
    CHECK_OK(gpur_batch_to_dlpack(h->batch, names[h->name], h->versioned, &h->managed));
    if (xorshift_below(&p->random, 2)) { /* the tensor alone keeps the memory */
        gpur_batch_release(h->batch);
        h->batch = NULL;
    }
}

static void let_go(player *p, int64_t at)
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

static void give_priorities(player *p)
{
    int64_t ids[40];
    float priorities[40];
    choose_ids(p, 40, ids);
    for (int i = 0; i < 40; i++)
        priorities[i] = (float)xorshift_below(&p->random, 1000) / 100;
    CHECK_OK(gpur_replay_update_priorities(p->s->replay, 40, ids, priorities, NULL));
}

static void turn(player *p)
{
    const int64_t way = xorshift_below(&p->random, 100);
    if (p->live == MAX_LIVE || (way < 30 && p->live > 0))
        let_go(p, xorshift_below(&p->random, p->live));
    else if (way < 68 || p->live == 0)
        draw(p, way >= 55);
    else if (way < 78)
        draw_again(p);
    else if (way < 86)
        export_one(p);
    else if (way < 90 && p->s->prioritized)
        give_priorities(p);
    else if (p->appends)
        CHECK_OK(append(p->s, 1 + xorshift_below(&p->random, 30)));
    if (xorshift_below(&p->random, 6) == 0)
        for (int64_t at = 0; at < p->live; at++)
            check_held(p, &p->held[at]);
}

static void *play(void *context)
{
    player *const p = context;
    const int failures = atomic_load(&test_state.failures);
    for (int64_t i = 0; i < p->turns && atomic_load(&test_state.failures) == failures; i++)
        turn(p);
    return NULL;
}

static void end(player *p)
{
    while (p->live > 0)
        let_go(p, p->live - 1);
}

static player player_of(fixture *s, uint64_t seed, int appends, uint64_t turns)
{
    const player p = {.s = s, .random = seed, .appends = appends, .turns = (int64_t)turns + 20};
    return p;
}

static const int32_t sources[] = {GPUR_UNIFORM, GPUR_UNIFORM_DISTINCT, GPUR_PRIORITIZED_STRATIFIED,
                                  GPUR_PRIORITIZED_INDEPENDENT};
enum { SOURCES = sizeof sources / sizeof *sources };

static void check_two(int linked, int32_t source, uint64_t seed)
{
    gpur_device *const device = test_device();
    static fixture fixtures[2];
    static player players[2];
    for (int i = 0; i < 2; i++) {
        CHECK(open_scene(&fixtures[i], device, linked, source));
        CHECK_OK(append(&fixtures[i], i ? CAPACITY / 2 : 3 * CAPACITY));
        players[i] = player_of(&fixtures[i], seed + (uint64_t)i, 1, 30);
    }
    for (uint64_t round = 0; round < test_rounds(40) + 2; round++)
        for (int i = 0; i < 2; i++)
            play(&players[i]);
    close_scene(&fixtures[0]); /* its batches live on */
    for (int i = 0; i < 2; i++)
        end(&players[i]);
    close_scene(&fixtures[1]);
    gpur_device_close(device);
}

TEST(batches_of_packed_and_linked_replays_are_what_their_ids_say)
{
    for (int i = 0; i < 2 * SOURCES; i++)
        check_two(i / SOURCES, sources[i % SOURCES], 11 + (uint64_t)i);
}

TEST(threads_that_share_a_replay_have_batches_of_their_own)
{
    static fixture s;
    static player players[THREADS];
    pthread_t threads[THREADS];
    for (int linked = 0; linked < 2; linked++) {
        gpur_device *const device = test_device();
        CHECK(open_scene(&s, device, linked, linked ? GPUR_UNIFORM : GPUR_PRIORITIZED_STRATIFIED));
        CHECK_OK(append(&s, CAPACITY));
        for (int i = 0; i < THREADS; i++) {
            players[i] = player_of(&s, 31 + (uint64_t)i, i == 0, test_rounds(600));
            CHECK(pthread_create(&threads[i], NULL, play, &players[i]) == 0);
        }
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        for (int i = 0; i < THREADS; i++)
            end(&players[i]);
        close_scene(&s);
        gpur_device_close(device);
    }
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(batches_of_packed_and_linked_replays_are_what_their_ids_say);
    RUN(threads_that_share_a_replay_have_batches_of_their_own);
    return test_main_end();
}
