/* SPDX-License-Identifier: Apache-2.0 */
/* Completion channels and asynchronous events: messages of fixed size through a pipe, which a
 * program may poll. */
#include "hca.h"

#include <fcntl.h>
#include <infiniband/verbs.h>
#include <unistd.h>

int channel_open(struct channel *c)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC))
        return -1;
    /* The engine never waits for a reader. */
    fcntl(fds[1], F_SETFL, O_NONBLOCK);
    c->read_fd = fds[0];
    c->write_fd = fds[1];
    return 0;
}

void channel_close(struct channel *c)
{
    close(c->read_fd);
    close(c->write_fd);
}

void channel_send(struct channel *c, const void *event, size_t bytes)
{
    /* If the pipe is full, it holds enough events to wake the reader. */
    ssize_t n = write(c->write_fd, event, bytes);
    (void)n;
}

void cq_async_event(struct cq *cq, int event)
{
    struct ibv_async_event e = {.event_type = (enum ibv_event_type)event, .element.cq = cq->owner};
    if (cq->events && cq->owner)
        channel_send(cq->events, &e, sizeof e);
}
