/* SPDX-License-Identifier: MIT */
#include "replay/storage/frame_index.h"

gpur_status gpur_frame_index_build(gpur_frame_index *index, gpur_device *device, const gpur_frame_layout *frame_layout,
                                   int64_t rows)
{
    if (frame_layout->stack == 0)
        return GPUR_OK;
    index->device = device;
    index->group_rows = frame_layout->group_rows;
    index->frames = frame_layout->frames;
    index->reach = frame_layout->reach;
    index->frames_per_row = frame_layout->frames_per_row;
    index->room = rows / index->group_rows + 2;
    const size_t bytes = (size_t)index->room * sizeof *index->groups;
    index->groups = gpur_host_alloc(device, bytes);
    return index->groups ? GPUR_OK
                         : gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for the index of frames, %zu bytes", bytes);
}

void gpur_frame_index_destroy(gpur_frame_index *index)
{
    if (index->groups)
        gpur_host_free(index->device, index->groups, (size_t)index->room * sizeof *index->groups);
}

void gpur_frame_index_record(gpur_frame_index *index, int64_t head, int64_t oldest)
{
    if (index->in_group == index->group_rows) {
        index->position = index->position + 1 == index->room ? 0 : index->position + 1;
        index->in_group = 0;
    }
    gpur_frame_group *const group = &index->groups[index->position];
    if (index->in_group++ == 0)
        group->first = head, group->oldest = oldest;
    else if (oldest < group->oldest)
        group->oldest = oldest;
    index->rows++;
}

/* A group is evicted as a whole, so it does not matter which of its rows links to an overwritten frame. */
int64_t gpur_frame_index_first_live_row(const gpur_frame_index *index, int64_t first, int64_t head)
{
    const int64_t lost = head - index->frames; /* frames with lower ids are overwritten */
    if (!index->groups || lost <= 0)
        return first;
    int64_t first_live = first;
    for (int64_t g = first / index->group_rows; g * index->group_rows < index->rows; g++) {
        const gpur_frame_group *const group = &index->groups[g % index->room];
        if (group->first - index->reach >= lost)
            break;
        if (group->oldest < lost)
            first_live = (g + 1) * index->group_rows;
    }
    return first_live;
}

int64_t gpur_frame_index_count(const gpur_frame_index *index, int64_t first, int64_t rows)
{
    return (rows + index->group_rows - 1) / index->group_rows - first / index->group_rows;
}

void gpur_frame_index_get(const gpur_frame_index *index, int64_t first, gpur_frame_group *groups)
{
    const int64_t count = gpur_frame_index_count(index, first, index->rows);
    for (int64_t i = 0; i < count; i++)
        groups[i] = index->groups[(first / index->group_rows + i) % index->room];
}

void gpur_frame_index_set(gpur_frame_index *index, int64_t first, int64_t rows, int64_t head,
                          const gpur_frame_group *groups)
{
    const int64_t count = gpur_frame_index_count(index, first, rows), begun = rows % index->group_rows;
    for (int64_t i = 0; i < count; i++)
        index->groups[(first / index->group_rows + i) % index->room] = groups[i];
    index->rows = rows;
    index->position = rows / index->group_rows % index->room;
    index->in_group = begun;
    index->head = head;
}

int gpur_frame_index_is_valid(const gpur_frame_index *index, int64_t first, int64_t rows, int64_t head,
                              const gpur_frame_group *groups)
{
    const int64_t count = gpur_frame_index_count(index, first, rows), limit = index->group_rows * index->frames_per_row;
    for (int64_t i = 0; i < count; i++) {
        const gpur_frame_group *const group = &groups[i];
        const int64_t next = i + 1 < count ? group[1].first : head;
        if (group->first < 0 || group->first > next || next - group->first > limit)
            return 0;
        if (group->oldest < 0 || group->oldest < group->first - index->reach || group->oldest > next)
            return 0;
        if (first < rows && group->oldest < head - index->frames)
            return 0;
    }
    return 1;
}
