/* SPDX-License-Identifier: MIT */
/* Priorities as users give them: by a row's field, on the host and on the device, one after another; when the exponents
 * change; and what is refused. test_replay_model.c holds draws, updates and windows against the model. */
#include "reference/reference_priority.h"
#include "support/replay_fixture.h"
#include "test.h"

enum { CAPACITY = 300, UPDATE = 20, BATCH = 64 };

static const gpur_field plain[] = {{"a", GPUR_FLOAT32, {5}}, {"terminated", GPUR_BOOL, {0}}};

static int open_scene(replay_fixture *s, const gpur_field *fields, int32_t count)
{
    gpur_replay_config config = replay_fixture_config(fields, count, CAPACITY, UPDATE, BATCH);
    config.prioritized = 1, config.index_source = GPUR_PRIORITIZED_STRATIFIED, config.priority_offset = 0.5f;
    config.beta.first = 0.4f, config.beta.last = 1.0f, config.beta.begin = 2, config.beta.steps = 4;
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

static void check_held(replay_fixture *s, int64_t id, float want)
{
    float p = -1.0f;
    CHECK_OK(gpur_replay_get_priorities(s->replay, 1, &id, &p));
    CHECK_NEAR(p, want, 0);
}

TEST(rows_without_a_priority_get_the_largest_so_far)
{
    const int64_t ids[] = {2, 5};
    const float up[] = {7.0f, 0.25f}, down[] = {1.0f, 1.0f};
    replay_fixture s;
    CHECK(open_scene(&s, plain, 2));
    CHECK_OK(replay_fixture_append(&s, 10));
    check_held(&s, 3, 1.0f);
    CHECK_OK(gpur_replay_update_priorities(s.replay, 2, ids, up, NULL));
    CHECK_OK(gpur_replay_update_priorities(s.replay, 2, ids, down, NULL));
    CHECK_OK(replay_fixture_append(&s, 30)); /* the largest so far, not the largest now */
    check_held(&s, 10, 7.5f);
    check_held(&s, 9, 1.0f);
    const gpur_priority_stats stats = stats_of(s.replay);
    CHECK_NEAR(stats.max_priority, 7.5f, 0);
    CHECK_NEAR(stats.min_priority, 1.0f, 0);
    CHECK_NEAR(stats.total, 8 + 2 * pow(1.5, 0.6) + 30 * pow(7.5, 0.6), 1e-3);
    replay_fixture_close(&s);
}

/* A row that brings no priority gets the largest that any row before it brought, also where both become visible
 * together, where the other is overwritten unseen, and whoever looks in between. */
typedef struct bringing {
    int64_t part; /* rows of one append */
    int look;     /* somebody looks after every so many appends; 0: never */
    int32_t flush, feed, norm;
    int by_fields;
} bringing;

static void check_bringing(const bringing *b)
{
#ifdef GPUR_RACE_CHECK /* a thread for every thread of a block */
    enum { ROWS = 340 };
#else
    enum { ROWS = 1000 };
#endif
    static const gpur_field fields[] = {{"priority", GPUR_FLOAT32, {0}}};
    static float given[ROWS];
    gpur_replay_config config = replay_fixture_config(fields, 1, CAPACITY, UPDATE, BATCH);
    float most = 1.0f;
    int64_t lacking = 0;
    replay_fixture s;
    config.prioritized = 1, config.index_source = GPUR_PRIORITIZED_STRATIFIED, config.priority_offset = 0.5f;
    config.flush = b->flush, config.upload = b->feed, config.weight_norm = b->norm;
    CHECK(replay_fixture_open(&s, test_device(), &config, 1));
    for (int64_t i = 0; i < ROWS; i++)
        given[i] = i % 3 == 0 ? (float)((i * 37) % 101) * (float)(i + 1) / 128.0f : i % 3 == 1 ? -1.0f : NAN;
    for (int64_t i = 0, turn = 1; i < ROWS; i += b->part, turn++) {
        const int64_t count = ROWS - i < b->part ? ROWS - i : b->part;
        const void *const column = given + i;
        CHECK_OK(b->by_fields ? gpur_writer_append_fields(s.writer, count, &column, NULL, NULL)
                              : gpur_writer_append(s.writer, count, given + i, NULL));
        if (b->look > 0 && turn % b->look == 0)
            CHECK(stats_of(s.replay).updates == 0);
    }
    CHECK_OK(gpur_writer_flush(s.writer));
    CHECK(stats_of(s.replay).updates == 0);
    if (b->flush == GPUR_FLUSH_MANUAL) { /* a draw publishes */
        gpur_batch *batch = NULL;
        CHECK_OK(gpur_replay_sample(s.replay, 1, NULL, &batch));
        gpur_batch_release(batch);
    }
    for (int64_t id = 0; id < ROWS; id++) {
        if (id >= ROWS - CAPACITY)
            check_held(&s, id, given[id] >= 0.0f ? given[id] + 0.5f : most);
        lacking += !(given[id] >= 0.0f);
        most = given[id] + 0.5f > most ? given[id] + 0.5f : most;
    }
    const gpur_priority_stats stats = stats_of(s.replay); /* whose walk compares all sums, and the smallest leaves */
    CHECK_NEAR(stats.max_priority, most, 0);
    CHECK_EQUAL(stats.invalid, lacking);
    CHECK_EQUAL(stats.updates, 0);
    replay_fixture_close(&s);
}

TEST(rows_bring_their_own_priority_by_every_way_in_whoever_looks)
{
    static const int64_t parts[] = {1, 7, UPDATE, 33, 290, 1000};
    static const int looks[] = {0, 1, 4};
    for (int i = 0; i < 6 * 3 * 2; i++) {
        const int failures = atomic_load(&test_state.failures);
        const bringing b = {parts[i / 6], looks[i / 2 % 3], i % 2, i / 6 % 2, i / 6 % 3, i / 2 % 2};
        check_bringing(&b);
        TEST_REQUIRE(atomic_load(&test_state.failures) == failures, "parts of %d, look %d, flush %d, feed %d",
                     (int)b.part, b.look, (int)b.flush, (int)b.feed);
    }
}

TEST(arrays_on_the_device_update_like_arrays_on_the_host)
{
    const int64_t ids[] = {1, 2, 2, 1};
    const float p[] = {3, 4, 5, 1};
    replay_fixture s;
    CHECK(open_scene(&s, plain, 2));
    CHECK_OK(replay_fixture_append(&s, 10));
    void *const there[2] = {kit_upload(s.device, ids, sizeof ids), kit_upload(s.device, p, sizeof p)};
    CHECK_OK(gpur_replay_update_priorities(s.replay, 4, there[0], there[1], NULL));
    gpur_device_free(s.device, there[0]);
    gpur_device_free(s.device, there[1]);
    check_held(&s, 1, 3.5f);
    check_held(&s, 2, 5.5f);
    CHECK_OK(gpur_replay_update_priorities(s.replay, 0, NULL, NULL, NULL));
    CHECK_EQUAL(stats_of(s.replay).updates, 4);
    replay_fixture_close(&s);
}

/* What the host gives is free to change when the call returns, though it has yet to be carried out. */
TEST(updates_may_follow_each_other_without_waiting)
{
    replay_fixture s;
    int64_t ids[BATCH];
    float p[BATCH], held[CAPACITY];
    CHECK(open_scene(&s, plain, 2));
    CHECK_OK(replay_fixture_append(&s, CAPACITY));
    for (int round = 0; round < 200; round++) {
        for (int i = 0; i < BATCH; i++) {
            ids[i] = (round * 17 + i) % CAPACITY, p[i] = (float)(round + i);
            held[ids[i]] = p[i] + 0.5f;
        }
        CHECK_OK(gpur_replay_update_priorities(s.replay, BATCH, ids, p, NULL));
    }
    memset(ids, -1, sizeof ids);
    for (int id = 0; id < CAPACITY; id++)
        check_held(&s, id, held[id]);
    CHECK_EQUAL(stats_of(s.replay).updates, 200 * BATCH);
    replay_fixture_close(&s);
}

/* What is told of beta, and what the weights of each draw come to. */
TEST(exponents_change_by_schedule_and_when_they_are_set)
{
    enum { ROWS = 10, DRAWN = 4 };
    double leaves[ROWS], wanted[DRAWN];
    float weights[DRAWN];
    int64_t ids[DRAWN];
    replay_fixture s;
    CHECK(open_scene(&s, plain, 2));
    CHECK_OK(replay_fixture_append(&s, ROWS));
    for (int64_t i = 0; i < ROWS; i++) {
        const float p = (float)i;
        leaves[i] = reference_leaf((double)p + 0.5, 0.6);
        CHECK_OK(gpur_replay_update_priorities(s.replay, 1, &i, &p, NULL));
    }
    for (int draw = 0; draw < 8; draw++) {
        const double beta = draw <= 2 ? 0.4 : draw >= 6 ? 1.0 : 0.4 + 0.15 * (draw - 2);
        gpur_batch *batch = NULL;
        CHECK_NEAR(stats_of(s.replay).beta, beta, 1e-6);
        CHECK_OK(gpur_replay_sample(s.replay, DRAWN, NULL, &batch));
        CHECK_OK(gpur_batch_read(batch, "id", ids, sizeof ids));
        CHECK_OK(gpur_batch_read(batch, "weight", weights, sizeof weights));
        gpur_batch_release(batch);
        reference_weights(leaves, ROWS, ids, DRAWN, beta, REFERENCE_NORM_BATCH, wanted);
        for (int b = 0; b < DRAWN; b++)
            CHECK_NEAR(weights[b], wanted[b], 1e-5);
    }
    CHECK_OK(gpur_replay_set_beta(s.replay, 0.7f));
    CHECK_OK(gpur_replay_set_alpha(s.replay, 0.0f));
    const gpur_priority_stats stats = stats_of(s.replay);
    CHECK(stats.beta == 0.7f && stats.alpha == 0.0f && stats.total == ROWS);
    replay_fixture_close(&s);
}

#define REFUSED(call) CHECK_STATUS(call, GPUR_INVALID_ARGUMENT)

TEST(bad_calls_are_refused_and_change_nothing)
{
    const gpur_replay_config uniform = replay_fixture_config(plain, 2, CAPACITY, UPDATE, BATCH);
    replay_fixture s;
    int64_t id = 0, wrong = 0;
    float p = 3.0f;
    gpur_priority_stats stats = {.size = 0};
    CHECK(open_scene(&s, plain, 2));
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
    RUN(rows_without_a_priority_get_the_largest_so_far);
    RUN(rows_bring_their_own_priority_by_every_way_in_whoever_looks);
    RUN(arrays_on_the_device_update_like_arrays_on_the_host);
    RUN(updates_may_follow_each_other_without_waiting);
    RUN(exponents_change_by_schedule_and_when_they_are_set);
    RUN(bad_calls_are_refused_and_change_nothing);
    return test_main_end();
}
