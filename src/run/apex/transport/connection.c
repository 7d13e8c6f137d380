/* SPDX-License-Identifier: MIT */
/* Messages between an actor's process and the learner, over a pair of sockets. */
#include "run/apex/transport/connection.h"

#include "base/numbers.h"
#include "base/platform.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef MSG_CMSG_CLOEXEC /* macOS */
#define MSG_CMSG_CLOEXEC 0
#endif

static const uint32_t magic = 0x41525047; /* "GPRA" */

/* The system doubles the number, and has limits of its own. */
gpur_status gpur_connection_make(int ends[2], int64_t bytes)
{
    const int room = (int)gpur_min(bytes, INT32_MAX / 2);
    if (gpur_socket_pair_open(ends) != 0)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no sockets for an actor's process: %s", strerror(errno));
    (void)setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    return GPUR_OK;
}

static gpur_status fail_to_send(int fd)
{
    if (errno == EPIPE || errno == ECONNRESET)
        return gpur_fail(GPUR_INTERRUPTED, "the other side of the connection is gone");
    return gpur_fail(GPUR_INVALID_ARGUMENT, "descriptor %d: a message could not be sent: %s", fd, strerror(errno));
}

/* Sends all bytes. A reader that has died is an error, and no signal. */
static gpur_status send_all(int fd, const void *data, int64_t bytes)
{
    const unsigned char *at = data;
    while (bytes > 0) {
        const ssize_t sent = send(fd, at, (size_t)bytes, MSG_NOSIGNAL);
        if (sent < 0 && errno != EINTR)
            return fail_to_send(fd);
        at += sent > 0 ? sent : 0;
        bytes -= sent > 0 ? sent : 0;
    }
    return GPUR_OK;
}

gpur_status gpur_connection_send(int fd, gpur_message_kind kind, int64_t steps, const void *data, int64_t bytes)
{
    const gpur_message head = {magic, (int32_t)kind, bytes, steps};
    GPUR_TRY(send_all(fd, &head, sizeof head));
    return send_all(fd, data, bytes);
}

/* An actor that is gone needs no answer. */
void gpur_connection_answer(int fd)
{
    const char taken = 1;
    (void)send(fd, &taken, sizeof taken, MSG_NOSIGNAL | MSG_DONTWAIT);
}

gpur_status gpur_connection_await_answer(int fd)
{
    char taken;
    ssize_t got;
    do
        got = recv(fd, &taken, sizeof taken, 0);
    while (got < 0 && errno == EINTR);
    return got == 1 ? GPUR_OK : gpur_fail(GPUR_INTERRUPTED, "the other side of the connection is gone");
}

/* The head of the hello, and the hello: they fit any socket's buffer, so they are sent and received as a whole. */
typedef struct first_message {
    gpur_message head;
    gpur_hello hello;
} first_message;

typedef union descriptor_room {
    struct cmsghdr head;
    char bytes[CMSG_SPACE(sizeof(int))];
} descriptor_room;

static struct msghdr message_of(struct iovec *data, descriptor_room *room)
{
    return (struct msghdr){
        .msg_iov = data, .msg_iovlen = 1, .msg_control = room->bytes, .msg_controllen = sizeof room->bytes};
}

gpur_status gpur_connection_send_hello(int fd, const gpur_hello *hello, int shared)
{
    first_message first = {{magic, GPUR_MESSAGE_HELLO, sizeof *hello, 0}, *hello};
    descriptor_room room;
    struct iovec data = {&first, sizeof first};
    memset(&room, 0, sizeof room);
    struct msghdr message = message_of(&data, &room);
    struct cmsghdr *const control = CMSG_FIRSTHDR(&message);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(sizeof shared);
    memcpy(CMSG_DATA(control), &shared, sizeof shared);
    const ssize_t sent = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent != (ssize_t)sizeof first)
        return fail_to_send(fd);
    return GPUR_OK;
}

static int descriptor_in(struct msghdr *message)
{
    int fd = -1;
    const struct cmsghdr *const control = CMSG_FIRSTHDR(message);
    if (control && control->cmsg_level == SOL_SOCKET && control->cmsg_type == SCM_RIGHTS &&
        control->cmsg_len == CMSG_LEN(sizeof fd))
        memcpy(&fd, CMSG_DATA(control), sizeof fd);
    if (fd >= 0 && !MSG_CMSG_CLOEXEC)
        fcntl(fd, F_SETFD, FD_CLOEXEC);
    return fd;
}

gpur_status gpur_connection_receive_hello(int fd, gpur_hello *hello, int *shared)
{
    first_message first;
    descriptor_room room;
    struct iovec data = {&first, sizeof first};
    memset(&first, 0, sizeof first);
    memset(&room, 0, sizeof room);
    struct msghdr message = message_of(&data, &room);
    ssize_t got;
    do
        got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC | MSG_WAITALL);
    while (got < 0 && errno == EINTR);
    *shared = got > 0 ? descriptor_in(&message) : -1;
    GPUR_REQUIRE(got >= 0, "descriptor %d is no connection to a learner: %s", fd, strerror(errno));
    if (got == 0)
        return gpur_fail(GPUR_INTERRUPTED, "the learner's process is gone");
    GPUR_REQUIRE(got == (ssize_t)sizeof first && first.head.magic == magic && first.head.kind == GPUR_MESSAGE_HELLO &&
                     first.hello.size == sizeof *hello && *shared >= 0,
                 "descriptor %d: the first message has %d bytes, kind %d and a hello of %" PRIu64
                 " bytes; the learner must be of this version of the library, with %d, %d and %d",
                 fd, (int)got, (int)first.head.kind, first.hello.size, (int)sizeof first, (int)GPUR_MESSAGE_HELLO,
                 (int)sizeof *hello);
    *hello = first.hello;
    return GPUR_OK;
}

int gpur_connection_is_gone(int fd)
{
    struct pollfd end = {.fd = fd};
    return poll(&end, 1, 0) > 0 && (end.revents & (POLLHUP | POLLERR)) != 0;
}

/* Reads up to `bytes` more. */
static gpur_inbox_state read_some(gpur_inbox *inbox, void *to, int64_t bytes)
{
    ssize_t got;
    do
        got = recv(inbox->fd, to, (size_t)bytes, MSG_DONTWAIT);
    while (got < 0 && errno == EINTR);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return GPUR_INBOX_WAITS;
    if (got <= 0)
        return GPUR_INBOX_CLOSED;
    inbox->got += got;
    return GPUR_INBOX_MESSAGE;
}

static gpur_inbox_state check_head(gpur_inbox *inbox, int64_t most)
{
    const gpur_message *const head = &inbox->head;
    if (head->magic == magic && head->kind > GPUR_MESSAGE_HELLO && head->kind <= GPUR_MESSAGE_END && head->bytes >= 0 &&
        head->bytes <= most && head->steps >= 0)
        return GPUR_INBOX_MESSAGE;
    gpur_fail(GPUR_FILE_ERROR,
              "a message has magic number %08" PRIx32 ", kind %" PRId32 " and %" PRId64
              " bytes; they must be %08" PRIx32 ", 2 to %d, and at most %" PRId64,
              head->magic, head->kind, head->bytes, magic, (int)GPUR_MESSAGE_END, most);
    return GPUR_INBOX_DAMAGED;
}

static gpur_inbox_state make_room(gpur_inbox *inbox)
{
    if (inbox->head.bytes <= inbox->room)
        return GPUR_INBOX_MESSAGE;
    free(inbox->data);
    inbox->data = malloc((size_t)inbox->head.bytes);
    inbox->room = inbox->data ? inbox->head.bytes : 0;
    if (inbox->data)
        return GPUR_INBOX_MESSAGE;
    gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for a message of %" PRId64 " bytes", inbox->head.bytes);
    return GPUR_INBOX_DAMAGED;
}

gpur_inbox_state gpur_inbox_read(gpur_inbox *inbox, int64_t most)
{
    const int64_t head_bytes = sizeof inbox->head;
    gpur_inbox_state state = GPUR_INBOX_MESSAGE;
    while (state == GPUR_INBOX_MESSAGE && inbox->got < head_bytes) {
        state = read_some(inbox, (unsigned char *)&inbox->head + inbox->got, head_bytes - inbox->got);
        if (state == GPUR_INBOX_MESSAGE && inbox->got == head_bytes)
            state = check_head(inbox, most);
        if (state == GPUR_INBOX_MESSAGE && inbox->got == head_bytes)
            state = make_room(inbox);
    }
    while (state == GPUR_INBOX_MESSAGE && inbox->got < head_bytes + inbox->head.bytes) {
        const int64_t at = inbox->got - head_bytes;
        state = read_some(inbox, inbox->data + at, inbox->head.bytes - at);
    }
    return state;
}

void gpur_inbox_next(gpur_inbox *inbox)
{
    inbox->got = 0;
}

void gpur_inbox_close(gpur_inbox *inbox)
{
    if (inbox->fd >= 0)
        close(inbox->fd);
    free(inbox->data);
    *inbox = (gpur_inbox){.fd = -1};
}
