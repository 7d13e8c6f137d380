/* SPDX-License-Identifier: MIT */
/*
 * Saving and loading the paper's replay (1,000,000 rows of 228 bytes, 256 MB as they lie) against a plain write and
 * fsync, and a plain read, of a file of the same size, in the current folder. The save adds checksums and a rename. A
 * load compares checksums, and fills the ring; into a replay that holds rows it reads its file twice, the first time by
 * several threads where there are processors for them. All reads find the file in the page cache.
 */
#include "bench.h"
#include "setup.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHUNK = 1 << 20, MOST_ROUNDS = 31 };
static const char ours[] = "bench_checkpoint.saved", bare[] = "bench_checkpoint.plain";
static const char nothing[] = "bench_checkpoint.empty";

typedef struct file_context {
    gpur_replay *replay;
    unsigned char *memory; /* (bytes) */
    int64_t bytes;         /* of the file */
} file_context;

static void save(void *context, int64_t repeats)
{
    const file_context *const c = context;
    for (int64_t i = 0; i < repeats; i++)
        bench_must(gpur_replay_save(c->replay, ours, NULL), "save");
}

static void load(void *context, int64_t repeats)
{
    const file_context *const c = context;
    for (int64_t i = 0; i < repeats; i++)
        bench_must(gpur_replay_load(c->replay, ours, NULL), "load");
}

/* A file of few bytes empties it first. */
static void load_into_empty(void *context, int64_t repeats)
{
    const file_context *const c = context;
    for (int64_t i = 0; i < repeats; i++) {
        bench_must(gpur_replay_load(c->replay, nothing, NULL), "load nothing");
        bench_must(gpur_replay_load(c->replay, ours, NULL), "load");
    }
}

static void must(int holds, const char *what)
{
    if (holds)
        return;
    perror(what);
    exit(1);
}

/* As a save does: a new file, which takes the old one's place. */
static void write_plain(void *context, int64_t repeats)
{
    const file_context *const c = context;
    for (int64_t i = 0; i < repeats; i++) {
        unlink(bare);
        const int file = open(bare, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        must(file >= 0, "open");
        for (int64_t at = 0; at < c->bytes; at += CHUNK) {
            const size_t part = c->bytes - at < CHUNK ? (size_t)(c->bytes - at) : CHUNK;
            must(write(file, c->memory + at, part) == (ssize_t)part, "write");
        }
        must(fsync(file) == 0 && close(file) == 0, "fsync");
    }
}

static void read_plain(void *context, int64_t repeats)
{
    const file_context *const c = context;
    for (int64_t i = 0; i < repeats; i++) {
        const int file = open(ours, O_RDONLY);
        must(file >= 0, "open");
        for (int64_t at = 0; at < c->bytes; at += CHUNK)
            must(read(file, c->memory + at, CHUNK) > 0, "read");
        close(file);
    }
}

static void run_cases(bench_report *report, gpur_device *device, int64_t rows)
{
    gpur_checkpoint_info info = {.size = sizeof info};
    file_context c = {.replay = bench_melee_replay(device, rows)};
    char name[3][64];
    bench_must(gpur_replay_save(c.replay, nothing, NULL), "save nothing");
    bench_fill(c.replay, rows);
    save(&c, 1);
    bench_must(gpur_checkpoint_get_info(ours, &info), "info");
    c.bytes = info.bytes;
    c.memory = bench_host_memory(device, c.bytes + CHUNK);
    snprintf(name[0], sizeof name[0], "save %lld x 57", (long long)rows);
    snprintf(name[1], sizeof name[1], "load %lld x 57", (long long)rows);
    snprintf(name[2], sizeof name[2], "load over a full replay");
    const bench_case cases[] = {
        {.name = name[0], .baseline = "write, fsync", .items = (double)c.bytes / 1e9, .item = "GB", .goal = 2.0,
         .ours = save, .bare = write_plain, .context = &c},
        {.name = name[1], .baseline = "read", .items = (double)c.bytes / 1e9, .item = "GB", .ours = load_into_empty,
         .bare = read_plain, .context = &c},
        {.name = name[2], .baseline = "read", .items = (double)c.bytes / 1e9, .item = "GB", .ours = load,
         .bare = read_plain, .context = &c},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        bench_run(report, &cases[i]);
    bench_host_free(device, c.memory);
    gpur_replay_destroy(c.replay);
    unlink(ours);
    unlink(bare);
    unlink(nothing);
}

int main(int argc, char **argv)
{
    bench_options options;
    bench_report report;
    char settings[256];
    const int stop = bench_parse(&options, argc, argv, "saving and loading against plain writing and reading");
    if (stop)
        return stop - 1;
    if (options.rounds > MOST_ROUNDS)
        options.rounds = MOST_ROUNDS;
    gpur_device *const device = bench_open(options.device, 0);
    bench_describe(device, settings, sizeof settings);
    if (bench_begin(&report, &options, "checkpoint", settings, 3))
        return 1;
    run_cases(&report, device, options.quick ? MELEE_CAPACITY / 10 : MELEE_CAPACITY);
    gpur_device_close(device);
    return bench_end(&report);
}
