/* SPDX-License-Identifier: MIT */
/* A policy that acts on the observations of a replay. */
#pragma once

#include "gpureplay/policy.h"
#include "replay/schema.h"

/* Opens a policy, with these settings, for observations of a replay with this schema. */
gpur_status gpur_acting_policy_open(gpur_device *device, const gpur_schema *schema, const gpur_policy_config *settings,
                                    gpur_policy **policy);
