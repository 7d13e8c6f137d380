/* SPDX-License-Identifier: MIT */
/* The epsilon_greedy kernel: Q values and actions against the reference, with numbers of each row and without, for
 * every head that has values, at several launch shapes. */
#include "support/learner_fixture.h"
#include "support/replay_fixture.h"
#include "test.h"

enum { B = 301, MAX_ACTIONS = 18, Z_PITCH = 20 };

static gpur_device *device;
static gpur_stream *stream;

/* What a launch reads and writes, as one block of device memory. */
typedef struct choice {
    float z[B * Z_PITCH], bias[MAX_ACTIONS + 1], q[B * MAX_ACTIONS];
    gpur_explore_row rows[B];
    int32_t action[B];
} choice;

static void make_choice(choice *c)
{
    static const float epsilons[] = {0.0f, 0.1f, 0.5f, 1.0f};
    memset(c, 0, sizeof *c);
    random_floats(31, c->z, B * Z_PITCH);
    random_floats(32, c->bias, MAX_ACTIONS + 1);
    for (int b = 0; b < B; b++) {
        const uint64_t far = b % 3 == 0 ? 0 : (uint64_t)1 << (b % 64);
        c->rows[b] = (gpur_explore_row){far + (uint64_t)b, UINT32_MAX / (uint32_t)(b % 5 + 1), epsilons[b % 4]};
    }
}

/* `args` has the head, the seed, the step and epsilon. Runs on a copy of `c` on the device, and reads it back. */
static gpur_status run_choice(choice *c, gpur_epsilon_greedy_args args, int by_row, gpur_grid grid)
{
    choice *const there = upload_to_device(device, c, sizeof *c);
    if (!there)
        return GPUR_OUT_OF_MEMORY;
    args.z = there->z, args.bias = there->bias, args.per_action = there->q, args.action = there->action;
    args.rows = by_row ? there->rows : NULL;
    args.batch = B, args.z_pitch = Z_PITCH;
    gpur_status status = gpur_launch_epsilon_greedy(stream, grid, &args);
    if (status == GPUR_OK)
        status = gpur_stream_sync(stream);
    if (status == GPUR_OK)
        status = gpur_device_copy(device, c, there, sizeof *c);
    gpur_device_free(device, there);
    return status;
}

/* The random numbers leave no doubt; of two values that are nearly equal either may be the largest. */
static void check_row(const choice *c, const gpur_epsilon_greedy_args *args, int by_row, int b)
{
    const int actions = args->num_actions;
    const gpur_explore_row row = by_row ? c->rows[b] : (gpur_explore_row){args->step, (uint32_t)b, args->epsilon};
    double in[MAX_ACTIONS + 1], q[MAX_ACTIONS + 1];
    for (int k = 0; k < actions + (args->head == GPUR_HEAD_DUELING); k++)
        in[k] = (double)c->z[b * Z_PITCH + k] + (double)c->bias[k];
    ref_head(args->head, actions, in, q);
    for (int k = 0; k < actions; k++)
        CHECK_NEAR(c->q[b * actions + k], q[k], 2e-6);
    const int wanted = ref_epsilon_greedy(args->seed, row.step, row.lane, row.epsilon, actions, q);
    CHECK(c->action[b] >= 0 && c->action[b] < actions);
    CHECK(c->action[b] == wanted || (row.epsilon < 1.0f && fabs(q[c->action[b]] - q[wanted]) < 2e-6));
}

TEST(values_and_actions_agree_with_the_reference)
{
    static choice c;
    static const int32_t actions[] = {1, 3, MAX_ACTIONS};
    for (int i = 0; i < 12; i++) {
        const int by_row = i / 6;
        const gpur_epsilon_greedy_args args = {.head = i % 2 ? GPUR_HEAD_DUELING : GPUR_HEAD_Q,
                                               .num_actions = actions[i / 2 % 3],
                                               .seed = (uint64_t)i << 60 | 12345u,
                                               .step = ((uint64_t)i << 40) + 7,
                                               .epsilon = 0.4f};
        make_choice(&c);
        CHECK_OK(run_choice(&c, args, by_row, gpur_grid_elements(device, B)));
        for (int b = 0; b < B; b++)
            check_row(&c, &args, by_row, b);
    }
}

/* Rows that have what all rows have without them. */
TEST(rows_with_the_same_numbers_choose_the_same)
{
    static choice all, each;
    const gpur_epsilon_greedy_args args = {.num_actions = 5, .seed = 9, .step = (uint64_t)1 << 33, .epsilon = 0.5f};
    make_choice(&all);
    make_choice(&each);
    for (int b = 0; b < B; b++)
        each.rows[b] = (gpur_explore_row){args.step, (uint32_t)b, args.epsilon};
    CHECK_OK(run_choice(&all, args, 0, gpur_grid_elements(device, B)));
    CHECK_OK(run_choice(&each, args, 1, gpur_grid_elements(device, B)));
    CHECK(memcmp(all.action, each.action, sizeof all.action) == 0 && memcmp(all.q, each.q, sizeof all.q) == 0);
}

TEST(no_launch_shape_changes_a_bit)
{
    static const gpur_grid grids[] = {{1, 32, 0}, {3, 64, 0}, {64, 256, 0}};
    static choice first, c;
    const gpur_epsilon_greedy_args args = {.head = GPUR_HEAD_DUELING, .num_actions = 6, .seed = 2};
    for (int i = 0; i < 3; i++) {
        make_choice(&c);
        CHECK_OK(run_choice(&c, args, 1, grids[i]));
        first = i == 0 ? c : first;
        CHECK(memcmp(first.action, c.action, sizeof c.action) == 0 && memcmp(first.q, c.q, sizeof c.q) == 0);
    }
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
    if (gpur_stream_create(device, &stream) != GPUR_OK)
        return 1;
    RUN(values_and_actions_agree_with_the_reference);
    RUN(rows_with_the_same_numbers_choose_the_same);
    RUN(no_launch_shape_changes_a_bit);
    gpur_stream_destroy(stream);
    gpur_device_close(device);
    return test_main_end();
}
