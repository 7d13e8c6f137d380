/* SPDX-License-Identifier: MIT */
/*
 * usage: test_conv_plan GPU.json
 *
 * The module's graphs for convolutions, and the engines that cuDNN's heuristics find for them on a described GPU: the
 * file has the properties of a GPU as cuDNN describes it to its own heuristics (the JSON representation of a device
 * descriptor). The attributes that take a handle get the description instead;
 * everything else is cuDNN's own.
 */
#include <cudnn.h>

static cudnnStatus_t create_for_test(cudnnHandle_t *handle);
static cudnnStatus_t destroy_for_test(cudnnHandle_t handle);
static cudnnStatus_t make_for_test(cudnnBackendDescriptorType_t kind, cudnnBackendDescriptor_t *made);
static cudnnStatus_t set_for_test(cudnnBackendDescriptor_t to, cudnnBackendAttributeName_t name,
                                  cudnnBackendAttributeType_t type, int64_t count, const void *values);
#define cudnnCreate create_for_test
#define cudnnDestroy destroy_for_test
#define cudnnBackendCreateDescriptor make_for_test
#define cudnnBackendSetAttribute set_for_test
#include "device/cuda/modules/cudnn.c"
#undef cudnnCreate
#undef cudnnDestroy
#undef cudnnBackendCreateDescriptor
#undef cudnnBackendSetAttribute

#include "base/status.h"
#include "test.h"

static descriptor described;
static char described_json[1 << 14];

/* Prints the GPU that engines are chosen for. Returns 0, and prints why, if this cuDNN does not accept the description,
 * whose fields are undocumented and may change. */
static int describe(const char *path)
{
    FILE *const file = fopen(path, "r");
    const size_t length = file ? fread(described_json, 1, sizeof described_json - 1, file) : 0;
    if (file)
        fclose(file);
    const int taken =
        length > 0 &&
        cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &described) == CUDNN_STATUS_SUCCESS &&
        cudnnBackendSetAttribute(described, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                                 (int64_t)length + 1, described_json) == CUDNN_STATUS_SUCCESS &&
        cudnnBackendFinalize(described) == CUDNN_STATUS_SUCCESS;
    printf("%s: cuDNN %d %s\n", path, (int)cudnnGetVersion(),
           taken ? "chooses engines for it" : "does not take it: no engines were chosen");
    return taken;
}

/* Gets the numerical notes of the chosen engine; returns their number, or -1 if cuDNN has none. */
static int64_t notes_of(const gpur_cudadnn_plan *plan, cudnnBackendNumericalNote_t notes[MAX_NOTES])
{
    descriptor engine = NULL;
    int64_t count = -1;
    if (cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine) != CUDNN_STATUS_SUCCESS)
        return -1;
    if (cudnnBackendGetAttribute(plan->config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count,
                                 &engine) != CUDNN_STATUS_SUCCESS ||
        cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, MAX_NOTES, &count,
                                 notes) != CUDNN_STATUS_SUCCESS)
        count = -1;
    (void)cudnnBackendDestroyDescriptor(engine);
    return count;
}

static int has_note(const gpur_cudadnn_plan *plan, cudnnBackendNumericalNote_t note)
{
    cudnnBackendNumericalNote_t notes[MAX_NOTES];
    int found = 0;
    for (int64_t i = notes_of(plan, notes) - 1; i >= 0; i--)
        found |= notes[i] == note;
    return found;
}

static int described_handle;        /* its address is the handle */
static int handles_open;            /* created and not destroyed */
static int is_old;                  /* 1: act as a cuDNN before 9.8, which has no device descriptors */
static int graphs_given_the_handle; /* number of operation graphs that were given the handle */

static cudnnStatus_t create_for_test(cudnnHandle_t *handle)
{
    *handle = (cudnnHandle_t)(void *)&described_handle;
    handles_open++;
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t destroy_for_test(cudnnHandle_t handle)
{
    handles_open--;
    return (void *)handle == (void *)&described_handle ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

static cudnnStatus_t make_for_test(cudnnBackendDescriptorType_t kind, cudnnBackendDescriptor_t *made)
{
    if (is_old && kind == CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR)
        return CUDNN_STATUS_NOT_SUPPORTED;
    return cudnnBackendCreateDescriptor(kind, made);
}

static cudnnStatus_t set_for_test(cudnnBackendDescriptor_t to, cudnnBackendAttributeName_t name,
                                  cudnnBackendAttributeType_t type, int64_t count, const void *values)
{
    if (type != CUDNN_TYPE_HANDLE)
        return cudnnBackendSetAttribute(to, name, type, count, values);
    const void *given = NULL;
    memcpy(&given, values, sizeof given);
    if (count != 1 || given != (const void *)&described_handle)
        return CUDNN_STATUS_BAD_PARAM;
    switch ((int)name) {
    case CUDNN_ATTR_DEVICEPROP_HANDLE:
        return cudnnBackendSetAttribute(to, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                                        (int64_t)strlen(described_json) + 1, described_json);
    case CUDNN_ATTR_EXECUTION_PLAN_HANDLE:
        return cudnnBackendSetAttribute(to, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                        &described);
    case CUDNN_ATTR_OPERATIONGRAPH_HANDLE:
        graphs_given_the_handle++;
        return CUDNN_STATUS_SUCCESS;
    default:
        return CUDNN_STATUS_BAD_PARAM;
    }
}

/* The Nature network's convolutions, the first on blocks of 4 x 4 pixels; an unusual one; and two with SAME
 * padding, the second of which has more of it behind the image than before it. */
#define PADDING(before, after) .top = before, .left = before, .bottom = after, .right = after
static const gpur_conv_shape layers[] = {
    {.height = 21, .width = 21, .channels = 64, .filters = 32, .kernel = 2, .stride = 1},
    {.height = 20, .width = 20, .channels = 32, .filters = 64, .kernel = 4, .stride = 2},
    {.height = 9, .width = 9, .channels = 64, .filters = 64, .kernel = 3, .stride = 1},
    {.height = 13, .width = 11, .channels = 3, .filters = 5, .kernel = 5, .stride = 3, PADDING(2, 2)},
    {.height = 84, .width = 84, .channels = 4, .filters = 16, .kernel = 8, .stride = 4, PADDING(2, 2)},
    {.height = 21, .width = 21, .channels = 16, .filters = 32, .kernel = 4, .stride = 2, PADDING(1, 2)},
};
enum { LAYERS = sizeof layers / sizeof *layers, NATURE = 3, UNUSUAL = 3 };

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
                for (int epilogue = 0; epilogue <= (pass ? 0 : 2); epilogue++) {
                    gpur_cudadnn_plan *plan = NULL;
                    gpur_conv_shape s = shape_of(layer, 7, pass, math, 0);
                    s.epilogue = epilogue;
                    CHECK_OK(plan_conv(&s, gpur_fail, &plan));
                    CHECK_OK(finish_graph(plan, &nobody));
                    plan_destroy(plan);
                }
}

static int fast, on_tensor_cores; /* plans that may use tensor cores; plans that do */

static void check_engine(const gpur_conv_shape *s)
{
    const device_source device = {NULL, described};
    gpur_cudadnn_plan *plan = NULL;
    cudnnBackendNumericalNote_t notes[MAX_NOTES];
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
        CHECK(!has_note(plan, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION));
        CHECK(plan->workspace_bytes < plan->smaller_array);
    }
    CHECK(!s->deterministic || !has_note(plan, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC));
    if (s->math == GPUR_MATH_BF16 && s->pass == GPUR_CONV_FORWARD)
        CHECK(plan->workspace_bytes < 4096); /* no copy of an array in another order */
    plan_destroy(plan);
}

/* FP32 must really be float32, the order of sums must be fixed if requested, and tensor cores are used where allowed,
 * with exact sums and without a copy of an array. */
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
    CHECK(fast == NATURE * 3 * 2 * 4 && on_tensor_cores == fast);
    for (int i = 0; i < NATURE * 3 * 2; i++) { /* bias and ReLU in the same graph */
        gpur_conv_shape s = shape_of(i / 6, i % 2 ? 1024 : 64, GPUR_CONV_FORWARD, i / 2 % 3, 1);
        s.epilogue = GPUR_EPILOGUE_BIAS_RELU;
        check_engine(&s);
    }
}

/* Where cuDNN has no engine the status is GPUR_UNAVAILABLE, at which the caller takes im2col. */
TEST(padded_convolutions_have_an_engine_or_are_unavailable)
{
    const device_source device = {NULL, described};
    for (int layer = UNUSUAL; layer < LAYERS; layer++)
        for (int pass = GPUR_CONV_FORWARD; pass <= GPUR_CONV_TO_WEIGHT; pass++)
            for (int i = 0; i < 4; i++) {
                gpur_cudadnn_plan *plan = NULL;
                const gpur_conv_shape s = shape_of(layer, 32, pass, i / 2 ? GPUR_MATH_TF32 : GPUR_MATH_FP32, i % 2);
                CHECK_OK(plan_conv(&s, gpur_fail, &plan));
                const gpur_status status = choose(plan, &device);
                CHECK(status == GPUR_OK || status == GPUR_UNAVAILABLE);
                plan_destroy(plan);
            }
}

/* The heuristics find engines only if they know the device. A cuDNN without descriptors of devices gets it from the
 * graph; in this test it gets none, and the message says so. */
TEST(an_engine_is_found_by_the_handle_of_a_device)
{
    for (is_old = 0; is_old < 2; is_old++) {
        void *handle = NULL;
        graphs_given_the_handle = 0;
        CHECK_OK(open_library(&handle, gpur_fail));
        for (int pass = GPUR_CONV_FORWARD; pass <= (is_old ? GPUR_CONV_FORWARD : GPUR_CONV_TO_WEIGHT); pass++) {
            gpur_cudadnn_plan *plan = NULL;
            const gpur_conv_shape s = shape_of(1, 32, pass, GPUR_MATH_TF32, 1);
            CHECK_OK(plan_conv(&s, gpur_fail, &plan));
            CHECK_STATUS(plan_choose(handle, plan, gpur_fail), is_old ? GPUR_UNAVAILABLE : GPUR_OK);
            CHECK(is_old || plan->chosen != NULL);
            plan_destroy(plan);
        }
        CHECK_EQUAL(graphs_given_the_handle, is_old);
        close_library(handle);
        CHECK_EQUAL(handles_open, 0);
    }
    is_old = 0;
    CHECK_MESSAGE("cuDNN has no engine for a convolution forward of 32 x (20, 20, 32)");
    CHECK_MESSAGE("its heuristics gave 0 configurations");
}

TEST(errors_of_cudnn_become_statuses)
{
    static const struct {
        cudnnStatus_t error;
        gpur_status wanted;
    } cases[] = {{CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED, GPUR_OUT_OF_MEMORY},
                 {CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED, GPUR_OUT_OF_MEMORY},
                 {CUDNN_STATUS_NOT_SUPPORTED_SHAPE, GPUR_UNAVAILABLE},
                 {CUDNN_STATUS_EXECUTION_FAILED, GPUR_DEVICE_ERROR}};
    gpur_cudadnn_plan *plan = NULL;
    const gpur_conv_shape s = shape_of(1, 32, GPUR_CONV_FORWARD, GPUR_MATH_TF32, 1);
    for (int i = 0; i < 4; i++)
        CHECK_STATUS(check(cases[i].error, gpur_fail, "it"), cases[i].wanted);
    CHECK_OK(plan_conv(&s, gpur_fail, &plan));
    CHECK_FAILS(choose(plan, &nobody), GPUR_DEVICE_ERROR, "without a device");
    plan_destroy(plan);
}

int main(int argc, char **argv)
{
    char *no_arguments[] = {argv[0], NULL};
    test_main_begin(1, no_arguments);
    RUN(every_graph_can_be_described_without_a_gpu);
    RUN(errors_of_cudnn_become_statuses);
    if (argc > 1 && describe(argv[1])) {
        RUN(every_convolution_of_the_nature_network_has_an_engine_of_its_arithmetic);
        RUN(padded_convolutions_have_an_engine_or_are_unavailable);
        RUN(an_engine_is_found_by_the_handle_of_a_device);
    }
    return test_main_end();
}
