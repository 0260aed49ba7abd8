/* SPDX-License-Identifier: Apache-2.0 */
/* PEs that find each other by RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, as torchrun sets them.
 * PE 0 listens. With WEFT_SECRET the PEs connect over TCP and prove that they know it. Without it
 * they connect only on one machine, over an abstract AF_UNIX socket, where the kernel reports the
 * peer's user. torchrun's own store listens on MASTER_PORT: PE 0 takes WEFT_BOOT_PORT or the first
 * free port after MASTER_PORT, and the others search there. */
#include "base/config.h"
#include "base/log.h"
#include "base/status.h"
#include "boot/hub/member.h"
#include "boot/methods.h"
#include "boot/rendezvous/listen.h"
#include "boot/rendezvous/rendezvous.h"
#include "boot/rendezvous/unique_id.h"
#include "driver/crypto.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

enum { PORTS_AFTER_MASTER = 8, MOST_ADDRESSES = 64, MOST_WORLD = 65536, ENOUGH_SECRET = 16 };

struct tcp_boot {
    struct boot boot;
    struct member world;
    struct member node; /* the PEs of this node, for descriptors */
    bool world_is_node; /* then `world` passes descriptors, too */
    unsigned checks;    /* number of checks: check() alternates between world and node */
};

/* Values from the environment, or from a unique id. */
struct environment {
    int rank;
    int size;
    const char *host;
    int master_port;
    int first_port;
    int ports;
    const char *secret; /* NULL: none */
    size_t secret_bytes;
    const char *job; /* name of the job, equal at all PEs; NULL: made from torchrun's variables */
    bool everywhere; /* PE 0 listens at all addresses of its machine, and the others try all */
    struct rendezvous_address addresses[MOST_ADDRESSES];
    int count;
};

static struct tcp_boot *get_tcp_boot(struct boot *boot)
{
    return (struct tcp_boot *)boot;
}

/* --------------------------------------------------------------------------------- operations */

/* A PE gets the end of the job from the job's hub or from its node's hub, while others may wait at
 * the other hub. It therefore forwards a reported reason there. It does not forward the mere loss
 * of a connection, which may be an effect of that reason. */
static weft_status forward_end(struct tcp_boot *tcp, struct member *other, weft_status status)
{
    if (!status || tcp->world_is_node)
        return status;
    char sentence[480];
    snprintf(sentence, sizeof sentence, "%s", base_last_error());
    struct member *own = other == &tcp->node ? &tcp->world : &tcp->node;
    weft_status earlier = member_check(other);
    if (earlier && (own->inferred || !other->inferred))
        return earlier;
    member_fail(other, status, sentence);
    return base_fail(status, "%s", sentence);
}

static weft_status tcp_allgather(struct boot *boot, const void *mine, void *all, size_t bytes)
{
    struct tcp_boot *tcp = get_tcp_boot(boot);
    return forward_end(tcp, &tcp->node, member_allgather(&tcp->world, mine, all, bytes));
}

static weft_status tcp_barrier(struct boot *boot)
{
    return tcp_allgather(boot, NULL, NULL, 0);
}

static weft_status tcp_share_fd(struct boot *boot, int from, int fd, int *taken)
{
    struct tcp_boot *tcp = get_tcp_boot(boot);
    struct member *local = tcp->world_is_node ? &tcp->world : &tcp->node;
    return forward_end(tcp, &tcp->world, boot_local_share(boot, local, from, fd, taken));
}

static void tcp_abort(struct boot *boot, int code, const char *sentence)
{
    member_abort(&get_tcp_boot(boot)->world, code, sentence);
    if (!get_tcp_boot(boot)->world_is_node)
        member_abort(&get_tcp_boot(boot)->node, code, sentence);
}

static void tcp_fail(struct boot *boot, weft_status why, const char *sentence)
{
    struct tcp_boot *tcp = get_tcp_boot(boot);
    member_fail(&tcp->world, why, sentence);
    if (!tcp->world_is_node)
        member_fail(&tcp->node, why, sentence);
}

static weft_status tcp_check(struct boot *boot)
{
    struct tcp_boot *tcp = get_tcp_boot(boot);
    bool node = __atomic_fetch_add(&tcp->checks, 1, __ATOMIC_RELAXED) % 2 && !tcp->world_is_node;
    return node ? forward_end(tcp, &tcp->world, member_check(&tcp->node))
                : forward_end(tcp, &tcp->node, member_check(&tcp->world));
}

static void tcp_forked(struct boot *boot)
{
    struct tcp_boot *tcp = get_tcp_boot(boot);
    member_forked(&tcp->world);
    if (!tcp->world_is_node)
        member_forked(&tcp->node);
}

static void tcp_close(struct boot *boot, bool clean)
{
    struct tcp_boot *tcp = get_tcp_boot(boot);
    if (!tcp->world_is_node)
        member_close(&tcp->node, clean);
    member_close(&tcp->world, clean);
    boot_unset(boot);
    free(tcp);
}

static const struct boot_ops tcp_ops = {
    .name = "tcp",
    .allgather = tcp_allgather,
    .barrier = tcp_barrier,
    .share_fd = tcp_share_fd,
    .abort = tcp_abort,
    .fail = tcp_fail,
    .check = tcp_check,
    .forked = tcp_forked,
    .close = tcp_close,
};

/* ------------------------------------------------------------------------------ the environment */

static weft_status read_number(const char *name, int low, int high, int *number)
{
    const char *text = getenv(name);
    char *end;
    if (!text || !*text)
        return base_fail(WEFT_ERR_BOOT,
                         "%s is not set; WEFT_BOOT=tcp needs RANK, WORLD_SIZE, MASTER_ADDR and "
                         "MASTER_PORT",
                         name);
    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno || *end || value < low || value > high)
        return base_fail(WEFT_ERR_BOOT, "%s is \"%s\", which is not a number from %d to %d", name,
                         text, low, high);
    *number = (int)value;
    return WEFT_OK;
}

bool boot_tcp_known(void)
{
    return getenv("RANK") && getenv("WORLD_SIZE") && getenv("MASTER_ADDR") && getenv("MASTER_PORT");
}

static weft_status read_environment(struct environment *where)
{
    weft_status status = read_number("WORLD_SIZE", 1, MOST_WORLD, &where->size);
    if (!status)
        status = read_number("RANK", 0, where->size - 1, &where->rank);
    if (!status)
        status = read_number("MASTER_PORT", 1, 65535, &where->master_port);
    if (status)
        return status;
    where->host = getenv("MASTER_ADDR");
    if (!where->host || !*where->host)
        return base_fail(WEFT_ERR_BOOT, "MASTER_ADDR is not set: the host name or address of PE 0");
    int64_t port = config_int(CONFIG_BOOT_PORT);
    if (port < 0 || port > 65535)
        return base_fail(WEFT_ERR_CONFIG, "WEFT_BOOT_PORT is %lld, which is not a port",
                         (long long)port);
    where->first_port = port ? (int)port : where->master_port + 1;
    where->ports = port ? 1 : PORTS_AFTER_MASTER;
    if (where->first_port + where->ports - 1 > 65535)
        where->ports = 65535 - where->first_port + 1;
    if (where->ports < 1)
        return base_fail(WEFT_ERR_BOOT,
                         "MASTER_PORT is %d and there is no port after it: set "
                         "WEFT_BOOT_PORT",
                         where->master_port);
    const char *secret = config_string(CONFIG_SECRET);
    where->secret = *secret ? secret : NULL;
    where->secret_bytes = strlen(secret);
    return WEFT_OK;
}

static void set_port(struct sockaddr_storage *address, int port)
{
    if (address->ss_family == AF_INET)
        ((struct sockaddr_in *)address)->sin_port = htons((uint16_t)port);
    else
        ((struct sockaddr_in6 *)address)->sin6_port = htons((uint16_t)port);
}

/* Stores every address of the host with every possible port, port by port. */
static weft_status resolve_master(struct environment *where)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *found;
    int error = getaddrinfo(where->host, NULL, &hints, &found);
    if (error)
        return base_fail(WEFT_ERR_BOOT, "MASTER_ADDR is \"%s\": %s", where->host,
                         error == EAI_SYSTEM ? strerror(errno) : gai_strerror(error));
    for (int port = 0; port < where->ports; port++) {
        for (struct addrinfo *one = found; one && where->count < MOST_ADDRESSES;
             one = one->ai_next) {
            if (one->ai_family != AF_INET && one->ai_family != AF_INET6)
                continue;
            struct rendezvous_address *at = &where->addresses[where->count++];
            memcpy(&at->address, one->ai_addr, one->ai_addrlen);
            at->bytes = one->ai_addrlen;
            set_port(&at->address, where->first_port + port);
        }
    }
    freeaddrinfo(found);
    if (where->count == 0)
        return base_fail(WEFT_ERR_BOOT, "MASTER_ADDR \"%s\" has no address", where->host);
    return WEFT_OK;
}

static bool is_loopback(const struct sockaddr_storage *address)
{
    if (address->ss_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) >> 24 == 127;
    return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)address)->sin6_addr);
}

/* torchrun sets LOCAL_WORLD_SIZE, the number of PEs on this machine. */
static bool is_one_machine(const struct environment *where)
{
    const char *local = getenv("LOCAL_WORLD_SIZE");
    if (local && atoi(local) == where->size)
        return true;
    for (int i = 0; i < where->count; i++)
        if (!is_loopback(&where->addresses[i].address))
            return false;
    return true;
}

/* Without a secret: AF_UNIX at a name made of values that the PEs share. */
static void use_local_name(struct environment *where)
{
    struct rendezvous_address *at = &where->addresses[0];
    struct sockaddr_un *name = (struct sockaddr_un *)&at->address;
    memset(at, 0, sizeof *at);
    name->sun_family = AF_UNIX;
    int n = snprintf(name->sun_path + 1, sizeof name->sun_path - 1, "weft/%u/%d",
                     (unsigned)geteuid(), where->master_port);
    at->bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
    where->count = 1;
}

/* An unauthenticated peer that reaches PE 0 and knows the job's name gets a proof from it, and can
 * test guesses of the secret against that proof offline. It would find a short secret. */
static void warn_about_short_secret(const struct environment *where)
{
    size_t length = strlen(where->secret);
    if (where->rank == 0 && length < ENOUGH_SECRET)
        log_warn(LOG_BOOT,
                 "WEFT_SECRET has only %zu characters and can be guessed: use at least "
                 "%d, for example from `openssl rand -hex 16`",
                 length, ENOUGH_SECRET);
}

static weft_status choose_address(struct environment *where)
{
    const struct crypto_driver *crypto;
    weft_status status = resolve_master(where);
    if (status)
        return status;
    if (where->secret) {
        warn_about_short_secret(where);
        /* The user set a secret: a job that cannot check it must not begin. */
        return crypto_load(&crypto);
    }
    if (!is_one_machine(where))
        return base_fail(
            WEFT_ERR_BOOT,
            "MASTER_ADDR is \"%s\", so this job may span machines, and any process that can "
            "reach PE 0 could join: set WEFT_SECRET to the same text for every PE (for example "
            "from `openssl rand -hex 16`)",
            where->host);
    use_local_name(where);
    return WEFT_OK;
}

/* ------------------------------------------------------------------------------------ listening */

static int listen_at(const struct rendezvous_address *at)
{
    int on = 1, fd = socket(at->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    /* A second job of the same processes may begin before the kernel releases the first job's
     * port. */
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (const struct sockaddr *)&at->address, at->bytes) == 0 && listen(fd, 4096) == 0)
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

/* For a MASTER_ADDR that is not an address of this machine itself (network address translation). */
static int listen_anywhere(const struct rendezvous_address *at)
{
    struct rendezvous_address any = *at;
    if (at->address.ss_family == AF_INET)
        ((struct sockaddr_in *)&any.address)->sin_addr.s_addr = htonl(INADDR_ANY);
    else
        ((struct sockaddr_in6 *)&any.address)->sin6_addr = in6addr_any;
    return listen_at(&any);
}

static weft_status listen_failure(const struct environment *where, int error)
{
    if (where->secret)
        return base_fail(
            WEFT_ERR_BOOT,
            "PE 0 cannot listen at \"%s\", ports %d to %d: %s; set WEFT_BOOT_PORT to a "
            "free port",
            where->host, where->first_port, where->first_port + where->ports - 1, strerror(error));
    return base_fail(WEFT_ERR_BOOT,
                     "PE 0 cannot listen at the abstract socket @weft/%u/%d: %s; is another job "
                     "with the same MASTER_PORT running?",
                     (unsigned)geteuid(), where->master_port, strerror(error));
}

static weft_status listen_for_others(const struct environment *where, int *listening)
{
    int error = 0, port = where->first_port;
    if (where->everywhere && where->secret) {
        *listening = listen_everywhere(&port);
        return *listening >= 0 ? WEFT_OK : listen_failure(where, errno);
    }
    for (int i = 0; i < where->count; i++) {
        int fd = listen_at(&where->addresses[i]);
        if (fd < 0 && errno == EADDRNOTAVAIL)
            fd = listen_anywhere(&where->addresses[i]);
        if (fd >= 0) {
            *listening = fd;
            return WEFT_OK;
        }
        if (!error || errno != EADDRINUSE)
            error = errno;
    }
    return listen_failure(where, error);
}

/* -------------------------------------------------------------------------------------- opening */

static struct rendezvous make_rendezvous(const struct environment *where)
{
    struct rendezvous rendezvous = {.what = where->secret ? "TCP start" : "local start",
                                    .n = where->size,
                                    .me = where->rank,
                                    .key = where->secret,
                                    .key_bytes = where->secret_bytes,
                                    .many_addresses = where->everywhere};
    const char *run = getenv("TORCHELASTIC_RUN_ID"), *again = getenv("TORCHELASTIC_RESTART_COUNT");
    if (where->job)
        snprintf(rendezvous.job, sizeof rendezvous.job, "%s", where->job);
    else
        snprintf(rendezvous.job, sizeof rendezvous.job, "%d/%s/%.40s", where->master_port,
                 again ? again : "0", run ? run : "");
    return rendezvous;
}

static weft_status connect_all_pes(const struct environment *where, struct member *world)
{
    struct rendezvous rendezvous = make_rendezvous(where);
    struct wire *wires = calloc(where->rank == 0 ? (size_t)where->size : 1, sizeof *wires);
    int listening = -1;
    weft_status status = WEFT_OK;
    if (!wires)
        status = base_fail(WEFT_ERR_NO_MEMORY, "no memory for %d PEs", where->size);
    else if (where->rank > 0)
        status = rendezvous_connect(&rendezvous, where->addresses, where->count, &wires[0]);
    else
        status = listen_for_others(where, &listening);
    if (!status && where->rank == 0) {
        status = rendezvous_accept(&rendezvous, listening, wires);
        if (status) {
            member_refuse(wires, where->size, status);
            wires = NULL;
        }
    }
    if (listening >= 0)
        close(listening);
    if (status) {
        free(wires);
        return status;
    }
    return member_init(world, where->size, where->rank, NULL, wires);
}

static weft_status connect_node(struct tcp_boot *tcp, bool over_unix)
{
    weft_status status = boot_find_nodes(&tcp->boot);
    if (status)
        return status;
    if (over_unix && tcp->boot.nodes == 1)
        return WEFT_OK; /* AF_UNIX passes descriptors, too */
    status = boot_local_connect(&tcp->boot, &tcp->node);
    tcp->world_is_node = status != WEFT_OK; /* only then is there a second hub to leave */
    return status;
}

static weft_status open_tcp_job(struct boot **boot, struct environment *where)
{
    struct tcp_boot *made = calloc(1, sizeof *made);
    if (!made)
        return base_fail(WEFT_ERR_NO_MEMORY, "no memory for the connections at start");
    made->node.epoll = -1;
    made->world_is_node = true;
    weft_status status = connect_all_pes(where, &made->world);
    if (status) {
        free(made);
        return status;
    }
    boot_set(&made->boot, &tcp_ops, where->rank, where->size);
    made->world.boot = &made->boot;
    status = connect_node(made, !where->secret);
    if (status) {
        char sentence[400]; /* tcp_close() reports to the others, and may fail in turn */
        snprintf(sentence, sizeof sentence, "%s", base_last_error());
        member_fail(&made->world, status, sentence);
        tcp_close(&made->boot, false);
        return base_fail(status, "%s", sentence);
    }
    *boot = &made->boot;
    return WEFT_OK;
}

weft_status boot_open_id(struct boot **boot, const weft_unique_id *id, int pe, int npes)
{
    uint8_t secret[UNIQUE_ID_SECRET_BYTES];
    bool keyed;
    if (!unique_id_good(id))
        return base_fail(WEFT_ERR_ARGUMENT,
                         "the unique id was not made by weft_unique_id_get(), or "
                         "is not complete");
    if (npes < 1 || npes > MOST_WORLD || pe < 0 || pe >= npes)
        return base_fail(WEFT_ERR_ARGUMENT, "PE %d is not in a job of %d PEs", pe, npes);
    if (npes == 1)
        return boot_open_single(boot);
    struct environment *where = calloc(1, sizeof *where);
    if (!where)
        return base_fail(WEFT_ERR_NO_MEMORY, "no memory for the connections at start");
    where->rank = pe;
    where->size = npes;
    where->host = "the host of the unique id";
    where->master_port = where->first_port = unique_id_port(id);
    where->ports = 1;
    where->everywhere = true;
    where->job = "unique id";
    where->count = unique_id_read(id, where->addresses, MOST_ADDRESSES, secret, &keyed);
    where->secret = keyed ? (const char *)secret : NULL;
    where->secret_bytes = keyed ? sizeof secret : 0;
    if (!keyed) /* no library can check a proof, so the kernel must authenticate peers */
        use_local_name(where);
    log_set_pe(pe);
    weft_status status = open_tcp_job(boot, where);
    free(where);
    return status;
}

weft_status boot_open_tcp(struct boot **boot)
{
    struct environment *where = calloc(1, sizeof *where);
    if (!where)
        return base_fail(WEFT_ERR_NO_MEMORY, "no memory for the connections at start");
    weft_status status = read_environment(where);
    if (!status) {
        log_set_pe(where->rank);
        if (where->size == 1)
            status = boot_open_single(boot);
        else if (!(status = choose_address(where)))
            status = open_tcp_job(boot, where);
    }
    free(where);
    return status;
}
