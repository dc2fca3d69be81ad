/* SPDX-License-Identifier: BSD-2-Clause */
/* See relay.h. */
#include "relay.h"

#include "raw_peer.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A peer that has gone takes nothing: its end is seen by the next read. */
static void pass(int fd, const uint8_t *p, size_t n)
{
    while (n > 0) {
        ssize_t sent = send(fd, p, n, MSG_NOSIGNAL);
        if (sent <= 0) {
            return;
        }
        p += sent;
        n -= (size_t)sent;
    }
}

static void keep(struct relay *r, int direction, const uint8_t *p, size_t n)
{
    size_t len = r->len[direction], room = RELAY_KEPT - len;

    n = n < room ? n : room;
    memcpy(r->kept[direction] + len, p, n);
    r->len[direction] = len + n;
}

/* False: nothing more comes in this direction. */
static bool move(struct relay *r, int direction)
{
    uint8_t data[16384];
    int to = r->fd[1 - direction];
    ssize_t n = recv(r->fd[direction], data, sizeof data, 0);

    if (n <= 0) {
        shutdown(to, SHUT_WR);
        return false;
    }
    keep(r, direction, data, (size_t)n);
    switch ((enum relay_harm)atomic_exchange(&r->harm[direction], RELAY_NONE)) {
    case RELAY_FLIP:
        data[n - 1] ^= 1;
        break;
    case RELAY_REPEAT:
        pass(to, data, (size_t)n);
        break;
    case RELAY_DROP:
        return true;
    case RELAY_CUT:
        shutdown(r->fd[0], SHUT_WR);
        shutdown(r->fd[1], SHUT_WR);
        return true;
    case RELAY_NONE:
        break;
    }
    pass(to, data, (size_t)n);
    return true;
}

static void *run(void *arg)
{
    struct relay *r = arg;
    struct pollfd fds[3] = {{.fd = r->fd[0], .events = POLLIN},
                            {.fd = r->fd[1], .events = POLLIN},
                            {.fd = r->stop[0], .events = POLLIN}};

    while (poll(fds, 3, -1) > 0 && !fds[2].revents) {
        for (int i = 0; i < 2; i++) {
            if (fds[i].revents && !move(r, i)) {
                fds[i].fd = -1;
            }
        }
    }
    return NULL;
}

static void join(int *near_end, int *far_end)
{
    struct sockaddr_in at;
    int listener = raw_listen(&at);

    *near_end = raw_connect(&at);
    *far_end = raw_accept(listener);
    close(listener);
}

void relay_open(struct relay *r, int *a, int *b)
{
    memset(r, 0, sizeof *r);
    join(a, &r->fd[0]);
    join(&r->fd[1], b);
    for (int i = 0; i < 2; i++) {
        r->kept[i] = malloc(RELAY_KEPT);
        assert_non_null(r->kept[i]);
    }
    assert_int_equal(pipe(r->stop), 0);
    assert_int_equal(pthread_create(&r->thread, NULL, run, r), 0);
}

void relay_close(struct relay *r)
{
    assert_int_equal(write(r->stop[1], "", 1), 1);
    pthread_join(r->thread, NULL);
    for (int i = 0; i < 2; i++) {
        close(r->fd[i]);
        close(r->stop[i]);
    }
}

void relay_free(struct relay *r)
{
    free(r->kept[0]);
    free(r->kept[1]);
}

bool relay_saw(const struct relay *r, int direction, const void *what, size_t len)
{
    return memmem(r->kept[direction], r->len[direction], what, len) != NULL;
}
