/* SPDX-License-Identifier: MIT */
/*
 * Everything at once over one small replay: writers on several threads append and overwrite, two threads sample and
 * gather by id, one trains, one acts. Every byte of a row follows from its environment and step, which the newest frame
 * of its observation states. So a row that mixes two writes shows, in a batch of the user's and in the one that a train
 * step was made of; and as each environment's steps are numbered, so does a row that is lost or comes twice.
 * GPUR_TEST_SECONDS says how long it goes on; without it 2 seconds, and with GPUR_TEST_LONG two minutes.
 */
#include "base/clock.h"
#include "learn/dqn/dqn.h"
#include "support/replay_fixture.h"
#include "test.h"

#include <pthread.h>
#include <time.h>

enum { WRITERS = 4, READERS = 2, BATCH = 16, ACTIONS = 5, ENVS = 3, STACK = 3, N_STEP = 3, MAX_APPEND = 48 };
enum { ROUNDS = 4, MIN_BATCHES = 20, MIN_STEPS = 40, HELD = 3, PATIENCE = 1200 };

/* Numbers of a frame, 0 to 255 each. Of a missing frame all are 0, and no environment is 0. */
enum { ENV, EPISODE, STEP = EPISODE + 4, CHECKSUM, NUMBERS = CHECKSUM + 2, OBS = STACK * NUMBERS };

/* Tags: one, or as many as it takes to have more fields than one launch copies. */
enum { TAG_FIELD = 6, MAX_TAGS = 34, MAX_FIELDS = TAG_FIELD + MAX_TAGS };

typedef struct row { /* as in the replay, which may have fewer tags */
    float obs[OBS], next_obs[OBS];
    int32_t action;
    float reward, discount;
    uint8_t terminated;
    int64_t tag[MAX_TAGS];
} row;

enum { ARRAYS_BYTES = MAX_APPEND * sizeof(row) };

typedef struct setting {
    const char *name;
    int32_t layout, source, flush, upload;
    int32_t step_kernel; /* -1: no learner; else GPUR_STEP_* */
    int32_t tags;
} setting;

typedef struct stress {
    setting setting;
    gpur_device *device;
    gpur_replay *replay;
    gpur_learner *learner;
    row_tags fields;
    float gamma;
    int64_t capacity, block_rows;
    _Atomic int64_t appended, batches, steps, acts, updated;
    atomic_int over, threads; /* threads: that have begun */
} stress;

static int is_failed(void)
{
    return atomic_load(&test_state.failures) > 0;
}

static int is_over(const stress *s)
{
    return atomic_load(&s->over) || is_failed();
}

/* The episodes of one environment are all of one length; those of an odd number end in a terminal state. */
static int64_t length_of(int64_t env)
{
    return 1 + env * 5 % 12;
}

/* That frame and those before it, of which an episode's first ones are missing. */
static void put_stack(float *to, int64_t env, int64_t episode, int64_t step)
{
    for (int64_t i = 0; i < STACK && i <= step; i++) {
        const uint64_t key = (uint64_t)(env << 48 ^ episode << 8 ^ (step - i));
        const unsigned checksum = (unsigned)(key * 0x9E3779B97F4A7C15ull >> 48);
        float *const frame = to + (STACK - 1 - i) * NUMBERS;
        frame[ENV] = (float)env, frame[STEP] = (float)(step - i);
        for (int k = 0; k < 4; k++)
            frame[EPISODE + k] = (float)(episode >> 8 * k & 255);
        frame[CHECKSUM] = (float)(checksum & 255), frame[CHECKSUM + 1] = (float)(checksum >> 8);
    }
}

/* The transition from step `step` of the environment, counted over all its episodes, over so many steps. The tags of
 * one environment grow by 1 from row to row. */
static row row_of(const stress *s, int64_t env, int64_t step, int64_t steps)
{
    const int64_t length = length_of(env), episode = step / length, from = step % length;
    row r = {.action = (int32_t)((env + step * 3) % ACTIONS), .discount = 1.0f};
    put_stack(r.obs, env, episode, from);
    put_stack(r.next_obs, env, episode, from + steps);
    for (int64_t i = 0; i < steps; i++, r.discount *= s->gamma)
        r.reward += r.discount * ((float)((env * 31 + (step + i) * 7) % 64) / 64.0f - 0.5f);
    r.terminated = from + steps == length && episode % 2 == 1;
    r.discount = r.terminated ? 0.0f : r.discount;
    for (int64_t k = 0; k < s->setting.tags; k++)
        r.tag[k] = (env << 40 | step) + k * 1000003;
    return r;
}

/* Fewer than N_STEP at the end of an episode. */
static int64_t steps_of(int64_t env, int64_t step)
{
    const int64_t left = length_of(env) - step % length_of(env);
    return left < N_STEP ? left : N_STEP;
}

/* One writer, with environments or with finished rows. */
typedef struct source {
    stress *stress;
    gpur_writer *writer;
    uint64_t random;
    int64_t first_env, step[ENVS]; /* of each environment, counted over all its episodes */
    gpur_stream *stream;
    unsigned char *host, *device; /* rows as one array a field, which begins at MAX_APPEND times the field's offset */
} source;

/* The next rows of the writer's first environment. */
static void make_rows(source *o, row *rows, int64_t count)
{
    for (int64_t i = 0; i < count; i++, o->step[0]++)
        rows[i] = row_of(o->stress, o->first_env, o->step[0], steps_of(o->first_env, o->step[0]));
}

static gpur_status append_rows(source *o, int64_t count)
{
    const int64_t bytes = o->stress->fields.row_bytes;
    row rows[MAX_APPEND];
    make_rows(o, rows, count);
    for (int64_t i = 0; i < count; i++)
        memcpy(o->host + i * bytes, &rows[i], (size_t)bytes);
    return gpur_writer_append(o->writer, count, o->host, NULL);
}

/* On CUDA nobody waits for the copy: the stream orders the append behind it. The CPU has no stream to name. */
static gpur_status append_arrays(source *o, int64_t count, int on_device)
{
    const row_tags *const k = &o->stress->fields;
    void *const native = on_device ? gpur_stream_native(o->stream) : NULL;
    const void *arrays[MAX_FIELDS];
    row rows[MAX_APPEND];
    GPUR_TRY(gpur_stream_sync(o->stream)); /* the arrays of the last append have been read */
    make_rows(o, rows, count);
    for (int32_t f = 0; f < k->count; f++) {
        const int64_t begin = MAX_APPEND * k->fields[f].offset, bytes = k->fields[f].bytes;
        for (int64_t i = 0; i < count; i++)
            memcpy(o->host + begin + i * bytes, (unsigned char *)&rows[i] + k->fields[f].offset, (size_t)bytes);
        arrays[f] = (on_device ? o->device : o->host) + begin;
    }
    GPUR_TRY(gpur_copy(o->stream, o->device, o->host, ARRAYS_BYTES));
    if (!native)
        GPUR_TRY(gpur_stream_sync(o->stream));
    return gpur_writer_append_fields(o->writer, count, arrays, native, NULL);
}

/* One step of each environment; each begins one transition. */
static gpur_status step_all(source *o)
{
    const int is_frames = o->stress->setting.layout == GPUR_LAYOUT_FRAMES;
    const int first = is_frames ? OBS - NUMBERS : 0, numbers = OBS - first; /* of a stack: what the writer is given */
    float next_obs[ENVS * OBS], reward[ENVS];
    int32_t action[ENVS];
    int64_t tag[MAX_TAGS][ENVS];
    uint8_t terminated[ENVS], truncated[ENVS];
    const void *extras[MAX_FIELDS] = {0};
    for (int64_t e = 0; e < ENVS; e++) {
        const int64_t env = o->first_env + e, length = length_of(env), step = o->step[e]++;
        const row r = row_of(o->stress, env, step, 1);
        if (step % length == 0)
            GPUR_TRY(gpur_writer_reset(o->writer, (int32_t)e, r.obs + first));
        memcpy(next_obs + e * numbers, r.next_obs + first, (size_t)numbers * sizeof(float));
        action[e] = r.action, reward[e] = r.reward, terminated[e] = r.terminated;
        truncated[e] = step % length + 1 == length && !r.terminated;
        for (int32_t k = 0; k < o->stress->setting.tags; k++)
            tag[k][e] = r.tag[k], extras[TAG_FIELD + k] = tag[k];
    }
    const gpur_step_input input = {sizeof input, action, reward, next_obs, terminated, truncated, .extras = extras};
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
    config.num_envs = ENVS;
    config.observations = s->setting.layout == GPUR_LAYOUT_FRAMES ? GPUR_OBSERVATIONS_FRAMES : GPUR_OBSERVATIONS_STACKS;
    GPUR_TRY(gpur_writer_open(s->replay, &config, &o->writer));
    GPUR_TRY(gpur_stream_create(s->device, &o->stream));
    GPUR_TRY(gpur_pinned_alloc(s->device, ARRAYS_BYTES, "test_stress", (void **)&o->host));
    memset(o->host, 0, ARRAYS_BYTES);
    return gpur_memory_alloc(s->device, ARRAYS_BYTES, "test_stress", (void **)&o->device);
}

static void write_until_over(stress *s, source *o, int number)
{
    const int64_t max_append = 2 * s->block_rows < MAX_APPEND ? 2 * s->block_rows : MAX_APPEND;
    CHECK_OK(open_source(o, s, number));
    while (!is_over(s)) {
        int64_t count = 1 + xorshift_below(&o->random, max_append);
        if (number == 3 || s->setting.layout == GPUR_LAYOUT_FRAMES) {
            count = ENVS;
            CHECK_OK(step_all(o));
        } else {
            CHECK_OK(number == 0 ? append_rows(o, count) : append_arrays(o, count, number == 1));
        }
        atomic_fetch_add(&s->appended, count);
        if (xorshift_below(&o->random, 60) == 0)
            CHECK_OK(gpur_writer_flush(o->writer));
    }
}

static void write_rows(stress *s, int number)
{
    source o;
    write_until_over(s, &o, number);
    gpur_stream_destroy(o.stream);
    gpur_pinned_free(s->device, o.host);
    gpur_memory_free(s->device, o.device);
    gpur_writer_destroy(o.writer);
}

/* Compares the row with the one of the same environment and step, which its newest frame states. A row is of fewer
 * steps also where its writer was destroyed. */
static void check_row(const stress *s, const row *r, int32_t tags, const char *origin)
{
    const float *const newest = r->obs + OBS - NUMBERS, *const last = r->next_obs + OBS - NUMBERS;
    const int64_t env = newest[ENV] > 0 && newest[ENV] <= WRITERS * ENVS ? lrintf(newest[ENV]) : 0,
                  length = length_of(env), steps = lrintf(last[STEP] - newest[STEP]);
    int64_t step = 0;
    for (int k = 3; k >= 0; k--)
        step = step << 8 | lrintf(newest[EPISODE + k]);
    step = step * length + lrintf(newest[STEP]);
    const int64_t wanted = steps_of(env, step);
    const row want = row_of(s, env, step, steps > 0 && steps < wanted ? steps : wanted);
    const int is_right = env > 0 && (steps == wanted || atomic_load(&s->over)) &&
                         memcmp(r->obs, want.obs, sizeof want.obs) == 0 &&
                         memcmp(r->next_obs, want.next_obs, sizeof want.obs) == 0 && r->action == want.action &&
                         r->terminated == want.terminated && memcmp(r->tag, want.tag, (size_t)tags * 8) == 0 &&
                         fabsf(r->reward - want.reward) < 1e-5f && fabsf(r->discount - want.discount) < 1e-5f;
    TEST_REQUIRE(is_right,
                 "a torn row of a %s: tag %llx, environments %g, %g, steps %g to %g of %d, action %d, reward %.9g, "
                 "discount %.9g",
                 origin, (unsigned long long)r->tag[0], (double)newest[ENV], (double)last[ENV], (double)newest[STEP],
                 (double)last[STEP], (int)length, (int)r->action, (double)r->reward, (double)r->discount);
}

static gpur_status read_batch(const stress *s, gpur_batch *batch, row *rows, int64_t *ids, float *weights)
{
    const int64_t count = gpur_batch_count(batch);
    unsigned char column[BATCH * sizeof rows->obs];
    for (int32_t f = 0; f < s->fields.count; f++) {
        const gpur_field_info *const field = &s->fields.fields[f];
        GPUR_TRY(gpur_batch_read(batch, field->name, column, count * field->bytes));
        for (int64_t b = 0; b < count; b++)
            memcpy((unsigned char *)&rows[b] + field->offset, column + b * field->bytes, (size_t)field->bytes);
    }
    GPUR_TRY(gpur_batch_read(batch, "id", ids, count * 8));
    return gpur_batch_read(batch, "weight", weights, count * 4);
}

static int is_prioritized(const stress *s)
{
    return s->setting.source == GPUR_PRIORITIZED_STRATIFIED || s->setting.source == GPUR_PRIORITIZED_INDEPENDENT;
}

/* Ids of one environment grow with its steps. */
static int is_in_order(int64_t id, int64_t tag, int64_t other_id, int64_t other_tag)
{
    return id == other_id ? tag == other_tag : tag >> 40 != other_tag >> 40 || (id < other_id) == (tag < other_tag);
}

/* `wanted`: ids, or NULL; `first_id`: of the window before the batch was sampled. */
static void check_batch(const stress *s, gpur_batch *batch, const int64_t *wanted, int64_t first_id)
{
    const int64_t count = gpur_batch_count(batch);
    row rows[BATCH];
    int64_t ids[BATCH];
    float weights[BATCH];
    CHECK_OK(read_batch(s, batch, rows, ids, weights));
    CHECK(!wanted || memcmp(ids, wanted, (size_t)count * sizeof *ids) == 0);
    const gpur_replay_stats after = replay_fixture_stats(s->replay);
    for (int64_t b = 0; b < count; b++) {
        check_row(s, &rows[b], s->setting.tags, "batch");
        CHECK(ids[b] >= first_id && ids[b] < after.first_id + after.visible);
        CHECK(is_prioritized(s) ? weights[b] > 0.0f && weights[b] <= 1.0f : weights[b] == 1.0f);
        for (int64_t a = 0; a < b; a++)
            TEST_REQUIRE(is_in_order(ids[a], rows[a].tag[0], ids[b], rows[b].tag[0]),
                         "ids %lld, %lld have tags %llx, %llx", (long long)ids[a], (long long)ids[b],
                         (unsigned long long)rows[a].tag[0], (unsigned long long)rows[b].tag[0]);
    }
}

/* What the last train step was made of, while none is under way. */
static void check_trained(stress *s)
{
    const gpur_train_step *const step = &gpur_dqn_of(s->learner)->step;
    float x[2][BATCH][OBS], reward[BATCH], discount[BATCH];
    int32_t action[BATCH];
    CHECK_EQUAL(step->online.pitch[0], OBS);
    CHECK_OK(gpur_device_copy(s->device, x, step->batch.x, sizeof x));
    CHECK_OK(gpur_device_copy(s->device, action, step->batch.action, sizeof action));
    CHECK_OK(gpur_device_copy(s->device, reward, step->batch.reward, sizeof reward));
    CHECK_OK(gpur_device_copy(s->device, discount, step->batch.discount, sizeof discount));
    for (int64_t b = 0; b < BATCH; b++) {
        row r = {.action = action[b], .reward = reward[b], .discount = discount[b], .terminated = discount[b] == 0};
        memcpy(r.obs, x[0][b], sizeof r.obs);
        memcpy(r.next_obs, x[1][b], sizeof r.obs);
        check_row(s, &r, 0, "train step");
    }
}

/* One of two by id: what is visible may have left by then, and the call is refused; no batch is then given. */
static void sample(stress *s, int64_t i, gpur_batch **batch)
{
    const gpur_replay_stats before = replay_fixture_stats(s->replay);
    int64_t ids[BATCH];
    CHECK(before.visible > 0);
    for (int64_t b = 0; b < BATCH; b++)
        ids[b] = before.first_id + (b * 7 + i) % before.visible;
    const gpur_status status = i % 2 ? gpur_replay_gather(s->replay, BATCH, ids, NULL, batch)
                                     : gpur_replay_sample(s->replay, 1 + i / 2 % BATCH, NULL, batch);
    if (i % 2 == 0 || status != GPUR_EVICTED)
        CHECK_OK(status);
    if (status == GPUR_OK)
        check_batch(s, *batch, i % 2 ? ids : NULL, before.first_id);
}

static void update_priorities(stress *s, gpur_batch *batch, int64_t i)
{
    const int64_t count = gpur_batch_count(batch);
    int64_t ids[BATCH];
    float priorities[BATCH];
    for (int64_t b = 0; b < count; b++)
        priorities[b] = (float)((i + b * 5) % 9);
    CHECK_OK(gpur_batch_read(batch, "id", ids, count * 8));
    CHECK_OK(gpur_replay_update_priorities(s->replay, count, ids, priorities, NULL));
    atomic_fetch_add(&s->updated, count);
}

/* Also while all the threads run. */
static void check_tree(stress *s)
{
    int64_t wrong = 0;
    if (is_prioritized(s))
        CHECK_OK(gpur_replay_check_priorities(s->replay, &wrong));
    CHECK_EQUAL(wrong, 0);
}

/* A batch is checked when it comes, and again before it is released: appends meanwhile must not change it. */
static void sample_batches(stress *s, int number)
{
    gpur_batch *held[HELD] = {NULL};
    for (int64_t i = number; !is_over(s); i++) {
        gpur_batch **const batch = &held[i % HELD];
        if (*batch)
            check_batch(s, *batch, NULL, 0);
        gpur_batch_release(*batch);
        *batch = NULL;
        sample(s, i, batch);
        if (!*batch)
            continue;
        atomic_fetch_add(&s->batches, 1);
        if (is_prioritized(s))
            update_priorities(s, *batch, i);
        if (i % 50 == 0)
            check_tree(s);
    }
    for (int i = 0; i < HELD; i++)
        gpur_batch_release(held[i]);
}

/* Mostly without waiting, so that launches are in flight all the time. */
static void train(stress *s, int number)
{
    (void)number;
    for (int64_t i = 0; !is_over(s); i++) {
        const int64_t steps = 1 + i % 13;
        CHECK_OK(gpur_learner_train(s->learner, steps));
        atomic_fetch_add(&s->steps, steps);
        if (i % 4 == 3) {
            CHECK_OK(gpur_learner_sync(s->learner));
            check_trained(s);
        }
    }
}

static void act(stress *s, int number)
{
    static const float any[64];
    (void)number;
    while (!is_over(s)) {
        int32_t action = -1;
        CHECK_OK(gpur_learner_act(s->learner, 1, any, 0.5f, &action, NULL));
        CHECK(action >= 0 && action < ACTIONS);
        atomic_fetch_add(&s->acts, 1);
    }
}

/* Which thread takes which part is up to them. */
static void *take_part(void *context)
{
    static void (*const parts[])(stress * s, int number) = {write_rows,     write_rows,     write_rows, write_rows,
                                                            sample_batches, sample_batches, train,      act};
    stress *const s = context;
    const int number = atomic_fetch_add(&s->threads, 1);
    parts[number](s, number);
    return NULL;
}

static gpur_status open_stress(stress *s)
{
    const setting *const t = &s->setting;
    const int learns = t->step_kernel >= 0;
    gpur_field fields[MAX_FIELDS] = {{"obs", GPUR_FLOAT32, {STACK, NUMBERS}},
                                     {"next_obs", GPUR_FLOAT32, {STACK, NUMBERS}},
                                     {"action", GPUR_INT32, {0}},
                                     {"reward", GPUR_FLOAT32, {0}},
                                     {"discount", GPUR_FLOAT32, {0}},
                                     {"terminated", GPUR_BOOL, {0}}};
    char names[MAX_TAGS][16];
    gpur_dqn_config learner;
    for (int32_t k = 0; k < t->tags; k++) {
        snprintf(names[k], sizeof names[k], "tag%d", (int)k);
        fields[TAG_FIELD + k] = (gpur_field){names[k], GPUR_INT64, {0}};
    }
    s->capacity = learns ? 300 : 60, s->block_rows = learns ? 24 : 5;
    gpur_replay_config replay =
        replay_fixture_config(fields, TAG_FIELD + t->tags, s->capacity, s->block_rows, 2 * BATCH);
    GPUR_TRY(gpur_dqn_config_init(&learner, sizeof learner));
    replay.index_source = t->source, replay.prioritized = is_prioritized(s);
    replay.flush = t->flush, replay.upload = t->upload, replay.n_step = N_STEP;
    if (t->layout == GPUR_LAYOUT_FRAMES)
        replay.layout = t->layout, replay.frame_stack = STACK, replay.extra_frames = learns ? 40 : 5;
    learner.network.trunk[0].units = learner.network.trunk[1].units = 16;
    learner.network.num_actions = ACTIONS, learner.batch_size = BATCH, learner.act = GPUR_ACT_PREVIOUS;
    learner.index_source = t->source, learner.step_kernel = t->step_kernel;
    s->gamma = replay.gamma;
    GPUR_TRY(gpur_replay_create(s->device, &replay, &s->replay));
    s->fields = row_tags_of(s->replay, s->gamma);
    return learns ? gpur_dqn_create(s->replay, &learner, &s->learner) : GPUR_OK;
}

static void pause_for(long nanoseconds)
{
    const struct timespec moment = {0, nanoseconds};
    nanosleep(&moment, NULL);
}

static int has_seen_enough(const stress *s)
{
    const int learned = !s->learner || (atomic_load(&s->steps) >= MIN_STEPS && atomic_load(&s->acts) > 0);
    return replay_fixture_stats(s->replay).evicted >= ROUNDS * s->capacity && atomic_load(&s->batches) >= MIN_BATCHES &&
           learned;
}

static void run_threads(stress *s, double seconds)
{
    const int count = WRITERS + READERS + (s->learner ? 2 : 0);
    pthread_t threads[WRITERS + READERS + 2];
    for (int i = 0; i < count; i++) {
        while (i == WRITERS && !is_over(s) && replay_fixture_stats(s->replay).visible < 2 * BATCH)
            pause_for(
                1000000); /* so that nobody finds too few rows: samples of distinct ones want as many as a batch */
        if (pthread_create(&threads[i], NULL, take_part, s)) {
            fprintf(stderr, "no thread %d\n", i);
            abort();
        }
    }
    const double begin = gpur_clock_seconds();
    double passed = 0;
    while (!is_over(s) && passed < seconds + PATIENCE && (passed < seconds || !has_seen_enough(s))) {
        pause_for(10000000);
        passed = gpur_clock_seconds() - begin;
    }
    atomic_store(&s->over, 1);
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    TEST_REQUIRE(passed < seconds + PATIENCE, "after %.0f s: %lld batches, %lld steps, %lld acts", passed,
                 (long long)s->batches, (long long)s->steps, (long long)s->acts);
}

/* Every visible row, by id: the steps of each environment follow one another without a gap. */
static void check_all_rows(stress *s)
{
    int64_t last[1 + WRITERS * ENVS] = {0}, ids[BATCH], got[BATCH];
    gpur_batch *batch = NULL;
    row rows[BATCH];
    float weights[BATCH];
    for (int i = 0; i < 3; i++) { /* publishes all */
        CHECK_OK(gpur_replay_sample(s->replay, 1, NULL, &batch));
        gpur_batch_release(batch);
    }
    const gpur_replay_stats stats = replay_fixture_stats(s->replay);
    CHECK(stats.published == stats.appended && stats.first_id + stats.visible == stats.appended);
    CHECK_EQUAL(stats.appended, s->appended);
    CHECK_EQUAL(stats.batches_alive, 0);
    for (int64_t id = stats.first_id, count = 0; id < stats.appended; id += count) {
        for (count = 0; count < BATCH && id + count < stats.appended; count++)
            ids[count] = id + count;
        CHECK_OK(gpur_replay_gather(s->replay, count, ids, NULL, &batch));
        CHECK_OK(read_batch(s, batch, rows, got, weights));
        gpur_batch_release(batch);
        for (int64_t b = 0; b < count && !is_failed(); b++) {
            check_row(s, &rows[b], s->setting.tags, "last gather");
            const int64_t tag = rows[b].tag[0], env = is_failed() ? 0 : tag >> 40;
            TEST_REQUIRE(!last[env] || tag == last[env] + 1, "tag %llx follows %llx", (unsigned long long)tag,
                         (unsigned long long)last[env]);
            last[env] = tag;
        }
    }
    printf("  %s: %lld rows, %lld times round the ring, %lld batches, %lld train steps\n", s->setting.name,
           (long long)stats.appended, (long long)(stats.evicted / s->capacity), (long long)s->batches,
           (long long)s->steps);
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
    check_tree(s);
    CHECK_OK(gpur_replay_get_priority_stats(s->replay, &stats));
    CHECK_EQUAL(stats.updates + stats.stale, s->updated + s->steps * BATCH);
    CHECK_EQUAL(stats.invalid, 0);
}

enum { ROWS = GPUR_LAYOUT_ROWS, FRAMES = GPUR_LAYOUT_FRAMES, UNIFORM = GPUR_UNIFORM, FUSED = GPUR_STEP_FUSED };
enum { STRATIFIED = GPUR_PRIORITIZED_STRATIFIED, INDEPENDENT = GPUR_PRIORITIZED_INDEPENDENT };
enum { AUTO = GPUR_FLUSH_AUTO, MANUAL = GPUR_FLUSH_MANUAL, COPY = GPUR_UPLOAD_COPY, SCATTER = GPUR_UPLOAD_SCATTER };

static const setting settings[] = {
#ifndef GPUR_RACE_CHECK /* a learner's kernels have tests of their own, and take long with a thread for every thread */
    {"rows", ROWS, UNIFORM, AUTO, COPY, GPUR_STEP_AUTO, 1},
    {"rows, distinct", ROWS, GPUR_UNIFORM_DISTINCT, MANUAL, SCATTER, GPUR_STEP_AUTO, 1},
    {"rows, stratified", ROWS, STRATIFIED, AUTO, SCATTER, GPUR_STEP_AUTO, 1},
    {"rows, independent", ROWS, INDEPENDENT, MANUAL, COPY, GPUR_STEP_AUTO, 1},
    {"rows, fused", ROWS, UNIFORM, AUTO, COPY, FUSED, 1},
    {"rows, stratified, fused", ROWS, STRATIFIED, AUTO, COPY, FUSED, 1},
    {"frames", FRAMES, UNIFORM, AUTO, COPY, GPUR_STEP_AUTO, 1},
    {"frames, stratified", FRAMES, STRATIFIED, MANUAL, COPY, GPUR_STEP_AUTO, 1},
#endif
    {"few frames", FRAMES, UNIFORM, AUTO, COPY, -1, 1},
    {"few frames, manual flush", FRAMES, UNIFORM, MANUAL, COPY, -1, 1},
    {"few rows, stratified", ROWS, STRATIFIED, AUTO, SCATTER, -1, 1},
    {"few wide rows", ROWS, UNIFORM, AUTO, COPY, -1, MAX_TAGS},
    {"few wide rows by scatter", ROWS, UNIFORM, MANUAL, SCATTER, -1, MAX_TAGS},
};
enum { SETTINGS = sizeof settings / sizeof *settings };

static double seconds_each(void)
{
    const char *const text = getenv("GPUR_TEST_SECONDS");
    return (text ? atof(text) : test_is_long() ? 120.0 : 2.0) / SETTINGS;
}

static void run(stress *s)
{
    CHECK_OK(open_stress(s));
    run_threads(s, seconds_each());
    if (s->learner)
        check_learner(s);
    if (is_prioritized(s))
        check_priorities(s);
    if (!is_failed())
        check_all_rows(s);
}

TEST(no_row_is_torn_or_lost_while_all_append_sample_train_and_act)
{
    for (int i = 0; i < SETTINGS; i++) {
        static stress s;
        memset(&s, 0, sizeof s);
        s.setting = settings[i];
        s.device = test_device();
        run(&s);
        gpur_learner_destroy(s.learner);
        gpur_replay_destroy(s.replay);
        CHECK_EQUAL(test_memory_used(s.device), 0);
        gpur_device_close(s.device);
        TEST_REQUIRE(!is_failed(), "of the setting \"%s\"", s.setting.name);
    }
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(no_row_is_torn_or_lost_while_all_append_sample_train_and_act);
    return test_main_end();
}
