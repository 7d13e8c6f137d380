/* SPDX-License-Identifier: MIT */
/* Packers: what their blocks put into a replay is what the same steps put there by a writer, and initial priorities are
 * those of plain lists in double precision. */
#include "support/actor_fixture.h"
#include "support/replay_fixture.h"
#include "test.h"

static const actors_setting usual = {.layout = GPUR_LAYOUT_FRAMES,
                                     .stack = 4,
                                     .n_step = 3,
                                     .rows = 50,
                                     .actors = 1,
                                     .ends_in = 20,
                                     .resets_in = 40,
                                     .cut_at = -1,
                                     .steps = 400};

static void check_setting(const actors_setting *s, uint64_t seed)
{
    actors_fixture w;
    CHECK(actors_open(&w, test_device(), s, seed));
    CHECK_OK(actors_run(&w));
    const int64_t wrong = actors_wrong(&w);
    TEST_REQUIRE(wrong == 0,
                 "%lld rows are wrong: layout %d, stack %d %d, pad %d, frames %d, n_step %d, rows %d, compression %d, "
                 "actors %d, ends in %d, cut at %d, seed %llu; last error: %s",
                 (long long)wrong, (int)s->layout, (int)s->stack, (int)s->last, (int)s->pad, (int)s->gives_frames,
                 (int)s->n_step, (int)s->rows, (int)s->compression, (int)s->actors, (int)s->ends_in, (int)s->cut_at,
                 (unsigned long long)seed, gpur_last_error());
    actors_close(&w);
}

static int32_t one_of(uint64_t *random, const int32_t *values, int32_t count)
{
    return values[xorshift_below(random, count)];
}
#define ONE_OF(random, ...)                                                                                            \
    one_of(random, (const int32_t[]){__VA_ARGS__}, (int32_t)(sizeof(int32_t[]){__VA_ARGS__} / sizeof(int32_t)))

static int32_t some_level(uint64_t *random)
{
#ifdef GPUR_HAS_ZSTD
    return ONE_OF(random, 0, 0, 1, 3);
#else
    (void)random;
    return 0;
#endif
}

TEST(blocks_hold_what_a_writer_makes_of_the_same_steps)
{
    uint64_t random = 5;
    const uint64_t settings = test_rounds(300) + (IN_RACE_CHECK ? 4 : 12);
    for (uint64_t i = 0; i < settings; i++) {
        actors_setting s = usual;
        s.layout = ONE_OF(&random, GPUR_LAYOUT_ROWS, GPUR_LAYOUT_FRAMES, GPUR_LAYOUT_FRAMES);
        s.stack = ONE_OF(&random, 1, 2, 4), s.last = ONE_OF(&random, 0, 1);
        s.gives_frames = s.layout == GPUR_LAYOUT_FRAMES && ONE_OF(&random, 0, 1);
        s.pad = s.gives_frames ? ONE_OF(&random, ACTOR_PAD_ZERO, ACTOR_PAD_REPEAT)
                               : ONE_OF(&random, ACTOR_PAD_ZERO, ACTOR_PAD_REPEAT, ACTOR_PAD_OTHERS);
        s.n_step = ONE_OF(&random, 1, 1, 3, 5, 64), s.rows = ONE_OF(&random, 1, 2, 7, 50);
        s.actors = ONE_OF(&random, 1, 8), s.ends_in = ONE_OF(&random, 1, 3, 20, 1000);
        s.compression = some_level(&random), s.vectors = ONE_OF(&random, 0, 0, 1);
        check_setting(&s, i);
    }
}

TEST(a_block_may_be_cut_after_any_step)
{
    for (int32_t i = 0; i < (IN_RACE_CHECK ? 4 : 60); i++) {
        actors_setting s = usual;
        s.cut_at = i, s.steps = 60, s.ends_in = 7, s.layout = i % 3 ? GPUR_LAYOUT_FRAMES : GPUR_LAYOUT_ROWS;
        s.rows = i % 2 ? 50 : 6, s.n_step = i % 5 ? 3 : 1;
        check_setting(&s, (uint64_t)i);
    }
}

/* Two and a half blocks of one long episode: blocks of 50 rows store 50 + 4 + 3 - 1 frames, so 6 of them again. */
TEST(a_block_stores_each_frame_once)
{
    actors_setting s = usual;
    actors_fixture w;
    s.ends_in = s.resets_in = 1000000000, s.steps = 125;
    CHECK(actors_open(&w, test_device(), &s, 27));
    CHECK_OK(actors_run(&w));
    gpur_replay_stats stats = replay_fixture_stats(w.packed);
    CHECK_EQUAL(w.actors[0].blocks, 3);
    CHECK_EQUAL(stats.frames_stored, 53 + 56 + 29); /* the first stack is padded with zeros, the last row is short */
    actors_close(&w);
}

typedef struct bench {
    gpur_field fields[ACTOR_FIELDS];
    gpur_block_format *format;
    gpur_packer *packer;
    gpur_packer_config config;
} bench;

static gpur_status open_bench(bench *b, const actors_setting *s)
{
    gpur_replay_config config = actors_config(s, b->fields);
    config.check_finite = 1;
    b->packer = NULL;
    gpur_packer_config_init(&b->config, sizeof b->config);
    b->config.num_actions = ACTOR_ACTIONS;
    return gpur_block_format_create(&config, &b->format);
}

#define CHECK_REFUSED(member, value, message)                                                                          \
    do {                                                                                                               \
        gpur_packer_config refused_ = b.config;                                                                        \
        refused_.member = (value);                                                                                     \
        CHECK_FAILS(gpur_packer_create(b.format, &refused_, &b.packer), GPUR_INVALID_ARGUMENT, message);               \
        CHECK(b.packer == NULL);                                                                                       \
    } while (0)

TEST(settings_out_of_range_are_refused)
{
    actors_setting s = usual;
    bench b;
    CHECK_OK(open_bench(&b, &s));
    CHECK_REFUSED(actor, -1, "gpur_packer_config.actor is -1 and incarnation 0; both must be 0 or more");
    CHECK_REFUSED(incarnation, -2, "incarnation -2");
    CHECK_REFUSED(rows, 0, "gpur_packer_config.rows is 0; it must be 1 to 65536");
    CHECK_REFUSED(rows, 65537, "gpur_packer_config.rows is 65537");
    CHECK_REFUSED(num_actions, -1, "gpur_packer_config.num_actions is -1; it must be 0 to 1048576");
    CHECK_REFUSED(observations, 2, "gpur_packer_config.observations is 2");
    CHECK_REFUSED(compression, 20, "gpur_packer_config.compression is 20; it must be 0 (none) to 19");
    CHECK_REFUSED(size, 4, "gpur_packer_config");
    CHECK_FAILS(gpur_packer_create(NULL, &b.config, &b.packer), GPUR_INVALID_ARGUMENT, "format is NULL");
    CHECK_FAILS(gpur_packer_create(b.format, &b.config, NULL), GPUR_INVALID_ARGUMENT, "packer is NULL");
    CHECK_FAILS(gpur_packer_config_init(NULL, 8), GPUR_INVALID_ARGUMENT, "gpur_packer_config is NULL");
    gpur_block_format_destroy(b.format);
    s.layout = GPUR_LAYOUT_ROWS;
    CHECK_OK(open_bench(&b, &s));
    CHECK_REFUSED(observations, GPUR_OBSERVATIONS_FRAMES, "GPUR_LAYOUT_ROWS; stacks are made of frames");
    gpur_block_format_destroy(b.format);
    gpur_packer_destroy(NULL);
}

TEST(schemas_without_what_priorities_need_are_refused)
{
    gpur_field fields[ACTOR_FIELDS];
    gpur_replay_config config = actors_config(&usual, fields);
    bench b;
    CHECK_OK(open_bench(&b, &usual));
    gpur_block_format_destroy(b.format);
    fields[ACTOR_PRIORITY].name = "other";
    CHECK_OK(gpur_block_format_create(&config, &b.format));
    CHECK_REFUSED(num_actions, 4, "num_actions is 4 and the schema has no field \"priority\" of one float32");
    gpur_block_format_destroy(b.format);
    fields[ACTOR_PRIORITY].name = "priority", fields[ACTOR_ACTION].dtype = GPUR_FLOAT32;
    CHECK_OK(gpur_block_format_create(&config, &b.format));
    CHECK_REFUSED(num_actions, 4, "num_actions is 4 and field \"action\" is float32; with action vectors it must be 1");
    gpur_block_format_destroy(b.format);
    fields[ACTOR_ACTION].dtype = GPUR_UINT8;
    CHECK_OK(gpur_block_format_create(&config, &b.format));
    CHECK_REFUSED(num_actions, 4, "field \"action\" is uint8 of 1 bytes; with gpur_packer_config.num_actions = 4");
    gpur_block_format_destroy(b.format);
    fields[ACTOR_ACTION].name = "deed";
    CHECK_OK(gpur_block_format_create(&config, &b.format));
    CHECK_REFUSED(num_actions, 0, "the schema has no field \"action\"");
    gpur_block_format_destroy(b.format);
}

#define CHECK_STEP(member, value, message)                                                                             \
    do {                                                                                                               \
        gpur_packer_step_input refused_ = step;                                                                        \
        refused_.member = (value);                                                                                     \
        CHECK_FAILS(gpur_packer_step(b.packer, &refused_), GPUR_INVALID_ARGUMENT, message);                            \
    } while (0)

TEST(bad_steps_change_nothing)
{
    static const float q[ACTOR_ACTIONS] = {1, 2, 3}, infinite[ACTOR_ACTIONS] = {1, 2, 3, INFINITY};
    const int64_t tag = 1, action = 2, bad = ACTOR_ACTIONS, frames[] = {-1, -1, -1, 7, 8, 9};
    const void *const extras[ACTOR_FIELDS] = {[ACTOR_TAG] = &tag};
    unsigned char first[4 * ACTOR_FRAME], next[4 * ACTOR_FRAME], other[4 * ACTOR_FRAME];
    const gpur_packer_step_input step = {
        .size = sizeof step, .action = &action, .next_obs = next, .q = q, .extras = extras};
    const void *block = NULL;
    int64_t bytes = 0;
    bench b;
    actor_stack(first, 4, 0, frames), actor_stack(next, 4, 0, frames + 1), actor_stack(other, 4, 0, frames + 2);
    CHECK_OK(open_bench(&b, &usual));
    b.config.rows = 1;
    CHECK_OK(gpur_packer_create(b.format, &b.config, &b.packer));
    CHECK_FAILS(gpur_packer_step(b.packer, &step), GPUR_INVALID_ARGUMENT, "no episode is open");
    CHECK_FAILS(gpur_packer_reset(b.packer, NULL), GPUR_INVALID_ARGUMENT, "obs is NULL");
    CHECK_FAILS(gpur_packer_reset(NULL, first), GPUR_INVALID_ARGUMENT, "packer is NULL");
    CHECK_OK(gpur_packer_reset(b.packer, first));
    CHECK_STEP(action, NULL, "action is NULL");
    CHECK_STEP(action, &bad, "action is 5; it must be 0 to 4");
    CHECK_STEP(next_obs, NULL, "next_obs is NULL");
    CHECK_STEP(next_obs, other, "has a frame 1 of its stack");
    CHECK_STEP(q, NULL, "q is NULL; it must be the Q values of the 5 actions");
    CHECK_STEP(q, infinite, "q[3] is inf; it must be finite");
    CHECK_STEP(terminated, 2, "terminated is 2 and truncated 0; each must be 0 or 1");
    CHECK_STEP(truncated, 3, "truncated 3");
    CHECK_STEP(version, -1, "version is -1");
    CHECK_STEP(extras, NULL, "extras[8], field \"tag\", is NULL");
    CHECK_OK(gpur_packer_take(b.packer, 1, &block, &bytes));
    CHECK(block == NULL && bytes == 0);
    CHECK_FAILS(gpur_packer_take(b.packer, 2, &block, &bytes), GPUR_INVALID_ARGUMENT, "all is 2; it must be 0 or 1");
    gpur_packer_step_input last = step;
    last.terminated = 1;
    CHECK_OK(gpur_packer_step(b.packer, &last));
    CHECK_FAILS(gpur_packer_reset(b.packer, first), GPUR_INVALID_ARGUMENT, "a block of 1 rows is full");
    CHECK_OK(gpur_packer_take(b.packer, 0, &block, &bytes));
    CHECK(block != NULL && bytes > 128);
    CHECK_OK(gpur_block_check(b.format, block, bytes, NULL));
    CHECK_OK(gpur_packer_reset(b.packer, first));
    gpur_packer_destroy(b.packer);
    gpur_block_format_destroy(b.format);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(blocks_hold_what_a_writer_makes_of_the_same_steps);
    RUN(a_block_may_be_cut_after_any_step);
    RUN(a_block_stores_each_frame_once);
    RUN(settings_out_of_range_are_refused);
    RUN(schemas_without_what_priorities_need_are_refused);
    RUN(bad_steps_change_nothing);
    return test_main_end();
}
