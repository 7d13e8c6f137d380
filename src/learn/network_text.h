/* SPDX-License-Identifier: MIT */
/* A network and the observations that it reads, as metadata entries of a file, so that a policy can be made from the
 * file alone. */
#pragma once

#include "file/checkpoint_file.h"
#include "gpureplay/policy.h"
#include "replay/schema.h"

/* A policy's settings that its file needs beside the weights. */
typedef struct gpur_network_text {
    const gpur_network_config *network;
    gpur_field obs; /* its name is not used */
    float policy_floor;
} gpur_network_text;

/* The observations of a replay with this schema. */
gpur_field gpur_network_text_obs(const gpur_schema *schema);

/* Adds what must be equal in a file and in the network that loads it, since arrays are saved in the device's order,
 * which depends on the layers. `owner` comes before the names, "" if the file has one network. */
gpur_status gpur_network_text_add_settings(const gpur_network_config *network, const char *owner,
                                           gpur_tensors *settings);

/* Adds the members of the network that gpur_network_text_add_settings leaves out. */
gpur_status gpur_network_text_add_rest(const gpur_network_text *text, gpur_tensors *tensors);

/* Sets `network`, `obs` and `policy_floor` of a policy. GPUR_FILE_ERROR: the file does not have them. */
gpur_status gpur_network_text_read(const gpur_checkpoint *file, gpur_policy_config *config);

/* Files of before have the order of axes as a number: makes it the word that they have now. */
void gpur_network_text_renew(gpur_tensors *file);
