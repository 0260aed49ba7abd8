/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's environment variables that have a counterpart here. Those of paths and NICs become
 * variables of Weft, before it reads these; the others are kept in `environment`. A variable of
 * Weft that is set wins. */
#include "nccl/comm.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct environment environment = {.most_sms = -1, .blocking = -1, .message_room = 4 << 20};

static char excluded[64]; /* from WEFT_PATH */

enum { WORDS = 384 };

/* Sets a variable of Weft, and says so in `words`. */
static void set(const char *name, const char *value, char *words)
{
    const char *own = getenv(name);
    if (own && strcmp(own, value) != 0) {
        snprintf(words, WORDS, "no effect, because %s=%s", name, own);
        return;
    }
    setenv(name, value, 0);
    size_t used = strlen(words);
    snprintf(words + used, WORDS - used, "%s%s=%s", used ? ", " : "", name, value);
}

static bool is_true(const char *value)
{
    return strtoll(value, NULL, 0) != 0;
}

static void exclude(const char *path, char *words)
{
    static bool known, given; /* given: by the program's environment */
    size_t used = strlen(excluded);
    given = known ? given : getenv("WEFT_PATH") != NULL;
    known = true;
    if (given) {
        snprintf(words, WORDS, "no effect on paths, because WEFT_PATH=%s", getenv("WEFT_PATH"));
        return;
    }
    if (!strstr(excluded, path))
        snprintf(excluded + used, sizeof excluded - used, "%s^%s", used ? "," : "", path);
    setenv("WEFT_PATH", excluded, 1);
    snprintf(words, WORDS, "WEFT_PATH=%s", excluded);
}

static void limit_sms(int sms, char *words)
{
    const char *own = getenv("WEFT_COLL_SMS");
    if (own) {
        snprintf(words, WORDS, "no effect, because WEFT_COLL_SMS=%s", own);
        return;
    }
    if (environment.most_sms < 0 || sms < environment.most_sms)
        environment.most_sms = sms;
    snprintf(words, WORDS, "collectives use at most %d SMs", environment.most_sms);
}

static void max_ctas(const char *value, char *words)
{
    long n = strtol(value, NULL, 0);
    if (n < 1)
        snprintf(words, WORDS, "no effect: give 1 or more");
    else
        limit_sms(n < 64 ? (int)n : 64, words);
}

/* Words or numbers, with | between them. */
static void cta_policy(const char *value, char *words)
{
    if (strcasestr(value, "ZERO") || (strtol(value, NULL, 0) & 2)) {
        limit_sms(0, words);
        if (environment.most_sms == 0)
            snprintf(words, WORDS, "collectives use copy engines where they can");
    } else {
        snprintf(words, WORDS, "no effect: only ZERO has one");
    }
}

static void buffsize(const char *value, char *words)
{
    enum { MOST_MIB = 1024 };
    char *end;
    unsigned long long bytes = strtoull(value, &end, 0);
    if (*end || bytes < 1 || bytes >> 20 > MOST_MIB) {
        snprintf(words, WORDS, "no effect: give 1 to %d, in bytes", MOST_MIB << 20);
        return;
    }
    environment.message_room = bytes;
    snprintf(words, WORDS, "messages of a communicator pass through %llu bytes of GPU memory",
             bytes);
}

static void comm_blocking(const char *value, char *words)
{
    environment.blocking = is_true(value);
    snprintf(words, WORDS, "communicators are %s",
             environment.blocking ? "blocking" : "set up by a thread (nonblocking)");
}

static void p2p_disable(const char *value, char *words)
{
    if (is_true(value))
        exclude("p2p", words);
    else
        snprintf(words, WORDS, "as without it");
}

static void p2p_level(const char *value, char *words)
{
    if (!strcasecmp(value, "LOC") || !strcmp(value, "0"))
        exclude("p2p", words);
    else
        snprintf(words, WORDS, "no effect: only LOC has one");
}

static void shm_disable(const char *value, char *words)
{
    if (is_true(value))
        exclude("staged", words);
    else
        snprintf(words, WORDS, "as without it");
}

static void use_sockets(char *words)
{
    char path[WORDS] = "";
    environment.sockets = true;
    exclude("gda", path);
    set("WEFT_FABRIC_PROVIDER", "tcp", words);
    size_t used = strlen(words);
    snprintf(words + used, WORDS - used, ", %s", path);
}

static void ib_disable(const char *value, char *words)
{
    if (is_true(value))
        use_sockets(words);
    else
        snprintf(words, WORDS, "as without it");
}

static void net(const char *value, char *words)
{
    if (!strcasecmp(value, "Socket"))
        use_sockets(words);
    else
        snprintf(words, WORDS, "no effect: only Socket has one");
}

/* Whether NCCL's list, such as "eth,^eth1" or "=mlx5_0:1", names an interface. ^: all but these;
 * =: whole names, not beginnings. */
static bool is_named(const char *list, const char *interface)
{
    bool except = *list == '^';
    list += except;
    bool whole = *list == '=';
    list += whole;
    for (size_t length; *list; list += length + (list[length] == ',')) {
        length = strcspn(list, ",");
        size_t name = strcspn(list, ",:");
        if (strncmp(list, interface, name) == 0 && (!whole || !interface[name]))
            return !except;
    }
    return except;
}

/* Puts the interfaces in a folder of /sys/class that the list names into `names`. */
static void find_interfaces(const char *folder, const char *list, char *names, size_t room)
{
    DIR *all = opendir(folder);
    size_t used = 0;
    names[0] = 0;
    for (struct dirent *entry; all && (entry = readdir(all));)
        if (entry->d_name[0] != '.' && used + strlen(entry->d_name) + 2 < room &&
            is_named(list, entry->d_name))
            used +=
                (size_t)snprintf(names + used, room - used, "%s%s", used ? "," : "", entry->d_name);
    if (all)
        closedir(all);
}

static void socket_ifname(const char *value, char *words)
{
    char names[256];
    if (!environment.sockets) {
        snprintf(words, WORDS, "no effect without NCCL_IB_DISABLE=1 or NCCL_NET=Socket");
        return;
    }
    find_interfaces("/sys/class/net", value, names, sizeof names);
    if (names[0])
        set("WEFT_FABRIC_INTERFACE", names, words);
    else
        snprintf(words, WORDS, "no effect: there is no such interface");
}

static void ib_hca(const char *value, char *words)
{
    char names[256];
    if (environment.sockets) {
        snprintf(words, WORDS, "no effect with NCCL_IB_DISABLE=1 or NCCL_NET=Socket");
        return;
    }
    find_interfaces("/sys/class/infiniband", value, names, sizeof names);
    if (names[0]) {
        set("WEFT_HCA", names, words);
        set("WEFT_FABRIC_INTERFACE", names, words);
    } else {
        snprintf(words, WORDS, "no effect: there is no such adapter");
    }
}

static void debug_subsys(const char *value, char *words)
{
    static const char *const levels[][2] = {
        {"ALL", "info"},        {"NET", "net:info,gda:info"}, {"COLL", "coll:info"},
        {"INIT", "job:info"},   {"BOOTSTRAP", "boot:info"},   {"P2P", "gpu:info"},
        {"SHM", "staged:info"},
    };
    char log[128] = "warn";
    for (size_t i = 0; i < sizeof levels / sizeof *levels && *value != '^'; i++) {
        size_t used = strlen(log);
        if (debug_list_has(value, levels[i][0]))
            snprintf(log + used, sizeof log - used, ",%s", levels[i][1]);
    }
    snprintf(words, WORDS, "lines of these subsystems");
    const char *debug = getenv("NCCL_DEBUG");
    if (log[4] && debug && (!strcasecmp(debug, "INFO") || !strcasecmp(debug, "TRACE")))
        set("WEFT_LOG", log, words);
}

/* In this order: NCCL_IB_DISABLE decides which list of interfaces has an effect. */
static const struct {
    const char *name;
    void (*apply)(const char *value, char *words); /* NULL: read elsewhere */
} variables[] = {
    {"NCCL_DEBUG", NULL},
    {"NCCL_DEBUG_FILE", NULL},
    {"NCCL_DEBUG_SUBSYS", debug_subsys},
    {"NCCL_MAX_CTAS", max_ctas},
    {"NCCL_MAX_NCHANNELS", max_ctas},
    {"NCCL_CTA_POLICY", cta_policy},
    {"NCCL_BUFFSIZE", buffsize},
    {"NCCL_COMM_BLOCKING", comm_blocking},
    {"NCCL_P2P_DISABLE", p2p_disable},
    {"NCCL_P2P_LEVEL", p2p_level},
    {"NCCL_SHM_DISABLE", shm_disable},
    {"NCCL_IB_DISABLE", ib_disable},
    {"NCCL_NET", net},
    {"NCCL_SOCKET_IFNAME", socket_ifname},
    {"NCCL_IB_HCA", ib_hca},
    {"NCCL_PROFILER_PLUGIN", NULL},
};
enum { VARIABLES = sizeof variables / sizeof *variables };

const char *environment_name(int index)
{
    return index >= 0 && index < VARIABLES ? variables[index].name : NULL;
}

extern char **environ;

static void report_others(void)
{
    for (char **variable = environ; *variable; variable++) {
        size_t length = strcspn(*variable, "=");
        bool known = strncmp(*variable, "NCCL_", strlen("NCCL_")) != 0;
        for (int i = 0; i < VARIABLES && !known; i++)
            known = strlen(variables[i].name) == length &&
                    strncmp(variables[i].name, *variable, length) == 0;
        if (!known)
            nccl_info(NULL, "ENV", "%.*s has no effect; `weft env` lists Weft's variables",
                      (int)(length < 100 ? length : 100), *variable);
    }
}

static void apply_all(void)
{
    char words[WORDS];
    for (int i = 0; i < VARIABLES; i++) {
        const char *value = getenv(variables[i].name);
        if (!value || !*value || !variables[i].apply)
            continue;
        words[0] = 0;
        variables[i].apply(value, words);
        nccl_info(NULL, "ENV", "%s=%s: %s", variables[i].name, value, words);
    }
    report_others();
}

ncclResult_t ncclSetEncryption(const ncclEncryptionConfig_t *config)
{
    if (!config || config->size < sizeof *config || config->magic != (unsigned)NCCL_API_MAGIC)
        return nccl_fail(ncclInvalidArgument,
                         "ncclSetEncryption: the configuration is null or does not begin with "
                         "NCCL_ENCRYPTION_CONFIG_INITIALIZER");
    if (config->mode == NCCL_ENCRYPTION_MODE_NONE)
        return ncclSuccess;
    return nccl_fail(ncclInvalidUsage,
                     "ncclSetEncryption: mode %d: connections of Weft are not encrypted; ranks "
                     "prove that they know the secret in the unique id",
                     config->mode);
}

void environment_apply(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, apply_all);
}
