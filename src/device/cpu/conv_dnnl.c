/* SPDX-License-Identifier: MIT */
/* Convolutions on the CPU by oneDNN 2 or 3: first plans, then running them. */
#include "device/cpu/cpu.h"

#include "base/numbers.h"
#include "device/cpu/dnnl.h"
#include "device/cpu/openmp.h"
#include "gpureplay/math.h"

#include <string.h>

/*
 * A run is cut into pieces of consecutive images, which the device's threads convolve in parallel. For the forward pass
 * a plan has primitives for 1, 2, 4, ... images up to a whole piece, because acting may run it with fewer images than
 * it was made for, and one for the images that remain after the last whole piece of all N. Backward, all pieces are
 * equal. The number of pieces depends only on the shape and on the device's threads; with one thread there is one
 * piece.
 */
enum { MAX_SIZES = 32, MAX_PIECES = 256 };

/* Objects of one piece. Pieces run at the same time, so each has its own. */
typedef struct plan_piece {
    dnnl_stream_t stream;
    dnnl_memory_t x, y, w, scratch;
} plan_piece;

/* Objects for one number of images. */
typedef struct plan_size {
    int64_t images;
    dnnl_primitive_t conv, reorder;    /* reorder: NULL if the weights need none */
    dnnl_memory_t w_outside, w_inside; /* arguments of the reorder */
    plan_piece *pieces;                /* (piece_count) */
    int64_t piece_count;
} plan_size;

typedef struct dnnl_plan {
    gpur_conv base;
    atomic_int holders; /* the handle's, and one per run under way: the plan may be destroyed before a run ends */
    dnnl_engine_t engine;
    dnnl_stream_t stream; /* for the reorders */
    dnnl_memory_t bias;
    plan_size sizes[MAX_SIZES]; /* (count), smallest first */
    int count;
    int64_t piece;         /* images of a whole piece */
    int64_t w_floats;      /* weights in oneDNN's layout, maximum over the sizes */
    int64_t w_bytes;       /* bytes of a weight slot in the workspace; 0: no size needs one */
    int64_t scratch_bytes; /* bytes of a piece's scratchpad, maximum over the sizes */
} dnnl_plan;

/* Returns the number of pieces of a run of this many images: whole pieces, and one for the remainder. */
static int64_t pieces_of(const dnnl_plan *conv, int64_t images)
{
    return (images + conv->piece - 1) / conv->piece;
}

/*
 * Making plans. Images stay in (N, H, W, C). Every run reorders the weights into the layout that oneDNN's code for this
 * processor wants, and the weights' gradient back. The workspace is the caller's.
 */

/* An unimplemented case is GPUR_UNAVAILABLE, which lets the caller use im2col. */
static gpur_status check_call(dnnl_status_t status, const char *call)
{
    if (status == dnnl_success)
        return GPUR_OK;
    const gpur_status ours = status == dnnl_unimplemented   ? GPUR_UNAVAILABLE
                             : status == dnnl_out_of_memory ? GPUR_OUT_OF_MEMORY
                                                            : GPUR_DEVICE_ERROR;
    return gpur_fail(ours, "%s: oneDNN status %d", call, (int)status);
}
#define TRY_DNNL(call) GPUR_TRY(check_call(call, #call))

/* The arrays as oneDNN names them: its axes are N, C, H, W and F, C, K, K whatever the order in memory. W is the
 * caller's layout; W_ANY lets oneDNN choose. */
enum { X, Y, W, W_ANY, BIAS, LAYOUTS };
typedef struct layouts {
    dnnl_memory_desc_t of[LAYOUTS]; /* (count) are made */
    int count;
} layouts;

static const_dnnl_memory_desc_t layout(const layouts *l, int array)
{
    return gpur_dnnl_layout(&l->of[array]);
}

/* After a failure, too, call forget. */
static gpur_status describe(const gpur_conv_shape *s, int64_t images, layouts *l)
{
    const struct {
        dnnl_dims_t dims;
        int axes;
        dnnl_format_tag_t tag;
    } arrays[LAYOUTS] = {
        [X] = {{images, s->channels, s->height, s->width}, 4, dnnl_nhwc},
        [Y] = {{images, s->filters, gpur_conv_out_height(s), gpur_conv_out_width(s)}, 4, dnnl_nhwc},
        [W] = {{s->filters, s->channels, s->kernel, s->kernel}, 4, dnnl_ohwi},
        [W_ANY] = {{s->filters, s->channels, s->kernel, s->kernel}, 4, dnnl_format_tag_any},
        [BIAS] = {{s->filters}, 1, dnnl_a},
    };
    for (l->count = 0; l->count < LAYOUTS; l->count++)
        TRY_DNNL(dnnl_memory_desc_create_with_tag(&l->of[l->count], arrays[l->count].axes, arrays[l->count].dims,
                                                  dnnl_f32, arrays[l->count].tag));
    return GPUR_OK;
}

static void forget(layouts *l)
{
    while (l->count > 0)
        (void)dnnl_memory_desc_destroy(l->of[--l->count]);
}

static gpur_status make_attributes(const gpur_conv_shape *s, dnnl_primitive_attr_t *attributes)
{
    dnnl_post_ops_t after = NULL;
    TRY_DNNL(dnnl_primitive_attr_create(attributes));
    TRY_DNNL(dnnl_primitive_attr_set_scratchpad_mode(*attributes, dnnl_scratchpad_mode_user));
    if (s->epilogue != GPUR_EPILOGUE_BIAS_RELU)
        return GPUR_OK;
    TRY_DNNL(dnnl_post_ops_create(&after));
    gpur_status status = check_call(gpur_dnnl_append_relu(after), "ReLU");
    if (status == GPUR_OK)
        status = check_call(dnnl_primitive_attr_set_post_ops(*attributes, after), "dnnl_primitive_attr_set_post_ops");
    (void)dnnl_post_ops_destroy(after);
    return status;
}

static gpur_status describe_forward(const dnnl_plan *c, const layouts *l, dnnl_primitive_attr_t attributes,
                                    dnnl_primitive_desc_t *out)
{
    const gpur_conv_shape *const s = &c->base.shape;
    const dnnl_dims_t strides = {s->stride, s->stride}, before = {s->top, s->left}, after = {s->bottom, s->right};
    const dnnl_dims_t no_gaps = {0, 0};
    const const_dnnl_memory_desc_t bias = s->epilogue == GPUR_EPILOGUE_NONE ? NULL : layout(l, BIAS);
    return check_call(dnnl_convolution_forward_primitive_desc_create(
                          out, c->engine, dnnl_forward_training, dnnl_convolution_direct, layout(l, X),
                          layout(l, W_ANY), bias, layout(l, Y), strides, no_gaps, before, after, attributes),
                      "dnnl_convolution_forward_primitive_desc_create");
}

/* oneDNN requires the forward pass as a hint when a gradient is described. */
static gpur_status describe_backward(const dnnl_plan *c, const layouts *l, dnnl_primitive_attr_t attributes,
                                     dnnl_primitive_desc_t *out)
{
    const gpur_conv_shape *const s = &c->base.shape;
    const dnnl_dims_t strides = {s->stride, s->stride}, before = {s->top, s->left}, after = {s->bottom, s->right};
    const dnnl_dims_t no_gaps = {0, 0};
    const const_dnnl_memory_desc_t x = layout(l, X), w = layout(l, W_ANY), y = layout(l, Y);
    dnnl_primitive_desc_t forward = NULL;
    GPUR_TRY(describe_forward(c, l, NULL, &forward));
    const dnnl_status_t status =
        s->pass == GPUR_CONV_TO_INPUT
            ? dnnl_convolution_backward_data_primitive_desc_create(out, c->engine, dnnl_convolution_direct, x, w, y,
                                                                   strides, no_gaps, before, after, forward, attributes)
            : dnnl_convolution_backward_weights_primitive_desc_create(out, c->engine, dnnl_convolution_direct, x, w,
                                                                      NULL, y, strides, no_gaps, before, after, forward,
                                                                      attributes);
    (void)dnnl_primitive_desc_destroy(forward);
    return check_call(status, "a convolution's gradient");
}

/* oneDNN's reference code is many times slower than im2col. */
static gpur_status refuse_slow(const_dnnl_primitive_desc_t pd)
{
    const char *name = "";
    TRY_DNNL(dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, (void *)&name));
    return strncmp(name, "ref", 3) == 0 ? gpur_fail(GPUR_UNAVAILABLE, "oneDNN has only its reference code here")
                                        : GPUR_OK;
}

static gpur_status make_memory(const dnnl_plan *c, const_dnnl_memory_desc_t layout, dnnl_memory_t *memory)
{
    return check_call(dnnl_memory_create(memory, layout, c->engine, DNNL_MEMORY_NONE), "dnnl_memory_create");
}

static gpur_status make_reorder(const dnnl_plan *c, const_dnnl_memory_desc_t from, const_dnnl_memory_desc_t to,
                                dnnl_primitive_t *reorder)
{
    dnnl_primitive_desc_t pd = NULL;
    TRY_DNNL(dnnl_reorder_primitive_desc_create(&pd, from, c->engine, to, c->engine, NULL));
    const gpur_status status = check_call(dnnl_primitive_create(reorder, pd), "dnnl_primitive_create");
    (void)dnnl_primitive_desc_destroy(pd);
    return status;
}

static const_dnnl_memory_desc_t layout_of(const_dnnl_primitive_desc_t pd, dnnl_query_t what)
{
    return dnnl_primitive_desc_query_md(pd, what, 0);
}

static gpur_status make_piece(const dnnl_plan *c, const layouts *l, const_dnnl_memory_desc_t w,
                              const_dnnl_memory_desc_t scratch, plan_piece *piece)
{
    TRY_DNNL(dnnl_stream_create(&piece->stream, c->engine, dnnl_stream_default_flags));
    GPUR_TRY(make_memory(c, layout(l, X), &piece->x));
    GPUR_TRY(make_memory(c, layout(l, Y), &piece->y));
    GPUR_TRY(make_memory(c, w, &piece->w));
    return make_memory(c, scratch, &piece->scratch);
}

static gpur_status make_pieces(dnnl_plan *c, const layouts *l, const_dnnl_memory_desc_t w,
                               const_dnnl_memory_desc_t scratch, plan_size *size)
{
    const int64_t count = size->images == c->piece ? pieces_of(c, c->base.shape.images) : 1;
    const size_t bytes = (size_t)count * sizeof *size->pieces;
    size->pieces = (plan_piece *)gpur_host_alloc(c->base.device, bytes);
    if (!size->pieces)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for the pieces of a convolution, %zu bytes", bytes);
    size->piece_count = count;
    for (int64_t i = 0; i < count; i++)
        GPUR_TRY(make_piece(c, l, w, scratch, &size->pieces[i]));
    return GPUR_OK;
}

static gpur_status make_size_objects(dnnl_plan *c, const layouts *l, const_dnnl_primitive_desc_t pd, plan_size *size)
{
    const int to_weight = c->base.shape.pass == GPUR_CONV_TO_WEIGHT;
    const const_dnnl_memory_desc_t inside =
        layout_of(pd, to_weight ? dnnl_query_diff_weights_md : dnnl_query_weights_md);
    const const_dnnl_memory_desc_t scratch = layout_of(pd, dnnl_query_scratchpad_md);
    const int64_t bytes = (int64_t)dnnl_memory_desc_get_size(inside);
    const int is_same_layout = dnnl_memory_desc_equal(inside, layout(l, W));
    GPUR_TRY(refuse_slow(pd));
    TRY_DNNL(dnnl_primitive_create(&size->conv, pd));
    GPUR_TRY(make_pieces(c, l, inside, scratch, size));
    c->scratch_bytes = gpur_max(c->scratch_bytes, gpur_round_up((int64_t)dnnl_memory_desc_get_size(scratch), 256));
    c->w_floats = gpur_max(c->w_floats, bytes / (int64_t)sizeof(float));
    if (!is_same_layout || (to_weight && size->piece_count > 1))
        c->w_bytes = gpur_max(c->w_bytes, gpur_round_up(bytes, 256));
    if (is_same_layout)
        return GPUR_OK;
    GPUR_TRY(make_memory(c, layout(l, W), &size->w_outside));
    GPUR_TRY(make_memory(c, inside, &size->w_inside));
    return to_weight ? make_reorder(c, inside, layout(l, W), &size->reorder)
                     : make_reorder(c, layout(l, W), inside, &size->reorder);
}

static gpur_status make_size(dnnl_plan *c, int64_t images)
{
    plan_size *const size = &c->sizes[c->count++];
    dnnl_primitive_attr_t attributes = NULL;
    dnnl_primitive_desc_t pd = NULL;
    layouts l;
    size->images = images;
    gpur_status status = describe(&c->base.shape, images, &l);
    if (status == GPUR_OK)
        status = make_attributes(&c->base.shape, &attributes);
    if (status == GPUR_OK)
        status = c->base.shape.pass == GPUR_CONV_FORWARD ? describe_forward(c, &l, attributes, &pd)
                                                         : describe_backward(c, &l, attributes, &pd);
    if (status == GPUR_OK)
        status = make_size_objects(c, &l, pd, size);
    if (pd)
        (void)dnnl_primitive_desc_destroy(pd);
    if (attributes)
        (void)dnnl_primitive_attr_destroy(attributes);
    forget(&l);
    return status;
}

/* A piece is worth a helper if it takes at least about 20 us. There are several pieces per thread, so that a helper
 * that starts late still finds some. */
enum { PIECE_OPERATIONS = 2000000, PIECES_A_THREAD = 4 };

static int64_t images_of_a_piece(const dnnl_plan *c)
{
    const gpur_conv_shape *const s = &c->base.shape;
    const double outputs = (double)gpur_conv_out_height(s) * (double)gpur_conv_out_width(s) * (double)s->filters;
    const double operations = 2.0 * outputs * (double)(s->kernel * s->kernel * s->channels);
    const int64_t pieces = (int64_t)c->base.device->threads * PIECES_A_THREAD;
    const int64_t allowed = pieces < MAX_PIECES ? pieces : MAX_PIECES;
    const int64_t worth = operations < PIECE_OPERATIONS ? (int64_t)(PIECE_OPERATIONS / operations) : 1;
    int64_t images = gpur_max((s->images + allowed - 1) / allowed, worth);
    if (c->base.device->threads == 1 || images >= s->images)
        return s->images;
    while (s->pass != GPUR_CONV_FORWARD && s->images % images != 0)
        images++; /* ends at s->images at the latest */
    return images;
}

/* Requires OpenMP's thread count to be 1. After a failure call destroy_plan. */
static gpur_status build_plan(dnnl_plan *c)
{
    const gpur_conv_shape *const s = &c->base.shape;
    layouts l;
    TRY_DNNL(dnnl_engine_create(&c->engine, dnnl_cpu, 0));
    TRY_DNNL(dnnl_stream_create(&c->stream, c->engine, dnnl_stream_default_flags));
    gpur_status status = describe(s, 1, &l);
    if (status == GPUR_OK)
        status = make_memory(c, layout(&l, BIAS), &c->bias);
    forget(&l);
    GPUR_TRY(status);
    c->piece = images_of_a_piece(c);
    const int64_t left = s->images % c->piece;
    for (int64_t images = 1; s->pass == GPUR_CONV_FORWARD && images < c->piece; images *= 2) {
        if (left > images / 2 && left < images)
            GPUR_TRY(make_size(c, left));
        GPUR_TRY(make_size(c, images));
    }
    if (left > 0 && c->sizes[c->count - 1].images < left)
        GPUR_TRY(make_size(c, left));
    return make_size(c, c->piece);
}

static void destroy_memory(dnnl_memory_t memory)
{
    if (memory)
        (void)dnnl_memory_destroy(memory);
}

static void destroy_piece(plan_piece *piece)
{
    destroy_memory(piece->x);
    destroy_memory(piece->y);
    destroy_memory(piece->w);
    destroy_memory(piece->scratch);
    if (piece->stream)
        (void)dnnl_stream_destroy(piece->stream);
}

static void destroy_size(const dnnl_plan *c, plan_size *size)
{
    for (int64_t i = 0; i < size->piece_count; i++)
        destroy_piece(&size->pieces[i]);
    gpur_host_free(c->base.device, size->pieces, (size_t)size->piece_count * sizeof *size->pieces);
    destroy_memory(size->w_outside);
    destroy_memory(size->w_inside);
    if (size->conv)
        (void)dnnl_primitive_destroy(size->conv);
    if (size->reorder)
        (void)dnnl_primitive_destroy(size->reorder);
}

static void destroy_plan(dnnl_plan *c)
{
    for (int i = 0; i < c->count; i++)
        destroy_size(c, &c->sizes[i]);
    destroy_memory(c->bias);
    if (c->stream)
        (void)dnnl_stream_destroy(c->stream);
    if (c->engine)
        (void)dnnl_engine_destroy(c->engine);
}

/* Running plans. oneDNN runs on the thread that calls it; pieces of the images run on the device's threads. */

typedef struct conv_op {
    dnnl_plan *conv;
    int64_t images;
    gpur_conv_arrays arrays;
    void *workspace;
} conv_op;
_Static_assert(sizeof(conv_op) <= GPUR_CPU_PAYLOAD, "a convolution must fit the payload of an operation");

static void drop_reference(dnnl_plan *c)
{
    if (atomic_fetch_sub(&c->holders, 1) > 1)
        return;
    destroy_plan(c);
    gpur_host_free(c->base.device, c, sizeof *c);
}

/* oneDNN generates code for the number of threads that OpenMP has when the plan is made, so it must be 1 then, too. */
static gpur_status make_for_one_thread(dnnl_plan *c)
{
    const int before = gpur_omp_set_one_thread();
    const gpur_status status = build_plan(c);
    gpur_omp_restore_threads(before);
    return status;
}

gpur_status gpur_cpu_conv_create(gpur_device *device, const gpur_conv_shape *shape, gpur_conv **out)
{
    if (shape->math == GPUR_MATH_BF16)
        return gpur_fail(GPUR_UNAVAILABLE, "the CPU's library convolves float32, not bfloat16");
    dnnl_plan *const c = (dnnl_plan *)gpur_host_alloc(device, sizeof *c);
    if (!c)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for a convolution's plan of %zu bytes", sizeof *c);
    c->base.device = device;
    c->base.shape = *shape;
    atomic_store(&c->holders, 1);
    const gpur_status status = make_for_one_thread(c);
    if (status != GPUR_OK) {
        drop_reference(c);
        return status;
    }
    *out = &c->base;
    return GPUR_OK;
}

void gpur_cpu_conv_destroy(gpur_conv *conv)
{
    drop_reference((dnnl_plan *)conv);
}

/* The workspace: weight slots, then a scratchpad for each piece. Forward and to the input, whole pieces use the first
 * slot and the remainder the second; to the weights, each piece has a slot for its share of the gradient. */
static int64_t weight_slots(const dnnl_plan *c)
{
    const int64_t pieces = pieces_of(c, c->base.shape.images);
    return c->base.shape.pass == GPUR_CONV_TO_WEIGHT ? pieces : 2;
}

int64_t gpur_cpu_conv_workspace_bytes(const gpur_conv *conv)
{
    const dnnl_plan *const c = (const dnnl_plan *)conv;
    return weight_slots(c) * c->w_bytes + pieces_of(c, c->base.shape.images) * c->scratch_bytes;
}

/* One run, which its pieces share. */
typedef struct conv_run {
    const dnnl_plan *conv;
    const conv_op *op;
    const plan_size *whole, *last; /* for whole pieces; for the last piece */
    int64_t pieces;
    _Atomic dnnl_status_t failure; /* dnnl_success: none */
} conv_run;

static float *weight_slot(const conv_run *r, int64_t slot)
{
    return (float *)((char *)r->op->workspace + slot * r->conv->w_bytes);
}

/* Returns the address of a piece's weights in oneDNN's layout. */
static float *w_of(const conv_run *r, const plan_size *size, int64_t piece)
{
    if (r->conv->base.shape.pass == GPUR_CONV_TO_WEIGHT)
        return size->reorder || r->pieces > 1 ? weight_slot(r, piece) : r->op->arrays.w;
    return size->reorder ? weight_slot(r, size != r->whole) : r->op->arrays.w;
}

static int64_t floats_x(const gpur_conv_shape *s)
{
    return s->height * s->width * s->channels;
}

static int64_t floats_y(const gpur_conv_shape *s)
{
    return gpur_conv_out_height(s) * gpur_conv_out_width(s) * s->filters;
}

static dnnl_status_t set_addresses(const conv_run *r, const plan_size *size, const plan_piece *own, int64_t piece)
{
    const dnnl_plan *const c = r->conv;
    const int64_t images = piece * c->piece;
    char *const scratch = (char *)r->op->workspace + weight_slots(c) * c->w_bytes + piece * c->scratch_bytes;
    const struct {
        dnnl_memory_t memory;
        void *at;
    } handles[] = {{own->x, (float *)r->op->arrays.x + images * floats_x(&c->base.shape)},
                   {own->y, (float *)r->op->arrays.y + images * floats_y(&c->base.shape)},
                   {own->w, w_of(r, size, piece)},
                   {own->scratch, scratch}};
    for (size_t i = 0; i < sizeof handles / sizeof *handles; i++) {
        const dnnl_status_t status = dnnl_memory_set_data_handle(handles[i].memory, handles[i].at);
        if (status != dnnl_success)
            return status;
    }
    return dnnl_success;
}

static dnnl_status_t convolve(const conv_run *r, int64_t piece)
{
    const gpur_conv_shape *const s = &r->conv->base.shape;
    const plan_size *const size = piece == r->pieces - 1 ? r->last : r->whole;
    const plan_piece *const own = &size->pieces[size == r->whole ? piece : 0];
    const dnnl_exec_arg_t arguments[] = {
        {s->pass == GPUR_CONV_TO_INPUT ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, own->x},
        {s->pass == GPUR_CONV_TO_WEIGHT ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS, own->w},
        {s->pass == GPUR_CONV_FORWARD ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, own->y},
        {DNNL_ARG_SCRATCHPAD, own->scratch},
        {DNNL_ARG_BIAS, r->conv->bias}, /* last, because it is absent without an epilogue */
    };
    const dnnl_status_t status = set_addresses(r, size, own, piece);
    return status == dnnl_success
               ? dnnl_primitive_execute(size->conv, own->stream, s->epilogue == GPUR_EPILOGUE_NONE ? 4 : 5, arguments)
               : status;
}

static void run_piece(int64_t piece, int64_t pieces, const void *args)
{
    conv_run *const r = *(conv_run *const *)args;
    (void)pieces;
    sigset_t signals;
    const int before = gpur_omp_set_one_thread();
    gpur_dnnl_hold_signals(&signals);
    const dnnl_status_t status = convolve(r, piece);
    gpur_dnnl_release_signals(&signals);
    gpur_omp_restore_threads(before);
    if (status != dnnl_success)
        atomic_store(&r->failure, status);
}

static dnnl_status_t reorder(const conv_run *r, const plan_size *size, int64_t piece)
{
    const int to_weight = r->conv->base.shape.pass == GPUR_CONV_TO_WEIGHT;
    const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_FROM, to_weight ? size->w_inside : size->w_outside},
                                         {DNNL_ARG_TO, to_weight ? size->w_outside : size->w_inside}};
    if (!size->reorder)
        return dnnl_success;
    dnnl_status_t status = dnnl_memory_set_data_handle(size->w_outside, r->op->arrays.w);
    if (status == dnnl_success)
        status = dnnl_memory_set_data_handle(size->w_inside, w_of(r, size, piece));
    return status == dnnl_success ? dnnl_primitive_execute(size->reorder, r->conv->stream, 2, arguments) : status;
}

typedef struct w_sum {
    float *to;          /* may be `parts`, the first of them */
    const float *parts; /* (count, pitch) */
    int64_t count, floats, pitch;
} w_sum;

/* Adds the gradients in the order of their pieces, whichever thread adds, so that the sums are bitwise repeatable. */
static void add_pieces(int64_t block, int64_t blocks, const void *args)
{
    const w_sum *const s = (const w_sum *)args;
    const int64_t first = s->floats * block / blocks, last = s->floats * (block + 1) / blocks;
    if (s->to != s->parts)
        memcpy(s->to + first, s->parts + first, (size_t)(last - first) * sizeof *s->to);
    for (int64_t part = 1; part < s->count; part++)
        for (int64_t i = first; i < last; i++)
            s->to[i] += s->parts[part * s->pitch + i];
}

/* Sums the pieces' shares of the weights' gradient: into the first slot if a reorder follows, else into the caller's
 * array. */
static void sum_pieces(const conv_run *r)
{
    enum { FLOATS_A_BLOCK = 16384 };
    const w_sum sum = {.to = r->whole->reorder ? weight_slot(r, 0) : r->op->arrays.w,
                       .parts = weight_slot(r, 0),
                       .count = r->pieces,
                       .floats = r->conv->w_floats,
                       .pitch = r->conv->w_bytes / (int64_t)sizeof(float)};
    const int64_t blocks = sum.count * sum.floats / FLOATS_A_BLOCK, threads = r->conv->base.device->threads;
    const int64_t shared = blocks < threads ? blocks : threads;
    gpur_cpu_run_pieces(r->conv->base.device, shared > 1 ? shared : 1, GPUR_IN_MEMORY, add_pieces, &sum);
}

static dnnl_status_t run(conv_run *r)
{
    conv_run *const args = r;
    const int to_weight = r->conv->base.shape.pass == GPUR_CONV_TO_WEIGHT;
    dnnl_status_t status = dnnl_success;
    if (!to_weight && (r->pieces > 1 || r->whole == r->last))
        status = reorder(r, r->whole, 0);
    if (status == dnnl_success && !to_weight && r->last != r->whole)
        status = reorder(r, r->last, r->pieces - 1);
    if (status != dnnl_success)
        return status;
    gpur_cpu_run_pieces(r->conv->base.device, r->pieces, GPUR_IN_MEMORY, run_piece, &args);
    if (atomic_load(&r->failure) != dnnl_success || !to_weight)
        return atomic_load(&r->failure);
    if (r->pieces > 1)
        sum_pieces(r);
    return reorder(r, r->whole, 0);
}

static const plan_size *size_for(const dnnl_plan *c, int64_t images)
{
    const plan_size *size = c->sizes;
    while (size->images < images)
        size++;
    return size;
}

static gpur_status run_for_one_thread(gpur_stream *stream, void *payload)
{
    const conv_op *const op = (const conv_op *)payload;
    const dnnl_plan *const c = op->conv;
    const int64_t left = op->images % c->piece;
    (void)stream;
    conv_run r = {.conv = c, .op = op, .pieces = pieces_of(c, op->images), .failure = dnnl_success};
    r.whole = &c->sizes[c->count - 1];
    r.last = left > 0 ? size_for(c, left) : r.whole;
    dnnl_status_t status = dnnl_memory_set_data_handle(c->bias, (void *)(uintptr_t)op->arrays.bias);
    const int before = gpur_omp_set_one_thread();
    if (status == dnnl_success)
        status = run(&r);
    gpur_omp_restore_threads(before);
    drop_reference(op->conv);
    /* Enqueued work cannot be refused any more: any failure now is a failure of the device. */
    return status == dnnl_success ? GPUR_OK
                                  : gpur_fail(GPUR_DEVICE_ERROR, "oneDNN could not run a convolution%s: status %d",
                                              status == dnnl_out_of_memory ? " for want of memory" : "", (int)status);
}

gpur_status gpur_cpu_conv_run(gpur_conv *conv, gpur_stream *stream, int64_t images, const gpur_conv_arrays *arrays,
                              void *workspace)
{
    conv_op *const op = (conv_op *)gpur_cpu_begin(stream);
    op->conv = (dnnl_plan *)conv, op->images = images, op->arrays = *arrays, op->workspace = workspace;
    atomic_fetch_add(&op->conv->holders, 1);
    return gpur_cpu_end(stream, run_for_one_thread);
}

const char *gpur_cpu_conv_library(gpur_device *device)
{
    (void)device;
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
    return "oneDNN " TEXT(DNNL_VERSION_MAJOR) "." TEXT(DNNL_VERSION_MINOR) "." TEXT(DNNL_VERSION_PATCH);
}
