/* SPDX-License-Identifier: MIT */
/* --seeds: runs side by side, each a process of this program with a folder of its own. */
#include "gpureplay/run.h"
#include "program/program.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_SEEDS = 1024 };

typedef struct seed_run {
    int64_t seed;
    const char *folder;
    volatile pid_t process; /* 0: it does not run */
} seed_run;

static seed_run runs[MAX_SEEDS];
static int32_t run_count;

/* Signals go on to all processes, which are in groups of their own and do not get those of a terminal. */

static volatile sig_atomic_t stops;

static int shows_notice;

static void forward(int number)
{
    static const char notice[] = "\nstopping the runs; once more ends them at once\n";
    if (!stops && shows_notice)
        (void)!write(STDERR_FILENO, notice, sizeof notice - 1);
    stops = 1;
    for (int32_t i = 0; i < run_count; i++)
        if (runs[i].process > 0)
            kill(runs[i].process, number);
}

static void forward_signals(void)
{
    struct sigaction action = {.sa_handler = forward, .sa_flags = SA_RESTART}, before;
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN) /* nohup ignores SIGHUP */
            sigaction(numbers[i], &action, NULL);
}

/* What will run. */

/* "1-8", or one number. */
static int read_seeds(const char *text)
{
    char *end;
    errno = 0;
    const long long first = strtoll(text, &end, 10);
    const long long last = *end == '-' && end != text ? strtoll(end + 1, &end, 10) : first;
    if (errno != 0 || *text == '-' || end == text || *end || last < first || last - first >= MAX_SEEDS)
        return fail("--seeds is \"%s\"; it must be A-B, whole numbers from A to B, at most 1024 of them", text);
    for (long long seed = first; seed <= last; seed++)
        runs[run_count++].seed = seed;
    return 0;
}

/* Refuses what the library refuses, before anything runs, and finds the folder. */
static int check_run(seed_run *r, const char **options, int32_t count, const char *out)
{
    char seed[32];
    gpur_training_config config;
    gpur_training *training;
    snprintf(seed, sizeof seed, "seed=%" PRId64, r->seed);
    options[count] = seed;
    options[count + 1] = NULL;
    if (gpur_training_config_init(&config, sizeof config) != GPUR_OK)
        return fail_by_library();
    config.options = options;
    config.out = out ? text_of("%s-%s", out, seed + strlen("seed=")) : "";
    if (gpur_training_create(&config, &training) != GPUR_OK)
        return fail_by_library();
    r->folder = text_of("%s", gpur_training_folder(training));
    gpur_training_destroy(training);
    return 0;
}

/* Of the processes, by the cores that this one may use. */
static int32_t find_at_once(int32_t threads)
{
    const int32_t found = own_cores();
    return found / threads > 1 ? found / threads : 1;
}

/* The threads of each run: one, if they are not given, since a run would take all cores. */
static int32_t use_threads(const char **options, int32_t *count)
{
    static const char name[] = "threads=", one[] = "threads=1";
    int32_t at = 0;
    while (at < *count && strncmp(options[at], name, strlen(name)) != 0)
        at++;
    const int32_t given = at < *count ? atoi(options[at] + strlen(name)) : 0;
    if (at == *count)
        ++*count;
    if (given == 0)
        options[at] = one;
    return given > 0 ? given : 1;
}

/* Running them. */

static int start(seed_run *r, const char *const *options, int32_t count)
{
    const char *words[MAX_WORDS + 8] = {"gpureplay-train", "--quiet", "--out", r->folder};
    char seed[32];
    int32_t at = 4;
    const pid_t parent = getpid();
    sigset_t all, before;
    snprintf(seed, sizeof seed, "seed=%" PRId64, r->seed);
    for (int32_t i = 0; i < count; i++)
        words[at++] = options[i];
    words[at++] = seed;
    words[at] = r == runs ? NULL : "--told";
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    const pid_t process = fork();
    if (process == 0) {
        setpgid(0, 0);
        end_with_parent(); /* a run whose parent is killed is interrupted, too */
        if (getppid() != parent)
            _exit(INTERRUPTED);
        signal(SIGINT, SIG_DFL);
        signal(SIGTERM, SIG_DFL);
        sigprocmask(SIG_SETMASK, &before, NULL);
        execv(own_path(), (char *const *)(void *)words);
        _exit(FAILED);
    }
    r->process = process;
    sigprocmask(SIG_SETMASK, &before, NULL);
    return process > 0 ? 0 : fail("a run cannot be started: %s", strerror(errno));
}

/* The mean return and the step of the last evaluation. Returns 0 if there is none. */
static int find_last_evaluation(const char *folder, double *mean_return, int64_t *step)
{
    char header[256], line[256], last[256] = "";
    FILE *const file = fopen(text_of("%s/evaluations.csv", folder), "re");
    const int has_header = file && fgets(header, sizeof header, file);
    while (has_header && fgets(line, sizeof line, file))
        snprintf(last, sizeof last, "%s", line);
    if (file)
        fclose(file);
    const char *name = has_header ? header : NULL, *cell = last;
    while (name && cell && strncmp(name, "mean_return", strlen("mean_return")) != 0) {
        name = strchr(name, ',') ? strchr(name, ',') + 1 : NULL;
        cell = strchr(cell, ',') ? strchr(cell, ',') + 1 : NULL;
    }
    if (!*last || !name || !cell)
        return 0;
    *step = strtoll(last, NULL, 10);
    *mean_return = strtod(cell, NULL);
    return 1;
}

/* A run that was interrupted before its first step has neither a checkpoint nor a learner, and begins again. */
static int can_go_on(const char *folder, int status)
{
    gpur_training_config config;
    gpur_training *t = NULL;
    if (access(text_of("%s/checkpoint", folder), F_OK) == 0)
        return 1;
    if (status != INTERRUPTED || access(text_of("%s/learner.safetensors", folder), F_OK) == 0)
        return 0;
    if (gpur_training_config_init(&config, sizeof config) != GPUR_OK)
        return 0;
    config.resume = folder;
    const int is_whole = gpur_training_create(&config, &t) == GPUR_OK;
    gpur_training_destroy(t);
    return is_whole;
}

static void show_end(const seed_run *r, int status)
{
    double mean_return;
    int64_t step;
    const char *const how = status == 0 ? "done" : status == INTERRUPTED ? "interrupted" : "failed";
    printf("seed %" PRId64 ": %s", r->seed, how);
    if (status != FAILED && find_last_evaluation(r->folder, &mean_return, &step))
        printf(", mean return %.7g of the evaluation after %" PRId64 " steps", mean_return, step);
    if (status == INTERRUPTED && access(r->folder, F_OK) != 0)
        printf(" before it began\n");
    else
        printf("; %s%s\n", status != 0 && can_go_on(r->folder, status) ? "--resume " : "", r->folder);
    fflush(stdout);
}

/* The exit status of a run, which Ctrl-C may also have ended before it listened to signals. */
static int status_of(int how)
{
    if (WIFSIGNALED(how))
        return WTERMSIG(how) == SIGINT || WTERMSIG(how) == SIGTERM ? INTERRUPTED : FAILED;
    return WEXITSTATUS(how);
}

/* Waits for one to end. Returns its exit status. */
static int wait_for_end(int is_quiet)
{
    int how = 0;
    const pid_t process = wait(&how);
    const int status = process < 0 ? FAILED : status_of(how);
    for (int32_t i = 0; process > 0 && i < run_count; i++)
        if (runs[i].process == process) {
            runs[i].process = 0;
            if (!is_quiet)
                show_end(&runs[i], status);
        }
    return status;
}

static int worse_of(int a, int b)
{
    return a == FAILED || b == FAILED ? FAILED : a ? a : b;
}

static int run_all(const char *const *options, int32_t count, int32_t at_once, int is_quiet)
{
    int32_t begun = 0, running = 0;
    int worst = 0;
    while (running > 0 || (begun < run_count && !stops)) {
        if (!stops && begun < run_count && running < at_once) {
            if (start(&runs[begun++], options, count))
                return FAILED;
            running++;
            continue;
        }
        worst = worse_of(worst, wait_for_end(is_quiet));
        running--;
    }
    return worse_of(worst, begun < run_count ? INTERRUPTED : 0);
}

int train_seeds(const char *seeds, const char **options, int32_t count, const char *out, int is_quiet)
{
    if (read_seeds(seeds))
        return FAILED;
    const int32_t threads = use_threads(options, &count), at_once = find_at_once(threads);
    for (int32_t i = 0; i < run_count; i++)
        if (check_run(&runs[i], options, count, out))
            return FAILED;
    if (!is_quiet)
        printf("%d run%s, at most %d at a time, with --threads %d\n", (int)run_count, run_count == 1 ? "" : "s",
               (int)at_once, (int)threads);
    fflush(stdout);
    shows_notice = !is_quiet;
    forward_signals();
    return run_all(options, count, at_once, is_quiet);
}
