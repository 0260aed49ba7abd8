/* SPDX-License-Identifier: Apache-2.0 */
/* For the Python package alone: destructors that other libraries call. Python calls a destructor
 * also while an exception is set, which no function of Python's may begin with: it would be lost.
 * These functions set it aside meanwhile. libweft does not link Python: the package gives it the
 * functions of the interpreter that has loaded it. */
#include "base/status.h"

/* As in Python's headers. */
struct weft_python {
    int (*is_initialized)(void);
    int (*lock)(void);
    void (*unlock)(int state);
    void (*take_error)(void **type, void **value, void **trace);
    void (*set_error)(void *type, void *value, void *trace);
    void (*tensor_deleted)(void *managed);  /* of the package: a DLManagedTensor */
    void (*capsule_deleted)(void *capsule); /* of the package */
};

WEFT_EXPORT void weft_python_set(const struct weft_python *given);
WEFT_EXPORT void weft_python_delete_tensor(void *managed);
WEFT_EXPORT void weft_python_delete_capsule(void *capsule);

static struct weft_python python;

/* given: copied; its functions live as long as the process. */
void weft_python_set(const struct weft_python *given)
{
    python = *given;
}

static void call_without_error(void (*function)(void *), void *argument)
{
    if (!python.is_initialized())
        return;
    void *type, *value, *trace;
    int state = python.lock();
    python.take_error(&type, &value, &trace);
    function(argument);
    python.set_error(type, value, trace);
    python.unlock(state);
}

void weft_python_delete_tensor(void *managed)
{
    call_without_error(python.tensor_deleted, managed);
}

void weft_python_delete_capsule(void *capsule)
{
    call_without_error(python.capsule_deleted, capsule);
}
