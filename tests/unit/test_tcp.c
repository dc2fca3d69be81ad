/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The transport over kernel TCP, on a loop of its own: connecting, readiness, FIN, reset behind
 * octets that nobody has read, and no signal for a broken pipe.
 */
#include "raw_peer.h"
#include "verbs_pair.h"

#include "transport/transport.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct end {
    uv_loop_t loop;
    struct iwarp_endpoint *ep;
    int fd, peer; /* of the endpoint, and the other side's plain socket */
    unsigned ready, closed;
    bool readable, writable;
};

static void ready(void *user, bool readable, bool writable)
{
    struct end *e = user;

    e->ready++;
    e->readable = e->readable || readable;
    e->writable = e->writable || writable;
}

static void closed(void *user)
{
    ((struct end *)user)->closed++;
}

static void end_open(struct end *e)
{
    struct sockaddr_in at;

    memset(e, 0, sizeof *e);
    assert_int_equal(uv_loop_init(&e->loop), 0);
    int listener = raw_listen(&at);
    e->fd = iwarp_tcp_connect((struct sockaddr *)&at, sizeof at, NULL, 0, -1);
    assert_true(e->fd >= 0);
    assert_int_equal(iwarp_tcp_attach(&e->loop, e->fd, &e->ep), 0);
    e->ep->user = e;
    e->ep->ready = ready;
    e->ep->closed = closed;
    e->peer = raw_accept(listener);
    close(listener);
}

/* Run the loop until something is ready, for at most a while. */
static void run(struct end *e, unsigned until)
{
    for (int i = 0; i < 60000 && e->ready + e->closed < until; i++) {
        uv_run(&e->loop, UV_RUN_NOWAIT);
        usleep(e->ready + e->closed < until ? 1000 : 0);
    }
    assert_true(e->ready + e->closed >= until);
}

static void end_close(struct end *e, bool reset)
{
    unsigned before = e->ready;

    e->ep->ops->close(e->ep, reset);
    uv_run(&e->loop, UV_RUN_DEFAULT);
    assert_int_equal(e->closed, 1);
    assert_int_equal(e->ready, before); /* nothing is reported after close */
    assert_int_equal(uv_loop_close(&e->loop), 0);
}

static ssize_t get(struct end *e, void *p, size_t n)
{
    struct iovec iov = {p, n};

    return e->ep->ops->readv(e->ep, &iov, 1);
}

static void connect__to_a_listener__is_writable_then_readable(void **state)
{
    struct iovec iov[2] = {{(char[]){"hel"}, 3}, {(char[]){"lo"}, 2}};
    struct sockaddr_storage addr;
    char text[8];
    socklen_t len;
    struct end e;
    int on = 0;

    (void)state;
    end_open(&e);
    e.ep->ops->watch(e.ep, false, true);
    run(&e, 1);
    assert_true(e.writable && !e.readable);
    assert_int_equal(iwarp_tcp_error(e.ep), 0);
    iwarp_tcp_local_addr(e.ep, &addr, &len);
    assert_int_equal(len, sizeof(struct sockaddr_in));
    len = sizeof on;
    assert_int_equal(getsockopt(e.fd, IPPROTO_TCP, TCP_NODELAY, &on, &len), 0);
    assert_int_equal(on, 1);
    assert_in_range(e.ep->ops->emss(e.ep), 536, 65535);
    assert_int_equal(e.ep->ops->writev(e.ep, iov, 2), 5);
    raw_expect(e.peer, "hello", 5, "both pieces");
    assert_int_equal(get(&e, text, 8), -EAGAIN);
    e.ep->ops->watch(e.ep, true, false);
    raw_send(e.peer, "back", 4);
    run(&e, e.ready + 1);
    assert_true(e.readable);
    assert_int_equal(get(&e, text, 8), 4);
    e.ep->ops->shutdown_write(e.ep);
    assert_int_equal(recv(e.peer, text, 1, 0), 0);
    close(e.peer);
    unsigned before = e.ready;
    run(&e, before + 1);
    assert_int_equal(get(&e, text, 8), 0);
    end_close(&e, false);
}

static void watch__of_nothing__reports_nothing(void **state)
{
    struct end e;

    (void)state;
    end_open(&e);
    e.ep->ops->watch(e.ep, true, true);
    run(&e, 1);
    e.ep->ops->watch(e.ep, false, false);
    unsigned before = e.ready;
    raw_send(e.peer, "x", 1);
    for (int i = 0; i < 10; i++) {
        uv_run(&e.loop, UV_RUN_NOWAIT);
        usleep(1000);
    }
    assert_int_equal(e.ready, before);
    end_close(&e, false);
    close(e.peer);
}

static void turn(struct end *e)
{
    for (int i = 0; i < 10; i++) {
        uv_run(&e->loop, UV_RUN_NOWAIT);
        usleep(1000);
    }
}

/* Not watched while away; watched again by come_back, and by asking for something else. */
static void away__until_it_comes_back__reports_nothing(void **state)
{
    struct end e;
    char text[8];

    (void)state;
    end_open(&e);
    e.ep->ops->watch(e.ep, true, true);
    run(&e, 1);
    iwarp_tcp_go_away(e.ep); /* not while it waits for room */
    assert_false(iwarp_tcp_is_away(e.ep));
    e.ep->ops->watch(e.ep, true, false);
    for (int round = 0; round < 3; round++) {
        iwarp_tcp_go_away(e.ep);
        iwarp_tcp_go_away(e.ep);
        assert_true(iwarp_tcp_is_away(e.ep));
        turn(&e);
        unsigned before = e.ready;
        raw_send(e.peer, "x", 1);
        e.ep->ops->watch(e.ep, true, false); /* nothing new */
        turn(&e);
        assert_true(iwarp_tcp_is_away(e.ep));
        assert_int_equal(e.ready, before);
        if (round == 0) {
            iwarp_tcp_come_back(e.ep);
            iwarp_tcp_come_back(e.ep);
        } else {
            e.ep->ops->watch(e.ep, round == 1, true);
        }
        assert_false(iwarp_tcp_is_away(e.ep));
        e.readable = e.writable = false;
        run(&e, before + 1);
        assert_int_equal(e.readable, round < 2);
        assert_int_equal(e.writable, round > 0);
        e.ep->ops->watch(e.ep, true, false);
        assert_int_equal(get(&e, text, 8), 1);
    }
    iwarp_tcp_go_away(e.ep);
    end_close(&e, false);
    close(e.peer);
}

static void close__with_reset__is_a_reset_there(void **state)
{
    struct end e;
    char octet;

    (void)state;
    for (int reset = 0; reset < 2; reset++) {
        end_open(&e);
        e.ep->ops->watch(e.ep, false, true);
        run(&e, 1);
        end_close(&e, reset);
        ssize_t got = recv(e.peer, &octet, 1, 0);
        assert_int_equal(got < 0 ? -errno : got, reset ? -ECONNRESET : 0);
        close(e.peer);
    }
}

/* libuv stops watching a descriptor in error; readiness must be reported until all is read. */
static void reset__behind_unread_octets__is_reported_to_the_end(void **state)
{
    const struct linger now = {1, 0};
    char *text = calloc(1, 65536), octet[4096];
    struct end e;
    ssize_t got = 0;

    (void)state;
    assert_non_null(text);
    end_open(&e);
    raw_send(e.peer, text, 65536);
    usleep(20000);
    assert_int_equal(setsockopt(e.peer, SOL_SOCKET, SO_LINGER, &now, sizeof now), 0);
    close(e.peer);
    usleep(20000);
    for (unsigned i = 0; i < 100 && (got > 0 || got == 0); i++) {
        e.ep->ops->watch(e.ep, true, false);
        run(&e, e.ready + 1); /* one small read a turn */
        got = get(&e, octet, sizeof octet);
        if (got == 0) {
            break;
        }
    }
    assert_int_equal(got, -ECONNRESET);
    struct iovec iov = {text, 1};
    assert_int_equal(e.ep->ops->writev(e.ep, &iov, 1), -EPIPE); /* and no SIGPIPE */
    end_close(&e, false);
    free(text);
}

static void transfer__with_missing_memory__is_efault(void **state)
{
    uint8_t *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct iovec iov[2] = {{p, 4096}, {p + 4096, 10}};
    struct end e;

    (void)state;
    assert_ptr_not_equal(p, MAP_FAILED);
    end_open(&e);
    e.ep->ops->watch(e.ep, true, true);
    run(&e, 1);
    assert_int_equal(munmap(p + 4096, 4096), 0);
    assert_int_equal(e.ep->ops->writev(e.ep, &iov[1], 1), -EFAULT);
    raw_send(e.peer, "x", 1);
    while (!e.readable) {
        run(&e, e.ready + 1);
    }
    assert_int_equal(get(&e, p + 4096, 1), -EFAULT);
    assert_int_equal(get(&e, p, 1), 1);
    end_close(&e, true);
    close(e.peer);
    munmap(p, 4096);
}

static void listen_and_connect__that_cannot_work__return_the_reason(void **state)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    struct sockaddr_storage odd = {.ss_family = 200};
    struct end e;

    (void)state;
    assert_int_equal(iwarp_tcp_listen((struct sockaddr *)&odd, sizeof odd, 1), -EAFNOSUPPORT);
    assert_int_equal(iwarp_tcp_connect((struct sockaddr *)&odd, sizeof odd, NULL, 0, -1),
                     -EAFNOSUPPORT);
    assert_int_equal(iwarp_tcp_connect((struct sockaddr *)&at, 3, NULL, 0, -1), -EINVAL);
    int fd = raw_listen(&at);
    assert_int_equal(iwarp_tcp_listen((struct sockaddr *)&at, sizeof at, 1), -EADDRINUSE);
    close(fd);
    memset(&e, 0, sizeof e);
    assert_int_equal(uv_loop_init(&e.loop), 0);
    fd = iwarp_tcp_connect((struct sockaddr *)&at, sizeof at, NULL, 0, -1);
    if (fd >= 0) { /* refused at once, or soon */
        assert_int_equal(iwarp_tcp_attach(&e.loop, fd, &e.ep), 0);
        e.ep->user = &e;
        e.ep->ready = ready;
        e.ep->closed = closed;
        e.ep->ops->watch(e.ep, false, true);
        run(&e, 1);
        assert_int_equal(iwarp_tcp_error(e.ep), ECONNREFUSED);
        end_close(&e, false);
    } else {
        assert_int_equal(fd, -ECONNREFUSED);
        uv_loop_close(&e.loop);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connect__to_a_listener__is_writable_then_readable),
        cmocka_unit_test(watch__of_nothing__reports_nothing),
        cmocka_unit_test(away__until_it_comes_back__reports_nothing),
        cmocka_unit_test(close__with_reset__is_a_reset_there),
        cmocka_unit_test(reset__behind_unread_octets__is_reported_to_the_end),
        cmocka_unit_test(transfer__with_missing_memory__is_efault),
        cmocka_unit_test(listen_and_connect__that_cannot_work__return_the_reason),
    };

    return cmocka_run_group_tests_name("tcp", tests, NULL, NULL);
}
