/* SPDX-License-Identifier: MIT */
/* The weights of a policy: from and to files, and from and to host memory. */
#include "learn/acting/policy.h"

#include "base/sized.h"
#include "learn/learner.h"
#include "learn/weights_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { GPUR_MAX_PATH = 4096 };

gpur_status gpur_policy_enqueue_write(gpur_policy *policy, gpur_stream *stream, const float *weights, int64_t version)
{
    return gpur_acting_copies_write(&policy->copies, GPUR_COPY_OLDER, version, stream, weights, 0,
                                    policy->network.params.count);
}

gpur_status gpur_policy_enqueue_patch(gpur_policy *policy, gpur_stream *stream, const float *weights, int64_t offset,
                                      int64_t count)
{
    GPUR_TRY(gpur_acting_copies_write(&policy->copies, GPUR_COPY_OLDER, -1, stream, weights, offset, count));
    return gpur_acting_copies_write(&policy->copies, GPUR_COPY_LATEST, -1, stream, weights, offset, count);
}

gpur_status gpur_policy_upload(gpur_policy *policy, const float *weights, int64_t version)
{
    const int32_t index = gpur_policy_acquire(policy);
    gpur_stream *const stream = policy->inferences[index].stream;
    const gpur_status status = gpur_stream_finish(stream, gpur_policy_enqueue_write(policy, stream, weights, version));
    gpur_policy_release(policy, index, 0);
    return status;
}

static gpur_status enqueue_read(gpur_policy *policy, int32_t reader, float *weights, int64_t *version)
{
    gpur_acting_copies *const copies = &policy->copies;
    gpur_stream *const stream = policy->inferences[reader].stream;
    const int64_t bytes = policy->network.params.count * (int64_t)sizeof *weights;
    int copy = 0;
    GPUR_TRY(gpur_acting_copies_begin_read(copies, GPUR_COPY_LATEST, stream, &copy));
    *version = atomic_load(&copies->version[copy]);
    const gpur_status status = gpur_copy(stream, weights, copies->weights[copy], bytes);
    return gpur_acting_copies_end_read(copies, copy, reader, stream, status);
}

/* Copies the weights to (P) in host memory. Waits. */
static gpur_status download(gpur_policy *policy, float *weights, int64_t *version)
{
    const int32_t index = gpur_policy_acquire(policy);
    const gpur_status status =
        gpur_stream_finish(policy->inferences[index].stream, enqueue_read(policy, index, weights, version));
    gpur_policy_release(policy, index, 0);
    return status;
}

/* Files. */

/* Returns the kind of the file if it is a learner's, else NULL. */
static const char *learner_kind(const gpur_checkpoint *file)
{
    if (!gpur_checkpoint_is_ours(file) || !gpur_tensors_find_metadata(&file->tensors, GPUR_STEPS_ENQUEUED))
        return NULL;
    return gpur_tensors_find_metadata(&file->tensors, "gpureplay.kind");
}

static gpur_status read_file(gpur_policy *policy, gpur_checkpoint *file, const gpur_checkpoint_options *options,
                             float *weights, int64_t *version)
{
    const char *const kind = learner_kind(file);
    return kind ? gpur_learner_file_read(policy, file, kind, options, weights, version)
                : gpur_weights_file_load(policy->device, &policy->network.params, file, options, weights, version);
}

gpur_status gpur_policy_load(gpur_policy *policy, const char *path, const gpur_checkpoint_options *given)
{
    gpur_checkpoint_options options;
    gpur_checkpoint file;
    float *weights = NULL;
    int64_t version = 0;
    GPUR_TRY(gpur_checkpoint_check_call(policy, "policy", path, given, &options));
    GPUR_TRY(gpur_checkpoint_open(&file, path));
    gpur_status status = gpur_weights_alloc(policy->device, &policy->network.params, &weights);
    if (status == GPUR_OK)
        status = read_file(policy, &file, &options, weights, &version);
    if (status == GPUR_OK)
        status = gpur_policy_upload(policy, weights, version);
    gpur_weights_free(policy->device, &policy->network.params, weights);
    gpur_checkpoint_close(&file);
    return status;
}

/* The file of a folder whose learner has done the most train steps: the one at the end of the run, or that of the last
 * checkpoint, which a run that goes on leaves behind it. */
static gpur_status find_in_folder(const char *folder, char *path, size_t room)
{
    static const char *const names[] = {"learner.safetensors", "checkpoint/learner.safetensors"};
    char candidate[GPUR_MAX_PATH];
    int64_t most = -1;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        gpur_checkpoint_info info = {.size = sizeof info};
        const int length = snprintf(candidate, sizeof candidate, "%s/%s", folder, names[i]);
        if (length >= (int)sizeof candidate || access(candidate, F_OK) != 0)
            continue;
        GPUR_TRY(gpur_checkpoint_get_info(candidate, &info));
        if (info.steps > most)
            most = info.steps, snprintf(path, room, "%s", candidate);
    }
    return most >= 0 ? GPUR_OK
                     : gpur_fail(GPUR_FILE_ERROR,
                                 "%s is a folder and has neither %s nor %s; it must be the folder of a run, or a file",
                                 folder, names[0], names[1]);
}

/* 1: files of this kind have no network: those of a replay, and those of a run, whose kind ends with that word or is of
 * a version before 0.1.0. */
static int has_no_network(const char *kind)
{
    static const char *const others[] = {"replay", "apex", "ga3c"};
    const size_t length = strlen(kind);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(kind, others[i]) == 0)
            return 1;
    return length >= 3 && strcmp(kind + length - 3, "run") == 0;
}

static gpur_status check_has_network(const gpur_checkpoint *file)
{
    const char *const kind =
        gpur_checkpoint_is_ours(file) ? gpur_tensors_find_metadata(&file->tensors, "gpureplay.kind") : NULL;
    if (kind && has_no_network(kind))
        return gpur_fail(GPUR_FILE_ERROR,
                         "%s is a %s file, which has no network; it must be a file of a learner, of a policy or of "
                         "weights, or the folder of a run",
                         file->file.path, kind);
    return GPUR_OK;
}

static gpur_status read_config(const char *path, gpur_policy_config *config)
{
    gpur_checkpoint file;
    GPUR_TRY(gpur_checkpoint_open(&file, path));
    gpur_network_text_renew(&file.tensors);
    gpur_status status = check_has_network(&file);
    if (status == GPUR_OK)
        status = gpur_network_text_read(&file, config);
    gpur_checkpoint_close(&file);
    return status;
}

gpur_status gpur_policy_open(gpur_device *device, const char *path, const gpur_policy_config *given, gpur_policy **out)
{
    char file[GPUR_MAX_PATH];
    struct stat about;
    gpur_policy_config config;
    GPUR_REQUIRE(out, "policy, which gets the handle, is NULL");
    *out = NULL;
    GPUR_REQUIRE(device && path, "%s is NULL", device ? "path" : "device");
    GPUR_TRY(gpur_tensors_available());
    GPUR_TRY(gpur_policy_config_init(&config, sizeof config));
    if (given)
        GPUR_TRY(gpur_sized_read(&config, sizeof config, given, "gpur_policy_config"));
    if (stat(path, &about) == 0 && S_ISDIR(about.st_mode)) {
        GPUR_TRY(find_in_folder(path, file, sizeof file));
        path = file;
    }
    GPUR_TRY(read_config(path, &config));
    GPUR_TRY(gpur_prefix_error(gpur_policy_create(device, &config, out), "%s", path));
    const gpur_status status = gpur_policy_load(*out, path, NULL);
    if (status != GPUR_OK) {
        gpur_policy_destroy(*out);
        *out = NULL;
    }
    return status;
}

gpur_status gpur_policy_save_with(gpur_policy *policy, const gpur_tensors *more, const char *path,
                                  const gpur_checkpoint_options *given)
{
    gpur_checkpoint_options options;
    float *weights = NULL;
    GPUR_TRY(gpur_checkpoint_check_call(policy, "policy", path, given, &options));
    const gpur_params *const params = &policy->network.params;
    gpur_weights_about about = {.text = {&policy->config.network, policy->config.obs, policy->config.policy_floor},
                                .more = more};
    GPUR_TRY(gpur_weights_alloc(policy->device, params, &weights));
    gpur_status status = download(policy, weights, &about.version);
    if (status == GPUR_OK)
        status = gpur_weights_file_save(policy->device, params, &about, weights, path, &options);
    gpur_weights_free(policy->device, params, weights);
    return status;
}

gpur_status gpur_policy_save(gpur_policy *policy, const char *path, const gpur_checkpoint_options *given)
{
    return gpur_policy_save_with(policy, NULL, path, given);
}

/* The weights as bytes for other processes: this header, and then the tensors in the order of their shapes. */
typedef struct weights_header {
    char magic[8];
    uint64_t hash; /* gpur_params_hash */
    int64_t count; /* float32 numbers that follow */
    int64_t version;
    unsigned char reserved[32]; /* 0 */
} weights_header;
_Static_assert(sizeof(weights_header) == 64, "the public header documents 64 bytes");

static const char magic[8] = {'G', 'P', 'U', 'R', 'W', 'T', 'S', '1'};

static weights_header header_of(const gpur_policy *policy, int64_t version)
{
    weights_header header;
    memset(&header, 0, sizeof header);
    memcpy(header.magic, magic, sizeof magic);
    header.hash = gpur_params_hash(&policy->network.params);
    header.count = gpur_params_weights(&policy->network.params);
    header.version = version;
    return header;
}

int64_t gpur_policy_weights_bytes(gpur_policy *policy)
{
    const int64_t header = (int64_t)sizeof(weights_header);
    return policy ? header + gpur_params_weights(&policy->network.params) * (int64_t)sizeof(float) : 0;
}

static gpur_status check_bytes(gpur_policy *policy, const void *weights, int64_t bytes)
{
    GPUR_REQUIRE(policy && weights, "policy and weights must not be NULL");
    GPUR_REQUIRE(bytes == gpur_policy_weights_bytes(policy),
                 "bytes is %" PRId64 "; the weights of this policy's network have %" PRId64, bytes,
                 gpur_policy_weights_bytes(policy));
    return GPUR_OK;
}

gpur_status gpur_policy_get_weights(gpur_policy *policy, void *to, int64_t bytes)
{
    float *weights = NULL;
    int64_t version = 0;
    GPUR_TRY(check_bytes(policy, to, bytes));
    const gpur_params *const params = &policy->network.params;
    GPUR_TRY(gpur_weights_alloc(policy->device, params, &weights));
    const gpur_status status = download(policy, weights, &version);
    if (status == GPUR_OK) {
        const weights_header header = header_of(policy, version);
        memcpy(to, &header, sizeof header);
        gpur_params_to_shape_order(params, weights, (char *)to + sizeof header);
    }
    gpur_weights_free(policy->device, params, weights);
    return status;
}

static gpur_status check_header(const weights_header *given, const weights_header *wanted)
{
    static const unsigned char zeros[sizeof given->reserved];
    GPUR_REQUIRE(memcmp(given->magic, magic, sizeof magic) == 0,
                 "the weights do not begin with \"%.8s\"; they must be of gpur_policy_get_weights", magic);
    GPUR_REQUIRE(given->count == wanted->count,
                 "the weights have %" PRId64 " numbers; this policy's network has %" PRId64, given->count,
                 wanted->count);
    GPUR_REQUIRE(given->hash == wanted->hash,
                 "the weights are of a network whose tensors have other names or shapes (hash %016" PRIx64
                 "); they must be of this policy's network (hash %016" PRIx64 ")",
                 given->hash, wanted->hash);
    GPUR_REQUIRE(given->version >= 0, "the version of the weights is %" PRId64 "; it must be 0 or more",
                 given->version);
    GPUR_REQUIRE(memcmp(given->reserved, zeros, sizeof zeros) == 0,
                 "the last %d bytes of the weights' header are not 0; they must be of this version of the library (%s)",
                 (int)sizeof zeros, gpur_version());
    return GPUR_OK;
}

gpur_status gpur_policy_set_weights(gpur_policy *policy, const void *from, int64_t bytes)
{
    weights_header given;
    float *weights = NULL;
    GPUR_TRY(check_bytes(policy, from, bytes));
    const gpur_params *const params = &policy->network.params;
    const weights_header wanted = header_of(policy, 0);
    memcpy(&given, from, sizeof given);
    GPUR_TRY(check_header(&given, &wanted));
    GPUR_TRY(gpur_weights_alloc(policy->device, params, &weights));
    gpur_params_to_device_order(params, (const char *)from + sizeof given, weights);
    gpur_status status = gpur_params_check_numbers(params, "", weights, GPUR_INVALID_ARGUMENT);
    if (status == GPUR_OK)
        status = gpur_policy_upload(policy, weights, given.version);
    gpur_weights_free(policy->device, params, weights);
    return status;
}
