/* SPDX-License-Identifier: MIT */
#include "agent.h"

#include "failure.h"

#include <string.h>

static void print_line(void *user, const char *line)
{
    (void)user;
    fprintf(stderr, "%s\n", line);
}

/* Before the replay takes its memory, which may take long, or be more than there is. */
static gpur_status print_system(gpur_device *device, const options *o, const settings *s)
{
    gpur_device_info info = {.size = sizeof info};
    const gpur_status status = gpur_device_get_info(device, &info);
    if (status != GPUR_OK || o->value[OPTION_QUIET])
        return status;
    if (is_actor_critic(s))
        printf("%s, %d agents", s->type.name, (int)s->ga3c.agents);
    else if (is_apex(s))
        printf("%s, %d actors in %s", s->type.name, (int)s->apex.actors, s->apex.command ? "processes" : "threads");
    else
        printf("%s, %d at a time", s->type.name, (int)s->run.num_envs);
    printf(", by %s on %s: %s\n", o->value[OPTION_PRESET], info.name, info.description);
    fflush(stdout);
    return GPUR_OK;
}

static gpur_status open_run(agent *a, const settings *s)
{
    a->is_apex = is_apex(s);
    return a->is_apex ? gpur_apex_create(a->learner, &s->all, &s->apex, &a->run)
                      : gpur_fast_dqn_create(a->learner, &s->all, &s->run, &a->run);
}

/* With the learner, and its replay. */
static gpur_status open_replay(agent *a, const settings *s)
{
    gpur_status status = gpur_replay_create(a->device, &s->replay, &a->replay);
    if (status == GPUR_OK)
        status = s->system == SYSTEM_APEX_DPG ? gpur_dpg_create(a->replay, &s->dpg, &a->learner)
                                              : gpur_dqn_create(a->replay, &s->learner, &a->learner);
    return status == GPUR_OK ? open_run(a, s) : status;
}

static gpur_status open_ga3c(agent *a, const settings *s)
{
    const gpur_status status = gpur_actor_critic_create(a->device, &s->actor_critic, &a->actor_critic);
    return status == GPUR_OK ? gpur_ga3c_create(a->actor_critic, &s->all, &s->ga3c, &a->run) : status;
}

static gpur_status open_all(agent *a, const char *device_name, const options *o, const settings *s)
{
    gpur_device_config device;
    gpur_status status = gpur_device_config_init(&device, sizeof device);
    device.threads = (int32_t)options_integer(o, OPTION_THREADS);
    device.deterministic = o->value[OPTION_DETERMINISTIC] && options_integer(o, OPTION_DETERMINISTIC);
    device.log = print_line;
    if (status == GPUR_OK)
        status = gpur_device_open(device_name, &device, &a->device);
    if (status == GPUR_OK)
        status = print_system(a->device, o, s);
    return status != GPUR_OK ? status : is_actor_critic(s) ? open_ga3c(a, s) : open_replay(a, s);
}

int agent_open(agent *a, const options *o, const settings *s)
{
    const char *const device = o->value[OPTION_DEVICE];
    gpur_status status = open_all(a, device, o, s);
    if (status == GPUR_UNAVAILABLE && strcmp(device, "auto") == 0) { /* without cuBLAS a GPU has no learner */
        fprintf(stderr, "%s\nusing the CPU\n", gpur_last_error());
        agent_close(a);
        status = open_all(a, "cpu", o, s);
    }
    return status == GPUR_OK ? 0 : fail("%s", gpur_last_error());
}

void agent_close(agent *a)
{
    gpur_run_destroy(a->run);
    gpur_learner_destroy(a->actor_critic);
    gpur_learner_destroy(a->learner);
    gpur_replay_destroy(a->replay);
    gpur_device_close(a->device);
    *a = (agent){0};
}

int32_t agent_math(const agent *a)
{
    return gpur_learner_math(a->actor_critic ? a->actor_critic : a->learner);
}

gpur_status agent_save_learner(agent *a, const char *path)
{
    return gpur_learner_save(a->actor_critic ? a->actor_critic : a->learner, path, NULL);
}
