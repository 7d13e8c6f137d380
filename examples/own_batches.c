/* SPDX-License-Identifier: MIT */
/*
 * Three ways to say what a DQN learner trains on, where gpur_learner_train would draw it from the replay: batches that
 * the caller fills in host memory, transitions that the caller names by their ids, and a cache of returns, which the
 * caller refreshes. Each teaches a learner of its own, by the same 4,000 random steps, to walk a corridor of ten cells
 * to its right end.
 */
#include "must.h"

#include <gpureplay.h>

enum { CELLS = 10, ROWS = 4000, BATCH = 32, TRAIN_STEPS = 2000, REFRESH_PERIOD = 50 };

static const gpur_field fields[] = {
    {"obs", GPUR_FLOAT32, {1}},      {"action", GPUR_INT32, {0}},    {"reward", GPUR_FLOAT32, {0}},
    {"next_obs", GPUR_FLOAT32, {1}}, {"terminated", GPUR_BOOL, {0}}, {"previous", GPUR_INT64, {0}},
};

/* A transition, packed as the library packs its fields: like this struct. */
typedef struct row {
    float obs;
    int32_t action; /* 0: left, 1: right */
    float reward, next_obs;
    uint8_t terminated;
    int64_t previous;
} row;

/* Walks at random, and notes which steps were rewarded. Returns the number of these. */
static int walk(row rows[ROWS], int64_t rewarded[ROWS])
{
    int cell = 0, count = 0;
    for (int i = 0; i < ROWS; i++) {
        const int right = rand() % 2, next = right ? cell + 1 : cell > 0 ? cell - 1 : 0, arrived = next == CELLS - 1;
        rows[i] = (row){(float)cell / CELLS, right, (float)arrived, (float)next / CELLS, (uint8_t)arrived, 0};
        cell = arrived ? 0 : next;
        if (arrived)
            rewarded[count++] = i;
    }
    return count;
}

/* A replay of the steps, whose ids are their numbers. The writer fills in `previous`, since they follow each other. */
static gpur_replay *make_replay(gpur_device *device, const row rows[ROWS])
{
    gpur_replay_config config;
    gpur_writer_config linking;
    gpur_replay *replay;
    gpur_writer *writer;
    must(gpur_replay_config_init(&config, sizeof config));
    config.capacity = 2 * ROWS, config.fields = fields, config.field_count = 6, config.gamma = 0.9f;
    must(gpur_replay_create(device, &config, &replay));
    must(gpur_writer_config_init(&linking, sizeof linking));
    linking.link_appends = 1;
    must(gpur_writer_open(replay, &linking, &writer));
    must(gpur_writer_append(writer, ROWS, rows, NULL));
    gpur_writer_destroy(writer);
    return replay;
}

static gpur_learner *make_learner(gpur_replay *replay, int32_t host_batches, int64_t cache_size)
{
    gpur_dqn_config config;
    gpur_learner *learner;
    must(gpur_dqn_config_init(&config, sizeof config));
    config.network.num_actions = 2, config.batch_size = BATCH, config.target_period = 50;
    config.host_batches = host_batches;
    config.returns.cache_size = cache_size, config.returns.block_length = 50, config.returns.lambda = 0.8f;
    config.returns.estimator = GPUR_ESTIMATOR_WATKINS; /* for steps that were not greedy */
    must(gpur_dqn_create(replay, &config, &learner));
    return learner;
}

/* Host batches: one is filled while the device trains on the one before. The replay is not read. */
static void train_on_host_batches(gpur_learner *learner, const row rows[ROWS])
{
    for (int step = 0; step < TRAIN_STEPS; step++) {
        void *memory;
        must(gpur_learner_acquire_host_batch(learner, &memory));
        for (int b = 0; b < BATCH; b++)
            ((row *)memory)[b] = rows[rand() % ROWS];
        must(gpur_learner_train_host_batch(learner, memory));
    }
}

/* By ids: a quarter of each batch are steps that were rewarded. */
static void train_on_ids(gpur_learner *learner, const int64_t *rewarded, int count)
{
    for (int step = 0; step < TRAIN_STEPS; step++) {
        int64_t ids[BATCH];
        for (int b = 0; b < BATCH; b++)
            ids[b] = b < BATCH / 4 ? rewarded[rand() % count] : rand() % ROWS;
        must(gpur_learner_train_ids(learner, ids));
    }
}

/* DQN(lambda): train steps draw from the cache, whose returns are computed anew by the latest weights. */
static void train_on_returns(gpur_learner *learner)
{
    for (int step = 0; step < TRAIN_STEPS; step += REFRESH_PERIOD) {
        must(gpur_learner_refresh(learner));
        must(gpur_learner_train(learner, REFRESH_PERIOD));
    }
}

int main(int argc, char **argv)
{
    static row rows[ROWS];
    static int64_t rewarded[ROWS];
    gpur_device *device;
    int wrong = 0;
    must(gpur_device_open(argc > 1 ? argv[1] : "auto", NULL, &device));
    const int count = walk(rows, rewarded);
    gpur_replay *const replay = make_replay(device, rows);
    gpur_learner *const learners[] = {make_learner(replay, 2, 0), make_learner(replay, 0, 0),
                                      make_learner(replay, 0, 1000)};
    train_on_host_batches(learners[0], rows);
    train_on_ids(learners[1], rewarded, count);
    train_on_returns(learners[2]);
    for (int i = 0; i < 3; i++) {
        float q[2];
        must(gpur_learner_q_values(learners[i], 1, &(float){0}, q, NULL));
        printf("learner %d: at the left end left is worth %.3f, right %.3f (0.9^8 = 0.430)\n", i, (double)q[0],
               (double)q[1]);
        wrong += q[1] < 0.38f || q[1] > 0.48f || q[1] <= q[0];
        gpur_learner_destroy(learners[i]);
    }
    gpur_replay_destroy(replay);
    gpur_device_close(device);
    return wrong > 0 ? 1 : 0;
}
