/* SPDX-License-Identifier: MIT */
/* Priorities as users set them: by a row's field, and by updates from the host and from the device; train steps without
 * rows; and what is refused. test_replay_model.c compares samples, updates and windows with the model. */
#include "support/learner_fixture.h"
#include "support/replay_fixture.h"
#include "test.h"

enum { CAPACITY = 300, BLOCK = 20, BATCH = 64 };

static const gpur_field plain[] = {{"a", GPUR_FLOAT32, {5}}, {"terminated", GPUR_BOOL, {0}}};

static gpur_replay_config config_of(const gpur_field *fields, int32_t count)
{
    gpur_replay_config config = replay_fixture_config(fields, count, CAPACITY, BLOCK, BATCH);
    config.prioritized = 1, config.index_source = GPUR_PRIORITIZED_STRATIFIED, config.priority_offset = 0.5f;
    return config;
}

static int open_replay(replay_fixture *s)
{
    const gpur_replay_config config = config_of(plain, 2);
    return replay_fixture_open(s, test_device(), &config, 1);
}

static gpur_priority_stats stats_of(gpur_replay *replay)
{
    gpur_priority_stats stats = {.size = sizeof stats};
    int64_t wrong = -1;
    if (gpur_replay_check_priorities(replay, &wrong) != GPUR_OK || wrong != 0 ||
        gpur_replay_get_priority_stats(replay, &stats) != GPUR_OK)
        stats.updates = -1;
    return stats;
}

static void check_priority(replay_fixture *s, int64_t id, float want)
{
    float p = -1.0f;
    CHECK_OK(gpur_replay_get_priorities(s->replay, 1, &id, &p));
    CHECK_NEAR(p, want, 0);
}

/* A row without a priority gets the largest of the rows before it, also if both become visible together, if the other
 * is overwritten before it is visible, and whenever statistics are read. */
static void check_rows(int64_t part, int read_every, gpur_replay_config config, int by_fields)
{
    enum { ROWS = IN_RACE_CHECK ? 340 : 1000 };
    static float given[ROWS];
    float max = 1.0f;
    replay_fixture s;
    config.first_priority = GPUR_FIRST_PRIORITY_EVER;
    CHECK(replay_fixture_open(&s, test_device(), &config, 1));
    for (int64_t i = 0; i < ROWS; i++)
        given[i] = i % 3 == 0 ? (float)((i * 37) % 101) * (float)(i + 1) / 128.0f : NAN;
    for (int64_t i = 0, turn = 1; i < ROWS; i += part, turn++) {
        const int64_t count = ROWS - i < part ? ROWS - i : part;
        const void *const column = given + i;
        CHECK_OK(by_fields ? gpur_writer_append_fields(s.writer, count, &column, NULL, NULL)
                           : gpur_writer_append(s.writer, count, given + i, NULL));
        if (read_every > 0 && turn % read_every == 0)
            CHECK(stats_of(s.replay).updates == 0);
    }
    CHECK_OK(gpur_writer_flush(s.writer));
    CHECK(stats_of(s.replay).updates == 0);
    if (config.flush == GPUR_FLUSH_MANUAL) { /* a sample publishes */
        gpur_batch *batch = NULL;
        CHECK_OK(gpur_replay_sample(s.replay, 1, NULL, &batch));
        gpur_batch_release(batch);
    }
    for (int64_t id = 0; id < ROWS; id++) {
        const int good = given[id] >= 0.0f;
        if (id >= ROWS - CAPACITY)
            check_priority(&s, id, good ? given[id] + 0.5f : max);
        max = good && given[id] + 0.5f > max ? given[id] + 0.5f : max;
    }
    const gpur_priority_stats stats = stats_of(s.replay);
    CHECK_NEAR(stats.max_priority, max, 0);
    CHECK_EQUAL(stats.invalid, 0);
    CHECK_EQUAL(stats.updates, 0);
    replay_fixture_close(&s);
}

TEST(rows_have_their_own_priority_however_they_are_appended)
{
    static const gpur_field field = {"priority", GPUR_FLOAT32, {0}};
    static const int64_t parts[] = {1, 7, BLOCK, 33, 290, 1000};
    static const int every[] = {0, 1, 4};
    for (int i = 0; i < 6 * 3 * 2; i++) {
        const int failures = atomic_load(&test_state.failures);
        gpur_replay_config config = config_of(&field, 1);
        config.flush = i % 2, config.upload = i / 6 % 2, config.weight_norm = i / 6 % 3;
        check_rows(parts[i / 6], every[i / 2 % 3], config, i / 2 % 2);
        TEST_REQUIRE(atomic_load(&test_state.failures) == failures, "parts of %d, flush %d, upload %d",
                     (int)parts[i / 6], (int)config.flush, (int)config.upload);
    }
}

/* An update's host arrays may change when the call returns, before the device has carried it out. Some updates are from
 * arrays on the device. */
TEST(updates_from_the_host_and_from_the_device_follow_each_other_without_waiting)
{
    replay_fixture s;
    int64_t ids[BATCH];
    float p[BATCH], wanted[CAPACITY];
    CHECK(open_replay(&s));
    CHECK_OK(replay_fixture_append(&s, CAPACITY));
    for (int round = 0; round < 200; round++) {
        for (int i = 0; i < BATCH; i++) {
            ids[i] = (round * 17 + i) % CAPACITY, p[i] = (float)(round + i);
            wanted[ids[i]] = p[i] + 0.5f;
        }
        if (round % 50 < 49) {
            CHECK_OK(gpur_replay_update_priorities(s.replay, BATCH, ids, p, NULL));
            continue;
        }
        void *const copies[2] = {upload_to_device(s.device, ids, sizeof ids), upload_to_device(s.device, p, sizeof p)};
        CHECK_OK(gpur_replay_update_priorities(s.replay, BATCH, copies[0], copies[1], NULL));
        gpur_device_free(s.device, copies[0]);
        gpur_device_free(s.device, copies[1]);
    }
    CHECK_OK(gpur_replay_update_priorities(s.replay, 0, NULL, NULL, NULL));
    memset(ids, -1, sizeof ids);
    for (int id = 0; id < CAPACITY; id++)
        check_priority(&s, id, wanted[id]);
    CHECK_EQUAL(stats_of(s.replay).updates, 200 * BATCH);
    replay_fixture_close(&s);
}

/* And not as an update of stale ids. */
TEST(train_steps_without_rows_are_counted_as_skipped)
{
    static learner_fixture fixture;
    gpur_device *const device = test_device();
    gpur_dqn_config config = learner_fixture_config(GPUR_HEAD_DUELING, 1);
    gpur_learner *learner = NULL;
    config.index_source = GPUR_PRIORITIZED_STRATIFIED;
    CHECK_OK(learner_fixture_open_prioritized(&fixture, device, FIXTURE_ROWS, GPUR_WEIGHT_NORM_BATCH));
    CHECK_OK(gpur_dqn_create(fixture.replay, &config, &learner));
    CHECK_OK(gpur_learner_train(learner, 3));
    CHECK_OK(learner_fixture_set_window(learner, 0));
    CHECK_OK(gpur_learner_train(learner, 5));
    CHECK_OK(learner_fixture_set_window(learner, FIXTURE_ROWS));
    const gpur_learner_stats learned = learner_fixture_stats(learner);
    const gpur_priority_stats stats = stats_of(fixture.replay);
    CHECK(learned.steps == 3 && learned.skipped == 5);
    CHECK(stats.updates == 3 * 16 && stats.stale == 0);
    gpur_learner_destroy(learner);
    learner_fixture_close(&fixture);
    gpur_device_close(device);
}

#define REFUSED(call) CHECK_STATUS(call, GPUR_INVALID_ARGUMENT)

TEST(bad_calls_are_refused_and_change_nothing)
{
    const gpur_replay_config uniform = replay_fixture_config(plain, 2, CAPACITY, BLOCK, BATCH);
    replay_fixture s;
    int64_t id = 0, wrong = 0;
    float p = 3.0f;
    gpur_priority_stats stats = {.size = 0};
    CHECK(open_replay(&s));
    CHECK_STATUS(gpur_replay_get_priorities(s.replay, 1, &id, &p), GPUR_TOO_FEW);
    CHECK_OK(replay_fixture_append(&s, 10));
    REFUSED(gpur_replay_update_priorities(NULL, 1, &id, &p, NULL));
    REFUSED(gpur_replay_update_priorities(s.replay, -1, &id, &p, NULL));
    REFUSED(gpur_replay_update_priorities(s.replay, BATCH + 1, &id, &p, NULL));
    CHECK_MESSAGE("count is 65; it must be 0 to max_batch = 64");
    REFUSED(gpur_replay_update_priorities(s.replay, 1, NULL, &p, NULL));
    REFUSED(gpur_replay_update_priorities(s.replay, 1, &id, NULL, NULL));
    REFUSED(gpur_replay_get_priorities(s.replay, 0, &id, &p));
    id = 10;
    REFUSED(gpur_replay_get_priorities(s.replay, 1, &id, &p));
    CHECK_MESSAGE("ids[0] is 10; the visible transitions are 0 to 9");
    REFUSED(gpur_replay_update_priorities(s.replay, 1, &id, &p, NULL));
    CHECK_MESSAGE("ids[0] is 10; the visible transitions are 0 to 9");
    REFUSED(gpur_replay_set_alpha(s.replay, -1.0f));
    REFUSED(gpur_replay_set_beta(s.replay, NAN));
    REFUSED(gpur_replay_check_priorities(s.replay, NULL));
    REFUSED(gpur_replay_get_priority_stats(s.replay, &stats));
    if (!test_on_cuda())
        REFUSED(gpur_replay_update_priorities(s.replay, 1, &id, &p, &id));
    CHECK_EQUAL(stats_of(s.replay).updates, 0);
    replay_fixture_close(&s);
    CHECK(replay_fixture_open(&s, test_device(), &uniform, 1));
    REFUSED(gpur_replay_update_priorities(s.replay, 1, &id, &p, NULL));
    CHECK_MESSAGE("the replay has no priorities");
    REFUSED(gpur_replay_check_priorities(s.replay, &wrong));
    replay_fixture_close(&s);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(rows_have_their_own_priority_however_they_are_appended);
    RUN(updates_from_the_host_and_from_the_device_follow_each_other_without_waiting);
    RUN(train_steps_without_rows_are_counted_as_skipped);
    RUN(bad_calls_are_refused_and_change_nothing);
    return test_main_end();
}
