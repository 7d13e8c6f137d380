/* SPDX-License-Identifier: MIT */
/* The order of a run's work: against algorithm 1 of Daley & Amato 2021 and that of Daley & Amato 2021b written out, and
 * its invariants for all shapes. The long form prints the order beside the algorithm. */
#include "run/fast_dqn/sequence.h"
#include "test.h"

static const char *const task_names[] = {
    [GPUR_TASK_JOIN_TRAINER] = "join trainer",
    [GPUR_TASK_JOIN_ENVS] = "join environments",
    [GPUR_TASK_FLUSH] = "flush",
    [GPUR_TASK_COPY] = "copy",
    [GPUR_TASK_EVALUATE] = "evaluate",
    [GPUR_TASK_REFRESH] = "refresh",
    [GPUR_TASK_TRAIN] = "train",
    [GPUR_TASK_INFER] = "infer",
    [GPUR_TASK_DISPATCH] = "dispatch",
};

static void print_ops(const gpur_sequence_shape *shape, int64_t first, int64_t last, char *text, size_t room)
{
    size_t length = 0;
    text[0] = 0;
    for (int64_t t = first; t <= last; t++) {
        gpur_sequence_op ops[GPUR_SEQUENCE_MAX_OPS];
        const int32_t count = gpur_sequence_ops(shape, t, ops);
        length += (size_t)snprintf(text + length, room - length, "%d:", (int)t);
        for (int32_t i = 0; i < count; i++) {
            const int has_count = ops[i].task == GPUR_TASK_TRAIN || ops[i].task == GPUR_TASK_DISPATCH;
            length += (size_t)snprintf(text + length, room - length, has_count ? " %s %d;" : " %s;",
                                       task_names[ops[i].task], (int)ops[i].count);
        }
        length += (size_t)snprintf(text + length, room - length, "\n");
    }
}

static void check_order(const char *title, const gpur_sequence_shape *shape, int64_t last, const char *algorithm,
                        const char *want)
{
    char text[4096];
    CHECK_OK(gpur_sequence_check(shape));
    print_ops(shape, 1, last, text, sizeof text);
    if (test_is_long())
        printf("%s\n%s\n%s\n", title, algorithm, text);
    TEST_REQUIRE(strcmp(text, want) == 0, "%s: the order is\n%swanted\n%s", title, text, want);
}

TEST(both_switches_are_algorithm_1)
{
    const gpur_sequence_shape shape = {.target_period = 8,
                                       .train_period = 4,
                                       .train_steps = 1,
                                       .envs = 4,
                                       .concurrent = 1,
                                       .synchronized = 1,
                                       .acts_by_target = 1,
                                       .eval_period = 8};
    check_order("both, C 8, F 4, W 4", &shape, 9,
                "for each step t: at the beginning of each C steps synchronize everything, move the buffered\n"
                "transitions to the replay, copy the weights to the target network, and begin C / F minibatches;\n"
                "at the beginning of each W steps synchronize the samplers and compute the Q values of their W\n"
                "states; let sampler t mod W take step t",
                "1: join trainer; join environments; flush; copy; train 2; infer; dispatch 0;\n"
                "2: dispatch 1;\n"
                "3: dispatch 2;\n"
                "4: dispatch 3;\n"
                "5: join environments; infer; dispatch 0;\n"
                "6: dispatch 1;\n"
                "7: dispatch 2;\n"
                "8: dispatch 3;\n"
                "9: join trainer; join environments; flush; copy; evaluate; train 2; infer; dispatch 0;\n");
}

TEST(without_either_switch_it_is_dqn_that_joins_before_each_minibatch)
{
    gpur_sequence_shape shape = {.target_period = 4, .train_period = 2, .train_steps = 1, .envs = 2};
    check_order("standard, C 4, F 2, W 2", &shape, 5, "every F steps: join the samplers, one minibatch, join it",
                "1: join trainer; join environments; flush; train 1; join trainer; copy; dispatch 0;\n"
                "2: dispatch 1;\n"
                "3: join environments; flush; train 1; join trainer; copy; dispatch 0;\n"
                "4: dispatch 1;\n"
                "5: join trainer; join environments; flush; train 1; join trainer; copy; dispatch 0;\n");
    shape.acts_by_target = 1;
    check_order("standard, acting by the target network", &shape, 3, "copies at the beginning of a period alone",
                "1: join trainer; join environments; flush; copy; train 1; join trainer; dispatch 0;\n"
                "2: dispatch 1;\n"
                "3: join environments; flush; train 1; join trainer; dispatch 0;\n");
}

TEST(one_switch_alone)
{
    const gpur_sequence_shape concurrent = {
        .target_period = 4, .train_period = 2, .train_steps = 1, .envs = 2, .concurrent = 1, .acts_by_target = 1};
    const gpur_sequence_shape synchronized = {
        .target_period = 4, .train_period = 4, .train_steps = 1, .envs = 2, .synchronized = 1};
    check_order("concurrent, C 4, F 2, W 2", &concurrent, 5, "samplers run freely within a period",
                "1: join trainer; join environments; flush; copy; train 2; dispatch 0;\n"
                "2: dispatch 1;\n"
                "3: dispatch 0;\n"
                "4: dispatch 1;\n"
                "5: join trainer; join environments; flush; copy; train 2; dispatch 0;\n");
    check_order("synchronized, C 4, F 4, W 2", &synchronized, 4, "one minibatch every F steps, one inference every W",
                "1: join trainer; join environments; flush; train 1; join trainer; copy; infer; dispatch 0;\n"
                "2: dispatch 1;\n"
                "3: join environments; infer; dispatch 0;\n"
                "4: dispatch 1;\n");
}

TEST(a_burst_is_algorithm_1_of_the_virtual_replay_cache)
{
    gpur_sequence_shape shape = {.target_period = 4,
                                 .train_period = 2,
                                 .train_steps = 1,
                                 .envs = 1,
                                 .burst = 1,
                                 .has_cache = 1,
                                 .eval_period = 4};
    check_order(
        "burst with a cache, C 4, F 2", &shape, 5,
        "for each step t: if t mod C = 1 build the cache, and do C / F minibatches of it; act by the weights\n"
        "that are trained, and store the experience",
        "1: join trainer; join environments; flush; refresh; train 2; join trainer; copy; dispatch 0;\n"
        "2: dispatch 0;\n"
        "3: dispatch 0;\n"
        "4: dispatch 0;\n"
        "5: join trainer; join environments; flush; evaluate; refresh; train 2; join trainer; copy; dispatch 0;\n");
    shape.envs = 2, shape.synchronized = 1, shape.has_cache = 0;
    check_order("burst without a cache, synchronized, C 4, F 2, W 2", &shape, 4, "one inference every W steps",
                "1: join trainer; join environments; flush; train 2; join trainer; copy; infer; dispatch 0;\n"
                "2: dispatch 1;\n"
                "3: join environments; infer; dispatch 0;\n"
                "4: dispatch 1;\n");
}

TEST(a_cache_is_refreshed_at_the_beginning_of_each_period)
{
    gpur_sequence_shape shape = {
        .target_period = 4, .train_period = 2, .train_steps = 1, .envs = 1, .concurrent = 1, .has_cache = 1};
    check_order("concurrent with a cache", &shape, 5, "the lanes act by the weights of the period's beginning",
                "1: join trainer; join environments; flush; copy; refresh; train 2; dispatch 0;\n"
                "2: dispatch 0;\n"
                "3: dispatch 0;\n"
                "4: dispatch 0;\n"
                "5: join trainer; join environments; flush; copy; refresh; train 2; dispatch 0;\n");
    shape.concurrent = 0;
    check_order("standard with a cache", &shape, 5, "the train steps of a period draw from one cache",
                "1: join trainer; join environments; flush; refresh; train 1; join trainer; copy; dispatch 0;\n"
                "2: dispatch 0;\n"
                "3: join environments; flush; train 1; join trainer; copy; dispatch 0;\n"
                "4: dispatch 0;\n"
                "5: join trainer; join environments; flush; refresh; train 1; join trainer; copy; dispatch 0;\n");
}

/* What must hold of every shape, whatever its order: the replay is published to only while no train step runs, every
 * train step finds what was dispatched before it published, C / F train steps belong to C steps, and a cache is
 * refreshed once in C steps, before the first of their train steps. */
static void check_invariants(const gpur_sequence_shape *shape)
{
    int64_t trained = 0, steps = 3 * shape->target_period, refreshes = 0;
    const int64_t of_period = shape->target_period / shape->train_period * shape->train_steps;
    int trains = 0, lanes_run = 0, unpublished = 0;
    for (int64_t t = 1; t <= steps; t++) {
        gpur_sequence_op ops[GPUR_SEQUENCE_MAX_OPS];
        const int32_t count = gpur_sequence_ops(shape, t, ops);
        CHECK(count >= 1 && count <= GPUR_SEQUENCE_MAX_OPS);
        for (int32_t i = 0; i < count; i++) {
            const gpur_sequence_task task = ops[i].task;
            CHECK((task == GPUR_TASK_DISPATCH) == (i == count - 1));
            if (task == GPUR_TASK_JOIN_TRAINER)
                trains = 0;
            else if (task == GPUR_TASK_JOIN_ENVS)
                lanes_run = 0;
            else if (task == GPUR_TASK_FLUSH)
                unpublished = 0;
            else if (task == GPUR_TASK_TRAIN)
                trained += ops[i].count;
            else if (task == GPUR_TASK_REFRESH)
                CHECK_EQUAL(trained, of_period * refreshes++);
            CHECK(task != GPUR_TASK_FLUSH || (!trains && !lanes_run));
            CHECK(task != GPUR_TASK_COPY || (!trains && !lanes_run));
            CHECK(task != GPUR_TASK_INFER || !lanes_run);
            CHECK(task != GPUR_TASK_TRAIN || (!trains && !unpublished));
            CHECK(task != GPUR_TASK_REFRESH || (!trains && !unpublished));
            trains |= task == GPUR_TASK_TRAIN;
            lanes_run |= task == GPUR_TASK_DISPATCH;
            unpublished |= task == GPUR_TASK_DISPATCH;
        }
        CHECK_EQUAL(ops[count - 1].count, (t - 1) % shape->envs);
    }
    CHECK_EQUAL(trained, steps / shape->train_period * shape->train_steps);
    CHECK_EQUAL(refreshes, shape->has_cache ? 3 : 0);
}

TEST(every_shape_has_an_order)
{
    int checked = 0;
    for (int variant = 0; variant < 32; variant++)
        for (int32_t w = 1; w <= 8; w++)
            for (int64_t f = 1; f <= 4; f++)
                for (int64_t c = f; c <= 24; c += f) {
                    const gpur_sequence_shape shape = {.target_period = c,
                                                       .train_period = f,
                                                       .train_steps = 1 + variant % 3,
                                                       .envs = w,
                                                       .concurrent = variant & 1,
                                                       .synchronized = variant >> 1 & 1,
                                                       .acts_by_target = variant >> 2 & 1,
                                                       .burst = variant >> 3 & 1,
                                                       .has_cache = variant >> 4};
                    if (gpur_sequence_check(&shape) == GPUR_OK)
                        check_invariants(&shape), checked++;
                }
    CHECK(checked > 1500); /* shapes that no check refuses */
}

TEST(a_shape_without_an_order_is_refused)
{
    const gpur_sequence_shape good = {.target_period = 8,
                                      .train_period = 4,
                                      .train_steps = 1,
                                      .envs = 4,
                                      .concurrent = 1,
                                      .synchronized = 1,
                                      .acts_by_target = 1,
                                      .eval_period = 16};
    gpur_sequence_shape shape = good;
    shape.train_period = 3;
    CHECK_FAILS(gpur_sequence_check(&shape), GPUR_INVALID_ARGUMENT,
                "target_period is 8 and train_period is 3; the first must be a multiple of the second");
    shape = good, shape.train_period = 0;
    CHECK_FAILS(gpur_sequence_check(&shape), GPUR_INVALID_ARGUMENT, "train_period is 0");
    shape = good, shape.target_period = 0;
    CHECK_FAILS(gpur_sequence_check(&shape), GPUR_INVALID_ARGUMENT, "target_period is 0");
    shape = good, shape.envs = 3;
    CHECK_FAILS(gpur_sequence_check(&shape), GPUR_INVALID_ARGUMENT, "target_period is 8 and num_envs is 3");
    shape = good, shape.envs = 0;
    CHECK_FAILS(gpur_sequence_check(&shape), GPUR_INVALID_ARGUMENT, "num_envs is 0; it must be 1 to 4096");
    shape = good, shape.eval_period = 12;
    CHECK_FAILS(gpur_sequence_check(&shape), GPUR_INVALID_ARGUMENT, "eval_period is 12 and target_period is 8");
    shape = good, shape.burst = 1;
    CHECK_FAILS(gpur_sequence_check(&shape), GPUR_INVALID_ARGUMENT, "burst is 1 and concurrent is 1");
    shape.concurrent = 0;
    CHECK_FAILS(gpur_sequence_check(&shape), GPUR_INVALID_ARGUMENT, "burst is 1 and act is \"target\"");
    shape.burst = 0, shape.has_cache = 1;
    CHECK_FAILS(gpur_sequence_check(&shape), GPUR_INVALID_ARGUMENT, "and so no target network");
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(both_switches_are_algorithm_1);
    RUN(without_either_switch_it_is_dqn_that_joins_before_each_minibatch);
    RUN(one_switch_alone);
    RUN(a_burst_is_algorithm_1_of_the_virtual_replay_cache);
    RUN(a_cache_is_refreshed_at_the_beginning_of_each_period);
    RUN(every_shape_has_an_order);
    RUN(a_shape_without_an_order_is_refused);
    return test_main_end();
}
