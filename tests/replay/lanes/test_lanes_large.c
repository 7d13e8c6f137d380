/* SPDX-License-Identifier: MIT */
/* Lanes in large: a million rows of 16 to 65,536 lanes, and thousands of one lane, each read back and compared with
 * what a pass over all steps says, for n from 1 to 10 and each convention of resets; some by priority, and some with a
 * file in between. Then draws and sequences of 65,536 rows, and a draw of as many of 4 kB each. */
#include "gpureplay/checkpoint.h"
#include "gpureplay/lanes.h"
#include "support/file_utils.h"
#include "support/replay_fixture.h"
#include "test.h"

#include <stdlib.h>

enum {
    ROWS = IN_RACE_CHECK ? 1 << 14 : 1 << 20,
    BATCH = IN_RACE_CHECK ? 1 << 12 : 1 << 16,
    EXTRA = 5,
    LENGTH = 16,
    CELLS = 64
};
enum { OBS, NEXT_OBS, REWARD, TERMINATED, TRUNCATED, FIELDS };
static const gpur_field fields[FIELDS] = {
    {"obs", GPUR_INT64, {0}},       {"next_obs", GPUR_INT64, {0}}, {"reward", GPUR_FLOAT32, {0}},
    {"terminated", GPUR_BOOL, {0}}, {"truncated", GPUR_BOOL, {0}},
};
static const int64_t sizes[FIELDS] = {8, 8, 4, 1, 1};

typedef struct setting {
    int64_t lanes;
    int32_t autoreset, n_step;
    int is_prioritized;
    int is_saved; /* 1: the replay is saved after half of the steps, and another one goes on */
} setting;

static struct {
    gpur_device *device;
    gpur_replay *replay;
    setting s;
    int64_t steps, added; /* kept, and in all */
    unsigned char *ends;  /* (added, lanes) 1: terminated, 2: truncated, 4: it reset its environment */
    void *arrays[FIELDS]; /* device: a step, or a batch */
    int64_t *ids, *id;    /* device */
    float *discount;      /* device */
    int32_t *count;       /* device */
    uint8_t *mask;        /* device */
    uint8_t *host_mask;
    unsigned char *host[FIELDS];
    int64_t *host_id;
    float *host_discount;
    int32_t *host_count;
} w;

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 31)) * 0x94D049BB133111EBu;
    return x ^ (x >> 29);
}

static float reward_of(int64_t id)
{
    return (float)(mix((uint64_t)id) % 17) - 8.0f;
}

/* An episode ends after a step with probability 1/64. */
static unsigned char end_of(int64_t id)
{
    const uint64_t x = mix((uint64_t)id * 3 + 1);
    return x % 64 != 0 ? 0 : (unsigned char)(1 + (x >> 8) % 3);
}

static int64_t id_of(int64_t t, int64_t lane)
{
    return t * w.s.lanes + lane;
}

/* What a pass over all steps knows of each: its ends, and which ones reset their environment. */
static void make_ends(void)
{
    for (int64_t t = 0; t < w.added; t++)
        for (int64_t lane = 0; lane < w.s.lanes; lane++) {
            const int is_reset =
                w.s.autoreset == GPUR_AUTORESET_NEXT_STEP && t > 0 && (w.ends[id_of(t - 1, lane)] & 3) != 0;
            w.ends[id_of(t, lane)] = is_reset ? 4 : end_of(id_of(t, lane));
        }
}

static int is_whole(int64_t t, int64_t lane)
{
    if (t < w.added - w.steps || t < 0 || t >= w.added || w.ends[id_of(t, lane)] == 4)
        return 0;
    return t + 1 < w.added || (w.ends[id_of(t, lane)] != 0 && w.s.autoreset != GPUR_AUTORESET_NEXT_STEP);
}

/* Values tell the id; a final observation is minus its own. */
static void add(int64_t t)
{
    int64_t *const obs = (int64_t *)(void *)w.host[OBS], *const final = (int64_t *)(void *)w.host[NEXT_OBS];
    float *const reward = (float *)(void *)w.host[REWARD];
    const void *given[FIELDS];
    for (int64_t lane = 0; lane < w.s.lanes; lane++) {
        const int64_t id = id_of(t, lane);
        obs[lane] = id, final[lane] = -1 - id, reward[lane] = reward_of(id);
        w.host[TERMINATED][lane] = w.ends[id] & 1, w.host[TRUNCATED][lane] = w.ends[id] >> 1 & 1;
    }
    for (int f = 0; f < FIELDS; f++) {
        CHECK_OK(gpur_device_copy(w.device, w.arrays[f], w.host[f], w.s.lanes * sizes[f]));
        given[f] = f == NEXT_OBS && w.s.autoreset == GPUR_AUTORESET_NEXT_STEP ? NULL : w.arrays[f];
    }
    CHECK_OK(gpur_replay_add_lanes(w.replay, given, NULL));
}

/* Numbers of row b that are wrong. */
static int wrong_in(int64_t b, int64_t id)
{
    const int64_t lane = id % w.s.lanes, next = ((const int64_t *)(const void *)w.host[NEXT_OBS])[b];
    int64_t t = id / w.s.lanes;
    double reward = 0.0, discount = 1.0;
    int32_t count = 0;
    if (!is_whole(t, lane))
        return w.host_id[b] != -1 || w.host_count[b] != 0 || w.host_discount[b] != 0.0f;
    for (;; t++) {
        reward += discount * (double)reward_of(id_of(t, lane));
        discount *= (double)0.9f;
        count++;
        if (count == w.s.n_step || (w.ends[id_of(t, lane)] & 3) != 0 || !is_whole(t + 1, lane))
            break;
    }
    const unsigned char end = w.ends[id_of(t, lane)];
    const int64_t after =
        end != 0 && w.s.autoreset != GPUR_AUTORESET_NEXT_STEP ? -1 - id_of(t, lane) : id_of(t + 1, lane);
    return w.host_id[b] != id || ((const int64_t *)(const void *)w.host[OBS])[b] != id || next != after ||
           ((const float *)(const void *)w.host[REWARD])[b] != (float)reward || w.host_count[b] != count ||
           w.host_discount[b] != ((end & 1) != 0 ? 0.0f : (float)discount) || w.host[TERMINATED][b] != (end & 1) ||
           w.host[TRUNCATED][b] != (end >> 1 & 1);
}

static void read_back(int64_t count, gpur_lane_draw *draw)
{
    draw->count = count;
    CHECK_OK(gpur_replay_draw_lanes(w.replay, draw, NULL));
    for (int f = 0; f < FIELDS; f++)
        CHECK_OK(gpur_device_copy(w.device, w.host[f], w.arrays[f], count * sizes[f]));
    CHECK_OK(gpur_device_copy(w.device, w.host_id, w.id, count * 8));
    CHECK_OK(gpur_device_copy(w.device, w.host_discount, w.discount, count * 4));
    CHECK_OK(gpur_device_copy(w.device, w.host_count, w.count, count * 4));
}

static int64_t ids[BATCH];

static void check_rows(void)
{
    gpur_lane_draw draw;
    int64_t wrong = 0, whole = 0;
    CHECK_OK(gpur_lane_draw_init(&draw, sizeof draw));
    draw.fields = w.arrays, draw.id = w.id, draw.discount = w.discount, draw.steps = w.count;
    draw.ids = w.ids;
    for (int64_t first = 0; first < w.added * w.s.lanes; first += BATCH) {
        const int64_t left = w.added * w.s.lanes - first, count = left < BATCH ? left : BATCH;
        for (int64_t b = 0; b < count; b++)
            ids[b] = first + b;
        CHECK_OK(gpur_device_copy(w.device, w.ids, ids, count * 8));
        read_back(count, &draw);
        for (int64_t b = 0; b < count; b++) {
            wrong += wrong_in(b, first + b);
            whole += is_whole((first + b) / w.s.lanes, (first + b) % w.s.lanes);
        }
    }
    CHECK_EQUAL(wrong, 0);
    CHECK_EQUAL(gpur_replay_size(w.replay), whole);
}

static float priority_of(int64_t id)
{
    return w.s.is_prioritized ? (float)(1 + mix((uint64_t)id * 5) % 4) : 1.0f;
}

/* The cell of an id for the chi-square test. */
static int64_t cell_of(int64_t id)
{
    return (int64_t)(mix((uint64_t)id * 7) % CELLS);
}

/* Gives each row its priority. Those that are not whole are skipped. */
static void set_priorities(void)
{
    static float priorities[BATCH];
    for (int64_t first = 0; first < w.added * w.s.lanes; first += BATCH) {
        const int64_t left = w.added * w.s.lanes - first, count = left < BATCH ? left : BATCH;
        for (int64_t b = 0; b < count; b++)
            ids[b] = first + b, priorities[b] = priority_of(first + b);
        CHECK_OK(gpur_device_copy(w.device, w.ids, ids, count * 8));
        CHECK_OK(gpur_device_copy(w.device, w.discount, priorities, count * 4));
        CHECK_OK(gpur_replay_update_lanes(w.replay, count, w.ids, w.discount, NULL));
    }
}

/* Independent draws: each is right, and cells of rows are drawn in proportion to their priorities. */
static void check_draws(void)
{
    double wanted[CELLS] = {0}, all = 0.0, statistic = 0.0;
    int64_t drawn[CELLS] = {0}, wrong = 0, freedom = -1;
    gpur_lane_draw draw;
    CHECK_OK(gpur_lane_draw_init(&draw, sizeof draw));
    draw.fields = w.arrays, draw.id = w.id, draw.discount = w.discount, draw.steps = w.count;
    for (int64_t id = 0; id < w.added * w.s.lanes; id++)
        if (is_whole(id / w.s.lanes, id % w.s.lanes)) {
            wanted[cell_of(id)] += (double)priority_of(id);
            all += (double)priority_of(id);
        }
    for (int i = 0; i < 4; i++) {
        read_back(BATCH, &draw);
        for (int64_t b = 0; b < BATCH; b++) {
            wrong += w.host_id[b] < 0 || wrong_in(b, w.host_id[b]);
            drawn[w.host_id[b] < 0 ? 0 : cell_of(w.host_id[b])]++;
        }
    }
    CHECK_EQUAL(wrong, 0);
    for (int c = 0; c < CELLS; c++) {
        const double mean = 4.0 * BATCH * wanted[c] / all;
        if (mean == 0.0) /* the cell has no row */
            continue;
        statistic += ((double)drawn[c] - mean) * ((double)drawn[c] - mean) / mean;
        freedom++;
    }
    CHECK(chi_square_tail(statistic, freedom) > 1e-6);
}

/* Rows of a sequence follow each other in their lane; a step that reset its environment is passed over. */
static void check_sequences(void)
{
    gpur_lane_draw draw;
    int64_t wrong = 0, found = 0;
    CHECK_OK(gpur_lane_draw_init(&draw, sizeof draw));
    draw.fields = w.arrays, draw.id = w.id, draw.discount = w.discount, draw.steps = w.count;
    draw.length = LENGTH, draw.mask = w.mask;
    read_back(BATCH, &draw);
    CHECK_OK(gpur_device_copy(w.device, w.host_mask, w.mask, BATCH));
    for (int64_t b = 0; b < BATCH; b++) {
        const int64_t id = w.host_id[b];
        wrong += w.host_mask[b] != (id >= 0) || (id >= 0 && wrong_in(b, id));
        found += w.host_mask[b];
        if (b % LENGTH == 0 || id < 0 || w.host_id[b - 1] < 0)
            continue;
        int64_t before = id - w.s.lanes;
        before -= before >= 0 && w.ends[before] == 4 ? w.s.lanes : 0;
        wrong += w.host_id[b - 1] != before;
    }
    CHECK_EQUAL(wrong, 0);
    CHECK(found % LENGTH == 0 && (found > BATCH / 2 || w.steps <= 2 * LENGTH));
}

/* Another replay goes on from a file. */
static void go_on_from_a_file(const gpur_replay_config *config)
{
    CHECK_OK(gpur_replay_save(w.replay, test_file_path("lanes"), NULL));
    gpur_replay_destroy(w.replay);
    w.replay = NULL;
    CHECK_OK(gpur_replay_create(w.device, config, &w.replay));
    CHECK_OK(gpur_replay_load(w.replay, test_file_path("lanes"), NULL));
    test_remove_folder();
}

static void run(setting s)
{
    gpur_replay_config config;
    memset(&w, 0, sizeof w);
    w.s = s, w.steps = ROWS / (s.lanes == 1 ? 128 : s.lanes), w.added = w.steps + EXTRA;
    w.device = test_device();
    CHECK_OK(gpur_replay_config_init(&config, sizeof config));
    config.fields = fields, config.field_count = FIELDS, config.layout = GPUR_LAYOUT_LANES;
    config.lanes = s.lanes, config.capacity = s.lanes * w.steps, config.lane_autoreset = s.autoreset;
    config.n_step = s.n_step, config.gamma = 0.9f;
    config.prioritized = s.is_prioritized;
    config.alpha = s.is_prioritized ? 1.0f : config.alpha;
    config.index_source = s.is_prioritized ? GPUR_PRIORITIZED_INDEPENDENT : GPUR_UNIFORM;
    CHECK_OK(gpur_replay_create(w.device, &config, &w.replay));
    w.ends = malloc((size_t)(w.added * s.lanes));
    w.host_id = malloc(BATCH * 8), w.host_discount = malloc(BATCH * 4), w.host_count = malloc(BATCH * 4);
    CHECK(w.ends && w.host_id && w.host_discount && w.host_count);
    for (int f = 0; f < FIELDS; f++) {
        w.host[f] = malloc((size_t)(BATCH * sizes[f]));
        CHECK_OK(gpur_device_alloc(w.device, BATCH * sizes[f], &w.arrays[f]));
    }
    CHECK_OK(gpur_device_alloc(w.device, BATCH * 8, (void **)&w.ids));
    CHECK_OK(gpur_device_alloc(w.device, BATCH * 8, (void **)&w.id));
    CHECK_OK(gpur_device_alloc(w.device, BATCH * 4, (void **)&w.discount));
    CHECK_OK(gpur_device_alloc(w.device, BATCH * 4, (void **)&w.count));
    CHECK_OK(gpur_device_alloc(w.device, BATCH, (void **)&w.mask));
    w.host_mask = malloc(BATCH);
    CHECK(w.host_mask);
    make_ends();
    for (int64_t t = 0; t < w.added; t++) {
        if (s.is_saved && t == w.added / 2)
            go_on_from_a_file(&config);
        add(t);
    }
    check_rows();
    if (s.is_prioritized)
        set_priorities();
    check_draws();
    if (w.steps > LENGTH)
        check_sequences();
    void *const of_device[] = {w.ids, w.id, w.discount, w.count, w.mask};
    for (int i = 0; i < 5; i++)
        gpur_device_free(w.device, of_device[i]);
    free(w.host_mask);
    for (int f = 0; f < FIELDS; f++) {
        gpur_device_free(w.device, w.arrays[f]);
        free(w.host[f]);
    }
    free(w.ends), free(w.host_id), free(w.host_discount), free(w.host_count);
    gpur_replay_destroy(w.replay);
    gpur_device_close(w.device);
}

TEST(a_million_rows_are_those_of_a_pass_over_all_steps)
{
    static const setting settings[] = {
        {65536, GPUR_AUTORESET_SAME_STEP, 3, 1, 1}, {512, GPUR_AUTORESET_DISABLED, 10, 0, 1},
        {512, GPUR_AUTORESET_NEXT_STEP, 1, 1, 0},   {100, GPUR_AUTORESET_NEXT_STEP, 7, 0, 1},
        {16, GPUR_AUTORESET_SAME_STEP, 2, 1, 0},    {1, GPUR_AUTORESET_DISABLED, 5, 1, 1},
    };
    for (size_t i = 0; i < sizeof settings / sizeof *settings && !atomic_load(&test_state.failures); i++)
        if (settings[i].lanes * 2 <= ROWS)
            run(settings[i]);
}

enum { WIDE_LANES = 256, WIDE_STEPS = 20, WIDTH = 500, CHUNK = BATCH / 16 };

/* Number i of the observation of step t of a lane. */
static float wide_number(int64_t id, int i)
{
    return (float)(id * 8 + i % 8);
}

/* Steps of which none ends. */
static void add_wide(gpur_replay *replay, gpur_device *device, void *const *arrays, float *host)
{
    for (int64_t t = 0; t < WIDE_STEPS + 7; t++) {
        for (int64_t lane = 0; lane < WIDE_LANES; lane++)
            for (int i = 0; i < WIDTH; i++)
                host[lane * WIDTH + i] = wide_number(t * WIDE_LANES + lane, i);
        CHECK_OK(gpur_device_copy(device, arrays[0], host, WIDE_LANES * WIDTH * 4));
        CHECK_OK(gpur_replay_add_lanes(replay, (const void *const *)arrays, NULL));
    }
}

/* Numbers of `count` observations that are wrong; `after`: those that follow the rows with these ids. */
static int64_t wrong_wide(const float *host, const int64_t *id, const int32_t *after, int64_t count)
{
    int64_t wrong = 0;
    for (int64_t b = 0; b < count; b++)
        for (int i = 0; i < WIDTH; i++)
            wrong += host[b * WIDTH + i] != wide_number(id[b] + (after ? after[b] : 0) * WIDE_LANES, i);
    return wrong;
}

/* Observations of 2,000 bytes, and as many that follow them. */
TEST(a_draw_of_65536_rows_of_4_kilobytes)
{
    static const gpur_field wide[] = {
        {"obs", GPUR_FLOAT32, {WIDTH}}, {"next_obs", GPUR_FLOAT32, {WIDTH}}, {"reward", GPUR_FLOAT32, {0}},
        {"terminated", GPUR_BOOL, {0}}, {"truncated", GPUR_BOOL, {0}},       {"action", GPUR_FLOAT32, {24}},
    };
    static const int64_t bytes[] = {WIDTH * 4, WIDTH * 4, 4, 1, 1, 96};
    static float host[(CHUNK > WIDE_LANES ? CHUNK : WIDE_LANES) * WIDTH];
    static int64_t id[BATCH];
    static int32_t count[BATCH];
    gpur_device *const device = test_device();
    gpur_replay_config config;
    gpur_replay *replay = NULL;
    gpur_lane_draw draw;
    void *arrays[6] = {NULL}, *batch[6] = {NULL};
    int64_t wrong = 0;
    CHECK_OK(gpur_replay_config_init(&config, sizeof config));
    config.fields = wide, config.field_count = 6, config.layout = GPUR_LAYOUT_LANES;
    config.lanes = WIDE_LANES, config.capacity = WIDE_LANES * WIDE_STEPS, config.n_step = 3, config.max_batch = BATCH;
    CHECK_OK(gpur_replay_create(device, &config, &replay));
    memset(host, 0, sizeof host);
    for (int f = 0; f < 6; f++) {
        CHECK_OK(gpur_device_alloc(device, WIDE_LANES * bytes[f], &arrays[f]));
        CHECK_OK(gpur_device_copy(device, arrays[f], host, WIDE_LANES * bytes[f]));
        CHECK_OK(gpur_device_alloc(device, BATCH * bytes[f], &batch[f]));
    }
    add_wide(replay, device, arrays, host);
    CHECK_OK(gpur_lane_draw_init(&draw, sizeof draw));
    draw.count = BATCH, draw.fields = batch;
    CHECK_OK(gpur_device_alloc(device, sizeof id, (void **)&draw.id));
    CHECK_OK(gpur_device_alloc(device, sizeof count, (void **)&draw.steps));
    CHECK_OK(gpur_replay_draw_lanes(replay, &draw, NULL));
    CHECK_OK(gpur_device_copy(device, id, draw.id, sizeof id));
    CHECK_OK(gpur_device_copy(device, count, draw.steps, sizeof count));
    for (int64_t b = 0; b < BATCH; b++) {
        const int64_t left = WIDE_STEPS + 6 - id[b] / WIDE_LANES;
        wrong += id[b] < 7 * WIDE_LANES || left < 1 || count[b] != (left < 3 ? left : 3);
    }
    for (int64_t first = 0; first < BATCH; first += CHUNK)
        for (int next = 0; next < 2; next++) {
            const char *const from = (const char *)batch[next] + first * bytes[0];
            CHECK_OK(gpur_device_copy(device, host, from, CHUNK * bytes[0]));
            wrong += wrong_wide(host, id + first, next ? count + first : NULL, CHUNK);
        }
    CHECK_EQUAL(wrong, 0);
    for (int f = 0; f < 6; f++)
        gpur_device_free(device, arrays[f]), gpur_device_free(device, batch[f]);
    gpur_device_free(device, draw.id);
    gpur_device_free(device, draw.steps);
    gpur_replay_destroy(replay);
    gpur_device_close(device);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(a_million_rows_are_those_of_a_pass_over_all_steps);
    RUN(a_draw_of_65536_rows_of_4_kilobytes);
    return test_main_end();
}
