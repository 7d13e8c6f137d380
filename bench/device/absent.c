/* SPDX-License-Identifier: MIT */
#include "bench/device/absent.h"
#include "bench/json.h"

void bench_absent(bench_report *report, const char *name, const char *why)
{
    bench_hide();
    printf("%-58s %14s  %s\n", name, "absent", why);
    fflush(stdout);
    if (report->json) {
        bench_json_name(report, name);
        fprintf(report->json, ", \"absent\": ");
        json_string(report->json, why);
        fprintf(report->json, "}");
    }
    report->done++;
}
