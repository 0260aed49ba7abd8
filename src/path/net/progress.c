/* SPDX-License-Identifier: Apache-2.0 */
/* Progress of path net: callers that wait read completions, and a progress thread does so while the
 * application computes. The thread is suspended while callers poll often. It sleeps while nothing
 * comes: on the file descriptor of the completion queue if the provider has one, else with an
 * exponential back-off. */
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
    READ_ENTRIES = 16, /* completions read at once */
    READ_ROUNDS = 8,   /* reads before other threads get the lock */
    /* Time for the launcher's report of a peer's death to arrive. */
    LAUNCHER_WAIT_NS = 2000 * 1000 * 1000,
    /* Polls by callers during one back-off that suspend the thread, if CPUs are shared. */
    OFTEN_POLLS = 4,
    OFTEN_NS = 10 * 1000, /* average time between polls by callers that suspends the thread, if CPUs
                             are not shared */
    BACKOFF_LEAST_NS = 20 * 1000,
    BACKOFF_MOST_NS = 1000 * 1000,
    /* Time between checks of a suspended thread that takes no CPU from a caller. */
    SUSPEND_NS = 200 * 1000,
    PES_PER_TURN = 4,      /* with n times this number of PEs on each CPU, the longest back-off is n
                              times as long */
    SLEEP_MS = 100,        /* longest sleep while nothing is in flight */
    AWAKE_NS = 100 * 1000, /* time that the thread polls on after two events within the same time */
};

/* ------------------------------------------------------------------------------------- failures */

/* The launcher may report why a peer does not answer: a peer that died, or that failed the job,
 * ends the job with a report. The first caller that finds the failure waits for that report. */
static void await_launcher_report(struct path_common *net, struct net_peer *peer)
{
    struct path_wait wait = net_make_wait(net, peer, BOX_OP_QUIET, 0);
    weft_status status = WEFT_OK;
    uint64_t until = clock_now_ns() + LAUNCHER_WAIT_NS;
    peer->launcher_queried = true;
    pthread_mutex_unlock(&net->lock);
    while (!status && clock_now_ns() < until)
        status = path_wait_step(&wait, 0);
    path_wait_end(&wait);
    net_lock(net);
    if (!status || status == WEFT_ERR_TIMEOUT)
        return;
    peer->failed = status;
    snprintf(peer->sentence, sizeof peer->sentence, "path net to PE %d: %.*s", peer->pe,
             NET_SENTENCE_BYTES - 40, base_last_error());
}

weft_status net_check_failure(struct path_common *net, struct net_peer *peer)
{
    if (likely(!peer->failed && !net->failed))
        return WEFT_OK;
    if (!peer->launcher_queried)
        await_launcher_report(net, peer);
    return peer->failed ? base_fail(peer->failed, "%s", peer->sentence)
                        : base_fail(net->failed, "%s", net->sentence);
}

void net_fail_peer(struct path_common *net, struct net_peer *peer, weft_status status,
                   const char *sentence)
{
    if (peer->failed)
        return;
    char copy[NET_SENTENCE_BYTES]; /* `sentence` may be the last error itself. */
    snprintf(copy, sizeof copy, "%.*s", NET_SENTENCE_BYTES - 1, sentence);
    memcpy(peer->sentence, copy, sizeof copy);
    peer->failed = status;
    if (peer->requests.open)
        net_free_message(net, peer->requests.open);
    peer->requests.open = NULL;
    net_drop_answers(net, peer);
    net_drop_unacknowledged(net, peer);
    net_stripe_drop_lost(net, peer);
}

static void handle_completion_error(struct path_common *net, struct net_rail *rail,
                                    struct fi_cq_err_entry *error)
{
    static const char *const doing[] = {
        [NET_POST_SEND] = "a message to",
        [NET_POST_DIRECT] = "a remote access at",
        [NET_POST_STAGED] = "a remote access at",
    };
    struct net_post *post = error->op_context;
    char cause[128], sentence[NET_SENTENCE_BYTES], address_text[NET_ADDRESS_TEXT_BYTES],
        limit_text[96];
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
    if (post->kind == NET_POST_SEND && ((struct net_message *)(void *)post)->is_probe) {
        net_mark_probe_failed(post->peer, (int)(rail - net->rails));
        net_message_sent(net, (struct net_message *)(void *)post);
        return;
    }
    const char *what = net->lib->strerror(error->err);
    bool further = strcmp(more, what) != 0;
    net_limit_text(rail, error->err, limit_text, sizeof limit_text);
    snprintf(sentence, sizeof sentence, "%s PE %d%s failed (provider %s on %s): %s%s%s%s%s",
             doing[post->kind], post->peer->pe,
             net_address_text(rail, (int)(rail - net->rails), post->peer, address_text),
             net->provider, net_interface_name(rail), what, further ? " (" : "",
             further ? more : "", further ? ")" : "", limit_text);
    if (post->kind == NET_POST_STAGED && net_stage_is_proof(post))
        snprintf(net->proof_failed, sizeof net->proof_failed, "%.*s", NET_REASON_BYTES - 1,
                 sentence);
    else if (post->kind != NET_POST_SEND || !net_mark_suspected(net, post->peer, sentence, more))
        net_give_up_peer(net, post->peer, sentence);
    if (post->kind == NET_POST_SEND)
        net_message_sent(net, (struct net_message *)(void *)post);
    else if (post->kind == NET_POST_STAGED)
        net_stage_completed(net, post, false);
    else
        net_direct_done(net, (struct net_direct *)(void *)post, false);
}

/* ---------------------------------------------------------------------------------- completions */

/* The completion of a send says nothing about the peer, so a wait must not count it as progress. */
static void handle_completion(struct path_common *net, struct net_post *post, size_t bytes,
                              fi_addr_t source)
{
    net->events += post->kind != NET_POST_SEND;
    switch (post->kind) {
    case NET_POST_SEND:
        net_message_sent(net, (struct net_message *)(void *)post);
        break;
    case NET_POST_RECEIVE:
        net_message_received(net, (struct net_message *)(void *)post, bytes, source);
        break;
    case NET_POST_STAGED:
        net_stage_completed(net, post, true);
        break;
    case NET_POST_DIRECT:
        net_direct_done(net, (struct net_direct *)(void *)post, true);
        break;
    case NET_POST_STRIPE:
        net_stripe_completed(net, post);
        break;
    }
}

static void uncount_read(struct net_rail *rail, struct net_post *post)
{
    if (!post || !post->counted_read)
        return;
    post->counted_read = false;
    rail->reads_in_flight--;
    rail->read_wait_ns = 0;
}

/* Reads completions once. Returns their number. */
static int read_completions(struct path_common *net, struct net_rail *rail)
{
    struct fi_cq_msg_entry entries[READ_ENTRIES];
    fi_addr_t sources[READ_ENTRIES];
    bool has_source = rail->traits.reports_source;
    ssize_t n = has_source ? fi_cq_readfrom(rail->cq, entries, READ_ENTRIES, sources)
                           : fi_cq_read(rail->cq, entries, READ_ENTRIES);
    for (ssize_t i = 0; i < n; i++) {
        uncount_read(rail, entries[i].op_context);
        handle_completion(net, entries[i].op_context, entries[i].len,
                          has_source ? sources[i] : FI_ADDR_NOTAVAIL);
    }
    if (n != -FI_EAVAIL)
        return n > 0 ? (int)n : 0;
    struct fi_cq_err_entry error = {0};
    if (fi_cq_readerr(rail->cq, &error, 0) != 1)
        return 0;
    uncount_read(rail, error.op_context);
    handle_completion_error(net, rail, &error);
    return 1;
}

int net_read_rail(struct path_common *net, struct net_rail *rail)
{
    int all = 0, count = READ_ENTRIES;
    for (int round = 0; round < READ_ROUNDS && count == READ_ENTRIES; round++)
        all += count = read_completions(net, rail);
    return all;
}

bool net_poll(struct path_common *net)
{
    int all = 0;
    for (int i = 0; i < net->rail_count; i++)
        if (net->rails[i].endpoint)
            all += net_read_rail(net, &net->rails[i]);
    int own = net->incomplete ? net_finish_incomplete(net) : 0;
    if (net->staging.active)
        own += net_stage_advance(net);
    net->events += (uint64_t)own;
    all += own;
    if (net->striping.fragment_count || net->rail_count > 1)
        net_stripe_advance(net);
    if (net->sends.blocked)
        net_retry_sends(net);
    if (net->sends.to_answer && !net->sends.answers_stopped)
        net_send_answers(net);
    return all > 0;
}

/* ofi_rxm returns the receive buffer of an unreported message to its connection even after the
 * connection has been closed, and crashes if connections have buffers of their own (verbs). So this
 * PE first receives what is still coming, which is answers that no caller waits for. It sends no
 * more answers itself, and all PEs have come to this point (the barrier of job_leave_paths()), so
 * the loop ends. */
void net_drain(struct path_common *net)
{
    enum { STILL_NS = 2 * 1000 * 1000, MOST_NS = 100 * 1000 * 1000 };
    if (net->progress.process != getpid() || !strstr(net->provider, ";ofi_rxm"))
        return;
    net_lock(net);
    net->sends.answers_stopped = true;
    uint64_t now = clock_now_ns(), until = now + MOST_NS, still = now + STILL_NS;
    while (now < still && now < until) {
        bool progressed = net_poll(net);
        now = clock_now_ns();
        still = progressed ? now + STILL_NS : still;
    }
    pthread_mutex_unlock(&net->lock);
}

/* ----------------------------------------------------------------------------- waits of callers */

/* Adds the peer, its address and the NIC to the error of a wait, and a limit of open files that
 * libfabric does not report. */
static weft_status add_wait_context(struct path_common *net, const struct net_peer *peer,
                                    weft_status status)
{
    const struct net_rail *rail = &net->rails[peer->link.rail];
    char address_text[NET_ADDRESS_TEXT_BYTES], limit_text[96] = "";
    if (status == WEFT_ERR_TIMEOUT && net_out_of_descriptors())
        net_limit_text(rail, EMFILE, limit_text, sizeof limit_text);
    return base_fail_context(status, "path net to PE %d%s over %s%s", peer->pe,
                             net_address_text(rail, peer->link.rail, peer, address_text),
                             net_interface_name(rail), limit_text);
}

weft_status net_wait(struct path_common *net, struct net_peer *peer, struct path_wait *wait)
{
    atomic_fetch_add_explicit(&net->progress.caller_polls, 1, memory_order_relaxed);
    bool progressed = net_poll(net);
    if (unlikely(peer->failed || net->failed))
        return net_check_failure(net, peer);
    if (progressed)
        return WEFT_OK;
    uint64_t events = net->events;
    pthread_mutex_unlock(&net->lock);
    weft_status status = path_wait_step(wait, events);
    net_lock(net);
    return unlikely(status) ? add_wait_context(net, peer, status) : WEFT_OK;
}

/* ------------------------------------------------------------------------------ progress thread */

static void sleep_ns(uint64_t ns)
{
    nanosleep(&(struct timespec){.tv_nsec = (long)ns}, NULL);
}

/* Gets the file descriptors of all completion queues. False if one has none, or if something has
 * come. Lock held. */
static bool get_wait_descriptors(struct path_common *net, struct pollfd *wait, nfds_t *count,
                                 bool *sleeps)
{
    *sleeps = true;
    for (int i = 0; i < net->rail_count; i++) {
        struct net_rail *rail = &net->rails[i];
        if (!rail->endpoint)
            continue;
        struct fid *queue = &rail->cq->fid;
        *sleeps = *sleeps && rail->wait_descriptor >= 0;
        if (!*sleeps || fi_trywait(rail->fabric, &queue, 1) != FI_SUCCESS)
            return false;
        wait[(*count)++] = (struct pollfd){.fd = rail->wait_descriptor, .events = POLLIN};
    }
    return true;
}

/* Sleeps until something comes or the thread must stop. Without a file descriptor it sleeps *ns,
 * and doubles *ns. */
static void sleep_for_event(struct path_common *net, uint64_t *ns)
{
    struct pollfd wait[NET_RAILS + 1] = {{.fd = net->progress.wake_descriptor, .events = POLLIN}};
    nfds_t count = 1;
    bool sleeps;
    net_lock(net);
    bool quiet = get_wait_descriptors(net, wait, &count, &sleeps);
    bool in_flight = net->sends.blocked || net->striping.fragment_count;
    for (int i = 0; i < net->rail_count; i++)
        in_flight |= net->rails[i].sends_in_flight > 0;
    pthread_mutex_unlock(&net->lock);
    if (quiet)
        poll(wait, count, in_flight ? 1 : SLEEP_MS);
    if (sleeps)
        return;
    sleep_ns(*ns);
    *ns = 2 * *ns < BACKOFF_MOST_NS ? 2 * *ns : BACKOFF_MOST_NS;
}

/* Whether callers have polled often enough during the back-off; the thread then leaves the lock to
 * them. It backs off longer if it would take a CPU from a caller. If PEs share CPUs, the thread may
 * handle messages before a caller runs. */
static bool should_suspend(struct path_common *net, uint64_t *backoff_ns, uint32_t *seen)
{
    const struct path_world *world = net->world;
    int pes = world->boot->local_npes;
    bool crowded = pes > world->cpus;
    bool stops = 2 * pes > world->cpus &&
                 (crowded || atomic_load_explicit(&world->alone, memory_order_relaxed));
    uint32_t polls = atomic_load_explicit(&net->progress.caller_polls, memory_order_relaxed);
    bool often = polls - *seen >= (crowded ? OFTEN_POLLS : *backoff_ns / OFTEN_NS);
    *seen = polls;
    uint64_t turns = (uint64_t)(pes / world->cpus / PES_PER_TURN); /* PEs take turns on a CPU */
    *backoff_ns = stops ? BACKOFF_MOST_NS * (turns ? turns : 1) : SUSPEND_NS;
    return often;
}

static void *run_progress_thread(void *argument)
{
    struct path_common *net = argument;
    uint64_t backoff_ns = BACKOFF_LEAST_NS, suspend_ns = SUSPEND_NS, last_ns = 0, awake_until = 0;
    uint32_t seen = 0;
    while (!atomic_load_explicit(&net->progress.stop, memory_order_relaxed)) {
        if (should_suspend(net, &suspend_ns, &seen) || pthread_mutex_trylock(&net->lock)) {
            sleep_ns(suspend_ns);
            continue;
        }
        bool progressed = net_poll(net);
        bool needs_polling = net->incomplete || net->staging.needs_polling;
        pthread_mutex_unlock(&net->lock);
        uint64_t now = clock_now_ns();
        if (progressed) {
            backoff_ns = BACKOFF_LEAST_NS;
            awake_until = now - last_ns < AWAKE_NS ? now + AWAKE_NS : now;
            last_ns = now;
        } else if (needs_polling || now < awake_until) {
            sched_yield(); /* Copies of the GPU, or FI_EAGAIN, end without an event; or an event is
                              expected sooner than a wake-up takes. */
        } else {
            sleep_for_event(net, &backoff_ns);
        }
    }
    return NULL;
}

/* In a process that ends without finalizing, the thread must end before libfabric's own exit
 * handlers run. */
static struct path_common *running;
static pthread_mutex_t running_lock = PTHREAD_MUTEX_INITIALIZER;

static void join_progress_thread(struct path_common *net)
{
    uint64_t one = 1;
    if (!net->progress.started || net->progress.process != getpid())
        return;
    net->progress.started = false;
    atomic_store_explicit(&net->progress.stop, true, memory_order_relaxed);
    while (write(net->progress.wake_descriptor, &one, sizeof one) < 0 && errno == EINTR)
        ;
    pthread_join(net->progress.thread, NULL);
}

static void join_at_exit(void)
{
    pthread_mutex_lock(&running_lock);
    for (struct path_common *net = running; net; net = net->progress.next_running)
        join_progress_thread(net);
    pthread_mutex_unlock(&running_lock);
}

static void register_at_exit(void)
{
    atexit(join_at_exit);
}

weft_status net_start_thread(struct path_common *net)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, register_at_exit);
    net->progress.process = getpid();
    net->progress.wake_descriptor = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (net->progress.wake_descriptor < 0)
        return base_fail(WEFT_ERR_SYSTEM, "eventfd: %s", strerror(errno));
    int error = thread_start(&net->progress.thread, run_progress_thread, net);
    if (error)
        return base_fail(WEFT_ERR_SYSTEM, "path net: pthread_create: %s", strerror(error));
    net->progress.started = true;
    pthread_mutex_lock(&running_lock);
    net->progress.next_running = running;
    running = net;
    pthread_mutex_unlock(&running_lock);
    return WEFT_OK;
}

void net_stop_thread(struct path_common *net)
{
    pthread_mutex_lock(&running_lock);
    struct path_common **at = &running;
    while (*at && *at != net)
        at = &(*at)->progress.next_running;
    if (*at)
        *at = net->progress.next_running;
    join_progress_thread(net);
    pthread_mutex_unlock(&running_lock);
    if (net->progress.wake_descriptor >= 0)
        close(net->progress.wake_descriptor);
    net->progress.wake_descriptor = -1;
}
