/* SPDX-License-Identifier: MIT */
/* Trains a dueling double-DQN agent on CartPole-v1 until 100 greedy episodes return 475 on average. */
#include "cartpole.h"
#include "interrupt.h"
#include "trainer.h"

#include <inttypes.h>
#include <string.h>

/*
 * A train step for every environment step, in launches of 256: with half the training, seeds 1 to 10 took a median of
 * 24,576 steps where they take 15,360. The preset's target_period of 128 matters more: with 32, one of ten seeds was
 * not there after 100,000 steps, with 10 none of five. bench/learning.sh repeats it. One thread: layers this small gain
 * a third from two free cores, and become more than ten times slower where the cores are busy with other work.
 */
static const train_recipe recipe = {
    .preset = "cartpole",
    .threads = 1,
    .capacity = 100000,
    .min_size = 1000,
    .gamma = 0.99f,
    .round_steps = 256,
    .round_training = 256,
    .evaluate_every = 1024,
    .evaluations = 100,
};

static void print_device(const trainer *t)
{
    gpur_device_info info = {.size = sizeof info};
    if (gpur_device_get_info(t->agent.device, &info) == GPUR_OK)
        printf("%s on %s: %s\n", t->kind->name, info.name, info.description);
    fflush(stdout);
}

static void print_verdict(const trainer *t, train_end end)
{
    const double wanted = (double)t->kind->solved_return, reached = (double)t->eval_return;
    const char *const what = end == TRAIN_SOLVED  ? "solved"
                             : end == TRAIN_LIMIT ? "not solved within the limit"
                                                  : "interrupted";
    printf("%s after %" PRId64 " steps, %" PRId64 " episodes, %.1f s: ", what, t->steps, t->episodes,
           trainer_seconds(t));
    if (isnan(t->eval_return))
        printf("no evaluation was made\n");
    else
        printf("mean return of %" PRId32 " greedy episodes %.1f (solved: %.0f)\n", t->recipe->evaluations, reached,
               wanted);
    printf("learning curve: %s\n", t->curve.path);
    if (!strstr(gpur_build_info(), "files: none"))
        printf("to go on:       --resume %s\n", t->options->out);
}

/* The exit status of an end; 130 is what a shell expects of a program ended by Ctrl-C. */
static int status_of(train_end end)
{
    static const int status[] = {[TRAIN_SOLVED] = 0, [TRAIN_LIMIT] = 1, [TRAIN_INTERRUPTED] = 130, [TRAIN_FAILED] = 2};
    return status[end];
}

static int train(trainer *t, const train_options *options)
{
    if (trainer_open(t, &cartpole_kind, &recipe, options) != 0)
        return status_of(TRAIN_FAILED);
    print_device(t);
    interrupt_watch();
    const train_end end = trainer_run(t);
    if (end != TRAIN_FAILED)
        print_verdict(t, end);
    return status_of(end);
}

int main(int argc, char **argv)
{
    train_options options = {.device = "auto", .out = "runs/cartpole", .resume = "none"};
    options.seed = 1, options.envs = 8, options.steps = 300000, options.seconds = 600;
    const int verdict = options_read(&options, argc, argv);
    if (verdict != OPTIONS_RUN)
        return verdict == OPTIONS_HELP ? 0 : 2;
    trainer t;
    const int status = train(&t, &options);
    trainer_close(&t);
    return status;
}
