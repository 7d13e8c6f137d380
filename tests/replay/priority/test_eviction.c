/* SPDX-License-Identifier: MIT */
/*
 * Eviction by priority [Horgan et al. 2018, appendix D]: which rows leave, compared draw by draw with a reference, and
 * by chi-square with the probabilities of successive draws; ids, each of which stays that of one row for ever, also
 * while threads append, sample and update; train steps; and what is refused. The chi-square must have a tail of at
 * least 1e-6, so one choice of seeds in a million raises a false alarm. The seeds are fixed.
 */
#include "kernels/lib/random.h"
#include "reference/reference_priority.h"
#include "replay/replay.h"
#include "support/learner_fixture.h"
#include "support/replay_fixture.h"
#include "test.h"

#include <pthread.h>

static const double alarm = 1e-6;

/* 2^-20. Powers of 2 minus it are floats. */
#define OFFSET 9.5367431640625e-7f

typedef struct row {
    int64_t serial; /* the number of the row in the order of appending */
    float priority, data[5];
} row;

static const gpur_field fields[] = {
    {"serial", GPUR_INT64, {0}}, {"priority", GPUR_FLOAT32, {0}}, {"data", GPUR_FLOAT32, {5}}};

static row row_of(int64_t serial, float priority)
{
    row r = {.serial = serial, .priority = priority};
    for (int i = 0; i < 5; i++)
        r.data[i] = (float)((serial * 5 + i) % 65537);
    return r;
}

static gpur_replay_config config_of(int64_t capacity, int64_t block_rows, int64_t max_batch)
{
    gpur_replay_config config = replay_fixture_config(fields, 3, capacity, block_rows, max_batch);
    config.prioritized = 1, config.eviction = GPUR_EVICT_BY_PRIORITY, config.priority_offset = OFFSET;
    return config;
}

typedef struct fixture {
    gpur_device *device;
    gpur_replay *replay;
    gpur_writer *writer;
} fixture;

static gpur_status open_fixture(fixture *f, const gpur_replay_config *config)
{
    memset(f, 0, sizeof *f);
    f->device = test_device();
    GPUR_TRY(gpur_replay_create(f->device, config, &f->replay));
    return gpur_writer_create(f->replay, 1, &f->writer);
}

static void close_fixture(fixture *f)
{
    gpur_writer_destroy(f->writer);
    gpur_replay_destroy(f->replay);
    gpur_device_close(f->device);
}

static gpur_status append_one(const fixture *f, int64_t serial, float priority)
{
    const row r = row_of(serial, priority);
    return gpur_writer_append(f->writer, 1, &r, NULL);
}

/* Copies an array of the device, after all enqueued work. */
static gpur_status read_array(const fixture *f, void *to, const void *from, int64_t bytes)
{
    GPUR_TRY(gpur_copy(f->replay->consumer.stream, to, from, bytes));
    return gpur_stream_sync(f->replay->consumer.stream);
}

/* ---- a model of all of it ---- */

enum { SLOTS = 600, CHUNK = GPUR_EVICT_ROWS };

/* Where each row is. Row n of all takes slot slots[n % capacity]; the slot of the n-th evicted row is put there. */
typedef struct model {
    int64_t capacity, block_rows, max_batch, kept;
    int64_t published, evicted, pending, staged, filled, appended;
    int64_t slots[SLOTS], turn[SLOTS], serial[SLOTS];
    double p[SLOTS], alpha; /* p: 0 in a free slot */
    float *given;           /* by serial */
    uint64_t seed;
    int64_t redrawn; /* draws of a row that was drawn already */
    int64_t updates, stale;
} model;

static void model_begin(model *m, const gpur_replay_config *config, float *given)
{
    memset(m, 0, sizeof *m);
    m->capacity = config->capacity, m->block_rows = config->block_rows, m->max_batch = config->max_batch;
    m->kept = m->max_batch < m->capacity / 2 ? m->max_batch : m->capacity / 2;
    m->alpha = (double)config->evict_alpha, m->seed = config->seed, m->given = given;
    for (int64_t slot = 0; slot < m->capacity; slot++)
        m->slots[slot] = slot;
}

static int64_t model_id(const model *m, int64_t slot)
{
    return m->turn[slot] / 2 * m->capacity + slot;
}

/* The priority of a row that is given none. */
static double model_first(const model *m)
{
    double largest = 0.0;
    for (int64_t slot = 0; slot < m->capacity; slot++)
        largest = fmax(largest, m->p[slot]);
    return largest > 0.0 ? largest : 1.0;
}

static void model_publish(model *m)
{
    for (; m->pending > 0; m->pending--, m->published++) {
        const int64_t slot = m->slots[m->published % m->capacity];
        const float given = m->given[m->published];
        m->serial[slot] = m->published;
        m->p[slot] = given >= 0.0f ? (double)(given + OFFSET) : model_first(m);
        m->turn[slot]++;
    }
}

static void model_take(model *m, double *leaves, int64_t slot)
{
    leaves[slot] = m->p[slot] = 0.0;
    m->turn[slot]++;
    m->slots[m->evicted++ % m->capacity] = slot;
}

/* Draws with replacement, of which the first of each row counts; then draws one by one in place of the others. */
static void model_evict_chunk(model *m, double *leaves, int64_t rows)
{
    const uint64_t step = (uint64_t)m->evicted;
    const int64_t first = m->evicted;
    int64_t drawn[CHUNK];
    for (int64_t n = 0; n < rows; n++)
        drawn[n] = reference_sample_by_priority(leaves, m->capacity, m->seed, GPUR_RANDOM_EVICT, step, n, rows, 0);
    for (int64_t n = 0; n < rows; n++) {
        const int is_first = m->p[drawn[n]] > 0.0;
        if (is_first)
            model_take(m, leaves, drawn[n]);
        drawn[n] = is_first ? drawn[n] : -1;
        m->evicted = first + n + 1; /* a repeated draw keeps its place */
    }
    for (int64_t n = 0; n < rows; n++) {
        if (drawn[n] >= 0)
            continue;
        m->evicted = first + n, m->redrawn++;
        model_take(
            m, leaves,
            reference_sample_by_priority(leaves, m->capacity, m->seed, GPUR_RANDOM_EVICT, step, CHUNK + n, 1, 0));
    }
    m->evicted = first + rows;
}

/* All priorities are powers of 2, so a scale changes no draw. */
static void model_evict(model *m, int64_t rows)
{
    double leaves[SLOTS];
    for (int64_t slot = 0; slot < m->capacity; slot++)
        leaves[slot] = reference_leaf(m->p[slot], m->alpha, 0, REFERENCE_EVICT_ONE);
    for (int64_t part; rows > 0; rows -= part) {
        part = rows < CHUNK ? rows : CHUNK;
        model_evict_chunk(m, leaves, part);
    }
}

static void model_upload(model *m)
{
    if (m->staged == 0)
        return;
    const int64_t leaving = m->published - m->evicted + m->pending + m->staged - m->capacity;
    if (leaving > 0 || m->pending + m->staged + m->kept > m->capacity)
        model_publish(m);
    if (leaving > 0)
        model_evict(m, leaving);
    m->pending += m->staged;
    m->staged = 0;
}

static void model_append(model *m, int64_t count)
{
    for (; count > 0; count--) {
        m->appended++, m->filled++, m->staged++;
        if (m->filled < m->block_rows)
            continue;
        model_upload(m);
        m->filled = 0;
    }
}

/* What every call on the replay does first. */
static void model_refresh(model *m)
{
    model_upload(m);
    model_publish(m);
}

static void model_update(model *m, int64_t count, const int64_t *ids, const float *priorities)
{
    double next[SLOTS] = {0};
    for (int64_t i = 0; i < count; i++) {
        const int64_t slot = ids[i] < 0 ? 0 : ids[i] % m->capacity;
        const int there = ids[i] >= 0 && m->p[slot] > 0.0 && model_id(m, slot) == ids[i];
        m->updates += there, m->stale += !there;
        next[slot] = there ? fmax(next[slot], (double)(priorities[i] + OFFSET)) : next[slot];
    }
    for (int64_t slot = 0; slot < m->capacity; slot++)
        m->p[slot] = next[slot] > 0.0 ? next[slot] : m->p[slot];
}

/* Every slot has the turn and the priority of the model, and every row can be gathered by its id. */
static void check_model(const fixture *f, model *m)
{
    static int64_t turn[SLOTS], ids[SLOTS];
    static float priority[SLOTS];
    static row rows[SLOTS];
    int64_t wrong = -1, live = 0;
    gpur_batch *batch = NULL;
    gpur_priority_stats stats = {.size = sizeof stats};
    model_refresh(m);
    CHECK_OK(gpur_replay_check_priorities(f->replay, &wrong));
    CHECK_EQUAL(wrong, 0);
    CHECK_OK(gpur_replay_get_priority_stats(f->replay, &stats));
    CHECK(stats.updates == m->updates && stats.stale == m->stale && (double)stats.max_priority == model_first(m));
    CHECK_OK(read_array(f, turn, f->replay->priorities.tree.turn, m->capacity * 8));
    CHECK_OK(read_array(f, priority, f->replay->priorities.tree.priority, m->capacity * 4));
    for (int64_t slot = 0; slot < m->capacity; slot++) {
        TEST_REQUIRE(turn[slot] == m->turn[slot] && (double)priority[slot] == m->p[slot],
                     "slot %lld: turn %lld and priority %g; wanted %lld and %g", (long long)slot, (long long)turn[slot],
                     (double)priority[slot], (long long)m->turn[slot], m->p[slot]);
        if (m->p[slot] > 0.0)
            ids[live++] = model_id(m, slot);
    }
    CHECK_EQUAL(replay_fixture_stats(f->replay).visible, live);
    for (int64_t i = 0, n; i < live; i += n) {
        n = live - i < m->max_batch ? live - i : m->max_batch;
        CHECK_OK(gpur_replay_gather(f->replay, n, ids + i, NULL, &batch));
        CHECK_OK(gpur_batch_read(batch, "serial", turn, n * 8));
        CHECK_OK(gpur_batch_read(batch, "data", rows, n * 20));
        gpur_batch_release(batch);
        for (int64_t k = 0; k < n; k++) {
            const row want = row_of(m->serial[ids[i + k] % m->capacity], 0.0f);
            CHECK(turn[k] == want.serial && memcmp((float *)rows + 5 * k, want.data, sizeof want.data) == 0);
        }
    }
}

static float random_priority(uint64_t *random)
{
    return ldexpf(1.0f, (int)xorshift_below(random, 12) - 9) - OFFSET;
}

/* Ids of rows that are there, of rows that have left, and, where some have, of rows to come; and -1. */
static int64_t random_id(const model *m, uint64_t *random)
{
    const int64_t dice = xorshift_below(random, 20), slot = xorshift_below(random, m->capacity);
    const int64_t id = model_id(m, slot) - (dice < 5 ? m->capacity * xorshift_below(random, 3) : 0);
    return dice == 0 || id < 0 || (m->evicted == 0 && id >= m->published) ? -1 : id;
}

static void update_some(const fixture *f, model *m, uint64_t *random)
{
    enum { MOST = 1200 };
    static int64_t ids[MOST];
    static float p[MOST];
    const int64_t count = 1 + xorshift_below(random, m->max_batch);
    model_refresh(m);
    for (int64_t i = 0; i < count; i++)
        ids[i] = random_id(m, random), p[i] = random_priority(random);
    CHECK_OK(gpur_replay_update_priorities(f->replay, count, ids, p, NULL));
    model_update(m, count, ids, p);
}

static void append_some(const fixture *f, model *m, uint64_t *random)
{
    row rows[60];
    const int64_t count = 1 + xorshift_below(random, 60);
    for (int64_t i = 0; i < count; i++) {
        m->given[m->appended + i] = xorshift_below(random, 10) ? random_priority(random) : NAN;
        rows[i] = row_of(m->appended + i, m->given[m->appended + i]);
    }
    CHECK_OK(gpur_writer_append(f->writer, count, rows, NULL));
    model_append(m, count);
}

static void trim_some(const fixture *f, model *m, uint64_t *random)
{
    const int64_t keep = xorshift_below(random, m->capacity + 1);
    model_refresh(m);
    CHECK_OK(gpur_replay_trim(f->replay, keep));
    if (m->published - m->evicted > keep)
        model_evict(m, m->published - m->evicted - keep);
}

static void sample_some(const fixture *f, model *m, uint64_t *random)
{
    gpur_batch *batch = NULL;
    model_refresh(m);
    if (m->published == 0)
        return;
    CHECK_OK(gpur_replay_sample(f->replay, 1 + xorshift_below(random, m->max_batch), NULL, &batch));
    gpur_batch_release(batch);
}

static void check_schedule(int64_t capacity, int64_t block_rows, int64_t max_batch, int32_t norm)
{
    enum { ROUNDS = IN_RACE_CHECK ? 60 : 400 };
    static float given[ROUNDS * 60];
    static model m;
    uint64_t random = (uint64_t)capacity * 7919 + 1;
    fixture f;
    gpur_replay_config config = config_of(capacity, block_rows, max_batch);
    config.evict_alpha = -1.0f, config.weight_norm = norm, config.seed = 5;
    CHECK_OK(open_fixture(&f, &config));
    model_begin(&m, &config, given);
    for (int round = 0; round < ROUNDS; round++) {
        const int64_t dice = xorshift_below(&random, 16);
        if (dice < 9)
            append_some(&f, &m, &random);
        else if (dice < 13)
            update_some(&f, &m, &random);
        else if (dice < 15)
            sample_some(&f, &m, &random);
        else
            trim_some(&f, &m, &random);
        if (round % 8 == 7)
            check_model(&f, &m);
        TEST_REQUIRE(atomic_load(&test_state.failures) == 0, "round %d, capacity %d", round, (int)capacity);
    }
    CHECK(IN_RACE_CHECK || (m.redrawn > 0 && m.evicted > 2 * capacity && m.stale > 0));
    close_fixture(&f);
}

/* With a capacity of 600, several launches evict; with 1,100 ids, an update takes several launches. */
TEST(rows_leave_as_a_reference_draws_them_and_their_slots_get_new_ids)
{
    check_schedule(40, 7, 16, GPUR_WEIGHT_NORM_BATCH);
    check_schedule(5, 1, 2, GPUR_WEIGHT_NORM_MEMORY);
    check_schedule(300, 33, 8, GPUR_WEIGHT_NORM_MEMORY);
    check_schedule(SLOTS, 50, 17, GPUR_WEIGHT_NORM_BATCH);
}

/* ---- probabilities ---- */

enum { KINDS = 6, LEAVING = 3, SETS = 20 };
static const float kind_priority[KINDS] = {0.001f, 0.05f, 0.3f, 1.0f, 9.0f, 300.0f};

/* The probability that successive draws take the kinds of this set, in any order. */
static double probability_of(int set, double left)
{
    double sum = 0.0;
    if (set == 0)
        return 1.0;
    for (int k = 0; k < KINDS; k++)
        if (set >> k & 1) {
            const double w = pow((double)kind_priority[k] + (double)OFFSET, -0.4);
            sum += w / left * probability_of(set & ~(1 << k), left - w);
        }
    return sum;
}

/* The kinds whose row is not there. A row's kind is the remainder of its serial. */
static int find_missing(const fixture *f, int64_t capacity)
{
    int64_t turn[16], ids[16], serials[16];
    int missing = (1 << KINDS) - 1, live = 0;
    gpur_batch *batch = NULL;
    if (read_array(f, turn, f->replay->priorities.tree.turn, capacity * 8) != GPUR_OK)
        return -1;
    for (int64_t slot = 0; slot < capacity; slot++)
        if (turn[slot] % 2 == 1)
            ids[live++] = turn[slot] / 2 * capacity + slot;
    if (gpur_replay_gather(f->replay, live, ids, NULL, &batch) != GPUR_OK ||
        gpur_batch_read(batch, "serial", serials, live * 8) != GPUR_OK)
        return -1;
    gpur_batch_release(batch);
    for (int i = 0; i < live; i++)
        missing &= ~(1 << serials[i] % KINDS);
    return missing;
}

/* Of six rows, three leave; the set of them has the probability of successive draws without replacement. Then rows of
 * the same priorities come in their place. */
TEST(sets_of_rows_leave_with_the_probabilities_of_successive_draws)
{
    enum { TRIALS = 10000 };
    const int64_t trials = IN_RACE_CHECK || IS_WATCHED ? 200 : TRIALS, capacity = 8;
    int64_t counts[1 << KINDS] = {0};
    double total = 0.0, statistic = 0.0, sum = 0.0;
    fixture f;
    const gpur_replay_config config = config_of(capacity, 2, 3);
    CHECK_OK(open_fixture(&f, &config));
    for (int k = 0; k < KINDS; k++) {
        total += pow((double)kind_priority[k] + (double)OFFSET, -0.4);
        CHECK_OK(append_one(&f, k, kind_priority[k]));
    }
    for (int64_t trial = 1; trial <= trials; trial++) {
        CHECK_OK(gpur_replay_trim(f.replay, KINDS - LEAVING));
        const int missing = find_missing(&f, capacity);
        CHECK(missing >= 0);
        counts[missing]++;
        for (int k = 0; k < KINDS; k++)
            if (missing >> k & 1)
                CHECK_OK(append_one(&f, trial * KINDS + k, kind_priority[k]));
    }
    for (int set = 0; set < 1 << KINDS; set++) {
        if (__builtin_popcount((unsigned)set) != LEAVING) {
            CHECK_EQUAL(counts[set], 0);
            continue;
        }
        const double expected = (double)trials * probability_of(set, total);
        sum += expected;
        statistic += ((double)counts[set] - expected) * ((double)counts[set] - expected) / expected;
    }
    CHECK_NEAR(sum, trials, 1e-6 * (double)trials);
    if (trials == TRIALS) /* each set is expected often enough */
        CHECK(chi_square_tail(statistic, SETS - 1) >= alarm);
    close_fixture(&f);
}

/* ---- ids ---- */

enum { KNOWN = 1 << 22 };

/* The serial number, plus 1, of the row that was seen with an id. */
static _Atomic int64_t known[KNOWN];

/* 1 if the ids of the batch are those of the rows that they were before. Releases the batch. */
static int batch_is_honest(gpur_batch *batch, int64_t count)
{
    int64_t ids[256], serials[256];
    float data[256][5];
    int is_honest = gpur_batch_read(batch, "id", ids, count * 8) == GPUR_OK &&
                    gpur_batch_read(batch, "serial", serials, count * 8) == GPUR_OK &&
                    gpur_batch_read(batch, "data", data, count * 20) == GPUR_OK;
    gpur_batch_release(batch);
    for (int64_t i = 0; is_honest && i < count; i++) {
        const row want = row_of(serials[i], 0.0f);
        int64_t before = 0;
        is_honest =
            ids[i] >= 0 && ids[i] < KNOWN && memcmp(data[i], want.data, sizeof want.data) == 0 &&
            (atomic_compare_exchange_strong(&known[ids[i]], &before, serials[i] + 1) || before == serials[i] + 1);
    }
    return is_honest;
}

/* However rows are appended, and however blocks are published. */
static void check_ids(gpur_replay_config config)
{
    enum { ROWS = 4000, PART = 50, BATCH = 64 };
    static row rows[PART];
    static float p[PART], data[PART][5];
    int64_t ids[BATCH], serials[PART], stale = 0;
    float priorities[BATCH];
    uint64_t random = 11;
    gpur_batch *batch = NULL;
    fixture f;
    memset(known, 0, sizeof known);
    CHECK_OK(open_fixture(&f, &config));
    for (int64_t next = 0; next < (IN_RACE_CHECK ? ROWS / 5 : ROWS); next += PART) {
        const void *const arrays[] = {serials, p, data};
        for (int i = 0; i < PART; i++) {
            rows[i] = row_of(next + i, (float)xorshift_below(&random, 100) * 0.1f);
            serials[i] = rows[i].serial, p[i] = rows[i].priority;
            memcpy(data[i], rows[i].data, sizeof data[i]);
        }
        CHECK_OK(next / PART % 2 ? gpur_writer_append(f.writer, PART, rows, NULL)
                                 : gpur_writer_append_fields(f.writer, PART, arrays, NULL, NULL));
        if (next > 0) { /* ids of the batch before */
            for (int i = 0; i < BATCH; i++)
                priorities[i] = (float)xorshift_below(&random, 100) * 0.1f;
            CHECK_OK(gpur_replay_update_priorities(f.replay, BATCH, ids, priorities, NULL));
        }
        CHECK_OK(gpur_writer_flush(f.writer));
        CHECK_OK(gpur_replay_sample(f.replay, BATCH, NULL, &batch));
        CHECK_OK(gpur_batch_read(batch, "id", ids, sizeof ids));
        CHECK(batch_is_honest(batch, BATCH));
    }
    const gpur_replay_stats stats = replay_fixture_stats(f.replay);
    gpur_priority_stats priority_stats = {.size = sizeof priority_stats};
    CHECK_OK(gpur_replay_get_priority_stats(f.replay, &priority_stats));
    CHECK(stats.evicted + stats.visible == stats.appended && stats.visible <= config.capacity);
    CHECK_EQUAL(priority_stats.nonzero, stats.visible);
    for (int64_t id = 0; id < KNOWN; id++) { /* an id of a row that has left is stale; of one that has not, it is not */
        if (atomic_load(&known[id]) == 0)
            continue;
        const gpur_status status = gpur_replay_get_priorities(f.replay, 1, &id, priorities);
        CHECK(status == GPUR_OK || status == GPUR_EVICTED);
        stale += status == GPUR_EVICTED;
        CHECK_OK(gpur_replay_update_priorities(f.replay, 1, &id, priorities, NULL));
    }
    const int64_t before = priority_stats.stale;
    CHECK_OK(gpur_replay_get_priority_stats(f.replay, &priority_stats));
    CHECK(stale > 0 && priority_stats.stale - before == stale);
    close_fixture(&f);
}

TEST(an_id_stays_that_of_one_row_however_rows_come)
{
    for (int i = 0; i < 8; i += IN_RACE_CHECK ? 3 : 1) {
        gpur_replay_config config = config_of(i % 2 ? 400 : 131, 60, 64);
        config.flush = i / 2 % 2, config.upload = i / 4 % 2;
        config.index_source = i % 2 ? GPUR_PRIORITIZED_INDEPENDENT : GPUR_SOURCE_AUTO;
        check_ids(config);
        TEST_REQUIRE(atomic_load(&test_state.failures) == 0, "setting %d", i);
    }
}

TEST(an_id_that_is_not_there_is_told_apart)
{
    fixture f;
    int64_t ids[2] = {0, 4}, found[2], wrong[2] = {-3, 8};
    float p[2], weights[2];
    gpur_batch *batch = NULL;
    const gpur_replay_config config = config_of(4, 1, 2);
    CHECK_OK(open_fixture(&f, &config));
    for (int64_t i = 0; i < 4; i++)
        CHECK_OK(append_one(&f, i, i == 0 ? 1e-9f : 1e9f)); /* row 0 leaves but once in 10^4 times */
    CHECK_OK(gpur_replay_get_priorities(f.replay, 1, ids, p));
    CHECK_OK(append_one(&f, 4, 1e9f));
    CHECK_FAILS(gpur_replay_get_priorities(f.replay, 2, ids, p), GPUR_EVICTED,
                "ids[0] is 0, and no visible transition has this id");
    CHECK_OK(gpur_replay_get_priorities(f.replay, 1, &ids[1], p));
    CHECK_OK(gpur_replay_gather(f.replay, 2, ids, NULL, &batch));
    CHECK_OK(gpur_batch_read(batch, "id", found, sizeof found));
    CHECK_OK(gpur_batch_read(batch, "weight", weights, sizeof weights));
    gpur_batch_release(batch);
    CHECK(found[0] == -1 && found[1] == 4 && weights[0] == 0.0f && weights[1] == 1.0f);
    for (int i = 0; i < 2; i++) {
        CHECK_FAILS(gpur_replay_get_priorities(f.replay, 1, &wrong[i], p), GPUR_INVALID_ARGUMENT,
                    i ? "ids[0] is 8, which no transition has had; their ids are 0 to 7 at most"
                      : "ids[0] is -3, which no transition has had; their ids are 0 to 7 at most");
        CHECK_FAILS(gpur_replay_gather(f.replay, 1, &wrong[i], NULL, &batch), GPUR_INVALID_ARGUMENT, "which no");
        CHECK_FAILS(gpur_replay_update_priorities(f.replay, 1, &wrong[i], p, NULL), GPUR_INVALID_ARGUMENT, "which no");
    }
    close_fixture(&f);
}

/* ---- threads ---- */

typedef struct crowd {
    fixture f;
    _Atomic int64_t serial;
    atomic_int over, failed;
} crowd;

static void *append_all_the_time(void *context)
{
    crowd *const c = context;
    gpur_writer *writer = NULL;
    uint64_t random = 3;
    row rows[20];
    if (gpur_writer_create(c->f.replay, 1, &writer) != GPUR_OK)
        atomic_store(&c->failed, 1);
    while (!atomic_load(&c->over) && !atomic_load(&c->failed)) {
        const int64_t count = 1 + xorshift_below(&random, 20), first = atomic_fetch_add(&c->serial, count);
        for (int64_t i = 0; i < count; i++)
            rows[i] = row_of(first + i, (float)xorshift_below(&random, 100) * 0.1f);
        if (gpur_writer_append(writer, count, rows, NULL) != GPUR_OK)
            atomic_store(&c->failed, 2);
    }
    gpur_writer_destroy(writer);
    return NULL;
}

static void *sample_and_update(void *context)
{
    enum { BATCH = 32, BATCHES = IN_RACE_CHECK || IS_WATCHED ? 60 : 400 };
    crowd *const c = context;
    int64_t ids[BATCH];
    float p[BATCH];
    for (int i = 0; i < BATCHES && !atomic_load(&c->failed); i++) {
        gpur_batch *batch = NULL;
        if (gpur_replay_sample(c->f.replay, BATCH, NULL, &batch) != GPUR_OK ||
            gpur_batch_read(batch, "id", ids, sizeof ids) != GPUR_OK || !batch_is_honest(batch, BATCH))
            atomic_store(&c->failed, 3);
        for (int k = 0; k < BATCH; k++)
            p[k] = (float)(ids[k] % 7) * 0.3f;
        if (gpur_replay_update_priorities(c->f.replay, BATCH, ids, p, NULL) != GPUR_OK ||
            (i % 20 == 19 && gpur_replay_trim(c->f.replay, 150) != GPUR_OK))
            atomic_store(&c->failed, 4);
    }
    return NULL;
}

TEST(writers_and_consumers_run_at_the_same_time)
{
    static crowd c;
    pthread_t threads[4];
    int64_t wrong = -1;
    gpur_replay_config config = config_of(200, 25, 32);
    memset(known, 0, sizeof known);
    memset(&c, 0, sizeof c);
    CHECK_OK(open_fixture(&c.f, &config));
    for (int64_t i = 0; i < 100; i++)
        CHECK_OK(append_one(&c.f, i, 1.0f));
    atomic_store(&c.serial, 100);
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, i < 2 ? append_all_the_time : sample_and_update, &c) == 0);
    for (int i = 3; i >= 0; i--) {
        pthread_join(threads[i], NULL);
        if (i == 2)
            atomic_store(&c.over, 1);
    }
    CHECK_EQUAL(atomic_load(&c.failed), 0);
    CHECK_OK(gpur_replay_check_priorities(c.f.replay, &wrong));
    const gpur_replay_stats stats = replay_fixture_stats(c.f.replay);
    CHECK(wrong == 0 && stats.evicted > 0 && stats.evicted + stats.visible == stats.appended);
    close_fixture(&c.f);
}

/* ---- train steps ---- */

/* The errors of train steps change the leaves of both trees, in a kernel of their own or with all of a step. */
static void check_training(int32_t step_kernel, int64_t batch_size)
{
    static const gpur_field with[] = {
        {"obs", GPUR_FLOAT32, {FIXTURE_FEATURES}},      {"action", GPUR_INT32, {0}},    {"reward", GPUR_FLOAT32, {0}},
        {"next_obs", GPUR_FLOAT32, {FIXTURE_FEATURES}}, {"terminated", GPUR_BOOL, {0}}, {"truncated", GPUR_BOOL, {0}}};
    learner_fixture_row r = {.reward = 1.0f};
    gpur_dqn_config learner_config = learner_fixture_config(GPUR_HEAD_DUELING, 1);
    gpur_replay_config config = replay_fixture_config(with, 6, 4000, 100, batch_size);
    gpur_learner *learner = NULL;
    gpur_priority_stats stats = {.size = sizeof stats};
    int64_t wrong = -1, steps = 0;
    fixture f;
    config.prioritized = 1, config.eviction = GPUR_EVICT_BY_PRIORITY;
    learner_config.batch_size = batch_size, learner_config.step_kernel = step_kernel;
    CHECK_OK(open_fixture(&f, &config));
    CHECK_OK(gpur_dqn_create(f.replay, &learner_config, &learner));
    for (int64_t i = 0; i < 4500; i++) {
        random_floats((uint64_t)i, r.obs, FIXTURE_FEATURES);
        random_floats((uint64_t)i + 1, r.next_obs, FIXTURE_FEATURES);
        r.action = (int32_t)(i % FIXTURE_ACTIONS), r.terminated = i % 10 == 9;
        CHECK_OK(gpur_writer_append(f.writer, 1, &r, NULL));
        if (i > 2000 && i % 250 == 0) {
            CHECK_OK(gpur_learner_train(learner, 3));
            steps += 3;
        }
    }
    CHECK_OK(gpur_replay_check_priorities(f.replay, &wrong));
    CHECK_OK(gpur_replay_get_priority_stats(f.replay, &stats));
    CHECK(wrong == 0 && stats.stale == 0 && stats.updates == steps * batch_size);
    CHECK(replay_fixture_stats(f.replay).evicted > 0);
    gpur_learner_destroy(learner);
    close_fixture(&f);
}

TEST(errors_of_train_steps_decide_which_rows_leave)
{
    check_training(GPUR_STEP_LIBRARIES, 16);
    check_training(GPUR_STEP_FUSED, 16);
    if (!IN_RACE_CHECK) /* updates of more rows than a block has are raced in test_sum_tree.c */
        check_training(GPUR_STEP_LIBRARIES, 1500);
}

/* ---- refusals ---- */

#define REFUSED(change, message)                                                                                       \
    do {                                                                                                               \
        gpur_replay_config c = config_of(100, 10, 10);                                                                 \
        gpur_replay *made = NULL;                                                                                      \
        change;                                                                                                        \
        CHECK_FAILS(gpur_replay_create(device, &c, &made), GPUR_INVALID_ARGUMENT, message);                            \
        CHECK(!made);                                                                                                  \
    } while (0)

TEST(what_it_cannot_do_is_refused_with_values)
{
    static const gpur_field linked[] = {{"priority", GPUR_FLOAT32, {0}}, {"previous", GPUR_INT64, {0}}};
    static const gpur_field frames[] = {
        {"obs", GPUR_UINT8, {4, 8}}, {"next_obs", GPUR_UINT8, {4, 8}}, {"terminated", GPUR_BOOL, {0}}};
    gpur_device *const device = test_device();
    REFUSED(c.eviction = 2, "gpur_replay_config.eviction is 2; it must be GPUR_EVICT_OLDEST (0) or");
    REFUSED(c.prioritized = 0; c.priority_offset = 1e-6f, "prioritized is 0; it must be 1");
    REFUSED(c.index_source = GPUR_UNIFORM, "index_source is 1, uniform; it must be GPUR_SOURCE_AUTO (0) or");
    REFUSED(c.evict_alpha = 0.4f, "gpur_replay_config.evict_alpha is 0.4; it must be -10 to 0");
    REFUSED(c.evict_alpha = -10.5f, "gpur_replay_config.evict_alpha is -10.5; it must be -10 to 0");
    REFUSED(c.evict_alpha = NAN, "gpur_replay_config.evict_alpha is nan; it must be -10 to 0");
    REFUSED(c.priority_offset = 0.0f, "priority_offset is 0; it must be above 0");
    REFUSED(c.fields = linked; c.field_count = 2, "the schema has a field \"previous\"");
    REFUSED(c.fields = frames; c.field_count = 3; c.layout = GPUR_LAYOUT_FRAMES; c.frame_stack = 4; c.max_batch = 0;
            c.block_rows = 0, "layout is GPUR_LAYOUT_FRAMES (1); it must be GPUR_LAYOUT_ROWS (0)");
    gpur_device_close(device);
}

TEST(a_learner_that_samples_uniformly_is_refused)
{
    static const gpur_field with[] = {{"obs", GPUR_FLOAT32, {FIXTURE_FEATURES}},
                                      {"action", GPUR_INT32, {0}},
                                      {"reward", GPUR_FLOAT32, {0}},
                                      {"next_obs", GPUR_FLOAT32, {FIXTURE_FEATURES}},
                                      {"terminated", GPUR_BOOL, {0}}};
    gpur_dqn_config learner_config = learner_fixture_config(GPUR_HEAD_DUELING, 1);
    gpur_replay_config config = replay_fixture_config(with, 5, 100, 10, 16);
    gpur_learner *learner = NULL;
    fixture f;
    config.prioritized = 1, config.eviction = GPUR_EVICT_BY_PRIORITY;
    learner_config.index_source = GPUR_UNIFORM;
    CHECK_OK(open_fixture(&f, &config));
    CHECK_FAILS(gpur_dqn_create(f.replay, &learner_config, &learner), GPUR_INVALID_ARGUMENT,
                "index_source is 1, uniform, and the replay evicts by priority");
    close_fixture(&f);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(rows_leave_as_a_reference_draws_them_and_their_slots_get_new_ids);
    RUN(sets_of_rows_leave_with_the_probabilities_of_successive_draws);
    RUN(an_id_stays_that_of_one_row_however_rows_come);
    RUN(an_id_that_is_not_there_is_told_apart);
    RUN(writers_and_consumers_run_at_the_same_time);
    RUN(errors_of_train_steps_decide_which_rows_leave);
    RUN(what_it_cannot_do_is_refused_with_values);
    RUN(a_learner_that_samples_uniformly_is_refused);
    return test_main_end();
}
