/* SPDX-License-Identifier: MIT */
#include "bench/device/equal.h"
#include "bench/device/parts.h"

#include <inttypes.h>
#include <string.h>

static int unequal;

void bench_equal(bench_report *report, const char *name, int64_t differ, int64_t of)
{
    bench_hide();
    if (report->json) {
        bench_json_name(report, name);
        fprintf(report->json, ", \"differ\": %" PRId64 ", \"of\": %" PRId64, differ, of);
        bench_json_close(report);
    }
    printf("%-58s %14s  %" PRId64 " of %" PRId64 "\n", name, differ ? "DIFFERS" : "equal", differ ? differ : of, of);
    fflush(stdout);
    report->done++;
    unequal += differ != 0;
}

int64_t differing(const void *a, const void *b, int64_t count, size_t size)
{
    const char *const x = a, *const y = b;
    int64_t differ = 0;
    for (int64_t i = 0; i < count; i++)
        differ += memcmp(x + i * (int64_t)size, y + i * (int64_t)size, size) != 0;
    return differ;
}

int bench_unequal(void)
{
    return unequal;
}
