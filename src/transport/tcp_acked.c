/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Apart from tcp.c: the kernel's structure has this count, and that of the C library, which has
 * the same name and comes with libuv's header, has not.
 */
#include "transport/tcp_acked.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/socket.h>

bool iwarp_tcp_acked(int fd, uint64_t *octets)
{
    struct tcp_info info;
    socklen_t len = sizeof info;

    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) != 0 ||
        len < offsetof(struct tcp_info, tcpi_bytes_acked) + sizeof info.tcpi_bytes_acked) {
        return false;
    }
    *octets = info.tcpi_bytes_acked;
    return true;
}
