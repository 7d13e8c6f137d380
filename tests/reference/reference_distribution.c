/* SPDX-License-Identifier: MIT */
#include "reference/reference_distribution.h"

#include <math.h>

int ref_atoms(const gpur_network_config *network)
{
    return network->atoms ? network->atoms : 1;
}

double ref_support(const gpur_network_config *network, int i)
{
    const double low = network->v_min, high = network->v_max;
    return low + i * (high - low) / (network->atoms - 1);
}

static double probability(const gpur_network_config *network, const double *x, int i)
{
    double sum = 0;
    for (int j = 0; j < network->atoms; j++)
        sum += exp(x[j] - x[i]);
    return 1 / sum;
}

double ref_distribution_mean(const gpur_network_config *network, const double *x)
{
    double mean = 0;
    for (int i = 0; i < network->atoms; i++)
        mean += network->head == GPUR_HEAD_QUANTILES ? x[i] / network->atoms
                                                     : probability(network, x, i) * ref_support(network, i);
    return mean;
}

void ref_mean_slopes(const gpur_network_config *network, double *x, double *slope)
{
    slope[0] = 1;
    for (int i = 0; i < network->atoms; i++) {
        const double at = x[i];
        x[i] = at + 1e-5;
        const double up = ref_distribution_mean(network, x);
        x[i] = at - 1e-5;
        slope[i] = (up - ref_distribution_mean(network, x)) / 2e-5;
        x[i] = at;
    }
}

/* Bellemare et al. 2017, eq. 7: the probability p of a clipped return goes to atom i as far as that is less than the
 * distance of two atoms away. */
static double projected(const gpur_network_config *network, double value, double p, int i)
{
    const double distance = ((double)network->v_max - (double)network->v_min) / (network->atoms - 1);
    const double clipped = fmin(fmax(value, network->v_min), network->v_max);
    return p * fmax(0, 1 - fabs(clipped - ref_support(network, i)) / distance);
}

void ref_distribution_target(const gpur_network_config *network, double reward, double discount, const double *x,
                             double *target)
{
    for (int i = 0; i < network->atoms; i++) {
        if (network->head == GPUR_HEAD_QUANTILES) {
            target[i] = discount == 0 ? reward : reward + discount * x[i];
            continue;
        }
        target[i] = discount == 0 ? projected(network, reward, 1, i) : 0;
        for (int j = 0; j < network->atoms && discount != 0; j++)
            target[i] += projected(network, reward + discount * ref_support(network, j), probability(network, x, j), i);
    }
}

/* Dabney et al. 2018, eq. 9 and 10, with Huber's loss divided by kappa [Dabney et al. 2018b, eq. 3]. */
static double pair_loss(double kappa, double tau, double u, double *derivative)
{
    const double weight = fabs(tau - (u < 0));
    const double slope = fabs(u) <= kappa ? u / kappa : u > 0 ? 1 : u < 0 ? -1 : 0;
    if (derivative)
        *derivative = -weight * slope;
    return weight * (fabs(u) <= kappa ? u * u / (2 * kappa) : fabs(u) - kappa / 2);
}

static double quantile_loss(int atoms, double kappa, int i, double theta, const double *target, double *gradient)
{
    double loss = 0, slope = 0;
    for (int j = 0; j < atoms; j++) {
        double derivative = 0;
        const double u = target[j] - theta;
        if (kappa == 0 && u == 0)
            continue;
        loss += pair_loss(kappa, (2 * i + 1) / (2.0 * atoms), u, &derivative) / atoms;
        slope += derivative / atoms;
    }
    if (gradient)
        gradient[i] = slope;
    return loss;
}

double ref_distribution_loss(const gpur_network_config *network, double kappa, const double *x, const double *target,
                             double *gradient)
{
    double loss = 0;
    for (int i = 0; i < network->atoms; i++) {
        if (network->head == GPUR_HEAD_QUANTILES) {
            loss += quantile_loss(network->atoms, kappa, i, x[i], target, gradient);
            continue;
        }
        const double p = probability(network, x, i);
        loss -= target[i] * log(p);
        if (gradient)
            gradient[i] = p - target[i];
    }
    return loss;
}
