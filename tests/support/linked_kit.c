/* SPDX-License-Identifier: MIT */
#include "support/linked_kit.h"

#include "support/replay_kit.h"

#include <stdlib.h>
#include <string.h>

static void configure(linked_world *w)
{
    const linked_setting *const s = &w->setting;
    gpur_replay_config *const c = &w->config;
    play_fields(w->fields, s->shape);
    *c = kit_config(w->fields, PLAY_FIELDS, s->capacity, s->update_size, s->max_batch);
    c->n_step = s->n_step, c->flush = s->flush, c->staging_blocks = s->staging_blocks;
    c->index_source = s->index_source, c->prioritized = s->prioritized;
    if (s->prioritized)
        c->alpha = s->alpha, c->priority_offset = s->priority_offset;
    c->gamma = 0.97f, c->reward_clip = 1.5f;
    c->layout = GPUR_LINKED, c->frame_stack = s->shape.stack, c->frame_slack = s->frame_slack;
    c->stack_axis = s->shape.last ? GPUR_STACK_LAST : GPUR_STACK_FIRST;
    c->stack_pad = s->repeats ? GPUR_PAD_REPEAT : GPUR_PAD_ZERO;
}

static int open_play(linked_world *w, play *p)
{
    gpur_writer_config writer;
    gpur_writer_config_init(&writer, sizeof writer);
    writer.num_envs = w->setting.envs;
    writer.autoreset = w->setting.autoreset;
    history_begin(&p->history, &w->all, writer.num_envs);
    p->history.n_step = w->config.n_step, p->history.gamma = w->config.gamma;
    p->history.clip = w->config.reward_clip, p->history.stack = w->setting.shape.stack;
    p->history.repeats = w->setting.repeats;
    p->shape = w->setting.shape, p->autoreset = writer.autoreset, p->ends_in = w->setting.ends_in;
    p->random = &w->random, p->next_frame = &w->next_frame;
    p->writer_count = LINKED_REPLAYS;
    for (int i = 0; i < LINKED_REPLAYS; i++) {
        p->gives_frames[i] = i == 2;
        writer.input = i == 2 ? GPUR_INPUT_FRAMES : GPUR_INPUT_STACKS;
        if (gpur_writer_open(w->replays[i], &writer, &p->writers[i]) != GPUR_OK)
            return 0;
    }
    return play_reset(p, -1) == GPUR_OK;
}

int linked_open(linked_world *w, gpur_device *device, const linked_setting *setting, uint64_t seed)
{
    memset(w, 0, sizeof *w);
    w->setting = *setting;
    w->device = device;
    w->random = seed * 0x9E3779B97F4A7C15ull + 1;
    configure(w);
    for (int i = 0; i < LINKED_REPLAYS; i++) {
        gpur_replay_config config = w->config;
        config.layout = i == 0 ? GPUR_PACKED : GPUR_LINKED;
        if (gpur_replay_create(w->device, &config, &w->replays[i]) != GPUR_OK)
            return 0;
    }
    for (int i = 0; i < w->setting.writers; i++)
        if (!open_play(w, &w->plays[i]))
            return 0;
    return 1;
}

void linked_end_writers(linked_world *w)
{
    for (int i = 0; i < w->setting.writers; i++) {
        play *const p = &w->plays[i];
        if (!p->writers[0])
            continue;
        for (int r = 0; r < LINKED_REPLAYS; r++) {
            gpur_writer_destroy(p->writers[r]);
            p->writers[r] = NULL;
        }
        history_cut_all(&p->history);
        history_end(&p->history);
    }
}

void linked_close(linked_world *w)
{
    linked_end_writers(w);
    history_rows_end(&w->all);
    for (int r = 0; r < LINKED_REPLAYS; r++)
        gpur_replay_destroy(w->replays[r]);
    gpur_device_close(w->device);
}

int64_t linked_wrong(linked_world *w, int64_t least)
{
    int64_t first[LINKED_REPLAYS], count[LINKED_REPLAYS];
    for (int r = 0; r < LINKED_REPLAYS; r++) {
        const int64_t wrong = play_wrong_everywhere(w->replays[r], w->setting.shape, &w->all, &first[r], &count[r]);
        if (wrong != 0)
            return wrong;
    }
    if (first[1] != first[2] || count[1] != count[2])
        return -2;
    if (w->setting.flush == GPUR_FLUSH_MANUAL) /* what has been published by now depends on the blocks */
        return 0;
    if (first[0] + count[0] != w->all.count || first[1] + count[1] != w->all.count)
        return -3;
    return count[1] > count[0] || (count[1] < count[0] && count[1] < least) ? -4 : 0;
}

static int64_t arrays_differ(gpur_batch *a, gpur_batch *b, const char *name)
{
    gpur_field_info info = {.size = sizeof info};
    void *memory = NULL;
    if (gpur_batch_get_array(a, name, &memory, &info) != GPUR_OK)
        return 1;
    const int64_t bytes = gpur_batch_count(a) * info.bytes;
    unsigned char *const x = malloc((size_t)bytes), *const y = malloc((size_t)bytes);
    const int same = gpur_batch_read(a, name, x, bytes) == GPUR_OK && gpur_batch_read(b, name, y, bytes) == GPUR_OK &&
                     memcmp(x, y, (size_t)bytes) == 0;
    free(x);
    free(y);
    return !same;
}

static int64_t batches_differ(gpur_batch *a, gpur_batch *b)
{
    static const char *const names[] = {"obs",      "action",   "reward", "next_obs", "terminated", "truncated",
                                        "discount", "previous", "tag",    "weight",   "id"};
    int64_t differ = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        differ += arrays_differ(a, b, names[i]);
    return differ;
}

/* The window that a draw made now would see. Under GPUR_FLUSH_MANUAL it is not to be compared: what has been published
 * depends on the blocks. */
static int windows_are_equal(linked_world *w)
{
    int64_t first[LINKED_REPLAYS];
    for (int r = 0; r < LINKED_REPLAYS; r++) {
        gpur_replay_stats stats = {.size = sizeof stats};
        gpur_replay_get_stats(w->replays[r], &stats);
        first[r] = stats.first_id;
    }
    return w->setting.flush == GPUR_FLUSH_AUTO && first[0] == first[1] && first[1] == first[2];
}

int64_t linked_draws_differ(linked_world *w, int64_t count)
{
    gpur_batch *batches[LINKED_REPLAYS] = {0};
    int64_t differ = 0, drawn = 0;
    const int equal = windows_are_equal(w) && !w->out_of_step;
    for (int r = 0; r < LINKED_REPLAYS; r++) {
        const gpur_status status = gpur_replay_sample(w->replays[r], count, NULL, &batches[r]);
        differ += status != GPUR_OK && status != GPUR_TOO_FEW;
        drawn += status == GPUR_OK;
        if (batches[r])
            differ += play_wrong(batches[r], w->setting.shape, &w->all) != 0;
    }
    w->out_of_step |= drawn > 0 && drawn < LINKED_REPLAYS;
    for (int r = 1; equal && drawn > 0 && r < LINKED_REPLAYS; r++)
        differ += drawn < LINKED_REPLAYS || batches_differ(batches[r], batches[r - 1]) > 0;
    for (int r = 0; r < LINKED_REPLAYS; r++)
        gpur_batch_release(batches[r]);
    return differ;
}
