/* SPDX-License-Identifier: MIT */
/*
 * A learner whose network is in bfloat16: whatever writes weights also writes their copies in bfloat16. And train steps
 * with a second stream, in either arithmetic: it must not change a bit. And what GPUR_MATH_AUTO is. A CPU does neither
 * unless it is told to; with a thread for each stream, ThreadSanitizer then finds work that is not ordered.
 */
#include "test.h"
#include "base/status.h"
#include "device/backend.h"
#include "learn/acting/policy.h"
#include "learn/dqn/dqn.h"
#include "support/dpg_fixture.h"
#include "support/file_utils.h"
#include "support/learner_fixture.h"
#include "support/policy_fixture.h"

enum { STEPS = 8, MAX_NUMBERS = 1 << 14 };

static gpur_device *device;
static learner_fixture fixture;

/* Images of 12 x 8 x 3 as blocks of 4 x 4 pixels: 48 channels. */
static gpur_dqn_config image_config(int32_t math)
{
    gpur_dqn_config config = conv_config(GPUR_CHW);
    config.network.trunk[0] = (gpur_layer){GPUR_CONV, 8, GPUR_RELU, 8, 4, 0, {0}};
    config.network.trunk[1] = (gpur_layer){GPUR_CONV, 16, GPUR_RELU, 1, 1, 0, {0}};
    config.network.hidden = 8;
    config.math = math;
    config.target_period = 3;
    config.host_batches = 0;
    return config;
}

/* 1 if the copy behind each weight is the weight, rounded to 8 bits of mantissa; `weights` is on the device. */
static int is_rounded(const gpur_params *params, const float *weights)
{
    static float w[MAX_NUMBERS];
    static uint16_t bf16[MAX_NUMBERS];
    if (!params->bf16 || params->count > MAX_NUMBERS ||
        gpur_device_copy(device, w, weights, params->count * 4) != GPUR_OK ||
        gpur_device_copy(device, bf16, gpur_params_bf16(params, weights), params->count * 2) != GPUR_OK)
        return 0;
    for (int64_t i = 0; i < params->count; i++) {
        const uint32_t bits = (uint32_t)bf16[i] << 16;
        float wide;
        memcpy(&wide, &bits, sizeof wide);
        if (fabsf(wide - w[i]) > (w[i] == 0 ? 0 : ldexpf(1, ilogbf(w[i]) - 8)))
            return 0;
    }
    return 1;
}

static int all_are_rounded(gpur_learner *learner)
{
    const gpur_params *const params = &gpur_dqn_of(learner)->network.params;
    const gpur_optimizer *const optimizer = &gpur_dqn_of(learner)->step.optimizer;
    const gpur_acting_copies *const acting = &learner->acting->copies;
    return gpur_learner_sync(learner) == GPUR_OK && is_rounded(params, optimizer->weights) &&
           is_rounded(params, optimizer->target) && is_rounded(params, acting->weights[0]) &&
           is_rounded(params, acting->weights[1]);
}

static gpur_status write_bias(gpur_learner *learner, int32_t which)
{
    const float bias[16] = {0.1f, 0.2f, 0.3f, -0.7f};
    return gpur_learner_write_weights(learner, which, "trunk.1.bias", bias, 16);
}

#ifdef GPUR_HAS_FILES
static gpur_status save_and_load(gpur_learner *learner, int is_whole)
{
    const char *const path = test_file_path(is_whole ? "learner" : "weights");
    GPUR_TRY((is_whole ? gpur_learner_save : gpur_learner_save_weights)(learner, path, NULL));
    GPUR_TRY(gpur_learner_train(learner, 1));
    return (is_whole ? gpur_learner_load : gpur_learner_load_weights)(learner, path, NULL);
}
#endif

/* A policy takes over the learner's weights, and acts as it does. */
static void check_policy(gpur_learner *learner, const gpur_dqn_config *config)
{
    static float ours[FIXTURE_ACTIONS], theirs[FIXTURE_ACTIONS];
    gpur_policy_config c = policy_fixture_config(config, ROWS_PLANES, 1);
    gpur_policy *policy = NULL;
    c.math = config->math;
    CHECK_OK(gpur_policy_create(device, &c, &policy));
    const int before = is_rounded(&policy->network.params, policy->copies.weights[0]);
    gpur_status status = gpur_policy_pull(policy, learner, GPUR_WEIGHTS_ONLINE);
    if (status == GPUR_OK)
        status = policy_fixture_q(policy, 1, conv_rows[0].obs, ours, NULL);
    if (status == GPUR_OK)
        status = gpur_learner_q_values(learner, 1, conv_rows[0].obs, theirs, NULL);
    const int latest = gpur_acting_copies_latest(&policy->copies);
    const int after = is_rounded(&policy->network.params, policy->copies.weights[latest]);
    gpur_policy_destroy(policy);
    CHECK_OK(status);
    CHECK(before && after);
    for (int k = 0; k < FIXTURE_ACTIONS; k++)
        CHECK_NEAR(ours[k], theirs[k], 1e-5 * (1 + fabs(theirs[k])));
}

static void check_writes(gpur_learner *learner, const gpur_dqn_config *config)
{
    CHECK(all_are_rounded(learner));
    CHECK_OK(gpur_learner_train(learner, STEPS));
    CHECK(all_are_rounded(learner));
    CHECK_OK(write_bias(learner, GPUR_WEIGHTS_ONLINE));
    CHECK_OK(write_bias(learner, GPUR_WEIGHTS_TARGET));
    CHECK(all_are_rounded(learner));
    check_policy(learner, config);
#ifdef GPUR_HAS_FILES
    for (int is_whole = 0; is_whole < 2; is_whole++) {
        CHECK_OK(save_and_load(learner, is_whole));
        CHECK(all_are_rounded(learner));
    }
#endif
}

TEST(whatever_writes_weights_also_writes_them_in_bfloat16)
{
    const gpur_dqn_config config = image_config(GPUR_MATH_BF16);
    gpur_learner *learner = NULL;
    gpur_status status = learner_fixture_open_kind(&fixture, device, ROWS_PLANES, IMAGE_ROWS, NOT_PRIORITIZED);
    if (status == GPUR_OK)
        status = gpur_dqn_create(fixture.replay, &config, &learner);
    if (status == GPUR_OK)
        check_writes(learner, &config);
    learner_fixture_close_learner(&fixture, learner);
    CHECK_OK(status);
}

typedef struct training {
    int kind;
    int32_t norm;
    gpur_dqn_config config;
} training;

/* Trains, and reads the weights of both networks. Returns how many numbers, or -1 on an error. */
static int64_t result_of(const training *t, int second_stream, float *values)
{
    gpur_learner *learner = NULL;
    int64_t ids[16], online = -1, target = -1;
    gpur_status status = learner_fixture_open_kind(&fixture, device, t->kind, rows_of_kind(t->kind), t->norm);
    gpur_device_second_streams(device, second_stream);
    if (status == GPUR_OK)
        status = gpur_dqn_create(fixture.replay, &t->config, &learner);
    gpur_device_second_streams(device, test_on_cuda());
    if (status == GPUR_OK && !gpur_dqn_of(learner)->step.side.stream != !second_stream)
        status = gpur_fail(GPUR_DEVICE_ERROR, "the learner has as many streams as it was not to have");
    for (int64_t i = 0; i < t->config.batch_size; i++)
        ids[i] = i;
    if (status == GPUR_OK)
        status = gpur_learner_train(learner, STEPS);
    if (status == GPUR_OK)
        status = gpur_learner_train_ids(learner, ids);
    if (status == GPUR_OK)
        online = learner_fixture_weights(learner, GPUR_WEIGHTS_ONLINE, values, MAX_NUMBERS);
    if (online > 0)
        target = learner_fixture_weights(learner, GPUR_WEIGHTS_TARGET, values + online, MAX_NUMBERS - online);
    if (status != GPUR_OK)
        fprintf(stderr, "%s\n", gpur_last_error());
    learner_fixture_close_learner(&fixture, learner);
    return target > 0 ? online + target : -1;
}

TEST(a_second_stream_changes_no_bit)
{
    static float one[MAX_NUMBERS], two[MAX_NUMBERS];
    training trainings[] = {
        {ROWS_PLAIN, NOT_PRIORITIZED, learner_fixture_config(GPUR_HEAD_DUELING, 1)},
        {ROWS_PLAIN, GPUR_WEIGHT_NORM_MEMORY, learner_fixture_config(GPUR_HEAD_Q, 0)},
        {ROWS_PLANES, NOT_PRIORITIZED, image_config(GPUR_MATH_FP32)},
        {ROWS_PLANES, NOT_PRIORITIZED, image_config(GPUR_MATH_BF16)},
    };
    trainings[1].config.index_source = GPUR_PRIORITIZED_STRATIFIED;
    for (int i = 0; i < 4; i++) {
        const int64_t count = result_of(&trainings[i], 0, one), other = result_of(&trainings[i], 1, two);
        TEST_REQUIRE(count > 0 && other == count && memcmp(one, two, (size_t)count * sizeof *one) == 0,
                     "training %d: other bits", i);
    }
}

/* What a learner computes with; -1 on an error, which is printed. */
static int32_t math_of(int kind, const gpur_dqn_config *config)
{
    gpur_learner *learner = NULL;
    gpur_status status = learner_fixture_open_kind(&fixture, device, kind, rows_of_kind(kind), NOT_PRIORITIZED);
    if (status == GPUR_OK)
        status = gpur_dqn_create(fixture.replay, config, &learner);
    if (status == GPUR_OK)
        status = gpur_learner_train(learner, 2);
    const int32_t math = status == GPUR_OK ? gpur_learner_math(learner) : -1;
    if (status != GPUR_OK)
        fprintf(stderr, "%s\n", gpur_last_error());
    learner_fixture_close_learner(&fixture, learner);
    return math;
}

/* On a GPU tensor cores, but not where a whole train step is one kernel, which has none. */
TEST(automatic_arithmetic_is_what_the_device_is_fast_in)
{
    static dpg_fixture dpg_replay;
    const int32_t fast = test_on_cuda() ? GPUR_MATH_TF32 : GPUR_MATH_FP32;
    gpur_dqn_config image = image_config(GPUR_MATH_AUTO), dense;
    CHECK_EQUAL(math_of(ROWS_PLANES, &image), fast);
    image.math = GPUR_MATH_TF32;
    CHECK_EQUAL(math_of(ROWS_PLANES, &image), GPUR_MATH_TF32); /* what is given stays */
    CHECK_OK(gpur_dqn_config_init(&dense, sizeof dense));
    CHECK_OK(gpur_dqn_config_preset(&dense, "melee-gpu"));
    dense.batch_size = 16, dense.math = GPUR_MATH_AUTO;
    CHECK_EQUAL(math_of(ROWS_WIDE, &dense), GPUR_MATH_FP32);
    dense.step_kernel = GPUR_STEP_LIBRARIES;
    CHECK_EQUAL(math_of(ROWS_WIDE, &dense), fast);

    gpur_dpg_config config = dpg_fixture_config();
    config.math = GPUR_MATH_AUTO;
    CHECK_OK(dpg_fixture_open(&dpg_replay, device, 0));
    gpur_learner *const dpg = dpg_fixture_learner(&dpg_replay, &config);
    CHECK_EQUAL(gpur_learner_math(dpg), fast);
    gpur_learner_destroy(dpg);
    dpg_fixture_close(&dpg_replay);

    gpur_actor_critic_config critic;
    gpur_learner *learner = NULL;
    gpur_policy *policy = NULL;
    gpur_policy_config acting;
    CHECK_OK(gpur_actor_critic_config_init(&critic, sizeof critic));
    critic.network.num_actions = 3, critic.math = GPUR_MATH_AUTO;
    critic.obs = (gpur_field){"obs", GPUR_FLOAT32, {5}};
    CHECK_OK(gpur_actor_critic_create(device, &critic, &learner));
    CHECK_EQUAL(gpur_learner_math(learner), fast);
    gpur_learner_destroy(learner);
    CHECK_OK(gpur_policy_config_init(&acting, sizeof acting));
    acting.network.num_actions = 3, acting.obs = critic.obs, acting.math = GPUR_MATH_AUTO;
    CHECK_OK(gpur_policy_create(device, &acting, &policy));
    CHECK_EQUAL(policy->config.math, fast);
    gpur_policy_destroy(policy);
    CHECK(gpur_learner_math(NULL) == -1 && gpur_learner_math(NULL) == -1 && gpur_learner_math(NULL) == -1);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device_deterministic();
    device->traits.has_bf16 = 1;
    RUN(whatever_writes_weights_also_writes_them_in_bfloat16);
    RUN(a_second_stream_changes_no_bit);
    RUN(automatic_arithmetic_is_what_the_device_is_fast_in);
    test_remove_folder();
    gpur_device_close(device);
    return test_main_end();
}
