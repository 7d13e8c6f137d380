/* SPDX-License-Identifier: MIT */
/* The transport of actors in processes: messages over a pair of sockets, and weights in shared memory. */
#include "run/apex/transport/transport.h"

#include "base/clock.h"
#include "base/platform.h"
#include "run/apex/intake.h"
#include "run/apex/transport/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { READS = 4 }; /* messages of one actor in a row, so that all get their turn */

/* The learner's side of an actor's process. */
typedef struct actor_process {
    pid_t process;
    gpur_inbox inbox;        /* fd -1: the process has closed its end, or is not listened to any more */
    int has_message;         /* 1: the inbox has a message that could not be taken yet */
    gpur_intake_block block; /* of this message, with a slot once it was checked */
    int has_exited;          /* 1: with `exit`, or if `is_lost` with nobody knows what */
    int is_lost;
    int was_late; /* 1: it was killed here, since it did not end in time */
    int exit;
} actor_process;

/* Starting. */

/* The child inherits its end of the socket as descriptor 3, the environment, and what the caller's program leaves open
 * for its children. Signals that threads of the library block are unblocked in it. */
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
    const int error = posix_spawnp(process, program, actions, attributes, command, gpur_environment());
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
    hello.settings = gpur_apex_slot_settings(slot);
    return hello;
}

static gpur_status open_process(const gpur_slot *slot, actor_process *p)
{
    const gpur_hello hello = hello_of(slot);
    int ends[2];
    GPUR_TRY(gpur_connection_make(ends, slot->apex->max_message));
    p->inbox.fd = ends[0];
    gpur_status status = gpur_connection_send_hello(ends[0], &hello, slot->apex->shared.fd);
    if (status == GPUR_OK)
        status = spawn(slot, ends[1], &p->process);
    close(ends[1]);
    return status;
}

static void close_process(gpur_slot *slot, actor_process *p)
{
    gpur_inbox_close(&p->inbox);
    gpur_intake_close(&p->block);
    free(p);
    slot->transport = NULL;
}

static gpur_status start(gpur_slot *slot)
{
    actor_process *const p = calloc(1, sizeof *p);
    if (!p)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for an actor");
    p->inbox.fd = -1;
    const gpur_status status = open_process(slot, p);
    if (status != GPUR_OK) {
        close_process(slot, p);
        return status;
    }
    slot->transport = p;
    gpur_mutex_lock(&slot->apex->core.lock);
    slot->process = p->process;
    gpur_mutex_unlock(&slot->apex->core.lock);
    return GPUR_OK;
}

/* Messages. */

static void kill_process(const actor_process *p)
{
    if (!p->has_exited)
        kill(p->process, SIGKILL);
}

/* An actor that sends what cannot be is not listened to any more; it is started again, unless restarts is 0. */
static void drop(gpur_slot *slot, actor_process *p, gpur_status status)
{
    gpur_slot_note_error(slot, gpur_last_error());
    slot->status = status;
    kill_process(p);
    gpur_inbox_close(&p->inbox);
}

/* If the run has a limiter, the actor waits for the answer, whatever became of the block. */
static gpur_status take_block(gpur_slot *slot, actor_process *p)
{
    const gpur_message *const head = &p->inbox.head;
    gpur_status status = GPUR_OK;
    if (!p->block.slot)
        status = gpur_intake_open(slot, p->inbox.data, head->bytes, head->steps, &p->block);
    if (status == GPUR_OK)
        status = gpur_intake_insert(&p->block, GPUR_INTAKE_TRIES);
    if (status == GPUR_WOULD_BLOCK)
        return status;
    gpur_intake_close(&p->block);
    if (slot->apex->config.samples_per_insert > 0.0)
        gpur_connection_answer(p->inbox.fd);
    return status;
}

static gpur_status take_episode(gpur_slot *slot, const actor_process *p)
{
    gpur_actor_episode episode;
    GPUR_REQUIRE(p->inbox.head.bytes == (int64_t)sizeof episode, "an episode has %" PRId64 " bytes; it must have %zu",
                 p->inbox.head.bytes, sizeof episode);
    memcpy(&episode, p->inbox.data, sizeof episode);
    return gpur_intake_take_episode(slot, &episode, p->inbox.head.steps, GPUR_INTAKE_TRIES);
}

static gpur_status take_evaluation(gpur_slot *slot, const actor_process *p)
{
    gpur_actor_evaluation evaluation;
    GPUR_REQUIRE(gpur_slot_evaluates(slot) && p->inbox.head.bytes == (int64_t)sizeof evaluation,
                 "actor %d has sent an evaluation of %" PRId64 " bytes; it must be of actor %d, and have %zu",
                 (int)slot->actor, p->inbox.head.bytes, GPUR_APEX_EVALUATOR, sizeof evaluation);
    memcpy(&evaluation, p->inbox.data, sizeof evaluation);
    gpur_apex_take_evaluation(slot, &evaluation);
    return GPUR_OK;
}

static gpur_status take_error(gpur_slot *slot, const actor_process *p)
{
    char error[GPUR_MESSAGE_TEXT];
    const int64_t bytes = gpur_min(p->inbox.head.bytes, GPUR_MESSAGE_TEXT - 1);
    if (bytes > 0)
        memcpy(error, p->inbox.data, (size_t)bytes);
    error[bytes] = 0;
    gpur_slot_note_error(slot, error);
    slot->status = GPUR_INVALID_ARGUMENT;
    return GPUR_OK;
}

static gpur_status take_message(gpur_slot *slot, actor_process *p)
{
    switch (p->inbox.head.kind) {
    case GPUR_MESSAGE_BLOCK:
        return take_block(slot, p);
    case GPUR_MESSAGE_EPISODE:
        return take_episode(slot, p);
    case GPUR_MESSAGE_EVALUATION:
        return take_evaluation(slot, p);
    case GPUR_MESSAGE_ERROR:
        return take_error(slot, p);
    default:
        gpur_intake_take_end(slot, p->inbox.head.steps);
        return GPUR_OK;
    }
}

/* An error of the replay or the device ends the run, and one of the actor's ends the actor. When the run is destroyed,
 * what still comes is read and passed over, so that actors can end. */
static void judge_message(gpur_slot *slot, actor_process *p, gpur_status status)
{
    if (gpur_intake_is_refusal(status))
        drop(slot, p, status);
    else if (status != GPUR_OK && status != GPUR_INTERRUPTED)
        gpur_run_fail(&slot->apex->core, status);
}

/* Reads the next message; returns 1 if it is there. */
static int read_message(gpur_slot *slot, actor_process *p)
{
    const gpur_inbox_state state =
        p->has_message ? GPUR_INBOX_MESSAGE : gpur_inbox_read(&p->inbox, slot->apex->max_message);
    if (state == GPUR_INBOX_CLOSED) {
        gpur_inbox_close(&p->inbox);
        gpur_supervisor_expect_end(slot);
    } else if (state == GPUR_INBOX_DAMAGED) {
        drop(slot, p, GPUR_FILE_ERROR);
    }
    return p->has_message = state == GPUR_INBOX_MESSAGE;
}

/* Takes up to so many messages, until there is none, or one that the run does not let in now. */
static void take_messages(gpur_slot *slot, actor_process *p, int most)
{
    for (int i = 0; i < most && p->inbox.fd >= 0 && read_message(slot, p); i++) {
        const gpur_status status = take_message(slot, p);
        if (status == GPUR_WOULD_BLOCK)
            return;
        p->has_message = 0;
        gpur_inbox_next(&p->inbox);
        judge_message(slot, p, status);
    }
}

static void receive(gpur_slot *slot)
{
    take_messages(slot, slot->transport, READS);
}

/* While a message waits for the run no other one is read. */
static int descriptor(const gpur_slot *slot)
{
    const actor_process *const p = slot->transport;
    return p && !p->has_message ? p->inbox.fd : -1;
}

/* Ends. */

/* The time of an actor that is asked to end does not run while its message waits for the run. */
static void kill_late(gpur_slot *slot, actor_process *p)
{
    const double now = gpur_clock_seconds();
    if (p->has_message && slot->deadline < (double)INFINITY)
        slot->deadline = now + GPUR_APEX_KILL_AFTER_SECONDS;
    if (now > slot->deadline) {
        p->was_late = 1;
        kill_process(p);
    }
}

/* Returns 1 if the process has exited, which is then forgotten. Its last block does not wait for the limiter. */
static int reap(gpur_slot *slot, actor_process *p)
{
    const pid_t found = waitpid(p->process, &p->exit, WNOHANG);
    if (found == 0)
        kill_late(slot, p);
    if (found == 0 || (found < 0 && errno == EINTR))
        return 0;
    p->has_exited = 1;
    p->is_lost = found < 0;
    gpur_mutex_lock(&slot->apex->core.lock);
    slot->process = -1;
    slot->has_ended = 1;
    gpur_mutex_unlock(&slot->apex->core.lock);
    return 1;
}

static void note_exit(gpur_slot *slot, const actor_process *p)
{
    char error[GPUR_APEX_ERROR];
    const int was_asked = atomic_load(&gpur_slot_counts(slot)->is_asked);
    if (p->is_lost)
        snprintf(error, sizeof error, "its process is gone");
    else if (WIFSIGNALED(p->exit) && p->was_late)
        snprintf(error, sizeof error, "its process was killed, since it did not end within %d s",
                 GPUR_APEX_KILL_AFTER_SECONDS);
    else if (WIFSIGNALED(p->exit))
        snprintf(error, sizeof error, "its process was killed by signal %d (%s)", WTERMSIG(p->exit),
                 strsignal(WTERMSIG(p->exit)));
    else
        snprintf(error, sizeof error, "its process ended with status %d", WEXITSTATUS(p->exit));
    if (!was_asked || p->is_lost || WIFSIGNALED(p->exit))
        gpur_slot_note_error(slot, error);
}

/* A process that has exited has sent all that it will, so the rest is read first; while the run is not open, that
 * waits. One that has closed its end and goes on is killed after a while. */
static int has_ended(gpur_slot *slot, int *was_killed)
{
    actor_process *const p = slot->transport;
    if (p->has_message)
        receive(slot);
    if (!p->has_exited && !reap(slot, p))
        return 0;
    take_messages(slot, p, INT32_MAX);
    if (p->has_message)
        return 0;
    note_exit(slot, p);
    *was_killed = !p->is_lost && WIFSIGNALED(p->exit) && !p->was_late;
    close_process(slot, p);
    return 1;
}

static int is_used(const gpur_apex *apex)
{
    return apex->command != NULL;
}

const gpur_transport gpur_process_transport = {
    .is_used = is_used, .start = start, .has_ended = has_ended, .descriptor = descriptor, .receive = receive};

/* The actor's side. */

/* What gpur_apex_serve opens for its actor. */
typedef struct served_actor {
    int connection;
    int waits;     /* 1: for the answer to each block */
    int32_t actor; /* -1: not known yet */
    gpur_shared shared;
    int64_t pulled; /* the broadcast whose weights it has */
    gpur_actor_resources resources;
} served_actor;

static gpur_status send_block(void *context, const void *block, int64_t bytes, int64_t steps)
{
    const served_actor *const s = context;
    GPUR_TRY(gpur_connection_send(s->connection, GPUR_MESSAGE_BLOCK, steps, block, bytes));
    return s->waits ? gpur_connection_await_answer(s->connection) : GPUR_OK;
}

static gpur_status send_episode(void *context, const gpur_actor_episode *episode, int64_t steps)
{
    const served_actor *const s = context;
    return gpur_connection_send(s->connection, GPUR_MESSAGE_EPISODE, steps, episode, sizeof *episode);
}

static int is_gone(void *context)
{
    return gpur_connection_is_gone(((const served_actor *)context)->connection);
}

static gpur_status pull(void *context, gpur_actor_policies *policies, unsigned char *weights, int *is_newer)
{
    served_actor *const s = context;
    if (is_gone(s))
        return gpur_fail(GPUR_INTERRUPTED, "the learner is gone");
    return gpur_shared_pull(&s->shared, policies, weights, &s->pulled, is_newer);
}

static gpur_status send_evaluation(void *context, const gpur_actor_evaluation *evaluation)
{
    return gpur_connection_send(((const served_actor *)context)->connection, GPUR_MESSAGE_EVALUATION, 0, evaluation,
                                sizeof *evaluation);
}

static gpur_status act(served_actor *s, const gpur_actor_settings *settings)
{
    const gpur_actor_transport transport = {s, send_block, send_episode, pull, send_evaluation, is_gone};
    gpur_actor_context *const context = &s->resources.context;
    s->waits = settings->waits;
    context->counts = gpur_shared_counts(&s->shared, settings->actor);
    context->shared = &s->shared;
    GPUR_TRY(gpur_actor_run(context, settings, &transport));
    return gpur_connection_send(s->connection, GPUR_MESSAGE_END, atomic_load(&context->counts->steps), NULL, 0);
}

static gpur_status check_hello(const gpur_hello *hello)
{
    const gpur_actor_settings *const a = &hello->settings;
    GPUR_REQUIRE(a->actor >= 0 && a->actor < GPUR_APEX_SLOTS && a->pull_period > 0 && a->eval_envs > 0 &&
                     hello->weights_bytes > 0 && hello->weights_bytes < INT64_MAX / 4,
                 "the learner gives the actor the number %d, a pull_period of %" PRId64
                 ", %d environments of evaluations and weights of %" PRId64
                 " bytes; they must be 0 to %d, above 0, above 0, and from 1 to below 2^61",
                 (int)a->actor, a->pull_period, (int)a->eval_envs, hello->weights_bytes, GPUR_APEX_SLOTS - 1);
    return GPUR_OK;
}

static gpur_status serve(served_actor *s)
{
    gpur_hello hello;
    int shared = -1;
    const gpur_status received = gpur_connection_receive_hello(s->connection, &hello, &shared);
    s->shared.fd = shared;
    GPUR_TRY(received);
    GPUR_TRY(check_hello(&hello));
    s->shared.fd = -1;
    s->actor = hello.settings.actor;
    GPUR_TRY(gpur_shared_map(&s->shared, shared, hello.weights_bytes));
    GPUR_TRY(gpur_actor_resources_open(&s->resources));
    const uint64_t ours = gpur_block_format_hash(s->resources.format);
    GPUR_REQUIRE(ours == hello.format,
                 "the format of this actor's blocks has the hash %016" PRIx64 ", and the learner's %016" PRIx64
                 "; the settings of the replay must be the same",
                 ours, hello.format);
    return act(s, &hello.settings);
}

/* The learner reports why an actor ends, too, and which one. The caller's message has its number, if it is known. */
static void send_error(const served_actor *s, gpur_status status)
{
    char error[GPUR_MESSAGE_TEXT];
    strncpy(error, gpur_last_error(), sizeof error - 1);
    error[sizeof error - 1] = 0;
    (void)gpur_connection_send(s->connection, GPUR_MESSAGE_ERROR, 0, error, (int64_t)strlen(error));
    if (s->actor == GPUR_APEX_EVALUATOR)
        (void)gpur_fail(status, "the actor that evaluates: %s", error);
    else if (s->actor >= 0)
        (void)gpur_fail(status, "actor %d: %s", (int)s->actor, error);
    else
        (void)gpur_fail(status, "%s", error);
}

static gpur_status check_connection(int32_t connection)
{
    GPUR_REQUIRE(fcntl(connection, F_SETFD, FD_CLOEXEC) == 0, "descriptor %d is no connection to a learner: %s",
                 (int)connection, strerror(errno));
    return GPUR_OK;
}

gpur_status gpur_apex_serve(int32_t connection, const gpur_run_config *run, const gpur_replay_config *replay,
                            const gpur_apex_networks *networks, int32_t threads)
{
    served_actor s = {.connection = connection, .actor = -1, .shared.fd = -1};
    gpur_status status = gpur_actor_resources_read(&s.resources, run, replay, networks, threads);
    if (status == GPUR_OK)
        status = check_connection(connection);
    if (status == GPUR_OK)
        status = serve(&s);
    if (status != GPUR_OK && status != GPUR_INTERRUPTED)
        send_error(&s, status);
    gpur_actor_resources_close(&s.resources);
    gpur_shared_close(&s.shared);
    close(connection);
    return status;
}
