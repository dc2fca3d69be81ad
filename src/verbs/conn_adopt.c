/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections over a TCP socket that the application has connected and used already: streaming mode
 * first, then MPA, as iSER starts. Both sides, and handing the socket back when no connection came
 * of it.
 *
 * RFC 5044 7.1 and 7.1.2 (rules 2, 3 and 6: after a rejection TCP stays open).
 */
#include "verbs/conn_adopt.h"
#include "base/guard.h"
#include "base/memory.h"
#include "base/process.h"
#include "loop/loop.h"
#include "mpa/mpa_setup.h"
#include "transport/tcp_options.h"
#include "transport/transport.h"
#include "verbs/conn.h"
#include "verbs/conn_connect.h"
#include "verbs/conn_options.h"
#include "verbs/conn_setup.h"
#include "verbs/conn_tap.h"
#include "verbs/device.h"
#include "verbs/eq.h"
#include "verbs/mr.h"
#include "verbs/qp.h"
#include "verbs/worker.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One call, carried to the connection's worker and back; it lies on the caller's stack. */
struct adoption {
    struct iwarp_conn *conn;
    int fd;
    const void *received;
    size_t received_len;
    int rc;
};

/* --- taking ---------------------------------------------------------------------------------- */

/*
 * Only looks: after a failure the socket is as it was. A descriptor of the library's own is
 * refused, since two endpoints would read from it.
 */
static enum iwarp_status check_socket(int fd, const void *received, size_t received_len)
{
    struct sockaddr_storage peer;
    socklen_t len = sizeof peer;
    int protocol = 0;
    socklen_t protocol_len = sizeof protocol;

    if (received_len > 0 && !received) {
        return iwarp_fail(IWARP_MISUSE,
                          "adopting a socket: %zu octets received, but received is "
                          "NULL",
                          received_len);
    }
    if (iwarp_process_has_fd(fd)) {
        return iwarp_fail(IWARP_MISUSE, "adopting a socket: descriptor %d is the library's already",
                          fd);
    }
    if (getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &protocol_len) != 0) {
        return iwarp_fail(IWARP_MISUSE, "adopting a socket: descriptor %d: %s", fd,
                          strerror(errno));
    }
    if (protocol != IPPROTO_TCP) {
        return iwarp_fail(IWARP_MISUSE, "adopting a socket: descriptor %d is not a TCP socket", fd);
    }
    if (getpeername(fd, (struct sockaddr *)&peer, &len) != 0) {
        return iwarp_fail(IWARP_MISUSE, "adopting a socket: descriptor %d: %s", fd,
                          strerror(errno));
    }
    return IWARP_OK;
}

/*
 * The endpoint holds octets that were read before, which no event of the socket announces: have the
 * worker look.
 */
static void wake(void *user)
{
    iwarp_worker_kick(user);
}

/*
 * conn.lock is held over all of it: events and kicks wait until the start-up has begun. If the
 * socket cannot be watched, a responder ends here, and an initiator where its queue pair is
 * unbound; the socket is still the application's.
 */
static void adopt_on_worker(void *arg)
{
    struct adoption *a = arg;
    struct iwarp_conn *conn = a->conn;
    struct iwarp_endpoint *ep = NULL;

    iwarp_mutex_lock(&conn->lock);
    struct iwarp_tcp_options *options = calloc(1, sizeof *options);
    a->rc = options ? iwarp_tcp_adopt(conn->worker->loop.uv, a->fd, a->received, a->received_len,
                                      wake, conn, options, &ep)
                    : -ENOMEM;
    if (a->rc < 0) {
        free(options);
        conn->state = conn->qp ? conn->state : CONN_ENDED;
    } else {
        conn->adopted = options;
        conn->tcp = iwarp_tcp_stack.ops;
        iwarp_addr_ask(&conn->peer, ep, iwarp_tcp_peer_addr);
        if (iwarp_conn_attach(conn, ep)) {
            iwarp_tcp_patience(ep, conn->options.user_timeout_ms, conn->options.keepalive_s);
            iwarp_addr_ask(&conn->local, ep, iwarp_tcp_local_addr);
            iwarp_conn_begin_startup(conn);
        }
    }
    iwarp_conn_unlock(conn);
}

/*
 * *out is there before the first event can tell of it. On failure nothing was reported, and the
 * caller destroys the connection.
 */
static enum iwarp_status adopt(struct adoption *a, struct iwarp_conn **out)
{
    *out = a->conn;
    iwarp_guard_refresh();
    iwarp_loop_call(&a->conn->worker->loop, adopt_on_worker, a);
    if (a->rc < 0) {
        *out = NULL;
        return iwarp_fail(a->rc == -ENOMEM ? IWARP_NO_MEMORY : IWARP_LIMIT,
                          "adopting a socket: cannot watch descriptor %d: %s", a->fd,
                          strerror(-a->rc));
    }
    return IWARP_OK;
}

enum iwarp_status iwarp_connect_socket(struct iwarp_qp *qp, int fd, const void *received,
                                       size_t received_len,
                                       const struct iwarp_conn_options *options,
                                       const void *private_data, size_t pd_len, struct iwarp_eq *eq,
                                       void *user, struct iwarp_conn **out)
{
    IWARP_UNCANCELLED;
    enum iwarp_status status = IWARP_OK;

    if (!qp || !out || (pd_len > 0 && !private_data)) {
        return iwarp_fail(IWARP_MISUSE, "connecting over a socket: %s is NULL",
                          !qp    ? "the queue pair"
                          : !out ? "the place for the connection"
                                 : "private_data");
    }
    IWARP_ON_LOOP(qp->pd->device);
    status = check_socket(fd, received, received_len);
    if (status != IWARP_OK) {
        return status;
    }
    struct adoption a = {.fd = fd, .received = received, .received_len = received_len};
    a.conn = iwarp_conn_new_initiator(qp, NULL, options, private_data, pd_len, eq, user, &status);
    if (!a.conn) {
        return status;
    }
    status = adopt(&a, out);
    if (status != IWARP_OK) {
        iwarp_qp_unbind(qp, a.conn);
        iwarp_conn_destroy(a.conn);
    }
    return status;
}

enum iwarp_status iwarp_accept_socket(struct iwarp_device *device, int fd, const void *received,
                                      size_t received_len, const struct iwarp_conn_options *options,
                                      struct iwarp_eq *eq, void *user, struct iwarp_conn **out)
{
    IWARP_UNCANCELLED;
    struct iwarp_conn_options o;
    enum iwarp_status status = iwarp_conn_options_check(options, &o);

    if (status != IWARP_OK) {
        return status;
    }
    if (!device || !eq || !out || eq->device != device) {
        return iwarp_fail(IWARP_MISUSE, "accepting over a socket needs a device, an event queue of "
                                        "it, and a place for the connection");
    }
    IWARP_ON_LOOP(device);
    status = check_socket(fd, received, received_len);
    if (status != IWARP_OK) {
        return status;
    }
    struct adoption a = {.fd = fd, .received = received, .received_len = received_len};
    a.conn = iwarp_conn_new(device, &o, STARTUP_GIVEN, &status);
    if (!a.conn) {
        return status;
    }
    a.conn->user = user;
    iwarp_conn_use_eq(a.conn, eq);
    atomic_fetch_add(&device->stats.arrivals, 1);
    status = adopt(&a, out);
    if (status != IWARP_OK) {
        iwarp_conn_destroy(a.conn);
    }
    return status;
}

/* --- giving back ----------------------------------------------------------------------------- */

/*
 * The socket is given back if the peer's answer, or the lack of one, leaves TCP in a state that
 * both ends know: a yes or no that was understood, or this end's own decision. After a frame that
 * is no MPA frame RFC 5044 7.1.1 and 7.1.2 (rules 5, 9) have TCP closed.
 */
static bool may_have_it_back(enum iwarp_fault_code code)
{
    return code == IWARP_FAULT_NONE || code == IWARP_FAULT_MPA_REJECTED ||
           code == IWARP_FAULT_MPA_TIMEOUT || code == IWARP_FAULT_MPA_CLOSED ||
           code == IWARP_FAULT_MPA_UNANSWERED || code == IWARP_FAULT_MPA_GONE ||
           code == IWARP_FAULT_LOCAL_NO_MEMORY;
}

/*
 * Octets that were read from the socket go back to the application with it. Those of half a frame
 * come first; behind them the early ones that nobody has read from the endpoint. `early` is freed
 * or kept. False: no memory, and the socket cannot be given back without a gap.
 */
static bool keep_octets(struct iwarp_conn *conn, uint8_t *early, size_t early_len)
{
    struct iwarp_startup *s = conn->startup;
    size_t half = s->setup.step == IWARP_MPA_MORE ? s->setup.have : 0;

    if (half == 0) {
        s->spare = early;
        s->spare_len = early_len;
        return true;
    }
    s->spare = iwarp_malloc(half + early_len);
    if (s->spare) {
        memcpy(s->spare, s->setup.frame, half);
        if (early_len > 0) {
            memcpy(s->spare + half, early, early_len);
        }
        s->spare_len = half + early_len;
    }
    free(early);
    return s->spare != NULL;
}

/*
 * A socket that the library made is closed, not handed back: no application knows it. The endpoint
 * goes without closing the descriptor, so the peer sees nothing.
 */
/* [MPA-7.1.2-07] [MPA-7.1.2-12] */
bool iwarp_conn_hand_back(struct iwarp_conn *conn, enum iwarp_fault_code code)
{
    struct iwarp_endpoint *ep = conn->ep;
    uint8_t *early;
    size_t early_len;

    if (!conn->adopted || !ep || conn->tls || conn->user_gone || !may_have_it_back(code)) {
        return false;
    }
    iwarp_tap_close(conn); /* the connection goes on without us */
    int fd = iwarp_tcp_release(ep, &early, &early_len);
    conn->ep = NULL;
    iwarp_conn_close_endpoint(conn, false); /* the timer */
    if (keep_octets(conn, early, early_len)) {
        conn->startup->spare_fd = fd;
    } else {
        close(fd);
    }
    return true;
}

/* conn.lock held. The socket is given away once; *received_len is set even if the room is too
 * small. */
static enum iwarp_status take(struct iwarp_conn *conn, int *fd, void *received, size_t size,
                              size_t *received_len)
{
    struct iwarp_startup *s = conn->startup;

    if (!conn->adopted) {
        return iwarp_fail(IWARP_MISUSE, "the connection has no socket of the application");
    }
    if (conn->state < CONN_ESTABLISHED) {
        return iwarp_fail(IWARP_AGAIN, "the start-up is not over");
    }
    if (iwarp_conn_was_established(conn) || s->spare_fd < 0) {
        return iwarp_fail(IWARP_CLOSED, "the socket is in use, closed, or taken already");
    }
    *received_len = s->spare_len;
    if (s->spare_len > size) {
        return iwarp_fail(IWARP_MISUSE, "%zu octets were received, there is room for %zu",
                          s->spare_len, size);
    }
    if (s->spare_len > 0) {
        memcpy(received, s->spare, s->spare_len);
    }
    *fd = s->spare_fd;
    s->spare_fd = -1;
    return IWARP_OK;
}

enum iwarp_status iwarp_conn_take_socket(struct iwarp_conn *conn, int *fd, void *received,
                                         size_t size, size_t *received_len)
{
    IWARP_UNCANCELLED;
    if (!IWARP_GIVEN(conn) || !IWARP_GIVEN(fd) || !IWARP_GIVEN(received_len)) {
        return IWARP_MISUSE;
    }
    if (size > 0 && !IWARP_GIVEN(received)) {
        return IWARP_MISUSE;
    }
    IWARP_ON_LOOP(conn->device);
    iwarp_mutex_lock(&conn->lock);
    enum iwarp_status status = take(conn, fd, received, size, received_len);
    iwarp_conn_unlock(conn);
    return status;
}
