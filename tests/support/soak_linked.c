/* SPDX-License-Identifier: MIT */
/*
 * Environments that are stepped into a linked replay. A frame says which environment, episode and step it is of, and
 * has a checksum of itself; so a stack is known to be whole, and to be that of its row, by what is in it.
 */
#include "support/soak.h"
#include "support/replay_kit.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { ENVS = 3, STACK = 3, N_STEP = 3, FIELDS = 8, LONGEST = 12, SLACK = 40 };

/* Frames 0 to length are of an episode of `length` steps. Of a missing one all bytes are 0, and no env is. */
typedef struct frame {
    uint32_t env, episode;
    uint16_t step, length;
    unsigned char noise[8];
    uint32_t check;
} frame;

static const gpur_field fields[FIELDS] = {{"obs", GPUR_UINT8, {STACK, sizeof(frame)}},
                                          {"action", GPUR_INT32, {0}},
                                          {"reward", GPUR_FLOAT32, {0}},
                                          {"next_obs", GPUR_UINT8, {STACK, sizeof(frame)}},
                                          {"terminated", GPUR_BOOL, {0}},
                                          {"discount", GPUR_FLOAT32, {0}},
                                          {"tag", GPUR_INT64, {0}},
                                          {"check", GPUR_INT64, {0}}};

static uint32_t frame_check(const frame *f)
{
    return (uint32_t)(soak_hash(0, f, offsetof(frame, check)) >> 32);
}

static int32_t action_after(const frame *f)
{
    return f->noise[0] % SOAK_ACTIONS;
}

/* Of the step that begins at frame `step` of f's episode. */
static float reward_after(const frame *f, int step)
{
    return (float)((f->env * 31 + f->episode * 7 + (uint32_t)step) % 64) / 64.0f - 0.5f;
}

static int ends_in_terminal(const frame *f)
{
    return f->episode % 2 == 1;
}

static int64_t tag_of(const frame *f)
{
    return (int64_t)f->env << 40 | (int64_t)f->episode << 8 | f->step;
}

static int64_t row_check(const frame *f)
{
    const int32_t action = action_after(f);
    return (int64_t)soak_hash(soak_hash(0, f, sizeof *f), &action, sizeof action);
}

/* One writer and its environments, each at a frame. */
typedef struct stage {
    gpur_writer *writer;
    uint64_t random;
    frame at[ENVS];
} stage;

static void make_noise(stage *g, frame *f)
{
    const uint64_t noise = kit_random(&g->random);
    memcpy(f->noise, &noise, sizeof f->noise);
    f->check = frame_check(f);
}

static gpur_status begin_episode(stage *g, int env)
{
    frame *const f = &g->at[env];
    f->episode++;
    f->step = 0, f->length = (uint16_t)(1 + kit_below(&g->random, LONGEST));
    make_noise(g, f);
    return gpur_writer_reset(g->writer, env, f);
}

static gpur_status step_all(stage *g)
{
    frame next[ENVS];
    int32_t action[ENVS];
    float reward[ENVS];
    uint8_t terminated[ENVS], truncated[ENVS];
    int64_t tag[ENVS], row[ENVS];
    const void *const extras[FIELDS] = {[6] = tag, [7] = row};
    const gpur_step_input input = {sizeof input, action, reward, next, terminated, truncated, NULL, extras};
    for (int e = 0; e < ENVS; e++) {
        if (g->at[e].step == g->at[e].length)
            GPUR_TRY(begin_episode(g, e));
        const frame *const f = &g->at[e];
        action[e] = action_after(f), reward[e] = reward_after(f, f->step), tag[e] = tag_of(f), row[e] = row_check(f);
        next[e] = *f;
        next[e].step++;
        make_noise(g, &next[e]);
        terminated[e] = next[e].step == f->length && ends_in_terminal(f);
        truncated[e] = next[e].step == f->length && !ends_in_terminal(f);
    }
    memcpy(g->at, next, sizeof next);
    return gpur_writer_step_with(g->writer, &input);
}

static gpur_status open_stage(soak *s, stage *g, int number)
{
    gpur_writer_config config;
    memset(g, 0, sizeof *g);
    g->random = (uint64_t)number * 7919 + 1;
    for (int e = 0; e < ENVS; e++)
        g->at[e].env = (uint32_t)(1 + number * ENVS + e); /* at its end, of no steps: begun by the first step */
    GPUR_TRY(gpur_writer_config_init(&config, sizeof config));
    config.num_envs = ENVS, config.input = GPUR_INPUT_FRAMES;
    return gpur_writer_open(s->replay, &config, &g->writer);
}

static void write_until_over(soak *s, int number)
{
    stage g;
    int good = soak_ok(s, open_stage(s, &g, number), "making a writer");
    while (good && !atomic_load(&s->over)) {
        good = soak_ok(s, step_all(&g), "a step");
        if (good && kit_below(&g.random, 100) == 0)
            good = soak_ok(s, gpur_writer_flush(g.writer), "gpur_writer_flush");
    }
    gpur_writer_destroy(g.writer);
}

/* Frames `newest->step` - STACK + 1 to that of one episode, those before its first missing. */
static int is_whole(const frame stack[STACK], const frame *newest)
{
    static const frame none;
    for (int j = 0; j < STACK; j++) {
        const int step = newest->step - (STACK - 1 - j);
        const frame *const f = &stack[j];
        if (step < 0 ? memcmp(f, &none, sizeof none) != 0
                     : f->env == 0 || f->check != frame_check(f) || f->env != newest->env ||
                           f->episode != newest->episode || f->length != newest->length || f->step != step)
            return 0;
    }
    return newest->env > 0;
}

/* What a row is made of, of a batch or of a train step. */
typedef struct row {
    frame obs[STACK], next_obs[STACK];
    int32_t action;
    float reward, discount;
} row;

/* 1 when reward and discount are those of the steps between its two stacks: of fewer than N_STEP at the end of an
 * episode, or where its writer ended with it. */
static int has_its_return(soak *s, const row *r)
{
    const frame *const from = &r->obs[STACK - 1], *const to = &r->next_obs[STACK - 1];
    const int steps = to->step - from->step;
    float reward = 0.0f, discount = 1.0f;
    if (steps < 1 || steps > N_STEP || (steps < N_STEP && to->step != to->length && !atomic_load(&s->over)))
        return 0;
    for (int i = 0; i < steps; i++, discount *= s->gamma)
        reward += discount * reward_after(from, from->step + i);
    if (to->step == to->length && ends_in_terminal(to))
        discount = 0.0f;
    return fabsf(r->reward - reward) < 1e-5f && fabsf(r->discount - discount) < 1e-5f;
}

static void check_row(soak *s, const row *r, const char *where)
{
    const frame *const from = &r->obs[STACK - 1], *const to = &r->next_obs[STACK - 1];
    const int together = from->env == to->env && from->episode == to->episode && r->action == action_after(from);
    if (!is_whole(r->obs, from) || !is_whole(r->next_obs, to))
        soak_fail(s, "a torn stack %s: environments %u, %u, episodes %u, %u, steps %u, %u", where, from->env, to->env,
                  from->episode, to->episode, from->step, to->step);
    else if (!together || !has_its_return(s, r))
        soak_fail(s,
                  "a torn row %s: environment %u, %u, episode %u, %u, steps %u to %u of %u, reward %.9g, discount "
                  "%.9g",
                  where, from->env, to->env, from->episode, to->episode, from->step, to->step, to->length,
                  (double)r->reward, (double)r->discount);
}

typedef struct columns {
    frame obs[SOAK_BATCH][STACK], next_obs[SOAK_BATCH][STACK];
    int64_t tag[SOAK_BATCH], check[SOAK_BATCH];
    int32_t action[SOAK_BATCH];
    float reward[SOAK_BATCH], discount[SOAK_BATCH];
} columns;

static void check_columns(soak *s, const columns *c, int64_t count, const char *where)
{
    for (int64_t b = 0; b < count; b++) {
        row r = {.action = c->action[b], .reward = c->reward[b], .discount = c->discount[b]};
        memcpy(r.obs, c->obs[b], sizeof r.obs);
        memcpy(r.next_obs, c->next_obs[b], sizeof r.next_obs);
        check_row(s, &r, where);
    }
}

static gpur_status read_batch(gpur_batch *batch, columns *c)
{
    const int64_t n = gpur_batch_count(batch), stack = sizeof c->obs[0];
    GPUR_TRY(gpur_batch_read(batch, "obs", c->obs, n * stack));
    GPUR_TRY(gpur_batch_read(batch, "next_obs", c->next_obs, n * stack));
    GPUR_TRY(gpur_batch_read(batch, "tag", c->tag, n * 8));
    GPUR_TRY(gpur_batch_read(batch, "check", c->check, n * 8));
    GPUR_TRY(gpur_batch_read(batch, "action", c->action, n * 4));
    GPUR_TRY(gpur_batch_read(batch, "reward", c->reward, n * 4));
    return gpur_batch_read(batch, "discount", c->discount, n * 4);
}

/* The row's own checksum is of its oldest step: its newest frame then, and the action. */
static void check(soak *s, gpur_batch *batch)
{
    columns c;
    if (!soak_ok(s, read_batch(batch, &c), "reading a batch"))
        return;
    check_columns(s, &c, gpur_batch_count(batch), "of a batch");
    for (int64_t b = 0; b < gpur_batch_count(batch); b++) {
        const frame *const from = &c.obs[b][STACK - 1];
        if (c.tag[b] != tag_of(from) || c.check[b] != row_check(from))
            soak_fail(s, "a torn row: tag %" PRIx64 ", checksum %" PRIx64 "; its frame has %" PRIx64 ", %" PRIx64,
                      (uint64_t)c.tag[b], (uint64_t)c.check[b], (uint64_t)tag_of(from), (uint64_t)row_check(from));
    }
}

/* The first layer reads bytes as floats between 0 and 1. */
static void take_bytes(frame *to, const float *from)
{
    unsigned char bytes[STACK * sizeof(frame)];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)lrintf(from[i] * 255.0f);
    memcpy(to, bytes, sizeof bytes);
}

static gpur_status read_trained(soak *s, columns *c)
{
    const gpur_step *const step = &s->learner->step;
    const int64_t pitch = step->online.pitch[0];
    float x[2 * SOAK_BATCH * STACK * sizeof(frame)];
    GPUR_REQUIRE(pitch == STACK * sizeof(frame), "rows of a train step are %" PRId64 " apart; wanted %zu", pitch,
                 STACK * sizeof(frame));
    GPUR_TRY(gpur_device_copy(s->device, x, step->x, sizeof x));
    for (int64_t b = 0; b < SOAK_BATCH; b++)
        take_bytes(c->obs[b], x + b * pitch), take_bytes(c->next_obs[b], x + (SOAK_BATCH + b) * pitch);
    GPUR_TRY(gpur_device_copy(s->device, c->action, step->action, sizeof c->action));
    GPUR_TRY(gpur_device_copy(s->device, c->reward, step->reward, sizeof c->reward));
    return gpur_device_copy(s->device, c->discount, step->discount, sizeof c->discount);
}

static void check_trained(soak *s)
{
    columns c;
    if (soak_ok(s, read_trained(s, &c), "reading what a step was made of"))
        check_columns(s, &c, SOAK_BATCH, "of a train step");
}

static gpur_status configure(soak *s, gpur_replay_config *replay, gpur_learner_config *learner)
{
    (void)s;
    replay->fields = fields;
    replay->field_count = FIELDS;
    replay->layout = GPUR_LINKED, replay->frame_stack = STACK, replay->frame_slack = SLACK;
    replay->n_step = N_STEP;
    learner->network.input_scale = 1.0f / 255.0f;
    return GPUR_OK;
}

const soak_kind soak_linked = {configure, write_until_over, check, check_trained};
