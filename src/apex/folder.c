/* SPDX-License-Identifier: MIT */
/* The learner's side of a folder of blocks [Parr, Dilipkumar & Liu 2017: remote actors write files of gameplay, the
 * model is published every 15 files, and bad files are skipped]. All in the supervisor's thread. */
#include "apex/folder.h"

#include "base/clock.h"
#include "device/device.h"
#include "file/file_reader.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    FILES_A_MODEL = 15,
    MOST_SET_ASIDE = 64, /* bad files that are kept by one run */
    ABANDONED = 60,      /* seconds after which an unfinished file that nobody has locked is deleted */
};
static const double period = 0.05; /* seconds between two looks, if the first found no block */

gpur_status gpur_apex_paths_open(const char *folder, gpur_apex_paths *paths)
{
    GPUR_TRY(gpur_folder_path(folder, "blocks", paths->blocks));
    GPUR_TRY(gpur_folder_path(folder, "model.safetensors", paths->model));
    GPUR_TRY(gpur_folder_path(folder, "critic.safetensors", paths->critic));
    GPUR_TRY(gpur_folder_make(folder));
    return gpur_folder_make(paths->blocks);
}

int gpur_apex_name_ends(const char *name, const char *end)
{
    const size_t length = strlen(name), least = strlen(end);
    return length >= least && strcmp(name + length - least, end) == 0;
}

/* Weights. */

static gpur_status broadcast_when_due(gpur_apex *apex)
{
    gpur_apex_folder *const f = apex->folder;
    if (f->taken < f->next_model)
        return GPUR_OK;
    f->next_model = f->taken + FILES_A_MODEL;
    GPUR_TRY(gpur_apex_learner_give_weights(&apex->learner, &apex->policies));
    if (apex->policies.critic)
        GPUR_TRY(gpur_policy_save(apex->policies.critic, f->paths.critic, NULL));
    return gpur_policy_save(apex->policies.acting, f->paths.model, NULL);
}

/* Blocks. */

static gpur_status read_block(const gpur_apex *apex, const char *path, int64_t *bytes)
{
    gpur_file_reader file;
    GPUR_TRY(gpur_file_reader_open(&file, path));
    *bytes = file.bytes;
    const gpur_status status =
        file.bytes <= apex->max_message
            ? gpur_file_reader_read(&file, apex->folder->block, file.bytes, 0)
            : gpur_fail(GPUR_FILE_ERROR, "it has %" PRId64 " bytes; a block of this run has at most %" PRId64,
                        file.bytes, apex->max_message);
    gpur_file_reader_close(&file);
    return status;
}

static gpur_status read_header(const gpur_apex *apex, int64_t bytes, gpur_block_header *header)
{
    GPUR_TRY(gpur_block_read_header(&apex->format->spec, apex->folder->block, bytes, header));
    GPUR_REQUIRE(header->actor < GPUR_APEX_MAX_ACTORS && header->first_step <= INT64_MAX - header->rows,
                 "the block is of actor %" PRId64 " and begins with its step %" PRId64
                 "; the first must be below %d, and the second a number of steps",
                 header->actor, header->first_step, (int)GPUR_APEX_MAX_ACTORS);
    GPUR_REQUIRE(header->rows <= apex->config.block_rows,
                 "the block has %" PRId64 " rows; a block of this run has at most %d", header->rows,
                 (int)apex->config.block_rows);
    return GPUR_OK;
}

/* A file may be gone meanwhile: somebody empties the folder, or another learner reads it, too. */
static gpur_status delete_file(const char *path)
{
    if (unlink(path) != 0 && errno != ENOENT)
        return gpur_fail(GPUR_FILE_ERROR, "%s cannot be deleted: %s", path, strerror(errno));
    return GPUR_OK;
}

/* Bad files are kept under another name, so that somebody can look at them; not too many. */
static gpur_status set_aside(gpur_apex *apex, const char *path)
{
    char bad[GPUR_FOLDER_PATH];
    gpur_log(apex->learner.device, "%s is not taken: %s", path, gpur_last_error());
    if (apex->folder->set_aside++ >= MOST_SET_ASIDE)
        return delete_file(path);
    snprintf(bad, sizeof bad, "%.*s.bad", (int)(strlen(path) - strlen(".block")), path);
    if (rename(path, bad) != 0 && errno != ENOENT)
        return gpur_fail(GPUR_FILE_ERROR, "%s cannot be renamed: %s", path, strerror(errno));
    return GPUR_OK;
}

static int is_bad(gpur_status status)
{
    return status == GPUR_INVALID_ARGUMENT || status == GPUR_FILE_ERROR;
}

/* The steps that count are those that begin the rows. A block that was taken before is counted as refused and deleted.
 * The file stays until its rows are in the replay. */
static gpur_status take_file(gpur_apex *apex, const char *path)
{
    gpur_block_header header;
    int64_t bytes = 0;
    gpur_status status = read_block(apex, path, &bytes);
    if (status == GPUR_OK)
        status = read_header(apex, bytes, &header);
    if (status != GPUR_OK) {
        gpur_apex_count_refused(apex);
        return is_bad(status) ? set_aside(apex, path) : status;
    }
    gpur_slot *const remote = &apex->folder->remote_actors[header.actor];
    remote->apex = apex;
    remote->actor = (int32_t)header.actor;
    const int64_t before = remote->blocks;
    status = gpur_apex_take_remote_block(remote, apex->folder->block, &header);
    if (is_bad(status))
        return set_aside(apex, path);
    GPUR_TRY(status);
    apex->folder->taken += remote->blocks - before;
    GPUR_TRY(delete_file(path));
    return broadcast_when_due(apex);
}

/* A remote actor that was killed leaves an unfinished file. Whoever writes one has locked it. */
static void delete_if_abandoned(const char *path)
{
    struct stat there;
    if (lstat(path, &there) != 0 || time(NULL) - there.st_mtime < ABANDONED)
        return;
    const int file = open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file >= 0 && flock(file, LOCK_EX | LOCK_NB) == 0)
        (void)unlink(path);
    if (file >= 0)
        close(file);
}

static gpur_status look_at(gpur_apex *apex, const char *name)
{
    char path[GPUR_FOLDER_PATH];
    GPUR_TRY(gpur_folder_path(apex->folder->paths.blocks, name, path));
    if (gpur_apex_name_ends(name, ".block"))
        return take_file(apex, path);
    if (gpur_apex_name_ends(name, ".part"))
        delete_if_abandoned(path);
    return GPUR_OK;
}

/* The files of a remote actor come in the order of their names. */
static gpur_status look_at_all(gpur_apex *apex)
{
    struct dirent **entries;
    GPUR_TRY(broadcast_when_due(apex));
    const int count = scandir(apex->folder->paths.blocks, &entries, NULL, alphasort);
    if (count < 0)
        return gpur_fail(GPUR_FILE_ERROR, "%s cannot be read: %s", apex->folder->paths.blocks, strerror(errno));
    gpur_status status = GPUR_OK;
    for (int i = 0; i < count; i++) {
        if (status == GPUR_OK)
            status = look_at(apex, entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    return status;
}

int gpur_folder_look(gpur_apex *apex)
{
    if (!apex->folder || gpur_clock_seconds() < apex->folder->next)
        return 0;
    const int64_t before = apex->folder->taken;
    gpur_mutex_lock(&apex->lock);
    const int may_look = apex->has_begun && !apex->is_finishing && !apex->is_quitting && apex->status == GPUR_OK;
    gpur_mutex_unlock(&apex->lock);
    const gpur_status status = may_look ? look_at_all(apex) : GPUR_OK;
    const int has_taken = apex->folder->taken > before;
    apex->folder->next = gpur_clock_seconds() + (has_taken ? 0.0 : period);
    if (status == GPUR_OK || status == GPUR_INTERRUPTED)
        return has_taken;
    gpur_mutex_lock(&apex->lock);
    gpur_apex_end(apex, status, gpur_last_error());
    gpur_mutex_unlock(&apex->lock);
    return 0;
}

/* Two learners would each take a part of the blocks. */
static gpur_status lock_folder(gpur_apex_folder *f, const char *folder)
{
    f->lock = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (f->lock < 0)
        return gpur_fail(GPUR_FILE_ERROR, "the folder %s cannot be opened: %s", folder, strerror(errno));
    GPUR_REQUIRE(flock(f->lock, LOCK_EX | LOCK_NB) == 0,
                 "the folder %s has a learner already (%s); each learner must have a folder of its own", folder,
                 strerror(errno));
    return GPUR_OK;
}

gpur_status gpur_folder_open(gpur_apex *apex, const char *folder)
{
    gpur_apex_folder *const f = apex->folder = calloc(1, sizeof *f);
    if (f)
        f->lock = -1;
    if (f)
        f->remote_actors = calloc(GPUR_APEX_MAX_ACTORS, sizeof *f->remote_actors);
    if (f)
        f->block = malloc((size_t)apex->max_message);
    if (!f || !f->remote_actors || !f->block)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for the remote actors of a folder");
    GPUR_TRY(gpur_apex_paths_open(folder, &f->paths));
    return lock_folder(f, folder);
}

void gpur_folder_close(gpur_apex *apex)
{
    if (!apex->folder)
        return;
    for (int32_t i = 0; apex->folder->remote_actors && i < GPUR_APEX_MAX_ACTORS; i++)
        gpur_writer_destroy(apex->folder->remote_actors[i].writer);
    if (apex->folder->lock >= 0)
        close(apex->folder->lock);
    free(apex->folder->remote_actors);
    free(apex->folder->block);
    free(apex->folder);
}
