/* SPDX-License-Identifier: MIT */
/*
 * Saving and loading the paper's replay (1,000,000 rows of 228 bytes in 256 MB) against a plain write and fsync, and a
 * plain read, of a file of the same size, in the current folder. A save also computes checksums and renames the file. A
 * load compares checksums and fills the ring; into a replay that holds rows it reads the file twice, the first time by
 * several threads where there are processors for them. All reads find the file in the page cache.
 */
#include "bench/lib/bench.h"
#include "bench/lib/setup.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

enum { CHUNK = 1 << 20, MAX_ROUNDS = 31 };
static const char saved[] = "bench_checkpoint.saved", plain[] = "bench_checkpoint.plain";
static const char empty[] = "bench_checkpoint.empty";

typedef struct file_context {
    gpur_replay *replay;
    unsigned char *memory; /* (bytes) */
    int64_t bytes;         /* of the file */
} file_context;

static void save(void *context, int64_t repeats)
{
    const file_context *const c = context;
    for (int64_t i = 0; i < repeats; i++)
        bench_must(gpur_replay_save(c->replay, saved, NULL), "save");
}

static void load(void *context, int64_t repeats)
{
    const file_context *const c = context;
    for (int64_t i = 0; i < repeats; i++)
        bench_must(gpur_replay_load(c->replay, saved, NULL), "load");
}

/* Loading the file of an empty replay empties this one first. */
static void load_into_empty(void *context, int64_t repeats)
{
    const file_context *const c = context;
    for (int64_t i = 0; i < repeats; i++) {
        bench_must(gpur_replay_load(c->replay, empty, NULL), "load the empty replay");
        bench_must(gpur_replay_load(c->replay, saved, NULL), "load");
    }
}

static void check(int holds, const char *what)
{
    if (holds)
        return;
    perror(what);
    exit(1);
}

/* A new file in place of the old one, as a save makes it. */
static void write_plain(void *context, int64_t repeats)
{
    const file_context *const c = context;
    for (int64_t i = 0; i < repeats; i++) {
        unlink(plain);
        const int file = open(plain, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        check(file >= 0, "open");
        for (int64_t at = 0; at < c->bytes; at += CHUNK) {
            const size_t part = c->bytes - at < CHUNK ? (size_t)(c->bytes - at) : CHUNK;
            check(write(file, c->memory + at, part) == (ssize_t)part, "write");
        }
        check(fsync(file) == 0 && close(file) == 0, "fsync");
    }
}

static void read_plain(void *context, int64_t repeats)
{
    const file_context *const c = context;
    for (int64_t i = 0; i < repeats; i++) {
        const int file = open(saved, O_RDONLY);
        check(file >= 0, "open");
        for (int64_t at = 0; at < c->bytes; at += CHUNK)
            check(read(file, c->memory + at, CHUNK) > 0, "read");
        close(file);
    }
}

static void run_case(bench_report *report, file_context *c, const char *name, bench_body body, int is_save)
{
    bench_case one = bench_versus(name, "GB", (double)c->bytes / 1e9, body, is_save ? "write, fsync" : "read",
                                  is_save ? write_plain : read_plain, c);
    one.goal = is_save ? 2.0 : 0;
    one.rounds = MAX_ROUNDS;
    bench_run(report, &one);
}

static void run_cases(bench_report *report, gpur_device *device, int64_t rows)
{
    gpur_checkpoint_info info = {.size = sizeof info};
    file_context c = {.replay = bench_melee_replay(device, rows)};
    char save_name[64], load_name[64];
    bench_must(gpur_replay_save(c.replay, empty, NULL), "save the empty replay");
    bench_melee_fill(c.replay, rows);
    save(&c, 1);
    bench_must(gpur_checkpoint_get_info(saved, &info), "info");
    c.bytes = info.bytes;
    c.memory = bench_host_memory(device, c.bytes + CHUNK);
    snprintf(save_name, sizeof save_name, "save %lld x 57", (long long)rows);
    snprintf(load_name, sizeof load_name, "load %lld x 57", (long long)rows);
    run_case(report, &c, save_name, save, 1);
    run_case(report, &c, load_name, load_into_empty, 0);
    run_case(report, &c, "load over a full replay", load, 0);
    bench_host_free(device, c.memory);
    gpur_replay_destroy(c.replay);
    unlink(saved);
    unlink(plain);
    unlink(empty);
}

int main(int argc, char **argv)
{
    const bench_options options = bench_parse(argc, argv, "saving and loading against plain files", NULL, 0);
    gpur_device *const device = bench_open(options.device, 0);
    bench_report report = bench_begin(&options, "checkpoint", bench_describe(device), 3);
    run_cases(&report, device, options.quick ? MELEE_CAPACITY / 10 : MELEE_CAPACITY);
    gpur_device_close(device);
    return bench_end(&report);
}
