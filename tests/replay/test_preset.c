/* SPDX-License-Identifier: MIT */
/* The published systems' constants, one by one [Parr 2018, section 4.2; Parr, Dilipkumar & Liu 2017; their public
 * code]. */
#include "test.h"
#include "learn/network/network.h"

static gpur_learner_config preset(const char *name)
{
    gpur_learner_config config;
    memset(&config, 0, sizeof config);
    if (gpur_learner_config_init(&config, sizeof config) != GPUR_OK ||
        gpur_learner_config_preset(&config, name) != GPUR_OK)
        config.size = 0;
    return config;
}

static int64_t weights_of(const gpur_learner_config *config)
{
    gpur_network network;
    const gpur_input_shape numbers = gpur_input_shape_of(27), frames = {84 * 84 * 4, 84, 84, 4};
    const gpur_input_shape *const fixture = config->network.trunk[0].kind == GPUR_CONV ? &frames : &numbers;
    const gpur_status status = gpur_network_build(&network, &config->network, fixture);
    return status == GPUR_OK ? gpur_params_weights(&network.params) : -1;
}

/* A learner's constants, and the network's weights in all at 5 or 18 actions. */
typedef struct published {
    const char *name;
    int head, trunk_count, hidden, double_dqn, optimizer, centered, loss, batch_size, copy_first, index_source;
    int64_t target_period, weights;
    double rate, momentum, epsilon, clip_norm;
    double epsilon_first, epsilon_last; /* of exploration */
} published;

enum { Q = GPUR_HEAD_Q, DUELING = GPUR_HEAD_DUELING, TF = GPUR_RMSPROP_TF, DEEPMIND = GPUR_RMSPROP_DEEPMIND };
enum { HUBER = GPUR_LOSS_HUBER, AUTO = GPUR_SOURCE_AUTO };

static const published learners[] = {
    {"melee-gpu", DUELING, 1, 512, 0, TF, 0, HUBER, 32, 1, AUTO, 10000, 138758, 2.5e-4, 0.95, 0.01, 0, 1, 0.1},
    {"melee-dqn", Q, 2, 0, 0, TF, 0, HUBER, 32, 1, AUTO, 10000, 27 * 128 + 128 + 128 * 256 + 256 + 256 * 5 + 5, 2.5e-4,
     0.95, 0.01, 0, 1, 0.1},
    {"melee-double", Q, 2, 0, 1, TF, 0, HUBER, 32, 1, AUTO, 10000, 27 * 128 + 128 + 128 * 256 + 256 + 256 * 5 + 5,
     2.5e-4, 0.95, 0.01, 0, 1, 0.1},
    {"nature-dqn", Q, 4, 0, 0, DEEPMIND, 1, HUBER, 32, 0, AUTO, 2500, 1693362, 2.5e-4, 0, 0.01, 0, 1, 0.1},
    {"nature-dueling", DUELING, 3, 512, 1, DEEPMIND, 1, HUBER, 32, 0, AUTO, 2500,
     77984 + 2 * (3136 * 512 + 512) + 512 * 19 + 19, 2.5e-4, 0, 0.01, 10, 1, 0.1},
    {"apex-dqn", DUELING, 3, 512, 1, DEEPMIND, 1, GPUR_LOSS_SQUARED, 512, 0, GPUR_PRIORITIZED_STRATIFIED, 2500,
     77984 + 2 * (3136 * 512 + 512) + 512 * 19 + 19, 6.25e-5, 0, 1.5e-7, 40, 0.4, 0.4},
};

static void check_optimizer(const gpur_optimizer_config *o, const published *p)
{
    CHECK_EQUAL(o->kind, p->optimizer);
    CHECK_EQUAL(o->centered, p->centered);
    CHECK_NEAR(o->learning_rate.first, p->rate, p->rate * 1e-6);
    CHECK_EQUAL(o->learning_rate.steps, 0);
    CHECK_NEAR(o->decay, 0.95, 1e-7);
    CHECK_NEAR(o->momentum, p->momentum, 1e-7);
    CHECK_NEAR(o->epsilon, p->epsilon, p->epsilon * 1e-6);
    CHECK_NEAR(o->clip_norm, p->clip_norm, 0);
    CHECK_NEAR(o->clip_value, 0, 0);
}

static void check_layer(const gpur_layer *layer, int kind, int units, int kernel, int stride)
{
    CHECK_EQUAL(layer->kind, kind);
    CHECK_EQUAL(layer->units, units);
    CHECK_EQUAL(layer->activation, GPUR_RELU);
    CHECK_EQUAL(layer->kernel, kernel);
    CHECK_EQUAL(layer->stride, stride);
    CHECK_EQUAL(layer->padding, 0);
}

static void check_network(const gpur_network_config *n, const published *p)
{
    const int is_melee = p->optimizer == TF;
    CHECK_EQUAL(n->head, p->head);
    CHECK_EQUAL(n->trunk_count, p->trunk_count);
    CHECK_EQUAL(n->hidden, p->hidden);
    CHECK(p->hidden == 0 || n->hidden_activation == GPUR_RELU);
    CHECK_EQUAL(n->num_actions, is_melee ? 5 : 18);
    CHECK_EQUAL(n->init, is_melee ? GPUR_INIT_NORMAL : GPUR_INIT_GLOROT);
    if (is_melee) {
        CHECK_NEAR(n->init_scale, 0.1, 1e-8);
        CHECK_EQUAL(n->trunk[0].units, 128);
        CHECK_EQUAL(n->trunk[0].activation, GPUR_RELU);
        CHECK(p->trunk_count == 1 || n->trunk[1].units == 256);
        return;
    }
    check_layer(&n->trunk[0], GPUR_CONV, 32, 8, 4);
    check_layer(&n->trunk[1], GPUR_CONV, 64, 4, 2);
    check_layer(&n->trunk[2], GPUR_CONV, 64, 3, 1);
    if (p->trunk_count == 4)
        check_layer(&n->trunk[3], GPUR_DENSE, 512, 0, 0);
    CHECK_NEAR(n->input_scale, 1.0 / 255, 1e-9);
    CHECK_EQUAL(n->input_layout, GPUR_CHW);
}

static void check_published(const published *p)
{
    const gpur_learner_config c = preset(p->name);
    CHECK_EQUAL(c.size, sizeof c);
    CHECK_EQUAL(c.double_dqn, p->double_dqn);
    CHECK_EQUAL(c.loss, p->loss);
    CHECK(p->loss != HUBER || c.huber_delta == 1);
    CHECK_EQUAL(c.batch_size, p->batch_size);
    CHECK_EQUAL(c.target_period, p->target_period);
    CHECK_EQUAL(c.target_copy_first, p->copy_first);
    CHECK_EQUAL(c.index_source, p->index_source);
    CHECK(c.index_source == AUTO || (c.beta.first == 0.4f && c.beta.last == 0.4f && c.beta.steps == 0));
    CHECK_NEAR(c.exploration.first, p->epsilon_first, 1e-7);
    CHECK_NEAR(c.exploration.last, p->epsilon_last, 1e-7);
    if (strncmp(p->name, "nature", 6) == 0)
        CHECK(c.exploration.begin == 0 && c.exploration.steps == 1000000);
    check_optimizer(&c.optimizer, p);
    check_network(&c.network, p);
    CHECK_EQUAL(weights_of(&c), p->weights);
}

TEST(learners_have_the_constants_of_the_papers)
{
    for (size_t i = 0; i < sizeof learners / sizeof *learners; i++) {
        const int before = atomic_load(&test_state.failures);
        check_published(&learners[i]);
        if (atomic_load(&test_state.failures) > before)
            fprintf(stderr, "  %s\n", learners[i].name);
    }
}

static gpur_replay_config replay_preset(const char *name)
{
    gpur_replay_config config;
    memset(&config, 0, sizeof config);
    if (gpur_replay_config_init(&config, sizeof config) != GPUR_OK ||
        gpur_replay_config_preset(&config, name) != GPUR_OK)
        config.capacity = -1;
    return config;
}

TEST(the_replays_of_the_atari_presets_hold_what_the_papers_say)
{
    static const struct {
        const char *name;
        int64_t capacity;
    } wanted[] = {{"nature-dqn", 1000000}, {"nature-dueling", 1000000}, {"apex-dqn", 2000000}};
    for (int i = 0; i < 3; i++) {
        const gpur_replay_config c = replay_preset(wanted[i].name);
        CHECK_EQUAL(c.capacity, wanted[i].capacity);
        CHECK_EQUAL(c.min_size, 50000);
        CHECK_NEAR(c.gamma, 0.99, 1e-8);
        CHECK_NEAR(c.reward_clip, 1, 0);
        CHECK_EQUAL(c.layout, GPUR_LAYOUT_FRAMES);
        CHECK_EQUAL(c.frame_stack, 4);
        CHECK_EQUAL(c.stack_axis, GPUR_STACK_FIRST);
        CHECK_EQUAL(c.stack_pad, GPUR_PAD_ZERO);
        CHECK_EQUAL(c.n_step, i == 2 ? 3 : 1);
        CHECK_EQUAL(c.prioritized, i == 2);
        CHECK_EQUAL(c.index_source, GPUR_SOURCE_AUTO);
    }
    const gpur_replay_config apex = replay_preset("apex-dqn");
    CHECK_NEAR(apex.alpha, 0.6, 1e-7);
    CHECK_NEAR(apex.priority_offset, 1e-6, 1e-12);
    CHECK(apex.beta.first == 0.4f && apex.beta.last == 0.4f && apex.beta.steps == 0);
}

TEST(cartpole_is_a_dueling_double_dqn)
{
    const gpur_learner_config c = preset("cartpole");
    CHECK_EQUAL(c.network.head, GPUR_HEAD_DUELING);
    CHECK_EQUAL(c.double_dqn, 1);
    CHECK_EQUAL(c.network.num_actions, 2);
}

TEST(a_preset_keeps_what_it_does_not_name)
{
    gpur_learner_config c;
    CHECK_OK(gpur_learner_config_init(&c, sizeof c));
    c.seed = 99, c.max_act_batch = 7, c.act = GPUR_ACT_TARGET, c.math = GPUR_MATH_TF32;
    c.index_source = GPUR_UNIFORM_DISTINCT, c.unroll = 3;
    CHECK_OK(gpur_learner_config_preset(&c, "melee-gpu"));
    CHECK(c.seed == 99 && c.max_act_batch == 7 && c.act == GPUR_ACT_TARGET && c.math == GPUR_MATH_TF32);
    CHECK(c.index_source == GPUR_UNIFORM_DISTINCT && c.unroll == 3);
}

TEST(an_unknown_preset_is_refused_and_changes_nothing)
{
    gpur_learner_config c, before;
    CHECK_OK(gpur_learner_config_init(&c, sizeof c));
    before = c;
    CHECK_STATUS(gpur_learner_config_preset(&c, "melee"), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("there are melee-gpu, melee-dqn, melee-double, nature-dqn, nature-dueling, apex-dqn, cartpole");
    CHECK_STATUS(gpur_learner_config_preset(&c, NULL), GPUR_INVALID_ARGUMENT);
    CHECK(memcmp(&c, &before, sizeof c) == 0);
    c.size = 0;
    CHECK_STATUS(gpur_learner_config_preset(&c, "melee-gpu"), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("was the struct initialized?");
}

TEST(an_older_callers_shorter_config_is_filled_as_far_as_it_goes)
{
    _Alignas(gpur_learner_config) unsigned char memory[sizeof(gpur_learner_config)];
    const uint64_t size = offsetof(gpur_learner_config, exploration);
    memset(memory, 0xAB, sizeof memory);
    CHECK_OK(gpur_learner_config_init((gpur_learner_config *)(void *)memory, size));
    CHECK_OK(gpur_learner_config_preset((gpur_learner_config *)(void *)memory, "melee-gpu"));
    for (size_t i = size; i < sizeof memory; i++)
        CHECK_EQUAL(memory[i], 0xAB);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(learners_have_the_constants_of_the_papers);
    RUN(the_replays_of_the_atari_presets_hold_what_the_papers_say);
    RUN(cartpole_is_a_dueling_double_dqn);
    RUN(a_preset_keeps_what_it_does_not_name);
    RUN(an_unknown_preset_is_refused_and_changes_nothing);
    RUN(an_older_callers_shorter_config_is_filled_as_far_as_it_goes);
    return test_main_end();
}
