/* SPDX-License-Identifier: Apache-2.0 */
/* What makes path net go on: reading completions, by whoever waits, and by a thread for those who
 * compute. The thread keeps away while callers poll often, and sleeps while nothing comes: on the
 * descriptor of the completion queue where the provider has one, else for a time that grows. */
#include "path/net/stripe.h"

#include "base/clock.h"
#include "base/status.h"
#include "base/thread.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum {
    ENTRIES = 16,                  /* read at once */
    ROUNDS = 8,                    /* at most, before others get the lock */
    GRACE_NS = 2000 * 1000 * 1000, /* for the launcher's account of a death to arrive */
    OFTEN = 4,                     /* polls by callers in one nap: the thread is not needed, */
    OFTEN_NS = 10 * 1000,          /* where they are so near to each other; or its CPU is shared */
    NAP_SHORTEST_NS = 20 * 1000,
    NAP_LONGEST_NS = 1000 * 1000,
    NAP_SPARE_NS = 200 * 1000, /* on leave, unless it would stop a caller */
    TURN_PES =
        4, /* on each CPU: with so many times as many the longest nap is so many times as long */
    SLEEP_MS = 100,        /* at most, while nothing is under way */
    AWAKE_NS = 100 * 1000, /* the thread, after two events as near to each other */
};

/* ------------------------------------------------------------------------------------- failures */

/* The launcher may know better why a peer does not answer: its death ends the job, with its
 * account. The first who is told of the failure waits for that. */
static void get_account(struct path_common *net, struct net_peer *peer)
{
    struct path_wait wait = net_waiting(net, peer, BOX_OP_QUIET, 0);
    weft_status status = WEFT_OK;
    uint64_t until = clock_now_ns() + GRACE_NS;
    peer->accounted = true;
    pthread_mutex_unlock(&net->lock);
    while (!status && clock_now_ns() < until)
        status = path_wait_step(&wait, 0);
    path_wait_end(&wait);
    net_enter(net);
    if (status != WEFT_ERR_PEER_DEAD)
        return;
    peer->failed = status;
    snprintf(peer->sentence, sizeof peer->sentence, "path net to PE %d: %.*s", peer->pe,
             NET_SENTENCE_BYTES - 40, base_last_error());
}

weft_status net_failure(struct path_common *net, struct net_peer *peer)
{
    if (likely(!peer->failed && !net->failed))
        return WEFT_OK;
    if (!peer->accounted)
        get_account(net, peer);
    return peer->failed ? base_fail(peer->failed, "%s", peer->sentence)
                        : base_fail(net->failed, "%s", net->sentence);
}

void net_fail_peer(struct path_common *net, struct net_peer *peer, weft_status status,
                   const char *sentence)
{
    if (peer->failed)
        return;
    char copy[NET_SENTENCE_BYTES]; /* may be the last error itself */
    snprintf(copy, sizeof copy, "%.*s", NET_SENTENCE_BYTES - 1, sentence);
    memcpy(peer->sentence, copy, sizeof copy);
    peer->failed = status;
    if (peer->open)
        net_give_message(net, peer->open);
    peer->open = NULL;
    net_fail_answers(net, peer);
    net_forget_kept(net, peer);
    net_stripe_forget(net, peer);
}

static void fail_operation(struct path_common *net, struct net_rail *rail,
                           struct fi_cq_err_entry *error)
{
    static const char *const doing[] = {
        [NET_POST_SEND] = "a message to",
        [NET_POST_DIRECT] = "a remote access at",
        [NET_POST_STAGED] = "a remote access at",
    };
    struct net_post *post = error->op_context;
    char cause[128], sentence[NET_SENTENCE_BYTES], where[NET_WHERE_BYTES], limit[96];
    const char *more =
        fi_cq_strerror(rail->cq, error->prov_errno, error->err_data, cause, sizeof cause);
    if (!more || !more[strspn(more, " ")] || strcmp(more, net->lib->strerror(error->err)) == 0)
        more = NULL;
    if (!post || post->kind == NET_POST_RECEIVE) {
        if (post && error->err != FI_ECANCELED)
            net_message_lost(net, (struct net_message *)(void *)post, error->err);
        return;
    }
    if (!more)
        more = net->lib->strerror(error->err);
    if (post->kind == NET_POST_STRIPE) {
        net_stripe_failed(net, rail, post, more);
        return;
    }
    if (post->kind == NET_POST_SEND && ((struct net_message *)(void *)post)->probe) {
        net_probe_failed(post->peer, (int)(rail - net->rails));
        net_message_sent(net, (struct net_message *)(void *)post);
        return;
    }
    const char *what = net->lib->strerror(error->err);
    bool further = strcmp(more, what) != 0;
    net_limit(rail, error->err, limit, sizeof limit);
    snprintf(sentence, sizeof sentence, "%s PE %d%s failed (provider %s on %s): %s%s%s%s%s",
             doing[post->kind], post->peer->pe,
             net_where(rail, (int)(rail - net->rails), post->peer, where), net->provider,
             net_interface(rail), what, further ? " (" : "", further ? more : "",
             further ? ")" : "", limit);
    if (post->kind == NET_POST_STAGED && net_stage_proves(post))
        snprintf(net->proof_failed, sizeof net->proof_failed, "%.*s", NET_WHY_BYTES - 1, sentence);
    else if (post->kind != NET_POST_SEND || !net_suspect(net, post->peer, sentence, more))
        net_give_up(net, post->peer, sentence);
    if (post->kind == NET_POST_SEND)
        net_message_sent(net, (struct net_message *)(void *)post);
    else if (post->kind == NET_POST_STAGED)
        net_stage_done(net, post, false);
    else
        net_direct_done(net, (struct net_direct *)(void *)post, false);
}

/* ---------------------------------------------------------------------------------- completions */

/* That a message has left tells nothing of the peer: a wait must not take it for a move of
 * anybody. */
static void completed(struct path_common *net, struct net_post *post, size_t bytes,
                      fi_addr_t source)
{
    net->events += post->kind != NET_POST_SEND;
    switch (post->kind) {
    case NET_POST_SEND:
        net_message_sent(net, (struct net_message *)(void *)post);
        break;
    case NET_POST_RECEIVE:
        net_message_came(net, (struct net_message *)(void *)post, bytes, source);
        break;
    case NET_POST_STAGED:
        net_stage_done(net, post, true);
        break;
    case NET_POST_DIRECT:
        net_direct_done(net, (struct net_direct *)(void *)post, true);
        break;
    case NET_POST_STRIPE:
        net_stripe_completed(net, post);
        break;
    }
}

static void left(struct net_rail *rail, struct net_post *post)
{
    if (!post || !post->reads)
        return;
    post->reads = false;
    rail->reads--;
    rail->unread_ns = 0;
}

/* How many were read. */
static int read_some(struct path_common *net, struct net_rail *rail)
{
    struct fi_cq_msg_entry entries[ENTRIES];
    fi_addr_t sources[ENTRIES];
    bool told = rail->traits.tells_source;
    ssize_t n = told ? fi_cq_readfrom(rail->cq, entries, ENTRIES, sources)
                     : fi_cq_read(rail->cq, entries, ENTRIES);
    for (ssize_t i = 0; i < n; i++) {
        left(rail, entries[i].op_context);
        completed(net, entries[i].op_context, entries[i].len, told ? sources[i] : FI_ADDR_NOTAVAIL);
    }
    if (n != -FI_EAVAIL)
        return n > 0 ? (int)n : 0;
    struct fi_cq_err_entry error = {0};
    if (fi_cq_readerr(rail->cq, &error, 0) != 1)
        return 0;
    left(rail, error.op_context);
    fail_operation(net, rail, &error);
    return 1;
}

int net_read_rail(struct path_common *net, struct net_rail *rail)
{
    int all = 0, some = ENTRIES;
    for (int round = 0; round < ROUNDS && some == ENTRIES; round++)
        all += some = read_some(net, rail);
    return all;
}

bool net_poll(struct path_common *net)
{
    int all = 0;
    for (int i = 0; i < net->rail_count; i++)
        if (net->rails[i].endpoint)
            all += net_read_rail(net, &net->rails[i]);
    int own = net->late ? net_finish_late(net) : 0;
    if (net->stages)
        own += net_stage_advance(net);
    net->events += (uint64_t)own;
    all += own;
    if (net->stripes || net->rail_count > 1)
        net_stripe_advance(net);
    if (net->waiting)
        net_retry(net);
    if (net->answering && !net->leaving)
        net_send_answers(net);
    return all > 0;
}

/* ofi_rxm gives the room of a message that it has not told of yet back to its connection, also when
 * that has just been closed, and dies of it where connections have rooms of their own (verbs). So
 * what is still coming is taken first: answers that nobody waits for. None is given any more, and
 * other PEs have come as far (the barrier of job_leave_paths()), so that it ends. */
void net_drain(struct path_common *net)
{
    enum { STILL_NS = 2 * 1000 * 1000, MOST_NS = 100 * 1000 * 1000 };
    if (net->process != getpid() || !strstr(net->provider, ";ofi_rxm"))
        return;
    net_enter(net);
    net->leaving = true;
    uint64_t now = clock_now_ns(), until = now + MOST_NS, still = now + STILL_NS;
    while (now < still && now < until) {
        bool came = net_poll(net);
        now = clock_now_ns();
        still = came ? now + STILL_NS : still;
    }
    pthread_mutex_unlock(&net->lock);
}

/* -------------------------------------------------------------------------------------- callers */

/* Who was waited for, and where; and what libfabric keeps to itself. */
static weft_status tell_wait(struct path_common *net, const struct net_peer *peer,
                             weft_status status)
{
    const struct net_rail *rail = &net->rails[peer->via];
    char where[NET_WHERE_BYTES], limit[96] = "";
    if (status == WEFT_ERR_TIMEOUT && net_no_descriptor())
        net_limit(rail, EMFILE, limit, sizeof limit);
    return base_fail_context(status, "path net to PE %d%s over %s%s", peer->pe,
                             net_where(rail, peer->via, peer, where), net_interface(rail), limit);
}

weft_status net_wait(struct path_common *net, struct net_peer *peer, struct path_wait *wait)
{
    atomic_fetch_add_explicit(&net->polls, 1, memory_order_relaxed);
    bool came = net_poll(net);
    if (unlikely(peer->failed || net->failed))
        return net_failure(net, peer);
    if (came)
        return WEFT_OK;
    uint64_t events = net->events;
    pthread_mutex_unlock(&net->lock);
    weft_status status = path_wait_step(wait, events);
    net_enter(net);
    return unlikely(status) ? tell_wait(net, peer, status) : WEFT_OK;
}

/* ----------------------------------------------------------------------------------- the thread */

static void nap(uint64_t ns)
{
    nanosleep(&(struct timespec){.tv_nsec = (long)ns}, NULL);
}

/* The descriptors of all queues; false: one has none, or something has come. Lock held. */
static bool may_sleep(struct path_common *net, struct pollfd *wait, nfds_t *count, bool *sleeps)
{
    *sleeps = true;
    for (int i = 0; i < net->rail_count; i++) {
        struct net_rail *rail = &net->rails[i];
        if (!rail->endpoint)
            continue;
        struct fid *queue = &rail->cq->fid;
        *sleeps = *sleeps && rail->descriptor >= 0;
        if (!*sleeps || fi_trywait(rail->fabric, &queue, 1) != FI_SUCCESS)
            return false;
        wait[(*count)++] = (struct pollfd){.fd = rail->descriptor, .events = POLLIN};
    }
    return true;
}

/* Until something comes, or the thread shall stop. Without a descriptor: for *ns, which doubles. */
static void sleep_for_event(struct path_common *net, uint64_t *ns)
{
    struct pollfd wait[NET_RAILS + 1] = {{.fd = net->wake, .events = POLLIN}};
    nfds_t count = 1;
    bool sleeps;
    net_enter(net);
    bool quiet = may_sleep(net, wait, &count, &sleeps);
    bool under_way = net->waiting || net->stripes;
    for (int i = 0; i < net->rail_count; i++)
        under_way |= net->rails[i].sending > 0;
    pthread_mutex_unlock(&net->lock);
    if (quiet)
        poll(wait, count, under_way ? 1 : SLEEP_MS);
    if (sleeps)
        return;
    nap(*ns);
    *ns = 2 * *ns < NAP_LONGEST_NS ? 2 * *ns : NAP_LONGEST_NS;
}

/* Whether callers have polled by themselves while it napped; then they are left alone with the
 * lock. Where this thread would take a CPU from them it naps longer; where others share it, it may
 * come to messages before they do. */
static bool on_leave(struct path_common *net, uint64_t *nap_ns, uint32_t *seen)
{
    const struct path_world *world = net->world;
    int pes = world->boot->local_npes;
    bool crowded = pes > world->cpus;
    bool stops = 2 * pes > world->cpus &&
                 (crowded || atomic_load_explicit(&world->alone, memory_order_relaxed));
    uint32_t polls = atomic_load_explicit(&net->polls, memory_order_relaxed);
    bool often = polls - *seen >= (crowded ? OFTEN : *nap_ns / OFTEN_NS);
    *seen = polls;
    uint64_t turns = (uint64_t)(pes / world->cpus / TURN_PES); /* many PEs take turns on a CPU */
    *nap_ns = stops ? NAP_LONGEST_NS * (turns ? turns : 1) : NAP_SPARE_NS;
    return often;
}

static void *run(void *argument)
{
    struct path_common *net = argument;
    uint64_t nap_ns = NAP_SHORTEST_NS, leave_ns = NAP_SPARE_NS, last_ns = 0, awake_until = 0;
    uint32_t seen = 0;
    while (!atomic_load_explicit(&net->stop, memory_order_relaxed)) {
        if (on_leave(net, &leave_ns, &seen) || pthread_mutex_trylock(&net->lock)) {
            nap(leave_ns);
            continue;
        }
        bool came = net_poll(net);
        bool restless = net->late || net->restless;
        pthread_mutex_unlock(&net->lock);
        uint64_t now = clock_now_ns();
        if (came) {
            nap_ns = NAP_SHORTEST_NS;
            awake_until = now - last_ns < AWAKE_NS ? now + AWAKE_NS : now;
            last_ns = now;
        } else if (restless || now < awake_until) {
            sched_yield(); /* the GPU is at it, and nothing will wake us; or waking takes longer */
        } else {
            sleep_for_event(net, &nap_ns);
        }
    }
    return NULL;
}

/* A process that ends without finalizing: the thread must not run into the library's own end. */
static struct path_common *running;
static pthread_mutex_t running_lock = PTHREAD_MUTEX_INITIALIZER;

static void join(struct path_common *net)
{
    uint64_t one = 1;
    if (!net->threaded || net->process != getpid())
        return;
    net->threaded = false;
    atomic_store_explicit(&net->stop, true, memory_order_relaxed);
    while (write(net->wake, &one, sizeof one) < 0 && errno == EINTR)
        ;
    pthread_join(net->thread, NULL);
}

static void at_exit(void)
{
    pthread_mutex_lock(&running_lock);
    for (struct path_common *net = running; net; net = net->next_running)
        join(net);
    pthread_mutex_unlock(&running_lock);
}

static void register_at_exit(void)
{
    atexit(at_exit);
}

weft_status net_start_thread(struct path_common *net)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, register_at_exit);
    net->process = getpid();
    net->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (net->wake < 0)
        return base_fail(WEFT_ERR_SYSTEM, "eventfd: %s", strerror(errno));
    int error = thread_start(&net->thread, run, net);
    if (error)
        return base_fail(WEFT_ERR_SYSTEM, "path net: pthread_create: %s", strerror(error));
    net->threaded = true;
    pthread_mutex_lock(&running_lock);
    net->next_running = running;
    running = net;
    pthread_mutex_unlock(&running_lock);
    return WEFT_OK;
}

void net_stop_thread(struct path_common *net)
{
    pthread_mutex_lock(&running_lock);
    struct path_common **at = &running;
    while (*at && *at != net)
        at = &(*at)->next_running;
    if (*at)
        *at = net->next_running;
    join(net);
    pthread_mutex_unlock(&running_lock);
    if (net->wake >= 0)
        close(net->wake);
    net->wake = -1;
}
