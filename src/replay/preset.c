/* SPDX-License-Identifier: MIT */
/* The published systems' replays, with every constant. */
#include "base/sized.h"
#include "base/status.h"
#include "gpureplay/priority.h"

#include <string.h>

/* The three agents for Melee share their replay [Parr 2018, sections 4 and 5; its code clips rewards to [-1, 1]]. Its
 * burn-in is 125 files of workers, whose length is not told: here it is the first whole block. */
static void set_melee(gpur_replay_config *config)
{
    config->capacity = 1000000;
    config->update_size = 2000;
    config->gamma = 0.99f;
    config->reward_clip = 1.0f;
    config->min_size = 2000;
}

/* Mnih et al. 2015, extended data table 1: the last million, of which 50,000 are there before training begins. Its
 * rewards become their signs, which for Atari's whole numbers is the same as clipping. Four frames of an observation,
 * each stored once, and an episode's first stack begins with zeros, as in the code of Daley & Amato 2021. */
static void set_nature(gpur_replay_config *config)
{
    config->layout = GPUR_LINKED;
    config->frame_stack = 4;
    config->stack_axis = GPUR_STACK_FIRST;
    config->stack_pad = GPUR_PAD_ZERO;
    config->capacity = 1000000;
    config->gamma = 0.99f;
    config->reward_clip = 1.0f;
    config->min_size = 50000;
}

/* Horgan et al. 2018, section 4.1 and appendix C: two million, of which 50,000 before learning begins; 3 steps, alpha
 * 0.6, beta 0.4 throughout. The offset is that of public code. */
static void set_apex(gpur_replay_config *config)
{
    const gpur_schedule beta = {.first = 0.4f, .last = 0.4f};
    set_nature(config);
    config->capacity = 2000000;
    config->n_step = 3;
    config->prioritized = 1;
    config->alpha = 0.6f;
    config->priority_offset = 1e-6f;
    config->beta = beta;
}

typedef struct preset {
    const char *name;
    void (*set)(gpur_replay_config *config);
} preset;

static const preset presets[] = {
    {"melee-gpu", set_melee},   {"melee-dqn", set_melee},       {"melee-double", set_melee},
    {"nature-dqn", set_nature}, {"nature-dueling", set_nature}, {"apex-dqn", set_apex},
};

#define PRESETS                                                                                                        \
    "there are \"melee-gpu\", \"melee-dqn\", \"melee-double\", \"nature-dqn\", \"nature-dueling\", \"apex-dqn\""

gpur_status gpur_replay_config_preset(gpur_replay_config *config, const char *name)
{
    gpur_replay_config changed;
    GPUR_REQUIRE(name, "the preset's name is NULL; " PRESETS);
    GPUR_TRY(gpur_replay_config_init(&changed, sizeof changed));
    GPUR_TRY(gpur_sized_read(&changed, sizeof changed, config, "gpur_replay_config"));
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++)
        if (strcmp(name, presets[i].name) == 0) {
            presets[i].set(&changed);
            return gpur_sized_write(config, &changed, sizeof changed, "gpur_replay_config");
        }
    return gpur_fail(GPUR_INVALID_ARGUMENT, "no replay preset \"%s\"; " PRESETS, name);
}
