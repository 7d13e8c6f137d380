/* SPDX-License-Identifier: MIT */
/*
 * A whole training by the name of its preset in CartPole: fast DQN ("fast-dqn-small"), Ape-X ("apex-dqn-small") or one
 * of the actor-critics ("ga3c-small", "a2c-small"). It prints evaluations as they come, goes on with the run in its
 * folder if there is one, ends early on Ctrl-C, and saves the run.
 *
 * usage: runs [device [preset [steps [folder]]]]; exit status: 0 the last evaluation returned above 50, 1 not, 2 an
 * error.
 */
#include "must.h"

#include <gpureplay.h>
#include <gpureplay/run.h>

#include <signal.h>
#include <string.h>
#include <unistd.h>

enum { EPISODES = 10, PERIOD = 1000 }; /* runs are saved at a multiple of PERIOD steps */

/* All that a run needs and has. Its learner, the replay and the device outlive it. */
typedef struct training {
    gpur_device *device;
    gpur_replay *replay; /* NULL: actor-critics have none */
    gpur_learner *learner;
    gpur_run *run;
} training;

static gpur_run *running;

/* gpur_run_stop may be called in a signal handler. */
static void on_interrupt(int number)
{
    (void)number;
    gpur_run_stop(running);
}

/* Called by the thread that advances the run. */
static void on_event(void *user, const gpur_run_event *event)
{
    (void)user;
    if (event->kind == GPUR_RUN_EVALUATION)
        printf("step %lld: %lld episodes by the weights of train step %lld return %.1f +- %.1f\n",
               (long long)event->env_steps, (long long)event->episodes, (long long)event->version, event->mean_return,
               event->return_deviation);
}

/* The presets set what their systems specify, for this environment; the rest is the program's. */
static void make_fast_dqn(training *t, const char *preset, gpur_run_config *run)
{
    gpur_field fields[GPUR_FAST_DQN_FIELDS];
    gpur_replay_config memory;
    gpur_dqn_config dqn;
    gpur_fast_dqn_config config;
    must(gpur_replay_config_init(&memory, sizeof memory));
    must(gpur_dqn_config_init(&dqn, sizeof dqn));
    must(gpur_fast_dqn_config_init(&config, sizeof config));
    must(gpur_fast_dqn_preset(preset, run, fields, &memory, &dqn, &config));
    dqn.exploration.steps = 10000; /* a short training */
    run->eval_period = 5 * PERIOD, run->eval_episodes = EPISODES;
    must(gpur_replay_create(t->device, &memory, &t->replay));
    must(gpur_dqn_create(t->replay, &dqn, &t->learner));
    must(gpur_fast_dqn_create(t->learner, run, &config, &t->run));
}

static void make_apex(training *t, const char *preset, gpur_run_config *run)
{
    gpur_field fields[GPUR_APEX_FIELDS];
    gpur_replay_config memory;
    gpur_dqn_config dqn;
    gpur_apex_config config;
    must(gpur_replay_config_init(&memory, sizeof memory));
    must(gpur_dqn_config_init(&dqn, sizeof dqn));
    must(gpur_apex_config_init(&config, sizeof config));
    config.actors = 4;
    must(gpur_apex_preset(preset, run, fields, &memory, &dqn, NULL, &config));
    run->eval_period = 5 * PERIOD, run->eval_episodes = EPISODES;
    must(gpur_replay_create(t->device, &memory, &t->replay));
    must(gpur_dqn_create(t->replay, &dqn, &t->learner));
    must(gpur_apex_create(t->learner, run, &config, &t->run));
}

static void make_ga3c(training *t, const char *preset, gpur_run_config *run)
{
    gpur_actor_critic_config actor_critic;
    gpur_ga3c_config config;
    must(gpur_actor_critic_config_init(&actor_critic, sizeof actor_critic));
    must(gpur_ga3c_config_init(&config, sizeof config));
    must(gpur_ga3c_preset(preset, run, &actor_critic, &config));
    actor_critic.max_batch = config.agents * config.t_max; /* as A2C needs */
    run->eval_period = 5 * PERIOD, run->eval_episodes = EPISODES;
    must(gpur_actor_critic_create(t->device, &actor_critic, &t->learner));
    must(gpur_ga3c_create(t->learner, run, &config, &t->run));
}

/* Takes the steps, or fewer after Ctrl-C, and then those up to where the run can be saved. */
static void advance(gpur_run *run, int64_t steps)
{
    gpur_run_stats stats = {.size = sizeof stats};
    const gpur_status status = gpur_run_advance(run, steps, 0);
    must(status == GPUR_INTERRUPTED ? GPUR_OK : status);
    must(gpur_run_get_stats(run, &stats));
    signal(SIGINT, SIG_DFL); /* once more ends the program at once */
    must(gpur_run_advance(run, (PERIOD - stats.env_steps % PERIOD) % PERIOD, 0));
}

static int32_t system_of(const char *preset)
{
    int32_t system = -1;
    const char *name = "";
    for (int32_t i = 0; name && strcmp(name, preset) != 0; i++)
        name = gpur_preset_name(i, &system);
    return name ? system : -1;
}

int main(int argc, char **argv)
{
    const char *const preset = argc > 2 ? argv[2] : "fast-dqn-small", *const folder = argc > 4 ? argv[4] : NULL;
    gpur_run_config run;
    gpur_run_event last = {.size = sizeof last};
    training t = {0};
    must(gpur_device_open(argc > 1 ? argv[1] : "auto", NULL, &t.device));
    must(gpur_run_config_init(&run, sizeof run));
    must(gpur_env_find("CartPole-v1", &run.type));
    run.on_event = on_event;
    if (system_of(preset) == GPUR_PRESET_FAST_DQN)
        make_fast_dqn(&t, preset, &run);
    else if (system_of(preset) == GPUR_PRESET_APEX_DQN)
        make_apex(&t, preset, &run);
    else
        make_ga3c(&t, preset, &run); /* refuses names that it does not know */
    if (folder && access(folder, F_OK) == 0)
        must(gpur_run_load(t.run, folder, 0));

    running = t.run;
    signal(SIGINT, on_interrupt);
    advance(t.run, argc > 3 ? atoll(argv[3]) : 19000);
    must(gpur_run_evaluate(t.run, 0, 0, &last)); /* on_event prints it */
    if (folder)
        must(gpur_run_save(t.run, folder));
    gpur_run_destroy(t.run);
    gpur_learner_destroy(t.learner);
    gpur_replay_destroy(t.replay);
    gpur_device_close(t.device);
    return last.mean_return > 50 ? 0 : 1;
}
