/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * relay NAME NAME: makes two tap interfaces and passes on what each sends to the other, so that
 * kernel TCP is at both ends of what lwIP is at one end of.
 */
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static int tap(const char *name)
{
    struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI};
    int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);

    strncpy(request.ifr_name, name, sizeof request.ifr_name - 1);
    return fd >= 0 && ioctl(fd, TUNSETIFF, &request) == 0 ? fd : -1;
}

/* False: none is there, or the interface is down.  A frame that cannot be passed on is lost. */
static bool pass(int from, int to)
{
    static char frame[65536];
    ssize_t n = read(from, frame, sizeof frame);

    return n > 0 && write(to, frame, (size_t)n) <= n;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: relay NAME NAME\n");
        return 2;
    }
    int fd[2] = {tap(argv[1]), tap(argv[2])};
    if (fd[0] < 0 || fd[1] < 0) {
        perror("relay: no tap");
        return 1;
    }
    for (;;) {
        struct pollfd fds[2] = {{fd[0], POLLIN, 0}, {fd[1], POLLIN, 0}};
        poll(fds, 2, -1);
        for (bool more = true; more;) {
            bool there = pass(fd[0], fd[1]), back = pass(fd[1], fd[0]);
            more = there || back;
        }
    }
}
