/* SPDX-License-Identifier: MIT */
/* How far back a linked replay's transitions may link, and what that means for the number of environments. */
#include "support/replay_kit.h"
#include "test.h"

static const gpur_field vector[] = {{"obs", GPUR_FLOAT32, {27}},
                                    {"action", GPUR_INT32, {0}},
                                    {"reward", GPUR_FLOAT32, {0}},
                                    {"next_obs", GPUR_FLOAT32, {27}},
                                    {"terminated", GPUR_BOOL, {0}}};

/* The last line that the device logged. */
typedef struct log_line {
    int count;
    char text[400];
} log_line;

static void keep_line(void *user, const char *line)
{
    log_line *const l = user;
    l->count++;
    snprintf(l->text, sizeof l->text, "%s", line);
}

/* A replay of 300 transitions, which needs three frames of each environment in reach, and its writers. */
typedef struct crowd {
    log_line line;
    gpur_device *device;
    gpur_replay *replay;
    gpur_writer *writers[2];
} crowd;

static int crowd_open(crowd *c, int64_t frame_slack)
{
    gpur_device_config device = test_device_config();
    gpur_replay_config config = kit_config(vector, 5, 300, 20, 40);
    memset(c, 0, sizeof *c);
    device.log = keep_line, device.log_user = &c->line;
    config.layout = GPUR_LINKED, config.frame_slack = frame_slack;
    const int opened = gpur_device_open(test_device_name(), &device, &c->device) == GPUR_OK;
    c->line.count = 0; /* opening may have had something to say */
    return opened && gpur_replay_create(c->device, &config, &c->replay) == GPUR_OK;
}

static void crowd_close(crowd *c)
{
    for (int i = 0; i < 2; i++)
        gpur_writer_destroy(c->writers[i]);
    gpur_replay_destroy(c->replay);
    gpur_device_close(c->device);
}

/* Steps of all environments of the first writer, and what the replay says then. */
static void crowd_play(crowd *c, int steps, gpur_replay_stats *stats)
{
    static const float obs[200 * 27], reward[200];
    static const int32_t action[200];
    static const uint8_t no[200];
    stats->size = sizeof *stats;
    CHECK_OK(gpur_writer_reset(c->writers[0], -1, obs));
    for (int i = 0; i < steps; i++)
        CHECK_OK(gpur_writer_step(c->writers[0], action, reward, obs, no, NULL));
    CHECK_OK(gpur_replay_get_stats(c->replay, stats));
}

TEST(more_environments_than_the_default_reaches_are_refused)
{
    crowd c;
    CHECK(crowd_open(&c, 0));
    CHECK_OK(gpur_writer_create(c.replay, 64, &c.writers[0]));
    CHECK_STATUS(gpur_writer_create(c.replay, 1, &c.writers[1]), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("num_envs is 1, and other writers have 64; the last 3 frames of each must be in reach");
    CHECK_MESSAGE("reaches back 192: set gpur_replay_config.frame_slack to 195 or more");
    CHECK(c.writers[1] == NULL);
    gpur_replay_stats stats;
    crowd_play(&c, 50, &stats);
    CHECK_EQUAL(stats.frames_stored, 51 * 64);
    CHECK_EQUAL(stats.visible, 300);
    gpur_writer_destroy(c.writers[0]);
    c.writers[0] = NULL;
    CHECK_STATUS(gpur_writer_create(c.replay, 65, &c.writers[0]), GPUR_INVALID_ARGUMENT);
    CHECK_OK(gpur_writer_create(c.replay, 1, &c.writers[0]));
    CHECK_EQUAL(c.line.count, 0);
    crowd_close(&c);
}

TEST(a_slack_of_ones_own_that_is_too_short_is_logged)
{
    for (int64_t lacks = 0; lacks <= 500; lacks += 500) {
        crowd c;
        CHECK(crowd_open(&c, 600 - lacks));
        CHECK_OK(gpur_writer_create(c.replay, 200, &c.writers[0]));
        CHECK_EQUAL(c.line.count, lacks > 0);
        CHECK(!lacks || strstr(c.line.text, "reaches back 100: set gpur_replay_config.frame_slack to 600 or more"));
        gpur_replay_stats stats;
        crowd_play(&c, 20, &stats);
        CHECK_EQUAL(stats.frames_stored, lacks ? 2 * 20 * 200 : 21 * 200);
        CHECK(lacks ? stats.visible < 250 : stats.visible == 300);
        crowd_close(&c);
    }
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(more_environments_than_the_default_reaches_are_refused);
    RUN(a_slack_of_ones_own_that_is_too_short_is_logged);
    return test_main_end();
}
