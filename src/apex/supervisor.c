/* SPDX-License-Identifier: MIT */
/* The supervisor of Ape-X: a thread that starts actors, takes what processes send, and sees to those that end. */
#include "apex/apex.h"

#include "base/clock.h"
#include "base/thread.h"
#include "replay/view.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    POLL_MS = 50,     /* milliseconds between two looks at processes */
    BUSY_POLL_MS = 5, /* the same while a folder has blocks */
    QUICK_DEATHS = 5, /* in a row, of which an actor is given up */
    READS = 4,        /* messages of one actor in a row */
};
static const double KILL_AFTER_SECONDS = 5.0;
static const double EARLY_DEATH_SECONDS =
    60.0; /* an actor that dies within this time without having sent anything counts as a failed start */
static const double LONGEST_WAIT_SECONDS = 60.0; /* before an actor is started again */

gpur_actor_settings gpur_slot_settings(const gpur_slot *slot)
{
    gpur_actor_settings settings = gpur_apex_actor_settings(&slot->apex->config, 0, slot->actor, slot->incarnation);
    settings.epsilon = slot->epsilon; /* also of one whose number the run has no longer, or that evaluates */
    settings.block_rows = slot->block_rows;
    return settings;
}

static gpur_actor_counts *counts_of(const gpur_slot *slot)
{
    return gpur_shared_counts(&slot->apex->shared, slot->actor);
}

static int was_asked(const gpur_slot *slot)
{
    return atomic_load(&counts_of(slot)->is_asked);
}

/* Endings. */

static void set_error(gpur_slot *slot, gpur_status status, const char *error)
{
    if (!slot->error[0])
        snprintf(slot->error, sizeof slot->error, "%s", error);
    slot->status = status;
}

/* Seconds before the next start of an actor that died early: longer and longer ones. */
static double wait_of(const gpur_slot *slot)
{
    return fmin(0.025 * exp2((double)slot->quick_deaths), LONGEST_WAIT_SECONDS);
}

/* 1 if this actor was to play the last evaluation, and is not started again. Under the lock. */
static int has_given_up_last_evaluation(const gpur_slot *slot)
{
    const gpur_apex *const apex = slot->apex;
    return gpur_slot_evaluates(slot) && apex->is_finishing && apex->evaluation.is_played && !slot->is_wanted;
}

/* How the actor ended, for the event; of one that waits for its next start, or will have none, also that. */
static void describe_end(const gpur_slot *slot, char text[GPUR_APEX_ERROR])
{
    const gpur_apex *const apex = slot->apex;
    const int waits = !was_asked(slot) && slot->quick_deaths > 0 && apex->config.restarts && apex->status == GPUR_OK;
    if (has_given_up_last_evaluation(slot))
        snprintf(text, GPUR_APEX_ERROR, "%.400s; it is not started again, and the last evaluation is missing",
                 slot->error);
    else if (waits)
        snprintf(text, GPUR_APEX_ERROR, "%.350s (early death number %d in a row; the next start is in %.2g s)",
                 slot->error, (int)slot->quick_deaths, wait_of(slot));
    else
        snprintf(text, GPUR_APEX_ERROR, "%s", slot->error);
}

/* Counts what the actor made, by its own count, and what of it has arrived. Under the lock. */
static void count_losses(gpur_slot *slot)
{
    char text[GPUR_APEX_ERROR];
    gpur_apex *const apex = slot->apex;
    const int64_t steps = atomic_load(&counts_of(slot)->steps), blocks = atomic_load(&counts_of(slot)->blocks);
    const int64_t lost_blocks = blocks - slot->blocks;
    const int64_t lost_rows = gpur_slot_evaluates(slot) ? 0 : steps - slot->rows;
    apex->counts.lost_blocks += lost_blocks - slot->gaps;
    apex->counts.lost_rows += lost_rows;
    describe_end(slot, text);
    gpur_apex_add_ended(slot, steps, lost_blocks, lost_rows, was_asked(slot), text);
}

static void plan_restart(gpur_slot *slot, int was_killed)
{
    const double now = gpur_clock_seconds();
    const int is_quick = now - slot->started < EARLY_DEATH_SECONDS && !slot->has_sent;
    slot->quick_deaths = is_quick ? slot->quick_deaths + 1 : 0;
    slot->quick_failures = is_quick ? slot->quick_failures + !was_killed : 0;
    slot->next = is_quick ? now + wait_of(slot) : now;
}

/* 1 if all actors have died again and again, and nothing of one that runs has come. Then none is alive, or will be, as
 * far as one can tell. Under the lock. */
static int are_all_given_up(const gpur_apex *apex)
{
    int wanted = 0, given_up = 0;
    for (int32_t i = 0; i < GPUR_APEX_MAX_ACTORS; i++) {
        const gpur_slot *const m = &apex->slots[i];
        wanted += m->is_wanted;
        given_up += m->is_wanted && m->quick_deaths >= QUICK_DEATHS && !(m->is_running && m->has_sent);
    }
    return wanted > 0 && given_up == wanted && !gpur_apex_has_remote_actors(apex);
}

static void end_run(gpur_slot *slot, const char *why)
{
    char error[2 * GPUR_APEX_ERROR];
    const gpur_status status = slot->status == GPUR_OK ? GPUR_INVALID_ARGUMENT : slot->status;
    if (gpur_slot_evaluates(slot))
        snprintf(error, sizeof error, "the actor that evaluates: %s%s", slot->error, why);
    else
        snprintf(error, sizeof error, "actor %d: %s%s", (int)slot->actor, slot->error, why);
    gpur_apex_end(slot->apex, status, error);
}

/* What the death of an actor means to the run. Under the lock. `was_killed`: by a signal, which may come from anyone at
 * any time; so as long as another actor lives the run goes on [Horgan et al. 2018, appendix F], and a run that has
 * trained ends without its last evaluation. An environment whose numbers are not finite would show them again, so there
 * is no next start. */
static void judge_death(gpur_slot *slot, int was_killed)
{
    gpur_apex *const apex = slot->apex;
    const int has_refused = atomic_load(&counts_of(slot)->has_refused);
    if (!was_killed && (has_refused || !apex->config.restarts))
        end_run(slot, "");
    else if (!apex->config.restarts)
        slot->is_wanted = 0;
    else if (slot->quick_failures >= QUICK_DEATHS)
        end_run(slot, " (for the 5th time in a row it died within a minute after its start)");
    else if (gpur_slot_evaluates(slot) && apex->is_finishing)
        slot->is_wanted &= slot->quick_deaths < QUICK_DEATHS;
    else if (slot->quick_deaths >= QUICK_DEATHS && are_all_given_up(apex))
        end_run(slot,
                "; all actors died at least 5 times in a row within a minute after their start, and none is left");
    if (!apex->config.restarts && apex->running == 0 && !gpur_apex_has_remote_actors(apex) && !apex->is_finishing)
        end_run(slot, "; no actor is left, and restarts is 0");
}

static void finish(gpur_slot *slot, int was_killed)
{
    gpur_apex *const apex = slot->apex;
    gpur_inbox_close(&slot->inbox);
    gpur_mutex_lock(&apex->lock);
    slot->is_running = 0;
    slot->process = -1;
    apex->running -= !gpur_slot_evaluates(slot);
    if (was_asked(slot)) {
        slot->quick_deaths = slot->quick_failures = 0;
        count_losses(slot);
    } else {
        apex->counts.deaths++;
        plan_restart(slot, was_killed);
        judge_death(slot, was_killed);
        count_losses(slot);
    }
    slot->incarnation++;
    gpur_mutex_notify_all(&apex->lock);
    gpur_mutex_unlock(&apex->lock);
}

static void note_exit(gpur_slot *slot, int found, int status)
{
    char error[GPUR_APEX_ERROR];
    if (!found)
        snprintf(error, sizeof error, "its process is gone");
    else if (WIFSIGNALED(status))
        snprintf(error, sizeof error, "its process was killed by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else
        snprintf(error, sizeof error, "its process ended with status %d", WEXITSTATUS(status));
    if (!was_asked(slot) || !found || WIFSIGNALED(status))
        set_error(slot, slot->status, error);
}

/* Starts. */

/* Under the lock. */
static void reset_slot(gpur_slot *slot)
{
    gpur_actor_counts *const counts = counts_of(slot);
    slot->blocks = slot->rows = slot->next_sequence = slot->gaps = slot->steps = 0;
    slot->block_rows = gpur_apex_block_rows(&slot->apex->config, slot->apex->actors + slot->apex->config.remote_actors);
    slot->has_sent = 0;
    slot->status = GPUR_OK;
    slot->error[0] = 0;
    slot->started = gpur_clock_seconds();
    slot->deadline = (double)INFINITY;
    atomic_store(&slot->has_returned, 0);
    atomic_store(&counts->steps, 0);
    atomic_store(&counts->blocks, 0);
    atomic_store(&counts->is_asked, 0);
    atomic_store(&counts->has_refused, 0);
}

static void start(gpur_slot *slot)
{
    gpur_apex *const apex = slot->apex;
    gpur_mutex_lock(&apex->lock);
    reset_slot(slot);
    slot->is_running = 1;
    apex->running += !gpur_slot_evaluates(slot);
    apex->counts.starts++;
    gpur_apex_add_started(slot);
    gpur_mutex_unlock(&apex->lock);
    const gpur_status status = apex->command ? gpur_slot_start_process(slot) : gpur_slot_start_thread(slot);
    if (status == GPUR_OK)
        return;
    set_error(slot, status, gpur_last_error());
    finish(slot, 0);
}

static void set_deadline(gpur_slot *slot)
{
    slot->deadline = fmin(slot->deadline, gpur_clock_seconds() + KILL_AFTER_SECONDS);
}

static void ask(gpur_slot *slot)
{
    set_deadline(slot);
    atomic_store(&counts_of(slot)->is_asked, 1);
}

/* What processes send. */

static void kill_process(const gpur_slot *slot)
{
    if (slot->process > 0)
        kill((pid_t)slot->process, SIGKILL);
}

/* An actor that sends what cannot be is not listened to any more; it is started again, unless restarts is 0. */
static void drop(gpur_slot *slot, gpur_status status)
{
    set_error(slot, status, gpur_last_error());
    kill_process(slot);
    gpur_inbox_close(&slot->inbox);
}

/* The actor waits for the answer, whatever became of the block, if the run has a limiter. */
static gpur_status take_block(gpur_slot *slot)
{
    const gpur_message *const head = &slot->inbox.head;
    const gpur_status status = gpur_apex_take_block(slot, slot->inbox.data, head->bytes, head->steps);
    if (slot->apex->config.samples_per_insert > 0.0)
        gpur_connection_answer(slot->inbox.fd);
    return status;
}

static gpur_status take_episode(gpur_slot *slot)
{
    gpur_actor_episode episode;
    GPUR_REQUIRE(slot->inbox.head.bytes == (int64_t)sizeof episode,
                 "an episode has %" PRId64 " bytes; it must have %zu", slot->inbox.head.bytes, sizeof episode);
    memcpy(&episode, slot->inbox.data, sizeof episode);
    return gpur_apex_take_episode(slot, &episode, slot->inbox.head.steps);
}

static void take_error(gpur_slot *slot)
{
    char error[GPUR_MESSAGE_TEXT];
    const int64_t bytes = gpur_min(slot->inbox.head.bytes, GPUR_MESSAGE_TEXT - 1);
    if (bytes > 0)
        memcpy(error, slot->inbox.data, (size_t)bytes);
    error[bytes] = 0;
    set_error(slot, GPUR_INVALID_ARGUMENT, error);
}

static gpur_status take_message(gpur_slot *slot)
{
    const gpur_message *const head = &slot->inbox.head;
    switch (head->kind) {
    case GPUR_MESSAGE_BLOCK:
        return take_block(slot);
    case GPUR_MESSAGE_EPISODE:
        return take_episode(slot);
    case GPUR_MESSAGE_ERROR:
        take_error(slot);
        return GPUR_OK;
    default:
        gpur_apex_take_end(slot, head->steps);
        return GPUR_OK;
    }
}

/* An error of the replay or the device ends the run, and one of the actor's ends the actor. When the run is destroyed,
 * what still comes is read and passed over, so that actors can end. */
static void judge_message(gpur_slot *slot, gpur_status status)
{
    gpur_apex *const apex = slot->apex;
    if (status == GPUR_OK || status == GPUR_INTERRUPTED)
        return;
    if (status == GPUR_INVALID_ARGUMENT || status == GPUR_FILE_ERROR) {
        drop(slot, status);
        return;
    }
    gpur_mutex_lock(&apex->lock);
    gpur_apex_end(apex, status, gpur_last_error());
    gpur_mutex_unlock(&apex->lock);
}

/* Reads until there is nothing, or for a few messages, so that all actors get their turn. */
static void receive(gpur_slot *slot, int most)
{
    gpur_inbox *const inbox = &slot->inbox;
    for (int i = 0; i < most && inbox->fd >= 0; i++) {
        const gpur_inbox_state state = gpur_inbox_read(inbox, slot->apex->max_message);
        if (state == GPUR_INBOX_WAITS)
            return;
        if (state == GPUR_INBOX_CLOSED) {
            gpur_inbox_close(inbox);
            set_deadline(slot);
        } else if (state == GPUR_INBOX_DAMAGED)
            drop(slot, GPUR_FILE_ERROR);
        else
            judge_message(slot, take_message(slot));
        if (state == GPUR_INBOX_MESSAGE)
            gpur_inbox_next(inbox);
    }
}

/* A process that has ended has sent all that it will, so the rest is read before it is forgotten. One that has closed
 * its end and goes on is killed after a while. */
static void look_at_process(gpur_slot *slot)
{
    int status = 0;
    const pid_t found = waitpid((pid_t)slot->process, &status, WNOHANG);
    if (found == 0 && gpur_clock_seconds() > slot->deadline)
        kill_process(slot);
    if (found == 0 || (found < 0 && errno == EINTR))
        return;
    receive(slot, INT32_MAX);
    note_exit(slot, found > 0, status);
    finish(slot, found > 0 && WIFSIGNALED(status));
}

/* Threads are asked, processes are asked and at last killed, and either is waited for without standing still. */
static void look_after(gpur_slot *slot)
{
    gpur_apex *const apex = slot->apex;
    gpur_mutex_lock(&apex->lock);
    const int is_wanted = slot->is_wanted && !apex->is_quitting && apex->status == GPUR_OK;
    const int may_start = is_wanted && apex->has_begun, is_running = slot->is_running;
    gpur_mutex_unlock(&apex->lock);
    if (is_running && !is_wanted)
        ask(slot);
    if (is_running && apex->command) {
        look_at_process(slot);
    } else if (is_running && atomic_load(&slot->has_returned)) {
        pthread_join(slot->thread, NULL);
        finish(slot, 0);
    } else if (!is_running && may_start && gpur_clock_seconds() >= slot->next) {
        start(slot);
    }
}

static int count_running(const gpur_apex *apex)
{
    int running = 0;
    for (int32_t i = 0; i < GPUR_APEX_SLOTS; i++)
        running += apex->slots[i].is_running;
    return running;
}

/* Waits for something to happen, and takes what has been sent. */
static void wait_and_receive(gpur_apex *apex, int milliseconds, struct pollfd *ends, int32_t *places)
{
    uint64_t wakes;
    nfds_t count = 1;
    ends[0] = (struct pollfd){.fd = apex->wake, .events = POLLIN};
    for (int32_t i = 0; i < GPUR_APEX_SLOTS; i++) {
        if (apex->slots[i].inbox.fd < 0)
            continue;
        places[count] = i;
        ends[count++] = (struct pollfd){.fd = apex->slots[i].inbox.fd, .events = POLLIN};
    }
    if (poll(ends, count, milliseconds) <= 0)
        return;
    if (ends[0].revents)
        (void)!read(apex->wake, &wakes, sizeof wakes);
    for (nfds_t i = 1; i < count; i++)
        if (ends[i].revents)
            receive(&apex->slots[places[i]], READS);
}

/* The supervisor's thread ends when the run does and no actor is left. */
static void *work(void *context)
{
    gpur_apex *const apex = context;
    struct pollfd ends[GPUR_APEX_SLOTS + 1];
    int32_t places[GPUR_APEX_SLOTS + 1];
    for (int is_quitting = 0; !is_quitting || count_running(apex) > 0;) {
        for (int32_t i = 0; i < GPUR_APEX_SLOTS; i++)
            look_after(&apex->slots[i]);
        const int has_taken = gpur_folder_look(apex);
        wait_and_receive(apex, has_taken ? BUSY_POLL_MS : POLL_MS, ends, places);
        gpur_mutex_lock(&apex->lock);
        is_quitting = apex->is_quitting;
        gpur_mutex_unlock(&apex->lock);
    }
    return NULL;
}

/* From outside of the supervisor's thread. */

void gpur_supervisor_wake(gpur_apex *apex)
{
    const uint64_t one = 1;
    (void)!write(apex->wake, &one, sizeof one);
}

gpur_status gpur_slot_open_writer(gpur_slot *slot)
{
    gpur_writer_config config;
    gpur_replay *const replay = slot->apex->replay;
    if (slot->writer)
        return GPUR_OK;
    GPUR_TRY(gpur_writer_config_init(&config, sizeof config));
    config.link_appends = gpur_schema_has_previous(gpur_replay_schema(replay));
    return gpur_prefix_error(gpur_writer_open(replay, &config, &slot->writer), "actor %d", (int)slot->actor);
}

gpur_status gpur_supervisor_set_actors(gpur_apex *apex, int32_t actors)
{
    for (int32_t i = 0; i < actors; i++)
        GPUR_TRY(gpur_slot_open_writer(&apex->slots[i]));
    gpur_mutex_lock(&apex->lock);
    for (int32_t i = 0; i < GPUR_APEX_MAX_ACTORS; i++) {
        gpur_slot *const slot = &apex->slots[i];
        if (i < actors && !slot->is_wanted)
            slot->epsilon = gpur_apex_exploration_of(&apex->config, apex->learner.networks.critic != NULL, i, actors);
        slot->is_wanted = i < actors;
    }
    apex->actors = actors;
    gpur_mutex_unlock(&apex->lock);
    gpur_supervisor_wake(apex);
    return GPUR_OK;
}

static gpur_status alloc_slots(gpur_apex *apex)
{
    apex->slots = calloc(GPUR_APEX_SLOTS, sizeof *apex->slots);
    if (!apex->slots)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for %d actors", GPUR_APEX_SLOTS);
    for (int32_t i = 0; i < GPUR_APEX_SLOTS; i++) {
        gpur_slot *const slot = &apex->slots[i];
        slot->apex = apex;
        slot->actor = i;
        slot->process = -1;
        slot->inbox.fd = -1;
    }
    apex->slots[GPUR_APEX_EVALUATOR].is_wanted = apex->config.eval_episodes > 0;
    apex->slots[GPUR_APEX_EVALUATOR].epsilon = apex->learner.networks.critic ? 0.0f : apex->config.eval_epsilon;
    return GPUR_OK;
}

gpur_status gpur_supervisor_open(gpur_apex *apex)
{
    GPUR_TRY(alloc_slots(apex));
    apex->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (apex->wake < 0)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no descriptor for the threads of Ape-X: %s", strerror(errno));
    GPUR_TRY(gpur_supervisor_set_actors(apex, apex->config.actors));
    GPUR_TRY(gpur_thread_start(&apex->supervisor, work, apex, "the supervisor of Ape-X"));
    apex->has_supervisor = 1;
    return GPUR_OK;
}

void gpur_supervisor_close(gpur_apex *apex)
{
    if (apex->has_supervisor) {
        gpur_mutex_lock(&apex->lock);
        apex->is_quitting = 1;
        gpur_mutex_notify_all(&apex->lock);
        gpur_mutex_unlock(&apex->lock);
        gpur_supervisor_wake(apex);
        pthread_join(apex->supervisor, NULL);
    }
    for (int32_t i = 0; apex->slots && i < GPUR_APEX_SLOTS; i++)
        gpur_writer_destroy(apex->slots[i].writer);
    if (apex->wake >= 0)
        close(apex->wake);
    free(apex->slots);
}
