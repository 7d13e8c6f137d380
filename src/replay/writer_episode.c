/* SPDX-License-Identifier: MIT */
/* Telling where an environment stands. */
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
    GPUR_TRY(gpur_step_fields_check(&writer->fields, &writer->replay->schema));
    gpur_intake *const intake = &writer->replay->intake;
    gpur_intake_lock(intake);
    gpur_intake_enter(intake);
    const gpur_status status = read_episode(writer, env, info, obs);
    gpur_intake_leave(intake);
    gpur_intake_unlock(intake);
    return status;
}
