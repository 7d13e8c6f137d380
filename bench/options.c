/* SPDX-License-Identifier: MIT */
#include "bench.h"
#include "count.h"

#include <string.h>

enum { ROUNDS = 41, QUICK_ROUNDS = 11 };

static int usage(const char *program, const char *purpose, int status)
{
    fprintf(status ? stderr : stdout,
            "%s: %s\n"
            "  --device NAME   cpu, cuda:0, ... (cpu)\n"
            "  --rounds N      samples a case, each of all in turn: %d to %d (%d)\n"
            "  --json FILE     write every sample\n"
            "  --quick         fewer cases and rounds\n"
            "  --help          this text\n"
            "At Ctrl-C it ends with status 130, and the finished cases are in the JSON.\n",
            program, purpose, BENCH_FEWEST_ROUNDS, BENCH_MAX_ROUNDS, ROUNDS);
    return status + 1;
}

/* An option that has a value. 0, or -1 having said what is wanted. */
static int read_value(bench_options *options, const char *name, const char *value)
{
    int64_t rounds = 0;
    if (!strcmp(name, "--device"))
        return (options->device = value, 0);
    if (!strcmp(name, "--json"))
        return (options->json = value, 0);
    if (strcmp(name, "--rounds") != 0) {
        fprintf(stderr, "\"%s\" is no option\n", name);
        return -1;
    }
    if (read_count(name, value, BENCH_FEWEST_ROUNDS, BENCH_MAX_ROUNDS, &rounds) != 0)
        return -1;
    options->rounds = (int)rounds;
    return 0;
}

int bench_parse(bench_options *options, int argc, char **argv, const char *purpose)
{
    *options = (bench_options){.device = "cpu", .seconds = 2e-3};
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
            return usage(argv[0], purpose, 0);
        if (!strcmp(argv[i], "--quick")) {
            options->quick = 1, options->seconds = 1e-3;
            continue;
        }
        if (i + 1 == argc)
            fprintf(stderr, "\"%s\" is no option, or has no value\n", argv[i]);
        if (i + 1 == argc || read_value(options, argv[i], argv[i + 1]) != 0)
            return usage(argv[0], purpose, 2);
        i++;
    }
    if (options->rounds == 0)
        options->rounds = options->quick ? QUICK_ROUNDS : ROUNDS;
    return 0;
}
