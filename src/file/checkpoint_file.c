/* SPDX-License-Identifier: MIT */
/* Saves and loads checkpoint files: options, metadata, and the copies between sections and chunks of the file. */
#include "file/checkpoint_file.h"

#include "base/numbers.h"
#include "base/sized.h"
#include "base/platform.h"
#include "base/thread.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

gpur_status gpur_checkpoint_options_init(gpur_checkpoint_options *options, uint64_t size)
{
    const gpur_checkpoint_options defaults = {.size = sizeof defaults};
    GPUR_REQUIRE(options, "gpur_checkpoint_options is NULL");
    memcpy(options, &size, sizeof size);
    return gpur_sized_write(options, &defaults, sizeof defaults, "gpur_checkpoint_options");
}

gpur_status gpur_checkpoint_check_call(const void *object, const char *kind, const char *path,
                                       const gpur_checkpoint_options *given, gpur_checkpoint_options *options)
{
    GPUR_REQUIRE(object && path, "%s is NULL", object ? "path" : kind);
    *options = (gpur_checkpoint_options){.size = sizeof *options};
    if (given)
        GPUR_TRY(gpur_sized_read(options, sizeof *options, given, "gpur_checkpoint_options"));
    return gpur_tensors_available();
}

gpur_status gpur_checkpoint_report_progress(const gpur_checkpoint_options *options, int64_t done, int64_t all)
{
    if (!options->progress || options->progress(options->progress_user, done, all) == 0)
        return GPUR_OK;
    return gpur_fail(GPUR_INTERRUPTED, "the progress function ended it");
}

gpur_status gpur_checkpoint_add_kind(gpur_tensors *tensors, const char *kind)
{
    GPUR_TRY(gpur_tensors_add_metadata(tensors, "gpureplay", "%s", gpur_version()));
    return gpur_tensors_add_metadata(tensors, "gpureplay.kind", "%s", kind);
}

/* Double-buffered pinned memory: one chunk is copied between host and device while the other is read from or written to
 * the file. */
typedef struct chunk_buffer {
    gpur_device *device;
    gpur_stream *stream;
    unsigned char *pinned; /* (2, GPUR_CHUNK) */
    gpur_event *copied[2]; /* the copies of this half are done */
} chunk_buffer;

static gpur_status chunks_open(chunk_buffer *chunks, gpur_device *device, gpur_stream *stream)
{
    void *pinned = NULL;
    *chunks = (chunk_buffer){.device = device, .stream = stream};
    GPUR_TRY(gpur_pinned_alloc(device, 2 * GPUR_CHUNK, "the buffer between memory and a file", &pinned));
    chunks->pinned = pinned;
    GPUR_TRY(gpur_event_create(device, &chunks->copied[0]));
    return gpur_event_create(device, &chunks->copied[1]);
}

/* Accepts a half-built one; waits for enqueued copies. */
static void chunks_close(chunk_buffer *chunks)
{
    if (chunks->stream)
        (void)gpur_stream_sync(chunks->stream);
    gpur_event_destroy(chunks->copied[0]);
    gpur_event_destroy(chunks->copied[1]);
    gpur_pinned_free(chunks->device, chunks->pinned);
}

/* Copies between `at`, which holds bytes [begin, end) of the data, and a piece, which holds bytes [first, first +
 * piece->bytes). */
static gpur_status copy_piece(chunk_buffer *chunks, unsigned char *at, int64_t begin, int64_t end,
                              const gpur_piece *piece, int64_t first, int to_sections)
{
    const int64_t low = begin > first ? begin : first;
    const int64_t high = end < first + piece->bytes ? end : first + piece->bytes;
    if (low >= high)
        return GPUR_OK;
    unsigned char *const ours = at + (low - begin), *const theirs = (unsigned char *)piece->memory + (low - first);
    void *const to = to_sections ? theirs : ours;
    const void *const from = to_sections ? ours : theirs;
    if (piece->on_device) /* non-temporal into a ring, which is not read again soon; the buffer of a save is */
        return (to_sections ? gpur_copy_nt : gpur_copy)(chunks->stream, to, from, high - low);
    memcpy(to, from, (size_t)(high - low));
    return GPUR_OK;
}

/* Enqueues the copies between one half of the buffer and bytes [begin, end) of the data, as far as sections cover
 * them. */
static gpur_status chunks_copy(chunk_buffer *chunks, int half, const gpur_sections *sections, int64_t begin,
                               int64_t end, int to_sections)
{
    unsigned char *const at = chunks->pinned + half * GPUR_CHUNK;
    for (int32_t i = 0; i < sections->count; i++) {
        const gpur_section *const section = &sections->list[i];
        int64_t first = section->entry.begin;
        if (section->entry.begin >= end || section->entry.end <= begin)
            continue;
        for (int p = 0; p < GPUR_MAX_PIECES; p++) {
            GPUR_TRY(copy_piece(chunks, at, begin, end, &section->pieces[p], first, to_sections));
            first += section->pieces[p].bytes;
        }
    }
    return gpur_event_record(chunks->copied[half], chunks->stream);
}

void gpur_sections_free(gpur_sections *sections)
{
    free(sections->list);
    *sections = (gpur_sections){0};
}

gpur_status gpur_sections_add_entry(gpur_sections *sections, const gpur_tensor_entry *entry, gpur_section **added)
{
    void *list = sections->list;
    const gpur_status status = gpur_list_grow(&list, sections->count, &sections->room, sizeof *sections->list);
    sections->list = list;
    GPUR_TRY(status);
    *added = &sections->list[sections->count++];
    **added = (gpur_section){.entry = *entry};
    return GPUR_OK;
}

gpur_status gpur_sections_add(gpur_sections *sections, const char *name, int32_t type, int64_t rows, int64_t columns,
                              gpur_piece piece)
{
    gpur_section *added = NULL;
    gpur_tensor_entry entry = {.type = type, .dims = columns ? 2 : 1, .shape = {rows, columns}};
    snprintf(entry.name, sizeof entry.name, "%s", name);
    GPUR_TRY(gpur_sections_add_entry(sections, &entry, &added));
    added->pieces[0] = piece;
    return GPUR_OK;
}

void gpur_sections_continue(gpur_sections *sections, gpur_piece piece)
{
    sections->list[sections->count - 1].pieces[1] = piece;
}

static const size_t sizes[] = {sizeof(int64_t), sizeof(uint64_t), sizeof(int32_t), sizeof(float), sizeof(double)};

static uint64_t bits_of(const gpur_scalar *scalar)
{
    uint64_t bits = 0;
    memcpy(&bits, scalar->value, sizes[scalar->type]); /* little-endian, like the file */
    return bits;
}

static gpur_status write_one(gpur_tensors *tensors, const gpur_scalar *scalar)
{
    const uint64_t bits = bits_of(scalar);
    if (scalar->type == GPUR_SCALAR_I64)
        return gpur_tensors_add_metadata(tensors, scalar->name, "%" PRId64, (int64_t)bits);
    if (scalar->type == GPUR_SCALAR_I32)
        return gpur_tensors_add_metadata(tensors, scalar->name, "%" PRId32, (int32_t)bits);
    return gpur_tensors_add_metadata(tensors, scalar->name, scalar->type == GPUR_SCALAR_U64 ? "%" PRIu64 : "0x%" PRIx64,
                                     bits);
}

gpur_status gpur_scalars_write(gpur_tensors *tensors, const gpur_scalar *scalars, int32_t count)
{
    gpur_status status = GPUR_OK;
    for (int32_t i = 0; i < count && status == GPUR_OK; i++)
        status = write_one(tensors, &scalars[i]);
    return status;
}

/* Signed and unsigned integers and the bits of floats are all parsed as integers. */
static gpur_status parse(const gpur_scalar *scalar, const char *text, uint64_t *bits)
{
    const int is_signed = scalar->type == GPUR_SCALAR_I64 || scalar->type == GPUR_SCALAR_I32;
    const int is_float = scalar->type == GPUR_SCALAR_F32 || scalar->type == GPUR_SCALAR_F64;
    const char *const digits = text ? text : "";
    char *end = NULL;
    errno = 0;
    *bits = is_signed ? (uint64_t)strtoll(digits, &end, 10) : strtoull(digits, &end, is_float ? 16 : 10);
    const int64_t value = (int64_t)*bits;
    const int fits = scalar->type == GPUR_SCALAR_I32   ? value >= INT32_MIN && value <= INT32_MAX
                     : scalar->type == GPUR_SCALAR_F32 ? *bits <= UINT32_MAX
                                                       : 1;
    if (errno || !fits || !*digits || *end || (!is_signed && *digits == '-'))
        return gpur_fail(GPUR_FILE_ERROR, "its note \"%s\" is \"%s\"; it must be a number", scalar->name, digits);
    return GPUR_OK;
}

/* Fills in all of them or none. GPUR_FILE_ERROR: one is missing, or is not a number of its type. */
gpur_status gpur_scalars_read(const gpur_tensors *tensors, const gpur_scalar *scalars, int32_t count)
{
    uint64_t bits[GPUR_MAX_SCALARS];
    assert(count <= GPUR_MAX_SCALARS);
    for (int32_t i = 0; i < count; i++)
        GPUR_TRY(parse(&scalars[i], gpur_tensors_find_metadata(tensors, scalars[i].name), &bits[i]));
    for (int32_t i = 0; i < count; i++)
        memcpy(scalars[i].value, &bits[i], sizes[scalars[i].type]);
    return GPUR_OK;
}

int64_t gpur_metadata_number(const gpur_tensors *tensors, const char *key, int64_t otherwise)
{
    int64_t value = otherwise;
    const gpur_scalar scalar = {key, GPUR_SCALAR_I64, &value};
    return gpur_tensors_find_metadata(tensors, key) && gpur_scalars_read(tensors, &scalar, 1) == GPUR_OK ? value
                                                                                                         : otherwise;
}

gpur_status gpur_settings_add_real(gpur_tensors *settings, const char *key, double value)
{
    char text[32];
    snprintf(text, sizeof text, "%.9g", value);
    for (char *c = text; *c; c++)
        if (!strchr("+-0123456789aefin", *c))
            *c = '.';
    return gpur_tensors_add_metadata(settings, key, "%s", text);
}

static gpur_status refuse_setting(const char *key, const char *theirs, const char *what, const char *ours)
{
    return gpur_fail(GPUR_INVALID_ARGUMENT, "%s is %s%s%s in the file; %s has %s%s%s", key, theirs ? "\"" : "",
                     theirs ? theirs : "nothing", theirs ? "\"" : "", what, ours ? "\"" : "", ours ? ours : "nothing",
                     ours ? "\"" : "");
}

static int are_equal(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

/* Whether the entry counts others, "field.0" or "layer.0" and so on. */
static int is_count(const gpur_metadata_entry *item)
{
    const size_t length = strlen(item->key);
    return strcmp(item->key, "fields") == 0 || (length >= 6 && strcmp(item->key + length - 6, "layers") == 0);
}

/* Refuses a file in which one of those that are counted is another, or there are fewer or more. */
static gpur_status compare_counted(const gpur_tensors *file, const gpur_tensors *expected,
                                   const gpur_metadata_entry *count, const char *what)
{
    char key[sizeof count->key + 16];
    const char *theirs = "", *ours = "";
    for (int32_t i = 0; theirs || ours; i++) {
        snprintf(key, sizeof key, "%.*s.%d", (int)strlen(count->key) - 1, count->key, (int)i);
        theirs = gpur_tensors_find_metadata(file, key), ours = gpur_tensors_find_metadata(expected, key);
        if (!are_equal(theirs, ours))
            return refuse_setting(key, theirs, what, ours);
    }
    return GPUR_OK;
}

/* Refuses a file in which one of `expected` has another value; `what` names the object, as in "this replay". */
static gpur_status compare_settings(const gpur_tensors *file, const gpur_tensors *expected, const char *what)
{
    for (int32_t i = 0; i < expected->metadata_count; i++) {
        const gpur_metadata_entry *const item = &expected->metadata[i];
        const char *const text = gpur_tensors_find_metadata(file, item->key);
        if (is_count(item))
            GPUR_TRY(compare_counted(file, expected, item, what));
        if (!are_equal(text, item->value))
            return refuse_setting(item->key, text, what, item->value);
    }
    return GPUR_OK;
}

/* gpur_checkpoint_get_info: what a file says about itself. */

static int64_t number_of(const gpur_tensors *tensors, const char *key)
{
    return gpur_metadata_number(tensors, key, -1);
}

/* The train steps that a file comes after. A learner's file has the number of those enqueued, and most also of those
 * done, which may be fewer. */
static int64_t steps_of(const gpur_tensors *tensors)
{
    const int64_t enqueued = number_of(tensors, GPUR_STEPS_ENQUEUED);
    const int64_t done = enqueued >= 0 ? number_of(tensors, "step") : -1;
    return done >= 0 ? done : enqueued >= 0 ? enqueued : number_of(tensors, GPUR_WEIGHTS_VERSION);
}

/* Each writer of a replay's file has a tensor of its episodes, one for each environment. */
static int64_t count_envs(const gpur_tensors *tensors)
{
    int64_t envs = 0, writer = 0;
    for (int32_t i = 0; i < tensors->count; i++) {
        int end = 0;
        const gpur_tensor_entry *const entry = &tensors->entries[i];
        if (sscanf(entry->name, "writer.%" SCNd64 ".episodes%n", &writer, &end) == 1 && end > 0)
            envs += entry->shape[0];
    }
    return envs;
}

static void describe(const gpur_checkpoint *file, gpur_checkpoint_info *info)
{
    const gpur_tensors *const tensors = &file->tensors;
    const char *const version = gpur_tensors_find_metadata(tensors, "gpureplay");
    const char *const kind = gpur_tensors_find_metadata(tensors, "gpureplay.kind");
    memset(info, 0, sizeof *info);
    snprintf(info->version, sizeof info->version, "%.15s", version ? version : "");
    snprintf(info->kind, sizeof info->kind, "%.15s", version && kind ? kind : "safetensors");
    const int is_replay = strcmp(info->kind, "replay") == 0;
    info->bytes = file->file.bytes;
    info->tensors = tensors->count;
    info->rows = is_replay ? number_of(tensors, "rows") : -1;
    info->capacity = is_replay ? number_of(tensors, "capacity") : -1;
    info->first_id = is_replay ? number_of(tensors, "first_id") : -1;
    info->writers = is_replay ? number_of(tensors, "writers") : -1;
    info->envs = is_replay ? gpur_metadata_number(tensors, "lanes", count_envs(tensors)) : -1;
    info->steps = version && !is_replay ? steps_of(tensors) : -1;
    info->weights = version && !is_replay ? number_of(tensors, "weights") : -1;
}

gpur_status gpur_checkpoint_get_info(const char *path, gpur_checkpoint_info *info)
{
    gpur_checkpoint file;
    gpur_checkpoint_info known;
    GPUR_REQUIRE(path, "path is NULL");
    GPUR_TRY(gpur_sized_check(info, "gpur_checkpoint_info"));
    GPUR_TRY(gpur_tensors_available());
    GPUR_TRY(gpur_checkpoint_open(&file, path));
    describe(&file, &known);
    gpur_checkpoint_close(&file);
    return gpur_sized_write(info, &known, sizeof known, "gpur_checkpoint_info");
}

/* Saving, chunk by chunk: one chunk is written while the next is copied from the device. */

typedef struct writing {
    gpur_atomic_file file;
    chunk_buffer chunks;
    const gpur_sections *sections;
    const gpur_checkpoint_options *options;
    unsigned char *head;
    uint64_t *checksums; /* (count + 2) */
    int64_t head_bytes, count;
    int64_t covered_at; /* bytes of the data before the first chunk, which are the checksums */
    int64_t data_bytes;
} writing;

static int width_of(const gpur_section *section)
{
    return gpur_tensor_types[section->entry.type].bytes;
}

/* Wide types first. An insertion sort, because it is stable. */
static void sort_by_width(gpur_sections *sections)
{
    for (int32_t i = 1; i < sections->count; i++) {
        const gpur_section moved = sections->list[i];
        int32_t position = i;
        for (; position > 0 && width_of(&sections->list[position - 1]) < width_of(&moved); position--)
            sections->list[position] = sections->list[position - 1];
        sections->list[position] = moved;
    }
}

/* Assigns offsets to all tensors and prints the head that lists them. */
static gpur_status assign_offsets(writing *w, gpur_sections *sections, gpur_tensors *tensors)
{
    int64_t covered = 0;
    for (int32_t i = 0; i < sections->count; i++)
        covered += gpur_tensor_bytes(&sections->list[i].entry);
    w->count = (covered + GPUR_CHUNK - 1) / GPUR_CHUNK;
    w->covered_at = (w->count + 2) * (int64_t)sizeof *w->checksums;
    w->data_bytes = w->covered_at + covered;
    const gpur_tensor_entry checksums = {"checksums", GPUR_I64, 1, {w->count + 2}, 0, w->covered_at};
    GPUR_TRY(gpur_tensors_add(tensors, &checksums));
    int64_t at = w->covered_at;
    for (int32_t i = 0; i < sections->count; i++) {
        gpur_tensor_entry *const entry = &sections->list[i].entry;
        entry->begin = at;
        entry->end = at += gpur_tensor_bytes(entry);
        GPUR_TRY(gpur_tensors_add(tensors, entry));
    }
    GPUR_TRY(gpur_tensors_print(tensors, &w->head, &w->head_bytes));
    w->checksums = calloc((size_t)w->count + 2, sizeof *w->checksums);
    return w->checksums ? GPUR_OK : gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for %" PRId64 " checksums", w->count);
}

static int64_t end_of(const writing *w, int64_t chunk)
{
    const int64_t end = w->covered_at + (chunk + 1) * GPUR_CHUNK;
    return end < w->data_bytes ? end : w->data_bytes;
}

/* Enqueues the copy of a chunk into its half of the buffer, whose previous chunk is already in the file. */
static gpur_status start_copy(writing *w, int64_t chunk)
{
    if (chunk >= w->count)
        return GPUR_OK;
    return chunks_copy(&w->chunks, (int)(chunk % 2), w->sections, w->covered_at + chunk * GPUR_CHUNK, end_of(w, chunk),
                       0);
}

static gpur_status write_chunk(writing *w, int64_t chunk)
{
    const int64_t begin = w->covered_at + chunk * GPUR_CHUNK, end = end_of(w, chunk);
    const unsigned char *const at = w->chunks.pinned + chunk % 2 * GPUR_CHUNK;
    GPUR_TRY(gpur_event_sync(w->chunks.copied[chunk % 2]));
    w->checksums[chunk] = gpur_checksum(at, end - begin);
    GPUR_TRY(gpur_atomic_file_write(&w->file, at, end - begin, w->head_bytes + begin));
    return gpur_checkpoint_report_progress(w->options, w->head_bytes + end, w->head_bytes + w->data_bytes);
}

static gpur_status write_all(writing *w)
{
    GPUR_TRY(start_copy(w, 0));
    for (int64_t chunk = 0; chunk < w->count; chunk++) {
        GPUR_TRY(start_copy(w, chunk + 1));
        GPUR_TRY(write_chunk(w, chunk));
    }
    w->checksums[w->count] = gpur_checksum(w->head, w->head_bytes);
    w->checksums[w->count + 1] = gpur_checksum(w->checksums, (w->count + 1) * (int64_t)sizeof *w->checksums);
    GPUR_TRY(gpur_atomic_file_write(&w->file, w->head, w->head_bytes, 0));
    GPUR_TRY(gpur_atomic_file_write(&w->file, w->checksums, w->covered_at, w->head_bytes));
    return gpur_atomic_file_commit(&w->file);
}

static gpur_status open_and_write(writing *w, gpur_device *device, gpur_stream *stream, gpur_sections *sections,
                                  gpur_tensors *tensors, const char *path)
{
    GPUR_TRY(assign_offsets(w, sections, tensors));
    GPUR_TRY(chunks_open(&w->chunks, device, stream));
    GPUR_TRY(gpur_atomic_file_begin(&w->file, path, w->head_bytes + w->data_bytes));
    return write_all(w);
}

gpur_status gpur_checkpoint_write(gpur_device *device, gpur_stream *stream, gpur_sections *sections,
                                  gpur_tensors *tensors, const char *path, const gpur_checkpoint_options *options)
{
    writing w = {.file = {.descriptor = -1, .folder = -1}, .sections = sections, .options = options};
    sort_by_width(sections);
    const gpur_status status = open_and_write(&w, device, stream, sections, tensors, path);
    gpur_atomic_file_discard(&w.file);
    chunks_close(&w.chunks);
    free(w.head);
    free(w.checksums);
    return status;
}

/* Opening a file: reads its header and checks that it is undamaged and matches the object that loads it. */

gpur_status gpur_checkpoint_add_path_to_error(const gpur_checkpoint *checkpoint, gpur_status status)
{
    return status == GPUR_OUT_OF_MEMORY ? status : gpur_prefix_error(status, "%s", checkpoint->file.path);
}

static gpur_status read_length(gpur_checkpoint *checkpoint, int64_t *length)
{
    unsigned char bytes[GPUR_HEAD_LENGTH];
    uint64_t value = 0;
    const int64_t room = checkpoint->file.bytes - GPUR_HEAD_LENGTH;
    if (room < 2)
        return gpur_fail(GPUR_FILE_ERROR, "it has %" PRId64 " bytes; it must be a safetensors file, of 10 or more",
                         checkpoint->file.bytes);
    GPUR_TRY(gpur_file_reader_read(&checkpoint->file, bytes, GPUR_HEAD_LENGTH, 0));
    for (int i = GPUR_HEAD_LENGTH - 1; i >= 0; i--)
        value = value << 8 | bytes[i];
    if (value < 2 || value > (uint64_t)room || value > GPUR_MAX_HEADER)
        return gpur_fail(GPUR_FILE_ERROR,
                         "it is no safetensors file, or damaged: its header should have %" PRIu64
                         " bytes; it must be 2 to %" PRId64,
                         value, room < GPUR_MAX_HEADER ? room : (int64_t)GPUR_MAX_HEADER);
    *length = (int64_t)value;
    return GPUR_OK;
}

static gpur_status parse_head(gpur_checkpoint *checkpoint, unsigned char *head)
{
    const int64_t bytes = checkpoint->data_at;
    GPUR_TRY(gpur_file_reader_read(&checkpoint->file, head, bytes, 0));
    checkpoint->head = gpur_checksum(head, bytes);
    GPUR_TRY(gpur_tensors_parse(&checkpoint->tensors, (const char *)head + GPUR_HEAD_LENGTH,
                                (size_t)(bytes - GPUR_HEAD_LENGTH)));
    return gpur_tensors_check(&checkpoint->tensors, checkpoint->data_bytes);
}

static gpur_status read_head(gpur_checkpoint *checkpoint)
{
    int64_t length = 0;
    GPUR_TRY(read_length(checkpoint, &length));
    checkpoint->data_at = GPUR_HEAD_LENGTH + length;
    checkpoint->data_bytes = checkpoint->file.bytes - checkpoint->data_at;
    unsigned char *const head = malloc((size_t)checkpoint->data_at);
    if (!head)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for a header of %" PRId64 " bytes", length);
    const gpur_status status = parse_head(checkpoint, head);
    free(head);
    return status;
}

gpur_status gpur_checkpoint_open(gpur_checkpoint *checkpoint, const char *path)
{
    *checkpoint = (gpur_checkpoint){.file = {.descriptor = -1}};
    GPUR_TRY(gpur_file_reader_open(&checkpoint->file, path));
    const gpur_status status = gpur_checkpoint_add_path_to_error(checkpoint, read_head(checkpoint));
    if (status != GPUR_OK)
        gpur_checkpoint_close(checkpoint);
    return status;
}

void gpur_checkpoint_close(gpur_checkpoint *checkpoint)
{
    gpur_file_reader_close(&checkpoint->file);
    gpur_tensors_free(&checkpoint->tensors);
    free(checkpoint->checksums);
    checkpoint->checksums = NULL;
}

int gpur_checkpoint_is_ours(const gpur_checkpoint *checkpoint)
{
    for (int32_t i = 0; i < checkpoint->tensors.metadata_count; i++)
        if (strncmp(checkpoint->tensors.metadata[i].key, "gpureplay", sizeof "gpureplay" - 1) == 0)
            return 1;
    return 0;
}

gpur_status gpur_checkpoint_check_kind(const gpur_checkpoint *checkpoint, const char *kind)
{
    const char *const theirs = gpur_tensors_find_metadata(&checkpoint->tensors, "gpureplay.kind");
    const int ours = gpur_checkpoint_is_ours(checkpoint);
    if (ours && theirs && strcmp(theirs, kind) == 0)
        return GPUR_OK;
    return gpur_fail(GPUR_FILE_ERROR, "%s: it is a %s file%s; it must be a %s file", checkpoint->file.path,
                     ours && theirs ? theirs : "safetensors", ours ? "" : " of another program", kind);
}

/* The checksums are the first tensor and cover all other data. The last one is the checksum of all others, so it
 * verifies them. */
static gpur_status read_checksums(gpur_checkpoint *checkpoint)
{
    const gpur_tensor_entry *const entry = gpur_tensors_find(&checkpoint->tensors, "checksums");
    if (!entry || entry->begin != 0 || entry->type != GPUR_I64 || entry->dims != 1 || entry->shape[0] < 2)
        return gpur_fail(GPUR_FILE_ERROR, "it has no checksums");
    checkpoint->covered_at = entry->end;
    checkpoint->chunks = entry->shape[0] - 2;
    const int64_t covered = checkpoint->data_bytes - checkpoint->covered_at;
    if (checkpoint->chunks != (covered + GPUR_CHUNK - 1) / GPUR_CHUNK)
        return gpur_fail(GPUR_FILE_ERROR, "it has checksums for %" PRId64 " MiB; its data are %" PRId64 " bytes",
                         checkpoint->chunks, covered);
    checkpoint->checksums = malloc((size_t)entry->end);
    if (!checkpoint->checksums)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for %" PRId64 " checksums", entry->shape[0]);
    GPUR_TRY(gpur_file_reader_read(&checkpoint->file, checkpoint->checksums, entry->end, checkpoint->data_at));
    const uint64_t *const last = checkpoint->checksums + checkpoint->chunks;
    if (last[1] != gpur_checksum(checkpoint->checksums, (checkpoint->chunks + 1) * (int64_t)sizeof *last))
        return gpur_fail(GPUR_FILE_ERROR, "its checksums are not what was written");
    return last[0] == checkpoint->head ? GPUR_OK : gpur_fail(GPUR_FILE_ERROR, "its header is not what was written");
}

gpur_status gpur_checkpoint_compare(gpur_checkpoint *checkpoint, const char *kind, const char *what,
                                    const gpur_tensors *settings, const gpur_scalar *scalars, int32_t count)
{
    GPUR_TRY(gpur_checkpoint_check_kind(checkpoint, kind));
    GPUR_TRY(gpur_checkpoint_add_path_to_error(checkpoint, read_checksums(checkpoint)));
    GPUR_TRY(compare_settings(&checkpoint->tensors, settings, what));
    return gpur_checkpoint_add_path_to_error(checkpoint, gpur_scalars_read(&checkpoint->tensors, scalars, count));
}

static int are_alike(const gpur_tensor_entry *a, const gpur_tensor_entry *b)
{
    return a->type == b->type && a->dims == b->dims &&
           memcmp(a->shape, b->shape, (size_t)a->dims * sizeof *a->shape) == 0;
}

gpur_status gpur_checkpoint_match(const gpur_checkpoint *checkpoint, gpur_sections *sections, const char *what,
                                  int32_t extra)
{
    for (int32_t i = 0; i < sections->count; i++) {
        gpur_tensor_entry *const ours = &sections->list[i].entry;
        const gpur_tensor_entry *const theirs = gpur_tensors_find(&checkpoint->tensors, ours->name);
        GPUR_REQUIRE(theirs, "%s has no tensor \"%s\"; %s has", checkpoint->file.path, ours->name, what);
        GPUR_REQUIRE(are_alike(ours, theirs),
                     "tensor \"%s\" is %s of %" PRId64 " x %" PRId64 " in %s; in %s it is %s of %" PRId64 " x %" PRId64,
                     ours->name, gpur_tensor_types[theirs->type].name, theirs->shape[0],
                     theirs->dims > 1 ? theirs->shape[1] : 1, checkpoint->file.path, what,
                     gpur_tensor_types[ours->type].name, ours->shape[0], ours->dims > 1 ? ours->shape[1] : 1);
        *ours = *theirs;
    }
    GPUR_REQUIRE(checkpoint->tensors.count == sections->count + extra, "%s has %d tensors; %s has %d of them",
                 checkpoint->file.path, (int)checkpoint->tensors.count - extra, what, (int)sections->count);
    return GPUR_OK;
}

/* `chunk` holds bytes [begin, end) of the data. */
static gpur_status check_expected(const gpur_checkpoint *checkpoint, const unsigned char *chunk, int64_t begin,
                                  int64_t end)
{
    for (int32_t i = 0; i < checkpoint->expected_count; i++) {
        const gpur_expectation *const e = &checkpoint->expected[i];
        const int64_t first = gpur_max(begin, e->entry.begin), last = gpur_min(end, e->entry.end);
        if (first < last)
            GPUR_TRY(e->check(e->context, chunk + (first - begin), first - e->entry.begin, last - e->entry.begin));
    }
    return GPUR_OK;
}

/* Reads a chunk, bytes [begin, end) of the data, and checks it. */
static gpur_status read_chunk(const gpur_checkpoint *checkpoint, int64_t chunk, unsigned char *to, int64_t *begin,
                              int64_t *end)
{
    *begin = checkpoint->covered_at + chunk * GPUR_CHUNK;
    *end = *begin + GPUR_CHUNK < checkpoint->data_bytes ? *begin + GPUR_CHUNK : checkpoint->data_bytes;
    GPUR_TRY(gpur_file_reader_read(&checkpoint->file, to, *end - *begin, checkpoint->data_at + *begin));
    if (gpur_checksum(to, *end - *begin) == checkpoint->checksums[chunk])
        return check_expected(checkpoint, to, *begin, *end);
    return gpur_fail(GPUR_FILE_ERROR, "its bytes %" PRId64 " to %" PRId64 " are not what was written",
                     checkpoint->data_at + *begin, checkpoint->data_at + *end - 1);
}

/* The first pass over a file. Chunks are verified independently, so several threads can share the work. */

enum { MAX_HELPERS = 3, CHUNKS_A_HELPER = 2 };

typedef struct verifying {
    const gpur_checkpoint *checkpoint;
    atomic_llong next;  /* first chunk that no thread has claimed */
    atomic_llong done;  /* chunks verified so far */
    atomic_llong wrong; /* a chunk that a helper failed to read or verify, or -1 */
} verifying;

typedef struct helper {
    verifying *all;
    unsigned char *buffer; /* (GPUR_CHUNK) */
    pthread_t thread;
} helper;

/* Claims the next chunk; -1 if there is none. */
static int64_t claim_chunk(verifying *v)
{
    const int64_t chunk = atomic_fetch_add(&v->next, 1);
    return chunk < v->checkpoint->chunks ? chunk : -1;
}

static void stop(verifying *v)
{
    atomic_store(&v->next, v->checkpoint->chunks);
}

static gpur_status check(verifying *v, int64_t chunk, unsigned char *buffer)
{
    int64_t begin, end;
    GPUR_TRY(read_chunk(v->checkpoint, chunk, buffer, &begin, &end));
    atomic_fetch_add(&v->done, 1);
    return GPUR_OK;
}

static void *help(void *context)
{
    const helper *const h = context;
    for (int64_t chunk = claim_chunk(h->all); chunk >= 0; chunk = claim_chunk(h->all))
        if (check(h->all, chunk, h->buffer) != GPUR_OK) {
            atomic_store(&h->all->wrong, chunk);
            stop(h->all);
        }
    return NULL;
}

/* Chunks are verified out of order; reports as if the verified ones were the first of the file. */
static gpur_status report_verified(const verifying *v, const gpur_checkpoint_options *options)
{
    const gpur_checkpoint *const c = v->checkpoint;
    const int64_t end = c->data_at + c->covered_at + atomic_load(&v->done) * GPUR_CHUNK;
    return gpur_checkpoint_report_progress(options, end < c->file.bytes ? end : c->file.bytes, 2 * c->file.bytes);
}

static gpur_status check_along(verifying *v, unsigned char *buffer, const gpur_checkpoint_options *options)
{
    for (int64_t chunk = claim_chunk(v); chunk >= 0; chunk = claim_chunk(v)) {
        GPUR_TRY(check(v, chunk, buffer));
        GPUR_TRY(report_verified(v, options));
    }
    return GPUR_OK;
}

static int32_t count_helpers(const gpur_checkpoint *checkpoint)
{
    const int64_t useful = checkpoint->chunks / CHUNKS_A_HELPER;
    const int32_t spare = gpur_usable_cores() - 1;
    const int32_t limit = spare < MAX_HELPERS ? spare : MAX_HELPERS;
    return useful < limit ? (int32_t)useful : limit;
}

/* Error texts are thread-local, so a helper's message is lost. This reads the helper's bad chunk again to obtain it. */
static gpur_status find_mismatch(verifying *v, unsigned char *buffer)
{
    const int64_t wrong = atomic_load(&v->wrong);
    if (wrong < 0)
        return GPUR_OK;
    GPUR_TRY(check(v, wrong, buffer));
    return gpur_fail(GPUR_FILE_ERROR, "it changes while it is read");
}

/* `buffer` is (1 + count, GPUR_CHUNK). A thread that cannot be started is left out. */
static gpur_status verify(verifying *v, unsigned char *buffer, int32_t count, const gpur_checkpoint_options *options)
{
    helper helpers[MAX_HELPERS];
    int32_t started = 0;
    for (; started < count; started++) {
        helper *const h = &helpers[started];
        *h = (helper){.all = v, .buffer = buffer + (1 + started) * (int64_t)GPUR_CHUNK};
        if (gpur_thread_start(&h->thread, help, h, "reading a file") != GPUR_OK)
            break;
    }
    const gpur_status status = check_along(v, buffer, options);
    stop(v);
    for (int32_t i = 0; i < started; i++)
        pthread_join(helpers[i].thread, NULL);
    return status == GPUR_OK ? find_mismatch(v, buffer) : status;
}

gpur_status gpur_checkpoint_verify(gpur_checkpoint *checkpoint, gpur_device *device,
                                   const gpur_checkpoint_options *options)
{
    verifying v = {.checkpoint = checkpoint, .wrong = -1};
    const int32_t count = count_helpers(checkpoint);
    const size_t bytes = (size_t)(1 + count) * GPUR_CHUNK;
    unsigned char *const buffer = gpur_host_alloc(device, bytes);
    if (!buffer)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for buffers of %zu bytes", bytes);
    const gpur_status status = verify(&v, buffer, count, options);
    gpur_host_free(device, buffer, bytes);
    checkpoint->verified = status == GPUR_OK;
    return gpur_checkpoint_add_path_to_error(checkpoint, status);
}

/* Loading, chunk by chunk: while one chunk is copied to the device, the next is read. */

/* Chunks begin at multiples of 4 bytes. The tensor must, too, or one of its values could straddle two chunks. */
gpur_status gpur_checkpoint_expect(gpur_checkpoint *checkpoint, const char *name, gpur_bytes_check bytes_check,
                                   const void *context)
{
    const gpur_tensor_entry *const entry = gpur_tensors_find(&checkpoint->tensors, name);
    if (!entry || checkpoint->expected_count == GPUR_MAX_EXPECTATIONS)
        return GPUR_OK;
    if (entry->begin < checkpoint->covered_at || (entry->begin - checkpoint->covered_at) % (int64_t)sizeof(float) != 0)
        return gpur_checkpoint_add_path_to_error(checkpoint,
                                                 gpur_fail(GPUR_FILE_ERROR,
                                                           "its %s begin at byte %" PRId64 " of its data; they must "
                                                           "follow the checksums, at a multiple of 4 bytes",
                                                           name, entry->begin));
    checkpoint->expected[checkpoint->expected_count++] = (gpur_expectation){*entry, bytes_check, context};
    return GPUR_OK;
}

static gpur_status peek_section(const gpur_checkpoint *checkpoint, const gpur_section *section)
{
    int64_t at = checkpoint->data_at + section->entry.begin;
    for (int p = 0; p < GPUR_MAX_PIECES; p++) {
        const gpur_piece *const piece = &section->pieces[p];
        if (!piece->on_device)
            GPUR_TRY(gpur_file_reader_read(&checkpoint->file, piece->memory, piece->bytes, at));
        at += piece->bytes;
    }
    return GPUR_OK;
}

gpur_status gpur_checkpoint_peek(const gpur_checkpoint *checkpoint, const gpur_sections *sections)
{
    gpur_status status = GPUR_OK;
    for (int32_t i = 0; i < sections->count && status == GPUR_OK; i++)
        status = peek_section(checkpoint, &sections->list[i]);
    return gpur_checkpoint_add_path_to_error(checkpoint, status);
}

/* After the first pass, loading overwrites memory and can no longer be canceled; the answer of the progress function is
 * ignored then. */
static gpur_status report_filled(const gpur_checkpoint *checkpoint, const gpur_checkpoint_options *options, int64_t end)
{
    const int64_t done = checkpoint->data_at + end, bytes = checkpoint->file.bytes;
    if (!checkpoint->verified)
        return gpur_checkpoint_report_progress(options, done, bytes);
    (void)gpur_checkpoint_report_progress(options, bytes + done, 2 * bytes);
    return GPUR_OK;
}

static gpur_status fill(const gpur_checkpoint *checkpoint, chunk_buffer *chunks, const gpur_sections *sections,
                        const gpur_checkpoint_options *options, int *touched)
{
    int64_t begin = 0, end = 0;
    for (int64_t chunk = 0; chunk < checkpoint->chunks; chunk++) {
        const int half = (int)(chunk % 2);
        GPUR_TRY(gpur_event_sync(chunks->copied[half]));
        GPUR_TRY(read_chunk(checkpoint, chunk, chunks->pinned + half * GPUR_CHUNK, &begin, &end));
        *touched = 1;
        GPUR_TRY(chunks_copy(chunks, half, sections, begin, end, 1));
        GPUR_TRY(report_filled(checkpoint, options, end));
    }
    return gpur_stream_sync(chunks->stream);
}

gpur_status gpur_checkpoint_fill(gpur_checkpoint *checkpoint, gpur_device *device, gpur_stream *stream,
                                 const gpur_sections *sections, const gpur_checkpoint_options *options, int *touched)
{
    chunk_buffer chunks;
    *touched = 0;
    gpur_status status = chunks_open(&chunks, device, stream);
    if (status == GPUR_OK)
        status = gpur_checkpoint_add_path_to_error(checkpoint, fill(checkpoint, &chunks, sections, options, touched));
    chunks_close(&chunks);
    return status;
}
