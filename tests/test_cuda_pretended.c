/* SPDX-License-Identifier: MIT */
/*
 * The library's CUDA files over a runtime that is only pretended (cuda/faults.h): a run comes out as on the CPU device,
 * nothing is left of it, and host memory may run out anywhere. On a GPU test_cross and its like compare the real one.
 */
#include "test.h"

#include "base/status.h"
#include "counting_alloc.h"
#include "cuda/faults.h"
#include "cuda/pretend.h"
#include "file_scene.h"

enum { STEPS = 32 };

/* Numbers of any kind: bits are equal, or they are floats that differ by rounding. */
static int is_near(float a, float b)
{
    return memcmp(&a, &b, sizeof a) == 0 || (fabsf(a) > 1e-6f && fabsf(a - b) <= 1e-3f * fabsf(a)) ||
           (fabsf(a) > 1e-30f && fabsf(b) > 1e-30f && fabsf(a - b) < 1e-6f);
}

/* Draws, links, actions, losses and weights of a whole run, but for draws by priority: priorities are rounded. */
TEST(the_pretended_gpu_does_what_the_cpu_does)
{
    static const int variants[] = {0, 1, 2, 3, 6, 7};
    static file_scene sides[2];
    for (int i = 0; i < 6; i++) {
        gpur_device *devices[2] = {NULL, NULL};
        CHECK_OK(gpur_device_open("cuda:0", NULL, &devices[0]));
        CHECK_OK(gpur_device_open("cpu", NULL, &devices[1]));
        for (int side = 0; side < 2; side++) {
            CHECK_OK(scene_open(&sides[side], devices[side], variants[i]));
            CHECK_OK(scene_begin(&sides[side], 0));
            CHECK_OK(scene_run(&sides[side], 0, STEPS));
            CHECK_OK(scene_finish(&sides[side]));
        }
        CHECK(sides[0].traced > 500);
        CHECK_EQUAL(sides[0].traced, sides[1].traced);
        for (int t = 0; t < sides[0].traced; t++)
            TEST_REQUIRE(is_near(sides[0].trace[t], sides[1].trace[t]), "variant %d, %d: %.9g; the CPU has %.9g",
                         variants[i], t, (double)sides[0].trace[t], (double)sides[1].trace[t]);
        for (int side = 0; side < 2; side++) {
            scene_close(&sides[side]);
            gpur_device_close(devices[side]);
        }
        CHECK_EQUAL(pretend_alive(), 0);
    }
}

static gpur_status play(file_scene *s, gpur_device *device, int variant)
{
    GPUR_TRY(scene_open(s, device, variant));
    GPUR_TRY(scene_begin(s, 0));
    GPUR_TRY(scene_run(s, 0, STEPS));
#ifdef GPUR_HAS_FILES
    GPUR_TRY(gpur_replay_save(s->replay, scene_path("replay"), NULL));
    GPUR_TRY(gpur_learner_save(s->learner, scene_path("learner"), NULL));
    GPUR_TRY(gpur_replay_load(s->replay, scene_path("replay"), NULL));
    GPUR_TRY(gpur_learner_load(s->learner, scene_path("learner"), NULL));
#endif
    return scene_finish(s);
}

/* The nth allocation after the device was opened, and all later ones, fail. GPUR_OK: there were fewer. */
static gpur_status play_without(const char *name, int variant, int64_t nth)
{
    static file_scene scene;
    counting_alloc counts = {0};
    gpur_device_config config = test_device_config();
    gpur_device *device = NULL;
    config.alloc = counting_alloc_take, config.release = counting_alloc_give, config.alloc_user = &counts;
    GPUR_TRY(gpur_device_open(name, &config, &device));
    counts.fail_at = counts.calls + nth;
    const gpur_status status = play(&scene, device, variant);
    scene_close(&scene);
    gpur_device_close(device);
    if (counts.blocks != 0 || counts.wrong_sizes != 0 || pretend_alive() != 0)
        return gpur_fail(GPUR_INVALID_ARGUMENT, "%lld blocks and %lld objects of CUDA's are left",
                         (long long)counts.blocks, (long long)pretend_alive());
    return status;
}

TEST(host_memory_that_runs_out_anywhere_is_refused_and_leaves_nothing)
{
    static const char *const names[] = {"cuda:0", "cpu"};
    static const int variants[] = {4, 9};
    for (int i = 0; i < 4; i++) {
        gpur_status status = GPUR_OUT_OF_MEMORY;
        int64_t nth = 1;
        for (; status == GPUR_OUT_OF_MEMORY; nth++)
            status = play_without(names[i / 2], variants[i % 2], nth);
        TEST_REQUIRE(status == GPUR_OK, "%s, variant %d, allocation %lld: %s: %s", names[i / 2], variants[i % 2],
                     (long long)nth - 1, gpur_status_name(status), gpur_last_error());
        CHECK(nth > 20);
    }
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    if (test_on_cuda()) {
        printf("test_cuda_pretended: %s is real\n", test_device_name());
        return 77;
    }
    faults.pretend = 1;
    RUN(the_pretended_gpu_does_what_the_cpu_does);
    RUN(host_memory_that_runs_out_anywhere_is_refused_and_leaves_nothing);
    scene_remove_folder();
    return test_main_end();
}
