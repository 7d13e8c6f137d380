/* SPDX-License-Identifier: MIT */
/* The tuner's decisions, on rates that are computed by a formula; and how a run measures, and does what was decided. */
#include "kernels/lib/random.h"
#include "support/file_utils.h"
#include "run/ga3c/handle.h"
#include "support/ga3c_fixture.h"
#include "test.h"

static const gpur_ga3c_numbers most = {12, 4, 4}, one = {1, 1, 1};

enum { NEVER = 1000 };

static int distance(gpur_ga3c_numbers a, gpur_ga3c_numbers b)
{
    return abs(a.agents - b.agents) + abs(a.predictors - b.predictors) + abs(a.trainers - b.trainers);
}

/* Surfaces with an optimum inside of the grid: rollouts a second. */
typedef double surface(gpur_ga3c_numbers n);

/* The slowest of three stages, and each thread costs a little of all. */
static double stages(gpur_ga3c_numbers n)
{
    const double agents = 10.0 * n.agents, predictors = 35.0 * n.predictors, trainers = 30.0 * n.trainers;
    const double squares = n.predictors * n.predictors + n.trainers * n.trainers;
    return fmin(agents, fmin(predictors, trainers)) / (1.0 + 0.02 * n.agents + 0.05 * squares);
}

/* An agent's round trip: its environment, a reply that is later the more agents a predictor has, and the wait for
 * trainers; more than 9 threads slow all down. */
static double round_trip(gpur_ga3c_numbers n)
{
    const double threads = n.agents + n.predictors + n.trainers, slow = fmax(1.0, threads / 9.0);
    const double predict = 0.5 + 0.4 * n.agents / n.predictors, train = 0.6 * n.agents / n.trainers;
    return 1000.0 * n.agents / (5.0 * (1.0 + predict) + train) / (slow * slow);
}

/* Predictors and trainers share a device, of which more of them use more, and switch more often. */
static double shared_device(gpur_ga3c_numbers n)
{
    const double predicts = 300.0 * (1.0 - pow(0.6, n.predictors)) * (1.0 - pow(0.7, n.agents));
    const double trains = 250.0 * (1.0 - pow(0.6, n.trainers));
    return fmin(predicts, trains) / (1.0 + 0.1 * (n.predictors + n.trainers - 2) + 0.03 * n.agents);
}

static double best_of(surface *rate, gpur_ga3c_numbers *at)
{
    double best = 0.0;
    for (int32_t a = 1; a <= most.agents; a++)
        for (int32_t p = 1; p <= most.predictors; p++)
            for (int32_t t = 1; t <= most.trainers; t++) {
                const gpur_ga3c_numbers n = {a, p, t};
                *at = rate(n) > best ? n : *at;
                best = fmax(best, rate(n));
            }
    return best;
}

/* The rate of the numbers that are accepted after 200 windows. Each measurement is off by up to `noise`. From window
 * `fall` on all rates are 0.4 times as large; changes that are accepted from there on are added to *changes. */
static double run_tuner(surface *rate, int32_t kind, uint64_t seed, double noise, int fall, int *changes)
{
    gpur_tuner tuner;
    gpur_ga3c_numbers now = one;
    gpur_tuner_begin(&tuner, kind, seed, most);
    for (int i = 0; i < 200; i++) {
        const double chance = (double)gpur_random_uniform(gpur_random_bits(seed, 99, (uint64_t)i, 0).v[0]);
        const double load = i < fall ? 1.0 : 0.4;
        const int is_change = distance(now, tuner.accepted) > 0;
        const int stays = gpur_tuner_judge(&tuner, now, load * rate(now) * (1.0 + noise * (2.0 * chance - 1.0)));
        *changes += i >= fall && is_change && stays;
        now = gpur_tuner_propose(&tuner);
    }
    return rate(tuner.accepted);
}

static void check_reaches(int32_t kind, double noise, int fall)
{
    static surface *const surfaces[] = {stages, round_trip, shared_device};
    for (size_t s = 0; s < sizeof surfaces / sizeof *surfaces; s++) {
        gpur_ga3c_numbers at = one;
        const double best = best_of(surfaces[s], &at);
        int good = 0, changes = 0;
        for (uint64_t seed = 0; seed < 10; seed++)
            good += run_tuner(surfaces[s], kind, seed, noise, fall, &changes) >= 0.9 * best;
        CHECK(fall == NEVER || changes > 10);
        CHECK(at.agents > 1 && at.agents < most.agents && surfaces[s](one) < 0.6 * best);
        CHECK(at.predictors < most.predictors && at.trainers < most.trainers && at.predictors * at.trainers > 1);
        CHECK(good >= 9);
    }
}

TEST(the_paper_s_rule_reaches_the_best_numbers)
{
    check_reaches(GPUR_TUNER_PAPER, 0.0, NEVER);
    check_reaches(GPUR_TUNER_PAPER, 0.01, NEVER);
}

TEST(the_code_s_rule_reaches_the_best_numbers)
{
    check_reaches(GPUR_TUNER_CODE, 0.0, NEVER);
    check_reaches(GPUR_TUNER_CODE, 0.01, NEVER);
}

TEST(both_rules_adapt_when_all_rates_have_fallen)
{
    for (int32_t kind = GPUR_TUNER_PAPER; kind <= GPUR_TUNER_CODE; kind++) {
        check_reaches(kind, 0.0, 8);
        check_reaches(kind, 0.01, 8);
    }
}

/* From the accepted numbers, within the limits, and each change that is possible comes. */
static void check_changes(int32_t kind)
{
    gpur_tuner tuner;
    int64_t seen[27] = {0};
    int kinds = 0;
    gpur_tuner_begin(&tuner, kind, 3, most);
    (void)gpur_tuner_judge(&tuner, (gpur_ga3c_numbers){1, 2, 4}, 1.0);
    for (int i = 0; i < 2000; i++) {
        const gpur_ga3c_numbers n = gpur_tuner_propose(&tuner);
        CHECK(n.agents >= 1 && n.agents <= 2 && n.predictors >= 1 && n.predictors <= 3 && n.trainers >= 3);
        CHECK(n.trainers <= 4);
        const int by = distance(n, (gpur_ga3c_numbers){1, 2, 4});
        CHECK(by >= 1 && (kind == GPUR_TUNER_CODE || by == 1));
        seen[9 * (n.agents - 1) + 3 * (n.predictors - 1) + n.trainers - 3]++;
    }
    for (int i = 0; i < 27; i++)
        kinds += seen[i] > 0;
    CHECK_EQUAL(kinds, kind == GPUR_TUNER_CODE ? 11 : 4);
}

TEST(changes_keep_within_the_limits)
{
    check_changes(GPUR_TUNER_PAPER);
    check_changes(GPUR_TUNER_CODE);
}

/* The authors' code compares with the window before, also if that was rejected. */
TEST(numbers_are_compared_with_the_accepted_ones)
{
    gpur_tuner tuner;
    gpur_tuner_begin(&tuner, GPUR_TUNER_PAPER, 0, most);
    CHECK(gpur_tuner_judge(&tuner, (gpur_ga3c_numbers){2, 2, 2}, 100.0));
    CHECK(!gpur_tuner_judge(&tuner, (gpur_ga3c_numbers){3, 2, 2}, 50.0));
    CHECK(!gpur_tuner_judge(&tuner, (gpur_ga3c_numbers){2, 3, 2}, 90.0));
    CHECK_EQUAL(tuner.accepted.agents, 2);
    CHECK_EQUAL(tuner.accepted.predictors, 2);
    CHECK(gpur_tuner_judge(&tuner, (gpur_ga3c_numbers){2, 2, 3}, 99.0));
    CHECK(gpur_tuner_judge(&tuner, (gpur_ga3c_numbers){2, 2, 4}, 95.1));
    CHECK(!gpur_tuner_judge(&tuner, (gpur_ga3c_numbers){2, 1, 4}, 94.5));
    CHECK(gpur_tuner_judge(&tuner, (gpur_ga3c_numbers){3, 2, 4}, 101.0));
}

/* A rate that was a chance, say the first one, rules for no longer than four rejected changes. */
TEST(accepted_numbers_are_measured_again)
{
    gpur_tuner tuner;
    gpur_ga3c_numbers now = {2, 2, 2};
    gpur_tuner_begin(&tuner, GPUR_TUNER_PAPER, 0, most);
    CHECK(gpur_tuner_judge(&tuner, now, 300.0));
    for (int i = 0; i < 4; i++) {
        now = gpur_tuner_propose(&tuner);
        CHECK_EQUAL(distance(now, tuner.accepted), 1);
        CHECK(!gpur_tuner_judge(&tuner, now, 100.0));
    }
    now = gpur_tuner_propose(&tuner);
    CHECK(now.agents == 2 && now.predictors == 2 && now.trainers == 2);
    CHECK(gpur_tuner_judge(&tuner, now, 100.0));
    now = gpur_tuner_propose(&tuner);
    CHECK_EQUAL(distance(now, tuner.accepted), 1);
    CHECK(!gpur_tuner_judge(&tuner, now, 94.0));
    CHECK(gpur_tuner_judge(&tuner, now, 96.0));
}

/* In a run. */

static ga3c_fixture fixture;
static gpur_run_event last;
static gpur_ga3c_numbers set; /* after the last event */
static double measured_batches;

static void open_run(int32_t kind, double period, double settling)
{
    ga3c_settings config = ga3c_fixture_config("");
    config.run.tuner = kind;
    config.run.tuner_period = period;
    config.run.tuner_settling = settling;
    config.run.max_agents = 5;
    set = (gpur_ga3c_numbers){config.run.agents, config.run.predictors, config.run.trainers};
    measured_batches = 0.0;
    CHECK_OK(ga3c_fixture_open(&fixture, &config));
}

static void close_run(void)
{
    ga3c_fixture_close(&fixture);
    ga3c_fixture_free(&fixture);
}

static void keep_event(const gpur_run_event *event)
{
    last = *event;
}

/* 2 s of settling and a window of 10 s, of which gpur_ga3c_advance would look at the clock ten times a second. The rate
 * is that of the window; more is trained on before. */
static void pass_window(double *now, double rate)
{
    gpur_ga3c *const run = gpur_ga3c_of(fixture.run);
    const int64_t tuned = fixture.tuned;
    for (int tenth = 1; tenth <= 120; tenth++) {
        CHECK_EQUAL(fixture.tuned, tuned);
        run->core.stats.ga3c.training_batches += tenth <= 20 ? 1000 : llround(rate / 10.0);
        CHECK_OK(gpur_ga3c_tune(run, *now + (double)tenth / 10.0));
        gpur_run_deliver_events(&run->core);
    }
    *now += 12.0;
    CHECK_EQUAL(fixture.tuned, tuned + 1);
}

/* No thread runs: time, and the batches that were trained on, are what the test says. A tuner beside the run says what
 * it has to do. */
static void check_windows(int32_t kind)
{
    gpur_tuner tuner;
    double now = 0.0;
    int accepted = 0, largest = 0;
    open_run(kind, 9.95, 1.95);
    fixture.on_tuned = keep_event;
    gpur_tuner_begin(&tuner, kind, 7, (gpur_ga3c_numbers){5, GPUR_GA3C_MAX_PREDICTORS, GPUR_GA3C_MAX_TRAINERS});
    for (int i = 0; i < 100; i++) {
        const gpur_ga3c_numbers measured = gpur_ga3c_of(fixture.run)->numbers;
        const double rate = 10.0 * (double)llround(10.0 * stages(measured));
        pass_window(&now, rate);
        const int stays = gpur_tuner_judge(&tuner, measured, rate);
        CHECK(last.agents == measured.agents && last.predictors == measured.predictors);
        CHECK(last.trainers == measured.trainers && last.agents <= 5);
        CHECK_NEAR(last.rate, rate, 1e-9 * rate);
        CHECK_EQUAL(last.accepted, stays);
        CHECK_EQUAL(distance(gpur_ga3c_of(fixture.run)->numbers, gpur_tuner_propose(&tuner)), 0);
        accepted += stays;
        largest = last.agents > largest ? last.agents : largest;
    }
    CHECK(accepted > 10 && accepted < 90 && largest == 5);
    close_run();
}

TEST(a_run_does_what_its_tuner_decides)
{
    check_windows(GPUR_TUNER_PAPER);
    check_windows(GPUR_TUNER_CODE);
}

/* Numbers that were set are those that the next window measures; and windows have no more batches together than there
 * were. */
static void check_event(const gpur_run_event *event)
{
    const gpur_run_stats s = ga3c_fixture_stats(&fixture);
    CHECK_EQUAL(distance(set, (gpur_ga3c_numbers){event->agents, event->predictors, event->trainers}), 0);
    CHECK(event->agents >= 1 && event->agents <= 5);
    measured_batches += event->rate * 0.02;
    CHECK(measured_batches <= (double)s.ga3c.training_batches + 1e-6);
    set = (gpur_ga3c_numbers){s.ga3c.agents, s.ga3c.predictors, s.ga3c.trainers};
}

TEST(the_tuner_changes_the_numbers_while_the_run_goes_on)
{
    open_run(GPUR_TUNER_CODE, 0.02, 0.005);
    fixture.on_tuned = check_event;
    for (int i = 0; fixture.tuned < 5 && i < 1000; i++)
        CHECK_OK(gpur_run_advance(fixture.run, 500, 0));
    CHECK(fixture.tuned >= 5);
    close_run();
}

#ifdef GPUR_HAS_FILES
/* What is on trial when a run is saved may be rejected, and is not what the next run begins with. */
TEST(the_accepted_numbers_are_saved)
{
    char folder[512];
    double now = 0.0;
    snprintf(folder, sizeof folder, "%s", test_file_path("run.safetensors"));
    *strrchr(folder, '/') = 0;
    (void)test_file_path("learner.safetensors");
    open_run(GPUR_TUNER_PAPER, 9.95, 1.95);
    pass_window(&now, 1000.0);
    pass_window(&now, 500.0);
    CHECK_EQUAL(distance(gpur_ga3c_of(fixture.run)->numbers, set), 1);
    CHECK_OK(gpur_run_save(fixture.run, folder));
    close_run();
    open_run(GPUR_TUNER_PAPER, 9.95, 1.95);
    gpur_ga3c_of(fixture.run)->numbers = (gpur_ga3c_numbers){1, 1, 1};
    CHECK_OK(gpur_run_load(fixture.run, folder, 0));
    CHECK_EQUAL(distance(gpur_ga3c_of(fixture.run)->numbers, set), 0);
    close_run();
    test_remove_folder();
}
#endif

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(the_paper_s_rule_reaches_the_best_numbers);
    RUN(the_code_s_rule_reaches_the_best_numbers);
    RUN(both_rules_adapt_when_all_rates_have_fallen);
    RUN(changes_keep_within_the_limits);
    RUN(numbers_are_compared_with_the_accepted_ones);
    RUN(accepted_numbers_are_measured_again);
    RUN(a_run_does_what_its_tuner_decides);
    RUN(the_tuner_changes_the_numbers_while_the_run_goes_on);
#ifdef GPUR_HAS_FILES
    RUN(the_accepted_numbers_are_saved);
#endif
    return test_main_end();
}
