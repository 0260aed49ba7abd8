/* SPDX-License-Identifier: Apache-2.0 */
/* Compares path net with plain libfabric calls, in one run of two PEs:
 *
 *     WEFT_PATH=net weft run -n 2 compare_net [ROUNDS [descriptor]]
 *
 * PE 0 transfers data to and from PE 1 by weft_put_nbi(), weft_get_nbi() and quiet. Round by round
 * this alternates with fi_write() and fi_read() over an endpoint pair of the same provider. The
 * libfabric side is a good program of its kind: up to WINDOW operations are outstanding, both ends
 * poll the completion queue, and a message confirms the arrival of the last write. The received
 * data are compared. Then it measures single operations of 8 bytes: a message and its reply vs puts
 * that each side waits for, a read vs a get, a message with its reply vs a put and quiet. It prints
 * the median of each, and the ratio.
 *
 * With the argument "descriptor" the libfabric completion queue has a wait object, as Weft's has.
 * It is not used here but has a cost. */
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <weft.h>

enum { WINDOW = 1024, MOST_BYTES = 4 << 20, MOST_ROUNDS = 99, ADDRESS_BYTES = 128 };

#define OK(call)                                                                                   \
    do {                                                                                           \
        if ((call) != WEFT_OK) {                                                                   \
            fprintf(stderr, "%s: %s\n", #call, weft_last_error());                                 \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static void fabric_ok(long result, const char *call)
{
    if (result >= 0)
        return;
    fprintf(stderr, "%s: %s\n", call, fi_strerror((int)-result));
    exit(1);
}
#define FI(call) fabric_ok((call), #call)

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* ------------------------------------------------------------------------------------ libfabric */

static struct plain {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_ep *endpoint;
    struct fid_mr *memory;
    void *descriptor;
    fi_addr_t peer;
    uint64_t key, base; /* key and address of the peer's buffer */
    char *buffer;       /* MOST_BYTES */
    char token[8];
    struct fi_context2 contexts[WINDOW], token_context, send_context;
    bool token_came;
} plain;

/* Exchange record of a PE's endpoint. */
struct card {
    char address[ADDRESS_BYTES];
    uint64_t key, base;
};

/* Finds the provider and interface that Weft uses: "net: provider tcp;ofi_rxm on lo (...)". */
static void find_provider(weft_job *job, char *provider, char *domain)
{
    weft_path_info path = {.size = sizeof path};
    OK(weft_path_query(job, 1 - weft_my_pe(job), &path));
    const char *at = strstr(path.reason, "provider ");
    if (!at || sscanf(at, "provider %63s on %63s", provider, domain) != 2) {
        fprintf(stderr, "the path between the PEs is %s (%s); set WEFT_PATH=net\n", path.name,
                path.reason);
        exit(1);
    }
    domain[strcspn(domain, ";")] = '\0';
}

static void open_plain(weft_job *job, enum fi_wait_obj wait, struct card *mine)
{
    char provider[64], domain[64];
    struct fi_info *hints = fi_allocinfo();
    find_provider(job, provider, domain);
    hints->ep_attr->type = FI_EP_RDM;
    hints->caps = FI_MSG | FI_RMA;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->fabric_attr->prov_name = strdup(provider);
    hints->domain_attr->name = strdup(domain);
    FI(fi_getinfo(FI_VERSION(1, 11), NULL, NULL, 0, hints, &plain.info));
    fi_freeinfo(hints);
    while (strcmp(plain.info->domain_attr->name, domain) != 0 && plain.info->next)
        plain.info = plain.info->next;
    struct fi_cq_attr queue = {.size = 4096, .format = FI_CQ_FORMAT_CONTEXT, .wait_obj = wait};
    struct fi_av_attr table = {.type = FI_AV_TABLE, .count = 2};
    FI(fi_fabric(plain.info->fabric_attr, &plain.fabric, NULL));
    FI(fi_domain(plain.fabric, plain.info, &plain.domain, NULL));
    FI(fi_av_open(plain.domain, &table, &plain.av, NULL));
    FI(fi_cq_open(plain.domain, &queue, &plain.cq, NULL));
    FI(fi_endpoint(plain.domain, plain.info, &plain.endpoint, NULL));
    FI(fi_ep_bind(plain.endpoint, &plain.av->fid, 0));
    FI(fi_ep_bind(plain.endpoint, &plain.cq->fid, FI_TRANSMIT | FI_RECV));
    FI(fi_enable(plain.endpoint));
    plain.buffer = aligned_alloc(4096, MOST_BYTES);
    memset(plain.buffer, 0, MOST_BYTES);
    FI(fi_mr_reg(plain.domain, plain.buffer, MOST_BYTES,
                 FI_REMOTE_READ | FI_REMOTE_WRITE | FI_READ | FI_WRITE | FI_SEND | FI_RECV, 0, 1, 0,
                 &plain.memory, NULL));
    plain.descriptor = fi_mr_desc(plain.memory);
    size_t bytes = sizeof mine->address;
    FI(fi_getname(&plain.endpoint->fid, mine->address, &bytes));
    mine->key = fi_mr_key(plain.memory);
    mine->base = plain.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uintptr_t)plain.buffer : 0;
}

static void post_token(void)
{
    plain.token_came = false;
    FI(fi_recv(plain.endpoint, plain.token, sizeof plain.token, NULL, FI_ADDR_UNSPEC,
               &plain.token_context));
}

/* Reads completions; returns how many of them are remote accesses. */
static int plain_poll(void)
{
    struct fi_cq_entry entries[16];
    int accesses = 0;
    static int idle;
    ssize_t n = fi_cq_read(plain.cq, entries, 16);
    if (n != -FI_EAGAIN)
        FI(n);
    idle = n > 0 ? 0 : idle + 1;
    if (idle > 100) /* yield the CPU to other processes, as Weft does */
        sched_yield();
    for (ssize_t i = 0; i < n; i++) {
        if (entries[i].op_context == &plain.token_context)
            plain.token_came = true;
        else
            accesses += entries[i].op_context != &plain.send_context;
    }
    return accesses;
}

static void send_token(void)
{
    ssize_t error;
    while ((error = fi_send(plain.endpoint, plain.buffer, sizeof plain.token, plain.descriptor,
                            plain.peer, &plain.send_context)) == -FI_EAGAIN)
        plain_poll();
    FI(error);
}

static void await_token(void)
{
    while (!plain.token_came)
        plain_poll();
    post_token();
}

static double plain_run(bool write, size_t bytes, int count)
{
    int given = 0, done = 0;
    double start = now();
    while (done < count) {
        while (given < count && given - done < WINDOW) {
            void *context = &plain.contexts[given % WINDOW];
            ssize_t error = write ? fi_write(plain.endpoint, plain.buffer, bytes, plain.descriptor,
                                             plain.peer, plain.base, plain.key, context)
                                  : fi_read(plain.endpoint, plain.buffer, bytes, plain.descriptor,
                                            plain.peer, plain.base, plain.key, context);
            if (error == -FI_EAGAIN)
                break;
            FI(error);
            given++;
        }
        done += plain_poll();
    }
    send_token();
    await_token();
    return (now() - start) / count;
}

/* Target side: only polls. */
static void plain_serve(void)
{
    await_token();
    send_token();
}

/* ----------------------------------------------------------------------------------------- Weft */

static double weft_run(weft_ctx *ctx, bool write, char *remote, char *local, size_t bytes,
                       int count)
{
    double start = now();
    for (int i = 0; i < count; i++)
        OK(write ? weft_put_nbi(ctx, remote, local, bytes, 1)
                 : weft_get_nbi(ctx, local, remote, bytes, 1));
    OK(weft_quiet(ctx));
    return (now() - start) / count;
}

/* ------------------------------------------------------------------------------------- the rows */

static int compare_data(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int n)
{
    qsort(values, (size_t)n, sizeof *values, compare_data);
    return values[n / 2];
}

static void report(bool write, size_t bytes, double with_plain, double with_weft)
{
    if (bytes <= 64)
        printf("%-5s %8zu %11.3f M/s %11.3f M/s", write ? "put" : "get", bytes, 1e-6 / with_plain,
               1e-6 / with_weft);
    else
        printf("%-5s %8zu %10.1f MB/s %10.1f MB/s", write ? "put" : "get", bytes,
               (double)bytes / with_plain * 1e-6, (double)bytes / with_weft * 1e-6);
    printf(" %9.2f\n", with_plain / with_weft);
    fflush(stdout);
}

static void print_row(weft_job *job, bool write, size_t bytes, int rounds, char *heap, char *local)
{
    static double with_plain[MOST_ROUNDS], with_weft[MOST_ROUNDS];
    weft_ctx *ctx = weft_default_ctx(job);
    weft_team *world = weft_team_world(job);
    int me = weft_my_pe(job), count = (int)((32u << 20) / (bytes < 4096 ? 4096 : bytes));
    memset(me ? heap : local, (int)(bytes >> 3) + 1, bytes);
    memset(plain.buffer, (int)(bytes >> 3) + 1, me && write ? 0 : bytes);
    OK(weft_barrier(world));
    for (int i = 0; i < rounds; i++) {
        if (me)
            plain_serve();
        else
            with_plain[i] = plain_run(write, bytes, count);
        OK(weft_barrier(world));
        if (!me)
            with_weft[i] = weft_run(ctx, write, heap, local, bytes, count);
        OK(weft_barrier(world));
    }
    const char *arrived = write == (me == 1) ? (me ? heap : local) : NULL;
    for (size_t i = 0; arrived && i < bytes; i++)
        if (arrived[i] != (char)((bytes >> 3) + 1) || plain.buffer[i] != arrived[i]) {
            fprintf(stderr, "PE %d: byte %zu of %zu is wrong\n", me, i, bytes);
            exit(1);
        }
    if (!me)
        report(write, bytes, median(with_plain, rounds), median(with_weft, rounds));
}

/* ---------------------------------------------------------------------------- single operations */

enum { TRIPS = 1000 };

/* Ping-pong of messages; returns the time of one direction. */
static double plain_trips(int me)
{
    double start = now();
    for (int i = 0; i < TRIPS; i++) {
        if (!me)
            send_token();
        await_token();
        if (me)
            send_token();
    }
    return (now() - start) / TRIPS;
}

static double weft_trips(weft_ctx *ctx, int me, uint64_t *flag, uint64_t *value)
{
    double start = now();
    for (int i = 0; i < TRIPS; i++) {
        ++*value;
        if (!me)
            OK(weft_put(ctx, flag, value, sizeof *value, 1));
        OK(weft_wait_until(ctx, WEFT_UINT64, flag, WEFT_EQ, *value));
        if (me)
            OK(weft_put(ctx, flag, value, sizeof *value, 0));
    }
    return (now() - start) / TRIPS;
}

static double plain_reads(void)
{
    double start = now();
    for (int i = 0; i < TRIPS; i++) {
        FI(fi_read(plain.endpoint, plain.buffer, 8, plain.descriptor, plain.peer, plain.base,
                   plain.key, &plain.contexts[0]));
        while (!plain_poll())
            ;
    }
    double each = (now() - start) / TRIPS;
    send_token();
    await_token();
    return each;
}

static double weft_each(weft_ctx *ctx, bool put, char *heap, char *local)
{
    double start = now();
    for (int i = 0; i < TRIPS; i++) {
        OK(put ? weft_put(ctx, heap, local, 8, 1) : weft_get(ctx, local, heap, 8, 1));
        if (put)
            OK(weft_quiet(ctx));
    }
    return (now() - start) / TRIPS;
}

static void measure_single_operations(weft_job *job, int rounds, char *heap, char *local)
{
    static double trips[MOST_ROUNDS], reads[MOST_ROUNDS], weft[3][MOST_ROUNDS];
    weft_ctx *ctx = weft_default_ctx(job);
    weft_team *world = weft_team_world(job);
    int me = weft_my_pe(job);
    uint64_t value = 0, *flag = (uint64_t *)(void *)(heap + 64);
    *flag = 0;
    for (int i = 0; i < rounds; i++) {
        OK(weft_barrier(world));
        trips[i] = plain_trips(me);
        OK(weft_barrier(world));
        weft[0][i] = weft_trips(ctx, me, flag, &value);
        OK(weft_barrier(world));
        if (me)
            plain_serve();
        else
            reads[i] = plain_reads();
        for (int put = 0; put < 2; put++) {
            OK(weft_barrier(world));
            if (!me)
                weft[1 + put][i] = weft_each(ctx, put, heap, local);
        }
        OK(weft_barrier(world));
    }
    if (me)
        return;
    double trip = median(trips, rounds) * 1e6, read = median(reads, rounds) * 1e6, each[3];
    for (int i = 0; i < 3; i++)
        each[i] = median(weft[i], rounds) * 1e6;
    printf("one way, with the other's wait %6.2f us  %10.2f us %9.2f\n", trip / 2, each[0] / 2,
           trip / each[0]);
    printf("get (plain: read)              %6.2f us  %10.2f us %9.2f\n", read, each[1],
           read / each[1]);
    printf("put and quiet (plain: message and answer) %6.2f us  %10.2f us %9.2f\n", trip, each[2],
           trip / each[2]);
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {8, 64, 1024, 4096, 8192, 65536, 1 << 20, MOST_BYTES};
    int rounds = argc > 1 ? atoi(argv[1]) : 5;
    bool descriptor = argc > 2 && strcmp(argv[2], "descriptor") == 0;
    weft_job *job;
    struct card *cards, theirs;
    char *heap, *local = aligned_alloc(4096, MOST_BYTES);
    OK(weft_init(&job, NULL));
    int me = weft_my_pe(job);
    if (weft_n_pes(job) != 2 || rounds < 1 || rounds > MOST_ROUNDS || !local ||
        argc > 2 + descriptor) {
        fprintf(stderr, "usage: weft run -n 2 compare_net [ROUNDS [descriptor]], at most %d\n",
                MOST_ROUNDS);
        return 2;
    }
    OK(weft_alloc(job, WEFT_HOST, 2 * sizeof *cards, 0, 0, (void **)&cards));
    OK(weft_alloc(job, WEFT_HOST, MOST_BYTES, 0, 0, (void **)&heap));
    open_plain(job, descriptor ? FI_WAIT_FD : FI_WAIT_NONE, &cards[me]);
    OK(weft_put(weft_default_ctx(job), &cards[me], &cards[me], sizeof *cards, 1 - me));
    OK(weft_barrier(weft_team_world(job)));
    theirs = cards[1 - me];
    plain.key = theirs.key;
    plain.base = theirs.base;
    FI(fi_av_insert(plain.av, theirs.address, 1, &plain.peer, 0, NULL));
    post_token();
    OK(weft_barrier(weft_team_world(job)));
    if (!me)
        printf("%s on %s, median of %d rounds in turn; up to 64 bytes in operations a second\n"
               "         bytes             plain              Weft    Weft/plain\n",
               plain.info->fabric_attr->prov_name, plain.info->domain_attr->name, rounds);
    for (int write = 1; write >= 0; write--)
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
            print_row(job, write, sizes[i], rounds, heap, local);
    measure_single_operations(job, rounds, heap, local);
    OK(weft_finalize(job));
    return 0;
}
