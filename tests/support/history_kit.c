/* SPDX-License-Identifier: MIT */
#include "support/history_kit.h"

#include "support/replay_kit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BATCH = 32, OBS_ROOM = HISTORY_MOST_STACK * PLAY_FRAME };

void play_fields(gpur_field *fields, play_shape shape)
{
    gpur_field obs = {"obs", GPUR_UINT8, {shape.stack, 5, 4}};
    if (shape.last)
        obs.shape[0] = 5, obs.shape[1] = 4, obs.shape[2] = shape.stack;
    const gpur_field all[PLAY_FIELDS] = {obs,
                                         {"action", GPUR_INT32, {0}},
                                         {"reward", GPUR_FLOAT32, {0}},
                                         {"next_obs", GPUR_UINT8, {obs.shape[0], obs.shape[1], obs.shape[2]}},
                                         {"terminated", GPUR_BOOL, {0}},
                                         {"truncated", GPUR_UINT8, {0}},
                                         {"discount", GPUR_FLOAT32, {0}},
                                         {"previous", GPUR_INT64, {0}},
                                         {"tag", GPUR_INT64, {0}}};
    memcpy(fields, all, sizeof all);
}

/* The tag itself, and bytes that follow from it; no frame is zeros. */
static unsigned char byte_of(int64_t tag, int64_t at)
{
    if (tag == HISTORY_NO_FRAME)
        return 0;
    return (unsigned char)(at < 8 ? (uint64_t)(tag + 1) >> (8 * at) & 255u
                                  : (uint64_t)(tag * 31 + at * 7 + 1) % 251u + 1);
}

void play_stack(unsigned char *to, play_shape shape, const int64_t *tags)
{
    for (int32_t j = 0; j < shape.stack; j++)
        for (int64_t i = 0; i < PLAY_FRAME; i++)
            to[shape.last ? i * shape.stack + j : j * PLAY_FRAME + i] = byte_of(tags[j], i);
}

/* The stacks of all environments, and what a writer is given of them: the stacks, or the newest frame of each. */
typedef int64_t stack_tags[HISTORY_MOST_STACK];

static void give(const play *p, int32_t w, const stack_tags *tags, int32_t count, unsigned char *array)
{
    const play_shape frame = {1, 0};
    for (int32_t env = 0; env < count; env++)
        if (p->gives_frames[w])
            play_stack(array + env * PLAY_FRAME, frame, tags[env] + p->shape.stack - 1);
        else
            play_stack(array + env * p->shape.stack * PLAY_FRAME, p->shape, tags[env]);
}

gpur_status play_reset(play *p, int32_t env)
{
    unsigned char obs[PLAY_ENVS * OBS_ROOM];
    stack_tags tags[PLAY_ENVS];
    const int32_t first = env < 0 ? 0 : env, last = env < 0 ? p->history.num_envs : env + 1;
    for (int32_t e = first; e < last; e++) {
        history_reset(&p->history, e, (*p->next_frame)++);
        p->is_over[e] = 0;
        history_stack(&p->history, e, tags[e - first]);
    }
    for (int32_t w = 0; w < p->writer_count; w++) {
        give(p, w, (const stack_tags *)tags, last - first, obs);
        if (gpur_writer_reset(p->writers[w], env, obs) != GPUR_OK)
            return GPUR_INVALID_ARGUMENT;
    }
    return GPUR_OK;
}

typedef struct moment {
    stack_tags next[PLAY_ENVS], final[PLAY_ENVS];
    int32_t action[PLAY_ENVS];
    float reward[PLAY_ENVS];
    uint8_t terminated[PLAY_ENVS], truncated[PLAY_ENVS];
    int64_t tag[PLAY_ENVS];
} moment;

static void move(play *p, int32_t env, moment *m)
{
    const int ends = kit_below(p->random, p->ends_in) == 0, cut = ends && kit_below(p->random, 2);
    const history_step step = {m->action[env], m->reward[env], m->tag[env]};
    m->terminated[env] = (uint8_t)(ends && !cut);
    m->truncated[env] = (uint8_t)(cut || (ends && kit_below(p->random, 8) == 0)); /* both, now and then */
    history_take(&p->history, env, step, (*p->next_frame)++, m->terminated[env], m->truncated[env]);
    history_stack(&p->history, env, m->next[env]);
    memcpy(m->final[env], m->next[env], sizeof m->final[env]);
    p->is_over[env] = ends;
}

/* The environment resets by itself. */
static void begin_anew(play *p, int32_t env, moment *m)
{
    history_reset(&p->history, env, (*p->next_frame)++);
    history_stack(&p->history, env, m->next[env]);
    p->is_over[env] = 0;
}

static void act(play *p, int32_t env, moment *m)
{
    m->action[env] = (int32_t)kit_below(p->random, 1000);
    m->reward[env] = (float)kit_below(p->random, 2001) / 500.0f - 2.0f;
    m->tag[env] = (int64_t)kit_random(p->random);
    m->terminated[env] = m->truncated[env] = 0;
    if (p->is_over[env]) /* under NEXT_STEP only */
        begin_anew(p, env, m);
    else
        move(p, env, m);
    if (p->is_over[env] && p->autoreset == GPUR_AUTORESET_SAME_STEP)
        begin_anew(p, env, m);
}

static gpur_status tell(const play *p, int32_t w, const moment *m)
{
    unsigned char next_obs[PLAY_ENVS * OBS_ROOM], final_obs[PLAY_ENVS * OBS_ROOM];
    const void *extras[PLAY_FIELDS] = {0};
    extras[PLAY_FIELDS - 1] = m->tag;
    give(p, w, (const stack_tags *)m->next, p->history.num_envs, next_obs);
    give(p, w, (const stack_tags *)m->final, p->history.num_envs, final_obs);
    const gpur_step_input input = {sizeof input,
                                   m->action,
                                   m->reward,
                                   next_obs,
                                   m->terminated,
                                   m->truncated,
                                   p->autoreset == GPUR_AUTORESET_SAME_STEP ? final_obs : NULL,
                                   extras};
    return gpur_writer_step_with(p->writers[w], &input);
}

gpur_status play_step(play *p)
{
    moment m;
    memset(&m, 0, sizeof m);
    for (int32_t env = 0; env < p->history.num_envs; env++)
        if (p->is_over[env] && p->autoreset == GPUR_AUTORESET_DISABLED && play_reset(p, env) != GPUR_OK)
            return GPUR_INVALID_ARGUMENT;
    for (int32_t env = 0; env < p->history.num_envs; env++)
        act(p, env, &m);
    for (int32_t w = 0; w < p->writer_count; w++) {
        const gpur_status status = tell(p, w, &m);
        if (status != GPUR_OK)
            return status;
    }
    return GPUR_OK;
}

static int64_t differ(const void *a, const void *b, int64_t bytes)
{
    const unsigned char *const x = a, *const y = b;
    int64_t count = 0;
    for (int64_t i = 0; i < bytes; i++)
        count += x[i] != y[i];
    return count;
}

static int64_t far(double got, double want)
{
    return !(fabs(got - want) <= 1e-6 * (1 + fabs(want)));
}

typedef struct columns {
    int64_t id[MOST_BATCH], previous[MOST_BATCH], tag[MOST_BATCH];
    unsigned char obs[MOST_BATCH * OBS_ROOM], next_obs[MOST_BATCH * OBS_ROOM];
    int32_t action[MOST_BATCH];
    float reward[MOST_BATCH], discount[MOST_BATCH];
    uint8_t terminated[MOST_BATCH], truncated[MOST_BATCH];
} columns;

static int read_columns(gpur_batch *batch, int64_t obs, columns *c)
{
    const int64_t n = gpur_batch_count(batch);
    return gpur_batch_read(batch, "id", c->id, n * 8) == GPUR_OK &&
           gpur_batch_read(batch, "previous", c->previous, n * 8) == GPUR_OK &&
           gpur_batch_read(batch, "tag", c->tag, n * 8) == GPUR_OK &&
           gpur_batch_read(batch, "obs", c->obs, n * obs) == GPUR_OK &&
           gpur_batch_read(batch, "next_obs", c->next_obs, n * obs) == GPUR_OK &&
           gpur_batch_read(batch, "action", c->action, n * 4) == GPUR_OK &&
           gpur_batch_read(batch, "reward", c->reward, n * 4) == GPUR_OK &&
           gpur_batch_read(batch, "discount", c->discount, n * 4) == GPUR_OK &&
           gpur_batch_read(batch, "terminated", c->terminated, n) == GPUR_OK &&
           gpur_batch_read(batch, "truncated", c->truncated, n) == GPUR_OK;
}

static int64_t wrong_row(const columns *c, int64_t b, play_shape shape, const history_row *row)
{
    unsigned char want[OBS_ROOM];
    const int64_t obs = shape.stack * PLAY_FRAME;
    play_stack(want, shape, row->obs);
    int64_t wrong = differ(want, c->obs + b * obs, obs);
    play_stack(want, shape, row->next_obs);
    wrong += differ(want, c->next_obs + b * obs, obs);
    wrong += c->action[b] != row->action;
    wrong += c->tag[b] != row->extra;
    wrong += c->previous[b] != row->previous;
    wrong += c->terminated[b] != row->terminated;
    wrong += c->truncated[b] != row->truncated;
    return wrong + far((double)c->reward[b], row->reward) + far((double)c->discount[b], row->discount);
}

int64_t play_wrong(gpur_batch *batch, play_shape shape, const history_rows *all)
{
    static _Thread_local columns c;
    if (gpur_batch_count(batch) > MOST_BATCH || !read_columns(batch, shape.stack * PLAY_FRAME, &c))
        return -1;
    int64_t wrong = 0;
    for (int64_t b = 0; b < gpur_batch_count(batch); b++) {
        if (c.id[b] < 0 || c.id[b] >= all->count)
            return -1;
        wrong += wrong_row(&c, b, shape, &all->rows[c.id[b]]);
    }
    return wrong;
}

int64_t play_wrong_everywhere(gpur_replay *replay, play_shape shape, const history_rows *all, int64_t *first,
                              int64_t *count)
{
    gpur_replay_stats stats = {.size = sizeof stats};
    int64_t wrong = 0, most = MOST_BATCH;
    if (gpur_replay_get_stats(replay, &stats) != GPUR_OK)
        return -1;
    *first = stats.first_id, *count = stats.visible;
    for (int64_t done = 0; done < stats.visible && wrong == 0;) {
        int64_t ids[MOST_BATCH], n = 0;
        gpur_batch *batch = NULL;
        for (; n < most && done + n < stats.visible; n++)
            ids[n] = stats.first_id + done + n;
        gpur_status status = gpur_replay_gather(replay, n, ids, NULL, &batch);
        if (status == GPUR_INVALID_ARGUMENT && most > 1) { /* above the replay's max_batch, then */
            most /= 2;
            continue;
        }
        wrong = status == GPUR_OK ? play_wrong(batch, shape, all) : -1;
        gpur_batch_release(batch);
        done += n;
    }
    return wrong;
}
