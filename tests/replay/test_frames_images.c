/* SPDX-License-Identifier: MIT */
/* A learner of images on the frames layout, whose gather writes what the first layer reads, makes the same weights, bit
 * by bit, as on the rows layout, whose bytes are gathered first. */
#include "support/learner_fixture.h"
#include "support/replay_fixture.h"
#include "test.h"
#include "base/red_zone.h"
#include "base/status.h"

enum { STEPS = 300, STACK = 4, HEIGHT = 16, MAX_WIDTH = 12, BATCH = 16, MAX_WEIGHTS = 1 << 16 };
enum { MAX_FRAME = HEIGHT * MAX_WIDTH };

/* How stacks lie, how the network takes them, and what it begins with. */
typedef struct kind {
    int width, is_last, input_layout, floats, is_dense, host_batches, prioritized;
    float scale;
    int is_mixed; /* 1: half of each batch are demonstrations */
} kind;

static int frame_of(const kind *k)
{
    return HEIGHT * k->width;
}

typedef struct side {
    gpur_replay *replay, *demonstrations;
    gpur_writer *writer, *demonstrator; /* of each */
    gpur_learner *learner;
    float weights[MAX_WEIGHTS];
    int64_t count;
    gpur_learner_stats stats;
} side;

static gpur_status open_replay(gpur_device *device, const kind *k, int32_t layout, gpur_replay **replay,
                               gpur_writer **writer)
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
    GPUR_TRY(gpur_replay_create(device, &config, replay));
    return gpur_writer_create(*replay, 1, writer);
}

/* Moves the frames (STACK, oldest first) on by a random one; before an episode's first there are zeros. Then makes the
 * stack as the replay stores it. */
static const void *next_stack(const kind *k, int begins, uint64_t *random)
{
    static unsigned char frames[STACK][MAX_FRAME], bytes[STACK * MAX_FRAME];
    static float floats[STACK * MAX_FRAME];
    memmove(frames[0], frames[1], sizeof frames - sizeof frames[0]);
    if (begins)
        memset(frames, 0, sizeof frames);
    for (int u = 0; u < frame_of(k); u++)
        frames[STACK - 1][u] = (unsigned char)(1 + xorshift_below(random, 250));
    for (int i = 0; i < STACK * frame_of(k); i++) {
        bytes[i] = k->is_last ? frames[i % STACK][i / STACK] : frames[i / frame_of(k)][i % frame_of(k)];
        floats[i] = bytes[i];
    }
    return k->floats ? (const void *)floats : bytes;
}

/* Short episodes: many rows have stacks with no frame in some places. */
static gpur_status fill(gpur_writer *writer, const kind *k, uint64_t random)
{
    for (int t = 0; t < STEPS; t++) {
        const int32_t action = (int32_t)xorshift_below(&random, 3);
        const float reward = (float)xorshift_below(&random, 100) / 50.0f - 1.0f;
        const uint8_t ends = t % 11 == 10;
        if (t % 11 == 0)
            GPUR_TRY(gpur_writer_reset(writer, 0, next_stack(k, 1, &random)));
        GPUR_TRY(gpur_writer_step(writer, &action, &reward, next_stack(k, 0, &random), &ends, NULL));
    }
    return GPUR_OK;
}

static gpur_dqn_config config_of(const kind *k)
{
    const int stride = k->width < 8 ? 2 : 4;
    const gpur_layer conv = {GPUR_CONV, 6, GPUR_RELU, 2 * stride, stride, 0, {0}};
    gpur_dqn_config config = learner_fixture_config(GPUR_HEAD_DUELING, 1);
    config.network = network_fixture_config(k->is_dense ? 10 : 0, 0, GPUR_RELU, GPUR_HEAD_DUELING, 9, 3);
    if (!k->is_dense)
        config.network.trunk[0] = conv, config.network.trunk_count = 1;
    config.network.input_scale = k->scale;
    config.network.input_layout = k->input_layout;
    config.batch_size = BATCH;
    config.host_batches = k->host_batches;
    if (k->prioritized)
        config.index_source = GPUR_PRIORITIZED_STRATIFIED;
    return config;
}

/* A caller's rows have whole observations in either layout. */
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
    gpur_dqn_config config = config_of(k);
    int64_t ids[BATCH];
    for (int b = 0; b < BATCH; b++)
        ids[b] = STEPS - 2 - b;
    GPUR_TRY(open_replay(device, k, layout, &s->replay, &s->writer));
    GPUR_TRY(open_replay(device, k, layout, &s->demonstrations, &s->demonstrator));
    config.demonstrations = k->is_mixed ? s->demonstrations : NULL;
    GPUR_TRY(gpur_dqn_create(s->replay, &config, &s->learner));
    GPUR_TRY(fill(s->writer, k, 9));
    GPUR_TRY(fill(s->demonstrator, k, 77));
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
    gpur_writer_destroy(s->demonstrator);
    gpur_replay_destroy(s->replay);
    gpur_replay_destroy(s->demonstrations);
    s->learner = NULL, s->writer = s->demonstrator = NULL, s->replay = s->demonstrations = NULL;
}

static int64_t aligned(int64_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

/* With the frames layout a learner has memory for gathered bytes only if it trains on a caller's rows. */
static void check_sides(const side *rows, const side *frames, const kind *k)
{
    const int64_t stack = STACK * frame_of(k) * (k->floats ? 4 : 1);
    const int64_t raw = aligned(2 * BATCH * stack) + GPUR_RED_ZONE, links = aligned(BATCH * 2 * STACK * 4);
    CHECK(rows->count > 100 && rows->stats.loss > 0);
    CHECK_EQUAL(rows->count, frames->count);
    CHECK(memcmp(rows->weights, frames->weights, (size_t)rows->count * sizeof(float)) == 0);
    CHECK_EQUAL(rows->stats.device_bytes - frames->stats.device_bytes, (k->host_batches > 0 ? 0 : raw) - links);
}

static void check_kind(gpur_device *device, const kind *k)
{
    static side sides[2];
    gpur_status status = train(&sides[0], device, k, GPUR_LAYOUT_ROWS);
    if (status == GPUR_OK)
        status = train(&sides[1], device, k, GPUR_LAYOUT_FRAMES);
    if (status == GPUR_OK)
        check_sides(&sides[0], &sides[1], k);
    close_side(&sides[0]);
    close_side(&sides[1]);
    CHECK_OK(status);
}

TEST(a_learner_of_images_makes_the_same_weights_of_either_layout)
{
    static const kind kinds[] = {
        {12, 0, GPUR_CHW, 0, 0, 0, 0, 1.0f / 255}, {12, 1, GPUR_HWC, 0, 0, 1, 0, 1.0f / 255, 1},
        {12, 0, GPUR_CHW, 0, 0, 1, 1, 1.0f, 1},    {12, 0, GPUR_CHW, 1, 0, 0, 0, 1.0f / 255, 1},
        {12, 1, GPUR_HWC, 1, 0, 0, 1, -0.01f},     {12, 0, GPUR_CHW, 0, 1, 0, 0, 0.01f, 1},
        {12, 1, GPUR_CHW, 0, 1, 1, 0, 0.01f},      {12, 0, GPUR_CHW, 1, 1, 0, 0, 0.01f},
        {4, 0, GPUR_HWC, 0, 0, 0, 0, 1.0f / 255}, /* as many channels as frames, and no frame is one */
    };
    gpur_device *const device = test_device_deterministic();
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        check_kind(device, &kinds[i]);
        TEST_REQUIRE(atomic_load(&test_state.failures) == 0, "kind %d", (int)i);
    }
    gpur_device_close(device);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(a_learner_of_images_makes_the_same_weights_of_either_layout);
    return test_main_end();
}
