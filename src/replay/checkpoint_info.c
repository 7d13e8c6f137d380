/* SPDX-License-Identifier: MIT */
/* What a file says of itself. */
#include "base/sized.h"
#include "replay/checkpoint.h"

#include <stdio.h>
#include <string.h>

static int64_t number_of(const gpur_tensors *tensors, const char *key)
{
    int64_t value = -1;
    const gpur_scalar scalar = {key, GPUR_SCALAR_I64, &value};
    return gpur_tensors_find_note(tensors, key) && gpur_scalars_read(tensors, &scalar, 1) == GPUR_OK ? value : -1;
}

static void describe(const gpur_checkpoint *file, gpur_checkpoint_info *info)
{
    const gpur_tensors *const tensors = &file->tensors;
    const char *const version = gpur_tensors_find_note(tensors, "gpureplay");
    const char *const kind = gpur_tensors_find_note(tensors, "gpureplay.kind");
    memset(info, 0, sizeof *info);
    snprintf(info->version, sizeof info->version, "%.15s", version ? version : "");
    snprintf(info->kind, sizeof info->kind, "%.15s", version && kind ? kind : "safetensors");
    const int is_replay = strcmp(info->kind, "replay") == 0, is_learner = strcmp(info->kind, "learner") == 0;
    info->bytes = file->file.bytes;
    info->tensors = tensors->count;
    info->rows = is_replay ? number_of(tensors, "rows") : -1;
    info->capacity = is_replay ? number_of(tensors, "capacity") : -1;
    info->first_id = is_replay ? number_of(tensors, "first_id") : -1;
    info->writers = is_replay ? number_of(tensors, "writers") : -1;
    info->steps = is_learner ? number_of(tensors, "step") : -1;
    info->weights = version && !is_replay ? number_of(tensors, "weights") : -1;
}

gpur_status gpur_checkpoint_get_info(const char *path, gpur_checkpoint_info *info)
{
    gpur_checkpoint file;
    gpur_checkpoint_info known;
    GPUR_REQUIRE(path, "path is NULL");
    GPUR_TRY(gpur_sized_check(info, "gpur_checkpoint_info"));
    GPUR_TRY(gpur_tensors_available());
    GPUR_TRY(gpur_checkpoint_open(&file, path));
    describe(&file, &known);
    gpur_checkpoint_close(&file);
    return gpur_sized_write(info, &known, sizeof known, "gpur_checkpoint_info");
}
