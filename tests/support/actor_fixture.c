/* SPDX-License-Identifier: MIT */
#include "support/actor_fixture.h"

#include "base/status.h"
#include "kernels/lib/previous.h"
#include "support/episode_fixture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CAPACITY = 4096, BLOCK_ROWS = 400, READ = 64, OBS_ROOM = ACTOR_MAX_STACK * ACTOR_FRAME };

gpur_replay_config actors_config(const actors_setting *s, gpur_field fields[ACTOR_FIELDS])
{
    const gpur_field obs =
        s->last ? (gpur_field){"obs", GPUR_UINT8, {3, 4, s->stack}} : (gpur_field){"obs", GPUR_UINT8, {s->stack, 3, 4}};
    const gpur_field all[ACTOR_FIELDS] = {obs,
                                          s->vectors ? (gpur_field){"action", GPUR_FLOAT32, {ACTOR_VECTOR}}
                                                     : (gpur_field){"action", GPUR_INT64, {0}},
                                          {"reward", GPUR_FLOAT32, {0}},
                                          {"next_obs", GPUR_UINT8, {obs.shape[0], obs.shape[1], obs.shape[2]}},
                                          {"terminated", GPUR_BOOL, {0}},
                                          {"truncated", GPUR_UINT8, {0}},
                                          {"discount", GPUR_FLOAT32, {0}},
                                          {"priority", GPUR_FLOAT32, {0}},
                                          {"tag", GPUR_INT64, {0}},
                                          {"previous", GPUR_INT64, {0}}};
    memcpy(fields, all, sizeof all);
    gpur_replay_config config = replay_fixture_config(fields, ACTOR_FIELDS, CAPACITY, BLOCK_ROWS, READ);
    config.layout = s->layout, config.n_step = s->n_step, config.gamma = 0.9f, config.reward_clip = 1.5f;
    config.frame_stack = s->stack, config.extra_frames = 4 * CAPACITY;
    config.stack_axis = s->last ? GPUR_STACK_LAST : GPUR_STACK_FIRST;
    config.stack_pad = s->pad == ACTOR_PAD_REPEAT ? GPUR_PAD_REPEAT : GPUR_PAD_ZERO;
    return config;
}

/* The number of the frame, and bytes that follow from it and are not 0; no frame is zeros. */
static unsigned char byte_of(int64_t frame, int32_t at)
{
    if (frame < 0)
        return 0;
    return (unsigned char)(at < 4 ? frame >> 8 * at & 255 : frame * 31 % 251 + at % 4 + 1);
}

void actor_stack(unsigned char *to, int32_t stack, int32_t last, const int64_t *frames)
{
    for (int32_t j = 0; j < stack; j++)
        for (int32_t i = 0; i < ACTOR_FRAME; i++)
            to[last ? i * stack + j : j * ACTOR_FRAME + i] = byte_of(frames[j], i);
}

static void make_obs(const actors_fixture *w, const actor *a, unsigned char *obs)
{
    const actors_setting *const s = &w->setting;
    if (s->gives_frames)
        actor_stack(obs, 1, 0, &a->frames[s->stack - 1]);
    else
        actor_stack(obs, s->stack, s->last, a->frames);
}

static gpur_status open_actor(actors_fixture *w, int32_t number)
{
    actor *const a = &w->actors[number];
    const int32_t observations = w->setting.gives_frames ? GPUR_OBSERVATIONS_FRAMES : GPUR_OBSERVATIONS_STACKS;
    gpur_writer_config writer = {.size = sizeof writer, .num_envs = 1, .observations = observations};
    gpur_packer_config packer;
    GPUR_TRY(gpur_writer_open(w->stepped, &writer, &a->stepping));
    writer.link_appends = 1;
    GPUR_TRY(gpur_writer_open(w->packed, &writer, &a->appending));
    GPUR_TRY(gpur_packer_config_init(&packer, sizeof packer));
    packer.actor = number, packer.incarnation = 3, packer.rows = w->setting.rows,
    packer.num_actions = w->setting.vectors ? 1 : ACTOR_ACTIONS;
    packer.observations = observations, packer.compression = w->setting.compression;
    a->steps = calloc((size_t)w->setting.steps, sizeof *a->steps);
    return a->steps ? gpur_packer_create(w->format, &packer, &a->packer) : GPUR_OUT_OF_MEMORY;
}

int actors_open(actors_fixture *w, gpur_device *device, const actors_setting *setting, uint64_t seed)
{
    memset(w, 0, sizeof *w);
    w->setting = *setting, w->device = device, w->random = seed * 2 + 1;
    w->config = actors_config(setting, w->fields);
    int is_open = gpur_replay_create(device, &w->config, &w->stepped) == GPUR_OK &&
                  gpur_replay_create(device, &w->config, &w->packed) == GPUR_OK &&
                  gpur_block_format_create(&w->config, &w->format) == GPUR_OK;
    for (int32_t i = 0; i < setting->actors && is_open; i++)
        is_open = open_actor(w, i) == GPUR_OK;
    return is_open;
}

void actors_close(actors_fixture *w)
{
    for (int32_t i = 0; i < w->setting.actors; i++) {
        gpur_packer_destroy(w->actors[i].packer);
        gpur_writer_destroy(w->actors[i].appending);
        gpur_writer_destroy(w->actors[i].stepping);
        free(w->actors[i].steps);
    }
    gpur_block_format_destroy(w->format);
    gpur_replay_destroy(w->packed);
    gpur_replay_destroy(w->stepped);
    gpur_device_close(w->device);
}

/* Takes blocks and appends them; `info` must go on where the block before ended. */
static gpur_status move_blocks(actors_fixture *w, actor *a, int32_t all)
{
    const void *block = NULL;
    int64_t bytes = 0;
    GPUR_TRY(gpur_packer_take(a->packer, all, &block, &bytes));
    while (block) {
        gpur_block_info info = {.size = sizeof info};
        unsigned char *const odd = malloc((size_t)bytes + 1); /* at an address that is not aligned */
        memcpy(odd + 1, block, (size_t)bytes);
        const gpur_status status = gpur_writer_append_block(a->appending, odd + 1, bytes, &info);
        free(odd);
        GPUR_TRY(status);
        if (info.actor != a - w->actors || info.incarnation != 3 || info.sequence != a->blocks ||
            info.first_step != a->rows || info.bytes != bytes || info.rows > w->setting.rows)
            return gpur_fail(GPUR_INVALID_ARGUMENT, "a block of row %lld follows row %lld", (long long)info.first_step,
                             (long long)a->rows);
        a->blocks++, a->rows += info.rows;
        GPUR_TRY(gpur_packer_take(a->packer, all, &block, &bytes));
    }
    return GPUR_OK;
}

static gpur_status reset(actors_fixture *w, actor *a)
{
    const actors_setting *const s = &w->setting;
    unsigned char obs[OBS_ROOM];
    const int64_t first = w->next_frame++;
    for (int32_t j = 0; j < s->stack; j++)
        a->frames[j] = j == s->stack - 1 || s->pad == ACTOR_PAD_REPEAT ? first
                       : s->pad == ACTOR_PAD_ZERO                      ? -1
                                                                       : w->next_frame++;
    make_obs(w, a, obs);
    if (a->count > 0)
        a->steps[a->count - 1].is_last = 1;
    a->is_open = 1;
    GPUR_TRY(gpur_writer_reset(a->stepping, 0, obs));
    GPUR_TRY(gpur_packer_reset(a->packer, obs));
    return move_blocks(w, a, 0);
}

static float number_of(actors_fixture *w)
{
    return (float)xorshift_below(&w->random, 4001) / 1000.0f - 2.0f;
}

static actor_step make_step(actors_fixture *w)
{
    const int ends = xorshift_below(&w->random, w->setting.ends_in) == 0, kind = (int)xorshift_below(&w->random, 5);
    actor_step m = {.tag = w->next_tag++, .reward = number_of(w), .is_last = ends};
    m.action = w->setting.vectors ? 1 : (int32_t)xorshift_below(&w->random, ACTOR_ACTIONS);
    m.terminated = ends && kind < 3, m.truncated = ends && kind >= 2, m.has_final_q = kind != 4;
    for (int32_t i = 0; i < ACTOR_ACTIONS; i++)
        m.q[i] = number_of(w), m.final_q[i] = number_of(w);
    return m;
}

static gpur_status step(actors_fixture *w, actor *a)
{
    const actor_step m = a->steps[a->count++] = make_step(w);
    const int64_t number = m.action;
    const float vector[ACTOR_VECTOR] = {(float)m.tag, m.reward, -m.reward};
    const void *const action = w->setting.vectors ? (const void *)vector : (const void *)&number;
    const void *const extras[ACTOR_FIELDS] = {[ACTOR_TAG] = &m.tag, [ACTOR_PRIORITY] = &m.reward};
    unsigned char obs[OBS_ROOM];
    memmove(a->frames, a->frames + 1, (size_t)(w->setting.stack - 1) * sizeof *a->frames);
    a->frames[w->setting.stack - 1] = w->next_frame++;
    make_obs(w, a, obs);
    const gpur_step_input stepped = {.size = sizeof stepped,
                                     .action = action,
                                     .reward = &m.reward,
                                     .next_obs = obs,
                                     .terminated = &m.terminated,
                                     .truncated = &m.truncated,
                                     .extras = extras};
    const gpur_packer_step_input packed = {.size = sizeof packed,
                                           .action = action,
                                           .reward = m.reward,
                                           .next_obs = obs,
                                           .terminated = m.terminated,
                                           .truncated = m.truncated,
                                           .q = m.q,
                                           .final_q = m.has_final_q ? m.final_q : NULL,
                                           .extras = extras};
    GPUR_TRY(gpur_writer_step_ex(a->stepping, &stepped));
    GPUR_TRY(gpur_packer_step(a->packer, &packed));
    a->is_open = !m.terminated && !m.truncated;
    return move_blocks(w, a, 0);
}

gpur_status actors_run(actors_fixture *w)
{
    const int32_t actors = w->setting.actors;
    for (int64_t t = 0; t < w->setting.steps; t++) {
        actor *const a = &w->actors[xorshift_below(&w->random, actors)];
        if (!a->is_open || xorshift_below(&w->random, w->setting.resets_in) == 0)
            GPUR_TRY(reset(w, a));
        GPUR_TRY(step(w, a));
        if (t == w->setting.cut_at)
            GPUR_TRY(move_blocks(w, a, 1));
    }
    for (int32_t i = 0; i < actors; i++) {
        GPUR_TRY(reset(w, &w->actors[i]));
        GPUR_TRY(move_blocks(w, &w->actors[i], 1));
    }
    return GPUR_OK;
}

/* Priorities by definition. */

static double clipped(float reward)
{
    return reward > 1.5f ? 1.5 : reward < -1.5f ? -1.5 : (double)reward;
}

/* Rewards and discount of steps [from, to). */
static double return_of(const actor_step *steps, int64_t from, int64_t to, float gamma, double *discount)
{
    double sum = 0;
    *discount = 1;
    for (int64_t i = from; i < to; i++, *discount *= (double)gamma)
        sum += *discount * clipped(steps[i].reward);
    return sum;
}

/* Of vectors the value of the policy's action, which is the first number. */
static double most_of(const actors_setting *setting, const float *q)
{
    double most = -INFINITY;
    for (int32_t a = 0; a < (setting->vectors ? 1 : ACTOR_ACTIONS); a++)
        most = fmax(most, (double)q[a]);
    return most;
}

/* |TD| of the transition from step s to the state before step e, where the best action is worth `worth`. */
static double td_of(const actor_step *steps, int64_t s, int64_t e, float gamma, double worth)
{
    double discount = 0;
    const double sum = return_of(steps, s, e, gamma, &discount);
    return fabs(sum + discount * worth - (double)steps[s].q[steps[s].action]);
}

/* The transitions that end with step t, which ended its episode. */
static void end_episode(const actors_setting *setting, const actor_step *steps, int64_t first, int64_t t, float gamma,
                        double *priorities)
{
    const actor_step *const last = &steps[t];
    const int is_known = last->terminated || (last->truncated && last->has_final_q);
    const double worth = last->terminated ? 0 : most_of(setting, last->final_q);
    for (int64_t s = first; s <= t; s++)
        priorities[s] = is_known ? td_of(steps, s, t + 1, gamma, worth) : (double)NAN;
}

void actor_priorities(const actors_setting *setting, float gamma, const actor_step *steps, int64_t count,
                      double *priorities)
{
    const int64_t n = setting->n_step;
    int64_t begin = 0; /* of the episode */
    for (int64_t t = 0; t < count; t++) {
        const int64_t first = t - n + 1 > begin ? t - n + 1 : begin;
        if (t - n >= begin)
            priorities[t - n] = td_of(steps, t - n, t, gamma, most_of(setting, steps[t].q));
        if (!steps[t].is_last)
            continue;
        end_episode(setting, steps, first, t, gamma, priorities);
        begin = t + 1;
    }
}

/* The rows of a replay, a field at a time. */
typedef struct table {
    int64_t rows, bytes[ACTOR_FIELDS];
    unsigned char *values[ACTOR_FIELDS];
    int64_t *row_of; /* (tags) */
} table;

static void close_table(table *t)
{
    for (int32_t f = 0; f < ACTOR_FIELDS; f++)
        free(t->values[f]);
    free(t->row_of);
}

static int64_t integer_at(const table *t, int32_t field, int64_t row)
{
    int64_t value;
    memcpy(&value, t->values[field] + row * t->bytes[field], sizeof value);
    return value;
}

static double real_at(const table *t, int32_t field, int64_t row)
{
    float value;
    memcpy(&value, t->values[field] + row * t->bytes[field], sizeof value);
    return (double)value;
}

static gpur_status read_table(actors_fixture *w, gpur_replay *replay, table *t)
{
    t->rows = rows_appended(replay);
    t->row_of = malloc((size_t)w->next_tag * sizeof *t->row_of);
    memset(t->row_of, 0xFF, (size_t)w->next_tag * sizeof *t->row_of);
    for (int32_t f = 0; f < ACTOR_FIELDS; f++) {
        gpur_field_info info = {.size = sizeof info};
        GPUR_TRY(gpur_replay_get_field(replay, f, &info));
        t->bytes[f] = info.bytes;
        t->values[f] = malloc((size_t)(t->rows * info.bytes) + 1);
        for (int64_t i = 0; i < t->rows; i += READ)
            GPUR_TRY(read_rows(replay, info.name, i, t->rows - i < READ ? t->rows - i : READ,
                               t->values[f] + i * info.bytes, info.bytes));
    }
    for (int64_t i = 0; i < t->rows; i++)
        t->row_of[integer_at(t, ACTOR_TAG, i)] = i;
    return GPUR_OK;
}

/* The tag of the row that a row follows, and whether it is the first of its episode: a number for both. */
static int64_t link_of(const table *t, int64_t row)
{
    const int64_t previous = integer_at(t, ACTOR_PREVIOUS, row), id = gpur_previous_id(previous);
    return id < 0 ? -1 : 2 * integer_at(t, ACTOR_TAG, id) + gpur_previous_is_first(previous);
}

static int is_wrong_row(const table *stepped, const table *packed, int64_t tag)
{
    const int64_t a = stepped->row_of[tag], b = packed->row_of[tag];
    if (a < 0 || b < 0)
        return 1;
    for (int32_t f = 0; f < ACTOR_PREVIOUS; f++)
        if (f != ACTOR_PRIORITY && memcmp(stepped->values[f] + a * stepped->bytes[f],
                                          packed->values[f] + b * packed->bytes[f], (size_t)packed->bytes[f]) != 0)
            return 1;
    return link_of(stepped, a) != link_of(packed, b);
}

/* Of one actor: returns, discounts and priorities that are not those of the lists. */
static int64_t count_far(const actors_fixture *w, const actor *a, const table *packed)
{
    double *const want = calloc((size_t)a->count + 1, sizeof *want);
    int64_t wrong = 0, end = 0;
    actor_priorities(&w->setting, w->config.gamma, a->steps, a->count, want);
    for (int64_t s = 0; s < a->count; s++) {
        const int64_t row = packed->row_of[a->steps[s].tag];
        double discount = 0;
        for (end = end > s ? end : s; !a->steps[end].is_last;)
            end++;
        const int64_t to = s + w->setting.n_step < end + 1 ? s + w->setting.n_step : end + 1;
        const double sum = return_of(a->steps, s, to, w->config.gamma, &discount);
        discount = to == end + 1 && a->steps[end].terminated ? 0 : discount;
        const double priority = real_at(packed, ACTOR_PRIORITY, row);
        wrong += !(fabs(real_at(packed, ACTOR_REWARD, row) - sum) <= 1e-6) ||
                 !(fabs(real_at(packed, ACTOR_DISCOUNT, row) - discount) <= 1e-6) ||
                 (isnan(want[s]) ? !isnan(priority) : !(fabs(priority - want[s]) <= 2e-6));
    }
    free(want);
    return wrong;
}

int64_t actors_wrong(actors_fixture *w)
{
    table stepped = {0}, packed = {0};
    int64_t wrong = -1;
    if (read_table(w, w->stepped, &stepped) == GPUR_OK && read_table(w, w->packed, &packed) == GPUR_OK) {
        wrong = packed.rows != w->next_tag || stepped.rows != w->next_tag;
        for (int64_t tag = 0; tag < w->next_tag && wrong == 0; tag++)
            wrong += is_wrong_row(&stepped, &packed, tag);
        for (int32_t i = 0; i < w->setting.actors && wrong == 0; i++)
            wrong += count_far(w, &w->actors[i], &packed);
    }
    close_table(&stepped);
    close_table(&packed);
    return wrong;
}
