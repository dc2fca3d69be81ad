/* SPDX-License-Identifier: BSD-2-Clause */
/* See wires.h. */
#include "wires.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/fault.h"
#include "base/guard.h"
#include "base/process.h"
#include "transport/transport.h"

#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

const char *const wire_names[WIRE_KINDS] = {
    [WIRE_MEMORY] = "memory",
    [WIRE_TCP4] = "kernel TCP, IPv4",
    [WIRE_TCP6] = "kernel TCP, IPv6",
#ifdef IWARP_HAVE_LWIP
    [WIRE_LWIP_FD] = "lwIP, socketpair",
    [WIRE_LWIP_SHM] = "lwIP, rings",
    [WIRE_LWIP_SHM6] = "lwIP, rings, IPv6",
    [WIRE_LWIP_UNIX] = "lwIP, switch",
    [WIRE_LWIP_LARGE] = "lwIP, rings, large packets",
#endif
};

static bool is_v6(const struct wire *w)
{
#ifdef IWARP_HAVE_LWIP
    return w->kind == WIRE_TCP6 || w->kind == WIRE_LWIP_SHM6;
#else
    return w->kind == WIRE_TCP6;
#endif
}

/* --- the loop -------------------------------------------------------------------------------- */

static void on_tick(uv_timer_t *timer)
{
    (void)timer;
}

/* What the library does for an endpoint that has asked for it. */
static void poll_woken(struct wire *w)
{
    for (int i = 0; i < 2; i++) {
        struct wire_end *end = w->end[i];
        if (end && end->ep && end->woken) {
            end->woken = false;
            end->ep->ops->poll(end->ep);
        }
    }
}

void wire_until(struct wire *w, bool (*done)(void *arg), void *arg)
{
    uint64_t end = uv_hrtime() + (uint64_t)WIRE_WAIT_MS * 1000000;
    uv_timer_t tick;

    uv_timer_init(&w->loop, &tick);
    uv_timer_start(&tick, on_tick, 1, 1);
    while (!done(arg)) {
        if (uv_hrtime() > end) {
            fail_msg("%s: nothing came of it for %d ms", wire_names[w->kind], WIRE_WAIT_MS);
        }
        poll_woken(w);
        uv_run(&w->loop, w->kind == WIRE_MEMORY ? UV_RUN_NOWAIT : UV_RUN_ONCE);
    }
    uv_close((uv_handle_t *)&tick, NULL);
    uv_run(&w->loop, UV_RUN_NOWAIT);
}

static bool is_past(void *end)
{
    return uv_hrtime() > *(uint64_t *)end;
}

void wire_settle(struct wire *w, unsigned ms)
{
    uint64_t end = uv_hrtime() + (uint64_t)ms * 1000000;

    wire_until(w, is_past, &end);
}

/* --- stacks ---------------------------------------------------------------------------------- */

#ifdef IWARP_HAVE_LWIP
static void start_switch(struct wire *w)
{
    char program[4096], line[200];
    int out[2];

    snprintf(program, sizeof program, "%s/bin/iwarp-link", getenv("BUILD"));
    assert_int_equal(pipe(out), 0);
    w->switch_pid = fork();
    assert_true(w->switch_pid >= 0);
    if (w->switch_pid == 0) {
        dup2(out[1], 1);
        close(out[0]);
        execl(program, program, w->place, (char *)NULL);
        _exit(127);
    }
    close(out[1]);
    assert_true(read(out[0], line, sizeof line) > 0); /* it is ready */
    close(out[0]);
}

static void texts(struct wire *w, char text[2][200])
{
    if (w->kind == WIRE_LWIP_FD) {
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, w->pair), 0);
    } else {
        snprintf(w->place, sizeof w->place, "%s/wire.%d", getenv("TMPDIR"), (int)getpid());
    }
    if (w->kind == WIRE_LWIP_UNIX) {
        start_switch(w);
    }
    for (int i = 0; i < 2; i++) {
        char link[100];
        snprintf(link, sizeof link, "%s=%s", w->kind == WIRE_LWIP_UNIX ? "unix" : "shm", w->place);
        if (w->kind == WIRE_LWIP_FD) {
            snprintf(link, sizeof link, "fd=%d", w->pair[i]);
        }
        snprintf(text[i], 200, "lwip:%s,addr=%s%d/%d%s", link, is_v6(w) ? "fd00::" : "10.9.0.",
                 i + 1, is_v6(w) ? 64 : 24, w->kind == WIRE_LWIP_LARGE ? ",mtu=65000" : "");
    }
}
#endif

static void open_stacks(struct wire *w)
{
    char text[2][200] = {"tcp", "tcp"};

#ifdef IWARP_HAVE_LWIP
    if (w->kind >= WIRE_LWIP_FD) {
        texts(w, text);
    }
#endif
    for (int i = 0; i < 2; i++) {
        if (iwarp_stack_open(text[i], &w->stack[i]) != IWARP_OK) {
            fail_msg("%s: %s", text[i], iwarp_last_error());
        }
        assert_int_equal(w->stack[i]->ops->join(w->stack[i], &w->seat[i]), 0);
        w->stack[i]->ops->sit(w->seat[i], &w->loop);
    }
    for (int i = 0; i < 2 && w->pair[i] >= 0; i++) {
        close(w->pair[i]); /* the stack has a copy */
    }
}

void wire_open(struct wire *w, enum wire_kind kind)
{
    memset(w, 0, sizeof *w);
    w->kind = kind;
    w->pair[0] = w->pair[1] = -1;
    iwarp_process_watch();
    assert_int_equal(iwarp_guard_install(), 0);
    assert_int_equal(uv_loop_init(&w->loop), 0);
    if (kind != WIRE_MEMORY) {
        open_stacks(w);
    }
}

static void on_left(void *wire)
{
    ((struct wire *)wire)->left++;
}

void wire_close(struct wire *w)
{
    int status;

    if (w->acceptor) {
        wire_unlisten(w);
    }
    for (int i = 0; i < 2 && w->stack[0]; i++) {
        w->stack[i]->ops->leave(w->seat[i], on_left, w);
    }
    uv_run(&w->loop, UV_RUN_DEFAULT);
    assert_int_equal(w->left, w->stack[0] ? 2 : 0);
    for (int i = 0; i < 2 && w->stack[0]; i++) {
        w->stack[i]->ops->close(w->stack[i]);
    }
    assert_int_equal(uv_loop_close(&w->loop), 0);
    if (w->switch_pid) {
        kill(w->switch_pid, SIGTERM);
        assert_int_equal(waitpid(w->switch_pid, &status, 0), w->switch_pid);
        assert_int_equal(status, 0);
    }
}

const struct iwarp_stack_ops *wire_ops(const struct wire *w)
{
    return w->stack[0] ? w->stack[0]->ops : NULL;
}

/* --- listening and connecting ---------------------------------------------------------------- */

socklen_t wire_host(const struct wire *w, int side, struct sockaddr_storage *addr)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};

    (void)side; /* the kernel has one address for both */
#ifdef IWARP_HAVE_LWIP
    if (w->kind >= WIRE_LWIP_FD) {
        in.sin_addr.s_addr = htonl(0x0a090001u + (unsigned)side);
        in6.sin6_addr.s6_addr[0] = 0xfd;
        in6.sin6_addr.s6_addr[15] = (uint8_t)(side + 1);
    }
#endif
    memset(addr, 0, sizeof *addr);
    if (is_v6(w)) {
        memcpy(addr, &in6, sizeof in6);
        return sizeof in6;
    }
    memcpy(addr, &in, sizeof in);
    return sizeof in;
}

static void on_arrival(void *wire)
{
    ((struct wire *)wire)->arrivals++;
}

static void on_unlistened(void *wire)
{
    ((struct wire *)wire)->unlistened++;
}

void wire_listen(struct wire *w, int backlog)
{
    struct sockaddr_storage addr;
    socklen_t len = wire_host(w, 1, &addr);
    const struct iwarp_stack_ops *ops = wire_ops(w);

    assert_int_equal(
        ops->listen(w->stack[1], (const struct sockaddr *)&addr, len, backlog, &w->acceptor), 0);
    w->acceptor->ready = on_arrival;
    w->acceptor->closed = on_unlistened;
    w->acceptor->user = w;
    w->arrivals = w->unlistened = 0;
    assert_int_equal(ops->open(w->acceptor, w->seat[1]), 0);
}

static bool is_unlistened(void *wire)
{
    return ((struct wire *)wire)->unlistened > 0;
}

void wire_unlisten(struct wire *w)
{
    wire_ops(w)->unlisten(w->acceptor);
    w->acceptor = NULL;
    wire_until(w, is_unlistened, w);
    assert_int_equal(w->unlistened, 1);
}

struct sockaddr_storage wire_addr(struct wire *w, socklen_t *len)
{
    struct sockaddr_storage addr;

    wire_ops(w)->locate(w->acceptor, &addr, len);
    return addr;
}

static void on_ready(void *user, bool readable, bool writable)
{
    struct wire_end *end = user;

    assert_true(readable || writable || end->ep->loans);
    end->ready++;
    end->readable = end->readable || readable;
    end->writable = end->writable || writable;
}

static void on_closed(void *user)
{
    ((struct wire_end *)user)->closed++;
}

static void adopt(struct wire_end *end, struct iwarp_endpoint *ep)
{
    memset(end, 0, sizeof *end);
    end->ep = ep;
    ep->user = end;
    ep->ready = on_ready;
    ep->closed = on_closed;
}

int wire_dial(struct wire *w, const struct sockaddr_storage *to, socklen_t len,
              struct wire_end *end)
{
    const struct iwarp_way way = {
        .addr = (const struct sockaddr *)to, .addr_len = len, .traffic_class = -1};
    struct iwarp_endpoint *ep = NULL;
    int rc = wire_ops(w)->connect(w->seat[0], &way, &ep);

    if (rc == 0) {
        adopt(end, ep);
        ep->ops->watch(ep, false, true);
    }
    return rc;
}

static bool is_writable(void *end)
{
    return ((struct wire_end *)end)->writable;
}

static bool has_arrived(void *wire)
{
    return ((struct wire *)wire)->arrivals > 0;
}

static void wake(void *user)
{
    struct wire_end *end = user;

    end->woken = true;
}

void wire_connect(struct wire *w, struct wire_end *a, struct wire_end *b)
{
    struct sockaddr_storage to, peer;
    socklen_t len, peer_len;
    union iwarp_arrival arrival;
    struct iwarp_endpoint *ep = NULL, *other = NULL;

    if (w->kind == WIRE_MEMORY) {
        assert_int_equal(iwarp_mem_pair(wake, a, b, w->loans, &ep, &other), 0);
        adopt(a, ep);
        adopt(b, other);
        w->end[0] = a;
        w->end[1] = b;
        return;
    }
    if (!w->acceptor) {
        wire_listen(w, 8);
    }
    to = wire_addr(w, &len);
    w->arrivals = 0;
    assert_int_equal(wire_dial(w, &to, len, a), 0);
    wire_until(w, is_writable, a);
    assert_int_equal(wire_ops(w)->error(a->ep), 0);
    wire_until(w, has_arrived, w);
    assert_int_equal(wire_ops(w)->accept(w->acceptor, &arrival, &peer, &peer_len), 0);
    assert_int_equal(wire_ops(w)->attach(w->seat[1], arrival, &ep), 0);
    adopt(b, ep);
    a->ep->ops->watch(a->ep, false, false);
    wire_settle(w, 1);
    a->ready = 0;
    a->writable = false;
}

static bool is_closed(void *end)
{
    return ((struct wire_end *)end)->closed > 0;
}

void wire_end_close(struct wire *w, struct wire_end *end, bool reset)
{
    end->ep->ops->close(end->ep, reset);
    wire_until(w, is_closed, end);
    assert_int_equal(end->closed, 1);
    end->ep = NULL;
}

ssize_t wire_put(struct wire_end *end, const void *p, size_t n)
{
    struct iovec iov = {(void *)(uintptr_t)p, n};

    return end->ep->ops->writev(end->ep, &iov, 1);
}

ssize_t wire_get(struct wire_end *end, void *p, size_t n)
{
    struct iovec iov = {p, n};

    return end->ep->ops->readv(end->ep, &iov, 1);
}
