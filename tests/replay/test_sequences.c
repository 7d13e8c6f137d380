/* SPDX-License-Identifier: MIT */
/*
 * Sequences beside a model that finds the row before another by searching all rows that a writer has made: in random
 * episodes of 1 to 8 environments, at the ring's head, in both layouts; and the distribution of last rows. Every
 * chi-square must have a tail of at least 1e-6; there are nine of them, and the seeds are fixed.
 */
#include "gpureplay/sequences.h"
#include "kernels/lib/random.h"
#include "replay/sampler/sequences.h"
#include "support/episode_fixture.h"
#include "test.h"

enum { MAX_ROWS = LAYOUTS_MAX_BATCH, MADE = 500, MISSING = -1 };
static const double alarm = 1e-6;

/* A batch of sequences on the host. */
typedef struct sequences {
    gpur_sequence_config config;
    int64_t id[MAX_ROWS], tag[MAX_ROWS], previous[MAX_ROWS];
    float weight[MAX_ROWS];
    uint8_t mask[MAX_ROWS], is_first[MAX_ROWS];
    int64_t wrong; /* values that are not the history's; only of batches without missing rows */
} sequences;

static gpur_status read_all(gpur_batch *batch, layouts_fixture *w, sequences *s)
{
    const int64_t rows = s->config.batch * s->config.length;
    int complete = 1;
    GPUR_TRY(gpur_batch_read(batch, "id", s->id, rows * 8));
    GPUR_TRY(gpur_batch_read(batch, "tag", s->tag, rows * 8));
    GPUR_TRY(gpur_batch_read(batch, "previous", s->previous, rows * 8));
    GPUR_TRY(gpur_batch_read(batch, "weight", s->weight, rows * 4));
    GPUR_TRY(gpur_batch_read(batch, "mask", s->mask, rows));
    GPUR_TRY(gpur_batch_read(batch, "is_first", s->is_first, rows));
    for (int64_t i = 0; i < rows; i++)
        complete &= s->mask[i];
    s->wrong = complete ? player_wrong(batch, w->setting.shape, &w->all) : 0;
    return gpur_batch_length(batch) == s->config.length ? GPUR_OK : GPUR_DEVICE_ERROR;
}

static gpur_status sample(layouts_fixture *w, int r, sequences *s)
{
    gpur_batch *batch = NULL;
    GPUR_TRY(gpur_replay_sample_sequences(w->replays[r], &s->config, NULL, &batch));
    const gpur_status status = read_all(batch, w, s);
    gpur_batch_release(batch);
    return status;
}

static gpur_sequence_config config_of(int64_t batch, int64_t length)
{
    gpur_sequence_config config = {0};
    gpur_sequence_config_init(&config, sizeof config);
    config.batch = batch, config.length = length;
    return config;
}

/* The model: the id of the row before, of the same environment, or MISSING. */
static int64_t before(const history_rows *all, int64_t id)
{
    for (int64_t at = id - 1; at >= 0; at--)
        if (all->rows[at].env == all->rows[id].env)
            return at;
    return MISSING;
}

/* The ids of the sequence that ends with row `last`, newest first; returns how many. */
static int64_t model_of(const history_rows *all, const gpur_sequence_config *c, int64_t first_id, int64_t last,
                        int64_t *ids)
{
    int64_t count = 0;
    for (int64_t id = last; count < c->length && id >= first_id; id = before(all, id)) {
        ids[count++] = id;
        if (!c->across_episodes && all->rows[id].previous < 0)
            break;
    }
    return count;
}

static int64_t rows_of(const sequences *s, int64_t sequence)
{
    int64_t rows = 0;
    while (rows < s->config.length && s->mask[sequence * s->config.length + rows])
        rows++;
    return rows;
}

static int64_t last_of(const sequences *s, int64_t sequence)
{
    const int64_t rows = rows_of(s, sequence);
    return rows > 0 ? s->id[sequence * s->config.length + rows - 1] : MISSING;
}

static void check_row(const sequences *s, int64_t at, const history_row *want, int64_t id)
{
    CHECK_EQUAL(s->id[at], id);
    CHECK_EQUAL(s->mask[at], want != NULL);
    CHECK_EQUAL(s->tag[at], want ? want->extra : 0);
    CHECK_EQUAL(s->previous[at], want ? want->previous : 0);
    CHECK_EQUAL(s->is_first[at], want ? want->previous < 0 : 0);
    CHECK((s->weight[at] > 0) == (want != NULL));
}

/* A sequence ends with its last row, and has all the rows before it that it may have. */
static void check_sequence(const layouts_fixture *w, const sequences *s, int64_t first_id, int64_t sequence)
{
    const gpur_sequence_config *const c = &s->config;
    const int64_t last = last_of(s, sequence);
    int64_t ids[MAX_ROWS];
    const int64_t rows = last == MISSING ? 0 : model_of(&w->all, c, first_id, last, ids);
    CHECK(last == MISSING || rows >= (c->min_length > 0 ? c->min_length : c->length));
    for (int64_t i = 0; i < c->length; i++) {
        const int64_t id = i < rows ? ids[rows - 1 - i] : MISSING;
        check_row(s, sequence * c->length + i, id < 0 ? NULL : &w->all.rows[id], id);
    }
}

/* The number of rows of the window with so many predecessors that a sequence may end there. */
static int64_t count_ends(const layouts_fixture *w, const gpur_sequence_config *c, gpur_replay_stats stats)
{
    int64_t ids[MAX_ROWS], ends = 0;
    for (int64_t id = stats.first_id; id < stats.first_id + stats.visible; id++)
        ends += model_of(&w->all, c, stats.first_id, id, ids) >= (c->min_length > 0 ? c->min_length : c->length);
    return ends;
}

static void check_sample(layouts_fixture *w, int r, sequences *s)
{
    const gpur_replay_stats stats = replay_fixture_stats(w->replays[r]);
    CHECK_OK(sample(w, r, s));
    CHECK_EQUAL(s->wrong, 0);
    for (int64_t i = 0; i < s->config.batch; i++)
        check_sequence(w, s, stats.first_id, i);
    if (count_ends(w, &s->config, stats) == 0)
        for (int64_t i = 0; i < s->config.batch; i++)
            CHECK_EQUAL(last_of(s, i), MISSING);
}

static layouts_setting setting_of(uint64_t *random)
{
    const int32_t sources[] = {GPUR_SOURCE_AUTO, GPUR_UNIFORM, GPUR_PRIORITIZED_STRATIFIED,
                               GPUR_PRIORITIZED_INDEPENDENT};
    layouts_setting setting = {
        .shape = {1 + (int32_t)xorshift_below(random, 3), 0},
        .writers = 1,
        .envs = xorshift_below(random, 2) ? 1 : 8,
        .autoreset = (int32_t)xorshift_below(random, 3),
        .ends_in = 2 + (int32_t)xorshift_below(random, 20),
        .capacity = 100 + xorshift_below(random, 200),
        .block_rows = 1 + xorshift_below(random, 12),
        .max_batch = MAX_ROWS,
        .extra_frames = 400,
        .n_step = 1 + (int32_t)xorshift_below(random, 3),
        .staging_blocks = 4,
        .prioritized = (int32_t)xorshift_below(random, 2),
        .alpha = 0.7f,
        .seed = xorshift_next(random),
    };
    if (setting.prioritized)
        setting.index_source = sources[xorshift_below(random, 4)];
    return setting;
}

static gpur_sequence_config random_config(uint64_t *random)
{
    const int64_t length = 1 + xorshift_below(random, 12);
    gpur_sequence_config config = config_of(1 + xorshift_below(random, MAX_ROWS / length), length);
    config.min_length = xorshift_below(random, length + 1);
    config.across_episodes = (int32_t)xorshift_below(random, 2);
    return config;
}

/* Random steps, resets amid episodes and samples, from all replays of the fixture. Returns the number of sequences. */
static int64_t play(layouts_fixture *w, uint64_t *random, int rounds)
{
    int64_t found = 0;
    for (int step = 0; step < 5; step++) /* a transition of n steps is complete */
        if (player_step(&w->players[0]) != GPUR_OK)
            return MISSING;
    for (int round = 0; round < rounds; round++) {
        sequences s[LAYOUTS_REPLAYS];
        const gpur_sequence_config config = random_config(random);
        for (int64_t steps = xorshift_below(random, 40); steps >= 0; steps--)
            if (player_step(&w->players[0]) != GPUR_OK)
                return MISSING;
        if (xorshift_below(random, 4) == 0 &&
            player_reset(&w->players[0], (int32_t)xorshift_below(random, w->setting.envs)) != GPUR_OK)
            return MISSING;
        for (int r = 0; r < w->replay_count; r++) {
            s[r].config = config;
            check_sample(w, r, &s[r]);
            found += config.batch;
        }
        /* The same window gives the same ids, in whichever layout. */
        if (replay_fixture_stats(w->replays[0]).first_id == replay_fixture_stats(w->replays[1]).first_id &&
            memcmp(s[0].id, s[1].id, (size_t)(config.batch * config.length) * sizeof *s->id) != 0)
            return MISSING;
    }
    return found;
}

TEST(random_sequences_agree_with_a_search_in_all_rows)
{
    const int64_t wanted = test_is_long() ? 1000000 : (int64_t)test_rounds(8000) + 500;
    uint64_t random = 77;
    for (int64_t found = 0; found < wanted;) {
        static layouts_fixture w;
        const layouts_setting setting = setting_of(&random);
        CHECK(layouts_fixture_open(&w, test_device(), &setting, random));
        const int64_t here = play(&w, &random, 30);
        layouts_fixture_close(&w);
        CHECK(here > 0 && atomic_load(&test_state.failures) == 0);
        found += here;
    }
}

/* A replay of 8 environments whose ring has wrapped around, with priorities. */
static int open_filled(layouts_fixture *w, int32_t source, int32_t envs)
{
    const layouts_setting setting = {.shape = {1, 0},
                                     .writers = 1,
                                     .envs = envs,
                                     .autoreset = GPUR_AUTORESET_SAME_STEP,
                                     .ends_in = 12,
                                     .capacity = 300,
                                     .block_rows = 7,
                                     .max_batch = MAX_ROWS,
                                     .n_step = 1,
                                     .staging_blocks = 4,
                                     .prioritized = source != GPUR_UNIFORM,
                                     .index_source = source,
                                     .alpha = 1,
                                     .rows_only = 1,
                                     .seed = 5};
    if (!layouts_fixture_open(w, test_device(), &setting, 9))
        return 0;
    while (w->all.count < MADE)
        if (player_step(&w->players[0]) != GPUR_OK)
            return 0;
    return 1;
}

static gpur_status give_priorities(layouts_fixture *w)
{
    const gpur_replay_stats stats = replay_fixture_stats(w->replays[0]);
    for (int64_t i = 0; i < stats.visible; i++) {
        const int64_t id = stats.first_id + i;
        const float priority = (float)(id % 7);
        GPUR_TRY(gpur_replay_update_priorities(w->replays[0], 1, &id, &priority, NULL));
    }
    return GPUR_OK;
}

/* Counts last rows, and compares them with their probabilities among the rows that may be last. */
static void check_last_rows(int32_t source, int32_t across, int64_t length, int64_t samples)
{
    static layouts_fixture w;
    static double counts[MADE + PLAYER_ENVS];
    sequences s = {.config = config_of(MAX_ROWS / length, length)};
    double total = 0, statistic = 0;
    int64_t freedom = -1, ids[MAX_ROWS];
    memset(counts, 0, sizeof counts);
    CHECK(open_filled(&w, source, 8));
    if (source != GPUR_UNIFORM)
        CHECK_OK(give_priorities(&w));
    s.config.across_episodes = across;
    for (int64_t i = 0; i < samples; i++) {
        CHECK_OK(sample(&w, 0, &s));
        for (int64_t b = 0; b < s.config.batch; b++) {
            CHECK(last_of(&s, b) >= 0);
            counts[last_of(&s, b)]++;
        }
    }
    const gpur_replay_stats stats = replay_fixture_stats(w.replays[0]);
    for (int pass = 0; pass < 2; pass++)
        for (int64_t id = stats.first_id; id < stats.first_id + stats.visible; id++) {
            const double mass = source == GPUR_UNIFORM ? 1 : (double)(id % 7) + 1e-6;
            const int may_end = model_of(&w.all, &s.config, stats.first_id, id, ids) == length;
            const double want = may_end ? mass / (total > 0 ? total : 1) * (double)(samples * s.config.batch) : 0;
            if (pass == 0) {
                total += may_end ? mass : 0;
                continue;
            }
            CHECK(may_end || counts[id] == 0);
            if (want < 1) /* of a priority near 0 */
                continue;
            statistic += (counts[id] - want) * (counts[id] - want) / want;
            freedom++;
        }
    TEST_REQUIRE(chi_square_tail(statistic, freedom) >= alarm, "chi-square %g of %d", statistic, (int)freedom);
    layouts_fixture_close(&w);
}

TEST(every_block_of_the_window_is_as_likely_as_its_last_row)
{
    static const int32_t sources[] = {GPUR_UNIFORM, GPUR_PRIORITIZED_INDEPENDENT, GPUR_PRIORITIZED_STRATIFIED};
    for (int i = 0; i < 3; i++) {
        const int64_t samples = 200 + (int64_t)test_rounds(3000);
        check_last_rows(sources[i], 1, 1, samples / 4);
        check_last_rows(sources[i], 1, 6, samples);
        check_last_rows(sources[i], 0, 3, samples);
    }
}

/* The importance weight of a sequence is that of its last row, and the largest of a batch is 1. */
TEST(rows_have_the_weight_of_their_sequences_last_row)
{
    static layouts_fixture w;
    sequences s = {.config = config_of(8, 4)};
    double least = 1e9;
    CHECK(open_filled(&w, GPUR_PRIORITIZED_STRATIFIED, 8));
    CHECK_OK(give_priorities(&w));
    CHECK_OK(gpur_replay_set_beta(w.replays[0], 0.5f));
    s.config.min_length = 2;
    CHECK_OK(sample(&w, 0, &s));
    for (int64_t b = 0; b < s.config.batch; b++)
        least = fmin(least, (double)(last_of(&s, b) % 7) + 1e-6);
    for (int64_t i = 0; i < MAX_ROWS; i++) {
        const double want = sqrt(least / ((double)(last_of(&s, i / 4) % 7) + 1e-6));
        CHECK_NEAR(s.weight[i], s.mask[i] ? want : 0, 1e-5);
    }
    layouts_fixture_close(&w);
}

TEST(sequences_end_with_the_rows_that_are_asked_for)
{
    static layouts_fixture w;
    sequences s = {.config = config_of(4, 8)};
    CHECK(open_filled(&w, GPUR_UNIFORM, 8));
    const gpur_replay_stats stats = replay_fixture_stats(w.replays[0]);
    int64_t last[4] = {stats.first_id + stats.visible - 1, stats.first_id + 150, stats.first_id, stats.first_id + 150};
    s.config.last_ids = last;
    check_sample(&w, 0, &s);
    for (int b = 0; b < 4; b++)
        CHECK_EQUAL(last_of(&s, b), b == 2 ? MISSING : last[b]); /* nothing is left before the oldest row */
    s.config.min_length = 1;
    check_sample(&w, 0, &s);
    CHECK_EQUAL(last_of(&s, 2), last[2]);
    CHECK_EQUAL(rows_of(&s, 2), 1);
    last[3] = stats.first_id - 1;
    CHECK_FAILS(sample(&w, 0, &s), GPUR_EVICTED, "ids[3]");
    last[3] = w.all.count;
    CHECK_FAILS(sample(&w, 0, &s), GPUR_INVALID_ARGUMENT, "ids[3]");
    layouts_fixture_close(&w);
}

TEST(a_batch_can_be_filled_with_other_sequences_or_with_a_sample)
{
    static layouts_fixture w;
    sequences s = {.config = config_of(4, 8)}, again = s;
    gpur_batch *batch = NULL;
    uint8_t mask[MAX_ROWS];
    CHECK(open_filled(&w, GPUR_UNIFORM, 8));
    CHECK_OK(gpur_replay_sample(w.replays[0], MAX_ROWS, NULL, &batch));
    CHECK_EQUAL(gpur_batch_length(batch), 0);
    CHECK_FAILS(gpur_batch_read(batch, "mask", mask, MAX_ROWS), GPUR_INVALID_ARGUMENT, "has no array \"mask\"");
    CHECK_OK(gpur_replay_sample_sequences_into(w.replays[0], &s.config, NULL, batch));
    CHECK_OK(read_all(batch, &w, &s));
    again.config.batch = 8, again.config.length = 4;
    CHECK_OK(gpur_replay_sample_sequences_into(w.replays[0], &again.config, NULL, batch));
    CHECK_OK(read_all(batch, &w, &again));
    for (int64_t b = 0; b < 4; b++)
        check_sequence(&w, &s, replay_fixture_stats(w.replays[0]).first_id, b);
    for (int64_t b = 0; b < 8; b++)
        check_sequence(&w, &again, replay_fixture_stats(w.replays[0]).first_id, b);
    again.config.batch = 7;
    CHECK_FAILS(gpur_replay_sample_sequences_into(w.replays[0], &again.config, NULL, batch), GPUR_INVALID_ARGUMENT,
                "batch is 7 and length 4; the batch has 32 transitions");
    CHECK_OK(gpur_replay_sample_into(w.replays[0], NULL, batch));
    CHECK_EQUAL(gpur_batch_length(batch), 0);
    gpur_batch_release(batch);
    layouts_fixture_close(&w);
}

/* Where no row of the window has enough predecessors, all sequences are missing, and the call does not fail. */
TEST(sequences_without_enough_rows_are_missing)
{
    static layouts_fixture w;
    sequences s = {.config = config_of(1, MAX_ROWS)};
    CHECK(open_filled(&w, GPUR_UNIFORM, 8));
    s.config.across_episodes = 0, s.config.batch = 1;
    for (int i = 0; i < 20; i++)
        check_sample(&w, 0, &s);
    layouts_fixture_close(&w);
}

/* Launches of any shape find the same sequences. */
TEST(launch_shapes_change_nothing)
{
    static layouts_fixture w[2];
    for (int by_priority = 0; by_priority < 2; by_priority++) {
        for (int i = 0; i < 2; i++) {
            CHECK(open_filled(&w[i], by_priority ? GPUR_PRIORITIZED_STRATIFIED : GPUR_UNIFORM, 8));
            if (by_priority)
                CHECK_OK(give_priorities(&w[i]));
        }
        gpur_device_force_grid(w[1].device, (gpur_grid){3, test_on_cuda() ? 64 : 8, 0});
        for (int round = 0; round < 5; round++) {
            sequences s = {.config = config_of(5, 6)}, other = s;
            CHECK_OK(sample(&w[0], 0, &s));
            CHECK_OK(sample(&w[1], 0, &other));
            CHECK(memcmp(s.id, other.id, sizeof s.id) == 0);
        }
        for (int i = 0; i < 2; i++)
            layouts_fixture_close(&w[i]);
    }
}

/* A recorded launch may meet an empty window. */
TEST(sequences_of_an_empty_window_are_missing)
{
    static layouts_fixture w;
    const layouts_setting setting = {.shape = {1, 0},
                                     .writers = 1,
                                     .envs = 1,
                                     .ends_in = 5,
                                     .capacity = 100,
                                     .block_rows = 5,
                                     .max_batch = MAX_ROWS,
                                     .n_step = 1,
                                     .staging_blocks = 4,
                                     .rows_only = 1};
    int64_t ids[MAX_ROWS] = {0};
    gpur_stream *stream = NULL;
    void *memory = NULL;
    CHECK(layouts_fixture_open(&w, test_device(), &setting, 1));
    CHECK_FAILS(sample(&w, 0, &(sequences){.config = config_of(4, 8)}), GPUR_TOO_FEW, "");
    CHECK_OK(gpur_memory_alloc(w.device, sizeof ids, "ids", &memory));
    const gpur_sequences_request request = {.count = 4,
                                            .length = 8,
                                            .min_length = 1,
                                            .source = GPUR_UNIFORM,
                                            .purpose = GPUR_RANDOM_SEQUENCES,
                                            .ids = memory};
    CHECK_OK(gpur_consumer_begin(w.replays[0], gpur_consumer_refresh, &stream));
    CHECK_OK(gpur_consumer_end(w.replays[0], gpur_sequences_enqueue(w.replays[0], &request, stream)));
    CHECK_OK(gpur_copy(stream, ids, memory, sizeof ids));
    CHECK_OK(gpur_stream_sync(stream));
    for (int i = 0; i < MAX_ROWS; i++)
        CHECK_EQUAL(ids[i], MISSING);
    gpur_memory_free(w.device, memory);
    layouts_fixture_close(&w);
}

/* Appended rows, `previous` of which is not given, are one environment's in a writer that links them: in single rows
 * and in many, whatever other writers append in between. */
TEST(appended_rows_are_linked)
{
    static const gpur_field fields[] = {{"tag", GPUR_INT64, {0}},
                                        {"previous", GPUR_INT64, {0}},
                                        {"terminated", GPUR_BOOL, {0}},
                                        {"truncated", GPUR_UINT8, {0}}};
    enum { ROWS = 400, MOST = 150 };
    for (int upload = 0; upload < 2; upload++) {
        gpur_replay_config config = replay_fixture_config(fields, 4, ROWS, 16, 8);
        gpur_writer_config linked = {.size = sizeof linked, .num_envs = 1, .link_appends = 1};
        int64_t previous[ROWS], want = -1, ids = 0, tags[MOST] = {0};
        uint8_t terminated[MOST], truncated[MOST];
        uint64_t random = 3;
        gpur_writer *writer = NULL;
        replay_fixture s;
        config.upload = upload;
        CHECK(replay_fixture_open(&s, test_device(), &config, 1));
        CHECK_OK(gpur_writer_open(s.replay, &linked, &writer));
        for (int round = 0; ids < 250; round++) {
            const int64_t count = round % 4 == 3 ? MOST : 1 + xorshift_below(&random, 5);
            const void *const arrays[] = {tags, NULL, terminated, truncated};
            for (int64_t i = 0; i < count; i++) {
                terminated[i] = xorshift_below(&random, 9) == 0, truncated[i] = xorshift_below(&random, 9) == 0;
                previous[ids + i] = want;
                want = terminated[i] || truncated[i] ? -2 - (ids + i) : ids + i;
            }
            CHECK_OK(gpur_writer_append_fields(writer, count, arrays, NULL, NULL));
            CHECK_STATUS(gpur_writer_append_fields(s.writer, count, arrays, NULL, NULL), GPUR_INVALID_ARGUMENT);
            ids += count;
            CHECK_OK(append_tagged(&s.row_tags, s.writer, ids, 1)); /* of another writer */
            previous[ids++] = 0;
            for (int i = 0; i < round % 3; i++) { /* a reset, or two, which is the same */
                CHECK_OK(gpur_writer_end_appended_episode(writer));
                want = want >= 0 ? -2 - want : want;
            }
        }
        for (int64_t id = 0; id < ids; id++) {
            int64_t got = 0, tag = 0;
            CHECK_OK(read_rows(s.replay, "previous", id, 1, &got, 8));
            CHECK_OK(read_rows(s.replay, "tag", id, 1, &tag, 8));
            CHECK(tag != 0 || got == previous[id]);
        }
        gpur_writer_destroy(writer);
        replay_fixture_close(&s);
    }
}

/* Of rows of several steps the last ones of an episode all end it, so only blocks can say where it ends. */
TEST(rows_of_several_steps_are_not_linked)
{
    static const gpur_field fields[] = {{"previous", GPUR_INT64, {0}}, {"discount", GPUR_FLOAT32, {0}}};
    gpur_replay_config config = replay_fixture_config(fields, 2, 100, 5, 8);
    gpur_writer_config linked = {.size = sizeof linked, .num_envs = 1, .link_appends = 1};
    const struct {
        int64_t previous;
        float discount;
    } row = {0};
    const void *const arrays[] = {NULL, &row.discount};
    gpur_writer *writer = NULL;
    replay_fixture s;
    config.n_step = 3;
    CHECK(replay_fixture_open(&s, test_device(), &config, 1));
    CHECK_OK(gpur_writer_open(s.replay, &linked, &writer));
    CHECK_FAILS(gpur_writer_append(writer, 1, &row, NULL), GPUR_INVALID_ARGUMENT, "n_step is 3: rows of several steps");
    CHECK_FAILS(gpur_writer_append_fields(writer, 1, arrays, NULL, NULL), GPUR_INVALID_ARGUMENT,
                "append them in blocks");
    CHECK_STATUS(gpur_writer_try_append_fields(writer, 1, arrays), GPUR_INVALID_ARGUMENT);
    CHECK_OK(gpur_writer_append(s.writer, 1, &row, NULL));
    CHECK_EQUAL(replay_fixture_stats(s.replay).appended, 1);
    gpur_writer_destroy(writer);
    replay_fixture_close(&s);
}

TEST(links_need_the_field_previous)
{
    static const gpur_field byte = {"byte", GPUR_UINT8, {0}};
    const gpur_replay_config config = replay_fixture_config(&byte, 1, 100, 5, 8);
    gpur_writer_config linked = {.size = sizeof linked, .num_envs = 1, .link_appends = 1};
    gpur_writer *writer = NULL;
    replay_fixture s;
    CHECK(replay_fixture_open(&s, test_device(), &config, 1));
    CHECK_FAILS(gpur_writer_open(s.replay, &linked, &writer), GPUR_INVALID_ARGUMENT,
                "link_appends is 1 and the schema has no field \"previous\"");
    linked.link_appends = 2;
    CHECK_FAILS(gpur_writer_open(s.replay, &linked, &writer), GPUR_INVALID_ARGUMENT, "link_appends is 2");
    CHECK_FAILS(gpur_writer_end_appended_episode(s.writer), GPUR_INVALID_ARGUMENT, "link_appends is 0");
    CHECK_FAILS(gpur_writer_end_appended_episode(NULL), GPUR_INVALID_ARGUMENT, "writer is NULL");
    replay_fixture_close(&s);
}

/* The call with one change to a good config. */
#define REFUSED(change, message)                                                                                       \
    do {                                                                                                               \
        gpur_batch *refused = NULL;                                                                                    \
        gpur_sequence_config c = config_of(4, 8);                                                                      \
        change;                                                                                                        \
        CHECK_FAILS(gpur_replay_sample_sequences(w.replays[0], &c, NULL, &refused), GPUR_INVALID_ARGUMENT, message);   \
    } while (0)

TEST(bad_configs_are_refused)
{
    static layouts_fixture w;
    gpur_batch *batch = NULL;
    const gpur_sequence_config good = config_of(4, 8);
    CHECK(open_filled(&w, GPUR_UNIFORM, 1));
    REFUSED(c.batch = 5, "batch is 5 and length 8; both must be 1 or more, and batch x length at most max_batch = 32");
    REFUSED(c.length = INT64_MAX, "batch x length at most max_batch");
    REFUSED(c.batch = 0, "batch is 0");
    REFUSED(c.length = 0, "length 0");
    REFUSED(c.min_length = 9, "min_length is 9; it must be 1 to length = 8, or 0 for length");
    REFUSED(c.min_length = -1, "min_length is -1");
    REFUSED(c.across_episodes = 2, "across_episodes is 2");
    REFUSED(c.size = 3, "size is 3");
    CHECK_STATUS(gpur_replay_sample_sequences(w.replays[0], NULL, NULL, &batch), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(gpur_replay_sample_sequences(w.replays[0], &good, NULL, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(gpur_replay_sample_sequences(NULL, &good, NULL, &batch), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(gpur_replay_sample_sequences_into(w.replays[0], &good, NULL, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_EQUAL(gpur_batch_length(NULL), 0);
    layouts_fixture_close(&w);
}

TEST(schemas_without_sequences_are_refused)
{
    static const gpur_field fields[][2] = {{{"x", GPUR_UINT8, {0}}, {"y", GPUR_UINT8, {0}}},
                                           {{"x", GPUR_UINT8, {0}}, {"previous", GPUR_INT32, {0}}},
                                           {{"mask", GPUR_UINT8, {0}}, {"previous", GPUR_INT64, {0}}}};
    static const char *const messages[] = {"the schema has no field \"previous\"",
                                           "field \"previous\" is int32 of 4 bytes; for sequences it must be one int64",
                                           "the schema has a field \"mask\""};
    for (int i = 0; i < 3; i++) {
        const gpur_replay_config config = replay_fixture_config(fields[i], 2, 100, 5, 32);
        const gpur_sequence_config c = config_of(4, 8);
        gpur_batch *batch = NULL;
        replay_fixture s;
        CHECK(replay_fixture_open(&s, test_device(), &config, 1));
        CHECK_FAILS(gpur_replay_sample_sequences(s.replay, &c, NULL, &batch), GPUR_INVALID_ARGUMENT, messages[i]);
        replay_fixture_close(&s);
    }
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(random_sequences_agree_with_a_search_in_all_rows);
    RUN(every_block_of_the_window_is_as_likely_as_its_last_row);
    RUN(rows_have_the_weight_of_their_sequences_last_row);
    RUN(sequences_end_with_the_rows_that_are_asked_for);
    RUN(a_batch_can_be_filled_with_other_sequences_or_with_a_sample);
    RUN(sequences_without_enough_rows_are_missing);
    RUN(launch_shapes_change_nothing);
    RUN(sequences_of_an_empty_window_are_missing);
    RUN(appended_rows_are_linked);
    RUN(rows_of_several_steps_are_not_linked);
    RUN(links_need_the_field_previous);
    RUN(bad_configs_are_refused);
    RUN(schemas_without_sequences_are_refused);
    return test_main_end();
}
