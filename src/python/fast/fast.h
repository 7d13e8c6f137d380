/* SPDX-License-Identifier: MIT */
/* gpureplay._fast: what costs most of a call from Python, in C. The package does without it, in the same words and with
 * the same results; whatever is out of the ordinary it leaves to the package's Python, which has the words for it. */
#ifndef GPUREPLAY_PYTHON_FAST_H
#define GPUREPLAY_PYTHON_FAST_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <gpureplay.h>
#include <stdint.h>

/* The library that ctypes has loaded, and NumPy's array, as `use` was told. */
typedef struct fast_library {
    gpur_status (*append)(gpur_writer *writer, int64_t count, const void *const *fields, void *stream,
                          int64_t *appended);
    gpur_status (*try_append)(gpur_writer *writer, int64_t count, const void *const *fields);
    gpur_status (*resample)(gpur_replay *replay, void *stream, gpur_batch *batch);
    gpur_status (*update)(gpur_replay *replay, int64_t count, const int64_t *ids, const float *priorities,
                          void *stream);
    gpur_status (*step)(gpur_writer *writer, const gpur_step_input *input);
    gpur_status (*reset)(gpur_writer *writer, int32_t env, const void *obs);
    PyTypeObject *array;
    PyObject *handle, *calls, *ended, *info, *final_obs; /* their names; the first three with an underscore */
} fast_library;

extern fast_library fast_used;

/* A call into the library on a Handle of the package's. While it runs, `close` waits, and Python's other threads go
 * on. */
typedef struct fast_call {
    PyObject *calls, *me; /* the Handle's list of threads that are in the library, and this one's entry */
    PyThreadState *thread;
} fast_call;

/* 1 and the object's address: begun; 0: the object is closed; -1 with an exception set. */
int fast_call_begin(fast_call *call, PyObject *handle, void **address);
/* -1 with an exception set; the call was ended anyway. */
int fast_call_end(fast_call *call);

/* The address in the object's _handle, or NULL: it has none any more, or with an exception set. */
void *fast_address(PyObject *object);

/* The exception for this status, as the Handle words it. Returns NULL. */
PyObject *fast_refuse(PyObject *handle, gpur_status status);

/* Whether one of `count` floats is NaN. */
int fast_nan_in_floats(const float *values, int64_t count);
int fast_nan_in_halves(const uint16_t *values, int64_t count);

extern PyTypeObject fast_bound_type, fast_method_type, fast_rows_type, fast_steps_type, fast_turn_type, fast_watch_type;

/* idle(watches), redraw(buffer, stream, watches) */
PyObject *fast_idle(PyObject *module, PyObject *watches);
PyObject *fast_redraw(PyObject *module, PyObject *const *arguments, Py_ssize_t count);

/* update(buffer, indices, priorities): True: it was done; False: it is left to the package. */
PyObject *fast_update(PyObject *module, PyObject *const *arguments, Py_ssize_t count);

#endif
