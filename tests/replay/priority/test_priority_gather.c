/* SPDX-License-Identifier: MIT */
/* Drawing by priority, gathering and weighing in one kernel, against the three kernels for it, bit for bit. What those
 * draw, test_sum_tree.c, test_gather.c and test_replay_model.c check. */
#include "kernels/lib/random.h"
#include "replay/replay.h"
#include "replay/sampler/sampler.h"
#include "support/replay_fixture.h"
#include "test.h"

enum { MOST = IN_RACE_CHECK ? 600 : 65536, NUMBERS = 5, UNTOUCHED = 0xAA };

/* What a draw writes. */
typedef struct output {
    float numbers[MOST * NUMBERS], weight[MOST], discount[MOST];
    int64_t id[MOST];
    uint32_t leaf[MOST];
} output;

typedef struct fixture {
    replay_fixture base;
    output *out; /* device */
    output by_three, by_one;
    gpur_window *window; /* device: an empty one */
} fixture;

static fixture s;

static const gpur_field fields[] = {
    {"a", GPUR_FLOAT32, {NUMBERS}}, {"terminated", GPUR_BOOL, {0}}, {"priority", GPUR_FLOAT32, {0}}};

/* `rows` rows; every fourth has a priority of 0, or all have. */
static int open_fixture(int64_t capacity, int64_t rows, int is_evicted_by_priority, int all_zero)
{
    static const gpur_window nothing;
    gpur_replay_config config = replay_fixture_config(fields, 3, capacity, 20, MOST);
    config.prioritized = 1, config.index_source = GPUR_PRIORITIZED_STRATIFIED,
    config.priority_offset = is_evicted_by_priority ? 0.5f : 0.0f;
    config.weight_norm = GPUR_WEIGHT_NORM_MEMORY;
    config.eviction = is_evicted_by_priority ? GPUR_EVICT_BY_PRIORITY : GPUR_EVICT_OLDEST;
    if (!replay_fixture_open(&s.base, test_device(), &config, 1))
        return 0;
    for (int64_t i = 0; i < rows; i++) {
        const float numbers[NUMBERS] = {(float)i, (float)(i + 1), 2, 3, (float)-i};
        const unsigned char terminated = i % 7 == 0;
        const float priority = all_zero || i % 4 == 0 ? 0.0f : (float)(i * 37 % 101) / 64.0f;
        const void *const columns[] = {numbers, &terminated, &priority};
        if (gpur_writer_append_fields(s.base.writer, 1, columns, NULL, NULL) != GPUR_OK)
            return 0;
    }
    s.out = upload_to_device(s.base.device, &s.by_one, sizeof s.by_one);
    s.window = upload_to_device(s.base.device, &nothing, sizeof nothing);
    return gpur_writer_flush(s.base.writer) == GPUR_OK && s.out && s.window;
}

static void close_fixture(void)
{
    gpur_device_free(s.base.device, s.out);
    gpur_device_free(s.base.device, s.window);
    replay_fixture_close(&s.base);
}

typedef struct draw {
    int64_t batch;
    gpur_grid grid;
    int32_t norm, stratified;
    int is_empty; /* 1: from the empty window */
} draw;

static void set_args(const draw *d, gpur_priority_gather_args *a)
{
    const gpur_priorities *const p = &s.base.replay->priorities;
    const gpur_gather_field to = {0, s.out->numbers, NUMBERS * sizeof(float)};
    const gpur_gather_request request = {.fields = &to,
                                         .field_count = 1,
                                         .source = GPUR_GATHER_IDS,
                                         .rows = d->batch,
                                         .ids = s.out->id,
                                         .id = s.out->id,
                                         .weight = s.out->weight,
                                         .discount = s.out->discount};
    *a = (gpur_priority_gather_args){.weigh = GPUR_WEIGH_EACH};
    CHECK_OK(gpur_gather_prepare(s.base.replay, &request, &a->gather));
    a->sample = gpur_priorities_sample_args(p, d->stratified, d->batch, s.out->id, s.out->leaf);
    a->sample.seed = 5, a->sample.step_value = 9, a->sample.purpose = GPUR_RANDOM_PRIORITY;
    a->weights = gpur_priorities_weight_args(p, d->batch, s.out->id, s.out->leaf, s.out->weight);
    a->weights.norm = d->norm, a->weights.beta_first = a->weights.beta_last = 0.6f;
    if (d->is_empty)
        a->gather.window = a->sample.window = s.window, a->weights.rows = &s.window->count;
}

static void read_output(gpur_stream *stream, output *to)
{
    CHECK_OK(gpur_copy(stream, to, s.out, sizeof *to));
    CHECK_OK(gpur_fill(stream, s.out, UNTOUCHED, sizeof *to));
    CHECK_OK(gpur_stream_sync(stream));
}

static void run_weights(gpur_stream *stream, const draw *d, const gpur_priority_gather_args *a)
{
    CHECK_OK(gpur_launch_priority_weights(stream, d->grid, &a->weights));
}

/* Weights of the batch's norm come from the last block to end, and again from a launch of their own. */
static void check_draw(gpur_stream *stream, const draw *d)
{
    gpur_priority_gather_args a;
    set_args(d, &a);
    CHECK_OK(gpur_fill(stream, s.out, UNTOUCHED, sizeof *s.out));
    CHECK_OK(gpur_launch_priority_sample(stream, d->grid, &a.sample));
    CHECK_OK(gpur_launch_gather(stream, d->grid, &a.gather));
    run_weights(stream, d, &a);
    read_output(stream, &s.by_three);
    for (int last = 0; last <= (d->norm == GPUR_WEIGHT_NORM_BATCH); last++) {
        const int is_later = d->norm == GPUR_WEIGHT_NORM_BATCH && !last;
        a.weigh = last ? GPUR_WEIGH_LAST : is_later ? GPUR_WEIGH_NOT : GPUR_WEIGH_EACH;
        CHECK_OK(gpur_launch_priority_gather(stream, d->grid, &a));
        if (is_later)
            run_weights(stream, d, &a);
        read_output(stream, &s.by_one);
        CHECK(memcmp(&s.by_three, &s.by_one, sizeof s.by_one) == 0);
    }
    CHECK_OK(gpur_sampler_launch_by_priority(s.base.replay, stream, &a));
    read_output(stream, &s.by_one);
    CHECK(memcmp(&s.by_three, &s.by_one, sizeof s.by_one) == 0);
}

static void check_draws(void)
{
    static const int64_t batches[] = {1, 31, 33, 600, 4096, MOST};
    static const gpur_grid grids[] = {{16, 128, 0}, {1, 32, 0}, {3, 64, 0}, {250, 128, 0}};
    gpur_stream *stream = NULL;
    CHECK_OK(gpur_consumer_begin(s.base.replay, (gpur_consumer_launch){GPUR_LAUNCH_SAMPLE, 1, 0}, &stream));
    for (int i = 0; i < (IN_RACE_CHECK ? 8 : 24); i++) {
        const int failures = atomic_load(&test_state.failures);
        const draw d = {.batch = batches[i % (IN_RACE_CHECK ? 4 : 6)],
                        .grid = grids[i % 4],
                        .norm = i % 3,
                        .stratified = i / 2 % 2,
                        .is_empty = i == 7};
        check_draw(stream, &d);
        TEST_REQUIRE(atomic_load(&test_state.failures) == failures, "case %d", i);
    }
    CHECK_OK(gpur_consumer_end(s.base.replay, GPUR_OK));
}

/* Trees of one to three levels, and a ring that has wrapped around. */
TEST(one_kernel_draws_gathers_and_weighs_as_three_do)
{
    static const int64_t capacities[] = {100, 900, 17000};
    for (int i = 0; i < 3; i++) {
        CHECK(open_fixture(capacities[i], i == 2 ? 3000 : capacities[i] + 250, 0, 0));
        check_draws();
        close_fixture();
    }
}

TEST(it_does_so_where_rows_are_evicted_by_priority)
{
    CHECK(open_fixture(900, 1300, 1, 0));
    check_draws();
    close_fixture();
}

TEST(it_does_so_where_no_row_has_a_priority)
{
    CHECK(open_fixture(900, 700, 0, 1));
    check_draws();
    close_fixture();
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(one_kernel_draws_gathers_and_weighs_as_three_do);
    RUN(it_does_so_where_rows_are_evicted_by_priority);
    RUN(it_does_so_where_no_row_has_a_priority);
    return test_main_end();
}
