/* SPDX-License-Identifier: MIT */
/* Who begins the next episode, what else a step may carry, and the links from a transition to the one before it. */
#include "support/episode_kit.h"
#include "test.h"

enum { ENVS = 2 };

/* A replay of all fields, with a writer of this mode for two environments; both at 0. */
static int open_mode(kit_scene *s, int32_t autoreset, int32_t field_count)
{
    gpur_replay_config config = episode_config(field_count, 1, 0.5f);
    gpur_writer_config writer;
    const float obs[ENVS] = {0, 0};
    if (!kit_open(s, test_device(), &config, 1))
        return 0;
    gpur_writer_destroy(s->writer);
    gpur_writer_config_init(&writer, sizeof writer);
    writer.num_envs = ENVS;
    writer.autoreset = autoreset;
    return gpur_writer_open(s->replay, &writer, &s->writer) == GPUR_OK &&
           gpur_writer_reset(s->writer, -1, obs) == GPUR_OK;
}

typedef struct moment {
    float next_obs[ENVS], final_obs[ENVS], reward[ENVS];
    uint8_t terminated[ENVS], truncated[ENVS];
} moment;

static gpur_status take(gpur_writer *writer, const moment *m, const void *final_obs)
{
    static const int32_t action[ENVS] = {1, 2}, extra[ENVS] = {3, 4};
    const void *extras[EPISODE_FIELDS] = {0};
    extras[EPISODE_FIELDS - 1] = extra;
    const gpur_step_input input = {sizeof input,  action,       m->reward, m->next_obs,
                                   m->terminated, m->truncated, final_obs, extras};
    return gpur_writer_step_with(writer, &input);
}

TEST(the_step_after_an_end_only_resets_where_the_environment_does_it_then)
{
    episode_row rows[4];
    kit_scene s;
    CHECK(open_mode(&s, GPUR_AUTORESET_NEXT_STEP, EPISODE_FIELDS));
    const moment ends = {{1, 1}, {0}, {5, 6}, {1, 0}, {0, 0}}, resets = {{100, 2}, {0}, {7, 8}, {0, 0}, {0, 0}};
    moment again = {{101, 3}, {0}, {9, 10}, {0, 0}, {0, 0}};
    CHECK_OK(take(s.writer, &ends, NULL));
    again.truncated[0] = 1;
    CHECK_STATUS(take(s.writer, &again, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("environment 0 ended in the step before");
    CHECK_OK(take(s.writer, &resets, NULL));
    CHECK_EQUAL(episode_appended(s.replay), 3);
    CHECK_OK(take(s.writer, &again, NULL));
    CHECK_OK(episode_rows(s.replay, 0, 4, rows));
    CHECK(rows[0].obs == 0 && rows[0].next_obs == 1 && rows[0].reward == 5 && rows[0].discount == 0);
    CHECK(rows[2].obs == 1 && rows[2].next_obs == 2 && rows[2].reward == 8 && rows[2].previous == 1);
    CHECK(rows[3].obs == 100 && rows[3].next_obs == 101 && rows[3].reward == 9 && rows[3].previous == -1);
    CHECK(rows[3].truncated == 1 && rows[3].discount == 0.5f);
    kit_close(&s);
}

TEST(the_step_of_an_end_brings_both_observations_where_the_environment_resets_in_it)
{
    episode_row rows[4];
    kit_scene s;
    CHECK(open_mode(&s, GPUR_AUTORESET_SAME_STEP, EPISODE_FIELDS));
    const moment ends = {{100, 1}, {1, 555}, {5, 6}, {0, 0}, {1, 0}}, next = {{101, 2}, {0}, {7, 8}, {0, 0}, {0, 0}};
    CHECK_STATUS(take(s.writer, &ends, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("final_obs is NULL and environment 0 ended");
    CHECK_EQUAL(episode_appended(s.replay), 0);
    CHECK_OK(take(s.writer, &ends, ends.final_obs));
    CHECK_OK(take(s.writer, &next, NULL));
    CHECK_OK(episode_rows(s.replay, 0, 4, rows));
    CHECK(rows[0].obs == 0 && rows[0].next_obs == 1 && rows[0].truncated == 1 && rows[0].discount == 0.5f);
    CHECK(rows[1].next_obs == 1 && rows[1].truncated == 0);
    CHECK(rows[2].obs == 100 && rows[2].next_obs == 101 && rows[2].previous == -1);
    CHECK(rows[3].obs == 1 && rows[3].next_obs == 2 && rows[3].previous == 1);
    kit_close(&s);
}

TEST(any_mode_can_be_reset_by_hand)
{
    for (int32_t mode = GPUR_AUTORESET_DISABLED; mode <= GPUR_AUTORESET_SAME_STEP; mode++) {
        const moment m = {{1, 1}, {1, 1}, {0}, {1, 0}, {0, 0}}, next = {{43, 2}, {0}, {0}, {0, 0}, {0, 0}};
        const float obs = 42;
        episode_row row;
        kit_scene s;
        CHECK(open_mode(&s, mode, EPISODE_FIELDS));
        CHECK_OK(take(s.writer, &m, m.final_obs));
        CHECK_OK(gpur_writer_reset(s.writer, 0, &obs));
        CHECK_OK(take(s.writer, &next, NULL));
        CHECK_OK(episode_rows(s.replay, 2, 1, &row));
        CHECK(row.obs == 42 && row.next_obs == 43);
        kit_close(&s);
    }
}

TEST(a_mode_that_is_none_is_refused)
{
    gpur_replay_config config = episode_config(6, 1, 0.5f);
    gpur_writer_config writer = {0};
    gpur_writer *made = NULL;
    kit_scene s;
    CHECK(kit_open(&s, test_device(), &config, 1));
    CHECK_STATUS(gpur_writer_open(s.replay, &writer, &made), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("gpur_writer_config.size is 0");
    CHECK_OK(gpur_writer_config_init(&writer, sizeof writer));
    CHECK(writer.num_envs == 1 && writer.autoreset == GPUR_AUTORESET_DISABLED);
    writer.autoreset = 3;
    CHECK_STATUS(gpur_writer_open(s.replay, &writer, &made), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("autoreset is 3");
    writer.autoreset = 0, writer.num_envs = 0;
    CHECK_STATUS(gpur_writer_open(s.replay, &writer, &made), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("num_envs is 0; it must be 1 to 1048576");
    CHECK(made == NULL);
    CHECK_STATUS(gpur_writer_step_with(s.writer, NULL), GPUR_INVALID_ARGUMENT);
    kit_close(&s);
}

TEST(extras_belong_to_the_first_step_and_are_asked_for)
{
    gpur_replay_config config = episode_config(EPISODE_FIELDS, 2, 0.5f);
    const float obs = 0, reward = 0;
    const uint8_t no = 0;
    episode_row row;
    kit_scene s;
    CHECK(kit_open(&s, test_device(), &config, 1));
    CHECK_OK(gpur_writer_reset(s.writer, 0, &obs));
    for (int32_t t = 0; t < 2; t++) {
        const int32_t extra = 50 + t;
        const void *extras[EPISODE_FIELDS] = {0};
        gpur_step_input input = {sizeof input, &t, &reward, &obs, &no, NULL, NULL, extras};
        CHECK_STATUS(gpur_writer_step_with(s.writer, &input), GPUR_INVALID_ARGUMENT);
        CHECK_MESSAGE("extras[8], field \"extra\", is NULL");
        extras[8] = &extra;
        CHECK_OK(gpur_writer_step_with(s.writer, &input));
    }
    CHECK_STATUS(gpur_writer_step(s.writer, &no, &reward, &obs, &no, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("field \"extra\" is none that a step fills in");
    CHECK_OK(episode_rows(s.replay, 0, 1, &row));
    CHECK(row.extra == 50 && row.action == 0);
    kit_close(&s);
}

TEST(previous_must_be_one_int64_for_a_step)
{
    gpur_field fields[EPISODE_FIELDS];
    memcpy(fields, episode_fields, sizeof fields);
    fields[7].dtype = GPUR_INT32;
    gpur_replay_config config = kit_config(fields, 8, 100, 7, 8);
    const float obs = 0;
    kit_scene s;
    CHECK(kit_open(&s, test_device(), &config, 1));
    CHECK_STATUS(gpur_writer_reset(s.writer, 0, &obs), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("field \"previous\" is int32 of 4 bytes; gpur_writer_step needs one int64");
    kit_close(&s);
}

/* Rows of nobody's episode, by each way in: packed rows, whole blocks of them, and arrays. */
static gpur_status interfere(kit_scene *s, gpur_writer *other, int way, int64_t *rows)
{
    static unsigned char values[EPISODE_FIELDS][64 * 8];
    const void *arrays[EPISODE_FIELDS];
    const int64_t previous = -1000;
    for (int f = 0; f < EPISODE_FIELDS; f++)
        arrays[f] = values[f];
    for (int64_t i = 0; i < 64; i++)
        memcpy(values[7] + i * 8, &previous, 8);
    *rows = way % 3 == 0 ? 2 : way % 3 == 1 ? 21 : 3;
    if (way % 3 == 2)
        return gpur_writer_append_fields(other, *rows, arrays, NULL, NULL);
    unsigned char *const packed = calloc((size_t)*rows, (size_t)s->kit.row_bytes);
    for (int64_t i = 0; i < *rows; i++)
        memcpy(packed + i * s->kit.row_bytes + s->kit.fields[7].offset, &previous, 8);
    const gpur_status status = gpur_writer_append(other, *rows, packed, NULL);
    free(packed);
    return status;
}

/* Ids of an environment's rows are known when its next row is made, whatever came in between and by whichever way. */
TEST(previous_is_the_id_of_the_environments_row_before_beside_all_other_ways_in)
{
    for (int32_t feed = GPUR_FEED_COPY; feed <= GPUR_FEED_SCATTER; feed++) {
        gpur_replay_config config = episode_config(8, 1, 0.5f);
        gpur_writer *other = NULL;
        const float obs[ENVS] = {0, 0}, reward[ENVS] = {0, 0};
        const uint8_t no[ENVS] = {0, 0};
        const int32_t action[ENVS] = {0, 0};
        int64_t last[ENVS] = {-1, -1}, next = 0, rows = 0;
        episode_row got[ENVS];
        kit_scene s;
        config.feed = feed;
        CHECK(kit_open(&s, test_device(), &config, ENVS));
        CHECK_OK(gpur_writer_create(s.replay, 1, &other));
        CHECK_OK(gpur_writer_reset(s.writer, -1, obs));
        for (int t = 0; t < 40; t++) {
            CHECK_OK(gpur_writer_step(s.writer, action, reward, obs, no, NULL));
            if (t % 5 == 0)
                CHECK_OK(gpur_writer_flush(s.writer));
            CHECK_OK(episode_rows(s.replay, next, ENVS, got));
            CHECK(got[0].previous == last[0] && got[1].previous == last[1]);
            last[0] = next, last[1] = next + 1, next += ENVS;
            CHECK_OK(interfere(&s, other, t, &rows));
            CHECK_OK(episode_rows(s.replay, next, 2, got));
            CHECK(got[0].previous == -1000 && got[1].previous == -1000);
            next += rows;
        }
        CHECK_EQUAL(episode_appended(s.replay), next);
        gpur_writer_destroy(other);
        kit_close(&s);
    }
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(the_step_after_an_end_only_resets_where_the_environment_does_it_then);
    RUN(the_step_of_an_end_brings_both_observations_where_the_environment_resets_in_it);
    RUN(any_mode_can_be_reset_by_hand);
    RUN(a_mode_that_is_none_is_refused);
    RUN(extras_belong_to_the_first_step_and_are_asked_for);
    RUN(previous_must_be_one_int64_for_a_step);
    RUN(previous_is_the_id_of_the_environments_row_before_beside_all_other_ways_in);
    return test_main_end();
}
