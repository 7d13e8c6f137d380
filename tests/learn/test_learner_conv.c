/* SPDX-License-Identifier: MIT */
/* Training on images of uint8: losses and gradients by the reference and by finite differences, rows in RAM. */
#include "test.h"
#include "support/conv_world.h"

static gpur_device *device;

static void on_scene(const gpur_learner_config *config, void (*check)(conv_scene *s))
{
    conv_scene s;
    const gpur_status status = conv_scene_open(&s, device, config);
    if (status == GPUR_OK)
        check(&s);
    conv_scene_close(&s);
    CHECK_OK(status);
}

static float loss_of(gpur_learner *learner)
{
    return world_stats(learner).loss;
}

static void check_losses(conv_scene *s)
{
    for (int step = 0; step < 40; step++) {
        int64_t ids[BATCH];
        ref_row batch[BATCH];
        conv_ids(step, ids, batch);
        const double want = ref_dqn_loss(s->net, &s->config, 0.9f, batch, BATCH, NULL);
        (void)ref_dqn_update(s->net, &s->config, step + 1);
        CHECK_OK(gpur_learner_train_on(s->learner, ids));
        CHECK_NEAR(loss_of(s->learner), want, 1e-4 * want);
    }
}

TEST(losses_follow_the_reference_in_both_layouts)
{
    for (int32_t layout = GPUR_CHW; layout <= GPUR_HWC; layout++) {
        const gpur_learner_config config = conv_config(layout);
        on_scene(&config, check_losses);
    }
}

/* The mean loss of the batch by the reference, with the target network as it is. */
static double slope_of(conv_scene *s, double *w, const ref_row *batch)
{
    const double h = 1e-6, before = *w;
    *w = before + h;
    const double up = ref_dqn_loss(s->net, &s->config, 0.9f, batch, BATCH, NULL);
    *w = before - h;
    const double down = ref_dqn_loss(s->net, &s->config, 0.9f, batch, BATCH, NULL);
    *w = before;
    return (up - down) / (2 * h);
}

static void check_slopes(conv_scene *s)
{
    int64_t ids[BATCH];
    ref_row batch[BATCH];
    conv_ids(1, ids, batch);
    CHECK_OK(gpur_learner_train_on(s->learner, ids));
    for (int i = 0; i < s->net->tensors; i++) {
        ref_tensor *const t = &s->net->tensor[i];
        double *const gradient = malloc((size_t)t->count * sizeof *gradient);
        const gpur_status status = conv_read(s->learner, t, GPUR_WEIGHTS_GRADIENT, gradient);
        for (int n = 0; status == GPUR_OK && n < 11; n++) {
            const int j = (int)((int64_t)t->count * n / 11);
            const double want = slope_of(s, &t->w[j], batch), got = gradient[j];
            if (fabs(got - want) > 1e-5 * (1 + fabs(want))) {
                test_fail(__FILE__, __LINE__);
                fprintf(stderr, "%s %d is %.9g; wanted %.9g\n", t->name, j, got, want);
            }
        }
        free(gradient);
        CHECK_OK(status);
    }
}

TEST(gradients_are_finite_differences_of_the_loss)
{
    for (int32_t layout = GPUR_CHW; layout <= GPUR_HWC; layout++) {
        gpur_learner_config config = conv_config(layout);
        on_scene(&config, check_slopes);
        config.loss = GPUR_LOSS_SQUARED, config.network.head = GPUR_HEAD_Q;
        on_scene(&config, check_slopes);
    }
}

static void check_falling(conv_scene *s)
{
    CHECK_OK(gpur_learner_train(s->learner, 10));
    const double first = world_stats(s->learner).mean_loss;
    CHECK_OK(gpur_learner_train(s->learner, 300));
    (void)world_stats(s->learner);
    CHECK_OK(gpur_learner_train(s->learner, 50));
    const double last = world_stats(s->learner).mean_loss;
    CHECK(first > 0 && last < 0.25 * first);
}

TEST(the_loss_falls_on_a_fixed_replay)
{
    gpur_learner_config config = conv_config(GPUR_CHW);
    config.optimizer.learning_rate.first = 3e-3f;
    config.batch_size = 32;
    config.target_period = 100;
    on_scene(&config, check_falling);
}

static void check_rows_in_ram(conv_scene *s)
{
    int64_t ids[BATCH];
    ref_row unused[BATCH];
    image_row given[BATCH];
    conv_scene twin;
    const gpur_status status = conv_scene_open(&twin, device, &s->config);
    for (int step = 0; step < 5 && status == GPUR_OK; step++) {
        conv_ids(step, ids, unused);
        for (int b = 0; b < BATCH; b++)
            given[b] = conv_rows[ids[b]];
        const gpur_status on = gpur_learner_train_on(s->learner, ids);
        const gpur_status off = gpur_learner_train_rows(twin.learner, given);
        const float want = loss_of(s->learner), got = loss_of(twin.learner);
        if (on != GPUR_OK || off != GPUR_OK || want != got)
            test_fail(__FILE__, __LINE__), fprintf(stderr, "step %d: %g, %g\n", step, (double)want, (double)got);
    }
    conv_scene_close(&twin);
    CHECK_OK(status);
}

TEST(rows_in_ram_train_as_those_of_the_replay)
{
    const gpur_learner_config config = conv_config(GPUR_CHW);
    on_scene(&config, check_rows_in_ram);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
    conv_world_make();
    RUN(losses_follow_the_reference_in_both_layouts);
    RUN(gradients_are_finite_differences_of_the_loss);
    RUN(the_loss_falls_on_a_fixed_replay);
    RUN(rows_in_ram_train_as_those_of_the_replay);
    gpur_device_close(device);
    return test_main_end();
}
