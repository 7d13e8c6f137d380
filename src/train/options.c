/* SPDX-License-Identifier: MIT */
/* The table of options, their values, and options.txt in the folder of a run. */
#include "train/options.h"

#include "gpureplay/training.h"
#include "train/files.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char file_name[] = "options.txt";

/* The table. */

/* Sets of estimators. */
enum {
    WITH_LAMBDA = 1 << GPUR_ESTIMATOR_PENG | 1 << GPUR_ESTIMATOR_WATKINS,
    WITH_N_STEP = 1 << GPUR_ESTIMATOR_N_STEP,
    WITH_ERROR_BOUND = 1 << GPUR_ESTIMATOR_PENG_ERROR_BOUND | 1 << GPUR_ESTIMATOR_WATKINS_ERROR_BOUND,
    WITH_ANY = ~0,
};

#define AT(member) offsetof(gpur_train_settings, member)

#define ROW(name_, value_, systems_, kind_, member_, ...)                                                              \
    {                                                                                                                  \
        .name = name_, .value = value_, .systems = systems_, .kind = GPUR_OPTION_##kind_, .at = AT(member_),           \
        .meaning = __VA_ARGS__                                                                                         \
    }

/* The systems, without the prefix. */
enum {
    ALL = GPUR_IN_ALL,
    FAST_DQN = GPUR_IN_FAST_DQN,
    DPG = GPUR_IN_DPG,
    SAC = GPUR_IN_SAC,
    LANES = GPUR_IN_LANES,
    APEX = GPUR_IN_APEX,
    APEX_DQN = GPUR_IN_APEX_DQN,
    APEX_DPG = GPUR_IN_APEX_DPG,
    DQN = GPUR_IN_DQN,
    REPLAY = GPUR_IN_REPLAY,
    GA3C = GPUR_IN_GA3C,
    ACTOR_CRITIC = GPUR_IN_ACTOR_CRITIC,
    OFFLINE = GPUR_IN_OFFLINE,
    OFFLINE_DQN = GPUR_IN_OFFLINE_DQN,
    OFFLINE_DPG = GPUR_IN_OFFLINE_DPG,
    ANY_DQN = GPUR_IN_ANY_DQN,
    ANY_DPG = GPUR_IN_ANY_DPG,
    ANY_SAC = GPUR_IN_ANY_SAC,
};

/* Sets of heads. */
enum { WITH_ATOMS = 1 << GPUR_HEAD_QUANTILES | 1 << GPUR_HEAD_CATEGORICAL, WITH_RETURNS = 1 << GPUR_HEAD_CATEGORICAL };

#define MATH_MEANING                                                                                                   \
    "arithmetic of matrix products and convolutions on a GPU; auto: tf32, or fp32 where a train step is one kernel, "  \
    "and on the CPU fp32. A run keeps what it began with"

#define DECAY_MEANING "of Adam, which is AdamW then: w -= learning rate X w in each train step; 0: none"
#define RATE_MEANING "of a copy to a target network, target += X (weights - target), above 0; 1: a copy"
#define ATOMS_MEANING "numbers of a distribution; 0: 200 quantiles, or 51 returns"
#define V_MIN_MEANING "the smallest of the returns of categorical distributions; it and v_max 0: -10 and 10"
#define V_MAX_MEANING "the largest"
#define RATIO_MEANING "that part, which must be a whole number of transitions"

/* The order is that of the file and of the help. */
static const gpur_option table[] = {
    ROW("env", "NAME", ALL, TEXT, env_name, "a game of --list, or a plug-in: ./games.so or ./games.so:Corridor"),
    ROW("env_options", "LIST", ALL, TEXT, env_options, "the environment's: a=1,b=2"),
    ROW("preset", "NAME", ALL, TEXT, preset, "the system, and its settings"),
    ROW("device", "NAME", ALL, TEXT, device, "auto (a GPU if there is one), cpu, cuda:N"),
    ROW("threads", "N", ALL, INT32, threads, "threads that compute on the CPU; 0: as many as there are cores",
        .high = 1024),
    ROW("math", "fp32|tf32|bf16|auto", ANY_DQN, WORD, dqn.math, MATH_MEANING),
    ROW("math", "fp32|tf32|bf16|auto", ANY_DPG, WORD, dpg.math, MATH_MEANING),
    ROW("math", "fp32|tf32|bf16|auto", ANY_SAC, WORD, sac.math, MATH_MEANING),
    ROW("math", "fp32|tf32|bf16|auto", ACTOR_CRITIC, WORD, actor_critic.math, MATH_MEANING),
    ROW("deterministic", "0|1", LANES | OFFLINE, SWITCH, deterministic,
        "1: the same results each time on a GPU, too, by slower kernels"),
    ROW("deterministic", "0|1", ACTOR_CRITIC, SWITCH, deterministic,
        "1: slower kernels on a GPU, which give equal results for equal inputs"),
    ROW("seed", "N", ALL, INT64, seed, "of everything random", .high = INT64_MAX),
    ROW("steps", "N", LANES, INT64, steps, "environment steps to take after the random ones", .low = 1),
    ROW("steps", "N", APEX, INT64, steps,
        "environment steps of all actors together; as they come in blocks, a run takes somewhat more", .low = 1),
    ROW("steps", "N", ACTOR_CRITIC, INT64, steps, "environment steps of all agents together", .low = 1),
    ROW("steps", "N", OFFLINE, INT64, steps, "train steps", .low = 1),
    ROW("data", "FILE", OFFLINE, TEXT, data,
        "the file of a replay, whose transitions it trains on; an environment, where given, plays evaluations"),
    ROW("num_actions", "N", OFFLINE_DQN, INT32, dqn.network.num_actions,
        "actions there are, where no environment tells it; without it 1 more than the largest in the data", .low = 1),
    ROW("num_envs", "W", LANES, INT32, fast_dqn.num_envs, "environments", .low = 1, .high = 4096),
    ROW("env_threads", "N", LANES, INT32, fast_dqn.threads,
        "threads that step environments; 0: one for each environment, at most 64", .high = 4096),
    ROW("concurrent", "0|1", LANES, SWITCH, fast_dqn.concurrent, "1: train while the environments step"),
    ROW("synchronized", "0|1", LANES, SWITCH, fast_dqn.synchronized,
        "1: one inference for all environments; needs 2 of them"),
    ROW("burst", "0|1", LANES, SWITCH, fast_dqn.burst,
        "1: the C / F train steps of every C steps are done at their beginning; excludes concurrent 1"),
    ROW("act", "latest|target", FAST_DQN, WORD, act,
        "act by the network that is trained, or by the target network; with concurrent 1 always by the target network, "
        "if there is one"),
    ROW("whole_episodes", "0|1", LANES, SWITCH, fast_dqn.whole_episodes,
        "1: only the steps of finished episodes go to the replay"),
    ROW("target_period", "C", FAST_DQN, INT64, fast_dqn.target_period,
        "steps between copies to the target network, or refreshes of a cache of returns", .low = 1),
    ROW("target_period", "N", APEX_DQN | OFFLINE_DQN, INT64, dqn.target_period,
        "train steps between copies to the target network", .low = 1),
    ROW("target_period", "N", ANY_DPG, INT64, dpg.target_period, "train steps between copies to the target networks",
        .low = 1),
    ROW("target_rate", "X", ANY_DQN, FLOAT, dqn.target_rate, RATE_MEANING, .high = 1),
    ROW("target_period", "N", ANY_SAC, INT64, sac.target_period, "train steps between copies to the target networks",
        .low = 1),
    ROW("target_rate", "X", ANY_SAC, FLOAT, sac.target_rate, RATE_MEANING, .high = 1),
    ROW("target_rate", "X", ANY_DPG, FLOAT, dpg.target_rate, RATE_MEANING, .high = 1),
    ROW("period", "C", DPG | SAC, INT64, fast_dqn.target_period,
        "evaluations and checkpoints are at multiples of so many steps; with concurrent 1 the environments act by the "
        "weights of its beginning",
        .low = 1),
    ROW("train_period", "F", LANES, INT64, fast_dqn.train_period, "steps for each train step", .low = 1),
    ROW("train_steps", "K", LANES, INT64, fast_dqn.train_steps, "train steps for each F steps, in place of one",
        .low = 1, .high = 65536),
    ROW("prepopulation", "N", LANES, INT64, fast_dqn.prepopulation, "random steps before the first step", .low = 1),
    ROW("prepopulation", "N", APEX, INT64, replay.min_size, "transitions before the first train step", .low = 1),
    ROW("eval_period", "N", REPLAY | OFFLINE, INT64, all.eval_period, "steps between evaluations; 0: only at the end"),
    ROW("eval_episodes", "N", ALL, INT64, all.eval_episodes, "episodes of an evaluation; 0: no evaluations"),
    ROW("capacity", "N", LANES, INT64, replay.capacity, "transitions in the replay", .low = 2),
    ROW("capacity", "N", APEX, INT64, apex.soft_capacity,
        "transitions to which the replay is trimmed; its ring is 1/16 larger", .low = 2),
    ROW("frame_stack", "N", DQN, INT32, replay.frame_stack,
        "frames of an observation, where the environment shows one image without channels", .low = 1,
        .high = GPUR_MAX_STACK, .needs_stack = 1),
    ROW("batch", "N", ANY_DQN, INT64, dqn.batch_size, "transitions of a train step", .low = 1),
    ROW("batch", "N", ANY_SAC, INT64, sac.batch_size, "transitions of a train step", .low = 1),
    ROW("batch", "N", ANY_DPG, INT64, dpg.batch_size, "transitions of a train step", .low = 1),
    ROW("demonstrations", "FILE", REPLAY, TEXT, demonstrations,
        "the file of a replay, such as that of a checkpoint, from which a part of each batch is drawn"),
    ROW("demonstration_ratio", "X", DQN, FLOAT, dqn.demonstration_ratio, RATIO_MEANING, .high = 1,
        .needs_demonstrations = 1),
    ROW("demonstration_ratio", "X", SAC, FLOAT, sac.demonstration_ratio, RATIO_MEANING, .high = 1,
        .needs_demonstrations = 1),
    ROW("demonstration_ratio", "X", APEX_DPG | DPG, FLOAT, dpg.demonstration_ratio, RATIO_MEANING, .high = 1,
        .needs_demonstrations = 1),
    ROW("learning_rate", "X", ANY_DQN, FLOAT, dqn.optimizer.learning_rate.first, "of the optimizer"),
    ROW("learning_rate", "X", APEX_DPG | OFFLINE_DPG, FLOAT, dpg.actor_optimizer.learning_rate.first,
        "of the optimizers of both networks"),
    ROW("learning_rate", "X", DPG, FLOAT, dpg.actor_optimizer.learning_rate.first, "of the actor's optimizer"),
    ROW("learning_rate", "X", ANY_SAC, FLOAT, sac.actor_optimizer.learning_rate.first,
        "of the optimizers of all networks"),
    ROW("critic_learning_rate", "X", DPG, FLOAT, dpg.critic_optimizer.learning_rate.first, "of the critic's"),
    ROW("learning_rate", "X", ACTOR_CRITIC, FLOAT, actor_critic.optimizer.learning_rate.first, "of the optimizer"),
    ROW("weight_decay", "X", ANY_DQN, DOUBLE, dqn.optimizer.weight_decay, DECAY_MEANING),
    ROW("weight_decay", "X", ANY_SAC, DOUBLE, sac.actor_optimizer.weight_decay, DECAY_MEANING),
    ROW("weight_decay", "X", ANY_DPG, DOUBLE, dpg.actor_optimizer.weight_decay, DECAY_MEANING),
    ROW("optimizer", "adam|rmsprop_tf|rmsprop_keras2|rmsprop_torch|rmsprop_deepmind|adam_tf", ANY_DQN, WORD,
        dqn.optimizer.kind, "its formula; the other constants of the optimizer stay the preset's"),
    ROW("exploration_steps", "N", FAST_DQN, INT64, exploration_steps,
        "steps in which epsilon falls to its last value; 0: it has that from step 1 on"),
    ROW("estimator", "peng|n-step|watkins|peng-median|watkins-median|peng-error-bound|watkins-error-bound", FAST_DQN,
        WORD, dqn.returns.estimator, "of the returns of several steps", .estimators = WITH_ANY),
    ROW("lambda", "X", FAST_DQN, FLOAT, dqn.returns.lambda,
        "of the estimators peng and watkins, 0 to 1; it must be given", .high = 1, .estimators = WITH_LAMBDA),
    ROW("n_step", "N", FAST_DQN, INT32, dqn.returns.n_step, "of the estimator n-step", .low = 1,
        .estimators = WITH_N_STEP),
    ROW("n_step", "N", DPG | SAC, INT32, replay.n_step, "steps of a transition's return", .low = 1),
    ROW("gamma", "X", DPG | SAC, FLOAT, replay.gamma, "the discount of a step", .high = 1),
    ROW("hidden", "LIST", DPG | SAC, TEXT, hidden, "a,b,...: the units of the layers of both networks"),
    ROW("critic_head", "q|quantiles|categorical", DPG | SAC, WORD, critic_head,
        "critics learn the value of an action, or the distribution of its returns"),
    ROW("atoms", "N", FAST_DQN | OFFLINE_DQN, INT32, dqn.network.atoms, ATOMS_MEANING, .high = 65536,
        .heads = WITH_ATOMS),
    ROW("atoms", "N", DPG, INT32, dpg.critic.atoms, ATOMS_MEANING, .high = 65536, .heads = WITH_ATOMS),
    ROW("atoms", "N", SAC, INT32, sac.critic.atoms, ATOMS_MEANING, .high = 65536, .heads = WITH_ATOMS),
    ROW("v_min", "X", FAST_DQN | OFFLINE_DQN, FLOAT, dqn.network.v_min, V_MIN_MEANING, .heads = WITH_RETURNS,
        .is_signed = 1),
    ROW("v_min", "X", DPG, FLOAT, dpg.critic.v_min, V_MIN_MEANING, .heads = WITH_RETURNS, .is_signed = 1),
    ROW("v_min", "X", SAC, FLOAT, sac.critic.v_min, V_MIN_MEANING, .heads = WITH_RETURNS, .is_signed = 1),
    ROW("v_max", "X", FAST_DQN | OFFLINE_DQN, FLOAT, dqn.network.v_max, V_MAX_MEANING, .heads = WITH_RETURNS,
        .is_signed = 1),
    ROW("v_max", "X", DPG, FLOAT, dpg.critic.v_max, V_MAX_MEANING, .heads = WITH_RETURNS, .is_signed = 1),
    ROW("v_max", "X", SAC, FLOAT, sac.critic.v_max, V_MAX_MEANING, .heads = WITH_RETURNS, .is_signed = 1),
    ROW("n_step", "N", OFFLINE, INT32, rows.config.n_step, "steps of a transition, as the data have it", .low = 1),
    ROW("error_bound", "X", FAST_DQN, FLOAT, dqn.returns.error_bound, "of the two estimators with error-bound",
        .estimators = WITH_ERROR_BOUND),
    ROW("block_length", "B", FAST_DQN, INT64, dqn.returns.block_length,
        "successive transitions of a block of the cache of returns", .low = 1, .high = INT32_MAX,
        .estimators = WITH_ANY),
    ROW("cache_size", "S", FAST_DQN, INT64, cache_size,
        "returns in the cache, a multiple of B; without it as many as the C / F train steps draw, in whole blocks",
        .low = 1, .high = INT32_MAX, .estimators = WITH_ANY),
    ROW("storage", "virtual|physical", FAST_DQN, WORD, dqn.returns.storage,
        "the cache has of each return the row of the replay, or a copy of its observation and action",
        .estimators = WITH_ANY),
    ROW("draw", "permutation|replacement", FAST_DQN, WORD, dqn.returns.draw,
        "batches have each return of the cache once, or draw any at random", .estimators = WITH_ANY),
    ROW("prioritization", "P", FAST_DQN, FLOAT, dqn.returns.prioritization.first,
        "returns with errors above their median are drawn with the weight 1 + P, those below with 1 - P, 0 to 1; above "
        "0 it needs draw replacement",
        .high = 1, .estimators = WITH_ANY),
    ROW("prioritization_steps", "N", FAST_DQN, INT64, dqn.returns.prioritization.steps,
        "train steps in which P falls to 0; 0: it stays", .estimators = WITH_ANY),
    ROW("truncation_terminates", "0|1", FAST_DQN, SWITCH, dqn.returns.truncation_terminates,
        "1: a truncated episode counts as terminated; 0: its return goes on with the value of its last observation",
        .estimators = WITH_ANY),
    ROW("checkpoint", "N", LANES, INT64, checkpoint, "steps between checkpoints, a multiple of C; 0: none"),
    ROW("checkpoint", "N", APEX | ACTOR_CRITIC | OFFLINE, INT64, checkpoint, "steps between checkpoints; 0: none"),
    ROW("actors", "N", APEX, INT32, apex.actors,
        "how many actors this program starts, each with an environment and an epsilon of its own. With a folder it may "
        "be 0",
        .high = GPUR_APEX_MAX_ACTORS),
    ROW("processes", "0|1", APEX, SWITCH, processes, "1: each actor is a process; 0: a thread"),
    ROW("samples_per_insert", "X", APEX, DOUBLE, apex.samples_per_insert,
        "transitions learned for each one received: the side that is ahead waits; 0: nobody waits"),
    ROW("initial_priorities", "max|td", APEX, WORD, apex.initial_priorities,
        "priorities of new transitions: the actors' TD errors, or the largest one"),
    ROW("prioritized", "0|1", APEX, SWITCH, prioritized, "0: the learner draws uniformly"),
    ROW("prioritized", "0|1", OFFLINE, SWITCH, prioritized,
        "1: draws by priority, where the data have priorities; 0: uniformly"),
    ROW("replicate", "K", APEX, INT32, apex.replicate,
        "how often each transition is stored, as if there were K times as many actors", .low = 1, .high = 64),
    ROW("epsilons", "LIST", APEX_DQN, TEXT, epsilons_text,
        "a,b,...: actor i acts with that of place i mod their number, instead of with 0.4^(1 + 7 i / (N - 1))"),
    ROW("sigma", "X", APEX_DPG, FLOAT, apex.sigma,
        "standard deviation of the actors' noise, where actions are -1 to 1"),
    ROW("sigma", "X", DPG, FLOAT, fast_dqn.sigma, "standard deviation of the noise, where actions are -1 to 1"),
    ROW("temperature", "X", ANY_SAC, FLOAT, sac.temperature, "alpha, with which training begins"),
    ROW("fixed_temperature", "0|1", ANY_SAC, SWITCH, sac.fixed_temperature,
        "1: alpha stays what it is; 0: it is learned"),
    ROW("target_entropy", "X", ANY_SAC, FLOAT, sac.target_entropy,
        "the policy's entropy for each number of an action, near which a learned alpha keeps it", .is_signed = 1),
    ROW("policy_delay", "N", DPG | OFFLINE_DPG, INT32, dpg.policy_delay,
        "the actor is trained, and the targets move, in every N-th train step", .low = 1, .high = 64),
    ROW("target_noise", "X", DPG | OFFLINE_DPG, FLOAT, dpg.target_noise,
        "standard deviation of the noise on the target's actions"),
    ROW("target_noise_clip", "X", DPG | OFFLINE_DPG, FLOAT, dpg.target_noise_clip, "its bound; 0: none"),
    ROW("eviction", "oldest|priority", APEX_DPG, WORD, replay.eviction,
        "which transitions leave when there are too many: the oldest, or those drawn by priority^-0.4"),
    ROW("second_activation", "none|relu|tanh", APEX_DPG, WORD, dpg.actor.trunk[1].activation,
        "the activation of the second layers of both networks; the paper names none"),
    ROW("compression", "LEVEL", APEX, INT32, apex.compression, "of blocks by Zstandard, 1 to 19; 0: none", .high = 19),
    ROW("pull_period", "N", APEX, INT64, apex.pull_period, "steps of an actor between two looks for newer weights",
        .low = 1),
    ROW("folder", "FOLDER", APEX, TEXT, apex.folder, "the learner also takes what remote actors leave in this folder"),
    ROW("agents", "N", ACTOR_CRITIC, INT32, ga3c.agents, "agents, each with an environment of its own", .low = 1,
        .high = GPUR_GA3C_MAX_AGENTS),
    ROW("predictors", "N", GA3C, INT32, ga3c.predictors, "threads that predict for agents", .low = 1,
        .high = GPUR_GA3C_MAX_PREDICTORS),
    ROW("trainers", "N", GA3C, INT32, ga3c.trainers, "threads that train on rollouts", .low = 1,
        .high = GPUR_GA3C_MAX_TRAINERS),
    ROW("t_max", "N", ACTOR_CRITIC, INT32, ga3c.t_max, "steps of a rollout", .low = 1, .high = GPUR_GA3C_MAX_ROLLOUT),
    ROW("min_train_batch", "N", GA3C, INT32, ga3c.min_train_batch,
        "a train step has rollouts of more than N steps together; 0: one rollout",
        .high = GPUR_MAX_ACTOR_CRITIC_BATCH - GPUR_GA3C_MAX_ROLLOUT),
    ROW("queue_room", "N", GA3C, INT32, ga3c.queue_room, "rollouts that the training queue holds", .low = 1,
        .high = 65536),
    ROW("when_full", "wait|refuse|drop-oldest", GA3C, WORD, ga3c.when_full,
        "when that queue is full, agents wait, or the new rollout is lost, or the oldest"),
    ROW("tuner", "none|paper|code", GA3C, WORD, ga3c.tuner,
        "changes the numbers of agents, predictors and trainers at random, and keeps what trains on more rollouts a "
        "second: one of the three at a time, or as the authors' code all"),
    ROW("tuner_period", "X", GA3C, DOUBLE, ga3c.tuner_period,
        "seconds of a measurement of the tuner; 0: 60, of code 20"),
    ROW("entropy", "X", ACTOR_CRITIC, FLOAT, actor_critic.entropy.first, "weight of the entropy in the loss"),
};
enum { ROWS = sizeof table / sizeof *table };

const gpur_option *gpur_option_at(int32_t system, int32_t i)
{
    for (int32_t row = 0; row < ROWS; row++)
        if (table[row].systems & 1 << system && i-- == 0)
            return &table[row];
    return NULL;
}

/* The first row of a set of systems that has this name. */
static const gpur_option *find(const char *name, int32_t systems)
{
    for (int32_t row = 0; row < ROWS; row++)
        if (table[row].systems & systems && strcmp(table[row].name, name) == 0)
            return &table[row];
    return NULL;
}

const gpur_option *gpur_option_find(const char *name, int32_t system)
{
    return find(name, 1 << system);
}

const char *gpur_training_option_name(int32_t system, int32_t i)
{
    const gpur_option *const option = system < 0 || system >= GPUR_TRAIN_SYSTEMS ? NULL : gpur_option_at(system, i);
    return option ? option->name : NULL;
}

const char *gpur_training_option_value(const char *name)
{
    const gpur_option *const option = name ? find(name, ALL) : NULL;
    return option ? option->value : NULL;
}

/* Errors in the words of the door. */

void gpur_option_add_name(int32_t style, const char *name, gpur_text *text)
{
    const int is_program = style == GPUR_OPTIONS_OF_PROGRAM;
    gpur_text_add(text, "%s", is_program ? "--" : "");
    for (const char *c = name; *c; c++)
        gpur_text_add(text, "%c", is_program && *c == '_' ? '-' : *c);
    if (!is_program && strcmp(name, "lambda") == 0) /* a word of Python */
        gpur_text_add(text, "_");
}

/* Whether it is an option, or a member of gpur_training_config that doors write like one. */
static int is_name(const char *name)
{
    return find(name, ALL) || strcmp(name, "out") == 0 || strcmp(name, "resume") == 0 || strcmp(name, "refill") == 0;
}

/* Adds a message, with what is in braces in the words of the door. */
static void add_message(const gpur_options *o, const char *message, gpur_text *text)
{
    for (const char *at = message; *at;) {
        const size_t length = strcspn(at + 1, "= }"), end = strcspn(at + 1, "}");
        const int has_equals = end == length + 1, has_is = end == length + strlen(" is");
        char name[64] = "";
        if (*at == '{' && length < sizeof name && (end == length || has_equals || has_is))
            memcpy(name, at + 1, length);
        const gpur_option *const option = has_is ? gpur_option_find(name, o->system) : NULL;
        if (!is_name(name) || (has_is && !option)) {
            gpur_text_add(text, "%c", *at++);
            continue;
        }
        gpur_option_add_name(o->style, name, text);
        if (has_equals)
            gpur_text_add(text, "%c", o->style == GPUR_OPTIONS_OF_PROGRAM ? ' ' : '=');
        if (has_is) {
            gpur_text_add(text, " is ");
            gpur_option_add_value(option, o->settings, text);
        }
        at += end + 2;
    }
}

gpur_status gpur_refuse(const gpur_options *o, const char *format, ...)
{
    gpur_text text = {0};
    va_list arguments;
    char message[2048];
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    add_message(o, message, &text);
    const gpur_status status =
        gpur_fail(GPUR_INVALID_ARGUMENT, "%s", gpur_text_is_whole(&text) ? text.memory : message);
    gpur_text_free(&text);
    return status;
}

/* Values. */

void gpur_options_free(gpur_options *o)
{
    for (int32_t i = 0; i < o->count; i++) {
        free(o->given[i].name);
        free(o->given[i].value);
    }
    *o = (gpur_options){0};
}

static gpur_given *find_given(const gpur_options *o, const char *name)
{
    for (int32_t i = 0; i < o->count; i++)
        if (strcmp(o->given[i].name, name) == 0)
            return (gpur_given *)&o->given[i];
    return NULL;
}

const char *gpur_options_value(const gpur_options *o, const char *name)
{
    const gpur_given *const given = find_given(o, name);
    return given ? given->value : NULL;
}

static gpur_status add(gpur_options *o, const char *name, const char *value, int is_stored)
{
    gpur_given *const given = &o->given[o->count];
    GPUR_REQUIRE(o->count < GPUR_MAX_OPTIONS, "there are more than %d options", GPUR_MAX_OPTIONS);
    *given = (gpur_given){strdup(name), strdup(value), is_stored};
    o->count++;
    if (!given->name || !given->value)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for the value of %s", name);
    return GPUR_OK;
}

gpur_status gpur_options_add(gpur_options *o, const char *name, const char *value)
{
    if (!find(name, ALL))
        return gpur_refuse(o, "%s%s is not an option; --help lists them",
                           o->style == GPUR_OPTIONS_OF_PROGRAM ? "--" : "", name);
    if (find_given(o, name))
        return gpur_refuse(o, "{%s} is given twice", name);
    return add(o, name, value, 0);
}

gpur_status gpur_options_override(gpur_options *o, const char *name, const char *value)
{
    gpur_given *const given = find_given(o, name);
    if (!given)
        return add(o, name, value, 1);
    char *const copy = strdup(value);
    if (!copy)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for the value of %s", name);
    free(given->value);
    given->value = copy;
    return GPUR_OK;
}

/* A whole number, also as 1e6. Returns 0 if it is none. */
static int read_integer(const char *text, int64_t *number)
{
    char *end;
    errno = 0;
    const long long whole = strtoll(text, &end, 10);
    *number = whole;
    if (*text && !*end)
        return errno == 0;
    const double real = strtod(text, &end);
    *number = (int64_t)(fabs(real) < 9e15 ? real : 0.0);
    return *text && !*end && fabs(real) < 9e15 && real == floor(real);
}

static gpur_status put_integer(const gpur_options *o, const gpur_option *option, const char *value, void *at)
{
    int64_t number;
    const int64_t most = option->kind == GPUR_OPTION_SWITCH  ? 1
                         : option->high > 0                  ? option->high
                         : option->kind == GPUR_OPTION_INT32 ? INT32_MAX
                                                             : INT64_MAX / 4;
    const int is_right = read_integer(value, &number) && number >= option->low && number <= most;
    if (!is_right && option->kind == GPUR_OPTION_SWITCH)
        return gpur_refuse(o, "{%s} is \"%s\"; it must be 0 or 1", option->name, value);
    if (!is_right)
        return gpur_refuse(o, "{%s} is \"%s\"; it must be a whole number of %" PRId64 " to %" PRId64, option->name,
                           value, option->low, most);
    if (option->kind == GPUR_OPTION_INT64)
        *(int64_t *)at = number;
    else
        *(int32_t *)at = (int32_t)number;
    return GPUR_OK;
}

static gpur_status put_number(const gpur_options *o, const gpur_option *option, const char *value, void *at)
{
    char *end;
    const double number = strtod(value, &end);
    const int is_finite = *value && !*end && isfinite(number), is_number = is_finite && number >= 0.0;
    if (option->is_signed && !is_finite)
        return gpur_refuse(o, "{%s} is \"%s\"; it must be a number", option->name, value);
    if (option->high && !(is_number && number <= (double)option->high))
        return gpur_refuse(o, "{%s} is \"%s\"; it must be a number of 0 to %" PRId64, option->name, value,
                           option->high);
    if (!is_number && !option->is_signed)
        return gpur_refuse(o, "{%s} is \"%s\"; it must be a number of 0 or more", option->name, value);
    if (option->kind == GPUR_OPTION_FLOAT)
        *(float *)at = (float)number;
    else
        *(double *)at = number;
    return GPUR_OK;
}

/* `value` of the row has the words in the order of their numbers, as "wait|refuse". */
static gpur_status put_word(const gpur_options *o, const gpur_option *option, const char *value, void *at)
{
    gpur_text wanted = {0};
    int32_t number = 0;
    for (const char *word = option->value; *word; number++) {
        const size_t length = strcspn(word, "|");
        const int is_last = !word[length];
        if (length == strlen(value) && strncmp(word, value, length) == 0) {
            *(int32_t *)at = number;
            gpur_text_free(&wanted);
            return GPUR_OK;
        }
        gpur_text_add(&wanted, "%s%.*s", number == 0 ? "" : is_last ? " or " : ", ", (int)length, word);
        word += length + !is_last;
    }
    const gpur_status status =
        gpur_refuse(o, "{%s} is \"%s\"; it must be %s", option->name, value, gpur_text_of(&wanted));
    gpur_text_free(&wanted);
    return status;
}

static gpur_status put(const gpur_options *o, const gpur_option *option, const char *value, gpur_train_settings *s)
{
    void *const at = gpur_train_member(s, option->at);
    switch (option->kind) {
    case GPUR_OPTION_TEXT:
        if (!*value && option->at != AT(env_options))
            return gpur_refuse(o, "{%s} is empty; it must be %s", option->name, option->meaning);
        if (strchr(value, '\n'))
            return gpur_refuse(o, "{%s} has a line break in it; it must be one line", option->name);
        *(const char **)at = value;
        return GPUR_OK;
    case GPUR_OPTION_WORD:
        return put_word(o, option, value, at);
    case GPUR_OPTION_FLOAT:
    case GPUR_OPTION_DOUBLE:
        return put_number(o, option, value, at);
    default:
        return put_integer(o, option, value, at);
    }
}

static void add_word(const gpur_option *option, int32_t number, gpur_text *text)
{
    const char *word = option->value;
    while (number-- > 0)
        word = strchr(word, '|') + 1;
    gpur_text_add_bytes(text, word, strcspn(word, "|"));
}

void gpur_option_add_value(const gpur_option *option, const gpur_train_settings *s, gpur_text *text)
{
    const void *const at = gpur_train_member(s, option->at);
    switch (option->kind) {
    case GPUR_OPTION_TEXT:
        gpur_text_add(text, "%s", *(const char *const *)at ? *(const char *const *)at : "");
        return;
    case GPUR_OPTION_INT64:
        gpur_text_add(text, "%" PRId64, *(const int64_t *)at);
        return;
    case GPUR_OPTION_WORD:
        add_word(option, *(const int32_t *)at, text);
        return;
    case GPUR_OPTION_FLOAT:
        gpur_text_add_number(text, (double)*(const float *)at, GPUR_DIGITS_OF_FLOAT, "0");
        return;
    case GPUR_OPTION_DOUBLE:
        gpur_text_add_number(text, *(const double *)at, GPUR_DIGITS_OF_DOUBLE, "0");
        return;
    default:
        gpur_text_add(text, "%" PRId32, *(const int32_t *)at);
    }
}

/* Whether presets with a cache of returns have it, or those without. */
static int suits(const gpur_option *option, int has_cache)
{
    return has_cache ? !option->needs_demonstrations && option->at != AT(demonstrations) : !option->estimators;
}

int gpur_option_is_of_preset(const gpur_option *option, const gpur_train_settings *s)
{
    return suits(option, s->dqn.returns.cache_size > 0);
}

static int32_t head_of(const gpur_option *option, const gpur_train_settings *s)
{
    return option->systems & FAST_DQN ? s->dqn.network.head : gpur_train_critic_head(s);
}

/* Why it has no meaning with these settings, in words that follow its name and value; NULL: it has. */
static const char *reason_against(const gpur_option *option, const gpur_train_settings *s)
{
    if (!gpur_option_is_of_preset(option, s) && !option->estimators)
        return " and {preset is}, which draws from a cache of returns; leave the option out, or take a preset of "
               "fast-dqn, "
               "apex-dqn or apex-dpg";
    if (!gpur_option_is_of_preset(option, s))
        return " and {preset is}, which has no returns to estimate; leave the option out, or take dqn-lambda-2019, "
               "vrc-2021, dqn-lambda-2019-small or vrc-2021-small";
    if (option->estimators && !(option->estimators & 1 << s->dqn.returns.estimator))
        return " and {estimator is}, which does not have it; leave one of them out";
    if (option->heads && !(option->heads & 1 << head_of(option, s)) && strncmp(s->preset, "offline-", 8) == 0)
        return option->heads == WITH_RETURNS
                   ? " and {preset is}, which does not have it; leave the option out, or take offline-c51"
                   : " and {preset is}, which does not have it; leave the option out, or take offline-qr-dqn or "
                     "offline-c51";
    if (option->heads && !(option->heads & 1 << head_of(option, s)))
        return !(option->systems & FAST_DQN) ? " and {critic_head is}, which does not have it; leave one of them out"
               : option->heads == WITH_RETURNS
                   ? " and {preset is}, which does not have it; leave the option out, or take c51"
                   : " and {preset is}, which does not have it; leave the option out, or take qr-dqn or c51";
    if (option->needs_stack && s->replay.layout != GPUR_LAYOUT_FRAMES)
        return ", and {env is}, which does not show one image without channels; leave the option out";
    if (option->needs_demonstrations && !s->demonstrations)
        return " and {demonstrations} is missing; it must be the file of a replay";
    return NULL;
}

int gpur_option_applies(const gpur_option *option, const gpur_train_settings *s)
{
    if (option->kind == GPUR_OPTION_TEXT && !*(const char *const *)gpur_train_member(s, option->at))
        return 0;
    return !reason_against(option, s);
}

/* The preset. */

gpur_status gpur_options_find_system(gpur_options *o, const char *preset)
{
    const char *name;
    gpur_text names = {0};
    for (int32_t i = 0; (name = gpur_preset_name(i, &o->system)); i++) {
        if (strcmp(preset, name) == 0) {
            gpur_text_free(&names);
            return GPUR_OK;
        }
        gpur_text_add(&names, "%s%s", i == 0 ? "" : !gpur_preset_name(i + 1, NULL) ? " or " : ", ", name);
    }
    const gpur_status status = gpur_refuse(o, "{preset} is %s; it must be %s", preset, gpur_text_of(&names));
    gpur_text_free(&names);
    return status;
}

#define OTHER_RUN "; leave it out, or begin another run: {out} with another folder in place of {resume}"

/* Adds the presets that have an option: "fast-dqn, apex-dqn or apex-dpg". */
static void add_presets_with(const char *name, gpur_text *text)
{
    static const struct {
        int32_t system, has_cache;
        const char *name;
        int32_t heads; /* 0: it has no options that need a head, or a choice of heads */
    } presets[] = {
        {GPUR_IN_FAST_DQN, 0, "fast-dqn", 0},
        {GPUR_IN_FAST_DQN, 1, "dqn-lambda", 0},
        {GPUR_IN_FAST_DQN, 1, "vrc", 0},
        {GPUR_IN_FAST_DQN, 0, "qr-dqn", 1 << GPUR_HEAD_QUANTILES},
        {GPUR_IN_FAST_DQN, 0, "c51", 1 << GPUR_HEAD_CATEGORICAL},
        {GPUR_IN_DPG, 0, "ddpg", 0},
        {GPUR_IN_DPG, 0, "td3", 0},
        {GPUR_IN_SAC, 0, "sac", 0},
        {GPUR_IN_APEX_DQN, 0, "apex-dqn", 0},
        {GPUR_IN_APEX_DPG, 0, "apex-dpg", 0},
        {GPUR_IN_GA3C, 0, "ga3c", 0},
        {GPUR_IN_A3C, 0, "a3c", 0},
        {GPUR_IN_A3C, 0, "a2c", 0},
        {GPUR_IN_OFFLINE_DQN, 0, "offline-dqn", 0},
        {GPUR_IN_OFFLINE_DQN, 0, "offline-qr-dqn", 1 << GPUR_HEAD_QUANTILES},
        {GPUR_IN_OFFLINE_DQN, 0, "offline-c51", 1 << GPUR_HEAD_CATEGORICAL},
        {GPUR_IN_OFFLINE_DPG, 0, "offline-dpg", 0},
        {GPUR_IN_OFFLINE_DPG, 0, "offline-td3", 0},
        {GPUR_IN_OFFLINE_SAC, 0, "offline-sac", 0},
    };
    enum { COUNT = sizeof presets / sizeof *presets };
    const char *found[COUNT];
    int count = 0;
    for (int i = 0; i < COUNT; i++) {
        const gpur_option *const option = find(name, presets[i].system);
        const int32_t needed = option && option->systems & FAST_DQN ? option->heads : 0;
        if (option && suits(option, presets[i].has_cache) && (needed ? needed & presets[i].heads : !presets[i].heads))
            found[count++] = presets[i].name;
    }
    for (int i = 0; i < count; i++)
        gpur_text_add(text, "%s%s", i == 0 ? "" : i == count - 1 ? " or " : ", ", found[i]);
}

static gpur_status refuse_other_system(const gpur_options *o, const gpur_given *given, const char *preset)
{
    gpur_text presets = {0};
    add_presets_with(given->name, &presets);
    const gpur_status status = gpur_refuse(
        o, "{%s} is %s and {preset} is %s, which does not have it; leave the option out, or take a preset of %s",
        given->name, given->value, preset, gpur_text_of(&presets));
    gpur_text_free(&presets);
    return status;
}

gpur_status gpur_options_check_system(const gpur_options *o, const char *preset)
{
    for (int32_t i = 0; i < o->count; i++) {
        const gpur_given *const given = &o->given[i];
        const gpur_option *const option = gpur_option_find(given->name, o->system);
        if (!option)
            return refuse_other_system(o, given, preset);
        /* The run began when there was no such option. Texts may have no value, and then have no line. */
        if (o->folder && !given->is_stored && option->kind != GPUR_OPTION_TEXT)
            return gpur_refuse(o, "{%s} is %s, and the run that is to be resumed has none" OTHER_RUN, given->name,
                               given->value);
    }
    return GPUR_OK;
}

static int is_game(const char *name)
{
    int32_t i = 0;
    while (gpur_env_name(i) && strcmp(gpur_env_name(i), name) != 0)
        i++;
    return gpur_env_name(i) != NULL;
}

/* A plug-in's file gets its absolute path, so that the run can be resumed from any folder. One without a slash is
 * searched for where dlopen searches, and stays as it is. The colon is where gpur_env_find takes it to be. */
static gpur_status make_env_absolute(gpur_options *o)
{
    char path[GPUR_MAX_PATH], absolute[PATH_MAX];
    const char *const env = gpur_options_value(o, "env");
    if (!env || is_game(env))
        return GPUR_OK;
    const char *const suffix = strstr(env, ".so"), *const colon = strchr(suffix ? suffix : env, ':');
    const size_t length = colon ? (size_t)(colon - env) : strlen(env);
    GPUR_TRY(gpur_path_make(path, "%.*s", (int)length, env));
    if (!strchr(path, '/') || !realpath(path, absolute))
        return GPUR_OK;
    GPUR_TRY(gpur_path_make(path, "%s%s", absolute, env + length));
    return gpur_options_override(o, "env", path);
}

/* So do the folder of remote actors, and files of data and of demonstrations. What is in parentheses is no file, but an
 * object of Python. */
static gpur_status make_path_absolute(gpur_options *o, const char *name)
{
    char path[GPUR_MAX_PATH], here[PATH_MAX];
    const char *const given = gpur_options_value(o, name);
    if (!given || *given == '/' || *given == '(' || !*given)
        return GPUR_OK;
    if (!getcwd(here, sizeof here))
        return gpur_fail(GPUR_FILE_ERROR, "the folder that \"%s\" is relative to is not known: %s", given,
                         strerror(errno));
    GPUR_TRY(gpur_path_make(path, "%s/%s", here, given));
    return gpur_options_override(o, name, path);
}

gpur_status gpur_options_begin(gpur_options *o, gpur_train_settings *s)
{
    GPUR_TRY(make_env_absolute(o));
    GPUR_TRY(make_path_absolute(o, "folder"));
    GPUR_TRY(make_path_absolute(o, "data"));
    GPUR_TRY(make_path_absolute(o, "demonstrations"));
    o->settings = s;
    s->env_options = "";
    s->device = "auto";
    s->seed = 1;
    for (int32_t i = 0; i < o->count; i++) {
        const gpur_option *const option = find(o->given[i].name, ALL);
        if (option->systems == GPUR_IN_ALL && option->at < AT(steps))
            GPUR_TRY(put(o, option, o->given[i].value, s));
    }
    return s->preset ? gpur_options_find_system(o, s->preset) : GPUR_OK;
}

gpur_status gpur_options_put(const gpur_options *o, gpur_train_settings *s)
{
    for (int32_t i = 0; i < o->count; i++)
        GPUR_TRY(put(o, gpur_option_find(o->given[i].name, o->system), o->given[i].value, s));
    for (int32_t i = 0; i < o->count; i++) {
        const gpur_option *const option = gpur_option_find(o->given[i].name, o->system);
        const char *const reason = reason_against(option, s);
        if (reason)
            return gpur_refuse(o, "{%s is}%s", option->name, reason);
    }
    return GPUR_OK;
}

/* The file. */

static int are_equal(const gpur_option *option, const char *a, const char *b)
{
    int64_t m, n;
    if (option->kind == GPUR_OPTION_TEXT || option->kind == GPUR_OPTION_WORD)
        return strcmp(a, b) == 0;
    if (option->kind == GPUR_OPTION_FLOAT || option->kind == GPUR_OPTION_DOUBLE)
        return strtod(a, NULL) == strtod(b, NULL);
    return read_integer(a, &m) && read_integer(b, &n) && m == n;
}

/* A line with settings of objects that Python makes. */
static int is_override(const char *line)
{
    return strncmp(line, "buffer ", 7) == 0 || strncmp(line, "agent ", 6) == 0;
}

/* Takes one line "--name value". An environment that was an object has no name to be compared. */
static gpur_status take_line(gpur_options *o, const char *line)
{
    char name[64] = "";
    const char *const space = strchr(line, ' ');
    const size_t length = space ? (size_t)(space - line) : 0;
    if (strncmp(line, "--", 2) == 0 && length > 2 && length < sizeof name)
        memcpy(name, line + 2, length - 2);
    for (char *c = name; *c; c++)
        *c = *c == '-' ? '_' : *c;
    const gpur_option *const option = find(name, ALL);
    if (!option && is_override(line))
        return o->overrides || (o->plays && !strstr(line, "\"stack_pad\""))
                   ? GPUR_OK
                   : gpur_fail(GPUR_FILE_ERROR,
                               "%s/%s has the line \"%s\", settings that Python alone takes; python -m "
                               "gpureplay.train --resume goes on with this run",
                               o->folder, file_name, line);
    if (!option)
        return gpur_fail(GPUR_FILE_ERROR,
                         "%s/%s has the line \"%s\"; its lines must be options of a run with their values", o->folder,
                         file_name, line);
    gpur_given *const given = find_given(o, name);
    const int is_equal = given && are_equal(option, given->value, space + 1);
    if (strcmp(name, "steps") == 0)
        o->stored_steps = strtoll(space + 1, NULL, 10);
    if (!given)
        return add(o, name, space + 1, 1);
    given->is_stored = 1;
    if (strcmp(name, "env") == 0)
        o->has_other_env = !is_equal || given->value[0] == '(';
    else if (strcmp(name, "steps") != 0 && !is_equal)
        return gpur_refuse(o, "{%s} is %s, and the run that is to be resumed has %s" OTHER_RUN, name, given->value,
                           space + 1);
    return GPUR_OK;
}

/* A file that was written before there was `math` is of a run that computed in float32. */
static gpur_status take_lines(gpur_options *o, char *lines)
{
    char *rest = lines;
    int has_math = 0;
    for (char *line = strsep(&rest, "\n"); line; line = strsep(&rest, "\n")) {
        if (*line)
            GPUR_TRY(take_line(o, line));
        has_math |= strncmp(line, "--math ", strlen("--math ")) == 0;
    }
    return has_math ? GPUR_OK : take_line(o, "--math fp32");
}

gpur_status gpur_options_resume(gpur_options *o, const char *folder)
{
    gpur_text lines = {0};
    o->folder = folder;
    if (!gpur_file_exists(folder, file_name))
        return gpur_fail(GPUR_FILE_ERROR, "%s is no folder of a run: it has no %s", folder, file_name);
    gpur_status status = gpur_text_file_read(folder, file_name, &lines);
    if (status == GPUR_OK)
        status = take_lines(o, lines.memory);
    gpur_text_free(&lines);
    return status;
}

gpur_status gpur_options_write(const gpur_options *o, const gpur_train_settings *s, const char *folder)
{
    gpur_text lines = {0};
    const gpur_option *option;
    for (int32_t i = 0; (option = gpur_option_at(o->system, i)); i++) {
        if (!gpur_option_applies(option, s))
            continue;
        gpur_option_add_name(GPUR_OPTIONS_OF_PROGRAM, option->name, &lines);
        gpur_text_add(&lines, " ");
        gpur_option_add_value(option, s, &lines);
        gpur_text_add(&lines, "\n");
    }
    for (const char *const *line = o->overrides; line && *line; line++)
        gpur_text_add(&lines, "%s\n", *line);
    const gpur_status status = gpur_text_file_write(folder, file_name, &lines);
    gpur_text_free(&lines);
    return status;
}
