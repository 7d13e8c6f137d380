/* SPDX-License-Identifier: MIT */
/* Training from a cache of returns: draws, storage, overwritten rows, files, refusals, and appends meanwhile. */
#include "support/replay_fixture.h"
#include "test.h"
#include "support/file_utils.h"
#include "support/returns_fixture.h"

#include <pthread.h>
#include <stddef.h>

enum { SIZE = 60, LENGTH = 12, WEIGHTS = 8192 };

static gpur_device *device;
static gpur_cache_entry entries[SIZE];

/* Opens a fixture with 300 transitions and a learner on it; NULL on an error. The caller always calls close_both. */
static gpur_learner *open_both(returns_fixture *f, const returns_setting *setting, void (*change)(gpur_dqn_config *))
{
    gpur_learner *learner = NULL;
    gpur_status status = returns_fixture_open(f, device, setting);
    if (status == GPUR_OK)
        status = returns_fixture_step(f, 304 / setting->envs);
    gpur_dqn_config config = returns_fixture_config(f, SIZE, LENGTH);
    if (change)
        change(&config);
    if (status == GPUR_OK)
        status = gpur_dqn_create(f->replay, &config, &learner);
    return learner;
}

static void close_both(returns_fixture *f, gpur_learner *learner)
{
    gpur_learner_destroy(learner);
    returns_fixture_close(f);
}

static const returns_setting one_env = {.envs = 1, .capacity = 400, .seed = 2};

/* Storage. */

static void make_physical(gpur_dqn_config *config)
{
    config->returns.storage = GPUR_CACHE_PHYSICAL;
}

static gpur_status train_rounds(returns_fixture *f, gpur_learner *learner, int rounds)
{
    for (int i = 0; i < rounds; i++) {
        GPUR_TRY(returns_fixture_step(f, 16));
        GPUR_TRY(gpur_learner_refresh(learner));
        GPUR_TRY(gpur_learner_train(learner, 5));
    }
    return gpur_learner_sync(learner);
}

static void draw_with_replacement(gpur_dqn_config *config)
{
    config->returns.draw = GPUR_CACHE_REPLACEMENT;
}

/* With a p that falls as it trains, from refresh to refresh. */
static void draw_by_error(gpur_dqn_config *config)
{
    draw_with_replacement(config);
    config->returns.prioritization = (gpur_schedule){.first = 0.8f, .last = 0.2f, .begin = 1, .steps = 30};
}

static void draw_copies_with_replacement(gpur_dqn_config *config)
{
    draw_with_replacement(config);
    make_physical(config);
}

static void draw_copies_by_error(gpur_dqn_config *config)
{
    draw_by_error(config);
    make_physical(config);
}

/* Transitions are overwritten between two refreshes, but none between a refresh and its train steps. */
static void check_storages(const returns_setting *setting, void (*make_virtual)(gpur_dqn_config *),
                           void (*make_copies)(gpur_dqn_config *))
{
    static float weights[2][WEIGHTS];
    gpur_learner_stats stats[2];
    int64_t count[2];
    for (int i = 0; i < 2; i++) {
        returns_fixture f;
        gpur_learner *const learner = open_both(&f, setting, i ? make_copies : make_virtual);
        CHECK(learner);
        CHECK_OK(train_rounds(&f, learner, 10));
        stats[i] = learner_fixture_stats(learner);
        count[i] = learner_fixture_weights(learner, GPUR_WEIGHTS_ONLINE, weights[i], WEIGHTS);
        close_both(&f, learner);
    }
    CHECK(count[0] > 0 && count[0] == count[1]);
    CHECK(memcmp(weights[0], weights[1], (size_t)count[0] * sizeof(float)) == 0);
    CHECK_NEAR(stats[0].loss, stats[1].loss, 0);
    CHECK_NEAR(stats[0].mean_q, stats[1].mean_q, 0);
    CHECK_EQUAL(stats[0].missing_rows + stats[1].missing_rows, 0);
    CHECK_EQUAL(stats[0].steps, 50);
    CHECK_EQUAL(stats[0].refreshes, 10);
}

TEST(virtual_and_physical_entries_train_the_same_weights_bit_for_bit)
{
    for (int32_t i = 0; i < 6; i++) {
        const returns_setting setting = {
            .is_frames = i % 3 > 0, .envs = i < 3 ? 1 : 8, .is_conv = i % 3 == 2, .capacity = 360, .seed = 11};
        if (setting.is_conv && IS_WATCHED)
            continue;
        check_storages(&setting, NULL, make_physical);
        if (IN_RACE_CHECK && i % 4 > 0) /* rows of one environment, and frames of eight, are enough there */
            continue;
        check_storages(&setting, draw_with_replacement, draw_copies_with_replacement);
        check_storages(&setting, draw_by_error, draw_copies_by_error);
    }
}

static void cut_traces(gpur_dqn_config *config)
{
    config->returns.estimator = GPUR_ESTIMATOR_WATKINS;
}

/* What a learner with a cache of `size` entries takes: what it reports, and what the device counts as allocated. */
typedef struct learner_bytes {
    int64_t entries, reported, allocated;
} learner_bytes;

static gpur_status measure(const returns_fixture *f, void (*change)(gpur_dqn_config *), int64_t size,
                           learner_bytes *bytes)
{
    gpur_learner *learner = NULL;
    gpur_dqn_config config = returns_fixture_config(f, size, 100);
    const int64_t before = test_memory_used(device);
    if (change)
        change(&config);
    GPUR_TRY(gpur_dqn_create(f->replay, &config, &learner));
    const gpur_learner_stats stats = learner_fixture_stats(learner);
    *bytes = (learner_bytes){stats.cache_bytes, stats.device_bytes, test_memory_used(device) - before};
    gpur_learner_destroy(learner);
    return GPUR_OK;
}

/* The chunks of a refresh have as many rows with either size, so that only the entries differ. The arrays of the device
 * begin at multiples of 256 bytes. */
static void check_bytes(int32_t is_frames, void (*change)(gpur_dqn_config *), int64_t of_entry)
{
    enum { FEW = 8000, ALL = 80000, PADDING = 255 };
    const returns_setting setting = {.is_frames = is_frames, .envs = 1, .capacity = 400, .seed = 2};
    returns_fixture f;
    learner_bytes few, all;
    CHECK_OK(returns_fixture_open(&f, device, &setting));
    CHECK_OK(measure(&f, change, FEW, &few));
    CHECK_OK(measure(&f, change, ALL, &all));
    CHECK_EQUAL(few.entries, FEW * of_entry);
    CHECK_EQUAL(all.entries, ALL * of_entry);
    CHECK_NEAR(all.reported - few.reported, (ALL - FEW) * of_entry, PADDING);
    CHECK_NEAR(all.allocated - few.allocated, (ALL - FEW) * of_entry, PADDING);
    returns_fixture_close(&f);
}

TEST(an_entry_takes_8_bytes_and_a_physical_one_a_copy_of_its_transition_more)
{
    check_bytes(0, NULL, 8);
    check_bytes(1, NULL, 8);
    check_bytes(0, draw_by_error, 8 + 4);
    check_bytes(0, cut_traces, 8 + 4 + 1);
    check_bytes(0, make_physical, 8 + 4 + 32); /* five floats, padded to 16 bytes */
    check_bytes(1, make_physical, 8 + 4 + RETURNS_OBS);
}

/* Draws. A physical cache records the entries of its last batch. */

static void permute(gpur_dqn_config *config)
{
    make_physical(config);
    config->batch_size = 7;
}

static void replace(gpur_dqn_config *config)
{
    make_physical(config);
    config->batch_size = 64;
    config->returns.draw = GPUR_CACHE_REPLACEMENT;
}

static void prioritize(gpur_dqn_config *config)
{
    replace(config);
    config->returns.prioritization = (gpur_schedule){.first = 0.8f, .last = 0.0f, .begin = 1, .steps = 2};
}

/* Takes a train step and reads the entries that it trained on. */
static gpur_status draw(gpur_learner *learner, int32_t *drawn)
{
    const int64_t bytes = gpur_dqn_of(learner)->config.batch_size * (int64_t)sizeof *drawn;
    GPUR_TRY(gpur_learner_train(learner, 1));
    GPUR_TRY(gpur_learner_sync(learner));
    return gpur_device_copy(device, drawn, gpur_dqn_of(learner)->returns.drawn, bytes);
}

/* 60 entries in batches of 7: most permutations begin and end within a batch. */
TEST(each_permutation_has_every_entry_once)
{
    returns_fixture f;
    int32_t drawn[7], seen[SIZE] = {0}, orders[7][SIZE], again[7];
    gpur_learner *const learner = open_both(&f, &one_env, permute);
    CHECK(learner);
    CHECK_OK(gpur_learner_refresh(learner));
    for (int32_t step = 0, k = 0; step < SIZE; step++) {
        CHECK_OK(draw(learner, drawn));
        for (int32_t b = 0; b < 7; b++, k++) {
            CHECK(drawn[b] >= 0 && drawn[b] < SIZE);
            CHECK_EQUAL(seen[drawn[b]]++, k / SIZE);
            orders[k / SIZE][k % SIZE] = drawn[b];
        }
    }
    for (int i = 1; i < 7; i++)
        CHECK(memcmp(orders[i], orders[i - 1], sizeof orders[i]) != 0);
    CHECK_OK(gpur_learner_refresh(learner));
    CHECK_OK(draw(learner, again));
    CHECK(memcmp(again, orders[0], sizeof again) != 0); /* a refresh begins another permutation */
    close_both(&f, learner);
}

/* Draws of `steps` batches of 64, by entry. */
static gpur_status count_draws(gpur_learner *learner, int steps, int64_t *counts)
{
    int32_t drawn[64];
    memset(counts, 0, SIZE * sizeof *counts);
    for (int i = 0; i < steps; i++) {
        GPUR_TRY(draw(learner, drawn));
        for (int b = 0; b < 64; b++)
            counts[drawn[b]]++;
    }
    return GPUR_OK;
}

/* A false alarm for one seed in a million, as for the next test. */
TEST(draws_with_replacement_are_uniform)
{
    returns_fixture f;
    int64_t counts[SIZE];
    gpur_learner *const learner = open_both(&f, &one_env, replace);
    CHECK(learner);
    CHECK_OK(gpur_learner_refresh(learner));
    CHECK_OK(count_draws(learner, 60, counts));
    CHECK(chi_square_tail(chi_square_statistic(counts, SIZE), SIZE - 1) >= 1e-6);
    close_both(&f, learner);
}

static int compare(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* The weight of each entry in the draw, divided by their sum, from the errors on the device. *wrong gets how far the
 * median there is from that of the sorted errors. */
static gpur_status draw_chances(gpur_learner *learner, double p, double *chances, double *wrong)
{
    float errors[SIZE], sorted[SIZE];
    gpur_cache_state state;
    double sum = 0;
    GPUR_TRY(gpur_learner_sync(learner));
    GPUR_TRY(gpur_device_copy(device, &state, gpur_dqn_of(learner)->returns.state, sizeof state));
    GPUR_TRY(gpur_device_copy(device, errors, gpur_dqn_of(learner)->returns.taken, sizeof errors));
    memcpy(sorted, errors, sizeof errors);
    qsort(sorted, SIZE, sizeof *sorted, compare);
    const float median = 0.5f * sorted[SIZE / 2 - 1] + 0.5f * sorted[SIZE / 2];
    *wrong = fabs((double)state.median - (double)median);
    for (int i = 0; i < SIZE; i++)
        sum += chances[i] = errors[i] > median ? 1 + p : errors[i] < median ? 1 - p : 1;
    for (int i = 0; i < SIZE; i++)
        chances[i] /= sum;
    return GPUR_OK;
}

static double chi_square_of(const int64_t *counts, const double *chances, int64_t draws)
{
    double sum = 0;
    for (int i = 0; i < SIZE; i++)
        sum += pow((double)counts[i] - chances[i] * (double)draws, 2) / (chances[i] * (double)draws);
    return sum;
}

/* p is 0.8 at train step 0, and 0 from step 3 on. A refresh sets it, and it holds until the next one. */
TEST(draws_by_error_follow_the_weights_until_p_is_0)
{
    returns_fixture f;
    int64_t counts[SIZE];
    double chances[SIZE], wrong = 1;
    gpur_learner *const learner = open_both(&f, &one_env, prioritize);
    CHECK(learner);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(gpur_learner_refresh(learner));
        CHECK_OK(draw_chances(learner, i ? 0 : 0.8, chances, &wrong));
        CHECK_NEAR(wrong, 0, 0);
        CHECK_OK(count_draws(learner, 60, counts));
        CHECK(chi_square_tail(chi_square_of(counts, chances, 60 * 64), SIZE - 1) >= 1e-6);
    }
    close_both(&f, learner);
}

/* Of 100 transitions only the last two end a block of 99, so that 64 draws of its end do not find it in 27% of cases.
 * Of the entries that are there, the median has as many below it as above. */
TEST(missing_entries_are_not_drawn_by_error_and_do_not_count_for_the_median)
{
    enum { BLOCK = 99, COUNT = 20 * BLOCK };
    static gpur_cache_entry all[COUNT];
    static float errors[COUNT];
    returns_fixture f;
    gpur_learner *learner = NULL;
    gpur_cache_state state;
    int64_t base = 0, missing = 0, below = 0, above = 0;
    CHECK_OK(returns_fixture_open(&f, device, &one_env));
    CHECK_OK(returns_fixture_step(&f, 100));
    gpur_dqn_config config = returns_fixture_config(&f, COUNT, BLOCK);
    prioritize(&config);
    CHECK_OK(gpur_dqn_create(f.replay, &config, &learner));
    CHECK_OK(gpur_learner_refresh(learner));
    CHECK_OK(returns_fixture_entries(learner, all, &base));
    CHECK_OK(gpur_device_copy(device, errors, gpur_dqn_of(learner)->returns.taken, sizeof errors));
    CHECK_OK(gpur_device_copy(device, &state, gpur_dqn_of(learner)->returns.state, sizeof state));
    for (int i = 0; i < COUNT; i++) {
        const int is_missing = all[i].address == GPUR_CACHE_MISSING;
        CHECK(is_missing ? errors[i] < 0 : errors[i] >= 0);
        missing += is_missing;
        below += !is_missing && errors[i] < state.median;
        above += !is_missing && errors[i] > state.median;
    }
    CHECK(missing > 0 && missing < COUNT / 2);
    CHECK_EQUAL(learner_fixture_stats(learner).empty_refreshes, 0);
    CHECK(below <= (COUNT - missing) / 2 && above <= (COUNT - missing) / 2);
    CHECK_OK(gpur_learner_train(learner, 60));
    CHECK_EQUAL(learner_fixture_stats(learner).missing_rows, 0);
    close_both(&f, learner);
}

/* |L - Q(s, a)| of the entries' transitions. */
TEST(errors_are_those_of_the_returns)
{
    static ref_step steps[RETURNS_MAX_ROWS];
    static int64_t previous[RETURNS_MAX_ROWS];
    returns_fixture f;
    int64_t first, base;
    double margin;
    float errors[SIZE];
    gpur_learner *const learner = open_both(&f, &one_env, prioritize);
    CHECK(learner);
    CHECK_OK(gpur_learner_refresh(learner));
    CHECK_OK(returns_fixture_entries(learner, entries, &base));
    CHECK_OK(gpur_device_copy(device, errors, gpur_dqn_of(learner)->returns.taken, sizeof errors));
    CHECK(returns_fixture_steps(&f, learner, steps, &first, previous, &margin) > 0);
    for (int i = 0; i < SIZE; i++)
        CHECK_NEAR(errors[i], fabs((double)entries[i].value - steps[entries[i].address].taken), 2e-5);
    close_both(&f, learner);
}

/* 800 blocks of 100 at random among 1,000,000 transitions, the sizes of the paper: of the 80,000 entries
 * (1 - e^-0.08) / 0.08 = 96.1% are of different transitions. The overlap of K blocks of B among N rows has a variance
 * of about K^2 B^3 / 3 N, so the share of a refresh has a standard deviation of 0.58%, and the mean of 16 one of 0.15%;
 * the test allows 5 of these. Where each access is watched, blocks of 10 among 100,000 have the same share and
 * deviation. */
enum {
    SCALE = IN_RACE_CHECK || IS_WATCHED ? 1 : 10,
    OF_BLOCK = 10 * SCALE,
    DRAWN = 800 * OF_BLOCK,
    MANY = 100000 * SCALE,
    REFRESHES = IN_RACE_CHECK || IS_WATCHED ? 2 : 16,
    STARTS = 50, /* parts of the replay in which blocks begin */
};

typedef struct packed_row {
    float obs, reward, next_obs;
    int32_t action;
    int64_t previous;
    uint8_t terminated;
} packed_row;

static gpur_status open_many(gpur_replay **replay, gpur_writer **writer)
{
    static const gpur_field fields[] = {{"obs", GPUR_FLOAT32, {1}},      {"reward", GPUR_FLOAT32, {0}},
                                        {"next_obs", GPUR_FLOAT32, {1}}, {"action", GPUR_INT32, {0}},
                                        {"previous", GPUR_INT64, {0}},   {"terminated", GPUR_BOOL, {0}}};
    static packed_row rows[MANY];
    const gpur_replay_config config = replay_fixture_config(fields, 6, MANY, 1024, 64);
    for (int64_t i = 0; i < MANY; i++)
        rows[i].previous = i - 1;
    GPUR_TRY(gpur_replay_create(device, &config, replay));
    GPUR_TRY(gpur_writer_create(*replay, 1, writer));
    return gpur_writer_append(*writer, MANY, rows, NULL);
}

static int64_t distinct_of(const gpur_cache_entry *all)
{
    static unsigned char seen[MANY];
    int64_t distinct = 0;
    memset(seen, 0, sizeof seen);
    for (int64_t i = 0; i < DRAWN; i++) {
        distinct += !seen[all[i].address];
        seen[all[i].address] = 1;
    }
    return distinct;
}

/* Counts by part of the replay where blocks begin, and returns how many begin where those of the last refresh did. */
static int64_t count_starts(const gpur_cache_entry *all, uint32_t *last, int64_t *counts)
{
    int64_t same = 0;
    for (int64_t block = 0; block < DRAWN / OF_BLOCK; block++) {
        const uint32_t start = all[block * OF_BLOCK].address;
        same += start == last[block];
        last[block] = start;
        counts[(int64_t)start * STARTS / (MANY - OF_BLOCK + 1)]++;
    }
    return same;
}

/* Blocks begin anywhere with equal chances, and each refresh and seed has others: a block begins where another one did
 * with a chance of 1 in 99,901. A false alarm for one seed in a million. */
TEST(of_entries_for_8_percent_of_the_replay_96_percent_are_distinct)
{
    static gpur_cache_entry all[DRAWN];
    static uint32_t last[DRAWN / OF_BLOCK], first[DRAWN / OF_BLOCK];
    int64_t starts[STARTS] = {0};
    gpur_replay *replay = NULL;
    gpur_writer *writer = NULL;
    gpur_learner *learner = NULL;
    gpur_dqn_config config = learner_fixture_config(GPUR_HEAD_Q, 0);
    int64_t base = 0, distinct = 0;
    config.returns = (gpur_returns_config){.cache_size = DRAWN, .block_length = OF_BLOCK};
    CHECK_OK(open_many(&replay, &writer));
    CHECK_OK(gpur_dqn_create(replay, &config, &learner));
    for (int i = 0; i < REFRESHES; i++) {
        CHECK_OK(gpur_learner_refresh(learner));
        CHECK_OK(returns_fixture_entries(learner, all, &base));
        distinct += distinct_of(all);
        CHECK(count_starts(all, last, starts) < 5);
        if (i == 0)
            memcpy(first, last, sizeof first);
        CHECK_OK(gpur_learner_train(learner, 1)); /* the next blocks are others */
    }
    const double share = (double)distinct / (REFRESHES * DRAWN), deviation = 0.0058 / sqrt((double)REFRESHES);
    CHECK_NEAR(share, (1 - exp(-0.08)) / 0.08, 5 * deviation);
    CHECK(chi_square_tail(chi_square_statistic(starts, STARTS), STARTS - 1) >= 1e-6);
    gpur_learner_destroy(learner);
    memset(starts, 0, sizeof starts);
    for (int i = 0; i < 2; i++) { /* the first refresh with another seed, and with the same one */
        config.seed = i ? config.seed : config.seed + 1;
        CHECK_OK(gpur_dqn_create(replay, &config, &learner));
        CHECK_OK(gpur_learner_refresh(learner));
        CHECK_OK(returns_fixture_entries(learner, all, &base));
        const int64_t same = count_starts(all, first, starts);
        CHECK(i ? same == DRAWN / OF_BLOCK : same < 5);
        gpur_learner_destroy(learner);
    }
    gpur_writer_destroy(writer);
    gpur_replay_destroy(replay);
}

/* The batch's loss, from the returns of its entries and Q(s, a) before the step: mean of (return - Q)^2 / 2. */
TEST(the_loss_is_that_of_the_returns)
{
    static ref_step steps[RETURNS_MAX_ROWS];
    static int64_t previous[RETURNS_MAX_ROWS];
    returns_fixture f;
    int64_t first, base;
    int32_t drawn[7];
    double margin, loss = 0, q = 0;
    gpur_learner *const learner = open_both(&f, &one_env, permute);
    CHECK(learner);
    CHECK_OK(gpur_learner_refresh(learner));
    CHECK(returns_fixture_steps(&f, learner, steps, &first, previous, &margin) > 0);
    CHECK_OK(draw(learner, drawn));
    CHECK_OK(returns_fixture_entries(learner, entries, &base));
    for (int b = 0; b < 7; b++) {
        const ref_step *const step = &steps[entries[drawn[b]].address];
        loss += pow((double)entries[drawn[b]].value - step->taken, 2) / 2 / 7;
        q += step->taken / 7;
    }
    const gpur_learner_stats stats = learner_fixture_stats(learner);
    CHECK_NEAR(stats.loss, loss, 1e-5 * (1 + loss));
    CHECK_NEAR(stats.mean_q, q, 1e-5);
    CHECK_EQUAL(stats.target_copies, 0);
    close_both(&f, learner);
}

/* Overwritten transitions. */

/* Entries of transitions that are no longer visible. */
static int64_t stale_entries(const returns_fixture *f, gpur_learner *learner)
{
    int64_t base = 0, stale = 0;
    if (returns_fixture_entries(learner, entries, &base) != GPUR_OK)
        return -1;
    const int64_t first = replay_fixture_stats(f->replay).first_id;
    for (int i = 0; i < SIZE; i++)
        stale += base + entries[i].address < first;
    return stale;
}

static void one_pass(gpur_dqn_config *config)
{
    config->batch_size = 10; /* six steps draw each of the 60 entries once */
}

static void one_physical_pass(gpur_dqn_config *config)
{
    one_pass(config);
    make_physical(config);
}

/* Of the entries of a full ring about half are overwritten by half a ring, and all by a ring. */
TEST(entries_of_overwritten_transitions_train_nothing_and_are_counted)
{
    returns_fixture f;
    static float before[WEIGHTS], after[WEIGHTS];
    const returns_setting setting = {.is_frames = 1, .envs = 1, .capacity = 300, .seed = 6};
    gpur_learner *learner = open_both(&f, &setting, one_pass);
    CHECK(learner);
    CHECK_OK(gpur_learner_refresh(learner));
    CHECK_OK(returns_fixture_step(&f, 150));
    CHECK_OK(gpur_learner_train(learner, 6));
    const int64_t stale = stale_entries(&f, learner);
    CHECK(stale > 0 && stale < SIZE);
    CHECK_EQUAL(learner_fixture_stats(learner).missing_rows, stale);
    CHECK_EQUAL(learner_fixture_stats(learner).invalid_actions, 0);
    CHECK_OK(gpur_learner_refresh(learner));
    CHECK_OK(returns_fixture_step(&f, 300));
    CHECK(learner_fixture_weights(learner, GPUR_WEIGHTS_GRADIENT, before, WEIGHTS) > 0);
    CHECK_OK(gpur_learner_train(learner, 6));
    CHECK_EQUAL(learner_fixture_stats(learner).missing_rows, stale + SIZE);
    CHECK_NEAR(learner_fixture_stats(learner).loss, 0, 0);
    CHECK_NEAR(learner_fixture_stats(learner).mean_q, 0, 0);
    const int64_t count = learner_fixture_weights(learner, GPUR_WEIGHTS_GRADIENT, after, WEIGHTS);
    for (int64_t i = 0; i < count; i++)
        CHECK_NEAR(after[i], 0, 0);
    close_both(&f, learner);
    learner = open_both(&f, &setting, one_physical_pass);
    CHECK(learner);
    CHECK_OK(gpur_learner_refresh(learner));
    CHECK_OK(returns_fixture_step(&f, 300));
    CHECK_OK(gpur_learner_train(learner, 6));
    CHECK_EQUAL(learner_fixture_stats(learner).missing_rows, 0); /* they were copied */
    close_both(&f, learner);
}

/* A refresh of one chunk, and of several of which the last has fewer blocks. */
TEST(refreshes_that_find_no_block_are_counted)
{
    const struct {
        int64_t size, length, short_steps, long_steps;
    } cases[] = {{SIZE, LENGTH, LENGTH - 1, 8 * LENGTH}, {1980, 99, 98, 102}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const returns_setting setting = {.envs = 2, .capacity = 400, .seed = 7};
        returns_fixture f;
        gpur_learner *learner = NULL;
        CHECK_OK(returns_fixture_open(&f, device, &setting));
        CHECK_OK(returns_fixture_step(&f, cases[i].short_steps));
        gpur_dqn_config config = returns_fixture_config(&f, cases[i].size, cases[i].length);
        config.batch_size = 60;
        CHECK_OK(gpur_dqn_create(f.replay, &config, &learner));
        CHECK_EQUAL(learner_fixture_stats(learner).empty_refreshes, 0);
        CHECK_OK(gpur_learner_refresh(learner));
        CHECK_EQUAL(learner_fixture_stats(learner).empty_refreshes, 1);
        CHECK_EQUAL(learner_fixture_stats(learner).steps, 0);
        CHECK_OK(gpur_learner_train(learner, cases[i].size / 60));
        CHECK_EQUAL(learner_fixture_stats(learner).missing_rows, cases[i].size);
        CHECK_OK(gpur_learner_refresh(learner));
        CHECK_OK(returns_fixture_step(&f, cases[i].long_steps));
        CHECK_OK(gpur_learner_refresh(learner));
        CHECK_OK(gpur_learner_train(learner, cases[i].size / 60));
        CHECK_EQUAL(learner_fixture_stats(learner).empty_refreshes, 2);
        CHECK(learner_fixture_stats(learner).missing_rows < 2 * cases[i].size);
        close_both(&f, learner);
    }
}

/* Appends beside a refresh and train steps. */

/* Steps beside a round, and after it: these, of all environments, fill the ring. */
enum { BESIDE = 60, AFTER = 80, ENVS = 4, RING = AFTER * ENVS };

/* Half of its steps are taken beside the refresh, and half after the refresh is enqueued: before the train steps if
 * `is_forced`, else beside them. */
typedef struct appender {
    returns_fixture *f;
    pthread_barrier_t begin, refreshed, appended;
    int is_forced;
    gpur_status status;
} appender;

static void *append(void *context)
{
    appender *const a = context;
    pthread_barrier_wait(&a->begin);
    a->status = returns_fixture_step(a->f, BESIDE / 2);
    pthread_barrier_wait(&a->refreshed);
    if (a->status == GPUR_OK)
        a->status = returns_fixture_step(a->f, BESIDE - BESIDE / 2);
    if (a->is_forced)
        pthread_barrier_wait(&a->appended);
    return NULL;
}

/* A round's first train step, which draws every entry once. */
typedef struct first_step {
    int64_t base, ids[SIZE]; /* the id that addresses count from; ids trained on, and -1 for each missing row */
    double loss;
    int64_t missing; /* rows, as the statistics count them */
    int has_moved;   /* 1: rows of the refresh's window were overwritten before the first train step was done */
} first_step;

static gpur_status refresh_and_train(appender *a, gpur_learner *learner, first_step *step)
{
    const int64_t before = learner_fixture_stats(learner).missing_rows;
    const gpur_status refreshed = gpur_learner_refresh(learner);
    pthread_barrier_wait(&a->refreshed);
    if (a->is_forced)
        pthread_barrier_wait(&a->appended);
    GPUR_TRY(refreshed);
    GPUR_TRY(gpur_learner_train(learner, 1));
    GPUR_TRY(returns_fixture_entries(learner, entries, &step->base));
    step->has_moved = replay_fixture_stats(a->f->replay).first_id > step->base;
    GPUR_TRY(gpur_device_copy(device, step->ids, gpur_dqn_of(learner)->step.batch.id, sizeof step->ids));
    const gpur_learner_stats stats = learner_fixture_stats(learner);
    step->loss = (double)stats.loss;
    step->missing = stats.missing_rows - before;
    return gpur_learner_train(learner, 9);
}

static gpur_status run_round(returns_fixture *f, gpur_learner *learner, int is_forced, first_step *step)
{
    appender a = {.f = f, .is_forced = is_forced, .status = GPUR_OK};
    pthread_t thread;
    if (pthread_barrier_init(&a.begin, NULL, 2) != 0 || pthread_barrier_init(&a.refreshed, NULL, 2) != 0 ||
        pthread_barrier_init(&a.appended, NULL, 2) != 0 || pthread_create(&thread, NULL, append, &a) != 0)
        return GPUR_OUT_OF_MEMORY;
    pthread_barrier_wait(&a.begin);
    const gpur_status status = refresh_and_train(&a, learner, step);
    pthread_join(thread, NULL);
    pthread_barrier_destroy(&a.begin);
    pthread_barrier_destroy(&a.refreshed);
    pthread_barrier_destroy(&a.appended);
    GPUR_TRY(a.status);
    GPUR_TRY(status);
    return gpur_learner_sync(learner);
}

/* The loss of the rows that were trained on; `rows` are those from id `first` on. The return of an entry is that of the
 * rest of its block. *wrong gets the largest error of a return. */
static double loss_of(const gpur_learner *learner, const first_step *step, const ref_step *rows, int64_t first,
                      double *wrong)
{
    double loss = 0, want[LENGTH];
    *wrong = 0;
    for (int i = 0; i < SIZE; i++) {
        gpur_returns_config rest = gpur_dqn_of(learner)->config.returns;
        ref_step block[LENGTH];
        if (entries[i].address == GPUR_CACHE_MISSING)
            continue;
        rest.block_length = LENGTH - i % LENGTH;
        for (int k = 0; k < rest.block_length; k++)
            block[k] = rows[step->base + entries[i + k].address - first];
        ref_returns(&rest, block, want);
        *wrong = fmax(*wrong, fabs((double)entries[i].value - want[0]) / (1 + fabs(want[0])));
        for (int b = 0; b < SIZE; b++)
            if (step->ids[b] == step->base + entries[i].address) {
                loss += pow(want[0] - block[0].taken, 2) / 2 / SIZE;
                break;
            }
    }
    return loss;
}

/* 1 if each entry is of one of `rows` rows from id `first` on, or is missing like all before it in its block. */
static int are_among(const first_step *step, int64_t first, int64_t rows)
{
    for (int i = 0; i < SIZE; i++) {
        const int is_missing = entries[i].address == GPUR_CACHE_MISSING;
        const int may_be = i % LENGTH == 0 || entries[i - 1].address == GPUR_CACHE_MISSING;
        const int64_t row = step->base + entries[i].address - first;
        if (is_missing ? !may_be : row < 0 || row >= rows)
            return 0;
    }
    return 1;
}

static int64_t missing_ids(const first_step *step)
{
    int64_t missing = 0;
    for (int b = 0; b < SIZE; b++)
        missing += step->ids[b] < 0;
    return missing;
}

static int64_t missing_addresses(void)
{
    int64_t missing = 0;
    for (int i = 0; i < SIZE; i++)
        missing += entries[i].address == GPUR_CACHE_MISSING;
    return missing;
}

/* `twin` has taken the same steps without a learner beside it, and has all rows that the round can have seen. Counts
 * the round in *overlaps if appends came between the beginning of the refresh and the end of the first train step. */
static void check_round(returns_fixture *f, returns_fixture *twin, gpur_learner *learner, int is_forced, int *overlaps)
{
    static ref_step steps[RETURNS_MAX_ROWS];
    static int64_t previous[RETURNS_MAX_ROWS];
    const int is_physical = gpur_dqn_of(learner)->returns.is_physical;
    first_step step;
    int64_t first = 0;
    double margin = 0, wrong = 1;
    CHECK_OK(returns_fixture_step(twin, BESIDE));
    const int64_t rows = returns_fixture_steps(twin, learner, steps, &first, previous, &margin);
    CHECK_OK(run_round(f, learner, is_forced, &step));
    CHECK(step.has_moved || !is_forced);
    *overlaps += step.has_moved;
    CHECK(are_among(&step, first, rows));
    const double loss = loss_of(learner, &step, steps, first, &wrong);
    CHECK_NEAR(wrong, 0, 2e-5);
    CHECK_NEAR(step.loss, loss, 2e-5 * (1 + loss));
    CHECK_EQUAL(step.missing, missing_ids(&step));
    CHECK(is_physical ? step.missing == missing_addresses() : step.missing >= missing_addresses());
    const int64_t before = learner_fixture_stats(learner).missing_rows;
    CHECK_OK(returns_fixture_step(twin, AFTER));
    CHECK_OK(returns_fixture_step(f, AFTER));
    CHECK_OK(gpur_learner_train(learner, 1));
    const gpur_learner_stats stats = learner_fixture_stats(learner);
    CHECK_EQUAL(stats.missing_rows - before, is_physical ? missing_addresses() : SIZE);
    CHECK_EQUAL(stats.loss > 0, stats.missing_rows - before < SIZE);
}

static void draw_all(gpur_dqn_config *config)
{
    config->batch_size = SIZE;
}

static void draw_all_copies(gpur_dqn_config *config)
{
    draw_all(config);
    make_physical(config);
}

/* ThreadSanitizer watches. The returns of each round, and the loss of its first step, are those that the same steps
 * give without anything beside them. Rows that were overwritten before they were gathered are counted, and not trained
 * on; at the end of a round all of them are overwritten, and only copies train. In every other round appends are sure
 * to come between the refresh and the train step, however busy the machine is. */
TEST(transitions_may_be_appended_while_the_cache_is_refreshed_and_trained_from)
{
    const int rounds = IN_RACE_CHECK ? 2 : IS_WATCHED ? 5 : 20;
    for (int i = 0; i < 4; i++) {
        const returns_setting setting = {.is_frames = i / 2, .envs = ENVS, .capacity = RING, .seed = 8};
        returns_setting larger = setting;
        returns_fixture f, twin;
        int overlaps = 0;
        gpur_learner *const learner = open_both(&f, &setting, i % 2 ? draw_all_copies : draw_all);
        CHECK(learner);
        larger.capacity = RETURNS_MAX_ROWS;
        CHECK_OK(returns_fixture_open(&twin, device, &larger));
        CHECK_OK(returns_fixture_step(&twin, 304 / ENVS));
        for (int round = 0; round < rounds; round++)
            check_round(&f, &twin, learner, round % 2, &overlaps);
        CHECK(overlaps >= rounds / 2);
        returns_fixture_close(&twin);
        close_both(&f, learner);
    }
}

/* Refusals. */

typedef struct refusal {
    const char *message;
    void (*change)(gpur_dqn_config *);
} refusal;

#define REFUSED(name, assignment)                                                                                      \
    static void name(gpur_dqn_config *c)                                                                               \
    {                                                                                                                  \
        assignment;                                                                                                    \
    }
REFUSED(negative_size, c->returns.cache_size = -1)
REFUSED(no_multiple, c->returns.cache_size = 61)
REFUSED(no_length, c->returns.block_length = 0)
REFUSED(long_blocks, c->returns.block_length = 400)
REFUSED(no_estimator, c->returns.estimator = 7)
REFUSED(no_lambda, c->returns.lambda = -1.0f)
REFUSED(large_lambda, c->returns.lambda = 1.5f)
REFUSED(many_steps, (c->returns.estimator = GPUR_ESTIMATOR_N_STEP, c->returns.n_step = 13))
REFUSED(no_bound, (c->returns.estimator = GPUR_ESTIMATOR_PENG_ERROR_BOUND, c->returns.error_bound = 0))
REFUSED(no_storage, c->returns.storage = 2)
REFUSED(no_draw, c->returns.draw = -1)
REFUSED(large_p, c->returns.prioritization.first = 2.0f)
REFUSED(permuted_p, c->returns.prioritization.first = 0.1f)
REFUSED(odd_truncation, c->returns.truncation_terminates = 2)
REFUSED(target_acts, c->act = GPUR_ACT_TARGET)
REFUSED(fused, c->step_kernel = GPUR_STEP_FUSED)
REFUSED(host_batches, c->host_batches = 2)
REFUSED(by_priority, c->index_source = GPUR_PRIORITIZED_STRATIFIED)

TEST(settings_that_a_cache_cannot_have_are_refused_with_the_numbers)
{
    static const refusal refusals[] = {
        {"returns.cache_size is -1; it must be 1 to 2147483647, or 0", negative_size},
        {"returns.cache_size is 61; it must be a multiple of returns.block_length, 12", no_multiple},
        {"returns.block_length is 0; it must be at least 1", no_length},
        {"returns.block_length is 400; it must be at least 1 and below the replay's capacity, 400", long_blocks},
        {"returns.estimator is 7; it must be", no_estimator},
        {"returns.lambda is -1; estimator \"peng\" needs 0 to 1", no_lambda},
        {"returns.lambda is 1.5", large_lambda},
        {"returns.n_step is 13; it must be 1 to returns.block_length, 12", many_steps},
        {"returns.error_bound is 0; it must be above 0", no_bound},
        {"returns.storage is 2", no_storage},
        {"returns.draw is -1", no_draw},
        {"returns.prioritization", large_p},
        {"above 0 it needs GPUR_CACHE_REPLACEMENT (1)", permuted_p},
        {"returns.truncation_terminates is 2", odd_truncation},
        {"act is GPUR_ACT_TARGET (2)", target_acts},
        {"step_kernel is GPUR_STEP_FUSED (2)", fused},
        {"host_batches is 2; with a cache of returns it must be 0", host_batches},
        {"index_source is 3, by priority", by_priority},
    };
    returns_fixture f;
    CHECK_OK(returns_fixture_open(&f, device, &one_env));
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        gpur_dqn_config config = returns_fixture_config(&f, SIZE, LENGTH);
        gpur_learner *learner = (gpur_learner *)&config;
        refusals[i].change(&config);
        CHECK_FAILS(gpur_dqn_create(f.replay, &config, &learner), GPUR_INVALID_ARGUMENT, refusals[i].message);
        CHECK(!learner);
    }
    returns_fixture_close(&f);
}

TEST(a_replay_without_links_or_with_n_step_returns_is_refused)
{
    static const gpur_field fields[] = {{"obs", GPUR_FLOAT32, {1}},      {"reward", GPUR_FLOAT32, {0}},
                                        {"next_obs", GPUR_FLOAT32, {1}}, {"action", GPUR_INT32, {0}},
                                        {"terminated", GPUR_BOOL, {0}},  {"discount", GPUR_FLOAT32, {0}},
                                        {"previous", GPUR_INT64, {0}}};
    gpur_dqn_config config = learner_fixture_config(GPUR_HEAD_Q, 0);
    config.returns = (gpur_returns_config){.cache_size = 60, .block_length = 10};
    for (int i = 0; i < 2; i++) {
        gpur_replay_config of_replay = replay_fixture_config(fields, 6 + i, 200, 16, 64);
        gpur_replay *replay = NULL;
        gpur_learner *learner = NULL;
        of_replay.n_step = i ? 3 : 1;
        CHECK_OK(gpur_replay_create(device, &of_replay, &replay));
        CHECK_FAILS(gpur_dqn_create(replay, &config, &learner), GPUR_INVALID_ARGUMENT,
                    i ? "the replay's n_step is 3; a cache of returns needs 1" : "no field \"previous\"");
        gpur_replay_destroy(replay);
    }
}

TEST(calls_that_need_more_transitions_a_refresh_or_a_target_network_are_refused)
{
    const int64_t ids[64] = {0};
    float values[WEIGHTS];
    void *rows = NULL;
    returns_fixture f;
    gpur_learner *learner = NULL, *plain = NULL;
    gpur_policy_config of_policy;
    gpur_policy *policy = NULL;
    CHECK_OK(returns_fixture_open(&f, device, &one_env));
    gpur_dqn_config config = returns_fixture_config(&f, SIZE, LENGTH);
    CHECK_OK(gpur_dqn_create(f.replay, &config, &learner));
    CHECK_FAILS(gpur_learner_refresh(learner), GPUR_TOO_FEW, "needs at least 13");
    CHECK_OK(returns_fixture_step(&f, 12));
    CHECK_FAILS(gpur_learner_refresh(learner), GPUR_TOO_FEW, "12 transitions are visible; this sample needs 13");
    CHECK_EQUAL(learner_fixture_stats(learner).refreshes, 0);
    CHECK_FAILS(gpur_learner_train(learner, 1), GPUR_TOO_FEW, "the cache of returns is empty");
    CHECK_OK(returns_fixture_step(&f, 1));
    CHECK_OK(gpur_learner_refresh(learner));
    CHECK_OK(gpur_learner_train(learner, 1));
    CHECK_FAILS(gpur_learner_train_ids(learner, ids), GPUR_INVALID_ARGUMENT, "its cache of 60 returns");
    CHECK_FAILS(gpur_learner_acquire_host_batch(learner, &rows), GPUR_INVALID_ARGUMENT, "host_batches 0");
    CHECK_FAILS(gpur_learner_read_weights(learner, GPUR_WEIGHTS_TARGET, "trunk.0.bias", values, 16),
                GPUR_INVALID_ARGUMENT, "no target network");
    CHECK_FAILS(gpur_learner_write_weights(learner, GPUR_WEIGHTS_TARGET, "trunk.0.bias", values, 16),
                GPUR_INVALID_ARGUMENT, "no target network");
    CHECK_OK(gpur_policy_config_init(&of_policy, sizeof of_policy));
    of_policy.network = config.network;
    of_policy.obs = (gpur_field){"obs", GPUR_FLOAT32, {RETURNS_NUMBERS}};
    CHECK_OK(gpur_policy_create(device, &of_policy, &policy));
    CHECK_FAILS(gpur_policy_pull(policy, learner, GPUR_WEIGHTS_TARGET), GPUR_INVALID_ARGUMENT, "no target network");
    CHECK_OK(gpur_policy_pull(policy, learner, GPUR_WEIGHTS_ONLINE));
    gpur_policy_destroy(policy);
    CHECK_FAILS(gpur_learner_refresh(NULL), GPUR_INVALID_ARGUMENT, "learner is NULL");
    config.returns.cache_size = 0;
    config.returns.lambda = -1.0f; /* only a cache reads it */
    CHECK_OK(gpur_dqn_create(f.replay, &config, &plain));
    CHECK_FAILS(gpur_learner_refresh(plain), GPUR_INVALID_ARGUMENT, "returns.cache_size 0; a refresh needs a cache");
    gpur_learner_destroy(plain);
    close_both(&f, learner);
}

TEST(a_config_of_before_there_was_a_cache_has_none)
{
    returns_fixture f;
    gpur_learner *learner = NULL;
    CHECK_OK(returns_fixture_open(&f, device, &one_env));
    gpur_dqn_config config = returns_fixture_config(&f, SIZE, LENGTH);
    config.size = offsetof(gpur_dqn_config, returns);
    CHECK_OK(gpur_dqn_create(f.replay, &config, &learner));
    CHECK_EQUAL(learner_fixture_stats(learner).cache_bytes, 0);
    close_both(&f, learner);
}

#ifdef GPUR_HAS_FILES
/* A learner that continues from a file, after a refresh, is where the one that was saved is. */
TEST(a_learner_is_saved_without_target_network_and_cache)
{
    static float want[WEIGHTS], got[WEIGHTS];
    returns_fixture f;
    gpur_learner *other = NULL;
    gpur_learner *const learner = open_both(&f, &one_env, NULL);
    CHECK(learner);
    const gpur_dqn_config config = returns_fixture_config(&f, SIZE, LENGTH);
    const char *const path = test_file_path("learner");
    CHECK_OK(train_rounds(&f, learner, 3));
    CHECK_OK(gpur_learner_save(learner, path, NULL));
    CHECK_OK(gpur_dqn_create(f.replay, &config, &other));
    CHECK_OK(gpur_learner_refresh(other));
    CHECK_OK(gpur_learner_load(other, path, NULL));
    CHECK_FAILS(gpur_learner_train(other, 1), GPUR_TOO_FEW, "the cache of returns is empty");
    for (int i = 0; i < 2; i++) {
        CHECK_OK(gpur_learner_refresh(i ? other : learner));
        CHECK_OK(gpur_learner_train(i ? other : learner, 5));
    }
    const int64_t count = learner_fixture_weights(learner, GPUR_WEIGHTS_ONLINE, want, WEIGHTS);
    CHECK(count > 0 && learner_fixture_weights(other, GPUR_WEIGHTS_ONLINE, got, WEIGHTS) == count);
    CHECK(memcmp(want, got, (size_t)count * sizeof *want) == 0);
    gpur_learner_destroy(other);
    close_both(&f, learner);
    test_remove_folder();
}
#endif

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
    RUN(virtual_and_physical_entries_train_the_same_weights_bit_for_bit);
    RUN(an_entry_takes_8_bytes_and_a_physical_one_a_copy_of_its_transition_more);
    RUN(each_permutation_has_every_entry_once);
    RUN(draws_with_replacement_are_uniform);
    RUN(draws_by_error_follow_the_weights_until_p_is_0);
    RUN(missing_entries_are_not_drawn_by_error_and_do_not_count_for_the_median);
    RUN(errors_are_those_of_the_returns);
    RUN(of_entries_for_8_percent_of_the_replay_96_percent_are_distinct);
    RUN(the_loss_is_that_of_the_returns);
    RUN(entries_of_overwritten_transitions_train_nothing_and_are_counted);
    RUN(refreshes_that_find_no_block_are_counted);
    RUN(transitions_may_be_appended_while_the_cache_is_refreshed_and_trained_from);
    RUN(settings_that_a_cache_cannot_have_are_refused_with_the_numbers);
    RUN(a_replay_without_links_or_with_n_step_returns_is_refused);
    RUN(calls_that_need_more_transitions_a_refresh_or_a_target_network_are_refused);
    RUN(a_config_of_before_there_was_a_cache_has_none);
#ifdef GPUR_HAS_FILES
    RUN(a_learner_is_saved_without_target_network_and_cache);
#endif
    gpur_device_close(device);
    return test_main_end();
}
