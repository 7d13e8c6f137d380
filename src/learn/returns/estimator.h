/* SPDX-License-Identifier: MIT */
/* The estimators of returns: one entry of a table for each public one (GPUR_ESTIMATOR_PENG, ...). */
#pragma once

#include "base/status.h"
#include "gpureplay/returns.h"

#include <stdint.h>

typedef struct gpur_estimator {
    const char *name;
    int32_t rule;         /* GPUR_RETURNS_* of kernels/args_returns.h */
    int32_t cuts_traces;  /* 1: needs to know whether actions are greedy (Watkins) */
    int32_t needs_lambda; /* 1: the setting `lambda` is read */
} gpur_estimator;

/* NULL: there is no such estimator. */
const gpur_estimator *gpur_estimator_of(int32_t estimator);

/* 1 if refreshes compute Q(s, a), which takes a forward pass of obs. */
int gpur_returns_need_taken(const gpur_returns_config *config);

/* 1 if entries are drawn by their errors at some train step. */
int gpur_returns_are_prioritized(const gpur_returns_config *config);
