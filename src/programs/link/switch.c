/* SPDX-License-Identifier: BSD-2-Clause */
/* See switch.h. */
#include "switch.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define PORTS     64
#define ADDRESSES 256
#define BATCH     64 /* frames from one port before the others have their turn */
#define BUFFER    (1 << 20)
#define HEADER    14

struct address {
    uint8_t mac[6];
    int port; /* -1: unused */
};

struct lan {
    struct link_cable *cable;
    int listener;
    struct link_queue port[PORTS]; /* fd -1: nobody */
    struct address address[ADDRESSES];
    unsigned next_address;
    uint8_t frame[LINK_FRAME_MAX];
};

static volatile sig_atomic_t ended;

static void on_signal(int number)
{
    ended = number;
}

/* --- forwarding ------------------------------------------------------------------------------ */

static struct address *find(struct lan *l, const uint8_t *mac)
{
    for (int i = 0; i < ADDRESSES; i++) {
        if (l->address[i].port >= 0 && memcmp(l->address[i].mac, mac, 6) == 0) {
            return &l->address[i];
        }
    }
    return NULL;
}

/* The oldest goes for a new one. */
static void learn(struct lan *l, const uint8_t *mac, int port)
{
    struct address *a = find(l, mac);

    if (!a) {
        a = &l->address[l->next_address++ % ADDRESSES];
        memcpy(a->mac, mac, 6);
    }
    a->port = port;
}

static void forward(struct lan *l, int from, size_t octets)
{
    if (octets < HEADER) {
        return;
    }
    if (!(l->frame[6] & 1)) {
        learn(l, l->frame + 6, from);
    }
    const struct address *to = l->frame[0] & 1 ? NULL : find(l, l->frame);
    for (int i = 0; i < PORTS; i++) {
        if (l->port[i].fd >= 0 && i != from && (!to || to->port == i)) {
            link_send(l->cable, &l->port[i], l->frame, octets);
        }
    }
}

/* --- ports ----------------------------------------------------------------------------------- */

static void detach(struct lan *l, int port)
{
    close(l->port[port].fd);
    link_empty(&l->port[port]);
    l->port[port].fd = -1;
    for (int i = 0; i < ADDRESSES; i++) {
        if (l->address[i].port == port) {
            l->address[i].port = -1;
        }
    }
}

static void attach(struct lan *l)
{
    const int octets = BUFFER;
    int fd = accept4(l->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK), i;

    if (fd < 0) {
        return;
    }
    for (i = 0; i < PORTS && l->port[i].fd >= 0; i++) {
    }
    if (i == PORTS) {
        close(fd); /* its end sees that the link has ended */
        return;
    }
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &octets, sizeof octets);
    l->port[i] = (struct link_queue){.fd = fd};
}

static void receive(struct lan *l, int port)
{
    for (int i = 0; i < BATCH; i++) {
        ssize_t n = recv(l->port[port].fd, l->frame, sizeof l->frame, MSG_DONTWAIT);
        if (n > 0) {
            forward(l, port, (size_t)n);
        } else if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            return;
        } else {
            detach(l, port);
            return;
        }
    }
}

/* --- the loop -------------------------------------------------------------------------------- */

static void wait_for_something(struct lan *l, struct pollfd fds[PORTS + 1], const sigset_t *mask)
{
    uint64_t due = UINT64_MAX;
    struct timespec ts;

    fds[PORTS] = (struct pollfd){.fd = l->listener, .events = POLLIN};
    for (int i = 0; i < PORTS; i++) {
        const struct link_queue *q = &l->port[i];
        fds[i] =
            (struct pollfd){.fd = q->fd, .events = (short)(q->full ? POLLIN | POLLOUT : POLLIN)};
        uint64_t own = q->fd >= 0 ? link_due(q) : UINT64_MAX;
        due = own < due ? own : due;
    }
    if (due != UINT64_MAX) {
        uint64_t now = link_now_ns(), left = due > now ? due - now : 0;
        ts = (struct timespec){(time_t)(left / 1000000000u), (long)(left % 1000000000u)};
    }
    if (ppoll(fds, PORTS + 1, due == UINT64_MAX ? NULL : &ts, mask) < 0) {
        for (int i = 0; i <= PORTS; i++) {
            fds[i].revents = 0;
        }
    }
}

static void run(struct lan *l, const sigset_t *mask)
{
    struct pollfd fds[PORTS + 1];

    while (!ended) {
        wait_for_something(l, fds, mask);
        for (int i = 0; i < PORTS; i++) {
            if (l->port[i].fd >= 0 && fds[i].fd == l->port[i].fd && fds[i].revents) {
                receive(l, i);
            }
        }
        for (int i = 0; i < PORTS; i++) {
            if (l->port[i].fd >= 0 && !link_flush(&l->port[i])) {
                detach(l, i);
            }
        }
        if (fds[PORTS].revents) {
            attach(l);
        }
    }
}

/* A socket that nobody answers was left behind by a switch that was killed. */
static int offer(const char *path)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    struct stat st;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (strlen(path) >= sizeof un.sun_path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    strcpy(un.sun_path, path);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&un, sizeof un) != 0 &&
        errno == ECONNREFUSED && stat(path, &st) == 0 && S_ISSOCK(st.st_mode)) {
        unlink(path);
    }
    if (fd >= 0) {
        close(fd);
        fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    }
    if (fd < 0 || bind(fd, (const struct sockaddr *)&un, sizeof un) != 0 ||
        listen(fd, PORTS) != 0) {
        return -1;
    }
    return fd;
}

/* Signals arrive in ppoll only, so none is overlooked before it. */
static void take_signals(sigset_t *mask)
{
    struct sigaction action = {.sa_handler = on_signal};
    sigset_t blocked;

    sigemptyset(&blocked);
    sigaddset(&blocked, SIGINT);
    sigaddset(&blocked, SIGTERM);
    sigprocmask(SIG_BLOCK, &blocked, mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

int link_switch(const char *path, struct link_cable *cable, void (*ready)(const char *path))
{
    static struct lan l;
    sigset_t mask;

    l.cable = cable;
    for (int i = 0; i < PORTS; i++) {
        l.port[i].fd = -1;
    }
    for (int i = 0; i < ADDRESSES; i++) {
        l.address[i].port = -1;
    }
    take_signals(&mask);
    l.listener = offer(path);
    if (l.listener < 0) {
        fprintf(stderr, "iwarp-link: %s: %s\n", path, strerror(errno));
        return 1;
    }
    ready(path);
    run(&l, &mask);
    unlink(path);
    for (int i = 0; i < PORTS; i++) {
        if (l.port[i].fd >= 0) {
            detach(&l, i);
        }
    }
    close(l.listener);
    return 0;
}
