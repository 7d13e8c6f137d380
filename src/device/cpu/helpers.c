/* SPDX-License-Identifier: MIT */
#include "device/cpu/helpers.h"

#include "base/fork.h"
#include "base/thread.h"

#include <time.h>

/* How long a helper without work spins before it sleeps, and a caller waits for a helper's last piece before it sleeps,
 * in ns; and how often they check between two reads of the clock. */
enum { SPIN_NANOSECONDS = 20000, SPINS_PER_CLOCK_READ = 16 };

/* A helper that sleeps on a sleeping core takes some 100 us to start: too late for a short job, but then it is awake
 * for the next one. USELESS_LIMIT is how long helpers may be useless before callers work alone. In nanoseconds, except
 * BACKOFF_FACTOR. */
enum { USELESS_LIMIT = 400000, LONG_WAIT = 500000, MAX_BACKOFF = 500000000, BACKOFF_FACTOR = 10 };

/* An awake helper begins 100 to 200 ns after the job was handed over if the cores share a cache, and 350 to 700 ns
 * after if they do not; one that slept begins after microseconds. While helpers are far, this is measured again now and
 * then, because a hypervisor may move them. */
enum { FAR_NANOSECONDS = 300, AWAKE_NANOSECONDS = 2000, MEDIAN_STEP = 10, FAR_TRIES = 8, FAR_FOR = 20000000 };

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Claims the next piece: returns its number, or -1 if all have been claimed. The caller cannot end this job before a
 * claimed piece is finished, so `run`, `args` and `pieces` stay those of this job. */
static int64_t claim(gpur_helpers *h)
{
    int64_t left = atomic_load_explicit(&h->unclaimed, memory_order_relaxed);
    while (left > 0)
        if (atomic_compare_exchange_weak_explicit(&h->unclaimed, &left, left - 1, memory_order_acquire,
                                                  memory_order_relaxed))
            return h->pieces - left;
    return -1;
}

static int64_t run_unclaimed(gpur_helpers *h)
{
    int64_t done = 0;
    for (int64_t piece = claim(h); piece >= 0; piece = claim(h), done++)
        h->run(piece, h->pieces, h->args);
    return done;
}

/* Claims one sleeping helper. Returns 0 if none is asleep. */
static int claim_sleeper(gpur_helpers *h)
{
    int32_t asleep = atomic_load(&h->asleep);
    while (asleep > 0)
        if (atomic_compare_exchange_weak(&h->asleep, &asleep, asleep - 1))
            return 1;
    return 0;
}

static void wake_one(gpur_helpers *h)
{
    if (claim_sleeper(h))
        gpur_semaphore_post(&h->work);
}

static int has_work(gpur_helpers *h)
{
    return atomic_load(&h->unclaimed) > 0 || atomic_load(&h->closing);
}

static void spin_for_work(gpur_helpers *h)
{
    const int64_t until = now_ns() + SPIN_NANOSECONDS;
    do
        for (int i = 0; i < SPINS_PER_CLOCK_READ; i++) {
            if (has_work(h))
                return;
            relax();
        }
    while (now_ns() < until);
}

/* Either the caller sees that this helper is asleep and wakes it, or the helper sees the job before it sleeps: both
 * sides write before they read, all sequentially consistent (as in Dekker's algorithm). */
static void sleep_until_work(gpur_helpers *h)
{
    atomic_fetch_add(&h->asleep, 1);
    if (has_work(h) && claim_sleeper(h))
        return;
    gpur_semaphore_wait(&h->work);
    for (int64_t left = 2; left <= 3 && atomic_load(&h->unclaimed) >= left; left++)
        wake_one(h); /* the caller woke only one helper, since each wake-up is a system call and delays its own work */
}

/* A helper on the caller's core only takes time from the caller. */
static int shares_callers_core(gpur_helpers *h)
{
    return gpur_current_core() == atomic_load_explicit(&h->core, memory_order_relaxed);
}

/* Moves the running median by a fixed step, so that a single helper that starts late has little weight. */
static void record_distance(gpur_helpers *h)
{
    const int64_t took = now_ns() - h->began, median = atomic_load_explicit(&h->distance, memory_order_relaxed);
    if (took < AWAKE_NANOSECONDS)
        atomic_store_explicit(&h->distance, median + (took > median ? MEDIAN_STEP : -MEDIAN_STEP),
                              memory_order_relaxed);
}

static void run_pieces(gpur_helpers *h)
{
    int64_t piece = claim(h), done = 0;
    if (piece < 0)
        return;
    record_distance(h);
    if (!shares_callers_core(h))
        atomic_store_explicit(&h->useful, 1, memory_order_relaxed);
    for (; piece >= 0; piece = claim(h), done++)
        h->run(piece, h->pieces, h->args);
    if (atomic_fetch_add(&h->unwaited, done) + done == 0)
        gpur_semaphore_post(&h->finished_all);
}

static void *help(void *context)
{
    gpur_helpers *const h = (gpur_helpers *)context;
    while (!atomic_load(&h->closing)) {
        run_pieces(h);
        if (!shares_callers_core(h))
            spin_for_work(h);
        if (!has_work(h))
            sleep_until_work(h);
    }
    return NULL;
}

/* In a forked child the helpers exist only in the parent: resets their state, so that new ones will be started. */
static void reset_after_fork(gpur_helpers *h)
{
    h->started = 0;
    h->cannot_start = 0;
    h->useless_since = h->disabled_until = h->disabled_for = h->far_until = 0;
    h->far_tries = 0;
    atomic_store(&h->distance, 0);
    atomic_store(&h->unclaimed, 0);
    atomic_store(&h->unwaited, 0);
    atomic_store(&h->asleep, 0);
    gpur_semaphore_open(&h->finished_all);
    gpur_semaphore_open(&h->work);
}

static int acquire_helpers(gpur_helpers *h)
{
    const uint64_t ours = 2 * (uint64_t)gpur_forks();
    uint64_t owner = atomic_load_explicit(&h->owner, memory_order_relaxed);
    if (owner == ours + 1 || !atomic_compare_exchange_strong(&h->owner, &owner, ours + 1))
        return 0;
    if (owner != ours)
        reset_after_fork(h);
    return 1;
}

static void release_helpers(gpur_helpers *h)
{
    atomic_store(&h->owner, 2 * (uint64_t)gpur_forks());
}

/* Only one helper is started per job, because starting a thread takes the caller some ten microseconds. */
static void start_one(gpur_helpers *h)
{
    if (gpur_thread_create(&h->threads[h->started], help, h) == 0)
        h->started++;
    else
        h->cannot_start = 1;
}

/* Waits until helpers have finished the pieces they have begun. */
static void wait_for(gpur_helpers *h, int64_t pieces, int64_t now)
{
    const int64_t until = now + SPIN_NANOSECONDS;
    do
        for (int i = 0; i < SPINS_PER_CLOCK_READ; i++) {
            if (atomic_load_explicit(&h->unwaited, memory_order_acquire) == pieces) {
                atomic_store_explicit(&h->unwaited, 0, memory_order_relaxed);
                return;
            }
            relax();
        }
    while (now_ns() < until);
    if (atomic_fetch_sub(&h->unwaited, pieces) != pieces)
        gpur_semaphore_wait(&h->finished_all);
}

/* Disables helpers for ten times the time lost. If the last backoff ended less than its own length ago, disables them
 * for twice that length, if that is longer. */
static void disable_helpers(gpur_helpers *h, int64_t now, int64_t lost)
{
    const int64_t last = h->disabled_for, fresh = BACKOFF_FACTOR * lost;
    const int64_t wanted = now - h->disabled_until < last && 2 * last > fresh ? 2 * last : fresh;
    h->disabled_for = wanted < MAX_BACKOFF ? wanted : MAX_BACKOFF;
    h->disabled_until = now + h->disabled_for;
    h->useless_since = 0;
}

/* Disables helpers after jobs in a row in which none was useful, or if the caller waited for a helper that had lost its
 * core for longer than it worked itself. */
static void update_backoff(gpur_helpers *h, int64_t began, int64_t waited_from, int64_t ended)
{
    const int64_t waited = ended - waited_from;
    const int is_useful = atomic_load_explicit(&h->useful, memory_order_relaxed);
    if (is_useful)
        h->useless_since = 0;
    else if (h->useless_since == 0)
        h->useless_since = began;
    if (waited > LONG_WAIT && waited > waited_from - began)
        disable_helpers(h, ended, waited);
    else if (!is_useful && ended - h->useless_since > USELESS_LIMIT)
        disable_helpers(h, ended, USELESS_LIMIT);
}

static void run_on_caller(int64_t pieces, gpur_cpu_entry run, const void *args)
{
    for (int64_t piece = 0; piece < pieces; piece++)
        run(piece, pieces, args);
}

static int is_too_far(gpur_helpers *h, int64_t now)
{
    if (atomic_load_explicit(&h->distance, memory_order_relaxed) <= FAR_NANOSECONDS)
        return 0;
    if (now >= h->far_until && ++h->far_tries > FAR_TRIES)
        h->far_until = now + FAR_FOR, h->far_tries = 0;
    return now < h->far_until;
}

static void run_with_helpers(gpur_helpers *h, int64_t pieces, int where, gpur_cpu_entry run, const void *args)
{
    const int64_t began = now_ns();
    if (began < h->disabled_until || (where == GPUR_IN_CACHE && is_too_far(h, began))) {
        run_on_caller(pieces, run, args);
        return;
    }
    if (h->started < h->limit && h->started < pieces - 1 && !h->cannot_start)
        start_one(h);
    h->run = run, h->args = args, h->pieces = pieces, h->began = began;
    atomic_store_explicit(&h->useful, 0, memory_order_relaxed);
    atomic_store_explicit(&h->core, gpur_current_core(), memory_order_relaxed);
    atomic_store(&h->unclaimed, pieces);
    wake_one(h);
    const int64_t of_helpers = pieces - run_unclaimed(h), waited_from = now_ns();
    if (of_helpers > 0)
        wait_for(h, of_helpers, waited_from);
    update_backoff(h, began, waited_from, of_helpers > 0 ? now_ns() : waited_from);
}

void gpur_helpers_run(gpur_helpers *h, int64_t pieces, int where, gpur_cpu_entry run, const void *args)
{
    if (pieces == 1 || h->limit == 0 || !acquire_helpers(h)) {
        run_on_caller(pieces, run, args);
        return;
    }
    run_with_helpers(h, pieces, where, run, args);
    release_helpers(h);
}

gpur_status gpur_helpers_open(gpur_helpers *h, gpur_device *device, int32_t threads)
{
    h->device = device;
    h->limit = threads - 1;
    atomic_store(&h->owner, 2 * (uint64_t)gpur_forks());
    reset_after_fork(h);
    if (h->limit == 0)
        return GPUR_OK;
    h->threads = (pthread_t *)gpur_host_alloc(device, (size_t)h->limit * sizeof *h->threads);
    return h->threads ? GPUR_OK : gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for %d helper threads", (int)h->limit);
}

void gpur_helpers_close(gpur_helpers *h)
{
    if (!h->device)
        return;
    const int is_ours = atomic_load(&h->owner) >> 1 == gpur_forks();
    atomic_store(&h->closing, 1);
    for (int32_t i = 0; is_ours && i < h->started; i++)
        wake_one(h);
    for (int32_t i = 0; is_ours && i < h->started; i++)
        pthread_join(h->threads[i], NULL);
    if (is_ours) {
        gpur_semaphore_close(&h->work);
        gpur_semaphore_close(&h->finished_all);
    }
    gpur_host_free(h->device, h->threads, (size_t)h->limit * sizeof *h->threads);
}
