/* SPDX-License-Identifier: MIT */
/* The format of observations, and their conversion to a network's input. */
#include "learn/network/input.h"

#include "replay/schema.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

gpur_status gpur_obs_format_of(const gpur_field_info *field, gpur_obs_format *format)
{
    GPUR_REQUIRE(field->dtype == GPUR_FLOAT32 || field->dtype == GPUR_UINT8,
                 "field \"%s\" is %s; a network reads float32 or uint8 (for discrete observations: one-hot)",
                 field->name, gpur_dtype_name(field->dtype));
    memset(format, 0, sizeof *format);
    format->features = gpur_field_elements(field);
    format->bytes = field->bytes;
    format->is_float = field->dtype == GPUR_FLOAT32;
    format->dims = field->dims;
    for (int i = 0; i < field->dims; i++)
        format->shape[i] = field->shape[i];
    return GPUR_OK;
}

gpur_status gpur_obs_format_read(const gpur_field *given, gpur_obs_format *format)
{
    gpur_field field = *given;
    gpur_schema schema;
    field.name = "obs";
    GPUR_TRY(gpur_schema_build(&schema, &field, 1));
    return gpur_obs_format_of(&schema.fields[0], format);
}

int32_t gpur_image_layout(int32_t first, int32_t second, int32_t third)
{
    const int few_first = first <= 4 && third > 4, few_last = third <= 4 && first > 4;
    const int square_last = second == third && first != second, square_first = first == second && third != second;
    const int is_chw = few_first || square_last, is_hwc = few_last || square_first;
    return is_chw == is_hwc ? GPUR_INPUT_AUTO : is_chw ? GPUR_CHW : GPUR_HWC;
}

/* The first convolution reads an image. */
static gpur_status check_image(const gpur_obs_format *obs, const gpur_network_config *config)
{
    char shape[16 * GPUR_MAX_DIMS] = "";
    if (config->trunk_count < 1 || config->trunk[0].kind != GPUR_CONV || obs->dims == 3)
        return GPUR_OK;
    for (int i = 0; i < obs->dims; i++) {
        const size_t used = strlen(shape);
        snprintf(shape + used, sizeof shape - used, "%s%" PRId32, i > 0 ? ", " : "", obs->shape[i]);
    }
    return gpur_fail(GPUR_INVALID_ARGUMENT,
                     "network.trunk[0] is a convolution, and obs of shape (%s) is no image: it needs three axes, as "
                     "input_layout says",
                     shape);
}

static gpur_status resolve_layout(const gpur_obs_format *obs, gpur_network_config *config)
{
    GPUR_TRY(check_image(obs, config));
    if (config->input_layout != GPUR_INPUT_AUTO)
        return GPUR_OK;
    const int is_image = config->trunk_count > 0 && config->trunk[0].kind == GPUR_CONV && obs->dims == 3;
    const int32_t found = is_image ? gpur_image_layout(obs->shape[0], obs->shape[1], obs->shape[2]) : GPUR_CHW;
    GPUR_REQUIRE(found != GPUR_INPUT_AUTO,
                 "network.input_layout is GPUR_INPUT_AUTO, and the shape of obs, (%" PRId32 ", %" PRId32 ", %" PRId32
                 "), leaves a doubt; it must be GPUR_CHW (channels, height, width) or GPUR_HWC (height, width, "
                 "channels)",
                 obs->shape[0], obs->shape[1], obs->shape[2]);
    config->input_layout = found;
    return GPUR_OK;
}

/* An image if the first layer is a convolution and observations have three axes. */
static gpur_input_shape shape_of(const gpur_obs_format *obs, const gpur_network_config *config)
{
    gpur_input_shape input_shape = gpur_input_shape_of(obs->features);
    if (config->trunk_count < 1 || config->trunk[0].kind != GPUR_CONV || obs->dims != 3)
        return input_shape;
    const int planes = config->input_layout == GPUR_CHW;
    input_shape.channels = obs->shape[planes ? 0 : 2];
    input_shape.height = obs->shape[planes ? 1 : 0];
    input_shape.width = obs->shape[planes ? 2 : 1];
    return input_shape;
}

static gpur_preprocess_args args_of(const gpur_input *input, const gpur_network *network, const gpur_obs_format *obs,
                                    const gpur_network_config *config)
{
    const gpur_input_shape *const input_shape = &network->input_shape;
    const int is_image = network->conv_count > 0;
    gpur_preprocess_args args;
    memset(&args, 0, sizeof args);
    args.x_pitch = gpur_input_pitch(network);
    args.height = is_image ? input_shape->height : 1;
    args.width = is_image ? input_shape->width : input_shape->features;
    args.channels = is_image ? input_shape->channels : 1;
    args.floats = obs->is_float;
    args.planes = config->input_layout == GPUR_CHW;
    args.space_to_depth = is_image ? network->space_to_depth : 1;
    args.bf16 = input->bf16;
    args.scale = config->input_scale;
    args.shift = config->input_shift == 0.0f ? -0.0f : config->input_shift;
    return args;
}

gpur_status gpur_network_open(gpur_network *network, gpur_network_config *config, const gpur_obs_format *obs,
                              int32_t copies, gpur_device *device, int32_t math)
{
    GPUR_TRY(resolve_layout(obs, config));
    const gpur_input_shape input_shape = shape_of(obs, config);
    GPUR_TRY(gpur_network_build_copies(network, config, &input_shape, copies));
    config->atoms = network->distribution.atoms;
    config->v_min = network->distribution.v_min, config->v_max = network->distribution.v_max;
    gpur_network_choose_bf16(network, device, math);
    return GPUR_OK;
}

gpur_input gpur_input_of(const gpur_network *network, const gpur_obs_format *obs, const gpur_network_config *config)
{
    const int is_image = network->conv_count > 0;
    gpur_input input;
    memset(&input, 0, sizeof input);
    input.direct = !is_image && obs->is_float && config->input_scale == 1.0f && config->input_shift == 0.0f;
    input.bf16 = network->params.bf16;
    input.row_bytes = obs->bytes;
    input.raw_pitch = input.direct ? 0 : (obs->bytes + 15) / 16 * 16;
    input.args = args_of(&input, network, obs, config);
    return input;
}

float *gpur_input_row(const gpur_input *input, float *activations, int64_t row, int64_t pitch)
{
    return (float *)(void *)((char *)activations + row * pitch * (input->bf16 ? 2 : 4));
}

gpur_status gpur_input_run(const gpur_input *input, gpur_device *device, gpur_stream *stream, int64_t rows,
                           const void *raw, int64_t raw_pitch, float *activations)
{
    gpur_preprocess_args args = input->args;
    if (input->direct)
        return GPUR_OK;
    args.obs = raw;
    args.obs_pitch = raw_pitch;
    args.x = activations;
    args.count = rows;
    const gpur_grid grid = gpur_grid_rows(device, rows * args.height, 1, args.width * args.channels * 4);
    return gpur_launch_preprocess(stream, grid, &args);
}
