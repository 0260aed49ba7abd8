/* SPDX-License-Identifier: Apache-2.0 */
/* A process outside the job sends messages over libfabric to the endpoint of PE 0, as any process
 * that reaches the port can (finding A1). Afterwards the memory of the PEs is unchanged, the memory
 * use of PE 0 has hardly grown, and the job continues with correct values.
 *
 *   stranger keys     reads with guessed keys, from 1 up, at guessed addresses, from 0 up
 *   stranger put      sends puts with guessed sequence numbers in the name of PE 1
 *   stranger done     acknowledges sequence numbers and answers that were never sent
 *   stranger failure  sends failures in the name of PE 1
 *   stranger width    sends atomics with a width of 255 bytes (finding A9)
 *   stranger length   sends heads with too large a length, and empty messages (finding A9)
 *   stranger flood    sends messages with sequence numbers far ahead
 *   stranger large    sends messages larger than the receive buffers
 *   stranger dies     exits while it sends a message
 *   stranger all      runs all of these, one after another, in one process */
#include "../job/job.h"
#include "path/net/wire.h"

#include <dirent.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <time.h>

enum {
    WORDS = 512 << 10, /* symmetric, at PE 0 and PE 1 */
    PUT_BYTES = 1 << 20,
    GUESSES = 200, /* sequence numbers, from 1 */
    FLOOD = 8000,  /* messages of NET_BYTES: 62 MiB */
    NET_BYTES = 8192,
    LARGE = 1 << 20,
    MOST_GROWTH_KIB = 40 << 10,
    SECONDS = 2 /* limit for one operation of the provider */
};

static const uint64_t secret = UINT64_C(0x5ec2e7c0ffee0000);

/* --------------------------------------------------------------------------------- the attacker */

struct stranger {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_ep *endpoint;
    struct fid_cq *queue;
    struct fid_av *addresses;
    fi_addr_t victim;
};

static void meet(struct stranger *s, const char *provider, const char *port)
{
    struct fi_info *hints = fi_allocinfo();
    struct fi_cq_attr queue = {.format = FI_CQ_FORMAT_CONTEXT, .size = 1024};
    struct fi_av_attr table = {.type = FI_AV_TABLE};
    CHECK(hints);
    hints->ep_attr->type = FI_EP_RDM;
    hints->caps = FI_MSG | FI_RMA;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->fabric_attr->prov_name = strdup(provider);
    CHECK(fi_getinfo(FI_VERSION(1, 11), "127.0.0.1", port, 0, hints, &s->info) == 0);
    CHECK(fi_fabric(s->info->fabric_attr, &s->fabric, NULL) == 0);
    CHECK(fi_domain(s->fabric, s->info, &s->domain, NULL) == 0);
    CHECK(fi_cq_open(s->domain, &queue, &s->queue, NULL) == 0);
    CHECK(fi_av_open(s->domain, &table, &s->addresses, NULL) == 0);
    CHECK(fi_endpoint(s->domain, s->info, &s->endpoint, NULL) == 0);
    CHECK(fi_ep_bind(s->endpoint, &s->addresses->fid, 0) == 0);
    CHECK(fi_ep_bind(s->endpoint, &s->queue->fid, FI_TRANSMIT | FI_RECV) == 0);
    CHECK(fi_enable(s->endpoint) == 0);
    CHECK(fi_av_insert(s->addresses, s->info->dest_addr, 1, &s->victim, 0, NULL) == 1);
    fi_freeinfo(hints);
}

/* True: the posted operation completed without an error. */
static bool completes(struct stranger *s)
{
    time_t until = time(NULL) + SECONDS;
    struct fi_cq_entry entry;
    struct fi_cq_err_entry error = {0};
    ssize_t n = -FI_EAGAIN;
    while (n == -FI_EAGAIN && time(NULL) < until)
        n = fi_cq_read(s->queue, &entry, 1);
    if (n == -FI_EAVAIL)
        fi_cq_readerr(s->queue, &error, 0);
    return n == 1;
}

/* wait: wait for the completion of the send. */
static bool send_bytes(struct stranger *s, const void *bytes, size_t count, bool wait)
{
    static struct fi_context2 context;
    time_t until = time(NULL) + SECONDS;
    ssize_t error = -FI_EAGAIN;
    struct fi_cq_entry entry;
    while (error == -FI_EAGAIN && time(NULL) < until) {
        error = fi_send(s->endpoint, bytes, count, NULL, s->victim, &context);
        if (error == -FI_EAGAIN)
            fi_cq_read(s->queue, &entry, 1);
    }
    return !error && (!wait || completes(s));
}

/* What an attacker knows of a message: its format, and small sequence numbers. */
static struct message {
    struct net_head head;
    unsigned char records[NET_BYTES - sizeof(struct net_head)];
} message;

static void begin_message(uint64_t number)
{
    memset(&message, 0, sizeof message);
    message.head = (struct net_head){
        .auth_word = number % 3, .sequence = number, .from = 1, .bytes = sizeof message.head};
}

static void add(struct net_record record, const void *of_kind, size_t bytes)
{
    unsigned char *at = (unsigned char *)&message + message.head.bytes;
    memcpy(at, &record, sizeof record);
    memcpy(at + sizeof record, of_kind, bytes);
    message.head.bytes += (uint16_t)(sizeof record + bytes);
}

static bool send_message(struct stranger *s)
{
    return send_bytes(s, &message, message.head.bytes, true);
}

/* Ends the process without closing the endpoint. */
static _Noreturn void end_attack(int status)
{
    fflush(stdout);
    _exit(status);
}

static void attack_keys(const char *provider, const char *port)
{
    static const uint64_t places[] = {0, 1 << 20};
    for (uint64_t key = 1; key <= 2; key++)
        for (int i = 0; i < 2; i++) {
            struct stranger s = {0};
            struct fi_context2 context;
            uint64_t words[8] = {0};
            meet(&s, provider, port);
            ssize_t error = -FI_EAGAIN;
            struct fi_cq_entry entry;
            while (error == -FI_EAGAIN) {
                fi_cq_read(s.queue, &entry, 1);
                error = fi_read(s.endpoint, words, sizeof words, NULL, s.victim, places[i], key,
                                &context);
            }
            if (!error && completes(&s)) {
                printf("stranger: key %d, address %#llx: the first word is %#llx\n", (int)key,
                       (unsigned long long)places[i], (unsigned long long)words[0]);
                end_attack(3);
            }
        }
}

static void attack_put(struct stranger *s)
{
    const uint64_t value = 0x777;
    for (uint64_t n = 0; n < GUESSES; n++)
        for (uint8_t segment = 0; segment < 3; segment++) {
            begin_message(n);
            add((struct net_record){.kind = NET_PUT, .segment = segment, .bytes = 8}, &value, 8);
            send_message(s);
        }
}

static void attack_done(struct stranger *s)
{
    static const uint64_t numbers[] = {UINT64_MAX, INT64_MAX, 1000};
    for (int i = 0; i < 3; i++)
        for (uint64_t n = 0; n < 3; n++) {
            begin_message(n);
            message.head.handled = message.head.answers_received = numbers[i];
            send_message(s);
        }
}

static void attack_failure(struct stranger *s)
{
    struct {
        struct net_result result;
        char sentence[24];
    } failure = {{.token = 0, .status = WEFT_ERR_CONFIG}, "a stranger says so"};
    for (uint64_t n = 0; n < GUESSES; n++)
        for (uint16_t flags = 0; flags <= NET_ANSWERS; flags += NET_ANSWERS) {
            begin_message(n);
            message.head.flags = flags;
            add((struct net_record){.kind = NET_DATA, .bytes = sizeof failure.sentence}, &failure,
                sizeof failure);
            send_message(s);
        }
}

static void attack_width(struct stranger *s)
{
    const struct net_atomic atomic = {1, 2, 77};
    for (uint64_t n = 0; n < GUESSES; n++) {
        begin_message(n);
        add((struct net_record){.kind = NET_ATOMIC, .segment = 1, .amo = 6, .width = 255}, &atomic,
            sizeof atomic);
        send_message(s);
    }
}

/* The receive buffer still holds bytes of earlier messages behind the bytes that arrive. */
static void attack_length(struct stranger *s)
{
    for (uint64_t n = 0; n < GUESSES; n++) {
        begin_message(n);
        message.head.bytes = NET_BYTES;
        send_bytes(s, &message, sizeof message.head, true);
        send_bytes(s, &message, n % sizeof message.head, true);
    }
}

static void attack_flood(struct stranger *s)
{
    for (uint64_t n = 0; n < FLOOD; n++) {
        begin_message(1000000 + n);
        send_bytes(s, &message, sizeof message, true);
    }
}

static void attack_large(struct stranger *s)
{
    static unsigned char large[LARGE];
    send_bytes(s, large, 2 * NET_BYTES, true);
    send_bytes(s, large, sizeof large, true);
}

/* A child process exits while it sends a message, without closing the endpoint. */
static void attack_dies(const char *provider, const char *port)
{
    static unsigned char large[64 << 20];
    static const size_t sizes[] = {NET_BYTES, LARGE, sizeof large};
    for (int i = 0; i < 6; i++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (!child) {
            struct stranger s = {0};
            struct fi_cq_entry entry;
            meet(&s, provider, port);
            begin_message(1);
            send_message(&s);
            send_bytes(&s, large, sizes[i % 3], false);
            for (int j = 0; j < i / 3 * 20; j++)
                fi_cq_read(s.queue, &entry, 1);
            _exit(0);
        }
        waitpid(child, NULL, 0);
    }
}

static void attack(const char *name, const char *provider, const char *port)
{
    static const struct {
        const char *name;
        void (*by_messages)(struct stranger *s);
        void (*by_endpoints)(const char *provider, const char *port);
    } attacks[] = {
        {"keys", NULL, attack_keys},   {"put", attack_put, NULL},
        {"done", attack_done, NULL},   {"failure", attack_failure, NULL},
        {"width", attack_width, NULL}, {"length", attack_length, NULL},
        {"flood", attack_flood, NULL}, {"large", attack_large, NULL},
        {"dies", NULL, attack_dies},
    };
    struct stranger s = {0};
    for (size_t i = 0; i < sizeof attacks / sizeof attacks[0]; i++) {
        if (strcmp(name, "all") != 0 && strcmp(name, attacks[i].name) != 0)
            continue;
        if (attacks[i].by_endpoints) {
            attacks[i].by_endpoints(provider, port);
            continue;
        }
        if (!s.endpoint)
            meet(&s, provider, port);
        attacks[i].by_messages(&s);
    }
    end_attack(0);
}

/* -------------------------------------------------------------------------------------- the job */

/* True: this process owns the socket. The test reads the ports at which PE 0 listens; an attacker
 * would scan for them. */
static bool owns_socket(unsigned long inode)
{
    char path[64], target[64], wanted[64];
    bool found = false;
    snprintf(wanted, sizeof wanted, "socket:[%lu]", inode);
    DIR *folder = opendir("/proc/self/fd");
    CHECK(folder);
    for (struct dirent *entry; !found && (entry = readdir(folder));) {
        snprintf(path, sizeof path, "/proc/self/fd/%.16s", entry->d_name);
        ssize_t n = readlink(path, target, sizeof target - 1);
        target[n > 0 ? n : 0] = '\0';
        found = strcmp(target, wanted) == 0;
    }
    closedir(folder);
    return found;
}

static int find_ports(unsigned *ports, int most)
{
    enum { LISTENS = 10 };
    char line[256];
    int count = 0;
    FILE *file = fopen("/proc/self/net/tcp", "r");
    CHECK(file);
    while (fgets(line, sizeof line, file) && count < most) {
        unsigned port, state;
        unsigned long inode;
        if (sscanf(line, " %*d: %*x:%x %*x:%*x %x %*x:%*x %*x:%*x %*x %*d %*d %lu", &port, &state,
                   &inode) == 3 &&
            state == LISTENS && owns_socket(inode))
            ports[count++] = port;
    }
    fclose(file);
    return count;
}

static long resident_kib(void)
{
    char line[256];
    long kib = 0;
    FILE *file = fopen("/proc/self/status", "r");
    CHECK(file);
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "VmRSS: %ld", &kib) == 1)
            break;
    fclose(file);
    return kib;
}

static void check_memory(const uint64_t *words)
{
    for (int i = 0; i < WORDS; i++)
        if (words[i] != secret + (uint64_t)(i % (PUT_BYTES / 8)))
            printf("word %d is %#llx\n", i, (unsigned long long)words[i]), exit(4);
}

/* "net: provider tcp;ofi_rxm on lo" */
static void find_provider(weft_job *job, char provider[64])
{
    weft_path_info info = {.size = sizeof info, .kind = WEFT_HOST};
    OK(weft_path_query(job, 1, &info));
    const char *at = strstr(info.reason, "provider ");
    CHECK(at && sscanf(at, "provider %63s on", provider) == 1);
}

/* The attack runs in another process, without the job's environment variables. */
static void let_attack(const char *self, const char *name, const char *provider,
                       const uint64_t *words)
{
    unsigned ports[8];
    int count = find_ports(ports, 8), status;
    CHECK(count > 0);
    long before = resident_kib(), most = 0;
    pid_t child = fork();
    CHECK(child >= 0);
    if (!child) {
        char port[16], *none[] = {NULL};
        snprintf(port, sizeof port, "%u", ports[count - 1]);
        execle(self, self, "attack", name, provider, port, (char *)NULL, none);
        _exit(127);
    }
    while (waitpid(child, &status, WNOHANG) == 0) {
        long now = resident_kib();
        most = now > most ? now : most;
        check_memory(words);
    }
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    printf("%s: %ld KiB more\n", name, most - before);
    CHECK(most - before < MOST_GROWTH_KIB);
    check_memory(words);
}

/* PE 0 and PE 1 continue with puts, values, atomics and gets; the values are correct. */
static void go_on(weft_ctx *ctx, uint64_t *area, int me)
{
    int to = 1 - me;
    uint64_t sum = 0, back[3];
    for (int i = 0; i < 100; i++) {
        OK(weft_p64(ctx, area + i % 100, (uint64_t)(1000 + i + me), to));
        OK(weft_atomic_fetch_add64(ctx, area + 200, 3, &sum, to));
        CHECK(sum == (uint64_t)(3 * i));
        OK(weft_get(ctx, back, area + 97, sizeof back, to));
    }
    OK(weft_quiet(ctx));
    CHECK(back[0] == (uint64_t)(1000 + 97 + me));
}

int main(int argc, char **argv)
{
    weft_job *job;
    uint64_t *words, *area;
    char provider[64] = "";
    if (argc == 5 && strcmp(argv[1], "attack") == 0)
        attack(argv[2], argv[3], argv[4]);
    CHECK(argc == 2);
    OK(weft_init(&job, NULL));
    int me = weft_my_pe(job);
    weft_ctx *ctx = weft_default_ctx(job);
    weft_team *world = weft_team_world(job);
    OK(weft_alloc(job, WEFT_HOST, WORDS * 8, 0, 0, (void **)&words));
    OK(weft_alloc(job, WEFT_HOST, 4096, 0, WEFT_ALLOC_ZERO, (void **)&area));
    for (int i = 0; i < WORDS; i++)
        words[i] = secret + (uint64_t)(i % (PUT_BYTES / 8));
    OK(weft_barrier(world));
    OK(weft_put(ctx, words + PUT_BYTES / 8, words, PUT_BYTES, 1 - me)); /* registers the memory */
    OK(weft_barrier(world));
    if (me == 0)
        find_provider(job, provider);
    if (me == 0)
        let_attack(argv[0], argv[1], provider, words);
    OK(weft_barrier(world));
    go_on(ctx, area, me);
    OK(weft_barrier(world));
    check_memory(words);
    OK(weft_finalize(job));
    return 0;
}
