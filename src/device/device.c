/* SPDX-License-Identifier: MIT */
/* A device: its name, opening and closing, the table of allocations, and memory. */
#include "base/status.h"
#include "device/backend.h"
#include "base/platform.h"
#include "base/sized.h"
#include "kernels/entries.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAMED_AUTO, NAMED_CPU, NAMED_CUDA };

enum { MAX_ORDINAL = 9999 };

/* Accepts digits only; strtol would accept "cuda: 1" and "cuda:+1". */
static int parse_ordinal(const char *text, int *ordinal)
{
    int number = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9' && number <= MAX_ORDINAL; at++)
        number = 10 * number + (*at - '0');
    *ordinal = number;
    return at > text && *at == '\0' && number <= MAX_ORDINAL;
}

/* Parses "auto", "cpu", "cuda" or "cuda:N". *ordinal is 0 if the name has none. */
static gpur_status parse_name(const char *name, int *kind, int *ordinal)
{
    *ordinal = 0;
    *kind = NAMED_CUDA;
    if (strcmp(name, "cuda") == 0)
        return GPUR_OK;
    if (strncmp(name, "cuda:", 5) == 0 && parse_ordinal(name + 5, ordinal))
        return GPUR_OK;
    *kind = strcmp(name, "cpu") == 0 ? NAMED_CPU : NAMED_AUTO;
    GPUR_REQUIRE(
        *kind == NAMED_CPU || strcmp(name, "auto") == 0,
        "no device is called \"%.64s\"; the names are \"auto\", \"cpu\", \"cuda\" and \"cuda:N\" with N from 0", name);
    return GPUR_OK;
}

static gpur_status open_table(gpur_device *device)
{
    if (pthread_mutex_init(&device->allocations.mutex, NULL) != 0)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no lock for %s: the system has no more of them", device->name);
    return GPUR_OK;
}

static void close_table(gpur_device *device)
{
    gpur_alloc_table *const table = &device->allocations;
    gpur_host_free(device, table->entries, table->room * sizeof *table->entries);
    pthread_mutex_destroy(&table->mutex);
}

static gpur_status grow(gpur_device *device, gpur_alloc_table *table)
{
    const size_t room = table->room ? 2 * table->room : 64;
    gpur_allocation *const entries = (gpur_allocation *)gpur_host_alloc(device, room * sizeof *entries);
    if (!entries)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory to note the %zu-th allocation of %s", table->count + 1,
                         device->name);
    if (table->count)
        memcpy(entries, table->entries, table->count * sizeof *entries);
    gpur_host_free(device, table->entries, table->room * sizeof *entries);
    table->entries = entries;
    table->room = room;
    return GPUR_OK;
}

static gpur_status add_entry(gpur_device *device, gpur_allocation allocation)
{
    gpur_alloc_table *const table = &device->allocations;
    pthread_mutex_lock(&table->mutex);
    const gpur_status status = table->count < table->room ? GPUR_OK : grow(device, table);
    if (status == GPUR_OK)
        table->entries[table->count++] = allocation;
    pthread_mutex_unlock(&table->mutex);
    return status;
}

static size_t find(const gpur_alloc_table *table, const void *memory)
{
    size_t i = table->count;
    while (i > 0 && memory && table->entries[i - 1].memory != memory)
        i--;
    return i; /* index of the entry + 1; 0: not found */
}

/* Removes the entry with this address, or any entry if `memory` is NULL; `callers`: only one of the caller's. Returns 0
 * if there is none. */
static int remove_entry(gpur_device *device, const void *memory, int callers, gpur_allocation *allocation)
{
    gpur_alloc_table *const table = &device->allocations;
    pthread_mutex_lock(&table->mutex);
    size_t found = find(table, memory);
    if (found && callers && !table->entries[found - 1].is_callers)
        found = 0;
    if (found) {
        *allocation = table->entries[found - 1];
        memmove(&table->entries[found - 1], &table->entries[found], (table->count - found) * sizeof *table->entries);
        table->count--;
    }
    pthread_mutex_unlock(&table->mutex);
    return found != 0;
}

/* Opening a device, its references and its description. */

gpur_status gpur_device_config_init(gpur_device_config *config, uint64_t size)
{
    const gpur_device_config defaults = {.executor = GPUR_EXECUTOR_INLINE};
    return gpur_sized_init(config, size, &defaults, sizeof defaults, "gpur_device_config");
}

static gpur_status check_config(const gpur_device_config *config)
{
    GPUR_REQUIRE(config->threads >= 0 && config->threads <= GPUR_MAX_THREADS,
                 "gpur_device_config.threads is %d; it must be 0 (all) to %d", (int)config->threads, GPUR_MAX_THREADS);
    GPUR_REQUIRE(config->executor == GPUR_EXECUTOR_INLINE || config->executor == GPUR_EXECUTOR_THREAD,
                 "gpur_device_config.executor is %d; it must be GPUR_EXECUTOR_INLINE (%d) or GPUR_EXECUTOR_THREAD (%d)",
                 (int)config->executor, GPUR_EXECUTOR_INLINE, GPUR_EXECUTOR_THREAD);
    GPUR_REQUIRE(config->deterministic == 0 || config->deterministic == 1,
                 "gpur_device_config.deterministic is %d; it must be 0 or 1", (int)config->deterministic);
    GPUR_REQUIRE(!config->alloc == !config->release, "gpur_device_config has %s and no %s; set both or neither",
                 config->alloc ? "alloc" : "release", config->alloc ? "release" : "alloc");
    return GPUR_OK;
}

/* Accepts half-open devices: members that `build` did not reach are still zero. */
static void destroy(gpur_device *device)
{
    gpur_allocation leaked = {0};
    if (device->copy_stream)
        device->backend->stream_destroy(device->copy_stream);
    while (remove_entry(device, NULL, 0, &leaked))
        if (leaked.pinned)
            device->backend->pinned_free(device, leaked.memory, leaked.bytes);
        else
            device->backend->memory_free(device, leaked.memory, leaked.bytes);
    device->backend->close(device);
    close_table(device);
    gpur_device self = *device; /* a copy, because freeing the handle still needs the allocator */
    gpur_host_free(&self, device, sizeof *device);
}

static gpur_status build(gpur_device *device, int ordinal)
{
    GPUR_TRY(open_table(device));
    GPUR_TRY(device->backend->open(device, ordinal));
    device->traits.is_deterministic = device->config.deterministic;
    return device->backend->stream_create(device, NULL, &device->copy_stream);
}

static gpur_status open_on(const gpur_backend *backend, int ordinal, const gpur_device_config *config,
                           gpur_device **out)
{
    gpur_device self = {.backend = backend, .config = *config}; /* enough of a device to allocate from */
    gpur_device *const device = (gpur_device *)gpur_host_alloc(&self, sizeof *device);
    if (!device)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for a device handle of %zu bytes", sizeof *device);
    device->backend = backend;
    device->config = *config;
    atomic_init(&device->references, 1);
    if (backend == &gpur_backend_cpu)
        snprintf(device->name, sizeof device->name, "cpu");
    else
        snprintf(device->name, sizeof device->name, "cuda:%d", ordinal);
    const gpur_status status = build(device, ordinal);
    if (status != GPUR_OK) {
        destroy(device);
        return status;
    }
    *out = device;
    return GPUR_OK;
}

/* Falls back to the CPU only if CUDA is unavailable. A CUDA device that exists but fails is an error the caller must
 * see. */
static gpur_status open_auto(const gpur_device_config *config, gpur_device **out)
{
    const gpur_status status = open_on(&gpur_backend_cuda, 0, config, out);
    if (status != GPUR_UNAVAILABLE)
        return status;
    const gpur_device self = {.config = *config};
    gpur_log(&self, "auto: using the CPU: %s", gpur_last_error());
    return open_on(&gpur_backend_cpu, 0, config, out);
}

gpur_status gpur_device_open(const char *name, const gpur_device_config *given, gpur_device **device)
{
    gpur_device_config config;
    int kind = 0, ordinal = 0;
    GPUR_REQUIRE(device, "device is NULL; it must be where the handle goes");
    *device = NULL;
    GPUR_REQUIRE(name, "the device's name is NULL; \"auto\" is always good");
    GPUR_TRY(gpur_device_config_init(&config, sizeof config));
    if (given)
        GPUR_TRY(gpur_sized_read(&config, sizeof config, given, "gpur_device_config"));
    GPUR_TRY(check_config(&config));
    GPUR_TRY(parse_name(name, &kind, &ordinal));
    if (kind == NAMED_AUTO)
        return open_auto(&config, device);
    return open_on(kind == NAMED_CPU ? &gpur_backend_cpu : &gpur_backend_cuda, ordinal, &config, device);
}

void gpur_device_retain(gpur_device *device)
{
    atomic_fetch_add(&device->references, 1);
}

void gpur_device_release(gpur_device *device)
{
    if (device && atomic_fetch_sub(&device->references, 1) == 1)
        destroy(device);
}

void gpur_device_close(gpur_device *device)
{
    gpur_device_release(device);
}

const char *gpur_device_name(const gpur_device *device)
{
    return device->name;
}

const gpur_device_traits *gpur_device_get_traits(const gpur_device *device)
{
    return &device->traits;
}

gpur_status gpur_device_get_info(gpur_device *device, gpur_device_info *given)
{
    gpur_device_info info = {.size = sizeof info};
    GPUR_REQUIRE(device, "device is NULL");
    snprintf(info.name, sizeof info.name, "%s", device->name);
    snprintf(info.description, sizeof info.description, "%s", device->description);
    info.is_cuda = device->backend == &gpur_backend_cuda;
    info.threads = device->threads;
    info.memory_used = atomic_load(&device->memory_used);
    GPUR_TRY(gpur_memory_available(device, &info.memory_total, &info.memory_free));
    return gpur_sized_write(given, &info, sizeof info, "gpur_device_info");
}

void gpur_log(const gpur_device *device, const char *format, ...)
{
    char line[640];
    va_list arguments;
    if (!device->config.log)
        return;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    device->config.log(device->config.log_user, line);
}

/* Host and device memory: allocating, counting, freeing. */

enum { HOST_ALIGNMENT = 64 };
static const size_t huge_page = (size_t)2 << 20;

/* Uses huge pages for blocks of 1 MiB or more: rings and batches would lose time to page-table walks with pages of 4
 * KiB. The last page is a huge one, too, if at least half of it is used. */
static void *default_alloc(size_t bytes)
{
    const size_t in_huge = (bytes / huge_page + (bytes % huge_page >= huge_page / 2)) * huge_page;
    void *memory = NULL;
    if (posix_memalign(&memory, in_huge ? huge_page : HOST_ALIGNMENT, bytes > in_huge ? bytes : in_huge) != 0)
        return NULL;
    if (in_huge)
        gpur_advise_huge_pages(memory, in_huge);
    return memory;
}

static void *callers_alloc(const gpur_device *device, size_t bytes)
{
    const gpur_device_config *const config = &device->config;
    void *const memory = config->alloc(config->alloc_user, bytes);
    if ((uintptr_t)memory % HOST_ALIGNMENT == 0)
        return memory;
    gpur_log(device, "the caller's allocator gave %p, which is not aligned to %d bytes; it cannot be used", memory,
             HOST_ALIGNMENT);
    config->release(config->alloc_user, memory, bytes);
    return NULL;
}

void *gpur_host_alloc(gpur_device *device, size_t bytes)
{
    void *const memory = device && device->config.alloc ? callers_alloc(device, bytes) : default_alloc(bytes);
    if (memory)
        memset(memory, 0, bytes);
    return memory;
}

void gpur_host_free(gpur_device *device, void *memory, size_t bytes)
{
    if (memory && device && device->config.release)
        device->config.release(device->config.alloc_user, memory, bytes);
    else
        free(memory);
}

gpur_status gpur_memory_available(gpur_device *device, int64_t *total, int64_t *available)
{
    return device->backend->memory_available(device, total, available);
}

static gpur_status fail_out_of_memory(gpur_device *device, const char *kind, int64_t bytes, const char *what)
{
    int64_t total = 0, available = 0;
    if (gpur_memory_available(device, &total, &available) != GPUR_OK)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no %s memory for %s: %" PRId64 " bytes wanted on %s", kind, what, bytes,
                         device->name);
    return gpur_fail(GPUR_OUT_OF_MEMORY,
                     "no %s memory for %s: %" PRId64 " bytes wanted, %" PRId64 " free of %" PRId64 " on %s", kind, what,
                     bytes, available, total, device->name);
}

static void free_allocation(gpur_device *device, gpur_allocation allocation)
{
    if (allocation.pinned) {
        device->backend->pinned_free(device, allocation.memory, allocation.bytes);
        return;
    }
    atomic_fetch_sub(&device->memory_used, allocation.bytes);
    device->backend->memory_free(device, allocation.memory, allocation.bytes);
}

static gpur_status count_allocation(gpur_device *device, gpur_allocation allocation, void **memory)
{
    if (!allocation.pinned)
        atomic_fetch_add(&device->memory_used, allocation.bytes);
    const gpur_status status = add_entry(device, allocation);
    if (status != GPUR_OK) {
        free_allocation(device, allocation);
        return status;
    }
    *memory = allocation.memory;
    return GPUR_OK;
}

static gpur_status alloc(gpur_device *device, int64_t bytes, const char *what, int is_callers, void **memory)
{
    gpur_allocation allocation = {.bytes = bytes, .is_callers = is_callers};
    *memory = NULL;
    GPUR_REQUIRE(bytes >= 1, "%" PRId64 " bytes of device memory for %s; it must be at least 1", bytes, what);
    const gpur_status status = device->backend->memory_alloc(device, bytes, &allocation.memory);
    if (status == GPUR_OUT_OF_MEMORY)
        return fail_out_of_memory(device, "device", bytes, what);
    GPUR_TRY(status);
    return count_allocation(device, allocation, memory);
}

gpur_status gpur_memory_alloc(gpur_device *device, int64_t bytes, const char *what, void **memory)
{
    return alloc(device, bytes, what, 0, memory);
}

gpur_status gpur_pinned_alloc(gpur_device *device, int64_t bytes, const char *what, void **memory)
{
    gpur_allocation allocation = {.bytes = bytes, .pinned = 1};
    *memory = NULL;
    GPUR_REQUIRE(bytes >= 1, "%" PRId64 " bytes of pinned memory for %s; it must be at least 1", bytes, what);
    const gpur_status status = device->backend->pinned_alloc(device, bytes, &allocation.memory);
    if (status == GPUR_OUT_OF_MEMORY)
        return gpur_fail(status, "no pinned host memory for %s: %" PRId64 " bytes wanted", what, bytes);
    GPUR_TRY(status);
    return count_allocation(device, allocation, memory);
}

static void release(gpur_device *device, void *memory, int callers)
{
    gpur_allocation allocation = {0};
    if (!memory)
        return;
    if (remove_entry(device, memory, callers, &allocation))
        free_allocation(device, allocation);
    else
        gpur_log(device, "%p was to be freed, but is no memory %s %s; it was left alone", memory,
                 callers ? "from gpur_device_alloc of" : "of", device->name);
}

void gpur_memory_free(gpur_device *device, void *memory)
{
    release(device, memory, 0);
}

void gpur_pinned_free(gpur_device *device, void *memory)
{
    release(device, memory, 0);
}

gpur_status gpur_memory_locate(gpur_device *device, const void *memory, int *on_device)
{
    return device->backend->memory_locate(device, memory, on_device);
}

gpur_status gpur_device_alloc(gpur_device *device, int64_t bytes, void **memory)
{
    GPUR_REQUIRE(memory, "memory is NULL; it must be where the address goes");
    *memory = NULL;
    GPUR_REQUIRE(device, "device is NULL");
    return alloc(device, bytes, "gpur_device_alloc", 1, memory);
}

/* Waits for work that may still use the memory, as cudaFree does. */
void gpur_device_free(gpur_device *device, void *memory)
{
    if (!device || !memory)
        return;
    (void)gpur_device_sync(device); /* later calls report an error of that work */
    release(device, memory, 1);
}

/* The kernels' names, in the order of their ids, for messages and tests. */

#define NAME(name) #name,
const char *const gpur_kernel_names[GPUR_KERNEL_COUNT] = {GPUR_KERNEL_LIST(NAME)};
