/* SPDX-License-Identifier: MIT */
#include "machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

/* The first line, without its end. 0: there is none. */
static int first_line(FILE *file, char *text, size_t bytes)
{
    const int found = file && fgets(text, (int)bytes, file) != NULL;
    if (found)
        text[strcspn(text, "\n")] = '\0';
    return found && text[0];
}

static int ask(const char *command, char *text, size_t bytes)
{
    FILE *const pipe = popen(command, "r");
    const int found = first_line(pipe, text, bytes);
    if (pipe)
        pclose(pipe);
    return found;
}

const char *machine_commit(char *text, size_t bytes)
{
    char change[256];
    const char *const given = getenv("GPUREPLAY_COMMIT");
    if (!ask("git rev-parse HEAD 2>/dev/null", text, bytes))
        snprintf(text, bytes, "%s", given ? given : "unknown: no git here");
    else if (ask("git status --porcelain -- ':(top,exclude)bench/results' 2>/dev/null", change, sizeof change))
        snprintf(text + strlen(text), bytes - strlen(text), ", with changes");
    return text;
}

const char *machine_driver(char *text, size_t bytes)
{
    FILE *const file = fopen("/proc/driver/nvidia/version", "r");
    if (!first_line(file, text, bytes))
        snprintf(text, bytes, "none");
    if (file)
        fclose(file);
    return text;
}

const char *machine_system(char *text, size_t bytes)
{
    struct utsname name;
    if (uname(&name) != 0)
        return strncpy(text, "unknown", bytes);
    snprintf(text, bytes, "%s %s %s", name.sysname, name.release, name.machine);
    return text;
}
