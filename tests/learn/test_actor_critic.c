/* SPDX-License-Identifier: MIT */
/* Actor-critic learners: whole train steps on batches of changing size against a reference in double, policies that get
 * their weights, threads, files, the local models of A3C, and refusals. test_actor_critic_loss.c has the kernels. */
#include "learn/actor_critic/local.h"
#include "support/file_utils.h"
#include "support/learner_fixture.h"
#include "test.h"

#include <pthread.h>

enum { FEATURES = 6, ACTIONS = 3, MOST = 40, STEPS = 14, MAX_WEIGHTS = 8192 };

static gpur_device *device;

/* Batches. */

typedef struct batch {
    int64_t count;
    float obs[MOST * IMAGE_PIXELS], returns[MOST];
    uint8_t bytes[MOST * IMAGE_PIXELS];
    int32_t actions[MOST];
} batch;

/* The batch of step t: 1 to MOST rows. */
static void make_batch(batch *b, int t, int features)
{
    b->count = 1 + (t * 13) % MOST;
    random_floats((uint64_t)t * 3 + 1, b->obs, b->count * features);
    random_floats((uint64_t)t * 3 + 2, b->returns, b->count);
    for (int64_t i = 0; i < b->count; i++)
        b->actions[i] = (int32_t)((i * 7 + t) % ACTIONS);
    for (int64_t i = 0; i < b->count * features; i++)
        b->bytes[i] = (uint8_t)(128 + 127 * b->obs[i]);
}

static gpur_actor_critic_batch given(const batch *b)
{
    return (gpur_actor_critic_batch){.size = sizeof(gpur_actor_critic_batch),
                                     .count = b->count,
                                     .obs = b->obs,
                                     .actions = b->actions,
                                     .returns = b->returns};
}

static gpur_actor_critic_config config_of(int32_t hidden)
{
    gpur_actor_critic_config c;
    if (gpur_actor_critic_config_init(&c, sizeof c) != GPUR_OK)
        exit(1);
    c.network.trunk[0].units = 9;
    c.network.trunk[0].activation = GPUR_TANH;
    c.network.hidden = hidden;
    c.network.num_actions = ACTIONS;
    c.obs = (gpur_field){"obs", GPUR_FLOAT32, {FEATURES}};
    c.optimizer.learning_rate.first = 0.01f, c.optimizer.learning_rate.last = 0.003f;
    c.optimizer.learning_rate.begin = 2, c.optimizer.learning_rate.steps = 9;
    c.max_batch = MOST;
    c.seed = 5;
    return c;
}

static gpur_learner *learner_of(const gpur_actor_critic_config *config)
{
    gpur_learner *learner = NULL;
    if (gpur_actor_critic_create(device, config, &learner) != GPUR_OK)
        fprintf(stderr, "gpur_actor_critic_create: %s\n", gpur_last_error());
    return learner;
}

/* The reference. */

/* Its networks have the same weights; the second one, with dual_optimizer, has the gradient and the slots of the value.
 */
typedef struct reference {
    ref_net *nets[2];
    gpur_dqn_config step; /* for ref_dqn_update: the optimizer, and no target copies */
} reference;

static void close_reference(reference *r)
{
    for (int i = 0; i < 2; i++)
        ref_net_destroy(r->nets[i]);
}

static void copy_weights(ref_net *to, const ref_net *from)
{
    for (int i = 0; i < to->tensors; i++)
        memcpy(to->tensor[i].w, from->tensor[i].w, (size_t)to->tensor[i].count * sizeof *to->tensor[i].w);
}

/* The first network's tensor with the name of the learner's tensor i. */
static ref_tensor *tensor_of(const reference *r, gpur_learner *learner, int32_t i)
{
    gpur_weight_info info = {.size = sizeof info};
    const gpur_status status = gpur_learner_get_weight_info(learner, i, &info);
    ref_tensor *const tensor = status == GPUR_OK ? ref_net_find(r->nets[0], info.name) : NULL;
    if (!tensor)
        exit(1);
    return tensor;
}

/* With the learner's present weights. */
static void open_reference(reference *r, gpur_learner *learner, const gpur_actor_critic_config *c, int is_image)
{
    static float values[MAX_WEIGHTS];
    int64_t at = 0;
    memset(r, 0, sizeof *r);
    CHECK_OK(gpur_dqn_config_init(&r->step, sizeof r->step));
    r->step.optimizer = c->optimizer, r->step.target_period = INT64_MAX;
    CHECK(learner_fixture_weights(learner, GPUR_WEIGHTS_ONLINE, values, MAX_WEIGHTS) > 0);
    for (int n = 0; n < 2; n++) {
        r->nets[n] = is_image ? ref_net_create_image(&c->network, IMAGE_HEIGHT, IMAGE_WIDTH, IMAGE_CHANNELS)
                              : ref_net_create(&c->network, FEATURES);
        for (int i = 0; i < r->nets[n]->tensors; i++) {
            ref_tensor *const t = &r->nets[n]->tensor[i];
            ref_optimizer_begin(&c->optimizer, t->count, t->m, t->v, t->u);
        }
    }
    for (int32_t i = 0; i < gpur_learner_weight_count(learner); i++) {
        ref_tensor *const t = tensor_of(r, learner, i);
        for (int j = 0; j < t->count; j++)
            t->w[j] = (double)values[at++];
    }
    copy_weights(r->nets[1], r->nets[0]);
}

/* The gradient of -log(p_a) (R - V) - beta H by p, and that of c (R - V)^2 by V, with log(p + e) and H of p + e. */
static void add_row(ref_net *net, const gpur_actor_critic_config *c, const float *obs, int32_t action, double returned,
                    double beta, int parts, gpur_actor_critic_losses *losses)
{
    static ref_tape tape;
    const double e = (double)c->log_epsilon;
    double dy[ACTIONS + 1], h = 0;
    ref_forward(net, 0, obs, &tape);
    const double advantage = returned - tape.y[ACTIONS];
    for (int k = 0; k < ACTIONS; k++) {
        const double log_p = log(tape.y[k] + e);
        h -= (tape.y[k] + e) * log_p;
        dy[k] = parts & 1 ? beta * (log_p + 1) - (k == action ? advantage / (tape.y[k] + e) : 0) : 0;
    }
    dy[ACTIONS] = parts & 2 ? -2 * (double)c->value_coefficient * advantage : 0;
    ref_backward(net, &tape, dy);
    losses->policy -= log(tape.y[action] + e) * advantage;
    losses->value += advantage * advantage;
    losses->entropy += h;
    losses->mean_value += tape.y[ACTIONS];
}

static void reference_step(reference *r, const gpur_actor_critic_config *c, const batch *b, int features, int t,
                           gpur_actor_critic_losses *losses)
{
    const double beta = ref_schedule(&c->entropy, t - 1);
    const int nets = c->dual_optimizer ? 2 : 1;
    for (int n = 0; n < nets; n++) {
        memset(losses, 0, sizeof *losses);
        ref_net_zero_gradient(r->nets[n]);
        for (int64_t i = 0; i < b->count; i++)
            add_row(r->nets[n], c, b->obs + i * features, b->actions[i], (double)b->returns[i], beta,
                    nets == 1 ? 3 : n + 1, losses);
    }
    losses->policy /= (double)b->count, losses->value /= (double)b->count;
    losses->entropy /= (double)b->count, losses->mean_value /= (double)b->count;
    losses->gradient_norm = ref_dqn_update(r->nets[0], &r->step, t);
    copy_weights(r->nets[1], r->nets[0]);
    if (nets == 2) { /* weights decay once */
        gpur_dqn_config second = r->step;
        second.optimizer.weight_decay = 0;
        ref_dqn_update(r->nets[1], &second, t);
    }
    copy_weights(r->nets[0], r->nets[1]);
    losses->learning_rate = ref_schedule(&c->optimizer.learning_rate, t - 1);
}

static void check_losses(const gpur_actor_critic_losses *got, const gpur_actor_critic_losses *wanted)
{
    CHECK_NEAR(got->policy, wanted->policy, 1e-4 * (1 + fabs(wanted->policy)));
    CHECK_NEAR(got->value, wanted->value, 1e-4 * (1 + fabs(wanted->value)));
    CHECK_NEAR(got->entropy, wanted->entropy, 1e-4 * (1 + fabs(wanted->entropy)));
    CHECK_NEAR(got->mean_value, wanted->mean_value, 1e-4 * (1 + fabs(wanted->mean_value)));
    CHECK_NEAR(got->gradient_norm, wanted->gradient_norm, 1e-4 * (1 + wanted->gradient_norm));
    CHECK_NEAR(got->learning_rate, wanted->learning_rate, 1e-6);
}

static void check_weights(gpur_learner *learner, const reference *r)
{
    static float values[MAX_WEIGHTS];
    int64_t at = 0;
    CHECK(learner_fixture_weights(learner, GPUR_WEIGHTS_ONLINE, values, MAX_WEIGHTS) > 0);
    for (int32_t i = 0; i < gpur_learner_weight_count(learner); i++) {
        const ref_tensor *const t = tensor_of(r, learner, i);
        for (int j = 0; j < t->count; j++, at++)
            CHECK_NEAR(values[at], t->w[j], 2e-4 * (1 + fabs(t->w[j])));
    }
}

static void check_steps(const gpur_actor_critic_config *c, int is_image)
{
    static batch b;
    const int features = is_image ? IMAGE_PIXELS : FEATURES;
    gpur_learner *const learner = learner_of(c);
    reference r;
    CHECK(learner);
    open_reference(&r, learner, c, is_image);
    for (int t = 1; t <= STEPS; t++) {
        gpur_actor_critic_losses got = {.size = sizeof got}, wanted;
        make_batch(&b, t, features);
        gpur_actor_critic_batch input = given(&b);
        if (c->obs.dtype == GPUR_UINT8) {
            input.obs = b.bytes;
            for (int64_t i = 0; i < b.count * features; i++)
                b.obs[i] = b.bytes[i];
        }
        CHECK_OK(gpur_actor_critic_train(learner, &input, &got));
        reference_step(&r, c, &b, features, t, &wanted);
        CHECK_EQUAL(got.step, t);
        check_losses(&got, &wanted);
    }
    check_weights(learner, &r);
    CHECK_EQUAL(learner_fixture_stats(learner).steps, STEPS);
    close_reference(&r);
    gpur_learner_destroy(learner);
}

TEST(train_steps_agree_with_the_reference)
{
    for (int i = 0; i < 8; i++) {
        gpur_actor_critic_config c = config_of(i % 2 ? 7 : 0);
        c.dual_optimizer = i / 2 == 1 || i == 7;
        if (i >= 6)
            c.optimizer.kind = GPUR_ADAM, c.optimizer.epsilon = 1e-5f, c.optimizer.weight_decay = 5;
        if (i / 2 == 2)
            c.optimizer.clip_norm = 0.5f;
        c.optimizer.clip_value = i == 5 ? 0.1f : 0.0f;
        c.entropy = (gpur_schedule){.first = 0.1f, .last = 0.01f, .begin = 3, .steps = 8};
        check_steps(&c, 0);
    }
}

TEST(other_optimizers_and_images_agree_with_the_reference)
{
    gpur_actor_critic_config c = config_of(0);
    c.optimizer.kind = GPUR_ADAM, c.optimizer.epsilon = 1e-5f;
    check_steps(&c, 0);
    c = config_of(0);
    c.network = conv_config(GPUR_CHW).network;
    c.network.head = GPUR_HEAD_SOFTMAX_VALUE, c.network.num_actions = ACTIONS;
    c.obs = (gpur_field){"obs", GPUR_UINT8, {IMAGE_CHANNELS, IMAGE_HEIGHT, IMAGE_WIDTH}};
    check_steps(&c, 1);
}

/* Policies. */

static gpur_policy *policy_of(const gpur_actor_critic_config *c)
{
    gpur_policy_config config;
    gpur_policy *policy = NULL;
    gpur_status status = gpur_policy_config_init(&config, sizeof config);
    config.network = c->network, config.obs = c->obs, config.seed = 3;
    if (status == GPUR_OK)
        status = gpur_policy_create(device, &config, &policy);
    if (status != GPUR_OK)
        fprintf(stderr, "gpur_policy_create: %s\n", gpur_last_error());
    return policy;
}

static void act(gpur_policy *policy, const batch *b, int32_t greedy, int32_t *actions, float *probabilities,
                float *values)
{
    int64_t version = -1;
    const gpur_policy_input input = {
        .size = sizeof input, .count = b->count, .obs = b->obs, .greedy = greedy, .step = (uint64_t[MOST]){0}};
    const gpur_policy_output output = {.size = sizeof output,
                                       .actions = actions,
                                       .version = &version,
                                       .probabilities = probabilities,
                                       .values = values};
    CHECK_OK(gpur_policy_act(policy, &input, &output));
    CHECK_EQUAL(version, gpur_policy_version(policy));
}

TEST(a_policy_acts_by_the_weights_that_were_published)
{
    static batch b;
    static ref_tape tape;
    const gpur_actor_critic_config c = config_of(7);
    gpur_learner *const learner = learner_of(&c);
    gpur_policy *const policy = policy_of(&c);
    int32_t actions[MOST], other[MOST];
    float probabilities[MOST * ACTIONS], values[MOST];
    reference r;
    int drawn = 0;
    CHECK(learner && policy);
    for (int t = 1; t <= 3; t++) {
        make_batch(&b, t, FEATURES);
        const gpur_actor_critic_batch input = given(&b);
        CHECK_OK(gpur_actor_critic_train(learner, &input, NULL));
    }
    CHECK_OK(gpur_policy_pull(policy, learner, GPUR_WEIGHTS_ONLINE));
    CHECK_EQUAL(gpur_policy_version(policy), 3);
    open_reference(&r, learner, &c, 0);
    act(policy, &b, 1, actions, probabilities, values);
    act(policy, &b, 0, other, NULL, NULL);
    for (int64_t i = 0; i < b.count; i++) {
        ref_forward(r.nets[0], 0, b.obs + i * FEATURES, &tape);
        for (int k = 0; k < ACTIONS; k++) {
            CHECK_NEAR(probabilities[i * ACTIONS + k], tape.y[k], 1e-5);
            CHECK(probabilities[i * ACTIONS + k] <= probabilities[i * ACTIONS + actions[i]]);
        }
        CHECK_NEAR(values[i], tape.y[ACTIONS], 1e-5 * (1 + fabs(tape.y[ACTIONS])));
        drawn += other[i] != actions[i];
    }
    CHECK(drawn > 0);
    close_reference(&r);
    gpur_policy_destroy(policy);
    gpur_learner_destroy(learner);
}

/* Threads. */

enum { THREADS = 4, EACH = 30 };

typedef struct worker {
    gpur_learner *learner;
    gpur_policy *policy;
    gpur_local_model *local;
    int number;
    gpur_status status;
} worker;

static void *train_and_publish(void *context)
{
    worker *const w = context;
    static _Thread_local batch b;
    for (int t = 0; t < EACH && w->status == GPUR_OK; t++) {
        make_batch(&b, w->number * EACH + t, FEATURES);
        const gpur_actor_critic_batch input = given(&b);
        gpur_actor_critic_losses losses;
        w->status = w->local ? gpur_local_model_pull(w->local) : GPUR_OK;
        if (w->status == GPUR_OK)
            w->status = w->local ? gpur_local_model_train(w->local, &input, &losses)
                                 : gpur_actor_critic_train(w->learner, &input, NULL);
        if (w->status == GPUR_OK)
            w->status = gpur_policy_pull(w->policy, w->learner, GPUR_WEIGHTS_ONLINE);
    }
    return NULL;
}

static void check_threads(int are_local)
{
    const gpur_actor_critic_config c = config_of(0);
    gpur_learner *const learner = learner_of(&c);
    gpur_policy *const policy = policy_of(&c);
    worker workers[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){learner, policy, NULL, i, GPUR_OK};
        if (are_local)
            CHECK_OK(gpur_local_model_create(gpur_actor_critic_of(learner), 1, &workers[i].local));
        CHECK(pthread_create(&threads[i], NULL, train_and_publish, &workers[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        CHECK_OK(workers[i].status);
        gpur_local_model_destroy(workers[i].local);
    }
    CHECK_EQUAL(learner_fixture_stats(learner).steps, THREADS * EACH);
    CHECK_EQUAL(gpur_policy_version(policy), THREADS * EACH);
    gpur_policy_destroy(policy);
    gpur_learner_destroy(learner);
}

TEST(threads_train_and_publish_at_the_same_time)
{
    check_threads(0);
    check_threads(1);
}

/* The gradient is that of the weights that were pulled, also when the learner has trained since. */
TEST(a_local_model_trains_the_learner_by_its_own_weights)
{
    static batch first, second;
    for (int dual = 0; dual < 2; dual++) {
        gpur_actor_critic_config c = config_of(7);
        c.dual_optimizer = dual;
        gpur_learner *const learner = learner_of(&c);
        gpur_local_model *local = NULL;
        gpur_actor_critic_losses losses = {.size = sizeof losses}, wanted;
        float value = 0;
        int32_t action = -1;
        reference before, r;
        CHECK(learner);
        CHECK_OK(gpur_local_model_create(gpur_actor_critic_of(learner), 9, &local));
        open_reference(&before, learner, &c, 0);
        open_reference(&r, learner, &c, 0);
        make_batch(&first, 1, FEATURES);
        make_batch(&second, 2, FEATURES);
        const gpur_actor_critic_batch inputs[] = {given(&first), given(&second)};
        CHECK_OK(gpur_actor_critic_train(learner, &inputs[0], NULL));
        reference_step(&r, &c, &first, FEATURES, 1, &wanted);
        for (int n = 0; n < 1 + dual; n++) {
            ref_net_zero_gradient(r.nets[n]);
            ref_net_zero_gradient(before.nets[n]);
            for (int64_t i = 0; i < second.count; i++)
                add_row(before.nets[n], &c, second.obs + i * FEATURES, second.actions[i], (double)second.returns[i],
                        (double)c.entropy.first, dual ? n + 1 : 3, &wanted);
            for (int i = 0; i < r.nets[n]->tensors; i++)
                memcpy(r.nets[n]->tensor[i].g, before.nets[n]->tensor[i].g,
                       (size_t)r.nets[n]->tensor[i].count * sizeof(double));
        }
        ref_dqn_update(r.nets[0], &r.step, 2);
        copy_weights(r.nets[1], r.nets[0]);
        if (dual)
            ref_dqn_update(r.nets[1], &r.step, 2);
        copy_weights(r.nets[0], r.nets[1]);
        CHECK_OK(gpur_local_model_train(local, &inputs[1], &losses));
        CHECK_EQUAL(losses.step, 2);
        check_weights(learner, &r);
        CHECK_OK(gpur_local_model_predict(local, second.obs, 0, 1, &action, &value));
        CHECK(action >= 0 && action < ACTIONS);
        gpur_local_model_destroy(local);
        close_reference(&before);
        close_reference(&r);
        gpur_learner_destroy(learner);
    }
}

/* Files. */

/* test_learner_family.c has files that fit. */
TEST(a_file_of_another_number_of_optimizers_is_refused)
{
    const char *const path = test_file_path("actor_critic.safetensors");
    for (int dual = 0; dual < 2; dual++) {
        gpur_actor_critic_config c = config_of(7);
        c.dual_optimizer = dual;
        gpur_learner *const learner = learner_of(&c);
        c.dual_optimizer = !dual;
        gpur_learner *const other = learner_of(&c);
        CHECK(learner && other);
        CHECK_OK(gpur_learner_save(learner, path, NULL));
        CHECK_FAILS(gpur_learner_load(other, path, NULL), GPUR_INVALID_ARGUMENT, "dual_optimizer");
        gpur_learner_destroy(learner);
        gpur_learner_destroy(other);
    }
    test_remove_folder();
}

/* Refusals. */

static void check_refused(gpur_actor_critic_config c, const char *message)
{
    gpur_learner *learner = (gpur_learner *)&c;
    CHECK_FAILS(gpur_actor_critic_create(device, &c, &learner), GPUR_INVALID_ARGUMENT, message);
    CHECK(learner == NULL);
}

TEST(settings_out_of_range_are_refused_with_the_value)
{
    const gpur_actor_critic_config good = config_of(0);
    gpur_actor_critic_config c;
    const int64_t used = test_memory_used(device);
    c = good, c.network.head = GPUR_HEAD_DUELING, check_refused(c, "network.head is 1; an actor-critic needs");
    c = good, c.network.num_actions = 0, check_refused(c, "num_actions is 0");
    c = good, c.dual_optimizer = 2, check_refused(c, "dual_optimizer is 2; it must be 0 or 1");
    c = good, c.log = 3, check_refused(c, "log is 3; it must be GPUR_LOG_ADD, MAX or SOFTMAX (0 to 2)");
    c = good, c.log_epsilon = 0, check_refused(c, "log_epsilon is 0; it must be above 0 and below 1");
    c = good, c.policy_floor = -0.5f, check_refused(c, "policy_floor is -0.5; it must be at least 0");
    c = good, c.policy_floor = 0.5f, c.log = GPUR_LOG_SOFTMAX, check_refused(c, "a floor needs GPUR_LOG_ADD or MAX");
    c = good, c.value_coefficient = NAN, check_refused(c, "value_coefficient is nan");
    c = good, c.entropy.first = -1, check_refused(c, "entropy goes from -1 to 0.01");
    c = good, c.max_batch = 0, check_refused(c, "max_batch is 0; it must be 1 to 65536");
    c = good, c.optimizer.epsilon = 0, check_refused(c, "optimizer.epsilon is 0");
    c = good, c.math = 4, check_refused(c, "math is 4");
    CHECK_EQUAL(test_memory_used(device), used);
    gpur_learner_destroy(NULL);
}

#define REFUSED(setting, message)                                                                                      \
    do {                                                                                                               \
        gpur_actor_critic_batch input = given(&b);                                                                     \
        setting;                                                                                                       \
        CHECK_FAILS(gpur_actor_critic_train(learner, &input, NULL), GPUR_INVALID_ARGUMENT, message);                   \
    } while (0)

TEST(bad_batches_are_refused_and_train_nothing)
{
    static batch b;
    static float before[MAX_WEIGHTS], after[MAX_WEIGHTS];
    gpur_actor_critic_config c = config_of(0);
    gpur_learner *const learner = learner_of(&c);
    make_batch(&b, 2, FEATURES);
    CHECK(learner);
    const int64_t count = learner_fixture_weights(learner, GPUR_WEIGHTS_ONLINE, before, MAX_WEIGHTS);
    REFUSED(input.count = 0, "count is 0; it must be 1 to max_batch, 40");
    REFUSED(input.count = 41, "count is 41; it must be 1 to max_batch, 40");
    REFUSED(input.obs = NULL, "obs, actions and returns must not be NULL");
    b.actions[1] = ACTIONS;
    REFUSED((void)input, "actions[1] is 3; it must be 0 to num_actions - 1, 2");
    b.actions[1] = 0, b.returns[3] = INFINITY;
    REFUSED((void)input, "\"returns\" is infinite in row 3 of 27; its numbers must be finite");
    CHECK_EQUAL(learner_fixture_weights(learner, GPUR_WEIGHTS_ONLINE, after, MAX_WEIGHTS), count);
    CHECK(memcmp(before, after, (size_t)count * sizeof *before) == 0);
    CHECK_EQUAL(learner_fixture_stats(learner).steps, 0);
    c.network.trunk[0].units = 10;
    gpur_policy *const policy = policy_of(&c);
    CHECK_FAILS(gpur_policy_pull(policy, learner, GPUR_WEIGHTS_ONLINE), GPUR_INVALID_ARGUMENT, "trunk.0.weight");
    gpur_policy_destroy(policy);
    gpur_learner_destroy(learner);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
    RUN(train_steps_agree_with_the_reference);
    RUN(other_optimizers_and_images_agree_with_the_reference);
    RUN(a_policy_acts_by_the_weights_that_were_published);
    RUN(threads_train_and_publish_at_the_same_time);
    RUN(a_local_model_trains_the_learner_by_its_own_weights);
    RUN(a_file_of_another_number_of_optimizers_is_refused);
    RUN(settings_out_of_range_are_refused_with_the_value);
    RUN(bad_batches_are_refused_and_train_nothing);
    gpur_device_close(device);
    return test_main_end();
}
