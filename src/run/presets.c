/* SPDX-License-Identifier: MIT */
/* The table of presets. */
#include "run/presets.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    int32_t system;
} presets[] = {
    {"fast-dqn", GPUR_PRESET_FAST_DQN},
    {"dqn-lambda-2019", GPUR_PRESET_FAST_DQN},
    {"vrc-2021", GPUR_PRESET_FAST_DQN},
    {"fast-dqn-small", GPUR_PRESET_FAST_DQN},
    {"fast-dqn-small-vectors", GPUR_PRESET_FAST_DQN},
    {"dqn-lambda-2019-small", GPUR_PRESET_FAST_DQN},
    {"vrc-2021-small", GPUR_PRESET_FAST_DQN},
    {"apex-dqn", GPUR_PRESET_APEX_DQN},
    {"apex-dqn-small", GPUR_PRESET_APEX_DQN},
    {"apex-dpg", GPUR_PRESET_APEX_DPG},
    {"apex-dpg-small", GPUR_PRESET_APEX_DPG},
    {"ga3c", GPUR_PRESET_GA3C},
    {"ga3c-small", GPUR_PRESET_GA3C},
    {"ga3c-large-4", GPUR_PRESET_GA3C},
    {"ga3c-large-3", GPUR_PRESET_GA3C},
    {"ga3c-large-2", GPUR_PRESET_GA3C},
    {"ga3c-large-1", GPUR_PRESET_GA3C},
    {"a3c-cpu", GPUR_PRESET_A3C},
    {"a3c-small", GPUR_PRESET_A3C},
    {"a2c", GPUR_PRESET_A3C},
    {"a2c-small", GPUR_PRESET_A3C},
};
enum { PRESETS = sizeof presets / sizeof *presets };

const char *gpur_preset_name(int32_t index, int32_t *system)
{
    if (index < 0 || index >= PRESETS)
        return NULL;
    if (system)
        *system = presets[index].system;
    return presets[index].name;
}

gpur_status gpur_preset_refuse(const char *name, int32_t first, int32_t last)
{
    char names[512] = "";
    for (int32_t i = 0; i < PRESETS; i++) {
        const size_t used = strlen(names);
        if (presets[i].system < first || presets[i].system > last)
            continue;
        const int is_last = i + 1 == PRESETS || presets[i + 1].system > last;
        snprintf(names + used, sizeof names - used, "%s\"%s\"",
                 used == 0 ? ""
                 : is_last ? " or "
                           : ", ",
                 presets[i].name);
    }
    return gpur_fail(GPUR_INVALID_ARGUMENT, "preset is \"%s\"; it must be %s", name, names);
}
