/* SPDX-License-Identifier: MIT */
/*
 * How fast a replay takes blocks of Atari frames while it is trained on. Blocks of 50 transitions of 84 x 84 frames,
 * stacks of 4, each frame once, are packed beforehand. One thread appends them at an offered rate, as they would come
 * from actors, and another trains by priority, so that both share the machine.
 *
 * The paper's actors send 12,500 transitions a second [Horgan et al. 2018, section 4.1]: that is offered first, for
 * long enough to see whether memory stays bounded. Then the rate is doubled until less than 95% of it is accepted.
 * Reference: the same transitions by gpur_writer_step_ex, a step at a time, as fast as it goes.
 *
 * The network is small, that a CPU can train it: that of Mnih et al. 2013 (16 filters of 8 x 8 at stride 4, 32 of 4 x 4
 * at stride 2, 256 units), batches of 32.
 */
#include "bench/lib/bench.h"
#include "bench/lib/setup.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    ROWS = 50,     /* of a block */
    BLOCKS = 100,  /* that differ */
    STEPS = 10000, /* room for those that the blocks take; each has a frame of its own */
    CAPACITY = 50000,
    QUICK_CAPACITY = 6400,
    TRAIN_STEPS = 10, /* of a launch: weights are published after so many */
    PARTS = 10,       /* a step of the rate takes this part of the first one's seconds */
    MOST_STEPS = 12,  /* of the rate */
};
static const double paper_rate = 12500, accepted_at_least = 0.95;

static const gpur_field fields[] = {{"obs", GPUR_UINT8, {STACK, 84, 84}}, {"action", GPUR_INT32, {0}},
                                    {"reward", GPUR_FLOAT32, {0}},        {"next_obs", GPUR_UINT8, {STACK, 84, 84}},
                                    {"terminated", GPUR_BOOL, {0}},       {"truncated", GPUR_BOOL, {0}},
                                    {"discount", GPUR_FLOAT32, {0}},      {"priority", GPUR_FLOAT32, {0}}};
enum { FIELDS = sizeof fields / sizeof *fields };
static const float no_priority = NAN; /* the largest in the window */
static const void *const extras[FIELDS] = {[FIELDS - 1] = &no_priority};

/* Steps of an environment, and the blocks of them. */
typedef struct pool {
    unsigned char *frames; /* (STEPS, FRAME_BYTES) of noise */
    unsigned char *blocks[BLOCKS];
    int64_t bytes[BLOCKS];
    double row_bytes; /* of blocks, a transition */
} pool;

static const unsigned char *frame_of(const pool *p, int64_t step)
{
    return p->frames + step % STEPS * FRAME_BYTES;
}

static int ends_episode(int64_t step)
{
    return step % EPISODE == EPISODE - 1;
}

static void pack_step(gpur_packer *packer, const pool *p, int64_t step)
{
    const int32_t action = (int32_t)(step % 4);
    const gpur_packer_step_input input = {.size = sizeof input,
                                          .action = &action,
                                          .reward = (float)(step % 3) - 1.0f,
                                          .terminated = (uint8_t)ends_episode(step),
                                          .next_obs = frame_of(p, step + 1),
                                          .extras = extras};
    if (step % EPISODE == 0)
        bench_must(gpur_packer_reset(packer, frame_of(p, step)), "reset");
    bench_must(gpur_packer_step(packer, &input), "step");
}

static int64_t take_blocks(gpur_packer *packer, pool *p, int64_t count)
{
    const void *block;
    int64_t bytes;
    while (count < BLOCKS) {
        bench_must(gpur_packer_take(packer, 0, &block, &bytes), "block");
        if (!block)
            break;
        p->blocks[count] = bench_allocate((size_t)bytes);
        memcpy(p->blocks[count], block, (size_t)bytes);
        p->bytes[count++] = bytes;
        p->row_bytes += (double)bytes / (BLOCKS * ROWS);
    }
    return count;
}

static pool make_pool(const gpur_replay_config *replay)
{
    pool p = {.frames = bench_allocate((size_t)STEPS * FRAME_BYTES)};
    gpur_block_format *format = NULL;
    gpur_packer_config config;
    gpur_packer *packer = NULL;
    uint64_t state = 3;
    for (int64_t i = 0; i < (int64_t)STEPS * FRAME_BYTES / 8; i++) {
        const uint64_t bits = bench_random(&state);
        memcpy(p.frames + 8 * i, &bits, sizeof bits);
    }
    bench_must(gpur_block_format_create(replay, &format), "format");
    bench_must(gpur_packer_config_init(&config, sizeof config), "packer config");
    config.rows = ROWS;
    config.observations = GPUR_OBSERVATIONS_FRAMES;
    bench_must(gpur_packer_create(format, &config, &packer), "packer");
    int64_t taken = 0;
    for (int64_t step = 0; taken < BLOCKS; step++) {
        pack_step(packer, &p, step);
        taken = take_blocks(packer, &p, taken);
    }
    gpur_packer_destroy(packer);
    gpur_block_format_destroy(format);
    return p;
}

static void free_pool(pool *p)
{
    for (int i = 0; i < BLOCKS; i++)
        free(p->blocks[i]);
    free(p->frames);
}

/* What is offered, and what became of it. */
typedef struct feed {
    const pool *pool;
    gpur_writer *writer;
    gpur_learner *learner;
    int by_step;
    double row_bytes; /* that come with a transition */
    double rate;      /* transitions a second; 0: as many as are accepted */
    double seconds;
    int64_t rows; /* accepted */
    double took;
    _Atomic int has_ended;
    double train_rate;                            /* train steps a second */
    double start_bytes, highest_bytes, end_bytes; /* of memory of this process */
} feed;

static void append_block(feed *f)
{
    const int64_t i = f->rows / ROWS % BLOCKS;
    bench_must(gpur_writer_append_block(f->writer, f->pool->blocks[i], f->pool->bytes[i], NULL), "append");
    f->rows += ROWS;
}

static void take_steps(feed *f)
{
    for (int i = 0; i < ROWS; i++) {
        const int64_t step = f->rows++;
        const int32_t action = (int32_t)(step % 4);
        const float reward = (float)(step % 3) - 1.0f;
        const uint8_t terminated = (uint8_t)ends_episode(step);
        const gpur_step_input input = {.size = sizeof input,
                                       .action = &action,
                                       .reward = &reward,
                                       .next_obs = frame_of(f->pool, step + 1),
                                       .terminated = &terminated,
                                       .extras = extras};
        if (step % EPISODE == 0)
            bench_must(gpur_writer_reset(f->writer, 0, frame_of(f->pool, step)), "reset");
        bench_must(gpur_writer_step_ex(f->writer, &input), "step");
    }
}

static void sleep_until(double time)
{
    for (double left = time - bench_now(); left > 0; left = time - bench_now())
        nanosleep(&(struct timespec){.tv_sec = (time_t)left, .tv_nsec = (long)((left - (double)(time_t)left) * 1e9)},
                  NULL);
}

/* Blocks are due at equal distances, whether or not those before were accepted in time. */
static void *offer(void *context)
{
    feed *const f = context;
    const double begin = bench_now(), end = begin + f->seconds;
    for (double due = begin; due < end && bench_now() < end;) {
        sleep_until(due);
        if (f->by_step)
            take_steps(f);
        else
            append_block(f);
        due = f->rate > 0 ? begin + (double)f->rows / f->rate : begin;
    }
    sleep_until(end);
    f->took = bench_now() - begin;
    atomic_store(&f->has_ended, 1);
    return NULL;
}

static double resident_bytes(void)
{
    long long pages = 0;
    FILE *const file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%*d %lld", &pages) != 1)
        pages = 0;
    if (file)
        fclose(file);
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

/* Trains while the other thread appends. */
static void run_feed(bench_report *report, const char *name, feed *f)
{
    pthread_t thread;
    int64_t steps = 0;
    f->start_bytes = f->highest_bytes = resident_bytes();
    const double begin = bench_now();
    if (pthread_create(&thread, NULL, offer, f) != 0)
        fprintf(stderr, "no thread to append\n"), exit(1);
    for (; !atomic_load(&f->has_ended); steps += TRAIN_STEPS) {
        bench_show(report, name, 0); /* ends the program after Ctrl-C */
        bench_must(gpur_learner_train(f->learner, TRAIN_STEPS), "train");
        bench_must(gpur_learner_sync(f->learner), "sync");
        const double bytes = resident_bytes();
        f->highest_bytes = bytes > f->highest_bytes ? bytes : f->highest_bytes;
    }
    f->train_rate = (double)steps / (bench_now() - begin);
    pthread_join(thread, NULL);
    f->end_bytes = resident_bytes();
    bench_hide();
}

static double accepted(const feed *f)
{
    return (double)f->rows / f->took;
}

static void report_feed(bench_report *report, const char *name, const feed *f)
{
    const double mega = f->row_bytes / 1e6, mebi = 1 << 20;
    char offered[32] = "all", offered_bytes[32] = "";
    if (f->rate > 0) {
        snprintf(offered, sizeof offered, "%.0f", f->rate);
        snprintf(offered_bytes, sizeof offered_bytes, "%.1f", f->rate * mega);
    }
    printf("%-22s %9s %8s %10.0f %8.1f %9.1f %9.0f %9.0f %9.0f\n", name, offered, offered_bytes, accepted(f),
           accepted(f) * mega, f->train_rate, f->start_bytes / mebi, f->highest_bytes / mebi, f->end_bytes / mebi);
    fflush(stdout);
    json_case(&report->json, name);
    json_number(&report->json, "seconds", f->took);
    json_number(&report->json, "row_bytes", f->row_bytes);
    json_number(&report->json, "offered", f->rate); /* 0: all that is accepted */
    json_number(&report->json, "accepted", accepted(f));
    json_number(&report->json, "train_steps", f->train_rate); /* a second */
    json_number(&report->json, "start_bytes", f->start_bytes);
    json_number(&report->json, "highest_bytes", f->highest_bytes);
    json_number(&report->json, "end_bytes", f->end_bytes);
    json_close_case(&report->json);
    report->done++;
}

/* One way into the replay, at one rate. */
static feed measure(bench_report *report, const feed *common, const char *name, double rate, double seconds)
{
    feed f = *common;
    if (!bench_wants(report, name))
        return f;
    f.rate = rate;
    f.seconds = seconds;
    run_feed(report, name, &f);
    report_feed(report, name, &f);
    return f;
}

static gpur_replay_config settings_of(const bench_options *options)
{
    gpur_replay_config config;
    bench_must(gpur_replay_config_init(&config, sizeof config), "replay config");
    bench_must(gpur_replay_config_preset(&config, "apex-dqn"), "preset");
    config.fields = fields, config.field_count = FIELDS;
    config.capacity = options->quick ? QUICK_CAPACITY : CAPACITY;
    config.min_size = 1000;
    config.max_batch = 256;
    config.extra_frames = config.capacity / 4; /* each block has some frames again, and padding */
    return config;
}

static gpur_learner *open_learner(gpur_replay *replay, int32_t math)
{
    gpur_dqn_config config;
    gpur_learner *learner = NULL;
    bench_must(gpur_dqn_config_init(&config, sizeof config), "learner config");
    bench_must(gpur_dqn_config_preset(&config, "apex-dqn"), "preset");
    gpur_network_config *const network = &config.network;
    network->trunk[0] = (gpur_layer){.kind = GPUR_CONV, .units = 16, .activation = GPUR_RELU, .kernel = 8, .stride = 4};
    network->trunk[1] = (gpur_layer){.kind = GPUR_CONV, .units = 32, .activation = GPUR_RELU, .kernel = 4, .stride = 2};
    network->trunk[2] = (gpur_layer){.kind = GPUR_DENSE, .units = 256, .activation = GPUR_RELU};
    network->trunk_count = 3;
    network->head = GPUR_HEAD_Q;
    network->hidden = 0;
    network->num_actions = 4;
    config.batch_size = 32;
    config.math = math;
    bench_must(gpur_dqn_create(replay, &config, &learner), "learner");
    return learner;
}

static gpur_writer *open_writer(gpur_replay *replay)
{
    gpur_writer_config config;
    gpur_writer *writer = NULL;
    bench_must(gpur_writer_config_init(&config, sizeof config), "writer config");
    config.observations = GPUR_OBSERVATIONS_FRAMES;
    bench_must(gpur_writer_open(replay, &config, &writer), "writer");
    return writer;
}

/* The rate is doubled until too little of it is accepted. */
static void find_knee(bench_report *report, const feed *common, double seconds)
{
    double rate = paper_rate;
    for (int i = 0; i < MOST_STEPS; i++, rate *= 2) {
        char name[32];
        snprintf(name, sizeof name, "blocks, x %d", 1 << i);
        const feed f = measure(report, common, name, rate, seconds);
        if (accepted(&f) < accepted_at_least * rate)
            return;
    }
}

static void run_all(bench_report *report, const gpur_replay_config *config, gpur_replay *replay, int32_t math,
                    double seconds)
{
    enum { MOST_GROWTH = 64 }; /* MiB: buffers that are first used during the run */
    pool p = make_pool(config);
    feed blocks = {
        .pool = &p, .writer = open_writer(replay), .learner = open_learner(replay, math), .row_bytes = p.row_bytes};
    feed steps = blocks;
    steps.by_step = 1;
    steps.row_bytes = FRAME_BYTES;
    while (blocks.rows < config->capacity) /* a full ring has all of its pages */
        append_block(&blocks);
    bench_must(gpur_learner_train(blocks.learner, TRAIN_STEPS), "train");
    blocks.rows = 0;
    printf("transitions of %.0f bytes in blocks; a second: offered, accepted, train steps; MiB of memory: at the "
           "start, highest, "
           "at the end\n%-22s %9s %8s %10s %8s %9s %9s %9s %9s\n",
           p.row_bytes, "", "offered", "MB", "accepted", "MB", "trained", "start", "highest", "end");
    const feed paper = measure(report, &blocks, "blocks, 12,500 rows/s", paper_rate, seconds);
    find_knee(report, &blocks, seconds / PARTS);
    measure(report, &steps, "single steps", 0, seconds / PARTS);
    bench_check(report, "memory that grew by more than 64 MiB at 12,500 rows/s",
                paper.highest_bytes - paper.start_bytes > MOST_GROWTH * 1048576.0, 1);
    gpur_learner_destroy(blocks.learner);
    gpur_writer_destroy(blocks.writer);
    free_pool(&p);
}

int main(int argc, char **argv)
{
    int64_t seconds = 60, math = GPUR_MATH_FP32;
    const bench_option more[] = {
        {"seconds", "of the first rate; each other takes a tenth", 1, 86400, &seconds, .quick = 1}, BENCH_MATH(&math)};
    const bench_options options = bench_parse(argc, argv, "blocks of frames while training", more, 2);
    gpur_device *const device = bench_open(options.device, 0);
    bench_report report =
        bench_begin(&options, "blocks of frames while training", bench_describe_training(device, math), 0);
    const gpur_replay_config config = settings_of(&options);
    gpur_replay *const replay = bench_create(device, &config);
    run_all(&report, &config, replay, (int32_t)math, (double)seconds);
    gpur_replay_destroy(replay);
    gpur_device_close(device);
    return bench_end(&report);
}
