/* SPDX-License-Identifier: MIT */
/* What Handle._ask does around a call into the library. */
#include "fast.h"

void *fast_address(PyObject *object)
{
    PyObject *value = PyObject_GetAttr(object, fast_used.handle);
    if (!value)
        return NULL;
    void *address = value == Py_None ? NULL : PyLong_AsVoidPtr(value);
    Py_DECREF(value);
    return address;
}

/* The latest entry is mostly this one. It is not there in the child of a fork, which forgets its parent's calls. */
static int leave(PyObject *calls, const PyObject *me)
{
    for (Py_ssize_t at = PyList_GET_SIZE(calls); at-- > 0;)
        if (PyList_GET_ITEM(calls, at) == me)
            return PyList_SetSlice(calls, at, at + 1, NULL);
    return 0;
}

static int drop(fast_call *call, int result)
{
    Py_CLEAR(call->calls);
    Py_CLEAR(call->me);
    return result;
}

/* First the entry, then the address: whoever closes does it the other way round. */
int fast_call_begin(fast_call *call, PyObject *handle, void **address)
{
    call->calls = PyObject_GetAttr(handle, fast_used.calls);
    call->me = PyLong_FromUnsignedLong(PyThread_get_thread_ident());
    if (!call->calls || !call->me || PyList_Append(call->calls, call->me))
        return drop(call, -1);
    *address = fast_address(handle);
    if (!*address) {
        const int left = leave(call->calls, call->me);
        return drop(call, left || PyErr_Occurred() ? -1 : 0);
    }
    call->thread = PyEval_SaveThread();
    return 1;
}

int fast_call_end(fast_call *call)
{
    PyEval_RestoreThread(call->thread);
    return drop(call, leave(call->calls, call->me));
}

PyObject *fast_refuse(PyObject *handle, gpur_status status)
{
    PyObject *result = PyObject_CallMethod(handle, "_refuse", "i", (int)status);
    Py_XDECREF(result); /* it raises */
    return NULL;
}
