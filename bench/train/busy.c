/* SPDX-License-Identifier: MIT */
/*
 * Calls of the CPU device with its default threads against the same calls with one thread, while 0, 1, 2 and 4 other
 * processes keep the cores busy. Samples are single calls, ten of each variant alternately, so that both see the same
 * machine: the median and the 99th percentile of a call are what a user waits.
 */
#include "bench/lib/bench.h"
#include "bench/lib/setup.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DEFAULT, ONE, THREADS }; /* the variants */
enum { MAX_BUSY = 4, ROWS = 200000, BLOCK = 2000, UPDATED = 256, FRAMES_CAPACITY = 4000, ACTORS = 16 };

/* Everything that the calls work on, on a device of its own. */
enum { MELEE, PRIORITIZED, FRAMES, SMALL, REPLAYS };
enum { MELEE_32, MELEE_256, CARTPOLE, NATURE, LEARNERS };
typedef struct objects {
    gpur_device *device;
    gpur_replay *replay[REPLAYS];
    gpur_learner *learner[LEARNERS];
    gpur_writer *writer, *env_writer; /* of MELEE: one environment; ACTORS of them */
    const melee_row *rows;            /* (BLOCK) */
} objects;

/* One kind of call on them. */
struct call {
    const char *name;
    bench_body body;
    int index;     /* of the replay or learner */
    int64_t count; /* rows */
    int is_quick;  /* part of --quick */
};

typedef struct call_context {
    const objects *objects;
    const struct call *call;
} call_context;

static void append(void *context, int64_t repeats)
{
    const objects *const o = ((const call_context *)context)->objects;
    for (int64_t i = 0; i < repeats; i++)
        bench_must(gpur_writer_append(o->writer, BLOCK, o->rows, NULL), "append");
}

static void step(void *context, int64_t repeats)
{
    static const float obs[ACTORS][MELEE_OBS], rewards[ACTORS];
    static const int32_t actions[ACTORS];
    static const uint8_t terminated[ACTORS];
    const objects *const o = ((const call_context *)context)->objects;
    for (int64_t i = 0; i < repeats; i++)
        bench_must(gpur_writer_step(o->env_writer, actions, rewards, obs, terminated, NULL), "step");
}

static void sample(void *context, int64_t repeats)
{
    const call_context *const c = context;
    for (int64_t i = 0; i < repeats; i++)
        bench_sample(c->objects->replay[c->call->index], c->call->count);
}

/* Ids of UPDATED rows of the newer half, which the transitions still in staging cannot evict. */
static const int64_t *gather_ids(gpur_replay *replay)
{
    static int64_t ids[UPDATED];
    static uint64_t state = 2;
    gpur_replay_stats stats = {.size = sizeof stats};
    bench_must(gpur_replay_get_stats(replay, &stats), "stats");
    for (int i = 0; i < UPDATED; i++)
        ids[i] = stats.first_id + stats.visible - 1 - bench_random_below(&state, ROWS / 2);
    return ids;
}

static void gather(void *context, int64_t repeats)
{
    gpur_replay *const replay = ((const call_context *)context)->objects->replay[MELEE];
    for (int64_t i = 0; i < repeats; i++) {
        gpur_batch *batch = NULL;
        bench_must(gpur_replay_gather(replay, UPDATED, gather_ids(replay), NULL, &batch), "gather");
        bench_must(gpur_batch_sync(batch), "sync");
        gpur_batch_release(batch);
    }
}

static void update_priorities(void *context, int64_t repeats)
{
    static int64_t ids[UPDATED];
    static float errors[UPDATED];
    static uint64_t state = 1;
    gpur_replay *const replay = ((const call_context *)context)->objects->replay[PRIORITIZED];
    for (int64_t i = 0; i < repeats; i++) {
        for (int k = 0; k < UPDATED; k++) {
            ids[k] = bench_random_below(&state, ROWS);
            errors[k] = bench_random_unit(&state);
        }
        bench_must(gpur_replay_update_priorities(replay, UPDATED, ids, errors, NULL), "update");
    }
}

static void train(void *context, int64_t repeats)
{
    const call_context *const c = context;
    gpur_learner *const learner = c->objects->learner[c->call->index];
    for (int64_t i = 0; i < repeats; i++) {
        bench_must(gpur_learner_train(learner, 1), "train");
        bench_must(gpur_learner_sync(learner), "sync");
    }
}

static void train_ids(void *context, int64_t repeats)
{
    const objects *const o = ((const call_context *)context)->objects;
    for (int64_t i = 0; i < repeats; i++) {
        bench_must(gpur_learner_train_ids(o->learner[MELEE_256], gather_ids(o->replay[MELEE])), "train on ids");
        bench_must(gpur_learner_sync(o->learner[MELEE_256]), "sync");
    }
}

static void act(void *context, int64_t repeats)
{
    static uint8_t obs[ACTORS * STACK_BYTES]; /* more than enough for numbers, too */
    const call_context *const c = context;
    int32_t actions[ACTORS];
    for (int64_t i = 0; i < repeats; i++)
        bench_must(gpur_learner_act(c->objects->learner[c->call->index], ACTORS, obs, 0, actions, NULL), "act");
}

static const struct call calls[] = {
    {"append 2,000 rows of 228 bytes", append, MELEE, BLOCK, 1},
    {"step of 16 environments", step, MELEE, ACTORS, 0},
    {"sample 32", sample, MELEE, 32, 0},
    {"sample 512", sample, MELEE, 512, 1},
    {"sample 4,096", sample, MELEE, 4096, 0},
    {"draw 256 by priority", sample, PRIORITIZED, UPDATED, 0},
    {"gather 256 by id", gather, MELEE, UPDATED, 0},
    {"update 256 priorities", update_priorities, PRIORITIZED, UPDATED, 0},
    {"sample 32 stacks of 4 frames", sample, FRAMES, 32, 1},
    {"train step, cartpole", train, CARTPOLE, 0, 0},
    {"train step, melee-gpu, batch 32", train, MELEE_32, 0, 1},
    {"train step, melee-gpu, batch 256", train, MELEE_256, 0, 0},
    {"train step on given ids, melee-gpu, batch 256", train_ids, MELEE_256, 0, 0},
    {"train step, nature-dueling, batch 4", train, NATURE, 0, 0},
    {"act for 16, melee-gpu", act, MELEE_32, 0, 0},
    {"act for 16, nature-dueling", act, NATURE, 0, 0},
};
enum { CALLS = sizeof calls / sizeof *calls, QUICK_CALLS = 4 };

static gpur_replay *open_prioritized(gpur_device *device)
{
    gpur_replay_config config;
    bench_melee_config(&config, ROWS);
    config.prioritized = 1, config.index_source = GPUR_PRIORITIZED_STRATIFIED;
    gpur_replay *const replay = bench_create(device, &config);
    bench_melee_fill(replay, ROWS);
    return replay;
}

static void open_objects(objects *o, const char *device, int threads, const melee_row *rows, int quick)
{
    o->rows = rows;
    o->device = bench_open(device, threads);
    o->replay[MELEE] = bench_melee_replay(o->device, ROWS);
    bench_melee_fill(o->replay[MELEE], ROWS);
    o->writer = bench_writer(o->replay[MELEE]);
    bench_must(gpur_writer_create(o->replay[MELEE], ACTORS, &o->env_writer), "writer");
    for (int i = 0; i < ACTORS; i++)
        bench_must(gpur_writer_reset(o->env_writer, i, (const float[MELEE_OBS]){0}), "reset");
    o->learner[MELEE_32] = bench_learner(o->replay[MELEE], "melee-gpu", 32, MELEE_ACTIONS);
    o->replay[FRAMES] = bench_frames_replay(o->device, FRAMES_CAPACITY, GPUR_STACK_FIRST);
    if (quick)
        return;
    o->replay[PRIORITIZED] = open_prioritized(o->device);
    o->replay[SMALL] = bench_small_replay(o->device, 2 * SMALL_BLOCK, GPUR_UPLOAD_COPY);
    o->learner[MELEE_256] = bench_learner(o->replay[MELEE], "melee-gpu", 256, MELEE_ACTIONS);
    o->learner[CARTPOLE] = bench_learner(o->replay[SMALL], "cartpole", 0, 2);
    o->learner[NATURE] = bench_learner(o->replay[FRAMES], "nature-dueling", 4, 5);
}

static void close_objects(objects *o)
{
    for (int i = 0; i < LEARNERS; i++)
        gpur_learner_destroy(o->learner[i]);
    gpur_writer_destroy(o->writer);
    gpur_writer_destroy(o->env_writer);
    for (int i = 0; i < REPLAYS; i++)
        gpur_replay_destroy(o->replay[i]);
    gpur_device_close(o->device);
}

/* Forks the busy processes before this one has threads and much memory. They stop at once, run after SIGCONT, and die
 * with this process however it ends. */
static void start_busy(pid_t busy[MAX_BUSY])
{
    const pid_t parent = getpid();
    for (int i = 0; i < MAX_BUSY; i++) {
        int status = 0;
        busy[i] = fork();
        if (busy[i] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() == parent)
                raise(SIGSTOP);
            for (volatile uint64_t count = 0; getppid() == parent;)
                for (int k = 0; k < 100000000; k++)
                    count++;
            _exit(0);
        }
        if (busy[i] < 0 || waitpid(busy[i], &status, WUNTRACED) != busy[i]) {
            perror("a busy process");
            exit(1);
        }
    }
}

static void end_busy(const pid_t busy[MAX_BUSY])
{
    for (int i = 0; i < MAX_BUSY; i++) {
        kill(busy[i], SIGKILL);
        waitpid(busy[i], NULL, 0);
    }
}

static void run_call(bench_report *report, const struct call *call, int busy, const objects all[THREADS])
{
    char name[96];
    call_context contexts[THREADS] = {{&all[DEFAULT], call}, {&all[ONE], call}};
    snprintf(name, sizeof name, "%s, %d busy", call->name, busy);
    bench_case one = bench_versus(name, "call", 1, call->body, "one thread", call->body, contexts);
    one.figure = call->name, one.x_name = "busy processes", one.x = busy;
    one.goal = 1.3, one.single_calls = 1, one.limit = 240;
    one.variants[DEFAULT].name = "default threads";
    one.variants[ONE].context = &contexts[ONE];
    call->body(&contexts[DEFAULT], 10); /* warms up */
    call->body(&contexts[ONE], 10);
    bench_run(report, &one);
}

int main(int argc, char **argv)
{
    static const int counts[] = {0, 1, 2, MAX_BUSY};
    static objects all[THREADS];
    const bench_options options = bench_parse(argc, argv, "calls beside busy processes, by threads", NULL, 0);
    const int steps = options.quick ? 2 : 4;
    pid_t busy[MAX_BUSY];
    if (strcmp(options.device, "cpu") != 0) {
        printf("bench_busy: other processes do not keep %s busy; only the CPU device is measured\n", options.device);
        return 0;
    }
    start_busy(busy);
    melee_row *const rows = bench_new_melee_rows(BLOCK);
    open_objects(&all[DEFAULT], options.device, 0, rows, options.quick);
    open_objects(&all[ONE], options.device, 1, rows, options.quick);
    bench_report report = bench_begin(&options, "calls beside busy processes", bench_describe(all[DEFAULT].device),
                                      steps * (options.quick ? QUICK_CALLS : CALLS));
    for (int i = 0, running = 0; i < steps; i++) {
        for (; running < counts[i]; running++)
            kill(busy[running], SIGCONT);
        for (int c = 0; c < CALLS; c++)
            if (!options.quick || calls[c].is_quick)
                run_call(&report, &calls[c], counts[i], all);
    }
    end_busy(busy);
    for (int t = 0; t < THREADS; t++)
        close_objects(&all[t]);
    free(rows);
    return bench_end(&report);
}
