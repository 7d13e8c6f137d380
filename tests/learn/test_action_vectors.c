/* SPDX-License-Identifier: MIT */
/* Policies of action vectors: their noise against Philox and Box-Muller in double, by statistics, and whatever the
 * calls and threads, and refusals. test_dpg.c has the vectors without noise. */
#include "learn/acting/policy.h"
#include "reference/reference_replay.h"
#include "support/learner_fixture.h"
#include "support/noise_statistics.h"
#include "support/replay_fixture.h"
#include "test.h"

#include <pthread.h>

enum { FEATURES = 4, SIZE = 6, MAX_COUNT = 64, NOISE = 16, SEED = 11 };

static gpur_device *device;

/* A policy whose mu is the network's or, with is_zero, 0 for all observations. */
static gpur_policy *policy_of(uint64_t seed, int is_zero, int32_t streams)
{
    gpur_policy_config c;
    gpur_policy *policy = NULL;
    gpur_status status = gpur_policy_config_init(&c, sizeof c);
    c.network = network_fixture_config(8, 0, GPUR_TANH, GPUR_HEAD_TANH_ACTION, 0, SIZE);
    c.obs = (gpur_field){"obs", GPUR_FLOAT32, {FEATURES}};
    c.seed = seed, c.streams = streams;
    if (status == GPUR_OK)
        status = gpur_policy_create(device, &c, &policy);
    const int64_t bytes = gpur_policy_weights_bytes(policy);
    unsigned char *const weights = calloc((size_t)bytes + 1, 1);
    if (status == GPUR_OK && is_zero)
        status = gpur_policy_get_weights(policy, weights, bytes);
    memset(weights + 64, 0, (size_t)bytes - 64);
    if (status == GPUR_OK && is_zero)
        status = gpur_policy_set_weights(policy, weights, bytes);
    free(weights);
    if (status != GPUR_OK)
        fprintf(stderr, "policy_of: %s\n", gpur_last_error());
    return policy;
}

typedef struct batch {
    float obs[MAX_COUNT * FEATURES], sigma[MAX_COUNT];
    uint32_t lane[MAX_COUNT];
    uint64_t step[MAX_COUNT];
} batch;

/* Rows first to first + count - 1 of the batch; the vectors go to the same rows of `vectors`. */
static gpur_status act(gpur_policy *policy, const batch *b, int first, int count, float *vectors)
{
    const gpur_policy_input input = {.size = sizeof input,
                                     .count = count,
                                     .obs = b->obs + first * FEATURES,
                                     .lane = b->lane + first,
                                     .step = b->step + first,
                                     .sigma = b->sigma + first};
    const gpur_policy_output output = {.size = sizeof output, .action_vectors = vectors + first * SIZE};
    return gpur_policy_act(policy, &input, &output);
}

static void make_batch(batch *b, uint64_t seed)
{
    uint64_t state = seed + 1;
    random_floats(seed, b->obs, MAX_COUNT * FEATURES);
    for (int i = 0; i < MAX_COUNT; i++) {
        b->sigma[i] = (float)(i % 4) * 0.15f;
        b->lane[i] = i % 5 == 0 ? UINT32_MAX - (uint32_t)i : (uint32_t)i;
        b->step[i] = i % 3 == 0 ? xorshift_next(&state) : (uint64_t)i;
    }
}

/* The noise of component k [Box & Muller 1958], from 24 bits of each of two numbers. */
static double reference_noise(uint64_t seed, uint64_t step, uint32_t lane, int k)
{
    const uint32_t counter[4] = {lane, NOISE + ((uint32_t)(k / 4) << 16), (uint32_t)step, (uint32_t)(step >> 32)};
    uint32_t bits[4];
    reference_philox(counter, seed, bits);
    const uint32_t *const pair = bits + (k % 4 < 2 ? 0 : 2);
    const double u = ((pair[0] >> 8) + 1) * 0x1p-24, angle = 2 * acos(-1) * (pair[1] >> 8) * 0x1p-24;
    return sqrt(-2 * log(u)) * (k % 2 ? sin(angle) : cos(angle));
}

TEST(vectors_are_clipped_sums_of_mu_and_a_noise_that_follows_from_seed_lane_step_and_component)
{
    static batch b, quiet;
    static float vectors[MAX_COUNT * SIZE], mu[MAX_COUNT * SIZE];
    gpur_policy *const policy = policy_of((uint64_t)SEED << 50 | 3, 0, 1);
    int clipped = 0;
    CHECK(policy);
    for (int round = 0; round < 8; round++) {
        make_batch(&b, (uint64_t)round * 7 + 1);
        for (int i = 0; i < MAX_COUNT && round == 7; i++)
            b.sigma[i] = 3.0f;
        quiet = b;
        memset(quiet.sigma, 0, sizeof quiet.sigma);
        CHECK_OK(act(policy, &b, 0, MAX_COUNT, vectors));
        CHECK_OK(act(policy, &quiet, 0, MAX_COUNT, mu));
        for (int i = 0; i < MAX_COUNT * SIZE; i++) {
            const double sigma = (double)b.sigma[i / SIZE];
            const double noise =
                reference_noise((uint64_t)SEED << 50 | 3, b.step[i / SIZE], b.lane[i / SIZE], i % SIZE);
            const double want = fmax(-1, fmin(1, (double)mu[i] + sigma * noise));
            CHECK(fabs((double)mu[i]) < 1);
            CHECK_NEAR(vectors[i], want, sigma == 0 ? 0 : 1e-5);
            clipped += fabs((double)vectors[i]) == 1;
        }
    }
    CHECK(clipped > MAX_COUNT * SIZE / 3); /* nearly all of the last round are */
    gpur_policy_destroy(policy);
}

/* Statistics. */

/* Noise of MAX_COUNT lanes at `steps` steps, with mu 0 and a sigma at which nothing is clipped. */
static gpur_status gather(gpur_policy *policy, int steps, noise_statistics *s)
{
    static batch b;
    static float vectors[MAX_COUNT * SIZE];
    static double noise[2][MAX_COUNT * SIZE];
    memset(&b, 0, sizeof b);
    for (int t = 0; t < steps; t++) {
        for (int i = 0; i < MAX_COUNT; i++)
            b.sigma[i] = 0.1f, b.lane[i] = (uint32_t)i, b.step[i] = (uint64_t)t;
        GPUR_TRY(act(policy, &b, 0, MAX_COUNT, vectors));
        for (int i = 0; i < MAX_COUNT * SIZE; i++)
            noise[t % 2][i] = vectors[i] / 0.1;
        noise_statistics_add(s, noise[t % 2], t % 2 ? noise[0] : NULL, MAX_COUNT, SIZE);
    }
    return GPUR_OK;
}

TEST(noise_is_normal_and_independent_between_components_lanes_and_steps)
{
    static noise_statistics s;
    gpur_policy *const policy = policy_of(SEED, 1, 1);
    CHECK(policy);
    CHECK_OK(gather(policy, test_on_cuda() ? 200 : 400, &s));
    noise_statistics_check(&s);
    gpur_policy_destroy(policy);
}

/* Calls and threads. */

typedef struct part {
    gpur_policy *policy;
    const batch *b;
    int index;
    float vectors[MAX_COUNT * SIZE];
    gpur_status status;
    pthread_t thread;
} part;

/* All rows, in calls of 1 to 13 of them. */
static void *act_in_parts(void *argument)
{
    part *const p = argument;
    uint64_t state = (uint64_t)p->index + 1;
    for (int first = 0; first < MAX_COUNT && p->status == GPUR_OK;) {
        const int most = (int)xorshift_below(&state, 13) + 1, left = MAX_COUNT - first;
        p->status = act(p->policy, p->b, first, most < left ? most : left, p->vectors);
        first += most < left ? most : left;
    }
    return NULL;
}

/* mu is 0, so that not even its last bit differs with the other observations of a call. */
TEST(calls_threads_and_streams_change_no_bit)
{
    enum { THREADS = 4 };
    static batch b;
    static float all[MAX_COUNT * SIZE];
    static part parts[THREADS];
    gpur_policy *const policy = policy_of(SEED, 1, 3);
    CHECK(policy);
    make_batch(&b, 5);
    CHECK_OK(act(policy, &b, 0, MAX_COUNT, all));
    for (int i = 0; i < THREADS; i++) {
        parts[i] = (part){.policy = policy, .b = &b, .index = i};
        CHECK(pthread_create(&parts[i].thread, NULL, act_in_parts, &parts[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(parts[i].thread, NULL);
    for (int i = 0; i < THREADS; i++) {
        CHECK_OK(parts[i].status);
        CHECK(memcmp(parts[i].vectors, all, sizeof all) == 0);
    }
    gpur_policy_destroy(policy);
}

TEST(without_steps_each_call_has_other_noise_and_so_has_each_seed)
{
    float obs[FEATURES] = {0}, sigma = 0.2f, vectors[3][SIZE];
    gpur_policy *const policy = policy_of(1, 1, 1), *const other = policy_of(2, 1, 1);
    CHECK(policy && other);
    for (int i = 0; i < 3; i++) {
        const gpur_policy_input input = {.size = sizeof input, .count = 1, .obs = obs, .sigma = &sigma};
        const gpur_policy_output output = {.size = sizeof output, .action_vectors = vectors[i]};
        CHECK_OK(gpur_policy_act(i < 2 ? policy : other, &input, &output));
    }
    for (int k = 0; k < SIZE; k++) {
        CHECK_NEAR(vectors[0][k], (double)sigma * reference_noise(1, 0, 0, k), 1e-5);
        CHECK_NEAR(vectors[1][k], (double)sigma * reference_noise(1, 1, 0, k), 1e-5);
        CHECK_NEAR(vectors[2][k], (double)sigma * reference_noise(2, 0, 0, k), 1e-5);
    }
    gpur_policy_destroy(policy);
    gpur_policy_destroy(other);
}

#define REFUSED(policy, setting, message)                                                                              \
    do {                                                                                                               \
        gpur_policy_input in = {.size = sizeof in, .count = 2, .obs = obs};                                            \
        gpur_policy_output out = {.size = sizeof out, .action_vectors = vectors};                                      \
        setting;                                                                                                       \
        CHECK_FAILS(gpur_policy_act(policy, &in, &out), GPUR_INVALID_ARGUMENT, message);                               \
    } while (0)

TEST(bad_calls_are_refused_and_compute_nothing)
{
    float obs[2 * FIXTURE_FEATURES] = {0}, vectors[2 * SIZE] = {7}, sigma[2] = {0.1f, -0.1f};
    int32_t actions[2];
    const char *const others = "actions, q, probabilities, values, greedy or epsilon is given; a policy with "
                               "GPUR_HEAD_TANH_ACTION has action_vectors and sigma";
    gpur_policy_config c;
    gpur_policy *const policy = policy_of(1, 0, 1);
    gpur_policy *with_values = NULL;
    CHECK(policy);
    REFUSED(policy, in.sigma = sigma, "sigma[1] is -0.1; it must be 0 or more, and finite");
    sigma[1] = INFINITY;
    REFUSED(policy, in.sigma = sigma, "sigma[1] is inf; it must be 0 or more, and finite");
    sigma[1] = NAN;
    REFUSED(policy, in.sigma = sigma, "sigma[1] is");
    sigma[1] = 0.0f;
    REFUSED(policy, out.action_vectors = NULL, "action_vectors, which gets the results, is NULL");
    REFUSED(policy, out.actions = actions, others);
    REFUSED(policy, out.q = vectors, others);
    REFUSED(policy, in.epsilon = sigma, others);
    REFUSED(policy, in.greedy = 1, others);
    REFUSED(policy, out.log_probs = vectors, "log_probs is given; it needs GPUR_HEAD_SQUASHED_GAUSSIAN (4)");
    REFUSED(policy, in.count = MAX_COUNT + 1, "count is 65; it must be 1 to max_batch, 64");
    CHECK(vectors[0] == 7);
    CHECK_OK(gpur_policy_config_init(&c, sizeof c));
    c.network.num_actions = SIZE, c.obs = (gpur_field){"obs", GPUR_FLOAT32, {FEATURES}};
    CHECK_OK(gpur_policy_create(device, &c, &with_values));
    REFUSED(with_values, out.actions = actions, "they need GPUR_HEAD_TANH_ACTION (3), and network.head is 0");
    REFUSED(with_values, (out.action_vectors = NULL, out.actions = actions, in.sigma = sigma),
            "action_vectors or sigma is given");
    gpur_policy_destroy(with_values);
    gpur_policy_destroy(policy);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
    RUN(vectors_are_clipped_sums_of_mu_and_a_noise_that_follows_from_seed_lane_step_and_component);
    if (!IN_RACE_CHECK) {
        RUN(noise_is_normal_and_independent_between_components_lanes_and_steps);
        RUN(calls_threads_and_streams_change_no_bit);
        RUN(without_steps_each_call_has_other_noise_and_so_has_each_seed);
        RUN(bad_calls_are_refused_and_compute_nothing);
    }
    gpur_device_close(device);
    return test_main_end();
}
