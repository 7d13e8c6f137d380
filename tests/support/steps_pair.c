/* SPDX-License-Identifier: MIT */
#include "support/steps_pair.h"

#include "support/learn_rig.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_FEATURES = 64 };

static gpur_status fill(steps_side *side, int features, int32_t actions)
{
    static float obs[PAIR_ROWS * MOST_FEATURES], next[PAIR_ROWS * MOST_FEATURES], reward[PAIR_ROWS];
    static int32_t action[PAIR_ROWS];
    static uint8_t terminated[PAIR_ROWS];
    const void *const fields[] = {obs, action, reward, next, terminated};
    rig_random(1, obs, PAIR_ROWS * features);
    rig_random(2, next, PAIR_ROWS * features);
    rig_random(3, reward, PAIR_ROWS);
    for (int i = 0; i < PAIR_ROWS; i++) {
        action[i] = i % 53 == 5 ? actions + i % 2 : (i * 7 + i / 5) % actions;
        terminated[i] = i % 9 == 0;
    }
    return gpur_writer_append_fields(side->writer, PAIR_ROWS, fields, NULL, NULL);
}

gpur_status side_open(steps_side *side, gpur_device *device, const gpur_learner_config *config, int features,
                      int32_t norm)
{
    const gpur_field fields[] = {
        {"obs", GPUR_FLOAT32, {features}},      {"action", GPUR_INT32, {0}},    {"reward", GPUR_FLOAT32, {0}},
        {"next_obs", GPUR_FLOAT32, {features}}, {"terminated", GPUR_BOOL, {0}},
    };
    gpur_replay_config replay;
    memset(side, 0, sizeof *side);
    GPUR_TRY(gpur_replay_config_init(&replay, sizeof replay));
    replay.capacity = 1024;
    replay.fields = fields, replay.field_count = sizeof fields / sizeof fields[0];
    replay.update_size = 64;
    replay.max_batch = PAIR_MOST_BATCH;
    replay.prioritized = norm != PAIR_UNIFORM;
    replay.weight_norm = norm != PAIR_UNIFORM ? norm : 0;
    GPUR_TRY(gpur_replay_create(device, &replay, &side->replay));
    GPUR_TRY(gpur_writer_create(side->replay, 1, &side->writer));
    GPUR_TRY(fill(side, features, config->network.outputs));
    return gpur_learner_create(side->replay, config, &side->learner);
}

void side_close(steps_side *side)
{
    gpur_learner_destroy(side->learner);
    gpur_writer_destroy(side->writer);
    gpur_replay_destroy(side->replay);
}

gpur_status pair_open(steps_pair *pair, gpur_device *device, const gpur_learner_config *config, int features,
                      int32_t norm)
{
    gpur_learner_config changed = *config;
    memset(pair, 0, sizeof *pair);
    pair->device = device;
    pair->batch = config->batch_size;
    changed.step_kernel = GPUR_STEP_LIBRARIES;
    GPUR_TRY(side_open(&pair->libraries, device, &changed, features, norm));
    changed.step_kernel = GPUR_STEP_ONE_KERNEL;
    return side_open(&pair->one, device, &changed, features, norm);
}

void pair_close(steps_pair *pair)
{
    side_close(&pair->libraries);
    side_close(&pair->one);
}

/* What a side's last step was. */
typedef struct seen {
    gpur_learner_stats stats;
    int64_t ids[PAIR_MOST_BATCH];
} seen;

static gpur_status step_side(steps_side *side, gpur_device *device, int64_t batch, seen *now)
{
    now->stats.size = sizeof now->stats;
    GPUR_TRY(gpur_learner_train(side->learner, 1));
    GPUR_TRY(gpur_learner_sync(side->learner));
    GPUR_TRY(gpur_learner_get_stats(side->learner, &now->stats));
    return gpur_device_copy(device, now->ids, side->learner->step.batch.id, batch * (int64_t)sizeof *now->ids);
}

static double relative(double a, double b)
{
    const double larger = fmax(fabs(a), fabs(b));
    return larger > 0 ? fabs(a - b) / larger : isnan(a) || isnan(b) ? INFINITY : 0;
}

static int same_counts(const gpur_learner_stats *a, const gpur_learner_stats *b)
{
    return a->steps == b->steps && a->steps_enqueued == b->steps_enqueued && a->skipped == b->skipped &&
           a->target_copies == b->target_copies && a->invalid_actions == b->invalid_actions &&
           a->learning_rate == b->learning_rate;
}

static void compare(const seen *a, const seen *b, int64_t batch, steps_gap *gap)
{
    gap->other_rows += memcmp(a->ids, b->ids, (size_t)batch * sizeof *a->ids) != 0;
    gap->loss = fmax(gap->loss, relative((double)a->stats.loss, (double)b->stats.loss));
    gap->gradient_norm =
        fmax(gap->gradient_norm, relative((double)a->stats.gradient_norm, (double)b->stats.gradient_norm));
    gap->stats_differ |= !same_counts(&a->stats, &b->stats);
    gap->steps = a->stats.steps;
}

float *side_weights(steps_side *side)
{
    const int64_t bytes = side->learner->network.params.count * (int64_t)sizeof(float);
    float *const weights = malloc((size_t)bytes);
    if (weights && gpur_learner_sync(side->learner) == GPUR_OK &&
        gpur_device_copy(side->learner->device, weights, side->learner->step.optimizer.weights, bytes) == GPUR_OK)
        return weights;
    free(weights);
    return NULL;
}

static double weight_gap(steps_pair *pair)
{
    float *const a = side_weights(&pair->libraries), *const b = side_weights(&pair->one);
    double most = a && b ? 0 : INFINITY;
    for (int64_t i = 0; a && b && i < pair->one.learner->network.params.count; i++) {
        const double gap = fabs((double)a[i] - (double)b[i]);
        most = gap <= most ? most : gap; /* NaN comes through */
    }
    free(a);
    free(b);
    return most;
}

gpur_status pair_train(steps_pair *pair, int64_t steps, steps_gap *gap)
{
    static seen libraries, one;
    memset(gap, 0, sizeof *gap);
    for (int64_t t = 0; t < steps; t++) {
        GPUR_TRY(step_side(&pair->libraries, pair->device, pair->batch, &libraries));
        GPUR_TRY(step_side(&pair->one, pair->device, pair->batch, &one));
        compare(&libraries, &one, pair->batch, gap);
    }
    gap->weights = weight_gap(pair);
    return GPUR_OK;
}
