/* SPDX-License-Identifier: MIT */
/* The order of a run's work. */
#include "run/fast_dqn/sequence.h"

#include <inttypes.h>

gpur_status gpur_sequence_check(const gpur_sequence_shape *shape)
{
    const int64_t c = shape->target_period, f = shape->train_period;
    const int w = (int)shape->envs;
    GPUR_REQUIRE(w >= 1 && w <= 4096, "num_envs is %d; it must be 1 to 4096", w);
    GPUR_REQUIRE(f >= 1, "train_period is %" PRId64 "; it must be 1 or more", f);
    GPUR_REQUIRE(shape->train_steps >= 1 && shape->train_steps <= GPUR_SEQUENCE_MAX_TRAIN,
                 "train_steps is %" PRId64 "; it must be 1 to %d", shape->train_steps, GPUR_SEQUENCE_MAX_TRAIN);
    GPUR_REQUIRE(c >= 1, "target_period is %" PRId64 "; it must be 1 or more", c);
    GPUR_REQUIRE(c % f == 0,
                 "target_period is %" PRId64 " and train_period is %" PRId64
                 "; the first must be a multiple of the second",
                 c, f);
    GPUR_REQUIRE(!shape->synchronized || c % w == 0,
                 "target_period is %" PRId64 " and num_envs is %d; with `synchronized` the first must be a multiple of "
                 "the second",
                 c, w);
    GPUR_REQUIRE(!shape->burst || !shape->concurrent,
                 "burst is 1 and concurrent is 1; one of them must be 0: the environments wait "
                 "for a burst of train steps");
    GPUR_REQUIRE(!shape->burst || !shape->acts_by_target,
                 "burst is 1 and act is \"target\"; it must be \"latest\", which after a burst is the same");
    GPUR_REQUIRE(!shape->has_cache || !shape->acts_by_target,
                 "act is \"target\" and the learner has a cache of returns, and so no target network; it must be "
                 "\"latest\"");
    GPUR_REQUIRE(shape->eval_period >= 0 && shape->eval_period % c == 0,
                 "eval_period is %" PRId64 " and target_period is %" PRId64
                 "; the first must be a multiple of the second, or 0",
                 shape->eval_period, c);
    return GPUR_OK;
}

typedef struct ops_list {
    gpur_sequence_op *ops;
    int32_t count;
    int envs_wait; /* the environments have been joined at this step */
} ops_list;

static void add(ops_list *list, gpur_sequence_task task, int64_t count)
{
    list->ops[list->count++] = (gpur_sequence_op){task, count};
}

static void join_envs(ops_list *list)
{
    if (!list->envs_wait)
        add(list, GPUR_TASK_JOIN_ENVS, 0);
    list->envs_wait = 1;
}

static void train(ops_list *list, const gpur_sequence_shape *shape, int64_t count)
{
    add(list, GPUR_TASK_TRAIN, count);
    add(list, GPUR_TASK_JOIN_TRAINER, 0);
    if (!shape->acts_by_target)
        add(list, GPUR_TASK_COPY, 0);
}

/* The step after a whole target period. The learner itself has copied its weights to the target network at the end of
 * the period's last train step. */
static void begin_period(ops_list *list, const gpur_sequence_shape *shape, int64_t t)
{
    const int64_t train_steps = shape->target_period / shape->train_period * shape->train_steps;
    add(list, GPUR_TASK_JOIN_TRAINER, 0);
    join_envs(list);
    add(list, GPUR_TASK_FLUSH, 0);
    if (shape->acts_by_target || shape->concurrent)
        add(list, GPUR_TASK_COPY, 0);
    if (shape->eval_period > 0 && t > 1 && (t - 1) % shape->eval_period == 0)
        add(list, GPUR_TASK_EVALUATE, 0);
    if (shape->has_cache)
        add(list, GPUR_TASK_REFRESH, 0);
    if (shape->concurrent)
        add(list, GPUR_TASK_TRAIN, train_steps);
    else if (shape->burst)
        train(list, shape, train_steps);
}

static void train_now(ops_list *list, const gpur_sequence_shape *shape, int is_flushed)
{
    join_envs(list);
    if (!is_flushed)
        add(list, GPUR_TASK_FLUSH, 0);
    train(list, shape, shape->train_steps);
}

int32_t gpur_sequence_ops(const gpur_sequence_shape *shape, int64_t t, gpur_sequence_op ops[GPUR_SEQUENCE_MAX_OPS])
{
    ops_list list = {ops, 0, 0};
    const int begins = (t - 1) % shape->target_period == 0;
    if (begins)
        begin_period(&list, shape, t);
    if (!shape->concurrent && !shape->burst && (t - 1) % shape->train_period == 0)
        train_now(&list, shape, begins);
    if (shape->synchronized && (t - 1) % shape->envs == 0) {
        join_envs(&list);
        add(&list, GPUR_TASK_INFER, 0);
    }
    add(&list, GPUR_TASK_DISPATCH, gpur_sequence_env_of(shape, t));
    return list.count;
}
