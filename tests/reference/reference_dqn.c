/* SPDX-License-Identifier: MIT */
/* Losses, optimizers and the DQN step of reference_learn.h. */
#include "reference/reference_learn.h"
#include "reference/reference_distribution.h"

#include <math.h>
#include <string.h>

/* Huber (1964): quadratic in the middle, linear outside, continuous with its slope. */
double ref_loss(int kind, double delta, double error)
{
    const double size = fabs(error);
    if (kind == GPUR_LOSS_SQUARED || size <= delta)
        return error * error / 2;
    return delta * size - delta * delta / 2;
}

double ref_loss_derivative(int kind, double delta, double error)
{
    return kind == GPUR_LOSS_SQUARED ? error : fmax(-delta, fmin(delta, error));
}

double ref_schedule(const gpur_schedule *schedule, double step)
{
    const double first = schedule->first, last = schedule->last;
    if (schedule->steps == 0)
        return first;
    const double part = fmin(1, fmax(0, (step - (double)schedule->begin) / (double)schedule->steps));
    return first + (last - first) * part;
}

void ref_optimizer_begin(const gpur_optimizer_config *config, int count, double *m, double *v, double *u)
{
    for (int i = 0; i < count; i++) {
        m[i] = u[i] = 0;
        v[i] = config->kind == GPUR_RMSPROP_TF; /* TensorFlow 1 starts its mean square at ones */
    }
}

/* The table in gpureplay/learner.h, a line an optimizer. */
static double one_weight(const gpur_optimizer_config *c, int64_t t, double g, double *m, double *v, double *u)
{
    const double rate = ref_schedule(&c->learning_rate, (double)t - 1), eps = c->epsilon, d = c->decay;
    if (c->kind == GPUR_ADAM || c->kind == GPUR_ADAM_TF) {
        *m = c->beta1 * *m + (1 - (double)c->beta1) * g;
        *v = c->beta2 * *v + (1 - (double)c->beta2) * g * g;
        if (c->kind == GPUR_ADAM_TF)
            return rate * sqrt(1 - pow(c->beta2, (double)t)) / (1 - pow(c->beta1, (double)t)) * *m / (sqrt(*v) + eps);
        const double m_hat = *m / (1 - pow(c->beta1, (double)t)), v_hat = *v / (1 - pow(c->beta2, (double)t));
        return rate * m_hat / (sqrt(v_hat) + eps);
    }
    *m = d * *m + (1 - d) * g;
    *v = d * *v + (1 - d) * g * g;
    const double spread = c->centered || c->kind == GPUR_RMSPROP_DEEPMIND ? *v - *m * *m : *v;
    switch (c->kind) {
    case GPUR_RMSPROP_TF:
        return *u = c->momentum * *u + rate * g / sqrt(spread + eps);
    case GPUR_RMSPROP_TORCH:
        *u = c->momentum * *u + g / (sqrt(spread) + eps);
        return rate * *u;
    case GPUR_RMSPROP_DEEPMIND:
        return rate * g / sqrt(spread + eps);
    default:
        return rate * g / (sqrt(spread) + eps);
    }
}

void ref_optimizer_step(const gpur_optimizer_config *config, int64_t t, int count, double *w, const double *g,
                        double *m, double *v, double *u)
{
    const double decay = ref_schedule(&config->learning_rate, (double)t - 1) * config->weight_decay;
    for (int i = 0; i < count; i++)
        w[i] = (1 - decay) * w[i] - one_weight(config, t, g[i], &m[i], &v[i], &u[i]);
}

/* -1: no action is allowed. */
static int best_of(const double *y, int count, const unsigned char *mask)
{
    int best = -1;
    for (int k = 0; k < count; k++)
        if ((!mask || (mask[k / 8] & (1 << k % 8))) && (best < 0 || y[k] > y[best]))
            best = k;
    return best;
}

static double target_of(ref_net *net, const gpur_dqn_config *config, const ref_row *row)
{
    static _Thread_local ref_tape online, target;
    const int actions = net->config.num_actions;
    if (row->discount == 0)
        return row->reward;
    ref_forward(net, 1, row->next_obs, &target);
    if (config->double_dqn)
        ref_forward(net, 0, row->next_obs, &online);
    const int best = best_of(config->double_dqn ? online.y : target.y, actions, row->next_mask);
    return row->reward + (best < 0 ? 0 : row->discount * target.y[best]);
}

/* The row's loss without its weight, and its gradient by the action's value. */
static double row_loss(ref_net *net, const gpur_dqn_config *config, ref_row *row, const ref_tape *tape, double *q,
                       double *gradient)
{
    *q = tape->y[row->action];
    row->error = *q - target_of(net, config, row);
    *gradient = ref_loss_derivative(config->loss, config->huber_delta, row->error);
    return ref_loss(config->loss, config->huber_delta, row->error);
}

/* The same with a head of distributions, by the action's numbers. */
static double distribution_loss(ref_net *net, const gpur_dqn_config *config, ref_row *row, const ref_tape *tape,
                                double *q, double *gradient)
{
    static _Thread_local ref_tape online, target;
    static _Thread_local double mean[REF_WIDTH], distribution[REF_WIDTH];
    const gpur_network_config *const network = &net->config;
    const double *const x = tape->y + row->action * network->atoms;
    ref_forward(net, 1, row->next_obs, &target);
    ref_forward(net, 0, row->next_obs, &online);
    for (int k = 0; k < network->num_actions; k++)
        mean[k] = ref_distribution_mean(network, (config->double_dqn ? online.y : target.y) + k * network->atoms);
    const int best = best_of(mean, network->num_actions, row->next_mask);
    ref_distribution_target(network, row->reward, best < 0 ? 0 : row->discount,
                            target.y + (best < 0 ? 0 : best) * network->atoms, distribution);
    *q = ref_distribution_mean(network, x);
    return row->error = ref_distribution_loss(network, config->huber_delta, x, distribution, gradient);
}

double ref_dqn_loss(ref_net *net, const gpur_dqn_config *config, ref_row *rows, int batch, double *mean_q)
{
    static _Thread_local ref_tape tape;
    static _Thread_local double dy[REF_WIDTH];
    const int numbers = ref_atoms(&net->config);
    double loss = 0, q = 0;
    ref_net_zero_gradient(net);
    for (int b = 0; b < batch; b++) {
        const double weight = (double)rows[b].weight / batch;
        double of_row = 0;
        rows[b].error = 0;
        if (rows[b].action < 0 || rows[b].action >= net->config.num_actions)
            continue;
        double *const gradient = dy + rows[b].action * numbers;
        memset(dy, 0, sizeof dy);
        ref_forward(net, 0, rows[b].obs, &tape);
        loss += weight *
                (net->config.atoms ? distribution_loss : row_loss)(net, config, &rows[b], &tape, &of_row, gradient);
        q += of_row / batch;
        for (int i = 0; i < numbers; i++)
            gradient[i] *= weight;
        ref_backward(net, &tape, dy);
    }
    if (mean_q)
        *mean_q = q;
    return loss;
}

static double norm_of(const ref_net *net)
{
    double squares = 0;
    for (int i = 0; i < net->tensors; i++)
        for (int j = 0; j < net->tensor[i].count; j++)
            squares += net->tensor[i].g[j] * net->tensor[i].g[j];
    return sqrt(squares);
}

/* Parr's trainer counts its steps from 0 and copies behind every step that the period divides; others count from 1. */
int ref_copies_target(const gpur_dqn_config *config, int64_t t)
{
    const int64_t counted = config->target_copy_first ? t - 1 : t;
    return counted % config->target_period == 0;
}

double ref_dqn_update(ref_net *net, const gpur_dqn_config *config, int64_t t)
{
    const double limit = config->optimizer.clip_value, max_norm = config->optimizer.clip_norm;
    const double raw = norm_of(net);
    for (int i = 0; i < net->tensors && limit > 0; i++)
        for (int j = 0; j < net->tensor[i].count; j++)
            net->tensor[i].g[j] = fmax(-limit, fmin(limit, net->tensor[i].g[j]));
    const double norm = norm_of(net), scale = max_norm > 0 && norm > max_norm ? max_norm / norm : 1;
    for (int i = 0; i < net->tensors; i++) {
        ref_tensor *const r = &net->tensor[i];
        for (int j = 0; j < r->count; j++)
            r->g[j] *= scale;
        ref_optimizer_step(&config->optimizer, t, r->count, r->w, r->g, r->m, r->v, r->u);
    }
    if (ref_copies_target(config, t))
        ref_net_copy_target(net, config->target_rate);
    return raw;
}
