/* SPDX-License-Identifier: MIT */
/*
 * Learners that draw a part of each batch from a second replay. Train steps of DQN and of deterministic policy
 * gradients are compared with the references in double: which rows are drawn of which replay, their weights, the loss
 * of the whole batch, and the priorities of both replays. Also a million draws, rows of every kind, appends, files,
 * two learners with each other's replay, and refusals.
 */
#include "learn/dpg/dpg.h"
#include "learn/dqn/dqn.h"
#include "reference/reference_dpg.h"
#include "reference/reference_priority.h"
#include "reference/reference_replay.h"
#include "replay/replay.h"
#include "support/dpg_fixture.h"
#include "support/file_utils.h"
#include "support/learner_fixture.h"
#include "support/stream_gate.h"
#include "test.h"

#include <pthread.h>
#include <time.h>

enum { OWN, SHOWN, SIDES, SHOWN_ROWS = 90, MAX_BATCH = 256, MAX_WEIGHTS = 4096, MAX_NUMBERS = 1 << 16 };

/* The random numbers of each side, as the documentation of kernels/lib/random.h numbers them. */
static const uint32_t uniform_purpose[SIDES] = {5, 19}, priority_purpose[SIDES] = {8, 21};

static gpur_device *device;
static learner_fixture sides[SIDES];
static const int rows_of[SIDES] = {FIXTURE_ROWS, SHOWN_ROWS};

/* Demonstrations have other contents than the learner's own rows. */
static gpur_status open_side(int side, int32_t norm, int filled)
{
    learner_fixture *const f = &sides[side];
    GPUR_TRY(learner_fixture_open_prioritized(f, device, 0, norm));
    for (int i = 0; i < FIXTURE_ROWS && side == SHOWN; i++) {
        learner_fixture_row *const row = &f->rows[i];
        random_floats((uint64_t)i + 50000, row->obs, FIXTURE_FEATURES);
        random_floats((uint64_t)i + 60000, row->next_obs, FIXTURE_FEATURES);
        random_floats((uint64_t)i + 70000, &row->reward, 1);
        row->action = (i * 5 + 1) % FIXTURE_ACTIONS;
        row->terminated = i % 11 == 0;
    }
    return learner_fixture_append(f, filled);
}

static gpur_status open_sides(int32_t own_norm, int32_t shown_norm)
{
    GPUR_TRY(open_side(OWN, own_norm, rows_of[OWN]));
    return open_side(SHOWN, shown_norm, rows_of[SHOWN]);
}

static void close_sides(void)
{
    learner_fixture_close(&sides[OWN]);
    learner_fixture_close(&sides[SHOWN]);
}

static gpur_dqn_config mixed_config(int64_t batch, float ratio)
{
    gpur_dqn_config c = learner_fixture_config(GPUR_HEAD_DUELING, 1);
    c.beta = (gpur_schedule){.first = 0.4f, .last = 1.0f, .begin = 2, .steps = 9};
    c.batch_size = batch;
    c.demonstrations = sides[SHOWN].replay;
    c.demonstration_ratio = ratio;
    return c;
}

/* Comparison with the reference. */

typedef struct mix {
    int64_t batch, shown; /* rows of a batch, and how many of them are demonstrations */
    int32_t norm[SIDES];  /* weight_norm, or NOT_PRIORITIZED */
    int32_t source;       /* index source of the learner */
} mix;

typedef struct comparison {
    const mix *mix;
    gpur_dqn_config config;
    gpur_learner *learner;
    ref_net *net;
    int step;
    int64_t ids[MAX_BATCH];
    ref_row rows[MAX_BATCH];
    double leaves[SIDES][FIXTURE_ROWS];
    int64_t updates[SIDES];
} comparison;

static int64_t first_of(const mix *m, int side)
{
    return side == OWN ? 0 : m->batch - m->shown;
}

static int64_t count_of(const mix *m, int side)
{
    return side == OWN ? m->batch - m->shown : m->shown;
}

static void read_leaves(gpur_replay *replay, int rows, double *leaves)
{
    static uint32_t integers[FIXTURE_ROWS];
    float first;
    CHECK_OK(gpur_replay_get_priorities(replay, 1, (int64_t[]){0}, &first)); /* rows are visible from then on */
    CHECK_OK(gpur_device_copy(device, integers, replay->priorities.tree.leaf, rows * 4));
    for (int i = 0; i < rows; i++)
        leaves[i] = integers[i];
}

/* floor(n * bits / 2^64), n below 2^32. */
static int64_t uniform_id(uint64_t seed, int side, int step, int64_t i, uint64_t n)
{
    const uint32_t counter[4] = {(uint32_t)i, uniform_purpose[side], (uint32_t)step - 1, 0};
    uint32_t bits[4];
    reference_philox(counter, seed, bits);
    return (int64_t)((bits[1] * n + (bits[0] * n >> 32)) >> 32);
}

/* Row i of a side's part of a batch of `count` rows in train step `step`. */
static int64_t drawn_id(const double *leaves, uint64_t seed, int side, int step, int64_t i, int64_t count,
                        int32_t source)
{
    return leaves ? reference_sample_by_priority(leaves, rows_of[side], seed, priority_purpose[side],
                                                 (uint64_t)step - 1, i, count, source != GPUR_PRIORITIZED_INDEPENDENT)
                  : uniform_id(seed, side, step, i, (uint64_t)rows_of[side]);
}

/* The rows of one side are drawn as that replay draws, and weighed among themselves. */
static void check_side(comparison *c, int side)
{
    const int is_prioritized = c->mix->norm[side] != NOT_PRIORITIZED;
    const int64_t first = first_of(c->mix, side), count = count_of(c->mix, side);
    const double *const leaves = is_prioritized ? c->leaves[side] : NULL;
    const int32_t source = side == OWN ? c->mix->source : GPUR_SOURCE_AUTO;
    double weights[MAX_BATCH];
    for (int64_t i = 0; i < count; i++) {
        CHECK_EQUAL(c->ids[first + i], drawn_id(leaves, c->config.seed, side, c->step, i, count, source));
        c->rows[first + i] = learner_fixture_reference(&sides[side], c->ids[first + i]);
    }
    if (!is_prioritized)
        return;
    reference_weights(leaves, rows_of[side], c->ids + first, count, ref_schedule(&c->config.beta, c->step - 1),
                      c->mix->norm[side], weights);
    for (int64_t i = 0; i < count; i++)
        c->rows[first + i].weight = (float)weights[i];
}

/* The drawn rows of a side have their errors as priorities, and no update went to a row of the other replay. */
static void check_priorities(comparison *c, int side)
{
    static float got[FIXTURE_ROWS], wanted[FIXTURE_ROWS];
    const int64_t first = first_of(c->mix, side), count = count_of(c->mix, side);
    gpur_priority_stats stats = {.size = sizeof stats};
    int64_t wrong = -1;
    if (c->mix->norm[side] == NOT_PRIORITIZED)
        return;
    for (int64_t i = 0; i < count; i++)
        wanted[c->ids[first + i]] = (float)fabs(c->rows[first + i].error) + 1e-6f;
    CHECK_OK(gpur_replay_get_priorities(sides[side].replay, count, c->ids + first, got));
    for (int64_t i = 0; i < count; i++)
        CHECK_NEAR(got[i], wanted[c->ids[first + i]], 2e-5 * (1 + (double)got[i]));
    c->updates[side] += count;
    CHECK_OK(gpur_replay_get_priority_stats(sides[side].replay, &stats));
    CHECK_EQUAL(stats.updates, c->updates[side]);
    CHECK_OK(gpur_replay_check_priorities(sides[side].replay, &wrong));
    CHECK_EQUAL(wrong, 0);
}

static void check_gradient(comparison *c, const ref_tensor *want)
{
    static float got[MAX_WEIGHTS];
    double size = 0, gap = 0;
    CHECK_OK(gpur_learner_read_weights(c->learner, GPUR_WEIGHTS_GRADIENT, want->name, got, want->count));
    for (int i = 0; i < want->count; i++) {
        size = fmax(size, fabs(want->g[i]));
        gap = fmax(gap, fabs((double)got[i] - want->g[i]));
    }
    TEST_REQUIRE(gap <= 2e-6 + 1e-4 * size, "step %d: the gradient of %s is off by %g; its largest is %g", c->step,
                 want->name, gap, size);
}

static void check_step(comparison *c)
{
    const int batch = (int)c->mix->batch;
    double q = 0;
    for (int side = OWN; side < SIDES; side++)
        if (c->mix->norm[side] != NOT_PRIORITIZED)
            read_leaves(sides[side].replay, rows_of[side], c->leaves[side]);
    CHECK_OK(gpur_learner_train(c->learner, 1));
    const gpur_learner_stats stats = learner_fixture_stats(c->learner);
    CHECK_OK(gpur_device_copy(device, c->ids, c->learner->step->batch.id, batch * 8));
    check_side(c, OWN);
    check_side(c, SHOWN);
    const double loss = ref_dqn_loss(c->net, &c->config, c->rows, batch, &q);
    CHECK_NEAR(stats.loss, loss, 1e-4 * fabs(loss) + 1e-7);
    CHECK_NEAR(stats.mean_q, q, 1e-4 * (0.01 + fabs(q)));
    for (int i = 0; i < c->net->tensors; i++)
        check_gradient(c, &c->net->tensor[i]);
    check_priorities(c, OWN);
    check_priorities(c, SHOWN);
    (void)ref_dqn_update(c->net, &c->config, c->step);
}

static void compare(const mix *m)
{
    static comparison c;
    memset(&c, 0, sizeof c);
    c.mix = m;
    CHECK_OK(open_sides(m->norm[OWN], m->norm[SHOWN]));
    c.config = mixed_config(m->batch, (float)m->shown / (float)m->batch);
    c.config.index_source = m->source;
    CHECK_OK(gpur_dqn_create(sides[OWN].replay, &c.config, &c.learner));
    c.net = learner_fixture_net(&sides[OWN], c.learner, &c.config);
    CHECK(c.net);
    const int before = atomic_load(&test_state.failures), steps = IN_RACE_CHECK ? 4 : 25;
    for (c.step = 1; c.step <= steps && atomic_load(&test_state.failures) == before; c.step++)
        check_step(&c);
    ref_net_destroy(c.net);
    gpur_learner_destroy(c.learner);
    close_sides();
}

TEST(steps_of_dqn_agree_with_the_reference)
{
    static const int32_t none = NOT_PRIORITIZED, batch = GPUR_WEIGHT_NORM_BATCH, memory = GPUR_WEIGHT_NORM_MEMORY;
    const mix mixes[] = {
        {16, 8, {none, none}, 0},   {16, 4, {batch, none}, 0},
        {20, 1, {none, batch}, 0},  {24, 23, {memory, batch}, GPUR_PRIORITIZED_INDEPENDENT},
        {3, 1, {batch, memory}, 0}, {250, 75, {batch, batch}, 0},
    };
    for (int i = 0; i < (int)(sizeof mixes / sizeof *mixes) - IN_RACE_CHECK; i++) {
        const int before = atomic_load(&test_state.failures);
        compare(&mixes[i]);
        TEST_REQUIRE(atomic_load(&test_state.failures) == before, "that was mix %d", i);
    }
}

/* Deterministic policy gradients. */

static dpg_fixture dpg_sides[SIDES];

/* The demonstrations are rows 1000 and following of the fixture. */
static dpg_row dpg_row_of(int side, int64_t id)
{
    return dpg_fixture_row(side == OWN ? id : id + 1000);
}

static gpur_status open_dpg_sides(int prioritized)
{
    static dpg_row rows[DPG_ROWS];
    for (int side = OWN; side < SIDES; side++) {
        const int count = side == OWN ? DPG_ROWS : SHOWN_ROWS;
        for (int i = 0; i < count; i++)
            rows[i] = dpg_row_of(side, i);
        GPUR_TRY(dpg_fixture_open_empty(&dpg_sides[side], device, side == OWN ? prioritized : !prioritized));
        GPUR_TRY(gpur_writer_append(dpg_sides[side].writer, count, rows, NULL));
    }
    return GPUR_OK;
}

static void check_dpg_weights(ref_dpg *r, gpur_learner *dpg, int sets)
{
    static float values[MAX_WEIGHTS];
    for (int32_t i = 0; i < gpur_learner_weight_count(dpg); i++) {
        gpur_weight_info info = {.size = sizeof info};
        CHECK_OK(gpur_learner_get_weight_info(dpg, i, &info));
        ref_tensor *const t = ref_dpg_find(r, info.name);
        CHECK(t && t->count == info.count);
        CHECK_OK(gpur_learner_read_weights(dpg, GPUR_WEIGHTS_ONLINE, info.name, values, info.count));
        for (int j = 0; j < t->count && sets; j++)
            t->w[j] = t->target[j] = (double)values[j];
        double apart = 0;
        for (int j = 0; j < t->count; j++)
            apart += fabs((double)values[j] - t->w[j]) / t->count;
        TEST_REQUIRE(apart <= 2e-5, "%s is off by %g in the mean", info.name, apart);
    }
}

static gpur_dqn_config update_of(const gpur_dpg_config *c, const gpur_optimizer_config *optimizer)
{
    gpur_dqn_config update;
    (void)gpur_dqn_config_init(&update, sizeof update);
    update.optimizer = *optimizer, update.target_period = c->target_period;
    return update;
}

static void begin_slots(ref_net *net, const gpur_optimizer_config *o)
{
    for (int i = 0; i < net->tensors; i++)
        ref_optimizer_begin(o, net->tensor[i].count, net->tensor[i].m, net->tensor[i].v, net->tensor[i].u);
}

/* Batches of 24 with 6 demonstrations; one side is prioritized, with the weights of its own rows. */
static void check_dpg_step(ref_dpg *r, gpur_learner *dpg, const gpur_dpg_config *c, int step, int prioritized)
{
    static dpg_row rows[24];
    static double leaves[DPG_ROWS];
    ref_dpg_row batch[24];
    double noise[24][DPG_ACTIONS];
    int64_t ids[24];
    double weights[24], q = 0;
    const int side = prioritized ? OWN : SHOWN, first = side == OWN ? 0 : 18, count = side == OWN ? 18 : 6;
    read_leaves(dpg_sides[side].replay, side == OWN ? DPG_ROWS : SHOWN_ROWS, leaves);
    CHECK_OK(gpur_learner_train(dpg, 1));
    const gpur_learner_stats stats = learner_fixture_stats(dpg);
    CHECK_OK(gpur_device_copy(device, ids, dpg->step->batch.id, sizeof ids));
    reference_weights(leaves, side == OWN ? DPG_ROWS : SHOWN_ROWS, ids + first, count, ref_schedule(&c->beta, step - 1),
                      REFERENCE_NORM_BATCH, weights);
    for (int i = 0; i < 24; i++) {
        const int is_weighed = i >= first && i < first + count;
        rows[i] = dpg_row_of(i < 18 ? OWN : SHOWN, ids[i]);
        batch[i] = (ref_dpg_row){rows[i].obs,
                                 rows[i].action,
                                 rows[i].next_obs,
                                 (double)rows[i].reward,
                                 (double)rows[i].discount,
                                 is_weighed ? weights[i - first] : 1,
                                 0,
                                 noise[i]};
        for (int k = 0; k < DPG_ACTIONS; k++)
            noise[i][k] = ref_dpg_noise(c->seed, step, (uint32_t)i, k, (double)c->target_noise, 0);
    }
    const double critic_loss = ref_dpg_critic_loss(r, batch, 24, &q);
    gpur_dqn_config critic = update_of(c, &c->critic_optimizer), actor = update_of(c, &c->actor_optimizer);
    critic.target_period *= c->policy_delay;
    (void)ref_dpg_update_critics(r, &critic, step);
    CHECK_NEAR(stats.loss, critic_loss, 1e-4 * critic_loss + 1e-7);
    if (step % c->policy_delay == 0) {
        const double actor_loss = ref_dpg_actor_loss(r, batch, 24, NULL);
        (void)ref_dqn_update(r->actor, &actor, step / c->policy_delay);
        CHECK_NEAR(stats.policy_loss, actor_loss, 1e-4 * (0.1 + fabs(actor_loss)));
    }
    check_dpg_weights(r, dpg, 0);
}

TEST(steps_of_dpg_agree_with_the_reference)
{
    for (int which = 0; which < 4; which++) { /* the last two with TD3's settings */
        const int prioritized = which % 2;
        gpur_dpg_config c = dpg_fixture_config();
        if (which >= 2)
            c.critics = 2, c.policy_delay = 2, c.target_noise = 0.2f;
        CHECK_OK(open_dpg_sides(prioritized));
        c.demonstrations = dpg_sides[SHOWN].replay;
        c.demonstration_ratio = 0.25f;
        gpur_learner *const dpg = dpg_fixture_learner(&dpg_sides[OWN], &c);
        ref_dpg r = {.actor = ref_net_create(&c.actor, DPG_FEATURES),
                     .critic = ref_net_create(&c.critic, DPG_FEATURES + DPG_ACTIONS),
                     .second = which >= 2 ? ref_net_create(&c.critic, DPG_FEATURES + DPG_ACTIONS) : NULL,
                     .clip = (double)c.action_gradient_clip};
        CHECK(dpg);
        begin_slots(r.actor, &c.actor_optimizer);
        begin_slots(r.critic, &c.critic_optimizer);
        if (r.second)
            begin_slots(r.second, &c.critic_optimizer);
        check_dpg_weights(&r, dpg, 1);
        for (int step = 1; step <= (IN_RACE_CHECK ? 4 : 12); step++)
            check_dpg_step(&r, dpg, &c, step, prioritized);
        ref_net_destroy(r.actor);
        ref_net_destroy(r.critic);
        if (r.second)
            ref_net_destroy(r.second);
        gpur_learner_destroy(dpg);
        dpg_fixture_close(&dpg_sides[OWN]);
        dpg_fixture_close(&dpg_sides[SHOWN]);
    }
}

/* A million draws. */

enum { DRAW_BATCH = 250, DRAW_SHOWN = 75, DRAW_STEPS = IN_RACE_CHECK ? 8 : IS_WATCHED ? 400 : 4000 };

/* The reward tells a row and its replay. */
static int is_row_of(int side, int64_t id, float reward)
{
    return id >= 0 && id < rows_of[side] && sides[side].rows[id].reward == reward;
}

/* Each of n rows was drawn about draws / n times: chi-square with n - 1 degrees of freedom, within 5 of its standard
 * deviations. */
static void check_uniform(const int64_t *counts, int64_t n, int64_t draws)
{
    const double mean = (double)draws / (double)n;
    double square = 0;
    for (int64_t i = 0; i < n; i++)
        square += ((double)counts[i] - mean) * ((double)counts[i] - mean) / mean;
    CHECK_NEAR(square, n - 1, 5 * sqrt(2.0 * (double)(n - 1)));
}

TEST(each_batch_has_its_part_of_both_replays_over_a_million_draws)
{
    static int64_t counts[SIDES][FIXTURE_ROWS], ids[DRAW_BATCH];
    static float rewards[DRAW_BATCH];
    int64_t drawn[SIDES] = {0, 0};
    gpur_learner *learner = NULL;
    memset(counts, 0, sizeof counts);
    CHECK_OK(open_sides(NOT_PRIORITIZED, NOT_PRIORITIZED));
    gpur_dqn_config config = mixed_config(DRAW_BATCH, (float)DRAW_SHOWN / DRAW_BATCH);
    config.network = network_fixture_config(0, 0, GPUR_RELU, GPUR_HEAD_Q, 0, FIXTURE_ACTIONS);
    CHECK_OK(gpur_dqn_create(sides[OWN].replay, &config, &learner));
    for (int t = 0; t < DRAW_STEPS; t++) {
        CHECK_OK(gpur_learner_train(learner, 1));
        CHECK_OK(gpur_learner_sync(learner));
        CHECK_OK(gpur_device_copy(device, ids, learner->step->batch.id, sizeof ids));
        CHECK_OK(gpur_device_copy(device, rewards, learner->step->batch.reward, sizeof rewards));
        for (int i = 0; i < DRAW_BATCH; i++) {
            const int side = is_row_of(SHOWN, ids[i], rewards[i]) ? SHOWN : OWN;
            CHECK(is_row_of(side, ids[i], rewards[i]));
            CHECK_EQUAL(side, i < DRAW_BATCH - DRAW_SHOWN ? OWN : SHOWN);
            counts[side][ids[i]]++, drawn[side]++;
        }
    }
    CHECK_EQUAL(drawn[OWN], (int64_t)DRAW_STEPS * (DRAW_BATCH - DRAW_SHOWN));
    CHECK_EQUAL(drawn[SHOWN], (int64_t)DRAW_STEPS * DRAW_SHOWN);
    check_uniform(counts[OWN], rows_of[OWN], drawn[OWN]);
    check_uniform(counts[SHOWN], rows_of[SHOWN], drawn[SHOWN]);
    gpur_learner_destroy(learner);
    close_sides();
}

/* Kinds of rows. */

static gpur_status append_range(learner_fixture *f, int first, int count)
{
    static unsigned char rows[FIXTURE_ROWS * MAX_ROW_BYTES];
    int64_t ids[FIXTURE_ROWS];
    for (int i = 0; i < count; i++)
        ids[i] = first + i;
    learner_fixture_pack(f, ids, count, rows);
    return gpur_writer_append(f->writer, count, rows, NULL);
}

static gpur_dqn_config config_of_kind(int kind)
{
    gpur_dqn_config c = kind == ROWS_PLANES   ? conv_config(GPUR_CHW)
                        : kind == ROWS_PIXELS ? conv_config(GPUR_HWC)
                                              : learner_fixture_config(GPUR_HEAD_DUELING, 1);
    c.batch_size = 8;
    return c;
}

enum { KIND_OWN = 40, KIND_ROWS = 64 };

/* Trains a step on rows of both replays, and another learner on the same rows by their ids in a third replay, which has
 * the rows of both: weights and the whole input must be the same bits. */
static void check_kind(int kind)
{
    static learner_fixture all;
    static float weights[2][MAX_NUMBERS], x[2][1 << 14];
    gpur_learner *mixed = NULL, *whole = NULL;
    int64_t ids[8], count = 0;
    CHECK_OK(learner_fixture_open_kind(&sides[OWN], device, kind, 0, NOT_PRIORITIZED));
    CHECK_OK(learner_fixture_open_kind(&sides[SHOWN], device, kind, 0, NOT_PRIORITIZED));
    CHECK_OK(learner_fixture_open_kind(&all, device, kind, 0, NOT_PRIORITIZED));
    CHECK_OK(append_range(&sides[OWN], 0, KIND_OWN));
    CHECK_OK(append_range(&sides[SHOWN], KIND_OWN, KIND_ROWS - KIND_OWN));
    CHECK_OK(append_range(&all, 0, KIND_ROWS));
    gpur_dqn_config config = config_of_kind(kind);
    CHECK_OK(gpur_dqn_create(all.replay, &config, &whole));
    config.demonstrations = sides[SHOWN].replay, config.demonstration_ratio = 0.375f;
    CHECK_OK(gpur_dqn_create(sides[OWN].replay, &config, &mixed));
    for (int t = 0; t < 3; t++) {
        CHECK_OK(gpur_learner_train(mixed, 1));
        CHECK_OK(gpur_learner_sync(mixed));
        CHECK_OK(gpur_device_copy(device, ids, mixed->step->batch.id, sizeof ids));
        for (int i = 0; i < 8; i++)
            ids[i] += i < 5 ? 0 : KIND_OWN;
        CHECK_OK(gpur_learner_train_ids(whole, ids));
        CHECK_OK(gpur_learner_sync(whole));
        const int64_t bytes = 2 * 8 * mixed->step->batch.x_pitch * (int64_t)sizeof(float);
        CHECK(bytes <= (int64_t)sizeof x[0]);
        CHECK_OK(gpur_device_copy(device, x[0], mixed->step->batch.x, bytes));
        CHECK_OK(gpur_device_copy(device, x[1], whole->step->batch.x, bytes));
        CHECK(memcmp(x[0], x[1], (size_t)bytes) == 0);
    }
    count = learner_fixture_weights(mixed, GPUR_WEIGHTS_ONLINE, weights[0], MAX_NUMBERS);
    CHECK(count > 0 && learner_fixture_weights(whole, GPUR_WEIGHTS_ONLINE, weights[1], MAX_NUMBERS) == count);
    CHECK(memcmp(weights[0], weights[1], (size_t)count * sizeof(float)) == 0);
    gpur_learner_destroy(mixed);
    gpur_learner_destroy(whole);
    learner_fixture_close(&all);
    close_sides();
}

TEST(rows_of_every_kind_come_from_their_replay)
{
    for (int kind = ROWS_PLAIN; kind <= ROWS_PIXELS; kind++) {
        const int before = atomic_load(&test_state.failures);
        if (kind <= ROWS_WIDE || !IS_WATCHED)
            check_kind(kind);
        TEST_REQUIRE(atomic_load(&test_state.failures) == before, "that was kind %d", kind);
    }
}

/* Appends, given rows and files. */

/* Two replays, a learner on them, and what it comes to. */
typedef struct result {
    float weights[MAX_WEIGHTS], priorities[SIDES][FIXTURE_ROWS];
    int64_t count;
} result;

/* Reads weights and priorities, waiting for all work. */
static void read_result(gpur_learner *learner, result *r)
{
    memset(r, 0, sizeof *r);
    r->count = learner_fixture_weights(learner, GPUR_WEIGHTS_ONLINE, r->weights, MAX_WEIGHTS);
    CHECK(r->count > 0);
    for (int side = OWN; side < SIDES; side++) {
        int64_t ids[SHOWN_ROWS];
        for (int i = 0; i < SHOWN_ROWS; i++)
            ids[i] = gpur_replay_size(sides[side].replay) - 1 - i;
        CHECK_OK(gpur_replay_get_priorities(sides[side].replay, SHOWN_ROWS, ids, r->priorities[side]));
    }
}

static void check_same(const result *a, const result *b)
{
    CHECK(a->count > 0 && memcmp(a, b, sizeof *a) == 0);
}

/* Trains while both replays grow; waits after each call, or never. */
static gpur_status train_and_append(gpur_learner *learner, int waits)
{
    for (int t = 0; t < 12; t++) {
        GPUR_TRY(gpur_learner_train(learner, 1 + t % 3));
        if (waits)
            GPUR_TRY(gpur_device_sync(device));
        GPUR_TRY(learner_fixture_append(&sides[t % 2], 40 + t));
        if (waits)
            GPUR_TRY(gpur_device_sync(device));
    }
    return GPUR_OK;
}

TEST(what_is_appended_to_either_replay_is_drawn_in_the_order_of_calls)
{
    static result results[2];
    for (int waits = 0; waits < 2; waits++) {
        gpur_learner *learner = NULL;
        CHECK_OK(open_sides(GPUR_WEIGHT_NORM_BATCH, GPUR_WEIGHT_NORM_BATCH));
        const gpur_dqn_config config = mixed_config(16, 0.5f);
        CHECK_OK(gpur_dqn_create(sides[OWN].replay, &config, &learner));
        CHECK_OK(train_and_append(learner, waits));
        read_result(learner, &results[waits]);
        gpur_learner_destroy(learner);
        close_sides();
    }
    check_same(&results[0], &results[1]);
}

TEST(steps_on_given_ids_take_no_demonstrations)
{
    static result results[2];
    for (int mixed = 0; mixed < 2; mixed++) {
        int64_t ids[16];
        gpur_learner *learner = NULL;
        CHECK_OK(open_sides(GPUR_WEIGHT_NORM_BATCH, GPUR_WEIGHT_NORM_BATCH));
        gpur_dqn_config config = mixed_config(16, 0.5f);
        config.demonstrations = mixed ? config.demonstrations : NULL;
        CHECK_OK(gpur_dqn_create(sides[OWN].replay, &config, &learner));
        for (int t = 0; t < 5; t++) {
            learner_fixture_ids(&sides[OWN], t, 16, ids);
            CHECK_OK(gpur_learner_train_ids(learner, ids));
        }
        read_result(learner, &results[mixed]);
        gpur_learner_destroy(learner);
        close_sides();
    }
    check_same(&results[0], &results[1]);
}

#ifdef GPUR_HAS_FILES
/* Trains 6 steps and 5 more, between which all is saved, and with `resumes` closed and loaded. */
static void train_with_a_stop(int resumes, result *r)
{
    const char *const paths[] = {test_file_path("own"), test_file_path("shown"), test_file_path("learner")};
    gpur_learner *learner = NULL;
    CHECK_OK(open_sides(GPUR_WEIGHT_NORM_BATCH, GPUR_WEIGHT_NORM_BATCH));
    gpur_dqn_config config = mixed_config(16, 0.25f);
    CHECK_OK(gpur_dqn_create(sides[OWN].replay, &config, &learner));
    CHECK_OK(gpur_learner_train(learner, 6));
    CHECK_OK(gpur_replay_save(sides[OWN].replay, paths[OWN], NULL));
    CHECK_OK(gpur_replay_save(sides[SHOWN].replay, paths[SHOWN], NULL));
    CHECK_OK(gpur_learner_save(learner, paths[2], NULL));
    if (resumes) {
        gpur_learner_destroy(learner);
        close_sides();
        CHECK_OK(open_side(OWN, GPUR_WEIGHT_NORM_BATCH, 0));
        CHECK_OK(open_side(SHOWN, GPUR_WEIGHT_NORM_BATCH, 0));
        config.demonstrations = sides[SHOWN].replay;
        CHECK_OK(gpur_dqn_create(sides[OWN].replay, &config, &learner));
        CHECK_OK(gpur_replay_load(sides[OWN].replay, paths[OWN], NULL));
        CHECK_OK(gpur_replay_load(sides[SHOWN].replay, paths[SHOWN], NULL));
        CHECK_OK(gpur_learner_load(learner, paths[2], NULL));
    }
    CHECK_OK(gpur_learner_train(learner, 5));
    read_result(learner, r);
    gpur_learner_destroy(learner);
    close_sides();
}

TEST(a_loaded_learner_goes_on_with_the_same_bits)
{
    static result results[2];
    train_with_a_stop(0, &results[0]);
    train_with_a_stop(1, &results[1]);
    check_same(&results[0], &results[1]);
    test_remove_folder();
}
#endif

/* Threads. */

typedef struct trainee {
    gpur_learner *learner;
    learner_fixture *appends_to;
    gpur_status status;
} trainee;

enum { CROSSED_CALLS = IN_RACE_CHECK ? 4 : 150 };

static void *train_in_a_thread(void *context)
{
    trainee *const t = context;
    for (int i = 0; i < CROSSED_CALLS && t->status == GPUR_OK; i++)
        t->status = gpur_learner_train(t->learner, 1 + i % 3);
    return NULL;
}

static void *append_in_a_thread(void *context)
{
    trainee *const t = context;
    for (int i = 0; i < CROSSED_CALLS && t->status == GPUR_OK; i++)
        t->status = learner_fixture_append(t->appends_to, 70);
    return NULL;
}

/* Each learner has the other's replay as its demonstrations; both replays overwrite rows meanwhile. */
TEST(two_learners_draw_from_each_others_replay_while_both_are_appended_to)
{
    trainee trainees[4] = {{0}};
    pthread_t threads[4];
    int64_t wrong = -1;
    CHECK_OK(open_sides(GPUR_WEIGHT_NORM_BATCH, GPUR_WEIGHT_NORM_BATCH));
    for (int side = OWN; side < SIDES; side++) {
        gpur_dqn_config config = mixed_config(16, 0.5f);
        config.demonstrations = sides[1 - side].replay;
        CHECK_OK(gpur_dqn_create(sides[side].replay, &config, &trainees[side].learner));
        trainees[2 + side].appends_to = &sides[side];
    }
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, i < 2 ? train_in_a_thread : append_in_a_thread, &trainees[i]) == 0);
    for (int i = 0; i < 4; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    for (int i = 0; i < 4; i++)
        CHECK_EQUAL(trainees[i].status, GPUR_OK);
    for (int side = OWN; side < SIDES; side++) {
        const gpur_learner_stats stats = learner_fixture_stats(trainees[side].learner);
        CHECK(stats.steps == stats.steps_enqueued && stats.skipped == 0 && isfinite(stats.loss));
        CHECK_OK(gpur_replay_check_priorities(sides[side].replay, &wrong));
        CHECK_EQUAL(wrong, 0);
        gpur_learner_destroy(trainees[side].learner);
    }
    close_sides();
}

/* Streams. The learner's own stream is held back, so that its gathers run after all that is enqueued meanwhile. */

enum { HELD_BATCH = 250, HELD_SHOWN = 200, OVERWRITTEN = 128 };

/* Opens a learner, and demonstrations that have gone around their ring; one train step has published all of them. */
static gpur_learner *open_full_ring(void)
{
    gpur_learner *learner = NULL;
    gpur_status status = open_sides(NOT_PRIORITIZED, NOT_PRIORITIZED);
    const gpur_dqn_config config = mixed_config(HELD_BATCH, (float)HELD_SHOWN / HELD_BATCH);
    for (int i = 0; i < 10 && status == GPUR_OK; i++)
        status = learner_fixture_append(&sides[SHOWN], FIXTURE_ROWS);
    if (status == GPUR_OK)
        status = gpur_dqn_create(sides[OWN].replay, &config, &learner);
    for (int i = 0; i < 3 && status == GPUR_OK; i++)
        status = gpur_learner_train(learner, 1);
    return status == GPUR_OK && gpur_device_sync(device) == GPUR_OK ? learner : NULL;
}

static void pause_shortly(void)
{
    const struct timespec pause = {.tv_nsec = 50000000};
    nanosleep(&pause, NULL);
}

/* Overwrites some of the oldest demonstrations. */
static gpur_status overwrite(void)
{
    for (int i = 0; i < OVERWRITTEN; i++)
        sides[SHOWN].rows[i].reward = 100;
    return learner_fixture_append(&sides[SHOWN], OVERWRITTEN);
}

/* The demonstrations in the batch are those that train step `step` draws of this window, as they were appended. */
static void check_drawn_before(gpur_learner *learner, const gpur_window *window, int step)
{
    const int first = HELD_BATCH - HELD_SHOWN;
    int64_t ids[HELD_BATCH];
    float rewards[HELD_BATCH];
    int oldest = 0;
    CHECK_OK(gpur_device_copy(device, ids, learner->step->batch.id, sizeof ids));
    CHECK_OK(gpur_device_copy(device, rewards, learner->step->batch.reward, sizeof rewards));
    for (int i = first; i < HELD_BATCH; i++) {
        CHECK_EQUAL(ids[i], window->first_id + uniform_id(4, SHOWN, step, i - first, (uint64_t)window->count));
        CHECK(rewards[i] != 100);
        oldest += ids[i] < window->first_id + OVERWRITTEN;
    }
    CHECK(oldest > 0); /* else nothing was tried */
}

/* The copies of an append wait for train steps, which run on another stream. */
TEST(rows_are_overwritten_after_the_steps_that_drew_them)
{
    gate held;
    gpur_learner *const learner = open_full_ring();
    CHECK(learner);
    const gpur_window window = sides[SHOWN].replay->window.host;
    gate_init(&held);
    CHECK_OK(gate_close(&held, sides[OWN].replay->consumer.stream));
    CHECK_OK(gpur_learner_train(learner, 1));
    const gpur_status status = overwrite();
    pause_shortly();
    gate_open(&held);
    CHECK_OK(status);
    CHECK_OK(gpur_device_sync(device));
    check_drawn_before(learner, &window, 4);
    gpur_learner_destroy(learner);
    gate_destroy(&held);
    close_sides();
}

/* A step draws behind what other callers have enqueued for the demonstrations' replay. */
TEST(demonstrations_are_drawn_by_the_priorities_that_were_set_before)
{
    enum { ONLY = 7 };
    gate held;
    gpur_learner *learner = NULL;
    int64_t ids[SHOWN_ROWS], drawn[16];
    float priorities[SHOWN_ROWS] = {[ONLY] = 1};
    for (int i = 0; i < SHOWN_ROWS; i++)
        ids[i] = i;
    CHECK_OK(open_sides(NOT_PRIORITIZED, GPUR_WEIGHT_NORM_BATCH));
    const gpur_dqn_config config = mixed_config(16, 0.5f);
    CHECK_OK(gpur_dqn_create(sides[OWN].replay, &config, &learner));
    CHECK_OK(gpur_learner_train(learner, 1));
    CHECK_OK(gpur_device_sync(device));
    gate_init(&held);
    CHECK_OK(gate_close(&held, sides[SHOWN].replay->consumer.stream));
    const gpur_status status = gpur_replay_update_priorities(sides[SHOWN].replay, SHOWN_ROWS, ids, priorities, NULL);
    const gpur_status trained = gpur_learner_train(learner, 1);
    pause_shortly();
    gate_open(&held);
    CHECK_OK(status);
    CHECK_OK(trained);
    CHECK_OK(gpur_device_sync(device));
    CHECK_OK(gpur_device_copy(device, drawn, learner->step->batch.id, sizeof drawn));
    for (int i = 8; i < 16; i++)
        CHECK_EQUAL(drawn[i], ONLY);
    gpur_learner_destroy(learner);
    gate_destroy(&held);
    close_sides();
}

/* An eviction during a launch comes behind the gathers that were enqueued before. */
TEST(rows_leave_after_the_gathers_that_were_enqueued_before)
{
    gate held;
    gpur_stream *stream = NULL;
    gpur_replay *own = NULL, *shown = NULL;
    gpur_learner *const learner = open_full_ring();
    CHECK(learner);
    own = sides[OWN].replay, shown = sides[SHOWN].replay;
    const gpur_window window = shown->window.host;
    gate_init(&held);
    CHECK_OK(gpur_consumer_begin_both(own, gpur_consumer_without_publishing, shown, gpur_consumer_without_publishing,
                                      &stream));
    CHECK_OK(gate_close(&held, stream));
    CHECK_OK(gpur_batch_source_gather(&learner->step->sampled, stream));
    const gpur_status status = overwrite();
    pause_shortly();
    gate_open(&held);
    CHECK_OK(gpur_consumer_end_both(own, shown, status));
    CHECK_OK(gpur_device_sync(device));
    check_drawn_before(learner, &window, 4);
    gpur_learner_destroy(learner);
    gate_destroy(&held);
    close_sides();
}

/* Refusals. */

static void check_refused(const gpur_dqn_config *config, const char *message)
{
    gpur_learner *learner = NULL;
    CHECK_FAILS(gpur_dqn_create(sides[OWN].replay, config, &learner), GPUR_INVALID_ARGUMENT, message);
    CHECK(!learner);
}

TEST(settings_that_do_not_fit_are_refused)
{
    static const struct {
        float ratio;
        int64_t batch;
        const char *message;
    } ratios[] = {
        {0, 16, "demonstration_ratio is 0; it must be above 0 and below 1"},
        {1, 16, "demonstration_ratio is 1; it must be above 0 and below 1"},
        {-0.5f, 16, "demonstration_ratio is -0.5; it must be above 0 and below 1"},
        {NAN, 16, "demonstration_ratio is nan; it must be above 0 and below 1"},
        {0.3f, 16,
         "demonstration_ratio is 0.3, which of batch_size 16 is 4.8 transitions; it must be a whole number of "
         "1 to 15"},
        {0.5f, 1, "demonstration_ratio is 0.5, which of batch_size 1 is 0.5 transitions"},
    };
    CHECK_OK(open_sides(NOT_PRIORITIZED, NOT_PRIORITIZED));
    for (size_t i = 0; i < sizeof ratios / sizeof *ratios; i++) {
        gpur_dqn_config config = mixed_config(ratios[i].batch, ratios[i].ratio);
        check_refused(&config, ratios[i].message);
    }
    gpur_dqn_config config = mixed_config(16, 0.5f);
    config.demonstrations = sides[OWN].replay;
    check_refused(&config, "demonstrations: this is the learner's own replay; it must be another");
    config = mixed_config(16, 0.5f);
    config.step_kernel = GPUR_STEP_FUSED;
    check_refused(&config, "takes one replay; this learner has demonstrations in a second one");
    config = mixed_config(16, 0.5f);
    config.returns.cache_size = 64, config.returns.block_length = 4, config.returns.lambda = 0.5f;
    check_refused(&config, "with demonstrations it must be 0");
    close_sides();
}

/* A replay that differs from the learner's own in one setting, or one field. */
static void check_other(gpur_replay_config c, const gpur_field *field, const char *message)
{
    gpur_field fields[] = {{"obs", GPUR_FLOAT32, {FIXTURE_FEATURES}},
                           {"action", GPUR_INT32, {0}},
                           {"reward", GPUR_FLOAT32, {0}},
                           {"next_obs", GPUR_FLOAT32, {FIXTURE_FEATURES}},
                           {"terminated", GPUR_BOOL, {0}}};
    gpur_replay *other = NULL;
    for (int i = 0; i < 5 && field; i++)
        if (strcmp(fields[i].name, field->name) == 0 || (i == 3 && strcmp(field->name, "obs") == 0)) {
            const char *const name = fields[i].name;
            fields[i] = *field, fields[i].name = name;
        }
    c.fields = fields, c.field_count = 5;
    CHECK_OK(gpur_replay_create(device, &c, &other));
    gpur_dqn_config config = mixed_config(64, 0.5f);
    config.demonstrations = other;
    check_refused(&config, message);
    gpur_replay_destroy(other);
}

TEST(demonstrations_that_differ_are_refused)
{
    static const gpur_field obs = {"obs", GPUR_FLOAT32, {4}}, axes = {"obs", GPUR_FLOAT32, {FIXTURE_FEATURES, 1}},
                            bytes = {"obs", GPUR_UINT8, {FIXTURE_FEATURES}}, action = {"action", GPUR_INT64, {0}},
                            reward = {"reward", GPUR_FLOAT32, {2}};
    gpur_replay_config c;
    CHECK_OK(open_sides(NOT_PRIORITIZED, NOT_PRIORITIZED));
    CHECK_OK(gpur_replay_config_init(&c, sizeof c));
    c.capacity = 1000, c.gamma = 0.9f;
    check_other(c, &obs, "demonstrations: axis 0 of obs has 4, and that of the learner's own replay 5");
    check_other(c, &axes, "demonstrations: obs has 2 axes, and that of the learner's own replay 1");
    check_other(c, &bytes, "demonstrations: obs is uint8, and that of the learner's own replay float32");
    check_other(c, &action, "demonstrations: action is int64, and that of the learner's own replay int32");
    check_other(c, &reward, "demonstrations: field \"reward\" has 2 numbers a transition");
    c.max_batch = 31;
    check_other(c, NULL, "demonstrations: a batch has 32 of them; max_batch of their replay is 31");
    c.max_batch = 0, c.gamma = 0.95f;
    check_other(c, NULL, "demonstrations: gamma is 0.95; it must be 0.9, as in the learner's own replay");
    c.gamma = 0.9f, c.reward_clip = 1;
    check_other(c, NULL, "demonstrations: reward_clip is 1; it must be 0, as in the learner's own replay");
    close_sides();
}

/* A call that finds too few demonstrations publishes nothing of the learner's own replay either. */
TEST(training_waits_for_demonstrations)
{
    gpur_learner *learner = NULL;
    CHECK_OK(open_side(OWN, NOT_PRIORITIZED, FIXTURE_ROWS));
    CHECK_OK(open_side(SHOWN, NOT_PRIORITIZED, 0));
    const gpur_dqn_config config = mixed_config(16, 0.5f);
    CHECK_OK(gpur_dqn_create(sides[OWN].replay, &config, &learner));
    CHECK_FAILS(gpur_learner_train(learner, 1), GPUR_TOO_FEW, "demonstrations: the replay is empty");
    CHECK_EQUAL(sides[OWN].replay->window.launches, 0);
    CHECK_OK(learner_fixture_append(&sides[SHOWN], 1));
    CHECK_OK(gpur_learner_train(learner, 3));
    CHECK_EQUAL(learner_fixture_stats(learner).steps, 3);
    CHECK_EQUAL(sides[OWN].replay->window.launches, 1);
    sides[SHOWN].rows[0].action = FIXTURE_ACTIONS;
    CHECK_FAILS(learner_fixture_append(&sides[SHOWN], 1), GPUR_INVALID_ARGUMENT, "action");
    gpur_learner_destroy(learner);
    CHECK_OK(learner_fixture_append(&sides[SHOWN], 1));
    close_sides();
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
    RUN(steps_of_dqn_agree_with_the_reference);
    RUN(steps_of_dpg_agree_with_the_reference);
    RUN(each_batch_has_its_part_of_both_replays_over_a_million_draws);
    RUN(rows_of_every_kind_come_from_their_replay);
    RUN(what_is_appended_to_either_replay_is_drawn_in_the_order_of_calls);
    RUN(steps_on_given_ids_take_no_demonstrations);
    RUN(two_learners_draw_from_each_others_replay_while_both_are_appended_to);
    if (!test_on_cuda() && test_executor() == GPUR_EXECUTOR_THREAD) {
        RUN(rows_are_overwritten_after_the_steps_that_drew_them);
        RUN(demonstrations_are_drawn_by_the_priorities_that_were_set_before);
        RUN(rows_leave_after_the_gathers_that_were_enqueued_before);
    }
    RUN(training_waits_for_demonstrations);
    RUN(settings_that_do_not_fit_are_refused);
    RUN(demonstrations_that_differ_are_refused);
#ifdef GPUR_HAS_FILES
    RUN(a_loaded_learner_goes_on_with_the_same_bits);
#endif
    gpur_device_close(device);
    return test_main_end();
}
