/* SPDX-License-Identifier: MIT */
#include "support/episode_fixture.h"

#include "base/status.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OBS_ROOM = HISTORY_MAX_STACK * PLAYER_FRAME };

void player_fields(gpur_field *fields, stack_shape shape)
{
    const gpur_field first = {"obs", GPUR_UINT8, {shape.stack, 5, 4}}, last = {"obs", GPUR_UINT8, {5, 4, shape.stack}};
    const gpur_field obs = shape.last ? last : first;
    const gpur_field all[PLAYER_FIELDS] = {obs,
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

void player_stack(unsigned char *to, stack_shape shape, const int64_t *tags)
{
    for (int32_t j = 0; j < shape.stack; j++)
        for (int64_t i = 0; i < PLAYER_FRAME; i++)
            to[shape.last ? i * shape.stack + j : j * PLAYER_FRAME + i] = byte_of(tags[j], i);
}

/* The stacks of all environments, and what a writer is given of them: the stacks, or the newest frame of each. */
typedef int64_t stack_tags[HISTORY_MAX_STACK];

static void write_obs(const player *p, int32_t w, const stack_tags *tags, int32_t count, unsigned char *array)
{
    const stack_shape frame = {1, 0};
    for (int32_t env = 0; env < count; env++)
        if (p->gives_frames[w])
            player_stack(array + env * PLAYER_FRAME, frame, tags[env] + p->shape.stack - 1);
        else
            player_stack(array + env * p->shape.stack * PLAYER_FRAME, p->shape, tags[env]);
}

static void begin_episode(player *p, int32_t env, int64_t *tags)
{
    history_reset(&p->history, env, (*p->next_frame)++);
    history_stack(&p->history, env, tags);
    p->is_over[env] = 0;
}

gpur_status player_reset(player *p, int32_t env)
{
    unsigned char obs[PLAYER_ENVS * OBS_ROOM];
    stack_tags tags[PLAYER_ENVS];
    const int32_t first = env < 0 ? 0 : env, last = env < 0 ? p->history.num_envs : env + 1;
    for (int32_t e = first; e < last; e++)
        begin_episode(p, e, tags[e - first]);
    for (int32_t w = 0; w < p->writer_count; w++) {
        gpur_status status = GPUR_WOULD_BLOCK;
        write_obs(p, w, (const stack_tags *)tags, last - first, obs);
        while (status == GPUR_WOULD_BLOCK)
            status = gpur_writer_reset(p->writers[w], env, obs);
        GPUR_TRY(status);
    }
    return GPUR_OK;
}

typedef struct env_steps {
    stack_tags next[PLAYER_ENVS], final[PLAYER_ENVS];
    int32_t action[PLAYER_ENVS];
    float reward[PLAYER_ENVS];
    uint8_t terminated[PLAYER_ENVS], truncated[PLAYER_ENVS];
    int64_t tag[PLAYER_ENVS];
} env_steps;

static void take_step(player *p, int32_t env, env_steps *m)
{
    const int ends = xorshift_below(p->random, p->ends_in) == 0, cut = ends && xorshift_below(p->random, 2);
    const history_step step = {m->action[env], m->reward[env], m->tag[env]};
    m->terminated[env] = (uint8_t)(ends && !cut);
    m->truncated[env] = (uint8_t)(cut || (ends && xorshift_below(p->random, 8) == 0)); /* both, now and then */
    history_take(&p->history, env, step, (*p->next_frame)++, m->terminated[env], m->truncated[env]);
    history_stack(&p->history, env, m->next[env]);
    memcpy(m->final[env], m->next[env], sizeof m->final[env]);
    p->is_over[env] = ends;
}

static void step_env(player *p, int32_t env, env_steps *m)
{
    m->action[env] = (int32_t)xorshift_below(p->random, 1000);
    m->reward[env] = (float)xorshift_below(p->random, 2001) / 500.0f - 2.0f;
    m->tag[env] = (int64_t)xorshift_next(p->random);
    m->terminated[env] = m->truncated[env] = 0;
    if (p->is_over[env]) /* under NEXT_STEP only: the environment resets by itself */
        begin_episode(p, env, m->next[env]);
    else
        take_step(p, env, m);
    if (p->is_over[env] && p->autoreset == GPUR_AUTORESET_SAME_STEP)
        begin_episode(p, env, m->next[env]);
}

static gpur_status step_writer(const player *p, int32_t w, const env_steps *m)
{
    unsigned char next_obs[PLAYER_ENVS * OBS_ROOM], final_obs[PLAYER_ENVS * OBS_ROOM];
    const void *const extras[PLAYER_FIELDS] = {[PLAYER_FIELDS - 1] = m->tag};
    const gpur_step_input input = {.size = sizeof input,
                                   .action = m->action,
                                   .reward = m->reward,
                                   .next_obs = next_obs,
                                   .terminated = m->terminated,
                                   .truncated = m->truncated,
                                   .final_obs = p->autoreset == GPUR_AUTORESET_SAME_STEP ? final_obs : NULL,
                                   .extras = extras};
    gpur_status status = GPUR_WOULD_BLOCK;
    write_obs(p, w, (const stack_tags *)m->next, p->history.num_envs, next_obs);
    write_obs(p, w, (const stack_tags *)m->final, p->history.num_envs, final_obs);
    while (status == GPUR_WOULD_BLOCK)
        status = gpur_writer_step_ex(p->writers[w], &input);
    return status;
}

gpur_status player_step(player *p)
{
    env_steps m;
    memset(&m, 0, sizeof m);
    for (int32_t env = 0; env < p->history.num_envs; env++)
        if (p->is_over[env] && p->autoreset == GPUR_AUTORESET_DISABLED)
            GPUR_TRY(player_reset(p, env));
    for (int32_t env = 0; env < p->history.num_envs; env++)
        step_env(p, env, &m);
    for (int32_t w = 0; w < p->writer_count; w++)
        GPUR_TRY(step_writer(p, w, &m));
    return GPUR_OK;
}

static int is_wrong_state(const player *p, int32_t w, int32_t env)
{
    static const int32_t after[] = {GPUR_EPISODE_NONE, GPUR_EPISODE_ENDED, GPUR_EPISODE_OPEN};
    const history_env *const e = &p->history.envs[env];
    const int is_open = !p->is_over[env];
    unsigned char want[OBS_ROOM], obs[OBS_ROOM];
    gpur_episode_info info = {.size = sizeof info};
    stack_tags tags;
    memset(want, 0xAB, sizeof want); /* without an open episode the memory is left alone */
    memset(obs, 0xAB, sizeof obs);
    history_stack(&p->history, env, tags);
    if (is_open)
        write_obs(p, w, (const stack_tags *)&tags, 1, want);
    return gpur_writer_get_episode(p->writers[w], env, &info, NULL) != GPUR_OK ||
           gpur_writer_get_episode(p->writers[w], env, &info, obs) != GPUR_OK || info.size != sizeof info ||
           info.state != (is_open ? GPUR_EPISODE_OPEN : after[p->autoreset]) ||
           info.steps != (is_open ? e->count : 0) || info.pending != (is_open ? e->count - e->made : 0) ||
           memcmp(obs, want, sizeof obs) != 0;
}

int32_t player_wrong_states(const player *p, int32_t w)
{
    int32_t wrong = 0;
    for (int32_t env = 0; env < p->history.num_envs; env++)
        wrong += is_wrong_state(p, w, env);
    return wrong;
}

/* A float32 of a sum in double is within half a unit of its last place. */
static int is_far(const unsigned char *got, double want)
{
    float value;
    memcpy(&value, got, sizeof value);
    return !(fabs((double)value - want) <= 1e-7 * (1 + fabs(want)));
}

/* The value of a row's field, in the order of player_fields, is not the history's. */
static int is_wrong_value(int32_t field, const unsigned char *got, stack_shape shape, const history_row *row)
{
    unsigned char want[OBS_ROOM];
    switch (field) {
    case 0:
    case 3:
        player_stack(want, shape, field == 0 ? row->obs : row->next_obs);
        return memcmp(got, want, (size_t)shape.stack * PLAYER_FRAME) != 0;
    case 1:
        return memcmp(got, &row->action, sizeof row->action) != 0;
    case 2:
        return is_far(got, row->reward);
    case 4:
        return got[0] != row->terminated;
    case 5:
        return got[0] != row->truncated;
    case 6:
        return is_far(got, row->discount);
    case 7:
        return memcmp(got, &row->previous, sizeof row->previous) != 0;
    default:
        return memcmp(got, &row->extra, sizeof row->extra) != 0;
    }
}

int64_t player_wrong(gpur_batch *batch, stack_shape shape, const history_rows *all)
{
    static _Thread_local unsigned char values[LAYOUTS_MAX_BATCH * OBS_ROOM];
    const int64_t obs = shape.stack * PLAYER_FRAME, bytes[PLAYER_FIELDS] = {obs, 4, 4, obs, 1, 1, 4, 8, 8};
    const int64_t count = gpur_batch_count(batch);
    gpur_field fields[PLAYER_FIELDS];
    int64_t ids[LAYOUTS_MAX_BATCH], wrong = 0;
    player_fields(fields, shape);
    if (count > LAYOUTS_MAX_BATCH || gpur_batch_read(batch, "id", ids, count * 8) != GPUR_OK)
        return -1;
    for (int32_t f = 0; f < PLAYER_FIELDS; f++) {
        if (gpur_batch_read(batch, fields[f].name, values, count * bytes[f]) != GPUR_OK)
            return -1;
        for (int64_t b = 0; b < count; b++) {
            if (ids[b] < 0 || ids[b] >= all->count)
                return -1;
            wrong += is_wrong_value(f, values + b * bytes[f], shape, &all->rows[ids[b]]);
        }
    }
    return wrong;
}

static void configure(layouts_fixture *w)
{
    const layouts_setting *const s = &w->setting;
    gpur_replay_config *const c = &w->config;
    player_fields(w->fields, s->shape);
    *c = replay_fixture_config(w->fields, PLAYER_FIELDS, s->capacity, s->block_rows, s->max_batch);
    c->n_step = s->n_step, c->flush = s->flush, c->staging_blocks = s->staging_blocks;
    c->upload = s->feed, c->when_full = s->when_full, c->seed = s->seed;
    c->index_source = s->index_source, c->prioritized = s->prioritized;
    if (s->prioritized)
        c->alpha = s->alpha, c->priority_offset = s->priority_offset, c->weight_norm = s->weight_norm;
    c->gamma = s->gamma > 0 ? s->gamma : 0.97f, c->reward_clip = s->is_unclipped ? 0.0f : 1.5f;
    if (s->rows_only)
        return;
    c->layout = GPUR_LAYOUT_FRAMES, c->frame_stack = s->shape.stack, c->extra_frames = s->extra_frames;
    c->stack_axis = s->shape.last ? GPUR_STACK_LAST : GPUR_STACK_FIRST;
    c->stack_pad = s->repeats ? GPUR_PAD_REPEAT : GPUR_PAD_ZERO;
}

static gpur_status open_replays(layouts_fixture *w)
{
    for (int r = 0; r < w->replay_count; r++) {
        gpur_replay_config config = w->config;
        config.layout = r == 0 ? GPUR_LAYOUT_ROWS : GPUR_LAYOUT_FRAMES;
        GPUR_TRY(gpur_replay_create(w->device, &config, &w->replays[r]));
    }
    return GPUR_OK;
}

static gpur_status open_writers(layouts_fixture *w, player *p)
{
    gpur_writer_config config;
    GPUR_TRY(gpur_writer_config_init(&config, sizeof config));
    config.num_envs = p->history.num_envs, config.autoreset = p->autoreset;
    for (int r = 0; r < w->replay_count; r++) {
        p->gives_frames[r] = r == 2;
        config.observations = r == 2 ? GPUR_OBSERVATIONS_FRAMES : GPUR_OBSERVATIONS_STACKS;
        GPUR_TRY(gpur_writer_open(w->replays[r], &config, &p->writers[r]));
    }
    return GPUR_OK;
}

static gpur_status open_environments(layouts_fixture *w, int number)
{
    const layouts_setting *const s = &w->setting;
    player *const p = &w->players[number];
    history_begin(&p->history, &w->all, (s->envs + number * s->more_envs - 1) % PLAYER_ENVS + 1);
    p->history.n_step = s->n_step, p->history.gamma = w->config.gamma, p->history.clip = w->config.reward_clip;
    p->history.stack = s->shape.stack, p->history.repeats = s->repeats;
    p->shape = s->shape, p->autoreset = s->autoreset, p->ends_in = s->ends_in;
    p->random = &w->random, p->next_frame = &w->next_frame;
    p->writer_count = w->replay_count;
    GPUR_TRY(open_writers(w, p));
    return player_reset(p, -1);
}

int layouts_fixture_open(layouts_fixture *w, gpur_device *device, const layouts_setting *setting, uint64_t seed)
{
    memset(w, 0, sizeof *w);
    w->setting = *setting;
    w->device = device;
    w->replay_count = setting->rows_only ? 1 : LAYOUTS_REPLAYS;
    w->random = seed * 0x9E3779B97F4A7C15ull + 1;
    configure(w);
    if (open_replays(w) != GPUR_OK)
        return 0;
    for (int i = 0; i < setting->writers; i++)
        if (open_environments(w, i) != GPUR_OK)
            return 0;
    return 1;
}

static void destroy_writers(player *p)
{
    for (int r = 0; r < LAYOUTS_REPLAYS; r++) {
        gpur_writer_destroy(p->writers[r]);
        p->writers[r] = NULL;
    }
}

int32_t layouts_fixture_end_writers(layouts_fixture *w)
{
    int32_t open = 0;
    for (int i = 0; i < w->setting.writers; i++) {
        player *const p = &w->players[i];
        if (!p->writers[0])
            continue;
        destroy_writers(p);
        open += history_truncate_all(&p->history);
        history_end(&p->history);
    }
    return open;
}

void layouts_fixture_close(layouts_fixture *w)
{
    layouts_fixture_end_writers(w);
    history_rows_end(&w->all);
    for (int r = 0; r < LAYOUTS_REPLAYS; r++)
        gpur_replay_destroy(w->replays[r]);
    gpur_device_close(w->device);
}

static gpur_status reload(layouts_fixture *w, char paths[LAYOUTS_REPLAYS][32])
{
    for (int r = 0; r < w->replay_count; r++)
        GPUR_TRY(gpur_replay_save(w->replays[r], paths[r], NULL));
    for (int i = 0; i < w->setting.writers; i++)
        destroy_writers(&w->players[i]);
    for (int r = 0; r < w->replay_count; r++)
        gpur_replay_destroy(w->replays[r]);
    GPUR_TRY(open_replays(w));
    for (int i = 0; i < w->setting.writers; i++)
        GPUR_TRY(open_writers(w, &w->players[i]));
    for (int r = 0; r < w->replay_count; r++)
        for (int times = 0; times < 2; times++) /* into an empty replay, and into one that has rows to lose */
            GPUR_TRY(gpur_replay_load(w->replays[r], paths[r], NULL));
    return GPUR_OK;
}

gpur_status layouts_fixture_reload(layouts_fixture *w)
{
    char folder[] = "/tmp/gpur_reload_XXXXXX", paths[LAYOUTS_REPLAYS][32];
    GPUR_REQUIRE(mkdtemp(folder), "no folder %s", folder);
    for (int r = 0; r < w->replay_count; r++)
        snprintf(paths[r], sizeof paths[r], "%s/%c", folder, (char)('0' + r));
    const gpur_status status = reload(w, paths);
    for (int r = 0; r < w->replay_count; r++)
        unlink(paths[r]);
    rmdir(folder);
    return status;
}

/* Of every visible row of a replay, of which *first is the first. */
static int64_t wrong_in(layouts_fixture *w, int r, int64_t *first, int64_t *count)
{
    const int64_t max_batch = w->setting.max_batch < LAYOUTS_MAX_BATCH ? w->setting.max_batch : LAYOUTS_MAX_BATCH;
    const gpur_replay_stats stats = replay_fixture_stats(w->replays[r]);
    int64_t wrong = stats.visible < 0 ? -1 : 0;
    *first = stats.first_id, *count = stats.visible;
    for (int64_t done = 0, n = 0; done < stats.visible && wrong == 0; done += n) {
        int64_t ids[LAYOUTS_MAX_BATCH];
        gpur_batch *batch = NULL;
        for (n = 0; n < max_batch && done + n < stats.visible; n++)
            ids[n] = stats.first_id + done + n;
        wrong = gpur_replay_gather(w->replays[r], n, ids, NULL, &batch) == GPUR_OK
                    ? player_wrong(batch, w->setting.shape, &w->all)
                    : -1;
        gpur_batch_release(batch);
    }
    return wrong;
}

int64_t layouts_fixture_wrong(layouts_fixture *w, int64_t least)
{
    const int64_t all = w->all.count;
    int64_t first[LAYOUTS_REPLAYS], count[LAYOUTS_REPLAYS];
    for (int r = 0; r < w->replay_count; r++) {
        const int64_t wrong = wrong_in(w, r, &first[r], &count[r]);
        if (wrong != 0)
            return wrong;
        if (w->setting.flush == GPUR_FLUSH_AUTO && first[r] + count[r] != all)
            return -3;
    }
    if (w->replay_count == 1)
        return 0;
    if (first[1] != first[2] || count[1] != count[2])
        return -2;
    if (w->setting.flush == GPUR_FLUSH_MANUAL) /* what has been published by now depends on the blocks */
        return 0;
    return count[1] > count[0] || (count[1] < count[0] && count[1] < least) ? -4 : 0;
}

/* The windows that samples taken now would see. Under GPUR_FLUSH_MANUAL they are not to be compared: what has been
 * published depends on the blocks. */
static int windows_are_equal(layouts_fixture *w)
{
    for (int r = 1; r < w->replay_count; r++)
        if (replay_fixture_stats(w->replays[r]).first_id != replay_fixture_stats(w->replays[0]).first_id)
            return 0;
    return w->setting.flush == GPUR_FLUSH_AUTO;
}

/* Samples from replay r, or is refused for want of rows. 1: a call failed, the rows are not the history's, or ids and
 * weights are not those sampled from replay 0, if they are to be `equal`. */
static int sample_from(layouts_fixture *w, int r, int64_t count, int equal, int *sampled)
{
    int64_t ids[LAYOUTS_MAX_BATCH];
    float weights[LAYOUTS_MAX_BATCH];
    gpur_batch *batch = NULL;
    const gpur_status status = gpur_replay_sample(w->replays[r], count, NULL, &batch);
    if (status != GPUR_OK)
        return status != GPUR_TOO_FEW;
    ++*sampled;
    const int wrong = player_wrong(batch, w->setting.shape, &w->all) != 0 ||
                      gpur_batch_read(batch, "id", ids, count * 8) != GPUR_OK ||
                      gpur_batch_read(batch, "weight", weights, count * 4) != GPUR_OK;
    gpur_batch_release(batch);
    if (wrong || r > 0)
        return wrong || (equal && (memcmp(ids, w->ids, (size_t)count * sizeof *ids) != 0 ||
                                   memcmp(weights, w->weights, (size_t)count * sizeof *weights) != 0));
    w->drawn = count;
    memcpy(w->ids, ids, (size_t)count * sizeof *ids);
    memcpy(w->weights, weights, (size_t)count * sizeof *weights);
    return 0;
}

int64_t layouts_fixture_samples_differ(layouts_fixture *w, int64_t count)
{
    const int equal = windows_are_equal(w) && !w->out_of_step;
    int64_t differ = 0;
    int sampled = 0;
    w->drawn = 0;
    for (int r = 0; r < w->replay_count; r++)
        differ += sample_from(w, r, count, equal, &sampled);
    const int by_some = sampled > 0 && sampled < w->replay_count;
    w->out_of_step |= by_some;
    return differ + (equal && by_some);
}

gpur_status read_rows(gpur_replay *replay, const char *name, int64_t first, int64_t count, void *values, int64_t bytes)
{
    int64_t ids[64];
    gpur_batch *batch = NULL;
    for (int64_t i = 0; i < count; i++)
        ids[i] = first + i;
    gpur_status status = gpur_replay_gather(replay, count, ids, NULL, &batch);
    if (status == GPUR_OK)
        status = gpur_batch_read(batch, name, values, count * bytes);
    gpur_batch_release(batch);
    return status;
}

int64_t rows_appended(gpur_replay *replay)
{
    return replay_fixture_stats(replay).appended;
}
