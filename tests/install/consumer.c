/* SPDX-License-Identifier: MIT */
/* A program of somebody else's: it sees an installed library, puts rows in and gets them back. C and C++. */
#include <gpureplay.h>
#include <gpureplay/run.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 100, BATCH = 8 };

static void must(gpur_status status)
{
    if (status == GPUR_OK)
        return;
    fprintf(stderr, "%s: %s\n", gpur_status_name(status), gpur_last_error());
    exit(1);
}

static gpur_replay *create(gpur_device *device)
{
    gpur_field field;
    gpur_replay_config config;
    gpur_replay *replay = NULL;
    memset(&field, 0, sizeof field);
    field.name = "number", field.dtype = GPUR_INT64;
    must(gpur_replay_config_init(&config, sizeof config));
    config.capacity = 1024, config.fields = &field, config.field_count = 1;
    must(gpur_replay_create(device, &config, &replay));
    return replay;
}

static void append(gpur_replay *replay)
{
    int64_t rows[ROWS];
    gpur_writer *writer = NULL;
    for (int i = 0; i < ROWS; i++)
        rows[i] = 1000 + i;
    must(gpur_writer_create(replay, 1, &writer));
    must(gpur_writer_append(writer, ROWS, rows, NULL));
    gpur_writer_destroy(writer);
}

int main(void)
{
    int64_t sampled[BATCH];
    gpur_device *device = NULL;
    gpur_batch *batch = NULL;
    must(gpur_device_open("cpu", NULL, &device));
    gpur_replay *const replay = create(device);
    append(replay);
    must(gpur_replay_sample(replay, BATCH, NULL, &batch));
    must(gpur_batch_read(batch, "number", sampled, (int64_t)sizeof sampled));
    gpur_batch_release(batch);
    gpur_replay_destroy(replay);
    gpur_device_close(device);
    for (int b = 0; b < BATCH; b++)
        if (sampled[b] < 1000 || sampled[b] >= 1000 + ROWS)
            return fprintf(stderr, "sampled %lld, which nobody appended\n", (long long)sampled[b]), 1;
    printf("consumer: gpureplay %s works; its first game is %s\n", gpur_version(), gpur_env_name(0));
    return 0;
}
