/* SPDX-License-Identifier: MIT */
/* Stands for json.c in a build without cJSON. */
#include "json.h"

#include <stdio.h>
#include <stdlib.h>

json_file json_open(const char *path, const char *title, const char *device, const char *settings)
{
    (void)title, (void)device, (void)settings;
    if (path) {
        fprintf(stderr, "--json is \"%s\"; this build has no cJSON to write it (Debian: apt install libcjson-dev)\n",
                path);
        exit(2);
    }
    return (json_file){NULL, NULL, NULL, NULL};
}

void json_close(json_file *json, int interrupted)
{
    (void)json, (void)interrupted;
}

void json_case(json_file *json, const char *name)
{
    (void)json, (void)name;
}

void json_close_case(json_file *json)
{
    (void)json;
}

void json_text(json_file *json, const char *key, const char *value)
{
    (void)json, (void)key, (void)value;
}

void json_number(json_file *json, const char *key, double value)
{
    (void)json, (void)key, (void)value;
}

void json_numbers(json_file *json, const char *key, const double *values, int count)
{
    (void)json, (void)key, (void)values, (void)count;
}

void json_variant(json_file *json, const char *name)
{
    (void)json, (void)name;
}
