/* SPDX-License-Identifier: MIT */
/* The same steps through lanes and through a writer, with every way to reset: the writer's complete transitions and
 * those of lanes are the same, bit by bit, for each n; also where both store each frame of stacks once. */
#include "replay/lanes/lanes.h"
#include "support/replay_fixture.h"
#include "test.h"

enum {
    LANES = 7,
    STEPS = 90,
    KEPT = 64 * STEPS,
    STACK = 3,
    FRAME = 5,
    OBS = STACK * FRAME,
    BATCH = LANES * STEPS,
    FIELDS = 7
};

/* The tag of a transition is the id of its first row. */
static gpur_field fields[FIELDS] = {
    {"obs", GPUR_FLOAT32, {OBS}},  {"tag", GPUR_INT64, {0}},          {"action", GPUR_INT32, {0}},
    {"reward", GPUR_FLOAT32, {0}}, {"next_obs", GPUR_FLOAT32, {OBS}}, {"terminated", GPUR_BOOL, {0}},
    {"truncated", GPUR_BOOL, {0}},
};
enum { AT_OBS, AT_TAG, AT_ACTION, AT_REWARD, AT_NEXT_OBS, AT_TERMINATED, AT_TRUNCATED };

/* A step of all environments. */
typedef struct step {
    float obs[LANES][OBS], next_obs[LANES][OBS], final_obs[LANES][OBS], reward[LANES];
    int64_t tag[LANES];
    int32_t action[LANES];
    uint8_t terminated[LANES], truncated[LANES];
} step;

static struct {
    gpur_device *device;
    gpur_stream *stream;
    gpur_schema schema;
    gpur_priorities no_priorities;
    gpur_lane_store store;
    gpur_window *window;
    gpur_replay *replay;
    gpur_writer *writer;
    int32_t autoreset, n_step;
    int is_stack, stack_is_last;
    int has_ended[LANES]; /* with the step before */
    step now;
    void *arrays[FIELDS]; /* device: of one step, or of a batch */
    int64_t *ids;
    float *discount;
} w;

static float number(uint64_t *random)
{
    return (float)(xorshift_below(random, 20001) - 10000) / 512.0f;
}

static void fill(float (*obs)[OBS], uint64_t *random)
{
    for (int lane = 0; lane < LANES; lane++)
        for (int i = 0; i < OBS; i++)
            obs[lane][i] = number(random);
}

/* Where number i of frame f lies in a stack. */
static int at_frame(int f, int i)
{
    return w.stack_is_last ? i * STACK + f : f * FRAME + i;
}

/* The stack that follows `before` with a new frame, or that an episode begins with: older frames are like the new one
 * in lanes of odd numbers, and zeros in the others. */
static void make_stack(float *stack, const float *before, int begins, int lane, uint64_t *random)
{
    for (int i = 0; i < FRAME; i++) {
        const float newest = number(random);
        for (int f = 0; f < STACK - 1; f++)
            stack[at_frame(f, i)] = !begins ? before[at_frame(f + 1, i)] : lane % 2 ? newest : 0.0f;
        stack[at_frame(STACK - 1, i)] = newest;
    }
}

static void set_shapes(void)
{
    const int32_t shape[2] = {w.stack_is_last ? FRAME : STACK, w.stack_is_last ? STACK : FRAME};
    memcpy(fields[AT_OBS].shape, shape, sizeof shape);
    memcpy(fields[AT_NEXT_OBS].shape, shape, sizeof shape);
}

static void begin(uint64_t *random)
{
    const gpur_lane_config config = {.lanes = LANES,
                                     .steps = KEPT,
                                     .max_batch = 1,
                                     .resets_later = w.autoreset == GPUR_AUTORESET_NEXT_STEP,
                                     .reward_clip = 8.0f,
                                     .stack = w.is_stack ? STACK : 1,
                                     .stack_is_last = w.stack_is_last};
    gpur_field replay_fields[FIELDS + 1];
    gpur_replay_config replay;
    gpur_writer_config writer;
    w.device = test_device();
    set_shapes();
    memcpy(replay_fields, fields, sizeof fields);
    replay_fields[FIELDS] = (gpur_field){"discount", GPUR_FLOAT32, {0}};
    CHECK_OK(gpur_replay_config_init(&replay, sizeof replay));
    replay.fields = replay_fields, replay.field_count = FIELDS + 1;
    replay.capacity = 2 * BATCH, replay.n_step = w.n_step, replay.gamma = 0.97f, replay.reward_clip = 8.0f;
    if (w.is_stack)
        replay.layout = GPUR_LAYOUT_FRAMES, replay.frame_stack = STACK, replay.stack_axis = w.stack_is_last;
    CHECK_OK(gpur_replay_create(w.device, &replay, &w.replay));
    CHECK_OK(gpur_writer_config_init(&writer, sizeof writer));
    writer.num_envs = LANES, writer.autoreset = w.autoreset;
    CHECK_OK(gpur_writer_open(w.replay, &writer, &w.writer));
    CHECK_OK(gpur_schema_build(&w.schema, fields, FIELDS));
    CHECK_OK(gpur_stream_create(w.device, &w.stream));
    CHECK_OK(gpur_memory_alloc(w.device, 256, "a window", (void **)&w.window));
    CHECK_OK(gpur_lane_store_build(&w.store, w.device, &w.schema, &config, &w.no_priorities, w.window));
    for (int f = 0; f < FIELDS; f++)
        CHECK_OK(gpur_memory_alloc(w.device, BATCH * w.schema.fields[f].bytes, "values", &w.arrays[f]));
    CHECK_OK(gpur_memory_alloc(w.device, BATCH * 8, "ids", (void **)&w.ids));
    CHECK_OK(gpur_memory_alloc(w.device, BATCH * 4, "discounts", (void **)&w.discount));
    fill(w.now.obs, random);
    for (int lane = 0; lane < LANES && w.is_stack; lane++)
        make_stack(w.now.obs[lane], NULL, 1, lane, random);
    CHECK_OK(gpur_writer_reset(w.writer, -1, w.now.obs));
    memset(w.has_ended, 0, sizeof w.has_ended);
}

static void end(void)
{
    for (int f = 0; f < FIELDS; f++)
        gpur_memory_free(w.device, w.arrays[f]);
    gpur_memory_free(w.device, w.ids);
    gpur_memory_free(w.device, w.discount);
    gpur_lane_store_destroy(&w.store);
    gpur_memory_free(w.device, w.window);
    gpur_stream_destroy(w.stream);
    gpur_writer_destroy(w.writer);
    gpur_replay_destroy(w.replay);
    gpur_device_close(w.device);
}

/* A random step. The environments reset themselves, or with GPUR_AUTORESET_DISABLED, are reset by the caller. */
static void make_step(int64_t t, uint64_t *random)
{
    fill(w.now.next_obs, random);
    fill(w.now.final_obs, random);
    for (int lane = 0; lane < LANES; lane++) {
        const int resets = w.autoreset == GPUR_AUTORESET_NEXT_STEP && w.has_ended[lane];
        const int64_t kind = xorshift_below(random, 9);
        w.now.tag[lane] = t * LANES + lane;
        w.now.action[lane] = (int32_t)xorshift_below(random, 6);
        w.now.reward[lane] = number(random);
        w.now.terminated[lane] = !resets && (kind == 0 || kind == 2);
        w.now.truncated[lane] = !resets && (kind == 1 || kind == 2);
        w.has_ended[lane] = w.now.terminated[lane] || w.now.truncated[lane];
        if (!w.is_stack)
            continue;
        make_stack(w.now.final_obs[lane], w.now.obs[lane], 0, lane, random);
        memcpy(w.now.next_obs[lane], w.now.final_obs[lane], sizeof *w.now.next_obs);
        if (w.autoreset == GPUR_AUTORESET_NEXT_STEP ? resets : w.has_ended[lane])
            make_stack(w.now.next_obs[lane], NULL, 1, lane, random);
    }
}

static void give_to_lanes(void)
{
    const void *const from[FIELDS] = {w.now.obs,       w.now.tag,        w.now.action,   w.now.reward,
                                      w.now.final_obs, w.now.terminated, w.now.truncated};
    const void *given[FIELDS];
    for (int f = 0; f < FIELDS; f++) {
        CHECK_OK(gpur_copy(w.stream, w.arrays[f], from[f], LANES * w.schema.fields[f].bytes));
        given[f] = f == AT_NEXT_OBS && w.autoreset == GPUR_AUTORESET_NEXT_STEP ? NULL : w.arrays[f];
    }
    CHECK_OK(gpur_stream_sync(w.stream));
    CHECK_OK(gpur_lane_store_add(&w.store, w.stream, given));
}

static void give_to_writer(void)
{
    const void *const extras[FIELDS + 1] = {[AT_TAG] = w.now.tag};
    gpur_step_input input = {.size = sizeof input,
                             .action = w.now.action,
                             .reward = w.now.reward,
                             .next_obs = w.now.next_obs,
                             .terminated = w.now.terminated,
                             .truncated = w.now.truncated,
                             .extras = extras};
    step last = w.now;
    for (int lane = 0; lane < LANES && w.autoreset == GPUR_AUTORESET_DISABLED; lane++)
        if (w.has_ended[lane])
            memcpy(last.next_obs[lane], w.now.final_obs[lane], sizeof last.next_obs[lane]);
    if (w.autoreset == GPUR_AUTORESET_DISABLED)
        input.next_obs = last.next_obs;
    if (w.autoreset == GPUR_AUTORESET_SAME_STEP)
        input.final_obs = w.now.final_obs;
    CHECK_OK(gpur_writer_step_ex(w.writer, &input));
    for (int lane = 0; lane < LANES && w.autoreset == GPUR_AUTORESET_DISABLED; lane++)
        if (w.has_ended[lane])
            CHECK_OK(gpur_writer_reset(w.writer, lane, w.now.next_obs[lane]));
}

static unsigned char from_writer[FIELDS + 1][BATCH * 64], from_lanes[FIELDS + 1][BATCH * 64];

static void draw_from_lanes(int64_t count)
{
    const gpur_lane_batch batch = {
        .count = count, .ids = w.ids, .fields = w.arrays, .discount = w.discount, .n_step = w.n_step, .gamma = 0.97f};
    CHECK_OK(gpur_copy(w.stream, w.ids, from_writer[AT_TAG], count * 8));
    CHECK_OK(gpur_lane_store_draw(&w.store, w.stream, &batch));
    for (int f = 0; f < FIELDS; f++)
        CHECK_OK(gpur_copy(w.stream, from_lanes[f], w.arrays[f], count * w.schema.fields[f].bytes));
    CHECK_OK(gpur_copy(w.stream, from_lanes[FIELDS], w.discount, count * 4));
    CHECK_OK(gpur_stream_sync(w.stream));
}

static void read_writers_rows(int64_t count)
{
    int64_t ids[BATCH];
    gpur_batch *batch = NULL;
    for (int64_t i = 0; i < count; i++)
        ids[i] = i;
    CHECK_OK(gpur_replay_gather(w.replay, count, ids, NULL, &batch));
    for (int f = 0; f < FIELDS; f++)
        CHECK_OK(gpur_batch_read(batch, fields[f].name, from_writer[f], count * w.schema.fields[f].bytes));
    CHECK_OK(gpur_batch_read(batch, "discount", from_writer[FIELDS], count * 4));
    gpur_batch_release(batch);
}

static void compare_all(void)
{
    const int64_t count = gpur_replay_size(w.replay);
    CHECK(count > BATCH - LANES * (STEPS / 3) && count <= BATCH);
    read_writers_rows(count);
    draw_from_lanes(count);
    for (int f = 0; f <= FIELDS; f++) {
        const int64_t bytes = f == FIELDS ? 4 : w.schema.fields[f].bytes;
        TEST_REQUIRE(memcmp(from_writer[f], from_lanes[f], (size_t)(count * bytes)) == 0, "\"%s\" differs",
                     f == FIELDS ? "discount" : fields[f].name);
    }
}

/* stacks: 0: none; 1: along the first axis; 2: along the last one. */
static void run(int32_t autoreset, int32_t n_step, int stacks)
{
    uint64_t random = (uint64_t)(10 * n_step + autoreset + 1);
    memset(&w, 0, sizeof w);
    w.autoreset = autoreset, w.n_step = n_step;
    w.is_stack = stacks > 0, w.stack_is_last = stacks == 2;
    begin(&random);
    for (int64_t t = 0; t < STEPS; t++) {
        make_step(t, &random);
        give_to_lanes();
        give_to_writer();
        memcpy(w.now.obs, w.now.next_obs, sizeof w.now.obs);
    }
    make_step(STEPS, &random); /* whose observations are the next ones of the last step */
    give_to_lanes();
    compare_all();
    gpur_lanes_state state;
    CHECK_OK(gpur_lane_store_read(&w.store, w.stream, &state));
    CHECK_EQUAL(state.broken_stacks, 0);
    end();
}

TEST(a_writer_makes_the_same_transitions)
{
    static const int32_t n_steps[] = {1, 2, 3, 10};
    for (int i = 0; i < (IN_RACE_CHECK ? 2 : 4); i++)
        for (int32_t autoreset = GPUR_AUTORESET_DISABLED; autoreset <= GPUR_AUTORESET_SAME_STEP; autoreset++)
            for (int stacks = 0; stacks < 3; stacks++)
                run(autoreset, n_steps[i], stacks);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(a_writer_makes_the_same_transitions);
    return test_main_end();
}
