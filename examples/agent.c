/* SPDX-License-Identifier: MIT */
#include "agent.h"
#include "try.h"

#include <stdio.h>
#include <string.h>

static gpur_status open_replay(agent *opened, const env_kind *kind, const agent_config *config)
{
    gpur_field fields[] = {
        kind->obs,
        kind->action,
        {.name = "reward", .dtype = GPUR_FLOAT32},
        kind->obs,
        {.name = "terminated", .dtype = GPUR_BOOL},
        {.name = "truncated", .dtype = GPUR_BOOL},
    };
    fields[3].name = "next_obs";
    gpur_replay_config replay;
    TRY(gpur_replay_config_init(&replay, sizeof replay));
    replay.capacity = config->capacity;
    replay.fields = fields;
    replay.field_count = sizeof fields / sizeof *fields;
    replay.min_size = config->min_size;
    replay.gamma = config->gamma;
    replay.seed = config->seed;
    return gpur_replay_create(opened->device, &replay, &opened->replay);
}

static gpur_status open_learner(agent *opened, const env_kind *kind, const agent_config *config)
{
    gpur_learner_config learner;
    TRY(gpur_learner_config_init(&learner, sizeof learner));
    TRY(gpur_learner_config_preset(&learner, config->preset));
    learner.network.outputs = kind->actions;
    learner.max_act_batch = config->max_act;
    learner.seed = config->seed;
    return gpur_learner_create(opened->replay, &learner, &opened->learner);
}

static void say(void *user, const char *line)
{
    (void)user;
    fprintf(stderr, "%s\n", line);
}

static gpur_status open_on(agent *opened, const char *name, const env_kind *kind, const agent_config *config)
{
    *opened = (agent){0};
    gpur_device_config device;
    TRY(gpur_device_config_init(&device, sizeof device));
    device.threads = config->threads;
    device.log = say;
    TRY(gpur_device_open(name, &device, &opened->device));
    TRY(open_replay(opened, kind, config));
    TRY(open_learner(opened, kind, config));
    return gpur_writer_create(opened->replay, config->envs, &opened->writer);
}

/* A GPU without cuBLAS has a replay and no learner: "auto" then means the CPU, and says why. */
gpur_status agent_open(agent *opened, const env_kind *kind, const agent_config *config)
{
    const gpur_status status = open_on(opened, config->device, kind, config);
    if (status != GPUR_UNAVAILABLE || strcmp(config->device, "auto") != 0)
        return status;
    say(NULL, gpur_last_error());
    say(NULL, "using the CPU");
    agent_close(opened);
    return open_on(opened, "cpu", kind, config);
}

void agent_close(agent *opened)
{
    gpur_writer_destroy(opened->writer);
    gpur_learner_destroy(opened->learner);
    gpur_replay_destroy(opened->replay);
    gpur_device_close(opened->device);
    *opened = (agent){0};
}

typedef struct file_names {
    char replay[4096], learner[4096];
} file_names;

static file_names names_in(const char *folder)
{
    file_names names;
    snprintf(names.replay, sizeof names.replay, "%s/replay.safetensors", folder);
    snprintf(names.learner, sizeof names.learner, "%s/learner.safetensors", folder);
    return names;
}

gpur_status agent_save(agent *opened, const char *folder)
{
    const file_names names = names_in(folder);
    TRY(gpur_replay_save(opened->replay, names.replay, NULL));
    return gpur_learner_save(opened->learner, names.learner, NULL);
}

gpur_status agent_load(agent *opened, const char *folder)
{
    const file_names names = names_in(folder);
    TRY(gpur_replay_load(opened->replay, names.replay, NULL));
    return gpur_learner_load(opened->learner, names.learner, NULL);
}

gpur_status agent_remember(agent *opened, const vec_env *envs, const int32_t *actions)
{
    TRY(gpur_writer_step(opened->writer, actions, envs->reward, envs->next_obs, envs->terminated, envs->truncated));
    for (int32_t i = 0; i < envs->count; i++)
        if (vec_env_ended(envs, i))
            TRY(gpur_writer_reset(opened->writer, i, vec_env_obs(envs, i)));
    return GPUR_OK;
}
