/* SPDX-License-Identifier: MIT */
/* Every numeric setting of every public config: NaN, infinite and out-of-range values are refused, and the message
 * states the setting's name, the value given and the values allowed; the ends of the range are accepted. One line per
 * setting. */
#include "support/dpg_fixture.h"
#include "support/learner_fixture.h"
#include "support/policy_fixture.h"
#include "support/replay_fixture.h"
#include "test.h"

#include <float.h>
#include <stddef.h>

/* The struct that a setting belongs to. */
typedef enum owner { DEVICE, REPLAY, WRITER, LEARNER, POLICY, ACTOR_CRITIC, DPG } owner;

/* The allowed values are `min` to `max`, except an end that is open. An integer without a limit of its own has its
 * type's. */
typedef struct range {
    owner owner;
    const char *name; /* as in the error message */
    size_t offset;
    char type; /* 'f' float, 'd' double, 'i' int32_t, 'l' int64_t */
    double min, max;
    int is_open; /* 1: `min` itself is refused, 2: `max` itself is refused */
} range;

#define NO_END 9223372036854775807.0 /* INT64_MAX, or the nearest double */

#define OFFSET_DEVICE(member) offsetof(gpur_device_config, member)
#define OFFSET_REPLAY(member) offsetof(gpur_replay_config, member)
#define OFFSET_WRITER(member) offsetof(gpur_writer_config, member)
#define OFFSET_LEARNER(member) offsetof(gpur_dqn_config, member)
#define OFFSET_POLICY(member) offsetof(gpur_policy_config, member)
#define OFFSET_ACTOR_CRITIC(member) offsetof(gpur_actor_critic_config, member)
#define OFFSET_DPG(member) offsetof(gpur_dpg_config, member)
#define NAMED(owner, name, member) owner, name, OFFSET_##owner(member)
#define OF(owner, member) NAMED(owner, #member, member)
#define SCHEDULE(owner, name, member, max)                                                                             \
    {NAMED(owner, name, member.first), 'f', 0, max, 0}, {NAMED(owner, name, member.last), 'f', 0, max, 0},             \
        {NAMED(owner, name, member.begin), 'l', 0, NO_END, 0}, {NAMED(owner, name, member.steps), 'l', 0, NO_END, 0},  \
        RESERVED(owner, name ".reserved", member.reserved, 1)
/* The first and the last of several reserved numbers. */
#define RESERVED(owner, name, member, last)                                                                            \
    {NAMED(owner, name, member[0]), 'l', 0, 0, 0},                                                                     \
    {                                                                                                                  \
        NAMED(owner, name, member[last]), 'l', 0, 0, 0                                                                 \
    }

static const range ranges[] = {
    {OF(DEVICE, threads), 'i', 0, 1024, 0},
    {OF(DEVICE, executor), 'i', 0, 1, 0},
    {OF(DEVICE, deterministic), 'i', 0, 1, 0},
    {OF(REPLAY, capacity), 'l', 11, 2147483647.0, 0},
    {OF(REPLAY, index_source), 'i', 0, 4, 0},
    {OF(REPLAY, block_rows), 'l', 0, 99, 0},
    {OF(REPLAY, staging_blocks), 'i', 2, 64, 0},
    {OF(REPLAY, upload), 'i', 0, 1, 0},
    {OF(REPLAY, flush), 'i', 0, 1, 0},
    {OF(REPLAY, when_full), 'i', 0, 1, 0},
    {OF(REPLAY, min_size), 'l', 0, 100, 0},
    {OF(REPLAY, max_batch), 'l', 0, 2147483647.0, 0},
    {OF(REPLAY, gamma), 'f', 0, 1, 0},
    {OF(REPLAY, reward_clip), 'f', 0, (double)FLT_MAX, 0},
    {OF(REPLAY, prioritized), 'i', 0, 1, 0},
    {OF(REPLAY, weight_norm), 'i', 0, 2, 0},
    {OF(REPLAY, alpha), 'f', 0, 10, 0},
    {OF(REPLAY, priority_offset), 'f', 0, 4096, 0},
    SCHEDULE(REPLAY, "beta", beta, 10),
    {OF(REPLAY, n_step), 'i', 1, 64, 0},
    {OF(REPLAY, frame_stack), 'i', 1, 16, 0},
    {OF(REPLAY, stack_axis), 'i', 0, 1, 0},
    {OF(REPLAY, stack_pad), 'i', 0, 1, 0},
    {OF(REPLAY, check_finite), 'i', 0, 1, 0},
    {OF(REPLAY, first_priority), 'i', 0, 1, 0},
    {OF(REPLAY, extra_frames), 'l', 0, 4294967295.0, 0},
    {OF(WRITER, num_envs), 'i', 1, 1048576, 0},
    {OF(WRITER, autoreset), 'i', 0, 2, 0},
    {OF(WRITER, observations), 'i', 0, 1, 0},
    {OF(WRITER, link_appends), 'i', 0, 1, 0},
    {NAMED(LEARNER, "kind", network.trunk[0].kind), 'i', 0, 1, 0},
    {NAMED(LEARNER, "units", network.trunk[0].units), 'i', 1, 65536, 0},
    {NAMED(LEARNER, "activation", network.trunk[0].activation), 'i', 0, 2, 0},
    {NAMED(LEARNER, "kernel", network.trunk[0].kernel), 'i', 0, 0, 0},
    {NAMED(LEARNER, "stride", network.trunk[0].stride), 'i', 0, 0, 0},
    {NAMED(LEARNER, "padding", network.trunk[0].padding), 'i', 0, 0, 0},
    {NAMED(LEARNER, "norm", network.trunk[0].norm), 'i', 0, 1, 0},
    {NAMED(LEARNER, "network.trunk[].reserved", network.trunk[0].reserved0), 'i', 0, 0, 0},
    RESERVED(LEARNER, "network.trunk[].reserved", network.trunk[0].reserved, 0),
    {OF(LEARNER, network.trunk_count), 'i', 0, 8, 0},
    {OF(LEARNER, network.head), 'i', 0, 1, 0},
    {OF(LEARNER, network.hidden), 'i', 0, 65536, 0},
    {NAMED(LEARNER, "hidden_activation", network.hidden_activation), 'i', 0, 2, 0},
    {OF(LEARNER, network.num_actions), 'i', 1, 65536, 0},
    {OF(LEARNER, network.init), 'i', 0, 2, 0},
    {OF(LEARNER, network.init_scale), 'f', 0, 1e6, 0},
    {OF(LEARNER, network.input_scale), 'f', (double)-FLT_MAX, (double)FLT_MAX, 0},
    {OF(LEARNER, network.input_shift), 'f', (double)-FLT_MAX, (double)FLT_MAX, 0},
    {OF(LEARNER, network.input_layout), 'i', 0, 2, 0},
    RESERVED(LEARNER, "network.reserved", network.reserved, 1),
    {OF(LEARNER, optimizer.kind), 'i', 0, 5, 0},
    {OF(LEARNER, optimizer.centered), 'i', 0, 1, 0},
    SCHEDULE(LEARNER, "learning_rate", optimizer.learning_rate, (double)FLT_MAX),
    {OF(LEARNER, optimizer.beta1), 'f', 0, 1, 2},
    {OF(LEARNER, optimizer.beta2), 'f', 0, 1, 2},
    {OF(LEARNER, optimizer.decay), 'f', 0, 1, 2},
    {OF(LEARNER, optimizer.momentum), 'f', 0, 1, 2},
    {OF(LEARNER, optimizer.epsilon), 'f', 0, (double)FLT_MAX, 1},
    {OF(LEARNER, optimizer.clip_norm), 'f', 0, (double)FLT_MAX, 0},
    {OF(LEARNER, optimizer.clip_value), 'f', 0, (double)FLT_MAX, 0},
    {OF(LEARNER, optimizer.weight_decay), 'd', 0, (double)FLT_MAX, 0},
    RESERVED(LEARNER, "optimizer.reserved", optimizer.reserved, 2),
    {OF(LEARNER, double_dqn), 'i', 0, 1, 0},
    {OF(LEARNER, loss), 'i', 0, 1, 0},
    {OF(LEARNER, huber_delta), 'f', 0, (double)FLT_MAX, 1},
    {OF(LEARNER, index_source), 'i', 0, 4, 0},
    {OF(LEARNER, batch_size), 'l', 1, 256, 0},
    {OF(LEARNER, target_period), 'l', 1, NO_END, 0},
    {OF(LEARNER, target_copy_first), 'i', 0, 1, 0},
    {OF(LEARNER, target_rate), 'f', 0, 1, 1},
    {OF(LEARNER, act), 'i', 0, 2, 0},
    {OF(LEARNER, math), 'i', 0, 3, 0},
    SCHEDULE(LEARNER, "exploration", exploration, 1),
    {OF(LEARNER, host_batches), 'i', 0, 16, 0},
    SCHEDULE(LEARNER, "beta", beta, 10),
    {OF(LEARNER, step_kernel), 'i', 0, 2, 0},
    {OF(POLICY, network.trunk_count), 'i', 0, 8, 0},
    {OF(POLICY, network.head), 'i', 0, 6, 0},
    {OF(POLICY, network.input_scale), 'f', (double)-FLT_MAX, (double)FLT_MAX, 0},
    {OF(POLICY, network.input_shift), 'f', (double)-FLT_MAX, (double)FLT_MAX, 0},
    RESERVED(POLICY, "network.reserved", network.reserved, 1),
    {OF(POLICY, max_batch), 'i', 1, 1048576, 0},
    {OF(POLICY, streams), 'i', 1, 64, 0},
    {OF(POLICY, math), 'i', 0, 3, 0},
    {OF(POLICY, policy_floor), 'f', 0, 1, 2},
    {OF(ACTOR_CRITIC, network.head), 'i', 2, 2, 0},
    {OF(ACTOR_CRITIC, optimizer.epsilon), 'f', 0, (double)FLT_MAX, 1},
    {OF(ACTOR_CRITIC, dual_optimizer), 'i', 0, 1, 0},
    {OF(ACTOR_CRITIC, log), 'i', 0, 2, 0},
    {OF(ACTOR_CRITIC, log_epsilon), 'f', 0, 1, 1},
    {OF(ACTOR_CRITIC, policy_floor), 'f', 0, 1, 2},
    {OF(ACTOR_CRITIC, value_coefficient), 'f', 0, (double)FLT_MAX, 0},
    SCHEDULE(ACTOR_CRITIC, "entropy", entropy, 1e6),
    {OF(ACTOR_CRITIC, max_batch), 'i', 1, 65536, 0},
    {OF(ACTOR_CRITIC, math), 'i', 0, 3, 0},
    {OF(ACTOR_CRITIC, check_finite), 'i', 0, 1, 0},
    {NAMED(DPG, "actor: network.head", actor.head), 'i', 3, 3, 0},
    {NAMED(DPG, "num_actions", actor.num_actions), 'i', 3, 3, 0},
    {NAMED(DPG, "actor: network.hidden", actor.hidden), 'i', 0, 65536, 0},
    {NAMED(DPG, "actor: network.input_scale", actor.input_scale), 'f', 1, 1, 0},
    {NAMED(DPG, "actor: network.input_shift", actor.input_shift), 'f', 0, 0, 0},
    {NAMED(DPG, "critic: network.head", critic.head), 'i', 0, 0, 0},
    {NAMED(DPG, "critic: network.num_actions", critic.num_actions), 'i', 1, 1, 0},
    {NAMED(DPG, "critic: network.trunk_count", critic.trunk_count), 'i', 0, 8, 0},
    {NAMED(DPG, "critic: network.input_scale", critic.input_scale), 'f', 1, 1, 0},
    {NAMED(DPG, "critic: network.input_shift", critic.input_shift), 'f', 0, 0, 0},
    {NAMED(DPG, "actor_optimizer: optimizer.kind", actor_optimizer.kind), 'i', 0, 5, 0},
    {NAMED(DPG, "actor_optimizer: optimizer.epsilon", actor_optimizer.epsilon), 'f', 0, (double)FLT_MAX, 1},
    {NAMED(DPG, "critic_optimizer: optimizer.kind", critic_optimizer.kind), 'i', 0, 5, 0},
    {NAMED(DPG, "critic_optimizer: optimizer.beta1", critic_optimizer.beta1), 'f', 0, 1, 2},
    {OF(DPG, action_gradient_clip), 'f', 0, (double)FLT_MAX, 0},
    {OF(DPG, index_source), 'i', 0, 4, 0},
    SCHEDULE(DPG, "beta", beta, 10),
    {OF(DPG, batch_size), 'l', 1, 200, 0},
    {OF(DPG, target_period), 'l', 1, NO_END, 0},
    {OF(DPG, target_rate), 'f', 0, 1, 1},
    {OF(DPG, critics), 'i', 1, 2, 0},
    {OF(DPG, policy_delay), 'i', 1, 64, 0},
    {OF(DPG, target_noise), 'f', 0, (double)FLT_MAX, 0},
    {OF(DPG, target_noise_clip), 'f', 0, (double)FLT_MAX, 0},
    {OF(DPG, math), 'i', 0, 3, 0},
    {OF(DPG, preactivation_penalty), 'f', 0, (double)FLT_MAX, 0},
};
enum { RANGES = sizeof ranges / sizeof *ranges };

static gpur_device *device;
static learner_fixture fixture;
static replay_fixture replay_of_writers;
static dpg_fixture replay_of_dpg;

/* `good` is accepted; each case sets its setting in the copy `given`. */
static union {
    gpur_device_config device;
    gpur_replay_config replay;
    gpur_writer_config writer;
    gpur_dqn_config learner;
    gpur_policy_config policy;
    gpur_actor_critic_config actor_critic;
    gpur_dpg_config dpg;
} good, given;

static gpur_status use(owner o)
{
    gpur_replay_plan plan = {.size = sizeof plan};
    gpur_device *opened = NULL;
    gpur_writer *writer = NULL;
    gpur_learner *learner = NULL;
    gpur_policy *policy = NULL;
    gpur_learner *actor_critic = NULL;
    gpur_learner *dpg = NULL;
    gpur_status status = GPUR_OK;
    if (o == DEVICE)
        status = gpur_device_open("cpu", &given.device, &opened);
    else if (o == REPLAY)
        status = gpur_replay_plan_bytes(&given.replay, &plan);
    else if (o == WRITER)
        status = gpur_writer_open(replay_of_writers.replay, &given.writer, &writer);
    else if (o == LEARNER)
        status = gpur_dqn_create(fixture.replay, &given.learner, &learner);
    else if (o == POLICY)
        status = gpur_policy_create(device, &given.policy, &policy);
    else if (o == ACTOR_CRITIC)
        status = gpur_actor_critic_create(device, &given.actor_critic, &actor_critic);
    else
        status = gpur_dpg_create(replay_of_dpg.replay, &given.dpg, &dpg);
    gpur_learner_destroy(dpg);
    gpur_learner_destroy(actor_critic);
    gpur_device_close(opened);
    gpur_writer_destroy(writer);
    gpur_learner_destroy(learner);
    gpur_policy_destroy(policy);
    return status;
}

static int is_real(const range *r)
{
    return r->type == 'f' || r->type == 'd';
}

/* Copies `good` and sets one setting: to `value` if it is a real number, else to `integer`. */
static void put(const range *r, double value, int64_t integer)
{
    const float f = (float)value;
    const int32_t i = (int32_t)integer;
    given = good;
    memcpy((unsigned char *)&given + r->offset,
           r->type == 'f'   ? (const void *)&f
           : r->type == 'd' ? (const void *)&value
           : r->type == 'i' ? (const void *)&i
                            : (const void *)&integer,
           r->type == 'l' || r->type == 'd' ? 8 : 4);
}

static void check_refused(const range *r, double value, int64_t integer)
{
    char wanted[64];
    put(r, value, integer);
    if (is_real(r))
        snprintf(wanted, sizeof wanted, "%g", (double)(float)value);
    else
        snprintf(wanted, sizeof wanted, "%lld", (long long)integer);
    const gpur_status status = use(r->owner);
    TEST_REQUIRE(status == GPUR_INVALID_ARGUMENT && strstr(gpur_last_error(), r->name) &&
                     strstr(gpur_last_error(), wanted),
                 "%s = %s: status %s, \"%s\"", r->name, wanted, gpur_status_name(status), gpur_last_error());
}

static void check_float(const range *r)
{
    const float min = (float)r->min, max = (float)r->max;
    const double outside[] = {(double)NAN,
                              (double)INFINITY,
                              (double)-INFINITY,
                              (double)(r->is_open == 1 ? min : nextafterf(min, -INFINITY)),
                              (double)(r->is_open == 2 ? max : nextafterf(max, INFINITY)),
                              max < 1e30f ? 3e38 : (double)NAN};
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++)
        check_refused(r, outside[i], 0);
}

static void check_integer(const range *r)
{
    const int64_t lowest = r->type == 'i' ? INT32_MIN : INT64_MIN, highest = r->type == 'i' ? INT32_MAX : INT64_MAX;
    check_refused(r, 0, lowest);
    check_refused(r, 0, (int64_t)r->min - 1);
    if (r->max < NO_END) {
        check_refused(r, 0, (int64_t)r->max + 1);
        check_refused(r, 0, highest);
    }
}

static void check_all(owner o)
{
    given = good;
    CHECK_OK(use(o));
    for (int i = 0; i < RANGES; i++)
        if (ranges[i].owner == o)
            (is_real(&ranges[i]) ? check_float : check_integer)(&ranges[i]);
}

/* Both ends of each range, as far as a replay can be planned with them. */
static void check_ends_of_replay(void)
{
    for (const range *r = ranges; r < ranges + RANGES; r++) {
        if (r->owner != REPLAY)
            continue;
        put(r, r->min, (int64_t)r->min);
        const int is_off = given.replay.prioritized == 0; /* alpha and others are refused then */
        CHECK_OK(is_off ? GPUR_OK : use(REPLAY));
        put(r, r->max, r->max < NO_END ? (int64_t)r->max : 1000);
        CHECK_OK(use(REPLAY));
    }
}

TEST(settings_of_a_device_out_of_range_are_refused)
{
    memset(&good, 0, sizeof good);
    CHECK_OK(gpur_device_config_init(&good.device, sizeof good.device));
    check_all(DEVICE);
}

static const gpur_field fields[] = {
    {"obs", GPUR_FLOAT32, {0}},
    {"next_obs", GPUR_FLOAT32, {0}},
    {"reward", GPUR_FLOAT32, {0}},
    {"discount", GPUR_FLOAT32, {0}},
};

TEST(settings_of_a_replay_and_its_writers_out_of_range_are_refused_and_the_ends_of_the_ranges_are_accepted)
{
    const gpur_replay_config config = replay_fixture_config(fields, 4, 100, 10, 50);
    memset(&good, 0, sizeof good);
    good.replay = config;
    good.replay.prioritized = 1;
    check_all(REPLAY);
    check_ends_of_replay();

    CHECK(replay_fixture_open(&replay_of_writers, test_device(), &config, 1));
    memset(&good, 0, sizeof good);
    CHECK_OK(gpur_writer_config_init(&good.writer, sizeof good.writer));
    check_all(WRITER);
    replay_fixture_close(&replay_of_writers);
}

TEST(settings_of_a_learner_out_of_range_are_refused)
{
    CHECK_OK(learner_fixture_open(&fixture, device, 0));
    memset(&good, 0, sizeof good);
    good.learner = learner_fixture_config(GPUR_HEAD_DUELING, 1);
    check_all(LEARNER);
    learner_fixture_close(&fixture);
}

TEST(settings_of_a_policy_out_of_range_are_refused)
{
    const gpur_dqn_config learner = learner_fixture_config(GPUR_HEAD_DUELING, 1);
    memset(&good, 0, sizeof good);
    good.policy = policy_fixture_config(&learner, ROWS_PLAIN, 1);
    check_all(POLICY);
}

TEST(settings_of_an_actor_critic_out_of_range_are_refused)
{
    memset(&good, 0, sizeof good);
    CHECK_OK(gpur_actor_critic_config_init(&good.actor_critic, sizeof good.actor_critic));
    good.actor_critic.network.num_actions = 3;
    good.actor_critic.obs = (gpur_field){"obs", GPUR_FLOAT32, {5}};
    check_all(ACTOR_CRITIC);
}

TEST(settings_of_deterministic_policy_gradients_out_of_range_are_refused)
{
    CHECK_OK(dpg_fixture_open(&replay_of_dpg, device, 0));
    memset(&good, 0, sizeof good);
    good.dpg = dpg_fixture_config();
    check_all(DPG);
    dpg_fixture_close(&replay_of_dpg);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
    RUN(settings_of_a_device_out_of_range_are_refused);
    RUN(settings_of_a_replay_and_its_writers_out_of_range_are_refused_and_the_ends_of_the_ranges_are_accepted);
    RUN(settings_of_a_learner_out_of_range_are_refused);
    RUN(settings_of_a_policy_out_of_range_are_refused);
    RUN(settings_of_an_actor_critic_out_of_range_are_refused);
    RUN(settings_of_deterministic_policy_gradients_out_of_range_are_refused);
    gpur_device_close(device);
    return test_main_end();
}
