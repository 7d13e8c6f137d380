/* SPDX-License-Identifier: MIT */
#include "learn/network.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MAX_UNITS = 65536, MAX_FEATURES = 1 << 24, MAX_STREAMS = 2 };

/* A head's streams, in the order of their columns. `outputs` 0 stands for the config's. */
typedef struct stream {
    const char *name;
    int32_t outputs;
} stream;

typedef struct head_entry {
    stream streams[MAX_STREAMS];
    int32_t stream_count;
} head_entry;

static const head_entry heads[] = {
    [GPUR_HEAD_Q] = {{{"q", 0}}, 1},
    [GPUR_HEAD_DUELING] = {{{"value", 1}, {"advantage", 0}}, 2},
    [GPUR_HEAD_SOFTMAX_VALUE] = {{{"policy", 0}, {"value", 1}}, 2},
    [GPUR_HEAD_TANH_ACTION] = {{{"action", 0}}, 1},
};
enum { HEADS = sizeof heads / sizeof heads[0] };

static gpur_status check_activation(int32_t activation, const char *where)
{
    GPUR_REQUIRE(activation >= GPUR_LINEAR && activation <= GPUR_TANH,
                 "network.%s is %" PRId32 "; it must be GPUR_LINEAR, GPUR_RELU or GPUR_TANH (0 to 2)", where,
                 activation);
    return GPUR_OK;
}

static gpur_status check_trunk(const gpur_network_config *config)
{
    GPUR_REQUIRE(config->trunk_count >= 0 && config->trunk_count <= GPUR_MAX_LAYERS,
                 "network.trunk_count is %" PRId32 "; it must be 0 to %d", config->trunk_count, GPUR_MAX_LAYERS);
    for (int32_t i = 0; i < config->trunk_count; i++) {
        GPUR_REQUIRE(config->trunk[i].units >= 1 && config->trunk[i].units <= MAX_UNITS,
                     "network.trunk[%" PRId32 "].units is %" PRId32 "; it must be 1 to %d", i, config->trunk[i].units,
                     MAX_UNITS);
        GPUR_TRY(check_activation(config->trunk[i].activation, "trunk[].activation"));
    }
    return GPUR_OK;
}

static gpur_status check(const gpur_network_config *config, int64_t features)
{
    GPUR_REQUIRE(features >= 1 && features <= MAX_FEATURES,
                 "an observation has %" PRId64 " numbers; a network of dense layers takes 1 to %d", features,
                 MAX_FEATURES);
    GPUR_TRY(check_trunk(config));
    GPUR_REQUIRE(config->head >= 0 && config->head < HEADS,
                 "network.head is %" PRId32 "; it must be 0 to %d (GPUR_HEAD_*)", config->head, HEADS - 1);
    GPUR_REQUIRE(config->hidden >= 0 && config->hidden <= MAX_UNITS,
                 "network.hidden is %" PRId32 "; it must be 0 (none) to %d", config->hidden, MAX_UNITS);
    GPUR_TRY(check_activation(config->hidden_activation, "hidden_activation"));
    GPUR_REQUIRE(config->outputs >= 1 && config->outputs <= MAX_UNITS,
                 "network.outputs is %" PRId32 "; it must be the number of actions, 1 to %d", config->outputs,
                 MAX_UNITS);
    GPUR_REQUIRE(config->init >= GPUR_INIT_FAN_IN && config->init <= GPUR_INIT_NORMAL,
                 "network.init is %" PRId32 "; it must be GPUR_INIT_FAN_IN, GLOROT or NORMAL (0 to 2)", config->init);
    GPUR_REQUIRE(config->init != GPUR_INIT_NORMAL || (config->init_scale >= 0 && config->init_scale < 1e6f),
                 "network.init_scale is %g; the standard deviation of the weights must be 0 or more",
                 (double)config->init_scale);
    return GPUR_OK;
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

/* A new sheet, and a layer that reads all of the one before it. */
static gpur_dense *add_layer(gpur_network *network, int32_t units, int32_t activation)
{
    const int32_t from = network->sheet_count - 1;
    gpur_dense *const dense = add_dense(network, from, from + 1, network->width[from], units);
    network->width[network->sheet_count++] = units;
    dense->activation = activation;
    dense->weight = gpur_params_block(&network->params, (int64_t)units * dense->inputs);
    dense->bias = gpur_params_block(&network->params, units);
    return dense;
}

static void build_trunk(gpur_network *network, const gpur_network_config *config)
{
    char name[32];
    for (int32_t i = 0; i < config->trunk_count; i++) {
        const gpur_dense *const d = add_layer(network, config->trunk[i].units, config->trunk[i].activation);
        snprintf(name, sizeof name, "trunk.%d", (int)i);
        gpur_params_name(&network->params, name, d->weight, d->bias, 0, d->units, d->inputs);
    }
}

/* All streams' hidden layers as one layer; each stream's name covers its rows. */
static void build_hidden(gpur_network *network, const gpur_network_config *config, const head_entry *head)
{
    char name[32];
    const gpur_dense *const d = add_layer(network, head->stream_count * config->hidden, config->hidden_activation);
    for (int32_t s = 0; s < head->stream_count; s++) {
        snprintf(name, sizeof name, "%s.hidden", head->streams[s].name);
        gpur_params_name(&network->params, name, d->weight, d->bias, s * config->hidden, config->hidden, d->inputs);
    }
}

/* The streams' last layers: one weight block and one bias block for all, as all have the same number of inputs. */
static void build_outputs(gpur_network *network, const gpur_network_config *config, const head_entry *head)
{
    char name[32];
    const int32_t from = network->sheet_count - 1, to = from + 1;
    const int32_t inputs = config->hidden ? config->hidden : network->width[from];
    int32_t width = 0;
    for (int32_t s = 0; s < head->stream_count; s++)
        width += head->streams[s].outputs ? head->streams[s].outputs : config->outputs;
    const int64_t weight = gpur_params_block(&network->params, (int64_t)width * inputs);
    network->head_bias = gpur_params_block(&network->params, width);
    network->width[network->sheet_count++] = width;
    for (int32_t s = 0, first = 0; s < head->stream_count; s++) {
        const int32_t units = head->streams[s].outputs ? head->streams[s].outputs : config->outputs;
        snprintf(name, sizeof name, "%s.out", head->streams[s].name);
        gpur_params_name(&network->params, name, weight, network->head_bias, first, units, inputs);
        if (config->hidden || s == 0) {
            gpur_dense *const d = add_dense(network, from, to, inputs, config->hidden ? units : width);
            d->from_column = config->hidden ? s * config->hidden : 0;
            d->to_column = first;
            d->weight = weight + (int64_t)first * inputs;
            d->bias = -1;
        }
        first += units;
    }
}

gpur_status gpur_network_build(gpur_network *network, const gpur_network_config *config, int64_t features)
{
    GPUR_TRY(check(config, features));
    const head_entry *const head = &heads[config->head];
    memset(network, 0, sizeof *network);
    network->head = config->head;
    network->outputs = config->outputs;
    network->width[network->sheet_count++] = (int32_t)features;
    build_trunk(network, config);
    if (config->hidden)
        build_hidden(network, config, head);
    build_outputs(network, config, head);
    return GPUR_OK;
}
