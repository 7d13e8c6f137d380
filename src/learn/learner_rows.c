/* SPDX-License-Identifier: MIT */
/* Training on batches that the caller keeps in RAM. */
#include "learn/learner.h"
#include "replay/consumer.h"

static gpur_status check(const gpur_learner *learner)
{
    GPUR_REQUIRE(learner, "learner is NULL");
    GPUR_REQUIRE(learner->rows.count > 0, "the learner was made with host_batches 0; rows in RAM need 1 to %d of them",
                 GPUR_MAX_HOST_BATCHES);
    return GPUR_OK;
}

gpur_status gpur_learner_get_rows(gpur_learner *learner, void **rows)
{
    int32_t index = 0;
    GPUR_REQUIRE(rows, "rows, which gets the buffer, is NULL");
    *rows = NULL;
    GPUR_TRY(check(learner));
    GPUR_TRY(gpur_rows_take(&learner->rows, &index));
    *rows = gpur_rows_buffer(&learner->rows, index);
    return GPUR_OK;
}

gpur_status gpur_learner_return_rows(gpur_learner *learner, void *rows)
{
    int32_t index = 0;
    GPUR_TRY(check(learner));
    GPUR_REQUIRE(rows, "rows is NULL; it must be a buffer of gpur_learner_get_rows");
    GPUR_TRY(gpur_rows_find(&learner->rows, rows, &index));
    GPUR_REQUIRE(index >= 0, "rows is %p, which is none of the host batches", rows);
    gpur_rows_give(&learner->rows, index);
    return GPUR_OK;
}

static gpur_status enqueue(gpur_learner *learner, gpur_stream *stream, int32_t index)
{
    gpur_recording *recording = NULL;
    GPUR_TRY(gpur_rows_bring(&learner->rows, index, stream, &recording));
    return gpur_learner_enqueue(learner, stream, recording, 1);
}

/* A turn of no rows: what the replay holds does not matter. */
static gpur_status train(gpur_learner *learner, int32_t index)
{
    gpur_stream *stream = NULL;
    GPUR_TRY(gpur_consumer_begin(learner->replay, 0, &stream));
    return gpur_learner_end_turn(learner, enqueue(learner, stream, index));
}

gpur_status gpur_learner_train_rows(gpur_learner *learner, const void *rows)
{
    int32_t index = 0;
    GPUR_TRY(check(learner));
    GPUR_REQUIRE(rows, "rows is NULL; it must be (batch_size, row_bytes) in host memory");
    GPUR_TRY(gpur_rows_find(&learner->rows, rows, &index));
    if (index < 0)
        GPUR_TRY(gpur_rows_copy(&learner->rows, rows, &index));
    const gpur_status status = train(learner, index);
    gpur_rows_give(&learner->rows, index);
    return status;
}
