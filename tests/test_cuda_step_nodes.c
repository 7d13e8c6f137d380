/* SPDX-License-Identifier: MIT */
/*
 * What the graph of one train step holds, by kind of node, for every kind of draw: no host function, and nothing that
 * is no kernel, copy or fill. Prints the nodes, and the bytes that replay and learner hold, as planned and as held.
 */
#include "test.h"

#include "device/recording_cuda.h"
#include "learn/learner.h"

enum { CAPACITY = 4096, BATCH = 32 };

typedef struct step_case {
    const char *preset, *words;
    int32_t source, images;
} step_case;

static const step_case cases[] = {
    {"melee-gpu", "uniform", GPUR_UNIFORM, 0},
    {"melee-gpu", "distinct", GPUR_UNIFORM_DISTINCT, 0},
    {"melee-gpu", "by priority, stratified", GPUR_PRIORITIZED, 0},
    {"melee-gpu", "by priority, plain", GPUR_PRIORITIZED_PLAIN, 0},
    {"nature-dqn", "uniform, frames stored once", GPUR_UNIFORM, 1},
    {"nature-dueling", "by priority, frames stored once", GPUR_PRIORITIZED, 1},
};

static gpur_status configure(const step_case *c, const gpur_field *fields, gpur_replay_config *config)
{
    GPUR_TRY(gpur_replay_config_init(config, sizeof *config));
    if (c->images)
        GPUR_TRY(gpur_replay_config_preset(config, c->preset));
    config->capacity = CAPACITY, config->max_batch = 256, config->min_size = 0;
    config->fields = fields, config->field_count = 5;
    config->index_source = c->source;
    config->prioritized = c->source == GPUR_PRIORITIZED || c->source == GPUR_PRIORITIZED_PLAIN;
    return GPUR_OK;
}

static gpur_status open_replay(const step_case *c, gpur_device *device, gpur_replay **replay, gpur_replay_plan *plan)
{
    const int32_t dtype = c->images ? GPUR_UINT8 : GPUR_FLOAT32;
    gpur_field fields[] = {{"obs", dtype, {27}},
                           {"action", GPUR_INT32, {0}},
                           {"reward", GPUR_FLOAT32, {0}},
                           {"next_obs", dtype, {27}},
                           {"terminated", GPUR_BOOL, {0}}};
    gpur_replay_config config;
    for (int f = 0; c->images && f < 5; f += 3)
        fields[f].shape[0] = 4, fields[f].shape[1] = 84, fields[f].shape[2] = 84;
    GPUR_TRY(configure(c, fields, &config));
    plan->size = sizeof *plan;
    GPUR_TRY(gpur_replay_plan_bytes(&config, plan));
    return gpur_replay_create(device, &config, replay);
}

static gpur_status open_learner(const step_case *c, gpur_replay *replay, gpur_learner **learner)
{
    gpur_learner_config config;
    GPUR_TRY(gpur_learner_config_init(&config, sizeof config));
    GPUR_TRY(gpur_learner_config_preset(&config, c->preset));
    config.batch_size = BATCH;
    config.index_source = c->source;
    return gpur_learner_create(replay, &config, learner);
}

static void print_case(const step_case *c, const gpur_cuda_nodes *nodes, const gpur_replay_plan *plan,
                       const gpur_learner_stats *stats)
{
    printf("  %s, %s: %lld kernels, %lld copies, %lld fills, %lld host functions, %lld others\n", c->preset, c->words,
           (long long)nodes->kernels, (long long)nodes->copies, (long long)nodes->fills, (long long)nodes->hosts,
           (long long)nodes->others);
    printf("    %d transitions: %.1f MB of the device, of it %.3f MB priorities, %.1f MB pinned; learner: %.1f MB of "
           "the device\n", CAPACITY, 1e-6 * (double)plan->device_bytes, 1e-6 * (double)plan->priority_bytes,
           1e-6 * (double)plan->pinned_bytes, 1e-6 * (double)stats->device_bytes);
}

static void count_nodes(const step_case *c, const gpur_learner *learner, const gpur_replay_plan *plan)
{
    gpur_cuda_nodes nodes = {0, 0, 0, 0, 0};
    gpur_learner_stats stats = {.size = sizeof stats};
    CHECK_OK(gpur_cuda_recording_count(learner->train, &nodes));
    CHECK_OK(gpur_learner_get_stats((gpur_learner *)learner, &stats));
    print_case(c, &nodes, plan, &stats);
    CHECK(nodes.kernels > 0);
    CHECK_EQUAL(nodes.hosts, 0);
    CHECK_EQUAL(nodes.others, 0);
    CHECK_OK(gpur_cuda_recording_count(learner->train_on, &nodes));
    CHECK_EQUAL(nodes.hosts, 0);
    CHECK_EQUAL(nodes.others, 0);
}

TEST(a_step_of_any_draw_needs_no_host_function)
{
    gpur_device *const device = test_device();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gpur_replay *replay = NULL;
        gpur_learner *learner = NULL;
        gpur_replay_plan plan;
        gpur_status status = open_replay(&cases[i], device, &replay, &plan);
        if (status == GPUR_OK)
            status = open_learner(&cases[i], replay, &learner);
        if (status == GPUR_OK)
            count_nodes(&cases[i], learner, &plan);
        gpur_learner_destroy(learner);
        gpur_replay_destroy(replay);
        CHECK_OK(status);
    }
    gpur_device_close(device);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    if (!test_on_cuda()) {
        printf("test_cuda_step_nodes: %s has no graphs\n", test_device_name());
        return 77;
    }
    RUN(a_step_of_any_draw_needs_no_host_function);
    return test_main_end();
}
