/* SPDX-License-Identifier: MIT */
/*
 * Batches of sequences for a recurrent model. In each step a number x is observed, and the reward is a memory of all
 * numbers of the episode: h = 0.8 h + x. The model h = a h + b x learns to predict the rewards.
 *
 * A sequence may begin amid an episode, where h of the model is not known. So its first rows only bring h near to what
 * it was (burn-in), and the model is trained on the others [Kapturowski et al. 2019, section 3]. The priority of a
 * sequence, the mean error of these rows, is given to its last row.
 */
#include "must.h"

#include <gpureplay.h>

#include <math.h>

enum { ENVS = 4, STEPS = 2000, TRAIN_STEPS = 2000, BATCH = 16, LENGTH = 32, BURN_IN = 20, ROWS = BATCH * LENGTH };

static gpur_replay *make_replay(gpur_device *device)
{
    const gpur_field fields[] = {
        {"obs", GPUR_FLOAT32, {0}},      {"action", GPUR_INT32, {0}},    {"reward", GPUR_FLOAT32, {0}},
        {"next_obs", GPUR_FLOAT32, {0}}, {"terminated", GPUR_BOOL, {0}}, {"previous", GPUR_INT64, {0}},
    };
    gpur_replay_config config;
    must(gpur_replay_config_init(&config, sizeof config));
    config.capacity = 10000, config.prioritized = 1;
    config.fields = fields, config.field_count = 6; /* the writer fills in `previous`, which links the steps */
    gpur_replay *replay;
    must(gpur_replay_create(device, &config, &replay));
    return replay;
}

/* Steps of all environments. An episode ends after 40 steps on average. */
static void record(gpur_replay *replay)
{
    gpur_writer *writer;
    float obs[ENVS] = {0}, next_obs[ENVS], memory[ENVS] = {0};
    const int32_t action[ENVS] = {0};
    must(gpur_writer_create(replay, ENVS, &writer));
    must(gpur_writer_reset(writer, -1, obs));
    for (int step = 0; step < STEPS; step++) {
        uint8_t terminated[ENVS];
        for (int i = 0; i < ENVS; i++)
            memory[i] = 0.8f * memory[i] + obs[i], next_obs[i] = (float)(rand() % 100) / 100,
            terminated[i] = rand() % 40 == 0;
        must(gpur_writer_step(writer, action, memory, next_obs, terminated, NULL));
        for (int i = 0; i < ENVS; i++) {
            obs[i] = next_obs[i];
            if (terminated[i])
                memory[i] = 0, must(gpur_writer_reset(writer, i, &obs[i]));
        }
    }
    gpur_writer_destroy(writer);
}

/* Trains the weights on one sequence, and returns the mean error. dh is the gradient of h with respect to w. */
static float train_sequence(float w[2], const float *x, const float *reward, const uint8_t *mask, const uint8_t *first,
                            float weight)
{
    float h = 0, dh[2] = {0, 0}, gradient[2] = {0, 0}, errors = 0, trained = 0;
    for (int t = 0; t < LENGTH && mask[t]; t++) {
        if (first[t]) /* an episode begins: nothing is remembered */
            h = dh[0] = dh[1] = 0;
        dh[0] = h + w[0] * dh[0], dh[1] = x[t] + w[0] * dh[1], h = w[0] * h + w[1] * x[t];
        if (t < BURN_IN)
            continue;
        gradient[0] += (h - reward[t]) * dh[0], gradient[1] += (h - reward[t]) * dh[1];
        errors += fabsf(h - reward[t]), trained += 1;
    }
    for (int i = 0; i < 2; i++)
        w[i] -= 0.01f * weight * gradient[i] / fmaxf(trained, 1);
    return errors / fmaxf(trained, 1);
}

/* Samples sequences, trains on them, and gives each the priority that it has now. Returns the mean error. */
static float train_step(gpur_replay *replay, const gpur_sequence_config *config, float w[2])
{
    static float x[ROWS], reward[ROWS], weight[ROWS]; /* (BATCH, LENGTH), as all arrays of the batch */
    static uint8_t mask[ROWS], first[ROWS];
    static int64_t id[ROWS];
    gpur_batch *batch;
    must(gpur_replay_sample_sequences(replay, config, NULL, &batch));
    must(gpur_batch_read(batch, "obs", x, sizeof x));
    must(gpur_batch_read(batch, "reward", reward, sizeof reward));
    must(gpur_batch_read(batch, "weight", weight, sizeof weight));
    must(gpur_batch_read(batch, "mask", mask, sizeof mask));
    must(gpur_batch_read(batch, "is_first", first, sizeof first));
    must(gpur_batch_read(batch, "id", id, sizeof id));
    gpur_batch_release(batch);
    int64_t last_ids[BATCH];
    float priorities[BATCH], sum = 0;
    for (int b = 0, row = 0; b < BATCH; b++, row += LENGTH) {
        int last = LENGTH - 1;
        while (last > 0 && !mask[row + last]) /* a sequence with fewer rows has them at the front */
            last--;
        last_ids[b] = id[row + last]; /* -1, where no sequence was found, is skipped by the update */
        priorities[b] = train_sequence(w, &x[row], &reward[row], &mask[row], &first[row], weight[row]);
        sum += priorities[b];
    }
    must(gpur_replay_update_priorities(replay, BATCH, last_ids, priorities, NULL));
    return sum / BATCH;
}

int main(int argc, char **argv)
{
    gpur_device *device;
    gpur_sequence_config config;
    float w[2] = {0.3f, 0.3f}, error = 0; /* a and b */
    must(gpur_device_open(argc > 1 ? argv[1] : "auto", NULL, &device));
    gpur_replay *const replay = make_replay(device);
    record(replay);
    must(gpur_sequence_config_init(&config, sizeof config));
    config.batch = BATCH, config.length = LENGTH, config.min_length = BURN_IN + 1;
    for (int step = 0; step < TRAIN_STEPS; step++)
        error = train_step(replay, &config, w);
    printf("h = %.3f h + %.3f x, with a mean error of %.4f\n", (double)w[0], (double)w[1], (double)error);
    gpur_replay_destroy(replay);
    gpur_device_close(device);
    return fabsf(w[0] - 0.8f) < 0.01f && fabsf(w[1] - 1) < 0.02f ? 0 : 1;
}
