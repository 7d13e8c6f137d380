/* SPDX-License-Identifier: MIT */
/* Memory of the host and of the device: taken, counted, given back. */
#include "device/backend.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { HOST_ALIGNMENT = 64 };
static const size_t huge_page = (size_t)2 << 20;

/* Large blocks are rings and batches, which 4 KiB pages would make wait for the page tables. A last page that is used
 * by half is a huge one, too. */
static void *default_alloc(size_t bytes)
{
    const size_t in_huge = (bytes / huge_page + (bytes % huge_page >= huge_page / 2)) * huge_page;
    void *memory = NULL;
    if (posix_memalign(&memory, in_huge ? huge_page : HOST_ALIGNMENT, bytes > in_huge ? bytes : in_huge) != 0)
        return NULL;
    if (in_huge)
        madvise(memory, in_huge, MADV_HUGEPAGE); /* advice: a kernel without them is fine */
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
    void *const memory = device->config.alloc ? callers_alloc(device, bytes) : default_alloc(bytes);
    if (memory)
        memset(memory, 0, bytes);
    return memory;
}

void gpur_host_free(gpur_device *device, void *memory, size_t bytes)
{
    if (memory && device->config.release)
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
    GPUR_TRY(gpur_memory_available(device, &total, &available));
    return gpur_fail(GPUR_OUT_OF_MEMORY,
                     "no %s memory for %s: %" PRId64 " bytes wanted, %" PRId64 " free of %" PRId64 " on %s", kind, what,
                     bytes, available, total, device->name);
}

static void give_back(gpur_device *device, gpur_allocation allocation)
{
    if (allocation.pinned) {
        device->backend->pinned_free(device, allocation.memory, allocation.bytes);
        return;
    }
    atomic_fetch_sub(&device->memory_used, allocation.bytes);
    device->backend->memory_free(device, allocation.memory, allocation.bytes);
}

static gpur_status note(gpur_device *device, gpur_allocation allocation, void **memory)
{
    if (!allocation.pinned)
        atomic_fetch_add(&device->memory_used, allocation.bytes);
    const gpur_status status = gpur_ledger_add(device, allocation);
    if (status != GPUR_OK) {
        give_back(device, allocation);
        return status;
    }
    *memory = allocation.memory;
    return GPUR_OK;
}

gpur_status gpur_memory_alloc(gpur_device *device, int64_t bytes, const char *what, void **memory)
{
    gpur_allocation allocation = {.bytes = bytes};
    *memory = NULL;
    GPUR_REQUIRE(bytes >= 1, "%" PRId64 " bytes of device memory for %s; it must be at least 1", bytes, what);
    const gpur_status status = device->backend->memory_alloc(device, bytes, &allocation.memory);
    if (status == GPUR_OUT_OF_MEMORY)
        return fail_out_of_memory(device, "device", bytes, what);
    GPUR_TRY(status);
    return note(device, allocation, memory);
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
    return note(device, allocation, memory);
}

static void release(gpur_device *device, void *memory)
{
    gpur_allocation allocation;
    if (!memory)
        return;
    if (gpur_ledger_take(device, memory, &allocation))
        give_back(device, allocation);
    else
        gpur_log(device, "%p was to be freed, but is no memory of %s; it was left alone", memory, device->name);
}

void gpur_memory_free(gpur_device *device, void *memory)
{
    release(device, memory);
}

void gpur_pinned_free(gpur_device *device, void *memory)
{
    release(device, memory);
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
    return gpur_memory_alloc(device, bytes, "gpur_device_alloc", memory);
}

/* Work that still uses the memory is waited for, as cudaFree does. */
void gpur_device_free(gpur_device *device, void *memory)
{
    if (!device || !memory)
        return;
    (void)gpur_device_sync(device); /* a failure will come out of the call whose work it was */
    gpur_memory_free(device, memory);
}
