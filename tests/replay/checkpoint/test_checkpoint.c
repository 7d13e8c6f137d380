/* SPDX-License-Identifier: MIT */
/*
 * Saving and loading: a run that goes on from files, in a process of its own, is the run that went on; rings of any
 * size and into another capacity; what a file tells; weights; progress; and saving while other threads step and draw.
 */
#include "base/status.h"
#include "support/checkpoint_fixture.h"
#include "support/replay_fixture.h"
#include "test.h"

#include <pthread.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    SAVED_AT = 58,
    END = 131,
    MOST = 300, /* rows of a replay that is loaded into another capacity */
};

extern char **environ;
static char *program;

#ifdef GPUR_HAS_FILES

static gpur_status go_on_from(checkpoint_fixture *s, int variant, const char *replay, const char *learner)
{
    const int early = variant % 2; /* the writer is there before the replay's file is read */
    GPUR_TRY(checkpoint_fixture_open(s, test_device(), variant));
    if (early)
        GPUR_TRY(checkpoint_fixture_begin(s, 1));
    GPUR_TRY(gpur_replay_load(s->replay, replay, NULL));
    GPUR_TRY(gpur_learner_load(s->learner, learner, NULL));
    if (!early)
        GPUR_TRY(checkpoint_fixture_begin(s, 1));
    GPUR_TRY(checkpoint_fixture_run(s, SAVED_AT, END));
    return checkpoint_fixture_finish(s);
}

/* In another process: the scene of this variant from two files, its trace to a third. */
static int resume(char **arguments)
{
    checkpoint_fixture s;
    const gpur_status status = go_on_from(&s, atoi(arguments[0]), arguments[1], arguments[2]);
    if (status != GPUR_OK)
        fprintf(stderr, "resume: %s: %s\n", gpur_status_name(status), gpur_last_error());
    const int written = write_file(arguments[3], s.trace, s.traced * (int64_t)sizeof *s.trace) == 0;
    gpur_device *const device = s.device;
    checkpoint_fixture_close(&s);
    gpur_device_close(device);
    return status != GPUR_OK || !written;
}

static int spawn_resume(int variant, const char *replay, const char *learner, const char *trace)
{
    char number[8], device[32], executor[32];
    int status = -1;
    pid_t child;
    snprintf(number, sizeof number, "%d", variant);
    snprintf(device, sizeof device, "%s", test_device_name());
    snprintf(executor, sizeof executor, "%s", test_state.executor);
    char *const arguments[] = {program,        device,          executor,      "resume", number,
                               (char *)replay, (char *)learner, (char *)trace, NULL};
    if (posix_spawn(&child, "/proc/self/exe", NULL, NULL, arguments, environ) != 0)
        return -1;
    waitpid(child, &status, 0);
    return status;
}

static void check_resumption(int variant)
{
    gpur_device *const device = test_device();
    const char *const replay = test_file_path("replay"), *const learner = test_file_path("learner");
    const char *const trace = test_file_path("trace");
    checkpoint_fixture s;
    CHECK_OK(scene_play(&s, device, variant, SAVED_AT));
    CHECK_OK(gpur_replay_save(s.replay, replay, NULL));
    CHECK_OK(gpur_learner_save(s.learner, learner, NULL));
    s.traced = 0;
    CHECK_OK(checkpoint_fixture_run(&s, SAVED_AT, END));
    CHECK_OK(checkpoint_fixture_finish(&s));
    CHECK(s.traced > 1000 && s.traced < CHECKPOINT_TRACE - 200);
    CHECK_EQUAL(spawn_resume(variant, replay, learner, trace), 0);
    int64_t bytes = 0;
    unsigned char *const theirs = read_file(trace, &bytes);
    CHECK_EQUAL(bytes, s.traced * (int64_t)sizeof *s.trace);
    for (int i = 0; i < s.traced; i++)
        TEST_REQUIRE(memcmp(theirs + 4 * i, &s.trace[i], 4) == 0, "variant %d: number %d of %d differs", variant, i,
                     s.traced);
    free(theirs);
    checkpoint_fixture_close(&s);
    gpur_device_close(device);
}

TEST(a_run_goes_on_from_files_bit_for_bit)
{
    for (int variant = 0; variant < CHECKPOINT_VARIANTS; variant++)
        check_resumption(variant);
}

/* Into objects that have gone on meanwhile. */
TEST(a_run_goes_back_to_files)
{
    gpur_device *const device = test_device();
    const char *const replay = test_file_path("replay"), *const learner = test_file_path("learner");
    static checkpoint_fixture s, first;
    CHECK_OK(scene_play(&s, device, 1, SAVED_AT));
    CHECK_OK(gpur_replay_save(s.replay, replay, NULL));
    CHECK_OK(gpur_learner_save(s.learner, learner, NULL));
    for (int time = 0; time < 2; time++) {
        gpur_learner_stats stats = {.size = sizeof stats};
        CHECK_OK(gpur_learner_load(s.learner, learner, NULL));
        CHECK_OK(gpur_replay_load(s.replay, replay, NULL));
        CHECK_OK(gpur_learner_get_stats(s.learner, &stats));
        CHECK_EQUAL(stats.steps, 32);
        CHECK_EQUAL(stats.steps_enqueued, 32);
        s.traced = 0;
        CHECK_OK(checkpoint_fixture_run(&s, SAVED_AT, END));
        CHECK_OK(checkpoint_fixture_finish(&s));
        if (time == 0)
            first = s;
    }
    CHECK_EQUAL(s.traced, first.traced);
    CHECK(memcmp(s.trace, first.trace, (size_t)s.traced * sizeof *s.trace) == 0);
    checkpoint_fixture_close(&s);
    gpur_device_close(device);
}

/* A ring of several MiB that has gone round, so that chunks begin and end in mid-row. */
TEST(a_large_ring_comes_back_whole)
{
    const gpur_replay_config config = replay_fixture_plain_config(70000, 512, 64, GPUR_FLUSH_AUTO);
    const char *const path = test_file_path("large");
    const int64_t ids[] = {50000, 50001, 65536, 69999, 70000, 98303, 98304, 119998, 119999};
    replay_fixture from, to;
    CHECK(replay_fixture_open(&from, test_device(), &config, 1));
    CHECK(replay_fixture_open(&to, test_device(), &config, 1));
    CHECK_OK(replay_fixture_append(&from, 120000));
    CHECK_OK(gpur_replay_save(from.replay, path, NULL));
    CHECK_OK(gpur_replay_load(to.replay, path, NULL));
    CHECK_OK(replay_fixture_gather(&to, 9, ids));
    for (int64_t id = 50000; id + 64 <= 120000; id += 64) {
        int64_t run[64];
        for (int i = 0; i < 64; i++)
            run[i] = id + i;
        CHECK_OK(replay_fixture_gather(&to, 64, run));
    }
    replay_fixture_close(&from);
    replay_fixture_close(&to);
}

TEST(saving_twice_writes_the_same_bytes)
{
    gpur_device *const device = test_device();
    const char *const path = test_file_path("once");
    checkpoint_fixture s;
    CHECK_OK(scene_play(&s, device, 0, SAVED_AT));
    CHECK_OK(gpur_replay_save(s.replay, path, NULL));
    CHECK(replay_is_as(s.replay, path));
    checkpoint_fixture_close(&s);
    gpur_device_close(device);
}

TEST(an_empty_replay_comes_back_empty)
{
    gpur_device *const device = test_device();
    const char *const path = test_file_path("empty");
    checkpoint_fixture s;
    CHECK_OK(checkpoint_fixture_open(&s, device, 0));
    CHECK_OK(gpur_replay_save(s.replay, path, NULL));
    CHECK_OK(checkpoint_fixture_begin(&s, 0));
    CHECK_OK(checkpoint_fixture_run(&s, 0, SAVED_AT));
    CHECK_OK(gpur_replay_load(s.replay, path, NULL));
    CHECK_EQUAL(gpur_replay_size(s.replay), 0);
    const float obs[CHECKPOINT_ENVS * CHECKPOINT_FEATURES] = {0};
    const float reward[CHECKPOINT_ENVS] = {0};
    const int32_t action[CHECKPOINT_ENVS] = {0};
    const uint8_t ended[CHECKPOINT_ENVS] = {0};
    CHECK_STATUS(gpur_writer_step(s.writer, action, reward, obs, ended, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("no open episode");
    checkpoint_fixture_close(&s);
    gpur_device_close(device);
}

TEST(a_file_tells_what_is_in_it)
{
    gpur_device *const device = test_device();
    const char *const replay = test_file_path("replay"), *const learner = test_file_path("learner");
    const char *const weights = test_file_path("weights");
    gpur_checkpoint_info info = {.size = sizeof info};
    checkpoint_fixture s;
    CHECK_OK(scene_play(&s, device, 0, SAVED_AT));
    CHECK_OK(gpur_replay_save(s.replay, replay, NULL));
    CHECK_OK(gpur_learner_save(s.learner, learner, NULL));
    CHECK_OK(gpur_learner_save_weights(s.learner, weights, NULL));
    CHECK_OK(gpur_checkpoint_get_info(replay, &info));
    CHECK(strcmp(info.kind, "replay") == 0 && strcmp(info.version, gpur_version()) == 0);
    CHECK_EQUAL(info.rows, 100);
    CHECK_EQUAL(info.capacity, 100);
    CHECK_EQUAL(info.first_id, SAVED_AT * CHECKPOINT_ENVS - 100);
    CHECK_EQUAL(info.writers, 1);
    CHECK_EQUAL(info.steps, -1);
    CHECK_OK(gpur_checkpoint_get_info(learner, &info));
    CHECK(strcmp(info.kind, "learner") == 0);
    CHECK_EQUAL(info.steps, 32);
    CHECK_EQUAL(info.rows, -1);
    CHECK_EQUAL(info.weights, CHECKPOINT_FEATURES * 16 + 16 + 16 * 3 + 3);
    CHECK_OK(gpur_checkpoint_get_info(weights, &info));
    CHECK(strcmp(info.kind, "weights") == 0);
    CHECK_EQUAL(info.tensors, gpur_learner_weight_count(s.learner));
    checkpoint_fixture_close(&s);
    gpur_device_close(device);
}

TEST(weights_go_to_another_learner)
{
    gpur_device *const device = test_device();
    const char *const weights = test_file_path("weights");
    const float obs[CHECKPOINT_FEATURES] = {0.1f, -0.2f, 0.3f, -0.4f, 0.5f};
    float q[3], other_q[3];
    checkpoint_fixture s, other;
    CHECK_OK(scene_play(&s, device, 1, SAVED_AT));
    CHECK_OK(gpur_learner_save_weights(s.learner, weights, NULL));
    CHECK_OK(checkpoint_fixture_open(&other, device, 1));
    CHECK_OK(gpur_learner_load_weights(other.learner, weights, NULL));
    CHECK_OK(gpur_learner_load_weights(s.learner, weights, NULL)); /* its older copy acts as well */
    CHECK_OK(gpur_learner_q_values(s.learner, 1, obs, q, NULL));
    CHECK_OK(gpur_learner_q_values(other.learner, 1, obs, other_q, NULL));
    CHECK(memcmp(q, other_q, sizeof q) == 0);
    checkpoint_fixture_close(&other);
    CHECK_OK(checkpoint_fixture_open(&other, device, 0));
    CHECK_STATUS(gpur_learner_load_weights(other.learner, weights, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(gpur_learner_load(other.learner, weights, NULL), GPUR_FILE_ERROR);
    CHECK_MESSAGE("it is a weights file; it must be a learner file");
    checkpoint_fixture_close(&other);
    checkpoint_fixture_close(&s);
    gpur_device_close(device);
}

typedef struct listener {
    int64_t done, all, calls, stop_after;
    int backwards;
} listener;

static int32_t hear(void *user, int64_t done, int64_t all)
{
    listener *const l = user;
    l->backwards |= done <= l->done || done > all || (l->calls > 0 && all != l->all);
    l->done = done;
    l->all = all;
    return ++l->calls == l->stop_after;
}

static gpur_checkpoint_options options_of(listener *heard)
{
    gpur_checkpoint_options options;
    (void)gpur_checkpoint_options_init(&options, sizeof options);
    options.progress = hear;
    options.progress_user = heard;
    return options;
}

TEST(progress_is_told_and_interrupts)
{
    gpur_device *const device = test_device();
    const char *const path = test_file_path("told");
    int64_t bytes = 0;
    listener heard = {0};
    const gpur_checkpoint_options options = options_of(&heard);
    checkpoint_fixture s;
    CHECK_OK(scene_play(&s, device, 0, 20));
    CHECK_OK(gpur_replay_save(s.replay, path, &options));
    CHECK(heard.calls > 0 && heard.done == heard.all && !heard.backwards);
    unsigned char *const first = read_file(path, &bytes);
    CHECK_OK(checkpoint_fixture_run(&s, 20, 30));
    heard = (listener){.stop_after = 1};
    CHECK_STATUS(gpur_replay_save(s.replay, path, &options), GPUR_INTERRUPTED);
    CHECK(file_is(path, first, bytes));
    CHECK(access(test_file_path("told.part"), F_OK) != 0);
    CHECK_EQUAL(gpur_replay_size(s.replay), 90);
    heard = (listener){.stop_after = 1};
    CHECK_STATUS(gpur_replay_load(s.replay, path, &options), GPUR_INTERRUPTED);
    CHECK_EQUAL(gpur_replay_size(s.replay), 90);
    heard = (listener){0};
    CHECK_OK(gpur_replay_load(s.replay, path, &options));
    CHECK(heard.done == heard.all && !heard.backwards);
    CHECK_EQUAL(gpur_replay_size(s.replay), 60);
    free(first);
    checkpoint_fixture_close(&s);
    gpur_device_close(device);
}

/* It reads the file once, so it can be ended until all is read; so can that into a learner. */
TEST(a_load_into_an_empty_replay_is_interrupted)
{
    gpur_device *const device = test_device();
    const char *const replay = test_file_path("replay"), *const learner = test_file_path("learner");
    gpur_checkpoint_info info = {.size = sizeof info};
    listener heard = {.stop_after = 1};
    const gpur_checkpoint_options options = options_of(&heard);
    checkpoint_fixture s, empty;
    CHECK_OK(scene_play(&s, device, 0, SAVED_AT));
    CHECK_OK(checkpoint_fixture_open(&empty, device, 0));
    CHECK_OK(gpur_replay_save(s.replay, replay, NULL));
    CHECK_OK(gpur_learner_save(s.learner, learner, NULL));
    CHECK_OK(gpur_checkpoint_get_info(replay, &info));
    CHECK_STATUS(gpur_replay_load(empty.replay, replay, &options), GPUR_INTERRUPTED);
    CHECK_EQUAL(heard.all, info.bytes);
    CHECK_EQUAL(gpur_replay_size(empty.replay), 0);
    heard = (listener){.stop_after = 1};
    CHECK_STATUS(gpur_learner_load(empty.learner, learner, &options), GPUR_INTERRUPTED);
    CHECK_OK(gpur_replay_load(empty.replay, replay, NULL));
    CHECK_EQUAL(gpur_replay_size(empty.replay), 100);
    checkpoint_fixture_close(&empty);
    checkpoint_fixture_close(&s);
    gpur_device_close(device);
}

/* ---- another capacity ---- */

static gpur_replay_config config_of(int64_t capacity, int prioritized)
{
    static const gpur_field fields[] = {
        {"obs", GPUR_FLOAT32, {3}}, {"terminated", GPUR_BOOL, {0}}, {"priority", GPUR_FLOAT32, {0}}};
    gpur_replay_config config = replay_fixture_config(fields, 3, capacity, 8, 16);
    config.prioritized = prioritized;
    if (prioritized)
        config.index_source = GPUR_PRIORITIZED_STRATIFIED;
    return config;
}

static int64_t first_id(replay_fixture *s)
{
    gpur_replay_stats stats = {.size = sizeof stats};
    return gpur_replay_get_stats(s->replay, &stats) == GPUR_OK ? stats.first_id : -1;
}

static void get_priorities(replay_fixture *s, int64_t first, int64_t count, float *priorities)
{
    for (int64_t i = 0; i < count; i++) {
        const int64_t id = first + i;
        CHECK_OK(gpur_replay_get_priorities(s->replay, 1, &id, &priorities[i]));
    }
}

/* All rows, one by one. */
static void check_rows(replay_fixture *s, int64_t first, int64_t count)
{
    CHECK_EQUAL(gpur_replay_size(s->replay), count);
    CHECK_EQUAL(first_id(s), first);
    for (int64_t id = first; id < first + count; id++)
        CHECK_OK(replay_fixture_gather(s, 1, &id));
}

/* `rows` appended to a replay of capacity `from`, saved, and loaded into one of capacity `to` that held `held`. */
static void check_move(int64_t from, int64_t to, int64_t rows, int64_t held, int prioritized)
{
    const gpur_replay_config theirs = config_of(from, prioritized), ours = config_of(to, prioritized);
    const char *const path = test_file_path("capacity");
    const int64_t count = rows < from ? rows : from, first = rows - count;
    float before[MOST], after[MOST];
    replay_fixture a, b;
    CHECK(replay_fixture_open(&a, test_device(), &theirs, 1));
    CHECK_OK(replay_fixture_append(&a, rows));
    if (prioritized)
        get_priorities(&a, first, count, before);
    CHECK_OK(gpur_replay_save(a.replay, path, NULL));
    replay_fixture_close(&a);
    CHECK(replay_fixture_open(&b, test_device(), &ours, 1));
    CHECK_OK(replay_fixture_append(&b, held));
    CHECK_OK(gpur_replay_load(b.replay, path, NULL));
    b.next = rows;
    check_rows(&b, first, count);
    if (prioritized) {
        int64_t wrong = -1;
        get_priorities(&b, first, count, after);
        CHECK(memcmp(before, after, (size_t)count * sizeof *before) == 0);
        CHECK_OK(gpur_replay_check_priorities(b.replay, &wrong));
        CHECK_EQUAL(wrong, 0);
    }
    CHECK_OK(replay_fixture_append(&b, to + 5)); /* once round its own ring, and on */
    check_rows(&b, rows + 5, to);
    replay_fixture_close(&b);
}

TEST(rows_come_into_a_larger_and_a_smaller_ring)
{
    static const int64_t moves[][3] = {{100, 257, 60},
                                       {100, 257, 230 /* its ring had gone round */},
                                       {257, 100, 60},
                                       {257, 100, 100 /* just room */},
                                       {64, 65, 640}};
    for (int prioritized = 0; prioritized < 2; prioritized++)
        for (int64_t held = 0; held <= 70; held += 70)
            for (int i = 0; i < 5; i++)
                check_move(moves[i][0], moves[i][1], moves[i][2], held, prioritized);
}

TEST(rows_that_have_no_room_are_refused_and_nothing_changes)
{
    const gpur_replay_config theirs = config_of(257, 0), ours = config_of(100, 0);
    const char *const path = test_file_path("large");
    replay_fixture a, b;
    CHECK(replay_fixture_open(&a, test_device(), &theirs, 1));
    CHECK_OK(replay_fixture_append(&a, 101));
    CHECK_OK(gpur_replay_save(a.replay, path, NULL));
    replay_fixture_close(&a);
    CHECK(replay_fixture_open(&b, test_device(), &ours, 1));
    CHECK_OK(replay_fixture_append(&b, 30));
    CHECK_STATUS(gpur_replay_load(b.replay, path, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("the file has 101 transitions; this replay's capacity is 100");
    check_rows(&b, 0, 30);
    replay_fixture_close(&b);
}

/* ---- beside other threads: a file has each call of a writer whole or not at all ---- */

/* A step of all environments takes several blocks, and waits for one in its midst. */
enum { ENVS = 48 };

typedef struct crowd {
    gpur_device *device;
    gpur_replay *replay;
    gpur_writer *writer;
    atomic_int over;
    atomic_int bad; /* calls that failed */
} crowd;

static gpur_replay *open_crowded(gpur_device *device)
{
    const gpur_field fields[] = {
        {"obs", GPUR_INT32, {0}},      {"action", GPUR_INT32, {0}},    {"reward", GPUR_FLOAT32, {0}},
        {"next_obs", GPUR_INT32, {0}}, {"terminated", GPUR_BOOL, {0}},
    };
    gpur_replay_config config = replay_fixture_config(fields, 5, 4096, 8, 64);
    config.staging_blocks = 2;
    gpur_replay *replay = NULL;
    return gpur_replay_create(device, &config, &replay) == GPUR_OK ? replay : NULL;
}

/* Step n ends in observation n + 1, whatever it begins with. */
static gpur_status step(gpur_writer *writer, int32_t n)
{
    int32_t next[ENVS], action[ENVS] = {0};
    float reward[ENVS] = {0};
    uint8_t terminated[ENVS] = {0};
    for (int env = 0; env < ENVS; env++)
        next[env] = n + 1;
    return gpur_writer_step(writer, action, reward, next, terminated, NULL);
}

static void *step_on(void *context)
{
    crowd *const c = context;
    for (int32_t n = 0; !atomic_load(&c->over); n++)
        if (step(c->writer, n) != GPUR_OK)
            atomic_fetch_add(&c->bad, 1);
    return NULL;
}

static void *draw_on(void *context)
{
    crowd *const c = context;
    while (!atomic_load(&c->over)) {
        gpur_batch *batch = NULL;
        const gpur_status status = gpur_replay_sample(c->replay, 32, NULL, &batch);
        if (status != GPUR_OK && status != GPUR_TOO_FEW)
            atomic_fetch_add(&c->bad, 1);
        gpur_batch_release(batch);
        gpur_replay_stats stats = {.size = sizeof stats};
        if (gpur_replay_get_stats(c->replay, &stats) != GPUR_OK)
            atomic_fetch_add(&c->bad, 1);
    }
    return NULL;
}

/* In a replay of its own the next step begins where the last one in the file ended. */
static void check_whole(gpur_device *device, const char *path)
{
    gpur_replay *const replay = open_crowded(device);
    gpur_writer *writer = NULL;
    gpur_batch *batch = NULL;
    gpur_replay_stats stats = {.size = sizeof stats};
    int32_t obs[2], next_obs[2];
    CHECK(replay);
    CHECK_OK(gpur_writer_create(replay, ENVS, &writer));
    CHECK_OK(gpur_replay_load(replay, path, NULL));
    CHECK_OK(gpur_replay_get_stats(replay, &stats));
    CHECK_EQUAL(stats.appended % ENVS, 0);
    CHECK_OK(step(writer, 1 << 20));
    const int64_t end = stats.first_id + stats.visible, ids[2] = {end - 1, end};
    if (stats.visible > 0) {
        CHECK_OK(gpur_replay_gather(replay, 2, ids, NULL, &batch));
        CHECK_OK(gpur_batch_read(batch, "obs", obs, sizeof obs));
        CHECK_OK(gpur_batch_read(batch, "next_obs", next_obs, sizeof next_obs));
        gpur_batch_release(batch);
        CHECK_EQUAL(obs[1], next_obs[0]);
    }
    gpur_writer_destroy(writer);
    gpur_replay_destroy(replay);
}

TEST(files_have_calls_whole_or_not_at_all)
{
    crowd c = {.device = test_device()};
    const int32_t first[ENVS] = {0};
    pthread_t stepper, drawer;
    c.replay = open_crowded(c.device);
    CHECK(c.replay);
    CHECK_OK(gpur_writer_create(c.replay, ENVS, &c.writer));
    CHECK_OK(gpur_writer_reset(c.writer, -1, first));
    CHECK(pthread_create(&stepper, NULL, step_on, &c) == 0);
    CHECK(pthread_create(&drawer, NULL, draw_on, &c) == 0);
    for (int i = 0; i < (test_is_long() ? 400 : 40) && atomic_load(&test_state.failures) == 0; i++) {
        const char *const path = test_file_path("crowd");
        if (gpur_replay_save(c.replay, path, NULL) != GPUR_OK)
            atomic_fetch_add(&c.bad, 1);
        check_whole(c.device, path);
        if (i % 4 == 3 && gpur_replay_load(c.replay, path, NULL) != GPUR_OK)
            atomic_fetch_add(&c.bad, 1);
    }
    atomic_store(&c.over, 1);
    pthread_join(stepper, NULL);
    pthread_join(drawer, NULL);
    CHECK_EQUAL(atomic_load(&c.bad), 0);
    gpur_writer_destroy(c.writer);
    gpur_replay_destroy(c.replay);
    gpur_device_close(c.device);
}

#else

TEST(a_build_without_them_names_the_packages)
{
    gpur_device *const device = test_device();
    gpur_checkpoint_info info = {.size = sizeof info};
    checkpoint_fixture s;
    CHECK_OK(checkpoint_fixture_open(&s, device, 0));
    CHECK_STATUS(gpur_replay_save(s.replay, "file", NULL), GPUR_UNAVAILABLE);
    CHECK_MESSAGE("libcjson-dev libxxhash-dev");
    CHECK_STATUS(gpur_replay_load(s.replay, "file", NULL), GPUR_UNAVAILABLE);
    CHECK_STATUS(gpur_learner_save(s.learner, "file", NULL), GPUR_UNAVAILABLE);
    CHECK_STATUS(gpur_learner_load(s.learner, "file", NULL), GPUR_UNAVAILABLE);
    CHECK_STATUS(gpur_learner_save_weights(s.learner, "file", NULL), GPUR_UNAVAILABLE);
    CHECK_STATUS(gpur_learner_load_weights(s.learner, "file", NULL), GPUR_UNAVAILABLE);
    CHECK_STATUS(gpur_checkpoint_get_info("file", &info), GPUR_UNAVAILABLE);
    checkpoint_fixture_close(&s);
    gpur_device_close(device);
}

#endif

int main(int argc, char **argv)
{
    program = argv[0];
    test_main_begin(argc, argv);
#ifdef GPUR_HAS_FILES
    if (argc == 8 && strcmp(argv[3], "resume") == 0)
        return resume(argv + 4);
    RUN(a_run_goes_on_from_files_bit_for_bit);
    RUN(a_run_goes_back_to_files);
    RUN(a_large_ring_comes_back_whole);
    RUN(saving_twice_writes_the_same_bytes);
    RUN(an_empty_replay_comes_back_empty);
    RUN(a_file_tells_what_is_in_it);
    RUN(weights_go_to_another_learner);
    RUN(progress_is_told_and_interrupts);
    RUN(a_load_into_an_empty_replay_is_interrupted);
    RUN(rows_come_into_a_larger_and_a_smaller_ring);
    RUN(rows_that_have_no_room_are_refused_and_nothing_changes);
    RUN(files_have_calls_whole_or_not_at_all);
#else
    RUN(a_build_without_them_names_the_packages);
#endif
    test_remove_folder();
    return test_main_end();
}
