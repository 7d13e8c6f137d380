/* SPDX-License-Identifier: MIT */
/*
 * A device against the CPU with one thread: initial weights bit for bit, actions, and the first 200 losses of seeded
 * runs within the tolerances of docs/numerics.md. Prints the largest difference of each run.
 */
#include "support/cross_sides.h"
#include "support/learn_rig.h"

enum { ROWS = 2000, MOST_FEATURES = 27, MOST_ACTIONS = 5, ACTS = 64, LOSSES = 200 };

static gpur_device *device[CROSS_SIDES];

typedef struct row {
    float obs[MOST_FEATURES], next_obs[MOST_FEATURES];
    float reward;
    int32_t action;
    uint8_t terminated;
} row;

typedef struct run {
    const char *preset;
    int32_t features;
    int32_t math;
    double tolerance;  /* of each loss, relative */
    float rate_factor; /* on the second side's learning rate: 1, but where the comparison itself is tried */
} run;

typedef struct side {
    gpur_replay *replay;
    gpur_writer *writer;
    gpur_learner *learner;
} side;

/* The same rows on both sides: noise, one in ten of them the end of an episode. */
static gpur_status append_rows(side *s, const run *r, int32_t actions)
{
    row made;
    float noise[2];
    for (int i = 0; i < ROWS; i++) {
        rig_random((uint64_t)i + 1, made.obs, r->features);
        rig_random((uint64_t)i + 100001, made.next_obs, r->features);
        rig_random((uint64_t)i + 200001, noise, 2);
        made.reward = noise[0];
        made.action = i * 7 % actions;
        made.terminated = i % 10 == 0;
        const void *const arrays[] = {made.obs, &made.action, &made.reward, made.next_obs, &made.terminated};
        GPUR_TRY(gpur_writer_append_fields(s->writer, 1, arrays, NULL, NULL));
    }
    return GPUR_OK;
}

static gpur_status open_replay(side *s, gpur_device *on, const run *r)
{
    const gpur_field fields[] = {
        {"obs", GPUR_FLOAT32, {r->features}},      {"action", GPUR_INT32, {0}},    {"reward", GPUR_FLOAT32, {0}},
        {"next_obs", GPUR_FLOAT32, {r->features}}, {"terminated", GPUR_BOOL, {0}},
    };
    gpur_replay_config config;
    GPUR_TRY(gpur_replay_config_init(&config, sizeof config));
    config.capacity = 2 * ROWS;
    config.fields = fields;
    config.field_count = 5;
    GPUR_TRY(gpur_replay_create(on, &config, &s->replay));
    return gpur_writer_create(s->replay, 1, &s->writer);
}

static gpur_status open_side(side *s, gpur_device *on, const run *r, float rate_factor)
{
    gpur_learner_config config;
    memset(s, 0, sizeof *s);
    GPUR_TRY(gpur_learner_config_init(&config, sizeof config));
    GPUR_TRY(gpur_learner_config_preset(&config, r->preset));
    config.math = r->math;
    config.seed = 20180614;
    config.optimizer.learning_rate.first *= rate_factor;
    config.optimizer.learning_rate.last *= rate_factor;
    GPUR_TRY(open_replay(s, on, r));
    GPUR_TRY(append_rows(s, r, config.network.outputs));
    return gpur_learner_create(s->replay, &config, &s->learner);
}

static gpur_status open_sides(side *sides, const run *r)
{
    GPUR_TRY(open_side(&sides[0], device[0], r, 1.0f));
    return open_side(&sides[1], device[1], r, r->rate_factor);
}

static void close_sides(side *sides)
{
    for (int i = 0; i < CROSS_SIDES; i++) {
        gpur_writer_destroy(sides[i].writer);
        gpur_learner_destroy(sides[i].learner);
        gpur_replay_destroy(sides[i].replay);
    }
}

/* Floats of one tensor that differ in any bit; -1 when reading fails. */
static int64_t differing(const side *sides, int32_t which, const gpur_weight_info *info)
{
    const size_t bytes = (size_t)info->count * sizeof(float);
    float *const left = malloc(bytes), *const right = malloc(bytes);
    int64_t differ = -1;
    if (gpur_learner_read_weights(sides[0].learner, which, info->name, left, info->count) == GPUR_OK &&
        gpur_learner_read_weights(sides[1].learner, which, info->name, right, info->count) == GPUR_OK)
        differ = 0;
    for (int64_t i = 0; differ >= 0 && i < info->count; i++)
        differ += memcmp(&left[i], &right[i], sizeof left[i]) != 0;
    free(left);
    free(right);
    return differ;
}

static const run runs[] = {
    {"melee-gpu", 27, GPUR_MATH_FP32, 1e-4, 1.0f},
    {"melee-double", 27, GPUR_MATH_FP32, 1e-4, 1.0f},
    {"cartpole", 4, GPUR_MATH_FP32, 1e-4, 1.0f},
};
enum { RUNS = sizeof runs / sizeof *runs };

TEST(initial_weights_are_the_same_bits)
{
    for (int i = 0; i < RUNS; i++) {
        side sides[CROSS_SIDES];
        CHECK_OK(open_sides(sides, &runs[i]));
        for (int32_t w = 0; w < gpur_learner_weight_count(sides[0].learner); w++) {
            gpur_weight_info info = {.size = sizeof info};
            CHECK_OK(gpur_learner_weight(sides[0].learner, w, &info));
            CHECK_EQUAL(differing(sides, GPUR_WEIGHTS_ONLINE, &info), 0);
            CHECK_EQUAL(differing(sides, GPUR_WEIGHTS_TARGET, &info), 0);
        }
        close_sides(sides);
    }
}

/* 1 when two actions are the same, or their values so close that rounding may choose between them. */
static int as_good(const float *q, int32_t left, int32_t right)
{
    return left == right || fabsf(q[left] - q[right]) <= 1e-5f * (1.0f + fabsf(q[left]));
}

static void check_acts(const side *sides, const run *r, float epsilon, uint64_t seed, int *unequal)
{
    float obs[ACTS * MOST_FEATURES], q[ACTS * MOST_ACTIONS];
    int32_t left[ACTS], right[ACTS];
    gpur_learner_config config = {.size = sizeof config};
    CHECK_OK(gpur_learner_config_preset(&config, r->preset));
    const int32_t actions = config.network.outputs;
    rig_random(seed, obs, (int64_t)ACTS * r->features);
    CHECK_OK(gpur_learner_q_values(sides[0].learner, ACTS, obs, q, NULL));
    CHECK_OK(gpur_learner_act(sides[0].learner, ACTS, obs, epsilon, left, NULL));
    CHECK_OK(gpur_learner_act(sides[1].learner, ACTS, obs, epsilon, right, NULL));
    for (int i = 0; i < ACTS; i++) {
        CHECK(as_good(q + i * actions, left[i], right[i]));
        *unequal += left[i] != right[i];
    }
}

/* With the initial weights, which are equal. */
TEST(greedy_and_exploring_acts_choose_the_same_actions)
{
    for (int i = 0; i < RUNS; i++) {
        side sides[CROSS_SIDES];
        int unequal = 0;
        CHECK_OK(open_sides(sides, &runs[i]));
        for (int round = 0; round < cross_count(100); round++)
            check_acts(sides, &runs[i], round % 2 ? 0.5f : 0.0f, (uint64_t)round + 1, &unequal);
        if (unequal)
            printf("  %s: %d of %d actions differ where two values tie to 1e-5\n", runs[i].preset, unequal,
                   ACTS * cross_count(100));
        close_sides(sides);
    }
}

static gpur_status next_loss(const side *s, double *loss)
{
    gpur_learner_stats stats = {.size = sizeof stats};
    GPUR_TRY(gpur_learner_train(s->learner, 1));
    GPUR_TRY(gpur_learner_sync(s->learner));
    GPUR_TRY(gpur_learner_get_stats(s->learner, &stats));
    *loss = (double)stats.loss;
    return GPUR_OK;
}

/* Trains both sides and finds the largest relative difference of a loss. */
static void compare_losses(const run *r, double *largest)
{
    side sides[CROSS_SIDES];
    double loss[CROSS_SIDES];
    int at = 0;
    *largest = 0.0;
    CHECK_OK(open_sides(sides, r));
    for (int step = 1; step <= cross_count(LOSSES); step++) {
        CHECK_OK(next_loss(&sides[0], &loss[0]));
        CHECK_OK(next_loss(&sides[1], &loss[1]));
        CHECK(loss[0] > 0.0 && isfinite(loss[0]) && isfinite(loss[1]));
        const double difference = fabs(loss[1] - loss[0]) / loss[0];
        if (difference > *largest)
            *largest = difference, at = step;
    }
    printf("  %-12s %s%s: %d losses, largest relative difference %.2g (step %d)\n", r->preset,
           r->math == GPUR_MATH_TF32 ? "tf32" : "fp32", r->rate_factor > 1.0f ? ", another rate" : "",
           cross_count(LOSSES), *largest, at);
    close_sides(sides);
}

TEST(the_first_losses_agree_in_fp32)
{
    for (int i = 0; i < RUNS; i++) {
        double largest;
        compare_losses(&runs[i], &largest);
        CHECK(largest <= runs[i].tolerance);
    }
}

/* Plain DQN alone: in double DQN an argmax that rounding decides picks another action's target value. */
TEST(the_first_losses_agree_in_tf32)
{
    const run tf32 = {"melee-gpu", 27, GPUR_MATH_TF32, 2e-3, 1.0f};
    double largest;
    compare_losses(&tf32, &largest);
    CHECK(largest <= tf32.tolerance);
}

TEST(a_learning_rate_that_is_one_percent_off_is_noticed)
{
    const run off = {"melee-gpu", 27, GPUR_MATH_FP32, 1e-4, 1.01f};
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
