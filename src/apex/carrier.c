/* SPDX-License-Identifier: MIT */
/* How actors are started and how their blocks reach the intake: a thread of this process, or a process of their own. */
#include "apex/apex.h"

#include "base/thread.h"
#include "replay/view.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Threads. */

typedef struct thread_actor {
    gpur_slot *slot;
    gpur_shared_reader reader;
} thread_actor;

static gpur_status take_block(void *context, const void *block, int64_t bytes, int64_t steps)
{
    return gpur_apex_take_block(((const thread_actor *)context)->slot, block, bytes, steps);
}

static gpur_status take_episode(void *context, const gpur_actor_episode *episode, int64_t steps)
{
    return gpur_apex_take_episode(((const thread_actor *)context)->slot, episode, steps);
}

static gpur_status pull(void *context, const gpur_actor_policies *policies, int *is_newer)
{
    return gpur_shared_pull(&((thread_actor *)context)->reader, policies, is_newer);
}

static void *act(void *given)
{
    gpur_slot *const slot = given;
    gpur_apex *const apex = slot->apex;
    const gpur_actor_settings settings = gpur_slot_settings(slot);
    gpur_actor_counts *const counts = gpur_shared_counts(&apex->shared, slot->actor);
    thread_actor actor = {slot, {.shared = &apex->shared}};
    const gpur_actor_transport transport = {&actor, take_block, take_episode, pull};
    const gpur_actor_context context = {.type = apex->type,
                                        .env_options = apex->env_options,
                                        .device = apex->device,
                                        .schema = gpur_replay_schema(apex->replay),
                                        .replay = gpur_replay_settings(apex->replay),
                                        .format = apex->format,
                                        .networks = apex->learner.networks,
                                        .counts = counts};
    slot->status = gpur_actor_run(&context, &settings, &transport);
    gpur_shared_reader_close(&actor.reader);
    if (slot->status != GPUR_OK && slot->status != GPUR_INTERRUPTED)
        snprintf(slot->error, sizeof slot->error, "%s", gpur_last_error());
    gpur_apex_take_end(slot, atomic_load(&counts->steps));
    atomic_store(&slot->has_returned, 1);
    gpur_supervisor_wake(apex);
    return NULL;
}

gpur_status gpur_slot_start_thread(gpur_slot *slot)
{
    return gpur_thread_start(&slot->thread, act, slot, "an actor");
}

/* Processes. */

/* What the process has of this one: its end of the connection as descriptor 3, the environment, and what the caller's
 * program leaves open for its children. The signals that the library's threads block are open to it. */
static gpur_status set_attributes(posix_spawnattr_t *attributes, posix_spawn_file_actions_t *actions, int end)
{
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    int error = posix_spawnattr_setsigmask(attributes, &none);
    error = error ? error : posix_spawnattr_setsigdefault(attributes, &all);
    error = error ? error : posix_spawnattr_setpgroup(attributes, 0);
    error = error ? error
                  : posix_spawnattr_setflags(attributes,
                                             POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
    error = error ? error : posix_spawn_file_actions_adddup2(actions, end, 3);
    return error ? gpur_fail(GPUR_OUT_OF_MEMORY, "an actor's process cannot be prepared: %s", strerror(error))
                 : GPUR_OK;
}

/* Starts the command. A program that starts itself by /proc/self/exe is shown in lists of processes by what it does. */
static int start_command(const gpur_slot *slot, const posix_spawnattr_t *attributes,
                         const posix_spawn_file_actions_t *actions, pid_t *process)
{
    char **const command = slot->apex->command, *const program = command[0];
    char name[32] = "gpureplay evaluator";
    if (!gpur_slot_evaluates(slot))
        snprintf(name, sizeof name, "gpureplay actor %d", (int)slot->actor);
    command[0] = strcmp(program, "/proc/self/exe") == 0 ? name : program;
    const int error = posix_spawnp(process, program, actions, attributes, command, environ);
    command[0] = program;
    return error;
}

static gpur_status spawn(const gpur_slot *slot, int end, pid_t *process)
{
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_t actions;
    if (posix_spawnattr_init(&attributes) != 0)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory to start an actor's process");
    if (posix_spawn_file_actions_init(&actions) != 0) {
        posix_spawnattr_destroy(&attributes);
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory to start an actor's process");
    }
    gpur_status status = set_attributes(&attributes, &actions, end);
    const int error = status == GPUR_OK ? start_command(slot, &attributes, &actions, process) : 0;
    if (error)
        status = gpur_fail(GPUR_INVALID_ARGUMENT, "\"%.200s\" could not be started: %s", slot->apex->command[0],
                           strerror(error));
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return status;
}

static gpur_hello hello_of(const gpur_slot *slot)
{
    gpur_hello hello;
    memset(&hello, 0, sizeof hello);
    hello.size = sizeof hello;
    hello.format = gpur_block_format_hash(slot->apex->format);
    hello.weights_bytes = slot->apex->shared.weights_bytes;
    hello.settings = gpur_slot_settings(slot);
    return hello;
}

static gpur_status connect_and_spawn(gpur_slot *slot, const int ends[2])
{
    const gpur_hello hello = hello_of(slot);
    pid_t process;
    GPUR_TRY(gpur_connection_send_hello(ends[0], &hello, slot->apex->shared.fd));
    GPUR_TRY(spawn(slot, ends[1], &process));
    gpur_mutex_lock(&slot->apex->lock);
    slot->process = process;
    gpur_mutex_unlock(&slot->apex->lock);
    return GPUR_OK;
}

gpur_status gpur_slot_start_process(gpur_slot *slot)
{
    int ends[2];
    GPUR_TRY(gpur_connection_make(ends, slot->apex->max_message));
    const gpur_status status = connect_and_spawn(slot, ends);
    close(ends[1]);
    slot->inbox.fd = ends[0];
    if (status != GPUR_OK)
        gpur_inbox_close(&slot->inbox);
    return status;
}
