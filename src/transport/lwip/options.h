/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the text of a transport says, behind "lwip:":
 *
 *   unix=PATH   a port of the switch that iwarp-link offers at PATH
 *   shm=PATH    one of the two ends of a pair of rings in the file PATH
 *   tap=NAME    a tap interface by name, with the rights for that
 *   xdp=NAME    queue 0 of a network interface, by AF_XDP, with the rights for that
 *   fd=NUMBER   a descriptor handed in: a tap, or a socket that keeps the borders of frames
 *
 * and then, by commas: addr=ADDRESS/PREFIX (IPv4 or IPv6, each at most once), gw=ADDRESS (IPv4),
 * mtu=OCTETS (1500).
 */
#ifndef IWARP_LWIP_OPTIONS_H
#define IWARP_LWIP_OPTIONS_H

#include <iwarp/status.h>
#include <netinet/in.h>
#include <stdbool.h>

#define IWARP_LW_TEXT     512
#define IWARP_LW_ETHERNET 14 /* octets of a frame's header */

/* Octets of a packet: the default; what IPv4 and IPv6 ask for; what lwIP's 16 bits allow. */
#define IWARP_LW_MTU        1500
#define IWARP_LW_MTU_LEAST  576
#define IWARP_LW_MTU_LEAST6 1280
#define IWARP_LW_MTU_MOST   65000

/* Of the largest frame, with a tag that others may have put into it. */
#define IWARP_LW_FRAME(mtu) (IWARP_LW_ETHERNET + (mtu) + 4u)

enum iwarp_lw_kind { IWARP_LW_UNIX, IWARP_LW_SHM, IWARP_LW_TAP, IWARP_LW_XDP, IWARP_LW_FD };

struct iwarp_lw_options {
    char text[IWARP_LW_TEXT]; /* all of it */
    enum iwarp_lw_kind kind;
    char place[108]; /* path or name */
    int fd;
    bool has4, has6;
    struct in_addr addr, mask, gw; /* gw 0: none */
    struct in6_addr addr6;
    unsigned prefix6;
    unsigned mtu;
};

/* Not OK: iwarp_last_error says what is wrong with it. */
enum iwarp_status iwarp_lw_options_read(const char *text, struct iwarp_lw_options *o);

#endif
