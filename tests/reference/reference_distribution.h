/* SPDX-License-Identifier: MIT */
/* Distributions of returns again, naive, in double, from the papers: means, targets, losses and their gradients. Shares
 * no code with kernels/ or src/. */
#pragma once

#include "gpureplay.h"

/* The numbers of each action: 1 without a head of distributions. */
int ref_atoms(const gpur_network_config *network);

/* Return i of the support of GPUR_HEAD_CATEGORICAL. */
double ref_support(const gpur_network_config *network, int i);

/* The mean of the distribution of an action's numbers x (N). */
double ref_distribution_mean(const gpur_network_config *network, const double *x);

/* The gradient of the mean by the numbers x (N), by differences; without a head of distributions 1. */
void ref_mean_slopes(const gpur_network_config *network, double *x, double *slope);

/* The target's quantiles, or its probabilities: r + discount Z' with Z' of the numbers x (N), projected onto the
 * support. Discount 0: x is not read. */
void ref_distribution_target(const gpur_network_config *network, double reward, double discount, const double *x,
                             double *target);

/* The loss of numbers x (N); its gradient (N), if not NULL. */
double ref_distribution_loss(const gpur_network_config *network, double kappa, const double *x, const double *target,
                             double *gradient);
