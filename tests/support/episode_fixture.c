/* SPDX-License-Identifier: MIT */
#include "support/episode_fixture.h"

#include "base/status.h"

#include <math.h>
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

static void give(const play *p, int32_t w, const stack_tags *tags, int32_t count, unsigned char *array)
{
    const stack_shape frame = {1, 0};
    for (int32_t env = 0; env < count; env++)
        if (p->gives_frames[w])
            player_stack(array + env * PLAYER_FRAME, frame, tags[env] + p->shape.stack - 1);
        else
            player_stack(array + env * p->shape.stack * PLAYER_FRAME, p->shape, tags[env]);
}

gpur_status player_reset(play *p, int32_t env)
{
    unsigned char obs[PLAYER_ENVS * OBS_ROOM];
    stack_tags tags[PLAYER_ENVS];
    const int32_t first = env < 0 ? 0 : env, last = env < 0 ? p->history.num_envs : env + 1;
    for (int32_t e = first; e < last; e++) {
        history_reset(&p->history, e, (*p->next_frame)++);
        p->is_over[e] = 0;
        history_stack(&p->history, e, tags[e - first]);
    }
    for (int32_t w = 0; w < p->writer_count; w++) {
        gpur_status status = GPUR_WOULD_BLOCK;
        give(p, w, (const stack_tags *)tags, last - first, obs);
        while (status == GPUR_WOULD_BLOCK)
            status = gpur_writer_reset(p->writers[w], env, obs);
        GPUR_TRY(status);
    }
    return GPUR_OK;
}

typedef struct moment {
    stack_tags next[PLAYER_ENVS], final[PLAYER_ENVS];
    int32_t action[PLAYER_ENVS];
    float reward[PLAYER_ENVS];
    uint8_t terminated[PLAYER_ENVS], truncated[PLAYER_ENVS];
    int64_t tag[PLAYER_ENVS];
} moment;

static void move(play *p, int32_t env, moment *m)
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

/* The environment resets by itself. */
static void begin_anew(play *p, int32_t env, moment *m)
{
    history_reset(&p->history, env, (*p->next_frame)++);
    history_stack(&p->history, env, m->next[env]);
    p->is_over[env] = 0;
}

static void act(play *p, int32_t env, moment *m)
{
    m->action[env] = (int32_t)xorshift_below(p->random, 1000);
    m->reward[env] = (float)xorshift_below(p->random, 2001) / 500.0f - 2.0f;
    m->tag[env] = (int64_t)xorshift_next(p->random);
    m->terminated[env] = m->truncated[env] = 0;
    if (p->is_over[env]) /* under NEXT_STEP only */
        begin_anew(p, env, m);
    else
        move(p, env, m);
    if (p->is_over[env] && p->autoreset == GPUR_AUTORESET_SAME_STEP)
        begin_anew(p, env, m);
}

static gpur_status step_writer(const play *p, int32_t w, const moment *m)
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
    give(p, w, (const stack_tags *)m->next, p->history.num_envs, next_obs);
    give(p, w, (const stack_tags *)m->final, p->history.num_envs, final_obs);
    while (status == GPUR_WOULD_BLOCK)
        status = gpur_writer_step_ex(p->writers[w], &input);
    return status;
}

gpur_status player_step(play *p)
{
    moment m;
    memset(&m, 0, sizeof m);
    for (int32_t env = 0; env < p->history.num_envs; env++)
        if (p->is_over[env] && p->autoreset == GPUR_AUTORESET_DISABLED)
            GPUR_TRY(player_reset(p, env));
    for (int32_t env = 0; env < p->history.num_envs; env++)
        act(p, env, &m);
    for (int32_t w = 0; w < p->writer_count; w++)
        GPUR_TRY(step_writer(p, w, &m));
    return GPUR_OK;
}

static int is_wrong_state(const play *p, int32_t w, int32_t env)
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
        give(p, w, (const stack_tags *)&tags, 1, want);
    return gpur_writer_get_episode(p->writers[w], env, &info, NULL) != GPUR_OK ||
           gpur_writer_get_episode(p->writers[w], env, &info, obs) != GPUR_OK || info.size != sizeof info ||
           info.state != (is_open ? GPUR_EPISODE_OPEN : after[p->autoreset]) ||
           info.steps != (is_open ? e->count : 0) || info.pending != (is_open ? e->count - e->made : 0) ||
           memcmp(obs, want, sizeof obs) != 0;
}

int32_t play_wrong_states(const play *p, int32_t w)
{
    int32_t wrong = 0;
    for (int32_t env = 0; env < p->history.num_envs; env++)
        wrong += is_wrong_state(p, w, env);
    return wrong;
}

/* A float32 of a sum in double is within half a unit of its last place. */
static int64_t is_far(double got, double want)
{
    return !(fabs(got - want) <= 1e-7 * (1 + fabs(want)));
}

typedef struct columns {
    int64_t id[PLAY_MOST_BATCH], previous[PLAY_MOST_BATCH], tag[PLAY_MOST_BATCH];
    unsigned char obs[PLAY_MOST_BATCH * OBS_ROOM], next_obs[PLAY_MOST_BATCH * OBS_ROOM];
    int32_t action[PLAY_MOST_BATCH];
    float reward[PLAY_MOST_BATCH], discount[PLAY_MOST_BATCH];
    uint8_t terminated[PLAY_MOST_BATCH], truncated[PLAY_MOST_BATCH];
} columns;

static gpur_status read_columns(gpur_batch *batch, int64_t obs, columns *c)
{
    const int64_t n = gpur_batch_count(batch);
    GPUR_TRY(gpur_batch_read(batch, "id", c->id, n * 8));
    GPUR_TRY(gpur_batch_read(batch, "previous", c->previous, n * 8));
    GPUR_TRY(gpur_batch_read(batch, "tag", c->tag, n * 8));
    GPUR_TRY(gpur_batch_read(batch, "obs", c->obs, n * obs));
    GPUR_TRY(gpur_batch_read(batch, "next_obs", c->next_obs, n * obs));
    GPUR_TRY(gpur_batch_read(batch, "action", c->action, n * 4));
    GPUR_TRY(gpur_batch_read(batch, "reward", c->reward, n * 4));
    GPUR_TRY(gpur_batch_read(batch, "discount", c->discount, n * 4));
    GPUR_TRY(gpur_batch_read(batch, "terminated", c->terminated, n));
    return gpur_batch_read(batch, "truncated", c->truncated, n);
}

static int64_t wrong_stack(const unsigned char *got, stack_shape shape, const int64_t *tags)
{
    unsigned char want[OBS_ROOM];
    int64_t wrong = 0;
    player_stack(want, shape, tags);
    for (int64_t i = 0; i < shape.stack * PLAYER_FRAME; i++)
        wrong += got[i] != want[i];
    return wrong;
}

static int64_t wrong_row(const columns *c, int64_t b, stack_shape shape, const history_row *row)
{
    const int64_t obs = shape.stack * PLAYER_FRAME;
    return wrong_stack(c->obs + b * obs, shape, row->obs) + wrong_stack(c->next_obs + b * obs, shape, row->next_obs) +
           (c->action[b] != row->action) + (c->tag[b] != row->extra) + (c->previous[b] != row->previous) +
           (c->terminated[b] != row->terminated) + (c->truncated[b] != row->truncated) +
           is_far((double)c->reward[b], row->reward) + is_far((double)c->discount[b], row->discount);
}

int64_t player_wrong(gpur_batch *batch, stack_shape shape, const history_rows *all)
{
    static _Thread_local columns c;
    int64_t wrong = 0;
    if (gpur_batch_count(batch) > PLAY_MOST_BATCH || read_columns(batch, shape.stack * PLAYER_FRAME, &c) != GPUR_OK)
        return -1;
    for (int64_t b = 0; b < gpur_batch_count(batch); b++) {
        if (c.id[b] < 0 || c.id[b] >= all->count)
            return -1;
        wrong += wrong_row(&c, b, shape, &all->rows[c.id[b]]);
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
    if (s->packed_only)
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

static gpur_status open_writers(layouts_fixture *w, play *p)
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

static gpur_status open_play(layouts_fixture *w, int number)
{
    const layouts_setting *const s = &w->setting;
    play *const p = &w->players[number];
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
    w->replay_count = setting->packed_only ? 1 : LAYOUTS_REPLAYS;
    w->random = seed * 0x9E3779B97F4A7C15ull + 1;
    configure(w);
    if (open_replays(w) != GPUR_OK)
        return 0;
    for (int i = 0; i < setting->writers; i++)
        if (open_play(w, i) != GPUR_OK)
            return 0;
    return 1;
}

static void destroy_writers(play *p)
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
        play *const p = &w->players[i];
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

gpur_status linked_reload(layouts_fixture *w)
{
    char paths[LAYOUTS_REPLAYS][32];
    for (int r = 0; r < w->replay_count; r++) {
        strcpy(paths[r], "/tmp/gpur_reload_XXXXXX");
        const int file = mkstemp(paths[r]);
        GPUR_REQUIRE(file >= 0, "no file %s", paths[r]);
        close(file);
    }
    unlink(paths[0]); /* one file is new, the others are replaced */
    const gpur_status status = reload(w, paths);
    for (int r = 0; r < w->replay_count; r++)
        unlink(paths[r]);
    return status;
}

/* Of every visible row of a replay, of which *first is the first. */
static int64_t wrong_in(layouts_fixture *w, int r, int64_t *first, int64_t *count)
{
    const int64_t most = w->setting.max_batch < PLAY_MOST_BATCH ? w->setting.max_batch : PLAY_MOST_BATCH;
    gpur_replay_stats stats = {.size = sizeof stats};
    int64_t wrong = 0;
    if (gpur_replay_get_stats(w->replays[r], &stats) != GPUR_OK)
        return -1;
    *first = stats.first_id, *count = stats.visible;
    for (int64_t done = 0; done < stats.visible && wrong == 0;) {
        int64_t ids[PLAY_MOST_BATCH], n = 0;
        gpur_batch *batch = NULL;
        for (; n < most && done + n < stats.visible; n++)
            ids[n] = stats.first_id + done + n;
        wrong = gpur_replay_gather(w->replays[r], n, ids, NULL, &batch) == GPUR_OK
                    ? player_wrong(batch, w->setting.shape, &w->all)
                    : -1;
        gpur_batch_release(batch);
        done += n;
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

static int64_t arrays_differ(gpur_batch *a, gpur_batch *b, const char *name)
{
    gpur_field_info info = {.size = sizeof info};
    void *memory = NULL;
    if (gpur_batch_get_array(a, name, &memory, &info) != GPUR_OK)
        return 1;
    const int64_t bytes = gpur_batch_count(a) * info.bytes;
    unsigned char *const x = malloc((size_t)bytes), *const y = malloc((size_t)bytes);
    const int same = gpur_batch_read(a, name, x, bytes) == GPUR_OK && gpur_batch_read(b, name, y, bytes) == GPUR_OK &&
                     memcmp(x, y, (size_t)bytes) == 0;
    free(x);
    free(y);
    return !same;
}

static int64_t batches_differ(gpur_batch *a, gpur_batch *b)
{
    static const char *const names[] = {"obs",      "action",   "reward", "next_obs", "terminated", "truncated",
                                        "discount", "previous", "tag",    "weight",   "id"};
    int64_t differ = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        differ += arrays_differ(a, b, names[i]);
    return differ;
}

/* The windows that draws made now would see. Under GPUR_FLUSH_MANUAL they are not to be compared: what has been
 * published depends on the blocks. */
static int windows_are_equal(layouts_fixture *w)
{
    int64_t first[LAYOUTS_REPLAYS];
    for (int r = 0; r < w->replay_count; r++) {
        gpur_replay_stats stats = {.size = sizeof stats};
        gpur_replay_get_stats(w->replays[r], &stats);
        first[r] = stats.first_id;
        if (first[r] != first[0])
            return 0;
    }
    return w->setting.flush == GPUR_FLUSH_AUTO;
}

static int64_t draw_from(layouts_fixture *w, int r, int64_t count, gpur_batch **batch)
{
    const gpur_status status = gpur_replay_sample(w->replays[r], count, NULL, batch);
    if (status != GPUR_OK)
        return status != GPUR_TOO_FEW;
    if (r == 0) {
        w->drawn = count;
        if (gpur_batch_read(*batch, "id", w->ids, count * 8) != GPUR_OK ||
            gpur_batch_read(*batch, "weight", w->weights, count * 4) != GPUR_OK)
            return 1;
    }
    return player_wrong(*batch, w->setting.shape, &w->all) != 0;
}

int64_t layouts_fixture_samples_differ(layouts_fixture *w, int64_t count)
{
    gpur_batch *batches[LAYOUTS_REPLAYS] = {0};
    int64_t differ = 0, drawn = 0;
    const int equal = windows_are_equal(w) && !w->out_of_step;
    w->drawn = 0;
    for (int r = 0; r < w->replay_count; r++) {
        differ += draw_from(w, r, count, &batches[r]);
        drawn += batches[r] != NULL;
    }
    w->out_of_step |= drawn > 0 && drawn < w->replay_count;
    for (int r = 1; equal && drawn > 0 && r < w->replay_count; r++)
        differ += drawn < w->replay_count || batches_differ(batches[r], batches[r - 1]) > 0;
    for (int r = 0; r < w->replay_count; r++)
        gpur_batch_release(batches[r]);
    return differ;
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
    gpur_replay_stats stats = {.size = sizeof stats, .appended = -1};
    gpur_replay_get_stats(replay, &stats);
    return stats.appended;
}
