/* SPDX-License-Identifier: MIT */
#include "file_scene.h"

#include "replay_kit.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        const gpur_status status_ = (call);                                                                            \
        if (status_ != GPUR_OK)                                                                                        \
            return status_;                                                                                            \
    } while (0)

static gpur_status open_replay(file_scene *s, int variant)
{
    const gpur_field fields[] = {
        {"obs", GPUR_FLOAT32, {SCENE_FEATURES}}, {"action", GPUR_INT32, {0}},
        {"reward", GPUR_FLOAT32, {0}},           {"next_obs", GPUR_FLOAT32, {SCENE_FEATURES}},
        {"terminated", GPUR_BOOL, {0}},          {"truncated", GPUR_BOOL, {0}},
    };
    gpur_replay_config config = kit_config(fields, 6, 100, 8, 32);
    config.flush = variant % 2 ? GPUR_FLUSH_MANUAL : GPUR_FLUSH_AUTO;
    config.feed = variant == 2 ? GPUR_FEED_SCATTER : GPUR_FEED_COPY;
    config.index_source = variant == 3 ? GPUR_UNIFORM_DISTINCT : GPUR_UNIFORM;
    config.reward_clip = 1.5f;
    config.seed = 7;
    return gpur_replay_create(s->device, &config, &s->replay);
}

static gpur_status open_learner(file_scene *s, int variant)
{
    static const int32_t acts[SCENE_VARIANTS] = {GPUR_ACT_LATEST, GPUR_ACT_PREVIOUS, GPUR_ACT_TARGET, GPUR_ACT_LATEST};
    gpur_learner_config config;
    TRY(gpur_learner_config_init(&config, sizeof config));
    config.network.trunk_count = 1;
    config.network.trunk[0].units = 16;
    config.network.head = variant % 2 ? GPUR_HEAD_DUELING : GPUR_HEAD_Q;
    config.network.hidden = variant % 2 ? 12 : 0;
    config.network.outputs = 3;
    config.batch_size = 16;
    config.target_period = 7;
    config.seed = 11;
    config.act = acts[variant];
    if (variant == 2) {
        config.optimizer.kind = GPUR_RMSPROP_TORCH;
        config.optimizer.centered = 1;
        config.optimizer.momentum = 0.5f;
    }
    return gpur_learner_create(s->replay, &config, &s->learner);
}

gpur_status scene_open(file_scene *s, gpur_device *device, int variant)
{
    memset(s, 0, sizeof *s);
    s->device = device;
    TRY(open_replay(s, variant));
    return open_learner(s, variant);
}

void scene_close(file_scene *s)
{
    gpur_writer_destroy(s->writer);
    gpur_learner_destroy(s->learner);
    gpur_replay_destroy(s->replay);
}

/* Numbers in [-1, 1) that depend on step, environment and place alone. */
static void make_obs(int step, int env, float *obs)
{
    uint64_t state = 1 + (uint64_t)(step * SCENE_ENVS + env);
    for (int i = 0; i < SCENE_FEATURES; i++)
        obs[i] = (float)kit_below(&state, 2000) / 1000.0f - 1.0f;
}

gpur_status scene_begin(file_scene *s, int resumed)
{
    float obs[SCENE_ENVS * SCENE_FEATURES];
    TRY(gpur_writer_create(s->replay, SCENE_ENVS, &s->writer));
    for (int env = 0; env < SCENE_ENVS; env++)
        make_obs(-1, env, obs + env * SCENE_FEATURES);
    return resumed ? GPUR_OK : gpur_writer_reset(s->writer, -1, obs);
}

static void leave_trace(file_scene *s, const void *values, int64_t bytes)
{
    const int count = (int)(bytes / (int64_t)sizeof *s->trace);
    if (s->traced + count > SCENE_TRACE)
        return;
    memcpy(s->trace + s->traced, values, (size_t)bytes);
    s->traced += count;
}

static gpur_status play(file_scene *s, int step)
{
    float obs[SCENE_ENVS * SCENE_FEATURES], reward[SCENE_ENVS], q[3];
    uint8_t terminated[SCENE_ENVS], truncated[SCENE_ENVS];
    int32_t actions[SCENE_ENVS];
    for (int env = 0; env < SCENE_ENVS; env++) {
        make_obs(step, env, obs + env * SCENE_FEATURES);
        reward[env] = 3.0f * obs[env * SCENE_FEATURES];
        terminated[env] = (step + 3 * env) % 11 == 10;
        truncated[env] = !terminated[env] && (step + env) % 17 == 16;
    }
    TRY(gpur_learner_act(s->learner, SCENE_ENVS, obs, 0.5f, actions, NULL));
    leave_trace(s, actions, sizeof actions);
    TRY(gpur_learner_q_values(s->learner, 1, obs, q, NULL));
    leave_trace(s, q, sizeof q);
    TRY(gpur_writer_step(s->writer, actions, reward, obs, terminated, truncated));
    for (int env = 0; env < SCENE_ENVS; env++)
        if (terminated[env] || truncated[env])
            TRY(gpur_writer_reset(s->writer, env, obs + (env + 1) % SCENE_ENVS * SCENE_FEATURES));
    return GPUR_OK;
}

static gpur_status draw(file_scene *s)
{
    gpur_batch *batch = NULL;
    int64_t ids[8];
    float obs[8 * SCENE_FEATURES];
    TRY(gpur_replay_sample(s->replay, 8, NULL, &batch));
    gpur_status status = gpur_batch_read(batch, "id", ids, sizeof ids);
    if (status == GPUR_OK)
        status = gpur_batch_read(batch, "next_obs", obs, sizeof obs);
    gpur_batch_release(batch);
    if (status == GPUR_OK) {
        leave_trace(s, ids, sizeof ids);
        leave_trace(s, obs, sizeof obs);
    }
    return status;
}

static gpur_status train(file_scene *s)
{
    gpur_learner_stats stats = {.size = sizeof stats};
    TRY(gpur_learner_train(s->learner, 2));
    TRY(gpur_learner_sync(s->learner));
    TRY(gpur_learner_get_stats(s->learner, &stats));
    leave_trace(s, &stats.loss, sizeof stats.loss);
    leave_trace(s, &stats.gradient_norm, sizeof stats.gradient_norm);
    return GPUR_OK;
}

gpur_status scene_run(file_scene *s, int first, int last)
{
    for (int step = first; step < last; step++) {
        TRY(play(s, step));
        if (step >= 12 && step % 3 == 0)
            TRY(train(s));
        if (step >= 12 && step % 4 == 0)
            TRY(draw(s));
    }
    return GPUR_OK;
}

gpur_status scene_finish(file_scene *s)
{
    for (int32_t which = GPUR_WEIGHTS_ONLINE; which <= GPUR_WEIGHTS_TARGET; which++)
        for (int32_t i = 0; i < gpur_learner_weight_count(s->learner); i++) {
            gpur_weight_info info = {.size = sizeof info};
            float values[256];
            TRY(gpur_learner_weight(s->learner, i, &info));
            TRY(gpur_learner_read_weights(s->learner, which, info.name, values, info.count));
            leave_trace(s, values, info.count * (int64_t)sizeof *values);
        }
    TRY(draw(s));
    gpur_replay_stats stats = {.size = sizeof stats};
    gpur_learner_stats learned = {.size = sizeof learned};
    TRY(gpur_replay_get_stats(s->replay, &stats));
    TRY(gpur_learner_get_stats(s->learner, &learned));
    const int64_t counts[] = {stats.first_id, stats.visible, stats.appended, stats.published, stats.evicted,
                              stats.blocks, stats.episodes_cut, stats.draws, learned.steps, learned.steps_enqueued,
                              learned.target_copies, learned.acts};
    leave_trace(s, counts, sizeof counts);
    return GPUR_OK;
}

unsigned char *read_file(const char *path, int64_t *bytes)
{
    FILE *const file = fopen(path, "rb");
    if (!file)
        return NULL;
    fseek(file, 0, SEEK_END);
    *bytes = ftell(file);
    rewind(file);
    unsigned char *data = malloc((size_t)*bytes + 1);
    if (data && fread(data, 1, (size_t)*bytes, file) != (size_t)*bytes) {
        free(data);
        data = NULL;
    }
    fclose(file);
    return data;
}

int write_file(const char *path, const void *data, int64_t bytes)
{
    unlink(path); /* a file that is emptied and written anew is flushed by some file systems at once */
    FILE *const file = fopen(path, "wb");
    if (!file)
        return -1;
    const int good = fwrite(data, 1, (size_t)bytes, file) == (size_t)bytes;
    return fclose(file) == 0 && good ? 0 : -1;
}

static char folder[64];

const char *scene_path(const char *name)
{
    static char paths[4][128];
    static int next;
    if (!folder[0]) {
        snprintf(folder, sizeof folder, "gpureplay-files-XXXXXX");
        if (!mkdtemp(folder))
            abort();
    }
    char *const path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

void scene_remove_folder(void)
{
    DIR *const open = folder[0] ? opendir(folder) : NULL;
    char path[512];
    for (struct dirent *entry = open ? readdir(open) : NULL; entry; entry = readdir(open)) {
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        unlink(path);
    }
    if (open)
        closedir(open);
    rmdir(folder);
    folder[0] = 0;
}

int64_t damage_file(unsigned char *data, int64_t bytes, int64_t head, uint64_t *random)
{
    const int64_t where = kit_below(random, kit_below(random, 2) ? head : bytes);
    const int64_t other = kit_below(random, bytes), run = 1 + kit_below(random, 64);
    const int64_t length = where + run < bytes ? run : bytes - where;
    switch (kit_below(random, 7)) {
    case 0:
        data[where] = (unsigned char)kit_below(random, 256);
        break;
    case 1:
        memset(data + where, kit_below(random, 2) ? 0 : 0xFF, (size_t)length);
        break;
    case 2:
        memmove(data + where, data + where + length, (size_t)(bytes - where - length));
        return bytes - length;
    case 3:
        memmove(data + where + run, data + where, (size_t)(bytes - where));
        return bytes + run;
    case 4:
        memmove(data + where, data + other, (size_t)(length < bytes - other ? length : bytes - other));
        break;
    case 5: /* another digit, quote or bracket: what headers are made of */
        data[where] = (unsigned char)"0123456789\"{}[]:,- "[kit_below(random, 19)];
        break;
    default:
        data[where] ^= (unsigned char)(1 << kit_below(random, 8));
    }
    return bytes;
}
