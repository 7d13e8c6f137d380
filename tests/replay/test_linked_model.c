/* SPDX-License-Identifier: MIT */
/*
 * Random schedules over a packed and two linked replays, beside the history by definition: n steps, autoreset, stacks
 * and frames, both axes and pads, any number of environments and writers, publishes of any size, the rings' ends.
 */
#include "support/linked_kit.h"
#include "support/replay_kit.h"
#include "test.h"

enum { ROUNDS = 900, OPERATIONS = 300 };

static linked_setting setting_of(uint64_t seed, uint64_t *random)
{
    linked_setting s = {
        .shape = {1 + (int32_t)kit_below(random, 5), (int32_t)kit_below(random, 2)},
        .writers = 1 + (int32_t)kit_below(random, LINKED_WRITERS),
        .envs = seed % 3 ? 1 + (int32_t)kit_below(random, PLAY_ENVS) : 1,
        .autoreset = (int32_t)kit_below(random, 3),
        .ends_in = 1 + (int32_t)kit_below(random, seed % 4 ? 12 : 200),
        .repeats = (int32_t)kit_below(random, 2),
        .capacity = 4 + kit_below(random, seed % 5 ? 60 : 400),
        .n_step = seed % 2 ? 1 : 1 + (int32_t)kit_below(random, 6),
        .flush = (int32_t)kit_below(random, 2),
        .staging_blocks = 2 + (int32_t)kit_below(random, 3),
        .index_source = GPUR_UNIFORM + (int32_t)kit_below(random, 2),
    };
    s.update_size = 1 + kit_below(random, s.capacity / 2);
    s.max_batch = 1 + kit_below(random, s.capacity - s.update_size < 32 ? s.capacity - s.update_size : 32);
    s.frame_slack = kit_below(random, 4) ? 1 + kit_below(random, s.capacity) : 0;
    return s;
}

static void operate(linked_world *w)
{
    play *const p = &w->plays[kit_below(&w->random, w->setting.writers)];
    const int64_t dice = kit_below(&w->random, 100);
    if (dice < 80)
        CHECK_OK(play_step(p));
    else if (dice < 83)
        CHECK_OK(play_reset(p, (int32_t)kit_below(&w->random, p->history.num_envs)));
    else if (dice < 90)
        for (int r = 0; r < LINKED_REPLAYS; r++)
            CHECK_OK(gpur_writer_flush(p->writers[r]));
    else if (dice < 98)
        CHECK_EQUAL(linked_draws_differ(w, 1 + kit_below(&w->random, w->setting.max_batch)), 0);
    else
        CHECK_EQUAL(linked_wrong(w, w->setting.max_batch), 0);
}

static int failed(void)
{
    return atomic_load(&test_state.failures) > 0;
}

/* Adds the steps that it played. */
static void round_of(uint64_t seed, int64_t *steps)
{
    uint64_t random = seed * 77777 + 1;
    const linked_setting setting = setting_of(seed, &random);
    linked_world w;
    CHECK(linked_open(&w, test_device(), &setting, seed));
    for (int i = 0; i < OPERATIONS && !failed(); i++)
        operate(&w);
    linked_end_writers(&w);
    if (!failed())
        CHECK_EQUAL(linked_wrong(&w, setting.max_batch), 0);
    *steps += w.all.count; /* each step begins one transition */
    linked_close(&w);
}

/* Half a million steps, ten times as many with the long form; fewer where each one is slower. */
TEST(packed_and_linked_replays_agree_with_the_history)
{
    const uint64_t rounds = test_rounds(ROUNDS);
    int64_t steps = 0;
    for (uint64_t seed = 0; seed < rounds; seed++) {
        round_of(seed, &steps);
        if (failed())
            fprintf(stderr, "seed %d\n", (int)seed);
        CHECK(!failed());
    }
    CHECK(rounds < 50 || steps >= (int64_t)rounds * 500000 / ROUNDS); /* of few rounds, all may be short ones */
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(packed_and_linked_replays_agree_with_the_history);
    return test_main_end();
}
