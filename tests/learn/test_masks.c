/* SPDX-License-Identifier: MIT */
/*
 * Action masks: ten million actions of each head of discrete actions, of which none is a masked one and all allowed
 * ones are equally likely at random; probabilities among allowed actions; masks that allow everything; which mask a
 * transition of several steps has; and refusals. test_learner.c compares targets with the reference.
 */
#include "device/device.h"
#include "gpureplay/block.h"
#include "kernels/lib/allowed.h"
#include "support/learner_fixture.h"
#include "support/policy_fixture.h"
#include "support/replay_fixture.h"
#include "test.h"

enum { B = IN_RACE_CHECK ? 40 : 20000, ACTIONS = 11, ATOMS = 3, Z = ACTIONS * ATOMS, BYTES = 2 };
enum { DRAWS = 10000000 };

static gpur_device *device;
static gpur_stream *stream;
static learner_fixture fixture;

/* Every mask of 11 bits but the empty one occurs; bits from 11 on mean nothing. */
static void make_mask(int64_t row, unsigned char mask[BYTES])
{
    const int64_t bits = 1 + row * 1237 % ((1 << ACTIONS) - 1);
    mask[0] = (unsigned char)(bits & 0xff);
    mask[1] = (unsigned char)(bits >> 8 | (row % 3 ? 0xf8 : 0));
}

static int allows(const unsigned char *mask, int action)
{
    return action >= 0 && action < ACTIONS && (mask[action / 8] & (1 << action % 8));
}

/* What the kernels that choose read and write. */
typedef struct choice {
    float z[B * Z], bias[Z + 1], per_action[B * ACTIONS], value[B];
    unsigned char mask[B * BYTES];
    int32_t action[B];
} choice;

static void make_choice(choice *c)
{
    random_floats(61, c->z, B * Z);
    random_floats(62, c->bias, Z + 1);
    for (int b = 0; b < B; b++)
        make_mask(b, c->mask + b * BYTES);
}

static gpur_status launch(choice *there, int head, gpur_choice_args a)
{
    a.z = there->z, a.bias = there->bias, a.per_action = there->per_action, a.value = there->value;
    a.action = there->action, a.batch = B, a.z_pitch = Z, a.head = head, a.num_actions = ACTIONS;
    a.distribution = (gpur_distribution){.atoms = ATOMS, .v_min = -1.0f, .v_max = 1.0f};
    if (head == GPUR_HEAD_SOFTMAX_VALUE)
        return gpur_launch_softmax_choice(stream, gpur_grid_elements(device, B), &a);
    if (head == GPUR_HEAD_CATEGORICAL || head == GPUR_HEAD_QUANTILES)
        return gpur_launch_distribution_greedy(stream, gpur_grid_rows(device, B, 1, Z * 4), &a);
    return gpur_launch_epsilon_greedy(stream, gpur_grid_elements(device, B), &a);
}

/* Chooses for all rows, of memory on the device. */
static gpur_status choose(choice *there, int head, gpur_choice_args args)
{
    GPUR_TRY(launch(there, head, args));
    return gpur_stream_sync(stream);
}

static int64_t count_masked(const choice *c)
{
    int64_t masked = 0;
    for (int b = 0; b < B; b++)
        masked += !allows(c->mask + b * BYTES, c->action[b]);
    return masked;
}

/* A share of the long run's draws. */
static int64_t draws_of(int head)
{
    const int64_t all = head == GPUR_HEAD_Q ? DRAWS : DRAWS / 10;
    return IN_RACE_CHECK ? B : test_on_cuda() ? DRAWS : (int64_t)test_rounds((uint64_t)all) + B;
}

static void check_head(int head, int32_t greedy)
{
    static choice c;
    int64_t drawn = 0, masked = 0;
    make_choice(&c);
    choice *const there = upload_to_device(device, &c, sizeof c);
    CHECK(there);
    gpur_choice_args args = {.seed = 3, .epsilon = 0.3f, .mask = there->mask, .greedy = greedy};
    for (; drawn < draws_of(head) && masked == 0; drawn += B, args.step++) {
        CHECK_OK(choose(there, head, args));
        CHECK_OK(gpur_device_copy(device, c.action, there->action, sizeof c.action));
        masked = count_masked(&c);
    }
    CHECK_EQUAL(masked, 0);
    gpur_device_free(device, there);
}

TEST(no_masked_action_is_ever_chosen)
{
    check_head(GPUR_HEAD_Q, 0);
    check_head(GPUR_HEAD_DUELING, 0);
    check_head(GPUR_HEAD_QUANTILES, 0);
    check_head(GPUR_HEAD_CATEGORICAL, 0);
    check_head(GPUR_HEAD_SOFTMAX_VALUE, 0);
    check_head(GPUR_HEAD_SOFTMAX_VALUE, 1);
}

/* Weights of NaN give NaN for all values and probabilities. */
TEST(not_even_where_values_are_no_numbers)
{
    static choice c;
    for (int head = GPUR_HEAD_Q; head <= GPUR_HEAD_SOFTMAX_VALUE; head++)
        for (int greedy = 0; greedy < 2; greedy++) {
            make_choice(&c);
            for (int i = 0; i < B * Z; i++)
                c.z[i] = i % 2 ? NAN : INFINITY;
            choice *const there = upload_to_device(device, &c, sizeof c);
            CHECK(there);
            CHECK_OK(choose(there, head, (gpur_choice_args){.mask = there->mask, .greedy = greedy}));
            CHECK_OK(gpur_device_copy(device, c.action, there->action, sizeof c.action));
            CHECK_EQUAL(count_masked(&c), 0);
            gpur_device_free(device, there);
        }
}

/* All rows have the mask of row 0. With a softmax head, the share of random actions is 1. */
static void check_uniform(int head)
{
    static choice c;
    int64_t counts[ACTIONS] = {0}, allowed[ACTIONS];
    int cells = 0;
    make_choice(&c);
    for (int b = 0; b < B; b++)
        make_mask(1100, c.mask + b * BYTES);
    choice *const there = upload_to_device(device, &c, sizeof c);
    CHECK(there);
    gpur_choice_args args = {.seed = 17, .epsilon = 1.0f, .mask = there->mask};
    for (; args.step < (IN_RACE_CHECK ? 2 : 10); args.step++) {
        CHECK_OK(choose(there, head, args));
        CHECK_OK(gpur_device_copy(device, c.action, there->action, sizeof c.action));
        for (int b = 0; b < B; b++)
            counts[c.action[b]]++;
    }
    for (int k = 0; k < ACTIONS; k++)
        if (allows(c.mask, k))
            allowed[cells++] = counts[k];
    CHECK(cells > 3 && chi_square_tail(chi_square_statistic(allowed, cells), cells - 1) > 1e-6);
    gpur_device_free(device, there);
}

TEST(random_actions_are_uniform_over_the_allowed_ones)
{
    check_uniform(GPUR_HEAD_Q);
    check_uniform(GPUR_HEAD_QUANTILES);
    check_uniform(GPUR_HEAD_SOFTMAX_VALUE);
}

/* The reference's probabilities, of allowed actions alone; and the most probable one. */
static void check_probabilities_of(const choice *c, int b, double f)
{
    const unsigned char *const mask = c->mask + b * BYTES;
    double p[ACTIONS] = {0}, sum = 0;
    int best = -1, count = 0;
    for (int k = 0; k < ACTIONS; k++)
        if (allows(mask, k)) {
            sum += p[k] = exp((double)c->z[b * Z + k] + (double)c->bias[k]);
            best = best < 0 || p[k] > p[best] ? k : best;
            count++;
        }
    for (int k = 0; k < ACTIONS; k++)
        CHECK_NEAR(c->per_action[b * ACTIONS + k], allows(mask, k) ? (p[k] / sum + f) / (1 + f * count) : 0, 2e-6);
    CHECK(c->action[b] == best || fabs(p[c->action[b]] - p[best]) < 1e-5 * p[best]);
}

TEST(probabilities_are_those_of_the_allowed_actions_among_themselves)
{
    static choice c;
    for (int i = 0; i < 2; i++) {
        make_choice(&c);
        choice *const there = upload_to_device(device, &c, sizeof c);
        CHECK(there);
        const gpur_choice_args args = {.mask = there->mask, .greedy = 1, .floor = i ? 0.1f : 0.0f};
        CHECK_OK(choose(there, GPUR_HEAD_SOFTMAX_VALUE, args));
        CHECK_OK(gpur_device_copy(device, &c, there, sizeof c));
        for (int b = 0; b < B && b < 4000; b++)
            check_probabilities_of(&c, b, (double)args.floor);
        gpur_device_free(device, there);
    }
}

TEST(a_mask_that_allows_everything_changes_no_bit)
{
    static choice free, masked;
    for (int head = GPUR_HEAD_Q; head <= GPUR_HEAD_SOFTMAX_VALUE; head++) {
        make_choice(&free);
        memset(free.mask, 0xff, sizeof free.mask);
        choice *const there = upload_to_device(device, &free, sizeof free);
        CHECK(there);
        gpur_choice_args args = {.seed = 5, .epsilon = 0.2f, .floor = 0.1f};
        CHECK_OK(choose(there, head, args));
        CHECK_OK(gpur_device_copy(device, &free, there, sizeof free));
        args.mask = there->mask;
        CHECK_OK(choose(there, head, args));
        CHECK_OK(gpur_device_copy(device, &masked, there, sizeof masked));
        CHECK(memcmp(&free, &masked, sizeof free) == 0);
        gpur_device_free(device, there);
    }
}

/* Calls of learners and policies. */

enum { ACTS = 1000 };

static void make_masks(int64_t first, unsigned char *masks)
{
    for (int i = 0; i < ACTS; i++)
        masks[i] = (unsigned char)(1 + (first + i) % 7);
}

static void check_allowed(const unsigned char *masks, const int32_t *actions)
{
    for (int i = 0; i < ACTS; i++)
        CHECK(actions[i] >= 0 && actions[i] < FIXTURE_ACTIONS && masks[i] >> actions[i] & 1);
}

TEST(learners_and_policies_choose_allowed_actions_alike)
{
    static float obs[ACTS * FIXTURE_FEATURES], epsilons[ACTS];
    static unsigned char masks[ACTS];
    static int32_t actions[ACTS], theirs[ACTS];
    const gpur_dqn_config config = learner_fixture_config(GPUR_HEAD_DUELING, 1);
    gpur_learner *const learner = learner_fixture_open_learner(&fixture, device, config);
    gpur_policy_config policies = policy_fixture_config(&config, ROWS_PLAIN, 1);
    gpur_policy *policy = NULL;
    CHECK(learner);
    policies.max_batch = ACTS;
    CHECK_OK(gpur_policy_create(device, &policies, &policy));
    CHECK_OK(gpur_policy_pull(policy, learner, GPUR_WEIGHTS_ONLINE));
    random_floats(71, obs, ACTS * FIXTURE_FEATURES);
    for (int i = 0; i < ACTS; i++)
        epsilons[i] = 0.25f;
    const gpur_policy_input in = {.size = sizeof in, .count = ACTS, .obs = obs, .epsilon = epsilons, .mask = masks};
    const gpur_policy_output out = {.size = sizeof out, .actions = theirs};
    for (int round = 0; round < 20; round++) {
        make_masks(round, masks);
        CHECK_OK(gpur_learner_act_masked(learner, ACTS, obs, masks, 0.25f, actions, NULL));
        CHECK_OK(gpur_policy_act(policy, &in, &out));
        check_allowed(masks, actions);
        CHECK(memcmp(actions, theirs, sizeof actions) == 0);
    }
    gpur_policy_destroy(policy);
    learner_fixture_close_learner(&fixture, learner);
}

TEST(a_mask_of_no_action_and_masks_of_vectors_are_refused)
{
    static const float obs[2 * FIXTURE_FEATURES];
    const unsigned char masks[2] = {1, 0xf8};
    int32_t actions[2] = {-7, -7};
    float vectors[2 * FIXTURE_ACTIONS];
    gpur_dqn_config config = learner_fixture_config(GPUR_HEAD_Q, 0);
    gpur_learner *const learner = learner_fixture_open_learner(&fixture, device, config);
    CHECK(learner);
    CHECK_FAILS(gpur_learner_act_masked(learner, 2, obs, masks, 0.0f, actions, NULL), GPUR_INVALID_ARGUMENT,
                "mask[1] allows none of the 3 actions; it must allow one at least");
    CHECK_EQUAL(actions[0], -7);
    config.network.head = GPUR_HEAD_TANH_ACTION;
    gpur_policy *const policy = policy_fixture_open(device, &config, ROWS_PLAIN, 1);
    CHECK(policy);
    const gpur_policy_input in = {.size = sizeof in, .count = 2, .obs = obs, .mask = masks};
    const gpur_policy_output out = {.size = sizeof out, .action_vectors = vectors};
    CHECK_FAILS(gpur_policy_act(policy, &in, &out), GPUR_INVALID_ARGUMENT,
                "mask is given, and actions are vectors; only discrete ones have masks");
    gpur_policy_destroy(policy);
    learner_fixture_close_learner(&fixture, learner);
}

/* Schemas. */

static void check_learner_refused(const gpur_dqn_config *config, const char *message)
{
    gpur_learner *learner = NULL;
    CHECK_FAILS(gpur_dqn_create(fixture.replay, config, &learner), GPUR_INVALID_ARGUMENT, message);
    CHECK(!learner);
}

TEST(learners_refuse_masks_that_they_do_not_read)
{
    gpur_dqn_config config = learner_fixture_config(GPUR_HEAD_Q, 0);
    learner_fixture plain;
    gpur_learner *learner = NULL;
    CHECK_OK(learner_fixture_open_kind(&fixture, device, ROWS_MASKED, 0, NOT_PRIORITIZED));
    config.network.num_actions = 9;
    check_learner_refused(&config, "\"next_action_mask\" is uint8 of 1 bytes; with network.num_actions 9 it must be "
                                   "uint8 of 2");
    config.network.num_actions = FIXTURE_ACTIONS;
    config.step_kernel = GPUR_STEP_FUSED, config.network.trunk_count = 1;
    check_learner_refused(&config, "a replay without action masks");
    config = learner_fixture_config(GPUR_HEAD_Q, 0);
    CHECK_OK(learner_fixture_open(&plain, device, 0));
    config.demonstrations = plain.replay;
    check_learner_refused(&config, "their replay has no field \"next_action_mask\", and the learner's own one");
    config.demonstrations = fixture.replay;
    CHECK_FAILS(gpur_dqn_create(plain.replay, &config, &learner), GPUR_INVALID_ARGUMENT,
                "their replay has a field \"next_action_mask\", and the learner's own none");
    learner_fixture_close(&plain);
    learner_fixture_close(&fixture);
}

/* Transitions of several steps. The observation after step t is t + 1, and its mask too. */

enum { STEPS = 39, LENGTH = 13, N = 3, STACK = 2, ROOM = 64 };
enum { OBS, ACTION, REWARD, NEXT_OBS, MASK, TERMINATED, TRUNCATED, DISCOUNT, FIELDS };

static gpur_replay_config steps_config(gpur_field fields[FIELDS], int32_t n_step, int32_t layout)
{
    const gpur_field obs = {"obs", GPUR_UINT8, {STACK, 2}}, next_obs = {"next_obs", GPUR_UINT8, {STACK, 2}};
    fields[OBS] = obs, fields[NEXT_OBS] = next_obs;
    fields[ACTION] = (gpur_field){"action", GPUR_INT32, {0}};
    fields[REWARD] = (gpur_field){"reward", GPUR_FLOAT32, {0}};
    fields[MASK] = (gpur_field){"next_action_mask", GPUR_UINT8, {2}};
    fields[TERMINATED] = (gpur_field){"terminated", GPUR_BOOL, {0}};
    fields[TRUNCATED] = (gpur_field){"truncated", GPUR_BOOL, {0}};
    fields[DISCOUNT] = (gpur_field){"discount", GPUR_FLOAT32, {0}};
    gpur_replay_config config = replay_fixture_config(fields, FIELDS, ROOM, 8, ROOM);
    config.n_step = n_step, config.layout = layout;
    if (layout == GPUR_LAYOUT_FRAMES)
        config.frame_stack = STACK, config.extra_frames = 64;
    return config;
}

/* The number of an observation is in the newest frame of its stack. */
static void make_obs(int t, int begun, uint8_t obs[STACK * 2])
{
    for (int i = 0; i < STACK; i++) {
        const int frame = t - (STACK - 1 - i) < begun ? begun : t - (STACK - 1 - i);
        obs[2 * i] = (uint8_t)(frame + 1), obs[2 * i + 1] = 7;
    }
}

typedef gpur_status (*take_step)(void *to, const void *const *extras, const int32_t *action, const uint8_t *next_obs,
                                 uint8_t terminated);

static gpur_status run_steps(void *to, gpur_status (*reset)(void *to, const uint8_t *obs), take_step step)
{
    uint8_t obs[STACK * 2];
    for (int t = 0, begun = 0; t < STEPS; t++) {
        const int32_t action = 0;
        const uint8_t mask[2] = {(uint8_t)(t + 2), (uint8_t)(200 - t)};
        const void *const extras[FIELDS] = {[MASK] = mask};
        if (t % LENGTH == 0) {
            begun = t;
            make_obs(t, begun, obs);
            GPUR_TRY(reset(to, obs));
        }
        make_obs(t + 1, begun, obs);
        GPUR_TRY(step(to, extras, &action, obs, t % LENGTH == LENGTH - 1));
    }
    return GPUR_OK;
}

static gpur_status reset_writer(void *to, const uint8_t *obs)
{
    return gpur_writer_reset(to, 0, obs);
}

static gpur_status step_writer(void *to, const void *const *extras, const int32_t *action, const uint8_t *next_obs,
                               uint8_t terminated)
{
    const float reward = 1.0f;
    const gpur_step_input in = {.size = sizeof in,
                                .action = action,
                                .reward = &reward,
                                .next_obs = next_obs,
                                .terminated = &terminated,
                                .extras = extras};
    return gpur_writer_step_ex(to, &in);
}

typedef struct packing {
    gpur_packer *packer;
    gpur_writer *writer;
} packing;

static gpur_status take_blocks(packing *p, int all)
{
    const void *block = NULL;
    int64_t bytes = 0;
    do {
        GPUR_TRY(gpur_packer_take(p->packer, all, &block, &bytes));
        if (block)
            GPUR_TRY(gpur_writer_append_block(p->writer, block, bytes, NULL));
    } while (block);
    return GPUR_OK;
}

static gpur_status reset_packer(void *to, const uint8_t *obs)
{
    packing *const p = to;
    GPUR_TRY(gpur_packer_reset(p->packer, obs));
    return take_blocks(p, 0);
}

static gpur_status step_packer(void *to, const void *const *extras, const int32_t *action, const uint8_t *next_obs,
                               uint8_t terminated)
{
    packing *const p = to;
    const gpur_packer_step_input in = {.size = sizeof in,
                                       .action = action,
                                       .reward = 1.0f,
                                       .terminated = terminated,
                                       .next_obs = next_obs,
                                       .extras = extras};
    GPUR_TRY(gpur_packer_step(p->packer, &in));
    return take_blocks(p, 0);
}

/* The mask of each row is that of its next observation. */
static void check_rows(gpur_replay *replay, int64_t rows)
{
    uint8_t next[ROOM * STACK * 2], mask[ROOM * 2];
    int64_t ids[ROOM];
    gpur_batch *batch = NULL;
    for (int64_t i = 0; i < rows; i++)
        ids[i] = i;
    CHECK_OK(gpur_replay_gather(replay, rows, ids, NULL, &batch));
    CHECK_OK(gpur_batch_read(batch, "next_obs", next, rows * STACK * 2));
    CHECK_OK(gpur_batch_read(batch, "next_action_mask", mask, rows * 2));
    gpur_batch_release(batch);
    for (int64_t i = 0; i < rows; i++) {
        CHECK_EQUAL(mask[2 * i], next[i * STACK * 2 + 2]);
        CHECK_EQUAL(mask[2 * i + 1], 202 - next[i * STACK * 2 + 2]);
    }
}

static void check_steps(int32_t n_step, int32_t layout, int packs)
{
    gpur_field fields[FIELDS];
    const gpur_replay_config config = steps_config(fields, n_step, layout);
    gpur_packer_config packers = {.size = sizeof packers};
    gpur_replay *replay = NULL;
    gpur_writer *writer = NULL;
    gpur_block_format *format = NULL;
    packing p = {NULL, NULL};
    CHECK_OK(gpur_replay_create(device, &config, &replay));
    CHECK_OK(gpur_writer_create(replay, 1, &writer));
    if (packs) {
        CHECK_OK(gpur_block_format_create(&config, &format));
        CHECK_OK(gpur_packer_config_init(&packers, sizeof packers));
        packers.rows = 4;
        CHECK_OK(gpur_packer_create(format, &packers, &p.packer));
        p.writer = writer;
        CHECK_OK(run_steps(&p, reset_packer, step_packer));
        CHECK_OK(take_blocks(&p, 1));
        gpur_packer *judging = NULL;
        packers.num_actions = 11;
        CHECK_FAILS(gpur_packer_create(format, &packers, &judging), GPUR_INVALID_ARGUMENT,
                    "which initial priorities do not regard; it must be 0");
    } else {
        CHECK_OK(run_steps(writer, reset_writer, step_writer));
    }
    CHECK_OK(gpur_writer_flush(writer));
    check_rows(replay, STEPS);
    gpur_packer_destroy(p.packer);
    gpur_block_format_destroy(format);
    gpur_writer_destroy(writer);
    gpur_replay_destroy(replay);
}

TEST(a_transition_has_the_mask_of_its_next_observation)
{
    for (int i = 0; i < 8; i++)
        check_steps(i & 1 ? N : 1, i & 2 ? GPUR_LAYOUT_FRAMES : GPUR_LAYOUT_ROWS, i >> 2);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
    if (gpur_stream_create(device, &stream) != GPUR_OK)
        return 1;
    RUN(no_masked_action_is_ever_chosen);
    RUN(not_even_where_values_are_no_numbers);
    RUN(random_actions_are_uniform_over_the_allowed_ones);
    RUN(probabilities_are_those_of_the_allowed_actions_among_themselves);
    RUN(a_mask_that_allows_everything_changes_no_bit);
    RUN(learners_and_policies_choose_allowed_actions_alike);
    RUN(a_mask_of_no_action_and_masks_of_vectors_are_refused);
    RUN(learners_refuse_masks_that_they_do_not_read);
    RUN(a_transition_has_the_mask_of_its_next_observation);
    gpur_stream_destroy(stream);
    gpur_device_close(device);
    return test_main_end();
}
