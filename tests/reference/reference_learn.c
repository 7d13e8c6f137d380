/* SPDX-License-Identifier: MIT */
#include "reference/reference_learn.h"
#include "reference/reference_distribution.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ref_tensor *add_tensor(ref_net *net, const char *layer, const char *part, int units, int inputs)
{
    ref_tensor *const t = &net->tensor[net->tensors++];
    snprintf(t->name, sizeof t->name, "%s.%s", layer, part);
    t->units = units;
    t->inputs = inputs;
    t->count = inputs ? units * inputs : units;
    double **const arrays[] = {&t->w, &t->target, &t->g, &t->m, &t->v, &t->u};
    for (int i = 0; i < 6; i++)
        *arrays[i] = calloc((size_t)t->count, sizeof(double));
    return t;
}

static ref_layer add_layer(ref_net *net, const char *name, int units, int inputs, int activation)
{
    ref_tensor *const weight = add_tensor(net, name, "weight", units, inputs);
    return (ref_layer){.weight = weight, .bias = add_tensor(net, name, "bias", units, 0), .activation = activation};
}

static void add_norm(ref_net *net, ref_layer *layer, const char *name, int units)
{
    char norm[48];
    snprintf(norm, sizeof norm, "%s.norm", name);
    layer->gain = add_tensor(net, norm, "weight", units, 0);
    layer->offset = add_tensor(net, norm, "bias", units, 0);
}

/* The image of convolution i is the result of the one before it. Returns the number of its results. */
static int add_conv(ref_net *net, const char *name, int i)
{
    const gpur_layer *const l = &net->config.trunk[i];
    const ref_conv *const before = i ? &net->trunk[i - 1].conv : NULL;
    ref_conv c = {.filters = l->units, .kernel = l->kernel, .stride = l->stride, .padding = l->padding};
    c.height = before ? before->rows : net->height;
    c.width = before ? before->columns : net->columns;
    c.channels = before ? before->filters : net->channels;
    ref_conv_size(&c);
    net->trunk[i] = add_layer(net, name, c.filters, c.kernel * c.kernel * c.channels, l->activation);
    net->trunk[i].is_conv = 1, net->trunk[i].conv = c;
    return c.rows * c.columns * c.filters;
}

/* Returns the number of the trunk's results. */
static int add_trunk(ref_net *net)
{
    int inputs = net->features;
    char name[32];
    for (int i = 0; i < net->config.trunk_count; i++) {
        const gpur_layer *const l = &net->config.trunk[i];
        snprintf(name, sizeof name, "trunk.%d", i);
        if (l->kind == GPUR_CONV) {
            inputs = add_conv(net, name, i);
            continue;
        }
        net->trunk[i] = add_layer(net, name, l->units, inputs, l->activation);
        if (l->norm)
            add_norm(net, &net->trunk[i], name, l->units);
        inputs = l->units;
    }
    return inputs;
}

/* Adds a stream of the head: its hidden layer, if it has one, and its output. */
static void add_stream(ref_net *net, const char *stream, int inputs, int outputs)
{
    const int s = net->branches++, hidden = net->config.hidden;
    char name[32];
    if (hidden) {
        snprintf(name, sizeof name, "%s.hidden", stream);
        net->hidden[s] = add_layer(net, name, hidden, inputs, net->config.hidden_activation);
    }
    snprintf(name, sizeof name, "%s.out", stream);
    net->out[s] = add_layer(net, name, outputs, hidden ? hidden : inputs, GPUR_LINEAR);
}

ref_net *ref_net_create_image(const gpur_network_config *config, int height, int width, int channels)
{
    static const char *const first[] = {[GPUR_HEAD_Q] = "q",
                                        [GPUR_HEAD_DUELING] = "value",
                                        [GPUR_HEAD_SOFTMAX_VALUE] = "policy",
                                        [GPUR_HEAD_TANH_ACTION] = "action",
                                        [GPUR_HEAD_SQUASHED_GAUSSIAN] = "mean",
                                        [GPUR_HEAD_QUANTILES] = "quantiles",
                                        [GPUR_HEAD_CATEGORICAL] = "atoms"};
    ref_net *const net = calloc(1, sizeof *net);
    net->config = *config;
    net->features = height * width * channels;
    net->height = height, net->columns = width, net->channels = channels;
    const int inputs = add_trunk(net), head = config->head;
    add_stream(net, first[head], inputs, head == GPUR_HEAD_DUELING ? 1 : config->num_actions * ref_atoms(config));
    if (head == GPUR_HEAD_DUELING)
        add_stream(net, "advantage", inputs, config->num_actions);
    if (head == GPUR_HEAD_SOFTMAX_VALUE)
        add_stream(net, "value", inputs, 1);
    if (head == GPUR_HEAD_SQUASHED_GAUSSIAN)
        add_stream(net, "log_std", inputs, config->num_actions);
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

void ref_net_copy_target(ref_net *net, double rate)
{
    for (ref_tensor *t = net->tensor; t < net->tensor + net->tensors; t++)
        for (int j = 0; j < t->count; j++)
            t->target[j] = rate * t->w[j] + (1 - rate) * t->target[j];
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

static double dense_sum(int count, const double *w, const double *x, double bias)
{
    double sum[4] = {bias, 0, 0, 0}; /* a compiler may add four at once, which takes most of the tests' time */
    int i = 0;
    for (; i + 4 <= count; i += 4)
        for (int j = 0; j < 4; j++)
            sum[j] += w[i + j] * x[i + j];
    for (; i < count; i++)
        sum[0] += w[i] * x[i];
    return sum[0] + sum[1] + sum[2] + sum[3];
}

static void add_dense_backward(int count, const double *w, const double *x, double dy, double *dw, double *dx)
{
    for (int i = 0; i < count; i++) {
        dw[i] += dy * x[i];
        dx[i] += dy * w[i];
    }
}

/* Ba, Kiros & Hinton 2016: x less its mean, by its standard deviation, with PyTorch's epsilon. Returns that by which it
 * divides. */
static double normalize(int count, double *x)
{
    double mean = 0, variance = 0;
    for (int k = 0; k < count; k++)
        mean += x[k] / count;
    for (int k = 0; k < count; k++)
        variance += (x[k] - mean) * (x[k] - mean) / count;
    for (int k = 0; k < count; k++)
        x[k] = (x[k] - mean) / sqrt(variance + 1e-5);
    return sqrt(variance + 1e-5);
}

/* Back through that: dx of the sums, from dy by the normalized numbers n, sums over all pairs. */
static void normalize_backward(int count, const double *n, double deviation, const double *dy, double *dx)
{
    for (int i = 0; i < count; i++) {
        dx[i] = 0;
        for (int k = 0; k < count; k++)
            dx[i] += dy[k] * ((i == k) - 1.0 / count - n[i] * n[k] / count) / deviation;
    }
}

static const double *of(const ref_tensor *tensor, int target)
{
    return target ? tensor->target : tensor->w;
}

/* x W^T + b of one row. */
static void dense_sums(const ref_layer *layer, int target, const double *x, double *sums)
{
    const ref_tensor *const w = layer->weight;
    const double *const weight = of(w, target), *const bias = of(layer->bias, target);
    for (int k = 0; k < w->units; k++)
        sums[k] = dense_sum(w->inputs, weight + k * w->inputs, x, bias[k]);
}

/* Fills in y. Returns the number of its elements. */
static int layer_forward(const ref_layer *layer, int target, const double *x, double *y)
{
    const ref_tensor *const w = layer->weight;
    const ref_conv *const c = &layer->conv;
    const double *const weight = of(w, target), *const bias = of(layer->bias, target);
    const int count = layer->is_conv ? c->rows * c->columns * c->filters : w->units;
    if (layer->is_conv)
        ref_conv_forward(c, x, weight, y, NULL);
    else
        dense_sums(layer, target, x, y);
    if (layer->gain)
        (void)normalize(count, y);
    for (int k = 0; k < count; k++) {
        const double sum = layer->is_conv ? y[k] + bias[k % c->filters] : y[k];
        y[k] = activate(layer->activation,
                        layer->gain ? sum * of(layer->gain, target)[k] + of(layer->offset, target)[k] : sum);
    }
    return count;
}

/* dy is the gradient after the normalization, and is replaced by the one before it. Adds to the tensors' gradients. */
static void norm_backward(const ref_layer *layer, const double *x, double *dy)
{
    static _Thread_local double n[REF_WIDTH], dn[REF_WIDTH];
    const int count = layer->gain->count;
    dense_sums(layer, 0, x, n);
    const double deviation = normalize(count, n);
    for (int k = 0; k < count; k++) {
        layer->gain->g[k] += dy[k] * n[k];
        layer->offset->g[k] += dy[k];
        dn[k] = dy[k] * layer->gain->w[k];
    }
    normalize_backward(count, n, deviation, dn, dy);
}

/* dy is the gradient after the activation, and is replaced by the one before it. Adds to the tensors' gradients and to
 * dx. */
static void layer_backward(const ref_layer *layer, const double *x, const double *y, double *dy, double *dx)
{
    ref_tensor *const w = layer->weight;
    const ref_conv *const c = &layer->conv;
    const int count = layer->is_conv ? c->rows * c->columns * c->filters : w->units;
    for (int k = 0; k < count; k++)
        dy[k] *= slope(layer->activation, y[k]);
    if (layer->gain)
        norm_backward(layer, x, dy);
    for (int k = 0; k < count; k++)
        layer->bias->g[k % w->units] += dy[k];
    if (layer->is_conv)
        ref_conv_backward(c, x, w->w, dy, dx, w->g);
    for (int k = 0; k < count && !layer->is_conv; k++)
        add_dense_backward(w->inputs, w->w + k * w->inputs, x, dy[k], w->g + k * w->inputs, dx);
}

void ref_forward_input(ref_net *net, int target, ref_tape *tape)
{
    const gpur_network_config *const config = &net->config;
    int column = 0;
    const double *at = tape->x;
    for (int i = 0; i < config->trunk_count; i++) {
        layer_forward(&net->trunk[i], target, at, tape->trunk[i]);
        at = tape->trunk[i];
    }
    for (int s = 0; s < net->branches; s++) {
        if (config->hidden)
            layer_forward(&net->hidden[s], target, at, tape->hidden[s]);
        column += layer_forward(&net->out[s], target, config->hidden ? tape->hidden[s] : at, tape->z + column);
    }
    ref_head(config->head, config->num_actions * ref_atoms(config), tape->z, tape->y);
}

void ref_forward(ref_net *net, int target, const float *x, ref_tape *tape)
{
    const gpur_network_config *const config = &net->config;
    ref_conv_pixels(net->height, net->columns, net->channels, net->trunk[0].is_conv && config->input_layout == GPUR_CHW,
                    x, tape->x);
    for (int i = 0; i < net->features; i++)
        tape->x[i] = tape->x[i] * config->input_scale + config->input_shift;
    ref_forward_input(net, target, tape);
}

void ref_backward_to_input(ref_net *net, const ref_tape *tape, const double *dy, double *to_input)
{
    static _Thread_local double dz[REF_WIDTH], dat[REF_WIDTH], dhidden[REF_WIDTH], dx[REF_WIDTH];
    const gpur_network_config *const config = &net->config;
    const double *const at = config->trunk_count ? tape->trunk[config->trunk_count - 1] : tape->x;
    int column = 0;
    memset(dat, 0, sizeof dat);
    ref_head_backward(config->head, config->num_actions * ref_atoms(config), tape->y, dy, dz);
    for (int s = 0; s < net->branches; s++) {
        const double *const in = config->hidden ? tape->hidden[s] : at;
        memset(dhidden, 0, sizeof dhidden);
        layer_backward(&net->out[s], in, tape->z + column, dz + column, config->hidden ? dhidden : dat);
        column += net->out[s].weight->units;
        if (config->hidden)
            layer_backward(&net->hidden[s], at, tape->hidden[s], dhidden, dat);
    }
    for (int i = config->trunk_count - 1; i >= 0; i--) {
        memset(dx, 0, sizeof dx);
        layer_backward(&net->trunk[i], i ? tape->trunk[i - 1] : tape->x, tape->trunk[i], dat, dx);
        memcpy(dat, dx, sizeof dat);
    }
    memcpy(to_input, dat, (size_t)net->features * sizeof *dat);
}

void ref_backward(ref_net *net, const ref_tape *tape, const double *dy)
{
    static _Thread_local double ignored[REF_WIDTH];
    ref_backward_to_input(net, tape, dy, ignored);
}
