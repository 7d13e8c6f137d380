/* SPDX-License-Identifier: MIT */
/* Types of environments from shared objects: "./games.so:Corridor" is the file ./games.so and the name Corridor. */
#pragma once

#include "gpureplay/env.h"

/* 1 if the name is a file's: the part before the colon ends in ".so", or has a slash and is there. */
int gpur_env_plugin_is_file(const char *name);

/* As gpur_env_find and gpur_vector_env_find, for names of files. */
gpur_status gpur_env_plugin_find(const char *name, const gpur_env_type **type);
gpur_status gpur_env_plugin_find_vector(const char *name, const gpur_vector_env_type **type);

/* The gpur_env_plugin_name of a plug-in. NULL: it exports none, or `name` is no file's, or names a type, too. */
typedef const char *gpur_env_name_at(int32_t index);
gpur_env_name_at *gpur_env_plugin_names(const char *name);
