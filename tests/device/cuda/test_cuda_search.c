/* SPDX-License-Identifier: MIT */
/* Where cuBLASLt, cuDNN and the modules that link them are searched for. Needs no GPU. */
#include "test.h"
#include "device/cuda/modules/cudnn.h"

#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <link.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Returns the folder of the module that was just built, or NULL if there was no cuBLASLt to build it with. */
static const char *built_module(void)
{
    const char *const folder = getenv("GPUREPLAY_MODULE_DIR");
    return folder && *folder ? folder : NULL;
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

static void find_no_module(const char *folder)
{
    gpur_cuda_library library;
    setenv("GPUREPLAY_MODULE_DIR", folder, 1);
    CHECK_STATUS(gpur_math_library_load(&library), GPUR_UNAVAILABLE);
    CHECK(!library.table && !library.library && !library.module);
    CHECK_MESSAGE("libgpureplay_cudamath.so in /nowhere/modules, /"); /* before all other folders */
}

TEST(a_module_that_is_nowhere_is_refused_with_the_places)
{
    if (built_module() && access(GPUR_INSTALLED_MODULE, F_OK) != 0) /* an installed copy would rightly be found */
        in_a_process(find_no_module, "/nowhere/modules");
}

TEST(a_build_without_the_module_says_so)
{
    gpur_cuda_library library;
    if (built_module())
        return;
    CHECK_STATUS(gpur_math_library_load(&library), GPUR_UNAVAILABLE);
    CHECK_MESSAGE("cuBLASLt was not found when it was configured");
    CHECK(!library.table && !library.library && !library.module);
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

/* Returns 1 if the folder of the modules contains cuDNN's. */
static int has_dnn_module(void)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/libgpureplay_cudadnn.so", built_module() ? built_module() : "");
    return access(path, F_OK) == 0;
}

static void load_dnn(const char *unused)
{
    gpur_cuda_library library;
    (void)unused;
    CHECK_OK(gpur_dnn_library_load(&library));
    CHECK(library.table && library.library && library.module);
    CHECK_EQUAL(library.table->version, GPUR_CUDADNN_VERSION);
    CHECK_EQUAL(library.table->library_version() / 10000, 9);
    gpur_cuda_library_close(&library);
    CHECK(!library.table && !library.library && !library.module);
}

static void find_no_dnn_module(const char *folder)
{
    gpur_cuda_library library;
    setenv("GPUREPLAY_MODULE_DIR", folder, 1);
    CHECK_STATUS(gpur_dnn_library_load(&library), GPUR_UNAVAILABLE);
    CHECK(!library.table && !library.library && !library.module);
    CHECK_MESSAGE("the module for convolutions was not found. Searched for libgpureplay_cudadnn.so in /nowhere");
}

static void build_without_dnn(const char *unused)
{
    gpur_cuda_library library;
    (void)unused;
    CHECK_STATUS(gpur_dnn_library_load(&library), GPUR_UNAVAILABLE);
    CHECK_MESSAGE("cuDNN was not found when it was configured");
}

TEST(cudnn_and_its_module_are_found_or_missed_with_a_word)
{
    in_a_process(has_dnn_module() ? load_dnn : build_without_dnn, NULL);
    if (has_dnn_module() && access(GPUR_INSTALLED_MODULE, F_OK) != 0)
        in_a_process(find_no_dnn_module, "/nowhere/modules");
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(a_module_that_is_nowhere_is_refused_with_the_places);
    RUN(a_build_without_the_module_says_so);
    RUN(cudnn_and_its_module_are_found_or_missed_with_a_word);
    RUN(cublas_is_found_in_the_active_python_environment_before_the_loaders_folders);
    return test_main_end();
}
