/* SPDX-License-Identifier: MIT */
#include "bench/run/timed_env.h"

#include "bench/lib/bench.h"
#include "bench/lib/setup.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

static timed_env setting;
static int32_t made;

typedef struct instance {
    int32_t lane;
    int64_t step;
} instance;

void timed_env_use(const timed_env *given)
{
    setting = *given;
    made = 0;
}

static double seconds_of(const timed_env *s, int32_t lane, int64_t step)
{
    uint64_t state = (uint64_t)lane << 40 | (uint64_t)step;
    const double uniform = (double)(bench_random(&state) >> 11) * 0x1p-53;
    const double part = s->is_exponential ? -log(1.0 - uniform) : 1.0;
    return s->mean * part * (lane == 0 && s->slow > 0.0 ? s->slow : 1.0);
}

/* The kernel may wake a thread up to 50 us late unless it is told that this matters. */
void timed_sleep(double seconds)
{
    static _Thread_local int is_exact;
    if (!is_exact)
        is_exact = prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL) == 0;
    const struct timespec time = {(time_t)seconds, (long)(1e9 * (seconds - floor(seconds)))};
    nanosleep(&time, NULL);
}

static void spin(double seconds)
{
    const double end = bench_now() + seconds;
    while (bench_now() < end)
        ;
}

static const char *init(const char *options, uint64_t seed, gpur_env_info *info, void **env)
{
    (void)options, (void)seed;
    instance *const e = bench_allocate(sizeof *e);
    e->lane = made++;
    info->obs = (gpur_space){.dtype = GPUR_FLOAT32, .shape = {TIMED_OBS}, .low = -INFINITY, .high = INFINITY};
    info->action = (gpur_space){.dtype = GPUR_INT32, .num_actions = TIMED_ACTIONS};
    *env = e;
    return NULL;
}

static const char *reset(void *env, void *obs)
{
    (void)env;
    memset(obs, 0, TIMED_OBS * sizeof(float));
    return NULL;
}

static const char *step(void *env, const void *action, void *obs, gpur_env_result *result)
{
    instance *const e = env;
    (void)action;
    (setting.spins ? spin : timed_sleep)(seconds_of(&setting, e->lane, e->step++));
    memset(obs, 0, TIMED_OBS * sizeof(float));
    result->truncated = e->step % TIMED_EPISODE == 0;
    return NULL;
}

const gpur_env_type timed_env_type = {
    .size = sizeof timed_env_type, .name = "timed", .init = init, .reset = reset, .step = step, .close = free};
