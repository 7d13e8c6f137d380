/* SPDX-License-Identifier: MIT */
/* config.json: all settings of a run, by the names of the library's structs. */
#pragma once

#include "gpureplay/training.h"
#include "train/system.h"

/* Makes the document of the settings with which the handles were made. `given` has the caller's own members. */
gpur_status gpur_config_document_make(const gpur_training_config *given, const gpur_options *options,
                                      const gpur_train_settings *settings, gpur_device *device, gpur_text *document);

/* Refuses an environment of another type than that of the run in a folder. `eval_envs` gets in how many the run is
 * evaluated: an object of Python is one; 0: by its default. */
gpur_status gpur_config_document_check_env(const gpur_options *options, const char *folder, const char *name,
                                           int32_t *eval_envs);
