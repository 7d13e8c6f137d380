/* SPDX-License-Identifier: MIT */
#include "support/dpg_fixture.h"

#include "support/learner_fixture.h"

#include <stdio.h>
#include <string.h>

dpg_row dpg_fixture_row(int64_t id)
{
    dpg_row row;
    memset(&row, 0, sizeof row);
    random_floats((uint64_t)id + 10, row.obs, DPG_FEATURES);
    random_floats((uint64_t)id + 10000, row.next_obs, DPG_FEATURES);
    random_floats((uint64_t)id + 20000, row.action, DPG_ACTIONS);
    random_floats((uint64_t)id + 30000, &row.reward, 1);
    row.terminated = id % 7 == 0;
    row.discount = row.terminated ? 0.0f : 0.95f - 0.1f * (float)(id % 3);
    return row;
}

gpur_status dpg_fixture_open_empty(dpg_fixture *f, gpur_device *device, int prioritized)
{
    static const gpur_field fields[] = {
        {"obs", GPUR_FLOAT32, {DPG_FEATURES}}, {"action", GPUR_FLOAT32, {DPG_ACTIONS}},
        {"reward", GPUR_FLOAT32, {0}},         {"next_obs", GPUR_FLOAT32, {DPG_FEATURES}},
        {"discount", GPUR_FLOAT32, {0}},       {"terminated", GPUR_BOOL, {0}},
    };
    gpur_replay_config config;
    memset(f, 0, sizeof *f);
    GPUR_TRY(gpur_replay_config_init(&config, sizeof config));
    config.capacity = 1024;
    config.fields = fields, config.field_count = sizeof fields / sizeof *fields;
    config.block_rows = 64, config.max_batch = DPG_ROWS;
    config.prioritized = prioritized;
    GPUR_TRY(gpur_replay_create(device, &config, &f->replay));
    return gpur_writer_create(f->replay, 1, &f->writer);
}

gpur_status dpg_fixture_open(dpg_fixture *f, gpur_device *device, int prioritized)
{
    static dpg_row rows[DPG_ROWS];
    for (int i = 0; i < DPG_ROWS; i++)
        rows[i] = dpg_fixture_row(i);
    GPUR_TRY(dpg_fixture_open_empty(f, device, prioritized));
    return gpur_writer_append(f->writer, DPG_ROWS, rows, NULL);
}

void dpg_fixture_close(dpg_fixture *f)
{
    gpur_writer_destroy(f->writer);
    gpur_replay_destroy(f->replay);
}

gpur_dpg_config dpg_fixture_config(void)
{
    gpur_dpg_config c;
    (void)gpur_dpg_config_init(&c, sizeof c);
    c.actor = network_fixture_config(9, 7, GPUR_TANH, GPUR_HEAD_TANH_ACTION, 0, DPG_ACTIONS);
    c.critic = network_fixture_config(11, 6, GPUR_TANH, GPUR_HEAD_Q, 0, 1);
    c.actor_optimizer.learning_rate.first = 3e-3f, c.actor_optimizer.learning_rate.last = 1e-3f;
    c.actor_optimizer.learning_rate.begin = 2, c.actor_optimizer.learning_rate.steps = 9;
    c.critic_optimizer.learning_rate.first = c.critic_optimizer.learning_rate.last = 5e-3f;
    c.beta = (gpur_schedule){.first = 0.4f, .last = 1.0f, .begin = 5, .steps = 20};
    c.batch_size = 24;
    c.target_period = 4;
    c.seed = 6;
    return c;
}

gpur_learner *dpg_fixture_learner(const dpg_fixture *f, const gpur_dpg_config *config)
{
    gpur_learner *dpg = NULL;
    if (gpur_dpg_create(f->replay, config, &dpg) != GPUR_OK)
        fprintf(stderr, "gpur_dpg_create: %s\n", gpur_last_error());
    return dpg;
}

gpur_policy *dpg_fixture_policy(gpur_device *device, const gpur_dpg_config *config, int32_t streams)
{
    gpur_policy_config c;
    gpur_policy *policy = NULL;
    gpur_status status = gpur_policy_config_init(&c, sizeof c);
    c.network = config->actor, c.seed = config->seed, c.streams = streams;
    c.obs = (gpur_field){"obs", GPUR_FLOAT32, {DPG_FEATURES}};
    c.max_batch = DPG_ROWS;
    if (status == GPUR_OK)
        status = gpur_policy_create(device, &c, &policy);
    if (status != GPUR_OK)
        fprintf(stderr, "gpur_policy_create: %s\n", gpur_last_error());
    return policy;
}
