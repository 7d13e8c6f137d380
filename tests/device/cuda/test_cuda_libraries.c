/* SPDX-License-Identifier: MIT */
/*
 * cuBLASLt, cuDNN and the modules that link them: where they are searched for, and what needs no GPU. The choice of
 * algorithms is tested in modules/test_plan.c and modules/test_conv_plan.c.
 */
#include "test.h"
#include "device/cuda/modules/cublaslt.h"
#include "device/cuda/modules/cudnn.h"
#include "device/cuda/modules/colmajor_gemm.h"
#include "reference/reference_gemm.h"

#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <link.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* The folder of the modules that were just built; NULL if there was no cuBLASLt to build one with. */
static const char *built_module(void)
{
    const char *const folder = getenv("GPUREPLAY_MODULE_DIR");
    return folder && *folder ? folder : NULL;
}

/* 1 if the folder of the modules contains cuDNN's. */
static int has_dnn_module(void)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/libgpureplay_cudadnn.so", built_module() ? built_module() : "");
    return access(path, F_OK) == 0;
}

static int is_closed(const gpur_cuda_library *library)
{
    return !library->table && !library->library && !library->module;
}

static const gpur_gemm_shape shapes[] = {
    {.m = 5, .n = 3, .k = 4, .lda = 4, .ldb = 3, .ldc = 3},
    {.m = 5, .n = 3, .k = 4, .lda = 6, .ldb = 5, .ldc = 7, .transpose_b = 1, .epilogue = GPUR_EPILOGUE_BIAS},
    {.m = 2, .n = 6, .k = 7, .lda = 3, .ldb = 8, .ldc = 6, .transpose_a = 1},
    {.m = 4, .n = 4, .k = 4, .lda = 4, .ldb = 4, .ldc = 4, .transpose_a = 1, .transpose_b = 1, .accumulate = 1},
    {.m = 64,
     .n = 128,
     .k = 27,
     .lda = 27,
     .ldb = 27,
     .ldc = 128,
     .transpose_b = 1,
     .epilogue = GPUR_EPILOGUE_BIAS_RELU,
     .math = GPUR_MATH_TF32},
};
enum { SHAPES = sizeof shapes / sizeof *shapes, MAX_FLOATS = 64 * 128 };

/* Returns element (row, column) of the operand that cuBLASLt reads from column-major memory. */
static double operand(const float *memory, gpur_colmajor_matrix matrix, int64_t row, int64_t column)
{
    return (double)memory[matrix.transpose ? column + row * matrix.pitch : row + column * matrix.pitch];
}

static int64_t rows_of(gpur_colmajor_matrix matrix)
{
    return matrix.transpose ? matrix.columns : matrix.rows;
}

static int64_t columns_of(gpur_colmajor_matrix matrix)
{
    return matrix.transpose ? matrix.rows : matrix.columns;
}

static void check_product(const gpur_gemm_shape *s, const float *a, const float *b)
{
    const gpur_colmajor_gemm p = gpur_colmajor_gemm_of(s);
    CHECK_EQUAL(rows_of(p.left), rows_of(p.out));
    CHECK_EQUAL(columns_of(p.left), rows_of(p.right));
    CHECK_EQUAL(columns_of(p.right), columns_of(p.out));
    for (int64_t column = 0; column < columns_of(p.out); column++) {
        for (int64_t row = 0; row < rows_of(p.out); row++) {
            double sum = 0.0;
            for (int64_t i = 0; i < rows_of(p.right); i++)
                sum += operand(a, p.left, row, i) * operand(b, p.right, i, column);
            CHECK_NEAR(sum, reference_gemm(s, b, a, NULL, column, row, NULL), 1e-12);
        }
    }
}

TEST(a_row_major_product_is_the_same_numbers_by_columns)
{
    static float left[MAX_FLOATS], right[MAX_FLOATS];
    for (int i = 0; i < MAX_FLOATS; i++)
        left[i] = (float)(i * 37 % 101) - 50.0f, right[i] = (float)(i * 53 % 97) - 48.0f;
    for (int i = 0; i < SHAPES; i++) {
        gpur_gemm_shape s = shapes[i];
        s.accumulate = 0;
        check_product(&s, left, right);
    }
}

TEST(the_modules_load_and_tell_their_versions)
{
    gpur_cuda_library library;
    for (int i = 0; i < 2 && built_module(); i++) {
        CHECK_OK(gpur_math_library_load(&library));
        CHECK_EQUAL(library.table->version, GPUR_CUDAMATH_VERSION);
        CHECK(library.table->library_version() >= 120000);
        gpur_cuda_library_close(&library);
        CHECK(is_closed(&library));
    }
    for (int i = 0; i < 2 && has_dnn_module(); i++) {
        CHECK_OK(gpur_dnn_library_load(&library));
        CHECK(library.table && library.library && library.module);
        CHECK_EQUAL(library.table->version, GPUR_CUDADNN_VERSION);
        CHECK_EQUAL(library.table->library_version() / 10000, 9);
        gpur_cuda_library_close(&library);
        CHECK(is_closed(&library));
    }
}

/* Plans are described without a GPU; a handle needs one. */
TEST(a_handle_needs_a_gpu_and_says_so)
{
    gpur_cuda_library library;
    gpur_device *device = NULL;
    void *handle = NULL;
    if (!built_module())
        return;
    CHECK_OK(gpur_math_library_load(&library));
    const gpur_cudamath *const math = (const gpur_cudamath *)library.table;
    for (int i = 0; i < SHAPES; i++) {
        gpur_cudamath_plan *plan = NULL;
        CHECK_OK(math->plan_describe(&shapes[i], gpur_fail, &plan));
        CHECK_EQUAL(math->plan_workspace_bytes(plan), 0);
        math->plan_destroy(plan);
    }
    math->plan_destroy(NULL);
    const gpur_status has_gpu = gpur_device_open("cuda:0", NULL, &device);
    const gpur_status status = library.table->open(&handle, gpur_fail);
    CHECK_EQUAL(status == GPUR_OK, has_gpu == GPUR_OK);
    CHECK_EQUAL(handle != NULL, has_gpu == GPUR_OK);
    if (status != GPUR_OK)
        CHECK_MESSAGE("cublasLtCreate");
    library.table->close(handle);
    gpur_cuda_library_close(&library);
    gpur_device_close(device);
}

/* Runs a search in a process of its own, because a library that was loaded once is always found first afterwards. */
static void in_a_process(void (*search)(const char *argument), const char *argument)
{
    int status = -1;
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        search(argument);
        fflush(NULL);
        _exit(atomic_load(&test_state.failures) != 0);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void check_missing(gpur_status (*load)(gpur_cuda_library *), const char *message)
{
    gpur_cuda_library library;
    CHECK_STATUS(load(&library), GPUR_UNAVAILABLE);
    CHECK(is_closed(&library));
    CHECK_MESSAGE(message);
}

/* The variable's folder comes before all others. */
static void find_no_module(const char *folder)
{
    const int has_dnn = has_dnn_module();
    setenv("GPUREPLAY_MODULE_DIR", folder, 1);
    check_missing(gpur_math_library_load, "libgpureplay_cudamath.so in /nowhere/modules, /");
    if (has_dnn)
        check_missing(gpur_dnn_library_load, "the module for convolutions was not found. Searched for "
                                             "libgpureplay_cudadnn.so in /nowhere/modules");
}

TEST(a_module_that_is_missing_is_refused_with_the_places_or_the_reason)
{
    if (!built_module())
        check_missing(gpur_math_library_load, "cuBLASLt was not found when it was configured");
    else if (access(GPUR_INSTALLED_MODULE, F_OK) != 0) /* an installed copy would rightly be found */
        in_a_process(find_no_module, "/nowhere/modules");
    if (!has_dnn_module())
        check_missing(gpur_dnn_library_load, "cuDNN was not found when it was configured");
}

/* Makes the folders of `path`, which starts with `scratch`, and a link to cuBLASLt at its end; take_away removes
 * them. */
static int lay_out(char *path, const char *scratch)
{
    char pattern[PATH_MAX];
    glob_t found;
    snprintf(pattern, sizeof pattern, "%s/libcublasLt.so.1[0-9]", getenv("GPUREPLAY_CUDA_LIBS"));
    for (char *slash = path + strlen(scratch); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(path, 0700);
        *slash = '/';
    }
    if (glob(pattern, 0, NULL, &found) != 0)
        return 0;
    snprintf(strrchr(path, '/'), 32, "%s", strrchr(found.gl_pathv[0], '/'));
    const int made = symlink(found.gl_pathv[0], path) == 0;
    globfree(&found);
    return made;
}

static void take_away(char *path, const char *scratch)
{
    (void)unlink(path);
    while (strlen(path) > strlen(scratch)) {
        *strrchr(path, '/') = '\0';
        (void)rmdir(path);
    }
}

static void find_it_at(const char *path)
{
    gpur_cuda_library library;
    struct link_map *map = NULL;
    unsetenv("GPUREPLAY_CUDA_LIBS");
    CHECK_OK(gpur_math_library_load(&library));
    CHECK(dlinfo(library.library, RTLD_DI_LINKMAP, &map) == 0);
    TEST_REQUIRE(strcmp(map->l_name, path) == 0, "cuBLASLt was found as %s; wanted %s", map->l_name, path);
}

TEST(cublas_is_found_in_the_active_python_environment_before_the_loaders_folders)
{
    static const char *const variables[] = {"VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_PREFIX"};
    static const char *const folders[] = {"lib/python3.11/site-packages/nvidia/cu13/lib/",
                                          "lib/python3.11/site-packages/nvidia/cublas/lib/", "lib/"};
    if (!built_module())
        return;
    unsetenv("VIRTUAL_ENV"), unsetenv("CONDA_PREFIX");
    for (int i = 0; i < 3; i++) {
        char scratch[] = "/tmp/gpureplay-search-XXXXXX", path[PATH_MAX];
        CHECK(mkdtemp(scratch));
        snprintf(path, sizeof path - 32, "%s/%s", scratch, folders[i]);
        CHECK(lay_out(path, scratch));
        setenv(variables[i], scratch, 1);
        in_a_process(find_it_at, path);
        unsetenv(variables[i]);
        take_away(path, scratch);
    }
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(a_module_that_is_missing_is_refused_with_the_places_or_the_reason);
    RUN(cublas_is_found_in_the_active_python_environment_before_the_loaders_folders);
    RUN(the_modules_load_and_tell_their_versions); /* from here on a library is loaded, which is always found first */
    RUN(a_handle_needs_a_gpu_and_says_so);
    RUN(a_row_major_product_is_the_same_numbers_by_columns);
    return test_main_end();
}
