/* SPDX-License-Identifier: MIT */
/* Random episodes by several writers, beside the history by definition: n steps, autoreset, extras, previous rows. */
#include "support/history_kit.h"
#include "support/replay_kit.h"
#include "test.h"

enum { WRITERS = 2, ROUNDS = 1500, STEPS = 250 };

typedef struct world {
    gpur_device *device;
    gpur_replay *replay;
    gpur_replay_config config;
    gpur_field fields[PLAY_FIELDS];
    history_rows all;
    play plays[WRITERS];
    play_shape shape;
    uint64_t random;
    int64_t next_frame;
} world;

static int open_play(world *w, play *p, const gpur_replay_config *config)
{
    gpur_writer_config writer;
    gpur_writer_config_init(&writer, sizeof writer);
    writer.num_envs = 1 + (int32_t)kit_below(&w->random, PLAY_ENVS);
    writer.autoreset = (int32_t)kit_below(&w->random, 3);
    history_begin(&p->history, &w->all, writer.num_envs);
    p->history.n_step = config->n_step, p->history.gamma = config->gamma, p->history.clip = config->reward_clip;
    p->history.stack = w->shape.stack;
    p->shape = w->shape, p->autoreset = writer.autoreset, p->random = &w->random, p->next_frame = &w->next_frame;
    p->ends_in = 1 + (int32_t)kit_below(&w->random, 20);
    p->writer_count = 1;
    return gpur_writer_open(w->replay, &writer, &p->writers[0]) == GPUR_OK && play_reset(p, -1) == GPUR_OK;
}

static int begin(world *w, uint64_t seed)
{
    w->random = seed * 0x9E3779B97F4A7C15ull + 1;
    w->shape = (play_shape){1 + (int32_t)kit_below(&w->random, 2), 0};
    play_fields(w->fields, w->shape);
    const int64_t capacity = 8 + kit_below(&w->random, 200), update = 1 + kit_below(&w->random, capacity / 3);
    w->config = kit_config(w->fields, PLAY_FIELDS, capacity, update, 1 + kit_below(&w->random, capacity - update));
    w->config.n_step = 1 + (int32_t)kit_below(&w->random, seed % 3 ? 4 : 64);
    w->config.gamma = seed % 5 ? 0.97f : 1.0f;
    w->config.reward_clip = seed % 2 ? 1.0f : 0.0f;
    w->config.flush = (int32_t)kit_below(&w->random, 2);
    w->config.feed = (int32_t)kit_below(&w->random, 2);
    w->config.staging_blocks = 2;
    w->device = test_device();
    if (gpur_replay_create(w->device, &w->config, &w->replay) != GPUR_OK)
        return 0;
    for (int i = 0; i < WRITERS; i++)
        if (!open_play(w, &w->plays[i], &w->config))
            return 0;
    return 1;
}

static void end(world *w)
{
    for (int i = 0; i < WRITERS; i++) {
        gpur_writer_destroy(w->plays[i].writers[0]);
        history_cut_all(&w->plays[i].history);
        history_end(&w->plays[i].history);
    }
}

static void compare(world *w)
{
    int64_t first = 0, count = 0;
    CHECK_EQUAL(play_wrong_everywhere(w->replay, w->shape, &w->all, &first, &count), 0);
    if (w->config.flush == GPUR_FLUSH_AUTO)
        CHECK_EQUAL(first + count, w->all.count);
}

static void operate(world *w)
{
    play *const p = &w->plays[kit_below(&w->random, WRITERS)];
    const int64_t dice = kit_below(&w->random, 100);
    if (dice < 90)
        CHECK_OK(play_step(p));
    else if (dice < 93)
        CHECK_OK(play_reset(p, (int32_t)kit_below(&w->random, p->history.num_envs)));
    else if (dice < 98)
        CHECK_OK(gpur_writer_flush(p->writers[0]));
    else
        compare(w);
}

/* Ten times as many with the long form; fewer where each one is slower. */
TEST(random_episodes_agree_with_the_history)
{
    const uint64_t rounds = test_rounds(ROUNDS);
    for (uint64_t seed = 0; seed < rounds; seed++) {
        world w = {0};
        CHECK(begin(&w, seed));
        for (int i = 0; i < STEPS && atomic_load(&test_state.failures) == 0; i++)
            operate(&w);
        end(&w);
        if (atomic_load(&test_state.failures) == 0)
            compare(&w);
        if (atomic_load(&test_state.failures))
            fprintf(stderr, "seed %d, capacity %d, n_step %d\n", (int)seed, (int)w.config.capacity,
                    (int)w.config.n_step);
        history_rows_end(&w.all);
        gpur_replay_destroy(w.replay);
        gpur_device_close(w.device);
        CHECK(atomic_load(&test_state.failures) == 0);
    }
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(random_episodes_agree_with_the_history);
    return test_main_end();
}
