/* SPDX-License-Identifier: MIT */
/* Learners of deterministic policy gradients, with TD3's settings too: whole train steps against a reference in double,
 * finite differences of both losses, target copies, policies, files, threads, a small task, and refusals. */
#include "learn/dpg/dpg.h"
#include "reference/reference_dpg.h"
#include "reference/reference_priority.h"
#include "reference/reference_replay.h"
#include "replay/replay.h"
#include "replay/sampler/consumer.h"
#include "support/dpg_fixture.h"
#include "support/file_utils.h"
#include "support/learner_fixture.h"
#include "support/replay_fixture.h"
#include "test.h"

#include <pthread.h>

enum { MAX_WEIGHTS = 8192, MAX_BATCH = DPG_ROWS, UNIFORM = 5, BY_PRIORITY = 8 };

static gpur_device *device;
static dpg_fixture fixture;
static dpg_row rows[DPG_ROWS];

/* A case of the comparison. A setting of 0 is the one of dpg_fixture_config. */
typedef struct training {
    int steps, prioritized;
    int32_t source, optimizer;
    float clip, clip_norm; /* of dQ / da; of the critic's gradient */
    float penalty;
    int batch, activation, hidden;
    int64_t empty; /* above 0: before every such step the window is empty for 3 steps */
    float rate;    /* target_rate */
    int period, critics, delay;
    float noise, noise_clip;
    int32_t head, atoms; /* of critics of distributions */
    int norm;            /* 1: all layers are normalized */
} training;

static gpur_dpg_config config_of(const training *t)
{
    gpur_dpg_config c = dpg_fixture_config();
    c.index_source = t->source;
    c.actor_optimizer.kind = t->optimizer;
    c.critic_optimizer.clip_norm = t->clip_norm;
    c.action_gradient_clip = t->clip;
    c.preactivation_penalty = t->penalty;
    c.batch_size = t->batch ? t->batch : c.batch_size;
    for (int i = 0; i < 2; i++)
        c.actor.trunk[i].norm = c.critic.trunk[i].norm = t->norm;
    c.target_rate = t->rate > 0 ? t->rate : c.target_rate;
    c.target_period = t->period ? t->period : c.target_period;
    c.critics = t->critics ? t->critics : 1;
    c.policy_delay = t->delay ? t->delay : 1;
    c.target_noise = t->noise, c.target_noise_clip = t->noise_clip;
    for (int i = 0; i < 2 && t->activation; i++)
        c.actor.trunk[i].activation = c.critic.trunk[i].activation = t->activation;
    if (t->head)
        c.critic.head = t->head, c.critic.atoms = t->atoms;
    if (t->head == GPUR_HEAD_CATEGORICAL)
        c.critic.v_min = -3.0f, c.critic.v_max = 2.0f;
    c.actor.hidden = c.critic.hidden = t->hidden;
    c.actor.trunk_count = c.critic.trunk_count = t->hidden ? 1 : 2;
    return c;
}

/* The reference. */

typedef struct comparison {
    const training *t;
    gpur_dpg_config config;
    gpur_learner *dpg;
    ref_dpg reference;
    gpur_dqn_config actor, critic; /* for ref_dqn_update: optimizer and target copies */
    int step, actor_step;
    int64_t skipped, updates;
    int64_t ids[MAX_BATCH];
    ref_dpg_row batch[MAX_BATCH];
    double noise[MAX_BATCH][DPG_ACTIONS];
    double actor_loss, actor_norm;
    double leaves[DPG_ROWS];
} comparison;

static ref_tensor *tensor_of(ref_dpg *r, const char *name)
{
    ref_tensor *const tensor = ref_dpg_find(r, name);
    if (!tensor)
        exit(1);
    return tensor;
}

/* With the learner's present weights, which are also its targets. */
static void open_reference(ref_dpg *r, gpur_learner *dpg, const gpur_dpg_config *c)
{
    static float values[MAX_WEIGHTS];
    r->actor = ref_net_create(&c->actor, DPG_FEATURES);
    r->critic = ref_net_create(&c->critic, DPG_FEATURES + DPG_ACTIONS);
    r->second = c->critics > 1 ? ref_net_create(&c->critic, DPG_FEATURES + DPG_ACTIONS) : NULL;
    r->clip = (double)c->action_gradient_clip;
    r->penalty = (double)c->preactivation_penalty;
    CHECK_EQUAL(gpur_learner_weight_count(dpg), r->actor->tensors + c->critics * r->critic->tensors);
    for (int32_t i = 0; i < gpur_learner_weight_count(dpg); i++) {
        gpur_weight_info info = {.size = sizeof info};
        CHECK_OK(gpur_learner_get_weight_info(dpg, i, &info));
        ref_tensor *const t = tensor_of(r, info.name);
        CHECK_EQUAL(info.count, t->count);
        CHECK_OK(gpur_learner_read_weights(dpg, GPUR_WEIGHTS_ONLINE, info.name, values, info.count));
        for (int j = 0; j < t->count; j++)
            t->w[j] = t->target[j] = (double)values[j];
        ref_optimizer_begin(strncmp(info.name, "actor.", 6) == 0 ? &c->actor_optimizer : &c->critic_optimizer, t->count,
                            t->m, t->v, t->u);
    }
}

static void close_reference(ref_dpg *r)
{
    ref_net_destroy(r->actor);
    ref_net_destroy(r->critic);
    if (r->second)
        ref_net_destroy(r->second);
}

static ref_dpg_row reference_row(int64_t id)
{
    const dpg_row *const row = &rows[id];
    return (ref_dpg_row){row->obs, row->action, row->next_obs, (double)row->reward, (double)row->discount, 1, 0, NULL};
}

static void read_leaves(double *leaves)
{
    static uint32_t integers[DPG_ROWS];
    float first;
    CHECK_OK(gpur_replay_get_priorities(fixture.replay, 1, (int64_t[]){0}, &first)); /* rows are visible from then on */
    CHECK_OK(gpur_device_copy(device, integers, fixture.replay->priorities.tree.leaf, sizeof integers));
    for (int i = 0; i < DPG_ROWS; i++)
        leaves[i] = integers[i];
}

static int64_t uniform_id(const comparison *c, int i)
{
    const uint32_t counter[4] = {(uint32_t)i, UNIFORM, (uint32_t)c->step - 1, 0};
    uint32_t bits[4];
    reference_philox(counter, c->config.seed, bits);
    return (int64_t)((bits[1] * (uint64_t)DPG_ROWS + (bits[0] * (uint64_t)DPG_ROWS >> 32)) >> 32);
}

/* The ids of the step are those of the reference, and so are the importance weights. */
static void check_samples(comparison *c)
{
    const int batch = (int)c->config.batch_size;
    double weights[MAX_BATCH];
    CHECK_OK(gpur_device_copy(device, c->ids, gpur_dpg_of(c->dpg)->step.batch.id, batch * 8));
    for (int i = 0; i < batch; i++) {
        CHECK(c->ids[i] >= 0 && c->ids[i] < DPG_ROWS);
        CHECK_EQUAL(c->ids[i], c->t->prioritized
                                   ? reference_sample_by_priority(c->leaves, DPG_ROWS, c->config.seed, BY_PRIORITY,
                                                                  (uint64_t)c->step - 1, i, batch,
                                                                  c->t->source != GPUR_PRIORITIZED_INDEPENDENT)
                                   : uniform_id(c, i));
        c->batch[i] = reference_row(c->ids[i]);
        for (int k = 0; k < DPG_ACTIONS; k++)
            c->noise[i][k] = ref_dpg_noise(c->config.seed, c->step, (uint32_t)i, k, (double)c->config.target_noise,
                                           (double)c->config.target_noise_clip);
        c->batch[i].noise = c->t->noise > 0 ? c->noise[i] : NULL;
    }
    if (!c->t->prioritized)
        return;
    reference_weights(c->leaves, DPG_ROWS, c->ids, batch, ref_schedule(&c->config.beta, c->step - 1),
                      REFERENCE_NORM_BATCH, weights);
    for (int i = 0; i < batch; i++)
        c->batch[i].weight = weights[i];
}

static void check_gradient(comparison *c, const ref_net *net, const char *owner, double tolerance)
{
    static float got[MAX_WEIGHTS];
    for (int i = 0; i < net->tensors; i++) {
        const ref_tensor *const want = &net->tensor[i];
        char name[80];
        double size = 0, gap = 0;
        snprintf(name, sizeof name, "%s.%s", owner, want->name);
        CHECK_OK(gpur_learner_read_weights(c->dpg, GPUR_WEIGHTS_GRADIENT, name, got, want->count));
        for (int j = 0; j < want->count; j++) {
            size = fmax(size, fabs(want->g[j]));
            gap = fmax(gap, fabs((double)got[j] - want->g[j]));
        }
        TEST_REQUIRE(gap <= 2e-6 + tolerance * size, "step %d: the gradient of %s is off by %g; its largest is %g",
                     c->step, name, gap, size);
    }
}

/* The priorities of the batch's rows are their errors; of one that was drawn twice the larger, which differ by noise.
 * */
static void check_priorities(comparison *c)
{
    static float got[MAX_BATCH];
    const int64_t batch = c->config.batch_size;
    gpur_priority_stats stats = {.size = sizeof stats};
    CHECK_OK(gpur_replay_get_priorities(fixture.replay, batch, c->ids, got));
    for (int64_t i = 0; i < batch; i++) {
        double want = 0;
        for (int64_t j = 0; j < batch; j++)
            want = c->ids[j] == c->ids[i] ? fmax(want, c->batch[j].error + 1e-6) : want;
        CHECK_NEAR(got[i], want, 1e-4 * (1 + want));
    }
    c->updates += batch;
    CHECK_OK(gpur_replay_get_priority_stats(fixture.replay, &stats));
    CHECK_EQUAL(stats.updates, c->updates);
}

static gpur_status set_window(const comparison *c, int64_t count)
{
    const gpur_window_set_args args = {
        (gpur_window *)(uintptr_t)gpur_dpg_of(c->dpg)->step.sampled.plan.ring.rows.window, {0, 0, count}};
    gpur_stream *stream = NULL;
    GPUR_TRY(gpur_consumer_begin(fixture.replay, gpur_consumer_without_publishing, &stream));
    return gpur_consumer_end(fixture.replay, gpur_launch_window_set(stream, gpur_grid_single(device), &args));
}

/* Skipped steps have numbers, too: with a delay of 2 there are 4 of them, so that a multiple of it stays one. */
static void train_on_an_empty_window(comparison *c)
{
    const int steps = c->config.policy_delay > 1 ? 2 * c->config.policy_delay : 3;
    CHECK_OK(set_window(c, 0));
    CHECK_OK(gpur_learner_train(c->dpg, steps));
    CHECK_OK(set_window(c, DPG_ROWS));
    c->skipped += steps;
}

/* By the new (first) critic. */
static void update_actor(comparison *c, double tolerance)
{
    c->actor_step++;
    c->actor_loss = ref_dpg_actor_loss(&c->reference, c->batch, (int)c->config.batch_size, NULL);
    check_gradient(c, c->reference.actor, "actor", tolerance);
    c->actor_norm = ref_dqn_update(c->reference.actor, &c->actor, c->actor_step);
}

/* The critics' update comes first. */
static void check_step(comparison *c)
{
    const int batch = (int)c->config.batch_size, delay = c->config.policy_delay;
    const double tolerance = c->step <= 6 ? 2e-5 : 1e-3;
    double q = 0;
    if (c->t->empty && c->step % c->t->empty == 0)
        train_on_an_empty_window(c);
    if (c->t->prioritized)
        read_leaves(c->leaves);
    CHECK_OK(gpur_learner_train(c->dpg, 1));
    const gpur_learner_stats stats = learner_fixture_stats(c->dpg);
    const int before = atomic_load(&test_state.failures);
    check_samples(c);
    TEST_REQUIRE(atomic_load(&test_state.failures) == before, "that was step %d", c->step);
    const double critic_loss = ref_dpg_critic_loss(&c->reference, c->batch, batch, &q);
    check_gradient(c, c->reference.critic, c->reference.second ? "critic.1" : "critic", tolerance);
    if (c->reference.second)
        check_gradient(c, c->reference.second, "critic.2", tolerance);
    const double critic_norm = ref_dpg_update_critics(&c->reference, &c->critic, c->step);
    if (c->step % delay == 0)
        update_actor(c, tolerance);
    CHECK_NEAR(stats.loss, critic_loss, 1e-4 * critic_loss + 1e-7);
    CHECK_NEAR(stats.mean_loss, critic_loss, 1e-4 * critic_loss + 1e-6);
    CHECK_NEAR(stats.mean_q, q, 1e-4 * (0.1 + fabs(q)));
    CHECK_NEAR(stats.policy_loss, c->actor_loss, 1e-4 * (0.1 + fabs(c->actor_loss)));
    CHECK_NEAR(stats.gradient_norm, critic_norm, 1e-3 * critic_norm);
    CHECK_NEAR(stats.policy_gradient_norm, c->actor_norm, 1e-3 * c->actor_norm + 1e-7);
    CHECK_NEAR(stats.learning_rate, ref_schedule(&c->config.critic_optimizer.learning_rate, c->step - 1), 1e-8);
    if (c->actor_step > 0)
        CHECK_NEAR(stats.policy_learning_rate,
                   ref_schedule(&c->config.actor_optimizer.learning_rate, c->actor_step - 1), 1e-8);
    CHECK_EQUAL(stats.target_copies, c->step / (delay * c->config.target_period));
    CHECK(stats.steps == c->step && stats.skipped == c->skipped && stats.steps_enqueued == c->step + c->skipped);
    if (c->t->prioritized)
        check_priorities(c);
}

static void check_weights(comparison *c)
{
    static float got[MAX_WEIGHTS];
    for (int32_t i = 0; i < gpur_learner_weight_count(c->dpg); i++)
        for (int32_t which = GPUR_WEIGHTS_ONLINE; which <= GPUR_WEIGHTS_TARGET; which++) {
            gpur_weight_info info = {.size = sizeof info};
            CHECK_OK(gpur_learner_get_weight_info(c->dpg, i, &info));
            const ref_tensor *const t = tensor_of(&c->reference, info.name);
            CHECK_OK(gpur_learner_read_weights(c->dpg, which, info.name, got, info.count));
            double apart = 0;
            for (int j = 0; j < t->count; j++)
                apart += fabs((double)got[j] - (which ? t->target : t->w)[j]) / t->count;
            TEST_REQUIRE(apart <= 5e-5, "%s is off by %g in the mean at the end", info.name, apart);
        }
}

static gpur_dqn_config update_of(const gpur_dpg_config *c, const gpur_optimizer_config *optimizer)
{
    gpur_dqn_config update;
    (void)gpur_dqn_config_init(&update, sizeof update);
    update.optimizer = *optimizer, update.target_period = c->target_period, update.target_rate = c->target_rate;
    return update;
}

static void compare(const training *t)
{
    static comparison c;
    memset(&c, 0, sizeof c);
    c.t = t, c.config = config_of(t);
    c.actor = update_of(&c.config, &c.config.actor_optimizer);
    c.critic = update_of(&c.config, &c.config.critic_optimizer);
    c.critic.target_period *= c.config.policy_delay;
    CHECK_OK(dpg_fixture_open(&fixture, device, t->prioritized));
    c.dpg = dpg_fixture_learner(&fixture, &c.config);
    CHECK(c.dpg);
    open_reference(&c.reference, c.dpg, &c.config);
    const int before = atomic_load(&test_state.failures);
    for (c.step = 1; c.step <= t->steps && atomic_load(&test_state.failures) == before; c.step++)
        check_step(&c);
    check_weights(&c);
    close_reference(&c.reference);
    gpur_learner_destroy(c.dpg);
    dpg_fixture_close(&fixture);
}

TEST(train_steps_agree_with_the_reference)
{
    static const training cases[] = {
        {.steps = 20, .clip = 1},
        {.steps = 20, .clip = 1, .rate = 0.3f, .empty = 7},
        {.steps = 20, .clip = 1, .norm = 1, .activation = GPUR_RELU},
        {.steps = 20, .clip = 0.01f, .penalty = 0.02f, .prioritized = 1, .empty = 5},
        {.steps = 24,
         .critics = 2,
         .delay = 2,
         .noise = 0.2f,
         .noise_clip = 0.5f,
         .period = 1,
         .rate = 0.1f,
         .empty = 6},
        {.steps = 12, .clip = 0, .prioritized = 1, .source = GPUR_PRIORITIZED_INDEPENDENT, .batch = 51},
        {.steps = 12, .clip = 0.05f, .penalty = 0.1f, .clip_norm = 0.2f, .optimizer = GPUR_RMSPROP_TF, .batch = 1},
        {.steps = 12, .clip = 0.02f, .activation = GPUR_RELU, .batch = 7},
        {.steps = 12, .clip = 0, .hidden = 5, .optimizer = GPUR_RMSPROP_DEEPMIND, .batch = 128},
        {.steps = 12, .critics = 2, .prioritized = 1, .clip_norm = 0.2f, .clip = 0.05f, .activation = GPUR_RELU},
        {.steps = 12, .critics = 2, .delay = 3, .noise = 2, .noise_clip = 0.1f, .hidden = 5, .batch = 51},
        {.steps = 12, .delay = 4, .noise = 0.3f, .prioritized = 1, .penalty = 0.1f, .empty = 3},
        {.steps = 12, .head = GPUR_HEAD_QUANTILES, .atoms = 11, .clip = 1, .prioritized = 1},
        {.steps = 12, .head = GPUR_HEAD_CATEGORICAL, .atoms = 11, .clip = 1, .prioritized = 1},
        {.steps = 12, .head = GPUR_HEAD_QUANTILES, .atoms = 7, .critics = 2, .delay = 2, .noise = 0.2f, .hidden = 5},
        {.steps = 12, .head = GPUR_HEAD_CATEGORICAL, .atoms = 21, .critics = 2, .delay = 2, .noise = 0.2f, .empty = 3},
    };
    const int count = IN_RACE_CHECK ? 4 : (int)(sizeof cases / sizeof *cases);
    for (int i = 0; i < count; i++) {
        const int before = atomic_load(&test_state.failures);
        training t = cases[i];
        t.steps = IN_RACE_CHECK ? 5 : t.steps;
        compare(&t);
        TEST_REQUIRE(atomic_load(&test_state.failures) == before, "that was case %d", i);
    }
}

/* Trains a little. Returns the mean loss of the critic and that of the last step's actor. */
static gpur_learner_stats trained_with(int32_t math)
{
    gpur_dpg_config config = dpg_fixture_config();
    gpur_learner_stats stats = {.steps = -1};
    config.math = math;
    if (dpg_fixture_open(&fixture, device, 0) == GPUR_OK) {
        gpur_learner *const dpg = dpg_fixture_learner(&fixture, &config);
        if (dpg && gpur_learner_train(dpg, 10) == GPUR_OK)
            stats = learner_fixture_stats(dpg);
        gpur_learner_destroy(dpg);
    }
    dpg_fixture_close(&fixture);
    return stats;
}

/* The CPU computes in float32, whatever is asked for. */
TEST(tensor_cores_compute_nearly_the_same_and_the_cpu_the_same)
{
    static const double tolerances[] = {[GPUR_MATH_TF32] = 1e-2, [GPUR_MATH_BF16] = 5e-2, [GPUR_MATH_AUTO] = 1e-2};
    const gpur_learner_stats wanted = trained_with(GPUR_MATH_FP32);
    CHECK(wanted.steps == 10 && wanted.mean_loss > 0);
    for (int32_t math = GPUR_MATH_TF32; math <= GPUR_MATH_AUTO; math++) {
        const gpur_learner_stats stats = trained_with(math);
        const double tolerance = test_on_cuda() ? tolerances[math] : 0;
        CHECK_EQUAL(stats.steps, 10);
        CHECK_NEAR(stats.mean_loss, wanted.mean_loss, tolerance * wanted.mean_loss);
        CHECK_NEAR(stats.policy_gradient_norm, wanted.policy_gradient_norm, tolerance * wanted.policy_gradient_norm);
    }
}

/* Finite differences. */

/* Sum over the batch of -g_k mu_k(s) / B with constants g, whose gradient is the actor's. */
static double surrogate(ref_dpg *r, const ref_dpg_row *batch, int count, const double *slopes)
{
    static ref_tape tape;
    double sum = 0;
    for (int b = 0; b < count; b++) {
        ref_forward(r->actor, 0, batch[b].obs, &tape);
        for (int k = 0; k < DPG_ACTIONS; k++) {
            const double z = atanh(tape.y[k]);
            sum += (r->penalty * z * z - slopes[b * DPG_ACTIONS + k] * tape.y[k]) / count;
        }
    }
    return sum;
}

/* dQ / da at mu(s) as differences, clipped. Returns how many were. */
static int clipped_slopes(ref_dpg *r, const ref_dpg_row *batch, int count, double *slopes)
{
    static ref_tape actor, critic;
    int clipped = 0;
    for (int b = 0; b < count; b++) {
        ref_forward(r->actor, 0, batch[b].obs, &actor);
        for (int k = 0; k < DPG_ACTIONS; k++) {
            const double at = actor.y[k];
            actor.y[k] = at + 1e-6;
            const double up = ref_dpg_q(r, 0, batch[b].obs, actor.y, &critic);
            actor.y[k] = at - 1e-6;
            const double slope = (up - ref_dpg_q(r, 0, batch[b].obs, actor.y, &critic)) / 2e-6;
            actor.y[k] = at;
            const int is_clipped = r->clip > 0 && fabs(slope) > r->clip;
            slopes[b * DPG_ACTIONS + k] = is_clipped ? copysign(r->clip, slope) : slope;
            clipped += is_clipped;
        }
    }
    return clipped;
}

/* `slopes` NULL: of a critic. */
static void check_slopes_of(gpur_learner *dpg, ref_dpg *r, const ref_net *net, const char *owner, ref_dpg_row *batch,
                            int count, const double *slopes)
{
    static float got[MAX_WEIGHTS];
    const int is_critic = !slopes;
    double q;
    for (int i = 0; i < net->tensors; i++) {
        const ref_tensor *const t = &net->tensor[i];
        char name[80];
        snprintf(name, sizeof name, "%s.%s", owner, t->name);
        CHECK_OK(gpur_learner_read_weights(dpg, GPUR_WEIGHTS_GRADIENT, name, got, t->count));
        for (int j = 0; j < t->count; j += 1 + t->count / 12) {
            const double at = t->w[j];
            t->w[j] = at + 1e-6;
            const double up = is_critic ? ref_dpg_critic_loss(r, batch, count, &q) : surrogate(r, batch, count, slopes);
            t->w[j] = at - 1e-6;
            const double down =
                is_critic ? ref_dpg_critic_loss(r, batch, count, &q) : surrogate(r, batch, count, slopes);
            t->w[j] = at;
            CHECK_NEAR(got[j], (up - down) / 2e-6, 1e-5);
        }
    }
}

/* By weights from before the step for the critic, and by the critic's from after it for the actor. */
static void check_differences(const training *t, int *clipped)
{
    const gpur_dpg_config c = config_of(t);
    static double slopes[MAX_BATCH * DPG_ACTIONS], noise[MAX_BATCH * DPG_ACTIONS];
    static float weights[MAX_BATCH];
    ref_dpg_row batch[MAX_BATCH];
    int64_t ids[MAX_BATCH];
    ref_dpg before, after;
    CHECK_OK(dpg_fixture_open(&fixture, device, 1));
    gpur_learner *const dpg = dpg_fixture_learner(&fixture, &c);
    CHECK(dpg);
    CHECK_OK(gpur_learner_train(dpg, 2)); /* priorities are then unequal, and so are weights; before any target copy */
    open_reference(&after, dpg, &c);
    CHECK_OK(
        gpur_learner_write_weights(dpg, GPUR_WEIGHTS_TARGET, "actor.action.out.bias", (float[]){0.1f, -0.2f, 0.3f}, 3));
    open_reference(&before, dpg, &c);
    for (int32_t i = 0; i < gpur_learner_weight_count(dpg); i++) {
        gpur_weight_info info = {.size = sizeof info};
        static float values[MAX_WEIGHTS];
        CHECK_OK(gpur_learner_get_weight_info(dpg, i, &info));
        CHECK_OK(gpur_learner_read_weights(dpg, GPUR_WEIGHTS_TARGET, info.name, values, info.count));
        for (int64_t j = 0; j < info.count; j++)
            tensor_of(&before, info.name)->target[j] = (double)values[j];
    }
    CHECK_OK(gpur_learner_train(dpg, 1));
    CHECK_OK(gpur_learner_sync(dpg));
    CHECK_OK(gpur_device_copy(device, ids, gpur_dpg_of(dpg)->step.batch.id, c.batch_size * 8));
    CHECK_OK(gpur_device_copy(device, weights, gpur_dpg_of(dpg)->step.batch.weight, c.batch_size * 4));
    for (int i = 0; i < (int)c.batch_size; i++) {
        batch[i] = reference_row(ids[i]);
        batch[i].weight = (double)weights[i];
        for (int k = 0; k < DPG_ACTIONS; k++)
            noise[i * DPG_ACTIONS + k] =
                ref_dpg_noise(c.seed, 3, (uint32_t)i, k, (double)c.target_noise, (double)c.target_noise_clip);
        batch[i].noise = noise + i * DPG_ACTIONS;
    }
    check_slopes_of(dpg, &before, before.critic, before.second ? "critic.1" : "critic", batch, (int)c.batch_size, NULL);
    if (before.second)
        check_slopes_of(dpg, &before, before.second, "critic.2", batch, (int)c.batch_size, NULL);
    close_reference(&after);
    open_reference(&after, dpg, &c);
    for (int i = 0; i < before.actor->tensors; i++) /* the actor's gradient is by its weights from before */
        memcpy(after.actor->tensor[i].w, before.actor->tensor[i].w,
               (size_t)before.actor->tensor[i].count * sizeof(double));
    *clipped = clipped_slopes(&after, batch, (int)c.batch_size, slopes);
    check_slopes_of(dpg, &after, after.actor, "actor", batch, (int)c.batch_size, slopes);
    close_reference(&before);
    close_reference(&after);
    gpur_learner_destroy(dpg);
    dpg_fixture_close(&fixture);
}

TEST(gradients_are_finite_differences_of_the_losses_and_action_gradients_are_clipped)
{
    int clipped = -1;
    check_differences(&(training){.prioritized = 1, .penalty = 0.1f}, &clipped);
    CHECK_EQUAL(clipped, 0);
    check_differences(&(training){.prioritized = 1, .clip = 0.05f}, &clipped); /* some of 24 x 3 */
    CHECK(clipped > 5 && clipped < 67);
    check_differences(&(training){.prioritized = 1, .clip = 1e-4f, .penalty = 0.01f}, &clipped); /* nearly all */
    CHECK(clipped > 67);
    check_differences(
        &(training){.prioritized = 1, .critics = 2, .delay = 3, .noise = 0.2f, .noise_clip = 0.3f, .penalty = 0.1f},
        &clipped);
    CHECK_EQUAL(clipped, 0);
}

/* Lanes. */

enum { LANES = 6, KEPT = 40, LANE_BATCH = 24, LANE_FIELDS = 6 };

/* Rows in host memory, with what a field has of a row. */
static struct {
    float obs[LANE_BATCH][DPG_FEATURES], action[LANE_BATCH][DPG_ACTIONS], reward[LANE_BATCH];
    float next_obs[LANE_BATCH][DPG_FEATURES];
    uint8_t terminated[LANE_BATCH], truncated[LANE_BATCH];
    float discount[LANE_BATCH], weight[LANE_BATCH];
    void *device[LANE_FIELDS + 1]; /* arrays of as many rows; the last one is of the discounts */
} lane;

static void *const lane_hosts[] = {lane.obs,        lane.action,    lane.reward,  lane.next_obs,
                                   lane.terminated, lane.truncated, lane.discount};
static const int64_t lane_bytes[] = {sizeof lane.obs,      sizeof lane.action,     sizeof lane.reward,
                                     sizeof lane.next_obs, sizeof lane.terminated, sizeof lane.truncated,
                                     sizeof lane.discount};

/* Where an episode ends, next_obs is its last observation. */
static void add_lane_step(gpur_replay *replay, int t)
{
    random_floats((uint64_t)t + 1, &lane.obs[0][0], LANES * DPG_FEATURES);
    random_floats((uint64_t)t + 1000, &lane.action[0][0], LANES * DPG_ACTIONS);
    random_floats((uint64_t)t + 2000, lane.reward, LANES);
    random_floats((uint64_t)t + 3000, &lane.next_obs[0][0], LANES * DPG_FEATURES);
    for (int i = 0; i < LANES; i++) {
        lane.terminated[i] = (t * 7 + i) % 11 == 0;
        lane.truncated[i] = (t * 5 + i) % 13 == 0;
    }
    for (int f = 0; f < LANE_FIELDS; f++)
        CHECK_OK(gpur_device_copy(device, lane.device[f], lane_hosts[f], lane_bytes[f] / LANE_BATCH * LANES));
    CHECK_OK(gpur_replay_add_lanes(replay, (const void *const *)lane.device, NULL));
}

/* The rows that the last train step was of, as the reference takes them. */
static void read_lane_rows(gpur_replay *replay, gpur_learner *dpg, const gpur_dpg_config *c, int step,
                           ref_dpg_row batch[LANE_BATCH], double noise[LANE_BATCH][DPG_ACTIONS])
{
    gpur_lane_draw draw;
    CHECK_OK(gpur_lane_draw_init(&draw, sizeof draw));
    draw.count = LANE_BATCH, draw.ids = gpur_dpg_of(dpg)->step.batch.id;
    draw.fields = lane.device, draw.discount = lane.device[LANE_FIELDS];
    CHECK_OK(gpur_replay_draw_lanes(replay, &draw, NULL));
    for (int f = 0; f <= LANE_FIELDS; f++)
        CHECK_OK(gpur_device_copy(device, lane_hosts[f], lane.device[f], lane_bytes[f]));
    CHECK_OK(gpur_device_copy(device, lane.weight, gpur_dpg_of(dpg)->step.batch.weight, sizeof lane.weight));
    for (int b = 0; b < LANE_BATCH; b++) {
        for (int k = 0; k < DPG_ACTIONS; k++)
            noise[b][k] =
                ref_dpg_noise(c->seed, step, (uint32_t)b, k, (double)c->target_noise, (double)c->target_noise_clip);
        batch[b] = (ref_dpg_row){lane.obs[b],
                                 lane.action[b],
                                 lane.next_obs[b],
                                 (double)lane.reward[b],
                                 (double)lane.discount[b],
                                 (double)lane.weight[b],
                                 0,
                                 noise[b]};
    }
}

static gpur_status open_lanes(gpur_replay **replay)
{
    static const gpur_field fields[LANE_FIELDS] = {
        {"obs", GPUR_FLOAT32, {DPG_FEATURES}}, {"action", GPUR_FLOAT32, {DPG_ACTIONS}},
        {"reward", GPUR_FLOAT32, {0}},         {"next_obs", GPUR_FLOAT32, {DPG_FEATURES}},
        {"terminated", GPUR_BOOL, {0}},        {"truncated", GPUR_BOOL, {0}},
    };
    gpur_replay_config config;
    GPUR_TRY(gpur_replay_config_init(&config, sizeof config));
    config.fields = fields, config.field_count = LANE_FIELDS;
    config.layout = GPUR_LAYOUT_LANES, config.lanes = LANES, config.capacity = LANES * KEPT;
    config.lane_autoreset = GPUR_AUTORESET_SAME_STEP;
    config.n_step = 3, config.gamma = 0.9f, config.max_batch = LANE_BATCH, config.prioritized = 1;
    for (int f = 0; f <= LANE_FIELDS; f++)
        GPUR_TRY(gpur_device_alloc(device, lane_bytes[f], &lane.device[f]));
    return gpur_replay_create(device, &config, replay);
}

/* With returns of three steps, by priority. */
TEST(steps_of_td3_on_lanes_agree_with_the_reference)
{
    static ref_dpg_row batch[LANE_BATCH];
    static double noise[LANE_BATCH][DPG_ACTIONS];
    const training t = {.critics = 2, .delay = 2, .noise = 0.2f, .noise_clip = 0.5f, .period = 1, .rate = 0.1f};
    const gpur_dpg_config c = config_of(&t);
    gpur_dqn_config critic = update_of(&c, &c.critic_optimizer), actor = update_of(&c, &c.actor_optimizer);
    gpur_priority_stats priorities = {.size = sizeof priorities};
    gpur_replay *replay = NULL;
    gpur_learner *td3 = NULL;
    ref_dpg r;
    double q;
    critic.target_period *= c.policy_delay;
    CHECK_OK(open_lanes(&replay));
    for (int i = 0; i < KEPT + 9; i++)
        add_lane_step(replay, i);
    CHECK_OK(gpur_dpg_create(replay, &c, &td3));
    open_reference(&r, td3, &c);
    for (int step = 1; step <= 10; step++) {
        CHECK_OK(gpur_learner_train(td3, 1));
        const gpur_learner_stats stats = learner_fixture_stats(td3);
        read_lane_rows(replay, td3, &c, step, batch, noise);
        const double loss = ref_dpg_critic_loss(&r, batch, LANE_BATCH, &q);
        (void)ref_dpg_update_critics(&r, &critic, step);
        CHECK_NEAR(stats.loss, loss, 1e-4 * loss + 1e-7);
        CHECK_NEAR(stats.mean_q, q, 1e-4 * (0.1 + fabs(q)));
        if (step % 2 == 0) {
            const double actor_loss = ref_dpg_actor_loss(&r, batch, LANE_BATCH, NULL);
            (void)ref_dqn_update(r.actor, &actor, step / 2);
            CHECK_NEAR(stats.policy_loss, actor_loss, 1e-4 * (0.1 + fabs(actor_loss)));
        }
        add_lane_step(replay, KEPT + 9 + step);
    }
    CHECK_OK(gpur_replay_get_priority_stats(replay, &priorities));
    CHECK_EQUAL(priorities.updates, 10 * LANE_BATCH);
    close_reference(&r);
    gpur_learner_destroy(td3);
    gpur_replay_destroy(replay);
    for (int f = 0; f <= LANE_FIELDS; f++)
        gpur_device_free(device, lane.device[f]);
}

/* Target copies, launches, policies. */

static int is_equal(gpur_learner *dpg, int32_t which, gpur_learner *other, int32_t other_which)
{
    static float x[MAX_WEIGHTS], y[MAX_WEIGHTS];
    const int64_t count = learner_fixture_weights(dpg, which, x, MAX_WEIGHTS);
    return count > 0 && learner_fixture_weights(other, other_which, y, MAX_WEIGHTS) == count &&
           memcmp(x, y, (size_t)count * sizeof *x) == 0;
}

/* Uniform numbers of the same range, once it is divided out: each layer's is 1 / sqrt(inputs). */
TEST(initial_weights_of_actor_and_critic_are_independent)
{
    float actor[9 * DPG_FEATURES], critic[11 * (DPG_FEATURES + DPG_ACTIONS)];
    const gpur_dpg_config c = dpg_fixture_config();
    int alike = 0;
    CHECK_OK(dpg_fixture_open(&fixture, device, 0));
    gpur_learner *const dpg = dpg_fixture_learner(&fixture, &c);
    CHECK(dpg);
    CHECK_OK(gpur_learner_read_weights(dpg, 0, "actor.trunk.0.weight", actor, sizeof actor / sizeof *actor));
    CHECK_OK(gpur_learner_read_weights(dpg, 0, "critic.trunk.0.weight", critic, sizeof critic / sizeof *critic));
    for (int i = 0; i < 9 * DPG_FEATURES; i++)
        alike +=
            fabs((double)actor[i] * sqrt(DPG_FEATURES) - (double)critic[i] * sqrt(DPG_FEATURES + DPG_ACTIONS)) < 1e-4;
    CHECK_EQUAL(alike, 0);
    gpur_learner_destroy(dpg);
    dpg_fixture_close(&fixture);
}

TEST(targets_of_both_networks_are_copied_every_period)
{
    static float first[MAX_WEIGHTS], target[MAX_WEIGHTS];
    const gpur_dpg_config c = dpg_fixture_config();
    CHECK_OK(dpg_fixture_open(&fixture, device, 0));
    gpur_learner *const dpg = dpg_fixture_learner(&fixture, &c);
    CHECK(dpg);
    CHECK(is_equal(dpg, GPUR_WEIGHTS_ONLINE, dpg, GPUR_WEIGHTS_TARGET));
    const int64_t count = learner_fixture_weights(dpg, GPUR_WEIGHTS_ONLINE, first, MAX_WEIGHTS);
    CHECK_OK(gpur_learner_train(dpg, c.target_period - 1));
    CHECK_EQUAL(learner_fixture_weights(dpg, GPUR_WEIGHTS_TARGET, target, MAX_WEIGHTS), count);
    CHECK(memcmp(first, target, (size_t)count * sizeof *first) == 0);
    CHECK(!is_equal(dpg, GPUR_WEIGHTS_ONLINE, dpg, GPUR_WEIGHTS_TARGET));
    CHECK_OK(gpur_learner_train(dpg, 1));
    CHECK(is_equal(dpg, GPUR_WEIGHTS_ONLINE, dpg, GPUR_WEIGHTS_TARGET));
    CHECK_OK(gpur_learner_train(dpg, 1));
    CHECK(!is_equal(dpg, GPUR_WEIGHTS_ONLINE, dpg, GPUR_WEIGHTS_TARGET));
    CHECK_EQUAL(learner_fixture_stats(dpg).target_copies, 1);
    gpur_learner_destroy(dpg);
    dpg_fixture_close(&fixture);
}

static gpur_dpg_config delayed_config(int32_t delay)
{
    gpur_dpg_config c = dpg_fixture_config();
    c.policy_delay = delay;
    c.critics = delay > 1 ? 2 : 1;
    c.target_noise = delay > 1 ? 0.2f : 0.0f;
    c.target_period = delay > 1 ? 2 : 4, c.target_rate = delay > 1 ? 0.1f : 1.0f;
    return c;
}

/* Also of more steps than a launch has. The calls are of 1 to 13 steps. */
TEST(how_steps_are_divided_into_calls_changes_no_bit)
{
    for (int32_t delay = 1; delay <= 9; delay += delay < 3 ? 1 : 3) {
        const gpur_dpg_config c = delayed_config(delay);
        const int64_t steps = GPUR_LAUNCH_STEPS + 14;
        uint64_t random = 3;
        CHECK_OK(dpg_fixture_open(&fixture, device, 0));
        gpur_learner *const once = dpg_fixture_learner(&fixture, &c);
        gpur_learner *const often = dpg_fixture_learner(&fixture, &c);
        CHECK(once && often);
        CHECK_OK(gpur_learner_train(once, steps));
        for (int64_t done = 0, next; done < steps; done += next) {
            next = (int64_t)xorshift_below(&random, 13) + 1;
            next = next < steps - done ? next : steps - done;
            CHECK_OK(gpur_learner_train(often, next));
        }
        CHECK(is_equal(once, GPUR_WEIGHTS_ONLINE, often, GPUR_WEIGHTS_ONLINE));
        CHECK(is_equal(once, GPUR_WEIGHTS_TARGET, often, GPUR_WEIGHTS_TARGET));
        CHECK(learner_fixture_stats(often).steps == steps);
        CHECK_EQUAL(learner_fixture_stats(often).target_copies, steps / (delay * c.target_period));
        gpur_learner_destroy(once);
        gpur_learner_destroy(often);
        dpg_fixture_close(&fixture);
    }
}

/* In the steps between, only the critics change; in the others all networks and all targets. */
TEST(a_delayed_actor_and_the_targets_change_in_every_third_step_alone)
{
    static float before[2][MAX_WEIGHTS], after[2][MAX_WEIGHTS];
    gpur_dpg_config c = delayed_config(3);
    c.target_period = 1;
    CHECK_OK(dpg_fixture_open(&fixture, device, 0));
    gpur_learner *const dpg = dpg_fixture_learner(&fixture, &c);
    CHECK(dpg);
    for (int step = 0; step <= 9; step++) {
        if (step > 0)
            CHECK_OK(gpur_learner_train(dpg, 1));
        const int64_t count = learner_fixture_weights(dpg, GPUR_WEIGHTS_ONLINE, after[0], MAX_WEIGHTS);
        CHECK_EQUAL(learner_fixture_weights(dpg, GPUR_WEIGHTS_TARGET, after[1], MAX_WEIGHTS), count);
        int64_t offset = 0;
        for (int32_t i = 0; i < gpur_learner_weight_count(dpg) && step > 0; i++) {
            gpur_weight_info info = {.size = sizeof info};
            CHECK_OK(gpur_learner_get_weight_info(dpg, i, &info));
            const size_t bytes = (size_t)info.count * sizeof(float);
            const int is_actor = strncmp(info.name, "actor.", 6) == 0;
            CHECK_EQUAL(memcmp(before[0] + offset, after[0] + offset, bytes) != 0, !is_actor || step % 3 == 0);
            CHECK_EQUAL(memcmp(before[1] + offset, after[1] + offset, bytes) != 0, step % 3 == 0);
            offset += info.count;
        }
        memcpy(before, after, sizeof before);
    }
    gpur_learner_destroy(dpg);
    dpg_fixture_close(&fixture);
}

/* The second training of the actor finds weights that were made too large by the first. */
TEST(the_step_that_spoils_a_delayed_actor_has_the_learners_number)
{
    gpur_dpg_config c = delayed_config(3);
    gpur_learner_stats stats = {.size = sizeof stats};
    c.target_period = 100;
    c.actor_optimizer.learning_rate = (gpur_schedule){.first = 3e38f, .last = 3e38f};
    CHECK_OK(dpg_fixture_open(&fixture, device, 0));
    gpur_learner *const dpg = dpg_fixture_learner(&fixture, &c);
    CHECK(dpg);
    CHECK_OK(gpur_learner_train(dpg, 9));
    CHECK_FAILS(gpur_learner_sync(dpg), GPUR_INVALID_ARGUMENT, "actor: the learner has diverged: after train step 6");
    CHECK_OK(gpur_learner_get_stats(dpg, &stats));
    CHECK(stats.diverged_at == 6 && stats.steps == 9);
    gpur_learner_destroy(dpg);
    dpg_fixture_close(&fixture);
}

TEST(the_settings_of_td3_are_those_of_the_paper)
{
    gpur_dpg_config c;
    CHECK_OK(gpur_td3_config_init(&c, sizeof c));
    CHECK(c.size == sizeof c && c.critics == 2 && c.policy_delay == 2 && c.batch_size == 100 && c.target_period == 1);
    CHECK(c.target_noise == 0.2f && c.target_noise_clip == 0.5f && c.target_rate == 0.005f);
    CHECK(c.action_gradient_clip == 0 && c.preactivation_penalty == 0);
    const gpur_network_config *const networks[] = {&c.actor, &c.critic};
    const gpur_optimizer_config *const optimizers[] = {&c.actor_optimizer, &c.critic_optimizer};
    for (int i = 0; i < 2; i++) {
        CHECK(networks[i]->trunk_count == 2 && networks[i]->hidden == 0 && networks[i]->init == GPUR_INIT_FAN_IN);
        CHECK(networks[i]->trunk[0].units == 400 && networks[i]->trunk[1].units == 300);
        CHECK(networks[i]->trunk[0].activation == GPUR_RELU && networks[i]->trunk[1].activation == GPUR_RELU);
        CHECK(optimizers[i]->kind == GPUR_ADAM && optimizers[i]->learning_rate.first == 1e-3f &&
              optimizers[i]->learning_rate.last == 1e-3f && optimizers[i]->clip_norm == 0);
    }
    CHECK_FAILS(gpur_td3_config_init(NULL, sizeof c), GPUR_INVALID_ARGUMENT, "gpur_dpg_config is NULL");
}

TEST(the_settings_of_fast_td3_are_those_of_its_code)
{
    static const int32_t units[] = {512, 256, 128};
    gpur_dpg_config c;
    CHECK_OK(gpur_fast_td3_config_init(&c, sizeof c));
    CHECK(c.size == sizeof c && c.critics == 2 && c.policy_delay == 2 && c.batch_size == 32768 && c.target_period == 1);
    CHECK(c.target_noise == 0.001f && c.target_noise_clip == 0.5f && c.target_rate == 0.1f);
    CHECK(c.action_gradient_clip == 0 && c.actor.trunk_count == 3 && c.critic.trunk_count == 3);
    for (int i = 0; i < 3; i++) {
        CHECK(c.actor.trunk[i].units == units[i] && c.critic.trunk[i].units == 2 * units[i]);
        CHECK(c.actor.trunk[i].activation == GPUR_RELU && c.critic.trunk[i].activation == GPUR_RELU);
        CHECK(c.actor.trunk[i].norm == 0 && c.critic.trunk[i].norm == 0);
    }
    CHECK(c.critic.head == GPUR_HEAD_CATEGORICAL && c.critic.atoms == 101);
    CHECK(c.critic.v_min == -250 && c.critic.v_max == 250);
    const gpur_optimizer_config *const optimizers[] = {&c.actor_optimizer, &c.critic_optimizer};
    for (int i = 0; i < 2; i++)
        CHECK(optimizers[i]->kind == GPUR_ADAM && optimizers[i]->learning_rate.first == 3e-4f &&
              optimizers[i]->learning_rate.last == 3e-4f && optimizers[i]->beta2 == 0.999f &&
              optimizers[i]->weight_decay == 0.1);
    CHECK_FAILS(gpur_fast_td3_config_init(NULL, sizeof c), GPUR_INVALID_ARGUMENT, "gpur_dpg_config is NULL");
}

/* mu(s) of all rows, without noise. */
static gpur_status act(gpur_policy *policy, float *vectors)
{
    static float obs[DPG_ROWS * DPG_FEATURES];
    for (int i = 0; i < DPG_ROWS; i++)
        memcpy(obs + i * DPG_FEATURES, rows[i].obs, sizeof rows[i].obs);
    const gpur_policy_input input = {.size = sizeof input, .count = DPG_ROWS, .obs = obs};
    const gpur_policy_output output = {.size = sizeof output, .action_vectors = vectors};
    return gpur_policy_act(policy, &input, &output);
}

TEST(a_policy_acts_by_the_actor_that_was_published)
{
    static float vectors[DPG_ROWS * DPG_ACTIONS], actor[MAX_WEIGHTS], weights[MAX_WEIGHTS];
    static ref_tape tape;
    const gpur_dpg_config c = dpg_fixture_config();
    CHECK_OK(dpg_fixture_open(&fixture, device, 0));
    gpur_learner *const dpg = dpg_fixture_learner(&fixture, &c);
    gpur_policy *const policy = dpg_fixture_policy(device, &c, 1);
    ref_dpg r;
    CHECK(dpg && policy);
    const int64_t bytes = gpur_policy_weights_bytes(policy);
    CHECK(bytes <= (int64_t)sizeof actor &&
          learner_fixture_weights(dpg, GPUR_WEIGHTS_ONLINE, weights, MAX_WEIGHTS) > 0);
    CHECK_OK(gpur_policy_get_weights(policy, actor, bytes));
    CHECK(memcmp((char *)actor + 64, weights, (size_t)bytes - 64) == 0); /* the initial weights of the seed */
    CHECK_OK(gpur_learner_train(dpg, 17));
    CHECK_OK(gpur_policy_pull(policy, dpg, GPUR_WEIGHTS_ONLINE));
    CHECK_EQUAL(gpur_policy_version(policy), 17);
    CHECK_OK(act(policy, vectors));
    open_reference(&r, dpg, &c);
    for (int i = 0; i < DPG_ROWS; i++) {
        ref_forward(r.actor, 0, rows[i].obs, &tape);
        for (int k = 0; k < DPG_ACTIONS; k++)
            CHECK_NEAR(vectors[i * DPG_ACTIONS + k], tape.y[k], 3e-6);
    }
    close_reference(&r);
    gpur_policy_destroy(policy);
    gpur_learner_destroy(dpg);
    dpg_fixture_close(&fixture);
}

/* Files. */

static void check_load_refused(gpur_dpg_config c, const char *path, const char *message)
{
    static float before[MAX_WEIGHTS], after[MAX_WEIGHTS];
    gpur_learner *const dpg = dpg_fixture_learner(&fixture, &c);
    CHECK(dpg);
    const int64_t count = learner_fixture_weights(dpg, GPUR_WEIGHTS_ONLINE, before, MAX_WEIGHTS);
    CHECK_FAILS(gpur_learner_load(dpg, path, NULL), GPUR_INVALID_ARGUMENT, message);
    CHECK_EQUAL(learner_fixture_weights(dpg, GPUR_WEIGHTS_ONLINE, after, MAX_WEIGHTS), count);
    CHECK(memcmp(before, after, (size_t)count * sizeof *before) == 0);
    gpur_learner_destroy(dpg);
}

/* Its observations are those of the replay, and the action behind them. */
TEST(a_policy_values_by_the_critic_that_was_published)
{
    static ref_tape tape;
    const gpur_dpg_config c = dpg_fixture_config();
    gpur_policy_config critic;
    gpur_policy *policy = NULL;
    ref_dpg r;
    CHECK_OK(dpg_fixture_open(&fixture, device, 0));
    gpur_learner *const dpg = dpg_fixture_learner(&fixture, &c);
    CHECK(dpg != NULL);
    CHECK_OK(gpur_policy_config_init(&critic, sizeof critic));
    critic.network = c.critic;
    critic.obs = (gpur_field){"obs", GPUR_FLOAT32, {DPG_FEATURES + DPG_ACTIONS}};
    CHECK_OK(gpur_policy_create(device, &critic, &policy));
    CHECK_OK(gpur_learner_train(dpg, 17));
    CHECK_OK(gpur_policy_pull(policy, dpg, GPUR_WEIGHTS_ONLINE));
    CHECK_EQUAL(gpur_policy_version(policy), 17);
    open_reference(&r, dpg, &c);
    for (int i = 0; i < DPG_ROWS; i++) {
        float pair[DPG_FEATURES + DPG_ACTIONS], q = 0;
        memcpy(pair, rows[i].obs, sizeof rows[i].obs);
        memcpy(pair + DPG_FEATURES, rows[i].action, sizeof rows[i].action);
        const gpur_policy_input input = {.size = sizeof input, .count = 1, .obs = pair};
        const gpur_policy_output output = {.size = sizeof output, .q = &q};
        CHECK_OK(gpur_policy_act(policy, &input, &output));
        ref_forward(r.critic, 0, pair, &tape);
        CHECK_NEAR(q, tape.y[0], 1e-5);
    }
    close_reference(&r);
    gpur_policy_destroy(policy);
    gpur_learner_destroy(dpg);
    dpg_fixture_close(&fixture);
}

/* Files of a delayed learner: from any step on, in calls of several steps, and after steps that found nothing to draw.
 * */
TEST(a_delayed_actor_goes_on_from_a_file_with_the_same_bits)
{
    const char *const path = test_file_path("td3.safetensors");
    const gpur_dpg_config c = delayed_config(3), other = delayed_config(2);
    static comparison empty;
    CHECK_OK(dpg_fixture_open(&fixture, device, 0));
    for (int64_t first = 0; first < 8; first++) {
        gpur_learner *const saved = dpg_fixture_learner(&fixture, &c), *const loaded =
                                                                           dpg_fixture_learner(&fixture, &c);
        CHECK(saved && loaded);
        CHECK_OK(gpur_learner_train(saved, first));
        empty.dpg = saved;
        CHECK_OK(set_window(&empty, 0));
        CHECK_OK(gpur_learner_train(saved, first % 4));
        CHECK_OK(set_window(&empty, DPG_ROWS));
        CHECK_OK(gpur_learner_sync(saved));
        CHECK_OK(gpur_learner_save(saved, path, NULL));
        CHECK_OK(gpur_learner_load(loaded, path, NULL));
        CHECK_EQUAL(learner_fixture_stats(loaded).steps_enqueued, first + first % 4);
        CHECK_OK(gpur_learner_train(saved, 7));
        CHECK_OK(gpur_learner_train(loaded, 2));
        CHECK_OK(gpur_learner_train(loaded, 5));
        for (int32_t which = GPUR_WEIGHTS_ONLINE; which <= GPUR_WEIGHTS_GRADIENT; which++)
            CHECK(is_equal(saved, which, loaded, which));
        const gpur_learner_stats a = learner_fixture_stats(saved), b = learner_fixture_stats(loaded);
        CHECK(a.steps == first + 7 && b.steps == a.steps && a.skipped == first % 4 && b.skipped == a.skipped);
        CHECK(a.target_copies == b.target_copies && a.policy_learning_rate == b.policy_learning_rate);
        gpur_learner_destroy(saved);
        gpur_learner_destroy(loaded);
    }
    check_load_refused(other, path, "policy_delay is \"3\" in the file; this learner has \"2\"");
    dpg_fixture_close(&fixture);
    test_remove_folder();
}

/* test_learner_family.c has files that fit. */
TEST(files_of_other_networks_are_refused)
{
    const char *const path = test_file_path("dpg.safetensors");
    const gpur_dpg_config good = dpg_fixture_config();
    gpur_dpg_config c;
    CHECK_OK(dpg_fixture_open(&fixture, device, 0));
    gpur_learner *const saved = dpg_fixture_learner(&fixture, &good);
    CHECK_OK(gpur_learner_save(saved, path, NULL));
    gpur_learner_destroy(saved);
    c = good, c.critic.trunk[1].activation = GPUR_RELU, check_load_refused(c, path, "critic.layer.1");
    c = good, c.actor.trunk[0].activation = GPUR_RELU, check_load_refused(c, path, "layer.0");
    c = good, c.critic.trunk[0].units = 12, check_load_refused(c, path, "critic.layer.0");
    c = good, c.critic_optimizer.kind = GPUR_ADAM_TF, check_load_refused(c, path, "critic.optimizer");
    dpg_fixture_close(&fixture);
    test_remove_folder();
}

/* Threads. */

enum { THREADS = 4, ROUNDS = 30 };

static struct {
    gpur_learner *dpg;
    gpur_policy *policy;
    atomic_int is_done;
} shared;

/* Publishes, acts, and reads statistics and weights, all while another thread trains. */
static void *use(void *argument)
{
    static _Thread_local float vectors[DPG_ROWS * DPG_ACTIONS], bias[DPG_ACTIONS];
    gpur_status *const status = argument;
    int64_t version = 0;
    while (*status == GPUR_OK && !atomic_load(&shared.is_done)) {
        float obs[DPG_FEATURES] = {0}, sigma = 0.1f;
        gpur_learner_stats stats = {.size = sizeof stats};
        const gpur_policy_input input = {.size = sizeof input, .count = 1, .obs = obs, .sigma = &sigma};
        const gpur_policy_output output = {.size = sizeof output, .action_vectors = vectors, .version = &version};
        *status = gpur_policy_pull(shared.policy, shared.dpg, GPUR_WEIGHTS_ONLINE);
        if (*status == GPUR_OK)
            *status = gpur_policy_act(shared.policy, &input, &output);
        if (*status == GPUR_OK)
            *status = gpur_learner_get_stats(shared.dpg, &stats);
        if (*status == GPUR_OK)
            *status =
                gpur_learner_read_weights(shared.dpg, GPUR_WEIGHTS_TARGET, "actor.action.out.bias", bias, DPG_ACTIONS);
    }
    return NULL;
}

TEST(threads_publish_act_and_read_while_one_trains)
{
    const gpur_dpg_config c = dpg_fixture_config();
    gpur_status statuses[THREADS];
    pthread_t threads[THREADS];
    CHECK_OK(dpg_fixture_open(&fixture, device, 1));
    shared.dpg = dpg_fixture_learner(&fixture, &c);
    shared.policy = dpg_fixture_policy(device, &c, 2);
    atomic_store(&shared.is_done, 0);
    CHECK(shared.dpg && shared.policy);
    for (int i = 0; i < THREADS; i++) {
        statuses[i] = GPUR_OK;
        CHECK(pthread_create(&threads[i], NULL, use, &statuses[i]) == 0);
    }
    gpur_status trained = GPUR_OK;
    for (int i = 0; i < ROUNDS && trained == GPUR_OK; i++)
        trained = gpur_learner_train(shared.dpg, 5);
    atomic_store(&shared.is_done, 1);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        CHECK_OK(statuses[i]);
    }
    CHECK_OK(trained);
    CHECK_EQUAL(learner_fixture_stats(shared.dpg).steps, 5 * ROUNDS);
    CHECK_OK(gpur_policy_pull(shared.policy, shared.dpg, GPUR_WEIGHTS_ONLINE));
    CHECK_EQUAL(gpur_policy_version(shared.policy), 5 * ROUNDS);
    gpur_policy_destroy(shared.policy);
    gpur_learner_destroy(shared.dpg);
    dpg_fixture_close(&fixture);
}

/* A task: the reward is -|a - f(s)|^2, and each episode has one step. */

enum { TASK_ROWS = 4096, TASK_FEATURES = 2 };

typedef struct task_row {
    float obs[TASK_FEATURES], action[2], reward, next_obs[TASK_FEATURES];
    uint8_t terminated, padding[3];
} task_row;

static double best_action(const float *obs, int k)
{
    return k == 0 ? 0.6 * (double)obs[0] : 0.4 * (double)obs[1] * (double)obs[0] - 0.2;
}

static gpur_status fill_task(gpur_writer *writer)
{
    static task_row task[TASK_ROWS];
    for (int i = 0; i < TASK_ROWS; i++) {
        random_floats((uint64_t)i + 50, task[i].obs, TASK_FEATURES);
        random_floats((uint64_t)i + 9000, task[i].action, 2);
        for (int k = 0; k < 2; k++)
            task[i].reward -= (float)pow((double)task[i].action[k] - best_action(task[i].obs, k), 2);
        task[i].terminated = 1;
    }
    return gpur_writer_append(writer, TASK_ROWS, task, NULL);
}

/* Mean of |mu(s) - f(s)|^2. */
static double regret_of(gpur_policy *policy)
{
    enum { COUNT = 64 };
    float obs[COUNT * TASK_FEATURES], vectors[COUNT * 2];
    const gpur_policy_input input = {.size = sizeof input, .count = COUNT, .obs = obs};
    const gpur_policy_output output = {.size = sizeof output, .action_vectors = vectors};
    double sum = 0;
    random_floats(3, obs, COUNT * TASK_FEATURES);
    if (gpur_policy_act(policy, &input, &output) != GPUR_OK)
        return INFINITY;
    for (int i = 0; i < COUNT * 2; i++)
        sum += pow((double)vectors[i] - best_action(obs + i / 2 * TASK_FEATURES, i % 2), 2);
    return sum / COUNT;
}

TEST(an_actor_learns_the_best_actions_of_a_task)
{
    static const gpur_field fields[] = {{"obs", GPUR_FLOAT32, {TASK_FEATURES}},
                                        {"action", GPUR_FLOAT32, {2}},
                                        {"reward", GPUR_FLOAT32, {0}},
                                        {"next_obs", GPUR_FLOAT32, {TASK_FEATURES}},
                                        {"terminated", GPUR_BOOL, {0}}};
    gpur_replay_config replay;
    gpur_policy_config acting;
    gpur_dpg_config c = dpg_fixture_config();
    dpg_fixture f = {NULL, NULL};
    gpur_learner *dpg = NULL;
    gpur_policy *policy = NULL;
    CHECK_OK(gpur_replay_config_init(&replay, sizeof replay));
    replay.capacity = TASK_ROWS, replay.fields = fields, replay.field_count = 5, replay.prioritized = 1;
    CHECK_OK(gpur_replay_create(device, &replay, &f.replay));
    CHECK_OK(gpur_writer_create(f.replay, 1, &f.writer));
    CHECK_OK(fill_task(f.writer));
    c.actor = network_fixture_config(32, 32, GPUR_TANH, GPUR_HEAD_TANH_ACTION, 0, 2);
    c.critic = network_fixture_config(64, 32, GPUR_TANH, GPUR_HEAD_Q, 0, 1);
    c.batch_size = 64, c.target_period = 100;
    CHECK_OK(gpur_dpg_create(f.replay, &c, &dpg));
    CHECK_OK(gpur_policy_config_init(&acting, sizeof acting));
    acting.network = c.actor, acting.obs = (gpur_field){"obs", GPUR_FLOAT32, {TASK_FEATURES}}, acting.seed = c.seed;
    CHECK_OK(gpur_policy_create(device, &acting, &policy));
    const double before = regret_of(policy);
    CHECK_OK(gpur_learner_train(dpg, 2000));
    CHECK_OK(gpur_policy_pull(policy, dpg, GPUR_WEIGHTS_ONLINE));
    const double after = regret_of(policy);
    TEST_REQUIRE(before > 0.1 && after < 0.02, "the regret was %g and is %g", before, after);
    gpur_policy_destroy(policy);
    gpur_learner_destroy(dpg);
    dpg_fixture_close(&f);
}

/* Refusals. tests/base/test_settings.c has the numeric settings. */

static void check_refused(const gpur_dpg_config *c, const char *message)
{
    gpur_learner *dpg = (gpur_learner *)(void *)&fixture; /* must become NULL */
    CHECK_FAILS(gpur_dpg_create(fixture.replay, c, &dpg), GPUR_INVALID_ARGUMENT, message);
    CHECK(!dpg);
}

TEST(settings_that_do_not_fit_are_refused_with_the_reason)
{
    const gpur_dpg_config good = dpg_fixture_config();
    gpur_dpg_config c;
    CHECK_OK(dpg_fixture_open(&fixture, device, 0));
    const int64_t used = test_memory_used(device);
    check_refused(NULL, "gpur_dpg_config is NULL");
    c = good, c.size = 4, check_refused(&c, "was the struct initialized?");
    c = good, c.actor.num_actions = 0, check_refused(&c, "actor: network.num_actions is 0; it must be the size");
    c = good, c.actor.num_actions = 4;
    check_refused(&c, "field \"action\" has 3 numbers, and the network's num_actions is 4; they must be equal");
    c = good, c.critic.num_actions = 3, check_refused(&c, "critic: network.num_actions is 3; it must be 1");
    c = good, c.actor.head = GPUR_HEAD_Q,
    check_refused(&c, "actor: network.head is 0; it must be GPUR_HEAD_TANH_ACTION");
    c = good, c.critic.head = GPUR_HEAD_DUELING, check_refused(&c, "critic: network.head is 1; it must be GPUR_HEAD_Q");
    c = good, c.actor.trunk[0] = (gpur_layer){.kind = GPUR_CONV, .units = 4, .kernel = 2, .stride = 1};
    check_refused(&c, "actor: network.trunk[0] is a convolution (GPUR_CONV); deterministic policy gradients need");
    c = good, c.critic.input_scale = 0.5f, check_refused(&c, "critic: network.input_scale is 0.5; it must be 1");
    c = good, c.actor.input_shift = 0.5f, check_refused(&c, "actor: network.input_shift is 0.5; it must be 0");
    c = good, c.index_source = GPUR_PRIORITIZED_STRATIFIED, check_refused(&c, "the replay's prioritized is 0");
    c = good, c.preactivation_penalty = -1, check_refused(&c, "preactivation_penalty is -1; it must be 0 or more");
    CHECK_FAILS(gpur_dpg_create(NULL, &good, (gpur_learner *[1]){NULL}), GPUR_INVALID_ARGUMENT, "replay is NULL");
    CHECK_FAILS(gpur_dpg_create(fixture.replay, &good, NULL), GPUR_INVALID_ARGUMENT, "learner, which gets the handle");
    CHECK_FAILS(gpur_dpg_config_init(NULL, sizeof c), GPUR_INVALID_ARGUMENT, "gpur_dpg_config is NULL");
    CHECK_EQUAL(test_memory_used(device), used);
    gpur_learner_destroy(NULL);
    dpg_fixture_close(&fixture);
}

static void check_schema_refused(const gpur_field *changed, const char *message)
{
    gpur_field fields[] = {{"obs", GPUR_FLOAT32, {DPG_FEATURES}},
                           {"action", GPUR_FLOAT32, {DPG_ACTIONS}},
                           {"reward", GPUR_FLOAT32, {0}},
                           {"next_obs", GPUR_FLOAT32, {DPG_FEATURES}},
                           {"terminated", GPUR_BOOL, {0}}};
    const gpur_dpg_config c = dpg_fixture_config();
    gpur_replay_config config;
    CHECK_OK(gpur_replay_config_init(&config, sizeof config));
    for (int i = 0; i < 5; i++)
        if (strstr(fields[i].name, changed->name)) {
            const char *const name = fields[i].name;
            fields[i] = *changed, fields[i].name = name;
        }
    config.capacity = 1000, config.fields = fields, config.field_count = 5;
    CHECK_OK(gpur_replay_create(device, &config, &fixture.replay));
    check_refused(&c, message);
    gpur_replay_destroy(fixture.replay);
}

TEST(schemas_that_do_not_fit_are_refused_with_the_reason)
{
    check_schema_refused(&(gpur_field){"action", GPUR_INT32, {0}},
                         "field \"action\" is int32; a learner needs float32");
    check_schema_refused(&(gpur_field){"action", GPUR_FLOAT32, {2}}, "field \"action\" has 2 numbers");
    check_schema_refused(&(gpur_field){"obs", GPUR_UINT8, {DPG_FEATURES}},
                         "field \"obs\" is uint8; deterministic policy gradients need float32");
    check_schema_refused(&(gpur_field){"reward", GPUR_INT32, {0}},
                         "field \"reward\" is int32; a learner needs float32");
}

TEST(bad_calls_are_refused_and_change_nothing)
{
    static float before[MAX_WEIGHTS], after[MAX_WEIGHTS];
    gpur_dpg_config c = dpg_fixture_config();
    float bias[DPG_ACTIONS] = {0};
    CHECK_OK(dpg_fixture_open(&fixture, device, 0));
    gpur_learner *const dpg = dpg_fixture_learner(&fixture, &c);
    CHECK(dpg);
    const int64_t count = learner_fixture_weights(dpg, GPUR_WEIGHTS_ONLINE, before, MAX_WEIGHTS);
    CHECK_FAILS(gpur_learner_read_weights(dpg, 0, "critic.action.out.bias", bias, 3), GPUR_INVALID_ARGUMENT,
                "critic: no weights are named \"action.out.bias\"; there are trunk.0.weight");
    CHECK_FAILS(gpur_learner_read_weights(dpg, 0, "critic.q.out.bias", bias, 3), GPUR_INVALID_ARGUMENT,
                "count is 3; \"critic.q.out.bias\" has 1");
    c.actor.trunk[0].units = 10;
    gpur_policy *const policy = dpg_fixture_policy(device, &c, 1);
    CHECK_FAILS(gpur_policy_pull(policy, dpg, GPUR_WEIGHTS_ONLINE), GPUR_INVALID_ARGUMENT,
                "\"trunk.0.weight\" (9, 5), of this policy");
    CHECK_FAILS(gpur_policy_pull(NULL, dpg, GPUR_WEIGHTS_ONLINE), GPUR_INVALID_ARGUMENT,
                "policy and learner must not be NULL");
    CHECK_EQUAL(learner_fixture_weights(dpg, GPUR_WEIGHTS_ONLINE, after, MAX_WEIGHTS), count);
    CHECK(memcmp(before, after, (size_t)count * sizeof *before) == 0);
    CHECK_EQUAL(learner_fixture_stats(dpg).steps_enqueued, 0);
    gpur_policy_destroy(policy);
    gpur_learner_destroy(dpg);
    dpg_fixture_close(&fixture);
}

/* Of 40 rows one has an action outside, which nobody sees as it comes, as of arrays in a GPU's memory. */
static void train_on_arrays(float outside, float *weights, int64_t *drawn)
{
    enum { ROWS = 40 };
    static float obs[ROWS][DPG_FEATURES], action[ROWS][DPG_ACTIONS], reward[ROWS], discount[ROWS];
    static uint8_t terminated[ROWS];
    const void *const fields[] = {obs, action, reward, obs, discount, terminated};
    const gpur_dpg_config c = dpg_fixture_config();
    for (int i = 0; i < ROWS; i++) {
        memcpy(obs[i], rows[i].obs, sizeof obs[i]);
        memcpy(action[i], rows[i].action, sizeof action[i]);
        reward[i] = rows[i].reward;
    }
    action[ROWS - 1][DPG_ACTIONS - 1] = outside;
    CHECK_OK(dpg_fixture_open_empty(&fixture, device, 0));
    gpur_learner *const dpg = dpg_fixture_learner(&fixture, &c);
    CHECK(dpg);
    atomic_store(&fixture.replay->actions, 0);
    CHECK_OK(gpur_writer_append_fields(fixture.writer, ROWS, fields, NULL, NULL));
    CHECK_OK(gpur_learner_train(dpg, 30));
    const gpur_learner_stats stats = learner_fixture_stats(dpg);
    CHECK(stats.steps == 30 && stats.diverged_at == 0);
    CHECK(learner_fixture_weights(dpg, GPUR_WEIGHTS_ONLINE, weights, MAX_WEIGHTS) > 0);
    CHECK_OK(gpur_learner_save(dpg, test_file_path("dpg.safetensors"), NULL));
    CHECK_OK(gpur_learner_load(dpg, test_file_path("dpg.safetensors"), NULL));
    CHECK(learner_fixture_stats(dpg).steps == 30 && learner_fixture_stats(dpg).invalid_actions == 0);
    test_remove_folder();
    gpur_learner *again = NULL; /* what is in the ring is looked at, however it came */
    CHECK_EQUAL(gpur_dpg_create(fixture.replay, &c, &again), fabsf(outside) > 1.0f ? GPUR_INVALID_ARGUMENT : GPUR_OK);
    gpur_learner_destroy(again);
    gpur_learner_destroy(dpg);
    dpg_fixture_close(&fixture);
    *drawn = stats.invalid_actions;
}

TEST(actions_that_no_actor_gives_are_counted_and_not_trained_on)
{
    static float one[MAX_WEIGHTS], other[MAX_WEIGHTS];
    int64_t none = -1, drawn = 0, as_often = 0;
    train_on_arrays(1.0f, one, &none);
    train_on_arrays(1.5f, one, &drawn);
    train_on_arrays(-7.0f, other, &as_often);
    TEST_REQUIRE(none == 0 && drawn > 5 && drawn < 60 && as_often == drawn, "%lld, %lld and %lld of 24 x 30 rows",
                 (long long)none, (long long)drawn, (long long)as_often);
    CHECK(memcmp(one, other, sizeof one) == 0);
}

TEST(memory_is_counted_and_returned)
{
    const gpur_dpg_config c = dpg_fixture_config();
    CHECK_OK(dpg_fixture_open(&fixture, device, 1));
    const int64_t before = test_memory_used(device);
    gpur_learner *const dpg = dpg_fixture_learner(&fixture, &c);
    CHECK(dpg);
    CHECK_EQUAL(learner_fixture_stats(dpg).device_bytes, test_memory_used(device) - before);
    CHECK(learner_fixture_stats(dpg).pinned_bytes > 0);
    gpur_learner_destroy(dpg);
    CHECK_EQUAL(test_memory_used(device), before);
    dpg_fixture_close(&fixture);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
    for (int i = 0; i < DPG_ROWS; i++)
        rows[i] = dpg_fixture_row(i);
    RUN(train_steps_agree_with_the_reference);
    RUN(tensor_cores_compute_nearly_the_same_and_the_cpu_the_same);
    if (!IN_RACE_CHECK) {
        RUN(gradients_are_finite_differences_of_the_losses_and_action_gradients_are_clipped);
        RUN(steps_of_td3_on_lanes_agree_with_the_reference);
        RUN(initial_weights_of_actor_and_critic_are_independent);
        RUN(targets_of_both_networks_are_copied_every_period);
        RUN(how_steps_are_divided_into_calls_changes_no_bit);
        RUN(a_delayed_actor_and_the_targets_change_in_every_third_step_alone);
        RUN(a_delayed_actor_goes_on_from_a_file_with_the_same_bits);
        RUN(the_step_that_spoils_a_delayed_actor_has_the_learners_number);
        RUN(the_settings_of_td3_are_those_of_the_paper);
        RUN(the_settings_of_fast_td3_are_those_of_its_code);
        RUN(a_policy_acts_by_the_actor_that_was_published);
        RUN(a_policy_values_by_the_critic_that_was_published);
        RUN(files_of_other_networks_are_refused);
        RUN(threads_publish_act_and_read_while_one_trains);
        RUN(an_actor_learns_the_best_actions_of_a_task);
        RUN(settings_that_do_not_fit_are_refused_with_the_reason);
        RUN(schemas_that_do_not_fit_are_refused_with_the_reason);
        RUN(bad_calls_are_refused_and_change_nothing);
        RUN(actions_that_no_actor_gives_are_counted_and_not_trained_on);
        RUN(memory_is_counted_and_returned);
    }
    gpur_device_close(device);
    return test_main_end();
}
