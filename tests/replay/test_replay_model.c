/* SPDX-License-Identifier: MIT */
/*
 * Random schedules of everything that a replay does, beside references that are written by definition: which rows are
 * visible (reference_replay), what writers make of episodes (reference_history), and priorities with their samples and
 * weights (priority_model, reference_priority). Each seed is one of three kinds of schedule:
 *
 *   ROWS      finished rows of several schemas, by several writers and every kind of append
 *   EPISODES  steps by several writers, finished rows between them, and saving and loading
 *   FRAMES    the same steps in a replay of the rows layout and two of the frames layout, given stacks and frames
 *
 * In all of them n_step, gamma, clipping, stacks, autoreset, upload, flush, when_full, sizes, sampling and priorities
 * are random. Rows, ids, counts and samples are compared after every operation.
 */
#include "base/status.h"
#include "reference/reference_priority.h"
#include "reference/reference_replay.h"
#include "support/episode_fixture.h"
#include "support/priority_model.h"
#include "test.h"

enum { ROWS, EPISODES, FRAMES, KINDS };
enum { APPENDERS = 3, SCHEMAS = 5, SCHEMA_FIELDS = 6, MAX_BATCH = 64 };

/* Of each kind: of 34 rounds, and operations in a round. */
static const struct {
    const char *name;
    int rounds, operations;
} kinds[KINDS] = {{"rows", 10, 500}, {"episodes", 15, 250}, {"frames", 9, 300}};
enum { ROUNDS = 3400 };

typedef struct model {
    int kind;
    layouts_fixture fixture;         /* of ROWS: the device and replay 0 alone */
    gpur_writer *writers[APPENDERS]; /* of finished rows, into replay 0 */
    row_tags row_tags;               /* of replay 0 */
    reference_replay window;         /* of replay 0 */
    priority_model priorities;       /* of replay 0 */
    int64_t samples;
} model;

static const gpur_field floats[] = {{"obs", GPUR_FLOAT32, {27}},    {"action", GPUR_INT32, {0}},
                                    {"reward", GPUR_FLOAT32, {0}},  {"next_obs", GPUR_FLOAT32, {27}},
                                    {"terminated", GPUR_BOOL, {0}}, {"truncated", GPUR_UINT8, {0}}};
static const gpur_field mixed[] = {{"terminated", GPUR_UINT8, {1}}, {"a", GPUR_UINT8, {3}}, {"b", GPUR_FLOAT16, {5, 2}},
                                   {"c", GPUR_INT64, {0}},          {"d", GPUR_UINT8, {7}}, {"e", GPUR_BOOL, {2}}};
static const gpur_field aligned[] = {{"obs", GPUR_UINT8, {64}}, {"next_obs", GPUR_UINT8, {4, 4, 4}},
                                     {"x", GPUR_FLOAT32, {4}},  {"y", GPUR_INT64, {2}},
                                     {"z", GPUR_FLOAT32, {28}}, {"w", GPUR_UINT8, {16}}};
static const gpur_field large[] = {{"discount", GPUR_FLOAT32, {0}}, {"one", GPUR_UINT8, {0}},
                                   {"two", GPUR_FLOAT16, {0}},      {"eight", GPUR_INT64, {0}},
                                   {"large", GPUR_UINT8, {601}},    {"last", GPUR_BOOL, {0}}};
static const gpur_field with_priority[] = {{"priority", GPUR_FLOAT32, {0}}, {"a", GPUR_UINT8, {3}},
                                           {"b", GPUR_FLOAT32, {5}},        {"terminated", GPUR_BOOL, {0}},
                                           {"c", GPUR_INT64, {0}},          {"d", GPUR_FLOAT32, {0}}};
static const gpur_field *const schemas[SCHEMAS] = {floats, mixed, aligned, large, with_priority};

static int failed(void)
{
    return atomic_load(&test_state.failures) > 0;
}

/* Of a replay of frames and one of rows as many rows stay visible only up to what frames have room for. */
static int64_t max_batch_of(const layouts_setting *s)
{
    const int32_t stack = s->shape.stack, frames = stack < s->n_step ? 2 * stack : stack + s->n_step;
    const int64_t half = s->capacity / 2 / frames, most = s->rows_only ? s->capacity : half > 1 ? half : 1;
    return s->index_source == GPUR_UNIFORM_DISTINCT ? s->capacity - s->block_rows : most;
}

static layouts_setting setting_of(int kind, uint64_t seed, uint64_t *random)
{
    const int rows_only = kind == EPISODES;
    layouts_setting s = {
        .shape = {1 + (int32_t)xorshift_below(random, rows_only ? 2 : 5), (int32_t)xorshift_below(random, 2)},
        .writers = 1 + (int32_t)xorshift_below(random, LAYOUTS_WRITERS),
        .envs = seed % 3 ? 1 + (int32_t)xorshift_below(random, PLAYER_ENVS) : 1,
        .more_envs = (int32_t)xorshift_below(random, 4),
        .autoreset = (int32_t)xorshift_below(random, 3),
        .ends_in = 1 + (int32_t)xorshift_below(random, seed % 4 ? 12 : 200),
        .repeats = rows_only ? 0 : (int32_t)xorshift_below(random, 2),
        .capacity = 4 + xorshift_below(random, seed % 5 ? 60 : 400),
        .n_step = seed % 2 ? 1 : 1 + (int32_t)xorshift_below(random, rows_only && seed % 3 ? 64 : 6),
        .flush = (int32_t)xorshift_below(random, 2),
        .staging_blocks = 2 + (int32_t)xorshift_below(random, 3),
        .index_source = GPUR_UNIFORM + (int32_t)xorshift_below(random, 2),
        .rows_only = rows_only,
        .feed = rows_only ? (int32_t)xorshift_below(random, 2) : GPUR_UPLOAD_COPY,
        .gamma = xorshift_below(random, 5) ? 0.97f : 1.0f,
        .is_unclipped = (int32_t)xorshift_below(random, 2),
        .seed = seed,
    };
    s.block_rows = 1 + xorshift_below(random, s.capacity / 2);
    s.max_batch = 1 + xorshift_below(random, max_batch_of(&s) < 32 ? max_batch_of(&s) : 32);
    s.extra_frames = xorshift_below(random, 4) ? 1 + xorshift_below(random, s.capacity) : 0;
    if (rows_only && PLAYER_ENVS * s.n_step <= (s.staging_blocks - 1) * s.block_rows)
        s.when_full = xorshift_below(random, 2) ? GPUR_WHEN_FULL_ERROR : GPUR_WHEN_FULL_WAIT;
    return s;
}

/* With exponents 0 and 1 nothing is rounded. */
static void set_priorities(layouts_setting *s, uint64_t seed, uint64_t *random)
{
    s->prioritized = seed % 3 != 0;
    if (!s->prioritized)
        return;
    s->index_source = xorshift_below(random, 2) ? GPUR_PRIORITIZED_STRATIFIED : GPUR_PRIORITIZED_INDEPENDENT;
    s->weight_norm = (int32_t)xorshift_below(random, 3);
    s->alpha = 1.0f;
    s->priority_offset = xorshift_below(random, 2) ? 0.0625f : 0.0f;
}

/* Beta 0 makes all weights 1, which count_wrong_bytes checks. */
static gpur_status open_rows(model *m, uint64_t seed)
{
    layouts_fixture *const w = &m->fixture;
    layouts_setting *const s = &w->setting;
    w->random = seed * 0x9E3779B97F4A7C15ull + 1;
    s->capacity = 4 + xorshift_below(&w->random, 60), s->block_rows = 1 + xorshift_below(&w->random, s->capacity / 2);
    s->max_batch = 1 + xorshift_below(&w->random, s->capacity);
    set_priorities(s, seed, &w->random);
    w->device = test_device();
    w->replay_count = 1;
    w->config = replay_fixture_config(schemas[seed % SCHEMAS], SCHEMA_FIELDS, s->capacity, s->block_rows, s->max_batch);
    w->config.upload = s->feed = (int32_t)xorshift_below(&w->random, 2);
    w->config.flush = s->flush = (int32_t)xorshift_below(&w->random, 2);
    w->config.when_full = s->when_full = (int32_t)xorshift_below(&w->random, 2);
    w->config.staging_blocks = s->staging_blocks = 2 + (int32_t)xorshift_below(&w->random, 3);
    w->config.seed = s->seed = seed;
    w->config.prioritized = s->prioritized, w->config.index_source = s->index_source;
    if (s->prioritized) {
        w->config.alpha = s->alpha, w->config.priority_offset = s->priority_offset;
        w->config.weight_norm = s->weight_norm;
        w->config.first_priority = (int32_t)(seed / 4 % 2);
        w->config.beta.first = w->config.beta.last = 0.0f;
    }
    return gpur_replay_create(w->device, &w->config, &w->replays[0]);
}

static gpur_status open_appenders(model *m)
{
    for (int i = 0; i < APPENDERS && m->kind != FRAMES; i++)
        GPUR_TRY(gpur_writer_create(m->fixture.replays[0], 1, &m->writers[i]));
    return GPUR_OK;
}

static void close_appenders(model *m)
{
    for (int i = 0; i < APPENDERS; i++)
        gpur_writer_destroy(m->writers[i]);
    memset(m->writers, 0, sizeof m->writers);
}

static int begin(model *m, int kind, uint64_t seed)
{
    layouts_fixture *const w = &m->fixture;
    const layouts_setting *const s = &w->setting;
    uint64_t random = seed * 77777 + 1;
    memset(m, 0, sizeof *m);
    m->kind = kind;
    if (kind == ROWS) {
        if (open_rows(m, seed) != GPUR_OK)
            return 0;
    } else {
        layouts_setting setting = setting_of(kind, seed, &random);
        if (kind == EPISODES)
            set_priorities(&setting, seed, &random);
        if (!layouts_fixture_open(w, test_device(), &setting, seed))
            return 0;
    }
    /* One operation adds a step or a reset of all environments, or the largest append. */
    reference_begin(&m->window, &w->config,
                    kinds[kind].operations * (s->capacity + 2 * s->block_rows + PLAYER_ENVS) + PLAYER_ENVS * 64);
    m->row_tags = row_tags_of(w->replays[0], w->config.gamma);
    m->window.straight = direct_rows(w->device, &w->config, m->row_tags.row_bytes);
    priority_model_begin(&m->priorities, &m->window, &w->config, kind == ROWS && seed % SCHEMAS == SCHEMAS - 1);
    return open_appenders(m) == GPUR_OK;
}

static void launch(model *m)
{
    reference_launch(&m->window);
    priority_model_insert_new(&m->priorities);
}

/* What calls about priorities see. */
static void refresh(model *m)
{
    reference_refresh(&m->window);
    priority_model_insert_new(&m->priorities);
}

/* Rows that belong to no episode, as the history has them. Flags other than 0 are stored as 1, rewards are clipped. */
static void random_row(model *m, const void **to, int64_t i)
{
    layouts_fixture *const w = &m->fixture;
    uint64_t *const random = &w->random;
    const stack_shape shape = w->setting.shape;
    const int64_t obs = shape.stack * PLAYER_FRAME;
    const float reward = (float)xorshift_below(random, 2001) / 500.0f - 2.0f;
    const uint8_t flags[] = {(uint8_t)xorshift_below(random, 4), (uint8_t)(xorshift_below(random, 3) * 100)};
    history_row row = {.env = -1, .previous = xorshift_below(random, 1000), .extra = (int64_t)xorshift_next(random)};
    const float discount = flags[0] ? 0.0f : (float)xorshift_below(random, 100) / 64.0f;
    for (int32_t j = 0; j < shape.stack; j++)
        row.obs[j] = w->next_frame++, row.next_obs[j] = w->next_frame++;
    row.action = (int32_t)xorshift_below(random, 1000);
    row.terminated = flags[0] != 0, row.truncated = flags[1] != 0;
    row.reward = history_clipped(&w->players[0].history, reward), row.discount = (double)discount;
    history_add(&w->all, &row);
    unsigned char *const *const at = (unsigned char *const *)to;
    player_stack(at[0] + i * obs, shape, row.obs);
    memcpy(at[1] + i * 4, &row.action, 4);
    memcpy(at[2] + i * 4, &reward, 4);
    player_stack(at[3] + i * obs, shape, row.next_obs);
    at[4][i] = flags[0], at[5][i] = flags[1];
    memcpy(at[6] + i * 4, &discount, 4);
    memcpy(at[7] + i * 8, &row.previous, 8);
    memcpy(at[8] + i * 8, &row.extra, 8);
}

/* New rows as one malloc'ed array a field. */
static void make_rows(model *m, int64_t count, void **arrays)
{
    if (m->kind == ROWS) {
        tagged_arrays(&m->row_tags, m->window.count, count, arrays);
        return;
    }
    for (int32_t f = 0; f < m->row_tags.count; f++)
        arrays[f] = malloc((size_t)(m->row_tags.fields[f].bytes * count + 1));
    for (int64_t i = 0; i < count; i++)
        random_row(m, (const void **)arrays, i);
}

static gpur_status append_packed(const model *m, gpur_writer *writer, int64_t count, void *const *arrays)
{
    unsigned char *const rows = calloc((size_t)count + 1, (size_t)m->row_tags.row_bytes);
    gpur_status status = GPUR_WOULD_BLOCK;
    for (int32_t f = 0; f < m->row_tags.count; f++)
        for (int64_t i = 0; i < count; i++)
            memcpy(rows + i * m->row_tags.row_bytes + m->row_tags.fields[f].offset,
                   (unsigned char *)arrays[f] + i * m->row_tags.fields[f].bytes, (size_t)m->row_tags.fields[f].bytes);
    for (int64_t done = 0, taken = 0; status == GPUR_WOULD_BLOCK; done += taken)
        status = gpur_writer_append(writer, count - done, rows + done * m->row_tags.row_bytes, &taken);
    free(rows);
    return status;
}

/* By host arrays, from which the call takes any number of rows or, without waiting, all or none. */
static gpur_status append_columns(const model *m, gpur_writer *writer, int64_t count, void *const *arrays, int waits)
{
    gpur_status status = GPUR_WOULD_BLOCK;
    for (int64_t done = 0, taken = 0; status == GPUR_WOULD_BLOCK; done += taken) {
        const void *at[GPUR_MAX_FIELDS];
        for (int32_t f = 0; f < m->row_tags.count; f++)
            at[f] = (unsigned char *)arrays[f] + done * m->row_tags.fields[f].bytes;
        status = waits ? gpur_writer_append_fields(writer, count - done, at, NULL, &taken)
                       : gpur_writer_try_append_fields(writer, count, at);
    }
    return status;
}

static gpur_status append_device(const model *m, gpur_writer *writer, int64_t count, void *const *arrays)
{
    void *device[GPUR_MAX_FIELDS];
    for (int32_t f = 0; f < m->row_tags.count; f++)
        device[f] = upload_to_device(m->fixture.device, arrays[f], count * m->row_tags.fields[f].bytes);
    const gpur_status status = append_columns(m, writer, count, device, 1);
    for (int32_t f = 0; f < m->row_tags.count; f++)
        gpur_device_free(m->fixture.device, device[f]);
    return status;
}

enum { PACKED_ROWS, ARRAYS, ARRAYS_AT_ONCE, DEVICE_ARRAYS, APPENDS };

/* On the CPU arrays count as device arrays where the upload is by scatter, except where the call must not wait. Packed
 * rows cannot be clipped without staging. */
static void expect_rows(model *m, int append, int64_t count)
{
    const int scatter = m->fixture.config.upload == GPUR_UPLOAD_SCATTER;
    const int as_device_arrays =
        test_on_cuda() ? append == DEVICE_ARRAYS : scatter && (append == DEVICE_ARRAYS || append == ARRAYS);
    if (count == 0)
        return;
    if (as_device_arrays)
        reference_append_arrays(&m->window, count);
    else if (append == PACKED_ROWS && m->fixture.config.reward_clip > 0)
        reference_stage(&m->window, count);
    else
        reference_append(&m->window, count);
}

static void append(model *m)
{
    layouts_fixture *const w = &m->fixture;
    void *arrays[GPUR_MAX_FIELDS];
    gpur_writer *const writer = m->writers[xorshift_below(&w->random, APPENDERS)];
    const int kind = xorshift_below(&w->random, 2) ? PACKED_ROWS : (int)xorshift_below(&w->random, APPENDS);
    const int64_t at_once = (w->setting.staging_blocks - 1) * w->setting.block_rows;
    const int64_t max_count = xorshift_below(&w->random, 4) ? 3 : w->config.capacity + w->config.block_rows;
    int64_t count = xorshift_below(&w->random, max_count + 1);
    count = kind == DEVICE_ARRAYS && count == 0 ? 1 : kind == ARRAYS_AT_ONCE && count > at_once ? at_once : count;
    make_rows(m, count, arrays);
    const gpur_status status = kind == PACKED_ROWS     ? append_packed(m, writer, count, arrays)
                               : kind == DEVICE_ARRAYS ? append_device(m, writer, count, arrays)
                                                       : append_columns(m, writer, count, arrays, kind == ARRAYS);
    for (int32_t f = 0; f < m->row_tags.count; f++)
        free(arrays[f]);
    CHECK_OK(status);
    expect_rows(m, kind, count);
}

/* A step of a writer's environments, or the reset of one of them; each adds rows to the history. */
static void step(model *m, int resets)
{
    layouts_fixture *const w = &m->fixture;
    player *const p = &w->players[xorshift_below(&w->random, w->setting.writers)];
    const int64_t before = w->all.count;
    CHECK_OK(resets ? player_reset(p, (int32_t)xorshift_below(&w->random, p->history.num_envs)) : player_step(p));
    reference_stage(&m->window, w->all.count - before);
}

static void flush(model *m)
{
    layouts_fixture *const w = &m->fixture;
    const player *const p =
        &w->players[xorshift_below(&w->random, LAYOUTS_WRITERS) % (w->setting.writers ? w->setting.writers : 1)];
    if (m->kind == ROWS)
        CHECK_OK(gpur_writer_flush(m->writers[xorshift_below(&w->random, APPENDERS)]));
    else
        for (int r = 0; r < w->replay_count; r++)
            CHECK_OK(gpur_writer_flush(p->writers[r]));
    reference_flush(&m->window);
}

/* Ids and weights of the sample that comes next, (count). */
static void expect_sample(model *m, int64_t count, int64_t *ids, double *weights)
{
    const layouts_setting *const s = &m->fixture.setting;
    const gpur_replay_config *const c = &m->fixture.config;
    const int64_t first = reference_first(&m->window, ROW_VISIBLE);
    const int64_t visible = reference_count(&m->window, ROW_VISIBLE);
    double slots[512], leaves[512];
    int64_t rows[MAX_BATCH];
    for (int64_t b = 0; b < count && !s->prioritized; b++) /* distinct ones are sampled by a permutation */
        ids[b] = reference_sample(&m->window, c->seed, (uint64_t)m->samples, b), weights[b] = 1;
    if (!s->prioritized)
        return;
    CHECK(priority_model_read_octave(&m->priorities, m->fixture.replays[0]));
    priority_model_sample(&m->priorities, c->seed, (uint64_t)m->samples, count,
                          s->index_source == GPUR_PRIORITIZED_STRATIFIED, ids);
    priority_model_leaves(&m->priorities, slots);
    for (int64_t i = 0; i < visible; i++)
        leaves[i] = slots[(first + i) % c->capacity];
    for (int64_t b = 0; b < count; b++)
        rows[b] = ids[b] - first;
    reference_weights(leaves, visible, rows, count, (double)c->beta.first, c->weight_norm, weights);
}

/* From replay 0 of ROWS; layouts_fixture_samples_differ does the same for episodes. */
static int64_t sample_rows(model *m, int64_t count)
{
    layouts_fixture *const w = &m->fixture;
    gpur_batch *batch = NULL;
    int64_t wrong = 0;
    w->drawn = 0;
    const gpur_status status = gpur_replay_sample(w->replays[0], count, NULL, &batch);
    if (status != GPUR_OK)
        return status != GPUR_TOO_FEW;
    w->drawn = count;
    wrong = count_wrong_bytes(&m->row_tags, batch, w->ids);
    for (int64_t b = 0; b < count; b++)
        w->weights[b] = 1; /* or count_wrong_bytes is not 0 */
    gpur_batch_release(batch);
    return wrong;
}

/* The largest batch that the fixture has room for. */
static int64_t max_batch(const model *m)
{
    return m->fixture.config.max_batch < LAYOUTS_MAX_BATCH ? m->fixture.config.max_batch : LAYOUTS_MAX_BATCH;
}

static void sample(model *m)
{
    layouts_fixture *const w = &m->fixture;
    const int64_t count = 1 + xorshift_below(&w->random, max_batch(m)), size = reference_size(&m->window);
    int64_t ids[MAX_BATCH];
    double weights[MAX_BATCH];
    CHECK_EQUAL(m->kind == ROWS ? sample_rows(m, count) : layouts_fixture_samples_differ(w, count), 0);
    const int distinct = w->config.index_source == GPUR_UNIFORM_DISTINCT;
    CHECK_EQUAL(w->drawn, size >= (distinct ? count : 1) ? count : 0);
    if (w->drawn == 0)
        return;
    launch(m);
    expect_sample(m, count, ids, weights);
    m->samples++;
    for (int64_t b = 0; b < count; b++) {
        CHECK(m->window.rows[w->ids[b]] == ROW_VISIBLE);
        for (int64_t a = 0; distinct && a < b; a++)
            CHECK(w->ids[a] != w->ids[b]);
        if (!distinct)
            CHECK_EQUAL(w->ids[b], ids[b]);
        CHECK_NEAR(w->weights[b], weights[b], 1e-5);
    }
}

/* The newest id that a sample taken now would see, or -1. */
static int64_t last_visible(const model *m)
{
    int64_t last = m->window.count - 1;
    while (m->window.flush == GPUR_FLUSH_MANUAL && last >= 0 && m->window.rows[last] < ROW_PUBLISH_NEXT)
        last--;
    return last;
}

/* Ids around the visible ones: all good, or one beyond an end. */
static void gather(model *m)
{
    layouts_fixture *const w = &m->fixture;
    gpur_batch *batch = NULL;
    int64_t ids[MAX_BATCH], got[MAX_BATCH];
    const int64_t size = reference_size(&m->window), count = 1 + xorshift_below(&w->random, max_batch(m));
    const int64_t last = last_visible(m), first = last - size + 1, slip = xorshift_below(&w->random, 8) == 0;
    for (int64_t b = 0; b < count; b++)
        ids[b] = first + xorshift_below(&w->random, size > 0 ? size : 1);
    if (slip)
        ids[count - 1] = xorshift_below(&w->random, 2) ? first - 1 : last + 1;
    const gpur_status status = gpur_replay_gather(w->replays[0], count, ids, NULL, &batch);
    const int is_gone = slip && ids[count - 1] >= 0 && ids[count - 1] < first;
    CHECK_STATUS(status, size == 0 ? GPUR_TOO_FEW : is_gone ? GPUR_EVICTED : slip ? GPUR_INVALID_ARGUMENT : GPUR_OK);
    if (status != GPUR_OK)
        return;
    launch(m);
    CHECK_OK(gpur_batch_read(batch, "id", got, count * (int64_t)sizeof *got));
    CHECK_EQUAL(m->kind == ROWS ? count_wrong_bytes(&m->row_tags, batch, NULL)
                                : player_wrong(batch, w->setting.shape, &w->all),
                0);
    gpur_batch_release(batch);
    CHECK(memcmp(ids, got, (size_t)count * sizeof *ids) == 0);
}

/* Every row of every replay, by as many gathers as it takes; and what each writer says of its environments. */
static void compare_all(model *m)
{
    layouts_fixture *const w = &m->fixture;
    const int64_t size = reference_size(&m->window);
    CHECK_EQUAL(layouts_fixture_wrong(w, w->setting.max_batch), 0);
    for (int64_t done = 0; done < size; done += max_batch(m))
        launch(m);
    for (int i = 0; i < w->setting.writers && w->players[i].writers[0]; i++)
        for (int r = 0; r < w->replay_count; r++)
            CHECK_EQUAL(player_wrong_states(&w->players[i], r), 0);
}

/* Ids of visible rows and of some before them, many of them twice. */
static void update(model *m)
{
    layouts_fixture *const w = &m->fixture;
    int64_t ids[MAX_BATCH];
    float priorities[MAX_BATCH];
    const int64_t count = 1 + xorshift_below(&w->random, w->config.max_batch), last = last_visible(m);
    if (last < 0)
        return;
    for (int64_t i = 0; i < count; i++) {
        ids[i] = last - xorshift_below(&w->random, last < w->config.capacity + 3 ? last + 1 : w->config.capacity + 3);
        priorities[i] = tagged_priority(xorshift_below(&w->random, 1 << 20));
        if (isnan(priorities[i]))
            priorities[i] = 4096.0f;
    }
    refresh(m);
    CHECK_OK(gpur_replay_update_priorities(w->replays[0], count, ids, priorities, NULL));
    priority_model_update(&m->priorities, count, ids, priorities);
}

static void change_alpha(model *m)
{
    refresh(m);
    m->priorities.alpha = 1.0f - m->priorities.alpha;
    CHECK_OK(gpur_replay_set_alpha(m->fixture.replays[0], m->priorities.alpha));
}

/* Reading priorities publishes under GPUR_FLUSH_AUTO, and rows that have been staged for a while must occur, too. */
static void compare_priorities(model *m)
{
    if (m->window.flush == GPUR_FLUSH_AUTO && xorshift_below(&m->fixture.random, 4) > 0)
        return;
    refresh(m);
    const char *const differs = priority_model_differs(&m->priorities, m->fixture.replays[0]);
    TEST_REQUIRE(!differs, "%s", differs);
}

static void compare(model *m)
{
    gpur_replay_stats stats = {.size = sizeof stats};
    CHECK_OK(gpur_replay_get_stats(m->fixture.replays[0], &stats));
    CHECK_EQUAL(gpur_replay_size(m->fixture.replays[0]), reference_size(&m->window));
    CHECK_EQUAL(stats.visible, reference_size(&m->window));
    CHECK_EQUAL(stats.evicted, reference_count(&m->window, ROW_GONE));
    CHECK_EQUAL(stats.published, reference_count(&m->window, ROW_VISIBLE) + stats.evicted);
    CHECK_EQUAL(stats.appended, m->window.count);
    CHECK_EQUAL(stats.first_id, last_visible(m) + 1 - stats.visible);
    CHECK_EQUAL(stats.batches_alive, 0);
    if (m->fixture.config.prioritized)
        compare_priorities(m);
}

/* Everything that was appended is published by the save, and visible after the load. */
static void reload(model *m)
{
#ifdef GPUR_HAS_FILES
    close_appenders(m);
    CHECK_OK(layouts_fixture_reload(&m->fixture));
    CHECK_OK(open_appenders(m));
    reference_load(&m->window);
    priority_model_insert_new(&m->priorities);
    compare_all(m);
#else
    (void)m;
#endif
}

/* All replays of the fixture have the same rows, and those with fewer visible ones keep them. */
static void trim(model *m)
{
    layouts_fixture *const w = &m->fixture;
    const int64_t keep = xorshift_below(&w->random, w->config.capacity + 1);
    for (int r = 0; r < w->replay_count; r++)
        CHECK_OK(gpur_replay_trim(w->replays[r], keep));
    refresh(m);
    reference_trim(&m->window, keep);
}

static void operate_on_rows(model *m, int64_t dice)
{
    if (dice < 52)
        append(m);
    else if (dice < 57)
        flush(m);
    else
        (dice < 85 ? sample : gather)(m);
}

static void operate_on_episodes(model *m, int64_t dice)
{
    const int appends = m->kind == EPISODES;
    if (dice < 80)
        step(m, dice < 3);
    else if (dice < 86)
        flush(m);
    else if (dice < 88)
        compare_all(m);
    else if (dice < (appends ? 93 : 98))
        sample(m);
    else
        (appends && dice < 98 ? append : gather)(m);
}

static void operate(model *m)
{
    uint64_t *const random = &m->fixture.random;
    const int64_t dice = xorshift_below(random, 100);
    if (m->fixture.config.prioritized && xorshift_below(random, m->kind == ROWS ? 4 : 12) == 0)
        (xorshift_below(random, 10) < 9 ? update : change_alpha)(m);
    else if (m->kind != ROWS && xorshift_below(random, 5000) == 0)
        reload(m);
    else if (xorshift_below(random, 40) == 0)
        trim(m);
    else
        (m->kind == ROWS ? operate_on_rows : operate_on_episodes)(m, dice);
    compare(m);
}

/* Destroying the writers ends open episodes. */
static void end_writers(model *m)
{
    gpur_replay_stats stats = {.size = sizeof stats};
    layouts_fixture *const w = &m->fixture;
    const int32_t open = layouts_fixture_end_writers(w);
    for (int r = 0; r < w->replay_count && m->kind != ROWS; r++) {
        CHECK_OK(gpur_replay_get_stats(w->replays[r], &stats));
        CHECK_EQUAL(stats.truncated_on_close, open);
        CHECK_EQUAL(stats.appended, w->all.count);
    }
    if (m->kind != ROWS)
        CHECK_EQUAL(layouts_fixture_wrong(w, w->setting.max_batch), 0);
}

static void run_round(int kind, uint64_t seed, int64_t *steps)
{
    static model m;
    const int begun = begin(&m, kind, seed);
    CHECK(begun);
    for (int i = 0; i < kinds[kind].operations && !failed(); i++)
        operate(&m);
    if (!failed())
        end_writers(&m);
    if (failed())
        fprintf(stderr, "%s, seed %d, capacity %d, update %d, batch %d, n_step %d\n", kinds[kind].name, (int)seed,
                (int)m.fixture.config.capacity, (int)m.fixture.config.block_rows, (int)m.fixture.config.max_batch,
                (int)m.fixture.config.n_step);
    steps[kind] += m.fixture.all.count; /* each step begins one transition */
    close_appenders(&m);
    reference_end(&m.window);
    priority_model_end(&m.priorities);
    layouts_fixture_close(&m.fixture);
}

/* 1.1 million operations, ten times as many with the long form; fewer where each one is slower. */
TEST(random_schedules_agree_with_the_references)
{
    const uint64_t wanted = test_rounds(ROUNDS);
    const uint64_t rounds = wanted > 102 && test_executor() == GPUR_EXECUTOR_THREAD && !test_is_long() ? 102 : wanted;
    int64_t steps[KINDS] = {0};
    for (uint64_t seed = 0; seed < rounds && !failed(); seed++) {
        if (IN_RACE_CHECK && seed % 34 < 10 && seed % 3 != 1)
            continue;
        const int turn = (int)(seed % 34), rows = kinds[ROWS].rounds, episodes = rows + kinds[EPISODES].rounds;
        run_round(turn < rows ? ROWS : turn < episodes ? EPISODES : FRAMES, seed, steps);
    }
    CHECK(!failed());
    CHECK(rounds < 200 || steps[FRAMES] >= (int64_t)rounds * 500000 / ROUNDS); /* of few rounds, all may be short */
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(random_schedules_agree_with_the_references);
    return test_main_end();
}
