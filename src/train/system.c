/* SPDX-License-Identifier: MIT */
/* The table of systems, and what several of them have in common. */
#include "train/system.h"

#include "base/numbers.h"
#include "run/presets.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

const gpur_train_system *gpur_train_system_of(int32_t system)
{
    static const gpur_train_system *const systems[] = {
        [GPUR_PRESET_FAST_DQN] = &gpur_train_fast_dqn,
        [GPUR_PRESET_APEX_DQN] = &gpur_train_apex_dqn,
        [GPUR_PRESET_APEX_DPG] = &gpur_train_apex_dpg,
        [GPUR_PRESET_GA3C] = &gpur_train_ga3c,
        [GPUR_PRESET_A3C] = &gpur_train_a3c,
        [GPUR_PRESET_OFFLINE_DQN] = &gpur_train_offline_dqn,
        [GPUR_PRESET_OFFLINE_DPG] = &gpur_train_offline_dpg,
        [GPUR_PRESET_DPG] = &gpur_train_dpg,
        [GPUR_PRESET_SAC] = &gpur_train_sac,
        [GPUR_PRESET_OFFLINE_SAC] = &gpur_train_offline_sac,
    };
    return systems[system];
}

const char *gpur_train_period_name(const gpur_options *o)
{
    const char *const name = gpur_train_system_of(o->system)->period;
    return name ? name : "target_period";
}

int gpur_train_is_small(const gpur_train_settings *s)
{
    gpur_preset preset;
    gpur_preset_use_info(&preset, s->preset, s->env.name, &s->env.info);
    if (strcmp(s->preset, "qr-dqn") == 0 || strcmp(s->preset, "c51") == 0) /* the environment decides */
        return !gpur_preset_has_frames(&preset);
    return strstr(s->preset, "-small") != NULL;
}

double gpur_ratio(double a, double b)
{
    return b > 0.0 ? a / b : NAN;
}

void gpur_row_add(gpur_row *row, const char *name, double value)
{
    row->names[row->count] = name;
    row->values[row->count] = value;
    row->words[row->count++] = NULL;
}

double gpur_row_value(const gpur_row *row, const char *name)
{
    for (int32_t i = 0; i < row->count; i++)
        if (strcmp(row->names[i], name) == 0)
            return row->values[i];
    return NAN;
}

void gpur_train_add_learning(gpur_row *row, const gpur_train_span *span)
{
    const gpur_learner_stats *const learner = &span->to->learner;
    const int has_trained = learner->steps > span->from->learner.steps;
    gpur_row_add(row, "learning_rate", has_trained ? (double)learner->learning_rate : NAN);
    gpur_row_add(row, "loss", has_trained ? (double)learner->mean_loss : NAN);
    gpur_row_add(row, "mean_q", has_trained ? (double)learner->mean_q : NAN);
    gpur_row_add(row, "gradient_norm", has_trained ? (double)learner->gradient_norm : NAN);
}

void gpur_train_add_line(gpur_text *text, const char *name, double value, const char *unit, const char *one,
                         const char *other)
{
    char number[32] = "-";
    if (isfinite(value))
        snprintf(number, sizeof number, value >= 1000.0 ? "%.0f" : "%.4g", value);
    gpur_text_add(text, "%-28s%12s  %-20s%10s%10s\n", name, number, unit, one, other);
}

/* By default the replay's largest batch has 4,096 transitions. */
gpur_status gpur_train_use_batch(const gpur_options *o, int64_t capacity, int64_t batch_size,
                                 gpur_replay_config *replay)
{
    if (capacity / 2 < batch_size)
        return gpur_refuse(o, "{capacity is} and {batch is}; the first must be at least twice the second");
    if (batch_size > 4096)
        replay->max_batch = batch_size;
    return GPUR_OK;
}

static gpur_status load_demonstrations(const gpur_train_settings *s, gpur_train_handles *h)
{
    gpur_replay_config config = s->replay;
    gpur_checkpoint_info info = {.size = sizeof info};
    GPUR_TRY(gpur_checkpoint_get_info(s->demonstrations, &info));
    if (strcmp(info.kind, "replay") != 0)
        return gpur_fail(GPUR_FILE_ERROR, "%s is a file of kind \"%s\"; demonstrations must be of kind \"replay\"",
                         s->demonstrations, info.kind);
    config.capacity = info.capacity;
    config.min_size = config.block_rows = 0;
    GPUR_TRY(gpur_replay_create(h->device, &config, &h->demonstrations));
    return gpur_replay_load(h->demonstrations, s->demonstrations, NULL);
}

gpur_status gpur_train_open_demonstrations(gpur_train_settings *s, gpur_train_handles *h)
{
    if (!s->demonstrations)
        return GPUR_OK;
    GPUR_TRY(gpur_prefix_error(load_demonstrations(s, h), "demonstrations"));
    s->dqn.demonstrations = s->dpg.demonstrations = s->sac.demonstrations = h->demonstrations;
    return GPUR_OK;
}

void gpur_train_use_frame_stack(gpur_train_settings *s)
{
    if (s->replay.layout == GPUR_LAYOUT_FRAMES)
        for (int32_t i = 0; i < s->replay.field_count; i++)
            if (strcmp(s->fields[i].name, "obs") == 0 || strcmp(s->fields[i].name, "next_obs") == 0)
                s->fields[i].shape[0] = s->replay.frame_stack;
}

gpur_status gpur_train_use_periods(const gpur_options *o, int64_t granule, gpur_train_settings *s)
{
    s->granule = granule;
    if (!gpur_options_value(o, "eval_period"))
        s->all.eval_period = s->all.eval_episodes > 0 ? gpur_round_up(s->all.eval_period, granule) : 0;
    if (!gpur_options_value(o, "checkpoint"))
        s->checkpoint = gpur_can_save_files() ? gpur_round_up(gpur_train_is_small(s) ? 50000 : 1000000, granule) : 0;
    if (s->all.eval_period % granule != 0)
        return gpur_refuse(o, "{eval_period is} and {%s is}; the first must be a multiple of the second, or 0",
                           gpur_train_period_name(o));
    if (s->checkpoint > 0 && !gpur_can_save_files())
        return gpur_refuse(o, "{checkpoint is}, and this build of the library cannot save to files; it must be 0, or "
                              "the library built with libcjson-dev and libxxhash-dev");
    if (s->checkpoint % granule != 0)
        return gpur_refuse(o, "{checkpoint is} and {%s is}; the first must be a multiple of the second, or 0",
                           gpur_train_period_name(o));
    return GPUR_OK;
}
