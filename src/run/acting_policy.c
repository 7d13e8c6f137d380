/* SPDX-License-Identifier: MIT */
/* Opens policies for the observations of a replay. */
#include "run/acting_policy.h"

gpur_status gpur_acting_policy_open(gpur_device *device, const gpur_schema *schema, const gpur_policy_config *settings,
                                    gpur_policy **policy)
{
    const gpur_field_info *const obs = &schema->fields[gpur_schema_find(schema, "obs")];
    gpur_policy_config config = *settings;
    config.obs = (gpur_field){.name = "obs", .dtype = obs->dtype};
    for (int32_t i = 0; i < obs->dims; i++)
        config.obs.shape[i] = obs->shape[i];
    return gpur_policy_create(device, &config, policy);
}
