/* SPDX-License-Identifier: MIT */
/*
 * No row is ever torn while all append, draw, gather, train and act: see soak.h. GPUR_TEST_SECONDS says how long it is
 * to go on; without it a few seconds, and with GPUR_TEST_LONG two minutes. Prints what each replay has been through.
 */
#include "support/soak.h"
#include "test.h"

static const soak_case packed[] = {
    {"rows, uniform", &soak_packed, GPUR_UNIFORM, GPUR_FLUSH_AUTO, GPUR_FEED_COPY, GPUR_STEP_AUTO},
    {"rows, distinct, by scatter", &soak_packed, GPUR_UNIFORM_DISTINCT, GPUR_FLUSH_MANUAL, GPUR_FEED_SCATTER,
     GPUR_STEP_AUTO},
    {"rows, by priority, by scatter", &soak_packed, GPUR_PRIORITIZED, GPUR_FLUSH_AUTO, GPUR_FEED_SCATTER,
     GPUR_STEP_AUTO},
    {"rows, by priority", &soak_packed, GPUR_PRIORITIZED_PLAIN, GPUR_FLUSH_MANUAL, GPUR_FEED_COPY, GPUR_STEP_AUTO},
    {"rows, uniform, one kernel", &soak_packed, GPUR_UNIFORM, GPUR_FLUSH_AUTO, GPUR_FEED_COPY, GPUR_STEP_ONE_KERNEL},
    {"rows, by priority, one kernel", &soak_packed, GPUR_PRIORITIZED, GPUR_FLUSH_AUTO, GPUR_FEED_COPY,
     GPUR_STEP_ONE_KERNEL},
};
static const soak_case linked[] = {
    {"frames, uniform", &soak_linked, GPUR_UNIFORM, GPUR_FLUSH_AUTO, GPUR_FEED_COPY, GPUR_STEP_AUTO},
    {"frames, by priority", &soak_linked, GPUR_PRIORITIZED, GPUR_FLUSH_MANUAL, GPUR_FEED_COPY, GPUR_STEP_AUTO},
};
enum { CASES = (sizeof packed + sizeof linked) / sizeof(soak_case) };

static double seconds_each(void)
{
    const char *const text = getenv("GPUR_TEST_SECONDS");
    return (text ? atof(text) : test_is_long() ? 120.0 : 2.0) / CASES;
}

static void check_learner(soak *s)
{
    gpur_learner_stats stats = {.size = sizeof stats};
    CHECK_OK(gpur_learner_sync(s->learner));
    CHECK_OK(gpur_learner_get_stats(s->learner, &stats));
    CHECK_EQUAL(stats.steps, atomic_load(&s->counts.steps));
    CHECK_EQUAL(stats.skipped, 0);
    CHECK_EQUAL(stats.invalid_actions, 0);
    CHECK(isfinite(stats.loss));
}

/* Every priority that anybody gave was taken or was stale, and the tree adds up. */
static void check_priorities(soak *s)
{
    gpur_priority_stats stats = {.size = sizeof stats};
    const int64_t given = atomic_load(&s->counts.ranked) + atomic_load(&s->counts.steps) * SOAK_BATCH;
    int64_t wrong = -1;
    CHECK_OK(gpur_replay_check_priorities(s->replay, &wrong));
    CHECK_EQUAL(wrong, 0);
    CHECK_OK(gpur_replay_get_priority_stats(s->replay, &stats));
    CHECK_EQUAL(stats.updates + stats.stale, given);
    CHECK_EQUAL(stats.invalid, 0);
}

static void check_replay(soak *s)
{
    gpur_replay_stats stats = {.size = sizeof stats};
    CHECK_OK(gpur_replay_get_stats(s->replay, &stats));
    CHECK(s->setting.kind == &soak_linked || stats.appended == atomic_load(&s->counts.given));
    CHECK_EQUAL(stats.batches_alive, 0);
    printf("  %s: %lld rows, %lld times round the ring, %lld batches, %lld train steps; %lld rows looked at, none "
           "torn\n",
           s->setting.words, (long long)stats.appended, (long long)(stats.evicted / SOAK_CAPACITY),
           (long long)atomic_load(&s->counts.batches), (long long)atomic_load(&s->counts.steps),
           (long long)atomic_load(&s->counts.rows));
}

static void check_end(soak *s)
{
    TEST_REQUIRE(!s->failure[0], "%s: %s", s->setting.words, s->failure);
    check_learner(s);
    if (s->setting.source == GPUR_PRIORITIZED || s->setting.source == GPUR_PRIORITIZED_PLAIN)
        check_priorities(s);
    check_replay(s);
}

static void check_cases(const soak_case *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        gpur_device *const device = test_device();
        gpur_device_info info = {.size = sizeof info};
        soak s;
        soak_run(&s, device, &cases[i], seconds_each());
        check_end(&s);
        soak_close(&s);
        CHECK_OK(gpur_device_get_info(device, &info));
        CHECK_EQUAL(info.memory_used, 0);
        gpur_device_close(device);
    }
}

TEST(no_row_is_torn_while_all_append_draw_train_and_act)
{
    check_cases(packed, sizeof packed / sizeof *packed);
}

TEST(no_frame_is_torn_while_all_step_draw_train_and_act)
{
    check_cases(linked, sizeof linked / sizeof *linked);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(no_row_is_torn_while_all_append_draw_train_and_act);
    RUN(no_frame_is_torn_while_all_step_draw_train_and_act);
    return test_main_end();
}
