/* SPDX-License-Identifier: MIT */
/* What writers hold on the host is what writer.h says, to the byte except their handles. */
#include "support/counting_alloc.h"
#include "support/episode_fixture.h"
#include "test.h"

enum { FEW_ENVS = 5, MANY_ENVS = 205, MAX_HANDLE = 3072, EXTRA_BYTES = 8, ACTION_BYTES = 4 };

typedef struct setting {
    int32_t layout, stack, n_step, input;
} setting;

static int64_t power_above(int64_t x)
{
    return x < 1 ? 1 : 2 * power_above(x / 2);
}

static int64_t round_up(int64_t bytes)
{
    return (bytes + 15) / 16 * 16;
}

/* Of an environment: writer.h, gpur_writer_open. */
static int64_t bytes_of(const setting *s)
{
    const int frames = s->layout == GPUR_LAYOUT_FRAMES;
    const int64_t obs = frames ? 0 : round_up(s->stack * PLAYER_FRAME);
    const int64_t steps = 24 + power_above(s->n_step) * (4 + obs + round_up(ACTION_BYTES) + round_up(EXTRA_BYTES));
    return frames ? steps + 8 + power_above(s->stack + s->n_step - 1) * (24 + PLAYER_FRAME) : steps;
}

/* What the caller's allocator has given for a writer; -1: there is none. */
static int64_t taken_by(gpur_replay *replay, const setting *s, int32_t envs, const counting_alloc *counts)
{
    const gpur_writer_config config = {.size = sizeof config, .num_envs = envs, .observations = s->input};
    gpur_writer *writer = NULL;
    const int64_t before = counts->bytes;
    const gpur_status status = gpur_writer_open(replay, &config, &writer);
    const int64_t taken = counts->bytes - before;
    gpur_writer_destroy(writer);
    return status == GPUR_OK ? taken : -1;
}

static void check_setting(gpur_device *device, const setting *s, const counting_alloc *counts)
{
    gpur_field fields[PLAYER_FIELDS];
    gpur_replay *replay = NULL;
    player_fields(fields, (stack_shape){s->stack, 0});
    gpur_replay_config config = replay_fixture_config(fields, PLAYER_FIELDS, 4000, 32, 32);
    config.layout = s->layout, config.n_step = s->n_step;
    if (s->layout == GPUR_LAYOUT_FRAMES)
        config.frame_stack = s->stack, config.extra_frames = MANY_ENVS * (int64_t)(s->stack + 2 * s->n_step);
    CHECK_OK(gpur_replay_create(device, &config, &replay));
    const int64_t few = taken_by(replay, s, FEW_ENVS, counts), many = taken_by(replay, s, MANY_ENVS, counts);
    gpur_replay_destroy(replay);
    TEST_REQUIRE(few > 0 && many > 0, "no writer: %s", gpur_last_error());
    TEST_REQUIRE(llabs(many - few - (MANY_ENVS - FEW_ENVS) * bytes_of(s)) <= 256,
                 "layout %d, stack %d, %d steps: an environment takes %.2f bytes; the header says %lld", (int)s->layout,
                 (int)s->stack, (int)s->n_step, (double)(many - few) / (MANY_ENVS - FEW_ENVS), (long long)bytes_of(s));
    CHECK(few - FEW_ENVS * bytes_of(s) <= MAX_HANDLE);
}

TEST(writers_hold_what_the_header_says)
{
    static const setting settings[] = {
        {GPUR_LAYOUT_ROWS, 1, 1, GPUR_OBSERVATIONS_STACKS},   {GPUR_LAYOUT_ROWS, 4, 3, GPUR_OBSERVATIONS_STACKS},
        {GPUR_LAYOUT_FRAMES, 1, 1, GPUR_OBSERVATIONS_STACKS}, {GPUR_LAYOUT_FRAMES, 4, 1, GPUR_OBSERVATIONS_FRAMES},
        {GPUR_LAYOUT_FRAMES, 4, 5, GPUR_OBSERVATIONS_STACKS}, {GPUR_LAYOUT_FRAMES, 3, 8, GPUR_OBSERVATIONS_FRAMES},
    };
    counting_alloc counts = {0};
    gpur_device_config config = test_device_config();
    gpur_device *device = NULL;
    config.alloc = counting_alloc_take, config.release = counting_alloc_give, config.alloc_user = &counts;
    CHECK_OK(gpur_device_open(test_device_name(), &config, &device));
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        check_setting(device, &settings[i], &counts);
    gpur_device_close(device);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(writers_hold_what_the_header_says);
    return test_main_end();
}
