/* SPDX-License-Identifier: MIT */
#include "device/device_cuda.h"
gpur_status gpur_cuda_conv_create(gpur_device *device, const gpur_conv_shape *shape, gpur_conv **conv)
{
    (void)device, (void)shape, (void)conv;
    return gpur_fail(GPUR_UNAVAILABLE, "not yet");
}
