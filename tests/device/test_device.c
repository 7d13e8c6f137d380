/* SPDX-License-Identifier: MIT */
/* Opening, describing and closing devices. */
#include "test.h"
#include "device/device.h"

typedef struct log_lines {
    int count;
    char last[512];
} log_lines;

static void keep_line(void *user, const char *line)
{
    log_lines *const lines = (log_lines *)user;
    lines->count++;
    snprintf(lines->last, sizeof lines->last, "%s", line);
}

TEST(a_name_that_does_not_exist_is_refused_with_those_that_do)
{
    static const char *const names[] = {"",        "gpu",     "CPU",     "cpu:0",   "cuda:",      "cuda:x",
                                        "cuda:1x", "cuda:-1", "cuda: 1", "cuda:+1", "cuda:10000", "cuda0"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        gpur_device *device = NULL;
        CHECK_STATUS(gpur_device_open(names[i], NULL, &device), GPUR_INVALID_ARGUMENT);
        CHECK_MESSAGE("\"auto\", \"cpu\", \"cuda\" and \"cuda:N\"");
        CHECK_MESSAGE(names[i]);
        CHECK(!device);
    }
}

TEST(null_is_refused)
{
    gpur_device *device = NULL;
    CHECK_STATUS(gpur_device_open("cpu", NULL, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(gpur_device_open(NULL, NULL, &device), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(gpur_device_config_init(NULL, sizeof(gpur_device_config)), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(gpur_device_sync(NULL), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(gpur_device_alloc(NULL, 1, (void **)&device), GPUR_INVALID_ARGUMENT);
    gpur_device_close(NULL);
    gpur_device_free(NULL, NULL);
}

TEST(cuda_is_refused_with_what_would_help_where_it_is_not)
{
    gpur_device *device = NULL;
    const gpur_status status = gpur_device_open("cuda:0", NULL, &device);
    if (status == GPUR_OK) {
        gpur_device_close(device);
        return;
    }
    CHECK_STATUS(status, GPUR_UNAVAILABLE);
    CHECK(!device);
#ifndef GPUR_HAS_CUDA
    CHECK_MESSAGE("-DGPUREPLAY_CUDA=ON");
    CHECK_STATUS(gpur_device_open("cuda:7", NULL, &device), GPUR_UNAVAILABLE);
    CHECK_MESSAGE("cuda:7");
#endif
}

TEST(auto_opens_the_best_device_and_says_why_it_is_the_cpu)
{
    gpur_device *device = NULL;
    log_lines lines = {0};
    gpur_device_config config = test_device_config();
    config.log = keep_line;
    config.log_user = &lines;
    CHECK_OK(gpur_device_open("auto", &config, &device));
    if (strcmp(gpur_device_name(device), "cpu") == 0) {
        CHECK(lines.count == 1);
        CHECK(strstr(lines.last, "auto: using the CPU: "));
    }
    gpur_device_close(device);
}

static gpur_status open_with(int32_t threads, int32_t executor, void *stream, gpur_alloc_fn alloc)
{
    gpur_device *device = NULL;
    gpur_device_config config = test_device_config();
    config.threads = threads;
    config.executor = executor;
    config.stream = stream;
    config.alloc = alloc;
    const gpur_status status = gpur_device_open("cpu", &config, &device);
    gpur_device_close(device);
    return status;
}

static void *never_called(void *user, size_t bytes)
{
    (void)user, (void)bytes;
    abort();
}

TEST(a_config_out_of_range_is_refused)
{
    int here = 0;
    CHECK_STATUS(open_with(-1, 0, NULL, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("threads is -1");
    CHECK_STATUS(open_with(1025, 0, NULL, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("1024");
    CHECK_STATUS(open_with(0, 2, NULL, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("executor is 2");
    CHECK_STATUS(open_with(0, 0, &here, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("on the CPU it must be NULL");
    CHECK_STATUS(open_with(0, 0, NULL, never_called), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("set both or neither");
}

TEST(a_config_of_another_version_is_read_as_far_as_it_is_known)
{
    struct {
        gpur_device_config known;
        uint64_t later;
    } newer = {.later = 0};
    gpur_device *device = NULL;
    CHECK_OK(gpur_device_config_init(&newer.known, sizeof newer));
    CHECK_OK(gpur_device_open("cpu", &newer.known, &device));
    gpur_device_close(device);
    newer.later = 1;
    CHECK_STATUS(gpur_device_open("cpu", &newer.known, &device), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("does not know");

    gpur_device_config older = {.size = 12, .threads = 1}; /* size and threads only */
    older.executor = 99;                                   /* beyond the size that the caller states */
    CHECK_OK(gpur_device_open("cpu", &older, &device));
    gpur_device_close(device);
    older.size = 0;
    CHECK_STATUS(gpur_device_open("cpu", &older, &device), GPUR_INVALID_ARGUMENT);
}

TEST(the_info_describes_the_device)
{
    gpur_device *const device = test_device();
    gpur_device_info info = {.size = sizeof info};
    CHECK_OK(gpur_device_get_info(device, &info));
    CHECK(strcmp(info.name, test_on_cuda() && !strchr(test_device_name(), ':') ? "cuda:0" : test_device_name()) == 0);
    CHECK(info.description[0]);
    CHECK_EQUAL(info.is_cuda, test_on_cuda());
    CHECK(info.threads >= 1);
    CHECK(info.memory_total > 0 && info.memory_free > 0 && info.memory_free <= info.memory_total);
    CHECK_EQUAL(info.memory_used, 0);
    info.size = 3;
    CHECK_STATUS(gpur_device_get_info(device, &info), GPUR_INVALID_ARGUMENT);
    gpur_device_close(device);
}

TEST(the_number_of_threads_is_the_callers)
{
    gpur_device *device = NULL;
    gpur_device_config config = test_device_config();
    config.threads = 3;
    gpur_device_info info = {.size = sizeof info};
    CHECK_OK(gpur_device_open("cpu", &config, &device));
    CHECK_OK(gpur_device_get_info(device, &info));
    CHECK_EQUAL(info.threads, strstr(gpur_build_info(), "race check") ? 1 : 3);
    gpur_device_close(device);
}

TEST(a_device_lives_until_its_last_holder_lets_go)
{
    gpur_device *const device = test_device();
    int64_t total = 0, available = 0;
    gpur_device_hold(device);
    gpur_device_close(device);
    CHECK_OK(gpur_memory_available(device, &total, &available)); /* under AddressSanitizer: the device still exists */
    CHECK(strcmp(gpur_device_name(device), "") != 0);
    gpur_device_release(device);
}

TEST(the_build_info_has_a_line_for_each_part)
{
    static const char *const keys[] = {
        "version: ", "compiler: ", "cuda: ", "blas: ", "dnnl: ", "files: ", "cpu kernels: "};
    const char *line = gpur_build_info();
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        CHECK(line && strncmp(line, keys[i], strlen(keys[i])) == 0);
        CHECK(line[strlen(keys[i])] != '\n');
        line = strchr(line, '\n');
        CHECK(line);
        line++;
    }
    CHECK(*line == '\0');
    CHECK(strstr(gpur_build_info(), gpur_version()));
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(a_name_that_does_not_exist_is_refused_with_those_that_do);
    RUN(null_is_refused);
    RUN(cuda_is_refused_with_what_would_help_where_it_is_not);
    RUN(auto_opens_the_best_device_and_says_why_it_is_the_cpu);
    RUN(a_config_out_of_range_is_refused);
    RUN(a_config_of_another_version_is_read_as_far_as_it_is_known);
    RUN(the_info_describes_the_device);
    RUN(the_number_of_threads_is_the_callers);
    RUN(a_device_lives_until_its_last_holder_lets_go);
    RUN(the_build_info_has_a_line_for_each_part);
    return test_main_end();
}
