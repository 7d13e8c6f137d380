/* SPDX-License-Identifier: MIT */
/*
 * Every call that takes memory, a lock or a thread, with each of these refused in turn: the call does all it was asked
 * for, or answers GPUR_OUT_OF_MEMORY with everything as it was. It works when it is made again, and nothing leaks.
 */
#include "support/learner_fixture.h"
#include "support/faults.h"
#include "support/checkpoint_fixture.h"
#include "replay/sampler/dlpack.h"
#include "support/replay_fixture.h"
#include "test.h"

#include <unistd.h>

#ifndef GPUR_HAS_FILES

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    printf("test_out_of_memory: skipped: a build without cJSON or xxHash, which tell what a replay holds\n");
    return 77;
}

#else

enum {
    PLAYED = 42,         /* steps of the scene before the call: a ring of 100 rows has gone round */
    LARGE = 50000,       /* rows of a file that a second thread helps to read */
    MAX_BYTES = 8 << 20, /* of a picture */
    NO_SCENE = -1,       /* variants beside those of checkpoint_fixture.h */
    CONV_SCENE = -2,
    CONV_REPLAY = -3, /* without a learner */
    LARGE_SCENE = -4,
};
enum {
    EVERYTHING = FAULT_MEMORY | FAULT_LOCK | FAULT_THREAD | FAULT_DNNL,
    OURS = FAULT_HOOK | FAULT_LOCK | FAULT_THREAD, /* where the same call with all of them has been tried elsewhere */
};

/* What a call is made on, and what it may make. */
typedef struct fixture {
    counting_alloc counts;
    gpur_device *device;
    checkpoint_fixture training, other;
    conv_fixture conv;
    replay_fixture large;
    gpur_replay *replay;   /* whose pictures are taken: one of the scenes'; NULL: none */
    gpur_learner *learner; /* likewise */
    gpur_device *made_device;
    gpur_learner *made_learner;
    gpur_writer *made_writer;
    gpur_batch *batch, *held;
    void *memory;
    float *values;
    char path[160];
} fixture;

/* All that can be seen of a world, byte for byte. */
typedef struct picture {
    int64_t bytes;
    unsigned char data[MAX_BYTES];
} picture;

typedef struct subject {
    const char *name;
    int variant;                        /* of checkpoint_fixture.h, or one of the enum above */
    gpur_status (*prepare)(fixture *w); /* may be NULL */
    gpur_status (*call)(fixture *w);
    void (*result)(fixture *w, picture *p); /* adds what the call gave; may be NULL */
    void (*clean)(fixture *w);              /* may be NULL; what the call gave may not be there */
    int faults;                             /* kinds; 0: the call is to take nothing at all */
} subject;

static void add(picture *p, const void *data, int64_t bytes)
{
    if (p->bytes + bytes > MAX_BYTES)
        abort();
    memcpy(p->data + p->bytes, data, (size_t)bytes);
    p->bytes += bytes;
}

/* The length of the file, or -1, and its bytes. */
static void add_file(picture *p, const char *path)
{
    int64_t bytes = -1;
    unsigned char *const data = read_file(path, &bytes);
    add(p, &bytes, sizeof bytes);
    if (data)
        add(p, data, bytes);
    free(data);
}

static gpur_status add_replay(picture *p, gpur_replay *replay)
{
    gpur_replay_stats stats = {.size = sizeof stats};
    const char *const path = test_file_path("picture");
    GPUR_TRY(gpur_replay_save(replay, path, NULL));
    add_file(p, path);
    GPUR_TRY(gpur_replay_get_stats(replay, &stats));
    stats.waits = 0;
    stats.wait_seconds = stats.append_seconds = 0;
    add(p, &stats, sizeof stats);
    return GPUR_OK;
}

static gpur_status add_learner(picture *p, gpur_learner *learner)
{
    gpur_learner_stats stats = {.size = sizeof stats};
    const char *const path = test_file_path("picture");
    GPUR_TRY(gpur_learner_save(learner, path, NULL));
    add_file(p, path);
    GPUR_TRY(gpur_learner_get_stats(learner, &stats));
    stats.mean_loss = 0; /* over the time since the stats before */
    stats.steps_per_second = 0;
    add(p, &stats, sizeof stats);
    return GPUR_OK;
}

static gpur_status take_picture(picture *p, fixture *w)
{
    char part[192];
    p->bytes = 0;
    if (w->replay)
        GPUR_TRY(add_replay(p, w->replay));
    if (w->learner)
        GPUR_TRY(add_learner(p, w->learner));
    snprintf(part, sizeof part, "%s.part", w->path);
    add_file(p, w->path);
    add_file(p, part);
    return GPUR_OK;
}

/* Fewer plans than conv_config's: each takes milliseconds to make. */
static gpur_learner_config small_conv_config(void)
{
    gpur_learner_config config = conv_config(GPUR_CHW);
    config.max_act_batch = 2;
    config.batch_size = 2;
    return config;
}

/* One thread: what is asked here is nothing for two, and they cost more to wake than the work. */
static gpur_device_config one_thread(fixture *w)
{
    gpur_device_config config = test_device_config();
    config.threads = 1;
    config.alloc = faults_take, config.release = counting_alloc_give, config.alloc_user = &w->counts;
    return config;
}

static gpur_status open_scene(fixture *w, int variant)
{
    if (variant == CONV_SCENE) {
        const gpur_learner_config config = small_conv_config();
        GPUR_TRY(conv_fixture_open(&w->conv, w->device, &config));
        w->replay = w->conv.replay, w->learner = w->conv.learner;
        return gpur_learner_train(w->learner, 3);
    }
    if (variant == CONV_REPLAY) {
        GPUR_TRY(conv_replay_open(&w->conv, w->device, GPUR_CHW));
        w->replay = w->conv.replay;
        return GPUR_OK;
    }
    GPUR_TRY(checkpoint_fixture_open(&w->training, w->device, variant));
    w->replay = w->training.replay, w->learner = w->training.learner;
    GPUR_TRY(checkpoint_fixture_begin(&w->training, 0));
    return checkpoint_fixture_run(&w->training, 0, PLAYED);
}

static gpur_status open_large(fixture *w)
{
    const gpur_replay_config config = replay_fixture_plain_config(LARGE, 512, 64, GPUR_FLUSH_AUTO);
    const gpur_device_config device = one_thread(w);
    gpur_device *opened = NULL;
    GPUR_TRY(gpur_device_open(test_device_name(), &device, &opened));
    if (!replay_fixture_open(&w->large, opened, &config, 1))
        return GPUR_DEVICE_ERROR;
    w->replay = w->large.replay;
    return replay_fixture_append(&w->large, LARGE + 500);
}

static gpur_status open_world(fixture *w, const subject *s)
{
    memset(w, 0, sizeof *w);
    const gpur_device_config config = one_thread(w);
    snprintf(w->path, sizeof w->path, "%s", test_file_path("file"));
    unlink(w->path);
    GPUR_TRY(gpur_device_open(test_device_name(), &config, &w->device));
    if (s->variant == LARGE_SCENE)
        GPUR_TRY(open_large(w));
    else if (s->variant != NO_SCENE)
        GPUR_TRY(open_scene(w, s->variant));
    return s->prepare ? s->prepare(w) : GPUR_OK;
}

static void close_world(fixture *w, const subject *s)
{
    if (s->clean)
        s->clean(w);
    checkpoint_fixture_close(&w->other);
    checkpoint_fixture_close(&w->training);
    conv_fixture_close(&w->conv);
    if (w->large.device)
        replay_fixture_close(&w->large);
    gpur_device_close(w->device);
}

/* ---- the calls ---- */

static gpur_status call_device_open(fixture *w)
{
    const gpur_device_config config = one_thread(w);
    return gpur_device_open(test_device_name(), &config, &w->made_device);
}

static gpur_status call_device_open_plain(fixture *w)
{
    const gpur_device_config config = test_device_config();
    return gpur_device_open(test_device_name(), &config, &w->made_device);
}

static void clean_device(fixture *w)
{
    gpur_device_close(w->made_device);
}

/* So many that noting the next one takes memory, too. */
static gpur_status prepare_device_alloc(fixture *w)
{
    gpur_status status = GPUR_OK;
    for (int i = 0; i < 64 && status == GPUR_OK; i++)
        status = gpur_device_alloc(w->device, 100, &w->memory);
    return status;
}

static gpur_status call_device_alloc(fixture *w)
{
    return gpur_device_alloc(w->device, 1000, &w->memory);
}

/* A replay and a learner of the variant, beside those that there are. */
static gpur_status call_make_both(fixture *w)
{
    const gpur_status status = checkpoint_fixture_open(&w->other, w->device, w->training.variant);
    if (status != GPUR_OK) {
        checkpoint_fixture_close(&w->other);
        memset(&w->other, 0, sizeof w->other);
    }
    return status;
}

static gpur_status call_learner_create(fixture *w)
{
    gpur_learner_config config;
    GPUR_TRY(gpur_learner_config_init(&config, sizeof config));
    config.network.num_actions = 3;
    config.host_batches = 3;
    config.optimizer.kind = GPUR_RMSPROP_DEEPMIND;
    return gpur_learner_create(w->replay, &config, &w->made_learner);
}

static gpur_status call_conv_learner_create(fixture *w)
{
    const gpur_learner_config config = small_conv_config();
    return gpur_learner_create(w->replay, &config, &w->made_learner);
}

static void clean_learner(fixture *w)
{
    gpur_learner_destroy(w->made_learner);
}

static gpur_status call_writer_open(fixture *w)
{
    gpur_writer_config config;
    GPUR_TRY(gpur_writer_config_init(&config, sizeof config));
    config.num_envs = CHECKPOINT_ENVS;
    config.observations = w->training.stack > 1 ? GPUR_OBSERVATIONS_FRAMES : GPUR_OBSERVATIONS_STACKS;
    return gpur_writer_open(w->replay, &config, &w->made_writer);
}

static void clean_writer(fixture *w)
{
    gpur_writer_destroy(w->made_writer);
}

/* The state of a writer waits for one to come. */
static gpur_status prepare_waiting(fixture *w)
{
    GPUR_TRY(gpur_replay_save(w->replay, w->path, NULL));
    gpur_writer_destroy(w->training.writer);
    w->training.writer = NULL;
    return gpur_replay_load(w->replay, w->path, NULL);
}

static gpur_status prepare_batch(fixture *w)
{
    return gpur_replay_sample(w->replay, 8, NULL, &w->held);
}

static gpur_status call_sample(fixture *w)
{
    return gpur_replay_sample(w->replay, 16, NULL, &w->batch);
}

static gpur_status call_gather(fixture *w)
{
    const int64_t ids[] = {PLAYED, PLAYED + 40, PLAYED + 1};
    return gpur_replay_gather(w->replay, 3, ids, NULL, &w->batch);
}

static void add_batch(fixture *w, picture *p)
{
    int64_t ids[64] = {0};
    float weights[64] = {0};
    const int64_t count = gpur_batch_count(w->batch);
    const gpur_status read[] = {gpur_batch_read(w->batch, "id", ids, count * (int64_t)sizeof *ids),
                                gpur_batch_read(w->batch, "weight", weights, count * (int64_t)sizeof *weights)};
    add(p, read, sizeof read);
    add(p, ids, sizeof ids);
    add(p, weights, sizeof weights);
}

static void clean_batches(fixture *w)
{
    gpur_batch_release(w->batch);
    gpur_batch_release(w->held);
}

static gpur_status call_to_dlpack(fixture *w)
{
    return gpur_batch_to_dlpack(w->held, "obs", 0, &w->memory);
}

static void clean_dlpack(fixture *w)
{
    gpur_dl_managed *const tensor = w->memory;
    if (tensor)
        tensor->deleter(tensor);
    clean_batches(w);
}

static gpur_status describe_first(fixture *w, gpur_weight_info *info)
{
    *info = (gpur_weight_info){.size = sizeof *info};
    GPUR_TRY(gpur_learner_get_weight_info(w->learner, 0, info));
    if (!w->values)
        w->values = calloc((size_t)info->count, sizeof *w->values);
    return GPUR_OK;
}

static gpur_status prepare_values(fixture *w)
{
    gpur_weight_info info;
    return describe_first(w, &info);
}

static gpur_status call_read_weights(fixture *w)
{
    gpur_weight_info info;
    GPUR_TRY(describe_first(w, &info));
    return gpur_learner_read_weights(w->learner, GPUR_WEIGHTS_TARGET, info.name, w->values, info.count);
}

static gpur_status call_write_weights(fixture *w)
{
    gpur_weight_info info;
    GPUR_TRY(describe_first(w, &info));
    for (int64_t i = 0; i < info.count; i++)
        w->values[i] = 0.001f * (float)i;
    return gpur_learner_write_weights(w->learner, GPUR_WEIGHTS_ONLINE, info.name, w->values, info.count);
}

static void add_values(fixture *w, picture *p)
{
    gpur_weight_info info;
    if (describe_first(w, &info) == GPUR_OK)
        add(p, w->values, info.count * (int64_t)sizeof *w->values);
}

static void clean_values(fixture *w)
{
    free(w->values);
}

static gpur_status call_replay_save(fixture *w)
{
    return gpur_replay_save(w->replay, w->path, NULL);
}

static gpur_status call_learner_save(fixture *w)
{
    return gpur_learner_save(w->learner, w->path, NULL);
}

static gpur_status call_weights_save(fixture *w)
{
    return gpur_learner_save_weights(w->learner, w->path, NULL);
}

static gpur_status go_on(fixture *w)
{
    if (w->learner == w->conv.learner)
        return gpur_learner_train(w->learner, 5);
    return checkpoint_fixture_run(&w->training, PLAYED, PLAYED + 13);
}

static gpur_status prepare_replay_load(fixture *w)
{
    GPUR_TRY(gpur_replay_save(w->replay, w->path, NULL));
    return go_on(w);
}

static gpur_status prepare_large_load(fixture *w)
{
    GPUR_TRY(gpur_replay_save(w->replay, w->path, NULL));
    return replay_fixture_append(&w->large, 700);
}

/* Into a replay that holds nothing, by the order in which its writers come. */
static gpur_status prepare_empty_load(fixture *w)
{
    GPUR_TRY(gpur_replay_save(w->replay, w->path, NULL));
    GPUR_TRY(checkpoint_fixture_open(&w->other, w->device, w->training.variant));
    w->replay = w->other.replay, w->learner = NULL;
    return GPUR_OK;
}

static gpur_status call_replay_load(fixture *w)
{
    return gpur_replay_load(w->replay, w->path, NULL);
}

static gpur_status prepare_learner_load(fixture *w)
{
    GPUR_TRY(gpur_learner_save(w->learner, w->path, NULL));
    return go_on(w);
}

static gpur_status call_learner_load(fixture *w)
{
    return gpur_learner_load(w->learner, w->path, NULL);
}

static gpur_status prepare_weights_load(fixture *w)
{
    GPUR_TRY(gpur_learner_save_weights(w->learner, w->path, NULL));
    return go_on(w);
}

static gpur_status call_weights_load(fixture *w)
{
    return gpur_learner_load_weights(w->learner, w->path, NULL);
}

static gpur_status prepare_info(fixture *w)
{
    return gpur_replay_save(w->replay, w->path, NULL);
}

static gpur_status call_get_info(fixture *w)
{
    gpur_checkpoint_info info = {.size = sizeof info};
    GPUR_TRY(gpur_checkpoint_get_info(w->path, &info));
    return info.rows == 100 ? GPUR_OK : GPUR_FILE_ERROR;
}

/* Acting, a step of the environments, resets; train steps, and draws into batches that the pool has. */
static gpur_status call_play(fixture *w)
{
    return checkpoint_fixture_run(&w->training, PLAYED, PLAYED + 13);
}

/* More observations than any before. */
static gpur_status call_large_act(fixture *w)
{
    static const float obs[1 << 16];
    int32_t actions[300];
    return gpur_learner_act(w->learner, 300, obs, 0.0f, actions, NULL);
}

static gpur_status call_priorities(fixture *w)
{
    const int64_t ids[] = {PLAYED + 1, PLAYED + 20, PLAYED + 33};
    float priorities[] = {0.5f, 3.0f, 0.25f};
    gpur_priority_stats stats = {.size = sizeof stats};
    int64_t wrong = 0;
    GPUR_TRY(gpur_replay_update_priorities(w->replay, 3, ids, priorities, NULL));
    GPUR_TRY(gpur_replay_get_priorities(w->replay, 3, ids, priorities));
    GPUR_TRY(gpur_replay_set_alpha(w->replay, 0.5f));
    GPUR_TRY(gpur_replay_set_beta(w->replay, 0.5f));
    GPUR_TRY(gpur_replay_get_priority_stats(w->replay, &stats));
    return gpur_replay_check_priorities(w->replay, &wrong);
}

static gpur_status call_rows(fixture *w)
{
    void *rows = NULL;
    GPUR_TRY(gpur_learner_acquire_host_batch(w->learner, &rows));
    memcpy(rows, conv_rows, 2 * sizeof *conv_rows); /* a batch of small_conv_config */
    GPUR_TRY(gpur_learner_train_host_batch(w->learner, rows));
    GPUR_TRY(gpur_learner_acquire_host_batch(w->learner, &rows));
    return gpur_learner_release_host_batch(w->learner, rows);
}

static const subject subjects[] = {
    {"gpur_device_open", NO_SCENE, NULL, call_device_open, NULL, clean_device, EVERYTHING},
    {"gpur_device_open", NO_SCENE, NULL, call_device_open_plain, NULL, clean_device, EVERYTHING},
    {"gpur_device_alloc", NO_SCENE, prepare_device_alloc, call_device_alloc, NULL, NULL, EVERYTHING},
    {"gpur_replay_create, gpur_learner_create", 0, NULL, call_make_both, NULL, NULL, EVERYTHING},
    {"gpur_replay_create, gpur_learner_create", 2, NULL, call_make_both, NULL, NULL, EVERYTHING},
    {"gpur_replay_create, gpur_learner_create", 5, NULL, call_make_both, NULL, NULL, EVERYTHING},
    {"gpur_replay_create, gpur_learner_create", 9, NULL, call_make_both, NULL, NULL, EVERYTHING},
    {"gpur_learner_create", 0, NULL, call_learner_create, NULL, clean_learner, EVERYTHING},
    {"gpur_learner_create of convolutions", CONV_REPLAY, NULL, call_conv_learner_create, NULL, clean_learner,
     EVERYTHING},
    {"gpur_writer_open", 0, NULL, call_writer_open, NULL, clean_writer, EVERYTHING},
    {"gpur_writer_open", 9, NULL, call_writer_open, NULL, clean_writer, EVERYTHING},
    {"gpur_writer_open with a state that waits", 9, prepare_waiting, call_writer_open, NULL, clean_writer, EVERYTHING},
    {"gpur_replay_sample", 1, prepare_batch, call_sample, add_batch, clean_batches, EVERYTHING},
    {"gpur_replay_sample", 3, prepare_batch, call_sample, add_batch, clean_batches, EVERYTHING},
    {"gpur_replay_sample", 5, prepare_batch, call_sample, add_batch, clean_batches, EVERYTHING},
    {"gpur_replay_sample", 9, prepare_batch, call_sample, add_batch, clean_batches, EVERYTHING},
    {"gpur_replay_gather", 4, prepare_batch, call_gather, add_batch, clean_batches, EVERYTHING},
    {"gpur_batch_to_dlpack", 0, prepare_batch, call_to_dlpack, NULL, clean_dlpack, EVERYTHING},
    {"gpur_learner_read_weights", 0, prepare_values, call_read_weights, add_values, clean_values, 0},
    {"gpur_learner_read_weights", CONV_SCENE, prepare_values, call_read_weights, add_values, clean_values, EVERYTHING},
    {"gpur_learner_write_weights", CONV_SCENE, prepare_values, call_write_weights, NULL, clean_values, EVERYTHING},
    {"gpur_replay_save", 0, NULL, call_replay_save, NULL, NULL, EVERYTHING},
    {"gpur_replay_save over a file", 5, prepare_replay_load, call_replay_save, NULL, NULL, OURS},
    {"gpur_replay_save over a file", 9, prepare_replay_load, call_replay_save, NULL, NULL, EVERYTHING},
    {"gpur_replay_load", 0, prepare_replay_load, call_replay_load, NULL, NULL, OURS},
    {"gpur_replay_load", 3, prepare_replay_load, call_replay_load, NULL, NULL, OURS},
    {"gpur_replay_load", 5, prepare_replay_load, call_replay_load, NULL, NULL, EVERYTHING},
    {"gpur_replay_load", 7, prepare_replay_load, call_replay_load, NULL, NULL, OURS},
    {"gpur_replay_load", 9, prepare_replay_load, call_replay_load, NULL, NULL, EVERYTHING},
    {"gpur_replay_load of a state that waits", 9, prepare_waiting, call_replay_load, NULL, NULL, OURS},
    {"gpur_replay_load into an empty replay", 4, prepare_empty_load, call_replay_load, NULL, NULL, OURS},
    {"gpur_replay_load into an empty replay", 9, prepare_empty_load, call_replay_load, NULL, NULL, OURS},
    {"gpur_replay_load of a large file", LARGE_SCENE, prepare_large_load, call_replay_load, NULL, NULL, OURS},
    {"gpur_learner_save", 2, NULL, call_learner_save, NULL, NULL, EVERYTHING},
    {"gpur_learner_save over a file", 3, prepare_learner_load, call_learner_save, NULL, NULL, OURS},
    {"gpur_learner_load", 2, prepare_learner_load, call_learner_load, NULL, NULL, EVERYTHING},
    {"gpur_learner_save_weights", 1, NULL, call_weights_save, NULL, NULL, EVERYTHING},
    {"gpur_learner_save_weights over a file", CONV_SCENE, prepare_weights_load, call_weights_save, NULL, NULL, OURS},
    {"gpur_learner_load_weights", 1, prepare_weights_load, call_weights_load, NULL, NULL, EVERYTHING},
    {"gpur_learner_load_weights", CONV_SCENE, prepare_weights_load, call_weights_load, NULL, NULL, OURS},
    {"gpur_checkpoint_get_info", 9, prepare_info, call_get_info, NULL, NULL, EVERYTHING},
    {"playing, acting, training, drawing", 1, NULL, call_play, NULL, NULL, 0},
    {"playing, acting, training, drawing", 9, NULL, call_play, NULL, NULL, 0},
    {"gpur_learner_act of more than before", 0, NULL, call_large_act, NULL, NULL, EVERYTHING},
    {"the calls on priorities", 5, NULL, call_priorities, NULL, NULL, 0},
    {"the calls on rows in RAM", CONV_SCENE, NULL, call_rows, NULL, NULL, 0},
};
enum { SUBJECTS = sizeof subjects / sizeof *subjects };

/* ---- what is asked of each ---- */

static picture before, after, now;
static const subject *current;
static int64_t current_nth;

#define WANT(condition, ...)                                                                                           \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            test_fail(__FILE__, __LINE__);                                                                             \
            fprintf(stderr, "%s, variant %d, fault %lld (%s): ", current->name, current->variant,                      \
                    (long long)current_nth, faults_name());                                                            \
            fprintf(stderr, __VA_ARGS__);                                                                              \
            fputc('\n', stderr);                                                                                       \
            return;                                                                                                    \
        }                                                                                                              \
    } while (0)

static int64_t first_difference(const picture *a, const picture *b)
{
    const int64_t least = a->bytes < b->bytes ? a->bytes : b->bytes;
    if (a->bytes == b->bytes && memcmp(a->data, b->data, (size_t)least) == 0)
        return -1;
    for (int64_t i = 0; i < least; i++)
        if (a->data[i] != b->data[i])
            return i;
    return least;
}

static gpur_status look(fixture *w, const subject *s, picture *p, int with_result)
{
    GPUR_TRY(take_picture(p, w));
    if (s->result && with_result)
        s->result(w, p);
    return GPUR_OK;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const int is_sanitized = 1; /* ten times as slow */
#else
static const int is_sanitized = 0;
#endif

/* What malloc gives, it gives with either executor, and this program counts it itself. */
static int kinds_of(const subject *s)
{
    const int is_slow = is_sanitized || test_executor() == GPUR_EXECUTOR_THREAD;
    return s->faults == EVERYTHING && s->variant >= 0 && is_slow && !test_is_long() ? OURS : s->faults;
}

/* What the call comes to when nothing fails. */
static void check_without_faults(fixture *w, const subject *s, int64_t *faults)
{
    *faults = 0;
    WANT(take_picture(&before, w) == GPUR_OK, "%s", gpur_last_error());
    faults_begin(s->faults ? kinds_of(s) : EVERYTHING, 0, FAULT_ONCE);
    const gpur_status status = s->call(w);
    *faults = faults_end();
    WANT(status == GPUR_OK, "%s: %s", gpur_status_name(status), gpur_last_error());
    WANT(look(w, s, &after, 1) == GPUR_OK, "%s", gpur_last_error());
    WANT((*faults == 0) == (s->faults == 0) || kinds_of(s) != s->faults, "%lld calls could fail", (long long)*faults);
}

static void check_again(fixture *w, const subject *s)
{
    const gpur_status status = s->call(w);
    WANT(status == GPUR_OK, "made again: %s: %s", gpur_status_name(status), gpur_last_error());
}

static void check_refused(fixture *w, const subject *s, gpur_status status)
{
    WANT(status == GPUR_OUT_OF_MEMORY, "%s: %s", gpur_status_name(status), gpur_last_error());
    WANT(*gpur_last_error(), "no message");
    WANT(take_picture(&now, w) == GPUR_OK, "looking: %s", gpur_last_error());
    WANT(first_difference(&before, &now) < 0, "refused, and byte %lld of %lld has changed",
         (long long)first_difference(&before, &now), (long long)before.bytes);
    check_again(w, s);
}

static void check_with_fault(fixture *w, const subject *s, int64_t nth, int always)
{
    WANT(take_picture(&now, w) == GPUR_OK, "%s", gpur_last_error());
    WANT(first_difference(&before, &now) < 0, "it did not begin as the first time");
    faults_begin(kinds_of(s), nth, always);
    const gpur_status status = s->call(w);
    faults_end();
    if (status != GPUR_OK)
        check_refused(w, s, status);
    WANT(look(w, s, &now, 1) == GPUR_OK, "looking: %s", gpur_last_error());
    WANT(first_difference(&after, &now) < 0, "%s, and byte %lld of %lld is another than without",
         gpur_status_name(status), (long long)first_difference(&after, &now), (long long)after.bytes);
}

/* nth 0: without faults; fills in how many there can be. */
static void check_once(const subject *s, int64_t nth, int always, int64_t *faults)
{
    static fixture w;
    const int64_t live = faults_live();
    current_nth = nth;
    const gpur_status status = open_world(&w, s);
    if (status != GPUR_OK)
        close_world(&w, s);
    WANT(status == GPUR_OK, "no world: %s", gpur_last_error());
    if (nth == 0)
        check_without_faults(&w, s, faults);
    else
        check_with_fault(&w, s, nth, always);
    close_world(&w, s);
    WANT(w.counts.blocks == 0 && w.counts.bytes == 0, "%lld blocks of the caller's, %lld bytes, were not given back",
         (long long)w.counts.blocks, (long long)w.counts.bytes);
    WANT(w.counts.wrong_sizes == 0, "blocks were given back with another size");
    WANT(faults_live() == live, "%lld blocks were not freed", (long long)(faults_live() - live));
}

/* A header of a file takes a hundred blocks of cJSON's, one like the other: the failures of all later calls, too, are
 * then tried from every seventh one on. */
static int64_t step_of(int always, int64_t faults)
{
    return always && (faults > 60 || is_sanitized) && !test_is_long() ? 7 : 1;
}

static void check_subject(const subject *s)
{
    const int before_all = atomic_load(&test_state.failures);
    int64_t faults = 0;
    current = s;
    check_once(s, 0, 0, &faults);
    for (int always = FAULT_ONCE; always <= FAULT_ALWAYS; always++)
        for (int64_t nth = 1; nth <= faults; nth += step_of(always, faults))
            if (atomic_load(&test_state.failures) < before_all + 8) /* enough to see what is wrong */
                check_once(s, nth, always, &faults);
}

TEST(each_refusal_of_memory_changes_nothing)
{
    for (int i = 0; i < SUBJECTS; i++)
        check_subject(&subjects[i]);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    if (chdir("/dev/shm") != 0) /* thousands of files: a disk would be waited for, as each is synced */
        printf("  no /dev/shm: files go to a disk\n");
    faults_watch_json();
    conv_fixture_fill_rows();
    RUN(each_refusal_of_memory_changes_nothing);
    test_remove_folder();
    return test_main_end();
}

#endif
