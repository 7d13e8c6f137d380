/* SPDX-License-Identifier: MIT */
/* The members of settings' structs, so that they can be written by name. */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef enum gpur_member_kind {
    GPUR_MEMBER_INT32,
    GPUR_MEMBER_INT64, /* or uint64_t */
    GPUR_MEMBER_FLOAT,
    GPUR_MEMBER_DOUBLE,
    GPUR_MEMBER_STRUCT,
    GPUR_MEMBER_FIELD, /* gpur_field */
    GPUR_MEMBER_TRUNK, /* the layers of a gpur_network_config */
} gpur_member_kind;

typedef struct gpur_member {
    const char *name; /* NULL ends a list */
    gpur_member_kind kind;
    size_t at;
    const struct gpur_member *of; /* of a struct, and of a layer of a trunk */
    const char *const *words;     /* of an int32_t whose values have names; NULL: they have none */
    int32_t word_count;
} gpur_member;

/* members.c is made of the public headers. */
extern const gpur_member gpur_replay_config_members[], gpur_dqn_config_members[], gpur_dpg_config_members[],
    gpur_sac_config_members[], gpur_actor_critic_config_members[], gpur_run_config_members[],
    gpur_fast_dqn_config_members[], gpur_apex_config_members[], gpur_ga3c_config_members[];
