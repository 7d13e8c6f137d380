/* SPDX-License-Identifier: MIT */
/* Opening CUDA devices, on machines with a GPU and without one. */
#include "test.h"

/* Opens and closes "cuda:0"; returns the status of opening. */
static gpur_status open_first(void)
{
    gpur_device *device = NULL;
    const gpur_status status = gpur_device_open("cuda:0", NULL, &device);
    gpur_device_close(device);
    return status;
}

TEST(without_a_driver_the_answer_names_the_driver)
{
    if (open_first() == GPUR_OK)
        return; /* there is a driver; the next tests are for that case */
    CHECK_STATUS(open_first(), GPUR_UNAVAILABLE);
    CHECK_MESSAGE("cuda:0");
    CHECK_MESSAGE("driver");
}

TEST(auto_is_the_gpu_where_there_is_one)
{
    gpur_device_info info = {.size = sizeof info};
    gpur_device *device = NULL;
    const int has_gpu = open_first() == GPUR_OK;
    CHECK_OK(gpur_device_open("auto", NULL, &device));
    CHECK_OK(gpur_device_get_info(device, &info));
    CHECK_EQUAL(info.is_cuda, has_gpu);
    CHECK(strcmp(info.name, has_gpu ? "cuda:0" : "cpu") == 0);
    gpur_device_close(device);
}

TEST(an_ordinal_beyond_the_last_is_refused)
{
    const int has_gpu = open_first() == GPUR_OK;
    gpur_device *device = NULL;
    CHECK_STATUS(gpur_device_open("cuda:9999", NULL, &device), GPUR_UNAVAILABLE);
    CHECK(!device);
    CHECK_MESSAGE("cuda:9999");
    CHECK_MESSAGE(has_gpu ? "this machine has" : "driver");
}

TEST(a_failed_open_leaves_nothing_behind_for_the_next)
{
    const gpur_status first = open_first();
    for (int i = 0; i < 20; i++)
        CHECK_STATUS(open_first(), first);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(without_a_driver_the_answer_names_the_driver);
    RUN(auto_is_the_gpu_where_there_is_one);
    RUN(an_ordinal_beyond_the_last_is_refused);
    RUN(a_failed_open_leaves_nothing_behind_for_the_next);
    return test_main_end();
}
