/* SPDX-License-Identifier: MIT */
#include "json.h"
#include "machine.h"

#include "gpureplay.h"

#include <time.h>

/* Neither a quotation mark nor a backslash of ours may end a JSON string. */
void json_string(FILE *file, const char *text)
{
    fputc('"', file);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fprintf(file, "\\%c", *text);
        else if ((unsigned char)*text < 0x20)
            fprintf(file, "\\u%04x", (unsigned char)*text);
        else
            fputc(*text, file);
    }
    fputc('"', file);
}

static void member(FILE *file, const char *name, const char *value)
{
    fprintf(file, "\"%s\": ", name);
    json_string(file, value);
    fprintf(file, ",\n");
}

void json_head(FILE *file, const char *title, const char *device, const char *settings)
{
    char text[256];
    const time_t now = time(NULL);
    fprintf(file, "{\n");
    member(file, "title", title);
    member(file, "device", device);
    member(file, "settings", settings);
    member(file, "build", gpur_build_info());
    member(file, "system", machine_system(text, sizeof text));
    member(file, "driver", machine_driver(text, sizeof text));
    member(file, "commit", machine_commit(text, sizeof text));
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
    member(file, "when", text);
    fprintf(file, "\"cases\": [");
}

void json_end(FILE *file, int is_interrupted)
{
    fprintf(file, "\n],\n\"interrupted\": %d}\n", is_interrupted);
}

void json_rest(FILE *file)
{
    const long here = ftell(file);
    if (here < 0)
        return;
    json_end(file, 1);
    fflush(file);
    if (fseek(file, here, SEEK_SET) != 0)
        perror("back to the last case");
}

void json_samples(FILE *file, const char *name, const double *x, int n)
{
    fprintf(file, ", \"%s\": [", name);
    for (int i = 0; i < n; i++)
        fprintf(file, "%s%.4e", i ? ", " : "", x[i]);
    fprintf(file, "]");
}

void json_spread(FILE *file, bench_summary s)
{
    fprintf(file, ", \"low\": %.4e, \"high\": %.4e, \"min\": %.4e, \"max\": %.4e, \"runs\": %d", s.low, s.high, s.min,
            s.max, s.runs);
}
