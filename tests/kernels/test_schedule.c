/* SPDX-License-Identifier: MIT */
/* Schedules, and the checks of an optimizer's settings. */
#include "test.h"
#include "learn/optimizer.h"
#include "reference/reference_learn.h"

static gpur_optimizer_config defaults(void)
{
    gpur_dqn_config config;
    (void)gpur_dqn_config_init(&config, sizeof config);
    return config.optimizer;
}

TEST(schedules_move_linearly_between_their_ends)
{
    static const gpur_schedule schedules[] = {{.first = 1.0f, .last = 0.1f, .begin = 100, .steps = 900},
                                              {.first = 0.5f, .last = 0.1f, .begin = 10}}; /* constant */
    for (int i = 0; i < 2; i++)
        for (int64_t step = 0; step < 1000000; step += step < 1100 ? 5 : 99999)
            CHECK_NEAR(gpur_schedule_at(&schedules[i], step), ref_schedule(&schedules[i], (double)step), 1e-7);
    CHECK_NEAR(gpur_schedule_at(&schedules[0], 550), 0.55, 1e-7);
    CHECK_NEAR(gpur_schedule_at(&schedules[1], 5000), 0.5, 0);
}

static void check_refusal(gpur_optimizer_config config, const char *message)
{
    CHECK_FAILS(gpur_optimizer_check(&config), GPUR_INVALID_ARGUMENT, message);
}

TEST(settings_out_of_range_are_refused_with_their_value)
{
    const gpur_optimizer_config good = defaults();
    gpur_optimizer_config c = good;
    CHECK_OK(gpur_optimizer_check(&c));
    c.kind = 6, check_refusal(c, "kind is 6");
    c = good, c.kind = GPUR_RMSPROP_TORCH, c.centered = 2, check_refusal(c, "centered is 2");
    c = good, c.learning_rate.last = -1, check_refusal(c, "to -1, from step 0 on");
    c = good, c.beta1 = 1, check_refusal(c, "beta1 is 1; it must be at least 0 and below 1");
    c = good, c.kind = GPUR_RMSPROP_TF, c.decay = NAN, check_refusal(c, "decay is nan");
    c = good, c.epsilon = 0, check_refusal(c, "epsilon is 0");
    c = good, c.clip_norm = -2, check_refusal(c, "clip_norm is -2");
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(schedules_move_linearly_between_their_ends);
    RUN(settings_out_of_range_are_refused_with_their_value);
    return test_main_end();
}
