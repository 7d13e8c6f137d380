/* SPDX-License-Identifier: MIT */
/* gpur_env_find, gpur_vector_env_find, gpur_env_name: the table of the library's games. */
#include "base/status.h"
#include "env/games.h"
#include "env/plugin.h"

#include <stdio.h>
#include <string.h>

static const gpur_env_type *const games[] = {
    &gpur_env_cartpole, &gpur_env_asterix,        &gpur_env_breakout, &gpur_env_freeway,
    &gpur_env_seaquest, &gpur_env_space_invaders, &gpur_env_pendulum,
};
enum { GAMES = sizeof games / sizeof *games };

const char *gpur_env_name(int32_t index)
{
    return index >= 0 && index < GAMES ? games[index]->name : NULL;
}

static const gpur_env_type *game_named(const char *name)
{
    for (int i = 0; i < GAMES; i++)
        if (strcmp(games[i]->name, name) == 0)
            return games[i];
    return NULL;
}

static gpur_status refuse_name(const char *name)
{
    char names[256] = "";
    for (size_t i = 0, used = 0; i < GAMES && used < sizeof names; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", games[i]->name);
    return gpur_fail(
        GPUR_INVALID_ARGUMENT,
        "no game and no file is named \"%s\"; the games are %s; a plug-in's file ends in .so, or has a slash and is "
        "there; ids of Gymnasium are for Python, as in python -m gpureplay.train",
        name, names);
}

gpur_status gpur_env_find(const char *name, const gpur_env_type **type)
{
    GPUR_REQUIRE(type, "type is NULL");
    *type = NULL;
    GPUR_REQUIRE(name, "name is NULL; it must be a game's name or a plug-in's file");
    *type = game_named(name);
    if (*type)
        return GPUR_OK;
    return gpur_env_plugin_is_file(name) ? gpur_env_plugin_find(name, type) : refuse_name(name);
}

gpur_status gpur_vector_env_find(const char *name, const gpur_vector_env_type **type)
{
    GPUR_REQUIRE(type, "type is NULL");
    *type = NULL;
    GPUR_REQUIRE(name, "name is NULL; it must be a plug-in's file");
    GPUR_REQUIRE(!game_named(name), "%s is a game of this library, which steps one at a time: use gpur_env_find", name);
    return gpur_env_plugin_is_file(name) ? gpur_env_plugin_find_vector(name, type) : refuse_name(name);
}
