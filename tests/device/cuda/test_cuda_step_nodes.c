/* SPDX-License-Identifier: MIT */
/*
 * The graph of one train step, for every preset of a learner, every index source and every arithmetic: kernels, copies
 * and fills but no host function, and every convolution is cuDNN's. On the CPU, which has no graphs, the same learners
 * are created, which includes one train step.
 */
#include "test.h"
#include "device/cuda/cuda.h"
#include "learn/dqn/dqn.h"

enum { CAPACITY = 4096, BATCH = 32, SMALL_BATCH = 4 };

typedef struct step_case {
    const char *preset, *words;
    int32_t source, math;
} step_case;

static const step_case cases[] = {
    {"melee-gpu", "uniform", GPUR_UNIFORM, GPUR_MATH_FP32},
    {"melee-gpu", "distinct", GPUR_UNIFORM_DISTINCT, GPUR_MATH_FP32},
    {"melee-gpu", "by priority, stratified", GPUR_PRIORITIZED_STRATIFIED, GPUR_MATH_FP32},
    {"melee-gpu", "by priority, plain", GPUR_PRIORITIZED_INDEPENDENT, GPUR_MATH_FP32},
    {"melee-gpu", "uniform, TF32", GPUR_UNIFORM, GPUR_MATH_TF32},
    {"melee-dqn", "uniform", GPUR_UNIFORM, GPUR_MATH_FP32},
    {"melee-double", "uniform", GPUR_UNIFORM, GPUR_MATH_FP32},
    {"cartpole", "uniform", GPUR_UNIFORM, GPUR_MATH_FP32},
    {"nature-dqn", "uniform, frames", GPUR_UNIFORM, GPUR_MATH_FP32},
    {"nature-dueling", "uniform, frames", GPUR_UNIFORM, GPUR_MATH_FP32},
    {"nature-dueling", "by priority, frames, TF32", GPUR_PRIORITIZED_STRATIFIED, GPUR_MATH_TF32},
    {"nature-dueling", "by priority, frames, BF16", GPUR_PRIORITIZED_STRATIFIED, GPUR_MATH_BF16},
    {"apex-dqn", "by priority, frames", GPUR_PRIORITIZED_STRATIFIED, GPUR_MATH_FP32},
    {"apex-dqn", "by priority, frames, TF32", GPUR_PRIORITIZED_STRATIFIED, GPUR_MATH_TF32},
};
enum { CASES = sizeof cases / sizeof *cases };

static gpur_status configure(const step_case *c, const gpur_field *fields, gpur_replay_config *config)
{
    GPUR_TRY(gpur_replay_config_init(config, sizeof *config));
    if (strcmp(c->preset, "cartpole") != 0) /* not the preset of a published replay */
        GPUR_TRY(gpur_replay_config_preset(config, c->preset));
    config->capacity = CAPACITY, config->max_batch = 256, config->min_size = 0, config->block_rows = 0;
    config->fields = fields, config->field_count = 6;
    config->index_source = c->source;
    config->prioritized = c->source == GPUR_PRIORITIZED_STRATIFIED || c->source == GPUR_PRIORITIZED_INDEPENDENT;
    return GPUR_OK;
}

static gpur_status open_replay(const step_case *c, gpur_device *device, int images, gpur_replay **replay)
{
    const int32_t dtype = images ? GPUR_UINT8 : GPUR_FLOAT32;
    gpur_field fields[] = {{"obs", dtype, {27}},      {"action", GPUR_INT32, {0}},    {"reward", GPUR_FLOAT32, {0}},
                           {"next_obs", dtype, {27}}, {"terminated", GPUR_BOOL, {0}}, {"discount", GPUR_FLOAT32, {0}}};
    gpur_replay_config config;
    for (int f = 0; images && f < 6; f += 3)
        fields[f].shape[0] = 4, fields[f].shape[1] = 84, fields[f].shape[2] = 84;
    GPUR_TRY(configure(c, fields, &config));
    return gpur_replay_create(device, &config, replay);
}

/* The whole step is not one kernel. */
static gpur_status learner_config(const step_case *c, gpur_dqn_config *config)
{
    GPUR_TRY(gpur_dqn_config_init(config, sizeof *config));
    GPUR_TRY(gpur_dqn_config_preset(config, c->preset));
    config->batch_size = test_on_cuda() ? BATCH : SMALL_BATCH;
    config->index_source = c->source;
    config->math = c->math;
    config->step_kernel = GPUR_STEP_LIBRARIES;
    return GPUR_OK;
}

static void check_nodes(const step_case *c, const gpur_graph *graph)
{
    gpur_cuda_nodes nodes = {0, 0, 0, 0, 0};
    CHECK_OK(gpur_cuda_graph_count_nodes(graph, &nodes));
    printf("%s, %s: %lld kernels, %lld copies, %lld fills\n", c->preset, c->words, (long long)nodes.kernels,
           (long long)nodes.copies, (long long)nodes.fills);
    TEST_REQUIRE(nodes.kernels > 0 && nodes.hosts == 0 && nodes.others == 0,
                 "%s, %s: %lld kernels, %lld host functions, %lld others", c->preset, c->words,
                 (long long)nodes.kernels, (long long)nodes.hosts, (long long)nodes.others);
}

static void check_conv(const gpur_conv *conv)
{
    CHECK(strncmp(gpur_conv_method(conv), "cuDNN", 5) == 0);
}

static void check_step(const step_case *c, const gpur_learner *learner)
{
    const gpur_train_step *const step = learner->step;
    check_nodes(c, step->sampled.train);
    check_nodes(c, step->by_ids.train);
    for (int i = 0; i < step->network->conv_count; i++) {
        check_conv(step->online.conv[i]);
        check_conv(step->target.conv[i]);
        check_conv(step->backward.conv_to_weight[i]);
        if (i > 0)
            check_conv(step->backward.conv_to_input[i]);
    }
}

TEST(a_step_of_any_preset_is_kernels_alone_and_its_convolutions_are_cudnns)
{
    gpur_device *const device = test_device();
    for (int i = 0; i < CASES; i++) {
        gpur_replay *replay = NULL;
        gpur_learner *learner = NULL;
        gpur_dqn_config config;
        gpur_status status = learner_config(&cases[i], &config);
        if (status == GPUR_OK)
            status = open_replay(&cases[i], device, config.network.trunk[0].kind == GPUR_CONV, &replay);
        if (status == GPUR_OK)
            status = gpur_dqn_create(replay, &config, &learner);
        if (status == GPUR_OK && test_on_cuda())
            check_step(&cases[i], learner);
        gpur_learner_destroy(learner);
        gpur_replay_destroy(replay);
        TEST_REQUIRE(status == GPUR_OK, "%s, %s: %s", cases[i].preset, cases[i].words, gpur_last_error());
    }
    gpur_device_close(device);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(a_step_of_any_preset_is_kernels_alone_and_its_convolutions_are_cudnns);
    return test_main_end();
}
