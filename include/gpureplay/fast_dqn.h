/* SPDX-License-Identifier: MIT */
/*
 * Fast DQN and its relatives: W environments that act by a learner's network, a replay that they fill, and the
 * learner's training, in threads of their own. Both switches of fast DQN [Daley & Amato 2021, algorithm 1] are
 * settings, so that a run (run_handle.h) is any of these systems:
 *
 *   concurrent  synchronized
 *       0            0        standard DQN [Mnih et al. 2015]
 *       1            0        concurrent training [Daley & Amato 2021, section 3]: for each period of C environment
 *                             steps the environments act by the target network, while C / F train steps run
 *                             beside them
 *       0            1        synchronized execution [section 4]: the W observations are one inference
 *       1            1        both: fast DQN
 *
 * A third setting, `burst`, does all C / F train steps of a period at its beginning. The environments wait for them,
 * and then act by the latest weights. So DQN(lambda) works [Daley & Amato 2021b, Virtual Replay Cache, algorithm 1].
 *
 * A learner with a cache of returns (returns.h) has no target network. Its cache is refreshed once in each period of C
 * steps:
 *
 *   with burst       right before the burst
 *   with concurrent  by the trainer's thread, before the train steps that run beside the environments, which act by
 *                    the weights of the period's beginning
 *   with neither     before the first train step of the period. Transitions that are flushed later in the period may
 *                    overwrite some that the cache has; gpur_learner_stats counts these as missing_rows
 *
 * What a run does is a pure function of its settings and seed, whatever the timing of threads: the transitions, their
 * order in the replay, the weights and the events are the same bits each time. (On the CPU with the device's number of
 * threads unchanged; on CUDA if the device is `deterministic`.) For that, transitions go to the replay only while no
 * train step runs: each environment keeps its steps in a log. Logs are flushed, that is appended to the replay, one
 * environment after another, when all threads have finished the steps and train steps given to them.
 *
 * The learner may also be one of continuous actions (dpg.h, sac.h). Environments then act by its newest weights, or
 * with `concurrent` by the weights of the period's beginning. There is no epsilon: a learner of deterministic policy
 * gradients acts with Gaussian noise, one of SAC by actions drawn from its policy, and the random actions of the
 * prepopulation are uniform over the range. `target_period` is only the length of a period, since the learner moves its
 * targets by settings of its own. All random numbers of an action follow from the seed, the environment, and the number
 * of its step.
 *
 * Environment i, counted from 0, takes the global steps i + 1, i + 1 + W, i + 1 + 2 W, ... The paper calls the thread
 * that steps it a sampler.
 */
#ifndef GPUREPLAY_FAST_DQN_H
#define GPUREPLAY_FAST_DQN_H

#include "gpureplay/dpg.h"
#include "gpureplay/dqn.h"
#include "gpureplay/run_handle.h"
#include "gpureplay/sac.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Settings of gpur_fast_dqn_create. gpur_fast_dqn_config_init sets the defaults, which are those of Daley & Amato 2021,
 * table 5 and section 5. Steps are environment steps of all environments together, unless a comment says otherwise. */
typedef struct gpur_fast_dqn_config {
    uint64_t size;          /* sizeof(gpur_fast_dqn_config), as the caller was compiled */
    int32_t num_envs;       /* W: environments, 1 to 4,096; with a cache of returns the replay's capacity / W must be
                                 at least twice its block_length; default 8 */
    int32_t threads;        /* threads that step them, each some of them; 1 to W, and without `synchronized` at most 64;
                                 0, the default: W, and at most 64 */
    int32_t concurrent;     /* 1, the default: concurrent training. 0: a train step every F steps, for which the
                                 environments wait, unless `burst` is 1 */
    int32_t synchronized;   /* 1, the default: synchronized execution, which needs 2 environments or more, or a
                                vector environment */
    int32_t act;            /* without `concurrent`: GPUR_ACT_LATEST, the default (the network that is trained, as in
                                 the paper), or GPUR_ACT_TARGET (as in the authors' code). With `concurrent` always the
                                 target network, if there is one. With `burst` or a cache of returns: LATEST */
    int32_t whole_episodes; /* 1: only the steps of finished episodes go to the replay, as in the authors' code; 0, the
                                 default: all steps */
    int64_t target_period;  /* C: steps between two copies to the target network, or between two refreshes of a cache
                                 of returns; a multiple of F, and of W if `synchronized`; default 10,000. Without a
                                 cache a DQN learner's own target_period, which counts train steps, must be C / F */
    int64_t train_period;   /* F: steps for each train step; default 4 */
    int64_t prepopulation;  /* random steps before step 1, at least the replay's min_size; default 50,000. The first
                                environment takes them, and goes on until its episode ends, or until it has taken
                                twice as many. A vector takes them in all its environments. With a cache of returns
                                each of these takes more of them than block_length */
    int32_t burst;          /* 1: before the first of every C steps C / F train steps, for which all wait;
                                 `concurrent` must be 0. Default 0 */
    int64_t train_steps;    /* train steps for each F environment steps, in place of one: 1 to 65,536, default 1. What
                                 is C / F above is then C / F x train_steps */
    float sigma;            /* of a learner of deterministic policy gradients: the standard deviation of the noise of
                                 each component of an action, whose range is -1 to 1; 0 or more, default 0.1 */
} gpur_fast_dqn_config;

/* Sets every member to its default. `size` is sizeof(gpur_fast_dqn_config). Any thread. GPUR_INVALID_ARGUMENT: NULL, or
 * a size below 8 or above 65,536. */
GPUR_API gpur_status gpur_fast_dqn_config_init(gpur_fast_dqn_config *config, uint64_t size);

/* The most fields of a replay that a preset specifies: obs, action, reward, next_obs, terminated, truncated; and
 * previous, where the learner has a cache of returns. */
enum { GPUR_FAST_DQN_FIELDS = 7 };

/*
 * Sets the members that a system specifies, in configs that were initialized, for an environment. The call makes one to
 * ask for its spaces. Of `run` these are eval_period, eval_episodes and eval_epsilon, and of `config` all but threads.
 * Other members keep their values. The learner's math becomes FP32, as in the papers, and with "-small" AUTO: another
 * one is set afterwards. Any thread.
 *
 *   "fast-dqn"         all constants of Daley & Amato 2021, table 5 and section 5, with the network of Mnih et al.
 *                      2015, for frames of 84 x 84 bytes
 *   "dqn-lambda-2019"  DQN(lambda) [Daley & Amato 2019] by the authors' code: 80,000 returns, drawn with replacement;
 *                      the network of Mnih et al. 2015 for frames of 84 x 84 bytes. For observations with one axis the
 *                      setting of their CartPole: two layers of 512 with tanh, and 5-step returns
 *   "vrc-2021"         the virtual replay cache [Daley & Amato 2021b] by the authors' code, for frames of 84 x 84 bytes
 *   "fast-dqn-small"   this library's own, for games like CartPole and MinAtar on a few cores: for images a convolution
 *                      of 16 filters of 3 x 3 and 128 units [Young & Tian 2019, section 4], for other observations two
 *                      layers of 128; Adam; C = 1,000; 5,000 steps of prepopulation; epsilon to 0.1 over 100,000 steps;
 *                      a replay of 100,000
 *   "fast-dqn-small-vectors"
 *                      "fast-dqn-small" for observations of one number or one axis, like those of CartPole: a dueling
 *                      network of 128 units in each layer and double Q learning; C = 400; epsilon to 0.05 over 50,000
 *                      steps; evaluations without epsilon
 *   "dqn-lambda-2019-small", "vrc-2021-small"
 *                      these two systems with the sizes and the learning rate of "fast-dqn-small", and 8,000 returns
 *   "qr-dqn", "c51"    distributions of returns [Dabney et al. 2018; Bellemare et al. 2017]. For frames of 84 x 84
 *                      bytes the papers' constants (dqn.h has the learner's presets of these names), with one
 *                      environment, a train step every 4 steps and evaluations with epsilon 0.001. For others
 *                      "fast-dqn-small-vectors", or where they are images "fast-dqn-small", but for the head and the
 *                      math: 50 quantiles, or 101 atoms from -100 to 100, a range of this library's own; set
 *                      learner->network.v_min and v_max to the returns of your environment
 *
 * Except for their CartPole, the papers on DQN(lambda) state no lambda: set learner->returns.lambda, or another
 * estimator, after the call; gpur_dqn_create refuses the -1 that is there. Epsilon of "vrc-2021" and its small relative
 * falls from 1 at the first step of the prepopulation on: learner->exploration has what is left of that line after it.
 *
 * An environment that shows one image without channels gets stacks of 4 (GPUR_LAYOUT_FRAMES). The axes of an image with
 * channels are (height, width, channels), unless gpur_image_layout tells that they are (channels, height, width).
 *
 *   run     has the environments; of a vector, one of one is made
 *   fields  (GPUR_FAST_DQN_FIELDS) receives the schema, of replay->field_count fields; replay->fields points to it
 *           until gpur_replay_create
 *
 *   GPUR_INVALID_ARGUMENT  no such name, an environment that the preset cannot take, or NULL
 */
GPUR_API gpur_status gpur_fast_dqn_preset(const char *name, gpur_run_config *run,
                                          gpur_field fields[GPUR_FAST_DQN_FIELDS], gpur_replay_config *replay,
                                          gpur_dqn_config *learner, gpur_fast_dqn_config *config);

/*
 * Does what gpur_fast_dqn_preset does, for a learner of deterministic policy gradients, in environments of continuous
 * actions and observations of float32. One environment acts by its network with Gaussian noise, and a train step
 * follows each of its steps; the targets are soft. Evaluations are those of Fujimoto et al. 2018, section 6.1: 10 games
 * every 5,000 steps. Of `dpg` seed and demonstrations keep their values.
 *
 *   "ddpg"        Lillicrap et al. 2016, supplementary section 7: layers of 400 and 300 units, rates 1e-4 and 1e-3,
 *                 batches of 64, target_rate 0.001, a replay of 1,000,000. Unlike there the critic reads actions in its
 *                 first layer, and has no weight decay; the last layers begin as the others do; noise is not correlated
 *                 in time, of the paper's sigma 0.2; and the first 1,000 steps are random
 *   "ddpg-small"  the defaults of Stable-Baselines3 2.x: the same layers, rates of 1e-3, batches of 256, target_rate
 *                 0.005, 100 random steps; with sigma 0.1 and a replay of 200,000, as its zoo has for Pendulum
 *   "td3"         Fujimoto et al. 2018, section 6.1 and appendix C: gpur_td3_config_init, sigma 0.1, a replay of
 *                 1,000,000; the first 1,000 steps are random, as there where episodes differ in length
 *   "td3-small"   the defaults of Stable-Baselines3 2.x: the same with batches of 256 and 100 random steps; and a
 *                 replay of 200,000, as its zoo has for Pendulum
 *
 *     gpur_field fields[GPUR_FAST_DQN_FIELDS];
 *     gpur_dpg_config dpg;
 *     gpur_fast_dqn_config config;
 *     gpur_run_config_init(&run_config, sizeof run_config);
 *     gpur_replay_config_init(&replay_config, sizeof replay_config);
 *     gpur_dpg_config_init(&dpg, sizeof dpg);
 *     gpur_fast_dqn_config_init(&config, sizeof config);
 *     gpur_env_find("Pendulum", &run_config.type);
 *     gpur_dpg_preset("td3-small", &run_config, fields, &replay_config, &dpg, &config);
 *     gpur_replay_create(device, &replay_config, &replay);
 *     gpur_dpg_create(replay, &dpg, &learner);
 *     gpur_fast_dqn_create(learner, &run_config, &config, &run);
 */
GPUR_API gpur_status gpur_dpg_preset(const char *name, gpur_run_config *run, gpur_field fields[GPUR_FAST_DQN_FIELDS],
                                     gpur_replay_config *replay, gpur_dpg_config *dpg, gpur_fast_dqn_config *config);

/*
 * Does what gpur_fast_dqn_preset does, for a learner of soft actor-critic, whose environments act by actions drawn from
 * the policy, and evaluations by its mean.
 *
 *   "sac"        Haarnoja et al. 2018b, table 1: gpur_sac_config_init, a replay of 1,000,000; the first 1,000 steps are
 *                random
 *   "sac-small"  the defaults of Stable-Baselines3 2.x: the same with 100 random steps; with rates of 1e-3, as its zoo
 *                has for Pendulum, and a replay of 200,000
 *
 *     gpur_field fields[GPUR_FAST_DQN_FIELDS];
 *     gpur_sac_config sac;
 *     gpur_fast_dqn_config config;
 *     gpur_run_config_init(&run_config, sizeof run_config);
 *     gpur_replay_config_init(&replay_config, sizeof replay_config);
 *     gpur_sac_config_init(&sac, sizeof sac);
 *     gpur_fast_dqn_config_init(&config, sizeof config);
 *     gpur_env_find("Pendulum", &run_config.type);
 *     gpur_sac_preset("sac-small", &run_config, fields, &replay_config, &sac, &config);
 *     gpur_replay_create(device, &replay_config, &replay);
 *     gpur_sac_create(replay, &sac, &learner);
 *     gpur_fast_dqn_create(learner, &run_config, &config, &run);
 */
GPUR_API gpur_status gpur_sac_preset(const char *name, gpur_run_config *run, gpur_field fields[GPUR_FAST_DQN_FIELDS],
                                     gpur_replay_config *replay, gpur_sac_config *sac, gpur_fast_dqn_config *config);

/*
 * Creates a run: W environments and those of evaluations, a writer into the replay for each of the W, and the threads.
 * The environments are made in their order, those of evaluations last; each has a seed drawn from the run's seed.
 * Epsilon follows the learner's `exploration`, by the global step. The learner and its replay must outlive the run.
 * While the run exists, no other code may write to the replay or train the learner.
 *
 * A vector environment needs `synchronized`, and without `concurrent` and `burst` a train_period that is a multiple of
 * num_envs. The prepopulation then takes random steps of all environments.
 *
 *   learner  of DQN, DPG or SAC. Its network must have the environment's actions; vectors must be float32 with finite
 *            bounds, to which the range of -1 to 1 is scaled. Its replay must store the environment's observations,
 *            with GPUR_LAYOUT_FRAMES as stacks. If one of DQN has trained before, its train steps so far must be a
 *            multiple of its target_period, because it counts them on; not so with a cache of returns
 *   run      settings of all runs; read before the call returns
 *   config   settings of fast DQN; read before the call returns
 *   handle   receives the handle, or NULL if the call fails; destroy it with gpur_run_destroy
 *
 *   GPUR_INVALID_ARGUMENT  a value out of its range, settings that do not go together (the message has both), an
 *                          environment with other actions or observations, an environment's refusal (the message
 *                          names the environment), a type without a function that it must have, or NULL
 *   GPUR_OUT_OF_MEMORY     not enough memory, or no more threads
 */
GPUR_API gpur_status gpur_fast_dqn_create(gpur_learner *learner, const gpur_run_config *run,
                                          const gpur_fast_dqn_config *config, gpur_run **handle);

#ifdef __cplusplus
}
#endif
#endif
