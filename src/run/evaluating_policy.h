/* SPDX-License-Identifier: MIT */
/* A policy that chooses actions in several environments at once: numbers, or vectors within their bounds. */
#pragma once

#include "gpureplay/env.h"
#include "gpureplay/policy.h"

typedef struct gpur_evaluating_policy {
    gpur_policy *policy; /* the caller's */
    gpur_space actions;  /* of an environment that exists as long */
    int32_t numbers;     /* of an action vector; 0: actions are discrete */
    int32_t draws;       /* 1: numbers are drawn from probabilities, unless the most probable ones are wanted. Vectors
                            are the means of the distribution */
    float *noises;       /* (rows) */
    float *vectors;      /* (rows, numbers) before they are scaled */
} gpur_evaluating_policy;

/* `rows`: the most observations of one call. Refuses actions that are not those of the network. After a failure call
 * gpur_evaluating_policy_close, which accepts a zeroed one. */
gpur_status gpur_evaluating_policy_open(gpur_evaluating_policy *p, gpur_policy *policy,
                                        const gpur_network_config *network, const gpur_space *actions, int32_t rows);
void gpur_evaluating_policy_close(gpur_evaluating_policy *p);

/* The bytes of an action, as an environment takes it. */
int64_t gpur_evaluating_policy_action_bytes(const gpur_network_config *network);

/* Chooses actions, as gpur_evaluation_choose does. `noise`: epsilon, or of vectors sigma. */
gpur_status gpur_evaluating_policy_act(gpur_evaluating_policy *p, int64_t count, const unsigned char *obs,
                                       const uint32_t *streams, const uint64_t *steps, float noise, int32_t greedy,
                                       void *actions);
