/* SPDX-License-Identifier: MIT */
/* What a prioritized replay refuses, and what it takes. */
#include "support/replay_kit.h"
#include "test.h"

enum { CAPACITY = 300, UPDATE = 20, BATCH = 64 };

static const gpur_field plain[] = {{"a", GPUR_FLOAT32, {5}}, {"terminated", GPUR_BOOL, {0}}};

static gpur_replay_config config_of(const gpur_field *fields, int32_t count)
{
    gpur_replay_config config = kit_config(fields, count, CAPACITY, UPDATE, BATCH);
    config.prioritized = 1;
    config.index_source = GPUR_PRIORITIZED;
    return config;
}

static int64_t updates_of(gpur_replay *replay)
{
    gpur_priority_stats stats = {.size = sizeof stats};
    return gpur_replay_get_priority_stats(replay, &stats) == GPUR_OK ? stats.updates : -1;
}

static void refuse(const gpur_replay_config *config, const char *message)
{
    gpur_device *const device = test_device();
    gpur_replay *replay = NULL;
    CHECK_STATUS(gpur_replay_create(device, config, &replay), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE(message);
    gpur_device_close(device);
}

TEST(bad_settings_are_refused)
{
    static const gpur_field wide[] = {{"priority", GPUR_FLOAT32, {2}}, {"a", GPUR_UINT8, {0}}};
    const gpur_replay_config good = config_of(plain, 2);
    gpur_replay_config c = good;
    c.prioritized = 2, refuse(&c, "prioritized is 2"), c = good;
    c.prioritized = 0, refuse(&c, "index_source is 3, by priority, and prioritized is 0; set prioritized"), c = good;
    c.index_source = -1, refuse(&c, "index_source is -1"), c = good;
    c.index_source = 5, refuse(&c, "index_source is 5"), c = good;
    c.weight_norm = 3, refuse(&c, "weight_norm is 3"), c = good;
    c.alpha = -0.5f, refuse(&c, "alpha is -0.5"), c = good;
    c.alpha = NAN, refuse(&c, "alpha is nan; it must be 0 to 10"), c = good;
    c.alpha = INFINITY, refuse(&c, "alpha is inf; it must be 0 to 10"), c = good;
    c.priority_offset = -1.0f, refuse(&c, "priority_offset is -1"), c = good;
    c.priority_offset = INFINITY, refuse(&c, "priority_offset is inf; it must be 0 to 4096"), c = good;
    c.beta.last = -1.0f, refuse(&c, "beta goes from 0.4 to -1"), c = good;
    c.beta.first = NAN, refuse(&c, "beta goes from nan to 0.4"), c = good;
    c.beta.first = NAN, refuse(&c, "it must stay within 0 to 10, and begin and steps must be 0 or more"), c = good;
    c.beta.steps = -1, refuse(&c, "over -1 steps"), c = good;
    c.capacity = (int64_t)1 << 31, refuse(&c, "at most 2147483647"), c = good;
    c.fields = wide, refuse(&c, "\"priority\" is float32 of 8 bytes");
}

TEST(settings_of_priorities_are_refused_without_priorities)
{
    const gpur_replay_config good = kit_config(plain, 2, CAPACITY, UPDATE, BATCH);
    gpur_replay_config c = good;
    gpur_replay_plan plan = {.size = sizeof plan};
    c.weight_norm = 2, refuse(&c, "weight_norm is 2 and prioritized 0; without priorities it must be 0"), c = good;
    c.alpha = 0.5f, refuse(&c, "alpha is 0.5 and prioritized 0; without priorities it must be 0.6"), c = good;
    c.priority_offset = 0.5f, refuse(&c, "priority_offset is 0.5 and prioritized 0"), c = good;
    c.beta.last = 1.0f, refuse(&c, "beta goes from 0.4 to 1 and prioritized is 0; without"), c = good;
    CHECK_OK(gpur_replay_config_preset(&c, "apex-dqn"));
    c.layout = GPUR_PACKED, c.n_step = 1, c.prioritized = 0, c.index_source = GPUR_UNIFORM, c.reward_clip = 0;
    CHECK_OK(gpur_replay_plan_bytes(&c, &plan));
}

TEST(bad_calls_are_refused_and_change_nothing)
{
    gpur_replay_config config = config_of(plain, 2);
    kit_scene s, other;
    int64_t id = 0, wrong = 0;
    float p = 3.0f;
    gpur_priority_stats stats = {.size = 0};
    CHECK(kit_open(&s, test_device(), &config, 1));
    CHECK_STATUS(gpur_replay_get_priorities(s.replay, 1, &id, &p), GPUR_TOO_FEW);
    CHECK_OK(kit_append_next(&s, 10));
    CHECK_STATUS(gpur_replay_update_priorities(NULL, 1, &id, &p, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(gpur_replay_update_priorities(s.replay, -1, &id, &p, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(gpur_replay_update_priorities(s.replay, BATCH + 1, &id, &p, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("count is 65; it must be 0 to max_batch = 64");
    CHECK_STATUS(gpur_replay_update_priorities(s.replay, 1, NULL, &p, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(gpur_replay_update_priorities(s.replay, 1, &id, NULL, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(gpur_replay_get_priorities(s.replay, 0, &id, &p), GPUR_INVALID_ARGUMENT);
    id = 10;
    CHECK_STATUS(gpur_replay_get_priorities(s.replay, 1, &id, &p), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("ids[0] is 10; the visible transitions are 0 to 9");
    CHECK_STATUS(gpur_replay_set_alpha(s.replay, -1.0f), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(gpur_replay_set_beta(s.replay, NAN), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(gpur_replay_check_priorities(s.replay, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(gpur_replay_get_priority_stats(s.replay, &stats), GPUR_INVALID_ARGUMENT);
    if (!test_on_cuda())
        CHECK_STATUS(gpur_replay_update_priorities(s.replay, 1, &id, &p, &id), GPUR_INVALID_ARGUMENT);
    CHECK_EQUAL(updates_of(s.replay), 0);
    kit_close(&s);
    config.prioritized = 0, config.index_source = GPUR_UNIFORM;
    CHECK(kit_open(&other, test_device(), &config, 1));
    CHECK_STATUS(gpur_replay_update_priorities(other.replay, 1, &id, &p, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("the replay has no priorities");
    CHECK_STATUS(gpur_replay_check_priorities(other.replay, &wrong), GPUR_INVALID_ARGUMENT);
    kit_close(&other);
}

TEST(the_plan_tells_what_priorities_take)
{
    gpur_replay_config config = config_of(plain, 2);
    gpur_replay_plan plan = {.size = sizeof plan}, without = {.size = sizeof without};
    gpur_device_info before = {.size = sizeof before}, after = {.size = sizeof after};
    gpur_device *const device = test_device();
    gpur_replay *replay = NULL;
    config.capacity = 1000000, config.max_batch = 4096;
    CHECK_OK(gpur_replay_plan_bytes(&config, &plan));
    CHECK_NEAR(plan.priority_bytes, 8.57e6 + 16 * 4096, 1e4);
    CHECK_OK(gpur_device_get_info(device, &before));
    CHECK_OK(gpur_replay_create(device, &config, &replay));
    CHECK_OK(gpur_device_get_info(device, &after));
    CHECK_EQUAL(after.memory_used - before.memory_used, plan.device_bytes);
    gpur_replay_destroy(replay);
    config.prioritized = 0, config.index_source = GPUR_UNIFORM;
    CHECK_OK(gpur_replay_plan_bytes(&config, &without));
    CHECK_EQUAL(without.priority_bytes, 0);
    CHECK_EQUAL(plan.device_bytes - without.device_bytes, plan.priority_bytes);
    gpur_device_close(device);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(bad_settings_are_refused);
    RUN(settings_of_priorities_are_refused_without_priorities);
    RUN(bad_calls_are_refused_and_change_nothing);
    RUN(the_plan_tells_what_priorities_take);
    return test_main_end();
}
