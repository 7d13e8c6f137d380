/* SPDX-License-Identifier: MIT */
/* What the compiler of this library makes of the public structs, for bindings that mirror them. */
#include "gpureplay.h"

#include <string.h>

#define STRUCT(name) {#name, sizeof(name)}

int64_t gpur_struct_size(const char *name)
{
    static const struct {
        const char *name;
        size_t size;
    } known[] = {
        STRUCT(gpur_device_config), STRUCT(gpur_device_info), STRUCT(gpur_field),
        STRUCT(gpur_field_info), STRUCT(gpur_batch_view), STRUCT(gpur_replay_config), STRUCT(gpur_replay_plan),
        STRUCT(gpur_replay_stats), STRUCT(gpur_layer), STRUCT(gpur_network_config),
        STRUCT(gpur_schedule), STRUCT(gpur_optimizer_config), STRUCT(gpur_learner_config),
        STRUCT(gpur_learner_stats), STRUCT(gpur_weight_info), STRUCT(gpur_priority_stats),
        STRUCT(gpur_checkpoint_options), STRUCT(gpur_checkpoint_info),
        STRUCT(gpur_writer_config), STRUCT(gpur_step_input), STRUCT(gpur_episode_info),
    };
    for (size_t i = 0; name && i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, name) == 0)
            return (int64_t)known[i].size;
    return -1;
}
