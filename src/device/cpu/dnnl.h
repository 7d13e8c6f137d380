/* SPDX-License-Identifier: MIT */
/* oneDNN's interface for making plans as version 3 has it, also where version 2 is installed. */
#pragma once

#include <oneapi/dnnl/dnnl.h>
#include <pthread.h>
#include <signal.h>

/* While version 2 multiplies by AVX-512 it keeps numbers below the stack, where the frame of a signal's handler is put.
 * So the thread's signals wait meanwhile. */
static inline void gpur_dnnl_hold_signals(sigset_t *before)
{
#if DNNL_VERSION_MAJOR < 3
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, before);
#else
    (void)before;
#endif
}

static inline void gpur_dnnl_release_signals(const sigset_t *before)
{
#if DNNL_VERSION_MAJOR < 3
    pthread_sigmask(SIG_SETMASK, before, NULL);
#else
    (void)before;
#endif
}

/* Version 3 has a handle of a layout in memory, version 2 the layout itself; calls take the handle or its address. */
#if DNNL_VERSION_MAJOR >= 3
static inline const_dnnl_memory_desc_t gpur_dnnl_layout(const dnnl_memory_desc_t *layout)
{
    return *layout;
}

static inline dnnl_status_t gpur_dnnl_append_relu(dnnl_post_ops_t after)
{
    return dnnl_post_ops_append_eltwise(after, dnnl_eltwise_relu, 0.0f, 0.0f);
}
#else
typedef const dnnl_memory_desc_t *const_dnnl_memory_desc_t;

static inline const_dnnl_memory_desc_t gpur_dnnl_layout(const dnnl_memory_desc_t *layout)
{
    return layout;
}

static inline dnnl_status_t gpur_dnnl_append_relu(dnnl_post_ops_t after)
{
    return dnnl_post_ops_append_eltwise(after, 1.0f, dnnl_eltwise_relu, 0.0f, 0.0f);
}

#define dnnl_memory_desc_create_with_tag dnnl_memory_desc_init_by_tag

static inline dnnl_status_t dnnl_memory_desc_destroy(dnnl_memory_desc_t layout)
{
    (void)layout;
    return dnnl_success;
}

static inline dnnl_status_t dnnl_convolution_forward_primitive_desc_create(
    dnnl_primitive_desc_t *out, dnnl_engine_t engine, dnnl_prop_kind_t kind, dnnl_alg_kind_t algorithm,
    const_dnnl_memory_desc_t x, const_dnnl_memory_desc_t w, const_dnnl_memory_desc_t bias, const_dnnl_memory_desc_t y,
    const dnnl_dims_t strides, const dnnl_dims_t gaps, const dnnl_dims_t before, const dnnl_dims_t after,
    const_dnnl_primitive_attr_t attributes)
{
    dnnl_convolution_desc_t d;
    const dnnl_status_t status =
        dnnl_dilated_convolution_forward_desc_init(&d, kind, algorithm, x, w, bias, y, strides, gaps, before, after);
    return status == dnnl_success ? dnnl_primitive_desc_create(out, &d, attributes, engine, NULL) : status;
}

static inline dnnl_status_t dnnl_convolution_backward_data_primitive_desc_create(
    dnnl_primitive_desc_t *out, dnnl_engine_t engine, dnnl_alg_kind_t algorithm, const_dnnl_memory_desc_t x,
    const_dnnl_memory_desc_t w, const_dnnl_memory_desc_t y, const dnnl_dims_t strides, const dnnl_dims_t gaps,
    const dnnl_dims_t before, const dnnl_dims_t after, const_dnnl_primitive_desc_t forward,
    const_dnnl_primitive_attr_t attributes)
{
    dnnl_convolution_desc_t d;
    const dnnl_status_t status =
        dnnl_dilated_convolution_backward_data_desc_init(&d, algorithm, x, w, y, strides, gaps, before, after);
    return status == dnnl_success ? dnnl_primitive_desc_create(out, &d, attributes, engine, forward) : status;
}

static inline dnnl_status_t dnnl_convolution_backward_weights_primitive_desc_create(
    dnnl_primitive_desc_t *out, dnnl_engine_t engine, dnnl_alg_kind_t algorithm, const_dnnl_memory_desc_t x,
    const_dnnl_memory_desc_t w, const_dnnl_memory_desc_t bias, const_dnnl_memory_desc_t y, const dnnl_dims_t strides,
    const dnnl_dims_t gaps, const dnnl_dims_t before, const dnnl_dims_t after, const_dnnl_primitive_desc_t forward,
    const_dnnl_primitive_attr_t attributes)
{
    dnnl_convolution_desc_t d;
    const dnnl_status_t status =
        dnnl_dilated_convolution_backward_weights_desc_init(&d, algorithm, x, w, bias, y, strides, gaps, before, after);
    return status == dnnl_success ? dnnl_primitive_desc_create(out, &d, attributes, engine, forward) : status;
}
#endif
