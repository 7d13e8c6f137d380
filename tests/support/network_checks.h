/* SPDX-License-Identifier: MIT */
/* What every network must hold to, dense or of convolutions, on the device of its rig. Checks count where they are
 * compiled, so these are compiled into each test. */
#ifndef GPUR_SUPPORT_NETWORK_CHECKS_H
#define GPUR_SUPPORT_NETWORK_CHECKS_H

#include "support/learn_rig.h"
#include "test.h"

enum { CHECK_MOST_OUTPUTS = 64 * 32, CHECK_MOST_PARAMETERS = 1 << 16 };

static int outputs_of(const learn_rig *rig)
{
    return rig->network.width[rig->network.sheet_count - 1];
}

/* z before the head's bias, beside the reference, to `tolerance` (1 + |z|). */
static void check_forward(learn_rig *rig, double tolerance)
{
    static float z[CHECK_MOST_OUTPUTS];
    static ref_tape tape;
    const int width = outputs_of(rig);
    CHECK(rig->rows * width <= CHECK_MOST_OUTPUTS);
    CHECK_OK(rig_forward(rig, rig->rows, z));
    for (int64_t b = 0; b < rig->rows; b++) {
        ref_forward(rig->reference, 0, rig->x + b * rig->reference->features, &tape);
        for (int k = 0; k < width; k++) {
            const double bias = rig->host[rig->network.head_bias + k];
            CHECK_NEAR(z[b * width + k] + bias, tape.z[k], tolerance * (1 + fabs(tape.z[k])));
        }
    }
}

/* sum(dz * z) over the batch, by the reference; its weights may be changed. */
static double functional(learn_rig *rig, const float *dz)
{
    static ref_tape tape;
    const int width = outputs_of(rig);
    double sum = 0;
    for (int64_t b = 0; b < rig->rows; b++) {
        ref_forward(rig->reference, 0, rig->x + b * rig->reference->features, &tape);
        for (int k = 0; k < width; k++)
            sum += dz[b * width + k] * tape.z[k];
    }
    return sum;
}

static double slope_of(learn_rig *rig, double *w, const float *dz)
{
    const double h = 1e-6, before = *w;
    *w = before + h;
    const double up = functional(rig, dz);
    *w = before - h;
    const double down = functional(rig, dz);
    *w = before;
    return (up - down) / (2 * h);
}

/* A few weights of each tensor, moved both ways. No activation sits on a kink: the step is small, the numbers random.
 */
static void check_backward(learn_rig *rig)
{
    static float dz[CHECK_MOST_OUTPUTS], gradient[CHECK_MOST_PARAMETERS];
    rig_random(99, dz, CHECK_MOST_OUTPUTS);
    CHECK(rig->network.params.count <= CHECK_MOST_PARAMETERS);
    CHECK_OK(rig_forward(rig, rig->rows, gradient));
    CHECK_OK(rig_backward(rig, dz, gradient));
    for (int i = 0; i < rig->reference->tensors; i++) {
        ref_tensor *const t = &rig->reference->tensor[i];
        const gpur_tensor *ours = NULL;
        CHECK_OK(gpur_params_find(&rig->network.params, t->name, &ours));
        CHECK_EQUAL(gpur_tensor_count(ours), t->count);
        for (int n = 0; n < 7; n++) {
            const int j = (int)((int64_t)t->count * n / 7);
            const double want = slope_of(rig, &t->w[j], dz);
            CHECK_NEAR(gradient[ours->offset + gpur_tensor_place(ours, j)], want, 1e-5 * (1 + fabs(want)));
        }
    }
}

/* By patches all of it is ours; a product of a library is the same, as its shape is. */
static void check_grids(learn_rig *rig)
{
    static const gpur_grid grids[] = {{1, 32, 0}, {2, 64, 0}, {7, 96, 0}, {64, 256, 0}};
    static float z[2][CHECK_MOST_OUTPUTS], dz[CHECK_MOST_OUTPUTS], gradient[2][CHECK_MOST_PARAMETERS];
    const size_t bytes = (size_t)rig->network.params.count * sizeof(float);
    rig_random(98, dz, CHECK_MOST_OUTPUTS);
    CHECK(bytes <= sizeof gradient[0]);
    for (int i = 0; i < 4; i++) {
        gpur_device_force_grid(rig->device, grids[i]);
        const gpur_status forward = rig_forward(rig, rig->rows, z[i > 0]);
        const gpur_status backward = rig_backward(rig, dz, gradient[i > 0]);
        gpur_device_force_grid(rig->device, (gpur_grid){0, 0, 0});
        CHECK_OK(forward);
        CHECK_OK(backward);
        const size_t outputs = (size_t)(rig->rows * outputs_of(rig)) * sizeof(float);
        CHECK(i == 0 || memcmp(z[0], z[1], outputs) == 0);
        CHECK(i == 0 || memcmp(gradient[0], gradient[1], bytes) == 0);
    }
}

/* The published code took the dueling mean over the whole batch: a row's Q then depended on its batch mates. */
static void check_mates(learn_rig *rig)
{
    static float all[CHECK_MOST_OUTPUTS], few[CHECK_MOST_OUTPUTS];
    const int width = outputs_of(rig);
    CHECK_OK(rig_forward(rig, rig->rows, all));
    for (int64_t rows = 1; rows < rig->rows; rows += 3) {
        CHECK_OK(rig_forward(rig, rows, few));
        for (int64_t i = 0; i < rows * width; i++)
            CHECK_NEAR(few[i], all[i], 1e-5 * (1 + fabs((double)all[i])));
    }
}

#endif
