/* SPDX-License-Identifier: MIT */
/* Ape-X with remote actors whose blocks the caller brings: here from threads of this program, and blocks that are made
 * by hand: good, damaged, of others, and repeated. */
#include "base/clock.h"
#include "support/apex_fixture.h"
#include "support/block_damage.h"
#include "support/file_utils.h"
#include "support/run_fixture.h"
#include "test.h"

#include <pthread.h>
#include <time.h>

enum { ROWS = 10, REMOTE_ACTORS = 3 };

static apex_fixture fixture;
static apex_settings settings;

static void choose_settings(const char *name)
{
    CHECK_OK(apex_fixture_settings(name, &settings));
    settings.replay.min_size = ROWS;
    settings.apex.actors = 0;
    settings.apex.remote_actors = REMOTE_ACTORS;
}

static void open_run(const char *name)
{
    const gpur_device_config device = test_device_config();
    choose_settings(name);
    CHECK_OK(apex_fixture_open(&fixture, test_device_name(), &device, &settings));
}

/* Remote actors. */

typedef struct remote {
    pthread_t thread;
    int32_t actor;
    gpur_status status;
    int64_t blocks, episodes, most, pulled; /* most: it ends with so many blocks */
    _Atomic int is_done;
} remote;

static gpur_status bring(const void *block, int64_t bytes)
{
    gpur_status status = GPUR_WOULD_BLOCK;
    while (status == GPUR_WOULD_BLOCK)
        status = gpur_apex_receive_block(fixture.run, block, bytes);
    return status;
}

static int32_t take_block(void *user, const void *block, int64_t bytes)
{
    remote *const w = user;
    return bring(block, bytes) != GPUR_OK || ++w->blocks == w->most;
}

static int32_t take_episode(void *user, int64_t length, double episode_return)
{
    remote *const w = user;
    w->episodes++;
    return gpur_apex_receive_episode(fixture.run, w->actor, length, episode_return) != GPUR_OK;
}

static int32_t copy_weights(void *user, void *weights, int64_t bytes, int32_t *is_new)
{
    remote *const w = user;
    int64_t broadcast = 0;
    gpur_status status = gpur_apex_get_weights(fixture.run, NULL, 0, &broadcast);
    *is_new = status == GPUR_OK && broadcast > w->pulled;
    if (*is_new)
        status = gpur_apex_get_weights(fixture.run, weights, bytes, &w->pulled);
    return status != GPUR_OK;
}

static gpur_status act(remote *w)
{
    gpur_apex_config config = settings.apex;
    const gpur_apex_transport transport = {sizeof transport, take_block, take_episode, copy_weights, w};
    config.actors = REMOTE_ACTORS;
    return gpur_apex_act(&settings.run, &config, w->actor, 7, &settings.replay, APEX_NETWORKS(&settings), 0,
                         &transport);
}

static void *run_remote_actor(void *user)
{
    remote *const w = user;
    w->status = act(w);
    atomic_store(&w->is_done, 1);
    return NULL;
}

/* The first call of gpur_run_advance does it. */
static void broadcast_first_weights(void)
{
    gpur_run_stop(fixture.run);
    CHECK_EQUAL(gpur_run_advance(fixture.run, 1, 0), GPUR_INTERRUPTED);
}

/* Each row that a remote actor handed over is in the replay, and its epsilons and episodes are those of the ladder. */
TEST(remote_actors_feed_a_learner_and_act_by_its_newest_weights)
{
    remote remote_actors[REMOTE_ACTORS] = {{0}};
    gpur_replay_stats replay = {.size = sizeof replay};
    int64_t blocks = 0, episodes = 0;
    open_run("cartpole");
    for (int i = 0; i < REMOTE_ACTORS; i++) {
        remote_actors[i].actor = i;
        remote_actors[i].most = 60 + i;
    }
    int64_t broadcast = -1;
    CHECK_OK(gpur_apex_get_weights(fixture.run, NULL, 0, &broadcast));
    CHECK_EQUAL(broadcast, 0);
    broadcast_first_weights();
    for (int i = 0; i < REMOTE_ACTORS; i++)
        CHECK_EQUAL(pthread_create(&remote_actors[i].thread, NULL, run_remote_actor, &remote_actors[i]), 0);
    for (int done = 0; done < REMOTE_ACTORS;) {
        CHECK_OK(gpur_run_advance(fixture.run, 0, 1));
        done = 0;
        for (int i = 0; i < REMOTE_ACTORS; i++)
            done += atomic_load(&remote_actors[i].is_done);
    }
    for (int i = 0; i < REMOTE_ACTORS; i++) {
        pthread_join(remote_actors[i].thread, NULL);
        CHECK_EQUAL(remote_actors[i].status, GPUR_INTERRUPTED);
        CHECK_EQUAL(remote_actors[i].blocks, remote_actors[i].most);
        CHECK(remote_actors[i].pulled > 1);
        blocks += remote_actors[i].blocks, episodes += remote_actors[i].episodes;
    }
    CHECK_OK(gpur_run_advance(fixture.run, 0, 0));
    const gpur_run_stats stats = apex_fixture_stats(&fixture);
    CHECK_OK(gpur_replay_get_stats(fixture.replay, &replay));
    CHECK_EQUAL(stats.apex.blocks, blocks);
    CHECK(stats.apex.rows == ROWS * blocks && stats.env_steps == stats.apex.rows && replay.appended == stats.apex.rows);
    CHECK(stats.apex.starts == REMOTE_ACTORS && stats.apex.actors == REMOTE_ACTORS && stats.apex.deaths == 0);
    CHECK(stats.apex.refused_blocks == 0 && stats.apex.lost_blocks == 0);
    CHECK(episodes > 0 && stats.episodes == episodes && fixture.kinds[GPUR_RUN_EPISODE] == episodes);
    CHECK(stats.recent_return >= 1.0 && fixture.most_actor == REMOTE_ACTORS - 1);
    apex_fixture_close(&fixture);
}

static int64_t most_rows; /* of a block */

static int32_t measure_block(void *user, const void *block, int64_t bytes)
{
    gpur_block_header header;
    remote *const w = user;
    (void)bytes;
    memcpy(&header, block, sizeof header);
    most_rows = gpur_max(most_rows, header.rows);
    return ++w->blocks == w->most;
}

/* Of 9 rows under way each of three remote actors has a block of 3, if there is a limiter. */
TEST(a_remote_actor_has_its_share_of_the_rows_under_way)
{
    remote w = {.most = 4};
    const gpur_apex_transport transport = {sizeof transport, measure_block, take_episode, copy_weights, &w};
    open_run("cartpole");
    broadcast_first_weights();
    settings.apex.actors = REMOTE_ACTORS;
    settings.apex.rows_under_way = 9;
    for (int is_limited = 1; is_limited >= 0; is_limited--) {
        settings.apex.samples_per_insert = is_limited ? 8.0 : 0.0;
        most_rows = w.blocks = w.pulled = 0;
        CHECK_EQUAL(gpur_apex_act(&settings.run, &settings.apex, 0, 0, &settings.replay, APEX_NETWORKS(&settings), 0,
                                  &transport),
                    GPUR_INTERRUPTED);
        CHECK_EQUAL(most_rows, is_limited ? 3 : ROWS);
    }
    apex_fixture_close(&fixture);
}

/* The rule of the replay is that of a remote actor. */
TEST(a_remote_actor_takes_what_is_not_finite_as_its_replay_says)
{
    remote w = {.most = 8};
    const gpur_apex_transport transport = {sizeof transport, measure_block, take_episode, copy_weights, &w};
    open_run("numbers:bad=30");
    broadcast_first_weights();
    settings.apex.actors = REMOTE_ACTORS;
    for (int32_t checks = 0; checks < 2; checks++) {
        settings.replay.check_finite = checks;
        w.blocks = w.pulled = 0;
        const gpur_status status = gpur_apex_act(&settings.run, &settings.apex, 0, checks, &settings.replay,
                                                 APEX_NETWORKS(&settings), 0, &transport);
        TEST_REQUIRE(status == (checks ? GPUR_INVALID_ARGUMENT : GPUR_INTERRUPTED), "%s", gpur_last_error());
        CHECK(checks ? w.blocks < w.most : w.blocks == w.most);
    }
    CHECK_MESSAGE("step 30: the observation is NaN; its numbers must be finite");
    apex_fixture_close(&fixture);
}

/* Blocks that are made here, of zeros. */

static unsigned char block[1 << 16];

static int64_t make_block(const gpur_replay_config *replay, int64_t actor, int64_t incarnation, int64_t sequence,
                          int64_t rows)
{
    static const unsigned char zeros[64 * RUN_FEATURES * sizeof(float)];
    const void *fields[GPUR_APEX_FIELDS];
    gpur_block_format *format = NULL;
    int64_t bytes = -1;
    for (int i = 0; i < GPUR_APEX_FIELDS; i++)
        fields[i] = zeros;
    const gpur_block_input input = {.size = sizeof input,
                                    .actor = actor,
                                    .incarnation = incarnation,
                                    .sequence = sequence,
                                    .first_step = ROWS * sequence,
                                    .rows = rows,
                                    .fields = fields};
    if (gpur_block_format_create(replay, &format) == GPUR_OK)
        (void)gpur_block_pack(format, &input, block, sizeof block, &bytes);
    gpur_block_format_destroy(format);
    return bytes;
}

static int64_t make(int64_t actor, int64_t incarnation, int64_t sequence)
{
    return make_block(&settings.replay, actor, incarnation, sequence, ROWS);
}

typedef struct errand {
    int64_t bytes;
    gpur_status status;
    _Atomic int is_done;
} errand;

static void *run_errand(void *user)
{
    errand *const e = user;
    e->status = bring(block, e->bytes);
    atomic_store(&e->is_done, 1);
    return NULL;
}

/* Brings the block while the run is advanced. */
static gpur_status deliver(int64_t bytes)
{
    pthread_t thread;
    errand e = {.bytes = bytes};
    if (pthread_create(&thread, NULL, run_errand, &e) != 0)
        return GPUR_OUT_OF_MEMORY;
    gpur_status advanced = GPUR_OK;
    while (advanced == GPUR_OK && !atomic_load(&e.is_done))
        advanced = gpur_run_advance(fixture.run, 0, 1);
    pthread_join(thread, NULL);
    return advanced == GPUR_OK ? e.status : advanced;
}

static void *advance(void *user)
{
    (void)user;
    (void)gpur_run_advance(fixture.run, 0, INT64_MAX);
    return NULL;
}

/* The learner must do hundreds of thousands of train steps before the limiter lets in this block. */
TEST(a_start_is_counted_while_the_block_before_it_waits_for_the_limiter)
{
    pthread_t learner, other;
    errand e = {0};
    const gpur_device_config device = test_device_config();
    choose_settings("cartpole");
    settings.apex.samples_per_insert = 1e6;
    settings.apex.rows_under_way = ROWS * REMOTE_ACTORS;
    settings.apex.limiter_timeout = 1e6;
    CHECK_OK(apex_fixture_open(&fixture, test_device_name(), &device, &settings));
    CHECK_EQUAL(pthread_create(&learner, NULL, advance, NULL), 0);
    for (int64_t sequence = 0; sequence < 11; sequence++)
        CHECK_OK(bring(block, make(0, 1, sequence)));
    e.bytes = make(0, 1, 11);
    CHECK_EQUAL(pthread_create(&other, NULL, run_errand, &e), 0);
    nanosleep(&(struct timespec){.tv_nsec = 300 * 1000 * 1000}, NULL);
    CHECK_EQUAL(atomic_load(&e.is_done), 0);
    const double begin = gpur_clock_seconds();
    CHECK_OK(gpur_apex_receive_start(fixture.run, 1, 5));
    CHECK_EQUAL(atomic_load(&e.is_done), 0);
    CHECK_OK(gpur_apex_receive_start(fixture.run, 0, 2));
    CHECK(gpur_clock_seconds() - begin < 5.0);
    pthread_join(other, NULL);
    CHECK_OK(e.status);
    const gpur_run_stats stats = apex_fixture_stats(&fixture);
    CHECK(stats.apex.starts == 3 && stats.apex.deaths == 1 && stats.apex.limiter_timeouts == 0);
    gpur_run_stop(fixture.run);
    pthread_join(learner, NULL);
    apex_fixture_close(&fixture);
}

/* Refused, counted, and nothing else changed: not even with the run closed does the caller wait. */
static void check_refused(int64_t bytes, gpur_status wanted, const char *text)
{
    const gpur_run_stats before = apex_fixture_stats(&fixture);
    CHECK_FAILS(gpur_apex_receive_block(fixture.run, block, bytes), wanted, text);
    gpur_run_stats after = apex_fixture_stats(&fixture);
    CHECK_EQUAL(after.apex.refused_blocks, before.apex.refused_blocks + 1);
    CHECK(after.apex.rows == before.apex.rows && after.apex.blocks == before.apex.blocks &&
          after.apex.lost_blocks == before.apex.lost_blocks);
    CHECK(after.apex.starts == before.apex.starts && after.apex.deaths == before.apex.deaths);
    CHECK_EQUAL(gpur_replay_size(fixture.replay), after.apex.rows);
}

/* Sets a byte of a good block so that its checksum is right and only its rows are bad: a flag that is 2, say. */
static int64_t make_bad_rows(int64_t incarnation)
{
    const int64_t bytes = make(1, incarnation, 0);
    for (int64_t at = bytes - 1; at > 0; at--) {
        gpur_block_header header;
        const unsigned char before = block[at];
        block[at] = 2;
        block_repair(block, bytes);
        if (before <= 1 && gpur_block_read_header(&fixture.apex->format->spec, block, bytes, &header) == GPUR_OK &&
            header.incarnation == incarnation &&
            gpur_block_check(fixture.apex->format, block, bytes, NULL) == GPUR_FILE_ERROR)
            return bytes;
        block[at] = before;
        block_repair(block, bytes);
    }
    return 0;
}

TEST(bad_blocks_are_refused_and_counted)
{
    gpur_replay_config foreign;
    open_run("numbers");
    foreign = settings.replay;
    foreign.gamma = 0.5f;
    CHECK_FAILS(gpur_apex_receive_block(fixture.run, block, make(1, 7, 4)), GPUR_WOULD_BLOCK, "nobody advances it");
    CHECK_OK(deliver(make(1, 7, 4)));
    CHECK_OK(deliver(make(1, 7, 5)));
    const int64_t bytes = make(1, 7, 6);
    check_refused(bytes - 1, GPUR_FILE_ERROR, "");
    check_refused(100, GPUR_FILE_ERROR, "");
    check_refused(0, GPUR_FILE_ERROR, "");
    block[bytes / 2] ^= 16;
    check_refused(bytes, GPUR_FILE_ERROR, "");
    check_refused(make_block(&foreign, 1, 7, 6, ROWS), GPUR_INVALID_ARGUMENT, "format");
    check_refused(make_block(&settings.replay, 1, 7, 6, ROWS + 1), GPUR_INVALID_ARGUMENT, "has 11 rows");
    check_refused(make(REMOTE_ACTORS, 7, 0), GPUR_INVALID_ARGUMENT, "actor is 3 and the run has 3 remote actors");
    check_refused(make(1, 7, 5), GPUR_INVALID_ARGUMENT, "block 5 of actor 1 has come already; the next one is 6");
    check_refused(make(1, 6, 6), GPUR_INVALID_ARGUMENT, "incarnation 6 of actor 1, of which incarnation 7 has come");
    check_refused(make_bad_rows(8), GPUR_FILE_ERROR, "");
    CHECK_FAILS(gpur_apex_receive_block(fixture.run, NULL, 1), GPUR_INVALID_ARGUMENT, "NULL");
    CHECK_OK(deliver(make(1, 7, 6)));
    const gpur_run_stats stats = apex_fixture_stats(&fixture);
    CHECK(stats.apex.rows == 3 * ROWS && stats.apex.blocks == 3 && stats.apex.refused_blocks == 10 &&
          stats.apex.lost_blocks == 0);
    apex_fixture_close(&fixture);
}

TEST(lost_blocks_are_the_gaps_and_a_new_incarnation_is_a_start)
{
    open_run("numbers");
    CHECK_OK(deliver(make(0, 3, 2))); /* the run may be another one than that which took the first two */
    CHECK_OK(deliver(make(0, 3, 5)));
    CHECK_OK(deliver(make(2, 1, 0)));
    CHECK_OK(deliver(make(2, 1, 2)));
    gpur_run_stats stats = apex_fixture_stats(&fixture);
    CHECK(stats.apex.lost_blocks == 3 && stats.apex.starts == 2 && stats.apex.deaths == 0 && stats.apex.actors == 2);
    const int64_t steps = stats.env_steps;
    CHECK_OK(deliver(make(0, 4, 0)));
    CHECK_OK(deliver(make(0, 4, 1)));
    stats = apex_fixture_stats(&fixture);
    CHECK_EQUAL(stats.env_steps, steps + 2 * ROWS); /* of a new incarnation they are counted from 0 on */
    CHECK(stats.apex.lost_blocks == 3 && stats.apex.starts == 3 && stats.apex.deaths == 1 && stats.apex.actors == 2);
    CHECK(stats.apex.rows == 6 * ROWS && stats.apex.refused_blocks == 0);
    CHECK_EQUAL(fixture.kinds[GPUR_RUN_STARTED], 3);
    CHECK_OK(deliver(make(0, 5, 2))); /* of which the first two are missing */
    CHECK_EQUAL(apex_fixture_stats(&fixture).apex.lost_blocks, 5);
    apex_fixture_close(&fixture);
}

/* Also those that die before a block of theirs has come are counted, once each. */
TEST(starts_that_are_told_are_counted_and_so_are_the_deaths_before)
{
    open_run("numbers");
    for (int64_t incarnation = 3; incarnation < 15; incarnation++)
        CHECK_OK(gpur_apex_receive_start(fixture.run, 0, incarnation));
    gpur_run_stats stats = apex_fixture_stats(&fixture);
    CHECK(stats.apex.starts == 12 && stats.apex.deaths == 11 && stats.apex.actors == 0);
    CHECK_OK(deliver(make(0, 14, 2))); /* the first two are missing */
    CHECK_OK(deliver(make(0, 14, 3)));
    CHECK_OK(deliver(make(0, 15, 0))); /* one that was not told */
    CHECK_OK(gpur_apex_receive_start(fixture.run, 0, 16));
    stats = apex_fixture_stats(&fixture);
    CHECK(stats.apex.starts == 14 && stats.apex.deaths == 13 && stats.apex.actors == 1 && stats.apex.lost_blocks == 2);
    CHECK_EQUAL(fixture.kinds[GPUR_RUN_STARTED], 13);
    check_refused(make(0, 15, 1), GPUR_INVALID_ARGUMENT, "incarnation 15 of actor 0, of which incarnation 16 has come");
    CHECK_FAILS(gpur_apex_receive_start(fixture.run, 0, 16), GPUR_INVALID_ARGUMENT,
                "incarnation is 16 and that of actor 0 before was 16; it must be above that");
    CHECK_FAILS(gpur_apex_receive_start(fixture.run, 1, -1), GPUR_INVALID_ARGUMENT, "incarnation is -1");
    CHECK_FAILS(gpur_apex_receive_start(fixture.run, REMOTE_ACTORS, 1), GPUR_INVALID_ARGUMENT, "actor is 3");
    CHECK_FAILS(gpur_apex_receive_start(NULL, 0, 1), GPUR_INVALID_ARGUMENT, "NULL");
    CHECK_OK(deliver(make(0, 16, 0))); /* its steps are counted from 0 on */
    CHECK_EQUAL(apex_fixture_stats(&fixture).env_steps, stats.env_steps + ROWS);
    CHECK_OK(gpur_apex_receive_start(fixture.run, 1, 0));
    CHECK_OK(gpur_apex_receive_episode(fixture.run, 0, 4, 2.5)); /* the one that has told its start alone has none */
    CHECK_NEAR(apex_fixture_stats(&fixture).recent_return, 2.5, 0.0);
    apex_fixture_close(&fixture);
}

/* Workers that have not come do not stand before those that have. */
TEST(the_return_is_that_of_the_greediest_remote_actor_that_came)
{
    open_run("numbers");
    CHECK_OK(deliver(make(0, 1, 0)));
    CHECK_OK(gpur_apex_receive_episode(fixture.run, 0, 4, 2.5));
    CHECK_NEAR(apex_fixture_stats(&fixture).recent_return, 2.5, 0.0);
    CHECK_OK(deliver(make(2, 1, 0)));
    CHECK_OK(gpur_apex_receive_episode(fixture.run, 2, 4, 7.5));
    CHECK_OK(gpur_apex_receive_episode(fixture.run, 0, 4, 100.0));
    CHECK_NEAR(apex_fixture_stats(&fixture).recent_return, 5.0, 0.0);
    apex_fixture_close(&fixture);
}

#ifdef GPUR_HAS_FILES
/* A remote actor that had no answer from a learner that has died sends its block to the next one, too. */
TEST(a_block_that_a_saved_run_has_is_refused_after_a_load)
{
    char folder[512];
    snprintf(folder, sizeof folder, "%s", test_file_path("apex.safetensors"));
    *strrchr(folder, '/') = 0;
    (void)test_file_path("replay.safetensors"), (void)test_file_path("learner.safetensors");
    open_run("numbers");
    CHECK_OK(deliver(make(1, 7, 0)));
    CHECK_OK(deliver(make(1, 7, 1)));
    CHECK_OK(gpur_run_save(fixture.run, folder));
    apex_fixture_close(&fixture);
    open_run("numbers");
    CHECK_OK(gpur_run_load(fixture.run, folder, 0));
    CHECK_FAILS(gpur_apex_receive_block(fixture.run, block, make(1, 7, 1)), GPUR_INVALID_ARGUMENT,
                "block 1 of actor 1 has come already; the next one is 2");
    CHECK_FAILS(gpur_apex_receive_block(fixture.run, block, make(1, 6, 9)), GPUR_INVALID_ARGUMENT, "incarnation 6");
    CHECK_OK(deliver(make(1, 7, 4))); /* what came between the save and the death is gone with the learner */
    const gpur_run_stats stats = apex_fixture_stats(&fixture);
    CHECK(stats.apex.rows == 3 * ROWS && stats.apex.refused_blocks == 2 && stats.apex.lost_blocks == 0);
    apex_fixture_close(&fixture);
    test_remove_folder();
}
#endif

TEST(bad_settings_of_remote_actors_are_refused)
{
    int64_t broadcast = 0;
    remote w = {.actor = REMOTE_ACTORS};
    gpur_apex_transport transport = {sizeof transport, take_block, NULL, copy_weights, &w};
    open_run("numbers");
    CHECK_FAILS(act(&w), GPUR_INVALID_ARGUMENT, "actor is 3 and actors, of all remote actors, 3");
    settings.apex.actors = 1;
    CHECK_FAILS(
        gpur_apex_act(&settings.run, &settings.apex, 0, 0, &settings.replay, APEX_NETWORKS(&settings), 0, &transport),
        GPUR_INVALID_ARGUMENT, "must have all three");
    transport.take_episode = take_episode;
    CHECK_FAILS(
        gpur_apex_act(&settings.run, &settings.apex, 0, -1, &settings.replay, APEX_NETWORKS(&settings), 0, &transport),
        GPUR_INVALID_ARGUMENT, "incarnation is -1");
    CHECK_FAILS(gpur_apex_act(&settings.run, &settings.apex, 0, 0, NULL, APEX_NETWORKS(&settings), 0, &transport),
                GPUR_INVALID_ARGUMENT, "must not be NULL");
    CHECK_FAILS(
        gpur_apex_act(&settings.run, &settings.apex, 0, 0, &settings.replay, APEX_NETWORKS(&settings), 0, &transport),
        GPUR_INVALID_ARGUMENT, "copy_weights gave no weights before the first step");
    settings.fields[0].name = "observation";
    CHECK_FAILS(
        gpur_apex_act(&settings.run, &settings.apex, 0, 0, &settings.replay, APEX_NETWORKS(&settings), 0, &transport),
        GPUR_INVALID_ARGUMENT, "\"obs\"");
    settings.fields[0].name = "obs";
    CHECK_FAILS(gpur_apex_receive_episode(fixture.run, REMOTE_ACTORS, 1, 1.0), GPUR_INVALID_ARGUMENT, "actor is 3");
    CHECK_FAILS(gpur_apex_receive_episode(fixture.run, 0, 0, 1.0), GPUR_INVALID_ARGUMENT, "length is 0");
    CHECK_FAILS(gpur_apex_receive_episode(fixture.run, 0, 1, NAN), GPUR_INVALID_ARGUMENT, "episode_return is nan");
    CHECK_FAILS(gpur_apex_get_weights(fixture.run, block, 5, &broadcast), GPUR_INVALID_ARGUMENT, "bytes is 5");
    CHECK_EQUAL(gpur_apex_weights_bytes(NULL), 0);
    apex_fixture_close(&fixture);
    const gpur_device_config device = test_device_config();
    settings.apex.remote_actors = GPUR_APEX_MAX_ACTORS + 1;
    CHECK_FAILS(apex_fixture_open(&fixture, test_device_name(), &device, &settings), GPUR_INVALID_ARGUMENT,
                "remote_actors is 1025; it must be 0 to 1024");
    apex_fixture_close(&fixture);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(remote_actors_feed_a_learner_and_act_by_its_newest_weights);
    RUN(a_remote_actor_has_its_share_of_the_rows_under_way);
    RUN(a_remote_actor_takes_what_is_not_finite_as_its_replay_says);
    RUN(bad_blocks_are_refused_and_counted);
    RUN(lost_blocks_are_the_gaps_and_a_new_incarnation_is_a_start);
    RUN(starts_that_are_told_are_counted_and_so_are_the_deaths_before);
    RUN(a_start_is_counted_while_the_block_before_it_waits_for_the_limiter);
    RUN(the_return_is_that_of_the_greediest_remote_actor_that_came);
#ifdef GPUR_HAS_FILES
    RUN(a_block_that_a_saved_run_has_is_refused_after_a_load);
#endif
    RUN(bad_settings_of_remote_actors_are_refused);
    return test_main_end();
}
