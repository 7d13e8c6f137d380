/* SPDX-License-Identifier: MIT */
/* Offline trainings: of DQN, DPG or SAC on the rows of a file, or of a caller's replay. */
#include "train/system.h"

#include "base/dtype.h"
#include "base/numbers.h"
#include "replay/view.h"
#include "run/env_runner.h"
#include "run/presets.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { STEPS = 100000, EVAL_PERIOD = 10000, CHECKPOINT = 50000, LEAST_CAPACITY = 64 };

static const float RATE_OF_VECTORS = 1e-4f; /* with a larger one it overrates sooner */

static const char frames_of_papers[] = "fast-dqn", images[] = "fast-dqn-small", vectors[] = "fast-dqn-small-vectors";

typedef struct offline_preset {
    const char *name, *learner; /* the preset whose learner it has; NULL: that depends on the observations */
    int32_t has_vectors;        /* 1: actions are vectors */
    gpur_status (*set_dpg)(const char *name, const char *env_name, const gpur_env_info *info, gpur_dpg_config *dpg);
} offline_preset;

static const offline_preset presets[] = {
    {"offline-dqn", NULL, 0, NULL},
    {"offline-qr-dqn", "qr-dqn", 0, NULL},
    {"offline-c51", "c51", 0, NULL},
    {"offline-dpg", "apex-dpg-small", 1, gpur_apex_set_dpg},
    {"offline-td3", "td3-small", 1, gpur_dpg_set_learner},
    {"offline-sac", "sac-small", 1, NULL},
};

static const offline_preset *preset_of(const gpur_train_settings *s)
{
    const offline_preset *preset = presets;
    while (strcmp(s->preset, preset->name) != 0)
        preset++;
    return preset;
}

static const gpur_field *find_field(const gpur_train_settings *s, const char *name)
{
    for (int32_t i = 0; i < s->rows.config.field_count; i++)
        if (strcmp(s->rows.fields[i].name, name) == 0)
            return &s->rows.fields[i];
    return NULL;
}

/* The rows. */

gpur_status gpur_train_name(const gpur_train_settings *s, char name[GPUR_MAX_PATH])
{
    static const char suffix[] = ".safetensors";
    if (s->env.name)
        return gpur_path_make(name, "%s", s->env.name);
    const char *const slash = s->data ? strrchr(s->data, '/') : NULL;
    const char *const file = slash ? slash + 1 : s->data && *s->data != '(' ? s->data : "data";
    const size_t length = strlen(file), end = strlen(suffix);
    const size_t cut = length > end && strcmp(file + length - end, suffix) == 0 ? end : 0;
    return gpur_path_make(name, "%.*s", (int)(length - cut), file);
}

/* A run that goes on has its rows in the checkpoint, and in the old one while a new one takes its place. */
static gpur_status find_path(const gpur_options *o, gpur_train_settings *s)
{
    static const char *const saved[] = {"checkpoint/replay.safetensors", "checkpoint.old/replay.safetensors"};
    const char *const data = gpur_options_value(o, "data");
    for (size_t i = 0; o->folder && i < sizeof saved / sizeof *saved; i++)
        if (gpur_file_exists(o->folder, saved[i])) {
            s->goes_on = 1;
            return gpur_path_make(s->rows_path, "%s/%s", o->folder, saved[i]);
        }
    if (s->given)
        return GPUR_OK;
    if (!data || !*data)
        return gpur_refuse(o, "{data} is missing; it must be the file of a replay that was saved");
    if (*data == '(')
        return gpur_refuse(o,
                           "{data} was %s, and the run has no checkpoint; gpureplay.train_offline in Python begins "
                           "again with one like it",
                           data);
    return gpur_path_make(s->rows_path, "%s", data);
}

/* What the rows of an environment are, for the defaults that a help shows. */
static gpur_status describe_env(gpur_train_settings *s)
{
    const gpur_space *const obs = &s->env.info.obs, *const action = &s->env.info.action;
    const int is_frame = obs->dtype == GPUR_UINT8 && gpur_shape_dims(obs->shape) == 2;
    gpur_field *const fields = s->rows.fields;
    GPUR_TRY(gpur_replay_config_init(&s->rows.config, sizeof s->rows.config));
    fields[0] = (gpur_field){.name = "obs", .dtype = obs->dtype};
    memcpy(fields[0].shape + is_frame, obs->shape, (size_t)(GPUR_MAX_DIMS - is_frame) * sizeof *obs->shape);
    if (is_frame)
        fields[0].shape[0] = s->rows.config.frame_stack = 4;
    fields[1] = (gpur_field){.name = "action", .dtype = action->num_actions > 0 ? GPUR_INT32 : GPUR_FLOAT32};
    if (action->num_actions == 0)
        memcpy(fields[1].shape, action->shape, sizeof action->shape);
    s->rows.config.layout = is_frame ? GPUR_LAYOUT_FRAMES : GPUR_LAYOUT_ROWS;
    s->rows.config.fields = fields;
    s->rows.config.field_count = 2;
    s->rows.rows = 1;
    return GPUR_OK;
}

static gpur_status describe(const gpur_options *o, gpur_train_settings *s)
{
    if (s->describes_env)
        return describe_env(s);
    GPUR_TRY(find_path(o, s));
    GPUR_TRY(s->given ? gpur_replay_describe(s->given, &s->rows) : gpur_replay_describe_file(s->rows_path, &s->rows));
    if (s->rows.rows == 0)
        return gpur_refuse(o, "{data} has no transitions; there must be 1 or more");
    return GPUR_OK;
}

static int has_vectors(const gpur_train_settings *s)
{
    return preset_of(s)->has_vectors;
}

/* "float32 of 1", as files say it. */
static const char *text_of(const gpur_field *field, char text[96])
{
    int used = snprintf(text, 96, "%s", gpur_dtype_name(field->dtype));
    for (int32_t i = 0; i < gpur_shape_dims(field->shape); i++)
        used += snprintf(text + used, 96 - (size_t)used, "%s%d", i ? " x " : " of ", (int)field->shape[i]);
    return text;
}

static gpur_status check_fields(const gpur_options *o, const gpur_train_settings *s)
{
    const gpur_field *const action = find_field(s, "action");
    char text[96];
    if (!find_field(s, "obs") || !action)
        return gpur_refuse(o,
                           "the transitions of {data} have no field \"%s\"; they must have obs, action, reward, "
                           "next_obs and terminated",
                           action ? "obs" : "action");
    const int is_number = (action->dtype == GPUR_INT32 || action->dtype == GPUR_INT64) && action->shape[0] == 0;
    if (!is_number && !has_vectors(s))
        return gpur_refuse(o,
                           "{preset} is %s and the actions of {data} are %s; they must be one int32 or int64 each. "
                           "offline-dpg takes vectors of float32",
                           s->preset, text_of(action, text));
    if (has_vectors(s) && action->dtype != GPUR_FLOAT32)
        return gpur_refuse(o, "{preset} is %s and the actions of {data} are %s; they must be vectors of float32.%s",
                           s->preset, text_of(action, text),
                           is_number ? " offline-dqn takes one whole number each" : "");
    return GPUR_OK;
}

static int32_t stack_axis_of(const gpur_train_settings *s)
{
    const int32_t dims = gpur_shape_dims(find_field(s, "obs")->shape);
    const int has_axis = s->rows.config.layout == GPUR_LAYOUT_FRAMES && s->rows.config.frame_stack > 1;
    return !has_axis ? -1 : s->rows.config.stack_axis == GPUR_STACK_LAST ? dims - 1 : 0;
}

/* Without the axis of a stack. */
static gpur_space space_of(const gpur_field *obs, int32_t axis)
{
    const int is_byte = obs->dtype == GPUR_UINT8;
    gpur_space space = {.dtype = obs->dtype, .low = is_byte ? 0.0f : -INFINITY, .high = is_byte ? 255.0f : INFINITY};
    for (int32_t i = 0, at = 0; i < GPUR_MAX_DIMS; i++)
        if (i != axis)
            space.shape[at++] = obs->shape[i];
    return space;
}

/* Where there is no environment: one that shows and takes what the rows have. How many actions there are is found when
 * the rows are loaded. */
static void use_rows(gpur_train_settings *s)
{
    const gpur_field *const action = find_field(s, "action");
    s->env.info = (gpur_env_info){.size = sizeof s->env.info};
    s->env.info.obs = space_of(find_field(s, "obs"), stack_axis_of(s));
    s->env.info.action = (gpur_space){.dtype = action->dtype, .low = -1.0f, .high = 1.0f};
    if (has_vectors(s))
        memcpy(s->env.info.action.shape, action->shape, sizeof action->shape);
}

static int64_t numbers_of(const int32_t *shape)
{
    int64_t count = 1;
    for (int32_t i = 0; i < gpur_shape_dims(shape); i++)
        count *= shape[i];
    return count;
}

static gpur_status check_env(const gpur_options *o, const gpur_train_settings *s)
{
    const gpur_field *const obs = find_field(s, "obs"), *const action = find_field(s, "action");
    const gpur_space *const takes = &s->env.info.action;
    gpur_obs_shape shape;
    const gpur_status status =
        gpur_obs_shape_of(&s->env.info.obs, obs->dtype, obs->shape, stack_axis_of(s), "obs of the data", &shape);
    if (s->env.vector && !s->env.type)
        return gpur_refuse(o, "%s steps all environments at once; those that evaluate step one at a time", s->env.name);
    if (has_vectors(s) == (takes->num_actions > 0))
        return gpur_refuse(o, "%s has %s actions and {preset} is %s; the actions of both must be alike", s->env.name,
                           takes->num_actions > 0 ? "discrete" : "continuous", s->preset);
    if (has_vectors(s) && numbers_of(takes->shape) != numbers_of(action->shape))
        return gpur_refuse(o,
                           "the actions of %s are vectors of %" PRId64 " numbers, and those of {data} of %" PRId64
                           "; they must be the same",
                           s->env.name, numbers_of(takes->shape), numbers_of(action->shape));
    return gpur_prefix_error(status, "%s", s->env.name);
}

static gpur_status find_rows(const gpur_options *o, gpur_train_settings *s)
{
    GPUR_TRY(describe(o, s));
    GPUR_TRY(check_fields(o, s));
    if (s->env.type || s->env.vector)
        return check_env(o, s);
    use_rows(s);
    return GPUR_OK;
}

/* The settings. */

static gpur_status fill(gpur_train_settings *s)
{
    gpur_run_config *const all = &s->all;
    s->replay = s->rows.config;
    s->prioritized = s->replay.prioritized;
    s->steps = STEPS;
    all->eval_period = EVAL_PERIOD;
    all->eval_episodes = s->env.type ? all->eval_episodes : 0;
    return GPUR_OK;
}

/* Stacks of the papers' frames, also where each is stored whole: then the axis that counts them has at most 16. */
static int32_t axis_of_frames(const gpur_train_settings *s)
{
    const gpur_field *const obs = find_field(s, "obs");
    const int32_t *const shape = obs->shape, axis = stack_axis_of(s);
    if (axis >= 0 || obs->dtype != GPUR_UINT8 || gpur_shape_dims(shape) != 3)
        return axis;
    return shape[1] == 84 && shape[2] == 84 && shape[0] <= GPUR_MAX_STACK   ? 0
           : shape[0] == 84 && shape[1] == 84 && shape[2] <= GPUR_MAX_STACK ? 2
                                                                            : -1;
}

/* The learner of the preset of fast DQN, by default the one for such observations. */
static gpur_status fill_dqn(gpur_train_settings *s)
{
    const int32_t axis = axis_of_frames(s);
    gpur_env_info info = s->env.info;
    if (axis >= 0)
        info.obs = space_of(find_field(s, "obs"), axis);
    const int32_t *const shape = info.obs.shape, dims = gpur_shape_dims(shape);
    const int is_frame = info.obs.dtype == GPUR_UINT8 && dims == 2 && shape[0] == 84 && shape[1] == 84;
    info.action.num_actions += info.action.num_actions == 0; /* any number, where it is not known yet */
    GPUR_TRY(fill(s));
    const char *const chosen = preset_of(s)->learner;
    GPUR_TRY(gpur_fast_dqn_set_learner(chosen     ? chosen
                                       : is_frame ? frames_of_papers
                                       : dims < 2 ? vectors
                                                  : images,
                                       "the data", &info, &s->dqn, &s->all.eval_epsilon));
    if (axis > 0)
        s->dqn.network.input_layout = GPUR_HWC;
    if (dims < 2)
        s->dqn.optimizer.learning_rate.first = RATE_OF_VECTORS;
    s->dqn.index_source = GPUR_SOURCE_AUTO;
    s->dqn.network.num_actions = s->env.info.action.num_actions; /* 0: the rows tell it */
    return GPUR_OK;
}

static const char *env_of(const gpur_train_settings *s)
{
    return s->env.name ? s->env.name : "the data";
}

static gpur_status fill_dpg(gpur_train_settings *s)
{
    GPUR_TRY(fill(s));
    GPUR_TRY(preset_of(s)->set_dpg(preset_of(s)->learner, env_of(s), &s->env.info, &s->dpg));
    s->dpg.index_source = GPUR_SOURCE_AUTO;
    return GPUR_OK;
}

static gpur_status fill_sac(gpur_train_settings *s)
{
    GPUR_TRY(fill(s));
    GPUR_TRY(gpur_sac_set_learner(preset_of(s)->learner, env_of(s), &s->env.info, &s->sac));
    s->sac.index_source = GPUR_SOURCE_AUTO;
    return GPUR_OK;
}

/* Settings of the data, of which an option can only say the same. */
static gpur_status check_data(const gpur_options *o, const gpur_train_settings *s)
{
    if (s->rows.config.n_step != s->replay.n_step)
        return gpur_refuse(o,
                           "{n_step is} and the transitions of {data} are of %d step%s; it must be that, or left out",
                           (int)s->replay.n_step, s->replay.n_step == 1 ? "" : "s");
    if (s->prioritized && !s->replay.prioritized)
        return gpur_refuse(o, "{prioritized is} and {data} has no priorities; it must be 0, or left out");
    if (!s->env.type && (s->all.eval_episodes > 0 || (gpur_options_value(o, "eval_period") && s->all.eval_period > 0)))
        return gpur_refuse(o, "%s and {env} is missing; evaluations need an environment",
                           s->all.eval_episodes > 0 ? "{eval_episodes is}" : "{eval_period is}");
    return GPUR_OK;
}

static gpur_status complete(const gpur_options *o, gpur_train_settings *s, int64_t batch)
{
    gpur_replay_config *const replay = &s->replay;
    GPUR_TRY(check_data(o, s));
    replay->seed = (uint64_t)s->seed;
    if (replay->layout == GPUR_LAYOUT_ROWS && replay->eviction == GPUR_EVICT_OLDEST && !s->given) {
        replay->capacity = gpur_max(gpur_max(s->rows.rows, batch), LEAST_CAPACITY);
        replay->max_batch = batch > 4096 ? batch : 0; /* by default it is at most 4,096 */
    }
    GPUR_TRY(gpur_train_use_periods(o, 1, s));
    if (!gpur_options_value(o, "checkpoint") && s->checkpoint > 0)
        s->checkpoint = CHECKPOINT;
    return GPUR_OK;
}

static gpur_status complete_dqn(const gpur_options *o, gpur_train_settings *s)
{
    const int32_t actions = s->env.info.action.num_actions;
    gpur_dqn_config *const dqn = &s->dqn;
    if (actions > 0 && dqn->network.num_actions != actions)
        return gpur_refuse(o, "{num_actions is} and %s has %d actions; it must be that, or left out", s->env.name,
                           (int)actions);
    dqn->seed = (uint64_t)s->seed;
    dqn->optimizer.learning_rate.last = dqn->optimizer.learning_rate.first;
    if (!s->prioritized)
        dqn->index_source = GPUR_UNIFORM;
    return complete(o, s, dqn->batch_size);
}

static gpur_status complete_dpg(const gpur_options *o, gpur_train_settings *s)
{
    gpur_dpg_config *const dpg = &s->dpg;
    dpg->seed = (uint64_t)s->seed;
    dpg->critic_optimizer.weight_decay = dpg->actor_optimizer.weight_decay;
    dpg->critic_optimizer.learning_rate.first = dpg->actor_optimizer.learning_rate.first;
    dpg->critic_optimizer.learning_rate.last = dpg->actor_optimizer.learning_rate.last =
        dpg->actor_optimizer.learning_rate.first;
    if (!s->prioritized)
        dpg->index_source = GPUR_UNIFORM;
    return complete(o, s, dpg->batch_size);
}

static gpur_status complete_sac(const gpur_options *o, gpur_train_settings *s)
{
    gpur_sac_config *const sac = &s->sac;
    sac->seed = (uint64_t)s->seed;
    sac->critic_optimizer.weight_decay = sac->actor_optimizer.weight_decay;
    sac->actor_optimizer.learning_rate.last = sac->actor_optimizer.learning_rate.first;
    sac->critic_optimizer.learning_rate = sac->temperature_optimizer.learning_rate = sac->actor_optimizer.learning_rate;
    if (!s->prioritized)
        sac->index_source = GPUR_UNIFORM;
    return complete(o, s, sac->batch_size);
}

/* The objects. */

/* A checkpoint's run has its number of actions among its options. */
gpur_status gpur_train_fill(gpur_train_settings *s, gpur_replay *replay)
{
    int32_t *const actions = &s->dqn.network.num_actions;
    int64_t largest;
    if (s->goes_on)
        return GPUR_OK;
    if (!s->given)
        GPUR_TRY(gpur_replay_load(replay, s->rows_path, NULL));
    if (has_vectors(s))
        return GPUR_OK;
    GPUR_TRY(gpur_replay_find_largest_action(replay, &largest));
    GPUR_REQUIRE(
        *actions > 0 || largest >= 0,
        "{num_actions} and {env} are missing, and {data} evicts by priority, so that it does not tell how many "
        "actions there are; one of them must be given");
    GPUR_REQUIRE(*actions == 0 || largest < *actions,
                 "{data} has the action %" PRId64 " and {num_actions} is %d; the first must be below the second",
                 largest, (int)*actions);
    GPUR_REQUIRE(largest < INT32_MAX, "{data} has the action %" PRId64 "; it must be below %d", largest, INT32_MAX);
    *actions = *actions > 0 ? *actions : (int32_t)largest + 1;
    s->env.info.action.num_actions = *actions;
    return GPUR_OK;
}

static gpur_status open_replay(gpur_train_settings *s, gpur_train_handles *h)
{
    GPUR_TRY(gpur_replay_create(h->device, &s->replay, &h->replay));
    return gpur_train_fill(s, h->replay);
}

static gpur_status open_run(gpur_train_settings *s, gpur_train_handles *h)
{
    return gpur_offline_create(h->learner, s->all.type ? &s->all : NULL, &h->run);
}

static gpur_status open_dqn(gpur_train_settings *s, gpur_train_handles *h)
{
    GPUR_TRY(open_replay(s, h));
    GPUR_TRY(gpur_dqn_create(h->replay, &s->dqn, &h->learner));
    return open_run(s, h);
}

static gpur_status open_dpg(gpur_train_settings *s, gpur_train_handles *h)
{
    GPUR_TRY(open_replay(s, h));
    GPUR_TRY(gpur_dpg_create(h->replay, &s->dpg, &h->learner));
    return open_run(s, h);
}

static gpur_status open_sac(gpur_train_settings *s, gpur_train_handles *h)
{
    GPUR_TRY(open_replay(s, h));
    GPUR_TRY(gpur_sac_create(h->replay, &s->sac, &h->learner));
    return open_run(s, h);
}

static void add_rates(gpur_row *row, const gpur_train_span *span)
{
    const gpur_run_stats *const from = &span->from->run, *const to = &span->to->run;
    gpur_row_add(row, "train_share", gpur_ratio(GPUR_SINCE(train_seconds), span->seconds));
    gpur_row_add(row, "eval_share", gpur_ratio(GPUR_SINCE(eval_seconds), span->seconds));
    gpur_train_add_learning(row, span);
}

static const char *const shown[] = {"loss", "loss", "q", "mean_q", NULL};

static const gpur_member no_members[] = {{.name = NULL}};

#define OFFLINE_RUN                                                                                                    \
    .run = {"offline", no_members, 0}, .lane = "lane", .lanes = " transitions", .step_rate = "train_steps_per_second", \
    .shown = shown, .find_rows = find_rows, .add_rates = add_rates

const gpur_train_system gpur_train_offline_dqn = {
    OFFLINE_RUN,
    .learner = {"learner", gpur_dqn_config_members, offsetof(gpur_train_settings, dqn)},
    .math = offsetof(gpur_train_settings, dqn.math),
    .source = offsetof(gpur_train_settings, dqn.index_source),
    .fill = fill_dqn,
    .complete = complete_dqn,
    .open = open_dqn,
};

const gpur_train_system gpur_train_offline_dpg = {
    OFFLINE_RUN,
    .learner = {"dpg", gpur_dpg_config_members, offsetof(gpur_train_settings, dpg)},
    .math = offsetof(gpur_train_settings, dpg.math),
    .source = offsetof(gpur_train_settings, dpg.index_source),
    .fill = fill_dpg,
    .complete = complete_dpg,
    .open = open_dpg,
};

const gpur_train_system gpur_train_offline_sac = {
    OFFLINE_RUN,
    .learner = {"sac", gpur_sac_config_members, offsetof(gpur_train_settings, sac)},
    .math = offsetof(gpur_train_settings, sac.math),
    .source = offsetof(gpur_train_settings, sac.index_source),
    .fill = fill_sac,
    .complete = complete_sac,
    .open = open_sac,
};
