/* SPDX-License-Identifier: MIT */
/* Checks a network's config, and builds the network's table from it. */
#include "learn/network/network.h"

#include "base/sized.h"
#include "replay/config.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define MAX_INIT_SCALE 1e6f
enum { MAX_UNITS = 65536, MAX_FEATURES = 1 << 24, MAX_KERNEL = 64 };

enum { MAX_BRANCHES = 2 };

/* A branch of a head: how many numbers its output layer has, for each action and besides. A head of distributions has
 * N times as many for each action. */
typedef struct branch {
    const char *name;
    int32_t of_action, others;
} branch;

typedef struct head_entry {
    branch branches[MAX_BRANCHES]; /* (branch_count) in the order of their columns */
    int32_t branch_count;
    gpur_distribution distribution; /* of a head of distributions: what it has by default */
    int32_t min_atoms;              /* and the fewest atoms */
} head_entry;

static const head_entry heads[] = {
    [GPUR_HEAD_Q] = {{{"q", 1, 0}}, 1},
    [GPUR_HEAD_DUELING] = {{{"value", 0, 1}, {"advantage", 1, 0}}, 2},
    [GPUR_HEAD_SOFTMAX_VALUE] = {{{"policy", 1, 0}, {"value", 0, 1}}, 2},
    [GPUR_HEAD_TANH_ACTION] = {{{"action", 1, 0}}, 1},
    [GPUR_HEAD_SQUASHED_GAUSSIAN] = {{{"mean", 1, 0}, {"log_std", 1, 0}}, 2},
    [GPUR_HEAD_QUANTILES] = {{{"quantiles", 1, 0}}, 1, {.atoms = 200}, 1},
    [GPUR_HEAD_CATEGORICAL] = {{{"atoms", 1, 0}}, 1, {.atoms = 51, .v_min = -10.0f, .v_max = 10.0f}, 2},
};

static gpur_status check_activation(int32_t activation, const char *name)
{
    return gpur_choice_check(activation, GPUR_TANH, name, "GPUR_LINEAR, GPUR_RELU or GPUR_TANH (0 to 2)");
}

static gpur_status check_dense(const gpur_layer *layer, int32_t i)
{
    GPUR_REQUIRE(layer->kernel == 0 && layer->stride == 0 && layer->padding == 0,
                 "network.trunk[%" PRId32 "] is dense, with kernel %" PRId32 ", stride %" PRId32 ", padding %" PRId32
                 "; they must be 0",
                 i, layer->kernel, layer->stride, layer->padding);
    return gpur_choice_check(layer->norm, GPUR_LAYER_NORM, "network.trunk[].norm", "0 or GPUR_LAYER_NORM (0, 1)");
}

static gpur_status check_conv(const gpur_layer *layer, int32_t i)
{
    GPUR_REQUIRE(layer->norm == 0,
                 "network.trunk[%" PRId32 "].norm is %" PRId32
                 " of a convolution; it must be 0: dense layers alone can "
                 "be normalized",
                 i, layer->norm);
    GPUR_REQUIRE(layer->kernel >= 1 && layer->kernel <= MAX_KERNEL,
                 "network.trunk[%" PRId32 "].kernel is %" PRId32 "; it must be 1 to %d", i, layer->kernel, MAX_KERNEL);
    GPUR_REQUIRE(layer->stride >= 1 && layer->stride <= MAX_KERNEL,
                 "network.trunk[%" PRId32 "].stride is %" PRId32 "; it must be 1 to %d", i, layer->stride, MAX_KERNEL);
    GPUR_REQUIRE(layer->padding >= GPUR_SAME && layer->padding < layer->kernel,
                 "network.trunk[%" PRId32 "].padding is %" PRId32 "; it must be 0 to kernel - 1, %" PRId32
                 ", or GPUR_SAME (-1)",
                 i, layer->padding, layer->kernel - 1);
    return GPUR_OK;
}

static gpur_status check_layer(const gpur_network_config *config, int32_t i)
{
    const gpur_layer *const layer = &config->trunk[i];
    GPUR_REQUIRE(layer->kind == GPUR_DENSE || layer->kind == GPUR_CONV,
                 "network.trunk[%" PRId32 "].kind is %" PRId32 "; it must be GPUR_DENSE or GPUR_CONV (0, 1)", i,
                 layer->kind);
    GPUR_REQUIRE(layer->kind == GPUR_DENSE || i == 0 || config->trunk[i - 1].kind == GPUR_CONV,
                 "network.trunk[%" PRId32 "] is a convolution behind a dense layer; convolutions come first", i);
    GPUR_REQUIRE(layer->units >= 1 && layer->units <= MAX_UNITS,
                 "network.trunk[%" PRId32 "].units is %" PRId32 "; it must be 1 to %d", i, layer->units, MAX_UNITS);
    GPUR_TRY(check_activation(layer->activation, "network.trunk[].activation"));
    GPUR_TRY(gpur_reserved_check(layer->reserved, 1, "network.trunk[]"));
    GPUR_TRY(gpur_reserved_check(&(int64_t){layer->reserved0}, 1, "network.trunk[]"));
    return layer->kind == GPUR_DENSE ? check_dense(layer, i) : check_conv(layer, i);
}

static gpur_status check_trunk(const gpur_network_config *config)
{
    GPUR_TRY(gpur_range_check(config->trunk_count, 0, GPUR_MAX_LAYERS, "network.trunk_count"));
    for (int32_t i = 0; i < config->trunk_count; i++)
        GPUR_TRY(check_layer(config, i));
    return GPUR_OK;
}

/* The distributions of a head, with its defaults. */
static gpur_distribution distribution_of(const gpur_network_config *config)
{
    gpur_distribution d = heads[config->head].distribution;
    if (config->atoms != 0)
        d.atoms = config->atoms;
    if (config->v_min != 0.0f || config->v_max != 0.0f)
        d.v_min = config->v_min, d.v_max = config->v_max;
    return d;
}

static gpur_status check_distribution(const gpur_network_config *config)
{
    const head_entry *const head = &heads[config->head];
    const gpur_distribution d = distribution_of(config);
    if (head->min_atoms == 0)
        GPUR_REQUIRE(d.atoms == 0, "network.atoms is %" PRId32 "; without a head of distributions it must be 0",
                     d.atoms);
    else
        GPUR_TRY(gpur_range_check(d.atoms, head->min_atoms, MAX_UNITS, "network.atoms"));
    GPUR_REQUIRE((int64_t)d.atoms * config->num_actions <= MAX_FEATURES,
                 "network.atoms is %" PRId32 " and network.num_actions %" PRId32 "; at most %d numbers in all", d.atoms,
                 config->num_actions, MAX_FEATURES);
    if (head->distribution.v_max == 0.0f)
        GPUR_REQUIRE(d.v_min == 0.0f && d.v_max == 0.0f,
                     "network.v_min is %g and v_max %g; without GPUR_HEAD_CATEGORICAL they must be 0", (double)d.v_min,
                     (double)d.v_max);
    else
        GPUR_REQUIRE(d.v_min < d.v_max && isfinite(d.v_max - d.v_min),
                     "network.v_min is %g and v_max %g; they must be finite, and the first below the second",
                     (double)d.v_min, (double)d.v_max);
    return GPUR_OK;
}

static gpur_status check_head(const gpur_network_config *config)
{
    const int32_t last = sizeof heads / sizeof *heads - 1;
    GPUR_REQUIRE(config->head >= 0 && config->head <= last,
                 "network.head is %" PRId32 "; it must be 0 to %" PRId32 " (GPUR_HEAD_*)", config->head, last);
    GPUR_REQUIRE(config->hidden >= 0 && config->hidden <= MAX_UNITS,
                 "network.hidden is %" PRId32 "; it must be 0 (none) to %d", config->hidden, MAX_UNITS);
    GPUR_TRY(check_activation(config->hidden_activation, "network.hidden_activation"));
    GPUR_REQUIRE(config->num_actions >= 1 && config->num_actions <= MAX_UNITS,
                 "network.num_actions is %" PRId32 "; it must be the number of actions, 1 to %d", config->num_actions,
                 MAX_UNITS);
    return check_distribution(config);
}

static gpur_status check_input(const gpur_network_config *config, const gpur_input_shape *input_shape)
{
    GPUR_REQUIRE(input_shape->features >= 1 && input_shape->features <= MAX_FEATURES,
                 "an observation has %" PRId64 " numbers; a network takes 1 to %d", input_shape->features,
                 MAX_FEATURES);
    GPUR_REQUIRE(isfinite(config->input_scale) && config->input_scale != 0.0f,
                 "network.input_scale is %g; it must be finite and not 0: was the config initialized?",
                 (double)config->input_scale);
    GPUR_REQUIRE(isfinite(config->input_shift), "network.input_shift is %g; it must be finite",
                 (double)config->input_shift);
    return gpur_choice_check(config->input_layout, GPUR_INPUT_AUTO, "network.input_layout",
                             "GPUR_CHW, HWC or INPUT_AUTO (0 to 2)");
}

/* Checks everything in a config that does not depend on the size of a layer's input. */
static gpur_status check_config(const gpur_network_config *config, const gpur_input_shape *input_shape)
{
    GPUR_TRY(check_input(config, input_shape));
    GPUR_TRY(check_trunk(config));
    GPUR_TRY(check_head(config));
    GPUR_TRY(gpur_choice_check(config->init, GPUR_INIT_NORMAL, "network.init",
                               "GPUR_INIT_FAN_IN, GLOROT or NORMAL (0 to 2)"));
    GPUR_REQUIRE(config->init_scale >= 0.0f && config->init_scale <= MAX_INIT_SCALE,
                 "network.init_scale is %g; it must be 0 to %g", (double)config->init_scale, (double)MAX_INIT_SCALE);
    GPUR_TRY(gpur_reserved_check(&(const int64_t){config->reserved_number}, 1, "network"));
    return gpur_reserved_check(config->reserved, 2, "network");
}

/* Zeros before and after an image along one axis, and the output's size along it. */
typedef struct axis {
    int32_t before, after, out;
} axis;

static axis axis_of(const gpur_layer *layer, int32_t size)
{
    axis a = {layer->padding, layer->padding, 0};
    if (layer->padding == GPUR_SAME) {
        const int32_t total = (size - 1) / layer->stride * layer->stride + layer->kernel - size;
        a.before = total > 0 ? total / 2 : 0;
        a.after = total > 0 ? total - a.before : 0;
    }
    a.out = (size + a.before + a.after - layer->kernel) / layer->stride + 1;
    return a;
}

/* With GPUR_SAME any kernel fits. */
static int32_t max_kernel(const gpur_layer *layer, const gpur_input_shape *seen)
{
    if (layer->padding == GPUR_SAME)
        return MAX_KERNEL;
    return (seen->height < seen->width ? seen->height : seen->width) + 2 * layer->padding;
}

/* How the first layer reads the shape of obs: a wrong input_layout takes another axis for the channels. */
static void describe_layout(const gpur_network_config *config, const gpur_input_shape *seen, char *text, size_t size)
{
    const int planes = config->input_layout == GPUR_CHW;
    snprintf(text, size, ": network.input_layout %s takes obs of (%" PRId32 ", %" PRId32 ", %" PRId32 ") as %s",
             planes ? "GPUR_CHW" : "GPUR_HWC", planes ? seen->channels : seen->height,
             planes ? seen->height : seen->width, planes ? seen->width : seen->channels,
             planes ? "(channels, height, width); GPUR_HWC takes it as (height, width, channels)"
                    : "(height, width, channels); GPUR_CHW takes it as (channels, height, width)");
}

static gpur_status check_size(const gpur_network_config *config, int32_t i, const gpur_input_shape *seen)
{
    const gpur_layer *const layer = &config->trunk[i];
    char layout[256] = "";
    if (i == 0)
        describe_layout(config, seen, layout, sizeof layout);
    GPUR_REQUIRE(layer->kernel <= max_kernel(layer, seen),
                 "network.trunk[%" PRId32 "].kernel is %" PRId32 "; it must be at most %" PRId32
                 ", as an image of %" PRId32 " x %" PRId32 " comes in with padding %" PRId32 "%s",
                 i, layer->kernel, max_kernel(layer, seen), seen->height, seen->width, layer->padding, layout);
    return GPUR_OK;
}

/* Checks that convolution i fits its input `seen`, and that its output is not too large. */
static gpur_status check_convolution(const gpur_network_config *config, int32_t i, const gpur_input_shape *seen)
{
    const gpur_layer *const layer = &config->trunk[i];
    GPUR_TRY(check_size(config, i, seen));
    const int64_t rows = axis_of(layer, seen->height).out, columns = axis_of(layer, seen->width).out;
    GPUR_REQUIRE(rows * columns * layer->units <= MAX_FEATURES,
                 "network.trunk[%" PRId32 "] makes (%" PRId64 ", %" PRId64 ", %" PRId32 "); at most %d numbers", i,
                 rows, columns, layer->units, MAX_FEATURES);
    const int64_t widest = seen->channels > layer->units ? seen->channels : layer->units;
    GPUR_REQUIRE(layer->kernel * (int64_t)layer->kernel * widest <= INT32_MAX,
                 "network.trunk[%" PRId32 "] has %" PRId32 " x %" PRId32 " weights for each of %" PRId64
                 " channels; at most %" PRId32 " in all",
                 i, layer->kernel, layer->kernel, widest, INT32_MAX);
    return GPUR_OK;
}

static int32_t outputs_of(const branch *b, const gpur_network *network)
{
    const int32_t numbers = network->distribution.atoms > 0 ? network->distribution.atoms : 1;
    return b->of_action * numbers * network->num_actions + b->others;
}

static gpur_dense *add_dense(gpur_network *network, int32_t from, int32_t to, int32_t inputs, int32_t units)
{
    gpur_dense *const dense = &network->dense[network->dense_count++];
    dense->from = from;
    dense->to = to;
    dense->inputs = inputs;
    dense->units = units;
    return dense;
}

/*
 * Adds an array of activations, `units` of each copy side by side, and what computes it from the previous array: one
 * product if that is the input, which all copies read, else one for each copy. Returns the first of them; the weights
 * and biases of all are two groups.
 */
static gpur_dense *add_layer(gpur_network *network, int32_t units, int32_t activation)
{
    const int32_t from = network->activation_count - 1, copies = network->copies;
    const int32_t products = from == 0 ? 1 : copies, inputs = network->width[from] / products;
    const int64_t weight = gpur_params_add_group(&network->params, (int64_t)copies * units * inputs);
    const int64_t bias = gpur_params_add_group(&network->params, copies * units);
    gpur_dense *const first = &network->dense[network->dense_count];
    for (int32_t p = 0; p < products; p++) {
        gpur_dense *const dense = add_dense(network, from, from + 1, inputs, copies * units / products);
        dense->from_column = p * inputs;
        dense->to_column = p * units;
        dense->activation = activation;
        dense->weight = weight + (int64_t)p * units * inputs;
        dense->bias = bias + p * units;
    }
    network->width[network->activation_count++] = copies * units;
    return first;
}

/* "2.trunk.0" of several copies. */
static const char *name_of(const gpur_network *network, int32_t copy, const char *layer, char name[48])
{
    if (network->copies == 1)
        return layer;
    snprintf(name, 48, "%d.%s", (int)copy + 1, layer);
    return name;
}

/* Adds the normalization of the last array of activations. */
static void add_norm(gpur_network *network, const char *layer, int32_t units)
{
    char name[48];
    gpur_norm *const norm = &network->norm[network->activation_count - 1];
    norm->gain = gpur_params_add_group(&network->params, network->copies * units);
    norm->offset = gpur_params_add_group(&network->params, network->copies * units);
    for (int32_t c = 0; c < network->copies; c++)
        gpur_params_name_norm(&network->params, name_of(network, c, layer, name), norm->gain, norm->offset, c * units,
                              units);
}

/* Names the `units` rows of a layer from row `first` on, of copy `copy`: "trunk.0.weight", or of several copies
 * "1.trunk.0.weight". */
static void name_rows(gpur_network *network, int32_t copy, const char *layer, int64_t weight, int64_t bias,
                      int32_t first, int32_t units, int32_t inputs)
{
    char name[48];
    gpur_params_name(&network->params, name_of(network, copy, layer, name), weight, bias, first, units, inputs);
}

/*
 * Returns the side s of the first convolution's space-to-depth blocks; 1 if it cannot use them. A convolution with
 * kernel 2 s and stride s, such as the first of the Nature network (8 and 4), reads each number of the image four times
 * and has few channels. With s x s pixels taken as one it has kernel 2, stride 1 and s^2 times the channels: the same
 * sums, in a shape that every library handles well.
 */
static int32_t space_to_depth_of(const gpur_layer *first, const gpur_input_shape *input_shape)
{
    const int32_t s = first->stride;
    const int fits =
        first->kernel % s == 0 && first->padding == 0 && input_shape->height % s == 0 && input_shape->width % s == 0;
    return s > 1 && fits ? s : 1;
}

static gpur_convolution conv_of(const gpur_layer *layer, const gpur_input_shape *seen, int32_t block)
{
    const axis y = axis_of(layer, seen->height), x = axis_of(layer, seen->width);
    const gpur_convolution conv = {
        .height = seen->height / block,
        .width = seen->width / block,
        .channels = seen->channels * block * block,
        .out_height = y.out,
        .out_width = x.out,
        .filters = layer->units,
        .kernel = layer->kernel / block,
        .stride = layer->stride / block,
        .top = y.before,
        .left = x.before,
        .bottom = y.after,
        .right = x.after,
        .activation = layer->activation,
    };
    return conv;
}

static gpur_input_shape shape_after(const gpur_convolution *conv)
{
    const int64_t features = (int64_t)conv->out_height * conv->out_width * conv->filters;
    const gpur_input_shape input_shape = {features, conv->out_height, conv->out_width, conv->filters};
    return input_shape;
}

static void add_conv(gpur_network *network, const gpur_layer *layer, int32_t i, gpur_input_shape *seen)
{
    char name[32];
    gpur_convolution *const conv = &network->conv[network->conv_count++];
    const int32_t block = i == 0 ? network->space_to_depth : 1;
    const gpur_conv_weight weight = {layer->units, layer->kernel, seen->channels, block};
    *conv = conv_of(layer, seen, block);
    conv->weight =
        gpur_params_add_group(&network->params, (int64_t)layer->units * layer->kernel * layer->kernel * seen->channels);
    conv->bias = gpur_params_add_group(&network->params, layer->units);
    snprintf(name, sizeof name, "trunk.%d", (int)i);
    gpur_params_name_conv(&network->params, name, conv->weight, conv->bias, &weight);
    *seen = shape_after(conv);
    network->width[network->activation_count++] = (int32_t)seen->features;
}

static gpur_status build_convs(gpur_network *network, const gpur_network_config *config)
{
    gpur_input_shape seen = network->input_shape;
    network->space_to_depth = 1;
    for (int32_t i = 0; i < config->trunk_count && config->trunk[i].kind == GPUR_CONV; i++) {
        GPUR_TRY(check_convolution(config, i, &seen));
        if (i == 0)
            network->space_to_depth = space_to_depth_of(&config->trunk[0], &seen);
        add_conv(network, &config->trunk[i], i, &seen);
    }
    return GPUR_OK;
}

static void build_trunk(gpur_network *network, const gpur_network_config *config)
{
    char name[32];
    for (int32_t i = network->conv_count; i < config->trunk_count; i++) {
        const int32_t units = config->trunk[i].units;
        const gpur_dense *const d = add_layer(network, units, config->trunk[i].activation);
        snprintf(name, sizeof name, "trunk.%d", (int)i);
        for (int32_t c = 0; c < network->copies; c++)
            name_rows(network, c, name, d->weight, d->bias, c * units, units, d->inputs);
        if (config->trunk[i].norm)
            add_norm(network, name, units);
    }
}

/* Adds the hidden layers of all branches as one layer; each branch's tensors are its rows of the weight and bias. */
static void build_hidden(gpur_network *network, const gpur_network_config *config, const head_entry *head)
{
    char name[32];
    const int32_t branches = head->branch_count, hidden = config->hidden;
    const gpur_dense *const d = add_layer(network, branches * hidden, config->hidden_activation);
    for (int32_t s = 0; s < network->copies * branches; s++) {
        snprintf(name, sizeof name, "%s.hidden", head->branches[s % branches].name);
        name_rows(network, s / branches, name, d->weight, d->bias, s * hidden, hidden, d->inputs);
    }
}

/* Adds the output layers of all branches. They have the same number of inputs, so all weights are one group, and all
 * biases another. What reads the same columns is one product: the branches of a copy without hidden layers, and all
 * copies if they have no layers at all. */
static void build_outputs(gpur_network *network, const gpur_network_config *config, const head_entry *head)
{
    char name[32];
    const int32_t from = network->activation_count - 1, to = from + 1, branches = head->branch_count;
    const int32_t sources = (from == 0 ? 1 : network->copies) * (config->hidden ? branches : 1);
    const int32_t outputs = network->copies * branches, inputs = network->width[from] / sources;
    int32_t width = 0;
    for (int32_t s = 0; s < outputs; s++)
        width += outputs_of(&head->branches[s % branches], network);
    const int64_t weight = gpur_params_add_group(&network->params, (int64_t)width * inputs);
    gpur_dense *d = NULL;
    network->head_bias = gpur_params_add_group(&network->params, width);
    network->width[network->activation_count++] = width;
    for (int32_t s = 0, first = 0; s < outputs; s++) {
        const int32_t units = outputs_of(&head->branches[s % branches], network), source = s * sources / outputs;
        snprintf(name, sizeof name, "%s.out", head->branches[s % branches].name);
        name_rows(network, s / branches, name, weight, network->head_bias, first, units, inputs);
        if (s * sources % outputs == 0) {
            d = add_dense(network, from, to, inputs, 0);
            d->from_column = source * inputs;
            d->to_column = first;
            d->weight = weight + (int64_t)first * inputs;
            d->bias = -1;
        }
        d->units += units;
        first += units;
    }
}

gpur_status gpur_network_build(gpur_network *network, const gpur_network_config *config,
                               const gpur_input_shape *input_shape)
{
    return gpur_network_build_copies(network, config, input_shape, 1);
}

gpur_status gpur_network_build_copies(gpur_network *network, const gpur_network_config *config,
                                      const gpur_input_shape *input_shape, int32_t copies)
{
    GPUR_TRY(check_config(config, input_shape));
    const head_entry *const head = &heads[config->head];
    memset(network, 0, sizeof *network);
    network->copies = copies;
    network->head = config->head;
    network->num_actions = config->num_actions;
    network->distribution = distribution_of(config);
    network->input_shape = *input_shape;
    network->width[network->activation_count++] = (int32_t)input_shape->features;
    GPUR_TRY(build_convs(network, config));
    build_trunk(network, config);
    if (config->hidden)
        build_hidden(network, config, head);
    build_outputs(network, config, head);
    return GPUR_OK;
}

gpur_network gpur_network_first_copy(const gpur_network *copies)
{
    gpur_network first = *copies;
    first.copies = 1, first.dense_count = 0;
    for (int32_t s = 1; s < first.activation_count; s++)
        first.width[s] /= copies->copies;
    for (const gpur_dense *d = copies->dense; d < copies->dense + copies->dense_count; d++) {
        if (d->to_column >= first.width[d->to])
            continue;
        first.dense[first.dense_count] = *d;
        first.dense[first.dense_count++].units /= d->from == 0 ? copies->copies : 1;
    }
    return first;
}

static int suits_bf16(const gpur_network *network)
{
    const gpur_dense *const first = &network->dense[0];
    int suits = network->conv_count > 0 && first->bias >= 0 && first->units % 8 == 0 && !network->norm[first->to].gain;
    for (int32_t i = 0; i < network->conv_count; i++) {
        const gpur_convolution *const c = &network->conv[i];
        suits = suits && c->channels % 8 == 0 && c->filters % 8 == 0 && c->activation != GPUR_TANH;
    }
    return suits;
}

void gpur_network_choose_bf16(gpur_network *network, gpur_device *device, int32_t math)
{
    network->params.bf16 = math == GPUR_MATH_BF16 && gpur_device_get_traits(device)->has_bf16 && suits_bf16(network);
}

/* As in the config: without space-to-depth, which divides the first convolution's image and stride. */
static gpur_convolution as_configured(const gpur_network *network, int32_t i)
{
    gpur_convolution conv = network->conv[i];
    const int32_t block = i == 0 ? network->space_to_depth : 1;
    conv.height *= block, conv.width *= block, conv.stride *= block;
    return conv;
}

/* The kernels and filters are those of the tensors, which are equal. */
static gpur_status check_equal_conv(const gpur_network *policy, const gpur_network *learner, int32_t i)
{
    const gpur_convolution ours = as_configured(policy, i), theirs = as_configured(learner, i);
    GPUR_REQUIRE(ours.height == theirs.height && ours.width == theirs.width && ours.stride == theirs.stride &&
                     ours.activation == theirs.activation,
                 "trunk[%" PRId32 "] of the learner reads %" PRId32 " x %" PRId32 " pixels with stride %" PRId32
                 " and activation %" PRId32 ", that of this policy %" PRId32 " x %" PRId32 " with %" PRId32
                 " and %" PRId32 "; their networks must be equal",
                 i, theirs.height, theirs.width, theirs.stride, theirs.activation, ours.height, ours.width, ours.stride,
                 ours.activation);
    GPUR_REQUIRE(ours.top == theirs.top && ours.left == theirs.left && ours.bottom == theirs.bottom &&
                     ours.right == theirs.right,
                 "trunk[%" PRId32 "] of the learner has padding %" PRId32 ", %" PRId32 ", %" PRId32 ", %" PRId32
                 " (top, left, bottom, right), that of this policy %" PRId32 ", %" PRId32 ", %" PRId32 ", %" PRId32
                 "; their networks must be equal",
                 i, theirs.top, theirs.left, theirs.bottom, theirs.right, ours.top, ours.left, ours.bottom, ours.right);
    return GPUR_OK;
}

static gpur_status check_equal_distribution(const gpur_network *policy, const gpur_network *learner)
{
    const gpur_distribution *const ours = &policy->distribution, *const theirs = &learner->distribution;
    GPUR_REQUIRE(ours->atoms == theirs->atoms && ours->v_min == theirs->v_min && ours->v_max == theirs->v_max,
                 "the learner's network has atoms %" PRId32 ", v_min %g and v_max %g, that of this policy %" PRId32
                 ", %g and %g; they must be equal",
                 theirs->atoms, (double)theirs->v_min, (double)theirs->v_max, ours->atoms, (double)ours->v_min,
                 (double)ours->v_max);
    return GPUR_OK;
}

gpur_status gpur_network_check_equal(const gpur_network *policy, const gpur_network *learner)
{
    GPUR_TRY(gpur_params_check_equal(&policy->params, &learner->params));
    GPUR_TRY(check_equal_distribution(policy, learner));
    for (int32_t i = 0; i < policy->conv_count; i++)
        GPUR_TRY(check_equal_conv(policy, learner, i));
    for (int32_t i = 0; i < policy->dense_count; i++)
        GPUR_REQUIRE(policy->dense[i].activation == learner->dense[i].activation,
                     "layer %" PRId32 " of the learner, counted from 1, has activation %" PRId32
                     ", that of this policy %" PRId32 "; their networks must be equal",
                     policy->dense[i].to, learner->dense[i].activation, policy->dense[i].activation);
    return GPUR_OK;
}
