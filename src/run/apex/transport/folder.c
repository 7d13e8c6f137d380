/* SPDX-License-Identifier: MIT */
/* The transport through a folder [Parr, Dilipkumar & Liu 2017: files of gameplay, a model every 15 files, and bad files
 * are skipped]. First the names, then the learner's side, then the actor's. */
#include "run/apex/transport/transport.h"

#include "base/clock.h"
#include "base/platform.h"
#include "device/device.h"
#include "file/atomic_file.h"
#include "file/file_reader.h"
#include "run/apex/intake.h"
#include "run/folder.h"

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
    MOST_SET_ASIDE = 64,          /* bad files that are kept by one run */
    ABANDONED_AFTER_SECONDS = 60, /* then an unfinished file that nobody has locked is deleted */
    MOST_WAITING = 2,             /* files of an actor */
};
static const double LOOK_SECONDS = 0.05; /* between two looks of the learner, if the first found no block */
static const struct timespec ACTOR_WAIT = {.tv_nsec = 10 * 1000 * 1000}; /* between two looks of an actor */

/* The names in the folder. */
typedef struct folder_paths {
    char blocks[GPUR_FOLDER_PATH]; /* the folder of blocks */
    char model[GPUR_FOLDER_PATH];  /* the file of weights */
    char critic[GPUR_FOLDER_PATH]; /* that of critics, which is written before */
} folder_paths;

/* Makes the folder and that of blocks, as far as they are not there, and finds the names. */
static gpur_status open_paths(const char *folder, folder_paths *paths)
{
    GPUR_TRY(gpur_folder_path(folder, "blocks", paths->blocks));
    GPUR_TRY(gpur_folder_path(folder, "model.safetensors", paths->model));
    GPUR_TRY(gpur_folder_path(folder, "critic.safetensors", paths->critic));
    GPUR_TRY(gpur_folder_make(folder));
    return gpur_folder_make(paths->blocks);
}

static int name_ends(const char *name, const char *end)
{
    const size_t length = strlen(name), least = strlen(end);
    return length >= least && strcmp(name + length - least, end) == 0;
}

/* The learner's side. */

struct gpur_folder_side {
    folder_paths paths;
    unsigned char *bytes;        /* (max_message) the file that is being taken */
    char path[GPUR_FOLDER_PATH]; /* its name */
    gpur_intake_block block;     /* its block, with a slot while the run has not let it in yet */
    int64_t taken, next_model;   /* files so far; at this number the model is written again */
    int32_t set_aside;           /* files */
    int lock;                    /* descriptor of the folder, which is locked; -1: none */
    double next;                 /* seconds: when it looks again */
};

/* Under the lock of the policies. */
static gpur_status write_weights(gpur_apex *apex)
{
    const folder_paths *const paths = &apex->folder->paths;
    GPUR_TRY(gpur_actor_policies_pull(&apex->policies, apex->learner));
    if (apex->policies.critic)
        GPUR_TRY(gpur_actor_policies_save_critic(&apex->policies, paths->critic));
    return gpur_policy_save(apex->policies.acting, paths->model, NULL);
}

/* Writes the weights if it is time. */
static gpur_status broadcast_when_due(gpur_apex *apex)
{
    gpur_folder_side *const f = apex->folder;
    if (f->taken < f->next_model)
        return GPUR_OK;
    f->next_model = f->taken + FILES_A_MODEL;
    gpur_mutex_lock(&apex->policies_lock);
    const gpur_status status = write_weights(apex);
    gpur_mutex_unlock(&apex->policies_lock);
    return status;
}

static gpur_status read_block(const gpur_apex *apex, const char *path, int64_t *bytes)
{
    gpur_file_reader file;
    GPUR_TRY(gpur_file_reader_open(&file, path));
    *bytes = file.bytes;
    const gpur_status status =
        file.bytes <= apex->max_message
            ? gpur_file_reader_read(&file, apex->folder->bytes, file.bytes, 0)
            : gpur_fail(GPUR_FILE_ERROR, "it has %" PRId64 " bytes; a block of this run has at most %" PRId64,
                        file.bytes, apex->max_message);
    gpur_file_reader_close(&file);
    return status;
}

static gpur_status read_header(const gpur_apex *apex, int64_t bytes, gpur_block_header *header)
{
    GPUR_TRY(gpur_block_read_header(&apex->format->spec, apex->folder->bytes, bytes, header));
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
    gpur_log(apex->learner->device, "%s is not taken: %s", path, gpur_last_error());
    if (apex->folder->set_aside++ >= MOST_SET_ASIDE)
        return delete_file(path);
    snprintf(bad, sizeof bad, "%.*s.bad", (int)(strlen(path) - strlen(".block")), path);
    if (rename(path, bad) != 0 && errno != ENOENT)
        return gpur_fail(GPUR_FILE_ERROR, "%s cannot be renamed: %s", path, strerror(errno));
    return GPUR_OK;
}

/* Inserts the open block, if the run lets it in now. The file stays until its rows are in the replay. */
static gpur_status insert_block(gpur_apex *apex)
{
    gpur_folder_side *const f = apex->folder;
    const gpur_status status = gpur_intake_insert(&f->block, GPUR_INTAKE_TRIES);
    const int is_new = f->block.is_new;
    if (status == GPUR_WOULD_BLOCK)
        return status;
    gpur_intake_close(&f->block);
    if (gpur_intake_is_refusal(status))
        return set_aside(apex, f->path);
    GPUR_TRY(status);
    f->taken += is_new;
    GPUR_TRY(delete_file(f->path));
    return broadcast_when_due(apex);
}

/* Reads and checks the file of f->path. The steps that count are those that begin the rows. */
static gpur_status open_file(gpur_apex *apex)
{
    gpur_folder_side *const f = apex->folder;
    gpur_block_header header;
    gpur_slot *slot;
    int64_t bytes = 0;
    gpur_status status = read_block(apex, f->path, &bytes);
    if (status == GPUR_OK)
        status = read_header(apex, bytes, &header);
    GPUR_TRY(gpur_intake_judge(apex, status));
    GPUR_TRY(gpur_slot_find(apex, GPUR_SLOT_FOLDER, (int32_t)header.actor, &slot));
    return gpur_intake_open_remote(slot, f->bytes, &header, &f->block);
}

/* A block that was taken before is counted as refused and deleted. */
static gpur_status take_file(gpur_apex *apex)
{
    const gpur_status status = open_file(apex);
    if (status == GPUR_OK)
        return insert_block(apex);
    gpur_intake_close(&apex->folder->block);
    return gpur_intake_is_refusal(status) ? set_aside(apex, apex->folder->path) : status;
}

/* A remote actor that was killed leaves an unfinished file. Whoever writes one has locked it. */
static void delete_if_abandoned(const char *path)
{
    struct stat there;
    if (lstat(path, &there) != 0 || time(NULL) - there.st_mtime < ABANDONED_AFTER_SECONDS)
        return;
    const int file = open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file >= 0 && flock(file, LOCK_EX | LOCK_NB) == 0)
        (void)unlink(path);
    if (file >= 0)
        close(file);
}

static gpur_status look_at(gpur_apex *apex, const char *name)
{
    gpur_folder_side *const f = apex->folder;
    GPUR_TRY(gpur_folder_path(f->paths.blocks, name, f->path));
    if (name_ends(name, ".block"))
        return take_file(apex);
    if (name_ends(name, ".part"))
        delete_if_abandoned(f->path);
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

static gpur_status look(gpur_apex *apex)
{
    if (apex->folder->block.slot)
        GPUR_TRY(insert_block(apex));
    return look_at_all(apex);
}

/* A block that the run does not let in is kept, and the files behind it stay. While the run waits for the ends of its
 * own actors, its file stays, too. */
static int poll_folder(gpur_apex *apex)
{
    gpur_folder_side *const f = apex->folder;
    const int64_t before = f->taken;
    gpur_mutex_lock(&apex->core.lock);
    const int may_look =
        apex->has_begun && apex->gate != GPUR_APEX_LETS_END && !apex->is_quitting && apex->core.status == GPUR_OK;
    gpur_mutex_unlock(&apex->core.lock);
    if (!may_look)
        gpur_intake_close(&f->block);
    if (!may_look || (!f->block.slot && gpur_clock_seconds() < f->next))
        return 0;
    const gpur_status status = look(apex);
    const int has_taken = f->taken > before;
    f->next = gpur_clock_seconds() + (has_taken ? 0.0 : LOOK_SECONDS);
    if (status != GPUR_OK && status != GPUR_INTERRUPTED && status != GPUR_WOULD_BLOCK)
        gpur_run_fail(&apex->core, status);
    return has_taken;
}

/* Two learners would each take a part of the blocks. */
static gpur_status lock_folder(gpur_folder_side *f, const char *folder)
{
    f->lock = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (f->lock < 0)
        return gpur_fail(GPUR_FILE_ERROR, "the folder %s cannot be opened: %s", folder, strerror(errno));
    GPUR_REQUIRE(flock(f->lock, LOCK_EX | LOCK_NB) == 0,
                 "the folder %s has a learner already (%s); each learner must have a folder of its own", folder,
                 strerror(errno));
    return GPUR_OK;
}

static gpur_status open_folder(gpur_apex *apex)
{
    gpur_folder_side *const f = apex->folder = calloc(1, sizeof *f);
    if (f)
        f->lock = -1;
    if (f)
        f->bytes = malloc((size_t)apex->max_message);
    if (!f || !f->bytes)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for a folder of blocks");
    GPUR_TRY(open_paths(apex->folder_name, &f->paths));
    return lock_folder(f, apex->folder_name);
}

static void close_folder(gpur_apex *apex)
{
    if (!apex->folder)
        return;
    gpur_intake_close(&apex->folder->block);
    if (apex->folder->lock >= 0)
        close(apex->folder->lock);
    free(apex->folder->bytes);
    free(apex->folder);
    apex->folder = NULL;
}

static int is_used(const gpur_apex *apex)
{
    return apex->folder_name != NULL;
}

const gpur_transport gpur_folder_transport = {
    .is_used = is_used, .open = open_folder, .close = close_folder, .poll = poll_folder};

/* The actor's side. */

typedef struct folder_actor {
    folder_paths paths;
    gpur_actor_resources resources;
    gpur_actor_settings settings;
    gpur_actor_counts counts;
    struct stat model; /* the file whose weights it has; zeroed: none */
    int (*stop)(void *user);
    void *user;
} folder_actor;

/* Asks whether the remote actor is to end; then the actor ends, too. */
static int is_asked_to_end(folder_actor *w)
{
    if (w->stop && w->stop(w->user))
        atomic_store(&w->counts.is_asked, 1);
    return atomic_load(&w->counts.is_asked);
}

static gpur_status wait_a_little(folder_actor *w)
{
    if (is_asked_to_end(w))
        return gpur_fail(GPUR_INTERRUPTED, "the remote actor is asked to end");
    nanosleep(&ACTOR_WAIT, NULL);
    return GPUR_OK;
}

/* The files of this actor that were not taken yet, also those of earlier incarnations. */
static gpur_status count_waiting(const folder_actor *w, int *count)
{
    char begin[16];
    DIR *const entries = opendir(w->paths.blocks);
    if (!entries)
        return gpur_fail(GPUR_FILE_ERROR, "%s cannot be read: %s", w->paths.blocks, strerror(errno));
    const int length = snprintf(begin, sizeof begin, "%04d-", (int)w->settings.actor);
    *count = 0;
    for (const struct dirent *e = readdir(entries); e; e = readdir(entries))
        *count += strncmp(e->d_name, begin, (size_t)length) == 0 && name_ends(e->d_name, ".block");
    closedir(entries);
    return GPUR_OK;
}

static gpur_status wait_for_room(folder_actor *w)
{
    for (int count = MOST_WAITING;;) {
        GPUR_TRY(count_waiting(w, &count));
        if (count < MOST_WAITING)
            return GPUR_OK;
        GPUR_TRY(wait_a_little(w));
    }
}

/* A file that is taken is deleted, or renamed. One that is asked to end does not wait. */
static void wait_until_taken(folder_actor *w, const char *path)
{
    while (w->settings.waits && access(path, F_OK) == 0 && !is_asked_to_end(w))
        nanosleep(&ACTOR_WAIT, NULL);
}

static gpur_status write_block(const char *path, const void *block, int64_t bytes)
{
    gpur_atomic_file file;
    GPUR_TRY(gpur_atomic_file_begin(&file, path, bytes));
    const gpur_status status = gpur_atomic_file_write(&file, block, bytes, 0);
    if (status == GPUR_OK)
        return gpur_atomic_file_commit(&file);
    gpur_atomic_file_discard(&file);
    return status;
}

/* Names in alphabetical order are in the order in which an actor made the blocks. */
static gpur_status leave_block(void *context, const void *block, int64_t bytes, int64_t steps)
{
    folder_actor *const w = context;
    char name[64], path[GPUR_FOLDER_PATH];
    (void)steps;
    GPUR_TRY(wait_for_room(w));
    (void)is_asked_to_end(w); /* the caller is asked here, too, where nothing waits */
    snprintf(name, sizeof name, "%04d-%020" PRId64 "-%010" PRId64 ".block", (int)w->settings.actor,
             w->settings.incarnation, (int64_t)atomic_load(&w->counts.blocks) - 1);
    GPUR_TRY(gpur_folder_path(w->paths.blocks, name, path));
    GPUR_TRY(write_block(path, block, bytes));
    wait_until_taken(w, path);
    return GPUR_OK;
}

/* Episode returns are not written to the folder. */
static gpur_status pass_over_episode(void *context, const gpur_actor_episode *episode, int64_t steps)
{
    (void)context, (void)episode, (void)steps;
    return GPUR_OK;
}

static int is_same(const struct stat *a, const struct stat *b)
{
    const struct timespec of_a = gpur_file_modified(a), of_b = gpur_file_modified(b);
    return a->st_ino == b->st_ino && a->st_dev == b->st_dev && of_a.tv_sec == of_b.tv_sec &&
           of_a.tv_nsec == of_b.tv_nsec;
}

static gpur_status load(const folder_actor *w, gpur_actor_policies *policies)
{
    if (policies->critic)
        GPUR_TRY(gpur_actor_policies_load_critic(policies, w->paths.critic));
    return gpur_policy_load(policies->acting, w->paths.model, NULL);
}

/* Waits for the first weights. A later file that cannot be read is passed over, as the next one may be better. */
static gpur_status pull(void *context, gpur_actor_policies *policies, unsigned char *weights, int *is_newer)
{
    folder_actor *const w = context;
    (void)weights; /* they are read by the policies themselves */
    const int has_weights = w->model.st_ino != 0;
    struct stat there;
    while (stat(w->paths.model, &there) != 0) {
        if (has_weights)
            return GPUR_OK;
        GPUR_TRY(wait_a_little(w));
    }
    (void)is_asked_to_end(w); /* the caller is asked here, too, where nothing waits */
    if (is_same(&there, &w->model))
        return GPUR_OK;
    const gpur_status status = load(w, policies);
    if (status == GPUR_FILE_ERROR && has_weights)
        return GPUR_OK;
    GPUR_TRY(status);
    w->model = there;
    *is_newer = 1;
    return GPUR_OK;
}

static int64_t microseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* Nobody counts the starts of a remote actor, so its incarnation is the time of this one. */
static gpur_status act(folder_actor *w, const gpur_apex_config *given, int32_t actor)
{
    const gpur_actor_transport transport = {w, leave_block, pass_over_episode, pull, NULL, NULL};
    gpur_actor_context *const context = &w->resources.context;
    gpur_apex_config config;
    GPUR_TRY(gpur_apex_read_remote_config(given, actor, &config));
    GPUR_REQUIRE(config.folder, "folder is NULL; a remote actor must have one");
    w->settings =
        gpur_apex_actor_settings(&w->resources.run, &config, context->networks.critic != NULL, actor, microseconds());
    GPUR_TRY(open_paths(config.folder, &w->paths));
    GPUR_TRY(gpur_actor_resources_open(&w->resources));
    context->counts = &w->counts;
    return gpur_actor_run(context, &w->settings, &transport);
}

gpur_status gpur_apex_work(const gpur_run_config *run, const gpur_apex_config *config, int32_t actor,
                           const gpur_replay_config *replay, const gpur_apex_networks *networks, int32_t threads,
                           int (*stop)(void *user), void *user)
{
    folder_actor w = {.stop = stop, .user = user};
    gpur_status status = gpur_actor_resources_read(&w.resources, run, replay, networks, threads);
    if (status == GPUR_OK)
        status = act(&w, config, actor);
    gpur_actor_resources_close(&w.resources);
    return status == GPUR_INTERRUPTED ? GPUR_OK : status;
}
