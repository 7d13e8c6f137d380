/* SPDX-License-Identifier: MIT */
/* Two arrays of a caller, ids and what belongs to them, which are both in host memory or both in device memory. */
#pragma once

#include "device/device.h"

/* Sets *on_device to 1 if both arrays are in device memory, and to 0 if both are in host memory. On the CPU, and if
 * `count` is 0, they count as host arrays. Refusals call the second one `name`. */
gpur_status gpur_caller_arrays_locate(gpur_device *device, int64_t count, const int64_t *ids, const void *values,
                                      const char *name, int *on_device);
