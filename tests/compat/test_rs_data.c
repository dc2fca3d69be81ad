/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Streams of octets: sizes of any kind, full buffers, many threads, many sockets. Each octet is
 * checked.
 */
#include "rsockets.h"

#include <stdatomic.h>
#include <sys/resource.h>

struct way {
    int fd;
    unsigned seed;
    uint64_t total;
    size_t most;       /* octets of a call */
    unsigned pause_us; /* of the reader, now and then */
};

/* A size from 1 to most, small ones often. */
static size_t size_of(unsigned *random, size_t most)
{
    *random = *random * 1103515245u + 12345u;
    size_t size = 1 + (*random >> 8) % most;

    return *random & 0x40000000 ? size : 1 + size % 40;
}

static void *write_way(void *arg)
{
    struct way *w = arg;
    uint8_t *buf = malloc(w->most);
    unsigned random = w->seed;

    for (uint64_t at = 0; at < w->total;) {
        size_t size = size_of(&random, w->most), n;
        size = w->total - at < size ? (size_t)(w->total - at) : size;
        fill(buf, size, at, w->seed);
        for (n = 0; n < size;) {
            ssize_t went = rsend(w->fd, buf + n, size - n, 0);
            if (went < 0 && errno == EAGAIN) {
                (void)polled(w->fd, POLLOUT, RS_WAIT_MS);
                continue;
            }
            assert_true(went > 0);
            n += (size_t)went;
        }
        at += size;
    }
    free(buf);
    works(rshutdown(w->fd, SHUT_WR));
    return NULL;
}

static void *read_way(void *arg)
{
    struct way *w = arg;
    uint8_t *buf = malloc(w->most);
    unsigned random = w->seed + 1, turns = 0;
    uint64_t at = 0;

    for (;;) {
        ssize_t came = rrecv(w->fd, buf, size_of(&random, w->most), 0);
        if (came < 0 && errno == EAGAIN) {
            (void)polled(w->fd, POLLIN, RS_WAIT_MS);
            continue;
        }
        works(came);
        if (came == 0) {
            break;
        }
        check(buf, (size_t)came, at, w->seed);
        at += (uint64_t)came;
        if (w->pause_us && ++turns % 16 == 0) {
            usleep(w->pause_us);
        }
    }
    assert_int_equal(at, w->total);
    free(buf);
    return NULL;
}

/* Both ways of a pair at once, and then the end of both. */
static void stream_both(int fds[2], uint64_t total, size_t most, unsigned pause_us)
{
    pthread_t threads[4];
    struct way ways[4];

    for (unsigned i = 0; i < 4; i++) {
        ways[i] = (struct way){fds[i / 2 ^ (i & 1)], 77 + i / 2, total, most, pause_us};
        assert_int_equal(pthread_create(&threads[i], NULL, i & 1 ? read_way : write_way, &ways[i]),
                         0);
    }
    for (unsigned i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
    }
    close_pair(fds);
}

static void streams__of_random_sizes__arrive_whole(void **state)
{
    int fds[2];

    (void)state;
    make_pair(fds);
    stream_both(fds, 8000000, 70000, 0);
    make_pair(fds);
    stream_both(fds, 200000, 50, 0);
}

static void streams__that_do_not_block__arrive_whole(void **state)
{
    int fds[2];

    (void)state;
    make_pair(fds);
    set_nonblocking(fds[0], true);
    set_nonblocking(fds[1], true);
    stream_both(fds, 4000000, 30000, 0);
}

static void streams__with_a_slow_reader__arrive_whole(void **state)
{
    int fds[2];

    (void)state;
    make_pair(fds);
    stream_both(fds, 3000000, 20000, 2000);
}

static void streams__through_small_buffers_and_queues__arrive_whole(void **state)
{
    int fds[2], listener, small = 4096, few = 12;
    uint16_t port;

    (void)state;
    for (unsigned i = 0; i < 3; i++) { /* of the client, of the server, of both */
        listener = listener_at(&port, 1);
        fds[0] = works(rsocket(AF_INET, SOCK_STREAM, 0));
        for (unsigned k = 0; k < 2; k++) {
            int fd = k ? listener : fds[0];
            if (i == 2 || i == k) {
                works(rsetsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small));
                works(rsetsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small));
                works(rsetsockopt(fd, SOL_RDMA, RDMA_SQSIZE, &few, sizeof few));
                works(rsetsockopt(fd, SOL_RDMA, RDMA_RQSIZE, &few, sizeof few));
            }
        }
        connect_through(listener, port, fds);
        works(rclose(listener));
        stream_both(fds, 1000000, 20000, 0);
    }
}

static void writer__whose_peer_does_not_read__is_full_and_goes_on_later(void **state)
{
    static uint8_t buf[10000];
    uint64_t sent = 0, got = 0;
    ssize_t n;
    int fds[2];

    (void)state;
    make_pair(fds);
    for (unsigned quiet = 0; quiet < 3;) {
        fill(buf, sizeof buf, sent, 5);
        n = rsend(fds[0], buf, sizeof buf, MSG_DONTWAIT);
        if (n < 0) {
            assert_int_equal(errno, EAGAIN);
            quiet += polled(fds[0], POLLOUT, 30) == 0;
            continue;
        }
        sent += (uint64_t)n;
        assert_true(sent < 1 << 22);
    }
    assert_true(sent >= 1 << 17);
    works(rsetsockopt(fds[0], SOL_SOCKET, SO_SNDTIMEO, &(struct timeval){0, 20000},
                      sizeof(struct timeval)));
    fails(rsend(fds[0], buf, 1, 0), EAGAIN);
    while (got < sent) {
        n = works(rrecv(fds[1], buf, sizeof buf, 0));
        check(buf, (size_t)n, got, 5);
        got += (uint64_t)n;
    }
    assert_int_equal(polled(fds[0], POLLOUT, RS_WAIT_MS), POLLOUT);
    send_octets(fds[0], "more", 4);
    expect_octets(fds[1], "more", 4);
    close_pair(fds);
}

/* --- several threads in rpoll ---------------------------------------------------------------- */

#define POLLERS 4
#define TURNS   50

struct shared {
    int fds[2], pipes[2];
    _Atomic unsigned got;
};

static void *poll_mixed(void *arg)
{
    struct shared *sh = arg;
    char c;

    while (atomic_load(&sh->got) < 2 * TURNS) {
        struct pollfd p[2] = {{sh->fds[1], POLLIN, 0}, {sh->pipes[0], POLLIN, 0}};
        works(rpoll(p, 2, 20));
        if ((p[0].revents & POLLIN) && rrecv(sh->fds[1], &c, 1, MSG_DONTWAIT) == 1) {
            atomic_fetch_add(&sh->got, 1);
        }
        if ((p[1].revents & POLLIN) && read(sh->pipes[0], &c, 1) == 1) {
            atomic_fetch_add(&sh->got, 1);
        }
    }
    return NULL;
}

static void rpoll__of_a_mix_in_several_threads__misses_nothing(void **state)
{
    struct shared sh = {.got = 0};
    pthread_t threads[POLLERS];

    (void)state;
    make_pair(sh.fds);
    works(pipe2(sh.pipes, O_NONBLOCK));
    for (unsigned i = 0; i < POLLERS; i++) {
        pthread_create(&threads[i], NULL, poll_mixed, &sh);
    }
    for (unsigned i = 0; i < TURNS; i++) {
        send_octets(sh.fds[0], "x", 1);
        assert_int_equal(write(sh.pipes[1], "y", 1), 1);
        usleep(500);
    }
    for (unsigned i = 0; i < POLLERS; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(sh.got, 2 * TURNS);
    close(sh.pipes[0]);
    close(sh.pipes[1]);
    close_pair(sh.fds);
}

static void rpoll__with_no_time_limit__is_woken_by_each_kind(void **state)
{
    struct pollfd p[3];
    int fds[2], pipes[2];
    char c;

    (void)state;
    make_pair(fds);
    works(pipe(pipes));
    for (unsigned i = 0; i < 2; i++) {
        p[0] = (struct pollfd){fds[1], POLLIN, 0};
        p[1] = (struct pollfd){pipes[0], POLLIN, 0};
        p[2] = (struct pollfd){-1, POLLIN, 0};
        if (i == 0) {
            send_octets(fds[0], "x", 1);
        } else {
            assert_int_equal(write(pipes[1], "x", 1), 1);
        }
        assert_int_equal(rpoll(p, 3, -1), 1);
        assert_int_equal(p[i].revents, POLLIN);
        assert_int_equal(p[!i].revents, 0);
        assert_int_equal(i ? read(pipes[0], &c, 1) : rread(fds[1], &c, 1), 1);
    }
    close(pipes[0]);
    close(pipes[1]);
    close_pair(fds);
}

/* --- many ------------------------------------------------------------------------------------ */

static void sockets__a_thousand_at_once__work(void **state)
{
    struct rlimit limit;
    uint16_t port;
    unsigned count = 500;
    int(*fds)[2] = calloc(count, sizeof *fds);

    (void)state;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur < 3000) {
        count = (unsigned)limit.rlim_cur / 6; /* a number and a connection each */
    }
    int listener = listener_at(&port, 64);
    for (unsigned i = 0; i < count; i++) {
        fds[i][0] = works(rsocket(AF_INET, SOCK_STREAM, 0));
        connect_through(listener, port, fds[i]);
    }
    for (unsigned i = 0; i < count; i++) {
        send_octets(fds[i][i & 1], &i, sizeof i);
    }
    for (unsigned i = 0; i < count; i++) {
        expect_octets(fds[i][!(i & 1)], &i, sizeof i);
    }
    for (unsigned i = 0; i < count; i++) {
        close_pair(fds[i]);
    }
    works(rclose(listener));
    free(fds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams__of_random_sizes__arrive_whole),
        cmocka_unit_test(streams__that_do_not_block__arrive_whole),
        cmocka_unit_test(streams__with_a_slow_reader__arrive_whole),
        cmocka_unit_test(streams__through_small_buffers_and_queues__arrive_whole),
        cmocka_unit_test(writer__whose_peer_does_not_read__is_full_and_goes_on_later),
        cmocka_unit_test(rpoll__of_a_mix_in_several_threads__misses_nothing),
        cmocka_unit_test(rpoll__with_no_time_limit__is_woken_by_each_kind),
        cmocka_unit_test(sockets__a_thousand_at_once__work),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
