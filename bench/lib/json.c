/* SPDX-License-Identifier: MIT */
#include "json.h"

#include "gpureplay.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

static void put_string(FILE *file, const char *text)
{
    fputc('"', file);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fprintf(file, "\\%c", *text);
        else if ((unsigned char)*text < 0x20)
            fprintf(file, "\\u%04x", (unsigned char)*text);
        else
            fputc(*text, file);
    }
    fputc('"', file);
}

static void put_number(FILE *file, double value)
{
    if (fabs(value) < 1e15 && value == rint(value)) /* as bytes and counts are */
        fprintf(file, "%.0f", value);
    else if (isfinite(value))
        fprintf(file, "%.6g", value);
    else
        fprintf(file, "null");
}

/* Reads the first line of `file` without its end. Returns 0 if there is none. */
static int first_line(FILE *file, char *text, size_t bytes)
{
    const int found = file && fgets(text, (int)bytes, file) != NULL;
    if (found)
        text[strcspn(text, "\n")] = '\0';
    return found && text[0];
}

static int run_command(const char *command, char *text, size_t bytes)
{
    FILE *const pipe = popen(command, "r");
    const int found = first_line(pipe, text, bytes);
    if (pipe)
        pclose(pipe);
    return found;
}

static const char *describe_commit(char *text, size_t bytes)
{
    char change[256];
    const char *const given = getenv("GPUREPLAY_COMMIT");
    if (!run_command("git rev-parse HEAD 2>/dev/null", text, bytes))
        snprintf(text, bytes, "%s", given ? given : "unknown: no git here");
    else if (run_command("git status --porcelain -- ':(top,exclude)bench/results' 2>/dev/null", change, sizeof change))
        snprintf(text + strlen(text), bytes - strlen(text), ", with changes");
    return text;
}

static const char *describe_driver(char *text, size_t bytes)
{
    FILE *const file = fopen("/proc/driver/nvidia/version", "r");
    if (!first_line(file, text, bytes))
        snprintf(text, bytes, "none");
    if (file)
        fclose(file);
    return text;
}

static void put_end(FILE *file, int interrupted)
{
    fprintf(file, "\n],\n\"interrupted\": %d}\n", interrupted);
}

/* Completes the file, and goes back to where the next case begins. A pipe cannot go back and stays incomplete. */
static void complete(json_file *json)
{
    const long here = ftell(json->file);
    if (here < 0)
        return;
    put_end(json->file, 1);
    fflush(json->file);
    if (fseek(json->file, here, SEEK_SET) != 0)
        perror("back to the last case");
}

static void put_head(json_file *json, const char *title, const char *device, const char *settings)
{
    char text[256];
    struct utsname name = {.sysname = "unknown"};
    const time_t now = time(NULL);
    fprintf(json->file, "{\"title\": ");
    put_string(json->file, title);
    json_text(json, "device", device);
    json_text(json, "settings", settings);
    json_text(json, "build", gpur_build_info());
    uname(&name);
    snprintf(text, sizeof text, "%s %.60s %s", name.sysname, name.release, name.machine);
    json_text(json, "system", text);
    json_text(json, "driver", describe_driver(text, sizeof text));
    json_text(json, "commit", describe_commit(text, sizeof text));
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
    json_text(json, "when", text);
    fprintf(json->file, ",\n\"cases\": [");
}

json_file json_open(const char *path, const char *title, const char *device, const char *settings)
{
    json_file json = {NULL, 0};
    if (!path)
        return json;
    json.file = fopen(path, "w");
    if (!json.file) {
        perror(path);
        exit(1);
    }
    put_head(&json, title, device, settings);
    complete(&json);
    return json;
}

void json_close(json_file *json, int interrupted)
{
    if (!json->file)
        return;
    put_end(json->file, interrupted);
    if (fclose(json->file) != 0)
        perror("the JSON file");
    json->file = NULL;
}

void json_case(json_file *json, const char *name)
{
    if (!json->file)
        return;
    fprintf(json->file, "%s\n{\"name\": ", json->cases++ ? "," : "");
    put_string(json->file, name);
}

void json_close_case(json_file *json)
{
    if (!json->file)
        return;
    fprintf(json->file, "}");
    complete(json);
}

void json_text(json_file *json, const char *key, const char *value)
{
    if (!json->file || !value)
        return;
    fprintf(json->file, ", \"%s\": ", key);
    put_string(json->file, value);
}

void json_number(json_file *json, const char *key, double value)
{
    if (!json->file)
        return;
    fprintf(json->file, ", \"%s\": ", key);
    put_number(json->file, value);
}

void json_numbers(json_file *json, const char *key, const double *values, int count)
{
    if (!json->file)
        return;
    fprintf(json->file, ", \"%s\": [", key);
    for (int i = 0; i < count; i++) {
        fputs(i ? ", " : "", json->file);
        put_number(json->file, values[i]);
    }
    fprintf(json->file, "]");
}

void json_open_list(json_file *json, const char *key)
{
    if (json->file)
        fprintf(json->file, ", \"%s\": [", key);
}

void json_item(json_file *json, int index, const char *name)
{
    if (!json->file)
        return;
    fprintf(json->file, "%s\n  {\"name\": ", index ? "}," : "");
    put_string(json->file, name);
}

void json_close_list(json_file *json)
{
    if (json->file)
        fprintf(json->file, "}]");
}
