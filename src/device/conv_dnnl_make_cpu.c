/* SPDX-License-Identifier: MIT */
/*
 * Plans of convolutions by oneDNN 2. Images stay (N, H, W, C); weights go into the order that its code for this
 * processor wants, and gradients of weights back, by a reorder of each run. Work memory is the caller's.
 */
#include "device/conv_dnnl_cpu.h"

#include <string.h>

gpur_status gpur_dnnl_check(dnnl_status_t status, const char *call)
{
    if (status == dnnl_success)
        return GPUR_OK;
    const gpur_status ours = status == dnnl_unimplemented   ? GPUR_UNAVAILABLE
                             : status == dnnl_out_of_memory ? GPUR_OUT_OF_MEMORY
                                                            : GPUR_DEVICE_ERROR;
    return gpur_fail(ours, "%s: oneDNN status %d", call, (int)status);
}

/* The four arrays as oneDNN names them: its axes are N, C, H, W and F, C, K, K whatever the order in memory. */
typedef struct layouts {
    dnnl_memory_desc_t x, w, w_any, bias, y;
} layouts;

static gpur_status describe(const gpur_conv_shape *s, int64_t images, layouts *l)
{
    const dnnl_dims_t x = {images, s->channels, s->height, s->width};
    const dnnl_dims_t w = {s->filters, s->channels, s->kernel, s->kernel};
    const dnnl_dims_t y = {images, s->filters, gpur_conv_out(s->height, s->kernel, s->stride, s->padding),
                           gpur_conv_out(s->width, s->kernel, s->stride, s->padding)};
    const dnnl_dims_t bias = {s->filters};
    GPUR_TRY_DNNL(dnnl_memory_desc_init_by_tag(&l->x, 4, x, dnnl_f32, dnnl_nhwc));
    GPUR_TRY_DNNL(dnnl_memory_desc_init_by_tag(&l->w, 4, w, dnnl_f32, dnnl_ohwi));
    GPUR_TRY_DNNL(dnnl_memory_desc_init_by_tag(&l->w_any, 4, w, dnnl_f32, dnnl_format_tag_any));
    GPUR_TRY_DNNL(dnnl_memory_desc_init_by_tag(&l->bias, 1, bias, dnnl_f32, dnnl_a));
    return gpur_dnnl_check(dnnl_memory_desc_init_by_tag(&l->y, 4, y, dnnl_f32, dnnl_nhwc),
                           "dnnl_memory_desc_init_by_tag");
}

static gpur_status make_attributes(const gpur_conv_shape *s, dnnl_primitive_attr_t *attributes)
{
    dnnl_post_ops_t after = NULL;
    GPUR_TRY_DNNL(dnnl_primitive_attr_create(attributes));
    GPUR_TRY_DNNL(dnnl_primitive_attr_set_scratchpad_mode(*attributes, dnnl_scratchpad_mode_user));
    if (s->epilogue != GPUR_EPILOGUE_BIAS_RELU)
        return GPUR_OK;
    GPUR_TRY_DNNL(dnnl_post_ops_create(&after));
    gpur_status status =
        gpur_dnnl_check(dnnl_post_ops_append_eltwise(after, 1.0f, dnnl_eltwise_relu, 0.0f, 0.0f), "ReLU");
    if (status == GPUR_OK)
        status =
            gpur_dnnl_check(dnnl_primitive_attr_set_post_ops(*attributes, after), "dnnl_primitive_attr_set_post_ops");
    (void)dnnl_post_ops_destroy(after);
    return status;
}

static gpur_status describe_forward(const gpur_dnnl_conv *c, const layouts *l, dnnl_primitive_attr_t attributes,
                                    dnnl_primitive_desc_t *out)
{
    const gpur_conv_shape *const s = &c->base.shape;
    const dnnl_dims_t strides = {s->stride, s->stride}, padding = {s->padding, s->padding};
    const dnnl_memory_desc_t *const bias = s->epilogue == GPUR_EPILOGUE_NONE ? NULL : &l->bias;
    dnnl_convolution_desc_t d;
    GPUR_TRY_DNNL(dnnl_convolution_forward_desc_init(&d, dnnl_forward_training, dnnl_convolution_direct, &l->x,
                                                     &l->w_any, bias, &l->y, strides, padding, padding));
    return gpur_dnnl_check(dnnl_primitive_desc_create(out, &d, attributes, c->engine, NULL),
                           "dnnl_primitive_desc_create");
}

/* A gradient is described beside the forward pass it belongs to. */
static gpur_status describe_backward(const gpur_dnnl_conv *c, const layouts *l, dnnl_primitive_attr_t attributes,
                                     dnnl_primitive_desc_t *out)
{
    const gpur_conv_shape *const s = &c->base.shape;
    const dnnl_dims_t strides = {s->stride, s->stride}, padding = {s->padding, s->padding};
    dnnl_primitive_desc_t forward = NULL;
    dnnl_convolution_desc_t d;
    if (s->pass == GPUR_CONV_TO_INPUT)
        GPUR_TRY_DNNL(dnnl_convolution_backward_data_desc_init(&d, dnnl_convolution_direct, &l->x, &l->w_any, &l->y,
                                                               strides, padding, padding));
    else
        GPUR_TRY_DNNL(dnnl_convolution_backward_weights_desc_init(&d, dnnl_convolution_direct, &l->x, &l->w_any, NULL,
                                                                  &l->y, strides, padding, padding));
    GPUR_TRY(describe_forward(c, l, NULL, &forward));
    const gpur_status status = gpur_dnnl_check(dnnl_primitive_desc_create(out, &d, attributes, c->engine, forward),
                                               "dnnl_primitive_desc_create");
    (void)dnnl_primitive_desc_destroy(forward);
    return status;
}

/* Its reference code is many times slower than patches. */
static gpur_status refuse_slow(const_dnnl_primitive_desc_t pd)
{
    const char *name = "";
    GPUR_TRY_DNNL(dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, (void *)&name));
    return strncmp(name, "ref", 3) == 0 ? gpur_fail(GPUR_UNAVAILABLE, "oneDNN has only its reference code here")
                                        : GPUR_OK;
}

static gpur_status make_memory(const gpur_dnnl_conv *c, const dnnl_memory_desc_t *layout, dnnl_memory_t *memory)
{
    return gpur_dnnl_check(dnnl_memory_create(memory, layout, c->engine, DNNL_MEMORY_NONE), "dnnl_memory_create");
}

static gpur_status make_reorder(const gpur_dnnl_conv *c, const dnnl_memory_desc_t *from, const dnnl_memory_desc_t *to,
                                dnnl_primitive_t *reorder)
{
    dnnl_primitive_desc_t pd = NULL;
    GPUR_TRY_DNNL(dnnl_reorder_primitive_desc_create(&pd, from, c->engine, to, c->engine, NULL));
    const gpur_status status = gpur_dnnl_check(dnnl_primitive_create(reorder, pd), "dnnl_primitive_create");
    (void)dnnl_primitive_desc_destroy(pd);
    return status;
}

static const dnnl_memory_desc_t *layout_of(const_dnnl_primitive_desc_t pd, dnnl_query_t what)
{
    return dnnl_primitive_desc_query_md(pd, what, 0);
}

static int64_t most(int64_t x, int64_t y)
{
    return x > y ? x : y;
}

static gpur_status make_piece(const gpur_dnnl_conv *c, const layouts *l, const dnnl_memory_desc_t *w,
                              const dnnl_memory_desc_t *scratch, gpur_dnnl_piece *piece)
{
    GPUR_TRY_DNNL(dnnl_stream_create(&piece->stream, c->engine, dnnl_stream_default_flags));
    GPUR_TRY(make_memory(c, &l->x, &piece->x));
    GPUR_TRY(make_memory(c, &l->y, &piece->y));
    GPUR_TRY(make_memory(c, w, &piece->w));
    return make_memory(c, scratch, &piece->scratch);
}

static gpur_status make_pieces(gpur_dnnl_conv *c, const layouts *l, const dnnl_memory_desc_t *w,
                               const dnnl_memory_desc_t *scratch, gpur_dnnl_size *size)
{
    const int64_t count = size->images == c->piece ? gpur_dnnl_pieces(c, c->base.shape.images) : 1;
    const size_t bytes = (size_t)count * sizeof *size->pieces;
    size->pieces = (gpur_dnnl_piece *)gpur_host_alloc(c->base.device, bytes);
    if (!size->pieces)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for the pieces of a convolution, %zu bytes", bytes);
    size->piece_count = count;
    for (int64_t i = 0; i < count; i++)
        GPUR_TRY(make_piece(c, l, w, scratch, &size->pieces[i]));
    return GPUR_OK;
}

static int64_t whole_lines(int64_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

static gpur_status make_parts(gpur_dnnl_conv *c, const layouts *l, const_dnnl_primitive_desc_t pd, gpur_dnnl_size *size)
{
    const int to_weight = c->base.shape.pass == GPUR_CONV_TO_WEIGHT;
    const dnnl_memory_desc_t *const inside =
        layout_of(pd, to_weight ? dnnl_query_diff_weights_md : dnnl_query_weights_md);
    const dnnl_memory_desc_t *const scratch = layout_of(pd, dnnl_query_scratchpad_md);
    const int64_t bytes = (int64_t)dnnl_memory_desc_get_size(inside);
    const int as_wanted = dnnl_memory_desc_equal(inside, &l->w);
    GPUR_TRY(refuse_slow(pd));
    GPUR_TRY_DNNL(dnnl_primitive_create(&size->conv, pd));
    GPUR_TRY(make_pieces(c, l, inside, scratch, size));
    c->scratch_bytes = most(c->scratch_bytes, whole_lines((int64_t)dnnl_memory_desc_get_size(scratch)));
    c->w_floats = most(c->w_floats, bytes / (int64_t)sizeof(float));
    if (!as_wanted || (to_weight && size->piece_count > 1))
        c->w_bytes = most(c->w_bytes, whole_lines(bytes));
    if (as_wanted)
        return GPUR_OK;
    GPUR_TRY(make_memory(c, &l->w, &size->w_outside));
    GPUR_TRY(make_memory(c, inside, &size->w_inside));
    return to_weight ? make_reorder(c, inside, &l->w, &size->reorder) : make_reorder(c, &l->w, inside, &size->reorder);
}

static gpur_status make_size(gpur_dnnl_conv *c, int64_t images)
{
    layouts l;
    gpur_dnnl_size *const size = &c->sizes[c->count++];
    dnnl_primitive_attr_t attributes = NULL;
    dnnl_primitive_desc_t pd = NULL;
    size->images = images;
    GPUR_TRY(describe(&c->base.shape, images, &l));
    gpur_status status = make_attributes(&c->base.shape, &attributes);
    if (status == GPUR_OK)
        status = c->base.shape.pass == GPUR_CONV_FORWARD ? describe_forward(c, &l, attributes, &pd)
                                                         : describe_backward(c, &l, attributes, &pd);
    if (status == GPUR_OK)
        status = make_parts(c, &l, pd, size);
    if (pd)
        (void)dnnl_primitive_desc_destroy(pd);
    if (attributes)
        (void)dnnl_primitive_attr_destroy(attributes);
    return status;
}

/* A piece is worth a helper from some 20 us on, and there are so many a thread, so that a helper who comes late finds
 * some. */
enum { PIECE_OPERATIONS = 2000000, PIECES_A_THREAD = 4 };

static int64_t images_of_a_piece(const gpur_dnnl_conv *c)
{
    const gpur_conv_shape *const s = &c->base.shape;
    const double outputs = (double)gpur_conv_out(s->height, s->kernel, s->stride, s->padding) *
                           (double)gpur_conv_out(s->width, s->kernel, s->stride, s->padding) * (double)s->filters;
    const double operations = 2.0 * outputs * (double)(s->kernel * s->kernel * s->channels);
    const int64_t pieces = (int64_t)c->base.device->threads * PIECES_A_THREAD;
    const int64_t allowed = pieces < GPUR_DNNL_MOST_PIECES ? pieces : GPUR_DNNL_MOST_PIECES;
    const int64_t worth = operations < PIECE_OPERATIONS ? (int64_t)(PIECE_OPERATIONS / operations) : 1;
    int64_t images = most((s->images + allowed - 1) / allowed, worth);
    if (c->base.device->threads == 1 || images >= s->images)
        return s->images;
    while (s->pass != GPUR_CONV_FORWARD && s->images % images != 0)
        images++; /* ends with all of them */
    return images;
}

gpur_status gpur_dnnl_make(gpur_dnnl_conv *c)
{
    const gpur_conv_shape *const s = &c->base.shape;
    layouts l;
    GPUR_TRY_DNNL(dnnl_engine_create(&c->engine, dnnl_cpu, 0));
    GPUR_TRY_DNNL(dnnl_stream_create(&c->stream, c->engine, dnnl_stream_default_flags));
    GPUR_TRY(describe(s, 1, &l));
    GPUR_TRY(make_memory(c, &l.bias, &c->bias));
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

static void destroy_piece(gpur_dnnl_piece *piece)
{
    destroy_memory(piece->x);
    destroy_memory(piece->y);
    destroy_memory(piece->w);
    destroy_memory(piece->scratch);
    if (piece->stream)
        (void)dnnl_stream_destroy(piece->stream);
}

static void destroy_size(const gpur_dnnl_conv *c, gpur_dnnl_size *size)
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

void gpur_dnnl_unmake(gpur_dnnl_conv *c)
{
    for (int i = 0; i < c->count; i++)
        destroy_size(c, &c->sizes[i]);
    destroy_memory(c->bias);
    if (c->stream)
        (void)dnnl_stream_destroy(c->stream);
    if (c->engine)
        (void)dnnl_engine_destroy(c->engine);
}
