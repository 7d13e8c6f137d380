/* SPDX-License-Identifier: MIT */
/* What a learner refuses, with which words, and that nothing has changed afterwards. */
#include "test.h"
#include "support/learn_world.h"

static gpur_device *device;
static learn_world world;

static void check_refused(const gpur_learner_config *config, const char *message)
{
    gpur_learner *learner = (gpur_learner *)(void *)&world; /* must become NULL */
    CHECK_STATUS(gpur_learner_create(world.replay, config, &learner), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE(message);
    CHECK(!learner);
}

TEST(a_config_out_of_range_is_refused_with_its_value)
{
    const gpur_learner_config good = world_config(GPUR_HEAD_Q, 1);
    gpur_learner_config c;
    CHECK_OK(world_open(&world, device, 0));
    c = good, c.size = 3, check_refused(&c, "was the struct initialized?");
    c = good, c.network.outputs = 0, check_refused(&c, "network.outputs is 0");
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
    c = good, c.batch_size = 257, check_refused(&c, "batch_size is 257; it must be 1 to the replay's max_batch, 256");
    c = good, c.batch_size = 0, check_refused(&c, "batch_size is 0");
    c = good, c.target_period = 0, check_refused(&c, "target_period is 0");
    c = good, c.act = 3, check_refused(&c, "act is 3");
    c = good, c.max_act_batch = 0, check_refused(&c, "max_act_batch is 0");
    c = good, c.math = 3, check_refused(&c, "math is 3");
    c = good, c.unroll = 65, check_refused(&c, "unroll is 65; it must be 1 to 64");
    c = good, c.exploration.first = 1.5f, check_refused(&c, "exploration goes from 1.5");
    c = good, c.exploration.begin = INT64_MIN, check_refused(&c, "from step -9223372036854775808 on");
    check_refused(NULL, "NULL");
    world_close(&world);
}

/* They must be in range, so that the kind alone can be changed, and make no difference. */
TEST(constants_of_another_optimizer_are_not_read)
{
    gpur_learner_config c = world_config(GPUR_HEAD_Q, 1);
    gpur_learner *learner = NULL;
    CHECK_OK(world_open(&world, device, 0));
    c.optimizer.decay = 0.5f, c.optimizer.momentum = 0.3f, c.optimizer.centered = 1;
    CHECK_OK(gpur_learner_create(world.replay, &c, &learner));
    gpur_learner_destroy(learner);
    c = world_config(GPUR_HEAD_Q, 1), c.optimizer.kind = GPUR_RMSPROP_KERAS2;
    c.optimizer.beta1 = 0.7f, c.optimizer.beta2 = 0, c.optimizer.momentum = 0.9f;
    CHECK_OK(gpur_learner_create(world.replay, &c, &learner));
    gpur_learner_destroy(learner);
    world_close(&world);
}

static void check_schema(const gpur_field *fields, int count, const char *message)
{
    gpur_replay_config config;
    gpur_replay *replay = NULL;
    gpur_learner *learner = NULL;
    const gpur_learner_config learner_config = world_config(GPUR_HEAD_Q, 1);
    CHECK_OK(gpur_replay_config_init(&config, sizeof config));
    config.capacity = 256;
    config.fields = fields;
    config.field_count = count;
    CHECK_OK(gpur_replay_create(device, &config, &replay));
    CHECK_STATUS(gpur_learner_create(replay, &learner_config, &learner), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE(message);
    gpur_replay_destroy(replay);
}

TEST(a_schema_that_cannot_be_learned_from_is_refused)
{
    const gpur_field good[] = {
        {"obs", GPUR_FLOAT32, {5}},      {"action", GPUR_INT32, {0}},    {"reward", GPUR_FLOAT32, {0}},
        {"next_obs", GPUR_FLOAT32, {5}}, {"terminated", GPUR_BOOL, {0}},
    };
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
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        gpur_field fields[5];
        memcpy(fields, good, sizeof fields);
        fields[cases[i].index] = cases[i].field;
        check_schema(fields, 5, cases[i].message);
    }
    gpur_field turned[5];
    memcpy(turned, good, sizeof turned);
    turned[0] = (gpur_field){"obs", GPUR_UINT8, {2, 3, 4}};
    turned[3] = (gpur_field){"next_obs", GPUR_UINT8, {2, 4, 3}};
    check_schema(turned, 5, "axis 1 of obs has 3 and of next_obs 4; they must be of the same shape");
}

TEST(training_waits_for_enough_transitions)
{
    gpur_learner *any = NULL, *distinct = NULL;
    gpur_learner_config config = world_config(GPUR_HEAD_Q, 1);
    CHECK_OK(world_open(&world, device, 0));
    CHECK_OK(gpur_learner_create(world.replay, &config, &any));
    config.index_source = GPUR_UNIFORM_DISTINCT;
    CHECK_OK(gpur_learner_create(world.replay, &config, &distinct));
    CHECK_STATUS(gpur_learner_train(any, 1), GPUR_TOO_FEW);
    CHECK_OK(gpur_learner_train(any, 0));
    CHECK_STATUS(gpur_learner_train(any, -1), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("steps is -1");
    CHECK_OK(gpur_writer_append(world.writer, 15, world.rows, NULL));
    CHECK_OK(gpur_learner_train(any, 1));
    CHECK_STATUS(gpur_learner_train(distinct, 1), GPUR_TOO_FEW);
    CHECK_MESSAGE("15 transitions are visible; this draw needs 16");
    CHECK_OK(gpur_writer_append(world.writer, 1, world.rows, NULL));
    CHECK_OK(gpur_learner_train(distinct, 1));
    gpur_learner_destroy(any);
    gpur_learner_destroy(distinct);
    world_close(&world);
}

/* A train step by the replay's min_size, as a draw; by ids it draws nothing. */
TEST(training_waits_for_the_burn_in)
{
    const gpur_field fields[] = {{"obs", GPUR_FLOAT32, {2}},
                                 {"action", GPUR_INT32, {0}},
                                 {"reward", GPUR_FLOAT32, {0}},
                                 {"next_obs", GPUR_FLOAT32, {2}},
                                 {"terminated", GPUR_BOOL, {0}}};
    static const struct {
        float obs[2];
        int32_t action;
        float reward, next_obs[2];
        _Bool terminated;
    } rows[39]; /* zeros */
    gpur_learner_config learner_config = world_config(GPUR_HEAD_Q, 1);
    gpur_learner_stats stats = {.size = sizeof stats};
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
    CHECK_MESSAGE("39 transitions have become visible so far; draws wait for min_size = 40");
    CHECK_OK(gpur_learner_train_on(learner, ids));
    CHECK_OK(gpur_writer_append(writer, 1, rows, NULL));
    CHECK_EQUAL(gpur_replay_can_sample(replay), 1);
    CHECK_OK(gpur_learner_train(learner, 1));
    CHECK_OK(gpur_learner_sync(learner));
    CHECK_OK(gpur_learner_get_stats(learner, &stats));
    CHECK_EQUAL(stats.steps, 2);
    gpur_learner_destroy(learner);
    gpur_writer_destroy(writer);
    gpur_replay_destroy(replay);
}

TEST(ids_that_are_not_visible_are_refused_and_nothing_is_trained)
{
    gpur_learner *learner = NULL;
    const gpur_learner_config config = world_config(GPUR_HEAD_Q, 1);
    int64_t ids[16] = {0};
    gpur_learner_stats stats = {.size = sizeof stats};
    CHECK_OK(world_open(&world, device, 30));
    CHECK_OK(gpur_learner_create(world.replay, &config, &learner));
    ids[9] = 30;
    CHECK_STATUS(gpur_learner_train_on(learner, ids), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("ids[9] is 30; the visible transitions are 0 to 29");
    CHECK_STATUS(gpur_learner_train_on(learner, NULL), GPUR_INVALID_ARGUMENT);
    ids[9] = 29;
    CHECK_OK(gpur_learner_train_on(learner, ids));
    CHECK_OK(gpur_learner_sync(learner));
    CHECK_OK(gpur_learner_get_stats(learner, &stats));
    CHECK_EQUAL(stats.steps, 1);
    CHECK_EQUAL(stats.steps_enqueued, 1);
    gpur_learner_destroy(learner);
    world_close(&world);
}

TEST(weights_that_do_not_exist_are_refused)
{
    gpur_learner *learner = NULL;
    const gpur_learner_config config = world_config(GPUR_HEAD_Q, 1);
    gpur_weight_info info = {.size = sizeof info};
    float x[3] = {0};
    CHECK_OK(world_open(&world, device, 0));
    CHECK_OK(gpur_learner_create(world.replay, &config, &learner));
    CHECK_STATUS(gpur_learner_read_weights(learner, 0, "q.in.bias", x, 3), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("no weights are named \"q.in.bias\"; there are trunk.0.weight, trunk.0.bias");
    CHECK_STATUS(gpur_learner_read_weights(learner, 0, "q.out.bias", x, 2), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("count is 2; \"q.out.bias\" has 3 numbers");
    CHECK_STATUS(gpur_learner_read_weights(learner, 3, "q.out.bias", x, 3), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(gpur_learner_write_weights(learner, GPUR_WEIGHTS_GRADIENT, "q.out.bias", x, 3), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(gpur_learner_read_weights(learner, 0, NULL, x, 3), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(gpur_learner_read_weights(learner, 0, "q.out.bias", NULL, 3), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(gpur_learner_weight(learner, 6, &info), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("index is 6; it must be 0 to 5");
    CHECK_EQUAL(gpur_learner_weight_count(NULL), 0);
    gpur_learner_destroy(learner);
    world_close(&world);
}

TEST(nulls_are_refused)
{
    gpur_learner *learner = NULL;
    gpur_learner_stats stats = {.size = sizeof stats};
    const gpur_learner_config config = world_config(GPUR_HEAD_Q, 1);
    CHECK_STATUS(gpur_learner_create(NULL, &config, &learner), GPUR_INVALID_ARGUMENT);
    CHECK_OK(world_open(&world, device, 0));
    CHECK_STATUS(gpur_learner_create(world.replay, &config, NULL), GPUR_INVALID_ARGUMENT);
    world_close(&world);
    CHECK_STATUS(gpur_learner_train(NULL, 1), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(gpur_learner_sync(NULL), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(gpur_learner_get_stats(NULL, &stats), GPUR_INVALID_ARGUMENT);
    gpur_learner_destroy(NULL);
}

TEST(every_byte_of_the_device_comes_back)
{
    gpur_device_info before = {.size = sizeof before}, after = {.size = sizeof after};
    gpur_learner *learner = NULL;
    const gpur_learner_config config = world_config(GPUR_HEAD_DUELING, 1);
    CHECK_OK(gpur_device_get_info(device, &before));
    CHECK_OK(world_open(&world, device, 30));
    CHECK_OK(gpur_learner_create(world.replay, &config, &learner));
    CHECK_OK(gpur_learner_train(learner, 5));
    gpur_learner_destroy(learner);
    world_close(&world);
    CHECK_OK(gpur_device_get_info(device, &after));
    CHECK_EQUAL(after.memory_used, before.memory_used);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
    RUN(a_config_out_of_range_is_refused_with_its_value);
    RUN(constants_of_another_optimizer_are_not_read);
    RUN(a_schema_that_cannot_be_learned_from_is_refused);
    RUN(training_waits_for_enough_transitions);
    RUN(training_waits_for_the_burn_in);
    RUN(ids_that_are_not_visible_are_refused_and_nothing_is_trained);
    RUN(weights_that_do_not_exist_are_refused);
    RUN(nulls_are_refused);
    RUN(every_byte_of_the_device_comes_back);
    gpur_device_close(device);
    return test_main_end();
}
