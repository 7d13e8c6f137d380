/* SPDX-License-Identifier: MIT */
#ifndef GPUREPLAY_PYTHON_TURN_H
#define GPUREPLAY_PYTHON_TURN_H

#include "fast.h"

typedef struct fast_turn {
    PyObject_HEAD
    PyObject *acquire, *release; /* the lock's methods */
    Py_ssize_t inside;           /* entered and not left, by whichever thread */
} fast_turn;

#endif
