/* SPDX-License-Identifier: MIT */
/* Files that are not what was written are refused with a message, and change nothing. */
#include "support/file_scene.h"
#include "support/replay_kit.h"
#include "test.h"

#include <sys/stat.h>
#include <unistd.h>

#ifndef GPUR_HAS_FILES

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    printf("test_checkpoint_refusals: skipped: a build without cJSON or xxHash\n");
    return 77;
}

#else

/* A scene, and its three files. PLAIN is packed; EVERYTHING is linked, prioritized and of three steps. */
enum { KINDS = 3, PLAIN = 1, EVERYTHING = 9 };
typedef struct files {
    gpur_device *device;
    file_scene scene;
    const char *path; /* of a file that is to be refused */
    unsigned char *good[KINDS];
    int64_t bytes[KINDS];
} files;

static gpur_status save_kind(files *f, int kind, const char *path)
{
    return kind == 0   ? gpur_replay_save(f->scene.replay, path, NULL)
           : kind == 1 ? gpur_learner_save(f->scene.learner, path, NULL)
                       : gpur_learner_save_weights(f->scene.learner, path, NULL);
}

static gpur_status load_kind(files *f, int kind, const char *path)
{
    return kind == 0   ? gpur_replay_load(f->scene.replay, path, NULL)
           : kind == 1 ? gpur_learner_load(f->scene.learner, path, NULL)
                       : gpur_learner_load_weights(f->scene.learner, path, NULL);
}

static void open_files(files *f, int variant)
{
    memset(f, 0, sizeof *f);
    f->device = test_device();
    f->path = scene_path("bad");
    CHECK_OK(scene_open(&f->scene, f->device, variant));
    CHECK_OK(scene_begin(&f->scene, 0));
    CHECK_OK(scene_run(&f->scene, 0, 40));
    for (int kind = 0; kind < KINDS; kind++) {
        const char *const path = scene_path("good");
        CHECK_OK(save_kind(f, kind, path));
        f->good[kind] = read_file(path, &f->bytes[kind]);
        CHECK(f->good[kind]);
    }
}

/* 1 when saving writes, bit for bit, what it wrote at first: nothing has changed. */
static int is_untouched(files *f, int kind)
{
    int64_t bytes = 0;
    const char *const path = scene_path("again");
    if (save_kind(f, kind, path) != GPUR_OK)
        return 0;
    unsigned char *const now = read_file(path, &bytes);
    const int same = now && bytes == f->bytes[kind] && memcmp(now, f->good[kind], (size_t)bytes) == 0;
    free(now);
    return same;
}

static void close_files(files *f)
{
    for (int kind = 0; kind < KINDS; kind++)
        free(f->good[kind]);
    scene_close(&f->scene);
    gpur_device_close(f->device);
}

/* Every 17th of them where each is slower. */
static void refuse_truncations(files *f, int kind, int64_t *tried)
{
    const int64_t step = test_rounds(100) < 100 ? 17 : 1;
    CHECK(write_file(f->path, f->good[kind], f->bytes[kind]) == 0);
    for (int64_t length = f->bytes[kind] - 1; length >= 0; length -= step, ++*tried) {
        CHECK(truncate(f->path, length) == 0);
        CHECK_STATUS(load_kind(f, kind, f->path), GPUR_FILE_ERROR);
        CHECK_MESSAGE(f->path);
    }
    CHECK(is_untouched(f, kind));
}

TEST(every_truncation_is_refused)
{
    int64_t tried = 0;
    for (int variant = PLAIN; variant <= EVERYTHING; variant += EVERYTHING - PLAIN) {
        files f;
        open_files(&f, variant);
        for (int kind = 0; kind < KINDS; kind++)
            refuse_truncations(&f, kind, &tried);
        close_files(&f);
    }
    printf("  %lld truncations refused\n", (long long)tried);
}

static int64_t damage_often(unsigned char *data, const files *f, int kind, uint64_t *random)
{
    int64_t bytes = f->bytes[kind], head = 8;
    for (int i = 0; i < 8; i++)
        head += (int64_t)f->good[kind][i] << 8 * i;
    memcpy(data, f->good[kind], (size_t)bytes);
    for (int64_t times = 1 + kit_below(random, 3); times > 0 && bytes > head; times--)
        bytes = damage_file(data, bytes, head, random);
    return bytes;
}

static void check_mutations(files *f, int kind, int64_t count, uint64_t *random, int64_t *refused)
{
    unsigned char *const data = malloc((size_t)f->bytes[kind] + 256);
    CHECK(data && write_file(f->path, f->good[kind], f->bytes[kind]) == 0);
    for (int64_t i = 0; i < count;) {
        const int64_t bytes = damage_often(data, f, kind, random);
        if (bytes == f->bytes[kind] && memcmp(data, f->good[kind], (size_t)bytes) == 0)
            continue;
        CHECK(overwrite_file(f->path, data, bytes) == 0);
        const gpur_status status = load_kind(f, kind, f->path);
        TEST_REQUIRE(status == GPUR_FILE_ERROR && gpur_last_error()[0], "mutation %lld of kind %d: %s: %s",
                     (long long)i, kind, gpur_status_name(status), gpur_last_error());
        i++;
        ++*refused;
    }
    free(data);
    CHECK(is_untouched(f, kind));
}

TEST(random_mutations_are_refused)
{
    uint64_t random = 20;
    int64_t refused = 0;
    const int64_t count = (int64_t)test_rounds(100000) / (2 * KINDS) + 1;
    for (int variant = PLAIN; variant <= EVERYTHING; variant += EVERYTHING - PLAIN) {
        files f;
        open_files(&f, variant);
        for (int kind = 0; kind < KINDS; kind++)
            check_mutations(&f, kind, count, &random, &refused);
        close_files(&f);
    }
    printf("  %lld mutations refused\n", (long long)refused);
    CHECK_EQUAL(refused, count * 2 * KINDS);
}

TEST(every_flipped_bit_is_refused)
{
    files f;
    open_files(&f, PLAIN);
    for (int kind = 0; kind < KINDS; kind++)
        for (int64_t bit = 0; bit < 8 * f.bytes[kind]; bit += test_is_long() ? 1 : 41) {
            f.good[kind][bit / 8] ^= (unsigned char)(1 << bit % 8);
            CHECK(write_file(f.path, f.good[kind], f.bytes[kind]) == 0);
            CHECK_STATUS(load_kind(&f, kind, f.path), GPUR_FILE_ERROR);
            f.good[kind][bit / 8] ^= (unsigned char)(1 << bit % 8);
        }
    CHECK(is_untouched(&f, 0) && is_untouched(&f, 1) && is_untouched(&f, 2));
    close_files(&f);
}

/* Flips a byte of the file's data when the first pass is over, which is the only one where nothing can be lost. */
static int32_t change_file(void *path, int64_t done, int64_t all)
{
    int64_t bytes = 0;
    free(read_file(path, &bytes));
    FILE *const file = done == bytes ? fopen(path, "r+b") : NULL;
    if (!file)
        return done != all;
    fseek(file, -100, SEEK_END);
    const int byte = fgetc(file);
    fseek(file, -100, SEEK_END);
    fputc(byte ^ 1, file);
    fclose(file);
    return 0;
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
    CHECK_OK(gpur_learner_load(f.scene.learner, path, &options)); /* which reads once, and had read all of it */
    CHECK(is_untouched(&f, 1));
    CHECK_STATUS(gpur_learner_load(f.scene.learner, path, NULL), GPUR_FILE_ERROR);
    CHECK_MESSAGE("are not what was written");
    CHECK(write_file(path, f.good[0], f.bytes[0]) == 0);
    CHECK_STATUS(gpur_replay_load(f.scene.replay, path, &options), GPUR_FILE_ERROR);
    CHECK(is_untouched(&f, 0)); /* nothing of its only chunk was copied */
    CHECK(write_file(path, f.good[0], f.bytes[0]) == 0);
    CHECK_OK(gpur_replay_load(f.scene.replay, path, NULL));
    CHECK(is_untouched(&f, 0));
    close_files(&f);
}

TEST(what_is_no_file_is_refused)
{
    files f;
    open_files(&f, PLAIN);
    const char *const link = scene_path("link"), *const pipe = scene_path("pipe");
    CHECK_STATUS(load_kind(&f, 0, "no-such-folder/x"), GPUR_FILE_ERROR);
    CHECK_MESSAGE("No such file");
    CHECK_STATUS(load_kind(&f, 0, "."), GPUR_FILE_ERROR);
    CHECK_MESSAGE("is a folder");
    CHECK(symlink("good", link) == 0);
    CHECK_STATUS(load_kind(&f, 2, link), GPUR_FILE_ERROR);
    CHECK_MESSAGE("symbolic link");
    CHECK_STATUS(save_kind(&f, 0, link), GPUR_FILE_ERROR);
    CHECK_MESSAGE("symbolic link");
    CHECK(mkfifo(pipe, 0600) == 0);
    CHECK_STATUS(load_kind(&f, 0, pipe), GPUR_FILE_ERROR);
    CHECK_MESSAGE("no ordinary file");
    CHECK_STATUS(save_kind(&f, 0, "no-such-folder/x"), GPUR_FILE_ERROR);
    CHECK_MESSAGE("folder cannot be opened");
    CHECK_STATUS(save_kind(&f, 0, ""), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(gpur_replay_save(f.scene.replay, NULL, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(gpur_replay_load(NULL, "x", NULL), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(gpur_learner_load(NULL, "x", NULL), GPUR_INVALID_ARGUMENT);
    close_files(&f);
}

/* Another replay's file: what differs is named with both values. */
static void check_difference(files *f, gpur_replay_config config, const gpur_field *fields, int32_t count,
                             const char *message)
{
    gpur_replay *other = NULL;
    const char *const path = scene_path("other");
    config.fields = fields;
    config.field_count = count;
    CHECK_OK(gpur_replay_create(f->device, &config, &other));
    CHECK_OK(gpur_replay_save(other, path, NULL));
    CHECK_STATUS(gpur_replay_load(f->scene.replay, path, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE(message);
    gpur_replay_destroy(other);
}

TEST(other_settings_are_named)
{
    files f;
    gpur_field fields[] = {
        {"obs", GPUR_FLOAT32, {SCENE_FEATURES}}, {"action", GPUR_INT32, {0}},
        {"reward", GPUR_FLOAT32, {0}},           {"next_obs", GPUR_FLOAT32, {SCENE_FEATURES}},
        {"terminated", GPUR_BOOL, {0}},          {"truncated", GPUR_BOOL, {0}},
    };
    open_files(&f, PLAIN);
    gpur_replay_config config = kit_config(fields, 6, 100, 8, 32);
    config.reward_clip = 1.5f;
    check_difference(&f, config, fields, 5, "fields is \"5\" in the file; this replay has \"6\"");
    config.gamma = 0.5f;
    check_difference(&f, config, fields, 6, "gamma is \"0.5\" in the file; this replay has \"0.99");
    fields[3].shape[1] = 2;
    check_difference(&f, config, fields, 6, "field.3 is \"next_obs float32 of 5 x 2\"");
    CHECK(is_untouched(&f, 0));
    close_files(&f);
}

TEST(a_writer_of_other_environments_is_named)
{
    files f;
    open_files(&f, PLAIN);
    gpur_writer_destroy(f.scene.writer);
    CHECK_OK(gpur_writer_create(f.scene.replay, SCENE_ENVS + 1, &f.scene.writer));
    CHECK(write_file(f.path, f.good[0], f.bytes[0]) == 0);
    CHECK_STATUS(load_kind(&f, 0, f.path), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("the file's writer 0 has 3 environments; this replay's has 4");
    close_files(&f);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(every_truncation_is_refused);
    RUN(random_mutations_are_refused);
    RUN(every_flipped_bit_is_refused);
    RUN(a_file_that_changes_while_it_is_read_is_refused);
    RUN(what_is_no_file_is_refused);
    RUN(other_settings_are_named);
    RUN(a_writer_of_other_environments_is_named);
    scene_remove_folder();
    return test_main_end();
}

#endif
