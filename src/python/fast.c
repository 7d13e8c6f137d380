/* SPDX-License-Identifier: MIT */
/* gpureplay._fast: what costs most of `add`, `extend` and `sample`, in C. The package works without it, with the same
 * results. Whatever is unusual (other types, missing fields, errors) is left to the package's Python code, so that
 * every message comes from one place.
 *
 * The build defines Py_LIMITED_API from Python 3.10 on: one file then serves all later versions. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#include <numpy/arrayobject.h>
#include <numpy/arrayscalars.h>
#include <structmember.h>
#include <gpureplay.h>
#include <stdint.h>
#include <string.h>

enum { SCRATCH_BYTES = 1 << 16 };  /* larger arrays NumPy converts as fast */
enum { EXACT_INTEGERS = 1 << 24 }; /* float32 holds integers up to this exactly */
enum { MAX_AT_ONCE = 1 << 17 };    /* bytes that are stored faster than another thread gets the interpreter's lock */
enum { ENV_NONE, ENV_OPEN, ENV_ENDED, ENV_UNKNOWN };                        /* as in _writer.py */
enum { OBS, ACTION, REWARD, NEXT_OBS, TERMINATED, TRUNCATED, STEP_FIELDS }; /* of a step, as in _writer.py */

/* Functions of the library that ctypes has loaded. */
static struct {
    gpur_status (*try_append)(gpur_writer *, int64_t, const void *const *);
    gpur_status (*append)(gpur_writer *, int64_t, const void *const *, void *, int64_t *);
    gpur_status (*step)(gpur_writer *, const gpur_step_input *);
    gpur_status (*reset)(gpur_writer *, int32_t, const void *);
    gpur_status (*sample)(gpur_replay *, int64_t, void *, gpur_batch **);
    gpur_status (*sample_into)(gpur_replay *, void *, gpur_batch *);
    gpur_status (*get_array)(gpur_batch *, const char *, void **, gpur_field_info *);
    gpur_status (*update)(gpur_replay *, int64_t, const int64_t *, const float *, void *);
    void (*release)(gpur_batch *);
} library;

static PyTypeObject *appender_type; /* the class Appender */
static PyObject *forked; /* of _handle.py: a list that is not empty in a child process that must destroy nothing */

/* Names of attributes and of keyword arguments. */
static struct {
    PyObject *handle, *calls, *count, *adder, *extender, *sampling, *info, *final_obs, *out, *add, *extend, *sample,
        *acquire, *release;
} names;

/* Numbers and arrays that callers pass in, converted by the rules of _inputs.py. */

/* The type of an element: its kind by NumPy's letter (f, i, u, b), and its size. */
typedef struct number_type {
    char kind;
    int bytes;
} number_type;

/* By a function, not by the macro of the headers that compile this: later versions have objects that are never freed,
 * NumPy's types among them, whose counts would grow with each call. */
#define NEW_REFERENCE(object) (Py_IncRef((PyObject *)(object)), (PyObject *)(object))

/* A field of the schema. */
typedef struct column {
    PyObject *name; /* interned, as the names of keyword arguments are */
    number_type type;
    int dims;
    Py_ssize_t shape[GPUR_MAX_DIMS]; /* of one row */
    int64_t size, row_bytes;         /* elements and bytes in one row */
} column;

/* Memory for the values that one call converts. */
typedef struct scratch {
    unsigned char *memory; /* (SCRATCH_BYTES), or NULL until it is needed */
    int64_t used;
} scratch;

/* Room on a boundary of 16. NULL: there is no more. */
static void *take_scratch(scratch *space, int64_t count, int64_t bytes)
{
    if (count > SCRATCH_BYTES || count * bytes > SCRATCH_BYTES - space->used)
        return NULL;
    if (!space->memory)
        space->memory = PyMem_Malloc(SCRATCH_BYTES);
    void *const taken = space->memory ? space->memory + space->used : NULL;
    space->used += (count * bytes + 15) / 16 * 16;
    return taken;
}

static number_type type_of(PyArray_Descr *dtype)
{
    return (number_type){dtype->kind, (int)PyDataType_ELSIZE(dtype)};
}

/* `field` is the package's Field: (name, shape, dtype). -1 with an exception. */
static int read_column(column *self, PyObject *field)
{
    PyObject *name, *shape, *dtype;
    if (!PyArg_ParseTuple(field, "UO!O!", &name, &PyTuple_Type, &shape, &PyArrayDescr_Type, &dtype))
        return -1;
    self->name = NEW_REFERENCE(name);
    PyUnicode_InternInPlace(&self->name);
    self->type = type_of((PyArray_Descr *)(void *)dtype);
    self->dims = (int)PyTuple_Size(shape), self->size = 1;
    for (int axis = 0; axis < self->dims; axis++) {
        self->shape[axis] = PyLong_AsSsize_t(PyTuple_GetItem(shape, axis));
        self->size *= self->shape[axis];
    }
    self->row_bytes = self->size * self->type.bytes;
    return PyErr_Occurred() ? -1 : 0;
}

static int is_same_type(number_type a, number_type b)
{
    return a.kind == b.kind && a.bytes == b.bytes;
}

/* Whether a field of type `to` takes numbers of type `from`, if they fit. Types that are not common are left out. */
static int accepts(number_type to, number_type from)
{
    const int is_integer = (from.kind == 'i' && from.bytes >= 4) || (from.kind == 'u' && from.bytes == 1);
    if (is_same_type(to, from))
        return 1;
    if (to.kind == 'f')
        return to.bytes == 4 && (is_integer || from.kind == 'b' || (from.kind == 'f' && from.bytes == 8));
    return is_integer || (to.kind == 'u' && from.kind == 'b');
}

static int64_t load_integer(number_type from, const char *in)
{
    int64_t wide = 0;
    int32_t narrow = 0;
    if (from.bytes == 8)
        return memcpy(&wide, in, sizeof wide), wide; /* it may lie on any address */
    if (from.bytes == 4)
        return memcpy(&narrow, in, sizeof narrow), narrow;
    return from.kind == 'b' ? *in != 0 : (unsigned char)*in; /* the byte of a bool may be any */
}

/* Whether all fit. */
static int convert_integers(number_type to, void *out, number_type from, const char *in, npy_intp count,
                            npy_intp stride)
{
    const int64_t largest = to.bytes == 8 ? INT64_MAX : INT32_MAX;
    const int64_t most = to.kind == 'f' ? EXACT_INTEGERS : to.kind == 'i' ? largest : to.kind == 'u' ? UINT8_MAX : 1;
    const int64_t least = from.kind != 'i' ? 0 : to.kind == 'f' ? -EXACT_INTEGERS : to.kind == 'i' ? -largest - 1 : 0;
    int fit = 1;
    for (npy_intp at = 0; at < count; at++, in += stride) {
        const int64_t value = load_integer(from, in);
        fit &= (value >= least) & (value <= most);
        if (to.kind == 'f')
            ((float *)out)[at] = (float)value;
        else if (to.bytes == 8)
            ((int64_t *)out)[at] = value;
        else if (to.bytes == 4)
            ((int32_t *)out)[at] = (int32_t)value;
        else
            ((uint8_t *)out)[at] = (uint8_t)value;
    }
    return fit;
}

/* Whether all are finite then. An infinite one, which may have been finite, is left to Python. */
static inline int round_doubles(float *out, const char *in, npy_intp count, npy_intp stride)
{
    int infinite = 0;
    for (npy_intp at = 0; at < count; at++) {
        double value;
        memcpy(&value, in + at * stride, sizeof value);
        out[at] = (float)value;
    }
    for (npy_intp at = 0; at < count; at++)
        infinite |= __builtin_isinf(out[at]);
    return !infinite;
}

/* Converts `count` elements that lie `stride` bytes apart. 0: one of them does not fit. */
static int convert_line(number_type to, unsigned char *out, number_type from, const char *in, npy_intp count,
                        npy_intp stride)
{
    float *const floats = (float *)(void *)out;
    if (!is_same_type(to, from) && from.kind != 'f')
        return convert_integers(to, out, from, in, count, stride);
    if (!is_same_type(to, from)) /* compilers make vector instructions of the first, whose stride is known */
        return stride == sizeof(double) ? round_doubles(floats, in, count, sizeof(double))
                                        : round_doubles(floats, in, count, stride);
    if (stride == to.bytes)
        memcpy(out, in, (size_t)(count * stride));
    else
        for (npy_intp at = 0; at < count; at++)
            memcpy(out + at * to.bytes, in + at * stride, (size_t)to.bytes);
    return 1;
}

/* Converts the axes from `axis` on, and moves `out` behind what was written. */
static int convert_axes(number_type to, unsigned char **out, number_type from, PyArrayObject *array, int axis,
                        const char *in)
{
    const npy_intp count = PyArray_NDIM(array) ? PyArray_DIM(array, axis) : 1;
    const npy_intp stride = PyArray_NDIM(array) ? PyArray_STRIDE(array, axis) : to.bytes;
    int fit = 1;
    if (axis + 1 >= PyArray_NDIM(array)) {
        fit = convert_line(to, *out, from, in, count, stride);
        *out += count * to.bytes;
    } else {
        for (npy_intp at = 0; at < count && fit; at++)
            fit = convert_axes(to, out, from, array, axis + 1, in + at * stride);
    }
    return fit;
}

/* The elements of an array: in place, or in the scratch. NULL: they are not accepted. */
static const void *read_elements(number_type to, PyArrayObject *array, int64_t count, scratch *space)
{
    const number_type from = type_of(PyArray_DESCR(array));
    if (is_same_type(to, from) && PyArray_ISCARRAY_RO(array))
        return PyArray_DATA(array);
    if (!accepts(to, from) || !PyArray_ISNOTSWAPPED(array))
        return NULL;
    unsigned char *const out = take_scratch(space, count, to.bytes), *end = out;
    return out && convert_axes(to, &end, from, array, 0, PyArray_BYTES(array)) ? out : NULL;
}

/* A number of Python or NumPy. NULL: it is something else, or does not fit. */
static const void *read_number(number_type to, PyObject *value, scratch *space)
{
    union number {
        double real;
        long long integer;
        char flag, bytes[16];
    } *const given = take_scratch(space, 1, sizeof *given);
    number_type from = {'i', 8};
    int overflow = 0;
    if (!given)
        return NULL;
    if (PyFloat_CheckExact(value) || Py_TYPE(value) == &PyDoubleArrType_Type) {
        from.kind = 'f', given->real = PyFloat_AsDouble(value);
    } else if (PyBool_Check(value)) {
        from = (number_type){'b', 1}, given->flag = value == Py_True;
    } else if (PyLong_CheckExact(value)) {
        given->integer = PyLong_AsLongLongAndOverflow(value, &overflow);
    } else if (Py_TYPE(value) == &PyInt64ArrType_Type) { /* what a Discrete space samples */
        given->integer = ((PyInt64ScalarObject *)(void *)value)->obval;
    } else if (PyArray_IsScalar(value, Number) || PyArray_IsScalar(value, Bool)) {
        PyArray_Descr *const dtype = PyArray_DescrFromScalar(value);
        from = type_of(dtype);
        Py_DECREF(dtype);
        if (accepts(to, from))
            PyArray_ScalarAsCtype(value, given);
    } else {
        return NULL;
    }
    if (is_same_type(to, from))
        return overflow ? NULL : given;
    unsigned char *const out = overflow || !accepts(to, from) ? NULL : take_scratch(space, 1, to.bytes);
    return out && convert_line(to, out, from, given->bytes, 1, to.bytes) ? out : NULL;
}

/* An array of bool that is a view of other memory may hold any byte. Python makes those 0 and 1. */
static int has_other_bools(const column *self, const void *memory, int64_t count)
{
    uint8_t all = 0;
    for (int64_t at = 0; self->type.kind == 'b' && at < count * self->size; at++)
        all |= ((const uint8_t *)memory)[at];
    return all > 1;
}

/* The rows in `value`: an array (count, shape), or with is_single also one row without the first axis, or a number.
 * NULL: it is something else, or a number does not fit. */
static const void *read_rows(const column *self, PyObject *value, int is_single, scratch *space, int64_t *count)
{
    const void *memory = NULL;
    *count = 1;
    if (PyArray_CheckExact(value)) {
        PyArrayObject *const array = (PyArrayObject *)(void *)value;
        const int more = PyArray_NDIM(array) - self->dims; /* axes in front of a row's */
        if (more != 1 && !(more == 0 && is_single))
            return NULL;
        for (int axis = 0; axis < self->dims; axis++)
            if (PyArray_DIM(array, axis + more) != self->shape[axis])
                return NULL;
        *count = more ? PyArray_DIM(array, 0) : 1;
        memory = read_elements(self->type, array, *count * self->size, space);
    } else if (is_single && self->dims == 0) {
        memory = read_number(self->type, value, space);
    }
    return memory && !has_other_bools(self, memory, *count) ? memory : NULL;
}

/* Calls into the library. */

/* A call on a Handle of the package without the interpreter's lock. `close` waits for it. */
typedef struct running_call {
    PyObject *calls, *thread_id; /* the Handle's list of threads that are in the library, and this thread's entry */
    PyThreadState *state;
} running_call;

/* The address in the object's _handle. NULL: it is closed, or an exception is set. */
static void *address_of(PyObject *object)
{
    PyObject *const value = PyObject_GetAttr(object, names.handle);
    void *const address = value && value != Py_None ? PyLong_AsVoidPtr(value) : NULL;
    Py_XDECREF(value);
    return address;
}

/* Removes the entry. It is not there in the child of a fork, which clears the list. */
static void leave_calls(running_call *self)
{
    for (Py_ssize_t at = self->calls ? PyList_Size(self->calls) : 0; at-- > 0;)
        if (PyList_GetItem(self->calls, at) == self->thread_id) {
            PyList_SetSlice(self->calls, at, at + 1, NULL);
            break;
        }
    Py_CLEAR(self->calls);
    Py_CLEAR(self->thread_id);
}

/* 0: the object is closed. The entry is made before the address is read, because `close` removes the address before it
 * reads the entries. */
static int begin_call(running_call *self, PyObject *handle, void **address)
{
    self->calls = PyObject_GetAttr(handle, names.calls);
    self->thread_id = PyLong_FromUnsignedLong(PyThread_get_thread_ident());
    const int is_entered = self->calls && self->thread_id && PyList_Append(self->calls, self->thread_id) == 0;
    *address = is_entered ? address_of(handle) : NULL;
    if (*address)
        self->state = PyEval_SaveThread();
    else
        leave_calls(self), PyErr_Clear();
    return *address != NULL;
}

static void end_call(running_call *self)
{
    PyEval_RestoreThread(self->state);
    leave_calls(self);
}

/* Appender: adds rows or steps to a writer. */

/* A writer whose episodes the library tracks: the arrays of EnvStates in _writer.py, and what they need. */
typedef struct tracking {
    unsigned char *states; /* (num_envs). NULL: the library does not track episodes */
    int64_t *pending;      /* (num_envs) */
    char *last_obs;        /* (num_envs, obs_bytes) */
    int64_t obs_bytes, n_step;
    int state_after_end;
    int fields[STEP_FIELDS]; /* columns */
    int extra_count;
    int extras[GPUR_MAX_FIELDS]; /* (extra_count) for each field of the replay its column, or -1 */
} tracking;

/* SharedState in _writer.py. */
typedef struct shared_state {
    int64_t lock_depth; /* 0: no thread is between `acquire` and `release` of the lock */
    int64_t writer;     /* the address of the library's writer. 0: it is closed */
} shared_state;

typedef struct appender {
    PyObject_HEAD PyObject *arguments; /* of `Appender`: keeps alive what the pointers below point to */
    PyObject *writer;                  /* a weak reference */
    PyObject *lock;
    shared_state *shared;
    int64_t count;     /* rows of a call. -1: any number. 1: a row may come without the first axis */
    int64_t row_bytes; /* of all columns */
    int column_count;
    int optional; /* the column that may be left out, or -1 */
    int ends[2];  /* columns that mark an episode's end, or -1 */
    char *ended;  /* (count) which environments the next step only resets. NULL: none does */
    tracking tracker;
    scratch space; /* for the call that holds the lock, or the interpreter's lock from begin to end */
    column columns[GPUR_MAX_FIELDS];
    int following[GPUR_MAX_FIELDS]; /* by column: that of its next value, as next_obs is obs's; -1: none */
} appender;

/* What one call adds. */
typedef struct rows {
    const void *memory[GPUR_MAX_FIELDS]; /* by column */
    int64_t count;
    char *ended; /* the next contents of appender.ended, or NULL */
} rows;

/* Sorts the arguments by column. What was left out is NULL. 0: a name is missing or unknown. */
static int sort_values(const appender *self, PyObject *const *given, PyObject *keywords, PyObject **values)
{
    const Py_ssize_t count = PyTuple_Size(keywords);
    Py_ssize_t found = 0, next = 0;
    for (int at = 0; at < self->column_count; at++) {
        values[at] = NULL;
        for (Py_ssize_t tried = 0; tried < 2 * count && !values[at]; tried++, next++) {
            next = next < count ? next : 0; /* they mostly come in order, and mostly interned */
            PyObject *const name = PyTuple_GetItem(keywords, next), *const wanted = self->columns[at].name;
            if (name == wanted || (tried >= count && PyUnicode_Compare(name, wanted) == 0))
                values[at] = given[next];
        }
        if (!values[at] && at != self->optional)
            return 0;
        found += values[at] != NULL;
    }
    for (Py_ssize_t at = 0; found < count && self->count > 0 && at < count; at++) {
        PyObject *const name = PyTuple_GetItem(keywords, at);
        found += name == names.info || name == names.final_obs; /* needed only at episodes' ends */
    }
    return found == count;
}

/* Whether the value is an array whose next value is given in the same memory. */
static int is_overwritten(const appender *self, PyObject *const *values, int at)
{
    PyObject *const value = values[at], *const next = self->following[at] < 0 ? NULL : values[self->following[at]];
    return value && next && PyArray_Check(value) && PyArray_Check(next) &&
           PyArray_BYTES((PyArrayObject *)(void *)value) == PyArray_BYTES((PyArrayObject *)(void *)next);
}

/* Whether the arguments are rows that can be added. */
static int collect(appender *self, PyObject *const *given, PyObject *keywords, rows *out)
{
    PyObject *values[GPUR_MAX_FIELDS];
    const int optional = self->optional;
    out->count = -1, out->ended = NULL, self->space.used = 0;
    if (!sort_values(self, given, keywords, values))
        return 0;
    for (int at = 0; at < self->column_count; at++) {
        int64_t count;
        if (!values[at])
            continue;
        if (is_overwritten(self, values, at))
            return 0;
        out->memory[at] = read_rows(&self->columns[at], values[at], self->count == 1, &self->space, &count);
        if (!out->memory[at] || (out->count >= 0 && count != out->count))
            return 0;
        out->count = count;
    }
    if (out->count <= 0 || (self->count > 0 && out->count != self->count))
        return 0;
    if (optional < 0 || values[optional])
        return 1;
    void *const zeros = take_scratch(&self->space, out->count, self->columns[optional].row_bytes);
    if (zeros)
        memset(zeros, 0, (size_t)(out->count * self->columns[optional].row_bytes));
    out->memory[optional] = zeros;
    return zeros != NULL;
}

/* Whether one of the environments from `env` to `end - 1` has ended its episode. */
static int has_ended(const appender *self, const rows *given, int64_t env, int64_t end)
{
    for (int at = 0; at < 2 && self->ends[at] >= 0; at++) {
        const int64_t bytes = self->columns[self->ends[at]].row_bytes;
        const char *const flags = given->memory[self->ends[at]];
        for (int64_t byte = env * bytes; byte < end * bytes; byte++)
            if (flags[byte])
                return 1;
    }
    return 0;
}

/* Leaves only the transitions of a step of environments that reset themselves, as the policies of _writer.py do. 0: the
 * step needs Python: a last observation comes beside it, or no transition is left. */
static int select_transitions(appender *self, rows *given)
{
    int64_t left = 0;
    if (self->ends[0] < 0 || self->tracker.states)
        return 1;
    if (!self->ended)
        return !has_ended(self, given, 0, given->count);
    given->ended = take_scratch(&self->space, given->count, 1);
    for (int64_t env = 0; given->ended && env < given->count; env++) {
        given->ended[env] = !self->ended[env] && has_ended(self, given, env, env + 1);
        left += !self->ended[env];
    }
    for (int at = 0; left > 0 && left < given->count && at < self->column_count; at++) {
        const int64_t bytes = self->columns[at].row_bytes;
        const char *in = given->memory[at];
        char *out = take_scratch(&self->space, left, bytes);
        given->memory[at] = out;
        for (int64_t env = 0; out && env < given->count; env++, in += bytes)
            if (!self->ended[env])
                out = (char *)memcpy(out, in, (size_t)bytes) + bytes;
        if (!out)
            return 0;
    }
    given->count = left;
    return left > 0;
}

/* Adds rows without releasing the interpreter's lock. 1: done. 0: left to Python. -1: they are many, or the library may
 * have to wait, or refuses them. */
static int append_at_once(appender *self, rows *given)
{
    if (self->row_bytes * given->count > MAX_AT_ONCE)
        return -1;
    if (!select_transitions(self, given))
        return 0;
    if (library.try_append((gpur_writer *)(uintptr_t)self->shared->writer, given->count, given->memory) != GPUR_OK)
        return -1;
    if (given->ended)
        memcpy(self->ended, given->ended, (size_t)self->count);
    return 1;
}

static int has_state(const appender *self, int state)
{
    return memchr(self->tracker.states, state, (size_t)self->count) != NULL;
}

/* Whether observations are the same bit for bit, except that zeros of floats may differ in their signs. */
static int is_same_obs(number_type type, const char *one, const char *other, int64_t bytes)
{
    if (memcmp(one, other, (size_t)bytes) == 0)
        return 1;
    if (type.kind != 'f')
        return 0;
    for (int64_t at = 0; at < bytes; at += type.bytes) {
        uint32_t a = 0, b = 0;
        memcpy(&a, one + at, (size_t)type.bytes), memcpy(&b, other + at, (size_t)type.bytes);
        if (a != b && (a | b) << (33 - 8 * type.bytes)) /* without their signs */
            return 0;
    }
    return 1;
}

/* Whether each open episode continues from the observation that was given last. */
static int continues(const tracking *self, int64_t count, number_type type, const char *obs)
{
    const int64_t bytes = self->obs_bytes;
    if (memcmp(obs, self->last_obs, (size_t)(count * bytes)) == 0)
        return 1;
    for (int64_t env = 0; env < count; env++)
        if (self->states[env] == ENV_OPEN && !is_same_obs(type, obs + env * bytes, self->last_obs + env * bytes, bytes))
            return 0;
    return 1;
}

/* Whether nothing of the step needs Python. */
static int is_usual_step(const appender *self, const rows *given)
{
    const tracking *const tracker = &self->tracker;
    const int obs = tracker->fields[OBS];
    return !has_state(self, ENV_UNKNOWN) &&
           !(tracker->state_after_end == ENV_OPEN && has_ended(self, given, 0, self->count)) && /* needs final_obs */
           continues(tracker, self->count, self->columns[obs].type, given->memory[obs]);
}

/* If the step is refused, its episodes begin again with the next step, which does nothing to an episode without one. */
static gpur_status step(const appender *self, gpur_writer *writer, const void *const *memory)
{
    const tracking *const tracker = &self->tracker;
    const int *const field = tracker->fields;
    const void *extras[GPUR_MAX_FIELDS];
    gpur_status status = GPUR_OK;
    for (int at = 0; at < tracker->extra_count; at++)
        extras[at] = tracker->extras[at] < 0 ? NULL : memory[tracker->extras[at]];
    gpur_step_input input = {.size = sizeof input, .extras = extras, .truncated = memory[field[TRUNCATED]]};
    input.action = memory[field[ACTION]], input.reward = memory[field[REWARD]];
    input.next_obs = memory[field[NEXT_OBS]], input.terminated = memory[field[TERMINATED]];
    for (int32_t env = 0; env < self->count && status == GPUR_OK; env++)
        if (tracker->states[env] == ENV_NONE)
            status = library.reset(writer, env, (const char *)memory[field[OBS]] + env * tracker->obs_bytes);
    return status == GPUR_OK ? library.step(writer, &input) : status;
}

/* Sets the states after a step. Returns how many transitions it completed. */
static int64_t update_states(const appender *self, const rows *given)
{
    const tracking *const tracker = &self->tracker;
    int64_t completed = 0;
    for (int64_t env = 0; env < self->count; env++) {
        const int ended = has_ended(self, given, env, env + 1);
        const int64_t steps = tracker->pending[env] + (tracker->states[env] != ENV_ENDED);
        const int64_t done = ended ? steps : steps >= tracker->n_step;
        tracker->pending[env] = steps - done, completed += done;
        tracker->states[env] = (unsigned char)(ended ? tracker->state_after_end : ENV_OPEN);
    }
    memcpy(tracker->last_obs, given->memory[tracker->fields[NEXT_OBS]], (size_t)(self->count * tracker->obs_bytes));
    return completed;
}

/* Calls the library without the interpreter's lock, because it may have to wait. Whether it was done. */
static int append_or_step(const appender *self, PyObject *writer, rows *given)
{
    running_call call;
    void *address;
    int done = 0;
    if (!begin_call(&call, writer, &address))
        return 0;
    if (!self->tracker.states)
        done = library.append(address, given->count, given->memory, NULL, NULL) == GPUR_OK;
    else if (is_usual_step(self, given) && step(self, address, given->memory) == GPUR_OK)
        done = 1, given->count = update_states(self, given);
    end_call(&call);
    return done;
}

/* Whether it was done. The wait for the lock may end with an exception of a signal handler. */
static int add_in_lock(appender *self, PyObject *writer, PyObject *const *given, PyObject *keywords, rows *read)
{
    PyObject *const acquired = PyObject_CallMethodObjArgs(self->lock, names.acquire, NULL);
    if (!acquired)
        return 0;
    self->shared->lock_depth++;
    const int done =
        collect(self, given, keywords, read) && select_transitions(self, read) && append_or_step(self, writer, read);
    if (done && read->ended)
        memcpy(self->ended, read->ended, (size_t)self->count);
    self->shared->lock_depth--;
    PyObject *const released = PyObject_CallMethodObjArgs(self->lock, names.release, NULL);
    Py_DECREF(acquired);
    Py_XDECREF(released);
    return done;
}

/* The count of transitions. NULL: with an exception, or left to Python. While a thread holds the lock, this one below a
 * signal handler perhaps, an append is not finished. */
static PyObject *add(appender *self, PyObject *const *given, PyObject *keywords)
{
    rows read;
    int done = self->shared->writer ? -1 : 0;
    if (done && !self->tracker.states && self->shared->lock_depth == 0)
        done = collect(self, given, keywords, &read);
    if (done > 0)
        done = append_at_once(self, &read);
    if (done < 0) {
        PyObject *const writer = PyObject_CallNoArgs(self->writer); /* None: it is gone */
        done = writer && writer != Py_None && add_in_lock(self, writer, given, keywords, &read);
        Py_XDECREF(writer);
    }
    return done ? PyLong_FromLongLong(read.count) : NULL;
}

/* add(**values): the count of transitions, or None: it is left to Python. */
static PyObject *appender_add(PyObject *object, PyObject *const *given, Py_ssize_t count, PyObject *keywords)
{
    PyObject *const added = count == 0 && keywords ? add((appender *)(void *)object, given, keywords) : NULL;
    return added || PyErr_Occurred() ? added : NEW_REFERENCE(Py_None);
}

/* (addresses of states, pending and last_obs, state_after_end, n_step, columns of the step's fields, extras) */
static int read_tracker(tracking *self, PyObject *given, const column *columns)
{
    unsigned long long states, pending, last_obs;
    long long n_step;
    int *const field = self->fields;
    PyObject *extras;
    if (!PyArg_ParseTuple(given, "KKKiL(iiiiii)O!", &states, &pending, &last_obs, &self->state_after_end, &n_step,
                          &field[OBS], &field[ACTION], &field[REWARD], &field[NEXT_OBS], &field[TERMINATED],
                          &field[TRUNCATED], &PyList_Type, &extras))
        return -1;
    self->states = (unsigned char *)(uintptr_t)states, self->pending = (int64_t *)(uintptr_t)pending;
    self->last_obs = (char *)(uintptr_t)last_obs, self->obs_bytes = columns[field[OBS]].row_bytes,
    self->n_step = n_step;
    for (; self->extra_count < PyList_Size(extras) && self->extra_count < GPUR_MAX_FIELDS; self->extra_count++)
        self->extras[self->extra_count] = (int)PyLong_AsLong(PyList_GetItem(extras, self->extra_count));
    return PyErr_Occurred() ? -1 : 0;
}

/* Finds for each column the one whose name is "next_" and its own. -1 with an exception. */
static int find_following(appender *self)
{
    for (int at = 0; at < self->column_count; at++) {
        PyObject *const wanted = PyUnicode_FromFormat("next_%U", self->columns[at].name);
        if (!wanted)
            return -1;
        self->following[at] = -1;
        for (int other = 0; other < self->column_count; other++)
            if (PyUnicode_Compare(self->columns[other].name, wanted) == 0)
                self->following[at] = other;
        Py_DECREF(wanted);
    }
    return 0;
}

#define APPENDER "Appender(writer, owner, lock, shared, fields, count, optional, ends, ended, tracker)"

/* `writer` is a weak reference. `owner` keeps alive the memory at the addresses `shared`, `ended` and in `tracker`. */
static PyObject *appender_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    PyObject *writer, *owner, *lock, *fields, *tracker;
    unsigned long long shared, ended;
    long long count;
    appender *self = keywords ? NULL : (appender *)(void *)PyType_GenericAlloc(type, 0);
    if (!self)
        return keywords ? PyErr_Format(PyExc_TypeError, "Appender takes no keywords") : NULL;
    self->arguments = NEW_REFERENCE(arguments);
    if (!PyArg_ParseTuple(arguments, "OOOKO!Li(ii)KO;" APPENDER, &writer, &owner, &lock, &shared, &PyList_Type, &fields,
                          &count, &self->optional, &self->ends[0], &self->ends[1], &ended, &tracker))
        Py_CLEAR(self);
    for (Py_ssize_t at = 0; self && at < PyList_Size(fields) && at < GPUR_MAX_FIELDS; at++)
        if (read_column(&self->columns[self->column_count++], PyList_GetItem(fields, at)))
            Py_CLEAR(self);
        else
            self->row_bytes += self->columns[at].row_bytes;
    if (self && find_following(self))
        Py_CLEAR(self);
    if (!self)
        return NULL;
    self->writer = writer, self->lock = lock, self->count = count;
    self->shared = (shared_state *)(uintptr_t)shared, self->ended = (char *)(uintptr_t)ended;
    if (tracker != Py_None && read_tracker(&self->tracker, tracker, self->columns))
        Py_CLEAR(self);
    return (PyObject *)self;
}

/* Frees an object of a class that the module, or Python code on top of it, has made. */
static void free_object(PyObject *object)
{
    union slot {
        void *value;
        freefunc call;
    } const free_slot = {PyType_GetSlot(Py_TYPE(object), Py_tp_free)};
    PyTypeObject *const type = Py_TYPE(object);
    free_slot.call(object);
    Py_DECREF(type); /* an object of such a class holds a reference to it */
}

static void appender_dealloc(PyObject *object)
{
    appender *const self = (appender *)(void *)object;
    for (int at = 0; at < GPUR_MAX_FIELDS; at++)
        Py_XDECREF(self->columns[at].name);
    Py_XDECREF(self->arguments);
    PyMem_Free(self->space.memory);
    free_object(object);
}

#define FASTCALL(function) ((PyCFunction)(void (*)(void))(function))
#define SLOT(function) ((void *)(uintptr_t)(function))

static PyMethodDef appender_methods[] = {{"add", FASTCALL(appender_add), METH_FASTCALL | METH_KEYWORDS, NULL},
                                         {NULL, NULL, 0, NULL}};

static PyType_Slot appender_slots[] = {{Py_tp_new, SLOT(appender_new)},
                                       {Py_tp_dealloc, SLOT(appender_dealloc)},
                                       {Py_tp_methods, appender_methods},
                                       {Py_tp_doc, (void *)(uintptr_t)APPENDER},
                                       {0, NULL}};
static PyType_Spec appender_spec = {"gpureplay._fast.Appender", sizeof(appender), 0, Py_TPFLAGS_DEFAULT,
                                    appender_slots};

/* Methods of the package's classes. Each tries what is above, and else calls the method in Python. */

static PyObject *call_python(PyObject *self, PyObject *name, PyObject *const *given, Py_ssize_t count,
                             PyObject *keywords)
{
    PyObject *const method = PyObject_GetAttr(self, name), *const by_name = PyDict_New(),
                    *const positional = PyTuple_New(count);
    PyObject *result = NULL;
    int failed = !method || !by_name || !positional;
    for (Py_ssize_t at = 0; !failed && at < count; at++)
        failed = PyTuple_SetItem(positional, at, NEW_REFERENCE(given[at]));
    for (Py_ssize_t at = 0; !failed && keywords && at < PyTuple_Size(keywords); at++)
        failed = PyDict_SetItem(by_name, PyTuple_GetItem(keywords, at), given[count + at]);
    if (!failed)
        result = PyObject_Call(method, positional, by_name);
    Py_XDECREF(method), Py_XDECREF(by_name), Py_XDECREF(positional);
    return result;
}

static PyObject *add_by(PyObject *self, PyObject *attribute, PyObject *python, PyObject *const *given, Py_ssize_t count,
                        PyObject *keywords)
{
    PyObject *added = NULL, *const by = count == 0 && keywords ? PyObject_GetAttr(self, attribute) : NULL;
    if (by && Py_TYPE(by) == appender_type)
        added = add((appender *)(void *)by, given, keywords);
    else
        PyErr_Clear(); /* the object is half made */
    Py_XDECREF(by);
    return added || PyErr_Occurred() ? added : call_python(self, python, given, count, keywords);
}

static PyObject *method_add(PyObject *self, PyObject *const *given, Py_ssize_t count, PyObject *keywords)
{
    return add_by(self, names.adder, names.add, given, count, keywords);
}

static PyObject *method_extend(PyObject *self, PyObject *const *given, Py_ssize_t count, PyObject *keywords)
{
    return add_by(self, names.extender, names.extend, given, count, keywords);
}

/* Reference: what _batch.py makes its class of. No Python code runs between the sample and the release, in which a
 * signal handler could raise an exception. */

typedef struct reference {
    PyObject_HEAD gpur_batch *batch; /* NULL: the library has not written it yet */
    PyObject *streams;
} reference;

static void reference_dealloc(PyObject *object)
{
    reference *const self = (reference *)(void *)object;
    gpur_batch *const batch = PyList_Size(forked) == 0 ? self->batch : NULL;
    Py_BEGIN_ALLOW_THREADS library.release(batch);
    Py_END_ALLOW_THREADS Py_XDECREF(self->streams);
    free_object(object);
}

static PyObject *reference_handle(PyObject *object, void *Py_UNUSED(closure))
{
    return PyLong_FromVoidPtr(((reference *)(void *)object)->batch);
}

static PyObject *reference_out(PyObject *object, void *Py_UNUSED(closure))
{
    return PyLong_FromVoidPtr(&((reference *)(void *)object)->batch);
}

static PyGetSetDef reference_attributes[] = {{"handle", reference_handle, NULL, "the batch's address", NULL},
                                             {"out", reference_out, NULL, "where the library writes it", NULL},
                                             {NULL, NULL, NULL, NULL, NULL}};
static PyMemberDef reference_members[] = {
    {"streams", T_OBJECT, offsetof(reference, streams), 0, "stream objects that it keeps, or None"},
    {NULL, 0, 0, 0, NULL}};

static PyType_Slot reference_slots[] = {
    {Py_tp_new, SLOT(PyType_GenericNew)},           {Py_tp_dealloc, SLOT(reference_dealloc)},
    {Py_tp_getset, reference_attributes},           {Py_tp_members, reference_members},
    {Py_tp_doc, (void *)(uintptr_t) "Reference()"}, {0, NULL}};
static PyType_Spec reference_spec = {"gpureplay._fast.Reference", sizeof(reference), 0,
                                     Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, reference_slots};

/* Samples a new batch, or into `out` if that is not NULL. NULL: left to Python. `sampling` is (Batch, name of the first
 * array, name of the last, function that makes the Batch, Reference). */
static PyObject *sample_batch(PyObject *self, int64_t count, PyObject *out, PyObject *sampling)
{
    running_call call;
    void *replay, *first = NULL, *last = NULL;
    PyObject *const counted = out ? PyObject_GetAttr(out, names.count) : NULL;
    gpur_batch *batch = counted && PyLong_AsLongLong(counted) == count ? address_of(out) : NULL;
    Py_XDECREF(counted);
    PyObject *const made = out ? NULL : PyObject_CallNoArgs(PyTuple_GetItem(sampling, 4));
    if (!(out ? (void *)batch : made) || !begin_call(&call, self, &replay)) {
        Py_XDECREF(made);
        return NULL;
    }
    gpur_batch **const to = made ? &((reference *)(void *)made)->batch : NULL;
    const gpur_status status = out ? library.sample_into(replay, NULL, batch) : library.sample(replay, count, NULL, to);
    if (made && status == GPUR_OK) {
        library.get_array(*to, PyBytes_AsString(PyTuple_GetItem(sampling, 1)), &first, NULL);
        library.get_array(*to, PyBytes_AsString(PyTuple_GetItem(sampling, 2)), &last, NULL);
    }
    end_call(&call);
    if (made && status == GPUR_OK)
        return PyObject_CallFunction(PyTuple_GetItem(sampling, 3), "NNNL", made, PyLong_FromVoidPtr(first),
                                     PyLong_FromVoidPtr(last), (long long)count);
    Py_XDECREF(made);
    return status == GPUR_OK ? NEW_REFERENCE(out) : NULL;
}

/* sample(batch_size) and sample(batch_size, out=batch). */
static PyObject *method_sample(PyObject *self, PyObject *const *given, Py_ssize_t count, PyObject *keywords)
{
    const int has_out = keywords && PyTuple_Size(keywords) == 1 && PyTuple_GetItem(keywords, 0) == names.out;
    const int is_usual = count == 1 && PyLong_CheckExact(given[0]) && (has_out || !keywords);
    const long long size = is_usual ? PyLong_AsLongLong(given[0]) : 0;
    PyObject *const sampling = size > 0 ? PyObject_GetAttr(self, names.sampling) : NULL;
    PyObject *result = NULL, *const kind = sampling && has_out ? (PyObject *)(void *)Py_TYPE(given[1]) : NULL;
    if (sampling && (!kind || kind == PyTuple_GetItem(sampling, 0)))
        result = sample_batch(self, size, has_out ? given[1] : NULL, sampling);
    else
        PyErr_Clear(); /* the number is too large, or the object is half made */
    Py_XDECREF(sampling);
    return result || PyErr_Occurred() ? result : call_python(self, names.sample, given, count, keywords);
}

/* method(class, name, doc): a method of that class, whose text is `doc`. It lives as long as the process. */
static PyObject *make_method(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    static const PyMethodDef known[] = {{"add", FASTCALL(method_add), METH_FASTCALL | METH_KEYWORDS, NULL},
                                        {"extend", FASTCALL(method_extend), METH_FASTCALL | METH_KEYWORDS, NULL},
                                        {"sample", FASTCALL(method_sample), METH_FASTCALL | METH_KEYWORDS, NULL}};
    PyObject *type;
    const char *name, *doc;
    if (!PyArg_ParseTuple(arguments, "O!ss", &PyType_Type, &type, &name, &doc))
        return NULL;
    for (size_t at = 0; at < sizeof known / sizeof *known; at++)
        if (strcmp(known[at].ml_name, name) == 0) {
            PyMethodDef *const made = malloc(sizeof *made);
            if (!made)
                return PyErr_NoMemory();
            *made = known[at], made->ml_doc = strdup(doc);
            return PyDescr_NewMethod((PyTypeObject *)(void *)type, made);
        }
    return PyErr_Format(PyExc_ValueError, "there is no method \"%s\" here", name);
}

/* update_priorities(buffer, indices, priorities): whether it was done. If not, it is left to Python. */
static PyObject *update_priorities(PyObject *Py_UNUSED(module), PyObject *const *given, Py_ssize_t count)
{
    static const column index = {NULL, {'i', 8}, 0, {0}, 1, 8}, priority = {NULL, {'f', 4}, 0, {0}, 1, 4};
    scratch space = {NULL, 0};
    int64_t index_count, priority_count;
    running_call call;
    void *replay;
    int done = 0;
    const int64_t *const ids = count == 3 ? read_rows(&index, given[1], 0, &space, &index_count) : NULL;
    const float *const priorities = ids ? read_rows(&priority, given[2], 0, &space, &priority_count) : NULL;
    if (priorities && index_count == priority_count && begin_call(&call, given[0], &replay)) {
        done = library.update(replay, index_count, ids, priorities, NULL) == GPUR_OK;
        end_call(&call);
    }
    PyMem_Free(space.memory);
    return PyBool_FromLong(done);
}

static PyObject *make_array(PyObject *owner, char *address, npy_intp count, PyObject *layout)
{
    PyObject *const shape = PyTuple_GetItem(layout, 2);
    char *const first = address + PyLong_AsSsize_t(PyTuple_GetItem(layout, 1));
    npy_intp dims[1 + GPUR_MAX_DIMS] = {count};
    for (Py_ssize_t axis = 0; axis < PyTuple_Size(shape); axis++)
        dims[1 + axis] = PyLong_AsSsize_t(PyTuple_GetItem(shape, axis));
    PyArray_Descr *const descr = (PyArray_Descr *)(void *)NEW_REFERENCE(PyTuple_GetItem(layout, 3));
    PyObject *array = PyArray_NewFromDescr(&PyArray_Type, descr, 1 + (int)PyTuple_Size(shape), dims, NULL, first,
                                           NPY_ARRAY_CARRAY, NULL);
    if (!array || PyArray_SetBaseObject((PyArrayObject *)(void *)array, NEW_REFERENCE(owner)))
        Py_CLEAR(array);
    return array;
}

/* put_arrays(out, owner, address, count, layouts): puts arrays of `count` rows into the dict `out`, by name. They keep
 * `owner` alive. A layout is the package's: (name, offset from the address, shape, dtype). */
static PyObject *put_arrays(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *out, *owner, *layouts;
    unsigned long long address;
    Py_ssize_t count;
    int failed = 0;
    if (!PyArg_ParseTuple(arguments, "O!OKnO!", &PyDict_Type, &out, &owner, &address, &count, &PyTuple_Type, &layouts))
        return NULL;
    for (Py_ssize_t at = 0; !failed && at < PyTuple_Size(layouts); at++) {
        PyObject *const layout = PyTuple_GetItem(layouts, at);
        PyObject *const array = make_array(owner, (char *)(uintptr_t)address, count, layout);
        failed = !array || PyDict_SetItem(out, PyTuple_GetItem(layout, 0), array);
        Py_XDECREF(array);
    }
    return failed ? NULL : NEW_REFERENCE(Py_None);
}

/* use(addresses, forked): the bytes of an array of addresses, of the library's functions in the order of `library`. */
static PyObject *use(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *addresses, *list;
    if (!PyArg_ParseTuple(arguments, "SO!", &addresses, &PyList_Type, &list))
        return NULL;
    if (PyBytes_Size(addresses) != sizeof library)
        return PyErr_Format(PyExc_ValueError, "addresses is %R; it must be %zu bytes", addresses, sizeof library);
    memcpy(&library, PyBytes_AsString(addresses), sizeof library);
    forked = NEW_REFERENCE(list);
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"use", use, METH_VARARGS, "use(addresses, forked): the library's functions"},
    {"method", make_method, METH_VARARGS, "method(class, name, doc): add, extend or sample of that class"},
    {"put_arrays", put_arrays, METH_VARARGS, "put_arrays(out, owner, address, count, layouts): arrays by name"},
    {"update_priorities", FASTCALL(update_priorities), METH_FASTCALL,
     "update_priorities(buffer, ids, priorities): whether it was done"},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "gpureplay._fast", "add, extend and sample in C", -1, functions, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__fast(void)
{
    static const char *const words[] = {"_handle",        "_calls",         "_count",    "_adder", "_extender",
                                        "_sampling",      "info",           "final_obs", "out",    "_python_add",
                                        "_python_extend", "_python_sample", "acquire",   "release"};
    _Static_assert(sizeof words == sizeof names, "each name has its word, in the same order");
    PyObject *interned[sizeof words / sizeof *words];
    import_array();
    for (size_t at = 0; at < sizeof words / sizeof *words; at++)
        if (!(interned[at] = PyUnicode_InternFromString(words[at])))
            return NULL;
    memcpy(&names, interned, sizeof names);
    PyObject *const appender_class = PyType_FromSpec(&appender_spec);
    PyObject *const reference_class = appender_class ? PyType_FromSpec(&reference_spec) : NULL;
    PyObject *module = reference_class ? PyModule_Create(&definition) : NULL;
    appender_type = (PyTypeObject *)(void *)appender_class;
    if (module &&
        (PyModule_AddType(module, appender_type) || PyModule_AddType(module, (PyTypeObject *)(void *)reference_class)))
        Py_CLEAR(module);
    Py_XDECREF(reference_class);
    return module;
}
