/* SPDX-License-Identifier: MIT */
#include "support/learner_fixture.h"

#include "base/status.h"
#include "learn/dqn/dqn.h"
#include "replay/sampler/consumer.h"

#include <stdlib.h>
#include <string.h>

typedef struct wide_row {
    uint8_t terminated;
    float next_obs[WIDE_FEATURES];
    int64_t action;
    float obs[WIDE_FEATURES];
    float reward;
} wide_row;

image_row conv_rows[IMAGE_ROWS];
static float image_floats[2][IMAGE_ROWS][IMAGE_PIXELS], wide_floats[2][FIXTURE_ROWS][WIDE_FEATURES];

void random_floats(uint64_t seed, float *x, int64_t count)
{
    uint64_t state = seed * 2862933555777941757ull + 3037000493ull;
    for (int64_t i = 0; i < count; i++) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        x[i] = (float)((double)(state >> 11) * 0x1p-52 - 1.0);
    }
}

gpur_network_config network_fixture_config(int first, int second, int activation, int head, int hidden, int outputs)
{
    gpur_network_config config;
    memset(&config, 0, sizeof config);
    config.trunk[0].units = first, config.trunk[1].units = second;
    config.trunk[0].activation = config.trunk[1].activation = activation;
    config.trunk_count = (first > 0) + (second > 0);
    config.head = head;
    config.hidden = hidden;
    config.hidden_activation = activation;
    config.num_actions = outputs;
    config.input_scale = 1.0f;
    return config;
}

static int is_image(int kind)
{
    return kind == ROWS_PLANES || kind == ROWS_PIXELS;
}

int rows_of_kind(int kind)
{
    return is_image(kind) ? IMAGE_ROWS : FIXTURE_ROWS;
}

static int64_t row_bytes_of_kind(int kind)
{
    return is_image(kind) ? sizeof(image_row) : kind == ROWS_WIDE ? sizeof(wide_row) : sizeof(learner_fixture_row);
}

/* The fields that rows of all kinds have in common. */
static void make_outcome(int i, int32_t *action, float *reward, uint8_t *terminated)
{
    random_floats((uint64_t)i + 20000, reward, 1);
    *reward *= 2;
    *action = (i * 7 + i / 5) % FIXTURE_ACTIONS;
    *terminated = i % 7 == 0;
}

static void make_rows(learner_fixture *fixture)
{
    for (int i = 0; i < FIXTURE_ROWS; i++) {
        learner_fixture_row *const row = &fixture->rows[i];
        random_floats((uint64_t)i + 10, row->obs, FIXTURE_FEATURES);
        random_floats((uint64_t)i + 10000, row->next_obs, FIXTURE_FEATURES);
        random_floats((uint64_t)i + 30000, wide_floats[0][i], WIDE_FEATURES);
        random_floats((uint64_t)i + 40000, wide_floats[1][i], WIDE_FEATURES);
        make_outcome(i, &row->action, &row->reward, &row->terminated);
        row->truncated = i % 5 == 0;
        row->next_mask = (uint8_t)(i * 5 % 8 | (i % 2 ? 0xf8 : 0)); /* bits beyond the actions mean nothing */
    }
}

void conv_fixture_fill_rows(void)
{
    float noise[2 * IMAGE_PIXELS];
    for (int i = 0; i < IMAGE_ROWS; i++) {
        image_row *const row = &conv_rows[i];
        random_floats((uint64_t)i + 500, noise, 2 * IMAGE_PIXELS);
        for (int p = 0; p < IMAGE_PIXELS; p++) {
            row->obs[p] = (uint8_t)(127.5f + 127 * noise[p]);
            row->next_obs[p] = (uint8_t)(127.5f + 127 * noise[IMAGE_PIXELS + p]);
            image_floats[0][i][p] = row->obs[p], image_floats[1][i][p] = row->next_obs[p];
        }
        make_outcome(i, &row->action, &row->reward, &row->terminated);
    }
}

/* Fills in the fields of a kind, in the order of its struct, which ends before `priority`. Returns their number. */
static int fields_of(int kind, int prioritized, gpur_field fields[7])
{
    const gpur_field plain[] = {
        {"obs", GPUR_FLOAT32, {FIXTURE_FEATURES}},      {"action", GPUR_INT32, {0}},    {"reward", GPUR_FLOAT32, {0}},
        {"next_obs", GPUR_FLOAT32, {FIXTURE_FEATURES}}, {"terminated", GPUR_BOOL, {0}}, {"truncated", GPUR_BOOL, {0}}};
    const gpur_field wide[] = {{"terminated", GPUR_UINT8, {1}}, {"next_obs", GPUR_FLOAT32, {WIDE_FEATURES}},
                               {"action", GPUR_INT64, {0}},     {"obs", GPUR_FLOAT32, {WIDE_FEATURES}},
                               {"reward", GPUR_FLOAT32, {1}},   {"priority", GPUR_FLOAT32, {0}}};
    const gpur_field planes = {"obs", GPUR_UINT8, {IMAGE_CHANNELS, IMAGE_HEIGHT, IMAGE_WIDTH}};
    const gpur_field pixels = {"obs", GPUR_UINT8, {IMAGE_HEIGHT, IMAGE_WIDTH, IMAGE_CHANNELS}};
    const gpur_field image = kind == ROWS_PLANES ? planes : pixels;
    const gpur_field images[] = {
        image, image, {"action", GPUR_INT32, {0}}, {"reward", GPUR_FLOAT32, {0}}, {"terminated", GPUR_BOOL, {0}}};
    if (kind == ROWS_PLAIN || kind == ROWS_MASKED) {
        memcpy(fields, plain, sizeof plain);
        fields[6] = (gpur_field){"next_action_mask", GPUR_UINT8, {1}};
        return kind == ROWS_MASKED ? 7 : 6;
    }
    if (kind == ROWS_WIDE) {
        memcpy(fields, wide, sizeof wide);
        return prioritized ? 6 : 5;
    }
    memcpy(fields, images, sizeof images);
    fields[1].name = "next_obs";
    return 5;
}

gpur_status learner_fixture_open_kind(learner_fixture *fixture, gpur_device *device, int kind, int filled,
                                      int32_t weight_norm)
{
    gpur_field fields[7];
    gpur_replay_config config;
    memset(fixture, 0, sizeof *fixture);
    fixture->kind = kind;
    make_rows(fixture);
    if (is_image(kind))
        conv_fixture_fill_rows();
    GPUR_TRY(gpur_replay_config_init(&config, sizeof config));
    config.capacity = is_image(kind) ? 4 * IMAGE_ROWS : 4096;
    config.fields = fields;
    config.field_count = fields_of(kind, weight_norm != NOT_PRIORITIZED, fields);
    config.block_rows = 64;
    config.max_batch = is_image(kind) ? IMAGE_ROWS : kind == ROWS_WIDE ? 320 : 256;
    config.gamma = 0.9f;
    config.prioritized = weight_norm != NOT_PRIORITIZED;
    config.weight_norm = weight_norm != NOT_PRIORITIZED ? weight_norm : 0;
    GPUR_TRY(gpur_replay_create(device, &config, &fixture->replay));
    GPUR_TRY(gpur_writer_create(fixture->replay, 1, &fixture->writer));
    return learner_fixture_append(fixture, filled);
}

gpur_status learner_fixture_open_prioritized(learner_fixture *fixture, gpur_device *device, int filled,
                                             int32_t weight_norm)
{
    return learner_fixture_open_kind(fixture, device, ROWS_PLAIN, filled, weight_norm);
}

gpur_status learner_fixture_open(learner_fixture *fixture, gpur_device *device, int filled)
{
    return learner_fixture_open_kind(fixture, device, ROWS_PLAIN, filled, NOT_PRIORITIZED);
}

void learner_fixture_close(learner_fixture *fixture)
{
    gpur_writer_destroy(fixture->writer);
    gpur_replay_destroy(fixture->replay);
}

void learner_fixture_pack(const learner_fixture *fixture, const int64_t *ids, int count, void *rows)
{
    memset(rows, 0xff, (size_t)(count * row_bytes_of_kind(fixture->kind)));
    for (int b = 0; b < count; b++) {
        const learner_fixture_row *const row = &fixture->rows[ids[b]];
        wide_row *const wide = (wide_row *)rows + b;
        if (fixture->kind == ROWS_PLAIN || fixture->kind == ROWS_MASKED) {
            ((learner_fixture_row *)rows)[b] = *row;
        } else if (is_image(fixture->kind)) {
            ((image_row *)rows)[b] = conv_rows[ids[b]];
        } else {
            memcpy(wide->obs, wide_floats[0][ids[b]], sizeof wide->obs);
            memcpy(wide->next_obs, wide_floats[1][ids[b]], sizeof wide->next_obs);
            wide->action = row->action, wide->reward = row->reward, wide->terminated = row->terminated;
        }
    }
}

float wide_row_priority(int64_t id)
{
    return 0.25f + 0.5f * (float)(id % 7);
}

/* Wide rows are appended as one array a field, all others as structs. */
static gpur_status append_arrays(learner_fixture *fixture, int count)
{
    static uint8_t terminated[FIXTURE_ROWS];
    static int64_t action[FIXTURE_ROWS];
    static float reward[FIXTURE_ROWS], priority[FIXTURE_ROWS];
    const void *const arrays[] = {terminated, wide_floats[1], action, wide_floats[0], reward, priority};
    for (int i = 0; i < count; i++) {
        terminated[i] = fixture->rows[i].terminated;
        action[i] = fixture->rows[i].action;
        reward[i] = fixture->rows[i].reward;
        priority[i] = wide_row_priority(i);
    }
    return gpur_writer_append_fields(fixture->writer, count, arrays, NULL, NULL);
}

gpur_status learner_fixture_append(learner_fixture *fixture, int count)
{
    if (count == 0)
        return GPUR_OK;
    if (fixture->kind == ROWS_WIDE)
        return append_arrays(fixture, count);
    int64_t ids[FIXTURE_ROWS];
    for (int i = 0; i < count; i++)
        ids[i] = i;
    void *const rows = malloc((size_t)(count * row_bytes_of_kind(fixture->kind)));
    learner_fixture_pack(fixture, ids, count, rows);
    const gpur_status status = gpur_writer_append(fixture->writer, count, rows, NULL);
    free(rows);
    return status;
}

ref_row learner_fixture_reference(const learner_fixture *fixture, int64_t id)
{
    const learner_fixture_row *const row = &fixture->rows[id];
    const double discount = row->terminated ? 0 : (double)0.9f; /* a truncated episode is bootstrapped */
    ref_row reference = {row->obs, row->next_obs, row->action, row->reward, 1.0f, discount, 0, NULL};
    if (fixture->kind == ROWS_MASKED)
        reference.next_mask = &row->next_mask;
    if (fixture->kind == ROWS_WIDE)
        reference.obs = wide_floats[0][id], reference.next_obs = wide_floats[1][id];
    if (is_image(fixture->kind))
        reference.obs = image_floats[0][id], reference.next_obs = image_floats[1][id];
    return reference;
}

void learner_fixture_ids(const learner_fixture *fixture, int t, int count, int64_t *ids)
{
    for (int b = 0; b < count; b++)
        ids[b] = ((int64_t)t * 131 + b * 37 + (b % 3) * t) % rows_of_kind(fixture->kind);
}

gpur_dqn_config learner_fixture_config(int head, int double_dqn)
{
    gpur_dqn_config config;
    (void)gpur_dqn_config_init(&config, sizeof config);
    config.network = network_fixture_config(16, 0, GPUR_RELU, head, 12, FIXTURE_ACTIONS);
    config.network.init = GPUR_INIT_FAN_IN;
    config.double_dqn = double_dqn;
    config.batch_size = 16;
    config.target_period = 20;
    config.seed = 4;
    return config;
}

gpur_learner *learner_fixture_open_learner(learner_fixture *fixture, gpur_device *device, gpur_dqn_config config)
{
    gpur_learner *learner = NULL;
    if (learner_fixture_open(fixture, device, FIXTURE_ROWS) != GPUR_OK)
        return NULL;
    return gpur_dqn_create(fixture->replay, &config, &learner) == GPUR_OK ? learner : NULL;
}

void learner_fixture_close_learner(learner_fixture *fixture, gpur_learner *learner)
{
    gpur_learner_destroy(learner);
    learner_fixture_close(fixture);
}

static gpur_status read_into(gpur_learner *learner, ref_net *net, int32_t index)
{
    gpur_weight_info info = {.size = sizeof info};
    GPUR_TRY(gpur_learner_get_weight_info(learner, index, &info));
    float *const values = malloc((size_t)info.count * sizeof *values);
    ref_tensor *const tensor = ref_net_find(net, info.name);
    gpur_status status = tensor && tensor->count == info.count ? GPUR_OK : GPUR_INVALID_ARGUMENT;
    if (status == GPUR_OK)
        status = gpur_learner_read_weights(learner, GPUR_WEIGHTS_ONLINE, info.name, values, info.count);
    for (int64_t i = 0; status == GPUR_OK && i < info.count; i++)
        tensor->w[i] = tensor->target[i] = values[i];
    free(values);
    return status;
}

ref_net *learner_fixture_net(const learner_fixture *fixture, gpur_learner *learner, const gpur_dqn_config *config)
{
    const int features = fixture->kind == ROWS_WIDE ? WIDE_FEATURES : FIXTURE_FEATURES;
    ref_net *const net = !is_image(fixture->kind) ? ref_net_create(&config->network, features)
                         : config->network.trunk_count
                             ? ref_net_create_image(&config->network, IMAGE_HEIGHT, IMAGE_WIDTH, IMAGE_CHANNELS)
                             : ref_net_create(&config->network, IMAGE_PIXELS);
    gpur_status status = gpur_learner_weight_count(learner) == net->tensors ? GPUR_OK : GPUR_INVALID_ARGUMENT;
    for (int32_t i = 0; i < net->tensors && status == GPUR_OK; i++)
        status = read_into(learner, net, i);
    for (int i = 0; i < net->tensors; i++)
        ref_optimizer_begin(&config->optimizer, net->tensor[i].count, net->tensor[i].m, net->tensor[i].v,
                            net->tensor[i].u);
    if (status == GPUR_OK)
        return net;
    ref_net_destroy(net);
    return NULL;
}

int64_t learner_fixture_weights(gpur_learner *learner, int32_t which, float *values, int64_t room)
{
    int64_t used = 0;
    for (int32_t i = 0; i < gpur_learner_weight_count(learner); i++) {
        gpur_weight_info info = {.size = sizeof info};
        if (gpur_learner_get_weight_info(learner, i, &info) != GPUR_OK || used + info.count > room ||
            gpur_learner_read_weights(learner, which, info.name, values + used, info.count) != GPUR_OK)
            return -1;
        used += info.count;
    }
    return used;
}

gpur_status learner_fixture_priorities(const learner_fixture *fixture, float *priorities)
{
    int64_t ids[FIXTURE_ROWS];
    for (int i = 0; i < FIXTURE_ROWS; i++)
        ids[i] = i;
    for (int first = 0; first < FIXTURE_ROWS; first += FIXTURE_ROWS / 2)
        GPUR_TRY(gpur_replay_get_priorities(fixture->replay, FIXTURE_ROWS / 2, ids + first, priorities + first));
    return GPUR_OK;
}

gpur_learner_stats learner_fixture_stats(gpur_learner *learner)
{
    gpur_learner_stats stats = {.size = sizeof stats};
    if (gpur_learner_sync(learner) != GPUR_OK || gpur_learner_get_stats(learner, &stats) != GPUR_OK)
        stats.steps = -1;
    return stats;
}

gpur_status learner_fixture_set_window(gpur_learner *learner, int64_t count)
{
    const gpur_window_set_args args = {
        (gpur_window *)(uintptr_t)gpur_dqn_of(learner)->step.sampled.plan.ring.rows.window, {0, 0, count}};
    gpur_stream *stream = NULL;
    GPUR_TRY(gpur_consumer_begin(learner->replay, gpur_consumer_without_publishing, &stream));
    const gpur_status status = gpur_launch_window_set(stream, gpur_grid_single(learner->device), &args);
    return gpur_consumer_end(learner->replay, status);
}

gpur_dqn_config conv_config(int32_t layout)
{
    gpur_dqn_config config = learner_fixture_config(GPUR_HEAD_DUELING, 1);
    const gpur_layer layers[] = {{GPUR_CONV, 6, GPUR_RELU, 4, 2, 0, {0}}, {GPUR_CONV, 5, GPUR_TANH, 3, 1, 1, {0}}};
    config.network = network_fixture_config(0, 0, GPUR_RELU, GPUR_HEAD_DUELING, 9, FIXTURE_ACTIONS);
    memcpy(config.network.trunk, layers, sizeof layers);
    config.network.trunk_count = 2;
    config.network.input_scale = 1.0f / 255;
    config.network.input_layout = layout;
    config.batch_size = IMAGE_BATCH;
    config.target_period = 7;
    config.seed = 3;
    config.host_batches = 2;
    return config;
}

gpur_status conv_replay_open(conv_fixture *s, gpur_device *device, int32_t layout)
{
    static learner_fixture fixture;
    memset(s, 0, sizeof *s);
    const int kind = layout == GPUR_CHW ? ROWS_PLANES : ROWS_PIXELS;
    const gpur_status status = learner_fixture_open_kind(&fixture, device, kind, IMAGE_ROWS, NOT_PRIORITIZED);
    gpur_writer_destroy(fixture.writer);
    s->replay = fixture.replay;
    return status;
}

gpur_status conv_fixture_open(conv_fixture *s, gpur_device *device, const gpur_dqn_config *config)
{
    GPUR_TRY(conv_replay_open(s, device, config->network.input_layout));
    return gpur_dqn_create(s->replay, config, &s->learner);
}

void conv_fixture_close(conv_fixture *s)
{
    gpur_learner_destroy(s->learner);
    gpur_replay_destroy(s->replay);
}
