/* SPDX-License-Identifier: MIT */
/* A learner that trains from lanes computes what one computes from the same transitions in rows, bit for bit: DQN
 * uniformly and by priority, for transitions of several steps; also of images, whose stacks lanes make of frames; and
 * with distributions of returns. */
#include "gpureplay/lanes.h"
#include "learn/dqn/dqn.h"
#include "replay/replay.h"
#include "support/replay_fixture.h"
#include "test.h"

enum { LANES = 12, KEPT = 30, ADDED = 50, FEATURES = 4, ACTIONS = 3, BATCH = 16, TRAINED = 12 };
enum { OBS, NEXT_OBS, ACTION, REWARD, TERMINATED, TRUNCATED, DISCOUNT, FIELDS };

enum { STACK = 3, SIDE = 8, FRAME = SIDE * SIDE }; /* of images */

static gpur_field fields[FIELDS] = {
    {"obs", GPUR_FLOAT32, {FEATURES}}, {"next_obs", GPUR_FLOAT32, {FEATURES}}, {"action", GPUR_INT32, {0}},
    {"reward", GPUR_FLOAT32, {0}},     {"terminated", GPUR_BOOL, {0}},         {"truncated", GPUR_BOOL, {0}},
    {"discount", GPUR_FLOAT32, {0}}, /* of rows alone */
};
static int64_t sizes[FIELDS] = {FEATURES * 4, FEATURES * 4, 4, 4, 1, 1, 4};
static int has_images;
static int32_t head = GPUR_HEAD_Q;

/* From here on obs is FEATURES numbers, or a stack of STACK images. */
static void use_images(int yes)
{
    const gpur_field numbers = {"obs", GPUR_FLOAT32, {FEATURES}}, images = {"obs", GPUR_UINT8, {STACK, SIDE, SIDE}};
    has_images = yes;
    fields[OBS] = fields[NEXT_OBS] = yes ? images : numbers;
    fields[NEXT_OBS].name = "next_obs";
    sizes[OBS] = sizes[NEXT_OBS] = yes ? STACK * FRAME : FEATURES * 4;
}

static struct {
    gpur_device *device;
    gpur_replay *lanes, *rows;
    gpur_writer *writer;
    gpur_learner *of_lanes, *of_rows;
    void *arrays[FIELDS]; /* on the device, (BATCH or LANES, ...) */
    unsigned char host[FIELDS][BATCH * STACK * FRAME];
    unsigned char stacks[LANES][STACK * FRAME], has_ended[LANES];
    int64_t appended;
} w;

static void open_replay(int32_t layout, int32_t prioritized, gpur_replay **replay)
{
    gpur_replay_config config;
    CHECK_OK(gpur_replay_config_init(&config, sizeof config));
    config.fields = fields, config.field_count = layout == GPUR_LAYOUT_LANES ? DISCOUNT : FIELDS;
    config.layout = layout, config.n_step = layout == GPUR_LAYOUT_LANES ? 3 : 1, config.gamma = 0.9f;
    config.max_batch = BATCH, config.prioritized = prioritized;
    if (layout == GPUR_LAYOUT_LANES)
        config.lanes = LANES, config.capacity = LANES * KEPT, config.lane_autoreset = GPUR_AUTORESET_SAME_STEP,
        config.frame_stack = has_images ? STACK : 1;
    else
        config.capacity = TRAINED * BATCH, config.block_rows = BATCH;
    CHECK_OK(gpur_replay_create(w.device, &config, replay));
}

static void open_learner(gpur_replay *replay, int32_t index_source, gpur_learner **learner)
{
    gpur_dqn_config config;
    CHECK_OK(gpur_dqn_config_init(&config, sizeof config));
    config.network.trunk[0] = (gpur_layer){.kind = GPUR_DENSE, .units = 24, .activation = GPUR_RELU};
    config.network.trunk_count = 1, config.network.num_actions = ACTIONS, config.network.head = head;
    if (head != GPUR_HEAD_Q)
        config.network.atoms = 11;
    if (has_images)
        config.network.trunk[0] =
            (gpur_layer){.kind = GPUR_CONV, .units = 4, .kernel = 4, .stride = 2, .activation = GPUR_RELU};
    config.batch_size = BATCH, config.target_period = 5, config.seed = 3, config.index_source = index_source;
    config.step_kernel = GPUR_STEP_LIBRARIES;
    CHECK_OK(gpur_dqn_create(replay, &config, learner));
}

static void begin(int32_t index_source)
{
    const int32_t prioritized = index_source >= GPUR_PRIORITIZED_STRATIFIED;
    memset(&w, 0, sizeof w);
    w.device = test_device();
    open_replay(GPUR_LAYOUT_LANES, prioritized, &w.lanes);
    open_replay(GPUR_LAYOUT_ROWS, 0, &w.rows);
    CHECK_OK(gpur_writer_create(w.rows, 1, &w.writer));
    open_learner(w.lanes, index_source, &w.of_lanes);
    open_learner(w.rows, GPUR_UNIFORM, &w.of_rows);
    for (int f = 0; f < FIELDS; f++)
        CHECK_OK(gpur_device_alloc(w.device, BATCH * sizes[f], &w.arrays[f]));
}

static void end(void)
{
    gpur_learner_destroy(w.of_lanes);
    gpur_learner_destroy(w.of_rows);
    gpur_writer_destroy(w.writer);
    gpur_replay_destroy(w.lanes);
    gpur_replay_destroy(w.rows);
    for (int f = 0; f < FIELDS; f++)
        gpur_device_free(w.device, w.arrays[f]);
    gpur_device_close(w.device);
}

/* The stacks of the next step: where an episode begins, the older images are like the newest one. */
static void add_images(uint64_t *random)
{
    for (int lane = 0; lane < LANES; lane++) {
        unsigned char *const stack = w.host[OBS] + lane * sizes[OBS];
        unsigned char *const final = w.host[NEXT_OBS] + lane * sizes[OBS];
        memcpy(stack, w.stacks[lane] + FRAME, (STACK - 1) * FRAME);
        for (int i = 0; i < FRAME; i++)
            stack[(STACK - 1) * FRAME + i] = (unsigned char)xorshift_below(random, 256);
        for (int f = 0; f < STACK - 1 && w.has_ended[lane]; f++)
            memcpy(stack + f * FRAME, stack + (STACK - 1) * FRAME, FRAME);
        memcpy(w.stacks[lane], stack, STACK * FRAME);
        memcpy(final, stack + FRAME, (STACK - 1) * FRAME);
        memset(final + (STACK - 1) * FRAME, lane, FRAME);
    }
}

/* Adds a step. `ends` 0: no episode ends. */
static void add_step(uint64_t *random, int ends)
{
    float *const obs = (float *)(void *)w.host[OBS], *const final = (float *)(void *)w.host[NEXT_OBS];
    float *const reward = (float *)(void *)w.host[REWARD];
    int32_t *const action = (int32_t *)(void *)w.host[ACTION];
    if (has_images)
        add_images(random);
    for (int i = 0; i < LANES * FEATURES && !has_images; i++) {
        obs[i] = (float)xorshift_below(random, 1000) / 500.0f - 1.0f;
        final[i] = -obs[i];
    }
    for (int lane = 0; lane < LANES; lane++) {
        action[lane] = (int32_t)xorshift_below(random, ACTIONS);
        reward[lane] = (float)xorshift_below(random, 5) - 2.0f;
        w.host[TERMINATED][lane] = ends && xorshift_below(random, 9) == 0;
        w.host[TRUNCATED][lane] = ends && xorshift_below(random, 11) == 0;
        w.has_ended[lane] = w.host[TERMINATED][lane] || w.host[TRUNCATED][lane];
    }
    for (int f = 0; f < DISCOUNT; f++)
        CHECK_OK(gpur_device_copy(w.device, w.arrays[f], w.host[f], LANES * sizes[f]));
    CHECK_OK(gpur_replay_add_lanes(w.lanes, (const void *const *)w.arrays, NULL));
}

static void add(uint64_t *random)
{
    add_step(random, 1);
}

/* Appends the rows that the last train step from lanes was of, and returns their ids there. */
static void append_trained(int64_t *ids)
{
    gpur_lane_draw draw;
    const void *from[FIELDS];
    int64_t missing = 0, drawn[BATCH];
    CHECK_OK(gpur_lane_draw_init(&draw, sizeof draw));
    draw.count = BATCH, draw.ids = gpur_dqn_of(w.of_lanes)->step.batch.id, draw.fields = w.arrays,
    draw.discount = w.arrays[DISCOUNT];
    CHECK_OK(gpur_replay_draw_lanes(w.lanes, &draw, NULL));
    CHECK_OK(gpur_device_copy(w.device, drawn, gpur_dqn_of(w.of_lanes)->step.batch.id, sizeof drawn));
    for (int f = 0; f < FIELDS; f++) {
        CHECK_OK(gpur_device_copy(w.device, w.host[f], w.arrays[f], BATCH * sizes[f]));
        from[f] = w.host[f];
    }
    CHECK_OK(gpur_writer_append_fields(w.writer, BATCH, from, NULL, NULL));
    for (int i = 0; i < BATCH; i++)
        ids[i] = w.appended++, missing += drawn[i] < 0;
    CHECK_EQUAL(missing, 0);
}

static void check_weights(int64_t step)
{
    static float of_lanes[4096], of_rows[4096];
    for (int32_t i = 0; i < gpur_learner_weight_count(w.of_lanes); i++) {
        gpur_weight_info info = {.size = sizeof info};
        CHECK_OK(gpur_learner_get_weight_info(w.of_lanes, i, &info));
        CHECK_OK(gpur_learner_read_weights(w.of_lanes, GPUR_WEIGHTS_ONLINE, info.name, of_lanes, info.count));
        CHECK_OK(gpur_learner_read_weights(w.of_rows, GPUR_WEIGHTS_ONLINE, info.name, of_rows, info.count));
        TEST_REQUIRE(memcmp(of_lanes, of_rows, (size_t)info.count * sizeof *of_lanes) == 0,
                     "step %d: %s differs: %g, %g", (int)step, info.name, (double)of_lanes[0], (double)of_rows[0]);
    }
}

static void check_computes_the_same(void)
{
    int64_t ids[BATCH];
    uint64_t random = 5;
    begin(GPUR_UNIFORM);
    for (int64_t t = 0; t < ADDED; t++)
        add(&random);
    for (int64_t step = 0; step < TRAINED && !atomic_load(&test_state.failures); step++) {
        CHECK_OK(gpur_learner_train(w.of_lanes, 1));
        CHECK_OK(gpur_learner_sync(w.of_lanes));
        append_trained(ids);
        CHECK_OK(gpur_learner_train_ids(w.of_rows, ids));
        check_weights(step);
        add(&random);
    }
    gpur_learner_stats stats = {.size = sizeof stats};
    CHECK_OK(gpur_learner_get_stats(w.of_lanes, &stats));
    CHECK(stats.steps_enqueued == TRAINED && stats.missing_rows == 0);
    gpur_lane_stats lanes = {.size = sizeof lanes};
    CHECK_OK(gpur_replay_get_lane_stats(w.lanes, &lanes, NULL));
    CHECK_EQUAL(lanes.draws, 0); /* the learner's draws have numbers of their own */
    CHECK_EQUAL(lanes.broken_stacks, 0);
    end();
}

TEST(a_learner_of_lanes_computes_what_one_of_the_same_rows_computes)
{
    static const int32_t heads[] = {GPUR_HEAD_QUANTILES, GPUR_HEAD_CATEGORICAL, GPUR_HEAD_Q};
    for (int i = 0; i < 3; i++) {
        head = heads[i];
        check_computes_the_same();
        use_images(1);
        check_computes_the_same();
        use_images(0);
    }
}

static void check_updates_priorities(int32_t distribution)
{
    uint64_t random = 6;
    gpur_priority_stats stats = {.size = sizeof stats};
    int64_t wrong = -1;
    head = distribution;
    begin(GPUR_PRIORITIZED_STRATIFIED);
    head = GPUR_HEAD_Q;
    for (int64_t t = 0; t < ADDED; t++)
        add(&random);
    for (int64_t step = 0; step < TRAINED; step++) {
        CHECK_OK(gpur_learner_train(w.of_lanes, 2));
        add(&random);
    }
    CHECK_OK(gpur_learner_sync(w.of_lanes));
    CHECK_OK(gpur_replay_get_priority_stats(w.lanes, &stats));
    CHECK(stats.updates > 0 && stats.updates <= 2 * TRAINED * BATCH && stats.invalid == 0);
    CHECK_OK(gpur_replay_check_priorities(w.lanes, &wrong));
    CHECK_EQUAL(wrong, 0);
    end();
}

/* The errors of a train step become the priorities of its rows. */
TEST(a_learner_of_lanes_by_priority_updates_them)
{
    check_updates_priorities(GPUR_HEAD_Q);
    check_updates_priorities(GPUR_HEAD_QUANTILES);
}

static void check_steps(gpur_learner *learner, int64_t steps, int64_t skipped)
{
    gpur_learner_stats stats = {.size = sizeof stats};
    CHECK_OK(gpur_learner_sync(learner));
    CHECK_OK(gpur_learner_get_stats(learner, &stats));
    CHECK_EQUAL(stats.steps, steps);
    CHECK_EQUAL(stats.skipped, skipped);
}

/* After one step no transition has its next observation, unless its episode ended. */
TEST(a_learner_waits_for_as_many_transitions_as_it_needs)
{
    uint64_t random = 8;
    begin(GPUR_UNIFORM);
    gpur_learner *distinct = NULL;
    open_learner(w.lanes, GPUR_UNIFORM_DISTINCT, &distinct);
    CHECK_FAILS(gpur_learner_train(w.of_lanes, 1), GPUR_TOO_FEW,
                "no transition can be drawn yet, after 0 steps of the lanes");
    add_step(&random, 0);
    CHECK_FAILS(gpur_learner_train(w.of_lanes, 1), GPUR_TOO_FEW, "no transition can be drawn yet, after 1 steps");
    add_step(&random, 0);
    CHECK_OK(gpur_learner_train(w.of_lanes, 3));
    CHECK_FAILS(gpur_learner_train(distinct, 1), GPUR_TOO_FEW, "12 transitions are visible; this sample needs 16");
    add_step(&random, 0);
    CHECK_OK(gpur_learner_train(distinct, 1));
    check_steps(w.of_lanes, 3, 0);
    check_steps(distinct, 1, 0);
    gpur_learner_destroy(distinct);
    end();
}

static void set_drawable(int64_t whole)
{
    CHECK_OK(gpur_learner_sync(w.of_lanes));
    CHECK_OK(gpur_device_copy(w.device, &w.lanes->lanes.lanes.state->whole, &whole, sizeof whole));
}

/* Of lanes the device alone knows. So the optimizer must not go on by its moments alone. */
TEST(steps_that_find_nothing_to_draw_change_nothing_and_are_counted)
{
    static const int32_t sources[] = {GPUR_UNIFORM, GPUR_UNIFORM_DISTINCT, GPUR_PRIORITIZED_STRATIFIED};
    for (int i = 0; i < 3; i++) {
        static float before[FEATURES * 24], after[FEATURES * 24];
        gpur_lane_stats lanes = {.size = sizeof lanes};
        uint64_t random = 9;
        begin(sources[i]);
        for (int t = 0; t < 4; t++)
            add(&random);
        CHECK_OK(gpur_replay_get_lane_stats(w.lanes, &lanes, NULL));
        CHECK_OK(gpur_learner_train(w.of_lanes, 2));
        CHECK_OK(gpur_learner_read_weights(w.of_lanes, GPUR_WEIGHTS_ONLINE, "trunk.0.weight", before, FEATURES * 24));
        set_drawable(0);
        CHECK_OK(gpur_learner_train(w.of_lanes, 5));
        CHECK_OK(gpur_learner_read_weights(w.of_lanes, GPUR_WEIGHTS_ONLINE, "trunk.0.weight", after, FEATURES * 24));
        CHECK(memcmp(before, after, sizeof before) == 0);
        set_drawable(lanes.transitions);
        CHECK_OK(gpur_learner_train(w.of_lanes, 1));
        CHECK_OK(gpur_learner_read_weights(w.of_lanes, GPUR_WEIGHTS_ONLINE, "trunk.0.weight", after, FEATURES * 24));
        CHECK(memcmp(before, after, sizeof before) != 0);
        check_steps(w.of_lanes, 3, 5);
        end();
    }
}

TEST(what_needs_rows_is_refused)
{
    int64_t ids[BATCH] = {0};
    gpur_learner *learner = NULL;
    gpur_dqn_config config;
    begin(GPUR_UNIFORM);
    CHECK_FAILS(gpur_learner_train_ids(w.of_lanes, ids), GPUR_INVALID_ARGUMENT, "GPUR_LAYOUT_LANES");
    CHECK_OK(gpur_dqn_config_init(&config, sizeof config));
    config.network.num_actions = ACTIONS, config.batch_size = BATCH, config.step_kernel = GPUR_STEP_FUSED;
    config.network.trunk[0] = config.network.trunk[1] =
        (gpur_layer){.kind = GPUR_DENSE, .units = 24, .activation = GPUR_RELU};
    config.network.trunk_count = 2;
    CHECK_FAILS(gpur_dqn_create(w.lanes, &config, &learner), GPUR_INVALID_ARGUMENT, "GPUR_LAYOUT_LANES");
    end();
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(a_learner_of_lanes_computes_what_one_of_the_same_rows_computes);
    RUN(a_learner_of_lanes_by_priority_updates_them);
    RUN(a_learner_waits_for_as_many_transitions_as_it_needs);
    RUN(steps_that_find_nothing_to_draw_change_nothing_and_are_counted);
    RUN(what_needs_rows_is_refused);
    return test_main_end();
}
