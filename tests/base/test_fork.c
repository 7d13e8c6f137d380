/* SPDX-License-Identifier: MIT */
/* Child processes made by fork. With the inline executor a child can go on using all objects of its parent. With the
 * thread executor every call in the child is refused, because the threads exist only in the parent. The child never
 * hangs, and the parent goes on in both cases. */
#include "test.h"
#include "base/status.h"

#include <sys/wait.h>
#include <unistd.h>

enum { FEATURES = 64, ROWS = 4096, BATCH = 2048, THREADS = 3, SECONDS = 100 };

typedef struct fixture {
    gpur_device *device;
    gpur_replay *replay;
    gpur_writer *writer;
    gpur_learner *learner;
} fixture;

static const gpur_field fields[] = {{"obs", GPUR_FLOAT32, {FEATURES}},
                                    {"action", GPUR_INT32, {0}},
                                    {"reward", GPUR_FLOAT32, {0}},
                                    {"next_obs", GPUR_FLOAT32, {FEATURES}},
                                    {"terminated", GPUR_BOOL, {0}}};

/* Large enough for helper threads: a batch of BATCH rows is 1 MB, and the GEMMs of a train step are millions of
 * operations. */
static gpur_status open_fixture(fixture *s)
{
    static float obs[ROWS][FEATURES], reward[ROWS];
    static int32_t action[ROWS];
    static uint8_t terminated[ROWS];
    gpur_device_config device = test_device_config();
    gpur_replay_config replay;
    gpur_dqn_config learner;
    for (int i = 0; i < ROWS; i++)
        obs[i][i % FEATURES] = 1, reward[i] = (float)(i % 3);
    device.threads = THREADS;
    GPUR_TRY(gpur_device_open(test_device_name(), &device, &s->device));
    GPUR_TRY(gpur_replay_config_init(&replay, sizeof replay));
    replay.capacity = ROWS, replay.fields = fields, replay.field_count = 5, replay.max_batch = BATCH;
    GPUR_TRY(gpur_replay_create(s->device, &replay, &s->replay));
    GPUR_TRY(gpur_writer_create(s->replay, 1, &s->writer));
    GPUR_TRY(
        gpur_writer_append_fields(s->writer, ROWS, (const void *[]){obs, action, reward, obs, terminated}, NULL, NULL));
    GPUR_TRY(gpur_dqn_config_init(&learner, sizeof learner));
    learner.network.num_actions = 3, learner.batch_size = 256;
    return gpur_dqn_create(s->replay, &learner, &s->learner);
}

static void close_fixture(fixture *s)
{
    gpur_learner_destroy(s->learner);
    gpur_writer_destroy(s->writer);
    gpur_replay_destroy(s->replay);
    gpur_device_close(s->device);
}

static gpur_status use(fixture *s)
{
    gpur_batch *batch = NULL;
    GPUR_TRY(gpur_replay_sample(s->replay, BATCH, NULL, &batch));
    const gpur_status status = gpur_batch_sync(batch);
    gpur_batch_release(batch);
    GPUR_TRY(status);
    GPUR_TRY(gpur_learner_train(s->learner, 5));
    return gpur_learner_sync(s->learner);
}

static int is_refusal(gpur_status status)
{
    return status == GPUR_DEVICE_ERROR && strstr(gpur_last_error(), "child of fork");
}

/* Both return 0 if all calls behave as documented. */
static int child_of_threads(fixture *s)
{
    gpur_batch *batch = NULL;
    int refused = is_refusal(gpur_learner_train(s->learner, 1)) && is_refusal(gpur_learner_sync(s->learner)) &&
                  is_refusal(gpur_device_sync(s->device));
    for (int i = 0; i < 1000; i++) /* more than a stream's ring has slots */
        refused &= is_refusal(gpur_replay_sample(s->replay, 1, NULL, &batch)) && !batch;
    close_fixture(s);
    fixture own = {0};
    const int fine = open_fixture(&own) == GPUR_OK && use(&own) == GPUR_OK;
    close_fixture(&own);
    return !refused + 2 * !fine;
}

static int child_of_inline(fixture *s)
{
    int fine = 1;
    for (int i = 0; i < 5; i++)
        fine &= use(s) == GPUR_OK;
    close_fixture(s);
    return !fine;
}

/* Returns the exit status of the child; -1 if it did not exit normally. */
static int fork_and_wait(int (*child)(fixture *), fixture *s)
{
    int how = 0;
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        alarm(SECONDS); /* kills a child that hangs */
        _exit(child(s));
    }
    return pid > 0 && waitpid(pid, &how, 0) == pid && WIFEXITED(how) ? WEXITSTATUS(how) : -1;
}

static int child_with_a_child(fixture *s)
{
    return use(s) != GPUR_OK || fork_and_wait(child_of_inline, s) != 0 || child_of_inline(s) != 0;
}

TEST(a_child_works_or_is_refused_and_the_parent_goes_on)
{
    const int has_threads = test_executor() == GPUR_EXECUTOR_THREAD;
    fixture s = {0};
    CHECK_OK(open_fixture(&s));
    for (int i = 0; i < 5; i++)
        CHECK_OK(use(&s));
    for (int i = 0; i < 4; i++) {
        int (*const child)(fixture *) = has_threads ? child_of_threads : i < 3 ? child_of_inline : child_with_a_child;
        CHECK_EQUAL(fork_and_wait(child, &s), 0);
        CHECK_OK(use(&s));
    }
    close_fixture(&s);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
#ifdef __SANITIZE_THREAD__
    printf("skipped: ThreadSanitizer ends a child of a process with threads that starts threads\n");
    return 77;
#endif
    if (test_on_cuda())
        return 77; /* CUDA does not work in a forked child */
    RUN(a_child_works_or_is_refused_and_the_parent_goes_on);
    return test_main_end();
}
