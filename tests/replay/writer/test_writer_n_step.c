/* SPDX-License-Identifier: MIT */
/* What a writer makes of steps when a transition takes several: returns, tails, ends, and rows that must wait. */
#include "support/episode_kit.h"
#include "support/gate_cpu.h"
#include "replay/replay.h"
#include "test.h"

/* One step of one environment; the observation after step t is t + 1. */
static gpur_status take(gpur_writer *writer, int t, float reward, int terminated, int truncated)
{
    const float next_obs = (float)(t + 1);
    const int32_t action = t;
    const uint8_t ends = (uint8_t)terminated, cut = (uint8_t)truncated;
    return gpur_writer_step(writer, &action, &reward, &next_obs, &ends, &cut);
}

static gpur_status reset_to(gpur_writer *writer, float obs)
{
    return gpur_writer_reset(writer, 0, &obs);
}

/* The ten steps of dqnl's own test [Daley & Amato 2019]: blocks of three, each of which the table ends with a
 * bootstrap; done at the third and the eighth step. */
static const float table_rewards[] = {10, -10, 20, -20, 30, -30, 40, -40, 50};
static const float table_max_q[] = {100, 200, 300, 400, 300, 200, 100, 200, 300, 400};
static const double table_returns[] = {17.2, 8, 20, 55.6, 84, 60, 4, -40, 410};

TEST(three_step_returns_are_those_of_the_published_table)
{
    gpur_replay_config config = episode_config(7, 3, 0.9f);
    episode_row rows[9];
    kit_scene s;
    CHECK(kit_open(&s, test_device(), &config, 1));
    for (int t = 0; t < 9; t++) {
        if (t % 3 == 0 || t == 8)
            CHECK_OK(reset_to(s.writer, (float)t));
        CHECK_OK(take(s.writer, t, table_rewards[t], t == 2 || t == 7, t == 5 || t == 8));
    }
    CHECK_EQUAL(episode_appended(s.replay), 9);
    CHECK_OK(episode_rows(s.replay, 0, 9, rows));
    for (int i = 0; i < 9; i++) {
        const float q = table_max_q[(int)rows[i].next_obs];
        CHECK(rows[i].obs == (float)i && rows[i].action == i);
        CHECK_NEAR(rows[i].reward + rows[i].discount * q, table_returns[i], 1e-4);
    }
    kit_close(&s);
}

/* n = 3, gamma = 1/2, rewards 1, 2, 4, 8, 16 in an episode of five steps. */
static void five_steps(kit_scene *s, int terminated, int truncated)
{
    CHECK_OK(reset_to(s->writer, 0));
    for (int t = 0; t < 5; t++)
        CHECK_OK(take(s->writer, t, (float)(1 << t), terminated && t == 4, truncated && t == 4));
}

static void check_five(const episode_row *rows, int terminated, int truncated)
{
    static const float reward[] = {3, 6, 12, 16, 16}, next_obs[] = {3, 4, 5, 5, 5};
    static const float discount[] = {0.125f, 0.125f, 0.125f, 0.25f, 0.5f};
    for (int i = 0; i < 5; i++) {
        CHECK(rows[i].obs == (float)i && rows[i].action == i && rows[i].reward == reward[i]);
        CHECK(rows[i].next_obs == next_obs[i]);
        CHECK_EQUAL(rows[i].terminated, terminated && i >= 2);
        CHECK_EQUAL(rows[i].truncated, truncated && i >= 2);
        CHECK(rows[i].discount == (terminated && i >= 2 ? 0.0f : discount[i]));
        CHECK_EQUAL(rows[i].previous, i - 1);
    }
}

TEST(an_episode_ends_in_shorter_and_shorter_transitions)
{
    for (int how = 1; how < 4; how++) { /* terminated, truncated, both */
        gpur_replay_config config = episode_config(8, 3, 0.5f);
        episode_row rows[5];
        kit_scene s;
        CHECK(kit_open(&s, test_device(), &config, 1));
        five_steps(&s, how & 1, how >> 1);
        CHECK_EQUAL(episode_appended(s.replay), 5);
        CHECK_OK(episode_rows(s.replay, 0, 5, rows));
        check_five(rows, how & 1, how >> 1);
        kit_close(&s);
    }
}

TEST(an_episode_given_up_or_left_open_ends_as_if_truncated)
{
    for (int leaves = 0; leaves < 2; leaves++) {
        gpur_replay_config config = episode_config(8, 3, 0.5f);
        gpur_replay_stats stats = {.size = sizeof stats};
        episode_row rows[5];
        kit_scene s;
        CHECK(kit_open(&s, test_device(), &config, 1));
        five_steps(&s, 0, 0);
        CHECK_EQUAL(episode_appended(s.replay), 3);
        if (leaves)
            gpur_writer_destroy(s.writer), s.writer = NULL;
        else
            CHECK_OK(reset_to(s.writer, 77));
        CHECK_EQUAL(episode_appended(s.replay), 5);
        CHECK_OK(episode_rows(s.replay, 0, 5, rows));
        rows[2].truncated = 1; /* was made before anybody knew */
        check_five(rows, 0, 1);
        CHECK_OK(gpur_replay_get_stats(s.replay, &stats));
        CHECK_EQUAL(stats.episodes_cut, leaves);
        kit_close(&s);
    }
}

TEST(one_step_episodes_make_one_transition_each)
{
    gpur_replay_config config = episode_config(8, 5, 0.5f);
    episode_row rows[4];
    kit_scene s;
    CHECK(kit_open(&s, test_device(), &config, 1));
    for (int e = 0; e < 4; e++) {
        CHECK_OK(reset_to(s.writer, (float)(10 * e)));
        CHECK_OK(take(s.writer, 10 * e, (float)e, e % 2, !(e % 2)));
        CHECK_EQUAL(episode_appended(s.replay), e + 1);
    }
    CHECK_OK(episode_rows(s.replay, 0, 4, rows));
    for (int e = 0; e < 4; e++) {
        CHECK(rows[e].obs == (float)(10 * e) && rows[e].next_obs == (float)(10 * e + 1) && rows[e].reward == (float)e);
        CHECK(rows[e].discount == (e % 2 ? 0.0f : 0.5f) && rows[e].previous == -1);
    }
    kit_close(&s);
}

TEST(rewards_are_clipped_before_they_are_folded)
{
    gpur_replay_config config = episode_config(7, 2, 0.5f);
    episode_row row;
    kit_scene s;
    config.reward_clip = 1;
    CHECK(kit_open(&s, test_device(), &config, 1));
    CHECK_OK(reset_to(s.writer, 0));
    CHECK_OK(take(s.writer, 0, 1000, 0, 0));
    CHECK_OK(take(s.writer, 1, -1000, 0, 0));
    CHECK_OK(episode_rows(s.replay, 0, 1, &row));
    CHECK(row.reward == 0.5f && row.discount == 0.25f);
    kit_close(&s);
}

TEST(several_steps_a_transition_need_a_discount_to_tell_how_many)
{
    gpur_replay_config config = episode_config(6, 3, 0.5f);
    gpur_device *const device = test_device();
    gpur_replay *replay = NULL;
    CHECK_STATUS(gpur_replay_create(device, &config, &replay), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("n_step is 3, and the schema has no field \"discount\"; add one");
    config.n_step = 1;
    CHECK_OK(gpur_replay_create(device, &config, &replay));
    gpur_replay_destroy(replay);
    config.n_step = 0;
    CHECK_STATUS(gpur_replay_create(device, &config, &replay), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("n_step is 0; it must be 1 to 64");
    config.n_step = 65;
    CHECK_STATUS(gpur_replay_create(device, &config, &replay), GPUR_INVALID_ARGUMENT);
    gpur_device_close(device);
}

/* Steps that are refused, for want of room or for what was given, leave the steps before them as they are. */
TEST(a_refused_step_or_reset_leaves_pending_steps_alone)
{
    gpur_replay_config config = episode_config(8, 3, 0.5f);
    episode_row rows[5];
    kit_scene s;
    gate g;
    config.when_full = GPUR_WHEN_FULL_ERROR;
    config.staging_blocks = 2, config.update_size = 3;
    gate_init(&g);
    CHECK(kit_open(&s, test_device(), &config, 1));
    const int gated = !test_on_cuda() && test_executor() == GPUR_EXECUTOR_THREAD;
    CHECK_OK(reset_to(s.writer, 0));
    if (gated)
        CHECK_OK(gate_close(&g, s.replay->ring.copy_stream));
    for (int t = 0; t < 4; t++)
        CHECK_OK(take(s.writer, t, (float)(1 << t), 0, 0)); /* 2 rows, 2 steps pending */
    if (gated) {
        const float filler[7][8] = {{0}};
        CHECK_OK(gpur_writer_append(s.writer, 3, filler, NULL)); /* one row is free in the second block */
        CHECK_STATUS(take(s.writer, 4, 16, 1, 0), GPUR_WOULD_BLOCK);
        CHECK_MESSAGE("there is room for 1 rows in the staging blocks; a step needs 3");
        CHECK_STATUS(reset_to(s.writer, 9), GPUR_WOULD_BLOCK);
        CHECK_MESSAGE("a reset of open episodes needs 2");
        gate_open(&g);
    }
    const float wrong = 1;
    CHECK_STATUS(gpur_writer_step(s.writer, &wrong, &wrong, &wrong, (const uint8_t[]){7}, NULL), GPUR_INVALID_ARGUMENT);
    gpur_status status = GPUR_WOULD_BLOCK;
    while (status == GPUR_WOULD_BLOCK)
        status = take(s.writer, 4, 16, 1, 0);
    CHECK_OK(status);
    CHECK_OK(episode_rows(s.replay, 0, 2, rows));
    CHECK_OK(episode_rows(s.replay, gated ? 5 : 2, 3, rows + 2));
    CHECK_EQUAL(rows[2].previous, 1);
    CHECK_EQUAL(rows[3].previous, gated ? 5 : 2);
    rows[3].previous = 2, rows[4].previous = 3;
    check_five(rows, 1, 0);
    kit_close(&s);
    gate_destroy(&g);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(three_step_returns_are_those_of_the_published_table);
    RUN(an_episode_ends_in_shorter_and_shorter_transitions);
    RUN(an_episode_given_up_or_left_open_ends_as_if_truncated);
    RUN(one_step_episodes_make_one_transition_each);
    RUN(rewards_are_clipped_before_they_are_folded);
    RUN(several_steps_a_transition_need_a_discount_to_tell_how_many);
    RUN(a_refused_step_or_reset_leaves_pending_steps_alone);
    return test_main_end();
}
