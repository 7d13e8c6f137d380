/* SPDX-License-Identifier: MIT */
/* Weights and counters in memory that the learner shares with its actors. */
#include "run/apex/shared.h"

#include "base/numbers.h"
#include "base/platform.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2 && ATOMIC_INT_LOCK_FREE == 2, "processes share no locks of the C library");

enum { EVALUATED = 2, BUFFERS = 3 }; /* buffers of weights: two of broadcasts, and one of the evaluation */

typedef struct buffer_head {
    _Alignas(64) _Atomic int64_t state; /* 2 n: broadcast n is whole; 2 n - 1: it is being written */
} buffer_head;

typedef struct shared_head {
    _Alignas(64) _Atomic int64_t broadcasts;
    gpur_actor_counts counts[GPUR_APEX_SLOTS];
} shared_head;

static int64_t buffer_bytes(int64_t weights_bytes)
{
    return (int64_t)sizeof(buffer_head) + gpur_round_up(weights_bytes, 64);
}

static int64_t all_bytes(int64_t weights_bytes)
{
    return (int64_t)sizeof(shared_head) + BUFFERS * buffer_bytes(weights_bytes);
}

static shared_head *head_of(const gpur_shared *shared)
{
    return shared->memory;
}

static buffer_head *buffer_at(const gpur_shared *shared, int64_t index)
{
    unsigned char *const first = (unsigned char *)shared->memory + sizeof(shared_head);
    return (buffer_head *)(void *)(first + index * buffer_bytes(shared->weights_bytes));
}

static _Atomic uint64_t *words_of(buffer_head *buffer)
{
    return (_Atomic uint64_t *)(void *)(buffer + 1);
}

static gpur_status map(gpur_shared *shared, int64_t weights_bytes)
{
    const size_t bytes = (size_t)all_bytes(weights_bytes);
    void *const memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, shared->fd, 0);
    if (memory == MAP_FAILED)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no %zu bytes of shared memory for weights: %s", bytes, strerror(errno));
    shared->memory = memory;
    shared->bytes = bytes;
    shared->weights_bytes = weights_bytes;
    return GPUR_OK;
}

gpur_status gpur_shared_create(gpur_shared *shared, int64_t weights_bytes)
{
    *shared = (gpur_shared){.fd = gpur_shared_memory_open(all_bytes(weights_bytes))};
    if (shared->fd < 0)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no %" PRId64 " bytes of shared memory for weights: %s",
                         all_bytes(weights_bytes), strerror(errno));
    return map(shared, weights_bytes);
}

gpur_status gpur_shared_map(gpur_shared *shared, int fd, int64_t weights_bytes)
{
    const int64_t bytes = gpur_shared_memory_size(all_bytes(weights_bytes));
    struct stat found;
    *shared = (gpur_shared){.fd = fd};
    if (fstat(fd, &found) != 0)
        return gpur_fail(GPUR_INVALID_ARGUMENT, "descriptor %d is no shared memory: %s", fd, strerror(errno));
    GPUR_REQUIRE(found.st_size == bytes,
                 "the shared memory has %" PRId64 " bytes; for weights of %" PRId64 " it must have %" PRId64,
                 (int64_t)found.st_size, weights_bytes, bytes);
    return map(shared, weights_bytes);
}

void gpur_shared_close(gpur_shared *shared)
{
    if (shared->memory)
        munmap(shared->memory, shared->bytes);
    if (shared->fd >= 0)
        close(shared->fd);
    *shared = (gpur_shared){.fd = -1};
}

gpur_actor_counts *gpur_shared_counts(const gpur_shared *shared, int32_t actor)
{
    return &head_of(shared)->counts[actor];
}

int64_t gpur_shared_broadcasts(const gpur_shared *shared)
{
    return atomic_load_explicit(&head_of(shared)->broadcasts, memory_order_acquire);
}

/* Whoever reads a word of a broadcast sees the state in which it began: each word is stored with release, and loaded
 * with acquire, which costs nothing on x86. The last word may be in part beyond the weights. */
static void write_words(_Atomic uint64_t *words, const unsigned char *from, int64_t bytes)
{
    for (int64_t at = 0; at < bytes; at += 8) {
        uint64_t word = 0;
        memcpy(&word, from + at, (size_t)gpur_min(8, bytes - at));
        atomic_store_explicit(&words[at / 8], word, memory_order_release);
    }
}

static void read_words(_Atomic uint64_t *words, unsigned char *to, int64_t bytes)
{
    for (int64_t at = 0; at < bytes; at += 8) {
        const uint64_t word = atomic_load_explicit(&words[at / 8], memory_order_acquire);
        memcpy(to + at, &word, (size_t)gpur_min(8, bytes - at));
    }
}

void gpur_shared_broadcast(const gpur_shared *shared, const void *weights)
{
    const int64_t broadcast = gpur_shared_broadcasts(shared) + 1;
    buffer_head *const buffer = buffer_at(shared, broadcast % 2);
    atomic_store_explicit(&buffer->state, 2 * broadcast - 1, memory_order_relaxed);
    write_words(words_of(buffer), weights, shared->weights_bytes);
    atomic_store_explicit(&buffer->state, 2 * broadcast, memory_order_release);
    atomic_store_explicit(&head_of(shared)->broadcasts, broadcast, memory_order_release);
}

int64_t gpur_shared_read(const gpur_shared *shared, void *weights)
{
    for (;;) {
        const int64_t broadcast = gpur_shared_broadcasts(shared);
        buffer_head *const buffer = buffer_at(shared, broadcast % 2);
        if (atomic_load_explicit(&buffer->state, memory_order_acquire) != 2 * broadcast)
            continue;
        read_words(words_of(buffer), weights, shared->weights_bytes);
        if (atomic_load_explicit(&buffer->state, memory_order_relaxed) == 2 * broadcast)
            return broadcast;
    }
}

void gpur_shared_set_evaluated(const gpur_shared *shared, const void *weights, int64_t bytes)
{
    write_words(words_of(buffer_at(shared, EVALUATED)), weights, bytes);
}

void gpur_shared_read_evaluated(const gpur_shared *shared, void *weights, int64_t bytes)
{
    read_words(words_of(buffer_at(shared, EVALUATED)), weights, bytes);
}

gpur_status gpur_shared_pull(const gpur_shared *shared, gpur_actor_policies *policies, unsigned char *weights,
                             int64_t *pulled, int *is_newer)
{
    const int64_t ours = gpur_actor_policies_bytes(policies);
    GPUR_REQUIRE(ours == shared->weights_bytes,
                 "the weights of this actor's network have %" PRId64 " bytes, and those of the learner's %" PRId64
                 "; the networks must be the same",
                 ours, shared->weights_bytes);
    if (gpur_shared_broadcasts(shared) == *pulled)
        return GPUR_OK;
    *pulled = gpur_shared_read(shared, weights);
    *is_newer = 1;
    return gpur_actor_policies_set_weights(policies, weights);
}
