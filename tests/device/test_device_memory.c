/* SPDX-License-Identifier: MIT */
/* Memory of a device: aligned, zeroed, counted and freed; refusals state the numbers. */
#include "test.h"
#include "support/counting_alloc.h"
#include "device/device.h"
#include "device/gemm.h"

static int64_t used_by(gpur_device *device)
{
    gpur_device_info info = {.size = sizeof info};
    return gpur_device_get_info(device, &info) == GPUR_OK ? info.memory_used : -1;
}

TEST(memory_is_aligned_zeroed_and_counted)
{
    static const int64_t sizes[] = {1, 255, 256, 4097, 1 << 20, (8 << 20) + 1};
    enum { COUNT = sizeof sizes / sizeof *sizes };
    gpur_device *const device = test_device();
    unsigned char *const host = (unsigned char *)malloc((size_t)sizes[COUNT - 1]);
    void *memory[COUNT];
    int64_t sum = 0;
    for (int i = 0; i < COUNT; i++) {
        CHECK_OK(gpur_device_alloc(device, sizes[i], &memory[i]));
        CHECK((uintptr_t)memory[i] % 256 == 0);
        CHECK_EQUAL(used_by(device), sum += sizes[i]);
        memset(host, 1, (size_t)sizes[i]);
        CHECK_OK(gpur_device_copy(device, host, memory[i], sizes[i]));
        CHECK(host[0] == 0 && memcmp(host, host + 1, (size_t)sizes[i] - 1) == 0);
    }
    for (int i = 0; i < COUNT; i++) {
        gpur_device_free(device, memory[i]);
        CHECK_EQUAL(used_by(device), sum -= sizes[i]);
    }
    free(host);
    gpur_device_close(device);
}

TEST(pinned_memory_is_aligned_and_no_memory_of_the_device)
{
    gpur_device *const device = test_device();
    void *memory = NULL;
    CHECK_OK(gpur_pinned_alloc(device, 1000, "the test", &memory));
    CHECK((uintptr_t)memory % 256 == 0);
    CHECK(((unsigned char *)memory)[999] == 0);
    CHECK_EQUAL(used_by(device), 0);
    gpur_pinned_free(device, memory);
    gpur_pinned_free(device, NULL);
    gpur_device_close(device);
}

TEST(a_copy_goes_there_and_back)
{
    enum { BYTES = 100001 };
    gpur_device *const device = test_device();
    unsigned char *const from = (unsigned char *)malloc(BYTES), *const to = (unsigned char *)calloc(1, BYTES);
    void *memory = NULL;
    for (int i = 0; i < BYTES; i++)
        from[i] = (unsigned char)(i * 7 + i / 251);
    CHECK_OK(gpur_device_alloc(device, BYTES, &memory));
    CHECK_OK(gpur_device_copy(device, memory, from, BYTES));
    CHECK_OK(gpur_device_copy(device, to, memory, BYTES));
    CHECK(memcmp(from, to, BYTES) == 0);
    CHECK_OK(gpur_device_copy(device, NULL, NULL, 0));
    CHECK_STATUS(gpur_device_copy(device, to, memory, -1), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(gpur_device_copy(device, NULL, memory, 1), GPUR_INVALID_ARGUMENT);
    gpur_device_free(device, memory);
    free(from), free(to);
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
        CHECK_STATUS(gpur_device_alloc(device, sizes[i], &memory), GPUR_OUT_OF_MEMORY);
        CHECK_MESSAGE(wanted);
        CHECK_MESSAGE("free of");
        CHECK(!memory);
    }
    CHECK_EQUAL(used_by(device), 0);
    void *memory = NULL;
    CHECK_STATUS(gpur_device_alloc(device, 0, &memory), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(gpur_device_alloc(device, -5, &memory), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("-5 bytes");
    CHECK_STATUS(gpur_device_alloc(device, 1, NULL), GPUR_INVALID_ARGUMENT);
    gpur_device_close(device);
}

static void keep_line(void *user, const char *line)
{
    snprintf((char *)user, 256, "%s", line);
}

TEST(memory_of_somebody_else_is_left_alone)
{
    char line[256] = "";
    gpur_device *device = NULL;
    gpur_device_config config = test_device_config();
    config.log = keep_line;
    config.log_user = line;
    CHECK_OK(gpur_device_open(test_device_name(), &config, &device));
    gpur_device_free(device, line);
    CHECK(strstr(line, "is no memory of"));
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

/* Makes one of everything; stops at the first failure. */
static gpur_status make_one_of_each(gpur_device *device, gpur_stream **stream, gpur_event **event, gpur_gemm **gemm)
{
    const gpur_gemm_shape shape = {.m = 2, .n = 2, .k = 2, .lda = 2, .ldb = 2, .ldc = 2};
    void *memory = NULL, *pinned = NULL;
    GPUR_TRY(gpur_stream_create(device, stream));
    GPUR_TRY(gpur_event_create(device, event));
    GPUR_TRY(gpur_gemm_create(device, &shape, gemm));
    GPUR_TRY(gpur_memory_alloc(device, 1000, "the test", &memory));
    GPUR_TRY(gpur_pinned_alloc(device, 1000, "the test", &pinned));
    for (int i = 0; i < 100; i++) /* never freed: they are freed with the device */
        GPUR_TRY(gpur_memory_alloc(device, 10, "the test", &memory));
    GPUR_TRY(gpur_fill(*stream, memory, 1, 10));
    GPUR_TRY(gpur_event_record(*event, *stream));
    return gpur_stream_sync(*stream);
}

static gpur_status use_device(const gpur_device_config *config)
{
    gpur_device *device = NULL;
    gpur_stream *stream = NULL;
    gpur_event *event = NULL;
    gpur_gemm *gemm = NULL;
    GPUR_TRY(gpur_device_open(test_device_name(), config, &device));
    const gpur_status status = make_one_of_each(device, &stream, &event, &gemm);
    gpur_gemm_destroy(gemm);
    gpur_event_destroy(event);
    gpur_stream_destroy(stream);
    gpur_device_close(device);
    return status;
}

TEST(the_callers_allocator_gets_everything_back)
{
    counting_alloc counts = {0};
    const gpur_device_config config = config_counted_by(&counts);
    CHECK_OK(use_device(&config));
    CHECK(counts.calls > 0);
    CHECK_EQUAL(counts.blocks, 0);
    CHECK_EQUAL(counts.bytes, 0);
    CHECK_EQUAL(counts.wrong_sizes, 0);
}

TEST(running_out_at_any_allocation_is_refused_and_leaks_nothing)
{
    gpur_status status = GPUR_OUT_OF_MEMORY;
    for (int64_t fail_at = 1; status != GPUR_OK; fail_at++) {
        counting_alloc counts = {.fail_at = fail_at};
        const gpur_device_config config = config_counted_by(&counts);
        status = use_device(&config);
        CHECK(status == GPUR_OK || status == GPUR_OUT_OF_MEMORY);
        CHECK_EQUAL(counts.blocks, 0);
        CHECK_EQUAL(counts.wrong_sizes, 0);
    }
}

TEST(an_allocator_that_does_not_align_is_refused_and_told)
{
    char line[256] = "";
    gpur_device *device = NULL;
    counting_alloc counts = {.offset = 32};
    gpur_device_config config = config_counted_by(&counts);
    config.log = keep_line;
    config.log_user = line;
    CHECK_STATUS(gpur_device_open(test_device_name(), &config, &device), GPUR_OUT_OF_MEMORY);
    CHECK(strstr(line, "not aligned to 64 bytes"));
    CHECK_EQUAL(counts.blocks, 0);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(memory_is_aligned_zeroed_and_counted);
    RUN(pinned_memory_is_aligned_and_no_memory_of_the_device);
    RUN(a_copy_goes_there_and_back);
    RUN(what_does_not_fit_is_refused_with_the_numbers);
    RUN(memory_of_somebody_else_is_left_alone);
    RUN(the_callers_allocator_gets_everything_back);
    RUN(running_out_at_any_allocation_is_refused_and_leaks_nothing);
    RUN(an_allocator_that_does_not_align_is_refused_and_told);
    return test_main_end();
}
