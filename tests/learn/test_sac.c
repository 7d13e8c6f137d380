/* SPDX-License-Identifier: MIT */
/* Learners of soft actor-critic: whole train steps against a reference in double, finite differences of all losses,
 * temperatures, policies, files, a small task, and refusals. */
#include "learn/sac/sac.h"
#include "reference/reference_priority.h"
#include "reference/reference_replay.h"
#include "reference/reference_sac.h"
#include "replay/replay.h"
#include "replay/sampler/consumer.h"
#include "support/dpg_fixture.h"
#include "support/file_utils.h"
#include "support/learner_fixture.h"
#include "test.h"

enum { MAX_WEIGHTS = 8192, MAX_BATCH = DPG_ROWS, UNIFORM = 5, BY_PRIORITY = 8 };

static gpur_device *device;
static dpg_fixture fixture;
static dpg_row rows[DPG_ROWS];

/* A case of the comparison. A setting of 0 is the one of config_of. */
typedef struct training {
    int steps, prioritized;
    int32_t source, critics, fixed;
    int batch, activation, hidden;
    float temperature, rate;
    int32_t head, atoms;   /* of critics of distributions */
    int64_t period, empty; /* empty above 0: before every such step the window is empty for 3 steps */
} training;

static gpur_sac_config config_of(const training *t)
{
    gpur_sac_config c;
    (void)gpur_sac_config_init(&c, sizeof c);
    c.actor = network_fixture_config(9, 7, GPUR_TANH, GPUR_HEAD_SQUASHED_GAUSSIAN, t->hidden, DPG_ACTIONS);
    c.critic = network_fixture_config(11, 6, GPUR_TANH, GPUR_HEAD_Q, t->hidden, 1);
    for (int i = 0; i < 2 && t->activation; i++)
        c.actor.trunk[i].activation = c.critic.trunk[i].activation = t->activation;
    if (t->head)
        c.critic.head = t->head, c.critic.atoms = t->atoms;
    if (t->head == GPUR_HEAD_CATEGORICAL)
        c.critic.v_min = -3.0f, c.critic.v_max = 2.0f;
    c.actor.trunk_count = c.critic.trunk_count = t->hidden ? 1 : 2;
    c.actor_optimizer.learning_rate = (gpur_schedule){.first = 3e-3f, .last = 1e-3f, .begin = 2, .steps = 9};
    c.critic_optimizer.learning_rate.first = c.critic_optimizer.learning_rate.last = 5e-3f;
    c.temperature_optimizer.learning_rate.first = c.temperature_optimizer.learning_rate.last = 1e-2f;
    c.beta = (gpur_schedule){.first = 0.4f, .last = 1.0f, .begin = 5, .steps = 20};
    c.batch_size = t->batch ? t->batch : 24;
    c.index_source = t->source;
    c.critics = t->critics ? t->critics : 2;
    c.fixed_temperature = t->fixed;
    c.temperature = t->temperature > 0 ? t->temperature : 0.5f;
    c.target_rate = t->rate > 0 ? t->rate : 0.1f;
    c.target_period = t->period ? t->period : 1;
    c.seed = 6;
    return c;
}

static gpur_learner *learner_of(const gpur_sac_config *config)
{
    gpur_learner *sac = NULL;
    if (gpur_sac_create(fixture.replay, config, &sac) != GPUR_OK)
        fprintf(stderr, "gpur_sac_create: %s\n", gpur_last_error());
    return sac;
}

/* The reference. */

typedef struct comparison {
    const training *t;
    gpur_sac_config config;
    gpur_learner *sac;
    ref_sac reference;
    double m, v, u;                /* slots of the optimizer of log alpha */
    gpur_dqn_config actor, critic; /* for ref_dqn_update: optimizer and target copies */
    int step;
    int64_t skipped;
    int64_t ids[MAX_BATCH];
    ref_sac_row batch[MAX_BATCH];
    double leaves[DPG_ROWS];
} comparison;

/* NULL: it is log alpha. */
static ref_tensor *tensor_of(ref_sac *r, const char *name)
{
    if (strcmp(name, "temperature.log_alpha") == 0)
        return NULL;
    ref_tensor *const tensor = strncmp(name, "actor.", 6) == 0 ? ref_net_find(r->actor, name + 6)
                               : r->critics == 1               ? ref_net_find(r->critic[0], name + 7)
                                                               : ref_net_find(r->critic[name[7] - '1'], name + 9);
    if (!tensor)
        exit(1);
    return tensor;
}

static gpur_weight_info info_of(gpur_learner *sac, int32_t i)
{
    gpur_weight_info info = {.size = sizeof info};
    (void)gpur_learner_get_weight_info(sac, i, &info);
    return info;
}

/* With the learner's present weights, which are also its targets. */
static void open_reference(comparison *c)
{
    static float values[MAX_WEIGHTS];
    ref_sac *const r = &c->reference;
    r->critics = c->config.critics;
    r->actor = ref_net_create(&c->config.actor, DPG_FEATURES);
    for (int i = 0; i < r->critics; i++)
        r->critic[i] = ref_net_create(&c->config.critic, DPG_FEATURES + DPG_ACTIONS);
    r->target_entropy = (double)c->config.target_entropy * DPG_ACTIONS;
    CHECK_EQUAL(gpur_learner_weight_count(c->sac), r->actor->tensors + r->critics * r->critic[0]->tensors + 1);
    for (int32_t i = 0; i < gpur_learner_weight_count(c->sac); i++) {
        const gpur_weight_info info = info_of(c->sac, i);
        ref_tensor *const t = tensor_of(r, info.name);
        CHECK_OK(gpur_learner_read_weights(c->sac, GPUR_WEIGHTS_ONLINE, info.name, values, info.count));
        if (!t) {
            CHECK(info.count == 1 && info.dims == 1);
            CHECK_NEAR(values[0], log((double)c->config.temperature), 1e-6);
            r->log_alpha = (double)values[0];
            continue;
        }
        CHECK_EQUAL(info.count, t->count);
        for (int j = 0; j < t->count; j++)
            t->w[j] = t->target[j] = (double)values[j];
        ref_optimizer_begin(&c->config.actor_optimizer, t->count, t->m, t->v, t->u);
    }
    ref_optimizer_begin(&c->config.temperature_optimizer, 1, &c->m, &c->v, &c->u);
}

static void close_reference(ref_sac *r)
{
    ref_net_destroy(r->actor);
    for (int i = 0; i < r->critics; i++)
        ref_net_destroy(r->critic[i]);
}

static ref_sac_row reference_row(int64_t id)
{
    const dpg_row *const row = &rows[id];
    return (ref_sac_row){row->obs, row->action, row->next_obs, (double)row->reward, (double)row->discount, .weight = 1};
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

/* The rows of the step are those of the reference, with their importance weights and the numbers that are drawn. */
static void take_batch(comparison *c)
{
    const int batch = (int)c->config.batch_size;
    double weights[MAX_BATCH];
    CHECK_OK(gpur_device_copy(device, c->ids, gpur_sac_of(c->sac)->step.batch.id, batch * 8));
    for (int i = 0; i < batch; i++) {
        CHECK_EQUAL(c->ids[i], c->t->prioritized
                                   ? reference_sample_by_priority(c->leaves, DPG_ROWS, c->config.seed, BY_PRIORITY,
                                                                  (uint64_t)c->step - 1, i, batch, 1)
                                   : uniform_id(c, i));
        c->batch[i] = reference_row(c->ids[i]);
        for (int k = 0; k < DPG_ACTIONS; k++) {
            c->batch[i].noise[k] = ref_sac_noise(c->config.seed, c->step, i * DPG_ACTIONS + k);
            c->batch[i].next_noise[k] = ref_sac_noise(c->config.seed, c->step, (batch + i) * DPG_ACTIONS + k);
        }
    }
    if (!c->t->prioritized)
        return;
    reference_weights(c->leaves, DPG_ROWS, c->ids, batch, ref_schedule(&c->config.beta, c->step - 1),
                      REFERENCE_NORM_BATCH, weights);
    for (int i = 0; i < batch; i++)
        c->batch[i].weight = weights[i];
}

/* Of all tensors whose names begin so. */
static void check_gradient(comparison *c, const char *network, double tolerance)
{
    static float got[MAX_WEIGHTS];
    for (int32_t i = 0; i < gpur_learner_weight_count(c->sac); i++) {
        const gpur_weight_info info = info_of(c->sac, i);
        double size = 0, gap = 0;
        if (strncmp(info.name, network, strlen(network)) != 0)
            continue;
        const ref_tensor *const want = tensor_of(&c->reference, info.name);
        CHECK_OK(gpur_learner_read_weights(c->sac, GPUR_WEIGHTS_GRADIENT, info.name, got, want->count));
        for (int j = 0; j < want->count; j++) {
            size = fmax(size, fabs(want->g[j]));
            gap = fmax(gap, fabs((double)got[j] - want->g[j]));
        }
        TEST_REQUIRE(gap <= 2e-6 + tolerance * size, "step %d: the gradient of %s is off by %g; its largest is %g",
                     c->step, info.name, gap, size);
    }
}

/* Of a row that the batch has twice the larger error, since its next actions differ. */
static void check_priorities(comparison *c)
{
    static float got[MAX_BATCH];
    CHECK_OK(gpur_replay_get_priorities(fixture.replay, c->config.batch_size, c->ids, got));
    for (int64_t i = 0; i < c->config.batch_size; i++) {
        double want = 0;
        for (int64_t j = 0; j < c->config.batch_size; j++)
            want = c->ids[j] == c->ids[i] ? fmax(want, c->batch[j].error) : want;
        CHECK_NEAR(got[i], want + 1e-6, 1e-4 * (1 + want));
    }
}

static gpur_status set_window(const comparison *c, int64_t count)
{
    const gpur_window_set_args args = {
        (gpur_window *)(uintptr_t)gpur_sac_of(c->sac)->step.sampled.plan.ring.rows.window, {0, 0, count}};
    gpur_stream *stream = NULL;
    GPUR_TRY(gpur_consumer_begin(fixture.replay, gpur_consumer_without_publishing, &stream));
    return gpur_consumer_end(fixture.replay, gpur_launch_window_set(stream, gpur_grid_single(device), &args));
}

static void train_on_an_empty_window(comparison *c)
{
    CHECK_OK(set_window(c, 0));
    CHECK_OK(gpur_learner_train(c->sac, 3));
    CHECK_OK(set_window(c, DPG_ROWS));
    c->skipped += 3;
}

/* All losses have the temperature and the actor of before the step; the actor's has the new critics. */
static void check_step(comparison *c)
{
    const int batch = (int)c->config.batch_size, is_early = c->step <= 6;
    ref_sac *const r = &c->reference;
    double q = 0, entropy = 0, squares = 0;
    float got;
    if (c->t->empty && c->step % c->t->empty == 0)
        train_on_an_empty_window(c);
    if (c->t->prioritized)
        read_leaves(c->leaves);
    CHECK_OK(gpur_learner_train(c->sac, 1));
    const gpur_learner_stats stats = learner_fixture_stats(c->sac);
    const int before = atomic_load(&test_state.failures);
    take_batch(c);
    TEST_REQUIRE(atomic_load(&test_state.failures) == before, "that was step %d", c->step);
    const double alpha = exp(r->log_alpha), critic_loss = ref_sac_critic_loss(r, c->batch, batch, &q);
    check_gradient(c, "critic.", is_early ? 2e-5 : 1e-3);
    for (int i = 0; i < r->critics; i++)
        squares += pow(ref_dqn_update(r->critic[i], &c->critic, c->step), 2);
    const double actor_loss = ref_sac_actor_loss(r, c->batch, batch, &entropy);
    check_gradient(c, "actor.", is_early ? 2e-5 : 1e-3);
    const double actor_norm = ref_dqn_update(r->actor, &c->actor, c->step);
    const double slope = c->t->fixed ? 0 : ref_sac_temperature_gradient(r, entropy);
    CHECK_OK(gpur_learner_read_weights(c->sac, GPUR_WEIGHTS_GRADIENT, "temperature.log_alpha", &got, 1));
    CHECK_NEAR(got, slope, 1e-4 * (1 + fabs(slope)));
    ref_optimizer_step(&c->config.temperature_optimizer, c->step, 1, &r->log_alpha, &slope, &c->m, &c->v, &c->u);
    CHECK_NEAR(stats.loss, critic_loss, 1e-4 * critic_loss + 1e-7);
    CHECK_NEAR(stats.mean_q, q, 1e-4 * (0.1 + fabs(q)));
    CHECK_NEAR(stats.policy_loss, actor_loss, 1e-4 * (0.1 + fabs(actor_loss)));
    CHECK_NEAR(stats.entropy, entropy, 1e-4 * (1 + fabs(entropy)));
    CHECK_NEAR(stats.temperature, alpha, 1e-5 * alpha);
    CHECK_NEAR(stats.gradient_norm, sqrt(squares), 1e-3 * sqrt(squares));
    CHECK_NEAR(stats.policy_gradient_norm, actor_norm, 1e-3 * actor_norm + 1e-7);
    CHECK_NEAR(stats.policy_learning_rate, ref_schedule(&c->config.actor_optimizer.learning_rate, c->step - 1), 1e-8);
    CHECK_EQUAL(stats.target_copies, c->step / c->config.target_period);
    CHECK(stats.steps == c->step && stats.skipped == c->skipped && stats.steps_enqueued == c->step + c->skipped);
    if (c->t->prioritized)
        check_priorities(c);
}

static void check_weights(comparison *c)
{
    static float got[MAX_WEIGHTS];
    for (int32_t i = 0; i < gpur_learner_weight_count(c->sac); i++)
        for (int32_t which = GPUR_WEIGHTS_ONLINE; which <= GPUR_WEIGHTS_TARGET; which++) {
            const gpur_weight_info info = info_of(c->sac, i);
            const ref_tensor *const t = tensor_of(&c->reference, info.name);
            if (which == GPUR_WEIGHTS_TARGET && strncmp(info.name, "critic.", 7) != 0) {
                CHECK_FAILS(gpur_learner_read_weights(c->sac, which, info.name, got, info.count), GPUR_INVALID_ARGUMENT,
                            "target");
                continue;
            }
            CHECK_OK(gpur_learner_read_weights(c->sac, which, info.name, got, info.count));
            double apart = t ? 0 : fabs((double)got[0] - c->reference.log_alpha);
            for (int j = 0; t && j < t->count; j++)
                apart += fabs((double)got[j] - (which ? t->target : t->w)[j]) / t->count;
            TEST_REQUIRE(apart <= 5e-5, "%s is off by %g in the mean at the end", info.name, apart);
        }
}

static gpur_dqn_config update_of(const gpur_optimizer_config *optimizer, int64_t period, float rate)
{
    gpur_dqn_config update;
    (void)gpur_dqn_config_init(&update, sizeof update);
    update.optimizer = *optimizer, update.target_period = period, update.target_rate = rate;
    return update;
}

static void compare(const training *t)
{
    static comparison c;
    memset(&c, 0, sizeof c);
    c.t = t, c.config = config_of(t);
    c.actor = update_of(&c.config.actor_optimizer, 1, 1);
    c.critic = update_of(&c.config.critic_optimizer, c.config.target_period, c.config.target_rate);
    CHECK_OK(dpg_fixture_open(&fixture, device, t->prioritized));
    c.sac = learner_of(&c.config);
    CHECK(c.sac);
    open_reference(&c);
    const int before = atomic_load(&test_state.failures);
    for (c.step = 1; c.step <= t->steps && atomic_load(&test_state.failures) == before; c.step++)
        check_step(&c);
    check_weights(&c);
    close_reference(&c.reference);
    gpur_learner_destroy(c.sac);
    dpg_fixture_close(&fixture);
}

TEST(train_steps_agree_with_the_reference)
{
    static const training trainings[] = {
        {.steps = 30},
        {.steps = 30, .fixed = 1, .temperature = 0.2f},
        {.steps = 20, .critics = 1, .period = 3, .rate = 1},
        {.steps = 20, .prioritized = 1},
        {.steps = 12, .activation = GPUR_RELU, .batch = 100, .rate = 0.005f},
        {.steps = 12, .hidden = 5, .batch = 7, .empty = 4},
        {.steps = 6, .batch = 1, .critics = 1},
        {.steps = 12, .head = GPUR_HEAD_CATEGORICAL, .atoms = 21, .prioritized = 1},
        {.steps = 12, .head = GPUR_HEAD_QUANTILES, .atoms = 7, .hidden = 5, .empty = 4},
        {.steps = 12, .head = GPUR_HEAD_CATEGORICAL, .atoms = 11, .critics = 1, .fixed = 1, .temperature = 0.2f},
    };
    const int count = IN_RACE_CHECK ? 2 : (int)(sizeof trainings / sizeof *trainings);
    for (int i = 0; i < count; i++)
        compare(&trainings[i]);
}

/* Finite differences. */

/* The losses of a batch, whose gradients are those of the critics, of the actor and of log alpha. */
static double loss_of(comparison *c, const char *name)
{
    double unused = 0, loss = 0;
    if (strncmp(name, "critic.", 7) == 0)
        return ref_sac_critic_loss(&c->reference, c->batch, (int)c->config.batch_size, &unused);
    loss = ref_sac_actor_loss(&c->reference, c->batch, (int)c->config.batch_size, &unused);
    return strncmp(name, "actor.", 6) == 0
               ? loss
               : c->reference.log_alpha * (unused - c->reference.target_entropy); /* unused is the entropy */
}

static double slope_of(comparison *c, const char *name, double *weight)
{
    const double at = *weight, h = 1e-5;
    *weight = at + h;
    const double up = loss_of(c, name);
    *weight = at - h;
    const double down = loss_of(c, name);
    *weight = at;
    return (up - down) / (2 * h);
}

static void check_slopes(comparison *c, const char *network)
{
    static float got[MAX_WEIGHTS];
    for (int32_t i = 0; i < gpur_learner_weight_count(c->sac); i++) {
        const gpur_weight_info info = info_of(c->sac, i);
        ref_tensor *const t = tensor_of(&c->reference, info.name);
        if (strncmp(info.name, network, strlen(network)) != 0)
            continue;
        CHECK_OK(gpur_learner_read_weights(c->sac, GPUR_WEIGHTS_GRADIENT, info.name, got, info.count));
        for (int j = 0; j < info.count; j++) {
            const double want = slope_of(c, info.name, t ? &t->w[j] : &c->reference.log_alpha);
            CHECK_NEAR(got[j], want, 2e-5 + 1e-4 * fabs(want));
        }
    }
}

static void check_differences(const training *t)
{
    static comparison c;
    memset(&c, 0, sizeof c);
    c.t = t, c.config = config_of(t);
    c.critic = update_of(&c.config.critic_optimizer, c.config.target_period, c.config.target_rate);
    CHECK_OK(dpg_fixture_open(&fixture, device, 0));
    c.sac = learner_of(&c.config);
    CHECK(c.sac);
    open_reference(&c);
    c.step = 1;
    CHECK_OK(gpur_learner_train(c.sac, 1));
    CHECK_OK(gpur_learner_sync(c.sac));
    take_batch(&c);
    check_slopes(&c, "critic.");
    double q = 0;
    (void)ref_sac_critic_loss(&c.reference, c.batch, (int)c.config.batch_size, &q);
    for (int i = 0; i < 2; i++)
        (void)ref_dqn_update(c.reference.critic[i], &c.critic, 1);
    check_slopes(&c, "actor.");
    check_slopes(&c, "temperature.");
    close_reference(&c.reference);
    gpur_learner_destroy(c.sac);
    dpg_fixture_close(&fixture);
}

TEST(gradients_are_finite_differences_of_the_losses)
{
    static const training trainings[] = {
        {.steps = 1, .batch = 12},
        {.steps = 1, .batch = 6, .head = GPUR_HEAD_CATEGORICAL, .atoms = 11},
        {.steps = 1, .batch = 6, .head = GPUR_HEAD_QUANTILES, .atoms = 5},
    };
    for (int i = 0; i < 3; i++)
        check_differences(&trainings[i]);
}

/* Bits. */

static void read_all(gpur_learner *sac, float *values, int64_t *count)
{
    *count = 0;
    for (int32_t i = 0; i < gpur_learner_weight_count(sac); i++) {
        const gpur_weight_info info = info_of(sac, i);
        CHECK(*count + 2 * info.count <= 4 * MAX_WEIGHTS);
        CHECK_OK(gpur_learner_read_weights(sac, GPUR_WEIGHTS_ONLINE, info.name, values + *count, info.count));
        *count += info.count;
        if (strncmp(info.name, "critic.", 7) != 0)
            continue;
        CHECK_OK(gpur_learner_read_weights(sac, GPUR_WEIGHTS_TARGET, info.name, values + *count, info.count));
        *count += info.count;
    }
}

static void check_same(gpur_learner *a, gpur_learner *b)
{
    static float of_a[4 * MAX_WEIGHTS], of_b[4 * MAX_WEIGHTS];
    int64_t count = 0, count_b = 0;
    read_all(a, of_a, &count);
    read_all(b, of_b, &count_b);
    CHECK(count == count_b && count > 0 && memcmp(of_a, of_b, (size_t)count * sizeof *of_a) == 0);
}

TEST(how_steps_are_divided_into_calls_changes_no_bit)
{
    const gpur_sac_config c = config_of(&(training){.steps = 0});
    CHECK_OK(dpg_fixture_open(&fixture, device, 0));
    gpur_learner *const one = learner_of(&c), *const other = learner_of(&c);
    CHECK(one && other);
    CHECK_OK(gpur_learner_train(one, 41));
    for (int i = 0; i < 41; i += 1 + i % 3)
        CHECK_OK(gpur_learner_train(other, i + 1 + i % 3 > 41 ? 41 - i : 1 + i % 3));
    check_same(one, other);
    gpur_learner_destroy(one);
    gpur_learner_destroy(other);
    dpg_fixture_close(&fixture);
}

/* A replay by priority would go on with the other learner's priorities. */
TEST(training_goes_on_from_a_file_with_the_same_bits_and_policies_open_it)
{
    const char *const path = "sac.safetensors";
    const gpur_sac_config c = config_of(&(training){.steps = 0});
    gpur_policy *policy = NULL, *pulled = NULL;
    float obs[4 * DPG_FEATURES], got[4 * DPG_ACTIONS], want[4 * DPG_ACTIONS];
    CHECK_OK(dpg_fixture_open(&fixture, device, 0));
    gpur_learner *const one = learner_of(&c), *const other = learner_of(&c);
    CHECK(one && other);
    CHECK_OK(gpur_learner_train(one, 9));
    const gpur_status saved = gpur_learner_save(one, path, NULL);
    CHECK(saved == GPUR_OK || saved == GPUR_UNAVAILABLE);
    if (saved == GPUR_OK) {
        CHECK_OK(gpur_learner_load(other, path, NULL));
        check_same(one, other);
        const gpur_learner_stats before = learner_fixture_stats(one), after = learner_fixture_stats(other);
        CHECK(before.steps == after.steps && before.entropy == after.entropy && before.loss == after.loss);
        CHECK(before.temperature == after.temperature && before.policy_loss == after.policy_loss);
        CHECK_OK(gpur_learner_train(one, 20));
        CHECK_OK(gpur_learner_train(other, 20));
        check_same(one, other);
        CHECK_OK(gpur_learner_save(one, path, NULL));
        CHECK_OK(gpur_policy_open(device, path, NULL, &policy));
        gpur_policy_config config;
        CHECK_OK(gpur_policy_config_init(&config, sizeof config));
        CHECK_OK(gpur_policy_get_config(policy, &config));
        CHECK(config.network.head == GPUR_HEAD_SQUASHED_GAUSSIAN && gpur_policy_version(policy) == 29);
        CHECK_OK(gpur_policy_create(device, &config, &pulled));
        CHECK_OK(gpur_policy_pull(pulled, one, GPUR_WEIGHTS_ONLINE));
        random_floats(5, obs, 4 * DPG_FEATURES);
        const gpur_policy_input in = {.size = sizeof in, .count = 4, .obs = obs};
        gpur_policy_output out = {.size = sizeof out, .action_vectors = got};
        CHECK_OK(gpur_policy_act(policy, &in, &out));
        out.action_vectors = want;
        CHECK_OK(gpur_policy_act(pulled, &in, &out));
        CHECK(memcmp(got, want, sizeof got) == 0);
        gpur_policy_destroy(policy);
        gpur_policy_destroy(pulled);
        CHECK(remove(path) == 0);
    }
    gpur_learner_destroy(one);
    gpur_learner_destroy(other);
    dpg_fixture_close(&fixture);
}

TEST(a_temperature_can_be_set_and_one_that_is_fixed_stays)
{
    const gpur_sac_config fixed = config_of(&(training){.fixed = 1, .temperature = 0.25f});
    const gpur_sac_config learned = config_of(&(training){.temperature = 0.25f});
    const float log_alpha = -2.0f;
    CHECK_OK(dpg_fixture_open(&fixture, device, 0));
    gpur_learner *const one = learner_of(&fixed), *const other = learner_of(&learned);
    CHECK(one && other);
    CHECK_NEAR(learner_fixture_stats(one).temperature, 0.25, 0);
    CHECK_OK(gpur_learner_train(one, 5));
    CHECK_NEAR(learner_fixture_stats(one).temperature, 0.25, 1e-7);
    CHECK_OK(gpur_learner_write_weights(one, GPUR_WEIGHTS_ONLINE, "temperature.log_alpha", &log_alpha, 1));
    CHECK_OK(gpur_learner_train(one, 1));
    CHECK_NEAR(learner_fixture_stats(one).temperature, exp(-2), 1e-7);
    CHECK_OK(gpur_learner_train(other, 5));
    CHECK(learner_fixture_stats(other).temperature != 0.25f);
    gpur_learner_destroy(one);
    gpur_learner_destroy(other);
    dpg_fixture_close(&fixture);
}

/* A task of one step: the reward is -|a - f(s)|^2. */
TEST(a_policy_learns_the_best_actions_of_a_task_and_its_entropy_the_target)
{
    enum { TASK_ROWS = 1000 };
    static dpg_row task[TASK_ROWS];
    static float got[DPG_ROWS * DPG_ACTIONS], obs[DPG_ROWS * DPG_FEATURES];
    gpur_sac_config c = config_of(&(training){.batch = 64, .temperature = 0.2f});
    gpur_policy_config p;
    gpur_policy *policy = NULL;
    double gap = 0;
    CHECK_OK(dpg_fixture_open_empty(&fixture, device, 0));
    for (int i = 0; i < TASK_ROWS; i++) {
        task[i] = dpg_fixture_row(i);
        task[i].terminated = 1, task[i].discount = 0, task[i].reward = 0;
        for (int k = 0; k < DPG_ACTIONS; k++)
            task[i].reward -= 4 * powf(task[i].action[k] - 0.5f * tanhf(task[i].obs[k]), 2);
    }
    for (int i = 0; i < DPG_ROWS; i++)
        memcpy(obs + i * DPG_FEATURES, task[i].obs, sizeof task[i].obs);
    CHECK_OK(gpur_writer_append(fixture.writer, TASK_ROWS, task, NULL));
    c.actor.trunk[0].units = c.critic.trunk[0].units = 32, c.actor.trunk[1].units = c.critic.trunk[1].units = 32;
    gpur_learner *const sac = learner_of(&c);
    CHECK(sac);
    CHECK_OK(gpur_learner_train(sac, 3000));
    CHECK_NEAR(learner_fixture_stats(sac).entropy, -DPG_ACTIONS, 1);
    CHECK_OK(gpur_policy_config_init(&p, sizeof p));
    p.network = c.actor, p.obs = (gpur_field){"obs", GPUR_FLOAT32, {DPG_FEATURES}}, p.max_batch = DPG_ROWS;
    CHECK_OK(gpur_policy_create(device, &p, &policy));
    CHECK_OK(gpur_policy_pull(policy, sac, GPUR_WEIGHTS_ONLINE));
    const gpur_policy_input in = {.size = sizeof in, .count = DPG_ROWS, .obs = obs, .greedy = 1};
    const gpur_policy_output out = {.size = sizeof out, .action_vectors = got};
    CHECK_OK(gpur_policy_act(policy, &in, &out));
    for (int i = 0; i < DPG_ROWS * DPG_ACTIONS; i++) {
        const double best = 0.5 * tanh((double)obs[i / DPG_ACTIONS * DPG_FEATURES + i % DPG_ACTIONS]);
        gap += fabs((double)got[i] - best) / (DPG_ROWS * DPG_ACTIONS);
    }
    TEST_REQUIRE(gap < 0.15, "the actions are %g from the best ones in the mean", gap);
    gpur_policy_destroy(policy);
    gpur_learner_destroy(sac);
    dpg_fixture_close(&fixture);
}

/* Refusals. */

static void check_refused(const gpur_sac_config *c, const char *message)
{
    gpur_learner *sac = NULL;
    CHECK_FAILS(gpur_sac_create(fixture.replay, c, &sac), GPUR_INVALID_ARGUMENT, message);
    CHECK(!sac);
}

TEST(settings_that_do_not_fit_are_refused_with_the_reason)
{
    const gpur_sac_config good = config_of(&(training){.steps = 0});
    gpur_sac_config c = good;
    CHECK_OK(dpg_fixture_open(&fixture, device, 0));
    c = good, c.actor.num_actions = 0, check_refused(&c, "actor: network.num_actions is 0; it must be the size of");
    c = good, c.actor.num_actions = 2, check_refused(&c, "field \"action\" has 3 numbers, and the network's");
    c = good, c.actor.head = GPUR_HEAD_TANH_ACTION;
    check_refused(&c, "actor: network.head is 3; it must be GPUR_HEAD_SQUASHED_GAUSSIAN (4)");
    c = good, c.critic.head = GPUR_HEAD_DUELING;
    check_refused(&c, "critic: network.head is 1; it must be GPUR_HEAD_Q (0), GPUR_HEAD_QUANTILES (5) or");
    c = good, c.critic.num_actions = 3, check_refused(&c, "critic: network.num_actions is 3; it must be 1");
    c = good, c.actor.input_scale = 2, check_refused(&c, "actor: network.input_scale is 2; it must be 1");
    c = good, c.critics = 3, check_refused(&c, "critics is 3; it must be 1 to 2");
    c = good, c.temperature = 0, check_refused(&c, "temperature is 0; it must be above 0, and finite");
    c = good, c.temperature = INFINITY, check_refused(&c, "temperature is inf; it must be above 0, and finite");
    c = good, c.fixed_temperature = 2, check_refused(&c, "fixed_temperature is 2; it must be 0 or 1");
    c = good, c.target_entropy = NAN, check_refused(&c, "nan; it must be finite");
    c = good, c.target_rate = 0, check_refused(&c, "target_rate is 0; it must be above 0");
    c = good, c.target_period = 0, check_refused(&c, "target_period is 0; it must be at least 1 train step");
    c = good, c.batch_size = 0, check_refused(&c, "batch_size is 0; it must be 1 to the replay's max_batch");
    c = good, c.index_source = GPUR_PRIORITIZED_STRATIFIED, check_refused(&c, "the replay's prioritized is 0");
    c = good, c.temperature_optimizer.beta1 = 1, check_refused(&c, "temperature_optimizer: optimizer.beta1 is 1");
    c = good, c.actor_optimizer.epsilon = 0, check_refused(&c, "actor_optimizer: optimizer.epsilon is 0");
    c = good, c.critic_optimizer.epsilon = 0, check_refused(&c, "critic_optimizer: optimizer.epsilon is 0");
    dpg_fixture_close(&fixture);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
    for (int i = 0; i < DPG_ROWS; i++)
        rows[i] = dpg_fixture_row(i);
    RUN(train_steps_agree_with_the_reference);
    if (!IN_RACE_CHECK) {
        RUN(gradients_are_finite_differences_of_the_losses);
        RUN(how_steps_are_divided_into_calls_changes_no_bit);
        RUN(training_goes_on_from_a_file_with_the_same_bits_and_policies_open_it);
        RUN(a_temperature_can_be_set_and_one_that_is_fixed_stays);
        RUN(a_policy_learns_the_best_actions_of_a_task_and_its_entropy_the_target);
        RUN(settings_that_do_not_fit_are_refused_with_the_reason);
    }
    gpur_device_close(device);
    return test_main_end();
}
