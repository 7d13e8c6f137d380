/* SPDX-License-Identifier: MIT */
/* The result file of a benchmark: a head that describes machine and build, and a list of cases. Keys and values of a
 * case are added one by one; json_case opens it and json_close_case closes it. */
#pragma once

struct cJSON;

typedef struct json_file {
    const char *path;
    struct cJSON *document; /* NULL: nothing is written, and every call here does nothing */
    struct cJSON *open;     /* where keys go: the document, a case, or an item of its list */
    struct cJSON *one;      /* the case */
} json_file;

/* Opens `path` (NULL: no file) and writes title, device, settings, build, system, driver, commit and time. The commit
 * is that of the working folder, or GPUREPLAY_COMMIT where there is no git. Exits with 1 when it cannot write. */
json_file json_open(const char *path, const char *title, const char *device, const char *settings);
void json_close(json_file *json, int interrupted);

/* After each case the whole file is written, so that killing the program loses at most the case in progress. */
void json_case(json_file *json, const char *name);
void json_close_case(json_file *json);

void json_text(json_file *json, const char *key, const char *value); /* NULL: writes nothing */
void json_number(json_file *json, const char *key, double value);    /* NaN becomes null */
void json_numbers(json_file *json, const char *key, const double *values, int count);

/* Opens an object of the case's list "variants". */
void json_variant(json_file *json, const char *name);
