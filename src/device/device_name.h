/* SPDX-License-Identifier: MIT */
/* Names of devices: "auto", "cpu", "cuda", "cuda:N". */
#ifndef GPUR_DEVICE_NAME_H
#define GPUR_DEVICE_NAME_H

#include "base/status.h"

enum { GPUR_NAMED_AUTO, GPUR_NAMED_CPU, GPUR_NAMED_CUDA };

/* Ordinal 0 where the name has none. */
gpur_status gpur_device_name_parse(const char *name, int *kind, int *ordinal);

#endif
