/* SPDX-License-Identifier: MIT */
/* What an actor's process does. */
#include "apex/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

/* What the actor acts with, as far as it is this function's to free. */
typedef struct server {
    int connection;
    int waits;     /* 1: for the answer to each block */
    int32_t actor; /* -1: not known yet */
    gpur_shared shared;
    gpur_shared_reader reader;
    gpur_actor_resources resources;
} server;

static gpur_status take_block(void *context, const void *block, int64_t bytes, int64_t steps)
{
    const server *const s = context;
    GPUR_TRY(gpur_connection_send(s->connection, GPUR_MESSAGE_BLOCK, steps, block, bytes));
    return s->waits ? gpur_connection_await_answer(s->connection) : GPUR_OK;
}

static gpur_status take_episode(void *context, const gpur_actor_episode *episode, int64_t steps)
{
    const server *const s = context;
    return gpur_connection_send(s->connection, GPUR_MESSAGE_EPISODE, steps, episode, sizeof *episode);
}

static gpur_status pull(void *context, const gpur_actor_policies *policies, int *is_newer)
{
    server *const s = context;
    if (gpur_connection_is_gone(s->connection))
        return gpur_fail(GPUR_INTERRUPTED, "the learner is gone");
    return gpur_shared_pull(&s->reader, policies, is_newer);
}

static gpur_status open_resources(server *s, gpur_actor_context *context, const gpur_replay_config *replay,
                                  int32_t threads, uint64_t format)
{
    GPUR_TRY(gpur_actor_resources_open(&s->resources, context, replay, threads));
    const uint64_t ours = gpur_block_format_hash(s->resources.format);
    GPUR_REQUIRE(ours == format,
                 "the format of this actor's blocks has the hash %016" PRIx64 ", and the learner's %016" PRIx64
                 "; the settings of the replay must be the same",
                 ours, format);
    return GPUR_OK;
}

static gpur_status act(server *s, const gpur_hello *hello, gpur_actor_context *context)
{
    const gpur_actor_transport transport = {s, take_block, take_episode, pull};
    s->reader.shared = &s->shared;
    s->waits = hello->settings.waits;
    context->counts = gpur_shared_counts(&s->shared, hello->settings.actor);
    GPUR_TRY(gpur_actor_run(context, &hello->settings, &transport));
    return gpur_connection_send(s->connection, GPUR_MESSAGE_END, atomic_load(&context->counts->steps), NULL, 0);
}

static gpur_status check_hello(const gpur_hello *hello)
{
    const gpur_actor_settings *const a = &hello->settings;
    GPUR_REQUIRE(a->actor >= 0 && a->actor < GPUR_APEX_SLOTS && a->pull_period > 0 && hello->weights_bytes > 0 &&
                     hello->weights_bytes < INT64_MAX / 4,
                 "the learner gives the actor the number %d, a pull_period of %" PRId64 " and weights of %" PRId64
                 " bytes; they must be 0 to %d, above 0, and from 1 to below 2^61",
                 (int)a->actor, a->pull_period, hello->weights_bytes, GPUR_APEX_SLOTS - 1);
    return GPUR_OK;
}

static gpur_status serve(server *s, gpur_actor_context *context, const gpur_replay_config *replay, int32_t threads)
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
    GPUR_TRY(open_resources(s, context, replay, threads, hello.format));
    return act(s, &hello, context);
}

/* The learner reports why an actor ends, too, and which one. The caller's message has its number, if it is known. */
static void send_error(const server *s, gpur_status status)
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

static gpur_status check(int32_t connection, const gpur_actor_context *context, const gpur_replay_config *replay,
                         int32_t threads)
{
    GPUR_TRY(gpur_actor_check(context, replay, threads));
    GPUR_REQUIRE(fcntl(connection, F_SETFD, FD_CLOEXEC) == 0, "descriptor %d is no connection to a learner: %s",
                 (int)connection, strerror(errno));
    return GPUR_OK;
}

static gpur_status serve_and_close(int32_t connection, gpur_actor_context *context, const gpur_replay_config *replay,
                                   int32_t threads)
{
    server s = {.connection = connection, .actor = -1, .shared.fd = -1};
    gpur_status status = check(connection, context, replay, threads);
    if (status == GPUR_OK)
        status = serve(&s, context, replay, threads);
    if (status != GPUR_OK && status != GPUR_INTERRUPTED)
        send_error(&s, status);
    gpur_actor_resources_close(&s.resources);
    gpur_shared_reader_close(&s.reader);
    gpur_shared_close(&s.shared);
    close(connection);
    return status;
}

gpur_status gpur_apex_serve(int32_t connection, const gpur_env_type *type, const char *env_options,
                            const gpur_replay_config *replay, const gpur_network_config *network, int32_t threads)
{
    gpur_actor_context context = {
        .type = type, .env_options = env_options ? env_options : "", .networks = {.acting = network}};
    return serve_and_close(connection, &context, replay, threads);
}

gpur_status gpur_apex_serve_dpg(int32_t connection, const gpur_env_type *type, const char *env_options,
                                const gpur_replay_config *replay, const gpur_network_config *actor,
                                const gpur_network_config *critic, int32_t threads)
{
    gpur_actor_context context = {
        .type = type, .env_options = env_options ? env_options : "", .networks = {critic ? actor : NULL, critic}};
    return serve_and_close(connection, &context, replay, threads);
}
