/* SPDX-License-Identifier: MIT */
/* By cJSON. json_none.c replaces this file in builds without it. */
#include "json.h"

#include "gpureplay.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

/* Reads the first line of a file, or of what a command prints, without its end. Returns 0 if there is none. */
static int first_line(FILE *file, int (*close)(FILE *), char *text, int bytes)
{
    const int found = file && fgets(text, bytes, file) != NULL;
    if (found)
        text[strcspn(text, "\n")] = '\0';
    if (file)
        close(file);
    return found && text[0];
}

static const char *describe_commit(char *text, int bytes)
{
    char change[256];
    const char *const given = getenv("GPUREPLAY_COMMIT");
    if (!first_line(popen("git rev-parse HEAD 2>/dev/null", "r"), pclose, text, bytes))
        snprintf(text, (size_t)bytes, "%s", given ? given : "unknown: no git here");
    else if (first_line(popen("git status --porcelain -- ':(top,exclude)bench/results' 2>/dev/null", "r"), pclose,
                        change, sizeof change))
        strncat(text, ", with changes", (size_t)bytes - strlen(text) - 1);
    return text;
}

/* Writes the file under another name and renames it. */
static void save(const json_file *json, int interrupted)
{
    char part[4096];
    cJSON_SetNumberValue(cJSON_GetObjectItem(json->document, "interrupted"), interrupted);
    char *const text = cJSON_Print(json->document);
    FILE *const file = snprintf(part, sizeof part, "%s.part", json->path) < (int)sizeof part ? fopen(part, "w") : NULL;
    const int is_written = text && file && fprintf(file, "%s\n", text) > 0;
    if ((file && fclose(file) != 0) || !is_written || rename(part, json->path) != 0) {
        perror(json->path);
        exit(1);
    }
    free(text);
}

json_file json_open(const char *path, const char *title, const char *device, const char *settings)
{
    char text[256] = "none";
    struct utsname name = {.sysname = "unknown"};
    const time_t now = time(NULL);
    json_file json = {path, path ? cJSON_CreateObject() : NULL, NULL, NULL};
    if (!path)
        return json;
    json.open = json.document;
    json_text(&json, "title", title);
    json_text(&json, "device", device);
    json_text(&json, "settings", settings);
    json_text(&json, "build", gpur_build_info());
    (void)first_line(fopen("/proc/driver/nvidia/version", "r"), fclose, text, sizeof text);
    json_text(&json, "driver", text);
    uname(&name);
    snprintf(text, sizeof text, "%s %.60s %s", name.sysname, name.release, name.machine);
    json_text(&json, "system", text);
    json_text(&json, "commit", describe_commit(text, sizeof text));
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
    json_text(&json, "when", text);
    json_number(&json, "interrupted", 1);
    cJSON_AddArrayToObject(json.document, "cases");
    save(&json, 1);
    return json;
}

void json_close(json_file *json, int interrupted)
{
    if (!json->document)
        return;
    save(json, interrupted);
    cJSON_Delete(json->document);
    json->document = NULL;
}

static void open_object(json_file *json, cJSON *list, const char *name)
{
    json->open = cJSON_CreateObject();
    cJSON_AddItemToArray(list, json->open);
    json_text(json, "name", name);
}

void json_case(json_file *json, const char *name)
{
    if (!json->document)
        return;
    open_object(json, cJSON_GetObjectItem(json->document, "cases"), name);
    json->one = json->open;
}

void json_close_case(json_file *json)
{
    if (json->document)
        save(json, 1);
}

void json_variant(json_file *json, const char *name)
{
    if (!json->document)
        return;
    cJSON *const list = cJSON_GetObjectItem(json->one, "variants");
    open_object(json, list ? list : cJSON_AddArrayToObject(json->one, "variants"), name);
}

void json_text(json_file *json, const char *key, const char *value)
{
    if (json->document && value)
        cJSON_AddStringToObject(json->open, key, value);
}

/* Six digits, but all of a whole number, such as bytes and counts. */
static double rounded(double value)
{
    char text[32];
    if (value == rint(value) || !isfinite(value))
        return value;
    snprintf(text, sizeof text, "%.6g", value);
    return strtod(text, NULL);
}

void json_number(json_file *json, const char *key, double value)
{
    if (json->document)
        cJSON_AddNumberToObject(json->open, key, rounded(value));
}

void json_numbers(json_file *json, const char *key, const double *values, int count)
{
    cJSON *const list = json->document ? cJSON_AddArrayToObject(json->open, key) : NULL;
    for (int i = 0; list && i < count; i++)
        cJSON_AddItemToArray(list, cJSON_CreateNumber(rounded(values[i])));
}
