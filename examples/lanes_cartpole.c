/* SPDX-License-Identifier: MIT */
/*
 * Trains DQN on 64 copies of CartPole that step together, until the last 100 episodes return 475 on average. Their
 * arrays are handed to the replay where they are: each observation is stored once, and nothing is copied to the host.
 * Here the copies are stepped by the CPU. On a GPU step_lanes would be a kernel, and the arrays from gpur_device_alloc.
 *
 * usage: lanes_cartpole [seed [steps of each copy]]; exit status: 0 solved, 1 not solved, 2 an error.
 */
#include "env_random.h"

#include <gpureplay.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LANES = 64, OBS = 4, ACTIONS = 2, KEPT = 2000, BEGIN = 40, RECENT = 100, LIMIT = 500 };
enum { FIELD_OBS, FIELD_NEXT_OBS, FIELD_ACTION, FIELD_REWARD, FIELD_TERMINATED, FIELD_TRUNCATED, FIELDS };

static const gpur_field fields[FIELDS] = {
    {"obs", GPUR_FLOAT32, {OBS}},  {"next_obs", GPUR_FLOAT32, {OBS}}, {"action", GPUR_INT32, {0}},
    {"reward", GPUR_FLOAT32, {0}}, {"terminated", GPUR_BOOL, {0}},    {"truncated", GPUR_BOOL, {0}},
};

/* Passes a failure of the library on to main, which prints gpur_last_error(). */
#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        const gpur_status try_status_ = (call);                                                                        \
        if (try_status_ != GPUR_OK)                                                                                    \
            return try_status_;                                                                                        \
    } while (0)

typedef struct lanes {
    float obs[LANES][OBS];   /* cart position and velocity, pole angle and velocity */
    float final[LANES][OBS]; /* where the last step led, before an ended lane began anew */
    int32_t action[LANES];
    float reward[LANES];
    uint8_t terminated[LANES], truncated[LANES];
    int32_t length[LANES]; /* steps of the episode */
    uint64_t random;
} lanes;

static void reset_lane(lanes *l, int lane)
{
    for (int i = 0; i < OBS; i++)
        l->obs[lane][i] = (float)env_random_uniform(&l->random, -0.05, 0.05);
    l->length[lane] = 0;
}

/* CartPole's equations of motion [Barto, Sutton & Anderson 1983], as in Gymnasium's CartPole-v1: Euler's method with
 * 0.02 s, a force of 10, masses of 1 and 0.1, a pole of half length 0.5. */
static void move(float state[OBS], int32_t action)
{
    const double force = action == 1 ? 10.0 : -10.0, theta = (double)state[2], omega = (double)state[3];
    const double push = (force + 0.05 * omega * omega * sin(theta)) / 1.1;
    const double turn =
        (9.8 * sin(theta) - cos(theta) * push) / (0.5 * (4.0 / 3.0 - 0.1 * cos(theta) * cos(theta) / 1.1));
    const double acceleration = push - 0.05 * turn * cos(theta) / 1.1;
    const double next[OBS] = {(double)state[0] + 0.02 * (double)state[1], (double)state[1] + 0.02 * acceleration,
                              theta + 0.02 * omega, omega + 0.02 * turn};
    for (int i = 0; i < OBS; i++)
        state[i] = (float)next[i];
}

/* A step of all lanes. `before` gets what they saw. Lanes that end begin anew in the same step. */
static void step_lanes(lanes *l, float before[LANES][OBS])
{
    memcpy(before, l->obs, sizeof l->obs);
    for (int lane = 0; lane < LANES; lane++) {
        move(l->obs[lane], l->action[lane]);
        l->length[lane]++;
        memcpy(l->final[lane], l->obs[lane], sizeof l->final[lane]);
        l->reward[lane] = 1.0f;
        l->terminated[lane] = fabsf(l->obs[lane][0]) > 2.4f || fabsf(l->obs[lane][2]) > 0.20943951f;
        l->truncated[lane] = !l->terminated[lane] && l->length[lane] == LIMIT;
    }
}

typedef struct training {
    gpur_device *device;
    gpur_replay *replay;
    gpur_learner *learner;
    lanes lanes;
    double recent[RECENT]; /* returns of the last episodes */
    int64_t episodes;
} training;

static gpur_status open_training(training *t, uint64_t seed)
{
    gpur_replay_config replay;
    gpur_dqn_config learner;
    TRY(gpur_device_open("cpu", NULL, &t->device));
    TRY(gpur_replay_config_init(&replay, sizeof replay));
    replay.fields = fields, replay.field_count = FIELDS, replay.seed = seed;
    replay.layout = GPUR_LAYOUT_LANES, replay.lanes = LANES, replay.capacity = LANES * KEPT;
    replay.lane_autoreset = GPUR_AUTORESET_SAME_STEP;
    replay.n_step = 3, replay.gamma = 0.99f; /* three steps are joined when a batch is drawn */
    TRY(gpur_replay_create(t->device, &replay, &t->replay));
    TRY(gpur_dqn_config_init(&learner, sizeof learner));
    TRY(gpur_dqn_config_preset(&learner, "cartpole"));
    learner.network.num_actions = ACTIONS, learner.seed = seed;
    TRY(gpur_dqn_create(t->replay, &learner, &t->learner));
    t->lanes.random = seed;
    for (int lane = 0; lane < LANES; lane++)
        reset_lane(&t->lanes, lane);
    return GPUR_OK;
}

static void close_training(training *t)
{
    gpur_learner_destroy(t->learner);
    gpur_replay_destroy(t->replay);
    gpur_device_close(t->device);
}

static double recent_return(const training *t)
{
    double sum = 0.0;
    for (int i = 0; i < RECENT; i++)
        sum += t->recent[i];
    return t->episodes < RECENT ? 0.0 : sum / RECENT;
}

static void end_episodes(training *t)
{
    for (int lane = 0; lane < LANES; lane++)
        if (t->lanes.terminated[lane] || t->lanes.truncated[lane]) {
            t->recent[t->episodes++ % RECENT] = t->lanes.length[lane];
            reset_lane(&t->lanes, lane);
        }
}

static gpur_status train(training *t, int64_t steps)
{
    float before[LANES][OBS];
    lanes *const l = &t->lanes;
    const void *const arrays[FIELDS] = {before, l->final, l->action, l->reward, l->terminated, l->truncated};
    for (int64_t step = 1; step <= steps && recent_return(t) < 475.0; step++) {
        const float epsilon = step < BEGIN ? 1.0f : 0.02f;
        TRY(gpur_learner_act(t->learner, LANES, l->obs, epsilon, l->action, NULL));
        step_lanes(l, before);
        TRY(gpur_replay_add_lanes(t->replay, arrays, NULL));
        end_episodes(t);
        if (step >= BEGIN)
            TRY(gpur_learner_train(t->learner, LANES / 2));
        if (step % 200 == 0)
            printf("%6" PRId64 " steps of %d lanes, %6" PRId64 " episodes, the last %d return %.1f\n", step, LANES,
                   t->episodes, RECENT, recent_return(t)),
                fflush(stdout);
    }
    return gpur_learner_sync(t->learner);
}

int main(int argc, char **argv)
{
    static training t;
    const int64_t seed = argc > 1 ? strtoll(argv[1], NULL, 10) : 1,
                  steps = argc > 2 ? strtoll(argv[2], NULL, 10) : 4000;
    gpur_status status = open_training(&t, (uint64_t)seed);
    if (status == GPUR_OK)
        status = train(&t, steps);
    if (status != GPUR_OK)
        fprintf(stderr, "%s\n", gpur_last_error());
    const int is_solved = recent_return(&t) >= 475.0;
    if (status == GPUR_OK)
        printf("%s: the last %d of %" PRId64 " episodes return %.1f\n", is_solved ? "solved" : "not solved", RECENT,
               t.episodes, recent_return(&t));
    close_training(&t);
    return status != GPUR_OK ? 2 : !is_solved;
}
