/* SPDX-License-Identifier: MIT */
/*
 * A device against the CPU with one thread: initial weights bit for bit, actions, and the first 200 losses of seeded
 * runs within the tolerances of docs/numerics.md. Prints the largest difference of each run.
 */
#include "base/status.h"
#include "support/cross_devices.h"
#include "support/learner_fixture.h"

enum { ACTS = 64, LOSSES = 200 };

static gpur_device *device[CROSS_DEVICES];
static learner_fixture worlds[CROSS_DEVICES];
static gpur_learner *learners[CROSS_DEVICES];

typedef struct run {
    const char *preset;
    int kind; /* of the rows */
    int32_t math;
    double tolerance;  /* of each loss, relative */
    float rate_factor; /* on the second device's learning rate: 1, except in the test that expects a difference */
} run;

static gpur_status open_sides(const run *r)
{
    for (int i = 0; i < CROSS_DEVICES; i++) {
        gpur_learner_config config;
        GPUR_TRY(gpur_learner_config_init(&config, sizeof config));
        GPUR_TRY(gpur_learner_config_preset(&config, r->preset));
        config.math = r->math;
        config.network.num_actions = FIXTURE_ACTIONS;
        config.seed = 20180614;
        config.optimizer.learning_rate.first *= i ? r->rate_factor : 1;
        config.optimizer.learning_rate.last *= i ? r->rate_factor : 1;
        GPUR_TRY(world_open_kind(&worlds[i], device[i], r->kind, FIXTURE_ROWS, WORLD_UNIFORM));
        GPUR_TRY(gpur_learner_create(worlds[i].replay, &config, &learners[i]));
    }
    return GPUR_OK;
}

static void close_sides(void)
{
    for (int i = 0; i < CROSS_DEVICES; i++)
        learner_fixture_close_learner(&worlds[i], learners[i]);
}

/* How many numbers of a tensor differ in any bit; -1 on an error. */
static int64_t differing(int32_t which, const gpur_weight_info *info)
{
    const size_t bytes = (size_t)info->count * sizeof(float);
    float *const left = malloc(bytes), *const right = malloc(bytes);
    int64_t differ = -1;
    if (gpur_learner_read_weights(learners[0], which, info->name, left, info->count) == GPUR_OK &&
        gpur_learner_read_weights(learners[1], which, info->name, right, info->count) == GPUR_OK)
        differ = 0;
    for (int64_t i = 0; differ >= 0 && i < info->count; i++)
        differ += memcmp(&left[i], &right[i], sizeof left[i]) != 0;
    free(left);
    free(right);
    return differ;
}

static const run runs[] = {
    {"melee-gpu", WORLD_WIDE, GPUR_MATH_FP32, 1e-4, 1.0f},
    {"melee-double", WORLD_WIDE, GPUR_MATH_FP32, 1e-4, 1.0f},
    {"cartpole", WORLD_PLAIN, GPUR_MATH_FP32, 1e-4, 1.0f},
};
enum { RUNS = sizeof runs / sizeof *runs };

TEST(initial_weights_are_the_same_bits)
{
    for (int i = 0; i < RUNS; i++) {
        CHECK_OK(open_sides(&runs[i]));
        for (int32_t w = 0; w < gpur_learner_weight_count(learners[0]); w++) {
            gpur_weight_info info = {.size = sizeof info};
            CHECK_OK(gpur_learner_get_weight_info(learners[0], w, &info));
            CHECK_EQUAL(differing(GPUR_WEIGHTS_ONLINE, &info), 0);
            CHECK_EQUAL(differing(GPUR_WEIGHTS_TARGET, &info), 0);
        }
        close_sides();
    }
}

/* 1 when two actions are the same, or their values so close that rounding may choose between them. */
static int as_good(const float *q, int32_t left, int32_t right)
{
    return left == right || fabsf(q[left] - q[right]) <= 1e-5f * (1.0f + fabsf(q[left]));
}

static void check_acts(const run *r, float epsilon, uint64_t seed, int *unequal)
{
    float obs[ACTS * WIDE_FEATURES], q[ACTS * FIXTURE_ACTIONS];
    int32_t left[ACTS], right[ACTS];
    random_floats(seed, obs, (int64_t)ACTS * (r->kind == WORLD_WIDE ? WIDE_FEATURES : FIXTURE_FEATURES));
    CHECK_OK(gpur_learner_q_values(learners[0], ACTS, obs, q, NULL));
    CHECK_OK(gpur_learner_act(learners[0], ACTS, obs, epsilon, left, NULL));
    CHECK_OK(gpur_learner_act(learners[1], ACTS, obs, epsilon, right, NULL));
    for (int i = 0; i < ACTS; i++) {
        CHECK(as_good(q + i * FIXTURE_ACTIONS, left[i], right[i]));
        *unequal += left[i] != right[i];
    }
}

/* With the initial weights, which are equal. */
TEST(greedy_and_exploring_acts_choose_the_same_actions)
{
    for (int i = 0; i < RUNS; i++) {
        int unequal = 0;
        CHECK_OK(open_sides(&runs[i]));
        for (int round = 0; round < cross_count(100); round++)
            check_acts(&runs[i], round % 2 ? 0.5f : 0.0f, (uint64_t)round + 1, &unequal);
        if (unequal)
            printf("  %s: %d of %d actions differ where two values tie to 1e-5\n", runs[i].preset, unequal,
                   ACTS * cross_count(100));
        close_sides();
    }
}

static gpur_status next_loss(gpur_learner *learner, double *loss)
{
    GPUR_TRY(gpur_learner_train(learner, 1));
    *loss = (double)learner_fixture_stats(learner).loss;
    return GPUR_OK;
}

/* Another learning rate shows only after some steps. */
static int losses_of(const run *r)
{
    return r->rate_factor > 1.0f ? LOSSES / 2 : cross_count(LOSSES);
}

/* Trains both sides and finds the largest relative difference of a loss. */
static void compare_losses(const run *r, double *largest)
{
    double loss[CROSS_DEVICES];
    int at = 0;
    *largest = 0.0;
    CHECK_OK(open_sides(r));
    for (int step = 1; step <= losses_of(r); step++) {
        CHECK_OK(next_loss(learners[0], &loss[0]));
        CHECK_OK(next_loss(learners[1], &loss[1]));
        CHECK(loss[0] > 0.0 && isfinite(loss[0]) && isfinite(loss[1]));
        const double difference = fabs(loss[1] - loss[0]) / loss[0];
        if (difference > *largest)
            *largest = difference, at = step;
    }
    printf("  %-12s %s%s: %d losses, largest relative difference %.2g (step %d)\n", r->preset,
           r->math == GPUR_MATH_TF32 ? "tf32" : "fp32", r->rate_factor > 1.0f ? ", another rate" : "", losses_of(r),
           *largest, at);
    close_sides();
}

TEST(the_first_losses_agree_in_fp32)
{
    for (int i = 0; i < RUNS; i++) {
        double largest;
        compare_losses(&runs[i], &largest);
        CHECK(largest <= runs[i].tolerance);
    }
}

/* Only plain DQN: in double DQN rounding can change the argmax, and with it the target value. */
TEST(the_first_losses_agree_in_tf32)
{
    const run tf32 = {"melee-gpu", WORLD_WIDE, GPUR_MATH_TF32, 2e-3, 1.0f};
    double largest;
    compare_losses(&tf32, &largest);
    CHECK(largest <= tf32.tolerance);
}

TEST(a_learning_rate_that_is_one_percent_off_is_noticed)
{
    const run off = {"melee-gpu", WORLD_WIDE, GPUR_MATH_FP32, 1e-4, 1.01f};
    double largest;
    compare_losses(&off, &largest);
    CHECK(largest > off.tolerance);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    cross_open(device);
    RUN(initial_weights_are_the_same_bits);
    RUN(greedy_and_exploring_acts_choose_the_same_actions);
    RUN(the_first_losses_agree_in_fp32);
    if (test_on_cuda()) /* the CPU computes float32 */
        RUN(the_first_losses_agree_in_tf32);
    RUN(a_learning_rate_that_is_one_percent_off_is_noticed);
    cross_close(device);
    return test_main_end();
}
