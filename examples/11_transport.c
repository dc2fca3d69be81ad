/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The smallest possible transport: two buffers in memory carry a connection, with the operations
 * that every transport has to bring (iwarp/transport.h). A client writes into the server's memory
 * over it.
 */
#include "side.h"

#include <errno.h>
#include <iwarp/transport.h>

#define WIRE_OCTETS 4096 /* in flight, each way */

/* One direction. */
struct wire {
    char octets[WIRE_OCTETS];
    size_t written, taken; /* ever */
    bool fin;
};

struct plug {
    struct iwarp_endpoint ep; /* first: the library's view of this end */
    struct wire *in, *out;
    struct plug *other; /* NULL once it is closed */
    bool want_read, want_write;
};

static pthread_mutex_t wires = PTHREAD_MUTEX_INITIALIZER; /* guards all of the above */

static void wake_other(struct plug *p)
{
    if (p->other) {
        iwarp_endpoint_wake(&p->other->ep);
    }
}

static ssize_t plug_readv(struct iwarp_endpoint *ep, const struct iovec *iov, int n)
{
    struct plug *p = (struct plug *)ep;
    ssize_t total = 0;

    pthread_mutex_lock(&wires);
    for (int i = 0; i < n; i++) {
        for (size_t j = 0; j < iov[i].iov_len && p->in->taken < p->in->written; j++, total++) {
            ((char *)iov[i].iov_base)[j] = p->in->octets[p->in->taken++ % WIRE_OCTETS];
        }
    }
    if (total == 0 && !p->in->fin) {
        total = -EAGAIN;
    }
    wake_other(p); /* there is room again */
    pthread_mutex_unlock(&wires);
    return total;
}

static ssize_t plug_writev(struct iwarp_endpoint *ep, const struct iovec *iov, int n)
{
    struct plug *p = (struct plug *)ep;
    ssize_t total = 0;

    pthread_mutex_lock(&wires);
    for (int i = 0; i < n; i++) {
        for (size_t j = 0; j < iov[i].iov_len && p->out->written - p->out->taken < WIRE_OCTETS;
             j++, total++) {
            p->out->octets[p->out->written++ % WIRE_OCTETS] = ((const char *)iov[i].iov_base)[j];
        }
    }
    wake_other(p);
    pthread_mutex_unlock(&wires);
    return total > 0 ? total : -EAGAIN;
}

static void plug_poll(struct iwarp_endpoint *ep)
{
    struct plug *p = (struct plug *)ep;

    pthread_mutex_lock(&wires);
    bool readable = p->want_read && (p->in->taken < p->in->written || p->in->fin);
    bool writable = p->want_write && p->out->written - p->out->taken < WIRE_OCTETS;
    pthread_mutex_unlock(&wires);
    if (readable || writable) {
        ep->ready(ep->user, readable, writable);
    }
}

static void plug_watch(struct iwarp_endpoint *ep, bool read, bool write)
{
    struct plug *p = (struct plug *)ep;

    p->want_read = read;
    p->want_write = write;
    pthread_mutex_lock(&wires);
    bool now = (read && (p->in->taken < p->in->written || p->in->fin)) ||
               (write && p->out->written - p->out->taken < WIRE_OCTETS);
    pthread_mutex_unlock(&wires);
    if (now) {
        iwarp_endpoint_wake(ep); /* it was there before it was asked for */
    }
}

static void plug_shutdown_write(struct iwarp_endpoint *ep)
{
    struct plug *p = (struct plug *)ep;

    pthread_mutex_lock(&wires);
    p->out->fin = true;
    wake_other(p);
    pthread_mutex_unlock(&wires);
}

static void plug_close(struct iwarp_endpoint *ep, bool reset)
{
    struct plug *p = (struct plug *)ep;

    (void)reset; /* a reset looks like a FIN here */
    plug_shutdown_write(ep);
    pthread_mutex_lock(&wires);
    if (p->other) {
        p->other->other = NULL;
    }
    pthread_mutex_unlock(&wires);
    ep->closed(ep->user);
}

static uint32_t plug_emss(struct iwarp_endpoint *ep)
{
    (void)ep;
    return 1460;
}

static const struct iwarp_transport plug_transport = {
    "plug",     plug_readv, plug_writev, plug_watch, plug_shutdown_write,
    plug_close, plug_emss,  plug_poll};

int main(void)
{
    static struct wire there, back;
    static struct plug plug[2];
    static struct side server, client;
    struct iwarp_event event;
    struct iwarp_wc wc;

    plug[0] = (struct plug){{.ops = &plug_transport}, &back, &there, &plug[1], false, false};
    plug[1] = (struct plug){{.ops = &plug_transport}, &there, &back, &plug[0], false, false};
    side_open(&server, IWARP_ACCESS_LOCAL_WRITE | IWARP_ACCESS_REMOTE_WRITE);
    side_open(&client, IWARP_ACCESS_LOCAL_WRITE);

    must(iwarp_eq_create(server.device, &server.eq), "create an event queue");
    must(iwarp_accept_over(server.device, &plug[1].ep, NULL, server.eq, NULL, &server.conn),
         "wait for a Request");
    must(iwarp_connect_over(client.qp, &plug[0].ep, NULL, NULL, 0, NULL, NULL, &client.conn),
         "connect");
    must(iwarp_eq_get(server.eq, &event, 10000), "wait for the Request");
    must(iwarp_accept(server.conn, server.qp, NULL, NULL, 0, NULL), "accept");
    must(iwarp_conn_wait(client.conn, 10000), "connect");

    strcpy(client.buffer, "written over a transport of its own");
    struct iwarp_sge sge = side_sge(&client, 0, sizeof client.buffer);
    struct iwarp_send_wr write = {.opcode = IWARP_WR_WRITE,
                                  .sg_list = &sge,
                                  .num_sge = 1,
                                  .remote_stag = iwarp_mr_stag(server.mr),
                                  .remote_to = (uint64_t)(uintptr_t)server.buffer};
    must(iwarp_post_send(client.qp, &write, NULL), "post a Write");
    side_wait(&client, IWARP_WC_WRITE, &wc);
    side_close(&client); /* in order: the server has taken everything before it closes */
    must(iwarp_conn_wait_end(server.conn, 10000), "wait for the end");
    printf("the server's memory now says: %s\n", server.buffer);
    printf("%zu octets went there, %zu came back, no socket was opened\n", there.written,
           back.written);
    side_close(&server);
    return 0;
}
