/* SPDX-License-Identifier: MIT */
#include "device/ledger.h"

#include "device/backend.h"

#include <string.h>

gpur_status gpur_ledger_open(gpur_device *device)
{
    if (pthread_mutex_init(&device->ledger.mutex, NULL) != 0)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no lock for %s: the system has no more of them", device->name);
    return GPUR_OK;
}

void gpur_ledger_close(gpur_device *device)
{
    gpur_ledger *const ledger = &device->ledger;
    gpur_host_free(device, ledger->entries, ledger->room * sizeof *ledger->entries);
    pthread_mutex_destroy(&ledger->mutex);
}

static gpur_status grow(gpur_device *device, gpur_ledger *ledger)
{
    const size_t room = ledger->room ? 2 * ledger->room : 64;
    gpur_allocation *const entries = (gpur_allocation *)gpur_host_alloc(device, room * sizeof *entries);
    if (!entries)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory to note the %zu-th allocation of %s", ledger->count + 1,
                         device->name);
    if (ledger->count)
        memcpy(entries, ledger->entries, ledger->count * sizeof *entries);
    gpur_host_free(device, ledger->entries, ledger->room * sizeof *entries);
    ledger->entries = entries;
    ledger->room = room;
    return GPUR_OK;
}

gpur_status gpur_ledger_add(gpur_device *device, gpur_allocation allocation)
{
    gpur_ledger *const ledger = &device->ledger;
    pthread_mutex_lock(&ledger->mutex);
    const gpur_status status = ledger->count < ledger->room ? GPUR_OK : grow(device, ledger);
    if (status == GPUR_OK)
        ledger->entries[ledger->count++] = allocation;
    pthread_mutex_unlock(&ledger->mutex);
    return status;
}

static size_t find(const gpur_ledger *ledger, const void *memory)
{
    size_t i = ledger->count;
    while (i > 0 && memory && ledger->entries[i - 1].memory != memory)
        i--;
    return i; /* one past the entry, 0: none */
}

int gpur_ledger_take(gpur_device *device, const void *memory, gpur_allocation *allocation)
{
    gpur_ledger *const ledger = &device->ledger;
    pthread_mutex_lock(&ledger->mutex);
    const size_t found = find(ledger, memory);
    if (found) {
        *allocation = ledger->entries[found - 1];
        memmove(&ledger->entries[found - 1], &ledger->entries[found],
                (ledger->count - found) * sizeof *ledger->entries);
        ledger->count--;
    }
    pthread_mutex_unlock(&ledger->mutex);
    return found != 0;
}
