/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One address against all others at a listener: thousands of connections that never finish their
 * start-up, thousands of Requests while the application is busy, connections that use up the
 * descriptors, and addresses that the application does not want. Peers at other addresses, and
 * quick ones at the same address, get in all the while. RFC 5042 6.4.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "octets.h"
#include "place.h"
#include "progress.h"
#include "raw_peer.h"
#include "verbs/conn.h"
#include "verbs/crowd.h"
#include "verbs/device.h"
#include "verbs/eq.h"
#include "verbs/listen.h"

#define MANY       5000
#define GOOD       20
#define BACKLOG    64
#define SOON_MS    5000 /* of start-ups that have 100 s: nobody's time is up */
#define STARTUP_MS 200000

static const char request[] = "MPA ID Req Frame\x40\x01\x00\x00";
#define REQUEST_LEN 20

struct place {
    struct iwarp_device *device;
    struct iwarp_eq *eq;
    struct iwarp_listener *listener;
    struct sockaddr_in addr;
};

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void open_place_on(struct place *p, const struct iwarp_device_options *device,
                          const struct iwarp_conn_options *options)
{
    const struct sockaddr_in any = {.sin_family = AF_INET};
    struct iwarp_conn_options o;
    struct sockaddr_storage at;
    socklen_t len;

    setenv("IWARP_LOG", "error", 0);
    iwarp_conn_options_init(&o);
    o.startup_timeout_ms = STARTUP_MS;
    assert_int_equal(progress_open(device, &p->device), IWARP_OK);
    assert_int_equal(iwarp_eq_create(p->device, &p->eq), IWARP_OK);
    assert_int_equal(iwarp_listen(p->device, (const struct sockaddr *)&any, sizeof any,
                                  options ? options : &o, BACKLOG, p->eq, NULL, &p->listener),
                     IWARP_OK);
    assert_int_equal(iwarp_listener_addr(p->listener, &at, &len), IWARP_OK);
    memcpy(&p->addr, &at, sizeof p->addr);
    p->addr.sin_addr = place_of_device();
}

static void open_place(struct place *p, const struct iwarp_conn_options *options)
{
    open_place_on(p, NULL, options);
}

static void close_place(struct place *p)
{
    assert_int_equal(iwarp_listener_close(p->listener), IWARP_OK);
    assert_int_equal(iwarp_eq_destroy(p->eq), IWARP_OK);
    assert_int_equal(progress_close(p->device), IWARP_OK);
}

static struct iwarp_device_stats stats_of(const struct place *p)
{
    struct iwarp_device_stats s = {.size = sizeof s};

    assert_int_equal(iwarp_device_stats(p->device, &s), IWARP_OK);
    return s;
}

/* The port is chosen when it connects: ports may be used again towards another listener.  An
 * emulator that does not know the option chooses the port at once. */
static void bind_address(int fd, const struct sockaddr_in *from)
{
    const int on = 1;

    if (setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on) != 0)
        assert_int_equal(errno, ENOPROTOOPT);
    assert_int_equal(bind(fd, (const struct sockaddr *)from, sizeof *from), 0);
}

/* Peers of this address, the host-th, begin to connect; -1: not now. Nothing waits here. */
static int try_to_connect(const struct place *p, unsigned host)
{
    const struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr = place_of_host(host)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    bind_address(fd, &from);
    if (connect(fd, (const struct sockaddr *)&p->addr, sizeof p->addr) != 0 &&
        errno != EINPROGRESS) {
        close(fd);
        return -1;
    }
    return fd;
}

/* The last octet of the peer's address. */
static unsigned host_of(const struct iwarp_conn *conn)
{
    struct sockaddr_storage from;
    struct sockaddr_in in;
    socklen_t len;

    assert_int_equal(iwarp_conn_peer_addr(conn, &from, &len), IWARP_OK);
    memcpy(&in, &from, sizeof in);
    return ntohl(in.sin_addr.s_addr) & 0xff;
}

/*
 * An address, from the host-th on, that has no share with those whose Requests wait: one in 256
 * has, by chance, and is treated like them (crowd.h).
 */
static unsigned apart(const struct place *p, unsigned host)
{
    struct sockaddr_in in = {.sin_family = AF_INET};

    for (;; host++) {
        in.sin_addr = place_of_host(host);
        const struct sockaddr *addr = (const struct sockaddr *)&in;
        if (iwarp_crowd_share_of(&p->listener->waiting, addr) == 0 &&
            iwarp_crowd_share_of(&p->device->startups, addr) == 0) {
            return host;
        }
    }
}

/* Send what the connection takes; false: it is not up yet. */
static bool try_to_say(int fd, const void *octets, size_t n)
{
    return send(fd, octets, n, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)n || errno != EAGAIN;
}

static void say(int fd, const void *octets, size_t n)
{
    for (int i = 0; !try_to_say(fd, octets, n); i++) {
        assert_true(i < RAW_PATIENCE_MS);
        progress_sleep(1000);
    }
}

static void open_files(rlim_t most)
{
    struct rlimit limit;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = most < limit.rlim_max ? most : limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* A Request of this peer arrives soon; it is answered with no. */
static void good_peer(const struct place *p, unsigned host)
{
    struct iwarp_event e;
    uint8_t reply[20];
    int64_t begun = now_ms();
    int fd = try_to_connect(p, host);

    assert_true(fd >= 0);
    say(fd, request, REQUEST_LEN);
    if (iwarp_eq_get(p->eq, &e, SOON_MS) != IWARP_OK) {
        fail_msg("the Request of 127.0.0.%u did not come within %d ms", host, SOON_MS);
    }
    assert_int_equal(e.type, IWARP_EVENT_REQUEST);
    assert_true(now_ms() - begun < SOON_MS);
    assert_int_equal(iwarp_reject(e.conn, NULL, 0), IWARP_OK);
    assert_int_equal(iwarp_conn_destroy(e.conn), IWARP_OK);
    for (size_t got = 0; got < sizeof reply;) {
        ssize_t n = recv(fd, reply + got, sizeof reply - got, MSG_DONTWAIT);
        assert_true(n > 0 || (n < 0 && errno == EAGAIN));
        got += n > 0 ? (size_t)n : 0;
        progress_sleep(n > 0 ? 0 : 1000);
        assert_true(now_ms() - begun < 2 * SOON_MS);
    }
    assert_memory_equal(reply, "MPA ID Rep Frame", 16);
    close(fd);
}

/*
 * Begin `n` connections from the first address that say this much of a Request. No faster than they
 * are accepted: the kernel lets a peer that finds its queue full wait for a second and more.
 */
static void flood(const struct place *p, int *fd, int n, size_t octets)
{
    uint64_t before = stats_of(p).arrivals;

    for (int i = 0; i < n; i++) {
        fd[i] = try_to_connect(p, 1);
        assert_true(fd[i] >= 0);
        say(fd[i], request, octets);
        while (stats_of(p).arrivals - before + BACKLOG / 2 < (uint64_t)i) {
            progress_sleep(1000);
        }
    }
}

static void close_all(const int *fd, int n)
{
    for (int i = 0; i < n; i++) {
        raw_reset(fd[i]); /* so many ports are not to be kept waiting */
    }
}

/* Until nobody is left; what is at the peers is closed. */
static void wait_for_none(const struct place *p)
{
    for (int i = 0; stats_of(p).connections > 0; i++) {
        assert_true(i < RAW_PATIENCE_MS);
        progress_sleep(1000);
    }
    assert_int_equal(stats_of(p).half_open, 0);
}

static void start_ups__thousands_of_one_address_with_one_octet_each__keep_nobody_out(void **state)
{
    static int fd[MANY];
    struct place p;

    (void)state;
    open_files(2 * MANY + 4000);
    open_place(&p, NULL);
    flood(&p, fd, 1, 1);
    while (stats_of(&p).half_open < 1) {
        progress_sleep(1000); /* so that its share is known */
    }
    unsigned host = apart(&p, 2);
    int slow = try_to_connect(&p, host); /* in their midst all the time */
    say(slow, request, 1);
    for (int i = 0; i < GOOD; i++) {
        int done = i == 0; /* the one above */
        flood(&p, fd + i * (MANY / GOOD) + done, MANY / GOOD - done, 1);
        good_peer(&p, 1);
        good_peer(&p, 2);
        good_peer(&p, 3);
        assert_true(stats_of(&p).half_open <= 1024);
    }
    assert_true(stats_of(&p).turned_away > MANY - 1024 - 1);
    say(slow, request + 1, REQUEST_LEN - 1);
    struct iwarp_event e;
    assert_int_equal(iwarp_eq_get(p.eq, &e, SOON_MS), IWARP_OK);
    assert_int_equal(iwarp_conn_destroy(e.conn), IWARP_OK);
    close(slow);
    close_all(fd, MANY);
    wait_for_none(&p);
    close_place(&p);
}

/* The application takes no event meanwhile. */
static void requests__thousands_that_nobody_answers__are_bounded_and_keep_nobody_out(void **state)
{
    static int fd[MANY];
    struct iwarp_event e;
    struct place p;
    unsigned others = 0, all = 0;

    (void)state;
    open_files(2 * MANY + 4000);
    open_place(&p, NULL);
    flood(&p, fd, MANY, REQUEST_LEN);
    int other[3];
    for (unsigned i = 0, host = 2; i < 3; i++) {
        host = apart(&p, host);
        other[i] = try_to_connect(&p, host++);
        say(other[i], request, REQUEST_LEN);
    }
    for (struct iwarp_device_stats s = stats_of(&p); s.arrivals < MANY + 3 || s.half_open > 0;) {
        assert_true(s.half_open <= 1024);
        assert_true(s.connections <= 1024 + 2 * BACKLOG);
        progress_sleep(1000);
        s = stats_of(&p);
    }
    progress_sleep(50000); /* what was turned away last is closed */
    assert_true(stats_of(&p).connections <= BACKLOG);
    while (iwarp_eq_get(p.eq, &e, 100) == IWARP_OK) {
        others += host_of(e.conn) != 1;
        all++;
        assert_int_equal(iwarp_reject(e.conn, NULL, 0), IWARP_OK);
        assert_int_equal(iwarp_conn_destroy(e.conn), IWARP_OK);
    }
    assert_int_equal(others, 3);
    assert_int_equal(all, BACKLOG);
    close_all(fd, MANY);
    close_all(other, 3);
    wait_for_none(&p);
    close_place(&p);
}

/* The application has taken the events of as many as may wait, and answers none of them. */
static void requests__taken_and_not_answered__the_newest_of_most_is_declined_for_others(
    void **state)
{
    struct iwarp_conn *waits[BACKLOG];
    int fd[BACKLOG];
    struct iwarp_event e;
    struct place p;

    (void)state;
    open_place(&p, NULL);
    for (int i = 0; i < BACKLOG; i++) {
        flood(&p, fd + i, 1, REQUEST_LEN);
        assert_int_equal(iwarp_eq_get(p.eq, &e, SOON_MS), IWARP_OK);
        waits[i] = e.conn;
    }
    int other = try_to_connect(&p, apart(&p, 2));
    say(other, request, REQUEST_LEN);
    assert_int_equal(iwarp_eq_get(p.eq, &e, SOON_MS), IWARP_OK);
    assert_int_equal(iwarp_conn_wait_end(waits[BACKLOG - 1], SOON_MS), IWARP_OK);
    const struct iwarp_fault *fault = iwarp_conn_fault(waits[BACKLOG - 1]);
    assert_int_equal(iwarp_fault_code(fault), IWARP_FAULT_MPA_BACKLOG);
    assert_int_equal(iwarp_conn_destroy(e.conn), IWARP_OK);
    for (int i = 0; i < BACKLOG; i++) {
        assert_int_equal(iwarp_conn_destroy(waits[i]), IWARP_OK);
    }
    close_all(fd, BACKLOG);
    close(other);
    wait_for_none(&p);
    close_place(&p);
}

/* Their events vanish with them, and so does the memory. */
static void requests__whose_peers_go_before_anybody_looks__leave_nothing(void **state)
{
    struct iwarp_event e;
    struct place p;

    (void)state;
    open_place(&p, NULL);
    for (int i = 0; i < 500; i++) {
        int fd;
        flood(&p, &fd, 1, REQUEST_LEN);
        if (i % 50 == 0) {
            progress_sleep(5000);
        }
        if (i % 2) {
            raw_reset(fd);
        } else {
            close(fd);
        }
    }
    wait_for_none(&p);
    assert_int_equal(iwarp_eq_get(p.eq, &e, 0), IWARP_AGAIN);
    close_place(&p);
}

/* The peer fills the window behind its Request, and closes: its FIN cannot come. */
static void request__behind_which_the_window_is_full__is_noticed_at_once(void **state)
{
    static const uint8_t zeros[65536];
    struct iwarp_event e;
    struct place p;
    int fd;

    (void)state;
    open_place(&p, NULL);
    flood(&p, &fd, 1, REQUEST_LEN);
    assert_int_equal(iwarp_eq_get(p.eq, &e, SOON_MS), IWARP_OK);
    int64_t begun = now_ms();
    for (int i = 0; i < 200; i++) {
        (void)send(fd, zeros, sizeof zeros, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    assert_int_equal(iwarp_conn_wait_end(e.conn, SOON_MS), IWARP_OK);
    assert_true(now_ms() - begun < SOON_MS);
    assert_int_equal(iwarp_fault_code(iwarp_conn_fault(e.conn)), IWARP_FAULT_MPA_BEFORE_REPLY);
    assert_int_equal(iwarp_conn_destroy(e.conn), IWARP_OK);
    close(fd);
    close_place(&p);
}

/* A few octets behind the Request wait in the kernel, and the peer's end is noticed behind them. */
static void request__with_octets_behind_it__waits_until_the_peer_goes(void **state)
{
    static const uint8_t zeros[5000];
    struct iwarp_event e;
    struct place p;
    int fd;

    (void)state;
    open_place(&p, NULL);
    flood(&p, &fd, 1, REQUEST_LEN);
    say(fd, zeros, sizeof zeros);
    assert_int_equal(iwarp_eq_get(p.eq, &e, SOON_MS), IWARP_OK);
    assert_int_equal(iwarp_conn_wait_end(e.conn, 200), IWARP_AGAIN);
    close(fd);
    assert_int_equal(iwarp_conn_wait_end(e.conn, SOON_MS), IWARP_OK);
    assert_int_equal(iwarp_fault_code(iwarp_conn_fault(e.conn)), IWARP_FAULT_MPA_GONE);
    assert_int_equal(iwarp_conn_destroy(e.conn), IWARP_OK);
    close_place(&p);
}

/* Reject Requests until as many have come; false: not soon. */
static bool reject_requests(const struct place *p, int n)
{
    struct iwarp_event e;

    for (int i = 0; i < n; i++) {
        if (iwarp_eq_get(p->eq, &e, SOON_MS) != IWARP_OK) {
            return false;
        }
        assert_int_equal(iwarp_reject(e.conn, NULL, 0), IWARP_OK);
        assert_int_equal(iwarp_conn_destroy(e.conn), IWARP_OK);
    }
    return true;
}

/* All of one address come at once, each with a whole Request: none is ended for another. */
static void start_ups__of_an_honest_crowd_beyond_max_half_open__all_come_through(void **state)
{
    struct iwarp_device_options o;
    struct place p;
    int fd[48];

    (void)state;
    iwarp_device_options_init(&o);
    o.max_half_open = 8;
    open_place_on(&p, &o, NULL);
    for (int i = 0; i < 48; i++) {
        fd[i] = try_to_connect(&p, 1);
        say(fd[i], request, REQUEST_LEN);
    }
    assert_true(reject_requests(&p, 48));
    assert_int_equal(stats_of(&p).turned_away, 0);
    close_all(fd, 48);
    wait_for_none(&p);
    close_place(&p);
}

/* Requests of one address take all connections that there may be, while the application is busy. */
static void connections__all_taken_by_one_address__are_given_to_others(void **state)
{
    struct iwarp_device_options o;
    struct iwarp_event e;
    struct place p;
    int fd[60], other[5];
    unsigned others = 0;

    (void)state;
    iwarp_device_options_init(&o);
    o.max_connections = 40;
    open_place_on(&p, &o, NULL);
    flood(&p, fd, 60, REQUEST_LEN);
    for (unsigned i = 0, host = 2; i < 5; i++) {
        uint64_t before = stats_of(&p).turned_away;
        host = apart(&p, host);
        other[i] = try_to_connect(&p, host++);
        say(other[i], request, REQUEST_LEN);
        for (int k = 0; stats_of(&p).turned_away == before; k++) {
            assert_true(k < SOON_MS);
            progress_sleep(1000);
        }
    }
    progress_sleep(50000);
    assert_true(stats_of(&p).connections <= 40);
    while (iwarp_eq_get(p.eq, &e, 0) == IWARP_OK) {
        others += host_of(e.conn) != 1;
        (void)iwarp_conn_destroy(e.conn);
    }
    assert_int_equal(others, 5);
    close_all(fd, 60);
    close_all(other, 5);
    wait_for_none(&p);
    close_place(&p);
}

/* Few places, many workers: connections are dropped by one worker while another begins them. */
static void start_ups__dropped_on_many_workers__are_ended_once(void **state)
{
    struct iwarp_device_options o;
    struct place p;

    (void)state;
    iwarp_device_options_init(&o);
    o.max_half_open = 2;
    o.workers = progress_is_embedded() ? 1 : 4;
    open_place_on(&p, &o, NULL);
    int64_t begun = now_ms();
    for (int i = 0; now_ms() - begun < 2000; i++) {
        int fd[8];
        for (int k = 0; k < 8; k++) {
            fd[k] = try_to_connect(&p, 1 + (unsigned)k % 3);
            (void)try_to_say(fd[k], request, k % 4 == 3 ? REQUEST_LEN : (size_t)k);
        }
        progress_sleep(i % 4 ? 1000 : 210000);
        for (int k = 0; k < 8; k++) {
            if (k % 2) {
                raw_reset(fd[k]);
            } else {
                close(fd[k]);
            }
        }
    }
    struct iwarp_event e;
    while (iwarp_eq_get(p.eq, &e, 300) == IWARP_OK) {
        (void)iwarp_conn_destroy(e.conn);
    }
    wait_for_none(&p);
    close_place(&p);
}

/* --- descriptors ----------------------------------------------------------------------------- */

#define FEW 200 /* descriptors of this process; the peers are in another one */

/*
 * 500 that say so much of a Request; then whole ones of other addresses, one of which may share
 * with the 500 by chance. A Reply to one of them: exit status 0.
 */
static void crowd_process(const struct place *p, int go, size_t octets)
{
    uint8_t reply[20];
    char octet;
    struct pollfd goods[3];

    signal(SIGPIPE, SIG_IGN);
    alarm(60);
    if (read(go, &octet, 1) != 1) {
        _exit(3);
    }
    for (int i = 0; i < 500; i++) {
        (void)send(raw_connect(&p->addr), request, octets, MSG_NOSIGNAL);
    }
    for (uint32_t host = 2; host < 5; host++) {
        const struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr = place_of_host(host)};
        int good = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        goods[host - 2] = (struct pollfd){.fd = good, .events = POLLIN};
        bind_address(good, &from);
        if (connect(good, (const struct sockaddr *)&p->addr, sizeof p->addr) != 0) {
            _exit(4);
        }
        raw_send(good, request, REQUEST_LEN);
    }
    (void)poll(goods, 3, -1);
    int answered = goods[0].revents ? 0 : goods[1].revents ? 1 : 2;
    raw_read(goods[answered].fd, reply, sizeof reply, "Reply");
    _exit(memcmp(reply, "MPA ID Rep Frame", 16) == 0 ? 0 : 5);
}

/* The application takes events and answers the good one alone. */
static void use_up_descriptors(size_t octets)
{
    static struct iwarp_conn *holds[MANY];
    struct rlimit before;
    struct place p;
    unsigned held = 0;
    int go[2], status;

    open_place(&p, NULL);
    assert_int_equal(pipe(go), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        crowd_process(&p, go[0], octets);
    }
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    const struct rlimit few = {FEW, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    assert_int_equal(write(go[1], "x", 1), 1);
    struct iwarp_event e = {.conn = NULL};
    int64_t begun = now_ms();
    for (bool came = false; !came && now_ms() - begun < STARTUP_MS / 4;) {
        if (iwarp_eq_get(p.eq, &e, STARTUP_MS / 4) == IWARP_OK) {
            came = host_of(e.conn) != 1;
            if (!came) {
                holds[held++] = e.conn;
            }
        }
    }
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_true(now_ms() - begun < STARTUP_MS / 4);
    assert_int_equal(iwarp_reject(e.conn, NULL, 0), IWARP_OK);
    assert_int_equal(iwarp_conn_destroy(e.conn), IWARP_OK);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    while (held > 0) {
        assert_int_equal(iwarp_conn_destroy(holds[--held]), IWARP_OK);
    }
    while (iwarp_eq_get(p.eq, &e, 0) == IWARP_OK) {
        (void)iwarp_conn_destroy(e.conn);
    }
    wait_for_none(&p);
    close_place(&p);
    close(go[0]);
    close(go[1]);
}

static void descriptors__used_up_by_silent_peers__come_back(void **state)
{
    (void)state;
    if (progress_is_embedded()) {
        skip(); /* the device belongs to the thread that opened it: this one, after the fork */
    }
    use_up_descriptors(1);
}

static void descriptors__used_up_by_requests__come_back(void **state)
{
    (void)state;
    if (progress_is_embedded()) {
        skip();
    }
    use_up_descriptors(REQUEST_LEN);
}

/* --- admission ------------------------------------------------------------------------------- */

struct asked {
    unsigned times;
    in_addr_t wanted;
};

static bool only_one(const struct sockaddr *peer, socklen_t peer_len, void *arg)
{
    struct asked *asked = arg;
    struct sockaddr_in in;

    assert_int_equal(peer_len, sizeof in);
    memcpy(&in, peer, sizeof in);
    __atomic_add_fetch(&asked->times, 1, __ATOMIC_RELAXED);
    return in.sin_addr.s_addr == asked->wanted;
}

/* Resets come from the listener itself: the place that they would take stays free. */
static void expect_resets(struct place *p, int times)
{
    for (int i = 0; i < times; i++) {
        char octet;
        int fd = try_to_connect(p, 1), n;
        while ((n = (int)recv(fd, &octet, 1, MSG_DONTWAIT)) < 0 && errno == EAGAIN) {
            progress_sleep(1000);
        }
        assert_int_equal(n, -1);
        assert_int_equal(errno, ECONNRESET);
        close(fd);
    }
}

static void admit__other_addresses__are_reset_before_they_take_a_place(void **state)
{
    struct asked asked = {0, place_of_host(2).s_addr};
    struct iwarp_conn_options o;
    struct iwarp_event e;
    struct place p;

    (void)state;
    iwarp_conn_options_init(&o);
    o.admit = only_one;
    o.admit_arg = &asked;
    open_place(&p, &o);
    expect_resets(&p, 100);
    good_peer(&p, 2);
    assert_int_equal(__atomic_load_n(&asked.times, __ATOMIC_RELAXED), 101);
    struct iwarp_device_stats s = stats_of(&p);
    assert_int_equal(s.refused, 100);
    assert_int_equal(s.arrivals, 101);
    assert_int_equal(iwarp_eq_get(p.eq, &e, 0), IWARP_AGAIN);
    wait_for_none(&p);
    close_place(&p);
}

static void allow__other_networks__are_reset_before_they_take_a_place(void **state)
{
    struct asked asked = {0, place_of_host(2).s_addr};

    (void)state;
    for (int by_name = 0; by_name < 2; by_name++) {
        struct in_addr second = place_of_host(2);
        struct iwarp_conn_options o;
        struct place p;
        char one[INET_ADDRSTRLEN], text[80];
        inet_ntop(AF_INET, &second, one, sizeof one);
        snprintf(text, sizeof text, "192.0.2.0/24,%s,2001:db8::/32", one);
        iwarp_conn_options_init(&o);
        o.admit = only_one;
        o.admit_arg = &asked;
        asked.times = 0;
        o.allow = by_name ? NULL : text;
        if (by_name) {
            setenv("IWARP_ALLOW", text, 1);
        }
        open_place(&p, &o);
        unsetenv("IWARP_ALLOW");
        expect_resets(&p, 20);
        good_peer(&p, 2);
        assert_int_equal(__atomic_load_n(&asked.times, __ATOMIC_RELAXED), 1);
        assert_int_equal(stats_of(&p).refused, 20);
        wait_for_none(&p);
        close_place(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allow__other_networks__are_reset_before_they_take_a_place),
        cmocka_unit_test(start_ups__thousands_of_one_address_with_one_octet_each__keep_nobody_out),
        cmocka_unit_test(requests__thousands_that_nobody_answers__are_bounded_and_keep_nobody_out),
        cmocka_unit_test(
            requests__taken_and_not_answered__the_newest_of_most_is_declined_for_others),
        cmocka_unit_test(requests__whose_peers_go_before_anybody_looks__leave_nothing),
        cmocka_unit_test(request__behind_which_the_window_is_full__is_noticed_at_once),
        cmocka_unit_test(request__with_octets_behind_it__waits_until_the_peer_goes),
        cmocka_unit_test(start_ups__of_an_honest_crowd_beyond_max_half_open__all_come_through),
        cmocka_unit_test(connections__all_taken_by_one_address__are_given_to_others),
        cmocka_unit_test(start_ups__dropped_on_many_workers__are_ended_once),
        cmocka_unit_test(descriptors__used_up_by_silent_peers__come_back),
        cmocka_unit_test(descriptors__used_up_by_requests__come_back),
        cmocka_unit_test(admit__other_addresses__are_reset_before_they_take_a_place),
    };

    return cmocka_run_group_tests_name("hostile_admit", tests, NULL, NULL);
}
