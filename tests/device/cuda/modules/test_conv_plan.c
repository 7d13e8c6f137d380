/* SPDX-License-Identifier: MIT */
/*
 * usage: test_conv_plan GPU.json
 *
 * The module's graphs for convolutions, and the engines that cuDNN's heuristics find for them on a described GPU.
 */
#include "device/cuda/modules/handle.h"
#include "base/status.h"

/* The Nature network's convolutions, the first on blocks of 4 x 4 pixels; and an unusual one. */
static const gpur_conv_shape layers[] = {
    {.height = 21, .width = 21, .channels = 64, .filters = 32, .kernel = 2, .stride = 1},
    {.height = 20, .width = 20, .channels = 32, .filters = 64, .kernel = 4, .stride = 2},
    {.height = 9, .width = 9, .channels = 64, .filters = 64, .kernel = 3, .stride = 1},
    {.height = 13, .width = 11, .channels = 3, .filters = 5, .kernel = 5, .stride = 3, .padding = 2},
};
enum { LAYERS = sizeof layers / sizeof *layers, NATURE = 3 };

static const device_source nobody = {NULL, NULL};

static gpur_conv_shape shape_of(int layer, int64_t images, int pass, int math, int deterministic)
{
    gpur_conv_shape s = layers[layer];
    s.images = images, s.pass = pass, s.math = math, s.deterministic = deterministic;
    return s;
}

TEST(every_graph_can_be_described_without_a_gpu)
{
    for (int layer = 0; layer < LAYERS; layer++)
        for (int pass = GPUR_CONV_FORWARD; pass <= GPUR_CONV_TO_WEIGHT; pass++)
            for (int math = GPUR_MATH_FP32; math <= GPUR_MATH_BF16; math++)
                for (int epilogue = 0; epilogue <= (pass || math == GPUR_MATH_BF16 ? 0 : 2); epilogue++) {
                    gpur_cudadnn_plan *plan = NULL;
                    gpur_conv_shape s = shape_of(layer, 7, pass, math, 0);
                    s.epilogue = epilogue;
                    CHECK_OK(plan_conv(&s, gpur_fail, &plan));
                    CHECK_OK(finish_graph(plan, &nobody));
                    plan_destroy(plan);
                }
}

TEST(a_graph_that_cudnn_does_not_have_is_unavailable)
{
    gpur_cudadnn_plan *plan = NULL;
    gpur_conv_shape s = shape_of(0, 7, GPUR_CONV_FORWARD, GPUR_MATH_BF16, 0);
    s.epilogue = GPUR_EPILOGUE_BIAS_RELU;
    CHECK_STATUS(plan_conv(&s, gpur_fail, &plan), GPUR_UNAVAILABLE);
    CHECK(!plan);
}

static int fast, on_tensor_cores; /* plans that may use tensor cores; plans that do */

static void check_engine(const gpur_conv_shape *s)
{
    const device_source device = {NULL, described};
    gpur_cudadnn_plan *plan = NULL;
    cudnnBackendNumericalNote_t notes[MOST_NOTES];
    CHECK_OK(plan_conv(s, gpur_fail, &plan));
    CHECK_OK(choose(plan, &device));
    CHECK(plan->chosen && plan->config && plan->workspace_bytes <= workspace_limit);
    CHECK(notes_of(plan, notes) >= 0);
    if (s->math == GPUR_MATH_FP32) {
        CHECK(!has_note(plan, CUDNN_NUMERICAL_NOTE_TENSOR_CORE));
        CHECK(!has_note(plan, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS));
        CHECK(!has_note(plan, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION));
    } else {
        fast++;
        on_tensor_cores += has_note(plan, CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
    }
    CHECK(!s->deterministic || !has_note(plan, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC));
    plan_destroy(plan);
}

/* FP32 must really be float32, the order of sums must be fixed if requested, and tensor cores should be used where
 * allowed; now and then the heuristics prefer another engine. */
TEST(every_convolution_of_the_nature_network_has_an_engine_of_its_arithmetic)
{
    static const int64_t images[] = {32, 512};
    for (int layer = 0; layer < NATURE; layer++)
        for (int pass = GPUR_CONV_FORWARD; pass <= GPUR_CONV_TO_WEIGHT; pass++)
            for (int math = GPUR_MATH_FP32; math <= GPUR_MATH_BF16; math++)
                for (int i = 0; i < 4; i++) {
                    const gpur_conv_shape s = shape_of(layer, images[i / 2], pass, math, i % 2);
                    check_engine(&s);
                }
    CHECK(fast == NATURE * 3 * 2 * 4 && on_tensor_cores > fast * 3 / 4);
}

TEST(bias_and_relu_ride_in_the_convolutions_of_float32)
{
    for (int layer = 0; layer < NATURE; layer++)
        for (int math = GPUR_MATH_FP32; math <= GPUR_MATH_TF32; math++) {
            gpur_conv_shape s = shape_of(layer, 64, GPUR_CONV_FORWARD, math, 1);
            s.epilogue = GPUR_EPILOGUE_BIAS_RELU;
            check_engine(&s);
        }
}

/* A numerical note states what an engine may do. */
TEST(what_an_engine_may_do_follows_from_the_arithmetic)
{
    CHECK(is_forbidden(GPUR_MATH_FP32, 0, CUDNN_NUMERICAL_NOTE_TENSOR_CORE));
    CHECK(is_forbidden(GPUR_MATH_FP32, 0, CUDNN_NUMERICAL_NOTE_WINOGRAD));
    CHECK(!is_forbidden(GPUR_MATH_FP32, 0, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC));
    CHECK(!is_forbidden(GPUR_MATH_FP32, 0, CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP));
    CHECK(!is_forbidden(GPUR_MATH_TF32, 0, CUDNN_NUMERICAL_NOTE_TENSOR_CORE));
    CHECK(is_forbidden(GPUR_MATH_BF16, 1, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC));
    CHECK(!is_forbidden(GPUR_MATH_BF16, 1, CUDNN_NUMERICAL_NOTE_TENSOR_CORE));
}

/* The heuristics find engines only if they know the device. */
TEST(the_handle_of_a_device_is_enough_to_find_an_engine)
{
    void *handle = NULL;
    CHECK_OK(open_library(&handle, gpur_fail));
    for (int pass = GPUR_CONV_FORWARD; pass <= GPUR_CONV_TO_WEIGHT; pass++) {
        gpur_cudadnn_plan *plan = NULL;
        const gpur_conv_shape s = shape_of(1, 32, pass, GPUR_MATH_TF32, 1);
        CHECK_OK(plan_conv(&s, gpur_fail, &plan));
        CHECK_OK(plan_choose(handle, plan, gpur_fail));
        CHECK(plan->chosen != NULL);
        plan_destroy(plan);
    }
    CHECK_EQUAL(graphs_told_the_handle, 0);
    close_library(handle);
    CHECK_EQUAL(handles_open, 0);
}

/* An older cuDNN learns the device from the graph. Here it learns of none, and the message says what came of it. */
TEST(a_cudnn_without_descriptors_of_devices_is_told_by_the_graph)
{
    gpur_cudadnn_plan *plan = NULL;
    const gpur_conv_shape s = shape_of(1, 32, GPUR_CONV_FORWARD, GPUR_MATH_TF32, 1);
    is_old = 1, graphs_told_the_handle = 0;
    void *handle = NULL;
    CHECK_OK(open_library(&handle, gpur_fail));
    CHECK_OK(plan_conv(&s, gpur_fail, &plan));
    CHECK_STATUS(plan_choose(handle, plan, gpur_fail), GPUR_UNAVAILABLE);
    CHECK_EQUAL(graphs_told_the_handle, 1);
    CHECK_MESSAGE("cuDNN has no engine for a convolution forward of 32 x (20, 20, 32)");
    CHECK_MESSAGE("its heuristics gave 0 configurations");
    plan_destroy(plan);
    close_library(handle);
    CHECK_EQUAL(handles_open, 0);
    is_old = 0;
}

TEST(no_engine_is_chosen_without_a_device)
{
    gpur_cudadnn_plan *plan = NULL;
    const gpur_conv_shape s = shape_of(1, 32, GPUR_CONV_FORWARD, GPUR_MATH_TF32, 1);
    CHECK_OK(plan_conv(&s, gpur_fail, &plan));
    CHECK_STATUS(choose(plan, &nobody), GPUR_DEVICE_ERROR);
    CHECK_MESSAGE("without a device");
    plan_destroy(plan);
}

TEST(memory_that_ran_out_is_said_as_such)
{
    CHECK_STATUS(check(CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED, gpur_fail, "it"), GPUR_OUT_OF_MEMORY);
    CHECK_STATUS(check(CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED, gpur_fail, "it"), GPUR_OUT_OF_MEMORY);
    CHECK_STATUS(check(CUDNN_STATUS_NOT_SUPPORTED_SHAPE, gpur_fail, "it"), GPUR_UNAVAILABLE);
    CHECK_STATUS(check(CUDNN_STATUS_EXECUTION_FAILED, gpur_fail, "it"), GPUR_DEVICE_ERROR);
}

int main(int argc, char **argv)
{
    char *no_arguments[] = {argv[0], NULL};
    test_main_begin(1, no_arguments);
    RUN(every_graph_can_be_described_without_a_gpu);
    RUN(a_graph_that_cudnn_does_not_have_is_unavailable);
    RUN(what_an_engine_may_do_follows_from_the_arithmetic);
    RUN(no_engine_is_chosen_without_a_device);
    RUN(memory_that_ran_out_is_said_as_such);
    if (argc > 1 && describe_and_say(argv[1])) {
        RUN(every_convolution_of_the_nature_network_has_an_engine_of_its_arithmetic);
        RUN(bias_and_relu_ride_in_the_convolutions_of_float32);
        RUN(the_handle_of_a_device_is_enough_to_find_an_engine);
        RUN(a_cudnn_without_descriptors_of_devices_is_told_by_the_graph);
    }
    return test_main_end();
}
