/* SPDX-License-Identifier: MIT */
/*
 * Packers: steps of one environment become blocks. Steps wait for their n-step returns as in a writer. A transition
 * whose return is complete is a row at once; with Q values the newest row still waits for Q(s'), which comes with the
 * next step. So rows are in the order of their first steps, and row r begins at step r.
 */
#include "replay/block/block.h"

#include "base/sized.h"
#include "kernels/lib/clip.h"
#include "replay/finite.h"
#include "replay/writer/n_step.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ROWS = 1 << 16, MAX_ACTIONS = 1 << 20, MAX_CRITICS = 2 };

struct gpur_packer {
    const gpur_block_format *format;
    gpur_packer_config config;
    gpur_step_fields fields;
    gpur_row_offsets offsets;
    gpur_env_state env_state;         /* of one environment */
    gpur_frame_history frame_history; /* with GPUR_LAYOUT_FRAMES */
    int32_t priority;                 /* index of the field that the packer fills in, or -1 */
    float *q;                         /* (env_state.room, critics) Q(s, A) of the steps, as env_state.rewards */
    int32_t has_vectors;              /* 1: actions are vectors */
    int waits;                        /* 1: the newest row waits for Q(s') */
    float waiting_q[MAX_CRITICS];     /* (critics) Q(s, A) of that row */
    gpur_n_step_return waiting;
    int64_t taken;         /* rows in blocks taken before */
    int64_t sequence;      /* of the next block */
    int64_t version;       /* of the last step */
    int64_t room;          /* rows */
    int64_t rows_made;     /* rows now, of which the newest may wait */
    int64_t frames_made;   /* frames now */
    unsigned char *rows;   /* (room, row_bytes) with links to `frames` */
    unsigned char *frames; /* (room x frames_per_row, frame_bytes) */
    uint32_t *numbers;     /* (room x frames_per_row) 1 + the next number of each frame, or 0 */
    unsigned char *block;  /* the block taken last */
};

static const gpur_packer_config defaults = {.size = sizeof(gpur_packer_config), .rows = 50, .critics = 1};

gpur_status gpur_packer_config_init(gpur_packer_config *config, uint64_t size)
{
    return gpur_sized_init(config, size, &defaults, sizeof defaults, "gpur_packer_config");
}

/* Creates and destroys packers. */

/* With discrete actions Q has a row of all of them. With vectors it has the value of s, which stands in the place of
 * the largest, and then that of the action taken, by each critic. */
static int has_vectors(const gpur_block_format *format)
{
    const gpur_schema *const schema = &format->schema;
    return schema->fields[gpur_schema_find(schema, "action")].dtype == GPUR_FLOAT32;
}

static gpur_status check_q_fields(const gpur_block_format *format, const gpur_packer_config *c)
{
    const gpur_schema *const schema = &format->schema;
    const int32_t at = gpur_schema_find(schema, "priority"), chosen = gpur_schema_find(schema, "action");
    const gpur_field_info *const action = &schema->fields[chosen];
    GPUR_REQUIRE(gpur_schema_find(schema, "next_action_mask") < 0,
                 "gpur_packer_config.num_actions is %d and the schema has a field \"next_action_mask\", which initial "
                 "priorities do not regard; it must be 0",
                 (int)c->num_actions);
    GPUR_REQUIRE(at >= 0 && schema->fields[at].dtype == GPUR_FLOAT32 && schema->fields[at].bytes == 4,
                 "gpur_packer_config.num_actions is %d and the schema has no field \"priority\" of one float32, into "
                 "which initial priorities are written",
                 (int)c->num_actions);
    GPUR_REQUIRE(!has_vectors(format) || c->num_actions == 1,
                 "gpur_packer_config.num_actions is %d and field \"action\" is float32; with action vectors it must be "
                 "1, or 0 for no initial priorities",
                 (int)c->num_actions);
    if (has_vectors(format))
        return GPUR_OK;
    GPUR_REQUIRE((action->dtype == GPUR_INT32 || action->dtype == GPUR_INT64) &&
                     action->bytes == gpur_dtype_bytes(action->dtype),
                 "field \"action\" is %s of %" PRId64 " bytes; with gpur_packer_config.num_actions = %d it must be one "
                 "int32 or int64, or float32",
                 gpur_dtype_name(action->dtype), action->bytes, (int)c->num_actions);
    return GPUR_OK;
}

static gpur_status check_config(const gpur_block_format *format, const gpur_packer_config *c)
{
    const int64_t frames = format->layout.frame_layout.frames_per_row;
    const gpur_step_fields fields = gpur_step_fields_find(&format->schema);
    GPUR_TRY(gpur_step_fields_check(&fields, &format->schema));
    GPUR_REQUIRE(c->actor >= 0 && c->incarnation >= 0,
                 "gpur_packer_config.actor is %" PRId64 " and incarnation %" PRId64 "; both must be 0 or more",
                 c->actor, c->incarnation);
    GPUR_REQUIRE(c->rows >= 1 && c->rows <= MAX_ROWS, "gpur_packer_config.rows is %d; it must be 1 to %d", (int)c->rows,
                 MAX_ROWS);
    GPUR_REQUIRE(c->rows * frames <= GPUR_MAX_BLOCK_FRAMES,
                 "gpur_packer_config.rows is %d; with up to %" PRId64 " frames for each row it must be 1 to %" PRId64,
                 (int)c->rows, frames, GPUR_MAX_BLOCK_FRAMES / frames);
    GPUR_REQUIRE(c->num_actions >= 0 && c->num_actions <= MAX_ACTIONS,
                 "gpur_packer_config.num_actions is %d; it must be 0 to %d", (int)c->num_actions, MAX_ACTIONS);
    GPUR_TRY(gpur_choice_check(c->observations, 1, "gpur_packer_config.observations",
                               "GPUR_OBSERVATIONS_STACKS (0) or GPUR_OBSERVATIONS_FRAMES (1)"));
    GPUR_REQUIRE(c->observations == GPUR_OBSERVATIONS_STACKS || frames > 0,
                 "gpur_packer_config.observations is GPUR_OBSERVATIONS_FRAMES and the format's layout "
                 "GPUR_LAYOUT_ROWS; stacks are made of frames by the layout GPUR_LAYOUT_FRAMES alone");
    GPUR_TRY(gpur_block_check_compression(c->compression, "gpur_packer_config.compression"));
    GPUR_TRY(gpur_range_check(c->critics, 1, MAX_CRITICS, "gpur_packer_config.critics"));
    GPUR_REQUIRE(c->critics == 1 || (c->num_actions > 0 && has_vectors(format)),
                 "gpur_packer_config.critics is %d; without initial priorities of action vectors it must be 1",
                 (int)c->critics);
    GPUR_TRY(gpur_reserved_check(&(const int64_t){c->reserved}, 1, "gpur_packer_config"));
    return c->num_actions > 0 ? check_q_fields(format, c) : GPUR_OK;
}

/* A step completes at most n_step rows, beside one that waited, while there are less than a block of others. */
static gpur_status allocate(gpur_packer *p)
{
    const gpur_block_spec *const spec = &p->format->spec;
    const int64_t per_row = spec->layout->frame_layout.frames_per_row;
    p->room = p->config.rows + p->env_state.n_step;
    const int64_t rows = p->room * spec->row_bytes, frames = p->room * per_row * spec->frame_bytes;
    const int64_t block = gpur_block_max_bytes(p->format, p->config.rows, p->config.rows * per_row);
    p->rows = malloc((size_t)rows);
    p->frames = malloc((size_t)frames + 1);
    p->block = malloc((size_t)block);
    p->numbers = malloc((size_t)(p->room * per_row + 1) * sizeof *p->numbers);
    p->q = calloc((size_t)(p->env_state.room * p->config.critics), sizeof *p->q);
    if (!p->rows || !p->frames || !p->block || !p->numbers || !p->q)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for the blocks of a packer, %" PRId64 " bytes",
                         rows + frames + block);
    return GPUR_OK;
}

static gpur_status build(gpur_packer *p)
{
    const gpur_block_format *const format = p->format;
    p->fields = gpur_step_fields_find(&format->schema);
    p->offsets = gpur_row_offsets_find(&format->layout, &p->fields);
    p->priority = p->config.num_actions > 0 ? gpur_schema_find(&format->schema, "priority") : -1;
    p->has_vectors = has_vectors(format);
    GPUR_TRY(gpur_env_state_build(&p->env_state, NULL, 1, format->config.n_step, &p->fields, &format->schema,
                                  &format->layout));
    GPUR_TRY(gpur_frame_history_build(&p->frame_history, NULL, &format->layout, 1, p->config.observations,
                                      format->config.n_step));
    return allocate(p);
}

gpur_status gpur_packer_create(const gpur_block_format *format, const gpur_packer_config *given, gpur_packer **out)
{
    gpur_packer_config config = defaults;
    GPUR_REQUIRE(out, "packer is NULL; it must be where the handle goes");
    *out = NULL;
    GPUR_REQUIRE(format, "format is NULL");
    GPUR_TRY(gpur_sized_read(&config, sizeof config, given, "gpur_packer_config"));
    GPUR_TRY(check_config(format, &config));
    gpur_packer *const packer = calloc(1, sizeof *packer);
    if (!packer)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for a packer handle of %zu bytes", sizeof *packer);
    packer->format = format;
    packer->config = config;
    const gpur_status status = build(packer);
    if (status != GPUR_OK) {
        gpur_packer_destroy(packer);
        return status;
    }
    *out = packer;
    return GPUR_OK;
}

void gpur_packer_destroy(gpur_packer *packer)
{
    if (!packer)
        return;
    gpur_frame_history_destroy(&packer->frame_history);
    gpur_env_state_destroy(&packer->env_state);
    free(packer->rows);
    free(packer->frames);
    free(packer->block);
    free(packer->numbers);
    free(packer->q);
    free(packer);
}

/* Initial priorities. */

static float max_of(const float *q, int32_t count)
{
    float most = q[0];
    for (int32_t a = 1; a < count; a++)
        most = q[a] > most ? q[a] : most;
    return most;
}

static void write_priority(gpur_packer *p, int64_t row, float priority)
{
    const int32_t stored = p->format->layout.stored[p->priority];
    memcpy(p->rows + row * p->format->spec.row_bytes + p->format->layout.rows.fields[stored].offset, &priority,
           sizeof priority);
}

/* A row whose Q(s') is not known, or whose numbers are not finite (check_finite 0), is given none: the replay gives it
 * its first one. */
static const float no_priority = NAN;

/* The absolute n-step TD error [Horgan et al. 2018, section 3], of several critics the mean of theirs. `q`: (critics)
 * Q(s, A). `q_next`: the largest Q(s', a); 0 if s' is terminal. */
static float td_priority(const gpur_packer *p, const gpur_n_step_return *r, const float *q, float q_next)
{
    const double target = (double)r->reward + (double)r->discount * (double)q_next;
    double sum = 0.0;
    for (int32_t i = 0; i < p->config.critics; i++)
        sum += fabs(target - (double)q[i]);
    sum /= (double)p->config.critics;
    return isfinite(sum) ? (float)fmin(sum, (double)FLT_MAX) : no_priority;
}

/* Gives the newest row its priority, if it waits for Q(s'), (num_actions). NULL: Q(s') will not be known. */
static void end_waiting(gpur_packer *p, const float *q_next)
{
    if (!p->waits)
        return;
    p->waits = 0;
    write_priority(p, p->rows_made - 1,
                   q_next ? td_priority(p, &p->waiting, p->waiting_q, max_of(q_next, p->config.num_actions))
                          : no_priority);
}

/* How the last step of new rows ended: what decides their priority. */
typedef struct step_end {
    gpur_episode_end flags;
    const float *final_q; /* Q(s') of an episode that was truncated, or NULL */
} step_end;

static void give_priority(gpur_packer *p, const gpur_n_step_return *r, const float *q, const step_end *end)
{
    const int64_t row = p->rows_made - 1;
    if (end->flags.terminated)
        write_priority(p, row, td_priority(p, r, q, 0.0f));
    else if (end->final_q)
        write_priority(p, row, td_priority(p, r, q, max_of(end->final_q, p->config.num_actions)));
    else if (end->flags.truncated)
        write_priority(p, row, no_priority);
    else {
        p->waits = 1, p->waiting = *r;
        memcpy(p->waiting_q, q, (size_t)p->config.critics * sizeof *q);
    }
}

/* Rows. */

static unsigned char *claim_frame(const gpur_frame_store *store, int64_t *id)
{
    gpur_packer *const p = store->owner;
    *id = p->frames_made++;
    return p->frames + *id * p->format->spec.frame_bytes;
}

static void write_observations(gpur_packer *p, unsigned char *row, int64_t steps)
{
    const gpur_frame_store store = {claim_frame, p, NULL, p->frames_made, INT64_MAX, INT64_MAX};
    uint32_t links[GPUR_MAX_LINKS];
    if (p->offsets.links < 0) {
        memcpy(row + p->offsets.next_obs, gpur_env_state_obs(&p->env_state, 0), (size_t)p->env_state.obs_bytes);
        return;
    }
    gpur_frame_history_link(&p->frame_history, &store, 0, steps, links);
    memcpy(row + p->offsets.links, links, (size_t)gpur_block_links(&p->format->spec) * sizeof *links);
}

/* Makes a row of the oldest pending step and all later ones. */
static void make_row(gpur_packer *p, const step_end *end)
{
    gpur_env_state *const state = &p->env_state;
    gpur_episode *const episode = &state->episodes[0];
    const int64_t first = episode->steps - episode->pending;
    unsigned char *const row = p->rows + p->rows_made++ * p->format->spec.row_bytes;
    const unsigned char *const values = gpur_env_state_step(state, 0, first);
    const unsigned char *const last = gpur_env_state_step(state, 0, episode->steps - 1);
    const gpur_n_step_return r =
        gpur_n_step_return_of(state->rewards, (int32_t)state->room, first, episode->pending, p->format->config.gamma);
    memset(row, 0, (size_t)p->format->spec.row_bytes);
    for (int32_t i = 0; i < state->count; i++)
        memcpy(row + state->fields[i].row_offset, (state->fields[i].is_last ? last : values) + state->fields[i].offset,
               (size_t)state->fields[i].bytes);
    write_observations(p, row, episode->pending);
    gpur_write_outcome(&p->offsets, row, r, &end->flags, episode->previous < 0 ? GPUR_BLOCK_FIRST : GPUR_BLOCK_LATER);
    episode->previous = 0;
    if (p->priority >= 0)
        give_priority(p, &r, p->q + (first & (state->room - 1)) * p->config.critics, end);
    episode->pending--;
}

/* Episodes and steps. */

static int64_t finished_rows(const gpur_packer *p)
{
    return p->rows_made - p->waits;
}

static gpur_status check_taken(const gpur_packer *p)
{
    GPUR_REQUIRE(finished_rows(p) < p->config.rows,
                 "a block of %d rows is full: it must be taken with gpur_packer_take before the next step or reset",
                 (int)p->config.rows);
    return GPUR_OK;
}

static gpur_status check_flags(const gpur_packer *p, int32_t field, const void *values, int64_t bytes)
{
    const unsigned char *const flags = values;
    for (int64_t i = 0; i < bytes && p->format->schema.is_flag[field]; i++)
        GPUR_REQUIRE(flags[i] <= 1, "\"%s\" has %d among its bools; they must be 0 or 1",
                     p->format->schema.fields[field].name, (int)flags[i]);
    return GPUR_OK;
}

/* The same for numbers that are not finite. */
static gpur_status check_finite(const gpur_packer *p, int32_t field, const void *at, int64_t bytes)
{
    const gpur_schema *const schema = &p->format->schema;
    const int32_t dtype = schema->fields[field].dtype;
    if (!schema->is_real[field] || !p->format->config.check_finite)
        return GPUR_OK;
    const int64_t found = gpur_find_not_finite(dtype, at, bytes / gpur_dtype_bytes(dtype));
    GPUR_REQUIRE(found < 0, "\"%s\" is %s; its numbers must be finite", schema->fields[field].name,
                 gpur_not_finite_name(dtype, at, found));
    return GPUR_OK;
}

static gpur_status check_values(const gpur_packer *p, int32_t field, const void *values, int64_t bytes)
{
    GPUR_TRY(check_flags(p, field, values, bytes));
    return check_finite(p, field, values, bytes);
}

static int64_t obs_bytes(const gpur_packer *p)
{
    return p->frame_history.last ? p->frame_history.input_bytes : p->env_state.obs_bytes;
}

/* Ends the open episode as if truncated: a row that waits, and then the rows of steps that wait for later ones. */
static void truncate_open(gpur_packer *p)
{
    const step_end end = {.flags = {.truncated = 1}};
    end_waiting(p, NULL);
    while (p->env_state.episodes[0].pending > 0)
        make_row(p, &end);
}

gpur_status gpur_packer_reset(gpur_packer *p, const void *obs)
{
    GPUR_REQUIRE(p && obs, "%s is NULL", p ? "obs" : "packer");
    GPUR_TRY(check_taken(p));
    GPUR_TRY(check_values(p, p->fields.obs, obs, obs_bytes(p)));
    truncate_open(p);
    gpur_env_state_begin(&p->env_state, 0);
    if (p->frame_history.last)
        gpur_frame_history_begin(&p->frame_history, 0, obs);
    else
        memcpy(gpur_env_state_obs(&p->env_state, 0), obs, (size_t)p->env_state.obs_bytes);
    return GPUR_OK;
}

/* Where a step's Q has that of the action taken. */
static int64_t action_of(const gpur_packer *p, const void *action)
{
    int64_t wide = 0;
    int32_t narrow = 0;
    if (p->has_vectors)
        return 1;
    if (p->format->schema.fields[p->fields.action].dtype == GPUR_INT64)
        memcpy(&wide, action, sizeof wide);
    else
        memcpy(&narrow, action, sizeof narrow);
    return wide + narrow;
}

static gpur_status check_q(const gpur_packer *p, const gpur_packer_step_input *in)
{
    const int32_t actions = p->config.num_actions, numbers = p->has_vectors ? 1 + p->config.critics : actions;
    GPUR_REQUIRE(in->q || actions == 0, "q is NULL; it must be the Q values of the %d actions", (int)numbers);
    if (actions > 0 && !p->has_vectors) {
        const int64_t action = action_of(p, in->action);
        GPUR_REQUIRE(action >= 0 && action < actions, "action is %" PRId64 "; it must be 0 to %d", action,
                     (int)actions - 1);
    }
    if (!p->format->config.check_finite)
        return GPUR_OK;
    for (int32_t a = 0; a < numbers && actions > 0; a++)
        GPUR_REQUIRE(isfinite(in->q[a]), "q[%d] is %g; it must be finite", (int)a, (double)in->q[a]);
    for (int32_t a = 0; a < actions && in->truncated && in->final_q; a++)
        GPUR_REQUIRE(isfinite(in->final_q[a]), "final_q[%d] is %g; it must be finite", (int)a, (double)in->final_q[a]);
    return GPUR_OK;
}

static int is_extra(const gpur_packer *p, int32_t field)
{
    return gpur_step_fields_is_extra(&p->fields, field) && field != p->priority;
}

static gpur_status check_extras(const gpur_packer *p, const gpur_packer_step_input *in)
{
    const gpur_schema *const schema = &p->format->schema;
    for (int32_t f = 0; f < schema->count; f++) {
        if (!is_extra(p, f))
            continue;
        GPUR_REQUIRE(in->extras && in->extras[f], "extras[%d], field \"%s\", is NULL", (int)f, schema->fields[f].name);
        GPUR_TRY(check_values(p, f, in->extras[f], schema->fields[f].bytes));
    }
    return GPUR_OK;
}

static gpur_status check_step(const gpur_packer *p, const gpur_packer_step_input *in)
{
    GPUR_REQUIRE(p->env_state.episodes[0].state == GPUR_EPISODE_OPEN,
                 "no episode is open: gpur_packer_reset must begin one before the next step");
    GPUR_TRY(check_taken(p));
    GPUR_REQUIRE(in->action && in->next_obs, "%s is NULL", in->action ? "next_obs" : "action");
    GPUR_REQUIRE(in->terminated <= 1 && in->truncated <= 1, "terminated is %d and truncated %d; each must be 0 or 1",
                 (int)in->terminated, (int)in->truncated);
    GPUR_REQUIRE(in->version >= 0, "version is %" PRId64 "; it must be 0 or more", in->version);
    GPUR_TRY(check_q(p, in));
    GPUR_TRY(check_extras(p, in));
    GPUR_TRY(check_values(p, p->fields.action, in->action, p->format->schema.fields[p->fields.action].bytes));
    GPUR_TRY(check_values(p, p->fields.next_obs, in->next_obs, obs_bytes(p)));
    GPUR_TRY(check_finite(p, p->fields.reward, &in->reward, sizeof in->reward));
    return p->frame_history.last ? gpur_frame_history_check(&p->frame_history, 0, in->next_obs, "next_obs") : GPUR_OK;
}

/* Stores the step as the last pending one, and the observation after it. */
static void push_step(gpur_packer *p, const gpur_packer_step_input *in)
{
    gpur_env_state *const state = &p->env_state;
    gpur_episode *const episode = &state->episodes[0];
    const float clip = p->format->config.reward_clip;
    const int64_t entry = episode->steps & (state->room - 1);
    unsigned char *const values = gpur_env_state_step(state, 0, episode->steps);
    for (int32_t i = state->obs_bytes > 0; i < state->count; i++) {
        const gpur_carried_field *const field = &state->fields[i];
        if (field->field != p->priority)
            memcpy(values + field->offset, field->field == p->fields.action ? in->action : in->extras[field->field],
                   (size_t)field->bytes);
    }
    state->rewards[entry] = clip > 0.0f ? gpur_clip(in->reward, clip) : in->reward;
    if (p->priority >= 0)
        memcpy(p->q + entry * p->config.critics, in->q + action_of(p, in->action),
               (size_t)p->config.critics * sizeof *p->q);
    episode->steps++;
    episode->pending++;
    if (p->frame_history.last)
        gpur_frame_history_add(&p->frame_history, 0, in->next_obs);
    else
        memcpy(gpur_env_state_obs(state, 0), in->next_obs, (size_t)state->obs_bytes);
}

gpur_status gpur_packer_step(gpur_packer *p, const gpur_packer_step_input *input)
{
    gpur_packer_step_input in = {.size = sizeof in};
    GPUR_REQUIRE(p, "packer is NULL");
    GPUR_TRY(gpur_sized_read(&in, sizeof in, input, "gpur_packer_step_input"));
    GPUR_TRY(check_step(p, &in));
    const int ends = in.terminated || in.truncated;
    const step_end end = {{in.terminated, in.truncated}, in.truncated ? in.final_q : NULL};
    gpur_episode *const episode = &p->env_state.episodes[0];
    end_waiting(p, in.q);
    push_step(p, &in);
    for (int32_t ready = gpur_n_step_ready(episode->pending, p->env_state.n_step, ends); ready > 0; ready--)
        make_row(p, &end);
    if (ends)
        episode->state = GPUR_EPISODE_NONE;
    p->version = in.version;
    return GPUR_OK;
}

/* Blocks. */

/* Reads the links of a row and replaces each by `numbers` of its frame. */
static void renumber_links(gpur_packer *p, int64_t row)
{
    const int32_t count = gpur_block_links(&p->format->spec);
    unsigned char *const at = p->rows + row * p->format->spec.row_bytes;
    uint32_t links[GPUR_MAX_LINKS];
    gpur_block_read_links(&p->format->spec, at, links);
    for (int32_t i = 0; i < count; i++)
        links[i] = links[i] > 0 ? p->numbers[links[i] - 1] : 0;
    memcpy(at, links, (size_t)count * sizeof *links);
}

/* Marks the frames that the rows name. */
static void mark_frames(gpur_packer *p)
{
    const gpur_block_spec *const spec = &p->format->spec;
    uint32_t links[GPUR_MAX_LINKS];
    memset(p->numbers, 0, (size_t)p->frames_made * sizeof *p->numbers);
    for (int64_t row = 0; row < p->rows_made; row++) {
        gpur_block_read_links(spec, p->rows + row * spec->row_bytes, links);
        for (int32_t i = 0; i < gpur_block_links(spec); i++)
            if (links[i] > 0)
                p->numbers[links[i] - 1] = 1;
    }
}

/* Keeps the frames that rows name. Later rows that need one of the others store it again, in their own block. */
static void keep_named_frames(gpur_packer *p)
{
    const int64_t bytes = p->format->spec.frame_bytes;
    int64_t kept = 0;
    mark_frames(p);
    for (int64_t f = 0; f < p->frames_made; f++) {
        if (p->numbers[f] == 0)
            continue;
        if (f != kept)
            memcpy(p->frames + kept * bytes, p->frames + f * bytes, (size_t)bytes);
        p->numbers[f] = (uint32_t)++kept;
    }
    gpur_frame_history_renumber(&p->frame_history, p->numbers);
    for (int64_t row = 0; row < p->rows_made; row++)
        renumber_links(p, row);
    p->frames_made = kept;
}

static void drop_rows(gpur_packer *p, int64_t rows)
{
    const int64_t row_bytes = p->format->spec.row_bytes;
    p->rows_made -= rows;
    p->taken += rows;
    memmove(p->rows, p->rows + rows * row_bytes, (size_t)(p->rows_made * row_bytes));
    if (p->frame_history.last)
        keep_named_frames(p);
}

gpur_status gpur_packer_take(gpur_packer *p, int32_t all, const void **block, int64_t *bytes)
{
    GPUR_REQUIRE(p && block && bytes, "%s is NULL", !p ? "packer" : !block ? "block" : "bytes");
    GPUR_TRY(gpur_choice_check(all, 1, "all", "0 or 1"));
    *block = NULL, *bytes = 0;
    const int64_t finished = finished_rows(p), rows = finished < p->config.rows ? finished : p->config.rows;
    if (rows == 0 || (rows < p->config.rows && !all))
        return GPUR_OK;
    const gpur_block_draft draft = {
        .header = {.actor = p->config.actor,
                   .incarnation = p->config.incarnation,
                   .sequence = p->sequence,
                   .first_step = p->taken,
                   .weights_version = p->version,
                   .rows = rows,
                   .frames = p->frames_made},
        .rows = p->rows,
        .frames = p->frames,
        .compression = p->config.compression,
    };
    GPUR_TRY(gpur_block_write(&p->format->spec, &draft, p->block, bytes));
    drop_rows(p, rows);
    p->sequence++;
    *block = p->block;
    return GPUR_OK;
}
