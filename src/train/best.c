/* SPDX-License-Identifier: MIT */
/* The weights of the best evaluation. */
#include "train/best.h"

#include "file/checkpoint_file.h"
#include "learn/acting/policy.h"
#include "train/files.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

const char gpur_best_name[] = "best.safetensors";

static const char step_key[] = "env_steps", return_key[] = "mean_return";

gpur_status gpur_best_read(const char *folder, gpur_best *best)
{
    char path[GPUR_MAX_PATH];
    gpur_checkpoint file;
    *best = (gpur_best){0};
    if (!gpur_file_exists(folder, gpur_best_name))
        return GPUR_OK;
    GPUR_TRY(gpur_path_make(path, "%s/%s", folder, gpur_best_name));
    GPUR_TRY(gpur_checkpoint_open(&file, path));
    const char *const mean_return = gpur_tensors_find_metadata(&file.tensors, return_key);
    best->step = gpur_metadata_number(&file.tensors, step_key, 0);
    best->mean_return = mean_return ? strtod(mean_return, NULL) : 0.0;
    best->is_there = mean_return != NULL;
    gpur_checkpoint_close(&file);
    return GPUR_OK;
}

static gpur_status save(const char *path, const gpur_run_event *event)
{
    gpur_tensors about = {0};
    gpur_text mean_return = {0};
    gpur_text_add_number(&mean_return, event->mean_return, GPUR_DIGITS_OF_DOUBLE, "0");
    gpur_status status = gpur_text_is_whole(&mean_return)
                             ? gpur_tensors_add_metadata(&about, step_key, "%" PRId64, event->env_steps)
                             : gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for the text of %s", path);
    if (status == GPUR_OK)
        status = gpur_tensors_add_metadata(&about, "episodes", "%" PRId64, event->episodes);
    if (status == GPUR_OK)
        status = gpur_tensors_add_metadata(&about, return_key, "%s", mean_return.memory);
    if (status == GPUR_OK)
        status = gpur_policy_save_with(event->policy, &about, path, NULL);
    gpur_text_free(&mean_return);
    gpur_tensors_free(&about);
    return status;
}

gpur_status gpur_best_note(const char *folder, const gpur_run_event *event, gpur_best *best)
{
    char path[GPUR_MAX_PATH];
    const double mean_return = event->mean_return;
    if (!event->policy || !isfinite(mean_return) || (best->is_there && mean_return <= best->mean_return))
        return GPUR_OK;
    GPUR_TRY(gpur_path_make(path, "%s/%s", folder, gpur_best_name));
    GPUR_TRY(save(path, event));
    *best = (gpur_best){.is_there = 1, .step = event->env_steps, .mean_return = mean_return};
    return GPUR_OK;
}

gpur_status gpur_best_copy(const char *from, const char *to)
{
    gpur_text file = {0};
    if (!gpur_file_exists(from, gpur_best_name))
        return gpur_file_remove(to, gpur_best_name);
    gpur_status status = gpur_text_file_read(from, gpur_best_name, &file);
    if (status == GPUR_OK)
        status = gpur_text_file_write(to, gpur_best_name, &file);
    gpur_text_free(&file);
    return status;
}
