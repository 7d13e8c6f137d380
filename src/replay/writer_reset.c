/* SPDX-License-Identifier: MIT */
/* Beginning episodes, and ending those that are given up. */
#include "replay/maker.h"

void gpur_writer_begin(gpur_writer *writer, int64_t env, const unsigned char *obs)
{
    gpur_kept_begin(&writer->kept, env);
    if (writer->history.newest)
        gpur_history_begin(&writer->history, env, obs);
    else
        gpur_writer_observe(writer, env, obs);
}

int64_t gpur_writer_pending(const gpur_writer *writer, int64_t first, int64_t last)
{
    int64_t rows = 0;
    for (int64_t env = first; env < last; env++)
        rows += writer->kept.episodes[env].pending;
    return rows;
}

gpur_status gpur_writer_cut(gpur_writer *writer, int64_t first, int64_t last, int waits)
{
    gpur_maker maker = gpur_maker_begin(writer, gpur_writer_pending(writer, first, last), waits);
    for (int64_t env = first; env < last; env++) {
        const gpur_ending ending = {0, 1};
        GPUR_TRY(gpur_maker_make(&maker, env, writer->kept.episodes[env].pending, &ending));
    }
    return gpur_maker_end(&maker);
}

/* With the lock held. */
static gpur_status give_up(gpur_writer *writer, int64_t first, int64_t last)
{
    const int64_t rows = gpur_writer_pending(writer, first, last);
    GPUR_TRY(gpur_maker_check_room(writer, rows, "reset of open episodes"));
    return gpur_writer_cut(writer, first, last, gpur_intake_waits(&writer->replay->intake));
}

static gpur_status begin(gpur_writer *writer, int64_t first, int64_t last, const void *obs)
{
    if (gpur_writer_pending(writer, first, last) > 0)
        GPUR_TRY(give_up(writer, first, last));
    for (int64_t env = first; env < last; env++)
        gpur_writer_begin(writer, env, gpur_writer_obs(writer, obs, env - first));
    return GPUR_OK;
}

gpur_status gpur_writer_reset(gpur_writer *writer, int32_t env, const void *obs)
{
    GPUR_REQUIRE(writer, "writer is NULL");
    const int32_t num_envs = writer->config.num_envs;
    GPUR_REQUIRE(obs, "obs is NULL; it must be the first observation of %s",
                 env == -1 ? "every episode" : "the episode");
    GPUR_REQUIRE(env >= -1 && env < num_envs, "env is %d; it must be 0 to %d, or -1 for all", (int)env,
                 (int)num_envs - 1);
    GPUR_TRY(gpur_step_fields_check(&writer->fields, &writer->replay->schema));
    for (int64_t i = 0; i < (env < 0 ? num_envs : 1); i++)
        GPUR_TRY(gpur_writer_check_obs(writer, obs, i, "obs"));
    gpur_intake *const intake = &writer->replay->intake;
    gpur_intake_lock(intake);
    gpur_intake_enter(intake);
    const gpur_status status = begin(writer, env < 0 ? 0 : env, env < 0 ? num_envs : env + 1, obs);
    gpur_intake_leave(intake);
    gpur_intake_unlock(intake);
    return status;
}
