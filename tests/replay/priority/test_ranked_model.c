/* SPDX-License-Identifier: MIT */
/*
 * All of it together, at the ring's head and its end: random schedules over a packed and two linked replays, all
 * prioritized, beside the history and the priorities by definition. n steps, episodes that are truncated, autoreset,
 * stacks, many environments and writers, updates with stale, repeated and bad ones among them.
 */
#include "support/linked_kit.h"
#include "support/rank_model.h"
#include "support/replay_kit.h"
#include "test.h"

#include <math.h>

enum { ROUNDS = 900, OPERATIONS = 300, MOST = 32 };

/* A world and the priorities of each of its replays. */
typedef struct ranked {
    linked_world world;
    rank_model ranks[LINKED_REPLAYS];
} ranked;

static linked_setting setting_of(uint64_t seed, uint64_t *random)
{
    linked_setting s = {
        .shape = {1 + (int32_t)kit_below(random, 4), (int32_t)kit_below(random, 2)},
        .writers = 1 + (int32_t)kit_below(random, LINKED_WRITERS),
        .envs = 1 + (int32_t)kit_below(random, PLAY_ENVS),
        .autoreset = (int32_t)kit_below(random, 3),
        .ends_in = 1 + (int32_t)kit_below(random, seed % 4 ? 12 : 200),
        .repeats = (int32_t)kit_below(random, 2),
        .capacity = 4 + kit_below(random, seed % 5 ? 60 : 400),
        .n_step = 1 + (int32_t)kit_below(random, 6),
        .flush = (int32_t)kit_below(random, 2),
        .staging_blocks = 2 + (int32_t)kit_below(random, 3),
        .index_source = kit_below(random, 2) ? GPUR_PRIORITIZED : GPUR_PRIORITIZED_PLAIN,
        .prioritized = 1,
        .alpha = kit_below(random, 5) ? 1.0f : 0.0f,
        .priority_offset = kit_below(random, 2) ? 0.0f : 0.0009765625f,
    };
    s.update_size = 1 + kit_below(random, s.capacity / 2);
    s.max_batch = 1 + kit_below(random, s.capacity - s.update_size < MOST ? s.capacity - s.update_size : MOST);
    s.frame_slack = kit_below(random, 4) ? 1 + kit_below(random, s.capacity) : 0;
    return s;
}

static void check_drawn(const gpur_batch *batch, const int64_t *ids, const double *weights, int64_t count)
{
    int64_t got[MOST];
    float weighed[MOST];
    CHECK_OK(gpur_batch_read((gpur_batch *)batch, "id", got, count * (int64_t)sizeof *got));
    CHECK_OK(gpur_batch_read((gpur_batch *)batch, "weight", weighed, count * (int64_t)sizeof *weighed));
    for (int64_t b = 0; b < count; b++) {
        CHECK_EQUAL(got[b], ids[b]);
        CHECK_NEAR(weighed[b], weights[b], 1e-5);
    }
}

/* Of one replay: what is drawn is what the priorities say, and what the history says it is. */
static void draw(ranked *k, int r)
{
    linked_world *const w = &k->world;
    rank_model *const m = &k->ranks[r];
    gpur_replay *const replay = w->replays[r];
    const int64_t count = 1 + kit_below(&w->random, w->setting.max_batch);
    gpur_batch *batch = NULL;
    int64_t ids[MOST];
    double weights[MOST];
    CHECK_OK(rank_look(m, replay));
    if (m->count == 0) {
        CHECK_STATUS(gpur_replay_sample(replay, count, NULL, &batch), GPUR_TOO_FEW);
        return;
    }
    rank_draw(m, count, w->setting.index_source == GPUR_PRIORITIZED, 0.4, ids, weights);
    CHECK_OK(gpur_replay_sample(replay, count, NULL, &batch));
    check_drawn(batch, ids, weights, count);
    CHECK_EQUAL(play_wrong(batch, w->setting.shape, &w->all), 0);
    gpur_batch_release(batch);
}

static float random_priority(uint64_t *random)
{
    const int64_t dice = kit_below(random, 20);
    if (dice < 3)
        return dice == 0 ? 0.0f : dice == 1 ? NAN : -1.0f;
    return (float)kit_below(random, 256) / 64.0f;
}

static void update(ranked *k, int r)
{
    linked_world *const w = &k->world;
    rank_model *const m = &k->ranks[r];
    const int64_t count = 1 + kit_below(&w->random, w->setting.max_batch);
    int64_t ids[MOST];
    float priorities[MOST];
    CHECK_OK(rank_look(m, w->replays[r]));
    for (int64_t i = 0; i < count; i++) {
        ids[i] = m->first - 3 + kit_below(&w->random, m->count + 6);
        priorities[i] = random_priority(&w->random);
    }
    if (m->count == 0)
        return;
    CHECK_OK(gpur_replay_update_priorities(w->replays[r], count, ids, priorities, NULL));
    rank_update(m, count, ids, priorities);
}

static void compare(ranked *k, int r)
{
    const char *const differs = rank_differs(&k->ranks[r], k->world.replays[r], k->world.setting.max_batch);
    TEST_REQUIRE(!differs, "replay %d: %s", r, differs);
}

static void operate(ranked *k)
{
    linked_world *const w = &k->world;
    play *const p = &w->plays[kit_below(&w->random, w->setting.writers)];
    const int64_t dice = kit_below(&w->random, 100);
    if (dice < 77)
        CHECK_OK(play_step(p));
    else if (dice < 80)
        CHECK_OK(play_reset(p, (int32_t)kit_below(&w->random, p->history.num_envs)));
    else if (dice < 86)
        for (int r = 0; r < LINKED_REPLAYS; r++)
            CHECK_OK(gpur_writer_flush(p->writers[r]));
    else
        for (int r = 0; r < LINKED_REPLAYS; r++) {
            draw(k, r);
            if (dice < 94)
                update(k, r);
            if (dice > 97)
                compare(k, r);
        }
}

static int failed(void)
{
    return atomic_load(&test_state.failures) > 0;
}

/* Adds the steps that it played. */
static void round_of(uint64_t seed, int64_t *steps)
{
    uint64_t random = seed * 88888 + 1;
    const linked_setting setting = setting_of(seed, &random);
    ranked k;
    CHECK(linked_open(&k.world, test_device(), &setting, seed));
    for (int r = 0; r < LINKED_REPLAYS; r++)
        rank_begin(&k.ranks[r], &k.world.config);
    for (int i = 0; i < OPERATIONS && !failed(); i++)
        operate(&k);
    for (int r = 0; r < LINKED_REPLAYS; r++)
        rank_end(&k.ranks[r]);
    *steps += k.world.all.count; /* each step begins one transition */
    linked_close(&k.world);
}

/* Half a million steps, ten times as many with the long form; fewer where each one is slower. */
TEST(rows_frames_and_priorities_agree_with_the_history)
{
    const uint64_t rounds = test_rounds(ROUNDS);
    int64_t steps = 0;
    for (uint64_t seed = 0; seed < rounds; seed++) {
        round_of(seed, &steps);
        if (failed())
            fprintf(stderr, "seed %d\n", (int)seed);
        CHECK(!failed());
    }
    printf("  %lld steps\n", (long long)steps);
    CHECK(rounds < 50 || steps >= (int64_t)rounds * 500000 / ROUNDS); /* of few rounds, all may be short ones */
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(rows_frames_and_priorities_agree_with_the_history);
    return test_main_end();
}
