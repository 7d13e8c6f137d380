/* SPDX-License-Identifier: MIT */
/*
 * An actor beside a learner, as in Ape-X [Horgan et al. 2018, algorithms 1 and 2]. The actor acts by a policy, and
 * packs its steps into blocks of bytes, with a first priority for each transition. The learner appends the blocks,
 * trains by priority, gives the policy its weights, and trims the replay. Here both are threads, with a socket between
 * them. (Weights are bytes, too: gpur_policy_get_weights.) The task is to walk a corridor of ten cells to its end.
 */
#include "must.h"

#include <gpureplay.h>

#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LONGEST = 50, BLOCKS = 100, TRAIN_STEPS = 40, KEEP = 3000 };

typedef struct actor {
    gpur_block_format *format;
    gpur_policy *policy;
    int socket; /* to the learner */
} actor;

/* Sends the blocks that are full. Returns 0 if the learner has closed the socket. */
static int send_blocks(const actor *a, gpur_packer *packer)
{
    for (;;) {
        const void *block;
        int64_t bytes;
        must(gpur_packer_take(packer, 0, &block, &bytes));
        if (!block || send(a->socket, block, (size_t)bytes, MSG_NOSIGNAL) < 0) /* waits for room */
            return !block;
    }
}

/* An episode, in which a quarter of the actions are random. Returns 0 if the learner has closed the socket. */
static int walk(const actor *a, gpur_packer *packer)
{
    float obs = 0, q[2];
    int32_t action; /* 0: left, 1: right */
    gpur_packer_step_input step = {.size = sizeof step, .action = &action, .next_obs = &obs, .q = q};
    const gpur_policy_input input = {.size = sizeof input, .count = 1, .obs = &obs, .epsilon = &(float){0.25f}};
    const gpur_policy_output output = {.size = sizeof output, .actions = &action, .q = q, .version = &step.version};
    must(gpur_packer_reset(packer, &obs));
    for (int age = 1; send_blocks(a, packer); age++) {
        if (step.terminated || step.truncated)
            return 1;
        must(gpur_policy_act(a->policy, &input, &output));
        obs += action ? 0.1f : obs > 0.05f ? -0.1f : 0;
        step.terminated = obs > 0.85f, step.truncated = age == LONGEST, step.reward = step.terminated;
        must(gpur_packer_step(packer, &step));
    }
    return 0;
}

/* The thread of the actor. */
static void *act(void *user)
{
    const actor *const a = user;
    gpur_packer *packer;
    gpur_packer_config config;
    must(gpur_packer_config_init(&config, sizeof config));
    config.num_actions = 2;
    must(gpur_packer_create(a->format, &config, &packer));
    while (walk(a, packer))
        ;
    gpur_packer_destroy(packer);
    return NULL;
}

static const gpur_field fields[] = {
    {"obs", GPUR_FLOAT32, {1}},      {"action", GPUR_INT32, {0}},    {"reward", GPUR_FLOAT32, {0}},
    {"next_obs", GPUR_FLOAT32, {1}}, {"terminated", GPUR_BOOL, {0}}, {"priority", GPUR_FLOAT32, {0}},
};

int main(int argc, char **argv)
{
    static char block[65536];
    gpur_replay_config memory;
    gpur_dqn_config dqn;
    gpur_policy_config acting;
    gpur_device *device;
    gpur_replay *replay;
    gpur_writer *writer;
    gpur_learner *learner;
    gpur_block_info info = {.size = sizeof info};
    actor a;
    pthread_t thread;
    int ends[2];
    must(gpur_device_open(argc > 1 ? argv[1] : "auto", NULL, &device));
    must(gpur_replay_config_init(&memory, sizeof memory));
    memory.capacity = 2 * KEEP, memory.min_size = 200, memory.prioritized = 1, memory.gamma = 0.9f;
    memory.fields = fields, memory.field_count = 6;
    must(gpur_replay_create(device, &memory, &replay));
    must(gpur_writer_create(replay, 1, &writer));
    must(gpur_dqn_config_init(&dqn, sizeof dqn));
    dqn.network.num_actions = 2, dqn.target_period = 100;
    must(gpur_dqn_create(replay, &dqn, &learner));
    must(gpur_policy_config_init(&acting, sizeof acting));
    acting.network = dqn.network, acting.obs = fields[0];
    must(gpur_policy_create(device, &acting, &a.policy));
    must(gpur_block_format_create(&memory, &a.format));
    /* A message is a block. The least possible buffer has room for two, so that the actor's weights are not old. */
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) != 0 ||
        setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &(int){1}, sizeof(int)) != 0 ||
        (a.socket = ends[0], pthread_create(&thread, NULL, act, &a)) != 0)
        return perror("actor_learner"), 2;

    for (int i = 1; i <= BLOCKS; i++) {
        must(gpur_writer_append_block(writer, block, recv(ends[1], block, sizeof block, 0), &info));
        if (gpur_replay_can_sample(replay))
            must(gpur_learner_train(learner, TRAIN_STEPS));
        must(gpur_policy_pull(a.policy, learner, GPUR_WEIGHTS_ONLINE)); /* by which the actor's next step acts */
        if (i % 10 == 0)
            must(gpur_replay_trim(replay, KEEP)); /* between two trims nothing is overwritten */
    }
    close(ends[1]);
    pthread_join(thread, NULL);
    close(ends[0]);
    float q[2];
    must(gpur_learner_q_values(learner, 1, &(float){0}, q, NULL));
    printf("at the left end: left is worth %.3f, right %.3f (0.9^8 = 0.430)\n", (double)q[0], (double)q[1]);
    printf("weights of train step %lld acted in the last block\n", (long long)info.version);
    gpur_policy_destroy(a.policy);
    gpur_block_format_destroy(a.format);
    gpur_learner_destroy(learner);
    gpur_writer_destroy(writer);
    gpur_replay_destroy(replay);
    gpur_device_close(device);
    return q[1] > 0.38f && q[1] < 0.48f && q[1] > q[0] ? 0 : 1;
}
