/* SPDX-License-Identifier: MIT */
#include "bench/device/absent.h"
#include "bench/device/parts.h"
#include "bench/json.h"

static int failed;

static void tell(bench_report *report, const char *name, const char *key, const char *word, const char *why)
{
    bench_hide();
    if (report->json) {
        bench_json_name(report, name);
        fprintf(report->json, ", \"%s\": ", key);
        json_string(report->json, why);
        bench_json_close(report);
    }
    printf("%-58s %14s  %s\n", name, word, why);
    fflush(stdout);
    report->done++;
}

void bench_absent(bench_report *report, const char *name, const char *why)
{
    tell(report, name, "absent", "absent", why);
}

void bench_missing(bench_report *report, const char *name, gpur_status status)
{
    if (status == GPUR_UNAVAILABLE) {
        bench_absent(report, name, gpur_last_error());
        return;
    }
    tell(report, name, "failed", "FAILED", gpur_last_error());
    failed++;
}

int bench_failed(void)
{
    return failed;
}
