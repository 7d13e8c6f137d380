/* SPDX-License-Identifier: MIT */
/* Every numeric setting of every public config: NaN, infinite and out-of-range values are refused, and the message
 * states the setting's name, the value given and the values allowed; the ends of the range are accepted. One line per
 * setting. */
#include "support/learner_fixture.h"
#include "support/replay_kit.h"
#include "test.h"

#include <float.h>
#include <stddef.h>

/* The struct that a setting belongs to. */
typedef enum owner { DEVICE, REPLAY, WRITER, LEARNER } owner;

/* The allowed values are `least` to `most`, except an end that is open. An integer without a limit of its own has its
 * type's. */
typedef struct range {
    const char *name; /* as in the error message */
    size_t offset;
    char type; /* 'f' float, 'i' int32_t, 'l' int64_t */
    double least, most;
    int is_open; /* 1: `least` itself is refused, 2: `most` itself is refused */
} range;

static const double no_end = 9223372036854775807.0; /* INT64_MAX, or the nearest double */

#define IN(struct_name, member) #member, offsetof(struct_name, member)
#define OF_DEVICE(member) IN(gpur_device_config, member)
#define OF_REPLAY(member) IN(gpur_replay_config, member)
#define OF_WRITER(member) IN(gpur_writer_config, member)
#define OF_LEARNER(member) IN(gpur_learner_config, member)
#define NAMED(text, struct_name, member) text, offsetof(struct_name, member)

static const range of_device[] = {
    {OF_DEVICE(threads), 'i', 0, 1024, 0},
    {OF_DEVICE(executor), 'i', 0, 1, 0},
};

static const range of_replay[] = {
    {OF_REPLAY(capacity), 'l', 60, 2147483647.0, 0},
    {OF_REPLAY(index_source), 'i', 0, 4, 0},
    {OF_REPLAY(update_size), 'l', 0, 50, 0},
    {OF_REPLAY(staging_blocks), 'i', 2, 64, 0},
    {OF_REPLAY(feed), 'i', 0, 1, 0},
    {OF_REPLAY(flush), 'i', 0, 1, 0},
    {OF_REPLAY(when_full), 'i', 0, 1, 0},
    {OF_REPLAY(min_size), 'l', 0, 100, 0},
    {OF_REPLAY(max_batch), 'l', 0, 90, 0},
    {OF_REPLAY(gamma), 'f', 0, 1, 0},
    {OF_REPLAY(reward_clip), 'f', 0, (double)FLT_MAX, 0},
    {OF_REPLAY(prioritized), 'i', 0, 1, 0},
    {OF_REPLAY(weight_norm), 'i', 0, 2, 0},
    {OF_REPLAY(alpha), 'f', 0, 10, 0},
    {OF_REPLAY(priority_offset), 'f', 0, 4096, 0},
    {NAMED("beta", gpur_replay_config, beta.first), 'f', 0, 10, 0},
    {NAMED("beta", gpur_replay_config, beta.last), 'f', 0, 10, 0},
    {NAMED("beta", gpur_replay_config, beta.begin), 'l', 0, no_end, 0},
    {NAMED("beta", gpur_replay_config, beta.steps), 'l', 0, no_end, 0},
    {NAMED("beta.reserved", gpur_replay_config, beta.reserved[0]), 'l', 0, 0, 0},
    {NAMED("beta.reserved", gpur_replay_config, beta.reserved[1]), 'l', 0, 0, 0},
    {OF_REPLAY(n_step), 'i', 1, 64, 0},
    {OF_REPLAY(layout), 'i', 0, 1, 0},
    {OF_REPLAY(frame_stack), 'i', 1, 16, 0},
    {OF_REPLAY(stack_axis), 'i', 0, 1, 0},
    {OF_REPLAY(stack_pad), 'i', 0, 1, 0},
    {OF_REPLAY(reserved), 'i', 0, 0, 0},
    {OF_REPLAY(frame_slack), 'l', 0, 4294967295.0, 0},
};

static const range of_writer[] = {
    {OF_WRITER(num_envs), 'i', 1, 1048576, 0},
    {OF_WRITER(autoreset), 'i', 0, 2, 0},
    {OF_WRITER(input), 'i', 0, 1, 0},
    {OF_WRITER(reserved), 'i', 0, 0, 0},
};

static const range of_learner[] = {
    {NAMED("kind", gpur_learner_config, network.trunk[0].kind), 'i', 0, 1, 0},
    {NAMED("units", gpur_learner_config, network.trunk[0].units), 'i', 1, 65536, 0},
    {NAMED("activation", gpur_learner_config, network.trunk[0].activation), 'i', 0, 2, 0},
    {NAMED("kernel", gpur_learner_config, network.trunk[0].kernel), 'i', 0, 0, 0},
    {NAMED("stride", gpur_learner_config, network.trunk[0].stride), 'i', 0, 0, 0},
    {NAMED("padding", gpur_learner_config, network.trunk[0].padding), 'i', 0, 0, 0},
    {NAMED("network.trunk[].reserved", gpur_learner_config, network.trunk[0].reserved[0]), 'l', 0, 0, 0},
    {NAMED("network.trunk[].reserved", gpur_learner_config, network.trunk[0].reserved[1]), 'l', 0, 0, 0},
    {OF_LEARNER(network.trunk_count), 'i', 0, 8, 0},
    {OF_LEARNER(network.head), 'i', 0, 1, 0},
    {OF_LEARNER(network.hidden), 'i', 0, 65536, 0},
    {NAMED("hidden_activation", gpur_learner_config, network.hidden_activation), 'i', 0, 2, 0},
    {OF_LEARNER(network.outputs), 'i', 1, 65536, 0},
    {OF_LEARNER(network.init), 'i', 0, 2, 0},
    {OF_LEARNER(network.init_scale), 'f', 0, 1e6, 0},
    {OF_LEARNER(network.input_scale), 'f', (double)-FLT_MAX, (double)FLT_MAX, 0},
    {OF_LEARNER(network.input_layout), 'i', 0, 1, 0},
    {NAMED("network.reserved", gpur_learner_config, network.reserved[0]), 'l', 0, 0, 0},
    {NAMED("network.reserved", gpur_learner_config, network.reserved[3]), 'l', 0, 0, 0},
    {OF_LEARNER(optimizer.kind), 'i', 0, 4, 0},
    {OF_LEARNER(optimizer.centered), 'i', 0, 1, 0},
    {NAMED("optimizer.learning_rate", gpur_learner_config, optimizer.learning_rate.first), 'f', 0, (double)FLT_MAX, 0},
    {NAMED("optimizer.learning_rate", gpur_learner_config, optimizer.learning_rate.last), 'f', 0, (double)FLT_MAX, 0},
    {NAMED("optimizer.learning_rate", gpur_learner_config, optimizer.learning_rate.begin), 'l', 0, no_end, 0},
    {NAMED("optimizer.learning_rate", gpur_learner_config, optimizer.learning_rate.steps), 'l', 0, no_end, 0},
    {NAMED("learning_rate.reserved", gpur_learner_config, optimizer.learning_rate.reserved[1]), 'l', 0, 0, 0},
    {OF_LEARNER(optimizer.beta1), 'f', 0, 1, 2},
    {OF_LEARNER(optimizer.beta2), 'f', 0, 1, 2},
    {OF_LEARNER(optimizer.decay), 'f', 0, 1, 2},
    {OF_LEARNER(optimizer.momentum), 'f', 0, 1, 2},
    {OF_LEARNER(optimizer.epsilon), 'f', 0, (double)FLT_MAX, 1},
    {OF_LEARNER(optimizer.clip_norm), 'f', 0, (double)FLT_MAX, 0},
    {OF_LEARNER(optimizer.clip_value), 'f', 0, (double)FLT_MAX, 0},
    {NAMED("optimizer.reserved", gpur_learner_config, optimizer.reserved[0]), 'l', 0, 0, 0},
    {NAMED("optimizer.reserved", gpur_learner_config, optimizer.reserved[3]), 'l', 0, 0, 0},
    {OF_LEARNER(double_dqn), 'i', 0, 1, 0},
    {OF_LEARNER(loss), 'i', 0, 1, 0},
    {OF_LEARNER(huber_delta), 'f', 0, (double)FLT_MAX, 1},
    {OF_LEARNER(index_source), 'i', 0, 4, 0},
    {OF_LEARNER(batch_size), 'l', 1, 256, 0},
    {OF_LEARNER(target_period), 'l', 1, no_end, 0},
    {OF_LEARNER(target_copy_first), 'i', 0, 1, 0},
    {OF_LEARNER(act), 'i', 0, 2, 0},
    {OF_LEARNER(max_act_batch), 'i', 1, 1048576, 0},
    {OF_LEARNER(math), 'i', 0, 2, 0},
    {OF_LEARNER(unroll), 'i', 1, 64, 0},
    {NAMED("exploration", gpur_learner_config, exploration.first), 'f', 0, 1, 0},
    {NAMED("exploration", gpur_learner_config, exploration.last), 'f', 0, 1, 0},
    {NAMED("exploration", gpur_learner_config, exploration.begin), 'l', 0, no_end, 0},
    {NAMED("exploration", gpur_learner_config, exploration.steps), 'l', 0, no_end, 0},
    {NAMED("exploration.reserved", gpur_learner_config, exploration.reserved[0]), 'l', 0, 0, 0},
    {OF_LEARNER(host_batches), 'i', 0, 16, 0},
    {OF_LEARNER(deterministic), 'i', 0, 1, 0},
    {NAMED("beta", gpur_learner_config, beta.first), 'f', 0, 10, 0},
    {NAMED("beta", gpur_learner_config, beta.last), 'f', 0, 10, 0},
    {NAMED("beta", gpur_learner_config, beta.begin), 'l', 0, no_end, 0},
    {NAMED("beta", gpur_learner_config, beta.steps), 'l', 0, no_end, 0},
    {NAMED("beta.reserved", gpur_learner_config, beta.reserved[1]), 'l', 0, 0, 0},
    {OF_LEARNER(step_kernel), 'i', 0, 2, 0},
};

static gpur_device *device;
static learn_world world;
static kit_scene scene;

/* `good` is accepted; each case sets its setting in the copy `given`. */
static union {
    gpur_device_config device;
    gpur_replay_config replay;
    gpur_writer_config writer;
    gpur_learner_config learner;
} good, given;

static gpur_status use(owner o)
{
    gpur_replay_plan plan = {.size = sizeof plan};
    gpur_device *opened = NULL;
    gpur_writer *writer = NULL;
    gpur_learner *learner = NULL;
    gpur_status status = GPUR_OK;
    if (o == DEVICE)
        status = gpur_device_open("cpu", &given.device, &opened);
    else if (o == REPLAY)
        status = gpur_replay_plan_bytes(&given.replay, &plan);
    else if (o == WRITER)
        status = gpur_writer_open(scene.replay, &given.writer, &writer);
    else
        status = gpur_learner_create(world.replay, &given.learner, &learner);
    gpur_device_close(opened);
    gpur_writer_destroy(writer);
    gpur_learner_destroy(learner);
    return status;
}

static void put(const range *r, double value, int64_t whole)
{
    const float f = (float)value;
    const int32_t i = (int32_t)whole;
    given = good;
    unsigned char *const at = (unsigned char *)&given + r->offset;
    if (r->type == 'f')
        memcpy(at, &f, sizeof f);
    else if (r->type == 'i')
        memcpy(at, &i, sizeof i);
    else
        memcpy(at, &whole, sizeof whole);
}

static void check_refused(owner o, const range *r, double value, int64_t whole)
{
    char wanted[64];
    put(r, value, whole);
    if (r->type == 'f')
        snprintf(wanted, sizeof wanted, "%g", (double)(float)value);
    else
        snprintf(wanted, sizeof wanted, "%lld", (long long)whole);
    const gpur_status status = use(o);
    if (status != GPUR_INVALID_ARGUMENT || !strstr(gpur_last_error(), r->name) || !strstr(gpur_last_error(), wanted))
        fprintf(stderr, "%s = %s: status %d, \"%s\"\n", r->name, wanted, (int)status, gpur_last_error());
    CHECK_STATUS(status, GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE(r->name);
    CHECK_MESSAGE(wanted);
}

static void check_float(owner o, const range *r)
{
    const float least = (float)r->least, most = (float)r->most;
    check_refused(o, r, (double)NAN, 0);
    check_refused(o, r, (double)INFINITY, 0);
    check_refused(o, r, (double)-INFINITY, 0);
    if (least > -FLT_MAX)
        check_refused(o, r, (double)(r->is_open == 1 ? least : nextafterf(least, -INFINITY)), 0);
    if (most < FLT_MAX)
        check_refused(o, r, (double)(r->is_open == 2 ? most : nextafterf(most, INFINITY)), 0);
    if (most < 1e30f)
        check_refused(o, r, 3e38, 0);
}

static void check_integer(owner o, const range *r)
{
    const int64_t lowest = r->type == 'i' ? INT32_MIN : INT64_MIN, highest = r->type == 'i' ? INT32_MAX : INT64_MAX;
    check_refused(o, r, 0, lowest);
    check_refused(o, r, 0, (int64_t)r->least - 1);
    if (r->most < no_end) {
        check_refused(o, r, 0, (int64_t)r->most + 1);
        check_refused(o, r, 0, highest);
    }
}

static void check_all(owner o, const range *ranges, size_t count)
{
    given = good;
    CHECK_OK(use(o));
    for (size_t i = 0; i < count; i++)
        (ranges[i].type == 'f' ? check_float : check_integer)(o, &ranges[i]);
}
#define CHECK_ALL(owner, ranges) check_all(owner, ranges, sizeof ranges / sizeof *ranges)

TEST(settings_of_a_device_out_of_range_are_refused)
{
    memset(&good, 0, sizeof good);
    CHECK_OK(gpur_device_config_init(&good.device, sizeof good.device));
    CHECK_ALL(DEVICE, of_device);
}

static const gpur_field fields[] = {
    {"obs", GPUR_FLOAT32, {0}},
    {"next_obs", GPUR_FLOAT32, {0}},
    {"reward", GPUR_FLOAT32, {0}},
    {"discount", GPUR_FLOAT32, {0}},
};

TEST(settings_of_a_replay_out_of_range_are_refused)
{
    memset(&good, 0, sizeof good);
    good.replay = kit_config(fields, 4, 100, 10, 50);
    good.replay.prioritized = 1;
    CHECK_ALL(REPLAY, of_replay);
}

TEST(settings_of_a_writer_out_of_range_are_refused)
{
    const gpur_replay_config config = kit_config(fields, 4, 100, 10, 50);
    CHECK(kit_open(&scene, test_device(), &config, 1));
    memset(&good, 0, sizeof good);
    CHECK_OK(gpur_writer_config_init(&good.writer, sizeof good.writer));
    CHECK_ALL(WRITER, of_writer);
    kit_close(&scene);
}

TEST(settings_of_a_learner_out_of_range_are_refused)
{
    CHECK_OK(world_open(&world, device, 0));
    memset(&good, 0, sizeof good);
    good.learner = world_config(GPUR_HEAD_DUELING, 1);
    CHECK_ALL(LEARNER, of_learner);
    world_close(&world);
}

/* Both ends of each range, as far as a replay can be planned with them. */
TEST(the_ends_of_the_ranges_of_a_replay_are_accepted)
{
    memset(&good, 0, sizeof good);
    good.replay = kit_config(fields, 4, 100, 10, 50);
    good.replay.prioritized = 1;
    for (size_t i = 0; i < sizeof of_replay / sizeof *of_replay; i++) {
        const range *const r = &of_replay[i];
        put(r, r->least, (int64_t)r->least);
        const int is_off = given.replay.prioritized == 0; /* alpha and others are refused then */
        CHECK_OK(is_off ? GPUR_OK : use(REPLAY));
        put(r, r->most, r->most < no_end ? (int64_t)r->most : 1000);
        CHECK_OK(use(REPLAY));
    }
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
    RUN(settings_of_a_device_out_of_range_are_refused);
    RUN(settings_of_a_replay_out_of_range_are_refused);
    RUN(settings_of_a_writer_out_of_range_are_refused);
    RUN(settings_of_a_learner_out_of_range_are_refused);
    RUN(the_ends_of_the_ranges_of_a_replay_are_accepted);
    gpur_device_close(device);
    return test_main_end();
}
