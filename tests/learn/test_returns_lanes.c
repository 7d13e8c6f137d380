/* SPDX-License-Identifier: MIT */
/* A cache of returns on lanes beside one on the same steps in rows, which a writer links: where each row of lanes has a
 * transition, so that both draw the same blocks, they have the same entries and train the same weights, bit for bit.
 * Observations are numbers, or stacks of images, which lanes make of frames.
 * With GPUR_AUTORESET_NEXT_STEP ids differ, and so the blocks: test_returns.c has the reference for these. */
#include "gpureplay.h"
#include "learn/dqn/dqn.h"
#include "support/replay_fixture.h"
#include "test.h"

enum { LANES = 6, KEPT = 96, FEATURES = 5, ACTIONS = 3, LENGTH = 8, SIZE = 24 * LENGTH, BATCH = 16, ROUNDS = 12 };
enum { OBS, NEXT_OBS, ACTION, REWARD, TERMINATED, TRUNCATED, PREVIOUS, FIELDS };

enum { STACK = 3, SIDE = 8, FRAME = SIDE * SIDE }; /* of images */

static const gpur_field numbers[FIELDS] = {
    {"obs", GPUR_FLOAT32, {FEATURES}}, {"next_obs", GPUR_FLOAT32, {FEATURES}}, {"action", GPUR_INT64, {0}},
    {"reward", GPUR_FLOAT32, {0}},     {"terminated", GPUR_BOOL, {0}},         {"truncated", GPUR_BOOL, {0}},
    {"previous", GPUR_INT64, {0}}, /* of rows alone */
};
static const int64_t sizes[FIELDS] = {0, 0, 8, 4, 1, 1, 8}; /* but of observations */

static struct {
    gpur_device *device;
    int32_t autoreset, has_images;
    int64_t bytes; /* of an observation */
    gpur_replay *lanes, *rows;
    gpur_writer *writer;
    gpur_learner *of_lanes, *of_rows;
    void *arrays[FIELDS]; /* on the device: of a step */
    unsigned char obs[LANES * STACK * FRAME], next_obs[LANES * STACK * FRAME], final_obs[LANES * STACK * FRAME];
    float reward[LANES];
    int64_t action[LANES];
    uint8_t terminated[LANES], truncated[LANES];
    uint64_t random;
} w;

static void make_numbers(unsigned char *obs)
{
    float values[FEATURES];
    for (int i = 0; i < FEATURES; i++)
        values[i] = (float)xorshift_below(&w.random, 2001) / 1000.0f - 1.0f;
    memcpy(obs, values, sizeof values);
}

/* What came after obs; NULL: a new episode begins, with older images that are like the newest one. */
static void make_stack(const unsigned char *obs, unsigned char *next)
{
    unsigned char *const newest = next + (STACK - 1) * FRAME;
    for (int i = 0; i < FRAME; i++)
        newest[i] = (unsigned char)xorshift_below(&w.random, 256);
    for (int f = 0; f < STACK - 1; f++)
        memcpy(next + f * FRAME, obs ? obs + (f + 1) * FRAME : newest, FRAME);
}

/* The observations after a step, in lane `lane`. */
static void make_next(int lane, int has_ended)
{
    unsigned char *const next = w.next_obs + lane * w.bytes, *const final = w.final_obs + lane * w.bytes;
    if (!w.has_images) {
        make_numbers(next);
        make_numbers(final);
        return;
    }
    make_stack(w.obs + lane * w.bytes, final);
    if (has_ended)
        make_stack(NULL, next);
    else
        memcpy(next, final, STACK * FRAME);
}

static void begin_episodes(void)
{
    for (int lane = 0; lane < LANES && w.has_images; lane++)
        make_stack(NULL, w.obs + lane * w.bytes);
    for (int lane = 0; lane < LANES && !w.has_images; lane++)
        make_numbers(w.obs + lane * w.bytes);
}

static int64_t bytes_of(int field)
{
    return field <= NEXT_OBS ? w.bytes : sizes[field];
}

static void open_replays(void)
{
    gpur_replay_config config;
    gpur_writer_config writer;
    gpur_field fields[FIELDS];
    memcpy(fields, numbers, sizeof fields);
    for (int f = OBS; f <= NEXT_OBS && w.has_images; f++)
        fields[f] = (gpur_field){numbers[f].name, GPUR_UINT8, {STACK, SIDE, SIDE}};
    CHECK_OK(gpur_replay_config_init(&config, sizeof config));
    config.fields = fields, config.gamma = 0.9f, config.max_batch = 64, config.reward_clip = 0.7f;
    gpur_replay_config rows = config;
    config.field_count = PREVIOUS, config.layout = GPUR_LAYOUT_LANES;
    config.lanes = LANES, config.capacity = LANES * KEPT, config.lane_autoreset = w.autoreset;
    config.frame_stack = w.has_images ? STACK : 1;
    CHECK_OK(gpur_replay_create(w.device, &config, &w.lanes));
    rows.field_count = FIELDS, rows.capacity = LANES * KEPT, rows.block_rows = LANES;
    CHECK_OK(gpur_replay_create(w.device, &rows, &w.rows));
    CHECK_OK(gpur_writer_config_init(&writer, sizeof writer));
    writer.num_envs = LANES, writer.autoreset = w.autoreset;
    CHECK_OK(gpur_writer_open(w.rows, &writer, &w.writer));
    begin_episodes();
    CHECK_OK(gpur_writer_reset(w.writer, -1, w.obs));
}

static void open_learners(const gpur_returns_config *returns)
{
    gpur_dqn_config config;
    CHECK_OK(gpur_dqn_config_init(&config, sizeof config));
    config.network.trunk[0] = (gpur_layer){.kind = GPUR_DENSE, .units = 16, .activation = GPUR_RELU};
    config.network.trunk_count = 1, config.network.num_actions = ACTIONS, config.network.head = GPUR_HEAD_DUELING;
    if (w.has_images)
        config.network.trunk[0] =
            (gpur_layer){.kind = GPUR_CONV, .units = 4, .kernel = 4, .stride = 2, .activation = GPUR_RELU};
    config.batch_size = BATCH, config.seed = 3, config.returns = *returns;
    CHECK_OK(gpur_dqn_create(w.lanes, &config, &w.of_lanes));
    CHECK_OK(gpur_dqn_create(w.rows, &config, &w.of_rows));
}

static void begin(int32_t autoreset, int has_images, const gpur_returns_config *returns)
{
    memset(&w, 0, sizeof w);
    w.device = test_device();
    w.autoreset = autoreset, w.random = 11, w.has_images = has_images;
    w.bytes = has_images ? STACK * FRAME : FEATURES * (int64_t)sizeof(float);
    open_replays();
    open_learners(returns);
    for (int f = 0; f < PREVIOUS; f++)
        CHECK_OK(gpur_device_alloc(w.device, LANES * bytes_of(f), &w.arrays[f]));
}

static void end(void)
{
    gpur_learner_destroy(w.of_lanes);
    gpur_learner_destroy(w.of_rows);
    gpur_writer_destroy(w.writer);
    gpur_replay_destroy(w.lanes);
    gpur_replay_destroy(w.rows);
    for (int f = 0; f < PREVIOUS; f++)
        gpur_device_free(w.device, w.arrays[f]);
    gpur_device_close(w.device);
}

static void give_to_lanes(void)
{
    const void *const from[PREVIOUS] = {w.obs, w.final_obs, w.action, w.reward, w.terminated, w.truncated};
    for (int f = 0; f < PREVIOUS; f++)
        CHECK_OK(gpur_device_copy(w.device, w.arrays[f], from[f], LANES * bytes_of(f)));
    CHECK_OK(gpur_replay_add_lanes(w.lanes, (const void *const *)w.arrays, NULL));
}

static void give_to_writer(void)
{
    const int resets = w.autoreset == GPUR_AUTORESET_DISABLED;
    unsigned char last[sizeof w.next_obs];
    memcpy(last, w.next_obs, sizeof last);
    for (int lane = 0; lane < LANES && resets; lane++)
        if (w.terminated[lane] || w.truncated[lane])
            memcpy(last + lane * w.bytes, w.final_obs + lane * w.bytes, (size_t)w.bytes);
    const gpur_step_input input = {.size = sizeof input,
                                   .action = w.action,
                                   .reward = w.reward,
                                   .next_obs = last,
                                   .terminated = w.terminated,
                                   .truncated = w.truncated,
                                   .final_obs = w.final_obs};
    CHECK_OK(gpur_writer_step_ex(w.writer, &input));
    for (int lane = 0; lane < LANES && resets; lane++)
        if (w.terminated[lane] || w.truncated[lane])
            CHECK_OK(gpur_writer_reset(w.writer, lane, w.next_obs + lane * w.bytes));
    CHECK_OK(gpur_writer_flush(w.writer));
}

/* Takes steps, and with the last one all episodes end: then each row of lanes has its next observation, and lanes have
 * room for all final ones. */
static void take(int64_t steps)
{
    for (int64_t t = 1; t <= steps; t++) {
        for (int lane = 0; lane < LANES; lane++) {
            const int64_t kind = xorshift_below(&w.random, t == steps ? 3 : 240);
            w.action[lane] = xorshift_below(&w.random, ACTIONS);
            w.reward[lane] = (float)xorshift_below(&w.random, 2001) / 1000.0f - 1.0f;
            w.terminated[lane] = kind == 0 || kind == 2, w.truncated[lane] = kind == 1 || kind == 2;
            make_next(lane, kind <= 2);
        }
        give_to_lanes();
        give_to_writer();
        memcpy(w.obs, w.next_obs, sizeof w.obs);
    }
    gpur_replay_stats rows = {.size = sizeof rows};
    CHECK_OK(gpur_replay_get_stats(w.rows, &rows));
    CHECK_EQUAL(gpur_replay_size(w.lanes), rows.visible);
}

static void compare_entries(void)
{
    static gpur_cache_entry of_lanes[SIZE], of_rows[SIZE];
    CHECK_OK(gpur_device_copy(w.device, of_lanes, gpur_dqn_of(w.of_lanes)->returns.entry, sizeof of_lanes));
    CHECK_OK(gpur_device_copy(w.device, of_rows, gpur_dqn_of(w.of_rows)->returns.entry, sizeof of_rows));
    for (int i = 0; i < SIZE; i++)
        TEST_REQUIRE(memcmp(&of_lanes[i], &of_rows[i], sizeof *of_rows) == 0,
                     "entry %d: address %u and return %g; of rows %u and %g", i, (unsigned)of_lanes[i].address,
                     (double)of_lanes[i].value, (unsigned)of_rows[i].address, (double)of_rows[i].value);
    CHECK(of_rows[0].address != GPUR_CACHE_MISSING);
}

static void compare_weights(void)
{
    static float of_lanes[4096], of_rows[4096];
    for (int32_t i = 0; i < gpur_learner_weight_count(w.of_lanes); i++) {
        gpur_weight_info info = {.size = sizeof info};
        CHECK_OK(gpur_learner_get_weight_info(w.of_lanes, i, &info));
        CHECK_OK(gpur_learner_read_weights(w.of_lanes, GPUR_WEIGHTS_ONLINE, info.name, of_lanes, info.count));
        CHECK_OK(gpur_learner_read_weights(w.of_rows, GPUR_WEIGHTS_ONLINE, info.name, of_rows, info.count));
        TEST_REQUIRE(memcmp(of_lanes, of_rows, (size_t)info.count * sizeof *of_lanes) == 0, "%s differs: %g, %g",
                     info.name, (double)of_lanes[0], (double)of_rows[0]);
    }
}

static void train(int refreshes)
{
    gpur_learner *const both[] = {w.of_lanes, w.of_rows};
    for (int i = 0; i < 2; i++) {
        if (refreshes)
            CHECK_OK(gpur_learner_refresh(both[i]));
        CHECK_OK(gpur_learner_sync(both[i]));
    }
    if (refreshes)
        compare_entries();
    for (int i = 0; i < 2; i++) {
        CHECK_OK(gpur_learner_train(both[i], ROUNDS));
        CHECK_OK(gpur_learner_sync(both[i]));
    }
    compare_weights();
}

/* In a ring that is not full yet, then in one that is, and then with entries whose rows have been overwritten, which
 * train nothing: what is physical is not lost. */
static void run(int32_t autoreset, int has_images, const gpur_returns_config *returns)
{
    gpur_learner_stats of_lanes = {.size = sizeof of_lanes}, of_rows = {.size = sizeof of_rows};
    begin(autoreset, has_images, returns);
    take(60);
    train(1);
    take(100);
    train(1);
    take(50);
    train(0);
    CHECK_OK(gpur_learner_get_stats(w.of_lanes, &of_lanes));
    CHECK_OK(gpur_learner_get_stats(w.of_rows, &of_rows));
    CHECK(of_lanes.steps == 3 * ROUNDS && of_lanes.refreshes == 2);
    CHECK_EQUAL(of_lanes.missing_rows, of_rows.missing_rows);
    CHECK_EQUAL(of_lanes.missing_rows > 0, returns->storage == GPUR_CACHE_VIRTUAL);
    CHECK(memcmp(&of_lanes.loss, &of_rows.loss, sizeof of_rows.loss) == 0);
    end();
}

TEST(a_cache_of_lanes_trains_what_one_of_the_same_rows_trains)
{
    gpur_dqn_config config;
    CHECK_OK(gpur_dqn_config_init(&config, sizeof config));
    gpur_returns_config *const r = &config.returns;
    r->cache_size = SIZE, r->block_length = LENGTH, r->lambda = 0.8f, r->error_bound = 0.3f;
    for (int32_t e = GPUR_ESTIMATOR_PENG; e <= (IN_RACE_CHECK ? GPUR_ESTIMATOR_WATKINS : 6); e++) {
        r->estimator = e;
        r->storage = e % 2 ? GPUR_CACHE_PHYSICAL : GPUR_CACHE_VIRTUAL;
        r->draw = e >= 2 ? GPUR_CACHE_REPLACEMENT : GPUR_CACHE_PERMUTATION;
        r->prioritization.first = r->prioritization.last = e >= 4 ? 0.5f : 0.0f;
        r->truncation_terminates = e == 5;
        run(e % 3 ? GPUR_AUTORESET_SAME_STEP : GPUR_AUTORESET_DISABLED, 0, r);
        if (e <= 2) /* with raw observations, copied and not */
            run(GPUR_AUTORESET_SAME_STEP, 1, r);
    }
}

static gpur_dqn_config refused_config(void)
{
    gpur_dqn_config config;
    (void)gpur_dqn_config_init(&config, sizeof config);
    config.network.trunk[0] = (gpur_layer){.kind = GPUR_DENSE, .units = 16, .activation = GPUR_RELU};
    config.network.trunk_count = 1, config.network.num_actions = ACTIONS, config.batch_size = BATCH;
    config.returns.cache_size = SIZE, config.returns.block_length = LENGTH, config.returns.lambda = 0.8f;
    return config;
}

/* A lane has one step fewer that can be drawn than it keeps. */
TEST(blocks_as_long_as_a_lane_are_refused)
{
    gpur_learner *learner = NULL;
    gpur_dqn_config config = refused_config();
    memset(&w, 0, sizeof w);
    begin(GPUR_AUTORESET_SAME_STEP, 0, &config.returns);
    CHECK_FAILS(gpur_learner_refresh(w.of_lanes), GPUR_TOO_FEW, "no transition can be drawn yet, after 0 steps");
    CHECK_FAILS(gpur_learner_train(w.of_lanes, 1), GPUR_TOO_FEW, "the cache of returns is empty");
    config.returns.cache_size = config.returns.block_length = KEPT;
    CHECK_FAILS(gpur_dqn_create(w.lanes, &config, &learner), GPUR_INVALID_ARGUMENT,
                "returns.block_length is 96; it must be at least 1 and below the replay's steps of a lane, 96");
    config.returns.cache_size = config.returns.block_length = KEPT - 1;
    CHECK_OK(gpur_dqn_create(w.lanes, &config, &learner));
    gpur_learner_destroy(learner);
    end();
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(a_cache_of_lanes_trains_what_one_of_the_same_rows_trains);
    RUN(blocks_as_long_as_a_lane_are_refused);
    return test_main_end();
}
