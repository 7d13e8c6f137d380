/* SPDX-License-Identifier: MIT */
#include "learn/config.h"

#include "base/sized.h"
#include "learn/optimizer.h"
#include "replay/config.h"
#include "replay/priorities.h"

#include <inttypes.h>
#include <math.h>

enum { MAX_UNROLL = 64 };

static gpur_status check_flag(int32_t value, const char *name)
{
    GPUR_REQUIRE(value == 0 || value == 1, "%s is %" PRId32 "; it must be 0 or 1", name, value);
    return GPUR_OK;
}

static gpur_status check_choice(int32_t value, int32_t last, const char *name, const char *choices)
{
    GPUR_REQUIRE(value >= 0 && value <= last, "%s is %" PRId32 "; it must be %s", name, value, choices);
    return GPUR_OK;
}

static gpur_status check_training(const gpur_learner_config *config, int64_t max_batch)
{
    GPUR_TRY(check_flag(config->double_dqn, "double_dqn"));
    GPUR_TRY(check_choice(config->loss, GPUR_LOSS_SQUARED, "loss", "GPUR_LOSS_HUBER or GPUR_LOSS_SQUARED (0, 1)"));
    GPUR_REQUIRE(config->huber_delta > 0.0f && config->huber_delta < INFINITY,
                 "huber_delta is %g; it must be above 0, and finite", (double)config->huber_delta);
    GPUR_REQUIRE(config->batch_size >= 1 && config->batch_size <= max_batch,
                 "batch_size is %" PRId64 "; it must be 1 to the replay's max_batch, %" PRId64 " (a setting of the "
                 "replay)",
                 config->batch_size, max_batch);
    GPUR_REQUIRE(config->target_period >= 1, "target_period is %" PRId64 "; it must be at least 1 train step",
                 config->target_period);
    return check_flag(config->target_copy_first, "target_copy_first");
}

static gpur_status check_acting(const gpur_learner_config *config)
{
    GPUR_TRY(check_choice(config->act, GPUR_ACT_TARGET, "act", "GPUR_ACT_LATEST, PREVIOUS or TARGET (0 to 2)"));
    GPUR_REQUIRE(config->max_act_batch >= 1 && config->max_act_batch <= GPUR_MAX_ACT_BATCH,
                 "max_act_batch is %" PRId32 "; it must be 1 to %d", config->max_act_batch, GPUR_MAX_ACT_BATCH);
    return gpur_schedule_check(&config->exploration, 1.0f, "exploration");
}

static gpur_status check_source(const gpur_learner_config *config, const gpur_replay_config *replay)
{
    const int by_priority = gpur_source_has_priorities(config->index_source);
    GPUR_TRY(gpur_index_source_check(config->index_source, "index_source"));
    GPUR_REQUIRE(!by_priority || replay->prioritized,
                 "index_source is %" PRId32 ", by priority, and the replay's prioritized is 0; it must be 1, or "
                 "index_source GPUR_SOURCE_AUTO (0)",
                 config->index_source);
    return gpur_schedule_check(&config->beta, GPUR_MAX_EXPONENT, "beta");
}

gpur_status gpur_learner_config_check(gpur_learner_config *config, const gpur_replay_config *replay)
{
    const int32_t head = config->network.head;
    GPUR_REQUIRE(head == GPUR_HEAD_Q || head == GPUR_HEAD_DUELING,
                 "network.head is %" PRId32 "; a DQN learner needs GPUR_HEAD_Q (0) or GPUR_HEAD_DUELING (1)", head);
    GPUR_TRY(gpur_optimizer_check(&config->optimizer));
    GPUR_TRY(check_training(config, replay->max_batch));
    GPUR_TRY(check_source(config, replay));
    if (config->index_source == GPUR_SOURCE_AUTO)
        config->index_source = replay->index_source;
    GPUR_TRY(check_acting(config));
    GPUR_TRY(check_choice(config->math, GPUR_MATH_BF16, "math", "GPUR_MATH_FP32, TF32 or BF16 (0 to 2)"));
    GPUR_REQUIRE(config->unroll >= 1 && config->unroll <= MAX_UNROLL, "unroll is %" PRId32 "; it must be 1 to %d",
                 config->unroll, MAX_UNROLL);
    GPUR_TRY(check_flag(config->dense_graphs, "dense_graphs"));
    GPUR_TRY(check_choice(config->step_kernel, GPUR_STEP_ONE_KERNEL, "step_kernel",
                          "GPUR_STEP_AUTO, LIBRARIES or ONE_KERNEL (0 to 2)"));
    GPUR_REQUIRE(config->host_batches >= 0 && config->host_batches <= GPUR_MAX_HOST_BATCHES,
                 "host_batches is %" PRId32 "; it must be 0 to %d", config->host_batches, GPUR_MAX_HOST_BATCHES);
    GPUR_TRY(gpur_reserved_check(&(const int64_t){config->reserved}, 1, "gpur_learner_config"));
    return check_flag(config->deterministic, "deterministic");
}
