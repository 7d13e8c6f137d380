/* SPDX-License-Identifier: MIT */
/* A learner of images over a linked replay, whose draws write what the first layer reads, makes the same weights, bit
 * by bit, as over a packed one, whose bytes are gathered first. */
#include "support/learner_fixture.h"
#include "support/replay_fixture.h"
#include "test.h"
#include "base/red_zone.h"
#include "base/status.h"

enum { STEPS = 300, STACK = 4, HEIGHT = 16, MAX_WIDTH = 12, BATCH = 16, MAX_WEIGHTS = 1 << 16 };
enum { MAX_OBS = STACK * HEIGHT * MAX_WIDTH };

/* How stacks lie, how the network takes them, and what it begins with. */
typedef struct kind {
    int width, is_last, input_layout, floats, is_dense, host_batches, prioritized;
    float scale;
} kind;

static int frame_of(const kind *k)
{
    return HEIGHT * k->width;
}

typedef struct side {
    gpur_replay *replay;
    gpur_writer *writer;
    gpur_learner *learner;
    float weights[MAX_WEIGHTS];
    int64_t count;
    gpur_learner_stats stats;
} side;

static gpur_status open_replay(side *s, gpur_device *device, const kind *k, int32_t layout)
{
    const int32_t type = k->floats ? GPUR_FLOAT32 : GPUR_UINT8;
    const gpur_field last = {"obs", type, {HEIGHT, k->width, STACK}}, first = {"obs", type, {STACK, HEIGHT, k->width}};
    const gpur_field obs = k->is_last ? last : first;
    gpur_field fields[] = {obs,
                           obs,
                           {"action", GPUR_INT32, {0}},
                           {"reward", GPUR_FLOAT32, {0}},
                           {"terminated", GPUR_BOOL, {0}},
                           {"discount", GPUR_FLOAT32, {0}}};
    fields[1].name = "next_obs";
    gpur_replay_config config = replay_fixture_config(fields, 6, 128, 16, BATCH);
    config.layout = layout, config.frame_stack = layout == GPUR_LAYOUT_FRAMES ? STACK : 1;
    config.stack_axis = k->is_last ? GPUR_STACK_LAST : GPUR_STACK_FIRST;
    config.n_step = 2, config.extra_frames = 64, config.prioritized = k->prioritized;
    GPUR_TRY(gpur_replay_create(device, &config, &s->replay));
    return gpur_writer_create(s->replay, 1, &s->writer);
}

/* Where number `u` of the newest frame is in a stack, and how far the next older frame's is before it. */
static int place_of(const kind *k, int u)
{
    return k->is_last ? u * STACK + STACK - 1 : (STACK - 1) * frame_of(k) + u;
}

/* The stack moves on by a frame; a new episode begins with nothing before its first frame. */
static void push(const kind *k, float *obs, int begins, uint64_t *random)
{
    const int older = k->is_last ? 1 : frame_of(k);
    for (int u = 0; u < frame_of(k); u++) {
        float *const newest = obs + place_of(k, u);
        for (int p = STACK - 1; p > 0; p--)
            newest[-p * older] = begins ? 0 : newest[(1 - p) * older];
        *newest = (float)(1 + xorshift_below(random, 250));
    }
}

/* As the replay keeps them. */
static const void *stored(const kind *k, const float *obs)
{
    static unsigned char bytes[MAX_OBS];
    for (int i = 0; i < STACK * frame_of(k); i++)
        bytes[i] = (unsigned char)obs[i];
    return k->floats ? (const void *)obs : bytes;
}

/* Short episodes: many rows have stacks with no frame in some places. */
static gpur_status fill(side *s, const kind *k)
{
    float obs[MAX_OBS] = {0};
    uint64_t random = 9;
    for (int t = 0; t < STEPS; t++) {
        const int32_t action = (int32_t)xorshift_below(&random, 3);
        const float reward = (float)xorshift_below(&random, 100) / 50.0f - 1.0f;
        const uint8_t ends = t % 11 == 10;
        if (t % 11 == 0) {
            push(k, obs, 1, &random);
            GPUR_TRY(gpur_writer_reset(s->writer, 0, stored(k, obs)));
        }
        push(k, obs, 0, &random);
        GPUR_TRY(gpur_writer_step(s->writer, &action, &reward, stored(k, obs), &ends, NULL));
    }
    return GPUR_OK;
}

static gpur_learner_config config_of(const kind *k)
{
    const int stride = k->width < 8 ? 2 : 4;
    const gpur_layer conv = {GPUR_CONV, 6, GPUR_RELU, 2 * stride, stride, 0, {0}};
    gpur_learner_config config = learner_fixture_config(GPUR_HEAD_DUELING, 1);
    config.network = network_fixture_config(k->is_dense ? 10 : 0, 0, GPUR_RELU, GPUR_HEAD_DUELING, 9, 3);
    if (!k->is_dense)
        config.network.trunk[0] = conv, config.network.trunk_count = 1;
    config.network.input_scale = k->scale;
    config.network.input_layout = k->input_layout;
    config.batch_size = BATCH;
    config.deterministic = 1;
    config.host_batches = k->host_batches;
    if (k->prioritized)
        config.index_source = GPUR_PRIORITIZED_STRATIFIED;
    return config;
}

/* Rows that the caller brings are packed, and go the other way. */
static gpur_status train_rows(side *s, const kind *k)
{
    const int64_t row = row_tags_of(s->replay, 0.99f).row_bytes;
    unsigned char *const rows = calloc(BATCH, (size_t)row);
    for (int64_t i = 0; i < BATCH * row; i++)
        rows[i] = (unsigned char)(i % row < 2 * STACK * frame_of(k) ? i * 31 % 251 : 0);
    const gpur_status status = gpur_learner_train_host_batch(s->learner, rows);
    free(rows);
    return status;
}

static gpur_status train(side *s, gpur_device *device, const kind *k, int32_t layout)
{
    const gpur_learner_config config = config_of(k);
    int64_t ids[BATCH];
    for (int b = 0; b < BATCH; b++)
        ids[b] = STEPS - 2 - b;
    GPUR_TRY(open_replay(s, device, k, layout));
    GPUR_TRY(gpur_learner_create(s->replay, &config, &s->learner));
    GPUR_TRY(fill(s, k));
    GPUR_TRY(gpur_learner_train(s->learner, 5));
    GPUR_TRY(gpur_learner_train_ids(s->learner, ids));
    if (k->host_batches > 0 && !k->floats)
        GPUR_TRY(train_rows(s, k));
    GPUR_TRY(gpur_learner_train(s->learner, 3));
    GPUR_TRY(gpur_learner_sync(s->learner));
    s->stats.size = sizeof s->stats;
    GPUR_TRY(gpur_learner_get_stats(s->learner, &s->stats));
    s->count = learner_fixture_weights(s->learner, GPUR_WEIGHTS_ONLINE, s->weights, MAX_WEIGHTS);
    return GPUR_OK;
}

static void close_side(side *s)
{
    gpur_learner_destroy(s->learner);
    gpur_writer_destroy(s->writer);
    gpur_replay_destroy(s->replay);
    s->learner = NULL, s->writer = NULL, s->replay = NULL;
}

static int64_t taken(int64_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

/* The bytes between gather and first layer are there for rows that a caller brings, and else not. */
static void check_bytes(const side *packed, const side *linked, const kind *k)
{
    const int64_t stack = STACK * frame_of(k) * (k->floats ? 4 : 1);
    const int64_t raw = taken(2 * BATCH * stack) + GPUR_RED_ZONE, links = taken(BATCH * 2 * STACK * 4);
    CHECK_EQUAL(packed->stats.device_bytes - linked->stats.device_bytes, (k->host_batches > 0 ? 0 : raw) - links);
}

static void check_sides(side *sides, const kind *k)
{
    CHECK(sides[0].count > 100);
    CHECK_EQUAL(sides[0].count, sides[1].count);
    CHECK(sides[0].stats.loss > 0);
    CHECK(memcmp(sides[0].weights, sides[1].weights, (size_t)sides[0].count * sizeof(float)) == 0);
    check_bytes(&sides[0], &sides[1], k);
}

static void check_kind(gpur_device *device, const kind *k)
{
    static side sides[2];
    gpur_status status = train(&sides[0], device, k, GPUR_LAYOUT_ROWS);
    if (status == GPUR_OK)
        status = train(&sides[1], device, k, GPUR_LAYOUT_FRAMES);
    if (status == GPUR_OK)
        check_sides(sides, k);
    close_side(&sides[0]);
    close_side(&sides[1]);
    CHECK_OK(status);
}

TEST(a_learner_of_images_makes_the_same_weights_of_either_layout)
{
    static const kind kinds[] = {
        {12, 0, GPUR_CHW, 0, 0, 0, 0, 1.0f / 255}, {12, 1, GPUR_HWC, 0, 0, 1, 0, 1.0f / 255},
        {12, 0, GPUR_CHW, 0, 0, 1, 1, 1.0f},       {12, 0, GPUR_CHW, 1, 0, 0, 0, 1.0f / 255},
        {12, 1, GPUR_HWC, 1, 0, 0, 1, -0.01f},     {12, 0, GPUR_CHW, 0, 1, 0, 0, 0.01f},
        {12, 1, GPUR_CHW, 0, 1, 1, 0, 0.01f},      {12, 0, GPUR_CHW, 1, 1, 0, 0, 0.01f},
        {4, 0, GPUR_HWC, 0, 0, 0, 0, 1.0f / 255}, /* as many channels as frames, and no frame is one */
    };
    gpur_device *const device = test_device();
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        check_kind(device, &kinds[i]);
    gpur_device_close(device);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(a_learner_of_images_makes_the_same_weights_of_either_layout);
    return test_main_end();
}
