/* SPDX-License-Identifier: MIT */
/* A replay of lanes by its public functions: a loop of adds and draws, draws by priority and updates, statistics, and
 * what is refused. That each row is right is shown by test_lanes. */
#include "gpureplay/lanes.h"
#include "support/replay_fixture.h"
#include "test.h"

#include <math.h>
#include <pthread.h>

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
    config.lanes = LANES, config.capacity = LANES * STEPS;
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
        if (w.arrays[f])
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

/* Of the first `count` ids those of `missing`, bit by bit, cannot be drawn. */
static void check_missing(int64_t count, uint64_t missing)
{
    int64_t ids[BATCH];
    gpur_lane_draw draw = draw_of(count);
    for (int64_t i = 0; i < count; i++)
        ids[i] = i;
    draw.ids = w.id, draw.fields = NULL, draw.weight = NULL;
    CHECK_OK(gpur_device_copy(w.device, w.id, ids, count * 8));
    CHECK_OK(gpur_replay_draw_lanes(w.replay, &draw, NULL));
    CHECK_OK(gpur_device_copy(w.device, ids, w.id, count * 8));
    for (int64_t i = 0; i < count; i++)
        CHECK_EQUAL(ids[i], (missing >> i & 1) != 0 ? -1 : i);
}

/* Lanes 0, 2 and 4 are reset after step 3, with which the episode of lane 0 has ended. Later all are, and twice. */
TEST(steps_before_a_reset_by_the_caller_are_left_out)
{
    static const uint8_t which[LANES] = {1, 0, 200, 0, 1, 0};
    for (int32_t mode = GPUR_AUTORESET_DISABLED; mode <= GPUR_AUTORESET_SAME_STEP; mode++) {
        const int is_later = mode == GPUR_AUTORESET_NEXT_STEP;
        gpur_replay_config config = config_of();
        config.lane_autoreset = mode;
        open_replay(&config);
        void *const finals = w.arrays[NEXT_OBS];
        w.arrays[NEXT_OBS] = is_later ? NULL : finals;
        CHECK_OK(gpur_replay_reset_lanes(w.replay, NULL, NULL)); /* before the first step */
        CHECK_EQUAL(stats_of().without_final, 0);
        for (int64_t t = 0; t < 4; t++)
            add(t);
        CHECK_OK(gpur_device_copy(w.device, w.weight, which, sizeof which));
        for (int i = 0; i < 2; i++)
            CHECK_OK(gpur_replay_reset_lanes(w.replay, (const uint8_t *)w.weight, NULL));
        add(4), add(5);
        check_missing(5 * LANES, (uint64_t)(is_later ? 21 : 20) << 3 * LANES);
        CHECK_EQUAL(stats_of().without_final, is_later ? 3 : 2);
        CHECK_OK(gpur_replay_reset_lanes(w.replay, NULL, NULL));
        CHECK_EQUAL(stats_of().transitions, 5 * LANES - (is_later ? 3 : 2));
        add(6);
        CHECK_EQUAL(stats_of().without_final, (is_later ? 3 : 2) + LANES);
        CHECK_EQUAL(stats_of().transitions, 5 * LANES - (is_later ? 3 : 2));
        w.arrays[NEXT_OBS] = finals;
        close_replay();
    }
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

/* In the order of the schema, and of the members of gpur_lane_draw. Misplaced: at an address that is no multiple of the
 * numbers' size. */
TEST(arrays_of_one_memory_or_misplaced_are_refused)
{
    gpur_replay_config config = config_of();
    const void *given[FIELDS];
    void *places[FIELDS] = {NULL};
    int64_t ids[2] = {0, 1}, found[2];
    config.prioritized = 1;
    open_replay(&config);
    unsigned char *const large = (unsigned char *)w.arrays[OBS];
    for (int32_t f = 0; f < FIELDS; f++)
        given[f] = f == NEXT_OBS ? w.arrays[OBS] : w.arrays[f];
    CHECK_REFUSED(gpur_replay_add_lanes(w.replay, given, NULL), "so that one has overwritten the other");
    given[NEXT_OBS] = w.arrays[NEXT_OBS], given[REWARD] = large + 2;
    CHECK_REFUSED(gpur_replay_add_lanes(w.replay, given, NULL), "\"reward\" is at");
    given[REWARD] = w.arrays[REWARD], given[TRUNCATED] = w.arrays[TERMINATED]; /* they are only read */
    CHECK_OK(gpur_replay_add_lanes(w.replay, given, NULL));
    add(1);
#define DRAW_REFUSED(text, ...)                                                                                        \
    do {                                                                                                               \
        gpur_lane_draw draw = draw_of(2);                                                                              \
        memcpy(places, w.arrays, sizeof places);                                                                       \
        draw.fields = places;                                                                                          \
        __VA_ARGS__;                                                                                                   \
        CHECK_REFUSED(gpur_replay_draw_lanes(w.replay, &draw, NULL), text);                                            \
    } while (0)
    DRAW_REFUSED("and \"next_obs\", ", places[NEXT_OBS] = places[OBS]);
    DRAW_REFUSED("have memory in common", places[NEXT_OBS] = large + 23);
    DRAW_REFUSED("have memory in common", places[NEXT_OBS] = large + 24, draw.weight = (float *)(void *)(large + 44));
    DRAW_REFUSED("\"id\", ", draw.discount = (float *)(void *)(w.id + 1));
    DRAW_REFUSED("and \"ids\", ", draw.ids = (const int64_t *)w.arrays[TAG]);
    DRAW_REFUSED("and \"ids\", ", draw.ids = w.id, draw.id = w.id + 1);
    DRAW_REFUSED("\"id\" is at", draw.id = (int64_t *)(void *)(large + 4), places[OBS] = NULL);
    DRAW_REFUSED("numbers of 8 bytes must be a multiple of 8", draw.ids = (const int64_t *)(const void *)(large + 4));
    DRAW_REFUSED("\"reward\" is at", places[REWARD] = large + 1, places[OBS] = NULL);
    DRAW_REFUSED("\"weight\" is at", draw.weight = (float *)(void *)(large + 1), places[OBS] = NULL);
    DRAW_REFUSED("mask is given and length is 0", draw.mask = w.arrays[OBS]);
    DRAW_REFUSED("have memory in common", draw.length = 2, draw.mask = draw.is_first = large + 24);
    CHECK_REFUSED(gpur_replay_update_lanes(w.replay, 1, w.id, (float *)(void *)(large + 1), NULL),
                  "\"priorities\" is at");
    CHECK_REFUSED(gpur_replay_update_lanes(w.replay, 0, w.id, w.priorities, NULL), "count is 0; it must be 1 to 64");
    CHECK_REFUSED(gpur_replay_update_lanes(w.replay, 1, w.id, NULL, NULL), "priorities is NULL");
    CHECK(stats_of().draws == 0 && stats_of().steps == 2);
    /* The ids of a batch may be those of the batch before, and arrays may touch. */
    gpur_lane_draw draw = draw_of(2);
    memcpy(places, w.arrays, sizeof places);
    CHECK_OK(gpur_device_copy(w.device, w.id, ids, sizeof ids));
    draw.fields = places, places[NEXT_OBS] = large + 24, draw.ids = w.id;
    CHECK_OK(gpur_replay_draw_lanes(w.replay, &draw, NULL));
    CHECK_OK(gpur_device_copy(w.device, found, w.id, sizeof found));
    CHECK(found[0] == 0 && found[1] == 1);
    close_replay();
}

/* A replay has one source of experience: host writers, or lanes. Ids that were never given out belong to no row. */
TEST(doors_of_other_layouts_and_ids_of_no_row_are_refused)
{
    static const int64_t never[] = {INT64_MIN, -1, LANES, 1000000, INT64_MAX - 1, INT64_MAX};
    enum { NEVER = sizeof never / sizeof *never };
    gpur_replay_config config = config_of();
    gpur_replay *rows = NULL;
    gpur_priority_stats stats = {.size = sizeof stats};
    float priorities[NEVER] = {1.0f, 2.0f, NAN, INFINITY, 5.0f, 6.0f};
    int64_t found[NEVER];
    config.prioritized = 1;
    open_replay(&config);
    add(0), add(1);
    CHECK_OK(gpur_device_copy(w.device, w.id, never, sizeof never));
    CHECK_OK(gpur_device_copy(w.device, w.priorities, priorities, sizeof priorities));
    CHECK_OK(gpur_replay_update_lanes(w.replay, NEVER, w.id, w.priorities, NULL));
    CHECK_OK(gpur_replay_get_priority_stats(w.replay, &stats));
    CHECK_EQUAL(stats.stale + stats.invalid, NEVER);
    for (int32_t length = 0; length < 2; length++) {
        gpur_lane_draw draw = draw_of(NEVER);
        draw.ids = w.id, draw.length = length;
        CHECK_OK(gpur_replay_draw_lanes(w.replay, &draw, NULL));
        CHECK_OK(gpur_device_copy(w.device, found, w.id, sizeof found));
        for (int i = 0; i < NEVER; i++)
            CHECK_EQUAL(found[i], -1);
        CHECK_OK(gpur_device_copy(w.device, w.id, never, sizeof never));
    }
    config = config_of(), config.layout = GPUR_LAYOUT_ROWS, config.lanes = 0;
    config.capacity = 100;
    CHECK_OK(gpur_replay_create(w.device, &config, &rows));
    const gpur_lane_draw draw = draw_of(1);
    gpur_lane_stats lane_stats = {.size = sizeof lane_stats};
    CHECK_REFUSED(gpur_replay_add_lanes(rows, (const void *const *)w.arrays, NULL), "layout is 0; it must be GPUR_");
    CHECK_REFUSED(gpur_replay_reset_lanes(rows, NULL, NULL), "layout is 0; it must be GPUR_LAYOUT_LANES (2)");
    CHECK_REFUSED(gpur_replay_reset_lanes(NULL, NULL, NULL), "replay is NULL");
    CHECK_REFUSED(gpur_replay_draw_lanes(rows, &draw, NULL), "layout is 0; it must be GPUR_LAYOUT_LANES (2)");
    CHECK_REFUSED(gpur_replay_update_lanes(rows, 1, w.id, w.priorities, NULL), "layout is 0");
    CHECK_REFUSED(gpur_replay_get_lane_stats(rows, &lane_stats, NULL), "layout is 0");
    gpur_replay_destroy(rows);
    close_replay();
}

enum { THREADED_STEPS = 200 };

static void draw_and_update(int64_t *wrong)
{
    void *places[FIELDS] = {NULL};
    gpur_lane_draw draw = {0};
    float *priorities = NULL;
    int64_t id[BATCH], tag[BATCH];
    gpur_lane_draw_init(&draw, sizeof draw);
    draw.count = BATCH, draw.fields = places;
    CHECK_OK(gpur_device_alloc(w.device, BATCH * 8, &places[TAG]));
    CHECK_OK(gpur_device_alloc(w.device, BATCH * 8, (void **)&draw.id));
    CHECK_OK(gpur_device_alloc(w.device, BATCH * 4, (void **)&priorities));
    for (int i = 0; i < THREADED_STEPS; i++) {
        CHECK_OK(gpur_replay_draw_lanes(w.replay, &draw, NULL));
        CHECK_OK(gpur_replay_update_lanes(w.replay, BATCH, draw.id, priorities, NULL));
        CHECK_OK(gpur_device_copy(w.device, id, draw.id, sizeof id));
        CHECK_OK(gpur_device_copy(w.device, tag, places[TAG], sizeof tag));
        for (int b = 0; b < BATCH; b++)
            *wrong += id[b] < 0 ? tag[b] != 0 : tag[b] != id[b];
        *wrong += stats_of().steps < 0;
    }
    gpur_device_free(w.device, places[TAG]);
    gpur_device_free(w.device, draw.id);
    gpur_device_free(w.device, priorities);
}

/* One of the threads that draw and update priorities while the main one adds. Counts the wrong rows. */
static void *run_draws(void *wrong)
{
    draw_and_update((int64_t *)wrong);
    return NULL;
}

/* On the replay's own stream, where calls of several threads come one after the other. */
TEST(any_thread_may_call)
{
    gpur_replay_config config = config_of();
    pthread_t threads[2];
    int64_t wrong[2] = {0, 0};
    config.prioritized = 1;
    open_replay(&config);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, run_draws, &wrong[i]) == 0);
    for (int64_t t = 0; t < THREADED_STEPS; t++)
        add(t);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(wrong[0] == 0 && wrong[1] == 0);
    CHECK(stats_of().steps == THREADED_STEPS && stats_of().draws == 2 * THREADED_STEPS);
    close_replay();
}

/* Numbers on the device are not searched: NaN is stored, also where rewards are clipped, and stays in its rows. Final
 * observations of lanes that go on are not read. */
TEST(nan_stays_where_it_was_given)
{
    gpur_replay_config config = config_of();
    const float nan_obs[LANES][3] = {{NAN}, {0}}, nan_reward[LANES] = {NAN, INFINITY, -INFINITY};
    float reward[2 * LANES];
    int64_t ids[2 * LANES];
    config.reward_clip = 1.0f;
    open_replay(&config);
    add(0);
    CHECK_OK(gpur_device_copy(w.device, w.arrays[REWARD], nan_reward, sizeof nan_reward));
    CHECK_OK(gpur_device_copy(w.device, w.arrays[NEXT_OBS], nan_obs, sizeof nan_obs));
    CHECK_OK(gpur_replay_add_lanes(w.replay, (const void *const *)w.arrays, NULL));
    add(2);
    for (int i = 0; i < 2 * LANES; i++)
        ids[i] = i;
    gpur_lane_draw draw = draw_of(2 * LANES);
    draw.ids = w.id;
    CHECK_OK(gpur_device_copy(w.device, w.id, ids, sizeof ids));
    CHECK_OK(gpur_replay_draw_lanes(w.replay, &draw, NULL));
    CHECK_OK(gpur_device_copy(w.device, reward, w.arrays[REWARD], sizeof reward));
    for (int i = 0; i < 2 * LANES; i++)
        CHECK(i == LANES ? isnan(reward[i]) : reward[i] == (i == LANES + 2 ? -1.0f : i > LANES + 2 ? 0.0f : 1.0f));
    float next[2 * LANES][3];
    CHECK_OK(gpur_device_copy(w.device, next, w.arrays[NEXT_OBS], sizeof next));
    for (int i = 0; i < 2 * LANES; i++)
        CHECK(next[i][0] == (float)(i < LANES ? i : LANES + i)); /* step 1 began with step 0's observations */
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
    REFUSED("capacity is 6; it must be a multiple of lanes, 6, by 2 or more", c.capacity = LANES);
    REFUSED("lane_autoreset is 3", c.lane_autoreset = 3);
    REFUSED("capacity is 100; it must be a multiple of lanes, 6, by 2 or more", c.capacity = 100);
    REFUSED("block_rows is 5; it must be 0", c.block_rows = 5);
    REFUSED("lanes is 6", c.layout = GPUR_LAYOUT_ROWS);
    REFUSED("layout is 3", c.layout = 3);
    REFUSED("frame_stack is 17; it must be 1 to 16", c.frame_stack = 17);
    REFUSED("frame_stack is 4 and the first axis of \"obs\" is 3 long", c.frame_stack = 4);
    REFUSED("frame_stack is 4 and the last axis of \"obs\" is 3 long", c.frame_stack = 4, c.stack_axis = 1);
    REFUSED("stack_axis is GPUR_STACK_LAST (1) and frame_stack 1", c.stack_axis = GPUR_STACK_LAST);
    REFUSED("stack_pad is 1; it must be 0", c.frame_stack = 3, c.stack_pad = GPUR_PAD_REPEAT);
    REFUSED("extra_frames is 9; it must be 0", c.frame_stack = 3, c.extra_frames = 9);
    memcpy(other, fields, sizeof other);
    other[OBS].name = "image", other[NEXT_OBS].name = "next_image";
    REFUSED("frame_stack is 3, and the schema has no pair of fields \"obs\" and \"next_obs\"", c.frame_stack = 3,
            c.fields = other);
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

/* A row takes hardly more than one observation and an action, or one frame of a stack: at most 1.05 times these and 16
 * bytes. */
TEST(a_row_takes_little_more_than_an_observation_and_an_action)
{
    static const gpur_field sizes[][6] = {
        {{"obs", GPUR_FLOAT32, {97}}, {"next_obs", GPUR_FLOAT32, {97}}, {"action", GPUR_FLOAT32, {29}}},
        {{"obs", GPUR_UINT8, {64, 58}}, {"next_obs", GPUR_UINT8, {64, 58}}, {"action", GPUR_INT32, {0}}},
        {{"obs", GPUR_UINT8, {4, 42, 42}}, {"next_obs", GPUR_UINT8, {4, 42, 42}}, {"action", GPUR_INT32, {0}}},
    };
    static const int64_t wanted[] = {97 * 4 + 29 * 4 + 16, 64 * 58 + 4 + 16, 42 * 42 + 4 + 16};
    gpur_device *const device = test_device();
    for (int i = 0; i < 3; i++) {
        gpur_field all[6];
        gpur_replay_config config = config_of();
        gpur_replay_plan plan = {.size = sizeof plan};
        gpur_replay *replay = NULL;
        memcpy(all, sizes[i], sizeof all);
        memcpy(all + 3, fields + REWARD, 3 * sizeof *all);
        config.fields = all, config.field_count = 6;
        config.lanes = 256, config.capacity = 256 * 128, config.max_batch = 256;
        if (i == 2) /* stacks, whose older frames take K - 1 steps more */
            config.frame_stack = 4, config.lanes = 16, config.capacity = 16 * 2000;
        CHECK_OK(gpur_replay_plan_bytes(&config, &plan));
        const int64_t before = test_memory_used(device), rows = config.capacity;
        CHECK_OK(gpur_replay_create(device, &config, &replay));
        const int64_t held = test_memory_used(device) - before;
        CHECK((double)plan.device_bytes <= 1.05 * (double)(rows * wanted[i]));
        CHECK((double)held <= 1.05 * (double)(rows * wanted[i]));
        gpur_replay_destroy(replay);
    }
    gpur_device_close(device);
}

/* What docs/simulators.md says of 64 lanes of 1,000 steps, stacks of four frames of 84 x 84 bytes. */
TEST(the_bytes_of_a_transition_are_those_of_the_page)
{
    static const gpur_field stacks[] = {
        {"obs", GPUR_UINT8, {4, 84, 84}}, {"next_obs", GPUR_UINT8, {4, 84, 84}}, {"action", GPUR_INT32, {0}},
        {"reward", GPUR_FLOAT32, {0}},    {"terminated", GPUR_BOOL, {0}},        {"truncated", GPUR_BOOL, {0}},
    };
    for (int32_t stack = 1; stack <= 4; stack += 3) {
        gpur_replay_config config = config_of();
        gpur_replay_plan plan = {.size = sizeof plan};
        config.fields = stacks, config.field_count = 6;
        config.lanes = 64, config.capacity = 64 * 1000, config.frame_stack = stack, config.max_batch = 65536;
        config.lane_autoreset = GPUR_AUTORESET_DISABLED;
        CHECK_OK(gpur_replay_plan_bytes(&config, &plan));
        CHECK_EQUAL((plan.device_bytes + 32000) / 64000, stack == 1 ? 29431 : 7396);
    }
}

/* Of 4,096 lanes all but two lose their steps, which are truncated and come without their final observations. */
TEST(transitions_among_many_that_cannot_be_drawn_are_found)
{
    enum { MANY = 4096, ONE = 77, OTHER = 4000, ADDED = 30, KEPT = 20 };
    static float zeros[MANY * 3];
    static uint8_t truncated[MANY];
    static int64_t id[MANY];
    gpur_replay_config config = config_of();
    void *arrays[FIELDS];
    int64_t *ids = NULL;
    gpur_lane_draw draw = draw_of(MANY);
    w.device = test_device();
    config.lanes = config.max_batch = MANY, config.capacity = MANY * KEPT;
    CHECK_OK(gpur_replay_create(w.device, &config, &w.replay));
    CHECK_OK(gpur_device_alloc(w.device, sizeof id, (void **)&ids));
    memset(truncated, 1, sizeof truncated);
    truncated[ONE] = truncated[OTHER] = 0;
    for (int32_t f = 0; f < FIELDS; f++) {
        CHECK_OK(gpur_device_alloc(w.device, sizeof zeros, &arrays[f]));
        CHECK_OK(gpur_device_copy(w.device, arrays[f], zeros, sizeof zeros));
    }
    CHECK_OK(gpur_device_copy(w.device, arrays[TRUNCATED], truncated, sizeof truncated));
    gpur_device_free(w.device, arrays[NEXT_OBS]);
    arrays[NEXT_OBS] = NULL;
    draw.fields = NULL, draw.weight = NULL, draw.id = ids;
    for (int64_t t = 0; t < ADDED; t++) { /* also around the ring's end */
        CHECK_OK(gpur_replay_add_lanes(w.replay, (const void *const *)arrays, NULL));
        const int64_t first = t < KEPT ? 0 : t + 1 - KEPT;
        for (draw.of_each_lane = 0; t % 7 == 1 && draw.of_each_lane < 2; draw.of_each_lane++) {
            int64_t of_one = 0;
            CHECK_OK(gpur_replay_draw_lanes(w.replay, &draw, NULL));
            CHECK_OK(gpur_device_copy(w.device, id, ids, sizeof id));
            for (int64_t b = 0; b < MANY; b++) {
                const int64_t lane = id[b] % MANY, is_there = b == ONE || b == OTHER || !draw.of_each_lane;
                CHECK(is_there ? id[b] >= first * MANY && id[b] < t * MANY && (lane == ONE || lane == OTHER)
                               : id[b] == -1);
                of_one += lane == ONE;
            }
            CHECK(draw.of_each_lane ? of_one == 1 : of_one > MANY / 2 - 200 && of_one < MANY / 2 + 200);
        }
    }
    for (int32_t f = 0; f < FIELDS; f++)
        gpur_device_free(w.device, arrays[f]);
    gpur_device_free(w.device, ids);
    gpur_replay_destroy(w.replay);
    gpur_device_close(w.device);
}

/* Rewards and ends have no ring of observations, nor has next_obs: beside them a field next_x is given and stored as
 * any other one. Without truncated no lane is. */
TEST(fields_named_next_beside_those_without_a_ring_are_stored)
{
    enum { COUNT = 7, OF_EACH = 3 };
    static const gpur_field all[COUNT] = {
        {"obs", GPUR_FLOAT32, {0}},         {"next_obs", GPUR_FLOAT32, {0}},      {"reward", GPUR_FLOAT32, {0}},
        {"next_reward", GPUR_FLOAT32, {0}}, {"next_next_obs", GPUR_FLOAT32, {0}}, {"terminated", GPUR_BOOL, {0}},
        {"truncated", GPUR_BOOL, {0}},
    };
    gpur_replay_config config = config_of();
    void *arrays[COUNT];
    float values[LANES];
    gpur_lane_draw draw = draw_of(LANES);
    w.device = test_device();
    config.fields = all, config.field_count = COUNT;
    CHECK_OK(gpur_replay_create(w.device, &config, &w.replay));
    for (int f = 0; f < COUNT; f++) {
        CHECK_OK(gpur_device_alloc(w.device, sizeof values, &arrays[f]));
        for (int lane = 0; lane < LANES; lane++)
            values[lane] = f < 5 ? (float)(10 * f + lane) : 0.0f;
        CHECK_OK(gpur_device_copy(w.device, arrays[f], values, sizeof values));
    }
    const void *given[COUNT];
    memcpy(given, arrays, sizeof given);
    given[1] = given[COUNT - 1] = NULL;
    for (int t = 0; t < OF_EACH; t++)
        CHECK_OK(gpur_replay_add_lanes(w.replay, given, NULL));
    CHECK_EQUAL(stats_of().transitions, (OF_EACH - 1) * LANES);
    draw.fields = arrays, draw.id = NULL, draw.weight = NULL, draw.of_each_lane = 1;
    CHECK_OK(gpur_replay_draw_lanes(w.replay, &draw, NULL));
    for (int f = 0; f < 5; f++) {
        CHECK_OK(gpur_device_copy(w.device, values, arrays[f], sizeof values));
        for (int lane = 0; lane < LANES; lane++)
            CHECK_EQUAL((int)values[lane], f == 1 ? lane : 10 * f + lane);
    }
    for (int f = 0; f < COUNT; f++)
        gpur_device_free(w.device, arrays[f]);
    gpur_replay_destroy(w.replay);
    gpur_device_close(w.device);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(a_loop_adds_and_draws);
    RUN(a_loop_draws_by_priority_and_updates);
    RUN(steps_before_a_reset_by_the_caller_are_left_out);
    RUN(what_lanes_cannot_do_is_refused);
    RUN(arrays_of_one_memory_or_misplaced_are_refused);
    RUN(doors_of_other_layouts_and_ids_of_no_row_are_refused);
    RUN(any_thread_may_call);
    RUN(nan_stays_where_it_was_given);
    RUN(final_observations_of_some_pairs_alone_are_refused);
    RUN(settings_that_do_not_go_together_are_refused);
    RUN(transitions_among_many_that_cannot_be_drawn_are_found);
    RUN(fields_named_next_beside_those_without_a_ring_are_stored);
    RUN(the_bytes_of_a_transition_are_those_of_the_page);
    RUN(a_row_takes_little_more_than_an_observation_and_an_action);
    return test_main_end();
}
