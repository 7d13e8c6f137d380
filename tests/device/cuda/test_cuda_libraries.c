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
    snprintf(path, sizeof path, "%s/" GPUR_CUDADNN_FILE, built_module() ? built_module() : "");
    return access(path, F_OK) == 0;
}

static int is_closed(const gpur_cuda_library *library)
{
    return !library->table && !library->library && !library->module;
}

enum { VARIANTS = 4, MAX_FLOATS = 64 };

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
    for (int i = 0; i < 2 * VARIANTS; i++) {
        const gpur_gemm_shape s = reference_gemm_shape(5, 3, 4, i / 2, i % 2);
        check_product(&s, left, right);
    }
}

TEST(the_modules_load_and_have_versions)
{
    for (int i = 0; i < 4; i++) { /* each twice */
        gpur_cuda_library library;
        const int is_dnn = i % 2;
        if (is_dnn ? !has_dnn_module() : !built_module())
            continue;
        CHECK_OK((is_dnn ? gpur_dnn_library_load : gpur_math_library_load)(&library));
        CHECK_EQUAL(library.table->version, is_dnn ? GPUR_CUDADNN_VERSION : GPUR_CUDAMATH_VERSION);
        const int64_t version = library.table->library_version();
        CHECK(is_dnn ? version / 10000 == 9 : version >= 120000);
        gpur_cuda_library_close(&library);
        CHECK(is_closed(&library));
    }
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
    check_missing(gpur_math_library_load, GPUR_CUDAMATH_FILE " in /nowhere/modules, /");
    if (has_dnn)
        check_missing(gpur_dnn_library_load,
                      "the module for convolutions was not found. Searched for " GPUR_CUDADNN_FILE
                      " in /nowhere/modules");
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
        char scratch[] = "/tmp/gpureplay-search-XXXXXX", pattern[PATH_MAX], path[PATH_MAX], command[3 * PATH_MAX];
        glob_t found;
        snprintf(pattern, sizeof pattern, "%s/libcublasLt.so.1[0-9]", getenv("GPUREPLAY_CUDA_LIBS"));
        CHECK(mkdtemp(scratch) && glob(pattern, 0, NULL, &found) == 0);
        const char *const library = found.gl_pathv[0];
        snprintf(path, sizeof path, "%s/%s%s", scratch, folders[i], strrchr(library, '/') + 1);
        snprintf(command, sizeof command, "mkdir -p %s/%s && ln -s '%s' %s", scratch, folders[i], library, path);
        globfree(&found);
        CHECK_EQUAL(system(command), 0);
        setenv(variables[i], scratch, 1);
        in_a_process(find_it_at, path);
        unsetenv(variables[i]);
        snprintf(command, sizeof command, "rm -r %s", scratch);
        CHECK_EQUAL(system(command), 0);
    }
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(a_module_that_is_missing_is_refused_with_the_places_or_the_reason);
    RUN(cublas_is_found_in_the_active_python_environment_before_the_loaders_folders);
    RUN(the_modules_load_and_have_versions); /* from here on a library is loaded, which is always found first */
    RUN(a_row_major_product_is_the_same_numbers_by_columns);
    return test_main_end();
}
