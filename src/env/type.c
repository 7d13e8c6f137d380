/* SPDX-License-Identifier: MIT */
#include "env/type.h"

/* A function that a type must have. */
typedef struct required_function {
    const char *name;
    int is_there;
} required_function;

static gpur_status check_functions(const required_function *functions, int count)
{
    for (int i = 0; i < count; i++)
        GPUR_REQUIRE(functions[i].is_there, "the type has no function %s; only save and load may be NULL",
                     functions[i].name);
    return GPUR_OK;
}

gpur_status gpur_env_type_check(const gpur_env_type *t)
{
    const required_function required[] = {
        {"init", t->init != NULL}, {"reset", t->reset != NULL}, {"step", t->step != NULL}, {"close", t->close != NULL}};
    GPUR_REQUIRE(t->name, "the type has no name");
    GPUR_TRY(check_functions(required, sizeof required / sizeof *required));
    GPUR_REQUIRE(!t->save == !t->load, "the type %s has %s and no %s; it must have both or neither", t->name,
                 t->save ? "save" : "load", t->save ? "load" : "save");
    return GPUR_OK;
}

gpur_status gpur_vector_env_type_check(const gpur_vector_env_type *t)
{
    const required_function required[] = {
        {"init", t->init != NULL}, {"reset", t->reset != NULL}, {"step", t->step != NULL}, {"close", t->close != NULL}};
    GPUR_REQUIRE(t->name, "the type has no name");
    GPUR_TRY(check_functions(required, sizeof required / sizeof *required));
    GPUR_REQUIRE(t->autoreset == GPUR_AUTORESET_NEXT_STEP || t->autoreset == GPUR_AUTORESET_SAME_STEP,
                 "autoreset of the type %s is %d; it must be GPUR_AUTORESET_NEXT_STEP (%d) or _SAME_STEP (%d)", t->name,
                 (int)t->autoreset, GPUR_AUTORESET_NEXT_STEP, GPUR_AUTORESET_SAME_STEP);
    GPUR_REQUIRE(t->reserved == 0, "reserved of the type %s is %d; it must be 0", t->name, (int)t->reserved);
    return GPUR_OK;
}
