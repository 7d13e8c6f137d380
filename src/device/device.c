/* SPDX-License-Identifier: MIT */
/* Opening, holding and describing a device. */
#include "base/sized.h"
#include "device/backend.h"
#include "device/device_name.h"

#include <stdarg.h>
#include <stdio.h>

gpur_status gpur_device_config_init(gpur_device_config *config, uint64_t size)
{
    GPUR_REQUIRE(config, "gpur_device_config is NULL");
    const gpur_device_config defaults = {.executor = GPUR_EXECUTOR_INLINE};
    config->size = size;
    return gpur_sized_write(config, &defaults, sizeof defaults, "gpur_device_config");
}

static gpur_status check_config(const gpur_device_config *config)
{
    GPUR_REQUIRE(config->threads >= 0 && config->threads <= GPUR_MOST_THREADS,
                 "gpur_device_config.threads is %d; it must be 0 (all) to %d", (int)config->threads, GPUR_MOST_THREADS);
    GPUR_REQUIRE(config->executor == GPUR_EXECUTOR_INLINE || config->executor == GPUR_EXECUTOR_THREAD,
                 "gpur_device_config.executor is %d; it must be GPUR_EXECUTOR_INLINE (%d) or GPUR_EXECUTOR_THREAD (%d)",
                 (int)config->executor, GPUR_EXECUTOR_INLINE, GPUR_EXECUTOR_THREAD);
    GPUR_REQUIRE(!config->alloc == !config->release, "gpur_device_config has %s and no %s; set both or neither",
                 config->alloc ? "alloc" : "release", config->alloc ? "release" : "alloc");
    return GPUR_OK;
}

/* Takes half-open devices: what `open` did not reach is still zero. */
static void destroy(gpur_device *device)
{
    gpur_allocation forgotten;
    if (device->copy_stream)
        device->backend->stream_destroy(device->copy_stream);
    while (gpur_ledger_take(device, NULL, &forgotten))
        if (forgotten.pinned)
            device->backend->pinned_free(device, forgotten.memory, forgotten.bytes);
        else
            device->backend->memory_free(device, forgotten.memory, forgotten.bytes);
    device->backend->close(device);
    gpur_ledger_close(device);
    gpur_device self = *device; /* whose allocator outlives it by one call */
    gpur_host_free(&self, device, sizeof *device);
}

static gpur_status build(gpur_device *device, int ordinal)
{
    GPUR_TRY(gpur_ledger_open(device));
    GPUR_TRY(device->backend->open(device, ordinal));
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
    atomic_init(&device->holders, 1);
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

/* Falls back where there is no CUDA; a CUDA device that is there and fails is an error that must be seen. */
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
    GPUR_TRY(gpur_device_name_parse(name, &kind, &ordinal));
    if (kind == GPUR_NAMED_AUTO)
        return open_auto(&config, device);
    return open_on(kind == GPUR_NAMED_CPU ? &gpur_backend_cpu : &gpur_backend_cuda, ordinal, &config, device);
}

void gpur_device_hold(gpur_device *device)
{
    atomic_fetch_add(&device->holders, 1);
}

void gpur_device_release(gpur_device *device)
{
    if (device && atomic_fetch_sub(&device->holders, 1) == 1)
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

int gpur_device_works_at_once(const gpur_device *device)
{
    return !gpur_device_is_cuda(device) && device->config.executor == GPUR_EXECUTOR_INLINE;
}

int gpur_device_is_cuda(const gpur_device *device)
{
    return device->backend == &gpur_backend_cuda;
}

gpur_status gpur_device_get_info(gpur_device *device, gpur_device_info *given)
{
    gpur_device_info info = {.size = sizeof info};
    GPUR_REQUIRE(device, "device is NULL");
    snprintf(info.name, sizeof info.name, "%s", device->name);
    snprintf(info.description, sizeof info.description, "%s", device->description);
    info.is_cuda = gpur_device_is_cuda(device);
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
