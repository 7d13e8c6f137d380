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

/* A scene, and its three files. PLAIN is packed; EVERYTHING is linked, prioritized and of three steps. */
enum { KINDS = 3, PLAIN = 1, EVERYTHING = 9 };
typedef struct files {
    gpur_device *device;
    checkpoint_fixture fixture;
    char path[128]; /* of a file that is to be refused */
    unsigned char *good[KINDS];
    int64_t bytes[KINDS];
} files;

static gpur_status save_kind(files *f, int kind, const char *path)
{
    return kind == 0   ? gpur_replay_save(f->fixture.replay, path, NULL)
           : kind == 1 ? gpur_learner_save(f->fixture.learner, path, NULL)
                       : gpur_learner_save_weights(f->fixture.learner, path, NULL);
}

static gpur_status load_kind(files *f, int kind, const char *path)
{
    return kind == 0   ? gpur_replay_load(f->fixture.replay, path, NULL)
           : kind == 1 ? gpur_learner_load(f->fixture.learner, path, NULL)
                       : gpur_learner_load_weights(f->fixture.learner, path, NULL);
}

static void open_files(files *f, int variant)
{
    memset(f, 0, sizeof *f);
    f->device = test_device();
    snprintf(f->path, sizeof f->path, "%s", test_file_path("bad"));
    CHECK_OK(scene_play(&f->fixture, f->device, variant, 40));
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
    gpur_device_close(f->device);
}

static void check_refused(files *f, int kind, const char *what, int64_t number)
{
    const gpur_status status = load_kind(f, kind, f->path);
    TEST_REQUIRE(status == GPUR_FILE_ERROR && strstr(gpur_last_error(), f->path), "%s %lld of kind %d: %s: %s", what,
                 (long long)number, kind, gpur_status_name(status), gpur_last_error());
}

/* 1: nothing failed so far; after a failure thousands would fail alike. */
static int is_well(void)
{
    return atomic_load(&test_state.failures) == 0;
}

/* These return how many there were; -1 if a file could not be written. Every 17th length where each is slower. */
static int64_t refuse_truncations(files *f, int kind)
{
    const int64_t step = test_rounds(100) < 100 ? 17 : 1;
    for (int64_t length = f->bytes[kind] - 1; length >= 0 && is_well(); length -= step) {
        if (truncate(f->path, length) != 0)
            return -1;
        check_refused(f, kind, "length", length);
    }
    return f->bytes[kind] / step;
}

static int64_t refuse_flips(files *f, int kind)
{
    const int64_t step = test_is_long() ? 1 : 83;
    for (int64_t bit = 0; bit < 8 * f->bytes[kind] && is_well(); bit += step) {
        f->good[kind][bit / 8] ^= (unsigned char)(1 << bit % 8);
        const int written = overwrite_file(f->path, f->good[kind], f->bytes[kind]);
        f->good[kind][bit / 8] ^= (unsigned char)(1 << bit % 8);
        if (written != 0)
            return -1;
        check_refused(f, kind, "flip", bit);
    }
    return 8 * f->bytes[kind] / step;
}

static int64_t damage_often(unsigned char *data, const files *f, int kind, uint64_t *random)
{
    int64_t bytes = f->bytes[kind], head = 8;
    for (int i = 0; i < 8; i++)
        head += (int64_t)f->good[kind][i] << 8 * i;
    memcpy(data, f->good[kind], (size_t)bytes);
    for (int64_t times = 1 + xorshift_below(random, 3); times > 0 && bytes > head; times--)
        bytes = damage_file(data, bytes, head, random);
    return bytes;
}

static int64_t refuse_mutations(files *f, int kind, uint64_t *random)
{
    const int64_t count = (int64_t)test_rounds(100000) / (2 * KINDS) + 1;
    int64_t refused = 0;
    unsigned char *const data = malloc((size_t)f->bytes[kind] + 256);
    while (data && refused < count && is_well()) {
        const int64_t bytes = damage_often(data, f, kind, random);
        if (bytes == f->bytes[kind] && memcmp(data, f->good[kind], (size_t)bytes) == 0)
            continue;
        if (overwrite_file(f->path, data, bytes) != 0)
            break;
        check_refused(f, kind, "mutation", refused++);
    }
    free(data);
    return refused == count ? count : -1;
}

TEST(truncated_flipped_and_mutated_files_are_refused)
{
    uint64_t random = 20;
    for (int variant = PLAIN; variant <= EVERYTHING; variant += EVERYTHING - PLAIN) {
        files f;
        open_files(&f, variant);
        for (int kind = 0; kind < KINDS; kind++) {
            CHECK(write_file(f.path, f.good[kind], f.bytes[kind]) == 0);
            const int64_t cut = refuse_truncations(&f, kind), flipped = refuse_flips(&f, kind);
            const int64_t mutated = refuse_mutations(&f, kind, &random);
            printf("  kind %d: %lld truncations, %lld flips and %lld mutations refused\n", kind, (long long)cut,
                   (long long)flipped, (long long)mutated);
            CHECK(cut > 0 && flipped > 0 && mutated > 0 && is_untouched(&f, kind));
        }
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
static int32_t change_file(void *path, int64_t done, int64_t all)
{
    struct stat there;
    const int is_over = stat(path, &there) == 0 && done == there.st_size;
    if (is_over)
        flip_bit(path);
    return !is_over && done != all;
}

TEST(a_file_that_changes_while_it_is_read_is_refused)
{
    files f;
    gpur_checkpoint_options options;
    char path[128];
    open_files(&f, PLAIN);
    snprintf(path, sizeof path, "%s", f.path);
    CHECK_OK(gpur_checkpoint_options_init(&options, sizeof options));
    options.progress = change_file;
    options.progress_user = path;
    CHECK(write_file(path, f.good[1], f.bytes[1]) == 0);
    CHECK_OK(gpur_learner_load(f.fixture.learner, path, &options)); /* which reads once, and had read all of it */
    CHECK(is_untouched(&f, 1));
    CHECK_STATUS(gpur_learner_load(f.fixture.learner, path, NULL), GPUR_FILE_ERROR);
    CHECK_MESSAGE("are not what was written");
    CHECK(write_file(path, f.good[0], f.bytes[0]) == 0);
    CHECK_STATUS(gpur_replay_load(f.fixture.replay, path, &options), GPUR_FILE_ERROR);
    CHECK(is_untouched(&f, 0)); /* nothing of its only chunk was copied */
    CHECK(write_file(path, f.good[0], f.bytes[0]) == 0);
    CHECK_OK(gpur_replay_load(f.fixture.replay, path, NULL));
    CHECK(is_untouched(&f, 0));
    close_files(&f);
}

TEST(what_is_no_file_is_refused)
{
    files f;
    open_files(&f, PLAIN);
    char link[128], pipe[128];
    snprintf(link, sizeof link, "%s", test_file_path("link"));
    snprintf(pipe, sizeof pipe, "%s", test_file_path("pipe"));
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

TEST(a_writer_of_other_environments_is_named)
{
    files f;
    open_files(&f, PLAIN);
    gpur_writer_destroy(f.fixture.writer);
    CHECK_OK(gpur_writer_create(f.fixture.replay, CHECKPOINT_ENVS + 1, &f.fixture.writer));
    CHECK(write_file(f.path, f.good[0], f.bytes[0]) == 0);
    CHECK_STATUS(load_kind(&f, 0, f.path), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("the file's writer 0 has 3 environments; this replay's has 4");
    close_files(&f);
}

/* ---- other settings ---- */

enum { FEATURES = 2, FIELDS = 6 };
static char saved[128]; /* of the file that is loaded: those of test_file_path do not last */

/* Loading the file is refused with this message and changes nothing. */
static void check_differs(gpur_replay *replay, const char *message)
{
    char before[128];
    snprintf(before, sizeof before, "%s", test_file_path("before"));
    CHECK_OK(gpur_replay_save(replay, before, NULL));
    CHECK_STATUS(gpur_replay_load(replay, saved, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE(message);
    CHECK(replay_is_as(replay, before));
}

/* Linked, prioritized, of three steps; a stack may be either axis of an observation. */
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

static void check_setting(gpur_device *device, const gpur_replay_config *config, const char *message)
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
        check_setting(device, &c, message);                                                                            \
    } while (0)

TEST(each_setting_of_a_replay_is_named)
{
    gpur_device *const device = test_device();
    gpur_field fields[FIELDS];
    gpur_replay *base = NULL;
    const gpur_replay_config config = base_config(fields);
    CHECK_OK(gpur_replay_create(device, &config, &base));
    CHECK_OK(gpur_replay_save(base, saved, NULL));
    CHECK_CHANGE(c.capacity = 1001, "capacity is \"1000\" in the file; this replay has \"1001\"");
    CHECK_CHANGE(c.n_step = 1, "n_step is \"3\" in the file; this replay has \"1\"");
    CHECK_CHANGE((c.layout = GPUR_LAYOUT_ROWS, c.extra_frames = 0),
                 "layout is \"linked\" in the file; this replay has \"packed\"");
    CHECK_CHANGE(c.stack_axis = GPUR_STACK_LAST, "stack_axis is \"first\" in the file; this replay has \"last\"");
    CHECK_CHANGE(c.stack_pad = GPUR_PAD_REPEAT, "stack_pad is \"zero\" in the file; this replay has \"repeat\"");
    CHECK_CHANGE(c.extra_frames = 61, "frame_slots is \"1060\" in the file; this replay has \"1061\"");
    CHECK_CHANGE((c.block_rows = 56, c.max_batch = 8), "frame_reach is \"60\" in the file");
    CHECK_CHANGE(c.block_rows = 4, "group_rows is \"8\" in the file; this replay has \"4\"");
    CHECK_CHANGE((c.prioritized = 0, c.index_source = 0), "prioritized is \"1\" in the file; this replay has \"0\"");
    CHECK_CHANGE(c.priority_offset = 0.25f, "priority_offset is ");
    CHECK_CHANGE(c.gamma = 0.5f, "gamma is \"0.99");
    CHECK_CHANGE(c.reward_clip = 2.0f, "reward_clip is \"0\" in the file; this replay has \"2\"");
    CHECK_CHANGE((c.field_count = FIELDS - 1, c.n_step = 1), "fields is \"6\" in the file; this replay has \"5\"");
    CHECK_CHANGE(fields[1].dtype = GPUR_INT64, "field.1 is \"action int32\" in the file");
    gpur_replay_destroy(base);
    gpur_device_close(device);
}

/* A writer of these ways, with an episode begun: what a file has of it, and what a load would change. */
static void open_writer(gpur_replay *replay, int32_t autoreset, int32_t input, gpur_writer **writer)
{
    const float obs[FEATURES * FEATURES] = {1, 2, 3, 4};
    gpur_writer_config config;
    CHECK_OK(gpur_writer_config_init(&config, sizeof config));
    config.autoreset = autoreset;
    config.observations = input;
    CHECK_OK(gpur_writer_open(replay, &config, writer));
    CHECK_OK(gpur_writer_reset(*writer, -1, obs));
}

static void check_ways(gpur_replay *replay, int32_t autoreset, int32_t input, const char *message)
{
    gpur_writer *writer = NULL;
    open_writer(replay, autoreset, input, &writer);
    check_differs(replay, message);
    gpur_writer_destroy(writer);
}

TEST(another_way_of_steps_is_named)
{
    gpur_device *const device = test_device();
    gpur_field fields[FIELDS];
    gpur_replay *base = NULL, *other = NULL;
    gpur_writer *writer = NULL;
    const gpur_replay_config config = base_config(fields);
    CHECK_OK(gpur_replay_create(device, &config, &base));
    CHECK_OK(gpur_replay_create(device, &config, &other));
    open_writer(base, GPUR_AUTORESET_NEXT_STEP, GPUR_OBSERVATIONS_FRAMES, &writer);
    CHECK_OK(gpur_replay_save(base, saved, NULL));
    check_ways(other, GPUR_AUTORESET_DISABLED, GPUR_OBSERVATIONS_FRAMES,
               "writer 0 has autoreset next_step, input frames; this replay's has autoreset disabled, input frames");
    check_ways(other, GPUR_AUTORESET_SAME_STEP, GPUR_OBSERVATIONS_FRAMES, "has autoreset same_step, input frames");
    check_ways(other, GPUR_AUTORESET_NEXT_STEP, GPUR_OBSERVATIONS_STACKS, "has autoreset next_step, input stacks");
    gpur_writer_destroy(writer);
    gpur_replay_destroy(base);
    gpur_replay_destroy(other);
    gpur_device_close(device);
}

/* A state waits for a writer of its own way, also through another file. */
TEST(a_state_waits_for_a_writer_of_its_way)
{
    gpur_device *const device = test_device();
    gpur_field fields[FIELDS];
    gpur_replay *replay = NULL;
    gpur_writer *writer = NULL, *other = NULL;
    gpur_writer_config alike;
    const float obs[FEATURES] = {5, 6}, reward = 1;
    const int32_t action = 0;
    const uint8_t ended = 0;
    const gpur_replay_config config = base_config(fields);
    CHECK_OK(gpur_replay_create(device, &config, &replay));
    open_writer(replay, GPUR_AUTORESET_NEXT_STEP, GPUR_OBSERVATIONS_FRAMES, &writer);
    CHECK_OK(gpur_replay_save(replay, saved, NULL));
    gpur_writer_destroy(writer);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(gpur_replay_load(replay, saved, NULL));
        CHECK_OK(gpur_replay_save(replay, saved, NULL));
    }
    CHECK_OK(gpur_writer_config_init(&alike, sizeof alike));
    alike.observations = GPUR_OBSERVATIONS_FRAMES;
    CHECK_OK(gpur_writer_open(replay, &alike, &other));
    CHECK_STATUS(gpur_writer_step(other, &action, &reward, obs, &ended, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("no open episode");
    alike.autoreset = GPUR_AUTORESET_NEXT_STEP;
    CHECK_OK(gpur_writer_open(replay, &alike, &writer));
    CHECK_OK(gpur_writer_step(writer, &action, &reward, obs, &ended, NULL));
    gpur_writer_destroy(other);
    gpur_writer_destroy(writer);
    gpur_replay_destroy(replay);
    gpur_device_close(device);
}

static void check_learners(gpur_device *device, int from, int into, const char *message)
{
    checkpoint_fixture s, other;
    CHECK_OK(checkpoint_fixture_open(&s, device, from));
    CHECK_OK(gpur_learner_save(s.learner, saved, NULL));
    CHECK_OK(checkpoint_fixture_open(&other, device, into));
    CHECK_STATUS(gpur_learner_load(other.learner, saved, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE(message);
    checkpoint_fixture_close(&other);
    checkpoint_fixture_close(&s);
}

TEST(another_head_optimizer_or_input_is_named)
{
    gpur_device *const device = test_device();
    check_learners(device, 0, 1, "head is ");
    check_learners(device, 1, 0, "head is ");
    check_learners(device, 0, 2, "optimizer is \"adam\" in the file; this learner has \"rmsprop-torch\"");
    check_learners(device, 4, 8, "weights is ");
    gpur_device_close(device);
}

/* ---- loads that fail midway ---- */

/* Files of several MiB: the first of them is copied before the last is found to be wrong. */
enum { CAPACITY = 40000, ENVS = 4, PLAYED = 13000, BATCH = 16 };
enum { CUT, FLIP, FAILURES };

typedef struct spoiler {
    const char *path;
    int how;
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
    if (s->how == CUT)
        return truncate(s->path, s->bytes / 2) != 0;
    flip_bit(s->path);
    return 0;
}

static void load_spoiled(gpur_replay *replay, const char *path, int how, int passes)
{
    spoiler s = {.path = path, .how = how, .passes = passes};
    gpur_checkpoint_options options;
    CHECK_OK(gpur_checkpoint_options_init(&options, sizeof options));
    options.progress = spoil;
    options.progress_user = &s;
    unsigned char *const good = read_file(path, &s.bytes);
    CHECK(good && s.bytes > 3 << 20);
    CHECK_STATUS(gpur_replay_load(replay, path, &options), GPUR_FILE_ERROR);
    CHECK_MESSAGE(path);
    CHECK_MESSAGE(how == CUT ? "it ends at byte" : "are not what was written");
    CHECK(s.done);
    CHECK_EQUAL(s.all, passes * s.bytes);
    CHECK(write_file(path, good, s.bytes) == 0);
    free(good);
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
    CHECK_OK(gpur_replay_set_alpha(replay, 0.7f)); /* makes all leaves anew: a slot without a row has none */
    CHECK_OK(gpur_replay_check_priorities(replay, &wrong));
    CHECK_EQUAL(wrong, 0);
}

static layouts_setting setting_of(int prioritized)
{
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
    return setting;
}

static void play_on(layouts_fixture *w, int steps)
{
    for (int i = 0; i < steps; i++)
        CHECK_OK(player_step(&w->players[0]));
}

/* Packed, linked by stacks and linked by frames, beside the history. */
static void check_full(int how, int prioritized)
{
    static const char *const names[LAYOUTS_REPLAYS] = {"packed", "stacks", "frames"};
    const layouts_setting setting = setting_of(prioritized);
    layouts_fixture w;
    CHECK(layouts_fixture_open(&w, test_device(), &setting, 5));
    play_on(&w, PLAYED);
    for (int r = 0; r < LAYOUTS_REPLAYS; r++)
        CHECK_OK(gpur_replay_save(w.replays[r], test_file_path(names[r]), NULL));
    play_on(&w, 50);
    for (int r = 0; r < LAYOUTS_REPLAYS; r++) {
        load_spoiled(w.replays[r], test_file_path(names[r]), how, 2);
        check_empty(w.replays[r], prioritized);
        load_spoiled(w.replays[r], test_file_path(names[r]), how, r == 0 ? 1 : 2); /* frames are something to lose,
                                                                                      too */
        check_empty(w.replays[r], prioritized);
    }
    play_on(&w, 500);
    CHECK(gpur_replay_size(w.replays[1]) > 400 * ENVS);
    CHECK_EQUAL(layouts_fixture_wrong(&w, 0), 0);
    CHECK_EQUAL(layouts_fixture_samples_differ(&w, BATCH), 0);
    for (int r = 0; r < LAYOUTS_REPLAYS; r++) {
        CHECK_OK(gpur_replay_load(w.replays[r], test_file_path(names[r]), NULL));
        CHECK(replay_is_as(w.replays[r], test_file_path(names[r])));
    }
    layouts_fixture_close(&w);
}

TEST(a_replay_is_empty_and_can_be_used)
{
    for (int prioritized = 0; prioritized < 2; prioritized++)
        for (int how = 0; how < FAILURES; how++)
            check_full(how, prioritized);
}

/* Nothing to lose: its file is read once. Its writer has open episodes. */
static void check_fresh(layouts_fixture *w, int how)
{
    const char *const path = test_file_path("stacks"), *const nothing = test_file_path("nothing");
    gpur_replay *fresh = NULL;
    gpur_writer *writer = NULL;
    unsigned char obs[ENVS * 3 * PLAYER_FRAME] = {1, 2, 3};
    CHECK_OK(gpur_replay_create(w->device, &w->config, &fresh));
    gpur_writer_config config;
    CHECK_OK(gpur_writer_config_init(&config, sizeof config));
    config.num_envs = ENVS;
    config.autoreset = GPUR_AUTORESET_NEXT_STEP;
    CHECK_OK(gpur_writer_open(fresh, &config, &writer));
    CHECK_OK(gpur_writer_reset(writer, -1, obs));
    CHECK_OK(gpur_replay_save(fresh, nothing, NULL));
    load_spoiled(fresh, path, how, 1);
    check_empty(fresh, w->setting.prioritized);
    CHECK_OK(gpur_replay_set_alpha(fresh, w->setting.alpha));
    CHECK(replay_is_as(fresh, nothing));
    CHECK_OK(gpur_replay_load(fresh, path, NULL));
    CHECK(replay_is_as(fresh, path));
    gpur_writer_destroy(writer);
    gpur_replay_destroy(fresh);
}

TEST(an_empty_replay_is_as_it_was)
{
    const layouts_setting setting = setting_of(1);
    layouts_fixture w;
    CHECK(layouts_fixture_open(&w, test_device(), &setting, 5));
    play_on(&w, PLAYED);
    CHECK_OK(gpur_replay_save(w.replays[1], test_file_path("stacks"), NULL));
    for (int how = 0; how < FAILURES; how++)
        check_fresh(&w, how);
    layouts_fixture_close(&w);
}

/* Whoever of the threads that read it comes upon it. */
TEST(a_flip_in_any_chunk_is_found_before_anything_changes)
{
    const layouts_setting setting = setting_of(0);
    const char *const path = test_file_path("whole"), *const bad = test_file_path("bad");
    char message[64];
    layouts_fixture w;
    int64_t bytes = 0;
    CHECK(layouts_fixture_open(&w, test_device(), &setting, 5));
    play_on(&w, PLAYED);
    CHECK_EQUAL(gpur_replay_size(w.replays[0]), CAPACITY);
    CHECK_OK(gpur_replay_save(w.replays[0], path, NULL));
    unsigned char *const data = read_file(path, &bytes);
    for (int64_t at = bytes - 1; data && at > 1 << 19; at -= 1 << 20) {
        data[at] ^= 4;
        CHECK(write_file(bad, data, bytes) == 0);
        data[at] ^= 4;
        CHECK_STATUS(gpur_replay_load(w.replays[0], bad, NULL), GPUR_FILE_ERROR);
        snprintf(message, sizeof message, at == bytes - 1 ? "to %lld are not" : "are not what was written",
                 (long long)at);
        CHECK_MESSAGE(message);
        CHECK_EQUAL(gpur_replay_size(w.replays[0]), CAPACITY);
    }
    CHECK(data && replay_is_as(w.replays[0], path));
    free(data);
    layouts_fixture_close(&w);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    snprintf(saved, sizeof saved, "%s", test_file_path("base"));
    RUN(truncated_flipped_and_mutated_files_are_refused);
    RUN(a_file_that_changes_while_it_is_read_is_refused);
    RUN(what_is_no_file_is_refused);
    RUN(a_writer_of_other_environments_is_named);
    RUN(each_setting_of_a_replay_is_named);
    RUN(another_way_of_steps_is_named);
    RUN(a_state_waits_for_a_writer_of_its_way);
    RUN(another_head_optimizer_or_input_is_named);
    RUN(a_replay_is_empty_and_can_be_used);
    RUN(an_empty_replay_is_as_it_was);
    RUN(a_flip_in_any_chunk_is_found_before_anything_changes);
    test_remove_folder();
    return test_main_end();
}
