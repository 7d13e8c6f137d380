/* SPDX-License-Identifier: MIT */
/* Environments that step together do what each does alone. */
#include "gpureplay/env.h"
#include "test.h"

enum { ENVS = 5, STEPS = 600, MAX_OBS = 1000 /* bytes of the longest observation */ };

/* The arrays of a vector, and what one environment of its own type would show. */
typedef struct vector {
    const gpur_env_type *type;
    gpur_env_info info;
    gpur_envs *envs;
    size_t obs_bytes;
    unsigned char obs[ENVS * MAX_OBS], final[ENVS * MAX_OBS];
    float reward[ENVS];
    uint8_t terminated[ENVS], truncated[ENVS], continues[ENVS];
    gpur_vector_result result;
} vector;

static const uint64_t seeds[ENVS] = {3, 4, 5, 6, 7};

static gpur_status open_vector(vector *v, const gpur_env_type *type, const char *options, int32_t autoreset)
{
    memset(v, 0, sizeof *v);
    v->type = type;
    v->info.size = sizeof v->info;
    v->result = (gpur_vector_result){.next_obs = v->obs,
                                     .final_obs = v->final,
                                     .reward = v->reward,
                                     .terminated = v->terminated,
                                     .truncated = v->truncated,
                                     .continues = v->continues};
    const gpur_status status = gpur_env_get_info(type, options, &v->info);
    v->obs_bytes = v->info.obs.dtype == GPUR_FLOAT32 ? sizeof(float) : 1;
    for (int i = 0; v->info.obs.shape[i]; i++)
        v->obs_bytes *= (size_t)v->info.obs.shape[i];
    return status != GPUR_OK ? status : gpur_envs_create(type, options, seeds, ENVS, autoreset, &v->envs);
}

static const gpur_env_type *game(int32_t i)
{
    const gpur_env_type *type = NULL;
    return gpur_env_name(i) && gpur_env_find(gpur_env_name(i), &type) == GPUR_OK ? type : NULL;
}

/* One environment alone, with the limit of steps that runs keep. */
typedef struct single {
    void *env;
    int is_open;
    unsigned char obs[MAX_OBS];
    gpur_env_result result;
} single;

static int begin_single(const vector *v, single *s)
{
    s->is_open = 1;
    return v->type->reset(s->env, s->obs) == NULL;
}

static int is_same(const vector *v, const unsigned char *obs, const single *s, int i)
{
    return memcmp(obs + (size_t)i * v->obs_bytes, s->obs, v->obs_bytes) == 0;
}

/* Steps a single environment as its twin in the vector has been stepped, and compares them. */
static int agrees(const vector *v, single *s, int i, const void *action, int32_t autoreset)
{
    if (!s->is_open)
        return begin_single(v, s) && is_same(v, v->obs, s, i) && v->reward[i] == 0.0f && !v->terminated[i] &&
               !v->truncated[i];
    if (v->type->step(s->env, action, s->obs, &s->result))
        return 0;
    s->is_open = !s->result.terminated && !s->result.truncated;
    const int is_final = !s->is_open && autoreset == GPUR_AUTORESET_SAME_STEP;
    int same = is_same(v, is_final ? v->final : v->obs, s, i) && v->reward[i] == s->result.reward &&
               v->terminated[i] == s->result.terminated && v->truncated[i] == s->result.truncated;
    if (is_final)
        same = same && begin_single(v, s) && is_same(v, v->obs, s, i);
    return same;
}

/* Of a discrete game a number of an action, otherwise a torque: four bytes each. */
static void choose(const vector *v, int step, void *actions)
{
    for (int i = 0; i < ENVS; i++) {
        const int32_t count = v->info.action.num_actions, number = (step * 7 + step / 5 + i) % (count ? count : 5);
        const float torque = (float)number - 2.0f;
        memcpy((int32_t *)actions + i, count ? (const void *)&number : (const void *)&torque, sizeof number);
    }
}

static void check_game(const gpur_env_type *type, int32_t autoreset)
{
    vector v;
    single singles[ENVS];
    int32_t actions[ENVS];
    CHECK_OK(open_vector(&v, type, "max_steps=90", autoreset));
    CHECK_OK(gpur_envs_reset(v.envs, NULL, NULL, v.obs));
    for (int i = 0; i < ENVS; i++) {
        gpur_env_info info = {.size = sizeof info};
        CHECK(!type->init("max_steps=90", seeds[i], &info, &singles[i].env) && begin_single(&v, &singles[i]));
        CHECK(is_same(&v, v.obs, &singles[i], i));
    }
    for (int step = 0; step < STEPS; step++) {
        choose(&v, step, actions);
        CHECK_OK(gpur_envs_step(v.envs, actions, &v.result));
        for (int i = 0; i < ENVS; i++)
            TEST_REQUIRE(agrees(&v, &singles[i], i, &actions[i], autoreset), "%s, step %d: environment %d differs",
                         type->name, step, i);
    }
    for (int i = 0; i < ENVS; i++)
        type->close(singles[i].env);
    gpur_envs_destroy(v.envs);
}

TEST(environments_together_do_what_each_does_alone)
{
    for (int32_t i = 0; game(i); i++) {
        check_game(game(i), GPUR_AUTORESET_NEXT_STEP);
        check_game(game(i), GPUR_AUTORESET_SAME_STEP);
    }
}

TEST(seeds_begin_anew_and_a_mask_leaves_others_as_they_are)
{
    vector v;
    unsigned char first[ENVS * MAX_OBS], before[ENVS * MAX_OBS];
    int32_t actions[ENVS];
    const uint8_t mask[ENVS] = {0, 1, 0, 0, 1};
    CHECK_OK(open_vector(&v, game(0), "", GPUR_AUTORESET_DISABLED));
    CHECK_FAILS(gpur_envs_reset(v.envs, NULL, mask, v.obs), GPUR_INVALID_ARGUMENT, "the mask leaves out 3 of 5");
    CHECK_OK(gpur_envs_reset(v.envs, NULL, NULL, first));
    CHECK_OK(gpur_envs_reset(v.envs, NULL, NULL, v.obs));
    CHECK(memcmp(first, v.obs, ENVS * v.obs_bytes) != 0);
    CHECK_OK(gpur_envs_reset(v.envs, seeds, NULL, v.obs));
    CHECK(memcmp(first, v.obs, ENVS * v.obs_bytes) == 0);
    choose(&v, 0, actions);
    CHECK_OK(gpur_envs_step(v.envs, actions, &v.result));
    memcpy(before, v.obs, sizeof before);
    CHECK_OK(gpur_envs_reset(v.envs, seeds, mask, v.obs));
    for (size_t i = 0; i < ENVS; i++)
        CHECK(memcmp(v.obs + i * v.obs_bytes, (mask[i] ? first : before) + i * v.obs_bytes, v.obs_bytes) == 0);
    gpur_envs_destroy(v.envs);
}

TEST(a_refused_step_changes_nothing)
{
    vector v, other;
    int32_t good[ENVS] = {0}, bad[ENVS] = {0, 1, 0, 2, 0};
    CHECK_OK(open_vector(&v, game(0), "", GPUR_AUTORESET_NEXT_STEP));
    CHECK_OK(open_vector(&other, game(0), "", GPUR_AUTORESET_NEXT_STEP));
    CHECK_FAILS(gpur_envs_step(v.envs, good, &v.result), GPUR_INVALID_ARGUMENT, "all must be reset at first");
    CHECK_OK(gpur_envs_reset(v.envs, NULL, NULL, v.obs));
    CHECK_OK(gpur_envs_reset(other.envs, NULL, NULL, other.obs));
    CHECK_FAILS(gpur_envs_step(v.envs, bad, &v.result), GPUR_INVALID_ARGUMENT,
                "the action of environment 3 is 2; it must be 0 to 1");
    bad[3] = -1;
    CHECK_FAILS(gpur_envs_step(v.envs, bad, &v.result), GPUR_INVALID_ARGUMENT, "environment 3 is -1");
    CHECK_OK(gpur_envs_step(v.envs, good, &v.result));
    CHECK_OK(gpur_envs_step(other.envs, good, &other.result));
    CHECK(memcmp(v.obs, other.obs, ENVS * v.obs_bytes) == 0);
    gpur_envs_destroy(v.envs);
    gpur_envs_destroy(other.envs);
}

TEST(without_autoreset_an_ended_episode_must_be_reset)
{
    vector v;
    const int32_t actions[ENVS] = {0};
    CHECK_OK(open_vector(&v, game(0), "max_steps=2", GPUR_AUTORESET_DISABLED));
    CHECK_OK(gpur_envs_reset(v.envs, NULL, NULL, v.obs));
    CHECK_OK(gpur_envs_step(v.envs, actions, &v.result));
    CHECK(!v.truncated[0]);
    CHECK_OK(gpur_envs_step(v.envs, actions, &v.result));
    CHECK(v.truncated[0] && !v.terminated[0]);
    CHECK_FAILS(gpur_envs_step(v.envs, actions, &v.result), GPUR_INVALID_ARGUMENT,
                "the episode of environment 0 has ended");
    CHECK_OK(gpur_envs_reset(v.envs, NULL, NULL, v.obs));
    CHECK_OK(gpur_envs_step(v.envs, actions, &v.result));
    gpur_envs_destroy(v.envs);
}

/* A game that knows no limit of its own: each fourth step loses a life. With the option "broken" that step
 * fails. */
typedef struct lives {
    int32_t steps, is_broken;
} lives;

static const char *lives_init(const char *options, uint64_t seed, gpur_env_info *info, void **env)
{
    *info = (gpur_env_info){
        .size = info->size, .obs = {.dtype = GPUR_FLOAT32}, .action = {.dtype = GPUR_FLOAT32}, .max_steps = 9};
    lives *const made = *env = calloc(1, sizeof *made);
    made->is_broken = strcmp(options, "broken") == 0 && seed == seeds[2];
    return NULL;
}

static const char *lives_reset(void *env, void *obs)
{
    *(float *)obs = (float)((lives *)env)->steps;
    return NULL;
}

static const char *lives_step(void *env, const void *action, void *obs, gpur_env_result *result)
{
    lives *const l = env;
    *(float *)obs = *(const float *)action + (float)++l->steps;
    *result = (gpur_env_result){.reward = 1, .terminated = l->steps % 4 == 0, .continues = l->steps % 4 == 0};
    return l->is_broken && l->steps == 4 ? "it is broken" : NULL;
}

static const gpur_env_type lives_type = {.size = sizeof lives_type,
                                         .name = "Lives",
                                         .init = lives_init,
                                         .reset = lives_reset,
                                         .step = lives_step,
                                         .close = free};

/* Its game of at most 9 steps has lives of 4, 4 and 1. */
TEST(a_game_is_truncated_at_its_max_steps_over_all_its_lives)
{
    vector v;
    const float actions[ENVS] = {0};
    CHECK_OK(open_vector(&v, &lives_type, "", GPUR_AUTORESET_SAME_STEP));
    CHECK_OK(gpur_envs_reset(v.envs, NULL, NULL, v.obs));
    for (int step = 1; step <= 18; step++) {
        CHECK_OK(gpur_envs_step(v.envs, actions, &v.result));
        CHECK_EQUAL(v.truncated[4], step == 9 || step == 18);
        CHECK_EQUAL(v.terminated[4], step % 4 == 0);
        CHECK_EQUAL(v.continues[4], v.terminated[4]);
    }
    gpur_envs_destroy(v.envs);
}

TEST(after_an_environment_has_failed_all_must_be_reset)
{
    vector v;
    const float actions[ENVS] = {0};
    const uint8_t mask[ENVS] = {1};
    CHECK_OK(open_vector(&v, &lives_type, "broken", GPUR_AUTORESET_NEXT_STEP));
    CHECK_OK(gpur_envs_reset(v.envs, NULL, NULL, v.obs));
    for (int step = 0; step < 3; step++)
        CHECK_OK(gpur_envs_step(v.envs, actions, &v.result));
    CHECK_FAILS(gpur_envs_step(v.envs, actions, &v.result), GPUR_INVALID_ARGUMENT, "environment 2: it is broken");
    CHECK_FAILS(gpur_envs_step(v.envs, actions, &v.result), GPUR_INVALID_ARGUMENT, "after a call that failed");
    CHECK_FAILS(gpur_envs_reset(v.envs, NULL, mask, v.obs), GPUR_INVALID_ARGUMENT, "leaves out 4 of 5");
    CHECK_OK(gpur_envs_reset(v.envs, NULL, NULL, v.obs));
    CHECK_OK(gpur_envs_step(v.envs, actions, &v.result));
    gpur_envs_destroy(v.envs);
}

TEST(environments_that_cannot_be_made_are_refused)
{
    gpur_envs *envs = (gpur_envs *)&seeds;
    gpur_env_type no_step = lives_type;
    no_step.step = NULL;
    CHECK_FAILS(gpur_envs_create(game(0), "", seeds, 0, GPUR_AUTORESET_NEXT_STEP, &envs), GPUR_INVALID_ARGUMENT,
                "num_envs is 0; it must be at least 1");
    CHECK(!envs);
    CHECK_FAILS(gpur_envs_create(game(0), "", seeds, 1, 3, &envs), GPUR_INVALID_ARGUMENT, "autoreset is 3");
    CHECK_FAILS(gpur_envs_create(game(0), "", NULL, 1, 0, &envs), GPUR_INVALID_ARGUMENT, "seeds is NULL");
    CHECK_FAILS(gpur_envs_create(game(0), "speed=1", seeds, 1, 0, &envs), GPUR_INVALID_ARGUMENT,
                "CartPole-v1 has no option \"speed\"");
    CHECK_FAILS(gpur_envs_create(&no_step, "", seeds, 1, 0, &envs), GPUR_INVALID_ARGUMENT, "no function step");
    CHECK_FAILS(gpur_envs_reset(NULL, NULL, NULL, &envs), GPUR_INVALID_ARGUMENT, "envs or obs is NULL");
    CHECK_FAILS(gpur_envs_step(NULL, NULL, NULL), GPUR_INVALID_ARGUMENT, "envs, actions or result is NULL");
    gpur_envs_destroy(NULL);
    CHECK_OK(gpur_envs_create(game(0), "", seeds, 1, GPUR_AUTORESET_SAME_STEP, &envs));
    float obs[4], reward;
    uint8_t flags[3];
    const gpur_vector_result no_final = {obs, NULL, &reward, &flags[0], &flags[1], &flags[2]};
    const int32_t action = 0;
    CHECK_OK(gpur_envs_reset(envs, NULL, NULL, obs));
    CHECK_FAILS(gpur_envs_step(envs, &action, &no_final), GPUR_INVALID_ARGUMENT, "final_obs of result is NULL");
    gpur_envs_destroy(envs);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(environments_together_do_what_each_does_alone);
    RUN(seeds_begin_anew_and_a_mask_leaves_others_as_they_are);
    RUN(a_refused_step_changes_nothing);
    RUN(without_autoreset_an_ended_episode_must_be_reset);
    RUN(a_game_is_truncated_at_its_max_steps_over_all_its_lives);
    RUN(after_an_environment_has_failed_all_must_be_reset);
    RUN(environments_that_cannot_be_made_are_refused);
    return test_main_end();
}
