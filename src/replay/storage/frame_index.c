/* SPDX-License-Identifier: MIT */
#include "replay/storage/frame_index.h"

gpur_status gpur_frame_log_build(gpur_frame_log *log, gpur_device *device, const gpur_linking *linking, int64_t rows)
{
    if (linking->stack == 0)
        return GPUR_OK;
    log->device = device;
    log->group_rows = linking->group_rows;
    log->frames = linking->frames;
    log->reach = linking->reach;
    log->per_row = linking->per_row;
    log->room = rows / log->group_rows + 2;
    const size_t bytes = (size_t)log->room * sizeof *log->groups;
    log->groups = gpur_host_alloc(device, bytes);
    return log->groups ? GPUR_OK
                       : gpur_fail(GPUR_OUT_OF_MEMORY, "no memory to note which frames are linked, %zu bytes", bytes);
}

void gpur_frame_log_destroy(gpur_frame_log *log)
{
    if (log->groups)
        gpur_host_free(log->device, log->groups, (size_t)log->room * sizeof *log->groups);
}

void gpur_frame_log_note(gpur_frame_log *log, int64_t head, int64_t oldest)
{
    if (log->in_group == log->group_rows) {
        log->place = log->place + 1 == log->room ? 0 : log->place + 1;
        log->in_group = 0;
    }
    gpur_frame_group *const group = &log->groups[log->place];
    if (log->in_group++ == 0)
        group->first = head, group->oldest = oldest;
    else if (oldest < group->oldest)
        group->oldest = oldest;
    log->rows++;
}

/* A group is evicted as a whole, so it does not matter which of its rows links to an overwritten frame. */
int64_t gpur_frame_log_keep(const gpur_frame_log *log, int64_t first, int64_t head)
{
    const int64_t lost = head - log->frames; /* frames with lower ids are overwritten */
    if (!log->groups || lost <= 0)
        return first;
    int64_t keep = first;
    for (int64_t g = first / log->group_rows; g * log->group_rows < log->rows; g++) {
        const gpur_frame_group *const group = &log->groups[g % log->room];
        if (group->first - log->reach >= lost)
            break;
        if (group->oldest < lost)
            keep = (g + 1) * log->group_rows;
    }
    return keep;
}

int64_t gpur_frame_log_count(const gpur_frame_log *log, int64_t first, int64_t rows)
{
    return (rows + log->group_rows - 1) / log->group_rows - first / log->group_rows;
}

void gpur_frame_log_get(const gpur_frame_log *log, int64_t first, gpur_frame_group *groups)
{
    const int64_t count = gpur_frame_log_count(log, first, log->rows);
    for (int64_t i = 0; i < count; i++)
        groups[i] = log->groups[(first / log->group_rows + i) % log->room];
}

void gpur_frame_log_set(gpur_frame_log *log, int64_t first, int64_t rows, int64_t head, const gpur_frame_group *groups)
{
    const int64_t count = gpur_frame_log_count(log, first, rows), begun = rows % log->group_rows;
    for (int64_t i = 0; i < count; i++)
        log->groups[(first / log->group_rows + i) % log->room] = groups[i];
    log->rows = rows;
    log->place = rows / log->group_rows % log->room;
    log->in_group = begun;
    log->head = head;
}

int gpur_frame_log_is_good(const gpur_frame_log *log, int64_t first, int64_t rows, int64_t head,
                           const gpur_frame_group *groups)
{
    const int64_t count = gpur_frame_log_count(log, first, rows), most = log->group_rows * log->per_row;
    for (int64_t i = 0; i < count; i++) {
        const gpur_frame_group *const group = &groups[i];
        const int64_t next = i + 1 < count ? group[1].first : head;
        if (group->first < 0 || group->first > next || next - group->first > most)
            return 0;
        if (group->oldest < 0 || group->oldest < group->first - log->reach || group->oldest > next)
            return 0;
        if (first < rows && group->oldest < head - log->frames)
            return 0;
    }
    return 1;
}
