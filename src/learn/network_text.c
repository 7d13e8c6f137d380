/* SPDX-License-Identifier: MIT */
/* Writes a network and its observations to a file's metadata, and reads them back. */
#include "learn/network_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DENSE_TEXT "dense %d, activation %d"
#define NORM_TEXT ", layer norm" /* at the end of the former */
#define CONV_TEXT "convolution %d of %d, stride %d, padding %d, activation %d"

static const char *const layouts[] = {"chw", "hwc"}; /* by GPUR_CHW and GPUR_HWC */

gpur_field gpur_network_text_obs(const gpur_schema *schema)
{
    const gpur_field_info *const info = &schema->fields[gpur_schema_find(schema, "obs")];
    gpur_field obs = {.dtype = info->dtype};
    memcpy(obs.shape, info->shape, sizeof obs.shape);
    return obs;
}

/* Writing. */

static gpur_status add_layer(gpur_tensors *settings, const char *owner, int32_t index, const gpur_layer *layer)
{
    char key[48];
    snprintf(key, sizeof key, "%slayer.%d", owner, (int)index);
    if (layer->kind == GPUR_DENSE)
        return gpur_tensors_add_metadata(settings, key, DENSE_TEXT "%s", (int)layer->units, (int)layer->activation,
                                         layer->norm ? NORM_TEXT : "");
    return gpur_tensors_add_metadata(settings, key, CONV_TEXT, (int)layer->units, (int)layer->kernel,
                                     (int)layer->stride, (int)layer->padding, (int)layer->activation);
}

static gpur_status add_number(gpur_tensors *settings, const char *owner, const char *name, int64_t value)
{
    char key[48];
    snprintf(key, sizeof key, "%s%s", owner, name);
    return gpur_tensors_add_metadata(settings, key, "%" PRId64, value);
}

static gpur_status add_real(gpur_tensors *settings, const char *owner, const char *name, float value)
{
    char key[48];
    snprintf(key, sizeof key, "%s%s", owner, name);
    const gpur_scalar scalar = {key, GPUR_SCALAR_F32, &value};
    return gpur_scalars_write(settings, &scalar, 1);
}

static gpur_status add_distribution(const gpur_network_config *network, const char *owner, gpur_tensors *settings)
{
    if (network->atoms > 0)
        GPUR_TRY(add_number(settings, owner, "atoms", network->atoms));
    if (network->v_min == network->v_max)
        return GPUR_OK;
    GPUR_TRY(add_real(settings, owner, "v_min", network->v_min));
    return add_real(settings, owner, "v_max", network->v_max);
}

/* The order of axes counts where a convolution reads them. */
gpur_status gpur_network_text_add_settings(const gpur_network_config *network, const char *owner,
                                           gpur_tensors *settings)
{
    char key[48];
    for (int32_t i = 0; i < network->trunk_count; i++)
        GPUR_TRY(add_layer(settings, owner, i, &network->trunk[i]));
    GPUR_TRY(add_number(settings, owner, "layers", network->trunk_count));
    GPUR_TRY(add_number(settings, owner, "head", network->head));
    if (network->hidden > 0)
        GPUR_TRY(add_number(settings, owner, "hidden_activation", network->hidden_activation));
    GPUR_TRY(add_distribution(network, owner, settings));
    if (network->trunk_count == 0 || network->trunk[0].kind != GPUR_CONV)
        return GPUR_OK;
    snprintf(key, sizeof key, "%sinput_layout", owner);
    return gpur_tensors_add_metadata(settings, key, "%s", layouts[network->input_layout]);
}

gpur_status gpur_network_text_add_rest(const gpur_network_text *text, gpur_tensors *tensors)
{
    char shape[96] = "";
    for (int32_t i = 0; i < GPUR_MAX_DIMS && text->obs.shape[i] > 0; i++)
        snprintf(shape + strlen(shape), sizeof shape - strlen(shape), " %" PRId32, text->obs.shape[i]);
    GPUR_TRY(gpur_tensors_add_metadata(tensors, "obs", "%s%s", gpur_dtype_name(text->obs.dtype), shape));
    GPUR_TRY(add_number(tensors, "", "num_actions", text->network->num_actions));
    GPUR_TRY(add_number(tensors, "", "hidden", text->network->hidden));
    float reals[] = {text->network->input_scale, text->network->input_shift, text->policy_floor};
    const gpur_scalar scalars[] = {{"input_scale", GPUR_SCALAR_F32, &reals[0]},
                                   {"input_shift", GPUR_SCALAR_F32, &reals[1]},
                                   {"policy_floor", GPUR_SCALAR_F32, &reals[2]}};
    return gpur_scalars_write(tensors, scalars, 3);
}

/* Reading. What is no number of a network is refused when the network is built. */

static gpur_status find(const gpur_checkpoint *file, const char *key, const char **text)
{
    *text = gpur_tensors_find_metadata(&file->tensors, key);
    return *text ? GPUR_OK
                 : gpur_fail(GPUR_FILE_ERROR,
                             "%s does not say \"%s\" of its network: it is of another program, or of this one before "
                             "files did; make a policy with the settings of the network, and load the file into it",
                             file->file.path, key);
}

static gpur_status refuse(const gpur_checkpoint *file, const char *key, const char *text)
{
    return gpur_fail(GPUR_FILE_ERROR, "%s: its note \"%s\" is \"%s\", which no network has", file->file.path, key,
                     text);
}

/* `type`: GPUR_SCALAR_* */
static gpur_status read_number(const gpur_checkpoint *file, const char *key, int32_t type, void *value)
{
    const char *text = NULL;
    const gpur_scalar scalar = {key, type, value};
    GPUR_TRY(find(file, key, &text));
    return gpur_checkpoint_add_path_to_error(file, gpur_scalars_read(&file->tensors, &scalar, 1));
}

static gpur_status read_layer(const gpur_checkpoint *file, int32_t index, gpur_layer *layer)
{
    char key[48];
    const char *text = NULL;
    int n[5] = {0};
    snprintf(key, sizeof key, "layer.%d", (int)index);
    GPUR_TRY(find(file, key, &text));
    if (sscanf(text, DENSE_TEXT, &n[0], &n[1]) == 2)
        *layer = (gpur_layer){.kind = GPUR_DENSE, .units = n[0], .activation = n[1], .norm = !!strstr(text, NORM_TEXT)};
    else if (sscanf(text, CONV_TEXT, &n[0], &n[1], &n[2], &n[3], &n[4]) == 5)
        *layer = (gpur_layer){
            .kind = GPUR_CONV, .units = n[0], .kernel = n[1], .stride = n[2], .padding = n[3], .activation = n[4]};
    else
        return refuse(file, key, text);
    return GPUR_OK;
}

static gpur_status read_layout(const gpur_checkpoint *file, int32_t *layout)
{
    const char *text = NULL;
    GPUR_TRY(find(file, "input_layout", &text));
    *layout = strcmp(text, layouts[GPUR_HWC]) == 0 ? GPUR_HWC : GPUR_CHW;
    return strcmp(text, layouts[*layout]) == 0 ? GPUR_OK : refuse(file, "input_layout", text);
}

static gpur_status read_network(const gpur_checkpoint *file, gpur_network_config *network)
{
    GPUR_TRY(read_number(file, "layers", GPUR_SCALAR_I32, &network->trunk_count));
    if (network->trunk_count < 0 || network->trunk_count > GPUR_MAX_LAYERS)
        return refuse(file, "layers", gpur_tensors_find_metadata(&file->tensors, "layers"));
    for (int32_t i = 0; i < network->trunk_count; i++)
        GPUR_TRY(read_layer(file, i, &network->trunk[i]));
    GPUR_TRY(read_number(file, "head", GPUR_SCALAR_I32, &network->head));
    GPUR_TRY(read_number(file, "num_actions", GPUR_SCALAR_I32, &network->num_actions));
    GPUR_TRY(read_number(file, "hidden", GPUR_SCALAR_I32, &network->hidden));
    if (network->hidden > 0)
        GPUR_TRY(read_number(file, "hidden_activation", GPUR_SCALAR_I32, &network->hidden_activation));
    if (network->head == GPUR_HEAD_QUANTILES || network->head == GPUR_HEAD_CATEGORICAL)
        GPUR_TRY(read_number(file, "atoms", GPUR_SCALAR_I32, &network->atoms));
    if (network->head == GPUR_HEAD_CATEGORICAL) {
        GPUR_TRY(read_number(file, "v_min", GPUR_SCALAR_F32, &network->v_min));
        GPUR_TRY(read_number(file, "v_max", GPUR_SCALAR_F32, &network->v_max));
    }
    GPUR_TRY(read_number(file, "input_scale", GPUR_SCALAR_F32, &network->input_scale));
    GPUR_TRY(read_number(file, "input_shift", GPUR_SCALAR_F32, &network->input_shift));
    if (network->trunk_count > 0 && network->trunk[0].kind == GPUR_CONV)
        GPUR_TRY(read_layout(file, &network->input_layout));
    return GPUR_OK;
}

static gpur_status read_obs(const gpur_checkpoint *file, gpur_field *obs)
{
    const char *text = NULL;
    GPUR_TRY(find(file, "obs", &text));
    const size_t length = strcspn(text, " ");
    const char *at = text + length;
    memset(obs, 0, sizeof *obs);
    obs->dtype = -1;
    for (int32_t i = GPUR_FLOAT32; i <= GPUR_BOOL; i++)
        if (strlen(gpur_dtype_name(i)) == length && strncmp(gpur_dtype_name(i), text, length) == 0)
            obs->dtype = i;
    for (int32_t i = 0; i < GPUR_MAX_DIMS && *at == ' '; i++)
        obs->shape[i] = (int32_t)strtol(at, (char **)&at, 10);
    return obs->dtype >= 0 && *at == '\0' ? GPUR_OK : refuse(file, "obs", text);
}

gpur_status gpur_network_text_read(const gpur_checkpoint *file, gpur_policy_config *config)
{
    GPUR_TRY(read_network(file, &config->network));
    GPUR_TRY(read_obs(file, &config->obs));
    return read_number(file, "policy_floor", GPUR_SCALAR_F32, &config->policy_floor);
}

void gpur_network_text_renew(gpur_tensors *file)
{
    for (int32_t i = 0; i < file->metadata_count; i++) {
        gpur_metadata_entry *const entry = &file->metadata[i];
        const size_t length = strlen(entry->key), name = strlen("input_layout");
        const int is_layout = length >= name && strcmp(entry->key + length - name, "input_layout") == 0;
        if (is_layout && (strcmp(entry->value, "0") == 0 || strcmp(entry->value, "1") == 0))
            snprintf(entry->value, sizeof entry->value, "%s", layouts[entry->value[0] - '0']);
    }
}
