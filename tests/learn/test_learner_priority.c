/* SPDX-License-Identifier: MIT */
/* A learner over a prioritized replay: what it draws, how it weighs it, and the priorities that it leaves behind. */
#include "test.h"
#include "learn/learner.h"
#include "support/learn_rig.h"
#include "support/learn_world.h"
#include "reference/reference_priority.h"
#include "replay/replay.h"

enum { BATCH = 16, MOST = 4096, PART = 250 };

static gpur_device *device;
static learn_world world;

static gpur_learner_config config_of(int32_t source)
{
    gpur_learner_config config = world_config(GPUR_HEAD_DUELING, 1);
    config.index_source = source;
    config.beta.first = 0.4f, config.beta.last = 1.0f, config.beta.begin = 5, config.beta.steps = 20;
    return config;
}

static gpur_learner *open_learner(const gpur_learner_config *config, int32_t norm)
{
    gpur_learner *learner = NULL;
    if (world_open_prioritized(&world, device, WORLD_ROWS, norm) != GPUR_OK)
        return NULL;
    return gpur_learner_create(world.replay, config, &learner) == GPUR_OK ? learner : NULL;
}

static void close_learner(gpur_learner *learner)
{
    gpur_learner_destroy(learner);
    world_close(&world);
}

/* Of all rows; a call reads at most 256. */
static void read_priorities(float *priorities)
{
    int64_t ids[PART];
    for (int first = 0; first < WORLD_ROWS; first += PART) {
        for (int i = 0; i < PART; i++)
            ids[i] = first + i;
        CHECK_OK(gpur_replay_get_priorities(world.replay, PART, ids, priorities + first));
    }
}

/* As the device has them, to the last unit. */
static void read_leaves(double *leaves)
{
    static uint32_t held[WORLD_ROWS];
    CHECK_OK(gpur_device_copy(device, held, world.replay->priorities.tree.leaf, sizeof held));
    for (int i = 0; i < WORLD_ROWS; i++)
        leaves[i] = held[i];
}

static int64_t wrong_nodes(void)
{
    int64_t wrong = -1;
    return gpur_replay_check_priorities(world.replay, &wrong) == GPUR_OK ? wrong : -1;
}

/* |TD error| of a row, by the network as it is. */
static double error_of(ref_net *net, int64_t id)
{
    static ref_tape online, next, target;
    const ref_row row = world_reference(&world, id);
    int best = 0;
    ref_forward(net, 0, row.obs, &online);
    ref_forward(net, 0, row.next_obs, &next);
    ref_forward(net, 1, row.next_obs, &target);
    for (int k = 1; k < WORLD_ACTIONS; k++)
        best = next.y[k] > next.y[best] ? k : best;
    return fabs(row.reward + (row.terminated ? 0 : (double)0.9f * target.y[best]) - online.y[row.action]);
}

/* What a step has to leave behind, worked out before the reference takes it. */
static void check_left(ref_net *net, const int64_t *ids, const float *before)
{
    float after[WORLD_ROWS], wanted[WORLD_ROWS];
    unsigned char drawn[WORLD_ROWS] = {0};
    memcpy(wanted, before, sizeof wanted);
    for (int b = 0; b < BATCH; b++) {
        wanted[ids[b]] = (float)error_of(net, ids[b]) + 1e-6f;
        drawn[ids[b]] = 1;
    }
    read_priorities(after);
    for (int i = 0; i < WORLD_ROWS; i++)
        CHECK_NEAR(after[i], wanted[i], drawn[i] ? 1e-5 : 0);
    CHECK_EQUAL(wrong_nodes(), 0);
}

static void check_drawn(const int64_t *ids, const double *leaves, const gpur_learner_config *config, int t)
{
    for (int b = 0; b < BATCH; b++)
        CHECK_EQUAL(ids[b], reference_draw_by_priority(leaves, WORLD_ROWS, config->seed, 8, (uint64_t)t, b, BATCH,
                                                       config->index_source == GPUR_PRIORITIZED));
}

static void step_beside(gpur_learner *learner, ref_net *net, const gpur_learner_config *config, int32_t norm, int t)
{
    float before[WORLD_ROWS];
    double leaves[WORLD_ROWS], weights[BATCH];
    int64_t ids[BATCH];
    ref_row rows[BATCH];
    gpur_learner_stats stats = {.size = sizeof stats};
    read_priorities(before);
    read_leaves(leaves);
    CHECK_OK(gpur_learner_train(learner, 1));
    CHECK_OK(gpur_learner_sync(learner));
    CHECK_OK(gpur_device_copy(device, ids, learner->step.batch.id, sizeof ids));
    check_drawn(ids, leaves, config, t);
    check_left(net, ids, before);
    reference_weights(leaves, WORLD_ROWS, ids, BATCH, ref_schedule(&config->beta, t), norm, weights);
    for (int b = 0; b < BATCH; b++) {
        rows[b] = world_reference(&world, ids[b]);
        rows[b].weight = (float)weights[b];
    }
    const double loss = ref_dqn_loss(net, config, (double)0.9f, rows, BATCH, NULL);
    (void)ref_dqn_update(net, config, t + 1);
    CHECK_OK(gpur_learner_get_stats(learner, &stats));
    CHECK_NEAR(stats.loss, loss, 1e-4 * fabs(loss));
}

static void check_steps(int32_t source, int32_t norm)
{
    const gpur_learner_config config = config_of(source);
    gpur_learner *const learner = open_learner(&config, norm);
    CHECK(learner);
    ref_net *const net = world_net(learner, &config);
    CHECK(net);
    for (int t = 0; t < 40 && atomic_load(&test_state.failures) == 0; t++)
        step_beside(learner, net, &config, norm, t);
    ref_net_destroy(net);
    close_learner(learner);
}

TEST(a_step_draws_weighs_and_leaves_priorities_as_the_reference_does)
{
    for (int32_t norm = GPUR_WEIGHT_NORM_BATCH; norm <= GPUR_WEIGHT_NORM_NONE; norm++)
        for (int32_t source = GPUR_PRIORITIZED; source <= GPUR_PRIORITIZED_PLAIN; source++)
            check_steps(source, norm);
}

TEST(making_a_learner_changes_no_priority)
{
    const gpur_learner_config config = config_of(GPUR_PRIORITIZED);
    gpur_priority_stats stats = {.size = sizeof stats};
    gpur_learner *learner = NULL;
    gpur_batch *batch = NULL;
    CHECK_OK(world_open_prioritized(&world, device, WORLD_ROWS, 0));
    CHECK_OK(gpur_replay_sample(world.replay, 1, NULL, &batch)); /* the rows are now there to be drawn */
    gpur_batch_release(batch);
    CHECK_OK(gpur_learner_create(world.replay, &config, &learner));
    CHECK_OK(gpur_replay_get_priority_stats(world.replay, &stats));
    CHECK_EQUAL(stats.drawable, WORLD_ROWS);
    CHECK_EQUAL(stats.updates, 0);
    CHECK_EQUAL(stats.stale, 0);
    close_learner(learner);
}

TEST(uniform_draws_leave_priorities_alone_and_steps_on_ids_do_not)
{
    const gpur_learner_config config = config_of(GPUR_UNIFORM);
    gpur_priority_stats stats = {.size = sizeof stats};
    float before[WORLD_ROWS];
    int64_t ids[BATCH];
    gpur_learner *const learner = open_learner(&config, 0);
    CHECK(learner);
    CHECK_OK(gpur_learner_train(learner, 5));
    CHECK_OK(gpur_replay_get_priority_stats(world.replay, &stats));
    CHECK_EQUAL(stats.updates, 0);
    ref_net *const net = world_net(learner, &config);
    CHECK(net);
    for (int i = 0; i < net->tensors; i++) /* the target is that of the beginning */
        CHECK_OK(gpur_learner_write_weights(learner, GPUR_WEIGHTS_TARGET, net->tensor[i].name, (float[MOST]){0},
                                            net->tensor[i].count));
    for (int i = 0; i < net->tensors; i++)
        memset(net->tensor[i].target, 0, (size_t)net->tensor[i].count * sizeof(double));
    read_priorities(before);
    world_ids(3, BATCH, ids);
    CHECK_OK(gpur_learner_train_on(learner, ids));
    check_left(net, ids, before);
    CHECK_OK(gpur_replay_get_priority_stats(world.replay, &stats));
    CHECK_EQUAL(stats.updates, BATCH);
    ref_net_destroy(net);
    close_learner(learner);
}

static int64_t weights_after(gpur_grid grid, int steps, float *values, float *priorities)
{
    gpur_learner_config config = config_of(GPUR_PRIORITIZED);
    int64_t count = -1;
    gpur_device_force_grid(device, grid);
    gpur_learner *const learner = open_learner(&config, GPUR_WEIGHT_NORM_MEMORY);
    if (learner && gpur_learner_train(learner, steps) == GPUR_OK)
        count = world_weights(learner, GPUR_WEIGHTS_ONLINE, values, MOST);
    read_priorities(priorities);
    close_learner(learner);
    gpur_device_force_grid(device, (gpur_grid){0, 0, 0});
    return count;
}

TEST(the_same_seed_gives_the_same_bits_in_any_shape)
{
    static const gpur_grid grids[] = {{0, 0, 0}, {1, 32, 0}, {2, 64, 0}, {7, 96, 0}};
    static float a[MOST], b[MOST], held_a[WORLD_ROWS], held_b[WORLD_ROWS];
    const int64_t count = weights_after(grids[0], 30, a, held_a);
    CHECK(count > 0);
    for (int i = 0; i < 4; i++) {
        CHECK_EQUAL(weights_after(grids[i], 30, b, held_b), count);
        CHECK(memcmp(a, b, (size_t)count * sizeof *a) == 0);
        CHECK(memcmp(held_a, held_b, sizeof held_a) == 0);
    }
}

/* `prioritized` = 1 and nothing else: a user's draws and a learner's train steps are by priority. */
TEST(one_setting_makes_all_draws_by_priority)
{
    enum { ROWS = 64, ONLY = 9 };
    gpur_field fields[] = {{"obs", GPUR_FLOAT32, {2}},     {"action", GPUR_INT32, {0}},
                           {"reward", GPUR_FLOAT32, {0}},  {"next_obs", GPUR_FLOAT32, {2}},
                           {"terminated", GPUR_BOOL, {0}}, {"priority", GPUR_FLOAT32, {0}}};
    static float obs[ROWS][2], rewards[ROWS], priorities[ROWS];
    static int32_t actions[ROWS];
    static uint8_t ends[ROWS];
    gpur_replay_config config;
    gpur_learner_config learner_config;
    gpur_priority_stats stats = {.size = sizeof stats};
    gpur_replay *replay = NULL;
    gpur_writer *writer = NULL;
    gpur_learner *learner = NULL;
    gpur_batch *batch = NULL;
    int64_t ids[32], others = 0;
    CHECK_OK(gpur_replay_config_init(&config, sizeof config));
    config.fields = fields, config.field_count = 6, config.capacity = 256;
    config.prioritized = 1, config.priority_offset = 0;
    CHECK_OK(gpur_replay_create(device, &config, &replay));
    CHECK_OK(gpur_writer_create(replay, 1, &writer));
    priorities[ONLY] = 1; /* of the others nothing can be drawn */
    const void *const columns[] = {obs, actions, rewards, obs, ends, priorities};
    CHECK_OK(gpur_writer_append_fields(writer, ROWS, columns, NULL, NULL));
    CHECK_OK(gpur_replay_sample(replay, 32, NULL, &batch));
    CHECK_OK(gpur_batch_read(batch, "id", ids, sizeof ids));
    gpur_batch_release(batch);
    for (int i = 0; i < 32; i++)
        others += ids[i] != ONLY;
    CHECK_EQUAL(others, 0);
    CHECK_OK(gpur_learner_config_init(&learner_config, sizeof learner_config));
    learner_config.network.outputs = 3;
    CHECK_OK(gpur_learner_create(replay, &learner_config, &learner));
    CHECK_OK(gpur_learner_train(learner, 3));
    CHECK_OK(gpur_learner_sync(learner));
    CHECK_OK(gpur_replay_get_priority_stats(replay, &stats));
    CHECK_EQUAL(stats.updates, 3 * learner_config.batch_size);
    gpur_learner_destroy(learner);
    gpur_writer_destroy(writer);
    gpur_replay_destroy(replay);
}

TEST(draws_by_priority_need_a_prioritized_replay)
{
    gpur_learner_config config = config_of(GPUR_PRIORITIZED);
    gpur_learner *learner = NULL;
    CHECK_OK(world_open(&world, device, WORLD_ROWS));
    CHECK_STATUS(gpur_learner_create(world.replay, &config, &learner), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("index_source is 3, by priority, and the replay's prioritized is 0");
    config.index_source = 5;
    CHECK_STATUS(gpur_learner_create(world.replay, &config, &learner), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("index_source is 5");
    config.index_source = GPUR_UNIFORM, config.beta.last = NAN;
    CHECK_STATUS(gpur_learner_create(world.replay, &config, &learner), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("beta goes from 0.4 to nan");
    world_close(&world);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
    RUN(a_step_draws_weighs_and_leaves_priorities_as_the_reference_does);
    RUN(making_a_learner_changes_no_priority);
    RUN(uniform_draws_leave_priorities_alone_and_steps_on_ids_do_not);
    RUN(the_same_seed_gives_the_same_bits_in_any_shape);
    RUN(one_setting_makes_all_draws_by_priority);
    RUN(draws_by_priority_need_a_prioritized_replay);
    gpur_device_close(device);
    return test_main_end();
}
