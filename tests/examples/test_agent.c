/* SPDX-License-Identifier: MIT */
/* examples/agent.c, which users will copy: what it remembers of the end of an episode, and what its seed decides. */
#include "examples/agent.h"
#include "test.h"

enum { COPIES = 2, LONG = 3, STEPS = 7, ROWS = COPIES * STEPS };

/* Episodes of three steps. The first copy's are terminated, the second's truncated. An observation is told from all
 * others: 1000 x the copy + 10 x the episode + the steps since its beginning. */
typedef struct counter {
    int copy, episode, step;
} counter;

static int copies;

static int counter_init(void *env, uint64_t seed)
{
    (void)seed;
    *(counter *)env = (counter){.copy = copies++, .episode = -1};
    return 0;
}

static float observation(int copy, int episode, int step)
{
    return (float)(1000 * copy + 10 * episode + step);
}

static void counter_reset(void *env, void *obs)
{
    counter *const c = env;
    c->episode++, c->step = 0;
    *(float *)obs = observation(c->copy, c->episode, 0);
}

static env_outcome counter_step(void *env, const void *action, void *obs)
{
    counter *const c = env;
    *(float *)obs = observation(c->copy, c->episode, ++c->step);
    return (env_outcome){.reward = (float)*(const int32_t *)action * 0.5f,
                         .terminated = c->step == LONG && c->copy == 0,
                         .truncated = c->step == LONG && c->copy == 1};
}

static const env_kind counter_kind = {
    .name = "counter",
    .obs = {.name = "obs", .dtype = GPUR_FLOAT32, .shape = {1}},
    .action = {.name = "action", .dtype = GPUR_INT32},
    .actions = 2,
    .state_bytes = sizeof(counter),
    .init = counter_init,
    .reset = counter_reset,
    .step = counter_step,
};

static gpur_status open_agent(agent *opened, uint64_t seed)
{
    const agent_config config = {.device = test_device_name(),
                                 .threads = 1,
                                 .preset = "cartpole",
                                 .capacity = 256,
                                 .min_size = 1,
                                 .gamma = 0.5f,
                                 .envs = COPIES,
                                 .max_act = COPIES,
                                 .seed = seed};
    return agent_open(opened, &counter_kind, &config);
}

static gpur_status play(agent *opened)
{
    vec_env envs;
    copies = 0;
    if (vec_env_open(&envs, &counter_kind, COPIES, 1) != 0)
        return GPUR_OUT_OF_MEMORY;
    gpur_status status = gpur_writer_reset(opened->writer, -1, vec_env_obs(&envs, 0));
    for (int32_t step = 0; step < STEPS && status == GPUR_OK; step++) {
        const int32_t actions[COPIES] = {step % 2, (step + 1) % 2};
        vec_env_step(&envs, actions);
        status = agent_remember(opened, &envs, actions);
    }
    vec_env_close(&envs);
    return status;
}

/* The rows in the order they were remembered in: step by step, and within a step copy by copy. */
typedef struct memory {
    float obs[ROWS], next_obs[ROWS], reward[ROWS], discount[ROWS];
    int32_t action[ROWS];
    uint8_t terminated[ROWS], truncated[ROWS];
} memory;

static void recall(agent *opened, memory *m)
{
    int64_t ids[ROWS];
    gpur_batch *batch = NULL;
    for (int i = 0; i < ROWS; i++)
        ids[i] = i;
    CHECK_OK(gpur_replay_gather(opened->replay, ROWS, ids, NULL, &batch));
    CHECK_OK(gpur_batch_read(batch, "obs", m->obs, sizeof m->obs));
    CHECK_OK(gpur_batch_read(batch, "next_obs", m->next_obs, sizeof m->next_obs));
    CHECK_OK(gpur_batch_read(batch, "reward", m->reward, sizeof m->reward));
    CHECK_OK(gpur_batch_read(batch, "discount", m->discount, sizeof m->discount));
    CHECK_OK(gpur_batch_read(batch, "action", m->action, sizeof m->action));
    CHECK_OK(gpur_batch_read(batch, "terminated", m->terminated, sizeof m->terminated));
    CHECK_OK(gpur_batch_read(batch, "truncated", m->truncated, sizeof m->truncated));
    gpur_batch_release(batch);
}

/* Truncated or not, a transition leads to its own episode's next observation; only termination ends the discounting. */
TEST(an_episode_is_remembered_to_its_own_end)
{
    static memory m;
    agent opened;
    CHECK_OK(open_agent(&opened, 1));
    CHECK_OK(play(&opened));
    recall(&opened, &m);
    agent_close(&opened);
    for (int i = 0; i < ROWS; i++) {
        const int copy = i % COPIES, step = i / COPIES, ends = step % LONG == LONG - 1;
        CHECK_NEAR(m.obs[i], observation(copy, step / LONG, step % LONG), 0);
        CHECK_NEAR(m.next_obs[i], observation(copy, step / LONG, step % LONG + 1), 0);
        CHECK_EQUAL(m.action[i], (step + copy) % 2);
        CHECK_NEAR(m.reward[i], (step + copy) % 2 * 0.5, 0);
        CHECK_EQUAL(m.terminated[i], ends && copy == 0);
        CHECK_EQUAL(m.truncated[i], ends && copy == 1);
        CHECK_NEAR(m.discount[i], ends && copy == 0 ? 0 : 0.5, 0);
    }
}

enum { WEIGHTS = 1 << 14 };

/* The first layer's weights before any training, and the ids of the first draw. */
static gpur_status beginnings(uint64_t seed, float *weights, int64_t *ids)
{
    agent opened;
    gpur_batch *batch = NULL;
    gpur_weight_info info = {.size = sizeof info};
    gpur_status status = open_agent(&opened, seed);
    if (status == GPUR_OK)
        status = gpur_learner_weight(opened.learner, 0, &info);
    if (status == GPUR_OK)
        status = gpur_learner_read_weights(opened.learner, GPUR_WEIGHTS_ONLINE, info.name, weights, info.count);
    if (status == GPUR_OK)
        status = play(&opened);
    if (status == GPUR_OK)
        status = gpur_replay_sample(opened.replay, ROWS, NULL, &batch);
    if (status == GPUR_OK)
        status = gpur_batch_read(batch, "id", ids, ROWS * (int64_t)sizeof *ids);
    gpur_batch_release(batch);
    agent_close(&opened);
    return status;
}

TEST(the_seed_decides_the_weights_and_the_draws)
{
    static float weights[3][WEIGHTS];
    int64_t ids[3][ROWS];
    for (int i = 0; i < 3; i++)
        CHECK_OK(beginnings(i < 2 ? 5 : 6, weights[i], ids[i]));
    CHECK(memcmp(weights[0], weights[1], sizeof weights[0]) == 0);
    CHECK(memcmp(weights[0], weights[2], sizeof weights[0]) != 0);
    CHECK(memcmp(ids[0], ids[1], sizeof ids[0]) == 0);
    CHECK(memcmp(ids[0], ids[2], sizeof ids[0]) != 0);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(an_episode_is_remembered_to_its_own_end);
    RUN(the_seed_decides_the_weights_and_the_draws);
    return test_main_end();
}
