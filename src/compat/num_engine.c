/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The thread that connects queue pairs by number: it takes the events of the native connections,
 * begins and repeats tries, gives Requests to the queue pairs that they name, and gives up when
 * the time is over. There is one thread and one queue of events in a process, both made when the
 * first queue pair names a peer, and anew in a forked child. The table of states is in
 * docs/by-number.md.
 *
 * Events are taken and acted on with num_lock held, so none names a connection that is destroyed.
 */
#include "base/log.h"
#include "base/process.h"
#include "compat/num.h"
#include "compat/ud.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Between two tries: soon at first, since the peer may be one call behind. */
enum { PAUSE_FIRST_MS = 2, PAUSE_MOST_MS = 200, SWEEP_MS = 1000, PATIENCE_LEAST_MS = 5000 };
enum { TIMEOUT_UNSAID = 14 };

static struct iwarp_eq *eq;
static unsigned eq_born; /* the generation that made eq and wake_fd */
static int wake_fd = -1;
static struct num *list;      /* SEEKING and DIALING, and GONE with work */
static int64_t next_sweep_ms; /* 0: no Request is held */

/* --- what there is to do --------------------------------------------------------------------- */

static void join(struct num *n)
{
    if (n->at) {
        return;
    }
    n->next = list;
    n->at = &list;
    if (list) {
        list->at = &n->next;
    }
    list = n;
}

void num_engine_wake(void *unused)
{
    const uint64_t one = 1;

    (void)unused;
    (void)!write(wake_fd, &one, sizeof one);
}

void num_engine_add(struct num *n)
{
    join(n);
    num_engine_wake(NULL);
}

void num_engine_remove(struct num *n)
{
    if (n->at) {
        *n->at = n->next;
        if (n->next) {
            n->next->at = n->at;
        }
        n->at = NULL;
    }
}

/* --- peers ----------------------------------------------------------------------------------- */

static bool is_dialer(const struct num *n)
{
    return n->number >= (n->set.dest_qp_num & 0xffffffu);
}

static void seek(struct num *n)
{
    n->state = NUM_SEEKING;
    n->due_ms = compat_now_ms() + n->pause_ms;
    n->pause_ms = n->pause_ms == 0                  ? PAUSE_FIRST_MS
                  : n->pause_ms * 2 < PAUSE_MOST_MS ? n->pause_ms * 2
                                                    : PAUSE_MOST_MS;
    join(n);
}

static enum num_refusal welcome(const struct num *n, const struct iwarp_conn *conn,
                                const struct num_hello *hello)
{
    struct sockaddr_storage from;
    socklen_t len = sizeof from;
    enum num_refusal why = num_hello_fits(n, hello);

    if (why != NUM_WELCOME) {
        return why;
    }
    if (hello->from < n->number) { /* the larger number connects */
        return NUM_OTHER_PEER;
    }
    return iwarp_conn_peer_addr(conn, &from, &len) == IWARP_OK && num_path_is_peer(&n->path, &from)
               ? NUM_WELCOME
               : NUM_OTHER_HOST;
}

static void refuse(struct num *n, struct iwarp_conn *conn, enum num_refusal why)
{
    static struct iwarp_log_limit limit;

    snprintf(n->why, sizeof n->why, "a peer has come and was refused: %s", num_refusal_text(why));
    iwarp_log_rarely(&limit, why == NUM_OTHER_HOST ? IWARP_LOG_WARN : IWARP_LOG_INFO, "verbs",
                     "queue pair 0x%06x refuses a peer: %s", n->number, num_refusal_text(why));
    num_conn_refuse(conn, why);
}

/* SEEKING: does it accept this one? */
static void consider(struct num *n, struct iwarp_conn *conn, const struct num_hello *hello)
{
    enum num_refusal why = welcome(n, conn, hello);

    if (why != NUM_WELCOME) {
        refuse(n, conn, why);
    } else if (num_conn_accept(n, conn, hello)) {
        num_engine_remove(n);
    }
}

/* Both ends have the same number, on two hosts, and both have begun: the connection of the larger
 * nonce is the one. The other end holds a Request in vain, which ends with the try. */
static bool yields(const struct num *n, const struct num_hello *hello)
{
    return n->state == NUM_DIALING && hello->from == n->number && hello->nonce > n->nonce &&
           num_hello_fits(n, hello) == NUM_WELCOME;
}

/* It accepts no Request yet: until then. */
static int64_t accepts_at(const struct num *n)
{
    return n->mask & IBV_QP_SQ_PSN ? 0 : n->since_ms + NUM_RTS_SOON_MS;
}

/* Of UD or for one of UD, where each Request is answered at once. */
static void on_datagrams(const struct num *n, struct iwarp_conn *conn,
                         const struct num_hello *hello)
{
    struct ud *ud = n->qp->ud;

    if (!ud || !hello->datagrams) {
        num_conn_refuse(conn, NUM_OTHER_TYPE);
    } else if (!ud->inner) {
        num_conn_refuse(conn, NUM_NOBODY);
    } else {
        ud_way_accept(ud, conn, hello);
    }
}

static void on_request(struct iwarp_conn *conn)
{
    static struct iwarp_log_limit limit;
    struct num_hello hello;
    size_t len;
    const void *octets = iwarp_conn_private_data(conn, &len);
    struct num *n = num_wire_get(octets, len, &hello) ? num_port_find(hello.to) : NULL;

    if (!n) {
        iwarp_log_rarely(&limit, IWARP_LOG_INFO, "verbs",
                         "a Request for a queue pair that there is not is refused");
        num_conn_refuse(conn, NUM_NOBODY);
        return;
    }
    if (n->qp->ud || hello.datagrams) {
        on_datagrams(n, conn, &hello);
        return;
    }
    if (yields(n, &hello)) {
        num_conn_end(n, false);
        n->state = NUM_SEEKING;
    }
    if (n->state == NUM_SEEKING && compat_now_ms() >= accepts_at(n)) {
        consider(n, conn, &hello);
        return;
    }
    num_held_add(conn, &hello);
    if (next_sweep_ms == 0) {
        next_sweep_ms = compat_now_ms() + SWEEP_MS;
    }
}

/* --- giving up ------------------------------------------------------------------------------- */

static void tell_why(const struct num *n)
{
    char peer[160];

    num_path_text(n, peer, sizeof peer);
    if (n->state == NUM_GONE) {
        iwarp_log(IWARP_LOG_WARN, "verbs",
                  "queue pair 0x%06x: work is posted, and %s has closed the connection", n->number,
                  peer);
        return;
    }
    iwarp_log(IWARP_LOG_WARN, "verbs",
              "queue pair 0x%06x: work is posted, and %lld ms after RTR there is no connection "
              "with %s (%s, %u tries): %s",
              n->number, (long long)(compat_now_ms() - n->since_ms), peer,
              is_dialer(n) ? "this end connects" : "the other end connects, its number is larger",
              n->tries, n->why[0] ? n->why : "nothing has come from there");
}

static void give_up(struct num *n)
{
    tell_why(n);
    n->not_reached = true;
    num_engine_remove(n);
    num_conn_over(n);
}

/* An RNIC's driver refuses a change to RTS that does not say it. */
static unsigned timeout_of(const struct num *n)
{
    return n->mask & IBV_QP_TIMEOUT ? n->set.timeout : TIMEOUT_UNSAID;
}

/*
 * 4.096 us * 2^timeout for each of the tries of an RNIC. Those of TCP, of processes that are only
 * just starting, and of a machine with other work take longer than a packet of InfiniBand. That a
 * peer has gone is certain; programs whose peer ends first count on being told as late as by an
 * RNIC (ibv_srq_pingpong has its last messages under way then, and ends well).
 */
static int64_t patience_ms(const struct num *n)
{
    int64_t ms = (((int64_t)4096 << (timeout_of(n) & 31)) * (n->set.retry_cnt + 1)) / 1000000;

    return ms > PATIENCE_LEAST_MS || n->state == NUM_GONE ? ms : PATIENCE_LEAST_MS;
}

/* With time-out 0, said by the program, an RNIC waits for ever, and so does this. */
void num_engine_hurry(struct num *n)
{
    if (n->state != NUM_UP && n->state != NUM_OVER && !n->until_ms && timeout_of(n) != 0) {
        n->until_ms = compat_now_ms() + patience_ms(n) + 1; /* this millisecond has begun already */
        num_engine_add(n);
    }
}

/* --- events ---------------------------------------------------------------------------------- */

static void on_established(struct num *n)
{
    char peer[160];

    num_engine_remove(n);
    n->state = NUM_UP;
    n->until_ms = 0;
    n->pause_ms = 0;
    atomic_store(&n->qp->connecting, COMPAT_SENDS);
    num_conn_heard(n);
    num_conn_allow(n);
    if (!(n->mask & IBV_QP_SQ_PSN)) { /* a program may wait for it in RTR */
        iwarp_compat_async_established(n->qp);
    }
    num_path_text(n, peer, sizeof peer);
    iwarp_log(IWARP_LOG_INFO, "verbs", "queue pair 0x%06x is connected by number with %s",
              n->number, peer);
}

static void on_failed(struct num *n, const struct iwarp_event *e)
{
    size_t len;
    const void *octets = iwarp_conn_private_data(e->conn, &len);
    enum num_refusal why = num_wire_refusal(octets, len);

    if (e->type == IWARP_EVENT_REJECTED) {
        snprintf(n->why, sizeof n->why, "the peer refuses: %s", num_refusal_text(why));
    } else if (e->fault) {
        (void)iwarp_fault_text(e->fault, n->why, sizeof n->why);
    }
    iwarp_log(IWARP_LOG_DEBUG, "verbs", "queue pair 0x%06x, try %u: %s", n->number, n->tries,
              n->why);
    num_conn_end(n, false);
    seek(n);
}

/* Work that is posted when nobody is there any more is noticed: see iwarp_num_posted. */
static void on_disconnected(struct num *n, const struct iwarp_event *e)
{
    struct iwarp_conn_info info = {.size = sizeof info};
    bool used = iwarp_conn_info(e->conn, &info) != IWARP_OK || info.used;

    num_conn_end(n, false);
    if (iwarp_qp_state(n->qp->native) != IWARP_QP_IDLE) {
        n->state = NUM_OVER;
        return;
    }
    atomic_store(&n->qp->connecting,
                 n->mask & IBV_QP_SQ_PSN ? COMPAT_SENDS_NOTED : COMPAT_SENDS_NOT);
    snprintf(n->why, sizeof n->why, "the peer has closed the connection");
    if (!used) {
        seek(n);
    } else {
        n->state = NUM_GONE;
    }
    if (num_conn_has_sends(n)) {
        num_engine_hurry(n);
    }
}

static void on_event(const struct iwarp_event *e)
{
    const uint64_t user = (uint64_t)(uintptr_t)e->user;

    if (e->type == IWARP_EVENT_REQUEST) {
        on_request(e->conn);
        return;
    }
    struct num *n = num_port_find((uint32_t)user);
    if (n && n->qp->ud) {
        ud_event(n->qp->ud, e);
        return;
    }
    if (!n || n->conn != e->conn || n->attempt != user >> 32) {
        return;
    }
    if (e->type == IWARP_EVENT_ESTABLISHED) {
        on_established(n);
    } else if (e->type == IWARP_EVENT_DISCONNECTED) {
        on_disconnected(n, e);
    } else {
        on_failed(n, e);
    }
}

/* --- time ------------------------------------------------------------------------------------ */

/* For a connection, or with work that it cannot do. */
static bool waits(const struct num *n)
{
    return n->state == NUM_SEEKING || n->state == NUM_DIALING ||
           (n->state == NUM_GONE && n->until_ms);
}

static void step(struct num *n, int64_t now)
{
    struct num_hello hello;
    struct iwarp_conn *conn;

    while (n->state == NUM_SEEKING && now >= accepts_at(n) &&
           (conn = num_held_take(n->number, &hello)) != NULL) {
        consider(n, conn, &hello);
    }
    if (!waits(n)) {
        return;
    }
    if (n->until_ms && now >= n->until_ms) {
        give_up(n);
    } else if (n->state == NUM_SEEKING && is_dialer(n) && now >= n->due_ms &&
               !num_conn_dial(n, eq)) {
        seek(n);
    }
}

static int64_t sooner(int64_t a, int64_t b)
{
    return a == 0 || (b != 0 && b < a) ? b : a;
}

/* When there is something to do next; 0: not before something happens. */
static int64_t steps(void)
{
    int64_t now = compat_now_ms(), next = 0;

    for (struct num *n = list, *after; n; n = after) {
        after = n->next;
        step(n, now);
        if (!waits(n)) {
            num_engine_remove(n);
        } else {
            next = sooner(next, n->until_ms);
            next = sooner(next, n->state == NUM_SEEKING && is_dialer(n) ? n->due_ms : 0);
            next = sooner(next, now < accepts_at(n) ? accepts_at(n) : 0);
        }
    }
    if (next_sweep_ms && now >= next_sweep_ms) {
        next_sweep_ms = num_held_sweep() ? now + SWEEP_MS : 0;
    }
    return sooner(next, next_sweep_ms);
}

/* --- the thread ------------------------------------------------------------------------------ */

static void sleep_until(struct iwarp_eq *queue, int64_t next)
{
    struct pollfd p[2] = {{.fd = iwarp_eq_fd(queue), .events = POLLIN},
                          {.fd = wake_fd, .events = POLLIN}};
    int64_t ms = next - compat_now_ms();
    uint64_t count;

    (void)poll(p, 2, next == 0 ? -1 : ms < 0 ? 0 : ms < 60000 ? (int)ms : 60000);
    (void)!read(wake_fd, &count, sizeof count);
}

static void *run(void *arg)
{
    struct iwarp_eq *queue = arg;
    struct iwarp_event event;

    for (;;) {
        pthread_mutex_lock(&num_lock);
        while (iwarp_eq_get(queue, &event, 0) == IWARP_OK) {
            on_event(&event);
        }
        int64_t next = sooner(steps(), ud_all_work(compat_now_ms()));
        pthread_mutex_unlock(&num_lock);
        sleep_until(queue, next);
    }
    return NULL;
}

static int begin(struct iwarp_eq *queue)
{
    int error = 0;

    wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (wake_fd < 0 || iwarp_eq_fd(queue) < 0) {
        error = errno;
    } else {
        error = iwarp_compat_thread("iwarp-num", run, queue);
    }
    if (error && wake_fd >= 0) {
        close(wake_fd);
        wake_fd = -1;
    }
    return error;
}

struct iwarp_eq *num_engine_eq(void)
{
    if (eq && eq_born == iwarp_compat_generation()) {
        return eq;
    }
    struct iwarp_device *device = iwarp_compat_device();
    if (!device) {
        return NULL;
    }
    enum iwarp_status status = iwarp_eq_create(device, &eq);
    if (status != IWARP_OK) {
        eq = NULL;
        (void)iwarp_compat_failed("verbs", status, "ibv_modify_qp: connection events");
        return NULL;
    }
    int error = begin(eq);
    if (error) {
        (void)iwarp_eq_destroy(eq);
        eq = NULL;
        (void)iwarp_compat_refuse("verbs", error,
                                  "ibv_modify_qp: no thread that connects: error %d", error);
        return NULL;
    }
    eq_born = iwarp_compat_generation();
    return eq;
}

/* The descriptor stays open in the child: the parent's thread, which reads it, is not there. */
void num_engine_forget(void)
{
    pthread_mutex_init(&num_lock, NULL);
    if (wake_fd >= 0) {
        close(wake_fd);
        wake_fd = -1;
    }
    eq = NULL;
    list = NULL;
    next_sweep_ms = 0;
}
