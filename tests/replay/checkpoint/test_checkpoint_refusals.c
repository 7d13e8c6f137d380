/* SPDX-License-Identifier: MIT */
/*
 * Files that are refused, with a message, and change nothing: files that are not what was written, and files of
 * replays and learners with other settings, which are named. A load that fails when it has begun to fill memory, since
 * the file is cut short or changed under it, leaves a replay that held rows empty, and one that was empty as it was;
 * writers go on with their episodes in both.
 */
#include "support/checkpoint_fixture.h"
#include "support/episode_fixture.h"
#include "support/replay_fixture.h"
#include "test.h"

#include <sys/stat.h>
#include <unistd.h>

/* A run, and its three files. PLAIN has the layout rows; EVERYTHING frames, priorities and three steps. */
enum { REPLAY, LEARNER, WEIGHTS, KINDS };
enum { PLAIN = 1, EVERYTHING = 9 };
typedef struct files {
    checkpoint_fixture fixture;
    unsigned char *good[KINDS];
    int64_t bytes[KINDS];
} files;

static gpur_device *device;
static const char *bad, *saved; /* a file to be refused; that of another replay or learner */

static gpur_status save_kind(files *f, int kind, const char *path)
{
    return kind == REPLAY    ? gpur_replay_save(f->fixture.replay, path, NULL)
           : kind == LEARNER ? gpur_learner_save(f->fixture.learner, path, NULL)
                             : gpur_learner_save_weights(f->fixture.learner, path, NULL);
}

static gpur_status load_kind(files *f, int kind, const char *path)
{
    return kind == REPLAY    ? gpur_replay_load(f->fixture.replay, path, NULL)
           : kind == LEARNER ? gpur_learner_load(f->fixture.learner, path, NULL)
                             : gpur_learner_load_weights(f->fixture.learner, path, NULL);
}

static void open_files(files *f, int variant)
{
    memset(f, 0, sizeof *f);
    CHECK_OK(checkpoint_fixture_start(&f->fixture, device, variant, 40));
    for (int kind = 0; kind < KINDS; kind++) {
        const char *const path = test_file_path("good");
        CHECK_OK(save_kind(f, kind, path));
        f->good[kind] = read_file(path, &f->bytes[kind]);
        CHECK(f->good[kind]);
    }
}

/* 1 when saving writes what it wrote at first: nothing has changed. */
static int is_untouched(files *f, int kind)
{
    const char *const path = test_file_path("again");
    return save_kind(f, kind, path) == GPUR_OK && file_is(path, f->good[kind], f->bytes[kind]);
}

static void close_files(files *f)
{
    for (int kind = 0; kind < KINDS; kind++)
        free(f->good[kind]);
    checkpoint_fixture_close(&f->fixture);
}

enum { CUT, FLIP, INSERTION, DELETION, DAMAGES };

/* A file cut to n bytes, with bit n flipped, or with byte n doubled or left out, in `data`. Returns its length. */
static int64_t damage(unsigned char *data, const files *f, int kind, int damaged_by, int64_t n)
{
    const unsigned char *const good = f->good[kind];
    const int64_t bytes = f->bytes[kind];
    memcpy(data, good, (size_t)bytes);
    if (damaged_by == FLIP)
        data[n / 8] ^= (unsigned char)(1 << n % 8);
    if (damaged_by == INSERTION)
        memcpy(data + n + 1, good + n, (size_t)(bytes - n));
    if (damaged_by == DELETION)
        memcpy(data + n, good + n + 1, (size_t)(bytes - n - 1));
    return damaged_by == CUT ? n : bytes + (damaged_by == INSERTION) - (damaged_by == DELETION);
}

/* At every place in the long form; of lengths every 17th where each is slower. */
static void refuse_damaged(files *f, int kind)
{
    static const char *const names[] = {"length", "flip of bit", "doubled byte", "left out byte"};
    const int64_t bytes = f->bytes[kind], stride = test_is_long() ? 1 : test_rounds(100) < 100 ? 331 : 83;
    unsigned char *const data = malloc((size_t)bytes + 1);
    for (int damaged_by = 0; data && damaged_by < DAMAGES; damaged_by++)
        for (int64_t n = 0; n < (damaged_by == FLIP ? 8 * bytes : bytes); n += damaged_by != CUT        ? stride
                                                                               : test_rounds(100) < 100 ? 17
                                                                                                        : 1) {
            const int64_t length = damage(data, f, kind, damaged_by, n);
            CHECK(write_file(bad, data, length) == 0);
            const gpur_status status = load_kind(f, kind, bad);
            TEST_REQUIRE(status == GPUR_FILE_ERROR && strstr(gpur_last_error(), bad), "%s %lld of kind %d: %s: %s",
                         names[damaged_by], (long long)n, kind, gpur_status_name(status), gpur_last_error());
        }
    free(data);
    CHECK(is_untouched(f, kind));
}

TEST(cut_flipped_and_shifted_files_are_refused)
{
    for (int variant = PLAIN; variant <= EVERYTHING; variant += EVERYTHING - PLAIN) {
        files f;
        open_files(&f, variant);
        for (int kind = 0; kind < KINDS; kind++)
            refuse_damaged(&f, kind);
        close_files(&f);
    }
}

/* Flips a bit near the end of a file. */
static void flip_bit(const char *path)
{
    FILE *const file = fopen(path, "r+b");
    fseek(file, -100, SEEK_END);
    const int byte = fgetc(file);
    fseek(file, -100, SEEK_END);
    fputc(byte ^ 1, file);
    fclose(file);
}

/* When the first pass is over, which is the only one where nothing can be lost. */
static int32_t change_file(void *unused, int64_t done, int64_t all)
{
    struct stat there;
    const int is_over = stat(bad, &there) == 0 && done == there.st_size;
    (void)unused;
    if (is_over)
        flip_bit(bad);
    return !is_over && done != all;
}

TEST(a_file_that_changes_while_it_is_read_is_refused)
{
    files f;
    gpur_checkpoint_options options;
    open_files(&f, PLAIN);
    CHECK_OK(gpur_checkpoint_options_init(&options, sizeof options));
    options.progress = change_file;
    CHECK(write_file(bad, f.good[LEARNER], f.bytes[LEARNER]) == 0);
    CHECK_OK(gpur_learner_load(f.fixture.learner, bad, &options)); /* which reads once, and had read all of it */
    CHECK(is_untouched(&f, LEARNER));
    CHECK_FAILS(gpur_learner_load(f.fixture.learner, bad, NULL), GPUR_FILE_ERROR, "are not what was written");
    CHECK(write_file(bad, f.good[REPLAY], f.bytes[REPLAY]) == 0);
    CHECK_STATUS(gpur_replay_load(f.fixture.replay, bad, &options), GPUR_FILE_ERROR);
    CHECK(is_untouched(&f, REPLAY)); /* nothing of its only chunk was copied */
    CHECK(write_file(bad, f.good[REPLAY], f.bytes[REPLAY]) == 0);
    CHECK_OK(gpur_replay_load(f.fixture.replay, bad, NULL));
    CHECK(is_untouched(&f, REPLAY));
    close_files(&f);
}

TEST(what_is_no_file_is_refused)
{
    files f;
    open_files(&f, PLAIN);
    const char *const link = test_file_path("link"), *const pipe = test_file_path("pipe");
    CHECK(symlink("good", link) == 0 && mkfifo(pipe, 0600) == 0);
    const struct {
        gpur_status (*call)(files *, int, const char *);
        const char *path;
        gpur_status status;
        const char *message;
    } cases[] = {
        {load_kind, "no-such-folder/x", GPUR_FILE_ERROR, "No such file"},
        {load_kind, ".", GPUR_FILE_ERROR, "is a folder"},
        {load_kind, link, GPUR_FILE_ERROR, "symbolic link"},
        {save_kind, link, GPUR_FILE_ERROR, "symbolic link"},
        {load_kind, pipe, GPUR_FILE_ERROR, "no ordinary file"},
        {save_kind, "no-such-folder/x", GPUR_FILE_ERROR, "folder cannot be opened"},
        {save_kind, "", GPUR_INVALID_ARGUMENT, ""},
        {save_kind, NULL, GPUR_INVALID_ARGUMENT, "NULL"},
        {load_kind, NULL, GPUR_INVALID_ARGUMENT, "NULL"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int kind = 0; kind < KINDS; kind++) {
            CHECK_STATUS(cases[i].call(&f, kind, cases[i].path), cases[i].status);
            CHECK_MESSAGE(cases[i].message);
        }
    CHECK_STATUS(gpur_replay_load(NULL, "x", NULL), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(gpur_learner_load(NULL, "x", NULL), GPUR_INVALID_ARGUMENT);
    close_files(&f);
}

/* ---- other settings ---- */

enum { FEATURES = 2, FIELDS = 6 };

/* Loading the file is refused with this message and changes nothing. */
static void check_differs(gpur_replay *replay, const char *message)
{
    const char *const before = test_file_path("before");
    CHECK_OK(gpur_replay_save(replay, before, NULL));
    CHECK_FAILS(gpur_replay_load(replay, saved, NULL), GPUR_INVALID_ARGUMENT, message);
    CHECK(replay_is_as(replay, before));
}

/* Layout frames, prioritized, of three steps; a stack may be either axis of an observation. */
static gpur_replay_config base_config(gpur_field *fields)
{
    const gpur_field all[FIELDS] = {{"obs", GPUR_FLOAT32, {FEATURES, FEATURES}},
                                    {"action", GPUR_INT32, {0}},
                                    {"reward", GPUR_FLOAT32, {0}},
                                    {"next_obs", GPUR_FLOAT32, {FEATURES, FEATURES}},
                                    {"terminated", GPUR_BOOL, {0}},
                                    {"discount", GPUR_FLOAT32, {0}}};
    memcpy(fields, all, sizeof all);
    gpur_replay_config config = replay_fixture_config(fields, FIELDS, 1000, 8, 32);
    config.n_step = 3;
    config.prioritized = 1;
    config.index_source = GPUR_PRIORITIZED_STRATIFIED;
    config.layout = GPUR_LAYOUT_FRAMES;
    config.frame_stack = FEATURES;
    config.extra_frames = 60;
    return config;
}

static void check_setting(const gpur_replay_config *config, const char *message)
{
    gpur_replay *other = NULL;
    CHECK_OK(gpur_replay_create(device, config, &other));
    check_differs(other, message);
    gpur_replay_destroy(other);
}

/* Another replay, with one setting changed and what else must change for it to be possible. */
#define CHECK_CHANGE(change, message)                                                                                  \
    do {                                                                                                               \
        gpur_replay_config c = base_config(fields);                                                                    \
        change;                                                                                                        \
        check_setting(&c, message);                                                                                    \
    } while (0)

TEST(each_setting_of_a_replay_is_named)
{
    gpur_field fields[FIELDS];
    gpur_replay *base = NULL;
    const gpur_replay_config config = base_config(fields);
    CHECK_OK(gpur_replay_create(device, &config, &base));
    CHECK_OK(gpur_replay_save(base, saved, NULL));
    CHECK_CHANGE(c.capacity = 1001, "capacity is \"1000\" in the file; this replay has \"1001\"");
    CHECK_CHANGE(c.n_step = 1, "n_step is \"3\" in the file; this replay has \"1\"");
    CHECK_CHANGE((c.layout = GPUR_LAYOUT_ROWS, c.extra_frames = 0),
                 "layout is \"frames\" in the file; this replay has \"rows\"");
    CHECK_CHANGE(c.stack_axis = GPUR_STACK_LAST, "stack_axis is \"first\" in the file; this replay has \"last\"");
    CHECK_CHANGE(c.stack_pad = GPUR_PAD_REPEAT, "stack_pad is \"zero\" in the file; this replay has \"repeat\"");
    CHECK_CHANGE(c.extra_frames = 61, "frame_slots is \"1060\" in the file; this replay has \"1061\"");
    CHECK_CHANGE((c.block_rows = 56, c.max_batch = 8), "frame_reach is \"60\" in the file");
    CHECK_CHANGE(c.block_rows = 4, "group_rows is \"8\" in the file; this replay has \"4\"");
    CHECK_CHANGE((c.prioritized = 0, c.index_source = 0), "prioritized is \"1\" in the file; this replay has \"0\"");
    CHECK_CHANGE(c.priority_offset = 0.25f, "priority_offset is ");
    CHECK_CHANGE(c.gamma = 0.5f, "gamma is \"0.99");
    CHECK_CHANGE(c.reward_clip = 2.0f, "reward_clip is \"0\" in the file; this replay has \"2\"");
    CHECK_CHANGE((c.field_count = FIELDS - 1, c.n_step = 1),
                 "field.5 is \"discount float32\" in the file; this replay has nothing");
    CHECK_CHANGE(fields[1].dtype = GPUR_INT64, "field.1 is \"action int32\" in the file");
    gpur_replay_destroy(base);
}

/* The rule of eviction decides where rows are. */
TEST(another_rule_of_eviction_is_named)
{
    gpur_field fields[FIELDS];
    gpur_replay *base = NULL;
    gpur_replay_config config = base_config(fields);
    config.layout = GPUR_LAYOUT_ROWS, config.extra_frames = 0;
    CHECK_OK(gpur_replay_create(device, &config, &base));
    CHECK_OK(gpur_replay_save(base, saved, NULL));
    config.eviction = GPUR_EVICT_BY_PRIORITY;
    check_setting(&config, "eviction is nothing in the file; this replay has \"by priority\"");
    gpur_replay_destroy(base);
    CHECK_OK(gpur_replay_create(device, &config, &base));
    CHECK_OK(gpur_replay_save(base, saved, NULL));
    config.capacity++;
    check_setting(&config, "capacity is \"1000\" in the file; this replay has \"1001\"");
    config.capacity--, config.eviction = GPUR_EVICT_OLDEST;
    check_setting(&config, "eviction is \"by priority\" in the file; this replay evicts the oldest transitions");
    gpur_replay_destroy(base);
}

/* A writer of this mode, with episodes begun: what a file has of it, and what a load would change. */
static void open_writer(gpur_replay *replay, int32_t envs, int32_t autoreset, int32_t input, gpur_writer **writer)
{
    const float obs[2 * FEATURES * FEATURES] = {1, 2, 3, 4};
    const gpur_writer_config config = {sizeof config, envs, autoreset, input, 0};
    CHECK_OK(gpur_writer_open(replay, &config, writer));
    CHECK_OK(gpur_writer_reset(*writer, -1, obs));
}

TEST(rows_load_beside_any_writer_and_episodes_that_cannot_go_on_are_counted)
{
    static const struct {
        int32_t envs, autoreset, input, cut;
    } modes[] = {
        {1, GPUR_AUTORESET_NEXT_STEP, GPUR_OBSERVATIONS_FRAMES, 0},
        {2, GPUR_AUTORESET_NEXT_STEP, GPUR_OBSERVATIONS_FRAMES, 1},
        {1, GPUR_AUTORESET_DISABLED, GPUR_OBSERVATIONS_FRAMES, 1},
        {1, GPUR_AUTORESET_SAME_STEP, GPUR_OBSERVATIONS_FRAMES, 1},
        {1, GPUR_AUTORESET_NEXT_STEP, GPUR_OBSERVATIONS_STACKS, 1},
    };
    const float obs[FEATURES * FEATURES] = {1}, reward = 1;
    const int64_t action = 0;
    const unsigned char no = 0;
    gpur_field fields[FIELDS];
    gpur_checkpoint_info info = {.size = sizeof info};
    gpur_replay_stats base_stats = {.size = sizeof base_stats};
    gpur_replay *base = NULL, *other = NULL;
    gpur_writer *writer = NULL;
    const gpur_replay_config config = base_config(fields);
    CHECK_OK(gpur_replay_create(device, &config, &base));
    open_writer(base, 1, GPUR_AUTORESET_NEXT_STEP, GPUR_OBSERVATIONS_FRAMES, &writer);
    for (int step = 0; step < 5; step++)
        CHECK_OK(gpur_writer_step(writer, &action, &reward, obs, &no, &no));
    CHECK_OK(gpur_replay_save(base, saved, NULL));
    CHECK_OK(gpur_replay_get_stats(base, &base_stats));
    CHECK_OK(gpur_checkpoint_get_info(saved, &info));
    CHECK_EQUAL(info.envs, 1);
    gpur_writer_destroy(writer);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        gpur_replay_stats stats = {.size = sizeof stats};
        gpur_episode_info episode = {.size = sizeof episode};
        CHECK_OK(gpur_replay_create(device, &config, &other));
        open_writer(other, modes[i].envs, modes[i].autoreset, modes[i].input, &writer);
        CHECK_OK(gpur_replay_load(other, saved, NULL));
        CHECK_OK(gpur_replay_get_stats(other, &stats));
        CHECK_EQUAL(stats.cut_on_load, modes[i].cut);
        CHECK(stats.visible == base_stats.visible && stats.visible > 0);
        CHECK_OK(gpur_writer_get_episode(writer, 0, &episode, NULL));
        CHECK_EQUAL(episode.state, modes[i].cut ? GPUR_EPISODE_NONE : GPUR_EPISODE_OPEN);
        gpur_writer_destroy(writer);
        gpur_replay_destroy(other);
    }
    gpur_replay_destroy(base);
}

/* A state waits for a writer of its own mode, also through another file. */
TEST(a_state_waits_for_a_writer_of_its_mode)
{
    gpur_field fields[FIELDS];
    gpur_replay *replay = NULL;
    gpur_writer *writer = NULL, *other = NULL;
    gpur_writer_config mode = {.size = sizeof mode, .num_envs = 1, .observations = GPUR_OBSERVATIONS_FRAMES};
    const float obs[FEATURES] = {5, 6}, reward = 1;
    const int32_t action = 0;
    const uint8_t ended = 0;
    const gpur_replay_config config = base_config(fields);
    CHECK_OK(gpur_replay_create(device, &config, &replay));
    open_writer(replay, 1, GPUR_AUTORESET_NEXT_STEP, GPUR_OBSERVATIONS_FRAMES, &writer);
    CHECK_OK(gpur_replay_save(replay, saved, NULL));
    gpur_writer_destroy(writer);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(gpur_replay_load(replay, saved, NULL));
        CHECK_OK(gpur_replay_save(replay, saved, NULL));
    }
    CHECK_OK(gpur_writer_open(replay, &mode, &other));
    CHECK_FAILS(gpur_writer_step(other, &action, &reward, obs, &ended, NULL), GPUR_INVALID_ARGUMENT, "no open episode");
    mode.autoreset = GPUR_AUTORESET_NEXT_STEP;
    CHECK_OK(gpur_writer_open(replay, &mode, &writer));
    CHECK_OK(gpur_writer_step(writer, &action, &reward, obs, &ended, NULL));
    gpur_writer_destroy(other);
    gpur_writer_destroy(writer);
    gpur_replay_destroy(replay);
}

static void check_learners(int from, int into, const char *message)
{
    checkpoint_fixture s, other;
    CHECK_OK(checkpoint_fixture_open(&s, device, from));
    CHECK_OK(gpur_learner_save(s.learner, saved, NULL));
    CHECK_OK(checkpoint_fixture_open(&other, device, into));
    CHECK_FAILS(gpur_learner_load(other.learner, saved, NULL), GPUR_INVALID_ARGUMENT, message);
    checkpoint_fixture_close(&other);
    checkpoint_fixture_close(&s);
}

TEST(another_head_optimizer_or_input_is_named)
{
    check_learners(0, 1, "head is ");
    check_learners(1, 0, "head is ");
    check_learners(0, 2, "optimizer is \"adam\" in the file; this learner has \"rmsprop-torch\"");
    check_learners(4, 8, "weights is ");
}

/* ---- loads that fail midway ---- */

/* Files of several MiB: the first of them is copied before the last is found to be wrong. */
enum { CAPACITY = 40000, ENVS = 4, STEPS = 13000, BATCH = 16 };

typedef struct spoiler {
    const char *path;
    int is_cut;    /* in half; 0: a bit flips near the end */
    int64_t bytes; /* of the file */
    int64_t all;   /* that were to be read */
    int passes;    /* 2: waits for the second to begin */
    int done;
} spoiler;

/* Called once a chunk has been copied, and others are still to be read. */
static int32_t spoil(void *user, int64_t done, int64_t all)
{
    spoiler *const s = user;
    s->all = all;
    if (s->done || (s->passes == 2 && 2 * done <= all))
        return 0;
    s->done = 1;
    if (s->is_cut)
        return truncate(s->path, s->bytes / 2) != 0;
    flip_bit(s->path);
    return 0;
}

static void check_empty(gpur_replay *replay, int prioritized)
{
    gpur_batch *batch = NULL;
    int64_t wrong = -1;
    CHECK_EQUAL(gpur_replay_size(replay), 0);
    CHECK_STATUS(gpur_replay_sample(replay, 1, NULL, &batch), GPUR_TOO_FEW);
    if (!prioritized)
        return;
    CHECK_OK(gpur_replay_check_priorities(replay, &wrong));
    CHECK_EQUAL(wrong, 0);
    CHECK_OK(gpur_replay_set_alpha(replay, 0.7f)); /* computes all leaves again: a slot without a row has none */
    CHECK_OK(gpur_replay_check_priorities(replay, &wrong));
    CHECK_EQUAL(wrong, 0);
}

/* The replay is empty then, and the file as before. */
static void load_spoiled(gpur_replay *replay, int prioritized, const char *path, int is_cut, int passes)
{
    spoiler s = {.path = path, .is_cut = is_cut, .passes = passes};
    gpur_checkpoint_options options;
    CHECK_OK(gpur_checkpoint_options_init(&options, sizeof options));
    options.progress = spoil;
    options.progress_user = &s;
    unsigned char *const good = read_file(path, &s.bytes);
    CHECK(good && s.bytes > 3 << 20);
    CHECK_FAILS(gpur_replay_load(replay, path, &options), GPUR_FILE_ERROR, path);
    CHECK_MESSAGE(is_cut ? "it ends at byte" : "are not what was written");
    CHECK(s.done);
    CHECK_EQUAL(s.all, passes * s.bytes);
    CHECK(write_file(path, good, s.bytes) == 0);
    free(good);
    check_empty(replay, prioritized);
}

/* A flip in any chunk, whichever of the reading threads gets it, is found before anything changes. */
static void check_flips(gpur_replay *replay, const char *path)
{
    const int64_t size = gpur_replay_size(replay);
    char message[64];
    int64_t bytes = 0;
    unsigned char *const data = read_file(path, &bytes);
    for (int64_t at = bytes - 1; data && at > 1 << 19; at -= 1 << 20) {
        data[at] ^= 4;
        CHECK(write_file(bad, data, bytes) == 0);
        data[at] ^= 4;
        CHECK_STATUS(gpur_replay_load(replay, bad, NULL), GPUR_FILE_ERROR);
        snprintf(message, sizeof message, at == bytes - 1 ? "to %lld are not" : "are not what was written",
                 (long long)at);
        CHECK_MESSAGE(message);
        CHECK_EQUAL(gpur_replay_size(replay), size);
    }
    CHECK(data && replay_is_as(replay, path));
    free(data);
}

/* A replay without rows has nothing to lose: its file is read once, and it is as it was. Its writer has open episodes.
 */
static void check_without_rows(const layouts_fixture *w, const char *path, int is_cut)
{
    const gpur_writer_config mode = {.size = sizeof mode, .num_envs = ENVS, .autoreset = GPUR_AUTORESET_NEXT_STEP};
    const unsigned char obs[ENVS * 3 * PLAYER_FRAME] = {1, 2, 3};
    const char *const before = test_file_path("before");
    gpur_replay *replay = NULL;
    gpur_writer *writer = NULL;
    CHECK_OK(gpur_replay_create(w->device, &w->config, &replay));
    CHECK_OK(gpur_writer_open(replay, &mode, &writer));
    CHECK_OK(gpur_writer_reset(writer, -1, obs));
    CHECK_OK(gpur_replay_save(replay, before, NULL));
    load_spoiled(replay, w->setting.prioritized, path, is_cut, 1);
    CHECK(replay_is_as(replay, before));
    CHECK_OK(gpur_replay_load(replay, path, NULL));
    CHECK(replay_is_as(replay, path));
    gpur_writer_destroy(writer);
    gpur_replay_destroy(replay);
}

static void step(layouts_fixture *w, int steps)
{
    for (int i = 0; i < steps; i++)
        CHECK_OK(player_step(&w->players[0]));
}

/* Layout rows, and layout frames that is given stacks or frames, beside the history. */
static void check_spoiled_loads(int is_cut, int prioritized)
{
    const char *const paths[LAYOUTS_REPLAYS] = {test_file_path("rows"), test_file_path("stacks"),
                                                test_file_path("frames")};
    const layouts_setting setting = {
        .shape = {3, 0},
        .writers = 1,
        .envs = ENVS,
        .autoreset = GPUR_AUTORESET_NEXT_STEP,
        .ends_in = 9,
        .capacity = CAPACITY,
        .block_rows = 64,
        .max_batch = BATCH,
        .n_step = 3,
        .staging_blocks = 4,
        .prioritized = prioritized,
        .index_source = prioritized ? GPUR_PRIORITIZED_STRATIFIED : GPUR_UNIFORM,
        .alpha = 0.7f,
        .priority_offset = 0.01f,
    };
    layouts_fixture w;
    CHECK(layouts_fixture_open(&w, test_device(), &setting, 5));
    step(&w, STEPS);
    for (int r = 0; r < LAYOUTS_REPLAYS; r++) {
        CHECK_OK(gpur_replay_save(w.replays[r], paths[r], NULL));
        if (!is_cut && !prioritized)
            check_flips(w.replays[r], paths[r]);
        CHECK_OK(gpur_replay_load(w.replays[r], paths[r], NULL));
    }
    CHECK_EQUAL(layouts_fixture_wrong(&w, 0), 0);
    check_without_rows(&w, paths[1], is_cut);
    step(&w, 50);
    for (int r = 0; r < LAYOUTS_REPLAYS; r++) {
        load_spoiled(w.replays[r], prioritized, paths[r], is_cut, 2);
        load_spoiled(w.replays[r], prioritized, paths[r], is_cut, r == 0 ? 1 : 2); /* frames can be lost, too */
    }
    step(&w, 500);
    CHECK(gpur_replay_size(w.replays[1]) > 400 * ENVS);
    CHECK_EQUAL(layouts_fixture_wrong(&w, 0), 0);
    CHECK_EQUAL(layouts_fixture_samples_differ(&w, BATCH), 0);
    for (int r = 0; r < LAYOUTS_REPLAYS; r++) {
        CHECK_OK(gpur_replay_load(w.replays[r], paths[r], NULL));
        CHECK(replay_is_as(w.replays[r], paths[r]));
    }
    layouts_fixture_close(&w);
}

TEST(a_load_that_fails_midway_leaves_an_empty_replay_that_can_be_used)
{
    for (int prioritized = 0; prioritized < 2; prioritized++)
        for (int is_cut = 0; is_cut < 2; is_cut++)
            check_spoiled_loads(is_cut, prioritized);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
    bad = test_file_path("bad"), saved = test_file_path("saved");
    RUN(cut_flipped_and_shifted_files_are_refused);
    RUN(a_file_that_changes_while_it_is_read_is_refused);
    RUN(what_is_no_file_is_refused);
    RUN(each_setting_of_a_replay_is_named);
    RUN(another_rule_of_eviction_is_named);
    RUN(rows_load_beside_any_writer_and_episodes_that_cannot_go_on_are_counted);
    RUN(a_state_waits_for_a_writer_of_its_mode);
    RUN(another_head_optimizer_or_input_is_named);
    RUN(a_load_that_fails_midway_leaves_an_empty_replay_that_can_be_used);
    gpur_device_close(device);
    test_remove_folder();
    return test_main_end();
}
