/* SPDX-License-Identifier: MIT */
/*
 * Everything at once over one small replay of frames: on threads of their own, two actors append blocks, two writers
 * step, and two readers sample. Every frame states its source and step, and each source goes through its steps in
 * order, so that a row of two writes, a wrong link and a lost or repeated row show.
 */
#include "base/status.h"
#include "support/replay_fixture.h"
#include "test.h"

#include <pthread.h>

enum {
    SOURCES = 4,
    READERS = 2,
    STACK = 3,
    N_STEP = 3,
    FRAME = 8,
    BATCH = 16,
    CAPACITY = 400,
    BLOCK_ROWS = 48,
    MIN_BATCHES = 20
};
enum { OBS, ACTION, REWARD, NEXT_OBS, TERMINATED, DISCOUNT, PREVIOUS, STEP, FIELDS };

static const gpur_field fields[FIELDS] = {{"obs", GPUR_UINT8, {STACK, FRAME}}, {"action", GPUR_INT32, {0}},
                                          {"reward", GPUR_FLOAT32, {0}},       {"next_obs", GPUR_UINT8, {STACK, FRAME}},
                                          {"terminated", GPUR_BOOL, {0}},      {"discount", GPUR_FLOAT32, {0}},
                                          {"previous", GPUR_INT64, {0}},       {"step", GPUR_INT64, {0}}};

typedef struct stress {
    gpur_replay *replay;
    gpur_block_format *format;
    int64_t steps; /* of each source at least; more until there are MIN_BATCHES, and to the end of an episode */
    _Atomic int64_t taken, batches, blocks;
    atomic_int working; /* sources that have not finished */
} stress;

typedef struct source {
    stress *stress;
    int64_t number; /* even ones make blocks */
    gpur_writer *writer;
    gpur_packer *packer;
} source;

static int64_t length_of(int64_t number)
{
    return 1 + (number * 5 + 1) % 11; /* 2, 7, 12 and 6 */
}

/* The frame after so many steps of an episode, of which this is the first step of the source; episodes are padded with
 * zeros. A frame has the number of its source and that of its step, which goes on through episodes. */
static void put_frame(unsigned char *to, int64_t number, int64_t step)
{
    const uint64_t key = (uint64_t)number << 40 | (uint64_t)step;
    for (int i = 0; i < FRAME; i++)
        to[i] = (unsigned char)(i < 6 ? key >> 8 * i : (key * 0x9E3779B97F4A7C15ull) >> 8 * i);
    to[FRAME - 1] |= 1; /* never zeros alone */
}

static void put_stack(unsigned char *to, int64_t number, int64_t first, int64_t step)
{
    for (int64_t j = 0; j < STACK; j++) {
        const int64_t frame = step - STACK + 1 + j;
        if (frame >= first)
            put_frame(to + j * FRAME, number, frame);
        else
            memset(to + j * FRAME, 0, FRAME);
    }
}

/* Episode e of a source has steps e L to e L + L - 1, and frames e (L + 1) to e (L + 1) + L. */
typedef struct place {
    int64_t first, frame, left;
} place;

static place place_of(int64_t number, int64_t step)
{
    const int64_t length = length_of(number), episode = step / length, in = step % length;
    const place p = {episode * (length + 1), episode * (length + 1) + in, length - in};
    return p;
}

static gpur_status append_blocks(source *s, int32_t all)
{
    const void *block = NULL;
    int64_t bytes = 0;
    GPUR_TRY(gpur_packer_take(s->packer, all, &block, &bytes));
    while (block) {
        GPUR_TRY(gpur_writer_append_block(s->writer, block, bytes, NULL));
        atomic_fetch_add(&s->stress->blocks, 1);
        GPUR_TRY(gpur_packer_take(s->packer, all, &block, &bytes));
    }
    return GPUR_OK;
}

static gpur_status reset(source *s, const void *obs)
{
    return s->packer ? gpur_packer_reset(s->packer, obs) : gpur_writer_reset(s->writer, 0, obs);
}

static gpur_status take_step(source *s, int64_t step, const void *next_obs, uint8_t ends)
{
    const int32_t action = (int32_t)(step % 5);
    const float reward = (float)(step % 64);
    const void *const extras[FIELDS] = {[STEP] = &step};
    const gpur_step_input stepped = {.size = sizeof stepped,
                                     .action = &action,
                                     .reward = &reward,
                                     .next_obs = next_obs,
                                     .terminated = &ends,
                                     .extras = extras};
    const gpur_packer_step_input packed = {.size = sizeof packed,
                                           .action = &action,
                                           .reward = reward,
                                           .next_obs = next_obs,
                                           .terminated = ends,
                                           .extras = extras};
    if (!s->packer)
        return gpur_writer_step_ex(s->writer, &stepped);
    GPUR_TRY(gpur_packer_step(s->packer, &packed));
    return append_blocks(s, step % 97 == 0);
}

static int goes_on(const source *s, int64_t step)
{
    const int has_enough = step >= s->stress->steps && atomic_load(&s->stress->batches) >= MIN_BATCHES;
    return !atomic_load(&test_state.failures) && !(has_enough && step % length_of(s->number) == 0);
}

static gpur_status play(source *s)
{
    unsigned char obs[STACK * FRAME];
    for (int64_t step = 0; goes_on(s, step); step++) {
        const place p = place_of(s->number, step);
        put_stack(obs, s->number, p.first, p.frame);
        if (p.first == p.frame)
            GPUR_TRY(reset(s, obs));
        put_stack(obs, s->number, p.first, p.frame + 1);
        GPUR_TRY(take_step(s, step, obs, p.left == 1));
        atomic_fetch_add(&s->stress->taken, 1);
    }
    return s->packer ? append_blocks(s, 1) : GPUR_OK;
}

static void check_source(source *s)
{
    CHECK_OK(play(s));
}

static void *run_source(void *argument)
{
    check_source(argument);
    atomic_fetch_sub(&((source *)argument)->stress->working, 1);
    return NULL;
}

typedef struct rows {
    unsigned char obs[BATCH][STACK * FRAME], next_obs[BATCH][STACK * FRAME], terminated[BATCH];
    float reward[BATCH], discount[BATCH];
    int64_t step[BATCH], previous[BATCH], id[BATCH];
    int32_t action[BATCH];
} rows;

/* A row is that of its source's step; the source is in the newest frame. */
static int is_wrong(const rows *r, int i)
{
    const int64_t number = r->obs[i][(STACK - 1) * FRAME + 5], step = r->step[i];
    const place p = place_of(number, step);
    const int64_t steps = p.left < N_STEP ? p.left : N_STEP;
    unsigned char obs[STACK * FRAME], next_obs[STACK * FRAME];
    float reward = 0, discount = 1;
    for (int64_t k = 0; k < steps; k++, discount *= 0.5f)
        reward += discount * (float)((step + k) % 64);
    const int ends = steps == p.left;
    put_stack(obs, number, p.first, p.frame), put_stack(next_obs, number, p.first, p.frame + steps);
    return number >= SOURCES || memcmp(obs, r->obs[i], sizeof obs) != 0 ||
           memcmp(next_obs, r->next_obs[i], sizeof obs) != 0 || r->action[i] != step % 5 || r->reward[i] != reward ||
           r->discount[i] != (ends ? 0 : discount) || r->terminated[i] != ends || r->previous[i] >= r->id[i] ||
           (r->previous[i] < 0) != (p.first == p.frame);
}

static void check_batch(stress *s, gpur_batch *batch)
{
    rows r;
    CHECK_OK(gpur_batch_read(batch, "obs", r.obs, sizeof r.obs));
    CHECK_OK(gpur_batch_read(batch, "next_obs", r.next_obs, sizeof r.next_obs));
    CHECK_OK(gpur_batch_read(batch, "terminated", r.terminated, sizeof r.terminated));
    CHECK_OK(gpur_batch_read(batch, "reward", r.reward, sizeof r.reward));
    CHECK_OK(gpur_batch_read(batch, "discount", r.discount, sizeof r.discount));
    CHECK_OK(gpur_batch_read(batch, "step", r.step, sizeof r.step));
    CHECK_OK(gpur_batch_read(batch, "previous", r.previous, sizeof r.previous));
    CHECK_OK(gpur_batch_read(batch, "id", r.id, sizeof r.id));
    CHECK_OK(gpur_batch_read(batch, "action", r.action, sizeof r.action));
    for (int i = 0; i < BATCH; i++)
        TEST_REQUIRE(!is_wrong(&r, i), "row %lld is not step %lld of source %d", (long long)r.id[i],
                     (long long)r.step[i], (int)r.obs[i][(STACK - 1) * FRAME + 5]);
    atomic_fetch_add(&s->batches, 1);
}

static void *run_reader(void *argument)
{
    stress *const s = argument;
    do {
        gpur_batch *batch = NULL;
        const gpur_status status = gpur_replay_sample(s->replay, BATCH, NULL, &batch);
        if (status == GPUR_OK)
            check_batch(s, batch);
        else if (status != GPUR_TOO_FEW)
            test_fail(__FILE__, __LINE__);
        gpur_batch_release(batch);
    } while (atomic_load(&s->working) > 0 && !atomic_load(&test_state.failures));
    return NULL;
}

static gpur_status open_source(source *s)
{
    gpur_writer_config writer = {.size = sizeof writer, .num_envs = 1, .link_appends = s->number % 2 == 0};
    gpur_packer_config packer;
    GPUR_TRY(gpur_writer_open(s->stress->replay, &writer, &s->writer));
    if (s->number % 2 == 1)
        return GPUR_OK;
    GPUR_TRY(gpur_packer_config_init(&packer, sizeof packer));
    packer.rows = 20, packer.actor = s->number;
    return gpur_packer_create(s->stress->format, &packer, &s->packer);
}

static void check_end(stress *s)
{
    CHECK_EQUAL(replay_fixture_stats(s->replay).appended, s->taken);
    CHECK(s->taken >= SOURCES * s->steps && s->batches >= MIN_BATCHES);
    CHECK(s->blocks >= 2 * (s->steps / 20));
}

TEST(blocks_steps_and_samples_at_once)
{
    gpur_device *const device = test_device();
    gpur_replay_config config = replay_fixture_config(fields, FIELDS, CAPACITY, BLOCK_ROWS, BATCH);
    stress s = {.steps = (int64_t)test_rounds(20000) + (IN_RACE_CHECK ? 200 : 1000), .working = SOURCES};
    source sources[SOURCES];
    pthread_t threads[SOURCES + READERS];
    config.layout = GPUR_LAYOUT_FRAMES, config.frame_stack = STACK, config.n_step = N_STEP, config.gamma = 0.5f;
    CHECK_OK(gpur_replay_create(device, &config, &s.replay));
    CHECK_OK(gpur_block_format_create(&config, &s.format));
    for (int i = 0; i < SOURCES; i++) {
        sources[i] = (source){&s, i, NULL, NULL};
        CHECK_OK(open_source(&sources[i]));
    }
    for (int i = 0; i < SOURCES + READERS; i++)
        CHECK(pthread_create(&threads[i], NULL, i < SOURCES ? run_source : run_reader,
                             i < SOURCES ? (void *)&sources[i] : (void *)&s) == 0);
    for (int i = 0; i < SOURCES + READERS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < SOURCES; i++) {
        gpur_packer_destroy(sources[i].packer);
        gpur_writer_destroy(sources[i].writer);
    }
    check_end(&s);
    gpur_block_format_destroy(s.format);
    gpur_replay_destroy(s.replay);
    gpur_device_close(device);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(blocks_steps_and_samples_at_once);
    return test_main_end();
}
