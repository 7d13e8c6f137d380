/* SPDX-License-Identifier: MIT */
/*
 * Calls of the CPU device with its default threads against the same calls with one thread, where 0, 1, 2 and 4 other
 * processes keep the cores busy. The two take turns, ten calls each, so that both see the same machine. A round is 50
 * calls of each.
 *
 * Figures are of single calls: the median and the 99th percentile. The ratio is of the medians over all calls; its
 * interval is that of the rounds' ratios. A case ends after 20 seconds with as many rounds as it then has.
 */
#include "bench.h"
#include "json.h"
#include "setup.h"
#include "times.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    DEFAULT,
    ONE,
    SIDES,
    MOST_BUSY = 4,
    TURN = 10,
    ROUND = 50,
    ROWS = 200000,
    BLOCK = 2000,
    UPDATED = 256,
    FRAMES = 4000,
    FRAME_BYTES = 84 * 84,
    ACTORS = 16,
    MOST_DRAWN = 4096
};
static const double most_seconds = 240;

/* All that operations work on; one with the default threads, one with one thread. */
typedef struct side {
    gpur_device *device;
    gpur_replay *melee, *ranked, *linked, *small;
    gpur_writer *writer, *actors; /* of melee: one environment; ACTORS of them */
    gpur_learner *melee_32, *melee_256, *cartpole, *nature;
    const melee_row *rows; /* (BLOCK) */
} side;

typedef struct operation {
    const char *name;
    void (*run)(side *s);
    int is_quick; /* --quick has it */
} operation;

static void append(side *s)
{
    bench_must(gpur_writer_append(s->writer, BLOCK, s->rows, NULL), "append");
}

static void step(side *s)
{
    static const float obs[ACTORS][MELEE_OBS], rewards[ACTORS];
    static const int32_t actions[ACTORS];
    static const uint8_t terminated[ACTORS];
    bench_must(gpur_writer_step(s->actors, actions, rewards, obs, terminated, NULL), "step");
}

static void draw(gpur_replay *replay, int64_t count)
{
    gpur_batch *batch = NULL;
    bench_must(gpur_replay_sample(replay, count, NULL, &batch), "sample");
    bench_must(gpur_batch_sync(batch), "sync");
    gpur_batch_release(batch);
}

static void sample_32(side *s)
{
    draw(s->melee, 32);
}

static void sample_512(side *s)
{
    draw(s->melee, 512);
}

static void sample_4096(side *s)
{
    draw(s->melee, MOST_DRAWN);
}

static void draw_ranked(side *s)
{
    draw(s->ranked, UPDATED);
}

static uint64_t next_random(void)
{
    static uint64_t state = 1;
    return (state = state * 6364136223846793005ull + 1442695040888963407ull) >> 33;
}

/* Ids of newer rows of the replay, which what is staged cannot overwrite. */
static const int64_t *draw_ids(gpur_replay *replay)
{
    static int64_t ids[UPDATED];
    gpur_replay_stats stats = {.size = sizeof stats};
    bench_must(gpur_replay_get_stats(replay, &stats), "stats");
    for (int i = 0; i < UPDATED; i++)
        ids[i] = stats.first_id + stats.visible - 1 - (int64_t)(next_random() % (ROWS / 2));
    return ids;
}

static void gather(side *s)
{
    gpur_batch *batch = NULL;
    bench_must(gpur_replay_gather(s->melee, UPDATED, draw_ids(s->melee), NULL, &batch), "gather");
    bench_must(gpur_batch_sync(batch), "sync");
    gpur_batch_release(batch);
}

static void update_priorities(side *s)
{
    static int64_t ids[UPDATED];
    static float errors[UPDATED];
    for (int i = 0; i < UPDATED; i++) {
        ids[i] = (int64_t)(next_random() % ROWS);
        errors[i] = (float)next_random() * 0x1p-31f;
    }
    bench_must(gpur_replay_update_priorities(s->ranked, UPDATED, ids, errors, NULL), "update");
}

static void sample_frames(side *s)
{
    draw(s->linked, 32);
}

static void train(gpur_learner *learner)
{
    bench_must(gpur_learner_train(learner, 1), "train");
    bench_must(gpur_learner_sync(learner), "sync");
}

static void train_cartpole(side *s)
{
    train(s->cartpole);
}

static void train_melee_32(side *s)
{
    train(s->melee_32);
}

static void train_melee_256(side *s)
{
    train(s->melee_256);
}

static void train_ids(side *s)
{
    bench_must(gpur_learner_train_on(s->melee_256, draw_ids(s->melee)), "train on ids");
    bench_must(gpur_learner_sync(s->melee_256), "sync");
}

static void train_nature(side *s)
{
    train(s->nature);
}

static void act(side *s)
{
    static float obs[ACTORS][MELEE_OBS];
    int32_t actions[ACTORS];
    bench_must(gpur_learner_act(s->melee_32, ACTORS, obs, 0, actions, NULL), "act");
}

static void act_nature(side *s)
{
    static uint8_t obs[ACTORS][4 * FRAME_BYTES];
    int32_t actions[ACTORS];
    bench_must(gpur_learner_act(s->nature, ACTORS, obs, 0, actions, NULL), "act");
}

static const operation operations[] = {
    {"append 2,000 rows of 228 bytes", append, 1},
    {"step of 16 environments", step, 0},
    {"sample 32", sample_32, 0},
    {"sample 512", sample_512, 1},
    {"sample 4,096", sample_4096, 0},
    {"draw 256 by priority", draw_ranked, 0},
    {"gather 256 by id", gather, 0},
    {"update 256 priorities", update_priorities, 0},
    {"sample 32 stacks of 4 frames", sample_frames, 1},
    {"train step, cartpole", train_cartpole, 0},
    {"train step, melee-gpu, batch 32", train_melee_32, 1},
    {"train step, melee-gpu, batch 256", train_melee_256, 0},
    {"train step on given ids, melee-gpu, batch 256", train_ids, 0},
    {"train step, nature-dueling, batch 4", train_nature, 0},
    {"act for 16, melee-gpu", act, 0},
    {"act for 16, nature-dueling", act_nature, 0},
};
enum { OPERATIONS = sizeof operations / sizeof *operations };

static gpur_learner *open_learner(gpur_replay *replay, const char *preset, int32_t outputs, int64_t batch)
{
    gpur_learner_config config;
    gpur_learner *learner = NULL;
    bench_must(gpur_learner_config_init(&config, sizeof config), "learner config");
    bench_must(gpur_learner_config_preset(&config, preset), preset);
    config.network.outputs = outputs;
    if (batch > 0)
        config.batch_size = batch;
    bench_must(gpur_learner_create(replay, &config, &learner), "learner");
    return learner;
}

static gpur_replay *open_ranked(gpur_device *device)
{
    gpur_replay_config config;
    gpur_replay *replay = NULL;
    bench_melee_config(&config, ROWS);
    config.prioritized = 1, config.index_source = GPUR_PRIORITIZED;
    bench_must(gpur_replay_create(device, &config, &replay), "prioritized replay");
    bench_fill(replay, ROWS);
    return replay;
}

/* Of CartPole's observations. */
static gpur_replay *open_small(gpur_device *device)
{
    static const gpur_field fields[] = {{"obs", GPUR_FLOAT32, {4}},
                                        {"action", GPUR_INT32, {0}},
                                        {"reward", GPUR_FLOAT32, {0}},
                                        {"next_obs", GPUR_FLOAT32, {4}},
                                        {"terminated", GPUR_BOOL, {0}}};
    enum { COUNT = 1000 };
    static const struct {
        float obs[COUNT][4], reward[COUNT];
        int32_t action[COUNT];
        uint8_t terminated[COUNT];
    } zeros;
    gpur_replay_config config;
    gpur_replay *replay = NULL;
    gpur_writer *writer = NULL;
    bench_must(gpur_replay_config_init(&config, sizeof config), "replay config");
    config.capacity = 20 * COUNT, config.fields = fields, config.field_count = 5;
    bench_must(gpur_replay_create(device, &config, &replay), "small replay");
    bench_must(gpur_writer_create(replay, 1, &writer), "writer");
    const void *const arrays[] = {zeros.obs, zeros.action, zeros.reward, zeros.obs, zeros.terminated};
    for (int i = 0; i < 20; i++)
        bench_must(gpur_writer_append_fields(writer, COUNT, arrays, NULL, NULL), "append");
    gpur_writer_destroy(writer);
    return replay;
}

/* Atari's stacks of four frames, each stored once. */
static gpur_replay *open_linked(gpur_device *device)
{
    static const gpur_field fields[] = {{"obs", GPUR_UINT8, {4, 84, 84}},
                                        {"action", GPUR_INT32, {0}},
                                        {"reward", GPUR_FLOAT32, {0}},
                                        {"next_obs", GPUR_UINT8, {4, 84, 84}},
                                        {"terminated", GPUR_BOOL, {0}}};
    static uint8_t frame[FRAME_BYTES];
    const uint8_t terminated = 0;
    gpur_replay_config config;
    gpur_writer_config frames;
    gpur_replay *replay = NULL;
    gpur_writer *writer = NULL;
    bench_must(gpur_replay_config_init(&config, sizeof config), "replay config");
    bench_must(gpur_replay_config_preset(&config, "nature-dueling"), "preset");
    config.capacity = FRAMES, config.min_size = 100, config.fields = fields, config.field_count = 5;
    bench_must(gpur_replay_create(device, &config, &replay), "linked replay");
    bench_must(gpur_writer_config_init(&frames, sizeof frames), "writer config");
    frames.input = GPUR_INPUT_FRAMES;
    bench_must(gpur_writer_open(replay, &frames, &writer), "writer");
    bench_must(gpur_writer_reset(writer, 0, frame), "reset");
    for (int32_t i = 0; i < FRAMES; i++) {
        memset(frame, i & 255, sizeof frame);
        bench_must(gpur_writer_step(writer, &(int32_t){i % 5}, &(float){0}, frame, &terminated, NULL), "step");
    }
    gpur_writer_destroy(writer);
    return replay;
}

static void open_side(side *s, const char *device, int threads, const melee_row *rows, int quick)
{
    s->rows = rows;
    s->device = bench_open(device, threads);
    s->melee = bench_melee_replay(s->device, ROWS);
    bench_fill(s->melee, ROWS);
    bench_must(gpur_writer_create(s->melee, 1, &s->writer), "writer");
    bench_must(gpur_writer_create(s->melee, ACTORS, &s->actors), "writer");
    for (int i = 0; i < ACTORS; i++)
        bench_must(gpur_writer_reset(s->actors, i, (const float[MELEE_OBS]){0}), "reset");
    s->melee_32 = open_learner(s->melee, "melee-gpu", MELEE_ACTIONS, 32);
    s->linked = open_linked(s->device);
    if (quick)
        return;
    s->ranked = open_ranked(s->device);
    s->small = open_small(s->device);
    s->melee_256 = open_learner(s->melee, "melee-gpu", MELEE_ACTIONS, 256);
    s->cartpole = open_learner(s->small, "cartpole", 2, 0);
    s->nature = open_learner(s->linked, "nature-dueling", 5, 4);
}

static void close_side(side *s)
{
    gpur_learner *const learners[] = {s->melee_32, s->melee_256, s->cartpole, s->nature};
    gpur_replay *const replays[] = {s->melee, s->ranked, s->linked, s->small};
    for (int i = 0; i < 4; i++)
        gpur_learner_destroy(learners[i]);
    gpur_writer_destroy(s->writer);
    gpur_writer_destroy(s->actors);
    for (int i = 0; i < 4; i++)
        gpur_replay_destroy(replays[i]);
    gpur_device_close(s->device);
}

/* Made before there are threads and memory that a fork would copy. They stop until they are wanted, and end with this
 * program however it ends. */
static void start_busy(pid_t busy[MOST_BUSY])
{
    const pid_t parent = getpid();
    for (int i = 0; i < MOST_BUSY; i++) {
        int how = 0;
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
        if (busy[i] < 0 || waitpid(busy[i], &how, WUNTRACED) != busy[i]) {
            perror("a busy process");
            exit(1);
        }
    }
}

static void end_busy(const pid_t busy[MOST_BUSY])
{
    for (int i = 0; i < MOST_BUSY; i++) {
        kill(busy[i], SIGKILL);
        waitpid(busy[i], NULL, 0);
    }
}

typedef struct calls {
    double seconds[BENCH_MAX_ROUNDS * ROUND];
    double of_rounds[BENCH_MAX_ROUNDS];
    double median, late;
} calls;

static void time_turn(const operation *o, side *s, double *seconds)
{
    for (int i = 0; i < TURN; i++) {
        const double start = bench_now();
        o->run(s);
        seconds[i] = bench_now() - start;
    }
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_of_round(const double *seconds)
{
    double sorted[ROUND];
    memcpy(sorted, seconds, sizeof sorted);
    qsort(sorted, ROUND, sizeof *sorted, by_size);
    return (sorted[ROUND / 2 - 1] + sorted[ROUND / 2]) / 2;
}

static int run_rounds(const bench_report *report, const char *name, const operation *o, side sides[SIDES],
                      calls of[SIDES])
{
    const int rounds = report->options->rounds;
    const double start = bench_now();
    int done = 0;
    double warm[TURN];
    time_turn(o, &sides[DEFAULT], warm);
    time_turn(o, &sides[ONE], warm);
    while (done < rounds && (done < BENCH_FEWEST_ROUNDS || bench_now() - start < most_seconds)) {
        bench_show(report, name, (double)done / rounds);
        for (int turn = 0; turn < ROUND; turn += TURN)
            for (int k = 0; k < SIDES; k++)
                time_turn(o, &sides[k], of[k].seconds + done * ROUND + turn);
        for (int k = 0; k < SIDES; k++)
            of[k].of_rounds[done] = median_of_round(of[k].seconds + done * ROUND);
        done++;
    }
    return done;
}

static void write_case(bench_report *report, const char *name, const calls of[SIDES], int rounds, bench_summary ratio,
                       double median)
{
    static const char *const names[SIDES] = {"ours", "bare"};
    bench_json_name(report, name);
    fprintf(report->json, ", \"baseline\": \"one thread\", \"ratio\": %.4f", median);
    json_spread(report->json, ratio);
    fprintf(report->json, ", \"goal\": 1.30, \"items\": 1, \"item\": \"call\"");
    for (int k = 0; k < SIDES; k++) {
        char key[32];
        snprintf(key, sizeof key, "%s_seconds", names[k]);
        json_samples(report->json, key, of[k].of_rounds, rounds);
        fprintf(report->json, ", \"%s_p99\": %.4e", names[k], of[k].late);
    }
    bench_json_close(report);
}

static void run_case(bench_report *report, const operation *o, int busy, side sides[SIDES])
{
    static calls of[SIDES];
    static double ratios[BENCH_MAX_ROUNDS];
    char name[64], times[4][TIME_TEXT];
    snprintf(name, sizeof name, "%s, %d busy", o->name, busy);
    const int rounds = run_rounds(report, name, o, sides, of), n = rounds * ROUND;
    for (int k = 0; k < SIDES; k++) {
        qsort(of[k].seconds, (size_t)n, sizeof *of[k].seconds, by_size);
        of[k].median = (of[k].seconds[n / 2 - 1] + of[k].seconds[n / 2]) / 2;
        of[k].late = of[k].seconds[(int)(0.99 * (n - 1))];
    }
    for (int i = 0; i < rounds; i++)
        ratios[i] = of[DEFAULT].of_rounds[i] / of[ONE].of_rounds[i];
    const double median = of[DEFAULT].median / of[ONE].median;
    const bench_summary ratio = bench_summarise(ratios, rounds);
    bench_hide();
    printf("| %s | %d | %s | %s | %.2f | %s | %s | %d |\n", o->name, busy, time_text(of[DEFAULT].median, times[0]),
           time_text(of[ONE].median, times[1]), median, time_text(of[DEFAULT].late, times[2]),
           time_text(of[ONE].late, times[3]), n);
    fflush(stdout);
    if (report->json)
        write_case(report, name, of, rounds, ratio, median);
    report->done++;
    report->missed += median > 1.3;
}

static void run_all(bench_report *report, const pid_t busy[MOST_BUSY], side sides[SIDES])
{
    static const int counts[] = {0, 1, 2, MOST_BUSY};
    const int quick = report->options->quick, most = quick ? 2 : 4;
    int running = 0;
    printf("| call | busy | default threads | one thread | ratio | default, p99 | one, p99 | calls |\n"
           "|---|---|---|---|---|---|---|---|\n");
    for (int i = 0; i < most; i++) {
        for (; running < counts[i]; running++)
            kill(busy[running], SIGCONT);
        for (int o = 0; o < OPERATIONS; o++)
            if (!quick || operations[o].is_quick)
                run_case(report, &operations[o], counts[i], sides);
    }
}

int main(int argc, char **argv)
{
    enum { QUICK_CASES = 8, CASES = 4 * OPERATIONS };
    static side sides[SIDES];
    bench_options options;
    bench_report report;
    pid_t busy[MOST_BUSY];
    char settings[256];
    const int stop = bench_parse(&options, argc, argv, "calls beside busy processes, default threads against one");
    if (stop)
        return stop - 1;
    if (strcmp(options.device, "cpu") != 0) {
        printf("bench_busy: other processes do not keep %s busy; only the CPU device is measured\n", options.device);
        return 0;
    }
    start_busy(busy);
    melee_row *const rows = bench_melee_rows(BLOCK);
    open_side(&sides[DEFAULT], options.device, 0, rows, options.quick);
    open_side(&sides[ONE], options.device, 1, rows, options.quick);
    bench_describe(sides[DEFAULT].device, settings, sizeof settings);
    if (bench_begin(&report, &options, "calls beside busy processes, default threads against one", settings,
                    options.quick ? QUICK_CASES : CASES))
        return 1;
    run_all(&report, busy, sides);
    end_busy(busy);
    for (int k = 0; k < SIDES; k++)
        close_side(&sides[k]);
    free(rows);
    return bench_end(&report);
}
