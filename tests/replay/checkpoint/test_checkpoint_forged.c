/* SPDX-License-Identifier: MIT */
/* Files whose checksums are right and whose numbers no replay can have: refused, and nothing has changed. */
#include "base/numbers.h"
#include "file/checkpoint_file.h"
#include "replay/replay.h"
#include "replay/writer/env_state.h"
#include "replay/writer/frame_history.h"
#include "support/checkpoint_fixture.h"
#include "test.h"

/* Layout frames, prioritized, of three steps and two frames; layout rows; and layout rows with eviction by priority. */
enum { FRAMES = 8, ROWS = 6, EVICTS = 10, STEPS = 40 };

/* A note with this text, or so many bytes of a number in a tensor, so many bytes from its start. */
typedef struct forged_case {
    const char *name, *text;
    int64_t at;
    int32_t bytes;
    int64_t value;
    const char *message;
} forged_case;

#define NOTE(name, text, message)                                                                                      \
    {                                                                                                                  \
        name, text, 0, 0, 0, message                                                                                   \
    }
#define EPISODE(member, value)                                                                                         \
    {                                                                                                                  \
        "writer.0.episodes", NULL, (int64_t)(sizeof(gpur_episode) + offsetof(gpur_episode, member)),                   \
            (int32_t)sizeof((gpur_episode *)0)->member, value, no_episode                                              \
    }
#define GROUP(index, member, value)                                                                                    \
    {                                                                                                                  \
        "frame_groups", NULL, (int64_t)((index) * sizeof(gpur_frame_group) + offsetof(gpur_frame_group, member)), 8,   \
            value, "link to frames"                                                                                    \
    }

static const char no_episode[] = "an episode that no writer comes to";

static const forged_case cases[] = {
    NOTE("rows", "-1", "a count of -1"),
    NOTE("rows", "101", "the file has 101 rows; its capacity is 100"),
    NOTE("rows", "99999999999999999999", "its note \"rows\""),
    NOTE("rows", "1e3", "its note \"rows\""),
    NOTE("rows", "7", "tensor \"rows\" is"),
    NOTE("first_id", "4611686018427387904", "a count of 4611686018427387904"),
    NOTE("writers", "-1", "a count of -1"),
    NOTE("writers", "2", "no environments of its writer 1"),
    NOTE("writers", "1000000000000", "no environments of its writer 1"),
    NOTE("writers", "0", "tensors; this replay has"),
    NOTE("stale", "-7", "a count of -7"),
    NOTE("frame_head", "-5", "a count of -5"),
    NOTE("frame_head", "1152921504606846976", "tensor \"frames\" is"),
    NOTE("alpha", "0x7fc00000", "an alpha, beta or priority of nan"),
    NOTE("alpha", "0xbf800000", "an alpha, beta or priority of -1"),
    NOTE("most", "0x7f800000", "an alpha, beta or priority of inf"),
    NOTE("octave", "151", "priorities of a scale of 2^151; it must be 2^-150 to 2^150"),
    NOTE("evict_octave", "-151", "priorities of a scale of 2^-151"),
    NOTE("beta_last", "0x1ffffffff", "its note \"beta_last\""),
    NOTE("beta_begin", "-1", "begins before 0"),
    {"priorities", NULL, 5 * 4, 4, 0x7fc00000, "number 5 of its priorities is nan"},
    {"priorities", NULL, 0, 4, 0x7f800000, "number 0 of its priorities is inf"},
    {"priorities", NULL, 99 * 4, 4, 0xbf800000, "number 99 of its priorities is -1"},
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
    EPISODE(previous, -((int64_t)1 << 40)),
    EPISODE(previous, (int64_t)1 << 40),
    {"writer.0.newest", NULL, 8, 8, (int64_t)1 << 40, no_episode},
    {"writer.0.newest", NULL, 0, 8, -1, no_episode},
};

static gpur_device *device;
static checkpoint_fixture fixture, empty;
static gpur_checkpoint file; /* the fixture's; its tensors and notes are changed */
static unsigned char *data;  /* and its bytes, likewise */

static void set_up(int variant)
{
    CHECK_OK(checkpoint_fixture_start(&fixture, device, variant, STEPS));
    CHECK_OK(checkpoint_fixture_open(&empty, device, variant));
    CHECK_OK(gpur_replay_save(fixture.replay, test_file_path("good"), NULL));
}

static void tear_down(void)
{
    checkpoint_fixture_close(&fixture);
    checkpoint_fixture_close(&empty);
}

static void begin_forgery(void)
{
    int64_t bytes = 0;
    CHECK_OK(gpur_checkpoint_open(&file, test_file_path("good")));
    data = read_file(test_file_path("good"), &bytes);
    CHECK(data);
}

static unsigned char *tensor(const char *name)
{
    const gpur_tensor_entry *const entry = gpur_tensors_find(&file.tensors, name);
    return entry ? data + file.data_at + entry->begin : NULL;
}

static void change(const forged_case *c)
{
    gpur_metadata_entry *note = file.tensors.metadata;
    if (!c->text) {
        CHECK(tensor(c->name));
        memcpy(tensor(c->name) + c->at, &c->value, (size_t)c->bytes);
        return;
    }
    while (note < file.tensors.metadata + file.tensors.metadata_count && strcmp(note->key, c->name) != 0)
        note++;
    CHECK(note < file.tensors.metadata + file.tensors.metadata_count);
    snprintf(note->value, sizeof note->value, "%s", c->text);
}

/* Writes the file with its checksums corrected. */
static void end_forgery(void)
{
    CHECK(write_forged(&file, data, test_file_path("bad")) == 0);
    free(data);
    gpur_checkpoint_close(&file);
}

/* By the replay that holds rows, and by one that is empty, which is filled while its file is read the first time. */
static void check_refused(const char *what, const char *message)
{
    const char *const before = test_file_path("before");
    end_forgery();
    for (int i = 0; i < 2; i++) {
        gpur_replay *const replay = i == 0 ? fixture.replay : empty.replay;
        CHECK_OK(gpur_replay_save(replay, before, NULL));
        const gpur_status status = gpur_replay_load(replay, test_file_path("bad"), NULL);
        TEST_REQUIRE((status == GPUR_FILE_ERROR || status == GPUR_INVALID_ARGUMENT) &&
                         strstr(gpur_last_error(), message),
                     "%s: %s: \"%s\"; wanted \"%s\" in it", what, gpur_status_name(status), gpur_last_error(), message);
        TEST_REQUIRE(replay_is_as(replay, before), "%s changed the replay", what);
    }
}

TEST(forged_notes_and_tensors_are_refused)
{
    set_up(FRAMES);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin_forgery();
        change(&cases[i]);
        check_refused(cases[i].name, cases[i].message);
    }
    tear_down();
}

/* Such a file does not have the scale of the leaves, which then follows from the largest priority. */
TEST(a_file_of_an_earlier_version_is_loaded)
{
    gpur_priority_stats before = {.size = sizeof before}, after = before;
    int64_t wrong = -1;
    set_up(FRAMES);
    begin_forgery();
    for (int32_t i = 0; i < file.tensors.metadata_count; i++)
        if (strstr(file.tensors.metadata[i].key, "octave"))
            file.tensors.metadata[i].key[0] = 'x';
    end_forgery();
    CHECK_OK(gpur_replay_load(empty.replay, test_file_path("bad"), NULL));
    CHECK_OK(gpur_replay_check_priorities(empty.replay, &wrong));
    CHECK_EQUAL(wrong, 0);
    CHECK_OK(gpur_replay_get_priority_stats(fixture.replay, &before));
    CHECK_OK(gpur_replay_get_priority_stats(empty.replay, &after));
    CHECK(before.max_priority == after.max_priority && before.nonzero == after.nonzero && after.raised == 0);
    CHECK_NEAR(after.total, before.total, 1e-6 * before.total);
    tear_down();
}

/* What the numbers of frames would betray in a replay that stores frames once. */
TEST(forged_episodes_of_a_replay_of_rows_are_refused)
{
    static const forged_case pending = EPISODE(pending, 1);
    static const forged_case steps[] = {EPISODE(steps, -1), EPISODE(steps, 0), EPISODE(steps, INT64_MAX)};
    set_up(ROWS);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        begin_forgery();
        change(&pending);
        change(&steps[i]);
        check_refused(steps[i].name, no_episode);
    }
    tear_down();
}

/* Kernels use them as indices. A slot that has a row cannot wait for one, and no slot waits twice. */
TEST(forged_slots_are_refused)
{
    static const char message[] = "in slots that it cannot have";
    int64_t turns[100], slots[100];
    set_up(EVICTS);
    CHECK_OK(gpur_replay_trim(fixture.replay, 90));
    CHECK_OK(gpur_replay_save(fixture.replay, test_file_path("good"), NULL));
    begin_forgery();
    CHECK(tensor("turns") && tensor("slots"));
    memcpy(turns, tensor("turns"), sizeof turns);
    memcpy(slots, tensor("slots"), sizeof slots);
    const int64_t first = fixture.replay->window.host.first_id, rows = fixture.replay->window.host.count;
    const int64_t waits = (first + rows) % 100, has_row = (first + rows - 1) % 100;
    CHECK(rows < 99 && first > 0);
    const forged_case wrong[] = {{"turns", NULL, 8 * 3, 8, -1, message},
                                 {"turns", NULL, 8 * 3, 8, turns[3] ^ 1, message},
                                 {"turns", NULL, 8 * 3, 8, turns[3] + ((int64_t)1 << 40), message},
                                 {"slots", NULL, 8 * has_row, 8, -1, message},
                                 {"slots", NULL, 8 * has_row, 8, 100, message},
                                 {"slots", NULL, 8 * waits, 8, slots[(waits + 1) % 100], message},
                                 {"slots", NULL, 8 * waits, 8, slots[has_row], message}};
    end_forgery();
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        begin_forgery();
        change(&wrong[i]);
        check_refused(wrong[i].name, message);
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
    set_up(FRAMES);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        int64_t newest;
        begin_forgery();
        CHECK(tensor("writer.0.newest") && tensor("writer.0.places"));
        memcpy(&newest, tensor("writer.0.newest"), sizeof newest);
        const int64_t room = gpur_power_above(CHECKPOINT_STACK + 3 - 1),
                      at = (newest & (room - 1)) * (int64_t)sizeof *wrong;
        const int64_t slot = wrong[i].id % fixture.replay->layout.frame_layout.frames;
        const gpur_frame_entry place = {wrong[i].alias_of == 0 ? newest : wrong[i].alias_of, wrong[i].id,
                                        wrong[i].link == 0 ? (uint32_t)slot + 1 : wrong[i].link};
        memcpy(tensor("writer.0.places") + at, &place, sizeof place);
        check_refused("writer.0.places", no_episode);
    }
    tear_down();
}

TEST(sizes_that_overflow_are_refused)
{
    set_up(FRAMES);
    begin_forgery();
    for (int32_t i = 0; i < file.tensors.count; i++)
        if (strcmp(file.tensors.entries[i].name, "rows") == 0)
            file.tensors.entries[i].shape[0] = file.tensors.entries[i].shape[1] = (int64_t)1 << 40;
    check_refused("rows", "too many");
    tear_down();
}

/* Loading does not check every link: one beyond the slots is no frame, whose numbers are 0. */
TEST(forged_links_read_nothing_except_frames)
{
    gpur_batch *batch = NULL;
    float obs[8 * CHECKPOINT_STACK * CHECKPOINT_FEATURES];
    set_up(FRAMES);
    const gpur_ring_layout *const storage = &fixture.replay->layout;
    const int64_t pitch = storage->rows.pitch, at = storage->rows.fields[storage->links].offset;
    begin_forgery();
    CHECK(tensor("rows"));
    for (int64_t row = 0; row < 100; row++)
        for (int64_t link = 0; link < (int64_t)2 * CHECKPOINT_STACK; link++) {
            const uint32_t wrong = link % 2 ? UINT32_MAX : (uint32_t)storage->frame_layout.frames + 1;
            memcpy(tensor("rows") + row * pitch + at + link * 4, &wrong, sizeof wrong);
        }
    end_forgery();
    CHECK_OK(gpur_replay_load(fixture.replay, test_file_path("bad"), NULL));
    CHECK_OK(gpur_replay_sample(fixture.replay, 8, NULL, &batch));
    CHECK_OK(gpur_batch_read(batch, "obs", obs, sizeof obs));
    gpur_batch_release(batch);
    for (size_t i = 0; i < sizeof obs / sizeof *obs; i++)
        CHECK(obs[i] == 0.0f);
    CHECK_OK(checkpoint_fixture_run(&fixture, STEPS, STEPS + 20));
    tear_down();
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
    RUN(forged_notes_and_tensors_are_refused);
    RUN(a_file_of_an_earlier_version_is_loaded);
    RUN(forged_episodes_of_a_replay_of_rows_are_refused);
    RUN(forged_slots_are_refused);
    RUN(forged_places_of_frames_are_refused);
    RUN(sizes_that_overflow_are_refused);
    RUN(forged_links_read_nothing_except_frames);
    gpur_device_close(device);
    test_remove_folder();
    return test_main_end();
}
