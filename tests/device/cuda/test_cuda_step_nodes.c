/* SPDX-License-Identifier: MIT */
/*
 * Contents of the graph of one train step, for every preset of a learner, every index source and every arithmetic:
 * nodes by kind, and by the library that added them. There must be kernels, copies and fills but no host function, and
 * every convolution must be cuDNN's. Prints both, and the planned and actual bytes of replay and learner.
 *
 * On the CPU, which has no graphs, the same learners are created, which includes one train step.
 */
#include "test.h"
#include "device/cuda/pretend/count_calls.h"
#include "device/cuda/cuda.h"
#include "learn/learner.h"

enum { CAPACITY = 4096, BATCH = 32, SMALL_BATCH = 4 };

typedef struct step_case {
    const char *preset, *words;
    int32_t source, math;
} step_case;

static const step_case cases[] = {
    {"melee-gpu", "uniform", GPUR_UNIFORM, GPUR_MATH_FP32},
    {"melee-gpu", "distinct", GPUR_UNIFORM_DISTINCT, GPUR_MATH_FP32},
    {"melee-gpu", "by priority, stratified", GPUR_PRIORITIZED, GPUR_MATH_FP32},
    {"melee-gpu", "by priority, plain", GPUR_PRIORITIZED_PLAIN, GPUR_MATH_FP32},
    {"melee-gpu", "uniform, TF32", GPUR_UNIFORM, GPUR_MATH_TF32},
    {"melee-dqn", "uniform", GPUR_UNIFORM, GPUR_MATH_FP32},
    {"melee-double", "uniform", GPUR_UNIFORM, GPUR_MATH_FP32},
    {"cartpole", "uniform", GPUR_UNIFORM, GPUR_MATH_FP32},
    {"nature-dqn", "uniform, frames", GPUR_UNIFORM, GPUR_MATH_FP32},
    {"nature-dueling", "uniform, frames", GPUR_UNIFORM, GPUR_MATH_FP32},
    {"nature-dueling", "by priority, frames, TF32", GPUR_PRIORITIZED, GPUR_MATH_TF32},
    {"nature-dueling", "by priority, frames, BF16", GPUR_PRIORITIZED, GPUR_MATH_BF16},
    {"apex-dqn", "by priority, frames", GPUR_PRIORITIZED, GPUR_MATH_FP32},
    {"apex-dqn", "by priority, frames, TF32", GPUR_PRIORITIZED, GPUR_MATH_TF32},
};
enum { CASES = sizeof cases / sizeof *cases };

static gpur_status configure(const step_case *c, const gpur_field *fields, gpur_replay_config *config)
{
    GPUR_TRY(gpur_replay_config_init(config, sizeof *config));
    if (strcmp(c->preset, "cartpole") != 0) /* not the preset of a published replay */
        GPUR_TRY(gpur_replay_config_preset(config, c->preset));
    config->capacity = CAPACITY, config->max_batch = 256, config->min_size = 0, config->update_size = 0;
    config->fields = fields, config->field_count = 6;
    config->index_source = c->source;
    config->prioritized = c->source == GPUR_PRIORITIZED || c->source == GPUR_PRIORITIZED_PLAIN;
    return GPUR_OK;
}

static gpur_status open_replay(const step_case *c, gpur_device *device, int images, gpur_replay **replay,
                               gpur_replay_plan *plan)
{
    const int32_t dtype = images ? GPUR_UINT8 : GPUR_FLOAT32;
    gpur_field fields[] = {{"obs", dtype, {27}},      {"action", GPUR_INT32, {0}},    {"reward", GPUR_FLOAT32, {0}},
                           {"next_obs", dtype, {27}}, {"terminated", GPUR_BOOL, {0}}, {"discount", GPUR_FLOAT32, {0}}};
    gpur_replay_config config;
    for (int f = 0; images && f < 6; f += 3)
        fields[f].shape[0] = 4, fields[f].shape[1] = 84, fields[f].shape[2] = 84;
    GPUR_TRY(configure(c, fields, &config));
    plan->size = sizeof *plan;
    GPUR_TRY(gpur_replay_plan_bytes(&config, plan));
    return gpur_replay_create(device, &config, replay);
}

/* unroll is 1, so that one step is counted per capture. */
static gpur_status learner_config(const step_case *c, gpur_learner_config *config)
{
    GPUR_TRY(gpur_learner_config_init(config, sizeof *config));
    GPUR_TRY(gpur_learner_config_preset(config, c->preset));
    config->batch_size = test_on_cuda() ? BATCH : SMALL_BATCH;
    config->index_source = c->source;
    config->math = c->math;
    config->unroll = 1;
    return GPUR_OK;
}

static void print_bytes(const gpur_replay_plan *plan, gpur_learner *learner)
{
    gpur_learner_stats stats = {.size = sizeof stats};
    CHECK_OK(gpur_learner_get_stats(learner, &stats));
    printf("    %d transitions: %.1f MB of the device, of it %.3f MB priorities, %.1f MB pinned; learner: %.1f MB of "
           "the device\n",
           CAPACITY, 1e-6 * (double)plan->device_bytes, 1e-6 * (double)plan->priority_bytes,
           1e-6 * (double)plan->pinned_bytes, 1e-6 * (double)stats.device_bytes);
}

static void print_calls(const call_counts *c)
{
    static const char *const ways[] = {"cuBLASLt", "cuDNN's convolutions", "our kernels"};
    for (int way = 0; way < COUNT_WAYS; way++)
        printf("%s%lld of %s (%lld nodes)", way ? ", " : "    calls: ", (long long)c->calls[way], ways[way],
               (long long)c->nodes[way]);
    printf("\n");
}

static void check_nodes(const gpur_recording *recording, gpur_cuda_nodes *nodes)
{
    CHECK_OK(gpur_cuda_recording_count(recording, nodes));
    CHECK(nodes->kernels > 0);
    CHECK_EQUAL(nodes->hosts, 0);
    CHECK_EQUAL(nodes->others, 0);
}

/* With c convolutions there are c forward passes in the online network and c in the target network, c gradients by the
 * weights and c - 1 by the inputs. All nodes that no library added are our kernels, copies and fills. */
static void check_calls(const gpur_learner *learner, const gpur_cuda_nodes *nodes, const call_counts *count)
{
    const int64_t convolutions = learner->network.conv_count;
    const int64_t libraries = count->nodes[COUNT_BLAS] + count->nodes[COUNT_DNN_CONV];
    const int64_t all = nodes->kernels + nodes->copies + nodes->fills;
    CHECK_EQUAL(count->calls[COUNT_DNN_CONV], convolutions ? 4 * convolutions - 1 : 0);
    CHECK(count->nodes[COUNT_DNN_CONV] >= count->calls[COUNT_DNN_CONV]);
    CHECK(count->calls[COUNT_BLAS] > 0 && count->nodes[COUNT_BLAS] >= count->calls[COUNT_BLAS]);
    CHECK_EQUAL(count->nodes[COUNT_OURS], count->calls[COUNT_OURS]);
    CHECK(libraries + count->nodes[COUNT_OURS] <= all);
}

static void count_nodes(const step_case *c, const gpur_learner *learner)
{
    gpur_cuda_nodes nodes = {0, 0, 0, 0, 0};
    const call_counts count = count_calls_of(0);
    CHECK_OK(gpur_cuda_recording_count(learner->step.sampled.train, &nodes));
    printf("  %s, %s: %lld kernels, %lld copies, %lld fills, %lld host functions, %lld others\n", c->preset, c->words,
           (long long)nodes.kernels, (long long)nodes.copies, (long long)nodes.fills, (long long)nodes.hosts,
           (long long)nodes.others);
    print_calls(&count);
    check_nodes(learner->step.sampled.train, &nodes);
    check_calls(learner, &nodes, &count);
    check_nodes(learner->step.by_ids.train, &nodes);
}

/* Creating the learner includes a warm-up step. */
static gpur_status look_at(const step_case *c, gpur_device *device, gpur_replay **replay, gpur_learner **learner)
{
    gpur_learner_config config;
    gpur_replay_plan plan;
    GPUR_TRY(learner_config(c, &config));
    GPUR_TRY(open_replay(c, device, config.network.trunk[0].kind == GPUR_CONV, replay, &plan));
    count_calls_begin();
    GPUR_TRY(gpur_learner_create(*replay, &config, learner));
    if (count_calls_recordings() != 2)
        return gpur_fail(GPUR_INVALID_ARGUMENT, "%d recordings were seen; wanted 2, of draws and of given ids",
                         count_calls_recordings());
    if (test_on_cuda()) {
        count_nodes(c, *learner);
        print_bytes(&plan, *learner);
    }
    return GPUR_OK;
}

TEST(a_step_of_any_preset_is_kernels_alone_and_its_convolutions_are_cudnns)
{
    gpur_device *const device = test_device();
    for (int i = 0; i < CASES; i++) {
        gpur_replay *replay = NULL;
        gpur_learner *learner = NULL;
        const gpur_status status = look_at(&cases[i], device, &replay, &learner);
        gpur_learner_destroy(learner);
        gpur_replay_destroy(replay);
        TEST_REQUIRE(status == GPUR_OK, "%s, %s: %s", cases[i].preset, cases[i].words, gpur_last_error());
    }
    gpur_device_close(device);
}

static int has_case(const char *preset, size_t length)
{
    for (int i = 0; i < CASES; i++)
        if (strlen(cases[i].preset) == length && strncmp(cases[i].preset, preset, length) == 0)
            return 1;
    return 0;
}

/* Reads the names of the presets from the message of a refusal. */
TEST(every_preset_has_a_case)
{
    gpur_learner_config config;
    CHECK_OK(gpur_learner_config_init(&config, sizeof config));
    CHECK_STATUS(gpur_learner_config_preset(&config, "none"), GPUR_INVALID_ARGUMENT);
    const char *name = strstr(gpur_last_error(), "there are ");
    CHECK(name != NULL);
    name += strlen("there are ");
    for (int count = 0;; count++) {
        const size_t length = strcspn(name, ",");
        TEST_REQUIRE(has_case(name, length), "preset %.*s has no case here", (int)length, name);
        if (!name[length]) {
            CHECK(count >= 6);
            return;
        }
        name += length + strlen(", ");
    }
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    setvbuf(stdout, NULL, _IOLBF, 0); /* so that failures follow their case in the output, also in a file */
    RUN(every_preset_has_a_case);
    RUN(a_step_of_any_preset_is_kernels_alone_and_its_convolutions_are_cudnns);
    return test_main_end();
}
