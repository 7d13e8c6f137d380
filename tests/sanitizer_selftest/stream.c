/* SPDX-License-Identifier: MIT */
/* One stream writes a buffer and another reads it: once with events between them, and once with an event forgotten,
 * which ThreadSanitizer must report. */
#include "device/device.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { BYTES = 4096, TURNS = 4 };

typedef struct streams {
    gpur_device *device;
    gpur_stream *writer, *reader;
    gpur_event *written, *read;
    char *shared, out[BYTES];
    int forget_written, forget_read; /* from this turn on */
    int slowly; /* each operation ends before the next is enqueued: order by luck, which must be reported as well */
} streams;

static gpur_status open_streams(streams *s)
{
    gpur_device_config config;
    GPUR_TRY(gpur_device_config_init(&config, sizeof config));
    config.executor = GPUR_EXECUTOR_THREAD;
    GPUR_TRY(gpur_device_open("cpu", &config, &s->device));
    GPUR_TRY(gpur_stream_create(s->device, &s->writer));
    GPUR_TRY(gpur_stream_create(s->device, &s->reader));
    GPUR_TRY(gpur_event_create(s->device, &s->written));
    GPUR_TRY(gpur_event_create(s->device, &s->read));
    return gpur_memory_alloc(s->device, BYTES, "the test", (void **)&s->shared);
}

static void close_streams(streams *s)
{
    gpur_event_destroy(s->read);
    gpur_event_destroy(s->written);
    gpur_stream_destroy(s->reader);
    gpur_stream_destroy(s->writer);
    gpur_memory_free(s->device, s->shared);
    gpur_device_close(s->device);
}

static gpur_status write_turn(streams *s, int turn)
{
    if (turn < s->forget_read)
        GPUR_TRY(gpur_stream_wait(s->writer, s->read));
    GPUR_TRY(gpur_fill(s->writer, s->shared, turn, BYTES));
    return gpur_event_record(s->written, s->writer);
}

static gpur_status read_turn(streams *s, int turn)
{
    if (turn < s->forget_written)
        GPUR_TRY(gpur_stream_wait(s->reader, s->written));
    GPUR_TRY(gpur_copy(s->reader, s->out, s->shared, BYTES));
    return gpur_event_record(s->read, s->reader);
}

static gpur_status take_turns(streams *s)
{
    for (int turn = 0; turn < TURNS; turn++) {
        GPUR_TRY(write_turn(s, turn));
        usleep(s->slowly ? 10000 : 0);
        GPUR_TRY(read_turn(s, turn));
        usleep(s->slowly ? 10000 : 0);
    }
    return gpur_device_sync(s->device);
}

int main(int argc, char **argv)
{
    const char *const name = argc > 1 ? argv[1] : "";
    const int first = strstr(name, "at_last") ? TURNS - 1 : 0;
    streams s = {0};
    s.forget_written = strstr(name, "no_written") ? first : TURNS;
    s.forget_read = strstr(name, "no_read") ? first : TURNS;
    s.slowly = strstr(name, "slowly") != NULL;
    gpur_status status = open_streams(&s);
    if (status == GPUR_OK)
        status = take_turns(&s);
    if (status != GPUR_OK)
        printf("%s: %s\n", name, gpur_last_error());
    close_streams(&s);
    return status != GPUR_OK;
}
