/* SPDX-License-Identifier: MIT */
/* config.json in the folder of a run. */
#include "train/config_document.h"

#include "base/dtype.h"
#include "train/files.h"
#include "train/members.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef GPUREPLAY_COMMIT
#define GPUREPLAY_COMMIT ""
#endif

static void add_members(gpur_json *j, const gpur_member *members, const void *config);

static void add_struct(gpur_json *j, const char *name, const gpur_member *members, const void *config)
{
    gpur_json_begin(j, name, '{');
    add_members(j, members, config);
    gpur_json_end(j, '}');
}

static void add_shape(gpur_json *j, const int32_t shape[GPUR_MAX_DIMS])
{
    gpur_json_begin(j, "shape", '[');
    for (int i = 0; i < GPUR_MAX_DIMS && shape[i] > 0; i++)
        gpur_json_integer(j, NULL, shape[i]);
    gpur_json_end(j, ']');
}

static void add_field(gpur_json *j, const char *name, const gpur_field *field)
{
    gpur_json_begin(j, name, '{');
    gpur_json_string(j, "name", field->name ? field->name : "obs");
    gpur_json_string(j, "dtype", gpur_dtype_name(field->dtype));
    add_shape(j, field->shape);
    gpur_json_end(j, '}');
}

static void add_trunk(gpur_json *j, const gpur_member *member, const gpur_network_config *network)
{
    gpur_json_begin(j, member->name, '[');
    for (int32_t i = 0; i < network->trunk_count; i++)
        add_struct(j, NULL, member->of, &network->trunk[i]);
    gpur_json_end(j, ']');
}

static void add_int32(gpur_json *j, const gpur_member *member, int32_t value)
{
    if (strcmp(member->name, "padding") == 0 && value == GPUR_SAME)
        gpur_json_string(j, member->name, "same");
    else if (value >= 0 && value < member->word_count && member->words[value])
        gpur_json_string(j, member->name, member->words[value]);
    else
        gpur_json_integer(j, member->name, value);
}

static void add_member(gpur_json *j, const gpur_member *member, const void *config)
{
    const void *const at = (const char *)config + member->at;
    switch (member->kind) {
    case GPUR_MEMBER_INT32:
        add_int32(j, member, *(const int32_t *)at);
        return;
    case GPUR_MEMBER_INT64:
        gpur_json_integer(j, member->name, *(const int64_t *)at);
        return;
    case GPUR_MEMBER_FLOAT:
        gpur_json_float(j, member->name, *(const float *)at);
        return;
    case GPUR_MEMBER_DOUBLE:
        gpur_json_float(j, member->name, (float)*(const double *)at);
        return;
    case GPUR_MEMBER_STRUCT:
        add_struct(j, member->name, member->of, at);
        return;
    case GPUR_MEMBER_FIELD:
        add_field(j, member->name, at);
        return;
    case GPUR_MEMBER_TRUNK:
        add_trunk(j, member, config);
    }
}

static void add_members(gpur_json *j, const gpur_member *members, const void *config)
{
    for (const gpur_member *member = members; member->name; member++)
        add_member(j, member, config);
}

/* The lines "key: value" of gpur_build_info. */
static void add_build(gpur_json *j)
{
    char text[1024];
    gpur_json_begin(j, "build", '{');
    for (const char *line = gpur_build_info(); *line; line += strspn(line, "\n")) {
        snprintf(text, sizeof text, "%.*s", (int)strcspn(line, "\n"), line);
        line += strcspn(line, "\n");
        char *const colon = strstr(text, ": ");
        if (!colon)
            continue;
        *colon = '\0';
        gpur_json_string(j, text, colon + 2);
    }
    if (*GPUREPLAY_COMMIT)
        gpur_json_string(j, "commit", GPUREPLAY_COMMIT);
    gpur_json_end(j, '}');
}

/* Names as the program has them: "num-envs". */
static void add_options(gpur_json *j, const gpur_options *o, const gpur_train_settings *s)
{
    const gpur_option *option;
    gpur_json_begin(j, "options", '{');
    for (int32_t i = 0; (option = gpur_option_at(o->system, i)); i++) {
        char name[64];
        if (!gpur_option_applies(option, s))
            continue;
        snprintf(name, sizeof name, "%s", option->name);
        for (char *c = name; *c; c++)
            *c = *c == '_' ? '-' : *c;
        gpur_text *const out = gpur_json_member(j, name);
        const char *const quote = option->kind == GPUR_OPTION_WORD ? "\"" : "";
        gpur_text_add(out, "%s", quote);
        if (option->kind == GPUR_OPTION_TEXT)
            gpur_text_add_string(out, *(const char *const *)gpur_train_member(s, option->at));
        else
            gpur_option_add_value(option, s, out);
        gpur_text_add(out, "%s", quote);
    }
    gpur_json_end(j, '}');
}

static gpur_status add_device(gpur_json *j, gpur_device *device)
{
    gpur_device_info info = {.size = sizeof info};
    GPUR_TRY(gpur_device_get_info(device, &info));
    gpur_json_begin(j, "device", '{');
    gpur_json_string(j, "name", info.name);
    gpur_json_string(j, "description", info.description);
    gpur_json_integer(j, "threads", info.threads);
    gpur_json_integer(j, "memory_total", info.memory_total);
    gpur_json_end(j, '}');
    return GPUR_OK;
}

static void add_bounds(gpur_json *j, const char *name, int32_t count, const float *bounds, float bound)
{
    gpur_json_begin(j, name, '[');
    for (int32_t i = 0; i < count; i++)
        gpur_json_float(j, NULL, bounds ? bounds[i] : bound);
    gpur_json_end(j, ']');
}

/* The bounds of action vectors, by which policies scale theirs. */
static void add_action(gpur_json *j, const gpur_space *action)
{
    int32_t count = 1;
    for (int i = 0; i < GPUR_MAX_DIMS && action->shape[i] > 0; i++)
        count *= action->shape[i];
    gpur_json_begin(j, "action", '{');
    add_shape(j, action->shape);
    add_bounds(j, "low", count, action->lows, action->low);
    add_bounds(j, "high", count, action->highs, action->high);
    gpur_json_end(j, '}');
}

/* The caller's own members "name json", of which those in a part are "part.name json". */
static void add_given(gpur_json *j, const char *const *members, const char *part)
{
    const size_t before = strlen(part);
    for (; members && *members; members++) {
        const char *const name = *members + before, *const space = strchr(*members, ' ');
        char own[64];
        if (!space || strncmp(*members, part, before) != 0 || memchr(name, '.', (size_t)(space - name)))
            continue;
        snprintf(own, sizeof own, "%.*s", (int)(space - name), name);
        gpur_text_add(gpur_json_member(j, own), "%s", space + 1);
    }
}

static void add_environment(gpur_json *j, const gpur_train_settings *s, const char *const *given)
{
    const gpur_env_info *const info = &s->env.info;
    gpur_json_begin(j, "environment", '{');
    gpur_json_string(j, "name", s->env.name ? s->env.name : "");
    gpur_json_string(j, "options", s->env_options);
    gpur_json_begin(j, "observation", '{');
    gpur_json_string(j, "dtype", gpur_dtype_name(info->obs.dtype));
    add_shape(j, info->obs.shape);
    gpur_json_float(j, "low", info->obs.low);
    gpur_json_float(j, "high", info->obs.high);
    gpur_json_end(j, '}');
    gpur_json_integer(j, "num_actions", info->action.num_actions);
    if (info->action.num_actions == 0)
        add_action(j, &info->action);
    gpur_json_integer(j, "max_steps", info->max_steps);
    gpur_json_integer(j, "save_bytes", info->save_bytes);
    add_given(j, given, "environment.");
    gpur_json_end(j, '}');
}

static void add_replay(gpur_json *j, const gpur_replay_config *replay)
{
    gpur_json_begin(j, "replay", '{');
    gpur_json_begin(j, "fields", '[');
    for (int32_t i = 0; i < replay->field_count; i++)
        add_field(j, NULL, &replay->fields[i]);
    gpur_json_end(j, ']');
    add_members(j, gpur_replay_config_members, replay);
    gpur_json_end(j, '}');
}

/* Of run, replay and learner. */
static void add_settings(gpur_json *j, const gpur_train_system *system, const gpur_train_settings *s)
{
    gpur_json_begin(j, system->run.name, '{');
    add_members(j, system->run.members, gpur_train_member(s, system->run.at));
    add_members(j, gpur_run_config_members, &s->all);
    if (system->has_actors)
        gpur_json_integer(j, "processes", s->apex.command != NULL);
    gpur_json_end(j, '}');
    if (s->replay.field_count > 0)
        add_replay(j, &s->replay);
    add_struct(j, system->learner.name, system->learner.members, gpur_train_member(s, system->learner.at));
}

gpur_status gpur_config_document_make(const gpur_training_config *given, const gpur_options *o,
                                      const gpur_train_settings *s, gpur_device *device, gpur_text *document)
{
    const gpur_train_system *const system = gpur_train_system_of(o->system);
    gpur_json j = {.out = document};
    gpur_text_clear(document);
    gpur_json_begin(&j, NULL, '{');
    gpur_json_string(&j, "program", given->program ? given->program : "gpureplay-train");
    gpur_json_string(&j, "version", gpur_version());
    add_given(&j, given->document, "");
    add_build(&j);
    GPUR_TRY(add_device(&j, device));
    add_options(&j, o, s);
    add_environment(&j, s, given->document);
    add_settings(&j, system, s);
    gpur_json_end(&j, '}');
    return GPUR_OK;
}

/* Compares names as JSON, and reads that member as this library writes it. */
gpur_status gpur_config_document_check_env(const gpur_options *o, const char *folder, const char *name,
                                           int32_t *eval_envs)
{
    static const char before[] = "\n  \"environment\": {\n    \"name\": ", envs[] = "\n    \"eval_envs\": ";
    gpur_text document = {0}, given = {0};
    gpur_status status = gpur_text_file_read(folder, "config.json", &document);
    const char *stored = status == GPUR_OK ? strstr(document.memory, before) : NULL;
    const char *const count = status == GPUR_OK ? strstr(document.memory, envs) : NULL;
    *eval_envs = count ? atoi(count + strlen(envs)) : 0;
    gpur_text_add_string(&given, name);
    if (stored) {
        stored += strlen(before);
        const size_t length = strcspn(stored, "\n") - 1; /* without the comma */
        if (given.length != length || strncmp(stored, gpur_text_of(&given), length) != 0)
            status = gpur_refuse(
                o, "{env} is of type \"%s\", and the run that is to be resumed has %.*s; the types must be the same",
                name, (int)length, stored);
    } else if (status == GPUR_OK) {
        status = gpur_fail(GPUR_FILE_ERROR, "%s/config.json has no name of an environment; it must have one", folder);
    }
    gpur_text_free(&document);
    gpur_text_free(&given);
    return status;
}
