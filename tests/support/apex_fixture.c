/* SPDX-License-Identifier: MIT */
#include "support/apex_fixture.h"

#include "base/clock.h"
#include "support/run_fixture.h"

#include <stdio.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SIDE = 84 };

/* Frames: each shows its step and a number of the episode. Episodes have 40 to 103 steps; some are cut off. */
typedef struct frames_env {
    uint64_t state;
    int32_t step, length;
} frames_env;

static const char *frames_init(const char *options, uint64_t seed, gpur_env_info *info, void **env)
{
    (void)options;
    info->obs = (gpur_space){.dtype = GPUR_UINT8, .shape = {SIDE, SIDE}, .high = 255.0f};
    info->action = (gpur_space){.dtype = GPUR_INT32, .num_actions = 4, .high = 3.0f};
    frames_env *const e = calloc(1, sizeof *e);
    *env = e;
    if (!e)
        return "no memory";
    e->state = seed;
    return NULL;
}

static void show(const frames_env *e, unsigned char *obs)
{
    memset(obs, e->step, (size_t)SIDE * SIDE);
    obs[0] = (unsigned char)(e->state >> 32);
}

static const char *frames_reset(void *env, void *obs)
{
    frames_env *const e = env;
    e->state = e->state * 6364136223846793005u + 1442695040888963407u; /* Knuth's MMIX */
    e->step = 0;
    e->length = 40 + (int32_t)(e->state >> 58);
    show(e, obs);
    return NULL;
}

static const char *frames_step(void *env, const void *action, void *obs, gpur_env_result *result)
{
    frames_env *const e = env;
    e->step++;
    result->reward = *(const int32_t *)action == e->step % 4 ? 1.0f : 0.0f;
    result->terminated = e->step == e->length && e->length % 4 != 0;
    result->truncated = e->step == e->length && e->length % 4 == 0;
    show(e, obs);
    return NULL;
}

static const gpur_env_type frames = {.size = sizeof frames,
                                     .name = "frames of 84 x 84",
                                     .init = frames_init,
                                     .reset = frames_reset,
                                     .step = frames_step,
                                     .close = free};

static gpur_status find_type(const char *name, apex_settings *s)
{
    const char *const colon = strchr(name, ':');
    s->run.env_options = colon ? colon + 1 : "";
    s->has_sac = name[0] == 's';
    s->has_dpg = name[0] == 'p' || name[0] == 't';
    s->run.type = name[0] == 'f' ? &frames : &run_fixture_env;
    return s->has_dpg || s->has_sac ? gpur_env_find("Pendulum", &s->run.type)
           : name[0] == 'c'         ? gpur_env_find("CartPole-v1", &s->run.type)
                                    : GPUR_OK;
}

static gpur_status read_preset(apex_settings *s)
{
    return gpur_apex_preset(s->has_dpg || s->has_sac ? "apex-dpg-small" : "apex-dqn-small", &s->run, s->fields,
                            &s->replay, &s->learner, &s->dpg, &s->apex);
}

/* Two critics, of "sac" beside a policy that draws its actions. */
static gpur_status set_critics(apex_settings *s)
{
    s->dpg.critics = s->dpg.policy_delay = 2;
    s->dpg.target_period = 10;
    GPUR_TRY(gpur_sac_config_init(&s->sac, sizeof s->sac));
    s->sac.actor.num_actions = 1;
    s->sac.actor.trunk[0].units = s->sac.critic.trunk[0].units = 32;
    s->sac.batch_size = 32;
    return GPUR_OK;
}

/* A small convolution, so that a step takes little longer than sending its frame. */
static void set_frames(apex_settings *s)
{
    gpur_network_config *const network = &s->learner.network;
    network->trunk[0] = (gpur_layer){.kind = GPUR_CONV, .units = 4, .activation = GPUR_RELU, .kernel = 8, .stride = 8};
    network->hidden = 16;
    s->replay.capacity = 2000;
    s->replay.block_rows = 100;
    s->replay.max_batch = 32;
    s->apex.block_rows = 50;
}

gpur_status apex_fixture_settings(const char *name, apex_settings *s)
{
    *s = (apex_settings){0};
    GPUR_TRY(gpur_run_config_init(&s->run, sizeof s->run));
    GPUR_TRY(find_type(name, s));
    GPUR_TRY(gpur_replay_config_init(&s->replay, sizeof s->replay));
    GPUR_TRY(gpur_dqn_config_init(&s->learner, sizeof s->learner));
    GPUR_TRY(gpur_dpg_config_init(&s->dpg, sizeof s->dpg));
    GPUR_TRY(gpur_apex_config_init(&s->apex, sizeof s->apex));
    GPUR_TRY(read_preset(s));
    s->replay.capacity = 4000;
    s->replay.min_size = 200;
    s->replay.block_rows = 64;
    s->replay.max_batch = 64;
    s->learner.network.hidden = 32;
    if (name[0] != 'f')
        s->learner.network.trunk[0].units = 32;
    s->dpg.actor.trunk[0].units = s->dpg.critic.trunk[0].units = 32;
    s->dpg.batch_size = 32;
    s->apex.actors = 3;
    s->run.eval_episodes = 0;
    s->apex.block_rows = 10;
    s->apex.soft_capacity = 0;
    s->apex.samples_per_insert = name[0] == 'c' ? 8.0 : 0.0;
    s->run.seed = 3;
    if (name[0] == 'f')
        set_frames(s);
    return name[0] == 't' || name[0] == 's' ? set_critics(s) : GPUR_OK;
}

static void on_event(void *user, const gpur_run_event *event)
{
    apex_fixture *const f = user;
    f->kinds[event->kind]++;
    if (event->kind == GPUR_RUN_EVALUATION)
        f->evaluation = *event;
    if (event->kind == GPUR_RUN_EPISODE)
        f->noise = event->epsilon;
    if (event->kind == GPUR_RUN_EPISODE && event->mean_return > f->best_return)
        f->best_return = event->mean_return;
    if (event->kind == GPUR_RUN_EPISODE && event->env_index > f->most_actor)
        f->most_actor = event->env_index;
    if (event->kind != GPUR_RUN_ENDED)
        return;
    f->asked += event->asked;
    f->lost_blocks += event->lost_blocks;
    f->lost_rows += event->lost_rows;
    f->steps += event->env_index != GPUR_APEX_EVALUATOR ? event->length : 0;
    if (event->error[0])
        snprintf(f->error, sizeof f->error, "%s", event->error);
}

gpur_status apex_fixture_open(apex_fixture *f, const char *device_name, const gpur_device_config *device,
                              const apex_settings *s)
{
    gpur_run_config run = s->run;
    *f = (apex_fixture){0};
    run.on_event = on_event;
    run.user = f;
    GPUR_TRY(gpur_device_open(device_name, device, &f->device));
    GPUR_TRY(gpur_replay_create(f->device, &s->replay, &f->replay));
    if (s->has_sac)
        GPUR_TRY(gpur_sac_create(f->replay, &s->sac, &f->learner));
    else if (s->has_dpg)
        GPUR_TRY(gpur_dpg_create(f->replay, &s->dpg, &f->learner));
    else
        GPUR_TRY(gpur_dqn_create(f->replay, &s->learner, &f->learner));
    GPUR_TRY(gpur_apex_create(f->learner, &run, &s->apex, &f->run));
    return gpur_apex_find(f->run, &f->apex);
}

void apex_fixture_close(apex_fixture *f)
{
    gpur_run_destroy(f->run);
    gpur_learner_destroy(f->learner);
    gpur_replay_destroy(f->replay);
    gpur_device_close(f->device);
    f->run = NULL, f->apex = NULL, f->learner = NULL, f->replay = NULL, f->device = NULL;
}

gpur_run_stats apex_fixture_stats(const apex_fixture *f)
{
    gpur_run_stats stats = {.size = sizeof stats};
    (void)gpur_run_get_stats(f->run, &stats);
    return stats;
}

static int has_sent(apex_fixture *f, int32_t actor)
{
    gpur_mutex_lock(&f->apex->core.lock);
    const int has = f->apex->tables[GPUR_SLOT_OWN].slots[actor]->has_sent;
    gpur_mutex_unlock(&f->apex->core.lock);
    return has;
}

gpur_status apex_fixture_await_actors(apex_fixture *f, int32_t actors)
{
    const double end = gpur_clock_seconds() + 30.0;
    for (int32_t i = 0; i < actors; i++)
        while (!has_sent(f, i) && gpur_clock_seconds() < end)
            GPUR_TRY(gpur_run_advance(f->run, 0, 5));
    return gpur_run_advance(f->run, 0, 25);
}

gpur_status apex_fixture_end_actors(apex_fixture *f)
{
    const double end = gpur_clock_seconds() + 30.0;
    GPUR_TRY(gpur_apex_set_actors(f->run, 0));
    while (apex_fixture_stats(f).apex.actors > 0 && gpur_clock_seconds() < end)
        GPUR_TRY(gpur_run_advance(f->run, 0, 1));
    return gpur_run_advance(f->run, 0, 1); /* delivers the last events */
}

/* The other process. */

const char *const *apex_fixture_command(const char *test, const char *kind, const char *name)
{
    static const char *words[6];
    const char *const all[6] = {"/proc/self/exe", test, "actor", kind, name, NULL};
    memcpy(words, all, sizeof words);
    return words;
}

typedef struct liar {
    const char *kind;
    int connection;
    int64_t blocks;
    gpur_shared shared;
    int64_t pulled; /* the broadcast whose weights it has */
} liar;

static gpur_status send_block(const liar *l, const void *block, int64_t bytes, int64_t steps)
{
    return gpur_connection_send(l->connection, GPUR_MESSAGE_BLOCK, steps, block, bytes);
}

static gpur_status send_damaged(const liar *l, const void *block, int64_t bytes, int64_t steps)
{
    unsigned char *const copy = malloc((size_t)bytes);
    memcpy(copy, block, (size_t)bytes);
    copy[bytes / 2] ^= 16;
    const gpur_status status = send_block(l, copy, bytes, steps);
    free(copy);
    return status;
}

static gpur_status send_noise(const liar *l)
{
    unsigned char noise[4096];
    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = (unsigned char)(i * 31 + 7);
    return send(l->connection, noise, sizeof noise, MSG_NOSIGNAL) > 0 ? GPUR_OK : GPUR_INTERRUPTED;
}

static gpur_status take_block(void *context, const void *block, int64_t bytes, int64_t steps)
{
    liar *const l = context;
    const int64_t number = l->blocks++;
    if (strcmp(l->kind, "gaps") == 0 && number % 2 == 1)
        return GPUR_OK;
    if (strcmp(l->kind, "damaged") == 0 && number == 4)
        return send_damaged(l, block, bytes, steps);
    if (strcmp(l->kind, "noise") == 0 && number == 4)
        return send_noise(l);
    GPUR_TRY(send_block(l, block, bytes, steps));
    return strcmp(l->kind, "again") == 0 ? send_block(l, block, bytes, steps) : GPUR_OK;
}

static gpur_status take_episode(void *context, const gpur_actor_episode *episode, int64_t steps)
{
    return gpur_connection_send(((const liar *)context)->connection, GPUR_MESSAGE_EPISODE, steps, episode,
                                sizeof *episode);
}

static gpur_status take_evaluation(void *context, const gpur_actor_evaluation *evaluation)
{
    return gpur_connection_send(((const liar *)context)->connection, GPUR_MESSAGE_EVALUATION, 0, evaluation,
                                sizeof *evaluation);
}

static gpur_status pull(void *context, gpur_actor_policies *policies, unsigned char *weights, int *is_newer)
{
    liar *const l = context;
    if (gpur_connection_is_gone(l->connection))
        return gpur_fail(GPUR_INTERRUPTED, "the learner is gone");
    return gpur_shared_pull(&l->shared, policies, weights, &l->pulled, is_newer);
}

static gpur_status lie(liar *l, const apex_settings *s)
{
    gpur_hello hello;
    int fd = -1;
    gpur_block_format *format = NULL;
    gpur_device *device = NULL;
    const gpur_actor_transport transport = {l, take_block, take_episode, pull, take_evaluation, NULL};
    GPUR_TRY(gpur_connection_receive_hello(l->connection, &hello, &fd));
    if (strcmp(l->kind, "all killed") == 0 || (strcmp(l->kind, "killed") == 0 && hello.settings.actor == 1) ||
        (strcmp(l->kind, "evaluator killed") == 0 && hello.settings.actor == GPUR_APEX_EVALUATOR))
        (void)raise(SIGKILL);
    GPUR_TRY(gpur_shared_map(&l->shared, fd, hello.weights_bytes));
    GPUR_TRY(gpur_block_format_create(&s->replay, &format));
    GPUR_TRY(gpur_actor_open_device(1, &device));
    const gpur_actor_context context = {s->run.type,
                                        s->run.env_options,
                                        device,
                                        format,
                                        {sizeof(gpur_apex_networks), &s->learner.network, NULL, 0, 0},
                                        gpur_shared_counts(&l->shared, hello.settings.actor),
                                        &l->shared};
    if (strcmp(l->kind, "foreign") == 0)
        hello.settings.actor++;
    const gpur_status status = gpur_actor_run(&context, &hello.settings, &transport);
    if (status == GPUR_OK)
        GPUR_TRY(gpur_connection_send(l->connection, GPUR_MESSAGE_END, 0, NULL, 0));
    gpur_block_format_destroy(format);
    gpur_device_close(device);
    gpur_shared_close(&l->shared);
    return status;
}

int apex_fixture_serve(const char *kind, const char *name)
{
    const int narrow = 4096, is_narrow = strcmp(kind, "narrow") == 0, is_late = strcmp(kind, "late") == 0;
    apex_settings s;
    liar l = {.kind = kind, .connection = 3};
    if (strcmp(kind, "exit") == 0)
        return 7;
    gpur_status status = apex_fixture_settings(name, &s);
    if (is_narrow && setsockopt(3, SOL_SOCKET, SO_SNDBUF, &narrow, sizeof narrow) != 0)
        return 1;
    if (status == GPUR_OK && (is_narrow || is_late || strcmp(kind, "serve") == 0))
        status = gpur_apex_serve(3, &s.run, &s.replay, APEX_NETWORKS(&s), 0);
    else if (status == GPUR_OK)
        status = lie(&l, &s);
    if (is_late)
        nanosleep(&(struct timespec){.tv_sec = 60}, NULL);
    return status == GPUR_OK || status == GPUR_INTERRUPTED ? 0 : 1;
}
