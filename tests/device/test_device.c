/* SPDX-License-Identifier: MIT */
/* Opening, describing and closing devices; their memory: aligned, zeroed, counted and freed. */
#include "test.h"
#include "device/device.h"
#include "device/gemm.h"
#include "support/counting_alloc.h"

static void copy_line(void *user, const char *line)
{
    snprintf((char *)user, 512, "%s", line);
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

/* With a GPU, without one, and in a build without CUDA. */
TEST(cuda_opens_or_is_refused_with_what_would_help_and_auto_opens_the_gpu_where_there_is_one)
{
    char line[512] = "";
    gpur_device *device = NULL;
    gpur_device_config config = test_device_config();
    gpur_device_info info = {.size = sizeof info};
    const gpur_status first = gpur_device_open("cuda:0", NULL, &device);
    gpur_device_close(device);
    CHECK(first == GPUR_OK || first == GPUR_UNAVAILABLE);
    for (int i = 0; i < 20; i++) { /* a failed open leaves nothing behind for the next */
        CHECK_STATUS(gpur_device_open("cuda:0", NULL, &device), first);
        gpur_device_close(device);
    }
    CHECK_STATUS(gpur_device_open("cuda:9999", NULL, &device), GPUR_UNAVAILABLE);
    CHECK(!device);
    CHECK_MESSAGE("cuda:9999");
#ifdef GPUR_HAS_CUDA
    CHECK_MESSAGE(first == GPUR_OK ? "this machine has" : "driver");
#else
    CHECK_MESSAGE("-DGPUREPLAY_CUDA=ON");
#endif
    config.log = copy_line, config.log_user = line;
    CHECK_OK(gpur_device_open("auto", &config, &device));
    CHECK_OK(gpur_device_get_info(device, &info));
    CHECK_EQUAL(info.is_cuda, first == GPUR_OK);
    CHECK(strcmp(info.name, first == GPUR_OK ? "cuda:0" : "cpu") == 0);
    CHECK(first == GPUR_OK || strstr(line, "auto: using the CPU: "));
    gpur_device_close(device);
}

/* Ranges of numbers are in test_settings.c. */
TEST(a_config_that_cannot_be_is_refused)
{
    gpur_device *device = NULL;
    gpur_device_config c = test_device_config();
    c.stream = &c;
    CHECK_FAILS(gpur_device_open("cpu", &c, &device), GPUR_INVALID_ARGUMENT, "on the CPU it must be NULL");
    c = test_device_config(), c.alloc = counting_alloc_take;
    CHECK_FAILS(gpur_device_open("cpu", &c, &device), GPUR_INVALID_ARGUMENT, "set both or neither");
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
    CHECK_FAILS(gpur_device_open("cpu", &newer.known, &device), GPUR_INVALID_ARGUMENT, "does not know");

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

    gpur_device_config config = test_device_config();
    gpur_device *cpu = NULL;
    config.threads = 3, info.size = sizeof info;
    CHECK_OK(gpur_device_open("cpu", &config, &cpu));
    CHECK_OK(gpur_device_get_info(cpu, &info));
    CHECK_EQUAL(info.threads, strstr(gpur_build_info(), "race check") ? 1 : 3);
    gpur_device_close(cpu);
}

TEST(a_device_lives_until_its_last_holder_lets_go)
{
    gpur_device *const device = test_device();
    int64_t total = 0, available = 0;
    gpur_device_retain(device);
    gpur_device_close(device);
    CHECK_OK(gpur_memory_available(device, &total, &available)); /* under AddressSanitizer: the device still exists */
    CHECK(strcmp(gpur_device_name(device), "") != 0);
    gpur_device_release(device);
}

TEST(the_build_info_has_a_line_for_each_part)
{
    static const char *const keys[] = {
        "\ncompiler: ", "\ncuda: ", "\nblas: ", "\ndnnl: ", "\nfiles: ", "\nzstd: ", "\ncpu kernels: "};
    const char *line = gpur_build_info();
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        line = strstr(line, keys[i]);
        CHECK(line && line[strlen(keys[i])] != '\n');
    }
}

TEST(memory_is_aligned_zeroed_and_counted)
{
    static const int64_t sizes[] = {1, 255, 256, 4097, 1 << 20, (8 << 20) + 1};
    enum { COUNT = sizeof sizes / sizeof *sizes };
    gpur_device *const device = test_device();
    unsigned char *const host = (unsigned char *)malloc((size_t)sizes[COUNT - 1]);
    void *memory[COUNT], *pinned = NULL;
    int64_t sum = 0;
    for (int i = 0; i < COUNT; i++) {
        CHECK_OK(gpur_device_alloc(device, sizes[i], &memory[i]));
        CHECK((uintptr_t)memory[i] % 256 == 0);
        CHECK_EQUAL(test_memory_used(device), sum += sizes[i]);
        memset(host, 1, (size_t)sizes[i]);
        CHECK_OK(gpur_device_copy(device, host, memory[i], sizes[i]));
        CHECK(host[0] == 0 && memcmp(host, host + 1, (size_t)sizes[i] - 1) == 0);
    }
    CHECK_OK(gpur_pinned_alloc(device, 1000, "the test", &pinned));
    CHECK((uintptr_t)pinned % 256 == 0);
    CHECK(((unsigned char *)pinned)[999] == 0);
    CHECK_EQUAL(test_memory_used(device), sum);
    gpur_pinned_free(device, pinned);
    gpur_pinned_free(device, NULL);
    for (int i = 0; i < COUNT; i++) {
        gpur_device_free(device, memory[i]);
        CHECK_EQUAL(test_memory_used(device), sum -= sizes[i]);
    }
    free(host);
    gpur_device_close(device);
}

TEST(what_does_not_fit_is_refused_with_the_numbers)
{
    static const int64_t sizes[] = {(int64_t)1 << 50, INT64_MAX - 1, INT64_MAX};
    gpur_device *const device = test_device();
    for (int i = 0; i < 3; i++) {
        void *memory = device;
        char wanted[64];
        snprintf(wanted, sizeof wanted, "%lld bytes wanted", (long long)sizes[i]);
        CHECK_FAILS(gpur_device_alloc(device, sizes[i], &memory), GPUR_OUT_OF_MEMORY, wanted);
        CHECK_MESSAGE("free of");
        CHECK(!memory);
    }
    CHECK_EQUAL(test_memory_used(device), 0);
    void *memory = NULL;
    CHECK_STATUS(gpur_device_alloc(device, 0, &memory), GPUR_INVALID_ARGUMENT);
    CHECK_FAILS(gpur_device_alloc(device, -5, &memory), GPUR_INVALID_ARGUMENT, "-5 bytes");
    CHECK_STATUS(gpur_device_alloc(device, 1, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_OK(gpur_device_copy(device, NULL, NULL, 0));
    CHECK_STATUS(gpur_device_copy(device, &memory, &memory, -1), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(gpur_device_copy(device, NULL, &memory, 1), GPUR_INVALID_ARGUMENT);
    gpur_device_close(device);
}

TEST(memory_that_is_not_the_devices_is_not_freed)
{
    char line[512] = "";
    gpur_device *device = NULL;
    gpur_device_config config = test_device_config();
    config.log = copy_line;
    config.log_user = line;
    CHECK_OK(gpur_device_open(test_device_name(), &config, &device));
    gpur_device_free(device, line);
    CHECK(strstr(line, "is no memory from gpur_device_alloc of"));
    void *ours = NULL;
    CHECK_OK(gpur_memory_alloc(device, 100, "a test", &ours));
    const int64_t used = test_memory_used(device);
    line[0] = 0;
    gpur_device_free(device, ours); /* of the library itself */
    CHECK(strstr(line, "is no memory from gpur_device_alloc of"));
    CHECK_EQUAL(test_memory_used(device), used);
    gpur_memory_free(device, ours);
    gpur_device_close(device);
}

static gpur_device_config config_counted_by(counting_alloc *counts)
{
    gpur_device_config config = test_device_config();
    config.alloc = counting_alloc_take;
    config.release = counting_alloc_give;
    config.alloc_user = counts;
    return config;
}

/* Creates one object of each kind, as far as memory lasts. Blocks that are not freed are freed with the device. */
static gpur_status use_device(const gpur_device_config *config)
{
    const gpur_gemm_shape shape = {.m = 2, .n = 2, .k = 2, .lda = 2, .ldb = 2, .ldc = 2};
    gpur_device *device = NULL;
    gpur_stream *stream = NULL;
    gpur_event *event = NULL;
    gpur_gemm *gemm = NULL;
    void *memory = NULL;
    GPUR_TRY(gpur_device_open(test_device_name(), config, &device));
    gpur_status status = gpur_stream_create(device, &stream);
    if (status == GPUR_OK)
        status = gpur_event_create(device, &event);
    if (status == GPUR_OK)
        status = gpur_gemm_create(device, &shape, &gemm);
    if (status == GPUR_OK)
        status = gpur_pinned_alloc(device, 1000, "the test", &memory);
    for (int i = 0; i < 100 && status == GPUR_OK; i++)
        status = gpur_memory_alloc(device, 10, "the test", &memory);
    if (status == GPUR_OK)
        status = gpur_fill(stream, memory, 1, 10);
    if (status == GPUR_OK)
        status = gpur_event_record(event, stream);
    gpur_gemm_destroy(gemm);
    gpur_event_destroy(event);
    gpur_stream_destroy(stream);
    gpur_device_close(device);
    return status;
}

/* The last round has no failure. */
TEST(the_callers_allocator_gets_everything_back_also_where_it_runs_out)
{
    gpur_status status = GPUR_OUT_OF_MEMORY;
    for (int64_t fail_at = 1; status != GPUR_OK; fail_at++) {
        counting_alloc counts = {.fail_at = fail_at};
        const gpur_device_config config = config_counted_by(&counts);
        status = use_device(&config);
        CHECK(status == GPUR_OK || status == GPUR_OUT_OF_MEMORY);
        CHECK(counts.calls > 0);
        CHECK_EQUAL(counts.blocks, 0);
        CHECK_EQUAL(counts.bytes, 0);
        CHECK_EQUAL(counts.wrong_sizes, 0);
    }
}

TEST(an_allocator_that_does_not_align_is_refused_and_logged)
{
    char line[512] = "";
    gpur_device *device = NULL;
    counting_alloc counts = {.offset = 32};
    gpur_device_config config = config_counted_by(&counts);
    config.log = copy_line;
    config.log_user = line;
    CHECK_STATUS(gpur_device_open(test_device_name(), &config, &device), GPUR_OUT_OF_MEMORY);
    CHECK(strstr(line, "not aligned to 64 bytes"));
    CHECK_EQUAL(counts.blocks, 0);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(a_name_that_does_not_exist_is_refused_with_those_that_do);
    RUN(null_is_refused);
    RUN(cuda_opens_or_is_refused_with_what_would_help_and_auto_opens_the_gpu_where_there_is_one);
    RUN(a_config_that_cannot_be_is_refused);
    RUN(a_config_of_another_version_is_read_as_far_as_it_is_known);
    RUN(the_info_describes_the_device);
    RUN(a_device_lives_until_its_last_holder_lets_go);
    RUN(the_build_info_has_a_line_for_each_part);
    RUN(memory_is_aligned_zeroed_and_counted);
    RUN(what_does_not_fit_is_refused_with_the_numbers);
    RUN(memory_that_is_not_the_devices_is_not_freed);
    RUN(the_callers_allocator_gets_everything_back_also_where_it_runs_out);
    RUN(an_allocator_that_does_not_align_is_refused_and_logged);
    return test_main_end();
}
