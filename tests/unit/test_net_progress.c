/* SPDX-License-Identifier: Apache-2.0 */
/* Shows what path net does with each kind of completion and of error, what it reports, and which
 * peer it marks. Shows also what one wait does, whose steps are a double. One end has three NICs,
 * whose completion queues the test fills. */
#include "unit/net_end.h"

#include "base/status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static const uint8_t key[SIPHASH_KEY_BYTES] = {6, 0, 2, 2, 1, 4};
static struct net_end end;
static struct net_peer *peer;
static struct net_channel *channel;

static uint64_t now;
uint64_t __wrap_clock_now_ns(void);
uint64_t __wrap_clock_now_ns(void)
{
    return now;
}

/* ----------------------------------------------------------------------------------- the queues */

static struct queue {
    struct fid_cq cq; /* the first member, since fid_cq pointers are cast */
    void *contexts[200];
    size_t lengths[200];
    int count, at, reads;
    fi_addr_t source;
    bool fails; /* an error follows the completions */
    struct fi_cq_err_entry error;
    const char *words;
} queues[END_RAILS + 1];

static struct queue *of(struct fid_cq *cq)
{
    return (struct queue *)(void *)cq;
}

static ssize_t queue_read(struct fid_cq *cq, void *to, size_t most)
{
    struct queue *queue = of(cq);
    struct fi_cq_msg_entry *entries = to;
    size_t n = 0;
    assert_ptr_not_equal(queue, &queues[END_RAILS]);
    queue->reads++;
    for (; n < most && queue->at < queue->count; n++, queue->at++)
        entries[n] = (struct fi_cq_msg_entry){.op_context = queue->contexts[queue->at],
                                              .len = queue->lengths[queue->at]};
    return n ? (ssize_t)n : queue->fails ? -FI_EAVAIL : -FI_EAGAIN;
}

static ssize_t queue_read_from(struct fid_cq *cq, void *to, size_t most, fi_addr_t *sources)
{
    ssize_t n = queue_read(cq, to, most);
    for (ssize_t i = 0; i < n; i++)
        sources[i] = of(cq)->source;
    return n;
}

static ssize_t queue_error(struct fid_cq *cq, struct fi_cq_err_entry *entry, uint64_t flags)
{
    (void)flags;
    of(cq)->fails = false;
    *entry = of(cq)->error;
    return 1;
}

static const char *queue_words(struct fid_cq *cq, int error, const void *data, char *text,
                               size_t bytes)
{
    (void)error, (void)data, (void)text, (void)bytes;
    return of(cq)->words;
}

static struct fi_ops_cq queue_ops = {.size = sizeof queue_ops,
                                     .read = queue_read,
                                     .readfrom = queue_read_from,
                                     .readerr = queue_error,
                                     .strerror = queue_words};

static void put(int rail, void *context, size_t bytes)
{
    struct queue *queue = &queues[rail];
    queue->lengths[queue->count] = bytes;
    queue->contexts[queue->count++] = context;
}

static void lose(int rail, void *context, int error, const char *words)
{
    queues[rail].error = (struct fi_cq_err_entry){.op_context = context, .err = error};
    queues[rail].words = words;
    queues[rail].fails = true;
}

/* -------------------------------------------------------------------------------------- the end */

static int steps, ends;
static uint64_t step_ns, step_seen;
static weft_status step_status;
static struct path_wait stepped;

static weft_status step(struct path_wait *wait, uint64_t seen)
{
    stepped = *wait;
    step_seen = seen;
    steps++;
    now += step_ns;
    return step_status ? base_fail(step_status, "as the launcher says") : WEFT_OK;
}

static void count_end(struct path_wait *wait)
{
    (void)wait;
    ends++;
}

static int open_end(void **context)
{
    (void)context;
    end_open_idle(&end, key);
    peer = &end.peers[1];
    channel = &end.channels[1];
    memset(queues, 0, sizeof queues);
    for (int i = 0; i <= END_RAILS; i++) {
        queues[i].cq.ops = &queue_ops;
        end.net.rails[i].cq = &queues[i].cq;
    }
    pthread_mutex_init(&end.net.lock, NULL);
    pthread_mutex_lock(&end.net.lock);
    end.world.wait_step = step;
    end.world.wait_end = count_end;
    now = (uint64_t)1 << 40;
    steps = ends = 0;
    step_ns = 0;
    step_status = WEFT_OK;
    return 0;
}

static int shut_end(void **context)
{
    (void)context;
    pthread_mutex_unlock(&end.net.lock);
    pthread_mutex_destroy(&end.net.lock);
    end_shut(&end);
    return 0;
}

static struct net_direct directs[200];

static struct net_direct *direct(int i, bool write)
{
    directs[i] = (struct net_direct){
        .post = {.kind = NET_POST_DIRECT, .peer = peer}, .state = &end.state, .write = write};
    *(write ? &channel->writes : &channel->reads) += 1;
    peer->link.directs++;
    end.state.in_flight++;
    return &directs[i];
}

static struct net_message *message(bool probe)
{
    struct net_message *made = net_new_message(&end.net, peer);
    made->in_flight = true;
    made->is_probe = probe;
    end.net.rails[made->rail = 0].sends_in_flight++;
    return made;
}

static int free_count(void)
{
    int n = 0;
    for (struct net_message *m = end.net.sends.free; m; m = m->next)
        n++;
    return n;
}

/* ---------------------------------------------------------------------------------- completions */

static void what_each_completion_does(void **context)
{
    (void)context;
    int left = free_count();
    put(0, message(false), 0);
    assert_true(net_poll(&end.net));
    assert_int_equal(end.net.events, 0); /* a completed send is no event */
    assert_int_equal(end.net.rails[0].sends_in_flight, 0);
    assert_int_equal(free_count(), left);
    assert_false(net_poll(&end.net));
    put(1, direct(0, true), 0);
    put(2, direct(1, false), 0);
    directs[1].post.counted_read = true;
    end.net.rails[2].reads_in_flight = end.net.rails[1].reads_in_flight = 5;
    end.net.rails[2].read_wait_ns = end.net.rails[1].read_wait_ns = 7;
    assert_true(net_poll(&end.net));
    assert_int_equal(end.net.events, 2);
    assert_int_equal(channel->writes + channel->reads + peer->link.directs, 0);
    assert_int_equal(end.net.rails[2].reads_in_flight, 4);
    assert_int_equal(end.net.rails[2].read_wait_ns, 0);
    assert_int_equal(end.net.rails[1].reads_in_flight, 5);
    assert_int_equal(end.net.rails[1].read_wait_ns, 7);
    assert_false(directs[1].post.counted_read);
    assert_ptr_equal(end.net.free_directs, &directs[1]);
    assert_ptr_equal(directs[1].next, &directs[0]);
    /* A message is received from the source address that the provider reports, if it reports
     * one. */
    struct net_message *came = end.posted[--end.posted_count];
    struct net_head *head = (void *)came->bytes;
    *head = (struct net_head){.auth_word = peer->incoming.auth_word,
                              .sequence = peer->incoming.first_request + 1,
                              .handled = peer->outgoing.first_request,
                              .answers_received = peer->outgoing.first_answer,
                              .from = 1,
                              .bytes = sizeof *head};
    end.net.rails[0].traits.reports_source = true;
    queues[0].source = end_address(1, 0);
    put(0, came, sizeof *head);
    assert_true(net_poll(&end.net));
    assert_int_equal(peer->served.handled, 1);
    assert_int_equal(end.net.events, 3);
    came = end.posted[--end.posted_count];
    head = (void *)came->bytes;
    *head = (struct net_head){.auth_word = peer->incoming.auth_word,
                              .sequence = peer->incoming.first_request + 2,
                              .handled = peer->outgoing.first_request,
                              .answers_received = peer->outgoing.first_answer,
                              .from = 1,
                              .bytes = sizeof *head};
    queues[0].source = end_address(2, 0);
    put(0, came, sizeof *head);
    net_poll(&end.net);
    assert_int_equal(end.net.unauthenticated, 1);
}

/* Up to 16 completions are read at a time, at most eight times, and not beyond the end of the
 * queue. */
static void completions_are_read_in_rounds(void **context)
{
    (void)context;
    const struct {
        int count, reads, all;
    } rows[] = {{0, 1, 0},   {1, 1, 1},     {15, 1, 15},  {16, 2, 16},
                {40, 3, 40}, {127, 8, 127}, {150, 8, 128}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        queues[1].count = queues[1].at = queues[1].reads = 0;
        for (int k = 0; k < rows[i].count; k++)
            put(1, direct(k, true), 0);
        assert_int_equal(net_read_rail(&end.net, &end.net.rails[1]), rows[i].all);
        assert_int_equal(queues[1].reads, rows[i].reads);
        assert_int_equal(channel->writes, rows[i].count - rows[i].all);
    }
    net_read_rail(&end.net, &end.net.rails[1]);
    end.net.rails[1].endpoint = NULL; /* the queue of a closed rail is not read */
    queues[1].reads = 0;
    net_poll(&end.net);
    assert_int_equal(queues[1].reads, 0);
    end.net.free_directs = NULL;
}

static void what_waits_goes_on(void **context)
{
    (void)context;
    struct net_message *waiting = net_new_message(&end.net, peer);
    waiting->queued = true;
    waiting->next = NULL;
    end.net.sends.blocked = waiting;
    end.net.sends.blocked_end = &waiting->next;
    net_add_answer(&end.net, peer, 8)->kind = NET_DATA;
    end.net.sends.answers_stopped = true;
    net_poll(&end.net);
    assert_null(end.net.sends.blocked);
    assert_ptr_equal(end.net.sends.to_answer, peer); /* answers are stopped */
    end.net.sends.answers_stopped = false;
    net_poll(&end.net);
    assert_null(end.net.sends.to_answer);
    end_sends_complete(&end);
}

/* --------------------------------------------------------------------------------------- errors */

static void errors_of_messages(void **context)
{
    (void)context;
    static const struct {
        const char *words, *sentence, *cause;
    } rows[] = {{"the link is down", "an error (the link is down)", "the link is down"},
                {"an error", "an error", "an error"},
                {"  ", "an error", "an error"},
                {NULL, "an error", "an error"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char whole[200];
        int left = free_count();
        struct net_message *lost = message(false);
        lose(0, lost, FI_EIO, rows[i].words);
        assert_true(net_poll(&end.net));
        snprintf(whole, sizeof whole, "a message to PE 1 failed (provider tcp on lo): %s",
                 rows[i].sentence);
        assert_string_equal(peer->link.suspected_failure, whole);
        assert_string_equal(peer->link.suspected_cause, rows[i].cause);
        assert_int_equal(end.net.rails[0].sends_in_flight, 0);
        end_sends_complete(&end); /* probes over the other rails */
        assert_int_equal(free_count(), left);
        assert_int_equal(peer->failed, WEFT_OK);
        peer->link.suspected_failure[0] = '\0';
    }
    int left = free_count();
    lose(2, message(true), FI_EIO, NULL); /* a failed probe */
    net_poll(&end.net);
    assert_int_equal(peer->link.failed_probes, 1 << 2);
    assert_string_equal(peer->link.suspected_failure, "");
    end.net.rails[0].sends_in_flight = 0;
    assert_int_equal(free_count(), left);
    peer->rails.closed = 1 << 1 | 1 << 2; /* no other rail leads to the peer */
    lose(0, message(false), FI_EIO, NULL);
    net_poll(&end.net);
    assert_string_equal(peer->sentence,
                        "a message to PE 1 failed (provider tcp on lo): an error; no "
                        "other NIC reaches it");
}

static void errors_of_accesses(void **context)
{
    (void)context;
    struct net_direct *lost = direct(0, false);
    lost->post.counted_read = true;
    end.net.rails[1].reads_in_flight = 1;
    lose(1, lost, FI_EIO, "no such key");
    assert_true(net_poll(&end.net));
    assert_int_equal(peer->failed, WEFT_ERR_PATH); /* though another NIC leads to the peer */
    assert_string_equal(peer->sentence,
                        "a remote access at PE 1 failed (provider tcp on lo): an error "
                        "(no such key)");
    assert_int_equal(channel->reads + peer->link.directs, 0);
    assert_int_equal(end.net.rails[1].reads_in_flight, 0);
    assert_ptr_equal(end.net.free_directs, lost);
    end.net.free_directs = NULL;
}

static void errors_of_receives(void **context)
{
    (void)context;
    struct net_message *buffer = end.posted[--end.posted_count];
    lose(0, buffer, FI_ECANCELED, NULL);
    net_poll(&end.net);
    assert_int_equal(end.posted_count, END_RECEIVES - 1); /* the endpoint is being closed */
    lose(0, buffer, FI_ETRUNC, NULL);
    net_poll(&end.net);
    assert_int_equal(end.posted_count, END_RECEIVES);
    lose(0, NULL, FI_EIO, NULL); /* libfabric does not report which operation */
    net_poll(&end.net);
    assert_int_equal(end.posted_count, END_RECEIVES);
    assert_int_equal(peer->failed, WEFT_OK);
}

/* --------------------------------------------------------------------------- failures and waits */

static void a_peer_fails_once(void **context)
{
    (void)context;
    int left = free_count();
    uint64_t token;
    peer->requests.open = net_new_message(&end.net, peer);
    net_new_answer_token(&end.state, peer, NULL, 8, &token);
    net_detach_answer(&end.net, token);
    struct net_message *unacknowledged = net_new_message(&end.net, peer);
    net_retain_message(peer, unacknowledged);
    base_fail(WEFT_ERR_RANGE, "its own words");
    net_fail_peer(&end.net, peer, WEFT_ERR_PATH, base_last_error());
    net_fail_peer(&end.net, peer, WEFT_ERR_RANGE, "others");
    assert_int_equal(peer->failed, WEFT_ERR_PATH);
    assert_string_equal(peer->sentence, "its own words");
    assert_null(peer->requests.open);
    assert_int_equal(peer->link.pending_answers, 0);
    assert_int_equal(free_count(), left);
}

/* The first caller that finds the failure waits 2 s for the launcher's report, which replaces the
 * error if the launcher reports a dead PE, or that the job has failed. */
static void the_launcher_may_know_why(void **context)
{
    (void)context;
    step_ns = 500 * 1000 * 1000;
    assert_int_equal(net_check_failure(&end.net, peer), WEFT_OK);
    net_fail_peer(&end.net, peer, WEFT_ERR_PATH, "it is gone");
    assert_int_equal(net_check_failure(&end.net, peer), WEFT_ERR_PATH);
    assert_int_equal(steps, 4);
    assert_int_equal(ends, 1);
    assert_int_equal(stepped.pe, 1);
    assert_int_equal(stepped.operation, BOX_OP_QUIET);
    assert_string_equal(base_last_error(), "it is gone");
    assert_int_equal(net_check_failure(&end.net, peer), WEFT_ERR_PATH);
    assert_int_equal(steps, 4);
    peer = &end.peers[2];
    net_fail_peer(&end.net, peer, WEFT_ERR_PATH, "it is gone");
    step_status = WEFT_ERR_PEER_DEAD;
    assert_int_equal(net_check_failure(&end.net, peer), WEFT_ERR_PEER_DEAD);
    assert_int_equal(steps, 5);
    assert_string_equal(peer->sentence, "path net to PE 2: as the launcher says");
    peer->launcher_queried = false;
    peer->failed = WEFT_ERR_PATH;
    step_status = WEFT_ERR_NO_MEMORY;
    assert_int_equal(net_check_failure(&end.net, peer), WEFT_ERR_NO_MEMORY);
    assert_string_equal(peer->sentence, "path net to PE 2: as the launcher says");
    peer->launcher_queried = false;
    peer->failed = WEFT_ERR_PATH;
    step_status = WEFT_ERR_TIMEOUT;
    assert_int_equal(net_check_failure(&end.net, peer), WEFT_ERR_PATH);
    assert_int_equal(steps, 7);
    assert_int_not_equal(pthread_mutex_trylock(&end.net.lock), 0); /* the lock is held again */
    peer = &end.peers[0];
    peer->launcher_queried = true;
    end.net.failed = WEFT_ERR_PATH;
    strcpy(end.net.sentence, "the endpoint has failed");
    assert_int_equal(net_check_failure(&end.net, peer), WEFT_ERR_PATH);
    assert_string_equal(base_last_error(), "the endpoint has failed");
}

static void one_turn_of_a_wait(void **context)
{
    (void)context;
    struct path_wait wait = net_make_wait(&end.net, peer, BOX_OP_GET, 3);
    end.net.events = 41;
    put(0, direct(0, true), 0);
    assert_int_equal(net_wait(&end.net, peer, &wait), WEFT_OK);
    assert_int_equal(steps, 0);
    assert_int_equal(end.net.progress.caller_polls, 1);
    assert_int_equal(net_wait(&end.net, peer, &wait), WEFT_OK);
    assert_int_equal(steps, 1);
    assert_int_equal(step_seen, 42);
    assert_int_equal(end.net.progress.caller_polls, 2);
    step_status = WEFT_ERR_TIMEOUT;
    assert_int_equal(net_wait(&end.net, peer, &wait), WEFT_ERR_TIMEOUT);
    assert_non_null(strstr(base_last_error(), "path net to PE 1 over lo"));
    assert_non_null(strstr(base_last_error(), "as the launcher says"));
    peer->failed = WEFT_ERR_PATH;
    peer->launcher_queried = true;
    steps = 0;
    assert_int_equal(net_wait(&end.net, peer, &wait), WEFT_ERR_PATH);
    peer->failed = WEFT_OK;
    end.net.failed = WEFT_ERR_SYSTEM;
    assert_int_equal(net_wait(&end.net, peer, &wait), WEFT_ERR_SYSTEM);
    assert_int_equal(steps, 0);
    end.net.failed = WEFT_OK;
    end.net.free_directs = NULL;
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, open_end, shut_end)
    const struct CMUnitTest tests[] = {
        CASE(what_each_completion_does), CASE(completions_are_read_in_rounds),
        CASE(what_waits_goes_on),        CASE(errors_of_messages),
        CASE(errors_of_accesses),        CASE(errors_of_receives),
        CASE(a_peer_fails_once),         CASE(the_launcher_may_know_why),
        CASE(one_turn_of_a_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
