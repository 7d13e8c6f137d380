/* SPDX-License-Identifier: MIT */
/*
 * The policy handle, shared by the files that implement the public policy and by learners, which act by a policy of
 * their own. That one has one stream, grows with its calls, may act with the older acting copy, and is written at the
 * end of each launch of training: so the weights after the last launch and those after the launch before it are both
 * there, and which of them an act reads follows from the order of calls alone.
 */
#pragma once

#include "base/mutex.h"
#include "file/safetensors.h"
#include "gpureplay/policy.h"
#include "learn/acting/acting_copies.h"
#include "learn/acting/inference.h"

struct gpur_policy {
    gpur_device *device;
    gpur_policy_config config; /* as checked; obs.name is NULL */
    int32_t grows;             /* 1: a call of more than max_batch observations gets larger buffers; for one stream */
    int32_t age;               /* the acting copy that it acts with: GPUR_COPY_LATEST, unless its owner sets OLDER */
    gpur_network network;
    gpur_acting_copies copies;                         /* reader i is inference i */
    gpur_inference *inferences;                        /* (streams) */
    gpur_mutex lock;                                   /* protects all members from here to `observations` */
    int32_t free[GPUR_MAX_POLICY_STREAMS], free_count; /* the inferences that no call uses */
    int64_t asked, released;                           /* calls that have asked for an inference, and released one */
    int64_t calls, observations;                       /* calls that succeeded, and their observations */
    _Atomic uint64_t draws;                            /* calls that chose actions without steps of the caller */
    _Atomic int64_t actions;                           /* actions that these calls have chosen */
    void *memory;                                      /* device: both copies, and the buffers of the inferences */
    int64_t memory_bytes, pinned_bytes;
};

/* gpur_policy_create of several copies of the network, as of a learner with two critics, whose weights it pulls. It
 * gives `q` of all copies of an observation, one copy after the other. */
gpur_status gpur_policy_create_copies(gpur_device *device, const gpur_policy_config *config, int32_t copies,
                                      gpur_policy **policy);

/* Takes a free inference, or waits for one. Calls get them in the order in which they ask, so that none starves beside
 * threads that act in a loop. Returns its index. */
int32_t gpur_policy_acquire(gpur_policy *policy);

/* Gives it back. `observations`: those of a call that succeeded, which is counted; 0: nothing is. */
void gpur_policy_release(gpur_policy *policy, int32_t index, int64_t observations);

/* Runs a checked call on a free inference. `draws` 1: it chooses actions by a new number, in place of steps.
 * GPUR_OUT_OF_MEMORY, of a policy that grows: the buffers could not, and are unchanged. */
gpur_status gpur_policy_run(gpur_policy *policy, gpur_inference_call *call, int draws, int64_t *version);

/* Read and set the two counters of calls without steps. With one stream both are of the same calls. */
void gpur_policy_get_counters(gpur_policy *policy, uint64_t *draws, int64_t *actions);
void gpur_policy_set_counters(gpur_policy *policy, uint64_t draws, int64_t actions);

/* Enqueues on `stream` a copy of `weights`, (P) in host or device memory, over the older acting copy, which becomes the
 * latest. */
gpur_status gpur_policy_enqueue_write(gpur_policy *policy, gpur_stream *stream, const float *weights, int64_t version);

/* Enqueues on `stream` a copy of `count` weights, from `offset` on, to both acting copies, whose versions stay. */
gpur_status gpur_policy_enqueue_patch(gpur_policy *policy, gpur_stream *stream, const float *weights, int64_t offset,
                                      int64_t count);

/* Replaces the policy's weights by `weights`, (P) in host memory, and waits for the copy. */
gpur_status gpur_policy_upload(gpur_policy *policy, const float *weights, int64_t version);

/* As gpur_policy_save. The file gets the metadata entries of `more`, too. */
gpur_status gpur_policy_save_with(gpur_policy *policy, const gpur_tensors *more, const char *path,
                                  const gpur_checkpoint_options *options);
