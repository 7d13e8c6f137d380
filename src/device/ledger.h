/* SPDX-License-Identifier: MIT */
/* Which memory a device has given out, and how much of it: CUDA memory has no room for a header in front, and what its
 * owner never freed goes with the device. */
#ifndef GPUR_DEVICE_LEDGER_H
#define GPUR_DEVICE_LEDGER_H

#include "base/status.h"

#include <pthread.h>

struct gpur_device;

typedef struct gpur_allocation {
    void *memory;
    int64_t bytes;
    int pinned;
} gpur_allocation;

typedef struct gpur_ledger {
    pthread_mutex_t mutex;
    gpur_allocation *entries; /* (count of room), newest last: what is freed soon is found soon */
    size_t count, room;
} gpur_ledger;

gpur_status gpur_ledger_open(struct gpur_device *device);
void gpur_ledger_close(struct gpur_device *device); /* tolerates one that is all zeros */
gpur_status gpur_ledger_add(struct gpur_device *device, gpur_allocation allocation);

/* Finds memory by its address, or any with NULL, and strikes it off. 0 when there is none. */
int gpur_ledger_take(struct gpur_device *device, const void *memory, gpur_allocation *allocation);

#endif
