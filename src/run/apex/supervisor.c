/* SPDX-License-Identifier: MIT */
/* The supervisor of Ape-X: a thread that starts actors, takes what processes and files bring, and sees to those that
 * end. */
#include "run/apex/handle.h"

#include "base/clock.h"
#include "base/platform.h"
#include "base/thread.h"
#include "run/apex/transport/transport.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    POLL_MS = 50,          /* between two rounds */
    BUSY_POLL_MS = 5,      /* the same while a transport takes blocks that it has to look for */
    MOST_EARLY_DEATHS = 5, /* in a row; then an actor is given up */
};

/* An actor that dies within this time without having sent anything counts as a failed start. Programs begin slowly. */
static const double EARLY_DEATH_SECONDS = 60.0;
static const double LONGEST_WAIT_SECONDS = 60.0; /* before an actor is started again */

static const gpur_transport *const transports[] = {&gpur_thread_transport, &gpur_process_transport,
                                                   &gpur_folder_transport, &gpur_callbacks_transport};
enum { TRANSPORTS = sizeof transports / sizeof *transports };

struct gpur_supervisor {
    const gpur_transport *own; /* of the run's own actors */
    pthread_t thread;
    int has_thread;
    struct pollfd ends[1 + GPUR_APEX_SLOTS]; /* first the one by which the supervisor is woken, then those of actors */
};

static int was_asked(const gpur_slot *slot)
{
    return atomic_load(&gpur_slot_counts(slot)->is_asked);
}

/* Endings. */

/* Seconds before the next start of an actor that died early, twice as long each time. */
static double wait_of(const gpur_slot *slot)
{
    return fmin(0.025 * exp2((double)slot->early_deaths), LONGEST_WAIT_SECONDS);
}

/* 1 if this actor was to play an evaluation, and is not started again. Under the lock. */
static int has_given_up_evaluation(const gpur_slot *slot)
{
    return gpur_slot_evaluates(slot) && slot->apex->evaluation.state == GPUR_EVALUATION_MISSING && !slot->is_wanted;
}

/* The text of the event: how the actor ended, and whether it waits for its next start, or will have none. */
static void describe_end(const gpur_slot *slot, char text[GPUR_APEX_ERROR])
{
    const gpur_apex *const apex = slot->apex;
    const int waits =
        !was_asked(slot) && slot->early_deaths > 0 && apex->config.restarts && apex->core.status == GPUR_OK;
    if (has_given_up_evaluation(slot))
        snprintf(text, GPUR_APEX_ERROR, "%.400s; it is not started again, and the evaluation is missing",
                 gpur_slot_error(slot));
    else if (waits)
        snprintf(text, GPUR_APEX_ERROR, "%.350s (early death number %d in a row; the next start is in %.2g s)",
                 gpur_slot_error(slot), (int)slot->early_deaths, wait_of(slot));
    else
        snprintf(text, GPUR_APEX_ERROR, "%s", gpur_slot_error(slot));
}

/* Compares what the actor made, by its own count, with what was appended. Under the lock. */
static void count_losses(gpur_slot *slot)
{
    char text[GPUR_APEX_ERROR];
    gpur_apex *const apex = slot->apex;
    const int64_t steps = atomic_load(&gpur_slot_counts(slot)->steps),
                  blocks = atomic_load(&gpur_slot_counts(slot)->blocks);
    const int64_t lost_blocks = blocks - slot->blocks;
    const int64_t lost_rows = gpur_slot_evaluates(slot) ? 0 : steps - slot->rows;
    apex->counts.lost_blocks += lost_blocks - slot->gaps;
    apex->counts.lost_rows += lost_rows;
    describe_end(slot, text);
    gpur_slot_add_event(slot, (gpur_run_event){.kind = GPUR_RUN_ENDED,
                                               .length = steps,
                                               .asked = was_asked(slot),
                                               .lost_blocks = lost_blocks,
                                               .lost_rows = lost_rows,
                                               .error = text});
}

static void plan_restart(gpur_slot *slot, int was_killed)
{
    const double now = gpur_clock_seconds();
    const int is_early = now - slot->started < EARLY_DEATH_SECONDS && !slot->has_sent;
    slot->early_deaths = is_early ? slot->early_deaths + 1 : 0;
    slot->early_failures = is_early ? slot->early_failures + !was_killed : 0;
    slot->next_start = is_early ? now + wait_of(slot) : now;
}

/* 1 if all actors have died again and again, and nothing of one that runs has come. Then none is alive, or will be, as
 * far as one can tell. Under the lock. */
static int are_all_given_up(const gpur_apex *apex)
{
    const gpur_slot_table *const table = &apex->tables[GPUR_SLOT_OWN];
    int wanted = 0, given_up = 0;
    for (int32_t i = 0; i < table->count; i++) {
        const gpur_slot *const s = table->slots[i];
        wanted += s->is_wanted;
        given_up += s->is_wanted && s->early_deaths >= MOST_EARLY_DEATHS && !(s->is_running && s->has_sent);
    }
    return wanted > 0 && given_up == wanted && !apex->has_remote_actors;
}

static void end_run(gpur_slot *slot, const char *why)
{
    char error[2 * GPUR_APEX_ERROR];
    const gpur_status status = slot->status == GPUR_OK ? GPUR_INVALID_ARGUMENT : slot->status;
    if (gpur_slot_evaluates(slot))
        snprintf(error, sizeof error, "the actor that evaluates: %s%s", gpur_slot_error(slot), why);
    else
        snprintf(error, sizeof error, "actor %d: %s%s", (int)slot->actor, gpur_slot_error(slot), why);
    gpur_run_end(&slot->apex->core, status, error);
}

/* 1 if the death of the evaluator ends its evaluation, and not the run. Under the lock. */
static int ends_evaluation(const gpur_slot *slot, int was_killed, int has_refused)
{
    const gpur_apex *const apex = slot->apex;
    const int restarts = apex->config.restarts, is_last = !restarts || apex->evaluation.deaths >= MOST_EARLY_DEATHS;
    if (!gpur_slot_evaluates(slot))
        return 0;
    if (apex->evaluation.is_alone)
        return is_last || has_refused;
    return is_last && (was_killed || (restarts && !has_refused && slot->early_failures < MOST_EARLY_DEATHS));
}

/* The next evaluation starts it again, unless `restarts` is 0. Under the lock. */
static void give_up_evaluator(gpur_slot *slot)
{
    slot->is_wanted = 0;
    slot->apex->has_lost_evaluator |= !slot->apex->config.restarts;
    gpur_apex_give_up_evaluation(slot->apex);
}

/* What the death of an actor means to the run. Under the lock. `was_killed`: by a signal, which may come from anyone at
 * any time; so as long as another actor lives the run goes on [Horgan et al. 2018, appendix F], and without an
 * evaluation. An environment whose numbers are not finite would show them again, so there is no next start. */
static void judge_death(gpur_slot *slot, int was_killed)
{
    gpur_apex *const apex = slot->apex;
    const int has_refused = atomic_load(&gpur_slot_counts(slot)->has_refused);
    apex->evaluation.deaths += gpur_slot_evaluates(slot);
    if (ends_evaluation(slot, was_killed, has_refused))
        give_up_evaluator(slot);
    else if (!was_killed && (has_refused || !apex->config.restarts))
        end_run(slot, "");
    else if (!apex->config.restarts)
        slot->is_wanted = 0;
    else if (slot->early_failures >= MOST_EARLY_DEATHS)
        end_run(slot, " (for the 5th time in a row it died within a minute after its start)");
    else if (slot->early_deaths >= MOST_EARLY_DEATHS && are_all_given_up(apex))
        end_run(slot,
                "; all actors died at least 5 times in a row within a minute after their start, and none is left");
    if (!apex->config.restarts && apex->running == 0 && apex->actors > 0 && !apex->has_remote_actors &&
        !gpur_slot_evaluates(slot))
        end_run(slot, "; no actor is left, and restarts is 0");
}

static void finish(gpur_slot *slot, int was_killed)
{
    gpur_apex *const apex = slot->apex;
    gpur_mutex_lock(&apex->core.lock);
    slot->is_running = 0;
    slot->process = -1;
    apex->running -= !gpur_slot_evaluates(slot);
    if (was_asked(slot)) {
        slot->early_deaths = slot->early_failures = 0;
        count_losses(slot);
    } else {
        apex->counts.deaths++;
        plan_restart(slot, was_killed);
        judge_death(slot, was_killed);
        count_losses(slot);
    }
    slot->incarnation++;
    gpur_mutex_notify_all(&apex->core.lock);
    gpur_mutex_unlock(&apex->core.lock);
}

/* Starts. */

/* Under the lock. */
static void reset_slot(gpur_slot *slot)
{
    const gpur_apex *const apex = slot->apex;
    gpur_actor_counts *const counts = gpur_slot_counts(slot);
    slot->blocks = slot->rows = slot->next_sequence = slot->gaps = slot->steps = 0;
    slot->block_rows = gpur_apex_block_rows(&apex->config, apex->actors + apex->config.remote_actors);
    slot->has_sent = slot->has_ended = 0;
    slot->status = GPUR_OK;
    gpur_slot_forget_error(slot);
    slot->started = gpur_clock_seconds();
    slot->deadline = (double)INFINITY;
    atomic_store(&counts->steps, 0);
    atomic_store(&counts->blocks, 0);
    atomic_store(&counts->is_asked, 0);
    atomic_store(&counts->has_refused, 0);
}

static void start(gpur_slot *slot)
{
    gpur_apex *const apex = slot->apex;
    gpur_mutex_lock(&apex->core.lock);
    reset_slot(slot);
    slot->is_running = 1;
    apex->running += !gpur_slot_evaluates(slot);
    apex->counts.starts++;
    gpur_slot_add_event(slot, (gpur_run_event){.kind = GPUR_RUN_STARTED});
    gpur_mutex_unlock(&apex->core.lock);
    const gpur_status status = apex->supervisor->own->start(slot);
    if (status == GPUR_OK)
        return;
    gpur_slot_note_error(slot, gpur_last_error());
    slot->status = status;
    finish(slot, 0);
}

/* Rounds. */

void gpur_supervisor_expect_end(gpur_slot *slot)
{
    slot->deadline = fmin(slot->deadline, gpur_clock_seconds() + GPUR_APEX_KILL_AFTER_SECONDS);
}

static void ask_to_end(gpur_slot *slot)
{
    gpur_supervisor_expect_end(slot);
    atomic_store(&gpur_slot_counts(slot)->is_asked, 1);
}

/* Says what this round has to do with an actor. Under the lock. */
static void plan(gpur_slot *slot, double now)
{
    const gpur_apex *const apex = slot->apex;
    const int is_wanted = slot->is_wanted && !apex->is_quitting && apex->core.status == GPUR_OK;
    const int may_start = (apex->has_begun || gpur_slot_evaluates(slot)) && now >= slot->next_start;
    slot->looks = slot->is_running;
    slot->asks = slot->is_running && !is_wanted;
    slot->starts = !slot->is_running && is_wanted && may_start;
}

/* Threads are asked to end, processes are asked and at last killed, and either is waited for without standing still.
 * Returns 1 if the actor has ended: that may end the run, so other plans may be out of date. */
static int carry_out(gpur_slot *slot)
{
    int was_killed = 0;
    if (slot->asks)
        ask_to_end(slot);
    if (slot->starts)
        start(slot);
    if (!slot->looks || !slot->apex->supervisor->own->has_ended(slot, &was_killed))
        return 0;
    finish(slot, was_killed);
    return 1;
}

/* Own slot i of `count`, of which the last is the evaluator's. */
static gpur_slot *own_slot(const gpur_apex *apex, int32_t i, int32_t count)
{
    return i + 1 < count ? apex->tables[GPUR_SLOT_OWN].slots[i] : apex->evaluator;
}

static int poll_transports(gpur_apex *apex)
{
    int have_taken = 0;
    for (int i = 0; i < TRANSPORTS; i++)
        if (transports[i]->poll && transports[i]->is_used(apex))
            have_taken |= transports[i]->poll(apex);
    return have_taken;
}

/* Waits for something to happen, and takes what has been sent. */
static void wait_and_receive(gpur_apex *apex, int32_t count, int milliseconds)
{
    gpur_supervisor *const s = apex->supervisor;
    const int32_t senders = s->own->descriptor ? count : 0;
    char wakes[4096];
    s->ends[0] = (struct pollfd){.fd = apex->wake[0], .events = POLLIN};
    for (int32_t i = 0; i < senders; i++)
        s->ends[1 + i] = (struct pollfd){.fd = s->own->descriptor(own_slot(apex, i, count)), .events = POLLIN};
    if (poll(s->ends, (nfds_t)(1 + senders), milliseconds) <= 0)
        return;
    if (s->ends[0].revents)
        (void)!read(apex->wake[0], wakes, sizeof wakes);
    for (int32_t i = 0; i < senders; i++)
        if (s->ends[1 + i].revents)
            s->own->receive(own_slot(apex, i, count));
}

/* Each round it looks at all slots under one lock, and then does what is to be done. The thread ends when the run is
 * destroyed and no actor is left. */
static void *supervise(void *context)
{
    gpur_apex *const apex = context;
    for (;;) {
        const double now = gpur_clock_seconds();
        int has_ended = 0;
        gpur_mutex_lock(&apex->core.lock);
        const int32_t count = apex->tables[GPUR_SLOT_OWN].count + 1;
        const int is_over = apex->is_quitting && apex->running == 0 && !apex->evaluator->is_running;
        for (int32_t i = 0; i < count; i++)
            plan(own_slot(apex, i, count), now);
        gpur_mutex_unlock(&apex->core.lock);
        if (is_over)
            return NULL;
        for (int32_t i = 0; i < count && !has_ended; i++)
            has_ended = carry_out(own_slot(apex, i, count));
        if (!has_ended)
            wait_and_receive(apex, count, poll_transports(apex) ? BUSY_POLL_MS : POLL_MS);
    }
}

/* From outside of the supervisor's thread. */

void gpur_supervisor_wake(gpur_apex *apex)
{
    const char one = 1;
    (void)!write(apex->wake[1], &one, sizeof one); /* if the pipe is full, it wakes the supervisor already */
}

static gpur_status open_own_slots(gpur_apex *apex, int32_t actors)
{
    gpur_slot *slot;
    for (int32_t i = 0; i < actors; i++) {
        GPUR_TRY(gpur_slot_find(apex, GPUR_SLOT_OWN, i, &slot));
        GPUR_TRY(gpur_slot_open_writer(slot));
    }
    return GPUR_OK;
}

gpur_status gpur_supervisor_set_actors(gpur_apex *apex, int32_t actors)
{
    const gpur_slot_table *const own = &apex->tables[GPUR_SLOT_OWN];
    GPUR_TRY(open_own_slots(apex, actors));
    gpur_mutex_lock(&apex->core.lock);
    for (int32_t i = 0; i < own->count; i++) {
        gpur_slot *const slot = own->slots[i];
        if (i < actors && !slot->is_wanted)
            slot->epsilon = gpur_apex_exploration_of(&apex->config, apex->networks.critic != NULL, i, actors);
        slot->is_wanted = i < actors;
        if (!slot->is_wanted) /* at once: the supervisor sees it later, and till then it would act on */
            atomic_store(&gpur_slot_counts(slot)->is_asked, 1);
    }
    apex->actors = actors;
    gpur_mutex_unlock(&apex->core.lock);
    gpur_supervisor_wake(apex);
    return GPUR_OK;
}

static gpur_status open_evaluator(gpur_apex *apex)
{
    GPUR_TRY(gpur_slot_create(apex, GPUR_SLOT_OWN, GPUR_APEX_EVALUATOR, &apex->evaluator));
    apex->evaluator->epsilon = apex->networks.critic ? 0.0f : apex->core.config.eval_epsilon;
    return GPUR_OK;
}

static gpur_status open_transports(gpur_apex *apex)
{
    for (int i = 0; i < TRANSPORTS; i++) {
        const gpur_transport *const t = transports[i];
        if (!t->is_used(apex))
            continue;
        if (t->start)
            apex->supervisor->own = t;
        else
            apex->has_remote_actors = 1;
        if (t->open)
            GPUR_TRY(t->open(apex));
    }
    return GPUR_OK;
}

gpur_status gpur_supervisor_open(gpur_apex *apex)
{
    apex->supervisor = calloc(1, sizeof *apex->supervisor);
    if (!apex->supervisor)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for %d actors", (int)apex->config.actors);
    GPUR_TRY(open_evaluator(apex));
    GPUR_TRY(open_transports(apex));
    if (gpur_pipe_open(apex->wake) != 0)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no pipe for the threads of Ape-X: %s", strerror(errno));
    GPUR_TRY(gpur_supervisor_set_actors(apex, apex->config.actors));
    GPUR_TRY(gpur_thread_start(&apex->supervisor->thread, supervise, apex, "the supervisor of Ape-X"));
    apex->supervisor->has_thread = 1;
    return GPUR_OK;
}

static void end_thread(gpur_apex *apex)
{
    gpur_mutex_lock(&apex->core.lock);
    apex->is_quitting = 1;
    gpur_mutex_notify_all(&apex->core.lock);
    gpur_mutex_unlock(&apex->core.lock);
    gpur_supervisor_wake(apex);
    pthread_join(apex->supervisor->thread, NULL);
}

void gpur_supervisor_close(gpur_apex *apex)
{
    gpur_supervisor *const s = apex->supervisor;
    if (!s)
        return;
    if (s->has_thread)
        end_thread(apex);
    for (int i = 0; i < TRANSPORTS; i++)
        if (transports[i]->close)
            transports[i]->close(apex);
    for (int i = 0; i < GPUR_SLOT_ORIGINS; i++)
        gpur_slot_table_close(&apex->tables[i]);
    gpur_slot_destroy(apex->evaluator);
    for (int i = 0; i < 2; i++)
        if (apex->wake[i] >= 0)
            close(apex->wake[i]);
    free(s);
}
