/* SPDX-License-Identifier: MIT */
/* Keeps reads and writes of the acting copies apart, on the host and on the device. */
#include "learn/acting/acting_copies.h"

gpur_status gpur_acting_copies_open(gpur_acting_copies *copies, gpur_device *device, const gpur_params *params,
                                    int readers)
{
    copies->device = device;
    copies->params = params;
    copies->writing = -1;
    GPUR_TRY(gpur_mutex_open(&copies->lock, "the weights for acting"));
    for (int c = 0; c < 2; c++) {
        GPUR_TRY(gpur_event_create(device, &copies->written[c]));
        for (int r = 0; r < readers; r++)
            GPUR_TRY(gpur_event_create(device, &copies->read[c][r]));
    }
    copies->readers = readers;
    return GPUR_OK;
}

void gpur_acting_copies_close(gpur_acting_copies *copies)
{
    for (int c = 0; c < 2; c++) {
        if (copies->written[c])
            (void)gpur_event_sync(copies->written[c]);
        gpur_event_destroy(copies->written[c]);
        for (int r = 0; r < GPUR_MAX_COPY_READERS; r++)
            gpur_event_destroy(copies->read[c][r]);
    }
    gpur_mutex_close(&copies->lock);
}

/* Requires the lock. */
static int index_of(const gpur_acting_copies *copies, int age)
{
    return age == GPUR_COPY_LATEST ? copies->latest : 1 - copies->latest;
}

/* While it waits, a write may end and make the other copy the latest, so the index is looked up each time. */
static int reserve_read(gpur_acting_copies *copies, int age)
{
    gpur_mutex_lock(&copies->lock);
    while (copies->writing == index_of(copies, age))
        gpur_mutex_wait(&copies->lock);
    const int copy = index_of(copies, age);
    copies->reads[copy]++;
    gpur_mutex_unlock(&copies->lock);
    return copy;
}

static void release_read(gpur_acting_copies *copies, int copy)
{
    gpur_mutex_lock(&copies->lock);
    if (--copies->reads[copy] == 0)
        gpur_mutex_notify_all(&copies->lock);
    gpur_mutex_unlock(&copies->lock);
}

gpur_status gpur_acting_copies_begin_read(gpur_acting_copies *copies, int age, gpur_stream *stream, int *copy)
{
    *copy = reserve_read(copies, age);
    const gpur_status status = gpur_stream_wait(stream, copies->written[*copy]);
    if (status != GPUR_OK)
        release_read(copies, *copy);
    return status;
}

gpur_status gpur_acting_copies_end_read(gpur_acting_copies *copies, int copy, int reader, gpur_stream *stream,
                                        gpur_status status)
{
    const gpur_status recorded = gpur_event_record(copies->read[copy][reader], stream);
    release_read(copies, copy);
    return status != GPUR_OK ? status : recorded;
}

/* Once `writing` is set no further read of the copy begins, so that threads which act in a loop do not keep a write
 * waiting. Only one write is in progress at a time, because the end of another one could change which copy is the
 * latest. */
static int reserve_write(gpur_acting_copies *copies, int age)
{
    gpur_mutex_lock(&copies->lock);
    while (copies->writing >= 0)
        gpur_mutex_wait(&copies->lock);
    const int copy = index_of(copies, age);
    copies->writing = copy;
    while (copies->reads[copy] > 0)
        gpur_mutex_wait(&copies->lock);
    gpur_mutex_unlock(&copies->lock);
    return copy;
}

static void release_write(gpur_acting_copies *copies, int copy, int makes_latest)
{
    gpur_mutex_lock(&copies->lock);
    copies->writing = -1;
    if (makes_latest)
        copies->latest = copy;
    gpur_mutex_notify_all(&copies->lock);
    gpur_mutex_unlock(&copies->lock);
}

static gpur_status enqueue_write(gpur_acting_copies *copies, int copy, gpur_stream *stream, const float *weights,
                                 int64_t offset, int64_t count)
{
    float *const to = copies->weights[copy];
    for (int r = 0; r < copies->readers; r++)
        GPUR_TRY(gpur_stream_wait(stream, copies->read[copy][r]));
    GPUR_TRY(gpur_copy(stream, to + offset, weights + offset, count * (int64_t)sizeof *weights));
    GPUR_TRY(gpur_params_round(copies->params, copies->device, stream, to));
    return gpur_event_record(copies->written[copy], stream);
}

gpur_status gpur_acting_copies_write(gpur_acting_copies *copies, int age, int64_t version, gpur_stream *stream,
                                     const float *weights, int64_t offset, int64_t count)
{
    const int copy = reserve_write(copies, age);
    if (version >= 0)
        atomic_store(&copies->version[copy], version);
    const gpur_status status = enqueue_write(copies, copy, stream, weights, offset, count);
    release_write(copies, copy, version >= 0 && status == GPUR_OK);
    return status;
}

int gpur_acting_copies_latest(gpur_acting_copies *copies)
{
    gpur_mutex_lock(&copies->lock);
    const int latest = copies->latest;
    gpur_mutex_unlock(&copies->lock);
    return latest;
}
