/* SPDX-License-Identifier: MIT */
#include "reference_learn.h"

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
    const int actions = config->outputs;
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

ref_net *ref_net_create(const gpur_network_config *config, int features)
{
    ref_net *const net = calloc(1, sizeof *net);
    const char *names[2];
    int sizes[2], inputs = features;
    char layer[32];
    net->config = *config;
    net->features = features;
    for (int i = 0; i < config->trunk_count; i++) {
        snprintf(layer, sizeof layer, "trunk.%d", i);
        add_layer(net, layer, config->trunk[i].units, inputs);
        inputs = config->trunk[i].units;
    }
    const int streams = streams_of(config, names, sizes);
    for (int s = 0; s < streams; s++) {
        if (config->hidden) {
            snprintf(layer, sizeof layer, "%s.hidden", names[s]);
            add_layer(net, layer, config->hidden, inputs);
        }
        snprintf(layer, sizeof layer, "%s.out", names[s]);
        add_layer(net, layer, sizes[s], config->hidden ? config->hidden : inputs);
    }
    net->width = config->outputs + (config->head == GPUR_HEAD_SOFTMAX_VALUE);
    return net;
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
        double sum = bias[u];
        for (int i = 0; i < w->inputs; i++)
            sum += weight[u * w->inputs + i] * x[i];
        y[u] = activate(activation, sum);
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

void ref_head(int head, int outputs, const double *z, double *y)
{
    double sum = 0;
    for (int k = 0; k < outputs; k++) {
        if (head == GPUR_HEAD_Q)
            y[k] = z[k];
        else if (head == GPUR_HEAD_TANH_ACTION)
            y[k] = tanh(z[k]);
        else
            sum += head == GPUR_HEAD_DUELING ? z[1 + k] : exp(z[k]);
    }
    if (head == GPUR_HEAD_DUELING)
        for (int k = 0; k < outputs; k++)
            y[k] = z[0] + z[1 + k] - sum / outputs;
    if (head == GPUR_HEAD_SOFTMAX_VALUE) {
        for (int k = 0; k < outputs; k++)
            y[k] = exp(z[k]) / sum;
        y[outputs] = z[outputs];
    }
}

/* By the full Jacobian: dz_j = sum_k dy_k dy_k/dz_j. */
void ref_head_backward(int head, int outputs, const double *y, const double *dy, double *dz)
{
    if (head == GPUR_HEAD_DUELING) {
        dz[0] = 0;
        for (int k = 0; k < outputs; k++)
            dz[0] += dy[k];
    }
    for (int j = 0; j < outputs; j++) {
        double sum = 0;
        for (int k = 0; k < outputs; k++) {
            const double same = j == k;
            if (head == GPUR_HEAD_Q)
                sum += dy[k] * same;
            else if (head == GPUR_HEAD_TANH_ACTION)
                sum += dy[k] * same * (1 - y[k] * y[k]);
            else if (head == GPUR_HEAD_DUELING)
                sum += dy[k] * (same - 1.0 / outputs);
            else
                sum += dy[k] * y[k] * (same - y[j]);
        }
        dz[head == GPUR_HEAD_DUELING ? 1 + j : j] = sum;
    }
    if (head == GPUR_HEAD_SOFTMAX_VALUE)
        dz[outputs] = dy[outputs];
}

void ref_forward(ref_net *net, int target, const float *x, ref_tape *tape)
{
    const gpur_network_config *const config = &net->config;
    const char *names[2];
    int sizes[2], column = 0;
    char layer[32];
    for (int i = 0; i < net->features; i++)
        tape->x[i] = x[i];
    double *at = tape->x;
    for (int i = 0; i < config->trunk_count; i++) {
        snprintf(layer, sizeof layer, "trunk.%d", i);
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
    ref_head(config->head, config->outputs, tape->z, tape->y);
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
    ref_head_backward(config->head, config->outputs, tape->y, dy, dz);
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
        layer_backward(net, layer, config->trunk[i].activation, i ? tape->trunk[i - 1] : tape->x, tape->trunk[i], dat,
                       dx);
        memcpy(dat, dx, sizeof dat);
    }
}
