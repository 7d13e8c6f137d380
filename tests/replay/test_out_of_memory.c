/* SPDX-License-Identifier: MIT */
/*
 * Every call that takes memory, a lock or a thread, with each of these refused in turn: the call does all it should,
 * or returns GPUR_OUT_OF_MEMORY with everything as it was. It works when it is repeated, and nothing leaks.
 */
#include "support/block_damage.h"
#include "support/dpg_fixture.h"
#include "support/learner_fixture.h"
#include "support/policy_fixture.h"
#include "support/faults.h"
#include "device/gemm.h"
#include "support/checkpoint_fixture.h"
#include "gpureplay/lanes.h"
#include "replay/sampler/dlpack.h"
#include "replay/view.h"
#include "support/replay_fixture.h"
#include "test.h"

#include <unistd.h>

#ifndef GPUR_HAS_FILES

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    printf("test_out_of_memory: skipped: a build without cJSON or xxHash, which compare what a replay holds\n");
    return 77;
}

#else

enum {
    STEPS = 42,          /* of the training before the call: a ring of 100 rows has gone round */
    LARGE = 50000,       /* rows of a file that a second thread helps to read */
    MAX_BYTES = 8 << 20, /* of a picture */
    MAX_VALUES = 1 << 14,
    NO_REPLAY = -1, /* variants beside those of checkpoint_fixture.h */
    CONV_LEARNER = -2,
    CONV_REPLAY = -3, /* without a learner */
    LARGE_REPLAY = -4,
    DPG_REPLAY = -5, /* without a learner */
    DPG_LEARNER = -6,
    ACTOR_CRITIC = -7,
    LANES_REPLAY = -8,
};
enum {
    EVERYTHING = FAULT_MEMORY | FAULT_LOCK | FAULT_THREAD | FAULT_DNNL,
    OURS = FAULT_HOOK | FAULT_LOCK | FAULT_THREAD, /* where the same call with all of them has been tried elsewhere */
};
enum { REPLAY, LEARNER, WEIGHTS, POLICY, DPG, CRITIC }; /* what a file holds; POLICY: weights, that a policy saves */

/* What a call is made on, and what it may make. */
typedef struct fixture {
    counting_alloc counts;
    gpur_device *device;
    checkpoint_fixture training, other;
    conv_fixture conv;
    replay_fixture large;
    dpg_fixture dpg_rows;
    gpur_replay *lanes, *other_lanes;
    gpur_replay *replay;        /* whose pictures are taken; NULL: none */
    gpur_learner *learner;      /* likewise */
    gpur_policy *policy;        /* likewise */
    gpur_learner *dpg;          /* likewise */
    gpur_learner *actor_critic; /* likewise */
    int file;                   /* REPLAY ... */
    gpur_device *made_device;
    gpur_learner *made_learner;
    gpur_policy *made_policy;
    gpur_learner *made_dpg;
    gpur_learner *made_actor_critic;
    gpur_writer *made_writer;
    gpur_batch *batch, *held;
    gpur_dl_managed *tensor;
    int64_t value_count; /* of weights that were read */
    float values[MAX_VALUES];
    char path[160];
} fixture;

/* All that can be seen of a fixture, byte for byte. */
typedef struct picture {
    int64_t bytes;
    unsigned char data[MAX_BYTES];
} picture;

typedef struct subject {
    const char *name;
    int variant;                        /* of checkpoint_fixture.h, or one of the enum above */
    gpur_status (*prepare)(fixture *w); /* may be NULL */
    gpur_status (*call)(fixture *w);
    int faults; /* kinds; 0: the call is to take nothing at all */
    int file;
} subject;

static void add(picture *p, const void *data, int64_t bytes)
{
    if (p->bytes + bytes > MAX_BYTES)
        abort();
    memcpy(p->data + p->bytes, data, (size_t)bytes);
    p->bytes += bytes;
}

/* The length of the file, or -1, and its bytes. */
static void add_file(picture *p, const char *path)
{
    int64_t bytes = -1;
    unsigned char *const data = read_file(path, &bytes);
    add(p, &bytes, sizeof bytes);
    if (data)
        add(p, data, bytes);
    free(data);
}

static gpur_status add_replay(picture *p, gpur_replay *replay)
{
    gpur_replay_stats stats = {.size = sizeof stats};
    const char *const path = test_file_path("picture");
    GPUR_TRY(gpur_replay_save(replay, path, NULL));
    add_file(p, path);
    if (gpur_replay_settings(replay)->layout == GPUR_LAYOUT_LANES)
        return GPUR_OK;
    GPUR_TRY(gpur_replay_get_stats(replay, &stats));
    stats.waits = 0;
    stats.wait_seconds = stats.append_seconds = 0;
    add(p, &stats, sizeof stats);
    return GPUR_OK;
}

static gpur_status add_learner(picture *p, gpur_learner *learner)
{
    gpur_learner_stats stats = {.size = sizeof stats};
    const char *const path = test_file_path("picture");
    GPUR_TRY(gpur_learner_save(learner, path, NULL));
    add_file(p, path);
    GPUR_TRY(gpur_learner_get_stats(learner, &stats));
    stats.mean_loss = 0; /* over the time since the stats before */
    stats.steps_per_second = 0;
    add(p, &stats, sizeof stats);
    return GPUR_OK;
}

static gpur_status add_dpg(picture *p, gpur_learner *dpg)
{
    gpur_learner_stats stats = learner_fixture_stats(dpg);
    const char *const path = test_file_path("picture");
    GPUR_TRY(gpur_learner_save(dpg, path, NULL));
    add_file(p, path);
    stats.mean_loss = 0; /* over the time since the stats before */
    stats.steps_per_second = 0;
    add(p, &stats, sizeof stats);
    return GPUR_OK;
}

static gpur_status add_actor_critic(picture *p, gpur_learner *learner)
{
    const char *const path = test_file_path("picture");
    const int64_t steps = learner_fixture_stats(learner).steps;
    GPUR_TRY(gpur_learner_save(learner, path, NULL));
    add_file(p, path);
    add(p, &steps, sizeof steps);
    return GPUR_OK;
}

static gpur_status add_policy(picture *p, gpur_policy *policy)
{
    static unsigned char weights[MAX_BYTES / 8];
    const gpur_policy_stats stats = policy_fixture_stats(policy);
    const int64_t bytes = gpur_policy_weights_bytes(policy);
    if (stats.calls < 0 || bytes > (int64_t)sizeof weights)
        return GPUR_DEVICE_ERROR;
    GPUR_TRY(gpur_policy_get_weights(policy, weights, bytes));
    add(p, weights, bytes);
    add(p, &stats, sizeof stats);
    return GPUR_OK;
}

static void add_batch(picture *p, gpur_batch *batch)
{
    int64_t ids[64] = {0};
    float weights[64] = {0};
    const int64_t count = gpur_batch_count(batch);
    const gpur_status read[] = {gpur_batch_read(batch, "id", ids, count * (int64_t)sizeof *ids),
                                gpur_batch_read(batch, "weight", weights, count * (int64_t)sizeof *weights)};
    add(p, read, sizeof read);
    add(p, ids, sizeof ids);
    add(p, weights, sizeof weights);
}

static gpur_status take_picture(picture *p, fixture *w)
{
    char part[192];
    p->bytes = 0;
    if (w->replay)
        GPUR_TRY(add_replay(p, w->replay));
    if (w->learner)
        GPUR_TRY(add_learner(p, w->learner));
    if (w->policy)
        GPUR_TRY(add_policy(p, w->policy));
    if (w->dpg)
        GPUR_TRY(add_dpg(p, w->dpg));
    if (w->actor_critic)
        GPUR_TRY(add_actor_critic(p, w->actor_critic));
    if (w->batch)
        add_batch(p, w->batch);
    add(p, w->values, w->value_count * (int64_t)sizeof *w->values);
    snprintf(part, sizeof part, "%s.part", w->path);
    add_file(p, w->path);
    add_file(p, part);
    return GPUR_OK;
}

/* Fewer plans than conv_config's: each takes milliseconds to make. */
static gpur_dqn_config small_conv_config(void)
{
    gpur_dqn_config config = conv_config(GPUR_CHW);
    config.batch_size = 2;
    return config;
}

static gpur_status create_dpg(fixture *w, gpur_learner **dpg)
{
    const gpur_dpg_config config = dpg_fixture_config();
    return gpur_dpg_create(w->replay, &config, dpg);
}

static gpur_status open_dpg(fixture *w, int has_learner)
{
    GPUR_TRY(dpg_fixture_open(&w->dpg_rows, w->device, 1));
    w->replay = w->dpg_rows.replay;
    if (!has_learner)
        return GPUR_OK;
    GPUR_TRY(create_dpg(w, &w->dpg));
    return gpur_learner_train(w->dpg, 5);
}

static gpur_status create_actor_critic(fixture *w, gpur_learner **learner)
{
    gpur_actor_critic_config config;
    GPUR_TRY(gpur_actor_critic_config_init(&config, sizeof config));
    config.network.trunk[0].units = 9, config.network.num_actions = 3;
    config.obs = (gpur_field){"obs", GPUR_FLOAT32, {4}};
    config.max_batch = 4;
    return gpur_actor_critic_create(w->device, &config, learner);
}

static gpur_status train_actor_critic(fixture *w)
{
    static const float obs[4 * 4] = {1, 2, 3}, returns[4] = {1, 0, 2, 1};
    static const int32_t actions[4] = {0, 1, 2, 1};
    const gpur_actor_critic_batch batch = {
        .size = sizeof batch, .count = 4, .obs = obs, .actions = actions, .returns = returns};
    return gpur_actor_critic_train(w->actor_critic, &batch, NULL);
}

/* One thread: what is tested here is the same for two, and they cost more to wake than the work. */
static gpur_device_config one_thread(fixture *w)
{
    gpur_device_config config = test_device_config();
    config.threads = 1;
    config.alloc = faults_take, config.release = counting_alloc_give, config.alloc_user = &w->counts;
    return config;
}

static gpur_status open_large(fixture *w)
{
    const gpur_replay_config config = replay_fixture_plain_config(LARGE, 512, 64, GPUR_FLUSH_AUTO);
    if (!replay_fixture_open(&w->large, w->device, &config, 1))
        return GPUR_DEVICE_ERROR;
    w->replay = w->large.replay;
    return replay_fixture_append(&w->large, LARGE + 500);
}

enum { LANES = 4, LANE_STEPS = 20, LANE_FIELDS = 6 };

static gpur_status create_lanes(fixture *w, gpur_replay **replay)
{
    static const gpur_field fields[LANE_FIELDS] = {
        {"obs", GPUR_FLOAT32, {2}},    {"next_obs", GPUR_FLOAT32, {2}}, {"action", GPUR_INT32, {0}},
        {"reward", GPUR_FLOAT32, {0}}, {"terminated", GPUR_BOOL, {0}},  {"truncated", GPUR_BOOL, {0}},
    };
    gpur_replay_config config;
    GPUR_TRY(gpur_replay_config_init(&config, sizeof config));
    config.fields = fields, config.field_count = LANE_FIELDS;
    config.layout = GPUR_LAYOUT_LANES, config.lane_autoreset = GPUR_AUTORESET_SAME_STEP;
    config.lanes = LANES, config.capacity = LANES * LANE_STEPS, config.prioritized = 1, config.max_batch = 8;
    return gpur_replay_create(w->device, &config, replay);
}

/* Steps of ones, after each of which all lanes end. */
static gpur_status add_lanes(fixture *w, int steps)
{
    unsigned char ones[LANES * 8];
    unsigned char *values = NULL;
    memset(ones, 1, sizeof ones);
    GPUR_TRY(gpur_device_alloc(w->device, 2 * sizeof ones, (void **)&values));
    unsigned char *const finals = values + sizeof ones;
    gpur_status status = gpur_device_copy(w->device, values, ones, sizeof ones);
    if (status == GPUR_OK)
        status = gpur_device_copy(w->device, finals, ones, sizeof ones);
    const void *const fields[LANE_FIELDS] = {values, finals, values, values, values, values};
    for (int step = 0; step < steps && status == GPUR_OK; step++)
        status = gpur_replay_add_lanes(w->replay, fields, NULL);
    gpur_device_free(w->device, values);
    return status;
}

static gpur_status open_lanes(fixture *w)
{
    GPUR_TRY(create_lanes(w, &w->lanes));
    w->replay = w->lanes;
    return add_lanes(w, 3 * LANE_STEPS);
}

static gpur_status open_variant(fixture *w, int variant)
{
    if (variant == LANES_REPLAY)
        return open_lanes(w);
    if (variant == NO_REPLAY)
        return GPUR_OK;
    if (variant == LARGE_REPLAY)
        return open_large(w);
    if (variant == DPG_REPLAY || variant == DPG_LEARNER)
        return open_dpg(w, variant == DPG_LEARNER);
    if (variant == ACTOR_CRITIC) {
        GPUR_TRY(create_actor_critic(w, &w->actor_critic));
        return train_actor_critic(w);
    }
    if (variant == CONV_REPLAY) {
        GPUR_TRY(conv_replay_open(&w->conv, w->device, GPUR_CHW));
        w->replay = w->conv.replay;
        return GPUR_OK;
    }
    if (variant == CONV_LEARNER) {
        const gpur_dqn_config config = small_conv_config();
        GPUR_TRY(conv_fixture_open(&w->conv, w->device, &config));
        w->replay = w->conv.replay, w->learner = w->conv.learner;
        return gpur_learner_train(w->learner, 3);
    }
    GPUR_TRY(checkpoint_fixture_open(&w->training, w->device, variant));
    w->replay = w->training.replay, w->learner = w->training.learner;
    GPUR_TRY(checkpoint_fixture_begin(&w->training, 0));
    return checkpoint_fixture_run(&w->training, 0, STEPS);
}

static gpur_status open_fixture(fixture *w, const subject *s)
{
    memset(w, 0, sizeof *w);
    const gpur_device_config config = one_thread(w);
    w->file = s->file;
    snprintf(w->path, sizeof w->path, "%s", test_file_path("file"));
    unlink(w->path);
    GPUR_TRY(gpur_device_open(test_device_name(), &config, &w->device));
    GPUR_TRY(open_variant(w, s->variant));
    return s->prepare ? s->prepare(w) : GPUR_OK;
}

/* Bytes that the library did not return to the device. */
static int64_t close_fixture(fixture *w)
{
    if (w->tensor)
        w->tensor->deleter(w->tensor);
    gpur_batch_release(w->batch);
    gpur_batch_release(w->held);
    gpur_writer_destroy(w->made_writer);
    gpur_learner_destroy(w->made_learner);
    gpur_policy_destroy(w->made_policy);
    gpur_learner_destroy(w->made_dpg);
    gpur_learner_destroy(w->dpg);
    gpur_learner_destroy(w->made_actor_critic);
    gpur_learner_destroy(w->actor_critic);
    dpg_fixture_close(&w->dpg_rows);
    gpur_replay_destroy(w->lanes);
    gpur_replay_destroy(w->other_lanes);
    gpur_policy_destroy(w->policy);
    gpur_device_close(w->made_device);
    checkpoint_fixture_close(&w->other);
    checkpoint_fixture_close(&w->training);
    conv_fixture_close(&w->conv);
    gpur_writer_destroy(w->large.writer);
    gpur_replay_destroy(w->large.replay);
    const int64_t bytes = test_memory_used(w->device);
    gpur_device_close(w->device);
    return bytes;
}

/* ---- the calls ---- */

static gpur_status call_device_open(fixture *w)
{
    const gpur_device_config config = one_thread(w);
    return gpur_device_open(test_device_name(), &config, &w->made_device);
}

static gpur_status call_device_open_plain(fixture *w)
{
    const gpur_device_config config = test_device_config();
    return gpur_device_open(test_device_name(), &config, &w->made_device);
}

static gpur_status call_device_alloc(fixture *w)
{
    void *memory = NULL; /* until the device is closed */
    return gpur_device_alloc(w->device, 1000, &memory);
}

/* So many that the device's list of allocations grows with the next one. */
static gpur_status prepare_device_alloc(fixture *w)
{
    for (int i = 0; i < 64; i++)
        GPUR_TRY(call_device_alloc(w));
    return GPUR_OK;
}

/* A replay and a learner of the variant, beside those that there are. */
static gpur_status call_create_both(fixture *w)
{
    const gpur_status status = checkpoint_fixture_open(&w->other, w->device, w->training.variant);
    if (status != GPUR_OK) {
        checkpoint_fixture_close(&w->other);
        memset(&w->other, 0, sizeof w->other);
    }
    return status;
}

static gpur_status call_learner_create(fixture *w)
{
    gpur_dqn_config config;
    GPUR_TRY(gpur_dqn_config_init(&config, sizeof config));
    config.network.num_actions = 3;
    config.host_batches = 3;
    config.optimizer.kind = GPUR_RMSPROP_DEEPMIND;
    return gpur_dqn_create(w->replay, &config, &w->made_learner);
}

static gpur_status call_conv_learner_create(fixture *w)
{
    const gpur_dqn_config config = small_conv_config();
    return gpur_dqn_create(w->replay, &config, &w->made_learner);
}

static gpur_status call_dpg_create(fixture *w)
{
    return create_dpg(w, &w->made_dpg);
}

static gpur_status call_actor_critic_create(fixture *w)
{
    return create_actor_critic(w, &w->made_actor_critic);
}

static gpur_status call_dpg_train(fixture *w)
{
    GPUR_TRY(gpur_learner_train(w->dpg, 3));
    return gpur_learner_sync(w->dpg);
}

static gpur_status call_policy_create(fixture *w)
{
    const gpur_dqn_config learner = learner_fixture_config(GPUR_HEAD_DUELING, 1);
    const gpur_policy_config config = policy_fixture_config(&learner, ROWS_PLAIN, 3);
    return gpur_policy_create(w->device, &config, &w->made_policy);
}

static gpur_status call_conv_policy_create(fixture *w)
{
    const gpur_dqn_config learner = small_conv_config();
    const gpur_policy_config config = policy_fixture_config(&learner, ROWS_PLANES, 2);
    return gpur_policy_create(w->device, &config, &w->made_policy);
}

/* A policy of the learner's network, with other weights. */
static gpur_status prepare_policy(fixture *w)
{
    gpur_dqn_config learner = small_conv_config();
    learner.seed++;
    const gpur_policy_config config = policy_fixture_config(&learner, ROWS_PLANES, 2);
    return gpur_policy_create(w->device, &config, &w->policy);
}

/* What a program calls again and again. */
static gpur_status call_policy_pull_and_act(fixture *w)
{
    const float epsilon[] = {0.5f, 0.5f};
    const gpur_policy_input input = {.size = sizeof input, .count = 2, .obs = conv_rows[0].obs, .epsilon = epsilon};
    int32_t actions[2];
    const gpur_policy_output output = {.size = sizeof output, .actions = actions, .q = w->values};
    GPUR_TRY(gpur_policy_pull(w->policy, w->learner, GPUR_WEIGHTS_TARGET));
    return gpur_policy_act(w->policy, &input, &output);
}

/* The weights of `policy` as bytes in `values`, from where they are set. */
static gpur_status call_policy_get_weights(fixture *w)
{
    const int64_t bytes = gpur_policy_weights_bytes(w->policy);
    GPUR_TRY(gpur_policy_get_weights(w->policy, w->values, bytes));
    w->value_count = bytes / (int64_t)sizeof *w->values;
    return GPUR_OK;
}

static gpur_status prepare_policy_bytes(fixture *w)
{
    GPUR_TRY(prepare_policy(w));
    GPUR_TRY(call_policy_get_weights(w));
    return gpur_policy_pull(w->policy, w->learner, GPUR_WEIGHTS_ONLINE);
}

static gpur_status call_policy_set_weights(fixture *w)
{
    return gpur_policy_set_weights(w->policy, w->values, gpur_policy_weights_bytes(w->policy));
}

static gpur_status call_writer_open(fixture *w)
{
    gpur_writer_config config;
    GPUR_TRY(gpur_writer_config_init(&config, sizeof config));
    config.num_envs = CHECKPOINT_ENVS;
    config.observations = w->training.stack > 1 ? GPUR_OBSERVATIONS_FRAMES : GPUR_OBSERVATIONS_STACKS;
    return gpur_writer_open(w->replay, &config, &w->made_writer);
}

/* The loaded state of a writer waits for one to be opened. */
static gpur_status prepare_waiting(fixture *w)
{
    GPUR_TRY(gpur_replay_save(w->replay, w->path, NULL));
    gpur_writer_destroy(w->training.writer);
    w->training.writer = NULL;
    return gpur_replay_load(w->replay, w->path, NULL);
}

static gpur_status prepare_batch(fixture *w)
{
    return gpur_replay_sample(w->replay, 8, NULL, &w->held);
}

static gpur_status call_sample(fixture *w)
{
    return gpur_replay_sample(w->replay, 16, NULL, &w->batch);
}

static gpur_status call_gather(fixture *w)
{
    const int64_t ids[] = {STEPS, STEPS + 40, STEPS + 1};
    return gpur_replay_gather(w->replay, 3, ids, NULL, &w->batch);
}

static gpur_status call_to_dlpack(fixture *w)
{
    void *tensor = NULL;
    GPUR_TRY(gpur_batch_to_dlpack(w->held, "obs", 0, &tensor));
    w->tensor = tensor;
    return GPUR_OK;
}

static gpur_status call_read_weights(fixture *w)
{
    gpur_weight_info info = {.size = sizeof info};
    GPUR_TRY(gpur_learner_get_weight_info(w->learner, 0, &info));
    GPUR_TRY(gpur_learner_read_weights(w->learner, GPUR_WEIGHTS_TARGET, info.name, w->values, info.count));
    w->value_count = info.count;
    return GPUR_OK;
}

static gpur_status call_write_weights(fixture *w)
{
    gpur_weight_info info = {.size = sizeof info};
    GPUR_TRY(gpur_learner_get_weight_info(w->learner, 0, &info));
    for (int64_t i = 0; i < info.count; i++)
        w->values[i] = 0.001f * (float)i;
    return gpur_learner_write_weights(w->learner, GPUR_WEIGHTS_ONLINE, info.name, w->values, info.count);
}

static gpur_status call_save(fixture *w)
{
    return w->file == REPLAY    ? gpur_replay_save(w->replay, w->path, NULL)
           : w->file == LEARNER ? gpur_learner_save(w->learner, w->path, NULL)
           : w->file == POLICY  ? gpur_policy_save(w->policy, w->path, NULL)
           : w->file == DPG     ? gpur_learner_save(w->dpg, w->path, NULL)
           : w->file == CRITIC  ? gpur_learner_save(w->actor_critic, w->path, NULL)
                                : gpur_learner_save_weights(w->learner, w->path, NULL);
}

static gpur_status call_load(fixture *w)
{
    return w->file == REPLAY    ? gpur_replay_load(w->replay, w->path, NULL)
           : w->file == LEARNER ? gpur_learner_load(w->learner, w->path, NULL)
           : w->file == POLICY  ? gpur_policy_load(w->policy, w->path, NULL)
           : w->file == DPG     ? gpur_learner_load(w->dpg, w->path, NULL)
           : w->file == CRITIC  ? gpur_learner_load(w->actor_critic, w->path, NULL)
                                : gpur_learner_load_weights(w->learner, w->path, NULL);
}

/* Acting, a step of the environments, resets; train steps, and samples into batches that the pool has. */
static gpur_status call_run(fixture *w)
{
    return checkpoint_fixture_run(&w->training, STEPS, STEPS + 13);
}

/* A file, and a state that has changed since. */
static gpur_status prepare_file(fixture *w)
{
    GPUR_TRY(call_save(w));
    if (w->large.replay)
        return replay_fixture_append(&w->large, 700);
    if (w->lanes)
        return add_lanes(w, 7);
    if (w->dpg)
        return call_dpg_train(w);
    if (w->actor_critic)
        return train_actor_critic(w);
    return w->conv.learner ? gpur_learner_train(w->learner, 5) : call_run(w);
}

/* A file of a learner, or of a policy, that a policy of other weights is to load. */
static gpur_status prepare_policy_learner_file(fixture *w)
{
    GPUR_TRY(prepare_policy(w));
    return gpur_learner_save(w->learner, w->path, NULL);
}

static gpur_status prepare_policy_file(fixture *w)
{
    GPUR_TRY(prepare_policy(w));
    GPUR_TRY(gpur_policy_save(w->policy, w->path, NULL));
    return gpur_policy_pull(w->policy, w->learner, GPUR_WEIGHTS_ONLINE);
}

/* Into a replay that holds nothing, for writers that are opened later. */
static gpur_status prepare_empty_load(fixture *w)
{
    GPUR_TRY(gpur_replay_save(w->replay, w->path, NULL));
    GPUR_TRY(checkpoint_fixture_open(&w->other, w->device, w->training.variant));
    w->replay = w->other.replay, w->learner = NULL;
    return GPUR_OK;
}

static gpur_status prepare_empty_lanes(fixture *w)
{
    GPUR_TRY(gpur_replay_save(w->replay, w->path, NULL));
    GPUR_TRY(create_lanes(w, &w->other_lanes));
    w->replay = w->other_lanes;
    return GPUR_OK;
}

static gpur_status call_get_info(fixture *w)
{
    gpur_checkpoint_info info = {.size = sizeof info};
    GPUR_TRY(gpur_checkpoint_get_info(w->path, &info));
    return info.rows == 100 ? GPUR_OK : GPUR_FILE_ERROR;
}

/* More observations than any before. */
static gpur_status call_large_act(fixture *w)
{
    static const float obs[1 << 16];
    int32_t actions[300];
    return gpur_learner_act(w->learner, 300, obs, 0.0f, actions, NULL);
}

static gpur_status call_priorities(fixture *w)
{
    const int64_t ids[] = {STEPS + 1, STEPS + 20, STEPS + 33};
    float priorities[] = {0.5f, 3.0f, 0.25f};
    gpur_priority_stats stats = {.size = sizeof stats};
    int64_t wrong = 0;
    GPUR_TRY(gpur_replay_update_priorities(w->replay, 3, ids, priorities, NULL));
    GPUR_TRY(gpur_replay_get_priorities(w->replay, 3, ids, priorities));
    GPUR_TRY(gpur_replay_set_alpha(w->replay, 0.5f));
    GPUR_TRY(gpur_replay_set_beta(w->replay, 0.5f));
    GPUR_TRY(gpur_replay_get_priority_stats(w->replay, &stats));
    return gpur_replay_check_priorities(w->replay, &wrong);
}

static gpur_status call_host_batches(fixture *w)
{
    void *rows = NULL;
    GPUR_TRY(gpur_learner_acquire_host_batch(w->learner, &rows));
    memcpy(rows, conv_rows, 2 * sizeof *conv_rows); /* a batch of small_conv_config */
    GPUR_TRY(gpur_learner_train_host_batch(w->learner, rows));
    GPUR_TRY(gpur_learner_acquire_host_batch(w->learner, &rows));
    return gpur_learner_release_host_batch(w->learner, rows);
}

/* A format, a packer, and a compressed block, which is checked. */
static gpur_status call_make_block(fixture *w)
{
    static block_kind kind;
    (void)w;
    const gpur_status status = block_kind_make(&kind, BLOCK_KINDS - 1);
    block_kind_close(&kind);
    return status;
}

static const subject subjects[] = {
    {"gpur_device_open", NO_REPLAY, NULL, call_device_open, EVERYTHING, 0},
    {"gpur_device_open", NO_REPLAY, NULL, call_device_open_plain, EVERYTHING, 0},
    {"gpur_device_alloc", NO_REPLAY, prepare_device_alloc, call_device_alloc, EVERYTHING, 0},
    {"gpur_replay_create, gpur_dqn_create", 0, NULL, call_create_both, EVERYTHING, 0},
    {"gpur_replay_create, gpur_dqn_create", 2, NULL, call_create_both, EVERYTHING, 0},
    {"gpur_replay_create, gpur_dqn_create", 5, NULL, call_create_both, EVERYTHING, 0},
    {"gpur_replay_create, gpur_dqn_create", 9, NULL, call_create_both, EVERYTHING, 0},
    {"gpur_replay_create, gpur_dqn_create", 10, NULL, call_create_both, OURS, 0},
    {"gpur_dqn_create", 0, NULL, call_learner_create, EVERYTHING, 0},
    {"gpur_dqn_create of convolutions", CONV_REPLAY, NULL, call_conv_learner_create, EVERYTHING, 0},
    {"gpur_writer_open", 0, NULL, call_writer_open, EVERYTHING, 0},
    {"gpur_writer_open", 9, NULL, call_writer_open, EVERYTHING, 0},
    {"gpur_writer_open with a state that waits", 9, prepare_waiting, call_writer_open, EVERYTHING, 0},
    {"gpur_replay_sample", 1, prepare_batch, call_sample, EVERYTHING, 0},
    {"gpur_replay_sample", 3, prepare_batch, call_sample, EVERYTHING, 0},
    {"gpur_replay_sample", 5, prepare_batch, call_sample, EVERYTHING, 0},
    {"gpur_replay_sample", 9, prepare_batch, call_sample, EVERYTHING, 0},
    {"gpur_replay_gather", 4, prepare_batch, call_gather, EVERYTHING, 0},
    {"gpur_batch_to_dlpack", 0, prepare_batch, call_to_dlpack, EVERYTHING, 0},
    {"gpur_learner_read_weights", 0, NULL, call_read_weights, 0, 0},
    {"gpur_learner_read_weights", CONV_LEARNER, NULL, call_read_weights, EVERYTHING, 0},
    {"gpur_learner_write_weights", CONV_LEARNER, NULL, call_write_weights, EVERYTHING, 0},
    {"saving a replay", 0, NULL, call_save, EVERYTHING, REPLAY},
    {"saving a replay over a file", 5, prepare_file, call_save, OURS, REPLAY},
    {"saving a replay over a file", 10, prepare_file, call_save, OURS, REPLAY},
    {"saving a replay over a file", 9, prepare_file, call_save, EVERYTHING, REPLAY},
    {"loading a replay", 0, prepare_file, call_load, OURS, REPLAY},
    {"loading a replay", 3, prepare_file, call_load, OURS, REPLAY},
    {"loading a replay", 5, prepare_file, call_load, EVERYTHING, REPLAY},
    {"loading a replay", 7, prepare_file, call_load, OURS, REPLAY},
    {"loading a replay", 9, prepare_file, call_load, EVERYTHING, REPLAY},
    {"loading a replay", 10, prepare_file, call_load, OURS, REPLAY},
    {"loading a replay whose writer's state waits", 9, prepare_waiting, call_load, OURS, REPLAY},
    {"loading an empty replay", 4, prepare_empty_load, call_load, OURS, REPLAY},
    {"loading an empty replay", 9, prepare_empty_load, call_load, OURS, REPLAY},
    {"loading an empty replay", 10, prepare_empty_load, call_load, OURS, REPLAY},
    {"loading a large replay", LARGE_REPLAY, prepare_file, call_load, OURS, REPLAY},
    {"saving lanes over a file", LANES_REPLAY, prepare_file, call_save, EVERYTHING, REPLAY},
    {"loading lanes", LANES_REPLAY, prepare_file, call_load, EVERYTHING, REPLAY},
    {"loading empty lanes", LANES_REPLAY, prepare_empty_lanes, call_load, OURS, REPLAY},
    {"saving a learner", 2, NULL, call_save, EVERYTHING, LEARNER},
    {"saving a learner over a file", 3, prepare_file, call_save, OURS, LEARNER},
    {"loading a learner", 2, prepare_file, call_load, EVERYTHING, LEARNER},
    {"saving weights", 1, NULL, call_save, EVERYTHING, WEIGHTS},
    {"saving weights over a file", CONV_LEARNER, prepare_file, call_save, OURS, WEIGHTS},
    {"loading weights", 1, prepare_file, call_load, EVERYTHING, WEIGHTS},
    {"loading weights", CONV_LEARNER, prepare_file, call_load, OURS, WEIGHTS},
    {"gpur_checkpoint_get_info", 9, prepare_file, call_get_info, EVERYTHING, REPLAY},
    {"stepping, acting, training, sampling", 1, NULL, call_run, 0, 0},
    {"stepping, acting, training, sampling", 9, NULL, call_run, 0, 0},
    {"gpur_learner_act of more than before", 0, NULL, call_large_act, EVERYTHING, 0},
    {"gpur_policy_create", NO_REPLAY, NULL, call_policy_create, EVERYTHING, 0},
    {"gpur_policy_create of convolutions", NO_REPLAY, NULL, call_conv_policy_create, OURS, 0},
    {"gpur_policy_pull, gpur_policy_act", CONV_LEARNER, prepare_policy, call_policy_pull_and_act, 0, 0},
    {"gpur_policy_get_weights", CONV_LEARNER, prepare_policy, call_policy_get_weights, EVERYTHING, 0},
    {"gpur_policy_set_weights", CONV_LEARNER, prepare_policy_bytes, call_policy_set_weights, EVERYTHING, 0},
    {"saving a policy", CONV_LEARNER, prepare_policy, call_save, OURS, POLICY},
    {"loading a policy", CONV_LEARNER, prepare_policy_file, call_load, OURS, POLICY},
    {"loading a learner into a policy", CONV_LEARNER, prepare_policy_learner_file, call_load, OURS, POLICY},
    {"gpur_dpg_create", DPG_REPLAY, NULL, call_dpg_create, EVERYTHING, 0},
    {"gpur_learner_train", DPG_LEARNER, NULL, call_dpg_train, 0, 0},
    {"saving a learner of DPG", DPG_LEARNER, NULL, call_save, EVERYTHING, DPG},
    {"loading a learner of DPG", DPG_LEARNER, prepare_file, call_load, EVERYTHING, DPG},
    {"gpur_actor_critic_create", NO_REPLAY, NULL, call_actor_critic_create, EVERYTHING, 0},
    {"gpur_actor_critic_train", ACTOR_CRITIC, NULL, train_actor_critic, 0, 0},
    {"saving an actor-critic", ACTOR_CRITIC, NULL, call_save, EVERYTHING, CRITIC},
    {"loading an actor-critic", ACTOR_CRITIC, prepare_file, call_load, EVERYTHING, CRITIC},
    {"the calls on priorities", 5, NULL, call_priorities, 0, 0},
    {"blocks and their packer", NO_REPLAY, NULL, call_make_block, EVERYTHING, 0},
    {"the calls on host batches", CONV_LEARNER, NULL, call_host_batches, 0, 0},
};
enum { SUBJECTS = sizeof subjects / sizeof *subjects };

/* ---- what is checked of each ---- */

static picture before, after, now;
static const subject *current;
static int64_t current_nth;

#define WANT(condition, ...)                                                                                           \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            test_fail(__FILE__, __LINE__);                                                                             \
            fprintf(stderr, "%s, variant %d, fault %lld (%s): ", current->name, current->variant,                      \
                    (long long)current_nth, faults_name());                                                            \
            fprintf(stderr, __VA_ARGS__);                                                                              \
            fputc('\n', stderr);                                                                                       \
            return;                                                                                                    \
        }                                                                                                              \
    } while (0)

static int64_t first_difference(const picture *a, const picture *b)
{
    const int64_t least = a->bytes < b->bytes ? a->bytes : b->bytes;
    if (a->bytes == b->bytes && memcmp(a->data, b->data, (size_t)least) == 0)
        return -1;
    for (int64_t i = 0; i < least; i++)
        if (a->data[i] != b->data[i])
            return i;
    return least;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const int is_sanitized = 1; /* ten times as slow */
#else
static const int is_sanitized = 0;
#endif

/* What malloc gives, it gives with either executor, and this program counts it itself. */
static int kinds_of(const subject *s)
{
    const int is_slow = is_sanitized || test_on_cuda() || test_executor() == GPUR_EXECUTOR_THREAD;
    return s->faults == EVERYTHING && s->variant >= 0 && is_slow && !test_is_long() ? OURS : s->faults;
}

/* What the call does when nothing fails. */
static void check_without_faults(fixture *w, const subject *s, int64_t *faults)
{
    *faults = 0;
    WANT(take_picture(&before, w) == GPUR_OK, "%s", gpur_last_error());
    faults_begin(s->faults ? kinds_of(s) : EVERYTHING, 0, FAULT_ONCE);
    const gpur_status status = s->call(w);
    *faults = faults_end();
    WANT(status == GPUR_OK, "%s: %s", gpur_status_name(status), gpur_last_error());
    WANT(take_picture(&after, w) == GPUR_OK, "%s", gpur_last_error());
    WANT((*faults == 0) == (s->faults == 0) || kinds_of(s) != s->faults, "%lld calls could fail", (long long)*faults);
}

static void check_refused(fixture *w, const subject *s, gpur_status status)
{
    WANT(status == GPUR_OUT_OF_MEMORY, "%s: %s", gpur_status_name(status), gpur_last_error());
    WANT(*gpur_last_error(), "no message");
    WANT(take_picture(&now, w) == GPUR_OK, "afterwards: %s", gpur_last_error());
    WANT(first_difference(&before, &now) < 0, "refused, and byte %lld of %lld has changed",
         (long long)first_difference(&before, &now), (long long)before.bytes);
    status = s->call(w);
    WANT(status == GPUR_OK, "called again: %s: %s", gpur_status_name(status), gpur_last_error());
}

static void check_with_fault(fixture *w, const subject *s, int64_t nth, int always)
{
    WANT(take_picture(&now, w) == GPUR_OK, "%s", gpur_last_error());
    WANT(first_difference(&before, &now) < 0, "it did not begin as the first time");
    faults_begin(kinds_of(s), nth, always);
    const gpur_status status = s->call(w);
    faults_end();
    if (status != GPUR_OK)
        check_refused(w, s, status);
    WANT(take_picture(&now, w) == GPUR_OK, "afterwards: %s", gpur_last_error());
    WANT(first_difference(&after, &now) < 0, "%s, and byte %lld of %lld is another than without",
         gpur_status_name(status), (long long)first_difference(&after, &now), (long long)after.bytes);
}

/* nth 0: without faults; fills in how many there can be. */
static void check_once(const subject *s, int64_t nth, int always, int64_t *faults)
{
    static fixture w;
    const int64_t live = faults_live();
    current_nth = nth;
    const gpur_status status = open_fixture(&w, s);
    if (status != GPUR_OK)
        close_fixture(&w);
    WANT(status == GPUR_OK, "no fixture: %s", gpur_last_error());
    if (nth == 0)
        check_without_faults(&w, s, faults);
    else
        check_with_fault(&w, s, nth, always);
    const int64_t left = close_fixture(&w);
    WANT(left == 0 || s->call == call_device_alloc, "%lld bytes of the device were not freed", (long long)left);
    WANT(w.counts.blocks == 0 && w.counts.bytes == 0,
         "%lld blocks, %lld bytes, of the caller's allocator were not released", (long long)w.counts.blocks,
         (long long)w.counts.bytes);
    WANT(w.counts.wrong_sizes == 0, "blocks were released with another size");
    WANT(faults_live() == live, "%lld blocks were not freed", (long long)(faults_live() - live));
}

static int is_conv(const subject *s)
{
    return s->variant == CONV_LEARNER || s->variant == CONV_REPLAY || strstr(s->name, "convolutions");
}

/* A header of a file takes a hundred blocks of cJSON's, one like the other: the failures of all later calls, too, are
 * then tried from every seventh one on. On a GPU, where a device takes long to open, every seventh fails, and three
 * where cuDNN plans convolutions anew for each device. */
static int64_t step_of(const subject *s, int always, int64_t faults)
{
    if (test_on_cuda() && is_conv(s) && !test_is_long())
        return faults > 3 ? (faults + 2) / 3 : 1;
    return (test_on_cuda() || (always && (faults > 60 || is_sanitized))) && !test_is_long() ? 7 : 1;
}

static void check_subject(const subject *s)
{
    const int before_all = atomic_load(&test_state.failures);
    int64_t faults = 0;
    current = s;
    check_once(s, 0, 0, &faults);
    for (int always = FAULT_ONCE; always <= FAULT_ALWAYS; always++)
        for (int64_t nth = 1; nth <= faults; nth += step_of(s, always, faults))
            if (atomic_load(&test_state.failures) < before_all + 8) /* enough to see what is wrong */
                check_once(s, nth, always, &faults);
}

TEST(each_refusal_of_memory_changes_nothing)
{
    for (int i = 0; i < SUBJECTS; i++)
        check_subject(&subjects[i]);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    if (chdir("/dev/shm") != 0) /* thousands of files: a disk would be waited for, as each is synced */
        printf("  no /dev/shm: files go to a disk\n");
    faults_watch_json();
    conv_fixture_fill_rows();
    gpur_device *first = NULL; /* left open on a GPU, so that cuBLASLt and kernels are loaded only once */
    if (test_on_cuda() && gpur_device_open(test_device_name(), NULL, &first) == GPUR_OK)
        (void)gpur_gemm_library(first);
    RUN(each_refusal_of_memory_changes_nothing);
    gpur_device_close(first);
    test_remove_folder();
    return test_main_end();
}

#endif
