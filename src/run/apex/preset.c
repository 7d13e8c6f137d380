/* SPDX-License-Identifier: MIT */
/* The settings of whole systems: replay, learner and Ape-X, for an environment. */
#include "gpureplay/apex.h"

#include "base/numbers.h"
#include "base/sized.h"
#include "run/action_vectors.h"
#include "run/core.h"
#include "run/presets.h"

#include <string.h>

/* Copies of the caller's configs, which have every member of this version. */
typedef struct preset {
    gpur_preset base;
    gpur_field fields[GPUR_APEX_FIELDS];
    gpur_replay_config replay;
    gpur_dqn_config learner; /* of Ape-X DQN */
    gpur_dpg_config dpg;     /* of Ape-X DPG */
    gpur_apex_config apex;
} preset;

/* A preset by its name. */
typedef struct system_entry {
    const char *name;
    gpur_status (*set)(preset *p); /* what is its own */
    int is_dpg;
} system_entry;

/* A ring 1/16 above the soft capacity, so that between two trims nothing is overwritten: at the paper's rates 100 train
 * steps see 6,600 transitions, and its median real size was 2,035,050. The oldest leave, as in its Atari games; the
 * exponent of the other eviction is that of its appendix D. */
static void set_capacity(preset *p, int64_t soft_capacity)
{
    p->replay.eviction = GPUR_EVICT_OLDEST;
    p->replay.evict_alpha = -0.4f;
    p->apex.soft_capacity = soft_capacity;
    p->replay.capacity = soft_capacity + soft_capacity / 16;
}

static gpur_status set_apex_dqn(preset *p)
{
    GPUR_TRY(gpur_preset_check_frames(&p->base));
    GPUR_TRY(gpur_replay_config_preset(&p->replay, "apex-dqn"));
    GPUR_TRY(gpur_dqn_config_preset(&p->learner, "apex-dqn"));
    set_capacity(p, p->replay.capacity);
    return GPUR_OK;
}

/* n-step returns and priorities as in the paper, whatever the size. */
static void set_replay(preset *p, int64_t soft_capacity, int64_t min_size)
{
    gpur_replay_config *const replay = &p->replay;
    set_capacity(p, soft_capacity);
    replay->min_size = min_size;
    replay->gamma = 0.99f;
    replay->n_step = 3;
    replay->prioritized = 1;
    replay->alpha = 0.6f;
    replay->priority_offset = 1e-6f;
    replay->first_priority = GPUR_FIRST_PRIORITY_WINDOW;
    replay->beta = (gpur_schedule){.first = 0.4f, .last = 0.4f};
}

/* The last layer of the small network becomes the two branches of the dueling head. */
static void set_small_learner(preset *p)
{
    gpur_dqn_config *const learner = &p->learner;
    gpur_preset_set_small_network(&p->base, &learner->network);
    learner->network.trunk_count = 1;
    learner->network.head = GPUR_HEAD_DUELING;
    learner->network.hidden = 128;
    learner->network.hidden_activation = GPUR_RELU;
    learner->optimizer.kind = GPUR_ADAM;
    learner->optimizer.learning_rate = (gpur_schedule){.first = 1e-3f, .last = 1e-3f};
    learner->optimizer.clip_norm = 10.0f;
    learner->double_dqn = 1;
    learner->loss = GPUR_LOSS_HUBER;
    learner->index_source = GPUR_PRIORITIZED_STRATIFIED;
    learner->beta = (gpur_schedule){.first = 1.0f, .last = 1.0f};
    learner->batch_size = 32;
    learner->target_period = 250;
    learner->exploration = (gpur_schedule){.first = 0.4f, .last = 0.4f};
}

/* All settings that are not those of Ape-X are of "fast-dqn-small", with its optimizer and loss, and a train step every
 * 4 environment steps, so that the two systems can be compared after equal steps. The learning rate was chosen by runs
 * with and without priorities, those with them by beta 1 (docs/ape-x.md). */
static gpur_status set_apex_dqn_small(preset *p)
{
    set_replay(p, 100000, 5000);
    set_small_learner(p);
    p->apex.samples_per_insert = (double)p->learner.batch_size / 4.0;
    p->apex.rows_under_way =
        gpur_apex_rows_under_way(p->apex.samples_per_insert, p->learner.batch_size, p->learner.target_period);
    p->base.run.eval_period = 50000;
    return GPUR_OK;
}

/* The defaults are the constants of Horgan et al. 2018; evaluations are those of the other presets, by the epsilon of
 * its appendix B: 0.4^7. */
static gpur_status set_apex(preset *p)
{
    gpur_apex_config paper, *const apex = &p->apex;
    gpur_run_config all;
    GPUR_TRY(gpur_apex_config_init(&paper, sizeof paper));
    paper.actors = apex->actors;
    paper.remote_actors = apex->remote_actors;
    paper.command = apex->command;
    paper.folder = apex->folder;
    *apex = paper;
    GPUR_TRY(gpur_run_config_init(&all, sizeof all));
    p->base.run.eval_period = all.eval_period, p->base.run.eval_episodes = all.eval_episodes;
    p->base.run.eval_epsilon = 0.0016384f;
    return GPUR_OK;
}

static void add_fields(preset *p)
{
    static const gpur_field more[] = {{"discount", GPUR_FLOAT32, {0}}, {"priority", GPUR_FLOAT32, {0}}};
    _Static_assert(GPUR_PRESET_FIELDS + sizeof more / sizeof *more == GPUR_APEX_FIELDS, "as the header says");
    memcpy(p->fields + GPUR_PRESET_FIELDS, more, sizeof more);
    p->replay.field_count = GPUR_APEX_FIELDS;
}

/* Each block repeats frames of the one before, so that the ring has fewer transitions without these. */
static void set_extra_frames(preset *p)
{
    const gpur_replay_config *const c = &p->replay;
    const int64_t repeated = c->capacity * (c->frame_stack + c->n_step - 1) / p->apex.block_rows;
    p->replay.extra_frames = c->layout == GPUR_LAYOUT_FRAMES ? repeated + c->capacity / 64 : 0;
}

static gpur_status set_dqn_system(preset *p, const system_entry *system)
{
    GPUR_TRY(gpur_preset_check_env(&p->base));
    GPUR_TRY(set_apex(p));
    p->learner.returns.cache_size = 0;
    GPUR_TRY(system->set(p));
    p->learner.network.num_actions = p->base.info.action.num_actions;
    p->learner.math = gpur_preset_math(&p->base);
    gpur_preset_set_layout(&p->base, p->fields, &p->replay);
    set_extra_frames(p);
    add_fields(p);
    return GPUR_OK;
}

/* Ape-X DPG. */

/* The learner's defaults are the paper's. What is of the caller's program stays. */
static gpur_status set_dpg(gpur_dpg_config *dpg)
{
    gpur_dpg_config paper;
    GPUR_TRY(gpur_dpg_config_init(&paper, sizeof paper));
    paper.seed = dpg->seed;
    paper.index_source = GPUR_PRIORITIZED_STRATIFIED;
    *dpg = paper;
    return GPUR_OK;
}

/* Appendix D. Frames are steps here: actions are not repeated. */
static gpur_status set_apex_dpg(preset *p)
{
    set_replay(p, 1000000, 50000);
    p->replay.first_priority = GPUR_FIRST_PRIORITY_EVER;
    p->replay.eviction = GPUR_EVICT_BY_PRIORITY;
    p->dpg.actor_optimizer.clip_norm = p->dpg.critic_optimizer.clip_norm = 40.0f; /* as per DQN */
    p->apex.pull_period = 400;
    p->apex.max_episode_steps = 50000;
    return GPUR_OK;
}

static void set_small_network(gpur_network_config *network, gpur_optimizer_config *optimizer)
{
    const gpur_layer layer = {.kind = GPUR_DENSE, .units = 128, .activation = GPUR_RELU};
    network->trunk[0] = network->trunk[1] = layer;
    optimizer->learning_rate = (gpur_schedule){.first = 1e-3f, .last = 1e-3f};
}

static gpur_status set_apex_dpg_small(preset *p)
{
    set_replay(p, 100000, 2000);
    set_small_network(&p->dpg.actor, &p->dpg.actor_optimizer);
    set_small_network(&p->dpg.critic, &p->dpg.critic_optimizer);
    p->dpg.actor.init = GPUR_INIT_NORMAL; /* with larger weights its actions can end at their bounds, and stay there */
    p->dpg.actor.init_scale = 0.03f;
    p->dpg.preactivation_penalty = 1e-4f; /* else its actions end at their bounds later */
    p->dpg.batch_size = 64;
    p->replay.n_step = 5;
    p->apex.samples_per_insert = (double)p->dpg.batch_size; /* a train step an environment step */
    p->apex.rows_under_way =
        gpur_apex_rows_under_way(p->apex.samples_per_insert, p->dpg.batch_size, p->dpg.target_period);
    p->base.run.eval_period = 20000;
    return GPUR_OK;
}

static gpur_status set_dpg_system(preset *p, const system_entry *system)
{
    GPUR_REQUIRE(p->base.info.obs.dtype == GPUR_FLOAT32,
                 "%s: the dtype of its observations is %d; it must be GPUR_FLOAT32", p->base.env_name,
                 (int)p->base.info.obs.dtype);
    GPUR_TRY(set_apex(p));
    GPUR_TRY(set_dpg(&p->dpg));
    p->dpg.math = gpur_preset_math(&p->base);
    p->dpg.actor.num_actions = (int32_t)gpur_min(gpur_space_numbers(&p->base.info.action), INT32_MAX);
    GPUR_TRY(gpur_prefix_error(gpur_action_check(&p->base.info.action, &p->dpg.actor), "%s", p->base.env_name));
    GPUR_TRY(system->set(p));
    p->base.is_frame = 0; /* a table of numbers is no image */
    gpur_preset_set_layout(&p->base, p->fields, &p->replay);
    p->replay.extra_frames = 0;
    p->fields[1] = (gpur_field){"action", GPUR_FLOAT32, {p->dpg.actor.num_actions}};
    add_fields(p);
    return GPUR_OK;
}

/* The presets. */

static const system_entry systems[] = {
    {"apex-dqn", set_apex_dqn, 0},
    {"apex-dqn-small", set_apex_dqn_small, 0},
    {"apex-dpg", set_apex_dpg, 1},
    {"apex-dpg-small", set_apex_dpg_small, 1},
};

static const system_entry *find_system(const char *name)
{
    for (size_t i = 0; i < sizeof systems / sizeof *systems; i++)
        if (strcmp(systems[i].name, name) == 0)
            return &systems[i];
    return NULL;
}

static gpur_status read_configs(preset *p, const gpur_replay_config *replay, const gpur_apex_config *apex)
{
    GPUR_TRY(gpur_replay_config_init(&p->replay, sizeof p->replay));
    GPUR_TRY(gpur_apex_config_init(&p->apex, sizeof p->apex));
    GPUR_TRY(gpur_sized_read(&p->replay, sizeof p->replay, replay, "gpur_replay_config"));
    return gpur_sized_read(&p->apex, sizeof p->apex, apex, "gpur_apex_config");
}

/* Gives the caller what was not refused. */
static gpur_status write_configs(preset *p, gpur_run_config *run, gpur_field *fields, gpur_replay_config *replay,
                                 gpur_apex_config *apex)
{
    p->replay.fields = fields;
    memcpy(fields, p->fields, sizeof p->fields);
    GPUR_TRY(gpur_sized_write(run, &p->base.run, sizeof p->base.run, "gpur_run_config"));
    GPUR_TRY(gpur_sized_write(replay, &p->replay, sizeof p->replay, "gpur_replay_config"));
    return gpur_sized_write(apex, &p->apex, sizeof p->apex, "gpur_apex_config");
}

static gpur_status set_dqn_config(preset *p, const system_entry *system, gpur_dqn_config *dqn)
{
    GPUR_REQUIRE(dqn, "dqn is NULL; preset \"%s\" sets it", p->base.name);
    GPUR_TRY(gpur_dqn_config_init(&p->learner, sizeof p->learner));
    GPUR_TRY(gpur_sized_read(&p->learner, sizeof p->learner, dqn, "gpur_dqn_config"));
    GPUR_TRY(set_dqn_system(p, system));
    return gpur_sized_write(dqn, &p->learner, sizeof p->learner, "gpur_dqn_config");
}

static gpur_status set_dpg_config(preset *p, const system_entry *system, gpur_dpg_config *dpg)
{
    GPUR_REQUIRE(dpg, "dpg is NULL; preset \"%s\" sets it", p->base.name);
    GPUR_TRY(gpur_dpg_config_init(&p->dpg, sizeof p->dpg));
    GPUR_TRY(gpur_sized_read(&p->dpg, sizeof p->dpg, dpg, "gpur_dpg_config"));
    GPUR_TRY(set_dpg_system(p, system));
    return gpur_sized_write(dpg, &p->dpg, sizeof p->dpg, "gpur_dpg_config");
}

gpur_status gpur_apex_set_dpg(const char *name, const char *env_name, const gpur_env_info *info, gpur_dpg_config *dpg)
{
    preset p = {.fields = {{0}}};
    gpur_preset_use_info(&p.base, name, env_name, info);
    GPUR_TRY(gpur_replay_config_init(&p.replay, sizeof p.replay));
    GPUR_TRY(gpur_apex_config_init(&p.apex, sizeof p.apex));
    GPUR_TRY(gpur_dpg_config_init(&p.dpg, sizeof p.dpg));
    GPUR_TRY(set_dpg_system(&p, find_system(name)));
    *dpg = p.dpg;
    return GPUR_OK;
}

gpur_status gpur_apex_preset(const char *name, gpur_run_config *run, gpur_field fields[GPUR_APEX_FIELDS],
                             gpur_replay_config *replay, gpur_dqn_config *dqn, gpur_dpg_config *dpg,
                             gpur_apex_config *apex)
{
    preset p = {.fields = {{0}}};
    GPUR_REQUIRE(name && run && fields && replay && apex, "an argument is NULL; none but dqn or dpg may be");
    const system_entry *const system = find_system(name);
    if (!system)
        return gpur_preset_refuse(name, 1 << GPUR_PRESET_APEX_DQN | 1 << GPUR_PRESET_APEX_DPG);
    GPUR_TRY(gpur_preset_open(&p.base, name, run));
    GPUR_TRY(gpur_run_require_type(&p.base.run, "Ape-X"));
    GPUR_TRY(read_configs(&p, replay, apex));
    GPUR_TRY(system->is_dpg ? set_dpg_config(&p, system, dpg) : set_dqn_config(&p, system, dqn));
    return write_configs(&p, run, fields, replay, apex);
}
