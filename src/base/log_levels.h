/* SPDX-License-Identifier: Apache-2.0 */
/* The levels that WEFT_LOG sets: one for all subsystems, and others for single subsystems. */
#ifndef WEFT_BASE_LOG_LEVELS_H
#define WEFT_BASE_LOG_LEVELS_H

#include <stdbool.h>
#include <stdint.h>

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

/* X(id, name in WEFT_LOG): the subsystems, by the folders of their sources. */
#define LOG_SUBSYSTEMS(X)                                                                          \
    X(BOOT, "boot")     /* src/boot */                                                             \
    X(COLL, "coll")     /* src/gpu/coll, src/ops/coll */                                           \
    X(FILES, "file")    /* src/file, src/ops/file */                                               \
    X(GDA, "gda")       /* src/path/gda */                                                         \
    X(GPU, "gpu")       /* the other folders of src/gpu */                                         \
    X(JOB, "job")       /* src/job */                                                              \
    X(NET, "net")       /* src/path/net */                                                         \
    X(SHMEM, "shmem")   /* src/shmem, src/nvshmem */                                               \
    X(SIMT, "simt")     /* standin/simt */                                                         \
    X(STAGED, "staged") /* src/path/staged */

enum log_subsystem {
#define ID(id, name) LOG_##id,
    LOG_SUBSYSTEMS(ID)
#undef ID
        LOG_SUBSYSTEM_COUNT
};

extern const char *const log_level_names[];
extern const char *const log_subsystem_names[];

/* Two bits with a log_level for each log_subsystem. */
typedef uint32_t log_levels;

static inline int log_level_of(log_levels levels, enum log_subsystem subsystem)
{
    return (int)(levels >> (2 * subsystem) & 3);
}

/* Parses a list such as "info", "net:debug" or "error,net:debug,gpu:info": a later entry wins, and
 * a subsystem without an entry has level warn. Returns false for any other text. */
bool log_levels_parse(const char *text, log_levels *levels);

#endif
