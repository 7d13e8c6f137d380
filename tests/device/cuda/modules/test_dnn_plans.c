/* SPDX-License-Identifier: MIT */
/*
 * The core's use of cuDNN for convolutions, with a fake module: the message if cuDNN cannot be used; which plans are
 * created, cached and destroyed; what is logged.
 */
#include "device/cuda/cuda.h"
#include "test.h"

#include <stddef.h>

static gpur_status opened;
static int opens;

static const gpur_cudadnn fake;

static gpur_status fake_open(gpur_cuda_library *library)
{
    opens++;
    if (opened == GPUR_OK) {
        library->table = &fake.module;
        return GPUR_OK;
    }
    return gpur_fail(opened, "cuDNN was not found. Searched for libcudnn.so.9");
}

static cudaError_t fake_enter(const gpur_device *device, int *before)
{
    (void)device;
    *before = 0;
    return cudaSuccess;
}

static void fake_leave(int before, cudaError_t error)
{
    (void)before, (void)error;
}

static int closed;
static void fake_close(gpur_cuda_library *library)
{
    closed++;
    memset(library, 0, sizeof *library);
}

#define gpur_dnn_library_open fake_open
#define gpur_cuda_library_close fake_close
#define gpur_cuda_enter fake_enter
#define gpur_cuda_leave_quietly fake_leave
#include "device/cuda/cudnn.c"

struct gpur_cudadnn_plan {
    int number;
};
static int described, chosen, alive; /* numbers of plans since `begin` */
static const char *no_engine;        /* why no engine can be chosen; NULL: one can */

static gpur_status describe(const gpur_conv_shape *shape, gpur_fail_fn fail, gpur_cudadnn_plan **plan)
{
    (void)shape, (void)fail;
    *plan = (gpur_cudadnn_plan *)calloc(1, sizeof **plan);
    (*plan)->number = ++described;
    alive++;
    return GPUR_OK;
}

static gpur_status choose(void *handle, gpur_cudadnn_plan *plan, gpur_fail_fn fail)
{
    (void)handle, (void)plan;
    chosen++;
    return no_engine ? fail(GPUR_UNAVAILABLE, "%s", no_engine) : GPUR_OK;
}

static void destroy(gpur_cudadnn_plan *plan)
{
    alive--;
    free(plan);
}

static const gpur_cudadnn fake = {.plan_conv = describe, .plan_choose = choose, .plan_destroy = destroy};

static char last_line[640];
static int lines;

static void log_line(void *user, const char *line)
{
    (void)user;
    lines++;
    snprintf(last_line, sizeof last_line, "%s", line);
}

static gpur_cuda cuda;
static gpur_device device;

static void begin(gpur_status when_opened)
{
    memset(&cuda, 0, sizeof cuda);
    memset(&device, 0, sizeof device);
    pthread_mutex_init(&cuda.math_mutex, NULL);
    device.backend_data = &cuda;
    device.config.log = log_line;
    opens = lines = closed = described = chosen = alive = 0;
    opened = when_opened;
    no_engine = NULL;
    last_line[0] = '\0';
}

static void end(void)
{
    gpur_cuda_dnn_close(&device);
    CHECK_EQUAL(alive, 0);
    CHECK_EQUAL(closed, 1);
    CHECK(!cuda.dnn_plans);
    pthread_mutex_destroy(&cuda.math_mutex);
}

static gpur_status ask(void)
{
    const gpur_conv_shape conv = {0};
    gpur_cudadnn_plan *plan = NULL;
    return gpur_cuda_dnn_plan(&device, &conv, &plan);
}

/* A lack of memory passes: it is not logged as a missing library, and the next caller finds cuDNN. */
TEST(without_cudnn_each_caller_is_refused_and_it_is_searched_for_and_logged_once)
{
    begin(GPUR_UNAVAILABLE);
    for (int i = 0; i < 4; i++) {
        CHECK_FAILS(ask(), GPUR_UNAVAILABLE, "cuDNN cannot be used; ");
        CHECK_MESSAGE("convolutions go by patches and matrix products");
    }
    CHECK(opens == 1 && lines == 1);
    CHECK(strstr(last_line, "convolutions go by patches") != NULL);
    CHECK(strstr(last_line, "cuDNN was not found. Searched for libcudnn.so.9") != NULL);
    pthread_mutex_destroy(&cuda.math_mutex);

    begin(GPUR_OUT_OF_MEMORY);
    for (int i = 0; i < 2; i++)
        CHECK_STATUS(ask(), GPUR_OUT_OF_MEMORY);
    CHECK(opens == 2 && lines == 0);
    opened = GPUR_OK;
    CHECK_OK(ask());
    CHECK_EQUAL(opens, 3);
    end();
}

static gpur_cudadnn_plan *plan_of(const gpur_conv_shape *shape)
{
    gpur_cudadnn_plan *plan = NULL;
    return gpur_cuda_dnn_plan(&device, shape, &plan) == GPUR_OK ? plan : NULL;
}

/* As by the online network, the target network and the next learner. */
TEST(a_shape_is_planned_once_for_all_learners)
{
    const gpur_conv_shape shapes[2] = {{.images = 32, .height = 9}, {.images = 32, .height = 10}};
    begin(GPUR_OK);
    for (int learner = 0; learner < 3; learner++) {
        gpur_cudadnn_plan *const plans[4] = {plan_of(&shapes[0]), plan_of(&shapes[1]), plan_of(&shapes[0]),
                                             plan_of(&shapes[1])};
        CHECK(plans[0] && plans[0] == plans[2]);
        CHECK(plans[1] && plans[1] == plans[3] && plans[1] != plans[0]);
        for (int i = 0; i < 4; i++)
            gpur_cuda_dnn_plan_release(&device, plans[i]);
    }
    CHECK_EQUAL(chosen, 2);
    CHECK_EQUAL(alive, 2);
    CHECK_EQUAL(opens, 12);
    gpur_cuda_dnn_plan_release(&device, NULL);
    end();
}

/* Each byte of a shape is changed, except those between and behind its members. */
TEST(shapes_that_differ_in_any_member_have_plans_of_their_own)
{
    enum { END = offsetof(gpur_conv_shape, by_im2col) + sizeof(int32_t) };
    gpur_conv_shape shape;
    memset(&shape, 0, sizeof shape);
    begin(GPUR_OK);
    CHECK(plan_of(&shape));
    for (size_t byte = 0; byte < sizeof shape; byte++) {
        const int is_gap = (byte >= sizeof(int32_t) && byte < offsetof(gpur_conv_shape, images)) || byte >= END;
        ((unsigned char *)&shape)[byte] ^= 1;
        const int before = chosen;
        CHECK(plan_of(&shape) && plan_of(&shape));
        CHECK_EQUAL(chosen - before, !is_gap);
        ((unsigned char *)&shape)[byte] ^= 1;
    }
    end();
}

TEST(a_limited_number_of_unused_plans_stays_cached)
{
    enum { SHAPES = 3 * MAX_UNUSED };
    gpur_cudadnn_plan *plans[SHAPES];
    gpur_conv_shape s = {0};
    begin(GPUR_OK);
    for (s.images = 0; s.images < SHAPES; s.images++)
        plans[s.images] = plan_of(&s);
    CHECK_EQUAL(alive, SHAPES);
    for (int i = 1; i < SHAPES; i++) /* the first stays in use */
        gpur_cuda_dnn_plan_release(&device, plans[i]);
    CHECK_EQUAL(alive, MAX_UNUSED + 1);
    s.images = 0;
    CHECK(plan_of(&s) == plans[0]);
    s.images = SHAPES - 1;
    CHECK(plan_of(&s) == plans[SHAPES - 1]);
    CHECK_EQUAL(chosen, SHAPES);
    s.images = 1;
    CHECK(plan_of(&s) != NULL);
    CHECK_EQUAL(chosen, SHAPES + 1);
    end();
}

/* Without the log line nobody would learn that every step is slow. */
TEST(what_cudnn_has_no_engine_for_is_logged_once_with_the_reason)
{
    static const struct {
        int32_t epilogue;
        const char *reason, *line;
    } cases[] = {
        {GPUR_EPILOGUE_NONE, "no engine for this one", "a convolution goes by patches: no engine for this one"},
        {GPUR_EPILOGUE_BIAS, "no engine for this one",
         "bias and activation of a convolution go by a kernel of their own, or by patches: no engine for this one"},
        {GPUR_EPILOGUE_NONE, "another reason", "a convolution goes by patches: another reason"},
    };
    begin(GPUR_OK);
    for (int i = 0; i < 9; i++) { /* each three times */
        const gpur_conv_shape shape = {.epilogue = cases[i / 3].epilogue};
        no_engine = cases[i / 3].reason;
        CHECK(!plan_of(&shape));
        CHECK_EQUAL(lines, i / 3 + 1);
        CHECK(strcmp(last_line, cases[i / 3].line) == 0);
    }
    CHECK_EQUAL(alive, 0);
    for (int i = 3; i < 2 * GPUR_CUDA_LOGGED; i++) /* more reasons than are remembered */
        gpur_cuda_log_once(&device, "reason %d", i);
    CHECK_EQUAL(lines, 2 * GPUR_CUDA_LOGGED);
    gpur_cuda_log_once(&device, "reason %d", 3);
    CHECK_EQUAL(lines, 2 * GPUR_CUDA_LOGGED);
    end();
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(without_cudnn_each_caller_is_refused_and_it_is_searched_for_and_logged_once);
    RUN(a_shape_is_planned_once_for_all_learners);
    RUN(shapes_that_differ_in_any_member_have_plans_of_their_own);
    RUN(a_limited_number_of_unused_plans_stays_cached);
    RUN(what_cudnn_has_no_engine_for_is_logged_once_with_the_reason);
    return test_main_end();
}
