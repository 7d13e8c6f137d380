/* SPDX-License-Identifier: MIT */
/* Files whose checksums are right and which say what no replay comes to: refused, and nothing has changed. */
#include "support/checkpoint_fixture.h"
#include "replay/writer/frame_history.h"
#include "replay/writer/env_state.h"
#include "replay/replay.h"
#include "test.h"

/* Linked, prioritized, of three steps and two frames, which is all that a file can have; and packed, of three steps. */
enum { LINKED = 8, PACKED = 6, PLAYED = 40 };

typedef struct case_of_note {
    const char *key, *value, *message;
} case_of_note;

static const case_of_note notes[] = {
    {"rows", "-1", "a count of -1"},
    {"rows", "101", "the file has 101 rows; its capacity is 100"},
    {"rows", "99999999999999999999", "its note \"rows\""},
    {"rows", "1e3", "its note \"rows\""},
    {"rows", "7", "tensor \"rows\" is"},
    {"first_id", "4611686018427387904", "a count of 4611686018427387904"},
    {"writers", "-1", "a count of -1"},
    {"writers", "2", "no environments of its writer 1"},
    {"writers", "1000000000000", "no environments of its writer 1"},
    {"writers", "0", "tensors; this replay has"},
    {"stale", "-7", "a count of -7"},
    {"frame_head", "-5", "a count of -5"},
    {"frame_head", "1152921504606846976", "tensor \"frames\" is"},
    {"alpha", "0x7fc00000", "an alpha, beta or priority of nan"},
    {"alpha", "0xbf800000", "an alpha, beta or priority of -1"},
    {"most", "0x7f800000", "an alpha, beta or priority of inf"},
    {"beta_last", "0x1ffffffff", "its note \"beta_last\""},
    {"beta_begin", "-1", "begins before 0"},
};

/* A number put into a tensor, so many bytes from its start. */
typedef struct case_of_tensor {
    const char *name;
    int64_t at;
    int32_t bytes;
    int64_t value;
    const char *message;
} case_of_tensor;

#define EPISODE(member, value)                                                                                         \
    {                                                                                                                  \
        "writer.0.episodes", (int64_t)(sizeof(gpur_episode) + offsetof(gpur_episode, member)),                         \
            (int32_t)sizeof((gpur_episode *)0)->member, value, "an episode that no writer comes to"                    \
    }
#define GROUP(index, member, value)                                                                                    \
    {                                                                                                                  \
        "frame_groups", (int64_t)((index) * sizeof(gpur_frame_group) + offsetof(gpur_frame_group, member)), 8, value,  \
            "link to frames"                                                                                           \
    }

static const case_of_tensor tensors[] = {
    {"priorities", 5 * 4, 4, 0x7fc00000, "number 5 of its priorities is nan"},
    {"priorities", 0, 4, 0x7f800000, "number 0 of its priorities is inf"},
    {"priorities", 99 * 4, 4, 0xbf800000, "number 99 of its priorities is -1"},
    GROUP(0, oldest, -1),
    GROUP(0, oldest, (int64_t)1 << 40),
    GROUP(1, first, -1),
    GROUP(1, first, (int64_t)1 << 40),
    EPISODE(state, 3),
    EPISODE(state, -1),
    EPISODE(pending, -1),
    EPISODE(pending, 3),
    EPISODE(steps, -1),
    EPISODE(steps, INT64_MAX),
    EPISODE(previous, -2),
    EPISODE(previous, (int64_t)1 << 40),
    {"writer.0.newest", 8, 8, (int64_t)1 << 40, "an episode that no writer comes to"},
    {"writer.0.newest", 0, 8, -1, "an episode that no writer comes to"},
};

static checkpoint_fixture fixture;
static char good[128], bad[128];
static forgery forged; /* of the scene's file */

static void set_up(int variant)
{
    snprintf(good, sizeof good, "%s", test_file_path("good"));
    snprintf(bad, sizeof bad, "%s", test_file_path("bad"));
    CHECK_OK(scene_play(&fixture, test_device(), variant, PLAYED));
    CHECK_OK(gpur_replay_save(fixture.replay, good, NULL));
}

static void tear_down(void)
{
    gpur_device *const device = fixture.device;
    checkpoint_fixture_close(&fixture);
    gpur_device_close(device);
}

/* By the replay that holds rows, and by one that is empty, which is filled while its file is read the first time. */
static void check_refused(const char *what, const char *message)
{
    checkpoint_fixture empty;
    const char *const path = test_file_path("nothing");
    CHECK(forgery_write(&forged, bad) == 0);
    forgery_close(&forged);
    for (int i = 0; i < 2; i++) {
        if (i == 1)
            CHECK_OK(checkpoint_fixture_open(&empty, fixture.device, fixture.variant));
        gpur_replay *const replay = i == 0 ? fixture.replay : empty.replay;
        CHECK_OK(gpur_replay_save(replay, path, NULL));
        const gpur_status status = gpur_replay_load(replay, bad, NULL);
        TEST_REQUIRE(status == GPUR_FILE_ERROR || status == GPUR_INVALID_ARGUMENT, "%s: %s", what,
                     gpur_status_name(status));
        TEST_REQUIRE(strstr(gpur_last_error(), message), "%s: \"%s\"; wanted \"%s\" in it", what, gpur_last_error(),
                     message);
        TEST_REQUIRE(replay_is_as(replay, path), "%s changed the replay", what);
    }
    checkpoint_fixture_close(&empty);
}

TEST(forged_numbers_are_refused)
{
    set_up(LINKED);
    for (size_t i = 0; i < sizeof notes / sizeof *notes; i++) {
        CHECK(forgery_open(&forged, good) && forgery_note(&forged, notes[i].key, notes[i].value));
        check_refused(notes[i].key, notes[i].message);
    }
    tear_down();
}

TEST(forged_tensors_are_refused)
{
    set_up(LINKED);
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
        const case_of_tensor *const c = &tensors[i];
        CHECK(forgery_open(&forged, good));
        unsigned char *const bytes = forgery_tensor(&forged, c->name);
        CHECK(bytes);
        memcpy(bytes + c->at, &c->value, (size_t)c->bytes);
        check_refused(c->name, c->message);
    }
    tear_down();
}

/* What the numbers of frames would betray in a linked one. */
TEST(forged_episodes_of_a_packed_replay_are_refused)
{
    static const int64_t wrong[] = {-1, 0, INT64_MAX};
    set_up(PACKED);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        gpur_episode episode;
        CHECK(forgery_open(&forged, good) && forgery_tensor(&forged, "writer.0.episodes"));
        memcpy(&episode, forgery_tensor(&forged, "writer.0.episodes"), sizeof episode);
        episode.steps = wrong[i];
        episode.pending = 1;
        memcpy(forgery_tensor(&forged, "writer.0.episodes"), &episode, sizeof episode);
        check_refused("writer.0.episodes", "an episode that no writer comes to");
    }
    tear_down();
}

/* Of the first environment's newest frame, which its next row links to; `alias_of` 0 stands for itself, and link 0 for
 * that of its id. */
TEST(forged_places_of_frames_are_refused)
{
    static const gpur_frame_entry wrong[] = {{.alias_of = 1 << 20, .id = -1},
                                             {.alias_of = -2, .id = -1},
                                             {.alias_of = 0, .id = -2},
                                             {.alias_of = 0, .id = (int64_t)1 << 40},
                                             {.alias_of = 0, .id = 3, .link = 99}};
    set_up(LINKED);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        int64_t newest;
        CHECK(forgery_open(&forged, good) && forgery_tensor(&forged, "writer.0.newest") &&
              forgery_tensor(&forged, "writer.0.places"));
        memcpy(&newest, forgery_tensor(&forged, "writer.0.newest"), sizeof newest);
        const int64_t room = gpur_power_above(CHECKPOINT_STACK + 3 - 1),
                      at = (newest & (room - 1)) * (int64_t)sizeof *wrong;
        const int64_t slot = wrong[i].id % fixture.replay->layout.frame_layout.frames;
        const gpur_frame_entry place = {wrong[i].alias_of == 0 ? newest : wrong[i].alias_of, wrong[i].id,
                                        wrong[i].link == 0 ? (uint32_t)slot + 1 : wrong[i].link};
        memcpy(forgery_tensor(&forged, "writer.0.places") + at, &place, sizeof place);
        check_refused("writer.0.places", "an episode that no writer comes to");
    }
    tear_down();
}

TEST(sizes_that_overflow_are_refused)
{
    set_up(LINKED);
    CHECK(forgery_open(&forged, good));
    for (int32_t i = 0; i < forged.file.tensors.count; i++)
        if (strcmp(forged.file.tensors.entries[i].name, "rows") == 0)
            forged.file.tensors.entries[i].shape[0] = forged.file.tensors.entries[i].shape[1] = (int64_t)1 << 40;
    check_refused("rows", "too many");
    tear_down();
}

/* Links are not looked at one by one in loading: one beyond the slots is no frame, whose numbers are 0. */
TEST(forged_links_read_nothing_but_frames)
{
    gpur_batch *batch = NULL;
    float obs[8 * CHECKPOINT_STACK * CHECKPOINT_FEATURES];
    set_up(LINKED);
    const gpur_ring_layout *const storage = &fixture.replay->layout;
    const int64_t pitch = storage->rows.pitch, at = storage->rows.fields[storage->links].offset;
    CHECK(forgery_open(&forged, good) && forgery_tensor(&forged, "rows"));
    for (int64_t row = 0; row < 100; row++)
        for (int64_t link = 0; link < (int64_t)2 * CHECKPOINT_STACK; link++) {
            const uint32_t wrong = link % 2 ? UINT32_MAX : (uint32_t)storage->frame_layout.frames + 1;
            memcpy(forgery_tensor(&forged, "rows") + row * pitch + at + link * 4, &wrong, sizeof wrong);
        }
    CHECK(forgery_write(&forged, bad) == 0);
    CHECK_OK(gpur_replay_load(fixture.replay, bad, NULL));
    CHECK_OK(gpur_replay_sample(fixture.replay, 8, NULL, &batch));
    CHECK_OK(gpur_batch_read(batch, "obs", obs, sizeof obs));
    gpur_batch_release(batch);
    for (size_t i = 0; i < sizeof obs / sizeof *obs; i++)
        CHECK(obs[i] == 0.0f);
    CHECK_OK(checkpoint_fixture_run(&fixture, PLAYED, PLAYED + 20));
    forgery_close(&forged);
    tear_down();
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(forged_numbers_are_refused);
    RUN(forged_tensors_are_refused);
    RUN(forged_episodes_of_a_packed_replay_are_refused);
    RUN(forged_places_of_frames_are_refused);
    RUN(sizes_that_overflow_are_refused);
    RUN(forged_links_read_nothing_but_frames);
    test_remove_folder();
    return test_main_end();
}
