/* SPDX-License-Identifier: Apache-2.0 */
/* Selects the method by which this process finds the other PEs, and has the code that all methods
 * share. Knows nothing of what is exchanged. */
#include "boot/boot.h"

#include "base/clock.h"
#include "base/config.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/status.h"
#include "boot/methods.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

/* Two PEs are on one node when they can pass each other descriptors and name each other's
 * processes: one kernel, one network namespace (abstract sockets), one pid namespace. PEs that
 * `weft run --hosts` started must also have the same entry of its host list, because its hosts pass
 * no descriptors to each other. */
struct node_identity {
    char kernel[48]; /* boot id; the host name where /proc has none */
    uint64_t network_namespace;
    uint64_t pid_namespace;
    int64_t entry;
    int64_t part; /* set in tests (WEFT_TEST_NODE_PES), to divide a node */
};

struct node_record {
    struct node_identity identity;
    char host[BOOT_HOST_BYTES];
};

void boot_set(struct boot *boot, const struct boot_ops *ops, int pe, int npes)
{
    boot->ops = ops;
    boot->pe = pe;
    boot->npes = npes;
}

void boot_unset(struct boot *boot)
{
    free(boot->local_pes);
    free(boot->node_of);
    free(boot->hosts);
    boot->local_pes = NULL;
    boot->node_of = NULL;
    boot->hosts = NULL;
}

static weft_status make_tables(struct boot *boot)
{
    boot_unset(boot); /* boot_find_nodes() may be called again */
    boot->local_pes = calloc((size_t)boot->npes, sizeof *boot->local_pes);
    boot->node_of = calloc((size_t)boot->npes, sizeof *boot->node_of);
    if (boot->local_pes && boot->node_of)
        return WEFT_OK;
    boot_unset(boot);
    return base_fail(WEFT_ERR_NO_MEMORY, "no memory for the node tables of %d PEs", boot->npes);
}

weft_status boot_one_node(struct boot *boot)
{
    weft_status status = make_tables(boot);
    if (status)
        return status;
    for (int pe = 0; pe < boot->npes; pe++)
        boot->local_pes[pe] = pe;
    boot->local_pe = boot->pe;
    boot->local_npes = boot->npes;
    boot->nodes = 1;
    return WEFT_OK;
}

static uint64_t namespace_number(const char *path)
{
    struct stat file;
    return stat(path, &file) == 0 ? (uint64_t)file.st_ino : 0;
}

static void fill_node_record(const struct boot *boot, struct node_record *record)
{
    struct node_identity *identity = &record->identity;
    const char *host = config_string(CONFIG_BOOT_HOST);
    int64_t part = config_int(CONFIG_TEST_NODE_PES);
    memset(record, 0, sizeof *record);
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = -1;
    if (fd >= 0) {
        n = read(fd, identity->kernel, sizeof identity->kernel - 1);
        close(fd);
    }
    struct utsname name;
    if (uname(&name) < 0)
        name.nodename[0] = '\0';
    if (n <= 0)
        snprintf(identity->kernel, sizeof identity->kernel, "%.47s", name.nodename);
    snprintf(record->host, sizeof record->host, "%.63s", *host ? host : name.nodename);
    identity->entry = config_int(CONFIG_BOOT_NODE);
    identity->part = part > 0 ? boot->pe / part : 0;
    identity->network_namespace = namespace_number("/proc/self/ns/net");
    identity->pid_namespace = namespace_number("/proc/self/ns/pid");
}

static bool is_same_node(const struct node_record *all, int a, int b)
{
    return memcmp(&all[a].identity, &all[b].identity, sizeof all->identity) == 0;
}

/* Numbers the nodes by their first PEs. Mostly a PE is on the node of the one before it; else it is
 * compared with one PE of each node. */
static weft_status number_nodes(const struct node_record *all, struct boot *boot)
{
    int *first = calloc((size_t)boot->npes, sizeof *first);
    if (!first)
        return base_fail(WEFT_ERR_NO_MEMORY, "no memory for the nodes of %d PEs", boot->npes);
    boot->nodes = 0;
    for (int pe = 0; pe < boot->npes; pe++) {
        int node = pe > 0 && is_same_node(all, pe - 1, pe) ? boot->node_of[pe - 1] : 0;
        while (node < boot->nodes && !is_same_node(all, first[node], pe))
            node++;
        if (node == boot->nodes)
            first[boot->nodes++] = pe;
        boot->node_of[pe] = node;
    }
    free(first);
    return WEFT_OK;
}

/* Each node gets the host name of its first PE. */
static weft_status name_hosts(struct boot *boot, const struct node_record *all)
{
    /* NOLINTNEXTLINE(clang-analyzer-optin.portability.UnixAPI): there is one node at least */
    boot->hosts = calloc((size_t)boot->nodes, sizeof *boot->hosts);
    if (!boot->hosts)
        return base_fail(WEFT_ERR_NO_MEMORY, "no memory for the names of %d nodes", boot->nodes);
    for (int pe = boot->npes - 1; pe >= 0; pe--)
        snprintf(boot->hosts[boot->node_of[pe]], BOOT_HOST_BYTES, "%.63s", all[pe].host);
    return WEFT_OK;
}

struct boot_where boot_where(const struct boot *boot, int pe)
{
    struct boot_where where = {""};
    if (boot && boot->hosts && boot->nodes > 1 && pe >= 0 && pe < boot->npes)
        snprintf(where.text, sizeof where.text, " on %s", boot->hosts[boot->node_of[pe]]);
    return where;
}

size_t boot_node_record_bytes(void)
{
    return sizeof(struct node_record);
}

weft_status boot_find_nodes(struct boot *boot)
{
    struct node_record mine, *all = calloc((size_t)boot->npes, sizeof *all);
    if (!all)
        return base_fail(WEFT_ERR_NO_MEMORY, "no memory for %d node identities", boot->npes);
    fill_node_record(boot, &mine);
    weft_status status = boot->ops->allgather(boot, &mine, all, sizeof mine);
    if (!status)
        status = make_tables(boot);
    if (!status)
        status = number_nodes(all, boot);
    if (status) {
        free(all);
        return status;
    }

    boot->local_npes = 0;
    for (int pe = 0; pe < boot->npes; pe++) {
        if (boot->node_of[pe] != boot->node_of[boot->pe])
            continue;
        if (pe == boot->pe)
            boot->local_pe = boot->local_npes;
        boot->local_pes[boot->local_npes++] = pe;
    }
    status = name_hosts(boot, all);
    free(all);
    return status;
}

struct boot_limit boot_limit_start(void)
{
    uint64_t limit_ns = config_duration_ns(CONFIG_WAIT_LIMIT);
    return (struct boot_limit){.left_ns = limit_ns, .endless = limit_ns == 0};
}

struct boot_limit boot_limit_join(void)
{
    struct boot_limit limit = boot_limit_start();
    uint64_t join_ns = config_duration_ns(CONFIG_BOOT_LIMIT);
    if (join_ns && (limit.endless || join_ns < limit.left_ns))
        limit = (struct boot_limit){.left_ns = join_ns};
    return limit;
}

/* Counts time that a wait took. Returns false when the limit has passed or the program's check ends
 * the wait. */
static bool count_limit(struct boot_limit *limit, uint64_t passed_ns)
{
    limit->interrupted = interrupt_check() != WEFT_OK;
    if (limit->interrupted)
        return false;
    if (limit->endless)
        return true;
    limit->left_ns -= limit->left_ns < passed_ns ? limit->left_ns : passed_ns;
    return limit->left_ns > 0;
}

bool boot_limit_pause(struct boot_limit *limit)
{
    const uint64_t pause_ns = 1000000;
    nanosleep(&(struct timespec){.tv_nsec = (long)pause_ns}, NULL);
    return count_limit(limit, pause_ns);
}

bool boot_limit_poll(struct boot_limit *limit, int fd, short events)
{
    const uint64_t slice_ns = 1000000000;
    for (;;) {
        uint64_t wait_ns = interrupt_slice_ns(slice_ns);
        if (!limit->endless && limit->left_ns < wait_ns)
            wait_ns = limit->left_ns;
        struct pollfd watched = {.fd = fd, .events = events};
        uint64_t before = clock_now_ns();
        int n = poll(&watched, 1, (int)((wait_ns + 999999) / 1000000));
        if (n > 0)
            return true;
        uint64_t passed = clock_now_ns() - before;
        if (!count_limit(limit, passed < wait_ns ? passed : wait_ns))
            return false;
    }
}

/* Warns when another launcher with a protocol that Weft does not support started this process: each
 * of its processes becomes a job of one PE, which the user hardly wants. */
static void warn_about_unused_launcher(void)
{
    static const struct {
        const char *variable;
        const char *remedy;
    } launchers[] = {
        {"SLURM_NTASKS", "start with srun --mpi=pmix"},
        {"OMPI_COMM_WORLD_SIZE", "this mpirun has no PMIx"},
        {"PMI_SIZE", "this launcher has PMI-1, not PMIx; use weft run or mpirun of Open MPI"},
        {"WORLD_SIZE", "RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT must all be set"},
    };
    for (size_t i = 0; i < sizeof launchers / sizeof launchers[0]; i++) {
        const char *size = getenv(launchers[i].variable);
        if (size && atoi(size) > 1) {
            log_warn(
                LOG_BOOT,
                "%s is %s, but this process found no launcher to connect to and is a job of one "
                "PE: %s",
                launchers[i].variable, size, launchers[i].remedy);
            return;
        }
    }
}

#ifndef WEFT_HAVE_PMIX
bool boot_pmix_known(void)
{
    return getenv("PMIX_NAMESPACE") && getenv("PMIX_RANK");
}

weft_status boot_open_pmix(struct boot **boot)
{
    return base_fail(WEFT_ERR_UNSUPPORTED,
                     "a PMIx launcher started this process, and this Weft was built without PMIx. "
                     "Install libpmix-dev and build again, or use `weft run` or RANK, "
                     "WORLD_SIZE, MASTER_ADDR and MASTER_PORT");
}
#endif

/* In the order of the values of WEFT_BOOT. */
enum method { METHOD_AUTO, METHOD_WEFT, METHOD_PMIX, METHOD_TCP, METHOD_SINGLE };

static enum method choose_method(void)
{
    if (boot_launcher_known())
        return METHOD_WEFT;
    if (boot_pmix_known())
        return METHOD_PMIX;
    if (boot_tcp_known())
        return METHOD_TCP;
    return METHOD_SINGLE;
}

bool boot_was_launched(void)
{
    return boot_launcher_known() || boot_pmix_known();
}

weft_status boot_open(struct boot **boot, weft_group *group, int group_pe)
{
    *boot = NULL;
    if (group)
        return boot_open_group(boot, group, group_pe);

    enum method method = (enum method)config_choice(CONFIG_BOOT);
    bool chosen_by_user = method != METHOD_AUTO;
    if (!chosen_by_user)
        method = choose_method();
    weft_status status = WEFT_OK;
    switch (method) {
    case METHOD_WEFT:
        status = boot_open_launcher(boot);
        break;
    case METHOD_TCP:
        status = boot_open_tcp(boot);
        break;
    case METHOD_PMIX:
        status = boot_open_pmix(boot);
        break;
    case METHOD_AUTO: /* choose_method() never returns it */
    case METHOD_SINGLE:
        if (!chosen_by_user)
            warn_about_unused_launcher();
        status = boot_open_single(boot);
        break;
    }
    if (!status && (*boot)->npes > 1)
        log_set_pe((*boot)->pe);
    return status;
}
