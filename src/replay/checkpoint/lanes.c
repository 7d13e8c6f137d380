/* SPDX-License-Identifier: MIT */
#include "replay/checkpoint/lanes.h"

#include "base/numbers.h"
#include "replay/checkpoint/priorities.h"
#include "replay/checkpoint/settings.h"
#include "replay/sampler/consumer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Counters of a file, all 0 or more. The members are named as there. */
typedef struct lane_counts {
    int64_t rows;     /* that can be drawn */
    int64_t first_id; /* of the oldest step that is kept */
    int64_t steps, draws, finals, without_final, lost_finals;
    int64_t kept_finals;   /* final observations of the steps that are kept */
    int64_t broken_stacks; /* where observations are stacks; the last one, which other files do not have */
} lane_counts;

enum { COUNTERS = sizeof(lane_counts) / sizeof(int64_t) };

/* What a replay keeps of its steps, or of those of a file. */
typedef struct kept_lanes {
    int64_t first, steps;        /* the first step; how many */
    int64_t first_final, finals; /* the number of the first final observation; how many */
} kept_lanes;

/* Arrays of a file in host memory, of all of its steps: they are checked before anything changes. */
typedef struct host_lanes {
    unsigned char *memory;
    int64_t bytes;
    unsigned char *flags;  /* (steps, lanes) */
    unsigned char *stacks; /* (steps, lanes) NULL: no observation is a stack */
    float *priority;       /* (steps, lanes) NULL: the replay has no priorities */
    int64_t *owner;        /* (finals) */
    uint32_t *final;       /* (steps, lanes) where the final observations go; not in the file */
} host_lanes;

typedef struct lanes_file {
    gpur_replay *replay;
    gpur_stream *stream;
    lane_counts counts;
    gpur_priority_copy priorities;
    host_lanes host; /* of a load; zeros: of a save */
    gpur_sections sections;
} lanes_file;

/* How many members of lane_counts the file has. */
static int32_t counters_of(const gpur_replay *replay)
{
    return replay->config.frame_stack > 1 ? COUNTERS : COUNTERS - 1;
}

static int32_t list_scalars(lanes_file *f, gpur_scalar *scalars)
{
    lane_counts *const c = &f->counts;
    const int32_t count = counters_of(f->replay);
    const gpur_scalar all[] = {
        {"rows", GPUR_SCALAR_I64, &c->rows},
        {"first_id", GPUR_SCALAR_I64, &c->first_id},
        {"steps", GPUR_SCALAR_I64, &c->steps},
        {"draws", GPUR_SCALAR_I64, &c->draws},
        {"finals", GPUR_SCALAR_I64, &c->finals},
        {"without_final", GPUR_SCALAR_I64, &c->without_final},
        {"lost_finals", GPUR_SCALAR_I64, &c->lost_finals},
        {"kept_finals", GPUR_SCALAR_I64, &c->kept_finals},
        {"broken_stacks", GPUR_SCALAR_I64, &c->broken_stacks},
    };
    _Static_assert(sizeof all / sizeof *all == COUNTERS, "one entry for each member");
    _Static_assert((int)COUNTERS + GPUR_PRIORITY_SCALARS <= GPUR_MAX_SCALARS, "room for them");
    memcpy(scalars, all, sizeof all);
    gpur_priority_copy_list(&f->priorities, scalars + count);
    return count + GPUR_PRIORITY_SCALARS;
}

/* Settings that must match. n_step and gamma need not, since they are applied when a batch is drawn. */
static gpur_status add_settings(const gpur_replay *replay, gpur_tensors *settings)
{
    static const char *const modes[] = {"disabled", "next_step", "same_step"};
    const gpur_replay_config *const config = &replay->config;
    GPUR_TRY(gpur_replay_settings_add(replay, settings));
    GPUR_TRY(gpur_tensors_add_metadata(settings, "lanes", "%" PRId64, config->lanes));
    if (config->frame_stack > 1) {
        GPUR_TRY(gpur_tensors_add_metadata(settings, "frame_stack", "%d", (int)config->frame_stack));
        GPUR_TRY(gpur_tensors_add_metadata(settings, "stack_axis", "%s",
                                           config->stack_axis == GPUR_STACK_LAST ? "last" : "first"));
    }
    return gpur_tensors_add_metadata(settings, "lane_autoreset", "%s", modes[config->lane_autoreset]);
}

/* The sections: arrays of steps and of final observations. */

static gpur_lane_rings *rings_of(const lanes_file *f)
{
    return &f->replay->lanes.lanes;
}

static kept_lanes all_of(const lanes_file *f)
{
    const int64_t first = f->counts.first_id / rings_of(f)->lanes;
    return (kept_lanes){first, f->counts.steps - first, f->counts.finals - f->counts.kept_finals,
                        f->counts.kept_finals};
}

/* An array of a file, and the ring that has its newest items: `count`, from number `first` on. */
typedef struct lane_array {
    gpur_tensor_entry entry;
    void *ring;
    int64_t item_bytes, slots;
    int64_t first, count;
} lane_array;

/* Of the rings of steps: (steps, lanes) values of `bytes` bytes. */
static lane_array array_of_steps(const lanes_file *f, const kept_lanes *kept, int32_t type, int64_t bytes, void *ring)
{
    const gpur_lane_rings *const l = rings_of(f);
    return (lane_array){.entry = {.type = type, .dims = 2, .shape = {all_of(f).steps, l->lanes}},
                        .ring = ring,
                        .item_bytes = l->lanes * bytes,
                        .slots = l->steps,
                        .first = kept->first,
                        .count = kept->steps};
}

/* Of the rings of frames, which also has those of K - 1 steps before the first one. They are numbered from these on. */
static lane_array array_of_frames(const lanes_file *f, const kept_lanes *kept, int32_t type, int64_t bytes, void *ring)
{
    const int64_t older = rings_of(f)->stack - 1;
    lane_array array = array_of_steps(f, kept, type, bytes, ring);
    array.entry.shape[0] += all_of(f).steps > 0 ? older : 0;
    array.count += kept->steps > 0 ? older : 0;
    array.slots += older;
    return array;
}

/* Of the rings of final observations: (n) values. */
static lane_array array_of_finals(const lanes_file *f, const kept_lanes *kept, int32_t type, int64_t bytes, void *ring)
{
    return (lane_array){.entry = {.type = type, .dims = 1, .shape = {f->counts.kept_finals}},
                        .ring = ring,
                        .item_bytes = bytes,
                        .slots = rings_of(f)->finals,
                        .first = kept->first_final,
                        .count = kept->finals};
}

/* The items lie in one contiguous piece of the ring, or two if the slots go around its end. Or all of them are in host
 * memory, `host`. */
static gpur_status add_array(lanes_file *f, const lane_array *array, const char *name, void *host)
{
    const int64_t slot = array->first % array->slots, head = gpur_min(array->count, array->slots - slot);
    gpur_section *added = NULL;
    GPUR_TRY(gpur_sections_add_entry(&f->sections, &array->entry, &added));
    snprintf(added->entry.name, sizeof added->entry.name, "%s", name);
    if (host) {
        added->pieces[0] = (gpur_piece){host, gpur_tensor_bytes(&array->entry), 0};
        return GPUR_OK;
    }
    added->pieces[0] =
        (gpur_piece){(unsigned char *)array->ring + slot * array->item_bytes, head * array->item_bytes, 1};
    added->pieces[1] = (gpur_piece){array->ring, (array->count - head) * array->item_bytes, 1};
    return GPUR_OK;
}

/* Numbers of rows. */
static gpur_status add_of_rows(lanes_file *f, const kept_lanes *kept, const char *name, int32_t type, void *ring,
                               void *host)
{
    const lane_array array = array_of_steps(f, kept, type, gpur_tensor_types[type].bytes, ring);
    return add_array(f, &array, name, host);
}

static int32_t type_of(const gpur_field_info *field)
{
    static const char *const names[] = {[GPUR_FLOAT32] = "F32", [GPUR_FLOAT16] = "F16", [GPUR_UINT8] = "U8",
                                        [GPUR_INT32] = "I32",   [GPUR_INT64] = "I64",   [GPUR_BOOL] = "BOOL"};
    return gpur_tensor_type_find(names[field->dtype]);
}

/* Adds an array of a field, whose values have axes of their own behind those of the array: of a stack those of a
 * frame. */
static gpur_status add_of_field(lanes_file *f, lane_array array, const char *kind, int32_t index)
{
    const gpur_lane_store *const store = &f->replay->lanes;
    const gpur_field_info *const field = &f->replay->schema.fields[index];
    const int32_t of_frames = store->parts[index].is_stack ? store->stack_is_last ? field->dims - 1 : 0 : -1;
    char name[GPUR_TENSOR_NAME];
    _Static_assert(GPUR_MAX_DIMS + 2 <= GPUR_TENSOR_DIMS, "room for them");
    for (int32_t i = 0; i < field->dims; i++)
        if (i != of_frames)
            array.entry.shape[array.entry.dims++] = field->shape[i];
    snprintf(name, sizeof name, "%s.%s", kind, field->name);
    return add_array(f, &array, name, NULL);
}

static gpur_status add_field(lanes_file *f, const kept_lanes *kept, int32_t index)
{
    const gpur_lane_part *const part = &f->replay->lanes.parts[index];
    const gpur_field_info *const field = &f->replay->schema.fields[index];
    const int64_t bytes = gpur_lane_part_bytes(&f->replay->lanes, index);
    const int32_t type = type_of(field);
    if (part->is_stack)
        GPUR_TRY(add_of_field(f, array_of_frames(f, kept, type, bytes, part->ring), "frames", index));
    else if (part->role == GPUR_LANE_STORED)
        GPUR_TRY(add_of_field(f, array_of_steps(f, kept, type, bytes, part->ring), "field", index));
    if (part->finals)
        GPUR_TRY(add_of_field(f, array_of_finals(f, kept, type, bytes, part->finals), "final", index));
    return GPUR_OK;
}

static gpur_status add_owners(lanes_file *f, const kept_lanes *kept)
{
    const gpur_lane_rings *const l = rings_of(f);
    const lane_array array = array_of_finals(f, kept, GPUR_I64, (int64_t)sizeof *l->owner, l->owner);
    return l->resets_later ? GPUR_OK : add_array(f, &array, "final_ids", f->host.owner);
}

/* Lists the arrays of the file; of those in device memory the newest items, which `kept` says, have a place there. */
static gpur_status add_sections(lanes_file *f, const kept_lanes *kept)
{
    const gpur_lane_rings *const l = rings_of(f);
    const gpur_priorities *const p = &f->replay->priorities;
    GPUR_TRY(add_of_rows(f, kept, "flags", GPUR_U8, l->flags, f->host.flags));
    if (l->stacks)
        GPUR_TRY(add_of_rows(f, kept, "stacks", GPUR_U8, l->stacks, f->host.stacks));
    GPUR_TRY(add_of_rows(f, kept, "reward", GPUR_F32, l->reward, NULL));
    if (p->device)
        GPUR_TRY(add_of_rows(f, kept, "priorities", GPUR_F32, p->tree.priority, f->host.priority));
    GPUR_TRY(add_owners(f, kept));
    for (int32_t i = 0; i < f->replay->schema.count; i++)
        GPUR_TRY(add_field(f, kept, i));
    return GPUR_OK;
}

/* Saving. */

/* How many final observations belong to steps from the oldest on. Their owners have the order of their numbers. */
static gpur_status count_finals(lanes_file *f, const gpur_lanes_state *state)
{
    const gpur_lane_rings *const l = rings_of(f);
    int64_t low = gpur_max(0, state->finals - l->finals), high = state->finals, owner = 0;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        GPUR_TRY(gpur_copy(f->stream, &owner, l->owner + middle % l->finals, (int64_t)sizeof owner));
        GPUR_TRY(gpur_stream_sync(f->stream));
        low = owner < f->counts.first_id ? middle + 1 : low;
        high = owner < f->counts.first_id ? high : middle;
    }
    f->counts.kept_finals = state->finals - low;
    return GPUR_OK;
}

static gpur_status read_state(lanes_file *f)
{
    const gpur_lane_rings *const l = rings_of(f);
    gpur_lanes_state state;
    GPUR_TRY(gpur_lane_store_read(&f->replay->lanes, f->stream, &state));
    GPUR_TRY(gpur_priorities_read_state(&f->replay->priorities, f->stream));
    gpur_priority_copy_read(f->replay, &f->priorities);
    f->counts = (lane_counts){.rows = state.whole,
                              .first_id = gpur_max(state.oldest, state.steps - l->steps) * l->lanes,
                              .steps = state.steps,
                              .draws = state.draws,
                              .finals = state.finals,
                              .without_final = state.without_final,
                              .lost_finals = state.lost_finals,
                              .broken_stacks = state.broken_stacks};
    return count_finals(f, &state);
}

static gpur_status save(lanes_file *f, gpur_tensors *tensors, const char *path, const gpur_checkpoint_options *options)
{
    gpur_scalar scalars[GPUR_MAX_SCALARS];
    GPUR_TRY(read_state(f));
    const kept_lanes all = all_of(f);
    GPUR_TRY(gpur_checkpoint_add_kind(tensors, "replay"));
    GPUR_TRY(add_settings(f->replay, tensors));
    GPUR_TRY(gpur_tensors_add_metadata(tensors, "capacity", "%" PRId64, f->replay->config.capacity));
    GPUR_TRY(add_sections(f, &all));
    if (f->replay->config.prioritized)
        GPUR_TRY(gpur_priority_copy_write_octaves(&f->priorities, tensors));
    GPUR_TRY(gpur_scalars_write(tensors, scalars, list_scalars(f, scalars)));
    return gpur_checkpoint_write(f->replay->device, f->stream, &f->sections, tensors, path, options);
}

gpur_status gpur_lanes_save(gpur_replay *replay, const char *path, const gpur_checkpoint_options *options)
{
    lanes_file f = {.replay = replay};
    gpur_tensors tensors = {0};
    GPUR_TRY(gpur_consumer_begin(replay, gpur_consumer_without_publishing, &f.stream));
    const gpur_status status = gpur_consumer_end(replay, save(&f, &tensors, path, options));
    gpur_sections_free(&f.sections);
    gpur_tensors_free(&tensors);
    return status;
}

/* Loading. */

typedef struct loading {
    lanes_file f;
    gpur_checkpoint file;
    gpur_tensors settings;
    gpur_lanes_state before; /* of the replay */
    kept_lanes all, kept;    /* of the file; and what the replay has room for: the newest */
} loading;

/* Valid checksums do not make a file trustworthy: refuses counters that no replay can have. */
static gpur_status check_counts(const loading *load)
{
    const lane_counts *const c = &load->f.counts;
    const int64_t lanes = rings_of(&load->f)->lanes, *const numbers = &c->rows;
    for (int i = 0; i < COUNTERS; i++)
        GPUR_TRY(gpur_file_count_check(numbers[i]));
    if (c->steps > INT64_MAX / 4 / lanes)
        return gpur_fail(GPUR_FILE_ERROR,
                         "the file has %" PRId64 " steps of %" PRId64 " lanes; they must be 2^61 "
                         "together at most",
                         c->steps, lanes);
    if (c->first_id % lanes != 0 || c->first_id > c->steps * lanes)
        return gpur_fail(GPUR_FILE_ERROR,
                         "the file has steps from transition %" PRId64 " on; it must be a multiple of its %" PRId64
                         " lanes, and at most %" PRId64,
                         c->first_id, lanes, c->steps * lanes);
    if (c->kept_finals > c->finals)
        return gpur_fail(GPUR_FILE_ERROR,
                         "the file has %" PRId64 " final observations; it must be 0 to %" PRId64 ", as many as came",
                         c->kept_finals, c->finals);
    return gpur_priority_copy_check(&load->f.priorities);
}

/* Allocates the arrays in host memory. The file has as many bytes, at least. */
static gpur_status alloc_host(loading *load)
{
    host_lanes *const host = &load->f.host;
    const int64_t rows = load->all.steps * rings_of(&load->f)->lanes, finals = load->all.finals;
    const int64_t data = load->file.data_bytes;
    const int has_priorities = load->f.replay->priorities.device != NULL;
    const int64_t row_bytes = rings_of(&load->f)->stacks ? 2 : 1; /* of flags and stacks */
    if (rows > data || finals > data)
        return gpur_fail(GPUR_FILE_ERROR,
                         "the file has %" PRId64 " transitions and %" PRId64 " final observations in %" PRId64
                         " bytes; they must have a byte each",
                         rows, finals, data);
    host->bytes = finals * (int64_t)sizeof *host->owner + rows * ((int64_t)sizeof *host->final + row_bytes) +
                  (has_priorities ? rows * (int64_t)sizeof *host->priority : 0) + 1; /* + 1: so it is not NULL */
    host->memory = gpur_host_alloc(load->f.replay->device, (size_t)host->bytes);
    if (!host->memory)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for %" PRId64 " bytes of flags and priorities", host->bytes);
    host->owner = (int64_t *)(void *)host->memory;
    host->final = (uint32_t *)(void *)(host->owner + finals);
    host->priority = has_priorities ? (float *)(void *)(host->final + rows) : NULL;
    host->flags = (unsigned char *)(has_priorities ? (void *)(host->priority + rows) : (void *)(host->final + rows));
    host->stacks = row_bytes > 1 ? host->flags + rows : NULL;
    return GPUR_OK;
}

/* Lists the sections and finds them in the file, before any data are read. What a ring has no room for lies before the
 * rest. */
static gpur_status list_sections(loading *load)
{
    gpur_sections *const sections = &load->f.sections;
    gpur_sections_free(sections);
    GPUR_TRY(add_sections(&load->f, &load->kept));
    GPUR_TRY(gpur_checkpoint_match(&load->file, sections, "this replay", 1));
    for (int32_t i = 0; i < sections->count; i++) {
        gpur_section *const section = &sections->list[i];
        section->entry.begin = section->entry.end - section->pieces[0].bytes - section->pieces[1].bytes;
    }
    return GPUR_OK;
}

/* Whether a row can have these flags; `before` are those of its lane's row before, or -1: the file does not have it.
 * is_broken: a stack that its transition needs is broken. */
static int can_have(const gpur_lane_rings *l, int flags, int before, int is_newest, int is_broken)
{
    const int has_ended = (flags & GPUR_LANE_ENDED) != 0, is_whole = (flags & GPUR_LANE_IS_WHOLE) != 0;
    const int begins = (flags & GPUR_LANE_BEGINS) != 0, ends = l->resets_later ? GPUR_LANE_IS_RESET : GPUR_LANE_ENDED;
    const int rest = flags & ~(GPUR_LANE_ENDED | GPUR_LANE_IS_WHOLE | GPUR_LANE_BEGINS);
    if (before >= 0 && begins != ((before & ends) != 0))
        return 0;
    if (l->resets_later && rest == GPUR_LANE_IS_RESET)
        return !has_ended && !is_whole;
    if (is_whole && is_broken)
        return 0;
    if (l->resets_later)
        return rest == 0 && is_whole == (!is_newest && !is_broken) && (before < 0 || (before & GPUR_LANE_ENDED) == 0);
    if (!has_ended)
        return rest == 0 && is_whole == (!is_newest && !is_broken);
    if (rest == GPUR_LANE_HAS_FINAL)
        return is_whole;
    return rest == 0 && (!is_whole || (flags & GPUR_LANE_TERMINATED) != 0);
}

/* Whether a transition of this row needs a broken stack. */
static int is_broken(const loading *load, int64_t row)
{
    const gpur_lane_rings *const l = rings_of(&load->f);
    const host_lanes *const host = &load->f.host;
    const int64_t after = row + l->lanes;
    if (!host->stacks)
        return 0;
    if (!l->resets_later && (host->flags[row] & GPUR_LANE_ENDED) != 0)
        return (host->stacks[row] & (GPUR_STACK_IS_BROKEN | GPUR_STACK_FINAL_BROKEN)) != 0;
    return (host->stacks[row] & GPUR_STACK_IS_BROKEN) != 0 ||
           (after < load->all.steps * l->lanes && (host->stacks[after] & GPUR_STACK_IS_BROKEN) != 0);
}

/* Whether a row can have this byte; `before` is that of the row before, or -1. */
static int can_have_stack(const gpur_lane_rings *l, int stack, int before, int begins)
{
    const int is_broken = GPUR_STACK_IS_BROKEN | GPUR_STACK_FINAL_BROKEN;
    if ((stack & GPUR_STACK_AGE) > l->stack || (stack & is_broken) == is_broken)
        return 0;
    if (before < 0)
        return 1;
    const int age = (int)gpur_min((before & GPUR_STACK_AGE) + 1, l->stack);
    const int wanted = begins ? stack & GPUR_STACK_REPEATS : age | (before & GPUR_STACK_REPEATS);
    return (stack & ~is_broken) == wanted && !(begins && stack == (GPUR_STACK_IS_BROKEN | GPUR_STACK_REPEATS));
}

static gpur_status check_stacks(const loading *load)
{
    const gpur_lane_rings *const l = rings_of(&load->f);
    const host_lanes *const host = &load->f.host;
    const int64_t lanes = l->lanes, rows = host->stacks ? load->all.steps * lanes : 0;
    for (int64_t row = 0; row < rows; row++)
        if (!can_have_stack(l, host->stacks[row], row < lanes ? -1 : host->stacks[row - lanes],
                            host->flags[row] & GPUR_LANE_BEGINS))
            return gpur_fail(GPUR_FILE_ERROR, "transition %" PRId64 " has %d in \"stacks\", to which no replay comes",
                             load->f.counts.first_id + row, (int)host->stacks[row]);
    return GPUR_OK;
}

/* Kernels follow the flags. */
static gpur_status check_flags(const loading *load)
{
    const gpur_lane_rings *const l = rings_of(&load->f);
    const unsigned char *const flags = load->f.host.flags;
    const int64_t lanes = l->lanes, rows = load->all.steps * lanes;
    int64_t whole = 0, finals = 0;
    for (int64_t row = 0; row < rows; row++) {
        if (!can_have(l, flags[row], row < lanes ? -1 : flags[row - lanes], row >= rows - lanes, is_broken(load, row)))
            return gpur_fail(GPUR_FILE_ERROR, "transition %" PRId64 " has the flags %d, to which no replay comes",
                             load->f.counts.first_id + row, (int)flags[row]);
        whole += (flags[row] & GPUR_LANE_IS_WHOLE) != 0;
        finals += (flags[row] & GPUR_LANE_HAS_FINAL) != 0;
    }
    if (whole != load->f.counts.rows)
        return gpur_fail(GPUR_FILE_ERROR, "it has %" PRId64 " transitions that can be drawn; its count is %" PRId64,
                         whole, load->f.counts.rows);
    if (finals != load->all.finals)
        return gpur_fail(GPUR_FILE_ERROR,
                         "%" PRId64 " of its transitions have a final observation; it has %" PRId64 " of these", finals,
                         load->all.finals);
    return GPUR_OK;
}

/* The ids ascend. As many rows have a final observation as there are ids, so these are their rows. */
static gpur_status check_owners(const loading *load)
{
    const int64_t first = load->f.counts.first_id, end = load->f.counts.steps * rings_of(&load->f)->lanes;
    int64_t before = first - 1;
    for (int64_t i = 0; i < load->all.finals; i++) {
        const int64_t id = load->f.host.owner[i];
        if (id <= before || id >= end || (load->f.host.flags[id - first] & GPUR_LANE_HAS_FINAL) == 0)
            return gpur_fail(GPUR_FILE_ERROR,
                             "its final observation %" PRId64 " is of transition %" PRId64 ", which does not have it",
                             i, id);
        before = id;
    }
    return GPUR_OK;
}

static gpur_status check_priorities(const loading *load)
{
    const host_lanes *const host = &load->f.host;
    const int64_t rows = host->priority ? load->all.steps * rings_of(&load->f)->lanes : 0;
    for (int64_t row = 0; row < rows; row++) {
        GPUR_TRY(gpur_file_priority_check(host->priority[row], row));
        if (host->priority[row] > 0.0f && (host->flags[row] & GPUR_LANE_IS_WHOLE) == 0)
            return gpur_fail(GPUR_FILE_ERROR,
                             "number %" PRId64 " of its priorities is %g; it must be 0, since its transition cannot be "
                             "drawn",
                             row, (double)host->priority[row]);
    }
    return GPUR_OK;
}

/* Valid checksums do not make data trustworthy. Allocates nothing, because it also runs after the replay has been
 * changed. */
static gpur_status check_contents(const loading *load)
{
    gpur_status status = check_flags(load);
    if (status == GPUR_OK)
        status = check_stacks(load);
    if (status == GPUR_OK)
        status = check_owners(load);
    if (status == GPUR_OK)
        status = check_priorities(load);
    return gpur_checkpoint_add_path_to_error(&load->file, status);
}

/* The newest steps that there is room for. */
static kept_lanes newest_steps(const loading *load)
{
    kept_lanes kept = load->all;
    kept.first = gpur_max(kept.first, load->f.counts.steps - rings_of(&load->f)->steps);
    kept.steps = load->f.counts.steps - kept.first;
    return kept;
}

/* And of their final observations the newest. */
static kept_lanes newest_finals(const loading *load)
{
    const gpur_lane_rings *const l = rings_of(&load->f);
    const int64_t end = load->f.counts.finals;
    kept_lanes kept = load->kept;
    kept.first_final = gpur_max(load->all.first_final, end - l->finals);
    while (kept.first_final < end &&
           load->f.host.owner[kept.first_final - load->all.first_final] < kept.first * l->lanes)
        kept.first_final++;
    kept.finals = end - kept.first_final;
    return kept;
}

/* Before anything is changed: reads the arrays that go to host memory, and finds what the replay has room for. */
static gpur_status prepare(loading *load)
{
    load->all = all_of(&load->f);
    load->kept = newest_steps(load);
    load->kept.finals = 0;
    GPUR_TRY(gpur_checkpoint_add_path_to_error(&load->file, alloc_host(load)));
    GPUR_TRY(list_sections(load));
    GPUR_TRY(gpur_checkpoint_peek(&load->file, &load->f.sections));
    GPUR_TRY(check_contents(load));
    load->kept = newest_finals(load);
    return list_sections(load);
}

/* Rows whose final observation finds no room cannot be drawn any more, as if it had been overwritten. */
static void drop_finals(loading *load)
{
    const int64_t lanes = rings_of(&load->f)->lanes, first = load->f.counts.first_id;
    host_lanes *const host = &load->f.host;
    for (int64_t i = 0; i < load->kept.first_final - load->all.first_final; i++) {
        const int64_t row = host->owner[i] - first;
        host->flags[row] &= GPUR_LANE_ENDED | GPUR_LANE_BEGINS;
        if (host->priority)
            host->priority[row] = 0.0f;
        load->f.counts.lost_finals += host->owner[i] >= load->kept.first * lanes;
    }
    load->f.counts.rows = 0;
    for (int64_t row = load->kept.first * lanes - first; row < load->all.steps * lanes; row++)
        load->f.counts.rows += (host->flags[row] & GPUR_LANE_IS_WHOLE) != 0;
}

/* Copies items into their slots of a ring, from number `first` on. */
static gpur_status copy_to_ring(const loading *load, void *ring, const void *items, int64_t bytes, int64_t first,
                                int64_t count, int64_t slots)
{
    const int64_t slot = first % slots, head = gpur_min(count, slots - slot);
    gpur_stream *const stream = load->f.stream;
    if (head > 0)
        GPUR_TRY(gpur_copy(stream, (unsigned char *)ring + slot * bytes, items, head * bytes));
    if (count > head)
        GPUR_TRY(gpur_copy(stream, ring, (const unsigned char *)items + head * bytes, (count - head) * bytes));
    return GPUR_OK;
}

/* Of the arrays of rows: those that are kept. */
static gpur_status copy_rows(const loading *load, void *ring, const void *host, int64_t size)
{
    const gpur_lane_rings *const l = rings_of(&load->f);
    const int64_t before = (load->kept.first - load->all.first) * l->lanes;
    return copy_to_ring(load, ring, (const unsigned char *)host + before * size, l->lanes * size, load->kept.first,
                        load->kept.steps, l->steps);
}

static gpur_status set_finals(const loading *load)
{
    const gpur_lane_rings *const l = rings_of(&load->f);
    const host_lanes *const host = &load->f.host;
    const kept_lanes *const kept = &load->kept;
    const int64_t *const owners = host->owner + (kept->first_final - load->all.first_final);
    if (l->resets_later)
        return GPUR_OK;
    for (int64_t i = 0; i < kept->finals; i++)
        host->final[owners[i] - load->f.counts.first_id] = (uint32_t)((kept->first_final + i) % l->finals);
    GPUR_TRY(gpur_fill(load->f.stream, l->owner, 0xFF, l->finals * (int64_t)sizeof *l->owner));
    GPUR_TRY(
        copy_to_ring(load, l->owner, owners, (int64_t)sizeof *l->owner, kept->first_final, kept->finals, l->finals));
    return copy_rows(load, l->final, host->final, (int64_t)sizeof *host->final);
}

/* Sends the state and the window to the device, and makes the sum tree of the priorities that are there. Waits. */
static gpur_status set_state(const loading *load, const gpur_lanes_state *state)
{
    const gpur_lane_rings *const l = rings_of(&load->f);
    const gpur_window window = {.first_id = state->oldest * l->lanes,
                                .first_slot = state->oldest % l->steps * l->lanes,
                                .count = (state->steps - state->oldest) * l->lanes,
                                .lane_flags = l->flags};
    GPUR_TRY(gpur_copy(load->f.stream, l->state, state, (int64_t)sizeof *state));
    GPUR_TRY(gpur_copy(load->f.stream, l->window, &window, (int64_t)sizeof window));
    GPUR_TRY(gpur_priorities_restore(&load->f.replay->priorities, load->f.stream, &window));
    return gpur_stream_sync(load->f.stream);
}

/* Makes the replay continue from the file, whose fields are in their rings. */
static gpur_status set_all(loading *load)
{
    const gpur_lane_rings *const l = rings_of(&load->f);
    drop_finals(load);
    const lane_counts *const c = &load->f.counts;
    const gpur_lanes_state state = {.steps = c->steps,
                                    .finals = c->finals,
                                    .whole = c->rows,
                                    .draws = c->draws,
                                    .without_final = c->without_final,
                                    .lost_finals = c->lost_finals,
                                    .broken_stacks = c->broken_stacks,
                                    .compared = c->steps + l->stack,
                                    .oldest = load->kept.first};
    GPUR_TRY(gpur_fill(load->f.stream, l->flags, 0, l->steps * l->lanes));
    GPUR_TRY(copy_rows(load, l->flags, load->f.host.flags, 1));
    if (l->stacks)
        GPUR_TRY(copy_rows(load, l->stacks, load->f.host.stacks, 1));
    GPUR_TRY(set_finals(load));
    if (load->f.host.priority)
        GPUR_TRY(copy_rows(load, load->f.replay->priorities.tree.priority, load->f.host.priority,
                           (int64_t)sizeof *load->f.host.priority));
    gpur_priority_copy_set(load->f.replay, &load->f.priorities);
    return set_state(load, &state);
}

/* Empties the replay after some of its memory was overwritten; the next ids stay as they were. */
static gpur_status empty(const loading *load)
{
    const gpur_lane_rings *const l = rings_of(&load->f);
    gpur_lanes_state state = load->before;
    state.oldest = state.steps;
    state.whole = 0;
    GPUR_TRY(gpur_fill(load->f.stream, l->flags, 0, l->steps * l->lanes));
    if (!l->resets_later)
        GPUR_TRY(gpur_fill(load->f.stream, l->owner, 0xFF, l->finals * (int64_t)sizeof *l->owner));
    return set_state(load, &state);
}

/* The data are checked once more: the file may have changed since they were read first. */
static gpur_status fill(loading *load, const gpur_checkpoint_options *options, int *touched)
{
    GPUR_TRY(
        gpur_checkpoint_fill(&load->file, load->f.replay->device, load->f.stream, &load->f.sections, options, touched));
    GPUR_TRY(check_contents(load));
    if (newest_finals(load).finals != load->kept.finals)
        return gpur_checkpoint_add_path_to_error(&load->file,
                                                 gpur_fail(GPUR_FILE_ERROR, "it changes while it is read"));
    return set_all(load);
}

/* A replay without steps has nothing to lose: it needs only one pass over the file. */
static gpur_status load_locked(loading *load, const gpur_checkpoint_options *options)
{
    const gpur_lane_rings *const l = rings_of(&load->f);
    gpur_lanes_state *const before = &load->before;
    int touched = 0;
    GPUR_TRY(gpur_lane_store_read(&load->f.replay->lanes, load->f.stream, before));
    GPUR_TRY(gpur_priorities_read_state(&load->f.replay->priorities, load->f.stream));
    if (before->steps > gpur_max(before->oldest, before->steps - l->steps))
        GPUR_TRY(gpur_checkpoint_verify(&load->file, load->f.replay->device, options));
    GPUR_TRY(prepare(load));
    const gpur_status status = fill(load, options, &touched);
    if (status != GPUR_OK && touched)
        (void)empty(load); /* if that fails, the device has failed, and the next call reports it */
    return status;
}

/* A setting that only files of stacks have. */
static gpur_status check_no_stacks(const loading *load)
{
    const char *const theirs = gpur_tensors_find_metadata(&load->file.tensors, "frame_stack");
    GPUR_REQUIRE(!theirs || load->f.replay->config.frame_stack > 1,
                 "frame_stack is \"%s\" in the file; this replay has nothing", theirs);
    return GPUR_OK;
}

/* Settings come before tensors, because their messages say best what is wrong. */
static gpur_status load_opened(loading *load, const gpur_checkpoint_options *options)
{
    gpur_replay *const replay = load->f.replay;
    gpur_scalar scalars[GPUR_MAX_SCALARS];
    const int32_t count = list_scalars(&load->f, scalars);
    GPUR_TRY(add_settings(replay, &load->settings));
    GPUR_TRY(gpur_checkpoint_compare(&load->file, "replay", "this replay", &load->settings, scalars, count));
    GPUR_TRY(check_no_stacks(load));
    gpur_priority_copy_read_octaves(&load->f.priorities, &load->file.tensors);
    GPUR_TRY(gpur_checkpoint_add_path_to_error(&load->file, check_counts(load)));
    GPUR_TRY(gpur_consumer_begin(replay, gpur_consumer_without_publishing, &load->f.stream));
    replay->lanes.told = 0;
    return gpur_consumer_end(replay, load_locked(load, options));
}

gpur_status gpur_lanes_load(gpur_replay *replay, const char *path, const gpur_checkpoint_options *options)
{
    loading load = {.f.replay = replay};
    GPUR_TRY(gpur_checkpoint_open(&load.file, path));
    const gpur_status status = load_opened(&load, options);
    if (load.f.host.memory)
        gpur_host_free(replay->device, load.f.host.memory, (size_t)load.f.host.bytes);
    gpur_sections_free(&load.f.sections);
    gpur_tensors_free(&load.settings);
    gpur_checkpoint_close(&load.file);
    return status;
}
