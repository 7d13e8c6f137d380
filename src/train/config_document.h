/* SPDX-License-Identifier: MIT */
/* config.json: all settings of a run, by the names of the library's structs. */
#pragma once

#include "train/members.h"
#include "train/system.h"

/* Writes the settings with which the handles were made. */
gpur_status gpur_config_document_write(const gpur_options *options, const gpur_train_settings *settings,
                                       const gpur_train_handles *handles, const char *folder);

/* Refuses an environment of another type than that of the run in a folder. */
gpur_status gpur_config_document_check_env(const gpur_options *options, const char *folder, const char *name);

/* Add parts: a config, with `all` (or NULL) in the same object; the replay; the run of Ape-X. */
void gpur_config_document_add(gpur_json *json, const char *name, const gpur_member *members, const void *config,
                              const gpur_run_config *all);
void gpur_config_document_add_replay(gpur_json *json, const gpur_replay_config *replay);
void gpur_config_document_add_apex(gpur_json *json, const gpur_train_settings *settings);
