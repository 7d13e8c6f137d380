/* SPDX-License-Identifier: MIT */
/* What actors and their learner share: weights in memory that are never seen half written, messages over a connection,
 * and the arithmetic of the limiter. */
#include "run/apex/limiter.h"
#include "run/apex/shared.h"
#include "run/apex/transport/connection.h"
#include "test.h"

#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WORDS = 3001, READERS = 3 };

static gpur_shared shared;
static _Atomic int is_over;
static _Atomic int64_t reads;

/* Publication n is n in every word. After the first one it waits until somebody reads. */
static void *publish(void *context)
{
    static uint32_t words[WORDS];
    const int64_t publications = *(const int64_t *)context;
    for (int64_t n = 1; n <= publications; n++) {
        for (int i = 0; i < WORDS; i++)
            words[i] = (uint32_t)n;
        gpur_shared_broadcast(&shared, words);
        while (atomic_load(&reads) == 0)
            sched_yield();
    }
    atomic_store(&is_over, 1);
    return NULL;
}

/* NULL, or where the words of a publication differ. */
static void *read_all(void *context)
{
    static _Thread_local uint32_t words[WORDS];
    int64_t last = 0;
    while (!atomic_load(&is_over)) {
        const int64_t n = gpur_shared_read(&shared, words);
        atomic_fetch_add(&reads, 1);
        if (n < last)
            return "a publication came after a newer one";
        for (int i = 0; i < WORDS; i++)
            if (words[i] != (uint32_t)n)
                return "the words of a publication differ";
        last = n;
    }
    (void)context;
    return NULL;
}

TEST(weights_are_never_seen_half_written)
{
    int64_t publications = (int64_t)test_rounds(20000) + 100;
    pthread_t writer, readers[READERS];
    CHECK_OK(gpur_shared_create(&shared, sizeof(uint32_t[WORDS])));
    CHECK_EQUAL(gpur_shared_broadcasts(&shared), 0);
    atomic_store(&is_over, 0);
    atomic_store(&reads, 0);
    CHECK_EQUAL(pthread_create(&writer, NULL, publish, &publications), 0);
    while (gpur_shared_broadcasts(&shared) == 0)
        ;
    for (int i = 0; i < READERS; i++)
        CHECK_EQUAL(pthread_create(&readers[i], NULL, read_all, NULL), 0);
    for (int i = 0; i < READERS; i++) {
        void *error;
        pthread_join(readers[i], &error);
        TEST_REQUIRE(!error, "%s", (const char *)error);
    }
    pthread_join(writer, NULL);
    CHECK_EQUAL(gpur_shared_broadcasts(&shared), publications);
    gpur_shared_close(&shared);
}

TEST(another_mapping_of_the_memory_has_the_same_weights_and_counts)
{
    gpur_shared other;
    uint32_t words[5] = {1, 2, 3, 4, 5}, found[5] = {0};
    CHECK_OK(gpur_shared_create(&shared, sizeof words));
    gpur_shared_broadcast(&shared, words);
    CHECK_OK(gpur_shared_map(&other, dup(shared.fd), sizeof words));
    CHECK_EQUAL(gpur_shared_read(&other, found), 1);
    CHECK(memcmp(words, found, sizeof words) == 0);
    atomic_store(&gpur_shared_counts(&other, GPUR_APEX_EVALUATOR)->steps, 7);
    CHECK_EQUAL(atomic_load(&gpur_shared_counts(&shared, GPUR_APEX_EVALUATOR)->steps), 7);
    CHECK_EQUAL(ftruncate(shared.fd, 0), -1);
    gpur_shared_close(&other);
    CHECK_FAILS(gpur_shared_map(&other, dup(shared.fd), 8192), GPUR_INVALID_ARGUMENT, "for weights of 8192");
    gpur_shared_close(&other);
    gpur_shared_close(&shared);
}

/* Messages. */

static int ends[2];

static void *send_messages(void *context)
{
    static unsigned char data[300000];
    (void)context;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)i;
    for (int64_t i = 0; i < 20; i++)
        (void)gpur_connection_send(ends[1], GPUR_MESSAGE_BLOCK, i, data, i % 3 == 0 ? (int64_t)sizeof data : i);
    close(ends[1]);
    return NULL;
}

TEST(messages_arrive_in_pieces_and_whole)
{
    pthread_t sender;
    gpur_inbox inbox = {0};
    int64_t got = 0, waits = 0;
    gpur_inbox_state state = GPUR_INBOX_WAITS;
    CHECK_OK(gpur_connection_make(ends, 4096));
    inbox.fd = ends[0];
    CHECK_EQUAL(pthread_create(&sender, NULL, send_messages, NULL), 0);
    while ((state = gpur_inbox_read(&inbox, 300000)) != GPUR_INBOX_CLOSED) {
        waits += state == GPUR_INBOX_WAITS;
        if (state != GPUR_INBOX_MESSAGE)
            continue;
        CHECK_EQUAL(inbox.head.steps, got);
        CHECK_EQUAL(inbox.head.bytes, got % 3 == 0 ? 300000 : got);
        for (int64_t i = 0; i < inbox.head.bytes; i++)
            CHECK_EQUAL(inbox.data[i], (unsigned char)i);
        got++;
        gpur_inbox_next(&inbox);
    }
    pthread_join(sender, NULL);
    CHECK_EQUAL(got, 20);
    CHECK(waits > 0);
    gpur_inbox_close(&inbox);
}

TEST(a_message_that_is_none_is_refused)
{
    gpur_inbox inbox = {0};
    CHECK_OK(gpur_connection_make(ends, 4096));
    inbox.fd = ends[0];
    CHECK_OK(gpur_connection_send(ends[1], GPUR_MESSAGE_BLOCK, 0, "0123456789", 10));
    CHECK_EQUAL(gpur_inbox_read(&inbox, 9), GPUR_INBOX_DAMAGED);
    CHECK_MESSAGE("10 bytes; they must be");
    CHECK_MESSAGE("at most 9");
    gpur_inbox_close(&inbox);
    close(ends[1]);
    CHECK_OK(gpur_connection_make(ends, 4096));
    inbox.fd = ends[0];
    CHECK_EQUAL(send(ends[1], "these are no messages of anybody's", 30, 0), 30);
    CHECK_EQUAL(gpur_inbox_read(&inbox, 1000), GPUR_INBOX_DAMAGED);
    CHECK_MESSAGE("magic number 73656874");
    gpur_inbox_close(&inbox);
    CHECK_STATUS(gpur_connection_send(ends[1], GPUR_MESSAGE_END, 0, NULL, 0), GPUR_INTERRUPTED);
    CHECK(gpur_connection_is_gone(ends[1]));
    close(ends[1]);
}

TEST(a_hello_carries_a_descriptor)
{
    gpur_hello hello = {.size = sizeof hello, .format = 5, .weights_bytes = 9}, found;
    int fd = -1;
    struct stat first, second;
    CHECK_OK(gpur_connection_make(ends, 4096));
    CHECK_OK(gpur_shared_create(&shared, 9));
    CHECK_OK(gpur_connection_send_hello(ends[0], &hello, shared.fd));
    CHECK_OK(gpur_connection_receive_hello(ends[1], &found, &fd));
    CHECK(found.format == 5 && found.weights_bytes == 9);
    CHECK_EQUAL(fstat(fd, &first) + fstat(shared.fd, &second), 0);
    CHECK_EQUAL(first.st_ino, second.st_ino);
    CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    close(fd);
    CHECK_EQUAL(send(ends[0], "too short", 9, 0), 9);
    shutdown(ends[0], SHUT_WR);
    CHECK_FAILS(gpur_connection_receive_hello(ends[1], &found, &fd), GPUR_INVALID_ARGUMENT, "has 9 bytes");
    CHECK_STATUS(gpur_connection_receive_hello(ends[1], &found, &fd), GPUR_INTERRUPTED);
    CHECK_FAILS(gpur_connection_receive_hello(shared.fd, &found, &fd), GPUR_INVALID_ARGUMENT, "no connection");
    close(ends[0]);
    close(ends[1]);
    gpur_shared_close(&shared);
}

/* Two sides at random speeds: both stay within the band, and never do both have to wait. */
TEST(the_limiter_keeps_both_sides_within_its_band)
{
    static const struct {
        double ratio, band;
        int64_t batch, rows;
    } cases[] = {{8, 400, 32, 50}, {1, 512, 512, 50}, {0.25, 64, 64, 10}, {16, 4000, 32, 50}};
    uint32_t random = 1;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        gpur_limiter limiter = {.samples_per_insert = cases[k].ratio, .band = cases[k].band, .batch = cases[k].batch};
        CHECK(gpur_limiter_may_insert(&limiter, 1000000) && gpur_limiter_steps(&limiter, 32) == 32);
        gpur_limiter_count(&limiter, 1000, 0); /* before it has begun */
        CHECK_EQUAL(limiter.inserted, 0);
        limiter.has_begun = 1;
        for (int i = 0; i < 100000; i++) {
            random = random * 1664525u + 1013904223u; /* Knuth, The Art of Computer Programming, 3.3.4 */
            const int inserts = random >> 24 < (i / 1000 % 2 ? 40u : 200u);
            const int may = gpur_limiter_may_insert(&limiter, cases[k].rows);
            const int64_t steps = gpur_limiter_steps(&limiter, 32);
            CHECK(may || steps > 0);
            if (inserts && may)
                gpur_limiter_count(&limiter, cases[k].rows, 0);
            if (!inserts)
                gpur_limiter_count(&limiter, 0, steps * cases[k].batch);
            CHECK(fabs(gpur_limiter_ahead(&limiter)) <= cases[k].band);
        }
        CHECK(limiter.inserted > 100 && limiter.learned > 100);
    }
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(weights_are_never_seen_half_written);
    RUN(another_mapping_of_the_memory_has_the_same_weights_and_counts);
    RUN(messages_arrive_in_pieces_and_whole);
    RUN(a_message_that_is_none_is_refused);
    RUN(a_hello_carries_a_descriptor);
    RUN(the_limiter_keeps_both_sides_within_its_band);
    return test_main_end();
}
