/* SPDX-License-Identifier: MIT */
#include "base/sized.h"

#include "gpureplay.h"
#include "gpureplay/run.h"

#include <inttypes.h>
#include <string.h>

static int is_size(uint64_t size)
{
    return size >= sizeof size && size <= 65536;
}

static gpur_status check_size(const void *given, uint64_t *size, const char *type)
{
    GPUR_REQUIRE(given, "%s is NULL", type);
    memcpy(size, given, sizeof *size);
    GPUR_REQUIRE(is_size(*size), "%s.size is %" PRIu64 "; it must be sizeof(%s): was the struct initialized?", type,
                 *size, type);
    return GPUR_OK;
}

static gpur_status check_tail_is_zero(const unsigned char *given, uint64_t known, uint64_t size, const char *type)
{
    for (uint64_t i = known; i < size; i++)
        GPUR_REQUIRE(given[i] == 0,
                     "%s has a setting at byte %" PRIu64 " that this version of the library (%s) does not know; "
                     "it knows %" PRIu64 " bytes",
                     type, i, gpur_version(), known);
    return GPUR_OK;
}

gpur_status gpur_sized_init(void *given, uint64_t size, const void *defaults, uint64_t known, const char *type)
{
    GPUR_REQUIRE(given, "%s is NULL", type);
    GPUR_REQUIRE(is_size(size), "size is %" PRIu64 "; it must be sizeof(%s)", size, type);
    memcpy(given, &size, sizeof size);
    return gpur_sized_write(given, defaults, known, type);
}

gpur_status gpur_sized_read(void *defaults, uint64_t known, const void *given, const char *type)
{
    uint64_t size = 0;
    GPUR_TRY(check_size(given, &size, type));
    if (size > known) {
        GPUR_TRY(check_tail_is_zero(given, known, size, type));
        size = known;
    }
    memcpy(defaults, given, size);
    memcpy(defaults, &known, sizeof known);
    return GPUR_OK;
}

gpur_status gpur_sized_check(const void *given, const char *type)
{
    uint64_t size = 0;
    return check_size(given, &size, type);
}

gpur_status gpur_sized_write(void *given, const void *source, uint64_t known, const char *type)
{
    uint64_t size = 0;
    GPUR_TRY(check_size(given, &size, type));
    const uint64_t filled = size < known ? size : known;
    memcpy((unsigned char *)given + sizeof size, (const unsigned char *)source + sizeof size, filled - sizeof size);
    if (size > known)
        memset((unsigned char *)given + known, 0, size - known);
    return GPUR_OK;
}

gpur_status gpur_reserved_check(const int64_t *reserved, int32_t count, const char *owner)
{
    for (int32_t i = 0; i < count; i++)
        GPUR_REQUIRE(reserved[i] == 0,
                     "%s.reserved is %" PRId64 " in word %d; it must be 0, as this version of the library (%s) has no "
                     "setting there: was the struct initialized?",
                     owner, reserved[i], (int)i, gpur_version());
    return GPUR_OK;
}

/* Sizes of the public structs as this library was compiled, so that language bindings can check their mirrors. */

#define STRUCT(name)                                                                                                   \
    {                                                                                                                  \
#name, sizeof(name)                                                                                            \
    }

int64_t gpur_struct_size(const char *name)
{
    static const struct {
        const char *name;
        size_t size;
    } known[] = {
        STRUCT(gpur_device_config),
        STRUCT(gpur_device_info),
        STRUCT(gpur_field),
        STRUCT(gpur_field_info),
        STRUCT(gpur_batch_view),
        STRUCT(gpur_hindsight_config),
        STRUCT(gpur_sequence_config),
        STRUCT(gpur_lane_draw),
        STRUCT(gpur_lane_stats),
        STRUCT(gpur_replay_config),
        STRUCT(gpur_replay_plan),
        STRUCT(gpur_replay_stats),
        STRUCT(gpur_layer),
        STRUCT(gpur_network_config),
        STRUCT(gpur_schedule),
        STRUCT(gpur_optimizer_config),
        STRUCT(gpur_returns_config),
        STRUCT(gpur_dqn_config),
        STRUCT(gpur_learner_stats),
        STRUCT(gpur_weight_info),
        STRUCT(gpur_priority_stats),
        STRUCT(gpur_checkpoint_options),
        STRUCT(gpur_checkpoint_info),
        STRUCT(gpur_writer_config),
        STRUCT(gpur_step_input),
        STRUCT(gpur_episode_info),
        STRUCT(gpur_space),
        STRUCT(gpur_env_info),
        STRUCT(gpur_env_result),
        STRUCT(gpur_env_type),
        STRUCT(gpur_vector_result),
        STRUCT(gpur_vector_env_type),
        STRUCT(gpur_actor_critic_batch),
        STRUCT(gpur_actor_critic_config),
        STRUCT(gpur_actor_critic_losses),
        STRUCT(gpur_dpg_config),
        STRUCT(gpur_sac_config),
        STRUCT(gpur_policy_config),
        STRUCT(gpur_policy_input),
        STRUCT(gpur_policy_output),
        STRUCT(gpur_policy_stats),
        STRUCT(gpur_run_config),
        STRUCT(gpur_run_event),
        STRUCT(gpur_run_stats),
        STRUCT(gpur_fast_dqn_config),
        STRUCT(gpur_fast_dqn_stats),
        STRUCT(gpur_block_info),
        STRUCT(gpur_block_input),
        STRUCT(gpur_packer_config),
        STRUCT(gpur_packer_step_input),
        STRUCT(gpur_apex_transport),
        STRUCT(gpur_apex_config),
        STRUCT(gpur_apex_networks),
        STRUCT(gpur_apex_stats),
        STRUCT(gpur_ga3c_config),
        STRUCT(gpur_ga3c_stats),
        STRUCT(gpur_training_config),
        STRUCT(gpur_training_settings),
        STRUCT(gpur_play_config),
        STRUCT(gpur_play_result),
    };
    for (size_t i = 0; name && i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, name) == 0)
            return (int64_t)known[i].size;
    return -1;
}
