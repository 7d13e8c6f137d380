/* SPDX-License-Identifier: MIT */
/* Every door of C through which numbers come in: what is NaN or infinite is refused, in words that say where it is, and
 * nothing changes; with check_finite 0 it is taken. The doors of Python are in tests/python/test_bad_numbers.py. */
#include "replay/view.h"
#include "support/replay_fixture.h"
#include "test.h"

#include <float.h>

enum { OBS = 3, ENVS = 2, FIELDS = 7, ROWS = 4, ROOM = 4096 };

static const gpur_field fields[FIELDS] = {{"obs", GPUR_FLOAT32, {OBS}},   {"action", GPUR_INT32, {0}},
                                          {"reward", GPUR_FLOAT32, {0}},  {"next_obs", GPUR_FLOAT32, {OBS}},
                                          {"terminated", GPUR_BOOL, {0}}, {"half", GPUR_FLOAT16, {0}},
                                          {"priority", GPUR_FLOAT32, {0}}};

/* A replay with a writer, and what its doors are given: all good but for what a test changes. */
static struct {
    gpur_device *device;
    gpur_replay *replay;
    gpur_writer *writer;
    gpur_block_format *format, *careless; /* of the replay, and one that takes all numbers */
    gpur_packer *packer;
    float obs[ROWS * OBS], next_obs[ROWS * OBS], final_obs[ROWS * OBS], reward[ROWS], priority[ROWS];
    uint16_t half[ROWS];
    int32_t action[ROWS];
    uint8_t terminated[ROWS];
    const void *columns[FIELDS], *extras[FIELDS];
    unsigned char rows[ROWS * 64], block[ROOM];
} s;

static void open_doors(int32_t layout, int32_t check)
{
    gpur_replay_config config = replay_fixture_config(fields, FIELDS, 100, 10, 20);
    gpur_writer_config writer;
    gpur_packer_config packer;
    memset(&s, 0, sizeof s);
    s.device = test_device();
    config.layout = layout, config.frame_stack = 1, config.check_finite = check;
    CHECK_OK(gpur_replay_create(s.device, &config, &s.replay));
    CHECK_OK(gpur_writer_config_init(&writer, sizeof writer));
    writer.num_envs = ENVS, writer.autoreset = GPUR_AUTORESET_SAME_STEP;
    CHECK_OK(gpur_writer_open(s.replay, &writer, &s.writer));
    CHECK_OK(gpur_block_format_create(&config, &s.format));
    config.check_finite = 0;
    CHECK_OK(gpur_block_format_create(&config, &s.careless));
    CHECK_OK(gpur_packer_config_init(&packer, sizeof packer));
    CHECK_OK(gpur_packer_create(s.format, &packer, &s.packer));
    CHECK_OK(gpur_packer_reset(s.packer, s.obs));
    CHECK_OK(gpur_writer_reset(s.writer, -1, s.obs));
    const void *const columns[FIELDS] = {s.obs, s.action, s.reward, s.next_obs, s.terminated, s.half, s.priority};
    memcpy(s.columns, columns, sizeof columns);
    s.extras[5] = s.half, s.extras[6] = s.priority;
}

static void close_doors(void)
{
    gpur_packer_destroy(s.packer);
    gpur_block_format_destroy(s.format);
    gpur_block_format_destroy(s.careless);
    gpur_writer_destroy(s.writer);
    gpur_replay_destroy(s.replay);
    gpur_device_close(s.device);
}

/* The doors. */

static gpur_status step(void)
{
    const gpur_step_input in = {.size = sizeof in,
                                .action = s.action,
                                .reward = s.reward,
                                .next_obs = s.next_obs,
                                .terminated = s.terminated,
                                .final_obs = s.final_obs,
                                .extras = s.extras};
    return gpur_writer_step_ex(s.writer, &in);
}

static gpur_status reset(void)
{
    return gpur_writer_reset(s.writer, -1, s.obs);
}

static gpur_status append(void)
{
    gpur_field_info info = {.size = sizeof info};
    const int64_t pitch = 44; /* of a packed row of these fields */
    for (int32_t f = 0; f < FIELDS; f++) {
        (void)gpur_replay_get_field(s.replay, f, &info);
        for (int i = 0; i < ROWS; i++)
            memcpy(s.rows + i * pitch + info.offset, (const char *)s.columns[f] + i * info.bytes, (size_t)info.bytes);
    }
    return gpur_writer_append(s.writer, ROWS, s.rows, NULL);
}

static gpur_status append_fields(void)
{
    return gpur_writer_append_fields(s.writer, ROWS, s.columns, NULL, NULL);
}

static gpur_status try_append(void)
{
    return gpur_writer_try_append_fields(s.writer, ROWS, s.columns);
}

static gpur_status pack(const gpur_block_format *format, int64_t *bytes)
{
    static const int32_t links[ROWS * 2] = {0, 1, 1, 2, 2, 3, 2, 3};
    const gpur_block_input in = {.size = sizeof in,
                                 .rows = ROWS,
                                 .frames = gpur_block_max_bytes(format, 1, 1) > 0 ? ROWS : 0,
                                 .fields = s.columns,
                                 .frame_data = s.next_obs,
                                 .links = links};
    return gpur_block_pack(format, &in, s.block, ROOM, bytes);
}

static gpur_status pack_block(void)
{
    int64_t bytes;
    return pack(s.format, &bytes);
}

/* A block of another program. */
static gpur_status append_block(void)
{
    int64_t bytes = 0;
    const gpur_status status = pack(s.careless, &bytes);
    return status != GPUR_OK ? status : gpur_writer_append_block(s.writer, s.block, bytes, NULL);
}

static gpur_status check_block(void)
{
    int64_t bytes = 0;
    const gpur_status status = pack(s.careless, &bytes);
    return status != GPUR_OK ? status : gpur_block_check(s.format, s.block, bytes, NULL);
}

static gpur_status pack_step(void)
{
    const gpur_packer_step_input in = {
        .size = sizeof in, .action = s.action, .reward = s.reward[0], .next_obs = s.next_obs, .extras = s.extras};
    return gpur_packer_step(s.packer, &in);
}

static gpur_status pack_reset(void)
{
    return gpur_packer_reset(s.packer, s.obs);
}

typedef struct door {
    const char *name;
    gpur_status (*go)(void);
    float *bad; /* the number that becomes bad */
    int ends;   /* 1: the episode ends */
    gpur_status refusal;
    const char *message; /* behind what is bad */
    int layouts;         /* 1: GPUR_LAYOUT_ROWS, 2: FRAMES, 3: both */
} door;

static const door doors[] = {
    {"step, next_obs", step, &s.next_obs[OBS + 1], 0, GPUR_INVALID_ARGUMENT, "in environment 1 of 2", 3},
    {"step, reward", step, &s.reward[1], 0, GPUR_INVALID_ARGUMENT, "in environment 1 of 2", 3},
    {"step, final_obs", step, &s.final_obs[2 * OBS - 1], 1, GPUR_INVALID_ARGUMENT, "its numbers must be finite", 3},
    {"reset", reset, &s.obs[OBS], 0, GPUR_INVALID_ARGUMENT, "in environment 1 of 2", 3},
    {"append", append, &s.obs[2 * OBS], 0, GPUR_INVALID_ARGUMENT, "in row 2 of 4", 1},
    {"append_fields", append_fields, &s.next_obs[3 * OBS], 0, GPUR_INVALID_ARGUMENT, "in row 3 of 4", 1},
    {"try_append_fields", try_append, &s.reward[0], 0, GPUR_INVALID_ARGUMENT, "in row 0 of 4", 1},
    {"block_pack, rows", pack_block, &s.reward[2], 0, GPUR_INVALID_ARGUMENT, "in row 2 of 4", 3},
    {"block_pack, frames", pack_block, &s.next_obs[OBS], 0, GPUR_INVALID_ARGUMENT, "in frame 1 of 4", 2},
    {"append_block, rows", append_block, &s.reward[2], 0, GPUR_FILE_ERROR, "in row 2 of 4", 3},
    {"append_block, frames", append_block, &s.next_obs[OBS], 0, GPUR_FILE_ERROR, "in frame 1 of 4", 2},
    {"block_check", check_block, &s.reward[3], 0, GPUR_FILE_ERROR, "in row 3 of 4", 3},
    {"packer_step, next_obs", pack_step, &s.next_obs[0], 0, GPUR_INVALID_ARGUMENT, "its numbers must be finite", 3},
    {"packer_step, reward", pack_step, &s.reward[0], 0, GPUR_INVALID_ARGUMENT, "its numbers must be finite", 3},
    {"packer_reset", pack_reset, &s.obs[1], 0, GPUR_INVALID_ARGUMENT, "its numbers must be finite", 3},
};

static int64_t appended(void)
{
    gpur_replay_stats stats = {.size = sizeof stats};
    return gpur_replay_get_stats(s.replay, &stats) == GPUR_OK ? stats.appended : -1;
}

static void try_door(const door *d, int32_t layout, float value)
{
    open_doors(layout, 1);
    const int64_t before = appended();
    s.terminated[1] = (uint8_t)d->ends;
    *d->bad = value;
    TEST_REQUIRE(d->go() == d->refusal, "%s, layout %d: %g is not refused: %s", d->name, (int)layout, (double)value,
                 gpur_last_error());
    CHECK_MESSAGE(isnan(value) ? "is NaN" : "is infinite");
    CHECK_MESSAGE(d->message);
    CHECK_EQUAL(appended(), before);
    *d->bad = FLT_MAX;
    TEST_REQUIRE(d->go() == GPUR_OK, "%s, layout %d: FLT_MAX is refused: %s", d->name, (int)layout, gpur_last_error());
    close_doors();
    open_doors(layout, 0);
    s.terminated[1] = (uint8_t)d->ends;
    *d->bad = value;
    TEST_REQUIRE(d->go() == GPUR_OK, "%s, layout %d: unchecked, and refused: %s", d->name, (int)layout,
                 gpur_last_error());
    close_doors();
}

TEST(what_is_not_finite_is_refused_at_every_door)
{
    static const float values[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < sizeof doors / sizeof *doors; i++)
        for (int32_t layout = GPUR_LAYOUT_ROWS; layout <= GPUR_LAYOUT_FRAMES; layout++)
            for (size_t v = 0; v < 3; v++)
                if (doors[i].layouts & (1 << layout))
                    try_door(&doors[i], layout, values[v]);
}

/* The last observations of episodes that go on mean nothing. */
TEST(numbers_that_mean_nothing_are_not_searched)
{
    open_doors(GPUR_LAYOUT_ROWS, 1);
    s.final_obs[0] = NAN;
    CHECK_OK(step());
    s.priority[0] = NAN; /* none is given */
    CHECK_OK(append_fields());
    close_doors();
}

TEST(halves_are_searched)
{
    static const uint16_t bad[] = {0x7c00, 0xfc00, 0x7e01, 0xffff}, good[] = {0x7bff, 0xfbff, 0x0001, 0x8000};
    open_doors(GPUR_LAYOUT_ROWS, 1);
    for (int i = 0; i < 4; i++) {
        s.half[1] = bad[i];
        CHECK_FAILS(append_fields(), GPUR_INVALID_ARGUMENT,
                    i < 2 ? "\"half\" is infinite in row 1 of 4" : "\"half\" is NaN in row 1 of 4");
        CHECK_FAILS(step(), GPUR_INVALID_ARGUMENT, "\"half\" is ");
        s.half[1] = good[i];
        CHECK_OK(append_fields());
        CHECK_OK(step());
    }
    close_doors();
}

/* A return of several steps that a float cannot hold is the largest that it can. */
TEST(the_sum_of_finite_rewards_is_finite)
{
    const gpur_field more[] = {fields[0], fields[1], fields[2], fields[3], fields[4], {"discount", GPUR_FLOAT32, {0}}};
    gpur_replay_config config = replay_fixture_config(more, 6, 100, 10, 20);
    replay_fixture f;
    float obs[OBS] = {0}, got[1];
    const int32_t action = 0;
    const float rewards[2] = {-3e38f, 3e38f};
    for (int i = 0; i < 2; i++) {
        config.check_finite = 1, config.n_step = 3;
        CHECK(replay_fixture_open(&f, test_device(), &config, 1));
        CHECK_OK(gpur_writer_reset(f.writer, 0, obs));
        for (int step_number = 0; step_number < 3; step_number++)
            CHECK_OK(gpur_writer_step(f.writer, &action, &rewards[i], obs, &(uint8_t){0}, NULL));
        gpur_batch *batch;
        CHECK_OK(gpur_replay_gather(f.replay, 1, &(int64_t){0}, NULL, &batch));
        CHECK_OK(gpur_batch_read(batch, "reward", got, sizeof got));
        CHECK(got[0] == (rewards[i] < 0.0f ? -FLT_MAX : FLT_MAX));
        gpur_batch_release(batch);
        replay_fixture_close(&f);
    }
}

/* Rows of one row each, for a replay whose learner has actions of -1 to 1. */
TEST(actions_that_no_learner_trains_on_are_refused_at_every_door)
{
    const gpur_field vectors[] = {fields[0], {"action", GPUR_FLOAT32, {2}}, fields[2], fields[3], fields[4]};
    gpur_replay_config config = replay_fixture_config(vectors, 5, 100, 10, 20);
    gpur_action_limit limit = {0};
    replay_fixture f;
    gpur_block_format *format;
    float obs[OBS] = {0}, action[2] = {0, -1.5f}, reward = 0;
    uint8_t terminated = 0;
    const void *columns[] = {obs, action, &reward, obs, &terminated};
    struct {
        float obs[OBS], action[2], reward, next_obs[OBS];
        uint8_t terminated;
    } row = {.action = {0, 1.5f}};
    int64_t bytes;
    CHECK(replay_fixture_open(&f, test_device(), &config, 1));
    CHECK_OK(gpur_block_format_create(&config, &format));
    const gpur_block_input in = {.size = sizeof in, .rows = 1, .fields = columns};
    CHECK_OK(gpur_block_pack(format, &in, s.block, ROOM, &bytes));
    CHECK_OK(gpur_writer_reset(f.writer, 0, obs));
    CHECK_OK(gpur_writer_step(f.writer, action, &reward, obs, &terminated, NULL));
    CHECK_FAILS(gpur_replay_limit_actions(f.replay, &limit, GPUR_UNIT_ACTIONS), GPUR_INVALID_ARGUMENT,
                "\"action\" is -1.5 in row 0; it must be");
    CHECK_OK(gpur_writer_step(f.writer, action, &reward, obs, &terminated, NULL)); /* as before */
    action[1] = 1.0f;
    CHECK_OK(gpur_writer_step(f.writer, action, &reward, obs, &terminated, NULL));
    CHECK_FAILS(gpur_replay_limit_actions(f.replay, &limit, GPUR_UNIT_ACTIONS), GPUR_INVALID_ARGUMENT,
                "\"action\" is -1.5 in row 0; it must be");
    CHECK_OK(gpur_replay_trim(f.replay, 1));
    CHECK_OK(gpur_replay_limit_actions(f.replay, &limit, GPUR_UNIT_ACTIONS));
    action[1] = -1.5f;
    CHECK_FAILS(gpur_writer_step(f.writer, action, &reward, obs, &terminated, NULL), GPUR_INVALID_ARGUMENT,
                "\"action\" is -1.5 in environment 0 of 1; it must be -1 to 1");
    CHECK_FAILS(gpur_writer_append(f.writer, 1, &row, NULL), GPUR_INVALID_ARGUMENT, "\"action\" is 1.5 in row 0 of 1");
    CHECK_FAILS(gpur_writer_append_fields(f.writer, 1, columns, NULL, NULL), GPUR_INVALID_ARGUMENT,
                "\"action\" is -1.5");
    CHECK_FAILS(gpur_writer_try_append_fields(f.writer, 1, columns), GPUR_INVALID_ARGUMENT, "\"action\" is -1.5");
    CHECK_FAILS(gpur_writer_append_block(f.writer, s.block, bytes, NULL), GPUR_FILE_ERROR,
                "\"action\" is -1.5 in row 0");
    action[1] = -1.0f;
    CHECK_OK(gpur_writer_append_fields(f.writer, 1, columns, NULL, NULL));
    gpur_block_format_destroy(format);
    replay_fixture_close(&f);
}

/* An action that is refused in a replay whose learner has three, how its message begins, and one that is not. */
typedef struct action_case {
    gpur_field field;
    const void *bad, *good;
    const char *words;
} action_case;

static const action_case actions[] = {
    {{"action", GPUR_INT32, {0}},
     (const int32_t[]){3},
     (const int32_t[]){2},
     "\"action\" is 3 in %s 0 of 1; it must be 0 to 2, as the replay's learner has num_actions 3"},
    {{"action", GPUR_INT64, {0}},
     (const int64_t[]){-1},
     (const int64_t[]){0},
     "\"action\" is -1 in %s 0 of 1; it must be 0 to 2"},
    {{"action", GPUR_INT64, {1}},
     (const int64_t[]){1LL << 32},
     (const int64_t[]){1},
     "\"action\" is 4294967296 in %s 0 of 1; it must be 0 to 2"},
};

static const char *words_of(const action_case *c, const char *item)
{
    static char words[200];
    snprintf(words, sizeof words, c->words, item);
    return words;
}

/* A packed row whose fields are zeros, but for the action. */
static void pack_row(const action_case *c, unsigned char *row)
{
    const size_t bytes = c->field.dtype == GPUR_INT32 ? 4 : 8, aligned = c->field.dtype == GPUR_INT64 ? 8 : 4;
    memset(row, 0, ROOM);
    memcpy(row + (OBS * sizeof(float) + aligned - 1) / aligned * aligned, c->bad, bytes);
}

static void check_action(const action_case *c)
{
    const gpur_field all[] = {fields[0], c->field, fields[2], fields[3], fields[4]};
    gpur_replay_config config = replay_fixture_config(all, 5, 100, 10, 20);
    gpur_action_limit limit = {0};
    replay_fixture f;
    gpur_block_format *format;
    float obs[OBS] = {0}, reward = 0;
    uint8_t terminated = 0;
    const void *columns[] = {obs, c->bad, &reward, obs, &terminated};
    static _Alignas(8) unsigned char row[ROOM];
    int64_t bytes;
    CHECK(replay_fixture_open(&f, test_device(), &config, 1));
    CHECK_OK(gpur_block_format_create(&config, &format));
    const gpur_block_input in = {.size = sizeof in, .rows = 1, .fields = columns};
    CHECK_OK(gpur_block_pack(format, &in, s.block, ROOM, &bytes));
    pack_row(c, row);
    CHECK_OK(gpur_writer_reset(f.writer, 0, obs));
    CHECK_OK(gpur_writer_step(f.writer, c->bad, &reward, obs, &terminated, NULL)); /* there is no learner yet */
    CHECK_OK(gpur_replay_limit_actions(f.replay, &limit, 3));
    CHECK_FAILS(gpur_writer_step(f.writer, c->bad, &reward, obs, &terminated, NULL), GPUR_INVALID_ARGUMENT,
                words_of(c, "environment"));
    CHECK_FAILS(gpur_writer_append(f.writer, 1, row, NULL), GPUR_INVALID_ARGUMENT, words_of(c, "row"));
    CHECK_FAILS(gpur_writer_append_fields(f.writer, 1, columns, NULL, NULL), GPUR_INVALID_ARGUMENT, words_of(c, "row"));
    CHECK_FAILS(gpur_writer_try_append_fields(f.writer, 1, columns), GPUR_INVALID_ARGUMENT, words_of(c, "row"));
    CHECK_FAILS(gpur_writer_append_block(f.writer, s.block, bytes, NULL), GPUR_FILE_ERROR, words_of(c, "row"));
    columns[1] = c->good;
    CHECK_OK(gpur_writer_append_fields(f.writer, 1, columns, NULL, NULL));
    gpur_replay_free_actions(f.replay, &limit);
    columns[1] = c->bad;
    CHECK_OK(gpur_writer_append_fields(f.writer, 1, columns, NULL, NULL));
    gpur_block_format_destroy(format);
    replay_fixture_close(&f);
}

TEST(actions_that_a_learner_does_not_have_are_refused_at_every_door)
{
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++)
        check_action(&actions[i]);
}

/* Three learners come and go in every order. The one with the fewest actions of those that are there counts. */
static void check_order(gpur_replay *replay, gpur_writer *writer, const int32_t limits[3], const int *gone)
{
    gpur_action_limit learners[3] = {0};
    int32_t action, there[3];
    const float obs[OBS] = {0}, reward = 0;
    const uint8_t terminated = 0;
    const void *const columns[] = {obs, &action, &reward, obs, &terminated};
    for (int i = 0; i < 3; i++)
        CHECK_OK(gpur_replay_limit_actions(replay, &learners[i], there[i] = limits[i]));
    for (int left = 3; left >= 0; left--) {
        int32_t least = 0;
        for (int i = 0; i < 3; i++)
            least = there[i] && (!least || there[i] < least) ? there[i] : least;
        for (action = 0; action < 9; action++)
            CHECK(gpur_writer_append_fields(writer, 1, columns, NULL, NULL) ==
                  (least == 0 || action < least ? GPUR_OK : GPUR_INVALID_ARGUMENT));
        if (left > 0) {
            gpur_replay_free_actions(replay, &learners[gone[3 - left]]);
            gpur_replay_free_actions(replay, &learners[gone[3 - left]]); /* it is gone already */
            there[gone[3 - left]] = 0;
        }
    }
}

TEST(of_several_learners_those_that_are_there_limit_actions_in_whatever_order_they_go)
{
    static const int32_t limits[][3] = {{2, 2, 2}, {2, 3, 8}, {8, 3, 2}, {3, 2, 3}};
    static const int orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    const gpur_field all[] = {fields[0], {.name = "action", .dtype = GPUR_INT32}, fields[2], fields[3], fields[4]};
    gpur_replay_config config = replay_fixture_config(all, 5, 100, 10, 20);
    replay_fixture f;
    CHECK(replay_fixture_open(&f, test_device(), &config, 1));
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        for (size_t k = 0; k < sizeof orders / sizeof *orders; k++)
            check_order(f.replay, f.writer, limits[i], orders[k]);
    replay_fixture_close(&f);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(what_is_not_finite_is_refused_at_every_door);
    RUN(of_several_learners_those_that_are_there_limit_actions_in_whatever_order_they_go);
    RUN(numbers_that_mean_nothing_are_not_searched);
    RUN(halves_are_searched);
    RUN(the_sum_of_finite_rewards_is_finite);
    RUN(actions_that_no_learner_trains_on_are_refused_at_every_door);
    RUN(actions_that_a_learner_does_not_have_are_refused_at_every_door);
    return test_main_end();
}
