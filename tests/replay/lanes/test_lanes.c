/* SPDX-License-Identifier: MIT */
/*
 * Lanes beside a model that keeps every step that was ever added, and answers each question from them in the simplest
 * way: which rows are whole, and what transition of n steps begins with each. Episodes end at random offsets by
 * termination, truncation and both, with and without final observations, with each way to reset, and by resets that the
 * caller makes amid episodes; several pairs of observations, of odd types and shapes; stacks of frames, padded in both
 * ways, some of them broken; files in between, from which replays of as many, more and fewer steps go on.
 * The distribution of draws must have a chi-square tail of at least 1e-6; the seeds are fixed.
 */
#include "base/numbers.h"
#include "file/safetensors.h"
#include "kernels/lib/random.h"
#include "replay/replay.h"
#include "support/file_utils.h"
#include "support/replay_fixture.h"
#include "test.h"

enum { MAX_LANES = 67, MAX_STEPS = 160, MAX_ROWS = MAX_LANES * MAX_STEPS, FIELDS = 10, WIDEST = 128 };

/* obs and pixels become stacks where a case says so. */
static const gpur_field plain_fields[FIELDS] = {
    {"obs", GPUR_FLOAT32, {5}},          {"next_obs", GPUR_FLOAT32, {5}},     {"reward", GPUR_FLOAT32, {0}},
    {"pixels", GPUR_UINT8, {3, 3}},      {"next_pixels", GPUR_UINT8, {3, 3}}, {"action", GPUR_INT64, {0}},
    {"terminated", GPUR_BOOL, {0}},      {"truncated", GPUR_UINT8, {0}},      {"critic", GPUR_FLOAT16, {16}},
    {"next_critic", GPUR_FLOAT16, {16}},
};
enum { OBS, NEXT_OBS, REWARD, PIXELS, NEXT_PIXELS, ACTION, TERMINATED, TRUNCATED, CRITIC, NEXT_CRITIC };

/* How a case is set up. */
typedef struct setting {
    int64_t lanes, steps, added; /* added: steps in all */
    int resets_later;
    int has_finals; /* 1: final observations are given */
    int ends;       /* an episode ends after a step with probability 1 / ends */
    int32_t n_step;
    float gamma, clip;
    int is_prioritized;
    int64_t loads[2]; /* steps of the replays that go on from a file */
    int32_t stack;    /* frames of obs; 0: it is no stack */
    int32_t is_last;  /* their axis is the last one */
    int breaks;       /* a stack has a wrong frame with probability 1 / breaks; 0: never */
} setting;

typedef struct model {
    setting s;
    int64_t count;                                           /* steps added */
    unsigned char terminated[MAX_ROWS], truncated[MAX_ROWS]; /* (added, lanes) as given */
    float reward[MAX_ROWS];
    int is_reset[MAX_ROWS];  /* of a row whose action reset its environment, or after which the caller did */
    int64_t final[MAX_ROWS]; /* number of the row's final observation; -1: none */
    int64_t finals;
    float priority[MAX_ROWS]; /* 0: it never was whole */
    int64_t oldest;           /* the first step of the file that was loaded last */
    int is_lost[MAX_ROWS];    /* of a row whose final observation was overwritten before a file was loaded */
    int64_t begin[MAX_ROWS];  /* the step of the first frame of the row's episode; below 0 if it began before step 0 */
    int repeats[MAX_ROWS];    /* 1: this frame stands for those before it; 0: zeros do */
    int is_bent[MAX_ROWS], final_is_bent[MAX_ROWS];     /* 1: the stack that is given has a wrong frame */
    int is_broken[MAX_ROWS], final_is_broken[MAX_ROWS]; /* 1: and this is seen */
    int64_t compared, broken; /* up to this step all stacks are compared; how many are broken */
    int64_t cut;              /* rows that were cut by the caller's resets, where environments are reset later */
} model;

static model m;
static gpur_field fields[FIELDS];
static char part_names[2][16] = {"obs.pixels", "next_obs.pixels"};

/* Names and shapes: of a stack, {5} becomes {K, 5} or {5, K}. */
static void set_fields(const setting *s)
{
    memcpy(fields, plain_fields, sizeof fields);
    for (int f = 0; f < FIELDS && s->stack > 0; f++) {
        int32_t *const shape = fields[f].shape;
        if (f != OBS && f != NEXT_OBS && f != PIXELS && f != NEXT_PIXELS)
            continue;
        const int dims = f == OBS || f == NEXT_OBS ? 1 : 2;
        if (!s->is_last)
            memmove(shape + 1, shape, (size_t)dims * sizeof *shape);
        shape[s->is_last ? dims : 0] = s->stack;
        if (dims == 2)
            fields[f].name = part_names[f == NEXT_PIXELS];
    }
}

static struct {
    gpur_device *device;
    gpur_replay *replay;
    gpur_stream *stream; /* this and the next four are of the replay */
    gpur_schema schema;
    gpur_priorities priorities;
    gpur_lane_store store;
    gpur_window *window;
    unsigned char *device_fields[FIELDS]; /* of one step, or of a batch: (MAX_LANES * MAX_STEPS) values */
    int64_t *ids, *id;
    float *weight, *discount;
    int32_t *steps;
    float *values;       /* of priorities */
    unsigned char *mask; /* and is_first */
} w;

/* Byte `at` of a value, which tells the field, the step, the lane, and whether it is a final observation. */
static unsigned char byte_of(int field, int64_t step, int64_t lane, int is_final, int64_t at)
{
    uint64_t x = (uint64_t)field * 0x9E3779B97F4A7C15u + (uint64_t)step * 0xC2B2AE3D27D4EB4Fu +
                 (uint64_t)lane * 0x165667B19E3779F9u + (uint64_t)is_final * 0x27D4EB2F165667C5u + (uint64_t)at;
    x ^= x >> 31, x *= 0x94D049BB133111EBu, x ^= x >> 29;
    return (unsigned char)x;
}

static int is_next(int field)
{
    return field == NEXT_OBS || field == NEXT_PIXELS || field == NEXT_CRITIC;
}

/* The field whose values those of this one are. */
static int stored_of(int field)
{
    return is_next(field) ? field - 1 : field;
}

static int64_t row_of(int64_t step, int64_t lane)
{
    return step * m.s.lanes + lane;
}

static int field_is_stack(int field)
{
    return m.s.stack > 0 && (field == OBS || field == NEXT_OBS || field == PIXELS || field == NEXT_PIXELS);
}

/* Byte `at` of the frame `back` steps before the observation of a row, or before its final one. */
static unsigned char frame_byte(int field, int64_t step, int64_t lane, int is_final, int64_t back, int64_t at)
{
    const int64_t row = row_of(step, lane), of = step + is_final - back;
    if (back == 0)
        return byte_of(field, step, lane, is_final, at);
    if (of >= m.begin[row])
        return byte_of(field, of, lane, 0, at);
    return m.repeats[row] ? byte_of(field, m.begin[row], lane, 0, at) : 0;
}

/* Byte `at` of a value of a field that is stored, as a draw should give it. */
static unsigned char value_byte(int field, int64_t step, int64_t lane, int is_final, int64_t at)
{
    const int64_t bytes = w.schema.fields[field].bytes, number = gpur_dtype_bytes(fields[field].dtype);
    if (!field_is_stack(field))
        return byte_of(field, step, lane, is_final, at);
    if (!m.s.is_last) {
        const int64_t frame_bytes = bytes / m.s.stack;
        return frame_byte(field, step, lane, is_final, m.s.stack - 1 - at / frame_bytes, at % frame_bytes);
    }
    const int64_t which = at / number;
    return frame_byte(field, step, lane, is_final, m.s.stack - 1 - which % m.s.stack,
                      which / m.s.stack * number + at % number);
}

/* With alpha 1 and offset 0 leaves are in proportion to priorities, but for their rounding. */
static gpur_replay *open_replay(const setting *s)
{
    gpur_replay *replay = NULL;
    gpur_replay_config config = {0};
    gpur_replay_config_init(&config, sizeof config);
    config.fields = fields, config.field_count = FIELDS;
    config.layout = GPUR_LAYOUT_LANES;
    config.lanes = s->lanes, config.capacity = s->lanes * s->steps;
    config.lane_autoreset = s->resets_later    ? GPUR_AUTORESET_NEXT_STEP
                            : s->lanes % 2 > 0 ? GPUR_AUTORESET_DISABLED
                                               : GPUR_AUTORESET_SAME_STEP;
    config.reward_clip = s->clip;
    config.frame_stack = s->stack > 0 ? s->stack : 1;
    config.stack_axis = s->is_last ? GPUR_STACK_LAST : GPUR_STACK_FIRST;
    config.max_batch = MAX_ROWS;
    config.prioritized = s->is_prioritized;
    if (s->is_prioritized)
        config.alpha = 1.0f, config.priority_offset = 0.0f;
    (void)gpur_replay_create(w.device, &config, &replay);
    return replay;
}

static void use_replay(gpur_replay *replay)
{
    TEST_REQUIRE(replay, "no replay: %s", gpur_last_error());
    w.replay = replay;
    w.stream = replay->consumer.stream;
    w.schema = replay->schema;
    w.priorities = replay->priorities;
    w.store = replay->lanes;
    w.window = replay->window.device;
}

static void begin(const setting *s)
{
    memset(&m, 0, sizeof m);
    memset(&w, 0, sizeof w);
    m.s = *s;
    w.device = test_device();
    set_fields(s);
    use_replay(open_replay(s));
    CHECK_OK(gpur_memory_alloc(w.device, MAX_ROWS * 4, "priorities", (void **)&w.values));
    for (int f = 0; f < FIELDS; f++)
        CHECK_OK(
            gpur_memory_alloc(w.device, MAX_ROWS * w.schema.fields[f].bytes, "values", (void **)&w.device_fields[f]));
    CHECK_OK(gpur_memory_alloc(w.device, MAX_ROWS * 8, "ids", (void **)&w.ids));
    CHECK_OK(gpur_memory_alloc(w.device, MAX_ROWS * 8, "ids", (void **)&w.id));
    CHECK_OK(gpur_memory_alloc(w.device, MAX_ROWS * 4, "weights", (void **)&w.weight));
    CHECK_OK(gpur_memory_alloc(w.device, MAX_ROWS * 4, "discounts", (void **)&w.discount));
    CHECK_OK(gpur_memory_alloc(w.device, MAX_ROWS * 4, "steps", (void **)&w.steps));
    CHECK_OK(gpur_memory_alloc(w.device, MAX_ROWS * 2, "masks", (void **)&w.mask));
}

static void end(void)
{
    CHECK_OK(gpur_stream_sync(w.stream));
    for (int f = 0; f < FIELDS; f++)
        gpur_memory_free(w.device, w.device_fields[f]);
    gpur_memory_free(w.device, w.ids);
    gpur_memory_free(w.device, w.id);
    gpur_memory_free(w.device, w.weight);
    gpur_memory_free(w.device, w.discount);
    gpur_memory_free(w.device, w.steps);
    gpur_memory_free(w.device, w.mask);
    gpur_memory_free(w.device, w.values);
    gpur_replay_destroy(w.replay);
    gpur_device_close(w.device);
}

static int has_ended(int64_t row)
{
    return !m.is_reset[row] && (m.terminated[row] || m.truncated[row]);
}

/* The observation of a row that was added: its episode, and whether its stacks have a wrong frame. */
static void model_stack(uint64_t *random, int64_t lane)
{
    const int64_t row = row_of(m.count, lane), before = row - m.s.lanes, far = -1000;
    const int begins = m.count > 0 && (m.is_reset[before] || (!m.s.resets_later && has_ended(before)));
    if (m.s.stack == 0)
        return;
    m.begin[row] = m.count == 0 ? far : begins ? m.count : m.begin[before];
    m.repeats[row] = begins ? (int)xorshift_below(random, 2) : m.count > 0 && m.repeats[before];
    m.is_bent[row] = m.count > 0 && m.s.breaks > 0 && xorshift_below(random, m.s.breaks) == 0;
    m.final_is_bent[row] = m.s.breaks > 0 && xorshift_below(random, m.s.breaks) == 0;
    const int64_t age = m.count - m.begin[row];
    m.is_broken[row] = m.is_bent[row] && (age < m.s.stack || m.count < m.compared);
    m.final_is_broken[row] = m.final_is_bent[row] && m.s.has_finals && !m.s.resets_later && has_ended(row) &&
                             !m.is_broken[row] && (age + 1 < m.s.stack || m.count < m.compared);
    if (begins && m.is_broken[row])
        m.repeats[row] = 0; /* the steps after it are given as if zeros had stood there */
    m.broken += m.is_broken[row] + m.final_is_broken[row];
}

/* Adds a random step to the model. */
static void model_add(uint64_t *random)
{
    for (int64_t lane = 0; lane < m.s.lanes; lane++) {
        const int64_t row = row_of(m.count, lane);
        const int64_t kind = xorshift_below(random, 3), ends = xorshift_below(random, m.s.ends) == 0;
        m.terminated[row] = ends && kind != 0 ? (unsigned char)(m.s.ends > 2 ? 1 : 3) : 0; /* any byte but 0 is 1 */
        m.truncated[row] = ends && kind != 1;
        m.reward[row] = (float)(xorshift_below(random, 2001) - 1000) / 256.0f;
        m.is_reset[row] = m.s.resets_later && m.count > 0 && has_ended(row - m.s.lanes);
        model_stack(random, lane);
        const int is_taken = !m.is_broken[row] && !m.final_is_broken[row];
        m.final[row] = m.s.has_finals && !m.s.resets_later && has_ended(row) && is_taken ? m.finals++ : -1;
    }
    m.count++;
}

static void copy_to_device(void *to, const void *from, int64_t bytes)
{
    CHECK_OK(gpur_copy(w.stream, to, from, bytes));
    CHECK_OK(gpur_stream_sync(w.stream));
}

/* Gives the model's last step to the store. */
static void store_add(void)
{
    static unsigned char values[MAX_LANES * WIDEST];
    const void *given[FIELDS];
    const int64_t step = m.count - 1;
    for (int f = 0; f < FIELDS; f++) {
        const int64_t bytes = w.schema.fields[f].bytes;
        for (int64_t lane = 0; lane < m.s.lanes; lane++) {
            const int64_t row = row_of(step, lane);
            const int is_bent = field_is_stack(f) && (is_next(f) ? m.final_is_bent[row] : m.is_bent[row]);
            for (int64_t i = 0; i < bytes; i++)
                values[lane * bytes + i] = value_byte(stored_of(f), step, lane, is_next(f), i);
            values[lane * bytes] ^= (unsigned char)is_bent; /* in the oldest frame, whichever the axis */
            if (f == REWARD)
                memcpy(values + lane * bytes, &m.reward[row], sizeof m.reward[row]);
            if (f == TERMINATED || f == TRUNCATED)
                values[lane] = f == TERMINATED ? m.terminated[row] : m.truncated[row];
        }
        copy_to_device(w.device_fields[f], values, m.s.lanes * bytes);
        given[f] = is_next(f) && (!m.s.has_finals || m.s.resets_later) ? NULL : w.device_fields[f];
    }
    CHECK_OK(gpur_lane_store_add(&w.store, w.stream, given));
}

/* The caller has reset a lane after the newest step. */
static void model_reset(int64_t lane)
{
    const int64_t row = row_of(m.count - 1, lane);
    if (m.s.resets_later && !m.is_reset[row])
        m.is_reset[row] = 1, m.cut += !m.is_broken[row];
    else if (!m.s.resets_later && !has_ended(row))
        m.truncated[row] = 1;
}

/* Some lanes are reset, or all of them. */
static void reset(uint64_t *random)
{
    unsigned char which[MAX_LANES];
    const int64_t all = xorshift_below(random, 8) == 0;
    for (int64_t lane = 0; lane < m.s.lanes; lane++) {
        which[lane] = (unsigned char)(xorshift_below(random, 3) == 0 ? 1 + xorshift_below(random, 255) : 0);
        if (m.count > 0 && (all || which[lane] != 0))
            model_reset(lane);
    }
    copy_to_device(w.mask, which, m.s.lanes);
    CHECK_OK(gpur_lane_store_reset(&w.store, w.stream, all ? NULL : w.mask));
}

static int64_t first_step(void)
{
    return gpur_max(m.oldest, m.count - m.s.steps);
}

static int final_is_there(int64_t row)
{
    return m.final[row] >= 0 && m.final[row] >= m.finals - w.store.lanes.finals && !m.is_lost[row];
}

static int is_whole(int64_t step, int64_t lane)
{
    const int64_t row = row_of(step, lane);
    if (step < first_step() || step >= m.count || m.is_reset[row] || m.is_broken[row] || m.final_is_broken[row])
        return 0;
    if (m.s.resets_later || !has_ended(row))
        return step + 1 < m.count && !m.is_broken[row + m.s.lanes];
    return final_is_there(row) || (m.terminated[row] && m.final[row] < 0);
}

static float largest_priority(void)
{
    float largest = 0.0f;
    for (int64_t step = first_step(); step < m.count; step++)
        for (int64_t lane = 0; lane < m.s.lanes; lane++)
            if (is_whole(step, lane))
                largest = fmaxf(largest, m.priority[row_of(step, lane)]);
    return largest > 0.0f ? largest : 1.0f;
}

/* Rows that have become whole with this step get `first`. Those of other steps have a priority already, or never. */
static void model_give_priorities(float first)
{
    for (int64_t step = m.count > 2 ? m.count - 2 : 0; step < m.count; step++)
        for (int64_t lane = 0; lane < m.s.lanes; lane++) {
            const int64_t row = row_of(step, lane);
            if (is_whole(step, lane) && m.priority[row] == 0.0f)
                m.priority[row] = first;
        }
}

/* New priorities of random ids, some of them of rows that are not whole; of equal ones the largest counts. */
static void update(uint64_t *random)
{
    enum { COUNT = 50 };
    int64_t ids[COUNT];
    float values[COUNT];
    for (int i = 0; i < COUNT; i++) {
        ids[i] = row_of(m.count, 0) + 2 - xorshift_below(random, m.s.lanes * (m.s.steps + 2));
        values[i] = ldexpf(1.0f, (int)xorshift_below(random, 8));
    }
    for (int i = 0; i < COUNT; i++) {
        float largest = 0.0f;
        for (int k = 0; k < COUNT; k++)
            largest = ids[k] == ids[i] ? fmaxf(largest, values[k]) : largest;
        if (ids[i] >= 0 && ids[i] < row_of(m.count, 0) && is_whole(ids[i] / m.s.lanes, ids[i] % m.s.lanes))
            m.priority[ids[i]] = largest;
    }
    copy_to_device(w.ids, ids, sizeof ids);
    copy_to_device(w.values, values, sizeof values);
    CHECK_OK(gpur_priorities_update(&w.priorities, w.stream, COUNT, w.ids, w.values, 0));
}

/* A transition as it should be. */
typedef struct transition {
    int32_t steps;
    float reward, discount;
    int terminated, truncated;
    int64_t next_step; /* whose observation is the next one; -1: zeros */
    int next_is_final;
} transition;

static float clipped(float reward)
{
    const float clip = m.s.clip;
    return clip > 0.0f ? fminf(fmaxf(reward, -clip), clip) : reward;
}

static transition transition_of(int64_t step, int64_t lane)
{
    transition t = {0};
    double reward = 0.0, discount = 1.0;
    int64_t at = step;
    for (;; at++) {
        reward += discount * (double)clipped(m.reward[row_of(at, lane)]);
        discount *= (double)m.s.gamma;
        t.steps++;
        if (t.steps == m.s.n_step || has_ended(row_of(at, lane)) || !is_whole(at + 1, lane))
            break;
    }
    const int64_t last = row_of(at, lane);
    t.terminated = m.terminated[last] != 0, t.truncated = m.truncated[last] != 0;
    t.reward = (float)reward;
    t.discount = t.terminated ? 0.0f : (float)discount;
    t.next_is_final = m.final[last] >= 0;
    t.next_step = t.next_is_final ? at : has_ended(last) && !m.s.resets_later ? -1 : at + 1;
    return t;
}

/* What a draw gave, on the host. */
static struct {
    unsigned char values[FIELDS][MAX_ROWS * WIDEST];
    int64_t id[MAX_ROWS];
    float weight[MAX_ROWS], discount[MAX_ROWS];
    int32_t steps[MAX_ROWS];
    unsigned char mask[MAX_ROWS], is_first[MAX_ROWS];
} got;

/* What a draw is asked for. */
typedef struct ask {
    int32_t index_source, of_each_lane, across;
    int64_t length, min_length;
} ask;

static void draw_by(int64_t count, const int64_t *ids, ask a)
{
    const gpur_lane_batch batch = {.count = count,
                                   .ids = ids ? w.ids : NULL,
                                   .index_source = a.index_source,
                                   .of_each_lane = a.of_each_lane,
                                   .length = a.length,
                                   .min_length = a.min_length,
                                   .across_episodes = a.across,
                                   .mask = a.length > 0 ? w.mask : NULL,
                                   .is_first = a.length > 0 ? w.mask + MAX_ROWS : NULL,
                                   .fields = (void *const *)w.device_fields,
                                   .id = w.id,
                                   .weight = w.weight,
                                   .discount = w.discount,
                                   .steps = w.steps,
                                   .n_step = m.s.n_step,
                                   .gamma = m.s.gamma,
                                   .seed = 7,
                                   .purpose = GPUR_RANDOM_LANES,
                                   .beta = {.first = 1.0f, .last = 1.0f}};
    if (ids)
        copy_to_device(w.ids, ids, count * 8);
    CHECK_OK(gpur_lane_store_draw(&w.store, w.stream, &batch));
    for (int f = 0; f < FIELDS; f++)
        CHECK_OK(gpur_copy(w.stream, got.values[f], w.device_fields[f], count * w.schema.fields[f].bytes));
    CHECK_OK(gpur_copy(w.stream, got.id, w.id, count * 8));
    CHECK_OK(gpur_copy(w.stream, got.weight, w.weight, count * 4));
    CHECK_OK(gpur_copy(w.stream, got.discount, w.discount, count * 4));
    CHECK_OK(gpur_copy(w.stream, got.steps, w.steps, count * 4));
    CHECK_OK(gpur_copy(w.stream, got.mask, w.mask, count));
    CHECK_OK(gpur_copy(w.stream, got.is_first, w.mask + MAX_ROWS, count));
    CHECK_OK(gpur_stream_sync(w.stream));
}

static void draw(int64_t count, const int64_t *ids)
{
    draw_by(count, ids, (ask){.index_source = m.s.is_prioritized ? GPUR_PRIORITIZED_INDEPENDENT : GPUR_UNIFORM});
}

/* Bytes of row b that are wrong; `t` NULL: it must be missing. */
static int64_t wrong_bytes(int64_t b, int64_t step, int64_t lane, const transition *t)
{
    int64_t wrong = 0;
    for (int f = 0; f < FIELDS; f++) {
        const int64_t bytes = w.schema.fields[f].bytes;
        const unsigned char *const value = got.values[f] + b * bytes;
        const int64_t of = t && is_next(f) ? t->next_step : step;
        const int is_zero = !t || of < 0;
        if (f == REWARD || f == TERMINATED || f == TRUNCATED)
            continue;
        for (int64_t i = 0; i < bytes; i++)
            wrong += value[i] != (is_zero ? 0 : value_byte(stored_of(f), of, lane, is_next(f) && t->next_is_final, i));
    }
    return wrong;
}

static void check_row(int64_t b, int64_t id)
{
    const int64_t step = id < 0 ? -1 : id / m.s.lanes, lane = id < 0 ? 0 : id % m.s.lanes;
    const int there = step >= 0 && is_whole(step, lane);
    const transition none = {0}, t = there ? transition_of(step, lane) : none;
    float reward;
    memcpy(&reward, got.values[REWARD] + b * 4, sizeof reward);
    CHECK_EQUAL(got.id[b], there ? id : -1);
    CHECK_EQUAL(got.steps[b], t.steps);
    CHECK(m.s.is_prioritized || got.weight[b] == (there ? 1.0f : 0.0f));
    TEST_REQUIRE(got.discount[b] == t.discount && reward == t.reward, "row %d: reward %g, discount %g; wanted %g, %g",
                 (int)id, (double)reward, (double)got.discount[b], (double)t.reward, (double)t.discount);
    CHECK_EQUAL(got.values[TERMINATED][b], t.terminated);
    CHECK_EQUAL(got.values[TRUNCATED][b], t.truncated);
    CHECK_EQUAL(wrong_bytes(b, step, lane, there ? &t : NULL), 0);
}

/* Every id that was ever there, some before and some after. */
static void check_all_rows(void)
{
    static int64_t ids[MAX_ROWS];
    const int64_t end = row_of(m.count, 0) + 3;
    for (int64_t first = -3; first < end; first += 1000) {
        const int64_t count = end - first < 1000 ? end - first : 1000;
        for (int64_t i = 0; i < count; i++)
            ids[i] = first + i;
        draw(count, ids);
        for (int64_t i = 0; i < count && !atomic_load(&test_state.failures); i++)
            check_row(i, ids[i]);
    }
}

static void check_counts(void)
{
    gpur_lanes_state state;
    int64_t whole = 0, without = m.cut;
    CHECK_OK(gpur_lane_store_read(&w.store, w.stream, &state));
    for (int64_t step = 0; step < m.count; step++)
        for (int64_t lane = 0; lane < m.s.lanes; lane++) {
            const int64_t row = row_of(step, lane);
            whole += is_whole(step, lane);
            without += !m.s.resets_later && m.truncated[row] && !m.terminated[row] && m.final[row] < 0 &&
                       !m.is_broken[row] && !m.final_is_broken[row];
        }
    CHECK_EQUAL(state.steps, m.count);
    CHECK_EQUAL(state.whole, whole);
    CHECK_EQUAL(state.finals, m.finals);
    CHECK_EQUAL(state.without_final, without);
    CHECK_EQUAL(state.broken_stacks, m.broken);
    CHECK(state.step_finals == 0 && state.step_whole == 0);
    if (!m.s.is_prioritized)
        return;
    CHECK_OK(gpur_priorities_validate(&w.priorities, w.stream));
    CHECK_OK(gpur_stream_sync(w.stream));
    CHECK_EQUAL(w.priorities.host_report->wrong, 0);
    CHECK_EQUAL(w.priorities.host_report->nonzero_leaves, whole);
}

/* 1 if the row is the first of its episode. */
static int begins(int64_t step, int64_t lane)
{
    const int64_t before = step > 0 ? row_of(step - 1, lane) : 0;
    return step == 0 || m.is_reset[before] || (!m.s.resets_later && has_ended(before));
}

/* The steps of the sequence that ends with this row, the newest first. Returns how many. */
static int64_t sequence_of(int64_t step, int64_t lane, ask a, int64_t *steps)
{
    int64_t found = 0;
    while (step >= 0 && found < a.length && is_whole(step, lane)) {
        steps[found++] = step;
        if (begins(step, lane) && !a.across)
            break;
        step -= step > 1 && m.is_reset[row_of(step - 1, lane)] && has_ended(row_of(step - 2, lane)) ? 2 : 1;
    }
    return found;
}

/* A sequence of the batch, by its last row. */
static void check_sequence(int64_t s, int64_t last, ask a)
{
    int64_t steps[16];
    const int64_t lane = last < 0 ? 0 : last % m.s.lanes;
    int64_t found = last < 0 ? 0 : sequence_of(last / m.s.lanes, lane, a, steps);
    found = found < a.min_length ? 0 : found;
    for (int64_t i = 0; i < a.length; i++) {
        const int64_t b = s * a.length + i, step = i < found ? steps[found - 1 - i] : -1;
        check_row(b, i < found ? row_of(step, lane) : -1);
        CHECK_EQUAL(got.mask[b], i < found);
        CHECK_EQUAL(got.is_first[b], i < found && begins(step, lane));
    }
}

/* Sequences by their last rows, of every id that was ever there. */
static void check_all_sequences(uint64_t *random)
{
    static int64_t ids[MAX_ROWS];
    const int64_t rows = row_of(m.count, 0);
    const int64_t length = 1 + xorshift_below(random, 12);
    const ask a = {.across = (int32_t)xorshift_below(random, 2),
                   .length = length,
                   .min_length = 1 + xorshift_below(random, length)};
    for (int64_t first = 0; first < rows; first += 500) {
        const int64_t count = gpur_min(500, rows - first);
        for (int64_t s = 0; s < count; s++)
            ids[s] = first + s;
        draw_by(count * length, ids, a);
        for (int64_t s = 0; s < count && !atomic_load(&test_state.failures); s++)
            check_sequence(s, ids[s], a);
    }
}

/* Drawn sequences: each row with enough before it is the last one as often as any other. */
static void check_drawn_sequences(void)
{
    static int64_t counts[MAX_ROWS];
    const ask a = {.index_source = GPUR_UNIFORM, .across = 1, .length = 3, .min_length = 2};
    const int64_t sequences = MAX_ROWS / 3;
    int64_t possible = 0, drawn = 0, missing = 0, steps[16];
    double statistic = 0.0;
    memset(counts, 0, sizeof counts);
    for (int64_t i = 0; i < 20; i++) {
        draw_by(sequences * 3, NULL, a);
        for (int64_t s = 0; s < sequences && !atomic_load(&test_state.failures); s++) {
            const int64_t *const id = got.id + 3 * s, last = id[2] >= 0 ? id[2] : id[1];
            missing += last < 0;
            if (last < 0)
                continue;
            counts[last]++, drawn++;
            if (s % 20 == 0)
                check_sequence(s, last, a);
        }
    }
    for (int64_t row = 0; row < row_of(m.count, 0); row++)
        possible += sequence_of(row / m.s.lanes, row % m.s.lanes, a, steps) >= 2;
    for (int64_t row = 0; row < row_of(m.count, 0) && possible > 0; row++) {
        const int is_possible = sequence_of(row / m.s.lanes, row % m.s.lanes, a, steps) >= 2;
        const double wanted = (double)drawn / (double)possible, off = (double)counts[row] - wanted;
        CHECK(is_possible || counts[row] == 0);
        statistic += is_possible ? off * off / wanted : 0.0;
    }
    CHECK(possible > 0 ? missing < 20 * sequences / 10 : drawn == 0);
    CHECK(possible < 2 || chi_square_tail(statistic, possible - 1) > 1e-6);
}

/* The chi-square tail of counts of rows that should be in proportion to their priorities. */
static double tail_of(const int64_t *counts)
{
    int64_t rows = 0, drawn = 0;
    double total = 0.0, statistic = 0.0;
    for (int64_t row = 0; row < row_of(m.count, 0); row++)
        if (is_whole(row / m.s.lanes, row % m.s.lanes)) {
            rows++, drawn += counts[row];
            total += m.s.is_prioritized ? (double)m.priority[row] : 1.0;
        }
    for (int64_t row = 0; row < row_of(m.count, 0); row++)
        if (is_whole(row / m.s.lanes, row % m.s.lanes)) {
            const double wanted = (double)drawn * (m.s.is_prioritized ? (double)m.priority[row] : 1.0) / total;
            statistic += ((double)counts[row] - wanted) * ((double)counts[row] - wanted) / wanted;
        }
    return rows > 1 ? chi_square_tail(statistic, rows - 1) : 1.0;
}

/* The weight of beta 1 is 1 / priority, and the largest of the batch is 1. */
static void check_weights(void)
{
    float least = INFINITY;
    for (int64_t b = 0; b < MAX_ROWS; b++)
        least = fminf(least, m.priority[got.id[b]]);
    for (int64_t b = 0; b < MAX_ROWS; b++)
        CHECK_NEAR(got.weight[b], least / m.priority[got.id[b]], 1e-4);
}

/* Draws reach each whole row as often as they should, and no other row. */
static void check_draws(void)
{
    static int64_t counts[MAX_ROWS];
    int64_t whole = 0, others = 0;
    memset(counts, 0, sizeof counts);
    for (int64_t row = 0; row < row_of(m.count, 0); row++)
        whole += is_whole(row / m.s.lanes, row % m.s.lanes);
    for (uint64_t i = 0; i < test_rounds(20) + 1; i++) {
        draw(MAX_ROWS, NULL);
        for (int64_t b = 0; b < MAX_ROWS && !atomic_load(&test_state.failures); b++) {
            if (b % 50 == 0 || whole == 0)
                check_row(b, whole > 0 ? got.id[b] : -1);
            counts[got.id[b] < 0 ? 0 : got.id[b]]++;
        }
    }
    for (int64_t row = 0; row < row_of(m.count, 0) && whole > 0; row++)
        others += is_whole(row / m.s.lanes, row % m.s.lanes) ? 0 : counts[row];
    CHECK_EQUAL(others, 0);
    CHECK(tail_of(counts) > 1e-6);
    if (m.s.is_prioritized && whole > 0)
        check_weights();
}

/* The chi-square tail of how often each whole row was drawn, when each lane that has any was drawn `drawn` times. */
static double tail_of_each(const int64_t *counts, int64_t drawn)
{
    double statistic = 0.0;
    int64_t freedom = 0;
    for (int64_t lane = 0; lane < m.s.lanes; lane++) {
        int64_t whole = 0;
        for (int64_t step = 0; step < m.count; step++)
            whole += is_whole(step, lane);
        const double wanted = (double)drawn / (double)gpur_max(whole, 1);
        for (int64_t step = 0; step < m.count; step++) {
            const double off = (double)counts[row_of(step, lane)] - wanted;
            statistic += is_whole(step, lane) ? off * off / wanted : 0.0;
        }
        freedom += gpur_max(whole - 1, 0);
    }
    return freedom > 0 ? chi_square_tail(statistic, freedom) : 1.0;
}

/* As many rows of each lane, in the order of the lanes. */
static void check_draws_of_each_lane(void)
{
    static int64_t counts[MAX_ROWS];
    const int64_t each = MAX_ROWS / m.s.lanes, rounds = (int64_t)test_rounds(20) + 1;
    int64_t wrong = 0;
    memset(counts, 0, sizeof counts);
    for (int64_t i = 0; i < rounds; i++) {
        draw_by(each * m.s.lanes, NULL, (ask){.index_source = GPUR_UNIFORM, .of_each_lane = 1});
        for (int64_t b = 0; b < each * m.s.lanes; b++) {
            int64_t whole = 0;
            for (int64_t step = 0; got.id[b] < 0 && step < m.count; step++)
                whole += is_whole(step, b / each);
            wrong += got.id[b] < 0 ? whole > 0 : got.id[b] % m.s.lanes != b / each;
            if (got.id[b] >= 0)
                counts[got.id[b]]++;
        }
    }
    CHECK_EQUAL(wrong, 0);
    CHECK(tail_of_each(counts, rounds * each) > 1e-6);
}

/* A row is drawn once at most, and each whole one as often as any other. */
static void check_distinct_draws(void)
{
    static int64_t counts[MAX_ROWS], last[MAX_ROWS];
    int64_t whole = 0, twice = 0;
    memset(counts, 0, sizeof counts);
    memset(last, -1, sizeof last);
    for (int64_t row = 0; row < row_of(m.count, 0); row++)
        whole += is_whole(row / m.s.lanes, row % m.s.lanes);
    const int64_t count = gpur_max(1, whole / 8);
    for (int64_t i = 0; i < 8 * ((int64_t)test_rounds(40) + 1); i++) {
        draw_by(count, NULL, (ask){.index_source = GPUR_UNIFORM_DISTINCT});
        for (int64_t b = 0; b < count; b++) {
            const int64_t row = got.id[b];
            if (row < 0)
                continue;
            twice += last[row] == i;
            last[row] = i, counts[row]++;
        }
    }
    CHECK_EQUAL(twice, 0);
    CHECK(whole < 50 || tail_of(counts) > 1e-6);
}

static int64_t lost_finals(void)
{
    gpur_lanes_state state;
    if (gpur_lane_store_read(&w.store, w.stream, &state) != GPUR_OK)
        return -1;
    return state.lost_finals;
}

/* Goes on with a replay of another number of steps, from a file: the newest steps that there is room for, without those
 * rows whose final observation finds none. */
static void load_into(int64_t steps)
{
    const int64_t first = first_step(), lost_before = lost_finals();
    int64_t lost = 0;
    gpur_replay *const before = w.replay;
    if (gpur_tensors_available() != GPUR_OK)
        return; /* a build without files */
    CHECK_OK(gpur_replay_save(before, test_file_path("lanes"), NULL));
    for (int64_t row = 0; row < row_of(m.count, 0); row++)
        m.is_lost[row] = !final_is_there(row);
    m.s.steps = steps;
    use_replay(open_replay(&m.s));
    gpur_replay_destroy(before);
    CHECK_OK(gpur_replay_load(w.replay, test_file_path("lanes"), NULL));
    m.oldest = gpur_max(first, m.count - steps);
    m.compared = m.count + m.s.stack;
    for (int64_t row = row_of(m.oldest, 0); row < row_of(m.count, 0); row++) {
        const int is_lost = m.final[row] >= 0 && !m.is_lost[row] && !final_is_there(row);
        lost += is_lost;
        m.is_lost[row] |= is_lost;
    }
    CHECK_EQUAL(lost_finals(), lost_before + lost);
    check_counts();
    check_all_rows();
}

static void run(const setting *s, uint64_t seed)
{
    uint64_t random = seed;
    begin(s);
    reset(&random); /* before the first step nothing happens */
    check_counts();
    for (int64_t i = 0; i < s->added && !atomic_load(&test_state.failures); i++) {
        if (i > 0 && i % (s->added / 3 + 1) == 0)
            load_into(s->loads[i / (s->added / 3 + 1) - 1]);
        const float first = largest_priority();
        model_add(&random);
        model_give_priorities(first);
        store_add();
        while (xorshift_below(&random, 4) == 0)
            reset(&random);
        if (s->is_prioritized && xorshift_below(&random, 2) == 0)
            update(&random);
        if (i < 3 || i == s->steps || i == s->added - 1 || xorshift_below(&random, 16) == 0) {
            check_counts();
            check_all_rows();
            check_all_sequences(&random);
        }
    }
    check_draws();
    if (!s->is_prioritized) {
        check_draws_of_each_lane();
        check_distinct_draws();
        check_drawn_sequences();
    }
    end();
}

static void run_all(const setting *settings, int count)
{
    for (int i = 0; i < count && !atomic_load(&test_state.failures); i++)
        run(&settings[i], (uint64_t)(i + 1));
}

TEST(rows_are_those_of_the_model)
{
    static const setting settings[] = {
        {1, 2, 40, 0, 1, 3, 1, 0.9f, 0.0f, 0, {5, 2}},
        {1, 7, 60, 1, 0, 3, 3, 0.9f, 0.0f, 1, {7, 12}},
        {2, 5, 60, 0, 0, 4, 2, 0.99f, 1.0f, 0, {5, 50}},
        {5, 40, 130, 0, 1, 6, 5, 0.97f, 0.0f, 1, {90, 30}},
        {5, 40, 130, 1, 0, 6, 10, 0.97f, 2.5f, 0, {20, 40}},
        {33, 20, 50, 0, 1, 1, 3, 0.5f, 0.0f, 1, {8, 41}}, /* all end at each step */
        {67, 150, 160, 0, 1, 2, 4, 0.9f, 0.0f, 0, {40, 120}},
        {67, 31, 100, 1, 0, 9, 1, 1.0f, 0.0f, 1, {55, 21}},
        {64, 33, 90, 0, 1, 12, 7, 0.95f, 0.0f, 0, {33, 80}},
        {64, 33, 90, 0, 0, 3, 2, 0.95f, 0.0f, 1, {70, 33}},
    };
    run_all(settings, IN_RACE_CHECK ? 5 : (int)(sizeof settings / sizeof *settings));
}

/* Stacks of 2 to 16 frames along both axes, with ends at every offset, also at the ring's head. */
TEST(stacks_are_those_of_the_model)
{
    static const setting settings[] = {
        {1, 2, 40, 0, 1, 3, 1, 0.9f, 0.0f, 0, {5, 2}, 5, 0, 0},
        {3, 9, 90, 0, 1, 5, 3, 0.9f, 0.0f, 1, {4, 30}, 4, 1, 9},
        {5, 12, 90, 1, 0, 4, 5, 0.97f, 0.0f, 1, {30, 7}, 3, 0, 12},
        {2, 5, 60, 0, 0, 4, 2, 0.99f, 1.0f, 0, {5, 50}, 2, 1, 7},
        {33, 20, 50, 0, 1, 1, 3, 0.5f, 0.0f, 1, {8, 41}, 4, 0, 20}, /* all end at each step */
        {33, 31, 70, 1, 0, 6, 1, 0.97f, 0.0f, 0, {20, 40}, 5, 1, 0},
        {67, 40, 90, 0, 1, 4, 2, 0.9f, 0.0f, 0, {25, 60}, 2, 0, 30},
        {5, 40, 130, 0, 1, 30, 4, 0.9f, 0.0f, 1, {90, 30}, 3, 1, 40},
        {4, 33, 150, 0, 1, 20, 1, 0.9f, 0.0f, 0, {20, 70}, 6, 0, 50},
    };
    run_all(settings, IN_RACE_CHECK ? 4 : (int)(sizeof settings / sizeof *settings));
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(rows_are_those_of_the_model);
    RUN(stacks_are_those_of_the_model);
    test_remove_folder();
    return test_main_end();
}
