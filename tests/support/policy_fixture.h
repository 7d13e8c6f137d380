/* SPDX-License-Identifier: MIT */
/* What the tests of policies share: policies with the networks of learner_fixture.h, and their calls in short. */
#pragma once

#include "gpureplay.h"

/* The network and seed of a learner, for observations of its kind of rows. */
gpur_policy_config policy_fixture_config(const gpur_dqn_config *learner, int kind, int32_t streams);

/* A policy of that config; NULL on an error. */
gpur_policy *policy_fixture_open(gpur_device *device, const gpur_dqn_config *learner, int kind, int32_t streams);

/* Q values (count, actions), and the version of the weights, which may be NULL. */
gpur_status policy_fixture_q(gpur_policy *policy, int64_t count, const void *obs, float *q, int64_t *version);

/* The weights without the header, at most `room` numbers, in the order of gpur_learner_get_weight_info. Returns their
 * number, or -1 on an error. */
int64_t policy_fixture_weights(gpur_policy *policy, float *values, int64_t room);

/* Statistics; `calls` is -1 on an error. */
gpur_policy_stats policy_fixture_stats(gpur_policy *policy);
