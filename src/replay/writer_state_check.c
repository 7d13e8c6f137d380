/* SPDX-License-Identifier: MIT */
/* Whether a writer can have come to what a file says of its environments. What rows and rewards are is anybody's. */
#include "replay/writer_state.h"

#include "replay/history.h"
#include "replay/kept.h"
#include "replay/replay.h"

#include <string.h>

/* An environment of a state, and how far the replay is. */
typedef struct stand {
    const gpur_linking *linking;
    int32_t n_step;
    int64_t room;                /* frames kept; 0: packed */
    int64_t next, frame_head;    /* ids of the next row and frame */
    gpur_episode episode;
    int64_t newest;              /* frame */
    const unsigned char *places; /* (room) */
} stand;

static int is_good_episode(const stand *s)
{
    const gpur_episode *const e = &s->episode;
    return e->state >= GPUR_EPISODE_NONE && e->state <= GPUR_EPISODE_ENDED && e->pending >= 0 &&
           e->pending < s->n_step && e->steps >= e->pending && e->steps < INT64_MAX / 4 && e->previous >= -1 &&
           (e->previous < s->next || e->steps == 0);
}

static int is_good_place(const stand *s, int64_t frame)
{
    gpur_frame_place place;
    memcpy(&place, s->places + (frame & (s->room - 1)) * (int64_t)sizeof place, sizeof place);
    if (place.id < -1 || place.id >= s->frame_head)
        return 0;
    if (place.id >= 0 && place.link != place.id % s->linking->frames + 1)
        return 0;
    return place.same == GPUR_FRAME_NONE || (place.same >= frame && place.same <= s->newest);
}

/* Those that its next row may link to. Without an episode none does. */
static int are_good_frames(const stand *s)
{
    if (s->room == 0 || s->episode.state == GPUR_EPISODE_NONE)
        return 1;
    if (s->newest != s->episode.steps + s->linking->stack - 1)
        return 0;
    for (int64_t frame = s->newest; frame >= 0 && frame > s->newest - s->room; frame--)
        if (!is_good_place(s, frame))
            return 0;
    return 1;
}

static int is_good(const gpur_replay *replay, const gpur_writer_state *state, stand *s)
{
    const unsigned char *const episodes = gpur_writer_state_array(replay, state, "episodes");
    const unsigned char *const newest = gpur_writer_state_array(replay, state, "newest");
    const unsigned char *const places = gpur_writer_state_array(replay, state, "places");
    for (int64_t env = 0; env < state->num_envs; env++) {
        memcpy(&s->episode, episodes + env * (int64_t)sizeof s->episode, sizeof s->episode);
        if (newest)
            memcpy(&s->newest, newest + env * (int64_t)sizeof s->newest, sizeof s->newest);
        s->places = places ? places + env * s->room * (int64_t)sizeof(gpur_frame_place) : NULL;
        if (!is_good_episode(s) || !are_good_frames(s))
            return 0;
    }
    return 1;
}

gpur_status gpur_writer_states_check(const gpur_replay *replay, const gpur_writer_state *states, int64_t next,
                                     int64_t frame_head)
{
    gpur_history history = {0};
    gpur_history_plan(&history, &replay->storage, 1, GPUR_INPUT_STACKS, replay->config.n_step);
    stand s = {.linking = &replay->storage.linking, .n_step = replay->config.n_step, .room = history.room,
               .next = next, .frame_head = frame_head};
    for (const gpur_writer_state *state = states; state; state = state->next)
        if (!is_good(replay, state, &s))
            return gpur_fail(GPUR_FILE_ERROR, "the file has an episode that no writer comes to");
    return GPUR_OK;
}
