/* SPDX-License-Identifier: MIT */
/* The settings of a run: defaults, checks, and what an actor is told of them. */
#pragma once

#include "run/apex/actor.h"
#include "run/apex/handle.h"

/* Reads and checks the settings, with the learner, its replay and the environment, and copies what they point to. */
gpur_status gpur_apex_configure(gpur_apex *apex, const gpur_apex_config *given);
void gpur_apex_free_config(gpur_apex *apex);

/* Reads the settings for a remote actor. Refuses its number if it is none of config->actors. */
gpur_status gpur_apex_read_remote_config(const gpur_apex_config *given, int32_t actor, gpur_apex_config *config);

/* The epsilon of actor i of n; of action vectors sigma, the same for all. */
float gpur_apex_exploration_of(const gpur_apex_config *config, int has_vectors, int32_t i, int32_t n);

/* The most rows of a block of one of so many actors. */
int32_t gpur_apex_block_rows(const gpur_apex_config *config, int32_t actors);

/* What an actor must know, of config->actors. */
gpur_actor_settings gpur_apex_actor_settings(const gpur_run_config *run, const gpur_apex_config *config,
                                             int has_vectors, int32_t actor, int64_t incarnation);

/* The same for the incarnation of an own actor that begins. */
gpur_actor_settings gpur_apex_slot_settings(const gpur_slot *slot);
