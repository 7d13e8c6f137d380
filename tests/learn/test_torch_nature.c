/* SPDX-License-Identifier: MIT */
/*
 * The first train steps of the Nature network against PyTorch's own (torch_nature.py made torch_nature.h): every loss,
 * and the first step's gradient of every tensor. Weights and transitions follow from one hash on both sides.
 */
#include "test.h"
#include "base/status.h"
#include "device/backend.h"
#include "support/torch_nature.h"
#include "support/torch_unit.h"

static gpur_device *device;
static gpur_replay *replay, *ranked; /* the same rows; in the other one with priorities and a discount each */

enum { PIXELS = 4 * 84 * 84, TRANSITION = 2 * PIXELS + 16 };

/* Number i of a sequence, in [0, 1), as torch_nature.py makes it. */
static double unit(uint32_t i, uint32_t sequence)
{
    return torch_unit(i, sequence + 10000u * TORCH_SEED);
}

/* gamma to the power of the row's steps, as its writer would have multiplied it. */
static float discount_of(uint32_t i)
{
    float discount = i % 7 == 0 ? 0.0f : 1.0f;
    for (uint32_t m = 0; m < 1 + i % TORCH_N_STEP; m++)
        discount *= 0.99f;
    return discount;
}

/* obs, next_obs, action, reward, terminated, and at the next multiple of 4 discount: as the schema lays them out. */
static void make_row(uint32_t i, unsigned char *row)
{
    const int32_t action = (int32_t)(unit(i, 1) * TORCH_ACTIONS);
    const float reward = (float)(2 * unit(i, 2) - 1), discount = discount_of(i);
    for (uint32_t p = 0; p < PIXELS; p++) {
        row[p] = (unsigned char)(unit(p, 1000 + i) * 256);
        row[PIXELS + p] = (unsigned char)(unit(p, 2000 + i) * 256);
    }
    memcpy(row + 2 * PIXELS, &action, 4);
    memcpy(row + 2 * PIXELS + 4, &reward, 4);
    row[2 * PIXELS + 8] = i % 7 == 0;
    memcpy(row + 2 * PIXELS + 12, &discount, 4);
}

/* Appends all rows, and takes a sample, which makes them visible: before that they have no priorities. */
static gpur_status append_rows(gpur_replay *to)
{
    static unsigned char row[TRANSITION];
    gpur_writer *writer = NULL;
    gpur_batch *batch = NULL;
    gpur_status status = gpur_writer_create(to, 1, &writer);
    for (uint32_t i = 0; i < TORCH_ROWS && status == GPUR_OK; i++) {
        make_row(i, row);
        status = gpur_writer_append(writer, 1, row, NULL);
    }
    gpur_writer_destroy(writer);
    if (status == GPUR_OK)
        status = gpur_replay_sample(to, 1, NULL, &batch);
    if (status == GPUR_OK)
        status = gpur_batch_sync(batch);
    gpur_batch_release(batch);
    return status;
}

/* A replay of all rows; `is_ranked` 1: with priorities, and a discount each. */
static gpur_status torch_replay(int is_ranked, gpur_replay **made)
{
    static const gpur_field fields[] = {{"obs", GPUR_UINT8, {4, 84, 84}}, {"next_obs", GPUR_UINT8, {4, 84, 84}},
                                        {"action", GPUR_INT32, {0}},      {"reward", GPUR_FLOAT32, {0}},
                                        {"terminated", GPUR_BOOL, {0}},   {"discount", GPUR_FLOAT32, {0}}};
    gpur_replay_config config;
    GPUR_TRY(gpur_replay_config_init(&config, sizeof config));
    config.capacity = 128, config.max_batch = 64;
    config.fields = fields, config.field_count = is_ranked ? 6 : 5;
    config.gamma = 0.99f;
    if (is_ranked) /* priorities stay whole numbers */
        config.prioritized = 1, config.alpha = 1.0f, config.priority_offset = 0.0f;
    GPUR_TRY(gpur_replay_create(device, &config, made));
    return append_rows(*made);
}

/* The layer's inputs and outputs, as Glorot counts them. */
static double limit_of(const gpur_weight_info *weight)
{
    const int *const s = weight->shape;
    const double window = weight->dims == 4 ? s[1] * s[2] : 1, inputs = weight->dims == 4 ? s[3] : s[1];
    return sqrt(6.0 / ((inputs + s[0]) * window));
}

static gpur_status find_info(gpur_learner *learner, const char *name, gpur_weight_info *info)
{
    for (int32_t i = 0; i < gpur_learner_weight_count(learner); i++) {
        info->size = sizeof *info;
        GPUR_TRY(gpur_learner_get_weight_info(learner, i, info));
        if (strcmp(info->name, name) == 0)
            return GPUR_OK;
    }
    return GPUR_INVALID_ARGUMENT;
}

static float values[512 * 3136]; /* of one tensor, the largest of which has as many */

/* `pinned` lists the tensors in PyTorch's order: weight and bias, layer by layer. Each has the next sequence. */
static gpur_status write_weights(gpur_learner *learner, const torch_gradient *pinned, int tensors)
{
    double limit = 0;
    for (int t = 0; t < tensors; t++) {
        gpur_weight_info info;
        GPUR_TRY(find_info(learner, pinned[t].name, &info));
        if (t % 2 == 0)
            limit = limit_of(&info);
        for (int64_t i = 0; i < info.count; i++)
            values[i] = (float)(limit * (2 * unit((uint32_t)i, (uint32_t)(10 + t)) - 1));
        GPUR_TRY(gpur_learner_write_weights(learner, GPUR_WEIGHTS_ONLINE, info.name, values, info.count));
        GPUR_TRY(gpur_learner_write_weights(learner, GPUR_WEIGHTS_TARGET, info.name, values, info.count));
    }
    return GPUR_OK;
}

static double norm_of(const float *x, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += (double)x[i] * x[i];
    return sqrt(sum);
}

/* Its norm and four of its numbers; these are small where their terms cancel, so what counts is the tensor's size.
 * Where operands are rounded, some units whose sum is almost 0 pass nothing instead of a little, or the reverse: such a
 * unit hardly changes the norm, but may be a tenth of a number. */
static void check_gradient(const torch_gradient *want, const float *got, int64_t count, int32_t math, double tolerance)
{
    const double of_numbers = math == GPUR_MATH_FP32 ? tolerance : 0.2;
    const double norm = norm_of(got, count), typical = want->norm / sqrt((double)count);
    TEST_REQUIRE(fabs(norm - want->norm) <= tolerance * want->norm,
                 "the norm of the gradient of %s is %.9g; wanted %.9g", want->name, norm, want->norm);
    for (int k = 0; k < 4; k++) {
        const int64_t at = count * k / 4;
        const double by = of_numbers * (typical + fabs(want->numbers[k]));
        TEST_REQUIRE(fabs(got[at] - want->numbers[k]) <= by,
                     "number %d of the gradient of %s is %.9g; wanted %.9g +- %g", (int)at, want->name, (double)got[at],
                     want->numbers[k], by);
    }
}

static void check_gradients(gpur_learner *learner, const torch_gradient *pinned, int tensors, int32_t math,
                            double tolerance)
{
    for (int t = 0; t < tensors; t++) {
        gpur_weight_info info;
        CHECK_OK(find_info(learner, pinned[t].name, &info));
        CHECK_OK(gpur_learner_read_weights(learner, GPUR_WEIGHTS_GRADIENT, info.name, values, info.count));
        check_gradient(&pinned[t], values, info.count, math, tolerance);
    }
}

typedef struct pinned_run {
    const char *preset;
    const torch_gradient *gradients;
    int tensors;
    const double *losses, *gaps; /* (TORCH_STEPS) each */
    int is_ranked;               /* 1: samples by priority, and a discount in each row */
} pinned_run;

/* Gives 16 rows the priorities 1, 2, 3, 1, 2, 3, ..., 2, which add up to the batch, and 0 to all others; one row comes
 * from each of as many equal parts of their sum, so that a sample has each row as often as its priority says. */
static gpur_status sample_by_priority(gpur_learner *learner, int step)
{
    int64_t ids[TORCH_ROWS];
    float priorities[TORCH_ROWS];
    for (int j = 0; j < TORCH_ROWS; j++) {
        ids[j] = (step * 11 + j * 5) % TORCH_ROWS; /* 5 and 48 have no common factor: every row, once */
        priorities[j] = j < TORCH_SAMPLED - 1 ? (float)(1 + j % 3) : j < TORCH_SAMPLED ? 2.0f : 0.0f;
    }
    GPUR_TRY(gpur_replay_update_priorities(ranked, TORCH_ROWS, ids, priorities, NULL));
    return gpur_learner_train(learner, 1);
}

static gpur_status train_on_ids(gpur_learner *learner, int step)
{
    int64_t ids[TORCH_BATCH];
    for (int b = 0; b < TORCH_BATCH; b++)
        ids[b] = (step * 11 + b * 5) % TORCH_ROWS;
    return gpur_learner_train_ids(learner, ids);
}

/* The steps before the first whose best action may be another one in this arithmetic: a choice between two actions is
 * certain where their difference is larger than the errors of both. The first step always counts. In float32 it is all
 * of them, for torch_nature.py chose the data accordingly. */
static int decided_steps(const pinned_run *run, double tolerance)
{
    int steps = 1;
    while (steps < TORCH_STEPS && run->gaps[steps] > 2 * tolerance)
        steps++;
    return steps;
}

static void check_steps(gpur_learner *learner, const pinned_run *run, int32_t math, double tolerance)
{
    const int steps = decided_steps(run, tolerance);
    for (int step = 0; step < steps; step++) {
        gpur_learner_stats stats = {.size = sizeof stats};
        CHECK_OK(run->is_ranked ? sample_by_priority(learner, step) : train_on_ids(learner, step));
        CHECK_OK(gpur_learner_sync(learner));
        CHECK_OK(gpur_learner_get_stats(learner, &stats));
        TEST_REQUIRE(fabs(stats.loss - run->losses[step]) <= tolerance * run->losses[step],
                     "the loss of step %d is %.9g; wanted %.9g +- %g of it", step + 1, (double)stats.loss,
                     run->losses[step], tolerance);
        if (step == 0)
            check_gradients(learner, run->gradients, run->tensors, math, 10 * tolerance);
    }
}

/* PyTorch has no RMSProp with epsilon inside the root; all else is the preset's, or the comparison's own size. */
static gpur_dqn_config config_of(const pinned_run *run, int32_t math)
{
    gpur_dqn_config config;
    (void)gpur_dqn_config_init(&config, sizeof config);
    (void)gpur_dqn_config_preset(&config, run->preset);
    config.network.num_actions = TORCH_ACTIONS;
    config.target_period = TORCH_PERIOD;
    config.math = math;
    config.batch_size = TORCH_BATCH;
    if (run->is_ranked) {
        config.optimizer.kind = GPUR_RMSPROP_TORCH;
        config.optimizer.learning_rate.first = 6.25e-6f;
        config.optimizer.epsilon = 0.01f;
    } else if (config.network.head == GPUR_HEAD_DUELING) {
        config.optimizer.kind = GPUR_ADAM;
        config.optimizer.learning_rate.first = 3e-5f;
        config.optimizer.epsilon = 1e-8f;
        config.optimizer.clip_norm = 0.05f;
    } else {
        config.optimizer.kind = GPUR_RMSPROP_TORCH;
        config.optimizer.learning_rate.first = 2.5e-5f;
    }
    return config;
}

static void check_run(const pinned_run *run, int32_t math, double tolerance)
{
    gpur_learner *learner = NULL;
    const gpur_dqn_config config = config_of(run, math);
    CHECK_OK(gpur_dqn_create(run->is_ranked ? ranked : replay, &config, &learner));
    const gpur_status status = write_weights(learner, run->gradients, run->tensors);
    if (status == GPUR_OK)
        check_steps(learner, run, math, tolerance);
    gpur_learner_destroy(learner);
    CHECK_OK(status);
}

#define LENGTH(array) (int)(sizeof array / sizeof *array)
static const pinned_run runs[] = {
    {"nature-dqn", dqn_gradients, LENGTH(dqn_gradients), dqn_losses, dqn_gaps, 0},
    {"nature-dueling", dueling_gradients, LENGTH(dueling_gradients), dueling_losses, dueling_gaps, 0},
    {"apex-dqn", apex_gradients, LENGTH(apex_gradients), apex_losses, apex_gaps, 1},
};

/* Each arithmetic within its tolerance of float32 [docs/numerics.md]. The CPU has only float32 by itself; it is told to
 * compute in bfloat16 as well. */
TEST(the_nature_presets_train_as_pytorchs_networks)
{
    static const double tolerances[] = {1e-4, 2e-3, 2e-2};
    for (int i = 0; i < LENGTH(runs); i++) {
        test_state.test = runs[i].preset;
        CHECK_EQUAL(decided_steps(&runs[i], tolerances[GPUR_MATH_FP32]), TORCH_STEPS);
        for (int32_t math = GPUR_MATH_FP32; math <= GPUR_MATH_BF16; math++)
            if (math != GPUR_MATH_TF32 || test_on_cuda())
                check_run(&runs[i], math, tolerances[math]);
    }
}

int main(int argc, char **argv)
{
#ifdef __SANITIZE_THREAD__
    printf("test_torch_nature: too long where every thread is watched\n");
    return 77;
#endif
    test_main_begin(argc, argv);
    device = test_device_deterministic();
    device->traits.has_bf16 = 1;
    if (torch_replay(0, &replay) != GPUR_OK || torch_replay(1, &ranked) != GPUR_OK) {
        fprintf(stderr, "%s\n", gpur_last_error());
        return 1;
    }
    RUN(the_nature_presets_train_as_pytorchs_networks);
    gpur_replay_destroy(ranked);
    gpur_replay_destroy(replay);
    gpur_device_close(device);
    return test_main_end();
}
