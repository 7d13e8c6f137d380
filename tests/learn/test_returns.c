/* SPDX-License-Identifier: MIT */
/* The returns of a cache: the table of the code of Daley & Amato 2019, every estimator against the reference on random
 * episodes, and which transitions the entries are of. */
#include "support/replay_fixture.h"
#include "test.h"
#include "support/returns_fixture.h"

#include <stddef.h>

static gpur_device *device;

/* The table. */

enum { TABLE_ROWS = 10, TABLE_ENTRIES = 9, TABLE_LENGTH = 3 };

typedef struct table_row {
    float reward, discount; /* the discount is read where the arguments have its offset */
    uint8_t terminated, truncated;
    int64_t previous;
} table_row;

/* A ring of ten rows and a cache of nine entries, in blocks of three, of its first nine rows. */
typedef struct table {
    table_row rows[TABLE_ROWS];
    gpur_cache_entry entry[TABLE_ENTRIES];
    uint8_t greedy[TABLE_ENTRIES];
    float taken[TABLE_ENTRIES];
    gpur_cache_state state;
    gpur_window window;
} table;

/* Rewards, max_a Q of each state, ends and greedy actions are those of the unit test of the public code. */
static table first_table(void)
{
    static const float value[TABLE_ROWS] = {100, 200, 300, 400, 300, 200, 100, 200, 300, 400};
    table t;
    memset(&t, 0, sizeof t);
    for (int i = 0; i < TABLE_ROWS; i++) {
        const int is_first = i == 0 || i == 3 || i == 8;
        t.rows[i].reward = (float)(10 * (i / 2 + 1) * (i % 2 ? -1 : 1));
        t.rows[i].terminated = i == 2 || i == 7;
        t.rows[i].previous = is_first ? (i == 0 ? -1 : -2 - (i - 1)) : i - 1;
    }
    for (int i = 0; i < TABLE_ENTRIES; i++) {
        t.entry[i] = (gpur_cache_entry){(uint32_t)i, value[i + 1]};
        t.greedy[i] = i != 1 && i != 5;
    }
    t.window.count = TABLE_ROWS;
    return t;
}

/* The arguments without addresses. */
static gpur_cache_returns_args table_args(int32_t rule, float lambda, int32_t n_step)
{
    const gpur_cache_returns_args args = {
        .pitch = sizeof(table_row),
        .capacity = TABLE_ROWS,
        .blocks = TABLE_ENTRIES / TABLE_LENGTH,
        .length = TABLE_LENGTH,
        .reward = offsetof(table_row, reward),
        .terminated = offsetof(table_row, terminated),
        .truncated = offsetof(table_row, truncated),
        .previous = offsetof(table_row, previous),
        .discount = -1,
        .gamma = 0.9f,
        .rule = rule,
        .n_step = n_step,
        .lambda = lambda,
    };
    return args;
}

static gpur_status compute(table *t, gpur_cache_returns_args args, int is_watkins, gpur_grid grid)
{
    table *const there = upload_to_device(device, t, sizeof *t);
    gpur_stream *stream = NULL;
    if (!there)
        return GPUR_OUT_OF_MEMORY;
    args.state = &there->state, args.window = &there->window;
    args.ring = (const unsigned char *)there->rows;
    args.entry = there->entry, args.taken = there->taken;
    args.greedy = is_watkins ? there->greedy : NULL;
    gpur_status status = gpur_stream_create(device, &stream);
    if (status == GPUR_OK)
        status = gpur_launch_cache_returns(stream, grid, &args);
    if (status == GPUR_OK)
        status = gpur_stream_sync(stream);
    if (status == GPUR_OK)
        status = gpur_device_copy(device, t, there, sizeof *t);
    gpur_stream_destroy(stream);
    gpur_device_free(device, there);
    return status;
}

static void check_table(int32_t rule, float lambda, int32_t n_step, int is_watkins, const double *want)
{
    static const gpur_grid grids[] = {{1, 32, 0}, {3, 32, 0}, {2, 64, 0}};
    for (int i = 0; i < 3; i++) {
        table t = first_table();
        CHECK_OK(compute(&t, table_args(rule, lambda, n_step), is_watkins, grids[i]));
        for (int k = 0; k < TABLE_ENTRIES; k++)
            CHECK_NEAR(t.entry[k].value, want[k], 1e-4);
    }
}

/* The public code cuts Watkins's traces where a_t is not greedy, and its test wants 233.2 and 260 for the first two
 * returns, 112.624 and 109.2 for the fourth and fifth. These are the textbook's: cut where a_{t+1} is not greedy. */
TEST(the_tables_of_the_papers_code)
{
    static const double one_step[] = {190, 260, 20, 250, 210, 60, 220, -40, 410};
    static const double three_step[] = {17.2, 8, 20, 55.6, 84, 60, 4, -40, 410};
    static const double peng[] = {88.048, 58.4, 20, 112.624, 109.2, 60, 47.2, -40, 410};
    static const double watkins[] = {190, 58.4, 20, 185.2, 210, 60, 47.2, -40, 410};
    check_table(GPUR_RETURNS_N_STEP, 0, 1, 0, one_step);
    check_table(GPUR_RETURNS_N_STEP, 0, 3, 0, three_step);
    check_table(GPUR_RETURNS_LAMBDA, 0.8f, 0, 0, peng);
    check_table(GPUR_RETURNS_LAMBDA, 0.8f, 0, 1, watkins);
    check_table(GPUR_RETURNS_LAMBDA, 0, 0, 0, one_step);
    check_table(GPUR_RETURNS_LAMBDA, 1, 0, 0,
                three_step); /* no episode or block of it has more than three steps left */
}

/* The last block ends at row 8. Whether row 9 ended its episode, or was the first of one, is not read. */
TEST(what_follows_a_block_has_no_effect)
{
    table t = first_table(), changed = first_table();
    changed.rows[9] = (table_row){1e6f, 0, 1, 1, -1};
    CHECK_OK(compute(&t, table_args(GPUR_RETURNS_LAMBDA, 0.8f, 0), 0, (gpur_grid){1, 32, 0}));
    CHECK_OK(compute(&changed, table_args(GPUR_RETURNS_LAMBDA, 0.8f, 0), 0, (gpur_grid){1, 32, 0}));
    CHECK(memcmp(t.entry, changed.entry, sizeof t.entry) == 0);
}

/* Row 4 is cut off in the middle of the second block: truncated, or followed by a reset. */
TEST(a_truncation_and_a_reset_within_a_block_bootstrap_and_may_count_as_terminated)
{
    const gpur_grid grid = {1, 32, 0};
    for (int is_reset = 0; is_reset < 2; is_reset++) {
        table t = first_table();
        t.rows[4].truncated = !is_reset;
        t.rows[5].previous = -2 - 4;
        CHECK_OK(compute(&t, table_args(GPUR_RETURNS_LAMBDA, 0.8f, 0), 0, grid));
        CHECK_NEAR(t.entry[4].value, 30 + 0.9 * 200, 1e-4);
        CHECK_NEAR(t.entry[3].value, -20 + 0.9 * (0.8 * 210 + 0.2 * 300), 1e-4);
    }
    table t = first_table();
    gpur_cache_returns_args args = table_args(GPUR_RETURNS_LAMBDA, 0.8f, 0);
    args.truncation_terminates = 1;
    t.rows[4].truncated = 1;
    CHECK_OK(compute(&t, args, 0, grid));
    CHECK_NEAR(t.entry[4].value, 30, 1e-4);
    CHECK_NEAR(t.entry[3].value, -20 + 0.9 * (0.8 * 30 + 0.2 * 300), 1e-4);
}

/* Row 2 is marked as terminated and has a discount above 0, row 4 the reverse: only the discount counts. */
TEST(a_field_discount_takes_the_place_of_gamma_and_terminated)
{
    static const float discounts[TABLE_ROWS] = {0.5f, 0.25f, 0.75f, 1, 0, 0.5f, 0.125f, 0, 0.5f, 0.5f};
    gpur_cache_returns_args args = table_args(GPUR_RETURNS_LAMBDA, 0.5f, 0);
    table t = first_table();
    for (int i = 0; i < TABLE_ROWS; i++)
        t.rows[i].discount = discounts[i];
    args.discount = offsetof(table_row, discount);
    CHECK_OK(compute(&t, args, 0, (gpur_grid){1, 32, 0}));
    CHECK_NEAR(t.entry[2].value, 20 + 0.75 * 400, 1e-4);
    CHECK_NEAR(t.entry[1].value, -10 + 0.25 * (0.5 * 320 + 0.5 * 300), 1e-4);
    CHECK_NEAR(t.entry[0].value, 10 + 0.5 * (0.5 * 67.5 + 0.5 * 200), 1e-4);
    CHECK_NEAR(t.entry[4].value, 30, 1e-4);
    CHECK_NEAR(t.entry[3].value, -20 + 1 * (0.5 * 30 + 0.5 * 300), 1e-4);
    CHECK_NEAR(t.entry[5].value, -30 + 0.5 * 100, 1e-4);
}

/* Row 4 is marked as truncated, and the arguments have no offset of that. */
TEST(without_a_field_truncated_no_row_is_truncated)
{
    gpur_cache_returns_args args = table_args(GPUR_RETURNS_LAMBDA, 0.8f, 0);
    table t = first_table(), want = first_table();
    CHECK_OK(compute(&want, args, 0, (gpur_grid){1, 32, 0}));
    args.truncated = -1, args.truncation_terminates = 1;
    t.rows[4].truncated = 1;
    CHECK_OK(compute(&t, args, 0, (gpur_grid){1, 32, 0}));
    CHECK(memcmp(t.entry, want.entry, sizeof t.entry) == 0);
}

/* The window has lost rows 0 to 4. */
TEST(entries_of_rows_that_left_the_window_get_no_address)
{
    table t = first_table();
    t.window = (gpur_window){5, 5, 5};
    CHECK_OK(compute(&t, table_args(GPUR_RETURNS_LAMBDA, 0.8f, 0), 0, (gpur_grid){1, 32, 0}));
    for (int i = 0; i < TABLE_ENTRIES; i++)
        CHECK_EQUAL(t.entry[i].address, i < 5 ? GPUR_CACHE_MISSING : (uint32_t)i);
    CHECK_NEAR(t.entry[6].value, 47.2, 1e-4);
    CHECK_NEAR(t.entry[3].value, 0, 0);
}

/* The same rows. An entry that is there has |L - Q(s, a)|. */
TEST(a_missing_entry_has_no_error)
{
    table t = first_table();
    gpur_cache_returns_args args = table_args(GPUR_RETURNS_LAMBDA, 0.8f, 0);
    args.writes_errors = 1;
    t.window = (gpur_window){5, 5, 5};
    for (int i = 0; i < TABLE_ENTRIES; i++)
        t.taken[i] = 50;
    CHECK_OK(compute(&t, args, 0, (gpur_grid){1, 32, 0}));
    for (int i = 0; i < TABLE_ENTRIES; i++)
        CHECK_NEAR(t.taken[i], i < 5 ? GPUR_CACHE_NO_ERROR : fabsf(t.entry[i].value - 50), 0);
}

/* The window has lost rows 0 to 3. Of the second block, entry 3 is missing, the error of entry 4 is 126 lambda, and
 * that of entry 5 is 0: (126 lambda)^2 / 2 is at most 6,000 up to lambda = 111 / 128. */
TEST(missing_entries_do_not_count_for_the_error_bound)
{
    static const float missing[] = {0, 1e6f};
    gpur_cache_returns_args args = table_args(GPUR_RETURNS_ERROR_BOUND, 0, 0);
    args.error_bound = 6000;
    for (int i = 0; i < 2; i++) {
        table t = first_table();
        t.window = (gpur_window){4, 4, 6};
        t.taken[3] = missing[i], t.taken[4] = 210, t.taken[5] = 60;
        CHECK_OK(compute(&t, args, 0, (gpur_grid){1, 32, 0}));
        CHECK_NEAR(t.entry[4].value, 210 - 126 * 111.0 / 128, 1e-3);
        CHECK_NEAR(t.entry[5].value, 60, 1e-4);
        for (int k = 0; k < 4; k++)
            CHECK_EQUAL(t.entry[k].address, GPUR_CACHE_MISSING);
    }
}

/* Blocks of rewards 1, -2 and 0, where Q is 0 everywhere: for lambda the mean of L^2 is ((1 - 2 lambda)^2 + 4) / 3,
 * which is 5 / 3 for 0 and 1, and least, 4 / 3, for 0.5. */
TEST(the_largest_lambda_within_the_bound_is_found_where_neither_end_is)
{
    static const float rewards[] = {1, -2, 0};
    static const struct {
        float bound, lambda;
    } cases[] = {{4.4f / 3, 104.0f / 128}, {4.0001f / 3, 0.5f}, {5.1f / 3, 1.0f}, {3.9f / 3, 0.0f}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        gpur_cache_returns_args args = table_args(GPUR_RETURNS_ERROR_BOUND, 0, 0);
        table t = first_table();
        args.error_bound = cases[c].bound, args.gamma = 1.0f;
        for (int i = 0; i < TABLE_ENTRIES; i++) {
            t.rows[i].reward = rewards[i % 3], t.rows[i].terminated = 0, t.rows[i].previous = 0;
            t.entry[i].value = t.taken[i] = 0;
        }
        CHECK_OK(compute(&t, args, 0, (gpur_grid){1, 32, 0}));
        for (int i = 0; i < TABLE_ENTRIES; i++)
            CHECK_NEAR(t.entry[i].value, rewards[i % 3] - (i % 3 == 0 ? 2 * cases[c].lambda : 0), 1e-6);
    }
}

/* The median. */

enum { ERRORS = 41 };

typedef struct median_case {
    gpur_cache_state state;
    float error[ERRORS];
} median_case;

static gpur_status find_median(median_case *c, int64_t size)
{
    median_case *const there = upload_to_device(device, c, sizeof *c);
    gpur_stream *stream = NULL;
    if (!there)
        return GPUR_OUT_OF_MEMORY;
    const gpur_cache_median_args args = {&there->state, there->error, size};
    gpur_status status = gpur_stream_create(device, &stream);
    if (status == GPUR_OK)
        status = gpur_launch_cache_median(stream, gpur_grid_single(device), &args);
    if (status == GPUR_OK)
        status = gpur_stream_sync(stream);
    if (status == GPUR_OK)
        status = gpur_device_copy(device, c, there, sizeof *c);
    gpur_stream_destroy(stream);
    gpur_device_free(device, there);
    return status;
}

/* The errors that are there are 0, 1, ... in another order, so that the median is half of the largest. */
TEST(the_median_is_of_the_errors_without_missing_entries)
{
    for (int missing = 0; missing <= ERRORS; missing++) {
        median_case c;
        memset(&c, 0, sizeof c);
        for (int i = 0; i < ERRORS; i++) {
            const int number = i * 17 % ERRORS; /* a permutation: 41 is prime */
            c.error[i] = number < missing ? GPUR_CACHE_NO_ERROR : (float)(number - missing);
        }
        CHECK_OK(find_median(&c, ERRORS));
        CHECK_NEAR(c.state.median, missing < ERRORS ? 0.5 * (ERRORS - 1 - missing) : 0, 0);
    }
}

/* Random episodes. */

enum { SIZE = 240, LENGTH = 12, BLOCKS = SIZE / LENGTH };

static ref_step steps[RETURNS_MAX_ROWS];
static int64_t previous[RETURNS_MAX_ROWS];
static gpur_cache_entry entries[SIZE];

/* 1 if the entry's row follows the row of the entry before it. Addresses count from id `base`. */
static int follows(int64_t entry, int64_t at, int64_t base)
{
    const int64_t before = base + entries[entry - 1].address, link = previous[at];
    return (link >= 0 ? link : -2 - link) == before;
}

static double largest_difference(const gpur_returns_config *config, const ref_step *block, int64_t first)
{
    double want[REF_BLOCK], most = 0;
    ref_returns(config, block, want);
    for (int i = 0; i < LENGTH; i++)
        most = fmax(most, fabs((double)entries[first + i].value - want[i]) / (1 + fabs(want[i])));
    return most;
}

/* Where the mean squared error of some lambda is the bound up to rounding, either outcome is right. */
static double difference(const gpur_returns_config *config, const ref_step *block, int64_t first)
{
    gpur_returns_config near = *config;
    double least = largest_difference(config, block, first);
    for (int i = -1; i <= 1; i += 2) {
        near.error_bound = config->error_bound * (1.0f + (float)i * 1e-4f);
        least = fmin(least, largest_difference(&near, block, first));
    }
    return least;
}

static void check_returns(gpur_learner *learner, const returns_fixture *f, const char *what)
{
    const gpur_returns_config *const config = &gpur_dqn_of(learner)->config.returns;
    const int32_t cuts = gpur_dqn_of(learner)->returns.estimator->cuts_traces;
    int64_t first = 0, base = 0;
    double margin = 0;
    CHECK_OK(returns_fixture_entries(learner, entries, &base));
    const int64_t rows = returns_fixture_steps(f, learner, steps, &first, previous, &margin);
    CHECK(rows > LENGTH);
    CHECK_EQUAL(base, first);
    CHECK_EQUAL(first > 0, f->setting.capacity < 496);
    CHECK(!cuts || margin >= 1e-5); /* else rounding may decide whether an action is greedy */
    for (int64_t block = 0; block < BLOCKS; block++) {
        ref_step one[LENGTH];
        for (int64_t i = 0; i < LENGTH; i++) {
            const int64_t entry = block * LENGTH + i, at = entries[entry].address;
            TEST_REQUIRE(at < rows, "%s: entry %d has address %u of %d rows", what, (int)entry,
                         (unsigned)entries[entry].address, (int)rows);
            TEST_REQUIRE(previous[at] != RETURNS_NO_TRANSITION, "%s: entry %d is of no transition", what, (int)entry);
            TEST_REQUIRE(i == 0 || follows(entry, at, base), "%s: entry %d does not follow the one before", what,
                         (int)entry);
            one[i] = steps[at];
        }
        const double worst = difference(config, one, block * LENGTH);
        TEST_REQUIRE(worst < 2e-5, "%s: a return of block %d is wrong by %g", what, (int)block, worst);
    }
}

/* Bounds with which some blocks have lambda 1, some 0, and most one in between. */
static void check_estimator(const returns_fixture *f, int32_t estimator, int32_t truncation_terminates)
{
    gpur_dqn_config config = returns_fixture_config(f, SIZE, LENGTH);
    gpur_learner *learner = NULL;
    char what[96];
    config.returns.estimator = estimator;
    config.returns.error_bound = 0.6f;
    config.returns.n_step = 5;
    config.returns.truncation_terminates = truncation_terminates;
    snprintf(what, sizeof what, "estimator %d, %s, %d environments, schema %d, capacity %d", (int)estimator,
             f->setting.is_lanes    ? "lanes"
             : f->setting.is_frames ? "frames"
                                    : "rows",
             (int)f->setting.envs, (int)f->setting.schema, (int)f->setting.capacity);
    CHECK_OK(gpur_dqn_create(f->replay, &config, &learner));
    CHECK_OK(gpur_learner_refresh(learner));
    check_returns(learner, f, what);
    gpur_learner_destroy(learner);
}

/* Of 496 transitions or 500; a ring of fewer has wrapped. */
static void check_setting(const returns_setting *setting, int is_short)
{
    const int32_t last = is_short ? GPUR_ESTIMATOR_WATKINS : GPUR_ESTIMATOR_WATKINS_ERROR_BOUND;
    returns_fixture f;
    gpur_status status = returns_fixture_open(&f, device, setting);
    if (status == GPUR_OK)
        status = returns_fixture_step(&f, 500 / setting->envs);
    for (int32_t estimator = GPUR_ESTIMATOR_PENG; status == GPUR_OK && estimator <= last; estimator++)
        check_estimator(&f, estimator, estimator % 2);
    returns_fixture_close(&f);
    CHECK_OK(status);
}

static void check_estimators(int32_t is_frames, int32_t envs, int32_t schema, int64_t capacity)
{
    const returns_setting setting = {.is_frames = is_frames,
                                     .envs = envs,
                                     .is_conv = is_frames && envs == 1 && !IS_WATCHED,
                                     .schema = schema,
                                     .capacity = capacity,
                                     .seed = 7};
    check_setting(&setting, IN_RACE_CHECK && (is_frames || envs > 1 || schema != RETURNS_PLAIN));
}

/* Beside a model that keeps all steps: rows of which no transition can be made are in no block. */
TEST(every_estimator_follows_the_reference_on_lanes)
{
    for (int32_t autoreset = GPUR_AUTORESET_DISABLED; autoreset <= GPUR_AUTORESET_SAME_STEP; autoreset++)
        for (int64_t capacity = 300; capacity <= 600; capacity += 300) {
            const returns_setting setting = {
                .is_lanes = 1, .autoreset = autoreset, .envs = 8, .capacity = capacity, .seed = 7};
            check_setting(&setting, IN_RACE_CHECK);
        }
}

TEST(every_estimator_follows_the_reference_on_random_episodes)
{
    for (int32_t is_frames = 0; is_frames < 2; is_frames++)
        for (int32_t envs = 1; envs <= 8; envs += 7)
            check_estimators(is_frames, envs, RETURNS_PLAIN, 600);
}

TEST(every_estimator_follows_the_reference_with_a_discount_of_each_row_and_without_a_field_truncated)
{
    check_estimators(0, 1, RETURNS_DISCOUNTS, 600);
    check_estimators(0, 1, RETURNS_NO_TRUNCATED, 600);
    check_estimators(0, 8, RETURNS_NO_TRUNCATED, 600);
}

TEST(every_estimator_follows_the_reference_in_a_ring_that_has_wrapped)
{
    check_estimators(0, 8, RETURNS_PLAIN, 300);
    check_estimators(1, 1, RETURNS_PLAIN, 300);
}

/* r_t + gamma v(s_{t+1}). */
static double one_step_return(const ref_step *step)
{
    return step->reward + step->discount * step->value;
}

/* The discounted rewards of `count` steps, up to the end of the episode, and the value of what follows, unless the last
 * of them terminated. */
static double monte_carlo_return(const ref_step *episode, int64_t count)
{
    double sum = 0, factor = 1;
    for (int64_t i = 0; i < count; i++) {
        sum += factor * episode[i].reward;
        factor *= episode[i].discount;
        if (i + 1 == count || episode[i].truncated || episode[i].discount == 0 || episode[i + 1].is_first)
            return sum + factor * episode[i].value;
    }
    return sum;
}

static void check_sums(const returns_fixture *f, float lambda)
{
    gpur_dqn_config config = returns_fixture_config(f, SIZE, LENGTH);
    gpur_learner *learner = NULL;
    int64_t first = 0, base = 0;
    double margin = 0;
    config.returns.lambda = lambda;
    CHECK_OK(gpur_dqn_create(f->replay, &config, &learner));
    CHECK_OK(gpur_learner_refresh(learner));
    CHECK_OK(returns_fixture_entries(learner, entries, &base));
    CHECK(returns_fixture_steps(f, learner, steps, &first, previous, &margin) > LENGTH);
    for (int i = 0; i < SIZE; i++) {
        const ref_step *const step = &steps[entries[i].address];
        const double want = lambda == 0.0f ? one_step_return(step) : monte_carlo_return(step, LENGTH - i % LENGTH);
        CHECK_NEAR(entries[i].value, want, 2e-5 * (1 + fabs(want)));
    }
    gpur_learner_destroy(learner);
}

/* Against sums written out here, which share nothing with the kernel or the reference. With one environment the rows of
 * a block are successive. */
TEST(lambda_0_is_one_step_and_lambda_1_is_monte_carlo_up_to_the_bootstrap)
{
    const returns_setting setting = {.envs = 1, .capacity = 600, .seed = 3};
    returns_fixture f;
    CHECK_OK(returns_fixture_open(&f, device, &setting));
    CHECK_OK(returns_fixture_step(&f, 400));
    check_sums(&f, 0.0f);
    check_sums(&f, 1.0f);
    returns_fixture_close(&f);
}

/* A block of 120 rows is a chunk of its own; the last chunk of blocks of 7 has fewer rows than the others. */
TEST(chunks_of_any_size_fill_the_cache)
{
    static const int64_t sizes[][2] = {{240, 120}, {7 * 300, 7}, {3, 1}};
    const returns_setting setting = {.envs = 1, .capacity = 600, .seed = 5};
    static gpur_cache_entry all[7 * 300];
    returns_fixture f;
    CHECK_OK(returns_fixture_open(&f, device, &setting));
    CHECK_OK(returns_fixture_step(&f, 400));
    for (int i = 0; i < 3; i++) {
        const gpur_dqn_config config = returns_fixture_config(&f, sizes[i][0], sizes[i][1]);
        gpur_learner *learner = NULL;
        int64_t base = 0;
        CHECK_OK(gpur_dqn_create(f.replay, &config, &learner));
        CHECK_OK(gpur_learner_refresh(learner));
        CHECK_OK(returns_fixture_entries(learner, all, &base));
        for (int64_t k = 0; k < sizes[i][0]; k++)
            CHECK(k % sizes[i][1] == 0 ? all[k].address < 400 : all[k].address == all[k - 1].address + 1);
        gpur_learner_destroy(learner);
    }
    returns_fixture_close(&f);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
    RUN(the_tables_of_the_papers_code);
    RUN(what_follows_a_block_has_no_effect);
    RUN(a_truncation_and_a_reset_within_a_block_bootstrap_and_may_count_as_terminated);
    RUN(a_field_discount_takes_the_place_of_gamma_and_terminated);
    RUN(without_a_field_truncated_no_row_is_truncated);
    RUN(entries_of_rows_that_left_the_window_get_no_address);
    RUN(a_missing_entry_has_no_error);
    RUN(missing_entries_do_not_count_for_the_error_bound);
    RUN(the_largest_lambda_within_the_bound_is_found_where_neither_end_is);
    RUN(the_median_is_of_the_errors_without_missing_entries);
    RUN(every_estimator_follows_the_reference_on_lanes);
    RUN(every_estimator_follows_the_reference_on_random_episodes);
    RUN(every_estimator_follows_the_reference_with_a_discount_of_each_row_and_without_a_field_truncated);
    RUN(every_estimator_follows_the_reference_in_a_ring_that_has_wrapped);
    RUN(lambda_0_is_one_step_and_lambda_1_is_monte_carlo_up_to_the_bootstrap);
    RUN(chunks_of_any_size_fill_the_cache);
    gpur_device_close(device);
    return test_main_end();
}
