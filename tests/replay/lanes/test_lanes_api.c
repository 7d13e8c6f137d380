/* SPDX-License-Identifier: MIT */
/* A replay of lanes by its public functions: a loop of adds and draws, draws by priority and updates, statistics, and
 * what is refused. That each row is right is shown by test_lanes. */
#include "gpureplay/lanes.h"
#include "support/replay_fixture.h"
#include "test.h"

enum { LANES = 6, STEPS = 20, BATCH = 64, FIELDS = 7 };

static const gpur_field fields[FIELDS] = {
    {"obs", GPUR_FLOAT32, {3}},    {"next_obs", GPUR_FLOAT32, {3}}, {"action", GPUR_INT32, {0}},
    {"reward", GPUR_FLOAT32, {0}}, {"terminated", GPUR_BOOL, {0}},  {"truncated", GPUR_BOOL, {0}},
    {"tag", GPUR_INT64, {0}},
};
enum { OBS, NEXT_OBS, ACTION, REWARD, TERMINATED, TRUNCATED, TAG };

static struct {
    gpur_device *device;
    gpur_replay *replay;
    int64_t sizes[FIELDS];
    void *arrays[FIELDS];
    int64_t *id;
    float *weight, *priorities;
} w;

static gpur_replay_config config_of(void)
{
    gpur_replay_config config = {0};
    gpur_replay_config_init(&config, sizeof config);
    config.fields = fields, config.field_count = FIELDS;
    config.layout = GPUR_LAYOUT_LANES;
    config.lanes = LANES, config.lane_steps = STEPS;
    config.max_batch = BATCH;
    return config;
}

static void open_replay(const gpur_replay_config *config)
{
    w.device = test_device();
    CHECK_OK(gpur_replay_create(w.device, config, &w.replay));
    for (int32_t f = 0; f < FIELDS; f++) {
        gpur_field_info info = {.size = sizeof info};
        CHECK_OK(gpur_replay_get_field(w.replay, f, &info));
        w.sizes[f] = info.bytes;
        CHECK_OK(gpur_device_alloc(w.device, BATCH * info.bytes, &w.arrays[f]));
    }
    CHECK_OK(gpur_device_alloc(w.device, BATCH * 8, (void **)&w.id));
    CHECK_OK(gpur_device_alloc(w.device, BATCH * 4, (void **)&w.weight));
    CHECK_OK(gpur_device_alloc(w.device, BATCH * 4, (void **)&w.priorities));
}

static void close_replay(void)
{
    for (int32_t f = 0; f < FIELDS; f++)
        gpur_device_free(w.device, w.arrays[f]);
    gpur_device_free(w.device, w.id);
    gpur_device_free(w.device, w.weight);
    gpur_device_free(w.device, w.priorities);
    gpur_replay_destroy(w.replay);
    gpur_device_close(w.device);
}

#define CHECK_REFUSED(call, text)                                                                                      \
    do {                                                                                                               \
        CHECK_STATUS(call, GPUR_INVALID_ARGUMENT);                                                                     \
        TEST_REQUIRE(strstr(gpur_last_error(), text), "\"%s\" does not say \"%s\"", gpur_last_error(), text);          \
    } while (0)

/* Step t of all lanes, of which none ends but lane 0 at every fourth step. */
static void add(int64_t t)
{
    float obs[LANES][3], reward[LANES];
    int32_t action[LANES];
    uint8_t terminated[LANES] = {0}, truncated[LANES] = {0};
    int64_t tag[LANES];
    const void *const from[FIELDS] = {obs, obs, action, reward, terminated, truncated, tag};
    for (int lane = 0; lane < LANES; lane++) {
        tag[lane] = t * LANES + lane;
        for (int i = 0; i < 3; i++)
            obs[lane][i] = (float)tag[lane];
        action[lane] = lane, reward[lane] = 1.0f;
    }
    terminated[0] = t % 4 == 3;
    for (int32_t f = 0; f < FIELDS; f++)
        CHECK_OK(gpur_device_copy(w.device, w.arrays[f], from[f], LANES * w.sizes[f]));
    CHECK_OK(gpur_replay_add_lanes(w.replay, (const void *const *)w.arrays, NULL));
}

static gpur_lane_draw draw_of(int64_t count)
{
    gpur_lane_draw draw = {0};
    gpur_lane_draw_init(&draw, sizeof draw);
    draw.count = count, draw.fields = w.arrays, draw.id = w.id, draw.weight = w.weight;
    return draw;
}

/* Zeros if it fails. */
static gpur_lane_stats stats_of(void)
{
    gpur_lane_stats stats = {.size = sizeof stats};
    if (gpur_replay_get_lane_stats(w.replay, &stats, NULL) != GPUR_OK)
        memset(&stats, 0, sizeof stats);
    return stats;
}

TEST(a_loop_adds_and_draws)
{
    const gpur_replay_config config = config_of();
    int64_t id[BATCH], tag[BATCH];
    open_replay(&config);
    gpur_lane_draw draw = draw_of(BATCH);
    CHECK(gpur_replay_size(w.replay) == 0 && !gpur_replay_can_sample(w.replay));
    for (int64_t t = 0; t < 3 * STEPS; t++) {
        add(t);
        CHECK_OK(gpur_replay_draw_lanes(w.replay, &draw, NULL));
        CHECK_OK(gpur_device_copy(w.device, id, w.id, sizeof id));
        CHECK_OK(gpur_device_copy(w.device, tag, w.arrays[TAG], sizeof tag));
        for (int64_t b = 0; b < BATCH; b++)
            CHECK(t == 0 ? id[b] == -1 && tag[b] == 0 : id[b] >= 0 && id[b] == tag[b] && id[b] < (t + 1) * LANES);
    }
    const gpur_lane_stats stats = stats_of();
    CHECK(stats.steps == 3 * STEPS && stats.draws == 3 * STEPS && stats.finals == 3 * STEPS / 4);
    CHECK_EQUAL(stats.transitions, (STEPS - 1) * LANES + 1); /* the newest step of lane 0 has ended */
    CHECK_EQUAL(gpur_replay_size(w.replay), stats.transitions);
    CHECK(stats.without_final == 0 && stats.lost_finals == 0 && gpur_replay_can_sample(w.replay));
    draw.n_step = 3, draw.gamma = 0.5f;
    CHECK_OK(gpur_replay_draw_lanes(w.replay, &draw, NULL));
    float reward[BATCH];
    CHECK_OK(gpur_device_copy(w.device, reward, w.arrays[REWARD], sizeof reward));
    for (int64_t b = 0; b < BATCH; b++)
        CHECK(reward[b] == 1.0f || reward[b] == 1.5f || reward[b] == 1.75f);
    close_replay();
}

TEST(a_loop_draws_by_priority_and_updates)
{
    gpur_replay_config config = config_of();
    float priorities[BATCH], weight[BATCH];
    int64_t id[BATCH];
    gpur_priority_stats stats = {.size = sizeof stats};
    config.prioritized = 1, config.alpha = 1.0f, config.priority_offset = 0.0f;
    open_replay(&config);
    const gpur_lane_draw draw = draw_of(BATCH);
    for (int64_t t = 0; t < 2 * STEPS; t++) {
        add(t);
        CHECK_OK(gpur_replay_draw_lanes(w.replay, &draw, NULL));
        CHECK_OK(gpur_device_copy(w.device, id, w.id, sizeof id));
        for (int64_t b = 0; b < BATCH; b++)
            priorities[b] = id[b] % LANES == 1 ? -100.0f : 1e-3f; /* the absolute value counts */
        CHECK_OK(gpur_device_copy(w.device, w.priorities, priorities, sizeof priorities));
        CHECK_OK(gpur_replay_update_lanes(w.replay, BATCH, w.id, w.priorities, NULL));
    }
    CHECK_OK(gpur_replay_draw_lanes(w.replay, &draw, NULL));
    CHECK_OK(gpur_device_copy(w.device, id, w.id, sizeof id));
    CHECK_OK(gpur_device_copy(w.device, weight, w.weight, sizeof weight));
    int64_t of_lane_1 = 0;
    for (int64_t b = 0; b < BATCH; b++) {
        of_lane_1 += id[b] % LANES == 1;
        CHECK(weight[b] > 0.0f && weight[b] <= 1.0f);
    }
    CHECK(of_lane_1 > BATCH / 4);
    CHECK_OK(gpur_replay_get_priority_stats(w.replay, &stats));
    CHECK(stats.max_priority == 100.0f && stats.invalid == 0 && stats.stale > 0); /* the first draws found no row */
    close_replay();
}

TEST(what_lanes_cannot_do_is_refused)
{
    gpur_replay_config config = config_of();
    gpur_batch *batch = NULL;
    gpur_writer *writer = NULL;
    gpur_block_format *format = NULL;
    gpur_replay_stats stats = {.size = sizeof stats};
    const void *given[FIELDS];
    open_replay(&config);
    CHECK_REFUSED(gpur_writer_create(w.replay, LANES, &writer), "GPUR_LAYOUT_LANES");
    CHECK_REFUSED(gpur_replay_sample(w.replay, 1, NULL, &batch), "gpur_replay_draw_lanes");
    CHECK_REFUSED(gpur_block_format_create(&config, &format), "GPUR_LAYOUT_LANES (2), whose experience");
    CHECK_REFUSED(gpur_replay_trim(w.replay, 1), "GPUR_LAYOUT_LANES");
    CHECK_REFUSED(gpur_replay_get_stats(w.replay, &stats), "gpur_replay_get_lane_stats");
    CHECK_REFUSED(gpur_replay_add_lanes(w.replay, NULL, NULL), "fields is NULL");
    for (int32_t f = 0; f < FIELDS; f++)
        given[f] = f == REWARD ? NULL : w.arrays[f];
    CHECK_REFUSED(gpur_replay_add_lanes(w.replay, given, NULL), "\"reward\" is NULL; it must be an array of 6 values");
    gpur_lane_draw draw = draw_of(BATCH + 1);
    CHECK_REFUSED(gpur_replay_draw_lanes(w.replay, &draw, NULL), "count is 65; it must be 1 to 64");
    draw = draw_of(1), draw.n_step = 65;
    CHECK_REFUSED(gpur_replay_draw_lanes(w.replay, &draw, NULL), "n_step is 65; it must be 0 to 64");
    draw = draw_of(LANES + 1), draw.of_each_lane = 1;
    CHECK_REFUSED(gpur_replay_draw_lanes(w.replay, &draw, NULL), "count is 7; it must be a multiple of lanes = 6");
    draw = draw_of(1), draw.gamma = 1.5f;
    CHECK_REFUSED(gpur_replay_draw_lanes(w.replay, &draw, NULL), "gamma is 1.5");
    CHECK_REFUSED(gpur_replay_update_lanes(w.replay, 1, w.id, w.priorities, NULL), "prioritized is 0");
    CHECK_EQUAL(stats_of().steps, 0);
    close_replay();
}

TEST(final_observations_of_some_pairs_alone_are_refused)
{
    static const gpur_field two[] = {
        {"obs", GPUR_FLOAT32, {3}},    {"next_obs", GPUR_FLOAT32, {3}}, {"a", GPUR_FLOAT32, {3}},
        {"next_a", GPUR_FLOAT32, {3}}, {"reward", GPUR_FLOAT32, {0}},   {"terminated", GPUR_BOOL, {0}},
        {"truncated", GPUR_BOOL, {0}},
    };
    gpur_replay_config config = config_of();
    const void *given[FIELDS];
    config.fields = two;
    open_replay(&config);
    for (int32_t f = 0; f < FIELDS; f++)
        given[f] = f == 3 ? NULL : w.arrays[f];
    CHECK_REFUSED(gpur_replay_add_lanes(w.replay, given, NULL), "\"next_a\" is NULL and \"next_obs\" is given");
    CHECK_EQUAL(stats_of().steps, 0);
    given[1] = NULL;
    CHECK_OK(gpur_replay_add_lanes(w.replay, given, NULL));
    close_replay();
}

TEST(settings_that_do_not_go_together_are_refused)
{
    gpur_device *const device = test_device();
    gpur_replay *replay = NULL;
    gpur_field other[FIELDS];
#define REFUSED(text, ...)                                                                                             \
    do {                                                                                                               \
        gpur_replay_config c = config_of();                                                                            \
        __VA_ARGS__;                                                                                                   \
        CHECK_REFUSED(gpur_replay_create(device, &c, &replay), text);                                                  \
    } while (0)
    REFUSED("lanes is 0; it must be 1 to 65536", c.lanes = 0);
    REFUSED("lane_steps is 1; it must be 2", c.lane_steps = 1);
    REFUSED("lane_autoreset is 3", c.lane_autoreset = 3);
    REFUSED("capacity is 100; it must be lanes x lane_steps = 120", c.capacity = 100);
    REFUSED("block_rows is 5; it must be 0", c.block_rows = 5);
    REFUSED("lanes is 6", c.layout = GPUR_LAYOUT_ROWS);
    REFUSED("layout is 3", c.layout = 3);
    REFUSED("layout is -1", c.layout = -1);
    memcpy(other, fields, sizeof other);
    other[REWARD].dtype = GPUR_INT32;
    REFUSED("field \"reward\" is int32", c.fields = other);
    memcpy(other, fields, sizeof other);
    other[TRUNCATED].name = "cut";
    REFUSED("no field \"truncated\"", c.fields = other);
    other[TRUNCATED] = fields[TRUNCATED], other[TAG] = (gpur_field){"discount", GPUR_FLOAT32, {0}};
    REFUSED("\"discount\", which rows of lanes do not have", c.fields = other);
    gpur_device_close(device);
}

/* A row takes hardly more than one observation and an action: at most 1.05 times these and 16 bytes. */
TEST(a_row_takes_little_more_than_an_observation_and_an_action)
{
    static const gpur_field sizes[][6] = {
        {{"obs", GPUR_FLOAT32, {97}}, {"next_obs", GPUR_FLOAT32, {97}}, {"action", GPUR_FLOAT32, {29}}},
        {{"obs", GPUR_UINT8, {64, 58}}, {"next_obs", GPUR_UINT8, {64, 58}}, {"action", GPUR_INT32, {0}}},
    };
    static const int64_t wanted[] = {97 * 4 + 29 * 4 + 16, 64 * 58 + 4 + 16};
    gpur_device *const device = test_device();
    for (int i = 0; i < 2; i++) {
        gpur_field all[6];
        gpur_replay_config config = config_of();
        gpur_replay_plan plan = {.size = sizeof plan};
        gpur_replay *replay = NULL;
        memcpy(all, sizes[i], sizeof all);
        memcpy(all + 3, fields + REWARD, 3 * sizeof *all);
        config.fields = all, config.field_count = 6;
        config.lanes = 256, config.lane_steps = 128, config.max_batch = 256;
        CHECK_OK(gpur_replay_plan_bytes(&config, &plan));
        const int64_t before = test_memory_used(device), rows = config.lanes * config.lane_steps;
        CHECK_OK(gpur_replay_create(device, &config, &replay));
        const int64_t held = test_memory_used(device) - before;
        CHECK((double)plan.device_bytes <= 1.05 * (double)(rows * wanted[i]));
        CHECK((double)held <= 1.05 * (double)(rows * wanted[i]));
        gpur_replay_destroy(replay);
    }
    gpur_device_close(device);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(a_loop_adds_and_draws);
    RUN(a_loop_draws_by_priority_and_updates);
    RUN(what_lanes_cannot_do_is_refused);
    RUN(final_observations_of_some_pairs_alone_are_refused);
    RUN(settings_that_do_not_go_together_are_refused);
    RUN(a_row_takes_little_more_than_an_observation_and_an_action);
    return test_main_end();
}
