/* SPDX-License-Identifier: MIT */
/* The policy handle, shared by the files that implement the public policy. */
#pragma once

#include "base/mutex.h"
#include "gpureplay/policy.h"
#include "learn/acting/acting_copies.h"
#include "learn/acting/inference.h"

struct gpur_policy {
    gpur_device *device;
    gpur_policy_config config; /* as checked; obs.name is NULL */
    gpur_network network;
    gpur_acting_copies copies;                         /* reader i is inference i */
    _Atomic int64_t version[2];                        /* of the weights in each copy; set by the write of the copy */
    gpur_inference *inferences;                        /* (streams) */
    gpur_mutex lock;                                   /* protects all members from here to `observations` */
    int32_t free[GPUR_MAX_POLICY_STREAMS], free_count; /* the inferences that no call uses */
    int64_t asked, released;                           /* calls that have asked for an inference, and released one */
    int64_t calls, observations;                       /* of gpur_policy_act */
    _Atomic uint64_t draws;                            /* calls that chose actions without steps of the caller */
    void *memory;                                      /* device: both copies, and the buffers of the inferences */
    int64_t memory_bytes, pinned_bytes;
};

/* Takes a free inference, or waits for one. Calls get them in the order in which they ask, so that none starves beside
 * threads that act in a loop. Returns its index. */
int32_t gpur_policy_acquire(gpur_policy *policy);

/* Counts a call of gpur_policy_act with so many observations; 0: another call, or one that failed. */
void gpur_policy_release(gpur_policy *policy, int32_t index, int64_t observations);

/* Enqueues on `stream` a copy of `weights`, (P) device, over the older acting copy, which becomes the latest. */
gpur_status gpur_policy_enqueue_write(gpur_policy *policy, gpur_stream *stream, const float *weights, int64_t version);

/* Replaces the policy's weights by `weights`, (P) in host memory, and waits for the copy. */
gpur_status gpur_policy_upload(gpur_policy *policy, const float *weights, int64_t version);
