/* SPDX-License-Identifier: Apache-2.0 */
/* The connection manager through its public functions: the events and private data at each end, and
 * that queue pairs work once a connection is reported. Both ends are in this process, except where
 * one is killed. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* Returns the address for connections, in the loopback network, in which each device of the HCA has
 * its own. */
static const char *address(void)
{
    const char *own = getenv("TEST_ADDRESS");
    return own ? own : "127.0.0.1";
}

static struct sockaddr_in place(uint16_t port)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port)};
    assert_int_equal(inet_pton(AF_INET, address(), &in.sin_addr), 1);
    return in;
}

/* Returns the next event, which must be this one; waits up to 10 s. */
static struct rdma_cm_event *await(struct rdma_event_channel *channel, enum rdma_cm_event_type what)
{
    struct rdma_cm_event *event;
    struct pollfd readable = {.fd = channel->fd, .events = POLLIN};
    do {
        assert_int_equal(poll(&readable, 1, 10000), 1);
    } while (rdma_get_cm_event(channel, &event) && errno == EAGAIN);
    if (event->event != what)
        fail_msg("%s came in place of %s, status %d", rdma_event_str(event->event),
                 rdma_event_str(what), event->status);
    return event;
}

static void await_and_forget(struct rdma_event_channel *channel, enum rdma_cm_event_type what,
                             int status)
{
    struct rdma_cm_event *event = await(channel, what);
    assert_int_equal(event->status, status);
    assert_int_equal(rdma_ack_cm_event(event), 0);
}

static struct rdma_event_channel *new_channel(void)
{
    struct rdma_event_channel *channel = rdma_create_event_channel();
    assert_non_null(channel);
    assert_int_equal(fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
    return channel;
}

static struct rdma_cm_id *listener_on(struct rdma_event_channel *channel, uint16_t *port)
{
    struct rdma_cm_id *id;
    struct sockaddr_in in = place(0);
    assert_int_equal(rdma_create_id(channel, &id, channel, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&in), 0);
    assert_int_equal(rdma_listen(id, 8), 0);
    *port = ntohs(rdma_get_src_port(id));
    assert_int_not_equal(*port, 0);
    assert_non_null(id->verbs);
    return id;
}

/* Returns an identifier with a resolved route. */
static struct rdma_cm_id *caller_to(struct rdma_event_channel *channel, uint16_t port)
{
    struct rdma_cm_id *id;
    struct sockaddr_in in = place(port);
    assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&in, 1000), 0);
    await_and_forget(channel, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
    assert_int_equal(rdma_resolve_route(id, 1000), 0);
    await_and_forget(channel, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
    assert_non_null(id->verbs);
    assert_int_equal(id->port_num, 1);
    return id;
}

static void give_queue(struct rdma_cm_id *id)
{
    struct ibv_cq *cq = ibv_create_cq(id->verbs, 64, NULL, NULL, 0);
    struct ibv_qp_init_attr attr = {.send_cq = cq,
                                    .recv_cq = cq,
                                    .cap = {16, 16, 1, 1, 0},
                                    .qp_type = IBV_QPT_RC,
                                    .sq_sig_all = 1};
    assert_non_null(cq);
    assert_int_equal(rdma_create_qp(id, NULL, &attr), 0);
    assert_non_null(id->qp);
}

static void take_queue(struct rdma_cm_id *id)
{
    struct ibv_cq *cq = id->send_cq;
    rdma_destroy_qp(id);
    assert_int_equal(ibv_destroy_cq(cq), 0);
}

static struct ibv_wc completion(struct ibv_cq *cq)
{
    struct ibv_wc wc = {0};
    for (int i = 0; i < 10000; i++) {
        if (ibv_poll_cq(cq, 1, &wc))
            return wc;
        usleep(1000);
    }
    fail_msg("no completion in 10 s");
    return wc;
}

/* Sends these bytes from one end to the other. */
static void talk(struct rdma_cm_id *from, struct rdma_cm_id *to, uint64_t value)
{
    uint64_t here = value, there = ~value;
    struct ibv_mr *a = ibv_reg_mr(from->pd, &here, sizeof here, 0),
                  *b = ibv_reg_mr(to->pd, &there, sizeof there, IBV_ACCESS_LOCAL_WRITE);
    struct ibv_sge put = {(uintptr_t)&here, sizeof here, a->lkey},
                   take = {(uintptr_t)&there, sizeof there, b->lkey};
    struct ibv_recv_wr receive = {.sg_list = &take, .num_sge = 1}, *bad_receive;
    struct ibv_send_wr send = {.sg_list = &put, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
    assert_int_equal(ibv_post_recv(to->qp, &receive, &bad_receive), 0);
    assert_int_equal(ibv_post_send(from->qp, &send, &bad), 0);
    assert_int_equal(completion(from->send_cq).status, IBV_WC_SUCCESS);
    assert_int_equal(completion(to->recv_cq).status, IBV_WC_SUCCESS);
    assert_true(there == value);
    ibv_dereg_mr(a);
    ibv_dereg_mr(b);
}

/* Two connected ends; the accepting end's events go to its own channel. */
struct ends {
    struct rdma_event_channel *listening, *calling, *accepted;
    struct rdma_cm_id *listener, *caller, *other;
};

static void connect_ends(struct ends *e)
{
    uint16_t port;
    e->listening = new_channel();
    e->calling = new_channel();
    e->accepted = new_channel();
    e->listener = listener_on(e->listening, &port);
    e->caller = caller_to(e->calling, port);
    give_queue(e->caller);
    struct rdma_conn_param asks = {.private_data = "from the caller",
                                   .private_data_len = 16,
                                   .responder_resources = 3,
                                   .initiator_depth = 5,
                                   .retry_count = 6,
                                   .rnr_retry_count = 4};
    assert_int_equal(rdma_connect(e->caller, &asks), 0);
    struct rdma_cm_event *event;
    errno = 0;
    while (rdma_get_cm_event(e->calling, &event) &&
           errno == EAGAIN) { /* the calls advance the connection */
        struct pollfd asked = {.fd = e->listening->fd, .events = POLLIN};
        if (poll(&asked, 1, 10))
            break;
    }
    event = await(e->listening, RDMA_CM_EVENT_CONNECT_REQUEST);
    assert_ptr_equal(event->listen_id, e->listener);
    assert_ptr_equal(event->id->context, e->listening); /* inherited from the listener */
    assert_string_equal(event->param.conn.private_data, "from the caller");
    assert_int_equal(event->param.conn.private_data_len, 16);
    assert_int_equal(event->param.conn.responder_resources, 5); /* seen from this end */
    assert_int_equal(event->param.conn.initiator_depth, 3);
    assert_int_equal(event->param.conn.rnr_retry_count, 4);
    assert_int_equal(event->param.conn.qp_num, e->caller->qp->qp_num);
    e->other = event->id;
    assert_int_equal(rdma_ack_cm_event(event), 0);
    assert_int_equal(rdma_migrate_id(e->other, e->accepted), 0);
    give_queue(e->other);
    struct rdma_conn_param answers = {.private_data = "from the other",
                                      .private_data_len = 15,
                                      .responder_resources = 2,
                                      .initiator_depth = 1,
                                      .rnr_retry_count = 7};
    assert_int_equal(rdma_accept(e->other, &answers), 0);
    event = await(e->calling, RDMA_CM_EVENT_ESTABLISHED);
    assert_string_equal(event->param.conn.private_data, "from the other");
    assert_int_equal(rdma_ack_cm_event(event), 0);
    await_and_forget(e->accepted, RDMA_CM_EVENT_ESTABLISHED, 0);
}

static void destroy_ends(struct ends *e)
{
    take_queue(e->caller);
    take_queue(e->other);
    rdma_destroy_id(e->caller);
    rdma_destroy_id(e->other);
    rdma_destroy_id(e->listener);
    rdma_destroy_event_channel(e->listening);
    rdma_destroy_event_channel(e->calling);
    rdma_destroy_event_channel(e->accepted);
}

static void both_ends_are_told(void **state)
{
    struct ends e;
    struct rdma_cm_event *event;
    connect_ends(&e);
    talk(e.caller, e.other, 0x0123456789abcdef);
    talk(e.other, e.caller, 0xfedcba9876543210);
    assert_int_equal(rdma_get_cm_event(e.calling, &event), -1);
    assert_int_equal(errno, EAGAIN);
    assert_int_equal(rdma_disconnect(e.caller), 0);
    await_and_forget(e.accepted, RDMA_CM_EVENT_DISCONNECTED, 0);
    await_and_forget(e.calling, RDMA_CM_EVENT_DISCONNECTED, 0);
    assert_int_equal(rdma_disconnect(e.other), 0);
    assert_int_equal(rdma_get_cm_event(e.accepted, &event), -1);
    destroy_ends(&e);
}

/* The number of outstanding reads is the smaller of the two limits. */
static void depths_are_the_lesser(void **state)
{
    struct ends e;
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr initial;
    connect_ends(&e);
    assert_int_equal(ibv_query_qp(e.caller->qp, &attr, IBV_QP_MAX_QP_RD_ATOMIC, &initial), 0);
    assert_int_equal(attr.max_rd_atomic, 2);
    assert_int_equal(attr.max_dest_rd_atomic, 1);
    assert_int_equal(attr.rnr_retry, 4);
    assert_int_equal(ibv_query_qp(e.other->qp, &attr, IBV_QP_MAX_QP_RD_ATOMIC, &initial), 0);
    assert_int_equal(attr.max_rd_atomic, 1);
    assert_int_equal(attr.max_dest_rd_atomic, 2);
    destroy_ends(&e);
}

static void refusal_carries_words(void **state)
{
    uint16_t port;
    struct rdma_event_channel *a = new_channel(), *b = new_channel();
    struct rdma_cm_id *listener = listener_on(b, &port), *caller = caller_to(a, port);
    struct rdma_conn_param asks = {.qp_num = 5};
    assert_int_equal(rdma_connect(caller, &asks), 0);
    struct pollfd asked = {.fd = b->fd, .events = POLLIN};
    struct rdma_cm_event *event;
    while (!poll(&asked, 1, 10))
        assert_int_equal(rdma_get_cm_event(a, &event), -1);
    event = NULL;
    while (rdma_get_cm_event(b, &event) && errno == EAGAIN) {
        struct rdma_cm_event *none;
        /* sends the request once the socket is connected */
        assert_int_equal(rdma_get_cm_event(a, &none), -1);
    }
    assert_int_equal(event->event, RDMA_CM_EVENT_CONNECT_REQUEST);
    assert_int_equal(rdma_reject(event->id, "not today", 10), 0);
    struct rdma_cm_id *refused = event->id;
    rdma_ack_cm_event(event);
    event = await(a, RDMA_CM_EVENT_REJECTED);
    assert_int_equal(event->status, 28);
    assert_string_equal(event->param.conn.private_data, "not today");
    rdma_ack_cm_event(event);
    rdma_destroy_id(refused);
    rdma_destroy_id(caller);
    rdma_destroy_id(listener);
    rdma_destroy_event_channel(a);
    rdma_destroy_event_channel(b);
}

static void nobody_listens(void **state)
{
    uint16_t port;
    struct rdma_event_channel *a = new_channel();
    struct rdma_cm_id *listener = listener_on(a, &port);
    rdma_destroy_id(listener);
    struct rdma_cm_id *caller = caller_to(a, port);
    give_queue(caller);
    assert_int_equal(rdma_connect(caller, NULL), 0);
    await_and_forget(a, RDMA_CM_EVENT_REJECTED, 8);
    take_queue(caller);
    rdma_destroy_id(caller);
    rdma_destroy_event_channel(a);
}

/* Unread requests are destroyed with the listener, and the callers get an event. */
static void listener_goes(void **state)
{
    uint16_t port;
    struct rdma_event_channel *a = new_channel(), *b = new_channel();
    struct rdma_cm_id *listener = listener_on(b, &port), *caller = caller_to(a, port);
    struct rdma_cm_event *event;
    struct rdma_conn_param asks = {.qp_num = 5};
    assert_int_equal(rdma_connect(caller, &asks), 0);
    assert_int_equal(rdma_get_cm_event(a, &event), -1);
    struct pollfd asked = {.fd = b->fd, .events = POLLIN};
    assert_int_equal(poll(&asked, 1, 10000), 1);
    rdma_destroy_id(listener);
    await_and_forget(a, RDMA_CM_EVENT_UNREACHABLE, -ECONNRESET);
    rdma_destroy_id(caller);
    rdma_destroy_event_channel(a);
    rdma_destroy_event_channel(b);
}

/* Without a channel each call returns when it is done. */
static void calls_of_one_by_itself(void **state)
{
    struct rdma_cm_id *id;
    struct sockaddr_in in = place(1);
    assert_int_equal(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&in, 1000), 0);
    assert_int_equal(rdma_resolve_route(id, 1000), 0);
    give_queue(id);
    assert_int_equal(rdma_connect(id, NULL), -1);
    assert_int_equal(errno, ECONNREFUSED);
    take_queue(id);
    rdma_destroy_id(id);
}

static void await_for(struct rdma_event_channel *channel, const struct rdma_cm_id *id,
                      enum rdma_cm_event_type what)
{
    struct rdma_cm_event *event = await(channel, what);
    assert_ptr_equal(event->id, id);
    assert_int_equal(rdma_ack_cm_event(event), 0);
}

/* Unread events keep their order, and move to another channel with their identifier. */
static void events_go_along(void **state)
{
    struct rdma_cm_id *ids[3];
    struct sockaddr_in in = place(1);
    struct rdma_event_channel *a = new_channel(), *b = new_channel();
    for (int i = 0; i < 3; i++) {
        assert_int_equal(rdma_create_id(a, &ids[i], NULL, RDMA_PS_TCP), 0);
        assert_int_equal(rdma_resolve_addr(ids[i], NULL, (struct sockaddr *)&in, 1000), 0);
    }
    assert_int_equal(rdma_resolve_route(ids[1], 1000), 0);
    assert_int_equal(rdma_migrate_id(ids[1], b), 0);
    await_for(b, ids[1], RDMA_CM_EVENT_ADDR_RESOLVED);
    await_for(b, ids[1], RDMA_CM_EVENT_ROUTE_RESOLVED);
    await_for(a, ids[0], RDMA_CM_EVENT_ADDR_RESOLVED);
    await_for(a, ids[2], RDMA_CM_EVENT_ADDR_RESOLVED);
    for (int i = 0; i < 3; i++)
        rdma_destroy_id(ids[i]);
    rdma_destroy_event_channel(a);
    rdma_destroy_event_channel(b);
}

static void what_is_not_here(void **state)
{
    struct rdma_cm_id *id;
    struct sockaddr_in away = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0xc6336401)};
    struct rdma_event_channel *a = new_channel();
    assert_int_equal(rdma_create_id(a, &id, NULL, RDMA_PS_UDP), -1);
    assert_int_equal(errno, EPROTONOSUPPORT);
    assert_int_equal(rdma_create_id(a, &id, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&away), -1);
    assert_int_equal(errno, EADDRNOTAVAIL);
    assert_int_equal(rdma_listen(id, 1), -1);
    assert_int_equal(rdma_connect(id, NULL), -1);
    assert_int_equal(rdma_accept(id, NULL), -1);
    assert_int_equal(rdma_disconnect(id), -1);
    assert_int_equal(rdma_resolve_route(id, 1), -1);
    rdma_destroy_id(id);
    rdma_destroy_event_channel(a);
}

/* A killed peer counts as disconnected. This test runs first, because the child opens its own
 * HCA. */
static void peer_is_killed(void **state)
{
    int ready[2];
    uint16_t port;
    if (getenv("TEST_ADDRESS"))
        skip(); /* two processes have different addresses */
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        struct rdma_event_channel *b = rdma_create_event_channel();
        struct rdma_cm_id *listener = listener_on(b, &port);
        struct rdma_cm_event *event;
        if (write(ready[1], &port, sizeof port) < 0 || rdma_get_cm_event(b, &event))
            _exit(1);
        give_queue(event->id);
        rdma_accept(event->id, NULL);
        rdma_ack_cm_event(event);
        for (;;)
            rdma_get_cm_event(b, &event);
        (void)listener;
    }
    assert_int_equal(read(ready[0], &port, sizeof port), sizeof port);
    struct rdma_event_channel *a = new_channel();
    struct rdma_cm_id *caller = caller_to(a, port);
    give_queue(caller);
    assert_int_equal(rdma_connect(caller, NULL), 0);
    await_and_forget(a, RDMA_CM_EVENT_ESTABLISHED, 0);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    await_and_forget(a, RDMA_CM_EVENT_DISCONNECTED, 0);
    take_queue(caller);
    rdma_destroy_id(caller);
    rdma_destroy_event_channel(a);
    close(ready[0]);
    close(ready[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(peer_is_killed),         cmocka_unit_test(both_ends_are_told),
        cmocka_unit_test(depths_are_the_lesser),  cmocka_unit_test(refusal_carries_words),
        cmocka_unit_test(nobody_listens),         cmocka_unit_test(listener_goes),
        cmocka_unit_test(calls_of_one_by_itself), cmocka_unit_test(what_is_not_here),
        cmocka_unit_test(events_go_along),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
