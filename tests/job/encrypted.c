/* SPDX-License-Identifier: Apache-2.0 */
/* Encryption of path net, seen from the network. In `tapped` this program stands between path net
 * and libfabric: it searches each message for what the job must keep secret, and sends changed,
 * repeated, shortened and misdirected copies of messages, as an attacker on the route could. The
 * receivers drop and count every copy, and the job goes on with correct values. In `wire` it reads
 * the packets of the loopback interface (AF_PACKET; skipped where that is not allowed).
 *
 *   encrypted tapped|wire encrypted|plain
 *   encrypted absent | only_sodium | one_plain | secrets    PE 1 differs, and every PE is refused
 */
#include "job.h"

#include "path/net/encrypt.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/time.h>

enum { WORDS = 4, MOST_PES = 8, LARGE = 100000, GET_BYTES = 3000 };

/* Contents that only the PEs may read: this PE's data of puts, of memory that others get, operands
 * of atomics, and single values. */
static uint64_t words[WORDS];
enum { PUT_WORD, GET_WORD, ATOMIC_WORD, VALUE_WORD };

static atomic_int found[WORDS];

static void search(const void *bytes, size_t count)
{
    for (int i = 0; i < WORDS; i++)
        if (memmem(bytes, count, &words[i], sizeof words[i]))
            found[i]++;
}

/* ------------------------------------------------------------------- between path net and
 * libfabric */

enum { KEPT_BYTES = 1024, ATTACKS = 6 };

static bool tapping, attacking;
static struct path_common *net;
static const struct fi_ops_msg *real_messages;
static struct kept {
    unsigned char bytes[KEPT_BYTES];
    size_t count;
} kept[MOST_PES]; /* an earlier message to each PE */
static uint64_t counters[MOST_PES], sends, injected[MOST_PES], rma_operations, registrations;
static int auth_words_seen, repeated_counters;

static int find_pe(fi_addr_t address)
{
    for (int pe = 0; pe < net->world->npes; pe++)
        if (net_is_begun(net, pe) && net->peers[pe].rails.address[0] == address)
            return pe;
    CHECK(!"a message to an unknown address");
    return -1;
}

static void inject(struct fid_ep *endpoint, int pe, const void *bytes, size_t count, fi_addr_t to)
{
    if (real_messages->inject(endpoint, bytes, count, to) == 0)
        injected[pe]++;
}

/* Sends something else than the message: a copy with a changed bit, a part, more, an earlier
 * message, or one to another PE. */
static void attack(struct fid_ep *endpoint, int pe, const unsigned char *bytes, size_t count,
                   fi_addr_t to)
{
    unsigned char copy[KEPT_BYTES + 8] = {0};
    const struct kept *other = &kept[(pe + 1) % net->world->npes];
    if (count > KEPT_BYTES)
        return;
    memcpy(copy, bytes, count);
    switch (sends % ATTACKS) {
    case 0:
        copy[sends / ATTACKS % count] ^= (unsigned char)(1 << sends % 8);
        inject(endpoint, pe, copy, count, to);
        break;
    case 1:
        copy[count - 1 - sends / ATTACKS % CIPHER_TAG_BYTES] ^= 0x80;
        inject(endpoint, pe, copy, count, to);
        break;
    case 2:
        inject(endpoint, pe, copy, count - 1 - sends / ATTACKS % (count - 1), to);
        break;
    case 3:
        inject(endpoint, pe, copy, count + 1 + sends / ATTACKS % 8, to);
        break;
    case 4:
        if (kept[pe].count)
            inject(endpoint, pe, kept[pe].bytes, kept[pe].count, to);
        break;
    case 5:
        if (other->count && other != &kept[net->world->pe])
            inject(endpoint, pe, other->bytes, other->count, to);
        break;
    }
}

static void check_message(int pe, const void *bytes, size_t count)
{
    const struct net_envelope *envelope = bytes;
    search(bytes, count);
    for (int i = 0; i < net->world->npes; i++)
        auth_words_seen += net_is_begun(net, i) &&
                           memmem(bytes, count, &net->peers[i].outgoing.auth_word, 8) != NULL;
    repeated_counters += envelope->counter <= counters[pe];
    counters[pe] = envelope->counter;
}

static ssize_t tap_send(struct fid_ep *endpoint, const void *bytes, size_t count, void *descriptor,
                        fi_addr_t to, void *context)
{
    int pe = find_pe(to);
    if (attacking)
        attack(endpoint, pe, bytes, count, to);
    ssize_t error = real_messages->send(endpoint, bytes, count, descriptor, to, context);
    if (error)
        return error;
    sends++;
    check_message(pe, bytes, count);
    if (count <= KEPT_BYTES && sends % 3 == 0) {
        memcpy(kept[pe].bytes, bytes, count);
        kept[pe].count = count;
    }
    return 0;
}

static const struct fi_ops_rma *real_rma;
static const struct fi_ops_mr *real_memory;

static ssize_t tap_write(struct fid_ep *endpoint, const struct fi_msg_rma *message, uint64_t flags)
{
    rma_operations++;
    return real_rma->writemsg(endpoint, message, flags);
}

static ssize_t tap_read(struct fid_ep *endpoint, const struct fi_msg_rma *message, uint64_t flags)
{
    rma_operations++;
    return real_rma->readmsg(endpoint, message, flags);
}

static int tap_register(struct fid *fid, const void *base, size_t bytes, uint64_t access,
                        uint64_t offset, uint64_t key, uint64_t flags, struct fid_mr **memory,
                        void *context)
{
    registrations += (access & (FI_REMOTE_READ | FI_REMOTE_WRITE)) != 0;
    return real_memory->reg(fid, base, bytes, access, offset, key, flags, memory, context);
}

weft_status __real_net_open_rail(struct path_common *common, struct net_rail *rail);
weft_status __wrap_net_open_rail(struct path_common *common, struct net_rail *rail);
weft_status __wrap_net_open_rail(struct path_common *common, struct net_rail *rail)
{
    static struct fi_ops_msg messages;
    static struct fi_ops_rma rma;
    static struct fi_ops_mr memory;
    weft_status status = __real_net_open_rail(common, rail);
    net = common;
    if (status || !tapping)
        return status;
    real_messages = rail->endpoint->msg;
    real_rma = rail->endpoint->rma;
    real_memory = rail->domain->mr;
    messages = *real_messages;
    messages.send = tap_send;
    rma = *real_rma;
    rma.writemsg = tap_write;
    rma.readmsg = tap_read;
    memory = *real_memory;
    memory.reg = tap_register;
    rail->endpoint->msg = &messages;
    rail->endpoint->rma = &rma;
    rail->domain->mr = &memory;
    return status;
}

/* ------------------------------------------------------------------------------------- the packets
 */

static int packets = -1;
static atomic_bool stop_reading;
static uint64_t packets_read;

/* After the end it reads what the kernel has kept, with a limit: other programs use the interface.
 */
static void *read_packets(void *unused)
{
    static unsigned char packet[1 << 17];
    enum { LATER = 200000 };
    ssize_t bytes = 0;
    for (int later = 0; later < LATER; later += atomic_load(&stop_reading)) {
        bool stop = atomic_load(&stop_reading);
        bytes = recv(packets, packet, sizeof packet, stop ? MSG_DONTWAIT : 0);
        packets_read += bytes > 0;
        if (bytes > 0)
            search(packet, (size_t)bytes);
        else if (stop)
            break;
    }
    return unused;
}

static void open_packets(void)
{
    struct sockaddr_ll address = {.sll_family = AF_PACKET,
                                  .sll_protocol = htons(ETH_P_ALL),
                                  .sll_ifindex = (int)if_nametoindex("lo")};
    int bytes = 32 << 20;
    packets = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL));
    if (packets < 0) {
        printf("skipped: AF_PACKET: %s\n", strerror(errno));
        exit(77);
    }
    setsockopt(packets, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes);
    setsockopt(packets, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){.tv_usec = 100000},
               sizeof(struct timeval));
    CHECK(bind(packets, (struct sockaddr *)&address, sizeof address) == 0);
}

/* -------------------------------------------------------------------------------------- operations
 */

struct area {
    uint64_t puts[GET_BYTES / 8], gets[GET_BYTES / 8], sum, value, signal, dropped;
    unsigned char large[LARGE];
};

static void fill(void *to, size_t bytes, uint64_t word)
{
    for (size_t i = 0; i + sizeof word <= bytes; i += sizeof word)
        memcpy((char *)to + i, &word, sizeof word);
}

/* Each operation to the next PE, whose values the owner and this PE compare. */
static void run_operations(weft_job *job, struct area *area, const uint64_t *all_words, int rounds)
{
    static unsigned char large[LARGE], back[LARGE];
    static uint64_t small[GET_BYTES / 8], got[GET_BYTES / 8];
    int me = weft_my_pe(job), n = weft_n_pes(job), to = (me + 1) % n, from = (me + n - 1) % n;
    weft_ctx *ctx = weft_default_ctx(job);
    fill(area->gets, sizeof area->gets, words[GET_WORD]);
    OK(weft_barrier(weft_team_world(job)));
    for (int round = 0; round < rounds; round++) {
        uint64_t before;
        fill(small, sizeof small, words[PUT_WORD] + (uint64_t)round);
        fill(large, sizeof large, words[PUT_WORD]);
        large[round] = (unsigned char)round;
        OK(weft_put(ctx, area->puts, small, sizeof small, to));
        OK(weft_put_nbi(ctx, area->large, large, sizeof large, to));
        OK(weft_p64(ctx, &area->value, words[VALUE_WORD], to));
        OK(weft_atomic_fetch_add64(ctx, &area->sum, words[ATOMIC_WORD], &before, to));
        CHECK(before == (uint64_t)round * words[ATOMIC_WORD]);
        OK(weft_get(ctx, got, area->gets, sizeof got, to));
        CHECK(got[0] == all_words[WORDS * to + GET_WORD] && got[0] == got[GET_BYTES / 8 - 1]);
        OK(weft_quiet(ctx));
        OK(weft_get(ctx, back, area->large, sizeof back, to));
        CHECK(memcmp(back, large, sizeof large) == 0);
        OK(weft_put_signal(ctx, area->puts, small, sizeof small, &area->signal, 1, WEFT_SIGNAL_ADD,
                           to));
        OK(weft_signal_wait(ctx, &area->signal, WEFT_EQ, (uint64_t)round + 1, NULL));
        CHECK(area->puts[0] == all_words[WORDS * from + PUT_WORD] + (uint64_t)round);
        OK(weft_barrier(weft_team_world(job)));
        CHECK(area->sum == (uint64_t)(round + 1) * all_words[WORDS * from + ATOMIC_WORD]);
        CHECK(area->value == all_words[WORDS * from + VALUE_WORD]);
        OK(weft_barrier(weft_team_world(job)));
    }
}

/* Every copy has been dropped and counted by its receiver, and nothing else. */
static void compare_drops(weft_job *job, struct area *area)
{
    weft_ctx *ctx = weft_default_ctx(job);
    uint64_t sum = 0;
    pthread_mutex_lock(&net->lock);
    attacking = false;
    pthread_mutex_unlock(&net->lock);
    OK(weft_barrier(weft_team_world(job)));
    for (int pe = 0; pe < weft_n_pes(job); pe++) {
        OK(weft_atomic_add64(ctx, &area->dropped, injected[pe], pe));
        sum += injected[pe];
    }
    OK(weft_quiet(ctx));
    OK(weft_barrier(weft_team_world(job)));
    pthread_mutex_lock(&net->lock);
    uint64_t dropped = net->unauthenticated;
    pthread_mutex_unlock(&net->lock);
    printf("PE %d has sent %llu messages and %llu copies, and has dropped %llu\n", weft_my_pe(job),
           (unsigned long long)sends, (unsigned long long)sum, (unsigned long long)dropped);
    CHECK(sum > 50 && dropped == area->dropped);
}

static void check_reason(weft_job *job, bool encrypted)
{
    weft_path_info path = {.size = sizeof path, .kind = WEFT_HOST};
    OK(weft_path_query(job, (weft_my_pe(job) + 1) % weft_n_pes(job), &path));
    CHECK(encrypted == (strstr(path.reason, "; encrypted (AES-256-GCM)") != NULL));
}

static int observe(bool wire, bool encrypted)
{
    weft_job *job;
    pthread_t reader;
    uint64_t all_words[MOST_PES * WORDS];
    CHECK(getrandom(words, sizeof words, 0) == sizeof words);
    tapping = !wire;
    if (wire)
        open_packets();
    OK(weft_init(&job, NULL));
    int me = weft_my_pe(job), n = weft_n_pes(job);
    uint64_t *shared = alloc(job, sizeof all_words);
    CHECK(n <= MOST_PES);
    for (int pe = 0; pe < n; pe++)
        OK(weft_put(weft_default_ctx(job), shared + WORDS * me, words, sizeof words, pe));
    OK(weft_barrier(weft_team_world(job)));
    memcpy(all_words, shared, sizeof all_words);
    if (wire)
        CHECK(pthread_create(&reader, NULL, read_packets, NULL) == 0);
    struct area *area = alloc(job, sizeof *area);
    check_reason(job, encrypted);
    pthread_mutex_lock(&net->lock);
    attacking = !wire && encrypted;
    pthread_mutex_unlock(&net->lock);
    run_operations(job, area, all_words, wire ? 3 : 40);
    if (attacking)
        compare_drops(job, area);
    if (wire) {
        atomic_store(&stop_reading, true);
        pthread_join(reader, NULL);
    }
    for (int i = 0; i < WORDS; i++)
        CHECK(encrypted ? found[i] == 0 : found[i] > 0);
    if (wire)
        CHECK(packets_read > 100);
    if (!wire && encrypted)
        CHECK(!auth_words_seen && !rma_operations && !registrations && !repeated_counters);
    if (!wire && !encrypted)
        CHECK(auth_words_seen && rma_operations && registrations);
    OK(weft_barrier(weft_team_world(job)));
    OK(weft_finalize(job));
    return 0;
}

/* ---------------------------------------------------------------------------------------- refusals
 */

void *__real_dlopen(const char *file, int flags);
void *__wrap_dlopen(const char *file, int flags);

static bool no_crypto, no_sodium;

void *__wrap_dlopen(const char *file, int flags)
{
    bool absent = file && ((no_crypto && strncmp(file, "libcrypto", 9) == 0) ||
                           (no_sodium && strncmp(file, "libsodium", 9) == 0));
    return __real_dlopen(absent ? "a-library-that-is-not-here.so" : file, flags);
}

/* Every PE gets the same error, so that no PE waits. */
static int refused(const char *sentence)
{
    weft_job *job;
    FAILS(weft_init(&job, NULL), WEFT_ERR_CONFIG, sentence);
    printf("refused as it should be\n");
    return 0;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "tapped", *pe = getenv("WEFT_PE");
    bool one = pe && strcmp(pe, "1") == 0;
    if (strcmp(what, "absent") == 0) {
        no_crypto = no_sodium = one;
        return refused("\"tcp+encrypted\", and encryption needs OpenSSL's libcrypto (install "
                       "libssl3)");
    }
    if (strcmp(what, "only_sodium") == 0) {
        no_crypto = one;
        return refused("\"tcp+encrypted\", and encryption needs OpenSSL's libcrypto (install "
                       "libssl3)");
    }
    if (strcmp(what, "one_plain") == 0) {
        if (one)
            setenv("WEFT_FABRIC_PROVIDER", "tcp", 1);
        return refused("WEFT_FABRIC_PROVIDER has +encrypted at PE 0 and not at PE 1: set it to the "
                       "same text for every PE");
    }
    if (strcmp(what, "secrets") == 0) {
        setenv("WEFT_SECRET", one ? "the secret of PE 1" : "the secret of others", 1);
        return refused("for encryption differ: set WEFT_SECRET to the same text for every PE");
    }
    return observe(strcmp(what, "wire") == 0, argc > 2 && strcmp(argv[2], "encrypted") == 0);
}
