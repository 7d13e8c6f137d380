/* SPDX-License-Identifier: MIT */
/*
 * Files of lanes: a loop that goes on from one gives the bits of a loop that was never saved, also with stacks of
 * frames; what is in them; what is refused, and that this changes nothing. That rows are right after a load into
 * another number of steps is shown by test_lanes.
 */
#include "file/checkpoint_file.h"
#include "gpureplay/lanes.h"
#include "replay/replay.h"
#include "support/file_utils.h"
#include "test.h"

enum { LANES = 5, STEPS = 30, BATCH = 40, FIELDS = 10, WIDEST = 16, STACK = 3 };

static const gpur_field fields[FIELDS] = {
    {"obs", GPUR_FLOAT32, {3}},     {"next_obs", GPUR_FLOAT32, {3}},     {"reward", GPUR_FLOAT32, {0}},
    {"pixels", GPUR_UINT8, {3, 3}}, {"next_pixels", GPUR_UINT8, {3, 3}}, {"action", GPUR_INT64, {0}},
    {"terminated", GPUR_BOOL, {0}}, {"truncated", GPUR_UINT8, {0}},      {"half", GPUR_FLOAT16, {5}},
    {"is_odd", GPUR_BOOL, {0}},
};
enum { OBS, NEXT_OBS, REWARD, PIXELS, NEXT_PIXELS, ACTION, TERMINATED, TRUNCATED, HALF, IS_ODD };
static const int64_t sizes[FIELDS] = {12, 12, 4, 9, 9, 8, 1, 1, 10, 1};

static gpur_device *device;
static int has_stacks; /* 1: obs is a stack of three frames of one number */

/* A replay with the arrays that its calls read and write. */
typedef struct side {
    gpur_replay *replay;
    int32_t autoreset;
    void *from[FIELDS], *to[FIELDS];
    int64_t *id;
    float *weight, *discount;
    int32_t *steps;
    int64_t added;
} side;

static gpur_replay_config config_of(int32_t autoreset, int is_prioritized)
{
    gpur_replay_config config = {0};
    gpur_replay_config_init(&config, sizeof config);
    config.fields = fields, config.field_count = FIELDS;
    config.layout = GPUR_LAYOUT_LANES;
    config.lanes = LANES, config.capacity = LANES * STEPS, config.lane_autoreset = autoreset;
    config.prioritized = is_prioritized;
    config.max_batch = BATCH, config.n_step = 3, config.reward_clip = 2.0f;
    config.frame_stack = has_stacks ? STACK : 1;
    return config;
}

static void open_side(side *s, const gpur_replay_config *config)
{
    memset(s, 0, sizeof *s);
    s->autoreset = config->lane_autoreset;
    CHECK_OK(gpur_replay_create(device, config, &s->replay));
    for (int f = 0; f < FIELDS; f++) {
        CHECK_OK(gpur_device_alloc(device, LANES * sizes[f], &s->from[f]));
        CHECK_OK(gpur_device_alloc(device, BATCH * sizes[f], &s->to[f]));
    }
    CHECK_OK(gpur_device_alloc(device, BATCH * 8, (void **)&s->id));
    CHECK_OK(gpur_device_alloc(device, BATCH * 4, (void **)&s->weight));
    CHECK_OK(gpur_device_alloc(device, BATCH * 4, (void **)&s->discount));
    CHECK_OK(gpur_device_alloc(device, BATCH * 4, (void **)&s->steps));
}

static void close_side(side *s)
{
    void *const others[] = {s->id, s->weight, s->discount, s->steps};
    gpur_replay_destroy(s->replay);
    for (int f = 0; f < FIELDS; f++)
        gpur_device_free(device, s->from[f]), gpur_device_free(device, s->to[f]);
    for (int i = 0; i < 4; i++)
        gpur_device_free(device, others[i]);
}

static uint64_t mix(uint64_t x)
{
    x ^= x >> 31, x *= 0x94D049BB133111EBu, x ^= x >> 29, x *= 0xBF58476D1CE4E5B9u;
    return x ^ x >> 32;
}

static uint64_t bits_of(int f, int64_t t, int64_t lane)
{
    return mix((uint64_t)(t * LANES + lane) * 16 + (uint64_t)f + 1);
}

static int ends(int64_t t, int64_t lane)
{
    return bits_of(TERMINATED, t, lane) % 6 == 0 || bits_of(TRUNCATED, t, lane) % 6 == 0;
}

static int is_reset(const side *s, int64_t t, int64_t lane)
{
    return s->autoreset == GPUR_AUTORESET_NEXT_STEP && t > 0 && ends(t - 1, lane) && !is_reset(s, t - 1, lane);
}

static int begins(const side *s, int64_t t, int64_t lane)
{
    return t == 0 || (s->autoreset == GPUR_AUTORESET_NEXT_STEP ? is_reset(s, t - 1, lane) : ends(t - 1, lane));
}

/* The stack of step t, or the final one of its episode. Before the first frame of an episode there are zeros. */
static void put_stack(const side *s, int is_final, int64_t t, int64_t lane, unsigned char *value)
{
    const int64_t bytes = sizes[OBS] / STACK;
    int p = STACK - 1;
    memset(value, 0, (size_t)sizes[OBS]);
    for (int64_t i = 0; is_final && i < bytes; i++)
        value[p * bytes + i] = (unsigned char)mix(bits_of(NEXT_OBS, t, lane) + (uint64_t)i);
    for (p -= is_final; p >= 0; p--, t--) {
        for (int64_t i = 0; i < bytes; i++)
            value[p * bytes + i] = (unsigned char)mix(bits_of(OBS, t, lane) + (uint64_t)i);
        if (begins(s, t, lane))
            return;
    }
}

/* Step t of all lanes, which follows from t alone. Every third row ends an episode, and every fifth step comes without
 * final observations. */
static void add(side *s)
{
    static const float rewards[] = {-3.0f, 0.25f, 1.5f, 4.0f}; /* some are clipped */
    unsigned char values[FIELDS][LANES * WIDEST];
    const void *given[FIELDS];
    const int has_finals = s->autoreset != GPUR_AUTORESET_NEXT_STEP && s->added % 5 != 4;
    for (int f = 0; f < FIELDS; f++)
        for (int lane = 0; lane < LANES; lane++) {
            const uint64_t bits = bits_of(f, s->added, lane);
            unsigned char *const value = values[f] + lane * sizes[f];
            for (int64_t i = 0; i < sizes[f]; i++)
                value[i] = (unsigned char)(mix(bits + (uint64_t)i));
            if (f == REWARD)
                memcpy(value, &rewards[bits % 4], sizeof *rewards);
            if (f == TERMINATED || f == TRUNCATED)
                *value = bits % 6 == 0;
            if (f == IS_ODD)
                *value = (unsigned char)(lane % 2);
            if (has_stacks && (f == OBS || f == NEXT_OBS))
                put_stack(s, f == NEXT_OBS, s->added, lane, value);
        }
    for (int f = 0; f < FIELDS; f++) {
        CHECK_OK(gpur_device_copy(device, s->from[f], values[f], LANES * sizes[f]));
        given[f] = (f == NEXT_OBS || f == NEXT_PIXELS) && !has_finals ? NULL : s->from[f];
    }
    CHECK_OK(gpur_replay_add_lanes(s->replay, given, NULL));
    s->added++;
}

/* A draw, whose importance weights become priorities that differ from row to row. */
static void draw(side *s, int is_prioritized)
{
    gpur_lane_draw d;
    float priorities[BATCH];
    CHECK_OK(gpur_lane_draw_init(&d, sizeof d));
    d.count = BATCH, d.fields = s->to, d.id = s->id, d.weight = s->weight, d.discount = s->discount, d.steps = s->steps;
    CHECK_OK(gpur_replay_draw_lanes(s->replay, &d, NULL));
    if (!is_prioritized)
        return;
    for (int b = 0; b < BATCH; b++)
        priorities[b] = (float)(mix((uint64_t)(s->added * BATCH + b)) % 1000) / 100.0f;
    priorities[0] = s->added % 4 == 3 ? 1e12f : 0.0f; /* the largest one leaves the scale, and a row gets none */
    CHECK_OK(gpur_device_copy(device, s->discount, priorities, sizeof priorities));
    CHECK_OK(gpur_replay_update_lanes(s->replay, BATCH, s->id, s->discount, NULL));
}

static void run(side *s, int64_t steps, int is_prioritized)
{
    for (int64_t i = 0; i < steps; i++) {
        add(s);
        draw(s, is_prioritized);
    }
}

static int same_outputs(const side *a, const side *b)
{
    const void *const others_a[] = {a->id, a->weight, a->discount, a->steps}, *const others_b[] = {b->id, b->weight,
                                                                                                   b->discount,
                                                                                                   b->steps};
    unsigned char of_a[BATCH * WIDEST], of_b[BATCH * WIDEST];
    int same = 1;
    for (int i = 0; i < FIELDS + 4; i++) {
        const int64_t bytes = BATCH * (i < FIELDS ? sizes[i] : i == FIELDS ? 8 : 4);
        same &= gpur_device_copy(device, of_a, i < FIELDS ? a->to[i] : others_a[i - FIELDS], bytes) == GPUR_OK &&
                gpur_device_copy(device, of_b, i < FIELDS ? b->to[i] : others_b[i - FIELDS], bytes) == GPUR_OK &&
                memcmp(of_a, of_b, (size_t)bytes) == 0;
    }
    return same;
}

/* Zeros with -1 steps if it fails. */
static gpur_lane_stats stats_of(const side *s)
{
    gpur_lane_stats stats = {.size = sizeof stats};
    if (gpur_replay_get_lane_stats(s->replay, &stats, NULL) != GPUR_OK)
        stats = (gpur_lane_stats){.steps = -1};
    return stats;
}

static void check_goes_on(int32_t autoreset, int is_prioritized, int64_t saved_at, int64_t held)
{
    const gpur_replay_config config = config_of(autoreset, is_prioritized);
    side never_saved, loaded;
    int64_t wrong = 0;
    open_side(&never_saved, &config);
    open_side(&loaded, &config);
    run(&never_saved, saved_at, is_prioritized);
    CHECK_OK(gpur_replay_save(never_saved.replay, test_file_path("lanes"), NULL));
    loaded.added = 1000; /* other steps */
    run(&loaded, held, is_prioritized);
    CHECK_OK(gpur_replay_load(loaded.replay, test_file_path("lanes"), NULL));
    loaded.added = saved_at;
    CHECK(replay_is_as(loaded.replay, test_file_path("lanes")));
    for (int64_t i = 0; i < 2 * STEPS; i++) {
        run(&never_saved, 1, is_prioritized);
        run(&loaded, 1, is_prioritized);
        wrong += !same_outputs(&never_saved, &loaded);
    }
    CHECK_EQUAL(wrong, 0);
    const gpur_lane_stats a = stats_of(&never_saved), b = stats_of(&loaded);
    CHECK(memcmp(&a, &b, sizeof a) == 0 && a.steps == saved_at + 2 * STEPS && a.broken_stacks == 0);
    CHECK(autoreset == GPUR_AUTORESET_NEXT_STEP || (a.finals > 0 && a.without_final > 0 && a.lost_finals > 0));
    CHECK_OK(gpur_replay_save(never_saved.replay, test_file_path("lanes"), NULL));
    CHECK(replay_is_as(loaded.replay, test_file_path("lanes")));
    if (is_prioritized) {
        CHECK_OK(gpur_replay_check_priorities(loaded.replay, &wrong));
        CHECK_EQUAL(wrong, 0);
    }
    close_side(&never_saved);
    close_side(&loaded);
}

TEST(a_loop_goes_on_from_a_file_bit_for_bit)
{
    static const int64_t saved_at[] = {0, 1, STEPS / 2, STEPS, 2 * STEPS + 7 /* the ring has gone round */};
    for (int32_t autoreset = GPUR_AUTORESET_DISABLED; autoreset <= GPUR_AUTORESET_SAME_STEP; autoreset++)
        for (int is_prioritized = 0; is_prioritized < 2; is_prioritized++)
            for (int i = 0; i < 5; i++) {
                has_stacks = (i + is_prioritized) % 2;
                check_goes_on(autoreset, is_prioritized, saved_at[i], i % 2 * (STEPS + 11));
            }
    has_stacks = 0;
}

/* Where the environments begin anew after a load, amid an episode of the file, the stacks of their first steps tell it:
 * no transition leads from the old run to the new one, and none is of stacks of both. */
TEST(environments_that_begin_anew_after_a_load_are_seen)
{
    side s;
    has_stacks = 1;
    const gpur_replay_config config = config_of(GPUR_AUTORESET_DISABLED, 0);
    open_side(&s, &config);
    while (s.added < STEPS)
        add(&s);
    int64_t amid = 0;
    for (int64_t lane = 0; lane < LANES; lane++)
        amid += !ends(STEPS - 1, lane);
    CHECK(amid > 0);
    CHECK_OK(gpur_replay_save(s.replay, test_file_path("lanes"), NULL));
    CHECK_OK(gpur_replay_load(s.replay, test_file_path("lanes"), NULL));
    s.added = 0;
    add(&s);
    CHECK_EQUAL(stats_of(&s).broken_stacks, amid);
    close_side(&s);
    has_stacks = 0;
}

/* The first step after it may be one amid an episode, which ends with this step in some lanes. */
TEST(an_empty_file_goes_on_as_a_new_replay_does)
{
    side loaded, fresh;
    has_stacks = 1;
    const gpur_replay_config config = config_of(GPUR_AUTORESET_SAME_STEP, 0);
    open_side(&loaded, &config);
    open_side(&fresh, &config);
    CHECK_OK(gpur_replay_save(loaded.replay, test_file_path("lanes"), NULL));
    CHECK_OK(gpur_replay_load(loaded.replay, test_file_path("lanes"), NULL));
    loaded.added = fresh.added = 7;
    run(&loaded, 2 * STEPS, 0);
    run(&fresh, 2 * STEPS, 0);
    const gpur_lane_stats stats = stats_of(&loaded), wanted = stats_of(&fresh);
    CHECK(memcmp(&stats, &wanted, sizeof stats) == 0 && stats.broken_stacks == 0);
    CHECK(same_outputs(&loaded, &fresh));
    close_side(&loaded);
    close_side(&fresh);
    has_stacks = 0;
}

/* In a ring that is far from full draws and the window are of the steps that are there: as few rows of distinct ones
 * find none as in the ring that was saved. */
TEST(draws_in_a_larger_ring_are_of_the_steps_that_are_there)
{
    gpur_replay_config config = config_of(GPUR_AUTORESET_SAME_STEP, 0);
    gpur_window window;
    side s[2];
    int64_t id[BATCH], missing[2] = {0, 0};
    config.index_source = GPUR_UNIFORM_DISTINCT;
    for (int i = 0; i < 2; i++) {
        config.capacity = (i == 0 ? 1 : 100) * LANES * STEPS;
        open_side(&s[i], &config);
    }
    run(&s[0], 2 * STEPS, 0);
    CHECK_OK(gpur_replay_save(s[0].replay, test_file_path("lanes"), NULL));
    CHECK_OK(gpur_replay_load(s[1].replay, test_file_path("lanes"), NULL));
    for (int64_t n = 0; n < 400; n++) {
        draw(&s[n % 2], 0);
        CHECK_OK(gpur_device_copy(device, id, s[n % 2].id, sizeof id));
        for (int b = 0; b < BATCH; b++)
            missing[n % 2] += id[b] < 0;
    }
    TEST_REQUIRE(missing[1] <= 2 * missing[0] + 20, "%lld rows find none, and %lld in the ring that was saved",
                 (long long)missing[1], (long long)missing[0]);
    s[1].added = 2 * STEPS;
    add(&s[1]);
    CHECK_OK(gpur_device_copy(device, &window, s[1].replay->window.device, sizeof window));
    CHECK(window.first_id == STEPS * LANES && window.count == (STEPS + 1) * LANES);
    close_side(&s[0]);
    close_side(&s[1]);
}

static void check_tensor(const gpur_checkpoint *file, const char *name, const char *type, int32_t dims,
                         const int64_t *shape)
{
    const gpur_tensor_entry *const entry = gpur_tensors_find(&file->tensors, name);
    TEST_REQUIRE(entry && strcmp(gpur_tensor_types[entry->type].name, type) == 0 && entry->dims == dims &&
                     memcmp(entry->shape, shape, (size_t)dims * sizeof *shape) == 0,
                 "the file's tensor \"%s\" is not %s of %d axes, or another shape", name, type, (int)dims);
}

TEST(a_file_has_an_array_of_each_field_and_says_what_is_in_it)
{
    const gpur_replay_config config = config_of(GPUR_AUTORESET_SAME_STEP, 1);
    gpur_checkpoint_info info = {.size = sizeof info};
    gpur_checkpoint file;
    side s;
    open_side(&s, &config);
    run(&s, STEPS + 4, 1);
    CHECK_OK(gpur_replay_save(s.replay, test_file_path("lanes"), NULL));
    CHECK_OK(gpur_checkpoint_get_info(test_file_path("lanes"), &info));
    CHECK(strcmp(info.kind, "replay") == 0 && info.capacity == LANES * STEPS && info.first_id == 4 * LANES);
    CHECK_EQUAL(info.rows, stats_of(&s).transitions);
    CHECK(info.envs == LANES && info.writers == -1 && info.steps == -1 && info.weights == -1);
    CHECK_OK(gpur_checkpoint_open(&file, test_file_path("lanes")));
    const gpur_tensor_entry *const ids = gpur_tensors_find(&file.tensors, "final_ids");
    CHECK(ids && ids->shape[0] > 0);
    const int64_t steps[] = {STEPS, LANES, 3, 3}, finals[] = {ids->shape[0], 3, 3};
    check_tensor(&file, "field.obs", "F32", 3, steps);
    check_tensor(&file, "field.pixels", "U8", 4, steps);
    check_tensor(&file, "field.action", "I64", 2, steps);
    check_tensor(&file, "field.half", "F16", 3, (const int64_t[]){STEPS, LANES, 5});
    check_tensor(&file, "field.is_odd", "BOOL", 2, steps);
    check_tensor(&file, "final.obs", "F32", 2, finals);
    check_tensor(&file, "final.pixels", "U8", 3, finals);
    check_tensor(&file, "reward", "F32", 2, steps);
    check_tensor(&file, "flags", "U8", 2, steps);
    check_tensor(&file, "priorities", "F32", 2, steps);
    CHECK(!gpur_tensors_find(&file.tensors, "field.next_obs") && !gpur_tensors_find(&file.tensors, "final.action"));
    CHECK_EQUAL(info.tensors, 12);
    gpur_checkpoint_close(&file);
    close_side(&s);
}

TEST(a_file_has_the_frames_of_stacks)
{
    gpur_checkpoint file;
    side s;
    has_stacks = 1;
    const gpur_replay_config config = config_of(GPUR_AUTORESET_SAME_STEP, 0);
    open_side(&s, &config);
    run(&s, STEPS + 4, 0);
    CHECK_OK(gpur_replay_save(s.replay, test_file_path("lanes"), NULL));
    CHECK_OK(gpur_checkpoint_open(&file, test_file_path("lanes")));
    check_tensor(&file, "frames.obs", "F32", 2, (const int64_t[]){STEPS + STACK - 1, LANES});
    check_tensor(&file, "stacks", "U8", 2, (const int64_t[]){STEPS, LANES});
    check_tensor(&file, "field.pixels", "U8", 4, (const int64_t[]){STEPS, LANES, 3, 3});
    const gpur_tensor_entry *const finals = gpur_tensors_find(&file.tensors, "final.obs");
    CHECK(finals && finals->dims == 1 && !gpur_tensors_find(&file.tensors, "field.obs"));
    gpur_checkpoint_close(&file);
    close_side(&s);
    has_stacks = 0;
    side plain;
    const gpur_replay_config without = config_of(GPUR_AUTORESET_SAME_STEP, 0);
    open_side(&plain, &without);
    CHECK_FAILS(gpur_replay_load(plain.replay, test_file_path("lanes"), NULL), GPUR_INVALID_ARGUMENT,
                "frame_stack is \"3\" in the file; this replay has nothing");
    close_side(&plain);
}

/* Settings that must match are refused, in both directions, and nothing has changed. n_step and gamma may differ. */
TEST(other_settings_are_refused_or_do_not_matter)
{
    gpur_replay_config config = config_of(GPUR_AUTORESET_SAME_STEP, 1);
    gpur_field other_fields[FIELDS];
    side s, other;
    open_side(&s, &config);
    run(&s, 2 * STEPS, 1);
    CHECK_OK(gpur_replay_save(s.replay, test_file_path("lanes"), NULL));
    memcpy(other_fields, fields, sizeof fields);
    other_fields[ACTION].dtype = GPUR_INT32;
#define OTHER(message, ...)                                                                                            \
    do {                                                                                                               \
        gpur_replay *replay = NULL;                                                                                    \
        gpur_replay_config c = config;                                                                                 \
        __VA_ARGS__;                                                                                                   \
        CHECK_OK(gpur_replay_create(device, &c, &replay));                                                             \
        CHECK_OK(gpur_replay_save(replay, test_file_path("before"), NULL));                                            \
        CHECK_FAILS(gpur_replay_load(replay, test_file_path("lanes"), NULL), GPUR_INVALID_ARGUMENT, message);          \
        CHECK(replay_is_as(replay, test_file_path("before")));                                                         \
        gpur_replay_destroy(replay);                                                                                   \
    } while (0)
    OTHER("lanes is \"5\" in the file; this replay has \"7\"", c.lanes = 7, c.capacity = 210);
    OTHER("lane_autoreset is \"same_step\" in the file; this replay has \"next_step\"",
          c.lane_autoreset = GPUR_AUTORESET_NEXT_STEP);
    OTHER("field.5 is \"action int64\" in the file; this replay has \"action int32\"", c.fields = other_fields);
    OTHER("field.9 is \"is_odd bool\" in the file; this replay has nothing", c.field_count = FIELDS - 1);
    OTHER("prioritized is \"1\" in the file; this replay has \"0\"", c.prioritized = 0);
    OTHER("priority_offset is", c.priority_offset = 0.5f);
    OTHER("reward_clip is \"2\" in the file; this replay has \"0\"", c.reward_clip = 0.0f);
    OTHER("frame_stack is nothing in the file; this replay has \"3\"", c.frame_stack = 3);
    OTHER("layout is \"lanes\" in the file; this replay has \"rows\"", c.layout = GPUR_LAYOUT_ROWS, c.lanes = 0,
          c.lane_autoreset = 0, c.n_step = 1);
#undef OTHER
    gpur_replay *rows = NULL;
    gpur_replay_config of_rows = config;
    of_rows.layout = GPUR_LAYOUT_ROWS, of_rows.lanes = 0, of_rows.lane_autoreset = 0;
    of_rows.n_step = 1;
    CHECK_OK(gpur_replay_create(device, &of_rows, &rows));
    CHECK_OK(gpur_replay_save(rows, test_file_path("rows"), NULL));
    gpur_replay_destroy(rows);
    CHECK_FAILS(gpur_replay_load(s.replay, test_file_path("rows"), NULL), GPUR_INVALID_ARGUMENT,
                "layout is \"rows\" in the file; this replay has \"lanes\"");
    CHECK(replay_is_as(s.replay, test_file_path("lanes")));
    config.n_step = 7, config.gamma = 0.5f, config.alpha = 0.25f;
    open_side(&other, &config);
    CHECK_OK(gpur_replay_load(other.replay, test_file_path("lanes"), NULL));
    CHECK(replay_is_as(other.replay, test_file_path("lanes"))); /* with the alpha of the file */
    close_side(&other);
    close_side(&s);
}

/* Damaged and forged files, by a replay that holds steps and by one that holds none. */

static side holds, empty;

static void open_sides(int32_t autoreset)
{
    const gpur_replay_config config = config_of(autoreset, 1);
    open_side(&holds, &config);
    open_side(&empty, &config);
    run(&holds, STEPS + 9, 1);
    CHECK_OK(gpur_replay_save(holds.replay, test_file_path("good"), NULL));
    CHECK_OK(gpur_replay_save(empty.replay, test_file_path("good empty"), NULL));
}

static void close_sides(void)
{
    close_side(&holds);
    close_side(&empty);
}

static void check_untouched(const char *what)
{
    TEST_REQUIRE(replay_is_as(holds.replay, test_file_path("good")) &&
                     replay_is_as(empty.replay, test_file_path("good empty")),
                 "%s changed a replay", what);
}

static void check_refused(const char *what, const char *message)
{
    for (int i = 0; i < 2; i++) {
        const gpur_status status = gpur_replay_load(i ? empty.replay : holds.replay, test_file_path("bad"), NULL);
        TEST_REQUIRE((status == GPUR_FILE_ERROR || status == GPUR_INVALID_ARGUMENT) &&
                         strstr(gpur_last_error(), message) && strstr(gpur_last_error(), test_file_path("bad")),
                     "%s: %s: \"%s\"; wanted \"%s\" in it", what, gpur_status_name(status), gpur_last_error(), message);
    }
}

TEST(cut_and_flipped_files_are_refused)
{
    int64_t bytes = 0;
    open_sides(GPUR_AUTORESET_SAME_STEP);
    unsigned char *const data = read_file(test_file_path("good"), &bytes);
    CHECK(data);
    for (int64_t n = 0; n < bytes; n += 211) {
        data[n] ^= (unsigned char)(1 << n % 8);
        CHECK(write_file(test_file_path("bad"), data, bytes) == 0);
        check_refused("a flipped bit", "");
        data[n] ^= (unsigned char)(1 << n % 8);
        CHECK(write_file(test_file_path("bad"), data, n) == 0);
        check_refused("a cut file", "");
    }
    check_untouched("a damaged file");
    free(data);
    close_sides();
}

static gpur_checkpoint file; /* the good one; its tensors and notes are changed */
static unsigned char *data;  /* and its bytes, likewise */

static void begin_forgery(void)
{
    int64_t bytes = 0;
    CHECK_OK(gpur_checkpoint_open(&file, test_file_path("good")));
    data = read_file(test_file_path("good"), &bytes);
    CHECK(data);
}

/* Writes the file with its checksums corrected. */
static void end_forgery(void)
{
    CHECK(write_forged(&file, data, test_file_path("bad")) == 0);
    free(data);
    gpur_checkpoint_close(&file);
}

static void set_note(const char *name, const char *text)
{
    for (int32_t i = 0; i < file.tensors.metadata_count; i++)
        if (strcmp(file.tensors.metadata[i].key, name) == 0) {
            snprintf(file.tensors.metadata[i].value, sizeof file.tensors.metadata[i].value, "%s", text);
            return;
        }
    TEST_REQUIRE(0, "the file has no note \"%s\"", name);
}

static unsigned char *tensor(const char *name)
{
    const gpur_tensor_entry *const entry = gpur_tensors_find(&file.tensors, name);
    return entry ? data + file.data_at + entry->begin : NULL;
}

TEST(forged_notes_are_refused)
{
    static const char *const notes[][3] = {
        {"rows", "-1", "a count of -1"},
        {"rows", "3", "that can be drawn; its count is 3"},
        {"steps", "99999999999999999999", "its note \"steps\""},
        {"steps", "2305843009213693951", "steps of 5 lanes"},
        {"steps", "38", "tensor \"flags\" is"},
        {"steps", "40000", "a byte each"},
        {"first_id", "46", "a multiple of its 5 lanes"},
        {"first_id", "200", "at most 195"},
        {"first_id", "40", "tensor \"flags\" is"},
        {"finals", "2", "final observations; it must be 0 to 2"},
        {"kept_finals", "1", "tensor \"final_ids\" is"},
        {"kept_finals", "100000", "0 to"},
        {"draws", "-2", "a count of -2"},
        {"lost_finals", "4611686018427387904", "a count of 4611686018427387904"},
        {"stale", "-7", "a count of -7"},
        {"alpha", "0x7fc00000", "an alpha, beta or priority of nan"},
        {"octave", "151", "a scale of 2^151"},
    };
    open_sides(GPUR_AUTORESET_SAME_STEP);
    for (size_t i = 0; i < sizeof notes / sizeof *notes; i++) {
        begin_forgery();
        set_note(notes[i][0], notes[i][1]);
        end_forgery();
        check_refused(notes[i][0], notes[i][2]);
    }
    check_untouched("a forged note");
    close_sides();
}

/* The first row of the file, from `from` on, with these flags of `mask`. */
static int64_t find_row(int mask, int flags, int64_t from)
{
    const unsigned char *const all = tensor("flags");
    for (int64_t row = from; row < LANES * STEPS; row++)
        if ((all[row] & mask) == flags)
            return row;
    return -1;
}

enum { NEWEST = LANES * (STEPS - 1), ALL = 255 };

typedef struct forged_flags {
    unsigned char mask, flags; /* of a row that is looked for */
    int64_t from;
    unsigned char forged; /* its flags in the file that is refused */
} forged_flags;

static void check_forged_flags(const forged_flags *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        begin_forgery();
        const int64_t row = find_row(cases[i].mask, cases[i].flags, cases[i].from);
        CHECK(row >= 0);
        tensor("flags")[row] = cases[i].forged;
        end_forgery();
        check_refused("forged flags", "to which no replay comes");
    }
}

TEST(forged_flags_are_refused)
{
    enum { BEGINS = GPUR_LANE_BEGINS, WHOLE = GPUR_LANE_IS_WHOLE, FINAL = GPUR_LANE_HAS_FINAL };
    static const forged_flags same_step[] = {
        {ALL, WHOLE, 0, 0},
        {ALL, WHOLE, 0, WHOLE | FINAL},
        {ALL, WHOLE, 0, WHOLE | GPUR_LANE_IS_RESET},
        {ALL, WHOLE, 0, WHOLE | 64},
        {ALL, WHOLE, LANES, WHOLE | BEGINS},
        {ALL, WHOLE | BEGINS, LANES, WHOLE},
        {ALL & ~BEGINS, 0, NEWEST, WHOLE},
        {FINAL, FINAL, 0, FINAL | GPUR_LANE_TERMINATED},
        {FINAL, FINAL, 0, FINAL | WHOLE},
        {ALL & ~BEGINS, GPUR_LANE_TRUNCATED, 0, GPUR_LANE_TRUNCATED | WHOLE},
    };
    static const forged_flags next_step[] = {
        {ALL, GPUR_LANE_IS_RESET, LANES, WHOLE},
        {ALL, GPUR_LANE_IS_RESET, LANES, GPUR_LANE_IS_RESET | WHOLE},
        {ALL, GPUR_LANE_IS_RESET, LANES, GPUR_LANE_IS_RESET | BEGINS},
        {ALL, GPUR_LANE_IS_RESET, LANES, GPUR_LANE_IS_RESET | GPUR_LANE_TERMINATED},
        {ALL, WHOLE, LANES, GPUR_LANE_IS_RESET},
        {ALL, WHOLE, LANES, 0},
        {ALL, WHOLE, LANES, WHOLE | BEGINS},
        {ALL, GPUR_LANE_TERMINATED | WHOLE, 0, GPUR_LANE_TERMINATED | WHOLE | FINAL},
    };
    open_sides(GPUR_AUTORESET_SAME_STEP);
    check_forged_flags(same_step, sizeof same_step / sizeof *same_step);
    begin_forgery(); /* one final observation less than there are, and one row more that can be drawn */
    const int64_t row = find_row(FINAL, FINAL, 0);
    CHECK(row >= 0);
    tensor("flags")[row] &= GPUR_LANE_ENDED | BEGINS;
    end_forgery();
    check_refused("a row without its final observation", "that can be drawn; its count is");
    check_untouched("forged flags");
    close_sides();
    open_sides(GPUR_AUTORESET_NEXT_STEP);
    check_forged_flags(next_step, sizeof next_step / sizeof *next_step);
    check_untouched("forged flags");
    close_sides();
}

TEST(forged_stacks_are_refused)
{
    enum { AGE = GPUR_STACK_AGE, BROKEN = GPUR_STACK_IS_BROKEN, FINAL = GPUR_STACK_FINAL_BROKEN };
    static const unsigned char forged[] = {STACK + 1, AGE, BROKEN | FINAL, BROKEN | STACK, FINAL | STACK};
    has_stacks = 1;
    open_sides(GPUR_AUTORESET_SAME_STEP);
    for (size_t i = 0; i < sizeof forged + 3; i++) {
        begin_forgery();
        const int64_t begins = find_row(GPUR_LANE_BEGINS, GPUR_LANE_BEGINS, LANES);
        const int64_t within = find_row(GPUR_LANE_BEGINS, 0, begins + 1);
        CHECK(tensor("stacks") && begins >= 0 && within >= 0);
        if (i < sizeof forged)
            tensor("stacks")[find_row(ALL, GPUR_LANE_IS_WHOLE, 2 * LANES)] = forged[i];
        else if (i < sizeof forged + 2)
            tensor("stacks")[begins] = i == sizeof forged ? 1 : GPUR_STACK_REPEATS | BROKEN;
        else
            tensor("stacks")[within] ^= 1;
        end_forgery();
        check_refused("forged stacks", "to which no replay comes");
    }
    check_untouched("forged stacks");
    close_sides();
    has_stacks = 0;
}

/* Kernels use them as indices. */
TEST(forged_final_observations_and_priorities_are_refused)
{
    static const char no_final[] = "which does not have it";
    open_sides(GPUR_AUTORESET_DISABLED);
    const int64_t first_id = 9 * LANES;
    for (int i = 0; i < 6; i++) {
        begin_forgery();
        int64_t ids[2];
        CHECK(tensor("final_ids") && tensor("priorities"));
        memcpy(ids, tensor("final_ids"), sizeof ids);
        const int64_t without = first_id + find_row(GPUR_LANE_HAS_FINAL, 0, 0);
        const int64_t wrong[] = {-1, INT64_MAX, ids[1], first_id - 1, without, first_id + LANES * STEPS};
        memcpy(tensor("final_ids"), &wrong[i], sizeof *wrong);
        end_forgery();
        check_refused("forged ids", no_final);
    }
    for (int i = 0; i < 4; i++) {
        static const float values[] = {-1.0f, NAN, INFINITY, 1.0f};
        begin_forgery();
        const int64_t row = i < 3 ? 7 : find_row(GPUR_LANE_IS_WHOLE, 0, 0);
        CHECK(row >= 0);
        memcpy(tensor("priorities") + row * 4, &values[i], sizeof *values);
        end_forgery();
        check_refused("a forged priority", i < 3 ? "it must be finite, and 0 or more" : "it must be 0, since");
    }
    check_untouched("a forgery");
    close_sides();
}

/* Progress, and what a load does that is interrupted or whose file changes meanwhile. */

typedef struct progress {
    int64_t done, all, calls, stop_after;
    int damages; /* 1: damages the end of the file in the second pass over it */
} progress;

static int32_t note_progress(void *user, int64_t done, int64_t all)
{
    progress *const p = user;
    p->done = done, p->all = all;
    p->calls++;
    if (p->damages && done > all / 2) {
        int64_t bytes = 0;
        unsigned char *const now = read_file(test_file_path("good"), &bytes);
        now[bytes - 1] ^= 1;
        (void)write_file(test_file_path("good"), now, bytes);
        free(now);
        p->damages = 0;
    }
    return p->calls == p->stop_after;
}

TEST(progress_is_reported_and_interrupts)
{
    progress seen = {0};
    gpur_checkpoint_options options;
    CHECK_OK(gpur_checkpoint_options_init(&options, sizeof options));
    options.progress = note_progress, options.progress_user = &seen;
    open_sides(GPUR_AUTORESET_SAME_STEP);
    CHECK_OK(gpur_replay_save(holds.replay, test_file_path("good"), &options));
    CHECK(seen.calls > 0 && seen.done == seen.all);
    seen = (progress){0};
    CHECK_OK(gpur_replay_load(holds.replay, test_file_path("good"), &options));
    CHECK(seen.calls > 0 && seen.done == seen.all);
    for (int i = 0; i < 3; i++) {
        seen = (progress){.stop_after = 1};
        CHECK_STATUS(i == 0   ? gpur_replay_save(holds.replay, test_file_path("good"), &options)
                     : i == 1 ? gpur_replay_load(holds.replay, test_file_path("good"), &options)
                              : gpur_replay_load(empty.replay, test_file_path("good"), &options),
                     GPUR_INTERRUPTED);
        check_untouched("an interrupted call");
    }
    close_sides();
}

/* The second pass finds another file than the first one did, after its first MiB: the replay is empty, and goes on. */
TEST(a_file_that_changes_between_the_passes_leaves_the_replay_empty)
{
    enum { LONG = 6000 };
    gpur_replay_config config = config_of(GPUR_AUTORESET_SAME_STEP, 1);
    progress seen = {.damages = 1};
    gpur_checkpoint_options options;
    int64_t wrong = -1, id[BATCH];
    CHECK_OK(gpur_checkpoint_options_init(&options, sizeof options));
    options.progress = note_progress, options.progress_user = &seen;
    config.capacity = LANES * LONG;
    open_side(&holds, &config);
    open_side(&empty, &config);
    while (holds.added < LONG + 9 && !atomic_load(&test_state.failures))
        add(&holds);
    CHECK_OK(gpur_replay_save(holds.replay, test_file_path("good"), NULL));
    CHECK_FAILS(gpur_replay_load(holds.replay, test_file_path("good"), &options), GPUR_FILE_ERROR,
                "are not what was written");
    gpur_lane_stats stats = stats_of(&holds);
    CHECK(stats.transitions == 0 && stats.steps == LONG + 9 && gpur_replay_size(holds.replay) == 0);
    CHECK_OK(gpur_replay_save(holds.replay, test_file_path("emptied"), NULL));
    CHECK_OK(gpur_replay_load(empty.replay, test_file_path("emptied"), NULL));
    CHECK(replay_is_as(empty.replay, test_file_path("emptied")));
    run(&holds, 3, 1);
    CHECK_OK(gpur_replay_check_priorities(holds.replay, &wrong));
    CHECK_EQUAL(wrong, 0);
    CHECK_OK(gpur_device_copy(device, id, holds.id, sizeof id));
    for (int b = 0; b < BATCH; b++)
        CHECK(id[b] >= (LONG + 9) * LANES && id[b] < (LONG + 12) * LANES);
    close_sides();
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
    RUN(a_loop_goes_on_from_a_file_bit_for_bit);
    RUN(environments_that_begin_anew_after_a_load_are_seen);
    RUN(draws_in_a_larger_ring_are_of_the_steps_that_are_there);
    RUN(a_file_has_an_array_of_each_field_and_says_what_is_in_it);
    RUN(an_empty_file_goes_on_as_a_new_replay_does);
    RUN(a_file_has_the_frames_of_stacks);
    RUN(other_settings_are_refused_or_do_not_matter);
    RUN(cut_and_flipped_files_are_refused);
    RUN(forged_notes_are_refused);
    RUN(forged_flags_are_refused);
    RUN(forged_stacks_are_refused);
    RUN(forged_final_observations_and_priorities_are_refused);
    RUN(progress_is_reported_and_interrupts);
    RUN(a_file_that_changes_between_the_passes_leaves_the_replay_empty);
    gpur_device_close(device);
    test_remove_folder();
    return test_main_end();
}
