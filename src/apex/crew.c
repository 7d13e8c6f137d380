/* SPDX-License-Identifier: MIT */
/* The crew: the thread that starts actors, takes what processes send, and sees to those that end. */
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
    TICK = 50,        /* milliseconds between two looks at processes */
    HURRY = 5,        /* the same while a folder has blocks */
    QUICK_DEATHS = 5, /* in a row, of which an actor is given up */
    READS = 4,        /* messages of one actor in a row */
};
static const double patience = 5.0;      /* seconds from asking an actor to end to killing its process */
static const double quick = 60.0;        /* seconds of an actor that died with nothing sent; programs begin slowly */
static const double longest_wait = 60.0; /* seconds before an actor is started again */

gpur_actor_settings gpur_member_settings(const gpur_member *member)
{
    gpur_actor_settings settings =
        gpur_apex_actor_settings(&member->apex->config, 0, member->place, member->incarnation);
    settings.epsilon = member->epsilon; /* also of one whose number the run has no longer, or that evaluates */
    settings.block_rows = member->block_rows;
    return settings;
}

static gpur_actor_counts *counts_of(const gpur_member *member)
{
    return gpur_shared_counts(&member->apex->shared, member->place);
}

static int was_asked(const gpur_member *member)
{
    return atomic_load(&counts_of(member)->is_asked);
}

/* Endings. */

static void set_error(gpur_member *member, gpur_status status, const char *error)
{
    if (!member->error[0])
        snprintf(member->error, sizeof member->error, "%s", error);
    member->status = status;
}

/* Seconds before the next start of an actor that died early: longer and longer ones. */
static double wait_of(const gpur_member *member)
{
    return fmin(0.025 * exp2((double)member->quick_deaths), longest_wait);
}

/* 1 if this actor was to play the last evaluation, and is not started again. Under the lock. */
static int has_given_up_last_evaluation(const gpur_member *member)
{
    const gpur_apex *const apex = member->apex;
    return gpur_member_evaluates(member) && apex->is_finishing && apex->evaluation.is_played && !member->is_wanted;
}

/* How the actor ended, for the event; of one that waits for its next start, or will have none, also that. */
static void describe_end(const gpur_member *member, char text[GPUR_APEX_ERROR])
{
    const gpur_apex *const apex = member->apex;
    const int waits =
        !was_asked(member) && member->quick_deaths > 0 && apex->config.restarts && apex->status == GPUR_OK;
    if (has_given_up_last_evaluation(member))
        snprintf(text, GPUR_APEX_ERROR, "%.400s; it is not started again, and the last evaluation is missing",
                 member->error);
    else if (waits)
        snprintf(text, GPUR_APEX_ERROR,
                 "%.350s (early death number %d in a row; the next start is in %.2g s)", member->error,
                 (int)member->quick_deaths, wait_of(member));
    else
        snprintf(text, GPUR_APEX_ERROR, "%s", member->error);
}

/* Counts what the actor made, by its own count, and what of it has arrived. Under the lock. */
static void count_losses(gpur_member *member)
{
    char text[GPUR_APEX_ERROR];
    gpur_apex *const apex = member->apex;
    const int64_t steps = atomic_load(&counts_of(member)->steps), blocks = atomic_load(&counts_of(member)->blocks);
    const int64_t lost_blocks = blocks - member->blocks;
    const int64_t lost_rows = gpur_member_evaluates(member) ? 0 : steps - member->rows;
    apex->counts.lost_blocks += lost_blocks - member->gaps;
    apex->counts.lost_rows += lost_rows;
    describe_end(member, text);
    gpur_apex_add_ended(member, steps, lost_blocks, lost_rows, was_asked(member), text);
}

static void plan_restart(gpur_member *member, int was_killed)
{
    const double now = gpur_clock_seconds();
    const int is_quick = now - member->started < quick && !member->has_sent;
    member->quick_deaths = is_quick ? member->quick_deaths + 1 : 0;
    member->quick_failures = is_quick ? member->quick_failures + !was_killed : 0;
    member->next = is_quick ? now + wait_of(member) : now;
}

/* 1 if all actors have died again and again, and nothing of one that runs has come. Then none is alive, or will be, as
 * far as one can tell. Under the lock. */
static int are_all_given_up(const gpur_apex *apex)
{
    int wanted = 0, given_up = 0;
    for (int32_t i = 0; i < GPUR_APEX_MAX_ACTORS; i++) {
        const gpur_member *const m = &apex->members[i];
        wanted += m->is_wanted;
        given_up += m->is_wanted && m->quick_deaths >= QUICK_DEATHS && !(m->is_running && m->has_sent);
    }
    return wanted > 0 && given_up == wanted && !gpur_apex_has_workers(apex);
}

static void end_run(gpur_member *member, const char *why)
{
    char error[2 * GPUR_APEX_ERROR];
    const gpur_status status = member->status == GPUR_OK ? GPUR_INVALID_ARGUMENT : member->status;
    if (gpur_member_evaluates(member))
        snprintf(error, sizeof error, "the actor that evaluates: %s%s", member->error, why);
    else
        snprintf(error, sizeof error, "actor %d: %s%s", (int)member->place, member->error, why);
    gpur_apex_end(member->apex, status, error);
}

/* What the death of an actor means to the run. Under the lock. `was_killed`: by a signal, which may come from anyone at
 * any time; so as long as another actor lives the run goes on [Horgan et al. 2018, appendix F], and a run that has
 * trained ends without its last evaluation. An environment whose numbers are not finite would show them again, so there
 * is no next start. */
static void judge_death(gpur_member *member, int was_killed)
{
    gpur_apex *const apex = member->apex;
    const int has_refused = atomic_load(&counts_of(member)->has_refused);
    if (!was_killed && (has_refused || !apex->config.restarts))
        end_run(member, "");
    else if (!apex->config.restarts)
        member->is_wanted = 0;
    else if (member->quick_failures >= QUICK_DEATHS)
        end_run(member, " (for the 5th time in a row it died within a minute after its start)");
    else if (gpur_member_evaluates(member) && apex->is_finishing)
        member->is_wanted &= member->quick_deaths < QUICK_DEATHS;
    else if (member->quick_deaths >= QUICK_DEATHS && are_all_given_up(apex))
        end_run(member,
                "; all actors died at least 5 times in a row within a minute after their start, and none is left");
    if (!apex->config.restarts && apex->running == 0 && !gpur_apex_has_workers(apex) && !apex->is_finishing)
        end_run(member, "; no actor is left, and restarts is 0");
}

static void finish(gpur_member *member, int was_killed)
{
    gpur_apex *const apex = member->apex;
    gpur_inbox_close(&member->inbox);
    gpur_mutex_lock(&apex->lock);
    member->is_running = 0;
    member->process = -1;
    apex->running -= !gpur_member_evaluates(member);
    if (was_asked(member)) {
        member->quick_deaths = member->quick_failures = 0;
        count_losses(member);
    } else {
        apex->counts.deaths++;
        plan_restart(member, was_killed);
        judge_death(member, was_killed);
        count_losses(member);
    }
    member->incarnation++;
    gpur_mutex_notify_all(&apex->lock);
    gpur_mutex_unlock(&apex->lock);
}

static void note_exit(gpur_member *member, int found, int status)
{
    char error[GPUR_APEX_ERROR];
    if (!found)
        snprintf(error, sizeof error, "its process is gone");
    else if (WIFSIGNALED(status))
        snprintf(error, sizeof error, "its process was killed by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else
        snprintf(error, sizeof error, "its process ended with status %d", WEXITSTATUS(status));
    if (!was_asked(member) || !found || WIFSIGNALED(status))
        set_error(member, member->status, error);
}

/* Starts. */

/* Under the lock. */
static void reset_member(gpur_member *member)
{
    gpur_actor_counts *const counts = counts_of(member);
    member->blocks = member->rows = member->next_sequence = member->gaps = member->steps = 0;
    member->block_rows =
        gpur_apex_block_rows(&member->apex->config, member->apex->actors + member->apex->config.workers);
    member->has_sent = 0;
    member->status = GPUR_OK;
    member->error[0] = 0;
    member->started = gpur_clock_seconds();
    member->deadline = (double)INFINITY;
    atomic_store(&member->has_returned, 0);
    atomic_store(&counts->steps, 0);
    atomic_store(&counts->blocks, 0);
    atomic_store(&counts->is_asked, 0);
    atomic_store(&counts->has_refused, 0);
}

static void start(gpur_member *member)
{
    gpur_apex *const apex = member->apex;
    gpur_mutex_lock(&apex->lock);
    reset_member(member);
    member->is_running = 1;
    apex->running += !gpur_member_evaluates(member);
    apex->counts.starts++;
    gpur_apex_add_started(member);
    gpur_mutex_unlock(&apex->lock);
    const gpur_status status = apex->command ? gpur_member_start_process(member) : gpur_member_start_thread(member);
    if (status == GPUR_OK)
        return;
    set_error(member, status, gpur_last_error());
    finish(member, 0);
}

static void set_deadline(gpur_member *member)
{
    member->deadline = fmin(member->deadline, gpur_clock_seconds() + patience);
}

static void ask(gpur_member *member)
{
    set_deadline(member);
    atomic_store(&counts_of(member)->is_asked, 1);
}

/* What processes send. */

static void kill_process(const gpur_member *member)
{
    if (member->process > 0)
        kill((pid_t)member->process, SIGKILL);
}

/* An actor that sends what cannot be is not listened to any more; it is started again, unless restarts is 0. */
static void drop(gpur_member *member, gpur_status status)
{
    set_error(member, status, gpur_last_error());
    kill_process(member);
    gpur_inbox_close(&member->inbox);
}

/* The actor waits for the answer, whatever became of the block, if the run has a limiter. */
static gpur_status take_block(gpur_member *member)
{
    const gpur_message *const head = &member->inbox.head;
    const gpur_status status = gpur_apex_take_block(member, member->inbox.data, head->bytes, head->steps);
    if (member->apex->config.samples_per_insert > 0.0)
        gpur_connection_answer(member->inbox.fd);
    return status;
}

static gpur_status take_episode(gpur_member *member)
{
    gpur_actor_episode episode;
    GPUR_REQUIRE(member->inbox.head.bytes == (int64_t)sizeof episode,
                 "an episode has %" PRId64 " bytes; it must have %zu", member->inbox.head.bytes, sizeof episode);
    memcpy(&episode, member->inbox.data, sizeof episode);
    return gpur_apex_take_episode(member, &episode, member->inbox.head.steps);
}

static void take_error(gpur_member *member)
{
    char error[GPUR_MESSAGE_TEXT];
    const int64_t bytes = gpur_min(member->inbox.head.bytes, GPUR_MESSAGE_TEXT - 1);
    if (bytes > 0)
        memcpy(error, member->inbox.data, (size_t)bytes);
    error[bytes] = 0;
    set_error(member, GPUR_INVALID_ARGUMENT, error);
}

static gpur_status take_message(gpur_member *member)
{
    const gpur_message *const head = &member->inbox.head;
    switch (head->kind) {
    case GPUR_MESSAGE_BLOCK:
        return take_block(member);
    case GPUR_MESSAGE_EPISODE:
        return take_episode(member);
    case GPUR_MESSAGE_ERROR:
        take_error(member);
        return GPUR_OK;
    default:
        gpur_apex_take_end(member, head->steps);
        return GPUR_OK;
    }
}

/* An error of the replay or the device ends the run, and one of the actor's ends the actor. When the run is destroyed,
 * what still comes is read and passed over, so that actors can end. */
static void judge_message(gpur_member *member, gpur_status status)
{
    gpur_apex *const apex = member->apex;
    if (status == GPUR_OK || status == GPUR_INTERRUPTED)
        return;
    if (status == GPUR_INVALID_ARGUMENT || status == GPUR_FILE_ERROR) {
        drop(member, status);
        return;
    }
    gpur_mutex_lock(&apex->lock);
    gpur_apex_end(apex, status, gpur_last_error());
    gpur_mutex_unlock(&apex->lock);
}

/* Reads until there is nothing, or for a few messages, so that all actors get their turn. */
static void receive(gpur_member *member, int most)
{
    gpur_inbox *const inbox = &member->inbox;
    for (int i = 0; i < most && inbox->fd >= 0; i++) {
        const gpur_inbox_state state = gpur_inbox_read(inbox, member->apex->max_message);
        if (state == GPUR_INBOX_WAITS)
            return;
        if (state == GPUR_INBOX_CLOSED) {
            gpur_inbox_close(inbox);
            set_deadline(member);
        } else if (state == GPUR_INBOX_DAMAGED)
            drop(member, GPUR_FILE_ERROR);
        else
            judge_message(member, take_message(member));
        if (state == GPUR_INBOX_MESSAGE)
            gpur_inbox_next(inbox);
    }
}

/* A process that has ended has sent all that it will, so the rest is read before it is forgotten. One that has closed
 * its end and goes on is killed after a while. */
static void look_at_process(gpur_member *member)
{
    int status = 0;
    const pid_t found = waitpid((pid_t)member->process, &status, WNOHANG);
    if (found == 0 && gpur_clock_seconds() > member->deadline)
        kill_process(member);
    if (found == 0 || (found < 0 && errno == EINTR))
        return;
    receive(member, INT32_MAX);
    note_exit(member, found > 0, status);
    finish(member, found > 0 && WIFSIGNALED(status));
}

/* Threads are asked, processes are asked and at last killed, and either is waited for without standing still. */
static void look_after(gpur_member *member)
{
    gpur_apex *const apex = member->apex;
    gpur_mutex_lock(&apex->lock);
    const int is_wanted = member->is_wanted && !apex->is_quitting && apex->status == GPUR_OK;
    const int may_start = is_wanted && apex->has_begun, is_running = member->is_running;
    gpur_mutex_unlock(&apex->lock);
    if (is_running && !is_wanted)
        ask(member);
    if (is_running && apex->command) {
        look_at_process(member);
    } else if (is_running && atomic_load(&member->has_returned)) {
        pthread_join(member->thread, NULL);
        finish(member, 0);
    } else if (!is_running && may_start && gpur_clock_seconds() >= member->next) {
        start(member);
    }
}

static int count_running(const gpur_apex *apex)
{
    int running = 0;
    for (int32_t i = 0; i < GPUR_APEX_PLACES; i++)
        running += apex->members[i].is_running;
    return running;
}

/* Waits for something to happen, and takes what has been sent. */
static void wait_and_receive(gpur_apex *apex, int milliseconds, struct pollfd *ends, int32_t *places)
{
    uint64_t wakes;
    nfds_t count = 1;
    ends[0] = (struct pollfd){.fd = apex->wake, .events = POLLIN};
    for (int32_t i = 0; i < GPUR_APEX_PLACES; i++) {
        if (apex->members[i].inbox.fd < 0)
            continue;
        places[count] = i;
        ends[count++] = (struct pollfd){.fd = apex->members[i].inbox.fd, .events = POLLIN};
    }
    if (poll(ends, count, milliseconds) <= 0)
        return;
    if (ends[0].revents)
        (void)!read(apex->wake, &wakes, sizeof wakes);
    for (nfds_t i = 1; i < count; i++)
        if (ends[i].revents)
            receive(&apex->members[places[i]], READS);
}

/* The crew's thread ends when the run does and no actor is left. */
static void *work(void *context)
{
    gpur_apex *const apex = context;
    struct pollfd ends[GPUR_APEX_PLACES + 1];
    int32_t places[GPUR_APEX_PLACES + 1];
    for (int is_quitting = 0; !is_quitting || count_running(apex) > 0;) {
        for (int32_t i = 0; i < GPUR_APEX_PLACES; i++)
            look_after(&apex->members[i]);
        const int has_taken = gpur_folder_look(apex);
        wait_and_receive(apex, has_taken ? HURRY : TICK, ends, places);
        gpur_mutex_lock(&apex->lock);
        is_quitting = apex->is_quitting;
        gpur_mutex_unlock(&apex->lock);
    }
    return NULL;
}

/* From outside of the crew's thread. */

void gpur_crew_wake(gpur_apex *apex)
{
    const uint64_t one = 1;
    (void)!write(apex->wake, &one, sizeof one);
}

gpur_status gpur_member_open_writer(gpur_member *member)
{
    gpur_writer_config config;
    gpur_replay *const replay = member->apex->replay;
    if (member->writer)
        return GPUR_OK;
    GPUR_TRY(gpur_writer_config_init(&config, sizeof config));
    config.link_appends = gpur_schema_has_previous(gpur_replay_schema(replay));
    return gpur_prefix_error(gpur_writer_open(replay, &config, &member->writer), "actor %d", (int)member->place);
}

gpur_status gpur_crew_set(gpur_apex *apex, int32_t actors)
{
    for (int32_t i = 0; i < actors; i++)
        GPUR_TRY(gpur_member_open_writer(&apex->members[i]));
    gpur_mutex_lock(&apex->lock);
    for (int32_t i = 0; i < GPUR_APEX_MAX_ACTORS; i++) {
        gpur_member *const member = &apex->members[i];
        if (i < actors && !member->is_wanted)
            member->epsilon = gpur_apex_noise(&apex->config, apex->learner.dpg != NULL, i, actors);
        member->is_wanted = i < actors;
    }
    apex->actors = actors;
    gpur_mutex_unlock(&apex->lock);
    gpur_crew_wake(apex);
    return GPUR_OK;
}

static gpur_status alloc_members(gpur_apex *apex)
{
    apex->members = calloc(GPUR_APEX_PLACES, sizeof *apex->members);
    if (!apex->members)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for %d actors", GPUR_APEX_PLACES);
    for (int32_t i = 0; i < GPUR_APEX_PLACES; i++) {
        gpur_member *const member = &apex->members[i];
        member->apex = apex;
        member->place = i;
        member->process = -1;
        member->inbox.fd = -1;
    }
    apex->members[GPUR_APEX_EVALUATOR].is_wanted = apex->config.eval_episodes > 0;
    apex->members[GPUR_APEX_EVALUATOR].epsilon = apex->learner.dpg ? 0.0f : apex->config.eval_epsilon;
    return GPUR_OK;
}

gpur_status gpur_crew_open(gpur_apex *apex)
{
    GPUR_TRY(alloc_members(apex));
    apex->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (apex->wake < 0)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no descriptor for the threads of Ape-X: %s", strerror(errno));
    GPUR_TRY(gpur_crew_set(apex, apex->config.actors));
    GPUR_TRY(gpur_thread_start(&apex->crew, work, apex, "the crew of Ape-X"));
    apex->has_crew = 1;
    return GPUR_OK;
}

void gpur_crew_close(gpur_apex *apex)
{
    if (apex->has_crew) {
        gpur_mutex_lock(&apex->lock);
        apex->is_quitting = 1;
        gpur_mutex_notify_all(&apex->lock);
        gpur_mutex_unlock(&apex->lock);
        gpur_crew_wake(apex);
        pthread_join(apex->crew, NULL);
    }
    for (int32_t i = 0; apex->members && i < GPUR_APEX_PLACES; i++)
        gpur_writer_destroy(apex->members[i].writer);
    if (apex->wake >= 0)
        close(apex->wake);
    free(apex->members);
}
