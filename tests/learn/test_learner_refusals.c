/* SPDX-License-Identifier: MIT */
/* Bad arguments of the learner's calls: the status, a part of the message, and that nothing has changed. */
#include "test.h"
#include "learn/learner.h"
#include "support/learner_fixture.h"

static gpur_device *device;
static learner_fixture fixture;

static void check_refused(const gpur_learner_config *config, const char *message)
{
    gpur_learner *learner = (gpur_learner *)(void *)&fixture; /* must become NULL */
    CHECK_STATUS(gpur_learner_create(fixture.replay, config, &learner), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE(message);
    CHECK(!learner);
}

TEST(a_config_out_of_range_is_refused_with_its_value)
{
    const gpur_learner_config good = learner_fixture_config(GPUR_HEAD_Q, 1);
    gpur_learner_config c;
    CHECK_OK(learner_fixture_open(&fixture, device, 0));
    c = good, c.size = 3, check_refused(&c, "was the struct initialized?");
    c = good, c.network.num_actions = 0, check_refused(&c, "network.num_actions is 0");
    c = good, c.network.head = GPUR_HEAD_TANH_ACTION, check_refused(&c, "a DQN learner needs GPUR_HEAD_Q (0)");
    c = good, c.network.head = GPUR_HEAD_SOFTMAX_VALUE, check_refused(&c, "network.head is 2");
    c = good, c.optimizer.kind = 9, check_refused(&c, "optimizer.kind is 9");
    c = good, c.optimizer.beta2 = 1.5f, check_refused(&c, "optimizer.beta2 is 1.5");
    c = good, c.optimizer.kind = GPUR_RMSPROP_TF, c.optimizer.momentum = 1.5f;
    check_refused(&c, "optimizer.momentum is 1.5");
    c = good, c.optimizer.kind = GPUR_RMSPROP_KERAS2, c.optimizer.decay = -1;
    check_refused(&c, "optimizer.decay is -1");
    c = good, c.optimizer.learning_rate.begin = -1, check_refused(&c, "from step -1 on");
    c = good, c.optimizer.learning_rate.last = INFINITY, check_refused(&c, "to inf, from step 0");
    c = good, c.double_dqn = 2, check_refused(&c, "double_dqn is 2; it must be 0 or 1");
    c = good, c.loss = 5, check_refused(&c, "loss is 5");
    c = good, c.huber_delta = 0, check_refused(&c, "huber_delta is 0; it must be above 0");
    c = good, c.index_source = 5, check_refused(&c, "index_source is 5");
    c = good, c.index_source = GPUR_PRIORITIZED_STRATIFIED;
    check_refused(&c, "index_source is 3, by priority, and the replay's prioritized is 0");
    c = good, c.beta.first = 0.4f, c.beta.last = NAN, check_refused(&c, "beta goes from 0.4 to nan");
    c = good, c.batch_size = 257, check_refused(&c, "batch_size is 257; it must be 1 to the replay's max_batch, 256");
    c = good, c.batch_size = 0, check_refused(&c, "batch_size is 0");
    c = good, c.target_period = 0, check_refused(&c, "target_period is 0");
    c = good, c.act = 3, check_refused(&c, "act is 3");
    c = good, c.max_act_batch = 0, check_refused(&c, "max_act_batch is 0");
    c = good, c.math = 3, check_refused(&c, "math is 3");
    c = good, c.unroll = 65, check_refused(&c, "unroll is 65; it must be 1 to 64");
    c = good, c.exploration.first = 1.5f, check_refused(&c, "exploration goes from 1.5");
    c = good, c.exploration.begin = INT64_MIN, check_refused(&c, "from step -9223372036854775808 on");
    c = good, c.deterministic = 2, check_refused(&c, "deterministic is 2");
    c = good, c.host_batches = -1, check_refused(&c, "host_batches is -1; it must be 0 to 16");
    c = good, c.host_batches = 17, check_refused(&c, "host_batches is 17; it must be 0 to 16");
    check_refused(NULL, "NULL");
    learner_fixture_close(&fixture);
}

TEST(a_learner_that_one_kernel_is_not_for_is_refused_with_the_reason)
{
    gpur_learner_config good = learner_fixture_config(GPUR_HEAD_DUELING, 1), c;
    gpur_learner *learner = NULL;
    good.step_kernel = GPUR_STEP_FUSED;
    CHECK_OK(learner_fixture_open(&fixture, device, 0));
    c = good, c.step_kernel = 3;
    check_refused(&c, "step_kernel is 3; it must be GPUR_STEP_AUTO, LIBRARIES or ONE_KERNEL (0 to 2)");
    c = good, c.math = GPUR_MATH_TF32, check_refused(&c, "takes GPUR_MATH_FP32 (0); math is 1");
    c = good, c.network.hidden = 0;
    check_refused(&c, "takes two dense layers below the last; this network has 0 convolutions and 1 dense");
    c = good, c.network = network_fixture_config(9, 8, GPUR_RELU, GPUR_HEAD_DUELING, 12, FIXTURE_ACTIONS);
    check_refused(&c, "this network has 0 convolutions and 3 dense layers there");
    c = good, c.network.input_scale = 0.5f;
    check_refused(&c, "obs of float32 and network.input_scale 1; obs is float32 and input_scale 0.5");
    CHECK_OK(gpur_learner_create(fixture.replay, &good, &learner));
    CHECK(learner->fused.step == &learner->step);
    gpur_learner_destroy(learner);
    c = good, c.step_kernel = GPUR_STEP_AUTO; /* means GPUR_STEP_LIBRARIES at present */
    CHECK_OK(gpur_learner_create(fixture.replay, &c, &learner));
    CHECK(!learner->fused.step);
    gpur_learner_destroy(learner);
    learner_fixture_close(&fixture);
}

/* Constants of other optimizers must be in range, so that a caller can change `kind` alone. They have no effect. */
TEST(constants_of_another_optimizer_are_not_read)
{
    gpur_learner_config c = learner_fixture_config(GPUR_HEAD_Q, 1);
    gpur_learner *learner = NULL;
    CHECK_OK(learner_fixture_open(&fixture, device, 0));
    c.optimizer.decay = 0.5f, c.optimizer.momentum = 0.3f, c.optimizer.centered = 1;
    CHECK_OK(gpur_learner_create(fixture.replay, &c, &learner));
    gpur_learner_destroy(learner);
    c = learner_fixture_config(GPUR_HEAD_Q, 1), c.optimizer.kind = GPUR_RMSPROP_KERAS2;
    c.optimizer.beta1 = 0.7f, c.optimizer.beta2 = 0, c.optimizer.momentum = 0.9f;
    CHECK_OK(gpur_learner_create(fixture.replay, &c, &learner));
    gpur_learner_destroy(learner);
    learner_fixture_close(&fixture);
}

/* A learner on a replay whose field `index` is `field`; with `both`, obs and next_obs are. */
static void check_schema(int index, gpur_field field, int both, int32_t layout, const gpur_learner_config *config,
                         const char *message)
{
    gpur_field fields[] = {{"obs", GPUR_FLOAT32, {5}},
                           {"action", GPUR_INT32, {0}},
                           {"reward", GPUR_FLOAT32, {0}},
                           {"next_obs", GPUR_FLOAT32, {5}},
                           {"terminated", GPUR_BOOL, {0}}};
    gpur_replay_config replay;
    fields[index] = field;
    if (both)
        fields[3] = field, fields[3].name = "next_obs";
    CHECK_OK(gpur_replay_config_init(&replay, sizeof replay));
    replay.capacity = 2048, replay.max_batch = 32, replay.fields = fields, replay.field_count = 5;
    replay.layout = layout, replay.frame_stack = layout == GPUR_LAYOUT_FRAMES ? 2 : replay.frame_stack;
    CHECK_OK(gpur_replay_create(device, &replay, &fixture.replay));
    check_refused(config, message);
    gpur_replay_destroy(fixture.replay);
}

TEST(a_schema_that_cannot_be_learned_from_is_refused)
{
    static const struct {
        int index;
        gpur_field field;
        const char *message;
    } cases[] = {
        {0, {"state", GPUR_FLOAT32, {5}}, "no field \"obs\""},
        {0, {"obs", GPUR_FLOAT16, {5}}, "field \"obs\" is float16; a learner needs float32 or uint8"},
        {0, {"obs", GPUR_UINT8, {5}}, "obs is uint8 and next_obs float32; they must be alike"},
        {0, {"obs", GPUR_FLOAT32, {2, 3}}, "obs has 6 numbers and next_obs 5"},
        {0, {"obs", GPUR_FLOAT32, {5, 1}}, "obs has 2 axes and next_obs 1; they must be of the same shape"},
        {1, {"action", GPUR_FLOAT32, {0}}, "needs int32 or int64"},
        {1, {"action", GPUR_INT32, {2}}, "field \"action\" has 2 numbers"},
        {2, {"reward", GPUR_FLOAT16, {0}}, "field \"reward\" is float16"},
        {2, {"reward", GPUR_FLOAT32, {3}}, "field \"reward\" has 3 numbers"},
        {3, {"next_state", GPUR_FLOAT32, {5}}, "no field \"next_obs\""},
        {4, {"done", GPUR_BOOL, {0}}, "no field \"terminated\""},
    };
    const gpur_learner_config dense = learner_fixture_config(GPUR_HEAD_Q, 1), conv = conv_config(GPUR_CHW);
    gpur_learner_config nature, one = learner_fixture_config(GPUR_HEAD_DUELING, 1);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        check_schema(cases[i].index, cases[i].field, 0, GPUR_LAYOUT_ROWS, &dense, cases[i].message);
    const gpur_field flat = {"obs", GPUR_UINT8, {24, 12}}, last = {"obs", GPUR_UINT8, {84, 84, 4}};
    check_schema(0, flat, 1, GPUR_LAYOUT_ROWS, &conv, "obs is no image: it needs three axes");
    CHECK_OK(gpur_learner_config_init(&nature, sizeof nature));
    CHECK_OK(gpur_learner_config_preset(&nature, "nature-dqn"));
    check_schema(0, last, 1, GPUR_LAYOUT_ROWS, &nature,
                 "GPUR_CHW takes obs of (84, 84, 4) as (channels, height, width); GPUR_HWC takes it as");
    const gpur_field bytes = {"obs", GPUR_UINT8, {2, 3}}, floats = {"obs", GPUR_FLOAT32, {2, 3}};
    one.step_kernel = GPUR_STEP_FUSED;
    check_schema(0, bytes, 1, GPUR_LAYOUT_ROWS, &one, "obs is uint8 and input_scale 1");
    check_schema(0, floats, 1, GPUR_LAYOUT_FRAMES, &one,
                 "takes a replay of GPUR_LAYOUT_ROWS; this one has 4 links to frames in a row");
}

TEST(observations_of_the_same_numbers_in_another_shape_are_refused)
{
    const gpur_learner_config config = learner_fixture_config(GPUR_HEAD_Q, 1);
    gpur_field fields[] = {{"obs", GPUR_UINT8, {2, 3, 4}},
                           {"action", GPUR_INT32, {0}},
                           {"reward", GPUR_FLOAT32, {0}},
                           {"next_obs", GPUR_UINT8, {2, 4, 3}},
                           {"terminated", GPUR_BOOL, {0}}};
    gpur_replay_config replay;
    CHECK_OK(gpur_replay_config_init(&replay, sizeof replay));
    replay.capacity = 256, replay.fields = fields, replay.field_count = 5;
    CHECK_OK(gpur_replay_create(device, &replay, &fixture.replay));
    check_refused(&config, "axis 1 of obs has 3 and of next_obs 4; they must be of the same shape");
    gpur_replay_destroy(fixture.replay);
}

TEST(training_waits_for_enough_transitions)
{
    gpur_learner *any = NULL, *distinct = NULL;
    gpur_learner_config config = learner_fixture_config(GPUR_HEAD_Q, 1);
    CHECK_OK(learner_fixture_open(&fixture, device, 0));
    CHECK_OK(gpur_learner_create(fixture.replay, &config, &any));
    config.index_source = GPUR_UNIFORM_DISTINCT;
    CHECK_OK(gpur_learner_create(fixture.replay, &config, &distinct));
    CHECK_STATUS(gpur_learner_train(any, 1), GPUR_TOO_FEW);
    CHECK_OK(gpur_learner_train(any, 0));
    CHECK_STATUS(gpur_learner_train(any, -1), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("steps is -1");
    CHECK_OK(world_append(&fixture, 15));
    CHECK_OK(gpur_learner_train(any, 1));
    CHECK_STATUS(gpur_learner_train(distinct, 1), GPUR_TOO_FEW);
    CHECK_MESSAGE("15 transitions are visible; this sample needs 16");
    CHECK_OK(world_append(&fixture, 1));
    CHECK_OK(gpur_learner_train(distinct, 1));
    gpur_learner_destroy(any);
    gpur_learner_destroy(distinct);
    learner_fixture_close(&fixture);
}

/* A train step that draws waits for the replay's min_size, as gpur_replay_sample does; a step on ids does not. */
TEST(training_waits_for_the_burn_in)
{
    const gpur_field fields[] = {{"obs", GPUR_FLOAT32, {2}},
                                 {"action", GPUR_INT32, {0}},
                                 {"reward", GPUR_FLOAT32, {0}},
                                 {"next_obs", GPUR_FLOAT32, {2}},
                                 {"terminated", GPUR_BOOL, {0}}};
    static const unsigned char rows[39 * 28]; /* zeros */
    const gpur_learner_config learner_config = learner_fixture_config(GPUR_HEAD_Q, 1);
    gpur_replay_config config;
    gpur_replay *replay = NULL;
    gpur_writer *writer = NULL;
    gpur_learner *learner = NULL;
    int64_t ids[16] = {0};
    CHECK_OK(gpur_replay_config_init(&config, sizeof config));
    config.capacity = 256, config.fields = fields, config.field_count = 5, config.min_size = 40;
    CHECK_OK(gpur_replay_create(device, &config, &replay));
    CHECK_OK(gpur_writer_create(replay, 1, &writer));
    CHECK_OK(gpur_learner_create(replay, &learner_config, &learner));
    CHECK_OK(gpur_writer_append(writer, 39, rows, NULL));
    CHECK_EQUAL(gpur_replay_can_sample(replay), 0);
    CHECK_STATUS(gpur_learner_train(learner, 1), GPUR_TOO_FEW);
    CHECK_MESSAGE("39 transitions have become visible so far; samples wait for min_size = 40");
    CHECK_OK(gpur_learner_train_ids(learner, ids));
    CHECK_OK(gpur_writer_append(writer, 1, rows, NULL));
    CHECK_EQUAL(gpur_replay_can_sample(replay), 1);
    CHECK_OK(gpur_learner_train(learner, 1));
    CHECK_EQUAL(learner_fixture_stats(learner).steps, 2);
    gpur_learner_destroy(learner);
    gpur_writer_destroy(writer);
    gpur_replay_destroy(replay);
}

TEST(ids_that_are_not_visible_are_refused_and_nothing_is_trained)
{
    const gpur_learner_config config = learner_fixture_config(GPUR_HEAD_Q, 1);
    gpur_learner *learner = NULL;
    int64_t ids[16] = {0};
    CHECK_OK(learner_fixture_open(&fixture, device, 30));
    CHECK_OK(gpur_learner_create(fixture.replay, &config, &learner));
    ids[9] = 30;
    CHECK_STATUS(gpur_learner_train_ids(learner, ids), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("ids[9] is 30; the visible transitions are 0 to 29");
    CHECK_STATUS(gpur_learner_train_ids(learner, NULL), GPUR_INVALID_ARGUMENT);
    ids[9] = 29;
    CHECK_OK(gpur_learner_train_ids(learner, ids));
    const gpur_learner_stats stats = learner_fixture_stats(learner);
    CHECK(stats.steps == 1 && stats.steps_enqueued == 1);
    gpur_learner_destroy(learner);
    learner_fixture_close(&fixture);
}

TEST(calls_with_bad_arguments_are_refused_with_their_value)
{
    const gpur_learner_config config = learner_fixture_config(GPUR_HEAD_Q, 1);
    gpur_weight_info info = {.size = sizeof info};
    gpur_learner_stats stats = {.size = sizeof stats};
    float x[3] = {0}, obs[FIXTURE_FEATURES] = {0}, q[FIXTURE_ACTIONS];
    int32_t action = 77;
    gpur_learner *none = NULL;
    gpur_learner *const learner = learner_fixture_open_learner(&fixture, device, config);
    CHECK(learner);
    const gpur_status refused[] = {
        gpur_learner_read_weights(learner, 3, "q.out.bias", x, 3),
        gpur_learner_write_weights(learner, GPUR_WEIGHTS_GRADIENT, "q.out.bias", x, 3),
        gpur_learner_read_weights(learner, 0, NULL, x, 3),
        gpur_learner_read_weights(learner, 0, "q.out.bias", NULL, 3),
        gpur_learner_create(NULL, &config, &none),
        gpur_learner_create(fixture.replay, &config, NULL),
        gpur_learner_train(NULL, 1),
        gpur_learner_sync(NULL),
        gpur_learner_get_stats(NULL, &stats),
        gpur_learner_act(learner, 1048577, obs, 0, &action, NULL),
        gpur_learner_act(learner, INT64_MIN, obs, 0, &action, NULL),
        gpur_learner_act(learner, 1, NULL, 0, &action, NULL),
        gpur_learner_act(learner, 1, obs, 0, NULL, NULL),
        gpur_learner_act(learner, 1, obs, NAN, &action, NULL),
        gpur_learner_act(NULL, 1, obs, 0, &action, NULL),
        gpur_learner_q_values(learner, INT64_MAX, obs, q, NULL),
        gpur_learner_q_values(learner, 1048577, obs, q, NULL),
        gpur_learner_q_values(learner, 1, obs, NULL, NULL),
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        TEST_REQUIRE(refused[i] == GPUR_INVALID_ARGUMENT, "call %d is not refused", (int)i);
    CHECK_STATUS(gpur_learner_read_weights(learner, 0, "q.in.bias", x, 3), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("no weights are named \"q.in.bias\"; there are trunk.0.weight, trunk.0.bias");
    CHECK_STATUS(gpur_learner_read_weights(learner, 0, "q.out.bias", x, 2), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("count is 2; \"q.out.bias\" has 3 numbers");
    CHECK_STATUS(gpur_learner_get_weight_info(learner, 6, &info), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("index is 6; it must be 0 to 5");
    CHECK_STATUS(gpur_learner_act(learner, 0, obs, 0, &action, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("count is 0; it must be 1 to 1048576");
    CHECK_STATUS(gpur_learner_act(learner, INT64_MAX, obs, 0, &action, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("count is 9223372036854775807");
    CHECK_STATUS(gpur_learner_act(learner, 1, obs, 1.5f, &action, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("epsilon is 1.5; it must be 0 to 1");
    if (!test_on_cuda()) {
        CHECK_STATUS(gpur_learner_q_values(learner, 1, obs, q, &action), GPUR_INVALID_ARGUMENT);
        CHECK_STATUS(gpur_learner_act(learner, 1, obs, 0, &action, &action), GPUR_INVALID_ARGUMENT);
        CHECK_MESSAGE("on the CPU it must be NULL");
    }
    CHECK_EQUAL(action, 77);
    CHECK_EQUAL(gpur_learner_weight_count(NULL), 0);
    gpur_learner_destroy(NULL);
    learner_fixture_close_learner(&fixture, learner);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
    RUN(a_config_out_of_range_is_refused_with_its_value);
    RUN(a_learner_that_one_kernel_is_not_for_is_refused_with_the_reason);
    RUN(constants_of_another_optimizer_are_not_read);
    RUN(a_schema_that_cannot_be_learned_from_is_refused);
    RUN(observations_of_the_same_numbers_in_another_shape_are_refused);
    RUN(training_waits_for_enough_transitions);
    RUN(training_waits_for_the_burn_in);
    RUN(ids_that_are_not_visible_are_refused_and_nothing_is_trained);
    RUN(calls_with_bad_arguments_are_refused_with_their_value);
    gpur_device_close(device);
    return test_main_end();
}
