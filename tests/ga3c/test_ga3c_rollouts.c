/* SPDX-License-Identifier: MIT */
/* What the three systems train on: each step of each agent once, with its action and its return. */
#include "support/ga3c_fixture.h"
#include "test.h"

static ga3c_fixture fixture;
static ga3c_settings config;

static int compare(const void *a, const void *b)
{
    const ga3c_row *const x = a, *const y = b;
    return x->id != y->id ? x->id - y->id : x->total - y->total;
}

/* Section 3.2 of the paper in double: the rewards to the end of the segment, and V behind it. A segment ends with the
 * episode, or before a step of which the number is a multiple of t_max: of the episode's steps, with A2C of all. */
static double return_of(const ga3c_row *row, int32_t length)
{
    const char *const options = config.all.env_options;
    const int is_cut_off = ga3c_env_is_cut_off(options, row->episode);
    double sum = 0.0, factor = 1.0;
    int32_t t = row->t, total = row->total;
    do {
        const int is_last = t + 1 == length;
        const double clip = (double)config.run.reward_clip,
                     r = (double)ga3c_env_reward(options, row->id, total, is_last);
        if (!(is_last && !is_cut_off && config.run.drop_terminal))
            sum += factor * (clip > 0.0 ? fmax(-clip, fmin(clip, r)) : r);
        factor *= (double)config.run.discount;
        t++, total++;
    } while (t < length && (config.run.system == GPUR_A2C ? total : t) % config.run.t_max != 0);
    return t == length && !is_cut_off ? sum : sum + factor * (double)ga3c_fake_value(row->id, row->episode, t);
}

/* The agent's rows, from its first step on, without a gap. */
static int64_t check_agent(int32_t agent, const ga3c_row *rows, int64_t count)
{
    const char *const options = config.all.env_options;
    const int32_t id = rows->id;
    int32_t episode = 0, t = 0, total = 0;
    int64_t at = 0, dropped = 0;
    for (; at < count && rows[at].id == id; total++) {
        const int32_t length = ga3c_env_length(options, id, episode);
        const int is_dropped = config.run.drop_terminal && t + 1 == length && !ga3c_env_is_cut_off(options, episode);
        const ga3c_row *const row = &rows[at];
        if (is_dropped) {
            dropped++;
        } else if (row->total != total || row->episode != episode || row->t != t ||
                   row->action != ga3c_fake_action((uint32_t)agent, (uint64_t)total) ||
                   fabs((double)row->returned - return_of(row, length)) > 1e-5) {
            fprintf(stderr, "agent %d, step %d: row has step %d (episode %d, %d), action %d, return %g; wanted %g\n",
                    agent, total, row->total, row->episode, row->t, row->action, (double)row->returned,
                    return_of(row, length));
            return -1;
        }
        at += !is_dropped;
        t++;
        if (t == length)
            episode++, t = 0;
    }
    return at;
}

static int32_t id_of(int32_t agent)
{
    return (int32_t)(gpur_run_env_seed(fixture.run->config.seed, agent, 0) & 0xfffff);
}

static void check_rows(int64_t steps)
{
    const gpur_run_stats stats = ga3c_fixture_stats(&fixture);
    ga3c_row *const rows = fixture.fake.rows;
    const int64_t count = fixture.fake.count;
    CHECK_EQUAL(stats.env_steps, steps);
    CHECK_EQUAL(stats.ga3c.trained_rows, count);
    const int64_t open = steps - count - stats.ga3c.dropped_rows;
    CHECK(open >= 0 && open <= config.run.agents * (config.run.t_max - 1));
    qsort(rows, (size_t)count, sizeof *rows, compare);
    int64_t at = 0;
    int32_t seen = 0;
    while (at < count) {
        int32_t agent = 0;
        while (agent < config.run.agents && id_of(agent) != rows[at].id)
            agent++;
        CHECK(agent < config.run.agents);
        const int64_t of_agent = check_agent(agent, rows + at, count - at);
        CHECK(of_agent > 0);
        at += of_agent;
        seen++;
    }
    if (config.run.system == GPUR_A2C)
        CHECK_EQUAL(seen, config.run.agents);
}

static void open_run(void)
{
    CHECK_OK(ga3c_fixture_open(&fixture, &config));
}

static void close_run(void)
{
    ga3c_fixture_close(&fixture);
    CHECK(atomic_load(&fixture.fake.is_closed));
    CHECK_EQUAL(atomic_load(&fixture.fake.locals), 0);
    ga3c_fixture_free(&fixture);
}

static void try_system(int32_t system, const char *options, int32_t drop_terminal)
{
    config = ga3c_fixture_config(options);
    config.run.system = system;
    config.run.drop_terminal = drop_terminal;
    config.run.min_train_batch = system == GPUR_GA3C ? 7 : 0;
    config.run.predictors = config.run.trainers = 2;
    open_run();
    CHECK_OK(gpur_run_advance(fixture.run, 133, 0));
    CHECK_OK(gpur_run_advance(fixture.run, 1, 0));
    CHECK_OK(gpur_run_advance(fixture.run, 266, 0));
    check_rows(400);
    close_run();
}

TEST(each_step_is_trained_on_once_with_its_return)
{
    static const char *const options[] = {
        "length=1",          "length=2",          "length=4",          "length=5", "length=6",
        "length=10",         "length=13",         "length=11,lives",   "",         "truncate",
        "length=5,truncate", "length=6,truncate", "length=1,truncate", "sparse"};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        for (int32_t system = GPUR_GA3C; system <= GPUR_A2C; system++)
            try_system(system, options[i], 0);
}

TEST(terminal_steps_are_dropped_if_that_is_wanted)
{
    for (int32_t system = GPUR_GA3C; system <= GPUR_A2C; system++) {
        try_system(system, "length=5", 1);
        try_system(system, "length=6", 1);
        try_system(system, "", 1);
        try_system(system, "truncate", 1);
    }
}

/* The authors' code loses it. */
TEST(a_single_reward_at_the_end_is_credited_to_all_steps_of_its_rollout)
{
    config = ga3c_fixture_config("sparse,length=8");
    open_run();
    CHECK_OK(gpur_run_advance(fixture.run, 400, 0));
    for (int64_t i = 0; i < fixture.fake.count; i++) {
        const ga3c_row *const row = &fixture.fake.rows[i];
        if (row->t >= 5)
            CHECK_NEAR(row->returned, pow((double)config.run.discount, 7 - row->t), 1e-6);
    }
    check_rows(400);
    close_run();
}

TEST(rewards_are_clipped_as_set)
{
    static const float clips[] = {0.0f, 0.25f, 1.0f};
    for (int i = 0; i < 3; i++) {
        config = ga3c_fixture_config("");
        config.run.reward_clip = clips[i];
        config.run.t_max = 3;
        open_run();
        CHECK_OK(gpur_run_advance(fixture.run, 300, 0));
        check_rows(300);
        close_run();
    }
}

/* A stack begins with zeros, and has the last frames. */
static void check_stack(const ga3c_row *row)
{
    for (int i = 0; i < GA3C_STACK; i++) {
        const unsigned char *const frame = row->stack + i * GA3C_FRAME;
        const int back = GA3C_STACK - 1 - i;
        const int is_there = row->t >= back;
        CHECK_EQUAL(frame[0], is_there ? row->id & 255 : 0);
        CHECK_EQUAL(frame[1], is_there ? row->id >> 8 : 0);
        CHECK_EQUAL(frame[2], is_there ? row->episode : 0);
        CHECK_EQUAL(frame[3], is_there ? row->t - back : 0);
        CHECK_EQUAL(frame[5], is_there ? row->total - back : 0);
    }
}

TEST(frames_are_stacked)
{
    config = ga3c_fixture_config("frames");
    config.run.agents = 3;
    open_run();
    CHECK_OK(gpur_run_advance(fixture.run, 240, 0));
    CHECK(fixture.fake.count >= 240 - 3 * 4);
    for (int64_t i = 0; i < fixture.fake.count; i++)
        check_stack(&fixture.fake.rows[i]);
    close_run();
}

/* A2C. */

static uint64_t a2c_hash(int64_t first, int64_t second, int32_t most)
{
    uint64_t hash = 0;
    config = ga3c_fixture_config("delay,truncate");
    config.run.system = GPUR_A2C;
    config.run.agents = 6;
    config.run.max_prediction_batch = most;
    if (ga3c_fixture_open(&fixture, &config) == GPUR_OK && gpur_run_advance(fixture.run, first, 0) == GPUR_OK &&
        gpur_run_advance(fixture.run, second, 0) == GPUR_OK)
        hash = ga3c_fixture_hash(&fixture);
    close_run();
    return hash;
}

TEST(a2c_trains_on_the_same_batches_whatever_the_delays_and_wherever_it_pauses)
{
    const uint64_t hash = a2c_hash(400, 260, 128);
    CHECK(hash != 0);
    for (int i = 0; i < 3; i++)
        CHECK(a2c_hash(400, 260, 128) == hash);
    CHECK(a2c_hash(1, 659, 128) == hash);
    CHECK(a2c_hash(223, 437, 4) == hash);
}

/* 6 agents and 660 steps are 110 rounds, which are 22 batches. */
TEST(a2c_trains_on_all_rollouts_of_a_tick_in_the_order_of_the_agents)
{
    config = ga3c_fixture_config("delay");
    config.run.system = GPUR_A2C;
    config.run.agents = 6;
    open_run();
    CHECK_OK(gpur_run_advance(fixture.run, 660, 0));
    const gpur_run_stats stats = ga3c_fixture_stats(&fixture);
    CHECK_EQUAL(stats.train_steps, 22);
    CHECK_EQUAL(stats.ga3c.training_batches, 6 * 22);
    CHECK_EQUAL(fixture.fake.count, 660);
    CHECK_EQUAL(stats.ga3c.lags[0], 660);
    CHECK_EQUAL(stats.ga3c.largest_lag, 0);
    for (int64_t i = 0; i < 660; i++) {
        const ga3c_row *const row = &fixture.fake.rows[i];
        CHECK_EQUAL(row->batch, 1 + i / 30);
        CHECK_EQUAL(row->id, id_of((int32_t)(i % 30 / 5)));
        CHECK_EQUAL(row->total, i / 30 * 5 + i % 5);
    }
    CHECK_EQUAL(atomic_load(&fixture.fake.largest_prediction), 6);
    close_run();
}

/* A3C. */

TEST(a3c_agents_copy_the_weights_for_each_rollout_and_have_no_queues)
{
    config = ga3c_fixture_config("length=10");
    config.run.system = GPUR_A3C;
    open_run();
    CHECK_OK(gpur_run_advance(fixture.run, 1000, 0));
    const gpur_run_stats stats = ga3c_fixture_stats(&fixture);
    CHECK_EQUAL(atomic_load(&fixture.fake.locals), 4);
    CHECK(atomic_load(&fixture.fake.pulls) >= stats.ga3c.training_batches);
    CHECK(atomic_load(&fixture.fake.pulls) <= stats.ga3c.training_batches + 4);
    CHECK(stats.train_steps == stats.ga3c.training_batches && stats.ga3c.predictions == 0 &&
          stats.ga3c.queue_lag_bound == 0);
    CHECK(stats.ga3c.mean_lag <= 3.0 * 4);
    close_run();
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(each_step_is_trained_on_once_with_its_return);
    RUN(terminal_steps_are_dropped_if_that_is_wanted);
    RUN(a_single_reward_at_the_end_is_credited_to_all_steps_of_its_rollout);
    RUN(rewards_are_clipped_as_set);
    RUN(frames_are_stacked);
    RUN(a2c_trains_on_the_same_batches_whatever_the_delays_and_wherever_it_pauses);
    RUN(a2c_trains_on_all_rollouts_of_a_tick_in_the_order_of_the_agents);
    RUN(a3c_agents_copy_the_weights_for_each_rollout_and_have_no_queues);
    return test_main_end();
}
