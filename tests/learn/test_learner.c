/* SPDX-License-Identifier: MIT */
/*
 * Compares training with the reference in double, step by step, for a table of row sources, algorithms, networks and
 * optimizers, with libraries and in one kernel. Each step checks the sampled ids, importance weights, loss, mean Q, TD
 * errors, the gradient of every weight, the statistics and the new priorities. The first step also checks finite
 * differences, and the last one all weights.
 */
#include "test.h"
#include "learn/learner.h"
#include "reference/reference_priority.h"
#include "replay/replay.h"
#include "support/learner_fixture.h"

enum { BATCH = 16, MOST_BATCH = 300, MOST_TENSOR = 1 << 16, NONE = -1, LEARNER_DRAW = 8 };

/* Where the rows of a step come from. IN_TURNS: from ids, draws and host rows, one step each. */
enum { BY_IDS, BY_DRAW, BY_ROWS, IN_TURNS };

/* A case. A setting of 0 is the one of learner_fixture_config. */
typedef struct training {
    const char *name;
    int steps, kind, source;
    int spoiled;        /* 1: every third action is out of range */
    int prioritized;    /* 1: the replay has priorities */
    int32_t norm, draw; /* weight_norm of the replay, index_source of the learner */
    int one_kernel, batch;
    int dueling, double_dqn;
    const char *preset;
    int trunk[2], hidden; /* units; hidden NONE: no hidden layer in the head */
    int32_t activation, hidden_activation;
    int32_t loss;
    float delta;
    int32_t optimizer, centered, copy_first, period;
    float momentum, epsilon, clip_norm, clip_value;
} training;

static gpur_device *device;
static learner_fixture fixture;

static void set_network(gpur_learner_config *c, const training *t)
{
    const int head = t->dueling ? GPUR_HEAD_DUELING : GPUR_HEAD_Q;
    if (t->trunk[0]) {
        c->network = network_fixture_config(t->trunk[0], t->trunk[1], t->activation, head, 0, FIXTURE_ACTIONS);
        c->network.init = GPUR_INIT_FAN_IN;
    }
    c->network.head = head;
    if (t->hidden) {
        c->network.hidden = t->hidden == NONE ? 0 : t->hidden;
        c->network.hidden_activation = t->hidden_activation;
    }
}

static void set_optimizer(gpur_learner_config *c, const training *t)
{
    gpur_optimizer_config *const o = &c->optimizer;
    o->kind = t->optimizer;
    o->centered = t->centered;
    o->momentum = t->momentum;
    o->epsilon = t->epsilon > 0 ? t->epsilon : o->epsilon;
    o->clip_norm = t->clip_norm, o->clip_value = t->clip_value;
    o->learning_rate.last = 1e-4f, o->learning_rate.begin = 1, o->learning_rate.steps = 25;
}

static gpur_learner_config config_of(const training *t)
{
    gpur_learner_config c = t->kind == WORLD_PLANES   ? conv_config(GPUR_CHW)
                            : t->kind == WORLD_PIXELS ? conv_config(GPUR_HWC)
                                                      : learner_fixture_config(GPUR_HEAD_Q, 0);
    if (t->preset) {
        (void)gpur_learner_config_preset(&c, t->preset);
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
        c.batch_size = t->batch ? t->batch : c.batch_size;
    }
    c.index_source = t->draw;
    c.beta.first = 0.4f, c.beta.last = 1.0f, c.beta.begin = 5, c.beta.steps = 20;
    c.host_batches = 1;
    c.step_kernel = t->one_kernel ? GPUR_STEP_FUSED : GPUR_STEP_LIBRARIES;
    return c;
}

/* A learner, the reference with the same weights, and the state of the current step. */
typedef struct beside {
    const training *t;
    gpur_learner_config config;
    gpur_learner *learner;
    ref_net *net;
    int step, source; /* the number of the step, from 1, and its source */
    int64_t ids[MOST_BATCH];
    ref_row rows[MOST_BATCH];
    float priorities[FIXTURE_ROWS];
    double leaves[FIXTURE_ROWS];
    int64_t updates, unknown, copies; /* totals: new priorities, unknown actions, target copies */
} beside;

/* The priorities of all rows by the public call, which reads at most 256 at a time. */
static void read_priorities(float *priorities)
{
    int64_t ids[FIXTURE_ROWS];
    for (int i = 0; i < FIXTURE_ROWS; i++)
        ids[i] = i;
    for (int first = 0; first < FIXTURE_ROWS; first += FIXTURE_ROWS / 2)
        CHECK_OK(gpur_replay_get_priorities(fixture.replay, FIXTURE_ROWS / 2, ids + first, priorities + first));
}

/* The leaves of the sum tree, as integers. */
static void read_leaves(double *leaves)
{
    static uint32_t held[FIXTURE_ROWS];
    CHECK_OK(gpur_device_copy(device, held, fixture.replay->priorities.tree.leaf, sizeof held));
    for (int i = 0; i < FIXTURE_ROWS; i++)
        leaves[i] = held[i];
}

/* Runs one train step and finds the ids of its rows. */
static gpur_status train_once(beside *b)
{
    static unsigned char packed[MOST_BATCH * MOST_ROW_BYTES];
    const int batch = (int)b->config.batch_size;
    learner_fixture_ids(&fixture, b->step, batch, b->ids);
    if (b->source == BY_IDS)
        return gpur_learner_train_ids(b->learner, b->ids);
    if (b->source == BY_ROWS) {
        world_pack(&fixture, b->ids, batch, packed);
        return gpur_learner_train_host_batch(b->learner, packed);
    }
    gpur_status status = gpur_learner_train(b->learner, 1);
    if (status == GPUR_OK)
        status = gpur_learner_sync(b->learner);
    return status != GPUR_OK ? status : gpur_device_copy(device, b->ids, b->learner->step.batch.id, batch * 8);
}

static int draws_by_priority(const beside *b)
{
    const int32_t draw = b->t->draw == GPUR_SOURCE_AUTO && b->t->prioritized ? GPUR_PRIORITIZED_STRATIFIED : b->t->draw;
    return b->source == BY_DRAW && draw >= GPUR_PRIORITIZED_STRATIFIED;
}

/* Fills in the rows of the step. Draws by priority must be exactly the reference's; all other ids must exist. */
static void check_draws(beside *b)
{
    const int batch = (int)b->config.batch_size, count = world_rows_of(b->t->kind);
    double weights[MOST_BATCH];
    for (int i = 0; i < batch; i++) {
        CHECK(b->ids[i] >= 0 && b->ids[i] < count);
        b->rows[i] = learner_fixture_reference(&fixture, b->ids[i]);
    }
    if (!draws_by_priority(b))
        return;
    for (int i = 0; i < batch; i++)
        CHECK_EQUAL(b->ids[i],
                    reference_sample_by_priority(b->leaves, count, b->config.seed, LEARNER_DRAW, (uint64_t)b->step - 1,
                                                 i, batch, b->t->draw != GPUR_PRIORITIZED_INDEPENDENT));
    const double beta = ref_schedule(&b->config.beta, b->step - 1);
    reference_weights(b->leaves, count, b->ids, batch, beta, b->t->norm, weights);
    for (int i = 0; i < batch; i++)
        b->rows[i].weight = (float)weights[i];
}

/* Finite differences for a few weights of each tensor. The target values do not move with the weights. */
static void check_slopes(beside *b)
{
    static float got[MOST_TENSOR];
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

static void check_gradient(beside *b, const ref_tensor *want)
{
    static float got[MOST_TENSOR];
    double size = 0, gap = 0;
    CHECK_OK(gpur_learner_read_weights(b->learner, GPUR_WEIGHTS_GRADIENT, want->name, got, want->count));
    for (int i = 0; i < want->count; i++) {
        size = fmax(size, fabs(want->g[i]));
        gap = fmax(gap, fabs((double)got[i] - want->g[i]));
    }
    /* In a long run an input of a ReLU comes near 0 at some step, and rounding then decides its slope. */
    const double most = b->step <= 5 ? 2e-6 + 1e-5 * size : 1e-3 + 2e-2 * size;
    TEST_REQUIRE(gap <= most, "step %d: the gradient of %s is off by %g; its largest is %g", b->step, want->name, gap,
                 size);
}

static void check_errors(beside *b)
{
    float td[MOST_BATCH];
    const int batch = (int)b->config.batch_size;
    CHECK_OK(gpur_device_copy(device, td, b->learner->step.dqn.td.td, batch * 4));
    for (int i = 0; i < batch; i++) {
        const double want = fabs(b->rows[i].error);
        CHECK_NEAR(td[i], want, (b->step <= 50 ? 2e-5 : 1e-3) * (1 + want));
        b->unknown += b->rows[i].action < 0 || b->rows[i].action >= FIXTURE_ACTIONS;
    }
}

/* A step on ids or on draws by priority sets the priorities of its rows to their errors. No other priority changes. */
static void check_priorities(beside *b)
{
    static float after[FIXTURE_ROWS], wanted[FIXTURE_ROWS];
    static unsigned char changed[FIXTURE_ROWS];
    gpur_priority_stats stats = {.size = sizeof stats};
    int64_t wrong = -1;
    memset(changed, 0, sizeof changed);
    memcpy(wanted, b->priorities, sizeof wanted);
    const int changes = b->source == BY_IDS || draws_by_priority(b);
    for (int64_t i = 0; changes && i < b->config.batch_size; i++) {
        wanted[b->ids[i]] = (float)fabs(b->rows[i].error) + 1e-6f;
        changed[b->ids[i]] = 1;
    }
    b->updates += changes ? b->config.batch_size : 0;
    read_priorities(after);
    for (int i = 0; i < FIXTURE_ROWS; i++)
        CHECK_NEAR(after[i], wanted[i], changed[i] ? 2e-5 * (1 + (double)wanted[i]) : 0);
    CHECK_OK(gpur_replay_check_priorities(fixture.replay, &wrong));
    CHECK_EQUAL(wrong, 0);
    CHECK_OK(gpur_replay_get_priority_stats(fixture.replay, &stats));
    CHECK_EQUAL(stats.updates, b->updates);
    CHECK_EQUAL(stats.stale, 0);
}

static void check_step(beside *b)
{
    const int batch = (int)b->config.batch_size;
    double q = 0;
    b->source = b->t->source == IN_TURNS ? (b->step + BY_DRAW) % 3 : b->t->source;
    if (b->t->prioritized) {
        read_priorities(b->priorities);
        read_leaves(b->leaves);
        for (int i = 0; i < FIXTURE_ROWS && b->step == 1; i++)
            CHECK_NEAR(b->priorities[i], b->t->kind == WORLD_WIDE ? (double)world_priority(i) : 1, 1e-5);
    }
    CHECK_OK(train_once(b));
    const gpur_learner_stats stats = learner_fixture_stats(b->learner);
    check_draws(b);
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
    CHECK(stats.steps == b->step && stats.steps_enqueued == b->step && stats.skipped == 0);
    CHECK_EQUAL(stats.target_copies, b->copies);
    CHECK_EQUAL(stats.invalid_actions, b->unknown);
}

static void check_weights(beside *b)
{
    static float got[MOST_TENSOR];
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

static gpur_status open_world(const training *t)
{
    const int count = world_rows_of(t->kind);
    gpur_status status = world_open_kind(&fixture, device, t->kind, 0, t->prioritized ? t->norm : WORLD_UNIFORM);
    for (int i = 0; i < count && t->spoiled; i += 3)
        fixture.rows[i].action = i % 2 ? -1 : FIXTURE_ACTIONS;
    return status == GPUR_OK ? world_append(&fixture, count) : status;
}

/* Fewer steps where each is slow. 0: the case is skipped. */
static int steps_of(const training *t)
{
    if (t->kind >= WORLD_PLANES && (IN_RACE_CHECK || IS_WATCHED))
        return 0;
    if (IN_RACE_CHECK)
        return t->steps < 3 ? t->steps : 3;
    return t->preset && !test_on_cuda() ? (int)test_rounds((uint64_t)t->steps) : t->steps;
}

static void check_training(const training *t)
{
    static beside b;
    const int before = atomic_load(&test_state.failures);
    memset(&b, 0, sizeof b);
    b.t = t, b.config = config_of(t);
    test_state.test = t->name;
    if (steps_of(t) == 0)
        return;
    CHECK_OK(open_world(t));
    CHECK_OK(gpur_learner_create(fixture.replay, &b.config, &b.learner));
    b.net = learner_fixture_net(&fixture, b.learner, &b.config);
    CHECK(b.net);
    for (b.step = 1; b.step <= steps_of(t) && atomic_load(&test_state.failures) == before; b.step++)
        check_step(&b);
    if (atomic_load(&test_state.failures) == before)
        check_weights(&b);
    ref_net_destroy(b.net);
    gpur_learner_destroy(b.learner);
    learner_fixture_close(&fixture);
}

#define BY_PRIORITY(n) .prioritized = 1, .norm = GPUR_WEIGHT_NORM_##n, .draw = GPUR_PRIORITIZED_STRATIFIED
#define BY_PLAIN_PRIORITY(n) .prioritized = 1, .norm = GPUR_WEIGHT_NORM_##n, .draw = GPUR_PRIORITIZED_INDEPENDENT
#define DOUBLE_DUELING .dueling = 1, .double_dqn = 1

/* clang-format off: keeps each case on one or two lines */
static const training by_libraries[] = {
    {"dueling double DQN, clipped by norm", 200, DOUBLE_DUELING, .clip_norm = 0.2f},
    {"plain DQN, RMSProp as TensorFlow's", 200, .optimizer = GPUR_RMSPROP_TF, .momentum = 0.9f, .epsilon = 0.01f,
     .copy_first = 1, .delta = 0.5f},
    {"actions of int64, squared loss, clipped by value", 200, WORLD_WIDE, .dueling = 1, .hidden = NONE,
     .loss = GPUR_LOSS_SQUARED, .optimizer = GPUR_RMSPROP_DEEPMIND, .epsilon = 0.01f, .clip_value = 0.05f},
    {"actions that there are not", 200, DOUBLE_DUELING, .spoiled = 1},
    {"rows, ids and draws in turns", 60, DOUBLE_DUELING, .source = IN_TURNS, .period = 7},
    {"rows of another layout", 60, WORLD_WIDE, BY_ROWS, DOUBLE_DUELING},
    {"distinct draws", 40, .source = BY_DRAW, .draw = GPUR_UNIFORM_DISTINCT},
    {"images of planes", 40, WORLD_PLANES, .source = BY_IDS, DOUBLE_DUELING},
    {"images of pixels", 40, WORLD_PIXELS, .source = BY_IDS, DOUBLE_DUELING},
    {"images of planes, squared loss of Q", 5, WORLD_PLANES, BY_ROWS, .loss = GPUR_LOSS_SQUARED, .double_dqn = 1},
    {"images of pixels, squared loss of Q", 5, WORLD_PIXELS, BY_DRAW, .loss = GPUR_LOSS_SQUARED, .double_dqn = 1},
    {"priorities, batch norm", 40, WORLD_PLAIN, BY_DRAW, DOUBLE_DUELING, BY_PRIORITY(BATCH)},
    {"priorities, batch norm, plain", 40, WORLD_PLAIN, BY_DRAW, DOUBLE_DUELING, BY_PLAIN_PRIORITY(BATCH)},
    {"priorities, memory norm", 40, WORLD_PLAIN, BY_DRAW, DOUBLE_DUELING, BY_PRIORITY(MEMORY)},
    {"priorities, memory norm, plain", 40, WORLD_PLAIN, BY_DRAW, DOUBLE_DUELING, BY_PLAIN_PRIORITY(MEMORY)},
    {"priorities, no norm", 40, WORLD_PLAIN, BY_DRAW, DOUBLE_DUELING, BY_PRIORITY(NONE)},
    {"priorities, no norm, plain", 40, WORLD_PLAIN, BY_DRAW, DOUBLE_DUELING, BY_PLAIN_PRIORITY(NONE)},
    {"priorities that the writer gives", 12, WORLD_WIDE, BY_DRAW, DOUBLE_DUELING, BY_PRIORITY(BATCH)},
    {"priorities, uniform draws, ids and rows in turns", 12, WORLD_PLAIN, IN_TURNS, DOUBLE_DUELING, .prioritized = 1,
     .draw = GPUR_UNIFORM, .spoiled = 1},
    {"priorities, draws of the default, ids and rows in turns", 12, WORLD_PLAIN, IN_TURNS, .prioritized = 1},
};

TEST(training_by_libraries_follows_the_reference)
{
    for (size_t i = 0; i < sizeof by_libraries / sizeof *by_libraries; i++)
        check_training(&by_libraries[i]);
}

/* The preset of the paper that this library began with [Parr 2018]: 10 steps, or 200 with GPUR_TEST_LONG=1. */
TEST(the_papers_learner_follows_the_reference)
{
    const training t = {"melee-gpu", test_is_long() ? 200 : 10, WORLD_WIDE, BY_DRAW, .preset = "melee-gpu"};
    check_training(&t);
}

/* RMSProp with a large epsilon. With a small one, a gradient near 0 would become a large step of an arbitrary sign. */
#define ONE_KERNEL .one_kernel = 1, .optimizer = GPUR_RMSPROP_TF, .epsilon = 1e-2f, .period = 3

static const training in_one_kernel[] = {
    {"one kernel: layers of odd widths", 30, WORLD_PLAIN, BY_DRAW, ONE_KERNEL, DOUBLE_DUELING, .trunk = {33},
     .hidden = 70, .hidden_activation = GPUR_RELU, .activation = GPUR_RELU, .batch = 7},
    {"one kernel: two layers of tanh", 30, WORLD_WIDE, BY_DRAW, ONE_KERNEL, .trunk = {70, 33}, .activation = GPUR_TANH,
     .hidden = NONE, .batch = 100, .spoiled = 1},
    {"one kernel: two layers and two streams", 5, WORLD_PLAIN, BY_DRAW, ONE_KERNEL, DOUBLE_DUELING, .trunk = {19, 23},
     .activation = GPUR_TANH, .hidden = NONE, .batch = 20},
    {"one kernel: sums in parts", 6, WORLD_WIDE, BY_DRAW, ONE_KERNEL, DOUBLE_DUELING, .trunk = {9},
     .activation = GPUR_RELU, .hidden = 150, .hidden_activation = GPUR_RELU, .batch = 300, .spoiled = 1},
    {"one kernel: sums in parts, clipped", 6, WORLD_WIDE, BY_DRAW, ONE_KERNEL, DOUBLE_DUELING, .trunk = {9},
     .hidden = 150, .activation = GPUR_RELU, .hidden_activation = GPUR_RELU, .batch = 300, .clip_norm = 0.5f},
    {"one kernel: wide, linear, squared loss", 5, WORLD_PLAIN, BY_DRAW, ONE_KERNEL, DOUBLE_DUELING, .trunk = {17},
     .activation = GPUR_RELU, .hidden = 140, .hidden_activation = GPUR_LINEAR, .loss = GPUR_LOSS_SQUARED, .batch = 20},
    {"one kernel: distinct draws, copies first", 50, WORLD_PLAIN, BY_DRAW, ONE_KERNEL, .dueling = 1,
     .loss = GPUR_LOSS_SQUARED, .draw = GPUR_UNIFORM_DISTINCT, .copy_first = 1, .batch = 16, .spoiled = 1},
    {"one kernel: priorities, batch norm", 12, WORLD_PLAIN, BY_DRAW, ONE_KERNEL, DOUBLE_DUELING, BY_PRIORITY(BATCH)},
    {"one kernel: priorities, batch norm, plain", 12, WORLD_PLAIN, BY_DRAW, ONE_KERNEL, .dueling = 1,
     BY_PLAIN_PRIORITY(BATCH)},
    {"one kernel: priorities, memory norm", 12, WORLD_PLAIN, BY_DRAW, ONE_KERNEL, DOUBLE_DUELING, BY_PRIORITY(MEMORY)},
    {"one kernel: priorities, memory norm, plain", 12, WORLD_PLAIN, BY_DRAW, ONE_KERNEL, BY_PLAIN_PRIORITY(MEMORY)},
    {"one kernel: priorities, no norm", 12, WORLD_PLAIN, BY_DRAW, ONE_KERNEL, DOUBLE_DUELING, BY_PRIORITY(NONE),
     .spoiled = 1},
    {"one kernel: priorities, no norm, plain", 12, WORLD_PLAIN, BY_DRAW, ONE_KERNEL, DOUBLE_DUELING,
     BY_PLAIN_PRIORITY(NONE)},
};

TEST(training_in_one_kernel_follows_the_reference)
{
    for (size_t i = 0; i < sizeof in_one_kernel / sizeof *in_one_kernel; i++)
        check_training(&in_one_kernel[i]);
}

TEST(small_batches_in_one_kernel_follow_the_reference)
{
    static const int batches[] = {1, 9, 33};
    for (int i = 0; i < 12; i++) {
        training t = {"one kernel: small batches", 5,          WORLD_PLAIN,
                      i < 2 ? IN_TURNS : BY_DRAW,  ONE_KERNEL, .hidden = 12};
        t.batch = batches[i / 4], t.dueling = i & 1, t.double_dqn = i >> 1 & 1;
        t.hidden_activation = i & 1 ? GPUR_RELU : GPUR_TANH;
        check_training(&t);
    }
}

TEST(every_optimizer_in_one_kernel_follows_the_reference)
{
    for (int32_t kind = GPUR_ADAM; kind <= GPUR_RMSPROP_DEEPMIND; kind++)
        for (int clip = 0; clip < 4; clip += IN_RACE_CHECK ? 3 : 1) {
            training t = {"one kernel: an optimizer", 30, WORLD_PLAIN, BY_DRAW, .one_kernel = 1, DOUBLE_DUELING};
            t.trunk[0] = 33, t.hidden = 35, t.activation = t.hidden_activation = GPUR_RELU;
            t.optimizer = kind, t.momentum = 0.5f, t.centered = kind == GPUR_RMSPROP_TORCH, t.epsilon = 1e-2f;
            t.clip_norm = clip & 1 ? 0.05f : 0, t.clip_value = clip & 2 ? 0.01f : 0;
            check_training(&t);
        }
}
/* clang-format on */

TEST(the_presets_in_one_kernel_follow_the_reference)
{
    static const char *const presets[] = {"melee-gpu", "melee-dqn", "melee-double", "cartpole"};
    for (int i = 0; i < 4; i++) {
        const training t = {presets[i],     50, i < 3 ? WORLD_WIDE : WORLD_PLAIN, BY_DRAW, .preset = presets[i],
                            .one_kernel = 1};
        check_training(&t);
    }
}

/* The loss of one step on a batch that repeats one row, with these biases of the output layers. */
static float loss_on(int64_t id, int double_dqn, const float *online, const float *target)
{
    const gpur_learner_config config = learner_fixture_config(GPUR_HEAD_Q, double_dqn);
    gpur_learner *learner = NULL;
    float loss = -1;
    int64_t ids[BATCH];
    for (int b = 0; b < BATCH; b++)
        ids[b] = id;
    if (gpur_learner_create(fixture.replay, &config, &learner) == GPUR_OK &&
        gpur_learner_write_weights(learner, GPUR_WEIGHTS_ONLINE, "q.out.bias", online, FIXTURE_ACTIONS) == GPUR_OK &&
        gpur_learner_write_weights(learner, GPUR_WEIGHTS_TARGET, "q.out.bias", target, FIXTURE_ACTIONS) == GPUR_OK &&
        gpur_learner_train_ids(learner, ids) == GPUR_OK)
        loss = learner_fixture_stats(learner).loss;
    gpur_learner_destroy(learner);
    return loss;
}

/* Row 6 has action 1. The online network chooses action 0, which the target network values at 0; the target network
 * itself would choose action 2, which it values at 100. */
TEST(double_dqn_asks_the_target_what_the_online_choice_is_worth)
{
    const float online[FIXTURE_ACTIONS] = {100, 0, 0}, target[FIXTURE_ACTIONS] = {0, 0, 100};
    CHECK_OK(learner_fixture_open(&fixture, device, FIXTURE_ROWS));
    CHECK_EQUAL(fixture.rows[6].action, 1);
    const float plain = loss_on(6, 0, online, target), twice = loss_on(6, 1, online, target);
    learner_fixture_close(&fixture);
    CHECK_NEAR(plain, 90, 8);
    CHECK_NEAR(twice, 0, 8);
    CHECK(twice >= 0);
}

TEST(termination_stops_bootstrapping_and_truncation_does_not)
{
    static const struct {
        int64_t id;
        int bootstraps;
    } cases[] = {{7, 0} /* terminated */, {5, 1} /* truncated */, {35, 0} /* both */, {6, 1} /* neither */};
    const float online[FIXTURE_ACTIONS] = {0}, huge[FIXTURE_ACTIONS] = {1e4f, 1e4f, 1e4f};
    CHECK_OK(learner_fixture_open(&fixture, device, FIXTURE_ROWS));
    for (int i = 0; i < 4; i++) {
        const float loss = loss_on(cases[i].id, 0, online, huge);
        CHECK_NEAR(loss, cases[i].bootstraps ? 0.9 * 1e4 : 0, 10);
        CHECK(loss >= 0);
    }
    learner_fixture_close(&fixture);
}

TEST(the_loss_falls_on_a_fixed_replay)
{
    gpur_learner_config config = conv_config(GPUR_CHW);
    conv_fixture s;
    config.optimizer.learning_rate.first = 3e-3f;
    config.batch_size = 32;
    config.target_period = 100;
    CHECK_OK(conv_fixture_open(&s, device, &config));
    CHECK_OK(gpur_learner_train(s.learner, 10));
    const double first = learner_fixture_stats(s.learner).mean_loss;
    CHECK_OK(gpur_learner_train(s.learner, 300));
    (void)learner_fixture_stats(s.learner);
    CHECK_OK(gpur_learner_train(s.learner, 50));
    const double last = learner_fixture_stats(s.learner).mean_loss;
    CHECK(first > 0 && last < 0.25 * first);
    conv_fixture_close(&s);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
    RUN(training_by_libraries_follows_the_reference);
    RUN(the_papers_learner_follows_the_reference);
    RUN(training_in_one_kernel_follows_the_reference);
    RUN(small_batches_in_one_kernel_follow_the_reference);
    RUN(every_optimizer_in_one_kernel_follows_the_reference);
    if (!IN_RACE_CHECK)
        RUN(the_presets_in_one_kernel_follow_the_reference);
    if (!IN_RACE_CHECK && !IS_WATCHED)
        RUN(the_loss_falls_on_a_fixed_replay);
    RUN(double_dqn_asks_the_target_what_the_online_choice_is_worth);
    RUN(termination_stops_bootstrapping_and_truncation_does_not);
    gpur_device_close(device);
    return test_main_end();
}
