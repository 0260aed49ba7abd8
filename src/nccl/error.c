/* SPDX-License-Identifier: Apache-2.0 */
/* Results, the last sentence, and the log that NCCL_DEBUG asks for. */
#include "nccl/comm.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum debug_level { LEVEL_UNKNOWN, LEVEL_NONE, LEVEL_WARN, LEVEL_INFO };

static _Thread_local char sentence[1024];
static _Atomic int level; /* enum debug_level */
static FILE *log_file;
static pthread_once_t opened = PTHREAD_ONCE_INIT;

/* NCCL_DEBUG_FILE, where %h is the host and %p the process. */
static FILE *open_log(const char *pattern)
{
    char path[512], host[64] = "";
    size_t used = 0;
    gethostname(host, sizeof host - 1);
    for (const char *c = pattern; *c && used < sizeof path - sizeof host; c++) {
        bool special = c[0] == '%' && (c[1] == 'h' || c[1] == 'p');
        if (!special)
            path[used++] = *c;
        else if (*++c == 'h')
            used += (size_t)snprintf(path + used, sizeof path - used, "%s", host);
        else
            used += (size_t)snprintf(path + used, sizeof path - used, "%d", (int)getpid());
    }
    path[used] = 0;
    FILE *file = fopen(path, "w");
    return file ? file : stderr;
}

static void read_environment(void)
{
    static const char *const words[] = {"NONE", "VERSION", "WARN", "ATTN",
                                        "INFO", "ABORT",   "TRACE"};
    static const int levels[] = {LEVEL_NONE, LEVEL_NONE, LEVEL_WARN, LEVEL_WARN,
                                 LEVEL_INFO, LEVEL_INFO, LEVEL_INFO};
    const char *wanted = getenv("NCCL_DEBUG"), *file = getenv("NCCL_DEBUG_FILE");
    int found = LEVEL_NONE;
    for (size_t i = 0; wanted && i < sizeof words / sizeof *words; i++)
        if (strcasecmp(wanted, words[i]) == 0)
            found = levels[i];
    log_file = file && *file && found > LEVEL_NONE ? open_log(file) : stderr;
    atomic_store(&level, found);
}

static bool is_logged(enum debug_level wanted)
{
    pthread_once(&opened, read_environment);
    return atomic_load(&level) >= (int)wanted;
}

static void write_line(const char *kind, const struct ncclComm *comm, const char *words)
{
    char host[64] = "";
    gethostname(host, sizeof host - 1);
    fprintf(log_file, "%s:%d [%d] NCCL %s %s\n", host, (int)getpid(), comm ? comm->device : -1,
            kind, words);
    fflush(log_file);
}

bool debug_list_has(const char *list, const char *name)
{
    for (size_t length; *list; list += length + (list[length] == ',')) {
        length = strcspn(list, ",");
        if (length == strlen(name) && strncasecmp(list, name, length) == 0)
            return true;
    }
    return false;
}

/* NCCL_DEBUG_SUBSYS; ^: all but these. */
static bool is_subsystem_logged(const char *subsystem)
{
    const char *list = getenv("NCCL_DEBUG_SUBSYS");
    if (!list || !*list)
        return true;
    bool except = *list == '^';
    return (debug_list_has(list + except, subsystem) || debug_list_has(list + except, "ALL")) !=
           except;
}

void nccl_keep(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    if (is_logged(LEVEL_WARN))
        write_line("WARN", NULL, sentence);
}

void nccl_info(const struct ncclComm *comm, const char *subsystem, const char *format, ...)
{
    char words[1024];
    va_list arguments;
    if (!is_logged(LEVEL_INFO) || !is_subsystem_logged(subsystem))
        return;
    va_start(arguments, format);
    vsnprintf(words, sizeof words, format, arguments);
    va_end(arguments);
    write_line("INFO", comm, words);
}

void nccl_warn(const char *format, ...)
{
    char words[1024];
    va_list arguments;
    if (!is_logged(LEVEL_WARN))
        return;
    va_start(arguments, format);
    vsnprintf(words, sizeof words, format, arguments);
    va_end(arguments);
    write_line("WARN", NULL, words);
}

/* Levels up to 2 are warnings. */
void nccl_plugin_log(int plugin_level, unsigned long flags, const char *file, int line,
                     const char *format, ...)
{
    char words[1024];
    va_list arguments;
    (void)flags, (void)file, (void)line;
    bool warns = plugin_level <= 2;
    if (!is_logged(warns ? LEVEL_WARN : LEVEL_INFO) || (!warns && !is_subsystem_logged("PROFILE")))
        return;
    va_start(arguments, format);
    vsnprintf(words, sizeof words, format, arguments);
    va_end(arguments);
    write_line(warns ? "WARN" : "INFO", NULL, words);
}

const char *nccl_sentence(void)
{
    return sentence;
}

static ncclResult_t meaning(weft_status status)
{
    switch (status) {
    case WEFT_OK:
        return ncclSuccess;
    case WEFT_ERR_ARGUMENT:
    case WEFT_ERR_PE:
    case WEFT_ERR_ADDRESS:
    case WEFT_ERR_RANGE:
    case WEFT_ERR_TYPE:
    case WEFT_ERR_OP:
        return ncclInvalidArgument;
    case WEFT_ERR_UNSUPPORTED:
    case WEFT_ERR_MISMATCH:
    case WEFT_ERR_CONFIG:
    case WEFT_ERR_FINALIZED:
        return ncclInvalidUsage;
    case WEFT_ERR_PEER_DEAD:
    case WEFT_ERR_TIMEOUT:
    case WEFT_ERR_JOB:
        return ncclRemoteError;
    case WEFT_ERR_KERNEL:
        return ncclUnhandledCudaError;
    case WEFT_ERR_NO_MEMORY:
    case WEFT_ERR_SYSTEM:
    case WEFT_ERR_BOOT:
    case WEFT_ERR_NO_PATH:
        return ncclSystemError;
    default:
        return ncclInternalError;
    }
}

ncclResult_t nccl_result(weft_status status)
{
    if (!status)
        return ncclSuccess;
    return nccl_fail(meaning(status), "%s", weft_last_error());
}

const char *ncclGetErrorString(ncclResult_t result)
{
    static const char *const words[ncclNumResults] = {
        "no error",         "a call of CUDA failed", "a call of the system failed",
        "internal error",   "invalid argument",      "invalid usage",
        "a rank has ended", "in progress",           "time is up"};
    return (unsigned)result < ncclNumResults ? words[result] : "no result of NCCL";
}

/* Why the communicator has failed, which another thread may have noticed; otherwise the sentence of
 * this thread's last error. */
const char *ncclGetLastError(ncclComm_t comm)
{
    return comm && atomic_load(&comm->error) ? comm->sentence : sentence;
}

void ncclResetDebugInit(void)
{
    read_environment();
}
