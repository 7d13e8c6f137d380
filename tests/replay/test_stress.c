/* SPDX-License-Identifier: MIT */
/*
 * Everything at once over one small replay: writers on several threads append and overwrite, one thread draws and
 * gathers by id, one trains, one acts. A frame says of which environment, episode and step it is and has a checksum,
 * and a row's action, reward and discount follow from its frames. So a row that mixes two writes shows, in a batch of
 * the user's and in the one that a train step was made of. GPUR_TEST_SECONDS says how long it goes on; without it 2
 * seconds, and with GPUR_TEST_LONG two minutes. Prints what each replay has been through.
 */
#include "base/clock.h"
#include "learn/learner.h"
#include "support/replay_fixture.h"
#include "test.h"

#include <pthread.h>
#include <stdarg.h>
#include <time.h>

enum { WRITERS = 4, BATCH = 16, ACTIONS = 5, ENVS = 3, STACK = 3, N_STEP = 3, LONGEST = 12, FIELDS = 8, MOST = 48 };
enum { ROUNDS = 4, LEAST_BATCHES = 20, LEAST_STEPS = 40, HELD = 3, PATIENCE = 1200 };

/* Numbers of a frame, 0 to 255 each. Frames 0 to `length` are of an episode of `length` steps. Of a missing frame all
 * are 0, and no environment is. */
enum { ENV, EPISODE, EPISODE_HIGH, STEP, LENGTH, NOISE, CHECKSUM, CHECKSUM_HIGH, NUMBERS };
enum { OBS_BYTES = STACK * NUMBERS * 4 };

typedef struct frame {
    uint8_t n[NUMBERS];
} frame;

typedef struct setting {
    const char *words;
    int32_t layout, dtype, source, flush, feed;
    int32_t learns; /* -1: no learner; else GPUR_STEP_* */
    int64_t capacity, block_rows, extra_frames;
} setting;

typedef struct stress {
    setting setting;
    gpur_device *device;
    gpur_replay *replay;
    gpur_learner *learner;
    row_tags row_tags;
    float gamma;
    _Atomic int64_t given, batches, rows, steps, acts, ranked;
    atomic_int over, writers;
    pthread_mutex_t mutex;
    char failure[700]; /* the first; "": none. Under the mutex while threads run */
} stress;

/* Notes the first failure, and ends the soak. */
static void GPUR_PRINTF(2, 3) stress_fail(stress *s, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    pthread_mutex_lock(&s->mutex);
    if (!s->failure[0])
        vsnprintf(s->failure, sizeof s->failure, format, arguments);
    pthread_mutex_unlock(&s->mutex);
    va_end(arguments);
    atomic_store(&s->over, 1);
}

/* 1 when it is GPUR_OK; else the failure is noted with the name of the call. */
static int stress_ok(stress *s, gpur_status status, const char *call)
{
    if (status != GPUR_OK)
        stress_fail(s, "%s is %s: %s", call, gpur_status_name(status), gpur_last_error());
    return status == GPUR_OK;
}

/* FNV-1a, 64 bits. */
static uint64_t hash(uint64_t before, const void *bytes, size_t count)
{
    uint64_t h = before ^ 0xcbf29ce484222325u;
    for (size_t i = 0; i < count; i++)
        h = (h ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3u;
    return h;
}

static frame make_frame(int64_t env, int64_t episode, int64_t step, int64_t length, uint64_t *random)
{
    frame f = {{(uint8_t)env, (uint8_t)episode, (uint8_t)(episode >> 8), (uint8_t)step, (uint8_t)length}};
    f.n[NOISE] = (uint8_t)xorshift_below(random, 256);
    const uint64_t h = hash(0, f.n, CHECKSUM);
    f.n[CHECKSUM] = (uint8_t)(h >> 40), f.n[CHECKSUM_HIGH] = (uint8_t)(h >> 48);
    return f;
}

static int is_good_frame(const frame *f)
{
    const uint64_t h = hash(0, f->n, CHECKSUM);
    return f->n[ENV] > 0 && f->n[CHECKSUM] == (uint8_t)(h >> 40) && f->n[CHECKSUM_HIGH] == (uint8_t)(h >> 48);
}

static int32_t action_after(const frame *f)
{
    return f->n[NOISE] % ACTIONS;
}

/* Of the step that begins at frame `step` of f's episode. */
static float reward_after(const frame *f, int step)
{
    return (float)((f->n[ENV] * 31 + f->n[EPISODE] * 7 + step) % 64) / 64.0f - 0.5f;
}

static int ends_in_terminal(const frame *f)
{
    return f->n[EPISODE] % 2 == 1;
}

static int64_t row_check(const frame *f)
{
    const int32_t action = action_after(f);
    return (int64_t)hash(hash(0, f, sizeof *f), &action, sizeof action);
}

/* Reward and discount of the steps between two frames of one episode. */
static void fold(const stress *s, const frame *from, const frame *to, float *reward, float *discount)
{
    *reward = 0.0f, *discount = 1.0f;
    for (int i = from->n[STEP]; i < to->n[STEP]; i++, *discount *= s->gamma)
        *reward += *discount * reward_after(from, i);
    if (to->n[STEP] == to->n[LENGTH] && ends_in_terminal(to))
        *discount = 0.0f;
}

/* As the replay has them: bytes, or floats of the same numbers. */
static int64_t put_frames(const stress *s, unsigned char *to, const frame *frames, int count)
{
    const int numbers = count * NUMBERS;
    for (int i = 0; i < numbers; i++) {
        const uint8_t number = frames[i / NUMBERS].n[i % NUMBERS];
        if (s->setting.dtype == GPUR_FLOAT32)
            memcpy(to + 4 * i, &(float){number}, 4);
        else
            to[i] = number;
    }
    return s->setting.dtype == GPUR_FLOAT32 ? 4 * numbers : numbers;
}

typedef struct columns {
    int64_t tag[MOST], check[MOST];
    unsigned char obs[MOST * OBS_BYTES], next_obs[MOST * OBS_BYTES];
    int32_t action[MOST];
    float reward[MOST], discount[MOST], weight[MOST];
    int64_t id[MOST];
    uint8_t terminated[MOST];
} columns;

static void column_places(columns *c, void *places[FIELDS])
{
    void *const all[FIELDS] = {c->obs, c->action, c->reward, c->next_obs, c->terminated, c->discount, c->tag, c->check};
    memcpy(places, all, sizeof all);
}

/* One writer, with environments or with finished rows. */
typedef struct source {
    stress *stress;
    gpur_writer *writer;
    uint64_t random;
    int64_t first_env, episode[ENVS];
    frame at[ENVS][STACK]; /* the observation of each environment */
    gpur_stream *stream;
    columns *host, *device; /* pinned, and memory of the device */
} source;

/* A tag is environment << 40 | episode << 8 | step, and so of one environment it grows. */
static void put_tag(columns *c, int64_t i, int64_t env, int64_t episode, const frame *f)
{
    c->tag[i] = env << 40 | episode << 8 | f->n[STEP];
    c->check[i] = row_check(f);
    c->action[i] = action_after(f);
}

/* Finished rows: steps `from` to `to` of an episode of which nothing else is told. */
static void make_rows(source *o, columns *c, int64_t count)
{
    stress *const s = o->stress;
    int64_t obs = 0;
    for (int64_t i = 0; i < count; i++) {
        const int64_t length = 1 + xorshift_below(&o->random, LONGEST), from = xorshift_below(&o->random, length);
        const int64_t to = from + N_STEP < length ? from + N_STEP : length, episode = o->episode[0]++;
        frame stack[2][STACK];
        for (int j = 0; j < 2 * STACK; j++) {
            const int64_t step = (j < STACK ? from : to) - (STACK - 1 - j % STACK);
            stack[j / STACK][j % STACK] =
                step < 0 ? (frame){{0}} : make_frame(o->first_env, episode, step, length, &o->random);
        }
        const frame *const first = &stack[0][STACK - 1], *const last = &stack[1][STACK - 1];
        put_tag(c, i, o->first_env, episode, first);
        fold(s, first, last, &c->reward[i], &c->discount[i]);
        c->terminated[i] = to == length && ends_in_terminal(first);
        obs = put_frames(s, c->obs + i * obs, stack[0], STACK);
        put_frames(s, c->next_obs + i * obs, stack[1], STACK);
    }
}

static gpur_status give_rows(source *o, int64_t count)
{
    const row_tags *const k = &o->stress->row_tags;
    unsigned char rows[MOST * (2 * OBS_BYTES + 64)];
    void *places[FIELDS];
    make_rows(o, o->host, count);
    column_places(o->host, places);
    for (int32_t f = 0; f < FIELDS; f++)
        for (int64_t i = 0; i < count; i++)
            memcpy(rows + i * k->row_bytes + k->fields[f].offset, (unsigned char *)places[f] + i * k->fields[f].bytes,
                   (size_t)k->fields[f].bytes);
    return gpur_writer_append(o->writer, count, rows, NULL);
}

static gpur_status give_host_arrays(source *o, int64_t count)
{
    void *places[FIELDS];
    make_rows(o, o->host, count);
    column_places(o->host, places);
    return gpur_writer_append_fields(o->writer, count, (const void *const *)places, NULL, NULL);
}

/* On CUDA nobody waits for the copy: the stream orders the append behind it. The CPU has no stream to name. */
static gpur_status give_device_arrays(source *o, int64_t count)
{
    void *const native = gpur_stream_native(o->stream);
    void *places[FIELDS];
    GPUR_TRY(gpur_stream_sync(o->stream)); /* the arrays of the last append have been read */
    make_rows(o, o->host, count);
    GPUR_TRY(gpur_copy(o->stream, o->device, o->host, sizeof *o->host));
    if (!native)
        GPUR_TRY(gpur_stream_sync(o->stream));
    column_places(o->device, places);
    return gpur_writer_append_fields(o->writer, count, (const void *const *)places, native, NULL);
}

/* A linked replay is given frames, a packed one stacks. */
static void put_obs(const source *o, unsigned char *to, int env, int64_t *bytes)
{
    const int linked = o->stress->setting.layout == GPUR_LAYOUT_FRAMES;
    *bytes = put_frames(o->stress, to, linked ? &o->at[env][STACK - 1] : o->at[env], linked ? 1 : STACK);
}

static gpur_status begin_episode(source *o, int env)
{
    unsigned char obs[OBS_BYTES];
    int64_t bytes;
    memset(o->at[env], 0, sizeof o->at[env]);
    o->episode[env]++;
    o->at[env][STACK - 1] =
        make_frame(o->first_env + env, o->episode[env], 0, 1 + xorshift_below(&o->random, LONGEST), &o->random);
    put_obs(o, obs, env, &bytes);
    return gpur_writer_reset(o->writer, env, obs);
}

static gpur_status step_all(source *o, int64_t count)
{
    columns *const c = o->host;
    uint8_t truncated[ENVS];
    const void *const extras[FIELDS] = {[6] = c->tag, [7] = c->check};
    const gpur_step_input input = {.size = sizeof input,
                                   .action = c->action,
                                   .reward = c->reward,
                                   .next_obs = c->next_obs,
                                   .terminated = c->terminated,
                                   .truncated = truncated,
                                   .extras = extras};
    int64_t bytes = 0;
    (void)count;
    for (int e = 0; e < ENVS; e++) {
        const frame *const newest = &o->at[e][STACK - 1];
        if (newest->n[STEP] == newest->n[LENGTH])
            GPUR_TRY(begin_episode(o, e));
        const frame f = *newest;
        put_tag(c, e, o->first_env + e, o->episode[e], &f);
        c->reward[e] = reward_after(&f, f.n[STEP]);
        memmove(o->at[e], o->at[e] + 1, (STACK - 1) * sizeof(frame));
        o->at[e][STACK - 1] = make_frame(f.n[ENV], o->episode[e], f.n[STEP] + 1, f.n[LENGTH], &o->random);
        const int ends = f.n[STEP] + 1 == f.n[LENGTH];
        c->terminated[e] = ends && ends_in_terminal(&f), truncated[e] = ends && !ends_in_terminal(&f);
        put_obs(o, c->next_obs + e * bytes, e, &bytes);
    }
    return gpur_writer_step_ex(o->writer, &input);
}

static gpur_status open_source(source *o, stress *s, int number)
{
    gpur_writer_config config;
    memset(o, 0, sizeof *o);
    o->stress = s;
    o->random = (uint64_t)number * 7919 + 1;
    o->first_env = 1 + number * ENVS;
    GPUR_TRY(gpur_writer_config_init(&config, sizeof config));
    config.num_envs = ENVS,
    config.observations = s->setting.layout == GPUR_LAYOUT_FRAMES ? GPUR_OBSERVATIONS_FRAMES : GPUR_OBSERVATIONS_STACKS;
    GPUR_TRY(gpur_writer_open(s->replay, &config, &o->writer));
    GPUR_TRY(gpur_stream_create(s->device, &o->stream));
    GPUR_TRY(gpur_pinned_alloc(s->device, sizeof *o->host, "the soak", (void **)&o->host));
    memset(o->host, 0, sizeof *o->host);
    return gpur_memory_alloc(s->device, sizeof *o->device, "the soak", (void **)&o->device);
}

static void close_source(source *o)
{
    gpur_stream_destroy(o->stream);
    gpur_pinned_free(o->stress->device, o->host);
    gpur_memory_free(o->stress->device, o->device);
    gpur_writer_destroy(o->writer);
}

static void *write_rows(void *context)
{
    static gpur_status (*const ways[])(source * o, int64_t count) = {give_rows, give_device_arrays, give_host_arrays,
                                                                     step_all};
    stress *const s = context;
    const int number = atomic_fetch_add(&s->writers, 1), way = s->setting.layout == GPUR_LAYOUT_FRAMES ? 3 : number;
    source o;
    int good = stress_ok(s, open_source(&o, s, number), "making a writer");
    while (good && !atomic_load(&s->over)) {
        const int64_t most = 2 * s->setting.block_rows,
                      count = 1 + xorshift_below(&o.random, most < MOST ? most : MOST);
        good = stress_ok(s, ways[way](&o, count), way == 3 ? "a step" : "an append");
        if (good) /* each step of an environment begins one transition */
            atomic_fetch_add(&s->given, way < 3 ? count : ENVS);
        if (good && xorshift_below(&o.random, 60) == 0)
            good = stress_ok(s, gpur_writer_flush(o.writer), "gpur_writer_flush");
    }
    close_source(&o);
    return NULL;
}

/* Frames newest step - STACK + 1 to newest step of one episode, those before its first missing. */
static int is_whole(const frame stack[STACK])
{
    static const frame none;
    const frame *const newest = &stack[STACK - 1];
    for (int j = 0; j < STACK; j++) {
        const int step = newest->n[STEP] - (STACK - 1 - j);
        const frame *const f = &stack[j];
        if (step < 0 ? memcmp(f, &none, sizeof none) != 0
                     : !is_good_frame(f) || memcmp(f->n, newest->n, STEP) != 0 || f->n[LENGTH] != newest->n[LENGTH] ||
                           f->n[STEP] != step)
            return 0;
    }
    return 1;
}

typedef struct row {
    frame obs[STACK], next_obs[STACK];
    int32_t action;
    float reward, discount;
} row;

/* 1 when reward and discount are those of the steps between the two stacks: of fewer than N_STEP at the end of an
 * episode, or where its writer ended with it. */
static int has_its_return(stress *s, const row *r)
{
    const frame *const from = &r->obs[STACK - 1], *const to = &r->next_obs[STACK - 1];
    const int steps = to->n[STEP] - from->n[STEP];
    float reward, discount;
    if (steps < 1 || steps > N_STEP || (steps < N_STEP && to->n[STEP] != to->n[LENGTH] && !atomic_load(&s->over)))
        return 0;
    fold(s, from, to, &reward, &discount);
    return fabsf(r->reward - reward) < 1e-5f && fabsf(r->discount - discount) < 1e-5f;
}

static void check_row(stress *s, const row *r, const char *where)
{
    const frame *const from = &r->obs[STACK - 1], *const to = &r->next_obs[STACK - 1];
    const int one_episode = memcmp(from->n, to->n, STEP) == 0 && r->action == action_after(from);
    if (!is_whole(r->obs) || !is_whole(r->next_obs) || !one_episode || !has_its_return(s, r))
        stress_fail(
            s,
            "a torn row %s: environments %d, %d, episodes %d, %d, steps %d to %d of %d, action %d, reward %.9g, "
            "discount %.9g",
            where, from->n[ENV], to->n[ENV], from->n[EPISODE], to->n[EPISODE], from->n[STEP], to->n[STEP],
            to->n[LENGTH], (int)r->action, (double)r->reward, (double)r->discount);
}

static uint8_t number_at(const stress *s, const unsigned char *from, int64_t i)
{
    float number;
    if (s->setting.dtype != GPUR_FLOAT32)
        return from[i];
    memcpy(&number, from + 4 * i, 4);
    return (uint8_t)lrintf(number);
}

static gpur_status read_batch(gpur_batch *batch, const row_tags *k, columns *c)
{
    const int64_t count = gpur_batch_count(batch);
    void *places[FIELDS];
    column_places(c, places);
    for (int32_t f = 0; f < FIELDS; f++)
        GPUR_TRY(gpur_batch_read(batch, k->fields[f].name, places[f], count * k->fields[f].bytes));
    GPUR_TRY(gpur_batch_read(batch, "id", c->id, count * 8));
    return gpur_batch_read(batch, "weight", c->weight, count * 4);
}

/* Beside its frames a row has a checksum of its oldest step, a tag, and a flag. */
static void check_batch_row(stress *s, const columns *c, int64_t b)
{
    row r = {.action = c->action[b], .reward = c->reward[b], .discount = c->discount[b]};
    const frame *const from = &r.obs[STACK - 1];
    const int64_t obs = s->row_tags.fields[0].bytes;
    for (int i = 0; i < STACK * NUMBERS; i++) {
        r.obs[i / NUMBERS].n[i % NUMBERS] = number_at(s, c->obs + b * obs, i);
        r.next_obs[i / NUMBERS].n[i % NUMBERS] = number_at(s, c->next_obs + b * obs, i);
    }
    check_row(s, &r, "of a batch");
    const int64_t low = from->n[EPISODE_HIGH] << 16 | from->n[EPISODE] << 8 | from->n[STEP];
    if (c->tag[b] >> 40 != from->n[ENV] || (c->tag[b] & 0xffffff) != low || c->check[b] != row_check(from) ||
        c->terminated[b] != (r.discount == 0.0f))
        stress_fail(s, "a torn row: tag %llx, checksum %llx; its frame has %llx, %llx", (unsigned long long)c->tag[b],
                    (unsigned long long)c->check[b], (unsigned long long)low, (unsigned long long)row_check(from));
}

static int is_ranked(const stress *s)
{
    return s->setting.source == GPUR_PRIORITIZED_STRATIFIED || s->setting.source == GPUR_PRIORITIZED_INDEPENDENT;
}

/* Ids of one source grow with its tags. */
static int is_in_order(const columns *c, int64_t a, int64_t b)
{
    const int same_source = c->tag[a] >> 40 == c->tag[b] >> 40;
    return c->id[a] == c->id[b] ? c->tag[a] == c->tag[b]
                                : !same_source || (c->id[a] < c->id[b]) == (c->tag[a] < c->tag[b]);
}

/* `before`: the window before a draw that has just been made, or NULL. */
static void check_batch(stress *s, gpur_batch *batch, const gpur_replay_stats *before)
{
    gpur_replay_stats after = {.size = sizeof after};
    columns c;
    if (!stress_ok(s, read_batch(batch, &s->row_tags, &c), "reading a batch") ||
        !stress_ok(s, gpur_replay_get_stats(s->replay, &after), "gpur_replay_get_stats"))
        return;
    for (int64_t b = 0; b < gpur_batch_count(batch); b++) {
        check_batch_row(s, &c, b);
        if (before && (c.id[b] < before->first_id || c.id[b] >= after.first_id + after.visible))
            stress_fail(s, "id %lld; the window went from %lld to %lld", (long long)c.id[b],
                        (long long)before->first_id, (long long)(after.first_id + after.visible));
        if (is_ranked(s) ? !(c.weight[b] > 0.0f && c.weight[b] <= 1.0f) : c.weight[b] != 1.0f)
            stress_fail(s, "row %lld weighs %.9g", (long long)b, (double)c.weight[b]);
        for (int64_t a = 0; a < b; a++)
            if (!is_in_order(&c, a, b))
                stress_fail(s, "ids %lld, %lld have tags %llx, %llx", (long long)c.id[a], (long long)c.id[b],
                            (unsigned long long)c.tag[a], (unsigned long long)c.tag[b]);
    }
    atomic_fetch_add(&s->rows, gpur_batch_count(batch));
}

/* What the last train step was made of, while none is under way. The first layer reads numbers times input_scale. */
static void check_trained(stress *s)
{
    const gpur_train_step *const step = &s->learner->step;
    const int64_t pitch = step->dqn.online.pitch[0];
    float x[2 * BATCH * STACK * NUMBERS], reward[BATCH], discount[BATCH];
    int32_t action[BATCH];
    if (pitch != STACK * NUMBERS)
        stress_fail(s, "rows of a train step are %lld apart", (long long)pitch);
    else if (stress_ok(s, gpur_device_copy(s->device, x, step->batch.x, sizeof x), "reading x") &&
             stress_ok(s, gpur_device_copy(s->device, action, step->batch.action, sizeof action), "reading action") &&
             stress_ok(s, gpur_device_copy(s->device, reward, step->batch.reward, sizeof reward), "reading reward") &&
             stress_ok(s, gpur_device_copy(s->device, discount, step->batch.discount, sizeof discount), "discount"))
        for (int64_t b = 0; b < BATCH; b++) {
            row r = {.action = action[b], .reward = reward[b], .discount = discount[b]};
            const float scale = s->setting.dtype == GPUR_FLOAT32 ? 1.0f : 255.0f;
            for (int i = 0; i < STACK * NUMBERS; i++) {
                r.obs[i / NUMBERS].n[i % NUMBERS] = (uint8_t)lrintf(x[b * pitch + i] * scale);
                r.next_obs[i / NUMBERS].n[i % NUMBERS] = (uint8_t)lrintf(x[(BATCH + b) * pitch + i] * scale);
            }
            check_row(s, &r, "of a train step");
        }
}

/* Half of them by id: what is visible may have left by then, and the call is refused. NULL: it was, or there is a
 * failure. */
static gpur_batch *draw(stress *s, int64_t i)
{
    gpur_replay_stats before = {.size = sizeof before};
    gpur_batch *batch = NULL;
    int64_t ids[BATCH];
    if (!stress_ok(s, gpur_replay_get_stats(s->replay, &before), "gpur_replay_get_stats"))
        return NULL;
    for (int64_t b = 0; b < BATCH; b++)
        ids[b] = before.first_id + (b * 7 + i) % before.visible;
    const gpur_status status = i % 2 ? gpur_replay_gather(s->replay, BATCH, ids, NULL, &batch)
                                     : gpur_replay_sample(s->replay, 1 + i / 2 % BATCH, NULL, &batch);
    if (i % 2 && status == GPUR_EVICTED)
        return NULL;
    if (!stress_ok(s, status, i % 2 ? "gpur_replay_gather" : "gpur_replay_sample"))
        return NULL;
    check_batch(s, batch, &before);
    return batch;
}

static void give_priorities(stress *s, gpur_batch *batch, int64_t i)
{
    const int64_t count = gpur_batch_count(batch);
    int64_t ids[BATCH];
    float priorities[BATCH];
    for (int64_t b = 0; b < count; b++)
        priorities[b] = (float)((i + b * 5) % 9);
    if (stress_ok(s, gpur_batch_read(batch, "id", ids, count * 8), "reading id") &&
        stress_ok(s, gpur_replay_update_priorities(s->replay, count, ids, priorities, NULL), "an update of priorities"))
        atomic_fetch_add(&s->ranked, count);
}

/* A batch is checked when it comes, and again when it goes: what others append meanwhile must not change it. */
static void *draw_batches(void *context)
{
    stress *const s = context;
    gpur_batch *held[HELD] = {NULL};
    for (int64_t i = 0; !atomic_load(&s->over); i++) {
        gpur_batch **const batch = &held[i % HELD];
        if (*batch)
            check_batch(s, *batch, NULL);
        gpur_batch_release(*batch);
        *batch = draw(s, i);
        if (!*batch)
            continue;
        atomic_fetch_add(&s->batches, 1);
        if (is_ranked(s))
            give_priorities(s, *batch, i);
    }
    for (int i = 0; i < HELD; i++)
        gpur_batch_release(held[i]);
    return NULL;
}

/* Mostly without waiting, so that launches are in flight all the time. */
static void *train(void *context)
{
    stress *const s = context;
    for (int64_t i = 0; !atomic_load(&s->over); i++) {
        const int64_t steps = 1 + i % 13;
        if (!stress_ok(s, gpur_learner_train(s->learner, steps), "gpur_learner_train"))
            break;
        atomic_fetch_add(&s->steps, steps);
        if (i % 4 == 3 && stress_ok(s, gpur_learner_sync(s->learner), "gpur_learner_sync")) {
            check_trained(s);
            atomic_fetch_add(&s->rows, BATCH);
        }
    }
    return NULL;
}

static void *act(void *context)
{
    static const float any[64];
    stress *const s = context;
    while (!atomic_load(&s->over)) {
        int32_t action = -1;
        if (!stress_ok(s, gpur_learner_act(s->learner, 1, any, 0.5f, &action, NULL), "gpur_learner_act"))
            break;
        if (action < 0 || action >= ACTIONS)
            stress_fail(s, "action %d of %d", (int)action, ACTIONS);
        atomic_fetch_add(&s->acts, 1);
    }
    return NULL;
}

static gpur_status open_soak(stress *s)
{
    const setting *const t = &s->setting;
    const gpur_field fields[FIELDS] = {{"obs", t->dtype, {STACK, NUMBERS}},
                                       {"action", GPUR_INT32, {0}},
                                       {"reward", GPUR_FLOAT32, {0}},
                                       {"next_obs", t->dtype, {STACK, NUMBERS}},
                                       {"terminated", GPUR_BOOL, {0}},
                                       {"discount", GPUR_FLOAT32, {0}},
                                       {"tag", GPUR_INT64, {0}},
                                       {"check", GPUR_INT64, {0}}};
    gpur_replay_config replay = replay_fixture_config(fields, FIELDS, t->capacity, t->block_rows, 2 * BATCH);
    gpur_learner_config learner;
    GPUR_TRY(gpur_learner_config_init(&learner, sizeof learner));
    replay.index_source = t->source, replay.prioritized = is_ranked(s);
    replay.flush = t->flush, replay.upload = t->feed, replay.n_step = N_STEP;
    if (t->layout == GPUR_LAYOUT_FRAMES)
        replay.layout = t->layout, replay.frame_stack = STACK, replay.extra_frames = t->extra_frames;
    learner.network.trunk[0].units = learner.network.trunk[1].units = 16;
    learner.network.num_actions = ACTIONS, learner.batch_size = BATCH, learner.act = GPUR_ACT_PREVIOUS;
    learner.network.input_scale = t->dtype == GPUR_FLOAT32 ? 1.0f : 1.0f / 255.0f;
    learner.index_source = t->source;
    s->gamma = replay.gamma;
    GPUR_TRY(gpur_replay_create(s->device, &replay, &s->replay));
    s->row_tags = row_tags_of(s->replay, s->gamma);
    if (t->learns < 0)
        return GPUR_OK;
    learner.step_kernel = t->learns;
    return gpur_learner_create(s->replay, &learner, &s->learner);
}

static void pause_for(long nanoseconds)
{
    const struct timespec moment = {0, nanoseconds};
    nanosleep(&moment, NULL);
}

/* So that nobody finds too few rows: draws of distinct ones want as many as a batch. */
static void wait_for_rows(stress *s)
{
    gpur_replay_stats stats = {.size = sizeof stats};
    while (!atomic_load(&s->over) && stats.visible < 2 * BATCH &&
           stress_ok(s, gpur_replay_get_stats(s->replay, &stats), "waiting for rows"))
        pause_for(1000000);
}

static int has_seen_enough(stress *s)
{
    gpur_replay_stats stats = {.size = sizeof stats};
    const int learned = !s->learner || (atomic_load(&s->steps) >= LEAST_STEPS && atomic_load(&s->acts) > 0);
    return gpur_replay_get_stats(s->replay, &stats) != GPUR_OK ||
           (stats.evicted >= ROUNDS * s->setting.capacity && atomic_load(&s->batches) >= LEAST_BATCHES && learned);
}

static void wait_for_end(stress *s, double seconds)
{
    const double begin = gpur_clock_seconds();
    while (!atomic_load(&s->over)) {
        const double passed = gpur_clock_seconds() - begin;
        pause_for(10000000);
        if (passed >= seconds && has_seen_enough(s))
            break;
        if (passed >= seconds + PATIENCE)
            stress_fail(s, "after %.0f s: %lld batches, %lld steps, %lld acts", passed, (long long)s->batches,
                        (long long)s->steps, (long long)s->acts);
    }
    atomic_store(&s->over, 1);
}

static void run_threads(stress *s, double seconds)
{
    void *(*const roles[])(void *) = {draw_batches, train, act};
    const int all = WRITERS + (s->learner ? 3 : 1);
    pthread_t threads[WRITERS + 3];
    int begun = 0;
    for (; begun < all; begun++) {
        if (begun == WRITERS)
            wait_for_rows(s);
        if (pthread_create(&threads[begun], NULL, begun < WRITERS ? write_rows : roles[begun - WRITERS], s)) {
            stress_fail(s, "no thread %d", begun);
            break;
        }
    }
    wait_for_end(s, seconds);
    while (begun > 0)
        pthread_join(threads[--begun], NULL);
}

static void check_learner(stress *s)
{
    gpur_learner_stats stats = {.size = sizeof stats};
    CHECK_OK(gpur_learner_sync(s->learner));
    CHECK_OK(gpur_learner_get_stats(s->learner, &stats));
    CHECK_EQUAL(stats.steps, s->steps);
    CHECK_EQUAL(stats.skipped, 0);
    CHECK_EQUAL(stats.invalid_actions, 0);
    CHECK(isfinite(stats.loss));
}

/* Every priority that anybody gave was taken or was stale, and the tree adds up. */
static void check_priorities(stress *s)
{
    gpur_priority_stats stats = {.size = sizeof stats};
    int64_t wrong = -1;
    CHECK_OK(gpur_replay_check_priorities(s->replay, &wrong));
    CHECK_EQUAL(wrong, 0);
    CHECK_OK(gpur_replay_get_priority_stats(s->replay, &stats));
    CHECK_EQUAL(stats.updates + stats.stale, s->ranked + s->steps * BATCH);
    CHECK_EQUAL(stats.invalid, 0);
}

static void check_end(stress *s)
{
    gpur_replay_stats stats = {.size = sizeof stats};
    TEST_REQUIRE(!s->failure[0], "%s: %s", s->setting.words, s->failure);
    if (s->learner)
        check_learner(s);
    if (is_ranked(s))
        check_priorities(s);
    CHECK_OK(gpur_replay_get_stats(s->replay, &stats));
    CHECK_EQUAL(stats.appended, s->given);
    CHECK_EQUAL(stats.batches_alive, 0);
    printf("  %s: %lld rows, %lld times round the ring, %lld batches, %lld train steps; %lld rows checked\n",
           s->setting.words, (long long)stats.appended, (long long)(stats.evicted / s->setting.capacity),
           (long long)s->batches, (long long)s->steps, (long long)s->rows);
}

static const setting settings[] = {
#ifndef GPUR_RACE_CHECK /* a learner's kernels have tests of their own, and take long with a thread for every thread */
    {"rows, uniform", GPUR_LAYOUT_ROWS, GPUR_FLOAT32, GPUR_UNIFORM, GPUR_FLUSH_AUTO, GPUR_UPLOAD_COPY, GPUR_STEP_AUTO,
     300, 24, 0},
    {"rows of bytes, distinct, by scatter", GPUR_LAYOUT_ROWS, GPUR_UINT8, GPUR_UNIFORM_DISTINCT, GPUR_FLUSH_MANUAL,
     GPUR_UPLOAD_SCATTER, GPUR_STEP_AUTO, 300, 24, 0},
    {"rows, by priority, by scatter", GPUR_LAYOUT_ROWS, GPUR_FLOAT32, GPUR_PRIORITIZED_STRATIFIED, GPUR_FLUSH_AUTO,
     GPUR_UPLOAD_SCATTER, GPUR_STEP_AUTO, 300, 24, 0},
    {"rows, by priority", GPUR_LAYOUT_ROWS, GPUR_FLOAT32, GPUR_PRIORITIZED_INDEPENDENT, GPUR_FLUSH_MANUAL,
     GPUR_UPLOAD_COPY, GPUR_STEP_AUTO, 300, 24, 0},
    {"rows, uniform, one kernel", GPUR_LAYOUT_ROWS, GPUR_FLOAT32, GPUR_UNIFORM, GPUR_FLUSH_AUTO, GPUR_UPLOAD_COPY,
     GPUR_STEP_FUSED, 300, 24, 0},
    {"rows, by priority, one kernel", GPUR_LAYOUT_ROWS, GPUR_FLOAT32, GPUR_PRIORITIZED_STRATIFIED, GPUR_FLUSH_AUTO,
     GPUR_UPLOAD_COPY, GPUR_STEP_FUSED, 300, 24, 0},
    {"frames, uniform", GPUR_LAYOUT_FRAMES, GPUR_UINT8, GPUR_UNIFORM, GPUR_FLUSH_AUTO, GPUR_UPLOAD_COPY, GPUR_STEP_AUTO,
     300, 24, 40},
    {"frames, by priority", GPUR_LAYOUT_FRAMES, GPUR_UINT8, GPUR_PRIORITIZED_STRATIFIED, GPUR_FLUSH_MANUAL,
     GPUR_UPLOAD_COPY, GPUR_STEP_AUTO, 300, 24, 40},
#endif
    {"few frames", GPUR_LAYOUT_FRAMES, GPUR_UINT8, GPUR_UNIFORM, GPUR_FLUSH_AUTO, GPUR_UPLOAD_COPY, -1, 60, 5, 5},
    {"few frames of floats, by hand", GPUR_LAYOUT_FRAMES, GPUR_FLOAT32, GPUR_UNIFORM, GPUR_FLUSH_MANUAL,
     GPUR_UPLOAD_COPY, -1, 60, 5, 5},
};
enum { SETTINGS = sizeof settings / sizeof *settings };

static double seconds_each(void)
{
    const char *const text = getenv("GPUR_TEST_SECONDS");
    return (text ? atof(text) : test_is_long() ? 120.0 : 2.0) / SETTINGS;
}

TEST(no_row_is_torn_while_all_append_draw_train_and_act)
{
    for (int i = 0; i < SETTINGS; i++) {
        static stress s;
        gpur_device_info info = {.size = sizeof info};
        memset(&s, 0, sizeof s);
        s.setting = settings[i];
        s.device = test_device();
        pthread_mutex_init(&s.mutex, NULL);
        if (stress_ok(&s, open_soak(&s), "making replay and learner"))
            run_threads(&s, seconds_each());
        check_end(&s);
        gpur_learner_destroy(s.learner);
        gpur_replay_destroy(s.replay);
        CHECK_OK(gpur_device_get_info(s.device, &info));
        CHECK_EQUAL(info.memory_used, 0);
        gpur_device_close(s.device);
        pthread_mutex_destroy(&s.mutex);
    }
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(no_row_is_torn_while_all_append_draw_train_and_act);
    return test_main_end();
}
