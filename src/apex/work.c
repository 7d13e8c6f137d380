/* SPDX-License-Identifier: MIT */
/* What a remote actor does: an actor whose transport is a folder. */
#include "apex/folder.h"

#include "file/atomic_file.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MOST_WAITING = 2 }; /* files of an actor */
static const struct timespec POLL_INTERVAL = {.tv_nsec = 10 * 1000 * 1000};

typedef struct remote {
    gpur_apex_paths paths;
    gpur_actor_resources resources;
    gpur_actor_settings settings;
    gpur_actor_counts counts;
    struct stat model; /* the file whose weights it has; zeroed: none */
    int (*stop)(void *user);
    void *user;
} remote;

/* Asks whether the remote actor is to end; then the actor ends, too. */
static int is_asked_to_end(remote *w)
{
    if (w->stop && w->stop(w->user))
        atomic_store(&w->counts.is_asked, 1);
    return atomic_load(&w->counts.is_asked);
}

static gpur_status wait_a_little(remote *w)
{
    if (is_asked_to_end(w))
        return gpur_fail(GPUR_INTERRUPTED, "the remote actor is asked to end");
    nanosleep(&POLL_INTERVAL, NULL);
    return GPUR_OK;
}

/* The files of this actor that were not taken yet, also those of earlier incarnations. */
static gpur_status count_waiting(const remote *w, int *count)
{
    char begin[16];
    DIR *const entries = opendir(w->paths.blocks);
    if (!entries)
        return gpur_fail(GPUR_FILE_ERROR, "%s cannot be read: %s", w->paths.blocks, strerror(errno));
    const int length = snprintf(begin, sizeof begin, "%04d-", (int)w->settings.actor);
    *count = 0;
    for (const struct dirent *e = readdir(entries); e; e = readdir(entries))
        *count += strncmp(e->d_name, begin, (size_t)length) == 0 && gpur_apex_name_ends(e->d_name, ".block");
    closedir(entries);
    return GPUR_OK;
}

static gpur_status wait_for_room(remote *w)
{
    for (int count = MOST_WAITING;;) {
        GPUR_TRY(count_waiting(w, &count));
        if (count < MOST_WAITING)
            return GPUR_OK;
        GPUR_TRY(wait_a_little(w));
    }
}

/* A file that is taken is deleted, or renamed. One that is asked to end does not wait. */
static void wait_until_taken(remote *w, const char *path)
{
    while (w->settings.waits && access(path, F_OK) == 0 && !is_asked_to_end(w))
        nanosleep(&POLL_INTERVAL, NULL);
}

static gpur_status write_block(const char *path, const void *block, int64_t bytes)
{
    gpur_atomic_file file;
    GPUR_TRY(gpur_atomic_file_begin(&file, path, bytes));
    const gpur_status status = gpur_atomic_file_write(&file, block, bytes, 0);
    if (status == GPUR_OK)
        return gpur_atomic_file_commit(&file);
    gpur_atomic_file_discard(&file);
    return status;
}

/* Names in alphabetical order are in the order in which an actor made the blocks. */
static gpur_status take_block(void *context, const void *block, int64_t bytes, int64_t steps)
{
    remote *const w = context;
    char name[64], path[GPUR_FOLDER_PATH];
    (void)steps;
    GPUR_TRY(wait_for_room(w));
    (void)is_asked_to_end(w); /* the caller is asked here, too, where nothing waits */
    snprintf(name, sizeof name, "%04d-%020" PRId64 "-%010" PRId64 ".block", (int)w->settings.actor,
             w->settings.incarnation, (int64_t)atomic_load(&w->counts.blocks) - 1);
    GPUR_TRY(gpur_folder_path(w->paths.blocks, name, path));
    GPUR_TRY(write_block(path, block, bytes));
    wait_until_taken(w, path);
    return GPUR_OK;
}

/* Episode returns are not written to the folder. */
static gpur_status take_episode(void *context, const gpur_actor_episode *episode, int64_t steps)
{
    (void)context, (void)episode, (void)steps;
    return GPUR_OK;
}

static int is_same(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_dev == b->st_dev && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
           a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static gpur_status load(const remote *w, const gpur_actor_policies *policies)
{
    if (policies->critic)
        GPUR_TRY(gpur_policy_load(policies->critic, w->paths.critic, NULL));
    return gpur_policy_load(policies->acting, w->paths.model, NULL);
}

/* Waits for the first weights. A later file that cannot be read is passed over, as the next one may be better. */
static gpur_status pull(void *context, const gpur_actor_policies *policies, int *is_newer)
{
    remote *const w = context;
    const int has_weights = w->model.st_ino != 0;
    struct stat there;
    while (stat(w->paths.model, &there) != 0) {
        if (has_weights)
            return GPUR_OK;
        GPUR_TRY(wait_a_little(w));
    }
    (void)is_asked_to_end(w); /* the caller is asked here, too, where nothing waits */
    if (is_same(&there, &w->model))
        return GPUR_OK;
    const gpur_status status = load(w, policies);
    if (status == GPUR_FILE_ERROR && has_weights)
        return GPUR_OK;
    GPUR_TRY(status);
    w->model = there;
    *is_newer = 1;
    return GPUR_OK;
}

static int64_t microseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* Nobody counts the starts of a remote actor, so its incarnation is the time of this one. */
static gpur_status read_settings(const gpur_apex_config *given, int32_t actor, remote *w, gpur_actor_context *context)
{
    gpur_apex_config c;
    GPUR_TRY(gpur_apex_read_config(given, &c));
    GPUR_REQUIRE(c.folder, "folder is NULL; a remote actor must have one");
    GPUR_TRY(gpur_apex_check_actor(&c, actor));
    w->settings = gpur_apex_actor_settings(&c, context->networks.critic != NULL, actor, microseconds());
    context->env_options = c.env_options ? c.env_options : "";
    return gpur_apex_paths_open(c.folder, &w->paths);
}

static gpur_status work(remote *w, gpur_actor_context *context, const gpur_replay_config *replay, int32_t threads)
{
    const gpur_actor_transport transport = {w, take_block, take_episode, pull};
    GPUR_TRY(gpur_actor_resources_open(&w->resources, context, replay, threads));
    context->counts = &w->counts;
    return gpur_actor_run(context, &w->settings, &transport);
}

static gpur_status check_and_work(const gpur_apex_config *config, int32_t actor, remote *w, gpur_actor_context *context,
                                  const gpur_replay_config *replay, int32_t threads)
{
    GPUR_TRY(gpur_actor_check(context, replay, threads));
    GPUR_TRY(read_settings(config, actor, w, context));
    const gpur_status status = work(w, context, replay, threads);
    gpur_actor_resources_close(&w->resources);
    return status == GPUR_INTERRUPTED ? GPUR_OK : status;
}

gpur_status gpur_apex_work(const gpur_apex_config *config, int32_t actor, const gpur_env_type *type,
                           const gpur_replay_config *replay, const gpur_network_config *network, int32_t threads,
                           int (*stop)(void *user), void *user)
{
    remote w = {.stop = stop, .user = user};
    gpur_actor_context context = {.type = type, .networks = {.acting = network}};
    return check_and_work(config, actor, &w, &context, replay, threads);
}

gpur_status gpur_apex_work_dpg(const gpur_apex_config *config, int32_t actor, const gpur_env_type *type,
                               const gpur_replay_config *replay, const gpur_network_config *actor_network,
                               const gpur_network_config *critic_network, int32_t threads, int (*stop)(void *user),
                               void *user)
{
    remote w = {.stop = stop, .user = user};
    gpur_actor_context context = {.type = type, .networks = {critic_network ? actor_network : NULL, critic_network}};
    return check_and_work(config, actor, &w, &context, replay, threads);
}
