/* SPDX-License-Identifier: MIT */
/* The structs of DLPack's ABI, version 1.0, as far as a batch needs them [github.com/dmlc/dlpack]. */
#pragma once

#include <stdint.h>

enum { GPUR_DL_INT = 0, GPUR_DL_UINT = 1, GPUR_DL_FLOAT = 2, GPUR_DL_BOOL = 6 }; /* type codes */
enum { GPUR_DL_MAJOR = 1, GPUR_DL_MINOR = 0 };

typedef struct gpur_dl_tensor {
    void *data;
    int32_t device_type, device_id;
    int32_t ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides; /* (ndim) in elements */
    uint64_t byte_offset;
} gpur_dl_tensor;

typedef struct gpur_dl_managed {
    gpur_dl_tensor tensor;
    void *context;
    void (*deleter)(struct gpur_dl_managed *self);
} gpur_dl_managed;

typedef struct gpur_dl_versioned {
    uint32_t major, minor;
    void *context;
    void (*deleter)(struct gpur_dl_versioned *self);
    uint64_t flags;
    gpur_dl_tensor tensor;
} gpur_dl_versioned;
