/* SPDX-License-Identifier: MIT */
/*
 * The device under test and the CPU with one thread: samples without replacement and initial weights bit for bit, and
 * the first 200 losses of seeded runs within the tolerances of docs/numerics.md. Prints the largest difference of each
 * run. All else, uniform samples and samples by priority included, is compared with references on each device.
 */
#include "base/status.h"
#include "learn/dqn/dqn.h"
#include "replay/replay.h"
#include "support/learner_fixture.h"
#include "test.h"

enum { DEVICES = 2, LOSSES = 200, STEPS = 400, BATCH = 48 };

static gpur_device *devices[DEVICES];
static learner_fixture fixtures[DEVICES];
static gpur_learner *learners[DEVICES];

static gpur_device *open_device(const char *name, int32_t threads, int32_t executor)
{
    gpur_device_config config = test_device_config();
    gpur_device *device = NULL;
    config.threads = threads, config.executor = executor;
    if (gpur_device_open(name, &config, &device) == GPUR_OK)
        return device;
    fprintf(stderr, "%s: no device %s: %s\n", test_state.program, name, gpur_last_error());
    exit(1);
}

/* On the CPU the second device has two threads, and the other executor. */
static void open_devices(void)
{
    const int32_t executor = test_executor();
    const int32_t other = executor == GPUR_EXECUTOR_INLINE ? GPUR_EXECUTOR_THREAD : GPUR_EXECUTOR_INLINE;
    devices[0] = open_device("cpu", 1, test_on_cuda() ? GPUR_EXECUTOR_INLINE : other);
    devices[1] = open_device(test_device_name(), 2, executor);
}

/* Fewer steps where each takes long: under sanitizers, and under compute-sanitizer with GPUR_TEST_SMALL=1. */
static int steps_of(int steps)
{
    const char *const text = getenv("GPUR_TEST_SMALL");
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    if (!test_is_long())
        return steps / 20;
#endif
    return text && strcmp(text, "1") == 0 ? steps / 20 : steps;
}

static void close_learners(void)
{
    for (int i = 0; i < DEVICES; i++)
        learner_fixture_close_learner(&fixtures[i], learners[i]);
}

/* Trains one step and takes one sample. Stores the ids of both. */
static gpur_status sample_twice(int i, int64_t count, int64_t trained[BATCH], int64_t sampled[BATCH])
{
    gpur_batch *batch = NULL;
    GPUR_TRY(gpur_learner_train(learners[i], 1));
    GPUR_TRY(gpur_device_copy(devices[i], trained, gpur_dqn_of(learners[i])->step.batch.id,
                              BATCH * (int64_t)sizeof *trained));
    GPUR_TRY(gpur_replay_sample(fixtures[i].replay, count, NULL, &batch));
    const gpur_status status = gpur_batch_read(batch, "id", sampled, count * (int64_t)sizeof *sampled);
    gpur_batch_release(batch);
    return status;
}

/* Learner and replay have the same seed, and both count their samples from 0. They must not sample the same rows. */
TEST(distinct_samples_are_the_same_rows)
{
    gpur_dqn_config config = learner_fixture_config(GPUR_HEAD_DUELING, 1);
    config.index_source = GPUR_UNIFORM_DISTINCT, config.batch_size = BATCH, config.seed = 8;
    for (int i = 0; i < DEVICES; i++) {
        CHECK_OK(learner_fixture_open(&fixtures[i], devices[i], 100));
        fixtures[i].replay->config.index_source = GPUR_UNIFORM_DISTINCT, fixtures[i].replay->config.seed = 8;
        CHECK_OK(gpur_dqn_create(fixtures[i].replay, &config, &learners[i]));
    }
    for (int step = 0; step < steps_of(STEPS); step++) {
        int64_t trained[DEVICES][BATCH], sampled[DEVICES][BATCH];
        const int64_t count = 1 + (step + BATCH - 1) % BATCH;
        for (int i = 0; i < DEVICES; i++) {
            CHECK_OK(sample_twice(i, count, trained[i], sampled[i]));
            CHECK_OK(gpur_writer_append(fixtures[i].writer, 1, &fixtures[i].rows[100 + step], NULL));
        }
        CHECK(memcmp(trained[0], trained[1], sizeof trained[0]) == 0);
        CHECK(memcmp(sampled[0], sampled[1], (size_t)count * sizeof **sampled) == 0);
        CHECK(step > 0 || memcmp(trained[0], sampled[0], sizeof trained[0]) != 0);
    }
    close_learners();
}

typedef struct run {
    const char *preset;
    int kind; /* of the rows */
    int32_t math;
    double tolerance;  /* of each loss, relative */
    float rate_factor; /* on the second device's learning rate: 1, except in the test that expects a difference */
} run;

static gpur_status open_learners(const run *r)
{
    for (int i = 0; i < DEVICES; i++) {
        gpur_dqn_config config;
        GPUR_TRY(gpur_dqn_config_init(&config, sizeof config));
        GPUR_TRY(gpur_dqn_config_preset(&config, r->preset));
        config.math = r->math;
        config.double_dqn = 0; /* in double DQN rounding can change an argmax, and with it a target */
        config.network.num_actions = FIXTURE_ACTIONS;
        config.seed = 20180614;
        config.optimizer.learning_rate.first *= i ? r->rate_factor : 1;
        config.optimizer.learning_rate.last *= i ? r->rate_factor : 1;
        GPUR_TRY(learner_fixture_open_kind(&fixtures[i], devices[i], r->kind, FIXTURE_ROWS, NOT_PRIORITIZED));
        GPUR_TRY(gpur_dqn_create(fixtures[i].replay, &config, &learners[i]));
    }
    return GPUR_OK;
}

static void check_same_weights(int32_t which)
{
    static float weights[DEVICES][1 << 18];
    int64_t counts[DEVICES];
    for (int i = 0; i < DEVICES; i++)
        counts[i] = learner_fixture_weights(learners[i], which, weights[i], 1 << 18);
    CHECK(counts[0] > 0 && counts[1] == counts[0]);
    CHECK(memcmp(weights[0], weights[1], (size_t)counts[0] * sizeof **weights) == 0);
}

/* Trains both learners, whose initial weights are equal. Returns the largest relative difference of a loss. */
static double largest_difference(const run *r)
{
    /* Another learning rate shows only after some steps. */
    const int steps = r->rate_factor > 1.0f ? LOSSES / 2 : steps_of(LOSSES);
    double largest = 0;
    int at = 0;
    if (open_learners(r) != GPUR_OK)
        return NAN;
    check_same_weights(GPUR_WEIGHTS_ONLINE);
    check_same_weights(GPUR_WEIGHTS_TARGET);
    for (int step = 1; step <= steps && !isnan(largest); step++) {
        double loss[DEVICES] = {NAN, NAN};
        for (int i = 0; i < DEVICES; i++)
            if (gpur_learner_train(learners[i], 1) == GPUR_OK)
                loss[i] = (double)learner_fixture_stats(learners[i]).loss;
        const double difference = fabs(loss[1] - loss[0]) / loss[0];
        if (!(difference <= largest))
            largest = difference, at = step;
    }
    printf("  %-12s %s%s: %d losses, largest relative difference %.2g (step %d)\n", r->preset,
           r->math == GPUR_MATH_TF32 ? "tf32" : "fp32", r->rate_factor > 1.0f ? ", another rate" : "", steps, largest,
           at);
    close_learners();
    return largest;
}

TEST(initial_weights_are_the_same_bits_and_the_first_losses_agree)
{
    static const run runs[] = {
        {"melee-gpu", ROWS_WIDE, GPUR_MATH_FP32, 1e-4, 1.0f},
        {"cartpole", ROWS_PLAIN, GPUR_MATH_FP32, 1e-4, 1.0f},
        {"melee-gpu", ROWS_WIDE, GPUR_MATH_TF32, 2e-3, 1.0f},
    };
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        const double difference = largest_difference(&runs[i]);
        TEST_REQUIRE(difference <= runs[i].tolerance, "%s, math %d: the losses differ by %g", runs[i].preset,
                     (int)runs[i].math, difference);
    }
}

TEST(a_learning_rate_that_is_one_percent_off_is_noticed)
{
    const run off = {"melee-gpu", ROWS_WIDE, GPUR_MATH_FP32, 1e-4, 1.01f};
    CHECK(largest_difference(&off) > off.tolerance);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    open_devices();
    RUN(distinct_samples_are_the_same_rows);
    RUN(initial_weights_are_the_same_bits_and_the_first_losses_agree);
    RUN(a_learning_rate_that_is_one_percent_off_is_noticed);
    for (int i = 0; i < DEVICES; i++)
        gpur_device_close(devices[i]);
    return test_main_end();
}
