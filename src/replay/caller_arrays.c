/* SPDX-License-Identifier: MIT */
#include "replay/caller_arrays.h"

gpur_status gpur_caller_arrays_locate(gpur_device *device, int64_t count, const int64_t *ids, const void *values,
                                      const char *name, int *on_device)
{
    int ids_on_device = 0, values_on_device = 0;
    *on_device = 0;
    if (!gpur_device_get_traits(device)->has_own_memory || count == 0)
        return GPUR_OK;
    GPUR_TRY(gpur_memory_locate(device, ids, &ids_on_device));
    GPUR_TRY(gpur_memory_locate(device, values, &values_on_device));
    GPUR_REQUIRE(ids_on_device == values_on_device, "ids is in %s memory and %s in %s memory; both must be in the same",
                 ids_on_device ? "device" : "host", name, values_on_device ? "device" : "host");
    *on_device = ids_on_device;
    return GPUR_OK;
}
