/* SPDX-License-Identifier: MIT */
/* What a writer tells of where its environments stand. */
#include "support/episode_kit.h"
#include "support/file_kit.h"
#include "support/linked_kit.h"
#include "test.h"

enum { ENVS = 2, STANDING_ENVS = 3 };

/* A replay of one float an observation, with a writer of this mode for two environments. */
static int open_mode(kit_scene *s, int32_t autoreset, int32_t n_step)
{
    gpur_replay_config config = episode_config(7, n_step, 0.5f);
    gpur_writer_config writer;
    if (!kit_open(s, test_device(), &config, 1))
        return 0;
    gpur_writer_destroy(s->writer);
    gpur_writer_config_init(&writer, sizeof writer);
    writer.num_envs = ENVS, writer.autoreset = autoreset;
    return gpur_writer_open(s->replay, &writer, &s->writer) == GPUR_OK;
}

/* Environment 1 ends, or nobody does. */
static gpur_status take(kit_scene *s, float place, int ends)
{
    const float next_obs[ENVS] = {place, place + 100}, final_obs[ENVS] = {-1, -2}, reward[ENVS] = {0, 0};
    const int32_t action[ENVS] = {0, 0};
    const uint8_t terminated[ENVS] = {0, ends != 0};
    const gpur_step_input input = {sizeof input, action, reward, next_obs, terminated, NULL, final_obs, NULL};
    return gpur_writer_step_with(s->writer, &input);
}

/* 1: so it stands, and the observation is this; -1 is none, which leaves the memory alone. */
static int stands(kit_scene *s, int32_t env, int32_t state, int64_t steps, int32_t pending, float wanted)
{
    gpur_episode_info info = {.size = sizeof info, .steps = -7, .state = -7, .pending = -7};
    float obs = -1;
    return gpur_writer_get_episode(s->writer, env, &info, NULL) == GPUR_OK &&
           gpur_writer_get_episode(s->writer, env, &info, &obs) == GPUR_OK && info.size == sizeof info &&
           info.state == state && info.steps == steps && info.pending == pending && obs == wanted;
}

TEST(an_episode_is_followed_through_its_life)
{
    static const int32_t after[] = {GPUR_EPISODE_NONE, GPUR_EPISODE_ENDED, GPUR_EPISODE_OPEN};
    for (int32_t mode = GPUR_AUTORESET_DISABLED; mode <= GPUR_AUTORESET_SAME_STEP; mode++) {
        const float begins[ENVS] = {5, 6}, again = 50;
        kit_scene s;
        CHECK(open_mode(&s, mode, 3));
        CHECK(stands(&s, 0, GPUR_EPISODE_NONE, 0, 0, -1) && stands(&s, 1, GPUR_EPISODE_NONE, 0, 0, -1));
        CHECK_OK(gpur_writer_reset(s.writer, -1, begins));
        CHECK(stands(&s, 0, GPUR_EPISODE_OPEN, 0, 0, 5) && stands(&s, 1, GPUR_EPISODE_OPEN, 0, 0, 6));
        CHECK_OK(take(&s, 7, 0));
        CHECK(stands(&s, 0, GPUR_EPISODE_OPEN, 1, 1, 7) && stands(&s, 1, GPUR_EPISODE_OPEN, 1, 1, 107));
        for (int32_t t = 2; t < 6; t++)
            CHECK_OK(take(&s, (float)(6 + t), 0));
        CHECK(stands(&s, 0, GPUR_EPISODE_OPEN, 5, 2, 11) && stands(&s, 1, GPUR_EPISODE_OPEN, 5, 2, 111));
        CHECK_OK(take(&s, 12, 1));
        CHECK(stands(&s, 0, GPUR_EPISODE_OPEN, 6, 2, 12));
        CHECK(stands(&s, 1, after[mode], 0, 0, mode == GPUR_AUTORESET_SAME_STEP ? 112 : -1));
        CHECK_OK(gpur_writer_reset(s.writer, 1, &again));
        CHECK(stands(&s, 0, GPUR_EPISODE_OPEN, 6, 2, 12) && stands(&s, 1, GPUR_EPISODE_OPEN, 0, 0, 50));
        kit_close(&s);
    }
}

/* Steps that are transitions by themselves are none that wait for one. */
TEST(with_one_step_nothing_is_pending)
{
    const float begins[ENVS] = {5, 6};
    kit_scene s;
    CHECK(open_mode(&s, GPUR_AUTORESET_DISABLED, 1));
    CHECK_OK(gpur_writer_reset(s.writer, -1, begins));
    CHECK_OK(take(&s, 7, 0));
    CHECK(stands(&s, 0, GPUR_EPISODE_OPEN, 1, 0, 7) && stands(&s, 1, GPUR_EPISODE_OPEN, 1, 0, 107));
    kit_close(&s);
}

TEST(what_is_wrong_is_refused)
{
    gpur_replay_config plain = kit_plain_config(100, 7, 8, GPUR_FLUSH_AUTO);
    gpur_episode_info info = {.size = sizeof info};
    float obs = -1;
    kit_scene s;
    CHECK(open_mode(&s, GPUR_AUTORESET_DISABLED, 1));
    CHECK_STATUS(gpur_writer_get_episode(NULL, 0, &info, &obs), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("writer is NULL");
    CHECK_STATUS(gpur_writer_get_episode(s.writer, 0, NULL, &obs), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("gpur_episode_info is NULL");
    CHECK_STATUS(gpur_writer_get_episode(s.writer, ENVS, &info, &obs), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("env is 2; it must be 0 to 1");
    CHECK_STATUS(gpur_writer_get_episode(s.writer, -1, &info, &obs), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("env is -1; it must be 0 to 1");
    info.size = 3;
    CHECK_STATUS(gpur_writer_get_episode(s.writer, 0, &info, &obs), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("gpur_episode_info.size is 3");
    CHECK(obs == -1);
    kit_close(&s);
    info.size = sizeof info;
    CHECK(kit_open(&s, test_device(), &plain, 1));
    CHECK_STATUS(gpur_writer_get_episode(s.writer, 0, &info, &obs), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("no field");
    kit_close(&s);
}

static const linked_setting usual = {
    .writers = 1,
    .envs = STANDING_ENVS,
    .ends_in = 6,
    .capacity = 256,
    .update_size = 16,
    .max_batch = 16,
    .n_step = 3,
    .staging_blocks = 3,
};

/* How many environments of a replay's writer do not stand where the history says, or at another observation. */
static int count_wrong(const linked_world *w, int replay)
{
    const play *const p = &w->plays[0];
    const play_shape frame = {1, 0};
    int wrong = 0;
    for (int32_t env = 0; env < STANDING_ENVS; env++) {
        int64_t tags[HISTORY_MOST_STACK];
        unsigned char wanted[HISTORY_MOST_STACK * PLAY_FRAME] = {0}, obs[HISTORY_MOST_STACK * PLAY_FRAME] = {0};
        gpur_episode_info info = {.size = sizeof info};
        const history_env *const of = &p->history.envs[env];
        const int is_over = p->is_over[env] && p->autoreset != GPUR_AUTORESET_SAME_STEP;
        history_stack(&p->history, env, tags);
        if (!is_over && p->gives_frames[replay])
            play_stack(wanted, frame, tags + p->shape.stack - 1);
        else if (!is_over)
            play_stack(wanted, p->shape, tags);
        wrong += gpur_writer_get_episode(p->writers[replay], env, &info, obs) != GPUR_OK ||
                 (info.state == GPUR_EPISODE_OPEN) == is_over || info.steps != (is_over ? 0 : of->count) ||
                 info.pending != (is_over ? 0 : of->count - of->made) || memcmp(obs, wanted, sizeof obs) != 0;
    }
    return wrong;
}

/* Before every one of 40 steps. */
static void play_and_ask(const linked_setting *setting, uint64_t seed)
{
    linked_world w;
    CHECK(linked_open(&w, test_device(), setting, seed));
    for (int t = 0; t < 40; t++) {
        for (int replay = 0; replay < LINKED_REPLAYS; replay++)
            CHECK_EQUAL(count_wrong(&w, replay), 0);
        CHECK_OK(play_step(&w.plays[0]));
    }
    linked_close(&w);
}

TEST(the_observation_is_what_was_given_in_whatever_form)
{
    linked_setting setting = usual;
    for (int way = 0; way < 4; way++)
        for (int32_t mode = GPUR_AUTORESET_DISABLED; mode <= GPUR_AUTORESET_SAME_STEP; mode++) {
            setting.shape.stack = 4, setting.shape.last = way & 1;
            setting.repeats = way >> 1, setting.autoreset = mode;
            play_and_ask(&setting, (uint64_t)(way * 3 + mode + 1));
        }
}

#ifdef GPUR_HAS_FILES
TEST(a_loaded_writer_stands_where_the_saved_one_stood)
{
    const char *const path = scene_path("standing");
    linked_setting setting = usual;
    setting.shape.stack = 3, setting.autoreset = GPUR_AUTORESET_NEXT_STEP;
    for (int replay = 0; replay < LINKED_REPLAYS; replay++) {
        const unsigned char zeros[STANDING_ENVS * HISTORY_MOST_STACK * PLAY_FRAME] = {0};
        linked_world w;
        CHECK(linked_open(&w, test_device(), &setting, 7));
        for (int t = 0; t < 31; t++)
            CHECK_OK(play_step(&w.plays[0]));
        CHECK_OK(gpur_replay_save(w.replays[replay], path, NULL));
        CHECK_OK(gpur_writer_reset(w.plays[0].writers[replay], -1, zeros));
        CHECK(count_wrong(&w, replay) > 0);
        CHECK_OK(gpur_replay_load(w.replays[replay], path, NULL));
        CHECK_EQUAL(count_wrong(&w, replay), 0);
        linked_close(&w);
    }
    scene_remove_folder();
}
#endif

/* Rows alone, of two environments of which one has ended: the note goes with the file, and to a writer that comes. */
TEST(who_appends_rows_notes_what_has_ended)
{
#ifdef GPUR_HAS_FILES
    gpur_replay_config plain = kit_plain_config(100, 7, 8, GPUR_FLUSH_AUTO);
    gpur_episode_info info = {.size = sizeof info};
    const char *const path = scene_path("ended");
    const uint8_t ended[ENVS] = {0, 1}, wrong[ENVS] = {0, 2};
    kit_scene s, to;
    CHECK(kit_open(&s, test_device(), &plain, ENVS));
    CHECK_STATUS(gpur_writer_set_ended(s.writer, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(gpur_writer_set_ended(NULL, ended), GPUR_INVALID_ARGUMENT);
    CHECK_OK(gpur_writer_set_ended(s.writer, ended));
    CHECK_STATUS(gpur_writer_set_ended(s.writer, wrong), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("ended[1] is 2; it must be 0 or 1");
    CHECK_OK(kit_append_next(&s, 6));
    CHECK_OK(gpur_replay_save(s.replay, path, NULL));
    kit_close(&s);
    for (int is_late = 0; is_late < 2; is_late++) {
        CHECK(kit_open(&to, test_device(), &plain, ENVS));
        if (is_late)
            gpur_writer_destroy(to.writer);
        CHECK_OK(gpur_replay_load(to.replay, path, NULL));
        if (is_late)
            CHECK_OK(gpur_writer_create(to.replay, ENVS, &to.writer));
        CHECK(gpur_writer_get_episode(to.writer, 0, &info, NULL) == GPUR_OK && info.state == GPUR_EPISODE_NONE);
        CHECK(gpur_writer_get_episode(to.writer, 1, &info, NULL) == GPUR_OK && info.state == GPUR_EPISODE_ENDED);
        kit_close(&to);
    }
    scene_remove_folder();
#endif
}

/* A writer that is given steps knows by itself. */
TEST(an_open_episode_is_not_written_over)
{
    const float begins[ENVS] = {5, 6};
    const uint8_t ended[ENVS] = {1, 1};
    kit_scene s;
    CHECK(open_mode(&s, GPUR_AUTORESET_NEXT_STEP, 1));
    CHECK_OK(gpur_writer_reset(s.writer, -1, begins));
    CHECK_STATUS(gpur_writer_set_ended(s.writer, ended), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("environment 0 has an open episode");
    CHECK(stands(&s, 0, GPUR_EPISODE_OPEN, 0, 0, 5));
    kit_close(&s);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(an_episode_is_followed_through_its_life);
    RUN(with_one_step_nothing_is_pending);
    RUN(what_is_wrong_is_refused);
    RUN(the_observation_is_what_was_given_in_whatever_form);
#ifdef GPUR_HAS_FILES
    RUN(a_loaded_writer_stands_where_the_saved_one_stood);
#endif
    RUN(who_appends_rows_notes_what_has_ended);
    RUN(an_open_episode_is_not_written_over);
    return test_main_end();
}
