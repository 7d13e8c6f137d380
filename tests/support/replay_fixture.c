/* SPDX-License-Identifier: MIT */
#include "support/replay_fixture.h"

#include "device/device.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

gpur_replay_config replay_fixture_config(const gpur_field *fields, int32_t field_count, int64_t capacity,
                                         int64_t block_rows, int64_t max_batch)
{
    gpur_replay_config config;
    gpur_replay_config_init(&config, sizeof config);
    config.fields = fields;
    config.field_count = field_count;
    config.capacity = capacity;
    config.block_rows = block_rows;
    config.max_batch = max_batch;
    config.check_finite = 0; /* rows are made of random bytes */
    return config;
}

row_tags row_tags_of(gpur_replay *replay, float gamma)
{
    row_tags k = {.gamma = gamma};
    gpur_field_info info = {.size = sizeof info};
    while (k.count < GPUR_MAX_FIELDS && gpur_replay_get_field(replay, k.count, &info) == GPUR_OK)
        k.fields[k.count++] = info;
    int64_t widest = 1;
    for (int32_t f = 0; f < k.count; f++) {
        static const int64_t bytes[] = {0, 4, 2, 1, 4, 8, 1};
        widest = bytes[k.fields[f].dtype] > widest ? bytes[k.fields[f].dtype] : widest;
        k.row_bytes = k.fields[f].offset + k.fields[f].bytes;
    }
    k.row_bytes = (k.row_bytes + widest - 1) / widest * widest;
    return k;
}

/* Byte `at` of a field [a finalizer in the manner of splitmix64]. */
static unsigned char tagged(int64_t tag, int32_t field, int64_t at)
{
    uint64_t x = (uint64_t)tag * 0x9E3779B97F4A7C15ull + (uint64_t)field * 1000003u + (uint64_t)at;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ x >> 27) * 0x94D049BB133111EBull;
    return (unsigned char)(x >> 56);
}

float tagged_priority(int64_t tag)
{
    static const float priorities[] = {0.0f, 0.25f, 1.0f, 2.5f, 7.0f, 0.03125f, NAN, NAN};
    return priorities[tagged(tag, 77, 0) % 8];
}

static int row_is_terminal(const row_tags *k, int64_t tag)
{
    for (int32_t f = 0; f < k->count; f++)
        if (strcmp(k->fields[f].name, "terminated") == 0)
            return tagged(tag, f, 0) & 1;
    return 0;
}

static void fill(const row_tags *k, int32_t field, int64_t tag, unsigned char *value)
{
    const gpur_field_info *const info = &k->fields[field];
    if (strcmp(info->name, "priority") == 0) {
        const float priority = tagged_priority(tag);
        memcpy(value, &priority, sizeof priority);
        return;
    }
    if (strcmp(info->name, "tag") == 0) {
        memcpy(value, &tag, sizeof tag);
        return;
    }
    if (strcmp(info->name, "discount") == 0 && row_is_terminal(k, tag)) {
        memset(value, 0, sizeof(float));
        return;
    }
    for (int64_t i = 0; i < info->bytes; i++)
        value[i] = tagged(tag, field, i);
    const int ends = strcmp(info->name, "terminated") == 0 || strcmp(info->name, "truncated") == 0;
    for (int64_t i = 0; (ends || info->dtype == GPUR_BOOL) && i < info->bytes; i++)
        value[i] &= 1;
}

unsigned char *tagged_rows(const row_tags *k, int64_t first, int64_t count)
{
    unsigned char *const rows = calloc((size_t)(count + 1), (size_t)k->row_bytes);
    for (int64_t i = 0; i < count; i++)
        for (int32_t f = 0; f < k->count; f++)
            fill(k, f, first + i, rows + i * k->row_bytes + k->fields[f].offset);
    return rows;
}

void tagged_arrays(const row_tags *k, int64_t first, int64_t count, void **arrays)
{
    for (int32_t f = 0; f < k->count; f++) {
        unsigned char *const array = malloc((size_t)(k->fields[f].bytes * count + 1));
        for (int64_t i = 0; i < count; i++)
            fill(k, f, first + i, array + i * k->fields[f].bytes);
        arrays[f] = array;
    }
}

gpur_status append_tagged(const row_tags *k, gpur_writer *writer, int64_t first, int64_t count)
{
    int64_t appended = -1;
    unsigned char *const rows = tagged_rows(k, first, count);
    const gpur_status status = gpur_writer_append(writer, count, rows, &appended);
    free(rows);
    return status == GPUR_OK && appended != count ? -100 : status;
}

static void *read_array(gpur_batch *batch, const char *name, int64_t bytes)
{
    void *const array = malloc((size_t)bytes);
    if (gpur_batch_read(batch, name, array, bytes) == GPUR_OK)
        return array;
    free(array);
    return NULL;
}

static int64_t wrong_in_field(const row_tags *k, gpur_batch *batch, int32_t field, const int64_t *tags)
{
    const int64_t count = gpur_batch_count(batch), bytes = k->fields[field].bytes;
    unsigned char *const got = read_array(batch, k->fields[field].name, count * bytes);
    unsigned char *const want = malloc((size_t)bytes);
    int64_t wrong = got ? 0 : -1;
    for (int64_t b = 0; got && b < count; b++) {
        fill(k, field, tags[b], want);
        for (int64_t i = 0; i < bytes; i++)
            wrong += got[b * bytes + i] != want[i];
    }
    free(got);
    free(want);
    return wrong;
}

static int32_t find(const row_tags *k, const char *name)
{
    for (int32_t f = 0; f < k->count; f++)
        if (strcmp(k->fields[f].name, name) == 0)
            return f;
    return -1;
}

/* weight is 1; discount is gamma or 0 by `terminated`, where the schema has none of its own. */
static int64_t wrong_extras(const row_tags *k, gpur_batch *batch, const int64_t *tags)
{
    const int64_t count = gpur_batch_count(batch), bytes = count * (int64_t)sizeof(float);
    const int32_t terminated = find(k, "terminated");
    float *const weight = read_array(batch, "weight", bytes), *const discount = read_array(batch, "discount", bytes);
    int64_t wrong = weight && discount ? 0 : -1;
    for (int64_t b = 0; wrong >= 0 && b < count; b++) {
        unsigned char ends[sizeof(int64_t)] = {0};
        if (terminated >= 0)
            fill(k, terminated, tags[b], ends);
        wrong += weight[b] != 1.0f;
        wrong += find(k, "discount") < 0 && discount[b] != (ends[0] ? 0.0f : k->gamma);
    }
    free(weight);
    free(discount);
    return wrong;
}

int64_t count_wrong_bytes(const row_tags *k, gpur_batch *batch, int64_t *ids)
{
    const int64_t count = gpur_batch_count(batch), bytes = count * (int64_t)sizeof(int64_t);
    int64_t *const id = read_array(batch, "id", bytes);
    int64_t *const tags = read_array(batch, find(k, "tag") >= 0 ? "tag" : "id", bytes);
    int64_t wrong = id && tags ? 0 : -1;
    for (int32_t f = 0; wrong == 0 && f < k->count; f++)
        wrong = wrong_in_field(k, batch, f, tags);
    if (wrong == 0)
        wrong = wrong_extras(k, batch, tags);
    if (ids && id)
        memcpy(ids, id, (size_t)bytes);
    free(id);
    free(tags);
    return wrong;
}

int replay_fixture_open(replay_fixture *s, gpur_device *device, const gpur_replay_config *config, int32_t num_envs)
{
    memset(s, 0, sizeof *s);
    s->device = device;
    if (gpur_replay_create(device, config, &s->replay) != GPUR_OK ||
        gpur_writer_create(s->replay, num_envs, &s->writer) != GPUR_OK)
        return 0;
    s->row_tags = row_tags_of(s->replay, config->gamma);
    return 1;
}

void replay_fixture_close(replay_fixture *s)
{
    gpur_writer_destroy(s->writer);
    gpur_replay_destroy(s->replay);
    gpur_device_close(s->device);
}

gpur_status replay_fixture_append(replay_fixture *s, int64_t count)
{
    const gpur_status status = append_tagged(&s->row_tags, s->writer, s->next, count);
    s->next += count;
    return status;
}

/* Takes the batch over; `ids`: what its ids have to be, or NULL. */
static gpur_status check_batch(const replay_fixture *s, gpur_batch *batch, int64_t *got, const int64_t *ids)
{
    const int64_t count = gpur_batch_count(batch), wrong = count_wrong_bytes(&s->row_tags, batch, got);
    gpur_batch_release(batch);
    return wrong == 0 && (!ids || memcmp(ids, got, (size_t)count * sizeof *ids) == 0) ? GPUR_OK : -100;
}

gpur_status replay_fixture_gather(replay_fixture *s, int64_t count, const int64_t *ids)
{
    int64_t got[64];
    gpur_batch *batch = NULL;
    const gpur_status status = gpur_replay_gather(s->replay, count, ids, NULL, &batch);
    return status == GPUR_OK ? check_batch(s, batch, got, ids) : status;
}

gpur_status replay_fixture_sample(replay_fixture *s, int64_t count, int64_t *ids)
{
    gpur_batch *batch = NULL;
    const gpur_status status = gpur_replay_sample(s->replay, count, NULL, &batch);
    return status == GPUR_OK ? check_batch(s, batch, ids, NULL) : status;
}

gpur_status replay_fixture_append_fields(replay_fixture *s, int64_t count)
{
    void *arrays[GPUR_MAX_FIELDS];
    tagged_arrays(&s->row_tags, s->next, count, arrays);
    s->next += count;
    const gpur_status status = gpur_writer_append_fields(s->writer, count, (const void *const *)arrays, NULL, NULL);
    for (int32_t f = 0; f < s->row_tags.count; f++)
        free(arrays[f]);
    return status;
}

gpur_replay_stats replay_fixture_stats(gpur_replay *replay)
{
    gpur_replay_stats stats = {.size = sizeof stats};
    if (gpur_replay_get_stats(replay, &stats) != GPUR_OK)
        stats.visible = -1;
    return stats;
}

void *upload_to_device(gpur_device *device, const void *host, int64_t bytes)
{
    void *memory = NULL;
    if (gpur_device_alloc(device, bytes, &memory) != GPUR_OK ||
        gpur_device_copy(device, memory, host, bytes) == GPUR_OK)
        return memory;
    gpur_device_free(device, memory);
    return NULL;
}

uint64_t xorshift_next(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 0x2545F4914F6CDD1Dull;
}

int64_t xorshift_below(uint64_t *state, int64_t n)
{
    return (int64_t)((xorshift_next(state) >> 33) % (uint64_t)n);
}

double chi_square_tail(double x, int64_t freedom)
{
    double tail = freedom % 2 ? erfc(sqrt(x / 2)) : exp(-x / 2);
    for (int64_t k = freedom % 2 ? 3 : 4; k <= freedom; k += 2) {
        const double half = (double)k / 2;
        tail += x > 0 ? exp((half - 1) * log(x / 2) - x / 2 - lgamma(half)) : 0;
    }
    return tail;
}

double chi_square_statistic(const int64_t *counts, int64_t cells)
{
    double total = 0, statistic = 0;
    for (int64_t i = 0; i < cells; i++)
        total += (double)counts[i];
    for (int64_t i = 0; i < cells; i++) {
        const double off = (double)counts[i] - total / (double)cells;
        statistic += off * off / (total / (double)cells);
    }
    return statistic;
}

gpur_replay_config replay_fixture_plain_config(int64_t capacity, int64_t block_rows, int64_t max_batch, int32_t flush)
{
    static const gpur_field fields[] = {
        {"a", GPUR_FLOAT32, {5}}, {"terminated", GPUR_BOOL, {0}}, {"b", GPUR_INT64, {0}}};
    gpur_replay_config config = replay_fixture_config(fields, 3, capacity, block_rows, max_batch);
    config.flush = flush;
    return config;
}

int64_t direct_rows(gpur_device *device, const gpur_replay_config *config, int64_t row_bytes)
{
    const int64_t pitch = (row_bytes + 63) / 64 * 64;
    const int auto_copy = config->flush == GPUR_FLUSH_AUTO && config->upload == GPUR_UPLOAD_COPY;
    return auto_copy && gpur_device_get_traits(device)->is_synchronous ? (8192 + pitch - 1) / pitch : 0;
}

/* What has to fit, pinned memory included where it is the device's. */
static int64_t bytes_at(gpur_device *device, gpur_replay_config config, int64_t capacity)
{
    gpur_replay_plan plan = {.size = sizeof plan};
    gpur_device_info info = {.size = sizeof info};
    config.capacity = capacity;
    if (gpur_replay_plan_bytes(&config, &plan) != GPUR_OK || gpur_device_get_info(device, &info) != GPUR_OK)
        return -1;
    return plan.device_bytes + plan.batch_bytes + (info.is_cuda ? 0 : plan.pinned_bytes);
}

int refusal_says_what_fits(gpur_device *device, const gpur_replay_config *config)
{
    long long available = 0, fits = 0;
    gpur_replay *replay = NULL;
    const gpur_status status = gpur_replay_create(device, config, &replay);
    const char *const text = strstr(gpur_last_error(), "and staging; ");
    gpur_replay_destroy(replay);
    if (status != GPUR_OUT_OF_MEMORY || !text ||
        sscanf(text, "and staging; %lld of %*d are free: a capacity of %lld fits", &available, &fits) != 2)
        return 0;
    const int64_t bytes = bytes_at(device, *config, fits);
    return bytes > 0 && bytes <= available && bytes_at(device, *config, fits + fits / 100) > available;
}
