/* SPDX-License-Identifier: MIT */
/*
 * Compares training with the reference in double, step by step, for a table of row sources, algorithms, networks and
 * optimizers, with libraries and in one kernel. Each step checks the sampled ids, importance weights, loss, mean Q, TD
 * errors, the gradient of every weight, the statistics and the new priorities. The first step also checks finite
 * differences, and the last one all weights.
 */
#include "test.h"
#include "learn/dqn/dqn.h"
#include "reference/reference_priority.h"
#include "reference/reference_replay.h"
#include "replay/replay.h"
#include "support/learner_fixture.h"

enum {
    BATCH = 16,
    MAX_BATCH = 300,
    MAX_TENSOR = 1 << 18,
    NONE = -1,
    LEARNER_UNIFORM = 5,
    LEARNER_PRIORITY = 8,
    EMPTY_STEPS = 5
};

/* Where the rows of a step come from. IN_TURNS: from ids, samples and host rows, one step each. */
enum { BY_IDS, BY_SAMPLE, BY_ROWS, IN_TURNS };

/* A case. A setting of 0 is the one of learner_fixture_config. */
typedef struct training {
    const char *name;
    int steps, kind, source;
    int spoiled;                /* 1: every third action is out of range */
    int64_t empty;              /* above 0: before every third step the window is empty for EMPTY_STEPS steps, which a
                                  fused learner trains in launches of this many */
    int prioritized;            /* 1: the replay has priorities */
    int32_t norm, distribution; /* weight_norm of the replay, index_source of the learner */
    int is_fused, batch;
    int dueling, double_dqn;
    const char *preset;
    int trunk[2], hidden; /* units; hidden NONE: no hidden layer in the head */
    int32_t activation, hidden_activation;
    int32_t loss;
    float delta, input_scale, input_shift;
    int32_t optimizer, centered, copy_first, period;
    float momentum, epsilon, clip_norm, clip_value;
    float rate; /* target_rate */
    double decay;
    int32_t head, atoms; /* of distributions */
    int normalized;      /* bit i: layer i of the trunk is */
} training;

static gpur_device *device;
static learner_fixture fixture;

static void set_network(gpur_dqn_config *c, const training *t)
{
    const int head = t->head ? t->head : t->dueling ? GPUR_HEAD_DUELING : GPUR_HEAD_Q;
    if (t->trunk[0]) {
        c->network = network_fixture_config(t->trunk[0], t->trunk[1], t->activation, head, 0, FIXTURE_ACTIONS);
        c->network.init = GPUR_INIT_FAN_IN;
    }
    for (int i = 0; i < 2; i++)
        c->network.trunk[i].norm = t->normalized >> i & 1;
    c->network.head = head;
    c->network.atoms = t->atoms;
    if (head == GPUR_HEAD_CATEGORICAL)
        c->network.v_min = -2.0f, c->network.v_max = 3.0f;
    c->network.input_scale *= t->input_scale > 0 ? t->input_scale : 1;
    c->network.input_shift = t->input_shift;
    if (t->hidden) {
        c->network.hidden = t->hidden == NONE ? 0 : t->hidden;
        c->network.hidden_activation = t->hidden_activation;
    }
}

static void set_optimizer(gpur_dqn_config *c, const training *t)
{
    gpur_optimizer_config *const o = &c->optimizer;
    o->kind = t->optimizer;
    o->centered = t->centered;
    o->momentum = t->momentum;
    o->epsilon = t->epsilon > 0 ? t->epsilon : o->epsilon;
    o->clip_norm = t->clip_norm, o->clip_value = t->clip_value, o->weight_decay = t->decay;
    o->learning_rate.last = 1e-4f, o->learning_rate.begin = 1, o->learning_rate.steps = 25;
}

static gpur_dqn_config config_of(const training *t)
{
    gpur_dqn_config c = t->kind == ROWS_PLANES   ? conv_config(GPUR_CHW)
                        : t->kind == ROWS_PIXELS ? conv_config(GPUR_HWC)
                                                 : learner_fixture_config(GPUR_HEAD_Q, 0);
    if (t->preset) {
        (void)gpur_dqn_config_preset(&c, t->preset);
        c.network.num_actions = FIXTURE_ACTIONS;
        c.target_period = 50, c.seed++;
    } else {
        set_network(&c, t);
        set_optimizer(&c, t);
        c.double_dqn = t->double_dqn;
        c.loss = t->loss;
        c.huber_delta = t->delta > 0 ? t->delta : c.huber_delta;
        c.target_copy_first = t->copy_first;
        c.target_period = t->period ? t->period : c.target_period;
        c.target_rate = t->rate > 0 ? t->rate : c.target_rate;
        c.batch_size = t->batch ? t->batch : c.batch_size;
    }
    c.index_source = t->distribution;
    c.beta.first = 0.4f, c.beta.last = 1.0f, c.beta.begin = 5, c.beta.steps = 20;
    c.host_batches = 1;
    c.step_kernel = t->is_fused ? GPUR_STEP_FUSED : GPUR_STEP_LIBRARIES;
    return c;
}

/* A learner, the reference with the same weights, and the state of the current step. */
typedef struct comparison {
    const training *t;
    gpur_dqn_config config;
    gpur_learner *learner;
    ref_net *net;
    int step, source; /* the number of the step, from 1, and its source */
    int64_t ids[MAX_BATCH];
    ref_row rows[MAX_BATCH];
    float priorities[FIXTURE_ROWS];
    double leaves[FIXTURE_ROWS];
    int64_t updates, unknown, copies, skipped; /* totals: new priorities, unknown actions, target copies, steps */
} comparison;

/* The leaves of the sum tree, as integers. */
static void read_leaves(double *leaves)
{
    static uint32_t integers[FIXTURE_ROWS];
    CHECK_OK(gpur_device_copy(device, integers, fixture.replay->priorities.tree.leaf, sizeof integers));
    for (int i = 0; i < FIXTURE_ROWS; i++)
        leaves[i] = integers[i];
}

/* Runs one train step and finds the ids of its rows. */
static gpur_status train_once(comparison *b)
{
    static unsigned char rows[MAX_BATCH * MAX_ROW_BYTES];
    const int batch = (int)b->config.batch_size;
    learner_fixture_ids(&fixture, b->step, batch, b->ids);
    if (b->source == BY_IDS)
        return gpur_learner_train_ids(b->learner, b->ids);
    if (b->source == BY_ROWS) {
        learner_fixture_pack(&fixture, b->ids, batch, rows);
        return gpur_learner_train_host_batch(b->learner, rows);
    }
    gpur_status status = gpur_learner_train(b->learner, 1);
    if (status == GPUR_OK)
        status = gpur_learner_sync(b->learner);
    return status != GPUR_OK ? status
                             : gpur_device_copy(device, b->ids, gpur_dqn_of(b->learner)->step.batch.id, batch * 8);
}

/* The index source of the step's sample. */
static int32_t source_of(const comparison *b)
{
    if (b->source != BY_SAMPLE)
        return GPUR_SOURCE_AUTO;
    if (b->t->distribution == GPUR_SOURCE_AUTO)
        return b->t->prioritized ? GPUR_PRIORITIZED_STRATIFIED : GPUR_UNIFORM;
    return b->t->distribution;
}

/* floor(n * bits / 2^64), n below 2^32. */
static int64_t uniform_id(const comparison *b, int i, uint64_t n)
{
    const uint32_t counter[4] = {(uint32_t)i, LEARNER_UNIFORM, (uint32_t)b->step - 1, 0};
    uint32_t bits[4];
    reference_philox(counter, b->config.seed, bits);
    return (int64_t)((bits[1] * n + (bits[0] * n >> 32)) >> 32);
}

/* Fills in the rows of the step. Samples must be exactly the reference's; ids of a distinct sample must exist. */
static void check_samples(comparison *b)
{
    const int batch = (int)b->config.batch_size, count = rows_of_kind(b->t->kind);
    double weights[MAX_BATCH];
    for (int i = 0; i < batch; i++) {
        CHECK(b->ids[i] >= 0 && b->ids[i] < count);
        b->rows[i] = learner_fixture_reference(&fixture, b->ids[i]);
    }
    for (int i = 0; i < batch && source_of(b) == GPUR_UNIFORM; i++)
        CHECK_EQUAL(b->ids[i], uniform_id(b, i, (uint64_t)count));
    if (source_of(b) < GPUR_PRIORITIZED_STRATIFIED)
        return;
    for (int i = 0; i < batch; i++)
        CHECK_EQUAL(b->ids[i], reference_sample_by_priority(b->leaves, count, b->config.seed, LEARNER_PRIORITY,
                                                            (uint64_t)b->step - 1, i, batch,
                                                            source_of(b) == GPUR_PRIORITIZED_STRATIFIED));
    const double beta = ref_schedule(&b->config.beta, b->step - 1);
    reference_weights(b->leaves, count, b->ids, batch, beta, b->t->norm, weights);
    for (int i = 0; i < batch; i++)
        b->rows[i].weight = (float)weights[i];
}

/* Finite differences for a few weights of each tensor. The target values do not move with the weights. */
static void check_slopes(comparison *b)
{
    static float got[MAX_TENSOR];
    const int batch = (int)b->config.batch_size;
    for (int i = 0; i < b->net->tensors; i++) {
        ref_tensor *const t = &b->net->tensor[i];
        CHECK_OK(gpur_learner_read_weights(b->learner, GPUR_WEIGHTS_GRADIENT, t->name, got, t->count));
        for (int j = 0; j < t->count; j += 1 + t->count / 8) {
            const double at = t->w[j];
            t->w[j] = at + 1e-6;
            const double up = ref_dqn_loss(b->net, &b->config, b->rows, batch, NULL);
            t->w[j] = at - 1e-6;
            const double down = ref_dqn_loss(b->net, &b->config, b->rows, batch, NULL);
            t->w[j] = at;
            CHECK_NEAR(got[j], (up - down) / 2e-6, 1e-5);
        }
    }
}

static void check_gradient(comparison *b, const ref_tensor *want)
{
    static float got[MAX_TENSOR];
    double size = 0, gap = 0;
    CHECK_OK(gpur_learner_read_weights(b->learner, GPUR_WEIGHTS_GRADIENT, want->name, got, want->count));
    for (int i = 0; i < want->count; i++) {
        size = fmax(size, fabs(want->g[i]));
        gap = fmax(gap, fabs((double)got[i] - want->g[i]));
    }
    /* In a long run an input of a ReLU comes near 0 at some step, and rounding then decides its slope. */
    const double tolerance = b->step <= 5 ? 2e-6 + 1e-5 * size : 1e-3 + 2e-2 * size;
    TEST_REQUIRE(gap <= tolerance, "step %d: the gradient of %s is off by %g; its largest is %g", b->step, want->name,
                 gap, size);
}

static void check_errors(comparison *b)
{
    float td[MAX_BATCH];
    const int batch = (int)b->config.batch_size;
    CHECK_OK(gpur_device_copy(device, td, gpur_dqn_of(b->learner)->step.td.td, batch * 4));
    for (int i = 0; i < batch; i++) {
        const double want = fabs(b->rows[i].error);
        CHECK_NEAR(td[i], want, (b->step <= 50 ? 2e-5 : 1e-3) * (1 + want));
        b->unknown += b->rows[i].action < 0 || b->rows[i].action >= FIXTURE_ACTIONS;
    }
}

/* A step on ids or on a sample by priority sets the priorities of its rows to their errors. No other one changes. */
static void check_priorities(comparison *b)
{
    static float after[FIXTURE_ROWS], wanted[FIXTURE_ROWS];
    static unsigned char changed[FIXTURE_ROWS];
    gpur_priority_stats stats = {.size = sizeof stats};
    int64_t wrong = -1;
    memset(changed, 0, sizeof changed);
    memcpy(wanted, b->priorities, sizeof wanted);
    const int changes = b->source == BY_IDS || source_of(b) >= GPUR_PRIORITIZED_STRATIFIED;
    for (int64_t i = 0; changes && i < b->config.batch_size; i++) {
        wanted[b->ids[i]] = (float)fabs(b->rows[i].error) + 1e-6f;
        changed[b->ids[i]] = 1;
    }
    b->updates += changes ? b->config.batch_size : 0;
    CHECK_OK(learner_fixture_priorities(&fixture, after));
    for (int i = 0; i < FIXTURE_ROWS; i++)
        CHECK_NEAR(after[i], wanted[i], changed[i] ? 2e-5 * (1 + (double)wanted[i]) : 0);
    CHECK_OK(gpur_replay_check_priorities(fixture.replay, &wrong));
    CHECK_EQUAL(wrong, 0);
    CHECK_OK(gpur_replay_get_priority_stats(fixture.replay, &stats));
    CHECK_EQUAL(stats.updates, b->updates);
    CHECK_EQUAL(stats.stale, 0);
}

/* Steps without a row to sample change nothing and are counted. */
static void train_on_an_empty_window(comparison *b)
{
    CHECK_OK(learner_fixture_set_window(b->learner, 0));
    CHECK_OK(gpur_learner_train(b->learner, EMPTY_STEPS));
    CHECK_OK(learner_fixture_set_window(b->learner, FIXTURE_ROWS));
    b->skipped += EMPTY_STEPS;
}

static void check_step(comparison *b)
{
    const int batch = (int)b->config.batch_size;
    double q = 0;
    b->source = b->t->source == IN_TURNS ? (b->step + BY_SAMPLE) % 3 : b->t->source;
    if (b->t->empty && b->step % 3 == 0)
        train_on_an_empty_window(b);
    if (b->t->prioritized) {
        CHECK_OK(learner_fixture_priorities(&fixture, b->priorities));
        read_leaves(b->leaves);
        for (int i = 0; i < FIXTURE_ROWS && b->step == 1; i++)
            CHECK_NEAR(b->priorities[i], b->t->kind == ROWS_WIDE ? (double)wide_row_priority(i) : 1, 1e-5);
    }
    CHECK_OK(train_once(b));
    const gpur_learner_stats stats = learner_fixture_stats(b->learner);
    check_samples(b);
    if (b->step == 1 && !b->t->preset && batch <= 100) /* larger cases test no other formula */
        check_slopes(b);
    const double loss = ref_dqn_loss(b->net, &b->config, b->rows, batch, &q);
    CHECK_NEAR(stats.loss, loss, 1e-4 * fabs(loss) + 1e-7);
    CHECK_NEAR(stats.mean_q, q, 1e-4 * (0.01 + fabs(q)));
    for (int i = 0; i < b->net->tensors && b->step <= 50; i++)
        check_gradient(b, &b->net->tensor[i]);
    check_errors(b);
    if (b->t->prioritized)
        check_priorities(b);
    const double norm = ref_dqn_update(b->net, &b->config, b->step);
    b->copies += ref_copies_target(&b->config, b->step);
    CHECK_NEAR(stats.gradient_norm, norm, 1e-3 * norm + 1e-7);
    CHECK_NEAR(stats.learning_rate, ref_schedule(&b->config.optimizer.learning_rate, b->step - 1), 1e-9);
    CHECK(stats.steps == b->step && stats.steps_enqueued == b->step + b->skipped && stats.skipped == b->skipped);
    CHECK_EQUAL(stats.target_copies, b->copies);
    CHECK_EQUAL(stats.invalid_actions, b->unknown);
}

/* The padding between tensors stays 0. */
static void check_padding(const comparison *b, const float *array)
{
    static float values[MAX_TENSOR];
    const gpur_params *const params = &gpur_dqn_of(b->learner)->network.params;
    CHECK(params->count <= MAX_TENSOR);
    CHECK_OK(gpur_device_copy(device, values, array, params->count * (int64_t)sizeof *values));
    for (int32_t i = 0; i < params->tensor_count; i++)
        memset(values + params->tensor[i].offset, 0, (size_t)gpur_tensor_count(&params->tensor[i]) * sizeof *values);
    for (int64_t i = 0; i < params->count; i++)
        CHECK_NEAR(values[i], 0, 0);
}

static void check_weights(const comparison *b)
{
    static float got[MAX_TENSOR];
    check_padding(b, gpur_dqn_of(b->learner)->step.optimizer.weights);
    check_padding(b, gpur_dqn_of(b->learner)->step.optimizer.gradient);
    for (int i = 0; i < b->net->tensors; i++)
        for (int32_t which = GPUR_WEIGHTS_ONLINE; which <= GPUR_WEIGHTS_TARGET; which++) {
            const ref_tensor *const t = &b->net->tensor[i];
            const double *const want = which == GPUR_WEIGHTS_ONLINE ? t->w : t->target;
            double apart = 0;
            CHECK_OK(gpur_learner_read_weights(b->learner, which, t->name, got, t->count));
            for (int j = 0; j < t->count; j++)
                apart += fabs((double)got[j] - want[j]) / t->count;
            TEST_REQUIRE(apart <= 2e-5, "%s is off by %g in the mean at the end", t->name, apart);
        }
}

static gpur_status open_fixture(const training *t)
{
    const int count = rows_of_kind(t->kind);
    gpur_status status =
        learner_fixture_open_kind(&fixture, device, t->kind, 0, t->prioritized ? t->norm : NOT_PRIORITIZED);
    for (int i = 0; i < count && t->spoiled; i += 3)
        fixture.rows[i].action = i % 2 ? -1 : FIXTURE_ACTIONS;
    return status == GPUR_OK ? learner_fixture_append(&fixture, count) : status;
}

/* Fewer steps where each is slow. 0: the case is skipped. */
static int steps_of(const training *t)
{
    if (t->kind >= ROWS_PLANES && (IN_RACE_CHECK || IS_WATCHED))
        return 0;
    if (IN_RACE_CHECK)
        return t->steps < 3 ? t->steps : 3;
    const int steps = t->preset && !test_on_cuda() ? (int)test_rounds((uint64_t)t->steps) : t->steps;
    return steps < 2 ? 2 : steps;
}

static void check_training(const training *t)
{
    static comparison b;
    const int before = atomic_load(&test_state.failures);
    memset(&b, 0, sizeof b);
    b.t = t, b.config = config_of(t);
    test_state.test = t->name;
    if (steps_of(t) == 0)
        return;
    CHECK_OK(open_fixture(t));
    CHECK_OK(gpur_dqn_create(fixture.replay, &b.config, &b.learner));
    gpur_dqn_of(b.learner)->fused.launch.steps = t->empty;
    b.net = learner_fixture_net(&fixture, b.learner, &b.config);
    CHECK(b.net);
    for (b.step = 1; b.step <= steps_of(t) && atomic_load(&test_state.failures) == before; b.step++)
        check_step(&b);
    if (atomic_load(&test_state.failures) == before)
        check_weights(&b);
    ref_net_destroy(b.net);
    learner_fixture_close_learner(&fixture, b.learner);
}

#define DOUBLE_DUELING .dueling = 1, .double_dqn = 1

/* clang-format off: keeps each case on one or two lines */
static const training by_libraries[] = {
    {"dueling double DQN, clipped by norm", 200, DOUBLE_DUELING, .clip_norm = 0.2f},
    {"plain DQN, RMSProp as TensorFlow's", 200, .optimizer = GPUR_RMSPROP_TF, .momentum = 0.9f, .epsilon = 0.01f,
     .copy_first = 1, .delta = 0.5f},
    {"actions of int64, squared loss, clipped by value", 200, ROWS_WIDE, .dueling = 1, .hidden = NONE,
     .loss = GPUR_LOSS_SQUARED, .optimizer = GPUR_RMSPROP_DEEPMIND, .epsilon = 0.01f, .clip_value = 0.05f},
    {"actions out of range", 200, DOUBLE_DUELING, .spoiled = 1},
    {"rows, ids and samples in turns", 60, DOUBLE_DUELING, .source = IN_TURNS, .period = 7, .empty = 1},
    {"rows of another layout", 60, ROWS_WIDE, BY_ROWS, DOUBLE_DUELING, .period = 1},
    {"observations that are scaled", 20, .input_scale = 2},
    {"observations that are shifted", 20, .input_shift = -1},
    {"images that are scaled and shifted", 20, ROWS_PLANES, BY_SAMPLE, DOUBLE_DUELING, .input_shift = -0.5f},
    {"distinct samples", 40, .source = BY_SAMPLE, .distribution = GPUR_UNIFORM_DISTINCT, .period = 1, .copy_first = 1},
    {"images of planes", 40, ROWS_PLANES, .source = BY_IDS, DOUBLE_DUELING},
    {"images of pixels", 40, ROWS_PIXELS, .source = BY_IDS, DOUBLE_DUELING},
    {"images of planes, squared loss of Q", 5, ROWS_PLANES, BY_ROWS, .loss = GPUR_LOSS_SQUARED, .double_dqn = 1},
    {"images of pixels, squared loss of Q", 5, ROWS_PIXELS, BY_SAMPLE, .loss = GPUR_LOSS_SQUARED, .double_dqn = 1},
    {"priorities that the writer gives", 12, ROWS_WIDE, BY_SAMPLE, DOUBLE_DUELING, .prioritized = 1},
    {"priorities, uniform samples, ids and rows in turns", 12, ROWS_PLAIN, IN_TURNS, DOUBLE_DUELING, .prioritized = 1,
     .distribution = GPUR_UNIFORM, .spoiled = 1},
    {"priorities, samples of the default, ids and rows in turns", 12, ROWS_PLAIN, IN_TURNS, .prioritized = 1,
     .period = 100},
    {"soft targets and weight decay", 60, DOUBLE_DUELING, .source = BY_SAMPLE, .period = 1, .rate = 0.1f, .decay = 0.5,
     .empty = 1},
    {"normalized layers", 40, DOUBLE_DUELING, .source = BY_SAMPLE, .trunk = {33, 18}, .activation = GPUR_RELU,
     .normalized = 3},
    {"action masks of rows, ids and samples in turns", 60, ROWS_MASKED, IN_TURNS, DOUBLE_DUELING, .period = 7},
    {"action masks by the target network alone", 40, ROWS_MASKED, BY_SAMPLE, .period = 7, .prioritized = 1},
    {"soft targets now and then", 60, .source = BY_SAMPLE, .period = 4, .rate = 0.5f, .copy_first = 1},
};

#define QUANTILES .head = GPUR_HEAD_QUANTILES
#define CATEGORICAL .head = GPUR_HEAD_CATEGORICAL

static const training with_distributions[] = {
    {"quantiles", 60, QUANTILES, .atoms = 11, .period = 5},
    {"quantiles, double DQN, actions out of range", 60, QUANTILES, .atoms = 32, .double_dqn = 1, .spoiled = 1,
     .delta = 0.25f},
    {"quantiles of int64 actions without a hidden layer", 60, ROWS_WIDE, BY_ROWS, QUANTILES, .atoms = 5, .hidden = NONE,
     .clip_norm = 0.2f, .optimizer = GPUR_RMSPROP_TF, .epsilon = 0.01f},
    {"one quantile", 20, QUANTILES, .atoms = 1},
    {"quantiles of images", 5, ROWS_PLANES, BY_SAMPLE, QUANTILES, .atoms = 9, .double_dqn = 1},
    {"quantiles by priority", 12, ROWS_PLAIN, BY_SAMPLE, QUANTILES, .atoms = 11, .prioritized = 1, .empty = 1},
    {"quantiles, priorities of ids and rows in turns", 12, ROWS_PLAIN, IN_TURNS, QUANTILES, .atoms = 11,
     .prioritized = 1, .double_dqn = 1},
    {"quantiles with action masks", 20, ROWS_MASKED, IN_TURNS, QUANTILES, .atoms = 9, .double_dqn = 1, .period = 5},
    {"atoms with action masks", 20, ROWS_MASKED, IN_TURNS, CATEGORICAL, .atoms = 9, .period = 5},
    {"atoms", 60, CATEGORICAL, .atoms = 11, .period = 5},
    {"atoms, double DQN, actions out of range", 60, CATEGORICAL, .atoms = 51, .double_dqn = 1, .spoiled = 1},
    {"atoms of int64 actions without a hidden layer", 60, ROWS_WIDE, BY_ROWS, CATEGORICAL, .atoms = 5, .hidden = NONE,
     .clip_norm = 0.2f, .optimizer = GPUR_RMSPROP_TF, .epsilon = 0.01f},
    {"two atoms", 20, CATEGORICAL, .atoms = 2},
    {"atoms of images", 5, ROWS_PIXELS, BY_SAMPLE, CATEGORICAL, .atoms = 9, .double_dqn = 1},
    {"atoms by priority", 12, ROWS_PLAIN, BY_SAMPLE, CATEGORICAL, .atoms = 11, .prioritized = 1, .empty = 1},
    {"atoms, priorities of ids and rows in turns", 12, ROWS_PLAIN, IN_TURNS, CATEGORICAL, .atoms = 11, .prioritized = 1,
     .double_dqn = 1},
};

TEST(training_of_distributions_follows_the_reference)
{
    for (size_t i = 0; i < sizeof with_distributions / sizeof *with_distributions; i++)
        check_training(&with_distributions[i]);
}

TEST(training_by_libraries_follows_the_reference)
{
    for (size_t i = 0; i < sizeof by_libraries / sizeof *by_libraries; i++)
        check_training(&by_libraries[i]);
}

/* RMSProp with a large epsilon. With a small one, a gradient near 0 would become a large step of an arbitrary sign. */
#define FUSED .is_fused = 1, .optimizer = GPUR_RMSPROP_TF, .epsilon = 1e-2f, .period = 3

static const training in_one_kernel[] = {
    {"fused: layers of odd widths", 30, ROWS_PLAIN, BY_SAMPLE, FUSED, DOUBLE_DUELING, .trunk = {33}, .hidden = 70,
     .hidden_activation = GPUR_RELU, .activation = GPUR_RELU, .batch = 7, .empty = 1},
    {"fused: two layers of tanh", 30, ROWS_WIDE, BY_SAMPLE, FUSED, .trunk = {70, 33}, .activation = GPUR_TANH,
     .hidden = NONE, .batch = 100, .spoiled = 1},
    {"fused: two layers and two branches", 5, ROWS_PLAIN, BY_SAMPLE, FUSED, DOUBLE_DUELING, .trunk = {19, 23},
     .activation = GPUR_TANH, .hidden = NONE, .batch = 20},
    {"fused: sums in parts", 6, ROWS_WIDE, BY_SAMPLE, FUSED, DOUBLE_DUELING, .trunk = {9}, .activation = GPUR_RELU,
     .hidden = 150, .hidden_activation = GPUR_RELU, .batch = 300, .spoiled = 1},
    {"fused: sums in parts, clipped", 6, ROWS_WIDE, BY_SAMPLE, FUSED, DOUBLE_DUELING, .trunk = {9}, .hidden = 150,
     .activation = GPUR_RELU, .hidden_activation = GPUR_RELU, .batch = 300, .clip_norm = 0.5f, .empty = 256},
    {"fused: wide, linear, squared loss", 5, ROWS_PLAIN, BY_SAMPLE, FUSED, DOUBLE_DUELING, .trunk = {17},
     .activation = GPUR_RELU, .hidden = 140, .hidden_activation = GPUR_LINEAR, .loss = GPUR_LOSS_SQUARED, .batch = 20},
    {"fused: distinct samples, copies first", 50, ROWS_PLAIN, BY_SAMPLE, FUSED, .dueling = 1, .loss = GPUR_LOSS_SQUARED,
     .distribution = GPUR_UNIFORM_DISTINCT, .copy_first = 1, .batch = 16, .spoiled = 1},
    {"fused: soft targets", 30, ROWS_PLAIN, BY_SAMPLE, FUSED, DOUBLE_DUELING, .trunk = {19, 23}, .hidden = NONE,
     .batch = 20, .activation = GPUR_TANH, .rate = 0.2f, .empty = 1},
    {"fused: soft targets after all gradients", 6, ROWS_WIDE, BY_SAMPLE, FUSED, .trunk = {9}, .hidden = 150,
     .activation = GPUR_RELU, .hidden_activation = GPUR_RELU, .batch = 300, .clip_norm = 0.5f, .rate = 0.2f},
};

TEST(training_in_one_kernel_follows_the_reference)
{
    for (size_t i = 0; i < sizeof in_one_kernel / sizeof *in_one_kernel; i++)
        check_training(&in_one_kernel[i]);
}

/* Of a case that a loop makes. */
static char name[96];

TEST(training_by_priority_follows_the_reference)
{
    for (int32_t i = 0; i < 12; i++) {
        training t = {name, 12, ROWS_PLAIN, BY_SAMPLE, .prioritized = 1, .norm = i / 2 % 3};
        const training fused = {name, 12, ROWS_PLAIN, BY_SAMPLE, FUSED, .prioritized = 1, .norm = i / 2 % 3};
        t = i < 6 ? t : fused;
        t.distribution = i % 2 ? GPUR_PRIORITIZED_INDEPENDENT : GPUR_PRIORITIZED_STRATIFIED;
        t.dueling = i != 10, t.double_dqn = i != 9, t.spoiled = i == 10, t.empty = i % 4 == 0 ? 3 : 0;
        snprintf(name, sizeof name, "priorities, norm %d, source %d, one kernel %d", t.norm, t.distribution, i / 6);
        check_training(&t);
    }
}

TEST(small_batches_in_one_kernel_follow_the_reference)
{
    static const int batches[] = {1, 9, 33};
    for (int i = 0; i < 12; i++) {
        training t = {name, 5, ROWS_PLAIN, i < 2 ? IN_TURNS : BY_SAMPLE, FUSED, .hidden = 12};
        t.batch = batches[i / 4], t.dueling = i & 1, t.double_dqn = i >> 1 & 1;
        t.hidden_activation = i & 1 ? GPUR_RELU : GPUR_TANH;
        snprintf(name, sizeof name, "fused: batch %d, dueling %d, double %d", t.batch, t.dueling, t.double_dqn);
        check_training(&t);
    }
}

TEST(every_optimizer_in_one_kernel_follows_the_reference)
{
    for (int32_t kind = GPUR_ADAM; kind <= GPUR_ADAM_TF; kind++)
        for (int clip = 0; clip < 4; clip += IN_RACE_CHECK ? 3 : 1) {
            training t = {name, 30, ROWS_PLAIN, BY_SAMPLE, .is_fused = 1, DOUBLE_DUELING};
            t.trunk[0] = 33, t.hidden = 35, t.activation = t.hidden_activation = GPUR_RELU;
            t.optimizer = kind, t.momentum = 0.5f, t.centered = kind == GPUR_RMSPROP_TORCH, t.epsilon = 1e-2f;
            t.decay = kind == GPUR_ADAM || kind == GPUR_ADAM_TF ? 0.4 : 0;
            t.clip_norm = clip & 1 ? 0.05f : 0, t.clip_value = clip & 2 ? 0.01f : 0;
            snprintf(name, sizeof name, "fused: optimizer %d, clipping %d", kind, clip);
            check_training(&t);
        }
}
/* clang-format on */

/* By libraries the preset of the paper that this library began with [Parr 2018], with GPUR_TEST_LONG=1 for 200 steps;
 * in one kernel all presets of dense networks. */
TEST(the_presets_follow_the_reference)
{
    static const char *const presets[] = {"melee-gpu", "melee-dqn", "melee-double", "cartpole", "melee-gpu"};
    for (int i = IN_RACE_CHECK ? 4 : 0; i < 5; i++) {
        training t = {name, 50, i == 3 ? ROWS_PLAIN : ROWS_WIDE, BY_SAMPLE, .preset = presets[i], .is_fused = i < 4};
        t.steps = i < 4 ? 50 : test_is_long() ? 200 : 10;
        snprintf(name, sizeof name, "%s, one kernel %d", t.preset, t.is_fused);
        check_training(&t);
    }
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
    RUN(training_by_libraries_follows_the_reference);
    RUN(training_of_distributions_follows_the_reference);
    RUN(training_in_one_kernel_follows_the_reference);
    RUN(training_by_priority_follows_the_reference);
    RUN(small_batches_in_one_kernel_follow_the_reference);
    RUN(every_optimizer_in_one_kernel_follows_the_reference);
    RUN(the_presets_follow_the_reference);
    gpur_device_close(device);
    return test_main_end();
}
