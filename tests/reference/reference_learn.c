/* SPDX-License-Identifier: MIT */
#include "reference/reference_learn.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void add_tensor(ref_net *net, const char *layer, const char *part, int units, int inputs)
{
    ref_tensor *const t = &net->tensor[net->tensors++];
    snprintf(t->name, sizeof t->name, "%s.%s", layer, part);
    t->units = units;
    t->inputs = inputs;
    t->count = inputs ? units * inputs : units;
    double **const arrays[] = {&t->w, &t->target, &t->g, &t->m, &t->v, &t->u};
    for (int i = 0; i < 6; i++)
        *arrays[i] = calloc((size_t)t->count, sizeof(double));
}

static void add_layer(ref_net *net, const char *layer, int units, int inputs)
{
    add_tensor(net, layer, "weight", units, inputs);
    add_tensor(net, layer, "bias", units, 0);
}

/* The names and sizes of a head's streams: 1 or 2 of them. */
static int streams_of(const gpur_network_config *config, const char *names[2], int sizes[2])
{
    const int actions = config->num_actions;
    switch (config->head) {
    case GPUR_HEAD_DUELING:
        names[0] = "value", names[1] = "advantage", sizes[0] = 1, sizes[1] = actions;
        return 2;
    case GPUR_HEAD_SOFTMAX_VALUE:
        names[0] = "policy", names[1] = "value", sizes[0] = actions, sizes[1] = 1;
        return 2;
    case GPUR_HEAD_TANH_ACTION:
        names[0] = "action", sizes[0] = actions;
        return 1;
    default:
        names[0] = "q", sizes[0] = actions;
        return 1;
    }
}

/* The image that convolution i sees is what the one before it made. */
static int add_conv(ref_net *net, const char *layer, int i)
{
    const gpur_layer *const l = &net->config.trunk[i];
    const ref_conv *const before = i ? &net->conv[i - 1] : NULL;
    ref_conv *const c = &net->conv[net->convs++];
    c->height = before ? before->rows : net->height;
    c->width = before ? before->columns : net->columns;
    c->channels = before ? before->filters : net->channels;
    c->filters = l->units, c->kernel = l->kernel, c->stride = l->stride, c->padding = l->padding;
    ref_conv_size(c);
    add_layer(net, layer, c->filters, c->kernel * c->kernel * c->channels);
    return c->rows * c->columns * c->filters;
}

/* How many numbers it makes. */
static int add_trunk(ref_net *net)
{
    int inputs = net->features;
    char layer[32];
    for (int i = 0; i < net->config.trunk_count; i++) {
        snprintf(layer, sizeof layer, "trunk.%d", i);
        if (net->config.trunk[i].kind == GPUR_CONV) {
            inputs = add_conv(net, layer, i);
            continue;
        }
        add_layer(net, layer, net->config.trunk[i].units, inputs);
        inputs = net->config.trunk[i].units;
    }
    return inputs;
}

ref_net *ref_net_create_image(const gpur_network_config *config, int height, int width, int channels)
{
    ref_net *const net = calloc(1, sizeof *net);
    const char *names[2];
    int sizes[2];
    char layer[32];
    net->config = *config;
    net->features = height * width * channels;
    net->height = height, net->columns = width, net->channels = channels;
    const int inputs = add_trunk(net);
    const int streams = streams_of(config, names, sizes);
    for (int s = 0; s < streams; s++) {
        if (config->hidden) {
            snprintf(layer, sizeof layer, "%s.hidden", names[s]);
            add_layer(net, layer, config->hidden, inputs);
        }
        snprintf(layer, sizeof layer, "%s.out", names[s]);
        add_layer(net, layer, sizes[s], config->hidden ? config->hidden : inputs);
    }
    net->width = config->num_actions + (config->head == GPUR_HEAD_SOFTMAX_VALUE);
    return net;
}

ref_net *ref_net_create(const gpur_network_config *config, int features)
{
    return ref_net_create_image(config, 1, features, 1);
}

void ref_net_destroy(ref_net *net)
{
    for (int i = 0; i < net->tensors; i++) {
        ref_tensor *const t = &net->tensor[i];
        free(t->w), free(t->target), free(t->g), free(t->m), free(t->v), free(t->u);
    }
    free(net);
}

ref_tensor *ref_net_find(ref_net *net, const char *name)
{
    for (int i = 0; i < net->tensors; i++)
        if (strcmp(net->tensor[i].name, name) == 0)
            return &net->tensor[i];
    return NULL;
}

static ref_tensor *find_part(ref_net *net, const char *layer, const char *part)
{
    char name[128];
    snprintf(name, sizeof name, "%s.%s", layer, part);
    return ref_net_find(net, name);
}

void ref_net_copy_target(ref_net *net)
{
    for (int i = 0; i < net->tensors; i++)
        memcpy(net->tensor[i].target, net->tensor[i].w, (size_t)net->tensor[i].count * sizeof(double));
}

void ref_net_zero_gradient(ref_net *net)
{
    for (int i = 0; i < net->tensors; i++)
        memset(net->tensor[i].g, 0, (size_t)net->tensor[i].count * sizeof(double));
}

static double activate(int kind, double x)
{
    return kind == GPUR_RELU ? fmax(x, 0) : kind == GPUR_TANH ? tanh(x) : x;
}

static double slope(int kind, double y)
{
    return kind == GPUR_RELU ? y > 0 : kind == GPUR_TANH ? 1 - y * y : 1;
}

static void layer_forward(ref_net *net, int target, const char *layer, int activation, const double *x, double *y)
{
    const ref_tensor *const w = find_part(net, layer, "weight"), *const b = find_part(net, layer, "bias");
    const double *const weight = target ? w->target : w->w, *const bias = target ? b->target : b->w;
    for (int u = 0; u < w->units; u++) {
        const double *const row = weight + u * w->inputs;
        double sum[4] = {bias[u], 0, 0, 0}; /* four, which a compiler may add at once: most of the tests' time */
        int i = 0;
        for (; i + 4 <= w->inputs; i += 4)
            for (int j = 0; j < 4; j++)
                sum[j] += row[i + j] * x[i + j];
        for (; i < w->inputs; i++)
            sum[0] += row[i] * x[i];
        y[u] = activate(activation, sum[0] + sum[1] + sum[2] + sum[3]);
    }
}

/* dy is after the activation; adds to the gradients and to dx (NULL: not wanted). */
static void layer_backward(ref_net *net, const char *layer, int activation, const double *x, const double *y,
                           const double *dy, double *dx)
{
    ref_tensor *const w = find_part(net, layer, "weight"), *const b = find_part(net, layer, "bias");
    for (int u = 0; u < w->units; u++) {
        const double d = dy[u] * slope(activation, y[u]);
        b->g[u] += d;
        for (int i = 0; i < w->inputs; i++) {
            w->g[u * w->inputs + i] += d * x[i];
            if (dx)
                dx[i] += d * w->w[u * w->inputs + i];
        }
    }
}

static void conv_forward(ref_net *net, int target, const char *layer, int i, const double *x, double *y)
{
    const ref_tensor *const w = find_part(net, layer, "weight"), *const b = find_part(net, layer, "bias");
    const ref_conv *const c = &net->conv[i];
    ref_conv_forward(c, x, target ? w->target : w->w, y, NULL);
    for (int k = 0; k < c->rows * c->columns * c->filters; k++)
        y[k] = activate(net->config.trunk[i].activation, y[k] + (target ? b->target : b->w)[k % c->filters]);
}

/* dy is after the activation, and is brought before it; adds to the gradients and to dx. */
static void conv_backward(ref_net *net, const char *layer, int i, const double *x, const double *y, double *dy,
                          double *dx)
{
    ref_tensor *const w = find_part(net, layer, "weight"), *const b = find_part(net, layer, "bias");
    const ref_conv *const c = &net->conv[i];
    for (int k = 0; k < c->rows * c->columns * c->filters; k++) {
        dy[k] *= slope(net->config.trunk[i].activation, y[k]);
        b->g[k % c->filters] += dy[k];
    }
    ref_conv_backward(c, x, w->w, dy, dx, w->g);
}

void ref_forward(ref_net *net, int target, const float *x, ref_tape *tape)
{
    const gpur_network_config *const config = &net->config;
    const char *names[2];
    int sizes[2], column = 0;
    char layer[32];
    ref_conv_pixels(net->height, net->columns, net->channels, net->convs > 0 && config->input_layout == GPUR_CHW, x,
                    tape->x);
    for (int i = 0; i < net->features; i++)
        tape->x[i] *= config->input_scale;
    double *at = tape->x;
    for (int i = 0; i < config->trunk_count; i++) {
        snprintf(layer, sizeof layer, "trunk.%d", i);
        if (i < net->convs)
            conv_forward(net, target, layer, i, at, tape->trunk[i]);
        else
            layer_forward(net, target, layer, config->trunk[i].activation, at, tape->trunk[i]);
        at = tape->trunk[i];
    }
    const int streams = streams_of(config, names, sizes);
    for (int s = 0; s < streams; s++) {
        double *in = at;
        if (config->hidden) {
            snprintf(layer, sizeof layer, "%s.hidden", names[s]);
            layer_forward(net, target, layer, config->hidden_activation, at, tape->hidden[s]);
            in = tape->hidden[s];
        }
        snprintf(layer, sizeof layer, "%s.out", names[s]);
        layer_forward(net, target, layer, GPUR_LINEAR, in, tape->z + column);
        column += sizes[s];
    }
    ref_head(config->head, config->num_actions, tape->z, tape->y);
}

void ref_backward(ref_net *net, const ref_tape *tape, const double *dy)
{
    static _Thread_local double dz[REF_WIDTH], dat[REF_WIDTH], dhidden[REF_WIDTH], dx[REF_WIDTH];
    const gpur_network_config *const config = &net->config;
    const char *names[2];
    int sizes[2], column = 0;
    char layer[32];
    const double *const at = config->trunk_count ? tape->trunk[config->trunk_count - 1] : tape->x;
    memset(dat, 0, sizeof dat);
    ref_head_backward(config->head, config->num_actions, tape->y, dy, dz);
    const int streams = streams_of(config, names, sizes);
    for (int s = 0; s < streams; s++) {
        memset(dhidden, 0, sizeof dhidden);
        snprintf(layer, sizeof layer, "%s.out", names[s]);
        layer_backward(net, layer, GPUR_LINEAR, config->hidden ? tape->hidden[s] : at, tape->z + column, dz + column,
                       config->hidden ? dhidden : dat);
        column += sizes[s];
        if (config->hidden) {
            snprintf(layer, sizeof layer, "%s.hidden", names[s]);
            layer_backward(net, layer, config->hidden_activation, at, tape->hidden[s], dhidden, dat);
        }
    }
    for (int i = config->trunk_count - 1; i >= 0; i--) {
        memset(dx, 0, sizeof dx);
        snprintf(layer, sizeof layer, "trunk.%d", i);
        const double *const in = i ? tape->trunk[i - 1] : tape->x;
        if (i < net->convs)
            conv_backward(net, layer, i, in, tape->trunk[i], dat, dx);
        else
            layer_backward(net, layer, config->trunk[i].activation, in, tape->trunk[i], dat, dx);
        memcpy(dat, dx, sizeof dat);
    }
}
