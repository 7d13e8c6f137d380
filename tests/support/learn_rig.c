/* SPDX-License-Identifier: MIT */
#include "support/learn_rig.h"

#include <stdlib.h>
#include <string.h>

void rig_random(uint64_t seed, float *x, int64_t count)
{
    uint64_t state = seed * 2862933555777941757ull + 3037000493ull;
    for (int64_t i = 0; i < count; i++) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        x[i] = (float)((double)(state >> 11) * 0x1p-52 - 1.0);
    }
}

void *rig_upload(gpur_device *device, const void *host, int64_t bytes)
{
    void *memory = NULL;
    if (gpur_device_alloc(device, bytes, &memory) != GPUR_OK)
        return NULL;
    return gpur_device_copy(device, memory, host, bytes) == GPUR_OK ? memory : NULL;
}

gpur_network_config rig_network(int first, int second, int activation, int head, int hidden, int outputs)
{
    gpur_network_config config;
    memset(&config, 0, sizeof config);
    config.trunk[0].units = first, config.trunk[1].units = second;
    config.trunk[0].activation = config.trunk[1].activation = activation;
    config.trunk_count = (first > 0) + (second > 0);
    config.head = head;
    config.hidden = hidden;
    config.hidden_activation = activation;
    config.outputs = outputs;
    config.input_scale = 1.0f;
    return config;
}

/* From the order of the tensor's shape to that in which the device has it. */
static void keep_in_order(const gpur_tensor *tensor, float *w)
{
    const int64_t count = gpur_tensor_count(tensor);
    float *const plain = malloc((size_t)count * sizeof *plain);
    memcpy(plain, w, (size_t)count * sizeof *plain);
    for (int64_t j = 0; j < count; j++)
        w[gpur_tensor_place(tensor, j)] = plain[j];
    free(plain);
}

/* Random numbers into every named tensor, of both. The padding stays zero. */
static void fill_weights(learn_rig *rig)
{
    const gpur_params *const params = &rig->network.params;
    for (int32_t i = 0; i < params->tensor_count; i++) {
        const gpur_tensor *const tensor = &params->tensor[i];
        const int64_t count = gpur_tensor_count(tensor);
        float *const w = rig->host + tensor->offset;
        rig_random((uint64_t)i + 77, w, count);
        ref_tensor *const r = ref_net_find(rig->reference, tensor->name);
        for (int64_t j = 0; j < count; j++) {
            w[j] *= 0.5f;
            r->w[j] = r->target[j] = w[j];
        }
        keep_in_order(tensor, w);
    }
}

static void place(learn_rig *rig, gpur_arena *arena)
{
    rig->weights = gpur_arena_floats(arena, rig->network.params.count);
    rig->gradient = gpur_arena_floats(arena, rig->network.params.count);
    rig->pass.sheet[0] = gpur_arena_floats(arena, rig->rows * rig->pass.pitch[0]);
    gpur_pass_place(&rig->pass, arena);
    gpur_backward_place(&rig->backward, arena);
    const int64_t forward = gpur_pass_workspace(&rig->pass), backward = gpur_backward_workspace(&rig->backward);
    rig->workspace = gpur_arena_take(arena, forward > backward ? forward : backward);
}

/* As the first convolution reads it: blocks of b x b pixels, one behind the other. */
static void cut_blocks(const gpur_network *network, const float *x, float *cut)
{
    const gpur_scene *const s = &network->scene;
    const int b = network->block;
    for (int top = 0; top < s->height; top += b)
        for (int left = 0; left < s->width; left += b)
            for (int y = top; y < top + b; y++)
                for (int i = left * s->channels; i < (left + b) * s->channels; i++)
                    *cut++ = x[y * s->width * s->channels + i];
}

static gpur_status upload(learn_rig *rig, int features)
{
    const int64_t row = features * (int64_t)sizeof(float), pitch = rig->pass.pitch[0];
    float *const cut = malloc((size_t)row);
    gpur_status status =
        gpur_device_copy(rig->device, rig->weights, rig->host, rig->network.params.count * (int64_t)sizeof(float));
    for (int64_t b = 0; b < rig->rows && status == GPUR_OK; b++) {
        memcpy(cut, rig->x + b * features, (size_t)row);
        if (rig->network.conv_count)
            cut_blocks(&rig->network, rig->x + b * features, cut);
        status = gpur_device_copy(rig->device, rig->pass.sheet[0] + b * pitch, cut, row);
    }
    free(cut);
    return status;
}

static ref_net *reference_of(const gpur_network_config *config, const gpur_scene *scene)
{
    return scene->height ? ref_net_create_image(config, scene->height, scene->width, scene->channels)
                         : ref_net_create(config, (int)scene->features);
}

gpur_status rig_open(learn_rig *rig, gpur_device *device, const gpur_network_config *config, int features, int64_t rows,
                     int fuse)
{
    const gpur_scene scene = gpur_scene_of(features);
    const gpur_pass_options options = {.fuse = fuse};
    return rig_open_scene(rig, device, config, &scene, rows, &options);
}

gpur_status rig_open_scene(learn_rig *rig, gpur_device *device, const gpur_network_config *config,
                           const gpur_scene *scene, int64_t rows, const gpur_pass_options *options)
{
    const int features = (int)scene->features;
    gpur_arena arena = {NULL, 0};
    memset(rig, 0, sizeof *rig);
    rig->device = device;
    rig->rows = rows;
    GPUR_TRY(gpur_stream_create(device, &rig->stream));
    GPUR_TRY(gpur_network_build(&rig->network, config, scene));
    rig->reference = reference_of(config, scene);
    rig->host = calloc((size_t)rig->network.params.count, sizeof(float));
    rig->x = calloc((size_t)(rows * features), sizeof(float));
    fill_weights(rig);
    rig_random(5, rig->x, rows * features);
    GPUR_TRY(gpur_pass_open(&rig->pass, device, &rig->network, rows, gpur_input_pitch(&rig->network), options));
    GPUR_TRY(gpur_backward_open(&rig->backward, &rig->pass, rows));
    place(rig, &arena);
    GPUR_TRY(gpur_device_alloc(device, arena.used, &rig->memory));
    arena.base = rig->memory;
    arena.used = 0;
    place(rig, &arena);
    return upload(rig, features);
}

void rig_close(learn_rig *rig)
{
    gpur_stream_destroy(rig->stream);
    gpur_backward_close(&rig->backward);
    gpur_pass_close(&rig->pass);
    gpur_device_free(rig->device, rig->memory);
    if (rig->reference)
        ref_net_destroy(rig->reference);
    free(rig->host);
    free(rig->x);
}

gpur_status rig_forward(learn_rig *rig, int64_t rows, float *z)
{
    const int32_t last = rig->network.sheet_count - 1;
    const int64_t width = rig->network.width[last];
    GPUR_TRY(gpur_pass_forward(&rig->pass, rig->stream, rows, rig->weights, rig->workspace));
    GPUR_TRY(gpur_stream_sync(rig->stream));
    for (int64_t b = 0; b < rows; b++)
        GPUR_TRY(gpur_device_copy(rig->device, z + b * width, rig->pass.sheet[last] + b * rig->pass.pitch[last],
                                  width * (int64_t)sizeof(float)));
    return GPUR_OK;
}

gpur_status rig_backward(learn_rig *rig, const float *dz, float *gradient)
{
    const int32_t last = rig->network.sheet_count - 1;
    const int64_t width = rig->network.width[last], row = width * (int64_t)sizeof(float);
    for (int64_t b = 0; b < rig->rows; b++)
        GPUR_TRY(
            gpur_device_copy(rig->device, rig->backward.sheet[last] + b * rig->pass.pitch[last], dz + b * width, row));
    GPUR_TRY(gpur_backward_run(&rig->backward, rig->stream, rig->weights, rig->gradient, rig->workspace));
    GPUR_TRY(gpur_stream_sync(rig->stream));
    return gpur_device_copy(rig->device, gradient, rig->gradient, rig->network.params.count * (int64_t)sizeof(float));
}

gpur_learner *rig_open_learner(learn_world *world, gpur_device *device, gpur_learner_config config)
{
    gpur_learner *learner = NULL;
    if (world_open(world, device, WORLD_ROWS) != GPUR_OK)
        return NULL;
    return gpur_learner_create(world->replay, &config, &learner) == GPUR_OK ? learner : NULL;
}

void rig_close_learner(learn_world *world, gpur_learner *learner)
{
    gpur_learner_destroy(learner);
    world_close(world);
}
