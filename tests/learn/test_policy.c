/* SPDX-License-Identifier: MIT */
/* Policies: Q values against the learner's and the reference, random actions, weights pulled during training, several
 * threads at once, and refusals. test_policy_weights.c has files and bytes. */
#include "learn/acting/policy.h"
#include "learn/dqn/dqn.h"
#include "support/learner_fixture.h"
#include "support/policy_fixture.h"
#include "support/replay_fixture.h"
#include "support/stream_gate.h"
#include "test.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

enum { MAX_COUNT = 64, MAX_WEIGHTS = 8192 };

static gpur_device *device;
static learner_fixture fixture, other_fixture;

static const void *obs_of(const learner_fixture *from, int kind, int64_t id)
{
    return kind == ROWS_PLAIN ? (const void *)from->rows[id].obs : conv_rows[id].obs;
}

/* 1: the policy has these weights of the learner, bit for bit. */
static int has_weights_of(gpur_policy *policy, gpur_learner *learner, int32_t which)
{
    static float ours[MAX_WEIGHTS], theirs[MAX_WEIGHTS];
    const int64_t count = policy_fixture_weights(policy, ours, MAX_WEIGHTS);
    return count > 0 && learner_fixture_weights(learner, which, theirs, MAX_WEIGHTS) == count &&
           memcmp(ours, theirs, (size_t)count * sizeof *ours) == 0;
}

/* One call, with observations in host memory or in device memory: the learner's Q values, near the reference's, and the
 * best action. */
static void check_values(gpur_policy *policy, gpur_learner *learner, ref_net *net, int64_t count, int64_t first)
{
    static _Alignas(64) unsigned char obs[MAX_COUNT * MAX_ROW_BYTES];
    static float q[MAX_COUNT * FIXTURE_ACTIONS], wanted[MAX_COUNT * FIXTURE_ACTIONS];
    static ref_tape tape;
    int32_t actions[MAX_COUNT];
    int64_t version = -1;
    const int64_t bytes = policy->inferences[0].input.row_bytes;
    for (int64_t i = 0; i < count; i++)
        memcpy(obs + i * bytes, obs_of(&fixture, fixture.kind, (first + i) % IMAGE_ROWS), (size_t)bytes);
    void *const there = upload_to_device(device, obs, count * bytes);
    const gpur_policy_input input = {.size = sizeof input, .count = count, .obs = first % 2 ? there : obs};
    const gpur_policy_output output = {.size = sizeof output, .actions = actions, .q = q, .version = &version};
    CHECK(there);
    CHECK_OK(gpur_policy_act(policy, &input, &output));
    CHECK_OK(gpur_learner_q_values(learner, count, obs, wanted, NULL));
    gpur_device_free(device, there);
    CHECK_EQUAL(version, gpur_policy_version(policy));
    CHECK(memcmp(q, wanted, (size_t)count * FIXTURE_ACTIONS * sizeof *q) == 0);
    for (int64_t i = 0; i < count; i++) {
        const float *const row = q + i * FIXTURE_ACTIONS;
        ref_forward(net, 0, learner_fixture_reference(&fixture, (first + i) % IMAGE_ROWS).obs, &tape);
        for (int k = 0; k < FIXTURE_ACTIONS; k++) {
            CHECK_NEAR(row[k], tape.y[k], 1e-5 * (1 + fabs(tape.y[k])));
            CHECK(row[actions[i]] >= row[k]);
        }
    }
}

static void check_kind(int kind, const gpur_dqn_config *config)
{
    gpur_learner *learner = NULL;
    CHECK_OK(learner_fixture_open_kind(&fixture, device, kind, rows_of_kind(kind), NOT_PRIORITIZED));
    CHECK_OK(gpur_dqn_create(fixture.replay, config, &learner));
    gpur_policy *const policy = policy_fixture_open(device, config, kind, 2);
    CHECK(policy);
    CHECK(has_weights_of(policy, learner, GPUR_WEIGHTS_ONLINE)); /* the initial weights of this seed */
    for (int round = 0; round < 3; round++) {
        CHECK_OK(gpur_learner_train(learner, 8));
        CHECK_OK(gpur_policy_pull(policy, learner, GPUR_WEIGHTS_TARGET));
        CHECK(has_weights_of(policy, learner, GPUR_WEIGHTS_TARGET));
        CHECK_EQUAL(gpur_policy_version(policy), 8 * (round + 1));
        CHECK_OK(gpur_policy_pull(policy, learner, GPUR_WEIGHTS_ONLINE));
        CHECK(has_weights_of(policy, learner, GPUR_WEIGHTS_ONLINE));
        CHECK(!has_weights_of(policy, learner, GPUR_WEIGHTS_TARGET));
        ref_net *const net = learner_fixture_net(&fixture, learner, config);
        CHECK(net);
        check_values(policy, learner, net, 1, round);
        check_values(policy, learner, net, MAX_COUNT, round + 1);
        check_values(policy, learner, net, 5, round);
        ref_net_destroy(net);
    }
    gpur_policy_destroy(policy);
    learner_fixture_close_learner(&fixture, learner);
}

TEST(q_values_are_the_learners_bit_for_bit_after_a_pull_and_near_the_references)
{
    gpur_dqn_config config = learner_fixture_config(GPUR_HEAD_DUELING, 1);
    check_kind(ROWS_PLAIN, &config);
    config = learner_fixture_config(GPUR_HEAD_Q, 1), check_kind(ROWS_PLAIN, &config);
    config = conv_config(GPUR_CHW), check_kind(ROWS_PLANES, &config);
    config.network.trunk_count = 0, check_kind(ROWS_PLANES, &config); /* bytes, flattened and scaled */
    config = conv_config(GPUR_HWC), check_kind(ROWS_PIXELS, &config);
}

TEST(without_lanes_and_steps_a_policy_acts_as_a_learner_of_its_seed)
{
    enum { COUNT = 20 };
    float obs[COUNT * FIXTURE_FEATURES], q[COUNT * FIXTURE_ACTIONS], epsilons[COUNT];
    int32_t ours[COUNT], theirs[COUNT];
    const gpur_dqn_config config = learner_fixture_config(GPUR_HEAD_Q, 1);
    gpur_learner *const learner = learner_fixture_open_learner(&fixture, device, config);
    gpur_policy *const policy = policy_fixture_open(device, &config, ROWS_PLAIN, 3);
    CHECK(learner && policy);
    random_floats(3, obs, COUNT * FIXTURE_FEATURES);
    for (int i = 0; i < 40; i++) {
        const int64_t count = 1 + i % COUNT;
        const gpur_policy_input input = {.size = sizeof input, .count = count, .obs = obs, .epsilon = epsilons};
        const gpur_policy_output output = {.size = sizeof output, .actions = ours};
        for (int k = 0; k < COUNT; k++)
            epsilons[k] = (float)(i % 3) * 0.5f;
        CHECK_OK(gpur_policy_act(policy, &input, &output));
        CHECK_OK(gpur_learner_act(learner, count, obs, epsilons[0], theirs, NULL));
        CHECK(memcmp(ours, theirs, (size_t)count * sizeof *ours) == 0);
        CHECK_OK(policy_fixture_q(policy, count, obs, q, NULL)); /* draws nothing */
    }
    gpur_policy_destroy(policy);
    learner_fixture_close_learner(&fixture, learner);
}

/* Rows with lanes, steps and epsilons of all sizes, whose largest Q value leaves no doubt. */
enum { ROWS = 600 };

static struct {
    float obs[ROWS * FIXTURE_FEATURES], epsilon[ROWS];
    uint32_t lane[ROWS];
    uint64_t step[ROWS];
    int32_t wanted[ROWS];
} rows;

/* The wanted actions are the reference's, with the policy's own Q values, which are compared with the reference's
 * above. */
static gpur_status make_rows(gpur_policy *policy, uint64_t seed)
{
    double q[FIXTURE_ACTIONS];
    float got[FIXTURE_ACTIONS];
    uint64_t state = 5;
    for (int i = 0; i < ROWS; i++) {
        double gap = 0;
        for (int attempt = 0; gap < 1e-4; attempt++) {
            random_floats((uint64_t)i + 1000u * (uint64_t)attempt + 7, rows.obs + i * FIXTURE_FEATURES,
                          FIXTURE_FEATURES);
            GPUR_TRY(policy_fixture_q(policy, 1, rows.obs + i * FIXTURE_FEATURES, got, NULL));
            for (int k = 0; k < FIXTURE_ACTIONS; k++)
                q[k] = got[k];
            gap = fmin(fabs(q[0] - q[1]), fmin(fabs(q[1] - q[2]), fabs(q[0] - q[2])));
        }
        rows.epsilon[i] = (float)(i % 5) * 0.25f;
        rows.lane[i] = i % 7 == 0 ? UINT32_MAX - (uint32_t)i : (uint32_t)(i % 11);
        rows.step[i] = i % 3 == 0 ? xorshift_next(&state) : (uint64_t)(i / 11);
        rows.wanted[i] = ref_epsilon_greedy(seed, rows.step[i], rows.lane[i], rows.epsilon[i], FIXTURE_ACTIONS, q);
    }
    return GPUR_OK;
}

/* Acts on rows [first, first + count). Returns how many actions are wrong. */
static int act_on_rows(gpur_policy *policy, int first, int count)
{
    int32_t actions[MAX_COUNT];
    int wrong = 0;
    const gpur_policy_input input = {.size = sizeof input,
                                     .count = count,
                                     .obs = rows.obs + first * FIXTURE_FEATURES,
                                     .epsilon = rows.epsilon + first,
                                     .lane = rows.lane + first,
                                     .step = rows.step + first};
    const gpur_policy_output output = {.size = sizeof output, .actions = actions};
    if (gpur_policy_act(policy, &input, &output) != GPUR_OK)
        return count;
    for (int i = 0; i < count; i++)
        wrong += actions[i] != rows.wanted[first + i];
    return wrong;
}

typedef struct part {
    gpur_policy *policy;
    int index; /* of the thread: selects where it begins, and how it divides its rows into calls */
    int wrong;
    pthread_t thread;
} part;

/* All rows in order, from another one on, in calls of other sizes. */
static void *act_on_all_rows(void *argument)
{
    part *const p = argument;
    uint64_t state = (uint64_t)p->index + 1;
    for (int done = 0; done < ROWS;) {
        const int first = (done + p->index * 97) % ROWS;
        const int most = (int)xorshift_below(&state, MAX_COUNT) + 1, left = ROWS - done, end = ROWS - first;
        const int count = most < left ? (most < end ? most : end) : (left < end ? left : end);
        p->wrong += act_on_rows(p->policy, first, count);
        done += count;
    }
    return NULL;
}

TEST(random_actions_follow_from_seed_lane_and_step_whatever_the_calls_threads_and_streams)
{
    enum { THREADS = 5 };
    const gpur_dqn_config config = learner_fixture_config(GPUR_HEAD_DUELING, 1);
    for (int32_t streams = 1; streams <= 4; streams++) {
        part parts[THREADS];
        gpur_policy *const policy = policy_fixture_open(device, &config, ROWS_PLAIN, streams);
        CHECK(policy);
        CHECK_OK(make_rows(policy, config.seed));
        const int64_t calls = policy_fixture_stats(policy).calls;
        for (int i = 0; i < THREADS; i++) {
            parts[i] = (part){.policy = policy, .index = i};
            CHECK(pthread_create(&parts[i].thread, NULL, act_on_all_rows, &parts[i]) == 0);
        }
        for (int i = 0; i < THREADS; i++)
            pthread_join(parts[i].thread, NULL);
        for (int i = 0; i < THREADS; i++)
            CHECK_EQUAL(parts[i].wrong, 0);
        const gpur_policy_stats stats = policy_fixture_stats(policy);
        CHECK(stats.calls > calls + THREADS * ROWS / MAX_COUNT);
        CHECK_EQUAL(stats.observations - calls, THREADS * ROWS); /* the calls before had one each */
        gpur_policy_destroy(policy);
    }
}

/* Actions of `lanes` neighboring lanes at `steps` steps, in counts of pairs: an action and the action of the next lane,
 * and an action and that of the next step. */
static gpur_status count_pairs(gpur_policy *policy, float epsilon, int steps, int64_t *by_lane, int64_t *by_step,
                               int64_t *single)
{
    static const float obs[MAX_COUNT * FIXTURE_FEATURES];
    int32_t actions[MAX_COUNT], before[MAX_COUNT];
    uint64_t step[MAX_COUNT];
    float epsilons[MAX_COUNT];
    const gpur_policy_input input = {
        .size = sizeof input, .count = MAX_COUNT, .obs = obs, .epsilon = epsilons, .step = step};
    const gpur_policy_output output = {.size = sizeof output, .actions = actions};
    for (int t = 0; t < steps; t++) {
        for (int i = 0; i < MAX_COUNT; i++)
            step[i] = (uint64_t)t, epsilons[i] = epsilon;
        GPUR_TRY(gpur_policy_act(policy, &input, &output));
        for (int i = 0; i < MAX_COUNT; i++) {
            single[actions[i]]++;
            if (i % 2 == 1)
                by_lane[actions[i - 1] * FIXTURE_ACTIONS + actions[i]]++;
            if (t % 2 == 1)
                by_step[before[i] * FIXTURE_ACTIONS + actions[i]]++;
        }
        memcpy(before, actions, sizeof before);
    }
    return GPUR_OK;
}

TEST(the_share_of_random_actions_is_epsilon_and_they_are_uniform_and_independent)
{
    enum { STEPS = 800, PAIRS = FIXTURE_ACTIONS * FIXTURE_ACTIONS };
    const gpur_dqn_config config = learner_fixture_config(GPUR_HEAD_Q, 1);
    gpur_policy *const policy = policy_fixture_open(device, &config, ROWS_PLAIN, 1);
    int64_t greedy[FIXTURE_ACTIONS] = {0}, single[FIXTURE_ACTIONS] = {0}, ignored[2][PAIRS] = {{0}};
    int64_t by_lane[PAIRS] = {0}, by_step[PAIRS] = {0};
    int best = 0;
    CHECK(policy);
    CHECK_OK(count_pairs(policy, 0.0f, 1, ignored[0], ignored[1], greedy));
    for (int k = 1; k < FIXTURE_ACTIONS; k++)
        best = greedy[k] > greedy[best] ? k : best;
    CHECK_EQUAL(greedy[best], MAX_COUNT);
    CHECK_OK(count_pairs(policy, 0.3f, STEPS, ignored[0], ignored[1], single));
    for (int k = 0; k < FIXTURE_ACTIONS; k++) {
        const double n = (double)STEPS * MAX_COUNT, p = 0.1 + (k == best ? 0.7 : 0);
        CHECK_NEAR(single[k], n * p, 5 * sqrt(n * p * (1 - p))); /* 5 sigma: once in 1,700,000 */
    }
    memset(single, 0, sizeof single);
    CHECK_OK(count_pairs(policy, 1.0f, STEPS, by_lane, by_step, single));
    CHECK(chi_square_tail(chi_square_statistic(single, FIXTURE_ACTIONS), FIXTURE_ACTIONS - 1) > 1e-6);
    CHECK(chi_square_tail(chi_square_statistic(by_lane, PAIRS), PAIRS - 1) > 1e-6);
    CHECK(chi_square_tail(chi_square_statistic(by_step, PAIRS), PAIRS - 1) > 1e-6);
    gpur_policy_destroy(policy);
}

/* Q values of one observation with the weights after each number of train steps, by a learner that is trained step by
 * step. */
enum { TRAINED = IS_WATCHED ? 150 : 600, LAUNCHES_A_PULL = 3, MAX_PULLS = 1000, SMALL_WEIGHTS = 1024 };
static const float one_obs[FIXTURE_FEATURES] = {0.3f, -0.2f, 0.9f, 0.1f, -0.5f};
static float expected[2][TRAINED + 1][FIXTURE_ACTIONS]; /* online, target */

static gpur_dqn_config trained_config(void)
{
    gpur_dqn_config config = learner_fixture_config(GPUR_HEAD_DUELING, 1);
    config.target_period = 7;
    return config;
}

static gpur_status make_expected(void)
{
    const gpur_dqn_config config = trained_config();
    gpur_learner *const learner = learner_fixture_open_learner(&fixture, device, config);
    gpur_policy *const policy = policy_fixture_open(device, &config, ROWS_PLAIN, 1);
    gpur_status status = learner && policy ? GPUR_OK : GPUR_OUT_OF_MEMORY;
    for (int step = 0; step <= TRAINED && status == GPUR_OK; step++) {
        int64_t version = -1;
        for (int32_t which = GPUR_WEIGHTS_ONLINE; which <= GPUR_WEIGHTS_TARGET && status == GPUR_OK; which++) {
            status = gpur_policy_pull(policy, learner, which);
            if (status == GPUR_OK)
                status = policy_fixture_q(policy, 1, one_obs, expected[which][step], &version);
            if (status == GPUR_OK && version != step)
                status = GPUR_DEVICE_ERROR;
        }
        if (status == GPUR_OK && step < TRAINED)
            status = gpur_learner_train(learner, 1);
    }
    gpur_policy_destroy(policy);
    learner_fixture_close_learner(&fixture, learner);
    return status;
}

/* A thread that trains in launches of 1 to 5 steps, as fast as it can as long as there are enough pulls. */
typedef struct trainer {
    gpur_learner *learner;
    gpur_status status;
    atomic_int pulls, is_done;
    pthread_t thread;
} trainer;

static int64_t steps_of_launch(int64_t launch)
{
    return 1 + launch % 5;
}

static int is_end_of_launch(int64_t step)
{
    int64_t sum = 0;
    for (int64_t launch = 0; sum < step; launch++)
        sum += steps_of_launch(launch);
    return sum == step;
}

static void *train(void *argument)
{
    trainer *const t = argument;
    int64_t done = 0;
    for (int64_t launch = 0; done < TRAINED && t->status == GPUR_OK; launch++) {
        while (atomic_load(&t->pulls) < launch / LAUNCHES_A_PULL)
            sched_yield();
        t->status = gpur_learner_train(t->learner, steps_of_launch(launch));
        done += steps_of_launch(launch);
    }
    atomic_store(&t->is_done, 1);
    return NULL;
}

/* A thread that acts until the trainer has ended: each act has the Q values of the version that it returns, and later
 * acts have no older weights. */
typedef struct asker {
    gpur_policy *policy;
    const trainer *trainer;
    int32_t which;
    int64_t wrong, acts;
    pthread_t thread;
} asker;

static void *ask(void *argument)
{
    asker *const a = argument;
    int64_t last = 0;
    while (!atomic_load(&a->trainer->is_done) || a->acts == 0) {
        float q[FIXTURE_ACTIONS];
        int64_t version = -1;
        a->wrong += policy_fixture_q(a->policy, 1, one_obs, q, &version) != GPUR_OK;
        a->wrong += version < last || version > TRAINED || memcmp(q, expected[a->which][version], sizeof q) != 0;
        last = version;
        a->acts++;
    }
    return NULL;
}

/* The weights of all pulls. */
static struct {
    int64_t version;
    float weights[SMALL_WEIGHTS];
} pulled[MAX_PULLS];

static gpur_status pull(gpur_policy *policy, trainer *t, int32_t which)
{
    const int index = atomic_load(&t->pulls);
    GPUR_TRY(gpur_policy_pull(policy, t->learner, which));
    pulled[index].version = gpur_policy_version(policy);
    if (policy_fixture_weights(policy, pulled[index].weights, SMALL_WEIGHTS) < 0)
        return GPUR_DEVICE_ERROR;
    atomic_fetch_add(&t->pulls, 1);
    return GPUR_OK;
}

/* Each pull got the weights of another learner after as many steps, which are those of whole launches. */
static void check_pulled(const trainer *t, gpur_learner *reference, int32_t which)
{
    static float wanted[SMALL_WEIGHTS];
    int64_t trained = 0;
    for (int i = 0; i < atomic_load(&t->pulls); i++) {
        const int64_t version = pulled[i].version;
        CHECK(version >= trained && version <= TRAINED && is_end_of_launch(version));
        CHECK_OK(gpur_learner_train(reference, version - trained));
        trained = version;
        const int64_t count = learner_fixture_weights(reference, which, wanted, SMALL_WEIGHTS);
        CHECK(count > 0 && memcmp(pulled[i].weights, wanted, (size_t)count * sizeof *wanted) == 0);
    }
    CHECK_EQUAL(trained, TRAINED);
}

static void check_pulls(gpur_learner *learner, gpur_learner *reference, int32_t which)
{
    enum { ASKERS = 3 };
    static trainer t;
    asker askers[ASKERS];
    gpur_status status = GPUR_OK;
    const gpur_dqn_config config = trained_config();
    gpur_policy *const policy = policy_fixture_open(device, &config, ROWS_PLAIN, 2); /* fewer than threads */
    CHECK(policy);
    t = (trainer){.learner = learner};
    for (int i = 0; i < ASKERS; i++) {
        askers[i] = (asker){.policy = policy, .trainer = &t, .which = which};
        CHECK(pthread_create(&askers[i].thread, NULL, ask, &askers[i]) == 0);
    }
    CHECK(pthread_create(&t.thread, NULL, train, &t) == 0);
    while (!atomic_load(&t.is_done) && status == GPUR_OK)
        if (atomic_load(&t.pulls) < MAX_PULLS - 1)
            status = pull(policy, &t, which);
    atomic_fetch_add(&t.pulls, status == GPUR_OK ? 0 : TRAINED); /* the trainer must end in any case */
    pthread_join(t.thread, NULL);
    for (int i = 0; i < ASKERS; i++)
        pthread_join(askers[i].thread, NULL);
    CHECK_OK(status);
    CHECK_OK(t.status);
    CHECK_OK(pull(policy, &t, which));
    for (int i = 0; i < ASKERS; i++)
        CHECK_EQUAL(askers[i].wrong, 0);
    check_pulled(&t, reference, which);
    gpur_policy_destroy(policy);
}

TEST(weights_pulled_during_training_are_those_of_a_launchs_end_and_acts_have_the_version_they_return)
{
    const gpur_dqn_config config = trained_config();
    CHECK_OK(make_expected());
    CHECK(is_end_of_launch(TRAINED));
    for (int32_t which = GPUR_WEIGHTS_ONLINE; which <= GPUR_WEIGHTS_TARGET; which++) {
        gpur_learner *const learner = learner_fixture_open_learner(&fixture, device, config);
        gpur_learner *const reference = learner_fixture_open_learner(&other_fixture, device, config);
        CHECK(learner && reference);
        check_pulls(learner, reference, which);
        learner_fixture_close_learner(&fixture, learner);
        learner_fixture_close_learner(&other_fixture, reference);
    }
}

/* An act in a thread of its own. */
typedef struct held_act {
    gpur_policy *policy;
    float q[FIXTURE_ACTIONS];
    int64_t version;
    gpur_status status;
    pthread_t thread;
} held_act;

static void *act_once(void *argument)
{
    held_act *const a = argument;
    a->status = policy_fixture_q(a->policy, 1, one_obs, a->q, &a->version);
    return NULL;
}

/* Waits until all work of an act is enqueued: the event at its end has been recorded, and is not reached. */
static void await_read(gpur_acting_copies *copies, gpur_event *read)
{
    int reads = 1;
    while (gpur_event_done(read) || reads > 0) {
        gpur_mutex_lock(&copies->lock);
        reads = copies->reads[0] + copies->reads[1];
        gpur_mutex_unlock(&copies->lock);
        sched_yield();
    }
}

static void await_steps(gpur_learner *learner, int64_t steps)
{
    gpur_learner_stats stats = {.size = sizeof stats};
    while (stats.steps < steps && gpur_learner_get_stats(learner, &stats) == GPUR_OK)
        sched_yield();
}

/* A gate holds the stream of an act. Meanwhile others act on another stream, and weights are pulled: the host waits for
 * none of it. The second pull overwrites the copy that the held act reads, and so waits for it on the device. */
TEST(acts_and_pulls_do_not_wait_for_an_act_that_is_held_up)
{
    const gpur_dqn_config config = trained_config();
    gate held;
    held_act a;
    float q[FIXTURE_ACTIONS];
    int64_t version = -1;
    if (test_on_cuda() || test_executor() == GPUR_EXECUTOR_INLINE)
        return; /* gates are for streams with a thread */
    gpur_learner *const learner = learner_fixture_open_learner(&fixture, device, config);
    gpur_policy *const policy = policy_fixture_open(device, &config, ROWS_PLAIN, 2);
    CHECK(learner && policy);
    gate_init(&held);
    a = (held_act){.policy = policy};
    CHECK_OK(gate_close(&held, policy->inferences[0].stream));
    CHECK(pthread_create(&a.thread, NULL, act_once, &a) == 0);
    await_read(&policy->copies, policy->copies.read[policy->copies.latest][0]);
    for (int step = 1; step <= 2; step++) {
        CHECK_OK(gpur_learner_train(learner, 1));
        CHECK_OK(gpur_policy_pull(policy, learner, GPUR_WEIGHTS_ONLINE));
        if (step == 1)
            CHECK_OK(policy_fixture_q(policy, 1, one_obs, q, &version));
    }
    CHECK_EQUAL(version, 1);
    CHECK(memcmp(q, expected[0][1], sizeof q) == 0);
    await_steps(learner, 2);
    usleep(20000); /* time enough for a copy that does not wait */
    CHECK(!gpur_event_done(policy->copies.written[policy->copies.latest]));
    gate_open(&held);
    pthread_join(a.thread, NULL);
    CHECK_OK(a.status);
    CHECK_EQUAL(a.version, 0);
    CHECK(memcmp(a.q, expected[0][0], sizeof q) == 0);
    CHECK_OK(policy_fixture_q(policy, 1, one_obs, q, &version));
    CHECK_EQUAL(version, 2);
    CHECK(memcmp(q, expected[0][2], sizeof q) == 0);
    gpur_policy_destroy(policy);
    gate_destroy(&held);
    learner_fixture_close_learner(&fixture, learner);
}

static void check_refused(const gpur_policy_config *config, const char *message)
{
    gpur_policy *policy = (gpur_policy *)(void *)&fixture; /* must become NULL */
    CHECK_FAILS(gpur_policy_create(device, config, &policy), GPUR_INVALID_ARGUMENT, message);
    CHECK(!policy);
}

/* tests/base/test_settings.c has the numeric settings. */
TEST(settings_that_do_not_fit_are_refused_with_the_reason)
{
    const gpur_dqn_config learner = learner_fixture_config(GPUR_HEAD_DUELING, 1), images = conv_config(GPUR_CHW);
    const gpur_policy_config good = policy_fixture_config(&learner, ROWS_PLAIN, 1);
    const int64_t used = test_memory_used(device);
    gpur_policy_config c;
    check_refused(NULL, "gpur_policy_config is NULL");
    c = good, c.size = 3, check_refused(&c, "was the struct initialized?");
    c = good, c.network.head = 99, check_refused(&c, "network.head is 99; it must be 0 to");
    c = good, c.policy_floor = 1.0f, check_refused(&c, "policy_floor is 1; it must be at least 0 and below 1");
    c = good, c.network.num_actions = 0, check_refused(&c, "num_actions is 0; it must be the number of actions");
    c = good, c.obs.dtype = GPUR_INT32, check_refused(&c, "field \"obs\" is int32; a network reads float32 or uint8");
    c = good, c.obs.dtype = 0, check_refused(&c, "field \"obs\" has dtype 0; it must be GPUR_FLOAT32 (1)");
    c = good, c.obs.shape[0] = -4, check_refused(&c, "field \"obs\" has -4 in its shape");
    c = policy_fixture_config(&images, ROWS_PLAIN, 1), check_refused(&c, ") is no image: it needs three axes");
    c = policy_fixture_config(&images, ROWS_PLANES, 1), c.network.input_layout = GPUR_INPUT_AUTO;
    c.obs.shape[0] = c.obs.shape[1] = c.obs.shape[2] = 10;
    check_refused(&c, "network.input_layout is GPUR_INPUT_AUTO, and the shape of obs, (10, 10, 10), leaves a doubt");
    c = good;
    CHECK_FAILS(gpur_policy_create(NULL, &c, (gpur_policy *[1]){NULL}), GPUR_INVALID_ARGUMENT, "device is NULL");
    CHECK_FAILS(gpur_policy_create(device, &c, NULL), GPUR_INVALID_ARGUMENT, "policy, which gets the handle, is NULL");
    CHECK_FAILS(gpur_policy_config_init(NULL, sizeof c), GPUR_INVALID_ARGUMENT, "gpur_policy_config is NULL");
    CHECK_FAILS(gpur_policy_config_preset(&c, "atari"), GPUR_INVALID_ARGUMENT, "\"atari\"");
    CHECK(memcmp(&c, &good, sizeof c) == 0);
    CHECK_EQUAL(test_memory_used(device), used);
    gpur_policy_destroy(NULL);
}

TEST(a_preset_sets_the_network_alone)
{
    gpur_dqn_config learner;
    gpur_policy_config policy;
    CHECK_OK(gpur_policy_config_init(&policy, sizeof policy));
    policy.seed = 77, policy.streams = 3;
    CHECK_OK(gpur_policy_config_preset(&policy, "nature-dueling"));
    CHECK_OK(gpur_dqn_config_init(&learner, sizeof learner));
    CHECK_OK(gpur_dqn_config_preset(&learner, "nature-dueling"));
    CHECK(memcmp(&policy.network, &learner.network, sizeof learner.network) == 0);
    CHECK(policy.seed == 77 && policy.streams == 3 && policy.max_batch == 64);
}

#define REFUSED(setting, message)                                                                                      \
    do {                                                                                                               \
        gpur_policy_input in = good_in;                                                                                \
        gpur_policy_output out = good_out;                                                                             \
        setting;                                                                                                       \
        CHECK_FAILS(gpur_policy_act(policy, &in, &out), GPUR_INVALID_ARGUMENT, message);                               \
    } while (0)

TEST(bad_calls_are_refused_and_compute_nothing)
{
    enum { COUNT = 3 };
    const gpur_dqn_config config = learner_fixture_config(GPUR_HEAD_Q, 1);
    float obs[COUNT * FIXTURE_FEATURES] = {0}, epsilon[COUNT] = {0.5f, 0.5f, 0.5f}, q[COUNT * FIXTURE_ACTIONS];
    int32_t actions[COUNT] = {-5, -5, -5};
    int64_t version = -7;
    gpur_policy *const policy = policy_fixture_open(device, &config, ROWS_PLAIN, 1);
    const gpur_policy_input good_in = {.size = sizeof good_in, .count = COUNT, .obs = obs, .epsilon = epsilon};
    const gpur_policy_output good_out = {.size = sizeof good_out, .actions = actions, .q = q, .version = &version};
    CHECK(policy);
    REFUSED(in.count = 0, "count is 0; it must be 1 to max_batch, 64");
    REFUSED(in.count = 65, "count is 65; it must be 1 to max_batch, 64");
    REFUSED(in.obs = NULL, "obs is NULL");
    REFUSED((out.actions = NULL, out.q = NULL), "actions, q, probabilities and values, which get the results, are all");
    REFUSED(in.greedy = 1, "probabilities, values or greedy is given; a policy with network.head 0 has q");
    REFUSED(out.values = q, "probabilities, values or greedy is given; a policy with network.head 0 has q");
    REFUSED(in.greedy = 2, "greedy is 2; it must be 0 or 1");
    REFUSED(in.reserved = 9, "gpur_policy_input.reserved is 9 in word 0; it must be 0");
    REFUSED(in.size = 0, "gpur_policy_input.size is 0");
    REFUSED(out.size = 4, "gpur_policy_output.size is 4");
    REFUSED((epsilon[1] = 1.5f), "epsilon[1] is 1.5; it must be 0 to 1");
    epsilon[1] = 0.5f;
    REFUSED((epsilon[2] = NAN), "epsilon[2] is");
    epsilon[2] = 0.5f;
    if (!test_on_cuda())
        REFUSED(in.stream = obs, "on the CPU it must be NULL");
    CHECK_FAILS(gpur_policy_act(NULL, &good_in, &good_out), GPUR_INVALID_ARGUMENT, "policy is NULL");
    CHECK_FAILS(gpur_policy_act(policy, NULL, &good_out), GPUR_INVALID_ARGUMENT, "gpur_policy_input is NULL");
    CHECK_FAILS(gpur_policy_act(policy, &good_in, NULL), GPUR_INVALID_ARGUMENT, "gpur_policy_output is NULL");
    CHECK_FAILS(gpur_policy_get_stats(policy, NULL), GPUR_INVALID_ARGUMENT, "stats must not be NULL");
    CHECK(actions[0] == -5 && actions[2] == -5 && version == -7);
    CHECK_EQUAL(policy_fixture_stats(policy).calls, 0);
    CHECK_OK(gpur_policy_act(policy, &good_in, &good_out));
    CHECK(actions[0] >= 0 && version == 0 && policy_fixture_stats(policy).observations == COUNT);
    CHECK_EQUAL(gpur_policy_version(NULL), 0);
    gpur_policy_destroy(policy);
}

static void check_pull_refused(gpur_policy_config config, gpur_learner *learner, const char *message)
{
    gpur_policy *policy = NULL;
    CHECK_OK(gpur_policy_create(device, &config, &policy));
    CHECK_FAILS(gpur_policy_pull(policy, learner, GPUR_WEIGHTS_ONLINE), GPUR_INVALID_ARGUMENT, message);
    CHECK_EQUAL(gpur_policy_version(policy), 0);
    gpur_policy_destroy(policy);
}

TEST(weights_of_another_network_are_refused_with_the_first_difference)
{
    gpur_dqn_config learned = learner_fixture_config(GPUR_HEAD_DUELING, 1);
    gpur_policy_config c, good = policy_fixture_config(&learned, ROWS_PLAIN, 1);
    gpur_device_config device_config = test_device_config();
    gpur_device *own = NULL;
    gpur_policy *policy = NULL;
    conv_fixture images;
    gpur_learner *const learner = learner_fixture_open_learner(&fixture, device, learned);
    CHECK(learner);
    CHECK_OK(gpur_learner_train(learner, 1));
    c = good, c.network.trunk[0].units = 17;
    check_pull_refused(c, learner,
                       "tensor 0 of the learner is \"trunk.0.weight\" (16, 5), of this policy "
                       "\"trunk.0.weight\" (17, 5); their networks must be equal");
    c = good, c.obs.shape[0] = 6;
    check_pull_refused(c, learner, "\"trunk.0.weight\" (16, 5), of this policy \"trunk.0.weight\" (16, 6)");
    c = good, c.network.trunk_count = 2, c.network.trunk[1] = c.network.trunk[0];
    check_pull_refused(c, learner,
                       "tensor 2 of the learner is \"value.hidden.weight\" (12, 16), of this policy "
                       "\"trunk.1.weight\" (16, 16)");
    c = good, c.network.num_actions = 4;
    check_pull_refused(c, learner, "\"advantage.out.weight\" (3, 12), of this policy \"advantage.out.weight\" (4, 12)");
    c = good, c.network.hidden_activation = GPUR_TANH;
    check_pull_refused(c, learner, "layer 2 of the learner, counted from 1, has activation 1, that of this policy 2");
    CHECK_OK(gpur_policy_create(device, &good, &policy));
    CHECK_FAILS(gpur_policy_pull(policy, learner, GPUR_WEIGHTS_GRADIENT), GPUR_INVALID_ARGUMENT, "which is 2");
    CHECK_FAILS(gpur_policy_pull(policy, NULL, 0), GPUR_INVALID_ARGUMENT, "policy and learner must not be NULL");
    CHECK_FAILS(gpur_policy_pull(NULL, learner, 0), GPUR_INVALID_ARGUMENT, "policy and learner must not be NULL");
    gpur_policy_destroy(policy);
    CHECK_OK(gpur_device_open(test_device_name(), &device_config, &own));
    CHECK_OK(gpur_policy_create(own, &good, &policy));
    CHECK_FAILS(gpur_policy_pull(policy, learner, 0), GPUR_INVALID_ARGUMENT, "opened by another gpur_device_open");
    gpur_policy_destroy(policy);
    gpur_device_close(own);
    learner_fixture_close_learner(&fixture, learner);
    /* Tensors of the same shapes, in another order on the device: without space-to-depth. */
    learned = conv_config(GPUR_CHW);
    CHECK_OK(conv_fixture_open(&images, device, &learned));
    c = policy_fixture_config(&learned, ROWS_PLANES, 1), c.obs.shape[1] = 13;
    check_pull_refused(c, images.learner,
                       "trunk[0] of the learner reads 12 x 8 pixels with stride 2 and activation 1, "
                       "that of this policy 13 x 8 with 2 and 1");
    c = policy_fixture_config(&learned, ROWS_PLANES, 1), c.network.trunk[1].activation = GPUR_RELU;
    check_pull_refused(c, images.learner,
                       "trunk[1] of the learner reads 5 x 3 pixels with stride 1 and activation 2, "
                       "that of this policy 5 x 3 with 1 and 1");
    conv_fixture_close(&images);
}

/* 12 x 8 pixels become 6 x 4 by kernel 3 and stride 2, with 1 row and column of zeros on each side or, as SAME, only
 * behind them. Kernel 3 and stride 1 keep the size with 1 on each side, which SAME is, too. */
TEST(padding_is_compared_by_the_zeros_that_it_adds)
{
    gpur_dqn_config learned = conv_config(GPUR_CHW);
    gpur_policy *policy = NULL;
    conv_fixture s;
    learned.network.trunk[0].kernel = 3, learned.network.trunk[0].padding = 1;
    gpur_policy_config c = policy_fixture_config(&learned, ROWS_PLANES, 1);
    CHECK_OK(conv_fixture_open(&s, device, &learned));
    c.network.trunk[1].padding = GPUR_SAME;
    CHECK_OK(gpur_policy_create(device, &c, &policy));
    CHECK_OK(gpur_policy_pull(policy, s.learner, GPUR_WEIGHTS_ONLINE));
    gpur_policy_destroy(policy);
    c.network.trunk[0].padding = GPUR_SAME;
    check_pull_refused(c, s.learner,
                       "trunk[0] of the learner has padding 1, 1, 1, 1 (top, left, bottom, right), that of this policy "
                       "0, 0, 1, 1; their networks must be equal");
    conv_fixture_close(&s);
}

/* Frames of the learner as (C, H, W), and of the policy as (H, W, C) in float32 that is scaled already, and shifted too
 * far. */
TEST(observations_may_differ_in_type_scale_shift_and_order)
{
    static float obs[IMAGE_PIXELS];
    gpur_dqn_config learned = conv_config(GPUR_CHW);
    learned.network.input_shift = -0.5f;
    gpur_policy_config config = policy_fixture_config(&learned, ROWS_PIXELS, 1);
    gpur_policy *policy = NULL;
    conv_fixture s;
    float q[FIXTURE_ACTIONS], wanted[FIXTURE_ACTIONS];
    config.obs.dtype = GPUR_FLOAT32;
    config.network.input_layout = GPUR_HWC, config.network.input_scale = 1.0f, config.network.input_shift = 0.5f;
    CHECK_OK(conv_fixture_open(&s, device, &learned));
    CHECK_OK(gpur_policy_create(device, &config, &policy));
    CHECK_OK(gpur_learner_train(s.learner, 3));
    CHECK_OK(gpur_policy_pull(policy, s.learner, GPUR_WEIGHTS_ONLINE));
    for (int i = 0; i < IMAGE_PIXELS; i++) {
        const int channel = i / (IMAGE_HEIGHT * IMAGE_WIDTH), pixel = i % (IMAGE_HEIGHT * IMAGE_WIDTH);
        obs[pixel * IMAGE_CHANNELS + channel] = (float)conv_rows[0].obs[i] * learned.network.input_scale - 1;
    }
    CHECK_OK(policy_fixture_q(policy, 1, obs, q, NULL));
    CHECK_OK(gpur_learner_q_values(s.learner, 1, conv_rows[0].obs, wanted, NULL));
    for (int k = 0; k < FIXTURE_ACTIONS; k++)
        CHECK_NEAR(q[k], wanted[k], 1e-6);
    gpur_policy_destroy(policy);
    conv_fixture_close(&s);
}

TEST(memory_is_counted_and_returned)
{
    gpur_dqn_config config = learner_fixture_config(GPUR_HEAD_Q, 1);
    const int64_t before = test_memory_used(device);
    gpur_policy *const one = policy_fixture_open(device, &config, ROWS_PLAIN, 1);
    const int64_t after = test_memory_used(device);
    gpur_policy *const four = policy_fixture_open(device, &config, ROWS_PLAIN, 4);
    CHECK(one && four);
    const gpur_policy_stats small = policy_fixture_stats(one), large = policy_fixture_stats(four);
    CHECK_EQUAL(small.device_bytes, after - before);
    CHECK(large.device_bytes > small.device_bytes && large.pinned_bytes == 4 * small.pinned_bytes);
    gpur_policy_destroy(four);
    gpur_policy_destroy(one);
    CHECK_EQUAL(test_memory_used(device), before);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
    RUN(q_values_are_the_learners_bit_for_bit_after_a_pull_and_near_the_references);
    RUN(without_lanes_and_steps_a_policy_acts_as_a_learner_of_its_seed);
    if (!IN_RACE_CHECK) {
        RUN(random_actions_follow_from_seed_lane_and_step_whatever_the_calls_threads_and_streams);
        RUN(the_share_of_random_actions_is_epsilon_and_they_are_uniform_and_independent);
        RUN(weights_pulled_during_training_are_those_of_a_launchs_end_and_acts_have_the_version_they_return);
        RUN(acts_and_pulls_do_not_wait_for_an_act_that_is_held_up);
        RUN(settings_that_do_not_fit_are_refused_with_the_reason);
        RUN(a_preset_sets_the_network_alone);
        RUN(bad_calls_are_refused_and_compute_nothing);
        RUN(weights_of_another_network_are_refused_with_the_first_difference);
        RUN(padding_is_compared_by_the_zeros_that_it_adds);
        RUN(observations_may_differ_in_type_scale_shift_and_order);
        RUN(memory_is_counted_and_returned);
    }
    gpur_device_close(device);
    return test_main_end();
}
