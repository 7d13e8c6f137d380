/* SPDX-License-Identifier: MIT */
/* What all learners do alike, tried with one of each algorithm: weights by name, files, statistics, copies to policies;
 * and that calls of one algorithm refuse the learners of the others. */
#include "support/dpg_fixture.h"
#include "support/file_utils.h"
#include "support/learner_fixture.h"
#include "support/returns_fixture.h"
#include "test.h"

enum { DQN, CACHE, DPG, ACTOR_CRITIC, DUAL, KINDS, ROWS = 24, OBS = DPG_FEATURES, ACTIONS = 3, ROOM = 4096 };

static const struct {
    const char *name, *file;
    int32_t networks, has_target, has_replay;
} kinds[KINDS] = {
    [DQN] = {"a DQN learner", "learner", 1, 1, 1},
    [CACHE] = {"a DQN learner", "learner", 1, 0, 1},
    [DPG] = {"a DPG learner", "dpg", 2, 1, 1},
    [ACTOR_CRITIC] = {"an actor-critic", "actor-critic", 1, 0, 0},
    [DUAL] = {"an actor-critic", "actor-critic", 1, 0, 0},
};

static gpur_device *device;

/* Two learners with equal settings, and their replay. */
typedef struct family {
    int kind;
    learner_fixture rows;
    dpg_fixture vectors;
    returns_fixture steps;
    gpur_learner *learner, *other;
    gpur_policy_config policy; /* that fits its first network */
} family;

static gpur_status create_dqn(family *f, gpur_learner **learner)
{
    gpur_dqn_config c = learner_fixture_config(GPUR_HEAD_DUELING, 1);
    c.batch_size = ROWS;
    f->policy.network = c.network;
    f->policy.obs = (gpur_field){"obs", GPUR_FLOAT32, {FIXTURE_FEATURES}};
    return gpur_dqn_create(f->rows.replay, &c, learner);
}

static gpur_status create_cache(family *f, gpur_learner **learner)
{
    gpur_dqn_config c = returns_fixture_config(&f->steps, 60, 10);
    f->policy.network = c.network;
    f->policy.obs = (gpur_field){"obs", GPUR_FLOAT32, {RETURNS_NUMBERS}};
    return gpur_dqn_create(f->steps.replay, &c, learner);
}

static gpur_status create_dpg(family *f, gpur_learner **learner)
{
    gpur_dpg_config c = dpg_fixture_config();
    c.actor_optimizer.kind = GPUR_RMSPROP_TF, c.critic_optimizer.kind = GPUR_RMSPROP_DEEPMIND;
    c.actor_optimizer.momentum = c.critic_optimizer.momentum = 0.5f;
    f->policy.network = c.actor;
    f->policy.obs = (gpur_field){"obs", GPUR_FLOAT32, {DPG_FEATURES}};
    return gpur_dpg_create(f->vectors.replay, &c, learner);
}

static gpur_status create_actor_critic(family *f, gpur_learner **learner)
{
    gpur_actor_critic_config c;
    GPUR_TRY(gpur_actor_critic_config_init(&c, sizeof c));
    c.network.num_actions = ACTIONS, c.network.trunk[0].units = 7, c.max_batch = ROWS;
    c.obs = (gpur_field){"obs", GPUR_FLOAT32, {OBS}};
    c.dual_optimizer = f->kind == DUAL;
    c.optimizer.kind = f->kind == DUAL ? GPUR_RMSPROP_TF : GPUR_ADAM;
    f->policy.network = c.network, f->policy.obs = c.obs;
    return gpur_actor_critic_create(device, &c, learner);
}

static gpur_status open_family(family *f, int kind)
{
    static gpur_status (*const create[KINDS])(family *, gpur_learner **) = {create_dqn, create_cache, create_dpg,
                                                                            create_actor_critic, create_actor_critic};
    const returns_setting setting = {.envs = 2, .capacity = 256, .flush = GPUR_FLUSH_AUTO, .seed = 3};
    *f = (family){.kind = kind};
    GPUR_TRY(gpur_policy_config_init(&f->policy, sizeof f->policy));
    if (kind == DQN)
        GPUR_TRY(learner_fixture_open(&f->rows, device, FIXTURE_ROWS));
    if (kind == CACHE) {
        GPUR_TRY(returns_fixture_open(&f->steps, device, &setting));
        GPUR_TRY(returns_fixture_step(&f->steps, 120));
    }
    if (kind == DPG)
        GPUR_TRY(dpg_fixture_open(&f->vectors, device, 0));
    GPUR_TRY(create[kind](f, &f->learner));
    return create[kind](f, &f->other);
}

static void close_family(family *f)
{
    gpur_learner_destroy(f->learner);
    gpur_learner_destroy(f->other);
    if (f->kind == DQN)
        learner_fixture_close(&f->rows);
    if (f->kind == DPG)
        dpg_fixture_close(&f->vectors);
    if (f->kind == CACHE)
        returns_fixture_close(&f->steps);
}

/* Train step `t` of a learner. */
static gpur_status train(const family *f, gpur_learner *learner, int t)
{
    static float obs[ROWS * OBS], returns[ROWS];
    static int32_t actions[ROWS];
    if (f->kind == CACHE && t % 4 == 0)
        GPUR_TRY(gpur_learner_refresh(learner));
    if (kinds[f->kind].has_replay)
        return gpur_learner_train(learner, 1);
    random_floats((uint64_t)t + 50, obs, ROWS * OBS);
    random_floats((uint64_t)t + 90, returns, ROWS);
    for (int i = 0; i < ROWS; i++)
        actions[i] = (i + t) % ACTIONS;
    const gpur_actor_critic_batch batch = {sizeof batch, ROWS, obs, actions, returns};
    return gpur_actor_critic_train(learner, &batch, NULL);
}

static int are_equal(gpur_learner *a, gpur_learner *b, int32_t which)
{
    static float ours[ROOM], theirs[ROOM];
    const int64_t count = learner_fixture_weights(a, which, ours, ROOM);
    return count == learner_fixture_weights(b, which, theirs, ROOM) &&
           (count < 0 || memcmp(ours, theirs, (size_t)count * sizeof *ours) == 0);
}

static void check_tensor(const family *f, int32_t i)
{
    static float values[ROOM], back[ROOM], others[2][ROOM];
    gpur_weight_info info = {.size = sizeof info};
    CHECK_OK(gpur_learner_get_weight_info(f->learner, i, &info));
    const int has_owner = strncmp(info.name, "actor.", 6) == 0 || strncmp(info.name, "critic.", 7) == 0;
    CHECK(has_owner == (kinds[f->kind].networks > 1) && info.count <= ROOM);
    for (int32_t which = GPUR_WEIGHTS_ONLINE; which <= GPUR_WEIGHTS_TARGET; which++) {
        const int32_t beside = GPUR_WEIGHTS_TARGET - which;
        if (!kinds[f->kind].has_target && which == GPUR_WEIGHTS_TARGET)
            return;
        random_floats((uint64_t)(i * 2 + which + 7), values, info.count);
        const int64_t count = learner_fixture_weights(f->learner, beside, others[0], ROOM);
        CHECK_OK(gpur_learner_write_weights(f->learner, which, info.name, values, info.count));
        CHECK_OK(gpur_learner_read_weights(f->learner, which, info.name, back, info.count));
        CHECK(memcmp(values, back, (size_t)info.count * sizeof *back) == 0);
        CHECK_EQUAL(learner_fixture_weights(f->learner, beside, others[1], ROOM), count); /* the other array stays */
        CHECK(count < 0 || memcmp(others[0], others[1], (size_t)count * sizeof *values) == 0);
    }
}

TEST(weights_are_read_and_written_by_name)
{
    static float before[ROOM], after[ROOM];
    for (int kind = 0; kind < KINDS; kind++) {
        family f;
        gpur_weight_info info = {.size = sizeof info};
        CHECK_OK(open_family(&f, kind));
        for (int32_t i = 0; i < gpur_learner_weight_count(f.learner); i++)
            check_tensor(&f, i);
        CHECK_OK(gpur_learner_get_weight_info(f.learner, 1, &info));
        CHECK(info.count <= 32);
        const int64_t count = learner_fixture_weights(f.learner, GPUR_WEIGHTS_ONLINE, before, ROOM);
        float bad[32] = {0, NAN};
        CHECK(info.count > 1 && count > 0);
        CHECK_FAILS(gpur_learner_write_weights(f.learner, 0, info.name, bad, info.count), GPUR_INVALID_ARGUMENT, "NaN");
        CHECK_FAILS(gpur_learner_write_weights(f.learner, 2, info.name, bad, info.count), GPUR_INVALID_ARGUMENT,
                    "which is 2; GPUR_WEIGHTS_ONLINE (0) and TARGET (1) can be written");
        CHECK_FAILS(gpur_learner_read_weights(f.learner, 3, info.name, bad, info.count), GPUR_INVALID_ARGUMENT,
                    "which is 3; it must be GPUR_WEIGHTS_ONLINE, TARGET or GRADIENT (0 to 2)");
        CHECK_FAILS(gpur_learner_read_weights(f.learner, 0, info.name, bad, info.count - 1), GPUR_INVALID_ARGUMENT,
                    "\" has ");
        CHECK_FAILS(gpur_learner_read_weights(f.learner, 0, "trunk.7.weight", bad, 1), GPUR_INVALID_ARGUMENT,
                    kinds[kind].networks > 1 ? "their names begin with \"actor.\" or \"critic.\"" : "trunk.7.weight");
        CHECK_FAILS(gpur_learner_read_weights(f.learner, 0, info.name, NULL, info.count), GPUR_INVALID_ARGUMENT,
                    "learner and values must not be NULL");
        CHECK_FAILS(gpur_learner_read_weights(f.learner, 0, NULL, bad, 1), GPUR_INVALID_ARGUMENT,
                    "name of the weights is NULL");
        CHECK_FAILS(gpur_learner_get_weight_info(f.learner, gpur_learner_weight_count(f.learner), &info),
                    GPUR_INVALID_ARGUMENT, "it must be 0 to ");
        if (!kinds[kind].has_target)
            CHECK_FAILS(gpur_learner_read_weights(f.learner, 1, info.name, bad, info.count), GPUR_INVALID_ARGUMENT,
                        "has no target network");
        CHECK_EQUAL(learner_fixture_weights(f.learner, GPUR_WEIGHTS_ONLINE, after, ROOM), count);
        CHECK(memcmp(before, after, (size_t)count * sizeof *before) == 0);
        close_family(&f);
    }
}

static void check_stats(const gpur_learner_stats *saved, const gpur_learner_stats *loaded, int kind)
{
    CHECK(saved->steps == 9 && loaded->steps == 9 && loaded->steps_enqueued == 9 && loaded->diverged_at == 0);
    CHECK_EQUAL(saved->target_copies, loaded->target_copies);
    CHECK(isfinite(saved->loss) && isfinite(saved->mean_loss) && saved->gradient_norm > 0 && saved->learning_rate > 0);
    CHECK(kind == DPG ? isfinite(saved->policy_loss) && saved->policy_learning_rate > 0
                      : isnan(saved->policy_loss) && isnan(saved->policy_gradient_norm));
    CHECK(saved->device_bytes > 0 && saved->pinned_bytes > 0);
    if (!kinds[kind].has_replay)
        return;
    CHECK(memcmp(&saved->loss, &loaded->loss, sizeof saved->loss) == 0);
    CHECK(memcmp(&saved->mean_q, &loaded->mean_q, 3 * sizeof saved->mean_q) == 0); /* to learning_rate */
    if (kind == DPG)
        CHECK(memcmp(&saved->policy_loss, &loaded->policy_loss, 3 * sizeof saved->policy_loss) == 0);
}

/* A cache is not in the file, so both learners fill theirs anew. */
TEST(training_goes_on_from_a_file_with_the_same_bits)
{
    for (int kind = 0; kind < KINDS; kind++) {
        const char *const path = test_file_path("learner.safetensors");
        gpur_checkpoint_info info = {.size = sizeof info};
        family f;
        CHECK_OK(open_family(&f, kind));
        for (int t = 0; t < 9; t++)
            CHECK_OK(train(&f, f.learner, t));
        CHECK(!are_equal(f.learner, f.other, GPUR_WEIGHTS_ONLINE));
        CHECK_OK(gpur_learner_save(f.learner, path, NULL));
        CHECK_OK(gpur_checkpoint_get_info(path, &info));
        CHECK(info.steps == 9 && strcmp(info.kind, kinds[kind].file) == 0);
        const gpur_learner_stats saved = learner_fixture_stats(f.learner);
        CHECK_OK(gpur_learner_load(f.other, path, NULL));
        const gpur_learner_stats loaded = learner_fixture_stats(f.other);
        check_stats(&saved, &loaded, kind);
        for (int t = 12; t < 20; t++) {
            CHECK_OK(train(&f, f.learner, t));
            CHECK_OK(train(&f, f.other, t));
        }
        for (int32_t which = GPUR_WEIGHTS_ONLINE; which <= GPUR_WEIGHTS_GRADIENT; which++)
            CHECK(are_equal(f.learner, f.other, which));
        close_family(&f);
        test_remove_folder();
    }
}

TEST(a_file_of_another_algorithm_is_refused)
{
    for (int from = 0; from < KINDS; from++) {
        const char *const path = test_file_path("learner.safetensors");
        family f;
        CHECK_OK(open_family(&f, from));
        CHECK_OK(gpur_learner_save(f.learner, path, NULL));
        close_family(&f);
        for (int to = 0; to < KINDS; to++) {
            family g;
            if (strcmp(kinds[from].file, kinds[to].file) == 0)
                continue;
            CHECK_OK(open_family(&g, to));
            CHECK_FAILS(gpur_learner_load(g.learner, path, NULL), GPUR_FILE_ERROR, kinds[from].file);
            close_family(&g);
        }
        test_remove_folder();
    }
}

/* The bytes of a policy's weights. */
static int64_t bytes_of(gpur_policy *policy, unsigned char *bytes)
{
    const int64_t count = gpur_policy_weights_bytes(policy);
    return count <= ROOM * 4 && gpur_policy_get_weights(policy, bytes, count) == GPUR_OK ? count : -1;
}

/* The same weights come by a copy, by a file of the learner, and by a file of weights; and go back. */
TEST(policies_get_the_weights_of_the_first_network)
{
    static unsigned char pulled[ROOM * 4], loaded[ROOM * 4];
    for (int kind = 0; kind < KINDS; kind++) {
        const char *const path = test_file_path("weights.safetensors");
        gpur_policy *policy = NULL, *other = NULL;
        family f;
        CHECK_OK(open_family(&f, kind));
        CHECK_OK(gpur_policy_create(device, &f.policy, &policy));
        for (int t = 0; t < 3; t++)
            CHECK_OK(train(&f, f.learner, t));
        CHECK_OK(gpur_policy_pull(policy, f.learner, GPUR_WEIGHTS_ONLINE));
        CHECK_EQUAL(gpur_policy_version(policy), 3);
        const int64_t count = bytes_of(policy, pulled);
        CHECK(count > 64);
        CHECK_OK(gpur_learner_save_weights(f.learner, path, NULL));
        CHECK_OK(gpur_policy_open(device, path, NULL, &other));
        CHECK_EQUAL(bytes_of(other, loaded), count);
        CHECK(memcmp(pulled, loaded, (size_t)count) == 0);
        CHECK_OK(gpur_learner_load_weights(f.other, path, NULL));
        CHECK_OK(gpur_learner_save(f.learner, path, NULL));
        CHECK_OK(gpur_policy_load(other, path, NULL));
        CHECK_EQUAL(bytes_of(other, loaded), count);
        CHECK(memcmp(pulled, loaded, (size_t)count) == 0);
        CHECK_OK(gpur_policy_pull(policy, f.other, GPUR_WEIGHTS_ONLINE));
        CHECK_EQUAL(bytes_of(policy, loaded), count);
        CHECK(memcmp(pulled + 64, loaded + 64, (size_t)count - 64) == 0); /* but for the version */
        if (kinds[kind].has_target) {
            CHECK_OK(gpur_policy_pull(policy, f.other, GPUR_WEIGHTS_TARGET));
            CHECK_EQUAL(bytes_of(policy, loaded), count);
            CHECK(memcmp(pulled + 64, loaded + 64, (size_t)count - 64) == 0);
        } else {
            CHECK_FAILS(gpur_policy_pull(policy, f.other, GPUR_WEIGHTS_TARGET), GPUR_INVALID_ARGUMENT,
                        "has no target network");
        }
        gpur_policy_destroy(policy);
        gpur_policy_destroy(other);
        close_family(&f);
        test_remove_folder();
    }
}

static void check_other(gpur_status status, const char *call, const char *needed, int kind)
{
    char wanted[128];
    snprintf(wanted, sizeof wanted, "%s needs %s; this is %s", call, needed, kinds[kind].name);
    CHECK_FAILS(status, GPUR_INVALID_ARGUMENT, wanted);
}

TEST(calls_of_one_algorithm_refuse_the_others)
{
    static const char *const dqn = "a DQN learner";
    for (int kind = 0; kind < KINDS; kind++) {
        const int64_t ids[ROWS] = {0};
        float numbers[ROWS * 16] = {0};
        int32_t actions[ROWS];
        void *rows = numbers;
        const gpur_actor_critic_batch batch = {sizeof batch, 1, numbers, actions, numbers};
        family f;
        CHECK_OK(open_family(&f, kind));
        if (kind == DPG || kind == ACTOR_CRITIC) {
            check_other(gpur_learner_act(f.learner, 1, numbers, 0.0f, actions, NULL), "gpur_learner_act", dqn, kind);
            check_other(gpur_learner_q_values(f.learner, 1, numbers, numbers, NULL), "gpur_learner_q_values", dqn,
                        kind);
            check_other(gpur_learner_refresh(f.learner), "gpur_learner_refresh", dqn, kind);
            check_other(gpur_learner_train_ids(f.learner, ids), "gpur_learner_train_ids", dqn, kind);
            check_other(gpur_learner_acquire_host_batch(f.learner, &rows), "gpur_learner_acquire_host_batch", dqn,
                        kind);
            check_other(gpur_learner_release_host_batch(f.learner, numbers), "gpur_learner_release_host_batch", dqn,
                        kind);
            check_other(gpur_learner_train_host_batch(f.learner, numbers), "gpur_learner_train_host_batch", dqn, kind);
            CHECK(gpur_learner_epsilon(f.learner, 5) == 0.0f);
        }
        if (kinds[kind].has_replay)
            check_other(gpur_actor_critic_train(f.learner, &batch, NULL), "gpur_actor_critic_train", "an actor-critic",
                        kind);
        else
            CHECK_FAILS(gpur_learner_train(f.learner, 1), GPUR_INVALID_ARGUMENT, "gpur_actor_critic_train");
        if (kinds[kind].has_replay)
            CHECK_FAILS(gpur_learner_train(f.learner, -1), GPUR_INVALID_ARGUMENT, "steps is -1; it must be 0 or more");
        gpur_learner_stats stats = {.size = 3};
        CHECK_FAILS(gpur_learner_get_stats(f.learner, &stats), GPUR_INVALID_ARGUMENT, "gpur_learner_stats.size is 3");
        CHECK_EQUAL(learner_fixture_stats(f.learner).steps_enqueued, 0);
        close_family(&f);
    }
    CHECK_FAILS(gpur_learner_act(NULL, 1, NULL, 0.0f, NULL, NULL), GPUR_INVALID_ARGUMENT, "learner is NULL");
    CHECK_FAILS(gpur_learner_train(NULL, 1), GPUR_INVALID_ARGUMENT, "learner is NULL");
    CHECK_FAILS(gpur_learner_sync(NULL), GPUR_INVALID_ARGUMENT, "learner is NULL");
    CHECK(gpur_learner_weight_count(NULL) == 0 && gpur_learner_math(NULL) == -1);
    gpur_learner_destroy(NULL);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
    RUN(weights_are_read_and_written_by_name);
    RUN(training_goes_on_from_a_file_with_the_same_bits);
    RUN(a_file_of_another_algorithm_is_refused);
    RUN(policies_get_the_weights_of_the_first_network);
    RUN(calls_of_one_algorithm_refuse_the_others);
    gpur_device_close(device);
    return test_main_end();
}
