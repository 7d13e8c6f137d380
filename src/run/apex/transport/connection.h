/* SPDX-License-Identifier: MIT */
/* The connection of an actor's process: a pair of stream sockets. Messages have a head, and what their kind needs. Both
 * sides run the same library on the same machine, but what arrives is checked all the same: processes die amid a
 * message, and a command may be another program. */
#pragma once

#include "run/apex/actor.h"

typedef enum gpur_message_kind {
    GPUR_MESSAGE_HELLO = 1,  /* to the actor: gpur_hello, with the descriptor of the shared memory */
    GPUR_MESSAGE_BLOCK,      /* all others are from it. Where it waits, a byte answers that the block was taken */
    GPUR_MESSAGE_EPISODE,    /* gpur_actor_episode */
    GPUR_MESSAGE_EVALUATION, /* gpur_actor_evaluation */
    GPUR_MESSAGE_ERROR,      /* the text, without a NUL */
    GPUR_MESSAGE_END,        /* nothing: it has ended, as it was asked to */
} gpur_message_kind;

typedef struct gpur_message {
    uint32_t magic;
    int32_t kind;
    int64_t bytes; /* that follow */
    int64_t steps; /* environment steps of this incarnation so far */
} gpur_message;

/* What an actor must know before it can act. */
typedef struct gpur_hello {
    uint64_t size;         /* sizeof(gpur_hello): another one is of another version of the library */
    uint64_t format;       /* gpur_block_format_hash */
    int64_t weights_bytes; /* gpur_policy_weights_bytes */
    gpur_actor_settings settings;
} gpur_hello;

enum { GPUR_MESSAGE_TEXT = 512 }; /* the most bytes of an error */

/* Makes both ends, which no process inherits by itself. The second end, the actor's, holds about two messages of so
 * many bytes that have been sent and not received, as far as the system lets it: what waits there gets old. */
gpur_status gpur_connection_make(int ends[2], int64_t bytes);

/* Sends a message, and waits until it is on its way. GPUR_INTERRUPTED: the other side is gone. */
gpur_status gpur_connection_send(int fd, gpur_message_kind kind, int64_t steps, const void *data, int64_t bytes);

/* Answers a block; does not wait. The actor waits for the answer: GPUR_INTERRUPTED if the other side is gone. */
void gpur_connection_answer(int fd);
gpur_status gpur_connection_await_answer(int fd);

/* The first message. Receiving waits for it; *shared gets a descriptor, also if the call fails, or -1. */
gpur_status gpur_connection_send_hello(int fd, const gpur_hello *hello, int shared);
gpur_status gpur_connection_receive_hello(int fd, gpur_hello *hello, int *shared);

/* 1 if the other side is gone. Does not wait. */
int gpur_connection_is_gone(int fd);

/* The part of the next message that has arrived. A zeroed one, with its descriptor set, is empty. */
typedef struct gpur_inbox {
    int fd;
    int64_t got; /* bytes of the message, its head included */
    gpur_message head;
    unsigned char *data; /* (head.bytes) */
    int64_t room;
} gpur_inbox;

typedef enum gpur_inbox_state {
    GPUR_INBOX_WAITS,   /* no whole message yet */
    GPUR_INBOX_MESSAGE, /* head and data have it, until gpur_inbox_next */
    GPUR_INBOX_CLOSED,  /* the other side is gone */
    GPUR_INBOX_DAMAGED, /* no message of ours, or too large a one: gpur_last_error has the values */
} gpur_inbox_state;

/* Reads on without waiting. `most`: bytes of the longest message. Memory is as large as the longest one so far. */
gpur_inbox_state gpur_inbox_read(gpur_inbox *inbox, int64_t most);
void gpur_inbox_next(gpur_inbox *inbox);
void gpur_inbox_close(gpur_inbox *inbox); /* closes the descriptor, too; accepts a zeroed one with fd -1 */
