/* SPDX-License-Identifier: MIT */
/*
 * Saving and loading: a run that goes on from files is the run that went on; rings of another capacity; what a file
 * says of itself; weights; progress; and saving while other threads step and sample. test_checkpoint_kill.c goes on
 * from files in another process; test_checkpoint_refusals.c compares every row of a ring of several MiB.
 */
#include "base/status.h"
#include "support/checkpoint_fixture.h"
#include "support/episode_fixture.h"
#include "support/replay_fixture.h"
#include "test.h"

#include <pthread.h>
#include <unistd.h>

static gpur_device *device;

#ifdef GPUR_HAS_FILES

enum {
    SAVED_AT = 58,
    END = 131,
    MAX_ROWS = 300, /* of a replay that is loaded into another capacity */
};

static const char *replay_path, *learner_path, *weights_path;

static gpur_status save_both(const checkpoint_fixture *s)
{
    GPUR_TRY(gpur_replay_save(s->replay, replay_path, NULL));
    return gpur_learner_save(s->learner, learner_path, NULL);
}

static gpur_status load_both(const checkpoint_fixture *s)
{
    GPUR_TRY(gpur_learner_load(s->learner, learner_path, NULL));
    return gpur_replay_load(s->replay, replay_path, NULL);
}

/* New objects from the files. The writer is opened before they are read, or after. */
static gpur_status open_from_files(checkpoint_fixture *s, int variant, int is_early)
{
    GPUR_TRY(checkpoint_fixture_open(s, device, variant));
    if (is_early)
        GPUR_TRY(checkpoint_fixture_begin(s, 1));
    GPUR_TRY(load_both(s));
    return is_early ? GPUR_OK : checkpoint_fixture_begin(s, 1);
}

/* The run's second half, of which alone there is a trace then. */
static gpur_status go_on(checkpoint_fixture *s)
{
    s->traced = 0;
    GPUR_TRY(checkpoint_fixture_run(s, SAVED_AT, END));
    return checkpoint_fixture_finish(s);
}

/* In new objects, and in those once more, which are at the run's end by then. */
TEST(a_run_goes_on_from_files_bit_for_bit)
{
    static checkpoint_fixture first, other;
    for (int variant = 0; variant < CHECKPOINT_VARIANTS; variant++) {
        CHECK_OK(checkpoint_fixture_start(&first, device, variant, SAVED_AT));
        CHECK_OK(save_both(&first));
        CHECK_OK(go_on(&first));
        CHECK(first.traced > 1000 && first.traced < CHECKPOINT_TRACE - 200);
        CHECK_OK(open_from_files(&other, variant, variant % 2));
        for (int time = 0; time < 2; time++) {
            CHECK_OK(time == 0 ? GPUR_OK : load_both(&other));
            CHECK_OK(go_on(&other));
            CHECK_EQUAL(other.traced, first.traced);
            for (int i = 0; i < first.traced; i++)
                TEST_REQUIRE(memcmp(&other.trace[i], &first.trace[i], sizeof *first.trace) == 0,
                             "variant %d, time %d: number %d of %d differs", variant, time, i, first.traced);
        }
        checkpoint_fixture_close(&other);
        checkpoint_fixture_close(&first);
    }
}

TEST(an_empty_replay_comes_back_empty)
{
    checkpoint_fixture s;
    CHECK_OK(checkpoint_fixture_open(&s, device, 0));
    CHECK_OK(gpur_replay_save(s.replay, replay_path, NULL));
    CHECK_OK(checkpoint_fixture_begin(&s, 0));
    CHECK_OK(checkpoint_fixture_run(&s, 0, SAVED_AT));
    CHECK_OK(gpur_replay_load(s.replay, replay_path, NULL));
    CHECK_EQUAL(gpur_replay_size(s.replay), 0);
    CHECK_FAILS(checkpoint_fixture_run(&s, SAVED_AT, END), GPUR_INVALID_ARGUMENT, "no open episode");
    checkpoint_fixture_close(&s);
}

TEST(a_file_says_what_is_in_it_and_weights_go_to_another_learner)
{
    const float obs[CHECKPOINT_FEATURES] = {0.1f, -0.2f, 0.3f, -0.4f, 0.5f};
    gpur_checkpoint_info info = {.size = sizeof info};
    float q[3], other_q[3];
    checkpoint_fixture s, other;
    CHECK_OK(checkpoint_fixture_start(&s, device, 1, SAVED_AT));
    CHECK_OK(save_both(&s));
    CHECK_OK(gpur_learner_save_weights(s.learner, weights_path, NULL));
    CHECK_OK(gpur_checkpoint_get_info(replay_path, &info));
    CHECK(strcmp(info.kind, "replay") == 0 && strcmp(info.version, gpur_version()) == 0);
    CHECK(info.rows == 100 && info.capacity == 100 && info.writers == 1 && info.steps == -1);
    CHECK_EQUAL(info.first_id, SAVED_AT * CHECKPOINT_ENVS - 100);
    CHECK_OK(gpur_checkpoint_get_info(learner_path, &info));
    CHECK(strcmp(info.kind, "learner") == 0 && info.steps == 32 && info.rows == -1);
    CHECK_EQUAL(info.weights, CHECKPOINT_FEATURES * 16 + 16 + 2 * (16 * 12 + 12) + 12 * (3 + 1) + 3 + 1);
    CHECK_OK(gpur_checkpoint_get_info(weights_path, &info));
    CHECK(strcmp(info.kind, "weights") == 0);
    CHECK_EQUAL(info.tensors, gpur_learner_weight_count(s.learner));
    CHECK_OK(checkpoint_fixture_open(&other, device, 1));
    CHECK_OK(gpur_learner_load_weights(other.learner, weights_path, NULL));
    CHECK_OK(gpur_learner_load_weights(s.learner, weights_path, NULL)); /* its older copy acts as well */
    CHECK_OK(gpur_learner_q_values(s.learner, 1, obs, q, NULL));
    CHECK_OK(gpur_learner_q_values(other.learner, 1, obs, other_q, NULL));
    CHECK(memcmp(q, other_q, sizeof q) == 0);
    checkpoint_fixture_close(&other);
    CHECK_OK(checkpoint_fixture_open(&other, device, 0));
    CHECK_STATUS(gpur_learner_load_weights(other.learner, weights_path, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(gpur_learner_load(other.learner, weights_path, NULL), GPUR_FILE_ERROR);
    CHECK_MESSAGE("it is a weights file; it must be a learner file");
    checkpoint_fixture_close(&other);
    checkpoint_fixture_close(&s);
}

typedef struct progress {
    int64_t done, all, calls, stop_after;
    int is_wrong; /* it went backwards, or past the end */
} progress;

static int32_t note_progress(void *user, int64_t done, int64_t all)
{
    progress *const p = user;
    p->is_wrong |= done <= p->done || done > all || (p->calls > 0 && all != p->all);
    p->done = done;
    p->all = all;
    return ++p->calls == p->stop_after;
}

/* A load into an empty replay, which reads the file once, can be interrupted as well; so can one into a learner. */
TEST(progress_is_reported_and_interrupts)
{
    progress seen = {0};
    gpur_checkpoint_options options;
    gpur_checkpoint_info info = {.size = sizeof info};
    checkpoint_fixture s, empty;
    CHECK_OK(gpur_checkpoint_options_init(&options, sizeof options));
    options.progress = note_progress, options.progress_user = &seen;
    CHECK_OK(checkpoint_fixture_open(&empty, device, 0));
    CHECK_OK(checkpoint_fixture_start(&s, device, 0, 20));
    CHECK_OK(gpur_learner_save(s.learner, learner_path, NULL));
    CHECK_OK(gpur_replay_save(s.replay, replay_path, &options));
    CHECK(seen.calls > 0 && seen.done == seen.all && !seen.is_wrong);
    CHECK_OK(gpur_checkpoint_get_info(replay_path, &info));
    CHECK_OK(checkpoint_fixture_run(&s, 20, 30));
    for (int call = 0; call < 4; call++) {
        seen = (progress){.stop_after = 1};
        CHECK_STATUS(call == 0   ? gpur_replay_save(s.replay, replay_path, &options)
                     : call == 1 ? gpur_replay_load(s.replay, replay_path, &options)
                     : call == 2 ? gpur_learner_load(empty.learner, learner_path, &options)
                                 : gpur_replay_load(empty.replay, replay_path, &options),
                     GPUR_INTERRUPTED);
        CHECK(access(test_file_path("replay.part"), F_OK) != 0);
        CHECK(gpur_replay_size(s.replay) == 90 && gpur_replay_size(empty.replay) == 0);
    }
    CHECK_EQUAL(seen.all, info.bytes);
    seen = (progress){0};
    CHECK_OK(gpur_replay_load(s.replay, replay_path, &options));
    CHECK(seen.done == seen.all && !seen.is_wrong);
    CHECK_EQUAL(gpur_replay_size(s.replay), 60); /* the file is that of the first save */
    CHECK_OK(gpur_replay_load(empty.replay, replay_path, NULL));
    CHECK(replay_is_as(empty.replay, replay_path));
    checkpoint_fixture_close(&empty);
    checkpoint_fixture_close(&s);
}

/* ---- another capacity ---- */

static int open_replay(replay_fixture *s, int64_t capacity, int prioritized)
{
    static const gpur_field fields[] = {
        {"obs", GPUR_FLOAT32, {3}}, {"terminated", GPUR_BOOL, {0}}, {"priority", GPUR_FLOAT32, {0}}};
    gpur_replay_config config = replay_fixture_config(fields, 3, capacity, 8, 16);
    config.prioritized = prioritized;
    config.index_source = prioritized ? GPUR_PRIORITIZED_STRATIFIED : GPUR_UNIFORM;
    return replay_fixture_open(s, test_device(), &config, 1);
}

/* All rows and their priorities, one by one. */
static void check_rows(replay_fixture *s, int64_t first, int64_t count, float *priorities)
{
    CHECK_EQUAL(gpur_replay_size(s->replay), count);
    CHECK_EQUAL(replay_fixture_stats(s->replay).first_id, first);
    for (int64_t id = first; id < first + count; id++) {
        CHECK_OK(replay_fixture_gather(s, 1, &id));
        if (priorities)
            CHECK_OK(gpur_replay_get_priorities(s->replay, 1, &id, &priorities[id - first]));
    }
}

/* `rows` appended to a replay of capacity `from`, saved, and loaded into one of capacity `to` that held `held`. */
static void check_move(int64_t from, int64_t to, int64_t rows, int64_t held, int prioritized)
{
    const int64_t count = rows < from ? rows : from, first = rows - count;
    float before[MAX_ROWS], after[MAX_ROWS];
    replay_fixture a, b;
    CHECK(open_replay(&a, from, prioritized));
    CHECK_OK(replay_fixture_append(&a, rows));
    check_rows(&a, first, count, prioritized ? before : NULL);
    CHECK_OK(gpur_replay_save(a.replay, replay_path, NULL));
    replay_fixture_close(&a);
    CHECK(open_replay(&b, to, prioritized));
    CHECK_OK(replay_fixture_append(&b, held));
    if (count > to) { /* refused, and nothing changes */
        CHECK_STATUS(gpur_replay_load(b.replay, replay_path, NULL), GPUR_INVALID_ARGUMENT);
        CHECK_MESSAGE("the file has 101 transitions; this replay's capacity is 100");
        check_rows(&b, 0, held, NULL);
        replay_fixture_close(&b);
        return;
    }
    CHECK_OK(gpur_replay_load(b.replay, replay_path, NULL));
    b.next = rows;
    check_rows(&b, first, count, prioritized ? after : NULL);
    if (prioritized) {
        int64_t wrong = -1;
        CHECK(memcmp(before, after, (size_t)count * sizeof *before) == 0);
        CHECK_OK(gpur_replay_check_priorities(b.replay, &wrong));
        CHECK_EQUAL(wrong, 0);
    }
    CHECK_OK(replay_fixture_append(&b, to + 5)); /* once round its own ring, and on */
    check_rows(&b, rows + 5, to, NULL);
    replay_fixture_close(&b);
}

TEST(rows_come_into_a_larger_and_a_smaller_ring_if_they_have_room)
{
    static const int64_t moves[][3] = {{100, 257, 60},  {100, 257, 230 /* its ring had gone round */},
                                       {257, 100, 60},  {257, 100, 100 /* just room */},
                                       {257, 100, 101}, {64, 65, 640}};
    for (int prioritized = 0; prioritized < 2; prioritized++)
        for (int64_t held = 0; held <= 70; held += 70)
            for (int i = 0; i < 6; i++)
                check_move(moves[i][0], moves[i][1], moves[i][2], held, prioritized);
}

/* ---- beside other threads: a file has each call of a writer whole or not at all ---- */

/* A step of all environments takes several blocks, and waits for one before it is done. */
enum { ENVS = 48 };

static replay_fixture shared;
static atomic_int is_over, failed_calls;

static int open_steps(replay_fixture *s)
{
    const gpur_field fields[] = {
        {"obs", GPUR_INT32, {0}},      {"action", GPUR_INT32, {0}},    {"reward", GPUR_FLOAT32, {0}},
        {"next_obs", GPUR_INT32, {0}}, {"terminated", GPUR_BOOL, {0}},
    };
    gpur_replay_config config = replay_fixture_config(fields, 5, 4096, 8, 64);
    config.staging_blocks = 2;
    return replay_fixture_open(s, test_device(), &config, ENVS);
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

static void *step_on(void *unused)
{
    for (int32_t n = 0; !atomic_load(&is_over); n++)
        atomic_fetch_add(&failed_calls, step(shared.writer, n) != GPUR_OK);
    return unused;
}

static void *sample_on(void *unused)
{
    while (!atomic_load(&is_over)) {
        gpur_batch *batch = NULL;
        const gpur_status status = gpur_replay_sample(shared.replay, 32, NULL, &batch);
        gpur_batch_release(batch);
        atomic_fetch_add(&failed_calls, (status != GPUR_OK && status != GPUR_TOO_FEW) ||
                                            replay_fixture_stats(shared.replay).visible < 0);
    }
    return unused;
}

/* In a replay of its own the next step begins where the last one in the file ended. */
static void check_whole(void)
{
    int32_t obs[2], next_obs[2];
    replay_fixture s;
    CHECK(open_steps(&s));
    CHECK_OK(gpur_replay_load(s.replay, replay_path, NULL));
    const gpur_replay_stats stats = replay_fixture_stats(s.replay);
    CHECK_EQUAL(stats.appended % ENVS, 0);
    CHECK_OK(step(s.writer, 1 << 20));
    if (stats.visible > 0) {
        const int64_t last = stats.first_id + stats.visible - 1;
        CHECK_OK(read_rows(s.replay, "obs", last, 2, obs, 4));
        CHECK_OK(read_rows(s.replay, "next_obs", last, 2, next_obs, 4));
        CHECK_EQUAL(obs[1], next_obs[0]);
    }
    replay_fixture_close(&s);
}

TEST(files_have_calls_whole_or_not_at_all)
{
    const int32_t first[ENVS] = {0};
    pthread_t stepper, sampler;
    CHECK(open_steps(&shared));
    CHECK_OK(gpur_writer_reset(shared.writer, -1, first));
    CHECK(pthread_create(&stepper, NULL, step_on, NULL) == 0);
    CHECK(pthread_create(&sampler, NULL, sample_on, NULL) == 0);
    for (int i = 0; i < (test_is_long() ? 400 : 40) && atomic_load(&test_state.failures) == 0; i++) {
        atomic_fetch_add(&failed_calls, gpur_replay_save(shared.replay, replay_path, NULL) != GPUR_OK);
        check_whole();
        if (i % 4 == 3)
            atomic_fetch_add(&failed_calls, gpur_replay_load(shared.replay, replay_path, NULL) != GPUR_OK);
    }
    atomic_store(&is_over, 1);
    pthread_join(stepper, NULL);
    pthread_join(sampler, NULL);
    CHECK_EQUAL(atomic_load(&failed_calls), 0);
    replay_fixture_close(&shared);
}

static void run_all(void)
{
    replay_path = test_file_path("replay"), learner_path = test_file_path("learner");
    weights_path = test_file_path("weights");
    RUN(a_run_goes_on_from_files_bit_for_bit);
    RUN(an_empty_replay_comes_back_empty);
    RUN(a_file_says_what_is_in_it_and_weights_go_to_another_learner);
    RUN(progress_is_reported_and_interrupts);
    RUN(rows_come_into_a_larger_and_a_smaller_ring_if_they_have_room);
    RUN(files_have_calls_whole_or_not_at_all);
}

#else

TEST(a_build_without_files_names_the_packages)
{
    gpur_checkpoint_info info = {.size = sizeof info};
    checkpoint_fixture s;
    CHECK_OK(checkpoint_fixture_open(&s, device, 0));
    CHECK_FAILS(gpur_replay_save(s.replay, "file", NULL), GPUR_UNAVAILABLE, "libcjson-dev libxxhash-dev");
    CHECK_STATUS(gpur_replay_load(s.replay, "file", NULL), GPUR_UNAVAILABLE);
    CHECK_STATUS(gpur_learner_save(s.learner, "file", NULL), GPUR_UNAVAILABLE);
    CHECK_STATUS(gpur_learner_load(s.learner, "file", NULL), GPUR_UNAVAILABLE);
    CHECK_STATUS(gpur_learner_save_weights(s.learner, "file", NULL), GPUR_UNAVAILABLE);
    CHECK_STATUS(gpur_learner_load_weights(s.learner, "file", NULL), GPUR_UNAVAILABLE);
    CHECK_STATUS(gpur_checkpoint_get_info("file", &info), GPUR_UNAVAILABLE);
    checkpoint_fixture_close(&s);
}

static void run_all(void)
{
    RUN(a_build_without_files_names_the_packages);
}

#endif

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
    run_all();
    gpur_device_close(device);
    test_remove_folder();
    return test_main_end();
}
