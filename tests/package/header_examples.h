/* SPDX-License-Identifier: MIT */
/* What the code in comments of public headers uses without declaring it: test_header_examples.py compiles each block
 * after this. */
#ifndef TESTS_PACKAGE_HEADER_EXAMPLES_H
#define TESTS_PACKAGE_HEADER_EXAMPLES_H

#include <gpureplay.h>
#include <gpureplay/run.h>

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Handles. */
static gpur_device *device;
static gpur_replay *replay;
static gpur_writer *writer;
static gpur_batch *batch;
static gpur_learner *learner, *other_learner;
static gpur_policy *policy, *other_policy;
static gpur_run *run;
static gpur_training *training;
static gpur_envs *envs;
static gpur_block_format *format;
static gpur_packer *packer;

/* Settings and results. */
static gpur_replay_config replay_config;
static gpur_dqn_config learner_config;
static gpur_actor_critic_config actor_critic_config;
static gpur_sequence_config sequence_config;
static gpur_run_config run_config;
static gpur_apex_config apex_config;
static gpur_ga3c_config ga3c_config;
static gpur_training_config training_config;
static gpur_training_settings settings;
static gpur_actor_critic_batch rollouts;
static gpur_actor_critic_losses losses;
static gpur_policy_input input;
static gpur_policy_output output;
static gpur_packer_step_input packer_input;
static gpur_run_event result;

/* One step of an environment, a row of each kind, and arrays on the device with the stream that writes them. */
static float obs[4], next_obs[4], reward, log_prob, host_rewards[256];
static int32_t action;
static uint8_t terminated, truncated, is_first[16 * 32];
static const gpur_field schema[5];
static const void *row, *next_row, *block;
static size_t row_bytes;
static int64_t step, bytes;
static const void *const *fields;
static void *const *arrays;
static int64_t *ids;
static float *weights, *errors;
static void *stream, *other_stream;

/* An actor elsewhere, a file, and functions of the program. */
static int32_t actor;
static int64_t incarnation, length, sent;
static double total;
static void *connection;
static FILE *file;
static volatile int is_over;
int32_t send_block(void *user, const void *block, int64_t bytes);
int32_t send_episode(void *user, int64_t length, double episode_return);
int32_t get_weights(void *user, void *weights, int64_t bytes, int32_t *is_new);
int32_t show(void *user, int64_t bytes_done, int64_t bytes_in_all);
int is_interrupted(void *user);
const char *init_env(const char *options, uint64_t seed, gpur_env_info *info, void **env);
const char *reset_env(void *env, void *obs);
const char *step_env(void *env, const void *action, void *obs, gpur_env_result *result);
void close_env(void *env);
static const gpur_env_type corridor;
static const gpur_vector_env_type corridors;

/* Of dlpack.h, as far as the code uses it. */
typedef struct DLManagedTensor {
    void (*deleter)(struct DLManagedTensor *self);
} DLManagedTensor;

#endif
