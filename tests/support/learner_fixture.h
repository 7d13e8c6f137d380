/* SPDX-License-Identifier: MIT */
/* Fixture of the learner's tests: replays whose rows are known by id, learners on them, and the reference in double
 * with the same weights. */
#pragma once

#include "base/arena.h"
#include "base/status.h"
#include "learn/network/pass.h"
#include "reference/reference_learn.h"

enum { FIXTURE_FEATURES = 5, FIXTURE_ACTIONS = 3, FIXTURE_ROWS = 500, NOT_PRIORITIZED = -1 };
enum { WIDE_FEATURES = 27, MAX_ROW_BYTES = 640 };
enum { IMAGE_CHANNELS = 3, IMAGE_HEIGHT = 12, IMAGE_WIDTH = 8, IMAGE_ROWS = 64, IMAGE_BATCH = 8 };
enum { IMAGE_PIXELS = IMAGE_CHANNELS * IMAGE_HEIGHT * IMAGE_WIDTH };

/* The kinds of rows. */
enum {
    ROWS_PLAIN,  /* FIXTURE_FEATURES numbers: learner_fixture_row */
    ROWS_WIDE,   /* WIDE_FEATURES numbers, fields in another order, actions of int64, no `truncated`; on a prioritized
                     replay also wide_row_priority */
    ROWS_MASKED, /* plain rows with next_action_mask, which in some allows no action */
    ROWS_PLANES, /* images of uint8, (channels, height, width) */
    ROWS_PIXELS, /* the same bytes as (height, width, channels) */
};

typedef struct learner_fixture_row {
    float obs[FIXTURE_FEATURES];
    int32_t action;
    float reward;
    float next_obs[FIXTURE_FEATURES];
    uint8_t terminated, truncated;
    uint8_t next_mask; /* ROWS_MASKED */
} learner_fixture_row;

/* A row of the two kinds of images, as the schema packs it. */
typedef struct image_row {
    uint8_t obs[IMAGE_PIXELS], next_obs[IMAGE_PIXELS];
    int32_t action;
    float reward;
    uint8_t terminated;
} image_row;

typedef struct learner_fixture {
    gpur_replay *replay;
    gpur_writer *writer;
    int kind;
    learner_fixture_row rows[FIXTURE_ROWS]; /* by id. Of the other kinds only action, reward and terminated are used */
} learner_fixture;

/* The image rows by id. learner_fixture_open_kind and conv_fixture_fill_rows fill them in. */
extern image_row conv_rows[IMAGE_ROWS];

/* Creates a replay with one writer and appends the first `filled` rows. `weight_norm` is the replay's setting, or
 * NOT_PRIORITIZED for a replay without priorities. Returns the first error. The caller always calls
 * learner_fixture_close. */
gpur_status learner_fixture_open_kind(learner_fixture *fixture, gpur_device *device, int kind, int filled,
                                      int32_t weight_norm);
gpur_status learner_fixture_open(learner_fixture *fixture, gpur_device *device, int filled);
gpur_status learner_fixture_open_prioritized(learner_fixture *fixture, gpur_device *device, int filled,
                                             int32_t weight_norm);
void learner_fixture_close(learner_fixture *fixture);

/* Appends the first `count` rows. A test may have changed fixture->rows[i].action before. */
gpur_status learner_fixture_append(learner_fixture *fixture, int count);

float wide_row_priority(int64_t id); /* the priority that a wide row is appended with */
int rows_of_kind(int kind);          /* the number of rows of a kind */

/* Packs rows for gpur_learner_train_host_batch. The padding bytes are 0xff. */
void learner_fixture_pack(const learner_fixture *fixture, const int64_t *ids, int count, void *rows);

/* The row for the reference, with weight 1 and discount 0.9, or 0 if it is terminated. */
ref_row learner_fixture_reference(const learner_fixture *fixture, int64_t id);

/* The (count) ids on which step t trains. Some ids occur twice in a step. */
void learner_fixture_ids(const learner_fixture *fixture, int t, int count, int64_t *ids);

/* A small network: one trunk layer of 16 ReLU units, and a hidden layer of 12 in each branch of the head. */
gpur_dqn_config learner_fixture_config(int head, int double_dqn);

/* Opens a ROWS_PLAIN fixture with all rows, and a learner on it. Returns NULL on an error. The caller always calls
 * learner_fixture_close_learner. */
gpur_learner *learner_fixture_open_learner(learner_fixture *fixture, gpur_device *device, gpur_dqn_config config);
void learner_fixture_close_learner(learner_fixture *fixture, gpur_learner *learner);

/* A reference network whose online and target weights are the learner's online weights. Returns NULL on an error. */
ref_net *learner_fixture_net(const learner_fixture *fixture, gpur_learner *learner, const gpur_dqn_config *config);

/* Reads all weights of one array, at most `room` numbers, in the order of gpur_learner_get_weight_info. Returns their
 * number, or -1 on an error. */
int64_t learner_fixture_weights(gpur_learner *learner, int32_t which, float *values, int64_t room);

/* Reads the priorities of all FIXTURE_ROWS rows, in calls of at most 256. */
gpur_status learner_fixture_priorities(const learner_fixture *fixture, float *priorities);

/* Waits for all train steps and reads the statistics. `steps` is -1 on an error. */
gpur_learner_stats learner_fixture_stats(gpur_learner *learner);

/* Sets the window on the device to its first `count` rows, without the host's copy. With 0, train steps find no rows.
 * FIXTURE_ROWS restores it. */
gpur_status learner_fixture_set_window(gpur_learner *learner, int64_t count);

/* A dueling network of two convolutions for the image rows. The first, of stride 2, reads blocks of 2 x 2 pixels. */
gpur_dqn_config conv_config(int32_t layout);

/* A replay of all image rows, and a learner on it. The caller always calls conv_fixture_close. */
typedef struct conv_fixture {
    gpur_replay *replay;
    gpur_learner *learner;
} conv_fixture;
void conv_fixture_fill_rows(void);
gpur_status conv_replay_open(conv_fixture *s, gpur_device *device, int32_t layout);
gpur_status conv_fixture_open(conv_fixture *s, gpur_device *device, const gpur_dqn_config *config);
void conv_fixture_close(conv_fixture *s);

/* Fills x with numbers in (-1, 1) that depend only on the seed. */
void random_floats(uint64_t seed, float *x, int64_t count);

/* A network config with up to two trunk layers (0 units: no layer), all with the same activation. */
gpur_network_config network_fixture_config(int first, int second, int activation, int head, int hidden, int outputs);
