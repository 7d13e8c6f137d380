/* SPDX-License-Identifier: MIT */
/* Ape-X of DPG, TD3 and SAC: an actor's vectors, transitions and priorities against their definition; runs with actors
 * in threads and in processes, a remote actor, evaluations, resumed runs, and what is refused. */
#include "kernels/lib/random.h"
#include "learn/acting/policy.h"
#include "reference/reference_learn.h"
#include "support/apex_fixture.h"
#include "support/file_utils.h"
#include "test.h"

#include <math.h>
#include <pthread.h>
#include <unistd.h>

enum { OBS = 3, BLOCKS = 30, CUT = 37 /* steps of an episode */ };

static apex_fixture fixture;
static apex_settings settings;

static void begin_with(const char *name)
{
    CHECK_OK(apex_fixture_settings(name, &settings));
}

static void begin(void)
{
    begin_with("pendulum");
}

static gpur_status open_run(void)
{
    const gpur_device_config device = test_device_config();
    return apex_fixture_open(&fixture, test_device_name(), &device, &settings);
}

/* One actor alone. Its blocks go straight to a replay. */

static gpur_device *device;
static gpur_replay *replay;
static gpur_writer *writer;
static gpur_block_format *format;
static gpur_actor_policies policies;
static gpur_shared shared;
static int64_t pulled; /* the broadcast whose weights the actor has */
static int64_t blocks;

static gpur_status take_block(void *context, const void *block, int64_t bytes, int64_t steps)
{
    const gpur_actor_settings *const s = context;
    (void)steps;
    if (++blocks >= BLOCKS)
        atomic_store(&gpur_shared_counts(&shared, s->actor)->is_asked, 1);
    return gpur_writer_append_block(writer, block, bytes, NULL);
}

static gpur_status take_episode(void *context, const gpur_actor_episode *episode, int64_t steps)
{
    (void)context, (void)episode, (void)steps;
    return GPUR_OK;
}

static gpur_status pull(void *context, gpur_actor_policies *to, unsigned char *room, int *is_newer)
{
    (void)context;
    return gpur_shared_pull(&shared, to, room, &pulled, is_newer);
}

/* Its seeds, as it derives them. */
static gpur_u32x4 seeds_of(const gpur_actor_settings *s)
{
    return gpur_random_bits(s->seed, GPUR_RANDOM_APEX_ACTOR, (uint64_t)s->incarnation, (uint32_t)s->actor);
}

static uint64_t joined(uint32_t low, uint32_t high)
{
    return (uint64_t)high << 32 | low;
}

/* Policies with an actor's seed, whose initial weights are those of every actor. */
static void open_alone(const gpur_actor_settings *s)
{
    static unsigned char weights[1 << 20];
    const gpur_u32x4 bits = seeds_of(s);
    gpur_policy_config config;
    CHECK_OK(gpur_device_open("cpu", NULL, &device));
    CHECK_OK(gpur_replay_create(device, &settings.replay, &replay));
    CHECK_OK(gpur_writer_create(replay, 1, &writer));
    CHECK_OK(gpur_block_format_create(&settings.replay, &format));
    CHECK_OK(gpur_policy_config_init(&config, sizeof config));
    config.seed = joined(bits.v[2], bits.v[3]);
    CHECK_OK(gpur_actor_policies_open(&policies, device, &format->schema, APEX_NETWORKS(&settings), 1, &config));
    policies.alpha = 0.3f;
    const int64_t bytes = gpur_actor_policies_bytes(&policies);
    CHECK(bytes <= (int64_t)sizeof weights);
    CHECK_OK(gpur_actor_policies_get_weights(&policies, weights));
    CHECK_OK(gpur_shared_create(&shared, bytes));
    gpur_shared_broadcast(&shared, weights);
    pulled = blocks = 0;
}

static void close_alone(void)
{
    gpur_shared_close(&shared);
    gpur_actor_policies_close(&policies);
    gpur_block_format_destroy(format);
    gpur_writer_destroy(writer);
    gpur_replay_destroy(replay);
    gpur_device_close(device);
}

static void act_alone(gpur_actor_settings *s)
{
    const gpur_actor_transport transport = {s, take_block, take_episode, pull};
    const gpur_actor_context context = {.type = settings.run.type,
                                        .env_options = "",
                                        .device = device,
                                        .format = format,
                                        .networks = *APEX_NETWORKS(&settings),
                                        .counts = gpur_shared_counts(&shared, s->actor)};
    CHECK_OK(gpur_actor_run(&context, s, &transport));
}

typedef struct row {
    float obs[OBS], action, reward, next_obs[OBS], discount, priority;
    unsigned char terminated, truncated;
} row;

static row rows[BLOCKS * 16 + 16];

static void read_row(int64_t id)
{
    row *const r = &rows[id];
    gpur_batch *batch = NULL;
    memset(r, 0, sizeof *r);
    CHECK_OK(gpur_replay_gather(replay, 1, &id, NULL, &batch));
    CHECK_OK(gpur_batch_read(batch, "obs", r->obs, sizeof r->obs));
    CHECK_OK(gpur_batch_read(batch, "action", &r->action, sizeof r->action));
    CHECK_OK(gpur_batch_read(batch, "reward", &r->reward, sizeof r->reward));
    CHECK_OK(gpur_batch_read(batch, "next_obs", r->next_obs, sizeof r->next_obs));
    CHECK_OK(gpur_batch_read(batch, "discount", &r->discount, sizeof r->discount));
    CHECK_OK(gpur_batch_read(batch, "priority", &r->priority, sizeof r->priority));
    CHECK_OK(gpur_batch_read(batch, "terminated", &r->terminated, 1));
    CHECK_OK(gpur_batch_read(batch, "truncated", &r->truncated, 1));
    gpur_batch_release(batch);
}

static float vector_of(const float *obs, float sigma, uint32_t lane, uint64_t step)
{
    float action = (float)NAN;
    const gpur_policy_input input = {
        .size = sizeof input, .count = 1, .obs = obs, .sigma = &sigma, .lane = &lane, .step = &step};
    const gpur_policy_output output = {.size = sizeof output, .action_vectors = &action};
    return gpur_policy_act(policies.acting, &input, &output) == GPUR_OK ? action : (float)NAN;
}

/* The networks again, in double. */
static ref_net *actor_net, *critic_nets[2];

/* The net of a tensor, whose name becomes that in the net. */
static ref_net *net_of(const gpur_policy *policy, const char **name)
{
    const int is_second = **name == '2';
    if (policy == policies.acting)
        return actor_net;
    *name += policies.critics > 1 ? 2 : 0;
    return critic_nets[is_second];
}

static void read_weights(gpur_policy *policy)
{
    static unsigned char bytes[1 << 20];
    const gpur_params *const params = &policy->network.params;
    const float *from = (const float *)(const void *)(bytes + 64);
    CHECK_OK(gpur_policy_get_weights(policy, bytes, gpur_policy_weights_bytes(policy)));
    for (int32_t i = 0; i < params->tensor_count; i++) {
        const char *name = params->tensor[i].name;
        ref_net *const net = net_of(policy, &name);
        ref_tensor *const tensor = ref_net_find(net, name);
        TEST_REQUIRE(tensor, "the reference has no tensor %s", name);
        for (int k = 0; k < tensor->count; k++)
            tensor->w[k] = (double)*from++;
    }
}

static void open_reference(void)
{
    const gpur_apex_networks networks = *APEX_NETWORKS(&settings);
    actor_net = ref_net_create(networks.acting, OBS);
    for (int i = 0; i < policies.critics; i++)
        critic_nets[i] = ref_net_create(networks.critic, OBS + 1);
    read_weights(policies.acting);
    read_weights(policies.critic);
}

static void close_reference(void)
{
    ref_net_destroy(actor_net);
    for (int i = 0; i < policies.critics; i++)
        ref_net_destroy(critic_nets[i]);
}

static double q_of(int critic, const float *obs, float action)
{
    static ref_tape tape;
    const float pair[OBS + 1] = {obs[0], obs[1], obs[2], action};
    ref_forward(critic_nets[critic], 0, pair, &tape);
    return tape.y[0];
}

/* The value of an observation by an action of the policy, whose density is that of atanh(action) divided by the slope
 * of tanh there [Haarnoja et al. 2018a, appendix C]. */
static double value_of(const float *obs, float action)
{
    static const double pi = 3.14159265358979323846;
    static ref_tape tape;
    double least = q_of(0, obs, action);
    for (int i = 1; i < policies.critics; i++)
        least = fmin(least, q_of(i, obs, action));
    if (!settings.has_sac)
        return least;
    ref_forward(actor_net, 0, obs, &tape);
    const double mean = tape.y[0], sigma = exp(tape.y[1]);
    const double n = (atanh((double)action) - mean) / sigma;
    const double log_prob =
        -0.5 * n * n - log(sigma) - 0.5 * log(2.0 * pi) - log(1.0 - (double)action * (double)action);
    return least - (double)0.3f * log_prob;
}

/* A vector drawn as the actor draws it. */
static float drawn_vector(const float *obs, uint32_t lane, uint64_t step)
{
    float action = (float)NAN;
    const gpur_policy_input input = {.size = sizeof input, .count = 1, .obs = obs, .lane = &lane, .step = &step};
    const gpur_policy_output output = {.size = sizeof output, .action_vectors = &action};
    return gpur_policy_act(policies.acting, &input, &output) == GPUR_OK ? action : (float)NAN;
}

/* The environment played again by the actions in the rows gives their observations to the bit, and these rewards. */
static void play_again(const gpur_actor_settings *s, int64_t count, double *rewards)
{
    const gpur_u32x4 bits = seeds_of(s);
    gpur_env_info info = {.size = sizeof info};
    void *env = NULL;
    float obs[OBS];
    CHECK(!settings.run.type->init("", joined(bits.v[0], bits.v[1]), &info, &env));
    for (int64_t t = 0; t < count; t++) {
        const float torque = 2.0f * rows[t].action;
        gpur_env_result result = {0};
        if (t % CUT == 0)
            CHECK(!settings.run.type->reset(env, obs));
        CHECK(memcmp(obs, rows[t].obs, sizeof obs) == 0);
        CHECK(!settings.run.type->step(env, &torque, obs, &result));
        rewards[t] = (double)result.reward;
    }
    settings.run.type->close(env);
}

/* By definition, from the step t on [Horgan et al. 2018, section 3.2]. */
static void check_row(int64_t t, const double *rewards)
{
    const row *const r = &rows[t];
    const int64_t n = settings.replay.n_step, left = CUT - t % CUT, steps = left < n ? left : n;
    double reward = 0.0, discount = 1.0;
    for (int64_t i = 0; i < steps; i++, discount *= (double)settings.replay.gamma)
        reward += discount * rewards[t + i];
    const float action = !settings.has_sac ? vector_of(r->next_obs, 0.0f, 0, 0)
                         : left > n        ? rows[t + n].action
                                           : drawn_vector(r->next_obs, ~1u, (uint64_t)(t + left - 1));
    const double next = value_of(r->next_obs, action);
    double error = 0.0;
    for (int i = 0; i < policies.critics; i++)
        error += fabs(reward + discount * next - q_of(i, r->obs, r->action)) / (double)policies.critics;
    CHECK_NEAR(r->reward, reward, 1e-4);
    CHECK_NEAR(r->discount, discount, 1e-6);
    CHECK_NEAR(r->priority, error, 1e-3);
    CHECK(r->terminated == 0 && r->truncated == (left <= n));
    if (left > n)
        CHECK(memcmp(r->next_obs, rows[t + n].obs, sizeof r->next_obs) == 0);
}

static void check_alone(const char *name)
{
    static double rewards[BLOCKS * 16 + 16];
    gpur_actor_settings s = {.actor = 1,
                             .epsilon = 0.3f,
                             .incarnation = 2,
                             .seed = 3,
                             .pull_period = 7,
                             .max_episode_steps = CUT,
                             .block_rows = 16,
                             .initial_priorities = 1};
    double noise = 0.0;
    begin_with(name);
    open_alone(&s);
    open_reference();
    act_alone(&s);
    const int64_t count = BLOCKS * 16 - CUT;
    for (int64_t t = 0; t < count + CUT; t++)
        read_row(t);
    play_again(&s, count + CUT, rewards);
    for (int64_t t = 0; t < count; t++) {
        check_row(t, rewards);
        if (settings.has_sac) {
            CHECK_NEAR(rows[t].action, drawn_vector(rows[t].obs, 1, (uint64_t)t), 1e-6);
            continue;
        }
        CHECK_NEAR(rows[t].action, vector_of(rows[t].obs, 0.3f, 1, (uint64_t)t), 1e-5);
        const double off = (double)(rows[t].action - vector_of(rows[t].obs, 0.0f, 0, 0));
        noise += off * off / (double)count;
    }
    CHECK(settings.has_sac || (sqrt(noise) > 0.2 && sqrt(noise) < 0.35)); /* some of it is clipped */
    close_reference();
    close_alone();
}

TEST(an_actors_vectors_and_priorities_are_those_of_their_definition)
{
    check_alone("pendulum");
    check_alone("td3");
    check_alone("sac");
}

/* Runs. */

static void check_all_arrived(void)
{
    CHECK_OK(apex_fixture_end_actors(&fixture));
    const gpur_run_stats stats = apex_fixture_stats(&fixture);
    CHECK_EQUAL(stats.apex.rows, fixture.steps);
    CHECK(stats.apex.lost_rows == 0 && stats.apex.refused_blocks == 0 && stats.apex.deaths == 0);
    CHECK(strcmp(fixture.error, "") == 0);
}

static void check_training(const char *name)
{
    gpur_learner_stats learned = {.size = sizeof learned};
    begin_with(name);
    settings.run.eval_episodes = 3;
    CHECK_OK(open_run());
    CHECK_OK(gpur_run_advance(fixture.run, 1000, 0));
    CHECK_OK(gpur_run_advance(fixture.run, 0, 120));
    const gpur_run_stats stats = apex_fixture_stats(&fixture);
    CHECK_OK(gpur_learner_get_stats(fixture.learner, &learned));
    CHECK(stats.train_steps >= 120 && learned.steps == stats.train_steps && learned.target_copies >= 1);
    CHECK_EQUAL(stats.apex.broadcasts, 1 + stats.train_steps / 10);
    CHECK(isfinite(learned.loss) && learned.policy_gradient_norm > 0.0f);
    check_all_arrived();
    CHECK_OK(gpur_run_evaluate(fixture.run, 0, 0, NULL));
    CHECK(fixture.evaluation.episodes == 3 && fixture.evaluation.length == 3 * 200);
    CHECK(fixture.apex->evaluator->epsilon == 0.0f && fixture.evaluation.mean_return < 0.0);
    CHECK(fixture.noise == 0.3f);
    apex_fixture_close(&fixture);
}

TEST(actors_in_threads_fill_the_replay_while_both_networks_are_trained)
{
    check_training("pendulum");
    check_training("td3");
    check_training("sac");
}

/* What an actor has whose first weights are others, when it has pulled. */
static void pull_with_other_weights(unsigned char *weights)
{
    static unsigned char room[1 << 20];
    const gpur_apex *const apex = fixture.apex;
    gpur_policy_config config;
    gpur_actor_policies own = {NULL};
    int64_t number = 0;
    int is_newer = 0;
    CHECK_OK(gpur_policy_config_init(&config, sizeof config));
    config.seed = 99;
    CHECK_OK(gpur_actor_policies_open(&own, apex->learner->device, &apex->format->schema, &apex->networks, 1, &config));
    CHECK_OK(gpur_shared_pull(&apex->shared, &own, room, &number, &is_newer));
    CHECK(number == gpur_shared_broadcasts(&apex->shared) && is_newer == 1);
    CHECK_OK(gpur_actor_policies_get_weights(&own, weights));
    gpur_actor_policies_close(&own);
}

/* The train steps are a multiple of broadcast_period. */
static void check_weights(const char *name)
{
    static unsigned char sent[1 << 20], wanted[1 << 20], got[1 << 20];
    float log_alpha = 0.0f;
    begin_with(name);
    CHECK_OK(open_run());
    CHECK_OK(gpur_run_advance(fixture.run, 0, 50));
    const gpur_actor_policies *const p = &fixture.apex->policies;
    const int64_t bytes = gpur_actor_policies_bytes(p);
    CHECK(bytes == fixture.apex->shared.weights_bytes && bytes <= (int64_t)sizeof sent);
    CHECK_EQUAL(gpur_shared_read(&fixture.apex->shared, sent), 1 + 50 / 10);
    CHECK_OK(gpur_policy_pull(p->acting, fixture.learner, GPUR_WEIGHTS_ONLINE));
    CHECK_OK(gpur_policy_pull(p->critic, fixture.learner, GPUR_WEIGHTS_ONLINE));
    CHECK_OK(gpur_actor_policies_get_weights(p, wanted));
    CHECK(memcmp(sent, wanted, (size_t)bytes) == 0);
    pull_with_other_weights(got);
    CHECK(memcmp(got, wanted, (size_t)bytes) == 0);
    if (settings.has_sac) {
        CHECK_OK(
            gpur_learner_read_weights(fixture.learner, GPUR_WEIGHTS_ONLINE, "temperature.log_alpha", &log_alpha, 1));
        CHECK(log_alpha != 0.0f);
        CHECK_NEAR(p->alpha, exp((double)log_alpha), 1e-6);
    }
    apex_fixture_close(&fixture);
}

TEST(actors_get_the_newest_weights_of_both_networks)
{
    check_weights("pendulum");
    check_weights("td3");
    check_weights("sac");
}

TEST(without_initial_priorities_actors_have_no_critic)
{
    begin();
    settings.apex.initial_priorities = 0;
    CHECK_OK(open_run());
    CHECK(fixture.apex->policies.critic == NULL);
    CHECK_OK(gpur_run_advance(fixture.run, 300, 20));
    check_all_arrived();
    apex_fixture_close(&fixture);
}

TEST(actors_in_processes_act_by_both_networks)
{
    static const char *const names[] = {"sac", "td3", "pendulum"};
    for (int i = 0; i < 3; i++) {
        begin_with(names[i]);
        settings.apex.command = apex_fixture_command("test_apex_dpg", "serve", names[i]);
        CHECK_OK(open_run());
        CHECK_OK(gpur_run_advance(fixture.run, 500, 0));
        CHECK_OK(apex_fixture_await_actors(&fixture, 3));
        check_all_arrived();
        apex_fixture_close(&fixture);
    }
    settings.dpg.critic.trunk[0].units = 48; /* another network than the actors' */
    CHECK_OK(open_run());
    CHECK_FAILS(gpur_run_advance(fixture.run, 300, 0), GPUR_INVALID_ARGUMENT, "the networks must be the same");
    apex_fixture_close(&fixture);
}

/* A remote actor in a thread. */

static _Atomic int is_over;
static gpur_status worked;
static char remote_error[512];

static int stop(void *user)
{
    (void)user;
    return atomic_load(&is_over);
}

static void *work(void *context)
{
    gpur_apex_config apex = settings.apex;
    apex.actors = 1;
    worked = gpur_apex_work(&settings.run, &apex, 0, &settings.replay, APEX_NETWORKS(&settings), 0, stop, NULL);
    snprintf(remote_error, sizeof remote_error, "%s", gpur_last_error());
    return context;
}

static void check_folder(const char *name)
{
    char folder[256], path[512];
    pthread_t thread;
    snprintf(folder, sizeof folder, "%s", test_file_path("apex"));
    begin_with(name);
    settings.apex.folder = folder;
    settings.apex.actors = 0;
    settings.apex.broadcast_period = 1; /* most often beside the thread that writes the folder */
    CHECK_OK(open_run());
    atomic_store(&is_over, 0);
    CHECK_EQUAL(pthread_create(&thread, NULL, work, NULL), 0);
    CHECK_OK(gpur_run_advance(fixture.run, 0, 30));
    CHECK(apex_fixture_stats(&fixture).apex.rows >= 200);
    atomic_store(&is_over, 1);
    pthread_join(thread, NULL);
    TEST_REQUIRE(worked == GPUR_OK, "the remote actor ended with %s", remote_error);
    const char *const names[] = {"model.safetensors", "critic.safetensors"};
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        CHECK_EQUAL(access(path, R_OK), 0);
    }
    apex_fixture_close(&fixture);
    test_remove_folder();
}

TEST(a_remote_actor_finds_both_networks_in_the_folder)
{
    check_folder("pendulum");
    check_folder("td3");
    check_folder("sac");
}

/* Files. */

TEST(a_run_is_resumed_with_its_learner)
{
    char folder[4096];
    snprintf(folder, sizeof folder, "%s", test_file_path("apex.safetensors"));
    *strrchr(folder, '/') = 0;
    (void)test_file_path("learner.safetensors");
    (void)test_file_path("replay.safetensors");
    begin();
    CHECK_OK(open_run());
    CHECK_OK(gpur_run_advance(fixture.run, 0, 15));
    CHECK_OK(gpur_run_save(fixture.run, folder));
    const gpur_run_stats saved = apex_fixture_stats(&fixture);
    apex_fixture_close(&fixture);
    CHECK_OK(open_run());
    CHECK_OK(gpur_run_load(fixture.run, folder, 0));
    CHECK_OK(gpur_learner_save(fixture.learner, test_file_path("again.safetensors"), NULL));
    CHECK(files_are_same(test_file_path("again.safetensors"), test_file_path("learner.safetensors")));
    CHECK_OK(gpur_run_advance(fixture.run, 0, 5));
    const gpur_run_stats stats = apex_fixture_stats(&fixture);
    CHECK_EQUAL(stats.train_steps, saved.train_steps + 5);
    CHECK(stats.env_steps >= saved.env_steps);
    apex_fixture_close(&fixture);
    test_remove_folder();
}

/* What is refused. */

static gpur_space actions;

static const char *odd_init(const char *options, uint64_t seed, gpur_env_info *info, void **env)
{
    static int odd;
    (void)options, (void)seed;
    info->obs = (gpur_space){.dtype = GPUR_FLOAT32, .shape = {OBS}, .low = -INFINITY, .high = INFINITY};
    info->action = actions;
    *env = &odd;
    return NULL;
}

static const char *odd_reset(void *env, void *obs)
{
    (void)env, (void)obs;
    return NULL;
}

static const char *odd_step(void *env, const void *action, void *obs, gpur_env_result *result)
{
    (void)env, (void)action, (void)obs, (void)result;
    return NULL;
}

static void odd_close(void *env)
{
    (void)env;
}

static const gpur_env_type odd = {
    .size = sizeof odd, .name = "odd", .init = odd_init, .reset = odd_reset, .step = odd_step, .close = odd_close};

static gpur_status create(const gpur_env_type *type)
{
    gpur_run *run = NULL;
    gpur_run_config config = settings.run;
    config.type = type;
    const gpur_status status = gpur_apex_create(fixture.learner, &config, &settings.apex, &run);
    gpur_run_destroy(run);
    return status;
}

TEST(environments_with_other_actions_are_refused)
{
    static const float lows[] = {-1.0f}, highs[] = {-1.0f};
    const gpur_space vector = {.dtype = GPUR_FLOAT32, .shape = {1}, .low = -2.0f, .high = 2.0f};
    begin();
    CHECK_OK(open_run());
    actions = vector;
    CHECK_OK(create(&odd));
    actions = (gpur_space){.dtype = GPUR_INT32, .num_actions = 2, .high = 1.0f};
    CHECK_FAILS(create(&odd), GPUR_INVALID_ARGUMENT, "actions are discrete; the network computes vectors of float32");
    actions = vector, actions.dtype = GPUR_INT32;
    CHECK_FAILS(create(&odd), GPUR_INVALID_ARGUMENT, "actions are int32");
    actions = vector, actions.shape[0] = 2;
    CHECK_FAILS(create(&odd), GPUR_INVALID_ARGUMENT, "vectors of 2 numbers, and the actor's network has 1");
    actions = vector, actions.high = INFINITY;
    CHECK_FAILS(create(&odd), GPUR_INVALID_ARGUMENT, "number 0 of the environment's actions is -2 to inf");
    actions = vector, actions.lows = lows, actions.highs = highs;
    CHECK_FAILS(create(&odd), GPUR_INVALID_ARGUMENT, "is -1 to -1; it must have finite bounds");
    settings.apex.sigma = -0.5f;
    CHECK_FAILS(create(settings.run.type), GPUR_INVALID_ARGUMENT, "sigma is -0.5; it must be 0 or more, and finite");
    gpur_run *run = NULL;
    CHECK_FAILS(gpur_apex_create(NULL, &settings.run, &settings.apex, &run), GPUR_INVALID_ARGUMENT, "NULL");
    apex_fixture_close(&fixture);
    CHECK_OK(apex_fixture_settings("cartpole", &settings));
    CHECK_OK(open_run());
    actions = vector;
    CHECK_FAILS(create(&odd), GPUR_INVALID_ARGUMENT, "actions are not discrete; the network needs discrete actions");
    apex_fixture_close(&fixture);
}

TEST(calls_without_both_networks_are_refused)
{
    begin();
    settings.apex.folder = "/nowhere";
    gpur_apex_networks networks = {sizeof networks, &settings.dpg.actor, NULL, 0, 0};
    CHECK_FAILS(gpur_apex_serve(-1, &settings.run, &settings.replay, &networks, 0), GPUR_INVALID_ARGUMENT,
                "networks.critic is NULL, and networks.acting is a policy network of DPG or SAC");
    networks = (gpur_apex_networks){sizeof networks, &settings.dpg.actor, &settings.dpg.critic, 3, 0};
    CHECK_FAILS(gpur_apex_serve(-1, &settings.run, &settings.replay, &networks, 0), GPUR_INVALID_ARGUMENT,
                "networks.critics is 3; it must be 0 to 2");
    networks = (gpur_apex_networks){sizeof networks, NULL, &settings.dpg.critic, 0, 0};
    CHECK_FAILS(gpur_apex_work(&settings.run, &settings.apex, 0, &settings.replay, &networks, 0, NULL, NULL),
                GPUR_INVALID_ARGUMENT, "networks.acting is NULL");
    CHECK_FAILS(gpur_apex_work(&settings.run, &settings.apex, 0, &settings.replay, NULL, 0, NULL, NULL),
                GPUR_INVALID_ARGUMENT, "networks must not be NULL");
}

int main(int argc, char **argv)
{
    if (argc > 3 && strcmp(argv[1], "actor") == 0)
        return apex_fixture_serve(argv[2], argv[3]);
    test_main_begin(argc, argv);
    RUN(an_actors_vectors_and_priorities_are_those_of_their_definition);
    RUN(actors_in_threads_fill_the_replay_while_both_networks_are_trained);
    RUN(actors_get_the_newest_weights_of_both_networks);
    RUN(without_initial_priorities_actors_have_no_critic);
    RUN(actors_in_processes_act_by_both_networks);
    RUN(a_remote_actor_finds_both_networks_in_the_folder);
    RUN(a_run_is_resumed_with_its_learner);
    RUN(environments_with_other_actions_are_refused);
    RUN(calls_without_both_networks_are_refused);
    return test_main_end();
}
