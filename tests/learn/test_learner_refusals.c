/* SPDX-License-Identifier: MIT */
/* Bad arguments of the learner's calls: the status, a part of the message, and that nothing has changed.
 * tests/base/test_settings.c checks each numeric setting at the ends of its range. */
#include "test.h"
#include "learn/dqn/dqn.h"
#include "replay/replay.h"
#include "support/learner_fixture.h"

static gpur_device *device;
static learner_fixture fixture;

static void check_refused(const gpur_dqn_config *config, const char *message)
{
    gpur_learner *learner = (gpur_learner *)(void *)&fixture; /* must become NULL */
    CHECK_FAILS(gpur_dqn_create(fixture.replay, config, &learner), GPUR_INVALID_ARGUMENT, message);
    CHECK(!learner);
}

TEST(settings_that_do_not_fit_together_are_refused_with_the_reason)
{
    gpur_dqn_config good = learner_fixture_config(GPUR_HEAD_DUELING, 1), c;
    gpur_learner *learner = NULL;
    CHECK_OK(learner_fixture_open(&fixture, device, 0));
    check_refused(NULL, "NULL");
    c = good, c.size = 3, check_refused(&c, "was the struct initialized?");
    c = good, c.network.head = GPUR_HEAD_TANH_ACTION, check_refused(&c, "a DQN learner needs GPUR_HEAD_Q (0)");
    c = good, c.network.head = GPUR_HEAD_SOFTMAX_VALUE, check_refused(&c, "network.head is 2");
    c = good, c.network.atoms = 2,
    check_refused(&c, "network.atoms is 2; without a head of distributions it must be 0");
    c = good, c.network.v_max = 2, check_refused(&c, "network.v_min is 0 and v_max 2; without GPUR_HEAD_CATEGORICAL");
    c.network.head = GPUR_HEAD_QUANTILES, check_refused(&c, "network.v_min is 0 and v_max 2; without");
    c.network.v_max = 0, c.network.atoms = -1, check_refused(&c, "network.atoms is -1; it must be 1 to 65536");
    c.network.atoms = 8, c.huber_delta = -1, check_refused(&c, "huber_delta is -1; it must be 0 or more");
    c.huber_delta = 1, c.step_kernel = GPUR_STEP_FUSED, check_refused(&c, "which takes action values");
    c = good, c.network.head = GPUR_HEAD_CATEGORICAL, c.network.atoms = 1;
    check_refused(&c, "network.atoms is 1; it must be 2 to 65536");
    c.network.atoms = 65536, c.network.num_actions = 65536, check_refused(&c, "at most 16777216 numbers in all");
    c = good, c.network.head = GPUR_HEAD_CATEGORICAL, c.network.v_min = 3, c.network.v_max = -3;
    check_refused(&c, "network.v_min is 3 and v_max -3; they must be finite, and the first below the second");
    c = good, c.index_source = GPUR_PRIORITIZED_STRATIFIED;
    check_refused(&c, "index_source is 3, by priority, and the replay's prioritized is 0");
    c = good, c.batch_size = 257, check_refused(&c, "batch_size is 257; it must be 1 to the replay's max_batch, 256");
    good.step_kernel = GPUR_STEP_FUSED;
    c = good, c.step_kernel = 3;
    check_refused(&c, "step_kernel is 3; it must be GPUR_STEP_AUTO, LIBRARIES or FUSED (0 to 2)");
    c = good, c.math = GPUR_MATH_TF32, check_refused(&c, "takes GPUR_MATH_FP32 (0); math is 1");
    c = good, c.network.hidden = 0;
    check_refused(&c, "takes two dense layers below the last; this network has 0 convolutions and 1 dense");
    c = good, c.network = network_fixture_config(9, 8, GPUR_RELU, GPUR_HEAD_DUELING, 12, FIXTURE_ACTIONS);
    check_refused(&c, "this network has 0 convolutions and 3 dense layers there");
    c = good, c.network.input_scale = 0.5f;
    check_refused(&c, "obs is float32, input_scale 0.5 and input_shift 0");
    c = good, c.network.input_shift = -1.0f;
    check_refused(
        &c,
        "obs of float32, network.input_scale 1 and input_shift 0; obs is float32, input_scale 1 and input_shift -1");
    for (int32_t kernel = GPUR_STEP_AUTO; kernel <= GPUR_STEP_FUSED; kernel++) {
        const int is_chosen = kernel == GPUR_STEP_AUTO && test_on_cuda() && good.batch_size <= 128;
        c = good, c.step_kernel = kernel;
        CHECK_OK(gpur_dqn_create(fixture.replay, &c, &learner));
        CHECK(gpur_dqn_of(learner)->fused.step ==
              (is_chosen || kernel == GPUR_STEP_FUSED ? &gpur_dqn_of(learner)->step : NULL));
        gpur_learner_destroy(learner);
    }
    learner_fixture_close(&fixture);
}

/* A learner on a replay whose field `index` is `field`, and whose next_obs is `next` unless that has no name. */
static void check_schema(int index, gpur_field field, gpur_field next, int32_t layout, const gpur_dqn_config *config,
                         const char *message)
{
    gpur_field fields[] = {{"obs", GPUR_FLOAT32, {5}},
                           {"action", GPUR_INT32, {0}},
                           {"reward", GPUR_FLOAT32, {0}},
                           {"next_obs", GPUR_FLOAT32, {5}},
                           {"terminated", GPUR_BOOL, {0}}};
    gpur_replay_config replay;
    fields[index] = field;
    fields[3] = next.name ? next : fields[3];
    CHECK_OK(gpur_replay_config_init(&replay, sizeof replay));
    replay.capacity = 2048, replay.max_batch = 32, replay.fields = fields, replay.field_count = 5;
    replay.layout = layout, replay.frame_stack = layout == GPUR_LAYOUT_FRAMES ? 2 : replay.frame_stack;
    CHECK_OK(gpur_replay_create(device, &replay, &fixture.replay));
    check_refused(config, message);
    gpur_replay_destroy(fixture.replay);
}

TEST(a_schema_that_cannot_be_learned_from_is_refused)
{
    enum { DENSE, CONV, NATURE, FUSED, CONFIGS };
    static const struct {
        int config, index;
        gpur_field field, next;
        int32_t layout;
        const char *message;
    } cases[] = {
        {DENSE, 0, {"state", GPUR_FLOAT32, {5}}, {0}, 0, "no field \"obs\""},
        {DENSE, 0, {"obs", GPUR_FLOAT16, {5}}, {0}, 0, "field \"obs\" is float16; a network reads float32 or uint8"},
        {DENSE, 0, {"obs", GPUR_UINT8, {5}}, {0}, 0, "obs is uint8 and next_obs float32; they must be alike"},
        {DENSE,
         0,
         {"obs", GPUR_FLOAT32, {2, 3}},
         {0},
         0,
         "obs has 2 axes and next_obs 1; they must be of the same shape"},
        {DENSE, 0, {"obs", GPUR_FLOAT32, {5, 1}}, {0}, 0, "obs has 2 axes and next_obs 1; they must be of the same"},
        {DENSE,
         0,
         {"obs", GPUR_UINT8, {2, 3, 4}},
         {"next_obs", GPUR_UINT8, {2, 4, 3}},
         0,
         "axis 1 of obs has 3 and of next_obs 4; they must be of the same shape"},
        {DENSE, 1, {"action", GPUR_FLOAT32, {0}}, {0}, 0, "needs int32 or int64"},
        {DENSE, 1, {"action", GPUR_INT32, {2}}, {0}, 0, "field \"action\" has 2 numbers"},
        {DENSE, 2, {"reward", GPUR_FLOAT16, {0}}, {0}, 0, "field \"reward\" is float16"},
        {DENSE, 2, {"reward", GPUR_FLOAT32, {3}}, {0}, 0, "field \"reward\" has 3 numbers"},
        {DENSE, 3, {"next_state", GPUR_FLOAT32, {5}}, {0}, 0, "no field \"next_obs\""},
        {DENSE, 4, {"done", GPUR_BOOL, {0}}, {0}, 0, "no field \"terminated\""},
        {CONV,
         0,
         {"obs", GPUR_UINT8, {24, 12}},
         {"next_obs", GPUR_UINT8, {24, 12}},
         0,
         "obs of shape (24, 12) is no image: it needs three axes"},
        {NATURE,
         0,
         {"obs", GPUR_UINT8, {84, 84, 4}},
         {"next_obs", GPUR_UINT8, {84, 84, 4}},
         0,
         "GPUR_CHW takes obs of (84, 84, 4) as (channels, height, width); GPUR_HWC takes it as"},
        {FUSED, 0, {"obs", GPUR_UINT8, {2, 3}}, {"next_obs", GPUR_UINT8, {2, 3}}, 0, "obs is uint8, input_scale 1"},
        {FUSED,
         0,
         {"obs", GPUR_FLOAT32, {2, 3}},
         {"next_obs", GPUR_FLOAT32, {2, 3}},
         GPUR_LAYOUT_FRAMES,
         "takes a replay of GPUR_LAYOUT_ROWS; this one has 4 links to frames in a row"},
    };
    gpur_dqn_config configs[CONFIGS];
    for (int i = 0; i < CONFIGS; i++)
        configs[i] = i == CONV ? conv_config(GPUR_CHW) : learner_fixture_config(GPUR_HEAD_DUELING, 1);
    CHECK_OK(gpur_dqn_config_preset(&configs[NATURE], "nature-dqn"));
    configs[NATURE].network.input_layout = GPUR_CHW;
    configs[FUSED].step_kernel = GPUR_STEP_FUSED;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        check_schema(cases[i].index, cases[i].field, cases[i].next, cases[i].layout, &configs[cases[i].config],
                     cases[i].message);
}

/* A step that samples waits for the replay's min_size, as gpur_replay_sample does. A step on ids does not. */
TEST(training_waits_for_enough_transitions)
{
    gpur_learner *any = NULL, *distinct = NULL;
    const int64_t ids[16] = {0};
    gpur_dqn_config config = learner_fixture_config(GPUR_HEAD_Q, 1);
    CHECK_OK(learner_fixture_open(&fixture, device, 0));
    CHECK_OK(gpur_dqn_create(fixture.replay, &config, &any));
    config.index_source = GPUR_UNIFORM_DISTINCT;
    CHECK_OK(gpur_dqn_create(fixture.replay, &config, &distinct));
    CHECK_STATUS(gpur_learner_train(any, 1), GPUR_TOO_FEW);
    CHECK_OK(gpur_learner_train(any, 0));
    CHECK_FAILS(gpur_learner_train(any, -1), GPUR_INVALID_ARGUMENT, "steps is -1");
    CHECK_OK(learner_fixture_append(&fixture, 15));
    CHECK_OK(gpur_learner_train(any, 1));
    CHECK_FAILS(gpur_learner_train(distinct, 1), GPUR_TOO_FEW, "15 transitions are visible; this sample needs 16");
    CHECK_OK(learner_fixture_append(&fixture, 1));
    CHECK_OK(gpur_learner_train(distinct, 1));
    fixture.replay->config.min_size = 17;
    CHECK_STATUS(gpur_learner_train(any, 1), GPUR_TOO_FEW);
    CHECK_MESSAGE("16 transitions have become visible so far; samples wait for min_size = 17");
    CHECK_OK(gpur_learner_train_ids(any, ids));
    CHECK_OK(learner_fixture_append(&fixture, 1));
    CHECK_OK(gpur_learner_train(any, 1));
    CHECK_EQUAL(learner_fixture_stats(any).steps, 3);
    gpur_learner_destroy(any);
    gpur_learner_destroy(distinct);
    learner_fixture_close(&fixture);
}

TEST(ids_that_are_not_visible_are_refused_and_nothing_is_trained)
{
    const gpur_dqn_config config = learner_fixture_config(GPUR_HEAD_Q, 1);
    gpur_learner *learner = NULL;
    int64_t ids[16] = {0};
    CHECK_OK(learner_fixture_open(&fixture, device, 30));
    CHECK_OK(gpur_dqn_create(fixture.replay, &config, &learner));
    ids[9] = 30;
    CHECK_STATUS(gpur_learner_train_ids(learner, ids), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("ids[9] is 30; the visible transitions are 0 to 29");
    CHECK_STATUS(gpur_learner_train_ids(learner, NULL), GPUR_INVALID_ARGUMENT);
    ids[9] = 29;
    CHECK_OK(gpur_learner_train_ids(learner, ids));
    const gpur_learner_stats stats = learner_fixture_stats(learner);
    CHECK(stats.steps == 1 && stats.steps_enqueued == 1);
    learner_fixture_close_learner(&fixture, learner);
}

TEST(calls_with_bad_arguments_are_refused_with_their_value)
{
    const gpur_dqn_config config = learner_fixture_config(GPUR_HEAD_Q, 1);
    gpur_weight_info info = {.size = sizeof info};
    gpur_learner_stats stats = {.size = sizeof stats};
    float x[3] = {0}, obs[FIXTURE_FEATURES] = {0}, q[FIXTURE_ACTIONS];
    int32_t action = 77;
    gpur_learner *none = NULL;
    gpur_learner *const learner = learner_fixture_open_learner(&fixture, device, config);
    CHECK(learner);
    /* A macro: the message is that of the call alone. */
#define REFUSED(call, message)                                                                                         \
    do {                                                                                                               \
        CHECK_STATUS(call, GPUR_INVALID_ARGUMENT);                                                                     \
        CHECK_MESSAGE(message);                                                                                        \
    } while (0)
    REFUSED(gpur_learner_read_weights(learner, 0, "q.in.bias", x, 3),
            "no weights are named \"q.in.bias\"; there are trunk.0.weight, trunk.0.bias");
    REFUSED(gpur_learner_read_weights(learner, 0, "q.out.bias", x, 2), "count is 2; \"q.out.bias\" has 3 numbers");
    REFUSED(gpur_learner_get_weight_info(learner, 6, &info), "index is 6; it must be 0 to 5");
    REFUSED(gpur_dqn_create(NULL, &config, &none), "");
    REFUSED(gpur_dqn_create(fixture.replay, &config, NULL), "");
    REFUSED(gpur_learner_get_stats(NULL, &stats), "");
    REFUSED(gpur_learner_act(learner, 1, NULL, 0, &action, NULL), "");
    REFUSED(gpur_learner_act(learner, 1, obs, 0, NULL, NULL), "");
    REFUSED(gpur_learner_act(learner, 1, obs, NAN, &action, NULL), "");
    REFUSED(gpur_learner_act(learner, 1, obs, 1.5f, &action, NULL), "epsilon is 1.5; it must be 0 to 1");
    REFUSED(gpur_learner_act(learner, 0, obs, 0, &action, NULL), "count is 0; it must be 1 to 1048576");
    REFUSED(gpur_learner_act(learner, 1048577, obs, 0, &action, NULL), "count is 1048577");
    REFUSED(gpur_learner_act(learner, INT64_MIN, obs, 0, &action, NULL), "");
    REFUSED(gpur_learner_act(learner, INT64_MAX, obs, 0, &action, NULL), "count is 9223372036854775807");
    REFUSED(gpur_learner_q_values(learner, INT64_MAX, obs, q, NULL), "");
    REFUSED(gpur_learner_q_values(learner, 1048577, obs, q, NULL), "");
    REFUSED(gpur_learner_q_values(learner, 1, obs, NULL, NULL), "");
    if (!test_on_cuda()) {
        REFUSED(gpur_learner_q_values(learner, 1, obs, q, &action), "on the CPU it must be NULL");
        REFUSED(gpur_learner_act(learner, 1, obs, 0, &action, &action), "on the CPU it must be NULL");
    }
    CHECK_EQUAL(action, 77);
    learner_fixture_close_learner(&fixture, learner);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
    RUN(settings_that_do_not_fit_together_are_refused_with_the_reason);
    RUN(a_schema_that_cannot_be_learned_from_is_refused);
    RUN(training_waits_for_enough_transitions);
    RUN(ids_that_are_not_visible_are_refused_and_nothing_is_trained);
    RUN(calls_with_bad_arguments_are_refused_with_their_value);
    gpur_device_close(device);
    return test_main_end();
}
