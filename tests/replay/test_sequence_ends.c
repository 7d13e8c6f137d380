/* SPDX-License-Identifier: MIT */
/*
 * Writers that say where sequences end (gpur_writer_config.sequence_length), beside a model that lists the sequences of
 * whole episodes: random schedules of steps, in both layouts and all autoreset modes, and of appended rows; the
 * distribution of sampled ends; and what is refused. The chi-square must have a tail of at least 1e-6.
 */
#include "gpureplay/sequences.h"
#include "base/status.h"
#include "support/replay_fixture.h"
#include "test.h"

enum { ENVS = 3, FRAME = 4, STACK = 2, CAPACITY = 4000, MOST = 3000, BATCH = 32, LONGEST = 12 };
enum { OBS, ACTION, REWARD, NEXT_OBS, TERMINATED, TRUNCATED, DISCOUNT, PREVIOUS, PRIORITY, TAG, FIELDS };
static const double alarm = 1e-6;

static const gpur_field fields[FIELDS] = {
    {"obs", GPUR_UINT8, {STACK, FRAME}}, {"action", GPUR_INT32, {0}},
    {"reward", GPUR_FLOAT32, {0}},       {"next_obs", GPUR_UINT8, {STACK, FRAME}},
    {"terminated", GPUR_BOOL, {0}},      {"truncated", GPUR_BOOL, {0}},
    {"discount", GPUR_FLOAT32, {0}},     {"previous", GPUR_INT64, {0}},
    {"priority", GPUR_FLOAT32, {0}},     {"tag", GPUR_INT64, {0}},
};

typedef struct setting {
    int32_t length, every, n_step, autoreset, layout, ends_in;
} setting;

/* An episode of the model. */
typedef struct episode {
    int64_t rows;
    int ended; /* with its last row; else it goes on, or was reset amid */
} episode;

typedef struct fixture {
    setting set;
    gpur_device *device;
    gpur_replay *replay;
    gpur_writer *writer;
    episode episodes[MOST]; /* in the order in which they began */
    int64_t count;
    int64_t now[ENVS]; /* the environments' episodes */
    int over[ENVS];    /* 1: the environment's episode has ended */
    uint64_t random;
} fixture;

static fixture s;

static gpur_replay_config config_of(const setting *set)
{
    gpur_replay_config config = replay_fixture_config(fields, FIELDS, CAPACITY, 16, BATCH * LONGEST);
    config.prioritized = 1, config.priority_offset = 0, config.alpha = 1;
    config.n_step = set->n_step, config.layout = set->layout, config.frame_stack = STACK;
    config.extra_frames = set->layout == GPUR_LAYOUT_FRAMES ? CAPACITY : 0;
    return config;
}

static gpur_writer_config writer_of(const setting *set, int links)
{
    gpur_writer_config writer = {0};
    gpur_writer_config_init(&writer, sizeof writer);
    writer.num_envs = links ? 1 : ENVS, writer.autoreset = set->autoreset, writer.link_appends = links;
    writer.sequence_length = set->length, writer.sequence_every = set->every;
    return writer;
}

static int open_fixture(setting set, int links, uint64_t random)
{
    const gpur_replay_config config = config_of(&set);
    const gpur_writer_config writer = writer_of(&set, links);
    memset(&s, 0, sizeof s);
    s.set = set, s.random = random, s.device = test_device();
    return gpur_replay_create(s.device, &config, &s.replay) == GPUR_OK &&
           gpur_writer_open(s.replay, &writer, &s.writer) == GPUR_OK;
}

static void close_fixture(void)
{
    gpur_writer_destroy(s.writer);
    gpur_replay_destroy(s.replay);
    gpur_device_close(s.device);
}

/* A row's tag: its episode and its place there. */
static int64_t tag_of(int64_t at, int64_t row)
{
    return at * MOST + row;
}

static int64_t begin_episode(void)
{
    s.episodes[s.count] = (episode){0, 0};
    return s.count++;
}

/* The model: 1 if a sequence of the whole episode ends with this row. */
static int ends_sequence(const episode *e, int64_t row)
{
    for (int64_t first = 0; first < e->rows; first += s.set.every) {
        const int64_t last = first + s.set.length - 1;
        if (row == (last < e->rows ? last : e->rows - 1) && (last < e->rows || e->ended))
            return 1;
    }
    return 0;
}

static gpur_status reset(int32_t env)
{
    static const uint8_t obs[ENVS * STACK * FRAME];
    for (int32_t i = 0; i < ENVS; i++)
        if (env < 0 || env == i) {
            episode *const before = &s.episodes[s.now[i]];
            before->ended |= s.set.n_step > 1; /* the last rows are known to be the last */
            s.now[i] = begin_episode(), s.over[i] = 0;
        }
    return gpur_writer_reset(s.writer, env, obs);
}

static gpur_status step(void)
{
    static const uint8_t obs[ENVS * STACK * FRAME];
    int32_t action[ENVS] = {0};
    float reward[ENVS] = {0};
    int64_t tags[ENVS];
    uint8_t terminated[ENVS], truncated[ENVS];
    const void *extras[FIELDS] = {[TAG] = tags};
    for (int32_t i = 0; i < ENVS; i++) {
        episode *const e = &s.episodes[s.now[i]];
        const int only_resets = s.over[i] && s.set.autoreset == GPUR_AUTORESET_NEXT_STEP;
        tags[i] = tag_of(s.now[i], e->rows);
        terminated[i] = !only_resets && xorshift_below(&s.random, s.set.ends_in) == 0;
        truncated[i] = !only_resets && xorshift_below(&s.random, s.set.ends_in) == 0;
        s.over[i] = terminated[i] || truncated[i];
        if (only_resets) {
            s.now[i] = begin_episode();
            continue;
        }
        e->rows++, e->ended = s.over[i];
        if (s.over[i] && s.set.autoreset == GPUR_AUTORESET_SAME_STEP)
            s.now[i] = begin_episode(), s.over[i] = 0;
    }
    const gpur_step_input in = {.size = sizeof in,
                                .action = action,
                                .reward = reward,
                                .next_obs = obs,
                                .terminated = terminated,
                                .truncated = truncated,
                                .final_obs = obs,
                                .extras = extras};
    GPUR_TRY(gpur_writer_step_ex(s.writer, &in));
    for (int32_t i = 0; i < ENVS; i++)
        if (s.over[i] && s.set.autoreset == GPUR_AUTORESET_DISABLED)
            GPUR_TRY(reset(i));
    return GPUR_OK;
}

static gpur_status play(int steps)
{
    GPUR_TRY(reset(-1));
    for (int i = 0; i < steps && s.count < MOST - 2 * ENVS; i++) {
        GPUR_TRY(step());
        if (xorshift_below(&s.random, 40) == 0)
            GPUR_TRY(reset((int32_t)xorshift_below(&s.random, ENVS)));
    }
    return gpur_writer_flush(s.writer);
}

/* Every row's priority is 1, the first one, where the model has a sequence's end, else 0. */
static void check_priorities(int *ends)
{
    const gpur_replay_stats stats = replay_fixture_stats(s.replay);
    for (int64_t id = stats.first_id; id < stats.first_id + stats.visible; id++) {
        int64_t tag = 0;
        float priority = -1;
        gpur_batch *batch = NULL;
        CHECK_OK(gpur_replay_gather(s.replay, 1, &id, NULL, &batch));
        CHECK_OK(gpur_batch_read(batch, "tag", &tag, sizeof tag));
        gpur_batch_release(batch);
        CHECK_OK(gpur_replay_get_priorities(s.replay, 1, &id, &priority));
        const int want = ends_sequence(&s.episodes[tag / MOST], tag % MOST);
        TEST_REQUIRE(priority == (want ? 1.0f : 0.0f), "row %lld of an episode of %lld has priority %g",
                     (long long)(tag % MOST), (long long)s.episodes[tag / MOST].rows, (double)priority);
        *ends += want;
    }
}

static setting random_setting(uint64_t *random)
{
    const setting set = {
        .length = 1 + (int32_t)xorshift_below(random, LONGEST),
        .every = 1 + (int32_t)xorshift_below(random, xorshift_below(random, 4) ? LONGEST : 1000),
        .n_step = 1 + (int32_t)xorshift_below(random, 3),
        .autoreset = (int32_t)xorshift_below(random, 3),
        .layout = xorshift_below(random, 2) ? GPUR_LAYOUT_FRAMES : GPUR_LAYOUT_ROWS,
        .ends_in = 4 + (int32_t)xorshift_below(random, 60),
    };
    return set;
}

TEST(random_steps_agree_with_the_list_of_all_sequences)
{
    uint64_t random = 5;
    for (int round = 0; round < (int)test_rounds(60); round++) {
        int ends = 0;
        CHECK(open_fixture(random_setting(&random), 0, xorshift_next(&random)));
        CHECK_OK(play(100));
        check_priorities(&ends);
        CHECK(atomic_load(&test_state.failures) == 0 && ends > 0);
        close_fixture();
    }
}

/* Appends rows of one environment, some of which end an episode, in calls of 1 to 30. */
static gpur_status append(int64_t rows)
{
    int32_t action[30] = {0};
    float reward[30] = {0}, discount[30];
    uint8_t obs[30 * STACK * FRAME] = {0}, terminated[30], truncated[30] = {0};
    int64_t tags[30];
    const void *const arrays[FIELDS] = {obs, action, reward, obs, terminated, truncated, discount, NULL, NULL, tags};
    s.now[0] = begin_episode();
    for (int64_t done = 0, count; done < rows; done += count) {
        count = 1 + xorshift_below(&s.random, 30);
        for (int64_t i = 0; i < count; i++) {
            episode *const e = &s.episodes[s.now[0]];
            tags[i] = tag_of(s.now[0], e->rows++);
            terminated[i] = xorshift_below(&s.random, s.set.ends_in) == 0, discount[i] = terminated[i] ? 0 : 1;
            e->ended = terminated[i];
            if (e->ended)
                s.now[0] = begin_episode();
        }
        GPUR_TRY(gpur_writer_append_fields(s.writer, count, arrays, NULL, NULL));
        if (xorshift_below(&s.random, 6) == 0) {
            GPUR_TRY(gpur_writer_end_appended_episode(s.writer));
            s.now[0] = begin_episode();
        }
    }
    return gpur_writer_flush(s.writer);
}

TEST(appended_rows_agree_with_the_list_of_all_sequences)
{
    uint64_t random = 9;
    for (int round = 0; round < (int)test_rounds(40); round++) {
        int ends = 0;
        setting set = random_setting(&random);
        set.n_step = 1, set.layout = GPUR_LAYOUT_ROWS;
        CHECK(open_fixture(set, 1, xorshift_next(&random)));
        CHECK_OK(append(300));
        check_priorities(&ends);
        CHECK(atomic_load(&test_state.failures) == 0 && ends > 0);
        close_fixture();
    }
}

typedef struct sample {
    int64_t id[BATCH * LONGEST], tag[BATCH * LONGEST];
    uint8_t mask[BATCH * LONGEST], is_first[BATCH * LONGEST];
} sample;

static gpur_status draw(sample *out)
{
    const int64_t rows = BATCH * (int64_t)s.set.length;
    gpur_sequence_config config = {0};
    gpur_batch *batch = NULL;
    GPUR_TRY(gpur_sequence_config_init(&config, sizeof config));
    config.batch = BATCH, config.length = s.set.length, config.min_length = 1, config.across_episodes = 0;
    GPUR_TRY(gpur_replay_sample_sequences(s.replay, &config, NULL, &batch));
    GPUR_TRY(gpur_batch_read(batch, "id", out->id, rows * 8));
    GPUR_TRY(gpur_batch_read(batch, "tag", out->tag, rows * 8));
    GPUR_TRY(gpur_batch_read(batch, "mask", out->mask, rows));
    GPUR_TRY(gpur_batch_read(batch, "is_first", out->is_first, rows));
    gpur_batch_release(batch);
    return GPUR_OK;
}

/* A sampled sequence is one of the model's, complete where its episode has the rows. Returns the id of its last row. */
static int64_t check_sequence(const sample *d, int64_t at)
{
    const int64_t length = s.set.length, *const tag = d->tag + at * length;
    int64_t rows = 0;
    while (rows < length && d->mask[at * length + rows])
        rows++;
    const int64_t row = rows > 0 ? tag[rows - 1] % MOST : -1;
    if (rows == 0 || !ends_sequence(&s.episodes[tag[0] / MOST], row))
        return -1;
    for (int64_t i = 0; i < rows; i++)
        if (tag[i] != tag[rows - 1] - (rows - 1 - i) || d->is_first[at * length + i] != (tag[i] % MOST == 0))
            return -1;
    return rows == length || rows == row + 1 ? d->id[at * length + rows - 1] : -1;
}

/* Draws sequences and compares how often each is drawn with its priority: 1 + id % 5 once they are set. */
static void check_draws(setting set, int rounds)
{
    static int64_t counts[CAPACITY];
    static double want[CAPACITY];
    static sample d;
    double total = 0, statistic = 0;
    int64_t freedom = -1;
    int ends = 0;
    memset(counts, 0, sizeof counts);
    CHECK(open_fixture(set, 0, 3));
    CHECK_OK(play(150));
    check_priorities(&ends);
    const gpur_replay_stats stats = replay_fixture_stats(s.replay);
    for (int64_t id = stats.first_id; id < stats.first_id + stats.visible; id++) {
        float priority = 0;
        CHECK_OK(gpur_replay_get_priorities(s.replay, 1, &id, &priority));
        want[id] = priority > 0 ? (double)(1 + id % 5) : 0, total += want[id];
        priority = (float)want[id];
        if (priority > 0)
            CHECK_OK(gpur_replay_update_priorities(s.replay, 1, &id, &priority, NULL));
    }
    for (int i = 0; i < rounds; i++) {
        CHECK_OK(draw(&d));
        for (int64_t b = 0; b < BATCH; b++) {
            const int64_t last = check_sequence(&d, b);
            CHECK(last >= 0);
            counts[last]++;
        }
    }
    for (int64_t id = stats.first_id; id < stats.first_id + stats.visible; id++) {
        const double expected = want[id] / total * rounds * BATCH;
        CHECK(want[id] > 0 || counts[id] == 0);
        if (want[id] > 0)
            statistic += ((double)counts[id] - expected) * ((double)counts[id] - expected) / expected, freedom++;
    }
    TEST_REQUIRE(chi_square_tail(statistic, freedom) >= alarm, "chi-square %g of %d", statistic, (int)freedom);
    close_fixture();
}

/* Overlapping sequences, and such that begin where episodes begin. Short ones of n steps, too. */
TEST(sequences_are_sampled_by_their_priorities)
{
    const int rounds = 100 + (int)test_rounds(500);
    check_draws((setting){8, 4, 1, GPUR_AUTORESET_SAME_STEP, GPUR_LAYOUT_ROWS, 30}, rounds);
    check_draws((setting){8, 1000, 1, GPUR_AUTORESET_NEXT_STEP, GPUR_LAYOUT_FRAMES, 30}, rounds);
    check_draws((setting){5, 3, 3, GPUR_AUTORESET_DISABLED, GPUR_LAYOUT_FRAMES, 20}, rounds);
}

/* Where every sequence begins where an episode does, it has the episode's first rows. */
TEST(sequences_can_begin_where_episodes_begin)
{
    static sample d;
    CHECK(open_fixture((setting){6, INT32_MAX, 1, GPUR_AUTORESET_SAME_STEP, GPUR_LAYOUT_ROWS, 10}, 0, 8));
    CHECK_OK(play(200));
    CHECK_OK(draw(&d));
    for (int64_t b = 0; b < BATCH; b++) {
        const episode *const e = &s.episodes[d.tag[b * 6] / MOST];
        CHECK_EQUAL(d.tag[b * 6] % MOST, 0);
        for (int64_t i = 0; i < 6; i++)
            CHECK_EQUAL(d.mask[b * 6 + i], i < e->rows);
    }
    close_fixture();
}

/* The writer with one change to good settings. */
#define REFUSED(change, message)                                                                                       \
    do {                                                                                                               \
        gpur_writer *refused = NULL;                                                                                   \
        gpur_writer_config c = writer_of(&set, 0);                                                                     \
        change;                                                                                                        \
        CHECK_FAILS(gpur_writer_open(s.replay, &c, &refused), GPUR_INVALID_ARGUMENT, message);                         \
    } while (0)

TEST(what_cannot_be_is_refused)
{
    const setting set = {8, 4, 1, GPUR_AUTORESET_DISABLED, GPUR_LAYOUT_ROWS, 30};
    static const uint8_t obs[STACK * FRAME], flag;
    static const int32_t action;
    static const float number;
    static const int64_t tag;
    const void *const row[FIELDS] = {obs, &action, &number, obs, &flag, &flag, &number, &tag, &number, &tag};
    CHECK(open_fixture(set, 0, 1));
    REFUSED(c.sequence_length = 0, "sequence_length is 0 and sequence_every 4; both must be 1 or more, or both 0");
    REFUSED(c.sequence_every = 0, "sequence_length is 8 and sequence_every 0");
    REFUSED(c.sequence_length = -1, "sequence_length is -1");
    CHECK_FAILS(gpur_writer_append_fields(s.writer, 1, row, NULL, NULL), GPUR_INVALID_ARGUMENT,
                "sequence_length is 8 and link_appends 0");
    close_fixture();
    gpur_replay_config config = config_of(&set);
    config.priority_offset = 0.5f;
    s.device = test_device();
    CHECK_OK(gpur_replay_create(s.device, &config, &s.replay));
    REFUSED((void)c, "prioritized is 1, priority_offset 0.5, there is a field \"priority\" of one float32 and a field");
    gpur_replay_destroy(s.replay);
    config = config_of(&set);
    config.field_count = PRIORITY;
    CHECK_OK(gpur_replay_create(s.device, &config, &s.replay));
    REFUSED((void)c, "there is no field \"priority\" of one float32 and a field");
    gpur_replay_destroy(s.replay);
    gpur_device_close(s.device);
}

/* Blocks bring their own priorities. */
TEST(blocks_are_refused)
{
    static const uint8_t obs[STACK * FRAME], flag;
    static const int32_t action;
    static const float number, first = NAN;
    static const int64_t tag;
    static uint8_t block[4096];
    const void *const row[FIELDS] = {obs, &action, &number, obs, &flag, &flag, &number, NULL, &first, &tag};
    const setting set = {8, 4, 1, GPUR_AUTORESET_DISABLED, GPUR_LAYOUT_ROWS, 30};
    const gpur_replay_config config = config_of(&set);
    gpur_block_format *format = NULL;
    gpur_block_input input = {.size = sizeof input, .rows = 1, .fields = row};
    int64_t bytes = 0;
    CHECK(open_fixture(set, 1, 1));
    CHECK_OK(gpur_block_format_create(&config, &format));
    CHECK_OK(gpur_block_pack(format, &input, block, sizeof block, &bytes));
    CHECK_FAILS(gpur_writer_append_block(s.writer, block, bytes, NULL), GPUR_INVALID_ARGUMENT,
                "sequence_length is 8; it must be 0 where blocks are appended");
    gpur_block_format_destroy(format);
    close_fixture();
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(random_steps_agree_with_the_list_of_all_sequences);
    RUN(appended_rows_agree_with_the_list_of_all_sequences);
    RUN(sequences_are_sampled_by_their_priorities);
    RUN(sequences_can_begin_where_episodes_begin);
    RUN(what_cannot_be_is_refused);
    RUN(blocks_are_refused);
    return test_main_end();
}
