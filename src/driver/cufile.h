/* SPDX-License-Identifier: Apache-2.0 */
/* NVIDIA's library of GPUDirect Storage (libcufile.so.0), loaded at run time. The declarations are
 * our own; handles are one word each. Source: GDS cuFile API Reference, and of its parameters the
 * chapter on setting them. */
#ifndef WEFT_DRIVER_CUFILE_H
#define WEFT_DRIVER_CUFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <weft.h>

/* Result of a call. `error`: 0 is success; numbers from CUFILE_FIRST_ERROR on are cuFile's own
 * (cuFileRead and cuFileWrite return them negative). `cuda`: CUresult, with CUFILE_ERROR_CUDA. */
struct cufile_error {
    int error, cuda;
};

enum {
    CUFILE_FIRST_ERROR = 5000,
    CUFILE_ERROR_NO_DRIVER = 5001,
    CUFILE_ERROR_FILE = 5008,
    CUFILE_ERROR_CUDA = 5011,
    CUFILE_ERROR_MEMORY_KNOWN = 5023,
    CUFILE_ERROR_OPEN_ALREADY = 5026,
    CUFILE_ERROR_HANDLE = 5027,
};

struct cufile_description {
    int type; /* CUFILE_DESCRIPTOR */
    union {
        int fd;
        void *handle;
    } handle;
    const void *operations;
};
enum { CUFILE_DESCRIPTOR = 1 };

struct cufile_properties {
    struct {
        unsigned major, minor;
        size_t poll_bytes, most_direct_bytes;
        unsigned status; /* bit per kind of file system */
        unsigned control;
    } nvfs;
    unsigned features;
    unsigned sizes[5];
    uint64_t spare[16]; /* for fields of newer versions */
};
enum { CUFILE_CONTROL_COMPAT = 1u << 1 };

enum cufile_bool { CUFILE_ALLOW_COMPAT = 1, CUFILE_FORCE_COMPAT = 2, CUFILE_USE_P2PDMA = 7 };

/* X(field, symbol, older symbol, optional, result, parameters) */
#define CUFILE_FUNCTIONS(X)                                                                        \
    X(driver_open, cuFileDriverOpen, NULL, false, struct cufile_error, (void))                     \
    X(driver_close, cuFileDriverClose_v2, "cuFileDriverClose", false, struct cufile_error, (void)) \
    X(properties, cuFileDriverGetProperties, NULL, false, struct cufile_error,                     \
      (struct cufile_properties * properties))                                                     \
    X(set_bool, cuFileSetParameterBool, NULL, true, struct cufile_error,                           \
      (int parameter, bool value))                                                                 \
    X(register_handle, cuFileHandleRegister, NULL, false, struct cufile_error,                     \
      (void **handle, struct cufile_description *description))                                     \
    X(deregister_handle, cuFileHandleDeregister, NULL, false, void, (void *handle))                \
    X(register_buffer, cuFileBufRegister, NULL, false, struct cufile_error,                        \
      (const void *base, size_t bytes, int flags))                                                 \
    X(deregister_buffer, cuFileBufDeregister, NULL, false, struct cufile_error,                    \
      (const void *base))                                                                          \
    X(read, cuFileRead, NULL, false, ssize_t,                                                      \
      (void *handle, void *base, size_t bytes, off_t at, off_t in_memory))                         \
    X(write, cuFileWrite, NULL, false, ssize_t,                                                    \
      (void *handle, const void *base, size_t bytes, off_t at, off_t in_memory))

struct cufile {
#define CUFILE_FIELD(field, symbol, older, optional, result, parameters) result(*field) parameters;
    CUFILE_FUNCTIONS(CUFILE_FIELD)
#undef CUFILE_FIELD
    void *handle;
};

/* Loads the library. WEFT_ERR_UNSUPPORTED: the message has what was tried. */
weft_status cufile_load(struct cufile *cufile);
void cufile_unload(struct cufile *cufile);

/* Prints an error into `text`, such as "error 5008: the file does not support direct transfers",
 * and returns `text`. */
const char *cufile_error_text(struct cufile_error error, char *text, size_t bytes);

#endif
