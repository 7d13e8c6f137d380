/* SPDX-License-Identifier: MIT */
#include "env/plugin.h"

#include "base/sized.h"
#include "env/type.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A plug-in's file, and the name of a type in it: "" if none is given. */
typedef struct plugin_name {
    char file[PATH_MAX];
    const char *type;
} plugin_name;

/* The colon is the first one after ".so", so that folders and types may have one in their names, too. Returns 0 if the
 * file's name is too long for one. */
static int split_name(const char *name, plugin_name *split)
{
    const char *const suffix = strstr(name, ".so");
    const char *const colon = strchr(suffix ? suffix : name, ':');
    const size_t length = colon ? (size_t)(colon - name) : strlen(name);
    if (length >= sizeof split->file)
        return 0;
    memcpy(split->file, name, length);
    split->file[length] = '\0';
    split->type = colon ? colon + 1 : "";
    return 1;
}

int gpur_env_plugin_is_file(const char *name)
{
    plugin_name split;
    if (!split_name(name, &split))
        return 0;
    const size_t length = strlen(split.file);
    return (length > 3 && strcmp(split.file + length - 3, ".so") == 0) ||
           (strchr(split.file, '/') && access(split.file, F_OK) == 0);
}

/*
 * Finds a function that the file exports. `other` is what it may export in its place: that is GPUR_UNAVAILABLE, and the
 * message has `advice`.
 * The file is never closed: environments use its functions and texts for as long as they live, which is not known here,
 * and a file that has started threads cannot be unloaded safely.
 */
static gpur_status find_symbol(const plugin_name *name, const char *symbol, const char *other, const char *advice,
                               void **address)
{
    void *const file = dlopen(name->file, RTLD_NOW | RTLD_LOCAL);
    if (!file) {
        const char *const words = dlerror();
        return gpur_fail(GPUR_INVALID_ARGUMENT, "it cannot be opened: %s%s", words ? words : "no reason given",
                         strchr(name->file, '/') ? "" : "; a file of the current folder begins with ./");
    }
    *address = dlsym(file, symbol);
    if (!*address && dlsym(file, other))
        return gpur_fail(GPUR_UNAVAILABLE, "it exports %s and no %s: %s", other, symbol, advice);
    GPUR_REQUIRE(*address, "it exports no %s, which every plug-in must", symbol);
    return GPUR_OK;
}

/*
 * Copies of the types that were found, of this version's size: the struct of a plug-in that was compiled against an
 * older header is shorter. They stay as long as the process runs. Equal types share a copy, so that repeated calls take
 * no more memory.
 */
typedef struct found_type {
    struct found_type *next;
    size_t size;
    unsigned char type[]; /* `size` bytes */
} found_type;
static found_type *found_types;
static pthread_mutex_t found_lock = PTHREAD_MUTEX_INITIALIZER;

static const void *copy_of(const void *type, size_t size)
{
    pthread_mutex_lock(&found_lock);
    found_type *found = found_types;
    while (found && (found->size != size || memcmp(found->type, type, size) != 0))
        found = found->next;
    if (!found && (found = malloc(sizeof *found + size)) != NULL) {
        found->next = found_types;
        found->size = size;
        memcpy(found->type, type, size);
        found_types = found;
    }
    pthread_mutex_unlock(&found_lock);
    return found ? found->type : NULL;
}

static gpur_status keep_copy(const void *type, size_t size, const void **copy)
{
    *copy = copy_of(type, size);
    return *copy ? GPUR_OK : gpur_fail(GPUR_OUT_OF_MEMORY, "there is no memory for %zu bytes of its type", size);
}

static gpur_status find(const plugin_name *name, const gpur_env_type **type)
{
    void *symbol = NULL;
    const gpur_env_type *(*plugin)(const char *) = NULL;
    GPUR_TRY(find_symbol(name, "gpur_env_plugin", "gpur_vector_env_plugin",
                         "its environments step many at once, and one that steps alone is wanted "
                         "(gpur_vector_env_find finds the others)",
                         &symbol));
    memcpy(&plugin, &symbol,
           sizeof plugin); /* POSIX: both kinds of pointer look the same; C has no cast between them */
    const gpur_env_type *const given = plugin(name->type);
    GPUR_REQUIRE(given, "its gpur_env_plugin has no type \"%s\"", name->type);
    gpur_env_type known = {0};
    GPUR_TRY(gpur_sized_read(&known, sizeof known, given, "gpur_env_type"));
    GPUR_TRY(gpur_env_type_check(&known));
    const void *copy = NULL;
    GPUR_TRY(keep_copy(&known, sizeof known, &copy));
    *type = copy;
    return GPUR_OK;
}

static gpur_status find_vector(const plugin_name *name, const gpur_vector_env_type **type)
{
    void *symbol = NULL;
    const gpur_vector_env_type *(*plugin)(const char *) = NULL;
    GPUR_TRY(find_symbol(name, "gpur_vector_env_plugin", "gpur_env_plugin",
                         "its environments step one at a time, and one that steps many at once is wanted "
                         "(gpur_env_find finds the others)",
                         &symbol));
    memcpy(&plugin, &symbol, sizeof plugin);
    const gpur_vector_env_type *const given = plugin(name->type);
    GPUR_REQUIRE(given, "its gpur_vector_env_plugin has no type \"%s\"", name->type);
    gpur_vector_env_type known = {0};
    GPUR_TRY(gpur_sized_read(&known, sizeof known, given, "gpur_vector_env_type"));
    GPUR_TRY(gpur_vector_env_type_check(&known));
    const void *copy = NULL;
    GPUR_TRY(keep_copy(&known, sizeof known, &copy));
    *type = copy;
    return GPUR_OK;
}

gpur_status gpur_env_plugin_find(const char *name, const gpur_env_type **type)
{
    plugin_name split = {.type = ""};
    split_name(name, &split);
    return gpur_prefix_error(find(&split, type), "plug-in %s", split.file);
}

gpur_status gpur_env_plugin_find_vector(const char *name, const gpur_vector_env_type **type)
{
    plugin_name split = {.type = ""};
    split_name(name, &split);
    return gpur_prefix_error(find_vector(&split, type), "plug-in %s", split.file);
}

gpur_env_name_at *gpur_env_plugin_names(const char *name)
{
    gpur_env_name_at *names = NULL;
    plugin_name split;
    if (!gpur_env_plugin_is_file(name) || !split_name(name, &split) || strcmp(split.file, name) != 0)
        return NULL;
    void *const file = dlopen(split.file, RTLD_NOW | RTLD_LOCAL);
    void *const symbol = file ? dlsym(file, "gpur_env_plugin_name") : NULL;
    memcpy(&names, &symbol, sizeof names);
    return names;
}
