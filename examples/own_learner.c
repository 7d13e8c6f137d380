/* SPDX-License-Identifier: MIT */
/*
 * A learner of your own, with a replay that does the rest: frames that are stored once and sampled as stacks, 3-step
 * returns, prioritized sampling, and a file from which training continues.
 *
 * The game: a light moves along ten lamps and turns back at the ends. The action is a guess where it goes next (0:
 * left, 1: right). A right guess has reward 1; a wrong guess ends the game. One frame does not show the direction; two
 * do.
 */
#include <gpureplay.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GAMES = 4, LAMPS = 10, STACK = 2, LONGEST = 50, STEPS = 3000, BATCH = 32 };

/* Ends the program with the library's error message if a call failed. */
static void must(gpur_status status)
{
    if (status == GPUR_OK)
        return;
    fprintf(stderr, "%s: %s\n", gpur_status_name(status), gpur_last_error());
    exit(1);
}

static gpur_replay *make_replay(gpur_device *device)
{
    const gpur_field fields[] = {
        {"obs", GPUR_UINT8, {STACK, LAMPS}},      {"action", GPUR_INT32, {0}},    {"reward", GPUR_FLOAT32, {0}},
        {"next_obs", GPUR_UINT8, {STACK, LAMPS}}, {"terminated", GPUR_BOOL, {0}}, {"truncated", GPUR_BOOL, {0}},
        {"discount", GPUR_FLOAT32, {0}},
    };
    gpur_replay_config config;
    must(gpur_replay_config_init(&config, sizeof config));
    config.capacity = 5000, config.min_size = 200, config.fields = fields, config.field_count = 7;
    config.layout = GPUR_LAYOUT_FRAMES, config.frame_stack = STACK, config.stack_pad = GPUR_PAD_ZERO;
    config.extra_frames = 1000; /* games are short, and an episode has one frame more than it has transitions */
    config.n_step = 3, config.gamma = 0.9f;
    config.prioritized = 1;
    config.beta.first = 0.4f, config.beta.last = 1.0f, config.beta.steps = 2 * STEPS; /* counted in samples */
    gpur_replay *replay;
    must(gpur_replay_create(device, &config, &replay));
    return replay;
}

/* The writer gets only the newest frame, and offers no stack to act on. So the games build the stacks themselves, in
 * `seen`, padded in the same way as in the replay (stack_pad): with zeros. */
typedef struct games {
    int32_t lamp[GAMES], way[GAMES], age[GAMES], action[GAMES]; /* way: -1 or 1 */
    uint8_t seen[GAMES][STACK][LAMPS], frame[GAMES][LAMPS], terminated[GAMES], truncated[GAMES];
    float reward[GAMES];
} games;

static void look(games *g, int i)
{
    memset(g->frame[i], 0, LAMPS);
    g->frame[i][g->lamp[i]] = 1;
    memmove(g->seen[i][0], g->seen[i][1], LAMPS);
    memcpy(g->seen[i][1], g->frame[i], LAMPS);
}

static void begin(games *g, int i, gpur_writer *writer)
{
    g->lamp[i] = rand() % LAMPS, g->way[i] = rand() % 2 ? 1 : -1, g->age[i] = 0;
    memset(g->seen[i], 0, sizeof g->seen[i]);
    look(g, i);
    must(gpur_writer_reset(writer, i, g->frame[i]));
}

static int32_t next_way(int32_t lamp, int32_t way)
{
    return lamp + way < 0 || lamp + way >= LAMPS ? -way : way;
}

static void step(games *g, gpur_writer *writer)
{
    for (int i = 0; i < GAMES; i++) {
        g->way[i] = next_way(g->lamp[i], g->way[i]);
        g->lamp[i] += g->way[i];
        g->terminated[i] = g->action[i] != (g->way[i] == 1);
        g->truncated[i] = !g->terminated[i] && ++g->age[i] == LONGEST;
        g->reward[i] = g->terminated[i] ? 0.0f : 1.0f;
        look(g, i);
    }
    must(gpur_writer_step(writer, g->action, g->reward, g->frame, g->terminated, g->truncated));
    for (int i = 0; i < GAMES; i++)
        if (g->terminated[i] || g->truncated[i])
            begin(g, i, writer);
}

/* The learner: a table of action values by the lamp that was lit before (LAMPS: none) and the lamp that is lit now.
 * Yours would be a network. */
typedef struct table {
    float q[LAMPS + 1][LAMPS][2];
} table;

static float *values_of(table *t, const uint8_t *stack)
{
    const uint8_t *const before = memchr(stack, 1, LAMPS), *const now = memchr(stack + LAMPS, 1, LAMPS);
    return t->q[before ? before - stack : LAMPS][now - (stack + LAMPS)];
}

/* One train step. A learner on the device would read the batch in place; the table is in host memory, so the arrays are
 * copied there. */
static void learn(table *t, gpur_replay *replay, gpur_device *device)
{
    uint8_t obs[BATCH][STACK * LAMPS], next_obs[BATCH][STACK * LAMPS];
    int32_t action[BATCH];
    int64_t id[BATCH];
    float reward[BATCH], discount[BATCH], weight[BATCH], error[BATCH];
    gpur_batch_view at = {.size = sizeof at};
    gpur_batch *batch;
    must(gpur_replay_sample(replay, BATCH, NULL, &batch));
    must(gpur_batch_get_view(batch, &at));
    must(gpur_device_copy(device, obs, at.obs, sizeof obs)); /* waits until the batch is complete */
    must(gpur_device_copy(device, next_obs, at.next_obs, sizeof next_obs));
    must(gpur_device_copy(device, action, at.action, sizeof action));
    must(gpur_device_copy(device, reward, at.reward, sizeof reward));       /* r0 + gamma r1 + gamma^2 r2 */
    must(gpur_device_copy(device, discount, at.discount, sizeof discount)); /* gamma^3; 0 if the game ended */
    must(gpur_device_copy(device, weight, at.weight, sizeof weight));
    must(gpur_device_copy(device, id, at.id, sizeof id));
    gpur_batch_release(batch);
    for (int i = 0; i < BATCH; i++) {
        const float *const next = values_of(t, next_obs[i]);
        float *const q = &values_of(t, obs[i])[action[i]];
        const float wrong_by = reward[i] + discount[i] * fmaxf(next[0], next[1]) - *q;
        *q += 0.1f * weight[i] * wrong_by;
        error[i] = fabsf(wrong_by);
    }
    must(gpur_replay_update_priorities(replay, BATCH, id, error, NULL));
}

/* Chooses an action in each game: with probability 1/4 at random, else the better one. */
static void choose(table *t, games *g)
{
    for (int i = 0; i < GAMES; i++) {
        const float *const q = values_of(t, g->seen[i][0]);
        g->action[i] = rand() % 4 == 0 ? rand() % 2 : q[1] > q[0];
    }
}

/* Plays and learns, and saves the replay to the file at the end. If `resumes` is 1, loads the file first. Returns the
 * share of right guesses. */
static float train(table *t, gpur_device *device, const char *file, int resumes)
{
    games g = {0};
    float right = 0.0f;
    gpur_writer *writer;
    gpur_replay *const replay = make_replay(device);
    const gpur_writer_config config = {
        .size = sizeof config, .num_envs = GAMES, .observations = GPUR_OBSERVATIONS_FRAMES};
    must(gpur_writer_open(replay, &config, &writer));
    if (resumes)
        must(gpur_replay_load(replay, file, NULL)); /* transitions, priorities, counters, open n-step returns */
    printf("%lld transitions to begin with\n", (long long)gpur_replay_size(replay));
    for (int i = 0; i < GAMES; i++)
        begin(&g, i, writer); /* games are not saved: the loaded open episodes end as if truncated */
    for (int s = 0; s < STEPS; s++) {
        choose(t, &g);
        step(&g, writer);
        for (int i = 0; i < GAMES; i++)
            right += g.reward[i];
        if (gpur_replay_can_sample(replay))
            learn(t, replay, device);
    }
    must(gpur_replay_save(replay, file, NULL));
    gpur_writer_destroy(writer);
    gpur_replay_destroy(replay);
    return right / (GAMES * STEPS);
}

/* The number of possible pairs of frames, and for how many of them the greedy guess is right. */
static int right_guesses(const table *t, int *pairs)
{
    int right = 0;
    for (int lamp = *pairs = 0; lamp < LAMPS; lamp++)
        for (int way = -1; way <= 1; way += 2) {
            if (lamp - way < 0 || lamp - way >= LAMPS)
                continue;
            const float *const q = t->q[lamp - way][lamp];
            right += (q[1] > q[0]) == (next_way(lamp, way) == 1);
            ++*pairs;
        }
    return right;
}

int main(int argc, char **argv)
{
    const char *const file = argc > 2 ? argv[2] : "own_learner.safetensors";
    gpur_device *device;
    static table t;
    int pairs;
    must(gpur_device_open(argc > 1 ? argv[1] : "auto", NULL, &device));
    train(&t, device, file, 0);
    const float share = train(&t, device, file, 1); /* below 1: the first frame shows no direction, and 1/4 is random */
    const int right = right_guesses(&t, &pairs);
    printf("%d of %d pairs of frames are guessed right, and in play %.0f%%\n", right, pairs, 100.0f * share);
    gpur_device_close(device);
    remove(file);
    return right == pairs && share > 0.75f ? 0 : 1;
}
