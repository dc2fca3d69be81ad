/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Links over descriptors that keep the borders of frames: a socket of AF_UNIX to a switch, a tap,
 * or either of them handed in.
 *
 * The socket to the switch is of type SOCK_SEQPACKET: the switch learns of ends that come and go by
 * accept and end of file, ends need no names of their own, and a full socket says so (a datagram
 * socket would count frames, ten of them in older kernels, and not octets).
 */
#include "base/fault.h"
#include "base/process.h"
#include "transport/lwip/link.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define BUFFER_OCTETS (1 << 20) /* asked for, in each direction; the kernel may give less */

struct packet {
    struct iwarp_link link;
    bool socket;
};

static struct packet *packet_of(struct iwarp_link *link)
{
    return (struct packet *)(void *)link;
}

/* End of file is the end of the link. */
static ssize_t packet_receive(struct iwarp_link *link, void *frame, size_t size)
{
    ssize_t n;

    do {
        n = packet_of(link)->socket ? recv(link->fd, frame, size, MSG_DONTWAIT)
                                    : read(link->fd, frame, size);
    } while (n < 0 && errno == EINTR);
    return n > 0 ? n : n == 0 ? -ENOTCONN : -errno;
}

/*
 * A tap that is down refuses frames with EIO: they are lost, as on a cable that is not plugged in.
 * What is short of memory is full for now.
 */
static int packet_send(struct iwarp_link *link, const struct iovec *iov, int n)
{
    struct msghdr msg;
    ssize_t sent;

    memset(&msg, 0, sizeof msg);
    memcpy(&msg.msg_iov, &iov, sizeof iov); /* sendmsg does not write to it */
    msg.msg_iovlen = (size_t)n;
    do {
        sent = packet_of(link)->socket ? sendmsg(link->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL)
                                       : writev(link->fd, iov, n);
    } while (sent < 0 && errno == EINTR);
    if (sent >= 0 || errno == EIO) {
        return 0;
    }
    return errno == ENOBUFS || errno == ENOMEM ? -EAGAIN : -errno;
}

static void packet_close(struct iwarp_link *link)
{
    iwarp_process_close(link->fd);
    free(link);
}

static const struct iwarp_link_ops packet_ops = {
    .receive = packet_receive, .send = packet_send, .close = packet_close};

/* -1: no socket. */
static int type_of(int fd)
{
    int type;
    socklen_t len = sizeof type;

    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 ? type : -1;
}

/* Of frames, and nothing in front of them. */
static bool is_tap(int fd)
{
    struct ifreq request = {0};

    return ioctl(fd, TUNGETIFF, &request) == 0 && (request.ifr_flags & IFF_TAP) &&
           (request.ifr_flags & IFF_NO_PI) && !(request.ifr_flags & IFF_VNET_HDR);
}

/* The descriptor is the link's from now on; a forked child closes it. */
static enum iwarp_status wrap(int fd, struct iwarp_link **link)
{
    const int octets = BUFFER_OCTETS;
    struct packet *p = NULL;
    int type = type_of(fd), flags = fcntl(fd, F_GETFL);
    bool good = type == SOCK_SEQPACKET || type == SOCK_DGRAM || (type < 0 && is_tap(fd));

    if (!good || flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) {
        close(fd);
        return iwarp_fail(IWARP_MISUSE,
                          "a link has to keep the borders of frames: expected a socket of type "
                          "SEQPACKET or DGRAM, or a tap (IFF_TAP | IFF_NO_PI)");
    }
    p = calloc(1, sizeof *p);
    if (!p) {
        close(fd);
        return iwarp_fail(IWARP_NO_MEMORY, "no memory for a link");
    }
    p->socket = type >= 0;
    if (p->socket) {
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &octets, sizeof octets);
    }
    p->link.ops = &packet_ops;
    p->link.fd = fd;
    iwarp_process_add_fd(fd);
    *link = &p->link;
    return IWARP_OK;
}

enum iwarp_status iwarp_link_unix(const char *path, struct iwarp_link **link)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    strncpy(un.sun_path, path, sizeof un.sun_path - 1);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&un, sizeof un) != 0) {
        int error = errno;
        if (fd >= 0) {
            close(fd);
        }
        return iwarp_fail(IWARP_TRANSPORT,
                          "no switch at %s: %s (build/bin/iwarp-link PATH offers one)", path,
                          strerror(error));
    }
    return wrap(fd, link);
}

enum iwarp_status iwarp_link_tap(const char *name, struct iwarp_link **link)
{
    struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI};
    int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC);

    strncpy(request.ifr_name, name, sizeof request.ifr_name - 1);
    if (fd < 0 || ioctl(fd, TUNSETIFF, &request) != 0) {
        int error = errno;
        if (fd >= 0) {
            close(fd);
        }
        return iwarp_fail(IWARP_TRANSPORT, "no tap interface %s: %s", name, strerror(error));
    }
    return wrap(fd, link);
}

/* The application keeps its descriptor, and may close it. */
enum iwarp_status iwarp_link_fd(int fd, struct iwarp_link **link)
{
    int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);

    if (own < 0) {
        return iwarp_fail(IWARP_TRANSPORT, "descriptor %d cannot be a link: %s", fd,
                          strerror(errno));
    }
    return wrap(own, link);
}

enum iwarp_status iwarp_link_open(const struct iwarp_lw_options *o, struct iwarp_link **link)
{
    switch (o->kind) {
    case IWARP_LW_UNIX:
        return iwarp_link_unix(o->place, link);
    case IWARP_LW_SHM:
        return iwarp_link_ring(o->place, IWARP_LW_FRAME(o->mtu), link);
    case IWARP_LW_TAP:
        return iwarp_link_tap(o->place, link);
    case IWARP_LW_XDP:
        return iwarp_link_xdp(o->place, IWARP_LW_FRAME(o->mtu), link);
    case IWARP_LW_FD:
        break;
    }
    return iwarp_link_fd(o->fd, link);
}
