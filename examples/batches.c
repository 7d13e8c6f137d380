/* SPDX-License-Identifier: MIT */
/*
 * What a prioritized replay of one's own fields gives: batches whose arrays are read in place, filled again, or
 * gathered by id; priorities; statistics. Each transition is a number, and one of a hundred is rare: its priority
 * makes every second transition of a batch such a one, and importance weights take that back.
 */
#include "must.h"

#include <gpureplay.h>

#include <math.h>
#include <string.h>

enum { ROWS = 10000, EVERY = 100, BATCH = 512, BATCHES = 200, ASKED = 3 };

static gpur_replay *make_replay(gpur_device *device)
{
    const gpur_field fields[] = {{"number", GPUR_FLOAT32, {0}}, {"priority", GPUR_FLOAT32, {0}}};
    gpur_replay_config config;
    gpur_replay_plan plan = {.size = sizeof plan};
    gpur_replay *replay;
    must(gpur_replay_config_init(&config, sizeof config));
    config.capacity = ROWS, config.fields = fields, config.field_count = 2, config.prioritized = 1;
    must(gpur_replay_plan_bytes(&config, &plan));
    printf("%.1f MB of the device\n", (double)plan.device_bytes / 1e6);
    must(gpur_replay_create(device, &config, &replay));
    return replay;
}

/* Appends an array of each field. Rare are the numbers 0, 100, 200, ... */
static void append(gpur_replay *replay)
{
    static float number[ROWS], priority[ROWS];
    gpur_writer *writer;
    for (int i = 0; i < ROWS; i++)
        number[i] = (float)i, priority[i] = i % EVERY ? 1 : EVERY - 1;
    must(gpur_writer_create(replay, 1, &writer));
    must(gpur_writer_append_fields(writer, ROWS, (const void *const[]){number, priority}, NULL, NULL));
    must(gpur_writer_flush(writer)); /* an upload that is under way ends before the first batch reads */
    gpur_writer_destroy(writer);
}

/* Copies an array of the batch to host memory. On the CPU it could be read where it is, after gpur_batch_sync. */
static void copy(gpur_device *device, gpur_batch *batch, const char *name, float *to)
{
    gpur_field_info info = {.size = sizeof info};
    void *memory;
    must(gpur_batch_get_array(batch, name, &memory, &info));
    must(gpur_batch_sync(batch));
    must(gpur_device_copy(device, to, memory, gpur_batch_count(batch) * info.bytes));
}

/* Samples again and again into the same memory: the part of rare numbers in batches, and its weighted estimate. */
static void sample(gpur_device *device, gpur_replay *replay, double *part, double *weighted)
{
    static float number[BATCH], weight[BATCH];
    double rare = 0, rare_weight = 0, all_weight = 0;
    gpur_batch *batch;
    must(gpur_replay_set_alpha(replay, 1)); /* in proportion to the priority */
    must(gpur_replay_set_beta(replay, 1));  /* weights that take the whole bias back */
    must(gpur_replay_sample(replay, BATCH, NULL, &batch));
    for (int i = 0; i < BATCHES; i++) {
        copy(device, batch, "number", number);
        copy(device, batch, "weight", weight);
        for (int row = 0; row < BATCH; row++) {
            const int is_rare = (int)number[row] % EVERY == 0;
            rare += is_rare, rare_weight += is_rare ? weight[row] : 0, all_weight += weight[row];
        }
        must(gpur_replay_sample_into(replay, NULL, batch));
    }
    gpur_batch_release(batch);
    *part = rare / BATCH / BATCHES, *weighted = rare_weight / all_weight;
}

/* Gives transitions other priorities, and asks for them by id. */
static int change(gpur_device *device, gpur_replay *replay)
{
    const int64_t ids[ASKED] = {7, 8, 9};
    float number[ASKED], found[ASKED];
    gpur_batch *batch;
    must(gpur_replay_update_priorities(replay, ASKED, ids, (const float[ASKED]){0.5f, 5, 50}, NULL));
    must(gpur_replay_get_priorities(replay, ASKED, ids, found));
    must(gpur_replay_gather(replay, ASKED, ids, NULL, &batch));
    gpur_batch_retain(batch); /* whoever else reads it releases it, too */
    copy(device, batch, "number", number);
    gpur_batch_release(batch);
    gpur_batch_release(batch);
    printf("transition %.0f has priority %.1f\n", (double)number[2], (double)found[2]);
    return memcmp(number, (const float[ASKED]){7, 8, 9}, sizeof number) == 0 && fabsf(found[2] - 50) < 0.01f;
}

static void show(gpur_replay *replay)
{
    gpur_replay_stats stats = {.size = sizeof stats};
    gpur_priority_stats priorities = {.size = sizeof priorities};
    gpur_field_info field = {.size = sizeof field};
    must(gpur_replay_get_field(replay, 0, &field));
    must(gpur_replay_get_stats(replay, &stats));
    must(gpur_replay_get_priority_stats(replay, &priorities));
    printf("gpureplay %s: %lld transitions of \"%s\" and a priority, %lld sampled; priorities %.1f to %.1f\n",
           gpur_version(), (long long)stats.visible, field.name, (long long)stats.sampled,
           (double)priorities.min_priority, (double)priorities.max_priority);
}

int main(int argc, char **argv)
{
    gpur_device *device;
    double part, weighted;
    must(gpur_device_open(argc > 1 ? argv[1] : "auto", NULL, &device));
    gpur_replay *const replay = make_replay(device);
    append(replay);
    sample(device, replay, &part, &weighted);
    printf("rare numbers: %.3f of a batch, %.4f by weight\n", part, weighted);
    const int is_right = change(device, replay) && fabs(part - 0.5) < 0.01 && fabs(weighted - 0.01) < 0.001;
    show(replay);
    gpur_replay_destroy(replay);
    gpur_device_close(device);
    return is_right ? 0 : 1;
}
