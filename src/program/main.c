/* SPDX-License-Identifier: MIT */
/*
 * gpureplay-train: a training by the command line. It has the words of the command line, signals, and a thread that
 * shows progress; all else is gpureplay/training.h. docs/training.md describes its options and the files that it
 * writes.
 */
#include "gpureplay.h"
#include "gpureplay/run.h"
#include "program/program.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { CONNECTION = 3 };

static const time_t look_seconds = 1;     /* between two looks */
static const double print_seconds = 30.0; /* between progress lines where there is no terminal */

/* What the words of the command line say. */
typedef struct arguments {
    word_list words;
    const char *first; /* a command or a preset; NULL: none */
    const char *out, *resume, *work, *seeds;
    int refill, quiet, list, help, serve;
    int told; /* 1: what "auto" is was said by a run of another seed */
} arguments;

int fail(const char *format, ...)
{
    char error[4096];
    va_list values;
    va_start(values, format);
    vsnprintf(error, sizeof error, format, values);
    va_end(values);
    (void)dprintf(STDERR_FILENO, "gpureplay-train: %s\n", error); /* whole, beside those of other seeds' processes */
    return FAILED;
}

int fail_by_library(void)
{
    return fail("%s", gpur_last_error());
}

/* The words. */

const char *text_of(const char *format, ...)
{
    char *text = NULL;
    va_list values;
    va_start(values, format);
    if (vasprintf(&text, format, values) < 0)
        exit(fail("there is no memory for the words of the command line"));
    va_end(values);
    return text;
}

static int is_preset(const char *name)
{
    int32_t i = 0;
    while (gpur_preset_name(i, NULL) && strcmp(gpur_preset_name(i, NULL), name) != 0)
        i++;
    return gpur_preset_name(i, NULL) != NULL;
}

static void add_option(word_list *w, const char *name, const char *value)
{
    w->options[w->count++] = text_of("%s=%s", name, value);
}

/* Also "name=value" of an actor's process. */
int take_word(word_list *w, const known_word *known, int trains, char ***next)
{
    char name[64];
    char *const word = **next;
    const char *const text = word + 2 * (strncmp(word, "--", 2) == 0), *const equals = strchr(text, '=');
    snprintf(name, sizeof name, "%.*s", (int)(equals ? equals - text : (ptrdiff_t)strlen(text)), text);
    for (char *c = name; *c; c++)
        *c = *c == '-' ? '_' : *c;
    while (known->name && strcmp(known->name, name) != 0)
        known++;
    const char *const wanted = known->name || !trains ? known->wanted : gpur_training_option_value(name);
    const char *const value = equals ? equals + 1 : (*next)[1];
    if (!wanted && !known->flag)
        return is_preset(word) ? fail("%s is a preset; it must be the first word, or follow --preset", word)
                               : fail("%s is not an option; gpureplay-train %s --help lists them", word, w->topic);
    if (!wanted && equals)
        return fail("%s has a value; it must have none", word);
    if (wanted && !value)
        return fail("%s has no value; it must have one: %s", word, wanted);
    if (w->count == MAX_WORDS - 1)
        return fail("there are too many options");
    if (known->value && *known->value)
        return fail("%.*s is given twice", (int)(strlen(word) - (equals ? strlen(equals) : 0)), word);
    if (!wanted)
        *known->flag = 1;
    else if (known->value)
        *known->value = value;
    else
        add_option(w, name, value);
    *next += wanted && !equals ? 2 : 1;
    return 0;
}

static int read_words(arguments *a, char **next)
{
    const known_word known[] = {{"out", "FOLDER", &a->out, NULL},
                                {"resume", "FOLDER", &a->resume, NULL},
                                {"work", "I", &a->work, NULL},
                                {"seeds", "A-B", &a->seeds, NULL},
                                {"refill", NULL, NULL, &a->refill},
                                {"quiet", NULL, NULL, &a->quiet},
                                {"list", NULL, NULL, &a->list},
                                {"help", NULL, NULL, &a->help},
                                {"serve", NULL, NULL, &a->serve},
                                {"told", NULL, NULL, &a->told},
                                {NULL, NULL, NULL, NULL}};
    if (*next && **next != '-')
        a->first = *next++;
    a->words.topic = a->first ? a->first : "PRESET";
    a->list = a->first && strcmp(a->first, "list") == 0;
    if (a->list && *next && **next != '-')
        add_option(&a->words, "env", *next++);
    if (a->first && !a->list && strcmp(a->first, "compare") != 0 && !is_preset(a->first))
        return fail("%s is no preset and no command; --help lists them", a->first);
    while (*next)
        if (take_word(&a->words, known, 1, &next))
            return FAILED;
    if (a->first && !a->list)
        add_option(&a->words, "preset", a->first);
    return 0;
}

static const char *option_of(const arguments *a, const char *name)
{
    const size_t length = strlen(name);
    for (const char *const *option = a->words.options; *option; option++)
        if (strncmp(*option, name, length) == 0 && (*option)[length] == '=')
            return *option + length + 1;
    return NULL;
}

/* Help, and the list of environments. */

int print_help(const char *topic, const char *env, const char *env_options)
{
    char text[16384];
    if (gpur_training_help(topic, env, env_options, text, sizeof text) != GPUR_OK)
        return fail_by_library();
    fputs(text, stdout);
    return 0;
}

static int print_environments(const arguments *a)
{
    const char *const env = option_of(a, "env");
    const char *name = env ? env : gpur_env_name(0);
    char text[1 << 16];
    for (int32_t i = 0; name; name = env ? NULL : gpur_env_name(++i)) {
        if (gpur_training_describe_env(name, env ? option_of(a, "env_options") : NULL, text, sizeof text) != GPUR_OK)
            return fail_by_library();
        fputs(text, stdout);
    }
    return 0;
}

/* Signals. The first Ctrl-C stops the training, which goes on to its next checkpoint. A second one ends the program. A
 * terminal that is closed often sends SIGHUP twice, which stops the training, too. */

static _Atomic(gpur_training *) running;
static volatile sig_atomic_t interrupts;
static int shows_notice;

static void on_signal(int number)
{
    static const char notice[] = "\nstopping after the next checkpoint; once more ends the program at once\n";
    if (number != SIGHUP && interrupts > 0)
        _exit(INTERRUPTED);
    interrupts = 1;
    gpur_training *const training = atomic_load(&running);
    if (!training)
        return;
    gpur_training_stop(training, 0);
    if (shows_notice)
        (void)!write(STDERR_FILENO, notice, sizeof notice - 1);
}

/* A reader of the output may end first, as head does: the signal of that is ignored by a function, since actors'
 * processes would inherit SIG_IGN. */
static void on_closed_pipe(int number)
{
    (void)number;
}

static void listen_to_signals(gpur_training *training)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART}, before;
    atomic_store(&running, training);
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    if (sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler != SIG_IGN) /* nohup ignores it */
        sigaction(SIGHUP, &action, NULL);
}

int was_interrupted(void *user)
{
    (void)user;
    return interrupts > 0;
}

/* Else the first files that are opened would get what is printed. */
static void open_missing_streams(void)
{
    for (int file = 0; file <= STDERR_FILENO; file++)
        if (fcntl(file, F_GETFD) < 0)
            (void)!open("/dev/null", O_RDWR);
}

/* The progress. */

typedef struct progress {
    gpur_training *training;
    int is_quiet, is_terminal;
    double printed; /* when the last line was, where there is no terminal */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t ends;
    int is_over; /* 1: the thread is to end; under the lock */
} progress;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Over the line before on a terminal, where a line that is too long could not be drawn over. */
static void show_line(progress *p, char *line, size_t bytes)
{
    struct winsize window;
    if (p->is_quiet || (!p->is_terminal && now() - p->printed < print_seconds))
        return;
    p->printed = now();
    if (!p->is_terminal) {
        printf("%s\n", line);
    } else {
        if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 1 && window.ws_col < bytes)
            line[window.ws_col - 1] = '\0';
        printf("\r\033[K%s", line);
    }
    fflush(stdout);
}

/* Waits until the next look is due. Returns 0 if the thread is to end. */
static int wait_for_look(progress *p)
{
    struct timespec until;
    int error = 0;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += look_seconds;
    pthread_mutex_lock(&p->lock);
    while (!p->is_over && error == 0)
        error = pthread_cond_timedwait(&p->ends, &p->lock, &until);
    const int is_over = p->is_over;
    pthread_mutex_unlock(&p->lock);
    return !is_over;
}

static void *show_progress(void *context)
{
    progress *const p = context;
    char line[1024];
    while (wait_for_look(p) && gpur_training_look(p->training, line, sizeof line) == GPUR_OK)
        show_line(p, line, sizeof line);
    return NULL;
}

static int begin_progress(progress *p, gpur_training *training, int is_quiet)
{
    *p = (progress){.training = training, .is_quiet = is_quiet, .is_terminal = isatty(STDOUT_FILENO), .printed = now()};
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->ends, NULL);
    return pthread_create(&p->thread, NULL, show_progress, p) == 0
               ? 0
               : fail("the thread that shows progress cannot be started");
}

static void end_progress(progress *p)
{
    pthread_mutex_lock(&p->lock);
    p->is_over = 1;
    pthread_cond_signal(&p->ends);
    pthread_mutex_unlock(&p->lock);
    pthread_join(p->thread, NULL);
    pthread_cond_destroy(&p->ends);
    pthread_mutex_destroy(&p->lock);
}

/* A training. */

static void say(void *user, int32_t kind, const char *line)
{
    const arguments *const a = user;
    if (a->told && strncmp(line, "auto: ", strlen("auto: ")) == 0)
        return;
    if (kind == GPUR_SAY_WARNING)
        fprintf(stderr, "%s\n", line);
    else if (!a->quiet)
        printf("%s%s\n", isatty(STDOUT_FILENO) ? "\r\033[K" : "", line);
    fflush(stdout);
}

static void print_end(const arguments *a, gpur_training *t, gpur_status status)
{
    const char *const folder = gpur_training_folder(t);
    if (a->quiet)
        return;
    printf("%s%s", isatty(STDOUT_FILENO) ? "\r\033[K" : "", gpur_training_summary(t));
    if (strstr(gpur_build_info(), "files: none"))
        printf("the learner was not saved: this build of the library cannot save to files\n");
    if (status == GPUR_OK)
        printf("done; the files are in %s\n", folder);
    else if (gpur_training_saved_step(t) >= 0)
        printf("interrupted; gpureplay-train --resume %s goes on after step %" PRId64 "\n", folder,
               gpur_training_saved_step(t));
    else
        printf("interrupted; the files are in %s, and there is no checkpoint to go on from\n", folder);
}

static int train(const arguments *a, gpur_training *t)
{
    progress p;
    const char *const period = option_of(a, "checkpoint");
    shows_notice = !a->quiet && (!period || strtod(period, NULL) > 0.0);
    listen_to_signals(t);
    if (gpur_training_open(t) != GPUR_OK || gpur_training_begin(t) != GPUR_OK)
        return fail_by_library();
    if (begin_progress(&p, t, a->quiet))
        return FAILED;
    const gpur_status status = gpur_training_advance(t);
    const int is_interrupted = status == GPUR_INTERRUPTED;
    if (status != GPUR_OK && !is_interrupted)
        (void)fail_by_library();
    end_progress(&p);
    if (status != GPUR_OK && !is_interrupted) {
        if (!a->quiet && gpur_training_saved_step(t) >= 0)
            printf("failed; gpureplay-train --resume %s goes on after step %" PRId64 "\n", gpur_training_folder(t),
                   gpur_training_saved_step(t));
        return FAILED;
    }
    if (gpur_training_finish(t) != GPUR_OK)
        return fail_by_library();
    print_end(a, t, status);
    return is_interrupted ? INTERRUPTED : 0;
}

static int run(arguments *a)
{
    static const char *command[] = {NULL, "--serve", NULL};
    gpur_training_config config;
    gpur_training *t;
    char *end = "";
    const int32_t actor = a->work ? (int32_t)strtol(a->work, &end, 10) : 0;
    if (a->work && (!*a->work || *end))
        return fail("--work is \"%s\"; it must be a remote actor's number, from 0 on", a->work);
    gpur_status status = gpur_training_config_init(&config, sizeof config);
    config.options = a->words.options;
    config.out = a->out || a->resume || a->serve || a->work ? a->out : "";
    config.resume = a->resume;
    config.refill = a->refill;
    command[0] = own_path();
    config.command = a->serve ? NULL : command;
    config.say = say;
    config.user = a;
    if (status == GPUR_OK)
        status = gpur_training_create(&config, &t);
    if (status != GPUR_OK)
        return fail_by_library();
    int result = 0;
    if (a->serve || a->work) {
        if (a->work)
            listen_to_signals(NULL);
        status = a->serve ? gpur_training_serve(t, CONNECTION) : gpur_training_work(t, actor, was_interrupted);
        result = status == GPUR_OK || (a->serve && status == GPUR_INTERRUPTED) ? 0 : fail_by_library();
    } else {
        result = train(a, t);
    }
    atomic_store(&running, NULL);
    gpur_training_destroy(t);
    return result;
}

/* Each of them is a new run. */
static int run_seeds(arguments *a)
{
    if (a->resume || a->work || option_of(a, "seed"))
        return fail("--seeds is %s, and %s is given, too; it must be left out", a->seeds,
                    a->resume ? "--resume"
                    : a->work ? "--work"
                              : "--seed");
    if (a->words.count > MAX_WORDS - 3)
        return fail("there are too many options");
    return train_seeds(a->seeds, a->words.options, a->words.count, a->out, a->quiet);
}

/* The exit status of a command whose result is what it shows. A reader that has ended, as head does, wants no more. */
static int end_of_output(int status)
{
    struct pollfd output = {.fd = STDOUT_FILENO};
    const int error = fflush(stdout) ? errno : ferror(stdout) ? EIO : 0;
    if (!error || (poll(&output, 1, 0) > 0 && (output.revents & POLLERR)))
        return status;
    return fail("what is shown cannot be written: %s", strerror(error));
}

int main(int argc, char **argv)
{
    static arguments a;
    const char *const first = argc > 1 ? argv[1] : "";
    open_missing_streams();
    signal(SIGPIPE, on_closed_pipe);
    for (int i = 1; i < argc; i++)
        argv[i] = strcmp(argv[i], "-h") == 0 ? "--help" : argv[i];
    if (strcmp(first, "play") == 0 || strcmp(first, "evaluate") == 0) {
        listen_to_signals(NULL);
        return end_of_output(play(first, argv + 2));
    }
    if (strcmp(first, "compare") == 0 && !(argc > 2 && strcmp(argv[2], "--help") == 0))
        return fail("compare is a command of the Python package: python -m gpureplay.compare RUN...");
    if (read_words(&a, argv + 1))
        return FAILED;
    if (a.help || argc == 1)
        return print_help(a.first ? a.first : option_of(&a, "preset"), option_of(&a, "env"),
                          option_of(&a, "env_options"));
    if (a.list)
        return end_of_output(print_environments(&a));
    return a.seeds ? run_seeds(&a) : run(&a);
}
