/* SPDX-License-Identifier: MIT */
/* Telling where an environment stands, and being told by who follows episodes without steps. */
#include "replay/writer.h"

#include "base/sized.h"

#include <inttypes.h>
#include <string.h>

static void read_obs(const gpur_writer *writer, int64_t env, void *obs)
{
    if (writer->history.newest)
        gpur_history_get(&writer->history, env, obs);
    else
        memcpy(obs, gpur_kept_obs(&writer->kept, env), (size_t)writer->kept.obs_bytes);
}

static gpur_status read_episode(const gpur_writer *writer, int64_t env, gpur_episode_info *info, void *obs)
{
    const gpur_episode *const episode = &writer->kept.episodes[env];
    const int is_open = episode->state == GPUR_EPISODE_OPEN;
    const gpur_episode_info found = {
        .size = info->size,
        .steps = is_open ? episode->steps : 0,
        .state = episode->state,
        .pending = episode->pending,
    };
    GPUR_TRY(gpur_sized_write(info, &found, sizeof found, "gpur_episode_info"));
    if (obs && is_open)
        read_obs(writer, env, obs);
    return GPUR_OK;
}

gpur_status gpur_writer_get_episode(gpur_writer *writer, int32_t env, gpur_episode_info *info, void *obs)
{
    GPUR_REQUIRE(writer, "writer is NULL");
    const int32_t num_envs = writer->config.num_envs;
    GPUR_REQUIRE(info, "gpur_episode_info is NULL");
    GPUR_REQUIRE(env >= 0 && env < num_envs, "env is %d; it must be 0 to %d", (int)env, (int)num_envs - 1);
    if (obs)
        GPUR_TRY(gpur_step_fields_check(&writer->fields, &writer->replay->schema));
    gpur_intake *const intake = &writer->replay->intake;
    gpur_intake_lock(intake);
    gpur_intake_enter(intake);
    const gpur_status status = read_episode(writer, env, info, obs);
    gpur_intake_leave(intake);
    gpur_intake_unlock(intake);
    return status;
}

static gpur_status set_ended(gpur_writer *writer, const uint8_t *ended)
{
    gpur_episode *const episodes = writer->kept.episodes;
    for (int32_t env = 0; env < writer->config.num_envs; env++) {
        GPUR_REQUIRE(episodes[env].state != GPUR_EPISODE_OPEN,
                     "environment %d has an open episode, which this writer follows by its steps", (int)env);
        GPUR_REQUIRE(ended[env] <= 1, "ended[%d] is %d; it must be 0 or 1", (int)env, (int)ended[env]);
    }
    for (int32_t env = 0; env < writer->config.num_envs; env++)
        episodes[env].state = ended[env] ? GPUR_EPISODE_ENDED : GPUR_EPISODE_NONE;
    return GPUR_OK;
}

gpur_status gpur_writer_set_ended(gpur_writer *writer, const uint8_t *ended)
{
    GPUR_REQUIRE(writer && ended, "writer and ended must not be NULL");
    gpur_intake *const intake = &writer->replay->intake;
    gpur_intake_lock(intake);
    gpur_intake_enter(intake);
    const gpur_status status = set_ended(writer, ended);
    gpur_intake_leave(intake);
    gpur_intake_unlock(intake);
    return status;
}
