/* SPDX-License-Identifier: MIT */
/* The weights of policies: as bytes, and in files of policies, of learners and of other programs; what is refused, and
 * that it changes nothing. */
#include "file/checkpoint_file.h"
#include "learn/acting/policy.h"
#include "learn/dqn/dqn.h"
#include "support/file_utils.h"
#include "support/learner_fixture.h"
#include "support/policy_fixture.h"
#include "test.h"

#include <sys/stat.h>
#include <unistd.h>

enum { MAX_BYTES = 1 << 16, HEADER = 64 };

static gpur_device *device;
static learner_fixture fixture;

/* The weights and their version, as bytes. */
typedef struct weights {
    int64_t bytes;
    unsigned char data[MAX_BYTES];
} weights;

static gpur_status get(gpur_policy *policy, weights *w)
{
    w->bytes = gpur_policy_weights_bytes(policy);
    return w->bytes <= MAX_BYTES ? gpur_policy_get_weights(policy, w->data, w->bytes) : GPUR_OUT_OF_MEMORY;
}

static int are_equal(const weights *a, const weights *b)
{
    return a->bytes == b->bytes && memcmp(a->data, b->data, (size_t)a->bytes) == 0;
}

static int64_t version_in(const weights *w)
{
    int64_t version = 0;
    memcpy(&version, w->data + 24, sizeof version);
    return version;
}

/* A learner that has trained for 6 steps, and a policy with its weights; `other` is a policy of other weights. */
typedef struct subjects {
    int is_conv;
    conv_fixture conv;
    gpur_learner *learner;
    gpur_policy *policy, *other;
} subjects;

static gpur_status open_subjects(subjects *s, int is_conv)
{
    gpur_dqn_config config = is_conv ? conv_config(GPUR_CHW) : learner_fixture_config(GPUR_HEAD_DUELING, 1);
    const int kind = is_conv ? ROWS_PLANES : ROWS_PLAIN;
    *s = (subjects){.is_conv = is_conv};
    if (is_conv)
        GPUR_TRY(conv_fixture_open(&s->conv, device, &config));
    s->learner = is_conv ? s->conv.learner : learner_fixture_open_learner(&fixture, device, config);
    s->policy = policy_fixture_open(device, &config, kind, 2);
    config.seed++;
    s->other = policy_fixture_open(device, &config, kind, 1);
    if (!s->learner || !s->policy || !s->other)
        return GPUR_OUT_OF_MEMORY;
    GPUR_TRY(gpur_learner_train(s->learner, 6));
    return gpur_policy_pull(s->policy, s->learner, GPUR_WEIGHTS_ONLINE);
}

static void close_subjects(subjects *s)
{
    gpur_policy_destroy(s->policy);
    gpur_policy_destroy(s->other);
    if (s->is_conv)
        conv_fixture_close(&s->conv);
    else
        learner_fixture_close_learner(&fixture, s->learner);
}

/* The device has the weights of the first convolution in another order than that of their shape. */
TEST(bytes_carry_weights_and_version_to_another_policy)
{
    static weights sent, before, received;
    static unsigned char unaligned[MAX_BYTES + 1];
    for (int is_conv = 0; is_conv < 2; is_conv++) {
        subjects s;
        CHECK_OK(open_subjects(&s, is_conv));
        CHECK_OK(get(s.policy, &sent));
        CHECK_OK(get(s.other, &before));
        CHECK_EQUAL(sent.bytes, HEADER + 4 * gpur_params_weights(&gpur_dqn_of(s.learner)->network.params));
        CHECK(version_in(&sent) == 6 && version_in(&before) == 0 && !are_equal(&sent, &before));
        memcpy(unaligned + 1, sent.data, (size_t)sent.bytes);
        CHECK_OK(gpur_policy_set_weights(s.other, unaligned + 1, sent.bytes));
        CHECK_OK(get(s.other, &received));
        CHECK(are_equal(&sent, &received));
        CHECK_EQUAL(gpur_policy_version(s.other), 6);
        CHECK_OK(gpur_policy_set_weights(s.other, before.data, before.bytes));
        CHECK_EQUAL(gpur_policy_version(s.other), 0);
        CHECK_OK(get(s.other, &received));
        CHECK(are_equal(&before, &received));
        close_subjects(&s);
    }
}

/* Changes `count` bytes at `at` of good bytes, and expects that they are refused. */
static void check_bytes_refused(gpur_policy *policy, const weights *good, int64_t at, const void *bytes, size_t count,
                                const char *message)
{
    static weights before, after, bad;
    CHECK_OK(get(policy, &before));
    bad = *good;
    memcpy(bad.data + at, bytes, count);
    CHECK_FAILS(gpur_policy_set_weights(policy, bad.data, bad.bytes), GPUR_INVALID_ARGUMENT, message);
    CHECK_OK(get(policy, &after));
    CHECK(are_equal(&before, &after));
}

TEST(bytes_that_are_damaged_or_of_another_network_are_refused)
{
    static weights good;
    subjects s;
    const gpur_dqn_config without_value = learner_fixture_config(GPUR_HEAD_Q, 1);
    const int64_t minus_one = -1, count = 5;
    const float bad[] = {NAN, INFINITY};
    CHECK_OK(open_subjects(&s, 0));
    CHECK_OK(get(s.policy, &good));
    check_bytes_refused(s.other, &good, 0, "X", 1, "the weights do not begin with \"GPURWTS1\"");
    check_bytes_refused(s.other, &good, 9, "X", 1, "a network whose tensors have other names or shapes");
    check_bytes_refused(s.other, &good, 16, &count, sizeof count, "the weights have 5 numbers; this policy's network");
    check_bytes_refused(s.other, &good, 24, &minus_one, sizeof minus_one, "the version of the weights is -1");
    check_bytes_refused(s.other, &good, 40, "X", 1, "header are not 0");
    check_bytes_refused(s.other, &good, HEADER, bad, sizeof bad, "2 of the 80 numbers of \"trunk.0.weight\" are NaN");
    CHECK_FAILS(gpur_policy_set_weights(s.other, good.data, good.bytes - 4), GPUR_INVALID_ARGUMENT, "bytes is ");
    CHECK_FAILS(gpur_policy_set_weights(s.other, NULL, good.bytes), GPUR_INVALID_ARGUMENT, "must not be NULL");
    CHECK_FAILS(gpur_policy_set_weights(NULL, good.data, good.bytes), GPUR_INVALID_ARGUMENT, "must not be NULL");
    CHECK_FAILS(gpur_policy_get_weights(s.other, good.data, good.bytes + 1), GPUR_INVALID_ARGUMENT, "bytes is ");
    CHECK_FAILS(gpur_policy_get_weights(s.other, NULL, good.bytes), GPUR_INVALID_ARGUMENT, "must not be NULL");
    CHECK_EQUAL(gpur_policy_weights_bytes(NULL), 0);
    gpur_policy *const plain = policy_fixture_open(device, &without_value, ROWS_PLAIN, 1);
    CHECK(plain);
    CHECK_FAILS(gpur_policy_set_weights(plain, good.data, good.bytes), GPUR_INVALID_ARGUMENT, "bytes is ");
    gpur_policy_destroy(plain);
    close_subjects(&s);
}

#ifdef GPUR_HAS_FILES

/* Loads a file into `other`, which then has the weights `wanted` in this version. */
static void check_loaded(subjects *s, const char *path, weights wanted, int64_t version)
{
    static weights got;
    memcpy(wanted.data + 24, &version, sizeof version);
    CHECK_OK(gpur_policy_load(s->other, path, NULL));
    CHECK_EQUAL(gpur_policy_version(s->other), version);
    CHECK_OK(get(s->other, &got));
    CHECK(are_equal(&got, &wanted));
}

/* Puts other words of the same length into a file. */
static void replace_words(const char *path, const char *from, const char *to)
{
    int64_t bytes = 0;
    unsigned char *const data = read_file(path, &bytes);
    CHECK(data);
    for (unsigned char *at = memmem(data, (size_t)bytes, from, strlen(from)); at;
         at = memmem(data, (size_t)bytes, from, strlen(from)))
        memcpy(at, to, strlen(to));
    CHECK_EQUAL(write_file(path, data, bytes), 0);
    free(data);
}

/* Opens a policy from the file alone: it has the network, observations and weights of `like`. */
static void check_opened(gpur_policy *like, const char *path, weights wanted, int64_t version)
{
    static weights found;
    gpur_policy_config settings = {.size = sizeof settings}, config = {.size = sizeof config};
    gpur_policy *policy = NULL;
    CHECK_OK(gpur_policy_get_config(like, &config));
    CHECK_OK(gpur_policy_config_init(&settings, sizeof settings));
    settings.max_batch = 3, settings.streams = 2;
    CHECK_OK(gpur_policy_open(device, path, &settings, &policy));
    CHECK_OK(gpur_policy_get_config(policy, &settings));
    CHECK_EQUAL(settings.network.trunk_count, config.network.trunk_count);
    for (int32_t i = 0; i < config.network.trunk_count; i++)
        CHECK(memcmp(&settings.network.trunk[i], &config.network.trunk[i], sizeof(gpur_layer)) == 0);
    CHECK(memcmp(&settings.obs, &config.obs, sizeof config.obs) == 0);
    CHECK(settings.network.input_scale == config.network.input_scale);
    CHECK_EQUAL(settings.network.num_actions, config.network.num_actions);
    CHECK(settings.max_batch == 3 && settings.streams == 2);
    CHECK_OK(get(policy, &found));
    memcpy(wanted.data, found.data, HEADER); /* the version is that of the file */
    CHECK(are_equal(&found, &wanted));
    CHECK_EQUAL(gpur_policy_version(policy), version);
    gpur_policy_destroy(policy);
}

static void check_not_opened(const char *path, gpur_status status, const char *message)
{
    gpur_policy *policy = (gpur_policy *)(void *)&fixture; /* must become NULL */
    CHECK_FAILS(gpur_policy_open(device, path, NULL, &policy), status, message);
    CHECK(!policy);
}

TEST(a_policy_is_opened_from_the_folder_of_a_run)
{
    static weights online;
    const char *const folder = test_file_path("run");
    char at_end[512], checkpoint[512], last[512];
    subjects s;
    snprintf(at_end, sizeof at_end, "%s/learner.safetensors", folder);
    snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint", folder);
    snprintf(last, sizeof last, "%s/checkpoint/learner.safetensors", folder);
    CHECK_OK(open_subjects(&s, 0));
    CHECK(mkdir(folder, 0777) == 0 && mkdir(checkpoint, 0777) == 0);
    check_not_opened(folder, GPUR_FILE_ERROR, "is a folder and has neither learner.safetensors nor checkpoint/learner");
    CHECK_OK(gpur_learner_save(s.learner, at_end, NULL));
    CHECK_OK(gpur_learner_train(s.learner, 3));
    CHECK_OK(gpur_policy_pull(s.policy, s.learner, GPUR_WEIGHTS_ONLINE));
    CHECK_OK(get(s.policy, &online));
    CHECK_OK(gpur_learner_save(s.learner, last, NULL));
    check_opened(s.policy, folder, online, 9); /* a run that has gone on */
    check_opened(s.policy, checkpoint, online, 9);
    CHECK_OK(gpur_learner_save(s.learner, at_end, NULL));
    check_opened(s.policy, folder, online, 9);
    CHECK(remove(at_end) == 0 && remove(last) == 0 && rmdir(checkpoint) == 0 && rmdir(folder) == 0);
    check_not_opened(folder, GPUR_FILE_ERROR, "run");
    close_subjects(&s);
}

TEST(files_of_policies_learners_and_other_programs_are_loaded)
{
    static weights first, online, zero;
    const char *const ours = test_file_path("policy"), *const theirs = test_file_path("weights");
    const char *const whole = test_file_path("learner"), *const foreign = test_file_path("foreign");
    for (int is_conv = 0; is_conv < 2; is_conv++) {
        subjects s;
        gpur_checkpoint_info info = {.size = sizeof info};
        CHECK_OK(open_subjects(&s, is_conv));
        CHECK_OK(get(s.policy, &first));
        CHECK_OK(get(s.other, &zero));
        CHECK_OK(gpur_policy_save(s.policy, ours, NULL));
        CHECK_OK(gpur_learner_train(s.learner, 3));
        CHECK_OK(gpur_learner_save_weights(s.learner, theirs, NULL));
        CHECK_OK(gpur_learner_save_weights(s.learner, foreign, NULL));
        CHECK_OK(gpur_learner_save(s.learner, whole, NULL));
        CHECK_OK(gpur_policy_pull(s.policy, s.learner, GPUR_WEIGHTS_ONLINE));
        CHECK_OK(get(s.policy, &online));
        CHECK(!are_equal(&first, &online));
        check_loaded(&s, ours, first, 6);
        check_loaded(&s, theirs, online, 9);
        check_loaded(&s, ours, first, 6);
        check_loaded(&s, whole, online, 9);
        check_loaded(&s, ours, first, 6);
        check_opened(s.policy, ours, first, 6);
        check_opened(s.policy, theirs, online, 9);
        check_opened(s.policy, whole, online, 9);
        replace_words(foreign, "gpureplay", "otherlibs");
        replace_words(foreign, "weights_version", "weights-version");
        check_loaded(&s, foreign, online, 0);
        replace_words(foreign, "\"layers\"", "\"strata\"");
        check_not_opened(foreign, GPUR_FILE_ERROR, "does not say \"layers\" of its network");
        CHECK_OK(gpur_checkpoint_get_info(ours, &info));
        CHECK(strcmp(info.kind, "weights") == 0 && info.steps == 6 && info.weights == (first.bytes - HEADER) / 4);
        CHECK_OK(gpur_learner_load_weights(s.learner, ours, NULL)); /* and a learner takes a policy's */
        CHECK_OK(gpur_policy_pull(s.policy, s.learner, GPUR_WEIGHTS_TARGET));
        CHECK_OK(get(s.policy, &online));
        CHECK(memcmp(online.data + HEADER, first.data + HEADER, (size_t)(first.bytes - HEADER)) == 0);
        close_subjects(&s);
    }
}

static void check_file_refused(gpur_policy *policy, const char *path, const gpur_checkpoint_options *options,
                               gpur_status status, const char *message)
{
    static weights before, after;
    CHECK_OK(get(policy, &before));
    CHECK_FAILS(gpur_policy_load(policy, path, options), status, message);
    CHECK_OK(get(policy, &after));
    CHECK(are_equal(&before, &after));
}

static int32_t stop_at_once(void *user, int64_t done, int64_t all)
{
    (void)user, (void)done, (void)all;
    return 1;
}

/* A policy of the subjects' kind with another setting. */
static void check_other_network(gpur_policy_config config, const char *weights_file, const char *on_weights,
                                const char *learner_file, const char *on_learner)
{
    gpur_policy *policy = NULL;
    CHECK_OK(gpur_policy_create(device, &config, &policy));
    check_file_refused(policy, weights_file, NULL, GPUR_INVALID_ARGUMENT, on_weights);
    check_file_refused(policy, learner_file, NULL, GPUR_INVALID_ARGUMENT, on_learner);
    gpur_policy_destroy(policy);
}

TEST(files_that_do_not_fit_or_are_damaged_are_refused)
{
    const char *const good = test_file_path("good"), *const whole = test_file_path("whole");
    const char *const replay = test_file_path("replay");
    const gpur_dqn_config learned = learner_fixture_config(GPUR_HEAD_DUELING, 1);
    gpur_policy_config c = policy_fixture_config(&learned, ROWS_PLAIN, 1);
    gpur_checkpoint_options options;
    const float nan = NAN;
    float number = 0;
    subjects s;
    CHECK_OK(open_subjects(&s, 0));
    CHECK_OK(gpur_policy_save(s.policy, good, NULL));
    CHECK_OK(gpur_learner_save(s.learner, whole, NULL));
    CHECK_OK(gpur_replay_save(fixture.replay, replay, NULL));
    c.network.trunk[0].units = 17;
    check_other_network(
        c, good, "tensor \"trunk.0.weight\" is F32 of 16 x 5 in", whole,
        "layer.0 is \"dense 16, activation 1\" in the file; this policy has \"dense 17, activation 1\"");
    c = policy_fixture_config(&learned, ROWS_PLAIN, 1), c.obs.shape[0] = 6;
    check_other_network(c, good, "in this network it is F32 of 16 x 6", whole,
                        "tensor \"online.trunk.0.weight\" is F32 of 16 x 5 in");
    c = policy_fixture_config(&learned, ROWS_PLAIN, 1), c.network.head = GPUR_HEAD_Q;
    check_other_network(c, good, "has no tensor \"q.hidden.weight\"", whole, "head is \"1\" in the file; this policy");
    check_file_refused(s.other, test_file_path("none"), NULL, GPUR_FILE_ERROR, "none");
    check_file_refused(s.other, replay, NULL, GPUR_FILE_ERROR, "it is a replay file");
    CHECK_OK(gpur_checkpoint_options_init(&options, sizeof options));
    options.progress = stop_at_once;
    check_file_refused(s.other, good, &options, GPUR_INTERRUPTED, "the progress function ended it");
    check_file_refused(s.other, whole, &options, GPUR_INTERRUPTED, "the progress function ended it");
    float *const first = gpur_dqn_of(s.learner)->step.optimizer.weights;
    CHECK_OK(gpur_device_copy(device, &number, first, sizeof number));
    CHECK_OK(gpur_device_copy(device, first, &nan, sizeof nan));
    CHECK_OK(gpur_policy_pull(s.policy, s.learner, GPUR_WEIGHTS_ONLINE)); /* as before a divergence is seen */
    CHECK_FAILS(gpur_policy_save(s.policy, good, NULL), GPUR_FILE_ERROR,
                "good is not written: 1 of the 80 numbers of \"trunk.0.weight\" are NaN");
    CHECK_OK(gpur_policy_load(s.policy, good, NULL));
    CHECK_OK(gpur_device_copy(device, first, &number, sizeof number));
    replace_words(good, "\"weights_version\":\"6\"", "\"weights_version\":\"7\"");
    check_file_refused(s.other, good, NULL, GPUR_FILE_ERROR, "its checksum differs");
    replace_words(whole, "\"steps_enqueued\":\"6\"", "\"steps_enqueued\":\"7\"");
    check_file_refused(s.other, whole, NULL, GPUR_FILE_ERROR, "its header is not what was written");
    CHECK_FAILS(gpur_policy_save(NULL, good, NULL), GPUR_INVALID_ARGUMENT, "policy is NULL");
    CHECK_FAILS(gpur_policy_save(s.other, NULL, NULL), GPUR_INVALID_ARGUMENT, "path is NULL");
    CHECK_FAILS(gpur_policy_load(NULL, good, NULL), GPUR_INVALID_ARGUMENT, "policy is NULL");
    CHECK_FAILS(gpur_policy_load(s.other, NULL, NULL), GPUR_INVALID_ARGUMENT, "path is NULL");
    close_subjects(&s);
}

#endif

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
    RUN(bytes_carry_weights_and_version_to_another_policy);
    RUN(bytes_that_are_damaged_or_of_another_network_are_refused);
#ifdef GPUR_HAS_FILES
    RUN(a_policy_is_opened_from_the_folder_of_a_run);
    RUN(files_of_policies_learners_and_other_programs_are_loaded);
    RUN(files_that_do_not_fit_or_are_damaged_are_refused);
    test_remove_folder();
#endif
    gpur_device_close(device);
    return test_main_end();
}
