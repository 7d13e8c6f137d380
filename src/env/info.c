/* SPDX-License-Identifier: MIT */
/* gpur_env_get_info, gpur_vector_env_get_info. */
#include "base/sized.h"
#include "gpureplay/env.h"

static const char incomplete[] = "the type has no name, init or close; it must have all three";

static gpur_status check_made(const char *name, const char *refusal, const void *env)
{
    if (refusal)
        return gpur_fail(GPUR_INVALID_ARGUMENT, "%s: %s", name, refusal);
    GPUR_REQUIRE(env, "init of %s returned no environment", name);
    return GPUR_OK;
}

gpur_status gpur_env_get_info(const gpur_env_type *type, const char *options, gpur_env_info *info)
{
    gpur_env_info found = {.size = sizeof found};
    void *env = NULL;
    GPUR_REQUIRE(type && options, "type or options is NULL; neither may be");
    GPUR_REQUIRE(type->name && type->init && type->close, "%s", incomplete);
    GPUR_TRY(gpur_sized_check(info, "gpur_env_info"));
    const char *const refusal = type->init(options, 0, &found, &env);
    GPUR_TRY(check_made(type->name, refusal, env));
    type->close(env);
    return gpur_sized_write(info, &found, sizeof found, "gpur_env_info");
}

gpur_status gpur_vector_env_get_info(const gpur_vector_env_type *type, const char *options, gpur_env_info *info)
{
    gpur_env_info found = {.size = sizeof found};
    void *env = NULL;
    GPUR_REQUIRE(type && options, "type or options is NULL; neither may be");
    GPUR_REQUIRE(type->name && type->init && type->close, "%s", incomplete);
    GPUR_TRY(gpur_sized_check(info, "gpur_env_info"));
    const char *const refusal = type->init(options, 0, 1, &found, &env);
    GPUR_TRY(check_made(type->name, refusal, env));
    type->close(env);
    found.save_bytes = 0; /* a vector has no `save` */
    return gpur_sized_write(info, &found, sizeof found, "gpur_env_info");
}
