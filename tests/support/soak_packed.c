/* SPDX-License-Identifier: MIT */
/*
 * Finished rows of random content, by three kinds of writers: packed rows in host memory, host arrays, and arrays in
 * memory of the device, which the scatter-update kernel takes in. The last number of obs is a checksum of 24 bits,
 * which float32 holds exactly: a learner's batch has nothing else of the row's own.
 */
#include "support/soak.h"
#include "support/replay_kit.h"

#include <inttypes.h>
#include <string.h>

enum { F = 9, FIELDS = 7, MOST = 2 * SOAK_UPDATE };

/* As gpur_writer_append takes them. */
typedef struct row {
    int64_t tag, check;
    float obs[F];
    int32_t action;
    float reward;
    float next_obs[F];
    uint8_t terminated;
} row;

/* As gpur_writer_append_fields does. */
typedef struct columns {
    int64_t tag[MOST], check[MOST];
    float obs[MOST][F];
    int32_t action[MOST];
    float reward[MOST];
    float next_obs[MOST][F];
    uint8_t terminated[MOST];
} columns;

static const gpur_field fields[FIELDS] = {{"tag", GPUR_INT64, {0}},      {"check", GPUR_INT64, {0}},
                                          {"obs", GPUR_FLOAT32, {F}},    {"action", GPUR_INT32, {0}},
                                          {"reward", GPUR_FLOAT32, {0}}, {"next_obs", GPUR_FLOAT32, {F}},
                                          {"terminated", GPUR_BOOL, {0}}};

static void column_places(const columns *c, const void *places[FIELDS])
{
    const void *const all[FIELDS] = {c->tag, c->check, c->obs, c->action, c->reward, c->next_obs, c->terminated};
    memcpy(places, all, sizeof all);
}

/* Of all that a learner sees of a row, beside the checksum itself. */
static float small_check(const row *r)
{
    uint64_t hash = soak_hash(0, r->obs, (F - 1) * sizeof(float));
    hash = soak_hash(hash, r->next_obs, sizeof r->next_obs);
    hash = soak_hash(hash, &r->action, sizeof r->action);
    hash = soak_hash(hash, &r->reward, sizeof r->reward);
    hash = soak_hash(hash, &r->terminated, 1);
    return (float)(hash >> 40) * 0x1p-24f;
}

static int64_t large_check(const row *r)
{
    const uint64_t hash = soak_hash((uint64_t)r->tag, r->obs, sizeof r->obs);
    const float small = small_check(r);
    return (int64_t)soak_hash(hash, &small, sizeof small);
}

static float any_number(uint64_t *random)
{
    return (float)kit_below(random, 1 << 16) * 0x1p-16f - 0.5f;
}

static row any_row(uint64_t *random, int64_t tag)
{
    row r;
    memset(&r, 0, sizeof r);
    for (int f = 0; f < F; f++)
        r.obs[f] = any_number(random), r.next_obs[f] = any_number(random);
    r.tag = tag, r.action = (int32_t)kit_below(random, SOAK_ACTIONS), r.reward = any_number(random);
    r.terminated = kit_below(random, 3) == 0;
    r.obs[F - 1] = small_check(&r);
    r.check = large_check(&r);
    return r;
}

static void fill_columns(columns *c, int64_t count, uint64_t *random, int64_t *tag)
{
    for (int64_t i = 0; i < count; i++) {
        const row r = any_row(random, (*tag)++);
        c->tag[i] = r.tag, c->check[i] = r.check, c->action[i] = r.action, c->reward[i] = r.reward;
        c->terminated[i] = r.terminated;
        memcpy(c->obs[i], r.obs, sizeof r.obs);
        memcpy(c->next_obs[i], r.next_obs, sizeof r.next_obs);
    }
}

/* One of the writers. */
typedef struct hand {
    gpur_writer *writer;
    uint64_t random;
    int64_t tag; /* of the next row */
    gpur_stream *stream;
    columns *host, *device; /* pinned, and memory of the device; NULL where finished rows are given */
} hand;

static gpur_status give_rows(hand *h, int64_t count)
{
    row rows[MOST];
    for (int64_t i = 0; i < count; i++)
        rows[i] = any_row(&h->random, h->tag++);
    return gpur_writer_append(h->writer, count, rows, NULL);
}

static gpur_status give_host_arrays(hand *h, int64_t count)
{
    columns c;
    const void *places[FIELDS];
    fill_columns(&c, count, &h->random, &h->tag);
    column_places(&c, places);
    return gpur_writer_append_fields(h->writer, count, places, NULL, NULL);
}

/* On CUDA nobody waits for the copy down here: the append is ordered behind it by the stream. The CPU has no stream to
 * name. */
static gpur_status give_device_arrays(hand *h, int64_t count)
{
    void *const native = gpur_stream_native(h->stream);
    const void *places[FIELDS];
    GPUR_TRY(gpur_stream_sync(h->stream)); /* what was there has been read */
    fill_columns(h->host, count, &h->random, &h->tag);
    GPUR_TRY(gpur_copy(h->stream, h->device, h->host, sizeof *h->host));
    if (!native)
        GPUR_TRY(gpur_stream_sync(h->stream));
    column_places(h->device, places);
    return gpur_writer_append_fields(h->writer, count, places, native, NULL);
}

static gpur_status open_hand(soak *s, hand *h, int number)
{
    memset(h, 0, sizeof *h);
    h->random = (uint64_t)number * 7919 + 1;
    h->tag = (int64_t)number << 40;
    GPUR_TRY(gpur_writer_create(s->replay, 1, &h->writer));
    GPUR_TRY(gpur_stream_create(s->device, &h->stream));
    GPUR_TRY(gpur_pinned_alloc(s->device, sizeof *h->host, "the soak", (void **)&h->host));
    return gpur_memory_alloc(s->device, sizeof *h->device, "the soak", (void **)&h->device);
}

static void close_hand(soak *s, hand *h)
{
    gpur_stream_destroy(h->stream);
    gpur_pinned_free(s->device, h->host);
    gpur_memory_free(s->device, h->device);
    gpur_writer_destroy(h->writer);
}

static void write_until_over(soak *s, int number)
{
    static gpur_status (*const ways[])(hand * h, int64_t count) = {give_rows, give_device_arrays, give_host_arrays};
    hand h;
    int good = soak_ok(s, open_hand(s, &h, number), "making a writer");
    while (good && !atomic_load(&s->over)) {
        const int64_t count = 1 + kit_below(&h.random, MOST);
        good = soak_ok(s, ways[number % 3](&h, count), "an append");
        if (good)
            atomic_fetch_add(&s->counts.given, count);
        if (good && kit_below(&h.random, 40) == 0)
            good = soak_ok(s, gpur_writer_flush(h.writer), "gpur_writer_flush");
    }
    close_hand(s, &h);
}

static void check_row(soak *s, const row *r, float discount, const char *where)
{
    if (r->obs[F - 1] != small_check(r))
        soak_fail(s, "a torn row %s: its checksum is %.9g; its content has %.9g", where, (double)r->obs[F - 1],
                  (double)small_check(r));
    if (discount != (r->terminated ? 0.0f : s->gamma))
        soak_fail(s, "a row %s that %s has discount %.9g", where, r->terminated ? "terminated" : "goes on",
                  (double)discount);
}

static gpur_status read_columns(gpur_batch *batch, columns *c, float *discount)
{
    const int64_t n = gpur_batch_count(batch);
    GPUR_TRY(gpur_batch_read(batch, "tag", c->tag, n * 8));
    GPUR_TRY(gpur_batch_read(batch, "check", c->check, n * 8));
    GPUR_TRY(gpur_batch_read(batch, "obs", c->obs, n * F * 4));
    GPUR_TRY(gpur_batch_read(batch, "action", c->action, n * 4));
    GPUR_TRY(gpur_batch_read(batch, "reward", c->reward, n * 4));
    GPUR_TRY(gpur_batch_read(batch, "next_obs", c->next_obs, n * F * 4));
    GPUR_TRY(gpur_batch_read(batch, "terminated", c->terminated, n));
    return gpur_batch_read(batch, "discount", discount, n * 4);
}

static void check(soak *s, gpur_batch *batch)
{
    columns c;
    float discount[SOAK_BATCH];
    if (!soak_ok(s, read_columns(batch, &c, discount), "reading a batch"))
        return;
    for (int64_t b = 0; b < gpur_batch_count(batch); b++) {
        row r = {.tag = c.tag[b], .action = c.action[b], .reward = c.reward[b], .terminated = c.terminated[b]};
        memcpy(r.obs, c.obs[b], sizeof r.obs);
        memcpy(r.next_obs, c.next_obs[b], sizeof r.next_obs);
        check_row(s, &r, discount[b], "of a batch");
        if (c.check[b] != large_check(&r))
            soak_fail(s, "a torn row with tag %" PRIx64 ": its checksum is %" PRIx64 "; its content has %" PRIx64,
                      (uint64_t)r.tag, (uint64_t)c.check[b], (uint64_t)large_check(&r));
    }
}

typedef struct trained {
    float x[2 * SOAK_BATCH * 16], reward[SOAK_BATCH], discount[SOAK_BATCH];
    int32_t action[SOAK_BATCH];
} trained;

static gpur_status read_trained(soak *s, trained *t)
{
    const gpur_step *const step = &s->learner->step;
    const int64_t bytes = 2 * SOAK_BATCH * step->online.pitch[0] * (int64_t)sizeof(float);
    GPUR_REQUIRE(bytes <= (int64_t)sizeof t->x, "%" PRId64 " bytes of a train step; the soak has room for %zu", bytes,
                 sizeof t->x);
    GPUR_TRY(gpur_device_copy(s->device, t->x, step->x, bytes));
    GPUR_TRY(gpur_device_copy(s->device, t->action, step->action, sizeof t->action));
    GPUR_TRY(gpur_device_copy(s->device, t->reward, step->reward, sizeof t->reward));
    return gpur_device_copy(s->device, t->discount, step->discount, sizeof t->discount);
}

static void check_trained(soak *s)
{
    trained t;
    const int64_t pitch = s->learner->step.online.pitch[0];
    if (!soak_ok(s, read_trained(s, &t), "reading what a step was made of"))
        return;
    for (int64_t b = 0; b < SOAK_BATCH; b++) {
        row r = {.action = t.action[b], .reward = t.reward[b], .terminated = t.discount[b] == 0.0f};
        memcpy(r.obs, t.x + b * pitch, sizeof r.obs);
        memcpy(r.next_obs, t.x + (SOAK_BATCH + b) * pitch, sizeof r.next_obs);
        check_row(s, &r, t.discount[b], "of a train step");
    }
}

static gpur_status configure(soak *s, gpur_replay_config *replay, gpur_learner_config *learner)
{
    (void)s, (void)learner;
    replay->fields = fields;
    replay->field_count = FIELDS;
    return GPUR_OK;
}

const soak_kind soak_packed = {configure, write_until_over, check, check_trained};
