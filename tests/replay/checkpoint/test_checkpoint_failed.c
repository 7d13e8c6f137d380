/* SPDX-License-Identifier: MIT */
/*
 * Loads that fail when they have begun to fill memory: the file is cut short or changed under them. A replay that held
 * rows is empty then, one that was empty is as it was, and writers, whose episodes go on, play on into both.
 */
#include "support/file_kit.h"
#include "support/episode_kit.h"
#include "test.h"

#include <unistd.h>

#ifndef GPUR_HAS_FILES

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    printf("test_checkpoint_failed: skipped: a build without cJSON or xxHash\n");
    return 77;
}

#else

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
    FILE *const file = fopen(s->path, "r+b");
    fseek(file, -100, SEEK_END);
    const int byte = fgetc(file);
    fseek(file, -100, SEEK_END);
    fputc(byte ^ 1, file);
    fclose(file);
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

static linked_setting setting_of(int prioritized)
{
    const linked_setting setting = {
        .shape = {3, 0}, .writers = 1, .envs = ENVS, .autoreset = GPUR_AUTORESET_NEXT_STEP, .ends_in = 9,
        .capacity = CAPACITY, .update_size = 64, .max_batch = BATCH, .n_step = 3, .staging_blocks = 4,
        .prioritized = prioritized, .index_source = prioritized ? GPUR_PRIORITIZED : GPUR_UNIFORM, .alpha = 0.7f,
        .priority_offset = 0.01f,
    };
    return setting;
}

static void play_on(linked_world *w, int steps)
{
    for (int i = 0; i < steps; i++)
        CHECK_OK(play_step(&w->plays[0]));
}

/* 1 when saving it writes what is at `path`. */
static int holds_what_is_at(gpur_replay *replay, const char *path)
{
    int64_t bytes[2] = {0, 0};
    const char *const again = scene_path("again");
    if (gpur_replay_save(replay, again, NULL) != GPUR_OK)
        return 0;
    unsigned char *const now = read_file(again, &bytes[0]), *const then = read_file(path, &bytes[1]);
    const int same = now && then && bytes[0] == bytes[1] && memcmp(now, then, (size_t)bytes[0]) == 0;
    free(now);
    free(then);
    return same;
}

/* Packed, linked by stacks and linked by frames, beside the history. */
static void check_full(int how, int prioritized)
{
    static const char *const names[LINKED_REPLAYS] = {"packed", "stacks", "frames"};
    const linked_setting setting = setting_of(prioritized);
    linked_world w;
    CHECK(linked_open(&w, test_device(), &setting, 5));
    play_on(&w, PLAYED);
    for (int r = 0; r < LINKED_REPLAYS; r++)
        CHECK_OK(gpur_replay_save(w.replays[r], scene_path(names[r]), NULL));
    play_on(&w, 50);
    for (int r = 0; r < LINKED_REPLAYS; r++) {
        load_spoiled(w.replays[r], scene_path(names[r]), how, 2);
        check_empty(w.replays[r], prioritized);
        load_spoiled(w.replays[r], scene_path(names[r]), how, r == 0 ? 1 : 2); /* frames are something to lose, too */
        check_empty(w.replays[r], prioritized);
    }
    play_on(&w, 500);
    CHECK(gpur_replay_size(w.replays[1]) > 400 * ENVS);
    CHECK_EQUAL(linked_wrong(&w, 0), 0);
    CHECK_EQUAL(linked_draws_differ(&w, BATCH), 0);
    for (int r = 0; r < LINKED_REPLAYS; r++) {
        CHECK_OK(gpur_replay_load(w.replays[r], scene_path(names[r]), NULL));
        CHECK(holds_what_is_at(w.replays[r], scene_path(names[r])));
    }
    linked_close(&w);
}

TEST(a_replay_is_empty_and_can_be_used)
{
    for (int prioritized = 0; prioritized < 2; prioritized++)
        for (int how = 0; how < FAILURES; how++)
            check_full(how, prioritized);
}

/* Nothing to lose: its file is read once. Its writer has open episodes. */
static void check_fresh(linked_world *w, int how)
{
    const char *const path = scene_path("stacks"), *const nothing = scene_path("nothing");
    gpur_replay *fresh = NULL;
    gpur_writer *writer = NULL;
    unsigned char obs[ENVS * 3 * PLAY_FRAME] = {1, 2, 3};
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
    CHECK(holds_what_is_at(fresh, nothing));
    CHECK_OK(gpur_replay_load(fresh, path, NULL));
    CHECK(holds_what_is_at(fresh, path));
    gpur_writer_destroy(writer);
    gpur_replay_destroy(fresh);
}

TEST(an_empty_replay_is_as_it_was)
{
    const linked_setting setting = setting_of(1);
    linked_world w;
    CHECK(linked_open(&w, test_device(), &setting, 5));
    play_on(&w, PLAYED);
    CHECK_OK(gpur_replay_save(w.replays[1], scene_path("stacks"), NULL));
    for (int how = 0; how < FAILURES; how++)
        check_fresh(&w, how);
    linked_close(&w);
}

/* Whoever of the threads that read it comes upon it. */
TEST(a_flip_in_any_chunk_is_found_before_anything_changes)
{
    const linked_setting setting = setting_of(0);
    const char *const path = scene_path("whole"), *const bad = scene_path("bad");
    char message[64];
    linked_world w;
    int64_t bytes = 0;
    CHECK(linked_open(&w, test_device(), &setting, 5));
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
    CHECK(data && holds_what_is_at(w.replays[0], path));
    free(data);
    linked_close(&w);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(a_replay_is_empty_and_can_be_used);
    RUN(an_empty_replay_is_as_it_was);
    RUN(a_flip_in_any_chunk_is_found_before_anything_changes);
    scene_remove_folder();
    return test_main_end();
}

#endif
