/* SPDX-License-Identifier: MIT */
#ifndef GPUREPLAY_PYTHON_TURN_H
#define GPUREPLAY_PYTHON_TURN_H

#include "fast.h"

typedef struct fast_turn {
    PyObject_HEAD
    PyObject *acquire, *release; /* the lock's methods */
    Py_ssize_t inside;           /* entered and not left, by whichever thread */
} fast_turn;

/* Waits for whoever is inside. -1 with an exception set. */
int fast_turn_enter(fast_turn *turn);
/* Keeps an exception that is set. */
void fast_turn_leave(fast_turn *turn);

#endif
