/* SPDX-License-Identifier: MIT */
#include "record.h"

#include "failure.h"

#include <gpureplay/run.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const episode_columns[] = {"step", "lane", "length", "return", NULL};
static const char *const evaluation_columns[] = {"step", "episodes", "length", "mean_return", "return_deviation", NULL};
static const char *const rates_columns[RATES_COLUMNS + 1] = {
    [RATES_SECONDS] = "seconds",
    [RATES_STEP] = "step",
    [RATES_TRAIN_STEPS] = "train_steps",
    [RATES_EPISODES] = "episodes",
    [RATES_ENV_STEPS_PER_SECOND] = "env_steps_per_second",
    [RATES_INFERENCES_PER_SECOND] = "inferences_per_second",
    [RATES_OBSERVATIONS_PER_INFERENCE] = "observations_per_inference",
    [RATES_TRAIN_STEPS_PER_SECOND] = "train_steps_per_second",
    [RATES_ENV_SHARE] = "env_share",
    [RATES_INFER_SHARE] = "infer_share",
    [RATES_TRAIN_SHARE] = "train_share",
    [RATES_PUBLISH_SHARE] = "publish_share",
    [RATES_COPY_SHARE] = "copy_share",
    [RATES_EVAL_SHARE] = "eval_share",
    [RATES_PUBLISH_SECONDS] = "publish_seconds",
    [RATES_COPY_SECONDS] = "copy_seconds",
    [RATES_RECENT_RETURN] = "recent_return",
    [RATES_EPSILON] = "epsilon",
    [RATES_LEARNING_RATE] = "learning_rate",
    [RATES_LOSS] = "loss",
    [RATES_MEAN_Q] = "mean_q",
    [RATES_GRADIENT_NORM] = "gradient_norm",
    [RATES_MISSING_SHARE] = "missing_share",
};

static const char *const apex_episode_columns[] = {"step", "actor", "length", "return", "epsilon", NULL};
static const char *const actor_columns[] = {"step",  "actor",       "incarnation", "event",
                                            "asked", "lost_blocks", "lost_rows",   NULL};
static const char *const apex_rates_columns[APEX_COLUMNS + 1] = {
    [APEX_SECONDS] = "seconds",
    [APEX_STEP] = "step",
    [APEX_TRAIN_STEPS] = "train_steps",
    [APEX_EPISODES] = "episodes",
    [APEX_ENV_STEPS_PER_SECOND] = "env_steps_per_second",
    [APEX_TRANSITIONS_PER_SECOND] = "transitions_per_second",
    [APEX_MEGABYTES_PER_SECOND] = "megabytes_per_second",
    [APEX_TRAIN_STEPS_PER_SECOND] = "train_steps_per_second",
    [APEX_LEARNED_PER_SECOND] = "learned_per_second",
    [APEX_SAMPLES_PER_INSERT] = "samples_per_insert",
    [APEX_WEIGHTS_AGE] = "weights_age",
    [APEX_ACTORS] = "actors",
    [APEX_DEATHS] = "deaths",
    [APEX_LOST_TRANSITIONS] = "lost_transitions",
    [APEX_REFUSED_BLOCKS] = "refused_blocks",
    [APEX_LIMITER_TIMEOUTS] = "limiter_timeouts",
    [APEX_TRAIN_SHARE] = "train_share",
    [APEX_BROADCAST_SHARE] = "broadcast_share",
    [APEX_RECEIVE_SHARE] = "receive_share",
    [APEX_LEARNER_WAIT_SHARE] = "learner_wait_share",
    [APEX_ACTOR_ENV_SHARE] = "actor_env_share",
    [APEX_ACTOR_INFER_SHARE] = "actor_infer_share",
    [APEX_ACTOR_WAIT_SHARE] = "actor_wait_share",
    [APEX_RECENT_RETURN] = "recent_return",
    [APEX_EVALUATED_RETURN] = "evaluated_return",
    [APEX_LEARNING_RATE] = "learning_rate",
    [APEX_LOSS] = "loss",
    [APEX_MEAN_Q] = "mean_q",
    [APEX_GRADIENT_NORM] = "gradient_norm",
};

static const char *const agent_episode_columns[] = {"step", "agent", "length", "return", NULL};
static const char *const ga3c_evaluation_columns[] = {"step", "episodes", "mean_return", "return_deviation", NULL};
static const char *const tuner_columns[] = {
    "step", "agents", "predictors", "trainers", "accepted", "rollouts_per_second", NULL};
static const char *const ga3c_rates_columns[GA3C_COLUMNS + 1] = {
    [GA3C_SECONDS] = "seconds",
    [GA3C_STEP] = "step",
    [GA3C_TRAIN_STEPS] = "train_steps",
    [GA3C_EPISODES] = "episodes",
    [GA3C_ENV_STEPS_PER_SECOND] = "env_steps_per_second",
    [GA3C_PREDICTIONS_PER_SECOND] = "predictions_per_second",
    [GA3C_ROLLOUTS_PER_SECOND] = "rollouts_per_second",
    [GA3C_PREDICTIONS_PER_ROLLOUT] = "predictions_per_rollout",
    [GA3C_TRAIN_STEPS_PER_SECOND] = "train_steps_per_second",
    [GA3C_PREDICTION_BATCH] = "prediction_batch",
    [GA3C_PREDICTION_QUEUE] = "prediction_queue",
    [GA3C_TRAINING_QUEUE] = "training_queue",
    [GA3C_MEAN_LAG] = "mean_lag",
    [GA3C_LARGEST_LAG] = "largest_lag",
    [GA3C_QUEUE_LAG] = "queue_lag",
    [GA3C_QUEUE_LAG_BOUND] = "queue_lag_bound",
    [GA3C_AGENTS] = "agents",
    [GA3C_PREDICTORS] = "predictors",
    [GA3C_TRAINERS] = "trainers",
    [GA3C_ENV_SHARE] = "env_share",
    [GA3C_WAIT_SHARE] = "wait_share",
    [GA3C_PREDICT_SHARE] = "predict_share",
    [GA3C_TRAIN_SHARE] = "train_share",
    [GA3C_RECENT_RETURN] = "recent_return",
    [GA3C_ENTROPY] = "entropy",
    [GA3C_VALUE_LOSS] = "value_loss",
    [GA3C_LEARNING_RATE] = "learning_rate",
    [GA3C_GRADIENT_NORM] = "gradient_norm",
};

/* Measured numbers are rounded; returns are not. */
typedef struct kind {
    const char *file, *name;
    const char *const *columns;
    int is_rounded;
} kind;

static const kind kinds[][RECORD_KINDS] = {
    [SYSTEM_RUN] =
        {
            [RECORD_EPISODE] = {"episodes.csv", "episode", episode_columns, 0},
            [RECORD_EVALUATION] = {"evaluations.csv", "evaluation", evaluation_columns, 0},
            [RECORD_RATES] = {"rates.csv", "rates", rates_columns, 1},
        },
    [SYSTEM_APEX] =
        {
            [RECORD_EPISODE] = {"episodes.csv", "episode", apex_episode_columns, 0},
            [RECORD_EVALUATION] = {"evaluations.csv", "evaluation", evaluation_columns, 0},
            [RECORD_RATES] = {"rates.csv", "rates", apex_rates_columns, 1},
            [RECORD_ACTOR] = {"actors.csv", "actor", actor_columns, 0},
        },
    [SYSTEM_GA3C] =
        {
            [RECORD_EPISODE] = {"episodes.csv", "episode", agent_episode_columns, 0},
            [RECORD_EVALUATION] = {"evaluations.csv", "evaluation", ga3c_evaluation_columns, 0},
            [RECORD_RATES] = {"rates.csv", "rates", ga3c_rates_columns, 1},
            [RECORD_TUNER] = {"tuner.csv", "tuner", tuner_columns, 1},
        },
    [SYSTEM_A3C] =
        {
            [RECORD_EPISODE] = {"episodes.csv", "episode", agent_episode_columns, 0},
            [RECORD_EVALUATION] = {"evaluations.csv", "evaluation", ga3c_evaluation_columns, 0},
            [RECORD_RATES] = {"rates.csv", "rates", ga3c_rates_columns, 1},
        },
};

static const kind *kind_of(const record *r, int file)
{
    return &kinds[r->system][file];
}

const char *record_file_name(const record *r, int file)
{
    return file < RECORD_KINDS ? kind_of(r, file)->file : "log.jsonl";
}

const char *record_any_file_name(int file)
{
    const record apex = {.system = SYSTEM_APEX}, ga3c = {.system = SYSTEM_GA3C};
    const char *const name = record_file_name(&apex, file);
    return name ? name : record_file_name(&ga3c, file);
}

/* Writes the row that was built. */
static int write_row(record *r, int file)
{
    char path[MAX_PATH];
    TRY(path_make(path, "%s/%s", r->folder, record_file_name(r, file)));
    if (!text_is_whole(&r->row))
        return fail("there is no memory for a row of %s", path);
    struct stat before;
    if (fstat(r->file[file], &before) != 0)
        return fail("cannot read the size of %s: %s", path, strerror(errno));
    const int result = write_all(r->file[file], r->row.memory, r->row.length, path);
    if (result != 0) /* no half of a row stays where there is no room */
        (void)!ftruncate(r->file[file], before.st_size);
    return result;
}

static int write_header(record *r, int file)
{
    text_clear(&r->row);
    const char *const *const columns = kind_of(r, file)->columns;
    for (const char *const *column = columns; *column; column++)
        text_add(&r->row, "%s%s", column == columns ? "" : ",", *column);
    text_add(&r->row, "\n");
    return write_row(r, file);
}

static int open_file(record *r, int file)
{
    char path[MAX_PATH];
    TRY(path_make(path, "%s/%s", r->folder, record_file_name(r, file)));
    r->file[file] = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (r->file[file] < 0)
        return fail("cannot write %s: %s", path, strerror(errno));
    if (flock(r->file[file], LOCK_EX | LOCK_NB) != 0)
        return fail("%s cannot be locked (%s); another process must not write to it", path, strerror(errno));
    return 0;
}

static int check_size(record *r, int file, int64_t bytes)
{
    struct stat found;
    const char *const name = record_file_name(r, file);
    if (fstat(r->file[file], &found) != 0)
        return fail("cannot read the size of %s/%s: %s", r->folder, name, strerror(errno));
    if (found.st_size < bytes)
        return fail("%s/%s has %" PRId64 " bytes; it had %" PRId64 " when the checkpoint was saved, and must have no "
                    "less",
                    r->folder, name, (int64_t)found.st_size, bytes);
    return 0;
}

static int cut(record *r, int file, int64_t bytes)
{
    if (ftruncate(r->file[file], (off_t)bytes) != 0)
        return fail("cannot cut off the end of %s/%s: %s", r->folder, record_file_name(r, file), strerror(errno));
    return 0;
}

int record_open(record *r, const char *folder, system_id system)
{
    *r = (record){.system = system == SYSTEM_APEX_DPG ? SYSTEM_APEX : system}; /* which have the same files */
    for (int i = 0; i < RECORD_FILES; i++)
        r->file[i] = -1;
    pthread_mutex_init(&r->lock, NULL);
    TRY(path_make(r->folder, "%s", folder));
    for (int i = 0; i < RECORD_FILES; i++)
        if (record_file_name(r, i))
            TRY(open_file(r, i));
    return 0;
}

int record_begin(record *r, const int64_t *bytes)
{
    for (int i = 0; i < RECORD_FILES && bytes; i++)
        if (record_file_name(r, i))
            TRY(check_size(r, i, bytes[i]));
    for (int i = 0; i < RECORD_FILES; i++)
        if (record_file_name(r, i))
            TRY(cut(r, i, bytes ? bytes[i] : 0));
    for (int i = 0; i < RECORD_KINDS && !bytes; i++)
        if (record_file_name(r, i))
            TRY(write_header(r, i));
    return 0;
}

/* Both files have the step in their first column. */
static int find_last_step(const record *r, record_kind which, int64_t *step)
{
    char path[MAX_PATH];
    text rows = {0};
    TRY(path_make(path, "%s/%s", r->folder, record_file_name(r, (int)which)));
    const int result = file_read(path, &rows);
    for (const char *row = rows.memory; result == 0 && row; row = strchr(row, '\n')) {
        row += *row == '\n';
        const int64_t found = strtoll(row, NULL, 10); /* of the header: 0 */
        *step = found > *step ? found : *step;
    }
    text_free(&rows);
    return result;
}

int record_find_last_step(const record *r, int64_t *step)
{
    *step = 0;
    TRY(find_last_step(r, RECORD_EPISODE, step));
    return find_last_step(r, RECORD_EVALUATION, step);
}

void record_close(record *r)
{
    if (!r->folder[0])
        return;
    for (int i = 0; i < RECORD_FILES; i++)
        if (r->file[i] >= 0)
            close(r->file[i]);
    text_free(&r->row);
    pthread_mutex_destroy(&r->lock);
    *r = (record){0};
}

static void add_number(text *row, const kind *k, double value, const char *none)
{
    if (k->is_rounded)
        text_add_rounded(row, value, none);
    else
        text_add_exactly(row, value, none);
}

/* The event is the one column of an actor's row that is a word. */
static void add_value(text *row, const kind *k, int column, double value, int is_json)
{
    if (k->columns == actor_columns && strcmp(k->columns[column], "event") == 0) {
        const char *const word = value == GPUR_RUN_STARTED ? "started" : "ended";
        text_add(row, is_json ? "\"%s\"" : "%s", word);
        return;
    }
    add_number(row, k, value, is_json ? "null" : "");
}

static int add_csv(record *r, record_kind which, const double *values)
{
    const kind *const k = kind_of(r, (int)which);
    text_clear(&r->row);
    for (int i = 0; k->columns[i]; i++) {
        text_add(&r->row, "%s", i ? "," : "");
        add_value(&r->row, k, i, values[i], 0);
    }
    text_add(&r->row, "\n");
    return write_row(r, (int)which);
}

static int add_json(record *r, record_kind which, const double *values)
{
    const kind *const k = kind_of(r, (int)which);
    text_clear(&r->row);
    text_add(&r->row, "{\"kind\": \"%s\"", k->name);
    for (int i = 0; k->columns[i]; i++) {
        text_add(&r->row, ", \"%s\": ", k->columns[i]);
        add_value(&r->row, k, i, values[i], 1);
    }
    text_add(&r->row, "}\n");
    return write_row(r, RECORD_KINDS);
}

int record_add(record *r, record_kind which, const double *values)
{
    pthread_mutex_lock(&r->lock);
    int result = add_csv(r, which, values);
    if (result == 0)
        result = add_json(r, which, values);
    pthread_mutex_unlock(&r->lock);
    return result;
}

static int sync_file(record *r, int file, int64_t *bytes)
{
    struct stat found;
    if (fsync(r->file[file]) != 0 || fstat(r->file[file], &found) != 0)
        return fail("cannot sync %s/%s: %s", r->folder, record_file_name(r, file), strerror(errno));
    *bytes = (int64_t)found.st_size;
    return 0;
}

int record_sync(record *r, int64_t *bytes)
{
    int result = 0;
    pthread_mutex_lock(&r->lock);
    for (int i = 0; i < RECORD_FILES && result == 0; i++)
        if (record_file_name(r, i))
            result = sync_file(r, i, &bytes[i]);
    pthread_mutex_unlock(&r->lock);
    return result;
}
